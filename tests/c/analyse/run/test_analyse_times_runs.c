/* SPDX-License-Identifier: Apache-2.0
 *
 * Times of made-up runs: each nanosecond is looked at by itself, and belongs to the innermost call that is
 * open, to the call that made the node that runs, or to the engine between two nodes. */
#include "kit/oom.h"

#include "kit/draw.h"
#include "kit/net.h"
#include "kit/times.h"

enum { CALLS = 40, PLACES = 8, NODES = 12, TIME = 4000 };

static uint32_t seed = 5;

typedef struct made {
    int32_t n_calls, n_runs, parent[CALLS], module[CALLS], run[CALLS];
    int64_t t0[CALLS], t1[CALLS];
    int32_t n_nodes, of[NODES], run_of_node[NODES];
    int64_t from[NODES], to[NODES];
    int64_t now;
} made;

/* A call and those in it, one after another with gaps that may be empty. */
static void call(made *d, int32_t parent, int32_t depth, int32_t run) {
    int32_t me = d->n_calls++;
    d->parent[me] = parent;
    d->run[me] = run;
    d->module[me] = parent < 0 ? 0 : draw(1, PLACES - 1);
    d->t0[me] = d->now += draw(0, 3);
    for (int32_t k = depth < 4 ? draw(0, 3) : 0; k > 0 && d->n_calls < CALLS; k--)
        call(d, me, depth + 1, run);
    d->t1[me] = d->now += draw(0, 9);
}

static void backward(made *d, int32_t run) {
    d->now += draw(1, 20);
    for (int32_t k = draw(0, 4); k > 0 && d->n_nodes < NODES; k--) {
        int32_t i = d->n_nodes++;
        do d->of[i] = draw(-1, d->n_calls - 1);
        while (d->of[i] >= 0 && d->run[d->of[i]] != run);
        d->run_of_node[i] = run;
        d->from[i] = d->now += draw(0, 5);
        d->to[i] = d->now += draw(0, 30);
    }
    d->now += draw(1, 20);
}

static lam_model *made_up(made *d) {
    *d = (made){.now = 10};
    for (int32_t runs = draw(1, 3); runs > 0 && d->n_calls < CALLS; runs--) {
        call(d, -1, 0, d->n_runs);
        backward(d, d->n_runs++);
    }
    net n = net_new();
    for (int32_t i = 0; i < PLACES; i++) {
        char name[16];
        snprintf(name, sizeof name, "m%d", (int)i);
        net_place(&n, i ? 0 : -1, i ? name : "", net_module(&n, "Layer", 0));
    }
    for (int32_t i = 0; i < d->n_calls; i++) {
        const lam_call_info c = {.module = d->module[i],
                                 .parent = d->parent[i],
                                 .t0_ns = d->t0[i],
                                 .t1_ns = d->t1[i]};
        NET_OK(&n, lam_build_call(n.b, &c, NULL, &n.e));
    }
    for (int32_t i = 0; i < d->n_nodes; i++) {
        const lam_op_info o = {.name = "AddBackward0",
                               .call = d->of[i],
                               .parent = -1,
                               .phase = LAM_BACKWARD,
                               .flags = LAM_OP_NODE,
                               .t0_ns = d->from[i],
                               .t1_ns = d->to[i],
                               .pass = 1 + d->run_of_node[i]};
        NET_OK(&n, lam_build_op(n.b, &o, NULL, &n.e));
    }
    NET_OK(&n, lam_build_timed(n.b, &n.e));
    NET_OK(&n, lam_build_nodes_seen(n.b, &n.e));
    return net_done(&n);
}

typedef struct found {
    int64_t self[CALLS][2], part[3][LAM_N_TIME_PARTS];
} found;

static void look(const made *d, found *f) {
    *f = (found){0};
    for (int64_t t = 0; t < TIME; t++) {
        int32_t in = -1;
        for (int32_t i = 0; i < d->n_calls; i++)
            if (d->t0[i] <= t && t < d->t1[i]) in = i; /* later ones lie inside earlier ones */
        if (in >= 0) {
            f->self[in][0]++;
            f->part[d->run[in]][LAM_TIME_FORWARD]++;
        }
        for (int32_t i = 0; i < d->n_nodes; i++) {
            int64_t *part = f->part[d->run_of_node[i]];
            bool next = i + 1 < d->n_nodes && d->run_of_node[i + 1] == d->run_of_node[i];
            if (next && d->to[i] <= t && t < d->from[i + 1]) part[LAM_TIME_ENGINE]++;
            if (t < d->from[i] || t >= d->to[i]) continue;
            if (d->of[i] >= 0) f->self[d->of[i]][1]++;
            part[d->of[i] >= 0 ? LAM_TIME_BACKWARD : LAM_TIME_OUTSIDE]++;
        }
    }
}

static void check_calls(const made *d, const found *f, const lam_times *t) {
    int64_t total[CALLS][2];
    memcpy(total, f->self, sizeof total);
    for (int32_t i = d->n_calls - 1; i >= 0; i--) {
        lam_time x;
        assert_true(lam_times_event(t, i, &x));
        assert_int_equal(x.self[LAM_FORWARD], f->self[i][0]);
        assert_int_equal(x.self[LAM_BACKWARD], d->n_nodes ? f->self[i][1] : -1);
        assert_int_equal(x.total[LAM_FORWARD], d->t1[i] - d->t0[i]);
        assert_int_equal(x.total[LAM_FORWARD], total[i][0]);
        assert_int_equal(x.total[LAM_BACKWARD], d->n_nodes ? total[i][1] : -1);
        for (int k = 0; k < 2 && d->parent[i] >= 0; k++) total[d->parent[i]][k] += total[i][k];
    }
}

static void every_nanosecond_is_somebodys(void **state) {
    (void)state;
    for (int round = 0; round < rounds(1000); round++) {
        made d;
        static found f;
        lam_times *t = NULL;
        lam_model *m = made_up(&d);
        assert_true(d.now < TIME);
        assert_int_equal(lam_times_new(&t, m, NULL), LAM_OK);
        assert_int_equal(lam_times_n_runs(t), d.n_runs);
        look(&d, &f);
        check_calls(&d, &f, t);
        for (int32_t r = 0; r < d.n_runs; r++) {
            int64_t all = 0;
            for (int p = 0; p < LAM_TIME_WHOLE; p++) {
                bool ran = p == LAM_TIME_FORWARD || d.n_nodes > 0;
                assert_int_equal(lam_times_run(t, r, (lam_time_part)p), ran ? f.part[r][p] : -1);
                all += f.part[r][p];
            }
            assert_int_equal(lam_times_run(t, r, LAM_TIME_WHOLE), all);
        }
        for (int p = 0; p < LAM_N_TIME_PARTS; p++) { /* the first of several that took as long */
            lam_spread s;
            int32_t most = 0;
            for (int32_t r = 1; r < d.n_runs; r++)
                if (lam_times_run(t, r, (lam_time_part)p) > lam_times_run(t, most, (lam_time_part)p))
                    most = r;
            bool told = lam_times_part(t, (lam_time_part)p, &s);
            assert_int_equal(told, p == LAM_TIME_FORWARD || p == LAM_TIME_WHOLE || d.n_nodes > 0);
            if (told) assert_int_equal(s.most_run, most);
        }
        lam_times_free(t);
        lam_model_free(m);
    }
}

static void memory_may_run_out(void **state) {
    (void)state;
    for (int i = 0; i < 5; i++) {
        made d;
        lam_model *m = made_up(&d);
        oom_sweep(take_times, m);
        lam_model_free(m);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_nanosecond_is_somebodys),
        cmocka_unit_test(memory_may_run_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
