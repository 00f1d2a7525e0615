/* SPDX-License-Identifier: MIT */
/* Ordering candidates without sorting a whole vocabulary. Every order here is total (larger logit
 * first, ties to the lower id), so the result does not depend on the method. */
#include "infer/sampler_stage.h"

static inline bool before(const struct sm_candidate *a, const struct sm_candidate *b)
{
    return a->logit > b->logit || (a->logit == b->logit && a->id < b->id);
}

static inline void swap(struct sm_candidate *a, struct sm_candidate *b)
{
    const struct sm_candidate t = *a;
    *a = *b;
    *b = t;
}

/* Heap with the worst candidate on top. */
static void sift_down(struct sm_candidate *v, size_t n, size_t i)
{
    for (;;) {
        size_t worst = 2 * i + 1;
        if (worst >= n) return;
        if (worst + 1 < n && before(&v[worst], &v[worst + 1])) worst++;
        if (before(&v[worst], &v[i])) return;
        swap(&v[i], &v[worst]);
        i = worst;
    }
}

static void heap_sort(struct sm_candidate *v, size_t n)
{
    for (size_t i = n / 2; i-- > 0;) sift_down(v, n, i);
    for (size_t end = n; end-- > 1;) {
        swap(&v[0], &v[end]);
        sift_down(v, end, 0);
    }
}

static void insertion_sort(struct sm_candidate *v, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        const struct sm_candidate c = v[i];
        size_t j = i;
        for (; j > 0 && before(&c, &v[j - 1]); j--) v[j] = v[j - 1];
        v[j] = c;
    }
}

/* Split at the median of three: v[0 ... split - 1] come before all of the rest; 0 < split < n. */
static size_t split(struct sm_candidate *v, size_t n)
{
    const struct sm_candidate *a = &v[0], *b = &v[n / 2], *c = &v[n - 1];
    const struct sm_candidate *m = before(a, b) ? (before(b, c)   ? b
                                                   : before(a, c) ? c
                                                                  : a)
                                                : (before(a, c)   ? a
                                                   : before(b, c) ? c
                                                                  : b);
    const struct sm_candidate pivot = *m;
    size_t i = 0, j = n - 1;
    for (;;) {
        while (before(&v[i], &pivot)) i++;
        while (before(&pivot, &v[j])) j--;
        if (i >= j) return i ? i : 1;
        swap(&v[i++], &v[j--]);
    }
}

/* Rounds of splitting before a set is taken to be made to defeat the pivots. */
static unsigned patience(size_t n)
{
    unsigned rounds = 8;
    for (; n > 1; n /= 2) rounds += 2;
    return rounds;
}

/* The first k in any order, 0 < k < n. */
static void select_first(struct sm_candidate *v, size_t n, size_t k)
{
    unsigned rounds = patience(n);
    while (n > 16) {
        if (rounds-- == 0) {
            heap_sort(v, n);
            return;
        }
        const size_t at = split(v, n);
        if (at == k) return;
        if (at > k) {
            n = at;
        } else {
            v += at;
            n -= at;
            k -= at;
        }
    }
    insertion_sort(v, n);
}

/* The stack holds the larger parts: at most log2(n) of them. */
static void sort_all(struct sm_candidate *v, size_t n)
{
    struct {
        struct sm_candidate *v;
        size_t n;
    } stack[64];
    size_t depth = 0;
    unsigned rounds = patience(n); /* for splits that leave nearly everything on one side */
    for (;;) {
        while (n > 16) {
            if (rounds == 0) {
                heap_sort(v, n);
                n = 0;
                break;
            }
            const size_t at = split(v, n), rest = n - at;
            if (at < n / 64 || rest < n / 64) rounds--;
            if (at > rest) {
                stack[depth].v = v;
                stack[depth++].n = at;
                v += at;
                n = rest;
            } else {
                stack[depth].v = v + at;
                stack[depth++].n = rest;
                n = at;
            }
        }
        insertion_sort(v, n);
        if (depth == 0) return;
        v = stack[--depth].v;
        n = stack[depth].n;
    }
}

void sm_cands_sort(struct sm_cands *c)
{
    if (!c->sorted) sort_all(c->v, c->n);
    c->sorted = true;
}

void sm_cands_sort_first(struct sm_cands *c, size_t k)
{
    if (c->sorted || k == 0) return;
    if (k >= c->n) {
        sm_cands_sort(c);
        return;
    }
    select_first(c->v, c->n, k);
    sort_all(c->v, k);
}

/* Twice k, so that the room is pruned rarely: each pruning costs about as much as it removes. */
size_t sm_top_k_capacity(size_t n_vocab, int32_t k)
{
    if (k <= 0 || (size_t)k >= n_vocab) return n_vocab;
    const size_t room = k < 64 ? 128 : 2 * (size_t)k;
    return room < n_vocab ? room : n_vocab;
}

static inline void put(struct sm_cands *c, size_t id, float logit)
{
    c->v[c->n++] = (struct sm_candidate){.id = (int32_t)id, .logit = logit};
}

/* Most runs of this length hold nothing above the bar; a fixed count lets compilers use vectors. */
#define SCAN ((size_t)32)
static inline bool any_above(const float *logit, float bar)
{
    int any = 0;
    for (size_t i = 0; i < SCAN; i++) any |= logit[i] > bar;
    return any != 0;
}

void sm_stage_top_k(struct sm_cands *c, const float *logit, size_t n_vocab, int32_t k)
{
    const size_t room = sm_top_k_capacity(n_vocab, k);
    c->n = 0;
    c->sorted = false;
    size_t i = 0;
    while (i < room) {
        put(c, i, logit[i]);
        i++;
    }
    if (room == n_vocab && (k <= 0 || (size_t)k >= n_vocab)) return;
    /* Ids come in ascending order, so a later one must be larger to displace the k-th. */
    while (i < n_vocab) {
        select_first(c->v, c->n, (size_t)k);
        float bar = c->v[0].logit;
        for (size_t j = 1; j < (size_t)k; j++)
            if (c->v[j].logit < bar) bar = c->v[j].logit;
        c->n = (size_t)k;
        while (i < n_vocab && c->n < room) {
            if (i + SCAN <= n_vocab && !any_above(logit + i, bar)) {
                i += SCAN;
                continue;
            }
            if (logit[i] > bar) put(c, i, logit[i]);
            i++;
        }
    }
    sm_cands_sort_first(c, (size_t)k);
    c->n = (size_t)k;
    c->sorted = true;
}
