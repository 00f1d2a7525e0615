/* SPDX-License-Identifier: MIT */
/* The command line. One table (options.c) says for every option its name, kind of value, range,
 * default, help text and the commands that take it; parsing, --help and the man page are made from
 * it. An option is in the table only when it works. */
#ifndef SM_TOOLS_OPTIONS_H
#define SM_TOOLS_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* Commands as bits of a set: which commands take an option. */
#define SM_CMD_RUN (1u << 0)
#define SM_CMD_CHAT (1u << 1)
#define SM_CMD_SERVE (1u << 2)
#define SM_CMD_PLAN (1u << 3)
#define SM_CMD_EVAL (1u << 4)
#define SM_CMD_BENCH (1u << 5)
#define SM_CMD_INSPECT (1u << 6)
#define SM_CMD_TOKENIZE (1u << 7)
#define SM_CMD_SYNTH (1u << 8)
#define SM_CMD_PACK (1u << 9)
#define SM_CMD_UNPACK (1u << 10)
#define SM_CMD_QUANTIZE (1u << 11)
#define SM_CMD_SIMULATE (1u << 12)
#define SM_CMD_CALIBRATE (1u << 13)
/* Those that load a model and compute. */
#define SM_CMD_COMPUTE (SM_CMD_RUN | SM_CMD_CHAT | SM_CMD_SERVE | SM_CMD_EVAL | SM_CMD_BENCH)
/* The same without those whose answer must be the model's own: no lever for them. */
#define SM_CMD_READ (SM_CMD_COMPUTE | SM_CMD_CALIBRATE)
/* Those that print text made by the model. */
#define SM_CMD_GENERATE (SM_CMD_RUN | SM_CMD_CHAT | SM_CMD_SERVE)

#define SM_STOP_MAX 16

/* KV cache formats, numbered as enum sm_kv_type of kern.h. */
enum { SM_OPT_DRAFT_OFF, SM_OPT_DRAFT_LOOKUP, SM_OPT_DRAFT_MTP, SM_OPT_DRAFT_AUTO };
enum { SM_OPT_KV_F32, SM_OPT_KV_F16, SM_OPT_KV_Q8_0 };

enum { SM_OPT_POLICY_LRU, SM_OPT_POLICY_LFU, SM_OPT_POLICY_LFRU };

struct sm_option_pair { float value; uint32_t keep; bool range; /* "Xr" */ };

/* Values of all options, defaults filled in, ranges checked. Strings point into argv. A command
 * reads only what the table gives it. */
struct sm_options {
    /* input and output */
    const char *prompt;      /* -p: the bytes as given, no escapes; NULL: absent */
    const char *prompt_file; /* -f: a path, "-" for standard input; NULL: absent */
    const char *system;      /* --system; NULL: absent */
    bool raw;                /* --raw: no chat template */
    int64_t n_predict;       /* -n: tokens to generate; -1: until the end or the context is full */
    const char *stop[SM_STOP_MAX];
    unsigned n_stop;
    const char *stats; /* --stats: path or "-"; NULL: absent */
    bool json, quiet;
    bool no_special; /* tokenize: control tokens' texts are plain text, no BOS or EOS added */

    bool show_cpu;   /* inspect: --cpu without a value */
    bool in_place;   /* pack: free the source while the pack grows */

    /* eval, calibrate */
    const char *text;   /* --text: path */
    const char *tokens; /* --tokens: "1,2,3", as given */
    const char *logits; /* --logits: path */

    /* bench */
    bool bench_kernels;
    const char *bench_flash;  /* --flash: a file or folder */
    const char *bench_depths; /* --depths: "0,512", as given */
    uint32_t bench_prompt, bench_gen, bench_runs, bench_ms;

    /* quantize; NULL: not given */
    const char *experts, *rest; /* names of formats */
    const char *imatrix;        /* path */

    /* synth */
    const char *types;   /* --types: a mix of formats; NULL: the shape's own */
    float skew, drift;
    int64_t synth_seed;
    uint32_t n_layers;   /* 0: the shape's */
    /* serve */
    const char *host;         /* --host: address to listen on */
    uint32_t port;            /* 0: the system chooses */
    const char *api_key_file; /* NULL: no keys */
    const char *cors;         /* origin whose pages may use the API, "*": any, NULL: none */
    uint32_t queue;           /* requests that may wait */

    /* where things live and who computes; 0 = the plan decides */
    uint64_t memory_bytes;
    uint32_t n_threads; /* 1..64 */
    uint32_t n_ctx;
    uint32_t n_chunk; /* prompt tokens per wave */
    uint32_t n_pool;  /* experts per layer held in RAM */
    uint32_t prefetch; /* layers looked ahead, 0..3; SMOL_PREFETCH_AUTO */
    int policy;        /* SM_OPT_POLICY_LFU by default */
    struct sm_option_pair route_bias, route_swap, route_drop; /* D[r][,J], R[,J], S[,J] */
    uint32_t experts_used;
    bool no_learn;
    const char *trace;   /* --trace: path */
    const char *svg;     /* simulate: --svg path */
    const char *learned; /* simulate: --learned path */
    bool ctx_shift;   /* chat */
    int kv;           /* SM_OPT_KV_F16 by default */
    int draft;        /* SM_OPT_DRAFT_OFF by default */
    float draft_oracle;
    const char *cpu;  /* highest kernel level, as sm_cpu_pick takes it; NULL: auto */
    bool verify;
    double flash_mb_s, flash_us; /* --flash-limit; 0: none */

    /* sampling (names and defaults of the usual chain) */
    float temp, top_p, min_p, typical, repeat_penalty, frequency_penalty, presence_penalty;
    float dry_multiplier, dry_base;
    int32_t top_k, repeat_last, dry_allowed, dry_last;
    int64_t seed; /* -1: take one from the clock and say so; else 0..2^32-1 */
};

/* Defaults of every option. */
void sm_options_default(struct sm_options *o);

/* Parse the arguments after the command's name (argv[0] is skipped: it is that name). `command` is
 * one SM_CMD_ bit and `name` how messages call it. On success returns true and moves the arguments
 * that are no options to the front: argv[1] ... argv[*n_args]. Otherwise one sentence is on stderr
 * (exit code 2) and false is returned. `--help` sets *help and stops parsing. */
bool sm_options_parse(struct sm_options *o, unsigned command, const char *name, int argc,
                      char **argv, int *n_args, bool *help);

/* The options of one command: the frequent ones a line each, the others packed. */
void sm_options_print_help(FILE *f, unsigned command);
/* The same as a section of a manual page (roff), every option with its text; `command` is a set. */
void sm_options_print_roff(FILE *f, unsigned command);

/* Strict readers of values, for arguments that are no options too. Each returns false and leaves
 * *out alone when the text is anything but one value in range. Sizes: digits, at most three
 * decimals, then nothing or K, M, G, T (powers of 1024). */
bool sm_parse_int(const char *text, int64_t lo, int64_t hi, int64_t *out);
bool sm_parse_float(const char *text, double lo, double hi, double *out);
bool sm_parse_size(const char *text, uint64_t *out);

/* The candidate nearest to `word` (few edits), NULL when none is near. Names end with NULL. */
const char *sm_nearest(const char *word, const char *const *names);

#endif
