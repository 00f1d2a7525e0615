/* SPDX-License-Identifier: MIT */
#include "plat/plat.h"

#include <stdatomic.h>

struct work {
    const struct sm_batches *b;
    unsigned side, n_items; /* of the batch that is made; the other is written */
    atomic_uint next;
};

static void work(void *arg, unsigned worker, unsigned n_workers)
{
    struct work *w = arg;
    (void)n_workers;
    if (worker == 0) w->b->write(w->b->arg, !w->side);
    for (;;) {
        const unsigned i = atomic_fetch_add(&w->next, 1);
        if (i >= w->n_items || !w->b->make(w->b->arg, w->side, i, worker)) return;
    }
}

void sm_pool_batches(struct sm_pool *p, const struct sm_batches *b)
{
    struct work w = {.b = b, .n_items = b->cut(b->arg, 0)};
    unsigned n_made = 0; /* items of the batch before */
    while (w.n_items || n_made) {
        atomic_store(&w.next, 0);
        sm_pool_run(p, work, &w);
        if (!b->go_on(b->arg)) return;
        n_made = w.n_items;
        w.side = !w.side;
        w.n_items = b->cut(b->arg, w.side);
    }
}
