/* SPDX-License-Identifier: MIT */
#include "talk.h"
#include "lib/input.h"
#include "plat/plat.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define FILE_MAX_BYTES ((size_t)64 << 20)
#define MAGIC "smol-chat 1\n"

static const char *const roles[] = {"system", "user", "assistant"};

static char *copy(const char *text, size_t n)
{
    char *p = malloc(n + 1);
    if (!p) return NULL;
    if (n) memcpy(p, text, n);
    p[n] = 0;
    return p;
}

void sm_talk_release(struct sm_talk_message *m)
{
    free(m->text);
    free(m->reasoning);
}

bool sm_talk_add(struct sm_talk *t, enum sm_talk_role role, const char *text, size_t n,
                 const char *reasoning)
{
    if (t->n == t->cap) {
        const size_t cap = t->cap ? 2 * t->cap : 16;
        struct sm_talk_message *v = realloc(t->v, cap * sizeof *v);
        if (!v) return false;
        t->v = v;
        t->cap = cap;
    }
    struct sm_talk_message m = {.role = role, .text = copy(text, n), .n = n};
    if (reasoning && *reasoning) m.reasoning = copy(reasoning, strlen(reasoning));
    if (!m.text || (reasoning && *reasoning && !m.reasoning)) {
        sm_talk_release(&m);
        return false;
    }
    t->v[t->n++] = m;
    return true;
}

static bool has_system(const struct sm_talk *t) { return t->n && t->v[0].role == SM_TALK_SYSTEM; }

bool sm_talk_take(struct sm_talk *t, struct sm_talk_message *out)
{
    if (!t->n) return false;
    *out = t->v[--t->n];
    if (t->n < has_system(t) + t->n_dropped) t->n_dropped = 0; /* what is left is to be answered */
    return true;
}

void sm_talk_return(struct sm_talk *t, struct sm_talk_message m) { t->v[t->n++] = m; }

void sm_talk_pop(struct sm_talk *t)
{
    struct sm_talk_message m;
    if (sm_talk_take(t, &m)) sm_talk_release(&m);
}

void sm_talk_clear(struct sm_talk *t, bool keep_system)
{
    const size_t keep = keep_system && has_system(t);
    while (t->n > keep) sm_talk_pop(t);
    t->n_dropped = 0;
    if (keep_system) return;
    free(t->v);
    *t = (struct sm_talk){0};
}

bool sm_talk_system(struct sm_talk *t, const char *text)
{
    if (has_system(t)) {
        sm_talk_release(&t->v[0]);
        memmove(t->v, t->v + 1, --t->n * sizeof *t->v);
    }
    if (!text) return true;
    if (!sm_talk_add(t, SM_TALK_SYSTEM, text, strlen(text), NULL)) return false;
    const struct sm_talk_message m = t->v[t->n - 1];
    memmove(t->v + 1, t->v, (t->n - 1) * sizeof *t->v);
    t->v[0] = m;
    return true;
}

smol_message *sm_talk_messages(const struct sm_talk *t, size_t *n)
{
    const size_t first = has_system(t);
    smol_message *out = calloc(t->n + 1, sizeof *out);
    *n = 0;
    for (size_t i = 0; out && i < t->n; i++) {
        const struct sm_talk_message *m = &t->v[i];
        if (i >= first && i < first + t->n_dropped) continue;
        out[(*n)++] = (smol_message){
            .role = roles[m->role], .content = m->text, .n_bytes = m->n, .reasoning = m->reasoning};
    }
    return out;
}

bool sm_talk_drop(struct sm_talk *t)
{
    const size_t first = has_system(t);
    size_t next = first + t->n_dropped + 1;
    while (next < t->n && t->v[next].role != SM_TALK_USER) next++;
    if (next >= t->n) return false;
    t->n_dropped = next - first;
    return true;
}

/* ---- files ---- */

/* "smol-chat 1", then per message a line "ROLE BYTES BYTES_OF_REASONING" and both texts. */
static bool write_messages(const struct sm_talk *t, FILE *f)
{
    bool good = fputs(MAGIC, f) >= 0;
    for (size_t i = 0; good && i < t->n; i++) {
        const struct sm_talk_message *m = &t->v[i];
        const size_t n = m->reasoning ? strlen(m->reasoning) : 0;
        good = fprintf(f, "%s %zu %zu\n", roles[m->role], m->n, n) > 0 &&
               fwrite(m->text, 1, m->n, f) == m->n &&
               fwrite(m->reasoning ? m->reasoning : "", 1, n, f) == n && fputc('\n', f) != EOF;
    }
    return good && fflush(f) == 0;
}

/* A full disk costs no older conversation. A device or pipe is written as it is. */
bool sm_talk_save(const struct sm_talk *t, const char *path, char *why, size_t cap)
{
    struct stat st;
    smol_error err = {0};
    char *text = NULL;
    size_t n = 0;
    const bool direct = stat(path, &st) == 0 && !S_ISREG(st.st_mode);
    FILE *f = direct ? fopen(path, "w") : open_memstream(&text, &n);
    bool good = f && write_messages(t, f);
    if (f && fclose(f) != 0) good = false;
    if (!good) err.sys = errno;
    else if (!direct) good = sm_file_replace(path, text, n, &err) == SMOL_OK;
    free(text);
    if (!good)
        (void)snprintf(why, cap, "cannot write %s: %s", path, strerror(err.sys ? err.sys : ENOMEM));
    return good;
}

/* "ROLE N M\n" at *at. */
static bool read_head(const char *data, size_t n, size_t *at, enum sm_talk_role *role,
                      int64_t size[2])
{
    const char *end = memchr(data + *at, '\n', n - *at);
    char line[64], *word[3];
    const size_t len = end ? (size_t)(end - data) - *at : sizeof line;
    if (len >= sizeof line) return false;
    memcpy(line, data + *at, len);
    line[len] = 0;
    *at += len + 1;
    char *rest = line;
    for (int i = 0; i < 3; i++) {
        word[i] = rest;
        rest = strchr(rest, ' ');
        if (i < 2 && !rest) return false;
        if (rest) *rest++ = 0;
    }
    for (int i = 0; i < 2; i++)
        if (!sm_parse_int(word[i + 1], 0, (int64_t)FILE_MAX_BYTES, &size[i])) return false;
    for (*role = SM_TALK_SYSTEM; *role <= SM_TALK_ASSISTANT; ++*role)
        if (!strcmp(roles[*role], word[0])) return true;
    return false;
}

static bool read_messages(struct sm_talk *t, const char *data, size_t n, size_t at)
{
    while (at < n) {
        enum sm_talk_role role;
        int64_t size[2];
        if (!read_head(data, n, &at, &role, size)) return false;
        const size_t a = (size_t)size[0], b = (size_t)size[1];
        if (n - at < a || n - at - a < b + 1 || data[at + a + b] != '\n') return false;
        if (role == SM_TALK_SYSTEM && t->n) return false;
        char *reasoning = copy(data + at + a, b);
        const bool added = reasoning && sm_talk_add(t, role, data + at, a, reasoning);
        free(reasoning);
        if (!added) return false;
        at += a + b + 1;
    }
    return true;
}

bool sm_talk_load(struct sm_talk *t, const char *path, char *why, size_t cap)
{
    smol_error err = {0};
    char *data = NULL;
    size_t n = 0;
    struct sm_talk loaded = {0};
    if (sm_input_read(path, FILE_MAX_BYTES, &data, &n, &err) != SMOL_OK) {
        (void)snprintf(why, cap, "%s", err.msg);
        return false;
    }
    const size_t head = sizeof MAGIC - 1;
    const bool good =
        n >= head && !memcmp(data, MAGIC, head) && read_messages(&loaded, data, n, head);
    free(data);
    if (!good) {
        (void)snprintf(why, cap, "%s is no conversation saved by /save", path);
        sm_talk_clear(&loaded, false);
        return false;
    }
    sm_talk_clear(t, false);
    *t = loaded;
    return true;
}
