/* SPDX-License-Identifier: Apache-2.0
 *
 * For the proofs of `layers`: a model of one called layer, and a machine that does a layer's work one scalar
 * at a time and counts what it did. A proof walks the loops that define the layer on that machine, without
 * looking at the formulas, and asks whether the rule gives the same three numbers. */
#ifndef LAMINA_TEST_LAYER_BUILD_H
#define LAMINA_TEST_LAYER_BUILD_H

#include "count/count.h"
#include "kit/rule_count.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define MAYBE __attribute__((unused))

/* -- random shapes ------------------------------------------------------------------------------------- */

static uint64_t seed_ = 0x9E3779B97F4A7C15u;
MAYBE static void reseed(uint64_t with) { seed_ = 0x9E3779B97F4A7C15u ^ (with * 0xD1B54A32D192ED03u); }
static uint64_t draw(void) { /* splitmix64 */
    uint64_t z = (seed_ += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}
/* A whole number from low to high, both included. */
MAYBE static int64_t pick(int64_t low, int64_t high) {
    return low + (int64_t)(draw() % (uint64_t)(high - low + 1));
}
MAYBE static bool coin(void) { return draw() & 1; }

/* -- how much was proved ------------------------------------------------------------------------------- */

enum { ENOUGH = 10000, PROOFS = 256 };

/* Over how many random shapes a rule was held against its loop. */
static struct proof {
    const char *table, *kind;
    int64_t shapes;
    bool touched; /* by the loop that runs */
} proofs_[PROOFS];
static int n_proofs_;

/* Into the file that LAMINA_PROOF names. tools/proof adds the files of all programs up. */
static void tell_proofs(void) {
    const char *path = getenv("LAMINA_PROOF");
    FILE *f = path ? fopen(path, "w") : NULL;
    if (!f) return;
    for (int i = 0; i < n_proofs_; i++)
        fprintf(f, "%s\t%s\t%lld\n", proofs_[i].table, proofs_[i].kind, (long long)proofs_[i].shapes);
    fclose(f);
}

static void proved(const char *table, const char *kind) {
    int i = 0;
    while (i < n_proofs_ && (strcmp(proofs_[i].kind, kind) != 0 || strcmp(proofs_[i].table, table) != 0)) i++;
    assert_true(i < PROOFS);
    if (i == n_proofs_) {
        if (n_proofs_++ == 0) assert_int_equal(atexit(tell_proofs), 0);
        proofs_[i].table = table;
        proofs_[i].kind = kind;
    }
    proofs_[i].shapes++;
    proofs_[i].touched = true;
}

/* Whether a loop over random shapes goes on with round i: for `least` rounds, and then until each kind that
 * it proves has had enough of them. */
MAYBE static bool more(int i, int least) {
    if (i >= rounds(i + 1)) return false;
    bool enough = i >= least;
    for (int k = 0; k < n_proofs_; k++) {
        if (i == 0) proofs_[k].touched = false;
        enough = enough && (!proofs_[k].touched || proofs_[k].shapes >= ENOUGH);
    }
    return !enough;
}

/* -- the counting machine ------------------------------------------------------------------------------ */

enum { MACHINE_TENSORS = 48 };

/* A tensor whose elements remember whether they were read and written. */
typedef struct cells {
    int64_t n;
    double *v;
    bool *was_read, *was_written;
    int64_t item; /* bytes of one element; 0: as many as the operator's tensors have */
} cells;

typedef struct machine {
    int64_t macs, flops;
    bool idle; /* what is done now has no effect: a mask takes it out again */
    int64_t idle_macs, idle_flops;
    int64_t extra_reads; /* reads that are counted each time: rows of a table */
    int32_t n;
    cells t[MACHINE_TENSORS];
} machine;

static machine now; /* what the proof that runs has done */

MAYBE static void forget(void) {
    for (int32_t i = 0; i < now.n; i++) {
        free(now.t[i].v);
        free(now.t[i].was_read);
        free(now.t[i].was_written);
    }
    now = (machine){0};
}

/* A tensor of n elements with values that are neither 0 nor large. */
MAYBE static cells *cells_of(int64_t n) {
    assert_true(now.n < MACHINE_TENSORS && n >= 0);
    cells *c = &now.t[now.n++];
    size_t room = (size_t)n + 1;
    *c = (cells){n, calloc(room, sizeof(double)), calloc(room, sizeof(bool)), calloc(room, sizeof(bool)), 0};
    assert_true(c->v && c->was_read && c->was_written);
    for (int64_t i = 0; i < n; i++) c->v[i] = (double)pick(-900, 900) / 300.0 + 0.0001;
    return c;
}

MAYBE static double rd(cells *c, int64_t i) {
    assert_true(i >= 0 && i < c->n);
    c->was_read[i] = true;
    return c->v[i];
}
MAYBE static void wr(cells *c, int64_t i, double v) {
    assert_true(i >= 0 && i < c->n);
    c->was_written[i] = true;
    c->v[i] = v;
}
MAYBE static void wr_all(cells *c) {
    for (int64_t i = 0; i < c->n; i++) wr(c, i, c->v[i]);
}
MAYBE static void rd_all(cells *c) {
    for (int64_t i = 0; i < c->n; i++) (void)rd(c, i);
}

/* One operation each. */
static double did(double v) {
    now.flops++;
    now.idle_flops += now.idle;
    return v;
}
MAYBE static double add(double a, double b) { return did(a + b); }
MAYBE static double sub(double a, double b) { return did(a - b); }
MAYBE static double mul(double a, double b) { return did(a * b); }
MAYBE static double dvd(double a, double b) { return did(a / b); }
MAYBE static double neg(double a) { return did(-a); }
MAYBE static double max2(double a, double b) { return did(a > b ? a : b); }
MAYBE static double min2(double a, double b) { return did(a < b ? a : b); }
MAYBE static bool less(double a, double b) { return did(a < b) != 0; }
MAYBE static double exp1(double a) { return did(exp(a)); }
MAYBE static double log1(double a) { return did(log(a)); }
MAYBE static double tanh1(double a) { return did(tanh(a)); }
MAYBE static double erf1(double a) { return did(erf(a)); }
MAYBE static double abs1(double a) { return did(fabs(a)); }
MAYBE static double sqrt1(double a) { return did(sqrt(a)); }
MAYBE static double pow1(double a, double b) { return did(pow(a, b)); }
/* acc + a * b as one multiply-accumulate of dense work: one MAC, two FLOPs. */
MAYBE static double mac(double acc, double a, double b) {
    now.macs++;
    now.flops += 2;
    now.idle_macs += now.idle;
    now.idle_flops += 2 * now.idle;
    return acc + a * b;
}
MAYBE static double sigmoid1(double x) { return dvd(1, add(1, exp1(neg(x)))); }

/* Elements read, plus elements written. */
static int64_t moved_elements(void) {
    int64_t n = now.extra_reads;
    for (int32_t t = 0; t < now.n; t++)
        for (int64_t i = 0; i < now.t[t].n; i++) n += now.t[t].was_read[i] + now.t[t].was_written[i];
    return n;
}

/* Bytes read, or written, where tensors that say nothing else have `item` bytes an element. */
MAYBE static int64_t moved_bytes(bool written, int64_t item) {
    int64_t n = written ? 0 : now.extra_reads * item;
    for (int32_t t = 0; t < now.n; t++) {
        const cells *c = &now.t[t];
        for (int64_t i = 0; i < c->n; i++)
            n += (written ? c->was_written[i] : c->was_read[i]) ? c->item ? c->item : item : 0;
    }
    return n;
}

/* -- a model of one layer ------------------------------------------------------------------------------ */

enum { LAYER_TENSORS = 10, LAYER_NDIM = 6 };

typedef struct layer {
    lam_builder *b;
    const char *word;
    int32_t module, place;
    uint32_t flags;
    int32_t n_in, n_out, n_tensors;
    lam_arg in[LAYER_TENSORS], out[LAYER_TENSORS];
    int64_t sizes[2 * LAYER_TENSORS][LAYER_NDIM];
    char text[400]; /* what it is, for a message */
} layer;

MAYBE static void told(layer *l, const char *fmt, ...) LAM_PRINTF(2, 3);
MAYBE static void told(layer *l, const char *fmt, ...) {
    size_t n = strlen(l->text);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(l->text + n, sizeof l->text - n, fmt, ap);
    va_end(ap);
}

static int32_t new_module(layer *l, const char *word) {
    int32_t index = -1, known = lam_word_module(word);
    if (known < 0) fail_msg("there is no word %s", word);
    lam_module_info info = {word, word, NULL, known, LAM_MODULE_EXACT | LAM_MODULE_LEAF};
    assert_int_equal(lam_build_module(l->b, &info, &index, NULL), LAM_OK);
    return index;
}

MAYBE static void layer_new(layer *l, const char *word) {
    memset(l, 0, sizeof *l);
    l->word = word;
    assert_int_equal(lam_builder_new(&l->b, 0, NULL), LAM_OK);
    l->module = new_module(l, word);
    assert_int_equal(lam_build_place(l->b, -1, "", l->module, &l->place, NULL), LAM_OK);
}

/* A child of the layer; attributes and tensors go to it by its module's number. */
MAYBE static int32_t layer_child(layer *l, const char *name, const char *word) {
    int32_t module = new_module(l, word), place;
    assert_int_equal(lam_build_place(l->b, l->place, name, module, &place, NULL), LAM_OK);
    return module;
}

static void put_attr(layer *l, int32_t module, const char *name, lam_value v) {
    assert_int_equal(lam_build_attr(l->b, module, name, &v, NULL), LAM_OK);
}
MAYBE static void has_int(layer *l, const char *name, int64_t v) {
    told(l, " %s=%lld", name, (long long)v);
    put_attr(l, l->module, name, (lam_value){.type = LAM_INT, .i = v});
}
MAYBE static void has_bool(layer *l, const char *name, bool v) {
    told(l, " %s=%d", name, v);
    put_attr(l, l->module, name, (lam_value){.type = LAM_BOOL, .i = v});
}
MAYBE static void has_float(layer *l, const char *name, double v) {
    told(l, " %s=%g", name, v);
    put_attr(l, l->module, name, (lam_value){.type = LAM_FLOAT, .f = v});
}
MAYBE static void has_text(layer *l, const char *name, const char *v) {
    told(l, " %s=%s", name, v);
    put_attr(l, l->module, name, (lam_value){.type = LAM_TEXT, .text = v});
}
MAYBE static void has_none(layer *l, const char *name) {
    told(l, " %s=None", name);
    put_attr(l, l->module, name, (lam_value){.type = LAM_NONE});
}
MAYBE static void has_ints(layer *l, const char *name, int32_t n, const int64_t *v) {
    told(l, " %s=(", name);
    for (int32_t i = 0; i < n; i++) told(l, "%lld,", (long long)v[i]);
    told(l, ")");
    put_attr(l, l->module, name, (lam_value){.type = LAM_INTS, .n = n, .ints = v});
}

static void put_tensor(layer *l, int32_t module, const char *name, bool buffer, int32_t ndim,
                       const int64_t *sizes) {
    lam_tensor_info info = {.dtype = 6, .ndim = ndim, .sizes = sizes, .bytes = -1, .requires_grad = !buffer};
    int32_t index;
    assert_int_equal(lam_build_tensor(l->b, &info, &index, NULL), LAM_OK);
    assert_int_equal(lam_build_owns(l->b, module, name, index, buffer, NULL), LAM_OK);
}
#define SIZES(...)                                                                                           \
    (int32_t)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[]) { __VA_ARGS__ }
MAYBE static void has_param(layer *l, const char *name, int32_t ndim, const int64_t *sizes) {
    told(l, " %s", name);
    put_tensor(l, l->module, name, false, ndim, sizes);
}
MAYBE static void has_buffer(layer *l, const char *name, int32_t ndim, const int64_t *sizes) {
    put_tensor(l, l->module, name, true, ndim, sizes);
}

static lam_arg described(layer *l, const char *name, int32_t position, int32_t ndim, const int64_t *sizes,
                         uint64_t storage) {
    assert_true(l->n_tensors < 2 * LAYER_TENSORS && ndim <= LAYER_NDIM);
    int64_t *own = l->sizes[l->n_tensors++];
    told(l, " %s(", name ? name : "");
    for (int32_t i = 0; i < ndim; i++) {
        own[i] = sizes[i];
        told(l, "%lld,", (long long)sizes[i]);
    }
    told(l, ")");
    return (lam_arg){name, position, 6, 0, ndim, own, storage, 0, 0};
}
/* One more positional input, one given by keyword, one more output. Each has memory of its own. */
MAYBE static void takes(layer *l, int32_t ndim, const int64_t *sizes) {
    l->in[l->n_in] = described(l, NULL, l->n_in, ndim, sizes, 1000u + (uint64_t)l->n_tensors);
    l->n_in++;
}
MAYBE static void takes_named(layer *l, const char *name, int32_t ndim, const int64_t *sizes) {
    l->in[l->n_in] = described(l, name, -1, ndim, sizes, 1000u + (uint64_t)l->n_tensors);
    l->n_in++;
}
MAYBE static void gives(layer *l, int32_t ndim, const int64_t *sizes) {
    told(l, " ->");
    l->out[l->n_out] = described(l, NULL, l->n_out, ndim, sizes, 1000u + (uint64_t)l->n_tensors);
    l->n_out++;
}
MAYBE static void in_training(layer *l, bool training) {
    told(l, training ? " train" : " eval");
    if (training) l->flags |= LAM_CALL_TRAINING;
}

/* Calls the layer; `called` other modules are called inside it. The model is the caller's. */
MAYBE static lam_model *layer_model(layer *l, int32_t n_called, const int32_t *called) {
    lam_call_info call = {.module = l->module,
                          .parent = -1,
                          .flags = l->flags,
                          .n_in = l->n_in,
                          .n_out = l->n_out,
                          .in = l->in,
                          .out = l->out};
    int32_t event, inside;
    lam_model *m = NULL;
    assert_int_equal(lam_build_call(l->b, &call, &event, NULL), LAM_OK);
    for (int32_t i = 0; i < n_called; i++) {
        lam_call_info child = {.module = called[i], .parent = event};
        assert_int_equal(lam_build_call(l->b, &child, &inside, NULL), LAM_OK);
    }
    assert_int_equal(lam_builder_finish(l->b, &m, NULL), LAM_OK);
    return m;
}

/* What the rules of `layers` say of it. Ends the layer. */
MAYBE static void layer_counts(layer *l, int32_t n_called, const int32_t *called,
                               lam_count out[LAM_N_METRICS]) {
    lam_model *m = layer_model(l, n_called, called);
    count_first("layers", m, false, out);
    lam_model_free(m);
}

static void same_number(const layer *l, lam_metric metric, lam_count got, int64_t want) {
    if (got.state == LAM_EXACT && got.over == 0 && got.n == want) return;
    fail_msg("%s of %s%s: the rule says %lld (%s), the loop did %lld", lam_metric_name(metric), l->word,
             l->text, (long long)got.n, lam_state_name(got.state), (long long)want);
}

/* The rule must say exactly what the machine did. Ends the layer and forgets the machine's work. */
MAYBE static void proves_inside(layer *l, int32_t n_called, const int32_t *called) {
    lam_count got[LAM_N_METRICS];
    layer_counts(l, n_called, called, got);
    same_number(l, LAM_MACS, got[LAM_MACS], now.macs);
    same_number(l, LAM_FLOPS, got[LAM_FLOPS], now.flops);
    same_number(l, LAM_DMAS, got[LAM_DMAS], moved_elements());
    proved("layers", lam_word_kind(lam_word_module(l->word)));
    forget();
}
MAYBE static void proves(layer *l) { proves_inside(l, 0, NULL); }

/* The metrics named in `which` (bits 1 << metric) must be unknown. Ends the layer and forgets. */
MAYBE static void is_unknown(layer *l, int32_t which) {
    lam_count got[LAM_N_METRICS];
    layer_counts(l, 0, NULL, got);
    for (int32_t i = 0; i <= LAM_DMAS; i++)
        if (((which >> i & 1) != 0) != (got[i].state == LAM_UNKNOWN))
            fail_msg("%s of %s%s is %s", lam_metric_name((lam_metric)i), l->word, l->text,
                     lam_state_name(got[i].state));
    forget();
}

/* -- places in tensors --------------------------------------------------------------------------------- */

/* Elements of a shape. */
MAYBE static int64_t elements(int32_t ndim, const int64_t *sizes) {
    int64_t n = 1;
    for (int32_t i = 0; i < ndim; i++) n *= sizes[i];
    return n;
}
/* Steps `at` through all positions of a shape, last axis fastest, from all zeros; false after the last one.
 */
MAYBE static bool next_at(int32_t ndim, const int64_t *sizes, int64_t *at) {
    for (int32_t i = ndim - 1; i >= 0; i--) {
        if (++at[i] < sizes[i]) return true;
        at[i] = 0;
    }
    return false;
}
/* Where position `at` lies in memory; -1 when it lies outside the shape. */
MAYBE static int64_t offset_of(int32_t ndim, const int64_t *sizes, const int64_t *at) {
    int64_t i = 0;
    for (int32_t d = 0; d < ndim; d++) {
        if (at[d] < 0 || at[d] >= sizes[d]) return -1;
        i = i * sizes[d] + at[d];
    }
    return i;
}

#endif
