/* SPDX-License-Identifier: MIT */
/* Available memory from /proc/meminfo, /proc/self/status and the cgroup, v1 and v2. Every file may
 * be missing, unreadable, longer than expected or of another shape; then it says nothing. */
#include "plat/memory_files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define PATH_BYTES 1024
#define NONE UINT64_MAX

/* ---- lines of small text files -------------------------------------------------------------- */

struct lines {
    int fd;
    off_t from;
    size_t at, end;
    char buf[4096];
};

/* -1: cannot be opened */
static int open_file(const char *root, const char *path, const char *leaf)
{
    char full[PATH_BYTES];
    const int n = snprintf(full, sizeof full, "%s%s%s%s", root, path, leaf[0] ? "/" : "", leaf);
    return n < 0 || (size_t)n >= sizeof full ? -1 : open(full, O_RDONLY | O_CLOEXEC);
}

static void close_file(int fd)
{
    if (fd >= 0) (void)close(fd);
}

/* From the beginning of a file, which stays open; false: it is not. */
static bool lines_start(struct lines *l, int fd)
{
    l->fd = fd;
    l->from = 0;
    l->at = l->end = 0;
    return fd >= 0;
}

static int next_char(struct lines *l)
{
    if (l->at == l->end) {
        ssize_t got = -1;
        do got = pread(l->fd, l->buf, sizeof l->buf, l->from);
        while (got < 0 && errno == EINTR);
        if (got <= 0) return -1;
        l->from += got;
        l->at = 0;
        l->end = (size_t)got;
    }
    return (unsigned char)l->buf[l->at++];
}

/* The next line without its end; of a longer one only what fits. False at the end. */
static bool lines_next(struct lines *l, char *line, size_t n)
{
    size_t used = 0;
    int c = next_char(l);
    if (c < 0) return false;
    for (; c >= 0 && c != '\n'; c = next_char(l))
        if (used + 1 < n && c != 0) line[used++] = (char)c;
    line[used] = 0;
    return true;
}

/* Decimal digits at s; NONE when there are none, saturating. */
static uint64_t number(const char *s)
{
    uint64_t v = 0;
    if (*s < '0' || *s > '9') return NONE;
    for (; *s >= '0' && *s <= '9'; s++)
        if (__builtin_mul_overflow(v, 10u, &v) ||
            __builtin_add_overflow(v, (unsigned)(*s - '0'), &v))
            return NONE - 1;
    return v;
}

/* The number behind "key<blanks>" when the line begins with that key, else NONE. */
static uint64_t value_of(const char *line, const char *key)
{
    const size_t n = strlen(key);
    if (strncmp(line, key, n)) return NONE;
    line += n;
    if (*line != ' ' && *line != '\t') return NONE;
    while (*line == ' ' || *line == '\t') line++;
    return number(line);
}

static uint64_t kb(uint64_t v)
{
    if (v == NONE) return NONE;
    return v > NONE >> 11 ? NONE - 1 : v << 10;
}

static uint64_t one_number(int fd)
{
    struct lines l;
    char line[64];
    if (!lines_start(&l, fd) || !lines_next(&l, line, sizeof line)) return NONE;
    return number(line); /* "max" is no number: no limit */
}

static uint64_t minimum(uint64_t a, uint64_t b) { return a < b ? a : b; }
static uint64_t less(uint64_t a, uint64_t b) { return a > b ? a - b : 0; }
static uint64_t or_zero(uint64_t v) { return v == NONE ? 0 : v; }

/* ---- one control group ---------------------------------------------------------------------- */

struct group_files {
    const char *limit, *soft_limit, *usage, *inactive, *active;
};
static const struct group_files v1 = {"memory.limit_in_bytes", NULL, "memory.usage_in_bytes",
                                      "total_inactive_file", "total_active_file"};
static const struct group_files v2 = {"memory.max", "memory.high", "memory.current",
                                      "inactive_file", "active_file"};

/* What the groups leave: the smallest of each. */
struct room { uint64_t limit, bytes; int64_t margin; };

static int64_t difference(uint64_t a, uint64_t b)
{
    const uint64_t d = a > b ? a - b : b - a, most = INT64_MAX;
    return (a > b ? 1 : -1) * (int64_t)(d < most ? d : most);
}

static void open_group(struct sm_memory_group *g, const char *root, const char *dir, bool is_v2)
{
    const struct group_files *names = is_v2 ? &v2 : &v1;
    g->is_v2 = is_v2;
    g->limit = open_file(root, dir, names->limit);
    g->soft_limit = names->soft_limit ? open_file(root, dir, names->soft_limit) : -1;
    g->usage = open_file(root, dir, names->usage);
    g->stat = open_file(root, dir, "memory.stat");
}

static void close_group(const struct sm_memory_group *g)
{
    close_file(g->limit);
    close_file(g->soft_limit);
    close_file(g->usage);
    close_file(g->stat);
}

/* Lowers *room by that of a group. Page cache on the inactive list is given back before anything
 * else, so it counts as room. */
static void take_group(const struct sm_memory_group *g, uint64_t machine, struct room *room)
{
    const struct group_files *names = g->is_v2 ? &v2 : &v1;
    const uint64_t max = minimum(one_number(g->limit), one_number(g->soft_limit));
    if (max == NONE || max >= machine) return; /* v1 writes "no limit" as a huge number */
    room->limit = minimum(room->limit, max);

    struct lines l;
    char line[128];
    uint64_t inactive = NONE, active = NONE;
    for (bool any = lines_start(&l, g->stat); any && lines_next(&l, line, sizeof line);) {
        if (inactive == NONE) inactive = value_of(line, names->inactive);
        if (active == NONE) active = value_of(line, names->active);
    }
    const uint64_t usage = less(or_zero(one_number(g->usage)), or_zero(inactive));
    const int64_t margin = difference(max, less(usage, or_zero(active)));
    room->bytes = minimum(room->bytes, less(max, usage));
    if (margin < room->margin) room->margin = margin;
}

/* ---- which groups we are in ----------------------------------------------------------------- */

/* True when `word` is one of the comma-separated words of `list` (n bytes). */
static bool has_word(const char *list, size_t n, const char *word)
{
    const size_t len = strlen(word);
    for (size_t at = 0; at < n;) {
        const char *comma = memchr(list + at, ',', n - at);
        const size_t end = comma ? (size_t)(comma - list) : n;
        if (end - at == len && !memcmp(list + at, word, len)) return true;
        at = end + 1;
    }
    return false;
}

/* Our path in the hierarchy of the memory controller, from /proc/self/cgroup: lines are
 * "number:controllers:path", v2 has number 0 and no controllers. */
static bool group_path(const char *root, bool want_v2, char path[PATH_BYTES])
{
    struct lines l;
    char line[PATH_BYTES + 64];
    bool found = false;
    const int fd = open_file(root, "/proc/self/cgroup", "");
    for (bool any = lines_start(&l, fd); any && lines_next(&l, line, sizeof line);) {
        const char *list = strchr(line, ':');
        const char *at = list ? strchr(list + 1, ':') : NULL;
        if (found || !at || at[1] != '/' || strlen(at + 1) >= PATH_BYTES) continue;
        const size_t n = (size_t)(at - (list + 1));
        const bool is_v2 = n == 0 && line[0] == '0' && list == line + 1;
        if (want_v2 ? !is_v2 : !has_word(list + 1, n, "memory")) continue;
        memcpy(path, at + 1, strlen(at + 1) + 1);
        found = true;
    }
    close_file(fd);
    return found;
}

/* mountinfo writes blank, tab, newline and backslash as three octal digits. In place. */
static void unescape(char *s)
{
    char *to = s;
    for (; *s; s++, to++) {
        if (s[0] == '\\' && s[1] >= '0' && s[1] <= '3' && s[2] >= '0' && s[2] <= '7' &&
            s[3] >= '0' && s[3] <= '7') {
            *to = (char)((s[1] - '0') << 6 | (s[2] - '0') << 3 | (s[3] - '0'));
            s += 3;
        } else {
            *to = *s;
        }
    }
    *to = 0;
}

/* Cuts the next blank-separated word off *at; NULL at the end. */
static char *word(char **at)
{
    char *w = *at + strspn(*at, " ");
    if (!*w) return NULL;
    char *end = w + strcspn(w, " ");
    if (*end) *end++ = 0;
    *at = end;
    return w;
}

/* Where the hierarchy is mounted and which group is shown there, from mountinfo: "id parent dev
 * root point options [optional ...] - type source super-options". */
static bool group_mount(const char *root, bool want_v2, char top[PATH_BYTES],
                        char point[PATH_BYTES])
{
    struct lines l;
    char line[2 * PATH_BYTES];
    bool found = false;
    const int fd = open_file(root, "/proc/self/mountinfo", "");
    for (bool any = lines_start(&l, fd); any && lines_next(&l, line, sizeof line);) {
        char *at = line, *w = NULL, *shown = NULL, *where = NULL;
        if (found) continue;
        for (unsigned i = 0; i < 5 && (i == 0 || w); i++) {
            w = word(&at);
            if (i == 3) shown = w;
            if (i == 4) where = w;
        }
        while (w && strcmp(w, "-")) w = word(&at);
        const char *type = w ? word(&at) : NULL, *source = type ? word(&at) : NULL;
        const char *super = source ? word(&at) : NULL;
        if (!super || !shown || !where) continue;
        if (strcmp(type, want_v2 ? "cgroup2" : "cgroup")) continue;
        if (!want_v2 && !has_word(super, strlen(super), "memory")) continue;
        unescape(shown);
        unescape(where);
        if (strlen(shown) >= PATH_BYTES || strlen(where) >= PATH_BYTES) continue;
        memcpy(top, shown, strlen(shown) + 1);
        memcpy(point, where, strlen(where) + 1);
        found = true;
    }
    close_file(fd);
    return found;
}

/* All groups from ours up to the top that is mounted here. */
static void open_hierarchy(struct sm_memory_files *f, const char *root, bool want_v2)
{
    char path[PATH_BYTES], top[PATH_BYTES], point[PATH_BYTES], dir[2 * PATH_BYTES];
    if (!group_path(root, want_v2, path) || !group_mount(root, want_v2, top, point)) return;
    /* In a container without a namespace of its own the mount shows a group below the real top. */
    const size_t n_top = strcmp(top, "/") ? strlen(top) : 0;
    const char *below = path;
    if (strncmp(path, top, n_top) == 0 && (path[n_top] == '/' || path[n_top] == 0))
        below = path + n_top;
    else below = ""; /* "/../..": outside of what is mounted */
    if (strstr(below, "/..")) below = "";
    const int n = snprintf(dir, sizeof dir, "%s%s", point, below);
    if (n < 0 || (size_t)n >= sizeof dir) return;
    const size_t n_point = strlen(point);
    for (size_t end = (size_t)n; end >= n_point && f->n_groups < SM_MEMORY_GROUPS_MAX;) {
        while (end > n_point && dir[end - 1] == '/') end--;
        dir[end] = 0;
        open_group(&f->group[f->n_groups++], root, dir, want_v2);
        if (end <= n_point) break;
        while (end > n_point && dir[end - 1] != '/') end--;
    }
}

/* ---- the probe ------------------------------------------------------------------------------ */

struct meminfo {
    uint64_t total, available, free, cached, buffers;
};

static struct meminfo read_meminfo(int fd)
{
    struct meminfo m = {NONE, NONE, NONE, NONE, NONE};
    const struct {
        const char *key;
        uint64_t *to;
    } keys[] = {
        {"MemTotal:", &m.total}, {"MemAvailable:", &m.available}, {"MemFree:", &m.free},
        {"Cached:", &m.cached},  {"Buffers:", &m.buffers},
    };
    struct lines l;
    char line[128];
    for (bool any = lines_start(&l, fd); any && lines_next(&l, line, sizeof line);)
        for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
            if (*keys[i].to == NONE) *keys[i].to = kb(value_of(line, keys[i].key));
    return m;
}

struct self {
    uint64_t rss, peak, rss_file;
};

/* Bytes of a word that counts pages. */
static uint64_t page_bytes(const char *w)
{
    const uint64_t n = w ? number(w) : NONE, page = sm_page_bytes();
    return n > NONE / page ? NONE : n * page;
}

/* From /proc/self/statm, pages: size, resident, of it shared (files and shared memory); a quarter
 * of the other's time. */
static struct self read_statm(int fd)
{
    struct self v = {NONE, NONE, NONE};
    struct lines l;
    char line[128], *at = line;
    if (!lines_start(&l, fd) || !lines_next(&l, line, sizeof line)) return v;
    const char *size = word(&at), *resident = size ? word(&at) : NULL;
    v.rss = page_bytes(resident);
    v.rss_file = page_bytes(resident ? word(&at) : NULL);
    return v;
}

static struct self read_status(int fd)
{
    struct self v = {NONE, NONE, NONE};
    struct lines l;
    char line[128];
    for (bool any = lines_start(&l, fd); any && lines_next(&l, line, sizeof line);) {
        if (v.rss == NONE) v.rss = kb(value_of(line, "VmRSS:"));
        if (v.peak == NONE) v.peak = kb(value_of(line, "VmHWM:"));
        if (v.rss_file == NONE) v.rss_file = kb(value_of(line, "RssFile:"));
    }
    return v;
}

void sm_memory_files_open(struct sm_memory_files *f, const char *root, bool often)
{
    f->often = often;
    f->meminfo = open_file(root, "/proc/meminfo", "");
    f->self = open_file(root, often ? "/proc/self/statm" : "/proc/self/status", "");
    f->n_groups = 0;
    open_hierarchy(f, root, false);
    open_hierarchy(f, root, true);
}

void sm_memory_files_close(struct sm_memory_files *f)
{
    close_file(f->meminfo);
    close_file(f->self);
    for (unsigned i = 0; i < f->n_groups; i++) close_group(&f->group[i]);
    f->n_groups = 0;
    f->meminfo = f->self = -1;
}

void sm_memory_files_look(const struct sm_memory_files *f, struct sm_memory *out)
{
    const struct meminfo m = read_meminfo(f->meminfo);
    const struct self self = f->often ? read_statm(f->self) : read_status(f->self);
    struct room room = {.limit = NONE, .bytes = NONE, .margin = INT64_MAX};
    uint64_t available = m.available;
    if (available == NONE) /* kernels before 3.14 */
        available = or_zero(m.free) + or_zero(m.cached) / 2 + or_zero(m.buffers) / 2;
    available = less(available, or_zero(self.rss_file)); /* counted as free, but we need them */
    for (unsigned i = 0; i < f->n_groups; i++) take_group(&f->group[i], m.total, &room);

    out->total_bytes = or_zero(m.total);
    out->available_bytes = minimum(available, room.bytes);
    out->margin_bytes = difference(available, 0);
    if (room.margin < out->margin_bytes) out->margin_bytes = room.margin;
    out->limit_bytes = room.limit;
    out->rss_bytes = or_zero(self.rss);
    out->peak_rss_bytes = or_zero(self.peak);
}

void sm_memory_probe_at(const char *root, struct sm_memory *out)
{
    struct sm_memory_files f;
    sm_memory_files_open(&f, root, false);
    sm_memory_files_look(&f, out);
    sm_memory_files_close(&f);
}
