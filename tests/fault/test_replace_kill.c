/* SPDX-License-Identifier: MIT */
/* Learned lists and device profiles while their writer is killed at 200 random moments: what is at
 * their place is a whole old one or a whole new one, always. (Power cuts: the file is synced before
 * it takes the name, and then its folder; test_pack_cuts plays that order through.) */
#include "plat/plat.h"
#include "store/device_profile.h"
#include "store/learn.h"
#include "tap.h"
#include "temp.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LAYERS = 20, EXPERTS = 256, N = LAYERS * EXPERTS, KILLS = 200 };

static const char *list_path, *profile_path;
static smol_error err;

/* The list of generation g: every use is g, and so are the tokens. */
static size_t make_list(char *text, size_t cap, unsigned g)
{
    static float uses[N];
    for (unsigned i = 0; i < N; i++) uses[i] = (float)(g % 1000);
    return sm_learn_format(text, cap, LAYERS, EXPERTS, uses, g % 1000 + 1);
}

static void put_profile(unsigned g)
{
    const uint32_t n = 1 + g % 6;
    const struct sm_flash_profile f = {sm_profile_device(temp_dir()), n, n << 16, 1 << 20,
                                       n,  n,  1};
    if (sm_profile_keep(profile_path, &f, &err) != SMOL_OK) _exit(1);
}

/* Generation after generation, until it is killed. */
static void write_on(unsigned g)
{
    static char text[N * 5 + 100];
    for (;; g++) {
        const size_t n = make_list(text, sizeof text, g);
        if (sm_file_replace(list_path, text, n, &err) != SMOL_OK) _exit(1);
        put_profile(g);
    }
}

static bool list_is_whole(unsigned *generation)
{
    static float uses[N];
    static char text[N * 5 + 100];
    struct sm_file *f = NULL;
    uint64_t tokens = 0;
    if (sm_file_open(&f, list_path, false, &err) != SMOL_OK) return false;
    const size_t n = (size_t)sm_file_size(f);
    bool ok = n <= sizeof text && sm_file_read(f, 0, text, n, &err) == SMOL_OK &&
              sm_learn_parse(text, n, LAYERS, EXPERTS, uses, &tokens, &err) == SMOL_OK;
    sm_file_close(f);
    for (unsigned i = 0; ok && i < N; i++) ok = uses[i] == (float)(tokens - 1);
    *generation = (unsigned)tokens;
    return ok;
}

int main(int argc, char **argv)
{
    unsigned whole = 0, profiles = 0, moved = 0, last = 0;
    static char text[N * 5 + 100];
    tap_init(argc, argv);
    list_path = temp_path("m.gguf.experts");
    profile_path = temp_path("device-profile");
    const size_t n = make_list(text, sizeof text, 0);
    if (sm_file_replace(list_path, text, n, &err) != SMOL_OK) abort();
    put_profile(0);
    for (unsigned k = 0; k < KILLS; k++) {
        unsigned generation = 0;
        struct sm_flash_profile p = {0};
        const pid_t child = fork();
        if (child < 0) abort();
        if (child == 0) write_on(k * 7);
        (void)usleep(200 + (unsigned)tap_random_below(4000));
        (void)kill(child, SIGKILL);
        int status = 0;
        if (waitpid(child, &status, 0) != child) abort();
        whole += WIFSIGNALED(status) && list_is_whole(&generation);
        moved += generation != last;
        last = generation;
        profiles += sm_profile_find(profile_path, temp_dir(), &p) &&
                    p.piece_bytes == p.n_readers << 16 && p.mb_s == p.n_readers;
    }
    TAP_OK(whole == KILLS, "%u of %u lists are whole (%s)", whole, (unsigned)KILLS, err.msg);
    TAP_OK(profiles == KILLS, "%u of %u profiles are whole", profiles, (unsigned)KILLS);
    TAP_OK(moved > KILLS / 4, "and %u times it was another one", moved);
    return tap_done();
}
