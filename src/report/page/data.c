/* SPDX-License-Identifier: Apache-2.0
 *
 * The block of data that the page's script reads, as JSON; block.schema.json says what each key means. It
 * stands inside a <script> element, so no text in it may end that element. Columns have a number for each
 * place, row 0 is the root, rows are in depth-first order. A number for a text is its index in `texts`, whose
 * first text is empty. */
#include "analyse/run/memory.h"
#include "report/page/block.h"
#include "report/page/page.h"

typedef struct block {
    const lmi_page *p;
    lmi_buf *out;
    const lmi_outline *o;
    lmi_map index; /* of each text in `texts` */
    lmi_vec texts; /* const char * */
    lmi_arena arena;
} block;

/* -- JSON ------------------------------------------------------------------------------------------------ */

/* The index of a text in `texts`. */
static int64_t text_at(block *k, const char *text) {
    int64_t at = lmi_map_get(&k->index, text ? text : "");
    if (at >= 0) return at;
    const char **more = lmi_vec_add(&k->texts, 1);
    at = (int64_t)k->texts.n - 1;
    if (more) *more = text;
    if (!more || lmi_map_put(&k->index, text, at, NULL) != LAM_OK) k->out->bad = true;
    return at;
}

/* Writes a sparse column: {place: number}. */
static void index_field(lmi_buf *b, int32_t i, int64_t v) {
    block_index(b, i);
    quick_int(b, v);
}

static void put_texts(block *k, const char *name, const char *const *at, int32_t n) {
    block_list(k->out, name);
    for (int32_t i = 0; i < n; i++) {
        block_next(k->out);
        lmi_put_json_in_html(k->out, at[i]);
    }
    PUT(k->out, "]");
}

/* -- places ---------------------------------------------------------------------------------------------- */

/* `offset`: of a text in lmi_outline_place. */
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
    const int64_t *calls = o->own[LMI_OWN_CALLS];
    block_int_field(b, "places", o->n);
    block_list(b, "parent");
    for (int32_t i = 0; i < o->n; i++) block_int(b, o->at[i].parent);
    PUT(b, "]");
    text_column(k, "names", offsetof(lmi_outline_place, name));
    text_column(k, "types", offsetof(lmi_outline_place, type));
    text_column(k, "inputs", offsetof(lmi_outline_place, in));
    text_column(k, "outputs", offsetof(lmi_outline_place, out));
    block_object(b, "status");
    for (int32_t i = 0; i < o->n; i++) {
        uint8_t state = o->at[i].state;
        if (state != LMI_CALLED && state != LMI_CONTAINER_ALONE)
            index_field(b, i, text_at(k, lmi_state_names[state]));
    }
    PUT(b, "}");
    block_object(b, "calls");
    for (int32_t i = 0; i < o->n && calls; i++)
        if (calls[i] > 1) index_field(b, i, calls[i]);
    PUT(b, "}");
    put_texts(k, "families", lmi_family_class, LMI_N_FAMILIES);
    block_list(b, "family");
    for (int32_t i = 0; i < o->n; i++) block_int(b, o->at[i].family);
    PUT(b, "]");
    block_object(b, "run");
    for (int32_t i = 0; i < o->n; i++)
        if (o->at[i].n_run > 1) index_field(b, i, o->at[i].n_run);
    PUT(b, "}");
}

/* -- numbers --------------------------------------------------------------------------------------------- */

/* One number of all places: after, or of a difference before. */
typedef struct view {
    const lmi_outline *o;
    const int32_t *at; /* by place, its index in `o`, -1: it is not there; NULL: the same */
    const lmi_page_number *n;
} view;

static int32_t place_of(const view *v, int32_t i) { return v->at ? v->at[i] : i; }

/* Sparse columns: what of a number stands in the place itself, if it has others inside; and the number to
 * show, if that is not the sum. */
static void put_exceptions(block *k, const view *v, const char *name, bool own) {
    block_object(k->out, name);
    for (int32_t i = 0; i < k->o->n; i++) {
        int32_t place = place_of(v, i);
        if (place < 0 || (own && !v->o->at[place].n_children)) continue;
        int64_t n = own ? lmi_shown_own(v->o, &v->n->of, place) : lmi_shown(v->o, &v->n->of, place);
        if (n != (own ? 0 : lmi_shown_total(v->o, &v->n->of, place))) index_field(k->out, i, n);
    }
    PUT(k->out, "}");
}

static void put_view(block *k, const char *name, const view *v) {
    lmi_buf *b = k->out;
    block_object(b, name);
    block_key(b, "label");
    PUT(b, "\"");
    lmi_put(b, lmi_part_title(v->n->of.by));
    lmi_put(b, lmi_page_phase(v->n));
    PUT(b, "\"");
    block_list(b, "total");
    for (int32_t i = 0; i < k->o->n; i++) {
        lam_count c = lmi_page_count(v->o, v->n, place_of(v, i));
        block_int(b, c.over ? INT64_MAX : c.n);
    }
    PUT(b, "]");
    block_object(b, "state");
    for (int32_t i = 0; i < k->o->n; i++) {
        lam_count c = lmi_page_count(v->o, v->n, place_of(v, i));
        if (c.state != LAM_EXACT || c.over) index_field(b, i, c.state == LAM_EXACT ? LAM_AT_LEAST : c.state);
    }
    PUT(b, "}");
    put_exceptions(k, v, "own", true);
    put_exceptions(k, v, "shown", false);
    if (v->at) block_truth_field(b, "comparable", lmi_page_is_comparable(k->o, v->n));
    PUT(b, "}");
}

/* The forward's numbers, and those of a step if any of them was taken. */
static void put_views(block *k, const lmi_page_number *n, const lmi_outline *o, const int32_t *at) {
    lmi_page_number step = lmi_page_step(n);
    put_view(k, "forward", &(view){o, at, n});
    if (lmi_page_has_step(k->o, n)) put_view(k, "step", &(view){o, at, &step});
}

static void put_number(block *k, const lmi_page_number *n) {
    static const char *const units[] = {
        [LMI_COUNTS] = "counts", [LMI_BYTES] = "bytes", [LMI_TIMES] = "times"};
    lmi_buf *b = k->out;
    block_next(b);
    PUT(b, "{");
    block_text_field(b, "name", n->key);
    block_text_field(b, "title", lmi_part_title(n->of.by));
    block_text_field(b, "unit", units[lmi_figures[n->of.by].unit]);
    put_views(k, n, k->o, NULL);
    if (k->o->was) {
        block_object(b, "before");
        put_views(k, n, k->o->was, k->o->was_at);
        PUT(b, "}");
    }
    PUT(b, "}");
}

/* An outline without numbers has its parameters: none. */
static void put_numbers(block *k) {
    static const lmi_page_number none = {"params", {.by = LMI_FIGURE_PARAMS}};
    block_list(k->out, "numbers");
    for (int32_t i = 0; i < k->p->n_numbers; i++) put_number(k, &k->p->number[i]);
    if (!k->p->n_numbers) put_number(k, &none);
    PUT(k->out, "]");
}

static void put_marks(block *k) {
    bool any = false;
    for (int32_t i = 0; i < k->o->n; i++) any = any || lmi_place_mark(&k->o->at[i]);
    if (!any) return;
    block_list(k->out, "marks");
    for (int i = 1; i < LMI_N_MARKS; i++) {
        block_tuple(k->out);
        lmi_put_json_in_html(k->out, lmi_marks[i].word);
        PUT(k->out, ",");
        lmi_put_json_in_html(k->out, lmi_marks[i].look);
        PUT(k->out, "]");
    }
    PUT(k->out, "]");
    block_list(k->out, "health");
    for (int32_t i = 0; i < k->o->n; i++) block_int(k->out, lmi_place_mark(&k->o->at[i]));
    PUT(k->out, "]");
}

/* `at`: by place, its index in `o`, as of a view. */
static void put_held(block *k, const char *name, const lmi_outline *o, const int32_t *at) {
    lmi_buf *b = k->out;
    block_object(b, name);
    for (int32_t i = 0; i < k->o->n && o->held; i++) {
        int32_t place = at ? at[i] : i;
        bool any = false;
        for (int h = 0; h < LAM_N_HELD && place >= 0; h++) any = any || o->held[place][h] != 0;
        if (!any) continue;
        block_index(b, i);
        PUT(b, "[");
        for (int h = 0; h < LAM_N_HELD; h++) block_int(b, o->held[place][lmi_held_order[h]]);
        PUT(b, "]");
    }
    PUT(b, "}");
}

static void put_categories(lmi_buf *b) {
    block_list(b, "categories");
    for (int h = 0; h < LAM_N_HELD; h++) {
        block_next(b);
        lmi_put_json_in_html(b, lam_held_name(lmi_held_order[h]));
    }
    PUT(b, "]");
}

/* -- the run --------------------------------------------------------------------------------------------- */

static void put_points(block *k) {
    const lmi_outline *o = k->o;
    block_list(k->out, "times");
    for (int32_t i = 0; i < o->n_points; i++) block_int(k->out, o->point[i].us);
    PUT(k->out, "]");
    block_list(k->out, "bytes");
    for (int32_t i = 0; i < o->n_points; i++) block_int(k->out, o->point[i].bytes);
    PUT(k->out, "]");
}

/* The innermost place at work at a point of time; of several the one that began first; -1: none. */
static int32_t at_work(const lmi_outline *o, int64_t us) {
    const lmi_active *found = NULL;
    for (int32_t i = 0; i < o->n_at_work; i++) {
        const lmi_active *at = &o->at_work[i];
        bool is = at->us <= us && us <= at->us + at->length;
        if (is && (!found || at->depth > found->depth)) found = at;
    }
    return found ? found->place : -1;
}

static void put_at_work(block *k) {
    const lmi_outline *o = k->o;
    block_list(k->out, "at_work");
    for (int32_t i = 0; i < o->n_points; i++) block_int(k->out, at_work(o, o->point[i].us));
    PUT(k->out, "]");
}

static void put_memory(block *k) {
    lmi_buf *b = k->out;
    if (!k->o->memory) {
        block_text_field(b, "memory", NULL);
        return;
    }
    block_object(b, "memory");
    put_points(k);
    put_at_work(k);
    PUT(b, "}");
}

/* How near places come to the machine's limits: intensity, speed, the limit and its share. */
static void put_speeds(block *k) {
    lmi_buf *b = k->out;
    lam_speed s;
    block_object(b, "speeds");
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
    block_list(b, "nodes");
    for (int32_t i = 0; i < l->n; i++) {
        block_tuple(b);
        block_int(b, l->node[i].look);
        block_int(b, text_at(k, l->node[i].label));
        block_int(b, text_at(k, l->node[i].note));
        PUT(b, "]");
    }
    PUT(b, "]");
    block_list(b, "widths");
    for (int32_t i = 0; i < l->n; i++) block_int(b, l->size[i].w);
    PUT(b, "]");
    block_list(b, "heights");
    for (int32_t i = 0; i < l->n; i++) block_int(b, l->size[i].h);
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
    block_ints(b, "rank", at->rank, l->n);
    block_ints(b, "tops", at->top, at->n_ranks);
    block_ints(b, "bottoms", at->bottom, at->n_ranks);
    block_list(b, "waypoints");
    for (int32_t i = 0; i < at->n_waypoints; i++) {
        block_tuple(b);
        block_int(b, at->waypoint[i].x);
        block_int(b, at->waypoint[i].rank);
        block_int(b, at->waypoint[i].source);
        PUT(b, "]");
    }
    PUT(b, "]");
    put_lines(b, "segments", at->segment, at->n_segments);
    if (at->shared) put_lines(b, "rail", l->line, l->n_lines);
    PUT(b, "}");
}

/* The places that have a drawing, or formulas: `offset`, in lmi_outline_place, of its index. */
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
    block_list(b, "drawings");
    for (int32_t i = 0; i < k->o->n_levels; i++) put_level(k, &k->o->level[i]);
    PUT(b, "]");
    put_indices(k, "drawing_of", offsetof(lmi_outline_place, level));
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
    block_list(b, "formulas");
    for (int32_t i = 0; i < k->o->n_formulas; i++) {
        const lmi_formulas *f = &k->o->formulas[i];
        block_tuple(b);
        for (int32_t g = 0; g < f->n; g++) put_group(k, &f->at[g]);
        PUT(b, "]");
    }
    PUT(b, "]");
    put_indices(k, "formulas_of", offsetof(lmi_outline_place, formulas));
}

/* -- a difference ---------------------------------------------------------------------------------------- */

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

/* What the model is called beside another: its target, or its type. */
static const char *name_beside(const lmi_outline *o) {
    const char *target = lmi_outline_provenance(o, "target");
    return target ? target : o->name;
}

static void put_difference(block *k) {
    const lmi_outline *o = k->o;
    if (!o->was) {
        block_text_field(k->out, "before", NULL);
        return;
    }
    block_object(k->out, "before");
    block_text_field(k->out, "name", name_beside(o->was));
    if (o->was->memory) put_held(k, "held", o->was, o->was_at);
    PUT(k->out, "}");
    block_list(k->out, "changes");
    for (int32_t i = 0; i < o->n; i++) block_int(k->out, o->change[i]);
    PUT(k->out, "]");
    put_names_before(k);
}

static void put_all(block *k) {
    const lmi_outline *o = k->o;
    text_at(k, "");
    PUT(k->out, "{");
    block_int_field(k->out, "version", 2);
    block_text_field(k->out, "name", name_beside(o));
    put_tree(k);
    put_numbers(k);
    put_marks(k);
    put_categories(k->out);
    put_held(k, "held", o, NULL);
    put_memory(k);
    put_speeds(k);
    put_levels(k);
    put_formulas(k);
    put_difference(k);
    put_texts(k, "texts", k->texts.data, (int32_t)k->texts.n);
    lmi_put(k->out, "}");
}

void lmi_page_data(lmi_page *p) {
    block k = {.p = p, .out = &p->out, .o = p->o};
    lmi_map_init(&k.index);
    lmi_vec_init(&k.texts, sizeof(const char *));
    lmi_arena_init(&k.arena, UINT64_MAX);
    put_all(&k);
    lmi_map_free(&k.index);
    lmi_vec_free(&k.texts);
    lmi_arena_free(&k.arena);
}
