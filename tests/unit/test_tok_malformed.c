/* SPDX-License-Identifier: MIT */
/* Vocabularies that are wrong in one way each (tests/data/gguf-malformed/v*): the recorded verdict,
 * one sentence where it is a refusal, and no trouble with any text where it is not. */
#include "tap.h"
#include "tok_fixture.h"

static const char *const texts[] = {
    "", "hello", "hello world\n\xf0\x9f\x98\xb6 \xff\xfe <s></s><unk><0x41>", "a  b", "\xe2\x82"};

/* Every text there and back, every token as text. */
static bool use(const struct sm_tok *t)
{
    char buf[SM_TOK_PIECE_MAX];
    struct sm_tok_stream s;
    sm_tok_stream_init(&s, t, true);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        int32_t *ids;
        size_t n;
        smol_error err = {0};
        const unsigned flags = SM_TOK_PARSE_SPECIAL | SM_TOK_ADD_SPECIAL;
        if (sm_tok_encode(t, texts[i], strlen(texts[i]), flags, &ids, &n, &err) != SMOL_OK)
            return false;
        for (size_t k = 0; k < n; k++) {
            if (ids[k] < 0 || (uint32_t)ids[k] >= sm_tok_n_vocab(t)) return false;
            (void)sm_tok_stream_put(&s, ids[k], buf);
        }
        free(ids);
    }
    for (int32_t id = -2; id < (int32_t)sm_tok_n_vocab(t) + 2; id++)
        if (sm_tok_stream_put(&s, id, buf) > sizeof buf) return false;
    return sm_tok_stream_end(&s, buf) <= 3;
}

static struct sm_tok *load(const char *name, smol_error *err)
{
    char part[200], path[4096];
    snprintf(part, sizeof part, "tests/data/gguf-malformed/%s", name);
    return fixture_tok(tap_src(path, sizeof path, part), err);
}

static void check_file(const struct json *c)
{
    smol_error err;
    const char *want = json_str(json_get(c, "smol"), "?");
    struct sm_tok *t = load(c->key, &err);
    if (!strcmp(want, "reject"))
        TAP_OK(!t && err.msg[0] && err.code != SMOL_NOMEM, "%s: %s", c->key, t ? "taken" : err.msg);
    else TAP_OK(t && use(t), "%s is taken and usable (%s)", c->key, t ? "taken" : err.msg);
    sm_tok_free(t);
}

static void expect_ids(const struct sm_tok *t, const char *text, const int32_t *want, size_t n_want,
                       const char *what)
{
    int32_t *ids = NULL;
    size_t n = 0;
    smol_error err = {0};
    const smol_status st = sm_tok_encode(t, text, strlen(text), 0, &ids, &n, &err);
    TAP_OK(st == SMOL_OK && n == n_want && !memcmp(ids, want, n * sizeof *ids), "%s", what);
    for (size_t i = 0; st == SMOL_OK && i < n; i++) printf("#   %d\n", ids[i]);
    free(ids);
}

/* What the verdict does not say. */
static void check_behaviour(void)
{
    smol_error err;
    struct sm_tok *t = load("v27-spm-no-byte-tokens.gguf", &err);
    if (TAP_OK(t != NULL, "SPM without byte tokens: %s", t ? "taken" : err.msg)) {
        int32_t *ids;
        size_t n;
        TAP_OK(sm_tok_encode(t, "\x07", 1, 0, &ids, &n, &err) == SMOL_OK && n > 0 &&
                   ids[n - 1] == 0,
               "a byte without a token becomes the unknown token");
        free(ids);
    }
    sm_tok_free(t);
    t = load("v21-byte-token-missing.gguf", &err);
    if (TAP_OK(t != NULL, "byte-level without a byte token: %s", t ? "taken" : err.msg)) {
        const int32_t want[] = {sm_tok_find(t, "a", 1), sm_tok_find(t, "b", 1)};
        int32_t *ids = NULL;
        size_t n = 0;
        TAP_OK(sm_tok_encode(t, "a\0b", 3, 0, &ids, &n, &err) == SMOL_OK && n == 2 &&
                   !memcmp(ids, want, sizeof want),
               "a byte without a token is dropped where there is no unknown token");
        free(ids);
    }
    sm_tok_free(t);
    t = load("v22-tiny-vocab-default-ids.gguf", &err);
    if (TAP_OK(t != NULL, "one token: %s", t ? "taken" : err.msg)) {
        const int32_t a[] = {0, 0};
        TAP_OK(sm_tok_bos(t) == -1 && sm_tok_eos(t) == -1, "no default id beyond the vocabulary");
        expect_ids(t, "aa", a, 2, "two tokens");
    }
    sm_tok_free(t);
    t = load("v06-pre-missing.gguf", &err);
    if (TAP_OK(t != NULL, "no split rule: %s", t ? "taken" : err.msg))
        TAP_IS_STR(sm_tok_pre(t), "default", "the rule is the default one");
    sm_tok_free(t);
}

int main(int argc, char **argv)
{
    tap_init(argc, argv);
    char path[4096], why[200];
    struct json_doc *doc = json_load(
        tap_src(path, sizeof path, "tests/data/gguf-malformed/expected.json"), why, sizeof why);
    if (!TAP_OK(doc != NULL, "expected.json: %s", doc ? "read" : why)) return tap_done();
    const struct json *cases = json_get(json_root(doc), "cases");
    for (size_t i = 0; i < json_len(cases); i++) {
        const struct json *c = json_at(cases, i);
        if (!strcmp(json_str(json_get(c, "level"), ""), "vocabulary")) check_file(c);
    }
    check_behaviour();
    json_free(doc);
    return tap_done();
}
