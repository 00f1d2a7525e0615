/* SPDX-License-Identifier: MIT */
/* The bytes of a sealed writer, to a sink or to a new file. */
#include "base/mem.h"
#include "gguf/gguf_int.h"
#include "gguf/gguf_write_int.h"

#include <errno.h>
#include <inttypes.h>
#include <unistd.h>

smol_status sm_gguf_writer_begin(struct sm_gguf_writer *w, sm_gguf_sink sink, void *ctx,
                                 smol_error *err)
{
    SM_TRY(sm_gguf_writer_seal(w, err));
    w->sink = sink;
    w->ctx = ctx;
    w->i_tensor = 0;
    w->done = 0;
    return sink(ctx, w->head, w->head_bytes, err);
}

static smol_status pad(struct sm_gguf_writer *w, uint64_t n, smol_error *err)
{
    static const uint8_t zeros[4096];
    while (n) {
        const size_t k = n < sizeof zeros ? (size_t)n : sizeof zeros;
        SM_TRY(w->sink(w->ctx, zeros, k, err));
        n -= k;
    }
    return SMOL_OK;
}

smol_status sm_gguf_writer_put(struct sm_gguf_writer *w, const void *data, size_t n,
                               smol_error *err)
{
    const uint8_t *p = data;
    while (n) {
        if (w->i_tensor == w->n_tensors)
            return SM_FAIL(err, ARG, "%zu bytes more than the tensors have", n);
        const struct sm_write_tensor *t = &w->tensor[w->i_tensor];
        const uint64_t left = t->bytes - w->done;
        const size_t k = left < n ? (size_t)left : n;
        SM_TRY(w->sink(w->ctx, p, k, err));
        p += k;
        n -= k;
        w->done += k;
        if (w->done == t->bytes) {
            SM_TRY(pad(w, sm_round_up64(t->bytes, w->alignment) - t->bytes, err));
            w->i_tensor++;
            w->done = 0;
        }
    }
    return SMOL_OK;
}

/* ---- files --------------------------------------------------------------------------------- */

static smol_status to_file(void *ctx, const void *data, size_t n, smol_error *err)
{
    const struct sm_gguf_writer *w = ctx;
    if (n && fwrite(data, 1, n, w->file) != n) return SM_FAIL_SYS(err, "cannot write %s", w->path);
    return SMOL_OK;
}

void sm_gguf_writer_drop_file(struct sm_gguf_writer *w)
{
    if (w->file) {
        (void)fclose(w->file);
        (void)remove(w->part_path);
    }
    w->file = NULL;
    sm_mem_free(w->path, w->path_bytes);
    sm_mem_free(w->part_path, w->part_path_bytes);
    w->path = w->part_path = NULL;
}

smol_status sm_gguf_writer_create(struct sm_gguf_writer *w, const char *path, smol_error *err)
{
    static const char tail[] = ".part";
    const size_t n = strlen(path);
    void *p;
    sm_gguf_writer_drop_file(w);
    SM_TRY(sm_gguf_writer_seal(w, err));
    SM_TRY(sm_gguf_alloc(&p, n + 1, err));
    w->path = p;
    w->path_bytes = n + 1;
    memcpy(w->path, path, n + 1);
    SM_TRY(sm_gguf_alloc(&p, n + sizeof tail, err));
    w->part_path = p;
    w->part_path_bytes = n + sizeof tail;
    memcpy(w->part_path, path, n);
    memcpy(w->part_path + n, tail, sizeof tail);
    w->file = fopen(w->part_path, "wbe");
    if (!w->file) return SM_FAIL_SYS(err, "cannot create %s", w->part_path);
    return sm_gguf_writer_begin(w, to_file, w, err);
}

smol_status sm_gguf_writer_end(struct sm_gguf_writer *w, smol_error *err)
{
    if (w->i_tensor < w->n_tensors)
        return SM_FAIL(err, ARG, "tensor %s: expected %" PRIu64 " bytes, found %" PRIu64,
                       w->tensor[w->i_tensor].name, w->tensor[w->i_tensor].bytes, w->done);
    if (!w->file) return SMOL_OK;
    if (fflush(w->file) || fsync(fileno(w->file)))
        return SM_FAIL_SYS(err, "cannot write %s", w->path);
    FILE *f = w->file;
    w->file = NULL;
    if (fclose(f) || rename(w->part_path, w->path)) {
        const int sys = errno;
        (void)remove(w->part_path);
        errno = sys;
        return SM_FAIL_SYS(err, "cannot write %s", w->path);
    }
    return SMOL_OK;
}
