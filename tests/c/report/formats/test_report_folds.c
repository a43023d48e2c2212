/* SPDX-License-Identifier: Apache-2.0
 *
 * Equal siblings are folded alike by lamina's table and by the data of the page: over the networks of the
 * kit, run and saved, and over made-up ones. */
#define FILE_NAME "test_report_folds.json"
#include "kit/oom.h"

#include "kit/full_net.h"
#include "kit/made_net.h"
#include "kit/outlined.h"
#include "kit/saved.h"
#include "kit/show.h"
#include "kit/text_net.h"

enum { MADE = 60 };

static int folded; /* runs that were met */

/* The number of equal siblings that begin at a place, by the page's data. */
static int32_t run_of(const char *page, int32_t place) {
    char key[32];
    const char *run = strstr(page, "\"run\":{"), *end = run ? strchr(run, '}') : NULL;
    assert_non_null(end);
    for (int first = 0; first < 2; first++) {
        snprintf(key, sizeof key, "%c\"%d\":", first ? '{' : ',', (int)place);
        const char *at = strstr(run, key);
        if (at && at < end) return atoi(at + strlen(key));
    }
    return 1;
}

/* The next line of a table that is of a module, behind its branch; NULL past the last one. */
static const char *next_module(const char **line) {
    while (**line && **line != '\n') {
        const char *name = *line + strspn(*line, " |`-");
        *line = strchr(*line, '\n') + 1;
        if (*name != '[') return name;
    }
    return NULL;
}

/* Holds the table's lines against the places of the page in their order, without those of a run that follow
 * its first. */
static void hold(const lmi_outline *o, const char *page, const char *table) {
    const char *line = strstr(table, "\nlayer "), *name;
    lmi_buf want;
    lmi_buf_init(&want);
    assert_non_null(line);
    line = strchr(line + 1, '\n') + 1;
    int32_t *after = calloc((size_t)o->n + 1, sizeof *after); /* for the last of a run where it ends */
    for (int32_t i = 0; i < o->n; i++) {
        if (after[i]) {
            i = after[i] - 1;
            continue;
        }
        const lmi_outline_place *at = &o->at[i];
        const int32_t run = run_of(page, i);
        int32_t last = i;
        for (int32_t k = 1; k < run; k++) last = o->at[last].end;
        if (run > 1) after[at->end] = o->at[last].end;
        lmi_buf_clear(&want);
        if (i) lmi_put_clean(&want, at->name);
        if (run > 1) lmi_putf(&want, "..%s x%d", o->at[last].name + lmi_stem(at->name), (int)run);
        if (i) lmi_put(&want, " (");
        lmi_put_clean(&want, at->type);
        folded += run > 1;
        name = next_module(&line);
        if (!name || strncmp(name, want.s, want.n) != 0)
            fail_msg("'%s' is not '%.40s' in\n%s", want.s, name ? name : "", table);
    }
    assert_null(next_module(&line));
    lmi_buf_free(&want);
    free(after);
}

static void hold_costs(const lam_costs *c) {
    lam_error e = {0};
    lmi_outline o;
    lam_report_options text = show_options(NULL, NULL);
    text.width = 1000;
    text.ascii = true;
    assert_int_equal(lmi_outline_new(&o, c, &(lmi_outline_options){0}, &e), LAM_OK);
    assert_int_equal(lam_page_write(c, NULL, show_sink(), &e), LAM_OK);
    char *page = strdup(shown);
    assert_non_null(page);
    hold(&o, page, show(c, &text));
    free(page);
    lmi_outline_free(&o);
}

/* What a report shows of memory parts runs in its table; a saved one shows all that was measured. */
static void hold_saved(const lam_costs *c) {
    lam_error e = {0};
    lam_model *m;
    save(c);
    if (lam_model_load(&m, FILE_NAME, &e) != LAM_OK) fail_msg("%s: %s", e.where, e.text);
    if (!lam_model_memory_seen(m)) {
        lam_costs *again;
        assert_int_equal(lam_costs_new(&again, m, NULL, &e), LAM_OK);
        hold_costs(again);
        lam_costs_free(again);
    }
    lam_model_free(m);
}

static void hold_model(lam_model *m) {
    static const char *const conventions[] = {"layers", "torchscan", "fvcore", "exact"};
    const size_t n = m->n_ops > 0 ? 4 : 2; /* the others count operators */
    for (size_t k = 0; k < n; k++) {
        lam_costs *c = net_costs(m, conventions[k], false);
        hold_costs(c);
        if (k == n - 1) hold_saved(c);
        lam_costs_free(c);
    }
    lam_model_free(m);
}

static const char *const nets[] = {
    "Net(Linear 4 4)",
    "Net(Linear 4 4; Linear 4 4)",
    "Net(Linear 4 4; Linear 4 4 nobias; Linear 4 4; Linear 4 4)",
    "Net(h0: Block(fc: Linear 4 4; act: ReLU); h1: Block(fc: Linear 4 4; act: ReLU); h2: Linear 4 4)",
    "Net(a: Part(Linear 4 4; Linear 4 4); a1: Part(Linear 4 4; Linear 4 4); a2: Part(Linear 4 4; Linear 4 "
    "4))",
    "Net(h1: Linear 4 4; h3: Linear 4 4; h4: Linear 4 4; h5: Linear 4 4 twice; h6: Linear 4 4 idle)",
    "Net(h0: Linear 4 4; h1: =h0; h2: =h0; h3: Linear 4 4; h08: ReLU; h09: ReLU; h10: ReLU)",
};

static void nets_of_the_kit(void **state) {
    (void)state;
    hold_model(full_step());
    hold_model(net_step());
    hold_model(net_residual());
    for (size_t i = 0; i < sizeof nets / sizeof *nets; i++) hold_model(text_model(nets[i], true, SH(2, 4)));
    assert_true(folded > 0);
}

static void made_up_nets(void **state) {
    (void)state;
    seed = 21;
    folded = 0;
    for (int i = 0; i < MADE; i++) hold_model(made_step());
    assert_true(folded > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(nets_of_the_kit), cmocka_unit_test(made_up_nets)};
    return cmocka_run_group_tests(tests, NULL, remove_file);
}
