/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads zip files, by APPNOTE.TXT 6.3.10 of PKWARE: the directory at the end (4.3.12 to 4.3.16), with sizes
 * of 64 bits (4.5.3), and the header before an entry (4.3.7). Checksums are not compared: what loads these
 * files does not always do so, and a reader that refuses what another loads can be evaded. */
#include "read/bytes/zip.h"
#include "base/inflate.h"

#include <stdlib.h>

enum {
    HEADER = 30,
    DIRECTORY = 46,
    END = 22,
    END64 = 56,
    LOCATOR = 20,
    MOST_COMMENT = 65535,
    MOST_RATIO = 1032 /* of deflate: 258 bytes take 2 bits */
};

/* The directory, as the end of the file says, which begins at `end`. */
typedef struct whole {
    uint64_t end, at, size, entries;
} whole;

/* True if the sizes of 64 bits, where the end has them too, are those that it says itself. */
static bool agree(const whole *wide, const whole *out) {
    return (out->entries == UINT16_MAX || out->entries == wide->entries) &&
           (out->size == UINT32_MAX || out->size == wide->size) &&
           (out->at == UINT32_MAX || out->at == wide->at);
}

static lam_status read_end64(const lmi_zip *z, const unsigned char *l, uint64_t locator, whole *out,
                             lam_error *e) {
    unsigned char t[END64];
    uint64_t at = lmi_le64(l + 8);
    if (at > locator || locator - at != END64)
        return lmi_bytes_bad(&z->of, locator, e, "no end of a directory with sizes of 64 bits");
    LAM_TRY(lmi_bytes_read(&z->of, at, t, sizeof t, e));
    if (lmi_le32(t) != 0x06064b50) return lmi_bytes_bad(&z->of, at, e, "no end of a directory");
    *out = (whole){.end = at, .entries = lmi_le64(t + 32), .size = lmi_le64(t + 40), .at = lmi_le64(t + 48)};
    return LAM_OK;
}

/* Sizes of 64 bits are before the end: some readers always take them, others if the end has none. Some take
 * the directory from where the end says, others what is right before it. All have to find the same one. */
static lam_status find_directory(const lmi_zip *z, whole *out, lam_error *e) {
    unsigned char l[LOCATOR] = {0};
    whole wide = *out;
    const uint64_t end = out->end;
    if (end >= LOCATOR) LAM_TRY(lmi_bytes_read(&z->of, end - LOCATOR, l, sizeof l, e));
    if (lmi_le32(l) == 0x07064b50) LAM_TRY(read_end64(z, l, end - LOCATOR, &wide, e));
    if (!agree(&wide, out)) return lmi_bytes_bad(&z->of, end, e, "an end that says two things");
    *out = wide;
    if (out->at > out->end || out->size != out->end - out->at)
        return lmi_bytes_bad(&z->of, end, e, "no directory right before its end");
    return LAM_OK;
}

/* The end of the directory in the last n bytes of the file, which are read into `tail`: the last one, which a
 * comment may follow. *out NULL: there is none. */
static lam_status find_last(const lmi_zip *z, uint64_t n, unsigned char *tail, unsigned char **out,
                            lam_error *e) {
    *out = NULL;
    LAM_TRY(lmi_bytes_read(&z->of, z->of.size - n, tail, (size_t)n, e));
    for (uint64_t i = n >= END ? n - END + 1 : 0; i-- > 0 && !*out;)
        if (lmi_le32(tail + i) == 0x06054b50) *out = tail + i;
    return LAM_OK;
}

static const char cut_off[] = "it begins as a zip file and has no directory at its end: it is cut off";

static lam_status find_end(const lmi_zip *z, unsigned char *tail, whole *out, lam_error *e) {
    enum { MOSTLY = 1024 }; /* as few files have a comment */
    const uint64_t all = z->of.size < END + MOST_COMMENT ? z->of.size : END + MOST_COMMENT;
    uint64_t n = all < MOSTLY ? all : MOSTLY;
    unsigned char *t;
    LAM_TRY(find_last(z, n, tail, &t, e));
    if (!t) LAM_TRY(find_last(z, n = all, tail, &t, e));
    if (!t) return lmi_fail(e, LAM_SYNTAX, z->of.name, "%s", cut_off);
    const uint64_t at = z->of.size - n + (uint64_t)(t - tail);
    if (lmi_le16(t + 20) > z->of.size - at - END)
        return lmi_bytes_bad(&z->of, at, e, "a comment that is longer than the file");
    *out = (whole){.end = at, .entries = lmi_le16(t + 10), .size = lmi_le32(t + 12), .at = lmi_le32(t + 16)};
    const unsigned disks = lmi_le16(t + 4) | lmi_le16(t + 6);
    if (disks && disks != UINT16_MAX) return lmi_bytes_bad(&z->of, at, e, "a zip file of several disks");
    lam_error why = {.at = -1};
    const lam_status s = find_directory(z, out, &why);
    /* an end that is not at the end may be that of a zip file in this one */
    if (s == LAM_SYNTAX && at + END + lmi_le16(t + 20) < z->of.size)
        return lmi_fail(e, s, z->of.name, "%s", cut_off);
    return s == LAM_OK ? s : lmi_fail_at(e, s, why.at, why.where, "%s", why.text);
}

/* -- entries --------------------------------------------------------------------------------------------- */

/* Takes the sizes of 64 bits that the extra field has in place of those that are all ones. */
static bool widen(lmi_zip_entry *entry, const unsigned char *extra, size_t n) {
    uint64_t *wide[] = {&entry->size, &entry->packed, &entry->at};
    bool missing = false;
    for (int i = 0; i < 3; i++) missing = missing || *wide[i] == UINT32_MAX;
    for (size_t at = 0; missing && n - at >= 4;) {
        size_t size = lmi_le16(extra + at + 2), used = 0;
        const unsigned char *field = extra + at + 4;
        if (size > n - at - 4) return false;
        for (int i = 0; lmi_le16(extra + at) == 1 && i < 3; i++) {
            if (*wide[i] != UINT32_MAX) continue;
            if (size - used < 8) return false;
            *wide[i] = lmi_le64(field + used);
            used += 8;
        }
        missing = lmi_le16(extra + at) != 1;
        at += 4 + size;
    }
    return !missing;
}

static int64_t find(const lmi_zip *z, const char *name, uint64_t hash) {
    return lmi_map_find(&z->by_name, hash, name, &z->entry->name, sizeof *z->entry);
}

/* Reads one entry of the directory at *d, of which `left` bytes are there, and moves *d behind it. */
static lam_status read_entry(lmi_zip *z, const unsigned char **d, uint64_t left, uint64_t at, lam_error *e) {
    const unsigned char *t = *d;
    if (left < DIRECTORY || lmi_le32(t) != 0x02014b50)
        return lmi_bytes_bad(&z->of, at, e, "no entry of its directory");
    size_t name = lmi_le16(t + 28), extra = lmi_le16(t + 30), comment = lmi_le16(t + 32);
    if (name + extra + comment > left - DIRECTORY)
        return lmi_bytes_bad(&z->of, at, e, "an entry that is too long");
    lmi_zip_entry *entry = &z->entry[z->n];
    *entry = (lmi_zip_entry){.packed = lmi_le32(t + 20), .size = lmi_le32(t + 24), .at = lmi_le32(t + 42)};
    entry->name = lmi_strndup(&z->arena, (const char *)t + DIRECTORY, name);
    if (!entry->name) return lmi_nomem(e);
    unsigned method = lmi_le16(t + 10);
    if (lmi_le16(t + 8) & 0x2041)
        return lmi_fail(e, LAM_UNSUPPORTED, z->of.name, "its entry '%s' is encrypted", entry->name);
    if (method != 0 && method != 8)
        return lmi_fail(e, LAM_UNSUPPORTED, z->of.name, "its entry '%s' is packed by method %u", entry->name,
                        method);
    entry->deflated = method == 8;
    if (strlen(entry->name) != name) return lmi_bytes_bad(&z->of, at, e, "a NUL in a name");
    if (!widen(entry, t + DIRECTORY + name, extra))
        return lmi_bytes_bad(&z->of, at, e, "an entry without its sizes");
    bool fits = entry->deflated ? entry->size / MOST_RATIO <= entry->packed : entry->size == entry->packed;
    if (!fits) return lmi_bytes_bad(&z->of, at, e, "an entry with sizes that can't be");
    const uint64_t hash = lmi_hash(entry->name, name);
    if (find(z, entry->name, hash) >= 0)
        return lmi_fail_at(e, LAM_SYNTAX, (int64_t)at, z->of.name, "it has two entries '%s'", entry->name);
    LAM_TRY(lmi_map_add(&z->by_name, hash, z->n, e));
    z->n++;
    *d += DIRECTORY + name + extra + comment;
    return LAM_OK;
}

static int by_position(const void *a, const void *b) {
    const lmi_zip_entry *const *u = a, *const *v = b;
    return ((*u)->at > (*v)->at) - ((*u)->at < (*v)->at);
}

/* Entries that share bytes are how a small file becomes a large one. */
static lam_status check_overlaps(lmi_zip *z, uint64_t directory, lam_error *e) {
    const lmi_zip_entry **order = malloc(((size_t)z->n + 1) * sizeof *order);
    lam_status status = order ? LAM_OK : lmi_nomem(e);
    if (!order) return status;
    bool sorted = true; /* as most writers do it */
    for (int32_t i = 0; i < z->n; i++) {
        order[i] = &z->entry[i];
        sorted = sorted && (i == 0 || order[i - 1]->at <= order[i]->at);
    }
    if (!sorted) qsort(order, (size_t)z->n, sizeof *order, by_position);
    for (int32_t i = 0; status == LAM_OK && i < z->n; i++) {
        uint64_t end = i + 1 < z->n ? order[i + 1]->at : directory, at = order[i]->at;
        uint64_t least = HEADER + strlen(order[i]->name);
        if (at > end || end - at < least || end - at - least < order[i]->packed)
            status =
                lmi_fail_at(e, LAM_SYNTAX, (int64_t)at, z->of.name,
                            "it is damaged: its entry '%s' reaches into what is behind it", order[i]->name);
    }
    free(order);
    return status;
}

static lam_status read_directory(lmi_zip *z, unsigned char *tail, lam_error *e) {
    whole w = {0};
    LAM_TRY(find_end(z, tail, &w, e));
    if (w.entries > w.size / DIRECTORY || w.entries > INT32_MAX)
        return lmi_bytes_bad(&z->of, w.at, e, "more entries than its directory has room for");
    lmi_bytes part;
    char *d = NULL;
    size_t n = 0;
    LAM_TRY(lmi_bytes_part(&z->of, w.at, w.size, NULL, &part, e));
    LAM_TRY(lmi_bytes_all(&part, UINT32_MAX, &d, &n, e));
    z->entry = lmi_alloc_unset(&z->arena, w.entries, sizeof *z->entry);
    lam_status status = z->entry ? lmi_map_reserve(&z->by_name, w.entries, e) : lmi_nomem(e);
    const unsigned char *at = (const unsigned char *)d, *end = at + n;
    for (uint64_t i = 0; status == LAM_OK && i < w.entries; i++)
        status = read_entry(z, &at, (uint64_t)(end - at), w.at + n - (uint64_t)(end - at), e);
    if (status == LAM_OK && at != end)
        status = lmi_bytes_bad(&z->of, w.at + n - (uint64_t)(end - at), e,
                               "more in its directory than its end says");
    free(d);
    return status == LAM_OK ? check_overlaps(z, w.at, e) : status;
}

lam_status lmi_zip_open(lmi_zip *z, const lmi_bytes *of, lam_error *e) {
    *z = (lmi_zip){.of = *of};
    lmi_arena_init(&z->arena, UINT64_MAX);
    lmi_map_init(&z->by_name);
    unsigned char *tail = malloc(END + MOST_COMMENT);
    lam_status status = tail ? read_directory(z, tail, e) : lmi_nomem(e);
    free(tail);
    return status;
}

void lmi_zip_free(lmi_zip *z) {
    lmi_map_free(&z->by_name);
    lmi_arena_free(&z->arena);
    *z = (lmi_zip){0};
}

const lmi_zip_entry *lmi_zip_find(const lmi_zip *z, const char *name) {
    const int64_t i = find(z, name, lmi_hash_text(name));
    return i < 0 ? NULL : &z->entry[i];
}

/* -- contents -------------------------------------------------------------------------------------------- */

/* The bytes of an entry as they are in the file. Its header repeats what the directory says, and a file in
 * which the two differ is read in two ways by two readers; the sizes may be zero there if they follow the
 * entry (bit 3). */
static lam_status packed_part(const lmi_zip *z, const lmi_zip_entry *entry, lmi_bytes *out, lam_error *e) {
    unsigned char t[HEADER];
    LAM_TRY(lmi_bytes_read(&z->of, entry->at, t, sizeof t, e));
    size_t name = lmi_le16(t + 26), extra = lmi_le16(t + 28);
    char there[256];
    bool same = lmi_le32(t) == 0x04034b50 && name == strlen(entry->name);
    uint64_t at = entry->at + HEADER;
    for (size_t done = 0; same && done < name;) {
        size_t n = name - done < sizeof there ? name - done : sizeof there;
        LAM_TRY(lmi_bytes_read(&z->of, at + done, there, n, e));
        same = memcmp(there, entry->name + done, n) == 0;
        done += n;
    }
    uint32_t packed = lmi_le32(t + 18), size = lmi_le32(t + 22);
    bool later = lmi_le16(t + 6) & 8, wide = packed == UINT32_MAX || size == UINT32_MAX;
    same = same && (lmi_le16(t + 8) == 8) == entry->deflated && (lmi_le16(t + 8) & ~8) == 0;
    same = same && (wide || (packed == entry->packed && size == entry->size) || (later && !packed && !size));
    if (!same)
        return lmi_fail_at(
            e, LAM_SYNTAX, (int64_t)entry->at, z->of.name,
            "it is damaged: the header of its entry '%s' says something else than the directory",
            entry->name);
    return lmi_bytes_part(&z->of, at + name + extra, entry->packed, entry->name, out, e);
}

lam_status lmi_zip_part(const lmi_zip *z, const lmi_zip_entry *entry, lmi_bytes *out, lam_error *e) {
    if (entry->deflated)
        return lmi_fail(e, LAM_UNSUPPORTED, z->of.name,
                        "its entry '%s' is compressed, which it should not be", entry->name);
    return packed_part(z, entry, out, e);
}

static lam_status inflate_all(const lmi_bytes *packed, const lmi_zip_entry *entry, char *to, lam_error *e) {
    char *from = NULL;
    size_t n = 0;
    LAM_TRY(lmi_bytes_all(packed, UINT32_MAX, &from, &n, e));
    lam_status status = lmi_inflate(from, n, to, (size_t)entry->size, entry->name, e);
    free(from);
    return status;
}

lam_status lmi_zip_place(const lmi_zip *z, const lmi_zip_entry *entry, uint64_t *at, bool *found,
                         lam_error *e) {
    lmi_bytes part = z->of;
    lam_error why = {.at = -1};
    const lam_status s = lmi_zip_part(z, entry, &part, &why);
    if (s == LAM_IO) return lmi_fail(e, s, why.where, "%s", why.text);
    *found = s == LAM_OK;
    if (*found) *at = part.start - z->of.start;
    return LAM_OK;
}

lam_status lmi_zip_all(const lmi_zip *z, const lmi_zip_entry *entry, uint64_t most, char **out, size_t *n,
                       lam_error *e) {
    lmi_bytes packed;
    *out = NULL;
    if (entry->size > most)
        return lmi_fail(e, LAM_LIMIT, z->of.name, "its entry '%s' has %llu bytes, and at most %llu are read",
                        entry->name, (unsigned long long)entry->size, (unsigned long long)most);
    LAM_TRY(packed_part(z, entry, &packed, e));
    if (!entry->deflated) return lmi_bytes_all(&packed, most, out, n, e);
    *out = malloc((size_t)entry->size + 1);
    if (!*out) return lmi_nomem(e);
    *n = (size_t)entry->size;
    lam_status status = inflate_all(&packed, entry, *out, e);
    if (status == LAM_OK) return LAM_OK;
    free(*out);
    *out = NULL;
    return status;
}
