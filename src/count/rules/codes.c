/* SPDX-License-Identifier: Apache-2.0
 *
 * The formulas of rules: parsed once and run. Those of the tables are parsed once per process, for a report
 * of a small model runs some forty of them, and parsing takes longer than running. */
#include "count/rules/rules.h"

#include <stdlib.h>

static lam_status read_one(const char *text, const lmi_formula **out, lam_error *e) {
    lmi_formula read;
    LAM_TRY(lmi_formula_parse(&read, text, e));
    size_t size = offsetof(lmi_formula, code) + (size_t)read.n * sizeof *read.code;
    lmi_formula *f = malloc(size);
    if (!f) return lmi_nomem(e);
    memcpy(f, &read, size);
    *out = f;
    return LAM_OK;
}

/* The parsed formula of an earlier metric with the same text, else NULL: effective counts are mostly the
 * dense ones. */
static const lmi_formula *read_before(const char *const text[], const lmi_formula *read[], int metric) {
    for (int k = 0; k < metric; k++)
        if (text[k] == text[metric]) return read[k];
    return NULL;
}

static lam_status read_all(const char *const text[LAM_N_METRICS], const lmi_formula *out[LAM_N_METRICS],
                           lam_error *e) {
    for (int i = 0; i < LAM_N_METRICS; i++) {
        if (text[i]) out[i] = read_before(text, out, i);
        if (text[i] && !out[i]) LAM_TRY(read_one(text[i], &out[i], e));
    }
    return LAM_OK;
}

static void free_all(const lmi_formula *read[LAM_N_METRICS]) {
    for (int i = 0; i < LAM_N_METRICS; i++) {
        bool seen = false;
        for (int k = 0; k < i; k++) seen = seen || read[k] == read[i];
        if (!seen) free((void *)(uintptr_t)read[i]);
    }
}

lam_status lmi_rule_code_new(lmi_rule_code **out, const lmi_rule *r, lam_error *e) {
    lmi_rule_code *code = calloc(1, sizeof *code);
    if (!code) return lmi_nomem(e);
    lam_status s = read_all(r->formula, code->formula, e);
    if (s == LAM_OK) s = read_all(r->released, code->released, e);
    if (s == LAM_OK)
        *out = code;
    else
        lmi_rule_code_free(code);
    return s;
}

void lmi_rule_code_free(lmi_rule_code *code) {
    if (!code) return;
    free_all(code->formula);
    free_all(code->released);
    free(code);
}

static lmi_rule_slot *slot_of(const lmi_convention *c, const lmi_rule *r) {
    if (r->name) return &c->own->codes[r - c->own->rules];
    const bool of_op = lmi_rule_at(c->op_rules, r->kind) == r;
    const lmi_rule_table *t = of_op ? c->op_rules : c->rules;
    return &t->codes[r - t->rows];
}

lam_status lmi_rule_code_of(const lmi_convention *c, const lmi_rule *r, const lmi_rule_code **out,
                            lam_error *e) {
    lmi_rule_slot *slot = slot_of(c, r);
    lmi_rule_code *code = atomic_load_explicit(slot, memory_order_acquire), *none = NULL;
    if (!code) {
        LAM_TRY(lmi_rule_code_new(&code, r, e));
        if (!atomic_compare_exchange_strong(slot, &none, code)) { /* another thread was faster */
            lmi_rule_code_free(code);
            code = none;
        }
    }
    *out = code;
    return LAM_OK;
}

void lmi_rule_run(const lmi_rule_code *code, bool released, const lmi_facts *facts,
                  lam_count n[LAM_N_METRICS]) {
    for (int i = 0; i < LAM_N_METRICS; i++) {
        const lmi_formula *first = released ? code->released[i] : NULL, *then = code->formula[i];
        const int like = lmi_is_effective(i) ? i - LAM_EFFECTIVE_MACS : i; /* mostly has the same formula */
        if (first) n[i] = lmi_formula_run(first, facts);
        if (!then || (first && n[i].state != LAM_UNKNOWN)) continue;
        const bool is_same = !released && like != i && then == code->formula[like];
        n[i] = is_same ? n[like] : lmi_formula_run(then, facts);
    }
}

static void forget(const lmi_rule_table *t) {
    for (int32_t i = 0; t && i < t->n; i++) lmi_rule_code_free(atomic_exchange(&t->codes[i], NULL));
}

/* Frees the formulas when the process ends, so that leak checkers report nothing. */
__attribute__((destructor)) static void forget_codes(void) {
    for (int32_t i = 0; i < lam_n_conventions(); i++) {
        const lmi_convention *c = lmi_convention_at(i);
        forget(c->rules);
        forget(c->op_rules);
    }
}
