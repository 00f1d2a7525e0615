/* SPDX-License-Identifier: MIT */
/* The store: where weights live. It knows files, tensors, experts, layers and their order, and no
 * model. Use: new -> add ... -> sizes -> (the plan decides) -> load -> use -> free.
 *
 * Homes. Resident: read once at load, in kernel layout (x8 for quantised matrices, file order for
 * F32/F16/BF16). Pooled: experts, in slots, read on demand (pager.h). By row: the embedding table,
 * rows are read when a token needs them. Streamed: matrices that do not fit, read for every sweep
 * (stream.h).
 *
 * Threads: everything here is called by the one thread that decodes; reader threads are inside. */
#ifndef SM_STORE_H
#define SM_STORE_H

#include "gguf/gguf.h"
#include "kern/kern.h"
#include "plat/plat.h"

enum sm_home { SM_HOME_RESIDENT, SM_HOME_BY_ROW, SM_HOME_STREAMED /* stream.h decides */ };

/* A matrix (or vector: n_out == 1) of weights as the layers see it. Owned by the store. */
struct sm_weight {
    const struct sm_tensor_info *info;
    uint32_t type;       /* enum sm_type */
    bool x8;             /* held as x8 (else rows in file order) */
    uint32_t n_in, n_out;
    enum sm_home home;
    const uint8_t *data; /* kernel layout; NULL before load and for SM_HOME_BY_ROW; streamed: a
                          * handle that only products understand */
};

struct sm_store;

struct sm_store_options {
    const struct sm_kern *kern;
    bool verify; /* compare what was read with a second read of the source: of a pack, the
                  * file it was made from when that lies beside it, else the pack again */
    double flash_mb_s;      /* --flash-limit: 0 = none; all reads share this bandwidth */
    double flash_latency_us;
    double flash_stream_mb_s; /* the most that one read alone gets; 0: flash_mb_s */
    const char *policy;     /* what the pools keep: lru, lfu, lfru; NULL: lru */
    bool no_direct;         /* buffered reads with drop-behind */
    size_t stream_bytes;    /* of streamed reads; 0: 2 MiB */
    size_t stream_min_bytes; /* matrices below are never streamed; 0: 16 KiB */
    size_t piece_bytes;     /* of expert reads; 0: 512 KiB, at most 1 MiB */
};

SM_NODISCARD smol_status sm_store_new(struct sm_store **out, const struct sm_gguf *g,
                                      const struct sm_store_options *opt, smol_error *err);
void sm_store_free(struct sm_store *s); /* stops the readers; NULL is fine */

/* Declare a tensor. A 2-D {n_in, n_out} or 1-D {n} tensor, or a stack {n_in, n_out, n} that is
 * taken as n_out n rows; its type must be F32/F16/BF16 or an x8 format, else UNSUPPORTED. The same
 * tensor may be added once resident and once by row. */
SM_NODISCARD smol_status sm_store_add(struct sm_store *s, const struct sm_tensor_info *t,
                                      enum sm_home home, const struct sm_weight **out,
                                      smol_error *err);

/* This weight is read through its data pointer: it must stay in memory (stream.h), or need not
 * after all. Before loading. */
void sm_store_pin(struct sm_store *s, const struct sm_weight *w, bool pinned);

/* The weights in the order they were declared; NULL: the first, and after the last. */
const struct sm_weight *sm_store_next(const struct sm_store *s, const struct sm_weight *w);

/* The expert matrices of one MoE layer: 3-D {n_in, n_out, n_expert}. Either gate and up, or one
 * fused gate_up (gate rows first; then up == NULL). Biases {n_out, n_expert} F32 or NULL; they live
 * in the slots beside their matrices. Returns the pool index (0, 1, … in order). */
struct sm_expert_tensors {
    const struct sm_tensor_info *gate, *up, *down;
    const struct sm_tensor_info *gate_bias, *up_bias, *down_bias;
};
SM_NODISCARD smol_status sm_store_add_experts(struct sm_store *s, const struct sm_expert_tensors *t,
                                              uint32_t *pool, smol_error *err);

/* One matrix of an expert inside its slot. n_out of a fused gate_up is 2F. */
struct sm_expert_shape {
    uint32_t type;
    bool x8;
    uint32_t n_in, n_out;
    size_t offset_bytes; /* in the slot */
    size_t slot_bytes;   /* bytes it takes there */
    uint64_t file_bytes; /* bytes of one expert's matrix in the file */
};
struct sm_pool_info {
    uint32_t n_expert;
    bool fused;                              /* gate holds gate and up */
    struct sm_expert_shape gate, up, down;   /* up unused when fused */
    struct sm_expert_shape gate_bias, up_bias, down_bias; /* one row; n_out 0: none */
    size_t slot_bytes;                       /* page-aligned stride */
    uint64_t expert_file_bytes;              /* all parts of one expert in the file */
};
uint32_t sm_store_n_pools(const struct sm_store *s);
const struct sm_pool_info *sm_store_pool(const struct sm_store *s, uint32_t pool);
/* The tensors it was declared with. */
struct sm_expert_tensors sm_store_pool_tensors(const struct sm_store *s, uint32_t pool);

/* What the declared tensors need, before anything is allocated. */
struct sm_store_sizes {
    uint64_t resident_bytes;  /* all resident tensors in kernel layout, aligned */
    uint64_t slots_bytes_per_slot; /* one slot in every pool together */
    uint64_t io_bytes;        /* staging buffers of n_readers reader threads */
    uint64_t row_bytes;       /* staging of by-row reads, one row kept */
    uint64_t row_cell_bytes;  /* to keep one row more; 0: no weight is read by row */
    uint64_t ring_bytes;      /* of streamed weights */
    uint64_t stream_bytes;    /* read for every sweep */
    uint64_t table_bytes;     /* declarations, slot and policy tables for n_slots == n_expert */
};
void sm_store_sizes(const struct sm_store *s, unsigned n_readers, struct sm_store_sizes *out);

typedef void (*sm_progress_fn)(void *arg, const char *what, uint64_t done, uint64_t total);

#define SM_SPARES_MAX 32u
/* Allocate and read. n_slots[pool]: slots of each pool (clamped by the caller to n_expert; a pool
 * with n_slots == n_expert reads everything once and never again). Returns CANCELLED when *cancel
 * becomes true. Blocks with non-finite scales are FORMAT and name tensor, row and byte offset. */
struct sm_store_plan {
    const uint32_t *n_slots;
    unsigned n_readers;
    /* Spare slots, at most SM_SPARES_MAX: pools with slots of that size borrow them while they are
     * read ahead. */
    uint32_t n_spares;
    size_t spare_bytes;
    uint32_t n_row_cells; /* rows kept that were read by themselves, beyond the last one */
    uint64_t later_bytes; /* what the caller will take once all is loaded: to be left free */
    sm_progress_fn progress;
    void *progress_arg;
    const volatile bool *cancel;
};
SM_NODISCARD smol_status sm_store_load(struct sm_store *s, const struct sm_store_plan *plan,
                                       smol_error *err);

/* Row `row` of a weight decoded to n_in floats: from RAM when resident, else read from the file. */
SM_NODISCARD smol_status sm_store_row(struct sm_store *s, const struct sm_weight *w, uint32_t row,
                                      float *out, smol_error *err);

/* ---- the pools as a whole -------------------------------------------------------------------- */

/* A look at slots [first, first + n) of a pool; returns how many slots the pool has, those included
 * that it can borrow. */
struct sm_slot_view {
    uint32_t loads, uses; /* into the slot, and of what it held, since the store was loaded */
    uint16_t expert;
    bool loading, ready;  /* neither: empty, or a read that was given up */
    bool ahead;           /* its present load began on speculation */
};
uint32_t sm_store_slots(struct sm_store *s, uint32_t pool, uint32_t first, struct sm_slot_view *out,
                        uint32_t n);

/* Watch the system's memory from now on: below reserve_bytes the pools shrink, to `floor` slots at
 * least. Loading looks by itself; sm_store_guard_look is called between layers, as often as
 * convenient; NOMEM: nothing is left to give and memory still runs out. */
void sm_store_guard(struct sm_store *s, uint64_t reserve_bytes, uint32_t floor);
SM_NODISCARD smol_status sm_store_guard_look(struct sm_store *s, smol_error *err);

/* What was learned: uses per 1000 tokens of every expert of a pool [n_expert] so far in this run
 * (uses of sm_pager_note). Returns the tokens counted. */
uint64_t sm_store_usage(const struct sm_store *s, uint32_t pool, float *per_1000);
/* Fill a pool with the most used before the first token. `logical`: also the logical pool, from
 * which misses are counted; not when a lever looks at it, so that such runs repeat. Blocks while it
 * reads. */
SM_NODISCARD smol_status sm_store_warm(struct sm_store *s, uint32_t pool, const float *per_1000,
                                       bool logical, smol_error *err);

/* ---- statistics ------------------------------------------------------------------------------ */

struct sm_store_stats {
    uint64_t expert_uses, expert_misses;  /* by the logical pool */
    uint64_t misses_ready;                /* of these, whole in a slot when their layer asked */
    uint64_t misses_late;                 /* of these, those that compute had to wait for */
    uint64_t bytes_read;                  /* experts, streamed weights and rows, after load */
    uint64_t expert_bytes, stream_bytes;  /* of these, experts and streamed weights */
    uint64_t load_bytes_read;
    uint64_t demand_wait_ns;              /* blocked for a read with nothing to compute */
    uint64_t stream_wait_ns;              /* of that, for streamed weights */
    uint64_t n_expert_reads;              /* experts read into slots */
    uint64_t prefetch_issued;             /* experts whose read began on speculation */
    uint64_t prefetch_used;               /* of those, joined by a use */
    uint64_t prefetch_wasted_bytes;       /* of those, read and given up unused */
    uint64_t given_back_bytes;            /* slots the guard gave back */
    uint64_t flash_busy_ns;               /* at least one read under way, after load */
    uint64_t stream_busy_ns;              /* at least one of streamed weights */
    bool direct;                          /* direct reads in use on all files */
};
void sm_store_stats(const struct sm_store *s, struct sm_store_stats *out);
/* What of bytes was streamed so far; cheap. */
uint64_t sm_store_streamed(struct sm_store *s);
/* Empty the counters (not the pools). */
void sm_store_reset_stats(struct sm_store *s);

#endif
