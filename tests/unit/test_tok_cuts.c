/* SPDX-License-Identifier: MIT */
/* The cuts of every split rule against a regular-expression engine. The patterns below are written
 * from the definition of the rules, not from our matchers. Without libpcre2 at configure time only
 * what needs no oracle is checked. */
#include "tap.h"
#include "tok/split.h"

#define MAX_CUTS 512

/* White space, CI and TAIL of the rules. */
#define S                                                                                          \
    "\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}"             \
    "\\x{202f}\\x{205f}\\x{3000}"
#define CS "'(?:s|t|re|ve|m|ll|d)"
#define CI "'(?:[sS]|[tT]|[rR][eE]|[vV][eE]|[mM]|[lL][lL]|[dD])"
#define TAIL "[" S "]+(?![^" S "])|[" S "]+"
#define NL "[" S "]*[\\r\\n]+"
#define GPT2 CS "| ?\\pL+| ?\\pN+| ?[^" S "\\pL\\pN]+|" TAIL
#define WORDS(digits, ends)                                                                        \
    CI "|[^\\r\\n\\pL\\pN]?\\pL+|" digits "| ?[^" S "\\pL\\pN]+" ends "|" NL "|" TAIL
#define U "(?:(?=\\pL)[^a-z])"
#define W "(?:(?=\\pL)[^A-Z])"
#define PRE "[^\\r\\n\\pL\\pN]?"
#define CASED(tail, digits)                                                                        \
    PRE U "*" W "+" tail "|" PRE U "+" W "*" tail "|" digits "| ?[^" S "\\pL\\pN]+[\\r\\n/]*|" NL  \
          "|" TAIL
/* White space beyond ASCII never is in a literal range. */
#define LITERAL(ranges) "(?:(?![" S "])[" ranges "])+"
#define EAST LITERAL("\\x{4e00}-\\x{9fa5}\\x{800}-\\x{4e00}\\x{ac00}-\\x{d7ff}")
#define CASED_SCRIPTS                                                                              \
    "A-Za-z\\x{b5}\\x{c0}-\\x{d6}\\x{d8}-\\x{f6}\\x{f8}-\\x{1ba}\\x{1bc}-\\x{1bf}\\x{1c4}-\\x{"    \
    "293}"                                                                                         \
    "\\x{295}-\\x{2af}\\x{370}-\\x{373}\\x{376}\\x{377}\\x{37b}-\\x{37d}\\x{37f}\\x{386}"          \
    "\\x{388}-\\x{38a}\\x{38c}\\x{38e}-\\x{3a1}\\x{3a3}-\\x{3f5}\\x{3f7}-\\x{481}"                 \
    "\\x{48a}-\\x{52f}\\x{531}-\\x{556}\\x{10a0}-\\x{10c5}\\x{13a0}-\\x{13f5}"                     \
    "\\x{13f8}-\\x{13fd}\\x{1c90}-\\x{1cba}\\x{1cbd}-\\x{1cbf}\\x{1d00}-\\x{1d2b}"                 \
    "\\x{1d6b}-\\x{1d77}\\x{1d79}-\\x{1d9a}\\x{1e00}-\\x{1f15}\\x{1f18}-\\x{1f1d}"                 \
    "\\x{1f20}-\\x{1f45}\\x{1f48}-\\x{1f4d}\\x{1f50}-\\x{1f57}\\x{1f59}\\x{1f5b}\\x{1f5d}"         \
    "\\x{1f5f}-\\x{1f7d}\\x{1f80}-\\x{1fb4}\\x{1fb6}-\\x{1fbc}\\x{1fbe}\\x{1fc2}-\\x{1fc4}"        \
    "\\x{1fc6}-\\x{1fcc}\\x{1fd0}-\\x{1fd3}\\x{1fd6}-\\x{1fdb}\\x{1fe0}-\\x{1fec}"                 \
    "\\x{1ff2}-\\x{1ff4}\\x{1ff6}-\\x{1ffc}\\x{2102}\\x{2107}\\x{210a}-\\x{2113}\\x{2115}"         \
    "\\x{2119}-\\x{211d}\\x{2124}\\x{2126}\\x{2128}\\x{212a}-\\x{212d}\\x{212f}-\\x{2134}"         \
    "\\x{2139}\\x{213c}-\\x{213f}\\x{2145}-\\x{2149}\\x{214e}\\x{2183}\\x{2184}"                   \
    "\\x{2c00}-\\x{2c7b}\\x{2c7e}-\\x{2ce4}\\x{2ceb}-\\x{2cee}\\x{2cf2}\\x{2cf3}"                  \
    "\\x{a640}-\\x{a66d}\\x{a680}-\\x{a69b}\\x{a722}-\\x{a76f}\\x{a771}-\\x{a787}"                 \
    "\\x{a78b}-\\x{a78e}\\x{ab70}-\\x{abbf}\\x{fb00}-\\x{fb06}\\x{fb13}-\\x{fb17}"                 \
    "\\x{ff21}-\\x{ff3a}\\x{ff41}-\\x{ff5a}\\x{10400}-\\x{1044f}\\x{104b0}-\\x{104d3}"             \
    "\\x{104d8}-\\x{104fb}\\x{10c80}-\\x{10cb2}\\x{10cc0}-\\x{10cf2}\\x{118a0}-\\x{118df}"         \
    "\\x{1e900}-\\x{1e943}"
#define SIGN_SCRIPTS                                                                               \
    "!-/:-~\\x{ff01}-\\x{ff0f}\\x{ff1a}-\\x{ff5e}\\x{2018}-\\x{201f}\\x{3000}-\\x{3002}"

#define QWEN2                                                                                      \
    {                                                                                              \
        WORDS("\\pN", "[\\r\\n]*")                                                                 \
    }
#define LLAMA3                                                                                     \
    {                                                                                              \
        WORDS("\\pN{1,3}", "[\\r\\n]*")                                                            \
    }
#define DEEPSEEK3                                                                                  \
    {                                                                                              \
        "\\pN{1,3}", LITERAL("\\x{4e00}-\\x{9fa5}\\x{3040}-\\x{309f}\\x{30a0}-\\x{30ff}"),         \
            "[!-/:-@\\[-`{-~][A-Za-z]+|[^\\r\\n\\pL\\pP\\pS]?[\\pL\\pM]+| "                        \
            "?[\\pP\\pS]+[\\r\\n]*|" NL "|" TAIL                                                   \
    }

static const struct {
    const char *name;
    const char *pass[SM_SPLIT_MAX_PASSES];
} rules[] = {
    {"gpt-2", {GPT2}},
    {"smollm", {"\\pN", GPT2}},
    {"default", {"[\\pP$+<=>^~|]+", GPT2, "\\pN+", "[0-9]{3}"}},
    {"qwen2", QWEN2},
    {"hunyuan", QWEN2},
    {"bailingmoe2",
     {CI "|[^\\r\\n\\pL\\pN]?\\pL+|\\pN| ?[^" S "\\pL\\pN]+[\\r\\n]*|[" S "]*[\\r\\n]|" TAIL}},
    {"qwen35",
     {CI "|[^\\r\\n\\pL\\pN]?[\\pL\\pM]+|\\pN| ?[^" S "\\pL\\pM\\pN]+[\\r\\n]*|" NL "|" TAIL}},
    {"llama-bpe", LLAMA3},
    {"glm4", LLAMA3},
    {"seed-coder", {CI "|[^\\r\\n\\pL\\pN]?\\pL+|\\pN| ?[^" S "\\pL\\pN\\r\\n]+|" NL "|" TAIL}},
    {"gpt-4o", {CASED("(?:" CI ")?", "\\pN{1,3}")}},
    {"tekken", {CASED("", "\\pN")}},
    {"deepseek-v3", DEEPSEEK3},
    {"joyai-llm", DEEPSEEK3},
    {"hunyuan-dense", DEEPSEEK3},
    {"deepseek-coder", {"[\\r\\n]", "[" S "]?\\pL+", "[" S "]?\\pP+", EAST, "\\pN"}},
    {"deepseek-llm",
     {"[\\r\\n]", "[" S "]?" LITERAL(CASED_SCRIPTS), "[" S "]?" LITERAL(SIGN_SCRIPTS),
      "[" S "]+\\z", EAST, "\\pN+"}},
};
#define N_RULES (sizeof rules / sizeof *rules)

struct cuts {
    const uint8_t *text;
    size_t n, end[MAX_CUTS];
};

static bool add_piece(void *arg, const uint8_t *p, size_t n)
{
    struct cuts *c = arg;
    if (c->n == MAX_CUTS || n == 0) return false;
    c->end[c->n++] = (size_t)(p - c->text) + n;
    return true;
}

/* Points of every kind that a rule tells apart, and of scripts that share ranges with others. */
static const uint32_t blocks[][2] = {
    {0x00, 0x7f},       {0x20, 0x7e},       {'a', 'z'},         {'A', 'Z'},
    {'0', '9'},         {0x20, 0x2f},       {0x09, 0x0d},       {0x0a, 0x0a},
    {0x0d, 0x0d},       {0x20, 0x20},       {0x80, 0xff},       {0x85, 0x85},
    {0xa0, 0xa0},       {0x100, 0x17f},     {0x180, 0x24f},     {0x2b0, 0x2ff},
    {0x300, 0x36f},     {0x370, 0x3ff},     {0x400, 0x52f},     {0x531, 0x58f},
    {0x5d0, 0x5f4},     {0x600, 0x6ff},     {0x900, 0x97f},     {0xe00, 0xe5b},
    {0x10a0, 0x10ff},   {0x1100, 0x11ff},   {0x1680, 0x169f},   {0x1d00, 0x1dbf},
    {0x1f00, 0x1fff},   {0x2000, 0x206f},   {0x2070, 0x209f},   {0x20a0, 0x20bf},
    {0x2100, 0x218f},   {0x2190, 0x23ff},   {0x2460, 0x24ff},   {0x2c00, 0x2cff},
    {0x3000, 0x303f},   {0x3040, 0x30ff},   {0x4dfe, 0x4e02},   {0x4e00, 0x9fff},
    {0x9fa0, 0x9fab},   {0xa640, 0xa69f},   {0xa720, 0xa7ca},   {0xab70, 0xabbf},
    {0xac00, 0xd7af},   {0xd7a0, 0xd7ff},   {0xe000, 0xe010},   {0xfb00, 0xfb17},
    {0xff00, 0xffef},   {0x10400, 0x104ff}, {0x1d7ce, 0x1d7ff}, {0x1e900, 0x1e943},
    {0x1f300, 0x1f64f}, {0x20000, 0x2000f}, {0xe0100, 0xe0101}};
static const char *const words[] = {"'s",
                                    "'LL",
                                    "'re",
                                    "'Ve",
                                    "'d",
                                    "don't",
                                    "  \n",
                                    "\r\n",
                                    " x",
                                    "a/b\n",
                                    "1234567",
                                    "ABCdef",
                                    "\xc3\x84"
                                    "B",
                                    "e\xcc\x81"};

static size_t random_text(char *text, bool (*allowed)(uint32_t))
{
    size_t n = 0;
    for (uint64_t parts = 1 + tap_random_below(10); parts > 0; parts--) {
        if (tap_random_below(6) == 0) {
            const char *w = words[tap_random_below(sizeof words / sizeof *words)];
            memcpy(text + n, w, strlen(w));
            n += strlen(w);
            continue;
        }
        const uint32_t *b = blocks[tap_random_below(sizeof blocks / sizeof *blocks)];
        for (uint64_t k = 1 + tap_random_below(5); k > 0; k--) {
            const uint32_t c = b[0] + (uint32_t)tap_random_below(b[1] - b[0] + 1);
            if (allowed(c)) n += sm_utf8_put(text + n, c);
        }
    }
    return n;
}

static bool any(uint32_t c) { return c < 0xd800 || c > 0xdfff; }

static void check_complete(void)
{
    char text[512];
    unsigned wrong = 0, names = 0;
    for (const char *name; (name = sm_split_name(names)) != NULL; names++) {
        const char *known = NULL;
        const struct sm_split_rule *r = sm_split_find(name, strlen(name), &known);
        for (unsigned i = 0; r && i < 200; i++) {
            const size_t n = random_text(text, any);
            struct cuts c = {.text = (uint8_t *)text};
            const bool good = sm_split_text(r, c.text, n, add_piece, &c);
            for (size_t k = 1; k < c.n; k++) wrong += c.end[k] <= c.end[k - 1];
            wrong += !good || (n > 0 && (c.n == 0 || c.end[c.n - 1] != n));
        }
        wrong += !r || known != name;
    }
    TAP_OK(wrong == 0, "pieces of %u rule names are in order and complete", names);
    const char *known;
    TAP_OK(!sm_split_find("qwen", 4, &known) && !sm_split_find("qwen22", 6, &known) &&
               !sm_split_find("", 0, &known),
           "other names are not known");
}

static bool count_piece(void *arg, const uint8_t *p, size_t n)
{
    (void)p;
    *(size_t *)arg += n;
    return true;
}

/* Runs that no pass of a rule may look at more than a few times: a pass that looked at a run once
 * for each of its characters would take hours here. */
static void check_linear(void)
{
    static const char *const units[] = {" ",
                                        "\n",
                                        "a",
                                        "1",
                                        "'",
                                        "\xc3\x84",
                                        "\xc3\x84"
                                        "B",
                                        "\xcc\x81",
                                        "\xe3\x80\x80",
                                        " \t",
                                        "!a",
                                        "0 "};
    const size_t n = (size_t)(tap_effort() ? 256 : 32) << 10;
    uint8_t *text = malloc(n);
    size_t bytes = 0, want = 0;
    for (size_t u = 0; text && u < sizeof units / sizeof *units; u++) {
        const size_t len = strlen(units[u]), used = n / len * len;
        for (size_t i = 0; i < used; i++) text[i] = (uint8_t)units[u][i % len];
        memset(text + used - len, 'x', len); /* what is behind the run decides about it */
        for (size_t r = 0; r < N_RULES; r++) {
            const char *known;
            const struct sm_split_rule *rule =
                sm_split_find(rules[r].name, strlen(rules[r].name), &known);
            (void)sm_split_text(rule, text, used, count_piece, &bytes);
            want += used;
        }
    }
    TAP_OK(bytes == want && want > 0, "long runs are cut, in linear time");
    free(text);
}

#ifdef SMOL_HAVE_PCRE2
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

static pcre2_code *code[N_RULES][SM_SPLIT_MAX_PASSES];
static pcre2_match_data *match;
static uint8_t agreed[0x110000 / 8]; /* points on whose class both tables agree */

static pcre2_code *compile(const char *pattern)
{
    int error;
    PCRE2_SIZE at;
    pcre2_code *c =
        pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED, PCRE2_UTF, &error, &at, NULL);
    if (!c) TAP_OK(0, "pattern \"%s\": error %d at %zu", pattern, error, at);
    else (void)pcre2_jit_compile(c, PCRE2_JIT_COMPLETE);
    return c;
}

static bool matches(pcre2_code *c, const char *text, size_t n)
{
    return pcre2_match(c, (PCRE2_SPTR)text, n, 0, 0, match, NULL) > 0;
}

/* Its Unicode is older than ours: points that one of the two does not know are left out. */
static void compare_classes(void)
{
    static const struct {
        const char *pattern;
        unsigned bit;
    } classes[] = {{"\\pL", SM_UC_L}, {"\\pN", SM_UC_N}, {"\\pP", SM_UC_P},
                   {"\\pS", SM_UC_S}, {"\\pM", SM_UC_M}, {"[" S "]", SM_UC_WS}};
    pcre2_code *p[6], *unassigned = compile("\\p{Cn}");
    unsigned differ = 0, known = 0;
    for (unsigned i = 0; i < 6; i++) p[i] = compile(classes[i].pattern);
    for (uint32_t c = 0; c < 0x110000; c++) {
        char text[4];
        if (!any(c)) continue;
        const size_t n = sm_utf8_put(text, c);
        const unsigned ours = sm_unicode_class_of(c);
        bool same = true;
        for (unsigned i = 0; i < 6; i++)
            same &= matches(p[i], text, n) == !!(ours & classes[i].bit);
        if (same) agreed[c / 8] |= (uint8_t)(1u << c % 8);
        const bool assigned = !matches(unassigned, text, n);
        known += assigned;
        differ += assigned && !same;
    }
    TAP_OK(differ <= 16 && known > 100000,
           "%u of %u assigned points have another class there (few: categories get corrected)",
           differ, known);
    for (unsigned i = 0; i < 6; i++) pcre2_code_free(p[i]);
    pcre2_code_free(unassigned);
}

static bool is_agreed(uint32_t c) { return any(c) && (agreed[c / 8] >> c % 8 & 1); }

static void oracle(size_t rule, unsigned pass, const uint8_t *p, size_t n, struct cuts *out)
{
    if (n == 0) return;
    if (pass == SM_SPLIT_MAX_PASSES || !code[rule][pass]) {
        (void)add_piece(out, p, n);
        return;
    }
    size_t gap = 0;
    while (gap < n &&
           pcre2_match(code[rule][pass], p, n, gap, PCRE2_NO_UTF_CHECK, match, NULL) > 0) {
        const PCRE2_SIZE *v = pcre2_get_ovector_pointer(match);
        const size_t from = v[0], to = v[1];
        oracle(rule, pass + 1, p + gap, from - gap, out);
        oracle(rule, pass + 1, p + from, to - from, out);
        gap = to;
    }
    oracle(rule, pass + 1, p + gap, n - gap, out);
}

static void check_rule(size_t r, unsigned n_texts)
{
    char text[512];
    unsigned differ = 0;
    const char *known;
    const struct sm_split_rule *rule = sm_split_find(rules[r].name, strlen(rules[r].name), &known);
    for (unsigned i = 0; i < n_texts; i++) {
        const size_t n = random_text(text, is_agreed);
        struct cuts ours = {.text = (uint8_t *)text}, want = {.text = (uint8_t *)text};
        (void)sm_split_text(rule, ours.text, n, add_piece, &ours);
        oracle(r, 0, want.text, n, &want);
        if (ours.n == want.n && !memcmp(ours.end, want.end, ours.n * sizeof *ours.end)) continue;
        if (differ++ > 2) continue;
        printf("# %s:", rules[r].name);
        for (size_t k = 0; k < n; k++) printf("%02x", (uint8_t)text[k]);
        printf("\n#  ours ");
        for (size_t k = 0; k < ours.n; k++) printf(" %zu", ours.end[k]);
        printf("\n#  want ");
        for (size_t k = 0; k < want.n; k++) printf(" %zu", want.end[k]);
        printf("\n");
    }
    TAP_OK(differ == 0, "%s: cuts of %u random texts (%u differ)", rules[r].name, n_texts, differ);
}

static void check_oracle(void)
{
    match = pcre2_match_data_create(64, NULL);
    compare_classes();
    for (size_t r = 0; r < N_RULES; r++)
        for (unsigned k = 0; k < SM_SPLIT_MAX_PASSES && rules[r].pass[k]; k++)
            code[r][k] = compile(rules[r].pass[k]);
    for (size_t r = 0; r < N_RULES; r++) check_rule(r, 5000);
    for (size_t r = 0; r < N_RULES; r++)
        for (unsigned k = 0; k < SM_SPLIT_MAX_PASSES; k++) pcre2_code_free(code[r][k]);
    pcre2_match_data_free(match);
}
#else
static void check_oracle(void) { TAP_SKIP(N_RULES + 1, "built without libpcre2, the oracle"); }
#endif

int main(int argc, char **argv)
{
    tap_init(argc, argv);
    check_complete();
    check_linear();
    check_oracle();
    return tap_done();
}
