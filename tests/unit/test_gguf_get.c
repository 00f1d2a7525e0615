/* SPDX-License-Identifier: MIT */
/* Typed getters, iteration and dropping of arrays. */
#include "gguf_bytes.h"
#include "tap.h"

#include <math.h>

static struct sm_gguf *make(void)
{
    struct gguf_bytes b = {0};
    struct sm_gguf *g;
    smol_error err = {0};
    gb_head(&b, 3, 1, 19);
    gb_key(&b, "u8", SM_KV_U8), gb_u8(&b, 200);
    gb_key(&b, "i8", SM_KV_I8), gb_u8(&b, 0xff);
    gb_key(&b, "u16", SM_KV_U16), gb_u16(&b, 60000);
    gb_key(&b, "i16", SM_KV_I16), gb_u16(&b, 0x8000);
    gb_key(&b, "u32", SM_KV_U32), gb_u32(&b, 4000000000u);
    gb_key(&b, "i32", SM_KV_I32), gb_u32(&b, 7);
    gb_key(&b, "u64", SM_KV_U64), gb_u64(&b, UINT64_MAX);
    gb_key(&b, "i64", SM_KV_I64), gb_u64(&b, UINT64_MAX);
    gb_key(&b, "f32", SM_KV_FLOAT32), gb_f32(&b, 0.5f);
    gb_key(&b, "f64", SM_KV_FLOAT64), gb_f64(&b, 1e300);
    gb_key(&b, "yes", SM_KV_BOOL), gb_u8(&b, 7);
    gb_key(&b, "no", SM_KV_BOOL), gb_u8(&b, 0);
    gb_kv_str(&b, "str", "text");
    gb_kv_str(&b, "none", "");
    gb_key(&b, "heads", SM_KV_ARRAY);
    gb_u32(&b, SM_KV_I32), gb_u64(&b, 3), gb_u32(&b, 8), gb_u32(&b, 0), gb_u32(&b, 0xfffffffe);
    gb_key(&b, "words", SM_KV_ARRAY);
    gb_u32(&b, SM_KV_STRING), gb_u64(&b, 3), gb_str(&b, "a"), gb_str(&b, ""), gb_str(&b, "bcd");
    gb_key(&b, "empty", SM_KV_ARRAY);
    gb_u32(&b, SM_KV_STRING), gb_u64(&b, 0);
    gb_key(&b, "large", SM_KV_ARRAY);
    gb_u32(&b, SM_KV_U16), gb_u64(&b, 40000), gb_zeros(&b, 80000);
    gb_kv_u32(&b, "last", 99);
    gb_tensor1(&b, "t", 1, 0, 0);
    gb_pad(&b, 32);
    gb_f32(&b, 1);
    if (!TAP_OK(sm_gguf_parse(&g, b.p, b.n, b.n, &err) == SMOL_OK, "parsed")) {
        printf("# %s\n", err.msg);
        exit(tap_done());
    }
    gb_free(&b);
    return g;
}

static void is_u64(const struct sm_gguf *g, const char *key, uint64_t want)
{
    uint64_t v = 12345;
    bool found = false;
    smol_error err = {0};
    const smol_status st = sm_gguf_u64(g, key, 0, UINT64_MAX, &v, &found, &err);
    TAP_OK(st == SMOL_OK && found && v == want, "%s is %" PRIu64, key, want);
}

static void fails(smol_status st, const smol_error *err, const char *part)
{
    TAP_OK(st == SMOL_FORMAT && gb_is_sentence(err) && strstr(err->msg, part), "fails: %s", part);
    printf("# %s\n", err->msg);
}

static void test_integers(const struct sm_gguf *g)
{
    uint64_t v = 1;
    bool found = true;
    smol_error err = {0};
    is_u64(g, "u8", 200);
    is_u64(g, "u16", 60000);
    is_u64(g, "u32", 4000000000u);
    is_u64(g, "i32", 7);
    is_u64(g, "u64", UINT64_MAX);
    static const char *const negative[] = {"i8", "i16", "i64"};
    static const char *const text[] = {"found -1", "found -32768", "found -1"};
    for (unsigned i = 0; i < 3; i++) {
        memset(&err, 0, sizeof err);
        fails(sm_gguf_u64(g, negative[i], 0, UINT64_MAX, &v, &found, &err), &err, text[i]);
    }
    memset(&err, 0, sizeof err);
    fails(sm_gguf_u64(g, "u8", 1, 199, &v, &found, &err), &err, "expected 1 to 199, found 200");
    memset(&err, 0, sizeof err);
    fails(sm_gguf_u64(g, "str", 0, 1, &v, &found, &err), &err, "expected an integer, found string");
    memset(&err, 0, sizeof err);
    fails(sm_gguf_u64(g, "f32", 0, 1, &v, &found, &err), &err, "found f32");
    memset(&err, 0, sizeof err);
    fails(sm_gguf_u64(g, "yes", 0, 1, &v, &found, &err), &err, "found bool");
    memset(&err, 0, sizeof err);
    fails(sm_gguf_u64(g, "heads", 0, 9, &v, &found, &err), &err, "found an array of i32");
    memset(&err, 0, sizeof err);
    fails(sm_gguf_u64(g, "gone", 0, 9, &v, NULL, &err), &err, "required key 'gone' is missing");
    memset(&err, 0, sizeof err);
    TAP_OK(sm_gguf_u64(g, "gone", 0, 9, &v, &found, &err) == SMOL_OK && !found && v == 1,
           "absent and not required: nothing is written");
}

static void test_per_layer(const struct sm_gguf *g)
{
    uint64_t v = 0;
    bool found = false;
    smol_error err = {0};
    TAP_OK(!sm_gguf_u64_at(g, "heads", 0, 0, 99, &v, &found, &err) && v == 8, "element 0");
    TAP_OK(!sm_gguf_u64_at(g, "heads", 1, 0, 99, &v, &found, &err) && v == 0, "element 1");
    fails(sm_gguf_u64_at(g, "heads", 2, 0, 99, &v, &found, &err), &err, "found -2");
    memset(&err, 0, sizeof err);
    fails(sm_gguf_u64_at(g, "heads", 3, 0, 99, &v, &found, &err), &err,
          "at least 4 elements, found 3");
    memset(&err, 0, sizeof err);
    fails(sm_gguf_u64_at(g, "words", 0, 0, 99, &v, &found, &err), &err, "an array of string");
    memset(&err, 0, sizeof err);
    TAP_OK(!sm_gguf_u64_at(g, "i32", 31, 0, 99, &v, &found, &err) && v == 7,
           "scalar for all layers");
}

static void test_others(const struct sm_gguf *g)
{
    double d = 0;
    bool flag = false, found = false;
    struct sm_str s = {0};
    smol_error err = {0};
    TAP_OK(!sm_gguf_f64(g, "f32", &d, &found, &err) && d == 0.5, "f32");
    TAP_OK(!sm_gguf_f64(g, "f64", &d, &found, &err) && d == 1e300, "f64");
    TAP_OK(!sm_gguf_f64(g, "i64", &d, &found, &err) && d == -1, "i64 as float");
    TAP_OK(!sm_gguf_f64(g, "u64", &d, &found, &err) && d == 0x1p64, "u64 as float");
    fails(sm_gguf_f64(g, "yes", &d, &found, &err), &err, "expected a number, found bool");
    TAP_OK(!sm_gguf_bool(g, "yes", &flag, &found, &err) && flag, "byte 7 is true");
    TAP_OK(!sm_gguf_bool(g, "no", &flag, &found, &err) && !flag, "byte 0 is false");
    memset(&err, 0, sizeof err);
    fails(sm_gguf_bool(g, "u8", &flag, &found, &err), &err, "expected a bool, found u8");
    TAP_OK(!sm_gguf_str(g, "str", &s, &found, &err) && s.n == 4 && !memcmp(s.p, "text", 4),
           "string");
    TAP_OK(!sm_gguf_str(g, "none", &s, &found, &err) && s.n == 0, "empty string");
    memset(&err, 0, sizeof err);
    fails(sm_gguf_str(g, "u8", &s, &found, &err), &err, "expected a string, found u8");
    memset(&err, 0, sizeof err);
    fails(sm_gguf_str(g, "words", &s, NULL, &err), &err, "found an array of string");
}

static void test_strings(const struct sm_gguf *g)
{
    static const char *const want[] = {"a", "", "bcd"};
    const struct sm_kv *kv = sm_gguf_find(g, "words");
    struct sm_str s;
    uint64_t at = 0;
    unsigned n = 0;
    while (sm_gguf_next_str(kv, &at, &s) && n < 3) {
        TAP_OK(s.n == strlen(want[n]) && !memcmp(s.p, want[n], s.n), "word %u", n);
        n++;
    }
    TAP_IS_INT(n, 3, "three words");
    at = 0;
    TAP_OK(!sm_gguf_next_str(sm_gguf_find(g, "empty"), &at, &s), "empty array");
    TAP_OK(!sm_gguf_next_str(sm_gguf_find(g, "heads"), &at, &s), "not strings");
    TAP_OK(!sm_gguf_next_str(sm_gguf_find(g, "str"), &at, &s), "no array");
}

int main(int argc, char **argv)
{
    tap_init(argc, argv);
    struct sm_gguf *g = make();
    test_integers(g);
    test_per_layer(g);
    test_others(g);
    test_strings(g);
    const size_t before = sm_gguf_memory(g), n = sm_gguf_n_kv(g);
    TAP_OK(sm_gguf_find(g, "large") != NULL, "large array is there");
    sm_gguf_drop_arrays(g);
    TAP_OK(!sm_gguf_find(g, "large") && sm_gguf_n_kv(g) == n - 1, "large array is dropped");
    TAP_OK(sm_gguf_memory(g) + 80000 < before, "memory: %zu, was %zu", sm_gguf_memory(g), before);
    sm_gguf_drop_arrays(g);
    is_u64(g, "last", 99);
    TAP_OK(!strcmp(sm_gguf_tensor(g, 0)->name, "t") && sm_gguf_find_tensor(g, "t"), "tensors stay");
    TAP_OK(!sm_gguf_kv(g, n) && !sm_gguf_tensor(g, 1) && !sm_gguf_file_path(g, 1), "past the end");
    test_integers(g);
    test_strings(g);
    sm_gguf_free(g);
    sm_gguf_free(NULL);
    return tap_done();
}
