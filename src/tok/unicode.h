/* SPDX-License-Identifier: MIT */
/* Code points: their classes (Unicode 15.1, the version the split rules are defined on) and UTF-8.
 * Pure functions over constant tables, any thread. */
#ifndef SM_TOK_UNICODE_H
#define SM_TOK_UNICODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Class bits of a code point. A point without a bit is a separator, a control or unassigned. */
#define SM_UC_L 1u   /* letter */
#define SM_UC_N 2u   /* number */
#define SM_UC_P 4u   /* punctuation */
#define SM_UC_S 8u   /* symbol */
#define SM_UC_M 16u  /* mark */
#define SM_UC_WS 32u /* one of the 25 white-space points */
#define SM_UC_NL 64u /* carriage return or line feed (also white space) */

/* Sizes as scripts/gen_unicode_table.py prints them (--check compares). */
#define SM_UNICODE_N_INDEX 7172
#define SM_UNICODE_N_CLASS 29952
#define SM_UNICODE_TAIL 11904
extern const uint8_t sm_unicode_index[SM_UNICODE_N_INDEX];
extern const uint8_t sm_unicode_class[SM_UNICODE_N_CLASS];

static inline unsigned sm_unicode_class_of(uint32_t c)
{
    const uint32_t block = c >> 7;
    const uint32_t at =
        block < SM_UNICODE_N_INDEX ? sm_unicode_index[block] * 128u : SM_UNICODE_TAIL;
    return sm_unicode_class[at + (c & 127u)];
}

/* The code point at p of text that sm_utf8_valid accepted; *n its length in bytes. */
static inline uint32_t sm_utf8_get(const uint8_t *p, unsigned *n)
{
    if (p[0] < 0x80) {
        *n = 1;
        return p[0];
    }
    if (p[0] < 0xe0) {
        *n = 2;
        return (uint32_t)(p[0] & 31) << 6 | (uint32_t)(p[1] & 63);
    }
    if (p[0] < 0xf0) {
        *n = 3;
        return (uint32_t)(p[0] & 15) << 12 | (uint32_t)(p[1] & 63) << 6 | (uint32_t)(p[2] & 63);
    }
    *n = 4;
    return (uint32_t)(p[0] & 7) << 18 | (uint32_t)(p[1] & 63) << 12 | (uint32_t)(p[2] & 63) << 6 |
           (uint32_t)(p[3] & 63);
}

/* Length of the well-formed sequence at p with n > 0 bytes left, 0 when there is none. Surrogates
 * (ED A0..BF xx) count as well-formed when `surrogates` is set, as they do on the way in. */
unsigned sm_utf8_length(const uint8_t *p, size_t n, bool surrogates);
/* Bytes from the start that are well-formed, surrogates included: n when all are. */
size_t sm_utf8_valid(const uint8_t *p, size_t n);
/* How many bytes at p (1..3, n > 0) begin a character in a well-formed way without completing it:
 * what a replacement character stands for. *more: the n bytes end before that is decided. */
unsigned sm_utf8_prefix(const uint8_t *p, size_t n, bool *more);
/* Write a code point; returns 1..4. */
unsigned sm_utf8_put(char *w, uint32_t c);

#endif
