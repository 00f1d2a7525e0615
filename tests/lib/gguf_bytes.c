/* SPDX-License-Identifier: MIT */
#include "gguf_bytes.h"

#include "tap.h"

void gb_free(struct gguf_bytes *b)
{
    free(b->p);
    memset(b, 0, sizeof *b);
}

void gb_put(struct gguf_bytes *b, const void *data, size_t n)
{
    if (n > b->room - b->n) {
        const size_t room = 2 * (b->n + n) + 256;
        uint8_t *p = realloc(b->p, room);
        if (!p) {
            perror("realloc");
            exit(1);
        }
        b->p = p;
        b->room = room;
    }
    if (n) memcpy(b->p + b->n, data, n);
    b->n += n;
}

void gb_u8(struct gguf_bytes *b, uint8_t v) { gb_put(b, &v, sizeof v); }
void gb_u16(struct gguf_bytes *b, uint16_t v) { gb_put(b, &v, sizeof v); }
void gb_u32(struct gguf_bytes *b, uint32_t v) { gb_put(b, &v, sizeof v); }
void gb_u64(struct gguf_bytes *b, uint64_t v) { gb_put(b, &v, sizeof v); }
void gb_f32(struct gguf_bytes *b, float v) { gb_put(b, &v, sizeof v); }
void gb_f64(struct gguf_bytes *b, double v) { gb_put(b, &v, sizeof v); }

void gb_str(struct gguf_bytes *b, const char *s)
{
    gb_u64(b, strlen(s));
    gb_put(b, s, strlen(s));
}

void gb_zeros(struct gguf_bytes *b, size_t n)
{
    while (n--) gb_u8(b, 0);
}

void gb_pad(struct gguf_bytes *b, size_t alignment)
{
    gb_zeros(b, (alignment - b->n % alignment) % alignment);
}

void gb_head(struct gguf_bytes *b, uint32_t version, uint64_t n_tensors, uint64_t n_kv)
{
    b->n = 0;
    gb_put(b, "GGUF", 4);
    gb_u32(b, version);
    gb_u64(b, n_tensors);
    gb_u64(b, n_kv);
}

void gb_key(struct gguf_bytes *b, const char *key, uint32_t type)
{
    gb_str(b, key);
    gb_u32(b, type);
}

void gb_kv_u32(struct gguf_bytes *b, const char *key, uint32_t v)
{
    gb_key(b, key, SM_KV_U32);
    gb_u32(b, v);
}

void gb_kv_str(struct gguf_bytes *b, const char *key, const char *v)
{
    gb_key(b, key, SM_KV_STRING);
    gb_str(b, v);
}

void gb_tensor(struct gguf_bytes *b, const char *name, uint32_t n_dims, const uint64_t *dims,
               uint32_t type, uint64_t offset)
{
    gb_str(b, name);
    gb_u32(b, n_dims);
    for (uint32_t i = 0; i < n_dims; i++) gb_u64(b, dims[i]);
    gb_u32(b, type);
    gb_u64(b, offset);
}

void gb_tensor1(struct gguf_bytes *b, const char *name, uint64_t n, uint32_t type, uint64_t offset)
{
    gb_tensor(b, name, 1, &n, type, offset);
}

int gb_is_sentence(const smol_error *err)
{
    const size_t n = strlen(err->msg);
    if (n < 15 || n >= sizeof err->msg - 1 || err->msg[n - 1] == ' ') return 0;
    for (size_t i = 0; i < n; i++)
        if (err->msg[i] < 0x20 || err->msg[i] > 0x7e) return 0;
    return err->code != SMOL_OK && err->where != NULL;
}

/* A copy of exactly the right size, so that a sanitizer sees over-reads. */
static smol_status parse(const struct gguf_bytes *b, uint64_t file_bytes, struct sm_gguf **g,
                         smol_error *err)
{
    uint8_t *copy = malloc(b->n + !b->n);
    memset(err, 0, sizeof *err);
    if (!copy) {
        perror("malloc");
        exit(1);
    }
    if (b->n) memcpy(copy, b->p, b->n);
    const smol_status st = sm_gguf_parse(g, copy, b->n, file_bytes, err);
    free(copy);
    return st;
}

void gb_accept(const struct gguf_bytes *b, const char *what)
{
    struct sm_gguf *g;
    smol_error err;
    const smol_status st = parse(b, b->n, &g, &err);
    if (!TAP_OK(st == SMOL_OK && g != NULL && err.code == SMOL_OK, "%s: accepted", what))
        printf("#   %s\n", err.msg);
    sm_gguf_free(g);
}

void gb_refuse_in(const struct gguf_bytes *b, uint64_t file_bytes, smol_status code,
                  const char *part, const char *what)
{
    struct sm_gguf *g;
    smol_error err;
    const smol_status st = parse(b, file_bytes, &g, &err);
    const int good = st == code && err.code == code && g == NULL && gb_is_sentence(&err) &&
                     strstr(err.msg, part) != NULL;
    if (!TAP_OK(good, "%s: refused", what))
        printf("#   status %d, expected %d and '%s'\n", (int)st, (int)code, part);
    if (err.code) printf("#   %s\n", err.msg);
    sm_gguf_free(g);
}

void gb_refuse(const struct gguf_bytes *b, smol_status code, const char *part, const char *what)
{
    gb_refuse_in(b, b->n, code, part, what);
}
