/* SPDX-License-Identifier: MIT */
/* The table behind options.h, shared by its parser and its printers. */
#ifndef SM_TOOLS_OPTIONS_TABLE_H
#define SM_TOOLS_OPTIONS_TABLE_H

#include "options.h"
#include <stddef.h>

enum sm_option_kind {
    SM_OPTION_FLAG,   /* bool, no value */
    SM_OPTION_TEXT,   /* const char * */
    SM_OPTION_TEXTS,  /* stop[], n_stop: may be repeated */
    SM_OPTION_I32,    /* int32_t in [lo, hi] */
    SM_OPTION_I64,    /* int64_t in [lo, hi] */
    SM_OPTION_COUNT,  /* uint32_t in [lo, hi] */
    SM_OPTION_SIZE,   /* uint64_t bytes, at least 1 */
    SM_OPTION_FLOAT,  /* float in [lo, hi] */
    SM_OPTION_CHOICE, /* int: index in `choices` */
    SM_OPTION_RATE,   /* "MB/s[,us]" into flash_mb_s and flash_us */
    SM_OPTION_PAIR,   /* struct sm_option_pair "X[,J]", X in [lo, hi], J a small count */
    SM_OPTION_PAIR_R  /* the same, or "Xr[,J]" */
};

struct sm_option {
    const char *name; /* long name without dashes */
    char letter;      /* short name, 0: none */
    enum sm_option_kind kind;
    unsigned commands; /* SM_CMD_ set */
    size_t at;         /* offset in struct sm_options */
    double lo, hi;
    double start;        /* default of numbers and choices */
    const char *value;   /* what the value is called in help: "N", "FILE"; NULL for flags */
    const char *choices; /* "f32|f16|q8_0" */
    const char *shown;   /* the default as help says it; NULL: none worth saying */
    bool frequent;       /* a line of its own in --help */
    const char *help;    /* one line, no full stop */
};

#define SM_OPTION_MAX 128 /* options of all commands */
extern const struct sm_option sm_option_table[];
extern const unsigned sm_option_count;

#endif
