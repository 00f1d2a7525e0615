/* SPDX-License-Identifier: MIT */
/* The ring of streamed weights: what is taken is what the file holds, whatever the sizes, the order
 * of use and the number of threads; failures reach whoever waits. */
#include "inject.h"
#include "pack_files.h"
#include "model_run.h"
#include "store/store_int.h"
#include "store/stream.h"
#include "tap.h"
#include "temp.h"

#include <unistd.h>

#define ALL ((uint64_t)1 << 40)

static smol_error err;

struct set {
    struct sm_gguf *g;
    struct sm_store *s;
    const struct sm_weight *w[64];
    unsigned n;
};

static bool open_set(struct set *o, const char *path, size_t chunk_bytes, uint64_t bytes)
{
    const struct sm_store_options so = {.stream_bytes = chunk_bytes, .stream_min_bytes = 1};
    const struct sm_store_plan plan = {.n_readers = 3};
    uint64_t streamed;
    memset(o, 0, sizeof *o);
    err = (smol_error){0};
    if (sm_gguf_open(&o->g, path, &err) != SMOL_OK ||
        sm_store_new(&o->s, o->g, &so, &err) != SMOL_OK)
        return false;
    for (size_t i = 0; i < sm_gguf_n_tensors(o->g) && o->n < 64; i++) {
        const struct sm_tensor_info *t = sm_gguf_tensor(o->g, i);
        if (t->n_dims != 2 || !sm_type_is_matrix(t->type) || t->dim[1] <= 8 || t->dim[0] < 32)
            continue;
        if (sm_store_add(o->s, t, SM_HOME_RESIDENT, &o->w[o->n++], &err) != SMOL_OK) return false;
    }
    return sm_store_stream(o->s, bytes, &streamed, &err) == SMOL_OK &&
           streamed >= (bytes < ALL ? bytes : 1) &&
           sm_store_load(o->s, &plan, &err) == SMOL_OK;
}

static void close_set(struct set *o)
{
    sm_store_free(o->s);
    sm_gguf_free(o->g);
}

/* Every row of a weight, which was begun if it is streamed, as the plain file has it. */
static bool compare(struct set *o, const struct sm_weight *w, const struct sm_gguf *plain,
                    const uint8_t *file)
{
    const struct sm_stream_item *it = sm_stream_of(o->s, w->data);
    const struct sm_tensor_info *t = sm_gguf_find_tensor(plain, w->info->name);
    const size_t row_bytes = (size_t)sm_row_bytes(w->type, w->n_in);
    const uint32_t step = it ? sm_stream_chunk_rows(it) : w->n_out,
                   n = it ? sm_stream_n_chunks(it) : 1;
    uint8_t row[65536];
    bool good = row_bytes <= sizeof row;
    for (uint32_t c = 0; c < n && good; c++) {
        const uint8_t *p = it ? sm_stream_take(o->s, it, c, 0) : w->data;
        if (!p) return false;
        for (uint32_t r = 0; r < step && c * step + r < w->n_out && good; r++) {
            const uint8_t *have = p + r * row_bytes;
            if (w->x8) {
                sm_x8_unpack_row(w->type, p, r, w->n_in, row);
                have = row;
            }
            good = !memcmp(have, file + t->at + (c * (uint64_t)step + r) * row_bytes, row_bytes);
        }
        if (it) sm_stream_give(o->s, it, c, 1);
    }
    return good;
}

static void begin(struct set *o, const struct sm_weight *w)
{
    const struct sm_stream_item *it = sm_stream_of(o->s, w->data);
    if (it) sm_stream_begin(o->s, it);
}

static bool use(struct set *o, const struct sm_weight *w, const struct sm_gguf *plain,
                const uint8_t *file)
{
    begin(o, w);
    return compare(o, w, plain, file);
}

/* The plain file, in memory and as tensors. */
static uint8_t *load_plain(const char *path, struct sm_gguf **g)
{
    size_t n;
    uint8_t *file = file_read(path, &n);
    if (!file || sm_gguf_open(g, path, &err) != SMOL_OK) abort();
    return file;
}

static void sweeps(const char *path, const char *plain_path, const char *what)
{
    struct sm_gguf *plain;
    size_t n_chunks = 0;
    uint8_t *file = load_plain(plain_path, &plain);
    static const size_t chunk_bytes[] = {1, 5000, 60000, 1 << 20};
    for (unsigned k = 0; k < 4; k++) {
        for (unsigned share = 1; share <= 2; share++) {
            struct set o;
            bool good = open_set(&o, path, chunk_bytes[k], share == 1 ? ALL : 150000);
            for (unsigned sweep = 0; sweep < 4 && good; sweep++)
                for (unsigned i = 0; i < o.n && good; i++) {
                    if (sweep == 2 && i % 3 == 1) continue; /* not used in this sweep */
                    const unsigned at = sweep == 3 ? o.n - 1 - i : i; /* another order */
                    good = use(&o, o.w[at], plain, file);
                    n_chunks += sm_stream_of(o.s, o.w[at]->data) != NULL;
                }
            TAP_OK(good, "%s: chunks of %zu bytes, %s streamed %s", what, chunk_bytes[k],
                   share == 1 ? "all" : "some", err.msg);
            close_set(&o);
        }
    }
    TAP_OK(n_chunks > 50, "%s: %zu uses were streamed", what, n_chunks);
    sm_gguf_free(plain);
    free(file);
}

/* Several products are begun, in any order, before the first chunk of any of them is taken. */
static void begun_together(const char *path)
{
    struct sm_gguf *plain;
    struct set o;
    uint8_t *file = load_plain(path, &plain);
    unsigned n_bad = 0;
    if (!open_set(&o, path, 5000, ALL) || o.n < 4) abort();
    const unsigned n_rounds = tap_effort() ? 100 : 20;
    for (unsigned round = 0; round < n_rounds; round++) {
        unsigned at[4] = {2, 0, 1, 3}, n = 3;
        if (round) {
            n = 1 + (unsigned)tap_random_below(4);
            for (unsigned i = 0; i < n; i++) at[i] = (unsigned)tap_random_below(o.n);
            for (unsigned i = 1; i < n; i++) /* no product twice in a call */
                for (unsigned k = 0; k < i; k++)
                    if (at[k] == at[i]) n = i;
        }
        for (unsigned i = 0; i < n; i++) begin(&o, o.w[at[i]]);
        for (unsigned i = 0; i < n; i++) n_bad += !compare(&o, o.w[at[i]], plain, file);
    }
    TAP_OK(n_bad == 0, "products begun together in any order: %u of %u calls are wrong", n_bad,
           n_rounds);
    close_set(&o);
    sm_gguf_free(plain);
    free(file);
}

/* What was streamed is counted, and the time of reading it and of waiting for it. */
static void figures(const char *path)
{
    struct sm_gguf *plain;
    struct set o;
    struct sm_store_stats st;
    uint8_t *file = load_plain(path, &plain);
    uint64_t sweep = 0, ring = 0;
    bool good = true;
    if (!open_set(&o, path, 5000, ALL)) abort();
    for (unsigned i = 0; i < o.n; i++)
        if (sm_stream_of(o.s, o.w[i]->data))
            sweep += o.w[i]->n_out * sm_row_bytes(o.w[i]->type, o.w[i]->n_in);
    ring = o.s->stream.ring_bytes;
    inject_start(); /* every read takes a while: they are waited for */
    (void)inject_add(&(struct inject_rule){.kind = INJECT_DELAY, .on = INJECT_READ, .first = 1,
                                           .count = UINT64_MAX, .amount = 200});
    for (unsigned i = 0; i < 2 * o.n && good; i++) good = use(&o, o.w[i % o.n], plain, file);
    inject_stop();
    sm_store_stats(o.s, &st);
    TAP_OK(good && st.stream_bytes >= 2 * sweep && st.stream_bytes <= 2 * sweep + ring,
           "two sweeps of %llu bytes are %llu and what is ahead", (unsigned long long)sweep,
           (unsigned long long)st.stream_bytes);
    TAP_OK(st.expert_bytes == 0 && st.bytes_read >= st.stream_bytes,
           "none of it is experts, all of it is read");
    TAP_OK(st.stream_busy_ns > 0 && st.flash_busy_ns >= st.stream_busy_ns,
           "the flash was busy for %.1f ms", (double)st.stream_busy_ns * 1e-6);
    TAP_OK(st.stream_wait_ns > 0 && st.demand_wait_ns >= st.stream_wait_ns,
           "and waited for for %.1f", (double)st.stream_wait_ns * 1e-6);
    close_set(&o);
    sm_gguf_free(plain);
    free(file);
}

/* From the first weight on until a read fails, as a token does; false: none failed. */
static bool fails(struct set *o)
{
    bool failed = false;
    for (unsigned sweep = 0; sweep < 3 && !failed; sweep++)
        for (unsigned i = 0; i < o->n && !failed; i++) {
            const struct sm_stream_item *it = sm_stream_of(o->s, o->w[i]->data);
            if (!it) continue;
            sm_stream_begin(o->s, it);
            for (uint32_t c = 0; c < sm_stream_n_chunks(it) && !failed; c++) {
                failed = !sm_stream_take(o->s, it, c, 0);
                if (!failed) sm_stream_give(o->s, it, c, 1);
            }
        }
    return failed;
}

static void failures(const char *path)
{
    struct sm_gguf *plain;
    uint8_t *file = load_plain(path, &plain);
    unsigned n = 0, wrong = 0, n_poisoned = 0;
    for (uint64_t k = 1; k < 40; k += tap_effort() ? 3 : 9) {
        struct set o;
        if (!open_set(&o, path, 5000, 100000)) abort();
        inject_start();
        (void)inject_add(&(struct inject_rule){.kind = INJECT_EIO, .on = INJECT_READ, .first = k,
                                               .count = UINT64_MAX});
        for (unsigned token = 0; token < 12; token++) { /* each of them fails by itself */
            smol_error e = {0};
            n++;
            wrong +=
                !fails(&o) || sm_stream_status(o.s, &e) != SMOL_IO || !strstr(e.msg, "tensor ");
        }
        /* Reads stop at a failure until it is told, and what is under way then is dropped: none
         * that failed before the stop can come to light behind it. */
        smol_error last = {0};
        wrong += !fails(&o);
        inject_stop();
        wrong += sm_stream_status(o.s, &last) != SMOL_IO;
        n++;
        bool good = true;
        for (unsigned i = 0; i < 2 * o.n && good; i++) good = use(&o, o.w[i % o.n], plain, file);
        n_poisoned += !good || sm_stream_status(o.s, NULL) != SMOL_OK;
        close_set(&o);
    }
    TAP_OK(wrong == 0, "%u failing reads reach whoever waits, %u did not", n, wrong);
    TAP_OK(n_poisoned == 0, "when reads succeed again all is right again, %u times not",
           n_poisoned);
    sm_gguf_free(plain);
    free(file);
}

int main(int argc, char **argv)
{
    char path[512], pack[600];
    tap_init(argc, argv);
    (void)alarm(600); /* a hang is a failure */
    (void)source_path(path, sizeof path, "tests/data/models/rand-qwen3-k256-q4_k_m.gguf");
    (void)snprintf(pack, sizeof pack, "%s/pack.gguf", temp_dir());
    sweeps(path, path, "plain");
    if (!TAP_OK(pack_file(path, pack, false, 0, &err) == SMOL_OK, "packs %s", err.msg))
        return tap_done();
    sweeps(pack, path, "pack");
    begun_together(path);
    figures(path);
    failures(path);
    (void)unlink(pack);
    return tap_done();
}
