/* SPDX-License-Identifier: MIT */
/* Shared by gguf_write.c and gguf_write_stream.c only. */
#ifndef SM_GGUF_WRITE_INT_H
#define SM_GGUF_WRITE_INT_H

#include "gguf/gguf_write.h"

#include <stdio.h>

struct sm_write_pair {
    struct sm_kv kv;         /* at is unused */
    void *own_key, *own_data; /* what kv points to, unless borrowed: key.n and bytes long */
};

struct sm_write_tensor {
    char name[64];
    uint64_t dim[4];
    uint64_t at, bytes; /* at: in the data section until sealed, then in the file */
    uint32_t type, n_dims;
};

struct sm_gguf_writer {
    struct sm_write_pair *pair;
    size_t n_pairs, pairs_room;
    struct sm_write_tensor *tensor;
    size_t n_tensors, tensors_room;
    uint32_t alignment;
    uint8_t *head; /* NULL until sealed */
    size_t head_bytes;
    uint64_t file_bytes;
    /* while writing */
    sm_gguf_sink sink;
    void *ctx;
    size_t i_tensor; /* the one that the next byte belongs to */
    uint64_t done;   /* bytes of it */
    FILE *file;
    char *path, *part_path;
    size_t path_bytes, part_path_bytes;
};

void sm_gguf_writer_drop_file(struct sm_gguf_writer *w);

#endif
