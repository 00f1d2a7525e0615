/* SPDX-License-Identifier: MIT */
#include "store/trace.h"

#include "base/bits.h"
#include "base/mem.h"

#include <math.h>
#include <string.h>

#define MAGIC SM_TRACE_MAGIC
#define MAGIC_BYTES 8u
#define HEADER_BYTES (MAGIC_BYTES + 5u * 4u)
enum { TAG_TOKEN = 1, TAG_SCORES = 2, TAG_AHEAD = 3, TAG_HOW = 4 };

static void put_u32(struct sm_trace *t, unsigned tag, uint32_t value)
{
    uint8_t r[5] = {(uint8_t)tag};
    sm_st32(r + 1, value);
    t->put(t->arg, r, sizeof r);
}

void sm_trace_begin(struct sm_trace *t, const struct sm_trace_shape *shape,
                    const float *const *bias, bool logits)
{
    uint8_t header[HEADER_BYTES];
    t->shape = *shape;
    memcpy(header, MAGIC, MAGIC_BYTES);
    sm_st32(header + 8, shape->n_layers);
    sm_st32(header + 12, shape->n_expert);
    sm_st32(header + 16, shape->n_used);
    sm_st32(header + 20, shape->n_group);
    sm_st32(header + 24, shape->n_group_used);
    t->put(t->arg, header, sizeof header);
    for (uint32_t i = 0; i < shape->n_layers; i++) {
        static const float zero[SM_TRACE_EXPERTS];
        t->put(t->arg, bias[i] ? bias[i] : zero, shape->n_expert * sizeof(float));
    }
    if (logits) put_u32(t, TAG_HOW, 1);
}

void sm_trace_token(struct sm_trace *t, uint32_t token)
{
    put_u32(t, TAG_TOKEN, token);
}

void sm_trace_scores(struct sm_trace *t, uint32_t layer, const float *scores)
{
    uint8_t r[3] = {TAG_SCORES};
    if (layer >= t->shape.n_layers) return; /* beyond the main stack */
    sm_st16(r + 1, (uint16_t)layer);
    t->put(t->arg, r, sizeof r);
    t->put(t->arg, scores, t->shape.n_expert * sizeof *scores);
}

void sm_trace_ahead(struct sm_trace *t, uint32_t layer, uint32_t distance, const uint16_t *ids,
                    uint32_t n)
{
    uint8_t r[5 + 2 * 255] = {TAG_AHEAD};
    if (n > 255) n = 255;
    sm_st16(r + 1, (uint16_t)layer);
    r[3] = (uint8_t)distance;
    r[4] = (uint8_t)n;
    for (uint32_t i = 0; i < n; i++) sm_st16(r + 5 + 2 * i, ids[i]);
    t->put(t->arg, r, 5 + 2 * (size_t)n);
}

/* ---- reading --------------------------------------------------------------------------------- */

struct record {
    unsigned tag;
    uint32_t layer, distance, n, value;
    const uint8_t *data;
};

struct cursor {
    const uint8_t *bytes;
    size_t n, at;
    struct sm_trace_shape shape;
};

/* The next record; *end when there is no whole one. */
static smol_status next(struct cursor *c, struct record *r, bool *end, smol_error *err)
{
    const uint8_t *p = c->bytes + c->at;
    const size_t left = c->n - c->at;
    size_t need = 5;
    memset(r, 0, sizeof *r);
    *end = true;
    if (!left) return SMOL_OK;
    r->tag = p[0];
    if (r->tag == TAG_SCORES) need = 3 + (size_t)c->shape.n_expert * sizeof(float);
    else if (r->tag == TAG_AHEAD && left >= 5) need = 5 + 2 * (size_t)p[4];
    else if (r->tag != TAG_TOKEN && r->tag != TAG_AHEAD && r->tag != TAG_HOW)
        return SM_FAIL_AT(err, FORMAT, c->at, "record of unknown kind %u at byte %zu", r->tag,
                          c->at);
    if (left < need) return SMOL_OK; /* the run was cut off here */
    if (r->tag == TAG_TOKEN || r->tag == TAG_HOW) r->value = sm_ld32(p + 1);
    else r->layer = sm_ld16(p + 1);
    if (r->layer >= c->shape.n_layers)
        return SM_FAIL_AT(err, FORMAT, c->at, "layer %u of %u at byte %zu", (unsigned)r->layer,
                          (unsigned)c->shape.n_layers, c->at);
    r->data = p + (r->tag == TAG_SCORES ? 3 : 5);
    if (r->tag == TAG_AHEAD) {
        r->distance = p[3];
        r->n = p[4];
        if (r->distance < 1 || r->distance > SM_TRACE_AHEAD)
            return SM_FAIL_AT(err, FORMAT, c->at, "distance %u at byte %zu, 1 to %u were expected",
                              (unsigned)r->distance, c->at, SM_TRACE_AHEAD);
    }
    c->at += need;
    *end = false;
    return SMOL_OK;
}

static smol_status read_shape(struct cursor *c, smol_error *err)
{
    struct sm_trace_shape *s = &c->shape;
    if (c->n < HEADER_BYTES || memcmp(c->bytes, MAGIC, MAGIC_BYTES) != 0)
        return SM_FAIL_AT(err, FORMAT, 0, "not a routing trace (\"%s\" is expected)", MAGIC);
    *s = (struct sm_trace_shape){sm_ld32(c->bytes + 8), sm_ld32(c->bytes + 12),
                                 sm_ld32(c->bytes + 16), sm_ld32(c->bytes + 20),
                                 sm_ld32(c->bytes + 24)};
    const bool groups =
        s->n_group <= 1 ||
        (s->n_group <= 64 && s->n_expert % s->n_group == 0 && s->n_group_used >= 1 &&
         s->n_group_used <= s->n_group && s->n_expert / s->n_group * s->n_group_used >= s->n_used);
    if (s->n_layers < 1 || s->n_layers > SM_TRACE_LAYERS || s->n_expert < 2 ||
        s->n_expert > SM_TRACE_EXPERTS || s->n_used < 1 || s->n_used > 64 ||
        s->n_used > s->n_expert || !groups)
        return SM_FAIL_AT(err, FORMAT, 8,
                          "%u layers of %u experts, %u used, %u of %u groups: no such model",
                          (unsigned)s->n_layers, (unsigned)s->n_expert, (unsigned)s->n_used,
                          (unsigned)s->n_group_used, (unsigned)s->n_group);
    c->at = HEADER_BYTES + (size_t)s->n_layers * s->n_expert * sizeof(float);
    if (c->at > c->n)
        return SM_FAIL_AT(err, FORMAT, c->n, "the trace ends inside its header");
    return SMOL_OK;
}

/* Uses of each layer, tokens, and where a record is cut off. */
static smol_status count(struct cursor c, uint32_t *n_uses, struct sm_trace_data *d,
                         smol_error *err)
{
    for (;;) {
        struct record r;
        bool end;
        SM_TRY(next(&c, &r, &end, err));
        if (end) {
            d->cut_at = c.at < c.n ? c.at : 0;
            return SMOL_OK;
        }
        if (r.tag == TAG_SCORES) n_uses[r.layer]++;
        d->n_tokens += r.tag == TAG_TOKEN;
    }
}

static void layout(struct sm_trace_data *d, struct sm_arena *a, const uint32_t *n_uses)
{
    const struct sm_trace_shape *s = &d->shape;
    struct sm_trace_layer *layer = SM_ARENA_NEW(a, struct sm_trace_layer, s->n_layers);
    for (uint32_t i = 0; i < s->n_layers; i++) {
        float *bias = SM_ARENA_NEW(a, float, s->n_expert);
        float *score = SM_ARENA_NEW(a, float, (size_t)n_uses[i] * s->n_expert);
        if (layer) layer[i] = (struct sm_trace_layer){.bias = bias, .score = score};
        for (uint32_t k = 0; k < SM_TRACE_AHEAD; k++) {
            uint16_t *ahead = SM_ARENA_NEW(a, uint16_t, (size_t)n_uses[i] * s->n_used);
            if (layer) layer[i].ahead[k] = ahead;
            if (layer && n_uses[i])
                memset(ahead, 0xff, (size_t)n_uses[i] * s->n_used * sizeof *ahead);
        }
    }
    d->layer = layer;
    d->token = SM_ARENA_NEW(a, uint32_t, d->n_tokens);
}

static smol_status fill(struct sm_trace_data *d, struct cursor c, const uint32_t *n_uses,
                        smol_error *err)
{
    const struct sm_trace_shape *s = &d->shape;
    for (uint32_t i = 0; i < s->n_layers; i++)
        memcpy((float *)(uintptr_t)d->layer[i].bias,
               c.bytes + HEADER_BYTES + (size_t)i * s->n_expert * sizeof(float),
               s->n_expert * sizeof(float));
    for (uint32_t t = 0;;) {
        struct record r;
        bool end;
        SM_TRY(next(&c, &r, &end, err));
        if (end) return SMOL_OK;
        struct sm_trace_layer *l = &d->layer[r.layer];
        if (r.tag == TAG_SCORES) {
            float *to = l->score + (size_t)l->n * s->n_expert;
            memcpy(to, r.data, s->n_expert * sizeof(float));
            for (uint32_t e = 0; e < s->n_expert; e++)
                if (!isfinite(to[e]) || !isfinite(l->bias[e]))
                    return SM_FAIL_AT(err, FORMAT, (uint64_t)(r.data - c.bytes),
                                      "a score at byte %zu is no number",
                                      (size_t)(r.data - c.bytes));
            l->n++;
        } else if (r.tag == TAG_TOKEN) {
            d->token[t++] = r.value;
        } else if (r.tag == TAG_HOW) {
            d->logits = r.value == 1;
        } else if (r.tag == TAG_AHEAD && l->n < n_uses[r.layer]) {
            uint16_t *to = l->ahead[r.distance - 1] + (size_t)l->n * s->n_used;
            for (uint32_t i = 0; i < r.n && i < s->n_used; i++) {
                const uint32_t id = sm_ld16(r.data + 2 * i);
                if (id >= s->n_expert)
                    return SM_FAIL_AT(err, FORMAT, (uint64_t)(r.data - c.bytes),
                                      "expert %u of %u at byte %zu", (unsigned)id,
                                      (unsigned)s->n_expert, (size_t)(r.data - c.bytes));
                to[i] = (uint16_t)id;
            }
        }
    }
}

smol_status sm_trace_read(struct sm_trace_data *d, const uint8_t *bytes, size_t n, smol_error *err)
{
    struct cursor c = {.bytes = bytes, .n = n};
    uint32_t n_uses[SM_TRACE_LAYERS] = {0};
    struct sm_arena a = {0};
    *d = (struct sm_trace_data){0};
    SM_TRY(read_shape(&c, err));
    d->shape = c.shape;
    SM_TRY(count(c, n_uses, d, err));
    layout(d, &a, n_uses);
    d->block_bytes = a.used;
    d->block = sm_mem_new(a.used);
    if (!d->block) return SM_FAIL(err, NOMEM, "no memory for a trace of %zu bytes", n);
    a = (struct sm_arena){.base = d->block, .capacity = d->block_bytes};
    layout(d, &a, n_uses);
    const smol_status st = fill(d, c, n_uses, err);
    if (st != SMOL_OK) sm_trace_free(d);
    return st;
}

void sm_trace_free(struct sm_trace_data *d)
{
    sm_mem_free(d->block, d->block_bytes);
    *d = (struct sm_trace_data){0};
}
