/* SPDX-License-Identifier: Apache-2.0
 * weights: the values of tensors in files: read piece by piece, as numbers, and those of two files compared.
 *
 * check.c: NaN and Inf. pieces.c: the bytes of a tensor, row by row. blocks.c: the types of few bits.
 * unpack.c: weights that several tensors hold (parts.c), by columns.c and rows.c. numbers.c: values as
 * numbers. compare.c: two tensors. match.c: which tensors of two files belong together. lines.c: sums by
 * module. */
#ifndef LMI_READ_WEIGHTS_H
#define LMI_READ_WEIGHTS_H

#include "read/tensors/tensors.h"

/* -- pieces ---------------------------------------------------------------------------------------------- */

enum { LMI_PIECE_ELEMENTS = 1 << 18, LMI_BLOCK_MOST = 256 };

/* How a type stores its values: so many in a block of so many bytes. */
typedef struct lmi_stored_type {
    const char *name;
    int32_t elements, bytes;
    /* the values of a block; NULL: they are read by `dtype`, or, if that is -1, not at all */
    void (*values)(const unsigned char *block, double *to);
    int32_t dtype;
    bool opaque; /* its blocks are not known either */
} lmi_stored_type;
/* The type of a tensor as its file has it; of one that is not known, a byte: then its elements are bytes. */
lmi_stored_type lmi_stored_type_of(const lmi_stored_tensor *x);
/* What a block of a type of GGUF means; NULL: that is not known. */
typedef void lmi_block(const unsigned char *block, double *to);
lmi_block *lmi_block_of(const char *type);

/* Reads the values of a packed weight, by its scales. */
typedef struct lmi_unpack lmi_unpack;
/* *can: its values can be computed from its parts. */
lam_status lmi_can_unpack(const lmi_tensors *t, const lmi_stored_tensor *x, bool *can, lam_error *e);
/* Free it also on failure. */
lam_status lmi_unpack_open(lmi_unpack **out, const lmi_tensors *t, const lmi_stored_tensor *x, lam_error *e);
void lmi_unpack_free(lmi_unpack *u);
/* The values of n elements from the element `from` on. */
lam_status lmi_unpack_read(lmi_unpack *u, int64_t from, int64_t n, double *to, lam_error *e);

/* Reads a tensor row by row, also one with strides. */
typedef struct lmi_piece {
    const lmi_tensors *t;
    const lmi_stored_tensor *x;
    lmi_stored_type type;
    int64_t n;             /* its elements */
    unsigned char *bytes;  /* of the last piece */
    lmi_unpack *unpack;    /* of the values of a packed weight; else NULL */
    unsigned char *window; /* of a tensor with strides: a part of the file, NULL: none yet */
    uint64_t window_at;
    size_t window_n, window_room;
} lmi_piece;
/* Why the values of a tensor can't be read; NULL: they can. */
const char *lmi_unread(const lmi_stored_tensor *x);
/* `x` must be readable. Free it also on failure. */
lam_status lmi_piece_open(lmi_piece *p, const lmi_tensors *t, const lmi_stored_tensor *x, lam_error *e);
/* The values of a packed weight that lmi_can_unpack: its pieces are of float64. */
lam_status lmi_piece_open_values(lmi_piece *p, const lmi_tensors *t, const lmi_stored_tensor *x,
                                 lam_error *e);
void lmi_piece_free(lmi_piece *p);
/* Reads n elements from the element `from` on into p->bytes: whole blocks, at most LMI_PIECE_ELEMENTS. */
lam_status lmi_piece_read(lmi_piece *p, int64_t from, int64_t n, lam_error *e);
static inline size_t lmi_piece_bytes(const lmi_piece *p, int64_t n) {
    return (size_t)(n / p->type.elements * p->type.bytes);
}

/* -- numbers --------------------------------------------------------------------------------------------- */

/* True if values of the type can be read as numbers. */
bool lmi_is_number(const lmi_stored_type *type);
bool lmi_is_wide(const lmi_stored_type *type); /* whole numbers of 64 bits */
/* The values of n elements, whole blocks, as numbers; a value that is not finite is NaN or an infinity. */
void lmi_stored_numbers(const lmi_stored_type *type, const unsigned char *bytes, int64_t n, double *to);

/* -- values that are not finite ----------------------------------------------------------------------------
 */

/* Looks for NaN and Inf in all tensors of a list. Each gets what was found, or why it was not checked. */
lam_status lmi_weights_check(lmi_tensors *t, const lam_watcher *watcher, lam_error *e);

/* -- two tensors ----------------------------------------------------------------------------------------- */

typedef struct lmi_watching {
    const lam_watcher *o; /* NULL: none */
    uint64_t done, all;   /* bytes */
} lmi_watching;
/* Notes that so many bytes are read; returns what the watcher says. */
lam_status lmi_watched(lmi_watching *w, uint64_t bytes, lam_error *e);

/* Compares the values of two tensors of equal sizes, both readable. Of packed weights: `values` says whether
 * those that are packed, which then must be ones that lmi_can_unpack; else the numbers that the file has. */
lam_status lmi_weights_compare(const lmi_tensors *const t[2], const lmi_stored_tensor *const x[2],
                               bool values, lam_tensor_change *out, lmi_watching *w, lam_error *e);
/* A hash of the bytes of a tensor, row by row. */
lam_status lmi_weights_hash(const lmi_tensors *t, const lmi_stored_tensor *x, uint64_t *out, lmi_watching *w,
                            lam_error *e);

/* -- two files ------------------------------------------------------------------------------------------- */

struct lam_weights_diff {
    lmi_arena arena;
    lmi_vec tensors; /* lam_tensor_change */
    const char *name[2], *format[2];
    lmi_vec notes; /* const char * */
};

/* Matches the tensors of two files, and compares those that belong together. */
lam_status lmi_weights_match(lam_weights_diff *d, const lmi_tensors *const t[2], const lam_watcher *o,
                             lam_error *e);
/* The name that the tensor of a GGUF file has in files of Hugging Face's, by a table of words, in `room`;
 * NULL: none. */
const char *lmi_weights_word(const char *name, char *room, size_t size);

/* A line of a difference: what differs in a module, or in all below it. */
typedef struct lmi_weights_line {
    const char *path; /* of the module; "": the whole */
    int32_t n[LAM_N_WEIGHTS_CHANGES];
    int32_t first; /* a tensor of it that differs */
    lam_tensor_change sum;
    const char *type[2]; /* of all that changed, before and after; NULL: of several types */
    bool whole;          /* everything in the module was added, or removed */
} lmi_weights_line;
typedef struct lmi_weights_lines {
    lmi_arena arena;
    lmi_vec at; /* lmi_weights_line, in the order of `by` */
    lmi_weights_line all;
} lmi_weights_lines;
/* The metrics that lines are sorted by. */
typedef enum lmi_weights_by {
    LMI_WEIGHTS_RELATIVE,
    LMI_WEIGHTS_NORM,
    LMI_WEIGHTS_LARGEST,
    LMI_WEIGHTS_DIFFER,
    LMI_WEIGHTS_ELEMENTS,
    LMI_N_WEIGHTS_BY
} lmi_weights_by;
/* The value of a metric of the sums; -1: unknown. */
double lmi_weights_value(const lam_tensor_change *c, lmi_weights_by by);
/* depth -1: modules at any depth. Free the lines also on failure. */
lam_status lmi_weights_list(lmi_weights_lines *l, const lam_weights_diff *d, const char *by, int32_t depth,
                            lam_error *e);
void lmi_weights_lines_free(lmi_weights_lines *l);

#endif
