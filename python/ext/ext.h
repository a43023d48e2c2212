/* SPDX-License-Identifier: Apache-2.0
 * ext: CPython meets lamina.h. The extension pushes what it saw of a live model through lam_build_*,
 * hands handles to Python and turns lam_error into exceptions. It counts nothing and formats nothing.
 *
 * Everything is limited API 3.11, so one build serves every CPython from 3.11 on. Every function needs
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

#include "clock.h"
#include "lamina.h"

#if Py_LIMITED_API + 0 < 0x030C0000
/* In the limited API since 3.12, and exported by 3.11. */
extern PyObject *PyObject_Vectorcall(PyObject *callable, PyObject *const *args, size_t n, PyObject *names);
#endif

/* What runs at each call of a watched model: it lies together, because the model has pushed out of the
 * processor what it knew of each page. */
#if defined(__GNUC__)
#define LMX_OFTEN __attribute__((hot))
#else
#define LMX_OFTEN
#endif

/* Attribute names that are looked up often, interned once. */
#define LMX_NAMES(X)                                                                                      \
    X(_modules) X(_parameters) X(_buffers) X(_orig_mod) X(_compiled_call_impl) X(training)                \
    X(parametrizations) X(weight) X(bias) X(max_norm) X(forward) X(shape) X(dtype) X(device) X(type)      \
    X(data_ptr) X(data) X(requires_grad) X(grad) X(_version) X(detach) X(clone) X(is_contiguous)          \
    X(copy_) X(items) X(clear) X(__call__) X(__dict__) X(__mro__) X(__module__) X(__name__)               \
    X(__qualname__) X(__class__) X(__torch_dispatch__) X(__dataclass_fields__) X(original_name)           \
    X(_packed_params) X(_packed_weight) X(param) X(lamina_model) X(write) X(live) X(doctor) X(out) X(err) \
    X(_is_param) X(__enter__) X(__exit__) X(script) X(_world) X(_default_pg)

typedef struct lmx_state lmx_state;
typedef struct lmx_layout lmx_layout; /* observe.h */
typedef struct lmx_modes lmx_modes;   /* dispatch.h */
typedef struct lmx_listener lmx_listener; /* here.h */
typedef struct lmx_classes lmx_classes; /* classes.h */

/* == small things (util.c) ============================================================================= */

/* A growable array of elements of one size, which the caller names at each push. */
typedef struct lmx_vec {
    void *data;
    size_t n, cap; /* elements */
} lmx_vec;
void *lmx_vec_grow(lmx_vec *v, size_t size, size_t more);
/* Room for `more` elements; the first of them, not zeroed. NULL when memory ran out; no exception is set.
 * Inlined, because operators are noted by little else. */
static inline void *lmx_vec_push(lmx_vec *v, size_t size, size_t more) {
    if (!v->data || v->cap - v->n < more) return lmx_vec_grow(v, size, more);
    void *at = (char *)v->data + v->n * size;
    v->n += more;
    return at;
}
void lmx_vec_free(lmx_vec *v);
/* Takes the newest item that has `key` at byte `at` out, where the order of the others is nothing; false:
 * there is none. */
static inline bool lmx_vec_take(lmx_vec *v, size_t size, size_t at, const void *key, void *out) {
    for (size_t i = v->n; i-- > 0;) {
        char *item = (char *)v->data + i * size;
        if (*(const void **)(void *)(item + at) != key) continue;
        memcpy(out, item, size);
        memmove(item, (char *)v->data + --v->n * size, size);
        return true;
    }
    return false;
}
/* Lets the C library keep what captures free, for the next one. Once is enough. */
void lmx_keep_memory(void);

/* From an object's address to an index. */
typedef struct lmx_map {
    const void **keys;
    int32_t *values;
    size_t n, mask;
} lmx_map;
int32_t lmx_map_get(const lmx_map *m, const void *key); /* -1: absent */
bool lmx_map_put(lmx_map *m, const void *key, int32_t value);
bool lmx_map_copy(lmx_map *to, const lmx_map *from); /* false when memory ran out; no exception is set */
void lmx_map_free(lmx_map *m);

/* A sink that keeps the bytes. */
typedef struct lmx_text {
    lmx_vec bytes;
} lmx_text;
lam_sink lmx_text_sink(lmx_text *t);
PyObject *lmx_text_take(lmx_text *t); /* a str; frees the bytes */

/* True when the pending exception is not an Exception (KeyboardInterrupt, SystemExit): it must reach the
 * user. Any other is cleared. False too when nothing is pending. */
bool lmx_must_raise(void);
/* Clears an exception that only says that something has no such attribute or won't do; false when memory
 * ran out or the exception must reach the user. True when nothing is pending. */
bool lmx_forgive(void);
/* UTF-8 of a str, borrowed; "?" where it has none. Never leaves an exception. */
const char *lmx_utf8(PyObject *text);
/* The instance's dict, a new reference; NULL without an exception where it has none. */
PyObject *lmx_dict_of(PyObject *o);
/* dict[key], borrowed; NULL without an exception where it is absent or `dict` is no dict. */
PyObject *lmx_get(PyObject *dict, PyObject *key);
/* What a module registers under `key` ("_parameters"), a new reference; NULL without an exception where
 * it has none. A traced module hands such questions on to another object, so it is asked and not its
 * dict. */
PyObject *lmx_registered(lmx_state *st, PyObject *module, PyObject *dict, PyObject *key);

/* == torch, looked at once (torch.c) =================================================================== */

enum { LMX_FORMS = 5, LMX_PARTS = 3 }; /* of sparse tensors: layouts, and the tensors that make one up */

/* The C functions of libtorch that describe a tensor: names, types and meaning as in its stable C shim. */
typedef struct lmx_shim {
    int32_t (*dim)(void *tensor, int64_t *out);
    int32_t (*sizes)(void *tensor, int64_t **out);
    int32_t (*dtype)(void *tensor, int32_t *out);
    int32_t (*device)(void *tensor, int32_t *out);
    int32_t (*data)(void *tensor, void **out);
    int32_t (*release)(void *tensor);
    int32_t (*offset)(void *tensor, int64_t *out); /* of its first element in its memory; may be NULL */
    /* NULL where they are not exported, as are the next: whether its elements lie one after another, its
     * strides, and another tensor of the same memory. */
    int32_t (*dense)(void *tensor, bool *out);
    int32_t (*strides)(void *tensor, int64_t **out);
    int32_t (*again)(void *tensor, int64_t ndim, const int64_t *sizes, const int64_t *strides, int64_t offset,
                     void **out);
    int32_t (*layout)(void *tensor, int32_t *out); /* may be NULL; of what is not sparse none of these: */
    struct lmx_form {
        int32_t layout;
        /* Each makes a tensor of a sparse one, its values last. C++: `out` is where the handle is written. */
        void *(*parts[LMX_PARTS])(void *out, const void *tensor);
    } forms[LMX_FORMS];
    void *(*room)(size_t bytes); /* for a handle that `release` takes; NULL: what is stored can't be told */
    int32_t (*storage)(void *tensor, int64_t *out); /* bytes of its memory; may be NULL */
    /* As `data`, only to be read: a fake tensor is asked without a warning. May be NULL. */
    int32_t (*peek)(void *tensor, const void **out);
    /* C++: whether its values are those in memory with the other sign, as of z.conj().imag. May be NULL. */
    bool (*negated)(const void *tensor);
} lmx_shim;

/* What autograd keeps of a tensor, by its C++ object: NULL where that is not exported (grads.c). */
typedef struct lmx_grads {
    bool (*wanted)(const void *impl);       /* requires_grad */
    const void *(*grad)(const void *impl);  /* a reference to an at::Tensor */
    const void *undefined;                  /* the object of a tensor that is none */
} lmx_grads;

/* How a Python value is looked through for tensors. */
typedef enum lmx_kind {
    LMX_IGNORE, /* holds no tensor that counts */
    LMX_PLAIN,  /* a tensor whose C object can be read */
    LMX_ODD,    /* a tensor that answers by its attributes only: fake, wrapped, uninitialised */
    LMX_TUPLE, LMX_LIST, LMX_DICT,
    LMX_OBJECT, /* tensors in its __dict__ */
    LMX_FIELDS, /* a dataclass with slots */
    LMX_UNSEEN  /* a type met for the first time */
} lmx_kind;

enum { LMX_TYPES = 256, LMX_DTYPES = 96, LMX_DIMS = 64 };

typedef struct lmx_torch {
    bool ready, probed;
    bool knows_types; /* there is something in `types` */
    PyTypeObject *module, *tensor, *parameter, *script, *compiled; /* strong; the last two may be NULL */
    PyTypeObject *fake; /* strong, of a dry run; NULL before the first */
    PyObject *dispatch, *shape, *dtype, *device; /* what Tensor itself answers for these names */
    PyObject *dtypes[LMX_DTYPES];
    int32_t dtype_numbers[LMX_DTYPES], n_dtypes;
    PyTypeObject *types[LMX_TYPES]; /* a direct-mapped cache, emptied when the last capture closes */
    uint8_t kinds[LMX_TYPES];
    lmx_shim shim;
    lmx_grads grads;
    int32_t offset; /* of the at::Tensor in its Python object; -1: the attributes are read */
    char why[240];  /* which way is used and why */
    int32_t reads;  /* values are read by these functions: 1 yes, -1 no, 0 nobody has asked (looks.c) */
} lmx_torch;

/* == module state (module.c) =========================================================================== */

struct lmx_state {
    PyObject *errors; /* the module lamina._errors, once it was needed */
    PyTypeObject *capture_type, *model_type, *costs_type, *snapshot_type, *dry_type,
        *recorder_type, *turns_type;
#define X(name) PyObject *n_##name;
    LMX_NAMES(X)
#undef X
    lmx_torch torch;
    lmx_layout *layout; /* of this torch's records */
    bool watches_ops;          /* the layout was found, and may be used */
    int identities;            /* captures that want to know whose memory a tensor has: those of operators */
    lmx_modes *modes;
    lmx_classes *classes; /* that modules were met of */
};

lmx_state *lmx_state_of(PyObject *module);

/* == errors and counts (convert.c) ===================================================================== */

/* Raises the exception of lamina._errors that fits; always NULL. An exception that is already set stays. */
PyObject *lmx_raise(lmx_state *st, const lam_error *e);
PyObject *lmx_fail(lmx_state *st, lam_status status, const char *where, const char *format, ...)
    LAM_PRINTF(4, 5);
/* The status that fits the pending exception, and its sentence into `e`. The exception is cleared. */
lam_status lmx_error_from_exception(lmx_state *st, lam_error *e);

PyObject *lmx_count(lam_count c); /* (int of any size, state) */
bool lmx_count_from(lmx_state *st, PyObject *o, lam_count *out);
PyObject *lmx_shape(lam_shape s); /* a tuple of ints, or None */
PyObject *lmx_str(const char *s); /* str, or None for NULL; malformed UTF-8 is replaced */

/* == tensors (torch.c, tensor.c) ======================================================================= */

/* Finds torch among the modules that are already imported. False with an exception. */
bool lmx_torch_ready(lmx_state *st);
void lmx_torch_forget_types(lmx_torch *t);
/* A module that somebody has imported, a new reference; NULL without an exception. */
PyObject *lmx_imported(const char *name);
/* The libtorch_cpu of the torch that was imported; nothing is loaded. The caller closes the handle. NULL
 * without an exception. */
void *lmx_torch_library(void);
/* A function that a library exports, into the pointer at `function`; NULL and false where there is none. */
bool lmx_symbol(void *library, const char *name, void *function);
/* Every function that the library has; NULL for the others. */
void lmx_shim_load(lmx_shim *s, void *library);
bool lmx_shim_tells(const lmx_shim *s); /* those are there that every tensor needs */
void lmx_torch_clear(lmx_torch *t);
int lmx_torch_visit(lmx_torch *t, visitproc visit, void *arg);
PyObject *lmx_describe_status(PyObject *module, PyObject *unused);

enum { LMX_CPU = 0, LMX_META = 14 }; /* c10::DeviceType, of which no header in C tells */

typedef struct lmx_tensor {
    int32_t dtype, device, ndim; /* -1: unknown */
    uint64_t storage;        /* the address of its data; 0 unknown */
    uint64_t memory, object; /* of what holds its data, which views share; of itself; 0 unknown */
    const int64_t *sizes; /* in `own` or in the tensor: valid while the tensor lives unchanged */
    int64_t own[LMX_DIMS];
} lmx_tensor;

/* A handle to another tensor that holds the memory of one that was described so; NULL where it can't be had.
 * It is for lmx_held, or for the shim's `release`. (hold.c) */
void *lmx_hold(const lmx_torch *t, PyObject *tensor, const lmx_tensor *d);
PyObject *lmx_held(lmx_state *st, void *held); /* what it holds, as a tensor; NULL with an exception */
/* Nothing is held like that unless it works with the probe. */
void lmx_prove_hold(lmx_state *st, PyObject *probe);
/* Whether gradients are wanted of a tensor. False with an exception. */
bool lmx_wants_grad(lmx_state *st, PyObject *tensor, bool *wanted);
/* True for a tensor that has no gradient now; false also where only its attribute can tell. */
bool lmx_has_no_grad(lmx_state *st, PyObject *tensor);
void lmx_load_grads(lmx_grads *g, void *library);
void lmx_prove_grads(lmx_state *st, PyObject *probe); /* gives the functions up where they tell otherwise */

lmx_kind lmx_classify(lmx_state *st, PyObject *o);
/* A tensor of a class that is torch's own: nothing about it is answered by code of the user's. */
static inline bool lmx_is_torchs(const lmx_state *st, PyObject *o)
{
    return Py_TYPE(o) == st->torch.tensor || Py_TYPE(o) == st->torch.parameter;
}
static inline lmx_kind lmx_kind_of(lmx_state *st, PyObject *o)
{
    if (lmx_is_torchs(st, o)) return LMX_PLAIN;
    PyTypeObject *type = Py_TYPE(o);
    size_t at = ((uintptr_t)type >> 4 ^ (uintptr_t)type >> 12) & (LMX_TYPES - 1);
    return st->torch.types[at] == type ? (lmx_kind)st->torch.kinds[at] : lmx_classify(st, o);
}
static inline bool lmx_is_tensor(lmx_state *st, PyObject *o)
{
    lmx_kind kind = lmx_kind_of(st, o);
    return kind == LMX_PLAIN || kind == LMX_ODD;
}
/* Describes a tensor. What it will not tell stays unknown. False only for an exception that must reach the
 * user, and when memory ran out. */
bool lmx_describe(lmx_state *st, PyObject *tensor, lmx_kind kind, lmx_tensor *out);

/* What identifies the memory of the tensor behind a handle (an at::Tensor), the same for all its views; 0:
 * not known. Nothing of Python is touched. */
uint64_t lmx_memory_of(const lmx_layout *l, const lmx_shim *s, const void *handle);
/* The same of a Python tensor, as captures of operators tell it. */
uint64_t lmx_memory_here(const lmx_state *st, PyObject *tensor, lmx_kind kind);
/* What a sparse tensor stores: elements, those with their indices, and the bytes of both; -1 unknown. */
typedef struct lmx_sparse {
    int64_t values, stored, bytes;
} lmx_sparse;
/* Asks the tensor itself; *sparse false: it is none. False as lmx_describe. */
bool lmx_sparse_read(PyObject *tensor, lmx_sparse *out, bool *sparse);
/* The same of a handle: nothing of Python is touched. False where it is not sparse, or that can't be told. */
bool lmx_sparse_of(const lmx_shim *s, const void *handle, lmx_sparse *out);
/* Finds in libtorch_cpu what that needs, as far as it is there. */
void lmx_sparse_load(lmx_shim *s, void *library);
/* The tensors, unpacked, of what dict[name] keeps packed for the machine, a new list; NULL without an
 * exception where it keeps none. `told` false: some could not be unpacked. */
PyObject *lmx_unpacked(lmx_state *st, PyObject *dict, PyObject *name, bool *told);

/* == tensors inside values (find.c) ==================================================================== */

/* One tensor that was found; `ndim` sizes follow it. */
typedef struct lmx_found {
    uint64_t storage, memory, object;
    int32_t dtype, device, ndim, position, name, unused;
} lmx_found;

enum { LMX_DEPTH = 12, LMX_BUDGET = 16384 };
typedef struct lmx_finder {
    lmx_state *st;
    lmx_vec *words;         /* int64 words; lmx_found and sizes are appended */
    int32_t position, name; /* of the value that is being looked through */
    int32_t n;              /* tensors found */
    int32_t budget;         /* values that may still be looked at */
    /* a result: the entries of the outermost container are numbered, a lone tensor is 0 */
    bool numbered;
    bool cut;               /* depth or budget ended the search */
    bool values;            /* there are numbers or arrays too */
    bool nomem;
    PyObject *path[LMX_DEPTH]; /* the containers that are open, to cut cycles */
    /* Told of each tensor instead of describing it in `words`; false as lmx_describe. NULL: none */
    bool (*each)(struct lmx_finder *f, PyObject *tensor, lmx_kind kind);
    void *self; /* for `each` */
    /* The name of a dict's entry, by that of the dict. NULL: entries have the dict's */
    int32_t (*entry)(struct lmx_finder *f, PyObject *key);
    void *names; /* for `entry` */
} lmx_finder;
/* False as lmx_describe. `depth` is 0 for whoever asks first. */
bool lmx_find(lmx_finder *f, PyObject *value, int depth);

/* == the tree (walk.c) ================================================================================= */

typedef struct lmx_node { /* a distinct module object */
    PyObject *object;
    int32_t n_children;  /* registered; a duplicate counts once */
    int32_t parent_seen; /* the place whose children were listed last with this module among them */
    int32_t inner;       /* of a compiled wrapper: the node of the module it wraps, else -1 */
    bool on_path, parametrized, compiled;
    bool opaque; /* compiled, and its inside was not seen */
    bool scripted;
    int8_t hides; /* of a scripted one: 1 its code runs kernels that are no operators, -1 none, 0 not asked */
} lmx_node;
typedef struct lmx_place {
    int32_t parent, node;
    PyObject *name; /* str */
} lmx_place;
typedef struct lmx_twin { /* a name under which a sibling was registered again */
    int32_t place;        /* of the parent */
    int32_t node;
    PyObject *name;
} lmx_twin;
typedef struct lmx_tree {
    lmx_vec nodes, places, twins;
    lmx_map index; /* module object -> node */
} lmx_tree;
/* Walks the tree under `root` in registration order. The tree holds what it names. False with an
 * exception. */
bool lmx_walk(lmx_state *st, lmx_tree *tree, PyObject *root);
bool lmx_tree_copy(lmx_tree *to, const lmx_tree *from); /* into one that is empty. False with an exception */
void lmx_tree_free(lmx_tree *tree);
int lmx_tree_visit(lmx_tree *tree, visitproc visit, void *arg);
static inline lmx_node *lmx_node_at(const lmx_tree *t, int32_t i) { return (lmx_node *)t->nodes.data + i; }
static inline lmx_place *lmx_place_at(const lmx_tree *t, int32_t i)
{
    return (lmx_place *)t->places.data + i;
}
/* The dotted path of `name` under place `parent`, a new str. */
PyObject *lmx_path(const lmx_tree *tree, int32_t parent, PyObject *name);
/* Calls `each(self, key, value)` for the entries of a dict or of anything with items(). False with an
 * exception, or when `each` gave false. NULL is an empty dict. */
bool lmx_each(lmx_state *st, PyObject *mapping, bool (*each)(void *self, PyObject *key, PyObject *value),
              void *self);

/* == captures (watch.c, capture.c, describe.c) ========================================================= */

typedef struct lmx_call {
    int32_t module, parent;
    uint32_t flags;
    int32_t n_in, n_out;
    size_t in_at, out_at; /* words */
    int64_t began, ended; /* stamps of the capture's clock; 0 none */
} lmx_call;

typedef struct lmx_observer lmx_observer;
typedef struct lmx_ledger lmx_ledger;
typedef struct lmx_dispatcher lmx_dispatcher;
typedef struct lmx_teller lmx_teller; /* describe.c */
typedef enum lmx_phase { LMX_NEW, LMX_OPEN, LMX_CLOSED } lmx_phase;

typedef struct lmx_capture {
    PyObject_HEAD
    lmx_state *st;
    PyObject *root, *model; /* model: built once, when asked for */
    PyObject *alias;        /* what torch.compile made of the root: its calls are the root's; or NULL */
    PyObject *notes;        /* list of str, for the report; or NULL */
    PyObject *made;         /* list of str, how each input was made up; or NULL */
    PyObject *open_regions; /* set of names of compiled code that runs operator by operator; or NULL */
    struct lmx_capture *next; /* among the open ones */
    lmx_tree tree;
    PyObject *snapshot; /* that was taken before the start; or NULL */
    lmx_teller *early;  /* the modules as they were described then; NULL: they are described at the end */
    lmx_vec calls; /* lmx_call */
    lmx_vec words; /* int64_t: the tensors of the calls */
    lmx_vec names; /* PyObject *: keywords */
    lmx_vec written; /* uint64_t: memory that operators wrote to in place, known once they are told */
    size_t n_calls, n_modules; /* what there was before the records were dropped */
    unsigned long owner;       /* thread */
    lmx_clock clock;
    int32_t open_call;
    int32_t alias_call; /* the last one that was made through the alias; -1 */
    lmx_phase phase;
    bool busy;     /* tensors are being described: calls that this makes are not the model's */
    bool counted;  /* among the state's `identities` */
    bool lost;     /* memory for records ran out, or */
    bool full;     /* there are more records than a capture may hold: */
    uint64_t most, most_ops; /* bytes of calls, and of operators a thread */
    bool cut;      /* a value had more tensors or levels than are looked at */
    bool replaced; /* somebody else's Module.__call__ was found at the end */
    bool strangers; /* another thread called modules of it while none was called here */
    bool *elsewhere; /* by module: another thread called it; NULL: none did */
    bool wants_ops, paused; /* paused: operators that run are not the model's */
    bool wants_nodes;       /* those of backward passes are watched, also where operators are not */
    bool timed;             /* times were asked for */
    bool no_backward;       /* a backward pass was asked for and did not run */
    lmx_listener *listeners; /* NULL: nobody */
    const lmx_map *tensors_told; /* tensor object -> index, while they are told what to push; else NULL */
    bool brief;             /* of calls only who called whom and when, of modules what they are and own */
    int32_t dry;            /* nothing is computed, times mean nothing: modes that are on with its own; 0 */
    lmx_ledger *ledger;     /* when memory was taken and given back, of a dry run; NULL: nobody asked */
    lmx_observer *observer; /* of the operators; NULL: only calls are noted */
    lmx_dispatcher *dispatcher; /* operators are seen through torch's dispatch mode; NULL: by the observer */
    PyObject *why; /* str: why they are, for a note; NULL: no note */
    PyObject *raised; /* while a call is left that raised: what; not owned */
    PyObject *gradients; /* dict: by address, a parameter and whether a gradient came; NULL: nobody looked */
    PyObject *given; /* is called once, with the arguments of the first call of the root; NULL: nobody asks */
    int32_t holders; /* so many read or write the records now, and may run code of the user's meanwhile */
    bool owed;       /* the records are dropped when the last of those lets go */
    bool telling;    /* the model is being made */
} lmx_capture;

/* Names of arguments (find.c): of a keyword, -1 when there are too many, and of a dict's entry, for the
 * `entry` of a finder whose `names` is the capture. */
int32_t lmx_keyword(lmx_capture *c, PyObject *name);
int32_t lmx_entry_name(lmx_finder *f, PyObject *key);

/* From one to the other the records stay, whoever closes the capture and asks for its model meanwhile. The
 * caller has a reference. The second keeps a pending exception. */
static inline void lmx_capture_hold(lmx_capture *c) { c->holders++; }
void lmx_capture_drop_owed(lmx_capture *c);
static inline void lmx_capture_let_go(lmx_capture *c)
{
    if (--c->holders == 0 && c->owed) lmx_capture_drop_owed(c);
}

/* Has calls of torch.nn.Module.__call__ reach C, and lists the capture. False with an exception. */
bool lmx_watch(lmx_capture *c);
/* The reverse; allowed at any time, from any thread. Keeps a pending exception. */
void lmx_unwatch(lmx_capture *c);
/* Which modules other threads called meanwhile. */
lam_status lmx_push_elsewhere(const lmx_capture *c, lam_builder *b, lam_error *e);
/* How the inputs were made up (capture.c). */
lam_status lmx_push_made(const lmx_capture *c, lam_builder *b, lam_error *e);
/* rest(True): ours is in place, also while no capture is open; until rest(False) was called as often. */
PyObject *lmx_rest(PyObject *module, PyObject *wanted);
PyObject *lmx_in_place(PyObject *module, PyObject *unused); /* in_place(): whether it is */
/* find(finder): while ours rests, it is asked about each module that is called outside any other, before it
 * is: None, or what is to be called instead of it. find(None) ends that. within_found(): such a call is under
 * way in this thread. */
PyObject *lmx_find_roots(PyObject *module, PyObject *finder);
PyObject *lmx_within_found(PyObject *module, PyObject *unused);
/* behind(function): what it calls where it is one of our entries, itself otherwise. */
PyObject *lmx_behind(PyObject *module, PyObject *function);
/* count(root, turns, told, how=None): while ours is in place, `told` hears of the calls of the root whose
 * turn it is (turns.h), when they begin and when they end; or, with `how`, steps are seen and recorded
 * without (sample.h). uncount(id(root)) ends that. end_step(id(root), record): ends the step that is being
 * seen. */
PyObject *lmx_count_calls(PyObject *module, PyObject *args);
PyObject *lmx_uncount_calls(PyObject *module, PyObject *address);
PyObject *lmx_end_step(PyObject *module, PyObject *args);
/* Notes one call of the root that was made elsewhere, and closes the capture, which was never open. */
bool lmx_note(lmx_capture *c, PyObject *const *args, Py_ssize_t n, PyObject *result);
PyObject *lmx_one_call(PyObject *module, PyObject *args); /* capture.c */
/* Has the values that go through the capture looked at (health.c). Before it is started. */
PyObject *lmx_watch_health(PyObject *self, PyObject *args);
/* Whether this process works with others: torch has a group of processes. Never fails (spread.c). */
bool lmx_has_group(lmx_state *st);
/* How many elements of a tensor, which was described as a whole, other processes hold; 0 for a plain one. */
int64_t lmx_elsewhere(lmx_state *st, PyObject *tensor, const lmx_tensor *whole);
/* The model that the capture saw. `before`, or NULL, is called once before code of the user's runs. False
 * with an exception. */
bool lmx_describe_model(lmx_capture *c, PyObject *before, lam_model **out);
/* The modules in the capture's tree are about to be described before the run, one by one (the second), as far
 * as nothing of the user's runs for it: else that is given up. False with an exception. */
bool lmx_early_begin(lmx_capture *c);
bool lmx_early_module(lmx_capture *c, int32_t node);
void lmx_early_drop(lmx_capture *c);
int lmx_early_visit(const lmx_capture *c, visitproc visit, void *arg);
/* What an open capture saw so far, names and calls alone, and what `push` adds to that. False with an
 * exception. */
bool lmx_describe_so_far(lmx_capture *c, lam_status (*push)(void *self, lam_builder *b, lam_error *e),
                         void *self, lam_model **out);

/* == operators (observe.c, operators.c, probe.c; see observe.h) ======================================== */

/* Watches the operators of this thread, or the nodes of its backward passes alone, and of the threads that
 * run a backward pass for it, until the stop. False with an exception. */
bool lmx_observe(lmx_capture *c);
/* The reverse; allowed at any time, from any thread. What was recorded stays. */
void lmx_unobserve(lmx_capture *c);
/* To be told when the capture's open call has changed: nodes that autograd makes from now on are its.
 * True inside a backward pass. */
bool lmx_observe_call(lmx_capture *c);
void lmx_observer_free(lmx_observer *o); /* NULL is allowed */
/* True when operators could not be noted any more; those up to `since_ns` were. */
bool lmx_observer_lost(const lmx_observer *o, int64_t *since_ns);
/* True when they were pushed, and so can't be again. */
bool lmx_observer_told(const lmx_observer *o);
/* A backward pass through what the model made ran on a thread that is not watched. */
bool lmx_observer_strange(const lmx_observer *o);
bool lmx_observer_full(const lmx_observer *o);
size_t lmx_observer_n(const lmx_observer *o);
/* Operators that were noted of the capture's own thread. */
size_t lmx_observer_own(const lmx_observer *o);
/* Of the operator that its own thread runs now: the name of the one that called it, "" where the engine of
 * autograd adds gradients up, NULL for another or none. */
const char *lmx_observer_caller(const lmx_observer *o);
/* The same of whoever is so many levels above it; it is at level 0 itself. */
const char *lmx_observer_above(const lmx_observer *o, size_t level);
/* True for a node of whose gradients values decide how they are computed, in ways that do no dense work. */
bool lmx_dry_values_decide(const char *node);
/* Gives one of lam_op_flags to whoever is so many levels above it. */
void lmx_observer_mark(lmx_observer *o, size_t level, uint8_t flag);
void lmx_ledger_close(lmx_ledger *l); /* NULL is allowed; see ledger.h */
/* Pushes every operator. False with an error. */
lam_status lmx_push_operators(const lmx_observer *o, lam_builder *b, lam_error *e);
extern PyMethodDef lmx_probe_methods[];

/* == operators through torch's dispatch mode (dispatch.c; see dispatch.h) ============================== */

bool lmx_dispatcher_new(lmx_capture *c); /* it is the capture's. False with an exception */
void lmx_dispatcher_free(lmx_dispatcher *d);
/* lmx_observe, lmx_unobserve and lmx_observe_call of a capture that has a dispatcher. The mode is taken off
 * by its own thread only: closed by another, it notes nothing, and goes when that thread closes one. */
bool lmx_dispatch(lmx_capture *c);
void lmx_undispatch(lmx_capture *c);
bool lmx_dispatch_call(lmx_capture *c);
/* True while an operator is being noted, by any thread: the lanes must stay. */
bool lmx_dispatch_busy(const lmx_capture *c);
/* dispatched_by(cls): the method that is __torch_dispatch__ of a class of modes. */
PyObject *lmx_dispatched_by(PyObject *module, PyObject *type);
void lmx_modes_clear(lmx_modes *m);

/* == handles (model.c, costs.c) ======================================================================== */

typedef struct lmx_model {
    PyObject_HEAD
    lmx_state *st;
    lam_model *model;
    int32_t borrowers; /* costs that read it */
    lam_gadgets *gadgets; /* NULL: nobody asked */
} lmx_model;
PyObject *lmx_model_wrap(lmx_state *st, lam_model *m); /* takes the model over, in every case */
/* The model of a Model object; NULL with an exception. */
lam_model *lmx_model_get(lmx_state *st, PyObject *o);
/* Takes the model out of a Model object, which is empty from then on. NULL with an exception. */
lam_model *lmx_model_release(lmx_state *st, PyObject *o);
PyObject *lmx_costs_new(lmx_model *m, PyObject *args, PyObject *kwargs);
PyObject *lmx_compared(lmx_model *m, PyObject *args);
PyObject *lmx_rows(const lam_costs *c); /* rows.c: a list of dicts */
/* Every metric under its name, and "bytes" and "intensity". False with an exception. */
bool lmx_put_metrics(PyObject *dict, const lam_count metric[LAM_N_METRICS]);
PyObject *lmx_row_time(const lam_costs *c, int32_t row); /* times.c: None without */
PyObject *lmx_times(const lam_costs *c);
PyObject *lmx_speeds(const lam_costs *c, const lam_peak *peak);
PyObject *lmx_time_by(lmx_model *m, PyObject *other); /* which it takes over */
PyObject *lmx_graph(lmx_model *self); /* graph.c */
PyObject *lmx_graph_dot(lmx_model *self, PyObject *args);
PyObject *lmx_graph_findings(lmx_model *self);
PyObject *lmx_health(lmx_model *self); /* healthy.c */
PyObject *lmx_health_tail(lmx_model *self, PyObject *args);
/* scan_values(address, dtype, n, repeats=1, stats=False): (nan, inf, index of the first) of n numbers that
 * lie there; with `stats` as their statistics tell it, which know no first. For the bench. */
PyObject *lmx_scan_values(PyObject *module, PyObject *args);
PyObject *lmx_gadgets(lmx_model *self, PyObject *args); /* gadgets.c */
/* Counts by metric's name; one that is missing or None is unknown. */
bool lmx_counts_from_dict(lmx_state *st, PyObject *dict, lam_count out[LAM_N_METRICS]);
/* ((position, shape and type, or value), ...) */
PyObject *lmx_op_args(const lam_op_arg *args, int32_t n);

/* -- rules of the user's own (own.c) --------------------------------------------------------------------- */

typedef struct lmx_own {
    lmx_state *st;
    lam_rules *rules; /* NULL: none */
    PyObject *ask;    /* borrowed; NULL: none */
    bool failed;      /* its exception is pending; nothing more is asked */
} lmx_own;
/* From a list of (name, {metric: formula}, asks) and the function of the open ones. To be released also after
 * a failure. */
bool lmx_own_take(lmx_own *o, lmx_state *st, PyObject *rules, PyObject *ask);
void lmx_own_release(lmx_own *o);
/* lam_cost_options.ask of an lmx_own. */
bool lmx_own_ask(void *self, const lam_model *m, int32_t op, int32_t event, const char *name,
                 lam_count out[LAM_N_METRICS]);
extern PyMethodDef lmx_own_methods[];
/* Puts a value under a name, takes the value over. False with an exception, or when `value` is NULL. */
bool lmx_put(PyObject *dict, const char *name, PyObject *value);
PyObject *lmx_arg_shapes(const lam_arg *args, int32_t n);
PyObject *lmx_arg_dtypes(const lam_arg *args, int32_t n);

/* == tables for module.c =============================================================================== */

extern PyType_Spec lmx_capture_spec, lmx_model_spec, lmx_costs_spec, lmx_snapshot_spec, lmx_dry_spec,
    lmx_recorder_spec, lmx_turns_spec;
extern PyMethodDef lmx_text_methods[]; /* text.c */
extern PyMethodDef lmx_fit_methods[];  /* fitted.c */
PyObject *lmx_command(PyObject *module, PyObject *args);    /* command.c */
PyObject *lmx_scan_write(PyObject *module, PyObject *args); /* scan.c */
PyObject *lmx_thoplw_write(PyObject *module, PyObject *args);
PyObject *lmx_scan_cell(PyObject *module, PyObject *args);

#endif
