/* SPDX-License-Identifier: MIT */
/* The memory plan: what lives where, decided before anything is allocated. A pure function: the
 * same numbers in give the same plan out; nothing is read, allocated or measured here.
 *
 * Rules, in order of weight:
 *  1. The total never exceeds the budget. Below the smallest workable plan: NOMEM, and
 *     needed_bytes says how much would do.
 *  2. All experts are resident when they fit.
 *  3. Context: what the user asked for; else min(model's, 4096), lowered to 2048 before slots are
 *     cut.
 *  4. Chunk (prompt tokens per wave): what the user asked for; else the largest of 512, 256, …, 8
 *     that fits. Trade: every chunk of a prompt can read all experts again, so a big chunk saves
 *     whole sweeps of the file, while its scratch costs a few slots of decode speed. The scratch
 *     beyond that of the smallest chunk may take at most 1/SM_PLAN_SCRATCH_SHARE of the bytes that
 *     pool and scratch share, and never pushes the pool below its floor; what costs no slot is
 *     taken anyway.
 *  5. Slots: --pool N, raised to the floor (experts per token + 1) and clamped to the number of
 *     experts, both with a note; else as many as fit.
 *  6. Rows of an embedding table that stays in the file: 1/SM_PLAN_ROWS_SHARE of the budget, from
 *     what is left then.
 *  7. Spare slots, which pools borrow while they are read ahead: what is left after 6 and does not
 *     make a slot in every pool, at most SM_SPARES_MAX; where pools can have SM_PLAN_SPARE_SLOTS or
 *     more, at least 1/SM_PLAN_SPARE_SHARE of their memory. None where rule 5 is --pool N. Trade:
 *     the flagship at 1150 MiB decodes 5 % faster with one slot more of 39 in every pool, and reads
 *     a prompt 11 % faster with as much as spare slots. */
#ifndef SM_PLAN_H
#define SM_PLAN_H

#include "base/status.h"
#include "store/store.h"

#define SM_PLAN_CTX_DEFAULT 4096u
#define SM_PLAN_CTX_LOWERED 2048u
#define SM_PLAN_CHUNK_MAX 512u
#define SM_PLAN_CHUNK_MIN 8u          /* smallest chunk the plan picks by itself */
/* Largest of a model without experts that is all in RAM: with 128 tokens qwen3-1.7b reads a prompt
 * 3 % faster and takes twice the scratch. */
#define SM_PLAN_CHUNK_DENSE 64u
#define SM_PLAN_CHUNK_RESIDENT_MIN 32u /* smallest for which all experts resident is preferred */
#define SM_PLAN_SCRATCH_SHARE 8u
#define SM_PLAN_SPARE_SHARE 64u
#define SM_PLAN_SPARE_SLOTS 32u
#define SM_PLAN_ROWS_SHARE 1024u
#define SM_PLAN_ROWS_MAX 4095u
/* Those that the flash needs to reach its bandwidth, and one that packs what it has read, while all
 * together take no more than this share of the budget (three always); where experts are paged one
 * more, which speculation leaves free, if it takes no more than this share of what the pools could
 * have beyond their floor. */
#define SM_PLAN_READERS_FLASH 2u
#define SM_PLAN_READER_SHARE 16u
#define SM_PLAN_READERS_MAX 8u
#define SM_PLAN_ITEMS_MAX 24u

struct sm_plan_item { const char *what; uint64_t bytes; }; /* `what` is static text */
struct sm_plan_pool { uint64_t slot_bytes; uint32_t n_expert; };

struct sm_plan_input {
    uint64_t budget_bytes;       /* UINT64_MAX: no limit */
    struct sm_store_sizes store; /* sm_store_sizes() for ONE reader */
    const struct sm_plan_pool *pools; /* sm_plan_pools_of() fills them from a store */
    uint32_t n_pools;            /* 0: a dense model */
    uint32_t n_expert_used;      /* experts per token; floor = n_expert_used + 1 */

    const struct sm_plan_item *fixed; /* process, header, tokeniser, model tables, … */
    uint32_t n_fixed;            /* at most SM_PLAN_ITEMS_MAX - 11 */
    uint64_t stack_bytes;        /* of one thread that is started (SM_STACK_BYTES) */
    unsigned n_threads;          /* compute threads, the caller's own included; >= 1 */

    uint64_t kv_bytes_per_token, kv_fixed_bytes; /* fixed: recurrent state, windows */
    /* Scratch and activations of a session: non-decreasing in chunk. NULL: none. */
    uint64_t (*scratch_bytes)(void *arg, uint32_t chunk);
    void *scratch_arg;

    /* Memory of looking ahead, only when experts are paged. Left out, and out->prefetch false, when
     * nothing else fits, unless the user insists. */
    uint64_t prefetch_bytes;
    bool prefetch_insist;

    uint32_t ctx_model;          /* the model's own context; 0: unknown */
    uint32_t ctx_user, chunk_user, pool_user; /* 0: not given */
    unsigned readers_user;       /* 0: not given */
    unsigned readers_flash;      /* that reach the bandwidth of this flash; 0: unknown */

    /* For the prediction; zeros where unknown: then tok_s_predicted is 0. */
    uint64_t expert_bytes_per_token; /* file bytes of the experts one token uses */
    double step_us;                  /* a token with everything in RAM */
    double flash_mb_s;               /* 10^6 bytes a second, as experts are read */
    double read_us_per_mb;           /* time of a core that 10^6 bytes of reads take */
    unsigned n_cores;                /* 0: enough for all threads */
    /* Share of expert uses that miss with so many slots, from what earlier runs used; < 0: unknown.
     * NULL: nothing is known. */
    double (*miss_learned)(void *arg, uint32_t n_slots);
    void *miss_arg;
};

struct sm_plan {
    uint32_t ctx, chunk;
    uint32_t n_slots;            /* per pool, each clamped to its n_expert: sm_plan_slots() */
    uint32_t n_expert;           /* of the largest pool; 0: dense */
    bool experts_resident;       /* every pool holds all its experts (also true when dense) */
    unsigned n_threads, n_readers;
    uint64_t budget_bytes, total_bytes;
    uint64_t needed_bytes;       /* of the smallest plan for these options */
    uint64_t resident_bytes, pool_bytes, kv_bytes, scratch_bytes, io_bytes, stack_bytes;
    uint64_t ring_bytes;         /* of streamed weights */
    uint64_t stream_bytes;       /* dense weights read again for every sweep */
    bool prefetch;               /* memory of looking ahead is in the plan */
    uint64_t prefetch_bytes;
    uint32_t n_row_cells;        /* rows of the embedding table kept beyond the last one read */
    uint64_t rows_bytes;         /* of these */
    uint32_t n_spares;           /* slots that no pool owns */
    uint64_t spare_slot_bytes, spare_bytes; /* of one, of all */
    uint64_t table_bytes;        /* row staging and tables of the store */
    uint64_t fixed_bytes;
    struct sm_plan_item items[SM_PLAN_ITEMS_MAX]; /* "what lives where"; sums to total_bytes */
    uint32_t n_items;
    double miss_predicted;       /* share of expert uses; see plan.c */
    double tok_s_predicted;      /* 0: unknown */
    char note[200];              /* what was changed of the user's wishes; "" if nothing */
};

/* Errors: NOMEM (with out->needed_bytes set and a sentence naming both numbers), ARG for a context
 * above the model's own and for chunk or pool numbers that make no sense. */
SM_NODISCARD smol_status sm_plan_make(const struct sm_plan_input *in, struct sm_plan *out,
                                      smol_error *err);

/* Slots of one pool under the plan. */
static inline uint32_t sm_plan_slots(const struct sm_plan *p, uint32_t n_expert)
{
    return p->n_slots < n_expert ? p->n_slots : n_expert;
}

/* Describe the pools of a store for sm_plan_input; writes at most cap, returns the number of
 * pools. */
uint32_t sm_plan_pools_of(const struct sm_store *s, struct sm_plan_pool *out, uint32_t cap);

#endif
