/* SPDX-License-Identifier: Apache-2.0
 * import_table: temporarily redirects other libraries' calls of a function to one of lamina's. A shared
 * library calls imported functions through entries in its memory, which the loader fills; these entries are
 * changed and restored, and no code is. ELF on x86-64 and AArch64. */
#ifndef LMX_IMPORT_TABLE_H
#define LMX_IMPORT_TABLE_H

#include <stdbool.h>
#include <stddef.h>

typedef struct lmx_import {
    void **at;     /* the entry */
    void *was;     /* its value before it was changed */
    void *page;    /* the page that must be made writable first; NULL: it is writable */
    int which;     /* index of the symbol */
} lmx_import;

enum { LMX_SYMBOLS = 2 };

/* The entries for some symbols in every loaded library. Kept between captures: finding them takes
 * milliseconds, and they change only when libraries are loaded or unloaded. */
typedef struct lmx_entries {
    const char *symbols[LMX_SYMBOLS];
    lmx_import *at;
    size_t n, cap;
    unsigned long long adds, subs; /* the loader's counts of libraries when they were found */
    bool nomem;
} lmx_entries;

/* Finds them, unless no library was loaded or unloaded since. False with a reason in `why`, also if there are
 * none. */
bool lmx_entries_find(lmx_entries *e, char *why, size_t size);
/* Sets every entry to replacements[which]. False if one can't be written: then none is changed. */
bool lmx_entries_redirect(lmx_entries *e, void *const replacements[LMX_SYMBOLS]);
/* Restores the entries. An entry that other code changed since is left unchanged, and unloaded libraries are
 * not touched. */
void lmx_entries_restore(lmx_entries *e, void *const replacements[LMX_SYMBOLS]);

#endif
