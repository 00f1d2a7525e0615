/* SPDX-License-Identifier: MIT */
#include "complete.h"
#include "options_table.h"

#include <string.h>

/* What a value is, as completion sees it. */
static bool is_file(const struct sm_option *t)
{
    return t->value && (strstr(t->value, "FILE") || strstr(t->value, "OUT"));
}

static bool takes(const struct sm_option *t, const struct sm_command *c)
{
    return (t->commands & c->bit) != 0;
}

/* Text inside single quotes of a shell: help texts have no backslash at their end. */
static void put_quoted(FILE *f, const char *text, const char *also)
{
    for (; *text; text++) {
        if (*text == '\'') fputs("'\\''", f);
        else if (strchr(also, *text)) fprintf(f, "\\%c", *text);
        else fputc(*text, f);
    }
}

/* ---- bash ---- */

static void print_bash(FILE *f, const struct sm_command *commands, int n)
{
    fputs(
        "# bash completion of smol, made by: smol --completion bash\n"
        "_smol() {\n"
        "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} "
        "cmd=${COMP_WORDS[1]} words=\n"
        "    COMPREPLY=()\n"
        "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n        words=\"help --version --man --completion",
        f);
    for (int i = 0; i < n; i++)
        if (commands[i].run) fprintf(f, " %s", commands[i].name);
    fputs("\"\n        COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n        return\n    fi\n"
          "    case $prev in\n",
          f);
    for (unsigned k = 0; k < sm_option_count; k++) {
        const struct sm_option *t = &sm_option_table[k];
        if (!t->choices) continue;
        fprintf(f, "    --%s) COMPREPLY=($(compgen -W \"", t->name);
        for (const char *p = t->choices; *p; p++) fputc(*p == '|' ? ' ' : *p, f);
        fputs("\" -- \"$cur\")); return ;;\n", f);
    }
    fputs("    esac\n    case $cmd in\n    help) words=\"", f);
    for (int i = 0; i < n; i++)
        if (commands[i].run) fprintf(f, "%s ", commands[i].name);
    fputs("\" ;;\n", f);
    for (int i = 0; i < n; i++) {
        if (!commands[i].run) continue;
        fprintf(f, "    %s) words=\"--help", commands[i].name);
        for (unsigned k = 0; k < sm_option_count; k++)
            if (takes(&sm_option_table[k], &commands[i]))
                fprintf(f, " --%s", sm_option_table[k].name);
        fputs("\" ;;\n", f);
    }
    fputs("    esac\n"
          "    case $cur in\n"
          "    -*) COMPREPLY=($(compgen -W \"$words\" -- \"$cur\")) ;;\n"
          "    *) if [ \"$cmd\" = help ]; then COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
          "       else compopt -o filenames; COMPREPLY=($(compgen -f -- \"$cur\")); fi ;;\n"
          "    esac\n}\ncomplete -F _smol smol\n",
          f);
}

/* ---- zsh ---- */

static void print_zsh(FILE *f, const struct sm_command *commands, int n)
{
    fputs("#compdef smol\n# zsh completion of smol, made by: smol --completion zsh\n_smol() {\n"
          "    local -a commands\n    commands=(\n",
          f);
    for (int i = 0; i < n; i++) {
        if (!commands[i].run) continue;
        fprintf(f, "        '%s:", commands[i].name);
        put_quoted(f, commands[i].summary, ":");
        fputs("'\n", f);
    }
    fputs("        'help:show the options of a command'\n    )\n"
          "    if (( CURRENT == 2 )); then _describe command commands; return; fi\n"
          "    local cmd=$words[2]\n    shift words; (( CURRENT-- ))\n    case $cmd in\n"
          "    help) _describe command commands ;;\n",
          f);
    for (int i = 0; i < n; i++) {
        if (!commands[i].run) continue;
        fprintf(f, "    %s) _arguments '--help[show the options]'", commands[i].name);
        for (unsigned k = 0; k < sm_option_count; k++) {
            const struct sm_option *t = &sm_option_table[k];
            if (!takes(t, &commands[i])) continue;
            fprintf(f, " \\\n        '%s--%s[", t->kind == SM_OPTION_TEXTS ? "*" : "", t->name);
            put_quoted(f, t->help, "[]:");
            fputc(']', f);
            if (t->value) fprintf(f, ":value:");
            if (t->choices) {
                fputc('(', f);
                for (const char *p = t->choices; *p; p++) fputc(*p == '|' ? ' ' : *p, f);
                fputc(')', f);
            } else if (is_file(t)) {
                fputs("_files", f);
            }
            fputc('\'', f);
        }
        fputs(" \\\n        '*:file:_files' ;;\n", f);
    }
    fputs("    esac\n}\n_smol \"$@\"\n", f);
}

/* ---- fish ---- */

static void print_fish(FILE *f, const struct sm_command *commands, int n)
{
    fputs("# fish completion of smol, made by: smol --completion fish\n", f);
    for (int i = 0; i < n; i++) {
        if (!commands[i].run) continue;
        fprintf(f, "complete -c smol -n __fish_use_subcommand -f -a %s -d '", commands[i].name);
        put_quoted(f, commands[i].summary, "");
        fputs("'\n", f);
    }
    for (unsigned k = 0; k < sm_option_count; k++) {
        const struct sm_option *t = &sm_option_table[k];
        fputs("complete -c smol -n '__fish_seen_subcommand_from", f);
        for (int i = 0; i < n; i++)
            if (commands[i].run && takes(t, &commands[i])) fprintf(f, " %s", commands[i].name);
        fprintf(f, "' -l %s", t->name);
        if (t->letter) fprintf(f, " -s %c", t->letter);
        if (t->value) fputs(is_file(t) ? " -r" : " -x", f);
        if (t->choices) {
            fputs(" -a '", f);
            for (const char *p = t->choices; *p; p++) fputc(*p == '|' ? ' ' : *p, f);
            fputc('\'', f);
        }
        fputs(" -d '", f);
        put_quoted(f, t->help, "");
        fputs("'\n", f);
    }
}

bool sm_complete_print(FILE *f, const char *shell, const struct sm_command *commands, int n)
{
    if (!strcmp(shell, "bash")) print_bash(f, commands, n);
    else if (!strcmp(shell, "zsh")) print_zsh(f, commands, n);
    else if (!strcmp(shell, "fish")) print_fish(f, commands, n);
    else return false;
    return true;
}
