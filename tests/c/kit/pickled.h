/* SPDX-License-Identifier: Apache-2.0
 *
 * Pickles of torch's, made opcode by opcode, and zip files of them. */
#ifndef LAMINA_TEST_PICKLED_H
#define LAMINA_TEST_PICKLED_H

#include "kit/weights.h"

OOM_UNUSED static void pk_text(lmi_buf *b, const char *s) { /* BINUNICODE */
    lmi_putc(b, 'X');
    put_le(b, strlen(s), 4);
    lmi_put(b, s);
}

OOM_UNUSED static void pk_int(lmi_buf *b, int64_t n) { /* BININT */
    lmi_putc(b, 'J');
    put_le(b, (uint64_t)n, 4);
}

OOM_UNUSED static void pk_global(lmi_buf *b, const char *module, const char *name) {
    lmi_putf(b, "c%s\n%s\n", module, name);
}

OOM_UNUSED static void pk_ints(lmi_buf *b, int n, const int64_t *v) {
    lmi_putc(b, '(');
    for (int i = 0; i < n; i++) pk_int(b, v[i]);
    lmi_putc(b, 't');
}

OOM_UNUSED static void pk_storage(lmi_buf *b, const char *type, const char *key, int64_t elements) {
    lmi_putc(b, '(');
    pk_text(b, "storage");
    pk_global(b, "torch", type);
    pk_text(b, key);
    pk_text(b, "cpu");
    pk_int(b, elements);
    lmi_put(b, "tQ");
}

typedef struct pk_view {
    const char *type, *key;
    int64_t elements, offset;
    int ndim;
    int64_t sizes[3], strides[3];
} pk_view;

OOM_UNUSED static void pk_tensor(lmi_buf *b, const pk_view *v) {
    pk_global(b, "torch._utils", "_rebuild_tensor_v2");
    lmi_putc(b, '(');
    pk_storage(b, v->type, v->key, v->elements);
    pk_int(b, v->offset);
    pk_ints(b, v->ndim, v->sizes);
    pk_ints(b, v->ndim, v->strides);
    lmi_putc(b, (char)0x89); /* False */
    pk_global(b, "collections", "OrderedDict");
    lmi_put(b, ")RtR");
}

OOM_UNUSED static lmi_buf pk_begin(void) {
    lmi_buf b;
    lmi_buf_init(&b);
    lmi_putn(&b, "\x80\x02", 2);
    return b;
}

/* -- zip files ------------------------------------------------------------------------------------------- */

typedef struct zipped {
    lmi_buf file, directory;
    uint64_t n;
} zipped;

OOM_UNUSED static zipped zip_begin(void) {
    zipped z = {.n = 0};
    lmi_buf_init(&z.file);
    lmi_buf_init(&z.directory);
    return z;
}

/* An entry of n bytes, which are `size` when they are decompressed by a method (8: deflate). */
OOM_UNUSED static void zip_put(zipped *z, const char *name, const void *bytes, size_t n, size_t size,
                               int method) {
    const uint64_t at = z->file.n;
    for (int i = 0; i < 2; i++) {
        lmi_buf *b = i ? &z->directory : &z->file;
        put_le(b, i ? 0x02014b50 : 0x04034b50, 4);
        put_le(b, 0, i ? 6 : 4);
        put_le(b, (uint64_t)method, 2);
        put_le(b, 0, 8); /* time and checksum */
        put_le(b, n, 4);
        put_le(b, size, 4);
        put_le(b, strlen(name), 2);
        put_le(b, 0, i ? 8 : 2); /* lengths of an extra field and a comment, disk, attributes */
        if (i) put_le(b, 0, 4);
        if (i) put_le(b, at, 4);
        lmi_put(b, name);
    }
    lmi_putn(&z->file, bytes, n);
    z->n++;
}

OOM_UNUSED static void zip_add(zipped *z, const char *name, const void *bytes, size_t n) {
    zip_put(z, name, bytes, n, n, 0);
}

/* An entry that is compressed, by a method that leaves at most 65,535 bytes as they are. */
OOM_UNUSED static void zip_deflate(zipped *z, const char *name, const void *bytes, size_t n) {
    lmi_buf b;
    lmi_buf_init(&b);
    assert_true(n <= UINT16_MAX);
    put_le(&b, 1, 1);
    put_le(&b, n, 2);
    put_le(&b, ~(uint64_t)n, 2);
    lmi_putn(&b, bytes, n);
    zip_put(z, name, b.s, b.n, n, 8);
    lmi_buf_free(&b);
}

OOM_UNUSED static lmi_buf zip_end(zipped *z) {
    const uint64_t at = z->file.n;
    lmi_putn(&z->file, lmi_buf_text(&z->directory), z->directory.n);
    put_le(&z->file, 0x06054b50, 4);
    put_le(&z->file, 0, 4);
    put_le(&z->file, z->n, 2);
    put_le(&z->file, z->n, 2);
    put_le(&z->file, z->directory.n, 4);
    put_le(&z->file, at, 4);
    put_le(&z->file, 0, 2);
    lmi_buf_free(&z->directory);
    return z->file;
}

OOM_UNUSED static void zip_save(const char *file, zipped *z) {
    lmi_buf b = zip_end(z);
    save_bytes(file, &b);
    lmi_buf_free(&b);
}

/* Saves a pickle as torch.save does, with storages 0, 1, ... of these bytes; frees the pickle. */
OOM_UNUSED static void save_zip(const char *file, lmi_buf *pickle, int n, const size_t *storages) {
    static const char zeros[4096];
    char name[32];
    zipped z = zip_begin();
    zip_add(&z, "net/data.pkl", pickle->s, pickle->n);
    for (int i = 0; i < n; i++) {
        snprintf(name, sizeof name, "net/data/%d", i);
        zip_add(&z, name, zeros, storages[i]);
    }
    zip_add(&z, "net/version", "3\n", 2);
    zip_save(file, &z);
    lmi_buf_free(pickle);
}

#endif
