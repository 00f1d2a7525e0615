/* SPDX-License-Identifier: MIT */
/* What the drafting policy decides from times and results: lookups, length of drafts, switching
 * itself off and trying again. */
#include "infer/draft.h"
#include "tap.h"

#include <string.h>

static void check_lookup(void)
{
    static const int32_t none[] = {1, 2, 3, 4, 5, 6};
    static const int32_t two[] = {7, 8, 9, 1, 2, 7, 8};
    static const int32_t longer[] = {5, 1, 2, 3, 9, 4, 2, 3, 8, 1, 2, 3};
    static const int32_t loop[] = {4, 5, 6, 4, 5, 6, 4, 5, 6};
    static const int32_t latest[] = {1, 2, 3, 1, 2, 4, 1, 2};
    uint32_t at = 0;
    TAP_OK(sm_draft_lookup(none, 6, &at) == 0, "no repeat, no match");
    TAP_OK(sm_draft_lookup(none, 1, &at) == 0 && sm_draft_lookup(none, 0, &at) == 0,
           "nothing to look in");
    TAP_OK(sm_draft_lookup(two, 7, &at) == 2 && at == 2, "two tokens match");
    TAP_OK(sm_draft_lookup(longer, 12, &at) == 3 && at == 4,
           "the longer match wins over the later");
    TAP_OK(sm_draft_lookup(loop, 9, &at) == 6 && at == 6, "a loop matches itself");
    TAP_OK(sm_draft_lookup(latest, 8, &at) == 2 && at == 5, "of equal matches the latest");
}

/* n passes of a device where a pass over k tokens takes first + (k - 1) * further, and a draft from
 * the next-token block `guess`; drafts are right with probability p. Returns tokens per time
 * against plain steps. */
struct device { double first, further, guess, p; };

static double simulate(struct sm_draft *d, const struct device *v, const struct sm_draft_offer *o,
                       size_t n)
{
    double time = 0, tokens = 0;
    for (size_t i = 0; i < n; i++) {
        const struct sm_draft_choice c = sm_draft_choose(d, o);
        uint32_t right = 0;
        if (c.n && c.source == SM_FROM_NEXT) {
            sm_draft_timed_next(d, c.n, c.n * v->guess);
            time += c.n * v->guess;
        }
        while (right < c.n && tap_random_float(0, 1) < (float)v->p) right++;
        sm_draft_timed(d, c.n + 1, v->first + c.n * v->further);
        if (c.n) sm_draft_result(d, c, right, false);
        time += v->first + c.n * v->further;
        tokens += 1 + right;
    }
    return tokens / time * v->first;
}

static void check_auto(void)
{
    const struct sm_draft_offer o = {.room = 100};
    struct sm_draft d;
    const struct device flash = {6e9, 1e7, 2e7, 0.7};
    sm_draft_init(&d, SM_DRAFT_AUTO, true);
    const double streamed = simulate(&d, &flash, &o, 300);
    TAP_OK(streamed > 2.5, "a sweep of the flash for each pass: %.2f times as fast", streamed);
    TAP_OK(sm_draft_gain(&d) > streamed * 0.9 && sm_draft_gain(&d) < streamed * 1.1,
           "the gain is known (%.2f)", sm_draft_gain(&d));
    const struct device paged = {1e6, 9e5, 3e5, 0.7};
    sm_draft_init(&d, SM_DRAFT_AUTO, true);
    const double moe = simulate(&d, &paged, &o, 4000);
    TAP_OK(moe > 0.97, "where each further token costs almost a pass: %.3f", moe);
    const struct device later = {1e6, 5e4, 1e4, 0.9};
    const double again = simulate(&d, &later, &o, 4000);
    TAP_OK(again > 1.5, "when it begins to pay it is found out: %.2f", again);
    const struct device wrong = {1e6, 3e5, 1e5, 0.02};
    sm_draft_init(&d, SM_DRAFT_AUTO, true);
    const double useless = simulate(&d, &wrong, &o, 4000);
    TAP_OK(useless > 0.97, "drafts that are hardly ever right: %.3f", useless);
}

/* One pass with n drafts, `right` of them right. */
static void pass(struct sm_draft *d, uint32_t n, uint32_t right, double ns)
{
    const struct sm_draft_choice c = {n, SM_FROM_LOOKUP};
    sm_draft_timed(d, n + 1, ns);
    if (n) sm_draft_result(d, c, right, false);
}

/* The gain is told when both were measured, warm, and by neither the machine's pauses nor what was
 * cold. */
static void check_gain(void)
{
    const struct device flash = {1e6, 2e5, 1e5, 0.8};
    const struct sm_draft_offer o = {.room = 100};
    struct sm_draft d;
    sm_draft_init(&d, SM_DRAFT_LOOKUP, false);
    for (unsigned i = 0; i < 40; i++) pass(&d, 2, 2, 1e6);
    TAP_OK(sm_draft_gain(&d) <= 0, "no plain step was measured");
    sm_draft_init(&d, SM_DRAFT_LOOKUP, false);
    for (unsigned i = 0; i < 40; i++) pass(&d, 0, 0, 1e6);
    TAP_OK(sm_draft_gain(&d) <= 0, "no pass with drafts was");
    sm_draft_init(&d, SM_DRAFT_AUTO, false);
    for (unsigned i = 0; i < 4; i++) pass(&d, 0, 0, i < 2 ? 5e7 : 1e6); /* cold ones first */
    pass(&d, 1, 0, 5e7);                                                /* the first of its kind */
    for (unsigned i = 0; i < 100; i++) pass(&d, i % 2, 0, i % 20 / 2 == 5 ? 2e7 : 1e6);
    TAP_OK(sm_draft_gain(&d) > 0.9 && sm_draft_gain(&d) < 1.1,
           "drafts of no use and no cost, with pauses: %.3f", sm_draft_gain(&d));
    for (unsigned i = 0; i < 1000; i++) pass(&d, i % 16 ? 2 : 0, 2, i % 16 ? 1.5e6 : 1e6);
    TAP_OK(sm_draft_gain(&d) > 1.7 && sm_draft_gain(&d) < 2.0, "three tokens in 1.5 times: %.3f",
           sm_draft_gain(&d));
    sm_draft_again(&d);
    TAP_OK(sm_draft_gain(&d) <= 0, "nothing is left of it when it begins anew");
    for (unsigned i = 0; i < 10; i++) pass(&d, 2, 2, 1.5e6);
    TAP_OK(sm_draft_gain(&d) > 1.9 && sm_draft_gain(&d) < 2.1,
           "but what a plain step takes: %.3f", sm_draft_gain(&d));
    sm_draft_init(&d, SM_DRAFT_MTP, true);
    const double real = simulate(&d, &flash, &o, 200);
    TAP_OK(sm_draft_gain(&d) > 0.95 * real && sm_draft_gain(&d) < 1.05 * real,
           "the block alone: plain steps between its passes tell %.2f, it is %.2f",
           sm_draft_gain(&d), real);
    TAP_OK(d.n_plain >= 3 && d.n_plain <= 5, "which are %u of 200", (unsigned)d.n_plain);
}

static void check_modes(void)
{
    struct sm_draft_offer o = {.room = 100, .matched = 6};
    struct sm_draft d;
    struct sm_draft_choice c;
    sm_draft_init(&d, SM_DRAFT_OFF, true);
    TAP_OK(sm_draft_choose(&d, &o).n == 0, "off: no drafts");
    sm_draft_init(&d, SM_DRAFT_LOOKUP, true);
    c = sm_draft_choose(&d, &o);
    TAP_OK(c.n > 0 && c.source == SM_FROM_LOOKUP_SURE, "lookup: from the text");
    sm_draft_init(&d, SM_DRAFT_MTP, true);
    c = sm_draft_choose(&d, &o);
    TAP_OK(c.n > 0 && c.source == SM_FROM_NEXT, "mtp: from the block");
    o.room = 2;
    TAP_OK(sm_draft_choose(&d, &o).n <= 2, "never more than there is room for");
    o.room = 0;
    TAP_OK(sm_draft_choose(&d, &o).n == 0, "no room, no draft");
    o = (struct sm_draft_offer){.room = 100, .n_oracle = 3};
    sm_draft_init(&d, SM_DRAFT_OFF, false);
    c = sm_draft_choose(&d, &o);
    TAP_OK(c.n > 0 && c.n <= 3 && c.source == SM_FROM_ORACLE,
           "the oracle of the tests comes first");
}

int main(int argc, char **argv)
{
    tap_init(argc, argv);
    check_lookup();
    check_modes();
    check_auto();
    check_gain();
    return tap_done();
}
