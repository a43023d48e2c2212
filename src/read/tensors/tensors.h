/* SPDX-License-Identifier: Apache-2.0
 * tensors: the tensors that a file of weights names, and the tree of modules that their names tell.
 *
 * tensors.c: the list. config.c: config.json. tree.c: the modules. packed.c: weights that several tensors
 * hold in few bits. told.c: values of tensors that describe others; sentences. */
#ifndef LMI_READ_TENSORS_H
#define LMI_READ_TENSORS_H

#include "base/json.h"
#include "read/bytes/bytes.h"
#include "vocab/vocab.h"

enum { LMI_MOST_AXES = 32 };
#define LMI_PACKED_STORAGE "its storage is compressed or damaged" /* why values are not read */

/* What a file says of a tensor. */
typedef struct lmi_raw {
    const char *type;
    int32_t dtype, ndim;
    const int64_t *sizes;
    int64_t numel, bytes;
} lmi_raw;

typedef struct lmi_stored_tensor {
    const char *name; /* "layers.0.up.weight" */
    const char *type; /* "float16", "q4_K", "GPTQ of 4 bits" */
    int32_t dtype;    /* as lam_tensor_info; of a packed weight that of its values */
    int32_t ndim;     /* -1: unknown */
    const int64_t *sizes;
    int64_t numel, bytes; /* bytes: of the file; -1 unknown */
    int64_t elsewhere;    /* elements that are in other processes, whose files have them; then */
    int64_t here;         /* `here` are the bytes of this file, and `bytes` those of the whole */
    int32_t same;         /* the earlier tensor that this is another name of; -1: none */
    int32_t in;           /* the tensor whose packed weight this is a part of; -1: none */
    bool packed;
    bool role_known, buffer; /* whether it is a buffer: stated by the file, or found by lmi_tensors_model */
    int64_t shape[2];        /* what the values of two numbers are, of a tensor that tells a shape; else 0 */
    const char *text;        /* its values, of a tensor that holds a text; NULL: none */
    /* where its values are, of a list that keeps its files: from byte `at` of a file on, in steps of
     * elements. `file` -1: they are not there to be read, and `unread` says why. `strides` NULL: row by row.
     */
    bool placed; /* `at` is set; lmi_tensors_add sets `file` */
    int32_t file;
    uint64_t at;
    const int64_t *strides;
    const char *unread;
    /* of a list whose values were checked */
    lam_nonfinite found;
    const char *unseen; /* why they could not be; NULL: they were */
    lmi_raw raw;        /* as the file has it, also of a packed weight */
} lmi_stored_tensor;

/* A module whose class the file tells. */
typedef struct lmi_stored_module {
    const char *path, *type, *type_path;
} lmi_stored_module;

/* What the file beside a model tells of all its weights (config.json). */
typedef struct lmi_quantised_by {
    const char *type;   /* of the model: "LlamaForCausalLM"; NULL: unknown */
    const char *method; /* of the quantisation: "gptq", "mlx", ...; "": none or unknown */
    int64_t bits, group;
    const char *mode; /* of MLX "affine", "mxfp4", of GPTQ "gptq_v2", of AWQ "gemv"; NULL or "": not told */
    int32_t dtype;    /* of values; -1 unknown */
} lmi_quantised_by;

typedef struct lmi_tensors {
    lmi_arena arena;
    lmi_vec at; /* lmi_stored_tensor */
    lmi_map by_name; /* a hash of each name */
    lmi_quantised_by of;
    lmi_vec layers; /* lmi_told_of, of those that differ from the rest */
    lmi_map by_layer;
    lmi_vec modules;    /* lmi_stored_module */
    const char *format; /* "safetensors", "GGUF 3, 2 files" */
    lmi_vec attrs;      /* lam_attr: of the whole model */
    lmi_vec notes;      /* const char * */
    bool keep;          /* the bytes of tensors can be read until the list is freed */
    bool checked;       /* values were checked for NaN and Inf */
    lmi_vec files;      /* lmi_bytes, that it keeps */
    uint64_t limit;     /* as for lam_builder_new */
    uint64_t size;      /* the bytes of all files, which bound the memory that is used */
} lmi_tensors;

void lmi_tensors_init(lmi_tensors *t, uint64_t size);
void lmi_tensors_free(lmi_tensors *t);
static inline lmi_stored_tensor *lmi_tensors_at(const lmi_tensors *t, int32_t i) {
    return lmi_vec_at(&t->at, (size_t)i);
}
static inline int32_t lmi_tensors_n(const lmi_tensors *t) { return (int32_t)t->at.n; }
/* The tensor of a name; -1: there is none. */
int32_t lmi_tensors_find(const lmi_tensors *t, const char *name);
/* Finds them by their names again, after these were changed. */
lam_status lmi_tensors_renamed(lmi_tensors *t, lam_error *e);
/* Makes room for so many more, so that adding them moves none. */
lam_status lmi_tensors_reserve(lmi_tensors *t, size_t more, lam_error *e);
/* True when so many tensors and modules are more than files of this size have. Each takes half a KiB of
 * memory in the end, so that 64 MiB and four times the size are enough for all. */
static inline bool lmi_tensors_are_many(const lmi_tensors *t, size_t n) {
    return n >= (1 << 17) + t->size / 128 || n >= INT32_MAX;
}
/* Adds a tensor, whose name, type and sizes are copied; numel is computed. LAM_SYNTAX: there is one of this
 * name already, or its sizes are negative or too large. `where` and `at` are for the error. */
lam_status lmi_tensors_add(lmi_tensors *t, const lmi_stored_tensor *info, const lmi_bytes *where, uint64_t at,
                           lam_error *e);
/* The same, but its name and type are not copied: they stay as long as the list. */
lam_status lmi_tensors_put(lmi_tensors *t, const lmi_stored_tensor *info, const lmi_bytes *where, uint64_t at,
                           lam_error *e);
/* The tensors that are added next are in this file. Call it before its reader. */
lam_status lmi_tensors_in(lmi_tensors *t, const lmi_bytes *of, lam_error *e);
/* The elements of a storage from its first one to behind the last one of a view; -1: a size or stride can't
 * be. */
int64_t lmi_view_span(const int64_t *sizes, const int64_t *strides, int32_t n, int64_t offset);
/* Notes where the values of a view are, whose storage begins at a byte of the file; or why they can't be
 * read. One that has elements of its storage several times is not read: its values may be more than the file
 * has. */
lam_status lmi_tensors_view(lmi_tensors *t, lmi_stored_tensor *x, uint64_t at, const int64_t *strides,
                            int64_t offset, lam_error *e);
/* True if type and bytes of a tensor are those of one whose values may describe another. */
bool lmi_may_tell(const lmi_stored_tensor *x);
/* Reads such values, a shape of two numbers or a text, where they are placed in the file row by row, if its
 * name says that it has them. */
lam_status lmi_tensors_values(lmi_tensors *t, lmi_stored_tensor *x, const lmi_bytes *of, lam_error *e);
/* Notes the class of the module at a path; the texts must outlive the list. */
lam_status lmi_tensors_module(lmi_tensors *t, const char *path, const char *type, const char *type_path,
                              lam_error *e);
/* Adds an attribute of the whole model; the texts are copied. */
lam_status lmi_tensors_attr(lmi_tensors *t, const char *name, const lam_value *v, lam_error *e);
lam_status lmi_tensors_note(lmi_tensors *t, lam_error *e, const char *fmt, ...) LAM_PRINTF(3, 4);
/* Takes what config.json tells: the position of its whole. */
lam_status lmi_tensors_config(lmi_tensors *t, const lmi_json *j, lam_error *e);
/* Joins the tensors that hold one packed weight. */
lam_status lmi_tensors_join(lmi_tensors *t, lam_error *e);
/* Tells a model what was found in the values of the list, and what was not checked. `place`: of each tensor;
 * -1: it has none. */
lam_status lmi_tensors_health(const lmi_tensors *t, const int32_t *place, lam_builder *b, lam_error *e);
/* Adds what was noted of the list to a model. */
lam_status lmi_tensors_tell(const lmi_tensors *t, lam_builder *b, lam_error *e);
/* The model of them. `why`: as lam_build_described. */
lam_status lmi_tensors_model(lmi_tensors *t, const char *why, lam_model **out, lam_error *e);

/* -- inside this room ------------------------------------------------------------------------------------ */

/* "4.83 bits a weight: q4_K 62 %, q6_K 38 %"; NULL: memory ran out. */
const char *lmi_tensors_mix(lmi_tensors *t);
/* True for what torch's layers register as a buffer, as far as name and type tell. */
bool lmi_is_buffer(const lmi_stored_tensor *x);
lam_status lmi_tensors_tree(lmi_tensors *t, lam_builder *b, lam_error *e);

#endif
