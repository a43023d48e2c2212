/* SPDX-License-Identifier: Apache-2.0
 *
 * The page of a run of many ranks: the verdict first, who is late over time, and where each number comes
 * from. */
#include "kit/ranked.h"

#include "base/base.h"

static lam_status take(void *to, const char *bytes, size_t n) {
    lmi_putn(to, bytes, n);
    return ((lmi_buf *)to)->bad ? LAM_IO : LAM_OK;
}

static lmi_buf page_of(lam_ranks *r, const char *name) {
    lam_error e = {.at = -1};
    lmi_buf b;
    lmi_buf_init(&b);
    if (!r || lam_ranks_page(r, name, (lam_sink){take, &b}, &e) != LAM_OK)
        fail_msg("%s: %s", e.where, e.text);
    lam_ranks_free(r);
    return b;
}

static lmi_buf page(const ranked *of) {
    lam_error e = {.at = -1};
    return page_of(ranked_judged(of, NULL, &e), "run");
}

static void has(const lmi_buf *b, const char *part) {
    const char *body = strstr(lmi_buf_text(b), "</style>");
    if (!body || !strstr(body, part)) fail_msg("'%s' is not in:\n%s", part, body ? body : "nothing");
}

static int count(const lmi_buf *b, const char *part) {
    int n = 0;
    for (const char *s = strstr(lmi_buf_text(b), "</style>"); s && (s = strstr(s, part)); s++) n++;
    return n;
}

static void test_the_verdict_comes_first(void **state) {
    (void)state;
    ranked of = ranked_run();
    of.slow = 11;
    of.more_us = 20000;
    of.from = 36;
    of.layer = "blocks.0.mlp";
    lmi_buf b = page(&of);
    has(&b, "<h1 id=\"h-verdict\">Rank 11 slows all</h1>");
    has(&b, "<li class=\"bad\">");
    has(&b, "<span class=\"nx\">Next: what this layer gets there");
    has(&b, "<section id=\"beside\"");
    has(&b, "<section id=\"heat\"");
    has(&b, "<section id=\"course\"");
    has(&b, "since step ");
    has(&b, "Who is last");
    assert_int_equal(count(&b, "<svg"), 3);
    assert_int_equal(count(&b, "style=\""), 0); /* the head forbids them */
    assert_int_equal(count(&b, "<script"), 0);
    lmi_buf_free(&b);
}

/* Every link leads to an element of the page, and every origin is there. */
static void test_each_number_links_to_where_it_comes_from(void **state) {
    (void)state;
    ranked of = ranked_run();
    of.slow = 11;
    of.more_us = 20000;
    lmi_buf b = page(&of);
    int links = 0;
    for (const char *s = lmi_buf_text(&b); (s = strstr(s, "href=\"#")); s++) {
        char id[80];
        const size_t n = strcspn(s + 7, "\"");
        snprintf(id, sizeof id, " id=\"%.*s\"", (int)n, s + 7);
        has(&b, id);
        links += strncmp(s + 7, "from-", 5) == 0;
    }
    assert_true(links >= 20);
    assert_int_equal(count(&b, " id=\"from-"), 7);
    assert_int_equal(count(&b, "<pre "), 7);
    has(&b, "NOT IN (11)");
    lmi_buf_free(&b);
}

static void test_what_is_unknown_is_not_zero(void **state) {
    (void)state;
    ranked of = ranked_run();
    of.waits = LAM_WAITS_INSIDE;
    lmi_buf b = page(&of);
    has(&b, "waits for other ranks are not measured apart");
    has(&b, "<td>?</td>");
    lmi_buf_free(&b);
    of.steps = 12;
    b = page(&of);
    has(&b, "No rank is named");
    assert_int_equal(count(&b, "<section id=\"heat\""), 0); /* who is late is not known */
    lmi_buf_free(&b);
}

static void test_names_are_escaped(void **state) {
    (void)state;
    ranked of = ranked_run();
    lam_error e = {.at = -1};
    lmi_buf b = page_of(ranked_judged(&of, NULL, &e), "<b>&\"run\"");
    has(&b, "&lt;b&gt;&amp;");
    assert_int_equal(count(&b, "<b>&"), 0);
    lmi_buf_free(&b);
}

/* Many nodes of eight ranks: rows are nodes, and the file stays small. */
static lam_ranks *many_nodes(int ranks, int windows) {
    lam_error e = {.at = -1};
    lam_ranks *r = NULL;
    lam_status s = lam_ranks_new(&r, &e);
    char node[16];
    for (int i = 0; s == LAM_OK && i < ranks; i++) {
        snprintf(node, sizeof node, "host-%05d", i / 8);
        s = lam_ranks_add_fact(r,
                               &(lam_rank_fact){.rank = i,
                                                .world = ranks,
                                                .comm_group = LAM_NOT_KNOWN,
                                                .seen_us = 1,
                                                .ended_us = 1,
                                                .step_flops = NAN,
                                                .peak_flops = NAN,
                                                .node = node},
                               &e);
        for (int w = 0; s == LAM_OK && w < windows; w++) {
            const double late = (i * 7919 + w * 104729) % 1000 < 400 ? 8000 : 0; /* a rough picture */
            s = lam_ranks_add_window(r,
                                     &(lam_rank_window){.win = w,
                                                        .rank = i,
                                                        .first_step = 24 * w,
                                                        .started_us = 1000000 * (int64_t)w,
                                                        .steps = 24,
                                                        .own_us = 90000 + late,
                                                        .step_us = 100000,
                                                        .input_us = NAN,
                                                        .h2d_us = NAN,
                                                        .forward_us = 30000,
                                                        .backward_us = 60000,
                                                        .optimizer_us = NAN,
                                                        .other_us = NAN,
                                                        .comm_us = 10000},
                                     &e);
        }
    }
    for (int step = 0; s == LAM_OK && step < 24 * windows; step += 24)
        s = lam_ranks_add_meet(r,
                               &(lam_rank_meet){.step = step,
                                                .comm_group = LAM_NOT_KNOWN,
                                                .ranks = ranks,
                                                .last_rank = 1,
                                                .second_rank = 2,
                                                .started_us = step,
                                                .last_us = 98000,
                                                .second_us = 98000,
                                                .own_us = 90000.0 * ranks,
                                                .transfer_us = 2000,
                                                .group_transfer_us = NAN,
                                                .step_us = 100000,
                                                .node = "host-00000"},
                               &e);
    if (s == LAM_OK) s = lam_ranks_judge(r, NULL, NULL, &e);
    if (s != LAM_OK) fail_msg("%s: %s", e.where, e.text);
    return r;
}

static void test_ten_thousand_ranks_are_a_small_file(void **state) {
    (void)state;
    lmi_buf b = page_of(many_nodes(10000, 100), "run");
    assert_true(b.n < 2000000);
    has(&b, "A row is a node, by its latest rank");
    has(&b, "some windows, by the latest");
    has(&b, "and 1050 that are less late");
    lmi_buf_free(&b);
    b = page_of(many_nodes(16000, 24), "run");
    has(&b, "A row is some nodes");
    assert_true(b.n < 2000000);
    lmi_buf_free(&b);
}

static void write_short(void *arg, bool *ok) {
    const ranked *of = arg;
    lam_error e = {.at = -1};
    lmi_buf b;
    lmi_buf_init(&b);
    lam_ranks *r = ranked_judged(of, NULL, &e);
    lam_status s = r ? lam_ranks_page(r, "run", (lam_sink){take, &b}, &e) : e.status;
    if (s == LAM_IO) { /* the sink's own memory */
        s = LAM_NOMEM;
        e = (lam_error){.status = s, .text = "the sink"};
    }
    *ok = oom_check(s, &e);
    lam_ranks_free(r);
    lmi_buf_free(&b);
}

static void test_memory_that_runs_out_is_told(void **state) {
    (void)state;
    ranked of = ranked_run();
    of.ranks = 8;
    of.per_node = 2;
    of.steps = 24;
    of.slow = 3;
    of.more_us = 20000;
    oom_sweep(write_short, &of);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_verdict_comes_first),
        cmocka_unit_test(test_each_number_links_to_where_it_comes_from),
        cmocka_unit_test(test_what_is_unknown_is_not_zero),
        cmocka_unit_test(test_names_are_escaped),
        cmocka_unit_test(test_ten_thousand_ranks_are_a_small_file),
        cmocka_unit_test(test_memory_that_runs_out_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
