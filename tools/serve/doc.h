/* SPDX-License-Identifier: MIT */
/* A JSON document in memory: the writer of tools/lib/json.h over a growing buffer. */
#ifndef SM_SERVE_DOC_H
#define SM_SERVE_DOC_H

#include "../lib/json.h"

struct sm_doc {
    struct sm_json j; /* write here between begin and end */
    FILE *f;
    char *text;
    size_t n;
};

/* False: no memory; then nothing else may be called. */
bool sm_doc_begin(struct sm_doc *d);
/* The finished text (one line, with its newline) and length; false when memory ran out. Free
 * d->text with free() in either case. */
bool sm_doc_end(struct sm_doc *d);

#endif
