/* SPDX-License-Identifier: Apache-2.0
 *
 * The flow of data inside each container. Every operator ran in nested frames: the calls around it and,
 * between a call and its caller, containers that were never called, such as a ModuleList. A frame is one part
 * of the frame around it. Data flow from a frame up to the innermost frame around both ends, and down to the
 * reader: on the way up they leave containers, on the way down they enter others. */
#include "analyse/flow/inside.h"

typedef struct frame {
    int32_t parent, place;
    int32_t call;    /* -1: of a container that was never called */
    int32_t context; /* the innermost call at or around it, -1 none */
    int32_t depth;   /* 1: an outermost frame */
    int32_t level;   /* the level whose parts run in it; -1: none is made */
    int32_t part;    /* its part in its parent's level; -1: the parent has no level */
} frame;

typedef struct level {
    int32_t place, call, context; /* as in its frame; call -1: of all frames with this place and context */
    int32_t last;                 /* its last part */
} level;

typedef struct finder {
    const lam_graph *g;
    const lam_model *m;
    lmi_arena scratch;
    lmi_vec frames, levels, parts, readings;
    lmi_vec path;           /* int32_t: calls or places for which frames are made */
    lmi_map uncalled;       /* the newest frame of a never-called place in a frame */
    int32_t *frame_of_call; /* -1: none yet */
    int32_t *level_of;      /* of each place, -1 */
    int32_t *part_of_op;
} finder;

/* Where an operator ran: its frame, and its part there. */
typedef struct spot {
    int32_t frame, part;
} spot;

static frame *frame_at(const finder *f, int32_t i) { return (frame *)f->frames.data + i; }
static level *level_at(const finder *f, int32_t i) { return (level *)f->levels.data + i; }
static int32_t level_of(const finder *f, int32_t at) { return at < 0 ? -1 : frame_at(f, at)->level; }
static int32_t depth_of(const finder *f, int32_t at) { return at < 0 ? 0 : frame_at(f, at)->depth; }

/* -- frames -------------------------------------------------------------------------------------- */

static lam_status add_part(finder *f, int32_t in, int32_t place, int32_t op, int32_t *index, lam_error *e) {
    *index = -1;
    if (in < 0) return LAM_OK;
    LAM_TRY(lmi_vec_put(&f->parts, &(lmi_inside_part){in, place, op}, e));
    *index = level_at(f, in)->last = (int32_t)f->parts.n - 1;
    return LAM_OK;
}

/* Makes the level of a container at its first call. */
static lam_status open_level(finder *f, int32_t place, int32_t call, int32_t context, int32_t *index,
                             lam_error *e) {
    const lam_place *p = &f->m->places[place];
    int32_t *known = &f->level_of[place];
    *index = -1;
    if (*known >= 0) {
        const level *l = level_at(f, *known);
        if (call < 0 && l->call < 0 && l->context == context) *index = *known;
        return LAM_OK;
    }
    if (p->n_children == 0 || (call < 0 && p->n_calls > 0)) return LAM_OK;
    LAM_TRY(lmi_vec_put(&f->levels, &(level){place, call, context, -1}, e));
    *index = *known = (int32_t)f->levels.n - 1;
    return LAM_OK;
}

static lam_status add_frame(finder *f, int32_t parent, int32_t place, int32_t call, int32_t context,
                            int32_t *index, lam_error *e) {
    frame made = {parent, place, call, context, depth_of(f, parent) + 1, -1, -1};
    LAM_TRY(add_part(f, level_of(f, parent), place, -1, &made.part, e));
    LAM_TRY(open_level(f, place, call, context, &made.level, e));
    LAM_TRY(lmi_vec_put(&f->frames, &made, e));
    *index = (int32_t)f->frames.n - 1;
    return LAM_OK;
}

/* Work in a container that was never called is one part until other work runs in between: that work may read
 * the results of an earlier piece, and a later piece may read its results. */
static lam_status uncalled_frame(finder *f, int32_t parent, int32_t place, int32_t context, int32_t *index,
                                 lam_error *e) {
    uint64_t key = (uint64_t)(parent + 1) << 32 | (uint32_t)place;
    int64_t known = lmi_map_get_u64(&f->uncalled, key);
    int32_t in = level_of(f, parent);
    *index = (int32_t)known;
    if (known >= 0 && (in < 0 || level_at(f, in)->last == frame_at(f, *index)->part)) return LAM_OK;
    LAM_TRY(add_frame(f, parent, place, -1, context, index, e));
    return lmi_map_put_u64(&f->uncalled, key, *index, e);
}

/* Makes the frame of a call whose caller has one, inside the frames of the places between them. A call at a
 * place that is not below the caller's is directly in the caller's frame. */
static lam_status call_frame(finder *f, int32_t call, lam_error *e) {
    const lam_event *ev = &f->m->events[call];
    int32_t at = ev->parent < 0 ? -1 : f->frame_of_call[ev->parent],
            above = at < 0 ? -1 : frame_at(f, at)->place;
    int32_t place = f->m->places[ev->place].parent, to = above < 0 ? -1 : f->m->places[above].depth;
    size_t before = f->path.n;
    for (; place >= 0 && f->m->places[place].depth > to; place = f->m->places[place].parent)
        LAM_TRY(lmi_vec_put(&f->path, &place, e));
    for (; f->path.n > before && place == above; lmi_vec_pop(&f->path))
        LAM_TRY(uncalled_frame(f, at, ((int32_t *)f->path.data)[f->path.n - 1], ev->parent, &at, e));
    f->path.n = before;
    return add_frame(f, at, ev->place, call, call, &f->frame_of_call[call], e);
}

/* The frame of call `call`; makes it and those around it if needed. */
static lam_status frame_for(finder *f, int32_t call, int32_t *index, lam_error *e) {
    f->path.n = 0;
    for (int32_t at = call; at >= 0 && f->frame_of_call[at] < 0; at = f->m->events[at].parent)
        LAM_TRY(lmi_vec_put(&f->path, &at, e));
    while (f->path.n > 0) {
        int32_t next = ((int32_t *)f->path.data)[f->path.n - 1];
        lmi_vec_pop(&f->path);
        LAM_TRY(call_frame(f, next, e));
    }
    *index = call < 0 ? -1 : f->frame_of_call[call];
    return LAM_OK;
}

static lam_status find_parts(finder *f, lam_error *e) {
    for (int32_t i = 0; i < lam_graph_n_nodes(f->g); i++) { /* operators are in order of execution */
        const lam_node *n = lam_graph_node(f->g, i);
        int32_t in;
        if (n->type != LAM_NODE_OP || n->phase != LAM_FORWARD) continue;
        LAM_TRY(frame_for(f, n->call, &in, e));
        LAM_TRY(add_part(f, level_of(f, in), -1, n->index, &f->part_of_op[n->index], e));
    }
    return LAM_OK;
}

/* -- data ---------------------------------------------------------------------------------------- */

static lam_status note(finder *f, int32_t at, lmi_reading_type type, int32_t from, int32_t to, lam_error *e) {
    int32_t in = level_of(f, at);
    if (in < 0 || (type == LMI_READS_PART && from >= to)) return LAM_OK; /* the data stay in one part */
    return lmi_vec_put(&f->readings, &(lmi_reading){in, (int32_t)type, from, to}, e);
}

static spot above(const finder *f, spot s) {
    const frame *at = frame_at(f, s.frame);
    return (spot){at->parent, at->part};
}

/* True for two frames of one never-called container in one call. */
static bool are_pieces(const finder *f, int32_t a, int32_t b) {
    const frame *p = frame_at(f, a), *q = frame_at(f, b);
    return p->call < 0 && q->call < 0 && p->place == q->place && p->context == q->context;
}

/* Notes the readings of data that flow from `node` at a to b. A frame -1 is outside of all. */
static lam_status follow(finder *f, int32_t node, spot a, spot b, lam_error *e) {
    for (; depth_of(f, b.frame) > depth_of(f, a.frame); b = above(f, b))
        LAM_TRY(note(f, b.frame, LMI_READS_IN, node, b.part, e));
    for (; depth_of(f, a.frame) > depth_of(f, b.frame); a = above(f, a))
        LAM_TRY(note(f, a.frame, LMI_READ_OUTSIDE, a.part, -1, e));
    for (; a.frame != b.frame; a = above(f, a), b = above(f, b)) {
        if (are_pieces(f, a.frame, b.frame)) {
            LAM_TRY(note(f, a.frame, LMI_READS_PART, a.part, b.part, e));
        } else {
            LAM_TRY(note(f, a.frame, LMI_READ_OUTSIDE, a.part, -1, e));
            LAM_TRY(note(f, b.frame, LMI_READS_IN, node, b.part, e));
        }
    }
    return note(f, a.frame, LMI_READS_PART, a.part, b.part, e);
}

static spot spot_of(const finder *f, const lam_node *n) {
    if (n->type != LAM_NODE_OP) return (spot){-1, -1};
    return (spot){n->call < 0 ? -1 : f->frame_of_call[n->call], f->part_of_op[n->index]};
}

static lam_status find_readings(finder *f, lam_error *e) {
    for (int32_t i = 0; i < lam_graph_n_edges(f->g); i++) {
        const lam_edge *edge = lam_graph_edge(f->g, i);
        const lam_node *from = lam_graph_node(f->g, edge->from), *to = lam_graph_node(f->g, edge->to);
        bool forward = from->phase == LAM_FORWARD && to->phase == LAM_FORWARD;
        if (!forward || from->type == LAM_NODE_TENSOR) continue;
        LAM_TRY(follow(f, edge->from, spot_of(f, from), spot_of(f, to), e));
    }
    return LAM_OK;
}

/* -- all levels ---------------------------------------------------------------------------------- */

/* The parts and readings sorted by level, otherwise in their order, and where those of each level begin. */
typedef struct sorted {
    int32_t *part_at, *reading_at, *number; /* number: of a part in its level */
    lmi_inside_part *part;
    lmi_reading *reading;
} sorted;

static lam_status sort_by_level(finder *f, sorted *s, lam_error *e) {
    uint64_t n_levels = f->levels.n, n_parts = f->parts.n, n_readings = f->readings.n;
    const lmi_inside_part *part = f->parts.data;
    const lmi_reading *reading = f->readings.data;
    int32_t *levels = lmi_alloc(&f->scratch, n_parts + n_readings, sizeof *levels);
    lmi_groups parts, readings;
    s->number = lmi_alloc(&f->scratch, n_parts, sizeof *s->number);
    s->part = lmi_alloc(&f->scratch, n_parts, sizeof *s->part);
    s->reading = lmi_alloc(&f->scratch, n_readings, sizeof *s->reading);
    if (!levels || !s->number || !s->part || !s->reading) return lmi_nomem(e);
    for (uint64_t i = 0; i < n_parts; i++) levels[i] = part[i].level;
    for (uint64_t i = 0; i < n_readings; i++) levels[n_parts + i] = reading[i].level;
    if (!lmi_group_by(&f->scratch, levels, (int32_t)n_parts, (int32_t)n_levels, &parts) ||
        !lmi_group_by(&f->scratch, levels + n_parts, (int32_t)n_readings, (int32_t)n_levels, &readings))
        return lmi_nomem(e);
    s->part_at = parts.start;
    s->reading_at = readings.start;
    for (uint64_t k = 0; k < n_parts; k++) {
        const int32_t i = parts.order[k];
        s->part[k] = part[i];
        s->number[i] = (int32_t)k - parts.start[part[i].level];
    }
    for (uint64_t k = 0; k < n_readings; k++) {
        lmi_reading *to = &s->reading[k];
        *to = reading[readings.order[k]];
        if (to->type != LMI_READS_IN) to->from = s->number[to->from];
        if (to->type != LMI_READ_OUTSIDE) to->to = s->number[to->to];
    }
    return LAM_OK;
}

/* The levels sorted by the depth of their places, otherwise in their order; NULL: memory ran out. */
static int32_t *outermost_first(finder *f) {
    int32_t n = (int32_t)f->levels.n, deepest = 0;
    int32_t *depth = lmi_alloc(&f->scratch, (uint64_t)n, sizeof *depth);
    lmi_groups by_depth;
    for (int32_t k = 0; depth && k < n; k++) {
        depth[k] = f->m->places[level_at(f, k)->place].depth;
        if (depth[k] > deepest) deepest = depth[k];
    }
    if (!depth) return NULL;
    return lmi_group_by(&f->scratch, depth, n, deepest + 1, &by_depth) ? by_depth.order : NULL;
}

static lam_status make_insides(finder *f, lmi_insides *out, lam_error *e) {
    sorted s;
    int32_t most = 0;
    LAM_TRY(sort_by_level(f, &s, e));
    for (size_t k = 0; k < f->levels.n; k++)
        if (s.part_at[k + 1] - s.part_at[k] > most) most = s.part_at[k + 1] - s.part_at[k];
    const int32_t *order = outermost_first(f);
    lmi_insider *w = order ? lmi_insider_new(out, f->g, &f->scratch, most) : NULL;
    if (!w) return lmi_nomem(e);
    lam_status status = LAM_OK;
    for (size_t i = 0; i < f->levels.n && status == LAM_OK; i++) {
        int32_t k = order[i], part = s.part_at[k], reading = s.reading_at[k];
        status = lmi_insider_add(w, level_at(f, k)->place, s.part_at[k + 1] - part, s.part + part,
                                 s.reading_at[k + 1] - reading, s.reading + reading, e);
    }
    return lmi_insider_end(w, status, e);
}

static lam_status find(finder *f, lmi_insides *out, lam_error *e) {
    f->frame_of_call = lmi_alloc_none(&f->scratch, f->m->n_events);
    f->level_of = lmi_alloc_none(&f->scratch, f->m->n_places);
    f->part_of_op = lmi_alloc_none(&f->scratch, f->m->n_ops);
    out->of_place = lmi_alloc_none(&out->arena, f->m->n_places);
    if (!f->frame_of_call || !f->level_of || !f->part_of_op || !out->of_place) return lmi_nomem(e);
    LAM_TRY(find_parts(f, e));
    LAM_TRY(find_readings(f, e));
    return make_insides(f, out, e);
}

lam_status lmi_insides_find(lmi_insides *out, const lam_graph *g, lam_error *e) {
    finder f = {.g = g, .m = g->m};
    *out = (lmi_insides){0};
    lmi_arena_init(&out->arena, UINT64_MAX);
    lmi_arena_init(&f.scratch, UINT64_MAX);
    lmi_vec_init(&f.frames, sizeof(frame));
    lmi_vec_init(&f.levels, sizeof(level));
    lmi_vec_init(&f.parts, sizeof(lmi_inside_part));
    lmi_vec_init(&f.readings, sizeof(lmi_reading));
    lmi_vec_init(&f.path, sizeof(int32_t));
    lmi_map_init(&f.uncalled);
    lam_status status = find(&f, out, e);
    lmi_vec_free(&f.frames);
    lmi_vec_free(&f.levels);
    lmi_vec_free(&f.parts);
    lmi_vec_free(&f.readings);
    lmi_vec_free(&f.path);
    lmi_map_free(&f.uncalled);
    lmi_arena_free(&f.scratch);
    return status;
}

int32_t lmi_inside_op(const lam_graph *g, int32_t op) { return g->flow.unit[op]; }

void lmi_insides_free(lmi_insides *i) { lmi_arena_free(&i->arena); }
