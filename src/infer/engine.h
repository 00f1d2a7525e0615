/* SPDX-License-Identifier: MIT */
/* A loaded model: file, vocabulary, kernels, threads, store, layers and all memory of one session,
 * laid out by the plan before anything of it was allocated. */
#ifndef SM_ENGINE_H
#define SM_ENGINE_H

#include "model/model.h"
#include "store/device_profile.h"
#include "store/plan.h"
#include "tok/tok.h"

struct sm_engine {
    struct sm_gguf *gguf;
    struct sm_tok *tok; /* NULL: the file has no tokeniser */
    struct sm_kern kern;
    struct sm_pool *pool;
    struct sm_store *store;
    struct sm_model *model;
    struct sm_graph graph;
    struct sm_plan plan;
    struct sm_flash_profile flash; /* of the file's device; device 0: not known */
    smol_plan plan_info; /* the same for the public header */
    enum sm_kv_type kv_type;
    uint32_t logit_rows;
    const volatile bool *cancel;
    smol_progress_fn progress;
    void *progress_arg;

    uint8_t *scratch, *session; /* blocks of the arenas below */
    size_t scratch_bytes, session_bytes;
    struct sm_layer_state *state; /* [n_layer] */
    int32_t *tokens;        /* [ctx] of the session */
    bool in_use;            /* a session is open */
    uint64_t model_number;  /* of sm_session_model, 0: not known yet */

    /* statistics */
    uint64_t n_prompt, n_generated, ns_load, ns_prompt, ns_decode;
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
void sm_engine_stats(const struct sm_engine *e, smol_stats *out);

#endif
