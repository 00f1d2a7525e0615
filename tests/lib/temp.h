/* SPDX-License-Identifier: MIT */
/* Files that a test makes. Everything lives in one folder of its own, removed at exit. */
#ifndef SM_TESTS_TEMP_H
#define SM_TESTS_TEMP_H

#include <stddef.h>

/* Call first: unless TMPDIR says where, the folder is made in memory (/dev/shm) when there is room
 * for so many MiB, which is what the test may hold at once. For tests of many small reads, or of
 * writes that are read back past the page cache: a disk makes them wait. */
void temp_prefer_memory(unsigned mib);
/* The folder, made at the first call below TMPDIR (default /tmp); aborts when that fails. */
const char *temp_dir(void);
/* Path of `name` in it; one of 8 static buffers in turn. */
const char *temp_path(const char *name);
/* Write a file there (also into subfolders, "a/b/c", which are made); returns its path. */
const char *temp_write(const char *name, const void *data, size_t n);
const char *temp_write_text(const char *name, const char *text);

#endif
