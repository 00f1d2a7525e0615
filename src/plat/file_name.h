/* SPDX-License-Identifier: MIT */
/* Paths inside error sentences, which have room for 200 bytes: the last part of long ones. */
#ifndef SM_FILE_NAME_H
#define SM_FILE_NAME_H

#include <string.h>

#define SM_PATH_SHOWN 72
#define SM_PATH_FMT "%s%s"
#define SM_PATH(path) sm_path_dots(path), sm_path_tail(path)

static inline const char *sm_path_tail(const char *path)
{
    const size_t n = strlen(path);
    const char *tail = n > SM_PATH_SHOWN ? path + n - SM_PATH_SHOWN : path;
    if (tail != path)
        while (((unsigned char)*tail & 0xc0) == 0x80) tail++; /* not into a character */
    return tail;
}
static inline const char *sm_path_dots(const char *path)
{
    return strlen(path) > SM_PATH_SHOWN ? "..." : "";
}

#endif
