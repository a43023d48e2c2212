/* SPDX-License-Identifier: Apache-2.0
 *
 * Outlines of models, and their places by path. */
#ifndef LAMINA_TEST_OUTLINED_H
#define LAMINA_TEST_OUTLINED_H

#include "kit/net.h"
#include "report/outline/outline.h"

#include <string.h>

typedef struct outlined {
    lam_model *m;
    lam_costs *c;
    lmi_outline o;
} outlined;

static const char *const own_names[LMI_N_OWN] = { /* for messages */
#define OWN(id) #id,
#define NUMBER(...)
#include "report/numbers/numbers.def"
#undef OWN
#undef NUMBER
};

static const lmi_outline_options outline_most = {.formulas = true, .course = true};

/* Takes the model. `convention` NULL: the default one. */
OOM_UNUSED static outlined outline_of(lam_model *m, const char *convention) {
    outlined x = {.m = m, .c = net_costs(m, convention, false)};
    lam_error e = {0};
    if (lmi_outline_new(&x.o, x.c, &outline_most, &e) != LAM_OK) fail_msg("%s: %s", e.where, e.text);
    return x;
}

OOM_UNUSED static void outline_leave(outlined *x) {
    lmi_outline_free(&x->o);
    lam_costs_free(x->c);
    lam_model_free(x->m);
}

/* The place with a path. */
OOM_UNUSED static int32_t outline_find(const lmi_outline *o, const char *path) {
    lmi_buf b;
    lmi_buf_init(&b);
    int32_t found = -1;
    for (int32_t i = 0; i < o->n && found < 0; i++) {
        lmi_buf_clear(&b);
        lmi_outline_path(o, i, &b);
        if (strcmp(lmi_buf_text(&b), path) == 0) found = i;
    }
    lmi_buf_free(&b);
    if (found < 0) fail_msg("there is no place '%s'", path);
    return found;
}

OOM_UNUSED static const lmi_outline_place *outline_at(const lmi_outline *o, const char *path) {
    return &o->at[outline_find(o, path)];
}

/* A place's own number is this one. */
OOM_UNUSED static void outline_own(const lmi_outline *o, const char *path, lmi_own_number k, int64_t n,
                                   lam_state state) {
    int32_t i = outline_find(o, path);
    int64_t got = o->own[k] ? o->own[k][i] : 0;
    lam_state told = o->state[k] ? (lam_state)o->state[k][i] : LAM_EXACT;
    if (got != n || told != state)
        fail_msg("%s of '%s': %lld %s, expected %lld %s", own_names[k], path, (long long)got,
                 lam_state_name(told), (long long)n, lam_state_name(state));
}

OOM_UNUSED static void outline_total(const lmi_outline *o, const char *path, lmi_own_number k, int64_t n) {
    int64_t got = o->total[k] ? o->total[k][outline_find(o, path)] : 0;
    if (got != n)
        fail_msg("%s below '%s': %lld, expected %lld", own_names[k], path, (long long)got, (long long)n);
}

/* For oom_sweep: the outline of costs. */
OOM_UNUSED static void outline_try(void *costs, bool *ok) {
    lmi_outline o;
    lam_error e = {0};
    *ok = oom_check(lmi_outline_new(&o, costs, &outline_most, &e), &e);
    lmi_outline_free(&o);
}

#endif
