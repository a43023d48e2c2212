/* SPDX-License-Identifier: Apache-2.0
 * many: a run of many ranks on a page. many.c: the page of a run's folder, its verdict and tiles. heat.c: who
 * is late, over time. course.c: steps over time. beside.c: phases of the named ranks beside the others'.
 * origins.c: where each number comes from. cells.c: cells of tables, links. */
#ifndef LMI_REPORT_MANY_H
#define LMI_REPORT_MANY_H

#include "report/page/page.h"
#include "report/picture/svg.h"
#include "report/ranks/ranks.h"

/* Where a number comes from; each is a row of the last section, which links lead to. */
typedef enum lmi_many_origin {
    LMI_FROM_RANKS,
    LMI_FROM_STEPS,
    LMI_FROM_GAIN,
    LMI_FROM_WINDOWS,
    LMI_FROM_NODES,
    LMI_FROM_LAST,
    LMI_FROM_MFU,
    LMI_N_ORIGINS
} lmi_many_origin;

typedef struct lmi_many {
    const lam_ranks *r;
    lmi_buf *b;
    lam_error *e;
    const char *name; /* of the run's folder; NULL: it is of recordings */
} lmi_many;

/* The verdict as findings, what is noted beside it included: items of a list. */
void lmi_many_findings(lmi_many *p);
/* The sections: phases, who is late over time, steps over time. */
lam_status lmi_many_sections(lmi_many *p);
void lmi_many_nav(lmi_many *p); /* links to them */
lam_status lmi_many_heat(lmi_many *p);
void lmi_many_course(lmi_many *p);
void lmi_many_beside(lmi_many *p);
void lmi_many_origins(lmi_many *p);                   /* a section */
extern const char *const lmi_many_ids[LMI_N_ORIGINS]; /* of the rows of the last section */
/* A link to where a number comes from; the caller writes what is between them. */
void lmi_many_from(lmi_many *p, lmi_many_origin of);
void lmi_many_from_end(lmi_many *p);
/* A head of a table, with that link. */
void lmi_many_head(lmi_many *p, const char *title, lmi_many_origin of);
void lmi_many_us(lmi_many *p, double us); /* a cell */
void lmi_many_put_us(lmi_buf *b, double us);
/* A table that can be scrolled, behind a summary if it is folded. */
void lmi_many_table(lmi_many *p, const char *label, bool folded);
void lmi_many_table_end(lmi_many *p, bool folded);

#endif
