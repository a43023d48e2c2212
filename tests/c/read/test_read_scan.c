/* SPDX-License-Identifier: Apache-2.0
 *
 * What loading a file would import: names are found wherever a loader would find them, and what can't be read
 * is never clean. */
#include "kit/damaged.h"
#include "kit/pickled.h"

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
    assert_int_equal(SCAN("\x80\x02K\1.", NULL, LAM_IMPORT_KNOWN), CLEAN);
    assert_int_equal(SCAN("\x80\x02K\1", NULL, LAM_IMPORT_KNOWN), UNREAD);
    assert_int_equal(SCAN("\x80\x02K\1.and more", NULL, LAM_IMPORT_KNOWN), UNREAD);
    assert_int_equal(SCAN("\x80\x02\x82\1.", NULL, LAM_IMPORT_KNOWN), UNREAD); /* the registry of copyreg */
    assert_int_equal(SCAN("\x80\x02X\2\0\0\0osp1_0\n.", NULL, LAM_IMPORT_KNOWN), UNREAD); /* Python: 10 */
    assert_int_equal(SCAN("\x80\x02"
                          "c__torch__evil\nmake\n.",
                          "__torch__evil.make", LAM_IMPORT_OTHER),
                     FOUND);
    assert_int_equal(SCAN("c\1\0\nmake\n.", NULL, LAM_IMPORT_KNOWN), UNREAD); /* no name of a module */
    assert_int_equal(SCAN("Dear Sir or Madam", NULL, LAM_IMPORT_KNOWN), UNREAD);
    assert_int_equal(SCAN("{\"weight_map\":{}}", NULL, LAM_IMPORT_KNOWN), UNREAD);
    assert_int_equal(SCAN("{\"a\":1}", NULL, LAM_IMPORT_KNOWN), CLEAN);
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
    b = zip_end(&z);
    save_bytes("more.pt", &b);
    lmi_buf_free(&b);
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
        {"net/data/constants/tensor_0", "V\\u006fs\nVsystem\n\x93.", "\\u006fs.system", FOUND},
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
    save_words("both.bin", "cos\nET12\n."); /* as the name of an ExecuTorch program is */
    assert_string_equal(lam_read_format("both.bin"), "ExecuTorch");
    assert_int_equal(scanned("both.bin", "os.ET12", LAM_IMPORT_RUNS), FOUND);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pickle_that_begins_as_another_format_is_found),
        cmocka_unit_test(imports_are_found_where_they_are_named),
        cmocka_unit_test(zip_files_are_scanned_to_their_inside),
        cmocka_unit_test(entries_are_pickles_if_they_can_be),
        cmocka_unit_test(a_tar_file_is_never_clean),
        cmocka_unit_test(a_header_of_640_bytes_is_no_pickle),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
