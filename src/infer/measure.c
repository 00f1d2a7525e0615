/* SPDX-License-Identifier: MIT */
#include "infer/measure.h"
#include "base/mem.h"

#include <stdatomic.h>

/* ---- weights ------------------------------------------------------------------------------------ */

#define COLS 2048u                          /* 8 blocks of Q4_K */
#define GROUP_BYTES ((size_t)COLS / 256 * 144 * 8)
#define MAX_BYTES ((uint64_t)16 << 20)      /* past the caches of small devices */
#define PASSES 2                            /* the first fills translation tables and wakes cores */

struct weights_job {
    const struct sm_kern *kern;
    const uint8_t *w;
    struct sm_acts acts;
    size_t n_groups;
    atomic_size_t next;
};

static void multiply(void *arg, unsigned worker, unsigned n_workers)
{
    struct weights_job *j = arg;
    float y[64];
    (void)worker;
    (void)n_workers;
    for (;;) {
        const size_t g = atomic_fetch_add_explicit(&j->next, 8, memory_order_relaxed);
        if (g + 8 > j->n_groups) return;
        j->kern->mul_x8[SM_Q4_K](y, 64, j->w + g * GROUP_BYTES, 8, &j->acts);
    }
}

double sm_measure_weights(const struct sm_kern *k, struct sm_pool *pool, uint64_t max_bytes)
{
    const size_t bytes = (size_t)(max_bytes < MAX_BYTES ? max_bytes : MAX_BYTES);
    struct weights_job j = {.kern = k, .n_groups = bytes / GROUP_BYTES & ~(size_t)7};
    if (!j.n_groups || !k->mul_x8[SM_Q4_K]) return 0;
    const size_t acts_bytes = COLS + COLS / 256 * 4 + COLS / 16 * 2 + 3 * SM_ALIGN;
    uint8_t *w = sm_mem_new(bytes), *acts = sm_mem_new(acts_bytes);
    double speed = 0;
    if (w && acts) {
        struct sm_arena a = {.base = acts, .capacity = acts_bytes};
        j.w = w;
        j.acts = (struct sm_acts){.n_tok = 1, .n_cols = COLS, .block = 256};
        j.acts.q = SM_ARENA_NEW(&a, int8_t, COLS);
        j.acts.d = SM_ARENA_NEW(&a, float, COLS / 256);
        j.acts.s = SM_ARENA_NEW(&a, int16_t, COLS / 16);
        for (int pass = 0; pass < PASSES; pass++) {
            const uint64_t start = sm_now_ns();
            atomic_store(&j.next, 0);
            sm_pool_run(pool, multiply, &j);
            const uint64_t ns = sm_now_ns() - start;
            speed = (double)(j.n_groups * GROUP_BYTES) * 1e3 / (double)(ns ? ns : 1);
        }
    }
    sm_mem_free(w, bytes);
    sm_mem_free(acts, acts_bytes);
    return speed;
}

/* ---- flash -------------------------------------------------------------------------------------- */

#define PIECE ((size_t)1 << 20)
#define MAX_READERS 8u
#define BUDGET_NS ((uint64_t)40 * 1000 * 1000)

struct flash_job {
    struct sm_file *file;
    uint64_t bytes, start_ns;
    atomic_uint next;
    atomic_ullong done;
};

static void read_pieces(void *arg)
{
    struct flash_job *j = arg;
    const size_t stage_bytes = PIECE + 2 * SM_IO_ALIGN;
    const uint64_t n = j->bytes / PIECE;
    void *stage = NULL;
    const uint8_t *data;
    if (sm_pages_new(&stage, stage_bytes, NULL) != SMOL_OK) return;
    while (sm_now_ns() - j->start_ns < BUDGET_NS) {
        /* an odd stride visits places far apart, each once */
        const uint64_t i = atomic_fetch_add(&j->next, 1);
        if (i >= n) break;
        const uint64_t at = (i * 0x9e3779b1u % n) * PIECE;
        if (sm_file_read_direct(j->file, at, PIECE, stage, &data, NULL) != SMOL_OK) break;
        atomic_fetch_add(&j->done, PIECE);
    }
    sm_pages_free(stage, stage_bytes);
}

double sm_measure_flash(const struct sm_gguf *g, unsigned n_readers)
{
    struct flash_job j = {.start_ns = sm_now_ns()};
    struct sm_thread *t[MAX_READERS] = {NULL};
    size_t big = 0;
    for (size_t i = 1; i < sm_gguf_n_files(g); i++)
        if (sm_gguf_file_bytes(g, i) > sm_gguf_file_bytes(g, big)) big = i;
    if (sm_file_open(&j.file, sm_gguf_file_path(g, big), true, NULL) != SMOL_OK) return 0;
    j.bytes = sm_file_size(j.file);
    for (unsigned i = 0; i < n_readers && i < MAX_READERS; i++)
        if (sm_thread_new(&t[i], read_pieces, &j, "smol-flash", NULL) != SMOL_OK) t[i] = NULL;
    for (unsigned i = 0; i < MAX_READERS; i++)
        if (t[i]) sm_thread_join(t[i]);
    const uint64_t ns = sm_now_ns() - j.start_ns;
    sm_file_close(j.file);
    return (double)j.done * 1e3 / (double)(ns ? ns : 1);
}
