/* SPDX-License-Identifier: Apache-2.0
 *
 * Reports that are saved as JSON, with all that a page shows, in a file that the test names FILE_NAME before
 * it includes this. */
#ifndef LAMINA_TEST_SAVED_H
#define LAMINA_TEST_SAVED_H

#include "kit/oom.h"
#include "kit/shown.h"
#include "report/saved/saved.h"

OOM_UNUSED static void put_file(const char *text, size_t n) {
    FILE *f = fopen(FILE_NAME, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, n, f), n);
    fclose(f);
}

OOM_UNUSED static lam_peak roof_of(const lam_costs *c) {
    return lmi_has_metric(c, LAM_BYTES_READ) ? (lam_peak){1e11, 1e10} : (lam_peak){0};
}

OOM_UNUSED static void save(const lam_costs *c) {
    lam_report_options o;
    lam_error e = {0};
    lam_report_defaults(&o);
    o.format = "json";
    o.peak = roof_of(c);
    o.page = true;
    assert_int_equal(lam_report_write(c, &o, show_sink(), &e), LAM_OK);
    put_file(shown, shown_n);
}

OOM_UNUSED static int remove_file(void **state) {
    (void)state;
    remove(FILE_NAME);
    return 0;
}

#endif
