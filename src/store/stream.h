/* SPDX-License-Identifier: MIT */
/* The streamed home: dense matrices that do not fit are read again for every sweep, in the order in
 * which a token needs them, through a ring of buffers; reading goes on across the end of a token. A
 * matrix is cut into chunks of whole rows, so that computing starts with the first chunk that is
 * there and a matrix may be larger than the ring.
 *
 * The data pointer of a streamed weight is no memory but a handle, which sm_stream_of recognises;
 * whoever multiplies (graph/linear.c) trades it chunk by chunk:
 *
 *   sm_stream_begin(s, item)          one thread; products of one call in their order
 *   p = sm_stream_take(s, item, i)    any thread: chunk i, in kernel layout, as soon as it is there
 *   sm_stream_give(s, item, i, n)     n times for every chunk: then its buffer is filled anew
 *
 * All chunks of an item that was begun must be taken and given. Chunks are claimed in ascending
 * order, so the oldest one is always in the ring or on its way: no deadlock, however small the
 * ring. An order of use that is not the order of declaration is right too, only slower: what was
 * read ahead in vain is dropped. */
#ifndef SM_STREAM_H
#define SM_STREAM_H

#include "store/store.h"

struct sm_stream_item;

/* NULL: data is memory. */
const struct sm_stream_item *sm_stream_of(const struct sm_store *s, const uint8_t *data);
/* Rows of every chunk but the last, a multiple of 8, and the number of chunks. */
uint32_t sm_stream_chunk_rows(const struct sm_stream_item *item);
uint32_t sm_stream_n_chunks(const struct sm_stream_item *item);
void sm_stream_begin(struct sm_store *s, const struct sm_stream_item *item);
/* NULL: a read failed, see sm_stream_status. worker: 0 counts the time it waits. */
const uint8_t *sm_stream_take(struct sm_store *s, const struct sm_stream_item *item, uint32_t chunk,
                              unsigned worker);
void sm_stream_give(struct sm_store *s, const struct sm_stream_item *item, uint32_t chunk,
                    uint32_t n);
/* The first failure of a streamed read since this was last called, when nothing that was begun is
 * being computed any more; reading starts anew with the next item that is begun. */
SM_NODISCARD smol_status sm_stream_status(struct sm_store *s, smol_error *err);

/* Before loading: let declared matrices of together at least `bytes` (as held) be streamed, spread
 * evenly over the layers so that reads and resident work alternate; all that can be when they are
 * fewer. 0: none. May be called again. Returns what is streamed. */
SM_NODISCARD smol_status sm_store_stream(struct sm_store *s, uint64_t bytes, uint64_t *streamed,
                                         smol_error *err);
/* Bytes of all matrices that could be streamed, as held. */
uint64_t sm_store_streamable(const struct sm_store *s);

#endif
