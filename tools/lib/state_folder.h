/* SPDX-License-Identifier: MIT */
/* Where smol chat and smol serve keep states of conversations. */
#ifndef SM_TOOLS_STATE_FOLDER_H
#define SM_TOOLS_STATE_FOLDER_H

#include <stddef.h>
#include <stdint.h>

#define SM_STATES_BYTES ((uint64_t)256 << 20) /* all kept states together */

/* SMOL_CACHE, else smol in the user's cache folder, made where it is missing; "": none, or
 * SMOL_CACHE is "off". */
void sm_state_folder(char *buf, size_t n);

#endif
