/* SPDX-License-Identifier: Apache-2.0
 *
 * What is said of a file: its format, what it leaves open, and what a number of the table does not tell. */
#include "read/onnx/source.h"

#include <stdio.h>
#include <stdlib.h>

enum { OLDEST_OPSET = 7 }; /* whose operators are known */

static lam_status note_external(const lmi_onnx_model *m, lam_builder *b, lam_error *e) {
    int32_t n = 0;
    char text[200];
    for (size_t i = 0; i < m->values.n; i++)
        n += ((const lmi_onnx_value *)lmi_vec_at(&m->values, i))->where == LMI_ONNX_EXTERNAL;
    if (n == 0) return LAM_OK;
    snprintf(text, sizeof text, "the data of %d tensor%s in other files, which are not opened: %s here",
             (int)n, n == 1 ? " is" : "s are", n == 1 ? "its shape is" : "their shapes are");
    return lam_build_note(b, text, e);
}

static lam_status note_folded(int32_t folded, lam_builder *b, lam_error *e) {
    char text[160];
    if (folded == 0) return LAM_OK;
    snprintf(text, sizeof text, "%d batch normalisation%s folded into the convolution%s before", (int)folded,
             folded == 1 ? " is" : "s are", folded == 1 ? "" : "s");
    return lam_build_note(b, text, e);
}

/* Models of scikit-learn and of trees have their numbers in attributes. */
static lam_status note_attributes(const lmi_onnx_model *m, lam_builder *b, lam_error *e) {
    int32_t nodes = 0;
    int64_t all = 0;
    char text[160];
    for (size_t i = 0; i < m->nodes.n; i++) {
        const lmi_onnx_node *n = lmi_vec_at(&m->nodes, i);
        const int64_t before = all;
        for (int32_t k = 0; k < n->n_attrs && strcmp(n->domain, "ai.onnx.ml") == 0; k++)
            if (n->attrs[k].floats) all += n->attrs[k].n;
        nodes += all > before;
    }
    if (nodes == 0) return LAM_OK;
    snprintf(text, sizeof text,
             "attributes of %d operator%s of ai.onnx.ml have %lld number%s, which %s no parameter%s here",
             (int)nodes, nodes == 1 ? "" : "s", (long long)all, all == 1 ? "" : "s", all == 1 ? "is" : "are",
             all == 1 ? "" : "s");
    return lam_build_note(b, text, e);
}

/* -- inputs ---------------------------------------------------------------------------------------------- */

/* Appends the shape that a file states of an input, sizes that it leaves open by the names that it has for
 * them. */
static void put_stated(const lmi_onnx_model *m, const lmi_onnx_value *v, lmi_buf *b) {
    lmi_put_clean(b, v->name);
    lmi_put(b, " (");
    for (int32_t k = 0; k < v->ndim; k++) {
        const int32_t symbol = v->symbols ? v->symbols[k] : -1;
        const lmi_onnx_symbol *named = symbol >= 0 ? lmi_vec_at(&m->symbols, (size_t)symbol) : NULL;
        if (k) lmi_put(b, "×");
        if (v->sizes[k] >= 0)
            lmi_putf(b, "%lld", (long long)v->sizes[k]);
        else
            lmi_put_clean(b, named ? named->name : "?");
    }
    lmi_put(b, v->ndim < 0 ? "unknown)" : ")");
}

/* The inputs whose sizes the file only names, with the text that gives them. */
static void put_open(const lmi_onnx_model *m, lmi_buf *b) {
    for (int32_t i = 0; i < m->graph->n_inputs; i++) {
        const lmi_onnx_value *v = lmi_onnx_input(m, i);
        if (v->initialiser || lmi_onnx_arg(m, m->graph->inputs[i], 0).ndim >= 0) continue;
        lmi_put(b, b->n ? ", " : "the file leaves sizes of its inputs open, which -i or `inputs` gives: ");
        put_stated(m, v, b);
    }
}

/* The values that another one is computed from. */
typedef struct origins {
    const lmi_onnx_model *m;
    lmi_vec open; /* int32_t: those that are not read yet */
    bool *seen;   /* of each value */
    bool small;   /* all are inputs of few elements, or known */
    lam_error *e;
} origins;

/* A value may be given by -i where its elements are few and whole. */
static bool can_be_given(const lmi_onnx_value *v) {
    enum { FEW = 16 };
    int64_t n;
    const bool whole = v->type == LMI_ONNX_BOOL || v->type == LMI_ONNX_INT32 || v->type == LMI_ONNX_INT64;
    return whole && v->ndim >= 0 && lmi_product(v->sizes, v->ndim, &n) && n <= FEW;
}

static lam_status look(origins *o, int32_t value) {
    const lmi_onnx_value *v = value < 0 ? NULL : lmi_onnx_value_at(o->m, value);
    if (!v || v->where != LMI_ONNX_NOWHERE || v->initialiser || o->seen[value]) return LAM_OK;
    o->seen[value] = true;
    if (v->producer < 0) {
        o->small = o->small && v->input && v->graph == o->m->graph && can_be_given(v);
        return LAM_OK;
    }
    const lmi_onnx_node *n = lmi_onnx_node_at(o->m, v->producer);
    for (int32_t i = 0; i < n->n_in; i++) LAM_TRY(lmi_vec_put(&o->open, &n->in[i], o->e));
    return LAM_OK;
}

/* Finds what a value is computed from. */
static lam_status find(origins *o, int32_t value) {
    memset(o->seen, 0, o->m->values.n);
    o->small = true;
    LAM_TRY(lmi_vec_put(&o->open, &value, o->e));
    while (o->open.n && o->small) {
        const int32_t next = *(const int32_t *)lmi_vec_at(&o->open, o->open.n - 1);
        lmi_vec_pop(&o->open);
        LAM_TRY(look(o, next));
    }
    o->open.n = 0;
    return LAM_OK;
}

/* Marks the inputs whose values decide on the first nodes of the graph that are undecided. */
static lam_status find_deciding(origins *o, bool *decides) {
    enum { MOST = 8 }; /* nodes, each of which may read all values */
    const lmi_onnx_graph *g = o->m->graph;
    for (int32_t i = 0, looked = 0; i < g->n_nodes && looked < MOST; i++) {
        const lmi_onnx_node *n = lmi_onnx_node_at(o->m, g->nodes[i]);
        const bool branch = !*n->domain && strcmp(n->op, "If") == 0 && n->taken < 0;
        const bool loop = !*n->domain && strcmp(n->op, "Loop") == 0 && n->times < 0;
        if (!branch && !loop) continue;
        looked++;
        for (int32_t k = 0; k < n->n_in && k < 1 + loop; k++) {
            LAM_TRY(find(o, n->in[k]));
            for (int32_t v = 0; o->small && v < g->n_inputs; v++)
                decides[v] = decides[v] || o->seen[g->inputs[v]];
        }
    }
    return LAM_OK;
}

/* The inputs whose values decide what runs, with the text that gives them. */
static lam_status put_deciding(const lmi_onnx_model *m, lmi_buf *b, lam_error *e) {
    origins o = {.m = m, .seen = calloc(m->values.n + 1, 1), .e = e};
    bool *decides = calloc((size_t)m->graph->n_inputs + 1, 1), any = false;
    lmi_vec_init(&o.open, sizeof(int32_t));
    const lam_status s = o.seen && decides ? find_deciding(&o, decides) : lmi_nomem(e);
    for (int32_t i = 0; s == LAM_OK && i < m->graph->n_inputs; i++) {
        const lmi_onnx_value *v = lmi_onnx_input(m, i);
        if (!decides[i]) continue;
        if (!any) lmi_putf(b, "%svalues decide what runs, which -i or `inputs` gives: ", b->n ? "; " : "");
        if (any) lmi_put(b, ", ");
        any = true;
        lmi_put_clean(b, v->name);
        for (int32_t k = 0; k < v->ndim; k++) lmi_putf(b, k ? "x%lld" : "=%lld", (long long)v->sizes[k]);
        lmi_putf(b, "%s:%s=VALUE", v->ndim ? "" : "=scalar", lam_dtype_name(lmi_onnx_dtype(v->type)));
    }
    lmi_vec_free(&o.open);
    free(o.seen);
    free(decides);
    return s;
}

static lam_status note_inputs(const lmi_onnx_model *m, lam_builder *b, lam_error *e) {
    lmi_buf text;
    lmi_buf_init(&text);
    put_open(m, &text);
    lam_status s = put_deciding(m, &text, e);
    if (s == LAM_OK) s = lmi_buf_status(&text, e);
    if (s == LAM_OK && text.n) s = lam_build_note(b, text.s, e);
    lmi_buf_free(&text);
    return s;
}

static lam_status note_opset(int32_t opset, lam_builder *b, lam_error *e) {
    char text[96];
    if (opset >= OLDEST_OPSET) return LAM_OK;
    snprintf(text, sizeof text, "its operators are read as those of opset %d, and it has opset %d",
             OLDEST_OPSET, (int)opset);
    return lam_build_note(b, opset > 0 ? text : "its opset is not known", e);
}

lam_status lmi_onnx_tell(const lmi_onnx_model *m, int32_t folded, lam_builder *b, lam_error *e) {
    char text[64];
    int32_t opset = 0;
    for (int32_t i = 0; i < m->n_opsets; i++)
        if (!*m->opset_domains[i].key) opset = (int32_t)strtol(m->opset_domains[i].value, NULL, 10);
    snprintf(text, sizeof text, opset > 0 ? "ONNX %lld, opset %d" : "ONNX %lld", (long long)m->ir_version,
             (int)opset);
    LAM_TRY(lam_build_trainable_unknown(b, e));
    LAM_TRY(lam_build_provenance(b, "format", text, e));
    LAM_TRY(note_opset(opset, b, e));
    LAM_TRY(note_inputs(m, b, e));
    LAM_TRY(note_folded(folded, b, e));
    LAM_TRY(note_attributes(m, b, e));
    return note_external(m, b, e);
}
