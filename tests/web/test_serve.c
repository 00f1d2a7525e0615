/* SPDX-License-Identifier: MIT */
/* Parts of the server: the fair line, keys, the limit on parsed JSON, the word that it is ready. */
#include "lib/command.h"
#include "serve/jansson_memory.h"
#include "serve/keys.h"
#include "serve/queue.h"
#include "serve/request.h"
#include "serve/server.h"
#include "tap.h"
#include "temp.h"

#include <arpa/inet.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

/* "client" or "client/user" */
static void put(struct sm_queue_item *i, const char *who)
{
    const size_t n = strcspn(who, "/");
    *i = (struct sm_queue_item){0};
    (void)snprintf(i->client, sizeof i->client, "%.*s", (int)n, who);
    (void)snprintf(i->user, sizeof i->user, "%s", who[n] ? who + n + 1 : "");
}

static bool push(struct sm_queue *q, struct sm_queue_item *i, const char *client)
{
    struct sm_queue_item *out;
    put(i, client);
    return sm_queue_push(q, i, &out) && !out;
}

static void test_order(void)
{
    struct sm_queue q;
    struct sm_queue_item a[4], b[2], c;
    sm_queue_init(&q, 8);
    TAP_OK(!sm_queue_pop(&q), "nothing in an empty line");
    for (int i = 0; i < 4; i++) (void)push(&q, &a[i], "a");
    for (int i = 0; i < 2; i++) (void)push(&q, &b[i], "b");
    (void)push(&q, &c, "c");
    struct sm_queue_item *const want[] = {&a[0], &b[0], &c, &a[1], &b[1], &a[2], &a[3]};
    bool good = true;
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) good &= sm_queue_pop(&q) == want[i];
    TAP_OK(good && q.n == 0, "clients take turns, each one's requests in their order");
    (void)push(&q, &a[0], "a");
    (void)push(&q, &c, "new");
    TAP_OK(sm_queue_pop(&q) == &c, "who was never served goes first");
    TAP_OK(!sm_queue_remove(&q, &c) && sm_queue_remove(&q, &a[0]) && !sm_queue_pop(&q),
           "what left is not served");
}

static void test_full(void)
{
    struct sm_queue q;
    struct sm_queue_item a[3], b[3], *out;
    sm_queue_init(&q, 3);
    for (int i = 0; i < 3; i++) (void)push(&q, &a[i], "a");
    put(&b[0], "b");
    TAP_OK(sm_queue_push(&q, &b[0], &out) && out == &a[2], "the greedy one's newest makes room");
    put(&b[1], "b");
    TAP_OK(!sm_queue_push(&q, &b[1], &out) && !out, "but not to make another greedy");
    put(&a[2], "a");
    TAP_OK(!sm_queue_push(&q, &a[2], &out), "nor for itself");
    TAP_OK(q.n == 3 && sm_queue_pop(&q) == &a[0] && sm_queue_pop(&q) == &b[0], "the rest stays");
}

/* A client that names users: fair among them, and no more for the client than for another. */
static void test_users(void)
{
    struct sm_queue q;
    struct sm_queue_item a[6], b[2], *out;
    sm_queue_init(&q, 6);
    static const char *const who[] = {"a/1", "a/2", "a/3", "a/1"};
    for (int i = 0; i < 4; i++) (void)push(&q, &a[i], who[i]);
    (void)push(&q, &b[0], "b");
    (void)push(&q, &b[1], "b");
    struct sm_queue_item *const want[] = {&a[0], &b[0], &a[1], &b[1], &a[2], &a[3]};
    bool good = true;
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) good &= sm_queue_pop(&q) == want[i];
    TAP_OK(good, "clients take turns, and so do a client's users");
    for (int i = 0; i < 6; i++) {
        char name[8];
        (void)snprintf(name, sizeof name, "a/%d", i);
        (void)push(&q, &a[i], name);
    }
    put(&b[0], "b");
    TAP_OK(sm_queue_push(&q, &b[0], &out) && out == &a[5], "many users keep no other client out");
    TAP_OK(sm_queue_pop(&q) == &b[0], "nor does it wait for all of them");
    for (int i = 0; i < 5; i++) (void)sm_queue_pop(&q);
    for (int i = 0; i < 6; i++) (void)push(&q, &a[i], i < 4 ? "a/x" : "a/y");
    put(&b[0], "a/z");
    TAP_OK(sm_queue_push(&q, &b[0], &out) && out == &a[3], "a full line is shared among users too");
    put(&b[1], "a/x");
    TAP_OK(!sm_queue_push(&q, &b[1], &out), "the greedy user gets no more");
}

/* Many clients, more than the history remembers: everybody is served, none twice. */
static void test_many(void)
{
    struct sm_queue q;
    static struct sm_queue_item item[300];
    bool good = true;
    sm_queue_init(&q, 300);
    for (int i = 0; i < 300; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "client %d", i % 100);
        good &= push(&q, &item[i], name);
    }
    for (int i = 0; i < 300; i++) {
        struct sm_queue_item *next = sm_queue_pop(&q);
        good &= next && next->arrival != 0;
        if (next) next->arrival = 0;
    }
    TAP_OK(good && !sm_queue_pop(&q), "300 requests of 100 clients are served once each");
}

static bool keys_of(const char *text, struct sm_keys *k, smol_error *err)
{
    bool exposed;
    *err = (smol_error){0};
    return sm_keys_read(k, temp_write_text("keys", text), &exposed, err) == SMOL_OK;
}

static void test_keys(void)
{
    char text[SM_KEY_BYTES_MAX + 2];
    struct sm_keys k;
    smol_error err;
    TAP_OK(keys_of("# x\n one \n\ntwo\r\n", &k, &err) && k.n == 2, "two keys");
    TAP_OK(sm_keys_find(&k, "one") == 0 && sm_keys_find(&k, "two") == 1, "each is found");
    TAP_OK(sm_keys_find(&k, "on") < 0 && sm_keys_find(&k, "one ") < 0 && sm_keys_find(&k, "") < 0 &&
               sm_keys_find(&k, "onf") < 0 && sm_keys_find(&k, "# x") < 0,
           "nothing else is");
    sm_keys_free(&k);
    memset(text, 'k', sizeof text);
    text[SM_KEY_BYTES_MAX] = '\0';
    TAP_OK(keys_of(text, &k, &err) && sm_keys_find(&k, text) == 0, "the longest key");
    sm_keys_free(&k);
    text[SM_KEY_BYTES_MAX] = 'k';
    text[SM_KEY_BYTES_MAX + 1] = '\0';
    TAP_OK(!keys_of(text, &k, &err) && strstr(err.msg, "line 1"), "one longer: %s", err.msg);
    TAP_OK(!keys_of("caf\xc3\xa9\n", &k, &err), "a byte that no header carries: %s", err.msg);
    TAP_OK(!keys_of("#\n\n", &k, &err), "no key: %s", err.msg);
    bool exposed;
    err = (smol_error){0};
    TAP_OK(sm_keys_read(&k, temp_dir(), &exposed, &err) != SMOL_OK, "a folder is none: %s",
           err.msg);
}

/* A megabyte of "[],[],…" would become a tree of many. */
static void test_json_limit(void)
{
    enum { N = 100000 };
    struct sm_request_defaults d = {.model = "m", .n_vocab = 10};
    struct sm_request r;
    struct sm_refusal e;
    char *body = malloc(3 * N + 32);
    if (!body) return;
    size_t n = (size_t)snprintf(body, 32, "{\"messages\":[");
    for (int i = 0; i < N; i++, n += 3) memcpy(body + n, "[],", 3);
    memcpy(body + n, "[]]}", 4);
    TAP_OK(!sm_request_parse(&r, SM_REQUEST_CHAT, body, n + 4, &d, &e) && e.status == 413,
           "a tree over the limit is refused: %s", e.message);
    const char *small = "{\"prompt\":\"a\"}";
    bool good = true;
    for (int i = 0; i < 20000 && good; i++) {
        good = sm_request_parse(&r, SM_REQUEST_COMPLETION, small, strlen(small), &d, &e);
        if (good) sm_request_free(&r);
    }
    TAP_OK(good, "what is freed counts no more");
    free(body);
}

static char first_answer[200];

/* Whoever is told that the server is ready may ask at once. */
static void ask_health(const struct sm_serve_config *c, const smol_model *m)
{
    static const char ask[] = "GET /health HTTP/1.0\r\n\r\n";
    const struct sockaddr_in to = {.sin_family = AF_INET,
                                   .sin_port = htons(c->port),
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    (void)m;
    if (fd >= 0 && !connect(fd, (const struct sockaddr *)(const void *)&to, sizeof to) &&
        write(fd, ask, sizeof ask - 1) > 0) {
        size_t n = 0;
        ssize_t k;
        while ((k = read(fd, first_answer + n, sizeof first_answer - 1 - n)) > 0) n += (size_t)k;
    }
    if (fd >= 0) (void)close(fd);
    (void)kill(getpid(), SIGTERM);
}

static void test_ready(void)
{
    struct sm_serve_config c = {.model_path = "models/tiny-moe.gguf",
                                .model_name = "tiny-moe",
                                .host = "127.0.0.1",
                                .queue_max = 4,
                                .quiet = true,
                                .ready = ask_health};
    smol_params_default(&c.params);
    smol_sampling_default(&c.defaults.sampling);
    TAP_IS_INT(sm_serve_run(&c), 0, "a server that a signal ends");
    TAP_OK(!strncmp(first_answer, "HTTP/1.0 200 ", 13), "ready means ready: %.15s", first_answer);
}

int main(int argc, char **argv)
{
    tap_init(argc, argv);
    sm_jansson_limit((size_t)1 << 20);
    test_order();
    test_full();
    test_users();
    test_many();
    test_keys();
    test_json_limit();
    test_ready();
    return tap_done();
}
