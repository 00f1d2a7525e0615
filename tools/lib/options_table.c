/* SPDX-License-Identifier: MIT */
#include "options_table.h"
#include <smol/smol.h>

#define AT(field) offsetof(struct sm_options, field)
#define PROMPTED (SM_CMD_RUN | SM_CMD_TOKENIZE)
#define PLANNED (SM_CMD_READ | SM_CMD_PLAN)
#define ANY (~0u)
#define N_MAX 2147483647.0

#define FLAG(name, letter, commands, field, frequent, help)                                        \
    {                                                                                              \
        name, letter, SM_OPTION_FLAG, commands, AT(field), 0, 0, 0, NULL, NULL, NULL, frequent,    \
            help                                                                                   \
    }
#define TEXT(name, letter, commands, field, value, frequent, help)                                 \
    {                                                                                              \
        name, letter, SM_OPTION_TEXT, commands, AT(field), 0, 0, 0, value, NULL, NULL, frequent,   \
            help                                                                                   \
    }
#define NUMBER(name, letter, kind, commands, field, lo, hi, start, value, shown, frequent, help)   \
    {                                                                                              \
        name, letter, kind, commands, AT(field), lo, hi, start, value, NULL, shown, frequent, help \
    }
#define SAMPLE(name, kind, field, lo, hi, start, value, shown, frequent, help)                     \
    NUMBER(name, 0, kind, SM_CMD_GENERATE, field, lo, hi, start, value, shown, frequent, help)

/* Order = order in --help. */
const struct sm_option sm_option_table[] = {
    TEXT("prompt", 'p', PROMPTED, prompt, "TEXT", true,
         "the prompt, taken literally (\\n is two characters)"),
    TEXT("file", 'f', PROMPTED, prompt_file, "FILE", true,
         "read the prompt from FILE, - for standard input"),
    NUMBER("predict", 'n', SM_OPTION_I64, SM_CMD_GENERATE, n_predict, -1, N_MAX, -1, "N",
           "until the answer ends", true, "generate at most N tokens"),
    TEXT("system", 0, SM_CMD_GENERATE, system, "TEXT", true, "system message of the chat"),
    FLAG("raw", 0, SM_CMD_RUN | SM_CMD_CHAT, raw, true,
         "continue the text as it is, without chat template"),

    {"host", 0, SM_OPTION_TEXT, SM_CMD_SERVE, AT(host), 0, 0, 0, "ADDRESS", NULL, "127.0.0.1", true,
     "listen on ADDRESS; 0.0.0.0: on all"},
    NUMBER("port", 0, SM_OPTION_COUNT, SM_CMD_SERVE, port, 0, 65535, 8080, "N", "8080", true,
           "listen on port N; 0: the system chooses one"),
    TEXT("api-key-file", 0, SM_CMD_SERVE, api_key_file, "FILE", true,
         "ask for one of the keys in FILE, one a line"),
    TEXT("cors", 0, SM_CMD_SERVE, cors, "ORIGIN", true,
         "let web pages of ORIGIN use the API; *: of any"),
    NUMBER("queue", 0, SM_OPTION_COUNT, SM_CMD_SERVE, queue, 1, 1024, 16, "N", "16", true,
           "requests that may wait; more are refused with 429"),

    TEXT("text", 0, SM_CMD_EVAL, text, "FILE", true, "text whose perplexity is measured"),
    TEXT("text", 0, SM_CMD_CALIBRATE, text, "FILE", true,
         "text that is read, like what the model will be used for"),
    TEXT("tokens", 0, SM_CMD_EVAL, tokens, "1,2,3", true, "token ids instead of a text"),
    TEXT("logits", 0, SM_CMD_EVAL, logits, "OUT.f32", true,
         "write all logits (float32, little-endian)"),
    FLAG("no-special", 0, SM_CMD_TOKENIZE, no_special, true,
         "special tokens' texts are plain text, and none is added"),

    FLAG("kernels", 0, SM_CMD_BENCH, bench_kernels, true,
         "measure all formats at all levels of this CPU instead"),
    TEXT("flash", 0, SM_CMD_BENCH, bench_flash, "PATH", true,
         "measure the flash of a file or folder; the result is kept"),
    NUMBER("prompt-tokens", 0, SM_OPTION_COUNT, SM_CMD_BENCH, bench_prompt, 0, 1000000, 512, "N",
           "512", true, "tokens of the prompt that is read; 0: none"),
    NUMBER("predict", 'n', SM_OPTION_COUNT, SM_CMD_BENCH, bench_gen, 0, 1000000, 64, "N", "64",
           true, "tokens that are generated; 0: none"),
    TEXT("depths", 0, SM_CMD_BENCH, bench_depths, "0,512", true,
         "tokens in the context before (0,512 when not given)"),
    NUMBER("runs", 0, SM_OPTION_COUNT, SM_CMD_BENCH, bench_runs, 1, 100, 5, "N", "5", true,
           "measurements of each kind"),
    NUMBER("ms", 0, SM_OPTION_COUNT, SM_CMD_BENCH, bench_ms, 10, 10000, 150, "MS", "150", true,
           "milliseconds of a measurement of kernels or flash"),
    TEXT("experts", 0, SM_CMD_QUANTIZE, experts, "TYPE", true,
         "format of experts; not given: they stay as they are"),
    TEXT("rest", 0, SM_CMD_QUANTIZE, rest, "TYPE", true,
         "format of other matrices; not given: they stay"),
    TEXT("imatrix", 0, SM_CMD_QUANTIZE, imatrix, "FILE", true,
         "importance matrix: which columns may lose least"),
    TEXT("types", 0, SM_CMD_SYNTH, types, "MIX", true,
         "formats: q4_k_m, q8_0, experts=q2_k,rest=q4_k, ..."),
    NUMBER("layers", 0, SM_OPTION_COUNT, SM_CMD_SYNTH, n_layers, 1, 512, 0, "N", "the shape's",
           true, "cut or raise the number of layers"),
    NUMBER("skew", 0, SM_OPTION_FLOAT, SM_CMD_SYNTH, skew, 0, 100, 1.5, "S", "1.5", true,
           "how unevenly experts are used; 0: all alike"),
    NUMBER("drift", 0, SM_OPTION_FLOAT, SM_CMD_SYNTH, drift, 0.001, 10, 0.2, "D", "0.2", true,
           "how far a layer moves the stream: how hard the next choice is to foresee"),
    NUMBER("seed", 's', SM_OPTION_I64, SM_CMD_SYNTH, synth_seed, 0, 4294967295.0, 1, "N", "1", true,
           "other weights"),

    NUMBER("memory", 'm', SM_OPTION_SIZE, PLANNED, memory_bytes, 1, 0, 0, "SIZE",
           "what the system concedes", true, "budget for everything, as 1100M"),
    NUMBER("memory", 'm', SM_OPTION_SIZE, SM_CMD_QUANTIZE, memory_bytes, 1, 0, 0, "SIZE",
           "what the system concedes", true, "budget of the comparison"),
    NUMBER("threads", 't', SM_OPTION_COUNT, PLANNED | SM_CMD_SYNTH | SM_CMD_QUANTIZE, n_threads, 1,
           64, 0, "N", "all cores", true, "compute threads, at most one a core"),
    NUMBER("ctx", 'c', SM_OPTION_COUNT, SM_CMD_COMPUTE | SM_CMD_PLAN, n_ctx, 1, N_MAX, 0, "N",
           "the model's, at most 4096", true, "context length in tokens"),
    NUMBER("ctx", 'c', SM_OPTION_COUNT, SM_CMD_CALIBRATE, n_ctx, 1, N_MAX, 0, "N", "512", true,
           "tokens of a chunk, each read from an empty context"),
    NUMBER("temp", 0, SM_OPTION_FLOAT, SM_CMD_GENERATE, temp, 0, 100, 0.8, "T", "0.8", true,
           "temperature; 0 always takes the likeliest token"),
    NUMBER("seed", 's', SM_OPTION_I64, SM_CMD_GENERATE, seed, -1, 4294967295.0, -1, "N",
           "a new one each run", true, "seed of the random draws"),
    {"stop", 0, SM_OPTION_TEXTS, SM_CMD_GENERATE, AT(stop), 0, 0, 0, "TEXT", NULL, NULL, true,
     "end the answer before TEXT; may be repeated"},
    TEXT("stats", 0, SM_CMD_READ, stats, "FILE", true,
         "write figures of the run as JSON, - for standard output"),
    FLAG("json", 0,
         SM_CMD_PLAN | SM_CMD_EVAL | SM_CMD_INSPECT | SM_CMD_TOKENIZE | SM_CMD_BENCH |
             SM_CMD_SIMULATE,
         json, true, "print JSON"),
    FLAG("cpu", 0, SM_CMD_INSPECT, show_cpu, true,
         "show what this CPU offers and which kernels are used"),
    FLAG("in-place", 0, SM_CMD_PACK, in_place, true,
         "free IN while OUT grows; goes on after a power cut"),
    FLAG("quiet", 'q', ANY, quiet, true, "no notes and no progress on stderr"),

    NUMBER("pool", 0, SM_OPTION_COUNT, PLANNED | SM_CMD_SIMULATE, n_pool, 1, 65535, 0, "N",
           "planned", false, "experts of each layer held in memory"),
    NUMBER("chunk", 0, SM_OPTION_COUNT, PLANNED, n_chunk, 1, 65536, 0, "N", "planned", false,
           "prompt tokens read together"),
    NUMBER("prefetch", 0, SM_OPTION_COUNT, SM_CMD_READ, prefetch, 0, 3, 255, "A", "adaptive",
           false, "look A layers ahead and read their experts early, 0 to 3; 0: off"),
    {"policy", 0, SM_OPTION_CHOICE, SM_CMD_READ, AT(policy), 0, 0, SM_OPT_POLICY_LFU, "P",
     "lru|lfu|lfru", "lfu", false, "what a layer's pool keeps"},
    {"route-bias", 0, SM_OPTION_PAIR_R, SM_CMD_COMPUTE | SM_CMD_SIMULATE, AT(route_bias), -100, 100,
     0, "D[r][,J]", NULL, NULL, false,
     "prefer experts in the pool by D (Dr: by D of the range of the scores), except for the J best "
     "(changes the answer)"},
    {"route-swap", 0, SM_OPTION_PAIR, SM_CMD_COMPUTE | SM_CMD_SIMULATE, AT(route_swap), 0, 1, 0,
     "R[,J]", NULL, NULL, false,
     "a missing expert behind the J best gives way to one in the pool of at least R of its weight "
     "(changes the answer)"},
    {"route-drop", 0, SM_OPTION_PAIR, SM_CMD_COMPUTE | SM_CMD_SIMULATE, AT(route_drop), 0, 1, 0,
     "S[,J]", NULL, NULL, false,
     "leave a missing expert behind the J best out when its share of the weights is below S "
     "(changes the answer)"},
    NUMBER("experts-used", 0, SM_OPTION_COUNT, SM_CMD_COMPUTE | SM_CMD_PLAN, experts_used, 1, 64,
           0, "N", "the model's", false,
           "experts per token, fewer than the model's (changes the answer)"),
    FLAG("ctx-shift", 0, SM_CMD_CHAT, ctx_shift, false,
         "move what stays of a full context instead of reading it again (changes the answer)"),
    FLAG("no-learn", 0, SM_CMD_GENERATE, no_learn, false,
         "neither use nor write the list of this model's most used experts"),
    TEXT("trace", 0, SM_CMD_COMPUTE, trace, "FILE", false, "record the routing for smol simulate"),
    TEXT("learned", 0, SM_CMD_SIMULATE, learned, "FILE", true,
         "also share slots out among layers by a MODEL.experts"),
    TEXT("svg", 0, SM_CMD_SIMULATE, svg, "FILE", true, "also draw the curves"),
    {"kv", 0, SM_OPTION_CHOICE, PLANNED, AT(kv), 0, 0, SM_OPT_KV_F16, "TYPE", "f32|f16|q8_0", "f16",
     false, "format of the keys and values kept (q8_0 changes the answer slightly)"},
    TEXT("cpu", 0, SM_CMD_READ, cpu, "LEVEL", false,
         "highest instruction set used: ref, avx2, neon, dotprod, ..."),
    FLAG("verify", 0, SM_CMD_READ | SM_CMD_PACK, verify, false,
         "compare everything read with its source"),
    {"draft", 0, SM_OPTION_CHOICE, SM_CMD_GENERATE | SM_CMD_PLAN, AT(draft), 0, 0, SM_OPT_DRAFT_OFF,
     "KIND", "off|lookup|mtp|auto", "off", false,
     "guess tokens ahead (the answer stays the same): from the text, by the model's own draft "
     "block"},
    NUMBER("draft-oracle", 0, SM_OPTION_FLOAT, SM_CMD_GENERATE, draft_oracle, 0, 1, 0, "P", "off",
           false, "tests: write the answer twice, the second time with drafts right at rate P"),
    {"flash-limit", 0, SM_OPTION_RATE, SM_CMD_READ, AT(flash_mb_s), 0, 0, 0, "MB/s[,us]", NULL,
     NULL, false, "behave like a slower flash, for tests"},

    SAMPLE("top-k", SM_OPTION_I32, top_k, 0, N_MAX, 40, "N", "40", false,
           "draw from the N likeliest tokens; 0: from all"),
    SAMPLE("top-p", SM_OPTION_FLOAT, top_p, 0, 1, 0.95, "P", "0.95", false,
           "draw from the likeliest tokens that together reach P; 1: from all"),
    SAMPLE("min-p", SM_OPTION_FLOAT, min_p, 0, 1, 0.05, "P", "0.05", false,
           "leave out tokens less likely than P times the likeliest"),
    SAMPLE("typical", SM_OPTION_FLOAT, typical, 0, 1, 1, "P", "1", false,
           "locally typical sampling; 1: off"),
    SAMPLE("repeat-penalty", SM_OPTION_FLOAT, repeat_penalty, 0.01, 100, 1, "R", "1", false,
           "make tokens that occurred less likely; 1: off"),
    SAMPLE("repeat-last", SM_OPTION_I32, repeat_last, 0, SMOL_WINDOW_MAX, 64, "N", "64", false,
           "how many tokens back the penalties look"),
    SAMPLE("frequency-penalty", SM_OPTION_FLOAT, frequency_penalty, -100, 100, 0, "F", "0", false,
           "lower a logit by F for each time the token occurred"),
    SAMPLE("presence-penalty", SM_OPTION_FLOAT, presence_penalty, -100, 100, 0, "F", "0", false,
           "lower a logit by F when the token occurred"),
    SAMPLE("dry-multiplier", SM_OPTION_FLOAT, dry_multiplier, 0, 100, 0, "F", "0", false,
           "penalty on repeating whole passages; 0: off"),
    SAMPLE("dry-base", SM_OPTION_FLOAT, dry_base, 0, 100, 1.75, "F", "1.75", false,
           "growth of that penalty with the length repeated"),
    SAMPLE("dry-allowed-length", SM_OPTION_I32, dry_allowed, 1, SMOL_WINDOW_MAX, 2, "N", "2", false,
           "longest repeat without that penalty"),
    SAMPLE("dry-last", SM_OPTION_I32, dry_last, 0, SMOL_WINDOW_MAX, 64, "N", "64", false,
           "how many tokens back it looks"),
};
const unsigned sm_option_count = sizeof sm_option_table / sizeof *sm_option_table;

_Static_assert(sizeof sm_option_table / sizeof *sm_option_table <= SM_OPTION_MAX,
               "raise the limit");
