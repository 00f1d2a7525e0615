/* SPDX-License-Identifier: MIT */
/* Checks of the matrix slots: products, packing, quantisation. */
#include "util_kern.h"
#include "tap.h"

/* Buffers of these checks. */
enum { B_W, B_ROWS, B_Q, B_D, B_S, B_Y, B_Y_REF, B_X };

static struct sm_acts new_acts(size_t n_tok, size_t n_cols, size_t block)
{
    const size_t n = n_tok * n_cols;
    return (struct sm_acts){.q = guard_buffer(B_Q, n, 64),
                            .d = guard_buffer(B_D, n / block * 4, 64),
                            .s = guard_buffer(B_S, n / 16 * 2, 64),
                            .n_tok = (uint32_t)n_tok,
                            .n_cols = (uint32_t)n_cols,
                            .block = (uint32_t)block};
}

const char *check_mul_x8(const struct sm_kern *k, const struct sm_kern *ref, uint32_t type)
{
    const struct sm_traits *t = sm_traits_of(type);
    /* beyond a tile of 256 columns, and sometimes beyond a batch of 128 tokens */
    const size_t most = t->block > 160 ? 5 : 800u / t->block;
    const size_t n_blocks = pick(1, most), n_cols = n_blocks * t->block;
    const size_t n_tok = pick(0, 9) ? pick(1, 9) : pick(120, 140);
    /* and sometimes beyond the groups that share one table */
    const size_t n_groups = pick(0, 9) || n_tok > 9 ? pick(1, 4) : pick(5, 70);
    const size_t ldy = 8 * n_groups + pick(0, 1) * pick(1, 9);
    const unsigned kind = (unsigned)pick(0, 2 * BLOCK_KINDS - 1),
                   act_kind = (unsigned)pick(0, ACT_KINDS - 1);
    const size_t row_bytes = (size_t)sm_row_bytes(type, n_cols), w_bytes = 8 * n_groups * row_bytes;
    const size_t n_y = (n_tok - 1) * ldy + 8 * n_groups;
    uint8_t *rows = guard_buffer(B_ROWS, w_bytes, 1), *w = guard_buffer(B_W, w_bytes, 1);
    float *y = guard_buffer(B_Y, 4 * n_y, 4), *y_ref = guard_buffer(B_Y_REF, 4 * n_y, 4);
    struct sm_acts x = new_acts(n_tok, n_cols, t->act_block);
    size_t at = 0;
    fill_blocks(type, rows, 8 * n_groups * n_blocks, kind < BLOCK_KINDS ? kind : 0);
    sm_x8_pack(type, w, rows, row_bytes, 8 * n_groups, n_cols);
    fill_acts(&x, act_kind);
    ref->mul_x8[type](y_ref, ldy, w, n_groups, &x);
    if (GUARD_TRY()) k->mul_x8[type](y, ldy, w, n_groups, &x);
    guard_done();
    if (guard_signal())
        return failure("signal %d: groups %zu, blocks %zu, tokens %zu", guard_signal(), n_groups,
                       n_blocks, n_tok);
    if (!guard_intact(B_Y))
        return failure("written outside y: groups %zu, tokens %zu", n_groups, n_tok);
    if (!same_floats(y, y_ref, n_y, &at))
        return failure(
            "token %zu of %zu, row %zu of %zu groups, %zu blocks, kinds %u %u: %a, ref %a",
            at / ldy, n_tok, at % ldy, n_groups, n_blocks, kind, act_kind, (double)y[at],
            (double)y_ref[at]);
    return NULL;
}

const char *check_pack_x8(const struct sm_kern *k, const struct sm_kern *ref, uint32_t type)
{
    const struct sm_traits *t = sm_traits_of(type);
    const size_t n_blocks = pick(1, 9), n_cols = n_blocks * t->block, n_rows = pick(1, 27);
    const size_t row_bytes = (size_t)sm_row_bytes(type, n_cols),
                 stride = row_bytes + pick(0, 1) * pick(1, 40);
    const size_t x8_bytes = (size_t)sm_x8_bytes(type, n_rows, n_cols);
    const size_t src_bytes = (n_rows - 1) * stride + row_bytes;
    uint8_t *rows = guard_buffer(B_ROWS, src_bytes, 1);
    uint8_t *w = guard_buffer(B_W, x8_bytes, 1), *w_ref = guard_buffer(B_Y_REF, x8_bytes, 1);
    for (size_t i = 0; i < src_bytes; i++) rows[i] = (uint8_t)tap_random();
    ref->pack_x8(type, w_ref, rows, stride, n_rows, n_cols);
    if (GUARD_TRY()) k->pack_x8(type, w, rows, stride, n_rows, n_cols);
    guard_done();
    if (guard_signal() || !guard_intact(B_W) || memcmp(w, w_ref, x8_bytes))
        return failure("rows %zu, blocks %zu, stride %zu: signal %d, intact %d", n_rows, n_blocks,
                       stride, guard_signal(), guard_intact(B_W));
    return NULL;
}

const char *check_mul_rows(const struct sm_kern *k, const struct sm_kern *ref, uint32_t type)
{
    /* sometimes more rows than one block that stays in the cache */
    const size_t n_cols = pick(0, 3) ? pick(1, 80) : 16 * pick(1, 40);
    const size_t n_rows = pick(0, 9) ? pick(1, 11) : pick(200, 260);
    const size_t n_tok = pick(1, 9), ldx = n_cols + pick(0, 1) * pick(1, 9);
    const size_t ldy = n_rows + pick(0, 1) * pick(1, 9), size = type == SM_F32 ? 4 : 2;
    const size_t n_y = (n_tok - 1) * ldy + n_rows, n_x = (n_tok - 1) * ldx + n_cols;
    const unsigned kind = (unsigned)pick(0, FLOAT_KINDS - 1);
    uint8_t *w = guard_buffer(B_W, n_rows * n_cols * size, size);
    float *x = guard_buffer(B_X, 4 * n_x, 4);
    float *y = guard_buffer(B_Y, 4 * n_y, 4), *y_ref = guard_buffer(B_Y_REF, 4 * n_y, 4);
    size_t at = 0;
    fill_floats(x, n_x, kind);
    if (type == SM_F32) {
        fill_floats((float *)(void *)w, n_rows * n_cols, kind);
    } else { /* any bits when kind 3, otherwise tame exponents */
        for (size_t i = 0; i < n_rows * n_cols; i++) {
            uint16_t v = (uint16_t)tap_random();
            if (kind != 3) v = (uint16_t)(type == SM_F16 ? v & 0xbfffu : (v & 0x83ffu) | 0x3c00u);
            memcpy(w + 2 * i, &v, 2);
        }
    }
    ref->mul_rows[type](y_ref, ldy, w, n_rows, n_cols, x, ldx, n_tok);
    if (GUARD_TRY()) k->mul_rows[type](y, ldy, w, n_rows, n_cols, x, ldx, n_tok);
    guard_done();
    if (guard_signal() || !guard_intact(B_Y) || !same_floats(y, y_ref, n_y, &at))
        return failure("%zu x %zu, %zu tokens, kind %u: signal %d, at %zu: %a, ref %a", n_rows,
                       n_cols, n_tok, kind, guard_signal(), at, (double)y[at], (double)y_ref[at]);
    return NULL;
}

const char *check_quantize(const struct sm_kern *k, const struct sm_kern *ref, uint32_t block)
{
    const size_t n_blocks = pick(1, 9), n = n_blocks * block;
    const unsigned kind = (unsigned)pick(0, FLOAT_KINDS + 2);
    float *x = guard_buffer(B_X, 4 * n, 4);
    int8_t *q = guard_buffer(B_Q, n, 1), *q_ref = guard_buffer(B_ROWS, n, 1);
    float *d = guard_buffer(B_D, 4 * n_blocks, 4), *d_ref = guard_buffer(B_Y_REF, 4 * n_blocks, 4);
    int16_t *s = guard_buffer(B_S, n / 8, 2), *s_ref = guard_buffer(B_W, n / 8, 2);
    size_t at = 0;
    fill_floats(x, n, kind);
    if (kind == FLOAT_KINDS) /* around the smallest largest value, 2^-100 */
        for (size_t i = 0; i < n; i++) x[i] = tap_random_float(0.99f, 1.001f) * 0x1p-100f;
    if (kind == FLOAT_KINDS + 1) /* products that fall on ties */
        for (size_t i = 0; i < n; i++)
            x[i] = (float)((int)tap_random_below(255) - 127) * 0.5f + (i ? 0 : 63.5f);
    (block == 256 ? ref->quantize_256 : ref->quantize_32)(x, n, q_ref, d_ref, s_ref);
    if (GUARD_TRY()) (block == 256 ? k->quantize_256 : k->quantize_32)(x, n, q, d, s);
    guard_done();
    if (guard_signal() || !guard_intact(B_Q) || !guard_intact(B_D) || !guard_intact(B_S))
        return failure("blocks %zu: signal %d or written outside", n_blocks, guard_signal());
    if (memcmp(q, q_ref, n) || memcmp(s, s_ref, n / 8) || !same_floats(d, d_ref, n_blocks, &at))
        return failure("blocks %zu, kind %u: codes %s, sums %s, d[%zu] %a, ref %a", n_blocks, kind,
                       memcmp(q, q_ref, n) ? "differ" : "agree",
                       memcmp(s, s_ref, n / 8) ? "differ" : "agree", at, (double)d[at],
                       (double)d_ref[at]);
    return NULL;
}
