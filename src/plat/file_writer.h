/* SPDX-License-Identifier: MIT */
/* Files that are replaced as a whole, written piece by piece, and folders of such files. */
#ifndef SM_FILE_WRITER_H
#define SM_FILE_WRITER_H

#include "base/status.h"
#include <stdbool.h>

/* A temporary file beside `path`, readable by its owner only; sm_writer_commit syncs it and puts it
 * in the place of `path`. The file at `path` is the old one or the new one at every moment. */
struct sm_writer;
SM_NODISCARD smol_status sm_writer_open(struct sm_writer **out, const char *path, smol_error *err);
SM_NODISCARD smol_status sm_writer_put(struct sm_writer *w, const void *data, size_t n,
                                       smol_error *err);
SM_NODISCARD smol_status sm_writer_commit(struct sm_writer *w, smol_error *err); /* frees w */
void sm_writer_abort(struct sm_writer *w); /* removes what was written; NULL is fine */

/* Call fn for every regular file of a folder whose name ends with `suffix`; false ends it. Times in
 * seconds since 1970. A folder that is missing has none. */
typedef bool (*sm_folder_fn)(void *arg, const char *name, uint64_t bytes, int64_t changed);
void sm_folder_each(const char *folder, const char *suffix, sm_folder_fn fn, void *arg);
bool sm_file_remove(const char *path);
void sm_file_touch(const char *path); /* changed now */

#endif
