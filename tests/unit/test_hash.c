/* SPDX-License-Identifier: MIT */
/* XXH3-64: published values, and the same value however a stream is cut. */
#include "base/hash.h"

#include "tap.h"

int main(int argc, char **argv)
{
    tap_init(argc, argv);
    unsigned char bytes[5000];
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (unsigned char)tap_random();

    /* Published values of XXH3-64 for the empty input. */
    TAP_OK(sm_hash64(NULL, 0, 0) == 0x2d06800538d394c2u, "empty input");
    TAP_OK(sm_hash64("smol", 4, 0) != sm_hash64("smol", 4, 1), "the seed counts");

    static const size_t lengths[] = {1, 3, 16, 17, 128, 129, 240, 241, 1024, 5000};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        const size_t n = lengths[i];
        const uint64_t whole = sm_hash64(bytes, n, 7);
        struct sm_hash h;
        sm_hash_begin(&h, 7);
        for (size_t at = 0; at < n;) {
            size_t step = (size_t)tap_random_below(300);
            if (step > n - at) step = n - at;
            sm_hash_put(&h, bytes + at, step);
            at += step;
        }
        TAP_OK(sm_hash_end(&h) == whole, "%zu bytes in pieces", n);
        bytes[n / 2] ^= 1;
        TAP_OK(sm_hash64(bytes, n, 7) != whole, "%zu bytes with one bit flipped", n);
    }
    return tap_done();
}
