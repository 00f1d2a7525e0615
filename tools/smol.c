/* SPDX-License-Identifier: MIT */
/* The program: picks a command, parses its options, checks its arguments. */
#include "lib/command.h"
#include "lib/complete.h"
#include "lib/outputs.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#ifndef SMOL_VERSION
#define SMOL_VERSION "0.1.0"
#endif

/* A command whose file is not part of this build is a null pointer here and is not listed. */
#pragma weak sm_cmd_run
#pragma weak sm_cmd_chat
#pragma weak sm_cmd_serve
#pragma weak sm_cmd_plan
#pragma weak sm_cmd_eval
#pragma weak sm_cmd_calibrate
#pragma weak sm_cmd_inspect
#pragma weak sm_cmd_simulate
#pragma weak sm_cmd_tokenize
#pragma weak sm_cmd_bench
#pragma weak sm_cmd_synth
#pragma weak sm_synth_help
#pragma weak sm_cmd_pack
#pragma weak sm_cmd_unpack
#pragma weak sm_cmd_quantize
#pragma weak sm_quantize_help

static const struct sm_command commands[] = {
    {"run", "MODEL [-p TEXT | -f FILE]", "answer a prompt, or continue a text", sm_cmd_run,
     SM_CMD_RUN, 1, 1, "no model given"},
    {"chat", "MODEL", "talk with a model", sm_cmd_chat, SM_CMD_CHAT, 1, 1, "no model given"},
    {"serve", "MODEL [--port N]", "OpenAI-compatible server with a web page", sm_cmd_serve,
     SM_CMD_SERVE, 1, 1, "no model given"},
    {"plan", "MODEL", "show what would live where, and the predicted speed", sm_cmd_plan,
     SM_CMD_PLAN, 1, 1, "no model given"},
    {"eval", "MODEL --text FILE | --tokens 1,2,3", "measure perplexity, or write logits",
     sm_cmd_eval, SM_CMD_EVAL, 1, 1, "no model given"},
    {"calibrate", "MODEL --text FILE OUT",
     "write the importance matrix that quantisers use, from a text", sm_cmd_calibrate,
     SM_CMD_CALIBRATE, 2, 2, "a model and a file to write are needed"},
    {"inspect", "FILE | --cpu", "show what a GGUF file holds, or what this CPU offers",
     sm_cmd_inspect, SM_CMD_INSPECT, 0, 1, "no file given"},
    {"tokenize", "MODEL [-p TEXT | -f FILE]", "print the token ids of a text", sm_cmd_tokenize,
     SM_CMD_TOKENIZE, 1, 1, "no model given"},
    {"bench", "MODEL | --kernels | --flash PATH", "measure a model, the kernels or a flash chip",
     sm_cmd_bench, SM_CMD_BENCH, 0, 1, ""},
    {"synth", "SHAPE OUT",
     "write a model of a known shape, made up, to measure a device", sm_cmd_synth,
     SM_CMD_SYNTH, 2, 2, "a shape and a file to write are needed"},
    {"pack", "IN OUT [--in-place]", "rewrite a model so that nothing has to be done at load",
     sm_cmd_pack, SM_CMD_PACK, 2, 2, "IN and OUT are needed"},
    {"unpack", "IN OUT", "give back the file that a pack was made from", sm_cmd_unpack,
     SM_CMD_UNPACK, 2, 2, "IN and OUT are needed"},
    {"quantize", "IN OUT --experts TYPE --rest TYPE", "write a model with smaller weights",
     sm_cmd_quantize, SM_CMD_QUANTIZE, 2, 2, "IN and OUT are needed"},
    {"simulate", "TRACE [--svg FILE]", "replay recorded routing: policies, pool sizes, levers",
     sm_cmd_simulate, SM_CMD_SIMULATE, 1, 1, "no trace given"},
};
enum { N_COMMANDS = sizeof commands / sizeof *commands };

static const struct sm_command *find(const char *name)
{
    for (int i = 0; i < N_COMMANDS; i++)
        if (commands[i].run && !strcmp(commands[i].name, name)) return &commands[i];
    return NULL;
}

static void print_overview(FILE *f)
{
    fputs("smol runs language models that are larger than the memory they run in.\n\n"
          "usage: smol COMMAND ...\n\n",
          f);
    for (int i = 0; i < N_COMMANDS; i++)
        if (commands[i].run) fprintf(f, "  %-11s%s\n", commands[i].name, commands[i].summary);
    fputs("  help       show the options of a command\n"
          "\nsmol --version prints the version; smol --man a manual page; smol --completion\n"
          "bash|zsh|fish a script for that shell.\n"
          "Try: smol run MODEL.gguf -p \"Once upon a time\"\n",
          f);
}

static void print_command(FILE *f, const struct sm_command *c)
{
    fprintf(f, "usage: smol %s %s [options]\n%s.\n\n", c->name, c->args, c->summary);
    sm_options_print_help(f, c->bit);
    if (c->bit == SM_CMD_SYNTH) sm_synth_help(f);
    if (c->bit == SM_CMD_QUANTIZE) sm_quantize_help(f);
}

static void print_man(FILE *f)
{
    unsigned all = 0;
    fputs(".TH SMOL 1 \"\" \"smol " SMOL_VERSION "\"\n.SH NAME\nsmol \\- run language models that "
          "are larger than memory\n.SH SYNOPSIS\n",
          f);
    for (int i = 0; i < N_COMMANDS; i++) {
        if (!commands[i].run) continue;
        all |= commands[i].bit;
        fprintf(f, "%s.B smol %s\n%s [options]\n", i ? ".br\n" : "", commands[i].name,
                commands[i].args);
    }
    fputs(".SH COMMANDS\n", f);
    for (int i = 0; i < N_COMMANDS; i++)
        if (commands[i].run) fprintf(f, ".TP\n.B %s\n%s.\n", commands[i].name, commands[i].summary);
    fputs(".SH OPTIONS\nSizes take K, M, G or T, powers of 1024.\n", f);
    sm_options_print_roff(f, all);
    fputs(".SH EXIT STATUS\n0 done, 1 failed, 2 wrong usage, 3 does not fit the memory, "
          "130 interrupted.\n"
          ".SH ENVIRONMENT\n.TP\n.B NO_COLOR\nno colour in progress bars.\n"
          ".TP\n.B SMOL_CACHE\nfolder for what is kept between runs: states of "
          "conversations, the device profile of bench \\-\\-flash, lists of the experts of models "
          "whose folder cannot be written; off keeps none "
          "(default: $XDG_CACHE_HOME/smol or ~/.cache/smol).\n",
          f);
}

static int unknown_command(const char *word)
{
    const char *names[N_COMMANDS + 2];
    int n = 0;
    for (int i = 0; i < N_COMMANDS; i++)
        if (!strcmp(commands[i].name, word))
            return sm_complain(SM_EXIT_FAILED, "this build has no %s: it was made without libevent "
                                               "and jansson", word);
    for (int i = 0; i < N_COMMANDS; i++)
        if (commands[i].run) names[n++] = commands[i].name;
    names[n++] = "help";
    names[n] = NULL;
    const char *near = sm_nearest(word, names);
    if (near)
        return sm_complain(SM_EXIT_USAGE, "unknown command \"%s\", did you mean %s?", word, near);
    return sm_complain(SM_EXIT_USAGE, "unknown command \"%s\"; smol help lists the commands", word);
}

static int help(int argc, char **argv)
{
    if (argc < 2 || !strcmp(argv[1], "help") || !strcmp(argv[1], "--help")) {
        print_overview(stdout);
        return SM_EXIT_DONE;
    }
    const struct sm_command *c = find(argv[1]);
    if (!c) return unknown_command(argv[1]);
    print_command(stdout, c);
    return SM_EXIT_DONE;
}

/* What is still in the buffer of standard output may not fit the disk. */
static int finish(int code)
{
    if (!fflush(stdout)) {
        if (!ferror(stdout)) return code;
        errno = EIO; /* an earlier failure, nobody knows which */
    }
    return code == SM_EXIT_DONE ? sm_output_failed("to standard output") : code;
}

/* A standard stream that the caller closed is a number that the next file to be opened would get: a
 * model would be read as what the user typed, notes would go into a pack. It becomes one that fails
 * as a closed one does. */
static void hold_standard_streams(void)
{
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) == -1 && open("/dev/null", fd ? O_RDONLY : O_WRONLY) != fd) return;
}

static int run_command(const struct sm_command *c, int argc, char **argv)
{
    struct sm_options options;
    int n_args;
    bool wants_help;
    if (!sm_options_parse(&options, c->bit, c->name, argc, argv, &n_args, &wants_help))
        return SM_EXIT_USAGE;
    if (wants_help) {
        print_command(stdout, c);
        return SM_EXIT_DONE;
    }
    if (n_args < c->min_args)
        return sm_complain(SM_EXIT_USAGE, "%s; usage: smol %s %s", c->missing, c->name, c->args);
    if (n_args > c->max_args)
        return sm_complain(SM_EXIT_USAGE, "one argument too many: \"%s\"; usage: smol %s %s",
                           argv[c->max_args + 1], c->name, c->args);
    if (options.prompt && options.prompt_file)
        return sm_complain(SM_EXIT_USAGE, "-p and -f exclude each other");
    if (options.raw && options.system)
        return sm_complain(SM_EXIT_USAGE,
                           "--raw and --system exclude each other: the system message "
                           "is part of a chat template");
    if (!sm_outputs_spare_inputs(&options, n_args, argv + 1)) return SM_EXIT_USAGE;
    if (!sm_outputs_writable(&options)) return SM_EXIT_FAILED;
    return c->run(&options, n_args, argv + 1);
}

int main(int argc, char **argv)
{
    const char *word = argc > 1 ? argv[1] : NULL;
    int code;
    hold_standard_streams();
    /* A reader that goes away is an error of the write, not a signal that ends us midway. */
    (void)signal(SIGPIPE, SIG_IGN);
    if (!word) {
        print_overview(stderr);
        return SM_EXIT_USAGE;
    }
    if (!strcmp(word, "--version") || !strcmp(word, "-V")) {
        puts("smol " SMOL_VERSION);
        code = SM_EXIT_DONE;
    } else if (!strcmp(word, "--man")) {
        print_man(stdout);
        code = SM_EXIT_DONE;
    } else if (!strcmp(word, "--completion")) {
        code = argc == 3 && sm_complete_print(stdout, argv[2], commands, N_COMMANDS)
                   ? SM_EXIT_DONE
                   : sm_complain(SM_EXIT_USAGE, "--completion takes one of bash, zsh, fish");
    } else if (!strcmp(word, "help") || !strcmp(word, "--help") || !strcmp(word, "-h")) {
        code = help(argc - 1, argv + 1);
    } else {
        const struct sm_command *c = find(word);
        code = c ? run_command(c, argc - 1, argv + 1) : unknown_command(word);
    }
    return finish(code);
}
