/* SPDX-License-Identifier: MIT */
/* The device profile: what is written is read again, what is not ours is not used. */
#include "store/device_profile.h"

#include "tap.h"
#include "temp.h"

#include <string.h>

static const struct sm_flash_profile sample = {.device = 7, .n_readers = 3, .piece_bytes = 262144,
                                               .block_bytes = 4194304, .mb_s = 278.125,
                                               .one_mb_s = 0, .random_ms = 5.5};

static void test_text(void)
{
    char text[SM_PROFILE_BYTES_MAX];
    struct sm_profile p = {.n = 2, .flash = {sample, sample}}, q;
    p.flash[1].device = UINT64_MAX;
    const size_t n = sm_profile_print(&p, text, sizeof text);
    TAP_OK(n && sm_profile_parse(&q, text, n, NULL) == SMOL_OK && q.n == 2, "text is read again");
    TAP_OK(q.flash[1].device == UINT64_MAX && q.flash[0].n_readers == 3 &&
               q.flash[0].piece_bytes == 262144 && q.flash[0].block_bytes == 4194304 &&
               q.flash[0].mb_s == 278.125 && q.flash[0].random_ms == 5.5,
           "with the same values");
    TAP_OK(q.flash[0].one_mb_s > 0, "a speed of 0 is written as a small one");
    unsigned accepted = 0;
    for (size_t cut = 0; cut < n; cut++)
        accepted += sm_profile_parse(&q, text, cut, NULL) == SMOL_OK;
    TAP_OK(accepted == 2, "cut anywhere but behind a line it is refused (%u accepted)", accepted);
    smol_error err = {0};
    text[n - 2] = 'x';
    TAP_OK(sm_profile_parse(&q, text, n, &err) == SMOL_FORMAT && q.n == 0 &&
               strstr(err.msg, "line 3"),
           "a bad line is named: %s", err.msg);
}

static void test_file(void)
{
    const char *folder = temp_dir(), *name = temp_path("profile");
    struct sm_flash_profile f = sample, found;
    TAP_OK(!sm_profile_find(name, folder, &found), "nothing is found before");
    f.device = sm_profile_device(folder);
    TAP_OK(f.device != 0 && sm_profile_device("/nowhere") == 0, "a path has a device");
    TAP_OK(sm_profile_keep(name, &f, NULL) == SMOL_OK, "kept");
    TAP_OK(sm_profile_find(name, folder, &found) && found.n_readers == 3, "and found");
    for (unsigned i = 0; i < 40; i++) {
        f.device = 1000 + i;
        if (sm_profile_keep(name, &f, NULL) != SMOL_OK) break;
    }
    TAP_OK(!sm_profile_find(name, folder, &found), "the oldest devices go");
    f.device = sm_profile_device(folder);
    f.n_readers = 5;
    TAP_OK(sm_profile_keep(name, &f, NULL) == SMOL_OK && sm_profile_find(name, folder, &found) &&
               found.n_readers == 5,
           "a newer figure replaces the older");
    (void)temp_write_text("profile", "rubbish\n");
    TAP_OK(!sm_profile_find(name, folder, &found), "rubbish is not used");
    TAP_OK(sm_profile_keep(name, &f, NULL) == SMOL_OK && sm_profile_find(name, folder, &found),
           "but replaced");
    smol_error err = {0};
    TAP_OK(sm_profile_keep("/dev/null/profile", &f, &err) != SMOL_OK && err.msg[0],
           "where nothing can be written it says so: %s", err.msg);
    TAP_OK(!sm_profile_find(NULL, folder, &found), "no name, no profile");
}

int main(void)
{
    test_text();
    test_file();
    return tap_done();
}
