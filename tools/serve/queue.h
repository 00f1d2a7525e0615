/* SPDX-License-Identifier: MIT */
/* The waiting line before the one thread that decodes. Bounded and fair between clients, and among
 * the users that a client names: of all who wait, the client that was served longest ago is next,
 * of its users likewise, and of that one's requests the oldest. When the line is full, a client
 * that has fewer requests in it than another by two or more takes the place of that one's newest;
 * else a user that of another user of the same client. Who makes up many users gains nothing over
 * other clients. No allocation, no lock: the caller holds its own. */
#ifndef SM_SERVE_QUEUE_H
#define SM_SERVE_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

#define SM_QUEUE_CLIENT_BYTES 64u
#define SM_QUEUE_USER_BYTES 32u
#define SM_QUEUE_HISTORY 64u

struct sm_queue_item {
    struct sm_queue_item *next;
    uint64_t arrival;
    char client[SM_QUEUE_CLIENT_BYTES]; /* who asks; any text */
    char user[SM_QUEUE_USER_BYTES];     /* for whom, as the client says; may be empty */
};

struct sm_queue {
    struct sm_queue_item *first; /* in order of arrival */
    unsigned n, max;
    uint64_t clock;
    struct {
        char client[SM_QUEUE_CLIENT_BYTES], user[SM_QUEUE_USER_BYTES];
        uint64_t served;
    } history[SM_QUEUE_HISTORY];
};

void sm_queue_init(struct sm_queue *q, unsigned max);
/* False: full, the item was not taken. *displaced is an item that had to leave for it, or NULL. */
bool sm_queue_push(struct sm_queue *q, struct sm_queue_item *item,
                   struct sm_queue_item **displaced);
/* The next to be served, or NULL. */
struct sm_queue_item *sm_queue_pop(struct sm_queue *q);
/* Take an item out; false when it is not in the line. */
bool sm_queue_remove(struct sm_queue *q, struct sm_queue_item *item);

#endif
