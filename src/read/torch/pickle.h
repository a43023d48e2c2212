/* SPDX-License-Identifier: Apache-2.0
 * pickle: the values of a pickle, as they are written. Nothing is imported, called or built: what would be is
 * a value that names it. */
#ifndef LMI_READ_PICKLE_H
#define LMI_READ_PICKLE_H

#include "read/bytes/bytes.h"

typedef enum lmi_pickled {
    LMI_PICKLED_NONE,
    LMI_PICKLED_BOOL,
    LMI_PICKLED_INT,
    LMI_PICKLED_LONG, /* a whole number of more than 64 bits, which is not kept */
    LMI_PICKLED_FLOAT,
    LMI_PICKLED_TEXT,
    LMI_PICKLED_BYTES, /* its bytes are not kept */
    LMI_PICKLED_TUPLE,
    LMI_PICKLED_LIST,
    LMI_PICKLED_SET,
    LMI_PICKLED_DICT,   /* its items are names and values in turn */
    LMI_PICKLED_GLOBAL, /* a function or a class */
    LMI_PICKLED_CALL,   /* what a function or a class returns for some arguments */
    LMI_PICKLED_KEPT    /* what the loader finds by an id outside the pickle: a storage */
} lmi_pickled;

/* A chain of values. Those of a tuple follow each other: item i is cell[first + i]. */
typedef struct lmi_pickled_cell {
    int32_t value, next; /* next: -1 at the end */
} lmi_pickled_cell;
typedef struct lmi_pickled_items {
    int32_t first, last, n;
} lmi_pickled_items;

typedef struct lmi_pickled_value {
    lmi_pickled kind;
    int32_t n; /* the bytes of a text */
    union {
        int64_t i; /* also of a BOOL; the bytes of BYTES */
        double f;
        const char *text; /* ends in a NUL */
        int32_t items;    /* of a container: its position in `items` */
        int32_t global;   /* its position in `global` */
        int32_t call;     /* its position in `call` */
        int32_t id;       /* of a KEPT: the value that is its id */
    };
} lmi_pickled_value;

typedef struct lmi_pickled_call {
    int32_t function, arguments; /* values; `arguments` is -1 if they are not known */
    int32_t state;               /* the value that sets its attributes; -1: none */
    lmi_pickled_items items;     /* added to it as to a list, or as to a dict */
} lmi_pickled_call;

/* A function or a class that loading imports, in the order of the file. */
typedef struct lmi_pickled_global {
    const char *module, *name; /* "?" where the pickle makes them of something that is no text */
    uint64_t at;               /* the byte of the pickle */
} lmi_pickled_global;

typedef struct lmi_pickle {
    lmi_arena arena;
    lmi_vec value, cell, items, call, global;
    int32_t root;   /* the value of the whole; -1 until the pickle has ended */
    uint64_t end;   /* the byte behind it */
    uint64_t torn;  /* where a frame ends in the midst of an opcode or behind the whole, which CPython's
                       machine in C reads otherwise than that in Python; 0: none does */
    bool at_import; /* an import is called before loading ends (REDUCE, INST, OBJ, NEWOBJ, BUILD) */
} lmi_pickle;

/* Reads the pickle at byte `at`, of protocol 0 to 5. LAM_SYNTAX: it is damaged or cut off; LAM_UNSUPPORTED:
 * it needs something from outside (an extension registry, buffers); LAM_LIMIT: its values need more memory
 * than 16 MiB and twice `size`, the bytes of its file. Free it also on failure: the imports up to there are
 * in `global`. */
lam_status lmi_pickle_read(lmi_pickle *p, const lmi_bytes *of, uint64_t at, uint64_t size, lam_error *e);
void lmi_pickle_free(lmi_pickle *p);

static inline const lmi_pickled_value *lmi_pickled_at(const lmi_pickle *p, int32_t i) {
    return lmi_vec_at(&p->value, (size_t)i);
}
/* The items of a tuple, a list, a set, a dict, or of what a call returned; none for anything else. */
lmi_pickled_items lmi_pickled_items_of(const lmi_pickle *p, int32_t value);
/* Item i of a tuple; -1: it has none, or is no tuple. */
int32_t lmi_pickled_item(const lmi_pickle *p, int32_t tuple, int32_t i);
/* The text of a value; NULL: it is none. */
const char *lmi_pickled_text(const lmi_pickle *p, int32_t value);
bool lmi_pickled_int(const lmi_pickle *p, int32_t value, int64_t *out);
/* The value under a name in a dict, or in what a call returned; -1: none. */
int32_t lmi_pickled_get(const lmi_pickle *p, int32_t dict, const char *name);
/* The import that a value is; NULL: none. */
const lmi_pickled_global *lmi_pickled_global_of(const lmi_pickle *p, int32_t value);
/* The call that a value is the result of, NULL: none; `module` and `name` of its function if they are not
 * NULL. */
const lmi_pickled_call *lmi_pickled_call_of(const lmi_pickle *p, int32_t value, const char *module,
                                            const char *name);
/* Walks items: for (int32_t c = items.first; c >= 0; c = next) value of c. */
static inline const lmi_pickled_cell *lmi_pickled_cell_at(const lmi_pickle *p, int32_t i) {
    return lmi_vec_at(&p->cell, (size_t)i);
}

#endif
