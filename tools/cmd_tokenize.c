/* SPDX-License-Identifier: MIT */
/* smol tokenize MODEL: the ids of a text. Reads only the header: vocabulary-only files will do. */
#include "lib/command.h"
#include "lib/input.h"
#include "lib/json.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* More than any context; a limit all the same, so that a device given as input ends. */
#define MAX_BYTES ((size_t)512 << 20)

static bool print_ids(const int32_t *ids, size_t n, bool json)
{
    if (json) {
        struct sm_json j;
        sm_json_begin(&j, stdout, false);
        sm_json_open(&j, NULL, '{');
        sm_json_open(&j, "ids", '[');
        for (size_t i = 0; i < n; i++) sm_json_int(&j, NULL, ids[i]);
        sm_json_close(&j);
        sm_json_close(&j);
        return sm_json_end(&j);
    }
    for (size_t i = 0; i < n; i++) printf(i ? " %d" : "%d", ids[i]);
    putchar('\n');
    return fflush(stdout) == 0 && !ferror(stdout);
}

static void print_note(void *arg, const char *text)
{
    (void)arg;
    fprintf(stderr, "smol: %s\n", text);
}

int sm_cmd_tokenize(const struct sm_options *o, int argc, char **argv)
{
    const unsigned flags = o->no_special ? 0 : SMOL_PARSE_SPECIAL | SMOL_ADD_SPECIAL;
    smol_vocab *v = NULL;
    const char *text = o->prompt;
    char *data = NULL;
    int32_t *ids = NULL;
    size_t n = text ? strlen(text) : 0, n_ids = 0;
    smol_error err = {0};
    int code = SM_EXIT_DONE;
    (void)argc;
    if (o->prompt && o->prompt_file)
        return sm_complain(SM_EXIT_USAGE, "-p and -f both give a text, only one can be used");
    if (!o->prompt && !o->prompt_file && isatty(STDIN_FILENO))
        return sm_complain(SM_EXIT_USAGE, "no text given: use -p TEXT, -f FILE or standard input");
    if (!o->quiet) smol_notes_set(print_note, NULL);
    smol_status st = smol_vocab_open(&v, argv[0], &err);
    if (st == SMOL_OK && !text) {
        st = sm_input_read(o->prompt_file ? o->prompt_file : "-", MAX_BYTES, &data, &n, &err);
        text = data;
    }
    if (st == SMOL_OK) st = smol_tokenize(v, text, n, flags, &ids, &n_ids, &err);
    if (st != SMOL_OK) code = sm_report(&err);
    else if (!print_ids(ids, n_ids, o->json))
        code = sm_output_failed("the ids");
    smol_free(ids);
    free(data);
    smol_vocab_free(v);
    return code;
}
