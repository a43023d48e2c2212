/* SPDX-License-Identifier: Apache-2.0
 *
 * The levels of a difference: those of `after`, with the removed modules inserted between the nodes that they
 * were between before. A removed container has its level of `before`. */
#include "analyse/flow/levels.h"
#include "report/outline/work.h"

#include <stdlib.h>

typedef struct joining {
    lmi_outline *o;
    const lmi_outline *was;
    int32_t n_now; /* levels of after; those of before follow */
    lmi_vec levels, lines;
    lmi_map joined; /* by the levels before and after: the level of both */
    lmi_arena scratch;
    lmi_buf text;
    lam_error *e;
} joining;

/* A node of before: the node of after that is the same, or the place that was removed; -1: none. */
typedef struct fate {
    int32_t same, gone, number; /* number: in the level of both */
    int32_t after;              /* for a removed node: the node of after that precedes it */
} fate;

/* -- matching nodes -------------------------------------------------------------------------------------- */

static int32_t child_of(const lmi_outline *o, int32_t up, const char *name) {
    for (int32_t i = up + 1; i < o->at[up].end; i = o->at[i].end)
        if (strcmp(o->at[i].name, name) == 0) return i;
    return -1;
}

/* The old name of a child of the container; "" if it is new. */
static const char *old_name(const joining *j, int32_t up, const char *name) {
    int32_t i = child_of(j->o, up, name);
    return i < 0 || j->o->was_at[i] < 0 ? "" : j->was->at[j->o->was_at[i]].name;
}

static bool is_same(const joining *j, int32_t up, const lmi_level_node *a, const lmi_level_node *b) {
    if (a->type != b->type) return false;
    if (a->type != LMI_UNIT_MODULE) return strcmp(a->label, b->label) == 0;
    return a->nth == b->nth && strcmp(a->name, old_name(j, up, b->name)) == 0;
}

/* Finds the fate of each node of `a`; returns how many were removed. */
static int32_t find_fates(const joining *j, int32_t up, const lmi_level *a, const lmi_level *b, fate *of,
                          bool *taken) {
    int32_t last = -1, n = 0;
    while (last + 1 < b->n && b->node[last + 1].type == LMI_UNIT_IN) last++;
    for (int32_t i = 0; i < a->n; i++) {
        const lmi_level_node *node = &a->node[i];
        of[i] = (fate){-1, -1, -1, last};
        for (int32_t k = 0; k < b->n && of[i].same < 0; k++)
            if (!taken[k] && is_same(j, up, node, &b->node[k])) of[i].same = k;
        if (of[i].same >= 0) {
            taken[of[i].same] = true;
            if (of[i].same > last && node->type != LMI_UNIT_OUT) last = of[i].same;
            continue;
        }
        int32_t place = node->type == LMI_UNIT_MODULE ? child_of(j->o, up, node->name) : -1;
        if (place < 0 || j->o->change[place] != LMI_REMOVED) continue;
        of[i].gone = place;
        n++;
    }
    return n;
}

/* -- the level of both ----------------------------------------------------------------------------------- */

/* Nodes of after in their order, each followed by the removed ones that followed it. */
static void put_nodes(lmi_level *to, const lmi_level *a, const lmi_level *b, fate *of, int32_t *number) {
    int32_t n = 0;
    for (int32_t k = -1; k < b->n; k++) {
        if (k >= 0) number[k] = n;
        if (k >= 0) to->node[n++] = b->node[k];
        for (int32_t i = 0; i < a->n; i++) {
            if (of[i].gone < 0 || of[i].after != k) continue;
            of[i].number = n;
            to->node[n] = a->node[i];
            to->node[n++].place = of[i].gone;
        }
    }
    for (int32_t i = 0; i < a->n; i++)
        if (of[i].same >= 0) of[i].number = number[of[i].same];
}

static int by_ends(const void *p, const void *q) {
    const lmi_line_ends *x = p, *y = q;
    if (x->from != y->from) return x->from < y->from ? -1 : 1;
    return (x->to > y->to) - (x->to < y->to);
}

static lam_status add_line(joining *j, int32_t from, int32_t to) {
    if (from < 0 || from >= to) return LAM_OK; /* an end is missing, or their order changed */
    return lmi_vec_put(&j->lines, &(lmi_line_ends){from, to}, j->e);
}

static lam_status find_lines(joining *j, const lmi_level *a, const lmi_level *b, const fate *of,
                             const int32_t *number) {
    j->lines.n = 0;
    for (int32_t i = 0; i < b->n_lines; i++)
        LAM_TRY(add_line(j, number[b->line[i].from], number[b->line[i].to]));
    for (int32_t i = 0; i < a->n_lines; i++) {
        const fate *from = &of[a->line[i].from], *to = &of[a->line[i].to];
        if (from->gone >= 0 || to->gone >= 0) LAM_TRY(add_line(j, from->number, to->number));
    }
    lmi_line_ends *line = j->lines.data;
    size_t kept = 0;
    if (j->lines.n) qsort(line, j->lines.n, sizeof *line, by_ends);
    for (size_t i = 0; i < j->lines.n; i++)
        if (!kept || by_ends(&line[kept - 1], &line[i]) != 0) line[kept++] = line[i];
    j->lines.n = kept;
    return LAM_OK;
}

/* Makes the level of a container in both; `*out` is that of after if nothing was removed in it. */
static lam_status join(joining *j, int32_t up, int32_t was, int32_t now, int32_t *out) {
    const lmi_level a = j->was->level[was], b = *(lmi_level *)lmi_vec_at(&j->levels, (size_t)now);
    fate *of = lmi_alloc(&j->scratch, (uint64_t)a.n, sizeof *of);
    bool *taken = lmi_alloc(&j->scratch, (uint64_t)b.n, sizeof *taken);
    int32_t *number = lmi_alloc(&j->scratch, (uint64_t)b.n, sizeof *number);
    lmi_level both;
    *out = now;
    if (!of || !taken || !number) return lmi_nomem(j->e);
    int32_t gone = find_fates(j, up, &a, &b, of, taken);
    if (gone == 0) return LAM_OK;
    LAM_TRY(lmi_level_new(&both, &j->o->arena, b.n + gone, b.n_lines + a.n_lines, j->e));
    put_nodes(&both, &a, &b, of, number);
    LAM_TRY(find_lines(j, &a, &b, of, number));
    both.n_lines = (int32_t)j->lines.n;
    if (j->lines.n) memcpy(both.line, j->lines.data, j->lines.n * sizeof *both.line);
    both.cut = b.cut;
    LAM_TRY(lmi_level_name(&both, &j->o->arena, &j->text, j->e));
    LAM_TRY(lmi_draw(&both.at, &j->o->arena, both.n, both.size, both.n_lines, both.line, j->e));
    *out = (int32_t)j->levels.n;
    return lmi_vec_put(&j->levels, &both, j->e);
}

/* -- all ------------------------------------------------------------------------------------------------- */

/* Adds the levels of after, and those of before for removed places; their nodes become places of both. */
static lam_status take_levels(joining *j) {
    const lmi_outline *was = j->was;
    int32_t *to = lmi_alloc(&j->scratch, (uint64_t)was->n, sizeof *to);
    if (!to) return lmi_nomem(j->e);
    for (int32_t i = 0; i < j->o->n; i++)
        if (j->o->was_at[i] >= 0) to[j->o->was_at[i]] = i;
    for (int32_t k = 0; k < j->n_now; k++) LAM_TRY(lmi_vec_put(&j->levels, &j->o->level[k], j->e));
    for (int32_t k = 0; k < was->n_levels; k++) {
        lmi_level l = was->level[k];
        l.node = lmi_copy(&j->o->arena, l.node, (uint64_t)l.n, sizeof *l.node);
        if (!l.node) return lmi_nomem(j->e);
        for (int32_t i = 0; i < l.n; i++)
            if (l.node[i].place >= 0) l.node[i].place = to[l.node[i].place];
        LAM_TRY(lmi_vec_put(&j->levels, &l, j->e));
    }
    return LAM_OK;
}

static lam_status join_at(joining *j, int32_t i) {
    lmi_outline_place *at = &j->o->at[i];
    int32_t was = j->o->was_at[i] < 0 ? -1 : j->was->at[j->o->was_at[i]].level;
    if (was < 0) return LAM_OK;
    if (j->o->change[i] == LMI_REMOVED) {
        at->level = j->n_now + was;
        return LAM_OK;
    }
    if (at->level < 0 || j->o->change[i] == LMI_SAME) return LAM_OK;
    uint64_t key = (uint64_t)was << 32 | (uint32_t)at->level;
    int64_t known = lmi_map_get_u64(&j->joined, key);
    if (known >= 0) {
        at->level = (int32_t)known;
        return LAM_OK;
    }
    LAM_TRY(join(j, i, was, at->level, &at->level));
    return lmi_map_put_u64(&j->joined, key, at->level, j->e);
}

static lam_status join_all(joining *j) {
    lmi_outline *o = j->o;
    LAM_TRY(take_levels(j));
    for (int32_t i = 0; i < o->n; i++) LAM_TRY(join_at(j, i));
    o->level = lmi_copy(&o->arena, j->levels.data, j->levels.n, sizeof *o->level);
    if (!o->level) return lmi_nomem(j->e);
    o->n_levels = (int32_t)j->levels.n;
    return LAM_OK;
}

lam_status lmi_outline_join_levels(lmi_outline *o, lam_error *e) {
    joining j = {.o = o, .was = o->was, .n_now = o->n_levels, .e = e};
    if (!o->n_levels || !o->was->n_levels) return LAM_OK;
    lmi_arena_init(&j.scratch, UINT64_MAX);
    lmi_vec_init(&j.levels, sizeof(lmi_level));
    lmi_vec_init(&j.lines, sizeof(lmi_line_ends));
    lmi_map_init(&j.joined);
    lmi_buf_init(&j.text);
    lam_status s = join_all(&j);
    lmi_buf_free(&j.text);
    lmi_map_free(&j.joined);
    lmi_vec_free(&j.lines);
    lmi_vec_free(&j.levels);
    lmi_arena_free(&j.scratch);
    return s;
}
