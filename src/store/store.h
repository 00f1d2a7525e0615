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
    bool verify;            /* compare what was read with a second read of the source: of a pack, the
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

/* Declare a tensor. A 2-D {n_in, n_out} or 1-D {n} tensor, or a stack {n_in, n_out, n} that is taken
 * as n_out n rows; its type must be F32/F16/BF16 or an x8
 * format, else UNSUPPORTED. The same tensor may be added once resident and once by row. */
SM_NODISCARD smol_status sm_store_add(struct sm_store *s, const struct sm_tensor_info *t,
                                      enum sm_home home, const struct sm_weight **out,
                                      smol_error *err);

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

/* Allocate and read. n_slots[pool]: slots of each pool (clamped by the caller to n_expert; a pool
 * with n_slots == n_expert reads everything once and never again). Returns CANCELLED when *cancel
 * becomes true. Blocks with non-finite scales are FORMAT and name tensor, row and byte offset. */
struct sm_store_plan {
    const uint32_t *n_slots;
    unsigned n_readers;
    uint32_t n_row_cells; /* rows kept that were read by themselves, beyond the last one */
    sm_progress_fn progress;
    void *progress_arg;
    const volatile bool *cancel;
};
SM_NODISCARD smol_status sm_store_load(struct sm_store *s, const struct sm_store_plan *plan,
                                       smol_error *err);

/* Row `row` of a weight decoded to n_in floats: from RAM when resident, else read from the file. */
SM_NODISCARD smol_status sm_store_row(struct sm_store *s, const struct sm_weight *w, uint32_t row,
                                      float *out, smol_error *err);

/* ---- experts on demand (pager.c) ----------------------------------------------------------- */

/* One use of a layer's experts: begin, take each once, give each back, end.
 *
 *   sm_pager_begin(s, pool, ids, n, SM_ORDER_ARRIVAL);
 *   for (k = 0; k < n; k++) {
 *       sm_pager_take(s, &i, &e, err);          which of ids, pointers; gate and up are there
 *       ... gate, up ...
 *       sm_pager_take_down(s, i, err);          down is there
 *       ... down ...
 *       sm_pager_give(s, i);
 *   }
 *   sm_pager_end(s);
 *
 * ids are distinct and ascending. ARRIVAL: whatever is in RAM first, then as reads land (decode,
 * small batches). ASCENDING: in the order of ids, with read-ahead (prompt waves). Experts in RAM
 * at begin are pinned so that each is read at most once per begin/end, however small the pool; what
 * is missing goes through the other slots. n may exceed the number of slots. After an error the
 * caller calls sm_pager_end and gives up. */
enum sm_order { SM_ORDER_ARRIVAL, SM_ORDER_ASCENDING };
struct sm_expert {
    const uint8_t *gate, *up, *down; /* fused: up points into gate's matrix */
    const float *gate_bias, *up_bias, *down_bias; /* NULL: none */
};

void sm_pager_begin(struct sm_store *s, uint32_t pool, const uint16_t *ids, unsigned n,
                    enum sm_order order);
/* True when at least one expert that was not taken yet can be taken without waiting. */
bool sm_pager_has_ready(struct sm_store *s);
SM_NODISCARD smol_status sm_pager_take(struct sm_store *s, unsigned *i, struct sm_expert *e,
                                       smol_error *err);
SM_NODISCARD smol_status sm_pager_take_down(struct sm_store *s, unsigned i, smol_error *err);
void sm_pager_give(struct sm_store *s, unsigned i);
void sm_pager_end(struct sm_store *s);

/* Tell the policy what one token chose in this pool (k ids), in token order: the logical pool, from
 * which uses and misses are counted as token-by-token decoding would have them and by which slots
 * are kept. Called once per token and layer, before sm_pager_begin of that token's batch. */
void sm_pager_note(struct sm_store *s, uint32_t pool, const uint16_t *ids, unsigned k);
/* The logical pool: [n_expert], 1 for those in it; NULL when all are in RAM for good. Changed by
 * sm_pager_note only. */
const uint8_t *sm_pager_held(const struct sm_store *s, uint32_t pool);
/* What levers may look at besides: ranges of the scores in token order, and their running mean. */
void sm_pager_note_range(struct sm_store *s, uint32_t pool, float range);
float sm_pager_range(const struct sm_store *s, uint32_t pool);
/* Ask for experts before they are needed. Speculative reads yield to demanded ones and together hold
 * at most (slots - experts one token uses) slots; what does not fit is left out. A later
 * sm_pager_begin joins reads that are under way. Returns how many of ids are in the pool or being
 * read. Allowed between begin and end of this or another pool. */
enum sm_ahead { SM_AHEAD_NEXT, SM_AHEAD_WARM };
unsigned sm_pager_ask(struct sm_store *s, uint32_t pool, const uint16_t *ids, unsigned n,
                      enum sm_ahead how);
/* Those of ids that are neither in the pool nor being read, in their order, into out (room for n);
 * returns how many. */
unsigned sm_pager_missing(struct sm_store *s, uint32_t pool, const uint16_t *ids, unsigned n,
                          uint16_t *out);
/* The use that NEXT reads were made for has begun: those that it did not join were wrong. Reads that
 * nobody uses stop (those under way land unused), and nothing is kept for them. */
void sm_pager_settle(struct sm_store *s, uint32_t pool);
/* Proved wrong: reads of these experts that nobody uses stop (those under way land unused). */
void sm_pager_drop(struct sm_store *s, uint32_t pool, const uint16_t *ids, unsigned n);

/* A look at slots [first, first + n) of a pool; returns how many slots the pool has. */
struct sm_slot_view {
    uint32_t loads, uses; /* into the slot, and of what it held, since the store was loaded */
    uint16_t expert;
    bool loading, ready;  /* neither: empty, or a read that was given up */
    bool ahead;           /* its present load began on speculation */
};
uint32_t sm_store_slots(struct sm_store *s, uint32_t pool, uint32_t first, struct sm_slot_view *out,
                        uint32_t n);
/* True when all experts of a pool are in RAM for good. */
bool sm_pager_complete(const struct sm_store *s, uint32_t pool);
/* Watch the system's memory from now on: below reserve_bytes the pools shrink, to `floor` slots at
 * least. sm_store_guard_look is called between uses, as often as convenient; NOMEM: nothing is left
 * to give and memory still runs out. */
void sm_store_guard(struct sm_store *s, uint64_t reserve_bytes, uint32_t floor);
SM_NODISCARD smol_status sm_store_guard_look(struct sm_store *s, smol_error *err);

/* What was learned: uses per 1000 tokens of every expert of a pool [n_expert] so far in this run
 * (uses of sm_pager_note). Returns the tokens counted. */
uint64_t sm_store_usage(const struct sm_store *s, uint32_t pool, float *per_1000);
/* Fill a pool with the most used before the first token. `logical`: also the logical pool, from which
 * misses are counted; not when a lever looks at it, so that such runs repeat. Blocks while it reads. */
SM_NODISCARD smol_status sm_store_warm(struct sm_store *s, uint32_t pool, const float *per_1000,
                                       bool logical, smol_error *err);

/* Empty the counters (not the pools). */
void sm_pager_reset_stats(struct sm_store *s);

struct sm_store_stats {
    uint64_t expert_uses, expert_misses;  /* by the logical pool */
    uint64_t bytes_read;                  /* experts and rows, after load */
    uint64_t load_bytes_read;
    uint64_t demand_wait_ns;              /* take/take_down blocked with nothing to compute */
    uint64_t n_expert_reads;              /* experts read into slots */
    uint64_t prefetch_issued;             /* experts whose read began on speculation */
    uint64_t prefetch_used;               /* of those, joined by a use */
    uint64_t prefetch_wasted_bytes;       /* of those, read and given up unused */
    uint64_t given_back_bytes;            /* slots the guard gave back */
    uint64_t flash_busy_ns;               /* at least one read of an expert under way */
    bool direct;                          /* direct reads in use on all files */
};
void sm_store_stats(const struct sm_store *s, struct sm_store_stats *out);

#endif
