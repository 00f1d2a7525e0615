/* SPDX-License-Identifier: MIT */
#include "util_kern.h"
#include "base/bits.h"
#include "tap.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MARGIN = 64, PATTERN = 0xa5 };

static struct {
    uint8_t *map; /* GUARD_BYTES and one page without access */
    uint8_t *at;
    size_t bytes;
} guards[GUARD_COUNT];

void *guard_buffer(unsigned number, size_t bytes, size_t align)
{
    if (number >= GUARD_COUNT || bytes + MARGIN + align > GUARD_BYTES) {
        printf("Bail out! guarded buffer of %zu bytes\n", bytes);
        exit(1);
    }
    if (!guards[number].map) {
        const size_t page = (size_t)sysconf(_SC_PAGESIZE);
        uint8_t *p = mmap(NULL, GUARD_BYTES + page, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (p == MAP_FAILED || mprotect(p + GUARD_BYTES, page, PROT_NONE)) {
            printf("Bail out! no memory for guarded buffers\n");
            exit(1);
        }
        guards[number].map = p;
    }
    uint8_t *end = guards[number].map + GUARD_BYTES;
    uint8_t *at = end - bytes;
    at -= (uintptr_t)at % align;
    memset(at - MARGIN, PATTERN, (size_t)(end - at) + MARGIN);
    guards[number].at = at;
    guards[number].bytes = bytes;
    return at;
}

bool guard_intact(unsigned number)
{
    const uint8_t *at = guards[number].at, *end = guards[number].map + GUARD_BYTES;
    for (const uint8_t *p = at - MARGIN; p < at; p++)
        if (*p != PATTERN) return false;
    for (const uint8_t *p = at + guards[number].bytes; p < end; p++)
        if (*p != PATTERN) return false;
    return true;
}

sigjmp_buf guard_jump;
static volatile sig_atomic_t caught, armed;

static void on_signal(int sig)
{
    if (!armed) _exit(99);
    caught = sig;
    siglongjmp(guard_jump, 1);
}

void guard_begin(void)
{
    static const int signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE};
    struct sigaction act;
    memset(&act, 0, sizeof act);
    act.sa_handler = on_signal;
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++)
        (void)sigaction(signals[i], &act, NULL);
    caught = 0;
    armed = 1;
}
void guard_done(void) { armed = 0; }
int guard_signal(void) { return caught; }

bool same_floats(const float *a, const float *b, size_t n, size_t *at)
{
    for (size_t i = 0; i < n; i++) {
        const uint32_t u = sm_bits_of_f32(a[i]), v = sm_bits_of_f32(b[i]);
        const bool nan = (u & 0x7fffffffu) > 0x7f800000u && (v & 0x7fffffffu) > 0x7f800000u;
        if (u != v && !nan) {
            *at = i;
            return false;
        }
    }
    return true;
}

const char *failure(const char *fmt, ...)
{
    static char text[400];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return text;
}

static float special(void)
{
    static const uint32_t bits[] = {0x7f800000u, 0xff800000u, 0x7fc00000u, 0x00000000u,
                                    0x80000000u, 0x00000001u, 0x7f7fffffu, 0xff7fffffu};
    return sm_f32_of_bits(bits[tap_random_below(sizeof bits / sizeof bits[0])]);
}

size_t pick(size_t lo, size_t hi)
{
    return lo + (size_t)tap_random_below(hi - lo + 1);
}

unsigned kind_of_floats(void)
{
    return (unsigned)pick(0, FLOAT_KINDS - 1);
}

float *floats(unsigned number, size_t n, size_t align, unsigned kind)
{
    float *p = guard_buffer(number, 4 * n, align);
    fill_floats(p, n, kind);
    return p;
}

float *copy_of(unsigned number, const float *x, size_t n, size_t align)
{
    float *p = guard_buffer(number, 4 * n, align);
    memcpy(p, x, 4 * n);
    return p;
}

void fill_floats(float *x, size_t n, unsigned kind)
{
    const size_t hot = n ? (size_t)tap_random_below(n) : 0;
    for (size_t i = 0; i < n; i++) {
        const uint64_t r = tap_random();
        switch (kind) {
        case 1: /* any exponent from 2^-60 to 2^59 */
            x[i] = sm_f32_of_bits((uint32_t)(r & 0x807fffffu) | (uint32_t)(67 + (r >> 32) % 120)
                                                                    << 23);
            break;
        case 2:
            x[i] = sm_f32_of_bits((uint32_t)(r & ((r >> 32) % 3 ? 0x800000ffu : 0x80000000u)));
            break;
        case 3: x[i] = (r & 15) ? tap_random_float(-4, 4) : special(); break;
        case 4: x[i] = (float)((int)(r % 513) - 256) * 0.5f; break;
        case 5: x[i] = i == hot ? 1000.0f : tap_random_float(-1e-3f, 1e-3f); break;
        default: x[i] = tap_random_float(-2, 2); break;
        }
    }
}

/* Puts a half into every scale of a block (MXFP4: its low byte as exponent). */
static void set_scale(uint32_t type, uint8_t *block, uint16_t half)
{
    const struct sm_traits *t = sm_traits_of(type);
    if (type == SM_MXFP4) {
        block[0] = (uint8_t)half;
    } else if (type == SM_IQ1_M) {
        for (int k = 0; k < 4; k++) {
            const uint16_t w = sm_ld16(block + 48 + 2 * k);
            sm_st16(block + 48 + 2 * k,
                    (uint16_t)((w & 0x0fffu) | ((unsigned)half >> (4 * k) & 15u) << 12));
        }
    } else {
        for (size_t f = 0; f < t->n_x8; f++)
            if (t->x8[f].unit == 2 && !(type == SM_IQ4_XS && f))
                sm_st16(block + t->x8[f].offset, half);
    }
}

void fill_blocks(uint32_t type, uint8_t *blocks, size_t n_blocks, unsigned kind)
{
    static const uint16_t halves[] = {0x0001, 0x83ff, 0x0200, 0x8001};
    const struct sm_traits *t = sm_traits_of(type);
    for (size_t b = 0; b < n_blocks; b++) {
        uint8_t *p = blocks + b * t->block_bytes;
        do {
            for (size_t i = 0; i < t->block_bytes; i++) p[i] = (uint8_t)tap_random();
        } while (kind == 0 && t->finite && !t->finite(p));
        const uint16_t half = (uint16_t)(0x2000 + tap_random_below(0x1000));
        switch (kind) {
        case 1: set_scale(type, p, (tap_random() & 1) ? 0x8000 : 0); break;
        case 2: set_scale(type, p, halves[tap_random_below(4)]); break;
        case 3: set_scale(type, p, (tap_random() & 1) ? 0x7bff : 0xfbff); break;
        case 4:
            memset(p, 0, t->block_bytes);
            set_scale(type, p, half);
            break;
        case 5:
            memset(p, 0xff, t->block_bytes);
            set_scale(type, p, half);
            break;
        default: break;
        }
    }
}

void fill_acts(struct sm_acts *x, unsigned kind)
{
    const size_t n = (size_t)x->n_tok * x->n_cols;
    const size_t hot = (size_t)tap_random_below(n);
    for (size_t i = 0; i < n; i++) {
        const uint64_t r = tap_random();
        switch (kind) {
        case 1: x->q[i] = 127; break;
        case 2: x->q[i] = -127; break;
        case 3: x->q[i] = i == hot ? 127 : 0; break;
        case 4: x->q[i] = (r & 1) ? 127 : -127; break;
        default: x->q[i] = (int8_t)((int)(r % 255) - 127); break;
        }
    }
    for (size_t g = 0; g < n / 16; g++) {
        int sum = 0;
        for (size_t i = 0; i < 16; i++) sum += x->q[16 * g + i];
        x->s[g] = (int16_t)sum;
    }
    for (size_t b = 0; b < n / x->block; b++) {
        fill_floats(&x->d[b], 1, kind == 5 ? (unsigned)tap_random_below(4) : 0);
        if (kind != 5) x->d[b] = x->d[b] < 0 ? -x->d[b] : x->d[b];
    }
}
