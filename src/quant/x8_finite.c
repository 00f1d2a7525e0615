/* SPDX-License-Identifier: MIT */
#include "quant/x8_finite.h"

#define LANES 8u

/* The first fields of an x8 block are its f16 scales, eight of each (x8_fields.h); in IQ1_M the
 * bits of the scale are spread over the second word of each row's scales. */
bool sm_x8_finite(uint32_t type, const uint8_t *x8, size_t n)
{
    const struct sm_traits *t = sm_traits_of(type);
    const size_t bytes = LANES * (size_t)t->block_bytes;
    if (!t->finite) return true;
    for (size_t b = 0; b < n; b++, x8 += bytes) {
        if (type == SM_IQ1_M) {
            for (size_t lane = 0; lane < LANES; lane++) {
                const uint8_t *word = x8 + 4 * LANES + 4 * lane; /* bytes 52 to 55 of a block */
                if ((word[1] & 0xc0) == 0xc0 && (word[3] & 0x70) == 0x70) return false;
            }
            continue;
        }
        const size_t n_scales = LANES * (t->has_min ? 2 : 1);
        if (!sm_halves_finite(x8, n_scales, 0x7c00)) return false;
    }
    return true;
}
