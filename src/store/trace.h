/* SPDX-License-Identifier: MIT */
/* Traces of routing: what every token asked of every layer with experts, so that policies, pool
 * sizes and levers can be replayed without the model (smol simulate).
 *
 * Bytes, little-endian: "smoltrc1", then u32 each: layers, experts, experts per token, groups,
 * groups used; f32 selection bias [layers][experts]; then records:
 *   1  u32 token                                       a token enters the model
 *   2  u16 layer, f32 score [experts]                  its scores there (the order of tokens holds
 *                                                      in each layer; layers may come in waves)
 *   3  u16 layer, u8 distance, u8 n, u16 expert [n]    what was expected of that layer, best first,
 *                                                      for the layer's next record 2
 *   4  u32 how                                         1: scores are logits, the weights being the
 *                                                      softmax of those chosen; 0 (or no such
 *                                                      record): scores are the weights, up to a
 *                                                      factor */
#ifndef SM_TRACE_H
#define SM_TRACE_H

#include "base/status.h"
#include <stdbool.h>

#define SM_TRACE_MAGIC "smoltrc1"
#define SM_TRACE_AHEAD 3u   /* distances recorded */
#define SM_TRACE_LAYERS 1024u
#define SM_TRACE_EXPERTS 1024u

struct sm_trace_shape { uint32_t n_layers, n_expert, n_used, n_group, n_group_used; };

/* ---- writing: nothing is allocated, `put` gets the bytes as they come ------------------------ */

struct sm_trace {
    void (*put)(void *arg, const void *bytes, size_t n);
    void *arg;
    struct sm_trace_shape shape;
};
/* bias: of one layer after the other, NULL: zeros; logits: what scores are, see record 4. */
void sm_trace_begin(struct sm_trace *t, const struct sm_trace_shape *shape,
                    const float *const *bias, bool logits);
void sm_trace_token(struct sm_trace *t, uint32_t token);
void sm_trace_scores(struct sm_trace *t, uint32_t layer, const float *scores);
void sm_trace_ahead(struct sm_trace *t, uint32_t layer, uint32_t distance, const uint16_t *ids,
                    uint32_t n);

/* ---- reading --------------------------------------------------------------------------------- */

/* All uses of one layer, in the order of tokens. */
struct sm_trace_layer {
    const float *bias;                      /* [n_expert] */
    uint32_t n;                             /* uses */
    float *score;                           /* [n][n_expert] */
    uint16_t *ahead[SM_TRACE_AHEAD];        /* [n][n_used], SM_NO_EXPERT: no expectation */
};
struct sm_trace_data {
    struct sm_trace_shape shape;
    struct sm_trace_layer *layer; /* [n_layers] */
    uint32_t n_tokens;
    uint32_t *token;              /* [n_tokens] use t of a layer is that of token t */
    bool logits;                  /* record 4 */
    uint64_t cut_at;              /* byte of a record that is cut off, the last one; 0: none is */
    void *block;                  /* everything above in one allocation */
    size_t block_bytes;
};
/* Read a trace of n bytes. FORMAT names the byte; a record that is cut off (the run was killed, the
 * disk was full) ends the trace. */
SM_NODISCARD smol_status sm_trace_read(struct sm_trace_data *d, const uint8_t *bytes, size_t n,
                                       smol_error *err);
void sm_trace_free(struct sm_trace_data *d);

#endif
