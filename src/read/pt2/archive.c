/* SPDX-License-Identifier: Apache-2.0
 *
 * The archive: which entry is the program, its JSON, and errors that name a place in it. */
#include "read/pt2/pt2.h"

enum { DEEPEST_JSON = 512, LEAST_PROGRAM = 8 << 20 };

/* -- the program ----------------------------------------------------------------------------------------- */

/* The length of the folder of the archive in the name of an entry that is a program; -1: it is none.
 * Programs are in "models/", at the root or in a folder, and before PyTorch 2.8 at the root alone. */
static int64_t folder_of(const char *name, bool *main) {
    static const char models[] = "models/", old[] = "serialized_exported_program.json";
    *main = true;
    if (lmi_ends_in(name, old) && !strchr(name, '/')) return 0;
    const char *slash = strchr(name, '/');
    const char *at = strncmp(name, models, sizeof models - 1) == 0 ? name : slash ? slash + 1 : "";
    if (strncmp(at, models, sizeof models - 1) != 0 || !lmi_ends_in(at, ".json")) return -1;
    const char *file = at + sizeof models - 1;
    *main = strcmp(file, "model.json") == 0;
    return strchr(file, '/') ? -1 : at - name;
}

/* The entry of the program: "model.json", or the first one. */
static const lmi_zip_entry *find_program(const lmi_zip *z, size_t *root, int32_t *n) {
    const lmi_zip_entry *found = NULL;
    bool main, known = false;
    *n = 0;
    for (int32_t i = 0; i < z->n; i++) {
        const int64_t folder = folder_of(z->entry[i].name, &main);
        if (folder < 0) continue;
        ++*n;
        if (found && (known || !main)) continue;
        found = &z->entry[i];
        known = main;
        *root = (size_t)folder;
    }
    return found;
}

bool lmi_is_pt2(const lmi_zip *z) {
    size_t root;
    int32_t n;
    return find_program(z, &root, &n);
}

lam_status lmi_pt2_entry(lmi_pt2 *p, const char *name, const lmi_zip_entry **out) {
    lmi_buf_clear(&p->path);
    lmi_putn(&p->path, p->root_name, p->root);
    lmi_put(&p->path, name);
    LAM_TRY(lmi_buf_status(&p->path, p->e));
    *out = lmi_zip_find(&p->zip, p->path.s);
    return LAM_OK;
}

/* -- JSON ------------------------------------------------------------------------------------------------ */

lam_status lmi_pt2_bad(lmi_pt2 *p, uint32_t at, const char *what) {
    lmi_buf_clear(&p->path);
    lmi_json_put_path(&p->j, at, &p->path);
    const char *where = lmi_buf_text(&p->path);
    return lmi_fail_at(p->e, LAM_SYNTAX, (int64_t)p->j.v[at].at, p->of->name,
                       "it is damaged: %s, at %s%sbyte %lld of its entry '%s'", what, where,
                       *where ? ", " : "", (long long)p->j.v[at].at, p->program_name);
}

lam_status lmi_pt2_json(lmi_pt2 *p, lmi_json *j, char *text, size_t n, const lmi_json_limits *limits) {
    lam_error mine = {.at = -1};
    const lam_status s = lmi_json_read(j, text, n, limits, p->program_name, &mine);
    if (s == LAM_NOMEM) return lmi_nomem(p->e);
    return s == LAM_OK ? LAM_OK
                       : lmi_fail_at(p->e, s, mine.at, p->of->name, "its entry '%s' is damaged: %s",
                                     p->program_name, mine.text);
}

static lam_status tell_bad(lmi_pt2 *p, uint32_t at, lam_status s, const lam_error *mine) {
    if (s == LAM_NOMEM) return lmi_nomem(p->e);
    return s == LAM_OK ? LAM_OK : lmi_pt2_bad(p, at, mine->text);
}

lam_status lmi_pt2_index(lmi_pt2 *p, uint32_t at, lmi_map *out) {
    lam_error mine = {.at = -1};
    return tell_bad(p, at, lmi_json_index(&p->j, at, out, p->program_name, &mine), &mine);
}

static lam_status check_names(lmi_pt2 *p, uint32_t at) {
    lam_error mine = {.at = -1};
    return tell_bad(p, at, lmi_json_unique(&p->j, at, p->program_name, &mine), &mine);
}

uint32_t lmi_pt2_union(const lmi_pt2 *p, uint32_t at, const char **name) {
    LMI_JSON_NAMES(&p->j, at, i) {
        if (lmi_json_is(&p->j, i + 1) == LMI_JSON_NULL) continue;
        *name = lmi_json_as_text(&p->j, i);
        return i + 1;
    }
    *name = "";
    return 0;
}

static lam_status parse(lmi_pt2 *p, const lmi_zip_entry *program) {
    const lmi_json_limits limits = {DEEPEST_JSON, UINT32_MAX, true};
    size_t n;
    LAM_TRY(lmi_zip_all(&p->zip, program, LEAST_PROGRAM + 2 * p->of->size, &p->text, &n, p->e));
    p->n_text = n;
    LAM_TRY(lmi_pt2_json(p, &p->j, p->text, n, &limits));
    const lmi_json *j = &p->j;
    LAM_TRY(check_names(p, LMI_JSON_ROOT));
    p->module = lmi_json_get(j, LMI_JSON_ROOT, "graph_module");
    p->graph = lmi_json_get(j, p->module, "graph");
    p->signature = lmi_json_get(j, p->module, "signature");
    const uint32_t version = lmi_json_get(j, LMI_JSON_ROOT, "schema_version");
    if (!lmi_json_as_int(j, version, &p->schema))
        lmi_json_as_int(j, lmi_json_get(j, version, "major"), &p->schema);
    if (lmi_json_is(j, p->graph) != LMI_JSON_OBJECT) return lmi_pt2_bad(p, LMI_JSON_ROOT, "it has no graph");
    LAM_TRY(check_names(p, p->module));
    LAM_TRY(check_names(p, p->graph));
    return LAM_OK;
}

lam_status lmi_pt2_program(lmi_pt2 *p) {
    int32_t n;
    if (!p->zip.entry) LAM_TRY(lmi_zip_open(&p->zip, p->of, p->e));
    const lmi_zip_entry *program = find_program(&p->zip, &p->root, &n);
    if (!program) return lmi_fail(p->e, LAM_UNSUPPORTED, p->of->name, "it has no program of torch.export");
    p->program_name = p->root_name = lmi_strdup(&p->arena, program->name);
    if (!p->root_name) return lmi_nomem(p->e);
    return parse(p, program);
}
