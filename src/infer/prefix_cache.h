/* SPDX-License-Identifier: MIT */
/* States of conversations in a folder, so that a prompt that begins as one of them is not read
 * again, also after a restart. Files are named after model and tokens; the oldest go first when the
 * folder is over its cap. */
#ifndef SM_PREFIX_CACHE_H
#define SM_PREFIX_CACHE_H

#include "infer/session.h"

/* If a state in `folder` shares at least SM_PREFIX_LEAST more tokens of the beginning of the
 * list than the session does, load the longest such; of a recurrent model only one that is all
 * beginning. *n: tokens that the session shares with the list afterwards. What cannot be used is
 * left alone; an error means that the best one was damaged, and the session is as it was or
 * empty. */
SM_NODISCARD smol_status sm_prefix_restore(struct sm_session *s, const char *folder,
                                           const int32_t *tokens, size_t n_tokens, size_t *n,
                                           smol_error *err);
/* Keep the session's state; states that it goes on from, and the oldest over max_bytes, are
 * removed. LIMIT when it alone is larger than that. Fewer than SM_PREFIX_LEAST tokens are not kept.
 */
#define SM_PREFIX_LEAST 16u
SM_NODISCARD smol_status sm_prefix_save(struct sm_session *s, const char *folder,
                                        uint64_t max_bytes, smol_error *err);

#endif
