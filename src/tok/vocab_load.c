/* SPDX-License-Identifier: MIT */
/* Reading the tokenizer.* keys. Nothing in them is trusted: types, counts and ids are checked. */
#include "tok/vocab.h"

#include "base/log.h"
#include "base/mem.h"

#include <math.h>

#define KEY(name) "tokenizer.ggml." name

/* A name from the file for a message: printable ASCII, cut to fit. */
struct shown {
    char text[44];
};
static struct shown show(struct sm_str s)
{
    struct shown v = {{0}};
    for (size_t i = 0; i < s.n && i + 4 < sizeof v.text; i++) {
        v.text[i] = s.p[i] >= ' ' && s.p[i] <= '~' ? s.p[i] : '?';
        if (i + 5 == sizeof v.text && s.n > i + 1) memcpy(v.text + i + 1, "...", 3);
    }
    return v;
}

/* An array key; NULL when absent. A wrong type is FORMAT. Elements of type `other` are fine too. */
static smol_status get_array(const struct sm_kv **out, const struct sm_gguf *g, const char *key,
                             unsigned type, unsigned other, const char *want, smol_error *err)
{
    const struct sm_kv *kv = sm_gguf_find(g, key);
    *out = NULL;
    if (!kv) return SMOL_OK;
    if (kv->type != SM_KV_ARRAY)
        return SM_FAIL_AT(err, FORMAT, kv->at, "%s: expected an array of %s, found a single value",
                          key, want);
    if (kv->elem_type != type && kv->elem_type != other && kv->count > 0)
        return SM_FAIL_AT(err, FORMAT, kv->at,
                          "%s: expected an array of %s, found elements of GGUF type %u", key, want,
                          kv->elem_type);
    *out = kv;
    return SMOL_OK;
}

static smol_status check_count(const struct sm_tok *t, const struct sm_kv *kv, const char *key,
                               smol_error *err)
{
    if (kv->count >= t->n_vocab) return SMOL_OK;
    return SM_FAIL_AT(err, FORMAT, kv->at, "%s: expected at least %u elements, found %llu", key,
                      t->n_vocab, (unsigned long long)kv->count);
}

/* Copy the texts. Tokens that are too long once decoded are found later (check_lengths). */
static smol_status load_texts(struct sm_tok *t, const struct sm_gguf *g, smol_error *err)
{
    const struct sm_kv *kv;
    struct sm_str s;
    uint64_t cursor = 0, total = 0;
    smol_status st = SMOL_OK;
    SM_TRY(get_array(&kv, g, KEY("tokens"), SM_KV_STRING, SM_KV_STRING, "strings", err));
    if (!kv || kv->count == 0)
        return SM_FAIL(err, FORMAT, "the file has no vocabulary (%s)", KEY("tokens"));
    if (kv->count >= SM_TOK_NONE)
        return SM_FAIL_AT(err, LIMIT, kv->at, "vocabulary has %llu tokens, at most %u are possible",
                          (unsigned long long)kv->count, SM_TOK_NONE - 1);
    t->n_vocab = (uint32_t)kv->count;
    t->base = sm_vocab_take(t, (size_t)t->n_vocab / 16 + 1, sizeof *t->base, &st, err);
    t->start = sm_vocab_take(t, (size_t)t->n_vocab + 1, sizeof *t->start, &st, err);
    t->kind = sm_vocab_take(t, t->n_vocab, 1, &st, err);
    if (st != SMOL_OK) return st;
    for (uint32_t id = 0; id < t->n_vocab; id++) {
        if (!sm_gguf_next_str(kv, &cursor, &s))
            return SM_FAIL_AT(err, FORMAT, kv->at, "%s: token %u is cut off", KEY("tokens"), id);
        if (s.n > SM_TOK_TEXT_MAX)
            return SM_FAIL_AT(err, LIMIT, kv->at,
                              "vocabulary: token %u has %zu bytes, at most %u "
                              "are possible",
                              id, s.n, SM_TOK_TEXT_MAX);
        if (id % 16 == 0) t->base[id / 16] = (uint32_t)total;
        t->start[id] = (uint16_t)(total - t->base[id / 16]);
        total += s.n; /* at most 2^21 tokens of 4,080 bytes: 2^33 */
        if (total > UINT32_MAX)
            return SM_FAIL_AT(err, LIMIT, kv->at, "the texts of the vocabulary exceed 4 GiB");
        if (s.n > t->text_max) t->text_max = (uint32_t)s.n;
    }
    if (t->n_vocab % 16 == 0) t->base[t->n_vocab / 16] = (uint32_t)total;
    t->start[t->n_vocab] = (uint16_t)(total - t->base[t->n_vocab / 16]);
    t->text_bytes = (uint32_t)total;
    t->text = sm_vocab_take(t, (size_t)total, 1, &st, err);
    if (st != SMOL_OK) return st;
    cursor = 0;
    for (uint32_t id = 0; id < t->n_vocab && sm_gguf_next_str(kv, &cursor, &s); id++)
        if (s.n > 0) memcpy(t->text + sm_vocab_start(t, id), s.p, s.n);
    return SMOL_OK;
}

static smol_status load_types(struct sm_tok *t, const struct sm_gguf *g, smol_error *err)
{
    const struct sm_kv *kv;
    SM_TRY(get_array(&kv, g, KEY("token_type"), SM_KV_I32, SM_KV_I32, "i32", err));
    if (!kv) {
        memset(t->kind, SM_TOK_NORMAL, t->n_vocab);
        return SMOL_OK;
    }
    SM_TRY(check_count(t, kv, KEY("token_type"), err));
    for (uint32_t id = 0; id < t->n_vocab; id++) {
        const uint32_t type = sm_ld32(kv->data + (size_t)id * 4);
        /* what is not a type prints nothing, as an unused token */
        t->kind[id] = type >= SM_TOK_NORMAL && type <= SM_TOK_BYTE ? (uint8_t)type : SM_TOK_UNUSED;
    }
    return SMOL_OK;
}

/* Highest score first as lowest integer first. */
static uint32_t priority_of(float score)
{
    const uint32_t b = sm_bits_of_f32(score + 0.0f); /* -0 becomes +0 */
    return b >> 31 ? b : ~(b | 0x80000000u);
}

static smol_status load_scores(struct sm_tok *t, const struct sm_gguf *g, smol_error *err)
{
    const struct sm_kv *kv;
    smol_status st = SMOL_OK;
    SM_TRY(get_array(&kv, g, KEY("scores"), SM_KV_FLOAT32, SM_KV_I32, "f32 or i32", err));
    if (kv) SM_TRY(check_count(t, kv, KEY("scores"), err));
    if (!t->spm) return SMOL_OK;
    t->priority = sm_vocab_take(t, t->n_vocab, sizeof *t->priority, &st, err);
    if (st != SMOL_OK) return st;
    for (uint32_t id = 0; id < t->n_vocab; id++) {
        const uint8_t *p = kv ? kv->data + (size_t)id * 4 : NULL;
        const float score = !kv                              ? 0.0f
                            : kv->elem_type == SM_KV_FLOAT32 ? sm_ldf32(p)
                                                             : (float)(int32_t)sm_ld32(p);
        if (isnan(score))
            return SM_FAIL_AT(err, FORMAT, kv->at + (uint64_t)id * 4,
                              "%s: score %u is not a number", KEY("scores"), id);
        t->priority[id] = priority_of(score);
    }
    return SMOL_OK;
}

/* Tokens of single bytes: a letter of the byte alphabet, or <0xHH>, else the byte itself. */
static void find_bytes(struct sm_tok *t)
{
    static const char hex[] = "0123456789ABCDEF";
    for (unsigned b = 0; b < 256; b++) {
        char text[8] = {'<', '0', 'x', hex[b >> 4], hex[b & 15], '>'};
        size_t n = 6;
        if (!t->spm) n = sm_utf8_put(text, sm_alphabet_of((uint8_t)b));
        t->byte_id[b] = sm_vocab_find(t, text, n);
        const char raw = (char)b;
        if (t->spm && t->byte_id[b] == SM_TOK_NONE) t->byte_id[b] = sm_vocab_find(t, &raw, 1);
    }
}

/* Whether each token has its U+2581 only in front (any number of them): then no merge crosses from
 * another character into one, and a text may be cut there. */
static bool spaces_lead(const struct sm_tok *t)
{
    for (uint32_t id = 0; id < t->n_vocab; id++) {
        uint32_t n;
        const char *p = sm_vocab_text(t, id, &n);
        bool other = false;
        for (uint32_t i = 0; i < n;) {
            if (n - i < 3 || memcmp(p + i, "\xe2\x96\x81", 3) != 0) {
                other = true;
                i++;
            } else if (other) {
                return false;
            } else {
                i += 3;
            }
        }
    }
    return true;
}

/* No token may give more bytes than a decoder's buffer takes. */
static smol_status check_lengths(const struct sm_tok *t, smol_error *err)
{
    if (t->text_max <= SM_TOK_BYTES_MAX) return SMOL_OK;
    for (uint32_t id = 0; id < t->n_vocab; id++) {
        const size_t n = sm_tok_piece(t, (int32_t)id, true, NULL, 0);
        if (n > SM_TOK_BYTES_MAX)
            return SM_FAIL(err, LIMIT,
                           "vocabulary: token %u stands for %zu bytes, at most %u are "
                           "possible",
                           id, n, SM_TOK_BYTES_MAX);
    }
    return SMOL_OK;
}

static smol_status load_bpe(struct sm_tok *t, const struct sm_gguf *g, smol_error *err)
{
    const struct sm_kv *merges;
    struct sm_str pre = {"default", 7};
    bool found;
    SM_TRY(sm_gguf_str(g, KEY("pre"), &pre, &found, err));
    if (!found) {
        pre = (struct sm_str){"default", 7};
        sm_log_note("the file names no split rule (%s): its ids may differ from those of its "
                    "training",
                    KEY("pre"));
    }
    t->rule = sm_split_find(pre.p, pre.n, &t->pre);
    if (!t->rule)
        return SM_FAIL(err, UNSUPPORTED, "tokeniser not supported: split rule \"%s\" (%s)",
                       show(pre).text, KEY("pre"));
    SM_TRY(get_array(&merges, g, KEY("merges"), SM_KV_STRING, SM_KV_STRING, "strings", err));
    if (!merges) return SM_FAIL(err, FORMAT, "the vocabulary has no merges (%s)", KEY("merges"));
    return sm_vocab_merges(t, merges, err);
}

static smol_status load_flags(struct sm_tok *t, const struct sm_gguf *g, smol_error *err)
{
    bool found;
    t->add_bos = t->spm || t->rule->add_bos;
    t->add_space = t->spm;
    bool value = false;
    SM_TRY(sm_gguf_bool(g, KEY("add_bos_token"), &value, &found, err));
    if (found) t->add_bos = value;
    t->add_bos_given = found;
    SM_TRY(sm_gguf_bool(g, KEY("add_eos_token"), &value, &found, err));
    if (found) t->add_eos = value;
    SM_TRY(sm_gguf_bool(g, KEY("add_space_prefix"), &value, &found, err));
    if (found && t->spm) t->add_space = value;
    return SMOL_OK;
}

static smol_status load(struct sm_tok *t, const struct sm_gguf *g, smol_error *err)
{
    struct sm_str model;
    bool found;
    SM_TRY(sm_gguf_str(g, KEY("model"), &model, &found, err));
    if (!found) return SM_FAIL(err, FORMAT, "the file has no tokeniser (%s)", KEY("model"));
    t->spm = model.n == 5 && !memcmp(model.p, "llama", 5);
    if (!t->spm && (model.n != 4 || memcmp(model.p, "gpt2", 4) != 0))
        return SM_FAIL(err, UNSUPPORTED, "tokeniser not supported: \"%s\" (%s)", show(model).text,
                       KEY("model"));
    t->pre = "";
    SM_TRY(load_texts(t, g, err));
    SM_TRY(load_types(t, g, err));
    SM_TRY(load_scores(t, g, err));
    SM_TRY(sm_vocab_index(t, err));
    find_bytes(t);
    SM_TRY(check_lengths(t, err));
    if (t->spm) t->cut_at_space = spaces_lead(t);
    else SM_TRY(load_bpe(t, g, err));
    SM_TRY(load_flags(t, g, err));
    return sm_vocab_special(t, g, err);
}

smol_status sm_tok_new(struct sm_tok **out, const struct sm_gguf *g, smol_error *err)
{
    *out = NULL;
    struct sm_tok *t = sm_mem_new(sizeof *t);
    if (!t) return SM_FAIL(err, NOMEM, "no memory for a tokeniser");
    t->memory = sizeof *t;
    const smol_status st = load(t, g, err);
    if (st != SMOL_OK) {
        sm_tok_free(t);
        return st;
    }
    *out = t;
    return SMOL_OK;
}

void sm_tok_free(struct sm_tok *t)
{
    if (!t) return;
    sm_vocab_release(t);
    sm_mem_free(t, sizeof *t);
}

smol_status sm_tok_set_pre(struct sm_tok *t, const char *pre, smol_error *err)
{
    const char *known;
    const struct sm_split_rule *rule = sm_split_find(pre, strlen(pre), &known);
    if (t->spm) return SM_FAIL(err, UNSUPPORTED, "an SPM vocabulary has no split rule");
    if (!rule)
        return SM_FAIL(err, UNSUPPORTED, "tokeniser not supported: split rule \"%.40s\"", pre);
    t->rule = rule;
    t->pre = known;
    if (!t->add_bos_given) t->add_bos = rule->add_bos;
    return SMOL_OK;
}

size_t sm_tok_memory(const struct sm_tok *t) { return t->memory; }
uint32_t sm_tok_n_vocab(const struct sm_tok *t) { return t->n_vocab; }
uint32_t sm_tok_token_bytes(const struct sm_tok *t) { return t->text_max; }
int32_t sm_tok_bos(const struct sm_tok *t) { return t->bos; }
int32_t sm_tok_eos(const struct sm_tok *t) { return t->eos; }
bool sm_tok_add_bos(const struct sm_tok *t) { return t->add_bos && t->bos >= 0; }
bool sm_tok_add_eos(const struct sm_tok *t) { return t->add_eos && t->eos >= 0; }
const char *sm_tok_model(const struct sm_tok *t) { return t->spm ? "llama" : "gpt2"; }
const char *sm_tok_pre(const struct sm_tok *t) { return t->pre; }

bool sm_tok_is_end(const struct sm_tok *t, int32_t id)
{
    return id >= 0 && (uint32_t)id < t->n_vocab && (t->kind[id] & SM_TOK_END);
}

bool sm_tok_is_special(const struct sm_tok *t, int32_t id)
{
    if (id < 0 || (uint32_t)id >= t->n_vocab) return false;
    const unsigned type = sm_vocab_type(t, (uint32_t)id);
    return type == SM_TOK_CONTROL || type == SM_TOK_UNKNOWN;
}

int32_t sm_tok_find(const struct sm_tok *t, const char *text, size_t n)
{
    const uint32_t id = sm_vocab_find(t, text, n);
    return id == SM_TOK_NONE ? -1 : (int32_t)id;
}
