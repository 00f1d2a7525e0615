/* SPDX-License-Identifier: MIT */
/* Which passes a split rule has, and the names that mean it. In the patterns `s` is white space,
 * CI is '(s|t|re|ve|m|ll|d) in any case (CS: lower case), TAIL is s+(?!\S)|s+. */
#include "tok/split.h"

#include <string.h>

#define LETTERS SM_UC_L
#define NUMBERS SM_UC_N

/* [4E00-9FA5 3040-309F 30A0-30FF] */
static const struct sm_range cjk_kana[] = {{0x4e00, 0x9fa5}, {0x3040, 0x309f}, {0x30a0, 0x30ff},
                                           {0, 0}};
/* [4E00-9FA5 0800-4E00 AC00-D7FF] */
static const struct sm_range east[] = {{0x4e00, 0x9fa5}, {0x0800, 0x4e00}, {0xac00, 0xd7ff},
                                       {0, 0}};
static const struct sm_range line_end[] = {{'\r', '\r'}, {'\n', '\n'}, {0, 0}};
static const struct sm_range digit[] = {{'0', '9'}, {0, 0}};
/* ASCII signs (letters are in the second range too, but an earlier pass has taken them), full-width
 * signs, quotation marks, ideographic stops. */
static const struct sm_range llm_signs[] = {
    {0x21, 0x2f},     {0x3a, 0x7e},     {0xff01, 0xff0f}, {0xff1a, 0xff5e},
    {0x2018, 0x201f}, {0x3000, 0x3002}, {0, 0}};
/* The letters of deepseek-llm: most of the scripts that have case. */
static const struct sm_range llm_letters[] = {
    {0x41, 0x5a},       {0x61, 0x7a},       {0xb5, 0xb5},       {0xc0, 0xd6},
    {0xd8, 0xf6},       {0xf8, 0x1ba},      {0x1bc, 0x1bf},     {0x1c4, 0x293},
    {0x295, 0x2af},     {0x370, 0x373},     {0x376, 0x377},     {0x37b, 0x37d},
    {0x37f, 0x37f},     {0x386, 0x386},     {0x388, 0x38a},     {0x38c, 0x38c},
    {0x38e, 0x3a1},     {0x3a3, 0x3f5},     {0x3f7, 0x481},     {0x48a, 0x52f},
    {0x531, 0x556},     {0x10a0, 0x10c5},   {0x13a0, 0x13f5},   {0x13f8, 0x13fd},
    {0x1c90, 0x1cba},   {0x1cbd, 0x1cbf},   {0x1d00, 0x1d2b},   {0x1d6b, 0x1d77},
    {0x1d79, 0x1d9a},   {0x1e00, 0x1f15},   {0x1f18, 0x1f1d},   {0x1f20, 0x1f45},
    {0x1f48, 0x1f4d},   {0x1f50, 0x1f57},   {0x1f59, 0x1f59},   {0x1f5b, 0x1f5b},
    {0x1f5d, 0x1f5d},   {0x1f5f, 0x1f7d},   {0x1f80, 0x1fb4},   {0x1fb6, 0x1fbc},
    {0x1fbe, 0x1fbe},   {0x1fc2, 0x1fc4},   {0x1fc6, 0x1fcc},   {0x1fd0, 0x1fd3},
    {0x1fd6, 0x1fdb},   {0x1fe0, 0x1fec},   {0x1ff2, 0x1ff4},   {0x1ff6, 0x1ffc},
    {0x2102, 0x2102},   {0x2107, 0x2107},   {0x210a, 0x2113},   {0x2115, 0x2115},
    {0x2119, 0x211d},   {0x2124, 0x2124},   {0x2126, 0x2126},   {0x2128, 0x2128},
    {0x212a, 0x212d},   {0x212f, 0x2134},   {0x2139, 0x2139},   {0x213c, 0x213f},
    {0x2145, 0x2149},   {0x214e, 0x214e},   {0x2183, 0x2184},   {0x2c00, 0x2c7b},
    {0x2c7e, 0x2ce4},   {0x2ceb, 0x2cee},   {0x2cf2, 0x2cf3},   {0xa640, 0xa66d},
    {0xa680, 0xa69b},   {0xa722, 0xa76f},   {0xa771, 0xa787},   {0xa78b, 0xa78e},
    {0xab70, 0xabbf},   {0xfb00, 0xfb06},   {0xfb13, 0xfb17},   {0xff21, 0xff3a},
    {0xff41, 0xff5a},   {0x10400, 0x1044f}, {0x104b0, 0x104d3}, {0x104d8, 0x104fb},
    {0x10c80, 0x10cb2}, {0x10cc0, 0x10cf2}, {0x118a0, 0x118df}, {0x1e900, 0x1e943},
    {0, 0}};

#define GPT2 {.match = sm_split_match_gpt2}
/* CI | [^\r\n L N]?L+ | N{1,m} | [space]?[^ s L N]+ ends | s*[\r\n]+ | TAIL. A single [\r\n] behind
 * s* (bailingmoe2) is the same cut, since s* is greedy. */
#define WORDS(m, ends)                                                                             \
    {.match = sm_split_match_words, .contractions = true, .word = LETTERS, .max = (m),             \
     .line_ends = (ends)}
#define CASED(m, tail)                                                                             \
    {.match = sm_split_match_words, .cased = true, .tail_contractions = (tail), .word = LETTERS,   \
     .max = (m), .line_ends = '/'}
#define RUN(classes, m) {.match = sm_split_match_run, .set = (classes), .max = (m)}
#define SPACE_RUN(classes) {.match = sm_split_match_run, .space = true, .set = (classes)}
#define RANGES(list, m) {.match = sm_split_match_ranges, .range = (list), .max = (m)}
#define SPACE_RANGES(list) {.match = sm_split_match_ranges, .space = true, .range = (list)}

enum {
    GPT_2, SMOLLM, DEFAULT, QWEN2, QWEN35, LLAMA, GLM4, SEED_CODER, GPT_4O, TEKKEN, DEEPSEEK_V3,
    DEEPSEEK_CODER, DEEPSEEK_LLM
};

static const struct sm_split_rule rules[] = {
    [GPT_2] = {.n_pass = 1, .pass = {GPT2}},
    [SMOLLM] = {.n_pass = 2, .pass = {RUN(NUMBERS, 1), GPT2}},
    /* [P $ + < = > ^ ~ |]+; GPT2; N+; [0-9]{3} */
    [DEFAULT] = {.n_pass = 4,
                 .pass = {{.match = sm_split_match_signs}, GPT2, RUN(NUMBERS, 0),
                          RANGES(digit, 3)}},
    [QWEN2] = {.n_pass = 1, .pass = {WORDS(1, 'n')}},
    /* marks belong to words: [^\r\n L N]?[L M]+ and [space]?[^ s L M N]+ */
    [QWEN35] = {.n_pass = 1,
                .pass = {{.match = sm_split_match_words, .contractions = true,
                          .word = SM_UC_L | SM_UC_M, .max = 1, .line_ends = 'n'}}},
    [LLAMA] = {.whole = true, .add_bos = true, .n_pass = 1, .pass = {WORDS(3, 'n')}},
    [GLM4] = {.n_pass = 1, .pass = {WORDS(3, 'n')}},
    [SEED_CODER] = {.n_pass = 1, .pass = {WORDS(1, 0)}},
    /* [^\r\n L N]?U*W+CI? | [^\r\n L N]?U+W*CI? | N{1,3} | [space]?[^ s L N]+[\r\n/]* | ... */
    [GPT_4O] = {.n_pass = 1, .pass = {CASED(3, true)}},
    [TEKKEN] = {.whole = true, .add_bos = true, .n_pass = 1, .pass = {CASED(1, false)}},
    [DEEPSEEK_V3] = {.n_pass = 3,
                     .pass = {RUN(NUMBERS, 3), RANGES(cjk_kana, 0),
                              {.match = sm_split_match_deepseek}}},
    [DEEPSEEK_CODER] = {.n_pass = 5,
                        .pass = {RANGES(line_end, 1), SPACE_RUN(SM_UC_L), SPACE_RUN(SM_UC_P),
                                 RANGES(east, 0), RUN(NUMBERS, 1)}},
    [DEEPSEEK_LLM] = {.n_pass = 6,
                      .pass = {RANGES(line_end, 1), SPACE_RANGES(llm_letters),
                               SPACE_RANGES(llm_signs), {.match = NULL}, RANGES(east, 0),
                               RUN(NUMBERS, 0)}},
};

static const struct {
    const char *name;
    unsigned rule;
} names[] = {
    {"default", DEFAULT},
    {"gpt-2", GPT_2}, {"phi-2", GPT_2}, {"jina-es", GPT_2}, {"jina-de", GPT_2},
    {"jina-v1-en", GPT_2}, {"jina-v2-es", GPT_2}, {"jina-v2-de", GPT_2}, {"jina-v2-code", GPT_2},
    {"roberta-bpe", GPT_2}, {"gigachat", GPT_2}, {"a.x-4.0", GPT_2}, {"mellum", GPT_2},
    {"modern-bert", GPT_2}, {"exaone4", GPT_2}, {"mpt", GPT_2}, {"olmo", GPT_2}, {"jais", GPT_2},
    {"trillion", GPT_2}, {"granite-docling", GPT_2},
    {"smollm", SMOLLM}, {"starcoder", SMOLLM}, {"refact", SMOLLM}, {"command-r", SMOLLM},
    {"codeshell", SMOLLM}, {"exaone", SMOLLM}, {"minerva-7b", SMOLLM},
    {"qwen2", QWEN2}, {"deepseek-r1-qwen", QWEN2}, {"megrez", QWEN2}, {"kormo", QWEN2},
    {"f2llmv2", QWEN2}, {"stablelm2", QWEN2}, {"hunyuan", QWEN2}, {"bailingmoe", QWEN2},
    {"bailingmoe2", QWEN2}, {"llada-moe", QWEN2},
    {"qwen35", QWEN35},
    {"llama-bpe", LLAMA}, {"llama3", LLAMA}, {"llama-v3", LLAMA}, {"falcon3", LLAMA},
    {"falcon-h1", LLAMA}, {"pixtral", LLAMA}, {"midm-2.0", LLAMA}, {"lfm2", LLAMA},
    {"jina-v5-nano", LLAMA},
    {"dbrx", GLM4}, {"smaug-bpe", GLM4}, {"glm4", GLM4}, {"chatglm-bpe", GLM4},
    {"seed-coder", SEED_CODER},
    {"gpt-4o", GPT_4O}, {"llama4", GPT_4O}, {"kanana2", GPT_4O},
    {"tekken", TEKKEN},
    {"deepseek-v3", DEEPSEEK_V3}, {"joyai-llm", DEEPSEEK_V3}, {"hunyuan-dense", DEEPSEEK_V3},
    {"deepseek-coder", DEEPSEEK_CODER}, {"deepseek-llm", DEEPSEEK_LLM},
};

const char *sm_split_name(size_t i)
{
    return i < sizeof names / sizeof *names ? names[i].name : NULL;
}

const struct sm_split_rule *sm_split_find(const char *name, size_t n, const char **known)
{
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strlen(names[i].name) != n || memcmp(names[i].name, name, n) != 0) continue;
        *known = names[i].name;
        return &rules[names[i].rule];
    }
    return NULL;
}
