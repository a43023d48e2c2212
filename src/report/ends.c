/* SPDX-License-Identifier: Apache-2.0
 *
 * What stands above and under our own table, in whatever format: what ran, the totals, and why they are
 * not exact. */
#include "report/report.h"

#include "analyse/graph.h"
#include "analyse/times.h"

enum { AT_MOST = 5 }; /* of inputs, ties, gaps: the rest is counted */

/* Items gather in `text`; the first failure of memory is told at the end. */
typedef struct speaker {
    lmi_job *j;
    lmi_say say;
    void *to;
    lmi_buf text;
} speaker;

static void start(speaker *s) {
    s->text.n = 0;
    lmi_putn(&s->text, "", 0);
}

static void tell(speaker *s, const char *style, bool new_line) {
    if (s->text.bad) return;
    s->say(s->to, style, s->text.s, new_line);
    start(s);
}

static void tell_others(speaker *s, int64_t n) {
    if (n <= 0) return;
    lmi_putf(&s->text, "[%lld other%s]", (long long)n, n == 1 ? "" : "s");
    tell(s, LMI_DIM, true);
}

static lam_status finish(speaker *s) {
    lam_status status = lmi_buf_status(&s->text, s->j->e);
    lmi_buf_free(&s->text);
    return status;
}

/* -- head ---------------------------------------------------------------------------------------------- */

static void tell_input(speaker *s, const lam_arg *a) {
    lmi_put(&s->text, "input ");
    if (a->name) {
        lmi_put_clean(&s->text, a->name);
        lmi_putc(&s->text, ' ');
    }
    lmi_put_shape(&s->text, lmi_arg_shape(a), ",");
    if (a->dtype >= 0) lmi_putf(&s->text, " %s", lam_dtype_name(a->dtype));
    if (a->device >= 0) lmi_putf(&s->text, " %s", lmi_device_name(a->device));
    tell(s, NULL, false);
}

static const lam_event *root_call(const lmi_job *j) {
    for (int32_t i = 0; i < lam_model_n_events(j->m); i++)
        if (lam_model_event(j->m, i)->place == 0) return lam_model_event(j->m, i);
    return NULL;
}

lam_status lmi_own_head(lmi_job *j, lmi_say say, void *to) {
    speaker s = {.j = j, .say = say, .to = to};
    const lam_place *root = lam_model_place(j->m, 0);
    const lam_event *call = root_call(j);
    start(&s);
    if (root)
        lmi_put_clean(&s.text, lam_model_module(j->m, root->module)->type);
    else
        lmi_put(&s.text, "empty model");
    tell(&s, LMI_BOLD, true);
    for (int32_t i = 0; call && i < call->n_in && i < AT_MOST; i++) tell_input(&s, &call->in[i]);
    if (call && call->n_in > AT_MOST) {
        lmi_putf(&s.text, "[%d other inputs]", (int)call->n_in - AT_MOST);
        tell(&s, LMI_DIM, false);
    }
    if (call) {
        lmi_put(&s.text, call->flags & LAM_CALL_TRAINING ? "train" : "eval");
        tell(&s, NULL, false);
    }
    lmi_putf(&s.text, "convention %s", j->c->convention->name);
    tell(&s, NULL, false);
    return finish(&s);
}

/* -- foot ---------------------------------------------------------------------------------------------- */

static void tell_params(speaker *s) {
    lam_param_totals p = lam_costs_params(s->j->c);
    lmi_put(&s->text, "params ");
    lmi_put_grouped(&s->text, p.params);
    lmi_put(&s->text, " (");
    lmi_put_bytes(&s->text, p.param_bytes);
    lmi_put(&s->text, "; trainable ");
    lmi_put_grouped(&s->text, p.grad_params);
    lmi_putc(&s->text, ')');
    tell(s, NULL, true);
    if (lmi_is_spread(s->j->m)) {
        lmi_put(&s->text, "in this process ");
        lmi_put_grouped(&s->text, p.local_params);
        lmi_put(&s->text, " (");
        lmi_put_bytes(&s->text, p.local_bytes);
        lmi_putc(&s->text, ')');
        tell(s, NULL, false);
    }
    lmi_put(&s->text, "buffers ");
    lmi_put_grouped(&s->text, p.buffers);
    lmi_put(&s->text, " (");
    lmi_put_bytes(&s->text, p.buffer_bytes);
    lmi_putc(&s->text, ')');
    tell(s, NULL, false);
    if (p.packed.state == LAM_EXACT && p.packed.n == 0 && p.packed.over == 0) return;
    lmi_put(&s->text, "packed weights ");
    lmi_put_grouped(&s->text, p.packed);
    lmi_put(&s->text, " (");
    lmi_put_bytes(&s->text, p.packed_bytes);
    lmi_putc(&s->text, ')');
    tell(s, NULL, false);
}

static void tell_metrics(speaker *s) {
    static const struct {
        lam_metric metric;
        const char *title;
    } metrics[] = {{LAM_MACS, "MACs "}, {LAM_FLOPS, "FLOPs "}, {LAM_DMAS, "DMAs "}};
    const lam_costs *c = s->j->c;
    bool first = true;
    for (size_t i = 0; i < sizeof metrics / sizeof *metrics; i++) {
        if (!lmi_has_metric(c, metrics[i].metric)) continue;
        lam_count total = lmi_total(c, metrics[i].metric);
        lmi_put(&s->text, metrics[i].title);
        lmi_put_metric(&s->text, total, s->j->o->exact);
        tell(s, total.state == LAM_EXACT ? LMI_BOLD : LMI_WARN, first);
        first = false;
    }
    if (!lmi_has_metric(c, LAM_MACS) || !lmi_has_metric(c, LAM_FLOPS) || !c->convention->unit) return;
    lmi_put(&s->text, c->convention->unit);
    tell(s, LMI_DIM, false);
}

/* Bytes and their ratio, where they were asked for; metrics of the pass that `title` names. */
static void tell_bytes(speaker *s, const lam_count metric[LAM_N_METRICS], const char *title) {
    static const char *const names[] = {"bytes read ", "written "};
    double intensity = lam_metric_intensity(metric);
    if (!s->j->o->bytes) return;
    for (int i = 0; i < 2; i++) {
        lam_count n = metric[LAM_BYTES_READ + i];
        lmi_putf(&s->text, "%s%s", i ? "" : title, names[i]);
        if (s->j->o->exact || n.state == LAM_UNKNOWN)
            lmi_put_metric(&s->text, n, true);
        else
            lmi_put_bytes(&s->text, n);
        tell(s, n.state == LAM_EXACT ? NULL : LMI_WARN, i == 0);
    }
    if (intensity < 0) return;
    lmi_put_intensity(&s->text, intensity);
    lmi_put(&s->text, " FLOPs a byte");
    tell(s, NULL, false);
}

static bool same(lam_count a, lam_count b) { return a.n == b.n && a.over == b.over && a.state == b.state; }

/* What has an effect, where masks leave something out or may do so. */
static void tell_effective(speaker *s, const lam_count metric[LAM_N_METRICS], const char *title) {
    lam_count macs = metric[LAM_EFFECTIVE_MACS], flops = metric[LAM_EFFECTIVE_FLOPS];
    if (!lmi_has_metric(s->j->c, LAM_EFFECTIVE_MACS) || same(macs, metric[LAM_MACS])) return;
    lmi_putf(&s->text, "%seffective MACs ", title);
    lmi_put_metric(&s->text, macs, s->j->o->exact);
    tell(s, macs.state == LAM_EXACT ? NULL : LMI_WARN, true);
    lmi_put(&s->text, "FLOPs ");
    lmi_put_metric(&s->text, flops, s->j->o->exact);
    tell(s, flops.state == LAM_EXACT ? NULL : LMI_WARN, false);
    lmi_put(&s->text, macs.state == metric[LAM_MACS].state ? "without what attention masks"
                                                           : "what masks of values leave out is not known");
    tell(s, LMI_DIM, false);
}

static void tell_forward(speaker *s) {
    lam_count total[LAM_N_METRICS];
    for (int m = 0; m < LAM_N_METRICS; m++) total[m] = lmi_total(s->j->c, (lam_metric)m);
    tell_bytes(s, total, "");
    tell_effective(s, total, "");
}

/* What a pass besides the forward cost: a line for each that ran. */
static void tell_phase(speaker *s, lam_phase phase, const char *title) {
    static const char *const names[] = {"MACs ", "FLOPs ", "DMAs "};
    lam_count total[LAM_N_METRICS];
    if (!lmi_has_phase(s->j->c, phase)) return;
    bool first = true;
    for (int m = 0; m < LAM_N_METRICS; m++) {
        total[m] = lam_costs_phase_total(s->j->c, phase, (lam_metric)m);
        if (m > LAM_DMAS || !lmi_has_metric(s->j->c, (lam_metric)m)) continue;
        lmi_putf(&s->text, "%s%s", first ? title : "", names[m]);
        lmi_put_metric(&s->text, total[m], s->j->o->exact);
        tell(s, total[m].state == LAM_EXACT ? NULL : LMI_WARN, first);
        first = false;
    }
    tell_bytes(s, total, title);
    tell_effective(s, total, title);
}

/* A median of runs with its deviation, or what all took together. */
static void tell_time_part(speaker *s, const lam_times *t, lam_time_part part, const char *title,
                           bool new_line) {
    const lam_costs *c = s->j->c;
    lam_spread spread;
    bool many = lam_times_n_runs(t) > 1;
    lmi_put(&s->text, title);
    lmi_put_time(&s->text, lmi_time_part(c, t, part));
    if (c->beats && many && lam_times_part(t, part, &spread)) {
        lmi_put(&s->text, s->j->o->ascii ? " +- " : " \u00b1 ");
        lmi_put_time(&s->text, spread.deviation);
    }
    tell(s, part == LAM_TIME_FORWARD ? LMI_BOLD : NULL, new_line);
}

static void tell_outliers(speaker *s) {
    lam_outlier o;
    int32_t n = 0;
    for (; lam_times_outlier(lam_costs_times(s->j->c), n, &o); n++) {
        if (n >= AT_MOST) continue;
        lmi_putf(&s->text, "run %d took ", (int)o.run);
        lmi_put_time(&s->text, o.whole);
        lmi_put(&s->text, " instead of ");
        lmi_put_time(&s->text, o.median);
        lmi_put(&s->text, ", most of the delay (");
        lmi_put_time(&s->text, o.late);
        lmi_put(&s->text, ") in ");
        const char *path = o.place < 0 ? "autograd's engine" : lam_model_place(s->j->m, o.place)->path;
        lmi_put_clean(&s->text, *path ? path : "the model itself");
        tell(s, LMI_WARN, true);
    }
    tell_others(s, n - AT_MOST);
}

/* The parts on a line: what there was none of is left out, what is not known is not. */
static void tell_time_parts(speaker *s, const lam_times *t, const char *forward, const char *engine) {
    const struct {
        lam_time_part part;
        const char *title;
    } parts[] = {{LAM_TIME_BACKWARD, "backward "},
                 {LAM_TIME_RECOMPUTE, "done again "},
                 {LAM_TIME_ENGINE, engine},
                 {LAM_TIME_OUTSIDE, "backward of no layer "}};
    tell_time_part(s, t, LAM_TIME_FORWARD, forward, true);
    for (size_t i = 0; lmi_has_backward_times(s->j->c) && i < sizeof parts / sizeof *parts; i++)
        if (lmi_time_part(s->j->c, t, parts[i].part) != 0)
            tell_time_part(s, t, parts[i].part, parts[i].title, false);
}

/* What rows stand beside, and whether a row went beyond what was measured. */
static void tell_roof(speaker *s) {
    const lam_peak *peak = &s->j->peak, *measured = &s->j->o->peak;
    const char *reached = " (reached in this run)";
    const char *prefix;
    if (peak->flops <= 0 || peak->bytes <= 0) return;
    lmi_put(&s->text, "roof: ");
    lmi_put_intensity(&s->text, lam_unit_scale(peak->flops, &prefix));
    lmi_putf(&s->text, " %sFLOP/s%s and ", prefix, peak->flops > measured->flops ? reached : "");
    lmi_put_intensity(&s->text, lam_unit_scale(peak->bytes, &prefix));
    lmi_putf(&s->text, " %sB/s of memory%s", prefix, peak->bytes > measured->bytes ? reached : "");
    tell(s, LMI_DIM, true);
}

static void tell_times(speaker *s) {
    const lam_costs *c = s->j->c;
    if (!s->j->o->time) return;
    int32_t runs = lam_times_n_runs(lam_costs_times(c));
    tell_time_parts(s, lam_costs_times(c), "time: forward ", "autograd engine ");
    if (runs > 1) {
        lmi_putf(&s->text, c->beats ? "medians of %d runs" : "%d runs together", (int)runs);
        tell(s, LMI_DIM, false);
    }
    if (lmi_has_device_times(c))
        tell_time_parts(s, lam_costs_device_times(c), "device: forward ", "between nodes ");
    tell_outliers(s);
    tell_roof(s);
}

static void tell_known_ops(speaker *s) {
    const lmi_op_costs *o = &s->j->c->ops;
    int64_t all = (int64_t)o->ran[LAM_FORWARD] + o->ran[LAM_BACKWARD] + o->ran[LAM_RECOMPUTE];
    lmi_putf(&s->text, "operators known %d/%lld", (int)o->known, (long long)all);
    tell(s, o->known == all ? NULL : LMI_WARN, true);
}

static void tell_idle(speaker *s, const char *status, int32_t n) {
    if (n == 0) return;
    lmi_putf(&s->text, "%s %d", status, (int)n);
    tell(s, LMI_WARN, false);
}

/* Layers are calls that do work of their own, containers that only call their children apart. */
static void tell_known(speaker *s) {
    int32_t known = 0, layers = 0, never = 0, elsewhere = 0;
    for (int32_t i = 0; i < lam_costs_n_rows(s->j->c); i++) {
        const lam_cost_row *r = lam_costs_row(s->j->c, i);
        bool all = true;
        bool there = r->never_called && lmi_only_elsewhere(lam_model_module(s->j->m, r->module));
        elsewhere += there;
        never += r->never_called && !there;
        if (r->event < 0 || !r->counted) continue;
        for (int m = 0; m < LAM_EFFECTIVE_MACS; m++)
            all = all && (r->metric[m].state != LAM_UNKNOWN || !lmi_has_metric(s->j->c, (lam_metric)m));
        layers++;
        known += all;
    }
    if (lmi_by_ops(s->j->c)) {
        tell_known_ops(s);
    } else {
        lmi_putf(&s->text, "layers known %d/%d", (int)known, (int)layers);
        tell(s, known == layers ? NULL : LMI_WARN, true);
    }
    tell_idle(s, "never called", never);
    tell_idle(s, "called elsewhere", elsewhere);
}

static void put_tensor_name(lmi_buf *b, const lam_model *m, const lam_module *mod, const char *name) {
    if (mod->n_places > 0 && lam_model_place(m, mod->places[0])->path[0]) {
        lmi_put_clean(b, lam_model_place(m, mod->places[0])->path);
        lmi_putc(b, '.');
    }
    lmi_put_clean(b, name);
}

static const char *name_in(const lam_module *mod, int32_t tensor) {
    for (int32_t i = 0; i < mod->n_owned; i++)
        if (mod->owned[i].tensor == tensor) return mod->owned[i].name;
    return "?";
}

static void tell_ties(speaker *s) {
    const lam_model *m = s->j->m;
    bool once = s->j->c->convention->params != LMI_OF_MODULE;
    int64_t ties = 0;
    for (int32_t i = 0; i < lam_model_n_modules(m); i++) {
        const lam_module *mod = lam_model_module(m, i);
        for (int32_t k = 0; k < mod->n_owned; k++) {
            const lam_tensor *t = lam_model_tensor(m, mod->owned[k].tensor);
            if (t->owner < 0 || t->owner == i || ++ties > AT_MOST) continue;
            const lam_module *owner = lam_model_module(m, t->owner);
            lmi_put(&s->text, "tied: ");
            put_tensor_name(&s->text, m, mod, mod->owned[k].name);
            lmi_put(&s->text, " is ");
            put_tensor_name(&s->text, m, owner, name_in(owner, mod->owned[k].tensor));
            lmi_put(&s->text, once ? ", counted once" : ", counted in each layer");
            tell(s, NULL, true);
        }
    }
    tell_others(s, ties - AT_MOST);
}

static void tell_gaps(speaker *s) {
    bool nothing = s->j->c->convention->no_rule == LMI_NR_NOTHING;
    int32_t n = 0;
    const char *gap;
    for (; (gap = lam_costs_gap(s->j->c, n)) != NULL; n++) {
        if (n >= AT_MOST) continue;
        lmi_put(&s->text, nothing ? "not counted: " : "why not exact: ");
        lmi_put_clean(&s->text, gap);
        tell(s, LMI_WARN, true);
    }
    tell_others(s, n - AT_MOST);
}

/* What else the graph of the data tells: what ran in vain, and which parameters that require a gradient get
 * none. What was never called or is frozen shows elsewhere. */
static lam_status tell_graph(speaker *s) {
    lam_graph *g = NULL;
    const char *path, *reason;
    int32_t told = 0, deaf = 0;
    if (!lam_model_ops_seen(s->j->m)) return LAM_OK;
    if (!lam_model_traced(s->j->m)) {
        lmi_put(&s->text,
                "not known: what ran in vain, and which parameters get no gradient: this torch does "
                "not tell whose memory a tensor has");
        tell(s, NULL, true);
        return LAM_OK;
    }
    LAM_TRY(lam_graph_new(&g, s->j->m, s->j->e));
    for (int32_t i = 0; (path = lam_graph_unused(g, i, &reason)) != NULL; i++) {
        if (strcmp(reason, LMI_NEVER_CALLED) == 0 || ++told > AT_MOST) continue;
        lmi_put(&s->text, "in vain: ");
        lmi_put_clean(&s->text, *path ? path : "the model itself");
        lmi_put(&s->text, ": ");
        lmi_put_clean(&s->text, reason);
        tell(s, LMI_WARN, true);
    }
    tell_others(s, told - AT_MOST);
    for (int32_t i = 0; (path = lam_graph_no_gradient(g, i, &reason)) != NULL; i++) {
        if (strcmp(reason, LMI_FROZEN) == 0 || strcmp(reason, LMI_OF_NEVER_CALLED) == 0 || ++deaf > AT_MOST)
            continue;
        lmi_put(&s->text, "no gradient: ");
        lmi_put_clean(&s->text, path);
        lmi_put(&s->text, ": ");
        lmi_put_clean(&s->text, reason);
        tell(s, LMI_WARN, true);
    }
    tell_others(s, deaf - AT_MOST);
    lam_graph_free(g);
    return LAM_OK;
}

static void tell_health(speaker *s) {
    const lam_health *h = s->j->health;
    int32_t n = 0;
    if (!h) return;
    if (!lam_health_finding(h, 0)) {
        lmi_putf(&s->text, "health: %s", lam_health_sentence(h));
        tell(s, NULL, true);
    }
    for (; lam_health_finding(h, n); n++) {
        if (n >= AT_MOST) continue;
        lmi_putf(&s->text, "health: %s", lam_health_finding(h, n)->text);
        tell(s, LMI_WARN, true);
    }
    tell_others(s, n - AT_MOST);
}

lam_status lmi_own_foot(lmi_job *j, lmi_say say, void *to) {
    speaker s = {.j = j, .say = say, .to = to};
    start(&s);
    tell_params(&s);
    tell_metrics(&s);
    tell_forward(&s);
    tell_phase(&s, LAM_BACKWARD, "backward: ");
    tell_phase(&s, LAM_RECOMPUTE, "recomputed: ");
    tell_times(&s);
    tell_health(&s);
    lam_status memory = lmi_memory_foot(j, say, to);
    if (memory == LAM_OK) memory = lmi_device_memory_foot(j, say, to);
    tell_known(&s);
    tell_ties(&s);
    tell_gaps(&s);
    lam_status graph = tell_graph(&s);
    for (int32_t i = 0; i < lam_model_n_notes(j->m); i++) {
        lmi_put(&s.text, "note: ");
        lmi_put_clean(&s.text, lam_model_note(j->m, i));
        tell(&s, NULL, true);
    }
    lam_status text = finish(&s);
    return memory != LAM_OK ? memory : graph == LAM_OK ? text : graph;
}
