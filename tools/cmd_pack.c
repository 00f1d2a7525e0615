/* SPDX-License-Identifier: MIT */
/* smol pack IN OUT [--in-place]: a model file rewritten so that nothing has to be done at load. */
#include "cpu/cpu.h"
#include "lib/command.h"
#include "lib/model_args.h"
#include "lib/progress.h"
#include "store/pack.h"

#include <inttypes.h>

int sm_cmd_pack(const struct sm_options *o, int argc, char **argv)
{
    struct sm_kern kern;
    struct sm_pack_report r;
    smol_error err = {0};
    (void)argc;
    sm_catch_interrupt();
    sm_progress_init(o->quiet);
    sm_kern_init(&kern, sm_cpu_levels());
    const struct sm_pack_options po = {.kern = &kern, .in_place = o->in_place, .verify = o->verify,
                                       .progress = sm_progress_show, .cancel = &sm_interrupted};
    const smol_status st = sm_pack_make(argv[0], argv[1], &po, &r, &err);
    sm_progress_clear();
    if (st == SMOL_CANCELLED && o->in_place)
        return sm_complain(SM_EXIT_INTERRUPTED, "stopped; the same command goes on where it was");
    if (st != SMOL_OK) return sm_report(&err);
    if (o->quiet) return SM_EXIT_DONE;
    if (!r.out_bytes) {
        fprintf(stderr, "smol: %s was complete; %s\n", argv[1],
                r.left_alone ? "nothing was left to do" : "what was left of its source is removed");
        return SM_EXIT_DONE;
    }
    fprintf(stderr, "smol: packed %.1f MiB into %.1f MiB%s", sm_mib(r.source_bytes),
            sm_mib(r.out_bytes), r.resumed ? ", after an interruption" : "");
    if (r.kernel_source_bytes)
        fprintf(stderr, "; weights in kernel layout %+.2f %%",
                100.0 * ((double)r.kernel_bytes / (double)r.kernel_source_bytes - 1.0));
    fputc('\n', stderr);
    return SM_EXIT_DONE;
}
