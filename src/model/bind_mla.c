/* SPDX-License-Identifier: MIT */
/* Keys and tensors of latent attention, alike in deepseek2 and bailingmoe3. */
#include "model/bind.h"

#include <math.h>

smol_status sm_key_mla(struct sm_bind *b)
{
    struct sm_hparams *hp = &b->m->hp;
    struct sm_mla_params *p = &hp->mla;
    uint32_t head = hp->dk; /* width of a query head; the other keys may describe the cached row */
    p->dv = hp->dv;
    SM_TRY(sm_key_need_u32(b, "attention.kv_lora_rank", 8, 4096, &p->n_latent));
    SM_TRY(sm_key_u32(b, "attention.key_length_mla", 2, 4096, &head));
    SM_TRY(sm_key_u32(b, "attention.value_length_mla", 1, 4096, &p->dv));
    if (head <= hp->rope.n_rot)
        return SM_FAIL(b->err, FORMAT, "heads of %u channels cannot rotate %u and keep some", head,
                       hp->rope.n_rot);
    p->n_plain = head - hp->rope.n_rot;
    if (p->n_plain % 8 || p->n_latent % 8 || p->dv % 8)
        return SM_FAIL(b->err, UNSUPPORTED, "latent attention with %u plain channels, a latent row "
                       "of %u and values of %u: multiples of 8 were expected", p->n_plain,
                       p->n_latent, p->dv);
    p->scale = 1 / sqrt((double)head);
    return SMOL_OK;
}

smol_status sm_bind_mla(struct sm_bind *b, struct sm_mla *a)
{
    const struct sm_hparams *hp = &b->m->hp;
    const struct sm_mla_params *p = &hp->mla;
    const uint32_t E = hp->n_embd, n_rot = hp->rope.n_rot, H = hp->n_head;
    *a = (struct sm_mla){.n_head = H, .n_plain = p->n_plain, .n_rot = n_rot,
                         .n_latent = p->n_latent, .dv = p->dv, .eps = hp->eps,
                         .scale = (float)p->scale, .rope = &b->m->rope};
    /* in the order of use (project_all in mla.c), which is that of streams */
    SM_TRY(sm_bind_matrix(b, "attn_kv_a_mqa", E, p->n_latent + n_rot, &a->wkv_a));
    SM_TRY(sm_bind_vector(b, "attn_kv_a_norm", "weight", p->n_latent, false, &a->kv_norm));
    if (sm_bind_has(b, "attn_gate")) SM_TRY(sm_bind_matrix(b, "attn_gate", E, H, &a->gate));
    if (sm_bind_has(b, "attn_q_a")) { /* the tensor decides, not q_lora_rank */
        SM_TRY(sm_bind_matrix(b, "attn_q_a", E, 0, &a->wq_a));
        SM_TRY(sm_bind_vector(b, "attn_q_a_norm", "weight", a->wq_a->n_out, false, &a->q_norm));
        SM_TRY(sm_bind_matrix(b, "attn_q_b", a->wq_a->n_out, H * (p->n_plain + n_rot), &a->wq_b));
    } else {
        SM_TRY(sm_bind_matrix(b, "attn_q", E, H * (p->n_plain + n_rot), &a->wq));
    }
    if (sm_bind_has(b, "attn_k_b")) {
        SM_TRY(sm_bind_stack(b, "attn_k_b", p->n_plain, p->n_latent, H, &a->wk_b));
        SM_TRY(sm_bind_stack(b, "attn_v_b", p->n_latent, p->dv, H, &a->wv_b));
    } else {
        SM_TRY(sm_bind_matrix(b, "attn_kv_b", p->n_latent, H * (p->n_plain + p->dv), &a->wkv_b));
    }
    sm_store_pin(b->store, a->wk_b, true); /* used by the rows of single heads */
    sm_store_pin(b->store, a->wv_b, true);
    sm_store_pin(b->store, a->wkv_b, true);
    return sm_bind_matrix(b, "attn_output", H * p->dv, E, &a->wo);
}
