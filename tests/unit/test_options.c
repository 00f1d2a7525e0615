/* SPDX-License-Identifier: MIT */
/* The option table: every kind of value, its bounds, and one clear sentence for what is wrong. */
#include "lib/options.h"

#include "tap.h"

/* Parse a command line given as words separated by blanks. */
static bool parse(struct sm_options *o, unsigned command, const char *line, int *n_args,
                  char *first, bool *help)
{
    static char words[512]; /* the values point into it */
    char *argv[32];
    int argc = 0;
    (void)snprintf(words, sizeof words, "x %s", line);
    for (char *p = words; *p;) {
        argv[argc++] = p;
        p += strcspn(p, " ");
        if (*p) *p++ = 0;
    }
    argv[argc] = NULL;
    const bool good = sm_options_parse(o, command, "x", argc, argv, n_args, help);
    first[0] = 0;
    if (good && *n_args) (void)snprintf(first, 64, "%s", argv[1]);
    return good;
}

static bool accepts(unsigned command, const char *line)
{
    struct sm_options o;
    int n;
    char first[64];
    bool help;
    return parse(&o, command, line, &n, first, &help);
}

static void test_sizes(void)
{
    static const struct {
        const char *text;
        uint64_t bytes;
        bool good;
    } c[] = {
        {"0", 0, true},
        {"1", 1, true},
        {"1K", 1024, true},
        {"1100M", 1153433600, true},
        {"1.5G", 1610612736, true},
        {"0.125k", 128, true},
        {"2t", (uint64_t)2 << 40, true},
        {"", 0, false},
        {"K", 0, false},
        {"-1", 0, false},
        {"+1", 0, false},
        {" 1", 0, false},
        {"1 ", 0, false},
        {"1KB", 0, false},
        {"1.5", 0, false},
        {"1.K", 0, false},
        {"1.1234K", 0, false},
        {"0x10", 0, false},
        {"1e3", 0, false},
        {"18446744073709551615", UINT64_MAX, true},
        {"18446744073709551616", 0, false},
        {"18014398509481984K", 0, false},
        {"16777216T", 0, false},
        {"16777215T", 0xffffff0000000000u, true},
    };
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        uint64_t v = 77;
        const bool good = sm_parse_size(c[i].text, &v);
        TAP_OK(good == c[i].good && v == (good ? c[i].bytes : 77), "size \"%s\"", c[i].text);
    }
}

static void test_numbers(void)
{
    int64_t n = 5;
    double x = 5;
    TAP_OK(sm_parse_int("-3", -5, 5, &n) && n == -3, "negative");
    TAP_OK(!sm_parse_int("6", -5, 5, &n) && n == -3, "above the range leaves the value alone");
    TAP_OK(!sm_parse_int("", 0, 9, &n) && !sm_parse_int("-", -9, 9, &n) &&
               !sm_parse_int(" 1", 0, 9, &n) && !sm_parse_int("1x", 0, 9, &n) &&
               !sm_parse_int("99999999999999999999", 0, INT64_MAX, &n),
           "not one whole number");
    TAP_OK(sm_parse_float("0.8", 0, 1, &x) && x > 0.79 && x < 0.81, "decimal");
    TAP_OK(!sm_parse_float("nan", 0, 1, &x) && !sm_parse_float("0x1p0", 0, 9, &x) &&
               !sm_parse_float("1,5", 0, 9, &x) && !sm_parse_float("", 0, 9, &x) &&
               !sm_parse_float("1e999", 0, 1e308, &x),
           "not one number");
}

static void test_parse(void)
{
    struct sm_options o;
    int n;
    char first[64];
    bool help;
    TAP_OK(parse(&o, SM_CMD_RUN, "m.gguf -n 5 --temp=0 --stop a --stop b --memory 1G -c 64", &n,
                 first, &help),
           "a whole line");
    TAP_OK(n == 1 && !strcmp(first, "m.gguf"), "arguments are moved to the front");
    TAP_OK(o.n_predict == 5 && o.temp <= 0 && o.n_stop == 2 && !strcmp(o.stop[1], "b") &&
               o.memory_bytes == (uint64_t)1 << 30 && o.n_ctx == 64,
           "values");
    TAP_OK(o.top_k == 40 && o.kv == SM_OPT_KV_F16 && o.seed == -1 && o.n_threads == 0, "defaults");
    TAP_OK(parse(&o, SM_CMD_RUN, "-- -n", &n, first, &help) && n == 1 && !strcmp(first, "-n"),
           "after -- everything is an argument");
    TAP_OK(parse(&o, SM_CMD_RUN, "--help --frobnicate", &n, first, &help) && help, "--help first");
    TAP_OK(parse(&o, SM_CMD_RUN, "m --kv q8_0 --flash-limit 90,150", &n, first, &help) &&
               o.kv == SM_OPT_KV_Q8_0 && o.flash_mb_s > 89 && o.flash_us > 149,
           "choice and rate");
    static const char *const bad[] = {
        "m --threads 0",      "m --threads 65",
        "m --threads two",    "m --ctx 0",
        "m --memory 0",       "m --memory 1KB",
        "m --temp -1",        "m --kv f64",
        "m --kv f3",          "m --flash-limit 0",
        "m --flash-limit 5,", "m --seed 4294967296",
        "m --seed -2",        "m -n",
        "m --frobnicate",     "m -z",
        "m --verify=yes",     "m --top-p 1.01",
        "m --text x",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        TAP_OK(!accepts(SM_CMD_RUN, bad[i]), "refused: %s", bad[i]);
    TAP_OK(accepts(SM_CMD_EVAL, "m --text x"), "an option of another command");
}

int main(int argc, char **argv)
{
    tap_init(argc, argv);
    /* the refusals below print their sentences there; tests/cli checks the wording */
    if (!freopen("/dev/null", "w", stderr)) return 1;
    test_sizes();
    test_numbers();
    test_parse();
    static const char *const names[] = {"run", "plan", "eval", "tokenize", NULL};
    TAP_IS_STR(sm_nearest("rnu", names), "run", "nearest of a swap in a short name");
    TAP_IS_STR(sm_nearest("plam", names), "plan", "nearest of a typo");
    TAP_IS_STR(sm_nearest("tok", names), "tokenize", "nearest of a beginning");
    TAP_IS_STR(sm_nearest("zebra", names), NULL, "nothing near");
    return tap_done();
}
