/* SPDX-License-Identifier: Apache-2.0
 *
 * ONNX files in which one field is of another kind, ends early, is missing or is there twice: each is read,
 * or refused with a sentence that names the place. And elements of constants in every field that may hold
 * them. */
#include "kit/onnx.h"

/* -- fields ---------------------------------------------------------------------------------------------- */

typedef struct field {
    uint64_t number, type;
    const unsigned char *from, *content, *end;
} field;

static bool take_varint(const unsigned char **p, const unsigned char *end, uint64_t *out) {
    *out = 0;
    for (int i = 0; i < 10 && *p < end; i++) {
        const unsigned char b = *(*p)++;
        *out |= (uint64_t)(b & 127) << 7 * i;
        if (b < 128) return true;
    }
    return false;
}

/* The next field of a message; false: there is none, or no message. */
static bool take_field(const unsigned char **p, const unsigned char *end, field *f) {
    uint64_t key, n = 0;
    f->from = *p;
    if (!take_varint(p, end, &key) || key >> 3 == 0 || key >> 3 > 64) return false;
    f->number = key >> 3;
    f->type = key & 7;
    f->content = *p;
    if (f->type == 0) {
        if (!take_varint(p, end, &n)) return false;
        n = 0;
    } else if (f->type == 2) {
        if (!take_varint(p, end, &n)) return false;
        f->content = *p;
    } else {
        n = f->type == 1 ? 8 : f->type == 5 ? 4 : UINT64_MAX;
    }
    if (n > (uint64_t)(end - *p)) return false;
    f->end = *p += n;
    return true;
}

static bool is_message(const field *f) {
    const unsigned char *p = f->content;
    field inner;
    if (f->type != 2 || f->content == f->end) return false;
    while (p < f->end)
        if (!take_field(&p, f->end, &inner)) return false;
    return true;
}

static void put_raw(lmi_buf *b, const unsigned char *from, const unsigned char *to) {
    lmi_putn(b, (const char *)from, (size_t)(to - from));
}

/* Another field in place of one, or none. */
enum { AS_NUMBER, AS_8_BYTES, AS_TEXT, AS_GROUP, AS_4_BYTES, CUT, WITHOUT, TWICE, N_CHANGES };

static void put_other(lmi_buf *b, const field *f, int how) {
    switch (how) {
    case AS_NUMBER: put_number(b, f->number, 1); return;
    case AS_8_BYTES:
        put_varint(b, f->number << 3 | 1);
        put_le(b, 3, 8);
        return;
    case AS_TEXT: put_word(b, f->number, "x"); return;
    case AS_GROUP: put_varint(b, f->number << 3 | 3); return;
    case AS_4_BYTES:
        put_varint(b, f->number << 3 | 5);
        put_le(b, 3, 4);
        return;
    case CUT:
        if (f->type != 2 || f->content == f->end)
            put_raw(b, f->from, f->end - 1);
        else
            put_bytes(b, f->number, (const char *)f->content, (size_t)(f->end - f->content) - 1);
        return;
    case TWICE:
        put_raw(b, f->from, f->end);
        put_raw(b, f->from, f->end);
        return;
    default: return;
    }
}

/* Puts a message in which the field at `*left` is another. Fields are counted from the outside in. */
static void put_changed(lmi_buf *b, const unsigned char *p, const unsigned char *end, int *left, int how) {
    field f;
    while (p < end && take_field(&p, end, &f)) {
        if ((*left)-- == 0) {
            put_other(b, &f, how);
        } else if (is_message(&f)) {
            lmi_buf inner = begun();
            put_changed(&inner, f.content, f.end, left, how);
            put_message(b, f.number, &inner);
        } else {
            put_raw(b, f.from, f.end);
        }
    }
}

static bool is_refused(const lmi_buf *b) {
    lam_model *m = NULL;
    last = (lam_error){.at = -1};
    save_bytes("field.onnx", b);
    const lam_status s = lam_read(&m, "field.onnx", NULL, &last);
    assert_true(s == LAM_OK ? m != NULL : !m);
    if (m) lam_costs_free(costs_of(m));
    lam_model_free(m);
    if (s == LAM_OK) return false;
    if ((s != LAM_FAILED && s != LAM_LIMIT && s != LAM_UNSUPPORTED) || !last.text[0])
        fail_msg("status %d: %s", (int)s, last.text);
    return true;
}

/* Returns the number of refusals. */
static int each_field(const lmi_buf *of) {
    const unsigned char *from = (const unsigned char *)of->s;
    int fields = INT32_MAX, refusals = 0;
    lmi_buf b = begun();
    put_changed(&b, from, from + of->n, &fields, 0);
    assert_int_equal(b.n, of->n);
    lmi_buf_free(&b);
    fields = INT32_MAX - fields;
    for (int i = 0; i < fields; i++) {
        for (int how = 0; how < N_CHANGES; how++) {
            int left = i;
            b = begun();
            put_changed(&b, from, from + of->n, &left, how);
            refusals += is_refused(&b);
            lmi_buf_free(&b);
        }
    }
    return refusals;
}

/* -- a model with fields of all kinds -------------------------------------------------------------------- */

static void put_note(lmi_buf *node, const char *key, const char *value) {
    lmi_buf entry = begun();
    put_word(&entry, 1, key);
    put_word(&entry, 2, value);
    put_message(node, 9, &entry);
}

/* A node with the notes of torch's newer exporter: the names and classes of the modules around it. */
static void put_noted(lmi_buf *graph, const char *words, const char *names, const char *types) {
    lmi_buf n = node_of(words);
    put_note(&n, "pkg.torch.onnx.name_scopes", names);
    if (*types) put_note(&n, "pkg.torch.onnx.class_hierarchy", types);
    put_note(&n, "other", "unread");
    put_message(graph, 1, &n);
}

/* An attribute of whole numbers: packed in one field, or one after the other; or of one number or text. */
static void put_ints(lmi_buf *node, const char *name, const char *numbers, bool packed) {
    lmi_buf a = begun(), all = begun();
    put_word(&a, 1, name);
    for (const char *at = numbers; *at;) {
        char *end;
        const uint64_t n = (uint64_t)strtoll(at, &end, 10);
        if (packed)
            put_varint(&all, n);
        else
            put_number(&a, 8, n);
        at = end + (*end == ',');
    }
    if (packed) put_message(&a, 8, &all);
    if (packed) put_number(&a, 20, 7);
    put_message(node, 5, &a);
    if (!packed) lmi_buf_free(&all);
}

static void put_floats(lmi_buf *to, uint64_t number, const float *f, int n, bool packed) {
    lmi_buf all = begun();
    for (int i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &f[i], sizeof bits);
        if (!packed) put_varint(to, number << 3 | 5);
        put_le(packed ? &all : to, bits, 4);
    }
    if (packed)
        put_message(to, number, &all);
    else
        lmi_buf_free(&all);
}

static void put_attribute(lmi_buf *node, const char *name, uint64_t number, uint64_t value,
                          const char *text) {
    lmi_buf a = begun();
    put_word(&a, 1, name);
    if (text)
        put_word(&a, number, text);
    else
        put_number(&a, number, value);
    put_message(node, 5, &a);
}

/* A Constant whose value is in an attribute. */
static void put_constant_node(lmi_buf *graph, const char *out, const char *attribute, const char *numbers,
                              bool packed) {
    char words[64];
    lmi_buf a = begun();
    const float f[] = {0.5F, 2.5F, 4.0F};
    snprintf(words, sizeof words, "Constant - %s -", out);
    lmi_buf n = node_of(words);
    if (strcmp(attribute, "value_ints") == 0) put_ints(&n, attribute, numbers, packed);
    if (strcmp(attribute, "value_int") == 0)
        put_attribute(&n, attribute, 3, (uint64_t)strtoll(numbers, NULL, 10), NULL);
    if (strcmp(attribute, "value_string") == 0) put_attribute(&n, attribute, 4, 0, numbers);
    if (strncmp(attribute, "value_float", 11) == 0) {
        put_word(&a, 1, attribute);
        put_floats(&a, attribute[11] ? 7 : 2, f, attribute[11] ? 3 : 1, packed && attribute[11]);
        put_message(&n, 5, &a);
    }
    lmi_buf_free(&a);
    put_message(graph, 1, &n);
}

/* Two modules, one called twice, one without weights; constants of every kind. */
static lmi_buf rich(void) {
    static const char *const inside = "['net.Net', 'torch.nn.modules.linear.Linear', 'aten.linear.default']";
    lmi_buf g = begun();
    put_noted(&g, "MatMul x,fc.weight a node_1", "['', 'fc', 'linear']", inside);
    put_noted(&g, "Relu a b node_2", "['', 'act', 'relu']",
              "['net.Net', 'torch.nn.modules.activation.ReLU', 'aten.relu.default']");
    put_noted(&g, "MatMul b,fc.weight c node_3", "['', 'fc', 'linear_1']", inside);
    put_noted(&g, "MatMul c,deep.0.weight d node_4", "[\"\", \"deep\", \"deep.0\", \"linear_2\"]",
              "['net.Net', 'Sequential', 'Linear', 'aten.linear.default']");
    put_constant_node(&g, "shape", "value_ints", "4,3", true);
    put_noted(&g, "Reshape d,shape e node_5", "['', 'view']", "");
    put_constant_node(&g, "axis", "value_int", "0", false);
    put_constant_node(&g, "text", "value_string", "words", false);
    put_constant_node(&g, "some", "value_floats", "", true);
    put_constant_node(&g, "one", "value_float", "", false);
    lmi_buf n = node_of("Concat e,e f node_6");
    put_attribute(&n, "axis", 3, 1, NULL);
    put_attribute(&n, "note", 4, 0, "a text");
    put_attribute(&n, "notes", 9, 0, "a text of a list");
    put_ints(&n, "odd", "1,2", false);
    put_message(&g, 1, &n);
    put_tensor(&g, 5, "fc.weight 1 4,4 64");
    put_tensor(&g, 5, "deep.0.weight 1 4,4 64");
    put_stated(&g, 11, "x 3,4");
    put_stated(&g, 12, "f 4,6");
    lmi_buf b = model_of(&g), entry = begun();
    put_word(&b, 2, "pytorch");
    put_word(&b, 3, "2.13.0");
    put_word(&entry, 1, "key");
    put_word(&entry, 2, "value");
    put_message(&b, 14, &entry);
    return b;
}

static void a_field_of_another_kind_is_refused_or_of_no_matter(void **state) {
    (void)state;
    lmi_buf b = rich();
    assert_false(is_refused(&b));
    assert_true(each_field(&b) > 100);
    lmi_buf_free(&b);
}

static void so_is_one_of_a_file_of_odd_parts(void **state) {
    (void)state;
    lmi_buf b = begun();
    char bytes[8192];
    FILE *f = fopen(LAMINA_TEST_DATA "/files/odd.onnx", "rb");
    assert_non_null(f);
    lmi_putn(&b, bytes, fread(bytes, 1, sizeof bytes, f));
    fclose(f);
    assert_true(each_field(&b) > 100);
    lmi_buf_free(&b);
}

/* -- modules --------------------------------------------------------------------------------------------- */

static void notes_of_nodes_name_modules_and_their_calls(void **state) {
    (void)state;
    lmi_buf b = rich();
    save_bytes("rich.onnx", &b);
    lmi_buf_free(&b);
    lam_model *m = opened("rich.onnx");
    lam_costs *c = costs_of(m);
    int calls = 0;
    for (int32_t i = 0; i < lam_costs_n_rows(c); i++)
        calls += strcmp(lam_model_place(m, lam_costs_row(c, i)->place)->path, "fc") == 0;
    assert_int_equal(calls, 2);
    is_exactly(lam_costs_total(c, LAM_MACS), 3 * (3 * 4 * 4));
    is_exactly(row_of(c, "deep.0")->metric[LAM_MACS], 3 * 4 * 4);
    assert_string_equal(lam_model_module(m, row_of(c, "fc")->module)->type, "Linear");
    assert_string_equal(lam_model_module(m, row_of(c, "act")->module)->type, "ReLU");
    assert_string_equal(lam_model_module(m, row_of(c, "")->module)->type, "Net");
    lam_costs_free(c);
    lam_model_free(m);
}

/* A convolution that a normalisation was folded into has its name, and weights of its own. */
static void weights_name_the_module_of_a_folded_normalisation(void **state) {
    (void)state;
    static const char *const types =
        "['net.Net', 'torch.nn.modules.batchnorm.BatchNorm2d', 'aten.batch_norm.default']";
    lmi_buf g = begun();
    put_noted(&g, "Conv x,body.conv.weight y n1", "['', 'body.bn', 'batch_norm']", types);
    put_noted(&g, "Relu y z n2", "['', 'act', 'relu']", "");
    put_tensor(&g, 5, "body.conv.weight 1 2,3,1,1 24");
    put_stated(&g, 11, "x 1,3,4,4");
    put_stated(&g, 12, "z 1,2,4,4");
    save_graph("folded.onnx", &g);
    lam_model *m = opened("folded.onnx");
    lam_costs *c = costs_of(m);
    is_exactly(row_of(c, "body.conv")->metric[LAM_MACS], 2 * 3 * 16);
    assert_non_null(strstr(lam_model_note(m, 0), "folded"));
    lam_costs_free(c);
    lam_model_free(m);
}

/* Notes that are cut, or do not begin with the model, tell nothing: the name of the node does. */
static void notes_that_tell_nothing_leave_the_name(void **state) {
    (void)state;
    static const char *const names[] = {"['layer', 'linear']", "[", "['", "[]", "['', '']", ""};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        lmi_buf g = begun();
        put_noted(&g, "MatMul x,w y /a/b/b.0/MatMul", names[i], "");
        put_noted(&g, "Relu y z //a/b_1/Relu", names[i], "");
        put_tensor(&g, 5, "w 1 4,4 64");
        put_stated(&g, 11, "x 3,4");
        put_stated(&g, 12, "z 3,4");
        save_graph("named.onnx", &g);
        lam_model *m = opened("named.onnx");
        lam_costs *c = costs_of(m);
        is_exactly(row_of(c, "a.b.0")->metric[LAM_MACS], 48);
        lam_costs_free(c);
        lam_model_free(m);
    }
}

/* -- elements -------------------------------------------------------------------------------------------- */

/* Adds an initialiser of two elements in the field of its type, packed or not. */
static void put_elements(lmi_buf *graph, const char *name, int type, uint64_t number, const uint64_t bits[2],
                         bool packed) {
    lmi_buf t = begun(), all = begun();
    put_number(&t, 1, 2);
    put_number(&t, 2, (uint64_t)type);
    put_word(&t, 8, name);
    const int bytes = number == 4 ? 4 : number == 10 ? 8 : 0;
    for (int i = 0; i < 2; i++) {
        lmi_buf *to = packed ? &all : &t;
        if (!packed) put_varint(to, number << 3 | (uint64_t)(bytes == 4 ? 5 : bytes == 8 ? 1 : 0));
        if (bytes)
            put_le(to, bits[i], bytes);
        else
            put_varint(to, bits[i]);
    }
    if (packed)
        put_message(&t, number, &all);
    else
        lmi_buf_free(&all);
    put_message(graph, 5, &t);
}

/* The shape that a Reshape gets: 6 and 2 in an initialiser of a type that is cast to whole numbers. */
static void elements_are_read_from_the_field_of_their_type(void **state) {
    (void)state;
    static const struct {
        int type;
        uint64_t number, bits[2];
    } all[] = {
        {1, 4, {0x40c00000, 0x40000000}},                   /* FLOAT */
        {2, 5, {6, 2}},                                     /* UINT8 */
        {3, 5, {6, 2}},                                     /* INT8 */
        {4, 5, {6, 2}},                                     /* UINT16 */
        {5, 5, {6, 2}},                                     /* INT16 */
        {6, 5, {6, 2}},                                     /* INT32 */
        {7, 7, {6, 2}},                                     /* INT64 */
        {10, 5, {0x4600, 0x4000}},                          /* FLOAT16 */
        {11, 10, {0x4018000000000000, 0x4000000000000000}}, /* DOUBLE */
        {12, 11, {6, 2}},                                   /* UINT32 */
        {13, 11, {6, 2}},                                   /* UINT64 */
        {16, 5, {0x40c0, 0x4000}},                          /* BFLOAT16 */
    };
    for (size_t i = 0; i < 2 * sizeof all / sizeof *all; i++) {
        lmi_buf g = begun(), n = node_of("Cast told shape -");
        put_attribute(&n, "to", 3, 7, NULL);
        put_message(&g, 1, &n);
        put_node(&g, "Reshape x,shape y -");
        put_node(&g, "MatMul y,w z -");
        put_elements(&g, "told", all[i / 2].type, all[i / 2].number, all[i / 2].bits, i % 2);
        put_tensor(&g, 5, "w 1 2,5 40");
        put_stated(&g, 11, "x 3,4");
        put_word(&g, 2, "elements");
        save_graph("elements.onnx", &g);
        lam_model *m = opened("elements.onnx");
        lam_costs *c = costs_of(m);
        const lam_count macs = lam_costs_total(c, LAM_MACS);
        if (macs.state != LAM_EXACT || macs.n != 6 * 2 * 5)
            fail_msg("type %d: %d", all[i / 2].type, (int)macs.n);
        lam_costs_free(c);
        lam_model_free(m);
    }
}

/* The MACs of a product whose factor has the shape of a constant; -1: unknown. */
static int64_t macs_reshaped(lmi_buf *g, const char *factor) {
    put_node(g, "Reshape x,shape y -");
    put_node(g, "MatMul y,w z -");
    put_tensor(g, 5, factor);
    put_stated(g, 11, "x 3,4");
    save_graph("shape.onnx", g);
    lam_model *m = opened("shape.onnx");
    lam_costs *c = costs_of(m);
    const lam_count macs = lam_costs_total(c, LAM_MACS);
    lam_costs_free(c);
    lam_model_free(m);
    return macs.state == LAM_EXACT ? macs.n : -1;
}

/* An initialiser of as many elements as it says, whose field has two. */
static void elements_that_are_too_few_or_too_many_are_unknown(void **state) {
    (void)state;
    for (int n = 1; n <= 3; n++)
        for (int packed = 0; packed < 2; packed++) {
            lmi_buf g = begun(), t = begun(), all = begun();
            put_number(&t, 1, (uint64_t)n);
            put_number(&t, 2, 7);
            put_word(&t, 8, "shape");
            for (int i = 6; i >= 2; i -= 4)
                if (packed)
                    put_varint(&all, (uint64_t)i);
                else
                    put_number(&t, 7, (uint64_t)i);
            if (packed)
                put_message(&t, 7, &all);
            else
                lmi_buf_free(&all);
            put_message(&g, 5, &t);
            assert_int_equal(macs_reshaped(&g, "w 1 2,5 40"), n == 2 ? 6 * 2 * 5 : -1);
        }
}

/* A constant whose attribute has numbers of another kind than its name says is no shape of zeros. */
static void constants_of_another_kind_are_unknown(void **state) {
    (void)state;
    const float f[] = {6, 2};
    lmi_buf g = begun(), n = node_of("Constant - shape -"), a = begun();
    put_word(&a, 1, "value_ints");
    put_floats(&a, 7, f, 2, true);
    put_message(&n, 5, &a);
    put_message(&g, 1, &n);
    assert_int_equal(macs_reshaped(&g, "w 1 4,5 80"), -1);
}

/* The names of weights tell their modules, but those that are no paths. */
static void names_of_weights_tell_their_module(void **state) {
    (void)state;
    static const struct {
        const char *weight, *path;
    } all[] = {{"fc.weight", "fc"},  {"a.b.weight", "a.b"}, {"weight", NULL},
               {".weight", NULL},    {"fc.", NULL},         {"a..weight", NULL},
               {"a/b.weight", NULL}, {"a:b.weight", NULL},  {"a..b.weight", NULL}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        char node[64], tensor[64];
        lmi_buf g = begun();
        snprintf(node, sizeof node, "MatMul x,%s y -", all[i].weight);
        snprintf(tensor, sizeof tensor, "%s 1 4,4 64", all[i].weight);
        put_node(&g, node);
        put_tensor(&g, 5, tensor);
        put_stated(&g, 11, "x 3,4");
        put_stated(&g, 12, "y 3,4");
        save_graph("names.onnx", &g);
        lam_model *m = opened("names.onnx");
        if (all[i].path ? lam_model_find(m, all[i].path) <= 0 : lam_model_n_places(m) > 2)
            fail_msg("%s is at %s", all[i].weight, lam_model_place(m, lam_model_n_places(m) - 1)->path);
        lam_costs *c = costs_of(m);
        is_exactly(lam_costs_params(c).params, 16);
        lam_costs_free(c);
        lam_model_free(m);
    }
}

/* -- memory ---------------------------------------------------------------------------------------------- */

static void no_allocation_is_needed(void **state) {
    (void)state;
    lmi_buf b = rich();
    save_bytes("rich.onnx", &b);
    lmi_buf_free(&b);
    oom_sweep_parts(read_once, (void *)"rich.onnx");
    oom_sweep_parts(read_once, (void *)"elements.onnx");
    oom_sweep_parts(read_once, (void *)"folded.onnx");
    oom_sweep_parts(read_once, (void *)"named.onnx");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_field_of_another_kind_is_refused_or_of_no_matter),
        cmocka_unit_test(so_is_one_of_a_file_of_odd_parts),
        cmocka_unit_test(notes_of_nodes_name_modules_and_their_calls),
        cmocka_unit_test(weights_name_the_module_of_a_folded_normalisation),
        cmocka_unit_test(notes_that_tell_nothing_leave_the_name),
        cmocka_unit_test(elements_that_are_too_few_or_too_many_are_unknown),
        cmocka_unit_test(constants_of_another_kind_are_unknown),
        cmocka_unit_test(names_of_weights_tell_their_module),
        cmocka_unit_test(elements_are_read_from_the_field_of_their_type),
        cmocka_unit_test(no_allocation_is_needed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
