/* SPDX-License-Identifier: Apache-2.0
 *
 * The part of a tensor that a view covers: views are followed back to the tensor whose memory they share.
 * Views that merge or split axes are not followed. */
#include "model/view.h"

#include <string.h>

bool lmi_place_whole(lmi_place *p, int32_t ndim, const int64_t *sizes) {
    if (ndim < 0 || ndim > LMI_PLACE_AXES) return false;
    *p = (lmi_place){.n_base = ndim, .n = ndim};
    for (int32_t i = 0; i < ndim; i++) {
        p->size[i] = p->count[i] = sizes[i];
        p->step[i] = 1;
        p->of[i] = (int8_t)i;
    }
    return true;
}

/* -- arguments ----------------------------------------------------------------------------------- */

static int64_t int_of(const lam_op_sig *s, int32_t position, int64_t fallback) {
    const lam_value *v = lmi_sig_value(s, position);
    return v && v->type == LAM_INT ? v->i : v && v->type == LAM_INTS && v->n == 1 ? v->ints[0] : fallback;
}

/* The axis of the argument that is named at `position`; -1: unknown. */
static int32_t axis_at(const lam_op_sig *s, int32_t position, int64_t fallback, int32_t n) {
    int64_t d = int_of(s, position, fallback);
    if (d < 0) d += n;
    return d >= 0 && d < n ? (int32_t)d : -1;
}

/* -- views --------------------------------------------------------------------------------------- */

static void drop_axis(lmi_place *p, int32_t axis) {
    for (int32_t i = axis; i + 1 < p->n; i++) p->of[i] = p->of[i + 1];
    p->n--;
}

static bool cut(lmi_place *p, int32_t axis, int64_t start, int64_t step, int64_t count) {
    int32_t b = p->of[axis];
    if (b < 0 || start < 0 || step < 1 || count < 0 || start + (count - 1) * step >= p->count[b])
        return false;
    p->start[b] += start * p->step[b];
    p->step[b] *= step;
    p->count[b] = count;
    return true;
}

static bool slice(lmi_place *p, const lam_op_sig *s, const lam_op_arg *in, const lam_op_arg *out) {
    int32_t axis = axis_at(s, 1, 0, p->n);
    if (axis < 0 || out->ndim != p->n) return false;
    int64_t size = in->sizes[axis], start = int_of(s, 2, 0);
    if (out->sizes[axis] == size) return true;
    if (start < 0) start += size;
    return cut(p, axis, start < 0 ? 0 : start, int_of(s, 4, 1), out->sizes[axis]);
}

static bool take_one(lmi_place *p, int32_t axis, int64_t at) {
    if (axis < 0) return false;
    if (p->of[axis] >= 0 && !cut(p, axis, at < 0 ? at + p->count[p->of[axis]] : at, 1, 1)) return false;
    drop_axis(p, axis);
    return true;
}

static bool permuted(lmi_place *p, const lam_op_sig *s) {
    const lam_value *v = lmi_sig_value(s, 1);
    int8_t was[LMI_PLACE_AXES];
    if (!v || v->type != LAM_INTS || v->n != p->n) return false;
    memcpy(was, p->of, sizeof was);
    for (int32_t i = 0; i < p->n; i++) {
        int64_t d = v->ints[i] < 0 ? v->ints[i] + p->n : v->ints[i];
        if (d < 0 || d >= p->n) return false;
        p->of[i] = was[d];
    }
    return true;
}

static bool swapped(lmi_place *p, int32_t x, int32_t y) {
    if (x < 0 || y < 0) return p->n < 2;
    int8_t was = p->of[x];
    p->of[x] = p->of[y];
    p->of[y] = was;
    return true;
}

/* A view with the same elements in the same order is followed if only axes of one element are added or
 * removed. */
static bool viewed(lmi_place *p, const lam_op_arg *in, const lam_op_arg *out) {
    int8_t of[LMI_PLACE_AXES];
    int32_t next = 0;
    if (out->ndim < 0 || out->ndim > LMI_PLACE_AXES || in->ndim != p->n) return false;
    for (int32_t i = 0; i < out->ndim; i++) {
        of[i] = -1;
        if (out->sizes[i] == 1) continue;
        while (next < in->ndim && in->sizes[next] == 1) next++;
        if (next == in->ndim || in->sizes[next] != out->sizes[i]) return false;
        of[i] = p->of[next++];
    }
    while (next < in->ndim && in->sizes[next] == 1) next++;
    if (next < in->ndim) return false;
    memcpy(p->of, of, sizeof of);
    p->n = out->ndim;
    return true;
}

static bool expanded(lmi_place *p, const lam_op_arg *in, const lam_op_arg *out) {
    int8_t of[LMI_PLACE_AXES];
    int32_t more = out->ndim - in->ndim;
    if (more < 0 || out->ndim > LMI_PLACE_AXES || in->ndim != p->n) return false;
    for (int32_t i = 0; i < out->ndim; i++)
        of[i] = (int8_t)(i >= more && in->sizes[i - more] == out->sizes[i] ? p->of[i - more] : -1);
    memcpy(p->of, of, sizeof of);
    p->n = out->ndim;
    return true;
}

/* Part `nth` of a split: the parts follow one another along an axis. */
static bool split(lmi_place *p, const lam_op_sig *s, int32_t nth, const lam_op_arg *out) {
    int32_t axis = axis_at(s, 2, 0, p->n);
    int64_t before = 0;
    if (axis < 0 || out->ndim != p->n) return false;
    for (int32_t i = 0; i < nth; i++) before += s->out[i].sizes[axis];
    return p->of[axis] < 0 || cut(p, axis, before, 1, out->sizes[axis]);
}

static bool is(const char *name, const char *const *names) {
    while (*names && strcmp(name, *names) != 0) names++;
    return *names != NULL;
}

/* Computes the place of a view from the place of the viewed tensor. */
static bool follow(lmi_place *p, const lam_op_sig *s, const lam_op_arg *in, int32_t nth) {
    static const char *const
        same[] = {"detach",     "alias", "positive",       "lift_fresh", "lift",
                  "contiguous", "to",    "requires_grad_", "view_as",    NULL},
        *const order[] = {"view",    "_unsafe_view", "reshape", "_reshape_alias", "squeeze", "unsqueeze",
                          "flatten", "unflatten",    NULL},
        *const parts[] = {"split",        "split_with_sizes",        "chunk", "tensor_split", "unsafe_split",
                          "unsafe_chunk", "unsafe_split_with_sizes", NULL};
    const lam_op_arg *out = &s->out[nth];
    const char *name = s->name;
    if (!lmi_is_torchs(name) || in->ndim != p->n || out->ndim < 0) return false;
    name += 6;
    if (!strcmp(name, "slice")) return slice(p, s, in, out);
    if (!strcmp(name, "select")) return take_one(p, axis_at(s, 1, 0, p->n), int_of(s, 2, 0));
    if (!strcmp(name, "unbind")) return take_one(p, axis_at(s, 1, 0, p->n), nth);
    if (!strcmp(name, "permute")) return permuted(p, s);
    if (!strcmp(name, "transpose")) return swapped(p, axis_at(s, 1, 0, p->n), axis_at(s, 2, 1, p->n));
    if (!strcmp(name, "t")) return p->n < 2 || swapped(p, 0, 1);
    if (!strcmp(name, "expand")) return expanded(p, in, out);
    if (is(name, parts)) return split(p, s, nth, out);
    if (is(name, same) && out->ndim == in->ndim) return true;
    return is(name, order) && viewed(p, in, out);
}

static const lmi_edge *edge_at(const lmi_edge *edges, const lam_op *o, int32_t in) {
    return edges + o->ties_ + o->sig->in[in].before;
}

/* The operator that names the view which an operator made: for as_strided, the view around it that returned
 * its result. */
static int32_t named(const lam_model *m, const lmi_edge *edges, int32_t made) {
    const lam_op *o = &m->ops[made], *around = o->parent >= 0 ? &m->ops[o->parent] : NULL;
    if (!around || strcmp(o->sig->name, "aten::as_strided") != 0) return made;
    if (around->sig->n_out != 1 || around->sig->n_in == 0 || !around->sig->in[0].is_tensor) return made;
    const lmi_edge *mine = edge_at(edges, o, 0), *its = edge_at(edges, around, 0);
    const lam_op_arg *out = &o->sig->out[0], *whole = &around->sig->out[0];
    bool same = out->ndim == whole->ndim && whole->shares == 0 && mine->made == its->made &&
                mine->nth == its->nth && mine->owner == its->owner;
    for (int32_t i = 0; same && i < out->ndim; i++) same = out->sizes[i] == whole->sizes[i];
    return same ? o->parent : made;
}

enum { DEEPEST = 64 }; /* the most views of views that are followed */

static bool place_at(const lam_model *m, const lmi_edge *edges, int32_t made, int32_t nth, int32_t ndim,
                     const int64_t *sizes, int depth, lmi_place *p) {
    if (made < 0) return lmi_place_whole(p, ndim, sizes);
    const lam_op *o = &m->ops[named(m, edges, made)];
    if (nth >= o->sig->n_out || depth == DEEPEST) return false;
    const lam_op_arg *out = &o->sig->out[nth];
    bool lift = !strncmp(o->sig->name, "aten::lift", 10); /* Python's own memory */
    if (out->shares < 0 || lift) return lmi_place_whole(p, out->ndim, out->sizes);
    int32_t viewed_arg = 0; /* the first argument is the viewed tensor */
    while (!o->sig->in[viewed_arg].is_tensor) viewed_arg++;
    const lam_op_arg *in = &o->sig->in[viewed_arg];
    const lmi_edge *edge = edge_at(edges, o, viewed_arg);
    if (edge->made < 0 && edge->owner == -1) return false;
    return place_at(m, edges, edge->made, edge->nth, in->ndim, in->sizes, depth + 1, p) &&
           follow(p, o->sig, in, nth);
}

bool lmi_place_of(const lam_model *m, const lmi_edge *edges, int32_t made, int32_t nth, int32_t ndim,
                  const int64_t *sizes, lmi_place *p) {
    return place_at(m, edges, made, nth, ndim, sizes, 0, p);
}

/* -- two views ----------------------------------------------------------------------------------- */

bool lmi_places_comparable(const lmi_place *x, const lmi_place *y) {
    return x->n_base == y->n_base && memcmp(x->size, y->size, (size_t)x->n_base * sizeof *x->size) == 0;
}

bool lmi_place_is_whole(const lmi_place *p) {
    for (int32_t i = 0; i < p->n_base; i++)
        if (p->count[i] != p->size[i]) return false;
    return true;
}

bool lmi_places_meet(const lmi_place *x, const lmi_place *y) {
    if (!lmi_places_comparable(x, y)) return true;
    for (int32_t i = 0; i < x->n_base; i++) {
        int64_t x_last = x->start[i] + (x->count[i] - 1) * x->step[i],
                y_last = y->start[i] + (y->count[i] - 1) * y->step[i];
        if (x->count[i] == 0 || y->count[i] == 0 || x_last < y->start[i] || y_last < x->start[i])
            return false;
        if (x->step[i] == y->step[i] && (x->start[i] - y->start[i]) % x->step[i] != 0) return false;
    }
    return true;
}

bool lmi_place_holds(const lmi_place *whole, const lmi_place *part) {
    if (!lmi_places_comparable(whole, part)) return false;
    for (int32_t i = 0; i < whole->n_base; i++) {
        int64_t first = part->start[i] - whole->start[i], step = whole->step[i];
        int64_t last = first + (part->count[i] - 1) * part->step[i];
        if (part->count[i] == 0) continue;
        if (first < 0 || first % step != 0 || last > (whole->count[i] - 1) * step) return false;
        if (part->count[i] > 1 && part->step[i] % step != 0) return false;
    }
    return true;
}
