/* SPDX-License-Identifier: MIT */
/* Reading headers from files: long ones in pieces, hostile ones in little memory, files that change
 * or fail under the reader, and every model at hand. */
#include "base/mem.h"
#include "gguf_bytes.h"
#include "inject.h"
#include "json_read.h"
#include "tap.h"
#include "temp.h"

#include <dirent.h>
#include <sys/resource.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

static long peak_kib(void)
{
    struct rusage u;
    (void)getrusage(RUSAGE_SELF, &u);
    return u.ru_maxrss;
}

/* A hole behind the image: a large file that costs nothing. */
static const char *write_with_hole(const struct gguf_bytes *b, uint64_t file_bytes)
{
    const char *path = temp_write("hole.gguf", b->p, b->n);
    if (truncate(path, (off_t)file_bytes)) {
        perror(path);
        exit(1);
    }
    return path;
}

static void hostile(const struct gguf_bytes *b, uint64_t file_bytes, const char *part,
                    const char *what)
{
    struct sm_gguf *g;
    smol_error err = {0};
    const size_t held = sm_mem_held();
    const long before = peak_kib();
    const smol_status st = sm_gguf_open(&g, write_with_hole(b, file_bytes), &err);
    const long grown = peak_kib() - before;
    TAP_OK(st != SMOL_OK && !g && gb_is_sentence(&err) && strstr(err.msg, part), "%s: %s", what,
           err.msg);
    if (SANITIZED)
        TAP_SKIP(1, "peak memory means nothing under the address sanitizer");
    else
        TAP_OK(grown < 8192, "%s: peak memory grew by %ld KiB", what, grown);
    TAP_IS_INT(sm_mem_held(), held, "nothing held");
}

static void test_hostile(void)
{
    struct gguf_bytes b = {0};
    const uint64_t size = UINT64_C(4) << 30;
    gb_head(&b, 3, 1000000, 65536);
    hostile(&b, size, "byte 24 is empty", "largest counts, then zeros");
    gb_head(&b, 3, 1000000, 0);
    hostile(&b, size, "expected 1 to 63, found 0", "a million tensors, then zeros");
    gb_head(&b, 3, 0, 1);
    gb_key(&b, "k", SM_KV_ARRAY);
    gb_u32(&b, SM_KV_STRING);
    gb_u64(&b, UINT64_C(1) << 28);
    hostile(&b, size, "512 MiB", "2^28 empty strings");
    gb_head(&b, 3, 0, 1);
    gb_key(&b, "k", SM_KV_ARRAY);
    gb_u32(&b, SM_KV_U8);
    gb_u64(&b, UINT64_C(3) << 30);
    hostile(&b, size, "512 MiB", "array of 3 GiB");
    gb_head(&b, 3, 0, 2);
    gb_key(&b, "k", SM_KV_ARRAY);
    gb_u32(&b, SM_KV_U64);
    gb_u64(&b, 50000000);
    hostile(&b, size, "is empty", "array of 400 MB, then zeros");
    gb_head(&b, 3, 0, 2);
    gb_key(&b, "k", SM_KV_STRING);
    gb_u64(&b, 16 << 20);
    hostile(&b, size, "is empty", "string of 16 MiB, then zeros");
    gb_head(&b, 3, 0, 1);
    gb_u64(&b, 65536);
    hostile(&b, size, "contains a zero byte", "key of 64 KiB zeros");
    b.n = 0;
    gb_u8(&b, 0);
    hostile(&b, size, "nothing but zero bytes", "4 GiB of zeros");
    gb_head(&b, 3, 1, 0);
    gb_tensor1(&b, "a", UINT64_C(1) << 40, 0, 0);
    hostile(&b, size, "cut short", "a tensor of 4 TiB");
    gb_free(&b);
    (void)unlink(temp_path("hole.gguf"));
}

/* A header of about 6 MB: beyond what is kept by the first walk, with arrays that are stepped over
 * across the border and strings that straddle the window's end. */
static size_t long_header(struct gguf_bytes *b)
{
    char text[3000];
    gb_head(b, 3, 2, 5);
    gb_key(b, "first", SM_KV_ARRAY);
    gb_u32(b, SM_KV_STRING);
    gb_u64(b, 1500);
    for (unsigned i = 0; i < 1500; i++) {
        memset(text, 'a' + (int)(i % 26), sizeof text);
        text[tap_random_below(sizeof text)] = 0;
        gb_str(b, text);
    }
    gb_key(b, "numbers", SM_KV_ARRAY);
    gb_u32(b, SM_KV_U32);
    gb_u64(b, 500000);
    for (unsigned i = 0; i < 500000; i++) gb_u32(b, i);
    gb_key(b, "second", SM_KV_ARRAY);
    gb_u32(b, SM_KV_STRING);
    gb_u64(b, 50000);
    for (unsigned i = 0; i < 50000; i++) gb_str(b, &"0123456789"[i % 11]);
    gb_kv_u32(b, "general.alignment", 64);
    gb_kv_str(b, "last", "value");
    gb_tensor1(b, "a", 5, 0, 0);
    gb_tensor1(b, "b", 1000, 0, 64);
    gb_pad(b, 64);
    const size_t head = b->n;
    gb_zeros(b, 64 + 4000);
    return head;
}

static bool same_kv(const struct sm_gguf *a, const struct sm_gguf *b)
{
    bool same = sm_gguf_n_kv(a) == sm_gguf_n_kv(b);
    for (size_t i = 0; same && i < sm_gguf_n_kv(a); i++) {
        const struct sm_kv *x = sm_gguf_kv(a, i), *y = sm_gguf_kv(b, i);
        same = x->type == y->type && x->count == y->count && x->bytes == y->bytes &&
               x->at == y->at && !memcmp(x->data, y->data, (size_t)x->bytes);
    }
    return same;
}

static void test_long_header(void)
{
    struct gguf_bytes b = {0};
    struct sm_gguf *f, *m;
    smol_error err = {0};
    uint64_t n = 0, at = 0;
    struct sm_str s;
    const size_t head = long_header(&b);
    const char *path = temp_write("long.gguf", b.p, b.n);
    TAP_OK(!sm_gguf_parse(&m, b.p, b.n, b.n, &err), "from memory: %s", err.msg);
    TAP_OK(!sm_gguf_open(&f, path, &err), "from a file: %s", err.msg);
    TAP_OK(same_kv(f, m), "the same pairs");
    const struct sm_kv *kv = sm_gguf_find(f, "second");
    while (sm_gguf_next_str(kv, &at, &s)) n++;
    TAP_IS_INT(n, 50000, "strings of the second array");
    TAP_IS_INT(sm_gguf_tensor(f, 0)->at, head, "data begins behind the header");
    TAP_IS_INT(sm_gguf_alignment(f), 64, "alignment");
    sm_gguf_drop_arrays(f);
    TAP_OK(sm_gguf_memory(f) < 4096, "dropped to %zu bytes", sm_gguf_memory(f));
    sm_gguf_free(f);
    sm_gguf_free(m);
    /* cut inside the header, in the part that is read through the window */
    TAP_OK(!truncate(path, (off_t)head - 3000), "cut");
    TAP_OK(sm_gguf_open(&f, path, &err) == SMOL_FORMAT && gb_is_sentence(&err), "%s", err.msg);
    gb_free(&b);
}

/* Faults below the file layer at every read of a long header. */
static void test_faults(void)
{
    static const struct { enum inject_kind kind; bool harmless; const char *name; } faults[] = {
        {INJECT_EIO, false, "EIO"}, {INJECT_END, false, "end"},
        {INJECT_SHORT, true, "short"}, {INJECT_EINTR, true, "EINTR"}};
    struct gguf_bytes b = {0};
    (void)long_header(&b);
    const char *path = temp_write("long.gguf", b.p, b.n);
    const size_t held = sm_mem_held();
    for (size_t k = 0; k < sizeof faults / sizeof *faults; k++) {
        unsigned n_wrong = 0, n = 1;
        for (; n < 1000; n++) {
            struct sm_gguf *g;
            smol_error err = {0};
            inject_start();
            const unsigned rule = inject_add(&(struct inject_rule){
                .kind = faults[k].kind, .on = INJECT_READ, .first = n, .amount = 7});
            const smol_status st = sm_gguf_open(&g, path, &err);
            const bool fired = inject_fired(rule) > 0;
            inject_stop();
            if ((st == SMOL_OK) != (faults[k].harmless || !fired) ||
                (st != SMOL_OK && !gb_is_sentence(&err))) {
                n_wrong++;
                printf("# read %u: status %d %s\n", n, (int)st, err.msg);
            }
            sm_gguf_free(g);
            if (!fired) break;
        }
        TAP_OK(n > 5 && n_wrong == 0, "%s at each of %u reads", faults[k].name, n - 1);
    }
    TAP_IS_INT(sm_mem_held(), held, "nothing held");
    gb_free(&b);
}

/* A bit that changes between the two reads of a long header is seen or harmless, never a crash. */
static void test_flips(void)
{
    struct gguf_bytes b = {0};
    struct sm_gguf *g;
    const size_t head = long_header(&b);
    const char *path = temp_write("long.gguf", b.p, b.n);
    const size_t held = sm_mem_held();
    unsigned n_refused = 0;
    inject_start();
    TAP_OK(sm_gguf_open(&g, path, NULL) == SMOL_OK, "opened");
    const uint64_t n_reads = inject_count(INJECT_READ);
    inject_stop();
    sm_gguf_free(g);
    for (unsigned i = 0; i < 25; i++) { /* keys, lengths, names, sizes, types, offsets */
        smol_error err = {0};
        inject_start();
        const unsigned rule = inject_add(&(struct inject_rule){
            .kind = INJECT_FLIP, .on = INJECT_READ, .first = n_reads, .has_at = true,
            .at = head - 214 + 6 * i});
        const smol_status st = sm_gguf_open(&g, path, &err);
        if (inject_fired(rule) != 1) printf("# flip %u did not happen\n", i);
        inject_stop();
        if (st != SMOL_OK && gb_is_sentence(&err)) n_refused++;
        sm_gguf_free(g);
    }
    TAP_OK(n_refused > 10, "%u of 25 flips in the second read were noticed", n_refused);
    TAP_IS_INT(sm_mem_held(), held, "nothing held");
    gb_free(&b);
}

static void test_models(const char *dir, bool required)
{
    unsigned n = 0;
    DIR *d = opendir(dir);
    if (!d) {
        if (required) TAP_OK(0, "%s: no such folder", dir);
        else TAP_SKIP(1, "the shared fixtures are not there");
        return;
    }
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        char path[1024];
        struct sm_gguf *g;
        smol_error err = {0};
        const size_t len = strlen(e->d_name);
        if (len < 5 || strcmp(e->d_name + len - 5, ".gguf")) continue;
        (void)snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
        TAP_OK(!sm_gguf_open(&g, path, &err), "%s %s", e->d_name, err.msg);
        if (g) TAP_OK(sm_gguf_find(g, "general.architecture") != NULL, "has an architecture");
        sm_gguf_free(g);
        n++;
    }
    (void)closedir(d);
    TAP_OK(n > 0, "%u models in %s", n, dir);
}

static void test_paths(void)
{
    struct sm_gguf *g;
    smol_error missing = {0}, folder = {0}, empty = {0};
    TAP_OK(sm_gguf_open(&g, "/nowhere/x.gguf", &missing) && !g && gb_is_sentence(&missing), "%s",
           missing.msg);
    TAP_OK(sm_gguf_open(&g, "/", &folder) && !g && strstr(folder.msg, "director"), "%s",
           folder.msg);
    TAP_OK(sm_gguf_open(&g, temp_write("empty.gguf", "", 0), &empty) &&
               strstr(empty.msg, "is empty"),
           "%s", empty.msg);
}

int main(int argc, char **argv)
{
    char path[512];
    tap_init(argc, argv);
    test_hostile(); /* first: it looks at the peak of memory */
    test_long_header();
    test_faults();
    test_flips();
    test_models(tap_src(path, sizeof path, "tests/data/models"), true);
    test_models(tap_shared(path, sizeof path, "models"), false);
    test_models(tap_shared(path, sizeof path, "vocab"), false);
    test_paths();
    return tap_done();
}
