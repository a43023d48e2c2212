/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes the inside of one container from its parts and their readings. Own operators in a line become one
 * unit, data from outside a few units, and parts beyond a limit one unit. Equal insides are stored once. */
#include "analyse/flow/inside.h"

#include <stdlib.h>

enum {
    IN_LINE = 12, /* the most operators in a line that are one unit */
    ENDS = 12     /* the most units for data from outside; if there are more, all become one */
};

/* Data that come from outside under one name and that the same parts read: those of readings first to
 * first + n - 1. */
typedef struct end {
    const char *name;
    int32_t first, n;
} end;

typedef struct signature {
    const char *bytes;
    size_t n;
} signature;

struct lmi_insider {
    lmi_insides *out;
    const lam_graph *g;
    const lam_model *m;
    lmi_arena *scratch;
    lmi_vec made;       /* lmi_inside */
    lmi_vec signatures; /* of each */
    lmi_map by_hash;
    lmi_buf text; /* the signature of this one */
    lmi_vec ways;
    int32_t *times, *seen; /* of each place: units of it in this container; 0 between containers */
    /* of this container: its parts, and its distinct readings */
    int32_t place, n, n_readings, most;
    const lmi_inside_part *part;
    const lmi_reading *reading;
    int32_t *head;                  /* per part: the first part of its line */
    int32_t *length;                /* per first part: the number of parts in its line */
    int32_t *next;                  /* per part: the next one in its line, -1 */
    int32_t *gives, *takes, *giver; /* parts that read it, and that it reads; the last that it reads */
    int32_t *unit;                  /* per first part: its unit */
    bool *from_outside, *leaves;
    int32_t n_ends, n_kept, cut;
    bool any_leaves;
    end end[ENDS + 1];
};

lmi_insider *lmi_insider_new(lmi_insides *out, const lam_graph *g, lmi_arena *scratch, int32_t most) {
    lmi_insider *w = lmi_alloc(scratch, 1, sizeof *w);
    if (!w) return NULL;
    *w = (lmi_insider){.out = out, .g = g, .m = g->m, .scratch = scratch, .most = most};
    lmi_vec_init(&w->made, sizeof(lmi_inside));
    lmi_vec_init(&w->signatures, sizeof(signature));
    lmi_vec_init(&w->ways, sizeof(lmi_way));
    lmi_map_init(&w->by_hash);
    lmi_buf_init(&w->text);
    int32_t **const of_part[] = {&w->head, &w->length, &w->next, &w->gives, &w->takes, &w->giver, &w->unit};
    for (size_t i = 0; i < sizeof of_part / sizeof *of_part; i++) {
        *of_part[i] = lmi_alloc(scratch, (uint64_t)most, sizeof **of_part[i]);
        if (!*of_part[i]) return NULL;
    }
    w->from_outside = lmi_alloc(scratch, (uint64_t)most, 1);
    w->leaves = lmi_alloc(scratch, (uint64_t)most, 1);
    w->times = lmi_alloc(scratch, (uint64_t)g->m->n_places, sizeof *w->times);
    w->seen = lmi_alloc(scratch, (uint64_t)g->m->n_places, sizeof *w->seen);
    return w->from_outside && w->leaves && w->times && w->seen ? w : NULL;
}

/* -- lines of operators -------------------------------------------------------------------------- */

static int compare_readings(const void *a, const void *b) {
    const lmi_reading *p = a, *q = b;
    if (p->type != q->type) return p->type < q->type ? -1 : 1;
    if (p->from != q->from) return p->from < q->from ? -1 : 1;
    return p->to < q->to ? -1 : p->to > q->to;
}

static int32_t once(lmi_reading *r, int32_t n) {
    int32_t kept = 0;
    qsort(r, (size_t)n, sizeof *r, compare_readings);
    for (int32_t i = 0; i < n; i++)
        if (kept == 0 || compare_readings(&r[kept - 1], &r[i]) != 0) r[kept++] = r[i];
    return kept;
}

static void look_at_readings(lmi_insider *w) {
    for (int32_t i = 0; i < w->n; i++) {
        w->head[i] = i;
        w->length[i] = 1;
        w->next[i] = w->giver[i] = -1;
        w->gives[i] = w->takes[i] = 0;
        w->from_outside[i] = w->leaves[i] = false;
    }
    w->any_leaves = false;
    for (int32_t i = 0; i < w->n_readings; i++) {
        const lmi_reading *r = &w->reading[i];
        if (r->type == LMI_READS_IN) {
            w->from_outside[r->to] = true;
        } else if (r->type == LMI_READ_OUTSIDE) {
            w->leaves[r->from] = w->any_leaves = true;
        } else {
            w->gives[r->from]++;
            w->takes[r->to]++;
            w->giver[r->to] = r->from;
        }
    }
}

/* Parts are in order of execution, so the line before a part is complete. */
static void join_lines(lmi_insider *w) {
    for (int32_t i = 0; i < w->n; i++) {
        int32_t before = w->giver[i], *length;
        if (w->part[i].place >= 0 || w->takes[i] != 1 || w->from_outside[i]) continue;
        length = &w->length[w->head[before]];
        if (w->part[before].place >= 0 || w->gives[before] != 1 || w->leaves[before] || *length == IN_LINE)
            continue;
        w->head[i] = w->head[before];
        w->next[before] = i;
        ++*length;
    }
}

/* -- data from outside --------------------------------------------------------------------------- */

/* The place beside the container, or beside a container around it, in which the node's operator ran. A
 * numbered name is not used: it would make equal blocks unequal. */
static const char *name_of_source(const lmi_insider *w, const lam_node *n) {
    const lam_place *places = w->m->places;
    int32_t at = n->call < 0 ? -1 : w->m->events[n->call].place, to = w->place, below = -1;
    if (n->type != LAM_NODE_OP) return n->name;
    while (at != to) { /* up from the deeper one to the common ancestor */
        bool deeper = to < 0 || (at >= 0 && places[at].depth >= places[to].depth);
        if (deeper) below = at;
        if (deeper)
            at = places[at].parent;
        else
            to = places[to].parent;
    }
    const char *name = below < 0 ? "" : places[below].name;
    return *name && !strpbrk(name, "0123456789") ? name : "in";
}

static bool same_end(const lmi_insider *w, const end *a, const end *b) {
    if (a->n != b->n || strcmp(a->name, b->name) != 0) return false;
    for (int32_t i = 0; i < a->n; i++)
        if (w->reading[a->first + i].to != w->reading[b->first + i].to) return false;
    return true;
}

/* Readings are sorted by type and source, and a part that reads from outside begins a line. */
static void find_ends(lmi_insider *w) {
    const lmi_reading *r = w->reading;
    int32_t at = 0;
    w->n_ends = 0;
    while (at < w->n_readings && r[at].type == LMI_READS_IN && w->n_ends <= ENDS) {
        end *fresh = &w->end[w->n_ends];
        *fresh = (end){name_of_source(w, lam_graph_node(w->g, r[at].from)), at, 0};
        for (; at < w->n_readings && r[at].type == LMI_READS_IN && r[at].from == r[fresh->first].from; at++)
            fresh->n++;
        int32_t known = 0;
        while (!same_end(w, &w->end[known], fresh)) known++;
        w->n_ends += known == w->n_ends;
    }
    if (w->n_ends <= ENDS) return;
    for (at = 0; at < w->n_readings && r[at].type == LMI_READS_IN;) at++;
    w->end[0] = (end){"in", 0, at};
    w->n_ends = 1;
}

/* -- units --------------------------------------------------------------------------------------- */

static int32_t n_units(const lmi_insider *w) { return w->n_ends + w->n_kept + (w->cut > 0) + w->any_leaves; }

static void number_units(lmi_insider *w) {
    int32_t units = 0, at = 0, most = LMI_INSIDE_UNITS - w->n_ends - w->any_leaves;
    for (int32_t i = 0; i < w->n; i++) units += w->head[i] == i;
    w->cut = units > most ? units - (most - 1) : 0;
    w->n_kept = units - w->cut;
    for (int32_t i = 0; i < w->n; i++) {
        if (w->head[i] != i) continue;
        w->unit[i] = w->n_ends + at;
        at += at < w->n_kept; /* all further parts share the unit after the last kept one */
    }
}

static int compare_ways(const void *a, const void *b) {
    const lmi_way *p = a, *q = b;
    if (p->from != q->from) return p->from < q->from ? -1 : 1;
    return p->to < q->to ? -1 : p->to > q->to;
}

static lam_status add_way(lmi_insider *w, int32_t from, int32_t to, lam_error *e) {
    if (from >= to) return LAM_OK; /* inside a line, or among the cut parts */
    return lmi_vec_put(&w->ways, &(lmi_way){from, to}, e);
}

static lam_status find_ways(lmi_insider *w, lam_error *e) {
    w->ways.n = 0;
    for (int32_t k = 0; k < w->n_ends; k++)
        for (int32_t i = w->end[k].first; i < w->end[k].first + w->end[k].n; i++)
            LAM_TRY(add_way(w, k, w->unit[w->head[w->reading[i].to]], e));
    for (int32_t i = 0; i < w->n_readings; i++) {
        const lmi_reading *r = &w->reading[i];
        if (r->type == LMI_READS_PART)
            LAM_TRY(add_way(w, w->unit[w->head[r->from]], w->unit[w->head[r->to]], e));
        if (r->type == LMI_READ_OUTSIDE) LAM_TRY(add_way(w, w->unit[w->head[r->from]], n_units(w) - 1, e));
    }
    lmi_way *way = w->ways.data;
    size_t kept = 0;
    if (w->ways.n > 0) qsort(way, w->ways.n, sizeof *way, compare_ways);
    for (size_t i = 0; i < w->ways.n; i++)
        if (kept == 0 || compare_ways(&way[kept - 1], &way[i]) != 0) way[kept++] = way[i];
    w->ways.n = kept;
    return LAM_OK;
}

/* A child by its name; a module from elsewhere by its path. */
static const char *name_of(const lmi_insider *w, int32_t place) {
    const lam_place *p = &w->m->places[place];
    return p->parent == w->place ? p->name : p->path;
}

static lmi_unit module_unit(lmi_insider *w, int32_t place) {
    return (lmi_unit){.type = LMI_UNIT_MODULE,
                      .name = name_of(w, place),
                      .place = place,
                      .nth = ++w->seen[place],
                      .times = w->times[place]};
}

static lam_status ops_unit(lmi_insider *w, int32_t first, lmi_unit *out, lam_error *e) {
    int32_t *ops = lmi_alloc(&w->out->arena, (uint64_t)w->length[first], sizeof *ops), n = 0;
    if (!ops) return lmi_nomem(e);
    for (int32_t i = first; i >= 0; i = w->next[i]) ops[n++] = w->part[i].op;
    *out = (lmi_unit){.type = LMI_UNIT_OPS, .place = -1, .n_ops = n, .ops = ops};
    out->shape = lam_graph_node(w->g, w->g->of_op[ops[n - 1]])->shape;
    return LAM_OK;
}

static lam_status make_units(lmi_insider *w, lmi_inside *to, lam_error *e) {
    lmi_unit *unit = to->unit;
    for (int32_t k = 0; k < w->n_ends; k++)
        *unit++ = (lmi_unit){.type = LMI_UNIT_IN, .place = -1, .name = w->end[k].name};
    for (int32_t i = 0, kept = 0; i < w->n && kept < w->n_kept; i++) {
        if (w->head[i] != i) continue;
        if (w->part[i].place >= 0)
            *unit = module_unit(w, w->part[i].place);
        else
            LAM_TRY(ops_unit(w, i, unit, e));
        unit++;
        kept++;
    }
    if (w->cut > 0) *unit++ = (lmi_unit){.type = LMI_UNIT_MORE, .place = -1};
    if (w->any_leaves) *unit++ = (lmi_unit){.type = LMI_UNIT_OUT, .place = -1};
    return LAM_OK;
}

/* -- equal insides ------------------------------------------------------------------------------- */

static void put_number(lmi_buf *b, int32_t n) { lmi_putn(b, (const char *)&n, sizeof n); }
static void put_name(lmi_buf *b, const char *name) { lmi_putn(b, name, strlen(name) + 1); }

/* Writes the inside's signature: types, names, signatures of operators, and ways. Insides with equal
 * signatures are equal. */
static lam_status sign(lmi_insider *w, lam_error *e) {
    lmi_buf *b = &w->text;
    lmi_buf_clear(b);
    put_number(b, w->n_ends);
    put_number(b, w->cut);
    put_number(b, w->any_leaves);
    for (int32_t k = 0; k < w->n_ends; k++) put_name(b, w->end[k].name);
    for (int32_t i = 0, kept = 0; i < w->n && kept < w->n_kept; i++) {
        int32_t place = w->part[i].place;
        if (w->head[i] != i) continue;
        kept++;
        put_number(b, place >= 0 ? 0 : w->length[i]);
        if (place >= 0) {
            put_number(b, w->times[place]);
            put_name(b, name_of(w, place));
            put_name(b, w->m->modules[w->m->places[place].module].type);
        }
        for (int32_t k = i; place < 0 && k >= 0; k = w->next[k])
            put_number(b, w->m->ops[w->part[k].op].sig->index);
    }
    lmi_putn(b, w->ways.data ? w->ways.data : "", w->ways.n * sizeof(lmi_way));
    return lmi_buf_status(b, e);
}

/* The index of an equal inside; -1: there is none. */
static int64_t find_equal(const lmi_insider *w, uint64_t hash) {
    int64_t i;
    for (size_t at = (size_t)hash; (i = lmi_map_next(&w->by_hash, hash, &at)) >= 0;) {
        const signature *s = lmi_vec_at(&w->signatures, (size_t)i);
        if (s->n == w->text.n && memcmp(s->bytes, w->text.s, s->n) == 0) break;
    }
    return i;
}

static lam_status keep(lmi_insider *w, uint64_t hash, lam_error *e) {
    lmi_arena *a = &w->out->arena;
    signature *s = lmi_vec_push(&w->signatures);
    lmi_inside *to = s ? lmi_vec_push(&w->made) : NULL;
    if (!to) return lmi_nomem(e);
    *s = (signature){lmi_copy(w->scratch, w->text.s, w->text.n, 1), w->text.n};
    *to = (lmi_inside){.place = w->place, .n = n_units(w), .n_ways = (int32_t)w->ways.n, .cut = w->cut};
    to->unit = lmi_alloc(a, (uint64_t)to->n, sizeof *to->unit);
    to->way = lmi_copy(a, w->ways.data, w->ways.n, sizeof *to->way);
    if (!s->bytes || !to->unit || !to->way) return lmi_nomem(e);
    LAM_TRY(make_units(w, to, e));
    return lmi_map_add(&w->by_hash, hash, (int64_t)w->made.n - 1, e);
}

static void count_places(lmi_insider *w, bool forget) {
    for (int32_t i = 0; i < w->n; i++) {
        int32_t place = w->part[i].place;
        if (place < 0) continue;
        w->times[place] = forget ? 0 : w->times[place] + 1;
        w->seen[place] = 0;
    }
}

lam_status lmi_insider_add(lmi_insider *w, int32_t place, int32_t n, const lmi_inside_part *part,
                           int32_t n_readings, lmi_reading *reading, lam_error *e) {
    if (n == 0) return LAM_OK;
    w->place = place;
    w->n = n;
    w->part = part;
    w->n_readings = once(reading, n_readings);
    w->reading = reading;
    look_at_readings(w);
    join_lines(w);
    find_ends(w);
    number_units(w);
    LAM_TRY(find_ways(w, e));
    count_places(w, false);
    LAM_TRY(sign(w, e));
    const uint64_t hash = lmi_hash(w->text.s, w->text.n);
    int64_t equal = find_equal(w, hash);
    w->out->of_place[place] = equal < 0 ? (int32_t)w->made.n : (int32_t)equal;
    if (equal < 0) LAM_TRY(keep(w, hash, e));
    count_places(w, true);
    return LAM_OK;
}

lam_status lmi_insider_end(lmi_insider *w, lam_status so_far, lam_error *e) {
    if (so_far == LAM_OK) {
        w->out->n = (int32_t)w->made.n;
        w->out->at = lmi_copy(&w->out->arena, w->made.data, w->made.n, sizeof(lmi_inside));
        if (!w->out->at) so_far = lmi_nomem(e);
    }
    lmi_vec_free(&w->made);
    lmi_vec_free(&w->signatures);
    lmi_vec_free(&w->ways);
    lmi_map_free(&w->by_hash);
    lmi_buf_free(&w->text);
    return so_far;
}
