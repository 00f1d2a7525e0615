/* SPDX-License-Identifier: MIT */
/* What predictions are worth: by distance, rank and what memory says, and all of them together. */
#include "graph/prefetch_int.h"
#include "store/pager.h"

#define DECAY 0.02f       /* of a share, per candidate seen */
/* a wrong read on a busy flash hurts twice as much as a right one helps */
#define WRONG_COST 2.0f
#define WORTH_MIN 0.4f
/* tokens after which a distance that is not worth it is looked at again */
#define LOOK_EVERY 16u
#define FAR_GAIN 0.25f    /* of the time waited for reads, what one more distance saves at best */
#define NARROW_BUSY 0.6f  /* share of the time from which on speculation takes one reader */
#define WATCH_EVERY 4u    /* tokens between looks at the flash */
#define JUDGE_EVERY 32u   /* tokens between judgements of the whole */
#define PAUSE_FIRST 128u
#define PAUSE_MAX 4096u

void sm_prefetch_judge_init(struct sm_prefetch *a)
{
    /* Counted on the trained tiny-moe with 12 of 32 experts in a pool: a missing candidate of the
     * next layer's router is right in 74 % of the cases, in 89 % when the token had it when it was
     * last seen and in 43 % when it had not. What it had twice is right in 91 to 75 % of the cases,
     * from the first layer to the last, what it had once in 42 to 31 %. */
    static const float by_word[SM_RECALL_WORDS] = {0.75f, 0.45f, 0.9f};
    for (unsigned row = 0; row < 2 * SM_PREFETCH_MAX; row++)
        for (unsigned w = 0; w < SM_RECALL_WORDS; w++)
            for (unsigned r = 0; r < SM_PREFETCH_RANKS; r++)
                a->worth[row][w][r] = by_word[w] - 0.1f * (float)(row % SM_PREFETCH_MAX +
                                                                  row / SM_PREFETCH_MAX);
    for (uint32_t l = 0; l < a->n_layers; l++) {
        a->recall_worth[l][0] = 0.4f;
        a->recall_worth[l][1] = 0.85f;
    }
    a->refuted_worth[0] = 0.25f;
    a->refuted_worth[1] = 0.4f;
    a->off_tokens = PAUSE_FIRST;
    a->waits = 1;
    a->far_pays = true;
}

/* A wrong read delays others while the flash is busy, and always costs the expert that made room:
 * on tiny-moe with 16 slots, reading whatever was likely at all (20 %) made 35 % more reads
 * necessary. Beyond the next layer a read can only win the time in which the flash would rest: on
 * one that never does it changes the order of reads and adds the wrong ones. */
float sm_prefetch_least(const struct sm_prefetch *a, bool far)
{
    const float cost = WRONG_COST * a->busy;
    float least = cost / (1 + cost);
    if (far && least < a->busy) least = a->busy;
    return least > WORTH_MIN ? least : WORTH_MIN;
}

bool sm_prefetch_pays(const struct sm_prefetch *a, uint32_t d, uint32_t row, uint32_t k)
{
    if (a->depth != SM_PREFETCH_AUTO) return d < a->depth;
    if (a->n_tokens % LOOK_EVERY == 0) return true;
    if (d && !a->far_pays) return false;
    const float least = sm_prefetch_least(a, d > 0);
    for (unsigned w = 0; w < SM_RECALL_WORDS; w++) {
        if ((w != SM_RECALL_UNKNOWN) != (a->place >= 0)) continue;
        for (uint32_t r = 0; r < k && r < SM_PREFETCH_RANKS; r++)
            if (a->worth[row][w][r] >= least) return true;
    }
    return false;
}

static void add_to(float *share, bool used) { *share += DECAY * ((used ? 1.0f : 0.0f) - *share); }

void sm_prefetch_learn(struct sm_prefetch *a, uint32_t pool, const uint16_t *ids, uint32_t k)
{
    for (uint32_t d = 0; d <= SM_PREFETCH_MAX; d++) {
        struct sm_prefetch_guess *q = sm_prefetch_guess_of(a, pool, d);
        for (uint32_t r = 0; r < q->n; r++) {
            const bool used = sm_ids_have(ids, k, q->id[r]);
            if (!q->missing[r]) continue;
            if (d < SM_PREFETCH_RECALL) add_to(&a->worth[q->row][q->word[r]][r], used);
            else add_to(&a->recall_worth[pool][q->word[r]], used);
            if (q->refuted[r]) add_to(&a->refuted_worth[q->word[r]], used);
        }
        q->n = 0;
    }
}

/* Since the last call: how busy the flash was, for how much of the time compute waited for it, and
 * whether that is so much that looking farther than one layer can be worth its time. */
static void watch(struct sm_prefetch *a, const struct sm_store_stats *st)
{
    const uint64_t now = sm_now_ns();
    if (a->then.ns && now > a->then.ns && st->flash_busy_ns >= a->then.busy_ns &&
        st->demand_wait_ns >= a->then.wait_ns) {
        const float time = (float)(now - a->then.ns);
        a->busy += 0.25f * ((float)(st->flash_busy_ns - a->then.busy_ns) / time - a->busy);
        a->waits += 0.25f * ((float)(st->demand_wait_ns - a->then.wait_ns) / time - a->waits);
        if (a->n_looks) { /* the share of the time that one more distance would take */
            const float tokens = (float)(a->n_tokens - a->then.token);
            const float look = (float)a->ns_looks / (float)a->n_looks * (float)a->n_layers *
                               tokens / time;
            a->look += 0.25f * (look - a->look);
            a->far_pays = FAR_GAIN * a->waits > a->look;
        }
    }
    a->then.token = a->n_tokens;
    a->then.ns = now;
    a->then.busy_ns = st->flash_busy_ns;
    a->then.wait_ns = st->demand_wait_ns;
    a->ns_looks = a->n_looks = 0;
}

/* What one byte takes, times the bytes that came in time, against the time spent on predicting and
 * on wrong reads. Generous to looking ahead: it pauses only when it has clearly lost. */
static void judge(struct sm_prefetch *a, const struct sm_store *s, const struct sm_store_stats *st)
{
    const bool known = a->from.ns && st->flash_busy_ns >= a->from.busy_ns &&
                       st->prefetch_used >= a->from.used;
    if (known) {
        const double per_byte =
            st->bytes_read ? (double)st->flash_busy_ns / (double)st->bytes_read : 0;
        const double used = (double)(st->prefetch_used - a->from.used) *
                            (double)sm_store_pool(s, 0)->expert_file_bytes;
        const double wasted = st->prefetch_wasted_bytes > a->from.wasted
                                  ? (double)(st->prefetch_wasted_bytes - a->from.wasted) : 0;
        if (used * per_byte < (double)a->ns_spent + wasted * per_byte * (double)a->busy) {
            a->off_until = a->n_tokens + a->off_tokens;
            if (a->off_tokens < PAUSE_MAX) a->off_tokens *= 2;
        } else {
            a->off_tokens = PAUSE_FIRST;
        }
    }
    a->from.ns = sm_now_ns();
    a->from.busy_ns = st->flash_busy_ns;
    a->from.used = st->prefetch_used;
    a->from.wasted = st->prefetch_wasted_bytes;
    a->ns_spent = 0;
}

bool sm_prefetch_is_on(const struct sm_prefetch *a)
{
    return a->depth != SM_PREFETCH_AUTO || a->n_tokens >= a->off_until;
}

/* What a flash that never rests reads ahead is read instead of something else, so one read at a
 * time may be wrong. */
void sm_prefetch_narrow(const struct sm_prefetch *a, struct sm_store *s)
{
    sm_pager_narrow(s, a->busy > NARROW_BUSY);
}

void sm_prefetch_consider(struct sm_prefetch *a, struct sm_store *s)
{
    struct sm_store_stats st;
    if (a->depth != SM_PREFETCH_AUTO || !sm_prefetch_is_on(a) || a->n_tokens % WATCH_EVERY) return;
    sm_store_stats(s, &st);
    watch(a, &st);
    sm_prefetch_narrow(a, s);
    if (a->n_tokens % JUDGE_EVERY == 0) judge(a, s, &st);
}

