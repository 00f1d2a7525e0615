/* SPDX-License-Identifier: MIT */
/* What quantising did to a model: IN writes a text, and both read it. */
#ifndef SM_TOOLS_QUANT_CHECK_H
#define SM_TOOLS_QUANT_CHECK_H

#include <smol/smol.h>

#define QUANT_CHECK_TOKENS 280u

struct quant_check {
    unsigned n;             /* tokens that were written and read */
    double ppl_in, ppl_out; /* perplexities of them */
    double kl;              /* mean KL divergence of OUT's predictions from IN's, in nats */
    bool ends_in, ends_out; /* the first choice behind them is an end of the text */
};

/* QUANT_CHECK_TOKENS tokens (fewer in a smaller context) that IN draws at temperature 1, with a
 * fixed seed, from its own start token, and never one that ends the text. One model is open at a
 * time; IN's logits wait in a file beside OUT that has no name any more. `params` as commands have
 * them; `start` is the first token. *in_failed tells which model err is of. */
smol_status quant_check_run(struct quant_check *c, const char *in, const char *out, int32_t start,
                            const smol_params *params, bool *in_failed, smol_error *err);
/* Why a result means that the model is bad, as the end of a sentence; NULL: it is not. */
const char *quant_check_bad(const struct quant_check *c);

#endif
