/* SPDX-License-Identifier: MIT */
/* Device profiles of any content. What is accepted is in range and is read as the same when it is
 * written again. */
#include "require.h"

#include "store/device_profile.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char text[SM_PROFILE_BYTES_MAX];
    struct sm_profile p, again;
    smol_error err = {0};
    if (sm_profile_parse(&p, (const char *)data, size, &err) != SMOL_OK) {
        require(err.msg[0] && p.n == 0);
        return 0;
    }
    require(p.n <= SM_PROFILE_FLASHES);
    for (unsigned i = 0; i < p.n; i++) {
        const struct sm_flash_profile *f = &p.flash[i];
        require(f->device && f->n_readers >= 1 && f->n_readers <= SM_PROFILE_READERS_MAX);
        require(f->piece_bytes && f->piece_bytes <= SM_PROFILE_PIECE_MAX);
        require(f->block_bytes && f->block_bytes <= SM_PROFILE_BLOCK_MAX);
        require(f->mb_s > 0 && f->one_mb_s > 0 && f->random_ms > 0);
    }
    const size_t n = sm_profile_print(&p, text, sizeof text);
    require(n > 0 && sm_profile_parse(&again, text, n, NULL) == SMOL_OK && again.n == p.n);
    for (unsigned i = 0; i < p.n; i++)
        require(again.flash[i].device == p.flash[i].device &&
                again.flash[i].n_readers == p.flash[i].n_readers &&
                again.flash[i].piece_bytes == p.flash[i].piece_bytes);
    return 0;
}
