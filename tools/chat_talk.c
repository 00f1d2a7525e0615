/* SPDX-License-Identifier: MIT */
#include "talk.h"
#include "lib/input.h"
#include "lib/outputs.h"
#include "plat/file_writer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

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

static size_t bytes_of(const struct sm_talk_message *m)
{
    return sizeof *m + m->n + (m->reasoning ? strlen(m->reasoning) : 0);
}

size_t sm_talk_bytes(const struct sm_talk *t)
{
    size_t n = 0;
    for (size_t i = 0; i < t->n; i++) n += bytes_of(&t->v[i]);
    return n;
}

bool sm_talk_forget(struct sm_talk *t, size_t max_bytes)
{
    const size_t first = has_system(t);
    size_t held = sm_talk_bytes(t), end = first;
    while (end < t->n && (held > max_bytes || (end > first && t->v[end].role != SM_TALK_USER)))
        held -= bytes_of(&t->v[end++]);
    const size_t n = end - first;
    for (size_t i = first; i < end; i++) sm_talk_release(&t->v[i]);
    if (n) memmove(t->v + first, t->v + end, (t->n - end) * sizeof *t->v);
    t->n -= n;
    t->n_dropped = t->n_dropped > n ? t->n_dropped - n : 0;
    return n > 0;
}

/* ---- files ---- */

/* Where a conversation is written: beside the file it replaces, or to a device or pipe as it is. */
struct sink {
    FILE *device;
    struct sm_writer *w;
};

static bool put(struct sink *s, const char *data, size_t n, smol_error *err)
{
    if (!n) return true;
    if (!s->device) return sm_writer_put(s->w, data, n, err) == SMOL_OK;
    if (fwrite(data, 1, n, s->device) == n) return true;
    err->sys = errno;
    return false;
}

/* "smol-chat 1", then per message a line "ROLE BYTES BYTES_OF_REASONING" and both texts. */
static bool put_messages(const struct sm_talk *t, struct sink *s, smol_error *err)
{
    char head[64];
    bool good = put(s, MAGIC, sizeof MAGIC - 1, err);
    for (size_t i = 0; good && i < t->n; i++) {
        const struct sm_talk_message *m = &t->v[i];
        const size_t n = m->reasoning ? strlen(m->reasoning) : 0;
        const int k = snprintf(head, sizeof head, "%s %zu %zu\n", roles[m->role], m->n, n);
        good = put(s, head, (size_t)k, err) && put(s, m->text, m->n, err) &&
               put(s, m->reasoning, n, err) && put(s, "\n", 1, err);
    }
    return good;
}

/* A full disk costs no older conversation. */
bool sm_talk_save(const struct sm_talk *t, const char *path, char *why, size_t cap)
{
    struct stat st;
    struct sink s = {NULL, NULL};
    smol_error err = {0};
    if (sm_output_is_model(path)) {
        (void)snprintf(why, cap, "%s is a model and is not written over", path);
        return false;
    }
    const bool direct = stat(path, &st) == 0 && !S_ISREG(st.st_mode);
    if (direct) s.device = fopen(path, "w");
    bool good = direct ? s.device != NULL : sm_writer_open(&s.w, path, &err) == SMOL_OK;
    if (!good && direct) err.sys = errno;
    good = good && put_messages(t, &s, &err);
    if (s.device && fclose(s.device) != 0 && good) {
        err.sys = errno;
        good = false;
    }
    if (s.w && good) good = sm_writer_commit(s.w, &err) == SMOL_OK;
    else sm_writer_abort(s.w);
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
        if (!sm_parse_int(word[i + 1], 0, INT32_MAX, &size[i])) return false;
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

bool sm_talk_load(struct sm_talk *t, const char *path, size_t max_bytes, char *why, size_t cap)
{
    smol_error err = {0};
    char *data = NULL;
    size_t n = 0;
    struct sm_talk loaded = {0};
    if (!strcmp(path, "-")) path = "./-"; /* standard input is what is typed */
    if (sm_input_read(path, max_bytes, &data, &n, &err) != SMOL_OK) {
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
