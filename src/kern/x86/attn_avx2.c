/* SPDX-License-Identifier: MIT */
/* One chunk of attention, AVX2 (docs/arithmetic.md section 5). Heads that share keys and values go
 * through a row of the cache together, so that each row is converted once per tile of heads; a head
 * alone takes several positions at once instead. */
#include "kern/x86/util_avx2.h"

#ifdef SM_HAVE_AVX2

#include <math.h>

enum { CHUNK = 256, TILE = 4 };

SM_INLINE __m256 load8(const uint8_t *row, size_t i, const enum sm_kv_type kv)
{
    if (kv == SM_KV_F32) return _mm256_loadu_ps((const float *)(const void *)(row + 4 * i));
    if (kv == SM_KV_F16) return load8_f16(row + 2 * i);
    const uint8_t *block = row + 34 * (i / 32);
    const __m256 d = _mm256_cvtph_ps(_mm_set1_epi16((short)sm_ld16(block)));
    const __m128i q = _mm_loadl_epi64((const __m128i *)(const void *)(block + 2 + i % 32));
    return _mm256_mul_ps(d, _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(q)));
}

/* Formats without blocks only: a q8_0 row has no tail. */
SM_INLINE float load1(const uint8_t *row, size_t i, const enum sm_kv_type kv)
{
    return kv == SM_KV_F32 ? sm_ldf32(row + 4 * i) : sm_f32_of_f16(sm_ld16(row + 2 * i));
}

/* s[h][i] for n_h heads from head h0 and n_p positions from position i. */
SM_INLINE void scores(const struct sm_attn_chunk *c, float (*s)[CHUNK], size_t h0, size_t i,
                      const int n_h, const int n_p, const enum sm_kv_type kv)
{
    const uint8_t *k = (const uint8_t *)c->k + i * c->k_stride;
    const float *q = c->q + h0 * c->ldq;
    const size_t dk = c->dk;
    __m256 lo[TILE][TILE], hi[TILE][TILE];
    SM_UNROLL for (int h = 0; h < n_h; h++) {
        SM_UNROLL for (int p = 0; p < n_p; p++) lo[h][p] = hi[h][p] = _mm256_setzero_ps();
    }
    size_t d = 0;
    for (; d + 16 <= dk; d += 16) {
        SM_UNROLL for (int p = 0; p < n_p; p++) {
            const uint8_t *row = k + (size_t)p * c->k_stride;
            const __m256 k0 = load8(row, d, kv), k1 = load8(row, d + 8, kv);
            SM_UNROLL for (int h = 0; h < n_h; h++) {
                const float *a = q + (size_t)h * c->ldq + d;
                lo[h][p] = _mm256_fmadd_ps(_mm256_loadu_ps(a), k0, lo[h][p]);
                hi[h][p] = _mm256_fmadd_ps(_mm256_loadu_ps(a + 8), k1, hi[h][p]);
            }
        }
    }
    SM_UNROLL for (int h = 0; h < n_h; h++) {
        SM_UNROLL for (int p = 0; p < n_p; p++) {
            float sums[16];
            if (d < dk) { /* the tail adds to its own partial sums */
                const uint8_t *row = k + (size_t)p * c->k_stride;
                _mm256_storeu_ps(sums, lo[h][p]);
                _mm256_storeu_ps(sums + 8, hi[h][p]);
                for (size_t j = d; j < dk; j++)
                    sums[j - d] = fmaf(q[(size_t)h * c->ldq + j], load1(row, j, kv), sums[j - d]);
                lo[h][p] = _mm256_loadu_ps(sums);
                hi[h][p] = _mm256_loadu_ps(sums + 8);
            }
            s[h][i + (size_t)p] = fold16(lo[h][p], hi[h][p]) * c->scale;
        }
    }
}

/* max s from -infinity. The sign of a zero, and what comes out beside a NaN, are not specified. */
static float maximum(const float *s, size_t first, size_t last)
{
    __m256 m8 = _mm256_set1_ps(-INFINITY);
    float m = -INFINITY, lanes[8];
    size_t i = first;
    for (; i + 8 <= last; i += 8) m8 = _mm256_max_ps(m8, _mm256_loadu_ps(s + i));
    _mm256_storeu_ps(lanes, m8);
    for (size_t j = 0; j < 8; j++) m = m > lanes[j] ? m : lanes[j];
    for (; i < last; i++) m = m > s[i] ? m : s[i];
    return m;
}

/* s becomes e = exp(s - m), zero where hidden; returns sum16 of e. Whole groups of 16 positions are
 * done: adding +0 to a lane that is not negative changes nothing. */
static float exponentials(float *s, size_t first, size_t last, float m)
{
    const __m256i iota = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    const __m256i lo = _mm256_set1_epi32((int)first - 1), hi = _mm256_set1_epi32((int)last);
    __m256 sum[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
    for (size_t i = first & ~(size_t)15; i < last; i += 16) {
        SM_UNROLL for (int half = 0; half < 2; half++) {
            float *p = s + i + 8 * half;
            const __m256i at = _mm256_add_epi32(iota, _mm256_set1_epi32((int)i + 8 * half));
            const __m256i seen =
                _mm256_and_si256(_mm256_cmpgt_epi32(at, lo), _mm256_cmpgt_epi32(hi, at));
            const __m256 x = _mm256_sub_ps(_mm256_loadu_ps(p), _mm256_set1_ps(m));
            const __m256 e = _mm256_and_ps(exp8(x), _mm256_castsi256_ps(seen));
            _mm256_storeu_ps(p, e);
            sum[half] = _mm256_add_ps(sum[half], e);
        }
    }
    return fold16(sum[0], sum[1]);
}

/* o[h][d .. d + 8 * n_v) = sum of e * v in position order. */
SM_INLINE void values(const struct sm_attn_chunk *c, float (*e)[CHUNK], size_t h0, size_t d,
                      const int n_h, const int n_v, const enum sm_kv_type kv)
{
    __m256 o[TILE][TILE];
    SM_UNROLL for (int h = 0; h < n_h; h++) {
        SM_UNROLL for (int j = 0; j < n_v; j++) o[h][j] = _mm256_setzero_ps();
    }
    const uint8_t *row = (const uint8_t *)c->v + c->first * c->v_stride;
    for (size_t i = c->first; i < c->last; i++, row += c->v_stride) {
        __m256 v[TILE];
        SM_UNROLL for (int j = 0; j < n_v; j++) v[j] = load8(row, d + 8 * (size_t)j, kv);
        SM_UNROLL for (int h = 0; h < n_h; h++) {
            const __m256 w = _mm256_broadcast_ss(&e[h][i]);
            SM_UNROLL for (int j = 0; j < n_v; j++) o[h][j] = _mm256_fmadd_ps(w, v[j], o[h][j]);
        }
    }
    SM_UNROLL for (int h = 0; h < n_h; h++) {
        SM_UNROLL for (int j = 0; j < n_v; j++)
            _mm256_storeu_ps(c->o + (h0 + (size_t)h) * c->ldo + d + 8 * (size_t)j, o[h][j]);
    }
}

/* n_h heads from head h0. */
SM_INLINE void heads(const struct sm_attn_chunk *c, size_t h0, const int n_h,
                     const enum sm_kv_type kv)
{
    const size_t first = c->first, last = c->last, dv = c->dv;
    float s[TILE][CHUNK];
    size_t i = first, d = 0;
    SM_UNROLL for (int h = 0; h < n_h; h++) { /* whole groups of 16 are read below */
        const size_t begin = first & ~(size_t)15, end = (last + 15) & ~(size_t)15;
        for (size_t j = begin; j < first; j++) s[h][j] = 0;
        for (size_t j = last; j < end; j++) s[h][j] = 0;
    }
    if (n_h == 1)
        for (; i + 4 <= last; i += 4) scores(c, s, h0, i, n_h, 4, kv);
    for (; i < last; i++) scores(c, s, h0, i, n_h, 1, kv);
    SM_UNROLL for (int h = 0; h < n_h; h++) {
        c->m[h0 + (size_t)h] = maximum(s[h], first, last);
        c->l[h0 + (size_t)h] = exponentials(s[h], first, last, c->m[h0 + (size_t)h]);
    }
    if (n_h == 1)
        for (; d + 32 <= dv; d += 32) values(c, s, h0, d, n_h, 4, kv);
    for (; d + 16 <= dv; d += 16) values(c, s, h0, d, n_h, 2, kv);
    for (; d < dv; d++) { /* no tail in a q8_0 row */
        SM_UNROLL for (int h = 0; h < n_h; h++) {
            float o = 0;
            for (size_t j = first; j < last; j++)
                o = fmaf(s[h][j], load1((const uint8_t *)c->v + j * c->v_stride, d, kv), o);
            c->o[(h0 + (size_t)h) * c->ldo + d] = o;
        }
    }
}

SM_INLINE void attn_chunk(const struct sm_attn_chunk *c, const enum sm_kv_type kv)
{
    size_t h = 0;
    for (; h + 4 <= c->n_q; h += 4) heads(c, h, 4, kv);
    for (; h < c->n_q; h++) heads(c, h, 1, kv);
}

void sm_attn_chunk_f32_avx2(const struct sm_attn_chunk *c) { attn_chunk(c, SM_KV_F32); }
void sm_attn_chunk_f16_avx2(const struct sm_attn_chunk *c) { attn_chunk(c, SM_KV_F16); }
void sm_attn_chunk_q8_0_avx2(const struct sm_attn_chunk *c) { attn_chunk(c, SM_KV_Q8_0); }

#endif
