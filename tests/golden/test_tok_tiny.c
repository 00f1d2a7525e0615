/* SPDX-License-Identifier: MIT */
/* The vocabulary inside of the model that `make run` uses: recorded ids of texts and prompts. */
#include "tap.h"
#include "tok_fixture.h"

static void check(const struct sm_tok *t, const struct json *text, const struct json *want,
                  const char *what)
{
    char why[200] = "";
    const bool good =
        text && want &&
        fixture_encodes(t, json_str(text, ""), text->n, SM_TOK_ADD_SPECIAL | SM_TOK_PARSE_SPECIAL,
                        want, why, sizeof why);
    TAP_OK(good, "%s: %zu ids %s", what, json_len(want), why);
}

/* A text of the evaluation set: the ids where they were recorded, else their number. */
static void check_eval(const struct sm_tok *t, const struct json *golden, const char *name)
{
    char part[100], path[4096], why[200] = "";
    size_t n, n_ids = 0;
    int32_t *ids = NULL;
    smol_error err = {0};
    snprintf(part, sizeof part, "tests/data/text/%s.txt", name);
    char *text = json_read_file(tap_src(path, sizeof path, part), &n);
    snprintf(part, sizeof part, "data/%s.txt", name);
    if (!text) text = json_read_file(tap_shared(path, sizeof path, part), &n);
    if (!text) {
        TAP_SKIP(1, "the text is with the shared fixtures");
        return;
    }
    const struct json *set = json_get(json_get(golden, "perplexity"), name),
                      *want = json_get(set, "token_ids");
    const int64_t n_want = json_int(json_get(set, "tokens"), -1);
    const smol_status st = sm_tok_encode(t, text, n, SM_TOK_ADD_SPECIAL, &ids, &n_ids, &err);
    TAP_OK(st == SMOL_OK && (int64_t)n_ids == n_want &&
               (!want || fixture_same_ids(ids, n_ids, want, why, sizeof why)),
           "%s: %zu ids of %lld %s", name, n_ids, (long long)n_want, why);
    free(ids);
    free(text);
}

int main(int argc, char **argv)
{
    tap_init(argc, argv);
    char path[4096], why[200];
    smol_error err;
    struct sm_tok *t = fixture_tok(tap_src(path, sizeof path, "models/tiny-moe.gguf"), &err);
    struct json_doc *doc =
        json_load(tap_src(path, sizeof path, "tests/data/golden/tiny-moe.json"), why, sizeof why);
    if (TAP_OK(t && doc, "model and golden file: %s", !t ? err.msg : doc ? "read" : why)) {
        const struct json *golden = json_root(doc), *cases = json_get(golden, "tokenizer"),
                          *prompts = json_get(json_get(golden, "greedy"), "prompts");
        for (size_t i = 0; i < json_len(cases); i++) {
            const struct json *c = json_at(cases, i);
            check(t, json_get(c, "text"), json_get(c, "ids"), "text");
        }
        for (size_t i = 0; i < json_len(prompts); i++) {
            const struct json *p = json_at(prompts, i);
            check(t, json_get(p, "prompt"), json_get(p, "prompt_ids"), "prompt");
        }
        check_eval(t, golden, "eval-en");
        check_eval(t, golden, "eval-multi");
        check_eval(t, golden, "eval-code");
        TAP_IS_STR(sm_tok_pre(t), "bailingmoe2", "split rule");
        const int32_t end = sm_tok_find(t, "<|role_end|>", 12);
        TAP_OK(sm_tok_is_end(t, end) && sm_tok_is_end(t, sm_tok_eos(t)) &&
                   sm_tok_eos(t) == sm_tok_find(t, "<|endoftext|>", 13) &&
                   !sm_tok_is_end(t, sm_tok_find(t, "<role>", 6)),
               "both of its end tokens end");
    }
    json_free(doc);
    sm_tok_free(t);
    return tap_done();
}
