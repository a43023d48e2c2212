/* SPDX-License-Identifier: Apache-2.0
 *
 * Reports as text, which transcripts may be held against (shown.h). */
#ifndef LAMINA_TEST_SHOW_H
#define LAMINA_TEST_SHOW_H

#include "kit/shown.h"

OOM_UNUSED static lam_report_options show_options(const char *layout, const char *format) {
    lam_report_options o;
    lam_report_defaults(&o);
    if (layout) o.layout = layout;
    if (format) o.format = format;
    return o;
}

OOM_UNUSED static const char *show(const lam_costs *c, const lam_report_options *o) {
    lam_error e = {0};
    lam_status s = lam_report_write(c, o, show_sink(), &e);
    if (s != LAM_OK) fail_msg("lam_report_write: %s: %s", e.where, e.text);
    return shown;
}

OOM_UNUSED static lam_status show_write(void *to, const char *bytes, size_t n) {
    return fwrite(bytes, 1, n, (FILE *)to) == n ? LAM_OK : LAM_IO;
}

/* Saves the report as JSON; what was shown stays. */
OOM_UNUSED static void show_save(const lam_costs *c, const char *file) {
    const lam_report_options o = show_options(NULL, "json");
    lam_error e = {0};
    FILE *f = fopen(file, "wb");
    assert_non_null(f);
    if (lam_report_write(c, &o, (lam_sink){show_write, f}, &e) != LAM_OK) fail_msg("%s: %s", e.where, e.text);
    assert_int_equal(fclose(f), 0);
}

#endif
