/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests a live model from the host; and what several subcommands need before one runs, or around it: a
 * model to rehearse a report on, a sink for it, the head of a page. */
#include "base/system.h"
#include "cmd/cmd.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

lam_live lmi_live_request(const lmi_cli *c, const char *convention) {
    int32_t by = lam_convention_find(convention);
    bool ops = !convention || lam_convention_counts_ops(by);
    lam_live what = c->args.live;
    bool needed = what.backward && !(what.time || what.memory || what.health);
    what.target = c->args.operands[0];
    what.mode = what.mode ? what.mode : what.backward ? "train" : "eval";
    what.ops = ops || needed;
    what.or_layers = !convention && !needed;
    what.unfused = lam_convention_unfused(by);
    return what;
}

/* True if a text names, up to its equals sign, a number (or the picture of a roofline) with that need. */
static bool asks_for(const char *text, lam_needs what) {
    char name[32] = "";
    size_t n = strcspn(text, "=");
    if (n < sizeof name) memcpy(name, text, n);
    return lam_number_needs(name) == what || (what == LAM_NEEDS_TIMES && strcmp(name, "roofline") == 0);
}

/* What the user wrote that needs times (or memory): an option that implies them, or the option itself. */
static void put_asker(const lmi_cli *c, bool memory, lmi_buf *out) {
    const lmi_args *a = &c->args;
    const char *sort[] = {a->sort, NULL}, *by[] = {a->by, NULL};
    const char *kind[] = {strcmp(c->verb->name, "plot") == 0 ? a->operands[0] : NULL, NULL};
    const struct {
        const char *option, *const *values;
    } given[] = {{"--sort ", sort}, {"--by ", by}, {"--max ", a->max}, {"--within ", a->within}, {"", kind}};
    for (size_t i = 0; i < sizeof given / sizeof *given; i++) {
        for (const char *const *s = given[i].values; *s; s++) {
            if (!asks_for(*s, memory ? LAM_NEEDS_MEMORY : LAM_NEEDS_TIMES)) continue;
            lmi_put(out, given[i].option);
            lmi_put_clean(out, *s);
            return;
        }
    }
    lmi_put(out, memory ? "--memory" : a->roof ? "--roof" : a->live.repeats ? "--repeats" : "--time");
}

/* Why a dry run can't answer, and in `asker` the option that asks for it; NULL: it can. */
static const char *needs_run(const lmi_cli *c, const lam_live *what, lmi_buf *asker) {
    const char *why = what->time     ? "computes nothing, so there is no time to tell"
                      : what->memory ? "allocates nothing, so there is no memory to tell"
                      : what->health ? "computes no values to check"
                                     : NULL;
    if (what->time || what->memory)
        put_asker(c, !what->time, asker);
    else if (why)
        lmi_put(asker, "--health");
    return why;
}

/* A timeline shows when things ran. */
static bool is_timeline(const lmi_args *a) {
    return lmi_is_format(a, "trace") || lmi_is_format(a, "speedscope");
}

static lam_status fits_dry(const lmi_cli *c, const lam_live *what, lam_error *e) {
    lmi_buf asker;
    lmi_buf_init(&asker);
    const char *why = what->dry ? needs_run(c, what, &asker) : NULL;
    lam_status s = lmi_buf_status(&asker, e);
    if (s == LAM_OK && why)
        s = lmi_fail(e, LAM_USAGE, NULL, "%s and --dry: a dry run %s; leave one of them out",
                     lmi_buf_text(&asker), why);
    lmi_buf_free(&asker);
    return s;
}

static lam_status ask_host(lmi_cli *c, const lam_live *what, lam_model **m, lam_error *e) {
    lam_live asked = *what;
    lmi_buf asker;
    LAM_TRY(fits_dry(c, what, e));
    lmi_buf_init(&asker);
    const char *why = needs_run(c, what, &asker);
    lam_status s = lmi_buf_status(&asker, e);
    if (!why && is_timeline(&c->args)) {
        lmi_putf(&asker, "--format %s", c->args.format);
        why = "has no times";
    }
    asked.needs_run = why ? lmi_buf_text(&asker) : NULL;
    if (s == LAM_OK && c->host->live) s = c->host->live(c->host->self, &asked, m, e);
    lmi_buf_free(&asker);
    return s;
}

/* What is no table and has no header says it on the error stream. */
void lmi_say_dry(lmi_cli *c, const lam_model *m) {
    const char *why = lam_model_told(m, "dry_because");
    bool text = !c->args.format || lmi_is_format(&c->args, "text");
    if (why && text && lmi_listed(c->verb->formats, "text"))
        lmi_say(c, "a dry run: %s\n\n", why);
    else if (why)
        lmi_remark(c, "a dry run: %s", why);
}

/* Sizes that are given as NAME=N; their names are in `names`. */
static lam_status read_sizes(const lmi_cli *c, char names[][64], lam_read_size *out, int32_t *n,
                             lam_error *e) {
    for (*n = 0; c->args.set[*n]; ++*n) {
        const char *text = c->args.set[*n], *equals = strrchr(text, '=');
        const size_t length = equals ? (size_t)(equals - text) : 0;
        char *end = NULL;
        errno = 0;
        const long long value = equals ? strtoll(equals + 1, &end, 10) : -1;
        if (length == 0 || length >= 64 || !equals[1] || *end || value < 0 || errno)
            return lmi_fail(e, LAM_USAGE, text, "--set takes a name and a whole number, as batch=8");
        memcpy(names[*n], text, length);
        names[*n][length] = '\0';
        out[*n] = (lam_read_size){names[*n], value};
    }
    return LAM_OK;
}

static lam_status read_file(lmi_cli *c, const lam_live *what, lam_model **m, lam_error *e) {
    char names[LMI_MAX_INPUTS][64];
    lam_read_size sizes[LMI_MAX_INPUTS];
    lmi_progress p;
    const lam_watcher watcher = lmi_progress_begin(&p, c, "looking for NaN and Inf");
    lam_read_options o = {.sizes = sizes, .health = c->args.live.health, .watcher = &watcher};
    o.growth = lmi_listed("show report", c->verb->name);
    LAM_TRY(read_sizes(c, names, sizes, &o.n_sizes, e));
    const char *format = what->inputs[0] ? lmi_format(c, what->target) : NULL;
    o.inputs = what->inputs;
    /* in a difference the inputs may be for the other side, which is run */
    while (format && strcmp(format, "ONNX") == 0 && what->inputs[o.n_inputs]) o.n_inputs++;
    lam_status s = lam_read(m, what->target, &o, e);
    lmi_progress_end(&p);
    return s;
}

/* Reads a model file, or a saved report for a subcommand that its numbers are enough for. */
static lam_status load(lmi_cli *c, const lam_live *what, lam_model **m, lam_error *e) {
    const char *file = what->target;
    if (lmi_listed("show plot check", c->verb->name)) return read_file(c, what, m, e);
    const bool read = lmi_is_file(c, file);
    if (!read && !lmi_is_saved(file)) return read_file(c, what, m, e); /* which says why it is none */
    const bool counts = read && strcmp(c->verb->name, "compare") == 0;
    if (counts || (read && lmi_listed("why report diff", c->verb->name))) {
        LAM_TRY(read_file(c, what, m, e));
        if (!counts || lam_model_n_events(*m)) return LAM_OK;
        lam_model_free(*m);
        *m = NULL;
    }
    if (read)
        return lmi_fail(
            e, LAM_USAGE, file,
            counts ? "it has no operators, and `lamina compare` counts these: give the model itself, or "
                     "an archive of torch.export or an ONNX file of it"
                   : "nothing of a file is run, and `lamina %s` needs the run: give the model itself",
            c->verb->name);
    return lmi_fail(
        e, LAM_USAGE, file,
        "it is a saved report, which has the numbers of a run; `lamina %s` needs the run: give the "
        "model itself",
        c->verb->name);
}

/* True, with a status, for a folder, and for a file that is known not to be a model: a live model has a colon
 * behind its file or module. Of a file that is not known the host says how a model is named. */
static bool is_other(lmi_cli *c, const lam_live *what, lam_model **m, lam_status *s, lam_error *e) {
    struct stat st;
    lam_error why = {.at = -1};
    if (stat(what->target, &st) != 0) return false;
    *s = read_file(c, what, m, &why);
    if (*s == LAM_FAILED && !S_ISDIR(st.st_mode)) return false;
    *e = why;
    return true;
}

lam_status lmi_live_model(lmi_cli *c, const lam_live *what, lam_model **m, lam_error *e) {
    lam_status other;
    *m = NULL;
    if (c->confined || lmi_is_saved(what->target) || lmi_is_file(c, what->target)) return load(c, what, m, e);
    if (is_other(c, what, m, &other, e)) return other;
    if (c->args.set[0])
        return lmi_fail(e, LAM_USAGE, what->target,
                        "--set is for a file that leaves sizes open; give the input by -i");
    if (c->host->live || what->dry) {
        lam_status s = ask_host(c, what, m, e);
        if (s == LAM_OK && *m) return lmi_rules_registered(c, e);
        if (s != LAM_OK) {
            lam_error unused = {.at = -1};
            if (*m) lmi_rules_registered(c, &unused); /* the error of the run says more */
            return s;
        }
    }
    if (e->status != LAM_OK) return e->status;
    if (c->host->live)
        return lmi_fail(e, LAM_FAILED, what->target,
                        "the host gave no model and no reason; `lamina doctor` may tell more");
    return lmi_fail(e, LAM_UNSUPPORTED, what->target,
                    "there is nothing here that can run a live model; use the Python package's `lamina`");
}

int lmi_with_model(lmi_cli *c, const lam_live *what, lmi_use_model use, void *self) {
    lam_error e = {0};
    lam_model *m;
    lam_status s = lmi_live_model(c, what, &m, &e);
    int code = m ? use(c, m, s == LAM_OK ? NULL : e.text, self) : LMI_EXIT_OK;
    lam_model_free(m);
    return s == LAM_OK ? code : lmi_complain_of(c, &e, s);
}

lam_status lmi_judge_health(const lam_model *m, int *code, lam_error *e) {
    lam_health *h;
    if (!lam_model_checked(m)) return LAM_OK;
    LAM_TRY(lam_health_new(&h, m, e));
    if (lam_health_finding(h, 0)) *code = LMI_EXIT_FINDING;
    lam_health_free(h);
    return LAM_OK;
}

static lam_status measured(lmi_cli *c, const char *dtype, int32_t device, lam_peak *out, lam_error *e) {
    if (c->host->roof) return c->host->roof(c->host->self, dtype, device, out, e);
    return lmi_fail(e, LAM_UNSUPPORTED, NULL,
                    "what this machine can do is not known here; use the Python package's `lamina`");
}

lam_status lmi_live_roof(lmi_cli *c, lam_peak *out, lam_error *e) {
    const lam_live what = lmi_live_request(c, c->args.convention);
    LAM_TRY(fits_dry(c, &what, e));
    return measured(c, NULL, -1, out, e);
}

lam_status lmi_tokens_peak(lmi_cli *c, const lam_tokens *t, lam_named_peak *out, lam_error *e) {
    LAM_TRY(lam_tokens_peak(t, c->args.peak, out, e));
    return out->best.flops > 0 ? LAM_OK : measured(c, out->dtype, t->device, &out->best, e);
}

bool lmi_convention_known(lmi_cli *c, const char *name) {
    return !name || lmi_is_one_of(c, name, lam_convention_name, "unknown convention",
                                  "`lamina conventions` lists them");
}

/* True if one of its rules has a released form. */
static bool has_released(int32_t convention) {
    lam_rule r;
    for (int32_t i = 0; lam_convention_rule(convention, i, &r, NULL) == LAM_OK; i++)
        for (int m = 0; m < LAM_N_METRICS; m++)
            if (r.released[m]) return true;
    return false;
}

/* The conventions for which `fits` is true, for a hint. */
static const char *listed(bool (*fits)(int32_t), char *to, size_t room) {
    size_t n = 0;
    *to = '\0';
    for (int32_t i = 0; i < lam_n_conventions() && n < room; i++)
        if (fits(i)) n += (size_t)snprintf(to + n, room - n, "%s%s", n ? ", " : "", lam_convention_name(i));
    return to;
}

bool lmi_convention_fits(lmi_cli *c, const char *name) {
    const lmi_args *a = &c->args;
    char list[96], hint[160];
    if (!lmi_convention_known(c, name)) return false;
    int32_t i = lam_convention_find(name ? name : lam_convention_of(NULL));
    bool measures = a->live.time || a->live.memory || a->live.health;
    if (a->live.backward && !measures && !lam_convention_counts_ops(i)) {
        snprintf(hint, sizeof hint, "leave --backward out, or count by one of %s",
                 listed(lam_convention_counts_ops, list, sizeof list));
        lmi_complain(c, hint, "--backward: the convention '%s' counts the forward pass alone", name);
        return false;
    }
    if (a->released && !has_released(i)) {
        snprintf(hint, sizeof hint, "leave --released out, or count by one of %s",
                 listed(has_released, list, sizeof list));
        lmi_complain(c, hint, "--released: the convention '%s' has one form only", lam_convention_name(i));
        return false;
    }
    return true;
}

/* -- a rehearsal ------------------------------------------------------------------------------- */

static lam_status put_nowhere(void *to, const char *bytes, size_t n) {
    (void)to, (void)bytes, (void)n;
    return LAM_OK;
}

const lam_sink lmi_nowhere = {put_nowhere, NULL};

/* A model of one layer, called once. */
lam_status lmi_smallest_model(lam_model **m, lam_error *e) {
    static const int64_t sizes[] = {1, 1};
    const lam_arg x = {.position = 0, .dtype = -1, .device = -1, .ndim = 2, .sizes = sizes};
    const lam_module_info mod = {.type = "Identity",
                                 .type_path = "torch.nn.Identity",
                                 .flags = LAM_MODULE_LEAF,
                                 .word = lam_word_module("Identity")};
    const lam_call_info call = {
        .parent = -1, .t0_ns = 1, .t1_ns = 2, .n_in = 1, .n_out = 1, .in = &x, .out = &x};
    int32_t i;
    lam_builder *b;
    lam_status s = lam_builder_new(&b, 0, e);
    if (s != LAM_OK) return s;
    s = lam_build_module(b, &mod, &i, e);
    if (s == LAM_OK) s = lam_build_place(b, -1, "", 0, &i, e);
    if (s == LAM_OK) s = lam_build_call(b, &call, &i, e);
    if (s == LAM_OK) s = lam_build_ops_seen(b, e);
    if (s == LAM_OK) s = lam_build_timed(b, e);
    if (s == LAM_OK) s = lam_build_memory(b, &(lam_memory_info){"", -1, -1, -1, false}, e);
    if (s == LAM_OK) return lam_builder_finish(b, m, e);
    lam_builder_free(b);
    return s;
}

/* A comparison or a picture is a part of a page; a file needs a head, or a browser guesses its encoding. */
lam_status lmi_page_head(lmi_cli *c, const char *title, lam_error *e) {
    static const char head[] = "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n"
                               "<meta name=\"color-scheme\" content=\"light dark\">\n"
                               "<meta http-equiv=\"Content-Security-Policy\" "
                               "content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
                               "<title>";
    if (!lmi_is_format(&c->args, "html")) return LAM_OK;
    LAM_TRY(lmi_sink_text(c->out, head, e));
    LAM_TRY(lmi_sink_text(c->out, title, e));
    return lmi_sink_text(c->out, "</title>\n", e);
}
