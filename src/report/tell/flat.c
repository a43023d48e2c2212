/* SPDX-License-Identifier: Apache-2.0
 *
 * The fields of a row under the names that Python or CSV has for them (row.def). The paths of these make a
 * tree, which a row's objects are followed through; lists are not a level of it. A name is looked up once:
 * it has the same pointer in every row. */
#include "report/tell/tell.h"

#include <stdlib.h>

enum { MOST = 4 * LMI_N_ROW_NAMES, DEEPEST = 8, SEEN = 1024 }; /* MOST: a path has at most four names */
enum { NONE = -1, ROOT = 0 };

/* A part of a path. */
typedef struct node {
    const char *name; /* its n first bytes */
    size_t n;
    int32_t parent, index; /* index: in row.def, of a whole path; else NONE */
} node;

typedef struct item {
    lam_field field; /* the first, so that a field leads to its item */
    int32_t next;    /* the field behind it under the same name */
} item;

struct lmi_flat {
    lmi_row_user user;
    int32_t n;
    node at[MOST];
    struct seen {
        const char *name;
        int32_t in, node;
    } seen[SEEN]; /* a hash table */
    int32_t n_seen;
    lmi_vec items; /* item, of the row */
    int32_t first[LMI_N_ROW_NAMES], last[LMI_N_ROW_NAMES];
    bool bad;
    int32_t depth; /* of open groups; no row has as many as DEEPEST */
    struct group {
        int32_t node, n; /* n: values without a name so far, of a list */
    } open[DEEPEST];
    int32_t whole, within; /* so many groups are open in the object that `whole` takes as it is */
};

/* -- names ----------------------------------------------------------------------------------------------- */

static int32_t find(const lmi_flat *f, int32_t in, const char *name, size_t n) {
    for (int32_t i = 1; i < f->n; i++)
        if (f->at[i].parent == in && f->at[i].n == n && memcmp(f->at[i].name, name, n) == 0) return i;
    return NONE;
}

static void add(lmi_flat *f, int32_t index) {
    int32_t in = ROOT;
    for (const char *s = lmi_row_names[index].path; *s; s += *s == '.') {
        const size_t n = strcspn(s, ".");
        int32_t at = find(f, in, s, n);
        if (at < 0) {
            at = f->n++;
            f->at[at] = (node){s, n, in, NONE};
        }
        in = at;
        s += n;
    }
    f->at[in].index = index;
}

static int32_t inside(lmi_flat *f, int32_t in, const char *name) {
    if (in < 0 || !name) return in; /* the values of a list have no names */
    size_t i = (size_t)((uint64_t)((uintptr_t)name + (uintptr_t)in) * 0x9E3779B97F4A7C15u >> 32) % SEEN;
    while (f->seen[i].name && (f->seen[i].name != name || f->seen[i].in != in)) i = (i + 1) % SEEN;
    if (f->seen[i].name) return f->seen[i].node;
    const int32_t at = find(f, in, name, strlen(name));
    if (f->n_seen < SEEN / 2) f->seen[i] = (struct seen){name, in, at};
    f->n_seen += f->n_seen < SEEN / 2;
    return at;
}

lam_status lmi_flat_new(lmi_flat **out, lmi_row_user user, lam_error *e) {
    lmi_flat *f = calloc(1, sizeof *f);
    *out = f;
    if (!f) return lmi_nomem(e);
    lmi_vec_init(&f->items, sizeof(item));
    f->user = user;
    f->at[f->n++] = (node){"", 0, NONE, NONE};
    for (int32_t i = 0; i < LMI_N_ROW_NAMES; i++)
        if (lmi_row_names[i].name[user][0]) add(f, i);
    return LAM_OK;
}

void lmi_flat_free(lmi_flat *f) {
    if (f) lmi_vec_free(&f->items);
    free(f);
}

/* -- fields ---------------------------------------------------------------------------------------------- */

static bool keep(lmi_flat *f, int32_t index, const lam_field *field) {
    item *to = lmi_vec_add(&f->items, 1);
    f->bad = f->bad || !to;
    if (!to) return false;
    const int32_t at = (int32_t)f->items.n - 1;
    *to = (item){*field, NONE};
    if (f->first[index] < 0)
        f->first[index] = at;
    else
        ((item *)f->items.data)[f->last[index]].next = at;
    f->last[index] = at;
    return true;
}

/* True if CSV has the value of the first thing in the list alone, and this is another's. */
static bool is_later(const lmi_flat *f, int32_t index) {
    const bool first = f->user == LMI_IN_CSV && lmi_row_names[index].form == LMI_ROW_FIRST;
    return first && f->open[f->depth - 2].n > 1; /* the value is in an object of the list */
}

static bool take(void *self, const lam_field *field) {
    lmi_flat *f = self;
    const bool ends = field->type == LAM_FIELD_END, begins = !ends && field->type >= LAM_FIELD_OBJECT;
    if (f->within) {
        f->within += begins - ends;
        return keep(f, f->whole, field);
    }
    if (ends) {
        f->depth--;
        return true;
    }
    struct group *in = f->depth ? &f->open[f->depth - 1] : NULL;
    const int32_t at = in ? inside(f, in->node, field->name) : ROOT;
    const int32_t index = at < 0 ? NONE : f->at[at].index;
    if (in && !field->name) in->n++;
    if (begins && index < 0) {
        f->open[f->depth++] = (struct group){at, 0};
        return true;
    }
    if (begins) {
        f->within = 1;
        f->whole = index;
    }
    return index < 0 || is_later(f, index) || keep(f, index, field);
}

lam_receiver lmi_flat_row(lmi_flat *f) {
    f->items.n = 0;
    f->depth = f->within = 0;
    for (int32_t i = 0; i < LMI_N_ROW_NAMES; i++) f->first[i] = NONE;
    return (lam_receiver){take, f};
}

lam_status lmi_flat_status(const lmi_flat *f, lam_error *e) { return f->bad ? lmi_nomem(e) : LAM_OK; }

static const lam_field *at(const lmi_flat *f, int32_t i) {
    return i < 0 ? NULL : &((const item *)f->items.data)[i].field;
}

const lam_field *lmi_flat_first(const lmi_flat *f, int32_t i) { return at(f, f->first[i]); }

const lam_field *lmi_flat_next(const lmi_flat *f, const lam_field *of) {
    return at(f, ((const item *)of)->next);
}

/* -- an object of them ----------------------------------------------------------------------------------- */

static void give(lmi_teller *t, const lam_field *field, const char *name) {
    lam_field named = *field;
    named.name = name;
    lmi_give(t, named);
}

static void give_list(lmi_teller *t, const lmi_flat *f, const lam_field *field, const char *name) {
    tell_tuple(t, name);
    for (; field; field = lmi_flat_next(f, field)) give(t, field, NULL);
    tell_list_end(t);
}

void lmi_flat_fields(lmi_teller *t, const lmi_flat *f) {
    tell_object(t, NULL);
    for (int32_t i = 0; i < LMI_N_ROW_NAMES; i++) {
        const char *name = lmi_row_names[i].name[f->user];
        const lam_field *field = lmi_flat_first(f, i);
        if (*name && lmi_row_names[i].form >= LMI_ROW_EACH) give_list(t, f, field, name);
        if (!*name || lmi_row_names[i].form >= LMI_ROW_EACH) continue;
        for (; field; field = lmi_flat_next(f, field), name = field ? field->name : NULL)
            give(t, field, name);
    }
    tell_end(t);
}
