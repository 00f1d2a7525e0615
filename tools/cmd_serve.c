/* SPDX-License-Identifier: MIT */
/* smol serve MODEL: the OpenAI-compatible server and the web page. The server itself is in
 * tools/serve; a build without libevent and jansson has neither it nor this command. */
#ifdef SMOL_HAVE_SERVER

#include "lib/command.h"
#include "lib/model_args.h"
#include "lib/progress.h"
#include "lib/sampling_args.h"
#include "lib/state_folder.h"
#include "serve/server.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

static const struct sm_options *options;

/* Called by the thread that opened the model. */
static void ready(const struct sm_serve_config *c, const smol_model *m)
{
    const char *open = strchr(c->host, ':') && c->host[0] != '[' ? "[" : "";
    sm_progress_clear();
    sm_model_notes(options, m);
    if (c->quiet) return;
    fprintf(stderr, "smol: serving %s at http://%s%s%s:%u/ (Ctrl-C ends)\n", c->model_name, open,
            c->host, *open ? "]" : "", c->port);
}

static bool written = true; /* --stats and --trace, by the thread that ends the server */

static void done(const smol_model *m) { written = sm_write_stats(options, m); }

/* "models/tiny-moe.gguf" is served as "tiny-moe". */
static void name_of(const char *path, char *out, size_t cap)
{
    const char *base = strrchr(path, '/');
    (void)snprintf(out, cap, "%s", base ? base + 1 : path);
    char *end = strrchr(out, '.');
    if (end && end != out) *end = '\0';
}

int sm_cmd_serve(const struct sm_options *o, int argc, char **argv)
{
    char name[128], states[4096];
    struct sm_serve_config c = {.model_path = argv[0],
                                .model_name = name,
                                .host = o->host ? o->host : "127.0.0.1",
                                .port = (uint16_t)o->port,
                                .key_file = o->api_key_file,
                                .cors = o->cors,
                                .queue_max = o->queue,
                                .quiet = o->quiet,
                                .flash_mb_s = o->flash_mb_s,
                                .ready = ready,
                                .done = done};
    (void)argc;
    options = o;
    (void)signal(SIGPIPE, SIG_IGN);
    name_of(argv[0], name, sizeof name);
    sm_trace_at_once();
    sm_model_params(o, &c.params);
    sm_model_learns(o, argv[0], &c.params);
    sm_sampling_args(o, &c.defaults.sampling);
    sm_state_folder(states, sizeof states);
    c.state_folder = states[0] ? states : NULL;
    c.defaults.model = name;
    c.defaults.max_tokens = o->n_predict;
    c.defaults.system = o->system;
    c.defaults.stop = o->stop;
    c.defaults.n_stop = o->n_stop;
    const int code = sm_serve_run(&c);
    return code == SM_EXIT_DONE && !written ? SM_EXIT_FAILED : code;
}

#endif
