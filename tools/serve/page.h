/* SPDX-License-Identifier: MIT */
/* The web page, made from web/index.html by scripts/embed-page. */
#ifndef SM_SERVE_PAGE_H
#define SM_SERVE_PAGE_H

#include <stddef.h>

extern const unsigned char sm_web_page[];
extern const size_t sm_web_page_bytes;
extern const char sm_web_page_policy[]; /* its Content-Security-Policy */

#endif
