/* SPDX-License-Identifier: MIT */
/* Sessions whose rows and states went through drafts, saved files and cancelled steps: whatever
 * came before, the logits are the bits of a plain reading of the same tokens. */
#include "base/hash.h"
#include "infer/generate.h"
#include "infer/session_file.h"
#include "infer/speculate.h"
#include "inject.h"
#include "model_run.h"
#include "tap.h"
#include "temp.h"

#include <stdlib.h>
#include <string.h>

enum { CTX = 160, CHUNK = 16, N_PROMPT = 40, N_ANSWER = 30 };

struct run {
    struct sm_engine e;
    struct sm_session s;
    smol_error err;
    bool ok;
};

static smol_params params(float oracle)
{
    smol_params p;
    smol_params_default(&p);
    p.memory_bytes = (uint64_t)256 << 20;
    p.threads = 1;
    p.ctx = CTX;
    p.chunk = CHUNK;
    p.draft_oracle = oracle;
    return p;
}

static bool open_run(struct run *r, const char *model, const smol_params *p)
{
    char path[4096], name[128];
    memset(r, 0, sizeof *r);
    (void)snprintf(name, sizeof name, "tests/data/models/rand-%s.gguf", model);
    r->ok = sm_engine_open(&r->e, source_path(path, sizeof path, name), p, &r->err) == SMOL_OK &&
            sm_session_open(&r->s, &r->e, &r->err) == SMOL_OK;
    if (!r->ok) TAP_OK(false, "%s opens: %s", model, r->err.msg);
    return r->ok;
}

static void close_run(struct run *r)
{
    sm_session_close(&r->s);
    sm_engine_close(&r->e);
}

static void make_tokens(int32_t *t, size_t n, int32_t salt)
{
    for (size_t i = 0; i < n; i++) t[i] = ((int32_t)i * 37 + salt * (int32_t)(i / 3)) % 200 + 3;
}

static uint64_t logits_hash(const struct sm_session *s)
{
    const float *l = sm_session_logits(s);
    return l ? sm_hash64(l, s->e->model->hp.n_vocab * sizeof *l, 0) : 0;
}

/* Of a session that did nothing else than read these tokens. */
static uint64_t plain_hash(const char *model, const int32_t *tokens, size_t n)
{
    struct run r;
    const smol_params p = params(0);
    uint64_t hash = 0;
    if (open_run(&r, model, &p) && sm_session_sync(&r.s, tokens, n, &r.err) == SMOL_OK)
        hash = logits_hash(&r.s);
    close_run(&r);
    return hash;
}

/* ---- the answer
 * ---------------------------------------------------------------------------------- */

struct heard { size_t n, n_vocab; int32_t id[N_ANSWER]; uint64_t logits[N_ANSWER]; };

static void hear(void *arg, int32_t id, const float *logits)
{
    struct heard *h = arg;
    if (h->n < N_ANSWER) {
        h->id[h->n] = id;
        h->logits[h->n] = sm_hash64(logits, h->n_vocab * sizeof *logits, 0);
    }
    h->n++;
}

static bool answer(struct run *r, const int32_t *tokens, size_t n, struct heard *h,
                   smol_outcome *out)
{
    struct sm_sampler_params sp;
    struct sm_sampler *sampler = NULL;
    const struct sm_sampler_model sm = {.n_vocab = r->e.model->hp.n_vocab, .n_ctx = CTX};
    const smol_generation g = {.max_tokens = N_ANSWER, .special = true, .token = hear, .arg = h};
    *h = (struct heard){.n_vocab = sm.n_vocab};
    sm_sampler_defaults(&sp);
    sp.temp = 0.8f;
    sp.seed = 5;
    const bool ok = sm_session_sync(&r->s, tokens, n, &r->err) == SMOL_OK &&
                    sm_sampler_new(&sampler, &sp, &sm, &r->err) == SMOL_OK &&
                    sm_generate(&r->s, sampler, &g, out, &r->err) == SMOL_OK;
    sm_sampler_free(sampler);
    return ok;
}

/* Every token is told once, with the logits that it was drawn from, whatever was drafted; and a
 * state saved behind the answer has its logits. */
static void test_answer(const char *model)
{
    struct run plain, r;
    struct heard want, have;
    smol_outcome out = {0};
    int32_t t[N_PROMPT], all[CTX];
    const smol_params without = params(0), with = params(1);
    const char *path = temp_path("answer.state");
    uint64_t hash = 0;
    uint32_t n = 0;
    make_tokens(t, N_PROMPT, 0);
    if (!open_run(&plain, model, &without)) return;
    const bool good = answer(&plain, t, N_PROMPT, &want, &out);
    close_run(&plain);
    if (!open_run(&r, model, &with)) return;
    bool same = answer(&r, t, N_PROMPT, &have, &out) && good;
    const uint64_t accepted = r.e.draft.accepted;
    TAP_OK(same && have.n == out.n_tokens && !memcmp(&want, &have, sizeof want),
           "%s: %zu tokens, told %zu times with their logits (%llu drafts right) %s", model,
           out.n_tokens, have.n, (unsigned long long)accepted, r.err.msg);
    const uint32_t row = r.s.row;
    n = r.s.n;
    memcpy(all, r.e.tokens, n * sizeof *all);
    hash = logits_hash(&r.s);
    same = sm_session_save(&r.s, path, &r.err) == SMOL_OK && logits_hash(&r.s) == hash;
    close_run(&r);
    if (!open_run(&r, model, &with)) return;
    same = same && sm_session_load(&r.s, path, &r.err) == SMOL_OK && r.s.n == n;
    TAP_OK(same && hash && logits_hash(&r.s) == hash && hash == plain_hash(model, all, n),
           "%s: the logits in row %u are those of the saved state %s", model, row, r.err.msg);
    close_run(&r);
}

/* ---- what a saved state replaces
 * ----------------------------------------------------------------- */

enum { N_LONG = 90, N_SHORT = 60, N_BACK = 70 };

/* The session has a copy of the recurrent states of another text, and rows of a next-token
 * block. */
static void test_stale(const char *model, smol_draft draft)
{
    struct run r;
    struct heard want, have;
    smol_outcome out;
    int32_t a[N_LONG], b[N_SHORT];
    smol_params p = params(0);
    const char *path = temp_path("stale.state");
    const smol_params without = p;
    make_tokens(a, N_LONG, 0);
    make_tokens(b, N_SHORT, 1);
    if (!open_run(&r, model, &without)) return;
    bool ok = answer(&r, a, N_BACK, &want, &out);
    close_run(&r);
    p.draft = draft;
    if (!open_run(&r, model, &p)) return;
    ok = ok && sm_session_sync(&r.s, a, N_LONG, &r.err) == SMOL_OK &&
         sm_session_save(&r.s, path, &r.err) == SMOL_OK && answer(&r, b, N_SHORT, &have, &out) &&
         sm_session_load(&r.s, path, &r.err) == SMOL_OK;
    TAP_OK(ok && logits_hash(&r.s) == plain_hash(model, a, N_LONG),
           "%s: a state over another text %s", model, r.err.msg);
    TAP_OK(ok && r.e.next.done <= r.s.n && r.e.next.n <= 1 && !r.s.have_copy && !r.s.n_tried,
           "%s: nothing of that text is kept", model);
    ok = ok && answer(&r, a, N_BACK, &have, &out);
    TAP_OK(ok && !memcmp(&want, &have, sizeof want), "%s: back from there, the same answer %s",
           model, r.err.msg);
    close_run(&r);
}

/* The file cannot be read to its end any more, after its checksum was found right. */
static void test_broken(const char *model)
{
    struct run r;
    int32_t a[N_LONG], b[N_SHORT];
    const smol_params p = params(0);
    const char *path = temp_path("broken.state");
    make_tokens(a, N_LONG, 0);
    make_tokens(b, N_SHORT, 1);
    if (!open_run(&r, model, &p)) return;
    bool ok = sm_session_sync(&r.s, a, N_LONG, &r.err) == SMOL_OK &&
              sm_session_save(&r.s, path, &r.err) == SMOL_OK;
    const uint64_t last = sm_session_file_bytes(&r.s) - 100; /* in the logits */
    inject_start();
    (void)inject_add(&(struct inject_rule){.kind = INJECT_DELAY, .on = INJECT_READ, .at = last,
                                           .has_at = true});
    (void)inject_add(&(struct inject_rule){.kind = INJECT_EIO, .on = INJECT_READ, .at = last,
                                           .has_at = true});
    ok = ok && sm_session_load(&r.s, path, &r.err) == SMOL_IO;
    TAP_OK(ok && inject_fired(1) == 1 && r.s.n == 0 && !sm_session_logits(&r.s),
           "%s: half a state is none: %s", model, r.err.msg);
    inject_stop();
    r.err = (smol_error){0};
    ok = ok && sm_session_sync(&r.s, b, N_SHORT, &r.err) == SMOL_OK;
    TAP_OK(ok && logits_hash(&r.s) == plain_hash(model, b, N_SHORT),
           "%s: what is read then is right %s", model, r.err.msg);
    close_run(&r);
}

/* Keys and values behind other levers are others. */
static void test_levers(const char *model)
{
    struct run r;
    int32_t a[N_SHORT];
    smol_params p = params(0);
    const char *path = temp_path("levers.state");
    make_tokens(a, N_SHORT, 0);
    if (!open_run(&r, model, &p)) return;
    bool ok = sm_session_sync(&r.s, a, N_SHORT, &r.err) == SMOL_OK &&
              sm_session_save(&r.s, path, &r.err) == SMOL_OK;
    close_run(&r);
    p.experts_used = 2;
    if (!open_run(&r, model, &p)) return;
    ok = ok && sm_session_load(&r.s, path, &r.err) == SMOL_FORMAT;
    TAP_OK(ok && strstr(r.err.msg, "levers"), "%s, fewer experts: %s", model, r.err.msg);
    r.err = (smol_error){0};
    ok = sm_session_sync(&r.s, a, N_SHORT, &r.err) == SMOL_OK &&
         sm_session_save(&r.s, path, &r.err) == SMOL_OK &&
         sm_session_load(&r.s, path, &r.err) == SMOL_OK;
    TAP_OK(ok, "%s: a state of the same lever is loaded %s", model, r.err.msg);
    close_run(&r);
}

/* ---- the next-token block behind long batches of drafts from elsewhere
 * ----------------------------- */

static void test_left_behind(const char *model)
{
    struct run r;
    int32_t a[N_LONG], out;
    uint32_t n_out = 0;
    smol_params p = params(0);
    p.draft = SMOL_DRAFT_MTP;
    p.chunk = 1;
    make_tokens(a, N_LONG, 0);
    if (!open_run(&r, model, &p)) return;
    const uint32_t most = r.e.graph.dims.max_tok;
    bool ok = sm_session_sync(&r.s, a, N_SHORT, &r.err) == SMOL_OK;
    const uint32_t rows = r.e.next.done - r.e.next.shift;
    ok = ok && sm_engine_try(&r.e, a + N_SHORT, most, N_SHORT, &r.err) == SMOL_OK;
    sm_engine_keep(&r.e, most);
    memcpy(r.e.tokens, a, (N_SHORT + most + 1) * sizeof *a);
    ok =
        ok && sm_next_draft(&r.e, N_SHORT + most, 1, &out, &n_out, &r.err) == SMOL_OK && n_out == 1;
    const uint32_t added = r.e.next.done - r.e.next.shift - rows;
    TAP_OK(ok && added == most && r.e.next.done == N_SHORT + most + 1,
           "%s: %u rows into scratch for %u %s", model, added, most, r.err.msg);
    close_run(&r);
}

/* ---- what a ring forgot
 * -------------------------------------------------------------------------- */

/* A step or a batch with drafts that was cut off has written its rows; the last token is read
 * again. */
static void test_cut_off(const char *model, smol_draft draft, uint32_t n_tok)
{
    struct run r;
    int32_t a[N_LONG];
    smol_params p = params(0);
    p.draft = draft;
    make_tokens(a, N_LONG, 0);
    if (!open_run(&r, model, &p)) return;
    bool ok = sm_session_sync(&r.s, a, N_SHORT, &r.err) == SMOL_OK &&
              sm_engine_run(&r.e, a + N_SHORT, n_tok, N_SHORT, false, &r.err) == SMOL_OK;
    r.s.have_logits = false;
    ok = ok && sm_session_sync(&r.s, a, N_SHORT, &r.err) == SMOL_OK;
    TAP_OK(ok && logits_hash(&r.s) == plain_hash(model, a, N_SHORT) && r.e.n_prompt == N_SHORT + 1,
           "%s: %u rows written in vain are not seen %s", model, n_tok, r.err.msg);
    close_run(&r);
}

/* Wrong drafts stood where positions before the window were; going back may need those. */
static void test_ring(const char *model, uint32_t back)
{
    struct run r;
    int32_t a[N_LONG];
    const smol_params p = params(1e-6f);
    make_tokens(a, N_LONG, 0);
    if (!open_run(&r, model, &p)) return;
    r.s.oracle = a + N_SHORT;
    r.s.n_oracle = N_LONG - N_SHORT;
    bool ok = sm_session_sync(&r.s, a, N_SHORT, &r.err) == SMOL_OK &&
              sm_session_feed(&r.s, a[N_SHORT], 100, &r.err) == SMOL_OK;
    const uint32_t n_wrong = r.s.n_tried - 1;
    r.s.oracle = NULL;
    ok = ok && sm_session_sync(&r.s, a, N_SHORT - back, &r.err) == SMOL_OK;
    TAP_OK(ok && n_wrong > 4 && logits_hash(&r.s) == plain_hash(model, a, N_SHORT - back),
           "%s: back by %u after %u wrong drafts %s", model, back, n_wrong, r.err.msg);
    close_run(&r);
}

int main(int argc, char **argv)
{
    tap_init(argc, argv);
    test_answer("qwen35");
    test_answer("gpt-oss");
    test_answer("bailingmoe3");
    test_stale("qwen35", SMOL_DRAFT_MTP);
    test_stale("bailingmoe3", SMOL_DRAFT_MTP);
    test_stale("bailingmoe2", SMOL_DRAFT_AUTO);
    test_stale("lfm2moe", SMOL_DRAFT_LOOKUP);
    test_broken("qwen35");
    test_broken("bailingmoe3");
    test_broken("qwen3");
    test_levers("bailingmoe2");
    test_left_behind("qwen35");
    test_left_behind("bailingmoe3");
    for (uint32_t back = 0; back < 10; back += 3) test_ring("gpt-oss", back);
    test_ring("shape-gpt-oss", 1);
    test_cut_off("gpt-oss", SMOL_DRAFT_OFF, 1);
    test_cut_off("gpt-oss", SMOL_DRAFT_LOOKUP, 1);
    test_cut_off("gpt-oss", SMOL_DRAFT_LOOKUP, 9);
    test_cut_off("shape-gpt-oss", SMOL_DRAFT_LOOKUP, 9);
    test_cut_off("shape-gpt-oss-window", SMOL_DRAFT_OFF, 1);
    return tap_done();
}
