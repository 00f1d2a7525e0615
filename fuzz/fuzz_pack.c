/* SPDX-License-Identifier: MIT */
/* Headers of packs of any content. The checksum would stop nearly all of them, so it is made right
 * first; what is accepted then must be safe to read by. */
#include "require.h"

#include "base/bits.h"
#include "base/mem.h"
#include "gguf/gguf_pack.h"
#include "quant/quant.h"

#include <stdlib.h>
#include <string.h>

static void check_place(const struct sm_gguf *g, size_t i, uint64_t file_bytes)
{
    const struct sm_pack *p = sm_gguf_pack(g);
    const struct sm_tensor_info *t = sm_gguf_tensor(g, i);
    const struct sm_place *o = t->place;
    require(o == &p->place[i] && o->n_mat >= 1 && o->n_rows >= 1 && o->n_units >= 1);
    require(sm_gguf_find_tensor(g, t->name) == t && t->at == o->at && t->file == 0);
    require(t->bytes == (uint64_t)o->n_mat * o->n_rows * o->row_bytes);
    const uint32_t mats[] = {0, o->n_mat / 2, o->n_mat - 1};
    const uint32_t units[] = {0, o->n_units / 2, o->n_units - 1};
    for (unsigned m = 0; m < 3; m++) {
        for (unsigned u = 0; u < 3; u++) {
            const uint32_t rows = sm_place_unit_rows(o, units[u]);
            const uint64_t at = sm_place_row_at(o, mats[m], (uint64_t)units[u] * o->unit_rows);
            const uint64_t n = sm_place_bytes(o, rows);
            require(rows >= 1 && at <= file_bytes && n <= file_bytes - at);
            require(sm_place_sum(o, mats[m], units[u]) < p->n_sums);
        }
    }
    require(o->source_file < p->n_sources && o->source_at <= p->source[o->source_file].bytes &&
            t->bytes <= p->source[o->source_file].bytes - o->source_at);
}

static void check(const struct sm_gguf *g, uint64_t file_bytes)
{
    const struct sm_pack *p = sm_gguf_pack(g);
    if (!p) return;
    require(p->n_tensors == sm_gguf_n_tensors(g));
    for (size_t i = 0; i < p->n_tensors; i++) check_place(g, i, file_bytes);
    for (size_t i = 0; i < p->n_raw; i++) {
        const struct sm_pack_raw *r = &p->raw[i];
        require(r->file < p->n_sources && r->at + r->bytes <= file_bytes && r->bytes);
        require(r->source_at + r->bytes <= p->source[r->file].bytes);
        require(r->first_sum + sm_raw_units(r) <= p->n_sums);
    }
    for (size_t i = 0; i < p->n_sources; i++) require(!strchr(p->source[i].name, '/'));
}

/* Where the value of key smol.pack.checksum seems to be; 0: nowhere. */
static size_t find_checksum(const uint8_t *p, size_t n)
{
    static const char key[] = "smol.pack.checksum";
    const size_t k = sizeof key - 1;
    for (size_t i = 24; i + k + 12 <= n; i++)
        if (!memcmp(p + i, key, k)) return i + k + 4;
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint64_t file_bytes = size + (UINT64_C(1) << 32);
    const size_t held = sm_mem_held(), at = find_checksum(data, size);
    struct sm_gguf *g;
    uint8_t *copy = malloc(size + 1);
    if (!copy) return 0;
    if (size) memcpy(copy, data, size);
    /* Once as it is; then, if the message is about the checksum, with the one it wants: the header
     * may end before the input does, so every end is not tried, only what the reader says. */
    for (unsigned i = 0; i < 2; i++) {
        smol_error err = {0};
        const smol_status st = sm_gguf_parse(&g, copy, size, file_bytes, &err);
        require((st == SMOL_OK) == (g != NULL) && err.code == st);
        if (st == SMOL_OK) {
            check(g, file_bytes);
            require(sm_mem_held() - held == sm_gguf_memory(g));
            sm_gguf_drop_arrays(g);
            check(g, file_bytes);
        }
        sm_gguf_free(g);
        require(sm_mem_held() == held);
        const char *found = strstr(err.msg, "found ");
        if (!at || st != SMOL_FORMAT || !strstr(err.msg, "checksum") || !found) break;
        sm_st64(copy + at, strtoull(found + 6, NULL, 16));
    }
    free(copy);
    return 0;
}
