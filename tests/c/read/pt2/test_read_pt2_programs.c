/* SPDX-License-Identifier: Apache-2.0
 *
 * What programs of torch.export tell besides their operators: attributes of modules, types, arguments of
 * every kind, the calls around nodes, the backward pass, and sizes that are given. */
#include "kit/program.h"

/* The attributes of a module, as "bias=true groups=1 padding=1,1". */
static void put_attributes(lmi_buf *b, const lam_module *m) {
    for (int32_t i = 0; i < m->n_attrs; i++) {
        const lam_value *v = &m->attrs[i].value;
        lmi_putf(b, "%s%s=", i ? " " : "", m->attrs[i].name);
        switch (v->type) {
        case LAM_BOOL: lmi_put(b, v->i ? "true" : "false"); break;
        case LAM_INT: lmi_putf(b, "%lld", (long long)v->i); break;
        case LAM_FLOAT: lmi_putf(b, "%g", v->f); break;
        case LAM_TEXT: lmi_put(b, v->text); break;
        case LAM_INTS:
            for (int32_t k = 0; k < v->n; k++) lmi_putf(b, "%s%lld", k ? "," : "", (long long)v->ints[k]);
            break;
        default: fail_msg("%s has no value", m->attrs[i].name);
        }
    }
}

/* The module at "m". */
static const lam_module *module_m(const lam_model *m) {
    for (int32_t i = 0; i < lam_model_n_places(m); i++)
        if (strcmp(lam_model_place(m, i)->path, "m") == 0)
            return lam_model_module(m, lam_model_place(m, i)->module);
    fail_msg("no module 'm'");
    return NULL;
}

static void operators_tell_the_attributes_of_their_module(void **state) {
    (void)state;
    static const struct {
        const char *type, *node, *tensors, *attributes;
    } all[] = {
        {"Conv2d", "conv2d x w none {2} {1,0} {1,1} 2 -> y", "x 1,4,8,8 w 6,2,3,5 y 1,6,4,2",
         "kernel_size=3,5 stride=2,2 padding=1,0 dilation=1,1 groups=2 in_channels=4 out_channels=6 "
         "output_padding=0,0 padding_mode=zeros"},
        {"Conv2d", "conv2d x w none 2 'same' -> y", "x 1,4,8,8 w 6,4,3,3 y 1,6,8,8",
         "kernel_size=3,3 stride=2,2 padding=same dilation=1,1 groups=1 in_channels=4 out_channels=6 "
         "output_padding=0,0 padding_mode=zeros"},
        /* what the operator does not tell is left out */
        {"Conv1d", "conv1d x w none 0.5 w none 4611686018427387904 -> y", "x 1,4,8 w 6,4,3 y 1,6,8",
         "kernel_size=3 groups=4611686018427387904 out_channels=6 output_padding=0 padding_mode=zeros"},
        {"Conv1d", "conv1d x w -> y", "x 1,4,8 w 6,4 y 1,6,8",
         "groups=1 in_channels=4 out_channels=6 padding_mode=zeros"},
        {"Conv1d", "conv1d x 3 -> y", "x 1,4,8 y 1,6,8",
         "stride=1 padding=0 dilation=1 groups=1 output_padding=0 padding_mode=zeros"},
        {"Conv1d", "conv1d x w -> y",
         "x 1,4,8 w 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,"
         "25,26,27,28,29,30,31,32,33 y 1,6,8",
         NULL},
        {"Conv2d", "relu x -> y", "x 2 y 2", ""},
        {"MaxPool2d", "max_pool2d x {3,3} {2,1} 1 -> y", "x 1,4,8,8 y 1,4,4,4",
         "kernel_size=3 stride=2,1 padding=1 dilation=1 return_indices=false ceil_mode=false"},
        {"MaxPool2d", "max_pool2d x {3,2} -> y", "x 1,4,8,8 y 1,4,4,4",
         "kernel_size=3,2 stride=3,2 padding=0 dilation=1 return_indices=false ceil_mode=false"},
        {"MaxPool2d", "max_pool2d x {} {} 'same' -> y", "x 1,4,8,8 y 1,4,4,4",
         "padding=same dilation=1 return_indices=false ceil_mode=false"},
        {"MaxPool2d", "max_pool2d x -> y", "x 1,4,8,8 y 1,4,4,4",
         "padding=0 dilation=1 return_indices=false ceil_mode=false"},
        {"AdaptiveAvgPool2d", "adaptive_avg_pool2d x {1,1} -> y", "x 1,4,8,8 y 1,4,1,1", "output_size=1"},
        {"Linear", "linear x w -> y", "x 2,3 w 3 y 2", "out_features=3"},
        {"Linear", "linear x 4 -> y", "x 2,3 y 2", ""},
        {"Linear", "linear x -> y", "x 2,3 y 2", ""},
        {"BatchNorm1d", "batch_norm x w none none none false 0.1 0.5 true -> y", "x 2,3 w 3 y 2,3",
         "num_features=3 eps=0.5 momentum=0.1 affine=true track_running_stats=false"},
        {"Dropout", "dropout x none false -> y", "x 2 y 2", "inplace=false"},
        {"Dropout", "dropout x x false -> y", "x 2 y 2", "inplace=false"},
        {"LSTM", "lstm x [h,c] [wi,wh,wp] false 1 0.0 false false true -> y",
         "x 2,5,3 h 1,2,2 c 1,2,4 wi 16,3 wh 16,2 wp 2,4 y 2,5,2",
         "input_size=3 hidden_size=4 num_layers=1 bias=false batch_first=true dropout=0 bidirectional=false "
         "proj_size=2"},
        {"LSTM", "lstm x [h,c] [wi,wh] false 1 0.0 false false true -> y",
         "x 2,5,3 h 1,2,4 c 1,2,4 wi 16,3 wh 16,4 y 2,5,4",
         "input_size=3 hidden_size=4 num_layers=1 bias=false batch_first=true dropout=0 bidirectional=false "
         "proj_size=0"},
        {"LSTM", "lstm x [h,c] [wi] false -> y", "x 2,5,3 h 1,2,4 c 1,2,4 wi 16,3 y 2,5,4",
         "input_size=3 hidden_size=4 bias=false"},
        {"LSTM", "lstm x [h,c] [wi,wh] false -> y", "x 2,5,3 h 1,2,4 c 1,2,4 wi 16,3 wh 16 y 2,5,4",
         "input_size=3 hidden_size=4 bias=false"},
        {"LSTM", "lstm x [h,c] 7 false -> y", "x 2,5,3 h 1,2,4 c 1,2,4 y 2,5,4", "bias=false"},
        /* packed sequences have other positions */
        {"GRU", "gru x n h [wi,wh] false 1 0.0 false false -> y", "x 6,3 n ;3 h 1,3,4 wi 12,3 wh 12,4 y 6,4",
         ""},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        char nodes[512];
        lmi_buf text;
        lmi_buf_init(&text);
        snprintf(nodes, sizeof nodes, "%s @m,m,torch.nn.modules.some.%s\nlinear x x -> y @m,m,T", all[i].node,
                 all[i].type);
        save_program("told.pt2", &(program){.nodes = nodes, .tensors = all[i].tensors, .modules = "m"});
        if (!all[i].attributes) {
            refused("told.pt2", LAM_FAILED, "a tensor of more than 32 axes");
            continue;
        }
        lam_model *m = opened("told.pt2");
        put_attributes(&text, module_m(m));
        if (strcmp(lmi_buf_text(&text), all[i].attributes) != 0)
            fail_msg("%s\n  is  %s\n  not %s", all[i].node, lmi_buf_text(&text), all[i].attributes);
        lmi_buf_free(&text);
        lam_model_free(m);
    }
}

/* Classes of others may have attributes of the same names and another meaning. */
static void classes_outside_torch_have_no_attributes(void **state) {
    (void)state;
    static const char *const types[] = {"mine.Linear", "torch.nn.modules.Linear", "<class 'torch.nn.Linear'>",
                                        "<class 'Linear'>", "<class '"};
    static const int32_t n[] = {0, 2, 2, 0, 0};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        char node[128];
        snprintf(node, sizeof node, "linear x x -> y @m,m,%s", types[i]);
        save_program("types.pt2", &(program){.nodes = node, .tensors = "x 2,2 y 2,2", .modules = "m"});
        lam_model *m = opened("types.pt2");
        assert_int_equal(module_m(m)->n_attrs, n[i]);
        lam_model_free(m);
    }
}

/* -- tensors and arguments ------------------------------------------------------------------------------- */

static void types_and_devices_have_the_numbers_of_torch(void **state) {
    (void)state;
    static const struct {
        int told;
        const char *name;
    } types[] = {{0, "?"},
                 {1, "uint8"},
                 {7, "float32"},
                 {12, "bool"},
                 {13, "bfloat16"},
                 {14, "?"},
                 {27, "?"},
                 {28, "uint16"},
                 {29, "float8_e4m3fn"},
                 {30, "float8_e5m2"},
                 {31, "float8_e4m3fnuz"},
                 {32, "float8_e5m2fnuz"},
                 {33, "float8_e8m0fnu"},
                 {34, "uint32"},
                 {35, "uint64"},
                 {36, "?"}};
    static const struct {
        const char *told;
        int32_t number;
    } devices[] = {{"cpu", 0}, {"cuda", 1}, {"xla", 9}, {"meta", 14}, {"abacus", -1}};
    char tensors[64];
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        const char *device = devices[i % 5].told;
        snprintf(tensors, sizeof tensors, "x 2 y %d;2@%s", types[i].told, device);
        save_program("types.pt2", &(program){.nodes = "relu x -> y", .tensors = tensors});
        lam_model *m = opened("types.pt2");
        const lam_arg *out = lam_model_event(m, 0)->out;
        assert_string_equal(lam_dtype_name(out->dtype), types[i].name);
        assert_int_equal(out->device, devices[i % 5].number);
        lam_model_free(m);
    }
}

/* The arguments of the first operator behind x, as "1:3 2:x 64:1,0", in which x is a tensor. */
static void put_arguments(lmi_buf *b, const lam_op_sig *sig) {
    for (int32_t i = 1; i < sig->n_in; i++) {
        const lam_op_arg *a = &sig->in[i];
        lmi_putf(b, "%s%d:", i > 1 ? " " : "", (int)a->position);
        if (a->is_tensor)
            lmi_put(b, "x");
        else if (a->value.type == LAM_NONE)
            lmi_put(b, "none");
        else if (a->value.type == LAM_INTS)
            for (int32_t k = 0; k < a->value.n; k++)
                lmi_putf(b, "%s%lld", k ? "," : "", (long long)a->value.ints[k]);
        else if (a->value.type == LAM_TEXT)
            lmi_put(b, a->value.text);
        else if (a->value.type == LAM_FLOAT)
            lmi_putf(b, "%g", a->value.f);
        else
            lmi_putf(b, "%lld", (long long)a->value.i);
    }
}

/* What is not known is left out, and is neither 0 nor None. */
static void arguments_of_every_kind_are_read(void **state) {
    (void)state;
    static const struct {
        const char *argument, *told;
    } all[] = {
        {"{\"as_int\":3}", "1:3"},
        {"{\"as_int\":\"a\"}", ""},
        {"{\"as_bool\":true}", "1:1"},
        {"{\"as_float\":1.5}", "1:1.5"},
        {"{\"as_float\":[]}", ""},
        {"{\"as_string\":\"a\"}", "1:a"},
        {"{\"as_string\":7}", ""},
        {"{\"as_none\":true}", "1:none"},
        {"{\"as_none\":null,\"as_int\":4}", "1:4"},
        {"{\"as_device\":{\"type\":\"cpu\"}}", ""},
        {"{\"as_graph\":{\"name\":\"g\"}}", ""},
        {"{\"as_scalar_type\":7}", "1:6"},
        {"{\"as_scalar_type\":99}", ""},
        {"{\"as_scalar_type\":\"a\"}", ""},
        {"{\"as_sym_int\":{\"as_int\":4}}", "1:4"},
        {"{\"as_sym_int\":{\"as_name\":\"five\"}}", "1:5"},
        {"{\"as_sym_int\":{\"as_name\":\"open\"}}", ""},
        {"{\"as_sym_int\":{\"as_name\":\"other\"}}", ""},
        {"{\"as_sym_ints\":[{\"as_int\":2},{\"as_name\":\"five\"},6]}", "1:2,5,6"},
        {"{\"as_sym_ints\":[{\"as_int\":2},{\"as_name\":\"other\"}]}", ""},
        {"{\"as_ints\":[2,3]}", "1:2,3"},
        {"{\"as_bools\":[true,false]}", "1:1,0"},
        {"{\"as_floats\":[1.5,\"a\"]}", ""},
        {"{\"as_tensors\":[{\"name\":\"x\"},{\"name\":\"x\"}]}", "1:x 1:x"},
        {"{\"as_optional_tensor\":{\"as_tensor\":{\"name\":\"x\"}}}", "1:x"},
        {"{\"as_optional_tensor\":{\"as_none\":true}}", "1:none"},
        {"{\"as_optional_tensors\":[{\"as_tensor\":{\"name\":\"x\"}},{\"as_none\":true},{\"as_tensor\":null}]"
         "}",
         "1:x"},
        /* a keyword that no table has comes after all positions */
        {"{\"name\":\"new\",\"arg\":{\"as_int\":3},\"kind\":2}", "65:3"},
        {"{\"name\":\"new\",\"arg\":{\"as_int\":3},\"kind\":1}", "1:3"},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        char node[256];
        lmi_buf text;
        lmi_buf_init(&text);
        snprintf(node, sizeof node, "mine.op x %s -> y", all[i].argument);
        save_program("argument.pt2",
                     &(program){.nodes = node,
                                .tensors = "x 2 y 2",
                                .more = ",\"sym_int_values\":{\"five\":{\"as_int\":5},\"open\":{\"as_expr\":{"
                                        "\"expr_str\":\"u0\"}}}"});
        lam_model *m = opened("argument.pt2");
        put_arguments(&text, lam_model_op(m, 0)->sig);
        if (strcmp(lmi_buf_text(&text), all[i].told) != 0)
            fail_msg("%s\n  is  %s\n  not %s", all[i].argument, lmi_buf_text(&text), all[i].told);
        lmi_buf_free(&text);
        lam_model_free(m);
    }
}

static void results_may_be_lists(void **state) {
    (void)state;
    static const struct {
        const char *results;
        int32_t n;
    } all[] = {{"y", 1},
               {"[y,z]", 2},
               {"y z", 2},
               {"7 y", 1},
               {"none", 0},
               {"{\"as_tensor\":null}", 0},
               {"{\"as_optional_tensors\":[{\"as_tensor\":{\"name\":\"y\"}}]}", 1}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        char node[128];
        snprintf(node, sizeof node, "mine.op_ x -> %s", all[i].results);
        save_program("results.pt2", &(program){.nodes = node, .tensors = "x 2 y 2 z 2"});
        lam_model *m = opened("results.pt2");
        assert_int_equal(lam_model_op(m, 0)->sig->n_out, all[i].n);
        lam_model_free(m);
    }
}

/* -- calls ----------------------------------------------------------------------------------------------- */

/* The paths of all calls, by spaces; that of the root is ".". */
static void put_calls(lmi_buf *b, const lam_model *m) {
    for (int32_t i = 0; lam_model_event(m, i); i++) {
        const char *path = lam_model_place(m, lam_model_event(m, i)->place)->path;
        lmi_putf(b, "%s%s", i ? " " : "", *path ? path : ".");
    }
}

static void has_calls(const program *p, const char *calls) {
    lmi_buf text;
    lmi_buf_init(&text);
    save_program("calls.pt2", p);
    lam_model *m = opened("calls.pt2");
    put_calls(&text, m);
    if (strcmp(lmi_buf_text(&text), calls) != 0)
        fail_msg("%s\n  is  %s\n  not %s", p->nodes, lmi_buf_text(&text), calls);
    lmi_buf_free(&text);
    lam_model_free(m);
}

/* Until PyTorch 2.7 the path of a module was an expression. */
static void paths_that_are_expressions_are_read(void **state) {
    (void)state;
    static const struct {
        const char *told, *path;
    } all[] = {
        {"a.b,T", "a.b"},
        {"L['self'].a,T", "a"},
        {"getattr(L['self'].a, '0').b,T", "a.0.b"},
        {"getattr(getattr(L['self'].a, '0').b, '1'),T", "a.0.b.1"},
        {"L['self']._modules['a'],T", "a"},
        {"L['self'].a['b'].c,T", "a.b.c"},
        {"L['self']['a", "a"},
        {"L['self']['a'", "a"},
        {"L['self']['a'b", "ab"},
        {"getattr(a", "getattr(a"},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        char node[128], calls[64];
        snprintf(node, sizeof node, "relu x -> y @k,%s", all[i].told);
        snprintf(calls, sizeof calls, ". %s", all[i].path);
        has_calls(&(program){.nodes = node, .tensors = "x 2 y 2", .schema = 7}, calls);
    }
    save_program("calls.pt2",
                 &(program){.nodes = "relu x -> y @k,L['self", .tensors = "x 2 y 2", .schema = 7});
    lam_model *m = opened("calls.pt2");
    assert_int_equal(lam_model_n_places(m), 1);
    lam_model_free(m);
}

#define THREE "x 2 y 2 z 2"
/* A call goes on as long as nodes that follow each other name it; since schema 8 a key is one call. */
static void nodes_of_one_key_are_one_call(void **state) {
    (void)state;
    static const struct {
        const char *nodes, *calls;
        int schema;
    } all[] = {
        {"relu x -> y @a,m,T\nrelu y -> z @a,m,T", ". m", 8},
        {"relu x -> y @a,m,T\nrelu y -> x\nrelu x -> z @a,m,T", ". m", 8},
        {"relu x -> y @a,m,T\nrelu y -> x\nrelu x -> z @a,m,T", ". m m", 7},
        {"relu x -> y @a,m,T\nrelu y -> z @b,m,T", ". m m", 8},
        /* the same key in another module, or inside another call, is another call */
        {"relu x -> y @a,m,T\nrelu y -> x\nrelu x -> z @a,n,T", ". m n", 8},
        {"relu x -> y @a,m,T\nrelu y -> z @b,n,T;a,n.m,T", ". m n n.m", 8},
        /* a stack without the root, and none */
        {"relu x -> y @!a,m,T\nrelu y -> z @!b,n,T", ". m n", 8},
        {"relu x -> y @!", ".", 8},
        /* what no operator reads is a result of its call */
        {"relu x -> y @a,m,T\nrelu x -> z", ". m", 8},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        has_calls(&(program){.nodes = all[i].nodes, .tensors = THREE, .schema = all[i].schema}, all[i].calls);
    lam_model *m = opened("calls.pt2");
    const lam_event *unread = lam_model_event(m, 1);
    assert_int_equal(unread->n_out, 1);
    assert_int_equal(unread->out[0].ndim, 1);
    lam_model_free(m);
}

/* A model trains if a layer that is told apart by it says so. */
static void layers_tell_whether_a_model_trains(void **state) {
    (void)state;
    static const struct {
        const char *node;
        bool trains;
    } all[] = {{"batch_norm x x none none none true 0.1 0.5 true -> y", true},
               {"batch_norm x x none none none false 0.1 0.5 true -> y", false},
               {"batch_norm x x none none none x 0.1 0.5 true -> y", false},
               {"dropout x 0.5 true -> y", true},
               {"dropout x 0.5 1 -> y", false},
               {"dropout x 0.5 false -> y", false}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        save_program("trains.pt2", &(program){.nodes = all[i].node, .tensors = "x 2 y 2"});
        lam_model *m = opened("trains.pt2");
        assert_int_equal(lam_model_event(m, 0)->flags & LAM_CALL_TRAINING,
                         all[i].trains ? LAM_CALL_TRAINING : 0);
        lam_model_free(m);
    }
}

/* -- the backward pass ----------------------------------------------------------------------------------- */

/* A linear layer, its loss, and the gradient of its weight. */
static const program joint = {
    .nodes = "linear x w -> y @m,m,torch.nn.modules.linear.Linear\nmine.loss y 3 -> l k\nones_like l -> o\n"
             "mine.back o x -> g q",
    .tensors = "x 2,3 w 4,3 y 2,4 l - k - o - g 4,3 q -",
    .in = "parameter:w=m.weight user_input:x",
    .out = "loss_output:l user_output:unknown gradient_to_parameter:g gradient_to_user_input:q",
    .modules = "m",
};

/* What the loss does not need is the backward pass. */
static void operators_that_gradients_alone_need_run_backward(void **state) {
    (void)state;
    static const int phases[] = {LAM_FORWARD, LAM_FORWARD, LAM_BACKWARD, LAM_BACKWARD};
    save_program("joint.pt2", &joint);
    lam_model *m = opened("joint.pt2");
    int32_t n = 0;
    for (int32_t i = 0; lam_model_op(m, i); i++) {
        if (lam_model_op(m, i)->parent >= 0) continue;
        assert_in_range(n, 0, 3);
        assert_int_equal(lam_model_op(m, i)->phase, phases[n++]);
    }
    assert_int_equal(n, 4);
    lam_costs *c = costs_of(m);
    assert_int_equal(lam_costs_total(c, LAM_MACS).n, 2 * 3 * 4);
    lam_costs_free(c);
    lam_model_free(m);
}

/* -- sizes that are given -------------------------------------------------------------------------------- */

static const program open_sizes = {
    .nodes = "cat x z -> y",
    .tensors = "x s0=3,4,2*s1=4 z s1=2,1s=7 y s0=3",
    .in = "user_input:x user_input:z",
    .rest = ",\"range_constraints\":{\"s0\":{\"min_val\":2,\"max_val\":8},\"s1\":{\"min_val\":2}}",
};

/* A size has the name of its symbol, or of an axis; `size`: the result's first; -1: refused with `part`. */
static void a_size_is_set_within_its_range(void **state) {
    (void)state;
    static const struct {
        const char *name;
        int64_t value, size;
        const char *part;
    } all[] = {
        {"s0", 5, 5, NULL},
        {"x.0", 5, 5, NULL},
        {"batch", 5, 5, NULL},
        {"z.0", 5, 3, NULL},
        {"x.0", 9, -1, "x.0 can't be 9: it was exported for 2 to 8"},
        {"x.0", 1, -1, "x.0 can't be 1: it was exported for 2 to 8"},
        {"z.0", 1, -1, "z.0 can't be 1: it was exported for 2 and more"},
        {"x.1", 5, -1, "no size 'x.1' is open in it; these are: x.0, z.0"},
        {"x.2", 5, -1, "no size 'x.2' is open"},
        {"z.1", 5, -1, "no size 'z.1' is open"},
        {"x.99", 5, -1, "no size 'x.99' is open"},
        {"x.a", 5, -1, "no size 'x.a' is open"},
        {"x./", 5, -1, "no size 'x./' is open"},
        {"xx", 5, -1, "no size 'xx' is open"},
    };
    save_program("open.pt2", &open_sizes);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        const lam_read_size size = {all[i].name, all[i].value};
        const lam_read_options o = {.sizes = &size, .n_sizes = 1};
        lam_model *m = NULL;
        last = (lam_error){.at = -1};
        const lam_status s = lam_read(&m, "open.pt2", &o, &last);
        assert_int_equal(s, all[i].part ? LAM_USAGE : LAM_OK);
        if (all[i].part && !strstr(last.text, all[i].part))
            fail_msg("'%s' lacks '%s'", last.text, all[i].part);
        if (m) assert_int_equal(lam_model_event(m, 0)->out[0].sizes[0], all[i].size);
        lam_model_free(m);
    }
}

static void a_program_of_fixed_sizes_says_so(void **state) {
    (void)state;
    const lam_read_size size = {"batch", 2};
    const lam_read_options o = {.sizes = &size, .n_sizes = 1};
    lam_model *m = NULL;
    save_program("fixed.pt2", &(program){.nodes = "relu x -> y", .tensors = "x 2 y 2"});
    last = (lam_error){.at = -1};
    assert_int_equal(lam_read(&m, "fixed.pt2", &o, &last), LAM_USAGE);
    assert_non_null(strstr(last.text, "it was exported with all sizes fixed"));
}

/* Each symbol is told once, by the first axis that it is; a name that is too long is not. */
static void open_sizes_are_told_once(void **state) {
    (void)state;
    static const lam_read_options grow = {.growth = true};
    static const char *const names[] = {"batch", "x.1", "z.1"};
    lam_model *m = NULL;
    lmi_buf tensors;
    lmi_buf_init(&tensors);
    lmi_put(&tensors, "x s0=3,s1=4,s0=3 z s1=4,Symbol('s2')=5,Symbol('s3=6,Symbol('s4')+1=7,");
    lmi_pad(&tensors, 'l', 70);
    lmi_put(&tensors, "=6 y s0=3 ");
    lmi_pad(&tensors, 'n', 70);
    lmi_put(&tensors, " s5=8");
    char in[128] = "user_input:x user_input:z user_input:";
    memset(in + strlen(in), 'n', 70);
    save_program("names.pt2",
                 &(program){.nodes = "cat x z -> y", .tensors = lmi_buf_text(&tensors), .in = in});
    lmi_buf_free(&tensors);
    assert_int_equal(lam_read(&m, "names.pt2", &grow, &last), LAM_OK);
    lam_costs *c = costs_of(m);
    for (int32_t i = 0; i < 3; i++) assert_string_equal(lam_costs_growth(c, i)->size, names[i]);
    assert_null(lam_costs_growth(c, 3));
    lam_costs_free(c);
    lam_model_free(m);
}

/* Other values are in the range for which the program was exported; without two of them nothing is told. */
static void sizes_grow_within_their_range(void **state) {
    (void)state;
    static const lam_read_options grow = {.growth = true};
    static const struct {
        const char *value, *range;
        lam_grows how;
    } all[] = {
        {"5", "\"min_val\":5,\"max_val\":7", LAM_GROWS_LINEAR},
        {"5", "\"min_val\":2,\"max_val\":5", LAM_GROWS_LINEAR},
        {"5", "\"min_val\":5,\"max_val\":6", LAM_GROWS_UNKNOWN},
        {"5", "\"min_val\":5,\"max_val\":5", LAM_GROWS_UNKNOWN},
        {"1", "\"min_val\":0", LAM_GROWS_LINEAR},
        {"2", "\"min_val\":1,\"max_val\":4", LAM_GROWS_LINEAR},
        {"null", "\"min_val\":0,\"max_val\":9", LAM_GROWS_LINEAR},
        {"null", "\"min_val\":3,\"max_val\":9", LAM_GROWS_LINEAR},
        {"null", "\"min_val\":0,\"max_val\":1", LAM_GROWS_UNKNOWN},
        {"4611686018427387904", "\"min_val\":0", LAM_GROWS_UNKNOWN},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        char tensors[128], rest[128];
        lam_model *m = NULL;
        snprintf(tensors, sizeof tensors, "x s0=%s y s0=%s", all[i].value, all[i].value);
        snprintf(rest, sizeof rest, ",\"range_constraints\":{\"s1\":{},\"s0\":{%s}}", all[i].range);
        save_program("range.pt2", &(program){.nodes = "relu x -> y", .tensors = tensors, .rest = rest});
        last = (lam_error){.at = -1};
        if (lam_read(&m, "range.pt2", &grow, &last) != LAM_OK) fail_msg("%s", last.text);
        lam_costs *c = costs_of(m);
        const lam_growth *g = lam_costs_growth(c, 0);
        if ((g ? g->metric[LAM_FLOPS].how : LAM_GROWS_UNKNOWN) != all[i].how)
            fail_msg("%s in %s", all[i].value, all[i].range);
        lam_costs_free(c);
        lam_model_free(m);
    }
}

/* -- damage ---------------------------------------------------------------------------------------------- */

#define INNER(rest) "{\"as_graph\":{\"name\":\"g\",\"graph\":{\"nodes\":[]," rest "}}}"
static void damaged_graphs_are_refused_with_the_place(void **state) {
    (void)state;
    static const struct {
        const char *node, *part;
    } all[] = {
        {"higher_order.wrap x " INNER(
             "\"inputs\":[],\"tensor_values\":{\"a\":{\"sizes\":[]},\"a\":{\"sizes\":[]}}"),
         "a second tensor of this name"},
        {"higher_order.wrap x " INNER("\"inputs\":[{\"as_tensor\":{\"name\":\"a\"}},{\"as_tensor\":{\"name\":"
                                      "\"a\"}}],\"tensor_values\":{\"a\":{\"sizes\":[]}}"),
         "a graph with more inputs than it gets"},
        {"higher_order.wrap x " INNER("\"tensor_values\":{\"a\":{\"sizes\":[{\"as_int\":-1}]}}"),
         "a size below 0"},
        {".op x", "a target that names no operator"},
        {"aten. x", "a target that names no operator"},
        {"relu q", "a tensor that the graph does not have"},
        {"relu x @a", "a stack of modules without the path of one"},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        save_program("bad.pt2", &(program){.nodes = all[i].node, .tensors = "x 2 y 2"});
        refused("bad.pt2", LAM_FAILED, all[i].part);
    }
}

/* -- memory ---------------------------------------------------------------------------------------------- */

static void no_allocation_is_needed(void **state) {
    (void)state;
    static const program all[] = {
        {.nodes = "gelu x -> y @a,m,T\nrelu x -> z\nmine.op x [x] {\"as_bools\":[true]} -> [y,z]",
         .tensors = "x 2/1 y 2 z 2",
         .schema = 9},
        {.nodes = "higher_order.cond {\"as_bool\":true} " INNER("\"tensor_values\":{}") " -> y",
         .tensors = "x 2 y 2"},
    };
    oom_sweep_parts(read_once, "joint.pt2");
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        save_program("short.pt2", &all[i]);
        oom_sweep_parts(read_once, "short.pt2");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operators_tell_the_attributes_of_their_module),
        cmocka_unit_test(classes_outside_torch_have_no_attributes),
        cmocka_unit_test(types_and_devices_have_the_numbers_of_torch),
        cmocka_unit_test(arguments_of_every_kind_are_read),
        cmocka_unit_test(results_may_be_lists),
        cmocka_unit_test(paths_that_are_expressions_are_read),
        cmocka_unit_test(nodes_of_one_key_are_one_call),
        cmocka_unit_test(layers_tell_whether_a_model_trains),
        cmocka_unit_test(operators_that_gradients_alone_need_run_backward),
        cmocka_unit_test(a_size_is_set_within_its_range),
        cmocka_unit_test(a_program_of_fixed_sizes_says_so),
        cmocka_unit_test(open_sizes_are_told_once),
        cmocka_unit_test(sizes_grow_within_their_range),
        cmocka_unit_test(damaged_graphs_are_refused_with_the_place),
        cmocka_unit_test(no_allocation_is_needed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
