/* SPDX-License-Identifier: MIT */
/* smol synth SHAPE OUT: a model of a known or given shape with made-up weights. Pieces of about a
 * megabyte are made by all threads while the pieces before them are written: memory stays at two
 * batches of pieces, and the bytes do not depend on the number of threads. */
#include "synth.h"

#include "lib/command.h"
#include "lib/model_args.h"
#include "lib/progress.h"

#include "gguf/gguf_write.h"
#include "plat/out.h"
#include "plat/plat.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define PIECE_BYTES ((size_t)1 << 20)
#define PIECES 24u /* of a batch */

struct piece {
    uint32_t tensor;
    uint64_t first, n; /* blocks */
    size_t bytes;
};
struct batch {
    struct piece piece[PIECES];
    unsigned n;
    uint8_t *bytes; /* PIECES * PIECE_BYTES */
};

struct synth {
    struct synth_list list;
    struct synth_maker *maker;
    struct sm_gguf_writer *w;
    struct sm_pool *pool;
    struct batch batch[2];
    uint32_t tensor; /* the next piece's */
    uint64_t block;
    uint64_t written, total;
    smol_status st;
    smol_error *err;
};

static unsigned cut(void *arg, unsigned side)
{
    struct synth *s = arg;
    struct batch *b = &s->batch[side];
    b->n = 0;
    while (b->n < PIECES && s->tensor < s->list.n) {
        const struct synth_maker *m = &s->maker[s->tensor];
        const size_t each = m->traits->block_bytes;
        const uint64_t most = PIECE_BYTES / each / SYNTH_RUN * SYNTH_RUN;
        const uint64_t left = m->n_blocks - s->block, n = left < most ? left : most;
        b->piece[b->n++] = (struct piece){s->tensor, s->block, n, (size_t)n * each};
        s->block += n;
        if (s->block == m->n_blocks) {
            s->block = 0;
            s->tensor++;
        }
    }
    return b->n;
}

static void write_batch(void *arg, unsigned side)
{
    struct synth *s = arg;
    const struct batch *b = &s->batch[side];
    for (unsigned i = 0; i < b->n && s->st == SMOL_OK; i++) {
        s->st = sm_gguf_writer_put(s->w, b->bytes + i * PIECE_BYTES, b->piece[i].bytes, s->err);
        s->written += b->piece[i].bytes;
    }
    sm_progress_show(NULL, "writing", s->written, s->total);
}

static bool make_piece(void *arg, unsigned side, unsigned item, unsigned worker)
{
    struct synth *s = arg;
    struct batch *b = &s->batch[side];
    const struct piece *p = &b->piece[item];
    (void)worker;
    synth_maker_fill(&s->maker[p->tensor], p->first, p->n, b->bytes + item * PIECE_BYTES);
    return true;
}

static bool go_on(void *arg)
{
    struct synth *s = arg;
    if (s->st == SMOL_OK && sm_interrupted) s->st = SM_FAIL(s->err, CANCELLED, "stopped");
    return s->st == SMOL_OK;
}

static smol_status declare(struct synth *s, const struct synth_settings *set)
{
    s->maker = calloc(s->list.n, sizeof *s->maker);
    if (!s->maker) return SM_FAIL(s->err, NOMEM, "no memory for %zu tensors", s->list.n);
    for (uint32_t i = 0; i < s->list.n; i++) {
        const struct synth_tensor *t = &s->list.v[i];
        SM_TRY(sm_gguf_writer_add_tensor(s->w, t->name, t->type, t->n_dims, t->dim, s->err));
        SM_TRY(synth_maker_init(&s->maker[i], t, i ? &s->maker[0] : NULL, (set->seed << 20) + i,
                                s->err));
        s->total += s->maker[i].n_blocks * s->maker[i].traits->block_bytes;
    }
    return SMOL_OK;
}

static smol_status make(struct synth *s, const struct synth_shape *shape,
                        const struct synth_mix *mix, const char *types,
                        const struct synth_settings *set, unsigned n_threads, const char *path)
{
    SM_TRY(sm_gguf_writer_new(&s->w, s->err));
    SM_TRY(synth_keys_write(s->w, shape, types, s->err));
    SM_TRY(synth_vocab_write(s->w, shape, s->err));
    SM_TRY(synth_list_make(&s->list, shape, mix, set, s->err));
    SM_TRY(declare(s, set));
    SM_TRY(sm_pool_new(&s->pool, n_threads ? n_threads : sm_cores_allowed(), s->err));
    for (int i = 0; i < 2; i++) {
        s->batch[i].bytes = malloc(PIECES * PIECE_BYTES);
        if (!s->batch[i].bytes) return SM_FAIL(s->err, NOMEM, "no memory for the pieces");
    }
    SM_TRY(sm_gguf_writer_create(s->w, path, s->err));
    sm_pool_batches(s->pool, &(struct sm_batches){cut, make_piece, write_batch, go_on, s});
    SM_TRY(s->st);
    return sm_gguf_writer_end(s->w, s->err);
}

static void free_synth(struct synth *s)
{
    sm_gguf_writer_free(s->w);
    sm_pool_free(s->pool);
    if (s->maker)
        for (size_t i = 0; i < s->list.n; i++) synth_maker_free(&s->maker[i]);
    free(s->maker);
    free(s->list.v);
    for (int i = 0; i < 2; i++) free(s->batch[i].bytes);
}

static void print_list(FILE *f, const char *what, const char *(*name)(unsigned))
{
    size_t at = 0;
    fprintf(f, "\n%s", what);
    for (unsigned i = 0; name(i); i++) {
        const size_t n = strlen(name(i)) + 1;
        if (i == 0 || at + n > 96) at = (size_t)fprintf(f, "\n ") - 1;
        at += (size_t)fprintf(f, " %s", name(i));
    }
    fputc('\n', f);
}

void sm_synth_help(FILE *f)
{
    print_list(f, "Shapes:", synth_shape_name);
    print_list(f, "A shape may be changed, NAME,key=value,... or arch=ARCHITECTURE,key=value,...:",
               synth_shape_key);
    fputs("\nA mix is a format for everything or parts=FORMAT: embd head attn ffn shared "
          "experts, and rest for\nall but the experts. A format is any of GGUF's or q2_k_m "
          "q3_k_m q4_k_m q5_k_m, which give some\nmatrices more bits.\n", f);
}

int sm_cmd_synth(const struct sm_options *o, int argc, char **argv)
{
    struct synth_shape shape;
    struct synth_mix mix;
    smol_error err = {0};
    (void)argc;
    if (synth_shape_read(&shape, argv[0], &err) != SMOL_OK) return sm_report(&err);
    const char *types = o->types ? o->types : shape.types;
    if (synth_mix_read(&mix, types, &err) != SMOL_OK) return sm_report(&err);
    if (o->n_layers) {
        shape.layers = o->n_layers;
        if (shape.dense > shape.layers) shape.dense = shape.layers;
    }
    if (sm_path_exists(argv[1])) return sm_complain(SM_EXIT_FAILED, "%s exists already", argv[1]);
    const struct synth_settings set = {o->skew, o->drift, (uint64_t)o->synth_seed};
    struct synth *s = calloc(1, sizeof *s);
    if (!s) return sm_complain(SM_EXIT_FAILED, "out of memory");
    s->err = &err;
    sm_progress_init(o->quiet);
    sm_catch_interrupt();
    const uint64_t start = sm_now_ns();
    smol_status st = make(s, &shape, &mix, types, &set, sm_threads_of(o), argv[1]);
    sm_progress_clear();
    const uint64_t total = s->total;
    const size_t n = s->list.n;
    free_synth(s);
    free(s);
    if (st != SMOL_OK) return sm_report(&err);
    if (!o->quiet)
        fprintf(stderr, "%s: %s, %zu tensors, %.1f MiB in %.1f s\n", argv[1], shape.arch, n,
                (double)total / 1048576.0, (double)(sm_now_ns() - start) * 1e-9);
    return SM_EXIT_DONE;
}
