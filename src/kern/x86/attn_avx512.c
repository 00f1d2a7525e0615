/* SPDX-License-Identifier: MIT */
/* Attention over one chunk, AVX-512 (docs/arithmetic.md section 5). Heads that share keys and
 * values, and neighbouring tokens of a prompt, go through a row of the cache together, four at a
 * time, so that a row is converted once for all of them. */
#include "kern/x86/util_avx512.h"

#ifdef SM_HAVE_AVX512

#include "kern/x86/exp_avx512.h"

#include <math.h>

enum { CHUNK = 256, TILE = 4 };

/* One query: a head of one token. */
struct query {
    const float *q;
    float *m, *l, *o;
    size_t first, last;
};

SM_INLINE __m512 load16(const uint8_t *row, size_t i, const enum sm_kv_type kv)
{
    if (kv == SM_KV_F32) return _mm512_loadu_ps(row + 4 * i);
    if (kv == SM_KV_F16) return _mm512_cvtph_ps(load256(row + 2 * i));
    const uint8_t *block = row + 34 * (i / 32);
    const __m512 d = _mm512_cvtph_ps(_mm256_set1_epi16((short)sm_ld16(block)));
    return _mm512_mul_ps(d, _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(load128(block + 2 + i % 32))));
}
/* Zero where not live. A q8_0 row is a multiple of 32 long. */
SM_INLINE __m512 load_some(const uint8_t *row, size_t i, __mmask16 live, const enum sm_kv_type kv)
{
    if (kv == SM_KV_F32) return _mm512_maskz_loadu_ps(live, row + 4 * i);
    if (kv == SM_KV_F16) return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(live, row + 2 * i));
    return load16(row, i, kv);
}

/* sum16 of four vectors of partial sums: lane k + width is added to lane k, 8, 4, 2, 1. */
SM_INLINE __m128 fold16x4(const __m512 p[4])
{
    const __m512 ab = _mm512_add_ps(_mm512_shuffle_f32x4(p[0], p[1], 0x44),
                                    _mm512_shuffle_f32x4(p[0], p[1], 0xee));
    const __m512 cd = _mm512_add_ps(_mm512_shuffle_f32x4(p[2], p[3], 0x44),
                                    _mm512_shuffle_f32x4(p[2], p[3], 0xee));
    __m512 s =
        _mm512_add_ps(_mm512_shuffle_f32x4(ab, cd, 0x88), _mm512_shuffle_f32x4(ab, cd, 0xdd));
    s = _mm512_add_ps(s, _mm512_permute_ps(s, 0x4e));
    s = _mm512_add_ps(s, _mm512_permute_ps(s, 0xb1));
    const __m512i first = _mm512_zextsi128_si512(_mm_setr_epi32(0, 4, 8, 12));
    return _mm512_castps512_ps128(_mm512_permutexvar_ps(first, s));
}

/* s[h][i .. i + 3]: positions from end on are those of the last row, and nobody looks at them. */
SM_INLINE void scores(const struct sm_attn_chunk *c, const struct query *q, float (*s)[CHUNK + 16],
                      size_t i, size_t end, const int n_h, const enum sm_kv_type kv)
{
    const uint8_t *row[4];
    const size_t dk = c->dk;
    __m512 sum[TILE][4];
    SM_UNROLL for (size_t p = 0; p < 4; p++)
        row[p] = (const uint8_t *)c->k + (i + p < end ? i + p : end - 1) * c->k_stride;
    SM_UNROLL for (int h = 0; h < n_h; h++) {
        SM_UNROLL for (int p = 0; p < 4; p++) sum[h][p] = _mm512_setzero_ps();
    }
    size_t d = 0;
    for (; d + 16 <= dk; d += 16) {
        __m512 k[4];
        SM_UNROLL for (int p = 0; p < 4; p++) k[p] = load16(row[p], d, kv);
        SM_UNROLL for (int h = 0; h < n_h; h++) {
            const __m512 a = _mm512_loadu_ps(q[h].q + d);
            SM_UNROLL for (int p = 0; p < 4; p++) sum[h][p] = _mm512_fmadd_ps(a, k[p], sum[h][p]);
        }
    }
    if (d < dk) {
        const __mmask16 live = (__mmask16)((1u << (dk - d)) - 1u);
        SM_UNROLL for (int h = 0; h < n_h; h++) {
            const __m512 a = _mm512_maskz_loadu_ps(live, q[h].q + d);
            SM_UNROLL for (int p = 0; p < 4; p++)
                sum[h][p] =
                    _mm512_mask3_fmadd_ps(a, load_some(row[p], d, live, kv), sum[h][p], live);
        }
    }
    SM_UNROLL for (int h = 0; h < n_h; h++)
        _mm_storeu_ps(&s[h][i], _mm_mul_ps(fold16x4(sum[h]), _mm_set1_ps(c->scale)));
}

/* Lanes of positions i .. i + 15 that are visible. */
SM_INLINE __mmask16 seen(size_t i, size_t first, size_t last)
{
    const uint32_t below = last >= i + 16 ? 0xffffu : last <= i ? 0 : (1u << (last - i)) - 1u;
    const uint32_t above = first <= i ? 0xffffu : first >= i + 16 ? 0 : ~((1u << (first - i)) - 1u);
    return (__mmask16)(below & above);
}

/* m, l of one query; s becomes e = exp(s - m), zero where hidden. Adding +0 to a partial sum that
 * is not negative changes nothing. */
static void exponentials(const struct query *q, float *s, size_t begin, size_t end)
{
    __m512 m16 = _mm512_set1_ps(-INFINITY), sum = _mm512_setzero_ps();
    for (size_t i = begin; i < end; i += 16)
        m16 = _mm512_mask_max_ps(m16, seen(i, q->first, q->last), m16, _mm512_loadu_ps(s + i));
    const float m = _mm512_reduce_max_ps(m16);
    for (size_t i = begin; i < end; i += 16) {
        const __m512 x = _mm512_sub_ps(_mm512_loadu_ps(s + i), _mm512_set1_ps(m));
        const __m512 e = _mm512_maskz_mov_ps(seen(i, q->first, q->last), exp16(x));
        _mm512_storeu_ps(s + i, e);
        sum = _mm512_add_ps(sum, e);
    }
    *q->m = m;
    *q->l = fold16(sum);
}

/* o[h][d .. d + 16 n_v) += e * v in position order, `live` lanes of the last vector; hidden
 * positions are passed over when `masked`. */
SM_INLINE void add_values(const struct sm_attn_chunk *c, const struct query *q,
                          float (*e)[CHUNK + 16], __m512 (*o)[TILE], size_t begin, size_t end,
                          size_t d, __mmask16 live, const int n_h, const int n_v,
                          const bool masked, const enum sm_kv_type kv)
{
    const uint8_t *row = (const uint8_t *)c->v + begin * c->v_stride;
    for (size_t i = begin; i < end; i++, row += c->v_stride) {
        __m512 v[TILE];
        SM_UNROLL for (int j = 0; j < n_v; j++)
            v[j] = n_v == 1 ? load_some(row, d, live, kv) : load16(row, d + 16 * (size_t)j, kv);
        SM_UNROLL for (int h = 0; h < n_h; h++) {
            const __m512 w = _mm512_set1_ps(e[h][i]);
            const bool show = i >= q[h].first && i < q[h].last;
            SM_UNROLL for (int j = 0; j < n_v; j++)
                o[h][j] = masked
                              ? _mm512_mask3_fmadd_ps(w, v[j], o[h][j], show ? 0xffff : 0)
                              : _mm512_fmadd_ps(w, v[j], o[h][j]);
        }
    }
}

SM_INLINE void values(const struct sm_attn_chunk *c, const struct query *q,
                      float (*e)[CHUNK + 16], const size_t at[4], size_t d, __mmask16 live,
                      const int n_h, const int n_v, const enum sm_kv_type kv)
{
    __m512 o[TILE][TILE];
    SM_UNROLL for (int h = 0; h < n_h; h++) {
        SM_UNROLL for (int j = 0; j < n_v; j++) o[h][j] = _mm512_setzero_ps();
    }
    if (n_h > 1) add_values(c, q, e, o, at[0], at[1], d, live, n_h, n_v, true, kv);
    add_values(c, q, e, o, at[1], at[2], d, live, n_h, n_v, false, kv);
    if (n_h > 1) add_values(c, q, e, o, at[2], at[3], d, live, n_h, n_v, true, kv);
    SM_UNROLL for (int h = 0; h < n_h; h++) {
        SM_UNROLL for (int j = 0; j < n_v; j++)
            _mm512_mask_storeu_ps(q[h].o + d + 16 * (size_t)j, n_v == 1 ? live : 0xffff, o[h][j]);
    }
}

/* n_h queries; all but a tile of one may hide different positions. */
SM_INLINE void queries(const struct sm_attn_chunk *c, const struct query *q, const int n_h,
                       const enum sm_kv_type kv)
{
    float s[TILE][CHUNK + 16];
    size_t at[4] = {q[0].first, q[0].first, q[0].last, q[0].last}; /* union around intersection */
    SM_UNROLL for (int h = 1; h < n_h; h++) {
        at[0] = q[h].first < at[0] ? q[h].first : at[0];
        at[1] = q[h].first > at[1] ? q[h].first : at[1];
        at[2] = q[h].last < at[2] ? q[h].last : at[2];
        at[3] = q[h].last > at[3] ? q[h].last : at[3];
    }
    if (at[1] >= at[2]) at[1] = at[2] = at[3]; /* nothing is seen by all */
    const size_t begin = at[0] & ~(size_t)15, end = at[3];
    size_t i = begin, d = 0;
    for (; i < end; i += 4) {
        if (i + 4 > at[0]) {
            scores(c, q, s, i, end, n_h, kv);
            continue;
        }
        SM_UNROLL for (int h = 0; h < n_h; h++) _mm_storeu_ps(&s[h][i], _mm_setzero_ps());
    }
    SM_UNROLL for (int h = 0; h < n_h; h++) {
        for (size_t j = i; j & 15; j += 4) _mm_storeu_ps(&s[h][j], _mm_setzero_ps());
        exponentials(&q[h], s[h], begin, end);
    }
    for (; d + 64 <= c->dv; d += 64) values(c, q, s, at, d, 0xffff, n_h, 4, kv);
    for (; d < c->dv; d += 16) {
        const size_t rest = c->dv - d;
        values(c, q, s, at, d, rest < 16 ? (__mmask16)((1u << rest) - 1u) : 0xffff, n_h, 1, kv);
    }
}

static inline void set_query(struct query *q, const struct sm_attn_chunk *c, const float *x,
                             size_t number)
{
    *q = (struct query){x, c->m + number, c->l + number, c->o + number * c->ldo, c->first,
                        c->last};
}

SM_INLINE void all_queries(const struct sm_attn_chunk *c, const struct query *q, size_t n,
                           const enum sm_kv_type kv)
{
    size_t i = 0;
    for (; i + 4 <= n; i += 4) queries(c, q + i, 4, kv);
    if (i + 2 <= n) queries(c, q + i, 2, kv), i += 2;
    if (i < n) queries(c, q + i, 1, kv);
}

static void attn_chunk_any(const struct sm_attn_chunk *c,
                           void (*run)(const struct sm_attn_chunk *, const struct query *, size_t))
{
    for (uint32_t h = 0; h < c->n_q; h += TILE) {
        const uint32_t n = c->n_q - h < TILE ? c->n_q - h : TILE;
        struct query q[TILE];
        for (uint32_t i = 0; i < n; i++) set_query(&q[i], c, c->q + (h + i) * c->ldq, h + i);
        run(c, q, n);
    }
}

static void attn_tile_any(const struct sm_attn_tile *a,
                          void (*run)(const struct sm_attn_chunk *, const struct query *, size_t))
{
    const struct sm_attn_chunk *c = &a->c;
    struct query q[TILE];
    size_t n = 0;
    for (uint32_t h = 0; h < c->n_q; h++) {
        for (uint32_t t = 0; t < a->n_tok; t++) {
            if (a->first[t] >= a->last[t]) continue;
            set_query(&q[n], c, c->q + t * a->tok_q + h * c->ldq, (size_t)t * c->n_q + h);
            q[n].first = a->first[t];
            q[n].last = a->last[t];
            if (++n == TILE) run(c, q, n), n = 0;
        }
    }
    if (n) run(c, q, n);
}

#define KERNELS(kv, KV)                                                                            \
    static void run_##kv(const struct sm_attn_chunk *c, const struct query *q, size_t n)           \
    {                                                                                              \
        all_queries(c, q, n, KV);                                                                  \
    }                                                                                              \
    void sm_attn_chunk_##kv##_avx512(const struct sm_attn_chunk *c)                                \
    {                                                                                              \
        attn_chunk_any(c, run_##kv);                                                               \
    }                                                                                              \
    void sm_attn_tile_##kv##_avx512(const struct sm_attn_tile *a) { attn_tile_any(a, run_##kv); }
KERNELS(f32, SM_KV_F32)
KERNELS(f16, SM_KV_F16)
KERNELS(q8_0, SM_KV_Q8_0)

#endif
