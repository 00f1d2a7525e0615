/* SPDX-License-Identifier: MIT */
/* Stop strings in a stream: examples, and random texts cut in random ways against a search in the
 * whole text; what is held back must be the longest tail that can still become a stop string. */
#include "infer/stop.h"
#include "tap.h"

#include <stdbool.h>

struct text {
    char b[4096];
    size_t n;
};

static void append(void *arg, const char *bytes, size_t n)
{
    struct text *t = arg;
    TAP_OK(n > 0 && t->n + n <= sizeof t->b, "piece of %zu bytes", n);
    memcpy(t->b + t->n, bytes, n);
    t->n += n;
}
static void append_quietly(void *arg, const char *bytes, size_t n)
{
    struct text *t = arg;
    if (n == 0 || t->n + n > sizeof t->b) abort();
    memcpy(t->b + t->n, bytes, n);
    t->n += n;
}

static struct sm_stop *make(const char *const *texts, size_t n)
{
    struct sm_stop_string s[16];
    struct sm_stop *stop = NULL;
    for (size_t i = 0; i < n; i++) s[i] = (struct sm_stop_string){texts[i], strlen(texts[i])};
    if (sm_stop_new(&stop, s, n, NULL) != SMOL_OK) return NULL;
    return stop;
}

static void test_examples(void)
{
    static const char *const two[] = {"END", "\n\n"};
    struct sm_stop *s = make(two, 2);
    struct text t = {.n = 0};
    TAP_OK(!sm_stop_put(s, "hello E", 7, append, &t), "no stop yet");
    TAP_OK(t.n == 6 && !memcmp(t.b, "hello ", 6), "the beginning of a stop string is held back");
    TAP_IS_INT(sm_stop_held(s), 1, "one byte of it");
    TAP_OK(!sm_stop_put(s, "N", 1, append, &t) && t.n == 6, "still held");
    TAP_OK(!sm_stop_put(s, "x", 1, append, &t), "it was none");
    TAP_OK(t.n == 9 && !memcmp(t.b, "hello ENx", 9), "and comes out");
    TAP_OK(sm_stop_put(s, "abEND tail", 10, append, &t), "a stop inside a piece");
    TAP_OK(t.n == 11 && !memcmp(t.b, "hello ENxab", 11), "cut exactly before it");
    TAP_IS_INT(sm_stop_found(s), 0, "which one");
    TAP_OK(sm_stop_put(s, "more", 4, append, &t) && t.n == 11, "nothing comes after it");
    sm_stop_end(s, append, &t);
    TAP_IS_INT(t.n, 11, "nor at the end");
    sm_stop_reset(s);
    t.n = 0;
    TAP_OK(!sm_stop_put(s, "a\n", 2, append, &t), "reset");
    sm_stop_end(s, append, &t);
    TAP_OK(t.n == 2 && !memcmp(t.b, "a\n", 2), "the end releases what is held");
    sm_stop_free(s);

    static const char *const nested[] = {"bc", "abcd", "abc"};
    s = make(nested, 3);
    t.n = 0;
    TAP_OK(sm_stop_put(s, "xabcd", 5, append, &t) && t.n == 1,
           "of two complete at once, the longer cuts");
    TAP_IS_INT(sm_stop_found(s), 2, "which is abc");
    sm_stop_free(s);

    s = make(NULL, 0);
    t.n = 0;
    TAP_OK(!sm_stop_put(s, "all of it", 9, append, &t) && t.n == 9, "no stop strings");
    sm_stop_free(s);
    sm_stop_free(NULL);
}

static void test_utf8(void)
{
    static const char *const word[] = {"\xe7\xb5\x82\xe3\x82\x8f\xe3\x82\x8a"}; /* 3 characters */
    struct sm_stop *s = make(word, 1);
    struct text t = {.n = 0};
    /* the first character is the same, the second differs in its last byte */
    (void)sm_stop_put(s, "a\xe7\xb5\x82", 4, append, &t);
    TAP_IS_INT(t.n, 1, "a whole character is held back");
    (void)sm_stop_put(s, "\xe3\x82\x8e", 3, append, &t);
    TAP_IS_INT(t.n, 7, "and released with the next whole one");
    TAP_IS_INT(sm_stop_held(s), 0, "no half characters stay");
    sm_stop_free(s);
}

static void test_refusals(void)
{
    static char big[SM_STOP_BYTES_MAX + 1];
    struct sm_stop_string many[SM_STOP_MAX + 1];
    struct sm_stop *s = NULL;
    smol_error err = {0};
    const struct sm_stop_string empty = {"", 0}, long_one = {big, sizeof big};
    TAP_OK(sm_stop_new(&s, &empty, 1, &err) == SMOL_ARG && !s, "empty: %s", err.msg);
    err = (smol_error){0};
    TAP_OK(sm_stop_new(&s, &long_one, 1, &err) == SMOL_ARG && !s, "long: %s", err.msg);
    err = (smol_error){0};
    for (size_t i = 0; i <= SM_STOP_MAX; i++) many[i] = (struct sm_stop_string){"x", 1};
    TAP_OK(sm_stop_new(&s, many, SM_STOP_MAX + 1, &err) == SMOL_ARG, "many: %s", err.msg);
    TAP_OK(sm_stop_new(&s, many, SM_STOP_MAX, NULL) == SMOL_OK, "the most");
    sm_stop_free(s);
}

/* Where the text must be cut, and how much of a prefix must be held back. */
static size_t first_stop(const char *b, size_t n, char str[][8], size_t n_str)
{
    for (size_t end = 1; end <= n; end++) {
        size_t longest = 0;
        for (size_t k = 0; k < n_str; k++) {
            const size_t len = strlen(str[k]);
            if (len <= end && len > longest && !memcmp(b + end - len, str[k], len)) longest = len;
        }
        if (longest) return end - longest;
    }
    return SIZE_MAX;
}
static size_t must_hold(const char *b, size_t n, char str[][8], size_t n_str)
{
    for (size_t len = n < 7 ? n : 7; len > 0; len--)
        for (size_t k = 0; k < n_str; k++)
            if (len < strlen(str[k]) && !memcmp(b + n - len, str[k], len)) return len;
    return 0;
}

static void test_random(void)
{
    bool good = true, hold = true;
    for (int round = 0; round < 20000; round++) {
        char str[3][8], b[64];
        const char *texts[3];
        const size_t n_str = 1 + (size_t)tap_random_below(3), n = (size_t)tap_random_below(64);
        for (size_t k = 0; k < n_str; k++) {
            const size_t len = 1 + (size_t)tap_random_below(6);
            for (size_t i = 0; i < len; i++) str[k][i] = (char)('a' + tap_random_below(2));
            str[k][len] = 0;
            texts[k] = str[k];
        }
        for (size_t i = 0; i < n; i++) b[i] = (char)('a' + tap_random_below(round % 2 ? 2 : 3));
        struct sm_stop *s = make(texts, n_str);
        struct text t = {.n = 0};
        const size_t cut = first_stop(b, n, str, n_str);
        bool found = false;
        for (size_t at = 0; at < n && !found;) {
            size_t step = 1 + (size_t)tap_random_below(5);
            if (step > n - at) step = n - at;
            found = sm_stop_put(s, b + at, step, append_quietly, &t);
            at += step;
            if (!found) {
                const size_t want = must_hold(b, at, str, n_str);
                hold = hold && sm_stop_held(s) == want && t.n + want == at;
            }
        }
        if (!found) sm_stop_end(s, append_quietly, &t);
        const size_t want = found ? cut : n;
        good = good && found == (cut != SIZE_MAX) && t.n == want && !memcmp(t.b, b, want);
        sm_stop_free(s);
    }
    TAP_OK(good, "random texts are cut where the first stop string begins");
    TAP_OK(hold, "and exactly what may become one is held back");
}

int main(int argc, char **argv)
{
    tap_init(argc, argv);
    test_examples();
    test_utf8();
    test_refusals();
    test_random();
    return tap_done();
}
