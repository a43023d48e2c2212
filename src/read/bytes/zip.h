/* SPDX-License-Identifier: Apache-2.0
 * zip: the entries of a zip file, found by its directory at the end. Nothing is extracted: names are only
 * compared. */
#ifndef LMI_READ_ZIP_H
#define LMI_READ_ZIP_H

#include "read/bytes/bytes.h"

typedef struct lmi_zip_entry {
    const char *name;
    uint64_t at;           /* of its header in the file */
    uint64_t packed, size; /* bytes in the file, and when they are decompressed */
    bool deflated;
} lmi_zip_entry;

typedef struct lmi_zip {
    lmi_bytes of;
    lmi_arena arena; /* has the names */
    lmi_zip_entry *entry;
    int32_t n;
    lmi_map by_name; /* by the hashes of their names */
} lmi_zip;

/* Reads the directory. LAM_SYNTAX: it is damaged, names an entry twice, or has entries that overlap;
 * LAM_UNSUPPORTED: an entry is encrypted or packed in another way than by deflate. Free it also on failure.
 */
lam_status lmi_zip_open(lmi_zip *z, const lmi_bytes *of, lam_error *e);
void lmi_zip_free(lmi_zip *z);
const lmi_zip_entry *lmi_zip_find(const lmi_zip *z, const char *name); /* NULL: there is none */
/* The bytes of an entry that is not compressed. LAM_UNSUPPORTED: it is; LAM_SYNTAX: its own header says
 * something else than the directory. */
lam_status lmi_zip_part(const lmi_zip *z, const lmi_zip_entry *entry, lmi_bytes *out, lam_error *e);
/* The byte of the file that an entry begins at; *found is false if it is compressed, or damaged. */
lam_status lmi_zip_place(const lmi_zip *z, const lmi_zip_entry *entry, uint64_t *at, bool *found,
                         lam_error *e);
/* Reads an entry of at most `most` bytes into memory of malloc, with room for one byte more. */
lam_status lmi_zip_all(const lmi_zip *z, const lmi_zip_entry *entry, uint64_t most, char **out, size_t *n,
                       lam_error *e);

#endif
