/* SPDX-License-Identifier: Apache-2.0
 *
 * Creates builders, and freezes their models: flat lists are grouped, so each module and place has its own
 * list. */
#include "model/builder.h"

#include <stdio.h>
#include <stdlib.h>

static const uint64_t default_limit = UINT64_C(1) << 30;

static void pushed_init(lmi_pushed *p, size_t size) {
    lmi_vec_init(&p->items, size);
    lmi_vec_init(&p->modules, sizeof(int32_t));
}

static void pushed_free(lmi_pushed *p) {
    lmi_vec_free(&p->items);
    lmi_vec_free(&p->modules);
}

lam_status lam_builder_new(lam_builder **out, uint64_t memory_limit, lam_error *e) {
    *out = NULL;
    lam_builder *b = calloc(1, sizeof *b);
    if (!b) return lmi_nomem(e);
    lmi_arena_init(&b->arena, memory_limit ? memory_limit : default_limit);
    lmi_vec_init(&b->modules, sizeof(lam_module));
    pushed_init(&b->attrs, sizeof(lam_attr));
    lmi_vec_init(&b->places, sizeof(lam_place));
    lmi_vec_init(&b->tensors, sizeof(lam_tensor));
    pushed_init(&b->owned, sizeof(lam_owned));
    lmi_vec_init(&b->events, sizeof(lam_event));
    lmi_vec_init(&b->notes, sizeof(const char *));
    lmi_vec_init(&b->made, sizeof(const char *));
    lmi_vec_init(&b->provenance, sizeof(lmi_named_text));
    lmi_vec_init(&b->ops, sizeof(lam_op));
    lmi_vec_init(&b->lifetimes, sizeof(lam_lifetime));
    lmi_vec_init(&b->op_names, sizeof(lmi_op_name));
    lmi_map_init(&b->op_by_name);
    lmi_map_init(&b->by_sig);
    lmi_vec_init(&b->sigs, sizeof(lam_op_sig *));
    lmi_vec_init(&b->shares, sizeof(int32_t));
    lmi_vec_init(&b->again, sizeof(lam_op_arg));
    lmi_vec_init(&b->ties, sizeof(lmi_tie));
    lmi_vec_init(&b->identities, sizeof(lmi_identity));
    *out = b;
    return LAM_OK;
}

void lam_builder_free(lam_builder *b) {
    if (!b) return;
    lmi_vec_free(&b->modules);
    pushed_free(&b->attrs);
    lmi_vec_free(&b->places);
    lmi_vec_free(&b->tensors);
    pushed_free(&b->owned);
    lmi_vec_free(&b->events);
    lmi_vec_free(&b->notes);
    lmi_vec_free(&b->made);
    lmi_vec_free(&b->provenance);
    lmi_vec_free(&b->ops);
    lmi_vec_free(&b->lifetimes);
    lmi_vec_free(&b->op_names);
    lmi_map_free(&b->op_by_name);
    lmi_vec_free(&b->sigs);
    lmi_vec_free(&b->shares);
    lmi_vec_free(&b->again);
    lmi_map_free(&b->by_sig);
    lmi_memory_free(b->memory);
    lmi_device_free(b->device);
    lmi_seen_free(b->seen);
    lmi_vec_free(&b->ties);
    lmi_vec_free(&b->identities);
    lmi_arena_free(&b->arena);
    free(b);
}

/* Moves an array to the model. An empty array becomes a valid address of no elements. */
static void *adopt(lam_model *m, lmi_vec *v) {
    void *data = m->storage[m->n_storage++] = v->data;
    lmi_vec_init(v, v->size);
    return data ? data : lmi_alloc(&m->arena, 0, v->size);
}

/* Orders items by module; `start` has the first item of each module, and the end. Usual sources push items
 * module by module, and then nothing is moved. */
static bool by_module(lam_model *m, lmi_arena *scratch, lmi_pushed *p, char **items, int32_t **start) {
    lmi_groups g;
    int32_t n = (int32_t)p->items.n;
    size_t size = p->items.size;
    if (!lmi_group_by(scratch, p->modules.data, n, m->n_modules, &g)) return false;
    *start = g.start;
    bool sorted = true;
    for (int32_t j = 0; j < n; j++) sorted = sorted && g.order[j] == j;
    *items = sorted ? adopt(m, &p->items) : lmi_alloc(&m->arena, p->items.n, size);
    if (!*items) return false;
    for (int32_t j = 0; !sorted && j < n; j++) {
        memcpy(*items + (size_t)j * size, lmi_vec_at(&p->items, (size_t)g.order[j]), size);
    }
    return true;
}

static bool give_attrs(lam_model *m, lmi_arena *scratch, lmi_pushed *pushed) {
    int32_t *start;
    char *items;
    if (!by_module(m, scratch, pushed, &items, &start)) return false;
    for (int32_t i = 0; i < m->n_modules; i++) {
        m->modules[i].attrs = (lam_attr *)items + start[i];
        m->modules[i].n_attrs = start[i + 1] - start[i];
    }
    return true;
}

/* A module that owns a tensor under two names is one owner: `last` is the last module counted for it. */
static void count_owner(lam_tensor *t, int32_t module, int32_t *last) {
    if (t->owner == -1) t->owner = module;
    if (t->n_owners == 0 || *last != module) t->n_owners++;
    *last = module;
}

static bool give_owned(lam_model *m, lmi_arena *scratch, lmi_pushed *pushed) {
    int32_t *start, *last = lmi_alloc(scratch, (uint64_t)m->n_tensors, sizeof *last);
    char *items;
    if (!last || !by_module(m, scratch, pushed, &items, &start)) return false;
    const lam_owned *owned = (lam_owned *)items;
    for (int32_t i = 0; i < m->n_modules; i++) {
        m->modules[i].owned = owned + start[i];
        m->modules[i].n_owned = start[i + 1] - start[i];
        for (int32_t j = start[i]; j < start[i + 1]; j++) {
            count_owner(&m->tensors[owned[j].tensor], i, &last[owned[j].tensor]);
        }
    }
    return true;
}

static bool give_places(lam_model *m, lmi_arena *scratch) {
    lmi_groups children, of_module;
    int32_t n = m->n_places, *keys = lmi_alloc(scratch, (uint64_t)n, sizeof *keys);
    if (!keys) return false;
    for (int32_t i = 0; i < n; i++) keys[i] = m->places[i].parent;
    if (!lmi_group_by(&m->arena, keys, n, n, &children)) return false;
    for (int32_t i = 0; i < n; i++) keys[i] = m->places[i].module;
    if (!lmi_group_by(&m->arena, keys, n, m->n_modules, &of_module)) return false;
    for (int32_t i = 0; i < n; i++) {
        m->places[i].children = children.order + children.start[i];
        m->places[i].n_children = children.start[i + 1] - children.start[i];
    }
    for (int32_t i = 0; i < m->n_modules; i++) {
        m->modules[i].places = of_module.order + of_module.start[i];
        m->modules[i].n_places = of_module.start[i + 1] - of_module.start[i];
    }
    return true;
}

/* True if there are results, and none of them was pushed with an address. */
static bool is_blind(const lam_builder *b) {
    for (size_t i = 0; !b->identified && i < b->sigs.n; i++) {
        const lam_op_sig *s = ((lam_op_sig **)b->sigs.data)[i];
        for (int32_t k = 0; k < s->n_out; k++)
            if (s->out[k].is_tensor) return true;
    }
    return false;
}

/* Moves a list of the builder to the model's of the same name. */
#define TAKE(list) (m->n_##list = (int32_t)b->list.n, m->list = adopt(m, &b->list))

static lam_status fill(lam_model *m, lmi_arena *scratch, lam_builder *b, lam_error *e) {
    m->n_ties = b->ties.n;
    m->ties = adopt(m, &b->ties); /* the first: the edges take its place in `storage` */
    TAKE(modules);
    TAKE(places);
    TAKE(tensors);
    TAKE(events);
    m->notes = b->notes;
    lmi_vec_init(&b->notes, sizeof(const char *));
    TAKE(made);
    TAKE(provenance);
    m->of_file = lam_model_told(m, "format") != NULL;
    TAKE(ops);
    TAKE(identities);
    TAKE(lifetimes);
    m->more = b->more;
    m->optimizer = b->optimizer;
    m->step = b->optimizer ? b->step : m->n_ops;
    m->decided = b->decided;
    m->n_op_sigs = (int32_t)b->sigs.n;
    m->cut = b->cut;
    m->described = b->described;
    m->trainable_unknown = b->trainable_unknown || b->described;
    m->calls_cut = b->calls_cut;
    m->cut_ns = b->cut_ns;
    m->ops_seen = b->ops_seen;
    m->nodes_seen = b->nodes_seen;
    m->timed = b->timed;
    m->no_backward = b->no_backward;
    m->traced = !is_blind(b);
    m->seen = b->seen;
    b->seen = NULL;
    lmi_seen_finish(m->seen);
    if (!give_attrs(m, scratch, &b->attrs) || !give_owned(m, scratch, &b->owned)) return lmi_nomem(e);
    if (!give_places(m, scratch)) return lmi_nomem(e);
    LAM_TRY(lmi_place_calls(m, scratch, e));
    return lmi_note_raised(m, b->backward_raised, e);
}

/* Names the first tensor whose memory lies in others that are not known, and the number of the others. */
static lam_status note_unknown(lam_model *m, lam_error *e) {
    const char *owner = NULL, *name = NULL;
    int more = -1;
    char text[512], others[32] = "";
    for (int32_t i = 0; i < m->n_modules; i++) {
        const lam_module *mod = &m->modules[i];
        for (int32_t k = 0; k < mod->n_owned; k++) {
            const lam_tensor *t = &m->tensors[mod->owned[k].tensor];
            if (!t->wraps || t->local_bytes >= 0 || t->numel < 0 || t->owner != i || !mod->n_places) continue;
            if (more++ >= 0) continue;
            owner = m->places[mod->places[0]].path;
            name = mod->owned[k].name;
        }
    }
    if (!name) return LAM_OK;
    if (more) snprintf(others, sizeof others, " and of %d more", more);
    snprintf(text, sizeof text,
             "the bytes of %.200s%s%.100s%s are not known, and no sum has them: its class does not name the "
             "tensors that hold its values (__tensor_flatten__)",
             owner, *owner ? "." : "", name, others);
    return lam_model_add_note(m, text, e);
}

/* Makes the model of everything that was pushed. */
static lam_status take_over(lam_model *m, lam_builder *b, lam_error *e) {
    lmi_arena scratch;
    LAM_TRY(lmi_hold_packed(b, e));
    lmi_arena_init(&scratch, UINT64_MAX); /* bounded by what was pushed */
    m->arena = b->arena;
    lmi_arena_init(&b->arena, 0); /* now the model's */
    m->memory = b->memory;
    b->memory = NULL;
    m->device = b->device;
    b->device = NULL;
    lam_status s = fill(m, &scratch, b, e);
    lmi_arena_free(&scratch);
    return s == LAM_OK ? note_unknown(m, e) : s;
}

lam_status lam_builder_finish(lam_builder *b, lam_model **out, lam_error *e) {
    *out = NULL;
    lam_model *m = calloc(1, sizeof *m);
    lam_status s = m ? take_over(m, b, e) : lmi_nomem(e);
    lam_builder_free(b);
    if (s == LAM_OK) {
        *out = m;
    } else {
        lam_model_free(m);
    }
    return s;
}

lam_status lam_model_add_note(lam_model *m, const char *text, lam_error *e) {
    LAM_TRY(lmi_needs(text, "a note", e));
    m->arena.limit = UINT64_MAX; /* a sentence is small, and the limit may have been reached */
    const char *copy = lmi_strdup(&m->arena, text), **at = copy ? lmi_vec_push(&m->notes) : NULL;
    if (!at) return lmi_nomem(e);
    *at = copy;
    return LAM_OK;
}

lam_status lam_model_keep(lam_model *m, const lam_kept *kept, int32_t n, int64_t batch, const char *why,
                          lam_error *e) {
    if (n < 0 || batch < 1) return lmi_fail(e, LAM_RANGE, "lam_model_keep", "there is no such cache");
    for (int32_t i = 0; i < n; i++)
        if (kept[i].before < 0 || kept[i].after < 0)
            return lmi_fail(e, LAM_RANGE, "lam_model_keep", "a tensor can't have less than 0 bytes");
    m->arena.limit = UINT64_MAX;
    m->kept = lmi_copy(&m->arena, kept, (uint64_t)n, sizeof *kept);
    m->kept_why = why ? lmi_strdup(&m->arena, why) : NULL;
    if (!m->kept || (why && !m->kept_why)) return lmi_nomem(e);
    m->n_kept = n;
    m->kept_batch = batch;
    return LAM_OK;
}

lam_status lam_model_time_by(lam_model *m, lam_model *timed, lam_error *e) {
    lam_status s = LAM_OK;
    if (!timed || !timed->timed || timed->timed_by)
        s = lmi_fail(e, LAM_USAGE, "lam_model_time_by", "this capture was not timed");
    else if (m->timed_by || m->n_places != timed->n_places)
        s = lmi_fail(e, LAM_USAGE, "lam_model_time_by", "the two captures are not of the same tree");
    if (s == LAM_OK) {
        m->timed_by = timed;
        m->timed = true;
    } else {
        lam_model_free(timed);
    }
    return s;
}

void lam_model_free(lam_model *m) {
    if (!m) return;
    if (m->given) m->free_given(m->given);
    lam_model_free(m->timed_by);
    for (int32_t i = 0; i < m->n_storage; i++) free(m->storage[i]);
    lmi_vec_free(&m->notes);
    for (size_t i = 0; i < m->open_sizes.n; i++)
        for (int32_t k = 0; k < lmi_open_size_at(m, i)->n_others; k++)
            lam_model_free(lmi_open_size_at(m, i)->at[k]);
    lmi_vec_free(&m->open_sizes);
    lmi_map_free(&m->by_path);
    lmi_memory_free(m->memory);
    lmi_device_free(m->device);
    lmi_seen_free(m->seen);
    lmi_arena_free(&m->arena);
    free(m);
}
