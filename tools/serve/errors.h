/* SPDX-License-Identifier: MIT */
/* OpenAI's error objects. */
#ifndef SM_SERVE_ERRORS_H
#define SM_SERVE_ERRORS_H

#include "request.h"

/* {"error": {"message", "type", "param", "code"}}, malloc'ed; NULL: no memory. */
char *sm_error_text(const struct sm_refusal *e, size_t *n);
/* The refusal that a failure of the library becomes: 400 for what the request asked, else 500. */
void sm_refuse_failure(struct sm_refusal *e, const smol_error *err);
/* 503: the server is shutting down. */
void sm_refuse_stopping(struct sm_refusal *e);
/* "Bad Request" */
const char *sm_http_reason(int status);

#endif
