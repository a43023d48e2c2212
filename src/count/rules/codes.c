/* SPDX-License-Identifier: Apache-2.0
 *
 * Parsed formulas of operator rules. The formulas of the tables are parsed once per process: a report of a
 * small model runs some forty of them, and parsing takes longer than running. */
#include "count/rules/rules.h"

#include <stdlib.h>

/* The parsed formula of an earlier metric with the same text, else NULL: effective counts are mostly the
 * dense ones. */
static const lmi_formula *read_before(const lmi_rule *r, const lmi_rule_code *code, int metric) {
    for (int k = 0; k < metric; k++)
        if (r->formula[k] == r->formula[metric]) return code->formula[k];
    return NULL;
}

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

lam_status lmi_rule_code_new(lmi_rule_code **out, const lmi_rule *r, lam_error *e) {
    lam_status s = LAM_OK;
    lmi_rule_code *code = calloc(1, sizeof *code);
    if (!code) return lmi_nomem(e);
    for (int i = 0; s == LAM_OK && i < LAM_N_METRICS; i++) {
        code->formula[i] = r->formula[i] ? read_before(r, code, i) : NULL;
        if (r->formula[i] && !code->formula[i]) s = read_one(r->formula[i], &code->formula[i], e);
    }
    if (s == LAM_OK)
        *out = code;
    else
        lmi_rule_code_free(code);
    return s;
}

void lmi_rule_code_free(lmi_rule_code *code) {
    for (int i = 0; code && i < LAM_N_METRICS; i++) {
        bool seen = false;
        for (int k = 0; k < i; k++) seen = seen || code->formula[k] == code->formula[i];
        if (!seen) free((void *)(uintptr_t)code->formula[i]);
    }
    free(code);
}

lam_status lmi_rule_code_of(const lmi_convention *c, const lmi_rule *r, const lmi_rule_code **out,
                            lam_error *e) {
    lmi_rule_slot *slot = &c->codes[r - c->op_rules];
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

/* Frees the formulas when the process ends, so that leak checkers report nothing. */
__attribute__((destructor)) static void forget_codes(void) {
    for (int32_t i = 0; i < lam_n_conventions(); i++) {
        const lmi_convention *c = lmi_convention_at(i);
        for (int32_t k = 0; c->op_rules && k < c->n_rules; k++)
            lmi_rule_code_free(atomic_exchange(&c->codes[k], NULL));
    }
}
