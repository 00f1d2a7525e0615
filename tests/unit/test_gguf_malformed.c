/* SPDX-License-Identifier: MIT */
/* Every file of tests/data/gguf-malformed gets the verdict of its expected.json, through a file and
 * through memory, cut short at every length, with one clear sentence and little memory. */
#include "base/mem.h"
#include "gguf_bytes.h"
#include "json_read.h"
#include "tap.h"

#include <sys/resource.h>

#define DIR "tests/data/gguf-malformed/"

#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

/* The offset is in the text, except where the file is of another kind. */
static int names_offset(const smol_error *err)
{
    char number[32];
    (void)snprintf(number, sizeof number, "byte %" PRIu64, err->at);
    if (err->at == UINT64_MAX) return !strncmp(err->msg, "the file is ", 12);
    return strstr(err->msg, number) || strstr(err->msg, " at ");
}

static void check(const char *name, const char *verdict, int vocabulary)
{
    char path[512], rel[256];
    smol_error err = {0}, err2 = {0};
    struct sm_gguf *g, *g2;
    size_t n;
    (void)snprintf(rel, sizeof rel, DIR "%s", name);
    (void)tap_src(path, sizeof path, rel);
    const smol_status st = sm_gguf_open(&g, path, &err);
    char *bytes = json_read_file(path, &n);
    if (!TAP_OK(bytes != NULL, "%s can be read", name)) return;
    const smol_status st2 = sm_gguf_parse(&g2, (const uint8_t *)bytes, n, n, &err2);
    TAP_OK(st == st2 && !strcmp(err.msg, err2.msg), "%s: the same from file and memory", name);
    if (strcmp(verdict, "either"))
        TAP_OK((st == SMOL_OK) == (vocabulary || !strcmp(verdict, "accept")), "%s: %s", name,
               verdict);
    TAP_OK((st == SMOL_OK) == (g != NULL), "%s: an object exactly on success", name);
    if (st != SMOL_OK) {
        TAP_OK(gb_is_sentence(&err), "%s: a sentence", name);
        TAP_OK(names_offset(&err), "%s: names the byte", name);
        printf("# %s: %s\n", name, err.msg);
    }
    sm_gguf_free(g);
    sm_gguf_free(g2);
    unsigned n_ok = 0, n_cuts = 0;
    for (size_t cut = 0; cut < n; cut += n < 1000 ? 1 : 37) {
        smol_error e = {0};
        uint8_t *copy = malloc(cut + !cut); /* exact size, so that a sanitizer sees over-reads */
        n_cuts++;
        if (!copy) break;
        memcpy(copy, bytes, cut);
        const smol_status s = sm_gguf_parse(&g, copy, cut, cut, &e);
        if (s != SMOL_OK && !gb_is_sentence(&e)) printf("# cut at %zu: '%s'\n", cut, e.msg);
        n_ok += (s == SMOL_OK) == (g != NULL) && (s == SMOL_OK || gb_is_sentence(&e));
        sm_gguf_free(g);
        free(copy);
    }
    TAP_OK(n_ok == n_cuts, "%s: cut at %u lengths", name, n_cuts);
    free(bytes);
}

int main(int argc, char **argv)
{
    char why[128], path[512];
    struct rusage before, after;
    tap_init(argc, argv);
    struct json_doc *doc =
        json_load(tap_src(path, sizeof path, DIR "expected.json"), why, sizeof why);
    if (!TAP_OK(doc != NULL, "expected.json: %s", doc ? "read" : why)) return tap_done();
    const struct json *cases = json_get(json_root(doc), "cases");
    TAP_OK(json_len(cases) >= 74, "%zu cases", json_len(cases));
    const size_t held = sm_mem_held();
    (void)getrusage(RUSAGE_SELF, &before);
    for (size_t i = 0; i < json_len(cases); i++) {
        const struct json *c = json_at(cases, i);
        check(c->key, json_str(json_get(c, "smol"), ""),
              !strcmp(json_str(json_get(c, "level"), ""), "vocabulary"));
    }
    (void)getrusage(RUSAGE_SELF, &after);
    TAP_IS_INT(sm_mem_held(), held, "no memory left behind");
    if (SANITIZED)
        TAP_SKIP(1, "peak memory means nothing under the address sanitizer");
    else
        TAP_OK(after.ru_maxrss - before.ru_maxrss < 2048, "peak memory grew by %ld KiB",
               after.ru_maxrss - before.ru_maxrss);
    json_free(doc);
    return tap_done();
}
