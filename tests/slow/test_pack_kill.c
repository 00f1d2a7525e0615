/* SPDX-License-Identifier: MIT */
/* In-place packs killed at 200 random moments, some of them again while they go on: the last run
 * gives the pack that an undisturbed run gives. (A killed process keeps its page cache:
 * test_pack_cuts is about power.) */
#include "model_run.h"
#include "pack_files.h"
#include "tap.h"
#include "temp.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#define MODEL "models/tiny-moe.gguf"
#define N_KILLS 200

static smol_error err;
static char source[512], in[600], out[600], want[600];

/* Run in place in a child and kill it after `us`; us 0: let it end. True when it had ended well. */
static bool run(unsigned us)
{
    int status = 0;
    const pid_t child = fork();
    if (child < 0) abort();
    if (child == 0) _exit(pack_file(in, out, true, 1 << 20, &err) == SMOL_OK ? 0 : 1);
    if (us) {
        (void)usleep(us);
        (void)kill(child, SIGKILL);
    }
    if (waitpid(child, &status, 0) != child) abort();
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

int main(int argc, char **argv)
{
    unsigned killed = 0, wrong = 0;
    tap_init(argc, argv);
    (void)source_path(source, sizeof source, MODEL);
    (void)snprintf(in, sizeof in, "%s/in.gguf", temp_dir());
    (void)snprintf(out, sizeof out, "%s/out.gguf", temp_dir());
    (void)snprintf(want, sizeof want, "%s/want.gguf", temp_dir());
    file_copy(source, in);
    const uint64_t start = sm_now_ns();
    if (pack_file(in, want, false, 0, &err) != SMOL_OK || !run(0)) abort();
    const uint64_t whole_us = (sm_now_ns() - start) / 1000;
    (void)unlink(out);
    while (killed < N_KILLS) {
        file_copy(source, in);
        bool done = false;
        for (unsigned again = 0; again < 3 && !done; again++) {
            done = run((unsigned)tap_random_below(whole_us) + 1);
            killed += !done;
        }
        done = done || run(0);
        if (!done || !files_same(out, want) || !access(in, F_OK)) wrong++;
        (void)unlink(out);
    }
    TAP_OK(wrong == 0, "killed %u times, %u packs were not what they should be", killed, wrong);
    return tap_done();
}
