/* SPDX-License-Identifier: Apache-2.0
 *
 * The one way from a file to a model: its format by its first bytes, and the reader of that format. */
#include "base/system.h"
#include "read/gguf/gguf.h"
#include "read/onnx/onnx.h"
#include "read/pt2/pt2.h"
#include "read/pte/pte.h"
#include "read/read.h"
#include "read/safetensors/safetensors.h"
#include "read/torch/checkpoint.h"
#include "read/weights/weights.h"

#include <stdio.h>
#include <stdlib.h>

enum { HEAD = 1 << 16, HEAD_OF_ZIP = 64 /* its directory is read, not what it begins with */ };

static const char no_graph[] =
    "the file has weights and no graph: what a call of a layer computes, and its shapes, are not known";
static const char no_tensors[] = "the file has no tensors, so it is no model, or one without weights";
static const char no_program[] =
    "the program of the file is not read: its layers, their shapes and weights are not known";

/* -- which format it is ---------------------------------------------------------------------------------- */

/* The first character that is no white space, behind a mark of UTF-8. */
static char first_letter(const char *text, size_t n) {
    size_t i = n >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    while (i < n && strchr(" \t\r\n", text[i]) && text[i]) i++;
    return i < n ? text[i] : '\0';
}

static const lmi_format of_torch[] = {[LMI_TORCH_ZIP] = LMI_CHECKPOINT,
                                      [LMI_TORCH_SCRIPT] = LMI_SCRIPT,
                                      [LMI_TORCH_LEGACY] = LMI_LEGACY,
                                      [LMI_TORCH_PICKLE] = LMI_PICKLE,
                                      [LMI_TORCH_TAR] = LMI_TAR};

/* A damaged zip file is taken for a checkpoint, whose reader says why. */
static lam_status sniff_zip(const lmi_bytes *of, lmi_format *out, lmi_zip *z, lam_error *e) {
    lam_error why = {.at = -1};
    const lam_status s = lmi_zip_open(z, of, &why);
    const lmi_torch_kind kind = s == LAM_OK ? lmi_torch_kind_of_zip(z) : LMI_TORCH_ZIP;
    if (kind != LMI_TORCH_NONE)
        *out = of_torch[kind];
    else if (lmi_is_pt2(z))
        *out = LMI_PT2;
    if (s == LAM_NOMEM) return lmi_nomem(e);
    return s == LAM_IO ? lmi_fail(e, s, why.where, "%s", why.text) : LAM_OK;
}

static lam_status sniff(const lmi_bytes *of, char *head, size_t n, lmi_format *out, lmi_zip *z,
                        lam_error *e) {
    LAM_TRY(lmi_bytes_read(of, 0, head, n, e));
    head[n] = '\0';
    if (lmi_is_gguf((unsigned char *)head, n)) return *out = LMI_GGUF, LAM_OK;
    if (lmi_is_pte((unsigned char *)head, n)) return *out = LMI_PTE, LAM_OK;
    /* before pickles, since a header's length may be the two bytes that a pickle begins with */
    if (lmi_is_safetensors((unsigned char *)head, n, of->size)) return *out = LMI_SAFETENSORS, LAM_OK;
    if (lmi_is_onnx((unsigned char *)head, n, of->size)) return *out = LMI_ONNX, LAM_OK;
    if (strncmp(head, "PK\3\4", 4) == 0) return sniff_zip(of, out, z, e);
    const lmi_torch_kind kind = lmi_torch_kind_of((unsigned char *)head, n);
    if (kind != LMI_TORCH_NONE)
        *out = of_torch[kind];
    else if (first_letter(head, n) == '{')
        *out = strstr(head, "\"weight_map\"") && !strstr(head, "\"lamina.report/") ? LMI_INDEX : LMI_REPORT;
    return LAM_OK;
}

/* Opens `z`, which has nothing yet, if it is a zip file. */
static lam_status format_of(const lmi_bytes *of, lmi_format *out, lmi_zip *z, lam_error *e) {
    size_t n = of->size < HEAD ? (size_t)of->size : HEAD;
    char first[4] = "";
    *out = LMI_NO_FORMAT;
    LAM_TRY(lmi_bytes_read(of, 0, first, n < sizeof first ? n : sizeof first, e));
    if (n > HEAD_OF_ZIP && memcmp(first, "PK\3\4", sizeof first) == 0) n = HEAD_OF_ZIP;
    char *head = malloc(n + 1);
    if (!head) return lmi_nomem(e);
    lam_status s = sniff(of, head, n, out, z, e);
    free(head);
    return s;
}

lam_status lmi_format_of(const lmi_bytes *of, lmi_format *out, lam_error *e) {
    lmi_zip z = {0};
    const lam_status s = format_of(of, out, &z, e);
    lmi_zip_free(&z);
    return s;
}

const char *lam_read_format(const char *path) {
    static const char *const names[] = {[LMI_SAFETENSORS] = "safetensors",
                                        [LMI_GGUF] = "GGUF",
                                        [LMI_ONNX] = "ONNX",
                                        [LMI_CHECKPOINT] = "checkpoint",
                                        [LMI_LEGACY] = "checkpoint",
                                        [LMI_SCRIPT] = "TorchScript",
                                        [LMI_PT2] = "pt2",
                                        [LMI_PTE] = "ExecuTorch",
                                        [LMI_INDEX] = "index",
                                        [LMI_REPORT] = "report"};
    lmi_bytes file;
    lmi_format format = LMI_NO_FORMAT;
    char *inside = NULL;
    if (path && lmi_is_folder(path)) {
        const bool any = lmi_in_folder(path, &inside, NULL) == LAM_OK;
        free(inside);
        return any ? "folder" : NULL;
    }
    if (!path || lmi_bytes_open(&file, path, NULL) != LAM_OK) return NULL;
    lmi_format_of(&file, &format, NULL);
    lmi_bytes_close(&file);
    return names[format];
}

/* -- files of weights ------------------------------------------------------------------------------------ */

lam_status lmi_add_weights(lmi_tensors *t, const lmi_bytes *of, lmi_format format, lam_error *e) {
    if (format == LMI_SAFETENSORS) return lmi_safetensors_read(t, of, e);
    for (int kind = LMI_TORCH_ZIP; kind <= LMI_TORCH_TAR; kind++)
        if (of_torch[kind] == format) return lmi_checkpoint_read(t, of, (lmi_torch_kind)kind, e);
    if (format == LMI_NO_FORMAT) return lmi_no_format(of, e);
    return lmi_fail(e, LAM_FAILED, of->name, "it is no file of weights that an index can name");
}

static lam_status name_format(lmi_tensors *t, lam_error *e, const char *format, int32_t n_files) {
    char text[64], files[32] = "";
    if (n_files > 1) snprintf(files, sizeof files, ", %d files", (int)n_files);
    snprintf(text, sizeof text, "%s%s", format, files);
    t->format = lmi_strdup(&t->arena, text);
    return t->format ? LAM_OK : lmi_nomem(e);
}

/* The later parts of a model in several files. */
static lam_status add_part(lmi_tensors *t, const char *path, int64_t part, int64_t parts, lam_error *e) {
    lmi_bytes file;
    lmi_gguf header = {0};
    LAM_TRY(lmi_bytes_open(&file, path, e));
    t->size += file.size;
    lam_status s = lmi_tensors_in(t, &file, e);
    if (s == LAM_OK) s = lmi_gguf_read(t, &file, &header, e);
    lmi_bytes_close(&file);
    if (s == LAM_OK && (header.part != part || header.parts != parts))
        s = lmi_fail(e, LAM_FAILED, path,
                     "it says that it is part %lld of %lld, and its name says %lld of %lld",
                     (long long)header.part + 1, (long long)header.parts, (long long)part + 1,
                     (long long)parts);
    return s;
}

static lam_status add_gguf(lmi_tensors *t, const lmi_bytes *of, lam_error *e) {
    lmi_gguf header = {0};
    char format[32];
    LAM_TRY(lmi_gguf_read(t, of, &header, e));
    if (header.part > 0)
        return lmi_fail(e, LAM_FAILED, of->name, "it is part %lld of %lld; give the first part",
                        (long long)header.part + 1, (long long)header.parts);
    if (header.parts < 0 || header.parts > 99999)
        return lmi_fail(e, LAM_FAILED, of->name, "it is damaged: it can't be one of %lld files",
                        (long long)header.parts);
    for (int64_t i = 1; i < header.parts; i++) {
        char *path;
        LAM_TRY(lmi_gguf_part(of->name, i, header.parts, &path, e));
        lam_status s = add_part(t, path, i, header.parts, e);
        free(path);
        LAM_TRY(s);
    }
    snprintf(format, sizeof format, "GGUF %u", (unsigned)header.version);
    return name_format(t, e, format, header.parts > 1 ? (int32_t)header.parts : 1);
}

static lam_status add_all(lmi_tensors *t, const lmi_bytes *of, lmi_format format, lam_error *e) {
    int32_t n = 1;
    const char *name = format == LMI_SCRIPT        ? "TorchScript"
                       : format == LMI_SAFETENSORS ? "safetensors"
                                                   : "checkpoint";
    LAM_TRY(lmi_tensors_in(t, of, e));
    if (format == LMI_GGUF) return add_gguf(t, of, e);
    if (format == LMI_PTE) LAM_TRY(lmi_pte_read(t, of, e));
    if (format == LMI_PTE) return name_format(t, e, "ExecuTorch", 1);
    if (format == LMI_INDEX)
        LAM_TRY(lmi_add_index(t, of, &n, &name, e));
    else
        LAM_TRY(lmi_add_weights(t, of, format, e));
    LAM_TRY(lmi_add_config(t, of->name, e));
    return name_format(t, e, name, n);
}

static lam_status read_weights(lam_model **out, const lmi_bytes *of, lmi_format format,
                               const lam_read_options *o, lam_error *e) {
    lmi_tensors t;
    lmi_tensors_init(&t, of->size);
    t.limit = o ? o->memory_limit : 0;
    t.keep = o && o->health;
    lam_status s = add_all(&t, of, format, e);
    if (s == LAM_OK && o && o->health) s = lmi_weights_check(&t, o->watcher, e);
    const char *why = format == LMI_PTE ? no_program : lmi_tensors_n(&t) ? no_graph : no_tensors;
    if (s == LAM_OK) s = lmi_tensors_model(&t, why, out, e);
    lmi_tensors_free(&t);
    return s;
}

/* torch.distributed.checkpoint can also write files of safetensors, which are whole. */
static bool is_piece(const char *path, lmi_format format) {
    return (format == LMI_NO_FORMAT || format == LMI_CHECKPOINT || format == LMI_PICKLE) &&
           lmi_is_piece(path);
}

static lam_status read_tensors(lmi_tensors *t, const char *path, lam_error *e) {
    lmi_bytes file;
    lmi_format format;
    LAM_TRY(lmi_bytes_open(&file, path, e));
    t->size += file.size;
    lam_status s = lmi_format_of(&file, &format, e);
    const bool others = format == LMI_ONNX || format == LMI_PT2 || format == LMI_PTE;
    if (s == LAM_OK && is_piece(path, format)) s = lmi_refuse_piece(path, e);
    if (s == LAM_OK && format == LMI_NO_FORMAT) s = lmi_no_format(&file, e);
    if (s == LAM_OK && (format == LMI_REPORT || others))
        s = lmi_fail(
            e, LAM_UNSUPPORTED, path,
            "it is no file of weights: neither safetensors, GGUF, a checkpoint nor an index of them");
    if (s == LAM_OK) s = add_all(t, &file, format, e);
    lmi_bytes_close(&file);
    return s;
}

lam_status lmi_read_tensors(lmi_tensors *t, const char *path, lam_error *e) {
    char *inside = NULL;
    lam_status s = lmi_is_folder(path) ? lmi_in_folder(path, &inside, e) : LAM_OK;
    if (s == LAM_OK) s = read_tensors(t, inside ? inside : path, e);
    free(inside);
    return s;
}

/* -- any file -------------------------------------------------------------------------------------------- */

static lam_status read_file(lam_model **out, const char *path, const lam_read_options *o, lam_error *e) {
    lmi_bytes file;
    lmi_format format;
    lmi_zip z = {0};
    LAM_TRY(lmi_bytes_open(&file, path, e));
    lam_status s = format_of(&file, &format, &z, e);
    if (format != LMI_PT2) lmi_zip_free(&z);
    if (s != LAM_OK)
        ;
    else if (is_piece(path, format))
        s = lmi_refuse_piece(path, e);
    else if (o && o->n_inputs && format != LMI_ONNX)
        s = lmi_fail(e, LAM_USAGE, path,
                     "its inputs have the sizes that the file says; those of an ONNX file can be given");
    else if (o && o->n_sizes && format != LMI_ONNX && format != LMI_PT2 && format != LMI_NO_FORMAT)
        s = lmi_fail(
            e, LAM_USAGE, path,
            "it leaves no size open that could be given: only ONNX files and archives of torch.export do");
    else if (format == LMI_REPORT)
        s = lam_model_load(out, path, e);
    else if (format == LMI_ONNX)
        s = lmi_onnx_model_of(out, &file, o, NULL, e);
    else if (format == LMI_PT2)
        s = lmi_pt2_read(&file, &z, o, NULL, out, e);
    else if (format == LMI_NO_FORMAT)
        s = lmi_no_format(&file, e);
    else
        s = read_weights(out, &file, format, o, e);
    if (s == LAM_OK && o && o->growth && (s = lmi_read_others(*out, &file, format, o, e)) != LAM_OK) {
        lam_model_free(*out);
        *out = NULL;
    }
    lmi_zip_free(&z);
    lmi_bytes_close(&file);
    return s;
}

lam_status lam_read(lam_model **out, const char *path, const lam_read_options *o, lam_error *e) {
    char *inside = NULL;
    lam_error mine = {.at = -1};
    if (!e) e = &mine;
    if (!out) return lmi_fail(e, LAM_USAGE, "lam_read", "there is nowhere to put the model");
    *out = NULL;
    if (!path) return lmi_fail(e, LAM_USAGE, "lam_read", "there is no file to read");
    lam_status s = lmi_is_folder(path) ? lmi_in_folder(path, &inside, e) : LAM_OK;
    if (s == LAM_OK) s = read_file(out, inside ? inside : path, o, e);
    free(inside);
    /* What is wrong is the file, not how it was asked for. */
    if (s == LAM_SYNTAX || s == LAM_RANGE) s = e->status = LAM_FAILED;
    return s;
}
