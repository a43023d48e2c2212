/* SPDX-License-Identifier: Apache-2.0
 * redirect: other libraries' calls of a function lead to one of ours for a while. A shared library reaches
 * what it imports through entries in its own memory, which the loader fills; those entries are changed and
 * put back, and no code is. ELF on x86-64 and AArch64. */
#ifndef LMX_REDIRECT_H
#define LMX_REDIRECT_H

#include <stdbool.h>
#include <stddef.h>

typedef struct lmx_import {
    void **at;     /* the entry */
    void *was;     /* what it held before it was changed */
    void *page;    /* where it must be made writable first; NULL: it is */
    int which;     /* index of the symbol */
} lmx_import;

enum { LMX_SYMBOLS = 2 };

/* The entries for some symbols in every library that is loaded. Kept between captures: looking for them costs
 * milliseconds, and they change only where libraries come or go. */
typedef struct lmx_entries {
    const char *symbols[LMX_SYMBOLS];
    lmx_import *at;
    size_t n, cap;
    unsigned long long adds, subs; /* of libraries, when they were looked for */
    bool nomem;
} lmx_entries;

/* Finds them, unless nothing came or went since. False with a reason in `why`, also where there are none. */
bool lmx_entries_find(lmx_entries *e, char *why, size_t size);
/* Makes every entry lead to replacements[which]. False where one can't be written: then none is changed. */
bool lmx_entries_redirect(lmx_entries *e, void *const replacements[LMX_SYMBOLS]);
/* Puts back what was there. An entry that somebody else changed meanwhile is left as it is, and what was
 * unloaded is not touched. */
void lmx_entries_restore(lmx_entries *e, void *const replacements[LMX_SYMBOLS]);
void lmx_entries_free(lmx_entries *e);

#endif
