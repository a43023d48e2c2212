/* SPDX-License-Identifier: Apache-2.0
 *
 * `lamina report`: where it may be written, what it asks of a host, models that failed. */
#include "kit/oom.h"

#include "kit/fakehost.h"

static void a_terminal_gets_no_page(void **state) {
    (void)state;
    lam_host h = fake_host();
    h.out_is_terminal = true;
    assert_int_equal(fake_run(&h, "report m:two"), 2);
    OUT_IS_EMPTY();
    ERR_HAS("lamina: error: a report is a page for a browser, and no file is given for it\n"
            "  hint: add -o report.html\n");
    assert_int_equal(fake_lives, 0);
    assert_int_equal(fake_run(&h, "report m:two -o -"), 2);
    h = fake_host();
    assert_int_equal(fake_run(&h, "report m:two -o -"), 0);
    OUT_HAS("<!doctype html>\n");
    OUT_HAS("<bdi>m:two</bdi>");
}

static void a_page_of_a_step(void **state) {
    (void)state;
    assert_int_equal(lamina("report m:step -i 1x2 --backward --roof --memory --health"), 0);
    ERR_IS_EMPTY();
    assert_true(fake_asked.backward && fake_asked.time && fake_asked.memory && fake_asked.health);
    assert_string_equal(fake_request, "m:step mode=train -i 1x2 ops backward");
    OUT_HAS("<title>");
    OUT_HAS(" · lamina report</title>");
    OUT_HAS("</html>\n");
}

/* The part that ran is written, and the page says so. */
static void a_model_that_failed(void **state) {
    (void)state;
    assert_int_equal(lamina("report m:partial"), 3);
    ERR_HAS("mat1 and mat2 shapes cannot be multiplied");
    OUT_HAS("Only a part of the model ran.</b> <bdi>mat1 and mat2 shapes cannot be multiplied</bdi>");
    OUT_HAS("</html>\n");
    assert_int_equal(lamina("report m:broken"), 3);
    OUT_IS_EMPTY();
}

/* A format of `show` too, which has no part in it for the table's options. */
static void as_a_format(void **state) {
    (void)state;
    static char page[sizeof fake_out.text];
    assert_int_equal(lamina("report m:step -i 1x2 --backward --roof --memory"), 0);
    memcpy(page, fake_out.text, sizeof page);
    assert_int_equal(lamina("show m:step -i 1x2 --backward --roof --memory --format html"), 0);
    assert_string_equal(fake_out.text, page);
    assert_int_equal(lamina("m:step -i 1x2 --format html --sort params --depth 1"), 0);
    OUT_HAS("</html>\n");
    assert_int_equal(lamina("m:step --format html --sort width"), 2);
    assert_int_equal(lamina("m:partial --format html"), 3);
    OUT_HAS("Only a part of the model ran.</b> <bdi>mat1 and mat2 shapes cannot be multiplied</bdi>");
}

static void wrong_options(void **state) {
    (void)state;
    assert_int_equal(lamina("report m:two --repeats 3"), 2);
    ERR_HAS("hint: add --time");
    assert_int_equal(lamina("report m:two --convention exakt"), 2);
    ERR_HAS("did you mean exact?");
    assert_int_equal(lamina("report m:two --backward --convention thoplw"), 2);
    assert_int_equal(lamina("report m:two --rules /no/such/file"), 2);
    lam_host h = fake_host();
    h.roof = NULL;
    assert_int_equal(fake_run(&h, "report m:two --roof"), 3);
    ERR_HAS("what this machine can do is not known here");
    assert_int_equal(fake_lives, 0);
    h = fake_host();
    fake_out.fails_with = ENOSPC;
    assert_int_equal(fake_run(&h, "report m:two"), 3);
    ERR_HAS("it could not be written");
}

/* -- differences -------------------------------------------------------------------------------------------
 */

static void two_models(void **state) {
    (void)state;
    assert_int_equal(lamina("report m:two m:step -i 1x2"), 0);
    ERR_IS_EMPTY();
    assert_int_equal(fake_lives, 2);
    assert_string_equal(fake_request, "m:step mode=eval -i 1x2 ops");
    OUT_HAS("<bdi>m:two</bdi>");
    OUT_HAS("What it is compared with");
    OUT_HAS("</html>\n");
    assert_int_equal(lamina("report m:two m:step m:two"), 2);
    ERR_HAS("one operand too many");
    assert_int_equal(lamina("report m:broken m:two"), 3);
    assert_int_equal(fake_lives, 1);
    assert_int_equal(lamina("report m:two m:broken"), 3);
    OUT_IS_EMPTY();
    assert_int_equal(lamina("report m:partial m:two"), 3);
    OUT_HAS("Only a part of the model ran.</b> <bdi>mat1 and mat2 shapes cannot be multiplied</bdi>");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_terminal_gets_no_page),
        cmocka_unit_test(a_page_of_a_step),
        cmocka_unit_test(as_a_format),
        cmocka_unit_test(a_model_that_failed),
        cmocka_unit_test(wrong_options),
        cmocka_unit_test(two_models),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
