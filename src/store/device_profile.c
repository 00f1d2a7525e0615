/* SPDX-License-Identifier: MIT */
#include "store/device_profile.h"

#include "base/hash.h"
#include "plat/plat.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static const char first_line[] = "smol device profile 1\n";

/* ---- text ---------------------------------------------------------------------------------- */

struct text {
    const char *p, *end;
};

static bool take(struct text *t, const char *word)
{
    const size_t n = strlen(word);
    if ((size_t)(t->end - t->p) < n || memcmp(t->p, word, n) != 0) return false;
    t->p += n;
    return true;
}

static bool take_hex(struct text *t, uint64_t *out)
{
    static const char digits[] = "0123456789abcdef";
    if (t->end - t->p < 16) return false;
    *out = 0;
    for (int i = 0; i < 16; i++) {
        const char *d = *t->p ? strchr(digits, *t->p) : NULL;
        if (!d) return false;
        *out = *out << 4 | (uint64_t)(d - digits);
        t->p++;
    }
    return true;
}

/* Up to nine digits in [lo, hi]. */
static bool take_count(struct text *t, uint32_t lo, uint32_t hi, uint32_t *out)
{
    uint32_t v = 0, n = 0;
    for (; t->p < t->end && *t->p >= '0' && *t->p <= '9' && n < 9; n++)
        v = v * 10 + (uint32_t)(*t->p++ - '0');
    if (!n || v < lo || v > hi) return false;
    *out = v;
    return true;
}

/* Up to nine digits, then perhaps a point and up to three decimals, in (0, 10^9). */
static bool take_decimal(struct text *t, double *out)
{
    uint32_t whole, part = 0, scale = 1;
    if (!take_count(t, 0, 999999999, &whole)) return false;
    if (t->p < t->end && *t->p == '.')
        for (t->p++; t->p < t->end && *t->p >= '0' && *t->p <= '9' && scale < 1000; scale *= 10)
            part = part * 10 + (uint32_t)(*t->p++ - '0');
    *out = whole + (double)part / scale;
    return *out > 0;
}

static bool take_flash(struct text *t, struct sm_flash_profile *f)
{
    return take(t, "flash ") && take_hex(t, &f->device) && f->device && take(t, " readers=") &&
           take_count(t, 1, SM_PROFILE_READERS_MAX, &f->n_readers) && take(t, " piece=") &&
           take_count(t, 4096, SM_PROFILE_PIECE_MAX, &f->piece_bytes) &&
           f->piece_bytes % 4096 == 0 && take(t, " block=") &&
           take_count(t, 4096, SM_PROFILE_BLOCK_MAX, &f->block_bytes) &&
           f->block_bytes % 4096 == 0 && take(t, " mb_s=") && take_decimal(t, &f->mb_s) &&
           take(t, " one_mb_s=") && take_decimal(t, &f->one_mb_s) && take(t, " random_ms=") &&
           take_decimal(t, &f->random_ms) && take(t, "\n");
}

smol_status sm_profile_parse(struct sm_profile *out, const char *bytes, size_t n, smol_error *err)
{
    struct text t = {bytes, bytes + n};
    unsigned line = 1;
    memset(out, 0, sizeof *out);
    if (n > SM_PROFILE_BYTES_MAX)
        return SM_FAIL(err, FORMAT, "a device profile of %zu bytes, expected %u at most", n,
                       SM_PROFILE_BYTES_MAX);
    bool good = take(&t, first_line);
    while (good && t.p < t.end) {
        line++;
        good = out->n < SM_PROFILE_FLASHES && take_flash(&t, &out->flash[out->n]);
        out->n += good;
    }
    if (good) return SMOL_OK;
    memset(out, 0, sizeof *out);
    return SM_FAIL(err, FORMAT, "line %u of the device profile is not what smol writes", line);
}

/* Within what take_decimal reads. */
static double printable(double v) { return v < 0.001 ? 0.001 : v > 999999999 ? 999999999 : v; }

size_t sm_profile_print(const struct sm_profile *p, char *buf, size_t cap)
{
    int n = snprintf(buf, cap, "%s", first_line);
    for (unsigned i = 0; i < p->n && n > 0 && (size_t)n < cap; i++) {
        const struct sm_flash_profile *f = &p->flash[i];
        n += snprintf(buf + n, cap - (size_t)n,
                      "flash %016" PRIx64 " readers=%" PRIu32 " piece=%" PRIu32 " block=%" PRIu32
                      " mb_s=%.3f one_mb_s=%.3f random_ms=%.3f\n",
                      f->device, f->n_readers, f->piece_bytes, f->block_bytes, printable(f->mb_s),
                      printable(f->one_mb_s), printable(f->random_ms));
    }
    return n > 0 && (size_t)n < cap ? (size_t)n : 0;
}

/* ---- the device ---------------------------------------------------------------------------- */

/* The n-th word (from 0) of a line, its length in *len; NULL: there are fewer. */
static const char *word(const char *line, unsigned n, size_t *len)
{
    for (;; n--) {
        line += strspn(line, " ");
        *len = strcspn(line, " \n");
        if (!*len) return NULL;
        if (!n) return line;
        line += *len;
    }
}

/* The line of /proc/self/mountinfo with this device number, hashed without what changes from mount
 * to mount; its words: id, parent, major:minor, root, mount point, options, …, "-", type, source,
 * … */
static uint64_t mount_hash(unsigned major, unsigned minor)
{
    char line[1024], wanted[32];
    uint64_t hash = 0;
    FILE *f = fopen("/proc/self/mountinfo", "re");
    if (!f) return 0;
    const int n_wanted = snprintf(wanted, sizeof wanted, "%u:%u", major, minor);
    while (!hash && fgets(line, sizeof line, f)) {
        size_t n_device, n_point, n_kind, n_source;
        const char *tail = strstr(line, " - "), *device = word(line, 2, &n_device);
        if (!tail || !device || n_device != (size_t)n_wanted) continue;
        if (memcmp(device, wanted, n_device) != 0) continue;
        const char *point = word(line, 4, &n_point), *kind = word(tail + 3, 0, &n_kind);
        const char *source = word(tail + 3, 1, &n_source);
        if (!point || !kind || !source) continue;
        hash = sm_hash64(point, n_point, sm_hash64(kind, n_kind, sm_hash64(source, n_source, 0)));
    }
    (void)fclose(f);
    return hash;
}

uint64_t sm_profile_device(const char *path)
{
    struct stat s;
    if (stat(path, &s) != 0) return 0;
    const uint64_t dev = (uint64_t)s.st_dev;
    /* Linux's encoding of device numbers in 64 bits. */
    const unsigned major = (unsigned)((dev >> 8 & 0xfff) | (dev >> 32 & 0xfffff000u));
    const unsigned minor = (unsigned)((dev & 0xff) | (dev >> 12 & 0xffffff00u));
    const uint64_t hash = mount_hash(major, minor);
    return hash ? hash : dev;
}

/* ---- the file ------------------------------------------------------------------------------ */

static bool read_profile(const char *name, struct sm_profile *out)
{
    char bytes[SM_PROFILE_BYTES_MAX];
    struct sm_file *f;
    memset(out, 0, sizeof *out);
    if (sm_file_open(&f, name, false, NULL) != SMOL_OK) return false;
    const uint64_t n = sm_file_size(f);
    const bool ok = n <= sizeof bytes && sm_file_read(f, 0, bytes, (size_t)n, NULL) == SMOL_OK &&
                    sm_profile_parse(out, bytes, (size_t)n, NULL) == SMOL_OK;
    sm_file_close(f);
    return ok;
}

bool sm_profile_find(const char *name, const char *path, struct sm_flash_profile *out)
{
    struct sm_profile p;
    if (!name || !read_profile(name, &p)) return false;
    const uint64_t device = sm_profile_device(path);
    for (unsigned i = 0; device && i < p.n; i++)
        if (p.flash[i].device == device) {
            *out = p.flash[i];
            return true;
        }
    return false;
}

smol_status sm_profile_keep(const char *name, const struct sm_flash_profile *f, smol_error *err)
{
    char text[SM_PROFILE_BYTES_MAX];
    struct sm_profile p;
    (void)read_profile(name, &p); /* a bad file is replaced */
    unsigned n = 0;
    for (unsigned i = 0; i < p.n; i++)
        if (p.flash[i].device != f->device) p.flash[n++] = p.flash[i];
    const unsigned drop = n == SM_PROFILE_FLASHES;
    memmove(&p.flash[0], &p.flash[drop], (n - drop) * sizeof p.flash[0]);
    p.n = n - drop;
    p.flash[p.n++] = *f;
    const size_t bytes = sm_profile_print(&p, text, sizeof text);
    return sm_file_replace(name, text, bytes, err);
}
