/* SPDX-License-Identifier: MIT */
/* What the kernel check is made of: guarded buffers, caught signals, comparison by bits. One
 * thread. */
#ifndef SM_TEST_UTIL_KERN_H
#define SM_TEST_UTIL_KERN_H

#include "kern/kern.h"

#include <setjmp.h>
#include <stddef.h>

/* A buffer of `bytes` bytes that ends at a page nobody may touch (or up to align - 1 bytes before
 * it), with a margin of pattern bytes before and after. Buffers are numbered and reused: at most
 * GUARD_COUNT are alive; a new call with the same number replaces the old one. */
enum { GUARD_COUNT = 12, GUARD_BYTES = 1 << 22 };
void *guard_buffer(unsigned number, size_t bytes, size_t align);
/* True when nothing was written around the buffer. */
bool guard_intact(unsigned number);

/* Run a kernel: if (GUARD_TRY()) { call; } guard_done(); then guard_signal() is 0 or the signal
 * that ended the call. */
extern sigjmp_buf guard_jump;
void guard_begin(void);
void guard_done(void);
int guard_signal(void);
#define GUARD_TRY() (guard_begin(), sigsetjmp(guard_jump, 1) == 0)

/* The same bits, or both NaN. *at is the first difference. */
bool same_floats(const float *a, const float *b, size_t n, size_t *at);

/* A random number of lo..hi. */
size_t pick(size_t lo, size_t hi);

/* Floats of a kind: 0 ordinary, 1 wide exponents, 2 zeros of both signs and subnormals, 3 with NaN
 * and infinities, 4 small integers and halves (ties), 5 one hot element among tiny ones. */
enum { FLOAT_KINDS = 6 };
void fill_floats(float *x, size_t n, unsigned kind);
unsigned kind_of_floats(void);
/* A buffer of n floats of a kind, or with the same floats as x; align as for guard_buffer. */
float *floats(unsigned number, size_t n, size_t align, unsigned kind);
float *copy_of(unsigned number, const float *x, size_t n, size_t align);

/* A check runs one slot of `k` against `ref` on one random set of inputs and returns NULL, or a
 * static text with what was wrong and with which parameters. */
typedef const char *(*check_fn)(const struct sm_kern *k, const struct sm_kern *ref, uint32_t which);
const char *check_mul_x8(const struct sm_kern *k, const struct sm_kern *ref, uint32_t type);
const char *check_pack_x8(const struct sm_kern *k, const struct sm_kern *ref, uint32_t type);
const char *check_mul_rows(const struct sm_kern *k, const struct sm_kern *ref, uint32_t type);
const char *check_quantize(const struct sm_kern *k, const struct sm_kern *ref, uint32_t block);
const char *check_dot(const struct sm_kern *k, const struct sm_kern *ref, uint32_t unused);
const char *check_rms_norm(const struct sm_kern *k, const struct sm_kern *ref, uint32_t unused);
const char *check_gated(const struct sm_kern *k, const struct sm_kern *ref, uint32_t sigmoid);
const char *check_conv(const struct sm_kern *k, const struct sm_kern *ref, uint32_t unused);
const char *check_delta(const struct sm_kern *k, const struct sm_kern *ref, uint32_t unused);
const char *check_axpy(const struct sm_kern *k, const struct sm_kern *ref, uint32_t unused);
const char *check_add(const struct sm_kern *k, const struct sm_kern *ref, uint32_t unused);
const char *check_exp(const struct sm_kern *k, const struct sm_kern *ref, uint32_t unused);
const char *check_rope(const struct sm_kern *k, const struct sm_kern *ref, uint32_t adjacent);
const char *check_attn(const struct sm_kern *k, const struct sm_kern *ref, uint32_t kv_type);
const char *check_attn_tile(const struct sm_kern *k, const struct sm_kern *ref, uint32_t kv_type);
const char *check_join(const struct sm_kern *k, const struct sm_kern *ref, uint32_t unused);
const char *check_kv_store(const struct sm_kern *k, const struct sm_kern *ref, uint32_t kv_type);

/* Random file-order blocks of a format with finite scales. kind 0: random bytes; 1: scales zero;
 * 2: subnormal; 3: largest; 4: codes all zero bits; 5: codes all one bits. */
enum { BLOCK_KINDS = 6 };
void fill_blocks(uint32_t type, uint8_t *blocks, size_t n_blocks, unsigned kind);
/* Random activations with consistent sums in x->q, x->d, x->s. */
enum { ACT_KINDS = 6 };
void fill_acts(struct sm_acts *x, unsigned kind);

/* Formats and returns the static failure text. */
const char *failure(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Speeds of the products and of repacking as TSV lines, of up to SM_LEVEL_COUNT tables, lower
 * levels first; op NULL: all. */
void bench_mul_x8(const struct sm_kern *k, size_t n_levels, const char *op);

#endif
