/* SPDX-License-Identifier: MIT */
/* Inside the store. Files:
 *   store.c    declare tensors, sizes, free, statistics
 *   load.c     allocate and read everything that stays
 *   run.c      one run of rows: read, check, pack into place, verify
 *   limit.c    the built-in slow flash
 *   sched.c    reader threads, queue of pieces by class
 *   slots.c    states of the slots of one expert pool, and their invariants
 *   policy.c   the logical pool: counting and what to keep
 *   pager.c    begin / take / give / end
 *   pager_prefetch.c  reads ahead of a use
 *   spares.c   memory that pools borrow while they are read ahead
 *   rows.c     single rows
 *   slot_view.c  a look at the slots
 *   stream.c   dense matrices that are read again for every sweep
 *   guard.c    slots given back when memory runs out
 *   warm.c     pools filled from what was learned before
 * Not inside of it, each with a header of its own: what is decided before a store is made (plan,
 * shares, device_profile), what is written down of runs (learn, trace) and what is found from it
 * (choice, replay), and packs (pack*, unpack; their inside is pack_int.h).
 *
 * Threads. The decoding thread owns everything. What readers share is guarded by sched.mu: slots,
 * queues, the bulk cursor, the failure of the present use. Weight bytes in a slot are written by
 * readers without the lock while the slot is LOADING, and read by others only after the completion
 * under the lock made the part ready. */
#ifndef SM_STORE_INT_H
#define SM_STORE_INT_H

#include "base/mem.h"
#include "gguf/gguf_pack.h"
#include "store/pager.h"
#include "store/policy.h"
#include <pthread.h>

#define SM_READERS_MAX 8u
#define SM_NO_SLOT 0xffffu
/* 256 KiB to 1 MiB do equally well on flash that reaches its bandwidth with three reads under way;
 * half a MiB lets a DEMAND read wait 2 ms at most behind a speculative piece at 278 MB/s. */
#define SM_PIECE_BYTES ((size_t)512 << 10)
#define SM_PIECE_BYTES_MAX ((size_t)1 << 20)
#define SM_RUN_BYTES ((size_t)1 << 20) /* reads of what stays */

struct sm_weight_node {
    struct sm_weight w; /* handed out */
    size_t offset;      /* in the resident arena */
    size_t bytes;       /* as held */
    bool pinned;        /* not to be streamed */
    struct sm_weight_node *next;
};

/* Consecutive rows of one matrix: where they are and where they go. */
struct sm_run {
    const struct sm_tensor_info *info;
    struct sm_file *file;
    uint64_t at;         /* byte offset of the first row in the file */
    uint32_t type;
    bool x8;
    uint32_t n_in;
    uint64_t row0;       /* in the tensor (over all experts), for messages */
    uint32_t n_rows;
    size_t row_bytes;
    int32_t expert;      /* -1: not an expert */
    const struct sm_place *place; /* in a pack: whole units of matrix `mat`; NULL: plain GGUF */
    uint32_t mat, mat_row;        /* row0 within the matrix */
    uint8_t *dst;        /* kernel layout; starts on a group of 8 rows */
};

/* What one thread needs to read runs. */
struct sm_stage {
    uint8_t *data;       /* run_bytes + 2 * SM_IO_ALIGN, in pages of their own */
    size_t n_bytes;      /* of all three */
    uint8_t *again;      /* the same for the second read; NULL without verify */
    uint8_t *row;        /* one row in file order; NULL without verify */
};

/* ---- slots ---------------------------------------------------------------------------------- */

enum sm_slot_state {
    SM_SLOT_EMPTY,
    SM_SLOT_LOADING,  /* pieces queued or under way; parts may be ready already */
    SM_SLOT_READY,
    SM_SLOT_DRAINING, /* cancelled; reads still under way, nothing new starts */
    SM_SLOT_OFF,      /* given back to the system (guard.c) */
    SM_SLOT_FAILED    /* a read failed, none is under way; kept while pinned */
};
enum sm_io_class { SM_IO_DEMAND, SM_IO_NEXT, SM_IO_WARM, SM_IO_CLASSES };
/* Tensors of an expert; sm_piece_run has the order in which they are read. */
enum {
    SM_PART_GATE, SM_PART_UP, SM_PART_DOWN, SM_MATRICES,
    SM_PART_GATE_BIAS = SM_MATRICES, SM_PART_UP_BIAS, SM_PART_DOWN_BIAS, SM_PARTS
};
enum { SM_HALF_GATE_UP, SM_HALF_DOWN, SM_HALVES };         /* what becomes ready together */

struct sm_slot {
    struct sm_slot *prev, *next; /* queue of its class, while pieces wait to be started */
    uint8_t *data;               /* its memory; NULL: OFF */
    uint32_t pool;
    uint32_t generation;         /* counts loads into this slot */
    uint32_t next_piece;         /* first piece not started */
    uint32_t n_flying;           /* pieces being read */
    uint32_t left[SM_HALVES];    /* pieces that have not landed */
    uint16_t expert;             /* held or being read; meaningless when EMPTY */
    uint16_t pins;
    uint8_t state, io_class;
    bool queued, failed;
    bool ahead;                  /* expected to be used soon: evicted last */
    bool guess;                  /* its read began on speculation and nothing has used it yet */
    uint64_t due; /* NEXT: which use it is for, as a count of uses; orders the queue */
    uint64_t landed_bytes;       /* read into it so far */
    bool checked[SM_HALVES];     /* verify: compared at first use */
    bool began_ahead;            /* the present load began on speculation */
    uint32_t n_uses;             /* takes of what it held */
};

struct sm_part {
    const struct sm_tensor_info *info; /* NULL: absent (up of a fused pair, biases) */
    const struct sm_expert_shape *shape;
    size_t row_bytes;
    uint32_t rows_per_piece, n_pieces;
};

struct sm_expert_pool {
    struct sm_pool_info info;
    uint32_t index;
    struct sm_part part[SM_PARTS];
    uint32_t n_pieces;           /* of an expert */
    uint32_t n_slots;            /* places for slots: its own and such as can be borrowed */
    uint32_t n_off;              /* places without memory */
    uint32_t n_lent;             /* spare memory that it has borrowed */
    uint32_t k_max;              /* most experts that one token was noted with */
    bool complete;               /* every expert has its slot and stays */
    uint64_t n_guessed, n_guess_used, guess_wasted_bytes; /* statistics of speculation */
    uint8_t *arena;
    size_t arena_bytes;
    void *tables;
    size_t table_bytes;
    struct sm_slot *slot;        /* [n_slots] */
    uint16_t *slot_of;           /* [n_expert] SM_NO_SLOT: in none */
    struct sm_policy policy;
};

/* Slots that can hold something, and those of them that stay the pool's. */
static inline uint32_t sm_pool_live(const struct sm_expert_pool *p)
{
    return p->n_slots - p->n_off;
}
static inline uint32_t sm_pool_own(const struct sm_expert_pool *p)
{
    return sm_pool_live(p) - p->n_lent;
}

/* spares.c: memory that pools borrow while they are read ahead */
struct sm_spares {
    uint8_t *arena;
    size_t arena_bytes, slot_bytes;
    uint8_t *free[SM_SPARES_MAX];
    uint32_t n_free, n;
};
static inline uint32_t sm_spares_half(uint32_t n) { return (n + 1) / 2; }

struct sm_guard {
    void (*probe)(struct sm_memory_watch *watch, struct sm_memory *out); /* NULL: no guard */
    struct sm_memory_watch *watch;
    int64_t reserve_bytes;
    int64_t left_bytes;   /* at the last look, with what we hold ourselves; INT64_MIN: none yet */
    int64_t goal_bytes;   /* rss when all is taken, but for what was given back; 0: it is */
    uint64_t next_ns, given_bytes;
    uint32_t floor, n_low;
};

/* ---- scheduler ------------------------------------------------------------------------------ */

struct sm_reader {
    struct sm_store *store;
    struct sm_thread *thread;
    struct sm_stage stage;
};

/* Everything that is read once at load, handed out run by run. */
struct sm_bulk {
    bool active, stop;
    struct sm_weight_node **order; /* resident weights by file and offset */
    size_t n_order, i_order;
    uint32_t row;                  /* of the present weight */
    uint32_t pool, expert, piece;  /* of the present complete pool */
    unsigned n_flying;
    uint64_t bytes_done, bytes_total;
    smol_status status;
    smol_error err;
    uint32_t touch_pool, touch_slot; /* the loading thread's alone: the next slot to be touched */
    uint32_t touch_spare;
};

/* The time in which at least one of some reads is under way; under sched.mu. */
struct sm_busy { unsigned n; uint64_t since_ns, ns; };
static inline void sm_busy_begin(struct sm_busy *b)
{
    if (!b->n++) b->since_ns = sm_now_ns();
}
static inline void sm_busy_end(struct sm_busy *b)
{
    if (!--b->n) b->ns += sm_now_ns() - b->since_ns;
}
static inline uint64_t sm_busy_ns(const struct sm_busy *b, uint64_t now)
{
    return b->ns + (b->n ? now - b->since_ns : 0);
}
/* Count from now on. */
static inline void sm_busy_reset(struct sm_busy *b)
{
    b->ns = 0;
    b->since_ns = sm_now_ns();
}

struct sm_sched {
    pthread_mutex_t mu;
    pthread_cond_t work, done;
    bool ready;                    /* mutex and conditions exist */
    bool stop;
    struct sm_slot *head[SM_IO_CLASSES], *tail[SM_IO_CLASSES];
    unsigned n_flying[SM_IO_CLASSES], cap[SM_IO_CLASSES];
    struct sm_busy busy, stream_busy; /* any read under way; one of streamed weights */
    uint64_t stream_bytes, expert_bytes; /* of the file, that came */
    struct sm_reader reader[SM_READERS_MAX];
    unsigned n_readers;
    struct sm_bulk bulk;
};

/* ---- the present use of a pool -------------------------------------------------------------- */

enum sm_item_state { SM_ITEM_MISSING, SM_ITEM_PINNED, SM_ITEM_TAKEN, SM_ITEM_GIVEN };

struct sm_use {
    bool active;
    uint64_t count;              /* uses begun so far */
    struct sm_expert_pool *pool;
    enum sm_order order;
    unsigned n, n_taken;
    unsigned first_missing;      /* no item before it is MISSING */
    unsigned n_ahead;            /* items read in this use and not taken yet */
    uint16_t *ids, *slot;        /* [most experts of any pool] */
    uint8_t *state;              /* enum sm_item_state */
    uint8_t *was_read;           /* item was read in this use */
    uint32_t *missed;            /* misses it stands for that were not waited for yet */
    smol_status status;          /* first failure of a pinned slot */
    smol_error err;
};

/* ---- streamed weights (stream.c) ------------------------------------------------------------ */

/* 2 MiB reads, three under way, reach the bandwidth of every flash that was modelled; with 8 of
 * them reading goes on through 60 ms of computing at 278 MB/s. */
#define SM_STREAM_BYTES ((size_t)2 << 20)
#define SM_STREAM_CELLS 8u
#define SM_STREAM_MIN_BYTES ((size_t)16 << 10)

struct sm_stream_item {
    struct sm_weight_node *node;
    uint32_t chunk_rows, n_chunks;
    uint32_t first;  /* number of its first chunk in a sweep */
    uint64_t seq;    /* of its first chunk in the present use */
};
enum sm_cell_state { SM_CELL_EMPTY, SM_CELL_LOADING, SM_CELL_READY };
struct sm_stream_cell {
    uint64_t seq;    /* chunk held or being read, counted over all sweeps */
    uint32_t given;
    uint8_t state;   /* enum sm_cell_state */
    bool drop;       /* read in vain */
};
#define SM_STREAM_GAPS 8 /* products of one call are begun before any is read: a gap each at most */
struct sm_stream {
    struct sm_stream_item *item; /* [n_items] in the order of declaration */
    uint32_t n_items, n_chunks;  /* of a sweep */
    uint32_t *item_of;           /* [n_chunks] */
    uint64_t bytes;              /* of a sweep, as held */
    size_t cell_bytes;
    uint64_t ring_bytes;
    uint8_t *ring;               /* NULL until loaded */
    struct sm_stream_cell cell[SM_STREAM_CELLS]; /* from here on under sched.mu */
    bool on;
    uint64_t read_seq;           /* next chunk to be read */
    uint64_t next_seq;           /* chunk behind those in use */
    struct { uint64_t from, to; } gap[SM_STREAM_GAPS]; /* to be left out, once reading gets there */
    uint32_t n_gaps;
    uint64_t n_skips;            /* times the order of use was another (looked at by tests) */
    smol_status status;          /* first failure */
    smol_error err;
};

struct sm_limit {
    pthread_mutex_t mu;
    bool ready;
    double bytes_per_ns, stream_bytes_per_ns, latency_ns; /* 0: no limit */
    double bus_free_ns;
};

/* rows.c: rows that were read by themselves, as they are in the file (in a pack: units of them),
 * each in the cell of its number modulo n. */
struct sm_row_cells {
    struct { const struct sm_weight *w; uint32_t first; } *of; /* [n]; w NULL: empty */
    uint8_t *data;               /* [n][by_row_bytes_max, rounded up to SM_ALIGN] */
    uint32_t n;
    size_t bytes;                /* of both */
};

struct sm_store {
    const struct sm_gguf *gguf;
    struct sm_store_options opt;
    size_t piece_bytes;
    struct sm_file **file;
    size_t n_files;
    struct sm_file **source;     /* of a pack, to verify with; NULL: not wanted or not there */
    size_t n_sources;
    const char *no_source;       /* wanted, and this one is not there; of the gguf */
    struct sm_weight_node *first, *last;
    size_t n_weights, n_resident;
    struct sm_expert_pool **pool;
    uint32_t n_pools, cap_pools;
    uint32_t n_expert_max;
    uint64_t resident_bytes;     /* of the arena */
    size_t run_bytes;            /* largest run of rows anything needs */
    size_t row_bytes_max;        /* longest row in file order */
    size_t by_row_bytes_max;     /* longest row read by itself */

    const struct sm_policy_ops *policy;
    bool loaded;
    struct sm_guard guard;
    struct sm_spares spares;
    bool check;                  /* assert all invariants after every step (tests) */
    uint8_t *resident;
    struct sm_stage row_stage, check_stage; /* of the decoding thread */
    struct sm_row_cells row;
    struct sm_limit limit;
    struct sm_sched sched;
    struct sm_stream stream;
    struct sm_use use;
    void *use_tables;
    size_t use_bytes;
    struct sm_store_stats stats;
    uint64_t read_base;          /* bytes read when the counters were emptied */
};

/* run.c */
size_t sm_stage_bytes(size_t run_bytes, size_t row_bytes, bool verify);
SM_NODISCARD smol_status sm_stage_new(struct sm_stage *st, size_t run_bytes, size_t row_bytes,
                                      bool verify, smol_error *err);
void sm_stage_free(struct sm_stage *st);
/* Read a run and put it into place. Any thread, each with a stage of its own. */
SM_NODISCARD smol_status sm_run_read(struct sm_store *s, struct sm_stage *st,
                                     const struct sm_run *run, smol_error *err);
/* Read a run again and compare it with what is in place. */
SM_NODISCARD smol_status sm_run_verify(struct sm_store *s, struct sm_stage *st,
                                       const struct sm_run *run, smol_error *err);
/* Rows that fit in `bytes`, whole groups of 8 (units of a pack), at least one (or n_rows when
 * fewer). place: NULL in plain files. */
uint32_t sm_run_rows(uint32_t n_rows, size_t row_bytes, size_t bytes, const struct sm_place *place);
/* Bytes that n rows take in a file. */
static inline size_t sm_run_file_bytes(uint32_t n_rows, size_t row_bytes,
                                       const struct sm_place *place)
{
    return place ? (size_t)sm_place_bytes(place, n_rows) : (size_t)n_rows * row_bytes;
}
/* Rows [row, row + n_rows) of a weight that is no expert as a run to dst. */
struct sm_run sm_weight_run(const struct sm_store *s, const struct sm_weight *w, uint32_t row,
                            uint32_t n_rows, uint8_t *dst);
/* The piece'th piece of an expert as a run; *half says what it belongs to. */
void sm_piece_run(const struct sm_store *s, const struct sm_expert_pool *p, uint32_t slot,
                  uint32_t expert, uint32_t piece, struct sm_run *run, unsigned *half);
/* file_read_direct under the flash limit. */
SM_NODISCARD smol_status sm_limited_read(struct sm_store *s, struct sm_file *f, uint64_t at,
                                         size_t n, uint8_t *stage, const uint8_t **data,
                                         smol_error *err);

/* rows.c: bytes of one cell; room for n cells more than one. */
size_t sm_row_cell_bytes(const struct sm_store *s);
SM_NODISCARD smol_status sm_rows_new(struct sm_store *s, uint32_t n, smol_error *err);
void sm_rows_free(struct sm_store *s);

/* limit.c: done = max(start + latency + n / stream, previous done on the bus + n / bandwidth). */
void sm_limit_init(struct sm_limit *l, double mb_s, double stream_mb_s, double latency_us);
void sm_limit_destroy(struct sm_limit *l);
/* Enter a read of n bytes at time now_ns; returns when it may be done (0: no limit). */
uint64_t sm_limit_enter(struct sm_limit *l, size_t n, uint64_t now_ns);

/* slots.c: all under sched.mu */
size_t sm_slots_table_bytes(uint32_t n_expert);
/* n_own: slots with memory of the arena, the first ones. */
void sm_slots_init(struct sm_expert_pool *p, const struct sm_policy_ops *ops, uint32_t n_own);
static inline bool sm_slot_half_ready(const struct sm_slot *sl, unsigned half)
{
    return (sl->state == SM_SLOT_READY || sl->state == SM_SLOT_LOADING) && !sl->left[half];
}
static inline uint32_t sm_slot_index(const struct sm_expert_pool *p, const struct sm_slot *sl)
{
    return (uint32_t)(sl - p->slot);
}
/* Start reading an expert into an EMPTY slot. */
void sm_slot_start(struct sm_store *s, struct sm_expert_pool *p, struct sm_slot *sl,
                   uint16_t expert, enum sm_io_class io_class);
/* An EMPTY slot gives up its memory, which is returned, and its place is OFF. */
uint8_t *sm_slot_off(struct sm_expert_pool *p, struct sm_slot *sl);
/* Forget what an idle slot holds. */
void sm_slot_clear(struct sm_expert_pool *p, struct sm_slot *sl);
/* Stop an unpinned LOADING slot: EMPTY at once, or DRAINING until its reads have landed. */
void sm_slot_cancel(struct sm_store *s, struct sm_expert_pool *p, struct sm_slot *sl);
/* Take a DRAINING slot back into LOADING: what has landed and is under way counts. */
void sm_slot_revive(struct sm_store *s, struct sm_slot *sl, enum sm_io_class io_class);
/* A piece has landed (status OK) or failed. True when someone may want to know. */
bool sm_slot_land(struct sm_store *s, struct sm_expert_pool *p, struct sm_slot *sl, unsigned half,
                  uint32_t generation, smol_status status, const smol_error *err);
/* An EMPTY slot, NULL: there is none. */
struct sm_slot *sm_slots_empty(struct sm_expert_pool *p);
/* The slot to evict: the unpinned READY one that is worth least, NULL if none. */
struct sm_slot *sm_slots_victim(struct sm_expert_pool *p);
/* Assert every invariant of a pool, if the store's `check` is set (nothing under NDEBUG). */
void sm_slots_check(const struct sm_store *s, const struct sm_expert_pool *p);

/* spares.c */
SM_NODISCARD smol_status sm_spares_new(struct sm_store *s, uint32_t n, size_t slot_bytes,
                                       smol_error *err);
void sm_spares_free(struct sm_store *s);
/* Most slots that a pool with n_own of its own can borrow. */
uint32_t sm_spares_places(const struct sm_store *s, const struct sm_expert_pool *p,
                          uint32_t n_own);
/* True when the pool may borrow; lend: an EMPTY slot on borrowed memory, NULL: it may not. */
bool sm_spares_left(const struct sm_store *s, const struct sm_expert_pool *p);
struct sm_slot *sm_spares_lend(struct sm_store *s, struct sm_expert_pool *p);
/* The pool's use has ended: it gives back as much as it borrowed, the memory of what is worth least
 * to the policy. */
void sm_spares_return(struct sm_store *s, struct sm_expert_pool *p);
/* The system runs short: bytes of one spare slot given back to it, 0: none is free. */
uint64_t sm_spares_give_up(struct sm_store *s);

/* sched.c */
static inline void sm_sched_lock(struct sm_sched *q) { (void)pthread_mutex_lock(&q->mu); }
static inline void sm_sched_unlock(struct sm_sched *q) { (void)pthread_mutex_unlock(&q->mu); }
SM_NODISCARD smol_status sm_sched_start(struct sm_store *s, unsigned n_readers, smol_error *err);
void sm_sched_stop(struct sm_store *s); /* joins the readers; may be called twice */
/* Queue of pieces; under sched.mu. */
void sm_sched_push(struct sm_sched *q, struct sm_slot *sl);
void sm_sched_remove(struct sm_sched *q, struct sm_slot *sl);
void sm_sched_raise(struct sm_sched *q, struct sm_slot *sl, enum sm_io_class io_class);
/* True when a reader is at work or has work: somebody will signal `done`. Under sched.mu. */
bool sm_sched_busy(const struct sm_sched *q);

/* stream.c */
SM_NODISCARD smol_status sm_stream_start(struct sm_store *s, smol_error *err);
void sm_stream_forget(struct sm_store *s);
/* The next chunk to be read, and what became of it; under sched.mu. */
bool sm_stream_next(struct sm_store *s, struct sm_run *run, uint32_t *cell);
void sm_stream_land(struct sm_store *s, uint32_t cell, smol_status status, const smol_error *err);

/* store.c: make the buffers large enough for runs of n rows, for single rows of w. */
void sm_store_need_run(struct sm_store *s, uint32_t n_rows, size_t row_bytes,
                       const struct sm_place *place);
void sm_store_need_row(struct sm_store *s, const struct sm_weight *w);

/* load.c, store.c */
size_t sm_use_table_bytes(uint32_t n_expert_max);
uint64_t sm_store_file_bytes(const struct sm_store *s); /* read from all files so far */
/* The next run of the bulk load, under sched.mu; false: none. */
bool sm_bulk_next(struct sm_store *s, struct sm_run *run);
void sm_bulk_land(struct sm_store *s, const struct sm_run *run, smol_status status,
                  const smol_error *err);

#endif
