/* SPDX-License-Identifier: MIT */
/* Tokenisers under arbitrary texts and arbitrary metadata. First byte of the input:
 *   0..251  a text for one of the vocabularies and split rules; second byte: flags
 *   252..   a GGUF image whose vocabulary is built and used
 * Whatever comes out must be in range, decode to well-formed UTF-8, and without special tokens a
 * valid text must come back as it was. */
#include "require.h"

#include "../tests/tap.h"
#include "tok/split.h"
#include "tok/tok.h"

/* Decode and return the bytes of all pieces. */
static char *decode(const struct sm_tok *t, const int32_t *ids, size_t n, size_t *n_bytes)
{
    char buf[SM_TOK_PIECE_MAX];
    struct sm_tok_stream s;
    size_t used = 0;
    for (size_t i = 0; i < n; i++) used += sm_tok_piece(t, ids[i], true, NULL, 0);
    char *text = malloc(used + 1);
    require_that(text != NULL, "no memory");
    *n_bytes = used;
    used = 0;
    sm_tok_stream_init(&s, t, true);
    for (size_t i = 0; i <= n; i++) {
        const size_t k = i < n ? sm_tok_stream_put(&s, ids[i], buf) : sm_tok_stream_end(&s, buf);
        require_that(k <= sizeof buf, "a stream gives more than fits");
        require_that(sm_utf8_valid((uint8_t *)buf, k) == k, "a stream gives what is not UTF-8");
        if (i < n) used += sm_tok_piece(t, ids[i], true, text + used, *n_bytes - used);
    }
    require_that(used == *n_bytes, "lengths of pieces differ");
    return text;
}

static void use(const struct sm_tok *t, const char *text, size_t n, unsigned flags, bool complete)
{
    int32_t *ids;
    size_t n_ids, n_bytes;
    smol_error err = {0};
    if (sm_tok_encode(t, text, n, flags, &ids, &n_ids, &err) != SMOL_OK) return;
    for (size_t i = 0; i < n_ids; i++)
        require_that(ids[i] >= 0 && (uint32_t)ids[i] < sm_tok_n_vocab(t), "an id is out of range");
    char *back = decode(t, ids, n_ids, &n_bytes);
    if (complete && flags == 0 && sm_utf8_valid((const uint8_t *)text, n) == n)
        require_that(n_bytes == n && !memcmp(back, text, n), "a text does not come back");
    free(back);
    free(ids);
}

static struct sm_tok *load(const char *name)
{
    char part[200], path[4096];
    struct sm_gguf *g = NULL;
    struct sm_tok *t = NULL;
    smol_error err = {0};
    snprintf(part, sizeof part, "tests/data/%s", name);
    if (sm_gguf_open(&g, tap_src(path, sizeof path, part), &err) == SMOL_OK &&
        sm_tok_new(&t, g, &err) != SMOL_OK)
        t = NULL;
    sm_gguf_free(g);
    if (!t) fprintf(stderr, "fuzz_tok: %s: %s\n", name, err.msg);
    return t;
}

static void text_input(const uint8_t *data, size_t size)
{
    static const char *const names[] = {"models/rand-qwen3.gguf", "vocab/gpt-2.gguf",
                                        "vocab/phi-3.gguf", "gguf-malformed/v01-good-spm.gguf",
                                        "gguf-malformed/v21-byte-token-missing.gguf"};
    static struct sm_tok *tok[5];
    const unsigned v = data[0] % 5;
    if (!tok[v]) tok[v] = load(names[v]);
    if (!tok[v]) return;
    if (*sm_tok_pre(tok[v])) {
        size_t n_rules = 0;
        while (sm_split_name(n_rules)) n_rules++;
        smol_error err = {0};
        require_that(sm_tok_set_pre(tok[v], sm_split_name(data[0] / 5u % n_rules), &err) == SMOL_OK,
                "a known rule is refused");
    }
    /* the small vocabularies repeat, so that long pieces are seen too */
    const unsigned flags = data[1] & 3u, times = data[1] >> 2 & 1 ? 20 : 1;
    const size_t n = size - 2;
    char *text = malloc(n * times + 1);
    require_that(text != NULL, "no memory");
    for (unsigned i = 0; i < times; i++) memcpy(text + i * n, data + 2, n);
    use(tok[v], text, n * times, flags, v < 2);
    free(text);
}

static void image_input(const uint8_t *data, size_t size)
{
    static const char text[] =
        "Hello  world's 123\n\xff\xd0\x96<s></s><|im_end|>\xe2\x96\x81 aaaaaaa";
    struct sm_gguf *g = NULL;
    struct sm_tok *t = NULL;
    smol_error err = {0};
    if (sm_gguf_parse(&g, data, size, size, &err) == SMOL_OK) {
        err = (smol_error){0};
        if (sm_tok_new(&t, g, &err) == SMOL_OK) {
            const size_t n = size < 2000 ? size : 2000;
            use(t, text, sizeof text - 1, SM_TOK_PARSE_SPECIAL | SM_TOK_ADD_SPECIAL, false);
            use(t, (const char *)data, n, 0, false);
            use(t, (const char *)data + size - n, n, SM_TOK_PARSE_SPECIAL, false);
            for (int32_t id = -1; id <= (int32_t)sm_tok_n_vocab(t); id++)
                require_that(sm_tok_piece(t, id, true, NULL, 0) <= SM_TOK_PIECE_MAX,
                        "a piece is too long");
        } else {
            require_that(!t && err.msg[0], "a refusal without a sentence");
        }
    }
    sm_tok_free(t);
    sm_gguf_free(g);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2) return 0;
    if (data[0] >= 252) image_input(data + 1, size - 1);
    else text_input(data, size);
    return 0;
}
