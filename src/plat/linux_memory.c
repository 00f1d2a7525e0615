/* SPDX-License-Identifier: MIT */
/* What memory the system would concede now, and anonymous pages, on Linux. */
#include "plat/plat.h"

#include "base/mem.h"
#include "plat/memory_files.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/vfs.h>

#define HUGE_BYTES ((size_t)2 << 20)

void sm_memory_probe(struct sm_memory *out) { sm_memory_probe_at("", out); }

#define FIND_EVERY_NS 10000000000u

struct sm_memory_watch {
    struct sm_memory_files files;
    uint64_t found_ns;
};

struct sm_memory_watch *sm_memory_watch_new(void)
{
    struct sm_memory_watch *w = sm_mem_new(sizeof *w);
    if (!w) return NULL;
    sm_memory_files_open(&w->files, "", true);
    w->found_ns = sm_now_ns();
    return w;
}

void sm_memory_watch_look(struct sm_memory_watch *w, struct sm_memory *out)
{
    if (!w) {
        sm_memory_probe(out);
        return;
    }
    if (sm_now_ns() - w->found_ns > FIND_EVERY_NS) {
        sm_memory_files_close(&w->files);
        sm_memory_files_open(&w->files, "", true);
        w->found_ns = sm_now_ns();
    }
    sm_memory_files_look(&w->files, out);
}

void sm_memory_watch_free(struct sm_memory_watch *w)
{
    if (!w) return;
    sm_memory_files_close(&w->files);
    sm_mem_free(w, sizeof *w);
}

static atomic_size_t held;

smol_status sm_pages_reserve(void **out, size_t n, smol_error *err)
{
    const size_t page = sm_page_bytes();
    *out = NULL;
    if (n == 0 || n > SIZE_MAX / 2)
        return SM_FAIL(err, NOMEM, "no arena of %zu bytes is possible", n);
    const size_t bytes = sm_round_up(n, page);
    uint8_t *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return sm_fail(err, SMOL_NOMEM, errno, UINT64_MAX, SM_WHERE,
                       "the system refuses %zu bytes of memory: %s", bytes, strerror(errno));
#if defined MADV_HUGEPAGE && defined MADV_COLD
    /* only where a part can be given back (sm_pages_drop; Linux 5.4) */
    if (bytes >= 2 * HUGE_BYTES && madvise(p, page, MADV_COLD) == 0)
        (void)madvise(p, bytes, MADV_HUGEPAGE);
#endif
    atomic_fetch_add(&held, bytes);
    *out = p;
    return SMOL_OK;
}

void sm_pages_touch(void *p, size_t n)
{
    const size_t page = sm_page_bytes();
    for (size_t at = 0; at < n; at += page - (((uintptr_t)p + at) & (page - 1)))
        ((volatile uint8_t *)p)[at] = 0;
}

smol_status sm_pages_new(void **out, size_t n, smol_error *err)
{
    SM_TRY(sm_pages_reserve(out, n, err));
    sm_pages_touch(*out, n);
    return SMOL_OK;
}

void sm_pages_free(void *p, size_t n)
{
    if (!p) return;
    atomic_fetch_sub(&held, sm_round_up(n, sm_page_bytes()));
    (void)munmap(p, sm_round_up(n, sm_page_bytes()));
}

size_t sm_pages_held(void) { return atomic_load(&held); }

void sm_pages_drop(void *p, size_t n)
{
    const size_t bytes = n & ~(sm_page_bytes() - 1);
#ifdef MADV_COLD
    /* Of a huge page that is dropped in part nothing is free before the system wants to split it;
     * this splits it now. */
    (void)madvise(p, bytes, MADV_COLD);
#endif
    (void)madvise(p, bytes, MADV_DONTNEED);
}

const char *sm_file_system_hint(const char *path)
{
    static const struct {
        uint32_t magic;
        const char *name;
    } known[] = {
        {0x65735546u, "FUSE"},     {0x01021994u, "tmpfs"},    {0x858458f6u, "ramfs"},
        {0x01021997u, "9p"},       {0x00006969u, "NFS"},      {0xff534d42u, "CIFS"},
        {0xfe534d42u, "SMB"},      {0x5dca2df5u, "sdcardfs"}, {0x0000f15fu, "eCryptfs"},
        {0x73717368u, "squashfs"},
    };
    struct statfs fs;
    if (statfs(path, &fs)) return NULL;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if ((uint32_t)fs.f_type == known[i].magic) return known[i].name;
    return NULL;
}
