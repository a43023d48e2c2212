/* SPDX-License-Identifier: Apache-2.0
 * diff: the difference of two models, saved reports or recordings, from their outlines.
 *
 * diff.c: the whole. side.c: the numbers of each side. recorded.c: a recording as an outline. said.c: why
 * some can't be compared. folded.c: what explains the difference. lines.c: the modules that differ.
 * places.c, numbers.c: helpers for a place, and for differences of numbers. write.c: text and Markdown.
 * tell.c: JSON. */
#ifndef LMI_REPORT_DIFF_H
#define LMI_REPORT_DIFF_H

#include "report/outline/outline.h"

lmi_figure lmi_diff_find(const char *name); /* LMI_N_FIGURES: there is none */

typedef struct lmi_diff_side {
    lmi_outline o;
    const char *name, *kind, *ran; /* kind: "model", "report" or "recording"; ran as in lam_diff_side */
    lam_recording *recording;      /* NULL: it is not a recording */
    int32_t model;                 /* of the recording, -1: none */
    bool device;                   /* times are by a GPU's clock */
    int64_t *spread[LMI_N_OWN];    /* the deviations of medians; NULL: unknown */
} lmi_diff_side;

struct lam_diff {
    lmi_arena arena;
    lmi_diff_side side[2]; /* before, after */
    lmi_outline both;
    bool by_place[LMI_N_FIGURES], whole[LMI_N_FIGURES]; /* both sides have it, and it can be compared */
    int32_t n_said, n[LMI_RENAMED + 1];                 /* n: the number of places by lmi_change */
    const char **said;                                  /* sentences: what is not compared, and why */
    const char *explained; /* a sentence that explains the difference; NULL: none does */
    bool *moved;           /* of a place of both: its path or its name was another */
};

/* -- sides (side.c, recorded.c) -------------------------------------------------------------------------- */

lam_status lmi_diff_open(lmi_diff_side *s, const lam_diff_side *from, lam_error *e);
lam_status lmi_diff_take(lmi_diff_side *s, const lam_diff_side *from, lam_error *e);
void lmi_diff_close(lmi_diff_side *s);
/* Chooses which steps of recordings are compared, and by which clock. */
void lmi_diff_choose(lmi_diff_side side[2]);
lam_status lmi_recorded_outline(lmi_diff_side *s, lam_error *e);
/* NULL: the side is not a recording. */
const lam_recorded_model *lmi_diff_recorded(const lmi_diff_side *s);
/* True if the side has a metric: of each place, of the whole. */
bool lmi_diff_has(const lmi_diff_side *s, lmi_figure k);
bool lmi_diff_has_whole(const lmi_diff_side *s, lmi_figure k);
lam_count lmi_diff_whole(const lmi_diff_side *s, lmi_figure k);
int64_t lmi_diff_whole_spread(const lmi_diff_side *s, lmi_figure k); /* -1: unknown */

/* -- a place of both (places.c) -------------------------------------------------------------------------- */

/* Its index before (0) or after (1); -1: it does not exist there. */
int32_t lmi_diff_at(const lam_diff *d, int side, int32_t place);
const lmi_outline_place *lmi_diff_outlined(const lam_diff *d, int side, int32_t place); /* NULL: none */
void lmi_diff_path(const lam_diff *d, int side, int32_t place, lmi_buf *out); /* of one that exists */

/* -- differences of numbers (numbers.c) ------------------------------------------------------------------ */

/* ROUGHLY: both numbers are lower bounds, and the delta is that of the known parts. */
typedef enum lmi_certainty {
    LMI_DELTA_EXACT,
    LMI_DELTA_AT_LEAST,
    LMI_DELTA_AT_MOST,
    LMI_DELTA_ROUGHLY,
    LMI_DELTA_UNKNOWN
} lmi_certainty;
extern const char *const lmi_certainty_name[LMI_DELTA_UNKNOWN + 1];
typedef struct lmi_delta {
    lmi_int128 n;
    lmi_certainty how;
} lmi_delta;
lmi_delta lmi_delta_of(lam_count was, lam_count now);
double lmi_delta_size(lmi_delta d);
/* False if there is no percentage: a number is not exact, or the old one is 0. */
bool lmi_delta_percent(lam_count was, lam_count now, double *out);
void lmi_put_delta(lmi_buf *b, lmi_figure k, lmi_delta d, bool exact); /* "+1.2 M", ">= -5", "?" */
void lmi_put_relative(lmi_buf *b, lam_count was, lam_count now);       /* "+12%", "new", "gone", "" */
void lmi_put_number(lmi_buf *b, lmi_figure k, lam_count c, bool exact);

/* -- the modules that differ (lines.c) ------------------------------------------------------------------- */

typedef struct lmi_diff_line {
    int32_t place;     /* of both */
    uint8_t change;    /* lmi_change */
    bool moved, whole; /* whole: with everything in it */
    int32_t modules;   /* modules in the line; of a whole that is in both: those that differ */
    lam_count was[LMI_N_FIGURES], now[LMI_N_FIGURES];
} lmi_diff_line;
typedef struct lmi_diff_lines {
    lmi_vec at; /* lmi_diff_line, the largest difference first */
    lmi_figure by;
} lmi_diff_lines;
/* `by` NULL: the first metric that differs. depth -1: no limit. */
lam_status lmi_diff_list(lmi_diff_lines *l, const lam_diff *d, const char *by, int32_t depth, lam_error *e);
void lmi_diff_count(lam_diff *d); /* fills moved and n */

/* -- writing (said.c, write.c, tell.c) ------------------------------------------------------------------- */

lam_status lmi_diff_say(lam_diff *d, lam_error *e);
/* Writes that normalisations are folded in a file, if that explains the difference; else returns false. */
bool lmi_diff_folded(const lam_diff *d, lmi_buf *out);
/* True if both sides have a metric, and what differs elsewhere forbids to compare it. */
bool lmi_diff_is_unlike(const lam_diff *d, lmi_figure k, lmi_setup_change *why);
lam_status lmi_diff_text(const lam_diff *d, const lmi_diff_lines *l, const lam_diff_options *o, lam_sink to,
                         lam_error *e);
lam_status lmi_diff_json(const lam_diff *d, const lmi_diff_lines *l, lam_sink to, lam_error *e);
#endif
