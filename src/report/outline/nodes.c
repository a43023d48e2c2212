/* SPDX-License-Identifier: Apache-2.0
 *
 * How the nodes of levels look: their texts, their sizes, and their positions. */
#include "analyse/flow/levels.h"
#include "report/outline/work.h"

const char *const lmi_node_name[] = {[LMI_UNIT_IN] = "input",
                                     [LMI_UNIT_MODULE] = "module",
                                     [LMI_UNIT_OPS] = "operators",
                                     [LMI_UNIT_MORE] = "more",
                                     [LMI_UNIT_OUT] = "output"};

lam_status lmi_level_new(lmi_level *l, lmi_arena *a, int32_t n, int32_t n_lines, lam_error *e) {
    *l = (lmi_level){.n = n, .n_lines = n_lines};
    l->node = lmi_alloc(a, (uint64_t)n, sizeof *l->node);
    l->size = lmi_alloc(a, (uint64_t)n, sizeof *l->size);
    l->line = lmi_alloc(a, (uint64_t)n_lines, sizeof *l->line);
    return l->node && l->size && l->line ? LAM_OK : lmi_nomem(e);
}

/* -- texts --------------------------------------------------------------------------------------- */

/* Writes "convolution" for "aten::_convolution_for_cpu". */
static void put_op(lmi_buf *b, const char *name) {
    static const char space[] = "aten::", tail[] = "_for_cpu";
    if (strncmp(name, space, sizeof space - 1) == 0) name += sizeof space - 1;
    while (*name == '_' && name[1]) name++;
    size_t n = strlen(name), end = sizeof tail - 1;
    lmi_putn(b, name, n > end && strcmp(name + n - end, tail) == 0 ? n - end : n);
}

static void put_label(lmi_buf *b, const lmi_level_node *node, int32_t cut) {
    switch (node->type) {
    case LMI_UNIT_MORE: lmi_putf(b, "%d more", (int)cut); break;
    case LMI_UNIT_OUT: lmi_put(b, "out"); break;
    case LMI_UNIT_OPS:
        if (node->n_ops > 0) put_op(b, node->op[0]);
        if (node->n_ops < 2) break;
        lmi_put(b, node->n_ops == 2 ? ", " : " \u2026 ");
        put_op(b, node->op[node->n_ops - 1]);
        break;
    default: lmi_put(b, node->name);
    }
}

/* The note of a node: all its operators; for one operator, the shape of its result. */
static void put_note(lmi_buf *b, const lmi_level_node *node) {
    if (node->type == LMI_UNIT_MODULE && node->times > 1)
        lmi_putf(b, "%d/%d", (int)node->nth, (int)node->times);
    if (node->type != LMI_UNIT_OPS) return;
    for (int32_t i = 0; i < node->n_ops && node->n_ops > 1; i++) {
        if (i) lmi_put(b, " \u2192 ");
        put_op(b, node->op[i]);
    }
    if (node->n_ops == 1) lmi_put_sizes(b, node->shape.ndim, node->shape.sizes);
}

/* -- sizes --------------------------------------------------------------------------------------- */

/* The width of a text in tenths of a unit, with `each` for a column. */
static int32_t tenths(const char *text, int32_t each) {
    enum { MOST = 100 };
    size_t columns = lmi_width(text);
    return (int32_t)(columns < MOST ? columns : MOST) * each;
}

static int32_t between(int32_t least, int32_t n, int32_t most) {
    return n < least ? least : n > most ? most : n;
}

static lmi_box_size size_of(const lmi_level_node *node) {
    int32_t label = tenths(node->label, 1);
    switch (node->look) {
    case LMI_NODE_MODULE:
        return (lmi_box_size){between(132, (label * 73 + tenths(node->class_name, 64)) / 10 + 50, 230), 46};
    case LMI_NODE_OPERATORS: return (lmi_box_size){between(52, label * 70 / 10 + 22, 270), 24};
    default: return (lmi_box_size){between(40, label * 66 / 10 + 24, 270), 20};
    }
}

/* -- all ----------------------------------------------------------------------------------------- */

static lam_status keep_text(lmi_buf *text, lmi_arena *a, const char **out, lam_error *e) {
    *out = lmi_buf_keep(text, a);
    return *out ? LAM_OK : lmi_nomem(e);
}

lam_status lmi_level_name(lmi_level *l, lmi_arena *a, lmi_buf *text, lam_error *e) {
    static const uint8_t looks[] = {[LMI_UNIT_IN] = LMI_NODE_END,
                                    [LMI_UNIT_MODULE] = LMI_NODE_MODULE,
                                    [LMI_UNIT_OPS] = LMI_NODE_OPERATORS,
                                    [LMI_UNIT_MORE] = LMI_NODE_END,
                                    [LMI_UNIT_OUT] = LMI_NODE_END};
    lmi_buf_clear(text);
    for (int32_t i = 0; i < l->n; i++) {
        lmi_level_node *node = &l->node[i];
        node->look = looks[node->type];
        put_label(text, node, l->cut);
        LAM_TRY(keep_text(text, a, &node->label, e));
        put_note(text, node);
        LAM_TRY(keep_text(text, a, &node->note, e));
        l->size[i] = size_of(node);
    }
    return LAM_OK;
}

lam_status lmi_outline_draw(lmi_outline *o, lam_error *e) {
    for (int32_t i = 0; i < o->n_levels; i++) {
        lmi_level *l = &o->level[i];
        LAM_TRY(lmi_draw(&l->at, &o->arena, l->n, l->size, l->n_lines, l->line, e));
    }
    return LAM_OK;
}
