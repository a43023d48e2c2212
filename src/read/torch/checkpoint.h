/* SPDX-License-Identifier: Apache-2.0
 * checkpoint: what torch.save and torch.jit.save wrote: a zip file with a pickle and the bytes of storages,
 * or a row of pickles with the storages behind them. */
#ifndef LMI_READ_CHECKPOINT_H
#define LMI_READ_CHECKPOINT_H

#include "read/bytes/zip.h"
#include "read/tensors/tensors.h"
#include "read/torch/pickle.h"

typedef enum lmi_torch_kind {
    LMI_TORCH_NONE,
    LMI_TORCH_ZIP,
    LMI_TORCH_SCRIPT, /* a zip file that also has the code of its modules */
    LMI_TORCH_LEGACY, /* of torch before 1.6 */
    LMI_TORCH_PICKLE, /* a pickle that torch did not write */
    LMI_TORCH_TAR     /* of torch before 0.2 */
} lmi_torch_kind;

/* The kind by the first bytes, of which there should be 512; of a zip file by its entries. */
lmi_torch_kind lmi_torch_kind_of(const unsigned char *head, size_t n);
lmi_torch_kind lmi_torch_kind_of_zip(const lmi_zip *z);
/* The name of the folder of the zip file that has a data.pkl, and its length; NULL: there is none. */
const lmi_zip_entry *lmi_torch_pickle(const lmi_zip *z, size_t *folder);
/* Adds the tensors of the file, and the classes of modules that were saved whole. LAM_SYNTAX: it is damaged,
 * or a tensor is not inside its storage; LAM_UNSUPPORTED: a format that is not read. */
lam_status lmi_checkpoint_read(lmi_tensors *t, const lmi_bytes *of, lmi_torch_kind kind, lam_error *e);

/* Whether the entry of a zip file that says so says that its numbers are in the other byte order; older torch
 * writes none (NULL). */
lam_status lmi_torch_order(const lmi_zip *z, const lmi_zip_entry *entry, bool *turned, lam_error *e);

/* -- inside this room ------------------------------------------------------------------------------------ */

/* The storages that the tensors of a pickle are in: of a zip file, or behind a legacy file's pickles. */
typedef struct lmi_storages {
    const lmi_zip *zip; /* NULL: legacy */
    size_t folder;
    const char *folder_name;
    const char *storages; /* the folder in it that has them */
    const lmi_bytes *of;
    lmi_map elements; /* legacy: of a storage's name the elements that it has there */
    lmi_map places;   /* legacy: and the byte that they begin at */
    bool turned;      /* its numbers are in the other byte order */
} lmi_storages;

/* Walks what a pickle has, and adds its tensors and modules. */
lam_status lmi_torch_walk(lmi_tensors *t, const lmi_pickle *p, const lmi_storages *in, lam_error *e);
/* True, with *out, if the value is a tensor. LAM_SYNTAX: it is one that can't be. The name is not set. */
lam_status lmi_torch_tensor(lmi_tensors *t, const lmi_pickle *p, const lmi_storages *in, int32_t value,
                            lmi_stored_tensor *out, uint64_t *identity, bool *is_tensor, lam_error *e);
/* What the code of a TorchScript archive says of a class: the names of its parameters and of its buffers,
 * each in quotation marks, with commas between them. */
typedef struct lmi_script_class {
    const char *parameters, *buffers; /* NULL: it does not say */
} lmi_script_class;
typedef struct lmi_script {
    const lmi_storages *in;
    lmi_arena *a;    /* of the lists */
    lmi_map by_name; /* of classes, and of files that were read */
    lmi_vec classes; /* lmi_script_class * */
    uint64_t left; /* bytes of code that may still be read */
} lmi_script;
void lmi_script_init(lmi_script *s, const lmi_storages *in, lmi_arena *a);
void lmi_script_free(lmi_script *s);
/* The class; NULL in *out: no code says what its parameters are. */
lam_status lmi_script_class_of(lmi_script *s, const lmi_pickled_global *g, const lmi_script_class **out,
                               lam_error *e);
bool lmi_script_lists(const char *list, const char *name);
/* A value under a name at the root that has tensors: from which tensor of the list on. Name NULL: tensors of
 * the root itself. */
typedef struct lmi_torch_part {
    const char *name;
    int32_t from;
} lmi_torch_part;
/* Gives tensors that are empty here, as their values are in other files, the shapes that the file tells. */
lam_status lmi_torch_split(lmi_tensors *t, const lmi_pickle *p, lam_error *e);
/* Notes parts of the root that are the same model twice. */
lam_status lmi_torch_twice(lmi_tensors *t, const lmi_vec *parts, lam_error *e);
/* True, with the sizes, of which there is room for LMI_MOST_AXES, if the value is a shape. */
bool lmi_torch_sizes(const lmi_pickle *p, int32_t value, int64_t *out, int32_t *n);
/* torch's type of the elements of a storage's class; -1: bytes, or unknown. */
int32_t lmi_torch_storage_type(const lmi_pickled_global *g);

#endif
