/* SPDX-License-Identifier: Apache-2.0
 *
 * Objects in checkpoints of torch: their classes, and those that are at several places. */
#include "kit/pickled.h"

static const pk_view six = {"FloatStorage", "0", 6, 0, 2, {2, 3}, {3, 1}};

static int64_t params_of(const lam_model *m) {
    lam_costs *c = costs_of(m);
    const int64_t n = lam_costs_params(c).params.n;
    lam_costs_free(c);
    return n;
}

/* Ways in which a pickle makes an object of a class: it, copyreg's function, and what torch kept of modules
 * with their source; its state may have slots beside it. */
enum { NEW, RECONSTRUCTED, KEPT, WITH_SLOTS, N_WAYS };

static void put_object(lmi_buf *b, int way, const char *module, const char *name) {
    if (way == RECONSTRUCTED) {
        pk_global(b, "copyreg", "_reconstructor");
        lmi_putc(b, '(');
        pk_global(b, module, name);
        pk_global(b, "builtins", "object");
        lmi_put(b, "NtR");
    } else if (way == KEPT) {
        lmi_putc(b, '(');
        pk_text(b, "module");
        pk_global(b, module, name);
        pk_text(b, "net.py");
        pk_text(b, "class Own: pass");
        lmi_put(b, "tQ)R");
    } else {
        pk_global(b, module, name);
        lmi_put(b, ")\x81");
    }
    lmi_put(b, way == WITH_SLOTS ? "(}(" : "}(");
    pk_text(b, "_parameters");
    lmi_put(b, "}(");
    pk_text(b, "weight");
    pk_tensor(b, &six);
    lmi_put(b, "u");
    pk_text(b, "_modules");
    lmi_put(b, way == WITH_SLOTS ? "}uNtb" : "}ub");
}

static void classes_are_found_however_an_object_was_made(void **state) {
    (void)state;
    static const size_t bytes[] = {24};
    static const struct {
        const char *module, *name, *path;
    } all[] = {{"net", "Own", "net.Own"},
               {"__torch__.net.___torch_mangle_3.deep", "Own", "net.deep.Own"},
               {"__torch__.___torch_mangle_7", "Own", "Own"},
               {"__torch__", "Own", "Own"}};
    for (int way = 0; way < N_WAYS; way++)
        for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
            lmi_buf b = pk_begin();
            put_object(&b, way, all[i].module, all[i].name);
            lmi_put(&b, ".");
            save_zip("object.pt", &b, 1, bytes);
            lam_model *m = opened("object.pt");
            assert_string_equal(lam_model_module(m, 0)->type, "Own");
            assert_string_equal(lam_model_module(m, 0)->type_path, all[i].path);
            assert_int_equal(params_of(m), 6);
            lam_model_free(m);
        }
}

/* An object at several places is shown at the first; without modules its tensors are its own. */
static void objects_at_several_places_are_told(void **state) {
    (void)state;
    static const size_t bytes[] = {24};
    for (int places = 2; places <= 3; places++) {
        lmi_buf b = pk_begin();
        lmi_put(&b, "}(");
        pk_text(&b, "first");
        put_object(&b, NEW, "net", "Own");
        lmi_put(&b, "q\x05");
        for (int k = 1; k < places; k++) {
            char name[16];
            snprintf(name, sizeof name, "again%d", k);
            pk_text(&b, name);
            lmi_put(&b, "h\x05");
        }
        lmi_put(&b, "u.");
        save_zip("again.pt", &b, 1, bytes);
        lam_model *m = opened("again.pt");
        assert_int_equal(params_of(m), 6);
        bool told = false;
        for (int32_t i = 0; i < lam_model_n_notes(m); i++)
            told = told || strstr(lam_model_note(m, i),
                                  places == 2 ? "1 object at several places is shown at the first"
                                              : "2 objects at several places are shown");
        assert_true(told);
        lam_model_free(m);
    }
    oom_sweep_parts(read_once, (void *)"again.pt");
}

/* Objects whose states are rows of values: a quantised convolution has its tensors among its numbers, and
 * a program lists what it wraps. */
static void a_state_may_be_a_row_of_values(void **state) {
    (void)state;
    static const size_t bytes[] = {24, 16};
    static const pk_view four = {"FloatStorage", "1", 4, 0, 1, {4}, {1}};
    static const struct {
        const char *module, *name, *type;
    } all[] = {{"torch.ao.nn.quantized.modules.conv", "Conv2d", "Conv2d"},
               {"__torch__.torch.classes.rnn", "CellParamsBase", "CellParamsBase"},
               {"net", "Own", "?"}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        lmi_buf b = pk_begin();
        lmi_put(&b, "}(");
        pk_text(&b, "c");
        pk_global(&b, all[i].module, all[i].name);
        lmi_put(&b, ")\x81(");
        pk_int(&b, 3);
        pk_tensor(&b, &six);
        pk_global(&b, "torch.jit._pickle", "restore_type_tag");
        lmi_put(&b, "(](");
        pk_global(&b, "torch.jit._pickle", "build_tensorlist");
        lmi_put(&b, "(](");
        pk_tensor(&b, &four);
        lmi_put(&b, "etRe");
        pk_text(&b, "List[List[Tensor]]");
        lmi_put(&b, "tRtbu.");
        save_zip("row.pt", &b, 2, bytes);
        lam_model *m = opened("row.pt");
        assert_int_equal(params_of(m), 6 + 4);
        assert_string_equal(lam_model_module(m, 0)->type, all[i].type); /* its tensors are under 'c' */
        lam_model_free(m);
    }
    oom_sweep_parts(read_once, (void *)"row.pt");
}

/* A quantised layer that was saved whole has what holds its weights as an attribute. */
static void an_object_of_cpp_has_its_tensors_in_its_state(void **state) {
    (void)state;
    static const size_t bytes[] = {24};
    static const char *const names[] = {"_packed_params", "param", "other"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        lmi_buf b = pk_begin();
        pk_global(&b, "net", "Own");
        lmi_put(&b, ")\x81}(");
        pk_text(&b, "_modules");
        lmi_put(&b, "}");
        pk_text(&b, names[i]);
        pk_global(&b, "torch", "ScriptObject");
        lmi_put(&b, ")\x81(");
        pk_tensor(&b, &six);
        lmi_put(&b, "tbub.");
        save_zip("cpp.pt", &b, 1, bytes);
        lam_model *m = opened("cpp.pt");
        assert_int_equal(params_of(m), i < 2 ? 6 : 0);
        lam_model_free(m);
    }
}

/* -- the code of TorchScript ------------------------------------------------------------------------------
 */

/* Two objects of a class with the tensors a, b and c, of 2 elements each; and code of the class. */
static void save_script(const char *module, const char *entry, const char *code, bool deflated) {
    static const char zeros[24];
    lmi_buf b = pk_begin();
    pk_global(&b, "__torch__", "Net");
    lmi_put(&b, ")\x81}(");
    for (int i = 0; i < 2; i++) {
        pk_text(&b, i ? "right" : "left");
        pk_global(&b, module, "Own");
        lmi_put(&b, ")\x81}(");
        for (int k = 0; k < 3; k++) {
            pk_text(&b, k == 0 ? "a" : k == 1 ? "b" : "c");
            pk_tensor(&b, &(pk_view){"FloatStorage", i ? "1" : "0", 6, 2 * k, 1, {2}, {1}});
        }
        lmi_put(&b, "ub");
    }
    lmi_put(&b, "ub.");
    zipped z = zip_begin();
    zip_add(&z, "net/data.pkl", b.s, b.n);
    zip_add(&z, "net/constants.pkl", "\x80\x02).", 4);
    zip_add(&z, "net/data/0", zeros, sizeof zeros);
    zip_add(&z, "net/data/1", zeros, sizeof zeros);
    if (deflated)
        zip_deflate(&z, entry, code, strlen(code));
    else
        zip_add(&z, entry, code, strlen(code));
    lmi_buf_free(&b);
    b = zip_end(&z);
    save_bytes("script.pt", &b);
    lmi_buf_free(&b);
}

/* What the code does not tell is told by types: all are parameters then. */
static void code_tells_which_tensors_are_parameters(void **state) {
    (void)state;
    static const char own[] = "net/code/__torch__/net/deep.py", module[] = "__torch__.net.deep";
    static const struct {
        const char *module, *entry, *code;
        int32_t parameters, buffers, out; /* names of each object */
    } all[] = {
        {module, own, "class Own(Module):\n  __parameters__ = [\"a\", ]\n  __buffers__ = [\"b\", \"c\", ]\n",
         1, 2, 0},
        {module, own, "class Own(Module):\n  __parameters__ = [\"a\", \"c\"]\n  __buffers__ = []\n", 2, 0, 1},
        {"__torch__", "net/code/__torch__.py",
         "op = 1\nclass Other(Module):\n  __parameters__ = []\n  __buffers__ = []\n\nclass Own(Module):\n"
         "  __parameters__ = [\"b\", ]\n  __buffers__ = [\"a\", ]\n  a : Tensor\n  def forward(s) -> "
         "Tensor:\n",
         1, 1, 1},
        {module, own, "class Own(Module):\n  __parameters__ = [\"ab\", \"a\n  __buffers__ = [\"b\", ]\n", 3,
         0, 0},
        {module, own, "class Own(Module):\n  __parameters__ = [\"ab\", \"a]\n  __buffers__ = [\"b\", ]\n", 0,
         1, 2},
        {module, own, "class Own(Module):\n  __parameters__ = [\"a\", ]\n", 3, 0,
         0}, /* as before buffers were told */
        {module, own,
         "  __parameters__ = []\n  __buffers__ = []\nclass Own(Module):\nx\n  __parameters__ = []\n", 3, 0,
         0},
        {module, own, "", 3, 0, 0},
        {module, "net/code/__torch__/net.py",
         "class Own(Module):\n  __parameters__ = []\n  __buffers__ = []\n", 3, 0, 0},
        {"net.deep", own, "class Own(Module):\n  __parameters__ = []\n  __buffers__ = []\n", 3, 0, 0},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        for (int deflated = 0; deflated < 2; deflated++) {
            save_script(all[i].module, all[i].entry, all[i].code, deflated);
            lam_model *m = opened("script.pt");
            lam_costs *c = costs_of(m);
            const lam_param_totals p = lam_costs_params(c);
            bool told = false;
            for (int32_t k = 0; k < lam_model_n_notes(m); k++)
                told = told || strstr(lam_model_note(m, k), "neither parameter nor buffer");
            if (p.params.n != 4 * all[i].parameters || p.buffers.n != 4 * all[i].buffers ||
                told != (all[i].out > 0))
                fail_msg("%s: %d and %d", all[i].code, (int)p.params.n, (int)p.buffers.n);
            lam_costs_free(c);
            lam_model_free(m);
        }
    oom_sweep_parts(read_once, "script.pt");
    oom_sweep_reads(read_once, "script.pt");
}

/* A list is searched for each tensor, so one that no class has is not kept. */
static void a_list_that_is_too_long_tells_nothing(void **state) {
    (void)state;
    static char code[40 << 10];
    lmi_buf list;
    lmi_buf_init(&list);
    for (int i = 0; i < 4000; i++) lmi_put(&list, "\"z\", ");
    snprintf(code, sizeof code, "class Own(Module):\n  __parameters__ = [%s]\n  __buffers__ = [\"a\", ]\n",
             lmi_buf_text(&list));
    lmi_buf_free(&list);
    save_script("__torch__.net.deep", "net/code/__torch__/net/deep.py", code, 0);
    lam_model *m = opened("script.pt");
    lam_costs *c = costs_of(m);
    is_exactly(lam_costs_params(c).params, 12);
    lam_costs_free(c);
    lam_model_free(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(classes_are_found_however_an_object_was_made),
        cmocka_unit_test(objects_at_several_places_are_told),
        cmocka_unit_test(a_state_may_be_a_row_of_values),
        cmocka_unit_test(an_object_of_cpp_has_its_tensors_in_its_state),
        cmocka_unit_test(code_tells_which_tensors_are_parameters),
        cmocka_unit_test(a_list_that_is_too_long_tells_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
