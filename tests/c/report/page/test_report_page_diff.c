/* SPDX-License-Identifier: Apache-2.0
 *
 * Parts of the page of a difference, on two outlines written by hand. */
#include "kit/oom.h"

#include "kit/full_net.h"
#include "kit/paged.h"

#define NARROW "\u202f"

typedef struct pair {
    paged *was, *now;
    lmi_outline both;
} pair;

/* Net(a, b(0, 1, 2), c), once as it is; and with a of 900 MACs instead of 400, c of another name, b.2 gone, a
 * new d of 40 parameters. 500 and 490 parameters, 1,000 and 1,300 MACs. */
static pair pair_new(void) {
    pair x = {.was = paged_net(), .now = paged_new()};
    paged_place(x.now, -1, "", "Net");
    int32_t a = paged_place(x.now, 0, "a", "Conv2d"), b = paged_place(x.now, 0, "b", "Sequential");
    x.now->at[a].out = x.was->at[1].out;
    for (int i = 0; i < 2; i++) {
        int32_t k = paged_place(x.now, b, i ? "1" : "0", "Linear");
        paged_add(x.now, LMI_OWN_PARAMS, k, 50);
        paged_add(x.now, LMI_OWN_MACS, k, 200);
    }
    int32_t c = paged_place(x.now, 0, "embed", "Embedding"), d = paged_place(x.now, 0, "d", "Scale");
    paged_add(x.now, LMI_OWN_PARAMS, a, 100);
    paged_add(x.now, LMI_OWN_MACS, a, 900);
    paged_add(x.now, LMI_OWN_PARAMS, c, 250);
    paged_add(x.now, LMI_OWN_PARAMS, d, 40);
    return x;
}

static void unite(pair *x) {
    assert_int_equal(lmi_outline_diff(&x->both, &x->was->o, &x->now->o, NULL), LAM_OK);
}

static void pair_free(pair *x) {
    lmi_outline_free(&x->both);
    free(x->was);
    free(x->now);
}

static void put_table(lmi_page *p) { assert_int_equal(lmi_page_table(p), LAM_OK); }

/* A part of the page of both, into `shown`. */
static void part_of(pair *x, const lam_page_options *options, void (*part)(lmi_page *)) {
    static const lam_page_options none = {0};
    lmi_page page;
    lam_error e = {0};
    lmi_page_start(&page, &x->both, options ? options : &none, show_sink(), &e);
    part(&page);
    assert_int_equal(lmi_buf_flush(&page.out, page.to, &e), LAM_OK);
    lmi_buf_free(&page.out);
}

/* 490 of 500 are 2 % less, 1,300 of 1,000 are 30 % more. */
static void tiles(void **state) {
    (void)state;
    pair x = pair_new();
    unite(&x);
    part_of(&x, NULL, lmi_page_verdict);
    show_has("<span class=\"v\">490</span><span class=\"w\">was 500, −2.0" NARROW "%</span>");
    show_has("<span class=\"v\">1.30" NARROW "K</span><span class=\"w\">was 1.00" NARROW "K, +30" NARROW
             "%</span>");
    pair_free(&x);
}

/* The differences of MACs are 500 of a and 200 of b; b itself only holds what changed. */
static void what_changed(void **state) {
    (void)state;
    pair x = pair_new();
    unite(&x);
    part_of(&x, NULL, lmi_page_findings);
    show_has("<ul class=\"find\"><li class=\"info\">");
    show_has(
        "<b>1 module added, 1 removed, 1 changed, 1 renamed.</b> Most of the difference in MACs is in <a "
        "class=\"link\" href=\"#layer=a\"><code><bdi>a</bdi></code></a> (+500), <a class=\"link\" "
        "href=\"#layer=b\"><code><bdi>b</bdi></code></a> (−200).</div>");
    show_lacks("% of the parameters"); /* which the page of one model says of c */
    pair_free(&x);
}

static void rows(void **state) {
    (void)state;
    pair x = pair_new();
    unite(&x);
    part_of(&x, NULL, put_table);
    show_has(
        "<bdi>Conv2d</bdi></span><span class=\"tag chg\">~ changed</span></th><td class=\"l dim\">8×64×7×7 "
        "+4</td><td class=\"n w10\">100<span class=\"dl\"></span></td><td class=\"n hot w35\">900<span "
        "class=\"dl\">+125" NARROW "%</span></td>");
    show_has("<span class=\"tag del\">− removed</span></th><td class=\"l dim\"></td><td class=\"n\"><span "
             "class=\"dim\">0</span><span class=\"dl\">gone</span></td>");
    show_has("<span class=\"tag add\">+ added</span></th><td class=\"l dim\"></td><td class=\"n w4\">40<span "
             "class=\"dl\">new</span></td>");
    show_has("<span class=\"tag ren\">&gt; renamed from <bdi>c</bdi></span>");
    show_has("<bdi>0…1</bdi></span><span class=\"ty\"><bdi>Linear</bdi></span><span class=\"tag\">×2 equal, "
             "each</span>");
    assert_int_equal(shown_times("<tr data-i"), 7); /* the one of b that is gone is not equal to them */
    pair_free(&x);
}

/* 1 is a number that another can be a share of, 0 is not. */
static void small_numbers(void **state) {
    (void)state;
    static const struct {
        int64_t was, now;
        const char *told;
    } all[] = {{1, 2, "+100" NARROW "%"}, {0, 2, "new"}, {1, 0, "gone"}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        pair x = {.was = paged_new(), .now = paged_new()};
        char wanted[40];
        for (int k = 0; k < 2; k++) {
            paged *p = k ? x.now : x.was;
            paged_place(p, -1, "", "Net");
            paged_place(p, 0, "a", "Conv2d");
            paged_add(p, LMI_OWN_MACS, 1, k ? all[i].now : all[i].was);
            paged_add(p, LMI_OWN_PARAMS, 1, 7 + k); /* it changed anyway */
        }
        unite(&x);
        part_of(&x, NULL, put_table);
        snprintf(wanted, sizeof wanted, "<span class=\"dl\">%s</span>", all[i].told);
        show_has(wanted);
        pair_free(&x);
    }
}

/* The first kind of name that tells them apart. */
static void names(void **state) {
    (void)state;
    const char *was[][2] = {{"target", "old/net.py:small"}}, *now[][2] = {{"target", "net.py:large"}};
    pair x = pair_new();
    x.was->o.provenance = was;
    x.now->o.provenance = now;
    x.was->o.n_provenance = x.now->o.n_provenance = 1;
    unite(&x);
    part_of(&x, NULL, lmi_page_verdict);
    show_has("<h1 id=\"h-verdict\"><bdi>small</bdi> → <bdi>large</bdi></h1>");
    show_has("<code><bdi>old/net.py:small</bdi> → <bdi>net.py:large</bdi></code>");
    now[0][1] = "net.py:small";
    part_of(&x, NULL, lmi_page_verdict);
    show_has("<h1 id=\"h-verdict\"><bdi>old/net.py:small</bdi> → <bdi>net.py:small</bdi></h1>");
    now[0][1] = was[0][1];
    part_of(&x, &(lam_page_options){.before = "a.json", .target = "b.json"}, lmi_page_verdict);
    show_has("<h1 id=\"h-verdict\"><bdi>a.json</bdi> → <bdi>b.json</bdi></h1>");
    part_of(&x, NULL, lmi_page_verdict);
    show_has("<h1 id=\"h-verdict\"><bdi>Net</bdi> → <bdi>Net</bdi></h1>");
    x.was->o.name = "<Old>";
    part_of(&x, NULL, lmi_page_verdict);
    show_has("<h1 id=\"h-verdict\"><bdi>&lt;Old&gt;</bdi> → <bdi>Net</bdi></h1>");
    pair_free(&x);
}

static void numbers_of_other_rules(void **state) {
    (void)state;
    pair x = pair_new();
    x.was->o.convention = "torch";
    x.was->o.mode = "train";
    x.now->o.mode = "eval";
    unite(&x);
    part_of(&x, NULL, lmi_page_verdict);
    show_has("<b>MACs, FLOPs and bytes can't be compared:</b> before they were counted by "
             "<code><bdi>torch</bdi></code>, now by <code><bdi>exact</bdi></code>.");
    show_has("was 1.00" NARROW "K, not comparable</span>");
    show_has("was 500, −2.0" NARROW "%</span>"); /* parameters are the same to all */
    show_has("<bdi>train</bdi> → <bdi>eval</bdi> mode");
    show_lacks("Most of the difference");
    part_of(&x, NULL, lmi_page_sources);
    show_has(
        "<li>The convention differs: before <bdi>torch</bdi>, now <bdi>exact</bdi>: MACs, FLOPs and bytes");
    show_has(
        "<li>The mode differs: before <bdi>train</bdi>, now <bdi>eval</bdi>: not everything runs in both");
    show_has("<h3>What it is compared with</h3>");
    pair_free(&x);
}

/* What is not known is not 0, and no percentage is made of it. */
static void not_known(void **state) {
    (void)state;
    pair x = pair_new();
    x.now->o.macs[LAM_FORWARD].state = LAM_AT_LEAST;
    x.now->o.timed = true;
    x.now->o.time[LAM_TIME_FORWARD] = (lam_spread){.n = 5, .median = 3000000, .deviation = 1};
    paged_add(x.now, LMI_OWN_TIME, 1, 3000000);
    paged_hold(x.was, 1, LAM_HELD_PARAMETER, 900);
    unite(&x);
    part_of(&x, NULL, lmi_page_verdict);
    show_has("was 1.00" NARROW "K, not comparable</span>");
    show_has("<span class=\"v\">3.00" NARROW "ms</span><span class=\"w\">not measured before</span>");
    show_lacks("peak memory"); /* of before alone */
    x.was->o.timed = true;
    x.was->o.time[LAM_TIME_FORWARD].median = 2999900; /* 0.003 % less */
    x.now->o.macs[LAM_FORWARD] = x.was->o.macs[LAM_FORWARD];
    lmi_outline_free(&x.both);
    unite(&x);
    part_of(&x, NULL, lmi_page_verdict);
    show_has("was 3.00" NARROW "ms, ≈</span>");
    show_has("was 1.00" NARROW "K, =</span>");
    pair_free(&x);
}

static void the_same(void **state) {
    (void)state;
    pair x = {.was = paged_net(), .now = paged_net()};
    unite(&x);
    part_of(&x, NULL, lmi_page_findings);
    show_has("<b>The same modules,</b> with equal shapes and counts.");
    part_of(&x, NULL, put_table);
    show_lacks("class=\"tag ");
    show_lacks("%</span>");
    pair_free(&x);
}

static void write_both(void *arg, bool *ok) {
    lam_error e = {0};
    lam_page_options o = {.costs_before = arg, .before = "before"};
    *ok = oom_check(lam_page_write(arg, &o, show_sink(), &e), &e);
}

static void without_memory(void **state) {
    (void)state;
    lam_model *m = full_step();
    lam_costs *c = net_costs(m, "exact", false);
    oom_sweep(write_both, c);
    lam_costs_free(c);
    lam_model_free(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tiles),          cmocka_unit_test(what_changed),
        cmocka_unit_test(rows),           cmocka_unit_test(small_numbers),
        cmocka_unit_test(names),          cmocka_unit_test(numbers_of_other_rules),
        cmocka_unit_test(not_known),      cmocka_unit_test(the_same),
        cmocka_unit_test(without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
