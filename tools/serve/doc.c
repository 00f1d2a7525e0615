/* SPDX-License-Identifier: MIT */
#include "doc.h"

bool sm_doc_begin(struct sm_doc *d)
{
    *d = (struct sm_doc){0};
    d->f = open_memstream(&d->text, &d->n);
    if (!d->f) return false;
    sm_json_begin(&d->j, d->f, false);
    return true;
}

bool sm_doc_end(struct sm_doc *d)
{
    const bool good = sm_json_end(&d->j);
    return fclose(d->f) == 0 && good && d->text;
}
