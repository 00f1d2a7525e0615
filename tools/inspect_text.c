/* SPDX-License-Identifier: MIT */
/* `smol inspect` for people. */
#include "base/bits.h"
#include "base/text.h"
#include "inspect.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHOWN_BYTES 72u   /* of a string */
#define SHOWN_ELEMENTS 6u /* of an array */

/* 16291543040 -> "16.3 G" */
static const char *count_text(char buf[32], uint64_t n)
{
    static const char unit[] = " KMGTP";
    double x = (double)n;
    unsigned u = 0;
    while (x >= 999.5 && unit[u + 1]) x /= 1000, u++;
    (void)snprintf(buf, 32, u ? "%.*f %c" : "%.*f", u ? (x < 9.995 ? 2 : x < 99.95 ? 1 : 0) : 0, x,
                   unit[u]);
    return buf;
}

static const char *size_text(char buf[32], uint64_t bytes)
{
    static const char *const unit[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double x = (double)bytes;
    unsigned u = 0;
    while (x >= 1023.95 && u < 6) x /= 1024, u++;
    (void)snprintf(buf, 32, u ? "%.1f %s" : "%.0f %s", x, unit[u]);
    return buf;
}

/* Quoted, cut, safe for a terminal; the full length follows when it was cut. */
static void print_string(const void *p, uint64_t n, size_t max)
{
    char text[SHOWN_BYTES + 1];
    size_t k = n < max ? (size_t)n : max;
    if (k) memcpy(text, p, k);
    for (size_t i = 0; i < k; i++)
        if (text[i] == 0 || text[i] == '\n' || text[i] == '\t') text[i] = text[i] ? ' ' : '?';
    text[k] = 0;
    sm_text_clean(text);
    printf("\"%s\"", text);
    if (n > max) printf("... (%" PRIu64 " bytes)", n);
}

/* Shortest text that reads back as the same f32. */
static void print_f32(float x)
{
    char text[32];
    for (int digits = 6; digits <= 9; digits++) {
        (void)snprintf(text, sizeof text, "%.*g", digits, (double)x);
        if (strtof(text, NULL) == x) break;
    }
    printf("%s", text);
}

static void print_scalar(uint32_t type, const uint8_t *p)
{
    switch (type) {
    case SM_KV_U8: printf("%u", p[0]); break;
    case SM_KV_I8: printf("%d", (int8_t)p[0]); break;
    case SM_KV_U16: printf("%u", sm_ld16(p)); break;
    case SM_KV_I16: printf("%d", (int16_t)sm_ld16(p)); break;
    case SM_KV_U32: printf("%" PRIu32, sm_ld32(p)); break;
    case SM_KV_I32: printf("%" PRId32, (int32_t)sm_ld32(p)); break;
    case SM_KV_FLOAT32: print_f32(sm_ldf32(p)); break;
    case SM_KV_BOOL: printf("%s", p[0] ? "true" : "false"); break;
    case SM_KV_U64: printf("%" PRIu64, sm_ld64(p)); break;
    case SM_KV_I64: printf("%" PRId64, (int64_t)sm_ld64(p)); break;
    case SM_KV_FLOAT64: printf("%.17g", sm_f64_of_bits(sm_ld64(p))); break;
    default: break;
    }
}

static void print_array(const struct sm_kv *kv)
{
    const uint64_t shown = kv->count < SHOWN_ELEMENTS ? kv->count : SHOWN_ELEMENTS;
    const uint64_t each = kv->count ? kv->bytes / kv->count : 0;
    uint64_t at = 0;
    struct sm_str s;
    printf("%" PRIu64 " x %s:", kv->count, sm_gguf_kv_type_name(kv->elem_type));
    for (uint64_t i = 0; i < shown; i++) {
        printf("%s ", i ? "," : "");
        if (kv->elem_type != SM_KV_STRING) print_scalar(kv->elem_type, kv->data + i * each);
        else if (sm_gguf_next_str(kv, &at, &s)) print_string(s.p, s.n, 16);
    }
    printf("%s\n", shown < kv->count ? ", ..." : "");
}

static void print_metadata(const struct sm_gguf *g)
{
    printf("\nmetadata (%zu)\n", sm_gguf_n_kv(g));
    for (size_t i = 0; i < sm_gguf_n_kv(g); i++) {
        const struct sm_kv *kv = sm_gguf_kv(g, i);
        char key[SHOWN_BYTES + 1];
        const size_t n = kv->key.n < SHOWN_BYTES ? kv->key.n : SHOWN_BYTES;
        memcpy(key, kv->key.p, n);
        key[n] = 0;
        sm_text_clean(key);
        printf("  %-44s ", key);
        if (kv->type == SM_KV_ARRAY) {
            print_array(kv);
            continue;
        }
        printf("%s ", sm_gguf_kv_type_name(kv->type));
        if (kv->type == SM_KV_STRING) print_string(kv->data, kv->bytes, SHOWN_BYTES);
        else print_scalar(kv->type, kv->data);
        printf("\n");
    }
}

static void print_types(const struct inspect *in)
{
    char a[32], b[32];
    printf("\n%-9s %8s %10s %12s %7s %7s\n", "type", "tensors", "weights", "size", "bits", "share");
    for (uint32_t i = 0; i < SM_TYPE_COUNT; i++) {
        const struct inspect_type *t = &in->type[i];
        if (!t->n_tensors) continue;
        printf("%-9s %8" PRIu64 " %10s %12s %7.4g %5.1f %%\n", sm_type_name(i), t->n_tensors,
               count_text(a, t->n_weights), size_text(b, t->bytes),
               inspect_bits(t->bytes, t->n_weights),
               100 * (double)t->bytes / (double)in->weight_bytes);
    }
}

static void print_tensors(const struct inspect *in)
{
    char name[64], shape[96], size[32];
    const bool split = sm_gguf_n_files(in->g) > 1;
    printf("\n%-40s %-8s %-24s %12s %14s%s\n", "tensor", "type", "shape", "size", "at byte",
           split ? "  part" : "");
    for (size_t i = 0; i < sm_gguf_n_tensors(in->g); i++) {
        const struct sm_tensor_info *t = sm_gguf_tensor(in->g, i);
        size_t n = 0;
        (void)snprintf(name, sizeof name, "%s", t->name);
        sm_text_clean(name);
        shape[0] = 0;
        for (uint32_t k = 0; k < t->n_dims; k++)
            n += (size_t)snprintf(shape + n, sizeof shape - n, "%s%" PRIu64, k ? " x " : "",
                                  t->dim[k]);
        printf("%-40s %-8s %-24s %12s %14" PRIu64, name, sm_type_name(t->type),
               n ? shape : "1", size_text(size, t->bytes), t->at);
        if (split) printf("  %4" PRIu32, t->file + 1);
        printf("\n");
    }
}

static void print_experts(const struct inspect *in)
{
    char a[32];
    if (!in->n_expert_layers) return;
    printf("experts       %" PRIu64 " in %s%" PRIu32 " layer%s", in->n_experts,
           in->n_expert_layers > 1 ? "each of " : "", in->n_expert_layers,
           in->n_expert_layers > 1 ? "s" : "");
    if (in->n_draft_expert_layers)
        printf(" (%" PRIu32 " of them for drafts)", in->n_draft_expert_layers);
    if (in->n_used) printf(", %" PRIu64 " used per token", in->n_used);
    printf("\nexpert size   ");
    for (uint32_t i = 0; i < in->n_sizes; i++) {
        printf("%s%s", i ? ", " : "", size_text(a, in->size[i].expert_bytes));
        if (in->n_sizes > 1)
            printf(" (%" PRIu32 " layer%s)", in->size[i].n_layers,
                   in->size[i].n_layers > 1 ? "s" : "");
    }
    printf("\n");
}

static void print_context(const struct inspect *in)
{
    const smol_context_cost *c = &in->cost;
    char a[32];
    if (in->why[0]) printf("cannot run    %s\n", in->why);
    if (!in->can_run) return;
    printf("context       %s per token as f16", size_text(a, c->kv_bytes_per_token));
    if (c->window_bytes) printf(", %s for sliding windows", size_text(a, c->window_bytes));
    if (c->state_bytes) printf(", %s of recurrent state", size_text(a, c->state_bytes));
    printf("\n");
}

static void print_string_key(const struct sm_gguf *g, const char *label, const char *key)
{
    const struct sm_kv *kv = sm_gguf_find(g, key);
    if (!kv || kv->type != SM_KV_STRING) return;
    printf("%-14s", label);
    print_string(kv->data, kv->bytes, SHOWN_BYTES);
    printf("\n");
}

void inspect_print_text(const struct inspect *in)
{
    const struct sm_gguf *g = in->g;
    char a[32], b[32];
    printf("%s: GGUF version %" PRIu32 ", %s", in->path, sm_gguf_version(g),
           size_text(a, in->file_bytes));
    if (sm_gguf_n_files(g) > 1) printf(" in %zu parts", sm_gguf_n_files(g));
    printf(", alignment %" PRIu32 "\n", sm_gguf_alignment(g));
    for (size_t i = 0; sm_gguf_n_files(g) > 1 && i < sm_gguf_n_files(g); i++)
        printf("  part %zu: %s (%s)\n", i + 1, sm_gguf_file_path(g, i),
               size_text(a, sm_gguf_file_bytes(g, i)));
    print_string_key(g, "architecture", "general.architecture");
    print_string_key(g, "name", "general.name");
    if (in->n_weights) {
        printf("parameters    %s", count_text(a, in->n_weights));
        if (in->n_active != in->n_weights)
            printf(", %s of them active per token", count_text(b, in->n_active));
        if (in->n_draft) printf(", %s only for drafts", count_text(b, in->n_draft));
        printf("\nweights       %s, %.3f bits each\n", size_text(a, in->weight_bytes),
               inspect_bits(in->weight_bytes, in->n_weights));
    }
    print_experts(in);
    print_context(in);
    print_metadata(g);
    if (!in->n_weights) return;
    print_types(in);
    print_tensors(in);
}
