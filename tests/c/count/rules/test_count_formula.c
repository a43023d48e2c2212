/* SPDX-License-Identifier: Apache-2.0
 * Formulas: what they compute, where they are wrong, and that every one in every table can be read. */
#include "count/count.h"
#include "kit/oom.h"

#include <time.h>

static const char *const names[] = {"a", "b", "x0", "zero", "large", "huge", "low"};
static const int64_t values[] = {7, 3, 5, 0, INT64_C(4000000000), INT64_MAX, -9};
enum { N_NAMES = sizeof names / sizeof *names };

static lam_count eval(const char *text) {
    lam_count c = {.n = 99, .over = 9};
    lam_error e = {0};
    if (lam_formula_eval(text, names, values, N_NAMES, &c, &e) != LAM_OK) fail_msg("'%s': %s", text, e.text);
    return c;
}

static void gives(const char *text, int64_t want) {
    lam_count c = eval(text);
    if (c.state != LAM_EXACT || c.n != want || c.over)
        fail_msg("'%s' gives %lld (%s), not %lld", text, (long long)c.n, lam_state_name(c.state),
                 (long long)want);
}

static void unknown(const char *text) {
    lam_count c = eval(text);
    if (c.state != LAM_UNKNOWN || c.n)
        fail_msg("'%s' gives %lld (%s)", text, (long long)c.n, lam_state_name(c.state));
}

static void bounds(void **state) {
    (void)state;
    static const char *const texts[] = {"least(12)",         "least(a)+5",
                                        "2*least(6)",        "zero ? 1 : least(12)",
                                        "max(least(3), 12)", "least(least(12))"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        lam_count c = eval(texts[i]);
        if (c.state != LAM_AT_LEAST || c.n != 12)
            fail_msg("'%s' gives %lld (%s)", texts[i], (long long)c.n, lam_state_name(c.state));
    }
    gives("a ? 1 : least(12)", 1); /* what is not taken says nothing */
    unknown("least(nobody)");
    unknown("least(12)/0");
    lam_count c;
    lam_error e = {0};
    assert_int_equal(lam_formula_eval("least(1, 2)", names, values, N_NAMES, &c, &e), LAM_SYNTAX);
}

static void arithmetic(void **state) {
    (void)state;
    gives("0", 0);
    gives(" 12 ", 12);
    gives("a+b*2", 13);
    gives("(a+b)*2", 20);
    gives("a-b-1", 3);
    gives("a\t- -b", 10);
    gives("--a", 7);
    gives("---a", -7);
    gives("-(a+b)", -10);
    gives("-a*b", -21);
    gives("x0*x0", 25);
    gives("min(a, b)+max(a,b)*10", 73);
    gives("min(b,a)", 3);
    gives("max(b,a)", 7);
    gives("min(1, min(2, -3))", -3);
    gives("9223372036854775807", INT64_MAX);
    gives("-9223372036854775807-1", INT64_MIN);
}

/* Python's //, which the recorded tools use. */
static void floor_division(void **state) {
    (void)state;
    gives("a/b", 2);
    gives("6/b", 2);
    gives("-a/b", -3);
    gives("a/-b", -3);
    gives("-a/-b", 2);
    gives("-6/b", -2);
    gives("0/-b", 0);
    gives("100/10/5", 2);
    gives("100/(10/5)", 50);
}

static void comparisons(void **state) {
    (void)state;
    gives("a<b", 0);
    gives("b<a", 1);
    gives("a<=7", 1);
    gives("a<=6", 0);
    gives("a>b", 1);
    gives("a>=8", 0);
    gives("a>=7", 1);
    gives("a==7", 1);
    gives("a!=7", 0);
    gives("a!=8", 1);
    gives("(a>b)+(a<b)", 1);
    gives("a+1 > b*2 ? 10 : 20", 10);
}

static void choices(void **state) {
    (void)state;
    gives("a ? 1 : 2", 1);
    gives("zero ? 1 : 2", 2);
    gives("low ? 1 : 2", 1);
    gives("zero ? 1 : zero ? 2 : 3", 3);
    gives("a ? zero ? 1 : 2 : 3", 2);
    gives("(zero ? 1 : 2) + 10", 12);
    gives("1 + (a ? 2 : 3) * 4", 9);
    gives("min(a ? 5 : 6, zero ? 1 : 4)", 4);
}

/* Unknown is never 0, and what is not taken does not matter. */
static void unknowns(void **state) {
    (void)state;
    unknown("unknown");
    unknown("0*unknown");
    unknown("nobody");
    unknown("0*nobody+1");
    unknown("min(1, unknown)");
    unknown("unknown ? 1 : 1");
    unknown("a ? unknown : 1");
    gives("a ? 1 : unknown", 1);
    gives("zero ? nobody : 4", 4);
    gives("zero ? 1/0 : 4", 4);
    gives("zero ? huge+1 : 4", 4);
    unknown("a/0");
    unknown("a/zero");
}

/* Its value is over * 2^63 + n. */
static void gives_large(const char *text, uint32_t over, int64_t n, lam_state state) {
    lam_count c = eval(text);
    if (c.state != state || c.n != n || c.over != over)
        fail_msg("'%s' gives %u * 2^63 + %lld (%s)", text, (unsigned)c.over, (long long)c.n,
                 lam_state_name(c.state));
}

static void large_numbers(void **state) {
    (void)state;
    gives("large*2000000000", INT64_C(8000000000000000000));
    gives_large("2097152*2097152*2097152", 1, 0, LAM_EXACT);
    gives_large("2*2097152*2097152*2097152 + 5", 2, 5, LAM_EXACT);
    gives_large("large*large", 1, INT64_C(6776627963145224192), LAM_EXACT);
    gives_large("huge+1", 1, 0, LAM_EXACT);
    gives_large("-(-huge-1)", 1, 0, LAM_EXACT);
    gives_large("(-huge-1)/-1", 1, 0, LAM_EXACT);
    gives_large("least(huge+1)", 1, 0, LAM_AT_LEAST);
    gives_large("(huge+1)*4294967295", UINT32_MAX, 0, LAM_EXACT);
    gives_large("(huge+1)*4294967295 + huge", UINT32_MAX, INT64_MAX, LAM_EXACT);
    unknown("(huge+1)*4294967295 + huge + 1");
    unknown("(huge+1)*4294967296");
    unknown("huge*huge");
    unknown("-huge-2");
    unknown("huge*-2");
    gives("-huge-2 < 0", 1);
    gives("large*large/large", INT64_C(4000000000));
    gives("(-huge-1)/1", INT64_MIN);
    gives("huge-huge+1", 1);
}

/* Each text fails at the byte under the caret. */
static void bad(const char *text, lam_status status, int64_t at, const char *part) {
    lam_count c = {.n = 5, .state = LAM_EXACT};
    lam_error e = {0};
    lam_status got = lam_formula_eval(text, names, values, N_NAMES, &c, &e);
    if (got != status || e.status != status || e.at != at || !strstr(e.text, part))
        fail_msg("'%.60s': %s at %lld: %s", text, lam_status_name(got), (long long)e.at, e.text);
    assert_int_equal(c.state, LAM_UNKNOWN);
    assert_int_equal(c.n, 0);
    assert_int_equal(lam_formula_eval(text, names, values, N_NAMES, &c, NULL), status);
}

static void mistakes(void **state) {
    (void)state;
    bad("", LAM_SYNTAX, 0, "expected a number, a name or '('");
    bad("  ", LAM_SYNTAX, 2, "expected a number");
    bad("a+", LAM_SYNTAX, 2, "expected a number");
    /*   ^ */
    bad("a+*b", LAM_SYNTAX, 2, "expected a number");
    bad("(a", LAM_SYNTAX, 2, "expected ')'");
    bad("a)", LAM_SYNTAX, 1, "expected an operator or the end");
    bad("a b", LAM_SYNTAX, 2, "expected an operator or the end");
    bad("a ? b", LAM_SYNTAX, 5, "expected ':'");
    bad("a ? : b", LAM_SYNTAX, 4, "expected a number");
    bad("a ? b : ", LAM_SYNTAX, 8, "expected a number");
    bad("a : b", LAM_SYNTAX, 2, "expected an operator or the end");
    bad("a < b < 3", LAM_SYNTAX, 6, "expected an operator or the end");
    bad("a < ", LAM_SYNTAX, 4, "expected a number");
    bad("a = b", LAM_SYNTAX, 2, "expected an operator or the end");
    bad("min(a b)", LAM_SYNTAX, 6, "expected ','");
    bad("min(a, b", LAM_SYNTAX, 8, "expected ')'");
    bad("min(a, )", LAM_SYNTAX, 7, "expected a number");
    bad("max(, b)", LAM_SYNTAX, 4, "expected a number");
    bad("max a", LAM_SYNTAX, 4, "expected '('");
    bad("3a", LAM_SYNTAX, 1, "expected an operator after the number");
    bad("1+9223372036854775808", LAM_SYNTAX, 2, "does not fit");
    bad("99999999999999999999999", LAM_SYNTAX, 0, "does not fit");
    bad("a % b", LAM_SYNTAX, 2, "expected an operator or the end");
    bad("a/ ", LAM_SYNTAX, 3, "expected a number");
    bad("-", LAM_SYNTAX, 1, "expected a number");
    bad("\xc3\xa9", LAM_SYNTAX, 0, "expected a number");
    lam_error e = {0};
    lam_count c;
    assert_int_equal(lam_formula_eval(NULL, names, values, N_NAMES, &c, &e), LAM_USAGE);
    assert_int_not_equal(e.text[0], 0);
}

/* n copies of `open`, then `middle`, then n of `shut`. */
static const char *nested(char *text, int n, const char *open, const char *middle, const char *shut) {
    text[0] = 0;
    for (int i = 0; i < n; i++) strcat(text, open);
    strcat(text, middle);
    for (int i = 0; i < n; i++) strcat(text, shut);
    return text;
}

static void limits(void **state) {
    static char text[100000];
    (void)state;
    gives(nested(text, 63, "(", "a", ")"), 7);
    bad(nested(text, 64, "(", "a", ")"), LAM_LIMIT, 64, "nested");
    bad(nested(text, 9999, "(", "a", ")"), LAM_LIMIT, 64, "nested");
    bad(nested(text, 9999, "min(1,", "a", ")"), LAM_LIMIT, 382, "nested");
    bad(nested(text, 9999, "1?1:", "a", ""), LAM_LIMIT, 254, "nested");
    gives(nested(text, 9999, "--", "a", ""), 7);
    gives(nested(text, 127, "1+", "a", ""), 134);
    bad(nested(text, 128, "1+", "a", ""), LAM_LIMIT, 257, "steps");
    bad(nested(text, 9999, "1-", "a", ""), LAM_LIMIT, 257, "steps");
    /* Each kind of step can be the one too many. */
    gives(nested(text, 127, "1*", "-1", ""), -1);
    bad(nested(text, 127, "1+", "1 < 2", ""), LAM_LIMIT, 259, "steps");
    bad(nested(text, 128, "1*", "-1", ""), LAM_LIMIT, 258, "steps");
    bad(nested(text, 127, "1*", "1 ? 2 : 3", ""), LAM_LIMIT, 259, "steps");
    bad(nested(text, 126, "1*", "1 ? 2 : 3", ""), LAM_LIMIT, 261, "steps");
    bad(nested(text, 127, "1*", "-1 ? 2 : 3", ""), LAM_LIMIT, 258, "steps");
    bad(nested(text, 126, "1*", "-1 ? 2 : 3", ""), LAM_LIMIT, 260, "steps");
    bad(nested(text, 127, "1+", "max(1, 2)", ""), LAM_LIMIT, 263, "steps");
    bad(nested(text, 126, "1*", "-1*max(1, 2)", ""), LAM_LIMIT, 264, "steps");
    bad(nested(text, 128, "1+", "unknown", ""), LAM_LIMIT, 263, "steps");
}

static void no_names(void **state) {
    (void)state;
    lam_count c;
    assert_int_equal(lam_formula_eval("2*3", NULL, NULL, 0, &c, NULL), LAM_OK);
    assert_int_equal(c.n, 6);
    assert_int_equal(lam_formula_eval("in", NULL, NULL, 0, &c, NULL), LAM_OK); /* no fact either */
    assert_int_equal(c.state, LAM_UNKNOWN);
    assert_int_equal(lam_formula_eval("a", names, values, 0, &c, NULL), LAM_OK);
    assert_int_equal(c.state, LAM_UNKNOWN);
    const char *const gap[] = {NULL, "b"};
    assert_int_equal(lam_formula_eval("b+1", gap, values, 2, &c, NULL), LAM_OK);
    assert_int_equal(c.n, 4);
}

/* -- facts
 * ------------------------------------------------------------------------------------------------------- */

static lmi_facts some_facts(void) {
    lmi_facts f = {0};
    lmi_fact_set(&f, LMI_FACT_out, 1605632);
    lmi_fact_set(&f, LMI_FACT_red, 147);
    lmi_fact_set(&f, LMI_FACT_bias, 0);
    return f;
}

static void facts_in_formulas(void **state) {
    (void)state;
    lmi_facts f = some_facts();
    lmi_formula code;
    assert_int_equal(lmi_formula_parse(&code, "out*(2*red-1+bias)", NULL), LAM_OK);
    assert_int_equal(lmi_formula_run(&code, &f).n, INT64_C(1605632) * 293);
    assert_int_equal(lmi_formula_parse(&code, "out*biases", NULL), LAM_OK);
    assert_int_equal(lmi_formula_run(&code, &f).state, LAM_UNKNOWN);
    assert_int_equal(lmi_formula_parse(&code, "bias ? biases : out", NULL), LAM_OK);
    assert_int_equal(lmi_formula_run(&code, &f).n, 1605632);
    lam_error e = {0};
    assert_int_equal(lmi_formula_parse(&code, "out*redd", &e), LAM_SYNTAX);
    assert_int_equal(e.at, 4);
    assert_non_null(strstr(e.text, "not a fact"));
    lmi_fact_set(&f, LMI_FACT_out, -1);
    assert_false(f.known[LMI_FACT_out]);
    assert_int_equal(lmi_fact_get(&f, LMI_FACT_out), -1);
    assert_int_equal(lmi_fact_get(&f, LMI_FACT_red), 147);
    /* Nothing to run is nothing known, and code that takes more than there is gives up. */
    code.n = 0;
    assert_int_equal(lmi_formula_run(&code, &f).state, LAM_UNKNOWN);
    assert_int_equal(lmi_formula_parse(&code, "1+2", NULL), LAM_OK);
    code.code[1] = code.code[2];
    assert_int_equal(lmi_formula_run(&code, &f).state, LAM_UNKNOWN);
}

static void shows(const char *text, const char *want) {
    lmi_facts f = some_facts();
    bool used[LMI_N_FACTS] = {false};
    lmi_buf b;
    lmi_buf_init(&b);
    lmi_formula_show(text, &f, &b, used);
    assert_string_equal(lmi_buf_text(&b), want);
    assert_int_equal(used[LMI_FACT_out], strstr(want, "1,605,632") != NULL);
    assert_int_equal(used[LMI_FACT_red], strstr(want, "147") != NULL);
    lmi_buf_free(&b);
}

/* Values in their places, and nothing that has no effect on the result. */
static void shown(void **state) {
    (void)state;
    shows("out * (2*red - 1 + bias)", "1,605,632 \xc3\x97 (2 \xc3\x97 147 - 1)");
    shows("out*red+biases", "1,605,632 \xc3\x97 147 + ?");
    shows("bias ? 6*out : out*red", "1,605,632 \xc3\x97 147");
    shows("(bias ? 8 : 2)*out", "2 \xc3\x97 1,605,632");
    shows("(bias ? out : red)*out", "147 \xc3\x97 1,605,632");
    shows("(bias ? 6 : 1)*bias + out", "1,605,632");
    shows("out - (red - 1) - (red + bias)", "1,605,632 - (147 - 1) - 147");
    shows("out - (red + red)", "1,605,632 - (147 + 147)");
    shows("out/(red*2)/1", "1,605,632 / (147 \xc3\x97 2)");
    shows("out/red*2", "(1,605,632 / 147) \xc3\x97 2");
    shows("-out + red", "-1,605,632 + 147");
    shows("out*(1+1)", "1,605,632 \xc3\x97 2");
    shows("min(red, 200) + max(red, 200)", "147 + 200");
    shows("min(2, 3)*4 + (red < out)", "9");
    shows("least(out)", "1,605,632");
    shows("bias*out", "0");
    shows("bias*biases", "0 \xc3\x97 ?"); /* what is not known stays */
    shows("unknown ? out : 3", "?");
    shows("min(red, unknown) + max(unknown, 1)", "? + ?");
    shows("red + (x0 < 4 ? out : 3)", "147 + ?");
    shows("", "");
    shows("no_such", "no_such");
}

/* -- tables
 * ------------------------------------------------------------------------------------------------------- */

static void readable(const char *convention, const lam_rule *r, const char *text) {
    lmi_formula code;
    lam_error e = {0};
    if (text && lmi_formula_parse(&code, text, &e) != LAM_OK)
        fail_msg("%s, %s: '%s' at %lld: %s", convention, r->kind, text, (long long)e.at, e.text);
}

/* Every formula reads and names only facts; every rule says something; a released form exists to differ. */
static void every_table(void **state) {
    (void)state;
    for (int32_t c = 0; c < lam_n_conventions(); c++) {
        lam_rule r;
        int32_t n = 0;
        for (; lam_convention_rule(c, n, &r, NULL) == LAM_OK; n++) {
            const char *name = lam_convention_name(c);
            bool says = false;
            for (int i = 0; i < LAM_N_METRICS; i++) {
                readable(name, &r, r.formula[i]);
                readable(name, &r, r.released[i]);
                says = says || r.formula[i] || r.released[i];
                if (r.released[i] && r.formula[i]) assert_string_not_equal(r.released[i], r.formula[i]);
            }
            if (!says) fail_msg("%s has an empty rule for %s", name, r.kind);
        }
        assert_in_range(n, 1, LMI_N_KINDS);
    }
}

/* The spellings that ONLY names are words of that kind. */
static void only_words(void **state) {
    (void)state;
    int found = 0;
    for (int32_t c = 0; c < lam_n_conventions(); c++) {
        const lmi_convention *cv = lmi_convention_at(c);
        for (int32_t k = 0; k < cv->rules->n; k++) {
            const lmi_rule *r = &cv->rules->rows[k];
            if (!r->only || cv->op_rules == cv->rules) continue;
            found++;
            assert_int_equal(lmi_word_kind(lam_word_module(r->only)), r->kind);
        }
    }
    assert_int_equal(found, 3);
}

/* The operators that ONLY names are operators of that kind, and nothing else. */
static void only_operators(void **state) {
    (void)state;
    int found = 0;
    for (int32_t c = 0; c < lam_n_conventions(); c++) {
        const lmi_convention *cv = lmi_convention_at(c);
        for (int32_t k = 0; cv->op_rules && k < cv->op_rules->n; k++) {
            const lmi_rule *r = &cv->op_rules->rows[k];
            const char *s = r->only;
            for (char name[128]; s && *s; s += strspn(s, " ")) {
                size_t n = strcspn(s, " ");
                assert_in_range(n, 1, sizeof name - 1);
                memcpy(name, s, n);
                name[n] = '\0';
                if (lmi_op_kind(lam_word_op(name)) != r->kind) fail_msg("%s: %s", cv->name, name);
                assert_ptr_equal(lmi_rule_for_op(cv, lam_word_op(name), name), r);
                found++;
                s += n;
            }
        }
    }
    assert_true(found > 10);
    const lmi_convention *torch = lmi_convention_named("torch", NULL);
    assert_null(lmi_rule_for_op(torch, lam_word_op("aten::addmm_"), "aten::addmm_"));
    assert_null(lmi_rule_for_op(torch, lam_word_op("aten::mv"), "aten::mv"));
}

static bool served(const char *convention, const char *class_name, uint32_t flags) {
    lam_module mod = {.word = lam_word_module(class_name), .flags = flags};
    return lmi_rule_for(lmi_convention_named(convention, NULL), &mod) != NULL;
}

static void who_is_served(void **state) {
    (void)state;
    assert_true(served("thoplw", "Conv2d", LAM_MODULE_EXACT));
    assert_false(served("thoplw", "Conv2d", 0)); /* a subclass */
    assert_true(served("torchscan", "Conv2d", 0));
    assert_true(served("torchscan", "Conv2d", LAM_MODULE_OWN_FORWARD));
    assert_true(served("thoplw", "ZeroPad2d", LAM_MODULE_EXACT));
    assert_false(served("thoplw", "ConstantPad2d", LAM_MODULE_EXACT));
    assert_false(served("thoplw", "ZeroPad1d", LAM_MODULE_EXACT));
    assert_true(served("thoplw", "Softmax", LAM_MODULE_EXACT));
    assert_false(served("thoplw", "Softmax2d", LAM_MODULE_EXACT));
    assert_false(served("thoplw", "NonDynamicallyQuantizableLinear", LAM_MODULE_EXACT));
    assert_true(served("torchscan", "NonDynamicallyQuantizableLinear", LAM_MODULE_EXACT));
    assert_false(served("thoplw", "Sequential", LAM_MODULE_EXACT));
    assert_false(served("torchscan", "Sequential", LAM_MODULE_EXACT));
    assert_false(served("torchscan", "NoSuchLayer", LAM_MODULE_EXACT));
}

static void names_of_conventions(void **state) {
    (void)state;
    assert_int_equal(lam_n_conventions(), 9);
    assert_string_equal(lam_convention_of(NULL), "exact");
    assert_string_equal(lam_convention_name(0), "exact");
    assert_string_equal(lam_convention_name(1), "layers");
    assert_string_equal(lam_convention_name(2), "torchscan");
    assert_string_equal(lam_convention_source(3), "thoplw 2024.1.25");
    assert_string_equal(lam_convention_name(4), "torch");
    assert_string_equal(lam_convention_name(8), "torchinfo");
    assert_null(lam_convention_name(9));
    assert_null(lam_convention_name(-1));
    assert_null(lam_convention_source(9));
    assert_int_equal(lam_convention_find("thoplw"), 3);
    assert_int_equal(lam_convention_find("thop"), -1);
    assert_int_equal(lam_convention_find(NULL), -1);
    lam_model calls = {.ops_seen = false}, operators = {.ops_seen = true};
    assert_string_equal(lam_convention_of(&calls), "layers");
    assert_string_equal(lmi_convention_for(&calls, NULL, NULL)->name, "layers");
    assert_string_equal(lmi_convention_for(&operators, NULL, NULL)->name, "exact");
    assert_string_equal(lmi_convention_for(&calls, "exact", NULL)->name, "exact");
    assert_string_equal(lmi_convention_named("torchscan", NULL)->name, "torchscan");
    lam_error e = {0};
    assert_null(lmi_convention_named("nobody", &e));
    assert_int_equal(e.status, LAM_USAGE);
    assert_string_equal(e.text,
                        "there is no convention 'nobody'; there are: exact, layers, torchscan, thoplw, "
                        "torch, fvcore, ptflops, deepspeed, torchinfo");
    lam_rule r;
    assert_int_equal(lam_convention_rule(99, 0, &r, &e), LAM_RANGE);
    assert_int_equal(lam_convention_rule(1, -1, &r, NULL), LAM_RANGE);
    assert_int_equal(lam_convention_rule(1, 1000, &r, NULL), LAM_RANGE);
}

static void policies(void **state) {
    (void)state;
    const lmi_convention *c = lmi_convention_named("thoplw", NULL);
    assert_int_equal(c->which, LMI_RULED);
    assert_int_equal(c->repeated, LMI_LAST);
    assert_int_equal(c->match, LMI_CLASS);
    assert_int_equal(c->no_rule, LMI_NR_OMIT);
    assert_int_equal(c->params, LMI_OF_MODULE);
    assert_int_equal(c->order, LMI_ORDER_TREE);
    assert_int_equal(c->rf, LMI_RF_CHAIN);
    assert_int_equal(c->hidden, LMI_TRUST);
    assert_int_equal(lmi_convention_named("layers", NULL)->hidden, LMI_HIDDEN_AT_LEAST);
    assert_int_equal(lmi_convention_named("torchscan", NULL)->rf, LMI_RF_FORWARD);
}

static void names_of_facts(void **state) {
    (void)state;
    for (int32_t i = 0; i < LMI_N_FACTS; i++) {
        assert_true(strlen(lam_fact_name(i)) > 1);
        assert_true(strlen(lam_fact_meaning(i)) > 5);
        for (int32_t k = 0; k < i; k++) assert_string_not_equal(lam_fact_name(i), lam_fact_name(k));
    }
    assert_string_equal(lam_fact_name(LMI_FACT_in), "in");
    for (int32_t i = 0; i < LMI_N_FACTS; i++)
        assert_int_equal(lmi_fact_find(lam_fact_name(i), strlen(lam_fact_name(i))), i);
    assert_int_equal(lmi_fact_find("insi", 4), -1);
    assert_int_equal(lmi_fact_find("", 0), -1);
    assert_null(lam_fact_name(LMI_N_FACTS));
    assert_null(lam_fact_name(-1));
    assert_null(lam_fact_meaning(LMI_N_FACTS));
    assert_null(lam_fact_meaning(-1));
}

/* A rule runs in well under 100 ns; the bound here leaves room for sanitizers and a busy machine. */
static void speed(void **state) {
    (void)state;
    enum { RUNS = 200000 };
    lmi_facts f = some_facts();
    lmi_formula code;
    assert_int_equal(lmi_formula_parse(&code, "out*(2*red-1+bias)", NULL), LAM_OK);
    struct timespec a, b;
    int64_t sum = 0;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &a);
    for (int i = 0; i < RUNS; i++) sum += lmi_formula_run(&code, &f).n & 1;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &b);
    double ns = ((double)(b.tv_sec - a.tv_sec) * 1e9 + (double)(b.tv_nsec - a.tv_nsec)) / RUNS;
    print_message("a rule: %.0f ns (%lld)\n", ns, (long long)sum);
    assert_true(ns < 5000);
}

/* -- rules of operators, read once ---------------------------------------------------------------- */

static void same_formula(const lmi_formula *got, const char *text) {
    lmi_formula f;
    assert_int_equal(lmi_formula_parse(&f, text, NULL), LAM_OK);
    assert_int_equal(got->n, f.n);
    for (int32_t i = 0; i < f.n; i++) {
        assert_int_equal(got->code[i].op, f.code[i].op);
        assert_int_equal(got->code[i].fact, f.code[i].fact);
        assert_int_equal(got->code[i].number, f.code[i].number);
    }
}

/* Returns how many formulas there are. */
static int32_t are_read(const lmi_formula *const code[], const char *const text[]) {
    int32_t n = 0;
    for (int i = 0; i < LAM_N_METRICS; i++) {
        assert_int_equal(code[i] != NULL, text[i] != NULL);
        if (text[i]) same_formula(code[i], text[i]);
        n += text[i] != NULL;
    }
    return n;
}

static void read_once(void **state) {
    (void)state;
    int32_t n = 0, released = 0;
    for (int32_t c = 0; c < lam_n_conventions(); c++) {
        const lmi_convention *cv = lmi_convention_at(c);
        for (int32_t k = 0; k < 2 * LMI_N_KINDS; k++) {
            const lmi_rule *r = lmi_rule_at(k & 1 ? cv->op_rules : cv->rules, (lmi_kind)(k / 2));
            const lmi_rule_code *code, *again;
            if (!r) continue;
            assert_int_equal(lmi_rule_code_of(cv, r, &code, NULL), LAM_OK);
            assert_int_equal(lmi_rule_code_of(cv, r, &again, NULL), LAM_OK);
            assert_ptr_equal(code, again);
            n += are_read(code->formula, r->formula);
            released += are_read(code->released, r->released);
        }
    }
    assert_true(n > 700);
    assert_true(released > 10);
}

/* The released formula first, if it gives a number; a metric without any stays as it was. */
static void run_in_order(void **state) {
    (void)state;
    const lmi_rule r = {.formula = {"2 * in", "in + 1", "out", NULL, "unknown"}, .released = {"7", "out"}};
    lmi_facts facts = {.known = {false}};
    lmi_rule_code *code;
    lam_count n[LAM_N_METRICS];
    facts.v[LMI_FACT_in] = 5;
    facts.known[LMI_FACT_in] = true;
    assert_int_equal(lmi_rule_code_new(&code, &r, NULL), LAM_OK);
    for (int released = 0; released < 2; released++) {
        for (int i = 0; i < LAM_N_METRICS; i++) n[i] = lmi_exact(99);
        lmi_rule_run(code, released, &facts, n);
        assert_int_equal(n[0].n, released ? 7 : 10);
        assert_int_equal(n[1].n, 6);
        assert_int_equal(n[2].state, LAM_UNKNOWN);
        assert_int_equal(n[3].n, 99);
        assert_int_equal(n[4].state, LAM_UNKNOWN);
    }
    lmi_rule_code_free(code);
}

static void read_it(void *arg, bool *ok) {
    lam_error e = {.at = -1};
    lmi_rule_code *code = NULL;
    lam_status s = lmi_rule_code_new(&code, arg, &e);
    *ok = oom_check(s, &e);
    lmi_rule_code_free(code);
}

static void read_without_memory(void **state) {
    (void)state;
    lmi_rule r = {.formula = {"in", "2 * in", "in", NULL, NULL, "in", "out + 1"}, .released = {"in", "7"}};
    oom_sweep(read_it, &r);
    r.formula[LAM_DMAS] = "in +";
    lam_error e = {.at = -1};
    lmi_rule_code *code = NULL;
    assert_int_equal(lmi_rule_code_new(&code, &r, &e), LAM_SYNTAX);
    assert_null(code);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(read_once),
        cmocka_unit_test(run_in_order),
        cmocka_unit_test(read_without_memory),
        cmocka_unit_test(arithmetic),
        cmocka_unit_test(bounds),
        cmocka_unit_test(floor_division),
        cmocka_unit_test(comparisons),
        cmocka_unit_test(choices),
        cmocka_unit_test(unknowns),
        cmocka_unit_test(large_numbers),
        cmocka_unit_test(mistakes),
        cmocka_unit_test(limits),
        cmocka_unit_test(no_names),
        cmocka_unit_test(facts_in_formulas),
        cmocka_unit_test(shown),
        cmocka_unit_test(every_table),
        cmocka_unit_test(only_words),
        cmocka_unit_test(only_operators),
        cmocka_unit_test(who_is_served),
        cmocka_unit_test(names_of_conventions),
        cmocka_unit_test(policies),
        cmocka_unit_test(names_of_facts),
        cmocka_unit_test(speed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
