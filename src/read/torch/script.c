/* SPDX-License-Identifier: Apache-2.0
 *
 * The code of a TorchScript archive, as far as it names the parameters and buffers of a module: the file of a
 * class has the lines class Conv2d(Module):
 *       __parameters__ = ["weight", "bias", ]
 *       __buffers__ = []
 * Nothing else of it is read. */
#include "read/torch/checkpoint.h"

#include <stdio.h>
#include <stdlib.h>

enum { LEAST_CODE = 16 << 20, MOST_LIST = 16 << 10 /* which is searched for each tensor */ };

void lmi_script_init(lmi_script *s, const lmi_storages *in, lmi_arena *a) {
    *s = (lmi_script){.in = in, .a = a, .left = LEAST_CODE + 4 * in->of->size};
    lmi_map_init(&s->by_name);
    lmi_vec_init(&s->classes, sizeof(lmi_script_class *));
}

void lmi_script_free(lmi_script *s) {
    lmi_map_free(&s->by_name);
    lmi_vec_free(&s->classes);
}

/* What stands between the brackets of a line `  NAME = [...]`, if it is that line. */
static lam_status take_list(lmi_script *s, const char *line, size_t n, const char *name, const char **to,
                            lam_error *e) {
    const size_t wide = strlen(name);
    const char *from = line + strspn(line, " ");
    if (*to || strncmp(from, name, wide) != 0 || strncmp(from + wide, " = [", 4) != 0) return LAM_OK;
    from += wide + 4;
    const size_t left = n - (size_t)(from - line);
    if (!left || left > MOST_LIST || line[n - 1] != ']') return LAM_OK;
    *to = lmi_strndup(s->a, from, left - 1);
    return *to ? LAM_OK : lmi_nomem(e);
}

/* Keeps a value under a name, which is copied. */
static lam_status keep(lmi_script *s, const char *name, int64_t value, lam_error *e) {
    const char *own = lmi_strdup(s->a, name);
    return own ? lmi_map_put(&s->by_name, own, value, e) : lmi_nomem(e);
}

static lam_status add_class(lmi_script *s, const char *module, const char *line, lam_error *e) {
    lmi_script_class *fresh = lmi_alloc(s->a, 1, sizeof *fresh);
    char name[600];
    if (!fresh) return lmi_nomem(e);
    snprintf(name, sizeof name, "%.400s.%.*s", module, (int)strcspn(line, "(:\n"), line);
    LAM_TRY(lmi_vec_put(&s->classes, &fresh, e));
    return keep(s, name, (int64_t)s->classes.n - 1, e);
}

/* A class begins at the margin; what is behind it up to the next one is its own. */
static lam_status read_code(lmi_script *s, const char *module, const char *text, lam_error *e) {
    static const char begin[] = "class ";
    bool inside = false;
    for (const char *line = text; *line; line += *line == '\n') {
        const size_t n = strcspn(line, "\n");
        if (strncmp(line, begin, sizeof begin - 1) == 0) {
            LAM_TRY(add_class(s, module, line + sizeof begin - 1, e));
            inside = true;
        } else if (inside && *line == ' ') {
            lmi_script_class *c = *(lmi_script_class **)lmi_vec_at(&s->classes, s->classes.n - 1);
            LAM_TRY(take_list(s, line, n, "__parameters__", &c->parameters, e));
            LAM_TRY(take_list(s, line, n, "__buffers__", &c->buffers, e));
        } else if (*line != '\n') {
            inside = false;
        }
        line += n;
    }
    return LAM_OK;
}

/* Reads the file of a module once. What can't be decompressed here, or is too much, tells nothing. */
static lam_status read_file(lmi_script *s, const char *module, lam_error *e) {
    char path[1024], *text = NULL;
    size_t n = 0;
    lam_error why = {.at = -1};
    const int used =
        snprintf(path, sizeof path, "%.*s/code/%.400s.py", (int)s->in->folder, s->in->folder_name, module);
    if (used < 0 || (size_t)used >= sizeof path) return LAM_OK;
    for (char *c = path + s->in->folder + 6; c < path + used - 3; c++)
        if (*c == '.') *c = '/';
    const lmi_zip_entry *entry = lmi_zip_find(s->in->zip, path);
    if (!entry || entry->size > s->left) return LAM_OK;
    s->left -= entry->size;
    const lam_status read = lmi_zip_all(s->in->zip, entry, entry->size, &text, &n, &why);
    if (read == LAM_UNSUPPORTED) return LAM_OK;
    if (read != LAM_OK) return lmi_fail(e, read, why.where, "%s", why.text);
    text[n] = '\0';
    const lam_status status = read_code(s, module, text, e);
    free(text);
    return status;
}

lam_status lmi_script_class_of(lmi_script *s, const lmi_pickled_global *g, const lmi_script_class **out,
                               lam_error *e) {
    char name[600], file[404];
    *out = NULL;
    if (!s->in->zip || strncmp(g->module, "__torch__", 9) != 0) return LAM_OK;
    snprintf(name, sizeof name, "%.400s.%.190s", g->module, g->name);
    snprintf(file, sizeof file, "%.400s/", g->module); /* no class has such a name */
    if (lmi_map_get(&s->by_name, file) < 0) {
        LAM_TRY(keep(s, file, 0, e));
        LAM_TRY(read_file(s, g->module, e));
    }
    const int64_t at = lmi_map_get(&s->by_name, name);
    const lmi_script_class *c = at < 0 ? NULL : *(lmi_script_class **)lmi_vec_at(&s->classes, (size_t)at);
    *out = c && c->parameters ? c : NULL;
    return LAM_OK;
}

bool lmi_script_lists(const char *list, const char *name) {
    const size_t n = strlen(name);
    for (const char *at = list; at && (at = strchr(at, '"')) != NULL; at += strcspn(at, "\"") + 1) {
        at++;
        if (strncmp(at, name, n) == 0 && at[n] == '"') return true;
        if (!at[strcspn(at, "\"")]) return false;
    }
    return false;
}
