/* SPDX-License-Identifier: Apache-2.0
 *
 * What loading a file would import: every name in every pickle of it, noted where a pickle names it and not
 * where it is used. Pickles are found by content, in zip files too, and what could not be read is told. */
#include "base/system.h"
#include "read/pt2/pt2.h"
#include "read/read.h"
#include "read/safetensors/safetensors.h"
#include "read/torch/allowed.h"
#include "read/torch/checkpoint.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

enum { HEAD = 512, MOST_NESTED = 3, MOST_PICKLES = 1000, MOST_UNREAD = 100, LEAST_ENTRY = 16 << 20 };

struct lam_scan {
    lmi_arena arena;
    lmi_vec imports; /* lam_import */
    lmi_map by_name;
    lmi_vec unread; /* const char * */
    uint64_t size;  /* of the file, which bounds what is decompressed */
    uint64_t made;  /* bytes that were decompressed */
};

/* -- what was found -------------------------------------------------------------------------------------- */

static lam_status note_unread(lam_scan *s, const char *where, const char *why, lam_error *e) {
    char text[sizeof((lam_error *)0)->text + 300];
    if (s->unread.n >= MOST_UNREAD) return LAM_OK;
    snprintf(text, sizeof text, "%.200s%s%s", where, *where ? ": " : "", why);
    const char *copy = lmi_strdup(&s->arena, text);
    return copy ? lmi_vec_put(&s->unread, &copy, e) : lmi_nomem(e);
}

/* The failure of a part of the file is one of the scan only if memory ran out. */
static lam_status note_failed(lam_scan *s, const char *where, lam_status how, const lam_error *why,
                              lam_error *e) {
    return how == LAM_NOMEM ? lmi_nomem(e) : note_unread(s, where, why->text, e);
}

static lam_status note_import(lam_scan *s, const lmi_pickled_global *g, const char *where, lam_error *e) {
    const size_t n = strlen(g->module), all = n + strlen(g->name) + 2;
    char *key = lmi_alloc(&s->arena, all, 1);
    if (!key) return lmi_nomem(e);
    snprintf(key, all, "%s%c%s", g->module, '\n', g->name); /* of a harmless name no part has a line's end */
    const int64_t known = lmi_map_get(&s->by_name, key);
    if (known >= 0) {
        ((lam_import *)lmi_vec_at(&s->imports, (size_t)known))->times++;
        return LAM_OK;
    }
    const lam_import x = {.module = lmi_strdup(&s->arena, g->module),
                          .name = lmi_strdup(&s->arena, g->name),
                          .where = lmi_strdup(&s->arena, where),
                          .at = (int64_t)g->at,
                          .times = 1,
                          .kind = lmi_import_kind(g->module, g->name)};
    if (!x.module || !x.name || !x.where) return lmi_nomem(e);
    LAM_TRY(lmi_map_put(&s->by_name, key, (int64_t)s->imports.n, e));
    return lmi_vec_put(&s->imports, &x, e);
}

/* -- pickles --------------------------------------------------------------------------------------------- */

static bool is_word(const char *text) {
    uint32_t code = 0;
    const char *c = text;
    for (size_t n; (n = lmi_utf8(c, &code)) != 0 && code != LMI_BAD_UTF8; c += n)
        if (code < 0x80 && !isalnum((int)code) && !strchr("_.-<>", (int)code)) return false;
    return c > text && !*c;
}

/* False of what only looks like an import, as the first two lines of a source file that begins with "class".
 */
static bool can_import(const lmi_pickled_global *g) { return is_word(g->module) && is_word(g->name); }

/* True if the pickle that was read, or was until it broke off, is one and not other bytes: in an entry of a
 * zip file that nothing calls a pickle, a text of short lines such as "cat", "dog" can begin as one.
 * torch.load finds the names of storages in any module, so not only the first import counts. */
static bool is_pickle(const lmi_pickle *p, bool whole, bool inside) {
    bool any = false;
    for (size_t i = 0; !any && i < p->global.n; i++) any = can_import(lmi_vec_at(&p->global, i));
    return any && (whole || p->at_import || !inside);
}

typedef struct row {
    const lmi_bytes *of;
    const char *where;
    int last;      /* how many pickles there are; 0: as many as fill the bytes */
    bool surely;   /* the bytes are a pickle, and not only like one */
    bool inside;   /* they are an entry of a zip file */
    uint64_t torn; /* as of a pickle, of the first that has it */
} row;

/* Notes the imports of the pickles from byte `at` on, also of one that is damaged: a machine that runs it
 * would have imported them before it came there. */
static lam_status scan_row(lam_scan *s, row *r, uint64_t at, lam_error *e) {
    for (int n = 0; at < r->of->size && (!r->last || n < r->last); n++) {
        lmi_pickle p;
        lam_error why = {.at = -1};
        if (n == MOST_PICKLES) return note_unread(s, r->where, "it has more than 1000 pickles in a row", e);
        lam_status status = lmi_pickle_read(&p, r->of, at, s->size, &why), noted = LAM_OK;
        r->surely = r->surely || is_pickle(&p, status == LAM_OK, r->inside);
        for (size_t i = 0; r->surely && noted == LAM_OK && i < p.global.n; i++)
            noted = note_import(s, lmi_vec_at(&p.global, i), r->where, e);
        at = p.end;
        if (!r->torn) r->torn = p.torn;
        lmi_pickle_free(&p);
        LAM_TRY(noted);
        if (status == LAM_OK) continue;
        const bool told = r->surely || status == LAM_NOMEM || status == LAM_LIMIT;
        return told ? note_failed(s, r->where, status, &why, e) : LAM_OK;
    }
    return LAM_OK;
}

/* A loader that reads the next pickle goes on behind the end of the last one, or behind its frame. */
static lam_status scan_pickles(lam_scan *s, row r, lam_error *e) {
    LAM_TRY(scan_row(s, &r, 0, e));
    if (r.torn == 0) return LAM_OK;
    LAM_TRY(note_unread(s, r.where, "a frame of its pickle ends where no opcode ends", e));
    return scan_row(s, &r, r.torn, e);
}

/* -- zip files ------------------------------------------------------------------------------------------- */

static lam_status scan_bytes(lam_scan *s, const lmi_bytes *of, const char *where, bool named, int depth,
                             lam_error *e);

/* True for a storage: torch reads its bytes as numbers. */
static bool is_storage(const lmi_zip *z, const lmi_zip_entry *entry) {
    size_t folder;
    const lmi_zip_entry *pickle = lmi_torch_pickle(z, &folder);
    return pickle && strncmp(entry->name, pickle->name, folder) == 0 &&
           strncmp(entry->name + folder, "/data/", 6) == 0 && !strchr(entry->name + folder + 6, '/');
}

static lam_status open_entry(lam_scan *s, const lmi_zip *z, const lmi_zip_entry *entry, lmi_bytes *part,
                             char **all, lam_error *why) {
    size_t n;
    if (!entry->deflated) return lmi_zip_part(z, entry, part, why);
    s->made += entry->size;
    if (s->made > LEAST_ENTRY + 2 * s->size)
        return lmi_fail(why, LAM_LIMIT, NULL, "it decompresses to more than a file of its size should");
    LAM_TRY(lmi_zip_all(z, entry, LEAST_ENTRY + 2 * s->size, all, &n, why));
    *part = lmi_bytes_of(*all, n, entry->name);
    return LAM_OK;
}

/* By its name it is a pickle, also in capitals: torch finds DATA.PKL too. */
static bool is_named(const char *name, const char *end) {
    const size_t n = strlen(name), k = strlen(end);
    size_t i = 0;
    while (n >= k && i < k && tolower((unsigned char)name[n - k + i]) == end[i]) i++;
    return i == k;
}

static lam_status scan_entry(lam_scan *s, const lmi_zip *z, const lmi_zip_entry *entry, const char *where,
                             int depth, lam_error *e) {
    char name[512], *all = NULL;
    lmi_bytes part = {.fd = -1};
    lam_error why = {.at = -1};
    const bool named = is_named(entry->name, ".pkl") || is_named(entry->name, ".pickle");
    if (is_storage(z, entry) || entry->size == 0) return LAM_OK;
    snprintf(name, sizeof name, "%s%s%s", where, *where ? ", " : "", entry->name);
    lam_status status = open_entry(s, z, entry, &part, &all, &why);
    status = status == LAM_OK ? scan_bytes(s, &part, name, named, depth + 1, e)
                              : note_failed(s, name, status, &why, e);
    free(all);
    return status;
}

static lam_status scan_zip(lam_scan *s, const lmi_bytes *of, const char *where, int depth, lam_error *e) {
    lmi_zip z;
    lam_error why = {.at = -1};
    if (depth >= MOST_NESTED) return note_unread(s, where, "it is a zip file in too many others", e);
    lam_status status = lmi_zip_open(&z, of, &why);
    const bool opened = status == LAM_OK;
    if (!opened && status != LAM_NOMEM && depth == 0 && lmi_is_piece(of->name))
        status =
            note_unread(s, where,
                        "it is a file of a checkpoint of torch.distributed.checkpoint, which is not read", e);
    else if (!opened)
        status = note_failed(s, where, status, &why, e);
    for (int32_t i = 0; opened && status == LAM_OK && i < z.n; i++)
        status = scan_entry(s, &z, &z.entry[i], where, depth, e);
    if (opened && status == LAM_OK && lmi_torch_kind_of_zip(&z) == LMI_TORCH_NONE && !lmi_is_pt2(&z))
        status =
            note_unread(s, where, "it is a zip file that torch did not write: what loads it is not known", e);
    lmi_zip_free(&z);
    return status;
}

/* -- any bytes ------------------------------------------------------------------------------------------- */

/* A file by itself may be an old pickle, which has no mark, also if it begins as another format does: the
 * first bytes of GGUF are a number to a machine for pickles, and what follows is run. */
static lam_status scan_unknown(lam_scan *s, const lmi_bytes *of, lmi_format format, lam_error *e) {
    const size_t before = s->imports.n;
    LAM_TRY(scan_pickles(s, (row){.of = of, .where = ""}, e));
    if (s->imports.n > before || s->unread.n) return LAM_OK;
    switch (format) {
    case LMI_SAFETENSORS:
    case LMI_GGUF:
    case LMI_PTE:
    case LMI_ONNX:
    case LMI_REPORT: return LAM_OK; /* nothing of these is imported */
    case LMI_INDEX: return note_unread(s, "", "it is an index: scan the shards that it names", e);
    default: return note_unread(s, "", "it is neither a pickle nor a format that is known", e);
    }
}

static lam_status scan_bytes(lam_scan *s, const lmi_bytes *of, const char *where, bool named, int depth,
                             lam_error *e) {
    unsigned char head[HEAD];
    lmi_format format;
    lam_error why = {.at = -1};
    const size_t n = of->size < HEAD ? (size_t)of->size : HEAD;
    lam_status status = lmi_bytes_read(of, 0, head, n, &why);
    if (status != LAM_OK) return note_failed(s, where, status, &why, e);
    if (n >= 4 && memcmp(head, "PK\3\4", 4) == 0) return scan_zip(s, of, where, depth, e);
    const bool marked = n >= 2 && head[0] == 0x80 && head[1] <= 5;
    const lmi_torch_kind kind = lmi_torch_kind_of(head, n);
    /* torch.load tries this first; the name of the first file in it may look like a pickle */
    if (kind == LMI_TORCH_TAR && depth == 0)
        LAM_TRY(note_unread(s, where, "it is a tar file, which is not read", e));
    row r = {.of = of, .where = where, .inside = depth > 0};
    if (kind == LMI_TORCH_LEGACY) r.last = 5;
    /* torch.load takes a file of safetensors for a pickle if it has the mark; it is one only if it can be
     * read as one */
    r.surely =
        kind == LMI_TORCH_LEGACY || named || (marked && depth == 0 && !lmi_is_safetensors(head, n, of->size));
    if (marked || named || depth) return scan_pickles(s, r, e);
    LAM_TRY(lmi_format_of(of, &format, e));
    return scan_unknown(s, of, format, e);
}

/* -- the scan -------------------------------------------------------------------------------------------- */

static int by_kind(const void *a, const void *b) {
    const lam_import *x = a, *y = b;
    if (x->kind != y->kind) return x->kind < y->kind ? -1 : 1;
    const int where = strcmp(x->where, y->where);
    return where ? where : (x->at > y->at) - (x->at < y->at);
}

lam_status lam_scan_new(lam_scan **out, const char *file, lam_error *e) {
    lmi_bytes of;
    *out = NULL;
    LAM_TRY(lmi_bytes_open(&of, file, e));
    lam_scan *s = calloc(1, sizeof *s);
    lam_status status = s ? LAM_OK : lmi_nomem(e);
    if (s) {
        lmi_arena_init(&s->arena, UINT64_MAX);
        lmi_vec_init(&s->imports, sizeof(lam_import));
        lmi_map_init(&s->by_name);
        lmi_vec_init(&s->unread, sizeof(const char *));
        s->size = of.size;
        status = scan_bytes(s, &of, "", false, 0, e);
    }
    lmi_bytes_close(&of);
    if (status == LAM_OK) {
        if (s->imports.n) qsort(s->imports.data, s->imports.n, sizeof(lam_import), by_kind);
        *out = s;
    } else {
        lam_scan_free(s);
    }
    return status;
}

void lam_scan_free(lam_scan *s) {
    if (!s) return;
    lmi_vec_free(&s->imports);
    lmi_map_free(&s->by_name);
    lmi_vec_free(&s->unread);
    lmi_arena_free(&s->arena);
    free(s);
}

const lam_import *lam_scan_import(const lam_scan *s, int32_t i) {
    return i < 0 ? NULL : lmi_vec_at(&s->imports, (size_t)i);
}

const char *lam_scan_unread(const lam_scan *s, int32_t i) {
    const char *const *text = i < 0 ? NULL : lmi_vec_at(&s->unread, (size_t)i);
    return text ? *text : NULL;
}
