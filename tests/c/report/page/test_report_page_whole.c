/* SPDX-License-Identifier: Apache-2.0
 *
 * Pages as a whole, with their blocks of data, held against transcripts: of models, and of outlines written
 * by hand that have everything a page can show. */
#include "kit/oom.h"

#include "kit/full_net.h"
#include "kit/ops_net.h"
#include "kit/page_text.h"
#include "kit/paged.h"

static void is_page(const char *name, lam_model *m, lam_model *before, const char *convention,
                    lam_page_options o) {
    lam_error e = {0};
    lam_costs *c = net_costs(m, convention, false), *was = before ? net_costs(before, "exact", false) : NULL;
    o.costs_before = was;
    if (lam_page_write(c, &o, show_sink(), &e) != LAM_OK) fail_msg("%s: %s", e.where, e.text);
    page_golden(name);
    lam_costs_free(c);
    lam_costs_free(was);
    lam_model_free(m);
    lam_model_free(before);
}

static void of_models(void **state) {
    (void)state;
    const lam_peak roof = {1e9, 1e9};
    is_page("page-full", full_step(), NULL, "exact", (lam_page_options){.roof = roof, .command = true});
    is_page("page-full-part", full_step(), NULL, "exact", (lam_page_options){.part = true, .target = "net"});
    is_page("page-step", net_step(), NULL, "layers", (lam_page_options){.ran = "It raised <so>."});
    is_page("page-blocks", level_blocks(4), NULL, "exact", (lam_page_options){0});
}

static void of_two_models(void **state) {
    (void)state;
    is_page("page-diff", full_step(), net_residual(), "exact",
            (lam_page_options){.before = "a.json", .target = "b.json"});
    is_page("page-diff-back", net_residual(), full_step(), "layers", (lam_page_options){.part = true});
    is_page("page-diff-blocks", level_blocks(3), level_blocks(2), "exact", (lam_page_options){0});
}

/* -- written by hand ------------------------------------------------------------------------------------- */

static lmi_course_point points[] = {{0, 100}, {40, 900}, {90, 300}};
static int64_t parts[3][LAM_N_HELD] = {{[LAM_HELD_PARAMETER] = 100},
                                       {[LAM_HELD_PARAMETER] = 100, [LAM_HELD_ACTIVATION] = 800},
                                       {[LAM_HELD_PARAMETER] = 100, [LAM_HELD_GRADIENT] = 200}};
static lmi_active at_work[] = {{1, 1, LAM_FORWARD, 0, 40}, {3, 2, LAM_BACKWARD, 45, 30}};
static const char *unused[][2] = {{"c", "nothing reads it"}, {"b", "so is this"}};
static const char *no_gradient[][2] = {{"a.weight", "it is cut off"}};
static const char *gaps[] = {"no rule for x"}, *notes[] = {"a note", "another"}, *left[] = {"left out"};
static const char *facts[][2] = {{"target", "models:net"}, {"mode", "train"},   {"dry", "no"},
                                 {"torch", "2.13.0"},      {"python", "3.13"},  {"system", "Linux"},
                                 {"processor", "CPU"},     {"threads", "4"},    {"date", "2026-01-02"},
                                 {"backward", "of a sum"}, {"inputs", "zeros"}, {"elsewhere", "told"}};

static void measure(paged *p) {
    lmi_outline *o = &p->o;
    for (int32_t i = 1; i < o->n; i++) {
        paged_add(p, LMI_OWN_TIME, i, 1000000 * i);
        paged_add(p, LMI_OWN_BACK_TIME, i, 2000000 * i);
        paged_add(p, LMI_OWN_FLOPS, i, i == 4 ? 40 : 800 * i * (1 + i % 3));
        paged_add(p, LMI_OWN_READ, i, 10000 * i);
        paged_add(p, LMI_OWN_CALLS, i, 1 + i % 3);
    }
    o->timed = true;
    for (int k = 0; k < LAM_N_TIME_PARTS - 1; k++)
        o->time[k] = (lam_spread){.n = 7,
                                  .median = 21000000 * (k + 1),
                                  .deviation = 100000 + k,
                                  .least = 20000000,
                                  .most = 30000000};
    o->repeats = 7;
    o->outliers = 1;
    o->roof = (lam_peak){3e6, 3e7};
    paged_hold(p, 1, LAM_HELD_PARAMETER, 100);
    paged_hold(p, 3, LAM_HELD_ACTIVATION, 450);
    paged_hold(p, 4, LAM_HELD_ACTIVATION, 350);
    p->memory.before = 100;
    p->memory.allocated = 1234;
    p->memory.peak_call = 1;
    p->memory.info = (lam_memory_info){"a test", 1000, 4000, 5000, false};
    o->peak_place = 3;
    o->point = points;
    o->part = parts;
    o->n_points = 3;
    o->at_work = at_work;
    o->n_at_work = 2;
    o->backward_us = 45;
    o->backward = true;
}

/* paged_net with everything that a page tells. */
static paged *all_of_it(void) {
    paged *p = paged_net();
    lmi_outline *o = &p->o;
    measure(p);
    o->type_path = "models.Net";
    o->mode = "train";
    o->modules = 7;
    o->calls = 1234;
    o->bytes[LAM_FORWARD] = (lam_count){55, 0, LAM_AT_LEAST};
    o->macs[LAM_BACKWARD] = lmi_exact(77);
    o->macs[LAM_RECOMPUTE] = lmi_exact(11);
    o->flops[LAM_BACKWARD] = lmi_unknown();
    o->bytes[LAM_BACKWARD] = (lam_count){1, 1, LAM_EXACT};
    o->params.buffers = lmi_exact(3);
    o->params.buffer_bytes = lmi_exact(12);
    o->params.nograd_params = lmi_exact(250);
    o->params.grad_params = lmi_exact(250);
    o->ops_ran = 4321;
    o->ops_counted = 1600;
    o->ops_ruled = 1599;
    o->state[LMI_OWN_MACS] = p->state[LMI_OWN_MACS];
    p->state[LMI_OWN_MACS][6] = LAM_UNKNOWN;
    p->state[LMI_OWN_MACS][4] = LAM_AT_LEAST;
    p->at[0].in = "1\u00d73\u00d78\u00d78 float32";
    p->at[0].out = "1\u00d71000 float32";
    p->at[1].health[LAM_FORWARD] = LAM_HEALTH_PASSED;
    p->at[4].health[1] = LAM_HEALTH_BORN;
    p->at[3].state = LMI_OWN_PARAMETERS;
    p->at[4].state = LMI_OUTSIDE_CALLS;
    p->at[5].state = LMI_CALLED_ELSEWHERE;
    p->at[6].state = LMI_NEVER_CALLED;
    paged_health(p, "NaN began in b.1", 12345, 1);
    o->finding_place = 4;
    o->unused = unused;
    o->n_unused = 2;
    o->no_gradient = no_gradient;
    o->n_no_gradient = 1;
    o->gap = gaps;
    o->n_gaps = 1;
    o->note = notes;
    o->n_notes = 2;
    o->left = left;
    o->n_left = 1;
    o->provenance = facts;
    o->n_provenance = sizeof facts / sizeof *facts;
    return p;
}

static void is_written(const char *name, const lmi_outline *o, const lam_page_options *options) {
    lmi_page page;
    lam_error e = {0};
    lmi_page_start(&page, o, options, show_sink(), &e);
    assert_int_equal(lmi_page_write(&page), LAM_OK);
    lmi_buf_free(&page.out);
    page_golden(name);
}

static void of_all_of_it(void **state) {
    (void)state;
    paged *p = all_of_it();
    is_written("page-all", &p->o, &(lam_page_options){.target = "saved.json"});
    /* What each tile, row and list has one of. */
    p->o.n_unused = p->o.n_notes = p->o.n_left = p->o.n_gaps = 0;
    paged_health(p, "NaN began in b.1", 1, 0);
    p->o.repeats = 1;
    p->o.outliers = 2;
    p->o.backward = false;
    facts[2][1] = "yes";
    p->o.time[LAM_TIME_FORWARD].deviation = 20000000;
    is_written("page-all-fine", &p->o, &(lam_page_options){0});
    facts[2][1] = "no";
    free(p);
}

/* b.1 was a leaf of another type, c was called otherwise, and a was not there. */
static void of_what_changed(void **state) {
    (void)state;
    paged *now = all_of_it(), *was = paged_new();
    lmi_outline both;
    paged_place(was, -1, "", "Net");
    int32_t b = paged_place(was, 0, "b", "Sequential");
    static const char *const names[] = {"0", "1", "2"};
    for (int i = 0; i < 3; i++) {
        int32_t x = paged_place(was, b, names[i], i == 1 ? "Bilinear" : "Linear");
        paged_add(was, LMI_OWN_PARAMS, x, 50);
        paged_add(was, LMI_OWN_MACS, x, 200);
    }
    paged_add(was, LMI_OWN_PARAMS, paged_place(was, 0, "gone", "Linear"), 99);
    paged_add(was, LMI_OWN_PARAMS, paged_place(was, 0, "embed", "Embedding"), 250);
    measure(was);
    was->o.time[LAM_TIME_FORWARD].median = 20990000;
    was->at[0].in = "2\u00d73\u00d78\u00d78 float32";
    was->at[0].out = now->at[0].out;
    was->o.mode = "eval";
    was->o.version = "0";
    assert_int_equal(lmi_outline_diff(&both, &was->o, &now->o, NULL), LAM_OK);
    is_written("page-changed", &both, &(lam_page_options){.before = "old.json", .target = "new.json"});
    lmi_outline_free(&both);
    assert_int_equal(lmi_outline_diff(&both, &now->o, &was->o, NULL), LAM_OK);
    is_written("page-changed-back", &both, &(lam_page_options){.before = "new.json", .target = "old.json"});
    lmi_outline_free(&both);
    free(now);
    free(was);
}

/* More holders, speeds and lines than are listed: those with most, of equal ones the first. */
static void of_long_lists(void **state) {
    (void)state;
    enum { MANY = 40, NODES = 66 };
    static char names[NODES][8];
    static lmi_level_node nodes[NODES];
    static lmi_line_ends lines[NODES];
    paged *p = paged_new();
    paged_place(p, -1, "", "Net");
    p->o.roof = (lam_peak){1e9, 1e9};
    for (int i = 0; i < NODES; i++) {
        snprintf(names[i], sizeof names[i], "m%d", i);
        nodes[i] = (lmi_level_node){.look = LMI_NODE_END, .label = names[i], .note = "", .place = -1};
        lines[i] = (lmi_line_ends){i, (i + 1) % NODES};
    }
    for (int i = 1; i < MANY; i++) {
        int32_t at = paged_place(p, 0, names[i], "Linear");
        paged_hold(p, at, (lam_held)(i % LAM_N_HELD), 100 + i * 29 % 37 / 2);
        paged_add(p, LMI_OWN_TIME, at, 1000 + i * 31 % 41 / 2);
        paged_add(p, LMI_OWN_FLOPS, at, 10 * i);
        paged_add(p, LMI_OWN_READ, at, 500 - 10 * i);
    }
    paged_part(p, NULL, lmi_page_holders);
    page_golden("page-holders");
    paged_part(p, NULL, lmi_page_speeds);
    page_golden("page-speeds");
    for (int32_t n = 59; n < 62; n++) { /* 60 lines are listed */
        lmi_level level = {.n = NODES, .node = nodes, .n_lines = n, .line = lines};
        char more[40];
        p->at[0].level = 0;
        p->o.level = &level, p->o.n_levels = 1;
        paged_part(p, NULL, lmi_page_lines);
        assert_int_equal(shown_times("<tr><th scope=\"row\">"), n < 60 ? n : 60);
        snprintf(more, sizeof more, "<p class=\"dim\">%d more</p>", (int)n - 60);
        (n > 60 ? show_has : show_lacks)(more);
    }
    free(p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_models),       cmocka_unit_test(of_two_models), cmocka_unit_test(of_all_of_it),
        cmocka_unit_test(of_what_changed), cmocka_unit_test(of_long_lists),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
