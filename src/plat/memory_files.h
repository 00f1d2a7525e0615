/* SPDX-License-Identifier: MIT */
/* Reading /proc and the cgroup files; used by linux_memory.c and its test. */
#ifndef SM_MEMORY_FILES_H
#define SM_MEMORY_FILES_H

#include "plat/plat.h"

/* As sm_memory_probe, with every path below `root` ("" is the real system). Allocates nothing. */
void sm_memory_probe_at(const char *root, struct sm_memory *out);

#endif
