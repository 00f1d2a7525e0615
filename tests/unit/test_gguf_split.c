/* SPDX-License-Identifier: MIT */
/* Split sets: any part may be named, all parts are checked against each other. */
#include "gguf/gguf_write.h"
#include "gguf_bytes.h"
#include "json_read.h"
#include "tap.h"
#include "temp.h"

#include <unistd.h>

static struct sm_gguf *model; /* what is split */
static char *model_bytes;

/* How one part lies about itself; all zero: an honest one. */
struct lie {
    int count, no, n_tensors; /* added to the true value */
    bool duplicate;           /* also holds the first tensor of the model */
    bool no_keys;
};

/* Tensors [first, first + n) of the model as part `no` of `count`. */
static void write_part(const char *path, unsigned no, unsigned count, size_t first, size_t n,
                       const struct lie *lie)
{
    struct sm_gguf_writer *w = NULL;
    smol_error err = {0};
    smol_status st;
    const size_t total = sm_gguf_n_tensors(model);
    SM_TRY_OUT(st, sm_gguf_writer_new(&w, &err));
    if (no == 0) SM_TRY_OUT(st, sm_gguf_writer_copy_kv(w, model, &err));
    if (!lie->no_keys)
        SM_TRY_OUT(st, sm_gguf_writer_set_split(w, (uint16_t)((int)no + lie->no),
                                                (uint16_t)((int)count + lie->count),
                                                (uint32_t)((int)total + lie->n_tensors), &err));
    const struct sm_tensor_info *t0 = sm_gguf_tensor(model, 0);
    if (lie->duplicate)
        SM_TRY_OUT(st, sm_gguf_writer_add_tensor(w, t0->name, t0->type, t0->n_dims, t0->dim, &err));
    for (size_t i = first; i < first + n; i++) {
        const struct sm_tensor_info *t = sm_gguf_tensor(model, i);
        SM_TRY_OUT(st, sm_gguf_writer_add_tensor(w, t->name, t->type, t->n_dims, t->dim, &err));
    }
    SM_TRY_OUT(st, sm_gguf_writer_create(w, path, &err));
    if (lie->duplicate)
        SM_TRY_OUT(st, sm_gguf_writer_put(w, model_bytes + t0->at, (size_t)t0->bytes, &err));
    for (size_t i = first; i < first + n; i++) {
        const struct sm_tensor_info *t = sm_gguf_tensor(model, i);
        SM_TRY_OUT(st, sm_gguf_writer_put(w, model_bytes + t->at, (size_t)t->bytes, &err));
    }
    st = sm_gguf_writer_end(w, &err);
out:
    sm_gguf_writer_free(w);
    if (st != SMOL_OK) {
        fprintf(stderr, "%s: %s\n", path, err.msg);
        exit(1);
    }
}

static const char *part_name(const char *stem, unsigned no, unsigned count)
{
    static char name[4][300];
    static unsigned turn;
    char *to = name[turn++ % 4];
    (void)snprintf(to, sizeof name[0], "%s-%05u-of-%05u.gguf", stem, no + 1, count);
    return temp_path(to);
}

/* The model in `count` parts; part `liar` lies. With count 4 part 0 holds no tensors. */
static void write_set(const char *stem, unsigned count, unsigned liar, const struct lie *lie)
{
    static const struct lie honest;
    const size_t total = sm_gguf_n_tensors(model), sets = count == 4 ? 3 : count;
    size_t first = 0;
    for (unsigned no = 0; no < count; no++) {
        const unsigned k = count == 4 ? no : no + 1;
        const size_t end = total * k / sets;
        write_part(part_name(stem, no, count), no, count, first, end - first,
                   no == liar ? lie : &honest);
        first = end;
    }
}

static bool same_tensors(const struct sm_gguf *g)
{
    bool same = sm_gguf_n_tensors(g) == sm_gguf_n_tensors(model);
    for (size_t i = 0; same && i < sm_gguf_n_tensors(g); i++) {
        const struct sm_tensor_info *a = sm_gguf_tensor(model, i);
        const struct sm_tensor_info *b = sm_gguf_find_tensor(g, a->name);
        same = b && a->bytes == b->bytes && a->type == b->type && b->file < sm_gguf_n_files(g);
        if (!same) break;
        size_t n;
        char *bytes = json_read_file(sm_gguf_file_path(g, b->file), &n);
        same = bytes && n == sm_gguf_file_bytes(g, b->file) && b->at + b->bytes <= n &&
               !memcmp(bytes + b->at, model_bytes + a->at, (size_t)a->bytes);
        free(bytes);
    }
    return same;
}

static void test_any_part(unsigned count)
{
    const struct lie honest = {0};
    char stem[16];
    (void)snprintf(stem, sizeof stem, "good%u", count);
    write_set(stem, count, 99, &honest);
    for (unsigned no = 0; no < count; no++) {
        struct sm_gguf *g;
        smol_error err = {0};
        struct sm_str s = {0};
        if (!TAP_OK(!sm_gguf_open(&g, part_name(stem, no, count), &err), "part %u of %u", no + 1,
                    count)) {
            printf("# %s\n", err.msg);
            continue;
        }
        TAP_IS_INT(sm_gguf_n_files(g), count, "files");
        TAP_OK(!strcmp(sm_gguf_file_path(g, 1), part_name(stem, 1, count)), "path of part 2");
        TAP_OK(same_tensors(g), "all tensors with their bytes");
        TAP_OK(!sm_gguf_str(g, "general.architecture", &s, NULL, &err) && s.n == 5 &&
                   !memcmp(s.p, "llama", 5), "metadata of part 1");
        sm_gguf_free(g);
    }
}

static void refused(const char *path, smol_status code, const char *part)
{
    struct sm_gguf *g;
    smol_error err = {0};
    const smol_status st = sm_gguf_open(&g, path, &err);
    if (!TAP_OK(st == code && !g && gb_is_sentence(&err) && strstr(err.msg, part), "says '%s'",
                part))
        printf("# status %d\n", (int)st);
    printf("# %s\n", err.msg);
    sm_gguf_free(g);
}

static void test_liars(void)
{
    static const struct {
        unsigned liar;
        smol_status code;
        struct lie lie;
        const char *part;
    } cases[] = {
        {1, SMOL_FORMAT, {.count = 1}, "part 2 of 3"},
        {1, SMOL_FORMAT, {.count = 1}, "expected split.count 3, found 4"},
        {2, SMOL_FORMAT, {.no = -1}, "expected split.no 2, found 1"},
        {2, SMOL_FORMAT, {.no = 7}, "part 3 of 3"},
        {1, SMOL_FORMAT, {.n_tensors = 1}, "split.tensors.count"},
        {1, SMOL_FORMAT, {.duplicate = true}, "split.tensors.count"},
        {1, SMOL_FORMAT, {.no_keys = true}, "expected split.count 3, found 1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_set("bad", 3, cases[i].liar, &cases[i].lie);
        refused(part_name("bad", 0, 3), cases[i].code, cases[i].part);
    }
    struct lie lie = {.duplicate = true, .n_tensors = 1};
    const struct lie one_more = {.n_tensors = 1};
    const size_t n = sm_gguf_n_tensors(model);
    write_part(part_name("dup", 0, 2), 0, 2, 0, n / 2, &one_more);
    write_part(part_name("dup", 1, 2), 1, 2, n / 2, n - n / 2, &lie);
    refused(part_name("dup", 0, 2), SMOL_FORMAT, "occurs twice, the second in part 2");
    lie = (struct lie){.count = -3}; /* split.count 0 */
    write_part(part_name("zero", 0, 3), 0, 3, 0, n, &lie);
    refused(part_name("zero", 0, 3), SMOL_FORMAT, "split.count");
}

static void test_names(void)
{
    const struct lie honest = {0};
    write_set("lost", 3, 99, &honest);
    (void)unlink(part_name("lost", 1, 3));
    refused(part_name("lost", 2, 3), SMOL_IO, "lost-00002-of-00003.gguf");
    refused(part_name("lost", 0, 3), SMOL_IO, "part 2 of 3");
    write_set("moved", 2, 99, &honest);
    (void)rename(part_name("moved", 0, 2), temp_path("renamed.gguf"));
    refused(temp_path("renamed.gguf"), SMOL_FORMAT, "-00001-of-00002.gguf");
    refused(part_name("moved", 1, 2), SMOL_IO, "moved-00001-of-00002.gguf");
    write_set("swap", 2, 99, &honest);
    (void)rename(part_name("swap", 0, 2), temp_path("x"));
    (void)rename(part_name("swap", 1, 2), part_name("swap", 0, 2));
    (void)rename(temp_path("x"), part_name("swap", 1, 2));
    refused(part_name("swap", 0, 2), SMOL_FORMAT, "part 2 of 2");
    const char long_stem[] = "a-very-long-name-of-a-model-with-many-words-in-it-and-then-some-more-"
                             "so-that-a-message-would-not-hold-it-in-full-length-as-it-stands-here";
    write_part(part_name(long_stem, 0, 2), 0, 2, 0, 3, &honest);
    refused(part_name(long_stem, 0, 2), SMOL_IO, "-00002-of-00002.gguf");
    write_part(temp_path("single.gguf"), 0, 1, 0, sm_gguf_n_tensors(model), &honest);
    struct sm_gguf *g;
    smol_error err = {0};
    TAP_OK(!sm_gguf_open(&g, temp_path("single.gguf"), &err), "a set of one may have any name");
    sm_gguf_free(g);
}

static void test_broken_part(void)
{
    const struct lie honest = {0};
    size_t n;
    write_set("cut", 3, 99, &honest);
    const char *path = part_name("cut", 1, 3);
    char *bytes = json_read_file(path, &n);
    TAP_OK(bytes && !truncate(path, (off_t)n - 100), "cut part 2");
    free(bytes);
    refused(part_name("cut", 0, 3), SMOL_FORMAT,
            "part 2 of 3 (cut-00002-of-00003.gguf): the file is");
    (void)temp_write_text("cut-00002-of-00003.gguf", "<!doctype html><html></html>");
    refused(part_name("cut", 2, 3), SMOL_FORMAT, "web page");
}

int main(int argc, char **argv)
{
    char path[512];
    smol_error err = {0};
    size_t n;
    tap_init(argc, argv);
    (void)tap_src(path, sizeof path, "tests/data/models/rand-llama.gguf");
    model_bytes = json_read_file(path, &n);
    if (!TAP_OK(model_bytes && !sm_gguf_open(&model, path, &err), "model %s", err.msg))
        return tap_done();
    test_any_part(2);
    test_any_part(3);
    test_any_part(4);
    test_liars();
    test_names();
    test_broken_part();
    sm_gguf_free(model);
    free(model_bytes);
    return tap_done();
}
