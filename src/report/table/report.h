/* SPDX-License-Identifier: Apache-2.0
 * report: a report that is being written, and the table. Columns (columns.def) and layouts (layouts.def) are
 * data. A report never computes, apart from percentages and the sums of folded rows.
 *
 * columns.c: the text of a cell. table.c: cells as columns of text, and as a table on a page. row_data.c:
 * shapes, ties and sums. escape.c: escaping, and a text with its middle cut out. sort_keys.c: the numbers
 * that lines are sorted by and that shares are of; head_and_totals.c, reasons.c: the lines above and below
 * lamina's table, which report/formats writes. */
#ifndef LMI_REPORT_H
#define LMI_REPORT_H

#include "analyse/costs.h"
#include "report/numbers/numbers.h"

struct lmi_layout;

/* One report being written. Text gathers in `out` and leaves through the sink in large pieces. */
typedef struct lmi_job {
    lam_memory *memory;        /* NULL: it was not measured, or is not shown */
    lam_memory *device_memory; /* the same of a device's */
    const lam_costs *c;
    const lam_model *m;
    const lam_report_options *o;
    lam_peak peak; /* o->peak, or a higher speed that a row reached */
    const struct lmi_layout *layout;
    lam_health *health; /* NULL: values were not checked */
    lmi_buf out;
    lam_sink to;
    lam_error *e;
} lmi_job;

/* Writes the buffer to the sink if it is large; `lmi_job_close` writes the rest and frees the buffer. */
lam_status lmi_job_flush(lmi_job *j);
lam_status lmi_job_close(lmi_job *j, lam_status so_far);

/* -- what is shown ------------------------------------------------------------------------------------- */

/* One line of a table: a row of the costs, or a place with everything below it. */
typedef struct lmi_line {
    const lam_place *place;
    const lam_module *module;
    const lam_event *event; /* the first call; NULL: never called */
    lam_cost_row row; /* its numbers: those of a row of the costs, or sums over several */
    lam_count metric[LAM_N_METRICS]; /* in place of the row's, as the next: sums of them too */
    lam_row_phases phases;
    int32_t depth, calls;
    lam_time time, device_time; /* by the host's clock and by a device's; self: without the lines below it */
    bool own;                   /* a container's own work or parameters, without its children */
    bool outside;               /* the operators that ran outside all calls */
    bool never_called;          /* neither it nor anything below it was called */
    const char *label;          /* lamina layout: the text of the name column */
    const lmi_job *job;
    bool split;                   /* lamina layout: a container's own work, split off as a line below it */
    const struct lmi_line *total; /* the whole, for ratios; NULL: the line is the whole itself */
} lmi_line;

/* What a row is of: a call, a module without one, or what a container holds or does itself. */
typedef enum lmi_place_state {
    LMI_CALLED,
    LMI_NEVER_CALLED,
    LMI_CALLED_ELSEWHERE,
    LMI_NOT_SEEN,
    LMI_OWN_PARAMETERS,
    LMI_OUTSIDE_CALLS,
    LMI_CONTAINER_ALONE /* of a place: a container without calls, such as a ModuleList */
} lmi_place_state;
extern const char *const lmi_state_names[LMI_CONTAINER_ALONE]; /* "called", "never called", ... */
lmi_place_state lmi_row_state(const lam_module *m, const lam_cost_row *row); /* `m`: the row's */
/* The name of a line's state. */
const char *lmi_line_status(const lmi_line *l);
void lmi_line_of_row(const lmi_job *j, int32_t row, lmi_line *out);
/* Adds b's numbers to a's. */
void lmi_line_add(lmi_line *a, const lmi_line *b);
void lmi_line_add_times(lmi_line *a, const lmi_line *b); /* adds times alone */
/* A sum with an unknown part is a lower bound; lam_count_add alone keeps the worst state. */
lam_count lmi_sum(lam_count a, lam_count b);
/* True if the convention counts the metric. */
bool lmi_has_metric(const lam_costs *c, lam_metric metric);
/* True if parameters are sharded over several processes. */
bool lmi_is_spread(const lam_model *m);
/* True if parameters are stored in another size than their shapes and types give. */
bool lmi_has_logical(const lam_param_totals *p);
/* True if times were measured; of a backward pass; by a device's clock. */
bool lmi_has_times(const lam_costs *c);
bool lmi_has_backward_times(const lam_costs *c);
bool lmi_has_device_times(const lam_costs *c);
/* True if some operator of the phase was counted. */
bool lmi_has_phase(const lam_costs *c, lam_phase phase);
/* The total of the whole; an unknown sum with a known part is "at least". */
lam_count lmi_total(const lam_costs *c, lam_metric metric);

void lmi_put_count(lmi_buf *b, lam_count c, bool exact);
/* The same, with "?" for ">= 0", which has no information. */
void lmi_put_metric(lmi_buf *b, lam_count c, bool exact);
/* Writes how a total grows with a size: "MACs 1.20 G + 4.10 G x batch"; false, and nothing, if it does not
 * depend on the size, is not known anyway, or is as that of the metric before. */
bool lmi_put_per(lmi_buf *b, const lam_costs *c, const lam_growth *g, lam_metric m, bool exact);
void lmi_put_plain(lmi_buf *b, lam_count c); /* the number alone, without its state */
void lmi_put_grouped(lmi_buf *b, lam_count c);
void lmi_put_bytes(lmi_buf *b, lam_count c);
void lmi_put_time(lmi_buf *b, int64_t ns);
int64_t lmi_add_time(int64_t a, int64_t b);  /* -1 if either is unknown */
int64_t lmi_self_time(const lmi_line *l);    /* all phases, without the lines below it */
void lmi_put_shape(lmi_buf *b, lam_shape s); /* "1x64x112x112" */
lam_shape lmi_arg_shape(const lam_arg *a);
/* "0.weight": a tensor by the path of the first place of a module that owns it, and its name there. */
void lmi_put_tensor(lmi_buf *b, const lam_model *m, const lam_module *owner, const char *name);
const char *lmi_name_in(const lam_module *owner, int32_t tensor);
/* "tied to 0.weight" or "same module as a.fc" or nothing. */
void lmi_put_tie(lmi_buf *b, const lam_model *m, const lam_place *p);
const char *lmi_device_name(int32_t device);

/* -- columns and layouts ------------------------------------------------------------------------------- */

typedef enum lmi_align { LMI_LEFT, LMI_RIGHT } lmi_align;

typedef struct lmi_column {
    const char *id, *title;
    lmi_align align;
    int rank; /* on a narrow terminal the column of the greatest rank is left out first; 0: never */
    bool (*when)(const lmi_job *j); /* true if the report has it */
    void (*cell)(const lmi_line *l, lmi_buf *out);
    const char *doc;
} lmi_column;

enum { LMI_COLUMNS_MAX = 128 };
typedef struct lmi_columns {
    int32_t n;
    const lmi_column *at[LMI_COLUMNS_MAX];
} lmi_columns;

typedef lam_status (*lmi_writer)(lmi_job *j);
typedef struct lmi_layout {
    const char *name;
    lmi_writer text, csv, md; /* NULL: the layout has no such form */
    const char *doc;
} lmi_layout;

/* NULL: there is none. */
const lmi_column *lmi_column_find(const char *id);
/* The columns that this report has, in their order. */
void lmi_columns_of(const lmi_job *j, lmi_columns *out);

/* -- a table on a page --------------------------------------------------------------------------------- */

/* A column of a table on a page. */
typedef struct lmi_head {
    const char *title;
    lmi_align align;
    int rank; /* on a narrow page the column of the greatest rank is left out first; 0: never */
} lmi_head;

/* A table that adapts to a narrow page: columns are left out, then the first one is cut. */
typedef struct lmi_sheet {
    lmi_buf *out;
    size_t width, cap; /* of the page; of a column aligned left that is not the first; 0: no limit */
    bool ascii, color;
    int32_t dim;                 /* the column that is painted dim, 0: none */
    int32_t bar_first, bar_last; /* with colours, a bar behind them shows each row's share; 0: none */
    lmi_vec shares; /* double, one for each row below the titles, if there are bars; negative: no bar */
    int32_t n;
    lmi_head heads[LMI_COLUMNS_MAX];
    size_t widths[LMI_COLUMNS_MAX]; /* 0: left out */
    lmi_buf text;                   /* the cells, row by row; the titles are the first row */
    lmi_vec at;                     /* size_t: where each cell begins in it */
    lmi_buf *cell;                  /* where the next cell is written; lmi_end_cell ends it */
    lmi_buf cut;
    size_t begun; /* where that cell begins */
    lam_error *e;
    lam_status s; /* the first failure */
} lmi_sheet;
void lmi_sheet_start(lmi_sheet *t, lmi_buf *out, size_t width, bool ascii, lam_error *e);
/* Adds a column; all of them come before the first cell. */
void lmi_sheet_column(lmi_sheet *t, const lmi_head *head);
/* Ends a cell. Cells fill rows from the left. */
void lmi_end_cell(lmi_sheet *t);
void lmi_text_cell(lmi_sheet *t, const char *text);
int32_t lmi_sheet_rows(const lmi_sheet *t); /* with the titles */
/* Rows have bars behind columns first..last, aligned right; each row then gives its share, from 0 to 1. */
void lmi_sheet_bars(lmi_sheet *t, int32_t first, int32_t last);
void lmi_sheet_share(lmi_sheet *t, double share);
/* Finds the widths. Columns are left out until the first one has `fair` columns of the page, and it is cut to
 * what is left then, but to no less than `least`. */
void lmi_sheet_fit(lmi_sheet *t, size_t fair, size_t least);
/* Appends the titles of the columns that were left out, "MACs, %"; returns their number. */
int32_t lmi_sheet_left_out(const lmi_sheet *t, lmi_buf *to);
size_t lmi_sheet_columns(const lmi_sheet *t); /* the width of a row, once fitted */
/* Writes a row's cells from column `first` on, without ending the line; `owed` spaces are wanted before it.
 * Returns the spaces that are wanted before what follows. */
size_t lmi_sheet_cells(lmi_sheet *t, int32_t row, int32_t first, size_t owed);
/* The same as a line. */
void lmi_sheet_row(lmi_sheet *t, int32_t row, int32_t first, size_t owed);
/* Fits the table and writes all of it. */
void lmi_sheet_write(lmi_sheet *t, size_t fair, size_t least);
void lmi_sheet_md(lmi_sheet *t);         /* writes all of it as a table of Markdown */
lam_status lmi_sheet_free(lmi_sheet *t); /* returns the first failure */

/* -- pieces of text ------------------------------------------------------------------------------------ */

/* At most `columns` wide: an ellipsis replaces the middle. */
void lmi_put_cut(lmi_buf *b, const char *s, size_t columns, bool ascii);
/* writes `before` in front of each character of `of` */
void lmi_put_escaped(lmi_buf *b, const char *s, const char *of, const char *before);
void lmi_put_md(lmi_buf *b, const char *s); /* with a backslash before all that means something to Markdown */
void lmi_put_html(lmi_buf *b, const char *s);
void lmi_put_json(lmi_buf *b, const char *s); /* a JSON string with its quotes; "null" for NULL */
/* The same without anything that HTML or JavaScript would read differently. */
void lmi_put_json_in_html(lmi_buf *b, const char *s);
void lmi_put_csv(lmi_buf *b, const char *s); /* quoted if RFC 4180 requires it */

/* ANSI styles. */
#define LMI_BOLD "1"
#define LMI_DIM  "2"
#define LMI_WARN "33"
#define LMI_BAR  "37;44" /* both colours are named, so a bar's text can be read on any background */
void lmi_paint(lmi_job *j, const char *style, const char *text, size_t n);

/* -- above and below lamina's table ---------------------------------------------------------------------- */

/* The lines above and below the table: `say` is called for each item. label NULL: it follows the item before;
 * "": it begins a line under the same label; else it begins a line with that label. */
typedef void (*lmi_item_fn)(void *to, const char *style, const char *label, const char *text);
lam_status lmi_head_items(lmi_job *j, lmi_item_fn say, void *to);
lam_status lmi_foot_items(lmi_job *j, lmi_item_fn say, void *to);
/* Builds items in `text`: `lmi_items_send` sends the item; `lmi_items_end`, after the last, returns LAM_NOMEM
 * if memory ran out. */
typedef struct lmi_items {
    lmi_job *j;
    lmi_item_fn say;
    void *to;
    lmi_buf text;
} lmi_items;
void lmi_items_begin(lmi_items *s, lmi_job *j, lmi_item_fn say, void *to);
void lmi_items_send(lmi_items *s, const char *style, const char *label);
lam_status lmi_items_end(lmi_items *s);
/* Says whether everything was counted, and with `why` lists each reason and note (reasons.c). */
void lmi_items_complete(lmi_items *s);
lam_status lmi_items_reasons(lmi_items *s);

/* -- figures: the keys of sorting and shares (sort_keys.c) ----------------------------------------------- */

/* LMI_FIGURE_NO: there is none of that name to sort by; name NULL: the default. */
lmi_figure lmi_sorted_by(const lmi_job *j, const char *name);
/* Checks that `sort`, `by` and `rows` are possible. */
lam_status lmi_figures_check(const lmi_job *j, lam_error *e);
/* Errors where times, or memory, were not measured: what measures them, or that nothing of a file does. */
lam_status lmi_no_times(const lam_model *m, const char *where, lam_error *e);
lam_status lmi_no_memory(const lam_model *m, lam_error *e);
/* False if a line's number is unknown; *out is then the known part. */
bool lmi_figure_of_line(lmi_figure k, const lmi_line *l, double *out);
void lmi_cell_share(const lmi_line *l, lmi_buf *out);
double lmi_share(const lmi_line *l); /* 0 to 1; -1 where the cell has no number */
/* True if the options request a list, largest first, in place of the tree. */
bool lmi_wants_list(const lam_report_options *o);

/* -- memory (memory.c) --------------------------------------------------------------------------------- */

/* A number of lam_memory_use, at an offset in it, of a place or its own work, with what was recomputed in a
 * backward. */
void lmi_put_use(const lmi_line *l, const lam_memory *y, lam_phase phase, size_t at, lmi_buf *out);
void lmi_cell_at_peak(const lmi_line *l, lmi_buf *out);
bool lmi_has_backward_memory(const lam_memory *y); /* NULL: no */
/* True if memory is shown, and the place itself allocated or held some. */
bool lmi_has_own_memory(const lmi_line *l);
void lmi_tell_memory(lmi_items *s);

#endif
