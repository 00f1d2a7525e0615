/* SPDX-License-Identifier: MIT */
/* The tensors of one file taken together. Honest files are gap-free (stock tools refuse others), so
 * a tensor that does not begin where the one before it ends betrays a type of another size: a
 * fork's type under the same id, or a broken writer. Any order of the records is fine. */
#include "base/mem.h"
#include "base/sort.h"
#include "gguf/gguf_int.h"
#include "quant/quant.h"

#include <inttypes.h>

/* PrismML's early files use id 42 for blocks of 128 in 34 bytes and id 40 for 32 in 6 bytes. */
static uint64_t fork_bytes(const struct sm_tensor_info *t)
{
    const uint64_t block = t->type == SM_Q2_0 ? 128 : t->type == SM_NVFP4 ? 32 : 0;
    const uint64_t block_bytes = t->type == SM_Q2_0 ? 34 : 6;
    if (block == 0 || t->dim[0] % block) return 0;
    uint64_t bytes = t->dim[0] / block * block_bytes; /* less than t->bytes: no overflow */
    for (unsigned i = 1; i < 4; i++) bytes *= t->dim[i];
    return bytes;
}

static bool by_offset(const void *arg, uint32_t a, uint32_t b)
{
    const struct sm_gguf *g = arg;
    return g->tensor[a].at < g->tensor[b].at;
}

static smol_status fork_variant(const struct sm_tensor_info *t, uint64_t found, smol_error *err)
{
    char q[SM_GGUF_QUOTE];
    return SM_FAIL_AT(err, UNSUPPORTED, t->at,
                      "unsupported fork variant: tensor '%s' (%s): expected %" PRIu64
                      " bytes at byte %" PRIu64 ", found %" PRIu64 " as in PrismML's fork",
                      sm_gguf_quote(q, t->name, strlen(t->name)), sm_type_name(t->type), t->bytes,
                      t->at, found);
}

/* b is the next tensor after a (NULL: b is the first) and should begin at `expected`. */
static smol_status wrong_offset(const struct sm_gguf *g, const struct sm_tensor_info *a,
                                const struct sm_tensor_info *b, uint64_t expected, smol_error *err)
{
    char qa[SM_GGUF_QUOTE], qb[SM_GGUF_QUOTE];
    (void)sm_gguf_quote(qb, b->name, strlen(b->name));
    qb[40] = 0; /* two names in one sentence */
    if (!a)
        return SM_FAIL_AT(err, FORMAT, b->at,
                          "the first tensor '%s' (%s): expected at byte %" PRIu64
                          ", found at %" PRIu64,
                          qb, sm_type_name(b->type), expected, b->at);
    (void)sm_gguf_quote(qa, a->name, strlen(a->name));
    const uint64_t fork = fork_bytes(a);
    if (fork && b->at == a->at + sm_round_up64(fork, g->alignment))
        return fork_variant(a, fork, err);
    qa[40] = 0;
    return SM_FAIL_AT(err, FORMAT, b->at,
                      "tensor '%s': expected at byte %" PRIu64 ", found at %" PRIu64
                      ": '%s' (%s) is %s than its type says",
                      qb, expected, b->at, qa, sm_type_name(a->type),
                      b->at < expected ? "shorter" : "longer");
}

static smol_status past_end(const struct sm_gguf *g, const struct sm_tensor_info *t,
                            uint64_t file_bytes, smol_error *err)
{
    char q[SM_GGUF_QUOTE];
    const uint64_t fork = fork_bytes(t), fork_end = t->at + fork;
    if (fork && (file_bytes == fork_end || file_bytes == sm_round_up64(fork_end, g->alignment)))
        return fork_variant(t, fork, err);
    return SM_FAIL_AT(err, FORMAT, t->at,
                      "the file is cut short: tensor '%s' (%s) needs bytes %" PRIu64 " to %" PRIu64
                      ", but the file ends at byte %" PRIu64,
                      sm_gguf_quote(q, t->name, strlen(t->name)), sm_type_name(t->type), t->at,
                      t->at + t->bytes, file_bytes);
}

/* `order` lists the tensors by offset. Offsets are below 2^63 and sizes below 2^63 less the largest
 * alignment (both checked when they were read), so no sum wraps. */
static smol_status check_order(const struct sm_gguf *g, const uint32_t *order, uint64_t file_bytes,
                               smol_error *err)
{
    const struct sm_tensor_info *last = NULL, *t;
    uint64_t expected = g->data_at;
    for (size_t i = 0; i < g->n_tensors; i++, last = t) {
        t = &g->tensor[order ? order[i] : i];
        if (t->at != expected) return wrong_offset(g, last, t, expected, err);
        expected = sm_round_up64(t->at + t->bytes, g->alignment);
    }
    for (size_t i = 0; i < g->n_tensors; i++) {
        t = &g->tensor[order ? order[i] : i];
        if (t->at > file_bytes || t->bytes > file_bytes - t->at)
            return past_end(g, t, file_bytes, err);
    }
    return SMOL_OK;
}

smol_status sm_gguf_check_layout(const struct sm_gguf *g, uint64_t file_bytes, smol_error *err)
{
    const size_t n = g->n_tensors;
    bool sorted = true;
    void *p;
    for (size_t i = 1; i < n && sorted; i++) sorted = g->tensor[i - 1].at < g->tensor[i].at;
    if (sorted) return check_order(g, NULL, file_bytes, err);
    SM_TRY(sm_gguf_alloc(&p, n * sizeof(uint32_t), err));
    uint32_t *order = p;
    for (size_t i = 0; i < n; i++) order[i] = (uint32_t)i;
    sm_sort_u32(order, n, by_offset, g);
    const smol_status st = check_order(g, order, file_bytes, err);
    sm_mem_free(order, n * sizeof *order);
    return st;
}
