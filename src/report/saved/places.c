/* SPDX-License-Identifier: Apache-2.0
 *
 * The tree of a saved report, whose rows name their places by path, and the numbers of each place. */
#include "base/sqlite.h"
#include "report/saved/saved.h"

#include <stdlib.h>

/* Deeper than any model, and still so shallow that a path has few prefixes. */
enum { DEEPEST = 2000, MOST_PLACES = 1 << 24 };

#define PATH "CASE json_type(value, '$.path') WHEN 'text' THEN json_extract(value, '$.path') END"

/* -- the tree -------------------------------------------------------------------------------------------- */

typedef struct node {
    const char *name;
    int32_t parent, first, last, next; /* children in the order in which rows name them; -1 none */
} node;

typedef struct growing {
    lmi_saved *s;
    lmi_vec nodes;
} growing;

static lam_status add_node(growing *g, int32_t parent, const char *name, const char *path, int32_t *out) {
    lam_error *e = g->s->w.e;
    int32_t i = (int32_t)g->nodes.n;
    if (i >= MOST_PLACES) return lmi_saved_wrong(g->s, "it has more modules than any model");
    LAM_TRY(lmi_vec_put(&g->nodes, &(node){name, parent, -1, -1, -1}, e));
    if (parent >= 0) {
        node *all = g->nodes.data, *up = &all[parent];
        if (up->last >= 0)
            all[up->last].next = i;
        else
            up->first = i;
        up->last = i;
    }
    *out = i;
    return lmi_map_put(&g->s->by_path, path, i, e);
}

/* The node of a path; it and all nodes above it are made if they are new. */
static lam_status find_node(growing *g, const char *path, int32_t *out) {
    lmi_taking *w = &g->s->w;
    int64_t known = lmi_map_get(&g->s->by_path, path);
    int32_t up = 0, depth = 0;
    if (known >= 0) {
        *out = (int32_t)known;
        return LAM_OK;
    }
    for (const char *at = path;;) {
        const char *dot = strchr(at, '.');
        size_t n = dot ? (size_t)(dot - path) : strlen(path);
        if (++depth > DEEPEST) return lmi_saved_wrong(g->s, "a path in it is deeper than any model");
        char *prefix = lmi_strndup(&w->scratch, path, n);
        if (!prefix) return lmi_nomem(w->e);
        known = lmi_map_get(&g->s->by_path, prefix);
        if (known < 0) {
            const char *name = lmi_take_text(w, prefix + (at - path));
            if (!name) return lmi_nomem(w->e);
            LAM_TRY(add_node(g, up, name, prefix, &up));
        } else {
            up = (int32_t)known;
        }
        if (!dot) break;
        at = dot + 1;
    }
    *out = up;
    return LAM_OK;
}

typedef struct growth {
    growing *g;
    bool rows;
} growth;

/* Adds a row's place, or one of the tree, which gives their order; an older lamina wrote no tree. */
static lam_status grow_at(lmi_saved *s, sqlite3_stmt *q, void *to) {
    const growth *by = to;
    const char *path = (const char *)sqlite3_column_text(q, 0);
    int32_t place, *of_row = by->rows ? lmi_vec_push(&s->of_row) : &place;
    if (!of_row) return lmi_nomem(s->w.e);
    if (!path || sqlite3_column_type(q, 0) != SQLITE_TEXT)
        return lmi_saved_wrong(s, by->rows ? "a row of it has no path" : "a place of its tree has no path");
    return find_node(by->g, path, of_row);
}

/* True if a row is there twice: one call, or one place without a call. */
static const char repeated[] =
    "SELECT count(*) > 0 FROM (SELECT 1 FROM json_each(?1, '$.rows') WHERE json_type(value, '$.status') = "
    "'text' GROUP BY json_extract(value, '$.path'), json_extract(value, '$.status'), json_extract(value, "
    "'$.call') HAVING count(*) > 1)";

static lam_status grow(growing *g) {
    lmi_saved *s = g->s;
    int32_t root;
    bool twice;
    LAM_TRY(add_node(g, -1, "", "", &root));
    LAM_TRY(lmi_saved_each(s, "SELECT " PATH " FROM json_each(?1, '$.tree')", grow_at, &(growth){g, false}));
    LAM_TRY(lmi_saved_each(s, "SELECT " PATH " FROM json_each(?1, '$.rows')", grow_at, &(growth){g, true}));
    LAM_TRY(lmi_saved_truth(s, repeated, &twice));
    return twice ? lmi_saved_wrong(s, "it has two rows of one call") : LAM_OK;
}

/* Puts the nodes into depth-first order; `index` has the position of each. */
static void order_nodes(lmi_taking *w, const node *all, int32_t *index) {
    for (int32_t id = 0; id >= 0;) {
        const node *n = &all[id];
        int32_t i = w->n++, to = n->first;
        lmi_outlined *at = &w->at[i];
        *at = lmi_outlined_new(i, n->parent < 0 ? -1 : index[n->parent], n->name, "");
        at->depth = at->parent < 0 ? 0 : w->at[at->parent].depth + 1;
        if (at->parent >= 0) w->at[at->parent].n_children++;
        index[id] = i;
        while (to < 0 && id >= 0) {
            w->at[index[id]].end = w->n;
            to = all[id].next;
            id = all[id].parent;
        }
        id = to;
    }
}

static lam_status place_nodes(growing *g) {
    lmi_taking *w = &g->s->w;
    uint64_t n = g->nodes.n;
    int32_t *index = lmi_alloc(&w->scratch, n, sizeof *index), *of_row = g->s->of_row.data;
    w->at = lmi_alloc(&w->scratch, n, sizeof *w->at);
    w->of_place = lmi_alloc(&w->scratch, n, sizeof *w->of_place);
    if (!index || !w->at || !w->of_place) return lmi_nomem(w->e);
    g->s->index = index;
    w->n_places = (int32_t)n;
    for (int32_t i = 0; i < w->n_places; i++) w->of_place[i] = i;
    order_nodes(w, g->nodes.data, index);
    for (size_t i = 0; i < g->s->of_row.n; i++) of_row[i] = index[of_row[i]];
    for (int k = 0; k < LMI_N_OWN; k++) {
        w->own[k] = lmi_alloc(&w->scratch, n, sizeof *w->own[k]);
        w->state[k] = lmi_alloc(&w->scratch, n, sizeof *w->state[k]);
        if (!w->own[k] || !w->state[k]) return lmi_nomem(w->e);
    }
    return LAM_OK;
}

lam_status lmi_saved_places(lmi_saved *s) {
    growing g = {.s = s};
    lmi_vec_init(&g.nodes, sizeof(node));
    lam_status status = grow(&g);
    if (status == LAM_OK) status = place_nodes(&g);
    lmi_vec_free(&g.nodes);
    return status;
}

lam_status lmi_saved_place(const lmi_saved *s, const char *path, const char *wrong, int32_t *out) {
    int64_t number = lmi_map_get(&s->by_path, path);
    if (number < 0) return lmi_saved_wrong(s, wrong);
    *out = s->index[number];
    return LAM_OK;
}

/* -- numbers --------------------------------------------------------------------------------------------- */

/* The path of each count in a row, and in the totals of a report whose rows have it. The rows of every report
 * have the first four. Where a report does not have the last two, they are the bytes of the parameters. */
static const struct {
    lmi_own_number k;
    const char *path;
} counts[] = {{LMI_OWN_PARAMS, "params"},
              {LMI_OWN_PARAM_BYTES, "param_bytes"},
              {LMI_OWN_MACS, "macs"},
              {LMI_OWN_FLOPS, "flops"},
              {LMI_OWN_READ, "bytes_read"},
              {LMI_OWN_WRITTEN, "bytes_written"},
              {LMI_OWN_BACK_MACS, "backward.macs"},
              {LMI_OWN_BACK_FLOPS, "backward.flops"},
              {LMI_OWN_BACK_READ, "backward.bytes_read"},
              {LMI_OWN_BACK_WRITTEN, "backward.bytes_written"},
              {LMI_OWN_BACK_MACS, "recompute.macs"},
              {LMI_OWN_BACK_FLOPS, "recompute.flops"},
              {LMI_OWN_BACK_READ, "recompute.bytes_read"},
              {LMI_OWN_BACK_WRITTEN, "recompute.bytes_written"},
              {LMI_OWN_LOGICAL_BYTES, "logical_bytes"},
              {LMI_OWN_LOCAL_BYTES, "local_bytes"}};
/* Other numbers, and what a report has if the rows of calls have them. */
static const struct {
    lmi_own_number k;
    const char *path, *whole;
} wholes[] = {{LMI_OWN_TIME, "time.forward.self", "time.forward"},
              {LMI_OWN_TOTAL_TIME, "time.forward.total", "time.forward"},
              {LMI_OWN_BACK_TIME, "time.backward.self", "time.backward"},
              {LMI_OWN_BACK_TIME, "time.recompute.self", "time.recompute"},
              {LMI_OWN_ALLOCATED, "memory.own.forward.allocated", "memory"},
              {LMI_OWN_RETAINED, "memory.own.forward.retained", "memory"},
              {LMI_OWN_PEAK, "memory.total.forward.peak", "memory"}};
enum {
    STORED = 1,
    N_ALWAYS = 4,
    N_COUNTS = sizeof counts / sizeof *counts,
    AS_STORED = N_COUNTS - 2,
    N_WHOLES = sizeof wholes / sizeof *wholes
};
enum { TYPE, STATUS, INPUTS, OUTPUTS, HEALTH, BACK_HEALTH, FIRST };

/* "8×64×56×56 float32, 8 int64 +2" for a list of tensors, as in an outline of a model. */
#define TENSORS(list)                                                                                        \
    "(SELECT coalesce(group_concat(shown, ', '), '') || CASE WHEN max(n) > 3 THEN ' +' || (max(n) - 3) "     \
    "ELSE '' END FROM (SELECT CASE WHEN key < 3 THEN coalesce(CASE WHEN json_type(value, '$.shape') = "      \
    "'array' THEN CASE WHEN json_array_length(value, '$.shape') = 0 THEN 'scalar' ELSE (SELECT "             \
    "group_concat(value, '\u00d7') FROM json_each(t.value, '$.shape')) END END, '?') || coalesce(' ' || "    \
    "json_extract(value, '$.dtype'), '') END AS shown, key + 1 AS n FROM json_each(r.value, '$." list        \
    "') t))"

static void put_question(lmi_buf *b) {
    lmi_put(b, "SELECT json_extract(value, '$.type'), json_extract(value, '$.status'), " TENSORS(
                   "inputs") ", " TENSORS("outputs") ", json_extract(value, '$.health.forward'), "
                                                     "json_extract(value, '$.health.backward')");
    for (int i = 0; i < N_COUNTS; i++)
        lmi_putf(b, ", " LMI_SAVED_COUNT("value", "%s"), counts[i].path, counts[i].path);
    for (int i = 0; i < N_WHOLES; i++) lmi_putf(b, ", json_extract(value, '$.%s')", wholes[i].path);
    lmi_put(b, " FROM json_each(?1, '$.rows') r");
}

typedef struct numbered {
    bool counts[N_COUNTS], wholes[N_WHOLES];
} numbered;

static lam_status take_numbered(lmi_saved *s, sqlite3_stmt *q, void *to) {
    numbered *has = to;
    (void)s;
    for (int k = 0; k < N_COUNTS; k++) has->counts[k] = k < N_ALWAYS || sqlite3_column_int(q, k);
    for (int k = 0; k < N_WHOLES; k++) has->wholes[k] = sqlite3_column_int(q, N_COUNTS + k) != 0;
    return LAM_OK;
}

/* Finds the numbers that rows have; in a row that lacks one of them it is unknown. */
static lam_status find_numbered(lmi_saved *s, numbered *has) {
    lmi_buf *b = &s->w.text;
    lmi_buf_clear(b);
    for (int k = 0; k < N_COUNTS + N_WHOLES; k++)
        lmi_putf(b, "%s json_type(?1, '$.%s%s') = 'object'", k ? "," : "SELECT",
                 k < N_COUNTS ? "totals." : "", k < N_COUNTS ? counts[k].path : wholes[k - N_COUNTS].whole);
    LAM_TRY(lmi_buf_status(b, s->w.e));
    return lmi_saved_each(s, lmi_buf_text(b), take_numbered, has);
}

static lmi_place_state state_of(const char *status) {
    for (int i = LMI_CALLED; i <= LMI_OUTSIDE_CALLS; i++)
        if (strcmp(status, lmi_state_names[i]) == 0) return (lmi_place_state)i;
    return LMI_CONTAINER_ALONE;
}

static uint8_t health_of(const char *name) {
    for (int i = LAM_HEALTH_UNKNOWN; i <= LAM_HEALTH_BORN; i++)
        if (strcmp(name, lam_health_name((lam_health_state)i)) == 0) return (uint8_t)i;
    return LAM_HEALTH_UNKNOWN;
}

/* Takes a place's looks from its first call, as an outline of a model does. */
static lam_status look(lmi_saved *s, sqlite3_stmt *q, int32_t i) {
    lmi_outlined *at = &s->w.at[i];
    const char *text[FIRST];
    for (int k = 0; k < FIRST; k++) LAM_TRY(lmi_saved_text(s, q, k, &text[k]));
    lmi_place_state state = state_of(text[STATUS]);
    bool first = state == LMI_CALLED && s->w.own[LMI_OWN_CALLS][i] == 0;
    if (at->state == LMI_CONTAINER_ALONE || first) at->state = (uint8_t)state;
    if (!*at->type || first) at->type = text[TYPE];
    if (first) {
        at->in = text[INPUTS];
        at->out = text[OUTPUTS];
    }
    for (int p = 0; p < 2; p++) {
        uint8_t health = health_of(text[HEALTH + p]);
        if (health > at->health[p]) at->health[p] = health;
    }
    s->w.own[LMI_OWN_CALLS][i] += state == LMI_CALLED;
    at->family = (uint8_t)lmi_family_of_name(at->type, at->n_children > 0);
    return LAM_OK;
}

static lam_status add_row(lmi_saved *s, sqlite3_stmt *q, const numbered *has, int32_t i) {
    int64_t calls = s->w.own[LMI_OWN_CALLS][i];
    LAM_TRY(look(s, q, i));
    bool called = s->w.own[LMI_OWN_CALLS][i] > calls;
    int column = FIRST;
    lam_count stored = lmi_unknown();
    for (int k = 0; k < N_COUNTS; k++, column++) {
        lam_count c;
        LAM_TRY(lmi_saved_count(s, q, column, &c));
        if (k == STORED) stored = c;
        if (k >= AS_STORED && !has->counts[k]) c = stored;
        if (k >= AS_STORED || has->counts[k] || c.state != LAM_UNKNOWN) lmi_add_own(&s->w, counts[k].k, i, c);
    }
    for (int k = 0; k < N_WHOLES; k++, column++) {
        int64_t n, *most = &s->w.own[LMI_OWN_PEAK][i];
        LAM_TRY(lmi_saved_int(s, q, column, &n));
        if (wholes[k].k == LMI_OWN_PEAK)
            *most = n > *most ? n : *most;
        else if (n >= 0 || (called && has->wholes[k]))
            lmi_add_own(&s->w, wholes[k].k, i, lmi_count_of(n));
    }
    return LAM_OK;
}

/* -- attributes ------------------------------------------------------------------------------------------ */

typedef struct attributes {
    lmi_vec all;    /* lam_attr, those of a place one after another */
    int32_t *row;   /* by place: the row that has them; -1: none */
    int32_t *first; /* by place: the index in `all` */
} attributes;

/* Reads the numbers of "[3,-1]". A list of anything else gets n = -1. */
static lam_status take_ints(lmi_saved *s, const char *text, lam_value *v) {
    lmi_arena *arena = &s->w.o->arena;
    int32_t n = 0;
    for (const char *c = text; *c; c++) n += *c == ',' || *c == ']';
    int64_t *ints = lmi_alloc(arena, (uint64_t)n + 1, sizeof *ints);
    if (!ints) return lmi_nomem(s->w.e);
    *v = (lam_value){.type = LAM_INTS, .ints = ints};
    const char *at = text + 1;
    while (*at != ']') {
        char *end;
        ints[v->n++] = strtoll(at, &end, 10);
        if (end == at || (*end != ',' && *end != ']') || v->n > n) {
            v->n = -1;
            return LAM_OK;
        }
        at = end + (*end == ',');
    }
    return LAM_OK;
}

static lam_status take_value(lmi_saved *s, sqlite3_stmt *q, lam_value *v, bool *told) {
    const char *type = (const char *)sqlite3_column_text(q, 2);
    *told = type != NULL;
    if (!type) return LAM_OK;
    *v = (lam_value){.type = LAM_NONE};
    if (strcmp(type, "true") == 0 || strcmp(type, "false") == 0) {
        *v = (lam_value){.type = LAM_BOOL, .i = *type == 't'};
    } else if (strcmp(type, "integer") == 0) {
        *v = (lam_value){.type = LAM_INT, .i = sqlite3_column_int64(q, 3)};
    } else if (strcmp(type, "real") == 0) {
        *v = (lam_value){.type = LAM_FLOAT, .f = sqlite3_column_double(q, 3)};
    } else if (strcmp(type, "text") == 0) {
        v->type = LAM_TEXT;
        return lmi_saved_text(s, q, 3, &v->text);
    } else if (strcmp(type, "array") == 0) {
        const char *text = (const char *)sqlite3_column_text(q, 3);
        if (!text) return lmi_nomem(s->w.e);
        LAM_TRY(take_ints(s, text, v));
        *told = v->n >= 0;
    } else {
        *told = strcmp(type, "null") == 0;
    }
    return LAM_OK;
}

/* Only the first row of a place is used. */
static lam_status take_attribute(lmi_saved *s, sqlite3_stmt *q, void *to) {
    attributes *a = to;
    const int32_t row = sqlite3_column_int(q, 0), *place = lmi_vec_at(&s->of_row, (size_t)row);
    lam_attr one;
    bool told;
    if (!place) return LAM_OK;
    if (a->row[*place] < 0) {
        a->row[*place] = row;
        a->first[*place] = (int32_t)a->all.n;
    }
    if (a->row[*place] != row) return LAM_OK;
    LAM_TRY(lmi_saved_text(s, q, 1, &one.name));
    LAM_TRY(take_value(s, q, &one.value, &told));
    lam_attr *kept = told ? lmi_vec_push(&a->all) : NULL;
    if (kept) *kept = one;
    s->w.at[*place].n_attrs += told;
    return kept || !told ? LAM_OK : lmi_nomem(s->w.e);
}

static lam_status give_attributes(lmi_saved *s, const attributes *a) {
    const lam_attr *all = lmi_copy(&s->w.o->arena, a->all.data, a->all.n, sizeof *all);
    if (!all) return lmi_nomem(s->w.e);
    for (int32_t i = 0; i < s->w.n; i++)
        if (a->row[i] >= 0) s->w.at[i].attrs = all + a->first[i];
    return LAM_OK;
}

/* A report of an older lamina has none. */
static lam_status take_attributes(lmi_saved *s) {
    lmi_taking *w = &s->w;
    attributes a = {.row = lmi_alloc_none(&w->scratch, w->n),
                    .first = lmi_alloc(&w->scratch, (uint64_t)w->n, sizeof *a.first)};
    if (!a.row || !a.first) return lmi_nomem(w->e);
    lmi_vec_init(&a.all, sizeof(lam_attr));
    lam_status status = lmi_saved_each(s,
                                       "SELECT r.key, a.key, a.type, a.value FROM json_each(?1, '$.rows') r, "
                                       "json_each(r.value, '$.attributes') a",
                                       take_attribute, &a);
    if (status == LAM_OK && a.all.n) status = give_attributes(s, &a);
    lmi_vec_free(&a.all);
    return status;
}

/* Takes what the tree has of a place, also of one without a row. */
static lam_status take_look(lmi_saved *s, sqlite3_stmt *q, void *to) {
    const char *path, *type, *family;
    int32_t i;
    (void)to;
    LAM_TRY(lmi_saved_text(s, q, 0, &path));
    LAM_TRY(lmi_saved_text(s, q, 1, &type));
    LAM_TRY(lmi_saved_text(s, q, 2, &family));
    LAM_TRY(lmi_saved_place(s, path, "it changed while it was read", &i));
    lmi_outlined *at = &s->w.at[i];
    if (!*at->type) at->type = type;
    for (int k = 0; k < LMI_N_FAMILIES; k++)
        if (strcmp(family, lmi_family_name[k]) == 0) at->family = (uint8_t)k;
    return LAM_OK;
}

lam_status lmi_saved_numbers(lmi_saved *s) {
    lmi_taking *w = &s->w;
    sqlite3_stmt *q = NULL;
    numbered has = {0};
    bool more = true;
    LAM_TRY(find_numbered(s, &has));
    lmi_buf_clear(&w->text);
    put_question(&w->text);
    LAM_TRY(lmi_buf_status(&w->text, w->e));
    lam_status status = lmi_saved_ask(s, lmi_buf_text(&w->text), &q);
    for (size_t row = 0; status == LAM_OK; row++) {
        const int32_t *place = lmi_vec_at(&s->of_row, row);
        status = lmi_saved_next(s, q, &more);
        if (status != LAM_OK || !more || !place) break;
        status = add_row(s, q, &has, *place);
    }
    sqlite3_finalize(q);
    if (status != LAM_OK) return status;
    lmi_sum_total_times(w);
    LAM_TRY(take_attributes(s));
    return lmi_saved_each(s,
                          "SELECT json_extract(value, '$.path'), json_extract(value, '$.type'), "
                          "json_extract(value, '$.family') FROM json_each(?1, '$.tree')",
                          take_look, NULL);
}
