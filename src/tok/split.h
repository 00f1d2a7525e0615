/* SPDX-License-Identifier: MIT */
/* Split rules of byte-level BPE: they cut a text into pieces that are merged each by itself.
 *
 * A rule is a list of passes. A pass cuts every piece that the passes before it left: its matches
 * become pieces, and so do the gaps between them. Matches are found from left to right like those
 * of a Perl regular expression (first alternative that fits, greedy); the patterns stand in
 * split_rules.c beside each rule. Constant tables, any thread. */
#ifndef SM_TOK_SPLIT_H
#define SM_TOK_SPLIT_H

#include "tok/unicode.h"

#define SM_SPLIT_MAX_PASSES 6

struct sm_split_pass;
/* Length of the match that starts at p, 0: none. p < end; the text is valid (sm_utf8_valid). */
typedef size_t (*sm_split_match)(const struct sm_split_pass *pass, const uint8_t *p,
                                 const uint8_t *end);

struct sm_range {
    uint32_t lo, hi;
};

/* The parameters have the meaning that the pass's function gives them. */
struct sm_split_pass {
    sm_split_match match;         /* NULL: white space at the end of the piece */
    bool contractions;            /* 's 't 're 've 'm 'll 'd in any case are matches */
    bool cased;                   /* words are cut where case changes */
    bool tail_contractions;       /* a cased word takes the contraction behind it */
    bool space;                   /* one white space may come first */
    uint8_t word;                 /* classes of a word */
    uint8_t set;                  /* classes of a run */
    uint8_t max;                  /* longest run in characters, 0: any */
    char line_ends;               /* taken behind symbols: 0 none, 'n' \r \n, '/' \r \n and / */
    const struct sm_range *range; /* a run of points in ranges, ended by {0, 0} */
};

struct sm_split_rule {
    bool whole;   /* a piece that is a token is that token, without merging */
    bool add_bos; /* default of tokenizer.ggml.add_bos_token */
    uint8_t n_pass;
    struct sm_split_pass pass[SM_SPLIT_MAX_PASSES];
};

size_t sm_split_match_gpt2(const struct sm_split_pass *s, const uint8_t *p, const uint8_t *end);
size_t sm_split_match_words(const struct sm_split_pass *s, const uint8_t *p, const uint8_t *end);
size_t sm_split_match_deepseek(const struct sm_split_pass *s, const uint8_t *p, const uint8_t *end);
size_t sm_split_match_run(const struct sm_split_pass *s, const uint8_t *p, const uint8_t *end);
size_t sm_split_match_signs(const struct sm_split_pass *s, const uint8_t *p, const uint8_t *end);
size_t sm_split_match_ranges(const struct sm_split_pass *s, const uint8_t *p, const uint8_t *end);

/* The rule that a name or alias of n bytes means, NULL: not known. *known: the name, static. */
const struct sm_split_rule *sm_split_find(const char *name, size_t n, const char **known);
/* The i-th name or alias, for lists and tests; NULL after the last. */
const char *sm_split_name(size_t i);

/* Cut text[0 .. n-1]; piece(arg, ...) is called for each, in order; the pieces together are the
 * text. A piece that returns false stops it; then false is returned. */
typedef bool (*sm_split_piece)(void *arg, const uint8_t *p, size_t n);
bool sm_split_text(const struct sm_split_rule *rule, const uint8_t *text, size_t n,
                   sm_split_piece piece, void *arg);

#endif
