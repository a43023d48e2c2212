/* SPDX-License-Identifier: Apache-2.0
 * The wire of protocol buffers: fields of messages, read forward with bounds. Only what has a length nests,
 * and what is passed over is not read. */
#ifndef LMI_READ_ONNX_WIRE_H
#define LMI_READ_ONNX_WIRE_H

#include "read/bytes/bytes.h"

typedef enum lmi_wire_type {
    LMI_WIRE_VARINT,
    LMI_WIRE_8_BYTES,
    LMI_WIRE_LENGTH,
    LMI_WIRE_4_BYTES = 5
} lmi_wire_type;

/* A field of a message. For the first one all is 0. */
typedef struct lmi_field {
    uint32_t number;     /* 0: none yet */
    uint32_t type;       /* lmi_wire_type */
    uint64_t value;      /* of types without a length */
    uint64_t at;         /* where the field begins, its key */
    uint64_t start, end; /* of the content of a field with a length */
} lmi_field;

/* The next field of the message that ends at `end`; the cursor is at its content. What of the field before
 * was not read is passed over. False in *more: the message ends. LAM_SYNTAX: it is damaged. */
lam_status lmi_wire_next(lmi_cursor *c, uint64_t end, lmi_field *f, bool *more, lam_error *e);
/* LAM_SYNTAX unless the field is of that type. `what` names the field. */
lam_status lmi_wire_is(const lmi_cursor *c, const lmi_field *f, lmi_wire_type type, const char *what,
                       lam_error *e);
lam_status lmi_wire_varint(lmi_cursor *c, uint64_t end, uint64_t *out, lam_error *e);
/* A text, in memory of the arena. One that is longer than LMI_PIECE bytes becomes "". */
lam_status lmi_wire_text(lmi_cursor *c, const lmi_field *f, lmi_arena *a, const char **out, lam_error *e);
/* Adds the numbers of a field, packed or not, to a list of int64_t. LAM_LIMIT: more than `most`. */
lam_status lmi_wire_ints(lmi_cursor *c, const lmi_field *f, lmi_vec *out, size_t most, const char *what,
                         lam_error *e);
/* The same of floats, to a list of float. */
lam_status lmi_wire_floats(lmi_cursor *c, const lmi_field *f, lmi_vec *out, size_t most, const char *what,
                           lam_error *e);

#endif
