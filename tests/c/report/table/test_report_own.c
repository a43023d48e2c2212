/* SPDX-License-Identifier: Apache-2.0
 *
 * Our own table: what it says, that it is never wider than asked, that colours change nothing, that depth
 * is no danger. Transcripts: tests/data/report/own-*.txt. */
#include "kit/oom.h"

#include "base/base.h"
#include "kit/chains.h"
#include "kit/show.h"

/* Blocks of a user's own class, `n` of them equal but the last where `odd`; each calls its activation
 * twice. */
static void blocks(net *n, int32_t parent, int32_t call, int count, bool odd) {
    for (int i = 0; i < count; i++) {
        char name[24];
        snprintf(name, sizeof name, "%d", i);
        int32_t block = net_module(n, "Block", 0), fc = net_linear(n, 4, odd && i == count - 1 ? 5 : 4);
        int32_t act = net_leaf(n, "ReLU"), p = net_place(n, parent, name, block);
        int64_t out = odd && i == count - 1 ? 5 : 4;
        net_bool(n, act, "inplace", false);
        net_place(n, p, "fc", fc);
        net_place(n, p, "act", act);
        int32_t c = net_call(n, block, call, SH(1, 4), 0, SH(1, out), 0);
        net_call(n, fc, c, SH(1, 4), 0, SH(1, out), 0);
        net_call(n, act, c, SH(1, out), 0, SH(1, out), 0);
        net_call(n, act, c, SH(1, out), 0, SH(1, out), 0);
    }
}

/* One of everything: folded blocks, a tied weight, a module in two places, a layer without a rule, one
 * never called, parameters of the root's own, a note. */
static lam_model *zoo(void) {
    net n = net_new();
    int32_t root = net_module(&n, "Net", 0), seq = net_module(&n, "Sequential", 0),
            enc = net_linear(&n, 4, 4);
    int32_t dec = net_leaf(&n, "Linear"), odd = net_module(&n, "Mystery", LAM_MODULE_LEAF),
            aux = net_linear(&n, 9, 9);
    int32_t norm = net_leaf(&n, "BatchNorm1d");
    net_owns(&n, dec, "weight", 0);
    net_param(&n, dec, "bias", SH(4));
    net_int(&n, dec, "in_features", 4);
    net_int(&n, dec, "out_features", 4);
    net_param(&n, root, "token", SH(1, 4));
    net_param(&n, odd, "gate", SH(3));
    net_int(&n, norm, "num_features", 4);
    net_param(&n, norm, "weight", SH(4));
    net_param(&n, norm, "bias", SH(4));
    net_buffer(&n, norm, "running_mean", SH(4));
    net_buffer(&n, norm, "running_var", SH(4));
    int32_t p = net_place(&n, -1, "", root);
    net_place(&n, p, "enc", enc);
    int32_t ps = net_place(&n, p, "blocks", seq);
    int32_t r = net_call(&n, root, -1, SH(1, 4), 0, SH(1, 4), 0);
    net_call(&n, enc, r, SH(1, 4), 0, SH(1, 4), 0);
    int32_t cs = net_call(&n, seq, r, SH(1, 4), 0, SH(1, 4), 0);
    blocks(&n, ps, cs, 4, false);
    net_place(&n, p, "norm", norm);
    net_place(&n, p, "again", enc);
    net_place(&n, p, "dec", dec);
    net_place(&n, p, "odd", odd);
    net_place(&n, p, "aux", aux);
    net_call(&n, norm, r, SH(1, 4), 0, SH(1, 4), 0);
    net_call(&n, enc, r, SH(1, 4), 0, SH(1, 4), 0);
    net_call(&n, odd, r, SH(1, 4), 0, SH(1, 4), 0);
    net_call(&n, dec, r, SH(1, 4), 0, SH(1, 4), 0);
    NET_OK(&n, lam_build_note(n.b, "this is a note of the source's", &n.e));
    return net_done(&n);
}

static void golden(lam_model *m, const char *name, lam_report_options o) {
    lam_costs *c = net_costs(m, NULL, false);
    show(c, &o);
    show_golden(name, true);
    lam_costs_free(c);
    lam_model_free(m);
}

static void transcripts(void **state) {
    (void)state;
    lam_report_options o = show_options(NULL, NULL);
    golden(zoo(), "own-zoo", o);
    o.width = 80;
    o.exact = o.ascii = o.expand = true;
    golden(zoo(), "own-zoo-80-exact-ascii-expand", o);
    o = show_options(NULL, NULL);
    o.width = 40;
    golden(zoo(), "own-zoo-40", o);
    o.width = 20;
    golden(zoo(), "own-zoo-20", o);
    o.width = 100;
    o.max_depth = 1;
    golden(zoo(), "own-zoo-depth1", o);
    o.max_depth = -1;
    o.receptive_field = true;
    golden(chain_nested(), "own-nested-rf", o);
    golden(chain_leaf_root(), "own-leaf-root", show_options(NULL, NULL));
    golden(zoo(), "own-zoo-md", show_options(NULL, "md"));
    golden(zoo(), "own-zoo-json", show_options(NULL, "json"));
    golden(zoo(), "own-zoo-csv", show_options(NULL, "csv"));
}

static void other_conventions(void **state) {
    (void)state;
    lam_model *m = zoo();
    lam_costs *c = net_costs(m, "thoplw", false), *s = net_costs(m, "torchscan", false);
    lam_report_options o = show_options(NULL, NULL);
    show(c, &o);
    show_golden("own-zoo-thoplw", true);
    show(s, &o);
    show_golden("own-zoo-torchscan", true);
    lam_costs_free(c);
    lam_costs_free(s);
    lam_model_free(m);
}

static bool has(const char *text) { return strstr(shown, text) != NULL; }

/* Of what there is much, five are told and the others counted. */
static void many_of_everything(void **state) {
    (void)state;
    net n = net_new();
    lam_arg in[8] = {{NULL, 0, -1, -1, -1, NULL, 0, 0, 0}};
    int32_t root = net_module(&n, "Net", 0), first = net_linear(&n, 4, 4), p = net_place(&n, -1, "", root), c;
    for (int i = 1; i < 8; i++) in[i] = (lam_arg){"mask", -1, 11, 1, 0, NULL, 0, 0, 0};
    lam_call_info call = {.module = root, .parent = -1, .flags = LAM_CALL_TRAINING, .n_in = 8, .in = in};
    NET_OK(&n, lam_build_call(n.b, &call, &c, &n.e));
    net_place(&n, p, "first", first);
    net_call(&n, first, c, SH(1, 4), 0, SH(1, 4), 0);
    for (int i = 0; i < 7; i++) {
        static const char *const types[] = {"Aa", "Bb", "Cc", "Dd", "Ee", "Ff", "Gg"};
        int32_t m = net_module(&n, types[i], LAM_MODULE_LEAF);
        net_place(&n, p, types[i], m);
        net_owns(&n, m, "weight", 0);
        net_owns(&n, m, "bias", 1);
        net_call(&n, m, c, SH(1, 4), 0, SH(1, 4), 0);
    }
    lam_model *m = net_done(&n);
    lam_costs *costs = net_costs(m, NULL, false);
    show(costs, NULL);
    assert_true(has("Net    input ? \u00b7 input mask () bool cuda \u00b7 input mask () bool cuda"));
    assert_true(has(" \u00b7 3 other inputs \u00b7 train mode \u00b7 convention layers\n"));
    assert_true(has("Aa (Aa) tied to first.weight +1  1x4"));
    assert_true(
        has("\nincomplete 7 of 8 layers have no rule: Aa (1), Bb (1), Cc (1) and 4 more; work outside"));
    assert_true(has("; why=True lists every reason\n"));
    assert_false(has("tied: ") || has("no rule for Dd"));
    assert_true(has("\nNet  ") && has("   ?  ")); /* a root that returned no tensor */
    lam_report_options o = show_options(NULL, NULL);
    o.why = o.command = true;
    show(costs, &o);
    assert_true(has("-c exact counts it\n"));
    assert_true(has("\ntied       Aa.weight is first.weight, counted once\n           Aa.bias"));
    assert_true(has("\n           Gg.bias is first.bias, counted once\nwhy        "));
    assert_true(has("\n           no rule for Gg (1 call); the convention `exact` counts it\n"));
    assert_false(has("lists every reason"));
    lam_costs_free(costs);
    lam_model_free(m);
}

/* Of several results the first one's shape is shown, and how many there are besides. */
static void several_results(void **state) {
    (void)state;
    for (int results = 1; results < 4; results++) {
        static const char *const said[] = {"", "  2x3  ", "  2x3 +1  ", "  2x3 +2  "};
        net n = net_new();
        int32_t root = net_leaf(&n, "Mine"), call;
        net_place(&n, -1, "", root);
        const lam_arg one = {.dtype = NET_FLOAT32, .ndim = 2, .sizes = (const int64_t[]){2, 3}};
        const lam_arg out[] = {one, {.dtype = NET_FLOAT32, .ndim = 0}, one};
        const lam_call_info info = {
            .module = root, .parent = -1, .n_in = 1, .in = &one, .n_out = results, .out = out};
        NET_OK(&n, lam_build_call(n.b, &info, &call, &n.e));
        lam_model *m = net_done(&n);
        lam_costs *costs = net_costs(m, NULL, false);
        show(costs, NULL);
        assert_true(has(said[results]));
        lam_costs_free(costs);
        lam_model_free(m);
    }
}

/* A model whose only work has no rule: nothing is known, and nothing is 0. */
static void nothing_known(void **state) {
    (void)state;
    net n = net_new();
    int32_t root = net_module(&n, "Mystery", LAM_MODULE_LEAF);
    lam_tensor_info lazy = {.dtype = NET_FLOAT32, .ndim = -1, .bytes = -1};
    int32_t t;
    NET_OK(&n, lam_build_tensor(n.b, &lazy, &t, &n.e));
    net_owns(&n, root, "weight", t);
    net_place(&n, -1, "", root);
    net_call(&n, root, -1, SH(1, 4), 0, SH(1, 4), 0);
    lam_model *m = net_done(&n);
    lam_costs *c = net_costs(m, NULL, false);
    show(c, NULL);
    assert_true(has("\nMystery  1x4          ?     ?  ?      ?\n"));
    assert_true(has("\n           MACs not known \u00b7 FLOPs not known (1 MAC"));
    assert_true(has("\ntotal      ? parameters (?)"));
    lam_costs_free(c);
    lam_model_free(m);
}

/* -- folding ------------------------------------------------------------------------------------------- */

static void blocks_only(int count, bool odd, bool expand, int32_t depth) {
    net n = net_new();
    int32_t root = net_module(&n, "Sequential", 0), p = net_place(&n, -1, "", root);
    int32_t r = net_call(&n, root, -1, SH(1, 4), 0, SH(1, 4), 0);
    blocks(&n, p, r, count, odd);
    lam_model *m = net_done(&n);
    lam_costs *c = net_costs(m, NULL, false);
    lam_report_options o = show_options(NULL, NULL);
    o.expand = expand;
    o.exact = true;
    o.max_depth = depth;
    show(c, &o);
    lam_costs_free(c);
    lam_model_free(m);
}

/* A line's numbers are those of each that it stands for. */
static void folding(void **state) {
    (void)state;
    blocks_only(12, false, false, -1);
    assert_true(has("0..11 x12 (Block)        1x4         20   >= 16    8.3   >= 40  each\n"));
    assert_true(has("fc (Linear)           1x4         20      16    8.3      32\n"));
    assert_true(has("act (ReLU) (2 calls)  1x4          0       0    0.0       8\n"));
    blocks_only(3, true, false, -1);
    assert_true(has("0..1 x2 (Block)"));
    assert_true(has(" 2 (Block)"));
    blocks_only(3, false, true, -1);
    assert_false(has(" x"));
    assert_true(has(" 1 (Block)"));
    blocks_only(3, false, false, 1);
    assert_true(has("0..2 x3 (Block)"));
    assert_false(has("fc (Linear)"));
    blocks_only(3, false, false, 0);
    assert_false(has("Block)"));
}

/* Of a parameter that the root has too, the root is the first owner. */
static void tied_to_the_root(void **state) {
    (void)state;
    net n = net_new();
    int32_t root = net_linear(&n, 4, 4), fc = net_leaf(&n, "Mine"), p = net_place(&n, -1, "", root);
    net_place(&n, p, "fc", fc);
    net_owns(&n, fc, "weight", 0);
    net_call(&n, fc, net_call(&n, root, -1, SH(1, 4), 0, SH(1, 4), 0), SH(1, 4), 0, SH(1, 4), 0);
    lam_model *m = net_done(&n);
    lam_costs *c = net_costs(m, NULL, false);
    show(c, NULL);
    assert_true(has("fc (Mine) tied to weight "));
    lam_costs_free(c);
    lam_model_free(m);
}

/* Only neighbours with consecutive numbers are one line, whatever their names start with. */
static void fold_names(void **state) {
    (void)state;
    static const char *const names[] = {"conv9", "conv10", "conv12", "x",  "y",   "z",
                                        "z1",    "02",     "03",     "99", "100", "7777777"};
    net n = net_new();
    int32_t root = net_module(&n, "Sequential", 0), p = net_place(&n, -1, "", root);
    int32_t r = net_call(&n, root, -1, SH(1, 4), 0, SH(1, 4), 0);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        int32_t act = net_leaf(&n, "Tanh");
        net_place(&n, p, names[i], act);
        net_call(&n, act, r, SH(1, 4), 0, SH(1, 4), 0);
    }
    lam_model *m = net_done(&n);
    lam_costs *c = net_costs(m, NULL, false);
    show(c, NULL);
    assert_true(has(" conv9..10 x2 (Tanh)"));
    assert_true(has(" conv12 (Tanh)"));
    assert_true(has(" x (Tanh)"));
    assert_true(has(" y (Tanh)"));
    assert_true(has(" z (Tanh)") && has(" z1 (Tanh)"));
    assert_true(has(" 02..03 x2 (Tanh)"));
    assert_true(has(" 99..100 x2 (Tanh)"));
    assert_true(has(" 7777777 (Tanh)"));
    lam_costs_free(c);
    lam_model_free(m);
}

/* -- width and colour ---------------------------------------------------------------------------------- */

/* Long, wide, combining, hostile and broken names in a tree some levels deep, and long sentences. */
static lam_model *nasty(void) {
    static const char *const names[] = {
        "a_name_that_is_longer_than_any_column_should_ever_be_and_then_some_more_of_it_until_it_is_really_"
        "long",
        "\u5c42\u5c42\u5c42\u5c42\u5c42\u5c42\u5c42\u5c42\u5c42\u5c42\u5c42\u5c42\u5c42",
        "e\u0301e\u0301e\u0301e\u0301e\u0301",
        "\x1b[31mred\x1b[0m\r\n\t",
        "broken\xff\xc3",
        "\xf0\x9f\x94\xa5\xf0\x9f\x94\xa5",
        "|pipe|",
        "<b>&\"'",
        "0",
        "1",
    };
    net n = net_new();
    int32_t root = net_module(&n, "\u6a21\u578b_with_a_rather_long_class_name_\u6a21\u578b", 0);
    int32_t p = net_place(&n, -1, "", root), r = net_call(&n, root, -1, SH(1, 4), 0, SH(1, 4), 0);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        int32_t box = net_module(&n, "Sequential", 0), leaf = net_module(&n, names[i], LAM_MODULE_LEAF);
        p = net_place(&n, p, names[i], box);
        r = net_call(&n, box, r, SH(1, 4), 0, SH(1, 4), 0);
        net_place(&n, p, names[(i + 3) % 10], leaf);
        net_call(&n, leaf, r, SH(1, 4), 0, SH(123456, 234567, 345678, 456789, 567890, 678901), 0);
    }
    NET_OK(&n, lam_build_note(
                   n.b,
                   "a\u5c42 note with_a_word_that_is_much_longer_than_the_narrowest_page_allows_it_to_be "
                   "\u5c42\u5c42\u5c42\u5c42\u5c42\u5c42\u5c42\u5c42\u5c42\u5c42\u5c42",
                   &n.e));
    return net_done(&n);
}

static void check_width(const char *text, size_t width) {
    for (const char *line = text; *line;) {
        char copy[8192];
        size_t n = strcspn(line, "\n");
        assert_true(n < sizeof copy);
        memcpy(copy, line, n);
        copy[n] = '\0';
        if (lmi_width(copy) > width)
            fail_msg("%d columns, not %d: '%s'", (int)lmi_width(copy), (int)width, copy);
        if (n > 0 && copy[n - 1] == ' ') fail_msg("a line ends in a space: '%s'", copy);
        line += n + (line[n] == '\n');
    }
}

static void never_wider(void **state) {
    (void)state;
    lam_model *models[] = {nasty(), zoo(), chain_long_names()};
    for (size_t k = 0; k < 3; k++) {
        lam_costs *c = net_costs(models[k], NULL, false);
        for (int flags = 0; flags < 8; flags++) {
            lam_report_options o = show_options(NULL, NULL);
            o.ascii = flags & 1;
            o.exact = flags & 2;
            o.receptive_field = o.expand = flags & 4;
            for (o.width = 8; o.width <= 200; o.width++) check_width(show(c, &o), (size_t)o.width);
        }
        lam_costs_free(c);
        lam_model_free(models[k]);
    }
}

/* Names of values come from a command line. */
static void how_inputs_were_made_up_is_told(void **state) {
    (void)state;
    net n = net_new();
    int32_t root = net_module(&n, "Net", LAM_MODULE_LEAF);
    net_place(&n, -1, "", root);
    net_call(&n, root, -1, SH(1, 4), 0, SH(1, 4), 0);
    NET_OK(&n, lam_build_input_origin(n.b, "all \"5\"\x1b", &n.e));
    NET_OK(&n, lam_build_input_origin(n.b, "zeros", &n.e));
    lam_model *m = net_done(&n);
    lam_costs *c = net_costs(m, NULL, false);
    lam_report_options text = show_options(NULL, NULL), json = show_options(NULL, "json");
    assert_non_null(strstr(show(c, &text), "input 1x4 float32 all \"5\"? \u00b7 cpu"));
    assert_non_null(strstr(show(c, &json), "\"made_up\": [\"all \\\"5\\\"\\u001b\", \"zeros\"],\n\"notes\""));
    lam_costs_free(c);
    lam_model_free(m);
}

/* The place of the model has its text as a user typed it. */
static void provenance_is_told_in_json(void **state) {
    (void)state;
    net n = net_new();
    int32_t root = net_module(&n, "Net", LAM_MODULE_LEAF);
    net_place(&n, -1, "", root);
    net_call(&n, root, -1, SH(1, 4), 0, SH(1, 4), 0);
    NET_OK(&n, lam_build_provenance(n.b, "target", "net.py:\"x\"", &n.e));
    NET_OK(&n, lam_build_provenance(n.b, "dry", "no", &n.e));
    lam_model *m = net_done(&n);
    lam_costs *c = net_costs(m, NULL, false);
    lam_report_options json = show_options(NULL, "json");
    assert_non_null(strstr(show(c, &json),
                           "\"calls\": 1},\n\"provenance\": {\"target\": \"net.py:\\\"x\\\"\", "
                           "\"dry\": \"no\"},\n\"totals\""));
    lam_costs_free(c);
    lam_model_free(m);
}

static void ascii_is_ascii(void **state) {
    (void)state;
    lam_model *m = zoo();
    lam_costs *c = net_costs(m, NULL, false);
    lam_report_options o = show_options(NULL, NULL);
    o.ascii = true;
    for (o.width = 20; o.width <= 120; o.width += 10) {
        show(c, &o);
        for (size_t i = 0; i < shown_n; i++) assert_true((unsigned char)shown[i] < 0x80);
    }
    lam_costs_free(c);
    lam_model_free(m);
}

/* Removes "ESC [ digits m" in place; any other escape is left, and found by the comparison. */
static void strip(char *s) {
    char *to = s;
    for (; *s; s++) {
        if (s[0] == '\x1b' && s[1] == '[') {
            s += 2 + strspn(s + 2, "0123456789;");
            assert_int_equal(*s, 'm');
        } else {
            *to++ = *s;
        }
    }
    *to = '\0';
}

static void colour_changes_nothing(void **state) {
    (void)state;
    static char plain[sizeof shown];
    lam_model *models[] = {nasty(), zoo(), chain_nested()};
    for (size_t k = 0; k < 3; k++) {
        lam_costs *c = net_costs(models[k], NULL, false);
        lam_report_options o = show_options(NULL, NULL);
        for (o.width = 8; o.width <= 200; o.width += 4) {
            o.color = o.bars = false;
            show(c, &o);
            assert_null(strchr(shown, '\x1b'));
            memcpy(plain, shown, shown_n + 1);
            o.color = o.bars = true;
            show(c, &o);
            assert_non_null(strchr(shown, '\x1b'));
            strip(shown);
            assert_string_equal(shown, plain);
        }
        lam_costs_free(c);
        lam_model_free(models[k]);
    }
}

/* -- depth, memory, sinks ------------------------------------------------------------------------------ */

static lam_model *deep(int levels) {
    net n = net_new();
    int32_t p = -1, r = -1;
    for (int i = 0; i < levels; i++) {
        int32_t box = net_module(&n, "Sequential", 0);
        p = net_place(&n, p, i ? "i" : "", box);
        r = net_call(&n, box, r, SH(1, 4), 0, SH(1, 4), 0);
    }
    int32_t leaf = net_leaf(&n, "Tanh");
    net_place(&n, p, "leaf", leaf);
    net_call(&n, leaf, r, SH(1, 4), 0, SH(1, 4), 0);
    return net_done(&n);
}

static const char *const forms[] = {"text", "md", "json", "html", "csv"};
enum { N_FORMS = sizeof forms / sizeof *forms };

static lam_status count_bytes(void *to, const char *bytes, size_t n) {
    (void)bytes;
    *(size_t *)to += n;
    return LAM_OK;
}

static void ten_thousand_levels(void **state) {
    (void)state;
    lam_model *m = deep(10000);
    lam_costs *c = net_costs(m, NULL, false);
    for (size_t i = 0; i < 4; i++) {
        lam_report_options o = show_options(NULL, forms[i]);
        size_t bytes = 0;
        lam_error e = {0};
        if (i == 2) continue; /* the paths alone of such a model take 100 MB as data */
        assert_int_equal(lam_report_write(c, &o, (lam_sink){count_bytes, &bytes}, &e), LAM_OK);
        assert_true(bytes > 10000);
    }
    lam_costs_free(c);
    lam_model_free(m);
}

static void write_once(void *arg, bool *ok) {
    lam_report_options o = show_options(NULL, NULL);
    const lam_costs *c = arg;
    for (size_t i = 0; i < N_FORMS; i++) {
        lam_error e = {0};
        o.format = forms[i];
        o.color = o.receptive_field = true;
        lam_status s = lam_report_write(c, &o, show_sink(), &e);
        if (s == LAM_OK) continue;
        assert_int_equal(s, LAM_NOMEM);
        assert_int_equal(e.status, LAM_NOMEM);
        assert_true(e.text[0]);
        *ok = false;
        return;
    }
    *ok = true;
}

static void no_memory(void **state) {
    (void)state;
    lam_model *m = zoo();
    lam_costs *c = net_costs(m, NULL, false);
    oom_sweep(write_once, c);
    lam_costs_free(c);
    lam_model_free(m);
}

static lam_status refuse_after(void *to, const char *bytes, size_t n) {
    int *left = to;
    (void)bytes;
    (void)n;
    return (*left)-- > 0 ? LAM_OK : LAM_IO;
}

/* A sink may refuse at any piece; text leaves in pieces, so a large report meets several. */
static void sinks_refuse(void **state) {
    (void)state;
    lam_model *m = deep(900), *small_model = chain_nested();
    lam_costs *c = net_costs(m, NULL, false), *small = net_costs(small_model, NULL, false);
    for (size_t i = 0; i < N_FORMS; i++) {
        lam_report_options o = show_options(NULL, forms[i]);
        int left = 0;
        lam_error e = {0};
        assert_int_equal(lam_report_write(small, &o, (lam_sink){refuse_after, &left}, &e), LAM_IO);
        assert_int_equal(e.status, LAM_IO);
        assert_true(e.text[0]);
        left = 1;
        assert_int_equal(lam_report_write(small, &o, (lam_sink){refuse_after, &left}, &e), LAM_OK);
        left = 1;
        show(c, &o);
        size_t bytes = shown_n;
        lam_status s = lam_report_write(c, &o, (lam_sink){refuse_after, &left}, &e);
        bool page = strcmp(forms[i], "html") == 0; /* most of it is its script, which leaves in one piece */
        assert_int_equal(s, bytes > (70 << 10) && !page ? LAM_IO : LAM_OK);
    }
    lam_costs_free(c);
    lam_costs_free(small);
    lam_model_free(m);
    lam_model_free(small_model);
}

/* A model of which nothing was called. */
static void nothing_called(void **state) {
    (void)state;
    net n = net_new();
    int32_t fc = net_linear(&n, 4, 4);
    net_place(&n, -1, "", fc);
    lam_model *m = net_done(&n);
    lam_costs *c = net_costs(m, NULL, false);
    for (size_t i = 0; i < N_FORMS; i++) {
        lam_report_options o = show_options(NULL, forms[i]);
        assert_true(strlen(show(c, &o)) > 0);
    }
    show(c, NULL);
    assert_true(has("Linear [never called]"));
    for (int32_t row = -1; row <= 1; row++) {
        lam_error e = {0};
        lam_status s = lam_why_write(c, row, true, true, show_sink(), &e);
        assert_int_equal(s, row == 0 ? LAM_OK : LAM_RANGE);
        assert_int_equal(shown_n != 0, row == 0);
    }
    lam_costs_free(c);
    lam_model_free(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(transcripts),
        cmocka_unit_test(other_conventions),
        cmocka_unit_test(folding),
        cmocka_unit_test(fold_names),
        cmocka_unit_test(tied_to_the_root),
        cmocka_unit_test(never_wider),
        cmocka_unit_test(how_inputs_were_made_up_is_told),
        cmocka_unit_test(provenance_is_told_in_json),
        cmocka_unit_test(ascii_is_ascii),
        cmocka_unit_test(colour_changes_nothing),
        cmocka_unit_test(ten_thousand_levels),
        cmocka_unit_test(no_memory),
        cmocka_unit_test(sinks_refuse),
        cmocka_unit_test(nothing_called),
        cmocka_unit_test(many_of_everything),
        cmocka_unit_test(several_results),
        cmocka_unit_test(nothing_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
