/* SPDX-License-Identifier: MIT */
/* The n-th allocation fails, for every n: a clear status, nothing leaked, nothing half made. */
#include "tap.h"

#include "base/mem.h"
#include "fail_alloc.h"
#include "plat/plat.h"
#include "temp.h"

#include <string.h>

static const char *path;
static struct sm_file *file;
static struct sm_pool *pool;

static smol_status make_file(smol_error *err) { return sm_file_open(&file, path, true, err); }
static void drop_file(void) { sm_file_close(file); }
static smol_status make_pool(smol_error *err) { return sm_pool_new(&pool, 5, err); }
static void drop_pool(void) { sm_pool_free(pool); }
static smol_status make_replace(smol_error *err)
{
    return sm_file_replace(temp_path("replaced"), "x", 1, err);
}
static void drop_nothing(void) {}

static void every_failure(const char *name, smol_status (*make)(smol_error *), void (*drop)(void))
{
    /* In a static program libc's own calls are seen too; it keeps the stacks of ended threads. */
    if (make(NULL) == SMOL_OK) drop();
    const int64_t live = alloc_live();
    const size_t held = sm_mem_held();
    unsigned n_failures = 0;
    for (uint64_t n = 1; n < 100; n++) {
        smol_error err = {0};
        alloc_fail_at(n);
        const smol_status st = make(&err);
        const bool failed = alloc_failed();
        alloc_fail_at(0);
        if (st == SMOL_OK) drop();
        if (!failed) {
            TAP_OK(st == SMOL_OK && n_failures > 0, "%s: made after %u failures", name, n_failures);
            break;
        }
        n_failures++;
        /* the look at the page cache when a file is opened may fail: it only says nothing then */
        TAP_OK(st == SMOL_OK || (st == SMOL_NOMEM && err.msg[0]), "%s, allocation %u: %s", name,
               (unsigned)n, err.msg);
        TAP_IS_INT(alloc_live(), live, "nothing leaked");
        TAP_IS_INT(sm_mem_held(), held, "nothing held");
    }
    TAP_IS_INT(alloc_live(), live, name);
}

static void job(void *arg, unsigned worker, unsigned n)
{
    (void)arg;
    (void)worker;
    (void)n;
}

/* Reading and running jobs is what decoding does: no allocation there. */
static void test_no_allocation(void)
{
    uint8_t *stage = sm_mem_new((1u << 20) + 2 * SM_IO_ALIGN);
    const uint8_t *data = NULL;
    struct sm_memory m;
    bool good = !make_file(NULL) && !make_pool(NULL) && stage;
    alloc_fail_at(0);
    for (unsigned i = 0; i < 100 && good; i++) {
        good = !sm_file_read_direct(file, i * 100, 50000, stage, &data, NULL) &&
               !sm_file_read(file, i * 77, stage, 999, NULL);
        sm_pool_run(pool, job, NULL);
        sm_memory_probe(&m);
    }
    TAP_OK(good && alloc_count() == 0, "%u allocations in reads, jobs and probes",
           (unsigned)alloc_count());
    drop_file();
    drop_pool();
    sm_mem_free(stage, (1u << 20) + 2 * SM_IO_ALIGN);
}

int main(int argc, char **argv)
{
    tap_init(argc, argv);
    static uint8_t content[100000];
    char own[600];
    (void)snprintf(own, sizeof own, "%s", temp_write("data.bin", content, sizeof content));
    path = own;
    void *p = NULL;
    alloc_fail_at(1);
    TAP_OK(sm_pages_new(&p, 1u << 20, NULL) == SMOL_NOMEM && !p && alloc_failed(),
           "a refused mapping");
    alloc_fail_at(1);
    TAP_OK(!sm_mem_new(100) && alloc_failed(), "a refused block");
    alloc_fail_at(0);
    every_failure("file", make_file, drop_file);
    every_failure("pool", make_pool, drop_pool);
    every_failure("replace", make_replace, drop_nothing);
    test_no_allocation();
    return tap_done();
}
