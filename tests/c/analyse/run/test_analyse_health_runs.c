/* SPDX-License-Identifier: Apache-2.0
 *
 * Made-up runs in which NaN is born at one known spot: in a layer, in what a layer does between others, in a
 * parameter, or before the model. What a source would have met is told, and the spot is found again. */
#include "kit/oom.h"

#include "analyse/run/health.h"
#include "kit/draw.h"
#include "kit/net.h"
#include "kit/shown.h"

enum { CALLS = 24, MET = 4 * CALLS };
enum { IN_A_LEAF, BETWEEN, IN_A_WEIGHT, BEFORE_ALL, AS_AN_OPERATOR, N_SPOTS };

static uint32_t seed = 3;

/* A tree of modules that are called once each, in the order of their numbers. */
typedef struct made {
    int32_t n, parent[CALLS], children[CALLS], depth[CALLS];
    int32_t spot, at, after; /* where NaN is born; BETWEEN: in `at`, after the child `after`, -1 before all */
    bool bad;                /* what is handed on now is NaN */
    bool was_bad[CALLS];     /* something bad came out */
    bool entered_late[CALLS];
    int32_t entered;
    lam_bad met[MET];
    int32_t n_met;
} made;

static void grow(made *m) {
    m->n = draw(2, CALLS);
    for (int32_t i = 0; i < m->n; i++) {
        m->parent[i] = -1;
        if (i > 0) { /* the one before it, or one around that */
            m->parent[i] = i - 1;
            while (m->depth[m->parent[i]] >= 4 || (m->parent[i] > 0 && draw(0, 1)))
                m->parent[i] = m->parent[m->parent[i]];
            m->children[m->parent[i]]++;
            m->depth[i] = m->depth[m->parent[i]] + 1;
        }
    }
}

static void meet(made *m, lam_bad_side side, int32_t call, const char *name) {
    m->met[m->n_met++] = (lam_bad){.side = side,
                                   .call = call,
                                   .calls = m->entered,
                                   .from = -1,
                                   .name = name,
                                   .found = {.nan = 1},
                                   .dtype = NET_FLOAT32,
                                   .ndim = -1};
}

static int32_t next_child(const made *m, int32_t call, int32_t after) {
    for (int32_t i = after < 0 ? call + 1 : after + 1; i < m->n; i++)
        if (m->parent[i] == call) return i;
    return -1;
}

static void own_work(made *m, int32_t call, int32_t after) {
    bool here = m->at == call && m->after == after;
    if (m->spot == BETWEEN && here) m->bad = true;
    if (m->spot == AS_AN_OPERATOR && here) {
        meet(m, LAM_BAD_OP, call, "aten::log");
        m->bad = true;
    }
}

static void run(made *m, int32_t call) {
    m->entered++;
    m->entered_late[call] = m->bad;
    if (m->bad) meet(m, LAM_BAD_INPUT, call, NULL);
    own_work(m, call, -1);
    for (int32_t child = next_child(m, call, -1); child >= 0; child = next_child(m, call, child)) {
        run(m, child);
        own_work(m, call, child);
    }
    if (m->spot == IN_A_LEAF && m->at == call) m->bad = true;
    if (m->spot == IN_A_WEIGHT && m->at == call) {
        meet(m, LAM_BAD_OWNED, call, "weight");
        m->bad = true;
    }
    m->was_bad[call] = m->bad;
    if (m->bad) meet(m, LAM_BAD_OUTPUT, call, NULL);
}

static void choose(made *m) {
    m->spot = draw(0, N_SPOTS - 1);
    m->after = -1;
    do m->at = draw(0, m->n - 1);
    while ((m->spot == IN_A_LEAF && m->children[m->at]) || (m->spot == BETWEEN && !m->children[m->at]));
    bool several = m->spot == BETWEEN || m->spot == AS_AN_OPERATOR;
    for (int k = draw(0, 3); several && k > 0 && next_child(m, m->at, m->after) >= 0; k--)
        m->after = next_child(m, m->at, m->after);
    m->bad = m->spot == BEFORE_ALL;
}

static lam_model *built(const made *m) {
    net n = net_new();
    for (int32_t i = 0; i < m->n; i++) {
        char name[16];
        snprintf(name, sizeof name, "m%d", (int)i);
        net_place(&n, m->parent[i], i ? name : "",
                  net_module(&n, "Layer", m->children[i] ? 0 : LAM_MODULE_LEAF));
    }
    for (int32_t i = 0; i < m->n; i++) net_call(&n, i, m->parent[i], SH(2, 3), 0, SH(2, 3), 0);
    for (int32_t i = 0; i < m->n_met; i++) NET_OK(&n, lam_build_bad(n.b, &m->met[i], &n.e));
    NET_OK(&n, lam_build_checked(n.b, &(lam_checked){.tensors = m->n, .operators = true}, &n.e));
    return net_done(&n);
}

/* Layers without others in them, after the spot. */
static int32_t handed_on(const made *m) {
    int32_t n = 0;
    for (int32_t i = 0; i < m->n; i++) n += !m->children[i] && m->entered_late[i];
    return n;
}

static void check_spot(const made *m, const lam_finding *f) {
    assert_int_equal(f->input, m->spot == BEFORE_ALL);
    assert_int_equal(f->call, m->spot == BEFORE_ALL ? 0 : m->at);
    assert_int_equal(f->owned != NULL, m->spot == IN_A_WEIGHT);
    if (m->spot == AS_AN_OPERATOR) assert_string_equal(f->op, "aten::log");
    bool between = m->children[m->at] && (m->spot == BETWEEN || m->spot == AS_AN_OPERATOR);
    assert_int_equal(f->own, between);
    assert_int_equal(f->before, between ? m->after : -1);
    assert_int_equal(f->after, between ? next_child(m, m->at, m->after) : -1);
    assert_int_equal(f->times, 1);
    assert_int_equal(f->passed, handed_on(m));
}

static void check_states(const made *m, const lam_health *h) {
    for (int32_t i = 0; i < m->n; i++) {
        lam_health_state s = lam_health_of(h, i, LAM_FORWARD);
        bool born = m->spot != BEFORE_ALL && i == m->at;
        lam_health_state want = born ? LAM_HEALTH_BORN : m->was_bad[i] ? LAM_HEALTH_PASSED : LAM_HEALTH_FINE;
        assert_int_equal(s, want);
        assert_int_equal(lam_health_at(h, i, LAM_FORWARD), want);
    }
}

static void the_spot_is_found(void **state) {
    (void)state;
    for (int round = 0; round < rounds(3000); round++) {
        made m = {0};
        lam_health *h;
        lam_error e = {0};
        grow(&m);
        choose(&m);
        run(&m, 0);
        lam_model *model = built(&m);
        assert_int_equal(lam_health_new(&h, model, &e), LAM_OK);
        const lam_finding *f = lam_health_finding(h, 0);
        assert_non_null(f);
        if (lam_health_finding(h, 1))
            fail_msg("round %d, spot %d in %d after %d: %s; %s", round, m.spot, (int)m.at, (int)m.after,
                     f->text, lam_health_finding(h, 1)->text);
        check_spot(&m, f);
        check_states(&m, h);
        assert_memory_equal(f->text, "NaN ", 4);
        lam_health_free(h);
        lam_model_free(model);
    }
}

/* -- anything at all --------------------------------------------------------------------------- */

enum { ODD = 30 };

static const char *const words[] = {NULL, "aten::log", "aten::div", "LogBackward0", "weight"};

static const char *word(void) { return words[draw(0, 4)]; }

/* What no honest source tells, in any order. */
static lam_model *odd(void) {
    static const int64_t sizes[] = {2, 3};
    made m = {0};
    grow(&m);
    net n = net_new();
    for (int32_t i = 0; i < m.n; i++) {
        char name[16];
        snprintf(name, sizeof name, "m%d", (int)i);
        int32_t module =
            draw(0, 5) ? net_module(&n, m.children[i] ? "Block" : "Layer", 0) : net_leaf(&n, "Softmax");
        net_place(&n, m.parent[i], i ? name : "", module);
    }
    for (int32_t i = 0; i < m.n; i++)
        net_call_flags(&n, i, m.parent[i], draw(0, 6) ? 0 : LAM_CALL_AGAIN, sizes, 2, 0, sizes, 2, 0);
    for (int32_t k = draw(0, ODD), calls = 0; k > 0; k--) {
        calls += draw(0, 2);
        lam_bad b = {.side = (lam_bad_side)draw(LAM_BAD_INPUT, LAM_N_BAD_SIDES - 1),
                     .call = draw(-1, m.n - 1),
                     .calls = calls < m.n ? calls : m.n,
                     .index = draw(-1, 1),
                     .fed = draw(0, 1),
                     .gave = draw(0, 1),
                     .from = -1,
                     .pass = draw(0, 2),
                     .name = word(),
                     .found = {.nan = draw(0, 2) == 0, .inf = draw(0, 2), .first = draw(-1, 5)},
                     .dtype = draw(0, 1) ? NET_FLOAT32 : -1,
                     .ndim = draw(0, 1) ? 2 : -1,
                     .sizes = sizes};
        bool node = b.side == LAM_BAD_NODE;
        b.phase = node ? LAM_BACKWARD : LAM_FORWARD;
        b.found.negative = draw(0, 1) ? b.found.inf : 0;
        b.inside = node ? word() : NULL;
        if (node && b.fed) b.from = draw(-1, m.n - 1);
        if (b.side == LAM_BAD_CHECK) b.text = draw(0, 1) ? "too large" : "too small";
        lam_error e = {0};
        (void)lam_build_bad(n.b, &b, &e); /* some can't be, and are refused */
    }
    NET_OK(&n,
           lam_build_checked(n.b, &(lam_checked){.tensors = 9, .gradients = draw(0, 1), .cut = draw(0, 1)},
                             &n.e));
    return net_done(&n);
}

static bool same_text(const char *a, const char *b) { return a == b || (a && b && strcmp(a, b) == 0); }

/* Two findings differ in something that is told. */
static bool differ(const lam_model *m, const lam_finding *a, const lam_finding *b) {
    const lam_bad *x = lam_model_bad(m, a->bad), *y = lam_model_bad(m, b->bad);
    return a->place != b->place || a->phase != b->phase || a->own != b->own || a->input != b->input ||
           a->check != b->check || a->before != b->before || a->after != b->after ||
           !same_text(a->owned, b->owned) || !same_text(a->op, b->op) ||
           (a->check && !same_text(x->text, y->text));
}

static lam_health_state worse(lam_health_state a, lam_health_state b) {
    static const int rank[] = {
        [LAM_HEALTH_FINE] = 0, [LAM_HEALTH_UNKNOWN] = 1, [LAM_HEALTH_PASSED] = 2, [LAM_HEALTH_BORN] = 3};
    return rank[a] > rank[b] ? a : b;
}

static void check_places(const lam_model *m, const lam_health *h) {
    for (int32_t place = 0; place < lam_model_n_places(m); place++)
        for (int phase = LAM_FORWARD; phase <= LAM_BACKWARD; phase++) {
            lam_health_state want = LAM_HEALTH_FINE;
            for (int32_t i = 0; i < lam_model_n_events(m); i++)
                if (lam_model_event(m, i)->place == place)
                    want = worse(want, lam_health_of(h, i, (lam_phase)phase));
            assert_int_equal(lam_health_at(h, place, (lam_phase)phase), want);
        }
}

static void each_finding_is_told_once(void **state) {
    (void)state;
    for (int round = 0; round < rounds(5000); round++) {
        lam_health *h;
        lam_model *m = odd();
        lam_error e = {0};
        assert_int_equal(lam_health_new(&h, m, &e), LAM_OK);
        const lam_finding *f;
        for (int32_t i = 0; (f = lam_health_finding(h, i)); i++) {
            assert_true(f->times >= 1 && f->bad >= 0 && f->bad < lam_model_n_bad(m) && f->text[0]);
            assert_true(f->call < lam_model_n_events(m) && f->passed >= 0);
            for (int32_t k = 0; k < i; k++)
                if (!differ(m, f, lam_health_finding(h, k))) fail_msg("round %d: twice: %s", round, f->text);
        }
        assert_int_equal(strncmp(lam_health_sentence(h), "no NaN or Inf", 13) == 0,
                         lam_health_finding(h, 0) == NULL);
        check_places(m, h);
        lam_health_free(h);
        lam_model_free(m);
    }
}

static void once(void *arg, bool *ok) {
    lam_health *h;
    lam_error e = {0};
    *ok = oom_check(lam_health_new(&h, arg, &e), &e);
    lam_health_free(h);
}

static void memory_may_run_out(void **state) {
    (void)state;
    for (int i = 0; i < 20; i++) {
        lam_model *m = odd();
        oom_sweep(once, m);
        lam_model_free(m);
    }
}

/* -- a transcript ------------------------------------------------------------------------------ */

enum { TOLD = 80, LAYERS = 6, REPEATED = 2, TOLD_CALLS = LAYERS + REPEATED };

/* Net(a, b: Block(c, d), e), each called once; a and c are done again in the backward. */
static const int32_t told_parent[LAYERS] = {-1, 0, 0, 2, 2, 0};
static const int32_t told_again[REPEATED] = {1, 3};

static void told_tree(net *n) {
    static const char *const names[] = {"", "a", "b", "c", "d", "e"};
    static const int64_t wide[] = {2, 3, 1};
    const bool softmax = draw(0, 3) == 0;
    for (int32_t i = 0; i < LAYERS; i++) {
        const char *type = i == 0 ? "Net" : i == 2 ? "Block" : i == 5 && softmax ? "Softmax" : "Layer";
        net_place(n, told_parent[i], names[i], net_module(n, type, 0));
    }
    for (int32_t i = 0; i < TOLD_CALLS; i++) {
        const lam_arg x[] = {{.name = "x", .dtype = NET_FLOAT32, .ndim = 2, .sizes = wide},
                             {.dtype = NET_FLOAT32, .ndim = 3, .sizes = wide, .position = 1},
                             {.dtype = NET_FLOAT32, .ndim = -1, .position = -1}};
        const uint32_t flags = draw(0, 7) == 0 ? LAM_CALL_FAILED : draw(0, 5) == 0 ? LAM_CALL_UNSEEN : 0;
        const int32_t n_in = (int32_t)draw(0, 3), n_out = flags & LAM_CALL_FAILED ? 0 : (int32_t)draw(0, 3);
        const lam_call_info c = {.module = i < LAYERS ? i : told_again[i - LAYERS],
                                 .parent = i < LAYERS ? told_parent[i] : -1,
                                 .flags = flags | (i < LAYERS ? 0 : LAM_CALL_AGAIN),
                                 .t0_ns = 1 + i,
                                 .t1_ns = i == 3 ? 0 : 99,
                                 .n_in = n_in,
                                 .n_out = n_out,
                                 .in = x,
                                 .out = x};
        NET_OK(n, lam_build_call(n->b, &c, NULL, &n->e));
        const lam_stats s = {.mean = 0.25 * i, .least = -1.5, .greatest = i};
        if (n_out && i % 2) NET_OK(n, lam_build_stats(n->b, i, 0, &s, &n->e));
    }
}

static const char *told_text(const char *text) { return text ? text : "-"; }

static void show_line(const char *text) { (void)show_put(NULL, text, strlen(text)); }

static void told_record(net *n, int32_t calls) {
    static const char *const sides[LAM_N_BAD_SIDES] = {"input", "output", "written",    "owned", "op",
                                                       "node",  "gradin", "gradoutput", "check", "unseen"};
    static const int64_t sizes[] = {2, 3};
    char line[256];
    lam_bad b = {.calls = calls, .from = -1, .dtype = NET_FLOAT32, .ndim = 2, .sizes = sizes};
    b.side = (lam_bad_side)draw(LAM_BAD_INPUT, LAM_N_BAD_SIDES - 1);
    if (draw(0, 2) == 0) b.side = draw(0, 1) ? LAM_BAD_OUTPUT : LAM_BAD_NODE;
    const bool op = b.side == LAM_BAD_OP, node = b.side == LAM_BAD_NODE;
    b.call = (int32_t)draw(op || node ? -1 : 0, calls - 1);
    if (b.side == LAM_BAD_INPUT) b.call = calls - 1;
    b.index = (int32_t)draw(-1, 2);
    b.phase = node ? LAM_BACKWARD : LAM_FORWARD;
    b.fed = (op || node) && draw(0, 2) == 0;
    b.gone = (op || node) && draw(0, 3) == 0;
    b.origin = (int32_t)draw(0, 3);
    if (node && b.fed) b.from = (int32_t)draw(-1, calls - 1);
    if (op || node || b.side == LAM_BAD_OWNED || b.side == LAM_BAD_CHECK) b.name = words[draw(1, 4)];
    if (node) b.inside = word();
    if (b.side == LAM_BAD_CHECK) b.text = draw(0, 1) ? "too large" : NULL;
    b.found.nan = draw(0, 1) ? 0 : draw(1, 2);
    b.found.inf = b.found.nan && draw(0, 1) ? 0 : draw(0, 2);
    b.found.negative = draw(0, 1) ? b.found.inf : 0;
    b.found.first = draw(-1, 5);
    if (draw(0, 4) == 0) b.ndim = -1;
    NET_OK(n, lam_build_bad(n->b, &b, &n->e));
    snprintf(line, sizeof line, "  after %d: %s of %d, index %d, from %d, origin %d,%s%s %s %s %d %d %d\n",
             (int)calls, sides[b.side], (int)b.call, (int)b.index, (int)b.from, (int)b.origin,
             b.fed ? " fed" : "", b.gone ? " gone" : "", told_text(b.name), told_text(b.inside),
             (int)b.found.nan, (int)b.found.inf, (int)b.found.negative);
    show_line(line);
}

static lam_model *told_model(void) {
    net n = net_new();
    told_tree(&n);
    int32_t calls = 1;
    for (int64_t k = draw(0, 9); k > 0; k--) {
        calls += (int32_t)draw(0, 2);
        if (calls > TOLD_CALLS) calls = TOLD_CALLS;
        told_record(&n, calls);
    }
    lam_checked l = {.tensors = draw(0, 2)};
    l.unseen = draw(0, 1);
    l.gradients = draw(0, 3) > 0;
    NET_OK(&n, lam_build_checked(n.b, &l, &n.e));
    return net_done(&n);
}

static void tell_states(const lam_health *h, const char *what, bool places, lam_phase phase) {
    show_line(what);
    for (int32_t i = 0; i < (places ? LAYERS : TOLD_CALLS); i++) {
        show_line(" ");
        show_line(lam_health_name(places ? lam_health_at(h, i, phase) : lam_health_of(h, i, phase)));
    }
    show_line("\n");
}

static void tell_findings(const lam_health *h) {
    const lam_finding *f;
    char line[256];
    for (int32_t i = 0; (f = lam_health_finding(h, i)) != NULL; i++) {
        snprintf(line, sizeof line,
                 "  %d of %d, between %d and %d,%s%s%s%s record %d, %d passed, %d times: ", (int)f->phase,
                 (int)f->call, (int)f->before, (int)f->after, f->own ? " own" : "", f->input ? " input" : "",
                 f->check ? " check" : "", f->explained ? " explained" : "", (int)f->bad, (int)f->passed,
                 (int)f->times);
        show_line(line);
        show_line(f->text);
        show_line("\n");
    }
    if (!lam_health_finding(h, 0)) {
        show_line("  ");
        show_line(lam_health_sentence(h));
        show_line("\n");
    }
}

/* All that is told of some records in no particular order, as it was told before. */
/* From best to worst. What was not checked is not said to be fine. */
static void the_worst_of_several_states(void **state) {
    (void)state;
    static const uint8_t order[] = {LAM_HEALTH_FINE, LAM_HEALTH_UNKNOWN, LAM_HEALTH_PASSED, LAM_HEALTH_BORN};
    for (int a = 0; a < 4; a++)
        for (int b = 0; b < 4; b++)
            assert_int_equal(lmi_worse_health(order[a], order[b]), order[a > b ? a : b]);
}

static void all_is_told_as_before(void **state) {
    (void)state;
    seed = 41;
    lam_sink to = show_sink();
    for (int i = 0; i < TOLD; i++) {
        lam_health *h = NULL;
        char line[32];
        snprintf(line, sizeof line, "Run %d\n", i);
        show_line(line);
        lam_model *m = told_model();
        assert_int_equal(lam_health_new(&h, m, NULL), LAM_OK);
        tell_findings(h);
        tell_states(h, "  calls:", false, LAM_FORWARD);
        tell_states(h, "  backward:", false, LAM_BACKWARD);
        tell_states(h, "  layers:", true, LAM_FORWARD);
        tell_states(h, "  backward:", true, LAM_BACKWARD);
        assert_int_equal(lam_health_tail(h, 3 + i % 7, to, NULL), LAM_OK);
        lam_health_free(h);
        lam_model_free(m);
    }
    show_golden("health-runs", true);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_spot_is_found),     cmocka_unit_test(each_finding_is_told_once),
        cmocka_unit_test(memory_may_run_out),    cmocka_unit_test(the_worst_of_several_states),
        cmocka_unit_test(all_is_told_as_before),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
