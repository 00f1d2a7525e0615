/* SPDX-License-Identifier: MIT */
/* A loaded model: file, vocabulary, kernels, threads, store, layers and all memory of one session,
 * laid out by the plan before anything of it was allocated. */
#ifndef SM_ENGINE_H
#define SM_ENGINE_H

#include "infer/draft.h"
#include "graph/prefetch.h"
#include "model/model.h"
#include "store/device_profile.h"
#include "store/plan.h"
#include "store/trace.h"
#include "tok/tok.h"

/* The next-token block beside the session, see speculate.c. */
struct sm_next_rows {
    float *hidden;               /* rows for the tokens first .. first + n - 1 */
    float *own;                  /* the block's own hidden row, for chains */
    uint32_t first, n;
    uint32_t done, shift, whole; /* tokens below `done` have rows; no gap from `whole` on */
};

struct sm_calibration;

struct sm_engine {
    struct sm_gguf *gguf;
    struct sm_tok *tok; /* NULL: the file has no tokeniser */
    struct sm_kern kern;
    struct sm_pool *pool;
    struct sm_store *store;
    struct sm_model *model;
    struct sm_graph graph;
    struct sm_prefetch prefetch;
    uint32_t prefetch_depth;
    struct sm_trace trace;
    float *learned; /* uses per 1000 tokens [pools][n_expert], until the model is open; or NULL */
    uint8_t *prefetch_mem; /* plan.prefetch_bytes */
    struct sm_plan plan;
    struct sm_flash_profile flash; /* of the file's device; device 0: not known */
    uint64_t budget_bytes; /* looked at once: every plan of an opening is for the same budget */
    uint64_t needed_bytes; /* the smallest budget for these options */
    uint64_t sampler_bytes;
    uint32_t stream_chunk; /* tokens per sweep when dense weights are streamed; 0: they are not */
    smol_plan plan_info; /* the same for the public header */
    enum sm_kv_type kv_type;
    char lever_text[4][64]; /* of the levers on routing that are on; "": off */
    bool ctx_shift;
    uint32_t logit_rows;
    smol_draft draft_kind; /* as asked for; off beside levers that look at the pool */
    uint32_t n_draft; /* tokens drafted at once, at most; 0: no drafts */
    const volatile bool *cancel;
    smol_progress_fn progress;
    void *progress_arg;

    uint8_t *scratch, *session; /* blocks of the arenas below */
    size_t scratch_bytes, session_bytes;
    struct sm_layer_state *state; /* [n_layer] */
    int32_t *tokens;        /* [ctx] of the session */
    uint8_t *snapshot;      /* recur_bytes: copy of the recurrent states, the head of `session` */
    size_t recur_bytes;     /* 0: no recurrent layers */
    bool in_use;            /* a session is open */
    uint64_t model_number;  /* of sm_session_model, 0: not known yet */

    struct sm_calibration *calibration; /* NULL: not asked for */
    struct sm_draft draft;
    struct sm_next_rows next;
    uint64_t oracle_state;
    float oracle; /* --draft-oracle: share of right drafts, 0: off */

    /* statistics */
    uint64_t n_prompt, n_generated, ns_load, ns_prompt, ns_decode;
    uint64_t decode_streamed_bytes; /* for the tokens generated */
    struct sm_store_stats silent;   /* of the oracle's silent answers: in no figure */
};

/* Open `path`; everything is released by sm_engine_close also after a failure. */
SM_NODISCARD smol_status sm_engine_open(struct sm_engine *e, const char *path, const smol_params *p,
                                        smol_error *err);
void sm_engine_close(struct sm_engine *e);
/* Plan only: the header is read, nothing else. `out` is filled as far as the plan went. */
SM_NODISCARD smol_status sm_engine_plan(const char *path, const smol_params *p, smol_plan *out,
                                        smol_error *err);
/* What a context costs, from the header alone. */
SM_NODISCARD smol_status sm_engine_context_cost(const char *path, const smol_params *p,
                                                smol_context_cost *out, smol_error *err);
/* Run tokens at position pos0 (ids below n_vocab, n_tok <= plan.chunk); logits of the last row are
 * in e->graph.logits afterwards when want_logits. */
SM_NODISCARD smol_status sm_engine_run(struct sm_engine *e, const int32_t *tokens, uint32_t n_tok,
                                       uint32_t pos0, bool want_logits, smol_error *err);
/* The same for a batch of up to SM_DRAFT_MAX + 1 tokens that may be taken back, with the logits of
 * all its rows; then sm_engine_keep says how many of them stay. */
SM_NODISCARD smol_status sm_engine_try(struct sm_engine *e, const int32_t *tokens, uint32_t n_tok,
                                       uint32_t pos0, smol_error *err);
void sm_engine_keep(struct sm_engine *e, uint32_t n);
/* See smol_model_learn. */
SM_NODISCARD smol_status sm_engine_learn(const struct sm_engine *e, const char *path,
                                         smol_error *err);
/* What the store counted since `before` was for an answer that nobody sees. */
void sm_engine_leave_out(struct sm_engine *e, const struct sm_store_stats *before);
/* See smol_stats. */
void sm_engine_stats(const struct sm_engine *e, smol_stats *out);

#endif
