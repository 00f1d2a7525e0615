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

/* Hand on what was held: it is no tag. All of it is ASCII, so characters stay whole. */
static bool let_go(smol_reasoning *r, smol_part_fn fn, void *arg)
{
    const size_t n = r->n_held;
    r->n_held = 0;
    return give(r, r->held, n, fn, arg);
}

static void enter(smol_reasoning *r, int state)
{
    r->state = state;
    r->skip_space = true;
    r->n_held = 0;
}

/* One byte in state BEFORE: an answer begins with white space, then perhaps the tag. False: the
 * byte was not taken, what was held and the byte are an answer. */
static bool take_before(smol_reasoning *r, char c)
{
    size_t n_space = 0;
    while (n_space < r->n_held && is_space(r->held[n_space])) n_space++;
    const size_t n = r->n_held - n_space;
    if (r->n_held == sizeof r->held || (c != open_tag[n] && (n || !is_space(c)))) return false;
    r->held[r->n_held++] = c;
    if (c == open_tag[n] && n + 1 == sizeof open_tag - 1) enter(r, THINKING);
    return true;
}

/* One byte that may belong to the closing tag, which has one '<', at its beginning. False: it does
 * not and was not taken. */
static bool take_closing(smol_reasoning *r, char c)
{
    if (c != close_tag[r->n_held]) return false;
    r->held[r->n_held++] = c;
    if (r->n_held == sizeof close_tag - 1) enter(r, BETWEEN);
    return true;
}

bool sm_reasoning_put(smol_reasoning *r, const char *bytes, size_t n, smol_part_fn fn, void *arg)
{
    size_t at = 0;
    while (at < n) {
        if (r->state == BEFORE) {
            if (take_before(r, bytes[at])) {
                at++;
                continue;
            }
            r->state = ANSWER;
            if (!let_go(r, fn, arg)) return false;
        } else if (r->state == THINKING) {
            /* whole stretches without '<' in one piece */
            const char *lt = r->n_held ? bytes + at : memchr(bytes + at, '<', n - at);
            const size_t plain = lt ? (size_t)(lt - bytes) - at : n - at;
            if (plain && !give(r, bytes + at, plain, fn, arg)) return false;
            at += plain;
            if (at == n) break;
            if (take_closing(r, bytes[at])) at++;
            else if (!let_go(r, fn, arg)) return false;
        } else {
            return give(r, bytes + at, n - at, fn, arg);
        }
    }
    return true;
}

bool sm_reasoning_end(smol_reasoning *r, smol_part_fn fn, void *arg)
{
    if (r->state == BEFORE) r->state = ANSWER;
    return let_go(r, fn, arg);
}
