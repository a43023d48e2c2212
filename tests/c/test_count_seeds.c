/* SPDX-License-Identifier: Apache-2.0
 * Every single-layer number that was recorded from torchscan 0.1.2 and thoplw 2024.1.25, to the last unit,
 * and what those tools could not count. */
#include "count/count.h"
#include "oom.h"

typedef const int64_t *sizes; /* how many, then each */
typedef struct attribute {
    const char *name;
    lam_value value;
} attribute;
typedef struct tensor {
    const char *name;
    bool is_buffer;
    sizes shape;
} tensor;
typedef struct shapes {
    int32_t n;
    const sizes *at;
} shapes;
typedef struct part {
    int32_t parent;
    const char *name, *type;
    struct {
        int32_t n;
        const attribute *at;
    } attrs;
    struct {
        int32_t n;
        const tensor *at;
    } tensors;
} part;
typedef struct seed_case {
    const char *id;
    bool training;
    shapes in, out;
    struct {
        int32_t n;
        const part *at;
    } parts;
    int64_t expect[LAM_N_METRICS];
} seed_case;

/* clang-format off */
#define IGNORED INT64_MIN
#define RAISED (INT64_MIN + 1)
#define SILENT (INT64_MIN + 2)
#define LIST(type, ...) {(int32_t)(sizeof((type[]){__VA_ARGS__}) / sizeof(type)), (type[]){__VA_ARGS__}}
#define SHAPE(...) ((const int64_t[]){__VA_ARGS__})
#define SHAPES(...) LIST(const sizes, __VA_ARGS__)
#define NONE {.type = LAM_NONE}
#define BOOL(v) {.type = LAM_BOOL, .i = v}
#define INT(v) {.type = LAM_INT, .i = v}
#define INTS(count, ...) {.type = LAM_INTS, .n = count, .ints = (const int64_t[]){__VA_ARGS__}}
#define FLOAT(v) {.type = LAM_FLOAT, .f = v}
#define TEXT(v) {.type = LAM_TEXT, .text = v}
#define ATTR(name, ...) {name, __VA_ARGS__}
#define ATTRS(...) LIST(const attribute, __VA_ARGS__)
#define NO_ATTRS {0, NULL}
#define PARAM(name, ...) {name, false, __VA_ARGS__}
#define BUFFER(name, ...) {name, true, __VA_ARGS__}
#define TENSORS(...) LIST(const tensor, __VA_ARGS__)
#define NO_TENSORS {0, NULL}
#define MODULE(parent, name, type, ...) {parent, name, type, __VA_ARGS__}
#define MODULES(...) LIST(const part, __VA_ARGS__)
#define CASE(id, training, in, out, modules, ...) {id, training, in, out, modules, {__VA_ARGS__}},
/* clang-format on */

static const seed_case cases[] = {
#include "seeds_thoplw.def"
#include "seeds_torchscan.def"
};
enum { N_CASES = sizeof cases / sizeof *cases };

/* What lamina says where the tool failed (RAISED) or dropped the layer without a word (SILENT). */
static const struct {
    const char *id;
    lam_metric metric;
    int64_t n;
} mended[] = {
    /* BatchNorm without running statistics: torchscan 0.2.0 prints the same. */
    {"torchscan/67", LAM_DMAS, 50},
    {"torchscan/74", LAM_DMAS, 1170},
    {"torchscan/78", LAM_DMAS, 970},
    {"thoplw/7", LAM_MACS, 6 * 2 + 2}, /* Linear on one axis */
    {"thoplw/18", LAM_MACS, 0},        /* LeakyReLU */
    {"thoplw/19", LAM_MACS, 0},
    {"thoplw/21", LAM_MACS, 0},
    {"thoplw/38", LAM_MACS, 8 * 3 * 3 * 30 + 8}, /* Conv1d: batch * weights * positions + bias */
    {"thoplw/39", LAM_MACS, 2 * 8 * 4 * 5 * 20},
    {"thoplw/40", LAM_MACS, 8 * 1 * 3 * 29 + 8},
    {"thoplw/41", LAM_MACS, 384 * 80 * 3 * 100 + 384},
    {"thoplw/48", LAM_MACS, 6 * 3 * 9 * 8 * 8 + 6},      /* Conv2d without a batch axis */
    {"thoplw/50", LAM_MACS, 2 * 4 * 2 * 9 * 4 * 8 * 8},  /* Conv3d without a bias, left out silently */
    {"thoplw/51", LAM_MACS, 4 * 2 * 27 * 5 * 5 * 5 + 4}, /* Conv3d */
    {"thoplw/52", LAM_MACS, 4 * 2 * 3 * 12 + 2},         /* ConvTranspose1d */
    {"thoplw/53", LAM_MACS, 2 * 4 * 2 * 4 * 20},
    {"thoplw/54", LAM_MACS, 6 * 2 * 2 * 14 + 6},
    {"thoplw/57", LAM_MACS, 2 * 3 * 8 * 6 * 8 * 10 + 3}, /* ConvTranspose3d */
    {"thoplw/58", LAM_MACS, 2 * 4 * 2 * 27 * 5 * 5 * 5 + 4},
};

/* -- a model of one layer
 * ------------------------------------------------------------------------------------- */

static void push_attrs(lam_builder *b, int32_t module, const part *p) {
    int32_t word = lam_word_module(p->type);
    for (int32_t i = 0; lam_word_attr(word, i); i++)
        for (int32_t k = 0; k < p->attrs.n; k++)
            if (!strcmp(lam_word_attr(word, i), p->attrs.at[k].name))
                assert_int_equal(lam_build_attr(b, module, p->attrs.at[k].name, &p->attrs.at[k].value, NULL),
                                 LAM_OK);
}

static void push_tensors(lam_builder *b, int32_t module, const part *p) {
    for (int32_t i = 0; i < p->tensors.n; i++) {
        const tensor *t = &p->tensors.at[i];
        lam_tensor_info info = {.dtype = 6, .ndim = (int32_t)t->shape[0], .sizes = t->shape + 1, .bytes = -1};
        int32_t index;
        assert_int_equal(lam_build_tensor(b, &info, &index, NULL), LAM_OK);
        assert_int_equal(lam_build_owns(b, module, t->name, index, t->is_buffer, NULL), LAM_OK);
    }
}

static void push_parts(lam_builder *b, const seed_case *c, uint32_t flags) {
    for (int32_t i = 0; i < c->parts.n; i++) {
        const part *p = &c->parts.at[i];
        bool leaf = true;
        for (int32_t k = i + 1; k < c->parts.n; k++) leaf = leaf && c->parts.at[k].parent != i;
        lam_module_info info = {.type = p->type,
                                .type_path = p->type,
                                .word = lam_word_module(p->type),
                                .flags = flags | (leaf ? LAM_MODULE_LEAF : 0)};
        int32_t module, place;
        assert_int_equal(lam_build_module(b, &info, &module, NULL), LAM_OK);
        push_attrs(b, module, p);
        push_tensors(b, module, p);
        assert_int_equal(lam_build_place(b, p->parent, p->name, module, &place, NULL), LAM_OK);
        assert_int_equal(place, i);
    }
}

enum { MAX_ARGS = 8 };
static int32_t args_of(const shapes *s, lam_arg *out) {
    assert_in_range(s->n, 1, MAX_ARGS);
    for (int32_t i = 0; i < s->n; i++)
        out[i] = (lam_arg){.position = i, .dtype = 6, .ndim = (int32_t)s->at[i][0], .sizes = s->at[i] + 1};
    return s->n;
}

static lam_model *model_of(const seed_case *c, uint32_t flags) {
    lam_builder *b;
    lam_model *m;
    lam_arg in[MAX_ARGS], out[MAX_ARGS];
    int32_t event;
    assert_int_equal(lam_builder_new(&b, 0, NULL), LAM_OK);
    push_parts(b, c, flags);
    lam_call_info call = {.module = 0,
                          .parent = -1,
                          .flags = c->training ? LAM_CALL_TRAINING : 0,
                          .n_in = args_of(&c->in, in),
                          .n_out = args_of(&c->out, out),
                          .in = in,
                          .out = out};
    assert_int_equal(lam_build_call(b, &call, &event, NULL), LAM_OK);
    assert_int_equal(lam_builder_finish(b, &m, NULL), LAM_OK);
    return m;
}

static const lmi_convention *convention_of(const seed_case *c) {
    return lmi_convention_named(!strncmp(c->id, "thoplw", 6) ? "thoplw" : "torchscan", NULL);
}

static const seed_case *find(const char *id) {
    for (int i = 0; i < N_CASES; i++)
        if (!strcmp(cases[i].id, id)) return &cases[i];
    fail_msg("no case %s", id);
    return NULL;
}

/* -- tests
 * ------------------------------------------------------------------------------------------------------ */

static int64_t mend(const seed_case *c, lam_metric metric) {
    for (size_t i = 0; i < sizeof mended / sizeof *mended; i++)
        if (!strcmp(mended[i].id, c->id) && mended[i].metric == metric) return mended[i].n;
    fail_msg("%s: what %s is where the tool failed is not stated", c->id, lam_metric_name(metric));
    return 0;
}

/* Complains and gives 1, so that all that is wrong is seen at once. */
static int check(const seed_case *c, lam_metric metric, lam_count got) {
    int64_t want = c->expect[metric];
    bool failed = want == RAISED || want == SILENT;
    if (failed) want = mend(c, metric);
    lam_state state = want == IGNORED ? LAM_UNKNOWN : LAM_EXACT;
    if (got.state == state && (state == LAM_UNKNOWN || (got.n == want && !got.over))) return 0;
    print_error("%s %s: got %lld (%s), want %lld (%s)\n", c->id, lam_metric_name(metric), (long long)got.n,
                lam_state_name(got.state), (long long)want, lam_state_name(state));
    return 1;
}

static void released_numbers(void **state) {
    (void)state;
    int wrong = 0;
    assert_int_equal(N_CASES, 277);
    for (int i = 0; i < N_CASES; i++) {
        lam_model *m = model_of(&cases[i], LAM_MODULE_EXACT);
        lam_count got[LAM_N_METRICS];
        lmi_count_event(convention_of(&cases[i]), m, 0, true, got);
        for (int k = 0; k <= LAM_DMAS; k++) wrong += check(&cases[i], (lam_metric)k, got[k]);
        lam_model_free(m);
    }
    assert_int_equal(wrong, 0);
}

/* thoplw asks for the class itself, torchscan takes subclasses too. */
static void subclasses(void **state) {
    (void)state;
    for (int i = 0; i < N_CASES; i++) {
        lam_model *m = model_of(&cases[i], 0);
        const lmi_convention *c = convention_of(&cases[i]);
        const lmi_rule *rule = lmi_rule_for(c, lam_model_module(m, 0));
        if (c->match == LMI_CLASS)
            assert_null(rule);
        else if (cases[i].expect[LAM_DMAS] != IGNORED)
            assert_non_null(rule);
        lam_model_free(m);
    }
}

/* The rules as they were meant, where the released tool misses that. */
static void meant_numbers(void **state) {
    static const struct {
        const char *id;
        lam_metric metric;
        int64_t n;
    } meant[] = {
        {"torchscan/51", LAM_FLOPS, 384 * (2 * 27 - 1 + 1)}, /* unbatched: 3 channels, not 10 */
        {"torchscan/51", LAM_MACS, 384 * 27},
        {"torchscan/51", LAM_DMAS, 10920},
        {"torchscan/57", LAM_FLOPS, 2488}, /* no different */
        {"torchscan/89", LAM_FLOPS, 48},   /* kernel_size=2 stays a window of 2 */
        {"torchscan/89", LAM_DMAS, 240},
        {"torchscan/99", LAM_FLOPS, 1568},
        {"torchscan/113", LAM_MACS, 72},
        {"thoplw/4", LAM_MACS, 4 * 512000 + 1000}, /* Linear: every row */
        {"thoplw/5", LAM_MACS, 14 * 80 + 5},
        {"thoplw/43", LAM_MACS, 2 * 100352 + 32}, /* Conv2d: the batch */
        {"thoplw/56", LAM_MACS, 3459},            /* ConvTranspose2d with a batch of 1 */
        {"thoplw/78", LAM_MACS, 4 * 80},          /* LayerNorm: scale and shift */
        {"thoplw/80", LAM_MACS, 2 * 80},          /* without */
        {"thoplw/81", LAM_MACS, 4 * 200},         /* InstanceNorm2d */
        {"thoplw/137", LAM_MACS, 4608},
    };
    (void)state;
    int wrong = 0;
    for (size_t i = 0; i < sizeof meant / sizeof *meant; i++) {
        const seed_case *c = find(meant[i].id);
        lam_model *m = model_of(c, LAM_MODULE_EXACT);
        lam_count got[LAM_N_METRICS];
        lmi_count_event(convention_of(c), m, 0, false, got);
        lam_count n = got[meant[i].metric];
        if (n.state != LAM_EXACT || n.n != meant[i].n) {
            print_error("%s: got %lld, want %lld\n", c->id, (long long)n.n, (long long)meant[i].n);
            wrong++;
        }
        lam_model_free(m);
    }
    assert_int_equal(wrong, 0);
}

/* nn.Transformer: torchscan's number is wrong in at least four ways, so the rule has no opinion. */
static void transformer(void **state) {
    (void)state;
    const seed_case *c = find("torchscan/138");
    lam_model *m = model_of(c, LAM_MODULE_EXACT);
    lam_count got[LAM_N_METRICS];
    lmi_count_event(convention_of(c), m, 0, false, got);
    assert_int_equal(got[LAM_FLOPS].state, LAM_UNKNOWN);
    lmi_count_event(convention_of(c), m, 0, true, got);
    assert_int_equal(got[LAM_FLOPS].n, 94754);
    lam_model_free(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(released_numbers),
        cmocka_unit_test(subclasses),
        cmocka_unit_test(meant_numbers),
        cmocka_unit_test(transformer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
