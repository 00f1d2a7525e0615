/* SPDX-License-Identifier: MIT */
/* smol: big language models on small hardware. The only public header. */
#ifndef SMOL_H
#define SMOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- errors ------------------------------------------------------------------------------- */

/* Numbered once and never reused. */
#define SMOL_STATUS_LIST(X)                                                                        \
    X(OK, 0, "success")                                                                            \
    X(ARG, 1, "bad argument")                                                                      \
    X(NOMEM, 2, "over budget")                                                                     \
    X(IO, 3, "read or map")                                                                        \
    X(FORMAT, 4, "malformed file")                                                                 \
    X(UNSUPPORTED, 5, "valid, not implemented")                                                    \
    X(LIMIT, 6, "declared limit")                                                                  \
    X(CANCELLED, 7, "stopped by caller")

typedef enum {
#define X(name, num, text) SMOL_##name = (num),
    SMOL_STATUS_LIST(X)
#undef X
} smol_status;

/* Caller-owned; all zero = nothing yet. The first failure is kept. */
typedef struct {
    smol_status code;
    int sys;           /* errno, 0 if none */
    uint64_t at;       /* byte offset in the input, UINT64_MAX if none */
    const char *where; /* "file.c:123", static */
    char msg[200];     /* one sentence: what, where, expected, found */
} smol_error;

/* Short text of a status; never NULL, static. */
const char *smol_status_text(smol_status code);

/* Version of the library, "0.1.0". */
const char *smol_version(void);

/* ---- models ------------------------------------------------------------------------------- */

typedef struct smol_model smol_model;
typedef struct smol_vocab smol_vocab;

typedef enum { SMOL_KV_F32, SMOL_KV_F16, SMOL_KV_Q8_0 } smol_kv;

/* Tokens guessed ahead and confirmed together; the text is the same whatever is chosen. MTP: by the
 * model's own next-token block. LOOKUP: by what followed the same words earlier. AUTO: whichever
 * pays on this device, or none. */
typedef enum { SMOL_DRAFT_OFF, SMOL_DRAFT_LOOKUP, SMOL_DRAFT_MTP, SMOL_DRAFT_AUTO } smol_draft;

/* Reading progress: `what` is static text, done and total in bytes or tokens. Called by the thread
 * that called into the library. */
typedef void (*smol_progress_fn)(void *arg, const char *what, uint64_t done, uint64_t total);

#define SMOL_PREFETCH_AUTO 255u

typedef struct {
    uint64_t memory_bytes;  /* the budget; 0: what the system concedes, less a reserve */
    uint64_t caller_bytes;  /* of it: what the calling program itself will hold beside the model */
    /* of the sampler to come: it is planned; NULL: the defaults */
    const struct smol_sampling *sampling;
    unsigned threads;       /* 0: the cores this process may use */
    unsigned ctx;           /* 0: min(model's, 4096), or 2048 when memory is short */
    unsigned chunk;         /* prompt tokens per wave; 0: the plan decides */
    unsigned pool;          /* experts held per layer; 0: the plan decides */
    unsigned readers;       /* threads that read experts; 0: the plan decides */
    unsigned logit_rows;    /* rows of logits computed at once by smol_session_score; 0: 1 */
    /* layers looked ahead for reads, 0 to 3; SMOL_PREFETCH_AUTO: adaptive */
    unsigned prefetch;
    const char *policy;     /* what the pools keep: "lru", "lfu", "lfru"; NULL: the best known */
    /* List of the experts used most in earlier runs (smol_model_learn): when it is there, pools are
     * filled from it before the first token. NULL: none. */
    const char *learned_path;
    /* Levers that change the answer; zero: off. See docs/pager.md. Those on routes look at the
     * pool, which drafts would change: with them SMOL_DRAFT_AUTO drafts nothing, other kinds are
     * ARG. */
    float route_bias;          /* added to the choice of experts in the pool */
    bool route_bias_range;     /* it counts in running means of the range of the scores */
    unsigned route_bias_keep;  /* the router's so many best are taken whatever the bias */
    /* a missing expert gives way to one in the pool of this share of it */
    float route_swap;
    unsigned route_swap_keep;  /* the so many best never do */
    /* missing experts with a smaller share of the weights are left out */
    float route_drop;
    unsigned route_drop_keep;  /* the so many best never are, nor is the very best */
    unsigned experts_used;     /* experts per token, fewer than the model's; 0: the model's */
    /* Gets a trace of the routing as it comes (store/trace.h has the format); NULL: none. */
    void (*trace)(void *arg, const void *bytes, size_t n);
    void *trace_arg;
    bool ctx_shift;         /* a lever too: smol_session_shift works */
    smol_kv kv;             /* F16 unless chosen otherwise; Q8_0 is a lossy lever */
    smol_draft draft;       /* of smol_generate */
    float draft_oracle; /* tests: right drafts with this probability; each answer is first written
                           silently, then again with drafts from it. 0: off */
    const char *cpu;        /* highest kernel level; NULL: the best this CPU has */
    bool verify;            /* compare everything read with a second read */
    bool calibrate;         /* memory for smol_calibrate is planned and taken */
    double flash_mb_s;      /* built-in slow flash for tests; 0: none */
    double flash_us;        /* its latency */
    const char *device_profile; /* file of `smol bench --flash`, read if it is there; NULL: none */
    smol_progress_fn progress;
    void *progress_arg;
    const volatile bool *cancel; /* becomes true: stop with CANCELLED; may be NULL */
} smol_params;

void smol_params_default(smol_params *p);

/* Open a GGUF file: plan the memory, read what lives in RAM, start the threads. Errors: NOMEM with
 * the number needed when the budget is too small, FORMAT, UNSUPPORTED, IO, ARG, CANCELLED. */
smol_status smol_model_open(smol_model **out, const char *path, const smol_params *p,
                            smol_error *err);
void smol_model_free(smol_model *m); /* after its sessions; NULL is fine */

/* What lives where, and what is predicted. */
#define SMOL_PLAN_ITEMS 24
typedef struct {
    const char *arch;
    unsigned ctx, ctx_model, chunk, threads, readers;
    /* no token stands for more bytes of a text; 0: no vocabulary */
    unsigned token_bytes_max;
    unsigned n_layer, n_pool;         /* layers; layers with experts */
    unsigned n_expert, n_used, slots; /* experts, used per token, held per layer */
    bool experts_resident;
    uint64_t budget_bytes, total_bytes, needed_bytes; /* needed: by the smallest workable plan */
    uint64_t kv_bytes_per_token;
    uint64_t expert_bytes, expert_bytes_most; /* of one expert in the file: smallest, largest */
    uint64_t streamed_bytes;          /* dense weights that do not fit, read for every token */
    /* share of the time of reading them that computing goes on; < 0: nothing is streamed */
    double predicted_overlap;
    smol_draft draft;                 /* in use: AUTO may find that they cost too much memory */
    unsigned draft_most;              /* tokens drafted at once, at most */
    uint64_t draft_bytes;             /* of total_bytes, what drafts need */
    double predicted_tok_s;           /* without drafts; 0: unknown */
    double predicted_miss;
    unsigned n_items;
    struct { const char *what; uint64_t bytes; } items[SMOL_PLAN_ITEMS]; /* sums to total_bytes */
    char note[200];                   /* what was changed of the caller's wishes, or "" */
} smol_plan;

/* Plan from the header alone: nothing is read or allocated beyond the header. A budget that is too
 * small is NOMEM, with `out` filled as far as it goes (needed_bytes). */
smol_status smol_plan_file(const char *path, const smol_params *p, smol_plan *out, smol_error *err);

/* What a context is and costs in the KV format of `p`, from the header alone. UNSUPPORTED names the
 * architecture of the file and lists those that can be run. */
typedef struct {
    uint64_t kv_bytes_per_token; /* in the layers that see the whole context */
    uint64_t window_bytes;       /* rings of layers with a sliding window */
    uint64_t state_bytes;        /* recurrent state, whatever the context */
    /* of the plan, while memory is not short; of the model, 0: unknown */
    unsigned ctx, ctx_model;
    unsigned token_bytes_max;    /* as in smol_plan */
} smol_context_cost;
smol_status smol_context_cost_file(const char *path, const smol_params *p, smol_context_cost *out,
                                   smol_error *err);
/* Rows of the embedding: ids and logits go from 0 to this minus 1. */
size_t smol_model_n_vocab(const smol_model *m);
/* The plan a model was opened with. */
const smol_plan *smol_model_plan(const smol_model *m);

/* ---- vocabulary --------------------------------------------------------------------------- */

/* The vocabulary of a model, owned by it; or of a file that needs no weights. */
const smol_vocab *smol_model_vocab(const smol_model *m);
smol_status smol_vocab_open(smol_vocab **out, const char *path, smol_error *err);
void smol_vocab_free(smol_vocab *v); /* only those of smol_vocab_open */

#define SMOL_PARSE_SPECIAL 1u /* texts of control tokens in the input become those tokens */
#define SMOL_ADD_SPECIAL 2u   /* BOS and EOS as the model wants them, never twice */

/* Token ids of n bytes. *ids is released with smol_free. */
smol_status smol_tokenize(const smol_vocab *v, const char *text, size_t n, unsigned flags,
                          int32_t **ids, size_t *n_ids, smol_error *err);
/* Bytes of one token: at most cap are written, the full length is returned. */
size_t smol_piece(const smol_vocab *v, int32_t id, bool special, char *buf, size_t cap);
bool smol_is_end(const smol_vocab *v, int32_t id); /* any end-of-turn or end-of-text token */
int32_t smol_vocab_size(const smol_vocab *v);
int32_t smol_added_bos(const smol_vocab *v); /* BOS that SMOL_ADD_SPECIAL adds, -1: none */
void smol_free(void *p);

typedef struct {
    const char *role;    /* "system", "user", "assistant" */
    const char *content; /* any bytes; NULL: null, as of an assistant that only calls tools */
    size_t n_bytes;
    const char *reasoning; /* what the assistant thought before this answer, NULL: nothing */
    const char *extra;     /* further members as a JSON object ("tool_calls", "name"), NULL: none */
} smol_message;

/* Zero is: thinking off, nothing else. */
typedef struct {
    int thinking;        /* -1: as the template does by itself, 0: off, 1: on */
    const char *tools;   /* JSON array of tools for templates that show them, NULL: none */
    bool no_answer;      /* without the beginning of an answer behind the conversation */
    int64_t now;         /* seconds since 1970 for templates that print the date; 0: the clock */
    /* Tokens read before. Where their text begins the new text, they begin the result, so that a
     * session that holds them goes on, also when the model had cut its answer otherwise than the
     * tokeniser would. NULL: none. */
    const int32_t *kept;
    size_t n_kept;
} smol_chat_params;

typedef struct {
    bool reasoning;   /* the answer begins inside a reasoning part that the prompt opened */
    bool can_think;   /* the template looks at `thinking` */
    bool own;         /* by the model's own template; else by a built-in format */
    const char *format; /* name of the built-in format, NULL when own */
    char note[200];   /* why the template could not be used, or "" */
} smol_chat_info;

/* Token ids of a conversation as the model's template writes it, or, when that cannot be run, in
 * the built-in format that it resembles. Texts of control tokens inside the contents stay text.
 * p NULL: thinking -1 and an answer. info may be NULL. UNSUPPORTED when the file has no template or
 * one that can neither be run nor recognised; ARG when the template refuses the conversation.
 * Release with smol_free. */
smol_status smol_chat_encode(const smol_vocab *v, const smol_message *messages, size_t n,
                             const smol_chat_params *p, int32_t **ids, size_t *n_ids,
                             smol_chat_info *info, smol_error *err);
/* The same without parameters. */
smol_status smol_chat_tokenize(const smol_vocab *v, const smol_message *messages, size_t n,
                               int32_t **ids, size_t *n_ids, smol_error *err);

/* Cuts a streamed answer into what the model thinks (between <think> and </think> at its beginning)
 * and what it answers. The tags and the white space around them belong to neither. Text is handed
 * on as soon as it is clear what it is; bytes go in and come out in whole characters. */
typedef struct {
    int state;
    bool skip_space;
    unsigned n_held;
    char held[32];
} smol_reasoning;
/* False: stop. */
typedef bool (*smol_part_fn)(void *arg, bool reasoning, const char *bytes, size_t n);
void smol_reasoning_begin(smol_reasoning *r, bool inside); /* inside: smol_chat_info.reasoning */
bool smol_reasoning_put(smol_reasoning *r, const char *bytes, size_t n, smol_part_fn fn, void *arg);
bool smol_reasoning_end(smol_reasoning *r, smol_part_fn fn, void *arg);

/* ---- sessions ----------------------------------------------------------------------------- */

/* One timeline of tokens with its key/value cache. One session per model at a time. */
typedef struct smol_session smol_session;

smol_status smol_session_new(smol_session **out, smol_model *m, smol_error *err);
void smol_session_free(smol_session *s);
/* Make the session hold exactly these n tokens: the common prefix is kept, the rest is read in
 * waves. LIMIT when n is over the context. After an error the session holds the tokens that were
 * read completely, or fewer: a model with recurrent layers falls back to where the last prompt's
 * last wave began, or to nothing. */
smol_status smol_session_sync(smol_session *s, const int32_t *tokens, size_t n, smol_error *err);
/* Before smol_session_sync, where a part of what the session holds is to be left out: what stays
 * behind it and goes on in these n tokens moves up instead of being read again, its keys turned to
 * their new positions. *n_held of the n tokens are held then. Lossy: what is moved had seen what is
 * gone. ARG without smol_params.ctx_shift, which only models whose layers all keep keys and values
 * of the whole context can be opened with (else UNSUPPORTED), and without drafts by the model's own
 * block (ARG). Such a state cannot be saved (LIMIT). */
smol_status smol_session_shift(smol_session *s, const int32_t *tokens, size_t n, size_t *n_held,
                               smol_error *err);
/* Append one token. */
smol_status smol_session_append(smol_session *s, int32_t token, smol_error *err);
size_t smol_session_length(const smol_session *s);
/* The tokens that were read, *n of them, valid until the next call on the session. */
const int32_t *smol_session_tokens(const smol_session *s, size_t *n);
/* The state in a file (tokens, keys and values, logits) and back: reading the tokens again would
 * give the same bits. A file that is damaged, cut, or of another model or KV format is refused
 * (FORMAT, LIMIT, IO) and the session stays as it was; only when the file changes while it is read
 * the session is empty afterwards. */
smol_status smol_session_save(smol_session *s, const char *path, smol_error *err);
smol_status smol_session_load(smol_session *s, const char *path, smol_error *err);
/* A folder of such files, shared by all models. restore: load the one that shares most of the
 * beginning of these tokens, when that is more than the session does; *n tokens are shared then.
 * save: keep the state, replacing those that it goes on from; the oldest go when the folder holds
 * more than max_bytes, and a state larger than that is not kept (LIMIT). */
smol_status smol_cache_restore(smol_session *s, const char *folder, const int32_t *tokens,
                               size_t n_tokens, size_t *n, smol_error *err);
smol_status smol_cache_save(smol_session *s, const char *folder, uint64_t max_bytes,
                            smol_error *err);
/* Logits behind the last token, n_vocab floats, valid until the next call on the session; NULL when
 * nothing was read yet. */
const float *smol_session_logits(const smol_session *s);
/* Read n tokens in an empty context and hand over the logits of every position in order. */
typedef smol_status (*smol_score_fn)(void *arg, size_t position, const float *logits);
smol_status smol_session_score(smol_session *s, const int32_t *tokens, size_t n, smol_score_fn fn,
                               void *arg, smol_error *err);

/* ln of the probability of token `id` under the softmax of n logits; the same bits everywhere. */
double smol_logprob(const float *logits, size_t n, int32_t id);

/* ---- sampling and generation -------------------------------------------------------------- */

typedef struct {
    int32_t id;
    float bias; /* added to the token's logit before everything else; -INFINITY bans it */
} smol_logit_bias;

#define SMOL_WINDOW_MAX (1 << 20) /* tokens that penalties and DRY look back, at most */

typedef struct smol_sampling {
    float temp, top_p, min_p, typical;
    /* dynamic temperature: temp +- range by entropy; range 0: off */
    float temp_range, temp_exponent;
    float top_n_sigma;               /* <= 0: off */
    float xtc_probability, xtc_threshold; /* probability 0: off */
    int32_t mirostat;                /* 0: off, 1 or 2: instead of the filters */
    float mirostat_tau, mirostat_eta;
    int32_t top_k;
    int64_t seed; /* -1: one from the clock */
    float repeat_penalty, frequency_penalty, presence_penalty;
    int32_t repeat_last;
    float dry_multiplier, dry_base;
    int32_t dry_allowed, dry_last;
    const smol_logit_bias *bias; /* n_bias of them, copied by smol_sampler_new */
    uint32_t n_bias;
} smol_sampling;

void smol_sampling_default(smol_sampling *p);

typedef struct smol_sampler smol_sampler;
smol_status smol_sampler_new(smol_sampler **out, const smol_model *m, const smol_sampling *p,
                             smol_error *err);
void smol_sampler_free(smol_sampler *s);
/* A token became part of the text (the prompt's too): for the penalties. smol_generate does this
 * for what it draws. */
void smol_sampler_accept(smol_sampler *s, int32_t id);
uint32_t smol_sampler_seed(const smol_sampler *s); /* in use, so that a run can be repeated */

/* The k likeliest tokens under the plain softmax of logits (n_vocab of the sampler's model), before
 * any setting, likeliest first, ties to the lower id. k is cut to SMOL_TOP_MAX; returns how many
 * were written, 0 when a logit is not a number. Does not disturb the sampler's draws. */
#define SMOL_TOP_MAX 64u
typedef struct { int32_t id; double logprob; } smol_token_logprob;
size_t smol_sampler_top(smol_sampler *s, const float *logits, unsigned k, smol_token_logprob *out);

typedef enum {
    SMOL_ENDED,    /* an end-of-turn token */
    SMOL_STOPPED,  /* a stop string */
    SMOL_LENGTH,   /* max_tokens */
    SMOL_FULL,     /* the context is full */
    SMOL_CANCEL,   /* *cancel became true */
    SMOL_MEMORY    /* the system ran out of memory (the status is NOMEM) */
} smol_reason;

typedef struct {
    int64_t max_tokens;      /* -1: until the end or the context is full */
    const char *const *stop; /* stop strings, not part of the text */
    size_t n_stop;
    bool special;            /* print control tokens */
    /* Whole characters as they come; return false to stop. */
    bool (*text)(void *arg, const char *bytes, size_t n);
    /* Each token as it is drawn, the one that ends the answer included, before its text; `logits`
     * are those it was drawn from, valid during the call. May be NULL. */
    void (*token)(void *arg, int32_t id, const float *logits);
    void *arg;
    const volatile bool *cancel;
} smol_generation;

typedef struct { size_t n_tokens; smol_reason reason; } smol_outcome;

/* Continue the session: sample, print, append, until something ends it. NOMEM: the system ran out
 * of memory; what was said until then has been handed over. */
smol_status smol_generate(smol_session *s, smol_sampler *sampler, const smol_generation *g,
                          smol_outcome *out, smol_error *err);

/* ---- calibration -------------------------------------------------------------------------- */

/* Read n tokens in an empty context and add up, for every matrix of a block that they go through,
 * the squares of each input value before it is quantised; for experts, each over the tokens that
 * came to it. The sums are the same bits whatever the threads, the waves and the pools. The session
 * is empty afterwards. ARG without smol_params.calibrate; after an error the sums are worth
 * nothing. */
smol_status smol_calibrate(smol_session *s, const int32_t *tokens, size_t n, smol_error *err);

typedef struct {
    uint64_t chunks, tokens;  /* read so far */
    unsigned matrices;        /* tensors that have sums */
    uint64_t experts, unseen; /* of all layers; of these, no token came to */
    uint64_t bytes;           /* held for the sums */
} smol_calibration;
void smol_calibration_info(const smol_model *m, smol_calibration *out);
/* The sums as an importance matrix, in the GGUF form of llama.cpp: whole or not at all. `text`: the
 * name of what was read; chunk: the tokens of each call. */
smol_status smol_calibration_write(const smol_model *m, const char *path, const char *text,
                                   unsigned chunk, smol_error *err);

/* ---- statistics --------------------------------------------------------------------------- */

typedef struct {
    uint64_t tokens_prompt, tokens_generated;
    double seconds_load, seconds_prompt, seconds_decode;
    uint64_t peak_rss_bytes, budget_bytes, resident_bytes, bytes_read, load_bytes_read;
    unsigned pool_slots_per_layer;
    uint64_t expert_uses, expert_misses;
    uint64_t expert_misses_ready; /* misses whose expert was there when its layer asked */
    uint64_t expert_misses_late;  /* misses that compute had to wait for */
    double flash_busy_seconds;    /* a read was under way, after loading */
    uint64_t expert_bytes_read;   /* of bytes_read, which counts whole pages */
    /* Dense weights that do not fit: what was read of them, and for each token generated; the share
     * of the time of reading them that compute did not wait for them, < 0: nothing was streamed. */
    uint64_t streamed_bytes;
    double streamed_bytes_per_token, stream_wait_seconds, stream_overlap;
    uint64_t expert_dropped;    /* left out by route_drop; not among the uses */
    uint64_t prefetch_issued, prefetch_used, prefetch_wasted_bytes; /* experts, experts, bytes */
    uint64_t given_back_bytes;  /* of expert pools, because the system ran short of memory */
    double demand_wait_seconds; /* all compute threads idle for a read */
    bool direct;             /* all files are read past the page cache */
    const char *file_system; /* its name when it serves such reads badly ("FUSE"), else NULL */
    const char *kernel_level;
    double predicted_tok_s;  /* without drafts */
    uint64_t draft_proposed, draft_accepted; /* tokens */
    double draft_gain;       /* speed against plain steps; 0: too few of one or the other */
    unsigned n_loss_levers;
    const char *loss_levers[8];
} smol_stats;

void smol_model_stats(const smol_model *m, smol_stats *out);

/* The slots of one pool of experts as they are now, for a picture of the machinery. A slot that was
 * not loaded again since an earlier look has the same `loads`; `uses` counts how often what it held
 * was computed on. */
typedef enum { SMOL_SLOT_EMPTY, SMOL_SLOT_LOADING, SMOL_SLOT_READY } smol_slot_state;
typedef struct {
    uint32_t loads, uses;
    uint16_t expert;
    uint8_t state; /* smol_slot_state */
    bool ahead;    /* its present load began before it was needed */
} smol_slot;
/* At most cap slots of pool 0 ... plan.n_pool - 1 are written; returns how many the pool has, those
 * included that it can borrow (EMPTY until then).
 * Called by the thread that decodes (also from the callbacks of smol_generation and
 * smol_params). */
size_t smol_model_slots(const smol_model *m, unsigned pool, smol_slot *out, size_t cap);
/* Add what this run used to the list at `path`, atomically; nothing when no experts are paged. */
smol_status smol_model_learn(const smol_model *m, const char *path, smol_error *err);

/* What the library would tell a person while it works, one line at a time ("model.gguf: the file
 * system refused a direct read …"); it never prints by itself. fn may be called from any thread.
 * Set it before models are opened; NULL: no notes. */
typedef void (*smol_note_fn)(void *arg, const char *text);
void smol_notes_set(smol_note_fn fn, void *arg);

/* Names and features of this CPU and the kernel levels that run here, for people. */
void smol_cpu_text(char *buf, size_t n);

#ifdef __cplusplus
}
#endif
#endif
