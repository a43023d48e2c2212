/* SPDX-License-Identifier: Apache-2.0
 *
 * Opens what torch.save and torch.jit.save wrote. A zip file has its pickle in data.pkl of its one folder and
 * a storage in each of data/0, data/1, ...; a legacy file is five pickles in a row (a number that marks it, a
 * version, the machine, what was saved, the names of storages) with the storages behind them. */
#include "read/torch/checkpoint.h"

#include <stdio.h>
#include <stdlib.h>

enum { LEAST_PICKLE = 16 << 20, TAR_BLOCK = 512, TAR_SUM = 148, TAR_DIGITS = 8 };

/* The number that marks a legacy file, as torch pickles it. */
static const unsigned char magic[] = {0x8a, 0x0a, 0x6c, 0xfc, 0x9c, 0x46, 0xf9,
                                      0x20, 0x6a, 0xa8, 0x50, 0x19, '.'};

static bool has(const lmi_zip *z, size_t folder, const char *name) {
    char path[512];
    const int n = snprintf(path, sizeof path, "%.*s/%s", (int)folder, z->entry[0].name, name);
    return n > 0 && (size_t)n < sizeof path && lmi_zip_find(z, path);
}

const lmi_zip_entry *lmi_torch_pickle(const lmi_zip *z, size_t *folder) {
    static const char data[] = "data.pkl";
    const char *slash = z->n ? strchr(z->entry[0].name, '/') : NULL;
    char path[512];
    *folder = slash ? (size_t)(slash - z->entry[0].name) : 0;
    if (!slash || *folder + sizeof data + 1 > sizeof path) return NULL;
    snprintf(path, sizeof path, "%.*s/%s", (int)*folder, z->entry[0].name, data);
    return lmi_zip_find(z, path);
}

lmi_torch_kind lmi_torch_kind_of_zip(const lmi_zip *z) {
    size_t folder;
    if (!lmi_torch_pickle(z, &folder)) return LMI_TORCH_NONE;
    return has(z, folder, "constants.pkl") ? LMI_TORCH_SCRIPT : LMI_TORCH_ZIP;
}

/* A number of a tar file's header: octal digits, which Python's tarfile takes with any of these between them,
 * or behind a byte that says so the number itself, the highest byte first. INT64_MIN: none. */
static int64_t tar_number(const unsigned char *of) {
    int64_t n = 0;
    const bool plain = of[0] < 0x80;
    for (int i = plain ? 0 : 1; i < TAR_DIGITS && (of[i] || !plain); i++) {
        if (plain && !strchr("01234567_oO+ \t\n\v\f\r", of[i])) return INT64_MIN;
        if (!plain || (of[i] >= '0' && of[i] <= '7')) n = plain ? n * 8 + of[i] - '0' : n << 8 | of[i];
    }
    return of[0] == 0xff ? n - ((int64_t)1 << 56) : n;
}

/* Of a tar file only a sum is sure to be there: that of its first block, with blanks in its own place, and
 * its bytes with a sign or not. */
static bool is_tar(const unsigned char *head, size_t n) {
    int64_t sum = 0, of_signed = 0;
    if (n < TAR_BLOCK) return false;
    for (int i = 0; i < TAR_BLOCK; i++) {
        const unsigned char c = i >= TAR_SUM && i < TAR_SUM + TAR_DIGITS ? ' ' : head[i];
        sum += c;
        of_signed += c < 128 ? c : c - 256;
    }
    const int64_t stated = tar_number(head + TAR_SUM);
    return stated == sum || stated == of_signed;
}

lmi_torch_kind lmi_torch_kind_of(const unsigned char *head, size_t n) {
    if (is_tar(head, n)) return LMI_TORCH_TAR;
    if (n < 2 || head[0] != 0x80 || head[1] > 5) return LMI_TORCH_NONE;
    const bool marked = n >= 2 + sizeof magic && memcmp(head + 2, magic, sizeof magic) == 0;
    return marked ? LMI_TORCH_LEGACY : LMI_TORCH_PICKLE;
}

lam_status lmi_torch_order(const lmi_zip *z, const lmi_zip_entry *entry, bool *turned, lam_error *e) {
    char *order = NULL;
    size_t n = 0;
    if (!entry) return LAM_OK;
    LAM_TRY(lmi_zip_all(z, entry, 64, &order, &n, e));
    *turned = n == 3 && memcmp(order, "big", n) == 0;
    free(order);
    return LAM_OK;
}

/* -- zip files ------------------------------------------------------------------------------------------- */

static lam_status read_pickle(lmi_tensors *t, const lmi_zip_entry *entry, lmi_storages *in, lam_error *e) {
    size_t n = 0;
    lmi_pickle p;
    char path[512], *all = NULL;
    lmi_bytes part;
    if (entry->deflated) {
        LAM_TRY(lmi_zip_all(in->zip, entry, LEAST_PICKLE + 2 * in->of->size, &all, &n, e));
        part = lmi_bytes_of(all, n, entry->name);
    } else {
        LAM_TRY(lmi_zip_part(in->zip, entry, &part, e));
    }
    lam_status s = lmi_pickle_read(&p, &part, 0, in->of->size, e);
    snprintf(path, sizeof path, "%.*s/byteorder", (int)in->folder, in->folder_name);
    if (s == LAM_OK) s = lmi_torch_order(in->zip, lmi_zip_find(in->zip, path), &in->turned, e);
    if (s == LAM_OK) s = lmi_torch_walk(t, &p, in, e);
    lmi_pickle_free(&p);
    free(all);
    return s;
}

static lam_status read_whole(lmi_tensors *t, const lmi_zip *z, const lmi_bytes *of, lam_error *e) {
    size_t folder;
    char path[512];
    const lmi_zip_entry *entry = lmi_torch_pickle(z, &folder);
    if (!entry) return lmi_fail(e, LAM_SYNTAX, of->name, "it is a zip file without a data.pkl in its folder");
    lmi_storages in = {
        .zip = z, .folder = folder, .folder_name = z->entry[0].name, .storages = "data", .of = of};
    LAM_TRY(read_pickle(t, entry, &in, e));
    snprintf(path, sizeof path, "%.*s/constants.pkl", (int)folder, in.folder_name);
    entry = lmi_zip_find(z, path);
    if (lmi_tensors_n(t) || !entry) return LAM_OK;
    in.storages = "constants";
    LAM_TRY(read_pickle(t, entry, &in, e));
    return lmi_tensors_n(t) ? lmi_tensors_note(t, e,
                                               "its weights are constants of its program, as "
                                               "torch.jit.freeze makes them: their names are numbers")
                            : LAM_OK;
}

static lam_status read_zip(lmi_tensors *t, const lmi_bytes *of, lam_error *e) {
    lmi_zip z;
    lam_status s = lmi_zip_open(&z, of, e);
    if (s == LAM_OK) s = read_whole(t, &z, of, e);
    lmi_zip_free(&z);
    return s;
}

/* -- legacy files ---------------------------------------------------------------------------------------- */

/* The bits of an element of each storage that the pickle names. */
static lam_status note_storages(const lmi_pickle *p, lmi_map *bits, lam_error *e) {
    for (size_t i = 0; i < p->value.n; i++) {
        const lmi_pickled_value *v = lmi_pickled_at(p, (int32_t)i);
        const char *name =
            v->kind == LMI_PICKLED_KEPT ? lmi_pickled_text(p, lmi_pickled_item(p, v->id, 2)) : NULL;
        if (!name) continue;
        const int32_t dtype = lmi_torch_storage_type(lmi_pickled_global_of(p, lmi_pickled_item(p, v->id, 1)));
        LAM_TRY(lmi_map_put(bits, name, dtype < 0 ? 8 : lam_dtype_bits(dtype), e));
    }
    return LAM_OK;
}

/* Walks the storages behind the pickles: each begins with the number of its elements. */
static lam_status find_storages(const lmi_pickle *names, const lmi_map *bits, lmi_storages *in,
                                lam_error *e) {
    uint64_t pos = names->end;
    const lmi_pickled_items items = lmi_pickled_items_of(names, names->root);
    for (int32_t c = items.first; c >= 0; c = lmi_pickled_cell_at(names, c)->next) {
        const char *name = lmi_pickled_text(names, lmi_pickled_cell_at(names, c)->value);
        const int64_t wide = name ? lmi_map_get(bits, name) : -1;
        unsigned char count[8];
        lmi_bytes none;
        if (wide < 0) return lmi_bytes_bad(in->of, pos, e, "a storage that no tensor is in");
        LAM_TRY(lmi_bytes_read(in->of, pos, count, sizeof count, e));
        const uint64_t n = lmi_le64(count);
        if (n > in->of->size * 8)
            return lmi_bytes_bad(in->of, pos, e, "a storage that is longer than the file");
        const uint64_t bytes = (uint64_t)(((lmi_int128)n * wide + 7) / 8);
        LAM_TRY(lmi_bytes_part(in->of, pos + 8, bytes, name, &none, e));
        LAM_TRY(lmi_map_put(&in->elements, name, (int64_t)n, e));
        LAM_TRY(lmi_map_put(&in->places, name, (int64_t)(pos + 8), e));
        pos += 8 + bytes;
    }
    return LAM_OK;
}

static lam_status read_saved(lmi_tensors *t, const lmi_pickle *p, const lmi_pickle *names, lmi_storages *in,
                             lam_error *e) {
    lmi_map bits;
    lmi_map_init(&bits);
    lam_status s = note_storages(p, &bits, e);
    if (s == LAM_OK) s = find_storages(names, &bits, in, e);
    if (s == LAM_OK) s = lmi_torch_walk(t, p, in, e);
    lmi_map_free(&bits);
    return s;
}

static lam_status read_legacy(lmi_tensors *t, const lmi_bytes *of, lam_error *e) {
    enum { BEFORE = 3, SAVED = 3, NAMES = 4, ALL = 5 };
    lmi_pickle p[ALL] = {{.root = -1}};
    lmi_storages in = {.of = of};
    lam_status s = LAM_OK;
    int n = 0;
    lmi_map_init(&in.elements);
    lmi_map_init(&in.places);
    for (uint64_t at = 0; s == LAM_OK && n < ALL; n++) {
        s = lmi_pickle_read(&p[n], of, at, of->size, e);
        at = p[n].end;
        if (n < BEFORE) lmi_pickle_free(&p[n]);
    }
    if (s == LAM_OK) s = read_saved(t, &p[SAVED], &p[NAMES], &in, e);
    for (int i = 0; i < n; i++) lmi_pickle_free(&p[i]);
    lmi_map_free(&in.elements);
    lmi_map_free(&in.places);
    return s;
}

/* A pickle by itself: what is wrong with it, if anything. */
static lam_status read_plain(const lmi_bytes *of, lam_error *e) {
    lmi_pickle p;
    lam_status s = lmi_pickle_read(&p, of, 0, of->size, e);
    lmi_pickle_free(&p);
    if (s != LAM_OK) return s;
    return lmi_fail(
        e, LAM_UNSUPPORTED, of->name,
        "it is a pickle that torch.save did not write; `lamina scan` tells what loading it would import");
}

lam_status lmi_checkpoint_read(lmi_tensors *t, const lmi_bytes *of, lmi_torch_kind kind, lam_error *e) {
    switch (kind) {
    case LMI_TORCH_LEGACY: return read_legacy(t, of, e);
    case LMI_TORCH_PICKLE: return read_plain(of, e);
    case LMI_TORCH_TAR:
        return lmi_fail(e, LAM_UNSUPPORTED, of->name,
                        "it is a tar file: unpack it, and give the model's file in it; one that torch wrote "
                        "before 0.2 load with torch, and save again");
    default: return read_zip(t, of, e);
    }
}
