/* SPDX-License-Identifier: Apache-2.0
 * Many numbers in little memory (bins.c), and what is kept of the layers of many steps (rollup.c). */
#ifndef LMI_STORE_BINS_H
#define LMI_STORE_BINS_H

#include "store/read.h"

/* -- one number of many steps (bins.c) ------------------------------------------------------------------- */

typedef struct lmi_bin {
    uint32_t at, n; /* which bin it is, how many are in it */
} lmi_bin;
typedef struct lmi_bins {
    lmi_bin *all; /* those with something in them, in order */
    uint32_t n, cap;
} lmi_bins;
enum { LMI_BINS = 48 * 128 }; /* that there can be: up to LMI_MOST */

void lmi_bins_free(lmi_bins *b);
/* One more from 0 to LMI_MOST; one below 0 is unknown, and left out. False when memory ran out. At most
 * UINT32_MAX are added in all. */
bool lmi_bins_add(lmi_bins *b, int64_t value);
/* The median and the median deviation from it: exact up to 255, above within 0.8 % and 1.6 % of the
 * median. */
lam_middle lmi_bins_middle(const lmi_bins *b);
/* As bytes: how many bins, then of each how far it is from the one before, and how many are in it. */
void lmi_bins_put(const lmi_bins *b, lmi_buf *to);
/* Adds what such bytes hold and moves `*at` behind them. LAM_RANGE where they are no bins, or hold more than
 * `most` numbers, LAM_NOMEM when memory ran out; with no sentence. */
lam_status lmi_bins_get(lmi_bins *b, const unsigned char **at, const unsigned char *end, int64_t most);
/* As protobuf has them. */
void lmi_put_varint(lmi_buf *b, uint64_t n);

/* -- the layers of many steps (rollup.c) ----------------------------------------------------------------- */

enum { LMI_N_NUMBERS = 15 };
/* Of each number of a layer where it is in a measure, and where its middle is in what is told of a place. In
 * the order in which they are in a file. */
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
    lmi_layer_sum **all; /* NULL: of that one nothing was seen */
} lmi_layer_sums;

/* `n` places. Free it in every case. */
lam_status lmi_sums_new(lmi_layer_sums *s, int32_t n, lam_error *e);
void lmi_sums_free(lmi_layer_sums *s);
/* The rows of one step. */
lam_status lmi_sums_add(lmi_layer_sums *s, const lmi_measure *rows, size_t n, lam_error *e);
/* What the file has of a rollup. */
lam_status lmi_sums_read(const lmi_db *d, int64_t rollup, int64_t steps, lmi_layer_sums *s, lam_error *e);

/* The rollups of a model, without their layers. Where there are none, nothing is rolled up. */
lam_status lmi_read_rollups(lam_recording *r, lmi_root *root, lam_error *e);
/* Adds steps, by their keys and in their order, to the rollups of a model and writes these. */
lam_status lmi_roll_up(const lmi_db *d, int64_t model, const int64_t *steps, size_t n, lam_error *e);

#endif
