/* SPDX-License-Identifier: MIT */
/* Typed getters: absent, wrong type and out of range are answers, never assertions. */
#include "base/bits.h"
#include "gguf/gguf_int.h"

#include <inttypes.h>

static const char *const type_names[SM_KV_TYPE_COUNT] = {
    "u8", "i8", "u16", "i16", "u32", "i32", "f32", "bool", "string", "array", "u64", "i64", "f64"};

const char *sm_gguf_kv_type_name(uint32_t type)
{
    return type < SM_KV_TYPE_COUNT ? type_names[type] : "?";
}

/* Finds the key and its offset; *kv NULL (and OK) when it is absent and may be. */
static smol_status get(const struct sm_gguf *g, const char *key, const struct sm_kv **kv,
                       bool *found, smol_error *err)
{
    *kv = sm_gguf_find(g, key);
    if (found) *found = *kv != NULL;
    if (!*kv && !found) return SM_FAIL(err, FORMAT, "the required key '%s' is missing", key);
    return SMOL_OK;
}

static smol_status wrong_type(const struct sm_kv *kv, const char *key, const char *want,
                              smol_error *err)
{
    return SM_FAIL_AT(err, FORMAT, kv->at, "key '%s' at byte %" PRIu64 ": expected %s, found %s%s",
                      key, kv->at, want, kv->type == SM_KV_ARRAY ? "an array of " : "",
                      type_names[kv->elem_type]);
}

static bool is_integer(uint32_t type)
{
    return type <= SM_KV_I32 || type == SM_KV_U64 || type == SM_KV_I64;
}

/* An integer of any width as sign and magnitude bits: *negative tells that *v is below zero. */
static uint64_t load_integer(uint32_t type, const uint8_t *p, bool *negative)
{
    int64_t s = 0;
    *negative = false;
    switch (type) {
    case SM_KV_BOOL: return p[0] != 0;
    case SM_KV_U8: return p[0];
    case SM_KV_U16: return sm_ld16(p);
    case SM_KV_U32: return sm_ld32(p);
    case SM_KV_U64: return sm_ld64(p);
    case SM_KV_I8: s = (int8_t)p[0]; break;
    case SM_KV_I16: s = (int16_t)sm_ld16(p); break;
    case SM_KV_I32: s = (int32_t)sm_ld32(p); break;
    default: s = (int64_t)sm_ld64(p); break;
    }
    *negative = s < 0;
    return (uint64_t)s;
}

static size_t integer_bytes(uint32_t type)
{
    switch (type) {
    case SM_KV_BOOL:
    case SM_KV_U8:
    case SM_KV_I8: return 1;
    case SM_KV_U16:
    case SM_KV_I16: return 2;
    case SM_KV_U64:
    case SM_KV_I64: return 8;
    default: return 4;
    }
}

static smol_status ranged(const struct sm_kv *kv, const char *key, const uint8_t *p, uint64_t lo,
                          uint64_t hi, uint64_t *out, smol_error *err)
{
    bool negative;
    const uint64_t v = load_integer(kv->elem_type, p, &negative);
    const uint64_t at = kv->at + (uint64_t)(p - kv->data);
    if (negative)
        return SM_FAIL_AT(err, FORMAT, at,
                          "key '%s' at byte %" PRIu64 ": expected %" PRIu64 " to %" PRIu64
                          ", found %" PRId64,
                          key, at, lo, hi, (int64_t)v);
    if (v < lo || v > hi)
        return SM_FAIL_AT(err, FORMAT, at,
                          "key '%s' at byte %" PRIu64 ": expected %" PRIu64 " to %" PRIu64
                          ", found %" PRIu64,
                          key, at, lo, hi, v);
    *out = v;
    return SMOL_OK;
}

smol_status sm_gguf_u64(const struct sm_gguf *g, const char *key, uint64_t lo, uint64_t hi,
                        uint64_t *out, bool *found, smol_error *err)
{
    const struct sm_kv *kv;
    SM_TRY(get(g, key, &kv, found, err));
    if (!kv) return SMOL_OK;
    if (!is_integer(kv->type)) return wrong_type(kv, key, "an integer", err);
    return ranged(kv, key, kv->data, lo, hi, out, err);
}

smol_status sm_gguf_u64_at(const struct sm_gguf *g, const char *key, size_t i, uint64_t lo,
                           uint64_t hi, uint64_t *out, bool *found, smol_error *err)
{
    const struct sm_kv *kv;
    SM_TRY(get(g, key, &kv, found, err));
    if (!kv) return SMOL_OK;
    if (!is_integer(kv->elem_type) && kv->elem_type != SM_KV_BOOL)
        return wrong_type(kv, key, "integers", err);
    if (kv->type != SM_KV_ARRAY) return ranged(kv, key, kv->data, lo, hi, out, err);
    if (i >= kv->count)
        return SM_FAIL_AT(err, FORMAT, kv->at,
                          "key '%s' at byte %" PRIu64
                          ": expected at least %zu elements, found %" PRIu64,
                          key, kv->at, i + 1, kv->count);
    return ranged(kv, key, kv->data + i * integer_bytes(kv->elem_type), lo, hi, out, err);
}

smol_status sm_gguf_f64(const struct sm_gguf *g, const char *key, double *out, bool *found,
                        smol_error *err)
{
    const struct sm_kv *kv;
    SM_TRY(get(g, key, &kv, found, err));
    if (!kv) return SMOL_OK;
    if (kv->type == SM_KV_FLOAT32) {
        *out = (double)sm_ldf32(kv->data);
    } else if (kv->type == SM_KV_FLOAT64) {
        *out = sm_f64_of_bits(sm_ld64(kv->data));
    } else if (is_integer(kv->type)) {
        bool negative;
        const uint64_t v = load_integer(kv->type, kv->data, &negative);
        *out = negative ? (double)(int64_t)v : (double)v;
    } else {
        return wrong_type(kv, key, "a number", err);
    }
    return SMOL_OK;
}

smol_status sm_gguf_f64_at(const struct sm_gguf *g, const char *key, size_t i, double *out,
                           bool *found, smol_error *err)
{
    const struct sm_kv *kv;
    SM_TRY(get(g, key, &kv, found, err));
    if (!kv || kv->type != SM_KV_ARRAY) return sm_gguf_f64(g, key, out, found, err);
    if (i >= kv->count)
        return SM_FAIL_AT(err, FORMAT, kv->at,
                          "key '%s' at byte %" PRIu64
                          ": expected at least %zu elements, found %" PRIu64,
                          key, kv->at, i + 1, kv->count);
    if (kv->elem_type == SM_KV_FLOAT32) *out = (double)sm_ldf32(kv->data + 4 * i);
    else if (kv->elem_type == SM_KV_FLOAT64) *out = sm_f64_of_bits(sm_ld64(kv->data + 8 * i));
    else return wrong_type(kv, key, "numbers", err);
    return SMOL_OK;
}

smol_status sm_gguf_bool(const struct sm_gguf *g, const char *key, bool *out, bool *found,
                         smol_error *err)
{
    const struct sm_kv *kv;
    SM_TRY(get(g, key, &kv, found, err));
    if (!kv) return SMOL_OK;
    if (kv->type != SM_KV_BOOL) return wrong_type(kv, key, "a bool", err);
    *out = kv->data[0] != 0; /* any non-zero byte is true */
    return SMOL_OK;
}

smol_status sm_gguf_str(const struct sm_gguf *g, const char *key, struct sm_str *out, bool *found,
                        smol_error *err)
{
    const struct sm_kv *kv;
    SM_TRY(get(g, key, &kv, found, err));
    if (!kv) return SMOL_OK;
    if (kv->type != SM_KV_STRING) return wrong_type(kv, key, "a string", err);
    out->p = (const char *)kv->data;
    out->n = (size_t)kv->bytes;
    return SMOL_OK;
}

bool sm_gguf_next_str(const struct sm_kv *kv, uint64_t *cursor, struct sm_str *out)
{
    if (kv->type != SM_KV_ARRAY || kv->elem_type != SM_KV_STRING || *cursor >= kv->bytes)
        return false;
    const uint8_t *p = kv->data + *cursor;
    const uint64_t n = sm_ld64(p); /* checked when the header was read */
    out->p = (const char *)(p + 8);
    out->n = (size_t)n;
    *cursor += 8 + n;
    return true;
}

bool sm_gguf_is_whole(const struct sm_gguf *g) { return !g->cut; }
