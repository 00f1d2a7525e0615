/* SPDX-License-Identifier: MIT */
/* Learned lists of any content: refused with a sentence, or read, and then written back as they
 * were read. The first two bytes choose the model's shape. */
#include "store/learn.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static float a[16 * 64], b[16 * 64];
    static char text[1 << 16];
    uint64_t tokens, again;
    smol_error err = {0};
    if (size < 2) return 0;
    const uint32_t layers = 1 + data[0] % 16, experts = 1 + data[1] % 64;
    if (sm_learn_parse((const char *)data + 2, size - 2, layers, experts, a, &tokens, &err) !=
        SMOL_OK) {
        if (!err.msg[0]) abort();
        return 0;
    }
    const size_t n = sm_learn_format(text, sizeof text, layers, experts, a, tokens);
    if (n > sizeof text || sm_learn_parse(text, n, layers, experts, b, &again, NULL) != SMOL_OK ||
        again != tokens || memcmp(a, b, (size_t)layers * experts * sizeof *a) != 0)
        abort();
    return 0;
}
