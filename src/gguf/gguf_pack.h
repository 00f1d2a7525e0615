/* SPDX-License-Identifier: MIT */
/* Packs: model files in which nothing has to be done at load (docs/pack-format.md). A pack is a
 * GGUF v3 file of I8 payload tensors named smol.*; sm_gguf_open shows it as the model it was made
 * from: the tensors are those of the source, each with a place that says where and how its bytes
 * lie. The header is covered by a checksum, everything else by one checksum per unit (struct
 * sm_place). */
#ifndef SM_GGUF_PACK_H
#define SM_GGUF_PACK_H

#include "base/mem.h"
#include "gguf/gguf.h"

#define SM_PACK_ALIGN 16384u          /* experts begin here: the largest page of any device */
#define SM_PACK_UNIT_BYTES (256u << 10) /* the most that one checksum covers, if rows allow */
#define SM_PACK_TABLE_COLUMNS 14u
#define SM_PACK_RAW_COLUMNS 5u

/* The first four bytes of a pack that is being made in place, and of a source that was partly
 * freed. Neither can be opened; gguf_kind.c says what they are. */
#define SM_PACK_UNFINISHED "smPK"
#define SM_PACK_FREED "smFR"

/* How a tensor lies in a pack: as one matrix of all its rows, as single rows, or as a stack of
 * dim[2] * dim[3] matrices (experts). */
enum sm_pack_layout {
    SM_LAYOUT_ROWS,      /* one matrix, file order */
    SM_LAYOUT_X8,        /* one matrix, kernel layout */
    SM_LAYOUT_BY_ROW,    /* every row by itself: biases of experts */
    SM_LAYOUT_STACK,     /* matrices, file order */
    SM_LAYOUT_STACK_X8   /* matrices, kernel layout */
};

/* Where a pack keeps a tensor: n_mat matrices (experts) of n_rows rows. A unit is what one checksum
 * covers: unit_rows rows of one matrix, fewer at its end. */
struct sm_place {
    bool x8;               /* groups of 8 rows (quant.h), the last one padded; else file order */
    uint64_t at, stride;   /* byte of the first matrix in the pack; from matrix to matrix */
    uint64_t row_bytes;
    uint32_t n_mat, n_rows;
    uint32_t unit_rows;    /* a multiple of 8, or all */
    uint32_t n_units;      /* of one matrix */
    uint64_t first_sum, sum_stride; /* unit u of matrix m: sum first_sum + m * sum_stride + u */
    uint32_t source_file;
    uint64_t source_at;
};

/* Bytes of the sources that belong to no tensor and are not zero: headers, padding, what trails. In
 * units of SM_PACK_UNIT_BYTES. */
struct sm_pack_raw {
    uint32_t file;
    uint64_t source_at, bytes, at, first_sum;
};

struct sm_pack_source { const char *name; uint64_t bytes; }; /* base name; owned by the pack */

struct sm_pack {
    struct sm_place *place; /* [n_tensors], in the order of the source's records */
    size_t n_tensors;
    struct sm_pack_raw *raw;
    size_t n_raw;
    uint64_t *sums;         /* XXH3-64 with seed 0, in the order of the units in the file */
    size_t n_sums;
    struct sm_pack_source *source;
    size_t n_sources;
    char *names;            /* of sources */
    size_t names_bytes;
    uint64_t checksum_at, sums_at; /* byte offsets of the values in the header */
    uint64_t head_bytes;    /* of the header, without the padding before the data */
};

/* NULL: not a pack. */
const struct sm_pack *sm_gguf_pack(const struct sm_gguf *g);
/* For whoever writes the pack and fills its sums in. */
struct sm_pack *sm_gguf_pack_mutable(struct sm_gguf *g);

/* Bytes of the header of the (first) file, without the padding before its data. */
uint64_t sm_gguf_head_bytes(const struct sm_gguf *g);

/* Bytes of n rows from the start of a unit, as the pack holds them. */
static inline uint64_t sm_place_bytes(const struct sm_place *p, uint64_t n_rows)
{
    return (p->x8 ? sm_round_up64(n_rows, 8) : n_rows) * p->row_bytes;
}
static inline uint64_t sm_place_row_at(const struct sm_place *p, uint32_t mat, uint64_t row)
{
    return p->at + mat * p->stride + row * p->row_bytes; /* row: the first of a unit */
}
static inline uint32_t sm_place_unit_rows(const struct sm_place *p, uint32_t unit)
{
    const uint32_t left = p->n_rows - unit * p->unit_rows;
    return left < p->unit_rows ? left : p->unit_rows;
}
static inline uint64_t sm_place_sum(const struct sm_place *p, uint32_t mat, uint32_t unit)
{
    return p->first_sum + mat * p->sum_stride + unit;
}
static inline uint64_t sm_raw_units(const struct sm_pack_raw *r)
{
    return (r->bytes + SM_PACK_UNIT_BYTES - 1) / SM_PACK_UNIT_BYTES;
}

/* XXH3-64 of a header image with the checksum's own 8 bytes taken as zero, seeded with the size of
 * the whole file. The first four bytes are taken as "GGUF". */
uint64_t sm_pack_head_checksum(const uint8_t *head, uint64_t head_bytes, uint64_t checksum_at,
                               uint64_t file_bytes);

#endif
