/* SPDX-License-Identifier: Apache-2.0
 *
 * What loading a file would import: names are found wherever a loader would find them, and what can't be read
 * is never clean. */
#include "kit/damaged.h"
#include "kit/pickled.h"

#include "base/inflate.h"

enum { CLEAN, FOUND, UNREAD };

/* The verdict, with the first import that is not harmless. */
static int scanned(const char *file, const char *first, lam_import_kind kind) {
    lam_scan *s;
    char name[256] = "";
    last = (lam_error){.at = -1};
    if (lam_scan_new(&s, file, &last) != LAM_OK) fail_msg("%s", last.text);
    const lam_import *x = lam_scan_import(s, 0);
    const bool found = x && x->kind != LAM_IMPORT_KNOWN;
    if (found) snprintf(name, sizeof name, "%s.%s", x->module, x->name);
    if (first) assert_string_equal(name, first);
    if (first) assert_int_equal(x->kind, kind);
    const int code = found ? FOUND : lam_scan_unread(s, 0) ? UNREAD : CLEAN;
    lam_scan_free(s);
    return code;
}

static int scanned_bytes(const char *bytes, size_t n, const char *first, lam_import_kind kind) {
    lmi_buf b;
    lmi_buf_init(&b);
    lmi_putn(&b, bytes, n);
    save_bytes("scanned", &b);
    lmi_buf_free(&b);
    return scanned("scanned", first, kind);
}
#define SCAN(bytes, first, kind) scanned_bytes(bytes, sizeof(bytes) - 1, first, kind)

static void imports_are_found_where_they_are_named(void **state) {
    (void)state;
    assert_int_equal(SCAN("\x80\x02"
                          "cos\nsystem\n.",
                          "os.system", LAM_IMPORT_RUNS),
                     FOUND);
    assert_int_equal(SCAN("cos\nsystem\n(S'ls'\ntR.", "os.system", LAM_IMPORT_RUNS), FOUND); /* protocol 0 */
    assert_int_equal(SCAN("(S'ls'\nios\nsystem\n.", "os.system", LAM_IMPORT_RUNS), FOUND);   /* INST */
    assert_int_equal(SCAN("\x80\x02"
                          "cos\nsystem\n0K\1.",
                          "os.system", LAM_IMPORT_RUNS),
                     FOUND); /* not used */
    assert_int_equal(SCAN("\x80\x04\x8c\2os\x94\x8c\6system\x94\x93.", "os.system", LAM_IMPORT_RUNS), FOUND);
    assert_int_equal(SCAN("\x80\x04\x8c\2osq\0"
                          "0h\0\x8c\6system\x93.",
                          "os.system", LAM_IMPORT_RUNS),
                     FOUND);
    assert_int_equal(SCAN("\x80\x04K\1\x8c\6system\x93.", "?.system", LAM_IMPORT_OTHER), FOUND);
    assert_int_equal(SCAN("\x80\x02K\1.\x80\x02"
                          "cos\nsystem\n.",
                          "os.system", LAM_IMPORT_RUNS),
                     FOUND); /* a second */
    assert_int_equal(SCAN("\x80\x02"
                          "cos\nsystem\n!",
                          "os.system", LAM_IMPORT_RUNS),
                     FOUND); /* then damaged */
    assert_int_equal(SCAN("\x80\x02"
                          "cnet\nOwn\n.",
                          "net.Own", LAM_IMPORT_CLASS),
                     FOUND);
    assert_int_equal(SCAN("\x80\x02"
                          "cnet\nmake\n.",
                          "net.make", LAM_IMPORT_OTHER),
                     FOUND);
    assert_int_equal(SCAN("\x80\x02"
                          "cnet\nOwn\ncos\nsystem\n.",
                          "os.system", LAM_IMPORT_RUNS),
                     FOUND);
    assert_int_equal(SCAN("\x80\x02"
                          "cbuiltins\neval\n.",
                          "builtins.eval", LAM_IMPORT_RUNS),
                     FOUND);
    assert_int_equal(SCAN("\x80\x02"
                          "ctorch.storage\n_load_from_bytes\n.",
                          "torch.storage._load_from_bytes", LAM_IMPORT_OTHER),
                     FOUND);
    assert_int_equal(SCAN("\x80\x04\x8c\x09"
                          "torch\nSiz\x8c\1e\x93.",
                          "torch\nSiz.e", LAM_IMPORT_OTHER),
                     FOUND);
    assert_int_equal(SCAN("\x80\x02"
                          "ccollections\nOrderedDict\ncbuiltins\nset\n0.",
                          NULL, LAM_IMPORT_KNOWN),
                     CLEAN);
    assert_int_equal(SCAN("\x80\x02"
                          "cbuiltins\nEllipsis\nctorch.nn.parallel.data_parallel\nDataParallel\n.",
                          NULL, LAM_IMPORT_KNOWN),
                     CLEAN);
    assert_int_equal(SCAN("\x80\x02K\1.", NULL, LAM_IMPORT_KNOWN), CLEAN);
    assert_int_equal(SCAN("\x80\x02K\1", NULL, LAM_IMPORT_KNOWN), UNREAD);
    assert_int_equal(SCAN("\x80\x02K\1.and more", NULL, LAM_IMPORT_KNOWN), UNREAD);
    assert_int_equal(SCAN("\x80\x02\x82\1.", NULL, LAM_IMPORT_KNOWN), UNREAD); /* the registry of copyreg */
    assert_int_equal(SCAN("\x80\x02X\2\0\0\0osp1_0\n0g10\nX\6\0\0\0system\x93.", "os.system",
                          LAM_IMPORT_RUNS),
                     FOUND); /* 1_0 is 10 */
    assert_int_equal(SCAN("\x80\x02"
                          "c__torch__evil\nmake\n.",
                          "__torch__evil.make", LAM_IMPORT_OTHER),
                     FOUND);
    assert_int_equal(SCAN("c\1\0\nmake\n.", NULL, LAM_IMPORT_KNOWN), UNREAD); /* no name of a module */
    assert_int_equal(SCAN("Dear Sir or Madam", NULL, LAM_IMPORT_KNOWN), UNREAD);
    assert_int_equal(SCAN("{\"weight_map\":{}}", NULL, LAM_IMPORT_KNOWN), UNREAD);
    assert_int_equal(SCAN("{\"a\":1}", NULL, LAM_IMPORT_KNOWN), CLEAN);
}

/* MEMOIZE takes the number of those that were put before, of any numbers, once each. */
static void what_is_memoized_has_the_number_that_python_gives(void **state) {
    (void)state;
    assert_int_equal(SCAN("\x80\4\x8c\1xq\5\x8c\5posix\x94\x8c\3net\x94h\1\x8c\6system\x93.", "posix.system",
                          LAM_IMPORT_RUNS),
                     FOUND);
    assert_int_equal(SCAN("\x80\4\x8c\1xq\2q\2q\0q\1q\2\x8c\5posix\x94\x8c\3net\x94h\3\x8c\6system\x93.",
                          "posix.system", LAM_IMPORT_RUNS),
                     FOUND);
}

/* Layers that only keep what they are given are harmless. Those that have native code pack or read what a
 * file says, and what a loader of its own reads in another way, are not: see allowed.def. */
static void what_a_state_can_harm_is_not_harmless(void **state) {
    (void)state;
    assert_int_equal(SCAN("\x80\x02"
                          "ctorch.ao.nn.quantized.modules\nQuantize\n"
                          "ctorch.nn.quantized.modules.functional_modules\nFloatFunctional\n"
                          "ctorch.ao.nn.intrinsic.modules.fused\nConvReLU2d\n"
                          "ctorch.quantization.stubs\nQuantStub\n"
                          "ctorch._utils\n_rebuild_qtensor\nctorch\nper_channel_affine\n.",
                          NULL, LAM_IMPORT_KNOWN),
                     CLEAN);
    static const struct {
        const char *module, *name;
        lam_import_kind kind;
    } cases[] = {
        {"torch", "ScriptObject", LAM_IMPORT_CLASS},
        {"torch.ao.nn.quantized.modules.linear", "Linear", LAM_IMPORT_CLASS},
        {"torch.ao.nn.quantized.modules.linear", "LinearPackedParams", LAM_IMPORT_CLASS},
        {"torch.ao.nn.quantized.modules.conv", "Conv2d", LAM_IMPORT_CLASS},
        {"torch.ao.nn.quantized.modules.embedding_ops", "EmbeddingPackedParams", LAM_IMPORT_CLASS},
        {"torch.ao.nn.quantized.dynamic.modules.rnn", "PackedParameter", LAM_IMPORT_CLASS},
        {"torch.ao.nn.intrinsic.quantized.modules.conv_relu", "ConvReLU2d", LAM_IMPORT_CLASS},
        {"torch.ao.nn.quantized.modules", "torch.hub.load", LAM_IMPORT_OTHER},
        {"torch.ao.nn.quantized.modules", "Quantize.from_float", LAM_IMPORT_OTHER},
        {"torch.ao.quantization.stubs", "nn.Module", LAM_IMPORT_CLASS},
        {"numpy.random._pickle", "__randomstate_ctor", LAM_IMPORT_OTHER},
        {"numpy.random._pickle", "__bit_generator_ctor", LAM_IMPORT_OTHER},
        {"numpy.random._pickle", "BitGenerators.get", LAM_IMPORT_OTHER},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char bytes[200], found[200];
        snprintf(bytes, sizeof bytes, "c%s\n%s\n.", cases[i].module, cases[i].name);
        snprintf(found, sizeof found, "%s.%s", cases[i].module, cases[i].name);
        assert_int_equal(scanned_bytes(bytes, strlen(bytes), found, cases[i].kind), FOUND);
    }
    /* joblib takes the five bytes behind the wrapper for an array, and then runs what others read as its text
     */
    assert_int_equal(SCAN("\x80\x03"
                          "cjoblib.numpy_pickle\nNumpyArrayWrapper\n)\x81}X\5\0\0\0shapeK\5\x85sb"
                          "B\x17\0\0\0cos\nsystem\n(X\2\0\0\0idtR.",
                          "joblib.numpy_pickle.NumpyArrayWrapper", LAM_IMPORT_RUNS),
                     FOUND);
}

static void zip_files_are_scanned_to_their_inside(void **state) {
    (void)state;
    static const char bad[] = "\x80\x02"
                              "cos\nsystem\n.";
    static const size_t bytes[] = {24, 16};
    static const pk_view six = {"FloatStorage", "0", 6, 0, 2, {2, 3}, {3, 1}};
    lmi_buf one = pk_begin();
    lmi_put(&one, "}(");
    pk_text(&one, "w");
    pk_tensor(&one, &six);
    lmi_put(&one, "u.");
    save_zip("scan.pt", &one, 1, bytes);
    assert_int_equal(scanned("scan.pt", NULL, LAM_IMPORT_KNOWN), CLEAN);
    zipped inner = zip_begin(), z = zip_begin();
    zip_add(&inner, "net/data.pkl", bad, sizeof bad - 1);
    lmi_buf b = zip_end(&inner);
    zip_add(&z, "whole/weights.json", b.s, b.n);
    lmi_buf_free(&b);
    b = zip_end(&z);
    save_bytes("nested.pt2", &b);
    lmi_buf_free(&b);
    assert_int_equal(scanned("nested.pt2", "os.system", LAM_IMPORT_RUNS), FOUND);
    b = pk_begin();
    lmi_put(&b, "}(");
    pk_text(&b, "w");
    pk_tensor(&b, &six);
    lmi_put(&b, "u.");
    save_zip("damaged.pt", &b, 2, bytes);
    FILE *f = fopen("damaged.pt", "r+b");
    fputs("PK\3\4 the header says something else", f);
    fclose(f);
    assert_int_equal(scanned("damaged.pt", NULL, LAM_IMPORT_KNOWN), UNREAD);
    z = zip_begin();
    zip_add(&z, "net/data.pkl", "\x80\x02N.", 4);
    zip_add(&z, "net/data/0", bad, sizeof bad - 1); /* a storage is no pickle */
    zip_add(&z, "net/more.pkl", bad, sizeof bad - 1);
    zip_save("more.pt", &z);
    lam_scan *s;
    assert_int_equal(lam_scan_new(&s, "more.pt", &last), LAM_OK);
    assert_string_equal(lam_scan_import(s, 0)->where, "net/more.pkl");
    assert_int_equal(lam_scan_import(s, 0)->at, 2);
    assert_int_equal(lam_scan_import(s, 0)->times, 1);
    assert_null(lam_scan_import(s, 1));
    assert_null(lam_scan_import(s, -1));
    lam_scan_free(s);
    assert_int_equal(lam_scan_new(&s, "no/such", &last), LAM_IO);
    assert_null(s);
}

/* Each entry of a zip file, by what torch makes of it: pickles have no mark that they all have. */
static void entries_are_pickles_if_they_can_be(void **state) {
    (void)state;
    static const struct {
        const char *name, *bytes, *first;
        int verdict;
    } cases[] = {
        {"net/data/sample_inputs/model.pt", "cos\nsystem\n(S'id'\ntR.", "os.system", FOUND},
        {"net/data/constants/tensor_0", "(S'id'\nios\nsystem\n.", "os.system", FOUND},
        {"net/data/constants/tensor_0", "V\\u006fs\nVsystem\n\x93.", "os.system", FOUND},
        {"net/data/sample_inputs/model.pt", "I0x1F\n0cos\nsystem\n(S'id'\ntR.", "os.system", FOUND},
        {"net/data/sample_inputs/model.pt", "cos\nsystem\n(S'id'\ntR!", "os.system", FOUND},
        {"net/DATA.PKL", "cos\nsystem\n!", "os.system", FOUND}, /* torch finds data.pkl in any case */
        {"net/extra/labels.txt", "cat\ndog\nbird\n", NULL, CLEAN},
        {"net/extra/scores.csv", "class,score\n1,2\n.", NULL, CLEAN},
        {"net/code/__torch__/net.py", "class Net(Module):\n  training : bool\n", NULL, CLEAN},
        {"net/data/weights/weight_0", "N.\1\2", NULL, CLEAN},
        {"net/data/weights/weight_0", "c\xff\xfe\n\xff\n", NULL, CLEAN},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        zipped z = zip_begin();
        zip_add(&z, "net/data.pkl", "\x80\x02N.", 4);
        zip_add(&z, cases[i].name, cases[i].bytes, strlen(cases[i].bytes));
        lmi_buf b = zip_end(&z);
        save_bytes("entry.pt", &b);
        lmi_buf_free(&b);
        if (scanned("entry.pt", cases[i].first,
                    cases[i].first && cases[i].first[0] == 'o' ? LAM_IMPORT_RUNS : LAM_IMPORT_OTHER) !=
            cases[i].verdict)
            fail_msg("case %zu", i);
    }
    zipped z = zip_begin();
    zip_add(&z, "arrays/a.npy", "\x93NUMPY", 6);
    lmi_buf b = zip_end(&z);
    save_bytes("arrays.npz", &b);
    lmi_buf_free(&b);
    assert_int_equal(scanned("arrays.npz", NULL, LAM_IMPORT_KNOWN), UNREAD); /* what numpy loads of it */
}

/* torch.load takes a file for a tar file first, whose sum is all that is sure: its first name may be a pickle
 * that steps over all the rest. */
static void a_tar_file_is_never_clean(void **state) {
    (void)state;
    static const char first[] = "\x80\x02"
                                "B\xf9\1\0\0"; /* bytes up to the last three */
    for (int how = 0; how < 4; how++) {
        unsigned char block[515] = {0};
        long sum = 0;
        memcpy(block, first, sizeof first - 1);
        if (how == 2) block[0x70] = 0xf0; /* by bytes with a sign the sum is another */
        for (int i = 0; i < 512; i++) {
            const unsigned char c = i >= 148 && i < 156 ? ' ' : block[i];
            sum += how == 2 && c >= 128 ? c - 256 : c;
        }
        if (how == 1) {
            block[148] = 0x80;
            block[154] = (unsigned char)(sum >> 8);
            block[155] = (unsigned char)sum;
        } else {
            snprintf((char *)block + 148, 8, "%05lo", how == 3 ? sum + 1 : sum);
        }
        memcpy(block + 512, "0N.", 3);
        lmi_buf b;
        lmi_buf_init(&b);
        lmi_putn(&b, (const char *)block, sizeof block);
        save_bytes("polyglot", &b);
        lmi_buf_free(&b);
        assert_int_equal(scanned("polyglot", NULL, LAM_IMPORT_KNOWN), how == 3 ? CLEAN : UNREAD);
    }
}

/* The length of a header may be the bytes that a pickle begins with. */
static void a_header_of_640_bytes_is_no_pickle(void **state) {
    (void)state;
    char header[700];
    snprintf(header, sizeof header, "%-640s",
             "{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}");
    lmi_buf b = safetensors_of(header, 2);
    save_bytes("640.safetensors", &b);
    lmi_buf_free(&b);
    assert_string_equal(lam_read_format("640.safetensors"), "safetensors");
    assert_int_equal(scanned("640.safetensors", NULL, LAM_IMPORT_KNOWN), CLEAN);
}

/* To a machine for pickles G and the eight bytes behind it are a number, and what follows is run. */
static void a_pickle_that_begins_as_another_format_is_found(void **state) {
    (void)state;
    static const char run[] = "cos\nsystem\n(S'id'\ntR.";
    static const struct {
        const char *format, head[10];
    } cases[] = {{"GGUF", "GGUF\3\0\0\0\0"}, {"safetensors", "G\0\0\0\0\0\0\0{"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lmi_buf b;
        lmi_buf_init(&b);
        lmi_putn(&b, cases[i].head, 9);
        lmi_put(&b, run);
        lmi_pad(&b, ' ', 200);
        save_bytes("both.bin", &b);
        lmi_buf_free(&b);
        assert_string_equal(lam_read_format("both.bin"), cases[i].format);
        assert_int_equal(scanned("both.bin", "os.system", LAM_IMPORT_RUNS), FOUND);
    }
    static const char *const before[] = {
        "I0x1F\n0", "I 1_0 \n0", "Np1_0\n0",    "Np0\n0g+0\n0",
        "}Nb0",     "N(e0",      "]NaK\1K\1s0", "ca b\nFloatStorage\n0",
    };
    for (size_t i = 0; i < sizeof before / sizeof *before; i++) {
        lmi_buf b; /* what Python's machine takes, too */
        lmi_buf_init(&b);
        lmi_putn(&b, cases[0].head, 9);
        lmi_put(&b, before[i]);
        lmi_put(&b, run);
        lmi_pad(&b, ' ', 200);
        save_bytes("both.bin", &b);
        lmi_buf_free(&b);
        if (scanned("both.bin", NULL, LAM_IMPORT_KNOWN) != FOUND) fail_msg("%s", before[i]);
    }
    save_words("both.bin", "cos\nET12\n."); /* as the name of an ExecuTorch program is */
    assert_string_equal(lam_read_format("both.bin"), "ExecuTorch");
    assert_int_equal(scanned("both.bin", "os.ET12", LAM_IMPORT_RUNS), FOUND);
}

/* The last frame of the first pickle ends behind it: CPython's machine in C reads the second from there. And
 * lines that are no text of a pickle as lamina keeps it, or too many values, are never clean. */
static void what_machines_read_in_two_ways_is_never_clean(void **state) {
    (void)state;
    static const char two[] = "GGUF\3\0\0\0\0000\x95\x08\0\0\0\0\0\0\0N.!!!!!!cos\nsystem\n(S'id'\ntR.";
    assert_int_equal(SCAN(two, "os.system", LAM_IMPORT_RUNS), FOUND);
    assert_int_equal(SCAN("\x80\4\x95\3\0\0\0\0\0\0\0NK\0100N.", NULL, LAM_IMPORT_KNOWN), CLEAN);
    assert_int_equal(SCAN("\x80\4\x95\2\0\0\0\0\0\0\0NK\0100N.", NULL, LAM_IMPORT_KNOWN), UNREAD);
    for (int how = 0; how < 2; how++) {
        lmi_buf b;
        lmi_buf_init(&b);
        lmi_putn(&b, "GGUF\3\0\0\0\0", 9);
        if (how) lmi_put(&b, "Np");
        lmi_pad(&b, how ? '0' : ']', how ? 20000 : 800000);
        lmi_put(&b, how ? "1\n." : ".");
        save_bytes("both.bin", &b);
        lmi_buf_free(&b);
        assert_string_equal(lam_read_format("both.bin"), "GGUF");
        assert_int_equal(scanned("both.bin", NULL, LAM_IMPORT_KNOWN), UNREAD);
    }
}

static const char run_it[] = "\x80\x02"
                             "cos\nsystem\n.";

/* The first thing that is not read, or "". */
static const char *unread_of(const char *file, int *n) {
    static char text[600];
    lam_scan *s;
    *n = 0;
    last = (lam_error){.at = -1};
    if (lam_scan_new(&s, file, &last) != LAM_OK) fail_msg("%s", last.text);
    while (lam_scan_unread(s, *n)) ++*n;
    snprintf(text, sizeof text, "%s", *n ? lam_scan_unread(s, 0) : "");
    assert_null(lam_scan_unread(s, -1));
    lam_scan_free(s);
    return text;
}

/* Entries of a checkpoint that are compressed are scanned too, if zlib is there; else they are unread. */
static void compressed_entries_are_scanned(void **state) {
    (void)state;
    lam_error e = {0};
    const bool zlib = lmi_find_zlib(&e) == LAM_OK;
    int n;
    zipped z = zip_begin();
    zip_deflate(&z, "net/data.pkl", "\x80\x02N.", 4);
    zip_deflate(&z, "net/a", run_it, sizeof run_it - 1); /* a name that is shorter than ".pickle" */
    zip_deflate(&z, "net/b.pickle", run_it, sizeof run_it - 1);
    zip_add(&z, "net/", "", 0);
    zip_save("packed.pt", &z);
    assert_int_equal(scanned("packed.pt", zlib ? "os.system" : NULL, LAM_IMPORT_RUNS), zlib ? FOUND : UNREAD);
    lam_scan *s;
    assert_int_equal(lam_scan_new(&s, "packed.pt", &last), LAM_OK);
    if (zlib) assert_int_equal(lam_scan_import(s, 0)->times, 2);
    if (zlib) assert_string_equal(lam_scan_import(s, 0)->where, "net/a");
    lam_scan_free(s);

    z = zip_begin(); /* what says that it becomes 20 MB is not tried; what is no stream says so */
    static const char noise[70000] = {7};
    zip_put(&z, "net/data.pkl", noise, sizeof noise, 20000000, 8);
    zip_save("packed.pt", &z);
    assert_string_equal(unread_of("packed.pt", &n),
                        "net/data.pkl: it decompresses to more than a file of its size should");
    if (zlib) refused("packed.pt", LAM_LIMIT, "'net/data.pkl' has 20000000 bytes, and at most ");
    z = zip_begin();
    zip_put(&z, "net/data.pkl", noise, 100, 200, 8);
    zip_save("packed.pt", &z);
    assert_int_equal(strncmp(unread_of("packed.pt", &n), "net/data.pkl: ", 14), 0);
    assert_int_equal(n, 1);
}

/* What is not read is told a hundred times; pickles in a row and zip files in each other have a limit too. */
static void what_is_too_much_is_unread(void **state) {
    (void)state;
    char name[32];
    int n;
    lmi_buf b;
    zipped z = zip_begin();
    zip_add(&z, "net/data.pkl", "\x80\x02N.", 4);
    for (int i = 0; i < 120; i++) {
        snprintf(name, sizeof name, "net/%d.pkl", i);
        zip_add(&z, name, "\x80\x02K", 3);
    }
    zip_save("many.pt", &z);
    assert_int_equal(strncmp(unread_of("many.pt", &n), "net/0.pkl: ", 11), 0);
    assert_int_equal(n, 100);

    for (int marked = 0; marked < 2; marked++) {
        lmi_buf_init(&b);
        if (marked) lmi_putn(&b, "\x80\x02", 2);
        for (int i = 0; i < 1001; i++) lmi_put(&b, "K\1.");
        save_bytes("row.bin", &b);
        lmi_buf_free(&b);
        assert_string_equal(unread_of("row.bin", &n), "it has more than 1000 pickles in a row");
    }

    lmi_buf_init(&b);
    lmi_putn(&b, run_it, sizeof run_it - 1);
    for (int deep = 1; deep <= 4; deep++) {
        z = zip_begin();
        zip_add(&z, "net/data.pkl", "\x80\x02N.", 4);
        zip_add(&z, "net/more", b.s, b.n);
        lmi_buf_free(&b);
        b = zip_end(&z);
        save_bytes("deep.pt", &b);
        assert_int_equal(scanned("deep.pt", deep <= 3 ? "os.system" : NULL, LAM_IMPORT_RUNS),
                         deep <= 3 ? FOUND : UNREAD);
    }
    assert_string_equal(unread_of("deep.pt", &n),
                        "net/more, net/more, net/more: it is a zip file in too many others");
    lmi_buf_free(&b);
}

static void imports_are_told_in_the_order_of_their_places(void **state) {
    (void)state;
    lam_scan *s;
    zipped z = zip_begin();
    zip_add(&z, "net/data.pkl", "\x80\x02N.", 4);
    zip_add(&z, "net/b.pkl",
            "\x80\x02"
            "cos\nsystem\n.",
            13);
    zip_add(&z, "net/a.pkl",
            "\x80\x02"
            "cnt\nsystem\ncos\nremove\n.",
            25);
    zip_save("order.pt", &z);
    assert_int_equal(lam_scan_new(&s, "order.pt", &last), LAM_OK);
    assert_string_equal(lam_scan_import(s, 0)->module, "nt");
    assert_string_equal(lam_scan_import(s, 1)->name, "remove");
    assert_string_equal(lam_scan_import(s, 2)->where, "net/b.pkl");
    assert_null(lam_scan_import(s, 3));
    lam_scan_free(s);
    assert_int_equal(SCAN("cmodule\nno name\n.", NULL, LAM_IMPORT_KNOWN), UNREAD); /* as in a source file */
}

/* A scan of which any reading fails is never clean, and one of which any allocation fails says so. */
static void scan_short_of_bytes(const char *file, int kind) {
    bool injected = true;
    oom_kind = kind;
    for (int64_t i = 0; injected; i++) {
        lam_scan *s = NULL;
        lam_error e = {.at = -1};
        oom_arm(i, false);
        const lam_status status = lam_scan_new(&s, file, &e);
        injected = oom_injected;
        oom_disarm();
        if (injected && status == LAM_OK && !lam_scan_unread(s, 0)) fail_msg("%s: reading %d", file, (int)i);
        if (status != LAM_OK) assert_true(status == LAM_IO && *e.text);
        lam_scan_free(s);
    }
    oom_kind = OOM_PIECES;
}

static void scan_once(void *path, bool *ok) {
    lam_scan *s = NULL;
    lam_error e = {.at = -1};
    *ok = oom_check(lam_scan_new(&s, path, &e), &e);
    lam_scan_free(s);
}

static void a_scan_that_fails_is_never_clean(void **state) {
    (void)state;
    static const char *const files[] = {"packed.pt", "order.pt", "more.pt", "deep.pt", "plain.bin"};
    save_words("plain.bin", "Dear Sir or Madam");
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        scan_short_of_bytes(files[i], OOM_READS);
        scan_short_of_bytes(files[i], OOM_TAKES);
        oom_sweep_parts(scan_once, (void *)(uintptr_t)files[i]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pickle_that_begins_as_another_format_is_found),
        cmocka_unit_test(what_machines_read_in_two_ways_is_never_clean),
        cmocka_unit_test(imports_are_found_where_they_are_named),
        cmocka_unit_test(what_is_memoized_has_the_number_that_python_gives),
        cmocka_unit_test(what_a_state_can_harm_is_not_harmless),
        cmocka_unit_test(zip_files_are_scanned_to_their_inside),
        cmocka_unit_test(entries_are_pickles_if_they_can_be),
        cmocka_unit_test(a_tar_file_is_never_clean),
        cmocka_unit_test(a_header_of_640_bytes_is_no_pickle),
        cmocka_unit_test(compressed_entries_are_scanned),
        cmocka_unit_test(what_is_too_much_is_unread),
        cmocka_unit_test(imports_are_told_in_the_order_of_their_places),
        cmocka_unit_test(a_scan_that_fails_is_never_clean),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
