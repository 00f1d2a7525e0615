/* SPDX-License-Identifier: MIT */
/* Drafts: tokens guessed ahead, so that one pass over the weights can confirm several. This file
 * decides whether to guess, by which source and how far; what it decides cannot touch the text
 * (session.h). It only sees tokens and times. One thread. */
#ifndef SM_DRAFT_H
#define SM_DRAFT_H

#include <stdbool.h>
#include <stdint.h>

#define SM_DRAFT_MAX 8u /* tokens drafted at once */

enum sm_draft_mode { SM_DRAFT_OFF, SM_DRAFT_LOOKUP, SM_DRAFT_MTP, SM_DRAFT_AUTO };
/* Where a guess comes from; lookups are told apart by the length of what matched. */
enum sm_draft_source {
    SM_FROM_NEXT,         /* the model's next-token block */
    SM_FROM_LOOKUP,       /* 2 tokens matched */
    SM_FROM_LOOKUP_LONG,  /* 3 or 4 */
    SM_FROM_LOOKUP_SURE,  /* 5 and more */
    SM_FROM_ORACLE,       /* tests: right with a given probability */
    SM_FROM_COUNT
};

#define SM_DRAFT_TIMES 16u
/* The last few times of something. */
struct sm_draft_times { double ns[SM_DRAFT_TIMES]; uint32_t n; };

/* What drafts gain: the passes that were counted, and what their tokens would have taken in plain
 * steps. Counted are those with a plain step and a pass of their length measured before them, each
 * time at most twice the usual one: neither what is cold nor what the machine did meanwhile is a
 * gain or a loss of drafts. */
struct sm_draft_gain {
    struct sm_draft_times plain, next, pass[SM_DRAFT_MAX + 2];
    double plain_ns;       /* the mean of `plain`, none more than twice the usual; 0: unknown */
    double with_ns, without_ns;
    double guess_ns;       /* of guesses whose pass has not been timed yet */
    uint32_t n_passes;     /* of all kinds so far */
    uint32_t n_counted;    /* passes with drafts */
    bool counted;          /* the last pass is */
};

struct sm_draft {
    enum sm_draft_mode mode;
    bool have_next;
    /* running means, 0: nothing measured yet */
    /* share right at each depth, the earlier ones right */
    float right[SM_FROM_COUNT][SM_DRAFT_MAX];
    double pass_ns[SM_DRAFT_MAX + 2];         /* [n]: a pass over n tokens */
    uint32_t n_passes[SM_DRAFT_MAX + 2];
    double next_ns;                           /* one token from the next-token block */
    uint32_t rest, pause;  /* auto: plain steps until the next trial; length of that pause */
    bool trial;            /* the last choice was one */
    uint32_t since_plain;  /* passes since the last plain one */
    uint32_t remeasure;    /* passes with drafts before the next plain one */
    uint64_t n_plain;
    /* statistics */
    uint64_t proposed, accepted;
    struct sm_draft_gain gain;
};

void sm_draft_init(struct sm_draft *d, enum sm_draft_mode mode, bool have_next);

/* What could be proposed now. */
struct sm_draft_offer {
    uint32_t matched; /* tokens at the end of the text that an earlier place ends with; 0: none */
    uint32_t n_oracle;
    uint32_t room;              /* tokens that may still follow the next one */
};
struct sm_draft_choice { uint32_t n; enum sm_draft_source source; };
/* How many tokens to draft and from where; n == 0: a plain step. */
struct sm_draft_choice sm_draft_choose(struct sm_draft *d, const struct sm_draft_offer *o);

/* Nothing will be drafted behind the token that is being computed, nor behind the next one. */
static inline bool sm_draft_resting(const struct sm_draft *d) { return d->rest > 1; }

/* A pass over n_tok tokens took ns; it drafted n_tok - 1 of them. */
void sm_draft_timed(struct sm_draft *d, uint32_t n_tok, double ns);
/* n tokens from the next-token block took ns. */
void sm_draft_timed_next(struct sm_draft *d, uint32_t n, double ns);
/* Of a choice the first n_right tokens were right; the one behind them was seen to be wrong unless
 * the answer ended there. */
void sm_draft_result(struct sm_draft *d, struct sm_draft_choice c, uint32_t n_right, bool ended);
/* Begin anew, but what plain steps take is known: after the silent answer of the oracle. */
void sm_draft_again(struct sm_draft *d);
/* Tokens a second against what plain steps would have given; 0: unknown, as too few of one or the
 * other were taken. */
double sm_draft_gain(const struct sm_draft *d);

/* The longest earlier match (up to 16 tokens, the latest of equals) of the end of tokens[0 .. n-1]:
 * *at is the index behind it, the match's length is returned, 0 when fewer than 2 tokens match. */
uint32_t sm_draft_lookup(const int32_t *tokens, uint32_t n, uint32_t *at);

#endif
