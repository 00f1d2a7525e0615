/* SPDX-License-Identifier: MIT */
#include "base/bits.h"
#include "base/mem.h"
#include "gguf/gguf_int.h"

#include <inttypes.h>

void sm_cursor_memory(struct sm_cursor *c, const uint8_t *bytes, size_t n, uint64_t file_bytes,
                      smol_error *err)
{
    memset(c, 0, sizeof *c);
    c->base = bytes;
    c->have = n;
    c->size = file_bytes;
    c->whole = true;
    c->err = err;
}

void sm_cursor_file(struct sm_cursor *c, struct sm_file *f, smol_error *err)
{
    memset(c, 0, sizeof *c);
    c->size = sm_file_size(f);
    c->file = f;
    c->err = err;
}

void sm_cursor_close(struct sm_cursor *c)
{
    sm_mem_free(c->keep.p, c->keep.n);
    sm_mem_free(c->window.p, c->window.n);
    memset(&c->keep, 0, sizeof c->keep);
    memset(&c->window, 0, sizeof c->window);
}

/* Grow the kept prefix of the file to at least `want` bytes, by doubling. */
static smol_status grow_keep(struct sm_cursor *c, size_t want)
{
    size_t cap = c->keep.n ? c->keep.n : SM_GGUF_WINDOW;
    while (cap < want) cap *= 2;
    if (cap > SM_GGUF_KEEP_MAX) cap = SM_GGUF_KEEP_MAX;
    if (cap > c->size) cap = (size_t)c->size;
    void *p;
    SM_TRY(sm_gguf_alloc(&p, cap, c->err));
    if (c->have) memcpy(p, c->keep.p, c->have);
    const size_t had = c->have;
    sm_mem_free(c->keep.p, c->keep.n);
    c->keep.p = p;
    c->keep.n = cap;
    c->base = c->keep.p;
    SM_TRY(sm_file_read(c->file, had, c->keep.p + had, cap - had, c->err));
    c->have = cap;
    return SMOL_OK;
}

/* Make n bytes at pos present; the caller knows that the file has them. */
static smol_status fill(struct sm_cursor *c, size_t n)
{
    if (!c->file)
        return SM_FAIL_AT(c->err, FORMAT, c->pos,
                          "the header goes on past the %zu bytes that were given", c->have);
    const uint64_t end = c->pos + n; /* <= size, so it cannot wrap */
    if (!c->window.p && end <= SM_GGUF_KEEP_MAX) return grow_keep(c, (size_t)end);
    if (!c->window.p) {
        void *p;
        SM_TRY(sm_gguf_alloc(&p, SM_GGUF_WINDOW, c->err));
        c->window.p = p;
        c->window.n = SM_GGUF_WINDOW;
    }
    const uint64_t left = c->size - c->pos;
    const size_t get = left < c->window.n ? (size_t)left : c->window.n;
    c->base = c->window.p;
    c->at = c->pos;
    c->have = 0; /* nothing valid if the read fails */
    SM_TRY(sm_file_read(c->file, c->pos, c->window.p, get, c->err));
    c->have = get;
    return SMOL_OK;
}

static smol_status check_left(const struct sm_cursor *c, uint64_t n, const char *what)
{
    const uint64_t left = c->size - c->pos;
    if (n > left)
        return SM_FAIL_AT(c->err, FORMAT, c->pos,
                          "the file ends inside %s at byte %" PRIu64 ": expected %" PRIu64
                          " more bytes, found %" PRIu64,
                          what, c->pos, n, left);
    if (c->pos > SM_GGUF_HEADER_MAX || n > SM_GGUF_HEADER_MAX - c->pos)
        return SM_FAIL_AT(c->err, LIMIT, c->pos,
                          "the header is too large: %s at byte %" PRIu64
                          " goes past the limit of 512 MiB",
                          what, c->pos);
    return SMOL_OK;
}

smol_status sm_cursor_take(struct sm_cursor *c, size_t n, const uint8_t **out, const char *what)
{
    *out = NULL;
    SM_TRY(check_left(c, n, what));
    uint64_t in = c->pos - c->at;
    if (c->pos < c->at || in > c->have || n > c->have - in) {
        SM_TRY(fill(c, n));
        in = c->pos - c->at;
    }
    *out = c->base + in;
    c->pos += n;
    return SMOL_OK;
}

smol_status sm_cursor_skip(struct sm_cursor *c, uint64_t n, const uint8_t **out, const char *what)
{
    *out = NULL;
    SM_TRY(check_left(c, n, what));
    if (c->whole) {
        if (n > c->have - c->pos) SM_TRY(fill(c, 0)); /* fails: memory holds no more */
        *out = c->base + c->pos;
    }
    c->pos += n;
    return SMOL_OK;
}

smol_status sm_cursor_u32(struct sm_cursor *c, uint32_t *out, const char *what)
{
    const uint8_t *p;
    SM_TRY(sm_cursor_take(c, 4, &p, what));
    *out = sm_ld32(p);
    return SMOL_OK;
}

smol_status sm_cursor_u64(struct sm_cursor *c, uint64_t *out, const char *what)
{
    const uint8_t *p;
    SM_TRY(sm_cursor_take(c, 8, &p, what));
    *out = sm_ld64(p);
    return SMOL_OK;
}
