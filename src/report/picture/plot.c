/* SPDX-License-Identifier: Apache-2.0
 *
 * Pictures as files: what each needs, and why one can't be drawn. */
#include "analyse/costs.h"
#include "report/picture/picture.h"

#include <math.h>

typedef struct plot {
    const lam_costs *c;
    const lam_plot_options *o;
    lmi_picture_options p;
    lam_error *e;
} plot;

typedef struct kind {
    const char *name;
    void (*draw)(lmi_buf *out, const lmi_outline *o, const lmi_picture_options *p);
    lam_status (*check)(const plot *j);
    lmi_outline_options needs;
    bool by; /* it shows one number */
} kind;

static lam_status check_nothing(const plot *j) {
    (void)j;
    return LAM_OK;
}

static lam_status check_memory(const plot *j) {
    if (lam_model_memory_seen(j->c->model)) return LAM_OK;
    return lmi_no_memory(j->c->model, j->e);
}

static lam_status check_time(const plot *j) {
    if (lam_costs_times(j->c)) return LAM_OK;
    return lmi_no_times(j->c->model, j->o->kind, j->e);
}

static lam_status check_roofline(const plot *j) {
    LAM_TRY(check_time(j));
    if (!lmi_has_metric(j->c, LAM_FLOPS) || !lmi_has_metric(j->c, LAM_BYTES_READ))
        return lmi_fail(j->e, LAM_USAGE, "roofline",
                        "the convention %s does not count FLOPs and bytes; ask for exact",
                        j->c->convention->name);
    const lmi_given *saved = j->c->model->given;
    const lam_peak *roof = saved ? &saved->roof : &j->o->roof;
    bool known = isfinite(roof->flops) && isfinite(roof->bytes) && roof->flops > 0 && roof->bytes > 0;
    if (known) return LAM_OK;
    if (saved) return lmi_fail(j->e, LAM_USAGE, saved->file, "it has no roof; a run with `--roof` has one");
    return lmi_fail(j->e, LAM_USAGE, "roofline",
                    "what this machine can do was not measured; lamina.roof() does");
}

static lam_status check_graph(const plot *j) {
    if (lam_model_ops_seen(j->c->model)) return LAM_OK;
    return lmi_fail(j->e, LAM_USAGE, "graph",
                    "operators were not watched; count by exact, which watches them");
}

static const kind kinds[] = {
    {"icicle", lmi_picture_icicle, check_nothing, {0}, true},
    {"memory", lmi_picture_memory, check_memory, {.course = true}, false},
    {"roofline", lmi_picture_roofline, check_roofline, {0}, false},
    {"graph", lmi_picture_graph, check_graph, {.levels = true, .drawn = true}, true},
};
enum { N_KINDS = sizeof kinds / sizeof *kinds };

static const kind *find_kind(const char *name, lam_error *e) {
    for (int i = 0; name && i < N_KINDS; i++)
        if (strcmp(kinds[i].name, name) == 0) return &kinds[i];
    lmi_no_such(e, "picture", name ? name : "", NULL, &kinds[0].name, sizeof *kinds, N_KINDS);
    return NULL;
}

static lam_status no_figure(const plot *j, const char *by) {
    lmi_buf list;
    lmi_buf_init(&list);
    lmi_put_figures(&list, LMI_DRAWN);
    lam_status s = lmi_buf_status(&list, j->e);
    if (s == LAM_OK)
        s = lmi_fail(j->e, LAM_USAGE, "by", "'%.40s' is not a number to draw by; these are: %s", by,
                     lmi_buf_text(&list));
    lmi_buf_free(&list);
    return s;
}

/* Fails for a number that was not measured, or that the convention does not count. */
static lam_status check_by(plot *j) {
    const char *by = j->o->by;
    if (!by) return LAM_OK;
    j->p.by = lmi_figure_find(LMI_DRAWN, by, strlen(by));
    if (j->p.by == LMI_FIGURE_NO) return no_figure(j, by);
    const lmi_figure_info *f = &lmi_figures[j->p.by];
    if (f->metric >= 0 && !lmi_has_metric(j->c, (lam_metric)f->metric))
        return lmi_fail(j->e, LAM_USAGE, "by", "the convention %s does not count %s; ask for exact",
                        j->c->convention->name, by);
    if (f->needs == LAM_NEEDS_TIMES) return check_time(j);
    return f->needs == LAM_NEEDS_MEMORY ? check_memory(j) : LAM_OK;
}

static lam_status check(plot *j, const kind *k) {
    if (j->o->width < 0)
        return lmi_fail(j->e, LAM_USAGE, "width", "a width of %d is not possible; give 0 or more",
                        j->o->width);
    if (j->o->by && !k->by)
        return lmi_fail(j->e, LAM_USAGE, "by", "it is for icicle and graph; leave it out");
    LAM_TRY(check_by(j));
    return k->check(j);
}

/* The default: MACs, or for a model without MACs its parameters. */
static void choose_by(plot *j, const lmi_outline *o) {
    if (j->o->by) return;
    j->p.by = LMI_FIGURE_MACS;
    if (o->n > 0 && lmi_shown_total(o, &j->p, 0) <= 0) j->p.by = LMI_FIGURE_PARAMS;
}

static lam_status draw(plot *j, const kind *k, lam_sink to) {
    lmi_outline o;
    lmi_outline_options needs = k->needs;
    needs.roof = j->o->roof;
    lam_status s = lmi_outline_new(&o, j->c, &needs, j->e);
    lmi_buf out;
    lmi_buf_init(&out);
    if (s == LAM_OK) {
        choose_by(j, &o);
        k->draw(&out, &o, &j->p);
        lmi_putc(&out, '\n');
        s = lmi_buf_flush(&out, to, j->e);
    }
    lmi_buf_free(&out);
    lmi_outline_free(&o);
    return s;
}

lam_status lam_plot_write(const lam_costs *c, const lam_plot_options *o, lam_sink to, lam_error *e) {
    const kind *k = find_kind(o->kind, e);
    plot j = {.c = c, .o = o, .p = {.width = o->width, .alone = true, .backward = o->backward}, .e = e};
    if (!k) return LAM_USAGE;
    LAM_TRY(check(&j, k));
    return draw(&j, k, to);
}

lam_status lam_scatter_write(const char *title, const lam_scatter_point *at, int32_t n, lam_sink to,
                             lam_error *e) {
    lmi_buf out;
    for (int32_t i = 0; i < n; i++)
        if (at[i].params <= 0 || at[i].macs <= 0)
            return lmi_fail(e, LAM_RANGE, at[i].name,
                            "it has no MACs or no parameters, which have no place on a logarithmic scale");
    lmi_buf_init(&out);
    lmi_picture_scatter(&out, title, at, n);
    lmi_putc(&out, '\n');
    lam_status s = lmi_buf_flush(&out, to, e);
    lmi_buf_free(&out);
    return s;
}
