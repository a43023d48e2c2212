/* SPDX-License-Identifier: Apache-2.0
 * outline: the data of pages and pictures, taken once from a model's costs: the tree of places with the own
 * numbers of each, the memory in use over time, the levels of the graph, the formulas. Pictures and pages
 * read nothing else, so an outline need not come from a model. */
#ifndef LMI_REPORT_OUTLINE_H
#define LMI_REPORT_OUTLINE_H

#include "draw/layout.h"
#include "report/numbers/numbers.h"
#include "report/table/report.h"

/* The kind of a layer, for colours. */
typedef enum lmi_layer_family {
    LMI_CONVOLUTION,
    LMI_LINEAR,
    LMI_ATTENTION,
    LMI_NORMALISATION,
    LMI_ACTIVATION,
    LMI_EMBEDDING,
    LMI_OTHER_FAMILY,
    LMI_CONTAINER,
    LMI_N_FAMILIES
} lmi_layer_family;
extern const char *const lmi_family_class[LMI_N_FAMILIES]; /* of CSS: "conv", "lin", "att", ... */
extern const char *const lmi_family_name[LMI_N_FAMILIES];  /* "convolution", "attention", ... */
extern const char *const lmi_family_title[LMI_N_FAMILIES]; /* "convolution", "attention, recurrent", ... */

/* Places are in depth-first order: a parent comes before its children, and the places at and below place i
 * are i to end - 1. */
typedef struct lmi_outline_place {
    int32_t parent, end, depth, n_children; /* the root's parent is -1 */
    const char *name, *type;                /* name: last component of the path */
    const char *in, *out;                   /* tensors as text: "8×64×56×56 float32, ... +2"; "" */
    int32_t n_attrs;                        /* 0: none, or unknown */
    const lam_attr *attrs;                  /* by lmi_module_attr */
    uint8_t state, family;                  /* lmi_place_state, lmi_layer_family */
    uint8_t health[2];                      /* lam_health_state, forward and backward */
    int32_t run;    /* the first of its run of equal siblings (runs.c); itself if first, or in none */
    int32_t n_run;  /* for the first: the length of the run; else 1 */
    int32_t others; /* places that this one represents besides itself; see `left` */
    int32_t level, formulas; /* indices; -1: none */
} lmi_outline_place;

/* What a page marks a place with whose values are not finite: an index of lmi_marks, by the worse of its two
 * states; 0: nothing. */
int lmi_place_mark(const lmi_outline_place *at);
enum { LMI_N_MARKS = 3 };
extern const struct lmi_mark {
    const char *word, *look; /* of the tag: its text, its class of CSS */
} lmi_marks[LMI_N_MARKS];

typedef struct lmi_shown_place { /* a place of the model; in the order of an outline */
    int32_t place;
    uint8_t family;
} lmi_shown_place;

typedef struct lmi_course_point {
    int64_t us, bytes;
} lmi_course_point;
typedef struct lmi_active { /* a place at work, for the lanes below the course */
    int32_t place, depth;   /* depth: 1 to 3 */
    uint8_t phase;
    int64_t us, length;
} lmi_active;

typedef enum lmi_node_look { LMI_NODE_MODULE, LMI_NODE_OPERATORS, LMI_NODE_END } lmi_node_look;
typedef struct lmi_level_node {
    uint8_t type, look;     /* lmi_unit_type; how it is drawn */
    const char *name;       /* of a module inside its level, or of an input; else NULL */
    const char *class_name; /* a module's type; else NULL */
    int32_t nth, times;     /* of a module: which of its calls, from 1, of how many */
    int32_t n_ops;          /* of operators */
    const char **op;
    lam_shape shape;              /* of the result of the last one */
    int32_t place;                /* of a module, in the first container that has this level; else -1 */
    lam_count macs, flops, bytes; /* of operators */
    const char *label;            /* its name; operators; "in" */
    const char *note; /* a module: "1/2" of several calls; operators: all of them or a shape; "" */
} lmi_level_node;
extern const char *const lmi_node_name[]; /* by lmi_unit_type, in a saved report: "input", "module", ... */
/* The inside of a container; equal insides share a level. */
typedef struct lmi_level {
    int32_t n;
    lmi_level_node *node;
    lmi_box_size *size;
    int32_t n_lines;
    lmi_line_ends *line;
    int32_t cut; /* nodes that are left out, in one node `N more` */
    lmi_drawing at;
} lmi_level;

typedef struct lmi_outlined_formula {
    lam_metric metric;
    const char *formula, *filled; /* the rule, and the rule with its values */
    int64_t value;                /* of one of them; -1: unknown, or beyond 63 bits */
} lmi_outlined_formula;
typedef struct lmi_formula_group { /* of one operator (or layer), n_equal times */
    uint8_t phase;
    const char *name;
    int32_t n_equal, n;
    lmi_outlined_formula *at;
} lmi_formula_group;
typedef struct lmi_formulas {
    int32_t n;
    lmi_formula_group *at;
} lmi_formulas;

typedef enum lmi_change { LMI_SAME, LMI_ADDED, LMI_REMOVED, LMI_CHANGED, LMI_RENAMED } lmi_change;

typedef struct lmi_outline {
    lmi_arena arena;
    const char *name, *type_path; /* the root's type, short and in full; NULL: unknown */
    const char *mode;             /* of the root's first call, "train" or "eval"; NULL: none was seen */
    int32_t n;                    /* places */
    lmi_outline_place *at;
    int64_t *own[LMI_N_OWN];   /* NULL: unknown for all places, or zero for all */
    int64_t *total[LMI_N_OWN]; /* own numbers summed over everything at and below; as `own` */
    uint8_t *state[LMI_N_OWN]; /* lam_state of `own`; NULL: all exact */
    int32_t n_shown;           /* of the model: places before some were combined */
    lmi_shown_place *shown;    /* NULL: the report was saved */
    bool backward;             /* there are numbers of a backward */
    int32_t modules, calls;
    const char *convention, *source, *version; /* convention NULL: a recording, which has no counts */
    lam_param_totals params;
    lam_count macs[LAM_N_PHASES], flops[LAM_N_PHASES], bytes[LAM_N_PHASES];
    int64_t ops_ran, ops_counted, ops_ruled;
    /* by place, LAM_N_HELD each; NULL: memory was not measured. held_total: at and below */
    int64_t (*held)[LAM_N_HELD], (*held_total)[LAM_N_HELD];
    const lam_memory_totals *memory; /* NULL: not measured */
    int32_t peak_place;              /* -1: none */
    int32_t n_points, n_at_work;
    lmi_course_point *point;     /* at most 600, each the most of its piece */
    int64_t (*part)[LAM_N_HELD]; /* the parts of each point's bytes; NULL: unknown */
    lmi_active *at_work;         /* at most 4,000, the shortest are dropped */
    int64_t backward_us;         /* when the backward began; -1: there is none */
    bool timed;
    lam_spread time[LAM_N_TIME_PARTS];
    int32_t repeats, outliers;
    lam_peak roof; /* 0: unknown */
    int32_t n_levels;
    lmi_level *level;
    int32_t n_formulas;
    lmi_formulas *formulas;
    const lam_health *health; /* NULL: values were not checked */
    int32_t finding_place;    /* of its first finding; -1: none, or outside of every layer */
    int32_t n_unused, n_no_gradient, n_gaps, n_notes, n_left;
    const char *(*unused)[2], *(*no_gradient)[2]; /* path, reason */
    const char **gap, **note;
    int32_t n_growth;
    const char **growth; /* sentences on how totals grow with the sizes that a file leaves open */
    const char **left;   /* sentences on what was left out */
    int32_t left_before; /* how many are about the tree; the others are about the optional parts */
    int32_t n_provenance;
    const char *(*provenance)[2]; /* "torch", "2.13.0"; in the order of the report */
    /* For a difference: the outline before, NULL: it is not a difference; and by place, its index before and
     * after (-1: it does not exist there), its lmi_change, and whether it differs itself, apart from what is
     * in it */
    const struct lmi_outline *was;
    int32_t *was_at, *now_at;
    uint8_t *change;
    bool *differs;
    lam_costs *costs; /* private, as the next four; freed with the outline */
    lam_model *model;
    lam_graph *graph;
    lam_memory *use;
    lam_health *looks;
} lmi_outline;

typedef struct lmi_outline_options {
    bool levels, formulas, course; /* what to take besides the tree and its numbers */
    bool drawn;                    /* levels get their drawings */
    lam_peak roof;
    /* lamina's table, which is shown from the outline; NULL: another reader. It gets every place, runs whose
     * memory and receptive field are equal where it shows them, and nothing but the tree. */
    const lmi_job *table;
} lmi_outline_options;
/* Bytes of a name before the digits it ends in. */
size_t lmi_stem(const char *name);
/* The last place of a run, and where the places of a run end; of one that is in no run its own. */
int32_t lmi_run_last(const lmi_outline_place *at, int32_t first);
int32_t lmi_run_end(const lmi_outline_place *at, int32_t first);
/* Place `i`, with no children, of which nothing else is known. */
lmi_outline_place lmi_outlined_new(int32_t i, int32_t parent, const char *name, const char *type);
/* Takes the outline of costs, which must outlive it. Free it also on failure. */
lam_status lmi_outline_new(lmi_outline *o, const lam_costs *c, const lmi_outline_options *options,
                           lam_error *e);
void lmi_outline_free(lmi_outline *o);
/* Both outlines as one, over the union of their trees: the numbers of `after`, and `before` as `was`. A place
 * of equal type, shapes and counts, with equal insides, at another path is LMI_RENAMED. Numbers that only one
 * of them has, or that another convention counted, are not compared. Both must outlive it. Free it also on
 * failure. */
lam_status lmi_outline_diff(lmi_outline *o, const lmi_outline *before, const lmi_outline *after,
                            lam_error *e);
/* True if a place of both has another name than before, or stands in another place. */
bool lmi_outline_moved(const lmi_outline *both, int32_t i);
/* What became of a place itself; `moved`: it, or a place that it is in. */
lmi_change lmi_outline_change(const lmi_outline *both, int32_t i, bool moved);
/* Adds the numbers of places by what became of them. */
void lmi_outline_count(const lmi_outline *both, int32_t n[LMI_RENAMED + 1]);
/* True if both types are known, and differ. */
bool lmi_unlike_types(const lmi_outline_place *was, const lmi_outline_place *now);
/* False for a recording, and for a file of weights: what calls took and returned is not known. */
static inline bool lmi_has_shapes(const lmi_outline *o) { return o->convention && o->calls > 0; }
/* The i-th attribute that both have and that differs, before and after; false past the last one. */
bool lmi_changed_attr(const lmi_outline_place *was, const lmi_outline_place *now, int32_t i, lam_attr out[2]);
/* True if both count a number by place, by the same rules: outlines without a convention have no counts but
 * those of parameters. */
bool lmi_outlines_agree(const lmi_outline *a, const lmi_outline *b, lmi_own_number k);
/* Why numbers of both may not be compared. `so` follows what differs; false past the last one. */
typedef enum lmi_unlike_reason {
    LMI_UNLIKE_CONVENTION,
    LMI_UNLIKE_MODE,
    LMI_UNLIKE_INPUTS,
    LMI_UNLIKE_BACKWARD,
    LMI_UNLIKE_DRY,
    LMI_UNLIKE_PROCESSOR,
    LMI_UNLIKE_THREADS,
    LMI_UNLIKE_TORCH,
    LMI_N_UNLIKE
} lmi_unlike_reason;
typedef struct lmi_setup_change {
    const char *what, *was, *now, *so;
} lmi_setup_change;
bool lmi_outlines_unlike(const lmi_outline *was, const lmi_outline *now, int32_t i, lmi_setup_change *out);
/* True if that alone is a reason. */
bool lmi_is_setup_change(const lmi_outline *was, const lmi_outline *now, lmi_unlike_reason why,
                         lmi_setup_change *out);
/* Appends "The mode differs: before train, now eval"; inside a sentence, "the mode differs: ...". */
void lmi_put_setup_change(lmi_buf *b, const lmi_setup_change *u, bool inside);
void lmi_put_tensors(lmi_buf *b, const char *tensors); /* with x between sizes */
/* The provenance's text under a label; NULL: none. */
const char *lmi_outline_provenance(const lmi_outline *o, const char *label);
/* A figure's number of the whole model: shared parameters count once. Unknown: it was not measured. */
lam_count lmi_figure_whole(const lmi_outline *o, lmi_figure k);
/* True if what it needs was measured. */
bool lmi_figure_measured(const lmi_outline *o, lmi_figure k);
lam_count lmi_figure_sum(const lmi_outline *o, lmi_figure k);                /* over all places */
lam_count lmi_figure_own(const lmi_outline *o, lmi_figure k, int32_t place); /* of a place itself */
/* Makes the levels of a difference: those of after, with removed modules (union.c). */
lam_status lmi_outline_join_levels(lmi_outline *o, lam_error *e);
/* Appends the dotted path of a place. */
void lmi_outline_path(const lmi_outline *o, int32_t place, lmi_buf *out);
/* The same, and for the root its type. */
void lmi_outline_label(const lmi_outline *o, int32_t place, lmi_buf *out);
lam_status lmi_outline_draw(lmi_outline *o, lam_error *e); /* the drawings of its levels */

#endif
