/* SPDX-License-Identifier: Apache-2.0
 * Entries of imported functions, see import_table.h. The loader itself used these tables, so they are
 * trusted; a library without them is skipped. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "process/import_table.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__linux__) && (defined(__x86_64__) || defined(__aarch64__))

#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__x86_64__)
enum { RELOC_SLOT = R_X86_64_JUMP_SLOT, RELOC_DATA = R_X86_64_GLOB_DAT, RELOC_WORD = R_X86_64_64 };
#else
enum { RELOC_SLOT = R_AARCH64_JUMP_SLOT, RELOC_DATA = R_AARCH64_GLOB_DAT, RELOC_WORD = R_AARCH64_ABS64 };
#endif

/* A library's tables of its imports. */
typedef struct object {
    ElfW(Addr) base, sealed, sealed_end; /* from sealed on, read-only after loading */
    const ElfW(Sym) * symbols;
    const char *names;
    const ElfW(Rela) * tables[2];
    size_t n[2]; /* relocations in each */
} object;

static const ElfW(Dyn) * dynamic_of(const struct dl_phdr_info *info, object *o) {
    const ElfW(Dyn) *dynamic = NULL;
    ElfW(Addr) page = (ElfW(Addr))sysconf(_SC_PAGESIZE);
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        ElfW(Addr) from = info->dlpi_addr + p->p_vaddr;
        if (p->p_type == PT_DYNAMIC)
            dynamic = (const ElfW(Dyn) *)from; /* NOLINT: an address of the loader's */
        if (p->p_type == PT_GNU_RELRO) {
            o->sealed = from & ~(page - 1);
            o->sealed_end = (from + p->p_memsz) & ~(page - 1);
        }
    }
    return dynamic;
}

/* glibc has made the addresses in the dynamic section absolute; other loaders have not. */
static const void *at(const object *o, ElfW(Addr) address) {
    return (const void *)(address < o->base ? o->base + address : address); /* NOLINT */
}

static bool read_object(const struct dl_phdr_info *info, object *o) {
    *o = (object){.base = info->dlpi_addr};
    const ElfW(Dyn) *d = dynamic_of(info, o);
    bool with_addends = true;
    for (; d && d->d_tag != DT_NULL; d++) {
        switch (d->d_tag) {
        case DT_SYMTAB: o->symbols = at(o, d->d_un.d_ptr); break;
        case DT_STRTAB: o->names = at(o, d->d_un.d_ptr); break;
        case DT_JMPREL: o->tables[0] = at(o, d->d_un.d_ptr); break;
        case DT_PLTRELSZ: o->n[0] = d->d_un.d_val / sizeof(ElfW(Rela)); break;
        case DT_PLTREL: with_addends = d->d_un.d_val == DT_RELA; break;
        case DT_RELA: o->tables[1] = at(o, d->d_un.d_ptr); break;
        case DT_RELASZ: o->n[1] = d->d_un.d_val / sizeof(ElfW(Rela)); break;
        default: break;
        }
    }
    return o->symbols && o->names && with_addends;
}

static void keep(lmx_entries *e, const object *o, const ElfW(Rela) * r, int which) {
    if (e->n == e->cap) {
        size_t cap = e->cap ? 2 * e->cap : 16;
        lmx_import *more = realloc(e->at, cap * sizeof *more);
        e->nomem = e->nomem || !more;
        if (!more) return;
        e->at = more;
        e->cap = cap;
    }
    ElfW(Addr) address = o->base + r->r_offset;
    bool is_sealed = address >= o->sealed && address < o->sealed_end;
    ElfW(Addr) page = address & ~((ElfW(Addr))sysconf(_SC_PAGESIZE) - 1);
    e->at[e->n++] = (lmx_import){.at = (void **)address,                  /* NOLINT */
                                 .page = is_sealed ? (void *)page : NULL, /* NOLINT */
                                 .which = which};
}

static int named(const lmx_entries *e, const char *name) {
    for (int i = 0; i < LMX_SYMBOLS; i++)
        if (strcmp(name, e->symbols[i]) == 0) return i;
    return -1;
}

/* Relocations of one symbol mostly follow each other, so its name is compared once. Most others have no
 * symbol. */
static void find_in(lmx_entries *e, const object *o) {
    for (int k = 0; k < 2; k++) {
        uint64_t last = UINT64_MAX;
        int which = -1;
        for (size_t i = 0; o->tables[k] && i < o->n[k]; i++) {
            const ElfW(Rela) *r = &o->tables[k][i];
            uint32_t type = (uint32_t)ELF64_R_TYPE(r->r_info);
            if (type != RELOC_SLOT && type != RELOC_DATA && type != RELOC_WORD) continue;
            uint64_t symbol = ELF64_R_SYM(r->r_info);
            if (!symbol) continue;
            if (symbol != last) which = named(e, o->names + o->symbols[symbol].st_name);
            last = symbol;
            if (which >= 0) keep(e, o, r, which);
        }
    }
}

static int visit(struct dl_phdr_info *info, size_t size, void *self) {
    lmx_entries *e = self;
    object o;
    (void)size;
    if (read_object(info, &o)) find_in(e, &o);
    return 0;
}

static int count(struct dl_phdr_info *info, size_t size, void *self) {
    unsigned long long *n = self;
    (void)size;
    n[0] = info->dlpi_adds;
    n[1] = info->dlpi_subs;
    return 1;
}

bool lmx_entries_find(lmx_entries *e, char *why, size_t size) {
    unsigned long long now[2] = {0, 0};
    dl_iterate_phdr(count, now);
    if (e->n && now[0] == e->adds && now[1] == e->subs) return true;
    e->n = 0;
    e->nomem = false;
    dl_iterate_phdr(visit, e);
    e->adds = now[0];
    e->subs = now[1];
    bool seen[LMX_SYMBOLS] = {false};
    for (size_t i = 0; i < e->n; i++) seen[e->at[i].which] = true;
    for (int i = 0; i < LMX_SYMBOLS; i++) {
        if (seen[i] && !e->nomem) continue;
        if (e->nomem)
            snprintf(why, size, "memory ran out");
        else
            snprintf(why, size, "no library that is loaded imports %s", e->symbols[i]);
        e->n = 0;
        return false;
    }
    return true;
}

static bool put(const lmx_import *entry, void *value) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    if (entry->page && mprotect(entry->page, page, PROT_READ | PROT_WRITE) != 0) return false;
    __atomic_store_n(entry->at, value, __ATOMIC_SEQ_CST);
    if (entry->page) mprotect(entry->page, page, PROT_READ);
    return true;
}

bool lmx_entries_redirect(lmx_entries *e, void *const replacements[LMX_SYMBOLS]) {
    for (size_t i = 0; i < e->n; i++) {
        lmx_import *entry = &e->at[i];
        entry->was = __atomic_load_n(entry->at, __ATOMIC_SEQ_CST);
        if (put(entry, replacements[entry->which])) continue;
        while (i-- > 0) put(&e->at[i], e->at[i].was);
        return false;
    }
    return true;
}

/* Marks the entries that lie in libraries that are still loaded. */
static int look(struct dl_phdr_info *info, size_t size, void *self) {
    lmx_entries *e = self;
    (void)size;
    for (int k = 0; k < info->dlpi_phnum; k++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[k];
        uintptr_t from = (uintptr_t)(info->dlpi_addr + p->p_vaddr);
        if (p->p_type != PT_LOAD) continue;
        for (size_t i = 0; i < e->n; i++) {
            uintptr_t address = (uintptr_t)e->at[i].at;
            if (address >= from && address < from + p->p_memsz && e->at[i].which < 0)
                e->at[i].which = -1 - e->at[i].which;
        }
    }
    return 0;
}

void lmx_entries_restore(lmx_entries *e, void *const replacements[LMX_SYMBOLS]) {
    unsigned long long now[2] = {0, 0};
    dl_iterate_phdr(count, now);
    if (now[1] != e->subs) {
        for (size_t i = 0; i < e->n; i++) e->at[i].which = -1 - e->at[i].which;
        dl_iterate_phdr(look, e);
    }
    for (size_t i = 0; i < e->n; i++) {
        const lmx_import *entry = &e->at[i];
        if (entry->which < 0) continue;
        if (__atomic_load_n(entry->at, __ATOMIC_SEQ_CST) == replacements[entry->which])
            put(entry, entry->was);
    }
    if (now[1] != e->subs) e->n = 0; /* they are searched again */
}

#else

bool lmx_entries_find(lmx_entries *e, char *why, size_t size) {
    (void)e;
    snprintf(why, size, "this platform's libraries are not known to lamina");
    return false;
}

bool lmx_entries_redirect(lmx_entries *e, void *const replacements[LMX_SYMBOLS]) {
    (void)e;
    (void)replacements;
    return false;
}

void lmx_entries_restore(lmx_entries *e, void *const replacements[LMX_SYMBOLS]) {
    (void)e;
    (void)replacements;
}

#endif
