/* SPDX-License-Identifier: Apache-2.0
 *
 * Checkpoints of torch, whole ones, damaged ones, and such that lie; and what loading files would import. */
#include "kit/damaged.h"
#include "kit/pickled.h"

#include "base/inflate.h"

#include <unistd.h>

static lam_param_totals totals_of(const lam_model *m) {
    lam_costs *c = NULL;
    assert_int_equal(lam_costs_new(&c, m, NULL, &last), LAM_OK);
    lam_param_totals p = lam_costs_params(c);
    lam_costs_free(c);
    return p;
}

static void has(const char *path, int64_t params, int64_t bytes, int64_t buffers) {
    lam_model *m = opened(path);
    lam_param_totals p = totals_of(m);
    assert_int_equal(p.params.n, params);
    assert_int_equal(p.param_bytes.n, bytes);
    assert_int_equal(p.buffers.n, buffers);
    lam_model_free(m);
}

static const pk_view six = {"FloatStorage", "0", 6, 0, 2, {2, 3}, {3, 1}};
static const pk_view half = {"HalfStorage", "1", 8, 4, 1, {4}, {1}};

/* -- state dicts ----------------------------------------------------------------------------------------- */

static void a_state_dict_has_its_tensors(void **state) {
    (void)state;
    static const size_t bytes[] = {24, 16};
    lmi_buf b = pk_begin();
    lmi_put(&b, "}(");
    pk_text(&b, "fc.weight");
    pk_tensor(&b, &six);
    pk_text(&b, "tied.weight"); /* the same view of the same storage */
    pk_tensor(&b, &six);
    pk_text(&b, "fc.bias");
    pk_tensor(&b, &half);
    pk_text(&b, "bn.num_batches_tracked");
    pk_tensor(&b, &(pk_view){"LongStorage", "1", 2, 1, 0, {0}, {0}});
    lmi_put(&b, "u.");
    save_zip("state.pt", &b, 2, bytes);
    assert_string_equal(lam_read_format("state.pt"), "checkpoint");
    has("state.pt", 6 + 4, 24 + 8, 1);
    lam_model *m = opened("state.pt");
    assert_true(lam_model_find(m, "tied") > 0);
    assert_string_equal(lam_model_told(m, "format"), "checkpoint");
    lam_model_free(m);
}

/* A number and a text may read alike, and a name may be no text at all. */
static void names_that_read_alike_are_two_tensors(void **state) {
    (void)state;
    static const size_t bytes[] = {24, 16};
    lmi_buf b = pk_begin();
    lmi_put(&b, "}(");
    pk_int(&b, 0);
    pk_tensor(&b, &six);
    pk_text(&b, "0");
    pk_tensor(&b, &half);
    lmi_put(&b, "N"); /* None */
    pk_tensor(&b, &six);
    lmi_put(&b, "u.");
    save_zip("alike.pt", &b, 2, bytes);
    has("alike.pt", 6 + 4, 24 + 8, 0);
}

/* The shards of an index may be checkpoints. */
static void an_index_joins_checkpoints(void **state) {
    (void)state;
    a_state_dict_has_its_tensors(NULL);
    save_words("bin.index.json", "{\"weight_map\":{\"fc.weight\":\"state.pt\",\"fc.bias\":\"state.pt\"}}");
    has("bin.index.json", 6 + 4, 24 + 8, 1);
    lam_model *m = opened("bin.index.json");
    assert_string_equal(lam_model_told(m, "format"), "checkpoint");
    lam_model_free(m);
}

/* A checkpoint of a training has the state under a name, beside an optimizer's. */
static void the_state_of_a_training_is_that_of_its_model(void **state) {
    (void)state;
    static const size_t bytes[] = {24, 16};
    lmi_buf b = pk_begin();
    lmi_put(&b, "}(");
    pk_text(&b, "epoch");
    pk_int(&b, 7);
    pk_text(&b, "model");
    lmi_put(&b, "}(");
    pk_text(&b, "fc.weight");
    pk_tensor(&b, &six);
    lmi_put(&b, "u");
    pk_text(&b, "optimizer");
    lmi_put(&b, "}(");
    pk_text(&b, "state");
    lmi_put(&b, "}(");
    pk_int(&b, 0);
    pk_tensor(&b, &half);
    lmi_put(&b, "u");
    pk_text(&b, "param_groups");
    lmi_put(&b, "]uu.");
    save_zip("training.pt", &b, 2, bytes);
    has("training.pt", 6, 24, 0);
    lam_model *m = opened("training.pt");
    assert_true(lam_model_find(m, "fc") > 0);
    assert_string_equal(lam_model_note(m, 0), "its tensors are under 'model'");
    assert_string_equal(lam_model_note(m, 1), "the state of an optimizer is left out");
    lam_model_free(m);
}

/* Sequential(0: a class of somebody's own), saved whole, with a parameter, a buffer and a module without any.
 */
static void a_module_that_was_saved_whole_has_its_classes(void **state) {
    (void)state;
    static const size_t bytes[] = {24, 16};
    lmi_buf b = pk_begin();
    pk_global(&b, "torch.nn.modules.container", "Sequential");
    lmi_put(&b, ")\x81}(");
    pk_text(&b, "_parameters");
    lmi_put(&b, "}");
    pk_text(&b, "_buffers");
    lmi_put(&b, "}");
    pk_text(&b, "_modules");
    lmi_put(&b, "}(");
    pk_text(&b, "0");
    pk_global(&b, "net", "Own");
    lmi_put(&b, ")\x81}(");
    pk_text(&b, "_parameters");
    lmi_put(&b, "}(");
    pk_text(&b, "weight");
    pk_global(&b, "torch._utils", "_rebuild_parameter");
    lmi_putc(&b, '(');
    pk_tensor(&b, &six);
    lmi_put(&b, "\x88)tRu");
    pk_text(&b, "_buffers");
    lmi_put(&b, "}(");
    pk_text(&b, "mask");
    pk_tensor(&b, &half);
    lmi_put(&b, "u");
    pk_text(&b, "_modules");
    lmi_put(&b, "}ub");
    pk_text(&b, "1");
    pk_global(&b, "torch.nn.modules.activation", "ReLU");
    lmi_put(&b, ")\x81}(");
    pk_text(&b, "_modules");
    lmi_put(&b, "}ubuub.");
    save_zip("whole.pt", &b, 2, bytes);
    has("whole.pt", 6, 24, 4);
    lam_model *m = opened("whole.pt");
    assert_int_equal(lam_model_n_places(m), 3);
    assert_string_equal(lam_model_module(m, 0)->type, "Sequential");
    assert_string_equal(lam_model_module(m, 1)->type_path, "net.Own");
    assert_string_equal(lam_model_module(m, 2)->type, "ReLU");
    assert_int_equal(lam_model_n_notes(m), 0); /* what is a buffer is told */
    lam_model_free(m);
}

/* -- legacy files ---------------------------------------------------------------------------------------- */

static lmi_buf legacy(const char *storage, int64_t elements) {
    lmi_buf b = pk_begin();
    lmi_putn(&b, "\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.", 13);
    lmi_putn(&b, "\x80\x02M\xe9\x03.\x80\x02}.\x80\x02}(", 14);
    pk_text(&b, "fc.weight");
    pk_tensor(&b, &six);
    lmi_putn(&b, "u.\x80\x02](", 6);
    pk_text(&b, storage);
    lmi_put(&b, "e.");
    put_le(&b, (uint64_t)elements, 8);
    lmi_pad(&b, '\0', 24);
    return b;
}

static void legacy_files_have_their_storages_behind_the_pickles(void **state) {
    (void)state;
    static const struct {
        const char *storage;
        int64_t elements;
        const char *says; /* NULL: it is whole */
    } files[] = {{"0", 6, NULL},
                 {"0", 7, "cut off"},
                 {"0", 5, "does not have whole"},
                 {"0", INT64_MAX, "longer than the file"},
                 {"9", 6, "no tensor is in"}};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        lmi_buf b = legacy(files[i].storage, files[i].elements);
        save_bytes("legacy.pt", &b);
        lmi_buf_free(&b);
        assert_string_equal(lam_read_format("legacy.pt"), "checkpoint");
        if (files[i].says)
            refused("legacy.pt", LAM_FAILED, files[i].says);
        else
            has("legacy.pt", 6, 24, 0);
    }
}

/* -- damaged files --------------------------------------------------------------------------------------- */

static void save_one(const char *file, const pk_view *v, size_t bytes) {
    lmi_buf b = pk_begin();
    lmi_put(&b, "}(");
    pk_text(&b, "w");
    pk_tensor(&b, v);
    lmi_put(&b, "u.");
    save_zip(file, &b, 1, &bytes);
}

static void tensors_are_inside_their_storages(void **state) {
    (void)state;
    static const struct {
        pk_view v;
        size_t bytes;
        const char *says;
    } bad[] = {{{"FloatStorage", "0", 6, 1, 2, {2, 3}, {3, 1}}, 24, "behind the end of its storage"},
               {{"FloatStorage", "0", 6, 0, 2, {2, 3}, {4, 1}}, 24, "behind the end of its storage"},
               {{"FloatStorage", "0", 6, 0, 2, {-2, 3}, {3, 1}}, 24, "can't be"},
               {{"FloatStorage", "0", 6, 0, 2, {2, 3}, {-3, 1}}, 24, "can't be"},
               {{"FloatStorage", "0", 6, -1, 2, {2, 3}, {3, 1}}, 24, "can't be"},
               {{"FloatStorage", "0", 6, 0, 2, {2, 3}, {3, 1}}, 23, "too short"},
               {{"FloatStorage", "7", 6, 0, 2, {2, 3}, {3, 1}}, 24, "does not have: '7'"},
               {{"FloatStorage", "0", -6, 0, 2, {2, 3}, {3, 1}}, 24, "no storage"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        save_one("bad.pt", &bad[i].v, bad[i].bytes);
        refused("bad.pt", LAM_FAILED, bad[i].says);
    }
    save_one("empty.pt", &(pk_view){"FloatStorage", "0", 0, 0, 2, {0, 3}, {3, 1}}, 0);
    has("empty.pt", 0, 0, 0);
    save_one("expanded.pt", &(pk_view){"FloatStorage", "0", 1, 0, 2, {2, 3}, {0, 0}}, 4);
    has("expanded.pt", 6, 24, 0);
}

/* An argument of what makes a tensor: s a storage of 6 floats, u one of 24 bytes, h one of halves of bytes; i
 * the offset 0; z its sizes, l as a list, Z as a torch.Size, y with a text; t strides by rows, v by columns,
 * e all 0, q too few; d a type, T a function, a its arguments, c a class; x another text, n nothing. */
static void put_part(lmi_buf *b, char part) {
    static const int64_t sizes[] = {2, 3}, rows[] = {3, 1}, columns[] = {1, 2}, none[] = {0, 0};
    switch (part) {
    case 's': pk_storage(b, "FloatStorage", "0", 6); break;
    case 'u': pk_storage(b, "UntypedStorage", "0", 24); break;
    case 'h': pk_storage(b, "QUInt4x2Storage", "0", 48); break;
    case 'i': pk_int(b, 0); break;
    case 'z': pk_ints(b, 2, sizes); break;
    case 'l':
        lmi_put(b, "](");
        pk_int(b, 2);
        pk_int(b, 3);
        lmi_putc(b, 'e');
        break;
    case 'Z':
        pk_global(b, "torch", "Size");
        lmi_putc(b, '(');
        pk_ints(b, 2, sizes);
        lmi_put(b, "tR");
        break;
    case 'y':
        lmi_putc(b, '(');
        pk_text(b, "two");
        pk_int(b, 3);
        lmi_putc(b, 't');
        break;
    case 't': pk_ints(b, 2, rows); break;
    case 'v': pk_ints(b, 2, columns); break;
    case 'e': pk_ints(b, 2, none); break;
    case 'q': pk_ints(b, 1, rows); break;
    case 'd': pk_global(b, "torch", "float16"); break;
    case 'T': pk_global(b, "torch._utils", "_rebuild_tensor_v2"); break;
    case 'c': pk_global(b, "net", "Tensor"); break;
    case 'a':
        lmi_putc(b, '(');
        for (const char *c = "siztnn"; *c; c++) put_part(b, *c);
        lmi_putc(b, 't');
        break;
    case 'x': pk_text(b, "other"); break;
    case 'o': /* indices, values and a size; with two of indices as p; with a size that can't be as H */
    case 'p':
    case 'H': {
        static const int64_t most[] = {INT32_MAX, INT32_MAX, INT32_MAX};
        lmi_putc(b, '(');
        for (int i = 0; i < (part == 'p' ? 2 : 1); i++)
            pk_tensor(b, &(pk_view){"LongStorage", "0", 3, 0, 1, {3}, {1}});
        pk_tensor(b, &(pk_view){"HalfStorage", "0", 3, 0, 1, {3}, {1}});
        pk_ints(b, part == 'H' ? 3 : 2, part == 'H' ? most : sizes);
        lmi_putc(b, 't');
        break;
    }
    default: lmi_putc(b, 'N');
    }
}

static void save_rebuilt(const char *module, const char *function, const char *parts, const char *order) {
    static const char zeros[24];
    lmi_buf b = pk_begin();
    lmi_put(&b, "}(");
    pk_text(&b, "fc.w");
    pk_global(&b, module, function);
    lmi_putc(&b, '(');
    while (*parts) put_part(&b, *parts++);
    lmi_put(&b, "tRu.");
    zipped z = zip_begin();
    zip_add(&z, "net/data.pkl", b.s, b.n);
    zip_add(&z, "net/data/0", zeros, sizeof zeros);
    if (order) zip_add(&z, "net/byteorder", order, strlen(order));
    lmi_buf_free(&b);
    b = zip_end(&z);
    save_bytes("rebuilt.pt", &b);
    lmi_buf_free(&b);
}

static void tensors_are_rebuilt_in_several_ways(void **state) {
    (void)state;
    static const struct {
        const char *module, *function, *parts, *order;
        int64_t params, bytes;
        const char *unread; /* why its values are not checked */
    } all[] = {
        {"torch._utils", "_rebuild_tensor", "sizt", NULL, 6, 24, NULL},
        {"torch._utils", "_rebuild_tensor_v2", "siZtnn", "little", 6, 24, NULL},
        {"torch._utils", "_rebuild_tensor_v2", "siltnn", NULL, 6, 24, NULL},
        {"torch._utils", "_rebuild_tensor_v2", "sizvnn", NULL, 6, 24, NULL},
        {"torch._utils", "_rebuild_tensor_v2", "siztnn", "big", 6, 24, "in the other byte order"},
        {"torch._utils", "_rebuild_tensor_v2", "sizenn", NULL, 6, 24,
         "elements of its storage several times"},
        {"torch._utils", "_rebuild_tensor_v2", "hiztnn", NULL, 6, 3, "no whole bytes"},
        {"torch._utils", "_rebuild_tensor_v3", "uiztnnd", NULL, 6, 12, NULL},
        {"torch._utils", "_rebuild_qtensor", "siztnnn", NULL, 6, 24, "its scales are not read"},
        {"torch._utils", "_rebuild_meta_tensor_no_storage", "dztn", NULL, 6, 0, "on the meta device"},
        {"torch._utils", "_rebuild_sparse_tensor", "x", NULL, -1, -1, "kept in a way that is not read"},
        {"torch._utils", "_rebuild_sparse_tensor", "no", NULL, 6, 24 + 6, "kept in a way that is not read"},
        {"torch._utils", "_rebuild_sparse_csr_tensor", "np", NULL, 6, 48 + 6,
         "kept in a way that is not read"},
        {"torch._utils", "_rebuild_sparse_tensor", "na", NULL, 6, -1, "kept in a way that is not read"},
        {"torch._utils", "_rebuild_xla_tensor", "x", NULL, -1, -1, "kept in a way that is not read"},
        {"torch._utils", "_rebuild_nobody_knows", "siztnn", NULL, 0, 0, NULL},
        {"torch._tensor", "_rebuild_from_type_v2", "Tcan", NULL, 6, 24, NULL},
        {"torch._tensor", "_rebuild_from_type_v2", "xcan", NULL, 0, 0, NULL},
        {"torch._tensor", "_rebuild_from_type_v2", "ccan", NULL, 0, 0, NULL},
        {"torch._tensor", "_rebuild_other", "Tcan", NULL, 0, 0, NULL},
    };
    static const lam_read_options o = {.health = true};
    all_of_it = o;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        save_rebuilt(all[i].module, all[i].function, all[i].parts, all[i].order);
        lam_model *m = NULL;
        last = (lam_error){.at = -1};
        if (lam_read(&m, "rebuilt.pt", &o, &last) != LAM_OK) fail_msg("%s: %s", all[i].function, last.text);
        const lam_param_totals p = totals_of(m);
        const int64_t params = p.params.state == LAM_EXACT ? p.params.n : -1;
        const int64_t bytes = p.param_bytes.state == LAM_EXACT ? p.param_bytes.n : -1;
        if (params != all[i].params || bytes != all[i].bytes)
            fail_msg("%s %s: %d parameters of %d bytes", all[i].function, all[i].parts, (int)params,
                     (int)bytes);
        bool told = false;
        for (int32_t k = 0; k < lam_model_n_notes(m); k++) {
            const char *note = lam_model_note(m, k);
            told = told || (strstr(note, "not checked") && (!all[i].unread || strstr(note, all[i].unread)));
        }
        if (told != (all[i].unread != NULL))
            fail_msg("%s: %s", all[i].function, told ? "is told" : "is not told");
        lam_model_free(m);
        oom_sweep_parts(read_searching, (void *)(uintptr_t) "rebuilt.pt");
        oom_sweep_reads(read_searching, (void *)(uintptr_t) "rebuilt.pt");
    }
    static const char *const bad[][3] = {
        {"_rebuild_tensor_v2", "siytnn", "no shape and strides"},
        {"_rebuild_tensor_v2", "sixtnn", "no shape and strides"},
        {"_rebuild_tensor_v2", "sizqnn", "no shape and strides"},
        {"_rebuild_tensor_v2", "siz", "no shape and strides"},
        {"_rebuild_tensor_v2", "sxztnn", "no shape and strides"},
        {"_rebuild_tensor_v2", "iiztnn", "no storage"},
        {"_rebuild_tensor_v2", "", "no storage"},
        {"_rebuild_meta_tensor_no_storage", "dx", "no shape"},
        {"_rebuild_meta_tensor_no_storage", "d", "no shape"},
        {"_rebuild_sparse_tensor", "nH", "that is sparse has a shape that can't be"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        save_rebuilt("torch._utils", bad[i][0], bad[i][1], NULL);
        refused("rebuilt.pt", LAM_FAILED, bad[i][2]);
    }
    save_rebuilt("torch._utils", "_rebuild_tensor", "sizt",
                 "a text that is longer than any name of a byte order is, "
                 "and that is no such name");
    last = (lam_error){.at = -1};
    lam_model *m = NULL;
    assert_int_equal(lam_read(&m, "rebuilt.pt", &o, &last), LAM_LIMIT);
    assert_non_null(strstr(last.text, "at most 64"));
}

/* -- tensors that hold others ---------------------------------------------------------------------------- */

/* _rebuild_from_type_v2(_rebuild_wrapper_subclass, class, (class, bfloat16 or float32, size, ...), state).
 * The state: q 32 numbers of 8 bits, s 4 scales, l 32 floats, w a wrapper of q and s, x numbers, X 70 of
 * them; in brackets as that of an object with slots. */
static void put_wrapper(lmi_buf *b, const char *class, const char *size,
                        const char *state) { /* as deep as w */
    static const int64_t whole[] = {16, 8}, part[] = {4, 8}, most[] = {INT32_MAX, INT32_MAX, INT32_MAX};
    const char *dot = strrchr(class, '.');
    char module[128];
    snprintf(module, sizeof module, "%.*s", (int)(dot - class), class);
    pk_global(b, "torch._tensor", "_rebuild_from_type_v2");
    lmi_putc(b, '(');
    pk_global(b, "torch._utils", "_rebuild_wrapper_subclass");
    pk_global(b, module, dot + 1);
    lmi_putc(b, '(');
    pk_global(b, module, dot + 1);
    pk_global(b, "torch", strstr(class, "DTensor") ? "float32" : "bfloat16");
    if (*size == 'n') lmi_putc(b, 'N');
    if (*size != 'n') pk_ints(b, *size == 'm' ? 3 : 2, *size == 'm' ? most : *size == 'w' ? whole : part);
    lmi_put(b, "NJ");
    put_le(b, 0, 4);
    lmi_put(b, "NNNt");
    if (*state == '[') lmi_put(b, "(N");
    lmi_put(b, "}(");
    for (const char *c = state + (*state == '['); *c; c++) {
        pk_text(b, *c == 'q'   ? "qdata"
                   : *c == 's' ? "scale"
                   : *c == 'w' ? "tensor_impl"
                   : *c == 'l' ? "_local_tensor"
                               : "x");
        if (*c == 'q') pk_tensor(b, &(pk_view){"CharStorage", "0", 32, 0, 2, {4, 8}, {8, 1}});
        if (*c == 's') pk_tensor(b, &(pk_view){"FloatStorage", "1", 32, 0, 1, {4}, {1}});
        if (*c == 'l') pk_tensor(b, &(pk_view){"FloatStorage", "1", 32, 0, 2, {4, 8}, {8, 1}});
        if (*c == 'w') put_wrapper(b, "torchao.dtypes.Impl", "p", "qs");
        if (*c == 'x' || *c == 'X') pk_int(b, 1);
        for (int i = 0; *c == 'X' && i < 70; i++) {
            pk_text(b, "x");
            pk_int(b, i);
        }
    }
    lmi_put(b, *state == '[' ? "uttR" : "utR");
}

static void save_wrappers(const char *class, const char *size, const char *state, int names) {
    static const size_t bytes[] = {32, 128};
    char name[16];
    lmi_buf b = pk_begin();
    lmi_put(&b, "}(");
    for (int i = 0; i < names; i++) {
        snprintf(name, sizeof name, "l%d.w", i);
        pk_text(&b, name);
        put_wrapper(&b, class, size, state);
    }
    lmi_put(&b, "u.");
    save_zip("wrapped.pt", &b, 2, bytes);
}

static void tensors_that_hold_others_have_their_own_shape(void **state) {
    (void)state;
    static const struct {
        const char *class, *size, *state;
        int64_t params, bytes, here, here_bytes; /* -1: unknown */
    } all[] = {
        {"torchao.quantization.Int8Tensor", "part", "qsx", 32, 48, 32, 48},
        {"torchao.quantization.Int8Tensor", "part", "[qs", 32, 48, 32, 48},
        {"torchao.dtypes.AffineQuantizedTensor", "part", "xwx", 32, 48, 32, 48},
        {"torchao.quantization.Int8Tensor", "part", "x", 32, -1, 32, -1},  /* no tensors */
        {"torchao.quantization.Int8Tensor", "part", "qX", 32, -1, 32, -1}, /* too much beside them */
        {"torchao.quantization.Int8Tensor", "none", "qs", -1, -1, -1, -1},
        {"torch.distributed.tensor.DTensor", "whole", "lx", 128, 512, 32, 128},
        {"torch.distributed._tensor.api.DTensor", "whole", "[l", 128, 512, 32, 128},
        {"torch.distributed.tensor.DTensor", "part", "l", 32, 128, 32, 128}, /* replicated */
        {"torch.distributed.tensor.DTensor", "whole", "w", 128, -1, 32, 48},
        {"mine.DTensor", "whole", "l", 128, 128, 128, 128}, /* not torch's */
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        for (int names = 1; names <= 2; names++) { /* two names of one tensor are one parameter */
            save_wrappers(all[i].class, all[i].size, all[i].state, names);
            lam_model *m = opened("wrapped.pt");
            const lam_param_totals p = totals_of(m);
            const lam_count got[] = {p.params, p.param_bytes, p.local_params, p.local_bytes};
            const int64_t want[] = {all[i].params, all[i].bytes, all[i].here, all[i].here_bytes};
            for (int k = 0; k < 4; k++) {
                const bool known = got[k].state == LAM_EXACT;
                if (names == 2 && want[1] < 0) continue; /* nothing tells that they are one */
                if (known != (want[k] >= 0) || (known && got[k].n != want[k]))
                    fail_msg("%s %s, number %d: %lld", all[i].class, all[i].state, k, (long long)got[k].n);
            }
            lam_model_free(m);
        }
    oom_sweep_parts(read_once, "wrapped.pt");
    oom_sweep_reads(read_once, "wrapped.pt");
    save_wrappers("torchao.quantization.Int8Tensor", "most", "q", 1);
    refused("wrapped.pt", LAM_FAILED, "a shape that can't be; it is of the class 'Int8Tensor'");
}

/* A wrapper in itself, many times over, is looked at for as long as a real one takes. */
static void wrappers_in_wrappers_are_bounded(void **state) {
    (void)state;
    lmi_buf b = pk_begin();
    lmi_put(&b, "}(");
    for (int i = 0; i < 12; i++) { /* each has the one before it eight times */
        char name[16];
        snprintf(name, sizeof name, "l%d.w", i);
        pk_text(&b, name);
        pk_global(&b, "torch._tensor", "_rebuild_from_type_v2");
        lmi_putc(&b, '(');
        pk_global(&b, "torch._utils", "_rebuild_wrapper_subclass");
        pk_global(&b, "a", "B");
        lmi_putc(&b, '(');
        pk_global(&b, "a", "B");
        pk_global(&b, "torch", "float32");
        pk_ints(&b, 2, (const int64_t[]){4, 8});
        lmi_put(&b, "t}(");
        for (int k = 0; k < 8 && i; k++) {
            snprintf(name, sizeof name, "a%d", k);
            pk_text(&b, name);
            lmi_putc(&b, 'h');
            lmi_putc(&b, (char)(i - 1));
        }
        lmi_put(&b, "utRq");
        lmi_putc(&b, (char)i);
    }
    lmi_put(&b, "u.");
    save_zip("wrapped.pt", &b, 0, NULL);
    lam_model *m = opened("wrapped.pt");
    const lam_param_totals p = totals_of(m);
    assert_int_equal(p.params.n, 12 * 32);
    assert_int_equal(p.param_bytes.state, LAM_UNKNOWN);
    lam_model_free(m);
}

/* torch's quantised types have their scales in themselves, whatever is beside them; one type holds two
 * numbers in a byte. */
static void types_of_few_bits_are_parameters(void **state) {
    (void)state;
    static const size_t bytes[] = {6, 8};
    static const int64_t sizes[] = {2, 3}, rows[] = {3, 1};
    lmi_buf b = pk_begin();
    lmi_put(&b, "}(");
    pk_text(&b, "l.weight");
    pk_tensor(&b, &(pk_view){"QInt8Storage", "0", 6, 0, 2, {2, 3}, {3, 1}});
    pk_text(&b, "l.scale");
    pk_tensor(&b, &(pk_view){"FloatStorage", "1", 2, 0, 0, {0}, {0}});
    pk_text(&b, "l.zero_point");
    pk_tensor(&b, &(pk_view){"LongStorage", "1", 1, 0, 0, {0}, {0}});
    pk_text(&b, "p.weight");
    pk_global(&b, "torch._utils", "_rebuild_tensor_v3");
    lmi_putc(&b, '(');
    pk_storage(&b, "UntypedStorage", "0", 6);
    pk_int(&b, 0);
    pk_ints(&b, 2, sizes);
    pk_ints(&b, 2, rows);
    lmi_put(&b, "NN");
    pk_global(&b, "torch", "float4_e2m1fn_x2");
    lmi_put(&b, "tRu.");
    save_zip("few.pt", &b, 2, bytes);
    has("few.pt", 6 + 12, 6 + 6, 2);
    lam_model *m = opened("few.pt");
    assert_string_equal(lam_model_told(m, "weights"), "5.33 bits a weight: fp4 67 %, qint8 33 %");
    lam_model_free(m);
}

static void save_pickle(const char *file, const char *bytes, size_t n) {
    lmi_buf b = pk_begin();
    lmi_putn(&b, bytes, n);
    save_zip(file, &b, 0, NULL);
}

static void odd_pickles_are_bounded(void **state) {
    (void)state;
    lmi_buf b = pk_begin();
    for (int i = 0; i < 100; i++) lmi_put(&b, "](");
    for (int i = 0; i < 100; i++) lmi_put(&b, "]e");
    lmi_put(&b, ".");
    save_zip("deep.pt", &b, 0, NULL);
    refused("deep.pt", LAM_LIMIT, "64 deep");
    save_pickle("cycle.pt", "]q\0h\0a.", 7);
    has("cycle.pt", 0, 0, 0);
    save_pickle("number.pt", "K\1.", 3);
    has("number.pt", 0, 0, 0);
    save_pickle("cut.pt", "}(", 2);
    refused("cut.pt", LAM_FAILED, "an opcode should be");
    save_words("pickle", "\x80\x02K\1.");
    refused("pickle", LAM_UNSUPPORTED, "torch.save did not write");
    zipped z = zip_begin();
    zip_add(&z, "a/b", "c", 1);
    b = zip_end(&z);
    save_bytes("other.zip", &b);
    lmi_buf_free(&b);
    assert_null(lam_read_format("other.zip"));
    refused("other.zip", LAM_UNSUPPORTED, "no data.pkl");
    save_words("cut.zip", "PK\3\4 and no more");
    refused("cut.zip", LAM_FAILED, "no directory at its end");
}

/* -- memory ---------------------------------------------------------------------------------------------- */

/* A checkpoint whose folder has these names, and whose pickle, compressed or not, has one tensor. */
static void save_folder(const char *file, const char *folder, bool packed, const char *order) {
    static const char zeros[24];
    char name[700];
    lmi_buf p = pk_begin();
    lmi_put(&p, "}(");
    pk_text(&p, "w");
    pk_tensor(&p, &six);
    lmi_put(&p, "u.");
    zipped z = zip_begin();
    snprintf(name, sizeof name, "%s/data.pkl", folder);
    (packed ? zip_deflate : zip_add)(&z, name, p.s, p.n);
    snprintf(name, sizeof name, "%s/data/0", folder);
    zip_add(&z, name, zeros, sizeof zeros);
    snprintf(name, sizeof name, "%s/byteorder", folder);
    zip_add(&z, name, order, strlen(order));
    zip_save(file, &z);
    lmi_buf_free(&p);
}

/* As a program that compresses zip files writes it again. */
static void a_pickle_may_be_compressed(void **state) {
    (void)state;
    lam_error e = {0};
    save_folder("packed.pt", "net", true, "little");
    if (lmi_find_zlib(&e) != LAM_OK) {
        refused("packed.pt", LAM_UNSUPPORTED, "zlib");
        return;
    }
    lam_model *m = opened("packed.pt");
    lam_costs *c = costs_of(m);
    is_exactly(lam_costs_params(c).params, 6);
    lam_costs_free(c);
    lam_model_free(m);
    oom_sweep_parts(read_once, "packed.pt");
    oom_sweep_reads(read_once, "packed.pt");
}

/* Only "big" turns the bytes of numbers round; a folder of a name that is too long has no checkpoint. */
static void odd_folders_are_read_or_refused(void **state) {
    (void)state;
    static const lam_read_options health = {.health = true};
    static const char *const orders[] = {"little", "big", "odd", ""};
    char folder[600];
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
        lam_model *m = NULL;
        save_folder("order.pt", "net", false, orders[i]);
        last = (lam_error){.at = -1};
        assert_int_equal(lam_read(&m, "order.pt", &health, &last), LAM_OK);
        const char *note = lam_model_note(m, 0);
        const bool turned = note && strstr(note, "the other byte order");
        if (turned != (i == 1)) fail_msg("%s: %s", orders[i], note ? note : "nothing");
        lam_model_free(m);
    }
    memset(folder, 'f', sizeof folder - 1);
    folder[sizeof folder - 1] = 0;
    save_folder("long.pt", folder, false, "little");
    refused("long.pt", LAM_UNSUPPORTED, "neither a checkpoint nor an archive of torch.export");

    static const char end[] = "PK\5\6\0\0\0\0\0\0\0\0\0\0\0\0\4\0\0\0\0\0"; /* no entry at all */
    lmi_buf b;
    lmi_buf_init(&b);
    lmi_put(&b, "PK\3\4");
    lmi_putn(&b, end, sizeof end - 1);
    save_bytes("none.pt", &b);
    lmi_buf_free(&b);
    refused("none.pt", LAM_UNSUPPORTED, "neither a checkpoint nor an archive of torch.export");
}

static void scan_once(void *path, bool *ok) {
    lam_scan *s = NULL;
    lam_error e = {.at = -1};
    *ok = oom_check(lam_scan_new(&s, path, &e), &e);
    lam_scan_free(s);
}

static void no_allocation_is_needed(void **state) {
    (void)state;
    a_module_that_was_saved_whole_has_its_classes(NULL);
    oom_sweep_parts(read_once, (void *)"whole.pt");
    oom_sweep_parts(scan_once, (void *)"whole.pt");
    lmi_buf b = legacy("0", 6);
    save_bytes("legacy.pt", &b);
    lmi_buf_free(&b);
    oom_sweep_parts(read_once, (void *)"legacy.pt");
    oom_sweep_parts(scan_once, (void *)"legacy.pt");
    may_be_damaged("whole.pt", true, 3);
    may_be_damaged("legacy.pt", true, 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_state_dict_has_its_tensors),
        cmocka_unit_test(names_that_read_alike_are_two_tensors),
        cmocka_unit_test(an_index_joins_checkpoints),
        cmocka_unit_test(the_state_of_a_training_is_that_of_its_model),
        cmocka_unit_test(a_module_that_was_saved_whole_has_its_classes),
        cmocka_unit_test(legacy_files_have_their_storages_behind_the_pickles),
        cmocka_unit_test(tensors_are_inside_their_storages),
        cmocka_unit_test(tensors_are_rebuilt_in_several_ways),
        cmocka_unit_test(tensors_that_hold_others_have_their_own_shape),
        cmocka_unit_test(wrappers_in_wrappers_are_bounded),
        cmocka_unit_test(types_of_few_bits_are_parameters),
        cmocka_unit_test(odd_pickles_are_bounded),
        cmocka_unit_test(a_pickle_may_be_compressed),
        cmocka_unit_test(odd_folders_are_read_or_refused),
        cmocka_unit_test(no_allocation_is_needed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
