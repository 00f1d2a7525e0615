/* SPDX-License-Identifier: MIT */
/* The memory probe on made-up systems: every file below a root of our own. */
#include "tap.h"

#include "plat/memory_files.h"
#include "temp.h"

#include <stdlib.h>
#include <string.h>

#define MIB ((uint64_t)1 << 20)
#define NO_LIMIT UINT64_MAX

static char root[500];
static unsigned n_root;

static void fresh_root(void)
{
    (void)snprintf(root, sizeof root, "%s/root%u", temp_dir(), ++n_root);
}

static void put(const char *path, const char *text)
{
    char name[700];
    (void)snprintf(name, sizeof name, "root%u/%s", n_root, path);
    (void)temp_write_text(name, text);
}

static void check(const char *name, uint64_t total, uint64_t available, uint64_t limit)
{
    struct sm_memory m;
    memset(&m, 0xee, sizeof m);
    sm_memory_probe_at(root, &m);
    const bool good =
        m.total_bytes == total && m.available_bytes == available && m.limit_bytes == limit;
    TAP_OK(good, "%s", name);
    if (!good)
        printf("#   total %llu available %llu limit %llu, expected %llu %llu %llu\n",
               (unsigned long long)m.total_bytes, (unsigned long long)m.available_bytes,
               (unsigned long long)m.limit_bytes, (unsigned long long)total,
               (unsigned long long)available, (unsigned long long)limit);
}

static void check_margin(const char *name, int64_t margin)
{
    struct sm_memory m;
    sm_memory_probe_at(root, &m);
    TAP_IS_INT(m.margin_bytes, margin, name);
}

#define MEMINFO                                                                                    \
    "MemTotal:        2048000 kB\nMemFree:  100000 kB\nMemAvailable:    1024000 kB\n"              \
    "Buffers: 2000 kB\nCached:  400000 kB\nSwapCached: 5 kB\n"
#define KIB ((uint64_t)1 << 10)

static void plain_machine(void)
{
    fresh_root();
    put("proc/meminfo", MEMINFO);
    put("proc/self/status", "Name:\tsmol\nVmHWM:\t    3000 kB\nVmRSS:\t    2000 kB\n"
                            "RssAnon:\t 1000 kB\nRssFile:\t    24000 kB\nRssShmem:\t 0 kB\n");
}

static void test_meminfo(void)
{
    plain_machine();
    check("meminfo less our own file pages", 2048000 * KIB, 1000000 * KIB, NO_LIMIT);
    struct sm_memory m;
    sm_memory_probe_at(root, &m);
    TAP_OK(m.rss_bytes == 2000 * KIB && m.peak_rss_bytes == 3000 * KIB, "rss and its peak");
    fresh_root();
    check("no file at all", 0, 0, NO_LIMIT);
    put("proc/meminfo", "MemTotal: 1000 kB\nMemFree: 100 kB\nCached: 40 kB\nBuffers: 20 kB\n");
    check("before MemAvailable existed", 1000 * KIB, 130 * KIB, NO_LIMIT);
    put("proc/meminfo",
        "MemTotal: 99999999999999999999999999 kB\nMemAvailable: x kB\n\n\n:\nMemFr");
    check("nonsense", UINT64_MAX - 1, 0, NO_LIMIT);
    put("proc/meminfo", "MemTotal: 1000 kB\nMemAvailable: 10 kB\n");
    put("proc/self/status", "RssFile: 20 kB\n");
    check("never below zero", 1000 * KIB, 0, NO_LIMIT);
}

static void test_v2(void)
{
    plain_machine();
    put("proc/self/cgroup", "0::/user.slice/a b.scope\n");
    put("proc/self/mountinfo", "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n"
                               "30 22 0:26 / /sys/fs/cg\\040roup rw,nosuid shared:4 master:1 - "
                               "cgroup2 cgroup2 rw,nsdel\n");
#define CG "sys/fs/cg roup/user.slice/"
    put(CG "a b.scope/memory.max", "max\n");
    put(CG "a b.scope/memory.current", "900000000\n");
    check("no limit anywhere", 2048000 * KIB, 1000000 * KIB, NO_LIMIT);
    put(CG "memory.max", "536870912\n");
    put(CG "memory.current", "104857600\n");
    check("an ancestor's limit", 2048000 * KIB, 412 * MIB, 512 * MIB);
    put(CG "memory.stat",
        "anon 1\nfile 99\ninactive_anon 7\ninactive_file 52428800\nactive_file 3\n");
    check("inactive page cache is room", 2048000 * KIB, 462 * MIB, 512 * MIB);
    check_margin("active page cache goes before anybody is killed", (int64_t)(462 * MIB) + 3);
    put(CG "a b.scope/memory.max", "268435456\n");
    put(CG "a b.scope/memory.current", "251658240\n");
    check("the smallest room counts", 2048000 * KIB, 16 * MIB, 256 * MIB);
    put(CG "a b.scope/memory.high", "260046848\n");
    check("memory.high is a limit", 2048000 * KIB, 8 * MIB, 248 * MIB);
    put(CG "a b.scope/memory.current", "1000000000\n");
    check("over the limit: nothing", 2048000 * KIB, 0, 248 * MIB);
    check_margin("and how far over", 260046848 - 1000000000);
#undef CG
}

static void test_v2_container(void)
{
    plain_machine();
    put("proc/self/cgroup", "0::/docker/abc/inner\n");
    put("proc/self/mountinfo",
        "30 22 0:26 /docker/abc /sys/fs/cgroup ro,nosuid - cgroup2 cgroup rw\n");
    put("sys/fs/cgroup/memory.max", "209715200\n");
    put("sys/fs/cgroup/memory.current", "104857600\n");
    put("sys/fs/cgroup/inner/memory.max", "157286400\n");
    put("sys/fs/cgroup/inner/memory.current", "10485760\n");
    check("a mount that shows a group below the top", 2048000 * KIB, 100 * MIB, 150 * MIB);
    put("proc/self/cgroup", "0::/../../other\n");
    check("a path outside of the mount: its top", 2048000 * KIB, 100 * MIB, 200 * MIB);
    put("proc/self/cgroup", "0::/docker/abcdef\n");
    check("a name that only begins alike", 2048000 * KIB, 100 * MIB, 200 * MIB);
    put("proc/self/cgroup", "0::/docker/abc\n");
    check("the group that is mounted", 2048000 * KIB, 100 * MIB, 200 * MIB);
}

static void test_v1(void)
{
    plain_machine();
    put("proc/self/cgroup", "9:name=systemd:/\n4:cpu,memory,blkio:/box/run\n3:cpuset:/\n0::/\n");
    put("proc/self/mountinfo",
        "28 22 0:24 / /cg/cpuset rw - cgroup cgroup rw,cpuset\n"
        "29 22 0:25 / /cg/memory rw shared:9 - cgroup cgroup rw,blkio,memory\n"
        "30 22 0:26 / /cg/unified rw - cgroup2 cgroup2 rw\n");
    put("cg/memory/box/run/memory.limit_in_bytes", "9223372036854771712\n");
    check("v1 without a limit", 2048000 * KIB, 1000000 * KIB, NO_LIMIT);
    put("cg/memory/box/memory.limit_in_bytes", "314572800\n");
    put("cg/memory/box/memory.usage_in_bytes", "209715200\n");
    put("cg/memory/box/memory.stat",
        "inactive_file 1\ntotal_cache 1\ntotal_inactive_file 104857600\n");
    check("v1, limit of the parent", 2048000 * KIB, 200 * MIB, 300 * MIB);
    check_margin("v1, a margin without active page cache", (int64_t)(200 * MIB));
    put("cg/memory/box/run/memory.limit_in_bytes", "104857600\n");
    put("cg/memory/box/run/memory.usage_in_bytes", "1048576\n");
    check("v1, own limit", 2048000 * KIB, 99 * MIB, 100 * MIB);
    put("cg/unified/memory.max", "52428800\n");
    check("v2 beside it", 2048000 * KIB, 50 * MIB, 50 * MIB);
}

/* Lines longer than any buffer, no newline at the end, NUL bytes, words missing. */
static void test_hostile(void)
{
    char *big = malloc(300001);
    if (!big) return;
    memset(big, 'a', 300000);
    big[300000] = 0;
    memcpy(big, "0::/", 4);
    plain_machine();
    put("proc/self/cgroup", big);
    put("proc/self/mountinfo", big);
    check("endless lines", 2048000 * KIB, 1000000 * KIB, NO_LIMIT);
    static const char *const lines[] = {
        "\n",
        "-\n",
        "1 2 3\n",
        "1 2 3 4 5\n",
        "1 2 3 4 5 -\n",
        "1 2 3 4 5 - cgroup2\n",
        "1 2 3 4 5 6 - cgroup2 x",
        "1 2 3 / /x\\0 6 - cgroup2 x y",
        "1 2 3 / \\777 - cgroup2 x y\n",
        "     ",
        "1 2 3 / /\\134\\ - cgroup2 c c",
    };
    bool good = true;
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        struct sm_memory m;
        put("proc/self/cgroup", i % 2 ? "0::/a/b/c\n" : "0::/");
        put("proc/self/mountinfo", lines[i]);
        sm_memory_probe_at(root, &m);
        good = good && m.available_bytes == 1000000 * KIB;
    }
    TAP_OK(good, "broken mountinfo lines say nothing");
    static const char *const groups[] = {
        "", "0", "0:", "0::", "0::x", "::/", "0:memory:/", ":::::/"};
    for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++) {
        struct sm_memory m;
        put("proc/self/cgroup", groups[i]);
        sm_memory_probe_at(root, &m);
        good = good && m.available_bytes == 1000000 * KIB;
    }
    TAP_OK(good, "broken cgroup lines say nothing");
    free(big);
}

/* Files that stay open tell what changed. */
static void test_often(void)
{
    struct sm_memory_files f;
    struct sm_memory m, once;
    fresh_root();
    put("proc/meminfo", MEMINFO);
    put("proc/self/statm", "9000 500 100 20 0 300 0\n");
    put("proc/self/cgroup", "0::/box\n");
    put("proc/self/mountinfo", "30 22 0:26 / /cg rw - cgroup2 cgroup2 rw\n");
    put("cg/box/memory.max", "104857600\n");
    put("cg/box/memory.current", "52428800\n");
    put("cg/box/memory.stat", "anon 5\ninactive_file 1048576\nactive_file 2097152\n");
    sm_memory_files_open(&f, root, true);
    sm_memory_files_look(&f, &m);
    TAP_OK(f.n_groups == 2 && m.limit_bytes == 100 * MIB && m.margin_bytes == (int64_t)(53 * MIB) &&
               m.rss_bytes == 500 * sm_page_bytes() && m.peak_rss_bytes == 0,
           "at first: limit %llu, margin %lld, rss %llu", (unsigned long long)m.limit_bytes,
           (long long)m.margin_bytes, (unsigned long long)m.rss_bytes);
    put("cg/box/memory.current", "94371840\n");
    put("proc/self/statm", "9000 700 100 20 0 300 0\n");
    put("cg/box/memory.high", "98566144\n"); /* was not there when the files were opened */
    sm_memory_files_look(&f, &m);
    TAP_OK(m.limit_bytes == 100 * MIB && m.margin_bytes == (int64_t)(13 * MIB) &&
               m.rss_bytes == 700 * sm_page_bytes(),
           "then: margin %lld, rss %llu", (long long)m.margin_bytes,
           (unsigned long long)m.rss_bytes);
    put("proc/meminfo", "MemAvailable: 1024000 kB\n");
    sm_memory_files_look(&f, &m);
    TAP_OK(m.limit_bytes == 100 * MIB && m.margin_bytes == (int64_t)(13 * MIB),
           "a group has its limit also when the machine's memory is not known");
    sm_memory_files_close(&f);
    put("proc/self/statm", "9000\n");
    sm_memory_files_open(&f, root, true);
    sm_memory_files_look(&f, &m);
    TAP_OK(m.rss_bytes == 0 && m.limit_bytes == 94 * MIB, "a short statm says nothing");
    sm_memory_files_close(&f);
    sm_memory_files_look(&f, &m);
    TAP_OK(m.total_bytes == 0 && m.rss_bytes == 0, "closed files say nothing");

    struct sm_memory_watch *w = sm_memory_watch_new();
    sm_memory_watch_look(w, &m);
    sm_memory_probe(&once);
    TAP_OK(m.total_bytes == once.total_bytes && m.limit_bytes == once.limit_bytes &&
               m.rss_bytes + 2 * MIB > once.rss_bytes && m.rss_bytes < once.rss_bytes + 2 * MIB,
           "the real system: rss %llu, %llu", (unsigned long long)m.rss_bytes,
           (unsigned long long)once.rss_bytes);
    sm_memory_watch_free(w);
    sm_memory_watch_free(NULL);
}

static void test_real(void)
{
    struct sm_memory m;
    void *p = NULL;
    smol_error err = {0};
    sm_memory_probe(&m);
    const uint64_t before = m.rss_bytes;
    printf("# here: total %llu MiB, available %llu MiB, rss %llu KiB\n",
           (unsigned long long)(m.total_bytes / MIB), (unsigned long long)(m.available_bytes / MIB),
           (unsigned long long)(m.rss_bytes / KIB));
    TAP_OK(m.total_bytes > 16 * MIB && m.available_bytes > 0 && m.available_bytes < m.total_bytes &&
               m.rss_bytes > 100 * KIB && m.peak_rss_bytes >= m.rss_bytes,
           "the real system");
    TAP_IS_INT(sm_pages_new(&p, 20 * MIB + 1, &err), SMOL_OK, "20 MiB of pages");
    sm_memory_probe(&m);
    TAP_OK((uintptr_t)p % sm_page_bytes() == 0, "page-aligned");
    TAP_OK(m.rss_bytes >= before + 19 * MIB, "touched: rss went from %llu to %llu",
           (unsigned long long)before, (unsigned long long)m.rss_bytes);
    sm_pages_free(p, 20 * MIB + 1);
    sm_memory_probe(&m);
    TAP_OK(m.rss_bytes < before + 10 * MIB && m.peak_rss_bytes >= before + 19 * MIB, "given back");
    TAP_IS_INT(sm_pages_reserve(&p, 20 * MIB, &err), SMOL_OK, "20 MiB reserved");
    sm_memory_probe(&m);
    const uint64_t reserved = m.rss_bytes;
    sm_pages_touch((char *)p + 5 * MIB + 1, 10 * MIB); /* with huge pages more than that */
    sm_memory_probe(&m);
    TAP_OK(reserved < before + 10 * MIB && m.rss_bytes >= reserved + 9 * MIB &&
               m.rss_bytes < reserved + 15 * MIB,
           "then touched from an odd place: rss %llu, %llu", (unsigned long long)reserved,
           (unsigned long long)m.rss_bytes);
    ((char *)p)[5 * MIB] = 1;
    sm_pages_touch((char *)p + 5 * MIB + 1, 1);
    TAP_OK(((char *)p)[5 * MIB] == 1 && ((char *)p)[5 * MIB + 1] == 0, "nothing before it");
    sm_pages_free(p, 20 * MIB);
    TAP_IS_INT(sm_pages_new(&p, (size_t)1 << 46, &err), SMOL_NOMEM, "64 TiB");
    TAP_OK(!p && strstr(err.msg, "70368744177664"), "%s", err.msg);
    TAP_IS_INT(sm_pages_new(&p, 0, NULL), SMOL_NOMEM, "0 bytes");
    TAP_IS_INT(sm_pages_new(&p, SIZE_MAX, NULL), SMOL_NOMEM, "everything");
    sm_pages_free(NULL, 4096);
}

int main(int argc, char **argv)
{
    tap_init(argc, argv);
    test_meminfo();
    test_v2();
    test_v2_container();
    test_v1();
    test_hostile();
    test_often();
    test_real();
    TAP_OK(!sm_file_system_hint("/no/such/path"), "no hint for a missing path");
    const char *proc = sm_file_system_hint("/dev/shm");
    if (proc) TAP_IS_STR(proc, "tmpfs", "/dev/shm");
    return tap_done();
}
