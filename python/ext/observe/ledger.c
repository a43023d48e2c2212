/* SPDX-License-Identifier: Apache-2.0
 * Lifetimes of memory. torch releases tensors in any thread, with or without the GIL, possibly long
 * after the run. So a ledger has a lock, and lives until the last tensor in it is gone. */
#include "observe/ledger.h"
#include "base/ext.h"

#include <pthread.h>
#include <stdlib.h>

struct lmx_ledger {
    pthread_mutex_t lock;
    size_t held; /* live tensors, plus one for the owner */
    bool open;
    bool lost; /* memory ran out */
    bool outside, over;
    int32_t op, last; /* the running operator, and the last one */
    int64_t turn;     /* the number of operators that were answered */
    size_t first;     /* the first entry of the running operator */
    lmi_vec entries;  /* lam_lifetime */
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
    PyErr_NoMemory();
    return NULL;
}

/* Drops a reference; the last one frees the ledger. */
static void let_go(lmx_ledger *l, const ticket *t) {
    pthread_mutex_lock(&l->lock);
    if (!t) {
        l->open = false;
    } else if (l->open) {
        lam_lifetime *entry = &((lam_lifetime *)l->entries.data)[t->entry];
        entry->freed = l->over ? -1 : l->op < entry->made ? entry->made : l->op;
    }
    bool last = --l->held == 0;
    pthread_mutex_unlock(&l->lock);
    if (!last) return;
    lmi_vec_free(&l->entries);
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

void lmx_ledger_over(lmx_ledger *l) {
    pthread_mutex_lock(&l->lock);
    l->over = true;
    pthread_mutex_unlock(&l->lock);
}

void *lmx_ledger_take(lmx_ledger *l, int64_t bytes, void *own) {
    ticket *t = malloc(sizeof *t);
    if (!t) return NULL;
    pthread_mutex_lock(&l->lock);
    lam_lifetime *to = l->open ? lmx_vec_push(&l->entries, sizeof *to, 1) : NULL;
    if (to)
        *to = (lam_lifetime){.bytes = bytes,
                             .made = l->op + l->outside, /* outside: the next operator's */
                             .freed = -1,
                             .what = l->outside ? LAM_TAKEN_SEED : LAM_TAKEN_TENSOR};
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
    lam_lifetime *all = l->entries.data, *largest = NULL;
    for (size_t i = l->first; l->open && i < l->entries.n; i++) {
        if (all[i].what != LAM_TAKEN_TENSOR) continue;
        if (all[i].freed >= 0) all[i].bytes = 0;
        if (all[i].freed >= 0) continue;
        bytes -= all[i].bytes;
        if (!largest || all[i].bytes > largest->bytes) largest = &all[i];
    }
    if (largest && largest->bytes + bytes >= 0) largest->bytes += bytes;
    pthread_mutex_unlock(&l->lock);
}

void lmx_ledger_note(lmx_ledger *l, int64_t bytes, lam_taken what) {
    bool wanted = bytes > 0 || what != LAM_TAKEN_WORKSPACE;
    pthread_mutex_lock(&l->lock);
    lam_lifetime *to = l->open && wanted ? lmx_vec_push(&l->entries, sizeof *to, 1) : NULL;
    if (to) *to = (lam_lifetime){.bytes = bytes, .made = l->op, .freed = l->op, .what = what};
    pthread_mutex_unlock(&l->lock);
}

lam_status lmx_ledger_push(lmx_ledger *l, lam_builder *b, lam_error *e) {
    lam_status s = LAM_OK;
    pthread_mutex_lock(&l->lock);
    const lam_lifetime *all = l->entries.data, none = {.made = -1, .freed = -1, .what = LAM_TAKEN_TENSOR};
    if (l->entries.n == 0) s = lam_build_lifetime(b, &none, e); /* known: nothing was allocated */
    for (size_t i = 0; s == LAM_OK && i < l->entries.n; i++) {
        lam_lifetime t = all[i];
        if (t.made > l->last) t.made = l->last;
        if (t.freed > l->last) t.freed = l->last;
        s = lam_build_lifetime(b, &t, e);
    }
    pthread_mutex_unlock(&l->lock);
    return s;
}
