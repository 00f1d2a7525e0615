/* SPDX-License-Identifier: MIT */
/* Packs: unpack(pack(x)) == x for every model here (with SMOL_FULL also the large one of the shared
 * fixtures; under emulation one of each kind), also with dirty padding and trailing bytes, without
 * tensors and in parts; in place gives the same pack; what is refused says why; the disk never
 * holds more than promised. */
#include "disk_log.h"
#include "model_run.h"
#include "pack_files.h"
#include "tap.h"
#include "temp.h"

#include <dirent.h>
#include <errno.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <fcntl.h>

#define COUNT(a) (sizeof(a) / sizeof *(a))

static smol_error err;

/* The tensors of the pack are those of the source. */
static bool shows_source(const char *source, const char *pack)
{
    struct sm_gguf *a = NULL, *b = NULL;
    bool good = sm_gguf_open(&a, source, &err) == SMOL_OK &&
                sm_gguf_open(&b, pack, &err) == SMOL_OK && sm_gguf_pack(b) &&
                sm_gguf_n_tensors(a) == sm_gguf_n_tensors(b) && sm_gguf_n_files(b) == 1;
    for (size_t i = 0; good && i < sm_gguf_n_tensors(a); i++) {
        const struct sm_tensor_info *t = sm_gguf_tensor(a, i), *u = sm_gguf_find_tensor(b, t->name);
        good = u && u->type == t->type && u->n_dims == t->n_dims && u->bytes == t->bytes &&
               u->place && !memcmp(u->dim, t->dim, sizeof t->dim);
        if (good && u->place->n_mat > 1 && strstr(t->name, "ffn_down_exps"))
            good = u->place->stride % SM_PACK_ALIGN == 0;
        if (good && u->place->x8)
            good = sm_place_bytes(u->place, u->place->n_rows) * 100 <=
                   103 * u->place->n_rows * u->place->row_bytes;
    }
    sm_gguf_free(a);
    sm_gguf_free(b);
    return good;
}

static void round_trip(const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    char pack[600], back[600], copy[600], in_place[600];
    (void)snprintf(pack, sizeof pack, "%s/pack", temp_dir());
    (void)snprintf(back, sizeof back, "%s/back", temp_dir());
    (void)snprintf(copy, sizeof copy, "%s/%s", temp_dir(), name);
    (void)snprintf(in_place, sizeof in_place, "%s/in-place", temp_dir());
    file_copy(path, copy);
    const bool packed = pack_file(copy, pack, false, 0, &err) == SMOL_OK;
    const bool shown = packed && shows_source(copy, pack);
    const bool undone =
        packed && unpack_file(pack, back, &err) == SMOL_OK && files_same(back, copy);
    TAP_OK(shown && undone, "%s: packed and unpacked %s", name, err.msg);
    const bool moved = pack_file(copy, in_place, true, 100000, &err) == SMOL_OK;
    TAP_OK(moved && files_same(in_place, pack) && access(copy, F_OK), "%s: in place the same %s",
           name, err.msg);
    (void)unlink(copy);
    (void)unlink(pack);
    (void)unlink(back);
    (void)unlink(in_place);
}

/* Dense and held by experts, fused, with biases, tied and not, small blocks and large ones. */
static const char *const kinds[] = {"rand-qwen3-k256-q1_0.gguf", "rand-bailingmoe2-k256-q2_k.gguf",
                                    "rand-shape-gpt-oss.gguf", "rand-shape-lfm2moe.gguf"};

static bool is_kind(const char *name)
{
    for (size_t i = 0; i < COUNT(kinds); i++)
        if (!strcmp(name, kinds[i])) return true;
    return false;
}

static void every_model(const char *folder)
{
    char path[700];
    struct dirent *e;
    DIR *d = opendir(folder);
    while (d && (e = readdir(d))) {
        const size_t n = strlen(e->d_name);
        if (n < 5 || strcmp(e->d_name + n - 5, ".gguf")) continue;
        if (tap_effort() < 1 && !is_kind(e->d_name)) continue;
        (void)snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        round_trip(path);
    }
    if (d) (void)closedir(d);
}

static void dirty_files(void)
{
    char path[512], dirty[600];
    (void)source_path(path, sizeof path, "tests/data/models/rand-qwen3-k256-q2_k.gguf");
    (void)snprintf(dirty, sizeof dirty, "%s/dirty.gguf", temp_dir());
    file_copy_dirty(path, dirty, 0, 1);
    round_trip(dirty);
    file_copy_dirty(path, dirty, 300000, 2);
    round_trip(dirty);
}

static void parts(void)
{
    char path[512], set[600], one[640], pack[600], back[640], want[640];
    (void)source_path(path, sizeof path, "tests/data/models/rand-bailingmoe2-k256-q2_k.gguf");
    (void)snprintf(set, sizeof set, "%s/set", temp_dir());
    (void)snprintf(pack, sizeof pack, "%s/pack.gguf", temp_dir());
    (void)snprintf(back, sizeof back, "%s/back.gguf", temp_dir());
    file_split(path, set, 3);
    (void)snprintf(one, sizeof one, "%s-00002-of-00003.gguf", set);
    bool good = pack_file(one, pack, false, 0, &err) == SMOL_OK &&
                unpack_file(pack, back, &err) == SMOL_OK;
    for (unsigned i = 1; i <= 3; i++) {
        (void)snprintf(one, sizeof one, "%s-%05u-of-00003.gguf", set, i);
        (void)snprintf(want, sizeof want, "%s/back-%05u-of-00003.gguf", temp_dir(), i);
        good = good && files_same(one, want);
        (void)unlink(want);
    }
    TAP_OK(good, "three parts come back as three parts %s", err.msg);
    char moved[600];
    (void)snprintf(moved, sizeof moved, "%s/moved.gguf", temp_dir());
    good = pack_file(one, moved, true, 50000, &err) == SMOL_OK && files_same(moved, pack);
    for (unsigned i = 1; i <= 3; i++) {
        (void)snprintf(one, sizeof one, "%s-%05u-of-00003.gguf", set, i);
        good = good && access(one, F_OK);
    }
    TAP_OK(good, "three parts in place %s", err.msg);
    (void)unlink(pack);
    (void)unlink(moved);
}

/* ---- refusals ------------------------------------------------------------------------------- */

static void refuse(smol_status st, smol_status want, const char *part, const char *what)
{
    TAP_OK(st == want && strstr(err.msg, part), "%s: %s", what, err.msg);
}

static void refusals(void)
{
    char path[512], a[600], b[600], c[600];
    (void)source_path(path, sizeof path, "tests/data/models/rand-qwen3-k256-q1_0.gguf");
    (void)snprintf(a, sizeof a, "%s/a.gguf", temp_dir());
    (void)snprintf(b, sizeof b, "%s/b.gguf", temp_dir());
    (void)snprintf(c, sizeof c, "%s/c.gguf", temp_dir());
    file_copy(path, a);
    file_copy(path, b);
    refuse(pack_file(a, b, false, 0, &err), SMOL_IO, "exists already", "OUT is there");
    refuse(pack_file(a, b, true, 0, &err), SMOL_IO, "exists already", "OUT is there, in place");
    refuse(pack_file(a, a, true, 0, &err), SMOL_ARG, "same file", "IN is OUT");
    refuse(unpack_file(a, c, &err), SMOL_UNSUPPORTED, "is not a pack", "unpacking what is no pack");
    (void)unlink(b);
    refuse(pack_file(a, b, false, 0, &err), SMOL_OK, "", "packs");
    refuse(pack_file(b, c, false, 0, &err), SMOL_UNSUPPORTED, "is a pack already",
           "packing a pack");
    refuse(pack_file(b, c, true, 0, &err), SMOL_UNSUPPORTED, "is a pack already",
           "packing a pack in place");
    refuse(unpack_file(b, a, &err), SMOL_IO, "exists already", "unpacking over a file");
    (void)unlink(b);
    if (link(a, b)) abort();
    refuse(pack_file(a, c, true, 0, &err), SMOL_IO, "has 2 names", "IN has two links");
    (void)unlink(b);
    const int fd = open(a, O_RDONLY);
    if (flock(fd, LOCK_SH)) abort();
    refuse(pack_file(a, c, true, 0, &err), SMOL_IO, "in use by another program", "IN is being run");
    (void)flock(fd, LOCK_EX);
    refuse(pack_file(a, c, false, 0, &err), SMOL_IO, "locked", "IN is being written");
    (void)close(fd);
    refuse(pack_file(a, "/nonexistent/x", false, 0, &err), SMOL_IO, "no such folder",
           "no such folder");
    refuse(pack_file(a, "/proc/x", true, 0, &err), SMOL_IO, "", "a folder that takes no files");
    refuse(pack_file("/nonexistent", c, true, 0, &err), SMOL_IO, "no such file", "no such IN");
    TAP_OK(files_same(a, path) && access(c, F_OK) && access(b, F_OK),
           "IN is whole, nothing is left");
    if (geteuid() != 0) { /* root may write everywhere */
        char locked[600], out[640];
        (void)snprintf(locked, sizeof locked, "%s/locked", temp_dir());
        (void)snprintf(out, sizeof out, "%s/out", locked);
        if (mkdir(locked, 0555)) abort();
        refuse(pack_file(a, out, false, 0, &err), SMOL_IO, "no permission", "a read-only folder");
    }
    (void)unlink(a);
}

/* ---- full disks, failing syncs -------------------------------------------------------------- */

static void failing_disk(bool in_place)
{
    char path[512], folder[600], in[640], out[640];
    (void)source_path(path, sizeof path, "tests/data/models/rand-bailingmoe2-k256-q2_k.gguf");
    (void)snprintf(folder, sizeof folder, "%s/full", temp_dir());
    (void)snprintf(in, sizeof in, "%s/in.gguf", folder);
    (void)snprintf(out, sizeof out, "%s/out.gguf", folder);
    (void)mkdir(folder, 0777);
    unsigned n = 0, n_good = 0, n_clean = 0, n_back = 0;
    const uint64_t step = tap_effort() ? 1 : 4;
    for (uint64_t k = 1; k < 60; k += k < 12 ? step : 7 * step) {
        for (int sync = 0; sync < 2; sync++) {
            file_copy(path, in);
            disk_log_start(folder);
            if (sync) disk_fail_sync(k, EIO);
            else disk_fail_write(k, ENOSPC);
            const smol_status st = pack_file(in, out, in_place, 60000, &err);
            disk_log_stop();
            n++;
            if (st == SMOL_OK) n_good++; /* there are fewer calls */
            else if (strstr(err.msg, sync ? "Input/output error" : "No space left")) n_good++;
            else printf("# %s\n", err.msg);
            /* what was whole is whole, or the same call goes on */
            const bool whole = files_same(in, path);
            if (st != SMOL_OK && !sync && in_place) {
                n_back += whole && access(out, F_OK) != 0;
                if (!whole && !strstr(err.msg, "nothing is lost")) n_good--;
            }
            disk_skip_syncs();
            if (st != SMOL_OK && whole && !in_place) n_clean += access(out, F_OK) != 0;
            else if (st != SMOL_OK) n_clean += pack_file(in, out, true, 60000, &err) == SMOL_OK;
            else n_clean++;
            disk_log_stop();
            (void)unlink(out);
            (void)unlink(in);
        }
    }
    TAP_OK(n_good == n, "%s: %u full disks and failing syncs, each with its sentence (%u)",
           in_place ? "in place" : "beside", n, n_good);
    if (in_place)
        TAP_OK(4 * n_back > 3 * (n / 2), "full before anything was freed: all as before (%u)",
               n_back);
    TAP_OK(n_clean == n, "%s: nothing was harmed (%u)", in_place ? "in place" : "beside", n_clean);
}

/* A pack in place that stopped anywhere, then another source into the same OUT: refused as soon as
 * OUT holds something that is nowhere else, and nothing is lost. */
static void another_source(void)
{
    static const char *const names[] = {"rand-qwen3-k256-q1_0.gguf", "rand-qwen3-k256-q2_k.gguf"};
    char path[2][512], folder[600], in[2][640], out[640], back[640];
    unsigned n_refused = 0, n_taken = 0, n_wrong = 0;
    (void)snprintf(folder, sizeof folder, "%s/other", temp_dir());
    (void)snprintf(out, sizeof out, "%s/out.gguf", folder);
    (void)snprintf(back, sizeof back, "%s/back.gguf", temp_dir());
    (void)mkdir(folder, 0777);
    for (uint64_t k = 1; k < 80; k += k < 16 ? 1 : 9) {
        for (unsigned i = 0; i < 2; i++) {
            char name[540];
            (void)snprintf(name, sizeof name, "tests/data/models/%s", names[i]);
            (void)source_path(path[i], sizeof path[i], name);
            (void)snprintf(in[i], sizeof in[i], "%s/%s", folder, names[i]);
            file_copy(path[i], in[i]);
        }
        disk_log_start(folder);
        disk_fail_sync(k, EIO);
        const smol_status first = pack_file(in[0], out, true, 20000, &err);
        disk_log_stop();
        disk_skip_syncs();
        if (first == SMOL_OK) (void)unlink(out);
        const bool whole = files_same(in[0], path[0]);
        const smol_status st = pack_file(in[1], out, true, 20000, &err);
        bool good = st == SMOL_OK
                        ? whole || first == SMOL_OK
                        : strstr(err.msg, "from another file") && files_same(in[1], path[1]);
        if (st == SMOL_OK) n_taken++;
        else n_refused++, good = good && pack_file(in[0], out, true, 20000, &err) == SMOL_OK;
        good = good && unpack_file(out, back, &err) == SMOL_OK &&
               files_same(back, path[st == SMOL_OK]);
        if (!good) printf("# stopped at sync %llu: %s\n", (unsigned long long)k, err.msg);
        n_wrong += !good;
        for (unsigned i = 0; i < 2; i++) (void)unlink(in[i]);
        (void)unlink(out);
        (void)unlink(back);
        disk_log_stop();
    }
    TAP_OK(n_wrong == 0 && n_refused > 5 && n_taken > 2,
           "another source for an OUT that is not finished: "
           "%u times refused, %u times nothing was in it, %u times something was lost",
           n_refused, n_taken, n_wrong);
}

static void peak(void)
{
    char path[512], folder[600], in[640], out[640];
    const uint64_t group = 1 << 20;
    (void)source_path(path, sizeof path, "models/tiny-moe.gguf");
    (void)snprintf(folder, sizeof folder, "%s/peak", temp_dir());
    (void)snprintf(in, sizeof in, "%s/in.gguf", folder);
    (void)snprintf(out, sizeof out, "%s/out.gguf", folder);
    (void)mkdir(folder, 0777);
    file_copy(path, in);
    const uint64_t before = file_bytes(in);
    disk_log_start(folder);
    disk_log_watch_peak();
    const smol_status st = pack_file(in, out, true, group, &err);
    disk_log_stop();
    const uint64_t after = file_bytes(out), most = before > after ? before : after;
    const uint64_t used = disk_log_peak_bytes();
    TAP_OK(st == SMOL_OK && used <= most + 2 * group,
           "in place: at most %.2f MiB on the disk for %.2f "
           "and %.2f MiB, a group being 1 MiB",
           (double)used / 1048576, (double)before / 1048576, (double)after / 1048576);
    (void)unlink(out);
}

int main(int argc, char **argv)
{
    char path[512];
    tap_init(argc, argv);
    temp_prefer_memory(256); /* tests/cli/pack.case packs on the disk */
    disk_skip_syncs();
    every_model(source_path(path, sizeof path, "tests/data/models"));
    if (tap_effort()) round_trip(source_path(path, sizeof path, "models/tiny-moe.gguf"));
    round_trip(source_path(path, sizeof path, "tests/data/vocab/gpt-2.gguf")); /* no tensors */
    dirty_files();
    parts();
    refusals();
    disk_log_stop();
    failing_disk(false);
    failing_disk(true);
    another_source();
    peak();
    if (tap_effort() == 2) {
        disk_skip_syncs();
        if (file_exists(shared_path(path, sizeof path, "models/tiny-moe-q8_0.gguf")))
            round_trip(path);
        else TAP_SKIP(1, "the shared fixtures are not here");
        disk_log_stop();
    }
    return tap_done();
}
