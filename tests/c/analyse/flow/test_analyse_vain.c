/* SPDX-License-Identifier: Apache-2.0
 *
 * What is in vain in made-up graphs: operators that no output depends on, and parameters that no gradient
 * reaches, against walks from each of them. */
#include "kit/oom.h"

#include "kit/draw.h"
#include "kit/ops_net.h"

enum {
    OPS = 16,
    PARAMS = 5,
    INPUT = 1,
    FIRST_PARAM = 2,
    FIRST_OP = FIRST_PARAM + PARAMS,
    TENSORS = FIRST_OP + OPS
};

static uint32_t seed = 17;

enum { ADD, DETACH, WITHOUT, WHOLE_NUMBERS, N_KINDS }; /* WITHOUT: in a block without gradients */

/* Tensors by number: the input, parameters, and what each operator gives, of which the last comes out. */
typedef struct made {
    int32_t n_ops, kind[OPS], reads[OPS][2];
    bool frozen[PARAMS], is_whole[TENSORS];
} made;

static lam_op_arg tensor_at(const made *d, int32_t position, int32_t number) {
    static const int64_t sizes[] = {2, 3};
    lam_op_arg a = data_of(position, 100 + (uint64_t)number, 100 + (uint64_t)number, sizes, 2);
    if (d->is_whole[number]) a.dtype = NET_INT64;
    return a;
}

static const char *name_of(int32_t kind) {
    return kind == DETACH ? "aten::detach" : kind == WHOLE_NUMBERS ? "aten::argmax" : "aten::add";
}

static void draw_graph(made *d) {
    *d = (made){.n_ops = draw(1, OPS)};
    for (int32_t i = 0; i < PARAMS; i++) d->frozen[i] = draw(0, 4) == 0;
    for (int32_t i = 0; i < d->n_ops; i++) {
        bool last = i + 1 == d->n_ops;
        d->kind[i] = draw(0, 5) || last ? ADD : draw(DETACH, N_KINDS - 1);
        for (int k = 0; k < 2; k++)
            d->reads[i][k] = draw(0, 2) ? draw(INPUT, FIRST_OP + i - 1) : FIRST_OP + i - 1;
        if (d->kind[i] != ADD && d->kind[i] != WITHOUT) d->reads[i][1] = -1;
        /* of whole numbers and others come others */
        d->is_whole[FIRST_OP + i] =
            d->kind[i] == WHOLE_NUMBERS ||
            (d->is_whole[d->reads[i][0]] && (d->reads[i][1] < 0 || d->is_whole[d->reads[i][1]]));
    }
}

static lam_model *built(const made *d) {
    net n = net_new();
    int32_t root = net_module(&n, "Net", 0), call;
    for (int32_t i = 0; i < PARAMS; i++) {
        char name[16];
        snprintf(name, sizeof name, "p%d", (int)i);
        net_numbered(&n, root, name, 100 + FIRST_PARAM + (uint64_t)i, !d->frozen[i], SH(2, 3));
    }
    net_place(&n, -1, "", root);
    const lam_op_arg x = tensor_at(d, 0, INPUT), y = tensor_at(d, 0, FIRST_OP + d->n_ops - 1);
    lam_arg in = {NULL, 0, NET_FLOAT32, 0, 2, x.sizes, x.storage, x.storage, x.object};
    lam_arg out = {NULL, 0, y.dtype, 0, 2, y.sizes, y.storage, y.storage, y.object};
    const lam_call_info c = {.module = root, .parent = -1, .n_in = 1, .in = &in, .n_out = 1, .out = &out};
    NET_OK(&n, lam_build_call(n.b, &c, &call, &n.e));
    for (int32_t i = 0; i < d->n_ops; i++) {
        const lam_op_arg args[] = {tensor_at(d, 0, d->reads[i][0]),
                                   tensor_at(d, 1, d->reads[i][1] < 0 ? INPUT : d->reads[i][1])};
        const lam_op_arg gives = tensor_at(d, 0, FIRST_OP + i);
        uint32_t flags = d->kind[i] == WITHOUT ? 0 : LAM_OP_GRAD;
        net_op_args(&n, name_of(d->kind[i]), (op_at){call, -1, LAM_FORWARD, flags}, args,
                    d->reads[i][1] < 0 ? 1 : 2, &gives, 1);
    }
    return net_done(&n);
}

/* Operators that the output depends on; `gradient`: along what passes one. */
static void reach(const made *d, bool gradient, bool *reached) {
    int32_t last = FIRST_OP + d->n_ops - 1;
    for (int32_t i = 0; i < TENSORS; i++) reached[i] = false;
    reached[last] = !gradient || !d->is_whole[last];
    for (int32_t i = d->n_ops - 1; i >= 0; i--) {
        bool stops = d->kind[i] != ADD || d->is_whole[FIRST_OP + i];
        if (!reached[FIRST_OP + i] || (gradient && stops)) continue;
        for (int k = 0; k < 2; k++) {
            int32_t from = d->reads[i][k];
            if (from >= 0 && !(gradient && d->is_whole[from])) reached[from] = true;
        }
    }
}

static void check_work(const made *d, const lam_graph *g, const bool *live) {
    const char *reason = NULL, *path = lam_graph_unused(g, 0, &reason), *first = NULL;
    char want[160];
    int32_t dead = 0;
    for (int32_t i = 0; i < d->n_ops; i++) {
        if (live[FIRST_OP + i] || d->kind[i] == DETACH) continue; /* a view is no work */
        first = dead++ ? first : name_of(d->kind[i]);
    }
    if (dead == 1)
        snprintf(want, sizeof want, "what %s gives in it reaches no output of the model", first);
    else
        snprintf(want, sizeof want, "what %d of its operators give reaches no output of the model, %s first",
                 (int)dead, first);
    if (dead == 0) {
        assert_null(path);
        return;
    }
    assert_string_equal(path, "");
    assert_string_equal(reason, want);
    assert_null(lam_graph_unused(g, 1, &reason));
}

static const char *reason_of(const lam_graph *g, const char *name) {
    const char *path, *reason;
    for (int32_t i = 0; (path = lam_graph_no_gradient(g, i, &reason)); i++)
        if (strcmp(path, name) == 0) return reason;
    return NULL;
}

static void check_params(const made *d, const lam_graph *g, const bool *live, const bool *passes) {
    for (int32_t i = 0; i < PARAMS; i++) {
        char name[16];
        bool read = false;
        snprintf(name, sizeof name, "p%d", (int)i);
        const char *reason = reason_of(g, name);
        for (int32_t k = 0; k < d->n_ops; k++)
            read = read || d->reads[k][0] == FIRST_PARAM + i || d->reads[k][1] == FIRST_PARAM + i;
        if (!d->frozen[i] && passes[FIRST_PARAM + i]) {
            assert_null(reason);
        } else if (!reason) {
            fail_msg("%s has no gradient, and nothing says so", name);
        } else if (!d->frozen[i] && !read) {
            assert_string_equal(reason, "no operator of the forward reads it");
        } else if (!d->frozen[i] && !live[FIRST_PARAM + i]) {
            assert_string_equal(reason, "what is computed from it reaches no output of the model");
        }
    }
}

static void walks_find_the_same(void **state) {
    (void)state;
    for (int round = 0; round < rounds(5000); round++) {
        made d;
        bool live[TENSORS], passes[TENSORS], any = false;
        lam_graph *g = NULL;
        draw_graph(&d);
        for (int32_t i = 0; i < d.n_ops; i++)
            for (int k = 0; k < 2; k++)
                any = any || (d.reads[i][k] >= FIRST_PARAM && d.reads[i][k] < FIRST_OP);
        lam_model *m = built(&d);
        assert_int_equal(lam_graph_new(&g, m, NULL), LAM_OK);
        reach(&d, false, live);
        reach(&d, true, passes);
        check_work(&d, g, live);
        if (any) check_params(&d, g, live, passes); /* a model that reads none may have others */
        lam_graph_free(g);
        lam_model_free(m);
    }
}

static void once(void *arg, bool *ok) {
    lam_graph *g = NULL;
    lam_error e = {0};
    *ok = oom_check(lam_graph_new(&g, arg, &e), &e);
    lam_graph_free(g);
}

static void memory_may_run_out(void **state) {
    (void)state;
    for (int i = 0; i < 10; i++) {
        made d;
        draw_graph(&d);
        lam_model *m = built(&d);
        assert_int_equal(lam_model_find_sources(m, NULL), LAM_OK);
        oom_sweep(once, m);
        lam_model_free(m);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(walks_find_the_same),
        cmocka_unit_test(memory_may_run_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
