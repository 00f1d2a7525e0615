/* SPDX-License-Identifier: MIT */
/* Text that came from files and goes to a terminal. */
#ifndef SM_BASE_TEXT_H
#define SM_BASE_TEXT_H

/* Make `s` safe to print, in place: control characters (also the 8-bit ones in UTF-8) and bytes
 * that are no valid UTF-8 become '?'; a character that was cut off at the end is removed. */
void sm_text_clean(char *s);

#endif
