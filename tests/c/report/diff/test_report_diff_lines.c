/* SPDX-License-Identifier: Apache-2.0
 *
 * Differences of models: what is added, removed, changed, renamed; what can't be compared; numbers. */
#include "kit/oom.h"

#include "kit/full_net.h"
#include "kit/show.h"
#include "kit/stored_net.h"

#include "report/diff/diff.h"

#include <math.h>
#include <stdio.h>

/* A Linear of `wide` outputs at `name`, behind a ReLU, in a model of type `type`. */
static lam_model *small(const char *type, const char *name, int64_t wide, bool training) {
    net n = net_new();
    uint32_t flags = training ? LAM_CALL_TRAINING : 0;
    int32_t root = net_module(&n, type, 0), act = net_leaf(&n, "ReLU"), fc = net_linear(&n, 4, wide);
    int32_t p = net_place(&n, -1, "", root);
    net_place(&n, p, "act", act);
    net_place(&n, p, name, fc);
    int32_t r = net_call_flags(&n, root, -1, flags, SH(1, 4), 0, SH(1, wide), 0);
    net_call_flags(&n, act, r, flags, SH(1, 4), 0, SH(1, 4), 0);
    net_call_flags(&n, fc, r, flags, SH(1, 4), 0, SH(1, wide), 0);
    return net_done(&n);
}

typedef struct pair {
    lam_model *m[2];
    lam_costs *c[2];
    lam_diff *d;
} pair;

static pair pair_of(lam_model *was, lam_model *now, const char *by_was, const char *by_now) {
    pair x = {.m = {was, now}};
    lam_error e = {0};
    x.c[0] = net_costs(was, by_was, false);
    x.c[1] = net_costs(now, by_now, false);
    lam_diff_side a = {.costs = x.c[0], .name = "old"}, b = {.costs = x.c[1], .name = "new"};
    if (lam_diff_new(&x.d, &a, &b, &e) != LAM_OK) fail_msg("%s: %s", e.where, e.text);
    return x;
}

static void pair_free(pair *x) {
    lam_diff_free(x->d);
    for (int i = 0; i < 2; i++) {
        lam_costs_free(x->c[i]);
        lam_model_free(x->m[i]);
    }
}

static const char *written(const pair *x, const lam_diff_options *o) {
    lam_error e = {0};
    if (lam_diff_write(x->d, o, show_sink(), &e) != LAM_OK) fail_msg("%s: %s", e.where, e.text);
    return shown;
}

/* 20,200 Linears of different sizes: more than are compared one by one. */
static lam_model *wide(void) {
    net n = net_new();
    int32_t root = net_module(&n, "Net", 0), p = net_place(&n, -1, "", root);
    int32_t r = net_call(&n, root, -1, SH(1, 1), 0, SH(1, 1), 0);
    for (int32_t i = 0; i < 20200; i++) {
        char name[12];
        int32_t fc = net_linear(&n, 1, i + 1);
        snprintf(name, sizeof name, "%d", (int)i);
        net_place(&n, p, name, fc);
        net_call(&n, fc, r, SH(1, 1), 0, SH(1, i + 1), 0);
    }
    return net_done(&n);
}

static void a_side_whose_small_modules_are_compared_together_is_named(void **state) {
    (void)state;
    for (int side = 0; side < 2; side++) {
        pair x = pair_of(side ? small("Net", "fc", 3, false) : wide(),
                         side ? wide() : small("Net", "fc", 3, false), "layers", "layers");
        written(&x, NULL);
        show_has(side ? "new has very many modules, of which equal and small ones are compared together.\n"
                      : "old has very many modules, of which equal and small ones are compared together.\n");
        show_lacks(side ? "old has very many" : "new has very many");
        pair_free(&x);
    }
}

static void nothing_differs(void **state) {
    (void)state;
    pair x = pair_of(small("Net", "fc", 3, false), small("Net", "fc", 3, false), "layers", "layers");
    assert_string_equal(written(&x, NULL),
                        "old -> new\nNothing differs: 3 modules are equal. Of numbers that are lower bounds, "
                        "the known parts are.\n");
    assert_int_equal(lam_diff_modules(x.d), 0);
    pair_free(&x);
}

/* 4 * 3 products and 12 + 3 parameters; then 4 * 5 and 20 + 5. */
static void a_changed_layer(void **state) {
    (void)state;
    pair x = pair_of(small("Net", "fc", 3, false), small("Net", "fc", 5, false), "layers", "layers");
    written(&x, &(lam_diff_options){.rows = -1, .depth = -1, .width = 200});
    show_has("~ fc (Linear)  out 1x3 -> 1x5      12   20    +8  +67%     +10    +16\n");
    show_lacks("~ (the model)"); /* it has another shape alone */
    show_has("MACs              >= 12  >= 20        ~ +8\n");
    show_has("2 modules changed; 1 is equal.\n"); /* the model's own output differs too */
    show_has("1 of them holds modules that changed, and it differs in shapes alone: rows=0 lists them.\n");
    written(&x, &(lam_diff_options){.rows = 0, .depth = -1, .width = 200});
    show_has("~ (the model) (Net)  out 1x3 -> 1x5       ?    ?     ?             0      ?\n");
    show_lacks("shapes alone");
    assert_int_equal(lam_diff_modules(x.d), 2);
    pair_free(&x);
}

static void a_renamed_layer(void **state) {
    (void)state;
    pair x = pair_of(small("Net", "fc", 3, false), small("Net", "head", 3, false), "layers", "layers");
    written(&x, NULL);
    show_has("> fc -> head (Linear)");
    show_has("1 module renamed; 2 are equal.\n");
    pair_free(&x);
}

/* Net(name: Block(keep, fc of `wide` outputs)). */
static lam_model *in_a_block(const char *name, int64_t wide) {
    net n = net_new();
    int32_t root = net_module(&n, "Net", 0), block = net_module(&n, "Block", 0);
    int32_t keep = net_linear(&n, 4, 4), fc = net_linear(&n, 4, wide), p = net_place(&n, -1, "", root);
    int32_t b = net_place(&n, p, name, block);
    net_place(&n, b, "keep", keep);
    net_place(&n, b, "fc", fc);
    int32_t r = net_call(&n, root, -1, SH(1, 4), 0, SH(1, 4), 0);
    int32_t k = net_call(&n, block, r, SH(1, 4), 0, SH(1, 4), 0);
    net_call(&n, keep, k, SH(1, 4), 0, SH(1, 4), 0);
    net_call(&n, fc, k, SH(1, 4), 0, SH(1, wide), 0);
    return net_done(&n);
}

/* A block of another name in which a layer changed is told by its names, and what did not change is not. */
static void a_renamed_block_with_a_change(void **state) {
    (void)state;
    pair x = pair_of(in_a_block("enc", 3), in_a_block("body", 5), "layers", "layers");
    written(&x, &(lam_diff_options){.rows = -1, .depth = -1, .width = 200});
    show_has("> enc -> body (Block)");
    show_has("~ enc.fc -> body.fc (Linear)");
    show_lacks("keep (");
    pair_free(&x);
}

static void a_layer_for_another(void **state) {
    (void)state;
    pair x = pair_of(small("Net", "fc", 3, false), small("Net", "head", 5, false), "layers", "layers");
    written(&x, &(lam_diff_options){.rows = -1, .depth = -1, .by = "params"});
    show_has("+ head (Linear)");
    show_has("- fc (Linear)");
    show_has("0   25     +25   new");
    show_has("15    0     -15  gone");
    show_has("1 module added, 1 removed, 1 changed; 1 is equal.\n");
    written(&x, &(lam_diff_options){.rows = 1, .depth = -1, .by = "params", .command = true});
    show_has("[1 more]");
    show_has("-n 0 shows all");
    show_lacks("- fc");
    written(&x, &(lam_diff_options){.depth = 0});
    show_has("~ (the model) (Net)  3 in it differ   >= 12  >= 20  ~ +8        +10  ~ +16\n");
    show_has("~: both numbers are lower bounds, and their known parts are compared.\n");
    pair_free(&x);
}

/* MACs of another convention are not compared, and their layers are no changed ones for that. */
static void another_convention(void **state) {
    (void)state;
    pair x = pair_of(small("Net", "fc", 3, false), small("Net", "fc", 3, false), "layers", "thoplw");
    written(&x, NULL);
    show_has("The convention differs: before layers, now thoplw: MACs, FLOPs and bytes can't be compared.\n");
    show_has("new has no FLOPs, so it is not compared.\n");
    show_has("Nothing differs: 3 modules are equal.\n");
    show_lacks("MACs  ");
    lam_error e = {0};
    assert_int_equal(lam_diff_write(x.d, &(lam_diff_options){.by = "macs"}, show_sink(), &e), LAM_USAGE);
    assert_string_equal(e.text,
                        "'macs' can't be compared (the convention differs: before layers, now thoplw); there "
                        "are: params, param_bytes, calls");
    pair_free(&x);
}

/* How parameters are stored, and what is here of them, is compared where it differs from their bytes. */
static void how_parameters_are_stored(void **state) {
    (void)state;
    pair x = pair_of(small("Net", "fc", 3, false), stored_net(false), "layers", "layers");
    written(&x, &(lam_diff_options){.rows = -1, .depth = -1, .by = "logical_bytes"});
    show_has("+ q (Linear)");
    written(&x, &(lam_diff_options){.rows = -1, .depth = -1, .format = "json"});
    show_has("\"params\": {\"before\": {\"value\": 15, \"state\": \"exact\"}, \"after\": {\"value\": 115,");
    show_has(
        "\"param_bytes\": {\"before\": {\"value\": 60, \"state\": \"exact\"}, \"after\": {\"value\": 314,");
    show_has(
        "\"logical_bytes\": {\"before\": {\"value\": 60, \"state\": \"exact\"}, \"after\": {\"value\": 460,");
    show_has(
        "\"local_bytes\": {\"before\": {\"value\": 60, \"state\": \"exact\"}, \"after\": {\"value\": 266,");
    pair_free(&x);
    x = pair_of(small("Net", "fc", 3, false), small("Net", "fc", 5, false), "layers", "layers");
    written(&x, NULL);
    show_lacks("logical");
    show_lacks("in this process");
    pair_free(&x);
}

static void another_mode(void **state) {
    (void)state;
    pair x = pair_of(small("Net", "fc", 3, true), small("Net", "fc", 3, false), "layers", "layers");
    written(&x, NULL);
    show_has("The mode differs: before train, now eval: not everything runs in both");
    pair_free(&x);
}

/* -- attributes ---------------------------------------------------------------------------------------- */

static void net_real(net *n, int32_t module, const char *name, double value) {
    lam_value v = {.type = LAM_FLOAT, .f = value};
    NET_OK(n, lam_build_attr(n->b, module, name, &v, &n->e));
}

static void net_none(net *n, int32_t module, const char *name) {
    lam_value v = {.type = LAM_NONE};
    NET_OK(n, lam_build_attr(n->b, module, name, &v, &n->e));
}

/* The model, in which the root calls two layers. */
static lam_model *called(net *n, int32_t root, int32_t first, int32_t second) {
    int32_t r = net_call(n, root, -1, SH(1, 4), 0, SH(1, 4), 0);
    net_call(n, first, r, SH(1, 4), 0, SH(1, 4), 0);
    net_call(n, second, r, SH(1, 4), 0, SH(1, 4), 0);
    return net_done(n);
}

/* A pool and a convolution whose attributes are of every type; no number of them tells the two apart. */
static lam_model *with_attributes(bool other) {
    net n = net_new();
    int32_t root = net_module(&n, "Net", 0), pool = net_leaf(&n, "MaxPool2d"), conv = net_leaf(&n, "Conv2d");
    if (other)
        net_ints(&n, pool, "kernel_size", SH(2, 2));
    else
        net_int(&n, pool, "kernel_size", 2); /* the same */
    net_bool(&n, pool, "ceil_mode", other);
    net_int(&n, pool, "stride", 1);
    const int64_t k = other ? 5 : 3;
    net_ints(&n, conv, "kernel_size", SH(k, k));
    if (other)
        net_text(&n, conv, "padding", "same");
    else
        net_ints(&n, conv, "padding", SH(1, 1));
    net_real(&n, conv, "eps", other ? 1e-12 : 1e-5);
    net_real(&n, conv, "same", 1 / 3.);
    net_real(&n, conv, "norm", other ? INFINITY : 2);
    if (other)
        net_none(&n, conv, "most");
    else
        net_int(&n, conv, "most", INT64_MIN);
    net_int(&n, conv, other ? "after_only" : "before_only", 1); /* only one knows it */
    net_ints(&n, conv, "sizes", NULL, 0);
    if (other) net_param(&n, conv, "bias", SH(3));
    int32_t p = net_place(&n, -1, "", root);
    net_place(&n, p, "pool", pool);
    net_place(&n, p, "conv", conv);
    return called(&n, root, pool, conv);
}

static void attributes_that_differ(void **state) {
    (void)state;
    pair x = pair_of(with_attributes(false), with_attributes(true), "layers", "layers");
    written(&x, &(lam_diff_options){.rows = -1, .depth = -1, .width = 60});
    show_has("~ conv (Conv2d)");
    show_has("\n    kernel_size 3x3 -> 5x5, padding 1x1 -> same,\n    eps 1e-05 -> 1e-12, norm 2 -> inf,\n"
             "    most -9223372036854775808 -> None, bias False -> True\n");
    show_has("~ pool (MaxPool2d)");
    show_has("\n    ceil_mode False -> True\n");
    show_has("2 modules changed; 1 is equal.\n");
    for (const char *s = shown; *s; s += strcspn(s, "\n") + 1)
        assert_true(*s != ' ' || strcspn(s, "\n") <= 60);
    written(&x, &(lam_diff_options){.format = "md", .rows = -1, .depth = -1});
    show_has("| \\~ pool (MaxPool2d) | ceil\\_mode False -\\> True |");
    show_has("| kernel\\_size 3x3 -\\> 5x5; padding 1x1 -\\> same; eps 1e-05 -\\> 1e-12; ");
    written(&x, &(lam_diff_options){.format = "json", .depth = -1});
    show_has(
        "\"attributes\": {\"kernel_size\": {\"before\": [3, 3], \"after\": [5, 5]}, \"padding\": "
        "{\"before\": "
        "[1, 1], \"after\": \"same\"}, \"eps\": {\"before\": 1e-05, \"after\": 1e-12}, \"norm\": "
        "{\"before\": 2, \"after\": \"inf\"}, \"most\": {\"before\": -9223372036854775808, \"after\": null}, "
        "\"bias\": {\"before\": false, \"after\": true}}");
    show_has("\"attributes\": {\"ceil_mode\": {\"before\": false, \"after\": true}}");
    show_lacks("_only");
    written(&x, &(lam_diff_options){.depth = 0}); /* what is summed up has none of its own */
    show_has("2 in it differ");
    show_lacks("kernel_size");
    pair_free(&x);
}

static void write_more(const pair *x, const lam_diff_options *o) {
    lam_error e = {0};
    if (lam_diff_write(x->d, o, (lam_sink){show_put, NULL}, &e) != LAM_OK)
        fail_msg("%s: %s", e.where, e.text);
}

/* Sequential(gone, a, b), of which the first is only there before; a and b have so many parameters, a stride,
 * and MACs that are equal. */
static lam_model *of_sizes(const char *type, bool gone, int64_t a, int64_t b, int64_t stride) {
    net n = net_new();
    int32_t root = net_module(&n, type, 0), first = net_linear(&n, 4, 4), second = net_leaf(&n, "MaxPool2d");
    int32_t p = net_place(&n, -1, "", root);
    if (gone) net_place(&n, p, "gone", net_leaf(&n, "Tanh"));
    net_int(&n, second, "stride", stride);
    net_param(&n, first, "scale", SH(a));
    net_param(&n, second, "scale", SH(b));
    net_place(&n, p, "a", first);
    net_place(&n, p, "b", second);
    return called(&n, root, first, second);
}

/* The same on pages of any width: columns are left out one after the other. And other ones whole. */
static void on_pages_of_any_width(void **state) {
    (void)state;
    pair x = pair_of(with_attributes(false), with_attributes(true), "layers", "layers");
    (void)show_sink();
    for (int32_t wide = 20; wide < 130; wide += 6)
        write_more(&x, &(lam_diff_options){.rows = -1, .depth = -1, .width = wide});
    pair_free(&x);
    for (int k = 0; k < 4; k++) {
        const char *type = k ? "Sequential" : "Net";
        x = pair_of(of_sizes(type, k > 1, 3, 5, 1), of_sizes(type, false, k ? 4 : 3, 5 + 4 * k, 2 + k),
                    "layers", "layers");
        write_more(&x, &(lam_diff_options){.rows = -1, .depth = -1});
        write_more(&x, &(lam_diff_options){.format = "json", .rows = -1, .depth = -1});
        pair_free(&x);
    }
    show_golden("diff-pages", true);
}

static void equal_attributes(void **state) {
    (void)state;
    pair x = pair_of(with_attributes(true), with_attributes(true), "layers", "layers");
    assert_int_equal(lam_diff_modules(x.d), 0);
    pair_free(&x);
}

/* A report that was saved knows them as the model does. */
static void saved_attributes(void **state) {
    (void)state;
    static const char file[] = "test_report_diff_lines.json";
    for (int other = 0; other < 2; other++) {
        pair x = pair_of(with_attributes(other), with_attributes(true), "layers", "layers");
        lam_error e = {0};
        show_save(x.c[0], file);
        lam_diff_free(x.d);
        lam_diff_side a = {.file = file}, b = {.costs = x.c[1]};
        if (lam_diff_new(&x.d, &a, &b, &e) != LAM_OK) fail_msg("%s: %s", e.where, e.text);
        assert_int_equal(lam_diff_modules(x.d), other ? 0 : 2);
        written(&x, &(lam_diff_options){.rows = -1, .depth = -1, .width = 200});
        if (!other)
            show_has("    kernel_size 3x3 -> 5x5, padding 1x1 -> same, eps 1e-05 -> 1e-12, norm 2 -> inf, ");
        pair_free(&x);
    }
    remove(file);
}

/* Names are written by strangers. */
static void hostile_names(void **state) {
    (void)state;
    pair x = pair_of(small("N\x1b[2Jet", "a|b\x1b[31m", 3, false), small("N\x1b[2Jet", "<i>\n*x*", 3, false),
                     "layers", "layers");
    written(&x, NULL);
    show_lacks("\x1b");
    show_has("> a|b?[31m -> <i>?*x* (Linear)");
    written(&x, &(lam_diff_options){.format = "md", .rows = -1, .depth = -1});
    show_has("a\\|b?\\[31m -\\> \\<i\\>?\\*x\\* (Linear)");
    written(&x, &(lam_diff_options){.format = "json", .depth = -1});
    show_lacks("\x1b");
    show_has("\"path\": \"<i>\\u000a*x*\"");
    pair_free(&x);
}

static void usage(void **state) {
    (void)state;
    lam_error e = {0};
    lam_diff *d;
    lam_diff_side none = {0};
    assert_int_equal(lam_diff_new(&d, &none, &none, &e), LAM_USAGE);
    assert_null(d);
    lam_diff_free(NULL);
    pair x = pair_of(small("Net", "fc", 3, false), small("Net", "fc", 3, false), "layers", "layers");
    e = (lam_error){0};
    assert_int_equal(lam_diff_write(x.d, &(lam_diff_options){.format = "xml"}, show_sink(), &e), LAM_USAGE);
    assert_string_equal(e.text, "there is no format 'xml' for a difference; there are: text, md, json");
    e = (lam_error){0};
    assert_int_equal(lam_diff_write(x.d, &(lam_diff_options){.by = "speed"}, show_sink(), &e), LAM_USAGE);
    assert_non_null(strstr(e.text, "there is no metric 'speed'; there are: params"));
    assert_string_equal(lam_diff_metric(0), "params");
    assert_null(lam_diff_metric(-1));
    assert_null(lam_diff_metric(100));
    pair_free(&x);
}

/* -- numbers ------------------------------------------------------------------------------------------- */

static void delta_is(lam_count was, lam_count now, const char *wanted, const char *percent) {
    lmi_buf b;
    lmi_buf_init(&b);
    lmi_put_delta(&b, LMI_FIGURE_MACS, lmi_delta_of(was, now), false);
    assert_string_equal(lmi_buf_text(&b), wanted);
    lmi_buf_clear(&b);
    lmi_put_relative(&b, was, now);
    assert_string_equal(lmi_buf_text(&b), percent);
    lmi_buf_free(&b);
}

/* Of a lower bound the difference is a bound as well, and of two it is that of what is known. */
static void differences_of_bounds(void **state) {
    (void)state;
    delta_is(lmi_exact(5), lmi_exact(7), "+2", "+40%");
    delta_is(lmi_exact(7), lmi_exact(5), "-2", "-29%");
    delta_is(lmi_exact(5), lmi_exact(5), "0", "");
    delta_is(lmi_exact(0), lmi_exact(5), "+5", "new");
    delta_is(lmi_exact(5), lmi_exact(0), "-5", "gone");
    delta_is(lmi_exact(100000), lmi_exact(100001), "+1", "+0.00%");
    delta_is(lmi_exact(5), lmi_at_least(7), ">= +2", "");
    delta_is(lmi_at_least(5), lmi_exact(7), "<= +2", "");
    delta_is(lmi_at_least(5), lmi_at_least(7), "~ +2", "");
    delta_is(lmi_at_least(5), lmi_at_least(5), "~ 0", "");
    delta_is(lmi_unknown(), lmi_exact(7), "?", "");
    delta_is(lmi_exact(5), lmi_unknown(), "?", "");
    delta_is((lam_count){INT64_MAX, 1, LAM_EXACT}, lmi_exact(0), "-18.4 E", "gone");
    assert_true(lmi_is_same(lmi_at_least(5), lmi_at_least(5)));
    assert_false(lmi_is_same(lmi_exact(5), lmi_at_least(5)));
}

/* -- memory -------------------------------------------------------------------------------------------- */

static void write_both(void *arg, bool *ok) {
    lam_costs *const *c = arg;
    lam_error e = {0};
    lam_diff *d = NULL;
    lam_diff_side a = {.costs = c[0]}, b = {.costs = c[1]};
    lam_status s = lam_diff_new(&d, &a, &b, &e);
    static const char *const formats[] = {"text", "md", "json"};
    for (int i = 0; i < 3 && s == LAM_OK; i++)
        s = lam_diff_write(d, &(lam_diff_options){.format = formats[i], .rows = -1, .depth = -1}, show_sink(),
                           &e);
    lam_diff_free(d);
    *ok = oom_check(s, &e);
}

static void without_memory(void **state) {
    (void)state;
    pair x = pair_of(small("Net", "fc", 3, false), small("Net", "head", 5, true), "layers", "layers");
    oom_sweep(write_both, x.c);
    pair_free(&x);
    x = pair_of(with_attributes(false), with_attributes(true), "layers", "layers");
    oom_sweep(write_both, x.c);
    pair_free(&x);
}

/* A file of weights against a run: what the file does not know is no difference. */
static void weights_without_a_graph_have_no_shapes(void **state) {
    (void)state;
    for (int side = 0; side < 2; side++) {
        net n = net_new();
        const int32_t fc = net_linear(&n, 4, 2), root = net_module(&n, "Net", 0), act = net_leaf(&n, "ReLU");
        const int32_t p = net_place(&n, -1, "", root);
        net_place(&n, p, "act", act);
        net_place(&n, p, "fc", fc);
        NET_OK(&n, lam_build_described(n.b, "the file has weights alone", &n.e));
        lam_model *file = net_done(&n), *run = small("Net", "fc", 2, false);
        pair x = side ? pair_of(run, file, NULL, NULL) : pair_of(file, run, NULL, NULL);
        const char *text = written(&x, &(lam_diff_options){.width = 100});
        if (!strstr(text, " calls and no shapes, so they are not compared.")) fail_msg("%s", text);
        if (!strstr(text, "Nothing differs: 3 modules are equal.")) fail_msg("%s", text);
        pair_free(&x);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_differs),
        cmocka_unit_test(a_side_whose_small_modules_are_compared_together_is_named),
        cmocka_unit_test(a_changed_layer),
        cmocka_unit_test(a_renamed_block_with_a_change),
        cmocka_unit_test(a_renamed_layer),
        cmocka_unit_test(a_layer_for_another),
        cmocka_unit_test(another_convention),
        cmocka_unit_test(how_parameters_are_stored),
        cmocka_unit_test(another_mode),
        cmocka_unit_test(attributes_that_differ),
        cmocka_unit_test(equal_attributes),
        cmocka_unit_test(on_pages_of_any_width),
        cmocka_unit_test(saved_attributes),
        cmocka_unit_test(hostile_names),
        cmocka_unit_test(usage),
        cmocka_unit_test(differences_of_bounds),
        cmocka_unit_test(without_memory),
        cmocka_unit_test(weights_without_a_graph_have_no_shapes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
