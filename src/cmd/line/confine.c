/* SPDX-License-Identifier: Apache-2.0
 *
 * The confinement: a process that reads files of models from strangers gives up all else first. What it has
 * to write to then is held by other processes, which are started before. */
#include "base/inflate.h"
#include "base/system.h"
#include "cmd/line/line.h"

#include <stdio.h>
#include <stdlib.h>

/* -- files that are replaced ------------------------------------------------------------------- */

enum { LONGEST_PATH = 4096 };

/* Writes a new file beside it first, so that the old one is whole until it is replaced. A device or a pipe is
 * no file to replace: it is written to. */
static int replace(lmi_cli *c, const char *path, const lmi_buf *text) {
    char beside[LONGEST_PATH];
    struct stat st;
    const bool replaced = stat(path, &st) != 0 || S_ISREG(st.st_mode);
    int n = snprintf(beside, sizeof beside, "%s%s", path, replaced ? ".new" : "");
    errno = ENAMETOOLONG; /* the reason if fopen is not called */
    FILE *f = n > 0 && (size_t)n < sizeof beside ? fopen(beside, "wb") : NULL;
    bool ok = f && fwrite(lmi_buf_text(text), 1, text->n, f) == text->n;
    int why = errno;
    if (f && fclose(f) != 0 && ok) {
        ok = false;
        why = errno;
    }
    if (ok && replaced && lmi_rename(beside, path) != 0) {
        ok = false;
        why = errno;
    }
    if (ok) return LMI_EXIT_OK;
    if (f && replaced) remove(beside);
    lmi_complain(c, NULL, "%s: it could not be written: %s", path, strerror(why));
    return LMI_EXIT_FAILED;
}

int lmi_replace_file(lmi_cli *c, lmi_hand_of which, const char *path, const lmi_buf *text) {
    if (!c->hands[which].pid) return replace(c, path, text);
    return lmi_hand_text(c, which, text);
}

/* -- other processes --------------------------------------------------------------------------- */

/* Reads all of a text; false: none came, or memory ran out. */
static bool receive(int from, lmi_buf *to) {
    char piece[1 << 14];
    ssize_t n;
    lmi_buf_init(to);
    while ((n = read(from, piece, sizeof piece)) > 0 || (n < 0 && errno == EINTR))
        if (n > 0) lmi_putn(to, piece, (size_t)n);
    return to->n > 0 && !to->bad;
}

static int hand_output(void *of, int from) {
    char piece[1 << 14];
    ssize_t n;
    while ((n = read(from, piece, sizeof piece)) > 0 || (n < 0 && errno == EINTR))
        if (n > 0 && !lmi_output_put(of, piece, (size_t)n)) return errno ? errno : EIO;
    return lmi_output_close(of) ? 0 : errno ? errno : EIO;
}

static int hand_pager(void *of, int from) {
    lmi_buf text;
    (void)of;
    return receive(from, &text) && !lmi_page(&text);
}

static int hand_summary(void *of, int from) {
    lmi_buf text;
    return receive(from, &text) ? lmi_github_summary(of, &text) : LMI_EXIT_OK;
}

static const char *saved_to(const lmi_args *a) { return a->save ? a->save : a->renew ? a->baseline : NULL; }

static int hand_save(void *of, int from) {
    lmi_cli *c = of;
    lmi_buf text;
    return receive(from, &text) ? replace(c, saved_to(&c->args), &text) : LMI_EXIT_OK;
}

static int hand_junit(void *of, int from) {
    lmi_cli *c = of;
    lmi_buf text;
    return receive(from, &text) ? replace(c, c->args.junit, &text) : LMI_EXIT_OK;
}

/* Starts those that this command line may need. */
static bool start_hands(lmi_cli *c) {
    const struct {
        bool wanted;
        int (*work)(void *of, int from);
    } hands[LMI_HANDS] = {[LMI_TO_OUTPUT] = {lmi_is_to_file(c), hand_output},
                          [LMI_TO_PAGER] = {c->holds, hand_pager},
                          [LMI_TO_SUMMARY] = {c->args.github, hand_summary},
                          [LMI_TO_SAVED] = {saved_to(&c->args) != NULL, hand_save},
                          [LMI_TO_JUNIT] = {c->args.junit != NULL, hand_junit}};
    for (int i = 0; i < LMI_HANDS; i++)
        if (hands[i].wanted && !lmi_hand_start(c->hands, LMI_HANDS, i, hands[i].work, c)) return false;
    return true;
}

/* -- the confinement --------------------------------------------------------------------------- */

/* The operands that name models. */
typedef struct span {
    int32_t first, end;
} span;

static span targets(const lmi_cli *c) {
    const lmi_verb *v = c->verb;
    const bool scan = strcmp(v->name, "scan") == 0, diff = strcmp(v->name, "diff") == 0;
    const bool table = c->args.n_operands && strcmp(c->args.operands[0], "table") == 0;
    if (!(scan || diff || strstr(v->operands, "TARGET")) || table) return (span){0, 0};
    return (span){strncmp(v->operands, "KIND ", 5) == 0,
                  strcmp(v->operands, "TARGET LAYER") == 0 ? 1 : c->args.n_operands};
}

/* True for a file or folder that no Python is needed for, but not for a recording: SQLite wants to write
 * beside it. That takes a comparison of its first bytes before the process is confined. */
static bool is_readable(const lmi_cli *c, const char *path, struct stat *st) {
    const size_t n = strlen(path);
    const bool code = n > 3 && strcmp(path + n - 3, ".py") == 0 && strcmp(c->verb->name, "scan") != 0;
    return !code && stat(path, st) == 0 && (S_ISREG(st->st_mode) || S_ISDIR(st->st_mode)) &&
           !lam_recording_is(path) && !lmi_is_run(path);
}

/* A part of a model in several files, by its name: "x-00001-of-00003.gguf". */
static bool is_part(const char *path) {
    const char *end = strrchr(path, '/');
    return strstr(end ? end : path, "-of-") != NULL;
}

/* Text may be an index, which names files in its folder. */
static bool is_text(const char *path) {
    char head[512] = "";
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    const ssize_t n = fd >= 0 ? read(fd, head, sizeof head - 1) : 0;
    if (fd >= 0) close(fd);
    const size_t blank = n > 0 ? strspn(head, "\xef\xbb\xbf \t\r\n") : 0;
    return n > 0 && head[blank] == '{';
}

static void allow_beside(const lmi_confinement *to, const char *folder, size_t n, const char *name) {
    char path[LONGEST_PATH];
    const int wrote = snprintf(path, sizeof path, "%.*s%s", (int)n, folder, name);
    if (wrote > 0 && (size_t)wrote < sizeof path) lmi_confine_allow(to, path, LMI_MAY_READ);
}

/* All files of a folder, with the names that one may ask for; `folder` ends in a slash, or is "". */
static void allow_all(const lmi_confinement *to, const char *folder) {
    enum { MOST = 10000 }; /* as many as are looked at for a model */
    DIR *dir = opendir(*folder ? folder : ".");
    int n = 0;
    for (struct dirent *at; dir && n < MOST && (at = readdir(dir)) != NULL; n++)
        if (at->d_name[0] != '.') allow_beside(to, folder, strlen(folder), at->d_name);
    if (dir) closedir(dir);
}

static void allow(const lmi_confinement *to, const char *path, bool is_folder) {
    char folder[LONGEST_PATH];
    const char *end = strrchr(path, '/');
    const size_t n = is_folder ? strlen(path) : end ? (size_t)(end + 1 - path) : 0;
    if (n + 2 > sizeof folder) return;
    const bool open_end = is_folder && path[n - 1] != '/';
    snprintf(folder, sizeof folder, "%.*s%s", (int)n, path, open_end ? "/" : "");
    lmi_confine_allow(to, path, is_folder ? LMI_MAY_LIST : LMI_MAY_READ);
    if (is_folder || is_part(path) || is_text(path))
        allow_all(to, folder);
    else {
        allow_beside(to, folder, n, "config.json");
        allow_beside(to, folder, n, "modules.json");
    }
}

bool lmi_confine(lmi_cli *c) {
    const span at = targets(c);
    const lmi_args *a = &c->args;
    const char *const also[] = {a->rules, a->baseline, a->save, a->junit};
    struct stat st;
    if (!c->host->may_confine || at.first >= at.end || !lmi_can_confine()) return true;
    for (int32_t i = at.first; i < at.end; i++)
        if (!is_readable(c, a->operands[i], &st)) return true;
    if (!start_hands(c)) {
        lmi_complain(c, NULL, "no other process could be started: %s", strerror(errno));
        return false;
    }
    (void)lmi_find_zlib(NULL); /* a library can't be loaded later */
    lmi_confinement to = lmi_confine_begin();
    for (int32_t i = at.first; i < at.end; i++)
        if (stat(a->operands[i], &st) == 0) allow(&to, a->operands[i], S_ISDIR(st.st_mode));
    for (size_t i = 0; i < sizeof also / sizeof *also; i++)
        if (also[i]) lmi_confine_allow(&to, also[i], LMI_MAY_READ);
    c->confined = lmi_confine_end(&to) != 0;
    return true;
}
