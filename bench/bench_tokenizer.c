/* SPDX-License-Identifier: MIT */
/* Speed of a tokeniser: load time, memory, encode and decode of a text, long pieces.
 *
 * usage: bench_tokenizer VOCABULARY.gguf TEXT [SECONDS]      prints TSV; the best of all rounds */
#include "tok/tok.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t); /* one thread: the machine may be shared */
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static struct sm_tok *load(const char *path, double *best_read, double *best_tables)
{
    struct sm_tok *t = NULL;
    *best_read = *best_tables = 1e9;
    for (int round = 0; round < 5; round++) {
        struct sm_gguf *g = NULL;
        smol_error err = {0};
        sm_tok_free(t);
        t = NULL;
        const double start = now();
        smol_status st = sm_gguf_open(&g, path, &err);
        const double read = now();
        if (st == SMOL_OK) st = sm_tok_new(&t, g, &err);
        const double made = now();
        sm_gguf_free(g);
        if (st != SMOL_OK) {
            fprintf(stderr, "bench_tokenizer: %s\n", err.msg);
            return NULL;
        }
        if (read - start < *best_read) *best_read = read - start;
        if (made - read < *best_tables) *best_tables = made - read;
    }
    return t;
}

static void measure(const struct sm_tok *t, const char *what, const char *text, size_t n,
                    double seconds)
{
    double best = 1e9, best_decode = 1e9;
    size_t n_ids = 0;
    int32_t *ids = NULL;
    for (double spent = 0; spent < seconds;) {
        smol_error err = {0};
        free(ids);
        const double start = now();
        if (sm_tok_encode(t, text, n, SM_TOK_PARSE_SPECIAL, &ids, &n_ids, &err) != SMOL_OK) {
            fprintf(stderr, "bench_tokenizer: %s\n", err.msg);
            return;
        }
        const double encoded = now();
        struct sm_tok_stream s;
        char buf[SM_TOK_PIECE_MAX];
        size_t bytes = 0;
        sm_tok_stream_init(&s, t, true);
        for (size_t i = 0; i < n_ids; i++) bytes += sm_tok_stream_put(&s, ids[i], buf);
        const double decoded = now();
        if (encoded - start < best) best = encoded - start;
        if (decoded - encoded < best_decode) best_decode = decoded - encoded;
        spent += decoded - start;
        if (bytes == 0 && n > 0) return;
    }
    printf("%s\t%zu\t%zu\t%.2f\t%.2f\n", what, n, n_ids, (double)n / best / 1e6,
           (double)n / best_decode / 1e6);
    free(ids);
}

static char *read_file(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    char *text = NULL;
    if (!f) return NULL;
    if (fseek(f, 0, SEEK_END) == 0) {
        const long size = ftell(f);
        rewind(f);
        text = malloc((size_t)size + 1);
        *n = text ? fread(text, 1, (size_t)size, f) : 0;
    }
    fclose(f);
    return text;
}

int main(int argc, char **argv)
{
    size_t n = 0;
    double read, tables;
    if (argc < 3) {
        fprintf(stderr, "usage: bench_tokenizer VOCABULARY.gguf TEXT [SECONDS]\n");
        return 2;
    }
    const double seconds = argc > 3 ? strtod(argv[3], NULL) : 1;
    struct sm_tok *t = load(argv[1], &read, &tables);
    char *text = read_file(argv[2], &n);
    if (!t || !text) return 1;
    setvbuf(stdout, NULL, _IOLBF, 0);
    printf("# %s: %u tokens, %s %s; header %.1f ms, tables %.1f ms, %.2f MiB held\n", argv[1],
           sm_tok_n_vocab(t), sm_tok_model(t), sm_tok_pre(t), read * 1e3, tables * 1e3,
           (double)sm_tok_memory(t) / 1048576);
    printf("text\tbytes\ttokens\tencode MB/s\tdecode MB/s\n");
    measure(t, "given", text, n, seconds);
    const size_t n_long = (size_t)10 << 20;
    char *many = malloc(n_long);
    if (!many) return 1;
    for (size_t i = 0; i < n_long; i++) many[i] = n > 0 ? text[i % n] : ' ';
    measure(t, "10 MiB of it", many, n_long, 0.1);
    static const char base64[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    uint64_t x = 1;
    for (size_t i = 0; i < n_long; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        many[i] = base64[x >> 58];
    }
    measure(t, "base64", many, (size_t)64 << 10, 0.1);
    for (size_t i = 0; i < n_long; i++) many[i] = (char)('a' + (many[i] & 15));
    measure(t, "one word", many, (size_t)1 << 20, 0.1);
    memset(many, 'a', n_long);
    measure(t, "one letter", many, n_long, 0.1);
    memset(many, ' ', n_long);
    measure(t, "spaces", many, n_long, 0.1);
    free(many);
    free(text);
    sm_tok_free(t);
    return 0;
}
