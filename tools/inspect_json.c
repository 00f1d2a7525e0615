/* SPDX-License-Identifier: MIT */
/* `smol inspect --json`: the same for programs. Long arrays and strings are cut, their lengths
 * kept. */
#include "base/bits.h"
#include "inspect.h"
#include "lib/json.h"

#include <stdlib.h>
#include <string.h>

#define SHOWN_BYTES 65536u
#define SHOWN_ELEMENTS 64u

static void put_scalar(struct sm_json *j, const char *key, uint32_t type, const uint8_t *p)
{
    switch (type) {
    case SM_KV_U8: sm_json_uint(j, key, p[0]); break;
    case SM_KV_I8: sm_json_int(j, key, (int8_t)p[0]); break;
    case SM_KV_U16: sm_json_uint(j, key, sm_ld16(p)); break;
    case SM_KV_I16: sm_json_int(j, key, (int16_t)sm_ld16(p)); break;
    case SM_KV_U32: sm_json_uint(j, key, sm_ld32(p)); break;
    case SM_KV_I32: sm_json_int(j, key, (int32_t)sm_ld32(p)); break;
    case SM_KV_FLOAT32: sm_json_num(j, key, (double)sm_ldf32(p)); break;
    case SM_KV_BOOL: sm_json_bool(j, key, p[0] != 0); break;
    case SM_KV_U64: sm_json_uint(j, key, sm_ld64(p)); break;
    case SM_KV_I64: sm_json_int(j, key, (int64_t)sm_ld64(p)); break;
    case SM_KV_FLOAT64: sm_json_num(j, key, sm_f64_of_bits(sm_ld64(p))); break;
    default: sm_json_str(j, key, NULL); break;
    }
}

static void put_string(struct sm_json *j, const char *key, const void *p, uint64_t n)
{
    sm_json_bytes(j, key, n ? p : "", n < SHOWN_BYTES ? (size_t)n : SHOWN_BYTES);
}

static void put_kv(struct sm_json *j, const struct sm_kv *kv)
{
    uint64_t at = 0;
    struct sm_str s;
    const uint64_t each = kv->count ? kv->bytes / kv->count : 0;
    sm_json_open(j, NULL, '{');
    sm_json_bytes(j, "key", kv->key.p, kv->key.n);
    sm_json_str(j, "type", sm_gguf_kv_type_name(kv->type));
    if (kv->type == SM_KV_ARRAY) {
        sm_json_str(j, "element_type", sm_gguf_kv_type_name(kv->elem_type));
        sm_json_uint(j, "count", kv->count);
        sm_json_open(j, "first", '[');
        for (uint64_t i = 0; i < kv->count && i < SHOWN_ELEMENTS; i++) {
            if (kv->elem_type != SM_KV_STRING)
                put_scalar(j, NULL, kv->elem_type, kv->data + i * each);
            else if (sm_gguf_next_str(kv, &at, &s)) put_string(j, NULL, s.p, s.n);
        }
        sm_json_close(j);
    } else if (kv->type == SM_KV_STRING) {
        if (kv->bytes > SHOWN_BYTES) sm_json_uint(j, "bytes", kv->bytes);
        put_string(j, "value", kv->data, kv->bytes);
    } else {
        put_scalar(j, "value", kv->type, kv->data);
    }
    sm_json_close(j);
}

static void put_string_key(struct sm_json *j, const char *name, const struct sm_gguf *g,
                           const char *key)
{
    const struct sm_kv *kv = sm_gguf_find(g, key);
    if (kv && kv->type == SM_KV_STRING) put_string(j, name, kv->data, kv->bytes);
    else sm_json_str(j, name, NULL);
}

static void put_experts(struct sm_json *j, const struct inspect *in)
{
    sm_json_open(j, "experts", '{');
    sm_json_uint(j, "count", in->n_experts);
    sm_json_uint(j, "used", in->n_used);
    sm_json_uint(j, "layers", in->n_expert_layers);
    sm_json_uint(j, "draft_layers", in->n_draft_expert_layers);
    sm_json_open(j, "sizes", '[');
    for (uint32_t i = 0; i < in->n_sizes; i++) {
        sm_json_open(j, NULL, '{');
        sm_json_uint(j, "bytes", in->size[i].expert_bytes);
        sm_json_uint(j, "layers", in->size[i].n_layers);
        sm_json_close(j);
    }
    sm_json_close(j);
    sm_json_close(j);
}

static void put_types(struct sm_json *j, const struct inspect *in)
{
    sm_json_open(j, "types", '[');
    for (uint32_t i = 0; i < SM_TYPE_COUNT; i++) {
        const struct inspect_type *t = &in->type[i];
        if (!t->n_tensors) continue;
        sm_json_open(j, NULL, '{');
        sm_json_str(j, "type", sm_type_name(i));
        sm_json_uint(j, "tensors", t->n_tensors);
        sm_json_uint(j, "parameters", t->n_weights);
        sm_json_uint(j, "bytes", t->bytes);
        sm_json_close(j);
    }
    sm_json_close(j);
}

static void put_tensors(struct sm_json *j, const struct sm_gguf *g)
{
    sm_json_open(j, "tensors", '[');
    for (size_t i = 0; i < sm_gguf_n_tensors(g); i++) {
        const struct sm_tensor_info *t = sm_gguf_tensor(g, i);
        sm_json_open(j, NULL, '{');
        sm_json_bytes(j, "name", t->name, strlen(t->name));
        sm_json_str(j, "type", sm_type_name(t->type));
        sm_json_open(j, "shape", '[');
        for (uint32_t k = 0; k < t->n_dims; k++) sm_json_uint(j, NULL, t->dim[k]);
        sm_json_close(j);
        sm_json_uint(j, "file", t->file);
        sm_json_uint(j, "at", t->at);
        sm_json_uint(j, "bytes", t->bytes);
        sm_json_close(j);
    }
    sm_json_close(j);
}

void inspect_print_json(const struct inspect *in)
{
    const struct sm_gguf *g = in->g;
    struct sm_json j;
    sm_json_begin(&j, stdout, true);
    sm_json_open(&j, NULL, '{');
    sm_json_open(&j, "files", '[');
    for (size_t i = 0; i < sm_gguf_n_files(g); i++) {
        sm_json_open(&j, NULL, '{');
        sm_json_bytes(&j, "path", sm_gguf_file_path(g, i), strlen(sm_gguf_file_path(g, i)));
        sm_json_uint(&j, "bytes", sm_gguf_file_bytes(g, i));
        sm_json_close(&j);
    }
    sm_json_close(&j);
    sm_json_uint(&j, "version", sm_gguf_version(g));
    sm_json_uint(&j, "alignment", sm_gguf_alignment(g));
    put_string_key(&j, "architecture", g, "general.architecture");
    put_string_key(&j, "name", g, "general.name");
    sm_json_uint(&j, "parameters", in->n_weights);
    sm_json_uint(&j, "parameters_active", in->n_active);
    sm_json_uint(&j, "parameters_draft", in->n_draft);
    sm_json_uint(&j, "weight_bytes", in->weight_bytes);
    sm_json_num(&j, "bits_per_weight", inspect_bits(in->weight_bytes, in->n_weights));
    put_experts(&j, in);
    sm_json_str(&j, "cannot_run", in->why[0] ? in->why : NULL);
    sm_json_uint(&j, "kv_bytes_per_token", in->cost.kv_bytes_per_token);
    sm_json_uint(&j, "window_bytes", in->cost.window_bytes);
    sm_json_uint(&j, "state_bytes", in->cost.state_bytes);
    sm_json_open(&j, "metadata", '[');
    for (size_t i = 0; i < sm_gguf_n_kv(g); i++) put_kv(&j, sm_gguf_kv(g, i));
    sm_json_close(&j);
    put_types(&j, in);
    put_tensors(&j, g);
    sm_json_close(&j);
    (void)sm_json_end(&j); /* main looks at standard output */
}
