/* SPDX-License-Identifier: MIT */
/* Every fault below sm_file ends in the right bytes or in one clear error. */
#include "tap.h"

#include "base/log.h"
#include "inject.h"
#include "plat/plat.h"
#include "temp.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#define FILE_BYTES (600u * 1000u + 123u) /* ends inside a block */

static uint8_t *content, *stage;
static const char *path;
static bool direct_works;

static struct sm_file *open_file(bool direct)
{
    struct sm_file *f = NULL;
    smol_error err = {0};
    if (sm_file_open(&f, path, direct, &err) != SMOL_OK) printf("# %s\n", err.msg);
    inject_zero_counts();
    return f;
}

/* Reads [at, at + n) both ways of one call and compares. */
static bool reads_right(struct sm_file *f, bool direct, uint64_t at, size_t n, smol_error *err)
{
    const uint8_t *data = stage;
    memset(stage, 0xee, n + 2 * SM_IO_ALIGN);
    const smol_status st = direct ? sm_file_read_direct(f, at, n, stage, &data, err)
                                  : sm_file_read(f, at, stage, n, err);
    return st == SMOL_OK && !memcmp(data, content + at, n);
}

static void test_recovers(enum inject_kind kind, uint64_t amount, const char *name)
{
    for (int direct = 0; direct < 2; direct++) {
        if (direct && !direct_works) {
            TAP_SKIP(2, "no direct reads on this file system");
            continue;
        }
        inject_start();
        smol_error err = {0};
        struct sm_file *f = open_file(direct != 0);
        const unsigned r = inject_add(&(struct inject_rule){.kind = kind,
                                                            .on = INJECT_READ,
                                                            .first = 1,
                                                            .count = UINT64_MAX,
                                                            .every = kind == INJECT_EINTR ? 2 : 0,
                                                            .amount = amount});
        bool good = f != NULL;
        for (unsigned i = 0; i < 40 && good; i++) {
            const size_t n = 1 + tap_random_below(100000);
            good = reads_right(f, direct != 0, tap_random_below(FILE_BYTES - n), n, &err);
        }
        TAP_OK(good, "%s, direct %d: right bytes (%s)", name, direct, err.msg);
        TAP_OK(inject_fired(r) >= 40, "%s, direct %d: fired %u times", name, direct,
               (unsigned)inject_fired(r));
        sm_file_close(f);
        inject_stop();
    }
}

static void test_error(enum inject_kind kind, bool direct, smol_status want, const char *words)
{
    inject_start();
    smol_error err = {0};
    struct sm_file *f = open_file(direct);
    (void)inject_add(&(struct inject_rule){.kind = kind,
                                           .on = INJECT_READ,
                                           .first = 3,
                                           .count = UINT64_MAX,
                                           .at = 300000,
                                           .has_at = true});
    bool before =
        f && reads_right(f, direct, 1000, 5000, &err) && reads_right(f, direct, 9000, 5000, &err);
    TAP_OK(before && err.code == SMOL_OK, "fault %d, direct %d: good before", kind, direct);
    TAP_OK(f && !reads_right(f, direct, 290001, 20000, &err), "fails");
    TAP_IS_INT(err.code, want, "status");
    TAP_OK(strstr(err.msg, words) && strstr(err.msg, "data.bin"), "sentence: %s", err.msg);
    sm_file_close(f);
    inject_stop();
}

static void test_refused_open(void)
{
    inject_start();
    smol_error err = {0};
    const unsigned r =
        inject_add(&(struct inject_rule){.kind = INJECT_EINVAL, .on = INJECT_OPEN_DIRECT});
    struct sm_file *f = open_file(true);
    TAP_OK(inject_fired(r) == 1 && f && !sm_file_is_direct(f), "refused on open: buffered");
    TAP_OK(f && reads_right(f, true, 4095, 70000, &err), "and right");
    TAP_IS_INT(inject_count(INJECT_DIRECT), 0, "no direct read is tried again");
    sm_file_close(f);
    inject_stop();
}

static void take_note(void *arg, const char *text)
{
    if (strstr(text, "data.bin: the file system refused a direct read")) *(unsigned *)arg += 1;
}

/* The n-th direct read is refused, n = 1 being the trial read of sm_file_open. */
static void test_refused_read(unsigned n)
{
    inject_start();
    smol_error err = {0};
    const unsigned r =
        inject_add(&(struct inject_rule){.kind = INJECT_EINVAL, .on = INJECT_DIRECT, .first = n});
    struct sm_file *f = NULL;
    unsigned n_notes = 0;
    sm_log_set(take_note, &n_notes);
    (void)!sm_file_open(&f, path, true, &err);
    bool good = f != NULL;
    const bool was_direct = good && sm_file_is_direct(f);
    for (unsigned i = 0; i < n + 2 && good; i++)
        good = reads_right(f, true, 5000 + 10000 * i, 20000, &err);
    TAP_OK(good, "direct read %u refused: right bytes (%s)", n, err.msg);
    TAP_OK(inject_fired(r) == 1 && f && !sm_file_is_direct(f), "buffered from then on");
    TAP_IS_INT(n_notes, was_direct, "said once, unless it was known at once");
    const uint64_t n_direct = inject_count(INJECT_DIRECT);
    TAP_OK(f && reads_right(f, true, 0, 100000, &err) && inject_count(INJECT_DIRECT) == n_direct,
           "no direct read is tried again");
    sm_file_close(f);
    sm_log_set(NULL, NULL);
    inject_stop();
}

static void test_flip_is_seen(void)
{
    inject_start();
    smol_error err = {0};
    struct sm_file *f = open_file(true);
    const unsigned r = inject_add(
        &(struct inject_rule){.kind = INJECT_FLIP, .on = INJECT_READ, .at = 50001, .has_at = true});
    const uint8_t *data = NULL;
    const smol_status st = f ? sm_file_read_direct(f, 49000, 3000, stage, &data, &err) : SMOL_IO;
    TAP_OK(st == SMOL_OK && data[1001] == (content[50001] ^ 1) && inject_fired(r) == 1,
           "the injector flips the bit that was named");
    TAP_OK(reads_right(f, true, 49000, 3000, &err), "once");
    sm_file_close(f);
    inject_stop();
}

static void test_really_cut(void)
{
    for (int direct = 0; direct < 2; direct++) {
        const char *name = temp_write("data.bin.cut", content, FILE_BYTES);
        smol_error err = {0};
        struct sm_file *f = NULL;
        const uint8_t *data = stage;
        TAP_IS_INT(sm_file_open(&f, name, direct != 0, &err), SMOL_OK, "opens");
        if (truncate(name, 400001)) printf("# cannot truncate\n");
        const smol_status st = direct ? sm_file_read_direct(f, 390000, 20000, stage, &data, &err)
                                      : sm_file_read(f, 390000, stage, 20000, &err);
        TAP_IS_INT(st, SMOL_FORMAT, "cut while open");
        TAP_OK(strstr(err.msg, "was cut while in use") && strstr(err.msg, "400001"), "%s", err.msg);
        TAP_IS_INT(err.at, 390000, "offset in the error");
        sm_file_close(f);
    }
}

int main(int argc, char **argv)
{
    tap_init(argc, argv);
    content = malloc(FILE_BYTES);
    stage = aligned_alloc(SM_IO_ALIGN, 1u << 20);
    if (!content || !stage) return 1;
    for (size_t i = 0; i < FILE_BYTES; i++) content[i] = (uint8_t)(tap_random() >> 24);
    path = temp_write("data.bin", content, FILE_BYTES);

    struct sm_file *f = NULL;
    if (sm_file_open(&f, path, true, NULL) == SMOL_OK) direct_works = sm_file_is_direct(f);
    sm_file_close(f);

    test_recovers(INJECT_EINTR, 0, "EINTR");
    test_recovers(INJECT_SHORT, 4096, "short reads of one block");
    test_recovers(INJECT_SHORT, 4097, "short reads that end inside a block");
    test_recovers(INJECT_SHORT, 777, "short reads below a block");
    test_recovers(INJECT_DELAY, 50, "slow reads");
    test_error(INJECT_EIO, false, SMOL_IO, "Input/output error");
    test_error(INJECT_END, false, SMOL_FORMAT, "ends at 300000");
    test_error(INJECT_EINVAL, false, SMOL_IO, "Invalid argument");
    if (direct_works) {
        test_error(INJECT_EIO, true, SMOL_IO, "Input/output error");
        test_error(INJECT_END, true, SMOL_FORMAT, "ends at 300000");
        test_refused_open();
        for (unsigned n = 1; n < 8; n++) test_refused_read(n);
        test_flip_is_seen();
    } else {
        TAP_SKIP(1, "no direct reads on this file system");
    }
    test_really_cut();
    free(content);
    free(stage);
    return tap_done();
}
