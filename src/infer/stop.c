/* SPDX-License-Identifier: MIT */
/* One Knuth-Morris-Pratt automaton per string, all fed with the same bytes. The longest match under
 * way of any automaton is the tail that is held back; its bytes are a beginning of that string, so
 * nothing has to be stored but the strings themselves. */
#include "infer/stop.h"

#include "base/mem.h"

#include <string.h>

struct one {
    const char *text;
    uint16_t *fail; /* fail[k]: longest proper border of the first k bytes, k = 0 ... n */
    uint32_t n, matched;
};

struct sm_stop {
    struct one *s;
    size_t n, memory;
    int found;
};

smol_status sm_stop_new(struct sm_stop **out, const struct sm_stop_string *strings, size_t n,
                        smol_error *err)
{
    *out = NULL;
    if (n > SM_STOP_MAX)
        return SM_FAIL(err, ARG, "%zu stop strings; at most %u are possible", n, SM_STOP_MAX);
    for (size_t i = 0; i < n; i++) {
        if (strings[i].n == 0) return SM_FAIL(err, ARG, "stop string %zu is empty", i + 1);
        if (strings[i].n > SM_STOP_BYTES_MAX)
            return SM_FAIL(err, ARG, "stop string %zu has %zu bytes; at most %u are possible",
                           i + 1, strings[i].n, SM_STOP_BYTES_MAX);
    }
    struct sm_arena a = {0};
    for (;;) { /* first counts, then lays out */
        struct sm_stop *s = sm_arena_take(&a, sizeof *s);
        struct one *one = SM_ARENA_NEW(&a, struct one, n);
        for (size_t i = 0; i < n; i++) {
            char *text = sm_arena_take(&a, strings[i].n);
            uint16_t *fail = SM_ARENA_NEW(&a, uint16_t, strings[i].n + 1);
            if (!a.base) continue;
            memcpy(text, strings[i].text, strings[i].n);
            one[i] = (struct one){.text = text, .fail = fail, .n = (uint32_t)strings[i].n};
            for (size_t k = 1, border = 0; k < strings[i].n; k++) {
                while (border && text[k] != text[border]) border = fail[border];
                border += text[k] == text[border];
                fail[k + 1] = (uint16_t)border;
            }
        }
        if (a.base) {
            *s = (struct sm_stop){.s = one, .n = n, .memory = a.capacity, .found = -1};
            *out = s;
            return SMOL_OK;
        }
        a = (struct sm_arena){.base = sm_mem_new(a.used), .capacity = a.used};
        if (!a.base) return SM_FAIL(err, NOMEM, "no memory for stop strings");
    }
}

void sm_stop_free(struct sm_stop *s)
{
    if (s) sm_mem_free(s, s->memory);
}

void sm_stop_reset(struct sm_stop *s)
{
    for (size_t i = 0; i < s->n; i++) s->s[i].matched = 0;
    s->found = -1;
}

int sm_stop_found(const struct sm_stop *s) { return s->found; }

/* The longest match under way: its index, or -1 and 0 bytes. */
static int longest(const struct sm_stop *s, size_t *n)
{
    int best = -1;
    *n = 0;
    for (size_t i = 0; i < s->n; i++)
        if (s->s[i].matched > *n) {
            best = (int)i;
            *n = s->s[i].matched;
        }
    return best;
}

size_t sm_stop_held(const struct sm_stop *s)
{
    size_t n;
    return s->found < 0 && longest(s, &n) >= 0 ? n : 0;
}

static void step(struct one *o, char c)
{
    while (o->matched && (o->matched == o->n || o->text[o->matched] != c))
        o->matched = o->fail[o->matched];
    o->matched += o->text[o->matched] == c;
}

/* The stream is seen as `before` (held from earlier calls, n_before bytes) followed by `text`;
 * hands out its bytes from ... to - 1. */
static void hand_out(const char *before, size_t n_before, const char *text, size_t from, size_t to,
                     sm_stop_out out, void *arg)
{
    if (from < n_before && from < to)
        out(arg, before + from, (to < n_before ? to : n_before) - from);
    if (from < n_before) from = n_before;
    if (from < to) out(arg, text + (from - n_before), to - from);
}

bool sm_stop_put(struct sm_stop *s, const char *text, size_t n, sm_stop_out out, void *arg)
{
    size_t n_before, held;
    if (s->found >= 0) return true;
    const int keeper = longest(s, &n_before);
    const char *before = keeper >= 0 ? s->s[keeper].text : NULL;
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < s->n; k++) {
            step(&s->s[k], text[i]);
            if (s->s[k].matched == s->s[k].n && (s->found < 0 || s->s[k].n > s->s[s->found].n))
                s->found = (int)k;
        }
        if (s->found < 0) continue;
        hand_out(before, n_before, text, 0, n_before + i + 1 - s->s[s->found].n, out, arg);
        return true;
    }
    (void)longest(s, &held);
    hand_out(before, n_before, text, 0, n_before + n - held, out, arg);
    return false;
}

void sm_stop_end(struct sm_stop *s, sm_stop_out out, void *arg)
{
    size_t n;
    const int keeper = s->found < 0 ? longest(s, &n) : -1;
    if (keeper >= 0) out(arg, s->s[keeper].text, n);
    for (size_t i = 0; i < s->n; i++) s->s[i].matched = 0;
}
