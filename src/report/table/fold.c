/* SPDX-License-Identifier: Apache-2.0
 *
 * Equal siblings on one line. Two subtrees are equal if they have the same class, shapes, numbers and ties,
 * and equal children of the same names. Each node gets the number of its equality class, children first: a
 * node's key is a text of what it shows and of its children's numbers, so nothing is compared twice and
 * nothing recurs. */
#include "report/table/report.h"

size_t lmi_stem(const char *name) {
    size_t n = strlen(name);
    while (n > 0 && name[n - 1] >= '0' && name[n - 1] <= '9') n--;
    return n;
}

enum { MARK = 0x1f }; /* separates the parts of a key; no cleaned name contains it */

static void put_counts(const lam_count *counts, size_t n, lmi_buf *key) {
    for (size_t k = 0; k < n; k++) {
        lmi_putf(key, "%c%d:", MARK, (int)counts[k].state);
        lmi_put_plain(key, counts[k]);
    }
}

static void put_key(const lmi_nodes *t, const lmi_job *j, int32_t i, const int64_t *class_of, lmi_buf *key) {
    const lmi_node *node = &t->at[i];
    const lmi_line *l = &node->line;
    lmi_put_clean(key, l->module->type_path ? l->module->type_path : l->module->type);
    lmi_putf(key, "%c%d%s%d%c", MARK, l->own, lmi_line_status(l), (int)node->self.calls, MARK);
    if (l->event)
        for (int32_t k = 0; k < l->event->n_out; k++) {
            lmi_put_shape(key, lmi_arg_shape(&l->event->out[k]));
            lmi_putf(key, ":%d;", (int)l->event->out[k].dtype);
        }
    const lam_count counts[] = {l->row.params,        l->row.grad_params, l->row.param_bytes,
                                l->row.logical_bytes, l->row.local_bytes, l->row.buffers,
                                l->row.buffer_bytes};
    put_counts(counts, sizeof counts / sizeof *counts, key);
    put_counts(l->row.metric, LAM_N_METRICS, key);
    if (lmi_by_ops(j->c)) {
        put_counts(l->row.backward, LAM_N_METRICS, key);
        put_counts(l->row.recompute, LAM_N_METRICS, key);
    }
    if (j->health && l->event)
        lmi_putf(key, "%c%d %d", MARK, (int)lam_health_at(j->health, l->event->place, LAM_FORWARD),
                 (int)lam_health_at(j->health, l->event->place, LAM_BACKWARD));
    if (j->o->receptive_field) lmi_putf(key, "%c%d:%a", MARK, (int)l->row.rf_state, l->row.rf);
    lmi_memory_key(j, l, key);
    lmi_putc(key, MARK);
    lmi_nodes_marks(t, i, false, key);
    for (int32_t c = node->first_child; c >= 0; c = t->at[c].next) {
        lmi_putc(key, MARK);
        if (!t->at[c].line.own) lmi_put_clean(key, t->at[c].line.place->name); /* else it is the parent's */
        lmi_putf(key, "=%lld", (long long)class_of[c]);
    }
}

static lam_status classify(lmi_nodes *t, const lmi_job *j, int64_t *class_of, lmi_map *classes,
                           lmi_buf *key) {
    for (int32_t i = t->n - 1; i >= 0; i--) {
        if (!t->at[i].used) continue;
        key->n = 0;
        put_key(t, j, i, class_of, key);
        LAM_TRY(lmi_buf_status(key, j->e));
        class_of[i] = lmi_map_get(classes, key->s);
        if (class_of[i] >= 0) continue;
        const char *kept = lmi_strndup(&t->arena, key->s, key->n);
        if (!kept) return lmi_nomem(j->e);
        class_of[i] = i;
        LAM_TRY(lmi_map_put(classes, kept, i, j->e));
    }
    return LAM_OK;
}

/* True for "layer3" after "layer2". The numbers are compared as text: they may have any length. */
static bool follows(const char *name, const char *after) {
    size_t stem = lmi_stem(after), n = strlen(after);
    char next[64];
    if (n == stem || n >= sizeof next - 1) return false;
    memcpy(next, after, n + 1);
    size_t i = n;
    while (i > stem && next[i - 1] == '9') next[--i] = '0';
    if (i > stem) {
        next[i - 1]++;
    } else {
        memmove(next + stem + 1, next + stem, n - stem + 1);
        next[stem] = '1';
    }
    return strcmp(name, next) == 0;
}

/* Adds up the times of two equal subtrees, node by node, as they may differ. */
static void merge_times(lmi_nodes *t, int32_t a, int32_t b) {
    for (int32_t x = a, y = b;;) {
        lmi_line_add_times(&t->at[x].line, &t->at[y].line);
        lmi_line_add_times(&t->at[x].self, &t->at[y].self);
        if (t->at[x].first_child >= 0 && t->at[y].first_child >= 0) {
            x = t->at[x].first_child;
            y = t->at[y].first_child;
            continue;
        }
        while (x != a && (t->at[x].next < 0 || t->at[y].next < 0)) {
            x = t->at[x].parent;
            y = t->at[y].parent;
        }
        if (x == a) return;
        x = t->at[x].next;
        y = t->at[y].next;
    }
}

static void fold_children(lmi_nodes *t, int32_t first, const int64_t *class_of, bool timed) {
    for (int32_t a = first; a >= 0;) {
        lmi_node *node = &t->at[a];
        int32_t last = a, b = node->next;
        while (b >= 0 && class_of[b] == class_of[a] && !t->at[b].line.own &&
               follows(t->at[b].line.place->name, t->at[last].line.place->name)) {
            node->fold++;
            t->at[b].fold = 0;
            if (timed) merge_times(t, a, b);
            last = b;
            b = t->at[b].next;
        }
        if (last != a) node->last = last;
        a = b;
    }
}

lam_status lmi_nodes_fold(lmi_nodes *t, const lmi_job *j) {
    lmi_map classes;
    lmi_buf key;
    int64_t *class_of = lmi_alloc(&t->arena, (uint64_t)t->n, sizeof *class_of);
    if (!class_of) return lmi_nomem(j->e);
    lmi_map_init(&classes);
    lmi_buf_init(&key);
    lam_status s = classify(t, j, class_of, &classes, &key);
    lmi_map_free(&classes);
    lmi_buf_free(&key);
    if (s != LAM_OK) return s;
    for (int32_t i = 0; i < t->n; i++)
        if (t->at[i].used) fold_children(t, t->at[i].first_child, class_of, lmi_has_times(j->c));
    for (int32_t i = 0; i < t->n; i++) {
        lmi_node *node = &t->at[i];
        node->times = (node->parent < 0 ? 1 : t->at[node->parent].times) * (node->fold > 0 ? node->fold : 1);
    }
    return LAM_OK;
}
