/* SPDX-License-Identifier: MIT */
/* What recorded ids do not show: the streaming decoder, one BOS, memory, long pieces, and merging
 * against the plain quadratic procedure of the definition. */
#include "base/bits.h"
#include "base/mem.h"
#include "tap.h"
#include "tok_fixture.h"

#include <time.h>

static struct sm_tok *load(const char *name, struct sm_gguf **g)
{
    char part[200], path[4096];
    smol_error err = {0};
    struct sm_tok *t = NULL;
    struct sm_gguf *file = NULL;
    snprintf(part, sizeof part, "tests/data/%s", name);
    const smol_status st = sm_gguf_open(&file, tap_src(path, sizeof path, part), &err);
    if (st == SMOL_OK && sm_tok_new(&t, file, &err) != SMOL_OK) t = NULL;
    if (!t) TAP_OK(0, "%s: %s", name, err.msg);
    if (g) *g = file;
    else sm_gguf_free(file);
    return t;
}

static size_t encode(const struct sm_tok *t, const char *text, size_t n, unsigned flags,
                     int32_t **ids)
{
    size_t n_ids = 0;
    smol_error err = {0};
    *ids = NULL;
    if (sm_tok_encode(t, text, n, flags, ids, &n_ids, &err) != SMOL_OK) TAP_OK(0, "%s", err.msg);
    return n_ids;
}

/* Feed ids one by one; each output must be whole characters. */
static bool streams(const struct sm_tok *t, const int32_t *ids, size_t n, const char *want)
{
    char out[4096], buf[SM_TOK_PIECE_MAX];
    size_t used = 0;
    struct sm_tok_stream s;
    sm_tok_stream_init(&s, t, false);
    for (size_t i = 0; i <= n; i++) {
        const size_t k = i < n ? sm_tok_stream_put(&s, ids[i], buf) : sm_tok_stream_end(&s, buf);
        if (k > 0 && ((uint8_t)buf[0] & 0xc0) == 0x80) return false; /* begins inside a character */
        memcpy(out + used, buf, k);
        used += k;
    }
    out[used] = 0;
    if (!strcmp(out, want)) return true;
    printf("#   found \"%s\"\n", out);
    return false;
}

static bool round_trip(const struct sm_tok *t, const char *text)
{
    int32_t *ids;
    const size_t n = encode(t, text, strlen(text), 0, &ids);
    const bool good = streams(t, ids, n, text);
    free(ids);
    return good;
}

static const char russian[] =
    "\xd0\x9f\xd1\x80\xd0\xb8\xd0\xb2\xd0\xb5\xd1\x82, \xd0\xbc\xd0\xb8\xd1"
    "\x80! \xd0\xa1\xd1\x8a\xd0\xb5\xd1\x88\xd1\x8c \xd0\xb5\xd1\x89\xd1\x91";
/* face in clouds (joined by U+200D), family of four, flag */
static const char emoji[] =
    "a\xf0\x9f\x98\xb6\xe2\x80\x8d\xf0\x9f\x8c\xab\xef\xb8\x8f "
    "\xf0\x9f\x91\xa8\xe2\x80\x8d\xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x91\xa7 "
    "\xf0\x9f\x87\xa9\xf0\x9f\x87\xaa.";

static void check_streams(const struct sm_tok *bpe, const struct sm_tok *spm)
{
    TAP_OK(round_trip(bpe, russian) && round_trip(spm, russian), "Russian comes back whole");
    TAP_OK(round_trip(bpe, emoji) && round_trip(spm, emoji), "joined emoji come back whole");
    TAP_OK(round_trip(bpe, " a  b\n\n\tc ") && round_trip(spm, " a  b\n\n\tc "),
           "spaces come back");
    const int32_t e[] = {sm_tok_find(spm, "<0xF0>", 6), sm_tok_find(spm, "<0x9F>", 6),
                         sm_tok_find(spm, "<0x98>", 6), sm_tok_find(spm, "<0xB6>", 6)};
    TAP_OK(streams(spm, e, 4, "\xf0\x9f\x98\xb6"), "a character in four byte tokens");
    TAP_OK(streams(spm, e, 3, "\xef\xbf\xbd"), "an incomplete one at the end is one U+FFFD");
    const int32_t broken[] = {e[0], e[1], sm_tok_find(spm, "A", 1), e[3], e[0], e[0], e[1]};
    TAP_OK(streams(spm, broken, 7,
                   "\xef\xbf\xbd"
                   "A"
                   "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"),
           "what cannot become a character is replaced at once");
    const int32_t surrogate[] = {sm_tok_find(spm, "<0xED>", 6), sm_tok_find(spm, "<0xA0>", 6),
                                 sm_tok_find(spm, "<0x80>", 6)};
    TAP_OK(streams(spm, surrogate, 3, "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"),
           "a surrogate is not UTF-8");
    const int32_t hello[] = {sm_tok_find(spm,
                                         "\xe2\x96\x81"
                                         "Hello",
                                         8),
                             sm_tok_find(spm,
                                         "\xe2\x96\x81"
                                         "world",
                                         8)};
    TAP_OK(streams(spm, hello, 2, "Hello world"), "the first space of an SPM text goes");
    char buf[SM_TOK_PIECE_MAX];
    struct sm_tok_stream s;
    sm_tok_stream_init(&s, spm, false);
    s.begun = true;
    TAP_OK(sm_tok_stream_put(&s, hello[1], buf) == 6 && !memcmp(buf, " world", 6),
           "and stays when a text goes on");
    sm_tok_stream_init(&s, bpe, true);
    TAP_OK(sm_tok_stream_put(&s, -1, buf) == 0 && sm_tok_stream_put(&s, 1 << 30, buf) == 0,
           "ids outside of the vocabulary print nothing");
    const int32_t end = sm_tok_find(bpe, "<|im_end|>", 10);
    TAP_OK(sm_tok_is_end(bpe, end) && sm_tok_is_special(bpe, end) &&
               sm_tok_stream_put(&s, end, buf) == 10,
           "a control token prints when it is asked for");
    s.special = false;
    TAP_OK(sm_tok_stream_put(&s, end, buf) == 0, "and not otherwise");
    TAP_OK(sm_tok_piece(bpe, end, true, buf, 4) == 10 && !memcmp(buf, "<|im", 4),
           "a piece that does not fit is cut, its length told");
}

static void check_special(const struct sm_tok *bpe, const struct sm_tok *spm)
{
    int32_t *ids;
    const int32_t end = sm_tok_find(bpe, "<|im_end|>", 10), bos = sm_tok_bos(spm);
    size_t n = encode(bpe, "a<|im_end|>b", 12, SM_TOK_PARSE_SPECIAL, &ids);
    TAP_OK(n == 3 && ids[1] == end, "control tokens in the text are found");
    free(ids);
    n = encode(bpe, "a<|im_end|>b", 12, 0, &ids);
    bool inside = false;
    for (size_t i = 0; i < n; i++) inside |= ids[i] == end;
    TAP_OK(n > 3 && !inside, "and are text when the text is a user's");
    free(ids);
    n = encode(bpe, "<|im_end|", 9, SM_TOK_PARSE_SPECIAL, &ids);
    TAP_OK(n > 1, "a part of one is text");
    free(ids);
    n = encode(spm, "x", 1, SM_TOK_ADD_SPECIAL, &ids);
    TAP_OK(n == 2 && ids[0] == bos, "BOS is added");
    free(ids);
    n = encode(spm, "<s>x", 4, SM_TOK_ADD_SPECIAL | SM_TOK_PARSE_SPECIAL, &ids);
    TAP_OK(n >= 2 && ids[0] == bos && ids[1] != bos, "and not a second time");
    free(ids);
    n = encode(spm, "", 0, SM_TOK_ADD_SPECIAL, &ids);
    TAP_OK(n == 1 && ids[0] == bos, "an empty text is BOS alone");
    free(ids);
    n = encode(bpe, "", 0, SM_TOK_ADD_SPECIAL, &ids);
    TAP_OK(n == 0 && ids, "or nothing, and that can be freed");
    free(ids);
    n = encode(bpe, "a\0b\0", 4, 0, &ids);
    char out[16];
    size_t used = 0;
    for (size_t i = 0; i < n; i++) used += sm_tok_piece(bpe, ids[i], true, out + used, 8);
    TAP_OK(used == 4 && !memcmp(out, "a\0b\0", 4), "NUL is a byte like others");
    free(ids);
}

/* A run of one character of every length around the limits of the two ways of merging. */
static void check_pieces_add_up(const struct sm_tok *t, const char *what)
{
    char text[700], out[2100];
    unsigned wrong = 0;
    for (size_t n = 1; n <= 600; n += n < 140 ? 1 : 37) {
        for (size_t i = 0; i < n; i++) text[i] = (char)('a' + (n % 3 ? tap_random_below(3) : 0));
        int32_t *ids;
        const size_t n_ids = encode(t, text, n, 0, &ids);
        size_t used = 0;
        for (size_t i = 0; i < n_ids; i++)
            used += sm_tok_piece(t, ids[i], true, out + used, sizeof out - used);
        const size_t skip = used > n ? used - n : 0; /* SPM's space */
        wrong += skip > 1 || memcmp(out + skip, text, n) != 0;
        free(ids);
    }
    TAP_OK(wrong == 0, "%s: pieces add up to the text at every length", what);
}

/* ---- the definition, done plainly ---- */

struct sym {
    const char *p;
    size_t n;
};

/* Rank of the merge of two neighbours: a look through the list. */
static uint64_t naive_rank(const struct sm_kv *merges, const struct sym *a, const struct sym *b)
{
    struct sm_str s;
    uint64_t cursor = 0;
    for (uint64_t rank = 0; sm_gguf_next_str(merges, &cursor, &s); rank++)
        if (s.n == a->n + 1 + b->n && !memcmp(s.p, a->p, a->n) && s.p[a->n] == ' ' &&
            !memcmp(s.p + a->n + 1, b->p, b->n))
            return rank;
    return UINT64_MAX;
}

/* Lowest score last: a key that sorts as the rank does. */
static uint64_t naive_score(const struct sm_tok *t, const struct sm_kv *scores, const struct sym *a,
                            const struct sym *b)
{
    const int32_t id = sm_tok_find(t, a->p, a->n + b->n);
    if (id < 0) return UINT64_MAX;
    return (uint64_t)(1e9 - (double)sm_ldf32(scores->data + (size_t)id * 4) * 1000);
}

static size_t naive_merge(const struct sm_tok *t, const struct sm_kv *merges,
                          const struct sm_kv *scores, struct sym *s, size_t n)
{
    for (;;) {
        size_t best = 0;
        uint64_t lowest = UINT64_MAX;
        for (size_t i = 0; i + 1 < n; i++) {
            const uint64_t key = merges ? naive_rank(merges, s + i, s + i + 1)
                                        : naive_score(t, scores, s + i, s + i + 1);
            if (key >= lowest) continue;
            lowest = key;
            best = i;
        }
        if (lowest == UINT64_MAX) return n;
        s[best].n += s[best + 1].n;
        n--;
        for (size_t i = best + 1; i < n; i++) s[i] = s[i + 1];
    }
}

static bool same_as(const struct sm_tok *t, const char *text, size_t n, const struct sym *s,
                    size_t n_want)
{
    int32_t *ids;
    const size_t n_ids = encode(t, text, n, 0, &ids);
    bool good = n_ids == n_want;
    for (size_t i = 0; good && i < n_ids; i++) good = ids[i] == sm_tok_find(t, s[i].p, s[i].n);
    if (!good) printf("#   differs: \"%.*s\"\n", (int)n, text);
    free(ids);
    return good;
}

static void check_bpe_plainly(void)
{
    static const char letters[] = "thetheinaiononreeratsstordes";
    struct sm_gguf *g = NULL;
    struct sm_tok *t = load("models/rand-qwen3.gguf", &g);
    const struct sm_kv *merges = t ? sm_gguf_find(g, "tokenizer.ggml.merges") : NULL;
    unsigned wrong = !t || !merges;
    for (unsigned i = 0; !wrong && i < 400; i++) {
        char text[300];
        struct sym s[300];
        const size_t n = 2 + (size_t)tap_random_below(i % 4 ? 70 : 298);
        for (size_t k = 0; k < n; k++) {
            text[k] = letters[tap_random_below(sizeof letters - 1)];
            s[k] = (struct sym){text + k, 1};
        }
        wrong += !same_as(t, text, n, s, naive_merge(t, merges, NULL, s, n));
    }
    TAP_OK(wrong == 0, "byte-level merging as the definition says");
    sm_tok_free(t);
    sm_gguf_free(g);
}

static void check_spm_plainly(void)
{
    static const char *const parts[] = {" ",
                                        "  ",
                                        "the",
                                        "ing",
                                        "a",
                                        "e",
                                        "t",
                                        "\xd0\xb0",
                                        "\xe2\x96\x81",
                                        "\n",
                                        ".",
                                        "tion",
                                        "\xf0\x9f\x98\xb6",
                                        " A",
                                        "1",
                                        "()"};
    struct sm_gguf *g = NULL;
    struct sm_tok *t = load("vocab/phi-3.gguf", &g);
    const struct sm_kv *scores = t ? sm_gguf_find(g, "tokenizer.ggml.scores") : NULL;
    unsigned wrong = !t || !scores;
    for (unsigned i = 0; !wrong && i < 400; i++) {
        char text[800], spaced[1600] = "\xe2\x96\x81";
        struct sym s[800];
        size_t n = 0, n_spaced = 3, n_sym = 0;
        for (uint64_t k = 1 + tap_random_below(i % 4 ? 20 : 100); k > 0; k--) {
            const char *p = parts[tap_random_below(i % 3 ? sizeof parts / sizeof *parts : 7)];
            memcpy(text + n, p, strlen(p));
            n += strlen(p);
        }
        for (size_t k = 0; k < n; k++) {
            if (text[k] == ' ') memcpy(spaced + n_spaced, "\xe2\x96\x81", 3);
            else spaced[n_spaced] = text[k];
            n_spaced += text[k] == ' ' ? 3 : 1;
        }
        for (size_t at = 0; at < n_spaced; at += s[n_sym++].n) {
            const uint8_t b = (uint8_t)spaced[at];
            s[n_sym] = (struct sym){spaced + at, b < 0x80 ? 1 : b < 0xe0 ? 2 : b < 0xf0 ? 3 : 4};
        }
        n_sym = naive_merge(t, NULL, scores, s, n_sym);
        bool bytes = false; /* symbols that are no token are byte tokens: other tests have those */
        for (size_t k = 0; k < n_sym; k++) bytes |= sm_tok_find(t, s[k].p, s[k].n) < 0;
        if (!bytes) wrong += !same_as(t, text, n, s, n_sym);
    }
    TAP_OK(wrong == 0, "SPM merging of the whole text as the definition says");
    sm_tok_free(t);
    sm_gguf_free(g);
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* 64 KiB in one piece; the quadratic way would take some 10^9 steps. */
static void check_long(const struct sm_tok *t, const char *what)
{
    const size_t n = (size_t)64 << 10;
    char *text = malloc(n);
    static const char base64[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    if (!text) return;
    for (size_t i = 0; i < n; i++) text[i] = base64[tap_random_below(sizeof base64 - 1)];
    int32_t *ids;
    const double start = seconds();
    const size_t n_ids = encode(t, text, n, 0, &ids);
    const double spent = seconds() - start;
    TAP_OK(n_ids > n / 8 && spent < 3, "%s: 64 KiB of letters in %.0f ms", what, spent * 1e3);
    free(ids);
    free(text);
}

static void check_memory(void)
{
    const size_t before = sm_mem_held();
    struct sm_gguf *g = NULL;
    struct sm_tok *t = load("vocab/qwen3.gguf", &g);
    const size_t with_file = sm_mem_held();
    sm_gguf_free(g);
    const size_t alone = sm_mem_held();
    TAP_OK(t && alone - before == sm_tok_memory(t) && sm_tok_memory(t) < (size_t)6 << 20,
           "Qwen3's vocabulary holds %.2f MiB, and says so",
           t ? (double)sm_tok_memory(t) / 1048576 : 0);
    TAP_OK(with_file >= alone, "and does without the file");
    sm_tok_free(t);
    TAP_OK(sm_mem_held() == before, "nothing is left when it is freed");
    sm_tok_free(NULL);
}

static void check_rules(struct sm_tok *bpe, struct sm_tok *spm)
{
    smol_error err = {0};
    TAP_OK(sm_tok_set_pre(bpe, "nonsense", &err) == SMOL_UNSUPPORTED && err.msg[0], "%s", err.msg);
    TAP_IS_STR(sm_tok_pre(bpe), "qwen2", "the rule stays");
    TAP_OK(sm_tok_set_pre(bpe, "llama3", &err) == SMOL_OK && !strcmp(sm_tok_pre(bpe), "llama3"),
           "an alias is a name");
    err = (smol_error){0};
    TAP_OK(sm_tok_set_pre(spm, "qwen2", &err) == SMOL_UNSUPPORTED, "%s", err.msg);
    TAP_IS_STR(sm_tok_pre(spm), "", "SPM has no rule");
    TAP_IS_STR(sm_tok_model(spm), "llama", "model");
    int32_t *ids;
    size_t n;
    err = (smol_error){0};
    TAP_OK(sm_tok_encode(bpe, "x", (size_t)1 << 31, 0, &ids, &n, &err) == SMOL_LIMIT && !ids, "%s",
           err.msg);
}

int main(int argc, char **argv)
{
    tap_init(argc, argv);
    struct sm_tok *bpe = load("vocab/qwen3.gguf", NULL), *spm = load("vocab/phi-3.gguf", NULL);
    if (bpe && spm) {
        check_streams(bpe, spm);
        check_special(bpe, spm);
        check_pieces_add_up(bpe, "byte-level");
        check_pieces_add_up(spm, "SPM");
        check_long(bpe, "byte-level");
        check_long(spm, "SPM");
        check_rules(bpe, spm);
    }
    sm_tok_free(bpe);
    sm_tok_free(spm);
    check_bpe_plainly();
    check_spm_plainly();
    check_memory();
    return tap_done();
}
