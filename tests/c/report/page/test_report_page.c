/* SPDX-License-Identifier: Apache-2.0
 *
 * Parts of the page on outlines written by hand, and the whole of a run of which everything was seen. */
#include "kit/oom.h"

#include "kit/full_net.h"
#include "kit/paged.h"

#define NARROW "\u202f"

/* -- verdict --------------------------------------------------------------------------------------------- */

/* Of 1,000 MACs b has 600, which is three fifths; b.0 has 200. */
static void tiles(void **state) {
    (void)state;
    paged *p = paged_net();
    paged_add(p, LMI_OWN_PARAM_BYTES, 1, 2000);
    p->o.modules = 7;
    p->o.calls = 1;
    p->o.mode = "eval";
    paged_part(p, &(lam_page_options){.target = "net.py:<Net>"}, lmi_page_verdict);
    show_has("<h1 id=\"h-verdict\"><bdi>Net</bdi></h1>");
    show_has("<code><bdi>net.py:&lt;Net&gt;</bdi></code> · <bdi>eval</bdi> mode · 7 modules, 1 call</p>");
    show_has("<span class=\"k\">params</span><span class=\"v\">500</span><span class=\"w\">1.95" NARROW
             "KiB, all trainable</span>");
    show_has("data-by=\"macs\" aria-pressed=\"true\"><span class=\"k\">MACs, forward</span><span "
             "class=\"v\">1.00" NARROW "K</span><span class=\"w\"><bdi>b</bdi> 60" NARROW "%</span>");
    assert_int_equal(shown_times("class=\"tile\""), 2); /* nothing else is known */
    show_has("<b>All counts are exact.</b></div>");
    free(p);
}

static void not_exact(void **state) {
    (void)state;
    paged *p = paged_net();
    static const char *const gaps[] = {"no rule for <x>", "2", "3", "4", "5", "6", "7", "8"};
    const char *gap[8];
    memcpy(gap, gaps, sizeof gap);
    p->o.gap = gap;
    p->o.n_gaps = 8;
    p->o.macs[LAM_FORWARD].state = LAM_AT_LEAST;
    p->o.state[LMI_OWN_MACS] = p->state[LMI_OWN_MACS];
    p->state[LMI_OWN_MACS][4] = LAM_UNKNOWN;
    paged_part(p, NULL, lmi_page_verdict);
    show_has("<span class=\"v\"><span class=\"q\">≥</span>" NARROW "1.00" NARROW "K</span>");
    show_has("Not every number is exact.</b><ul><li><bdi>no rule for &lt;x&gt;</bdi></li>");
    show_has("<li><bdi>6</bdi></li><li>2 more</li></ul>");
    show_lacks("All counts");
    free(p);
}

/* -- table ----------------------------------------------------------------------------------------------- */

static lam_status table_status;
static void put_table(lmi_page *p) { table_status = lmi_page_table(p); }

static void put_deeper_table(lmi_page *p) { table_status = lmi_page_deeper_table(p); }

static void first_view(void **state) {
    (void)state;
    paged *p = paged_net();
    paged_part(p, NULL, put_table);
    assert_int_equal(table_status, LAM_OK);
    assert_int_equal(shown_times("<tr data-i"), 5); /* Net, a, b, the run, c */
    show_has(
        "<tr data-i=\"3\"><th scope=\"row\"><span class=\"ind i2\"></span><span class=\"sw b-lin\"></span>"
        "<span class=\"mono\"><bdi>0…2</bdi></span><span class=\"ty\"><bdi>Linear</bdi></span><span "
        "class=\"tag\">×3 equal, each</span></th>");
    show_has(
        "<td class=\"l dim\">8×64×7×7 +4</td><td class=\"n w10\">100</td><td class=\"n hot w20\">400</td>");
    show_has("<td class=\"n w15\">150</td><td class=\"n hot w30\">600</td></tr>"); /* b */
    show_has("<td class=\"n w15\">50</td><td class=\"n hot w30\">200</td></tr>");  /* each of the run */
    show_has("<td class=\"n w25\">250</td><td class=\"n hot\"><span class=\"dim\">0</span></td></tr>");
    show_lacks("style=");
    free(p);
}

/* 24 rows are open, 25 are not; the root's children always are, 150 rows at most. */
static void open_levels(void **state) {
    (void)state;
    char names[PAGED][8];
    for (int last = 21; last <= 22; last++) {
        paged *p = paged_new();
        paged_place(p, -1, "", "Net");
        int32_t box = paged_place(p, 0, "box", "Box");
        paged_place(p, 0, "other", "Box");
        for (int i = 0; i < last; i++) { /* they are put into the box: places are in depth-first order */
            snprintf(names[i], sizeof names[i], "%c", 'a' + i);
            p->o.n--;
            paged_place(p, box, names[i], "Leaf");
            paged_place(p, 0, "other", "Box");
            p->at[0].n_children = 2;
        }
        paged_add(p, LMI_OWN_PARAMS, 2, 1);
        paged_part(p, NULL, put_table);
        assert_int_equal(shown_times("<tr data-i"), last == 21 ? 24 : 3);
        paged_part(p, NULL, put_deeper_table); /* what the first one leaves out */
        assert_int_equal(table_status, LAM_OK);
        assert_int_equal(shown_times("<tr data-i"), last == 21 ? 0 : 25);
        assert_int_equal(shown_times("<details><summary>All modules, 25 rows</summary>"), last == 22);
        free(p);
    }
}

/* -- names ----------------------------------------------------------------------------------------------- */

/* Every byte as a name of its own, alone and between letters, in the table, in a link and in a sentence. */
static void every_byte(void **state) {
    (void)state;
    for (int byte = 1; byte < 256; byte++) {
        const char name[] = {'x', (char)byte, 'y', '\0'};
        const char *unused[][2] = {{name, name}};
        paged *p = paged_net();
        p->at[1].name = p->at[1].type = p->at[1].out = p->o.name = name;
        p->o.unused = unused;
        p->o.n_unused = 1;
        paged_part(p, &(lam_page_options){.target = name, .ran = NULL}, lmi_page_verdict);
        for (const char *s = shown; *s; s++) {
            if ((unsigned char)*s < 0x20 && *s != '\n') fail_msg("byte %d is put as it is", byte);
            if (*s == '<' && !strchr("abcdhlpsu/", s[1])) fail_msg("byte %d opens something", byte);
        }
        if (byte == '"' || byte == '\'') show_lacks("x\"y");
        if (byte >= 0x80) show_has("#layer=x%EF%BF%BDy\""); /* alone it is no UTF-8 */
        if (byte == '%') show_has("#layer=x%25y\"");
        if (byte == 0x1b) show_has("<bdi>x\\u001by</bdi>");
        paged_part(p, NULL, put_table);
        show_lacks(byte == '<' ? "x<y" : "\x1b");
        free(p);
    }
}

static void put_link_of_first(lmi_page *p) { lmi_page_link(p, 1); }

/* What turns the direction of writing is spelt out, wide text is cut in its middle, links have all of it. */
static void odd_names(void **state) {
    (void)state;
    static char name[10001];
    paged *p = paged_net();
    p->at[1].name = "a\u202eb";
    paged_part(p, NULL, put_link_of_first);
    assert_string_equal(
        shown, "<a class=\"link\" href=\"#layer=a%E2%80%AEb\"><code><bdi>a\\u202eb</bdi></code></a>");
    memset(name, 'n', sizeof name - 1);
    p->at[1].name = name;
    paged_part(p, NULL, put_link_of_first);
    assert_int_equal(strspn(strstr(shown, "#layer=") + 7, "n"), 10000);
    assert_int_equal(strspn(strstr(shown, "<bdi>") + 5, "n"), 35); /* 60 columns: 35, the dots, 24 */
    assert_int_equal(strspn(strstr(shown, "…") + 3, "n"), 24);
    free(p);
}

/* -- sources --------------------------------------------------------------------------------------------- */

static void what_was_not_measured(void **state) {
    (void)state;
    paged *p = paged_net();
    paged_part(p, &(lam_page_options){.command = true}, lmi_page_sources);
    show_has("<dt>memory</dt><dd>not measured; <code>--memory</code> measures it</dd>");
    show_has("<code>--time</code>");
    show_has("<code>--roof</code>");
    show_has("<code>--health</code>");
    show_has("<code>--backward</code>");
    paged_part(p, NULL, lmi_page_sources);
    show_has("<code>memory=True</code>");
    show_has("<h3>What was left out</h3><ul><li>nothing</li></ul>");
    const char *asked[][2] = {{"backward", "yes"}};
    p->o.provenance = asked;
    p->o.n_provenance = 1;
    paged_part(p, NULL, lmi_page_sources);
    show_has("<dt>backward</dt><dd><bdi>requested, but none ran to its end</bdi></dd>");
    const char *facts[][2] = {{"dry", "yes"}, {"torch", "2.0 <x>"}};
    p->o.provenance = facts;
    p->o.n_provenance = 2;
    paged_part(p, NULL, lmi_page_sources);
    show_has("<dt>memory</dt><dd>not measured: a dry run computes nothing</dd>");
    show_has("<h3>Where</h3><dl><dt>lamina</dt><dd><bdi>1</bdi></dd><dt>torch</dt><dd><bdi>2.0 "
             "&lt;x&gt;</bdi></dd>");
    free(p);
}

/* a holds 600 of 1,000 bytes: the first bar is 1,120 × 0.6 = 672 units wide, and its own 260. */
static void holders(void **state) {
    (void)state;
    paged *p = paged_net();
    paged_hold(p, 1, LAM_HELD_PARAMETER, 600);
    paged_hold(p, 6, LAM_HELD_WORKSPACE, 400);
    paged_part(p, NULL, lmi_page_holders);
    show_has("<rect class=\"k0\" x=\"0.0\" width=\"672.0\" height=\"18\"/><rect class=\"k7\" x=\"672.0\" "
             "width=\"448.0\" height=\"18\"/>");
    show_has("The 2 modules that hold most at the peak, of 2");
    show_has("<rect class=\"k0\" x=\"0.0\" width=\"260.0\" height=\"12\"/>");
    show_has("<td>600" NARROW "B</td><td>60" NARROW "%</td>");
    assert_true(strstr(shown, "#layer=a") < strstr(shown, "#layer=c"));
    free(p);
}

/* -- the file -------------------------------------------------------------------------------------------- */

static void the_file(void **state) {
    (void)state;
    static char first[sizeof shown];
    lam_error e = {0};
    lam_model *m = full_step();
    lam_costs *c = net_costs(m, "exact", false);
    const lam_page_options o = {.roof = {1e12, 1e11}};
    assert_int_equal(lam_page_write(c, &o, show_sink(), &e), LAM_OK);
    memcpy(first, shown, shown_n + 1);
    assert_int_equal(lam_page_write(c, &o, show_sink(), &e), LAM_OK);
    assert_string_equal(shown, first); /* it has no date of its own */
    show_has("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">");
    show_has("content=\"default-src 'none'; style-src 'sha256-");
    assert_int_equal(shown_times("<script"), 2);
    assert_int_equal(shown_times("<style>"), 1);
    show_lacks(" style=");
    show_lacks("http://");
    static const char *const ids[] = {"verdict", "modules", "icicle", "prov",
                                      "data",    "tscroll", "rows",   "help"};
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        char id[32];
        snprintf(id, sizeof id, " id=\"%s\"", ids[i]);
        assert_int_equal(shown_times(id), 1);
    }
    assert_int_equal(lam_page_write(c, NULL, show_refusing(), &e), LAM_IO);
    lam_costs_free(c);
    lam_model_free(m);
}

static void write_all(void *arg, bool *ok) {
    lam_error e = {0};
    *ok = oom_check(lam_page_write(arg, NULL, show_sink(), &e), &e);
}

static void without_memory(void **state) {
    (void)state;
    lam_model *m = full_step();
    lam_costs *c = net_costs(m, "exact", false);
    oom_sweep(write_all, c);
    lam_costs_free(c);
    lam_model_free(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tiles),      cmocka_unit_test(not_exact),
        cmocka_unit_test(first_view), cmocka_unit_test(open_levels),
        cmocka_unit_test(every_byte), cmocka_unit_test(odd_names),
        cmocka_unit_test(holders),    cmocka_unit_test(what_was_not_measured),
        cmocka_unit_test(the_file),   cmocka_unit_test(without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
