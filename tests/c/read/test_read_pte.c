/* SPDX-License-Identifier: Apache-2.0
 *
 * What the header of an ExecuTorch program says, whole and damaged: sizes, and that the rest is not known. */
#include "kit/weights.h"

#include <unistd.h>

enum { PROGRAM = 200, SIZE = 512 };

/* A program of 200 bytes and, from byte 256 on, 256 bytes of segments. */
static lmi_buf program_of(uint64_t root, uint64_t length, uint64_t program, uint64_t start, uint64_t size) {
    lmi_buf b;
    lmi_buf_init(&b);
    put_le(&b, root, 4);
    lmi_put(&b, "ET12eh00");
    put_le(&b, length, 4);
    put_le(&b, program, 8);
    put_le(&b, start, 8);
    put_le(&b, size, 8);
    lmi_pad(&b, '\0', SIZE - b.n);
    return b;
}

static void saved(const char *file, lmi_buf b) {
    save_bytes(file, &b);
    lmi_buf_free(&b);
}

/* Of `bytes` in all, of elements that nobody can tell. */
static void holds(const char *file, int64_t bytes, const char *note) {
    lam_costs *c = NULL;
    assert_string_equal(lam_read_format(file), "ExecuTorch");
    lam_model *m = opened(file);
    assert_int_equal(lam_costs_new(&c, m, NULL, &last), LAM_OK);
    const lam_param_totals p = lam_costs_params(c);
    assert_int_equal(p.params.state, LAM_UNKNOWN);
    assert_int_equal(p.param_bytes.state, LAM_EXACT);
    assert_int_equal(p.param_bytes.n, bytes);
    assert_int_equal(lam_costs_total(c, LAM_MACS).state, LAM_UNKNOWN);
    assert_non_null(strstr(lam_model_note(m, 0), note));
    lam_costs_free(c);
    lam_model_free(m);
}

static void the_header_tells_sizes_and_no_more(void **state) {
    (void)state;
    saved("a.pte", program_of(48, 32, PROGRAM, 256, 200));
    holds("a.pte", PROGRAM + 200, "200 bytes of program, 200 of segments");
    saved("b.pte", program_of(48, 24, PROGRAM, 256, 77)); /* the last field belongs to the longer header */
    holds("b.pte", PROGRAM + 256, "256 of segments");
    saved("c.pte", program_of(48, 24, SIZE, 0, 0)); /* all in the program */
    holds("c.pte", SIZE, "512 bytes of program, 0 of segments");
    lmi_buf b = program_of(48, 32, PROGRAM, 256, 200);
    b.s[8] = 'x'; /* of before the header */
    saved("d.pte", b);
    holds("d.pte", SIZE, "no header that tells the program from the weights");
}

static void a_header_that_lies_is_refused(void **state) {
    (void)state;
    static const struct {
        uint64_t root, length, program, start, size;
        const char *part;
    } cases[] = {
        {SIZE, 32, PROGRAM, 256, 200, "a root that is not in the file, at byte 0"},
        {3, 32, PROGRAM, 256, 200, "at byte 0"},
        {48, 8, PROGRAM, 256, 200, "at byte 12"},
        {48, 0xffffffff, PROGRAM, 256, 200, "at byte 12"},
        {48, 32, SIZE + 1, 0, 0, "a program that is not in the file, at byte 16"},
        {48, 32, UINT64_MAX, 256, 200, "at byte 16"},
        {48, 32, 20, 256, 200, "at byte 16"},
        {48, 32, PROGRAM, PROGRAM - 1, 10, "at byte 24"},
        {48, 32, PROGRAM, UINT64_MAX, 10, "at byte 24"},
        {48, 32, PROGRAM, 256, 257, "segments that are longer than the file, at byte 32"},
        {48, 32, PROGRAM, 256, UINT64_MAX, "at byte 32"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        saved("bad.pte",
              program_of(cases[i].root, cases[i].length, cases[i].program, cases[i].start, cases[i].size));
        refused("bad.pte", LAM_FAILED, cases[i].part);
    }
    for (size_t n = 8; n < 32; n++) { /* cut off anywhere */
        lmi_buf b = program_of(4, 32, PROGRAM, 256, 200);
        b.n = n;
        saved("bad.pte", b);
        refused("bad.pte", LAM_FAILED, "at byte");
    }
}

static void read_it(void *file, bool *ok) {
    lam_model *m = NULL;
    *ok = lam_read(&m, file, NULL, &last) == LAM_OK;
    lam_model_free(m);
}

static void memory_may_run_out_anywhere(void **state) {
    (void)state;
    static char file[] = "a.pte";
    saved(file, program_of(48, 32, PROGRAM, 256, 200));
    oom_sweep_parts(read_it, file);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_header_tells_sizes_and_no_more),
        cmocka_unit_test(a_header_that_lies_is_refused),
        cmocka_unit_test(memory_may_run_out_anywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
