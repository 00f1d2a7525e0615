/* SPDX-License-Identifier: MIT */
/* The writer: a stock file written again is the same file, and nothing unreadable is written. */
#include "gguf/gguf_write.h"
#include "gguf_bytes.h"
#include "json_read.h"
#include "quant/quant.h"
#include "tap.h"
#include "temp.h"

#include <unistd.h>

/* Copy of `from` at `to` through the writer. */
static smol_status copy(const char *from, const char *to, smol_error *err)
{
    struct sm_gguf_writer *w = NULL;
    struct sm_gguf *g = NULL;
    size_t n;
    smol_status st;
    char *bytes = json_read_file(from, &n);
    if (!bytes) return SM_FAIL_SYS(err, "cannot read %s", from);
    SM_TRY_OUT(st, sm_gguf_open(&g, from, err));
    SM_TRY_OUT(st, sm_gguf_writer_new(&w, err));
    SM_TRY_OUT(st, sm_gguf_writer_copy_kv(w, g, err));
    for (size_t i = 0; i < sm_gguf_n_tensors(g); i++) {
        const struct sm_tensor_info *t = sm_gguf_tensor(g, i);
        SM_TRY_OUT(st, sm_gguf_writer_add_tensor(w, t->name, t->type, t->n_dims, t->dim, err));
    }
    SM_TRY_OUT(st, sm_gguf_writer_create(w, to, err));
    for (size_t i = 0; i < sm_gguf_n_tensors(g); i++) {
        const struct sm_tensor_info *t = sm_gguf_tensor(g, i);
        const char *data = bytes + t->at;
        for (size_t at = 0; at < t->bytes;) { /* in odd pieces */
            const size_t left = (size_t)t->bytes - at;
            const size_t k = left < 1000 ? left : 1 + (size_t)tap_random_below(left);
            SM_TRY_OUT(st, sm_gguf_writer_put(w, data + at, k, err));
            at += k;
        }
    }
    st = sm_gguf_writer_end(w, err);
out:
    sm_gguf_writer_free(w);
    sm_gguf_free(g);
    free(bytes);
    return st;
}

static void test_copy(void)
{
    char from[512];
    size_t n = 0, m = 0;
    smol_error err = {0};
    (void)tap_src(from, sizeof from, "tests/data/models/rand-llama.gguf");
    const char *to = temp_path("copy.gguf");
    if (!TAP_OK(copy(from, to, &err) == SMOL_OK, "written")) printf("# %s\n", err.msg);
    char *a = json_read_file(from, &n), *b = json_read_file(to, &m);
    TAP_OK(a && b && n == m && !memcmp(a, b, n), "the same %zu bytes as the stock file", n);
    free(a);
    free(b);
    TAP_OK(access(temp_path("copy.gguf.part"), F_OK), "no temporary file is left");
}

static void expect(smol_status st, smol_status want, const smol_error *err, const char *what)
{
    if (!TAP_OK(st == want && (st == SMOL_OK || gb_is_sentence(err)), "%s", what) || st)
        printf("# %d %s\n", (int)st, err->msg);
}

static struct sm_gguf_writer *fresh(void)
{
    struct sm_gguf_writer *w;
    smol_error err = {0};
    if (sm_gguf_writer_new(&w, &err)) exit(1);
    return w;
}

static void test_keys(void)
{
    struct sm_gguf_writer *w = fresh();
    struct sm_gguf *g;
    smol_error err = {0};
    const struct sm_str words[] = {{"one", 3}, {"", 0}, {"t\0o", 3}};
    uint64_t v = 0, at = 0;
    bool flag = false;
    double d = 0;
    struct sm_str s;
    size_t n;
    expect(sm_gguf_writer_set_u32(w, "a", 1, &err), SMOL_OK, &err, "u32");
    expect(sm_gguf_writer_set_u64(w, "b", UINT64_MAX, &err), SMOL_OK, &err, "u64");
    expect(sm_gguf_writer_set_f32(w, "c", 0.25f, &err), SMOL_OK, &err, "f32");
    expect(sm_gguf_writer_set_bool(w, "d", true, &err), SMOL_OK, &err, "bool");
    expect(sm_gguf_writer_set_str(w, "e", "", &err), SMOL_OK, &err, "empty string");
    expect(sm_gguf_writer_set_strings(w, "f", words, 3, &err), SMOL_OK, &err, "strings");
    expect(sm_gguf_writer_set_strings(w, "g", NULL, 0, &err), SMOL_OK, &err, "no strings");
    expect(sm_gguf_writer_set_str(w, "a", "replaced", &err), SMOL_OK, &err, "replace");
    TAP_OK(sm_gguf_writer_remove(w, "b") && !sm_gguf_writer_remove(w, "b"), "remove");
    expect(sm_gguf_writer_seal(w, &err), SMOL_OK, &err, "seal");
    const uint8_t *head = sm_gguf_writer_head(w, &n);
    expect(sm_gguf_parse(&g, head, n, n, &err), SMOL_OK, &err, "read back");
    TAP_IS_INT(sm_gguf_n_kv(g), 6, "pairs");
    TAP_OK(!sm_gguf_str(g, "a", &s, NULL, &err) && s.n == 8 && sm_gguf_kv(g, 0)->key.p[0] == 'a',
           "a replaced key keeps its place");
    TAP_OK(!sm_gguf_f64(g, "c", &d, NULL, &err) && d == 0.25, "f32 back");
    TAP_OK(!sm_gguf_bool(g, "d", &flag, NULL, &err) && flag, "bool back");
    const struct sm_kv *kv = sm_gguf_find(g, "f");
    while (sm_gguf_next_str(kv, &at, &s) && v < 3) {
        TAP_OK(s.n == words[v].n && !memcmp(s.p, words[v].p, s.n), "word %d back", (int)v);
        v++;
    }
    TAP_IS_INT(v, 3, "three words");
    TAP_IS_INT(sm_gguf_find(g, "g")->count, 0, "no words");
    sm_gguf_free(g);
    sm_gguf_writer_free(w);
}

static void test_refusals(void)
{
    char name[65];
    const uint64_t dims[5] = {32, 1, 1, 1, 1}, odd = 33, huge = UINT64_C(1) << 62;
    struct sm_gguf_writer *w = fresh();
    smol_error err = {0}, e2 = {0}, e3 = {0}, e4 = {0}, e5 = {0}, e6 = {0}, e7 = {0};
    memset(name, 'x', 64);
    name[64] = 0;
    expect(sm_gguf_writer_add_tensor(w, name, 0, 1, dims, &err), SMOL_ARG, &err, "long name");
    expect(sm_gguf_writer_add_tensor(w, "", 0, 1, dims, &e2), SMOL_ARG, &e2, "no name");
    expect(sm_gguf_writer_add_tensor(w, "a", 0, 5, dims, &e3), SMOL_ARG, &e3, "five dimensions");
    expect(sm_gguf_writer_add_tensor(w, "a", 2, 1, &odd, &e4), SMOL_ARG, &e4, "part of a block");
    expect(sm_gguf_writer_add_tensor(w, "a", 99, 1, dims, &e5), SMOL_ARG, &e5, "unknown type");
    expect(sm_gguf_writer_add_tensor(w, "a", 0, 1, &huge, &e6), SMOL_ARG, &e6, "too large");
    expect(sm_gguf_writer_add_tensor(w, "a", 0, 1, dims, &e7), SMOL_OK, &e7, "one tensor");
    expect(sm_gguf_writer_add_tensor(w, "a", 0, 1, dims, &e7), SMOL_OK, &e7, "its double");
    expect(sm_gguf_writer_seal(w, &e7), SMOL_FORMAT, &e7, "a name twice");
    sm_gguf_writer_free(w);
    w = fresh();
    memset(&err, 0, sizeof err);
    expect(sm_gguf_writer_set_u32(w, "general.alignment", 48, &err), SMOL_OK, &err, "alignment 48");
    expect(sm_gguf_writer_seal(w, &err), SMOL_FORMAT, &err, "is refused");
    sm_gguf_writer_free(w);
    sm_gguf_writer_free(NULL);
}

static void test_unfinished(void)
{
    const uint64_t n = 8;
    const float data[9] = {0};
    const char *path = temp_path("x.gguf"), *part = temp_path("x.gguf.part");
    smol_error err = {0}, e2 = {0}, e3 = {0};
    struct sm_gguf_writer *w = fresh();
    expect(sm_gguf_writer_set_u32(w, "general.alignment", 4096, &err), SMOL_OK, &err, "alignment");
    expect(sm_gguf_writer_add_tensor(w, "a", SM_F32, 1, &n, &err), SMOL_OK, &err, "tensor");
    expect(sm_gguf_writer_create(w, path, &err), SMOL_OK, &err, "create");
    TAP_IS_INT(sm_gguf_writer_tensor_at(w, 0), 4096, "place of the data");
    TAP_IS_INT(sm_gguf_writer_tensor_bytes(w, 0), 32, "size of the data");
    TAP_IS_INT(sm_gguf_writer_file_bytes(w), 8192, "size of the file");
    expect(sm_gguf_writer_put(w, data, 31, &err), SMOL_OK, &err, "31 of 32 bytes");
    expect(sm_gguf_writer_end(w, &err), SMOL_ARG, &err, "end is refused");
    expect(sm_gguf_writer_put(w, data, 2, &e2), SMOL_ARG, &e2, "a byte too many is refused");
    TAP_OK(!access(part, F_OK) && access(path, F_OK), "only a temporary file so far");
    sm_gguf_writer_free(w);
    TAP_OK(access(part, F_OK), "an unfinished file is removed");
    w = fresh();
    expect(sm_gguf_writer_create(w, "/nowhere/at/all.gguf", &e3), SMOL_IO, &e3, "no such folder");
    sm_gguf_writer_free(w);
    if (access("/dev/full", W_OK)) return;
    w = fresh(); /* /dev/full.part cannot be made, so link the name that is written first */
    memset(&err, 0, sizeof err);
    TAP_OK(!symlink("/dev/full", part), "link to a full disk");
    expect(sm_gguf_writer_add_tensor(w, "a", SM_F32, 1, &n, &err), SMOL_OK, &err, "tensor");
    smol_status st = sm_gguf_writer_create(w, path, &err);
    if (!st) st = sm_gguf_writer_put(w, data, 32, &err);
    if (!st) st = sm_gguf_writer_end(w, &err);
    expect(st, SMOL_IO, &err, "a full disk is noticed");
    sm_gguf_writer_free(w);
    TAP_OK(access(path, F_OK), "and nothing appears");
}

int main(int argc, char **argv)
{
    tap_init(argc, argv);
    test_copy();
    test_keys();
    test_refusals();
    test_unfinished();
    return tap_done();
}
