/* SPDX-License-Identifier: Apache-2.0
 *
 * The levels of a difference: what was removed stands where it stood. */
#include "kit/oom.h"

#include "kit/ops_net.h"
#include "kit/outlined.h"

static const lmi_outline_options with_levels = {.levels = true, .drawn = true};

/* Two models, and both as one. */
typedef struct pair {
    lam_model *m[2];
    lam_costs *c[2];
    lmi_outline o[2], both;
} pair;

static void compare(pair *x, lam_model *before, lam_model *after) {
    lam_error e = {0};
    x->m[0] = before, x->m[1] = after;
    for (int i = 0; i < 2; i++) {
        x->c[i] = net_costs(x->m[i], "exact", false);
        if (lmi_outline_new(&x->o[i], x->c[i], &with_levels, &e) != LAM_OK) fail_msg("%s", e.text);
    }
    if (lmi_outline_diff(&x->both, &x->o[0], &x->o[1], &e) != LAM_OK) fail_msg("%s", e.text);
}

static void leave(pair *x) {
    lmi_outline_free(&x->both);
    for (int i = 0; i < 2; i++) {
        lmi_outline_free(&x->o[i]);
        lam_costs_free(x->c[i]);
        lam_model_free(x->m[i]);
    }
}

static const lmi_level *level_of(const lmi_outline *o, const char *path) {
    int32_t level = outline_at(o, path)->level;
    if (level < 0 || level >= o->n_levels) fail_msg("%s: level %d of %d", path, (int)level, (int)o->n_levels);
    return &o->level[level];
}

/* "x>0 0>1 ..." of its lines. */
static const char *lines_of(const lmi_level *l) {
    static char text[512];
    size_t n = 0;
    text[0] = '\0';
    for (int32_t i = 0; i < l->n_lines; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%s>%s", i ? " " : "",
                              l->node[l->line[i].from].label, l->node[l->line[i].to].label);
    return text;
}

static void a_block_that_was_removed(void **state) {
    (void)state;
    pair x;
    compare(&x, level_blocks(3), level_blocks(2));
    const lmi_level *l = level_of(&x.both, "blocks");
    assert_string_equal(lines_of(level_of(&x.o[1], "blocks")), "input>0 0>1 1>out");
    assert_string_equal(lines_of(l), "input>0 0>1 1>2 1>out 2>out");
    assert_int_equal(l->n, 5);
    assert_int_equal(l->at.n, 5);
    assert_int_equal(l->node[3].place, outline_find(&x.both, "blocks.2"));
    assert_int_equal(x.both.change[l->node[3].place], LMI_REMOVED);
    assert_true(l->at.y[3] > l->at.y[2]);
    const lmi_level *inside = level_of(&x.both, "blocks.2"); /* as it was */
    assert_string_equal(lines_of(inside), lines_of(level_of(&x.o[0], "blocks.2")));
    leave(&x);
}

static void nothing_that_was_removed(void **state) {
    (void)state;
    pair x;
    compare(&x, level_blocks(2), level_blocks(3)); /* one is new */
    assert_string_equal(lines_of(level_of(&x.both, "blocks")), lines_of(level_of(&x.o[1], "blocks")));
    assert_int_equal(outline_at(&x.both, "blocks")->level, outline_at(&x.o[1], "blocks")->level);
    leave(&x);
    compare(&x, level_blocks(2), level_blocks(2));
    assert_string_equal(lines_of(level_of(&x.both, "blocks.1")), lines_of(level_of(&x.o[1], "blocks.1")));
    leave(&x);
}

static void try_both(void *arg, bool *ok) {
    pair *x = arg;
    lam_error e = {0};
    lmi_outline both;
    *ok = oom_check(lmi_outline_diff(&both, &x->o[0], &x->o[1], &e), &e);
    lmi_outline_free(&both);
}

static void without_memory(void **state) {
    (void)state;
    pair x;
    compare(&x, level_blocks(3), level_blocks(2));
    oom_sweep(try_both, &x);
    leave(&x);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_block_that_was_removed),
        cmocka_unit_test(nothing_that_was_removed),
        cmocka_unit_test(without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
