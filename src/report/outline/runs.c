/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs of equal siblings: at least three in a row that have equal types, shapes, counts and insides, and
 * names that differ only in the number at their end. Places are numbered by their contents, children first,
 * so that nothing is compared twice and nothing recurs. Measured times and memory are not compared: they
 * always differ. */
#include "report/outline/work.h"

enum { SHORTEST = 3 };

/* Keys of all kinds of places. */
typedef struct kinds {
    lmi_vec words; /* int64_t: the keys */
    lmi_vec at;    /* kind */
    lmi_map by_hash;
    lmi_vec key;
} kinds;

typedef struct kind {
    size_t from, n; /* its key in `words` */
    int64_t place;
} kind;

static const lmi_own_number compared[] = {LMI_OWN_PARAMS,       LMI_OWN_PARAM_BYTES, LMI_OWN_MACS,
                                          LMI_OWN_FLOPS,        LMI_OWN_READ,        LMI_OWN_WRITTEN,
                                          LMI_OWN_BACK_MACS,    LMI_OWN_BACK_FLOPS,  LMI_OWN_BACK_READ,
                                          LMI_OWN_BACK_WRITTEN, LMI_OWN_CALLS};
enum { N_COMPARED = sizeof compared / sizeof *compared };

static bool add_word(lmi_vec *key, int64_t word) {
    int64_t *at = lmi_vec_add(key, 1);
    if (at) *at = word;
    return at != NULL;
}

/* Equal texts have one address (lmi_take_text). */
static int64_t of_text(const char *text) { return (int64_t)(uintptr_t)text; }

static bool make_key(const lmi_taking *w, int32_t i, lmi_vec *key) {
    const lmi_outlined *at = &w->at[i];
    const int64_t looks = at->state | at->family << 8 | at->health[0] << 16 | at->health[1] << 20;
    key->n = 0;
    bool ok = add_word(key, of_text(at->type)) && add_word(key, of_text(at->in)) &&
              add_word(key, of_text(at->out)) && add_word(key, looks);
    for (int k = 0; k < N_COMPARED && ok; k++)
        ok = add_word(key, w->own[compared[k]][i]) && add_word(key, w->state[compared[k]][i]);
    for (int32_t child = i + 1; child < at->end && ok; child = w->at[child].end)
        ok = add_word(key, of_text(w->at[child].name)) && add_word(key, w->alike[child]);
    return ok;
}

/* The place with the key, or -1. */
static int64_t find_kind(const kinds *all, uint64_t hash) {
    const int64_t *words = all->words.data, *key = all->key.data;
    int64_t i;
    for (size_t at = (size_t)hash; (i = lmi_map_next(&all->by_hash, hash, &at)) >= 0;) {
        const kind *k = lmi_vec_at(&all->at, (size_t)i);
        if (k->n == all->key.n && memcmp(words + k->from, key, k->n * sizeof *key) == 0) return k->place;
    }
    return -1;
}

static lam_status classify(lmi_taking *w, kinds *all) {
    for (int32_t i = w->n - 1; i >= 0; i--) {
        if (!make_key(w, i, &all->key)) return lmi_nomem(w->e);
        uint64_t hash = lmi_hash(all->key.data, all->key.n * sizeof(int64_t));
        w->alike[i] = find_kind(all, hash);
        if (w->alike[i] >= 0) continue;
        w->alike[i] = i;
        kind *k = lmi_vec_push(&all->at);
        int64_t *words = lmi_vec_add(&all->words, all->key.n);
        if (!k || !words) return lmi_nomem(w->e);
        memcpy(words, all->key.data, all->key.n * sizeof *words);
        *k = (kind){all->words.n - all->key.n, all->key.n, i};
        LAM_TRY(lmi_map_add(&all->by_hash, hash, (int64_t)all->at.n - 1, w->e));
    }
    return LAM_OK;
}

/* True for "layer3" and "layer12"; both must end in a number. */
static bool counts_on(const char *a, const char *b) {
    size_t stem = lmi_stem(a);
    return a[stem] && stem == lmi_stem(b) && b[stem] && memcmp(a, b, stem) == 0;
}

static void mark_runs(lmi_taking *w, int32_t parent) {
    int32_t end = w->at[parent].end;
    for (int32_t first = parent + 1; first < end;) {
        int32_t n = 1, next = w->at[first].end;
        while (next < end && w->alike[next] == w->alike[first] &&
               counts_on(w->at[first].name, w->at[next].name)) {
            next = w->at[next].end;
            n++;
        }
        if (n >= SHORTEST) {
            w->at[first].n_run = n;
            for (int32_t i = first; i < next; i = w->at[i].end) w->at[i].run = first;
        }
        first = next;
    }
}

lam_status lmi_find_runs(lmi_taking *w) {
    kinds all;
    w->alike = lmi_alloc(&w->scratch, (uint64_t)w->n, sizeof *w->alike);
    if (!w->alike) return lmi_nomem(w->e);
    lmi_vec_init(&all.words, sizeof(int64_t));
    lmi_vec_init(&all.at, sizeof(kind));
    lmi_vec_init(&all.key, sizeof(int64_t));
    lmi_map_init(&all.by_hash);
    lam_status s = classify(w, &all);
    lmi_vec_free(&all.words);
    lmi_vec_free(&all.at);
    lmi_vec_free(&all.key);
    lmi_map_free(&all.by_hash);
    for (int32_t i = 0; i < w->n && s == LAM_OK; i++)
        if (w->at[i].n_children >= SHORTEST) mark_runs(w, i);
    return s;
}
