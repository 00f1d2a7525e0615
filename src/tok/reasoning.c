/* SPDX-License-Identifier: MIT */
#include "tok/reasoning.h"

#include <string.h>

static const char open_tag[] = "<think>", close_tag[] = "</think>";

enum { BEFORE, THINKING, BETWEEN, ANSWER };

void sm_reasoning_begin(smol_reasoning *r, bool inside)
{
    *r = (smol_reasoning){.state = inside ? THINKING : BEFORE, .skip_space = inside};
}

static bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

/* Hand on text; white space at the beginning of a part waits in skip_space. */
static bool give(smol_reasoning *r, const char *p, size_t n, smol_part_fn fn, void *arg)
{
    while (r->skip_space && n && is_space(*p)) {
        p++;
        n--;
    }
    if (!n) return true;
    r->skip_space = false;
    return fn(arg, r->state == THINKING, p, n);
}

/* One byte in state BEFORE: an answer begins with white space, then perhaps the tag. What turns out
 * to be no tag is an answer from its first byte on. */
static bool put_before(smol_reasoning *r, char c, smol_part_fn fn, void *arg)
{
    const size_t n_open = sizeof open_tag - 1;
    size_t n_space = 0;
    if (r->n_held < sizeof r->held) r->held[r->n_held++] = c;
    while (n_space < r->n_held && is_space(r->held[n_space])) n_space++;
    const size_t n = r->n_held - n_space;
    if (n <= n_open && !memcmp(r->held + n_space, open_tag, n) && r->n_held < sizeof r->held) {
        if (n < n_open) return true;
        r->state = THINKING;
        r->skip_space = true;
        r->n_held = 0;
        return true;
    }
    const size_t all = r->n_held;
    r->state = ANSWER;
    r->n_held = 0;
    return give(r, r->held, all, fn, arg);
}

/* One byte of what is thought: held while it may be the closing tag. */
static bool put_thinking(smol_reasoning *r, char c, smol_part_fn fn, void *arg)
{
    const size_t n_close = sizeof close_tag - 1;
    bool more = true;
    if (c != close_tag[r->n_held] && r->n_held) { /* the tag has one '<', at its beginning */
        more = give(r, r->held, r->n_held, fn, arg);
        r->n_held = 0;
    }
    if (c != close_tag[r->n_held]) return more && give(r, &c, 1, fn, arg);
    r->held[r->n_held++] = c;
    if (r->n_held < n_close) return more;
    r->n_held = 0;
    r->state = BETWEEN;
    r->skip_space = true;
    return more;
}

bool sm_reasoning_put(smol_reasoning *r, const char *bytes, size_t n, smol_part_fn fn, void *arg)
{
    size_t at = 0;
    while (at < n) {
        if (r->state == BEFORE) {
            if (!put_before(r, bytes[at++], fn, arg)) return false;
        } else if (r->state == THINKING) {
            /* whole stretches without '<' in one piece */
            const char *lt = r->n_held ? bytes + at : memchr(bytes + at, '<', n - at);
            const size_t plain = lt ? (size_t)(lt - bytes) - at : n - at;
            if (plain && !give(r, bytes + at, plain, fn, arg)) return false;
            at += plain;
            if (at < n && !put_thinking(r, bytes[at++], fn, arg)) return false;
        } else {
            return give(r, bytes + at, n - at, fn, arg);
        }
    }
    return true;
}

bool sm_reasoning_end(smol_reasoning *r, smol_part_fn fn, void *arg)
{
    const size_t n = r->n_held;
    if (r->state == BEFORE) r->state = ANSWER;
    r->n_held = 0;
    return !n || give(r, r->held, n, fn, arg);
}
