/* SPDX-License-Identifier: MIT */
/* The n-th allocation of the quantiser fails, for every n. */
#include "base/mem.h"
#include "fail_alloc.h"
#include "gguf_bytes.h"
#include "json_read.h"
#include "store/requant.h"
#include "tap.h"
#include "temp.h"

#include <unistd.h>

static char model[512], matrix[512];

static smol_status quantise(smol_error *err)
{
    const struct sm_requant_options o = {
        .experts = SM_Q4_0, .rest = SM_Q5_0, .imatrix_path = matrix, .n_threads = 2};
    struct sm_requant *r;
    (void)unlink(temp_path("out.gguf"));
    SM_TRY(sm_requant_open(&r, model, &o, err));
    const smol_status st = sm_requant_write(r, temp_path("out.gguf"), err);
    sm_requant_free(r);
    return st;
}

int main(int argc, char **argv)
{
    unsigned n_wrong = 0, n_failures = 0;
    smol_error first = {0};
    tap_init(argc, argv);
    temp_prefer_memory(8);
    (void)tap_src(model, sizeof model, "tests/data/models/rand-qwen3moe.gguf");
    (void)tap_src(matrix, sizeof matrix, "tests/data/imatrix/good.gguf");
    TAP_OK(quantise(&first) == SMOL_OK, "works %s", first.msg);
    const int64_t live = alloc_live();
    const size_t held = sm_mem_held();
    for (uint64_t n = 1; n < 2000; n++) {
        smol_error err = {0};
        alloc_fail_at(n);
        const smol_status st = quantise(&err);
        const bool failed = alloc_failed();
        alloc_fail_at(0);
        if (!failed) {
            TAP_OK(st == SMOL_OK && n_failures > 20, "works after %u failures: %s", n_failures,
                   err.msg);
            break;
        }
        n_failures++;
        /* the room of a folder may be unknown, stdio's buffer and file locks may do without */
        const bool good =
            st == SMOL_OK || ((st == SMOL_NOMEM || st == SMOL_IO || st == SMOL_LIMIT) &&
                              gb_is_sentence(&err) && access(temp_path("out.gguf"), F_OK) != 0);
        if (!good || alloc_live() != live || sm_mem_held() != held ||
            access(temp_path("out.gguf.part"), F_OK) == 0) {
            n_wrong++;
            printf("# allocation %u: status %d %s, live %+d, held %+d\n", (unsigned)n, (int)st,
                   err.msg, (int)(alloc_live() - live), (int)(sm_mem_held() - held));
        }
    }
    TAP_IS_INT(n_wrong, 0, "allocations whose failure is no sentence, or leaves something");
    return tap_done();
}
