/* SPDX-License-Identifier: MIT */
/* smol simulate TRACE: what other policies, pool sizes and levers would have missed, with the bound
 * that knows the future, and how many misses the look-ahead saw coming; with a learned list, what
 * pools of different sizes would. */
#include "lib/command.h"
#include "lib/input.h"
#include "lib/json.h"
#include "lib/outputs.h"
#include "lib/svg.h"
#include "store/learn.h"
#include "store/replay.h"
#include "store/shares.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define TRACE_MAX_BYTES ((size_t)4 << 30)
enum { MAX_SIZES = 12, N_LINES = 4 };

static const char *const names[N_LINES] = {"Belady", "lru", "lfu", "lfru"};

struct simulation {
    struct sm_trace_data d;
    struct sm_lever lever;
    uint32_t size[MAX_SIZES];
    unsigned n_sizes;
    struct sm_replay_result result[MAX_SIZES][N_LINES]; /* without lever */
    struct sm_replay_result levered[MAX_SIZES][N_LINES];
    const char *learned; /* list, NULL: none */
    uint32_t *slots;     /* by the list [MAX_SIZES][n_layers] */
    struct sm_replay_result shared[MAX_SIZES][N_LINES];
};

/* Eighths of the experts between the floor and everything, or the one size that was asked for. */
static bool pick_sizes(struct simulation *s, uint32_t wanted)
{
    const uint32_t n = s->d.shape.n_expert, k = s->d.shape.n_used;
    if (wanted) {
        if (wanted < k || wanted > n) return false;
        s->size[s->n_sizes++] = wanted;
        return true;
    }
    for (uint32_t i = 1; i < 8; i++) {
        const uint32_t size = n * i / 8;
        if (size >= k && (!s->n_sizes || size > s->size[s->n_sizes - 1]))
            s->size[s->n_sizes++] = size;
    }
    if (!s->n_sizes) s->size[s->n_sizes++] = n;
    return true;
}

/* slots: of each layer and size, NULL: all layers alike. */
static smol_status replay(struct simulation *s, const struct sm_lever *lever, const uint32_t *slots,
                          struct sm_replay_result out[MAX_SIZES][N_LINES], smol_error *err)
{
    for (unsigned i = 0; i < s->n_sizes; i++) {
        for (unsigned p = 0; p < N_LINES; p++) {
            struct sm_replay how = {p ? sm_policy_find(names[p]) : NULL, s->size[i], *lever};
            for (uint32_t l = 0; l < s->d.shape.n_layers; l++) {
                if (slots) how.n_slots = slots[i * s->d.shape.n_layers + l];
                const smol_status st = sm_replay_run(&s->d, l, &how, &out[i][p], err);
                if (st != SMOL_OK) return st;
            }
        }
    }
    return SMOL_OK;
}

/* Slots of each layer by a list of learned uses, as many in all as without it. */
static smol_status share_slots(struct simulation *s, smol_error *err)
{
    const uint32_t n = s->d.shape.n_layers, n_expert = s->d.shape.n_expert;
    struct sm_share_pool *pools = calloc(n, sizeof *pools);
    float *uses = calloc((size_t)n * n_expert, sizeof *uses);
    char *text = NULL;
    size_t bytes = 0;
    uint64_t tokens;
    s->slots = calloc((size_t)MAX_SIZES * n, sizeof *s->slots);
    smol_status st = pools && uses && s->slots ? SMOL_OK : SM_FAIL(err, NOMEM, "no memory");
    if (st == SMOL_OK) st = sm_input_read(s->learned, SM_LEARN_BYTES_MAX, &text, &bytes, err);
    if (st == SMOL_OK) st = sm_learn_parse(text, bytes, n, n_expert, uses, &tokens, err);
    for (uint32_t l = 0; st == SMOL_OK && l < n; l++)
        pools[l] = (struct sm_share_pool){1, n_expert, uses + (size_t)l * n_expert};
    for (unsigned i = 0; st == SMOL_OK && i < s->n_sizes; i++) {
        const uint32_t floor = s->d.shape.n_used + 1;
        sm_shares(pools, n, floor < s->size[i] ? floor : s->size[i], (uint64_t)s->size[i] * n,
                  s->slots + (size_t)i * n);
    }
    free(text);
    free(uses);
    free(pools);
    return st;
}

static double share(uint64_t a, uint64_t b) { return b ? (double)a / (double)b : 0; }

static double miss(const struct sm_replay_result *r) { return share(r->misses, r->uses); }

static double dropped(const struct sm_replay_result *r)
{
    return share(r->dropped, r->uses + r->dropped);
}

/* ---- output ---------------------------------------------------------------------------------- */

static void print_policies(const struct simulation *s)
{
    printf("misses, %% of uses\npool  ");
    for (unsigned p = 0; p < N_LINES; p++) printf("%8s", names[p]);
    printf("    of the way from lru to Belady: lfu, lfru\n");
    for (unsigned i = 0; i < s->n_sizes; i++) {
        const struct sm_replay_result *r = s->result[i];
        const double way = miss(&r[1]) - miss(&r[0]);
        printf("%4u  ", (unsigned)s->size[i]);
        for (unsigned p = 0; p < N_LINES; p++) printf("%8.2f", 100 * miss(&r[p]));
        if (way > 0)
            printf("    %.0f %%, %.0f %%", 100 * (miss(&r[1]) - miss(&r[2])) / way,
                   100 * (miss(&r[1]) - miss(&r[3])) / way);
        printf("\n");
    }
}

static void print_ahead(const struct simulation *s)
{
    const struct sm_replay_result *first = &s->result[0][2];
    if (!first->predictable[0] && !first->predictable[1] && !first->predictable[2]) return;
    printf("\nlooking ahead (lfu): misses foreseen %%, reads per foreseen miss\npool  ");
    for (unsigned a = 1; a <= SM_TRACE_AHEAD; a++)
        printf("  %u layer%s     ", a, a > 1 ? "s" : " ");
    printf("\n");
    for (unsigned i = 0; i < s->n_sizes; i++) {
        const struct sm_replay_result *r = &s->result[i][2];
        printf("%4u  ", (unsigned)s->size[i]);
        for (unsigned a = 0; a < SM_TRACE_AHEAD; a++)
            printf("  %5.1f  %5.2f", 100 * share(r->foreseen[a], r->predictable[a]),
                   share(r->asked[a], r->foreseen[a]));
        printf("\n");
    }
}

static void print_recalled(const struct simulation *s)
{
    printf("\nexperts that a token had when it was last seen (lfu): misses foreseen %%, right %%"
           " of\npool  foreseen    what it had twice, the rest\n");
    for (unsigned i = 0; i < s->n_sizes; i++) {
        const struct sm_replay_result *r = &s->result[i][2];
        printf("%4u     %5.1f    %17.1f  %8.1f\n", (unsigned)s->size[i],
               100 * share(r->recalled_right[0] + r->recalled_right[1], r->misses),
               100 * share(r->recalled_right[1], r->recalled[1]),
               100 * share(r->recalled_right[0], r->recalled[0]));
    }
}

static void print_levers(const struct simulation *s)
{
    printf("\nwith the lever, %% of uses (later choices as recorded)\npool  ");
    for (unsigned p = 1; p < N_LINES; p++) printf("%8s", names[p]);
    printf("%s\n", s->lever.drop > 0 ? "    left out, % of choices: lru, lfu, lfru" : "");
    for (unsigned i = 0; i < s->n_sizes; i++) {
        printf("%4u  ", (unsigned)s->size[i]);
        for (unsigned p = 1; p < N_LINES; p++) printf("%8.2f", 100 * miss(&s->levered[i][p]));
        for (unsigned p = 1; p < N_LINES && s->lever.drop > 0; p++)
            printf("%s%.2f", p > 1 ? ", " : "    ", 100 * dropped(&s->levered[i][p]));
        printf("\n");
    }
}

static void print_shared(const struct simulation *s)
{
    printf("\nas many slots in all, shared out by %s, %% of uses\npool  ", s->learned);
    for (unsigned p = 0; p < N_LINES; p++) printf("%8s", names[p]);
    printf("    slots of each layer\n");
    for (unsigned i = 0; i < s->n_sizes; i++) {
        printf("%4u  ", (unsigned)s->size[i]);
        for (unsigned p = 0; p < N_LINES; p++) printf("%8.2f", 100 * miss(&s->shared[i][p]));
        printf("   ");
        for (uint32_t l = 0; l < s->d.shape.n_layers; l++)
            printf(" %u", (unsigned)s->slots[i * s->d.shape.n_layers + l]);
        printf("\n");
    }
}

/* Nothing to be shared out: null. */
static double share_if_any(uint64_t a, uint64_t b) { return b ? share(a, b) : (double)NAN; }

static void json_result(struct sm_json *j, unsigned line, const struct sm_replay_result *r)
{
    const char *name = names[line];
    sm_json_open(j, name, '{');
    sm_json_uint(j, "uses", r->uses);
    sm_json_uint(j, "misses", r->misses);
    sm_json_uint(j, "dropped", r->dropped);
    if (line) { /* Belady foresees everything, and no router for it */
        sm_json_open(j, "foreseen", '[');
        for (unsigned a = 0; a < SM_TRACE_AHEAD; a++)
            sm_json_num(j, NULL, share_if_any(r->foreseen[a], r->predictable[a]));
        sm_json_close(j);
        sm_json_open(j, "reads_per_foreseen", '[');
        for (unsigned a = 0; a < SM_TRACE_AHEAD; a++)
            sm_json_num(j, NULL, share_if_any(r->asked[a], r->foreseen[a]));
        sm_json_close(j);
        sm_json_num(j, "recalled",
                    share_if_any(r->recalled_right[0] + r->recalled_right[1], r->misses));
        sm_json_num(j, "recalled_twice_right", share_if_any(r->recalled_right[1], r->recalled[1]));
        sm_json_num(j, "recalled_once_right", share_if_any(r->recalled_right[0], r->recalled[0]));
    }
    sm_json_close(j);
}

static bool print_json(const struct simulation *s)
{
    struct sm_json j;
    sm_json_begin(&j, stdout, true);
    sm_json_open(&j, NULL, '{');
    sm_json_uint(&j, "layers", s->d.shape.n_layers);
    sm_json_uint(&j, "experts", s->d.shape.n_expert);
    sm_json_uint(&j, "experts_used", s->d.shape.n_used);
    sm_json_uint(&j, "tokens", s->d.n_tokens);
    sm_json_open(&j, "pools", '[');
    for (unsigned i = 0; i < s->n_sizes; i++) {
        sm_json_open(&j, NULL, '{');
        sm_json_uint(&j, "slots", s->size[i]);
        for (unsigned p = 0; p < N_LINES; p++) json_result(&j, p, &s->result[i][p]);
        if (sm_lever_on(&s->lever)) {
            sm_json_open(&j, "lever", '{');
            for (unsigned p = 1; p < N_LINES; p++) json_result(&j, p, &s->levered[i][p]);
            sm_json_close(&j);
        }
        if (s->learned) {
            sm_json_open(&j, "shared_out", '{');
            sm_json_open(&j, "slots", '[');
            for (uint32_t l = 0; l < s->d.shape.n_layers; l++)
                sm_json_uint(&j, NULL, s->slots[i * s->d.shape.n_layers + l]);
            sm_json_close(&j);
            for (unsigned p = 0; p < N_LINES; p++) json_result(&j, p, &s->shared[i][p]);
            sm_json_close(&j);
        }
        sm_json_close(&j);
    }
    sm_json_close(&j);
    sm_json_close(&j);
    return sm_json_end(&j);
}

static bool write_chart(FILE *f, const void *chart) { return sm_svg_write(f, chart); }

static int draw(const struct simulation *s, const char *path)
{
    double x[MAX_SIZES], y[N_LINES][MAX_SIZES];
    struct sm_svg_line lines[N_LINES];
    double top = 5;
    for (unsigned i = 0; i < s->n_sizes; i++) {
        x[i] = s->size[i];
        for (unsigned p = 0; p < N_LINES; p++) {
            y[p][i] = 100 * miss(&s->result[i][p]);
            while (y[p][i] > top) top += 5;
        }
    }
    for (unsigned p = 0; p < N_LINES; p++) lines[p] = (struct sm_svg_line){names[p], y[p]};
    const struct sm_svg_chart c = {"Misses by policy and pool size", "experts held per layer",
                                   "misses, % of uses", x, s->n_sizes, top, lines, N_LINES};
    if (sm_output_write(path, write_chart, &c)) return SM_EXIT_DONE;
    return sm_complain(SM_EXIT_FAILED, "cannot write %s: %s", path, strerror(errno));
}

/* ---- the command ----------------------------------------------------------------------------- */

static int simulate(struct simulation *s, const struct sm_options *o)
{
    smol_error err = {0};
    const struct sm_lever none = {0};
    if (!pick_sizes(s, o->n_pool))
        return sm_complain(
            SM_EXIT_USAGE, "--pool %u: this trace has %u experts, %u of them used per token",
            (unsigned)o->n_pool, (unsigned)s->d.shape.n_expert, (unsigned)s->d.shape.n_used);
    s->lever = (struct sm_lever){
        .bias = o->route_bias.value, .bias_keep = o->route_bias.keep,
        .bias_range = o->route_bias.range, .swap = o->route_swap.value,
        .swap_keep = o->route_swap.keep, .drop = o->route_drop.value,
        .drop_keep = o->route_drop.keep};
    s->learned = o->learned;
    smol_status st = replay(s, &none, NULL, s->result, &err);
    if (st == SMOL_OK && sm_lever_on(&s->lever)) st = replay(s, &s->lever, NULL, s->levered, &err);
    if (st == SMOL_OK && s->learned) st = share_slots(s, &err);
    if (st == SMOL_OK && s->learned) st = replay(s, &none, s->slots, s->shared, &err);
    if (st != SMOL_OK) return sm_report(&err);
    if (o->json) {
        if (!print_json(s)) return sm_output_failed("the result");
    } else {
        printf("%u layers of %u experts, %u used per token; %u tokens\n\n",
               (unsigned)s->d.shape.n_layers, (unsigned)s->d.shape.n_expert,
               (unsigned)s->d.shape.n_used, (unsigned)s->d.n_tokens);
        print_policies(s);
        print_ahead(s);
        print_recalled(s);
        if (sm_lever_on(&s->lever)) print_levers(s);
        if (s->learned) print_shared(s);
    }
    if (fflush(stdout) != 0) return sm_output_failed("the result"); /* before what may be said */
    return o->svg ? draw(s, o->svg) : SM_EXIT_DONE;
}

/* The run was killed, or its disk full: what is there is replayed, and that it is not all. */
static void note_cut(const struct sm_trace_data *d, const char *path)
{
    bool even = true;
    for (uint32_t l = 0; l < d->shape.n_layers; l++) even = even && d->layer[l].n == d->n_tokens;
    if (d->cut_at)
        fprintf(stderr, "smol: note: %s ends inside a record, at byte %llu; it is replayed up to "
                        "there\n",
                path, (unsigned long long)d->cut_at);
    else if (!even)
        fprintf(stderr, "smol: note: %s ends inside a token: some layers have fewer than others\n",
                path);
}

int sm_cmd_simulate(const struct sm_options *o, int argc, char **argv)
{
    struct simulation *s = calloc(1, sizeof *s);
    char *bytes = NULL;
    size_t n = 0;
    smol_error err = {0};
    (void)argc;
    if (!s) return sm_complain(SM_EXIT_FAILED, "no memory");
    smol_status st = SMOL_OK;
    /* else nothing is read */
    if (sm_input_begins(argv[0], SM_TRACE_MAGIC, sizeof SM_TRACE_MAGIC - 1))
        st = sm_input_read(argv[0], TRACE_MAX_BYTES, &bytes, &n, &err);
    if (st == SMOL_OK) st = sm_trace_read(&s->d, (const uint8_t *)bytes, n, &err);
    free(bytes);
    if (st == SMOL_OK && !o->quiet) note_cut(&s->d, argv[0]);
    const int code = st == SMOL_OK ? simulate(s, o) : sm_report(&err);
    sm_trace_free(&s->d);
    free(s->slots);
    free(s);
    return code;
}
