/* SPDX-License-Identifier: MIT */
#include "infer/prefix_cache.h"

#include "base/hash.h"
#include "infer/session_file.h"
#include "plat/file_writer.h"

#include <stdio.h>
#include <string.h>

#define SUFFIX ".state"
#define PATH_MAX_BYTES 4096u

struct search {
    struct sm_session *s;
    const char *folder;
    char model[20]; /* files of this model begin so */
    const int32_t *tokens;
    size_t n_tokens;
    /* restore */
    uint32_t best;
    char best_path[PATH_MAX_BYTES];
    /* save */
    const char *own; /* name that stays */
    uint64_t sum;
    int64_t oldest;
    char oldest_path[PATH_MAX_BYTES];
};

static bool join(char *buf, const char *folder, const char *name)
{
    const int n = snprintf(buf, PATH_MAX_BYTES, "%s/%s", folder, name);
    return n > 0 && (size_t)n < PATH_MAX_BYTES;
}

static smol_status begin(struct search *q, struct sm_session *s, const char *folder,
                         smol_error *err)
{
    uint64_t model;
    memset(q, 0, sizeof *q);
    q->s = s;
    q->folder = folder;
    SM_TRY(sm_session_model(s->e, &model, err));
    (void)snprintf(q->model, sizeof q->model, "%016llx-", (unsigned long long)model);
    return SMOL_OK;
}

static bool is_ours(const struct search *q, const char *name)
{
    return !strncmp(name, q->model, strlen(q->model));
}

static bool look(void *arg, const char *name, uint64_t bytes, int64_t changed)
{
    struct search *q = arg;
    char path[PATH_MAX_BYTES];
    uint32_t n_file;
    (void)bytes;
    (void)changed;
    if (!is_ours(q, name) || !join(path, q->folder, name)) return true;
    const uint32_t same = sm_session_file_match(q->s, path, q->tokens, q->n_tokens, &n_file);
    /* a recurrent state can only be gone on from */
    const bool part = !q->s->e->recur_bytes && sm_model_keeps(q->s->e->model, n_file, same);
    if (same > q->best && (same == n_file || part)) {
        q->best = same;
        memcpy(q->best_path, path, sizeof path);
    }
    return true;
}

smol_status sm_prefix_restore(struct sm_session *s, const char *folder, const int32_t *tokens,
                              size_t n_tokens, size_t *n, smol_error *err)
{
    struct search q;
    const uint32_t have = sm_same_tokens(tokens, n_tokens, s->e->tokens, s->n);
    *n = have;
    SM_TRY(begin(&q, s, folder, err));
    q.tokens = tokens;
    q.n_tokens = n_tokens;
    q.best = have + SM_PREFIX_LEAST - 1; /* a few tokens are read faster than a file */
    sm_folder_each(folder, SUFFIX, look, &q);
    if (!q.best_path[0]) return SMOL_OK;
    *n = 0;
    SM_TRY(sm_session_load(s, q.best_path, err));
    sm_file_touch(q.best_path);
    *n = q.best;
    return SMOL_OK;
}

/* States that the new one goes on from are of no more use. */
static bool remove_older(void *arg, const char *name, uint64_t bytes, int64_t changed)
{
    struct search *q = arg;
    char path[PATH_MAX_BYTES];
    uint32_t n_file;
    (void)bytes;
    (void)changed;
    if (!is_ours(q, name) || !strcmp(name, q->own) || !join(path, q->folder, name)) return true;
    const uint32_t same = sm_session_file_match(q->s, path, q->s->e->tokens, q->s->n, &n_file);
    if (n_file && same == n_file) (void)sm_file_remove(path);
    return true;
}

/* All states count, those of other models too. */
static bool weigh(void *arg, const char *name, uint64_t bytes, int64_t changed)
{
    struct search *q = arg;
    q->sum += bytes;
    if (!strcmp(name, q->own)) return true;
    if (q->oldest_path[0] && changed >= q->oldest) return true;
    if (!join(q->oldest_path, q->folder, name)) q->oldest_path[0] = 0;
    q->oldest = changed;
    return true;
}

smol_status sm_prefix_save(struct sm_session *s, const char *folder, uint64_t max_bytes,
                           smol_error *err)
{
    struct search q;
    char name[64], path[PATH_MAX_BYTES];
    if (s->n < SM_PREFIX_LEAST) return SMOL_OK;
    const uint64_t bytes = sm_session_file_bytes(s);
    if (bytes > max_bytes)
        return SM_FAIL(err, LIMIT, "a state of %llu MiB is over the cap of %llu MiB",
                       (unsigned long long)(bytes >> 20), (unsigned long long)(max_bytes >> 20));
    SM_TRY(begin(&q, s, folder, err));
    (void)snprintf(name, sizeof name, "%s%016llx" SUFFIX, q.model,
                   (unsigned long long)sm_hash64(s->e->tokens, s->n * sizeof *s->e->tokens, 0));
    if (!join(path, folder, name))
        return SM_FAIL(err, ARG, "the path of the cache folder is too long");
    q.own = name;
    sm_folder_each(folder, SUFFIX, remove_older, &q);
    for (;;) { /* room first: the folder is never over its cap */
        q.sum = 0;
        q.oldest_path[0] = 0;
        sm_folder_each(folder, SUFFIX, weigh, &q);
        if (q.sum + bytes <= max_bytes || !q.oldest_path[0]) break;
        if (!sm_file_remove(q.oldest_path)) break;
    }
    return sm_session_save(s, path, err);
}
