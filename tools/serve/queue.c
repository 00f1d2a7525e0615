/* SPDX-License-Identifier: MIT */
#include "queue.h"

#include <stddef.h>
#include <string.h>

void sm_queue_init(struct sm_queue *q, unsigned max)
{
    memset(q, 0, sizeof *q);
    q->max = max;
}

static unsigned count(const struct sm_queue *q, const char *client)
{
    unsigned n = 0;
    for (const struct sm_queue_item *i = q->first; i; i = i->next) n += !strcmp(i->client, client);
    return n;
}

/* The newest item of the client that has most in the line. */
static struct sm_queue_item *newest_of_greediest(const struct sm_queue *q, unsigned *most)
{
    struct sm_queue_item *found = NULL;
    *most = 0;
    for (struct sm_queue_item *i = q->first; i; i = i->next) {
        const unsigned n = count(q, i->client);
        if (n < *most) continue;
        *most = n;
        found = i; /* later ones of the same client come later in the list */
    }
    return found;
}

bool sm_queue_push(struct sm_queue *q, struct sm_queue_item *item, struct sm_queue_item **displaced)
{
    *displaced = NULL;
    if (q->n >= q->max) {
        unsigned most;
        struct sm_queue_item *victim = newest_of_greediest(q, &most);
        if (!victim || most < count(q, item->client) + 2) return false;
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

static uint64_t last_served(const struct sm_queue *q, const char *client)
{
    for (unsigned i = 0; i < SM_QUEUE_HISTORY; i++)
        if (q->history[i].served && !strcmp(q->history[i].client, client))
            return q->history[i].served;
    return 0; /* not for a long time */
}

static void note_served(struct sm_queue *q, const char *client)
{
    unsigned at = 0;
    for (unsigned i = 0; i < SM_QUEUE_HISTORY; i++) {
        if (q->history[i].served && !strcmp(q->history[i].client, client)) {
            at = i;
            break;
        }
        if (q->history[i].served < q->history[at].served) at = i;
    }
    memcpy(q->history[at].client, client, strlen(client) + 1);
    q->history[at].served = ++q->clock;
}

struct sm_queue_item *sm_queue_pop(struct sm_queue *q)
{
    struct sm_queue_item *best = NULL;
    uint64_t best_served = 0;
    for (struct sm_queue_item *i = q->first; i; i = i->next) {
        const uint64_t served = last_served(q, i->client);
        if (best && served >= best_served) continue;
        best = i;
        best_served = served;
    }
    if (!best) return NULL;
    (void)sm_queue_remove(q, best);
    note_served(q, best->client);
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
