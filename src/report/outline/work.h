/* SPDX-License-Identifier: Apache-2.0
 * work: an outline in the making. Its places are those that a report shows, with rows at or below them, in
 * depth-first order.
 *
 * outline.c: the whole, and health. fill.c: helpers. tree.c: places and their numbers. appearance.c: shapes,
 * family. runs.c: equal siblings. prune.c: fewer of very many places. memory_by_place.c: memory. course.c:
 * memory over time. formulas.c, notes.c: formulas; sentences. levels.c: insides of containers.
 * nodes.c: the looks of their nodes. union.c: levels of a difference. */
#ifndef LMI_OUTLINE_WORK_H
#define LMI_OUTLINE_WORK_H

#include "analyse/tree/tree.h"
#include "report/outline/outline.h"

enum {
    LMI_OUTLINE_PLACES = 20000, /* above this some are combined */
    LMI_OUTLINE_TENSORS = 3,    /* of a call that are named; the others are counted */
    LMI_OUTLINE_POINTS = 600,   /* points of the course */
    LMI_OUTLINE_SPANS = 4000    /* spans below the course */
};

typedef struct lmi_filling {
    lmi_outline *o;
    const lam_costs *c;
    const lam_model *m; /* NULL: the report was saved */
    lam_error *e;
    lmi_arena scratch; /* temporary memory */
    lmi_tree tree;
    lmi_map texts; /* equal texts have one address: lmi_take_text */
    lmi_buf text;
    int32_t n;
    int32_t n_places;  /* of the model; for a saved report `n` before some are combined */
    int32_t *of_place; /* for each place of the model that of the outline; -2 - i: it is shown as part of i */
    int32_t *place;    /* the model's place of each place */
    lmi_outline_place *at;
    int64_t *own[LMI_N_OWN];
    uint8_t *state[LMI_N_OWN];
    int64_t (*held)[LAM_N_HELD]; /* NULL: not measured */
    lam_event const **call;      /* the first at each place; NULL: none */
    const lmi_job *table;        /* NULL: no table reads it */
} lmi_filling;

/* Returns the one address of equal texts; NULL: memory ran out. */
const char *lmi_take_text(lmi_filling *w, const char *text);
/* "8×64×56×56 float32, 8 int64, 1 int64 +2": of so many tensors, of which the first LMI_OUTLINE_TENSORS are
 * read. NULL: memory ran out. */
const char *lmi_take_tensors(lmi_filling *w, const lam_arg *args, int32_t n);
/* Adds to a place's number. A sum that does not fit is the greatest number, and "at least". */
void lmi_add_own(lmi_filling *w, lmi_own_number k, int32_t place, lam_count c);
/* True for numbers that each place has separately, and that parents do not sum up. */
static inline bool lmi_is_shown_alone(int k) { return k == LMI_OWN_TOTAL_TIME || k == LMI_OWN_PEAK; }
/* The place of the outline that shows a place of the model, or represents it. */
static inline int32_t lmi_place_for(const int32_t *of_place, int32_t place) {
    return of_place[place] >= 0 ? of_place[place] : -2 - of_place[place];
}
/* A hash with a number, or a text, added; it shows nothing but whether two are equal. */
static inline uint64_t lmi_mix(uint64_t hash, uint64_t v) { return lmi_hash_u64(hash ^ v); }
static inline uint64_t lmi_mix_text(uint64_t hash, const char *s) {
    return lmi_mix(hash, *s ? lmi_hash_text(s) : 0); /* that of no bytes is 0 */
}
/* Adds a sentence on what was left out. */
lam_status lmi_leave_out(lmi_outline *o, lam_error *e, const char *sentence);
/* The same for a device whose memory, or times, were measured. */
lam_status lmi_leave_out_device(lmi_outline *o, bool memory, bool times, lam_error *e);
/* Keeps spans, lmi_active in any order: the longest, by when they began. */
lam_status lmi_keep_spans(lmi_outline *o, lmi_vec *spans, lam_error *e);

lam_status lmi_take_places(lmi_filling *w);
lam_status lmi_take_numbers(lmi_filling *w);
/* Sets the total times of containers that were not called from those of their children. */
void lmi_sum_total_times(lmi_filling *w);
lam_status lmi_take_looks(lmi_filling *w);
/* The family if nothing but the name of the class is known; `holds`: it has children. */
lmi_layer_family lmi_family_of_name(const char *type, bool holds);
/* Fills the outline's totals from its own numbers. */
lam_status lmi_outline_sum(lmi_outline *o, lam_error *e);
lam_status lmi_take_held(lmi_filling *w);
/* Marks the runs of equal siblings; of a difference after it was made. */
lam_status lmi_find_runs(lmi_filling *w);
lam_status lmi_find_runs_of_both(lmi_outline *o, lam_error *e);
/* Moves the places into the outline: all, or the important ones if there are too many. */
lam_status lmi_keep_places(lmi_filling *w);
lam_status lmi_take_notes(lmi_filling *w);
/* Levels (levels.c); formulas (formulas.c); the course and the lanes (course.c). */
lam_status lmi_take_levels(lmi_filling *w);
lam_status lmi_take_formulas(lmi_filling *w);
lam_status lmi_take_course(lmi_filling *w);
/* Sets where each of n places ends, from those of its children, which are at its index + 1 at least. */
void lmi_find_ends(lmi_outline_place *at, int32_t n);
/* Room for the nodes and lines of a level, which the caller fills. */
lam_status lmi_level_new(lmi_level *l, lmi_arena *a, int32_t n, int32_t n_lines, lam_error *e);
/* Makes the texts and sizes of its nodes. */
lam_status lmi_level_name(lmi_level *l, lmi_arena *a, lmi_buf *text, lam_error *e);

#endif
