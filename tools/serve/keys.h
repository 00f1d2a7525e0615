/* SPDX-License-Identifier: MIT */
/* API keys: one a line in a file, '#' begins a remark. */
#ifndef SM_SERVE_KEYS_H
#define SM_SERVE_KEYS_H

#include <smol/smol.h>

#define SM_KEY_BYTES_MAX 256u
#define SM_KEYS_MAX 256u

struct sm_keys {
    char (*key)[SM_KEY_BYTES_MAX + 1]; /* zero-padded */
    unsigned n;                        /* 0: nobody needs a key */
};

/* A file without a key, with a key that is too long or has a byte outside printable ASCII, or that
 * cannot be read is refused. *exposed: others on this machine may read the file. */
smol_status sm_keys_read(struct sm_keys *k, const char *path, bool *exposed, smol_error *err);
void sm_keys_free(struct sm_keys *k);
/* Number of the key, -1: none of them. The time taken does not depend on how much is right. */
int sm_keys_find(const struct sm_keys *k, const char *given);

#endif
