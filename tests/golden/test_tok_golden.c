/* SPDX-License-Identifier: MIT */
/* Ids of recorded strings: every case of every tokenizer-*.json file, and back to text. One point
 * per file and kind; the first differing cases are printed. */
#include "tap.h"
#include "tok/unicode.h"
#include "tok_fixture.h"

static const struct source {
    const char *golden, *vocab;
    bool fuzz;         /* ids only: special parsing off */
    bool shared;       /* neither file is in the repository */
    bool cleans_space; /* the recorded texts have spaces removed before punctuation; ours do not */
} sources[] = {
    {"tokenizer-qwen3", "qwen3", false, false, false},
    {"tokenizer-deepseek-v3", "deepseek-v3", false, false, false},
    {"tokenizer-gpt-2", "gpt-2", false, false, true},
    {"tokenizer-phi-3", "phi-3", false, false, false},
    {"tokenizer-pre-bailingmoe2", "qwen3", false, false, false},
    {"tokenizer-pre-deepseek-coder", "qwen3", false, false, false},
    {"tokenizer-pre-deepseek-llm", "qwen3", false, false, false},
    {"tokenizer-pre-deepseek-v3", "qwen3", false, false, false},
    {"tokenizer-pre-default", "qwen3", false, false, true},
    {"tokenizer-pre-gpt-2", "qwen3", false, false, true},
    {"tokenizer-pre-gpt-4o", "qwen3", false, false, false},
    {"tokenizer-pre-hunyuan-dense", "qwen3", false, false, false},
    {"tokenizer-pre-hunyuan", "qwen3", false, false, false},
    {"tokenizer-pre-llama-bpe", "qwen3", false, false, true},
    {"tokenizer-pre-qwen35", "qwen3", false, false, false},
    {"tokenizer-pre-smollm", "qwen3", false, false, false},
    {"tokenizer-pre-tekken", "qwen3", false, false, false},
    {"tokenizer-fuzz-qwen3", "qwen3", true, false, false},
    {"tokenizer-fuzz-deepseek-v3", "deepseek-v3", true, false, false},
    {"tokenizer-fuzz-pre-bailingmoe2", "qwen3", true, false, false},
    {"tokenizer-llama3", "llama3", false, true, true},
    {"tokenizer-llama-spm", "llama-spm", false, true, false},
    {"tokenizer-baichuan", "baichuan", false, true, false},
};

static unsigned n_bad;

static void bad(const struct json *c, const char *what, const char *why)
{
    if (n_bad++ < 5) printf("# %s of %.80s: %s\n", what, json_str(json_get(c, "hex"), "?"), why);
}

/* Ids with begin and end. A text that starts with the begin token's text has it twice in the
 * recording; here it never is there twice. */
static void check_full(const struct sm_tok *t, const struct json *c, const char *text, size_t n,
                       const struct json *want)
{
    char why[200];
    int32_t *ids;
    size_t n_ids;
    smol_error err = {0};
    const unsigned flags = SM_TOK_PARSE_SPECIAL | SM_TOK_ADD_SPECIAL;
    if (sm_tok_encode(t, text, n, flags, &ids, &n_ids, &err) != SMOL_OK) {
        bad(c, "ids_full", err.msg);
        return;
    }
    const int64_t bos = sm_tok_bos(t);
    if (bos >= 0 && json_int(json_at(want, 0), -1) == bos &&
        json_int(json_at(want, 1), -1) == bos) {
        struct json rest = *want;
        rest.n--;
        rest.u.item++;
        if (!fixture_same_ids(ids, n_ids, &rest, why, sizeof why)) bad(c, "ids_full, one BOS", why);
    } else if (!fixture_same_ids(ids, n_ids, want, why, sizeof why)) {
        bad(c, "ids_full", why);
    }
    free(ids);
}

/* What a decoder shows for bytes that are not UTF-8. */
static size_t sanitize(const uint8_t *p, size_t n, char *out)
{
    size_t used = 0;
    for (size_t i = 0; i < n;) {
        bool more;
        const unsigned len = sm_utf8_length(p + i, n - i, false);
        const unsigned step = len ? len : sm_utf8_prefix(p + i, n - i, &more);
        memcpy(out + used, len ? (const char *)p + i : "\xef\xbf\xbd", len ? len : 3);
        used += len ? len : 3;
        i += step;
    }
    return used;
}

/* Pieces one behind the other, and the text that a decoder streams. */
static void check_text(const struct sm_tok *t, const struct json *c, bool cleans)
{
    const struct json *ids = json_get(c, "ids"), *pieces = json_get(c, "pieces_hex"),
                      *text = json_get(c, "detok_hex");
    size_t n_want, n_text, n = 0, n_stream = 0;
    uint8_t *want = json_hex(pieces ? pieces : json_get(c, "hex"), &n_want);
    uint8_t *want_text = json_hex(text ? text : json_get(c, "hex"), &n_text);
    const size_t cap = (json_len(ids) + 1) * SM_TOK_PIECE_MAX;
    char *got = malloc(cap), *stream = malloc(cap), *clean = malloc(3 * n_text + 1);
    struct sm_tok_stream s;
    sm_tok_stream_init(&s, t, false);
    for (size_t i = 0; i < json_len(ids); i++) {
        const int32_t id = (int32_t)json_int(json_at(ids, i), -1);
        n += sm_tok_piece(t, id, true, got + n, SM_TOK_PIECE_MAX);
        const size_t k = sm_tok_stream_put(&s, id, stream + n_stream);
        if (sm_utf8_valid((uint8_t *)stream + n_stream, k) != k) bad(c, "stream", "not whole");
        n_stream += k;
    }
    n_stream += sm_tok_stream_end(&s, stream + n_stream);
    if (n != n_want || memcmp(got, want, n)) bad(c, "pieces", "differ");
    n_text = sanitize(want_text, n_text, clean);
    if (!cleans && (n_stream != n_text || memcmp(stream, clean, n_text) != 0))
        bad(c, "text", "differs");
    free(want);
    free(want_text);
    free(got);
    free(stream);
    free(clean);
}

static void check_case(const struct sm_tok *t, const struct json *c, const struct source *s)
{
    char why[200];
    size_t n;
    char *text = (char *)json_hex(json_get(c, "hex"), &n);
    const struct json *plain = json_get(c, "ids"), *special = json_get(c, "ids_parse_special"),
                      *full = json_get(c, "ids_full");
    if (!text || !plain) {
        bad(c, "case", "no hex or no ids");
        free(text);
        return;
    }
    if (!special) special = plain;
    if (!full) full = special;
    if (!fixture_encodes(t, text, n, 0, plain, why, sizeof why)) bad(c, "ids", why);
    if (!s->fuzz) {
        if (!fixture_encodes(t, text, n, SM_TOK_PARSE_SPECIAL, special, why, sizeof why))
            bad(c, "ids_parse_special", why);
        check_full(t, c, text, n, full);
        check_text(t, c, s->cleans_space);
    }
    free(text);
}

static bool in_list(const struct json *list, int64_t id)
{
    for (size_t i = 0; i < json_len(list); i++)
        if (json_int(json_at(list, i), -1) == id) return true;
    return false;
}

static void check_info(const struct sm_tok *t, const struct json *info, const char *name)
{
    unsigned wrong = 0;
    for (uint32_t id = 0; id < sm_tok_n_vocab(t); id++)
        wrong += sm_tok_is_end(t, (int32_t)id) != in_list(json_get(info, "eog"), id);
    TAP_OK(json_int(json_get(info, "n_vocab"), -1) == sm_tok_n_vocab(t) &&
               json_int(json_get(info, "bos"), -2) == sm_tok_bos(t) &&
               json_int(json_get(info, "eos"), -2) == sm_tok_eos(t) &&
               json_int(json_get(info, "add_bos"), -1) == sm_tok_add_bos(t) &&
               json_int(json_get(info, "add_eos"), -1) == sm_tok_add_eos(t),
           "%s: begin, end, flags", name);
    TAP_OK(wrong == 0, "%s: tokens that end a generation (%u differ)", name, wrong);
}

static void check_source(const struct source *s)
{
    char path[4096], part[200], why[200];
    smol_error err;
    snprintf(part, sizeof part, s->shared ? "vocab/%s.gguf" : "tests/data/vocab/%s.gguf", s->vocab);
    if (s->shared) tap_shared(path, sizeof path, part);
    else tap_src(path, sizeof path, part);
    FILE *f = fopen(path, "rb");
    if (f) fclose(f);
    if (!f && s->shared) {
        TAP_SKIP(1, "its vocabulary is only in the shared fixtures, which are absent");
        return;
    }
    struct sm_tok *t = fixture_tok(path, &err);
    snprintf(part, sizeof part, s->shared ? "golden/%s.json" : "tests/data/golden/%s.json",
             s->golden);
    if (s->shared) tap_shared(path, sizeof path, part);
    else tap_src(path, sizeof path, part);
    struct json_doc *doc = json_load(path, why, sizeof why);
    if (t && doc) {
        const struct json *cases = json_get(json_root(doc), "cases");
        const char *pre = json_str(json_get(json_root(doc), "pre_override"), NULL);
        if (pre && sm_tok_set_pre(t, pre, &err) != SMOL_OK) TAP_OK(0, "%s", err.msg);
        n_bad = 0;
        for (size_t i = 0; i < json_len(cases); i++) check_case(t, json_at(cases, i), s);
        TAP_OK(json_len(cases) >= 317 && n_bad == 0, "%s: %zu strings (%u differ)", s->golden,
               json_len(cases), n_bad);
        if (!s->fuzz) check_info(t, json_get(json_root(doc), "info"), s->golden);
    } else {
        TAP_OK(0, "%s: %s", s->golden, t ? why : err.msg);
    }
    json_free(doc);
    sm_tok_free(t);
}

int main(int argc, char **argv)
{
    tap_init(argc, argv);
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++) check_source(&sources[i]);
    return tap_done();
}
