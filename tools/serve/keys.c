/* SPDX-License-Identifier: MIT */
#include "keys.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

__attribute__((format(printf, 3, 4))) static smol_status fail(smol_error *err, smol_status code,
                                                              const char *fmt, ...)
{
    va_list ap;
    err->code = code;
    err->at = UINT64_MAX;
    va_start(ap, fmt);
    (void)vsnprintf(err->msg, sizeof err->msg, fmt, ap);
    va_end(ap);
    return code;
}

static smol_status add(struct sm_keys *k, const char *text, size_t n, const char *path,
                       unsigned line, smol_error *err)
{
    if (n > SM_KEY_BYTES_MAX)
        return fail(err, SMOL_FORMAT, "%s: line %u: a key of %zu bytes, at most %u", path, line, n,
                    SM_KEY_BYTES_MAX);
    for (size_t i = 0; i < n; i++)
        if (text[i] <= ' ' || text[i] > '~')
            return fail(err, SMOL_FORMAT, "%s: line %u: a key is printable ASCII without blanks",
                        path, line);
    if (k->n == SM_KEYS_MAX)
        return fail(err, SMOL_LIMIT, "%s: more than %u keys", path, SM_KEYS_MAX);
    memset(k->key[k->n], 0, sizeof k->key[0]);
    memcpy(k->key[k->n++], text, n);
    return SMOL_OK;
}

static smol_status read_lines(struct sm_keys *k, FILE *f, const char *path, smol_error *err)
{
    char *line = NULL;
    size_t room = 0;
    ssize_t n;
    unsigned number = 0;
    smol_status st = SMOL_OK;
    while (st == SMOL_OK && (n = getline(&line, &room, f)) >= 0) {
        const char *from = line;
        number++;
        while (n && strchr(" \t\r\n", from[n - 1])) n--;
        while (n && strchr(" \t", *from)) from++, n--;
        if (n && *from != '#') st = add(k, from, (size_t)n, path, number, err);
    }
    if (st == SMOL_OK && ferror(f)) st = fail(err, SMOL_IO, "%s: %s", path, strerror(errno));
    free(line);
    return st;
}

smol_status sm_keys_read(struct sm_keys *k, const char *path, bool *exposed, smol_error *err)
{
    struct stat info;
    *k = (struct sm_keys){0};
    *exposed = false;
    FILE *f = fopen(path, "r");
    if (!f) return fail(err, SMOL_IO, "cannot read the keys in %s: %s", path, strerror(errno));
    k->key = calloc(SM_KEYS_MAX, sizeof *k->key);
    smol_status st = SMOL_OK;
    if (!k->key) st = fail(err, SMOL_NOMEM, "no memory for the keys");
    if (st == SMOL_OK) st = read_lines(k, f, path, err);
    if (st == SMOL_OK && !k->n) st = fail(err, SMOL_FORMAT, "%s holds no key", path);
    if (!fstat(fileno(f), &info)) *exposed = S_ISREG(info.st_mode) && (info.st_mode & 04) != 0;
    (void)fclose(f);
    if (st != SMOL_OK) sm_keys_free(k);
    return st;
}

void sm_keys_free(struct sm_keys *k)
{
    free(k->key);
    *k = (struct sm_keys){0};
}

int sm_keys_find(const struct sm_keys *k, const char *given)
{
    unsigned char padded[SM_KEY_BYTES_MAX + 1] = {0};
    const size_t n = strlen(given);
    int found = -1;
    if (n == 0 || n > SM_KEY_BYTES_MAX) return -1; /* the length of what was sent is no secret */
    memcpy(padded, given, n);
    for (unsigned i = 0; i < k->n; i++) {
        unsigned differ = 0;
        for (size_t c = 0; c < sizeof padded; c++)
            differ |= padded[c] ^ (unsigned)(unsigned char)k->key[i][c];
        const int mask = (int)((differ - 1u) >> 31); /* 1 when all bytes agree */
        found += mask * ((int)i - found);
    }
    return found;
}
