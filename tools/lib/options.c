/* SPDX-License-Identifier: MIT */
#include "options_table.h"

#include <getopt.h>
#include <string.h>

enum { HELP = 1000, FIRST = 1001 }; /* getopt values: FIRST + index in the table */

static void *field(struct sm_options *o, const struct sm_option *t) { return (char *)o + t->at; }

void sm_options_default(struct sm_options *o)
{
    memset(o, 0, sizeof *o);
    for (unsigned i = 0; i < sm_option_count; i++) {
        const struct sm_option *t = &sm_option_table[i];
        switch (t->kind) {
        case SM_OPTION_I32: *(int32_t *)field(o, t) = (int32_t)t->start; break;
        case SM_OPTION_I64: *(int64_t *)field(o, t) = (int64_t)t->start; break;
        case SM_OPTION_COUNT: *(uint32_t *)field(o, t) = (uint32_t)t->start; break;
        case SM_OPTION_FLOAT: *(float *)field(o, t) = (float)t->start; break;
        case SM_OPTION_CHOICE: *(int *)field(o, t) = (int)t->start; break;
        case SM_OPTION_FLAG:
        case SM_OPTION_TEXT:
        case SM_OPTION_TEXTS:
        case SM_OPTION_SIZE:
        case SM_OPTION_RATE:
        case SM_OPTION_PAIR:
        case SM_OPTION_PAIR_R: break; /* zero */
        }
    }
}

/* Index of `value` in "a|b|c", -1 when it is not there. */
static int choice_of(const char *choices, const char *value)
{
    const size_t n = strlen(value);
    for (int i = 0; *choices; i++) {
        const size_t len = strcspn(choices, "|");
        if (n == len && !memcmp(choices, value, n)) return i;
        choices += len + (choices[len] == '|');
    }
    return -1;
}

static bool set_rate(struct sm_options *o, const char *value)
{
    char head[32];
    const size_t n = strcspn(value, ",");
    if (n >= sizeof head) return false;
    memcpy(head, value, n);
    head[n] = 0;
    if (!sm_parse_float(head, 0.001, 1e6, &o->flash_mb_s)) return false;
    o->flash_us = 0;
    return !value[n] || sm_parse_float(value + n + 1, 0, 1e7, &o->flash_us);
}

/* "X[r][,J]" */
static bool set_pair(struct sm_option_pair *p, const struct sm_option *t, const char *value)
{
    char number[32];
    const size_t n = strcspn(value, ",");
    const bool range = t->kind == SM_OPTION_PAIR_R && n && value[n - 1] == 'r';
    double x = 0;
    int64_t keep = 0;
    if (n >= sizeof number) return false;
    memcpy(number, value, n);
    number[n - range] = 0;
    if (!sm_parse_float(number, t->lo, t->hi, &x)) return false;
    if (value[n] && !sm_parse_int(value + n + 1, 0, 64, &keep)) return false;
    *p = (struct sm_option_pair){(float)x, (uint32_t)keep, range};
    return true;
}

/* Store a value; false when it is not one. */
static bool set_value(struct sm_options *o, const struct sm_option *t, const char *value)
{
    int64_t n = 0;
    double x = 0;
    switch (t->kind) {
    case SM_OPTION_FLAG: *(bool *)field(o, t) = true; return true;
    case SM_OPTION_TEXT: *(const char **)field(o, t) = value; return true;
    case SM_OPTION_TEXTS:
        if (o->n_stop == SM_STOP_MAX || !*value) return false;
        o->stop[o->n_stop++] = value;
        return true;
    case SM_OPTION_I32:
    case SM_OPTION_I64:
    case SM_OPTION_COUNT:
        if (!sm_parse_int(value, (int64_t)t->lo, (int64_t)t->hi, &n)) return false;
        if (t->kind == SM_OPTION_I64) *(int64_t *)field(o, t) = n;
        else if (t->kind == SM_OPTION_I32) *(int32_t *)field(o, t) = (int32_t)n;
        else *(uint32_t *)field(o, t) = (uint32_t)n;
        return true;
    case SM_OPTION_SIZE: {
        uint64_t bytes;
        if (!sm_parse_size(value, &bytes) || !bytes) return false;
        *(uint64_t *)field(o, t) = bytes;
        return true;
    }
    case SM_OPTION_FLOAT:
        if (!sm_parse_float(value, t->lo, t->hi, &x)) return false;
        *(float *)field(o, t) = (float)x;
        return true;
    case SM_OPTION_CHOICE: {
        const int c = choice_of(t->choices, value);
        if (c < 0) return false;
        *(int *)field(o, t) = c;
        return true;
    }
    case SM_OPTION_RATE: return set_rate(o, value);
    case SM_OPTION_PAIR:
    case SM_OPTION_PAIR_R: return set_pair(field(o, t), t, value);
    }
    return false;
}

/* "smol run: --threads 0: expected ..." */
static void complain_value(const char *name, const struct sm_option *t, const char *value)
{
    fprintf(stderr, "smol %s: --%s \"%s\": expected ", name, t->name, value);
    switch (t->kind) {
    case SM_OPTION_I32:
    case SM_OPTION_I64:
    case SM_OPTION_COUNT:
        fprintf(stderr, "a whole number from %.0f to %.0f\n", t->lo, t->hi);
        break;
    case SM_OPTION_FLOAT: fprintf(stderr, "a number from %g to %g\n", t->lo, t->hi); break;
    case SM_OPTION_SIZE: fprintf(stderr, "a size such as 800M or 1.5G (powers of 1024)\n"); break;
    case SM_OPTION_CHOICE: fprintf(stderr, "one of %s\n", t->choices); break;
    case SM_OPTION_PAIR:
    case SM_OPTION_PAIR_R:
        fprintf(stderr,
                "a number from %g to %g, then perhaps %sa comma and a whole number from 0 to 64\n",
                t->lo, t->hi, t->kind == SM_OPTION_PAIR_R ? "an r, " : "");
        break;
    case SM_OPTION_RATE: fprintf(stderr, "MB/s or MB/s,microseconds, such as 90,150\n"); break;
    case SM_OPTION_TEXTS:
        fprintf(stderr, "a text of at least one byte, at most %d times\n", SM_STOP_MAX);
        break;
    case SM_OPTION_FLAG:
    case SM_OPTION_TEXT: fprintf(stderr, "a text\n"); break;
    }
}

/* "smol run: unknown option --thraeds, did you mean --threads?" `word` as typed. */
static void complain_unknown(unsigned command, const char *name, const char *word)
{
    const char *names[SM_OPTION_MAX + 1];
    unsigned n = 0;
    char typed[64];
    const bool is_long = !strncmp(word, "--", 2);
    (void)snprintf(typed, sizeof typed, "%.*s", (int)strcspn(word, "="), word);
    for (unsigned i = 0; i < sm_option_count; i++)
        if (sm_option_table[i].commands & command) names[n++] = sm_option_table[i].name;
    names[n] = NULL;
    const char *near = is_long ? sm_nearest(typed + 2, names) : NULL;
    if (near)
        fprintf(stderr, "smol %s: unknown option %s, did you mean --%s?\n", name, typed, near);
    else
        fprintf(stderr, "smol %s: unknown option %s; smol help %s lists them\n", name, typed, name);
}

/* The getopt tables of one command. */
struct getopt_tables {
    struct option longs[SM_OPTION_MAX + 2];
    char shorts[2 + SM_OPTION_MAX * 2 + 1];
};

static void build_tables(struct getopt_tables *g, unsigned command)
{
    unsigned n = 0, s = 0;
    memset(g, 0, sizeof *g);
    g->shorts[s++] = ':'; /* a missing value is ':', not '?' */
    g->shorts[s++] = 'h';
    for (unsigned i = 0; i < sm_option_count; i++) {
        const struct sm_option *t = &sm_option_table[i];
        const int has_value = t->kind != SM_OPTION_FLAG;
        if (!(t->commands & command)) continue;
        g->longs[n++] = (struct option){t->name, has_value, NULL, FIRST + (int)i};
        if (t->letter) {
            g->shorts[s++] = t->letter;
            if (has_value) g->shorts[s++] = ':';
        }
    }
    g->longs[n] = (struct option){"help", 0, NULL, HELP};
}

static const struct sm_option *by_letter(unsigned command, int letter)
{
    for (unsigned i = 0; i < sm_option_count; i++)
        if (sm_option_table[i].letter == letter && (sm_option_table[i].commands & command))
            return &sm_option_table[i];
    return NULL;
}

/* getopt refused argv[optind - 1] (or a letter inside it): say why. */
static void complain_getopt(int found, unsigned command, const char *name, char **argv)
{
    const char *word = argv[optind - 1];
    char letter[3] = {'-', (char)optopt, 0};
    const bool is_letter =
        found != HELP && optopt > 0 && optopt < HELP && strncmp(word, "--", 2) != 0;
    if (found == ':')
        fprintf(stderr, "smol %s: option %s needs a value\n", name, is_letter ? letter : word);
    else if (found == '?' && optopt >= HELP) /* a flag with "=value" */
        fprintf(stderr, "smol %s: option %.*s takes no value\n", name, (int)strcspn(word, "="),
                word);
    else complain_unknown(command, name, is_letter ? letter : word);
}

/* getopt_long takes any unambiguous beginning of a name; a script that used one would change its
 * meaning with the next option. The word as typed when the long option just found is such a
 * beginning, else NULL. */
static const char *abbreviated(const char *name, char **argv)
{
    const char *word = argv[optind - 1];
    const size_t n = strlen(name);
    if (optarg == word) word = argv[optind - 2]; /* "--name value": two words */
    if (!strncmp(word, "--", 2) && !strncmp(word + 2, name, n) &&
        (!word[n + 2] || word[n + 2] == '='))
        return NULL;
    return word;
}

bool sm_options_parse(struct sm_options *o, unsigned command, const char *name, int argc,
                      char **argv, int *n_args, bool *help)
{
    struct getopt_tables g;
    bool no_drafts = false; /* said, not only the default */
    build_tables(&g, command);
    sm_options_default(o);
    *n_args = 0;
    *help = false;
    opterr = 0;
    optind = 0; /* GNU: start afresh, also on a second call */
    for (int c; (c = getopt_long(argc, argv, g.shorts, g.longs, NULL)) != -1;) {
        if (c == 'h' || (c == HELP && !abbreviated("help", argv))) {
            *help = true;
            return true;
        }
        if (c == '?' || c == ':' || c == HELP) {
            complain_getopt(c, command, name, argv);
            return false;
        }
        const struct sm_option *t =
            c >= FIRST ? &sm_option_table[c - FIRST] : by_letter(command, c);
        if (!t) return false;
        if (c >= FIRST && abbreviated(t->name, argv)) {
            complain_unknown(command, name, abbreviated(t->name, argv));
            return false;
        }
        if (!set_value(o, t, optarg)) {
            complain_value(name, t, optarg);
            return false;
        }
        if (t->at == offsetof(struct sm_options, draft)) no_drafts = o->draft == SM_OPT_DRAFT_OFF;
    }
    if (no_drafts && o->draft_oracle > 0) {
        fprintf(stderr, "smol %s: --draft off and --draft-oracle: use one or the other\n", name);
        return false;
    }
    for (; optind < argc; optind++) argv[++*n_args] = argv[optind];
    return true;
}
