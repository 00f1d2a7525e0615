/* SPDX-License-Identifier: MIT */
/* Saved states of sessions. First byte of the input:
 *   0  the rest is a file
 *   1  the rest changes a good file: pairs (place, two bytes; value), then cut to its length
 *   2  the same, and the checksums are made right again: what they do not protect must be checked
 * A refused file leaves the session as it was and has a sentence; a taken one can be gone on from.
 */
#include "require.h"

#include "../tests/tap.h"
#include "base/hash.h"
#include <smol/smol.h>

#include <unistd.h>

enum { N = 12, HEADER = 128 };

static smol_model *model;
static smol_session *session;
static int32_t tokens[N + 1];
static char path[64];
static uint8_t *good;
static size_t n_good;

static void write_file(const uint8_t *p, size_t n)
{
    FILE *f = fopen(path, "wb");
    require_that(f && fwrite(p, 1, n, f) == n && fclose(f) == 0, "cannot write");
}

static void remove_file(void) { (void)unlink(path); }

static void prepare(void)
{
    char file[4096];
    smol_params p;
    smol_error err = {0};
    smol_params_default(&p);
    p.memory_bytes = (uint64_t)128 << 20;
    p.threads = 1;
    p.ctx = 64;
    for (int i = 0; i <= N; i++) tokens[i] = 3 + i;
    (void)snprintf(path, sizeof path, "/tmp/fuzz-session-%ld", (long)getpid());
    (void)atexit(remove_file);
    require_that(smol_model_open(&model,
                                 tap_src(file, sizeof file, "tests/data/models/rand-qwen3.gguf"),
                                 &p, &err) == SMOL_OK &&
                     smol_session_new(&session, model, &err) == SMOL_OK &&
                     smol_session_sync(session, tokens, N, &err) == SMOL_OK &&
                     smol_session_save(session, path, &err) == SMOL_OK,
                 err.msg);
    FILE *f = fopen(path, "rb");
    good = malloc((size_t)16 << 20);
    require_that(f && good, "cannot read");
    n_good = fread(good, 1, (size_t)16 << 20, f);
    (void)fclose(f);
    require_that(n_good > HEADER, "an empty state");
}

static void put64(uint8_t *p, uint64_t v) { memcpy(p, &v, sizeof v); }

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    smol_error err = {0};
    if (!size) return 0;
    if (!model) prepare();
    require_that(smol_session_sync(session, tokens, N, &err) == SMOL_OK, err.msg);
    if (*data == 0) {
        write_file(data + 1, size - 1);
    } else {
        uint8_t *copy = malloc(n_good);
        size_t n = n_good;
        require_that(copy != NULL, "no memory");
        memcpy(copy, good, n_good);
        for (size_t i = 1; i + 3 <= size; i += 3) {
            const size_t at = (size_t)data[i] | (size_t)data[i + 1] << 8;
            if (at < n_good) copy[at] = data[i + 2];
            else n = n_good - (at - n_good) % n_good; /* a cut */
        }
        if (*data == 2 && n > HEADER + 8) {
            put64(copy + HEADER - 8, sm_hash64(copy, HEADER - 8, 0));
            put64(copy + n - 8, sm_hash64(copy + HEADER, n - HEADER - 8, 0));
        }
        write_file(copy, n);
        free(copy);
    }
    if (smol_session_load(session, path, &err) == SMOL_OK) {
        size_t n = 0;
        const int32_t *t = smol_session_tokens(session, &n);
        require_that(n > 0 && n <= 64, "a length out of range");
        for (size_t i = 0; i < n; i++)
            require_that(t[i] >= 0 && (size_t)t[i] < smol_model_n_vocab(model),
                         "a token out of range");
        err = (smol_error){0};
        if (n < 64 && smol_session_append(session, 5, &err) != SMOL_OK)
            require_that(err.msg[0] != 0,
                    "a failure without a sentence"); /* values that are no numbers */
        require_that(smol_session_sync(session, tokens, 0, &(smol_error){0}) == SMOL_OK,
                "cannot be emptied");
    } else {
        size_t n = 0;
        const int32_t *t = smol_session_tokens(session, &n);
        require_that(err.msg[0] != 0, "a refusal without a sentence");
        require_that(n == N && !memcmp(t, tokens, sizeof tokens[0] * N),
                "a refused file changed the session");
        err = (smol_error){0};
        require_that(smol_session_sync(session, tokens, N + 1, &err) == SMOL_OK, err.msg);
    }
    return 0;
}
