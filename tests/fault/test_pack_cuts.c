/* SPDX-License-Identifier: MIT */
/* Power cuts during an in-place pack. Every prefix of what it does to the disk, with subsets of
 * what was not synced missing, is gone on with and must give the same pack as an undisturbed run.
 * More subsets and models with SMOL_FULL. */
#include "disk_log.h"
#include "model_run.h"
#include "pack_files.h"
#include "tap.h"
#include "temp.h"

#include <sys/stat.h>
#include <unistd.h>

#define GROUP_BYTES 60000u

static smol_error err;

struct names {
    char folder[500], in[600], out[600], want[600], cut[500], cut_in[600], cut_out[600];
};

static void name_all(struct names *n)
{
    (void)snprintf(n->folder, sizeof n->folder, "%s/run", temp_dir());
    (void)snprintf(n->in, sizeof n->in, "%s/in.gguf", n->folder);
    (void)snprintf(n->out, sizeof n->out, "%s/out.gguf", n->folder);
    (void)snprintf(n->want, sizeof n->want, "%s/want.gguf", temp_dir());
    (void)snprintf(n->cut, sizeof n->cut, "%s/cut", temp_dir());
    (void)snprintf(n->cut_in, sizeof n->cut_in, "%s/in.gguf", n->cut);
    (void)snprintf(n->cut_out, sizeof n->cut_out, "%s/out.gguf", n->cut);
    (void)mkdir(n->folder, 0777);
}

/* Go on after a cut; what could be run meanwhile must be the finished pack or the whole source. */
static bool goes_on(const struct names *n, const char *source)
{
    struct sm_gguf *g = NULL;
    if (sm_gguf_open(&g, n->cut_in, NULL) == SMOL_OK && !files_same(n->cut_in, source)) {
        printf("# a source that is no longer whole can be opened\n");
        sm_gguf_free(g);
        return false;
    }
    sm_gguf_free(g);
    if (sm_gguf_open(&g, n->cut_out, NULL) == SMOL_OK && !files_same(n->cut_out, n->want)) {
        printf("# a pack that is not complete can be opened\n");
        sm_gguf_free(g);
        return false;
    }
    sm_gguf_free(g);
    const smol_status st = pack_file(n->cut_in, n->cut_out, true, GROUP_BYTES, &err);
    char journal[640];
    (void)snprintf(journal, sizeof journal, "%s.journal", n->cut_out);
    if (st == SMOL_OK && files_same(n->cut_out, n->want) && access(n->cut_in, F_OK) &&
        access(journal, F_OK))
        return true;
    printf("# %s\n", st == SMOL_OK ? "the pack is another one" : err.msg);
    return false;
}

/* step: every how manieth call is a place to cut at. */
static void cut_everywhere(const char *model, unsigned n_samples, unsigned step)
{
    struct names n;
    char path[512];
    name_all(&n);
    file_copy(source_path(path, sizeof path, model), n.in);
    disk_skip_syncs();
    if (pack_file(n.in, n.want, false, 0, &err) != SMOL_OK) {
        TAP_OK(false, "%s: %s", model, err.msg);
        return;
    }
    disk_log_start(n.folder);
    const smol_status st = pack_file(n.in, n.out, true, GROUP_BYTES, &err);
    disk_log_stop();
    TAP_OK(st == SMOL_OK && files_same(n.out, n.want), "%s: in place %s", model, err.msg);
    const size_t n_calls = disk_log_n();
    unsigned tried = 0, bad = 0;
    disk_skip_syncs();
    for (size_t i = 0; i <= n_calls; i += step) {
        for (unsigned k = 0; k < n_samples; k++) {
            const enum disk_loss loss = (i / step + k) % 4 == 0   ? DISK_LOSE_ALL
                                        : (i / step + k) % 4 == 2 ? DISK_LOSE_NONE
                                                           : DISK_LOSE_SOME;
            disk_log_play(i, loss, tap_random(), n.cut);
            tried++;
            if (goes_on(&n, path)) continue;
            if (bad++ < 5) printf("# after %zu of %zu calls, loss %d\n", i, n_calls, (int)loss);
        }
    }
    disk_log_stop();
    TAP_OK(bad == 0, "%s: %u cuts along %zu calls, %u harmful", model, tried, n_calls, bad);
    (void)unlink(n.out);
    (void)unlink(n.want);
}

/* A cut during the run that goes on after a cut. */
static void cut_twice(const char *model, unsigned n_tries)
{
    struct names n;
    char path[512];
    unsigned bad = 0;
    name_all(&n);
    file_copy(source_path(path, sizeof path, model), n.in);
    disk_skip_syncs();
    if (pack_file(n.in, n.want, false, 0, &err) != SMOL_OK) return;
    for (unsigned i = 0; i < n_tries; i++) {
        file_copy(path, n.in);
        (void)unlink(n.out);
        for (unsigned round = 0; round < 3; round++) {
            disk_log_start(n.folder);
            (void)pack_file(n.in, n.out, true, GROUP_BYTES, &err);
            disk_log_stop();
            disk_log_play((size_t)tap_random_below(disk_log_n() + 1), DISK_LOSE_SOME, tap_random(),
                          n.cut);
            (void)unlink(n.in);
            (void)unlink(n.out);
            char from[640], to[640];
            static const char *const names[] = {"in.gguf", "out.gguf", "out.gguf.journal"};
            for (unsigned f = 0; f < 3; f++) {
                (void)snprintf(from, sizeof from, "%s/%s", n.cut, names[f]);
                (void)snprintf(to, sizeof to, "%s/%s", n.folder, names[f]);
                (void)unlink(to);
                if (!access(from, F_OK)) file_copy(from, to);
            }
        }
        disk_skip_syncs();
        bad += !goes_on(&n, path);
        disk_log_stop();
    }
    TAP_OK(bad == 0, "%s: three cuts in a row, %u times, %u harmful", model, n_tries, bad);
    (void)unlink(n.out);
    (void)unlink(n.in);
    (void)unlink(n.want);
}

int main(int argc, char **argv)
{
    const bool full = tap_effort() == 2;
    tap_init(argc, argv);
    temp_prefer_memory(256);
    cut_everywhere("tests/data/models/rand-qwen3-k256-q1_0.gguf", full ? 24 : 1, 1);
    cut_everywhere("tests/data/models/rand-bailingmoe2-k256-q2_k.gguf", full ? 12 : 1,
                   full ? 1 : 5);
    cut_twice("tests/data/models/rand-qwen3-k256-q2_k.gguf", full ? 300 : 6);
    return tap_done();
}
