/* SPDX-License-Identifier: MIT */
#include "infer/session_file.h"

#include "base/hash.h"
#include "plat/file_writer.h"

#include <stdlib.h>
#include <string.h>

#define MAGIC "smolsess"
#define VERSION 2u
#define BUFFER ((size_t)64 << 10)

/* Numbers are little-endian, as in memory. */
struct header {
    char magic[8];
    uint32_t version, kv_type;
    uint64_t model;
    uint32_t n_tokens, n_layer, n_vocab, have_logits;
    uint64_t payload_bytes; /* between header and checksum */
    uint8_t room[72];
    uint64_t hash; /* of the bytes before it */
};
_Static_assert(sizeof(struct header) == 128, "as the file has it");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "files are little-endian");

/* ---- the model's number ---- */

#define SAMPLES 32u
#define SAMPLE_BYTES ((size_t)4096)

smol_status sm_session_model(struct sm_engine *e, uint64_t *out, smol_error *err)
{
    struct sm_hash h;
    uint8_t buf[SAMPLE_BYTES];
    *out = e->model_number;
    if (e->model_number) return SMOL_OK;
    sm_hash_begin(&h, VERSION);
    sm_hash_put(&h, e->lever_text, sizeof e->lever_text); /* keys and values depend on them */
    for (size_t i = 0; i < sm_gguf_n_files(e->gguf); i++) {
        struct sm_file *f = NULL;
        SM_TRY(sm_file_open(&f, sm_gguf_file_path(e->gguf, i), false, err));
        const uint64_t bytes = sm_file_size(f);
        smol_status st = SMOL_OK;
        sm_hash_put(&h, &bytes, sizeof bytes);
        for (uint64_t k = 0; st == SMOL_OK && k < SAMPLES && bytes; k++) {
            const uint64_t at = bytes / SAMPLES * k;
            const size_t n = bytes - at < SAMPLE_BYTES ? (size_t)(bytes - at) : SAMPLE_BYTES;
            st = sm_file_read(f, at, buf, n, err);
            if (st == SMOL_OK) sm_hash_put(&h, buf, n);
        }
        sm_file_close(f);
        SM_TRY(st);
    }
    e->model_number = sm_hash_end(&h);
    if (!e->model_number) e->model_number = 1;
    *out = e->model_number;
    return SMOL_OK;
}

/* ---- the parts of a state, in the order of the file ---- */

typedef smol_status (*part_fn)(void *arg, void *p, size_t n, smol_error *err);

static size_t rows_of(const struct sm_kv_cache *kv, uint32_t n)
{
    return n < kv->capacity ? n : kv->capacity; /* a ring holds its last `capacity` positions */
}

/* Everything that positions 0 .. n - 1 left behind: recurrent states, which begin the session's
 * memory, then keys and values of the layers that attend, then the logits. */
static smol_status each_part(struct sm_engine *e, uint32_t n, bool logits, part_fn fn, void *arg,
                             smol_error *err)
{
    const size_t recur = sm_model_recur_bytes(e->model);
    if (recur) SM_TRY(fn(arg, e->session, recur, err));
    for (uint32_t i = 0; i < e->model->hp.n_layer; i++) {
        const struct sm_kv_cache *kv = &e->state[i].kv;
        const size_t k = rows_of(kv, n) * kv->k_stride, v = rows_of(kv, n) * kv->v_stride;
        if (kv->k && k) SM_TRY(fn(arg, kv->k, k, err));
        if (kv->v && v && kv->v != kv->k) SM_TRY(fn(arg, kv->v, v, err));
    }
    if (!logits) return SMOL_OK;
    return fn(arg, e->graph.logits, (size_t)e->model->hp.n_vocab * sizeof(float), err);
}

static smol_status count_part(void *arg, void *p, size_t n, smol_error *err)
{
    uint64_t *sum = arg;
    (void)p;
    (void)err;
    *sum += n;
    return SMOL_OK;
}

static uint64_t payload_bytes(struct sm_engine *e, uint32_t n, bool logits)
{
    uint64_t sum = (uint64_t)n * sizeof *e->tokens;
    (void)!each_part(e, n, logits, count_part, &sum, NULL);
    return sum;
}

uint64_t sm_session_file_bytes(const struct sm_session *s)
{
    return sizeof(struct header) + payload_bytes(s->e, s->n, s->have_logits) + sizeof(uint64_t);
}

static smol_status make_header(const struct sm_session *s, struct header *h, smol_error *err)
{
    struct sm_engine *e = s->e;
    *h = (struct header){.version = VERSION,
                         .kv_type = (uint32_t)e->kv_type,
                         .n_tokens = s->n,
                         .n_layer = e->model->hp.n_layer,
                         .n_vocab = e->model->hp.n_vocab,
                         .have_logits = s->have_logits};
    memcpy(h->magic, MAGIC, sizeof h->magic);
    SM_TRY(sm_session_model(e, &h->model, err));
    h->payload_bytes = payload_bytes(e, s->n, s->have_logits);
    h->hash = sm_hash64(h, offsetof(struct header, hash), 0);
    return SMOL_OK;
}

/* ---- writing ---- */

struct saver {
    struct sm_writer *w;
    struct sm_hash hash;
};

static smol_status save_part(void *arg, void *p, size_t n, smol_error *err)
{
    struct saver *s = arg;
    sm_hash_put(&s->hash, p, n);
    return sm_writer_put(s->w, p, n, err);
}

smol_status sm_session_save(struct sm_session *s, const char *path, smol_error *err)
{
    struct saver v = {0};
    struct header h;
    smol_status st;
    sm_session_settle(s);
    if (!s->n) return SM_FAIL(err, ARG, "the session is empty: there is nothing to save");
    /* behind drafts they are in another row; files have the first */
    if (s->have_logits && s->row) {
        memcpy(s->e->graph.logits, sm_session_logits(s), s->e->model->hp.n_vocab * sizeof(float));
        s->row = 0;
    }
    if (s->n > s->n_pure)
        return SM_FAIL(err, LIMIT, "the context was shifted: its state is not that of its tokens");
    SM_TRY(make_header(s, &h, err));
    SM_TRY(sm_writer_open(&v.w, path, err));
    sm_hash_begin(&v.hash, 0);
    SM_TRY_OUT(st, sm_writer_put(v.w, &h, sizeof h, err));
    SM_TRY_OUT(st, save_part(&v, s->e->tokens, s->n * sizeof *s->e->tokens, err));
    SM_TRY_OUT(st, each_part(s->e, s->n, s->have_logits, save_part, &v, err));
    const uint64_t sum = sm_hash_end(&v.hash);
    SM_TRY_OUT(st, sm_writer_put(v.w, &sum, sizeof sum, err));
    struct sm_writer *w = v.w;
    v.w = NULL;
    st = sm_writer_commit(w, err);
out:
    sm_writer_abort(v.w);
    return st;
}

/* ---- reading ---- */

static smol_status check_header(struct sm_session *s, struct sm_file *f, struct header *h,
                                smol_error *err)
{
    struct sm_engine *e = s->e;
    uint64_t model;
    if (sm_file_size(f) < sizeof *h + sizeof(uint64_t))
        return SM_FAIL(err, FORMAT, "the saved state has %llu bytes, too few for a header",
                       (unsigned long long)sm_file_size(f));
    SM_TRY(sm_file_read(f, 0, h, sizeof *h, err));
    if (memcmp(h->magic, MAGIC, sizeof h->magic) != 0)
        return SM_FAIL_AT(err, FORMAT, 0, "no saved state of smol");
    if (h->hash != sm_hash64(h, offsetof(struct header, hash), 0))
        return SM_FAIL_AT(err, FORMAT, 0, "the saved state's header is damaged");
    if (h->version != VERSION)
        return SM_FAIL(err, UNSUPPORTED, "saved state of version %u, expected %u", h->version,
                       VERSION);
    SM_TRY(sm_session_model(e, &model, err));
    if (h->model != model || h->n_layer != e->model->hp.n_layer ||
        h->n_vocab != e->model->hp.n_vocab)
        return SM_FAIL(err, FORMAT, "the saved state belongs to another model, or to other levers");
    if (h->kv_type != (uint32_t)e->kv_type)
        return SM_FAIL(err, FORMAT, "the saved state has another KV format (--kv)");
    if (!h->n_tokens || h->n_tokens > e->plan.ctx)
        return SM_FAIL(err, LIMIT, "the saved state has %u tokens, the context %u", h->n_tokens,
                       e->plan.ctx);
    if (h->have_logits > 1 || h->payload_bytes != payload_bytes(e, h->n_tokens, h->have_logits) ||
        sm_file_size(f) != sizeof *h + h->payload_bytes + sizeof(uint64_t))
        return SM_FAIL(err, FORMAT, "the saved state has %llu bytes, expected %llu",
                       (unsigned long long)sm_file_size(f),
                       (unsigned long long)(sizeof *h +
                                            payload_bytes(e, h->n_tokens, h->have_logits) +
                                            sizeof(uint64_t)));
    return SMOL_OK;
}

/* Read the payload once, compare it with its checksum, and look at the tokens. */
static smol_status check_payload(const struct sm_session *s, struct sm_file *f,
                                 const struct header *h, smol_error *err)
{
    struct sm_hash sum;
    uint64_t want;
    smol_status st = SMOL_OK;
    uint8_t *buf = malloc(BUFFER);
    if (!buf) return SM_FAIL(err, NOMEM, "no memory to check a saved state");
    sm_hash_begin(&sum, 0);
    for (uint64_t at = 0; at < h->payload_bytes;) {
        const uint64_t left = h->payload_bytes - at;
        const size_t n = left < BUFFER ? (size_t)left : BUFFER;
        SM_TRY_OUT(st, sm_file_read(f, sizeof *h + at, buf, n, err));
        sm_hash_put(&sum, buf, n);
        for (size_t i = 0; at + i < (uint64_t)h->n_tokens * 4 && i + 4 <= n; i += 4) {
            int32_t id;
            memcpy(&id, buf + i, sizeof id);
            if (id < 0 || (uint32_t)id >= s->e->model->hp.n_vocab) {
                st =
                    SM_FAIL_AT(err, FORMAT, sizeof *h + at + i, "the saved state has token %d", id);
                goto out;
            }
        }
        at += n;
    }
    SM_TRY_OUT(st, sm_file_read(f, sizeof *h + h->payload_bytes, &want, sizeof want, err));
    if (want != sm_hash_end(&sum))
        st = SM_FAIL(err, FORMAT, "the saved state is damaged: its checksum differs");
out:
    free(buf);
    return st;
}

struct loader {
    struct sm_file *f;
    uint64_t at;
    struct sm_hash hash;
};

static smol_status load_part(void *arg, void *p, size_t n, smol_error *err)
{
    struct loader *l = arg;
    SM_TRY(sm_file_read(l->f, l->at, p, n, err));
    sm_hash_put(&l->hash, p, n);
    l->at += n;
    return SMOL_OK;
}

/* The payload into an empty session. */
static smol_status load_state(struct sm_session *s, struct loader *l, const struct header *h,
                              smol_error *err)
{
    struct sm_engine *e = s->e;
    uint64_t want;
    sm_hash_begin(&l->hash, 0);
    SM_TRY(load_part(l, e->tokens, h->n_tokens * sizeof *e->tokens, err));
    SM_TRY(each_part(e, h->n_tokens, h->have_logits, load_part, l, err));
    SM_TRY(sm_file_read(l->f, l->at, &want, sizeof want, err));
    if (want != sm_hash_end(&l->hash))
        return SM_FAIL(err, IO, "the saved state changed while it was read");
    s->n = h->n_tokens;
    s->have_logits = h->have_logits;
    return SMOL_OK;
}

smol_status sm_session_load(struct sm_session *s, const char *path, smol_error *err)
{
    struct loader l = {.at = sizeof(struct header)};
    struct header h;
    smol_status st;
    SM_TRY(sm_file_open(&l.f, path, false, err));
    SM_TRY_OUT(st, check_header(s, l.f, &h, err));
    SM_TRY_OUT(st, check_payload(s, l.f, &h, err));
    sm_session_clear(s);
    st = load_state(s, &l, &h, err);
    if (st != SMOL_OK) sm_session_clear(s); /* recurrent states are there in part */
out:
    sm_file_close(l.f);
    return st;
}

uint32_t sm_session_file_match(struct sm_session *s, const char *path, const int32_t *tokens,
                               size_t n, uint32_t *n_file)
{
    struct sm_file *f = NULL;
    struct header h;
    uint32_t same = 0;
    int32_t buf[1024];
    *n_file = 0;
    if (sm_file_open(&f, path, false, NULL) != SMOL_OK) return 0;
    if (check_header(s, f, &h, NULL) == SMOL_OK) {
        *n_file = h.n_tokens;
        for (bool more = true; more && same < h.n_tokens && same < n;) {
            const uint32_t left = h.n_tokens - same, k = left < 1024 ? left : 1024;
            if (sm_file_read(f, sizeof h + (uint64_t)same * 4, buf, k * sizeof *buf, NULL) !=
                SMOL_OK)
                break;
            uint32_t i = 0;
            while (i < k && same < n && buf[i] == tokens[same]) i++, same++;
            more = i == k;
        }
    }
    sm_file_close(f);
    return same;
}
