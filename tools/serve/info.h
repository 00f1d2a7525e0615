/* SPDX-License-Identifier: MIT */
/* Texts about the server: models, metrics. All malloc'ed, NULL when there is no memory. */
#ifndef SM_SERVE_INFO_H
#define SM_SERVE_INFO_H

#include "server.h"

char *sm_info_models(struct sm_server *s, size_t *n);  /* GET /v1/models */
char *sm_info_model(struct sm_server *s, size_t *n);   /* GET /v1/models/NAME */
char *sm_info_metrics(struct sm_server *s, size_t *n); /* GET /metrics, Prometheus text format */
/* Memory this process holds now, 0 where the system does not tell. */
uint64_t sm_info_rss_bytes(void);

#endif
