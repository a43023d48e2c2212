/* SPDX-License-Identifier: Apache-2.0
 * nodes: lamina's table as text and Markdown: the tree of places behind it, and its columns. */
#ifndef LMI_REPORT_NODES_H
#define LMI_REPORT_NODES_H

#include "report/table/report.h"

typedef struct lmi_node {
    lmi_line line;                     /* sums over everything at and below; calls: made at or below */
    lmi_line self;                     /* the place's own rows alone */
    int32_t parent, first_child, next; /* -1: none */
    int32_t fold;  /* the number of equal siblings that this node represents; 0: another represents it */
    int32_t last;  /* the last of them */
    int64_t times; /* product of the folds above and here: its times are the sum over that many */
    bool used, has_rows;
} lmi_node;

typedef struct lmi_nodes {
    lmi_arena arena;
    int32_t n, first; /* first: the topmost node shown, -1 none */
    lmi_node *at;
    lmi_line whole;   /* the topmost node's, for shares */
    lmi_line outside; /* what ran outside all calls, a line below the root; outside.outside false: nothing */
    bool flat;        /* a list by size and no tree: names are paths */
    int32_t left_out; /* the number of lines that the list leaves out */
} lmi_nodes;

/* The tree that is shown, folded or as a list by the options. Free it also on failure. */
lam_status lmi_nodes_build(lmi_nodes *t, const lmi_job *j);
void lmi_nodes_free(lmi_nodes *t);
/* True if the node's children are shown below it. */
bool lmi_nodes_open(const lmi_nodes *t, const lmi_job *j, int32_t i);
/* True if the node represents several, each with the same numbers. */
bool lmi_nodes_each(const lmi_nodes *t, int32_t i);
/* The next node among i's siblings that is shown, and the one shown after i from top to bottom; -1: none. */
int32_t lmi_nodes_sibling(const lmi_nodes *t, int32_t i);
int32_t lmi_nodes_next(const lmi_nodes *t, const lmi_job *j, int32_t i);
/* The node's line: if it represents several, the numbers of one and the mean of times. */
void lmi_nodes_line(const lmi_nodes *t, int32_t i, lmi_line *out);
/* Name, range and class in at most `room` columns. The class is cut first, then left out, then the name is
 * cut; the range stays as long as it can. */
void lmi_nodes_label(const lmi_nodes *t, int32_t i, size_t room, bool ascii, lmi_buf *out);
/* The marks of a node: " (2 calls)", " [never called]", " [called elsewhere]", " tied to 0.weight" or, if
 * `brief`, " [tied]". */
void lmi_nodes_marks(const lmi_nodes *t, int32_t i, bool brief, lmi_buf *out);

/* The columns that this report shows: without metrics that the convention does not count, with or without the
 * receptive field; the share follows its column. */
void lmi_own_columns(const lmi_job *j, lmi_columns *out);

#endif
