/* SPDX-License-Identifier: MIT */
/* Reading /proc and the cgroup files; used by linux_memory.c and its test. */
#ifndef SM_MEMORY_FILES_H
#define SM_MEMORY_FILES_H

#include "plat/plat.h"

#include <stdbool.h>

#define SM_MEMORY_GROUPS_MAX 16u

/* Open files, -1: there is none. The groups are ours and those above it. */
struct sm_memory_group {
    bool is_v2;
    int limit, soft_limit, usage, stat;
};
struct sm_memory_files {
    bool often; /* what costs much and changes little is left out: the peak */
    int meminfo, self;
    unsigned n_groups;
    struct sm_memory_group group[SM_MEMORY_GROUPS_MAX];
};
void sm_memory_files_open(struct sm_memory_files *f, const char *root, bool often);
void sm_memory_files_look(const struct sm_memory_files *f, struct sm_memory *out);
void sm_memory_files_close(struct sm_memory_files *f);

/* As sm_memory_probe, with every path below `root` ("" is the real system). Allocates nothing. */
void sm_memory_probe_at(const char *root, struct sm_memory *out);

#endif
