/* SPDX-License-Identifier: Apache-2.0
 * Histograms (bins.c), and summaries of the layers of many steps (rollup.c). */
#ifndef LMI_STORE_BINS_H
#define LMI_STORE_BINS_H

#include "store/read.h"

/* -- one number of many steps (bins.c) ------------------------------------------------------------------- */

typedef struct lmi_bin {
    uint32_t at; /* the bin's index */
    uint64_t n;  /* the count in it, each number as often as its weight */
} lmi_bin;
typedef struct lmi_bins {
    lmi_bin *all; /* the bins that are not empty, in order */
    uint32_t n, cap;
    int64_t numbers; /* how many were added, without their weights */
} lmi_bins;
enum { LMI_BINS = 256 + 46 * 64 }; /* the number of bins, for values up to LMI_MOST */

void lmi_bins_free(lmi_bins *b);
/* Adds a value from 0 to LMI_MOST with a weight from 1 to INT32_MAX; a negative value is unknown and left
 * out. False: memory ran out. At most UINT32_MAX values can be added. */
bool lmi_bins_add(lmi_bins *b, int64_t value, int64_t weight);
/* The median and the median deviation from it: exact up to 255, above within 0.8 % and 1.6 % of the
 * median. */
lam_middle lmi_bins_middle(const lmi_bins *b);
/* Encodes numbers of weight 1 as bytes: twice the number of bins, then for each twice its distance from the
 * previous one, plus 1 if its count follows, which else is 1. */
void lmi_bins_put(const lmi_bins *b, lmi_buf *to);
/* Instead of bins that are those of an earlier number: twice its index, plus 1. */
void lmi_bins_put_same(int number, lmi_buf *to);
/* Reads that index, and moves `*at` past it; -1: bins follow. */
int lmi_bins_same(const unsigned char **at, const unsigned char *end);
/* Adds encoded bins, each number with `weight`, and moves `*at` past them; `old`: of before version 7 of the
 * tables. Returns LAM_RANGE if the bytes are invalid or hold more than `most` numbers, LAM_NOMEM if memory
 * ran out; sets no message. */
lam_status lmi_bins_get(lmi_bins *b, const unsigned char **at, const unsigned char *end, int64_t most,
                        int64_t weight, bool old);
/* Varints as in protobuf. */
void lmi_put_varint(lmi_buf *b, uint64_t n);

/* -- the layers of many steps (rollup.c) ----------------------------------------------------------------- */

enum { LMI_N_NUMBERS = 16, LMI_FIRST_NUMBERS = 15 /* before version 5 of the tables */ };
/* The offsets of each number of a layer in lmi_measure, and of its median in lam_recorded_place, in the order
 * of the file. */
typedef struct lmi_number {
    size_t measure, place;
} lmi_number;
extern const lmi_number lmi_numbers[LMI_N_NUMBERS];

typedef struct lmi_layer_sum {
    int64_t steps, looked, nonfinite; /* looked: for NaN and Inf */
    lmi_bins of[LMI_N_NUMBERS];
} lmi_layer_sum;
typedef struct lmi_layer_sums {
    int32_t n;           /* places */
    lmi_layer_sum **all; /* NULL: a place without rows */
} lmi_layer_sums;

/* `n` places. Free it also on failure. */
lam_status lmi_sums_new(lmi_layer_sums *s, int32_t n, lam_error *e);
void lmi_sums_free(lmi_layer_sums *s);
/* Adds the rows of one step. */
lam_status lmi_sums_add(lmi_layer_sums *s, const lmi_measure *rows, size_t n, lam_error *e);
/* Adds the layers of a rollup in the file, each step with `weight`. */
lam_status lmi_sums_read(const lmi_db *d, const lmi_rollup *of, int64_t weight, lmi_layer_sums *s,
                         lam_error *e);

/* Reads the rollups of a model, without their layers; there may be none. */
lam_status lmi_read_rollups(lam_recording *r, lmi_root *root, lam_error *e);
/* A recorded step in the file. */
typedef struct lmi_raw {
    int64_t id, unix_ns;
} lmi_raw;
/* Writes rollups of steps of one mode and hour, in their order, of a model of a run that records by `every`,
 * and deletes the rows of their layers. Steps that represent fewer than most stay as they are. */
lam_status lmi_roll_up(const lmi_db *d, int64_t model, int32_t every, const lmi_raw *steps, size_t n,
                       lam_error *e);
/* Replaces the rollups of a model that begin in that time, until `to`, by one of each kind. */
lam_status lmi_merge_rollups(const lmi_db *d, int64_t model, int64_t from_unix_ns, int64_t to_unix_ns,
                             lam_error *e);
/* Merges the rollups of each day that is two weeks or more before `unix_ns`. */
lam_status lmi_merge_days(const lmi_db *d, int64_t model, int64_t unix_ns, lam_error *e);
/* The start of the hour. */
int64_t lmi_hour_of(int64_t unix_ns);

#endif
