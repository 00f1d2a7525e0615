/* SPDX-License-Identifier: MIT */
#include "graph/rope.h"
#include "base/fmath.h"

#define PI 0x1.921fb54442d18p1

/* Channel that makes `turns` turns over the original context (YaRN). */
static double yarn_channel(const struct sm_rope_params *p, double turns)
{
    return p->n_rot * sm_log(p->yarn_ctx / (turns * 2 * PI)) / (2 * sm_log(p->base));
}

void sm_rope_init(struct sm_rope *r, const struct sm_rope_params *p)
{
    const double log_base = sm_log(p->base);
    double lo = 0, hi = 0;
    r->n_rot = p->n_rot;
    r->adjacent = p->adjacent;
    r->gain = 1;
    if (p->yarn) {
        lo = sm_floor(yarn_channel(p, p->yarn_beta_fast));
        hi = sm_ceil(yarn_channel(p, p->yarn_beta_slow));
        lo = lo > 0 ? lo : 0;
        hi = hi < p->n_rot - 1.0 ? hi : p->n_rot - 1.0;
        if (!p->yarn_no_gain) r->gain = 1 + 0.1 * sm_log(p->yarn_factor);
    }
    for (uint32_t j = 0; j < p->n_rot / 2; j++) {
        double f = sm_exp(-(2.0 * j / p->n_rot) * log_base);
        if (p->factors) f = f / (double)p->factors[j];
        if (p->yarn) {
            const double width = hi - lo > 0.001 ? hi - lo : 0.001;
            double keep = (j - lo) / width;
            keep = 1 - (keep < 0 ? 0 : keep > 1 ? 1 : keep);
            f = f * (1 / p->yarn_factor) * (1 - keep) + f * keep;
        } else {
            f = f * (1 / p->linear_factor);
        }
        r->freq[j] = f;
    }
}

struct fill_job { const struct sm_rope *r; float *cs; uint32_t pos0; };

static void fill_row(void *arg, uint32_t t, unsigned worker)
{
    const struct fill_job *j = arg;
    const uint32_t half = j->r->n_rot / 2;
    float *cs = j->cs + (size_t)t * j->r->n_rot;
    (void)worker;
    for (uint32_t i = 0; i < half; i++) {
        const double angle = (double)(j->pos0 + t) * j->r->freq[i];
        cs[i] = (float)(sm_cos(angle) * j->r->gain);
        cs[half + i] = (float)(sm_sin(angle) * j->r->gain);
    }
}

void sm_rope_fill(struct sm_graph *g, const struct sm_rope *r, float *cs, uint32_t pos0,
                  uint32_t n_tok)
{
    struct fill_job j = {r, cs, pos0};
    sm_graph_for(g, n_tok, fill_row, &j);
}
