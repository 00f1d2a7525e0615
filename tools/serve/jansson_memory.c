/* SPDX-License-Identifier: MIT */
#include "jansson_memory.h"

#include <jansson.h>
#include <stdatomic.h>
#include <stdlib.h>

/* In front of each block its size; as wide as the strictest alignment. */
union header {
    size_t n;
    max_align_t align;
};

static atomic_size_t in_use;
static size_t limit;

static void *take(size_t n)
{
    if (n > limit || atomic_fetch_add(&in_use, n + sizeof(union header)) > limit - n) {
        if (n <= limit) (void)atomic_fetch_sub(&in_use, n + sizeof(union header));
        return NULL;
    }
    union header *h = malloc(sizeof *h + n);
    if (!h) {
        (void)atomic_fetch_sub(&in_use, n + sizeof(union header));
        return NULL;
    }
    h->n = n;
    return h + 1;
}

static void give(void *p)
{
    if (!p) return;
    union header *h = (union header *)p - 1;
    (void)atomic_fetch_sub(&in_use, h->n + sizeof *h);
    free(h);
}

void sm_jansson_limit(size_t bytes)
{
    limit = bytes;
    json_set_alloc_funcs(take, give);
}
