/* SPDX-License-Identifier: MIT */
/* The next-token block: an ordinary block of the architecture, the matrix that joins its two
 * inputs, and norms. Embedding and head are the main model's unless the block brings its own. */
#include "model/bind.h"

#include <stdio.h>

static bool has(const struct sm_bind *b, const char *base) { return sm_bind_has(b, base); }

smol_status sm_bind_next(struct sm_bind *b)
{
    struct sm_model *m = b->m;
    struct sm_next *x = &m->next;
    const uint32_t i = m->hp.n_layer, E = m->hp.n_embd;
    char name[96];
    b->layer = i; /* in the order of use, which is that of streams */
    SM_TRY(sm_bind_vector(b, "nextn.enorm", "weight", E, false, &x->token_norm));
    SM_TRY(sm_bind_vector(b, "nextn.hnorm", "weight", E, false, &x->row_norm));
    SM_TRY(sm_bind_matrix(b, "nextn.eh_proj", 2 * E, E, &x->join));
    SM_TRY(sm_bind_layer(b, i, &m->layers[i]));
    x->norm = m->out_norm;
    x->embd = m->embd;
    x->head = m->head;
    if (has(b, "nextn.shared_head_norm"))
        SM_TRY(sm_bind_vector(b, "nextn.shared_head_norm", "weight", E, false, &x->norm));
    else if (has(b, "layer_output_norm"))
        SM_TRY(sm_bind_vector(b, "layer_output_norm", "weight", E, false, &x->norm));
    if (has(b, "nextn.embed_tokens")) {
        (void)snprintf(name, sizeof name, "blk.%u.nextn.embed_tokens.weight", i);
        SM_TRY(sm_bind_by_row(b, name, E, m->hp.n_vocab, &x->embd));
    }
    if (has(b, "nextn.shared_head_head"))
        SM_TRY(sm_bind_matrix(b, "nextn.shared_head_head", E, m->hp.n_vocab, &x->head));
    return SMOL_OK;
}
