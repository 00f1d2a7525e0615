/* SPDX-License-Identifier: MIT */
#include "infer/measure.h"
#include "base/mem.h"

#include <stdatomic.h>

#define PIECE ((size_t)1 << 20)
#define MAX_READERS 8u
#define BUDGET_MS 40u

struct flash_job {
    struct sm_file *file;
    const struct sm_measure_reads *how;
    size_t piece;
    uint64_t bytes, start_ns, end_ns;
    atomic_uint next;
    atomic_ullong done, cpu_ns;
};

/* As a reader does with what came: into kernel layout. */
static void pack(const struct sm_measure_reads *how, uint8_t *to, const uint8_t *data, size_t n)
{
    const size_t row_bytes = (size_t)sm_row_bytes(how->type, how->n_in);
    const size_t rows = n / row_bytes & ~(size_t)7;
    if (rows) how->kern->pack_x8(how->type, to, data, row_bytes, rows, how->n_in);
}

static void read_pieces(void *arg)
{
    struct flash_job *j = arg;
    const size_t stage_bytes = j->piece + 2 * SM_IO_ALIGN;
    const size_t packed_bytes = j->how->kern ? j->piece + j->piece / 16 + SM_IO_ALIGN : 0;
    const uint64_t n = j->bytes / j->piece;
    void *stage = NULL;
    const uint8_t *data;
    if (sm_pages_new(&stage, stage_bytes + packed_bytes, NULL) != SMOL_OK) return;
    while (sm_now_ns() < j->end_ns) {
        /* an odd stride visits places far apart, each once */
        const uint64_t i = atomic_fetch_add(&j->next, 1);
        if (i >= n) break;
        const uint64_t at = (i * 0x9e3779b1u % n) * j->piece;
        if (sm_file_read_direct(j->file, at, j->piece, stage, &data, NULL) != SMOL_OK) break;
        if (packed_bytes) pack(j->how, (uint8_t *)stage + stage_bytes, data, j->piece);
        atomic_fetch_add(&j->done, j->piece);
    }
    atomic_fetch_add(&j->cpu_ns, sm_thread_cpu_ns());
    sm_pages_free(stage, stage_bytes + packed_bytes);
}

void sm_measure_flash(const struct sm_gguf *g, unsigned n_readers, struct sm_measure_reads *how)
{
    struct flash_job j = {.how = how, .start_ns = sm_now_ns()};
    struct sm_thread *t[MAX_READERS] = {NULL};
    size_t big = 0;
    how->mb_s = how->cpu_us_per_mb = 0;
    j.end_ns = j.start_ns + (uint64_t)(how->ms ? how->ms : BUDGET_MS) * 1000000u;
    j.piece = how->piece_bytes && how->piece_bytes < PIECE ? how->piece_bytes : PIECE;
    for (size_t i = 1; i < sm_gguf_n_files(g); i++)
        if (sm_gguf_file_bytes(g, i) > sm_gguf_file_bytes(g, big)) big = i;
    if (sm_file_open(&j.file, sm_gguf_file_path(g, big), true, NULL) != SMOL_OK) return;
    j.bytes = sm_file_size(j.file);
    for (unsigned i = 0; i < n_readers && i < MAX_READERS; i++)
        if (sm_thread_new(&t[i], read_pieces, &j, "smol-flash", NULL) != SMOL_OK) t[i] = NULL;
    for (unsigned i = 0; i < MAX_READERS; i++)
        if (t[i]) sm_thread_join(t[i]);
    const uint64_t ns = sm_now_ns() - j.start_ns;
    sm_file_close(j.file);
    if (!j.done) return;
    how->mb_s = (double)j.done * 1e3 / (double)(ns ? ns : 1);
    how->cpu_us_per_mb = (double)j.cpu_ns * 1e3 / (double)j.done;
}
