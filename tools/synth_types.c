/* SPDX-License-Identifier: MIT */
/* Mixes of formats: the words of --types. */
#include "synth.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

static const char *const class_names[SYNTH_CLASSES] = {"embd", "head",   "attn",
                                                       "ffn",  "shared", "experts"};

/* The usual mixes: a format, one with more bits for the value and down matrices of half of the
 * layers, and the head's. */
static const struct {
    const char *name;
    uint32_t type, more, head;
} mixes[] = {
    {"q2_k_m", SM_Q2_K, SM_Q3_K, SM_Q6_K},
    {"q3_k_m", SM_Q3_K, SM_Q5_K, SM_Q6_K},
    {"q4_k_m", SM_Q4_K, SM_Q6_K, SM_Q6_K},
    {"q5_k_m", SM_Q5_K, SM_Q6_K, SM_Q6_K},
};

static bool find_type(const char *word, uint32_t *type)
{
    for (uint32_t t = 0; t < SM_TYPE_COUNT; t++)
        if (sm_type_is_matrix(t) && !strcasecmp(sm_type_name(t), word)) {
            *type = t;
            return true;
        }
    return false;
}

static void set_all(struct synth_mix *m, bool experts, uint32_t type, uint32_t more, uint32_t head)
{
    for (int c = 0; c < SYNTH_CLASSES; c++) {
        if (c == SYNTH_EXPERTS && !experts) continue;
        m->type[c] = c == SYNTH_HEAD ? head : type;
        m->more[c] = c == SYNTH_HEAD ? head : c == SYNTH_EMBD ? type : more;
    }
}

static smol_status set_word(struct synth_mix *m, const char *word, smol_error *err)
{
    const char *equals = strchr(word, '='), *value = equals ? equals + 1 : word;
    uint32_t type = 0, more = 0, head = 0;
    bool found = find_type(value, &type);
    more = head = type;
    for (size_t i = 0; !found && i < sizeof mixes / sizeof *mixes; i++) {
        if (strcasecmp(mixes[i].name, value)) continue;
        type = mixes[i].type;
        more = mixes[i].more;
        head = mixes[i].head;
        found = true;
    }
    if (!found) return SM_FAIL(err, ARG, "\"%s\" in --types is no format of weights", value);
    if (!equals) {
        set_all(m, true, type, more, head);
        return SMOL_OK;
    }
    const size_t n = (size_t)(equals - word);
    if (n == 4 && !strncmp(word, "rest", 4)) {
        set_all(m, false, type, more, head);
        return SMOL_OK;
    }
    for (int c = 0; c < SYNTH_CLASSES; c++)
        if (strlen(class_names[c]) == n && !strncmp(class_names[c], word, n)) {
            m->type[c] = type;
            m->more[c] = more;
            return SMOL_OK;
        }
    return SM_FAIL(err, ARG,
                   "\"%s\" in --types: expected embd, head, attn, ffn, shared, experts or "
                   "rest before the =",
                   word);
}

/* `rest` leaves the classes alone that the text names by themselves, wherever they stand. */
smol_status synth_mix_read(struct synth_mix *out, const char *text, smol_error *err)
{
    set_all(out, true, SM_Q4_K, SM_Q4_K, SM_Q4_K);
    for (int named = 0; named < 2; named++)
        for (const char *p = text; *p;) {
            char word[48];
            const size_t n = strcspn(p, ",");
            if (n == 0 || n >= sizeof word)
                return SM_FAIL(err, ARG, "\"%.40s\" is no mix of formats", text);
            memcpy(word, p, n);
            word[n] = 0;
            const bool general = !strchr(word, '=') || !strncmp(word, "rest=", 5);
            if (general == !named) SM_TRY(set_word(out, word, err));
            p += n + (p[n] == ',');
        }
    return SMOL_OK;
}

uint32_t synth_mix_type(const struct synth_mix *m, enum synth_class c, bool more, uint64_t n_cols)
{
    const uint32_t type = more ? m->more[c] : m->type[c];
    if (n_cols % sm_traits_of(type)->block == 0) return type;
    uint32_t other = SM_Q4_0; /* as quantisers do with rows too short for their blocks */
    if (type == SM_Q4_K) other = SM_Q5_0;
    if (type == SM_Q5_K) other = SM_Q5_1;
    if (type == SM_Q6_K) other = SM_Q8_0;
    return n_cols % 32 ? SM_F16 : other;
}
