/* SPDX-License-Identifier: MIT */
/* Levers that change the answer: those on routing, the list of all that are on; and the trace of
 * routing. */
#include "infer/engine_int.h"

#include <stdio.h>

bool sm_engine_pool_lever(const smol_params *p)
{
    return p->route_bias != 0 || p->route_swap > 0 || p->route_drop > 0;
}

smol_status sm_engine_set_levers(struct sm_engine *e, const smol_params *p, smol_error *err)
{
    const struct sm_lever lever = {
        .bias = p->route_bias, .bias_keep = p->route_bias_keep, .bias_range = p->route_bias_range,
        .swap = p->route_swap, .swap_keep = p->route_swap_keep,
        .drop = p->route_drop, .drop_keep = p->route_drop_keep};
    struct sm_hparams *hp = &e->model->hp;
    if (p->experts_used > hp->n_used)
        return SM_FAIL(err, ARG, "%u experts per token: this model uses %u", p->experts_used,
                       hp->n_used);
    if (p->experts_used && p->experts_used < hp->n_used) {
        (void)snprintf(e->lever_text[0], sizeof e->lever_text[0], "experts-used %u of %u",
                       p->experts_used, hp->n_used);
        hp->n_used = p->experts_used;
    }
    if (hp->n_expert && p->route_bias != 0)
        (void)snprintf(e->lever_text[1], sizeof e->lever_text[1], "route-bias %g%s, best %u kept",
                       (double)p->route_bias, p->route_bias_range ? " of the range" : "",
                       p->route_bias_keep);
    if (hp->n_expert && p->route_swap > 0)
        (void)snprintf(e->lever_text[2], sizeof e->lever_text[2], "route-swap %g, best %u kept",
                       (double)p->route_swap, p->route_swap_keep);
    if (hp->n_expert && p->route_drop > 0)
        (void)snprintf(e->lever_text[3], sizeof e->lever_text[3], "route-drop %g, best %u kept",
                       (double)p->route_drop, p->route_drop_keep > 1 ? p->route_drop_keep : 1);
    for (uint32_t i = 0; i < sm_model_n_blocks(e->model); i++) { /* scratch has room for n_used */
        if (!e->model->layers[i].is_moe) continue;
        e->model->layers[i].moe.router.lever = lever;
        e->model->layers[i].moe.router.n_used = hp->n_used;
    }
    return SMOL_OK;
}

void sm_engine_list_levers(const struct sm_engine *e, smol_stats *out)
{
    if (e->kv_type == SM_KV_Q8_0) out->loss_levers[out->n_loss_levers++] = "kv q8_0";
    if (e->ctx_shift) out->loss_levers[out->n_loss_levers++] = "ctx-shift";
    for (size_t i = 0; i < sizeof e->lever_text / sizeof *e->lever_text; i++)
        if (e->lever_text[i][0]) out->loss_levers[out->n_loss_levers++] = e->lever_text[i];
}

void sm_engine_begin_trace(struct sm_engine *e, const smol_params *p)
{
    const struct sm_hparams *hp = &e->model->hp;
    const float *bias[SM_TRACE_LAYERS];
    uint32_t n = 0;
    if (!p->trace || !hp->n_expert || hp->n_expert > SM_TRACE_EXPERTS) return;
    for (uint32_t i = 0; i < hp->n_layer && n < SM_TRACE_LAYERS; i++)
        if (e->model->layers[i].is_moe) bias[n++] = e->model->layers[i].moe.router.bias;
    const struct sm_trace_shape shape = {n, hp->n_expert, hp->n_used, hp->n_group,
                                         hp->n_group_used};
    e->trace = (struct sm_trace){.put = p->trace, .arg = p->trace_arg};
    sm_trace_begin(&e->trace, &shape, bias, hp->gating == SM_GATING_SOFTMAX_CHOSEN);
    e->graph.trace = &e->trace;
}
