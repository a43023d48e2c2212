/* SPDX-License-Identifier: Apache-2.0
 *
 * Attributes of modules of torch.nn: their operators tell them. The first call tells. */
#include "read/pt2/inner.h"

#include <stdlib.h>

enum { MOST_AXES = 32, CLASS = 64, NOWHERE = 99 };

#define ATTRIBUTES(types, operators, attributes) {types, operators, attributes},
static const struct attribute {
    const char *types, *operators, *attributes;
} table[] = {
#include "read/pt2/attributes.def"
};
#undef ATTRIBUTES

static const char *attributes_of(const char *type, const char *op) {
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (lmi_listed(table[i].types, type) && lmi_listed(table[i].operators, op))
            return table[i].attributes;
    return NULL;
}

/* The axes of the window: those of a weight behind its channels, or those that an operator such as
 * "aten::max_pool2d" is called after. */
static int32_t window_axes(const lam_op_info *op) {
    const lam_op_arg *w = lmi_inner_at(op, 1, 0);
    if (w && w->is_tensor) return w->ndim > 2 ? w->ndim - 2 : 0;
    return op->name[strlen(op->name) - 2] - '0';
}

/* A list for each axis; false: it is not known. */
static bool axes(const lam_op_info *op, int32_t position, int64_t *out, lam_value *v) {
    const lam_op_arg *a = lmi_inner_at(op, position, 0);
    const int32_t n = window_axes(op);
    if ((a && a->is_tensor) || n < 1 || n > MOST_AXES) return false;
    if (a && a->value.type == LAM_TEXT) return *v = a->value, true; /* padding="same" */
    const bool list = a && a->value.type == LAM_INTS;
    if (list && a->value.n == 0)
        return position != 1 && axes(op, 1, out, v); /* a stride that is the window's */
    if (a ? !list && a->value.type != LAM_INT : position != NOWHERE) return false;
    for (int32_t i = 0; i < n; i++)
        out[i] = list ? a->value.ints[i < a->value.n ? i : a->value.n - 1] : a ? a->value.i : 0;
    *v = (lam_value){.type = LAM_INTS, .n = n, .ints = out};
    return true;
}

/* A list, or one number if all are equal. */
static bool number_or_list(const lam_op_info *op, int32_t position, int64_t *out, lam_value *v) {
    if (!axes(op, position, out, v)) return false;
    for (int32_t i = 1; v->type == LAM_INTS && i < v->n; i++)
        if (v->ints[i] != v->ints[0]) return true;
    if (v->type == LAM_INTS) *v = (lam_value){.type = LAM_INT, .i = v->ints[0]};
    return true;
}

static bool size_of(const lam_op_info *op, int32_t position, int64_t axis, int64_t *out) {
    const lam_op_arg *a = lmi_inner_at(op, position, 0);
    if (!a || !a->is_tensor || axis >= a->ndim) return false;
    *out = a->sizes[axis];
    return true;
}

static bool window(const lam_op_info *op, int32_t position, lam_value *v) {
    const lam_op_arg *w = lmi_inner_at(op, position, 0);
    if (!w || !w->is_tensor || w->ndim < 3) return false;
    *v = (lam_value){.type = LAM_INTS, .n = w->ndim - 2, .ints = w->sizes + 2};
    return true;
}

static lam_value word(const char *text) {
    if (strcmp(text, "true") == 0 || strcmp(text, "false") == 0)
        return (lam_value){.type = LAM_BOOL, .i = *text == 't'};
    return (lam_value){.type = LAM_TEXT, .text = text};
}

/* The value of "d1.0"; false: the operator does not tell it. `room` is for a list. */
static bool read_value(const lam_op_info *op, const char *how, int64_t *room, lam_value *v) {
    char *end;
    const int32_t position = (int32_t)strtol(how + 1, &end, 10);
    const int64_t which = *end == '.' ? strtoll(end + 1, NULL, 10) : 0;
    const lam_op_arg *a = lmi_inner_at(op, position, 0);
    *v = (lam_value){.type = LAM_INT};
    switch (*how) {
    case 'k': *v = word(how + 1); return true;
    case 'a': return axes(op, position, room, v);
    case 'n': return number_or_list(op, position, room, v);
    case 'w': return window(op, position, v);
    case 'd': return size_of(op, position, which, &v->i);
    case 'x':
        return size_of(op, position, which, &v->i) && !lmi_mul_over(v->i, lmi_inner_int(op, 6, 1), &v->i);
    case 'h':
        if (!size_of(op, position, 0, &v->i)) return false;
        v->i /= which; /* NOLINT(clang-analyzer-core.DivideZero): the table states it */
        return true;
    case 'j': {
        const lam_op_arg *hidden = lmi_inner_at(op, position, 1);
        if (!hidden || !hidden->is_tensor || hidden->ndim != 2) return false;
        /* NOLINTNEXTLINE(clang-analyzer-core.DivideZero): the table states it */
        v->i = hidden->sizes[1] == hidden->sizes[0] / which ? 0 : hidden->sizes[1];
        return true;
    }
    case 'p': *v = (lam_value){.type = LAM_BOOL, .i = a && a->is_tensor}; return true;
    default:
        if (!a || a->is_tensor || a->value.type == LAM_NONE) return false;
        *v = a->value;
        return true;
    }
}

static lam_status push(lmi_pt2 *p, int32_t module, const lam_op_info *op, const char *at) {
    while (*at) {
        char name[CLASS], how[CLASS];
        const size_t n = strcspn(at, "="), all = strcspn(at, " ");
        int64_t room[MOST_AXES];
        lam_value v;
        memcpy(name, at, n);
        name[n] = '\0';
        memcpy(how, at + n + 1, all - n - 1);
        how[all - n - 1] = '\0';
        if (read_value(op, how, room, &v)) LAM_TRY(lam_build_attr(p->b, module, name, &v, p->e));
        at += all + (at[all] == ' ');
    }
    return LAM_OK;
}

lam_status lmi_pt2_attributes(lmi_pt2 *p, int32_t module, const lam_op_info *op) {
    lmi_pt2_module *m = lmi_pt2_module_at(p, module);
    if (m->described || !m->type_path || strncmp(m->type_path, "torch.nn.", 9) != 0) return LAM_OK;
    const char *text = attributes_of(strrchr(m->type_path, '.') + 1, op->name);
    const lam_op_arg *second = lmi_inner_at(op, 1, 0);
    if (!text) return LAM_OK;
    m->described = true;
    /* Packed sequences have other positions. */
    if (lmi_inner_at(op, 8, 0) && second && second->is_tensor && second->dtype == 4 && second->ndim == 1)
        return LAM_OK;
    return push(p, m->index, op, text);
}
