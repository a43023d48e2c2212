/* SPDX-License-Identifier: Apache-2.0
 * page: the report as one HTML file, written from an outline. What it shows at first is in the file; its
 * script (report.js) replaces that by an interactive version, and adds the panel of the selected module.
 *
 * page.c: the file. verdict.c: the tiles and the sentence on exactness. findings.c: what to do first.
 * table.c: the modules. tokens.c: a language model in tokens. sources.c: what holds the peak, the tables
 * behind pictures, how it was measured. changes.c: differences. data.c: the block of data that the script
 * reads. part.c: the frame of a part of the page in a notebook. numbers.c, links.c: helpers. */
#ifndef LMI_REPORT_PAGE_H
#define LMI_REPORT_PAGE_H

#include "report/picture/picture.h"
#include "report/picture/text.h"

enum { LMI_PAGE_CELL = 46, LMI_PAGE_LINK = 60, LMI_PAGE_TITLE = 200,
       LMI_PAGE_LONG = 300, LMI_PAGE_PICTURE = 1008,
       LMI_PAGE_CHART = 900 /* memory over time and the roofline; on a narrow screen they scroll */ };

/* A number that every section can be viewed by, in the forward pass or, by the script, in a step. */
typedef struct lmi_page_number {
    const char *key; /* in links and in the script: "macs" */
    lmi_picture_options of;
} lmi_page_number;

typedef struct lmi_page {
    const lmi_outline *o;
    const lam_page_options *options;
    lmi_buf out;
    lam_sink to;
    lam_error *e;
    int32_t n_numbers; /* those that the model has, in the order of columns and tiles */
    lmi_page_number number[LMI_N_FIGURES];
    const lam_tokens *tokens; /* of a language model that ran, and the costs that they are of; NULL: none */
    const lam_costs *costs;
    int32_t by; /* which number the page shows at first: MACs, else the first */
} lmi_page;

/* Starts a page whose text goes to `to`: lmi_page_flush sends the gathered text if it is long. */
void lmi_page_start(lmi_page *p, const lmi_outline *o, const lam_page_options *options, lam_sink to,
                    lam_error *e);
lam_status lmi_page_flush(lmi_page *p);
/* The file down to its title, which the caller writes, and from there to the end of its head. `script`: the
 * hash of the script that may run, NULL: none. `kind`: what the file is, "report". */
void lmi_page_begin(lmi_buf *b, const char *script);
void lmi_page_titled(lmi_buf *b, const char *kind);
/* NULL: the page does not have it. */
const lmi_page_number *lmi_page_number_of(const lmi_page *p, lmi_figure by);
bool lmi_page_is_measured(const lmi_page_number *n); /* times and memory: no convention counts them */
lam_status lmi_page_write(lmi_page *p);
/* Writes ` id="..."`; nothing in a part, since a document may have several. */
void lmi_page_id(lmi_page *p, const char *id);
/* A part's element with its style, for a notebook. `label`: what it is, for readers who do not see it. */
void lmi_part_begin(lmi_buf *b, const char *label);
void lmi_part_end(lmi_buf *b);
/* A number of the whole model: shared parameters count once, and of memory it is the peak. */
lam_count lmi_page_total(const lmi_page *p, const lmi_page_number *n);
lam_count lmi_page_total_of(const lmi_outline *o, const lmi_page_number *n);
/* The same of a place: at and below it; of the root the whole model's. -1: of no place, which is 0. */
lam_count lmi_page_count(const lmi_outline *o, const lmi_page_number *n, int32_t place);
/* The same number of a step, forward and backward; whether any place has one. */
lmi_page_number lmi_page_step(const lmi_page_number *n);
bool lmi_page_has_step(const lmi_outline *o, const lmi_page_number *n);
void lmi_page_put_total(lmi_page *p, const lmi_page_number *n);
/* ", forward" if a backward could be added, ", forward + backward" if it is. */
const char *lmi_page_phase(const lmi_page_number *n);

/* -- parts of the file; each function writes one element or more ----------------------------------------- */

void lmi_page_verdict(lmi_page *p);
void lmi_page_findings(lmi_page *p);
lam_status lmi_page_table(lmi_page *p);
/* Writes as many levels as a script would open at once, for a part: the table folds but has no script. */
lam_status lmi_page_deeper_table(lmi_page *p);
void lmi_page_holders(lmi_page *p);        /* what holds the peak */
bool lmi_page_has_speeds(const lmi_page *p); /* true if a roofline has a point */
void lmi_page_speeds_say(lmi_page *p);     /* the shares of time that compute and memory bound */
void lmi_page_speeds(lmi_page *p);
const lmi_level *lmi_page_top_level(const lmi_page *p); /* NULL: not taken */
void lmi_page_lines(lmi_page *p); /* the lines of the top level, as a table */
void lmi_page_sources(lmi_page *p);
void lmi_page_tokens(lmi_page *p); /* of p->tokens */
void lmi_page_data(lmi_page *p); /* a JSON object that fits into an element */

/* -- names and links (links.c) --------------------------------------------------------------------------- */

/* Writes a name between <bdi> tags: a name from right to left then does not reorder the numbers beside it. */
void lmi_page_name(lmi_page *p, const char *name, int32_t columns);
void lmi_put_bdi(lmi_buf *b, const char *name, int32_t columns); /* the same */
/* The path of a place as text, the root's type for the root. */
void lmi_page_path(lmi_page *p, int32_t place, int32_t columns);
/* Writes a link that selects the place in all sections. */
void lmi_page_link(lmi_page *p, int32_t place);
void lmi_page_link_to(lmi_page *p, const char *path);
int32_t lmi_page_find(lmi_page *p, const char *path); /* the place at a path; -1: none */

/* -- differences (changes.c); these write nothing on a page of one model --------------------------------- */

/* Writes "A → B", the names of both; for one model its type. */
void lmi_page_put_names(lmi_page *p, int32_t columns);
void lmi_page_put_title(lmi_page *p); /* the same, without elements */
/* Writes a text of both if it differs: "was → now". */
void lmi_page_put_both(lmi_page *p, const char *was, const char *now, int32_t columns);
void lmi_page_put_was(lmi_page *p, const lmi_page_number *n); /* "was 1.81 G, +102 %" */
/* Writes the difference of a place's number, as an element. */
void lmi_page_put_change(lmi_page *p, const lmi_page_number *n, int32_t place);
void lmi_page_put_sign(lmi_page *p, int32_t place); /* "+ added", "− removed", "~ changed", "> renamed" */
void lmi_page_changes_say(lmi_page *p);
bool lmi_page_is_alike(const lmi_outline *both); /* true if both are counted by one convention */
/* True if both have a number, and count it by one convention if it is counted. */
bool lmi_page_is_comparable(const lmi_outline *both, const lmi_page_number *n);
void lmi_page_unlike_say(lmi_page *p);
void lmi_page_put_unlike(lmi_page *p); /* items on what differs between the runs */

/* -- the template, made by cmake/page.cmake of report.css and report.js ---------------------------------- */

extern const unsigned char lmi_page_css[], lmi_page_js[];   /* texts */
extern const char lmi_page_css_sum[], lmi_page_js_sum[]; /* SHA-256 in base64 */

#endif
