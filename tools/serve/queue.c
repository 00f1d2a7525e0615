/* SPDX-License-Identifier: MIT */
#include "queue.h"

#include <stddef.h>
#include <string.h>

void sm_queue_init(struct sm_queue *q, unsigned max)
{
    memset(q, 0, sizeof *q);
    q->max = max;
}

/* Of this client; of this one of its users unless user is NULL. */
static bool is_of(const char *item_client, const char *item_user, const char *client,
                  const char *user)
{
    return !strcmp(item_client, client) && (!user || !strcmp(item_user, user));
}

/* Items of a client; of one of its users unless user is NULL. */
static unsigned count(const struct sm_queue *q, const char *client, const char *user)
{
    unsigned n = 0;
    for (const struct sm_queue_item *i = q->first; i; i = i->next)
        n += is_of(i->client, i->user, client, user);
    return n;
}

/* The newest item of the client that has most in the line, or, when `client` is given, of the user
 * of that client that has most. */
static struct sm_queue_item *newest_of_greediest(const struct sm_queue *q, const char *client,
                                                 unsigned *most)
{
    struct sm_queue_item *found = NULL;
    *most = 0;
    for (struct sm_queue_item *i = q->first; i; i = i->next) {
        if (client && strcmp(i->client, client) != 0) continue;
        const unsigned n = count(q, i->client, client ? i->user : NULL);
        if (n < *most) continue;
        *most = n;
        found = i; /* later ones of the same come later in the list */
    }
    return found;
}

/* Whose place a new item may take; NULL: nobody's. */
static struct sm_queue_item *victim_of(const struct sm_queue *q, const struct sm_queue_item *item)
{
    unsigned most;
    const struct sm_queue_item *greedy = newest_of_greediest(q, NULL, &most);
    if (!greedy) return NULL;
    if (most >= count(q, item->client, NULL) + 2)
        return newest_of_greediest(q, greedy->client, &most);
    struct sm_queue_item *other = newest_of_greediest(q, item->client, &most);
    return other && most >= count(q, item->client, item->user) + 2 ? other : NULL;
}

bool sm_queue_push(struct sm_queue *q, struct sm_queue_item *item, struct sm_queue_item **displaced)
{
    *displaced = NULL;
    if (q->n >= q->max) {
        struct sm_queue_item *victim = victim_of(q, item);
        if (!victim) return false;
        (void)sm_queue_remove(q, victim);
        *displaced = victim;
    }
    struct sm_queue_item **at = &q->first;
    while (*at) at = &(*at)->next;
    item->next = NULL;
    item->arrival = ++q->clock;
    *at = item;
    q->n++;
    return true;
}

/* When a client, or one of its users unless user is NULL, was served; 0: not for a long time. */
static uint64_t last_served(const struct sm_queue *q, const char *client, const char *user)
{
    uint64_t last = 0;
    for (unsigned i = 0; i < SM_QUEUE_HISTORY; i++)
        if (q->history[i].served > last &&
            is_of(q->history[i].client, q->history[i].user, client, user))
            last = q->history[i].served;
    return last;
}

static void note_served(struct sm_queue *q, const struct sm_queue_item *item)
{
    unsigned at = 0;
    for (unsigned i = 0; i < SM_QUEUE_HISTORY; i++) {
        if (q->history[i].served &&
            is_of(q->history[i].client, q->history[i].user, item->client, item->user)) {
            at = i;
            break;
        }
        if (q->history[i].served < q->history[at].served) at = i;
    }
    memcpy(q->history[at].client, item->client, sizeof item->client);
    memcpy(q->history[at].user, item->user, sizeof item->user);
    q->history[at].served = ++q->clock;
}

struct sm_queue_item *sm_queue_pop(struct sm_queue *q)
{
    struct sm_queue_item *best = NULL;
    uint64_t best_client = 0, best_user = 0;
    for (struct sm_queue_item *i = q->first; i; i = i->next) {
        const uint64_t client = last_served(q, i->client, NULL);
        const uint64_t user = last_served(q, i->client, i->user);
        if (best && (client > best_client || (client == best_client && user >= best_user)))
            continue;
        best = i;
        best_client = client;
        best_user = user;
    }
    if (!best) return NULL;
    (void)sm_queue_remove(q, best);
    note_served(q, best);
    return best;
}

bool sm_queue_remove(struct sm_queue *q, struct sm_queue_item *item)
{
    for (struct sm_queue_item **at = &q->first; *at; at = &(*at)->next) {
        if (*at != item) continue;
        *at = item->next;
        item->next = NULL;
        q->n--;
        return true;
    }
    return false;
}
