/* SPDX-License-Identifier: Apache-2.0
 *
 * The lines above and below lamina's table, in every format: what ran, the totals, and whether they are
 * complete. */
#include "report/table/report.h"

#include "analyse/run/times.h"

enum { AT_MOST = 5 }; /* inputs and findings that are listed: the rest is counted */

void lmi_items_begin(lmi_items *s, lmi_job *j, lmi_item_fn say, void *to) {
    *s = (lmi_items){.j = j, .say = say, .to = to};
    lmi_buf_clear(&s->text);
}

void lmi_items_send(lmi_items *s, const char *style, const char *label) {
    if (s->text.bad) return;
    s->say(s->to, style, label, s->text.s);
    lmi_buf_clear(&s->text);
}

lam_status lmi_items_end(lmi_items *s) {
    lam_status status = lmi_buf_status(&s->text, s->j->e);
    lmi_buf_free(&s->text);
    return status;
}

/* -- head ---------------------------------------------------------------------------------------------- */

/* Writes how input `i` of the model was made, if lamina made it. */
static void put_made(lmi_items *s, int32_t i) {
    const char *made = lam_model_input_origin(s->j->m, i);
    if (!made) return;
    lmi_putc(&s->text, ' ');
    lmi_put_clean(&s->text, made);
}

static const lam_event *root_call(const lmi_job *j) {
    for (int32_t i = 0; i < lam_model_n_events(j->m); i++)
        if (lam_model_event(j->m, i)->place == 0) return lam_model_event(j->m, i);
    return NULL;
}

/* The device of all inputs; -1: there are no inputs, or they are on several devices. */
static int32_t device_of(const lam_event *call) {
    int32_t device = call->n_in ? call->in[0].device : -1;
    for (int32_t i = 1; i < call->n_in; i++)
        if (call->in[i].device != device) return -1;
    return device;
}

static void tell_inputs(lmi_items *s, const lam_event *call) {
    int32_t device = device_of(call);
    for (int32_t i = 0; i < call->n_in && i < AT_MOST; i++) {
        const lam_arg *a = &call->in[i];
        lmi_put(&s->text, "input ");
        if (a->name) {
            lmi_put_clean(&s->text, a->name);
            lmi_putc(&s->text, ' ');
        }
        lmi_put_shape(&s->text, lmi_arg_shape(a));
        if (a->dtype >= 0) lmi_putf(&s->text, " %s", lam_dtype_name(a->dtype));
        put_made(s, i);
        if (device < 0 && a->device >= 0) lmi_putf(&s->text, " %s", lmi_device_name(a->device));
        lmi_items_send(s, NULL, NULL);
    }
    if (call->n_in > AT_MOST) {
        lmi_putf(&s->text, "%d other input%s", (int)call->n_in - AT_MOST,
                 call->n_in == AT_MOST + 1 ? "" : "s");
        lmi_items_send(s, LMI_DIM, NULL);
    }
    if (device < 0) return;
    lmi_put(&s->text, lmi_device_name(device));
    lmi_items_send(s, NULL, NULL);
}

/* Readers need the health of values first, so it is above the table. */
static void tell_health(lmi_items *s) {
    const lam_health *h = s->j->health;
    int32_t n = 0;
    if (!h) return;
    if (!lam_health_finding(h, 0)) {
        lmi_put(&s->text, lam_health_sentence(h));
        lmi_items_send(s, NULL, "health");
    }
    for (; lam_health_finding(h, n); n++) {
        if (n >= AT_MOST) continue;
        lmi_put(&s->text, lam_health_finding(h, n)->text);
        lmi_items_send(s, LMI_WARN, n ? "" : "health");
    }
    if (n <= AT_MOST) return;
    lmi_putf(&s->text, "%d more finding%s", (int)n - AT_MOST, n == AT_MOST + 1 ? "" : "s");
    lmi_items_send(s, LMI_DIM, "");
}

/* Shapes alone were followed, on request or for a reason. */
static void tell_dry(lmi_items *s) {
    const char *dry = lam_model_told(s->j->m, "dry"), *why = lam_model_told(s->j->m, "dry_because");
    if (!dry || strcmp(dry, "yes") != 0) return;
    lmi_put(&s->text, "dry run");
    if (why) lmi_put(&s->text, ": ");
    if (why) lmi_put_clean(&s->text, why);
    lmi_items_send(s, why ? LMI_WARN : NULL, NULL);
}

lam_status lmi_head_items(lmi_job *j, lmi_item_fn say, void *to) {
    lmi_items s;
    lmi_buf title;
    const lam_place *root = lam_model_place(j->m, 0);
    const lam_event *call = root_call(j);
    lmi_items_begin(&s, j, say, to);
    lmi_buf_init(&title);
    lmi_put_clean(&title, root ? lam_model_module(j->m, root->module)->type : "empty model");
    lmi_items_send(&s, LMI_BOLD, lmi_buf_text(&title));
    lmi_buf_used(&title, &s.text);
    const char *format = lam_model_told(j->m, "format");
    if (call) tell_inputs(&s, call);
    if (call && (!format || strncmp(format, "ONNX", 4) != 0)) { /* which does not say it */
        lmi_put(&s.text, call->flags & LAM_CALL_TRAINING ? "train mode" : "eval mode");
        lmi_items_send(&s, NULL, NULL);
    }
    if (format) {
        lmi_put_clean(&s.text, format);
        lmi_items_send(&s, NULL, NULL);
    }
    if (strcmp(j->c->convention->name, lam_convention_of(NULL)) != 0) {
        lmi_putf(&s.text, "convention %s", j->c->convention->name);
        lmi_items_send(&s, NULL, NULL);
    }
    tell_dry(&s);
    if (j->m->given) {
        lmi_put(&s.text, "saved");
        lmi_items_send(&s, NULL, NULL);
    }
    tell_health(&s);
    return lmi_items_end(&s);
}

/* -- foot ---------------------------------------------------------------------------------------------- */

static void put_sized(lmi_items *s, const char *what, lam_count n, lam_count bytes) {
    lmi_put(&s->text, what);
    lmi_put_grouped(&s->text, n);
    lmi_put(&s->text, " (");
    lmi_put_bytes(&s->text, bytes);
    lmi_putc(&s->text, ')');
}

static void put_trainable(lmi_items *s, lam_count all, lam_count trainable) {
    if (lmi_is_zero(all) || trainable.state == LAM_UNKNOWN) return;
    lmi_put(&s->text, ", ");
    if (lmi_is_same(all, trainable))
        lmi_put(&s->text, "all");
    else if (lmi_is_zero(trainable))
        lmi_put(&s->text, "none");
    else
        lmi_put_grouped(&s->text, trainable);
    lmi_put(&s->text, " trainable");
}

static void tell_params(lmi_items *s) {
    lam_param_totals p = lam_costs_params(s->j->c);
    lmi_put_grouped(&s->text, p.params);
    lmi_putf(&s->text, " parameter%s (", p.params.n == 1 ? "" : "s");
    lmi_put_bytes(&s->text, p.param_bytes);
    lmi_putc(&s->text, ')');
    put_trainable(s, p.params, p.grad_params);
    lmi_items_send(s, NULL, "total");
    const char *weights = lam_model_told(s->j->m, "weights");
    if (weights) {
        lmi_put_clean(&s->text, weights);
        lmi_items_send(s, NULL, NULL);
    }
    if (lmi_has_logical(&p) && (!s->j->m->described || p.logical_bytes.state == LAM_EXACT)) {
        lmi_put(&s->text, "logical size ");
        lmi_put_bytes(&s->text, p.logical_bytes);
        lmi_items_send(s, NULL, NULL);
    }
    if (lmi_is_spread(s->j->m)) {
        const char *where = s->j->m->described ? "in this file " : "in this process ";
        put_sized(s, where, p.local_params, p.local_bytes);
        lmi_items_send(s, NULL, NULL);
    }
    if (!lmi_is_zero(p.buffers)) {
        lmi_put_grouped(&s->text, p.buffers);
        lmi_putf(&s->text, " buffer element%s", p.buffers.n == 1 ? "" : "s");
        lmi_items_send(s, NULL, NULL);
    }
    if (lmi_is_zero(p.packed)) return;
    put_sized(s, "packed weights ", p.packed, p.packed_bytes);
    lmi_items_send(s, NULL, NULL);
}

/* "1.81 GMACs", ">= 80 MACs", "MACs not known". */
static void put_work(lmi_items *s, lam_count c, const char *unit) {
    lmi_buf n;
    lmi_buf_init(&n);
    lmi_put_metric(&n, c, s->j->o->exact);
    const char *text = lmi_buf_text(&n), *last = text + (*text ? strlen(text) - 1 : 0);
    if (*text == '?')
        lmi_putf(&s->text, "%s not known", unit);
    else
        lmi_putf(&s->text, "%s%s%s", text, *last >= '0' && *last <= '9' ? " " : "", unit);
    lmi_buf_used(&n, &s->text);
}

/* Writes the exact number beside the rounded one. */
static void put_in_full(lmi_items *s, lam_count c) {
    if (c.state != LAM_EXACT || s->j->o->exact || (c.n < 1000 && c.over == 0)) return;
    lmi_put(&s->text, " = ");
    lmi_put_grouped(&s->text, c);
}

/* True if an operator that ran has a sparse factor, whose zeros take no part in the effective work. */
static bool any_sparse(const lam_model *m) {
    for (int32_t i = 0; i < m->n_ops; i++)
        for (int32_t k = 0; k < m->ops[i].sig->n_in; k++)
            if (m->ops[i].sig->in[k].sparse) return true;
    return false;
}

/* Adds the effective work, if masks or sparse factors leave something out or may do so. */
static void tell_effective(lmi_items *s, const lam_count metric[LAM_N_METRICS]) {
    lam_count macs = metric[LAM_EFFECTIVE_MACS];
    if (!lmi_has_metric(s->j->c, LAM_EFFECTIVE_MACS) || lmi_is_same(macs, metric[LAM_MACS])) return;
    put_work(s, macs, "MACs");
    lmi_putf(&s->text, " if masked attention scores%s are left out",
             any_sparse(s->j->m) ? " and zeros of sparse factors" : "");
    if (macs.state != metric[LAM_MACS].state) lmi_put(&s->text, "; values of some masks are not known");
    lmi_items_send(s, macs.state == LAM_EXACT ? NULL : LMI_WARN, NULL);
}

/* Adds elements and bytes moved, and the ratio of FLOPs to bytes, if the options request them. */
static void tell_bytes(lmi_items *s, const lam_count metric[LAM_N_METRICS]) {
    static const char *const names[] = {"read ", "written "};
    if (!s->j->o->bytes) return;
    if (lmi_has_metric(s->j->c, LAM_DMAS)) {
        lmi_put(&s->text, "DMAs ");
        lmi_put_metric(&s->text, metric[LAM_DMAS], s->j->o->exact);
        lmi_items_send(s, metric[LAM_DMAS].state == LAM_EXACT ? NULL : LMI_WARN, "");
    }
    if (!lmi_has_metric(s->j->c, LAM_BYTES_READ)) return;
    for (int i = 0; i < 2; i++) {
        lam_count n = metric[LAM_BYTES_READ + i];
        lmi_put(&s->text, names[i]);
        if (s->j->o->exact || n.state == LAM_UNKNOWN)
            lmi_put_metric(&s->text, n, true);
        else
            lmi_put_bytes(&s->text, n);
        lmi_items_send(s, n.state == LAM_EXACT ? NULL : LMI_WARN, NULL);
    }
    double intensity = lam_metric_intensity(metric);
    if (intensity < 0) return;
    lmi_put_digits(&s->text, intensity);
    lmi_put(&s->text, " FLOPs/byte");
    lmi_items_send(s, NULL, NULL);
}

/* Adds MACs and FLOPs of a pass; `unit` NULL: how the two relate was said before. */
static void tell_pass(lmi_items *s, const lam_count metric[LAM_N_METRICS], const char *label,
                      const char *unit) {
    bool macs = lmi_has_metric(s->j->c, LAM_MACS), flops = lmi_has_metric(s->j->c, LAM_FLOPS);
    if (macs) {
        put_work(s, metric[LAM_MACS], "MACs");
        put_in_full(s, metric[LAM_MACS]);
        lmi_items_send(s, metric[LAM_MACS].state == LAM_EXACT ? LMI_BOLD : LMI_WARN, label);
    }
    if (flops) {
        put_work(s, metric[LAM_FLOPS], "FLOPs");
        if (macs && unit) lmi_putf(&s->text, " (%s)", unit);
        lmi_items_send(s, metric[LAM_FLOPS].state == LAM_EXACT ? LMI_BOLD : LMI_WARN, macs ? NULL : label);
    }
    tell_effective(s, metric);
    tell_bytes(s, metric);
}

static void tell_forward(lmi_items *s) {
    lam_count total[LAM_N_METRICS];
    for (int m = 0; m < LAM_N_METRICS; m++) total[m] = lmi_total(s->j->c, (lam_metric)m);
    tell_pass(s, total, "", s->j->c->convention->unit);
}

/* Adds how totals grow with the sizes that a file leaves open. */
static void tell_growth(lmi_items *s) {
    const lam_growth *g;
    bool any = false, linear = true; /* the last one; sizes in which nothing is linear share a line */
    for (int32_t i = 0; (g = lam_costs_growth(s->j->c, i)) != NULL; i++) {
        bool begun = false, was = linear;
        for (int m = 0; m < LAM_N_METRICS; m++) {
            if (m > LAM_FLOPS && !s->j->o->bytes) break;
            if (!lmi_put_per(&s->text, s->j->c, g, (lam_metric)m, s->j->o->exact)) continue;
            linear = g->metric[m].how == LAM_GROWS_LINEAR;
            lmi_items_send(s, NULL, begun || (any && !was && !linear) ? NULL : any ? "" : "grows");
            begun = any = true;
        }
    }
}

/* Adds the cost of a pass other than the forward, if one ran. */
static void tell_phase(lmi_items *s, lam_phase phase, const char *label) {
    lam_count total[LAM_N_METRICS];
    if (phase == LAM_BACKWARD && s->j->m->no_backward) {
        lmi_put(&s->text, "none ran to its end");
        lmi_items_send(s, LMI_WARN, label);
    }
    if (!lmi_has_phase(s->j->c, phase)) return;
    for (int m = 0; m < LAM_N_METRICS; m++) total[m] = lam_costs_phase_total(s->j->c, phase, (lam_metric)m);
    tell_pass(s, total, label, NULL);
}

/* Adds a part of a time: that of the run that is reported, with the deviation over all runs. */
static void tell_time_part(lmi_items *s, const lam_times *t, lam_time_part part, const char *title,
                           const char *label) {
    const lam_costs *c = s->j->c;
    lam_spread spread;
    lmi_put(&s->text, title);
    lmi_put_time(&s->text, lmi_time_part(c, t, part));
    if ((lmi_shown_run(c) >= 0 || lmi_times_are_medians(c)) && lam_times_n_runs(t) > 1 &&
        lam_times_part(t, part, &spread)) {
        lmi_put(&s->text, s->j->o->ascii ? " +- " : " \u00b1 ");
        lmi_put_time(&s->text, spread.deviation);
    }
    lmi_items_send(s, part == LAM_TIME_WHOLE ? LMI_BOLD : NULL, label);
}

/* Adds the whole and its parts on a line: parts of 0 are left out, unknown ones are not. */
static void tell_time_parts(lmi_items *s, const lam_times *t, const char *label, const char *engine) {
    const struct {
        lam_time_part part;
        const char *title;
    } parts[] = {{LAM_TIME_FORWARD, "forward "},
                 {LAM_TIME_BACKWARD, "backward "},
                 {LAM_TIME_RECOMPUTE, "recomputed "},
                 {LAM_TIME_ENGINE, engine},
                 {LAM_TIME_OUTSIDE, "backward of no layer "}};
    bool back = lmi_has_backward_times(s->j->c);
    tell_time_part(s, t, LAM_TIME_WHOLE, back ? "" : "forward ", label);
    for (size_t i = 0; back && i < sizeof parts / sizeof *parts; i++)
        if (lmi_time_part(s->j->c, t, parts[i].part) != 0)
            tell_time_part(s, t, parts[i].part, parts[i].title, NULL);
}

/* Adds one line for all late runs, which names the longest one. */
static void tell_outliers(lmi_items *s) {
    lam_outlier o, worst = {.whole = -1};
    int32_t n = 0;
    for (; lam_times_outlier(lam_costs_times(s->j->c), n, &o); n++)
        if (o.whole > worst.whole) worst = o;
    if (n == 0) return;
    if (n > 1) lmi_putf(&s->text, "%d runs took much longer; ", (int)n);
    lmi_putf(&s->text, "run %d took ", (int)worst.run);
    lmi_put_time(&s->text, worst.whole);
    lmi_put(&s->text, ", ");
    lmi_put_time(&s->text, worst.late);
    lmi_put(&s->text, " of the delay in ");
    const char *path = worst.place < 0 ? "autograd's engine" : lam_model_place(s->j->m, worst.place)->path;
    lmi_put_clean(&s->text, *path ? path : "the model itself");
    lmi_items_send(s, LMI_WARN, "");
}

/* Adds the peak that rows are compared with, and whether a row exceeded the measured one. */
static void tell_roof(lmi_items *s) {
    const lam_peak *peak = &s->j->peak, *measured = &s->j->o->peak;
    const char *reached = " (reached in this run)";
    const char *prefix;
    if (peak->flops <= 0 || peak->bytes <= 0) return;
    lmi_put_digits(&s->text, lmi_unit_scale(peak->flops, &prefix));
    lmi_putf(&s->text, " %sFLOP/s%s and ", prefix, peak->flops > measured->flops ? reached : "");
    lmi_put_digits(&s->text, lmi_unit_scale(peak->bytes, &prefix));
    lmi_putf(&s->text, " %sB/s of memory%s", prefix, peak->bytes > measured->bytes ? reached : "");
    lmi_items_send(s, LMI_DIM, "roof");
}

static void tell_times(lmi_items *s) {
    const lam_costs *c = s->j->c;
    if (!s->j->o->time) return;
    const lam_times *t = lam_costs_times(c);
    int32_t runs = lam_times_n_runs(t);
    tell_time_parts(s, t, "time", "autograd engine ");
    if (runs > 1) {
        if (lmi_shown_run(c) >= 0)
            lmi_putf(&s->text, "run %d of %d, the median", (int)lmi_shown_run(c), (int)runs);
        else if (lmi_times_are_medians(c))
            lmi_putf(&s->text, "medians of %d runs", (int)runs);
        else
            lmi_putf(&s->text, "%d runs together", (int)runs);
        lmi_items_send(s, LMI_DIM, NULL);
    }
    int32_t varying = lmi_times_varying(c);
    if (varying > 0) {
        lmi_putf(&s->text, "%d %s in some runs only", (int)varying,
                 varying == 1 ? "call happened" : "calls happened");
        lmi_items_send(s, LMI_WARN, "");
    }
    if (lmi_has_device_times(c)) tell_time_parts(s, lam_costs_device_times(c), "device", "between nodes ");
    tell_outliers(s);
    tell_roof(s);
}

lam_status lmi_foot_items(lmi_job *j, lmi_item_fn say, void *to) {
    lmi_items s;
    lmi_items_begin(&s, j, say, to);
    tell_params(&s);
    tell_forward(&s);
    tell_growth(&s);
    tell_phase(&s, LAM_BACKWARD, "backward");
    tell_phase(&s, LAM_RECOMPUTE, "recomputed");
    tell_times(&s);
    lmi_tell_memory(&s);
    lmi_items_complete(&s);
    lam_status reasons = lmi_items_reasons(&s);
    lam_status text = lmi_items_end(&s);
    return reasons == LAM_OK ? text : reasons;
}
