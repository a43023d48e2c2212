/* SPDX-License-Identifier: Apache-2.0
 * read: the model in a file, whatever its format. door.c: which format it is, and its reader. shards.c: files
 * that are beside another. changed.c: two files of weights. others.c: a file at other sizes. unread.c: what
 * no reader takes. */
#ifndef LMI_READ_H
#define LMI_READ_H

#include "read/tensors/tensors.h"

typedef enum lmi_format {
    LMI_NO_FORMAT,
    LMI_SAFETENSORS,
    LMI_GGUF,
    LMI_ONNX,
    LMI_CHECKPOINT,
    LMI_SCRIPT,
    LMI_LEGACY,
    LMI_PTE,
    LMI_PICKLE, /* no format of a model: for what is said of it */
    LMI_TAR,
    LMI_PT2,
    LMI_INDEX,  /* JSON with a "weight_map" */
    LMI_REPORT, /* any other JSON */
    LMI_FOLDER
} lmi_format;

/* The format by the first bytes. */
lam_status lmi_format_of(const lmi_bytes *of, lmi_format *out, lam_error *e);
/* Reads the file again with other values of the sizes that it leaves open, into the model. */
lam_status lmi_read_others(lam_model *m, const lmi_bytes *of, lmi_format format, const lam_read_options *o,
                           lam_error *e);
/* Adds the tensors of a file of weights to those of others. */
lam_status lmi_add_weights(lmi_tensors *t, const lmi_bytes *of, lmi_format format, lam_error *e);

/* Adds the tensors of all files of a model of weights, or of the one in a folder. LAM_UNSUPPORTED: it is of
 * another format. LAM_FAILED: it is of none. */
lam_status lmi_read_tensors(lmi_tensors *t, const char *path, lam_error *e);
/* Says what a file of no format is, and what to give instead. */
lam_status lmi_no_format(const lmi_bytes *of, lam_error *e);
/* The path of a file beside another; NULL: memory ran out. */
char *lmi_beside(const char *path, const char *name);
/* Adds the tensors of all shards that an index names; *format is that of the last one. */
lam_status lmi_add_index(lmi_tensors *t, const lmi_bytes *index, int32_t *n_files, const char **format,
                         lam_error *e);
/* Takes what config.json beside a file tells, and notes which folders of modules.json have weights of their
 * own. A file that is damaged is a note. */
lam_status lmi_add_config(lmi_tensors *t, const char *path, lam_error *e);
/* The one model file of a folder, in memory of malloc. LAM_FAILED: it has none; LAM_UNSUPPORTED: it has
 * several, or is a checkpoint of torch.distributed.checkpoint; LAM_IO: it or all its files can't be read. */
lam_status lmi_in_folder(const char *folder, char **out, lam_error *e);
/* True for a file of such a checkpoint, by the names that torch gives them: as one of them may be a whole zip
 * file of torch.save, with a single tensor, the bytes don't tell. The other says so. */
bool lmi_is_piece(const char *path);
lam_status lmi_refuse_piece(const char *path, lam_error *e);

#endif
