/* SPDX-License-Identifier: Apache-2.0
 * saved: a report that was saved as JSON, as a model whose results are given. The file is not trusted: what
 * is in it is checked where it is taken.
 *
 * saved.c: the file. values.c: its values. places.c: the tree. calls.c: the calls, and what is told of the
 * run. rows.c: rows, sums and sentences. measured.c: times, memory, health. For an outline, course.c: memory
 * over time; levels.c: the graph and the formulas. */
#ifndef LMI_REPORT_SAVED_H
#define LMI_REPORT_SAVED_H

#include "base/json.h"
#include "report/outline/work.h"

/* Takes the outline of the report in a file. As for lam_model_load; free it also on failure. */
lam_status lmi_saved_outline(lmi_outline *o, const char *file, const lmi_outline_options *options,
                             lam_error *e);

/* -- inside this room ------------------------------------------------------------------------------------ */

/* The file, which the model frees. Positions are those of values in `j`; 0 is a value that is missing. */
typedef struct lmi_saved {
    lmi_given given;
    char *text; /* of the file; texts of the results are parts of it */
    size_t n;
    lmi_json j;
    uint32_t rows;        /* the position of the list */
    lam_model *m;         /* NULL: it is not built yet */
    int32_t *row_place;   /* of each row */
    int32_t *first_place; /* of each place: the first that has its module */
    lmi_vec owners;       /* int32_t: the module that owns each tensor; ties alone name tensors */
    lmi_filling *w;       /* the outline that is being made; NULL: none */
    lam_error *e;
} lmi_saved;

/* Fails: the file is no report, because of the value at `at`; 0: because of the whole. `what` is the rest of
 * the sentence, "is no text". */
lam_status lmi_saved_wrong(const lmi_saved *s, uint32_t at, const char *what);
static inline uint32_t lmi_saved_get(const lmi_saved *s, uint32_t at, const char *name) {
    return lmi_json_get(&s->j, at, name);
}
/* The value by names with dots between them: "memory.own"; from the whole. */
static inline uint32_t lmi_saved_top(const lmi_saved *s, const char *path) {
    return lmi_json_find(&s->j, LMI_JSON_ROOT, path);
}
/* True if it is neither missing nor null. */
static inline bool lmi_saved_has(const lmi_saved *s, uint32_t at) {
    return lmi_json_is(&s->j, at) > LMI_JSON_NULL;
}
/* Zeroed memory of the results; the model frees it. */
static inline void *lmi_saved_room(lmi_saved *s, uint64_t n, size_t size) {
    return lmi_alloc(&s->given.arena, n, size);
}
/* A whole number of at least 0; -1 if it is missing or null. */
lam_status lmi_saved_int(const lmi_saved *s, uint32_t at, int64_t *out);
/* The same, 0 if it is missing; no more than INT32_MAX. */
lam_status lmi_saved_small(const lmi_saved *s, uint32_t at, int32_t *out);
/* One from `least` to `most`; a missing one is -1. `wrong` is the error. */
lam_status lmi_saved_between(const lmi_saved *s, uint32_t at, int64_t least, int64_t most, const char *wrong,
                             int32_t *out);
/* A number; `otherwise` if it is missing or null. */
lam_status lmi_saved_real(const lmi_saved *s, uint32_t at, double otherwise, double *out);
/* False if it is missing or null. */
lam_status lmi_saved_truth(const lmi_saved *s, uint32_t at, bool *out);
/* A text; NULL if it is missing or null. */
lam_status lmi_saved_text(const lmi_saved *s, uint32_t at, const char **out);
/* The same; "" if it is missing or null. */
lam_status lmi_saved_word(const lmi_saved *s, uint32_t at, const char **out);
/* A number with its state; unknown if it is missing. */
lam_status lmi_saved_count(const lmi_saved *s, uint32_t at, lam_count *out);
/* The phase with this name. */
lam_status lmi_saved_phase(const lmi_saved *s, uint32_t at, uint8_t *out);
/* The category of memory with this name; "other" has what stands under a name that is not known. */
lam_held lmi_saved_held_of(const char *name);
/* The model's place whose path is the text at a position. */
lam_status lmi_saved_place(const lmi_saved *s, uint32_t at, int32_t *out);
/* The sizes of a list; ndim -1: it is none. */
lam_status lmi_saved_shape(const lmi_saved *s, uint32_t at, lmi_arena *a, lam_shape *out);
/* The number of values of a list; 0 for anything else. */
static inline uint32_t lmi_saved_size(const lmi_saved *s, uint32_t list) {
    return lmi_json_is(&s->j, list) == LMI_JSON_LIST ? lmi_json_size(&s->j, list) : 0;
}
/* Walks the rows of calls, by call. It declares `call`, so a block has one. */
#define LMI_SAVED_EACH_CALL(s, row, call)                                                                    \
    int32_t call = -1;                                                                                       \
    LMI_JSON_EACH(&(s)->j, (s)->rows, row)                                                                   \
    if (lmi_json_equals(&(s)->j, lmi_saved_get(s, row, "status"), "called") && ++call >= 0)

lam_status lmi_saved_places(lmi_saved *s, lam_builder *b); /* and row_place */
lam_status lmi_saved_ties(lmi_saved *s);                   /* places.c: into the model that was built */
lam_status lmi_saved_calls(lmi_saved *s, lam_builder *b);
lam_status lmi_saved_run(lmi_saved *s, lam_builder *b);
lam_status lmi_saved_rows(lmi_saved *s);
lam_status lmi_saved_times(lmi_saved *s);
lam_status lmi_saved_memory(lmi_saved *s);
lam_status lmi_saved_health(lmi_saved *s);
/* For an outline: of the model's place, that of the outline which shows it. */
lam_status lmi_saved_shown(const lmi_saved *s, uint32_t at, int32_t *out);
/* Room in it for an element for each value of the list at a position. */
lam_status lmi_saved_list(const lmi_saved *s, uint32_t list, size_t size, int32_t *n, void *out);
lam_status lmi_saved_course(lmi_saved *s);
lam_status lmi_saved_levels(lmi_saved *s);

#endif
