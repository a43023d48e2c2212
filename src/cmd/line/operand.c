/* SPDX-License-Identifier: Apache-2.0
 *
 * What an operand names: a saved report, a model's file, the folder of a run; and which part of a run options
 * name. */
#include "base/system.h"
#include "cmd/line/line.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* If a name with a colon is no file, the colon separates a module and an attribute of it, as in
 * net:made.json. */
bool lmi_is_saved(const char *operand) {
    static const char end[] = ".json";
    const size_t n = strlen(operand), tail = sizeof end - 1;
    struct stat st;
    if (n < tail || strcmp(operand + n - tail, end) != 0) return false;
    return stat(operand, &st) == 0 || !strchr(operand, ':');
}

const char *lmi_format(lmi_cli *c, const char *operand) {
    const int most = (int)(sizeof c->formats / sizeof *c->formats);
    for (int i = 0; i < most && i < c->n_formats; i++)
        if (c->formats[i].operand == operand) return c->formats[i].format;
    const char *format = lam_read_format(operand);
    c->formats[c->n_formats++ % most] = (lmi_operand_format){operand, format};
    return format;
}

/* True for what is there and no file, as a pipe, a device or a link to nothing, and for a path that can't be
 * followed. */
static bool is_no_file(const char *operand) {
    struct stat st;
    if (stat(operand, &st) == 0) return !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode);
    return lstat(operand, &st) == 0 || (errno != ENOENT && !strchr(operand, ':'));
}

/* A file is known by its content. One that can't be read, or that nothing reads, is meant as a file if it is
 * called as files of models are. */
bool lmi_is_file(lmi_cli *c, const char *operand) {
    static const char *const ends[] = {".safetensors", ".gguf", ".pt",  ".pth",    ".bin",     ".ckpt",
                                       ".pt2",         ".onnx", ".pte", ".distcp", ".metadata"};
    const char *format = lmi_format(c, operand), *dot = strrchr(operand, '.');
    if (format) return strcmp(format, "report") != 0;
    for (size_t i = 0; dot && !strchr(operand, ':') && i < sizeof ends / sizeof *ends; i++)
        if (strcmp(dot, ends[i]) == 0) return true;
    return is_no_file(operand);
}

bool lmi_is_run(const char *operand) {
    char path[4096];
    const int n = snprintf(path, sizeof path, "%s/ranks", operand);
    return n > 0 && (size_t)n < sizeof path && lmi_is_folder(operand) && lmi_is_folder(path);
}

/* Says so, and returns true, if it can't be known what a name or a folder is. */
static bool is_unread(lmi_cli *c, const char *operand) {
    char path[4096];
    struct stat st;
    if (stat(operand, &st) == 0) {
        const int n = snprintf(path, sizeof path, "%s/ranks", operand);
        if (n < 0 || (size_t)n >= sizeof path || stat(path, &st) == 0 || errno == ENOENT || errno == ENOTDIR)
            return false;
    }
    lmi_complain(c, NULL, "%s: it can't be read: %s", operand, strerror(errno));
    return true;
}

void lmi_say_no_run(lmi_cli *c, const char *operand) {
    static const char hint[] = "`lamina merge run.*.lamina -o run/` makes one";
    if (is_unread(c, operand)) return;
    if (lmi_is_folder(operand))
        lmi_complain(c, hint, "%s: it is no folder of a run: it has no ranks/", operand);
    else
        lmi_complain(c, hint, "%s: it is a file, and a run is a folder", operand);
}

bool lmi_is_refused(lmi_cli *c, const char *folder) {
    lam_model *m = NULL;
    lam_error e = {.at = -1};
    const lam_status s = lam_read(&m, folder, NULL, &e);
    lam_model_free(m);
    return (s == LAM_UNSUPPORTED || s == LAM_IO) && lmi_complain_of(c, &e, s) != LMI_EXIT_OK;
}

bool lmi_is_no_run(lmi_cli *c, const char *operand) {
    if (!lmi_is_folder(operand) || lmi_is_file(c, operand)) return false;
    if (is_unread(c, operand) || lmi_is_refused(c, operand)) return true;
    lmi_complain(c, "a run's folder has ranks/, a model's a file that `lamina help show` names",
                 "%s: this folder is neither a run's nor a model's", operand);
    return true;
}

const char *lmi_look_option(const lmi_args *a) {
    return a->rank >= 0 ? "rank" : a->node ? "node" : a->layers ? "layers" : NULL;
}

bool lmi_look_of(lmi_cli *c, lam_ranks_look *out) {
    const lmi_args *a = &c->args;
    *out = (lam_ranks_look){a->rank >= 0 ? a->rank : LAM_NOT_KNOWN, a->node, a->layers};
    if ((a->rank >= 0) + (a->node != NULL) + a->layers < 2) return true;
    lmi_complain(c, "give one of them", "--rank, --node and --layers each show something else");
    return false;
}
