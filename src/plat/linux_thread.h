/* SPDX-License-Identifier: MIT */
/* Between the files of src/plat only. */
#ifndef SM_LINUX_THREAD_H
#define SM_LINUX_THREAD_H

#include "plat/plat.h"

/* Ask for the i-th of the cores this process may use; a refusal is ignored (a mask is a request). */
void sm_thread_pin(struct sm_thread *t, unsigned i);

#endif
