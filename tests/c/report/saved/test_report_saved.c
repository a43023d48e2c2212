/* SPDX-License-Identifier: Apache-2.0
 *
 * An outline of a saved report against the one of the model that it was written from. */
#include "kit/oom.h"

#include "kit/full_net.h"
#include "kit/made_net.h"
#include "kit/ops_net.h"
#include "kit/outlined.h"
#include "kit/shown.h"
#include "kit/step_net.h"
#include "kit/stored_net.h"

#include "analyse/run/health.h"

#define FILE_NAME "test_report_saved.json"
#include "kit/saved.h"

/* -- reports as they are written ------------------------------------------------------------------------- */

static int64_t number(int64_t *const *all, int k, int32_t i) { return all[k] ? all[k][i] : 0; }

static void same_place(const lmi_outline *a, const lmi_outline *b, int32_t i) {
    const lmi_outline_place *p = &a->at[i], *q = &b->at[i];
    assert_string_equal(i ? q->name : "", i ? p->name : "");
    assert_string_equal(q->type, p->type);
    assert_string_equal(q->in, p->in);
    assert_string_equal(q->out, p->out);
    assert_int_equal(q->parent, p->parent);
    assert_int_equal(q->end, p->end);
    assert_int_equal(q->depth, p->depth);
    assert_int_equal(q->n_children, p->n_children);
    assert_int_equal(q->state, p->state);
    assert_int_equal(q->family, p->family);
    assert_int_equal(q->run, p->run);
    assert_int_equal(q->n_run, p->n_run);
    assert_int_equal(q->health[0], p->health[0]);
    assert_int_equal(q->health[1], p->health[1]);
    lam_attr unused[2];
    if (p->state != LMI_CONTAINER_ALONE) assert_int_equal(q->n_attrs, p->n_attrs);
    assert_false(lmi_changed_attr(p, q, 0, unused));
    for (int k = 0; k < LMI_N_OWN; k++) {
        if (number(a->own, k, i) != number(b->own, k, i) || number(a->total, k, i) != number(b->total, k, i))
            fail_msg("%s of place %d '%s': own %lld, was %lld; total %lld, was %lld", own_names[k], (int)i,
                     p->name, (long long)number(b->own, k, i), (long long)number(a->own, k, i),
                     (long long)number(b->total, k, i), (long long)number(a->total, k, i));
        int was = a->state[k] ? a->state[k][i] : LAM_EXACT, now = b->state[k] ? b->state[k][i] : LAM_EXACT;
        if (was != now) fail_msg("state of %s of '%s': %d, was %d", own_names[k], p->name, now, was);
    }
    if (a->held) assert_memory_equal(a->held[i], b->held[i], sizeof a->held[i]);
    if (a->held) assert_memory_equal(a->held_total[i], b->held_total[i], sizeof a->held[i]);
}

static void same_count(lam_count a, lam_count b) {
    assert_int_equal(a.state, b.state);
    if (a.state != LAM_UNKNOWN) assert_int_equal(a.n, b.n);
}

static void same_memory(const lmi_outline *a, const lmi_outline *b) {
    assert_int_equal(b->memory != NULL, a->memory != NULL);
    assert_int_equal(b->n_points, a->n_points);
    assert_int_equal(b->n_at_work, a->n_at_work);
    assert_int_equal(b->backward_us, a->backward_us);
    for (int32_t i = 0; i < a->n_points; i++) {
        assert_int_equal(b->point[i].us, a->point[i].us);
        assert_int_equal(b->point[i].bytes, a->point[i].bytes);
    }
    for (int32_t i = 0; i < a->n_at_work; i++) {
        assert_int_equal(b->at_work[i].place, a->at_work[i].place);
        assert_int_equal(b->at_work[i].depth, a->at_work[i].depth);
        assert_int_equal(b->at_work[i].phase, a->at_work[i].phase);
        assert_int_equal(b->at_work[i].us, a->at_work[i].us);
        assert_int_equal(b->at_work[i].length, a->at_work[i].length);
    }
    assert_int_equal(b->part != NULL, a->part != NULL);
    if (a->part) assert_memory_equal(b->part, a->part, (size_t)a->n_points * sizeof *a->part);
    assert_int_equal(b->memory != NULL, a->memory != NULL);
    assert_int_equal(b->peak_place, a->peak_place);
    if (!a->memory) return;
    const lam_memory_totals *p = a->memory, *q = b->memory;
    assert_true(q->peak == p->peak && q->before == p->before && q->peak_allocated == p->peak_allocated);
    assert_true(q->allocated == p->allocated && q->freed == p->freed && q->elsewhere == p->elsewhere);
    assert_true(q->info.rss_open == p->info.rss_open && q->info.rss_peak == p->info.rss_peak);
    assert_int_equal(q->info.rss_close, p->info.rss_close);
    assert_int_equal(q->peak_phase, p->peak_phase);
    assert_memory_equal(q->held, p->held, sizeof p->held);
    assert_string_equal(q->info.source, p->info.source);
}

static void same_texts(const char *const *a, const char *const *b, int32_t n) {
    for (int32_t i = 0; i < n; i++) assert_string_equal(b[i], a[i]);
}

static void same_health(const lam_health *a, const lam_health *b) {
    assert_int_equal(lmi_n_findings(b), lmi_n_findings(a));
    for (int32_t i = 0; i < lmi_n_findings(a); i++) {
        const lam_finding *x = lam_health_finding(a, i), *y = lam_health_finding(b, i);
        assert_string_equal(y->text, x->text);
        assert_int_equal(y->phase, x->phase);
    }
    assert_int_equal(b->checked->tensors, a->checked->tensors);
    assert_string_equal(b->sentence, a->sentence);
}

static void same_sentences(const lmi_outline *a, const lmi_outline *b) {
    assert_int_equal(b->n_gaps, a->n_gaps);
    assert_int_equal(b->n_notes, a->n_notes);
    assert_int_equal(b->n_unused, a->n_unused);
    assert_int_equal(b->n_no_gradient, a->n_no_gradient);
    same_texts(a->gap, b->gap, a->n_gaps);
    same_texts(a->note, b->note, a->n_notes);
    for (int32_t i = 0; i < a->n_unused; i++) same_texts(a->unused[i], b->unused[i], 2);
    for (int32_t i = 0; i < a->n_no_gradient; i++) same_texts(a->no_gradient[i], b->no_gradient[i], 2);
    assert_int_equal(b->finding_place, a->finding_place);
    assert_int_equal(b->health != NULL, a->health != NULL);
    if (a->health) same_health(a->health, b->health);
}

static void same(const lmi_outline *a, const lmi_outline *b) {
    assert_int_equal(b->n, a->n);
    for (int32_t i = 0; i < a->n; i++) same_place(a, b, i);
    assert_string_equal(b->name, a->name);
    assert_string_equal(b->convention, a->convention);
    assert_string_equal(b->source, a->source);
    assert_string_equal(b->type_path, a->type_path);
    assert_int_equal(b->modules, a->modules);
    assert_int_equal(b->calls, a->calls);
    for (int p = 0; p < LAM_N_PHASES; p++) {
        same_count(a->macs[p], b->macs[p]);
        same_count(a->flops[p], b->flops[p]);
        same_count(a->bytes[p], b->bytes[p]);
    }
    same_count(a->params.params, b->params.params);
    same_count(a->params.grad_params, b->params.grad_params);
    same_count(a->params.param_bytes, b->params.param_bytes);
    same_count(a->params.logical_bytes, b->params.logical_bytes);
    same_count(a->params.local_params, b->params.local_params);
    same_count(a->params.local_bytes, b->params.local_bytes);
    same_count(a->params.packed, b->params.packed);
    same_count(a->params.packed_bytes, b->params.packed_bytes);
    same_count(a->params.buffers, b->params.buffers);
    assert_int_equal(b->ops_ran, a->ops_ran);
    assert_int_equal(b->ops_ruled, a->ops_ruled);
    assert_int_equal(b->timed, a->timed);
    assert_int_equal(b->backward, a->backward);
    for (int p = 0; a->timed && p < LAM_N_TIME_PARTS; p++) {
        const lam_spread *was = &a->time[p], *now = &b->time[p];
        if (was->n <= 0) continue;
        assert_true(now->n == was->n && now->median == was->median && now->deviation == was->deviation);
        assert_true(now->least == was->least && now->most == was->most);
    }
    if (a->timed) assert_true(b->repeats == a->repeats && b->outliers == a->outliers);
    same_memory(a, b);
    same_sentences(a, b);
}

static void same_node(const lmi_level_node *a, const lmi_level_node *b) {
    assert_int_equal(b->type, a->type);
    assert_int_equal(b->look, a->look);
    assert_string_equal(b->label, a->label);
    assert_string_equal(b->note, a->note);
    assert_int_equal(b->place, a->place);
    same_count(a->macs, b->macs);
    same_count(a->flops, b->flops);
    same_count(a->bytes, b->bytes);
}

static void same_drawing(const lmi_drawing *a, const lmi_drawing *b) {
    assert_int_equal(b->n, a->n);
    assert_int_equal(b->n_segments, a->n_segments);
    assert_memory_equal(b->x, a->x, (size_t)a->n * sizeof *a->x);
    assert_memory_equal(b->y, a->y, (size_t)a->n * sizeof *a->y);
    if (a->n_segments)
        assert_memory_equal(b->segment, a->segment, (size_t)a->n_segments * sizeof *a->segment);
}

static void same_levels(const lmi_outline *a, const lmi_outline *b) {
    assert_int_equal(b->n_levels, a->n_levels);
    for (int32_t k = 0; k < a->n_levels; k++) {
        const lmi_level *p = &a->level[k], *q = &b->level[k];
        assert_int_equal(q->n, p->n);
        assert_int_equal(q->n_lines, p->n_lines);
        assert_int_equal(q->cut, p->cut);
        for (int32_t i = 0; i < p->n; i++) same_node(&p->node[i], &q->node[i]);
        if (p->n_lines) assert_memory_equal(q->line, p->line, (size_t)p->n_lines * sizeof *p->line);
        same_drawing(&p->at, &q->at);
    }
    for (int32_t i = 0; i < a->n; i++) assert_int_equal(b->at[i].level, a->at[i].level);
}

static void same_group(const lmi_formula_group *a, const lmi_formula_group *b) {
    assert_int_equal(b->phase, a->phase);
    assert_int_equal(b->n_equal, a->n_equal);
    assert_int_equal(b->n, a->n);
    assert_string_equal(b->name, a->name);
    for (int32_t i = 0; i < a->n; i++) {
        assert_int_equal(b->at[i].metric, a->at[i].metric);
        assert_int_equal(b->at[i].value, a->at[i].value);
        assert_string_equal(b->at[i].formula, a->at[i].formula);
        assert_string_equal(b->at[i].filled, a->at[i].filled);
    }
}

static void same_formulas(const lmi_outline *a, const lmi_outline *b) {
    assert_int_equal(b->n_formulas, a->n_formulas);
    for (int32_t k = 0; k < a->n_formulas; k++) {
        assert_int_equal(b->formulas[k].n, a->formulas[k].n);
        for (int32_t i = 0; i < a->formulas[k].n; i++)
            same_group(&a->formulas[k].at[i], &b->formulas[k].at[i]);
    }
    for (int32_t i = 0; i < a->n; i++) assert_int_equal(b->at[i].formulas, a->at[i].formulas);
}

/* With all that a page shows. */
static void read_again(const lam_costs *c) {
    const lmi_outline_options all = {
        .levels = true, .formulas = true, .course = true, .drawn = true, .roof = roof_of(c)};
    lmi_outline was, o;
    lam_error e = {0};
    save(c);
    if (lmi_outline_new(&was, c, &all, &e) != LAM_OK) fail_msg("%s: %s", e.where, e.text);
    if (lmi_saved_outline(&o, FILE_NAME, &all, &e) != LAM_OK) fail_msg("%s: %s", e.where, e.text);
    same(&was, &o);
    same_levels(&was, &o);
    same_formulas(&was, &o);
    assert_int_equal(o.n_left, was.n_left);
    same_texts(was.left, o.left, was.n_left);
    assert_true(o.roof.flops == was.roof.flops && o.roof.bytes == was.roof.bytes);
    lmi_outline_free(&o);
    lmi_outline_free(&was);
}

static void written_and_read(lam_model *m, const char *convention) {
    lam_costs *c = net_costs(m, convention, false);
    read_again(c);
    lam_costs_free(c);
    lam_model_free(m);
}

static void parameters_as_they_are_stored(void **state) {
    (void)state;
    written_and_read(stored_net(false), "layers");
    written_and_read(stored_net(true), "layers");
}

static void a_whole_step(void **state) {
    (void)state;
    written_and_read(full_step(), "exact");
}
static void operators(void **state) {
    (void)state;
    written_and_read(net_residual(), "exact");
    written_and_read(net_step(), "exact");
}
static void insides(void **state) {
    (void)state;
    written_and_read(level_blocks(5), "exact");
    written_and_read(level_blocks(5), "layers");
}
static void layers(void **state) {
    (void)state;
    written_and_read(net_two_parents(false), NULL);
    written_and_read(net_two_parents(false), "torchscan");
}

/* A module is named by its first place, which may have no row: it was called at the second alone. */
static void a_module_that_was_called_at_its_second_place(void **state) {
    (void)state;
    net n = net_new();
    const int32_t root = net_module(&n, "Net", 0), box = net_module(&n, "Box", 0),
                  spare = net_module(&n, "Spare", 0);
    const int32_t p = net_place(&n, -1, "", root);
    net_place(&n, net_place(&n, p, "spare", spare), "a", box);
    net_place(&n, p, "b", box);
    const int32_t r = net_call(&n, root, -1, SH(1, 4), 0, SH(1, 4), 0);
    net_call(&n, box, r, SH(1, 4), 0, SH(1, 4), 0);
    written_and_read(net_done(&n), "layers");
}

static void made_up_networks(void **state) {
    (void)state;
    static const char *const conventions[] = {"exact", "layers", "torchscan"};
    seed = 5;
    for (int i = 0; i < rounds(60); i++) written_and_read(made_step(), conventions[i % 3]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parameters_as_they_are_stored),
        cmocka_unit_test(a_whole_step),
        cmocka_unit_test(operators),
        cmocka_unit_test(insides),
        cmocka_unit_test(a_module_that_was_called_at_its_second_place),
        cmocka_unit_test(made_up_networks),
        cmocka_unit_test(layers),
    };
    return cmocka_run_group_tests(tests, NULL, remove_file);
}
