/* SPDX-License-Identifier: MIT */
/* Reading typed fields out of a JSON object. Each reader returns false after a refusal that names
 * the field; a field that is absent or null leaves *out alone. */
#ifndef SM_SERVE_FIELDS_H
#define SM_SERVE_FIELDS_H

#include "request.h"

/* The name may have a path in front, for the refusal: "stream_options.include_usage". */
bool sm_field_bool(json_t *o, const char *name, bool *out, struct sm_refusal *e);
bool sm_field_int(json_t *o, const char *name, int64_t lo, int64_t hi, int64_t *out,
                  struct sm_refusal *e);
bool sm_field_float(json_t *o, const char *name, double lo, double hi, float *out,
                    struct sm_refusal *e);
bool sm_field_str(json_t *o, const char *name, const char **out, struct sm_refusal *e);
/* The member, NULL when it is absent or null. */
json_t *sm_field_get(json_t *o, const char *name);
/* What JSON calls a value: "a string". */
const char *sm_json_kind(const json_t *v);
/* An array of token ids below n_vocab; *ids is malloc'ed. */
bool sm_field_ids(json_t *v, const char *name, int32_t n_vocab, int32_t **ids, size_t *n,
                  struct sm_refusal *e);
/* Every member of o must be in the NULL-ended list. */
bool sm_fields_known(json_t *o, const char *const *names, const char *where, struct sm_refusal *e);
/* The member as an object with no members but those; *out is NULL when it is absent or null. */
bool sm_field_object(json_t *o, const char *name, const char *const *names, json_t **out,
                     struct sm_refusal *e);

#endif
