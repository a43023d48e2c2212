/* SPDX-License-Identifier: Apache-2.0
 * ext: the binding of lamina.h to CPython. The extension pushes its observations of a live model with
 * lam_build_*, returns handles to Python and converts lam_error to exceptions. It counts and formats nothing.
 *
 * Everything is limited API 3.11, so one build works with every CPython from 3.11 on. Every function needs
 * the GIL; the free-threaded build is not supported yet, which is why the module does not declare
 * Py_mod_gil. */
#ifndef LMX_EXT_H
#define LMX_EXT_H

#ifndef Py_LIMITED_API
#define Py_LIMITED_API 0x030B0000
#endif
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <string.h>

#include "native/handles.h"
#include "native/vec.h"

/* PyObject_Vectorcall: exported by 3.11, and in the limited API from 3.12 on, so it is looked for by name. */
typedef PyObject *(*lmx_vectorcall_of)(PyObject *callable, PyObject *const *args, size_t n, PyObject *names);
extern lmx_vectorcall_of lmx_vectorcall;
bool lmx_find_vectorcall(void); /* for module.c; false with an ImportError (lookup.c) */

/* Attribute names that are used often, interned once. */
#define LMX_NAMES(X)                                                                                         \
    X(_modules)                                                                                              \
    X(_parameters) X(_buffers) X(_orig_mod) X(_compiled_call_impl) X(training) X(parametrizations) X(weight) \
        X(bias) X(max_norm) X(forward) X(shape) X(dtype) X(device) X(type) X(data_ptr) X(data)               \
            X(requires_grad) X(grad) X(_version) X(detach) X(clone) X(is_contiguous) X(copy_) X(items)       \
                X(clear) X(__call__) X(__dict__) X(__mro__) X(__module__) X(__name__) X(__qualname__)        \
                    X(__class__) X(__torch_dispatch__) X(__dataclass_fields__) X(original_name)              \
                        X(lamina_model) X(write) X(live) X(doctor) X(out) X(err) X(_is_param) X(__enter__)   \
                            X(__exit__) X(script) X(_world) X(_default_pg)                                   \
                                X(_backward_hooks) X(_post_accumulate_grad_hooks) X(const_data_ptr) \
                                    X(grad_dtype)

typedef struct lmx_state lmx_state;
typedef struct lmx_listener lmx_listener; /* observe/listeners.h */
typedef struct lmx_classes lmx_classes;   /* modules/classes.h */

/* == small things (lookup.c) ============================================================================= */

/* Lets the C library keep freed memory for the next capture. Call it once. */
void lmx_keep_memory(void);
/* Lets recordings use the SQLite of Python's module sqlite3, imported when one is opened (sqlite.c). */
void lmx_share_sqlite(void);

/* A sink that keeps the bytes. */
typedef struct lmx_text {
    lmi_vec bytes;
} lmx_text;
lam_sink lmx_text_sink(lmx_text *t);

/* True if the pending exception is not an Exception (KeyboardInterrupt, SystemExit): it must reach the
 * user. Clears any other. False also if nothing is pending. */
bool lmx_must_raise(void);
/* Raises MemoryError; always false. */
bool lmx_nomem(void);
/* Clears an ordinary exception, such as a missing attribute; false if memory ran out or the exception must
 * reach the user. True if nothing is pending. */
bool lmx_forgive(void);
/* The bytes of an instance of a class, for which the limited API has no function; 0 with an exception. */
size_t lmx_instance_size(PyTypeObject *type);
/* Unless `ok`, there is an exception: keeps the first for the end, since one failure must not leave other
 * things undone, and clears further ones. */
void lmx_keep_first(PyObject *raised[3], bool ok);
/* True for None, numbers and text of Python's own types: they run no user code, never change and hold
 * nothing. Most attributes of modules are such values. */
static inline bool lmx_is_settled(PyObject *o) {
    return o == Py_None || PyBool_Check(o) || PyLong_CheckExact(o) || PyFloat_CheckExact(o) ||
           PyUnicode_CheckExact(o);
}
/* UTF-8 of a str, borrowed; "?" if it has none. Never leaves an exception. */
const char *lmx_utf8(PyObject *text);
/* The instance's dict, a new reference; NULL without an exception if it has none. */
PyObject *lmx_dict_of(PyObject *o);
/* dict[key], borrowed; NULL without an exception if it is absent or `dict` is no dict. */
PyObject *lmx_get(PyObject *dict, PyObject *key);
/* The registry of a module under `key` ("_parameters"), a new reference; NULL without an exception if it has
 * none. A traced module delegates to another object, so the attribute is read, not the dict. */
PyObject *lmx_registered(lmx_state *st, PyObject *module, PyObject *dict, PyObject *key);

/* == torch, inspected once (library.c) =================================================================== */

/* How a Python value is searched for tensors. */
typedef enum lmx_kind {
    LMX_IGNORE, /* holds no tensor that counts */
    LMX_PLAIN,  /* a tensor whose C object can be read */
    LMX_ODD,    /* a tensor with readable attributes only: fake, wrapped, uninitialised */
    LMX_TUPLE,
    LMX_LIST,
    LMX_DICT,
    LMX_OBJECT, /* tensors in its __dict__ */
    LMX_FIELDS, /* a dataclass with slots */
    LMX_UNSEEN  /* a type that is not classified yet */
} lmx_kind;

enum { LMX_TYPES = 256, LMX_DTYPES = 96 };

typedef struct lmx_torch {
    bool ready, probed;
    bool knows_types;                                              /* there is something in `types` */
    PyTypeObject *module, *tensor, *parameter, *script, *compiled; /* strong; the last two may be NULL */
    PyTypeObject *fake;                          /* strong, of a dry run; NULL before the first */
    PyObject *dispatch, *shape, *dtype, *device; /* the values of these names on Tensor itself */
    PyObject *dtypes[LMX_DTYPES];
    int32_t dtype_numbers[LMX_DTYPES], n_dtypes;
    PyTypeObject *types[LMX_TYPES]; /* a direct-mapped cache, emptied when the last capture closes */
    uint8_t kinds[LMX_TYPES];
    lmx_shim shim;
    lmx_grads grads;
    int32_t offset; /* of the at::Tensor in its Python object; -1: the attributes are read */
    char why[240];  /* the method in use, and the reason */
    int32_t reads;  /* values are read by these functions: 1 yes, -1 no, 0 not determined yet (values.c) */
} lmx_torch;

/* == module state (module.c) =========================================================================== */

struct lmx_state {
    PyObject *errors; /* the module lamina._base.errors, once it was needed */
    PyTypeObject *capture_type, *model_type, *costs_type, *snapshot_type, *dry_type, *recorder_type,
        *schedule_type, *root_type, *tokens_type, *ranks_type, *table_type, *recordings_type;
#define X(name) PyObject *n_##name;
    LMX_NAMES(X)
#undef X
    lmx_torch torch;
    lmx_layout *layout;   /* of this torch's records */
    bool watches_ops;     /* the layout was found, and may be used */
    int identities;       /* the number of captures that need identities of memory: those of operators */
    lmx_classes *classes; /* of the modules seen so far */
};

lmx_state *lmx_state_of(PyObject *module);
lmx_state *lmx_state_of_type(PyTypeObject *type); /* also of a subclass in Python */

/* == errors and counts (convert.c) ===================================================================== */

/* Raises the exception of lamina._base.errors that fits; always NULL. One that is already set stays. */
PyObject *lmx_raise(lmx_state *st, const lam_error *e);
PyObject *lmx_fail(lmx_state *st, lam_status status, const char *where, const char *format, ...)
    LAM_PRINTF(4, 5);
/* The status that fits the pending exception, and its sentence into `e`. The exception is cleared. */
lam_status lmx_error_from_exception(lmx_state *st, lam_error *e);

PyObject *lmx_count(lam_count c); /* (int of any size, state) */
bool lmx_count_from(lmx_state *st, PyObject *o, lam_count *out);
PyObject *lmx_shape(lam_shape s); /* a tuple of ints, or None */
PyObject *lmx_str(const char *s); /* str, or None for NULL; malformed UTF-8 is replaced */
/* What lmx_text_sink(t) received, as a str; or NULL with the exception for `e` unless `s` is LAM_OK. */
PyObject *lmx_text_end(lmx_text *t, lmx_state *st, lam_status s, const lam_error *e);

/* == handles (model.c, costs.c) ======================================================================== */

typedef struct lmx_model {
    PyObject_HEAD lmx_state *st;
    lam_model *model;
    int32_t borrowers;    /* costs that read it */
    lam_gadgets *gadgets; /* NULL: not requested yet */
} lmx_model;
PyObject *lmx_model_wrap(lmx_state *st, lam_model *m); /* takes the model over, in every case */
/* The model of a Model object; NULL with an exception. */
lam_model *lmx_model_get(lmx_state *st, PyObject *o);
static inline lam_model *lmx_model_of(PyObject *self) { /* the same of a method's own object */
    return lmx_model_get(((lmx_model *)self)->st, self);
}
/* Takes the model out of a Model object, which is empty from then on. NULL with an exception. */
lam_model *lmx_model_release(lmx_state *st, PyObject *o);
/* Calls `each(self, key, value)` for the entries of a dict or of anything with items(). False with an
 * exception, or if `each` returned false. NULL is an empty dict. */
bool lmx_each(lmx_state *st, PyObject *mapping, bool (*each)(void *self, PyObject *key, PyObject *value),
              void *self);

#endif
