/* SPDX-License-Identifier: Apache-2.0
 *
 * Graphs of ONNX with what their last nodes give: held against what is inferred, also where less is
 * known of the arguments and where memory runs out. */
#ifndef LAMINA_TEST_ONNX_HELD_H
#define LAMINA_TEST_ONNX_HELD_H

#include "kit/onnx_graph.h"

#include "read/onnx/infer.h"

OOM_UNUSED static lam_error last;

/* What is known of the results of the last node, joined by "; ". */
OOM_UNUSED static char *inferred(const char *text, const lmi_onnx_given *given) {
    static char out[4096];
    onnx_text t;
    lmi_buf b;
    lmi_buf_init(&b);
    onnx_graph_of(&t, text);
    last = (lam_error){0};
    if (lmi_onnx_infer(&t.m, given, &last) != LAM_OK)
        lmi_putf(&b, "refused: %s", last.text);
    else {
        const lmi_onnx_node *n = lmi_onnx_node_at(&t.m, t.m.graph->nodes[t.m.graph->n_nodes - 1]);
        for (int32_t k = 0; k < n->n_out; k++) {
            lmi_put(&b, k ? "; " : "");
            if (lmi_onnx_out(&t.m, n, k)) onnx_put_value(&b, lmi_onnx_out(&t.m, n, k));
        }
    }
    snprintf(out, sizeof out, "%s", lmi_buf_text(&b));
    lmi_buf_free(&b);
    onnx_forget(&t);
    return out;
}

/* A graph, and what its last node's results are. */
typedef struct rows {
    const char *text, *results;
} rows;

/* Takes away a part of what is known of a value: its elements, its type, its sizes, or one of them. False:
 * the graph makes it itself. */
static bool forget_part(lmi_onnx_value *v, int32_t part) {
    if (v->producer >= 0 || (!v->input && !v->initialiser) || part - 3 >= v->ndim) return false;
    v->initialiser = false;
    v->input = true;
    v->where = LMI_ONNX_NOWHERE;
    if (part == 1) v->type = LMI_ONNX_NO_TYPE;
    if (part == 2) v->ndim = -1;
    if (part >= 3) ((int64_t *)(uintptr_t)v->sizes)[part - 3] = -1;
    return true;
}

/* What is known of a value in both graphs is the same. */
static void same_where_known(const char *text, const lmi_onnx_value *a, const lmi_onnx_value *b) {
    bool same = !a->type || !b->type || a->type == b->type;
    if (a->ndim >= 0 && b->ndim >= 0 && a->kind == b->kind) {
        same = same && a->ndim == b->ndim;
        for (int32_t d = 0; same && d < a->ndim; d++)
            same = a->sizes[d] < 0 || b->sizes[d] < 0 || a->sizes[d] == b->sizes[d];
    }
    if (!same) fail_msg("%s\n  '%s' is another where less is known", text, b->name);
}

static void sizes_are_sane(const lmi_onnx_model *m) {
    for (size_t i = 0; i < m->values.n; i++) {
        const lmi_onnx_value *v = lmi_onnx_value_at(m, (int32_t)i);
        assert_in_range(v->ndim + 1, 0, LMI_ONNX_MOST_AXES + 1);
        for (int32_t d = 0; d < v->ndim; d++) assert_true(v->sizes[d] >= -1);
    }
}

/* Where less is known of an argument, less is known of the results, and nothing else. */
static void less_tells_nothing_else(const char *text) {
    onnx_text whole, less;
    onnx_graph_of(&whole, text);
    assert_int_equal(lmi_onnx_infer(&whole.m, NULL, &last), LAM_OK);
    for (size_t i = 0; i < whole.m.values.n; i++) {
        const int32_t axes = lmi_onnx_value_at(&whole.m, (int32_t)i)->ndim;
        for (int32_t part = 0; part < 3 + axes; part++) {
            onnx_graph_of(&less, text);
            if (forget_part(lmi_onnx_value_at(&less.m, (int32_t)i), part)) {
                assert_int_equal(lmi_onnx_infer(&less.m, NULL, &last), LAM_OK);
                for (size_t k = 0; k < whole.m.values.n; k++)
                    same_where_known(text, lmi_onnx_value_at(&whole.m, (int32_t)k),
                                     lmi_onnx_value_at(&less.m, (int32_t)k));
            }
            onnx_forget(&less);
        }
    }
    onnx_forget(&whole);
}

/* The last node without its k-th argument, or without an attribute. False: it has no more. */
static bool leave_out(lmi_onnx_model *m, int32_t k) {
    lmi_onnx_node *n = lmi_onnx_node_at(m, m->graph->nodes[m->graph->n_nodes - 1]);
    if (k < n->n_in) {
        ((int32_t *)(uintptr_t)n->in)[k] = -1;
        return true;
    }
    if (k - n->n_in >= n->n_attrs) return false;
    ((lmi_onnx_attribute *)(uintptr_t)n->attrs)[k - n->n_in] = n->attrs[n->n_attrs - 1];
    n->n_attrs--;
    return true;
}

static void any_part_may_be_left_out(const char *text) {
    bool more = true;
    for (int32_t k = 0; more; k++) {
        onnx_text t;
        onnx_graph_of(&t, text);
        more = leave_out(&t.m, k);
        assert_int_equal(lmi_onnx_infer(&t.m, NULL, &last), LAM_OK);
        sizes_are_sane(&t.m);
        onnx_forget(&t);
    }
}

static void run_short_of_memory(void *arg, bool *ok) {
    onnx_text t;
    int64_t fail_at = oom_fail_at;
    oom_fail_at = -1; /* the text itself is made with all that it needs */
    onnx_graph_of(&t, arg);
    oom_fail_at = fail_at;
    oom_seen = 0;
    oom_injected = false;
    lam_error e = {0};
    *ok = oom_check(lmi_onnx_infer(&t.m, NULL, &e), &e);
    onnx_forget(&t);
}

OOM_UNUSED static void hold(const rows *all, size_t n) {
    for (size_t i = 0; i < n; i++) {
        const char *got = inferred(all[i].text, NULL);
        if (strcmp(got, all[i].results) != 0)
            fail_msg("%s\n  is   %s\n  not  %s", all[i].text, got, all[i].results);
        less_tells_nothing_else(all[i].text);
        any_part_may_be_left_out(all[i].text);
        oom_each(run_short_of_memory, (void *)(uintptr_t)all[i].text, OOM_PIECES, false);
    }
}
#define HOLD(all) hold(all, sizeof all / sizeof *all)

#endif
