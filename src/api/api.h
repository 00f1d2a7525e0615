/* SPDX-License-Identifier: MIT */
/* The public opaque types. This layer translates and holds no logic. */
#ifndef SM_API_H
#define SM_API_H

#include "infer/generate.h"

struct smol_vocab {
    struct sm_tok *tok;
    struct sm_gguf *gguf; /* kept for the template; owned only by smol_vocab_open */
    bool owned;
};

struct smol_model {
    struct sm_engine engine;
    struct smol_vocab vocab;
};

struct smol_session { struct sm_session session; };
struct smol_sampler {
    struct sm_sampler *sampler;
    struct sm_dry_breakers *breakers; /* NULL without DRY */
};

#endif
