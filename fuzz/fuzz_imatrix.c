/* SPDX-License-Identifier: MIT */
/* Importance matrices of any content: refused with a sentence, or every vector of every entry is
 * read and refused or made of finite weights that are not negative; and held against a model. */
#include "require.h"

#include "base/mem.h"
#include "gguf/gguf_write.h"
#include "gguf/imatrix.h"
#include "quant/quant.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Two weights, one of them a stack of two experts. */
static struct sm_gguf *make_model(void)
{
    static const uint64_t one[2] = {4, 8}, stack[3] = {4, 8, 2};
    struct sm_gguf_writer *w;
    struct sm_gguf *g = NULL;
    size_t n;
    require(sm_gguf_writer_new(&w, NULL) == SMOL_OK);
    require(sm_gguf_writer_add_tensor(w, "blk.0.attn_q.weight", SM_F32, 2, one, NULL) == SMOL_OK);
    require(sm_gguf_writer_add_tensor(w, "blk.0.ffn_up_exps.weight", SM_F32, 3, stack, NULL) ==
            SMOL_OK);
    require(sm_gguf_writer_seal(w, NULL) == SMOL_OK);
    const uint8_t *head = sm_gguf_writer_head(w, &n);
    require(sm_gguf_parse(&g, head, n, sm_gguf_writer_file_bytes(w), NULL) == SMOL_OK);
    sm_gguf_writer_free(w);
    return g;
}

/* False: a vector is refused. */
static bool read_entry(const struct sm_imatrix *im, const struct sm_imatrix_entry *e)
{
    float *v = malloc((size_t)e->n_in * sizeof *v);
    bool good = v != NULL;
    for (uint64_t m = 0; good && m < e->n_mat; m++) {
        smol_error err = {0};
        good = sm_imatrix_row(im, e, m, v, &err) == SMOL_OK;
        require(good || strlen(err.msg) > 10);
        for (uint64_t i = 0; good && i < e->n_in; i++) require(isfinite(v[i]) && v[i] >= 0);
    }
    free(v);
    return good;
}

static void read_entries(const struct sm_imatrix *im, const struct sm_gguf *g,
                         const struct sm_gguf *model)
{
    uint32_t n_entries = 0, n_bad = 0, n_here = 0, n_other = 0;
    smol_error err = {0};
    for (size_t i = 0; i < sm_gguf_n_tensors(g); i++) {
        struct sm_imatrix_entry e;
        char name[64];
        (void)snprintf(name, sizeof name, "%s", sm_gguf_tensor(g, i)->name);
        char *tail = strstr(name, ".in_sum2");
        if (!tail || tail == name || strcmp(tail, ".in_sum2") != 0) continue;
        *tail = 0;
        n_entries++;
        if (!sm_imatrix_find(im, name, &e)) continue;
        const bool here = sm_gguf_find_tensor(model, name) != NULL;
        n_here += here;
        n_bad += !read_entry(im, &e) && here;
    }
    require(n_entries >= n_here && sm_imatrix_n_entries(im) > 0);
    const smol_status st = sm_imatrix_check(im, model, &n_other, &err);
    require(st == SMOL_OK || strlen(err.msg) > 10);
    require(st != SMOL_OK || (n_bad == 0 && n_here > 0));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct sm_gguf *model;
    struct sm_imatrix *im;
    struct sm_gguf *g = NULL;
    smol_error err = {0};
    uint32_t n_chunks;
    struct sm_str name;
    if (!model) model = make_model();
    const size_t held = sm_mem_held();
    const smol_status st = sm_imatrix_parse(&im, data, size, &err);
    require((st == SMOL_OK) == (im != NULL) && err.code == st);
    if (st != SMOL_OK) {
        require(strlen(err.msg) > 10);
    } else {
        require(sm_gguf_parse(&g, data, size, size, NULL) == SMOL_OK);
        (void)sm_imatrix_n_chunks(im, &n_chunks);
        (void)sm_imatrix_dataset(im, &name);
        read_entries(im, g, model);
    }
    sm_gguf_free(g);
    sm_imatrix_free(im);
    require(sm_mem_held() == held);
    return 0;
}
