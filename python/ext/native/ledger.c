/* SPDX-License-Identifier: Apache-2.0
 * Lifetimes of memory. torch releases tensors in any thread, with or without the GIL, possibly long
 * after the run. So a ledger has a lock, and lives until the last tensor in it is gone. */
#include "native/ledger.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

typedef struct entry {
    lam_lifetime l;
    const void *at;
    const void *parameter; /* not owned: the dry run holds it */
} entry;

struct lmx_ledger {
    pthread_mutex_t lock;
    size_t held; /* live tensors, plus one for the owner */
    bool open;
    bool lost; /* memory ran out */
    bool outside, between, over;
    int32_t op, last; /* the running operator, and the last one */
    int64_t turn;     /* the number of operators that were answered */
    size_t first;     /* the first entry of the running operator */
    lam_taken before; /* new memory was there before; LAM_TAKEN_TENSOR: it was not */
    size_t oldest;    /* the first entry that was */
    lmi_vec entries;  /* entry */
    char *more;       /* why more may be taken; NULL: not more */
    char *optimizer;  /* whose step began with operator `step`; NULL: none did */
    int32_t step;
    bool decided;
};

/* A tensor's reference to its entry. */
typedef struct ticket {
    lmx_ledger *ledger;
    size_t entry;
    void *own;
} ticket;

lmx_ledger *lmx_ledger_new(void) {
    lmx_ledger *l = calloc(1, sizeof *l);
    if (l && pthread_mutex_init(&l->lock, NULL) == 0) {
        l->held = 1;
        l->open = true;
        l->op = l->last = -1;
        return l;
    }
    free(l);
    return NULL;
}

/* Drops a reference; the last one frees the ledger. */
static void let_go(lmx_ledger *l, const ticket *t) {
    pthread_mutex_lock(&l->lock);
    if (!t) {
        l->open = false;
    } else if (l->open) {
        lam_lifetime *to = &((entry *)l->entries.data)[t->entry].l;
        to->freed = l->over ? -1 : l->op < to->made ? to->made : l->op;
        if (l->before != LAM_TAKEN_TENSOR && to->what == l->before)
            *to = (lam_lifetime){0, -1, -1, to->what, -1};
    }
    bool last = --l->held == 0;
    pthread_mutex_unlock(&l->lock);
    if (!last) return;
    lmi_vec_free(&l->entries);
    free(l->optimizer);
    free(l->more);
    pthread_mutex_destroy(&l->lock);
    free(l);
}

void lmx_ledger_close(lmx_ledger *l) {
    if (l) let_go(l, NULL);
}

void lmx_ledger_at(lmx_ledger *l, int32_t op, bool outside) {
    pthread_mutex_lock(&l->lock);
    l->op = op;
    l->outside = outside;
    l->turn++;
    l->first = l->entries.n;
    if (op > l->last) l->last = op;
    pthread_mutex_unlock(&l->lock);
}

void lmx_ledger_between(lmx_ledger *l, bool between) {
    pthread_mutex_lock(&l->lock);
    l->between = between;
    pthread_mutex_unlock(&l->lock);
}

void lmx_ledger_over(lmx_ledger *l) {
    pthread_mutex_lock(&l->lock);
    l->over = true;
    pthread_mutex_unlock(&l->lock);
}

void lmx_ledger_before(lmx_ledger *l, lam_taken what) {
    pthread_mutex_lock(&l->lock);
    if (l->before == LAM_TAKEN_TENSOR) l->oldest = l->entries.n;
    l->before = what;
    pthread_mutex_unlock(&l->lock);
}

bool lmx_ledger_belongs(lmx_ledger *l, const void *at, const void *parameter) {
    bool found = false;
    pthread_mutex_lock(&l->lock);
    entry *all = l->entries.data;
    for (size_t i = l->oldest; at && i < l->entries.n; i++) {
        if (all[i].at != at || all[i].l.bytes == 0) continue;
        all[i].parameter = parameter;
        found = true;
    }
    pthread_mutex_unlock(&l->lock);
    return found;
}

bool lmx_ledger_more(lmx_ledger *l, const char *why) {
    pthread_mutex_lock(&l->lock);
    free(l->more);
    l->more = strdup(why);
    bool ok = l->more != NULL;
    pthread_mutex_unlock(&l->lock);
    return ok;
}

bool lmx_ledger_step(lmx_ledger *l, const char *name, int32_t op, bool decided) {
    pthread_mutex_lock(&l->lock);
    free(l->optimizer);
    l->optimizer = strdup(name);
    l->step = op;
    l->decided = decided;
    bool ok = l->optimizer != NULL;
    pthread_mutex_unlock(&l->lock);
    return ok;
}

/* A new entry: what was there before, memory that a backward pass starts from (`outside`), or an operator's.
 */
static lam_lifetime taken(const lmx_ledger *l, int64_t bytes) {
    if (l->before != LAM_TAKEN_TENSOR) return (lam_lifetime){bytes, -1, -1, l->before, -1};
    lam_taken what = l->outside ? LAM_TAKEN_SEED : LAM_TAKEN_TENSOR;
    const bool next = l->outside || l->between; /* the next operator's */
    return (lam_lifetime){bytes, l->op + next, -1, what, -1};
}

void *lmx_ledger_take(lmx_ledger *l, const void *at, int64_t bytes, void *own) {
    ticket *t = malloc(sizeof *t);
    if (!t) return NULL;
    pthread_mutex_lock(&l->lock);
    entry *to = l->open ? lmx_vec_push(&l->entries, sizeof *to, 1) : NULL;
    if (to) *to = (entry){taken(l, bytes), at, NULL};
    if (to) l->held++;
    *t = (ticket){l, l->entries.n - 1, own};
    pthread_mutex_unlock(&l->lock);
    if (to) return t;
    free(t);
    return NULL;
}

void lmx_ledger_drop(void *data, void *context) {
    (void)data;
    ticket *t = context;
    let_go(t->ledger, t);
    free(t->own);
    free(t);
}

int64_t lmx_ledger_turn(lmx_ledger *l) {
    pthread_mutex_lock(&l->lock);
    int64_t turn = l->turn;
    pthread_mutex_unlock(&l->lock);
    return turn;
}

/* Corrects the memory of the results; the largest one gets the difference. Entries that are freed already
 * were made only to compute the answer. */
void lmx_ledger_left(lmx_ledger *l, int64_t bytes) {
    pthread_mutex_lock(&l->lock);
    entry *all = l->entries.data;
    lam_lifetime *largest = NULL;
    for (size_t i = l->first; l->open && i < l->entries.n; i++) {
        lam_lifetime *of = &all[i].l;
        if (of->what != l->before) continue;
        if (of->freed >= 0) of->bytes = 0;
        if (of->freed >= 0) continue;
        bytes -= of->bytes;
        if (!largest || of->bytes > largest->bytes) largest = of;
    }
    if (largest && largest->bytes + bytes >= 0) largest->bytes += bytes;
    pthread_mutex_unlock(&l->lock);
}

void lmx_ledger_note(lmx_ledger *l, int64_t bytes, lam_taken what) {
    bool wanted = bytes > 0 || what != LAM_TAKEN_WORKSPACE;
    pthread_mutex_lock(&l->lock);
    wanted = wanted && l->open && l->before == LAM_TAKEN_TENSOR;
    entry *to = wanted ? lmx_vec_push(&l->entries, sizeof *to, 1) : NULL;
    if (to) *to = (entry){{bytes, l->op, l->op, what, -1}, NULL, NULL};
    pthread_mutex_unlock(&l->lock);
}

lam_status lmx_ledger_push(lmx_ledger *l, const lmi_map *tensors, lam_builder *b, lam_error *e) {
    lam_status s = LAM_OK;
    pthread_mutex_lock(&l->lock);
    const lam_lifetime none = {0, -1, -1, LAM_TAKEN_TENSOR, -1};
    const entry *all = l->entries.data;
    if (l->entries.n == 0) s = lam_build_lifetime(b, &none, e); /* known: nothing was allocated */
    for (size_t i = 0; s == LAM_OK && i < l->entries.n; i++) {
        lam_lifetime t = all[i].l;
        if (all[i].parameter && tensors) t.tensor = lmx_map_get(tensors, all[i].parameter);
        if (t.made > l->last) t.made = l->last;
        if (t.freed > l->last) t.freed = l->last;
        s = lam_build_lifetime(b, &t, e);
    }
    if (s == LAM_OK && l->more) s = lam_build_more(b, l->more, e);
    if (s == LAM_OK && l->optimizer)
        s = lam_build_step(b, l->optimizer, l->step < l->last + 1 ? l->step : l->last + 1, l->decided, e);
    pthread_mutex_unlock(&l->lock);
    return s;
}
