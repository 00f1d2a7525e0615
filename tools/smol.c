/* SPDX-License-Identifier: MIT */
#include <stdio.h>
int main(void) { puts("smol"); return 0; }
