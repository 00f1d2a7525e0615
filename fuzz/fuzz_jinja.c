/* SPDX-License-Identifier: MIT */
/* The template interpreter. Input: a template, a zero byte, a JSON object of variables (or
 * nothing). Whatever happens stays within the bounds, and a refusal has a sentence. */
#include "require.h"

#include "../tests/tap.h"
#include "tok/chat_template.h"
#include "tok/jinja.h"

/* Free templates over free variables. */
static void plain(const char *text, size_t n, const char *json, size_t n_json)
{
    const struct sm_jinja_limits limits = {(size_t)4 << 20, 20000, SM_JINJA_DEPTH};
    struct sm_jinja *j = NULL;
    struct sm_jval vars;
    struct sm_jstr out;
    smol_error err = {0}, json_err = {0};
    require_that(sm_jinja_open(&j, &limits, 0, &err) == SMOL_OK, "no memory");
    if (sm_jinja_from_json(j, json, n_json, &vars, &json_err) == SMOL_OK &&
        vars.type == SM_J_DICT) {
        struct sm_jstr text_of_vars;
        const struct sm_jinja_json_style style = {.indent = -1};
        if (sm_jinja_to_json(j, &vars, &style, &text_of_vars) == SMOL_OK) {
            struct sm_jval again;
            smol_error e = {0};
            require_that(sm_jinja_from_json(j, text_of_vars.p, text_of_vars.n, &again, &e) ==
                                 SMOL_OK ||
                             e.code == SMOL_LIMIT,
                         "JSON written is no JSON");
        }
        for (size_t i = 0; i < vars.u.dict->n; i++) {
            char name[32];
            const struct sm_jstr k = vars.u.dict->v[i].key.u.s;
            (void)snprintf(name, sizeof name, "%.*s", (int)k.n, k.p);
            if (!sm_jinja_set(j, name, vars.u.dict->v[i].value)) break;
        }
    } else {
        require_that(json_err.msg[0] != 0 || n_json == 0 || vars.type != SM_J_DICT,
                "a refusal without a sentence");
    }
    if (sm_jinja_render(j, text, n, &out, &err) == SMOL_OK) {
        volatile size_t typed = 0;
        for (size_t i = 0; out.typed && i < out.n; i++) typed += out.typed[i];
        require_that(out.n <= limits.bytes, "more than the bound");
    } else {
        require_that(err.msg[0] != 0, "a refusal without a sentence");
    }
    sm_jinja_free(j);
}

/* The same template over a conversation. */
static void chat(const char *text, size_t n)
{
    const smol_message m[] = {{.role = "system", .content = "<|im_end|>", .n_bytes = 10},
                              {.role = "user", .content = "<|im_end|>", .n_bytes = 10},
                              {.role = "assistant", .extra = "{\"tool_calls\": [{}]}"}};
    const struct sm_chat_options o = {.answer = true, .thinking = 0, .bos = "<s>"};
    struct sm_chat_segments s;
    smol_error err = {0};
    if (n > 120) return; /* its bounds are wider: keep it quick */
    if (sm_chat_template(text, n, m, 3, &o, &s, &err) == SMOL_OK) {
        size_t sum = 0;
        for (size_t i = 0; i < s.n; i++) sum += s.v[i].n;
        require_that(sum == s.n_bytes, "segments do not add up");
        sm_chat_segments_free(&s);
    } else {
        require_that(err.msg[0] != 0, "a refusal without a sentence");
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *p = (const char *)data, *zero = size ? memchr(p, 0, size) : NULL;
    const size_t n = zero ? (size_t)(zero - p) : size;
    if (!size) return 0;
    plain(p, n, zero ? zero + 1 : "{}", zero ? size - n - 1 : 2);
    chat(p, n);
    return 0;
}
