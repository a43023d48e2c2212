/* SPDX-License-Identifier: Apache-2.0
 * tell: the fields of every result, each named once. A walk passes them to JSON that is being written, or to
 * a receiver (lamina_fields.h), which makes objects of them. */
#ifndef LMI_TELL_H
#define LMI_TELL_H

#include "report/numbers/numbers.h"
#include "report/table/quick.h"
#include "report/table/report.h"

typedef struct lmi_teller {
    lmi_buf *json; /* NULL: `to` receives the fields */
    bool any;      /* of JSON: a comma goes before the next field */
    bool stopped;  /* for a receiver: it returned false */
    bool brief;    /* leaves out what a report's rows have, and empty parts */
    lam_receiver to;
} lmi_teller;

static inline lmi_teller lmi_tell_json(lmi_buf *b) { return (lmi_teller){.json = b, .brief = true}; }
static inline lmi_teller lmi_tell_to(lam_receiver to) { return (lmi_teller){.to = to}; }
void lmi_give(lmi_teller *t, lam_field f); /* to the receiver */

/* -- values: `n` is the length of the name, which is a constant where these are inlined -------------------
 */

void lmi_tell_name(lmi_teller *t, const char *name, size_t n);
void lmi_tell_none(lmi_teller *t, const char *name, size_t n);
void lmi_tell_truth(lmi_teller *t, const char *name, size_t n, bool v);
void lmi_tell_int(lmi_teller *t, const char *name, size_t n, int64_t v);
void lmi_tell_known(lmi_teller *t, const char *name, size_t n, int64_t v);
void lmi_tell_text(lmi_teller *t, const char *name, size_t n, const char *v);
void lmi_tell_real(lmi_teller *t, const char *name, size_t n, double v);
void lmi_tell_known_real(lmi_teller *t, const char *name, size_t n, double v);
void lmi_tell_begin(lmi_teller *t, const char *name, size_t n, lam_field_type type, char bracket);
void lmi_tell_close(lmi_teller *t, char bracket);

QUICK size_t tell_length(const char *name) { return name ? strlen(name) : 0; }
QUICK void tell_name(lmi_teller *t, const char *name) { lmi_tell_name(t, name, tell_length(name)); }
QUICK void tell_none(lmi_teller *t, const char *name) { lmi_tell_none(t, name, tell_length(name)); }
/* The same as `tell_none`, but JSON does not have the field. */
QUICK void tell_absent(lmi_teller *t, const char *name) {
    if (!t->json) tell_none(t, name);
}
QUICK void tell_truth(lmi_teller *t, const char *name, bool v) {
    lmi_tell_truth(t, name, tell_length(name), v);
}
QUICK void tell_int(lmi_teller *t, const char *name, int64_t v) {
    lmi_tell_int(t, name, tell_length(name), v);
}
/* Negative: unknown. */
QUICK void tell_known(lmi_teller *t, const char *name, int64_t v) {
    lmi_tell_known(t, name, tell_length(name), v);
}
/* NULL: there is none. */
QUICK void tell_text(lmi_teller *t, const char *name, const char *v) {
    lmi_tell_text(t, name, tell_length(name), v);
}
/* NaN and infinities are null in JSON. */
QUICK void tell_real(lmi_teller *t, const char *name, double v) {
    lmi_tell_real(t, name, tell_length(name), v);
}
/* Negative: unknown. */
QUICK void tell_known_real(lmi_teller *t, const char *name, double v) {
    lmi_tell_known_real(t, name, tell_length(name), v);
}

/* An unknown shape has -1 axes. */
void lmi_tell_sizes(lmi_teller *t, const char *name, int32_t ndim, const int64_t *sizes);
void lmi_tell_value(lmi_teller *t, const char *name, const lam_value *v);
/* Writes every digit of a measured number; in JSON 9. */
void lmi_tell_digits(lmi_teller *t, const char *name, double v);
void lmi_tell_count(lmi_teller *t, const char *name, lam_count c);

/* -- containers of fields ------------------------------------------------------------------------------ */

QUICK void tell_begin(lmi_teller *t, const char *name, lam_field_type type, char bracket) {
    lmi_tell_begin(t, name, tell_length(name), type, bracket);
}
QUICK void tell_object(lmi_teller *t, const char *name) { tell_begin(t, name, LAM_FIELD_OBJECT, '{'); }
QUICK void tell_record(lmi_teller *t, const char *name) { tell_begin(t, name, LAM_FIELD_RECORD, '{'); }
QUICK void tell_tuple(lmi_teller *t, const char *name) { tell_begin(t, name, LAM_FIELD_RECORD, '['); }
QUICK void tell_list(lmi_teller *t, const char *name) { tell_begin(t, name, LAM_FIELD_LIST, '['); }
static inline void tell_end(lmi_teller *t) { lmi_tell_close(t, '}'); }      /* of an object or a record */
static inline void tell_list_end(lmi_teller *t) { lmi_tell_close(t, ']'); } /* of a list or a tuple */

/* The beginning of each JSON document, after its brace: its kind and the version of its schema, twice, and
 * the version of lamina. `between` is written between these fields. */
void lmi_put_head(lmi_buf *b, const char *kind, int version, const char *between);
/* For JSON: begins a document, an object, with its head. */
static inline void lmi_tell_document(lmi_teller *t, const char *kind, int version) {
    tell_object(t, NULL);
    lmi_put_head(t->json, kind, version, ", ");
    t->any = true;
}

/* For JSON: the next entry of a list begins a line. */
void lmi_tell_line(lmi_teller *t);
/* A list of two numbers. */
void lmi_tell_pair(lmi_teller *t, const char *name, int64_t a, int64_t b);
void lmi_tell_sentences(lmi_teller *t, const char *name, int32_t n, const char *const *at);

/* -- walks, and their parts that the JSON of a report has too ------------------------------------------ */

/* The path of a call's layer; NULL: outside every call. */
const char *lmi_path_of_call(const lam_model *m, int32_t call);

/* Memory of the host, or of a device (memory.c). */
void lmi_memory_fields(lmi_teller *t, const char *name, const lam_memory *y);
void lmi_memory_call_fields(lmi_teller *t, const char *name, const lam_memory *y, int32_t call);
/* When the call ran, and when its nodes of the backward did: `spans` is of lmi_backward_spans. Microseconds
 * after the run began. */
void lmi_span_fields(lmi_teller *t, const lam_model *m, const lmi_vec *spans, int32_t call);
/* health.c */
void lmi_health_fields(lmi_teller *t, const char *name, const lam_health *h);
void lmi_health_call_fields(lmi_teller *t, const lam_health *h, int32_t call);
void lmi_health_place_fields(lmi_teller *t, const lam_health *h, int32_t place); /* of one without calls */
/* times.c: nothing if no times were measured */
void lmi_times_fields(lmi_teller *t, const char *name, const lam_costs *c);
void lmi_time_fields(lmi_teller *t, const lam_costs *c, int32_t row);
/* graph.c */
void lmi_unused_fields(lmi_teller *t, const lam_graph *g);
void lmi_no_gradient_fields(lmi_teller *t, const lam_graph *g);
/* row.c: the metrics of one thing; in `brief` without those that the convention does not count */
void lmi_metric_fields(lmi_teller *t, const lam_costs *c, const lam_count metric[LAM_N_METRICS]);
/* The metrics of the other phases; in `brief` only if operators were watched and a backward pass ran. */
void lmi_phase_fields(lmi_teller *t, const lam_costs *c, const lam_count backward[LAM_N_METRICS],
                      const lam_count recompute[LAM_N_METRICS]);
void lmi_unruled_fields(lmi_teller *t, const char *name, const lam_costs *c);
void lmi_unruled_ops_fields(lmi_teller *t, const char *name, const lam_costs *c);
void lmi_growth_fields(lmi_teller *t, const char *name, const lam_costs *c);
void lmi_gaps_fields(lmi_teller *t, const char *name, const lam_costs *c);
void lmi_notes_fields(lmi_teller *t, const char *name, const lam_model *m); /* model.c */
void lmi_provenance_fields(lmi_teller *t, const char *name, const lam_model *m);
void lmi_check_fields(lmi_teller *t, const lam_check *k); /* check.c */
/* tokens.c: a language model in tokens */
void lmi_tokens_fields(lmi_teller *t, const lam_tokens *x, const lam_costs *c);
void lmi_bound_fields(lmi_teller *t, const lam_token_bound *b);
void lmi_capacity_fields(lmi_teller *t, const lam_tokens *x, const lam_token_capacity *c);

/* -- rows (row.c) -------------------------------------------------------------------------------------- */

/* The rows of a report. After lmi_rows_of, whoever has them may set what was measured. */
typedef struct lmi_rows {
    const lam_costs *c;
    const lam_memory *memory, *device_memory; /* NULL: not told, as the next two */
    const lam_health *health;
    const lmi_vec *spans; /* of lmi_backward_spans */
    bool has[LMI_N_ROW_PARTS];
} lmi_rows;
void lmi_rows_of(lmi_rows *r, const lam_costs *c);
void lmi_rows_measured(lmi_rows *r, const lmi_job *j);
/* An object: row `i`, or -1: the whole, which has sums alone. Its names are the paths of row.def. */
void lmi_row_fields(lmi_teller *t, const lmi_rows *r, int32_t i);
void lmi_owned_fields(lmi_teller *t, const lmi_rows *r, const lam_param_totals *owned);

/* A receiver of one row after another, which puts its fields under the names of Python or CSV (flat.c). */
typedef struct lmi_flat lmi_flat;
lam_status lmi_flat_new(lmi_flat **out, lmi_row_user user, lam_error *e);
void lmi_flat_free(lmi_flat *f);
lam_receiver lmi_flat_row(lmi_flat *f); /* begins a row */
/* The fields of the row that have the i-th name of row.def: those of a list one by one, or an object with all
 * that is in it, or one. NULL past the last one. */
const lam_field *lmi_flat_first(const lmi_flat *f, int32_t i);
const lam_field *lmi_flat_next(const lmi_flat *f, const lam_field *of);
/* Tells the row as an object without others in it, in the order of row.def. */
void lmi_flat_fields(lmi_teller *t, const lmi_flat *f);
lam_status lmi_flat_status(const lmi_flat *f, lam_error *e);

/* -- of outlines --------------------------------------------------------------------------------------- */

struct lmi_outline;
/* levels.c, for JSON only: the tree of places, the places at work, the insides of containers, the formulas,
 * and sentences on what these leave out */
void lmi_tree_fields(lmi_teller *t, const struct lmi_outline *o, const lam_model *m);
lam_status lmi_levels_fields(lmi_teller *t, const struct lmi_outline *o, lam_error *e);
lam_status lmi_at_work_fields(lmi_teller *t, const struct lmi_outline *o, lam_error *e);
lam_status lmi_formulas_fields(lmi_teller *t, const struct lmi_outline *o, lam_error *e);
void lmi_left_out_fields(lmi_teller *t, const struct lmi_outline *o);

#endif
