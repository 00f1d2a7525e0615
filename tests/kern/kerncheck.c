/* SPDX-License-Identifier: MIT */
/* Every kernel of every level this CPU has against the reference, bit for bit.
 *
 *   kerncheck [--seed N] [--op TEXT] [--cpu LEVEL] [--rounds N] [--bench]
 *
 * Levels are added one by one; each slot of the table whose pointer changed is run on random and
 * adversarial inputs in buffers that end at a page without access. --op runs the ops whose name
 * contains TEXT ("mul_x8 Q2_K"), --cpu one level; --bench prints speeds as TSV instead. */
#include "cpu/cpu.h"
#include "tap.h"
#include "util_kern.h"

static const char *const level_names[SM_LEVEL_COUNT] = {
#define X(name, num, text) [num] = text,
    SM_LEVEL_LIST(X)
#undef X
};

struct options {
    const char *op, *cpu;
    unsigned rounds;
    bool bench;
};

/* One slot: its name, where it is in the table, and its check. */
struct slot {
    char name[40];
    size_t offset;
    check_fn check;
    uint32_t which;
    unsigned cost; /* rounds are divided by this */
};
static struct slot slots[3 * SM_TYPE_COUNT + 32];
static size_t n_slots;

static void add_slot(const char *op, const char *type, size_t offset, check_fn check,
                     uint32_t which, unsigned cost)
{
    struct slot *s = &slots[n_slots++];
    (void)snprintf(s->name, sizeof s->name, "%s%s%s", op, type[0] ? " " : "", type);
    s->offset = offset;
    s->check = check;
    s->which = which;
    s->cost = cost;
}

#define AT(member) offsetof(struct sm_kern, member)
static void list_slots(void)
{
    static const char *const kv[SM_KV_COUNT] = {"F32", "F16", "Q8_0"};
    static const uint32_t rows[] = {SM_F32, SM_F16, SM_BF16};
    const size_t step = sizeof(void *);
    for (uint32_t i = 0; i < SM_TYPE_COUNT; i++) {
        if (!sm_type_is_x8(i)) continue;
        add_slot("mul_x8", sm_type_name(i), AT(mul_x8) + i * step, check_mul_x8, i, 2);
        add_slot("pack_x8", sm_type_name(i), AT(pack_x8), check_pack_x8, i, 4);
    }
    for (size_t i = 0; i < 3; i++)
        add_slot("mul_rows", sm_type_name(rows[i]), AT(mul_rows) + rows[i] * step, check_mul_rows,
                 rows[i], 1);
    add_slot("quantize_32", "", AT(quantize_32), check_quantize, 32, 1);
    add_slot("quantize_256", "", AT(quantize_256), check_quantize, 256, 1);
    add_slot("dot", "", AT(dot), check_dot, 0, 1);
    add_slot("rms_norm", "", AT(rms_norm), check_rms_norm, 0, 1);
    add_slot("silu_mul", "", AT(silu_mul), check_gated, 0, 1);
    add_slot("sigmoid_mul", "", AT(sigmoid_mul), check_gated, 1, 1);
    add_slot("conv", "", AT(conv), check_conv, 0, 1);
    add_slot("delta_tile", "", AT(delta_tile), check_delta, 0, 1);
    add_slot("axpy", "", AT(axpy), check_axpy, 0, 1);
    add_slot("add", "", AT(add), check_add, 0, 1);
    add_slot("join", "", AT(join), check_join, 0, 1);
    add_slot("exp", "", AT(exp), check_exp, 0, 1);
    add_slot("rope_half", "", AT(rope_half), check_rope, 0, 1);
    add_slot("rope_adjacent", "", AT(rope_adjacent), check_rope, 1, 1);
    for (uint32_t i = 0; i < SM_KV_COUNT; i++) {
        add_slot("attn_chunk", kv[i], AT(attn_chunk) + i * step, check_attn, i, 4);
        add_slot("attn_tile", kv[i], AT(attn_tile) + i * step, check_attn_tile, i, 4);
        add_slot("kv_store", kv[i], AT(kv_store) + i * step, check_kv_store, i, 1);
    }
}

static bool same_slot(const struct sm_kern *a, const struct sm_kern *b, size_t offset)
{
    return memcmp((const char *)a + offset, (const char *)b + offset, sizeof(void *)) == 0;
}

/* Runs one slot; each round has a seed of its own, so that a failure can be repeated alone. */
static void check_slot(const struct slot *s, const char *level, const struct sm_kern *k,
                       const struct sm_kern *ref, unsigned rounds)
{
    const uint64_t seed = tap_state.random;
    const char *wrong = NULL;
    unsigned i = 0;
    rounds = rounds / s->cost + 1;
    for (; i < rounds && !wrong; i++) {
        tap_state.random = seed + (uint64_t)i * 0x632be59bd9b4e019u;
        wrong = s->check(k, ref, s->which);
    }
    TAP_OK(!wrong, "%s: %s, %u rounds", level, s->name, rounds);
    if (wrong) printf("#   round %u: %s\n", i - 1, wrong);
}

static void check_level(enum sm_level level, uint32_t levels, const struct options *o)
{
    const uint32_t bit = 1u << level;
    struct sm_kern ref, before, now;
    size_t n_checked = 0;
    sm_kern_init(&ref, 1);
    sm_kern_init(&before, levels & (bit - 1));
    sm_kern_init(&now, levels & (2 * bit - 1));
    for (size_t i = 0; i < n_slots; i++) {
        if (level && same_slot(&before, &now, slots[i].offset)) continue;
        if (!*(void *const *)(const void *)((const char *)&now + slots[i].offset)) continue;
        if (o->op && !strstr(slots[i].name, o->op)) continue;
        check_slot(&slots[i], level_names[level], &now, &ref, level ? o->rounds : 1);
        n_checked++;
    }
    if (!n_checked) printf("# %s: no kernel of its own here\n", level_names[level]);
}

static bool read_options(int argc, char **argv, struct options *o)
{
    *o = (struct options){.rounds = 120};
    for (int i = 1; i < argc; i++) {
        const bool more = i + 1 < argc;
        if (!strcmp(argv[i], "--bench"))
            o->bench = true;
        else if (!strcmp(argv[i], "--op") && more)
            o->op = argv[++i];
        else if (!strcmp(argv[i], "--cpu") && more)
            o->cpu = argv[++i];
        else if (!strcmp(argv[i], "--rounds") && more)
            o->rounds = (unsigned)strtoul(argv[++i], NULL, 10);
        else if (!strcmp(argv[i], "--seed") && more)
            i++; /* read by tap_init */
        else
            return false;
    }
    return true;
}

/* The levels of this CPU that bring products of their own, or the one asked for. */
static void bench_levels(uint32_t levels, const struct options *o)
{
    static struct sm_kern k[SM_LEVEL_COUNT];
    size_t n = 0;
    printf("level\top\ttokens\tGweights/s\tGB/s\tverdict\n");
    for (int level = 0; level < SM_LEVEL_COUNT; level++) {
        if (!(levels >> level & 1) || (o->cpu && strcmp(o->cpu, level_names[level]))) continue;
        if (!level && !o->cpu) continue; /* ref: minutes, and nobody asks */
        sm_kern_init(&k[n], levels & ((2u << level) - 1));
        if (!strcmp(k[n].level, level_names[level])) n++;
    }
    bench_mul_x8(k, n, o->op);
}

int main(int argc, char **argv)
{
    const uint32_t levels = sm_cpu_levels();
    struct options o;
    if (!read_options(argc, argv, &o)) {
        fprintf(stderr,
                "usage: kerncheck [--seed N] [--op TEXT] [--cpu LEVEL] [--rounds N] [--bench]\n");
        return 2;
    }
    sm_cpu_float_mode();
    list_slots();
    if (o.bench) {
        bench_levels(levels, &o);
        return 0;
    }
    tap_init(argc, argv);
    for (int level = 0; level < SM_LEVEL_COUNT; level++) {
        if (o.cpu && strcmp(o.cpu, level_names[level])) continue;
        if (levels >> level & 1) check_level((enum sm_level)level, levels, &o);
        else TAP_SKIP(1, level_names[level]);
    }
    return tap_done();
}
