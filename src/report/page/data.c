/* SPDX-License-Identifier: Apache-2.0
 *
 * The block of data that the page's script reads: an outline as columns in JSON. It stands inside a <script>
 * element, so no text in it may end that element. Numbers are integers; row 0 is the root, rows are in
 * depth-first order. A number for a text is its index in S, whose first text is empty. null: unknown.
 *
 * v, name, head   1, the root's type, what is known of the run
 * num             the numbers that the page is viewed by: [name, title, unit (lmi_number_unit), columns of
 * the forward, of the backward] S               all texts N, parent       the number of places; parent[0] is
 * -1 nm ty inp out   names, types, tensors in and out, by place st fam hl       lmi_place_state,
 * lmi_layer_family; 2 where NaN or Inf began, 1 where it was passed on col.K, state.K  numbers.def: the
 * place's own; lam_state where it is not exact: {place: state} held, cats      bytes at the peak by category:
 * {place: [9]}; the categories' names tot             [number, state] of the whole; b_...: backward and
 * recomputation mem             t, b, at: microseconds, bytes and the place at work (-1: none); back: when
 * the backward began; peak, before, peak_in, peak_phase, held, rss, source speed           {place: intensity,
 * speed, bound, as text} lv, lvof        drawings (draw/layout.h) and {place: drawing}. Nodes: n [look,
 * label, note], w, h, x, y, ranks r of r0 to r1, waypoints d, segments e, spine sp; bus: all lines that share
 * a rail why, whyof      formulas and {place: formulas}: [phase, operator, [metric, formula, filled in,
 * value]] base, dst       for a difference: numbers before, by place of both trees; lmi_change by place
 * renamed, left   {place: its path before}; what was left out health, unused, nograd, gaps, notes, ops, time
 * as in the JSON of a report */
#include "analyse/run/memory.h"
#include "report/page/block.h"
#include "report/page/page.h"

#include <stdio.h>

enum { LISTED = 200 }; /* entries of a list of unused modules, or of findings: no reader needs more */

typedef struct block {
    lmi_buf *out;
    const lmi_outline *o;
    lmi_map index; /* of each text in `texts` */
    lmi_vec texts; /* const char * */
    lmi_arena arena;
} block;

/* -- JSON ------------------------------------------------------------------------------------------------ */

/* The index of a text in S. */
static int64_t text_at(block *k, const char *text) {
    int64_t at = lmi_map_get(&k->index, text ? text : "");
    if (at >= 0) return at;
    const char **more = lmi_vec_add(&k->texts, 1);
    at = (int64_t)k->texts.n - 1;
    if (more) *more = text;
    if (!more || lmi_map_put(&k->index, text, at, NULL) != LAM_OK) k->out->bad = true;
    return at;
}

/* A count as [value, state]. */
static void put_count(lmi_buf *b, const char *name, lam_count c) {
    bool over = c.over > 0;
    lam_state state = over && c.state == LAM_EXACT ? LAM_AT_LEAST : c.state;
    block_list(b, name);
    block_int(b, over ? INT64_MAX : c.n);
    block_int(b, state);
    PUT(b, "]");
}

/* -- places ---------------------------------------------------------------------------------------------- */

/* `offset`: of a text in lmi_outlined. */
static void text_column(block *k, const char *name, size_t offset) {
    block_list(k->out, name);
    for (int32_t i = 0; i < k->o->n; i++) {
        const char *text;
        memcpy(&text, (const char *)&k->o->at[i] + offset, sizeof text);
        block_int(k->out, text_at(k, text));
    }
    PUT(k->out, "]");
}

static void put_tree(block *k) {
    lmi_buf *b = k->out;
    const lmi_outline *o = k->o;
    block_int_field(b, "N", o->n);
    block_list(b, "parent");
    for (int32_t i = 0; i < o->n; i++) block_int(b, o->at[i].parent);
    PUT(b, "]");
    text_column(k, "nm", offsetof(lmi_outlined, name));
    text_column(k, "ty", offsetof(lmi_outlined, type));
    text_column(k, "inp", offsetof(lmi_outlined, in));
    text_column(k, "out", offsetof(lmi_outlined, out));
    block_list(b, "st");
    for (int32_t i = 0; i < o->n; i++) block_int(b, o->at[i].state);
    PUT(b, "]");
    block_list(b, "fam");
    for (int32_t i = 0; i < o->n; i++) block_int(b, o->at[i].family);
    PUT(b, "]");
}

static void put_parts_of(lmi_buf *b, lmi_figure k) {
    PUT(b, ",[");
    for (int i = 0; i < 2 && k != LMI_FIGURE_NO; i++) {
        if (lmi_figures[k].part[i] == LMI_OWN_NO) continue;
        block_next(b);
        lmi_put_json_in_html(b, lmi_own_names[lmi_figures[k].part[i]]);
    }
    PUT(b, "]");
}

/* The numbers that the page is viewed by: name, title, unit, columns of the forward and of the backward. */
static void put_figures(lmi_buf *b) {
    lmi_figure k;
    block_list(b, "num");
    for (int i = 0; (k = lmi_figure_at(LMI_PAGED, i)) != LMI_FIGURE_NO; i++) {
        block_tuple(b);
        lmi_put_json_in_html(b, lmi_figures[k].name);
        PUT(b, ",");
        lmi_put_json_in_html(b, lmi_part_title(k));
        block_int(b, lmi_figures[k].unit);
        put_parts_of(b, k);
        put_parts_of(b, lmi_figures[k].back);
        PUT(b, "]");
    }
    PUT(b, "]");
}

/* The page shows these of the whole model alone. */
static bool is_of_the_whole(int c) { return c == LMI_OWN_LOGICAL_BYTES || c == LMI_OWN_LOCAL_BYTES; }

static void put_columns(block *k) {
    lmi_buf *b = k->out;
    const lmi_outline *o = k->o;
    block_object(b, "col");
    for (int c = 0; c < LMI_N_OWN; c++) {
        if (!o->own[c] || is_of_the_whole(c)) continue;
        block_list(b, lmi_own_names[c]);
        for (int32_t i = 0; i < o->n; i++) block_int(b, o->own[c][i]);
        PUT(b, "]");
    }
    PUT(b, "}");
    block_object(b, "state");
    for (int c = 0; c < LMI_N_OWN; c++) {
        if (!o->state[c] || is_of_the_whole(c)) continue;
        block_object(b, lmi_own_names[c]);
        for (int32_t i = 0; i < o->n; i++) {
            if (!o->state[c][i]) continue;
            block_index(b, i);
            quick_int(b, o->state[c][i]);
        }
        PUT(b, "}");
    }
    PUT(b, "}");
}

/* 2: born here, 1: passed on, forward or backward. */
static void put_health_marks(block *k) {
    static const int marks[] = {0, 0, 1, 2};
    bool any = false;
    for (int32_t i = 0; i < k->o->n; i++)
        any = any || k->o->at[i].health[0] > LAM_HEALTH_FINE || k->o->at[i].health[1] > LAM_HEALTH_FINE;
    if (!any) return;
    block_list(k->out, "hl");
    for (int32_t i = 0; i < k->o->n; i++) {
        const uint8_t *h = k->o->at[i].health;
        block_int(k->out, marks[(h[0] > h[1] ? h[0] : h[1]) & 3]);
    }
    PUT(k->out, "]");
}

static void put_categories(lmi_buf *b, const int64_t held[LAM_N_HELD]) {
    PUT(b, "[");
    for (int h = 0; h < LAM_N_HELD; h++) block_int(b, held[lmi_held_order[h]]);
    PUT(b, "]");
}

static void put_held(block *k) {
    lmi_buf *b = k->out;
    block_list(b, "cats");
    for (int h = 0; h < LAM_N_HELD; h++) {
        block_next(b);
        lmi_put_json_in_html(b, lam_held_name(lmi_held_order[h]));
    }
    PUT(b, "]");
    block_object(b, "held");
    for (int32_t i = 0; i < k->o->n && k->o->held; i++) {
        bool any = false;
        for (int h = 0; h < LAM_N_HELD; h++) any = any || k->o->held[i][h] != 0;
        if (!any) continue;
        block_index(b, i);
        put_categories(b, k->o->held[i]);
    }
    PUT(b, "}");
}

/* -- the run --------------------------------------------------------------------------------------------- */

/* Writes a whole number as such, any other fact as text. */
static void put_number(lmi_buf *b, const char *text) {
    size_t n = text ? strlen(text) : 0;
    if (n > 0 && n < 10 && strspn(text, "0123456789") == n && (*text != '0' || n == 1))
        lmi_put(b, text);
    else
        lmi_put_json_in_html(b, text);
}

static void put_head(block *k) {
    lmi_buf *b = k->out;
    const lmi_outline *o = k->o;
    const char *dry = lmi_outline_told(o, "dry");
    block_object(b, "head");
    block_text_field(b, "type", o->name);
    block_text_field(b, "type_path", o->type_path);
    block_text_field(b, "target", lmi_outline_told(o, "target"));
    block_text_field(b, "input", o->at[0].in);
    block_text_field(b, "output", o->at[0].out);
    block_text_field(b, "mode", o->mode);
    block_key(b, "dry");
    lmi_put(b, !dry ? "null" : strcmp(dry, "yes") == 0 ? "true" : "false");
    block_truth_field(b, "backward", o->backward);
    block_text_field(b, "convention", o->convention);
    block_text_field(b, "source", o->source);
    block_text_field(b, "version", o->version);
    block_text_field(b, "torch", lmi_outline_told(o, "torch"));
    block_text_field(b, "python", lmi_outline_told(o, "python"));
    block_text_field(b, "os", lmi_outline_told(o, "system"));
    block_text_field(b, "cpu", lmi_outline_told(o, "processor"));
    block_key(b, "threads");
    put_number(b, lmi_outline_told(o, "threads"));
    block_text_field(b, "date", lmi_outline_told(o, "date"));
    block_int_field(b, "modules", o->modules);
    block_int_field(b, "calls", o->calls);
    PUT(b, "}");
}

static bool is_known(lam_count c) { return c.state != LAM_UNKNOWN || c.n > 0; }

/* Backward and recomputation are summed, as in the columns. */
static void put_work(lmi_buf *b, const lmi_outline *o, lmi_figure k) {
    char name[32];
    lam_count back = lmi_figure_whole(o, lmi_figures[k].back);
    put_count(b, lmi_figures[k].name, lmi_figure_whole(o, k));
    snprintf(name, sizeof name, "b_%s", lmi_figures[k].name);
    if (is_known(back)) put_count(b, name, back);
}

static void put_totals(block *k) {
    lmi_buf *b = k->out;
    const lmi_outline *o = k->o;
    block_object(b, "tot");
    put_count(b, "params", o->params.params);
    put_count(b, "trainable", o->params.grad_params);
    put_count(b, "param_bytes", o->params.param_bytes);
    if (lmi_has_logical(&o->params)) put_count(b, "logical_bytes", o->params.logical_bytes);
    if (!lmi_is_same(o->params.local_bytes, o->params.param_bytes))
        put_count(b, "local_bytes", o->params.local_bytes);
    put_count(b, "buffers", o->params.buffers);
    put_count(b, "buffer_bytes", o->params.buffer_bytes);
    lmi_figure f;
    for (int i = 0; (f = lmi_figure_at(LMI_PAGED, i)) != LMI_FIGURE_NO; i++)
        if (lmi_figures[f].metric >= 0) put_work(b, o, f);
    PUT(b, "}");
}

static void put_points(block *k) {
    const lmi_outline *o = k->o;
    block_list(k->out, "t");
    for (int32_t i = 0; i < o->n_points; i++) block_int(k->out, o->point[i].us);
    PUT(k->out, "]");
    block_list(k->out, "b");
    for (int32_t i = 0; i < o->n_points; i++) block_int(k->out, o->point[i].bytes);
    PUT(k->out, "]");
}

/* The innermost place at work at a point of time; of several the one that began first; -1: none. */
static int32_t at_work(const lmi_outline *o, int64_t us) {
    const lmi_at_work *found = NULL;
    for (int32_t i = 0; i < o->n_at_work; i++) {
        const lmi_at_work *at = &o->at_work[i];
        bool is = at->us <= us && us <= at->us + at->length;
        if (is && (!found || at->depth > found->depth)) found = at;
    }
    return found ? found->place : -1;
}

static void put_at_work(block *k) {
    const lmi_outline *o = k->o;
    block_list(k->out, "at");
    for (int32_t i = 0; i < o->n_points; i++) block_int(k->out, at_work(o, o->point[i].us));
    PUT(k->out, "]");
}

/* The path of a place, or null. */
static void path_field(block *k, const char *name, int32_t place) {
    lmi_buf path;
    lmi_buf_init(&path);
    if (place >= 0) lmi_outline_path(k->o, place, &path);
    block_text_field(k->out, name, place < 0 ? NULL : lmi_buf_text(&path));
    lmi_buf_used(&path, k->out);
}

static void known_field(lmi_buf *b, const char *name, int64_t v) {
    if (v >= 0)
        block_int_field(b, name, v);
    else
        block_text_field(b, name, NULL);
}

static void put_memory(block *k) {
    lmi_buf *b = k->out;
    const lam_memory_totals *m = k->o->memory;
    if (!m) {
        block_text_field(b, "mem", NULL);
        return;
    }
    block_object(b, "mem");
    put_points(k);
    put_at_work(k);
    block_int_field(b, "peak", m->peak);
    block_int_field(b, "before", m->before);
    block_int_field(b, "allocated", m->allocated);
    path_field(k, "peak_in", k->o->peak_place);
    block_text_field(b, "peak_phase", lmi_peak_phase(m));
    known_field(b, "back", k->o->backward_us);
    block_key(b, "held");
    put_categories(b, m->held);
    block_object(b, "rss");
    known_field(b, "open", m->info.rss_open);
    known_field(b, "peak", m->info.rss_peak);
    known_field(b, "close", m->info.rss_close);
    PUT(b, "}");
    block_text_field(b, "source", m->info.source);
    PUT(b, "}");
}

static void put_times(block *k) {
    static const char *const parts[LAM_N_TIME_PARTS] = {"forward", "backward", "recompute",
                                                        "engine",  "outside",  "whole"};
    lmi_buf *b = k->out;
    if (!k->o->timed) {
        block_text_field(b, "time", NULL);
        return;
    }
    block_object(b, "time");
    for (int p = 0; p < LAM_N_TIME_PARTS; p++) {
        const lam_spread *s = &k->o->time[p];
        if (s->n == 0) {
            block_text_field(b, parts[p], NULL);
            continue;
        }
        block_list(b, parts[p]);
        block_int(b, s->median);
        block_int(b, s->deviation);
        block_int(b, s->least);
        block_int(b, s->most);
        PUT(b, "]");
    }
    block_int_field(b, "runs", k->o->repeats);
    block_int_field(b, "outliers", k->o->outliers);
    PUT(b, "}");
}

/* How near places come to the machine's limits: intensity, speed, the limit and its share. */
static void put_speeds(block *k) {
    lmi_buf *b = k->out;
    lam_speed s;
    block_object(b, "speed");
    for (int32_t i = 0; i < k->o->n; i++) {
        if (!lmi_place_speed_of(k->o, i, &k->o->roof, &s)) continue;
        block_index(b, i);
        PUT(b, "[\"");
        lmi_put_digits(b, s.intensity);
        PUT(b, " FLOP/byte\",\"");
        lmi_put_si(b, s.flops);
        lmi_putf(b, "FLOP/s\",\"%s, ", lmi_speed_bound(&s));
        lmi_put_share(b, s.share, 1);
        PUT(b, "\"]");
    }
    PUT(b, "}");
}

/* -- drawings and formulas ------------------------------------------------------------------------------- */

static void put_nodes(block *k, const lmi_level *l) {
    lmi_buf *b = k->out;
    block_list(b, "n");
    for (int32_t i = 0; i < l->n; i++) {
        block_tuple(b);
        block_int(b, l->node[i].look);
        block_int(b, text_at(k, l->node[i].label));
        block_int(b, text_at(k, l->node[i].note));
        PUT(b, "]");
    }
    PUT(b, "]");
    block_list(b, "w");
    for (int32_t i = 0; i < l->n; i++) block_int(b, l->size[i].w);
    PUT(b, "]");
    block_list(b, "h");
    for (int32_t i = 0; i < l->n; i++) block_int(b, l->size[i].h);
    PUT(b, "]");
    block_list(b, "sp");
    for (int32_t i = 0; i < l->n; i++)
        if (l->at.spine[i]) block_int(b, i);
    PUT(b, "]");
}

static void put_lines(lmi_buf *b, const char *name, const lmi_line_ends *line, int32_t n) {
    block_list(b, name);
    for (int32_t i = 0; i < n; i++) {
        block_tuple(b);
        block_int(b, line[i].from);
        block_int(b, line[i].to);
        PUT(b, "]");
    }
    PUT(b, "]");
}

static void put_level(block *k, const lmi_level *l) {
    lmi_buf *b = k->out;
    const lmi_drawing *at = &l->at;
    block_next(b);
    PUT(b, "{");
    put_nodes(k, l);
    block_ints(b, "x", at->x, l->n);
    block_ints(b, "y", at->y, l->n);
    block_ints(b, "r", at->rank, l->n);
    block_ints(b, "r0", at->top, at->n_ranks);
    block_ints(b, "r1", at->bottom, at->n_ranks);
    block_list(b, "d");
    for (int32_t i = 0; i < at->n_waypoints; i++) {
        block_tuple(b);
        block_int(b, at->waypoint[i].x);
        block_int(b, at->waypoint[i].rank);
        block_int(b, at->waypoint[i].source);
        PUT(b, "]");
    }
    PUT(b, "]");
    put_lines(b, "e", at->segment, at->n_segments);
    if (at->shared) put_lines(b, "bus", l->line, l->n_lines);
    if (l->cut) block_int_field(b, "cut", l->cut);
    PUT(b, "}");
}

/* The places that have a drawing, or formulas: `offset`, in lmi_outlined, of its index. */
static void put_indices(block *k, const char *name, size_t offset) {
    block_object(k->out, name);
    for (int32_t i = 0; i < k->o->n; i++) {
        int32_t index;
        memcpy(&index, (const char *)&k->o->at[i] + offset, sizeof index);
        if (index < 0) continue;
        block_index(k->out, i);
        quick_int(k->out, index);
    }
    PUT(k->out, "}");
}

static void put_levels(block *k) {
    lmi_buf *b = k->out;
    block_list(b, "lv");
    for (int32_t i = 0; i < k->o->n_levels; i++) put_level(k, &k->o->level[i]);
    PUT(b, "]");
    put_indices(k, "lvof", offsetof(lmi_outlined, level));
}

/* "aten::mm", or "aten::mm ×3" of three. */
static const char *name_of(block *k, const lmi_formula_group *g) {
    lmi_buf name;
    if (g->n_equal < 2) return g->name;
    lmi_buf_init(&name);
    lmi_putf(&name, "%s \u00d7%d", g->name, (int)g->n_equal);
    const char *kept = name.bad ? NULL : lmi_strndup(&k->arena, name.s, name.n);
    lmi_buf_free(&name);
    if (!kept) k->out->bad = true;
    return kept ? kept : "";
}

static void put_group(block *k, const lmi_formula_group *g) {
    lmi_buf *b = k->out;
    block_tuple(b);
    block_int(b, g->phase);
    block_int(b, text_at(k, name_of(k, g)));
    PUT(b, ",[");
    for (int32_t i = 0; i < g->n; i++) {
        const lmi_outlined_formula *f = &g->at[i];
        block_tuple(b);
        block_int(b, f->metric);
        block_int(b, text_at(k, f->formula));
        block_int(b, text_at(k, f->filled));
        if (f->value >= 0)
            block_int(b, f->value);
        else
            PUT(b, ",null");
        PUT(b, "]");
    }
    PUT(b, "]]");
}

static void put_formulas(block *k) {
    lmi_buf *b = k->out;
    block_list(b, "why");
    for (int32_t i = 0; i < k->o->n_formulas; i++) {
        const lmi_formulas *f = &k->o->formulas[i];
        block_tuple(b);
        for (int32_t g = 0; g < f->n; g++) put_group(k, &f->at[g]);
        PUT(b, "]");
    }
    PUT(b, "]");
    put_indices(k, "whyof", offsetof(lmi_outlined, formulas));
}

/* -- sentences ------------------------------------------------------------------------------------------- */

static void put_health(block *k) {
    lmi_buf *b = k->out;
    if (!k->o->health) {
        block_text_field(b, "health", NULL);
        return;
    }
    block_object(b, "health");
    block_text_field(b, "sentence", k->o->health);
    block_int_field(b, "tensors", k->o->looked);
    block_list(b, "findings");
    for (int32_t i = 0; i < k->o->n_findings && i < LISTED; i++) {
        block_next(b);
        PUT(b, "{");
        block_text_field(b, "text", k->o->finding[i]->text);
        block_text_field(b, "phase", lam_phase_name(k->o->finding[i]->phase));
        path_field(k, "path", k->o->finding_place[i]);
        PUT(b, "}");
    }
    PUT(b, "]}");
}

static void put_reasons(block *k, const char *name, const char *(*at)[2], int32_t n) {
    lmi_buf *b = k->out;
    block_list(b, name);
    for (int32_t i = 0; i < n && i < LISTED; i++) {
        block_next(b);
        PUT(b, "{");
        block_text_field(b, "path", at[i][0]);
        block_text_field(b, "reason", at[i][1]);
        PUT(b, "}");
    }
    PUT(b, "]");
}

static void put_sentences(block *k, const char *name, const char *const *at, int32_t n) {
    block_list(k->out, name);
    for (int32_t i = 0; i < n; i++) {
        block_next(k->out);
        lmi_put_json_in_html(k->out, at[i]);
    }
    PUT(k->out, "]");
}

static void put_operators(block *k) {
    if (k->o->ops_ran == 0) {
        block_text_field(k->out, "ops", NULL);
        return;
    }
    block_object(k->out, "ops");
    block_int_field(k->out, "ran", k->o->ops_ran);
    block_int_field(k->out, "counted", k->o->ops_counted);
    block_int_field(k->out, "known", k->o->ops_ruled);
    PUT(k->out, "}");
}

/* -- a difference ---------------------------------------------------------------------------------------- */

/* Writes the numbers before, by place of both trees together. */
static void put_columns_before(block *k) {
    const lmi_outline *o = k->o, *was = o->was;
    lmi_buf *b = k->out;
    block_object(b, "col");
    for (int c = 0; c < LMI_N_OWN; c++) {
        if (!was->own[c] || is_of_the_whole(c)) continue;
        block_list(b, lmi_own_names[c]);
        for (int32_t i = 0; i < o->n; i++) block_int(b, o->was_at[i] < 0 ? 0 : was->own[c][o->was_at[i]]);
        PUT(b, "]");
    }
    PUT(b, "}");
    block_object(b, "held");
    for (int32_t i = 0; i < o->n && was->held; i++) {
        if (o->was_at[i] < 0) continue;
        block_index(b, i);
        put_categories(b, was->held[o->was_at[i]]);
    }
    PUT(b, "}");
}

static void put_course_before(block *before) {
    const lam_memory_totals *m = before->o->memory;
    if (!m) {
        block_text_field(before->out, "mem", NULL);
        return;
    }
    block_object(before->out, "mem");
    block_int_field(before->out, "peak", m->peak);
    PUT(before->out, "}");
}

/* Writes the old paths of renamed places. */
static void put_names_before(block *k) {
    const lmi_outline *o = k->o;
    lmi_buf path;
    lmi_buf_init(&path);
    block_object(k->out, "renamed");
    for (int32_t i = 0; i < o->n; i++) {
        if (o->change[i] != LMI_RENAMED) continue;
        lmi_buf_clear(&path);
        lmi_outline_path(o->was, o->was_at[i], &path);
        block_index(k->out, i);
        lmi_put_json_in_html(k->out, lmi_buf_text(&path));
    }
    PUT(k->out, "}");
    lmi_buf_used(&path, k->out);
}

static void put_difference(block *k) {
    const lmi_outline *o = k->o;
    if (!o->was) return;
    block before = {.out = k->out, .o = o->was};
    block_object(k->out, "base");
    block_text_field(k->out, "name",
                     lmi_outline_told(o->was, "target") ? lmi_outline_told(o->was, "target") : o->was->name);
    block_text_field(k->out, "convention", o->was->convention);
    put_columns_before(k);
    put_totals(&before);
    put_course_before(&before);
    put_times(&before);
    PUT(k->out, "}");
    block_list(k->out, "dst");
    for (int32_t i = 0; i < o->n; i++) block_int(k->out, o->change[i]);
    PUT(k->out, "]");
    put_names_before(k);
}

static void put_all(block *k) {
    const lmi_outline *o = k->o;
    text_at(k, "");
    PUT(k->out, "{");
    block_int_field(k->out, "v", 1);
    block_text_field(k->out, "name", o->name);
    put_head(k);
    put_figures(k->out);
    put_tree(k);
    put_columns(k);
    put_health_marks(k);
    put_held(k);
    put_totals(k);
    put_memory(k);
    put_speeds(k);
    put_levels(k);
    put_formulas(k);
    put_health(k);
    put_reasons(k, "unused", o->unused, o->n_unused);
    put_reasons(k, "nograd", o->no_gradient, o->n_no_gradient);
    put_sentences(k, "gaps", o->gap, o->n_gaps);
    put_sentences(k, "notes", o->note, o->n_notes);
    put_operators(k);
    put_times(k);
    put_sentences(k, "left", o->left, o->n_left);
    put_difference(k);
    put_sentences(k, "S", k->texts.data, (int32_t)k->texts.n);
    lmi_put(k->out, "}");
}

void lmi_page_data(lmi_buf *out, const lmi_outline *o) {
    block k = {.out = out, .o = o};
    lmi_map_init(&k.index);
    lmi_vec_init(&k.texts, sizeof(const char *));
    lmi_arena_init(&k.arena, UINT64_MAX);
    put_all(&k);
    lmi_map_free(&k.index);
    lmi_vec_free(&k.texts);
    lmi_arena_free(&k.arena);
}
