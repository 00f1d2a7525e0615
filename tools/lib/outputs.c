/* SPDX-License-Identifier: MIT */
#include "outputs.h"
#include "command.h"
#include "gguf/gguf_pack.h"
#include "plat/out.h"
#include "plat/plat.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool sm_output_is_model(const char *path)
{
    static const char begins[][5] = {"GGUF", SM_PACK_UNFINISHED, SM_PACK_FREED};
    struct stat st;
    char magic[4];
    if (stat(path, &st) || !S_ISREG(st.st_mode)) return false;
    FILE *f = fopen(path, "rbe");
    const bool whole = f && fread(magic, sizeof magic, 1, f) == 1;
    if (f) (void)fclose(f);
    for (size_t i = 0; whole && i < sizeof begins / sizeof *begins; i++)
        if (!memcmp(magic, begins[i], sizeof magic)) return true;
    return false;
}

static bool write_bytes(const char *path, const char *bytes, size_t n)
{
    struct stat st;
    smol_error err = {0};
    const bool there = lstat(path, &st) == 0;
    if (!there || S_ISREG(st.st_mode)) {
        if (sm_file_replace(path, bytes, n, &err) == SMOL_OK) return true;
        errno = err.sys;
        if (!there || (errno != EACCES && errno != EPERM)) return false;
    } /* a link, a device, or a folder that takes no new file: in its place */
    FILE *f = fopen(path, "we");
    const bool written = f && fwrite(bytes, 1, n, f) == n;
    const bool closed = !f || fclose(f) == 0;
    return written && closed;
}

bool sm_output_write(const char *path, bool (*write)(FILE *f, const void *what), const void *what)
{
    char *text = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);
    const bool made = f && write(f, what);
    const bool closed = !f || fclose(f) == 0;
    const bool written = made && closed && write_bytes(path, text, n);
    const int sys = errno;
    free(text);
    errno = sys;
    return written;
}

/* With errno. A file that is there may be replaced, unless it is written in its place. */
static bool can_write(const char *path, bool in_place)
{
    const char *slash = strrchr(path, '/');
    const size_t n = slash ? (size_t)(slash - path) + 1 : 0;
    struct stat st;
    char folder[4096] = "./";
    const bool there = stat(path, &st) == 0;
    if (!there && errno != ENOENT) return false;
    if (there && S_ISDIR(st.st_mode)) {
        errno = EISDIR;
        return false;
    }
    if (there && access(path, W_OK) == 0) return true;
    if (there && (in_place || !S_ISREG(st.st_mode))) return false;
    if (n >= sizeof folder) return true; /* the write will say it */
    if (n) {
        memcpy(folder, path, n);
        folder[n] = 0;
    }
    return access(folder, W_OK | X_OK) == 0;
}

bool sm_outputs_writable(const struct sm_options *o)
{
    const struct { const char *what, *path; bool in_place; } out[] = {
        {"statistics", o->stats && !strcmp(o->stats, "-") ? NULL : o->stats, false},
        {"trace", o->trace, true},
        {"chart", o->svg, false}};
    for (size_t i = 0; i < sizeof out / sizeof *out; i++) {
        if (!out[i].path || can_write(out[i].path, out[i].in_place)) continue;
        (void)sm_complain(SM_EXIT_FAILED, "cannot write the %s to %s: %s", out[i].what,
                          out[i].path, strerror(errno));
        return false;
    }
    return true;
}

bool sm_outputs_spare_inputs(const struct sm_options *o, int n_args, char *const *args)
{
    const struct { const char *flag, *path; } out[] = {
        {"--stats", o->stats}, {"--trace", o->trace}, {"--logits", o->logits}, {"--svg", o->svg}};
    const char *const in[] = {o->prompt_file, o->text, o->learned, o->api_key_file};
    for (size_t i = 0; i < sizeof out / sizeof *out; i++) {
        const char *path = out[i].path;
        bool read = false;
        if (!path || !strcmp(path, "-")) continue;
        if (sm_output_is_model(path)) {
            (void)sm_complain(SM_EXIT_USAGE, "%s: %s is a model and is not written over",
                              out[i].flag, path);
            return false;
        }
        for (int k = 0; k < n_args; k++) read = read || sm_path_same(path, args[k]);
        for (size_t k = 0; k < sizeof in / sizeof *in; k++)
            read = read || (in[k] && strcmp(in[k], "-") != 0 && sm_path_same(path, in[k]));
        struct stat st;
        if (!read || stat(path, &st) || !S_ISREG(st.st_mode)) continue;
        (void)sm_complain(SM_EXIT_USAGE, "%s: %s is what this command reads", out[i].flag, path);
        return false;
    }
    return true;
}

bool sm_output_is_new(const char *out, const char *const *in)
{
    for (; *in; in++) {
        if (!sm_path_same(out, *in)) continue;
        (void)sm_complain(SM_EXIT_FAILED, "%s is what this command reads and is not written over",
                          out);
        return false;
    }
    if (sm_path_exists(out)) {
        (void)sm_complain(SM_EXIT_FAILED, "%s exists already", out);
        return false;
    }
    if (can_write(out, false)) return true;
    (void)sm_complain(SM_EXIT_FAILED, "cannot write %s: %s", out, strerror(errno));
    return false;
}
