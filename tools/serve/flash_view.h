/* SPDX-License-Identifier: MIT */
/* The flash view: a picture of the expert pools for the web page, as server-sent events.
 *
 * GET /events sends one event `plan` (what lives where) and then frames. A frame holds running
 * totals, from which the page computes rates, and one character for each slot of each pool:
 *
 *     ' ' empty                    '~' being read
 *     '.' at rest                  'h' used, was there
 *     'm' read because missed      'p' read ahead of need
 *     'P' read ahead and used since the last frame
 *
 * Frames are made by the decode thread between tokens, at most FRAMES_PER_SECOND of them and only
 * while somebody watches, so that looking costs next to nothing. */
#ifndef SM_SERVE_FLASH_VIEW_H
#define SM_SERVE_FLASH_VIEW_H

#include "server.h"

struct sm_flash_view *sm_view_new(struct sm_server *s);
void sm_view_free(struct sm_flash_view *v);

/* Decode thread. The model is open: allocate for its pools. */
bool sm_view_open(struct sm_flash_view *v);
/* Something happened: make a frame if one is due. `phase`: "prompt" with done and total, "decode",
 * "idle" (made at once). */
void sm_view_look(struct sm_flash_view *v, const char *phase, uint64_t done, uint64_t total);

/* Event thread. */
void sm_view_subscribe(struct sm_server *s, struct evhttp_request *req);
void sm_view_send(struct sm_flash_view *v); /* the newest frame, if it was not sent yet */
void sm_view_tick(struct sm_flash_view *v); /* once a second: a sign of life */
void sm_view_end(struct sm_flash_view *v);  /* all watchers leave */

#endif
