/* SPDX-License-Identifier: Apache-2.0
 *
 * `lamina scan`: what loading files would import, without loading them. */
#include "base/system.h"
#include "cmd/cmd.h"

#include <stdio.h>

static const char *const kind_names[] = {[LAM_IMPORT_RUNS] = "runs code",
                                         [LAM_IMPORT_OTHER] = "unknown",
                                         [LAM_IMPORT_CLASS] = "unknown class",
                                         [LAM_IMPORT_KNOWN] = "known"};

static int32_t count(const lam_scan *s, bool known) {
    const lam_import *x;
    int32_t n = 0;
    for (int32_t i = 0; (x = lam_scan_import(s, i)); i++) n += (x->kind == LAM_IMPORT_KNOWN) == known;
    return n;
}

/* Prints names from the file: the end of a line in one makes no other line. */
static void say_clean(lmi_cli *c, const char *text) {
    lmi_buf b;
    lmi_buf_init(&b);
    lmi_put_clean(&b, text);
    lmi_say_text(c, &b);
}

static void say_imports(lmi_cli *c, const lam_scan *s) {
    const lam_import *x;
    char name[300], line[700], times[32] = "";
    for (int32_t i = 0; (x = lam_scan_import(s, i)) && x->kind != LAM_IMPORT_KNOWN; i++) {
        snprintf(name, sizeof name, "%.140s.%.140s", x->module, x->name);
        if (x->times > 1) snprintf(times, sizeof times, ", %d times", (int)x->times);
        snprintf(line, sizeof line, "  %-13s  %-30s  %.300s%sbyte %lld%s", kind_names[x->kind], name,
                 x->where, *x->where ? ", " : "", (long long)x->at, x->times > 1 ? times : "");
        say_clean(c, line);
        lmi_say(c, "\n");
    }
}

static void say(lmi_cli *c, const char *file, const lam_scan *s) {
    const int32_t known = count(s, true), others = count(s, false);
    const char *text;
    say_clean(c, file);
    if (others)
        lmi_say(c, ": loading it would import %d name%s that %s not known to be harmless\n", (int)others,
                others == 1 ? "" : "s", others == 1 ? "is" : "are");
    else if (lam_scan_unread(s, 0))
        lmi_say(c, ": not all of it could be read\n");
    else if (known)
        lmi_say(c, ": clean: it imports %d name%s, known to be harmless\n", (int)known,
                known == 1 ? "" : "s");
    else
        lmi_say(c, ": clean: it imports nothing\n");
    say_imports(c, s);
    for (int32_t i = 0; (text = lam_scan_unread(s, i)); i++) {
        lmi_say(c, "  not read       ");
        say_clean(c, text);
        lmi_say(c, "\n");
    }
}

static void json_file(lmi_cli *c, const char *file, const lam_scan *s, int code) {
    const lam_import *x;
    const char *text;
    lmi_json_open(c, NULL, LAM_FIELD_OBJECT);
    lmi_json_text(c, "file", file);
    lmi_json_text(c, "verdict",
                  code == LMI_EXIT_OK        ? "clean"
                  : code == LMI_EXIT_FINDING ? "found"
                                             : "not read");
    lmi_json_open(c, "imports", LAM_FIELD_LIST);
    for (int32_t i = 0; (x = lam_scan_import(s, i)); i++) {
        lmi_json_open(c, NULL, LAM_FIELD_OBJECT);
        lmi_json_text(c, "module", x->module);
        lmi_json_text(c, "name", x->name);
        lmi_json_text(c, "kind", kind_names[x->kind]);
        lmi_json_text(c, "where", x->where);
        lmi_json_int(c, "at", x->at);
        lmi_json_int(c, "times", x->times);
        lmi_json_close(c);
    }
    lmi_json_close(c);
    lmi_json_open(c, "unread", LAM_FIELD_LIST);
    for (int32_t i = 0; (text = lam_scan_unread(s, i)); i++) lmi_json_text(c, NULL, text);
    lmi_json_close(c);
    lmi_json_close(c);
}

static int scan(lmi_cli *c, const char *file) {
    lam_scan *s;
    lam_error e = {.at = -1};
    lam_status status = lmi_is_folder(file)
                            ? lmi_fail(&e, LAM_IO, file, "it is a folder; give the files in it")
                            : lam_scan_new(&s, file, &e);
    if (status != LAM_OK) return lmi_complain_of(c, &e, status);
    const int code = count(s, false)         ? LMI_EXIT_FINDING
                     : lam_scan_unread(s, 0) ? LMI_EXIT_FAILED
                                             : LMI_EXIT_OK;
    if (lmi_is_json(&c->args))
        json_file(c, file, s, code);
    else
        say(c, file, s);
    lam_scan_free(s);
    return code;
}

/* What was found is worse than what could not be read. */
static int worse(int a, int b) {
    if (a == LMI_EXIT_BUG || b == LMI_EXIT_BUG) return LMI_EXIT_BUG;
    if (a == LMI_EXIT_FINDING || b == LMI_EXIT_FINDING) return LMI_EXIT_FINDING;
    return a > b ? a : b;
}

int lmi_run_scan(lmi_cli *c) {
    int code = LMI_EXIT_OK;
    const bool json = lmi_is_json(&c->args);
    if (!json) lmi_output_narrow(c);
    if (json && (code = lmi_json_begin(c, "scan")) != LMI_EXIT_OK) return code;
    if (json) lmi_json_open(c, "files", LAM_FIELD_LIST);
    for (int32_t i = 0; i < c->args.n_operands; i++) code = worse(code, scan(c, c->args.operands[i]));
    if (!json) return code;
    lmi_json_close(c);
    return lmi_json_end(c, code);
}
