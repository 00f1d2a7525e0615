/* SPDX-License-Identifier: MIT */
/* The n-th allocation of the GGUF reader and writer fails, for every n. */
#include "base/mem.h"
#include "fail_alloc.h"
#include "gguf/gguf_write.h"
#include "gguf_bytes.h"
#include "json_read.h"
#include "tap.h"
#include "temp.h"

static struct sm_gguf *model;
static const char *path;

static smol_status open_model(smol_error *err)
{
    struct sm_gguf *g;
    const smol_status st = sm_gguf_open(&g, path, err);
    if (g) sm_gguf_drop_arrays(g);
    sm_gguf_free(g);
    return st;
}

static smol_status write_part(const char *to, uint16_t no, smol_error *err)
{
    struct sm_gguf_writer *w;
    smol_status st;
    const size_t half = sm_gguf_n_tensors(model) / 2;
    static const uint8_t zeros[1 << 20];
    SM_TRY(sm_gguf_writer_new(&w, err));
    SM_TRY_OUT(st, sm_gguf_writer_copy_kv(w, model, err));
    SM_TRY_OUT(st, sm_gguf_writer_set_split(w, no, 2, (uint32_t)(2 * half), err));
    SM_TRY_OUT(st, sm_gguf_writer_set_str(w, "general.name", "part", err));
    for (size_t i = no * half; i < (no + 1u) * half; i++) {
        const struct sm_tensor_info *t = sm_gguf_tensor(model, i);
        SM_TRY_OUT(st, sm_gguf_writer_add_tensor(w, t->name, t->type, t->n_dims, t->dim, err));
    }
    SM_TRY_OUT(st, sm_gguf_writer_create(w, to, err));
    for (size_t i = no * half; i < (no + 1u) * half; i++) {
        const size_t n = (size_t)sm_gguf_tensor(model, i)->bytes;
        SM_TRY_OUT(st, sm_gguf_writer_put(w, zeros, n < sizeof zeros ? n : sizeof zeros, err));
    }
    st = sm_gguf_writer_end(w, err);
out:
    sm_gguf_writer_free(w);
    return st;
}

static smol_status write_one(smol_error *err) { return write_part(temp_path("w.gguf"), 1, err); }

static void every_failure(const char *name, smol_status (*run)(smol_error *))
{
    const int64_t live = alloc_live();
    const size_t held = sm_mem_held();
    unsigned n_failures = 0, n_wrong = 0;
    for (uint64_t n = 1; n < 1000; n++) {
        smol_error err = {0};
        alloc_fail_at(n);
        const smol_status st = run(&err);
        const bool failed = alloc_failed();
        alloc_fail_at(0);
        if (!failed) {
            TAP_OK(st == SMOL_OK && n_failures > 3, "%s works after %u failures: %s", name,
                   n_failures, err.msg);
            break;
        }
        n_failures++;
        /* only drop_arrays, which then keeps everything, and stdio's buffer may do without */
        if (!(st == SMOL_OK || (st == SMOL_NOMEM && gb_is_sentence(&err)) || st == SMOL_IO) ||
            alloc_live() != live || sm_mem_held() != held) {
            n_wrong++;
            printf("# allocation %u: status %d %s, live %+d, held %+d\n", (unsigned)n, (int)st,
                   err.msg, (int)(alloc_live() - live), (int)(sm_mem_held() - held));
        }
    }
    TAP_IS_INT(n_wrong, 0, name);
}

int main(int argc, char **argv)
{
    char src[512];
    smol_error err = {0};
    tap_init(argc, argv);
    path = tap_src(src, sizeof src, "tests/data/models/rand-llama.gguf");
    if (!TAP_OK(!sm_gguf_open(&model, path, &err), "model %s", err.msg)) return tap_done();
    every_failure("open", open_model);
    every_failure("write", write_one);
    TAP_OK(!write_part(temp_path("s-00001-of-00002.gguf"), 0, &err), "part 1 %s", err.msg);
    TAP_OK(!write_part(temp_path("s-00002-of-00002.gguf"), 1, &err), "part 2 %s", err.msg);
    path = temp_path("s-00002-of-00002.gguf");
    every_failure("open a split set", open_model);
    sm_gguf_free(model);
    return tap_done();
}
