/* SPDX-License-Identifier: MIT */
/* sum16 products of float rows, AVX-512: the 16 partial sums are one register, the last terms go to
 * their own lanes under a mask. 4 rows meet 6 tokens at once, so that a conversion or a load serves
 * several products; rows are taken in blocks that stay in the second-level cache. */
#include "kern/x86/util_avx512.h"

#ifdef SM_HAVE_AVX512

#include "kern/x86/exp_avx512.h"

enum kind { ROW_F32, ROW_F16, ROW_BF16 };
enum { N_ROWS = 4, N_TOK = 6, BLOCK_BYTES = 256 << 10 };

SM_INLINE size_t size_of(const enum kind kind) { return kind == ROW_F32 ? 4 : 2; }

SM_INLINE __m512 from_16(__m256i v, const enum kind kind)
{
    if (kind == ROW_F16) return _mm512_cvtph_ps(v);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(v), 16));
}
SM_INLINE __m512 load16(const uint8_t *w, const enum kind kind)
{
    return kind == ROW_F32 ? _mm512_loadu_ps(w) : from_16(load256(w), kind);
}
SM_INLINE __m512 load_some(const uint8_t *w, __mmask16 live, const enum kind kind)
{
    return kind == ROW_F32 ? _mm512_maskz_loadu_ps(live, w)
                           : from_16(_mm256_maskz_loadu_epi16(live, w), kind);
}

/* 16 columns of n_r rows with n_t tokens. */
SM_INLINE void columns(__m512 sum[N_ROWS][N_TOK], const uint8_t *w, size_t row, const float *x,
                       size_t ldx, const int n_r, const int n_t, const enum kind kind)
{
    __m512 a[N_TOK];
    SM_UNROLL for (int t = 0; t < n_t; t++) a[t] = _mm512_loadu_ps(x + (size_t)t * ldx);
    SM_UNROLL for (int r = 0; r < n_r; r++) {
        const __m512 v = load16(w + (size_t)r * row, kind);
        SM_UNROLL for (int t = 0; t < n_t; t++) sum[r][t] = _mm512_fmadd_ps(v, a[t], sum[r][t]);
    }
}

/* n_r rows with n_t tokens. A token alone waits for memory: whole cache lines of each row. */
SM_INLINE void tile(float *y, size_t ldy, const uint8_t *w, size_t n, const float *x, size_t ldx,
                    const int n_r, const int n_t, const enum kind kind)
{
    const size_t size = size_of(kind), row = n * size;
    const size_t step = n_t == 1 ? 64 : 16;
    __m512 sum[N_ROWS][N_TOK];
    SM_UNROLL for (int r = 0; r < n_r; r++) {
        SM_UNROLL for (int t = 0; t < n_t; t++) sum[r][t] = _mm512_setzero_ps();
    }
    size_t i = 0;
    for (; i + step <= n; i += step) {
        SM_UNROLL for (size_t k = i; k < i + step; k += 16)
            columns(sum, w + k * size, row, x + k, ldx, n_r, n_t, kind);
    }
    for (; step > 16 && i + 16 <= n; i += 16)
        columns(sum, w + i * size, row, x + i, ldx, n_r, n_t, kind);
    if (i < n) {
        const __mmask16 live = (__mmask16)((1u << (n - i)) - 1u);
        SM_UNROLL for (int t = 0; t < n_t; t++) {
            const __m512 a = _mm512_maskz_loadu_ps(live, x + (size_t)t * ldx + i);
            SM_UNROLL for (int r = 0; r < n_r; r++) {
                const __m512 v = load_some(w + (size_t)r * row + i * size, live, kind);
                sum[r][t] = _mm512_mask3_fmadd_ps(v, a, sum[r][t], live);
            }
        }
    }
    SM_UNROLL for (int r = 0; r < n_r; r++) {
        SM_UNROLL for (int t = 0; t < n_t; t++)
            y[(size_t)t * ldy + (size_t)r] = fold16(sum[r][t]);
    }
}

SM_INLINE void mul_rows(float *y, size_t ldy, const uint8_t *w, size_t n_rows, size_t n,
                        const float *x, size_t ldx, size_t n_tok, const enum kind kind)
{
    const size_t row = n * size_of(kind);
    size_t block = BLOCK_BYTES / row & ~(size_t)(N_ROWS - 1);
    if (block < N_ROWS) block = N_ROWS;
    for (size_t r0 = 0; r0 < n_rows; r0 += block) {
        const size_t end = n_rows - r0 < block ? n_rows : r0 + block;
        size_t t = 0;
        for (size_t n_t; t < n_tok; t += n_t) {
            const float *a = x + t * ldx;
            float *out = y + t * ldy;
            size_t r = r0;
            n_t = n_tok - t >= N_TOK ? N_TOK : n_tok - t >= 2 ? 2 : 1;
            for (; r + N_ROWS <= end; r += N_ROWS) {
                if (n_t == N_TOK) tile(out + r, ldy, w + r * row, n, a, ldx, N_ROWS, N_TOK, kind);
                else if (n_t == 2) tile(out + r, ldy, w + r * row, n, a, ldx, N_ROWS, 2, kind);
                else tile(out + r, ldy, w + r * row, n, a, ldx, N_ROWS, 1, kind);
            }
            for (; r < end; r++)
                for (size_t k = 0; k < n_t; k++)
                    tile(out + k * ldy + r, ldy, w + r * row, n, a + k * ldx, ldx, 1, 1, kind);
        }
    }
}

void sm_mul_rows_f32_avx512(float *y, size_t ldy, const void *w, size_t n_rows, size_t n_cols,
                            const float *x, size_t ldx, size_t n_tok)
{
    mul_rows(y, ldy, w, n_rows, n_cols, x, ldx, n_tok, ROW_F32);
}

void sm_mul_rows_f16_avx512(float *y, size_t ldy, const void *w, size_t n_rows, size_t n_cols,
                            const float *x, size_t ldx, size_t n_tok)
{
    mul_rows(y, ldy, w, n_rows, n_cols, x, ldx, n_tok, ROW_F16);
}

void sm_mul_rows_bf16_avx512(float *y, size_t ldy, const void *w, size_t n_rows, size_t n_cols,
                             const float *x, size_t ldx, size_t n_tok)
{
    mul_rows(y, ldy, w, n_rows, n_cols, x, ldx, n_tok, ROW_BF16);
}

#endif
