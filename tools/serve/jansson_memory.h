/* SPDX-License-Identifier: MIT */
/* A limit on what all parsed JSON together may hold: a small body can make a big tree. */
#ifndef SM_SERVE_JANSSON_MEMORY_H
#define SM_SERVE_JANSSON_MEMORY_H

#include <stddef.h>

/* Before jansson is used for the first time. */
void sm_jansson_limit(size_t bytes);

#endif
