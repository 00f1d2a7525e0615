/* SPDX-License-Identifier: MIT */
/* Malformed and odd GGUF images that have no file in the corpus, and files of other kinds. */
#include "quant/quant.h"
#include "gguf_bytes.h"
#include "tap.h"

static struct gguf_bytes b; /* the image under test */

static void test_start(void)
{
    b.n = 0;
    gb_put(&b, "GGU", 3);
    gb_refuse(&b, SMOL_FORMAT, "only 3 bytes", "three bytes");
    gb_head(&b, 0, 0, 0);
    gb_refuse(&b, SMOL_UNSUPPORTED, "expected 2 or 3, found 0", "version 0");
    gb_head(&b, 4, 0, 0);
    gb_refuse(&b, SMOL_UNSUPPORTED, "expected 2 or 3, found 4", "version 4");
    gb_head(&b, 0x02000000, 0, 0);
    gb_refuse(&b, SMOL_UNSUPPORTED, "big-endian", "big-endian version 2");
    gb_head(&b, 3, UINT64_MAX, 0);
    gb_refuse(&b, SMOL_FORMAT, "tensor count at byte 8", "tensor count -1");
    gb_head(&b, 2, 0, 0);
    gb_accept(&b, "24 bytes and nothing in them");
    gb_head(&b, 3, 1000001, 0);
    gb_refuse_in(&b, UINT64_C(1) << 40, SMOL_FORMAT, "at most 1000000",
                 "more tensors than the cap");
    gb_head(&b, 3, 0, 65537);
    gb_refuse_in(&b, UINT64_C(1) << 40, SMOL_FORMAT, "at most 65536", "more pairs than the cap");
    gb_head(&b, 3, 1, 0);
    gb_refuse_in(&b, UINT64_C(1) << 40, SMOL_FORMAT, "goes on past the 24 bytes",
                 "image too short");
    gb_refuse_in(&b, UINT64_MAX, SMOL_LIMIT, "too large", "a file of 2^64 - 1 bytes");
}

static void test_counts_off_by_one(void)
{
    gb_head(&b, 3, 1, 2); /* one pair, then a tensor record that is read as a pair */
    gb_kv_u32(&b, "k", 1);
    gb_tensor1(&b, "a", 8, SM_F32, 0);
    gb_pad(&b, 32);
    gb_zeros(&b, 32);
    gb_refuse(&b, SMOL_FORMAT, "", "one pair more than present");
    gb_head(&b, 3, 2, 0);
    gb_tensor1(&b, "a", 8, SM_F32, 0);
    gb_pad(&b, 32);
    gb_zeros(&b, 96);
    gb_refuse(&b, SMOL_FORMAT, "tensor name", "one tensor more than present");
}

static void test_keys(void)
{
    gb_head(&b, 3, 0, 1);
    gb_kv_u32(&b, "", 1);
    gb_refuse(&b, SMOL_FORMAT, "byte 24 is empty", "empty key");
    gb_head(&b, 3, 0, 1);
    gb_kv_u32(&b, "caf\xe9\xff", 1);
    gb_accept(&b, "key that is not UTF-8");
    gb_head(&b, 3, 0, 1);
    gb_u64(&b, UINT64_MAX);
    gb_zeros(&b, 64);
    gb_refuse(&b, SMOL_FORMAT, "length of a key at byte 24", "key of 2^64 - 1 bytes");
    gb_head(&b, 3, 0, 1);
    gb_u64(&b, 65537);
    gb_refuse_in(&b, 1 << 20, SMOL_FORMAT, "at most 65536", "key longer than 64 KiB");
    gb_head(&b, 3, 0, 2); /* same key, other value */
    gb_kv_u32(&b, "general.alignment", 64);
    gb_kv_u32(&b, "general.alignment", 32);
    gb_refuse(&b, SMOL_FORMAT, "occurs twice", "alignment given twice");
}

static void test_values(void)
{
    gb_head(&b, 3, 0, 1);
    gb_key(&b, "k", SM_KV_STRING);
    gb_u64(&b, UINT64_MAX);
    gb_zeros(&b, 8);
    gb_refuse(&b, SMOL_FORMAT, "length of the string of key 'k'", "string of 2^64 - 1 bytes");
    gb_head(&b, 3, 0, 1);
    gb_key(&b, "k", SM_KV_STRING);
    gb_u64(&b, (16 << 20) + 1);
    gb_refuse_in(&b, 1 << 30, SMOL_FORMAT, "at most 16777216", "string above 16 MiB");
    gb_head(&b, 3, 0, 1);
    gb_key(&b, "k", SM_KV_ARRAY);
    gb_u32(&b, SM_KV_U64);
    gb_u64(&b, UINT64_C(1) << 61);
    gb_zeros(&b, 8);
    gb_refuse(&b, SMOL_FORMAT, "array count", "array of 2^61 u64: bytes wrap to 0");
    gb_head(&b, 3, 0, 1);
    gb_key(&b, "k", SM_KV_ARRAY);
    gb_u32(&b, SM_KV_STRING);
    gb_u64(&b, UINT64_C(1) << 40);
    gb_zeros(&b, 8);
    gb_refuse(&b, SMOL_FORMAT, "array count", "array of 2^40 strings");
    gb_head(&b, 3, 0, 1);
    gb_key(&b, "k", SM_KV_ARRAY);
    gb_u32(&b, SM_KV_STRING);
    gb_u64(&b, 2);
    gb_str(&b, "one");
    gb_u64(&b, 9);
    gb_refuse(&b, SMOL_FORMAT, "length of a string of key 'k'", "last string past the end");
    gb_head(&b, 3, 0, 1);
    gb_key(&b, "k", SM_KV_BOOL);
    gb_u8(&b, 2);
    gb_accept(&b, "bool byte 2");
}

static void test_alignment(void)
{
    static const uint32_t bad[] = {0, 3, 33, 1u << 25, 1u << 30, 1u << 31, UINT32_MAX};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        gb_head(&b, 3, 0, 1);
        gb_kv_u32(&b, "general.alignment", bad[i]);
        gb_refuse(&b, SMOL_FORMAT, "expected a power of two", "alignment out of range");
    }
    gb_head(&b, 3, 0, 1);
    gb_key(&b, "general.alignment", SM_KV_I32);
    gb_u32(&b, 32);
    gb_refuse(&b, SMOL_FORMAT, "expected value type 4", "alignment as i32");
    gb_head(&b, 3, 0, 1);
    gb_key(&b, "general.alignment", SM_KV_U64);
    gb_u64(&b, 32);
    gb_refuse(&b, SMOL_FORMAT, "expected value type 4", "alignment as u64");
    gb_head(&b, 3, 0, 1);
    gb_key(&b, "general.alignment", SM_KV_ARRAY);
    gb_u32(&b, SM_KV_U32);
    gb_u64(&b, 1);
    gb_u32(&b, 32);
    gb_refuse(&b, SMOL_FORMAT, "expected value type 4", "alignment as array");
    gb_head(&b, 3, 2, 1);
    gb_kv_u32(&b, "general.alignment", 1);
    gb_tensor1(&b, "a", 3, SM_I8, 0);
    gb_tensor1(&b, "b", 5, SM_I8, 3);
    gb_zeros(&b, 8);
    gb_accept(&b, "alignment 1");
}

static void test_names(void)
{
    char name[65];
    memset(name, 'n', sizeof name);
    name[63] = 0;
    gb_head(&b, 3, 1, 0);
    gb_tensor1(&b, name, 1, SM_F32, 0);
    gb_pad(&b, 32);
    gb_zeros(&b, 4);
    gb_accept(&b, "name of 63 bytes");
    gb_head(&b, 3, 1, 0);
    gb_u64(&b, 3);
    gb_put(&b, "a\0b", 3);
    gb_zeros(&b, 64);
    gb_refuse(&b, SMOL_FORMAT, "zero byte", "name with NUL");
    gb_head(&b, 3, 1, 0);
    gb_u64(&b, UINT64_MAX - 7);
    gb_zeros(&b, 64);
    gb_refuse(&b, SMOL_FORMAT, "length of a tensor name", "name of 2^64 - 8 bytes");
}

static void one_tensor(uint32_t n_dims, const uint64_t *dims, uint32_t type, size_t data_bytes)
{
    gb_head(&b, 3, 1, 0);
    gb_tensor(&b, "a", n_dims, dims, type, 0);
    gb_pad(&b, 32);
    gb_zeros(&b, data_bytes);
}

static void test_dims(void)
{
    const uint64_t top = UINT64_C(1) << 63;
    one_tensor(0, NULL, SM_F32, 4);
    gb_accept(&b, "no dimensions: one element");
    one_tensor(4, (const uint64_t[]){2, 3, 4, 5}, SM_F16, 240);
    gb_accept(&b, "four dimensions");
    one_tensor(2, (const uint64_t[]){0, 4}, SM_F32, 64);
    gb_refuse(&b, SMOL_FORMAT, "expected 1 or more, found 0", "first size 0");
    one_tensor(2, (const uint64_t[]){UINT64_C(1) << 32, UINT64_C(1) << 32}, SM_I8, 64);
    gb_refuse(&b, SMOL_FORMAT, "2^63 elements", "product 2^64");
    one_tensor(2, (const uint64_t[]){UINT64_MAX, 2}, SM_I8, 64);
    gb_refuse(&b, SMOL_FORMAT, "found -1", "sizes 2^64 - 1 and 2");
    one_tensor(1, &top, SM_I8, 64);
    gb_refuse(&b, SMOL_FORMAT, "expected 1 or more", "size 2^63");
    one_tensor(2, (const uint64_t[]){4096, (UINT64_C(1) << 42) + 1}, SM_F32, 64);
    gb_refuse(&b, SMOL_FORMAT, "", "second size 2^42 + 1");
    one_tensor(2, (const uint64_t[]){8, (UINT64_C(1) << 60) - 1}, SM_I8, 64);
    gb_refuse(&b, SMOL_FORMAT, "has more than", "bytes near 2^63: rounding up would wrap");
    one_tensor(2, (const uint64_t[]){16, 2}, SM_Q4_0, 64);
    gb_refuse(&b, SMOL_FORMAT, "expected rows of a multiple of 32", "half a block a row");
}

static void test_types(void)
{
    static const uint32_t bad[] = {4, 5, 31, 32, 33, 36, 37, 38, 43, 99, 1u << 31};
    const uint64_t n = 256;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        one_tensor(1, &n, bad[i], 2048);
        gb_refuse(&b, SMOL_UNSUPPORTED, "expected a known type", "type id without a size");
    }
    for (uint32_t type = 0; type < SM_TYPE_COUNT; type++) {
        if (!sm_traits_of(type)) continue;
        one_tensor(1, &n, type, (size_t)sm_row_bytes(type, n));
        gb_accept(&b, sm_type_name(type));
        b.n--;
        gb_refuse(&b, SMOL_FORMAT, "cut short", "one byte too few");
    }
}

static void two_tensors(uint64_t offset_a, uint64_t offset_b, size_t data_bytes)
{
    gb_head(&b, 3, 2, 0);
    gb_tensor1(&b, "a", 16, SM_F32, offset_a);
    gb_tensor1(&b, "b", 8, SM_F32, offset_b);
    gb_pad(&b, 32);
    gb_zeros(&b, data_bytes);
}

static void test_offsets(void)
{
    two_tensors(0, 64, 96);
    gb_accept(&b, "two tensors");
    two_tensors(32, 0, 96);
    gb_accept(&b, "two tensors in the other order");
    two_tensors(0, 64, 200);
    gb_accept(&b, "bytes behind the last tensor");
    two_tensors(0, 72, 160);
    gb_refuse(&b, SMOL_FORMAT, "multiple of 32, found 72", "misaligned");
    two_tensors(0, 32, 160);
    gb_refuse(&b, SMOL_FORMAT, "'b': expected at byte 160, found at 128", "overlap");
    two_tensors(0, 0, 160);
    gb_refuse(&b, SMOL_FORMAT, "expected at byte", "same offset");
    two_tensors(0, 96, 160);
    gb_refuse(&b, SMOL_FORMAT, "'a' (F32) is longer than its type says", "gap");
    two_tensors(32, 96, 160);
    gb_refuse(&b, SMOL_FORMAT, "the first tensor 'a'", "gap before the first");
    two_tensors(0, 64, 30);
    gb_refuse(&b, SMOL_FORMAT, "cut short: tensor 'a'", "ends before the second begins");
    two_tensors(0, 64, 64);
    gb_refuse(&b, SMOL_FORMAT, "cut short: tensor 'b'", "data of the second missing");
    two_tensors(0, 64, 0);
    gb_refuse(&b, SMOL_FORMAT, "cut short: tensor 'a'", "no data at all");
    two_tensors(0, 4096, 96);
    gb_refuse(&b, SMOL_FORMAT, "'b': expected at byte 160, found at 4192", "offset behind the end");
    two_tensors(0, UINT64_MAX - 31, 96);
    gb_refuse(&b, SMOL_FORMAT, "expected less than", "offset that wraps");
    const uint64_t half = UINT64_C(1) << 62;
    gb_head(&b, 3, 4, 0); /* each fits 2^63, all four together wrap to 0 */
    for (unsigned i = 0; i < 4; i++) {
        const char name[2] = {(char)('a' + i), 0};
        gb_tensor1(&b, name, half, SM_I8, i * half);
    }
    gb_pad(&b, 32);
    gb_refuse(&b, SMOL_FORMAT, "", "sizes whose sum wraps");
    gb_refuse_in(&b, UINT64_C(1) << 62, SMOL_FORMAT, "", "the same in a file of 2^62 bytes");
}

/* Data of PrismML's early ternary files: id 42, 128 weights in 34 bytes. */
static void test_forks(void)
{
    gb_head(&b, 3, 2, 0);
    gb_tensor1(&b, "blk.0.ffn_up.weight", 1024, SM_Q2_0, 0);
    gb_tensor1(&b, "out", 8, SM_F32, 288);
    gb_pad(&b, 32);
    gb_zeros(&b, 320);
    gb_accept(&b, "id 42 in blocks of 64");
    gb_head(&b, 3, 2, 0);
    gb_tensor1(&b, "blk.0.ffn_up.weight", 4096, SM_Q2_0, 0);
    gb_tensor1(&b, "out", 8, SM_F32, 1088);
    gb_pad(&b, 32);
    gb_zeros(&b, 1088 + 32);
    gb_refuse(&b, SMOL_UNSUPPORTED, "unsupported fork variant: tensor 'blk.0.ffn_up.weight'",
              "id 42 in blocks of 128, another tensor behind");
    gb_head(&b, 3, 1, 0);
    gb_tensor1(&b, "w", 4096, SM_Q2_0, 0);
    gb_pad(&b, 32);
    gb_zeros(&b, 1088);
    gb_refuse(&b, SMOL_UNSUPPORTED, "unsupported fork variant", "id 42 in blocks of 128, the last");
    gb_head(&b, 3, 2, 0);
    gb_tensor1(&b, "w", 4096, SM_NVFP4, 0);
    gb_tensor1(&b, "out", 8, SM_F32, 768);
    gb_pad(&b, 32);
    gb_zeros(&b, 800 + 4096);
    gb_refuse(&b, SMOL_UNSUPPORTED, "unsupported fork variant", "id 40 in blocks of 32");
    gb_head(&b, 3, 1, 0);
    gb_tensor1(&b, "w", 4096, SM_NVFP4, 0);
    gb_pad(&b, 32);
    gb_zeros(&b, 2304);
    gb_accept(&b, "id 40 in blocks of 64");
    for (uint32_t type = 142; type < 144; type++) {
        gb_head(&b, 3, 1, 0);
        gb_tensor1(&b, "w", 4096, type, 0);
        gb_pad(&b, 32);
        gb_zeros(&b, 2304);
        gb_refuse(&b, SMOL_UNSUPPORTED, "unsupported fork variant", "ids 142 and 143");
    }
    gb_head(&b, 3, 0, 1);
    gb_kv_u32(&b, "prism.hadamard.block_size", 128);
    gb_refuse(&b, SMOL_UNSUPPORTED, "unsupported fork variant", "Hadamard rotation");
    gb_head(&b, 3, 1, 0); /* an upstream file that lacks its end is no fork */
    gb_tensor1(&b, "w", 4096, SM_Q2_0, 0);
    gb_pad(&b, 32);
    gb_zeros(&b, 1100);
    b.n = b.n - 1100 + 1000;
    gb_refuse(&b, SMOL_FORMAT, "cut short", "id 42 cut short");
}

static void kind(const char *bytes, size_t n, const char *part)
{
    b.n = 0;
    gb_put(&b, bytes, n);
    gb_refuse(&b, SMOL_FORMAT, part, part);
}
#define KIND(bytes, part) kind(bytes, sizeof(bytes) - 1, part)

static void test_kinds(void)
{
    b.n = 0;
    gb_refuse(&b, SMOL_FORMAT, "is empty (0 bytes)", "no bytes");
    KIND("\n<!DOCTYPE html>\n<html><head>", "web page");
    KIND("\xef\xbb\xbf  <HTML lang=en>", "web page");
    KIND("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 5\n", "Git LFS pointer");
    KIND("\x18\0\0\0\0\0\0\0{\"w\":{\"dtype\":\"F32\"}}      ", "safetensors");
    KIND("PK\3\4\24\0\0\0", "zip archive");
    KIND("\x80\2}q\0", "Python pickle");
    KIND("lmgg\1\0\0\0", "GGML");
    KIND("fmgg\1\0\0\0", "GGMF");
    KIND("tjgg\3\0\0\0", "GGJT");
    KIND("algg\1\0\0\0", "GGLA");
    KIND("\x1f\x8b\x8\0\0\0", "gzip");
    KIND("\xfd" "7zXZ\0\0", "xz");
    KIND("\x28\xb5\x2f\xfd\0\0", "zstd");
    KIND("\x7f" "ELF\2\1\1\0", "ELF");
    KIND("MZ\x90\0\3\0\0\0", "Windows program");
    KIND("%PDF-1.7\n", "PDF");
    KIND("\x89PNG\r\n\x1a\n", "PNG");
    KIND("{\"error\": \"not found\"}", "JSON");
    KIND("<?xml version='1.0'?><Error/>", "XML");
    KIND("#!/bin/sh\nexit 0\n", "script");
    KIND("Once upon a time", "plain text");
    KIND("\0\0\0\0\0\0\0\0", "nothing but zero bytes");
    KIND("\1\2\3\4\5\6\7", "found 01 02 03 04");
    gb_head(&b, 1, 0, 0);
    gb_refuse(&b, SMOL_UNSUPPORTED, "version 1", "GGUF version 1");
    b.n = 0;
    gb_zeros(&b, 257);
    b.p[0] = 'm';
    gb_put(&b, "ustar", 5);
    gb_refuse(&b, SMOL_FORMAT, "tar archive", "tar");
}

/* Names and keys are found by hashing: many must take moments, not hours. */
static void test_many(void)
{
    const unsigned n = 250000;
    const uint64_t one = 1;
    char name[16];
    struct sm_gguf *g;
    smol_error err = {0};
    gb_head(&b, 3, n, 1);
    gb_kv_u32(&b, "general.alignment", 1);
    for (unsigned i = 0; i < n; i++) { /* the last tenth in reverse, so that they must be sorted */
        (void)snprintf(name, sizeof name, "t%u", i);
        gb_tensor(&b, name, 1, &one, SM_I8, i < n - n / 10 ? i : n - 1 - (i - (n - n / 10)));
    }
    const uint64_t file_bytes = b.n + n;
    const smol_status st = sm_gguf_parse(&g, b.p, b.n, file_bytes, &err);
    if (!TAP_OK(st == SMOL_OK, "%u tensors", n)) {
        printf("#   %s\n", err.msg);
        return;
    }
    const struct sm_tensor_info *t = sm_gguf_find_tensor(g, "t177777");
    TAP_OK(t == sm_gguf_tensor(g, 177777), "found by name");
    TAP_OK(!sm_gguf_find_tensor(g, "t250000"), "absent name");
    TAP_OK(sm_gguf_memory(g) < 50 << 20, "memory: %zu bytes", sm_gguf_memory(g));
    sm_gguf_free(g);
    b.n -= 39;
    gb_tensor(&b, "t100000", 1, &one, SM_I8, 0); /* the last record is "t249999" */
    gb_refuse_in(&b, file_bytes, SMOL_FORMAT, "occurs twice", "the same, one name twice");
}

int main(int argc, char **argv)
{
    tap_init(argc, argv);
    test_start();
    test_counts_off_by_one();
    test_keys();
    test_values();
    test_alignment();
    test_names();
    test_dims();
    test_types();
    test_offsets();
    test_forks();
    test_kinds();
    test_many();
    gb_free(&b);
    return tap_done();
}
