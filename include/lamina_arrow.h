/* SPDX-License-Identifier: Apache-2.0
 *
 * Tables by columns, a part of lamina.h: what a recording holds, for programs that read Arrow's C streams.
 * The structs are Arrow's stable ABI (https://arrow.apache.org/docs/format/CDataInterface.html,
 * CStreamInterface.html), and nothing of Arrow is linked. */
#ifndef LAMINA_ARROW_H
#define LAMINA_ARROW_H

#include "lamina_recording.h"

#ifdef __cplusplus
extern "C" {
#endif

#ifndef ARROW_C_DATA_INTERFACE
#define ARROW_C_DATA_INTERFACE
#define ARROW_FLAG_DICTIONARY_ORDERED 1
#define ARROW_FLAG_NULLABLE           2
#define ARROW_FLAG_MAP_KEYS_SORTED    4
struct ArrowSchema {
    const char *format, *name, *metadata;
    int64_t flags, n_children;
    struct ArrowSchema **children, *dictionary;
    void (*release)(struct ArrowSchema *);
    void *private_data;
};
struct ArrowArray {
    int64_t length, null_count, offset, n_buffers, n_children;
    const void **buffers;
    struct ArrowArray **children, *dictionary;
    void (*release)(struct ArrowArray *);
    void *private_data;
};
#endif
#ifndef ARROW_C_STREAM_INTERFACE
#define ARROW_C_STREAM_INTERFACE
struct ArrowArrayStream {
    int (*get_schema)(struct ArrowArrayStream *, struct ArrowSchema *);
    int (*get_next)(struct ArrowArrayStream *, struct ArrowArray *);
    const char *(*get_last_error)(struct ArrowArrayStream *);
    void (*release)(struct ArrowArrayStream *);
    void *private_data;
};
#endif

typedef enum lam_cell_kind {
    LAM_CELL_WHOLE, /* int64_t */
    LAM_CELL_REAL,  /* double */
    LAM_CELL_TEXT,  /* UTF-8 */
    LAM_CELL_FLAG,  /* bool */
    LAM_N_CELL_KINDS
} lam_cell_kind;
typedef struct lam_cell {
    lam_cell_kind kind;
    bool known; /* false: unknown, which is Arrow's null */
    int64_t whole;
    double real;
    const char *text; /* `n` bytes, not ended by a zero */
    size_t n;
    bool flag;
} lam_cell;

typedef struct lam_table lam_table;
/* NULL is allowed. Streams and what they gave stay valid. */
LAM_API void lam_table_free(lam_table *t);
LAM_API int64_t lam_table_rows(const lam_table *t);
LAM_API int32_t lam_table_columns(const lam_table *t);
LAM_API const char *lam_table_column(const lam_table *t, int32_t column); /* its name; NULL: there is none */
/* False: there is no such row or column. */
LAM_API bool lam_table_cell(const lam_table *t, int32_t column, int64_t row, lam_cell *out);
/* A stream of one batch, which shares the table's memory. */
LAM_API lam_status lam_table_stream(lam_table *t, struct ArrowArrayStream *out, lam_error *e);
/* Reads a stream to its end, and releases it, also on failure. Columns are int64, float64, bool or text; any
 * other type is LAM_UNSUPPORTED. `what` names the table in errors. */
LAM_API lam_status lam_table_read(lam_table **out, struct ArrowArrayStream *from, const char *what,
                                  lam_error *e);

typedef struct lam_table_options {
    const char *format; /* "text", "csv" or "json"; NULL: text */
    const char *kind;   /* of the JSON document */
    int32_t width;      /* columns; 0: 100 */
    bool ascii, color;
} lam_table_options;
/* Writes the rows: as text with "?" for what is unknown, in CSV empty. LAM_USAGE for an unknown format. */
LAM_API lam_status lam_table_write(const lam_table *t, const lam_table_options *o, lam_sink to, lam_error *e);

/* What several recordings of one run hold, or one. Times are in microseconds, moments in microseconds since
 * 1970; docs/recording.md lists the columns. */
typedef enum lam_recorded_table {
    LAM_RECORDED_RANKS,  /* a row for each recording */
    LAM_RECORDED_STEPS,  /* for each recorded step */
    LAM_RECORDED_LAYERS, /* for each layer in each hour */
    LAM_N_RECORDED_TABLES
} lam_recorded_table;
/* Layers of hours that end before `from_unix_ns` are left out. LAM_USAGE: there are no recordings. */
LAM_API lam_status lam_recording_table(const lam_recording *const *all, int32_t n, lam_recorded_table what,
                                       int64_t from_unix_ns, lam_table **out, lam_error *e);

#ifdef __cplusplus
}
#endif
#endif
