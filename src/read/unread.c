/* SPDX-License-Identifier: Apache-2.0
 *
 * What a file is that no reader takes, by its first bytes or by the names in a zip file. */
#include "read/bytes/zip.h"
#include "read/read.h"

#include <ctype.h>
#include <stdlib.h>

enum { HEAD = 64 };

typedef struct known {
    int at; /* the byte that the mark begins at */
    const char *mark, *what, *next;
} known;

static const char html[] = "a page of HTML, as a failed download leaves", again[] = "download the file again",
                  engine[] = "an engine of TensorRT, which is not read",
                  built[] = "give the ONNX file that it was built from",
                  old[] = "a file of GGML, which is older than GGUF and not read",
                  convert[] = "convert the model to ONNX to see its layers";

static const known heads[] = {
    {0, "version https://git-lfs", "a pointer of Git LFS, and not the file", "`git lfs pull` fetches that"},
    {0, "SQLite format 3", "a database of SQLite, as recordings are, and no model",
     "`lamina show` and `lamina report` show recordings"},
    {0, "<!doctype", html, again},
    {0, "<html", html, again},
    {0, "\x89HDF\r\n\x1a\n", "a file of HDF5, as Keras writes, which is not read", convert},
    {0, "<?xml", "a file of XML, as OpenVINO writes, which is not read", built},
    {4, "TFL3", "a model of TensorFlow Lite, which is not read", convert},
    {4, "ORTM", "a model in ONNX Runtime's own format, which is not read", built},
    {4, "FT01", "the data of an ExecuTorch program", "give the program, its .pte file"},
    {0, "ftrt", engine, built},
    {0, "ptrt", engine, built},
    {0, "\x93NUMPY", "an array of NumPy, which is not read", "save arrays by their names as safetensors"},
    {0, "\x1f\x8b", "packed by gzip", "unpack it, and give the model's file"},
    {0, "lmgg", old, "convert it to GGUF"},
    {0, "fmgg", old, "convert it to GGUF"},
    {0, "tjgg", old, "convert it to GGUF"},
};

/* Of a zip file, by what the name of an entry has in it. */
static const known entries[] = {
    {0, "data/aotinductor/", "a package of AOTInductor, whose program is compiled and not read",
     "save the exported program by torch.export.save too"},
    {0, "MAR-INF/", "an archive of TorchServe", "unpack it, and give the model's file in it"},
    {0, ".data/extern_modules", "a package of torch.package, whose code would have to be run",
     "save the state of its model by torch.save"},
    {0, "model.weights.h5", "a file of Keras, which is not read", convert},
    {0, ".npy", "a file of NumPy's arrays, which is not read", "save them as safetensors"},
};

static lam_status refuse(const lmi_bytes *of, const known *k, lam_error *e) {
    return lmi_fail(e, LAM_UNSUPPORTED, of->name, "it is %s; %s", k->what, k->next);
}

/* Letters may be of either case, as in HTML. */
static bool begins(const unsigned char *head, size_t n, const known *k) {
    const size_t length = strlen(k->mark);
    if ((size_t)k->at + length > n) return false;
    for (size_t i = 0; i < length; i++)
        if (tolower(head[(size_t)k->at + i]) != tolower((unsigned char)k->mark[i])) return false;
    return true;
}

static const known *entry_of(const lmi_zip *z) {
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++)
        for (int32_t k = 0; k < z->n; k++)
            if (strstr(z->entry[k].name, entries[i].mark)) return &entries[i];
    return NULL;
}

static lam_status no_zip(const lmi_bytes *of, lam_error *e) {
    lmi_zip z;
    lam_status s = lmi_zip_open(&z, of, e);
    const known *k = s == LAM_OK ? entry_of(&z) : NULL;
    if (k)
        s = refuse(of, k, e);
    else if (s == LAM_OK)
        s = lmi_fail(e, LAM_UNSUPPORTED, of->name,
                     "it is a zip file, and neither a checkpoint nor an archive of torch.export: it has no "
                     "data.pkl and no program; if it holds model files, unpack it and give one of them");
    lmi_zip_free(&z);
    return s;
}

lam_status lmi_no_format(const lmi_bytes *of, lam_error *e) {
    unsigned char head[HEAD];
    const size_t n = of->size < HEAD ? (size_t)of->size : HEAD;
    LAM_TRY(lmi_bytes_read(of, 0, head, n, e));
    if (n == 0) return lmi_fail(e, LAM_FAILED, of->name, "it is no model file: it is empty");
    if (n >= 4 && memcmp(head, "PK\3\4", 4) == 0) return no_zip(of, e);
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        if (begins(head, n, &heads[i])) return refuse(of, &heads[i], e);
    return lmi_fail(
        e, LAM_FAILED, of->name,
        "it is no model file that lamina reads: by its first bytes it is neither safetensors, GGUF, ONNX, a "
        "checkpoint, an index of weights nor a saved report");
}
