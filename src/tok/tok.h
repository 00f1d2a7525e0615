/* SPDX-License-Identifier: MIT */
/* Tokenisers: byte-level BPE and SPM vocabularies of GGUF files. A tokeniser is read-only after it
 * is made and may be shared between threads; encoding takes a work area per call and frees it. */
#ifndef SM_TOK_H
#define SM_TOK_H

#include "gguf/gguf.h"

struct sm_tok;

/* Build from tokenizer.* keys. Refuses with a sentence what is not supported; never trusts a length
 * or an id. Copies what it needs: `g` may be freed afterwards. */
SM_NODISCARD smol_status sm_tok_new(struct sm_tok **out, const struct sm_gguf *g, smol_error *err);
void sm_tok_free(struct sm_tok *t);
size_t sm_tok_memory(const struct sm_tok *t); /* bytes held */
/* Override the split rule by name (tests). Unknown name: UNSUPPORTED. */
SM_NODISCARD smol_status sm_tok_set_pre(struct sm_tok *t, const char *pre, smol_error *err);

uint32_t sm_tok_n_vocab(const struct sm_tok *t);
uint32_t sm_tok_token_bytes(const struct sm_tok *t); /* no token stands for more bytes of a text */
int32_t sm_tok_bos(const struct sm_tok *t); /* -1: none */
int32_t sm_tok_eos(const struct sm_tok *t); /* -1: none */
bool sm_tok_add_bos(const struct sm_tok *t);
bool sm_tok_add_eos(const struct sm_tok *t);
bool sm_tok_is_end(const struct sm_tok *t, int32_t id); /* any end-of-generation token */
bool sm_tok_is_special(const struct sm_tok *t, int32_t id); /* control or unknown */
/* Id of a token by its exact text (as in the file), -1: none. */
int32_t sm_tok_find(const struct sm_tok *t, const char *text, size_t n);
const char *sm_tok_model(const struct sm_tok *t); /* "gpt2", "llama" */
const char *sm_tok_pre(const struct sm_tok *t);   /* split rule in use, "" for SPM */

#define SM_TOK_PARSE_SPECIAL 1u /* control-token texts in the input become those tokens */
#define SM_TOK_ADD_SPECIAL 2u   /* bos / eos as the model wants; never a second bos */

/* Encode n bytes (any bytes, at most 682 MiB). *ids is malloc'ed by this call, never NULL when it
 * succeeds, and freed by the caller with free(); *n_ids is its length. A byte that starts no
 * well-formed UTF-8 sequence counts as U+FFFD for byte-level BPE, as itself for SPM. A byte without
 * a token becomes the unknown token, or nothing when there is none. Time grows as n log n at most.
 * Without SM_TOK_PARSE_SPECIAL only tokens that the file calls user-defined are found by their
 * text: use it so for what a user typed. */
SM_NODISCARD smol_status sm_tok_encode(const struct sm_tok *t, const char *text, size_t n,
                                       unsigned flags, int32_t **ids, size_t *n_ids,
                                       smol_error *err);

/* As sm_tok_encode, for a text that is partly a user's: typed[i] is 1 for such a byte, else 0. A
 * control token is found only where none of its bytes was typed, whatever the flags. typed == NULL:
 * nothing was. */
SM_NODISCARD smol_status sm_tok_encode_typed(const struct sm_tok *t, const char *text,
                                             const uint8_t *typed, size_t n, unsigned flags,
                                             int32_t **ids, size_t *n_ids, smol_error *err);

/* Bytes of one token: at most cap are written to buf, the full length is returned. `special`: also
 * print control tokens. An id out of range gives 0. SPM spaces are kept. */
size_t sm_tok_piece(const struct sm_tok *t, int32_t id, bool special, char *buf, size_t cap);

/* Streaming decoder: what it gives is whole, well-formed UTF-8; bytes that can become no character
 * are U+FFFD, one for each beginning of one. The leading space of the first token of an SPM text is
 * dropped; set `begun` after init to keep it (a text that goes on where another ended). */
struct sm_tok_stream {
    const struct sm_tok *tok;
    bool special; /* print control tokens */
    bool begun;   /* a token was fed */
    unsigned n_held;
    char held[4];
};
void sm_tok_stream_init(struct sm_tok_stream *s, const struct sm_tok *t, bool special);
/* Feed one token; *text points at the bytes that became whole (in buf), returns their number. buf
 * must hold SM_TOK_PIECE_MAX bytes; longer pieces are impossible (checked at load). */
#define SM_TOK_PIECE_MAX 4096u
size_t sm_tok_stream_put(struct sm_tok_stream *s, int32_t id, char *buf);
/* At the end: an incomplete character held back becomes U+FFFD. buf of 16 bytes is enough. */
size_t sm_tok_stream_end(struct sm_tok_stream *s, char *buf);

#endif
