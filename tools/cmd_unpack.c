/* SPDX-License-Identifier: MIT */
/* smol unpack IN OUT: the file that a pack was made from, byte for byte. */
#include "lib/command.h"
#include "lib/model_args.h"
#include "lib/progress.h"
#include "store/pack.h"

int sm_cmd_unpack(const struct sm_options *o, int argc, char **argv)
{
    struct sm_pack_report r;
    smol_error err = {0};
    (void)argc;
    sm_catch_interrupt();
    sm_progress_init(o->quiet);
    const struct sm_pack_options po = {.progress = sm_progress_show, .cancel = &sm_interrupted};
    const smol_status st = sm_pack_undo(argv[0], argv[1], &po, &r, &err);
    sm_progress_clear();
    return st == SMOL_OK ? SM_EXIT_DONE : sm_report(&err);
}
