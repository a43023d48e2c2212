/* SPDX-License-Identifier: Apache-2.0
 *
 * Arguments of operators as torch's schemas have them: a file names each, and leaves out those that have
 * their default. */
#include "read/pt2/pt2.h"

#include <stdlib.h>

/* Names in the order of the schema, from the first position, with "=" and the value that a rule would miss.
 */
#define SCHEMA(op, arguments) {op, arguments},
static const struct schema {
    const char *op, *arguments;
} schemas[] = {
#include "read/pt2/schema.def"
};
#undef SCHEMA

enum { N_SCHEMAS = sizeof schemas / sizeof *schemas };

lam_status lmi_pt2_find(lmi_pt2 *p, lmi_map *known, const char *op, int64_t n, lmi_pt2_is *is, int64_t *out) {
    const uint64_t hash = lmi_hash_text(op);
    int64_t i = lmi_map_get_u64(known, hash);
    if (i < 0 || (i < n && !is(i, op))) {
        for (i = 0; i < n && !is(i, op);) i++;
        LAM_TRY(lmi_map_put_u64(known, hash, i, p->e));
    }
    *out = i;
    return LAM_OK;
}

static bool is_schema(int64_t i, const char *op) { return lmi_listed(schemas[i].op, op); }

lam_status lmi_pt2_schema(lmi_pt2 *p) {
    int64_t i;
    LAM_TRY(lmi_pt2_find(p, &p->schemas, p->now.op, N_SCHEMAS, is_schema, &i));
    p->arguments = i < N_SCHEMAS ? schemas[i].arguments : NULL;
    return LAM_OK;
}

/* The next argument of a list: its name has *n bytes, and its default *value_n, 0 none. */
static const char *next_argument(const char *at, size_t *n, const char **value, size_t *value_n) {
    at += strspn(at, " ");
    const size_t all = strcspn(at, " ");
    *n = strcspn(at, "= ");
    *value = at + *n + (*n < all);
    *value_n = (size_t)(at + all - *value);
    return at;
}

int32_t lmi_pt2_position(const lmi_pt2 *p, const char *argument) {
    const char *at = p->arguments, *value;
    size_t n, value_n;
    for (int32_t i = 0; at && *at; i++, at = value + value_n) {
        at = next_argument(at, &n, &value, &value_n);
        if (strlen(argument) == n && memcmp(at, argument, n) == 0) return i;
    }
    return -1;
}

static bool is_told(const lmi_pt2 *p, int32_t position) {
    for (int32_t i = 0; i < p->now.n_in; i++)
        if (lmi_pt2_arg(p, &p->now, i)->position == position) return true;
    return false;
}

static bool is(const char *value, size_t n, const char *word) {
    return strlen(word) == n && memcmp(value, word, n) == 0;
}

static lam_status add_default(lmi_pt2 *p, int32_t position, const char *value, size_t n) {
    lam_op_arg a = {.position = position, .dtype = -1, .device = -1, .ndim = -1};
    const int32_t none = -1;
    if (is(value, n, "true") || is(value, n, "false")) {
        a.value = (lam_value){.type = LAM_BOOL, .i = *value == 't'};
    } else if (is(value, n, "[]")) {
        a.value = (lam_value){.type = LAM_INTS, .n = 0};
    } else if ((*value >= '0' && *value <= '9') || *value == '-') {
        a.value = (lam_value){.type = LAM_INT, .i = strtoll(value, NULL, 10)};
    } else if (*value == '\'') {
        a.value = (lam_value){.type = LAM_TEXT, .text = lmi_strndup(&p->arena, value + 1, n - 2)};
        if (!a.value.text) return lmi_nomem(p->e);
    }
    p->now.n_in++;
    LAM_TRY(lmi_vec_put(&p->args, &a, p->e));
    return lmi_vec_put(&p->arg_value, &none, p->e);
}

lam_status lmi_pt2_defaults(lmi_pt2 *p) {
    const char *at = p->arguments, *value;
    size_t n, value_n;
    for (int32_t i = 0; at && *at; i++, at = value + value_n) {
        at = next_argument(at, &n, &value, &value_n);
        if (value_n && !is_told(p, i)) LAM_TRY(add_default(p, i, value, value_n));
    }
    return LAM_OK;
}
