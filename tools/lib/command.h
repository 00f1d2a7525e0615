/* SPDX-License-Identifier: MIT */
/* What a command of the program is. Each is one file tools/cmd_NAME.c that defines
 *
 *     int sm_cmd_NAME(const struct sm_options *o, int argc, char **argv);
 *
 * argv[0 .. argc-1] are the arguments that are no options (argv[0] of most is the model's path);
 * their number has been checked. The return value is the exit code. stdout carries the answer
 * alone; everything else goes to stderr. */
#ifndef SM_TOOLS_COMMAND_H
#define SM_TOOLS_COMMAND_H

#include "options.h"
#include <smol/smol.h>

/* Exit codes of the program. */
enum {
    SM_EXIT_DONE = 0,
    SM_EXIT_FAILED = 1,
    SM_EXIT_USAGE = 2,
    SM_EXIT_NOMEM = 3,
    SM_EXIT_INTERRUPTED = 130 /* by Ctrl-C, as shells have it */
};

typedef int (*sm_command_fn)(const struct sm_options *o, int argc, char **argv);

struct sm_command {
    const char *name;
    const char *args;    /* "MODEL [-p TEXT | -f FILE]" for help and messages */
    const char *summary; /* a phrase, no full stop */
    sm_command_fn run;
    unsigned bit; /* SM_CMD_... */
    int min_args, max_args;
    const char *missing; /* what is missing when there are too few arguments: "no model given" */
};

static inline double sm_mib(uint64_t bytes) { return (double)bytes / 1048576.0; }

/* Print "smol: <message>" (with the byte offset where the error has one) on stderr and return the
 * exit code that belongs to it: 3 for NOMEM, 2 for ARG, 130 for CANCELLED, else 1. */
int sm_report(const smol_error *err);
/* Standard output could not be written, and errno says why: a reader that had enough is no failure,
 * anything else is said as "cannot write <what>: <why>". */
int sm_output_failed(const char *what);
/* The same for a sentence made by the command: "smol: ..." and the code. */
__attribute__((format(printf, 2, 3))) int sm_complain(int exit_code, const char *fmt, ...);

int sm_cmd_chat(const struct sm_options *o, int argc, char **argv);
int sm_cmd_run(const struct sm_options *o, int argc, char **argv);
int sm_cmd_plan(const struct sm_options *o, int argc, char **argv);
int sm_cmd_eval(const struct sm_options *o, int argc, char **argv);
int sm_cmd_calibrate(const struct sm_options *o, int argc, char **argv);
int sm_cmd_inspect(const struct sm_options *o, int argc, char **argv);
int sm_cmd_bench(const struct sm_options *o, int argc, char **argv);
int sm_cmd_synth(const struct sm_options *o, int argc, char **argv);
/* What --help says besides the options: names of shapes and formats. */
void sm_synth_help(FILE *f);
int sm_cmd_serve(const struct sm_options *o, int argc, char **argv);
int sm_cmd_simulate(const struct sm_options *o, int argc, char **argv);
int sm_cmd_tokenize(const struct sm_options *o, int argc, char **argv);
int sm_cmd_pack(const struct sm_options *o, int argc, char **argv);
int sm_cmd_unpack(const struct sm_options *o, int argc, char **argv);
int sm_cmd_quantize(const struct sm_options *o, int argc, char **argv);
/* What --help says besides the options: the formats. */
void sm_quantize_help(FILE *f);

#endif
