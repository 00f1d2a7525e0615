/* SPDX-License-Identifier: MIT */
/* The template interpreter: the models' own templates (chat-jinja.json) and templates and snippets
 * with every construct, rendered by Jinja itself (jinja-cases.json); bounds; whose text may become
 * control tokens; the way from a template to tokens. */
#include "infer/chat.h"
#include "json_read.h"
#include "tap.h"
#include "tok/chat_template.h"
#include "tok/jinja.h"
#include "tok/reasoning.h"
#include "tok/unicode.h"
#include "tok_fixture.h"

#include <stdbool.h>
#include <stdlib.h>

static struct sm_jinja_limits limits = {(size_t)16 << 20, 1000000, SM_JINJA_DEPTH};

/* Render with the members of a JSON object as variables. */
static smol_status render(const char *text, const char *context, char **out, smol_error *err)
{
    struct sm_jinja *j = NULL;
    struct sm_jval vars;
    struct sm_jstr s = {0};
    *out = NULL;
    smol_status st = sm_jinja_open(&j, &limits, 1700000000, err);
    if (st == SMOL_OK) st = sm_jinja_from_json(j, context, strlen(context), &vars, err);
    for (size_t i = 0; st == SMOL_OK && i < vars.u.dict->n; i++) {
        char name[64];
        const struct sm_jstr k = vars.u.dict->v[i].key.u.s;
        (void)snprintf(name, sizeof name, "%.*s", (int)k.n, k.p);
        if (!sm_jinja_set(j, name, vars.u.dict->v[i].value)) st = SMOL_LIMIT;
    }
    if (st == SMOL_OK) st = sm_jinja_render(j, text, strlen(text), &s, err);
    if (st == SMOL_OK) {
        *out = malloc(s.n + 1);
        if (*out) memcpy(*out, s.p, s.n);
        if (*out) (*out)[s.n] = 0;
    }
    sm_jinja_free(j);
    return st;
}

static void test_cases(void)
{
    char path[4096], why[200];
    struct json_doc *doc = json_load(
        tap_src(path, sizeof path, "tests/data/golden/jinja-cases.json"), why, sizeof why);
    const struct json *root = json_root(doc), *cases = json_get(root, "cases");
    TAP_OK(json_len(cases) > 200, "%zu cases are read: %s", json_len(cases), doc ? path : why);
    for (size_t i = 0; i < json_len(cases); i++) {
        const struct json *c = json_at(cases, i);
        const char *name = json_str(json_get(c, "name"), "");
        const struct json *t =
            *name ? json_get(json_get(root, "templates"), name) : json_get(c, "template");
        const char *want = json_str(json_get(c, "output"), NULL);
        smol_error err = {0};
        char *found;
        const smol_status st =
            render(json_str(t, ""), json_str(json_get(c, "context"), "{}"), &found, &err);
        const bool good = want ? found && !strcmp(found, want) : st != SMOL_OK && err.msg[0];
        TAP_OK(good, "case %zu %.60s", i, *name ? name : json_str(t, ""));
        if (!good)
            printf("# found    %s\n# expected %s\n", found ? found : err.msg,
                   want ? want : "an error");
        free(found);
    }
    json_free(doc);
}

/* ---- the models' own templates ---- */

static size_t to_messages(const struct json *conversation, smol_message *m, size_t cap)
{
    size_t n = json_len(conversation);
    if (n > cap) n = cap;
    for (size_t i = 0; i < n; i++) {
        const struct json *c = json_get(json_at(conversation, i), "content");
        m[i] = (smol_message){
            .role = json_str(json_get(json_at(conversation, i), "role"), ""),
            .content = json_str(c, NULL),
            .n_bytes = c ? c->n : 0,
            .reasoning = json_str(json_get(json_at(conversation, i), "reasoning_content"), NULL)};
    }
    return n;
}

static const char tools[] =
    "[{\"type\": \"function\", \"function\": {\"name\": \"get_time\", \"description\": \"Gives the "
    "time\", \"parameters\": {\"type\": \"object\", \"properties\": {\"tz\": {\"type\": "
    "\"string\", "
    "\"description\": \"zone\"}}, \"required\": [\"tz\"]}}}]";

static void test_model(const char *name, const char *vocab)
{
    char path[4096], why[200];
    struct json_doc *doc =
        json_load(tap_src(path, sizeof path, "tests/data/golden/chat-jinja.json"), why, sizeof why);
    const struct json *root = json_root(doc), *model = json_get(json_get(root, "models"), name);
    const struct json *cases = json_get(model, "cases");
    struct sm_gguf *g = NULL;
    struct sm_str text = {0};
    bool found = false;
    if (sm_gguf_open(&g, vocab, NULL) != SMOL_OK ||
        sm_gguf_str(g, "tokenizer.chat_template", &text, &found, NULL) != SMOL_OK || !found) {
        TAP_SKIP(31, "no vocabulary of this model: SMOL_SHARED names no shared fixtures");
        sm_gguf_free(g);
        json_free(doc);
        return;
    }
    TAP_OK(json_len(cases) == 30, "%s: 30 renderings", name);
    for (size_t i = 0; i < json_len(cases); i++) {
        const struct json *c = json_at(cases, i), *extra = json_get(c, "extra");
        const char *conversation = json_str(json_get(c, "conversation"), "");
        smol_message m[16];
        const size_t n =
            to_messages(json_get(json_get(root, "conversations"), conversation), m, 16);
        const struct sm_chat_options o = {
            .answer = json_bool(json_get(c, "add_generation_prompt"), false),
            .thinking = json_get(extra, "enable_thinking") ? 0 : -1,
            .tools = json_get(extra, "tools") ? tools : NULL,
            .bos = json_str(json_get(model, "bos_token"), NULL),
            .eos = json_str(json_get(model, "eos_token"), NULL)};
        const char *want = json_str(json_get(c, "output"), "");
        struct sm_chat_segments s = {0};
        smol_error err = {0};
        char *joined = NULL;
        size_t n_joined = 0;
        const bool good = sm_chat_template(text.p, text.n, m, n, &o, &s, &err) == SMOL_OK &&
                          sm_chat_join(&s, SIZE_MAX, &joined, NULL, &n_joined, &err) == SMOL_OK &&
                          n_joined == strlen(want) && !memcmp(joined, want, n_joined);
        TAP_OK(good, "%s: %s%s%s%s", name, conversation, o.answer ? ", answer" : "",
               o.thinking == 0 ? ", not thinking" : "", o.tools ? ", tools" : "");
        if (!good) printf("# found %s\n# expected %s\n", joined ? joined : err.msg, want);
        free(joined);
        sm_chat_segments_free(&s);
    }
    sm_gguf_free(g);
    json_free(doc);
}

/* ---- bounds and refusals ---- */

static void test_bounds(void)
{
    static const struct {
        const char *text;
        smol_status want;
        const char *says;
    } t[] = {
        {"{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
         SMOL_LIMIT, "more than"},
        {"{% macro f(x) %}{{ f(x) }}{% endmacro %}{{ f(1) }}", SMOL_LIMIT, "deep"},
        {"{% set n = namespace(s='xxxxxxxx') %}{% for i in range(60) %}{% set n.s = n.s + n.s %}"
         "{% endfor %}",
         SMOL_LIMIT, "bytes"},
        {"{{ 'x' * 99999999999 }}", SMOL_LIMIT, "bytes"},
        {"{% set n = namespace(l=[1]) %}{% for i in range(60) %}{% set n.l = [n.l, n.l] %}"
         "{% endfor %}{{ n.l == [n.l] }}{{ n.l|tojson }}",
         SMOL_LIMIT, ""},
        {"{% set n = namespace() %}{% set n.n = n %}{{ n }}", SMOL_LIMIT, "deep"},
        {"{{ [1]|groupby('a') }}", SMOL_UNSUPPORTED, "the filter \"groupby\" is not supported"},
        {"a\n{{ 1 is prime }}", SMOL_UNSUPPORTED, "line 2: the test \"is prime\""},
        {"{{ 'a'.encode() }}", SMOL_UNSUPPORTED, "encode"},
        {"{% include 'x' %}", SMOL_UNSUPPORTED, "{% include %}"},
        {"{{ cycler(1) }}", SMOL_UNSUPPORTED, "cycler()"},
        {"{{ x.y.z }}", SMOL_FORMAT, "x is undefined"},
        {"{{ 1 +", SMOL_FORMAT, "without end"},
        {"{% if 1 %}", SMOL_FORMAT, "missing"},
        {"{{ raise_exception('not like this') }}", SMOL_ARG,
         "refuses this conversation: not like this"},
    };
    for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
        smol_error err = {0};
        char *out;
        const smol_status st = render(t[i].text, "{}", &out, &err);
        TAP_OK(st == t[i].want && strstr(err.msg, t[i].says), "%.60s: %s", t[i].text, err.msg);
        free(out);
    }
    char deep[8192] = "{{ ";
    for (size_t i = 0; i < 4000; i++) strncat(deep, "(", sizeof deep - strlen(deep) - 1);
    smol_error err = {0};
    char *out;
    TAP_OK(render(deep, "{}", &out, &err) == SMOL_LIMIT, "4000 brackets: %s", err.msg);
    free(out);
}

/* What goes over texts or items counts as steps: each of these would take the time of millions in
 * fewer than 20000 steps. `s` is long and blank, `u` as long and other in its last byte. */
static void test_steps(void)
{
    static const char *const t[] = {
        "{% for i in range(500) %}{% set x = s.strip() %}{% endfor %}",
        "{% for i in range(500) %}{% set x = s|trim %}{% endfor %}",
        "{% for i in range(500) %}{% set x = s|int %}{% endfor %}",
        "{{ s.lstrip(' ' * 9000)|length }}",
        "{{ s.strip(('x' * 9000) ~ ' ')|length }}",
        "{% set t = ' ' * 900 ~ 'x' %}{{ s.rfind(t) }}",
        "{% set t = ' ' * 900 ~ 'x' %}{{ s.rsplit(t, 1)|length }}",
        "{{ s.startswith([u] * 1000) }}",
        "{{ u.endswith([s] * 1000) }}",
        "{% for i in range(500) %}{% set x = s.removeprefix(u) %}{% endfor %}",
        "{{ s in [u] * 1000 }}",
        "{{ ([u] * 1000).count(s) }}",
        "{% set d = {u: 1} %}{% for i in range(500) %}{% set x = d[s] %}{% endfor %}",
        "{{ ([s] * 1000)|map('trim')|list|length }}",
        "{{ ([1] * 30000)|select('odd')|list|length }}",
    };
    const struct sm_jinja_limits usual = limits;
    const size_t n = 60000;
    char *context = malloc(2 * n + 64), *out;
    if (!context) return;
    (void)snprintf(context, 2 * n + 64, "{\"s\": \"%*s\", \"u\": \"%*sx\"}", (int)n, "",
                   (int)n - 1, "");
    limits.steps = 20000;
    for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
        smol_error err = {0};
        const smol_status st = render(t[i], context, &out, &err);
        TAP_OK(st == SMOL_LIMIT && strstr(err.msg, "steps"), "%.60s: %s", t[i], err.msg);
        free(out);
    }
    /* many names: each look-up goes over them */
    char *many = malloc(3000 * 32);
    size_t at = 0;
    for (int i = 0; many && i < 3000; i++)
        at += (size_t)snprintf(many + at, 32, "{%% set a%d = 1 %%}", i);
    smol_error err = {0};
    out = NULL; /* freed above */
    TAP_OK(many && render(many, "{}", &out, &err) == SMOL_LIMIT, "3000 names: %s", err.msg);
    free(out);
    free(many);
    free(context);
    limits = usual;
}

/* A macro keeps the names of where it was defined, also of a loop's else. */
static void test_scopes(void)
{
    static const char text[] =
        "{% set n = namespace() %}{% for i in [] %}{% else %}{% set y = 'kept' %}"
        "{% macro f() %}{{ y }}{% endmacro %}{% set n.f = f %}{% endfor %}"
        "{% for i in [1, 2, 3] if i > 1 %}{{ [i, [i]]|tojson }}{{ n.f() }}{% endfor %}";
    smol_error err = {0};
    char *out = NULL;
    (void)!render(text, "{}", &out, &err);
    TAP_IS_STR(out, "[2, [2]]kept[3, [3]]kept", "a macro defined in the else of a loop");
    free(out);
}

/* ---- whose text ---- */

static void test_typed(void)
{
    static const char text[] =
        "{% for m in messages %}<|im_start|>{{ m.role }}\n"
        "{{ (m.content[:4] + '<|end|>' ~ m.content|replace('a', '<|x|>'))|trim }}<|im_end|>\n"
        "{{ m.content|tojson }}{{ m.content.split('|')|join('<|y|>') }}{% endfor %}";
    const smol_message m = {.role = "user", .content = "<|im_end|>a<|im_start|>", .n_bytes = 23};
    const struct sm_chat_options o = {.thinking = -1};
    struct sm_chat_segments s = {0};
    smol_error err = {0};
    TAP_OK(sm_chat_template(text, sizeof text - 1, &m, 1, &o, &s, &err) == SMOL_OK, "rendered %s",
           err.msg);
    bool good = s.n > 4;
    size_t marks = 0;
    for (size_t i = 0; i < s.n; i++) {
        char part[256];
        (void)snprintf(part, sizeof part, "%.*s", (int)s.v[i].n, s.v[i].text);
        if (s.v[i].markup) {
            marks += strstr(part, "<|end|>") != NULL;
            marks += strstr(part, "<|x|>") != NULL;
            marks += strstr(part, "<|y|>") != NULL;
        }
        /* the message has no im_end of the template's: those of markup are beside a role's line */
        if (!s.v[i].markup)
            good = good && !strstr(part, "<|im_end|>\n") && !strstr(part, "<|end|>");
    }
    TAP_OK(good && marks >= 4, "each byte keeps where it came from (%zu)", marks);
    sm_chat_segments_free(&s);
}

/* A long conversation of short messages, and long texts beside the content. */
static void test_long(void)
{
    static const char text[] =
        "{% set n = namespace(first=true) %}{% for m in messages %}{% if m.role == 'user' %}"
        "{{ '[U]' + m['content'] | trim + '[/U]' }}{% else %}{{ '[A]' + (m.reasoning_content or '')"
        " + (m.content | trim) + eos_token }}{% endif %}{% set n.first = false %}{% endfor %}";
    enum { N = 40000 };
    const size_t n_long = (size_t)3 << 20;
    const struct sm_chat_options o = {.thinking = -1, .bos = "<s>", .eos = "</s>"};
    smol_message *m = calloc(N, sizeof *m);
    char *thought = malloc(n_long + 1);
    struct sm_chat_segments s = {0};
    smol_error err = {0};
    if (m && thought) {
        for (size_t i = 0; i < N; i++)
            m[i] = (smol_message){
                .role = i % 2 ? "assistant" : "user", .content = "Hello", .n_bytes = 5};
        TAP_OK(sm_chat_template(text, sizeof text - 1, m, N, &o, &s, &err) == SMOL_OK,
               "%d short messages: %s", N, err.msg);
        sm_chat_segments_free(&s);
        memset(thought, 'x', n_long);
        thought[n_long] = 0;
        m[1].reasoning = thought;
        TAP_OK(sm_chat_template(text, sizeof text - 1, m, 3, &o, &s, &err) == SMOL_OK,
               "3 MiB of reasoning: %s", err.msg);
        sm_chat_segments_free(&s);
    }
    free(thought);
    free(m);
}

static void test_retries(void)
{
    static const char picky[] =
        "{% if messages[0].role == 'system' %}{{ raise_exception('System role not supported') }}"
        "{% endif %}{% for m in messages %}[{{ m.content + '' }}]{% endfor %}";
    const smol_message m[] = {{.role = "system", .content = "S", .n_bytes = 1},
                              {.role = "user", .content = "U", .n_bytes = 1}};
    const smol_message call = {.role = "assistant", .extra = "{\"tool_calls\": []}"};
    const smol_message bad = {.role = "assistant", .extra = "{\"tool_calls\": "};
    const struct sm_chat_options o = {.thinking = -1};
    struct sm_chat_segments s = {0};
    smol_error err = {0};
    char *joined = NULL;
    size_t n = 0;
    if (sm_chat_template(picky, sizeof picky - 1, m, 2, &o, &s, &err) == SMOL_OK)
        (void)!sm_chat_join(&s, SIZE_MAX, &joined, NULL, &n, &err);
    TAP_IS_STR(joined, "[S\n\nU]", "a system message goes into the user's where none is taken");
    free(joined);
    sm_chat_segments_free(&s);
    TAP_OK(sm_chat_template(picky, sizeof picky - 1, &call, 1, &o, &s, &err) == SMOL_OK,
           "null content where a text is wanted");
    sm_chat_segments_free(&s);
    TAP_OK(sm_chat_template(picky, sizeof picky - 1, &bad, 1, &o, &s, &err) == SMOL_ARG,
           "broken JSON: %s", err.msg);
}

/* ---- to tokens ---- */

static struct sm_str str_of(const char *text) { return (struct sm_str){text, strlen(text)}; }

static void test_tokens(const struct sm_tok *t)
{
    static const char odd[] = "{% include 'x' %}<|im_start|>";
    const smol_message m[] = {{.role = "user", .content = "Hi", .n_bytes = 2},
                              {.role = "assistant", .content = "Hello there", .n_bytes = 11},
                              {.role = "user", .content = "Bye", .n_bytes = 3}};
    int32_t *ids = NULL, *again = NULL;
    size_t n = 0, n_again = 0;
    smol_chat_info info;
    smol_error err = {0};
    TAP_OK(sm_chat_encode(t, str_of(odd), m, 1, NULL, &ids, &n, &info, &err) == SMOL_OK &&
               !info.own && strstr(info.note, "include") && strstr(info.note, "chatml"),
           "fallback with a note: %s", info.note);
    free(ids);
    TAP_OK(sm_chat_encode(t, str_of("{% include 'x' %}"), m, 1, NULL, &ids, &n, &info, &err) ==
               SMOL_UNSUPPORTED,
           "no fallback: %s", err.msg);
    static const char think[] =
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% if enable_thinking is false %}"
        "<think>\n\n</think>\n\n{% else %}<think>\n{% endif %}{% endif %}";
    smol_chat_params p = {.thinking = 1};
    bool good = sm_chat_encode(t, str_of(think), m, 1, &p, &ids, &n, &info, &err) == SMOL_OK;
    TAP_OK(good && info.own && info.can_think && info.reasoning,
           "the prompt opens a reasoning part");
    /* the answer as the model cut it: one token a letter, which the tokeniser never does */
    int32_t kept[64];
    size_t n_kept = n;
    memcpy(kept, ids, n * sizeof *ids);
    for (const char *c = "Hello there"; *c; c++)
        kept[n_kept++] = sm_tok_find(t, *c == ' ' ? "\xc4\xa0" : c, *c == ' ' ? 2 : 1);
    free(ids);
    /* without its reasoning the template drops what the prompt had opened: not the same text */
    p = (smol_chat_params){.thinking = -1, .kept = kept, .n_kept = n_kept};
    good = sm_chat_encode(t, str_of(think), m, 3, &p, &ids, &n, &info, &err) == SMOL_OK;
    size_t same = 0;
    while (good && same < n && same < n_kept && ids[same] == kept[same]) same++;
    TAP_OK(good && same > 5 && same < n_kept, "up to the difference kept tokens stay (%zu)", same);
    free(ids);
    static const char plain[] =
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
    p = (smol_chat_params){.thinking = -1};
    good = sm_chat_encode(t, str_of(plain), m, 1, &p, &ids, &n, &info, &err) == SMOL_OK;
    memcpy(kept, ids, n * sizeof *ids);
    n_kept = n;
    for (const char *c = "Hello there"; *c; c++)
        kept[n_kept++] = sm_tok_find(t, *c == ' ' ? "\xc4\xa0" : c, *c == ' ' ? 2 : 1);
    free(ids);
    good = good &&
           sm_chat_encode(t, str_of(plain), m, 3, &p, &again, &n_again, &info, &err) == SMOL_OK;
    p = (smol_chat_params){.thinking = -1, .kept = kept, .n_kept = n_kept};
    good = good && sm_chat_encode(t, str_of(plain), m, 3, &p, &ids, &n, &info, &err) == SMOL_OK;
    TAP_OK(good && n > n_again && n > n_kept && !memcmp(ids, kept, n_kept * sizeof *ids),
           "an answer cut otherwise stays as it was read: %zu tokens, %zu anew", n, n_again);
    free(ids);
    free(again);
}

/* ---- reasoning ---- */

struct parts {
    char text[2][128];
    bool split; /* a piece began or ended inside a character */
};

static bool collect(void *arg, bool reasoning, const char *bytes, size_t n)
{
    struct parts *p = arg;
    const size_t at = strlen(p->text[reasoning]);
    for (size_t i = 0, k; i < n && !p->split; i += k) {
        k = sm_utf8_length((const uint8_t *)bytes + i, n - i, false);
        p->split = !k;
    }
    (void)snprintf(p->text[reasoning] + at, sizeof p->text[0] - at, "%.*s", (int)n, bytes);
    return true;
}

static void test_reasoning(void)
{
    static const struct {
        bool inside;
        const char *text, *thought, *answer;
    } t[] = {
        {false, "<think>\nsum\n</think>\n\n4", "sum\n", "4"},
        {false, "\n <think>a < b</think>x", "a < b", "x"},
        {false, "4 <think> no", "", "4 <think> no"},
        {false, "<thin", "", "<thin"},
        {false, "  plain", "", "  plain"},
        {true, "\nsum </thi </think>\n4", "sum </thi ", "4"},
        {true, "cut </thin", "cut </thin", ""},
        {true, "</think>", "", ""},
        {false, "<think>x</think>a</think>b", "x", "a</think>b"},
        {false, "\xe4\xb8\x96 \xc3\xa9", "", "\xe4\xb8\x96 \xc3\xa9"},
        {false, " <th\xc3\xa9", "", " <th\xc3\xa9"},
        {false, "<think>\xf0\x9f\x98\x8a<\xc3\xa9</\xe4\xb8\x96</think>\xc3\xa9",
         "\xf0\x9f\x98\x8a<\xc3\xa9</\xe4\xb8\x96", "\xc3\xa9"},
        {false, "                                    x", "",
         "                                    x"},
    };
    for (size_t i = 0; i < sizeof t / sizeof *t; i++)
        for (size_t step = 1; step < 9; step += 3) {
            struct parts p = {0};
            smol_reasoning r;
            const size_t n = strlen(t[i].text);
            sm_reasoning_begin(&r, t[i].inside);
            for (size_t at = 0, k; at < n; at += k) { /* `step` whole characters */
                k = 0;
                for (size_t c = 0; c < step && at + k < n; c++)
                    k += sm_utf8_length((const uint8_t *)t[i].text + at + k, n - at - k, false);
                (void)sm_reasoning_put(&r, t[i].text + at, k, collect, &p);
            }
            (void)sm_reasoning_end(&r, collect, &p);
            TAP_OK(!strcmp(p.text[1], t[i].thought) && !strcmp(p.text[0], t[i].answer) && !p.split,
                   "reasoning of case %zu in steps of %zu: \"%s\" and \"%s\"", i, step, p.text[1],
                   p.text[0]);
        }
}

int main(int argc, char **argv)
{
    char path[4096];
    smol_error err = {0};
    tap_init(argc, argv);
    (void)setenv("TZ", "UTC", 1);
    test_cases();
    test_model("qwen3", tap_src(path, sizeof path, "tests/data/vocab/qwen3.gguf"));
    const char *shared = getenv("SMOL_SHARED");
    (void)snprintf(path, sizeof path, "%s/vocab/llama3.gguf", shared ? shared : "../shared");
    test_model("llama3", path);
    test_bounds();
    test_long();
    test_steps();
    test_scopes();
    test_typed();
    test_retries();
    test_reasoning();
    struct sm_tok *t = fixture_tok(tap_src(path, sizeof path, "tests/data/vocab/qwen3.gguf"), &err);
    TAP_OK(t != NULL, "vocabulary %s", err.msg);
    if (t) test_tokens(t);
    sm_tok_free(t);
    return tap_done();
}
