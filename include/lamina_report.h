/* SPDX-License-Identifier: Apache-2.0
 *
 * Reports, a part of lamina.h.
 * A model's costs as text, and numbers as text. */
#ifndef LAMINA_REPORT_H
#define LAMINA_REPORT_H

#include "lamina_analyse.h"

#ifdef __cplusplus
extern "C" {
#endif

/* == Reports =========================================================================================== */

/* Reads a report that was saved as JSON as a model. Its costs, memory and health are those of the file; what
 * needs the run itself, such as another convention, is LAM_USAGE. Free it with lam_model_free. LAM_IO: the
 * file can't be read; LAM_FAILED: it is no such report; LAM_LIMIT: it is too large. */
LAM_API lam_status lam_model_load(lam_model **out, const char *file, lam_error *e);
LAM_API const char *lam_model_file(const lam_model *m); /* the file that it was read from; NULL: it ran */

struct lam_report_options;
/* Writes the table of a layout of another tool. */
typedef lam_status (*lam_layout)(void *self, const lam_costs *c, const struct lam_report_options *o,
                                 lam_sink to, lam_error *e);
typedef struct lam_report_options {
    const char *layout; /* "lamina" (default), "torchscan-0.1.2", "torchscan-0.1.1", "thoplw" */
    /* "text" (default), "csv", "md", "json", "html": the page of lam_page_write; a timeline: "trace"
     * (Chrome's trace events, which Perfetto reads) or "speedscope" */
    const char *format;
    int32_t width;     /* columns of the terminal; 0: 100 */
    int32_t max_depth; /* -1: no limit. The lamina layout folds deeper rows into their ancestor */
    bool color, ascii, exact, expand; /* ANSI colours; no UTF-8; full digits; no folding of equal siblings */
    bool bars; /* with `color`, unless `ascii`: a bar as long as the share, behind the two columns that show
                * the number and its share */
    bool receptive_field;
    bool time;     /* the time of each row, if times were measured */
    lam_peak peak; /* not 0: with `time` also the speed relative to it, if FLOPs and bytes are counted */
    bool memory;   /* the memory that each row allocated and retained, if it was measured */
    bool page;     /* json has the graph and the formulas too, which a page of the saved report shows */
    bool bytes;    /* elements moved, bytes read and written, arithmetic intensity, if they are counted */
    /* Of the lamina layout. why: every reason, shared tensor and note. by: the column whose share is `%`:
     * "macs", "flops", "params", "dmas", "bytes", "backward_macs", "backward_flops", "time" or "memory";
     * NULL: that of `sort`, else "time" with `time`, else "macs". sort: a list of layers instead of the tree,
     * the largest of this column first; NULL: the tree, or with `rows` > 0 a list by `by`. rows: the length
     * of the list. command: hints name the command's options. next: a target and its inputs, for a last line
     * with other commands; NULL: none */
    bool why, command;
    const char *by, *sort, *next;
    int32_t rows;
    /* Writes the layouts of torchscan and thoplw, as the Python package does; NULL: LAM_UNSUPPORTED */
    lam_layout lay_out;
    void *lay_out_self;
} lam_report_options;
/* Sets `o` to the defaults above. */
LAM_API void lam_report_defaults(lam_report_options *o);
/* Writes costs under the options (NULL: the defaults). json and html are the same for every layout. Every
 * line ends with a newline. LAM_USAGE for an unknown layout or format; the sentence lists the known ones. */
LAM_API lam_status lam_report_write(const lam_costs *c, const lam_report_options *o, lam_sink to,
                                    lam_error *e);
/* What must be asked for so that a number is known: columns of bytes and elements moved; a backward pass;
 * times; memory; that a language model generates (lam_tokens); recordings of a run (lam_check_recordings). */
typedef enum lam_needs {
    LAM_NEEDS_NOTHING,
    LAM_NEEDS_COLUMNS,
    LAM_NEEDS_BACKWARD,
    LAM_NEEDS_TIMES,
    LAM_NEEDS_MEMORY,
    LAM_NEEDS_TOKENS,
    LAM_NEEDS_RECORDINGS
} lam_needs;
/* Of the number called `name`, as "macs" or "peak"; of none LAM_NEEDS_NOTHING. */
LAM_API lam_needs lam_number_needs(const char *name);

/* == Pictures ==========================================================================================
 * Complete SVG files: readable on light and dark pages, without a script, nothing loaded. */

typedef struct lam_plot_options {
    /* "icicle": the tree, each box as wide as its share. "graph": the data flow between the modules of the
     * top level. "memory": memory in use over time. "roofline": each layer's speed and the machine's
     * limits */
    const char *kind;
    int32_t width; /* units of the SVG; 0: 1008. Ignored by "graph", whose width follows from its nodes */
    /* for "icicle" and "graph": "params", "param_bytes", "macs", "flops", "bytes", "time", "memory"
     * (allocated by the forward) or "peak" (held at the peak); NULL: "macs", or "params" if there are no
     * MACs */
    const char *by;
    bool backward; /* the backward's numbers are added to the forward's */
    lam_peak roof; /* for "roofline": the best that the machine reaches */
} lam_plot_options;
/* Writes the picture as one <svg> element. LAM_USAGE: there is no such kind, or its numbers were not
 * measured; the sentence says how to measure them. */
LAM_API lam_status lam_plot_write(const lam_costs *c, const lam_plot_options *o, lam_sink to, lam_error *e);

/* Writes why a row has its numbers: each with its formula and the values put in, as `lamina why` does.
 * `facts`: also each rule's own text and every fact; `ascii`: no other letters. LAM_RANGE: there is no such
 * row. */
LAM_API lam_status lam_why_write(const lam_costs *c, int32_t row, bool facts, bool ascii, lam_sink to,
                                 lam_error *e);

/* A model among others; models of one family have one colour and are joined by a line. */
typedef struct lam_scatter_point {
    const char *name, *family;
    int64_t params, macs;
} lam_scatter_point;
/* Writes MACs against parameters of `n` models, both on logarithmic scales. LAM_RANGE: one is not above 0. */
LAM_API lam_status lam_scatter_write(const char *title, const lam_scatter_point *at, int32_t n, lam_sink to,
                                     lam_error *e);

/* The report of InspectorGadgets of torch_inspector 0.1.0: JSON keyed by the names of the tree, with that
 * tool's fields; null: not measured. docs/torch_inspector.md describes the fields. */
typedef struct lam_gadget_options {
    int32_t max_depth;      /* deeper layers are left out; -1: no limit */
    bool forward, backward; /* false: the fields of that phase are null */
} lam_gadget_options;
typedef struct lam_gadgets lam_gadgets;
/* Computes the report of model `m`, which must outlive the result. */
LAM_API lam_status lam_gadgets_new(lam_gadgets **out, const lam_model *m, lam_error *e);
LAM_API void lam_gadgets_free(lam_gadgets *g); /* NULL is allowed */
/* Writes the report. `o` NULL: everything. */
LAM_API lam_status lam_gadgets_write(const lam_gadgets *g, const lam_gadget_options *o, lam_sink to,
                                     lam_error *e);

/* -- the page ------------------------------------------------------------------------------------------
 * One HTML file with all results: verdict, modules, the icicle of their shares, memory over time, the
 * machine's limits, the graph, and how they were measured. It loads nothing and sends nothing, and can be
 * read without its script. docs/command.md describes it. */
typedef struct lam_page_options {
    const char *target; /* the model that ran, as its user named it; NULL: left out */
    const char *ran;    /* why only a part of the model ran, a sentence; NULL: all of it ran */
    lam_peak roof;      /* the best that the machine reaches; 0: unknown, no speed is compared with it */
    bool command;       /* hints at further measurements name the command's options */
    bool part;          /* the verdict, the icicle and the modules alone, as one element for a notebook: its
                         * style applies inside it only, and it has no script, no id and no heading */
    /* For a page of the difference: the costs before, or a report that was saved as JSON before; both NULL:
     * none. Modules are matched by path, then by equal types, shapes and counts. `before`: the earlier
     * target. */
    const lam_costs *costs_before;
    const char *file_before, *before;
} lam_page_options;
/* Writes the page of `c`. `o` NULL: the defaults, all 0. */
LAM_API lam_status lam_page_write(const lam_costs *c, const lam_page_options *o, lam_sink to, lam_error *e);
/* Writes the page of a report that was saved as JSON. LAM_IO: it can't be read; LAM_FAILED: it is no
 * report. */
LAM_API lam_status lam_page_of(const char *file, const lam_page_options *o, lam_sink to, lam_error *e);

/* == Budgets ===========================================================================================
 * A model's totals are compared with limits: numbers, or a report that was saved before. A total that is not
 * complete is never within its limit, unless lam_budget_allow_incomplete was called. */

typedef struct lam_budget lam_budget;
LAM_API lam_status lam_budget_new(lam_budget **out, lam_error *e);
LAM_API void lam_budget_free(lam_budget *b); /* NULL is allowed */
/* Adds a limit: "macs=2G", "peak=200MiB", "time=20ms", "straggler=5%". LAM_USAGE: there is no such metric or
 * unit (the sentence lists the known ones), or the metric has a limit already. */
LAM_API lam_status lam_budget_max(lam_budget *b, const char *limit, lam_error *e);
/* Reads a number of bytes as a limit has it: "80GB", "200MiB". */
LAM_API lam_status lam_budget_bytes(const char *text, int64_t *out, lam_error *e);
/* Reads a report saved as JSON, whose totals are limits. LAM_IO: it can't be read; LAM_FAILED: it is no
 * report. */
LAM_API lam_status lam_budget_baseline(lam_budget *b, const char *file, lam_error *e);
/* Sets by how much totals may exceed the baseline: "5%", or for one metric "macs=0.5%". */
LAM_API lam_status lam_budget_within(lam_budget *b, const char *share, lam_error *e);
/* Compares the known part of a total that is not complete. */
LAM_API void lam_budget_allow_incomplete(lam_budget *b);
/* The measurements that the budget needs of a run. `any` false: it limits nothing. */
typedef struct lam_budget_needs {
    bool any, backward, time, memory, tokens, recordings;
} lam_budget_needs;
LAM_API lam_budget_needs lam_budget_wants(const lam_budget *b);
/* Checks that the convention (NULL: the default) counts each metric that is limited by name, and that all
 * limits are of one kind: of one run of a model, of one that generates (in tokens), or of recordings; else
 * LAM_USAGE. */
LAM_API lam_status lam_budget_fits(const lam_budget *b, const char *convention, lam_error *e);

typedef enum lam_verdict { /* the worse the greater */
                           LAM_WITHIN,
                           LAM_NOT_COMPLETE,
                           LAM_OVER,
                           LAM_CHECK_FAILED /* there were no totals to compare */
} lam_verdict;
LAM_API const char *lam_verdict_name(lam_verdict v); /* "within", "not complete", "over", "failed" */
typedef struct lam_check lam_check;
/* Compares a model's costs with a budget and finds the layers that made a total exceed its limit; with a
 * baseline, those that grew or are new. `name`: the model's name in texts. The costs and the budget may be
 * freed afterwards. LAM_USAGE: a total was not measured, or the baseline was counted otherwise. */
LAM_API lam_status lam_check_new(lam_check **out, const char *name, const lam_costs *c, const lam_budget *b,
                                 lam_error *e);
/* Makes the check of a model that could not be run: LAM_CHECK_FAILED, with the sentence of `why`. */
LAM_API lam_status lam_check_failed(lam_check **out, const char *name, const lam_error *why, lam_error *e);
LAM_API void lam_check_free(lam_check *k);                 /* NULL is allowed */
LAM_API lam_verdict lam_check_verdict(const lam_check *k); /* the worst of its limits */
/* Writes checks as "text" (format NULL), "json", "md", "junit" (XML) or "github" (workflow commands, none for
 * totals within their limits). Text leaves out checks without limits. LAM_USAGE: there is no such format. */
LAM_API lam_status lam_checks_write(const lam_check *const *checks, int32_t n, const char *format,
                                    lam_sink to, lam_error *e);

/* == Numbers as text ===================================================================================
 * Like snprintf: each function writes at most `size` bytes with the final NUL and returns the full length. */

LAM_API int lam_text_count(char *buf, size_t size, lam_count c, bool exact); /* "1.81 G", ">= 1.81 G", "?" */
LAM_API int lam_text_digits(char *buf, size_t size, lam_count c);            /* "1814073344", ">= 5", "?" */
LAM_API int lam_text_bytes(char *buf, size_t size, lam_count bytes);         /* IEC: "97.7 MiB" */
LAM_API int lam_text_shape(char *buf, size_t size, lam_shape s, const char *separator); /* "1,64,112,112" */
/* "12.3 ms", "410 us", "85 ns"; "?" if ns is negative. As lam_text_count. */
LAM_API int lam_text_time(char *buf, size_t size, int64_t ns);

#ifdef __cplusplus
}
#endif
#endif
