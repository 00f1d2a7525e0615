/* SPDX-License-Identifier: MIT */
#include "tok/vocab.h"

#include "base/mem.h"
#include "base/sort.h"

#include <stdlib.h>

#define KEY(name) "tokenizer.ggml." name

/* Texts that end a generation in some model family, whatever the keys of the file say. */
static const char *const end_texts[] = {"<|eot_id|>",
                                        "<|im_end|>",
                                        "<|end|>",
                                        "<|return|>",
                                        "<|call|>",
                                        "<|flush|>",
                                        "<|calls|>",
                                        "<end_of_turn>",
                                        "<|endoftext|>",
                                        "</s>",
                                        "<|eom_id|>",
                                        "<EOT>",
                                        "_<EOT>",
                                        "[EOT]",
                                        "[EOS]",
                                        "<|end_of_text|>",
                                        "<end_of_utterance>",
                                        "<eos>",
                                        "<turn|>",
                                        "<|tool_response>",
                                        "<\xef\xbd\x9c"
                                        "end\xe2\x96\x81"
                                        "of\xe2\x96\x81"
                                        "sentence\xef\xbd\x9c>",
                                        "[e~["};

/* Fill-in-the-middle tokens: a key, else the first of the texts that exists. The last three kinds
 * end a generation. */
static const struct {
    const char *key;
    bool ends;
    const char *text[8];
} middles[] = {
    {KEY("fim_pre_token_id"),
     false,
     {"<|fim_prefix|>", "<fim-prefix>", "<fim_prefix>",
      "<\xef\xbd\x9c"
      "fim\xe2\x96\x81"
      "begin\xef\xbd\x9c>",
      "<PRE>", "\xe2\x96\x81<PRE>", "<|code_prefix|>"}},
    {KEY("fim_suf_token_id"),
     false,
     {"<|fim_suffix|>", "<fim-suffix>", "<fim_suffix>",
      "<\xef\xbd\x9c"
      "fim\xe2\x96\x81"
      "hole\xef\xbd\x9c>",
      "<SUF>", "\xe2\x96\x81<SUF>", "<|code_suffix|>"}},
    {KEY("fim_mid_token_id"),
     false,
     {"<|fim_middle|>", "<fim-middle>", "<fim_middle>",
      "<\xef\xbd\x9c"
      "fim\xe2\x96\x81"
      "end\xef\xbd\x9c>",
      "<MID>", "\xe2\x96\x81<MID>", "<|code_middle|>"}},
    {KEY("fim_pad_token_id"), true, {"<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]"}},
    {KEY("fim_rep_token_id"),
     true,
     {"<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"}},
    {KEY("fim_sep_token_id"), true, {"<|file_sep|>"}},
};

/* Begin and end must be in the vocabulary when the file names them. */
static smol_status needed_id(const struct sm_tok *t, const struct sm_gguf *g, const char *key,
                             int32_t fallback, int32_t *out, smol_error *err)
{
    bool found;
    uint64_t value = 0;
    SM_TRY(sm_gguf_u64(g, key, 0, t->n_vocab - 1, &value, &found, err));
    if (fallback >= 0 && (uint32_t)fallback >= t->n_vocab) fallback = -1;
    *out = found ? (int32_t)value : fallback;
    return SMOL_OK;
}

/* The others are ignored when they make no sense. */
static int32_t optional_id(const struct sm_tok *t, const struct sm_gguf *g, const char *key)
{
    bool found;
    uint64_t value = 0;
    if (sm_gguf_u64(g, key, 0, t->n_vocab - 1, &value, &found, NULL) != SMOL_OK) return -1;
    return found ? (int32_t)value : -1;
}

static void set_type(struct sm_tok *t, uint32_t id, unsigned type)
{
    t->kind[id] = (uint8_t)((t->kind[id] & ~SM_TOK_TYPE) | type);
}

static void set_end(struct sm_tok *t, int32_t id)
{
    if (id >= 0) t->kind[id] |= SM_TOK_END;
}

/* A token that looks like a control token is one, whatever type the file gives it: it then prints
 * as nothing, and is no longer found in a user's text. */
static void find_ends(struct sm_tok *t, const struct sm_gguf *g)
{
    for (size_t i = 0; i < sizeof middles / sizeof *middles; i++) {
        int32_t id = optional_id(t, g, middles[i].key);
        for (unsigned k = 0; id < 0 && k < 8 && middles[i].text[k]; k++) {
            id = sm_tok_find(t, middles[i].text[k], strlen(middles[i].text[k]));
            if (id >= 0) set_type(t, (uint32_t)id, SM_TOK_CONTROL);
        }
        if (middles[i].ends) set_end(t, id);
    }
    for (size_t i = 0; i < sizeof end_texts / sizeof *end_texts; i++) {
        const int32_t id = sm_tok_find(t, end_texts[i], strlen(end_texts[i]));
        if (id < 0) continue;
        set_end(t, id);
        set_type(t, (uint32_t)id, SM_TOK_CONTROL);
    }
    set_end(t, t->eos);
    set_end(t, optional_id(t, g, KEY("eot_token_id")));
    set_end(t, optional_id(t, g, KEY("eom_token_id")));
    /* gpt-oss ends a message with <|end|> but an answer with <|return|> or <|call|> */
    const int32_t end = sm_tok_find(t, "<|end|>", 7);
    if (end >= 0 && end != t->eos && sm_tok_find(t, "<|return|>", 10) >= 0 &&
        sm_tok_find(t, "<|call|>", 8) >= 0)
        t->kind[end] &= (uint8_t)~SM_TOK_END;
}

static bool is_special(const struct sm_tok *t, uint32_t id)
{
    const unsigned type = sm_vocab_type(t, id);
    return (type == SM_TOK_CONTROL || type == SM_TOK_USER || type == SM_TOK_UNKNOWN) &&
           sm_vocab_start(t, id + 1) > sm_vocab_start(t, id);
}

static bool by_text(const void *arg, uint32_t a, uint32_t b)
{
    const struct sm_tok *t = arg;
    uint32_t na, nb;
    const char *pa = sm_vocab_text(t, a, &na), *pb = sm_vocab_text(t, b, &nb);
    const int order = memcmp(pa, pb, na < nb ? na : nb);
    return order != 0 ? order < 0 : na < nb;
}

static smol_status list_special(struct sm_tok *t, smol_error *err)
{
    smol_status st = SMOL_OK;
    uint32_t n = 0;
    for (uint32_t id = 0; id < t->n_vocab; id++) t->n_special += is_special(t, id);
    t->special = sm_vocab_take(t, t->n_special, sizeof *t->special, &st, err);
    if (st != SMOL_OK) return st;
    for (uint32_t id = 0; id < t->n_vocab; id++)
        if (is_special(t, id)) t->special[n++] = id;
    sm_sort_u32(t->special, n, by_text, t);
    for (uint32_t i = n; i-- > 0;) /* 1 + index of the first text with a byte, 0: none */
        t->special_first[(uint8_t)t->text[sm_vocab_start(t, t->special[i])]] = i + 1;
    uint32_t next = n; /* then the first index at or behind the byte */
    t->special_first[256] = n;
    for (unsigned b = 256; b-- > 0;) {
        if (t->special_first[b]) next = t->special_first[b] - 1;
        t->special_first[b] = next;
    }
    return SMOL_OK;
}

static char lower(char c) { return c >= 'A' && c <= 'Z' ? (char)(c + 32) : c; }

static bool contains_nocase(struct sm_str s, const char *word)
{
    const size_t n = strlen(word);
    for (size_t i = 0; i + n <= s.n; i++) {
        size_t k = 0;
        while (k < n && lower(s.p[i + k]) == word[k]) k++;
        if (k == n) return true;
    }
    return false;
}

/* Phi-3 files carry no such mark themselves: white space behind a special token is dropped. */
static void mark_stripping(struct sm_tok *t, const struct sm_gguf *g)
{
    static const char *const but[] = {"<unk>", "<s>", "<|endoftext|>"};
    struct sm_str name;
    bool found;
    if (sm_gguf_str(g, "general.name", &name, &found, NULL) != SMOL_OK || !found) return;
    if (!contains_nocase(name, "phi-3") && !contains_nocase(name, "phi3")) return;
    for (uint32_t i = 0; i < t->n_special; i++) t->kind[t->special[i]] |= SM_TOK_RSTRIP;
    for (unsigned i = 0; i < sizeof but / sizeof *but; i++) {
        const int32_t id = sm_tok_find(t, but[i], strlen(but[i]));
        if (id >= 0) t->kind[id] &= (uint8_t)~SM_TOK_RSTRIP;
    }
}

smol_status sm_vocab_special(struct sm_tok *t, const struct sm_gguf *g, smol_error *err)
{
    /* SPM has default ids; for byte-level BPE a missing key means that there is none */
    SM_TRY(needed_id(t, g, KEY("bos_token_id"), t->spm ? 1 : -1, &t->bos, err));
    SM_TRY(needed_id(t, g, KEY("eos_token_id"), t->spm ? 2 : -1, &t->eos, err));
    t->unknown = optional_id(t, g, KEY("unknown_token_id"));
    if (t->unknown < 0 && t->spm) t->unknown = 0;
    for (uint32_t id = 0; t->unknown < 0 && id < t->n_vocab; id++)
        if (sm_vocab_type(t, id) == SM_TOK_UNKNOWN) t->unknown = (int32_t)id;
    find_ends(t, g);
    SM_TRY(list_special(t, err));
    mark_stripping(t, g);
    return SMOL_OK;
}
