/* SPDX-License-Identifier: Apache-2.0
 *
 * Results as fields, a part of lamina.h: for a binding that makes objects of another language from them. The
 * reports' JSON is written by the same functions, so both have the same names. */
#ifndef LAMINA_FIELDS_H
#define LAMINA_FIELDS_H

#include "lamina_report.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum lam_field_type {
    LAM_FIELD_NONE, /* the value is unknown or does not exist */
    LAM_FIELD_TRUTH, LAM_FIELD_INTEGER, LAM_FIELD_REAL, LAM_FIELD_TEXT, LAM_FIELD_COUNT,
    LAM_FIELD_SIZES, /* the sizes of a tensor, or an index into it: in `shape`, whose ndim is at least 0 */
    /* Each of these three begins a group of fields, which LAM_FIELD_END ends. */
    LAM_FIELD_OBJECT,
    LAM_FIELD_RECORD, /* its fields are always the same in the same order, or have no names */
    LAM_FIELD_LIST,   /* its fields have no names */
    LAM_FIELD_END
} lam_field_type;
typedef struct lam_field {
    const char *name; /* NULL in a list; during one call, equal names have the same pointer */
    lam_field_type type;
    union {
        bool truth;
        int64_t integer;
        double real;
        const char *text;
        lam_count count;
        lam_shape shape;
    };
} lam_field;
/* Receives fields one after another; `field` is not called again after it has returned false. */
typedef struct lam_receiver {
    bool (*field)(void *self, const lam_field *f);
    void *self;
} lam_receiver;

/* Each of the functions below passes one field to the receiver: an object or a list, with the fields in
 * it. */
LAM_API void lam_memory_tell(const lam_memory *y, lam_receiver to);
LAM_API void lam_health_tell(const lam_health *h, lam_receiver to);
/* The arguments or results of an operator. */
LAM_API void lam_op_args_tell(const lam_op_arg *args, int32_t n, lam_receiver to);

typedef enum lam_model_part {
    LAM_MODEL_CALLS, LAM_MODEL_MODULES, LAM_MODEL_PLACES, LAM_MODEL_TENSORS, LAM_MODEL_OPERATORS,
    LAM_MODEL_LIFETIMES, LAM_MODEL_NOTES, LAM_MODEL_PROVENANCE
} lam_model_part;
LAM_API void lam_model_tell(const lam_model *m, lam_model_part part, lam_receiver to);

typedef enum lam_graph_part {
    LAM_GRAPH_DATA,    /* nodes and edges */
    LAM_GRAPH_FINDINGS /* unused modules, and parameters that get no gradient */
} lam_graph_part;
LAM_API void lam_graph_tell(const lam_graph *g, lam_graph_part part, lam_receiver to);

typedef enum lam_costs_part {
    LAM_COSTS_ROWS,   /* objects without others in them, but for `time` and lists */
    LAM_COSTS_TOTALS, /* of phase `i` */
    LAM_COSTS_PARAMS, LAM_COSTS_UNRULED, LAM_COSTS_UNRULED_OPS, LAM_COSTS_GAPS,
    LAM_COSTS_GROWTH,       /* with each open size */
    LAM_COSTS_TIMES,        /* LAM_FIELD_NONE if none were measured */
    LAM_COSTS_WHY,          /* of row `i` */
    LAM_COSTS_FACTS,        /* of row `i` */
    LAM_COSTS_OPERATOR      /* operator `i` alone */
} lam_costs_part;
/* Computes the parts that `totals_only` left out, if this one needs them. LAM_RANGE if there is no such row,
 * operator or phase; then the receiver is not called. */
LAM_API lam_status lam_costs_tell(lam_costs *c, lam_costs_part part, int32_t i, lam_receiver to,
                                  lam_error *e);
/* The speeds of all rows relative to `peak`, which a faster row raises. */
LAM_API void lam_speeds_tell(const lam_costs *c, lam_peak peak, bool inside, lam_receiver to);

typedef enum lam_tables_part {
    LAM_TABLES_CONVENTIONS,
    LAM_TABLES_RULES, /* of convention `i` */
    LAM_TABLES_FACTS,
    LAM_TABLES_ROW /* of each field of LAM_COSTS_ROWS its name, path in JSON and column in CSV; "": none */
} lam_tables_part;
LAM_API void lam_check_tell(const lam_check *k, lam_receiver to);
LAM_API void lam_rules_tell(const lam_rules *rules, lam_receiver to); /* user-defined rules */
LAM_API void lam_tables_tell(lam_tables_part part, int32_t i, lam_receiver to);

/* Fields as a JSON document: one object, which begins with `schema` ("lamina.KIND/VERSION"), `schema_version`
 * and `version`, of lamina. */
typedef struct lam_json lam_json;
LAM_API lam_status lam_json_new(lam_json **out, const char *kind, int32_t version, lam_error *e);
/* The receiver that adds fields to the document. `name` replaces the name of the first one; NULL: it keeps
 * its name. */
LAM_API lam_receiver lam_json_field(lam_json *j, const char *name);
/* Writes the document. LAM_USAGE if a group of fields in it has no end. */
LAM_API lam_status lam_json_write(lam_json *j, lam_sink to, lam_error *e);
LAM_API void lam_json_free(lam_json *j);

#ifdef __cplusplus
}
#endif

#endif
