/* SPDX-License-Identifier: MIT */
/* The state of a session in a file: its tokens, keys and values, and the last logits. The bits are
 * those that reading the tokens again would give, on every machine (Law 1), so a state may be made
 * on one and used on another.
 *
 * Little-endian: a header of 128 bytes with its own checksum, the tokens, per layer the keys and
 * the values of the positions held, the logits when there are some, then XXH3-64 of all that is
 * behind the header. A file of another model, format or cache, a cut or a changed one is refused
 * before anything of the session changes. */
#ifndef SM_SESSION_FILE_H
#define SM_SESSION_FILE_H

#include "infer/session.h"

SM_NODISCARD smol_status sm_session_save(struct sm_session *s, const char *path, smol_error *err);
SM_NODISCARD smol_status sm_session_load(struct sm_session *s, const char *path, smol_error *err);

/* A number for the model's file, its header, its length and samples of its data, and for the levers
 * on routing, which change what positions leave behind. */
SM_NODISCARD smol_status sm_session_model(struct sm_engine *e, uint64_t *out, smol_error *err);
/* Bytes of the file that saving now would write. */
uint64_t sm_session_file_bytes(const struct sm_session *s);
/* How many tokens of the list begin the state in this file, and how many it has; 0 when it is not
 * one of this session's model. */
uint32_t sm_session_file_match(struct sm_session *s, const char *path, const int32_t *tokens,
                               size_t n, uint32_t *n_file);

#endif
