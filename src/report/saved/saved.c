/* SPDX-License-Identifier: Apache-2.0
 *
 * Opens the file, makes a model of it, and gives an outline what is in no model. */
#include "report/saved/saved.h"
#include "base/system.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { LARGEST = 1 << 29, DEEPEST = 200 }; /* of a file, in bytes; of its lists and objects in each other */

/* -- the file -------------------------------------------------------------------------------------------- */

static lam_status unreadable(const lmi_saved *s) {
    return lmi_fail(s->e, LAM_IO, s->given.file, "it can't be read: %s%s", strerror(errno),
                    errno == ENOENT ? "; `lamina show TARGET --json -o FILE` writes a report" : "");
}

static lam_status too_large(const lmi_saved *s) {
    return lmi_fail(s->e, LAM_LIMIT, s->given.file, "it has more than %d MB; no report is as large as that",
                    LARGEST >> 20);
}

/* Reads it into memory that has room for one byte more. */
static lam_status read_all(lmi_saved *s, FILE *f) {
    size_t room = 1 << 16;
    s->text = malloc(room);
    if (!s->text) return lmi_nomem(s->e);
    for (;;) {
        s->n += fread(s->text + s->n, 1, room - s->n, f);
        if (ferror(f)) return unreadable(s);
        if (s->n < room) return LAM_OK;
        if (room >= LARGEST) return too_large(s);
        char *more = realloc(s->text, 2 * room);
        if (!more) return lmi_nomem(s->e);
        s->text = more;
        room *= 2;
    }
}

static lam_status open_file(lmi_saved *s) {
    struct stat st;
    if (stat(s->given.file, &st) != 0) return unreadable(s);
    if (!S_ISREG(st.st_mode)) return lmi_fail(s->e, LAM_IO, s->given.file, "it is not a file");
    if (st.st_size > LARGEST) return too_large(s);
    FILE *f = fopen(s->given.file, "rb");
    if (!f) return unreadable(s);
    lam_status status = read_all(s, f);
    fclose(f);
    return status;
}

static lam_status read_json(lmi_saved *s) {
    static const lmi_json_limits limits = {.depth = DEEPEST, .size = LARGEST};
    lam_error why = {0};
    lam_status status = lmi_json_read(&s->j, s->text, s->n, &limits, s->given.file, &why);
    if (status == LAM_OK) return LAM_OK;
    return status == LAM_NOMEM ? lmi_nomem(s->e) : lmi_saved_wrong(s, 0, why.text);
}

/* What is there must be of its kind; an older lamina did not write all of it. */
static lam_status check_kinds(const lmi_saved *s) {
    static const struct {
        const char *name;
        lmi_json_kind kind;
    } parts[] = {{"model", LMI_JSON_OBJECT},      {"totals", LMI_JSON_OBJECT}, {"operators", LMI_JSON_OBJECT},
                 {"provenance", LMI_JSON_OBJECT}, {"gaps", LMI_JSON_LIST},     {"notes", LMI_JSON_LIST},
                 {"unruled", LMI_JSON_LIST},      {"unused", LMI_JSON_LIST},   {"no_gradient", LMI_JSON_LIST},
                 {"made_up", LMI_JSON_LIST},      {"tree", LMI_JSON_LIST},     {"at_work", LMI_JSON_LIST}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        const uint32_t at = lmi_saved_top(s, parts[i].name);
        if (lmi_saved_has(s, at) && lmi_json_is(&s->j, at) != parts[i].kind)
            return lmi_saved_wrong(s, at, parts[i].kind == LMI_JSON_LIST ? "is no list" : "is no object");
    }
    return LAM_OK;
}

/* True for the files of JSON that are beside the weights of models. */
static bool is_configuration(const lmi_saved *s) {
    static const char *const names[] = {"model_type", "architectures", "added_tokens", "tokenizer_class",
                                        "_class_name"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (lmi_saved_has(s, lmi_saved_top(s, names[i]))) return true;
    return false;
}

static lam_status check(lmi_saved *s) {
    if (!lmi_saved_has(s, lmi_saved_top(s, "schema")) && is_configuration(s))
        return lmi_fail(
            s->e, LAM_FAILED, s->given.file,
            "it is the configuration of a model, a pipeline or a tokenizer, which has no layers; give "
            "the file of the weights, or the folder that both are in");
    if (!lmi_json_equals(&s->j, lmi_saved_top(s, "schema"), "lamina.report/1"))
        return lmi_saved_wrong(s, 0, "its \"schema\" is not \"lamina.report/1\"");
    s->rows = lmi_saved_top(s, "rows");
    if (lmi_json_is(&s->j, s->rows) != LMI_JSON_LIST)
        return lmi_saved_wrong(s, 0, "it has no list of \"rows\"");
    return check_kinds(s);
}

/* -- the model ------------------------------------------------------------------------------------------- */

static void free_saved(lmi_given *given) {
    lmi_saved *s = (lmi_saved *)given;
    lmi_json_free(&s->j);
    lmi_vec_free(&s->owners);
    free(s->text);
    lmi_arena_free(&given->arena);
    free(s);
}

static lam_status build(lmi_saved *s) {
    lam_builder *b;
    LAM_TRY(lam_builder_new(&b, 0, s->e));
    lam_status status = lmi_saved_places(s, b);
    if (status == LAM_OK) status = lmi_saved_calls(s, b);
    if (status == LAM_OK) status = lmi_saved_run(s, b);
    if (status == LAM_OK) return lam_builder_finish(b, &s->m, s->e);
    lam_builder_free(b);
    return status;
}

static lam_status take_limit(const lmi_saved *s, uint32_t at, double *out) {
    if (lmi_json_as_real(&s->j, at, out) && isfinite(*out) && *out > 0) return LAM_OK;
    return lmi_saved_wrong(s, at, "is no number above 0");
}

static lam_status take_roof(lmi_saved *s) {
    const uint32_t at = lmi_saved_top(s, "roof");
    const uint32_t flops = lmi_saved_get(s, at, "flops"), bytes = lmi_saved_get(s, at, "bytes");
    lam_peak roof;
    if (!flops && !bytes) return LAM_OK;
    LAM_TRY(take_limit(s, flops ? flops : at, &roof.flops));
    LAM_TRY(take_limit(s, bytes ? bytes : at, &roof.bytes));
    s->given.roof = roof;
    return LAM_OK;
}

static lam_status fill(lmi_saved *s) {
    LAM_TRY(open_file(s));
    LAM_TRY(read_json(s));
    LAM_TRY(check(s));
    LAM_TRY(build(s));
    LAM_TRY(lmi_saved_ties(s));
    LAM_TRY(lmi_saved_rows(s));
    LAM_TRY(lmi_saved_times(s));
    LAM_TRY(take_roof(s));
    LAM_TRY(lmi_saved_memory(s));
    return lmi_saved_health(s);
}

static lam_status take_looks(const lmi_given *given, lmi_filling *w);
static lam_status take_rest(const lmi_given *given, lmi_filling *w, const lmi_outline_options *options);

lam_status lam_model_load(lam_model **out, const char *file, lam_error *e) {
    *out = NULL;
    lmi_saved *s = calloc(1, sizeof *s);
    if (!s) return lmi_nomem(e);
    lmi_arena_init(&s->given.arena, UINT64_MAX);
    lmi_vec_init(&s->owners, sizeof(int32_t));
    s->e = e;
    s->given.looks = take_looks;
    s->given.rest = take_rest;
    s->given.file = lmi_strdup(&s->given.arena, file);
    lam_status status = s->given.file ? fill(s) : lmi_nomem(e);
    s->e = NULL;
    if (status != LAM_OK) {
        lam_model_free(s->m);
        free_saved(&s->given);
        return status;
    }
    s->m->given = &s->given;
    s->m->free_given = free_saved;
    *out = s->m;
    return LAM_OK;
}

const char *lam_model_file(const lam_model *m) { return m->given ? m->given->file : NULL; }

/* -- an outline ------------------------------------------------------------------------------------------ */

/* The families of layers, which operators may have decided. An older lamina wrote no tree. */
static lam_status take_looks(const lmi_given *given, lmi_filling *w) {
    lmi_saved s = *(const lmi_saved *)given;
    s.w = w;
    s.e = w->e;
    LMI_JSON_EACH(&s.j, lmi_saved_top(&s, "tree"), i) {
        const uint32_t family = lmi_saved_get(&s, i, "family");
        int32_t place;
        LAM_TRY(lmi_saved_place(&s, lmi_saved_get(&s, i, "path"), &place));
        for (int k = 0; k < LMI_N_FAMILIES; k++)
            if (lmi_json_equals(&s.j, family, lmi_family_name[k]))
                w->at[w->of_place[place]].family = (uint8_t)k;
    }
    return LAM_OK;
}

static lam_status take_number(const lmi_saved *s, const char *path, int64_t *out) {
    LAM_TRY(lmi_saved_int(s, lmi_saved_top(s, path), out));
    if (*out < 0) *out = 0;
    return LAM_OK;
}

static lam_status take_head(lmi_saved *s) {
    lmi_outline *o = s->w->o;
    LAM_TRY(lmi_saved_word(s, lmi_saved_top(s, "version"), &o->version));
    LAM_TRY(lmi_saved_text(s, lmi_saved_top(s, "provenance.mode"), &o->mode));
    LAM_TRY(lmi_saved_small(s, lmi_saved_top(s, "model.modules"), &o->modules));
    LAM_TRY(lmi_saved_small(s, lmi_saved_top(s, "model.calls"), &o->calls));
    LAM_TRY(take_number(s, "operators.ran", &o->ops_ran));
    LAM_TRY(take_number(s, "operators.counted", &o->ops_counted));
    return take_number(s, "operators.known", &o->ops_ruled);
}

static lam_status take_rest(const lmi_given *given, lmi_filling *w, const lmi_outline_options *options) {
    lmi_saved s = *(const lmi_saved *)given;
    s.w = w;
    s.e = w->e;
    LAM_TRY(take_head(&s));
    w->o->roof = s.given.roof;
    if (options->course) LAM_TRY(lmi_saved_course(&s));
    return options->levels ? lmi_saved_levels(&s) : LAM_OK;
}

lam_status lmi_saved_outline(lmi_outline *o, const char *file, const lmi_outline_options *options,
                             lam_error *e) {
    lam_model *m;
    lam_costs *c = NULL;
    *o = (lmi_outline){.peak_place = -1, .backward_us = -1};
    lmi_arena_init(&o->arena, UINT64_MAX);
    LAM_TRY(lam_model_load(&m, file, e));
    lam_status s = lam_costs_new(&c, m, NULL, e);
    if (s == LAM_OK) s = lmi_outline_new(o, c, options, e);
    o->costs = c;
    o->model = m;
    return s;
}
