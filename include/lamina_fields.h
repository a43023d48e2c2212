/* SPDX-License-Identifier: Apache-2.0
 *
 * Results as fields, a part of lamina.h: for a language that makes objects of its own of them. The reports'
 * JSON is written by the same walks, so both have the same names. */
#ifndef LAMINA_FIELDS_H
#define LAMINA_FIELDS_H

#include "lamina.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum lam_field_type {
    LAM_FIELD_NONE, /* unknown, or there is none */
    LAM_FIELD_TRUTH, LAM_FIELD_INTEGER, LAM_FIELD_REAL, LAM_FIELD_TEXT, LAM_FIELD_COUNT,
    LAM_FIELD_SIZES, /* of a tensor, or an index into it: in `shape`, whose ndim is at least 0 */
    LAM_FIELD_OBJECT, LAM_FIELD_LIST, /* fields follow, up to its LAM_FIELD_END; in a list without names */
    LAM_FIELD_RECORD, /* an object of at most 16 fields, always the same in the same order */
    LAM_FIELD_END
} lam_field_type;
typedef struct lam_field {
    const char *name; /* NULL in a list; the same pointer for the same name, as long as a walk lasts */
    lam_field_type type;
    union {
        bool truth;
        int64_t integer;
        double real;
        const char *text;
        lam_count count;
        lam_shape shape;
    };
} lam_field;
/* Receives fields one after another; `field` is not called again once it was false. */
typedef struct lam_receiver {
    bool (*field)(void *self, const lam_field *f);
    void *self;
} lam_receiver;

/* Each gives one field, an object or a list. */
LAM_API void lam_memory_tell(const lam_memory *y, lam_receiver to);

#ifdef __cplusplus
}
#endif

#endif
