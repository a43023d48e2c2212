/* SPDX-License-Identifier: Apache-2.0
 *
 * `lamina run`, `lamina live`, `lamina export`, and `lamina show` of a recording. */
#include "base/system.h"
#include "cmd/cmd.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LIVE_STEPS = 20, LIVE_ROWS = 15, REFRESH_MS = 1000, FULL_PATH = 4096 };

/* -- reading ----------------------------------------------------------------------------------- */

typedef struct recordings {
    lam_recording **at;
    int32_t n;
} recordings;

static void close_all(recordings *r) {
    for (int32_t i = 0; i < r->n; i++) lam_recording_free(r->at[i]);
    free(r->at);
    *r = (recordings){NULL, 0};
}

/* Opens every named file, `last` steps of each; none if one can't be read. */
static lam_status open_all(const lmi_cli *c, int32_t last, recordings *r, lam_error *e) {
    *r = (recordings){calloc((size_t)c->args.n_operands, sizeof *r->at), 0};
    lam_status s = r->at ? LAM_OK : LAM_NOMEM;
    if (!r->at) lmi_fail(e, s, NULL, "memory ran out");
    for (int32_t i = 0; s == LAM_OK && i < c->args.n_operands; i++) {
        s = lam_recording_open(&r->at[i], c->args.operands[i], c->args.run, last, e);
        if (s == LAM_OK) r->n++;
    }
    if (s != LAM_OK) close_all(r);
    return s;
}

static lam_status keep(recordings *r, lam_recording *one, lam_error *e) {
    lam_recording **more = realloc(r->at, ((size_t)r->n + 1) * sizeof *more);
    if (!more) {
        lam_recording_free(one);
        return lmi_fail(e, LAM_NOMEM, NULL, "memory ran out");
    }
    r->at = more;
    more[r->n++] = one;
    return LAM_OK;
}

/* Opens the earlier starts of the jobs of several recordings. */
static lam_status open_earlier(recordings *r, lam_error *e) {
    const int32_t n = r->n;
    for (int32_t i = 0; n > 1 && i < n; i++) {
        lam_recording *one = r->at[i];
        while (one) {
            LAM_TRY(lam_recording_open_before(&one, one, e));
            if (one) LAM_TRY(keep(r, one, e));
        }
    }
    return LAM_OK;
}

/* Opens every named file and, unless a run is named, the earlier starts of the job; none if one can't be
 * read. */
static lam_status open_job(const lmi_cli *c, recordings *r, lam_error *e) {
    lam_status s = open_all(c, 0, r, e);
    if (s != LAM_OK || c->args.run) return s;
    s = open_earlier(r, e);
    if (s != LAM_OK) close_all(r);
    return s;
}

static lam_recording_options options(const lmi_cli *c) {
    const lmi_args *a = &c->args;
    return (lam_recording_options){
        .format = a->format,
        .width = lmi_table_width(c, c->host->width),
        .rows = a->rows > 0 ? a->rows : 0,
        .depth = a->depth,
        .ascii = lmi_table_ascii(c),
        .now_unix_ns = lmi_unix_now(),
    };
}

static lam_status write_all(const recordings *r, const lam_recording_options *o, lam_sink to, lam_error *e) {
    return lam_recording_write((const lam_recording *const *)r->at, r->n, o, to, e);
}

static lam_status write_page(const lmi_cli *c, const recordings *r, lam_error *e) {
    return lam_recording_page((const lam_recording *const *)r->at, r->n, c->out, e);
}

bool lmi_file_takes(lmi_cli *c, const char *operand) {
    if (!lmi_option_of(&c->args, LMI_OF_A_RUN)) return true; /* the file is not read */
    const bool file = lmi_is_file(c, operand);
    const char *format = file ? lmi_format(c, operand) : NULL;
    lmi_args given = c->args;
    if (file) given.live.health = false; /* its weights are checked */
    /* a graph that was not run has the sizes that its inputs are given */
    if (format && strcmp(format, "ONNX") == 0) given.live.inputs[0] = NULL;
    const char *option = file || lmi_is_saved(operand) ? lmi_option_of(&given, LMI_OF_A_RUN) : NULL;
    if (option && file)
        lmi_complain(c, "nothing of a file is run", "--%s is for a model that is run, and %s is a file",
                     option, operand);
    else if (option)
        lmi_complain(c, "a saved report is shown with what was measured in its run",
                     "--%s is for a model that is run, and %s is a saved report", option, operand);
    return !option;
}

static bool for_a_model(lmi_cli *c) {
    const char *option = lmi_option_of(&c->args, LMI_OF_A_MODEL);
    if (option)
        lmi_complain(c, "a recording is shown with what was measured in its run",
                     "%s is a recording, and --%s is for models", c->args.operands[0], option);
    return option != NULL;
}

int lmi_show_recordings(lmi_cli *c) {
    recordings r;
    if (for_a_model(c)) return LMI_EXIT_USAGE;
    lam_error e = {.at = -1};
    lam_recording_options o = options(c);
    lam_ranks_look look;
    if (!lmi_look_of(c, &look)) return LMI_EXIT_USAGE;
    if (lmi_look_option(&c->args)) o.look = &look;
    o.color = lmi_wants_color(c);
    o.bars = !c->args.no_bars;
    bool page = lmi_is_format(&c->args, "html");
    if (page && o.look) {
        lmi_complain(c, "leave it out, or show it as text or JSON",
                     "a page is of all processes, and --%s of a part", lmi_look_option(&c->args));
        return LMI_EXIT_USAGE;
    }
    lam_status s = open_job(c, &r, &e);
    if (s == LAM_OK) s = page ? write_page(c, &r, &e) : write_all(&r, &o, c->out, &e);
    close_all(&r);
    return lmi_written(c, &e, s, LMI_EXIT_OK);
}

bool lmi_page_has_place(lmi_cli *c, const char *file) {
    char hint[64];
    if (lmi_is_to_file(c) || !c->host->out_is_terminal) return true;
    snprintf(hint, sizeof hint, "add -o %s", file);
    lmi_complain(c, hint, "a report is a page for a browser, and no file is given for it");
    return false;
}

int lmi_report_recordings(lmi_cli *c) {
    recordings r;
    if (for_a_model(c) || !lmi_page_has_place(c, "run.html")) return LMI_EXIT_USAGE;
    lam_error e = {.at = -1};
    lam_status s = open_job(c, &r, &e);
    if (s == LAM_OK) s = write_page(c, &r, &e);
    close_all(&r);
    return lmi_written(c, &e, s, LMI_EXIT_OK);
}

lam_status lmi_check_recorded(lmi_cli *c, const char *name, const lam_budget *b, lam_check **out,
                              lam_error *e) {
    recordings r;
    LAM_TRY(open_job(c, &r, e));
    const lam_status s =
        lam_check_recordings(out, name, (const lam_recording *const *)r.at, r.n, lmi_unix_now(), b, e);
    close_all(&r);
    return s;
}

/* -- following --------------------------------------------------------------------------------- */

/* A number that changes if there is something new to show. */
static int64_t age(const recordings *r) {
    int64_t sum = 0;
    for (int32_t i = 0; i < r->n; i++) {
        const lam_recorded_model *m;
        for (int32_t k = 0; (m = lam_recording_model(r->at[i], k)); k++) sum += m->last + m->n_steps + 2;
    }
    return sum;
}

/* True if every run has ended, or was not written to for a minute. */
static bool is_over(const recordings *r, int64_t now) {
    for (int32_t i = 0; i < r->n; i++) {
        const lam_recorded_run *run = lam_recording_run(r->at[i]);
        bool dead = run->gone || now - run->seen_unix_ns > INT64_C(60) * 1000000000;
        if (!run->ended_unix_ns && !dead) return false;
    }
    return true;
}

/* On a terminal a table replaces the previous one; elsewhere it follows it. */
static lam_status show_once(lmi_cli *c, const recordings *r, bool again, lam_error *e) {
    static const char over[] = "\033[H\033[2J";
    lam_recording_options o = options(c);
    o.first_kinds = !o.rows;
    o.newest = true;
    if (!o.rows) o.rows = LIVE_ROWS;
    lam_status s = LAM_OK;
    bool terminal = c->host->out_is_terminal && !c->args.once;
    if (terminal) s = c->out.put(c->out.to, over, sizeof over - 1);
    if (!terminal && again) s = c->out.put(c->out.to, "\n", 1);
    return s == LAM_OK ? write_all(r, &o, c->out, e) : s;
}

static lam_status wait_a_little(const lmi_cli *c) {
    struct timespec t = {REFRESH_MS / 1000, REFRESH_MS % 1000 * 1000000L};
    if (c->host->wait) return c->host->wait(c->host->self, REFRESH_MS);
    nanosleep(&t, NULL);
    return LAM_OK;
}

static lam_status follow(lmi_cli *c, lam_error *e) {
    int64_t shown = -1;
    for (;;) {
        recordings r;
        lam_status s = open_all(c, LIVE_STEPS, &r, e);
        int64_t now = s == LAM_OK ? age(&r) : -1;
        bool over = s == LAM_OK && is_over(&r, lmi_unix_now());
        bool news = c->host->out_is_terminal || now != shown || over;
        if (s == LAM_OK && news) s = show_once(c, &r, shown >= 0, e);
        close_all(&r);
        if (s != LAM_OK || over || c->args.once) return s;
        shown = now;
        if (wait_a_little(c) != LAM_OK) return LAM_OK;
    }
}

int lmi_run_live(lmi_cli *c) {
    lam_error e = {.at = -1};
    c->args.once = c->args.once || lmi_is_json(&c->args); /* JSON is one document */
    return lmi_written(c, &e, follow(c, &e), LMI_EXIT_OK);
}

/* -- for other programs ------------------------------------------------------------------------ */

/* Says which file was written. */
static int say_file(lmi_cli *c, const char *path) {
    if (!lmi_is_json(&c->args)) {
        lmi_say(c, "%s\n", path);
        return LMI_EXIT_OK;
    }
    int code = lmi_json_begin(c, "export");
    if (code != LMI_EXIT_OK) return code;
    lmi_json_text(c, "file", path);
    return lmi_json_end(c, code);
}

/* Returns false, after an error, unless node_exporter would read the file: by this, no recording is
 * overwritten. */
static bool is_for_prometheus(lmi_cli *c, const char *path) {
    static const char end[] = ".prom";
    const size_t n = strlen(path), tail = sizeof end - 1;
    if (n > tail && strcmp(path + n - tail, end) == 0) return lmi_may_be_file(c, path);
    lmi_complain(c, "node_exporter's textfile collector reads no others", "%s: the name must end in .prom",
                 path);
    return false;
}

static int export_to_prometheus(lmi_cli *c) {
    const char *path = c->args.prometheus;
    recordings r;
    lmi_buf text;
    lam_error e = {.at = -1};
    if (!is_for_prometheus(c, path)) return LMI_EXIT_USAGE;
    lmi_buf_init(&text);
    lam_status s = open_all(c, 0, &r, &e);
    if (s == LAM_OK)
        s = lam_recording_prometheus((const lam_recording *const *)r.at, r.n, lmi_buf_sink(&text), &e);
    close_all(&r);
    int code = s == LAM_OK ? lmi_replace_file(c, LMI_TO_SAVED, path, &text) : lmi_complain_of(c, &e, s);
    lmi_buf_free(&text);
    return code == LMI_EXIT_OK ? say_file(c, path) : code;
}

static int export_to_tensorboard(lmi_cli *c) {
    lam_error e = {.at = -1};
    char path[FULL_PATH];
    if (c->args.n_operands > 1) {
        lmi_too_many(c, c->args.operands[1], "a file for TensorBoard is of one recording");
        return LMI_EXIT_USAGE;
    }
    lam_status s = lam_recording_tensorboard(c->args.operands[0], c->args.run, c->args.tensorboard, path,
                                             sizeof path, &e);
    return s == LAM_OK ? say_file(c, path) : lmi_complain_of(c, &e, s);
}

int lmi_run_export(lmi_cli *c) {
    if (!c->args.tensorboard == !c->args.prometheus) {
        lmi_complain(c, "give one of --tensorboard DIR and --prometheus FILE.prom",
                     "`lamina export` needs to know for which program");
        return LMI_EXIT_USAGE;
    }
    return c->args.prometheus ? export_to_prometheus(c) : export_to_tensorboard(c);
}

int lmi_run_run(lmi_cli *c) {
    const lmi_args *a = &c->args;
    lam_error e = {.at = -1};
    lam_script what = {.module = a->module,
                       .n_argv = a->n_rest,
                       .argv = a->rest,
                       .file = a->file ? a->file : "run.lamina",
                       .every = a->every ? a->every : LAM_THINNING,
                       .memory = a->live.memory,
                       .health = a->live.health,
                       .job = a->job,
                       .peak = a->peak};
    lam_named_peak unread; /* each device has a peak for this type */
    if (a->peak && lam_peak_flops(a->peak, "float32", &unread, &e) != LAM_OK)
        return lmi_complain_of(c, &e, LAM_USAGE);
    if (!c->host->script) {
        lmi_complain(c, NULL, "this host can't run a Python program");
        return LMI_EXIT_FAILED;
    }
    lam_status s = c->host->script(c->host->self, &what, &e);
    return s == LAM_OK ? LMI_EXIT_OK : lmi_complain_of(c, &e, s);
}
