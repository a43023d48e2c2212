/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the copy of SQLite that is used. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* dladdr */
#endif
#include "base/sqlite.h"
#include "base/system.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

enum { OLDEST = 3031000 }; /* the first version with a setting not to trust a file's schema */

/* Finds the file of a function; "": unknown. ISO C can't convert a function pointer, so it is copied. */
static void put_file(lam_sqlite *to, const char *(*function)(void)) {
    Dl_info info;
    void *at;
    memcpy(&at, &function, sizeof at);
    to->file[0] = '\0';
    if (dladdr(at, &info) && info.dli_fname) snprintf(to->file, sizeof to->file, "%s", info.dli_fname);
    lmi_clean(to->file);
}

static lam_status tell_of(lam_sqlite *to, const char *(*version)(void), int number, const char *whose,
                          lam_error *e) {
    *to = (lam_sqlite){.version = version(), .whose = whose};
    put_file(to, version);
    if (number >= OLDEST) return LAM_OK;
    return lmi_fail(e, LAM_UNSUPPORTED, to->file,
                    "recordings need SQLite 3.31 or newer, and this is %s; use a Python "
                    "that has a newer one",
                    to->version);
}

typedef struct copy {
    lmi_sqlite_calls calls;
    lam_sqlite info;
} copy;
static _Atomic(const copy *) found;
static _Atomic(lmi_sqlite_host) asked;

const lmi_sqlite_calls *lmi_sqlite_found(void) {
    const copy *it = atomic_load_explicit(&found, memory_order_acquire);
    return it ? &it->calls : NULL;
}

void lmi_sqlite_of(lmi_sqlite_host host) { atomic_store(&asked, host); }

/* Fills the table; false if a function is missing. */
static bool look_up(void *from, lmi_sqlite_calls *to) {
    bool all = true;
    void *at;
#define FUNCTION(result, name, parameters)                                                                   \
    at = dlsym(from, "sqlite3_" #name);                                                                      \
    memcpy(&to->name, &at, sizeof at);                                                                       \
    all = all && at;
#define CONSTANT(name, value)
#include "base/sqlite.def"
#undef FUNCTION
#undef CONSTANT
    return all;
}

/* Looks for the host's copy. Its handle of dlopen is never closed: the copy stays loaded as long as the
 * host. */
static bool ask_host(lmi_sqlite_calls *to, bool *hidden) {
    char file[4096] = "";
    const lmi_sqlite_host host = atomic_load(&asked);
    *hidden = false;
    if (!host || !host(file, sizeof file)) return false;
    void *from = dlopen(*file ? file : NULL, RTLD_NOW | RTLD_NOLOAD);
    *hidden = !from || !look_up(from, to);
    return !*hidden;
}

#if defined(__APPLE__)
static const char *const names[] = {"/usr/lib/libsqlite3.dylib", "libsqlite3.dylib"};
#define WHAT_TO_DO "install it"
#elif defined(_WIN32)
static const char *const names[] = {"sqlite3.dll", "winsqlite3.dll"}; /* the second is a part of Windows 10 */
#define WHAT_TO_DO "put it beside lamina.exe (sqlite.org has it)"
#else
static const char *const names[] = {"libsqlite3.so.0", "libsqlite3.so"};
#define WHAT_TO_DO "install it (Debian: libsqlite3-0)"
#endif

static bool ask_system(lmi_sqlite_calls *to) {
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        void *from = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
        if (from && look_up(from, to)) return true;
        if (from) dlclose(from);
    }
    return false;
}

static lam_status look(copy *to, lam_error *e) {
    const char *whose = "Python's";
    bool hidden;
    if (!ask_host(&to->calls, &hidden)) {
        whose = hidden ? "the system's, since that of Python's module sqlite3 is hidden; don't open a "
                         "recording with that module in the process that writes it"
                       : "the system's";
        if (!ask_system(&to->calls))
            return lmi_fail(e, LAM_UNSUPPORTED, NULL,
                            "recordings need SQLite, and neither Python's module sqlite3 "
                            "nor a %s was found; " WHAT_TO_DO,
                            names[0]);
    }
    return tell_of(&to->info, to->calls.libversion, to->calls.libversion_number(), whose, e);
}

/* Two threads may search at the same time; both find the same copy, and the first table is kept. */
lam_status lam_recording_sqlite(lam_sqlite *out, lam_error *e) {
    const copy *it = atomic_load(&found);
    *out = (lam_sqlite){.version = "", .whose = ""};
    if (!it) {
        copy *mine = calloc(1, sizeof *mine);
        if (!mine) return lmi_nomem(e);
        lam_status s = look(mine, e);
        if (s != LAM_OK) {
            free(mine);
            return s;
        }
        if (atomic_compare_exchange_strong(&found, &it, mine))
            it = mine;
        else
            free(mine);
    }
    *out = it->info;
    return LAM_OK;
}

lam_status lmi_sqlite(lam_error *e) {
    lam_sqlite known;
    return lam_recording_sqlite(&known, e);
}
