/* SPDX-License-Identifier: MIT */
#include "stats_text.h"

static double tok_s(const smol_stats *s)
{
    return s->seconds_decode > 0 ? (double)s->tokens_generated / s->seconds_decode : 0;
}

void sm_print_prediction(FILE *f, const smol_stats *s)
{
    const double real = tok_s(s);
    if (!(s->predicted_tok_s > 0) || !(real > 0)) return;
    if (s->draft_proposed) fprintf(f, " (predicted %.1f without drafts)", s->predicted_tok_s);
    else
        fprintf(f, " (predicted %.1f, %+.0f %%)", s->predicted_tok_s,
                100 * (s->predicted_tok_s / real - 1));
}

void sm_print_experts(FILE *f, const char *before, const smol_stats *s)
{
    if (!s->expert_misses) return;
    fprintf(f, "%sexperts: %.1f %% of uses missed, %.1f MB read, waited %.2f s", before,
            100.0 * (double)s->expert_misses / (double)s->expert_uses,
            (double)s->expert_bytes_read * 1e-6, s->demand_wait_seconds - s->stream_wait_seconds);
}

void sm_print_streamed(FILE *f, const char *before, const smol_stats *s)
{
    if (!s->streamed_bytes) return;
    fprintf(f, "%sstreamed: %.1f MB", before, (double)s->streamed_bytes * 1e-6);
    if (s->tokens_generated) fprintf(f, ", %.2f MB a token", s->streamed_bytes_per_token * 1e-6);
    fprintf(f, ", waited %.2f s", s->stream_wait_seconds);
    if (s->stream_overlap >= 0)
        fprintf(f, ", %.0f %% of the reading behind computing", 100 * s->stream_overlap);
}

void sm_print_drafts(FILE *f, const char *before, const smol_stats *s, bool on)
{
    if (!s->draft_proposed) {
        if (on) fprintf(f, "%sdrafts: none were proposed", before);
        return;
    }
    fprintf(f, "%sdrafts: %llu of %llu were right", before, (unsigned long long)s->draft_accepted,
            (unsigned long long)s->draft_proposed);
    if (s->tokens_generated > s->draft_accepted)
        fprintf(f, ", %.2f tokens a pass",
                (double)s->tokens_generated / (double)(s->tokens_generated - s->draft_accepted));
    if (s->draft_gain > 0) fprintf(f, ", %.2f times the speed without", s->draft_gain);
}
