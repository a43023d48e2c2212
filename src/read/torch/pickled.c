/* SPDX-License-Identifier: Apache-2.0
 *
 * What is in a pickle that was read: items, texts, numbers, imports and calls. */
#include "read/torch/pickle.h"

lmi_pickled_items lmi_pickled_items_of(const lmi_pickle *p, int32_t value) {
    const lmi_pickled_value *v = value < 0 ? NULL : lmi_pickled_at(p, value);
    if (v && v->kind >= LMI_PICKLED_TUPLE && v->kind <= LMI_PICKLED_DICT)
        return *(const lmi_pickled_items *)lmi_vec_at(&p->items, (size_t)v->items);
    if (v && v->kind == LMI_PICKLED_CALL)
        return ((const lmi_pickled_call *)lmi_vec_at(&p->call, (size_t)v->call))->items;
    return (lmi_pickled_items){-1, -1, 0};
}

int32_t lmi_pickled_item(const lmi_pickle *p, int32_t tuple, int32_t i) {
    const lmi_pickled_value *v = tuple < 0 ? NULL : lmi_pickled_at(p, tuple);
    if (!v || v->kind != LMI_PICKLED_TUPLE) return -1;
    lmi_pickled_items items = lmi_pickled_items_of(p, tuple);
    return i >= 0 && i < items.n ? lmi_pickled_cell_at(p, items.first + i)->value : -1;
}

const char *lmi_pickled_text(const lmi_pickle *p, int32_t value) {
    const lmi_pickled_value *v = value < 0 ? NULL : lmi_pickled_at(p, value);
    return v && v->kind == LMI_PICKLED_TEXT ? v->text : NULL;
}

bool lmi_pickled_int(const lmi_pickle *p, int32_t value, int64_t *out) {
    const lmi_pickled_value *v = value < 0 ? NULL : lmi_pickled_at(p, value);
    if (!v || v->kind != LMI_PICKLED_INT) return false;
    *out = v->i;
    return true;
}

int32_t lmi_pickled_get(const lmi_pickle *p, int32_t dict, const char *name) {
    const lmi_pickled_value *v = dict < 0 ? NULL : lmi_pickled_at(p, dict);
    if (!v || (v->kind != LMI_PICKLED_DICT && v->kind != LMI_PICKLED_CALL)) return -1;
    for (int32_t c = lmi_pickled_items_of(p, dict).first; c >= 0;) {
        const lmi_pickled_cell *key = lmi_pickled_cell_at(p, c);
        const lmi_pickled_cell *value = key->next < 0 ? NULL : lmi_pickled_cell_at(p, key->next);
        const char *text = lmi_pickled_text(p, key->value);
        if (!value) return -1;
        if (text && strcmp(text, name) == 0) return value->value;
        c = value->next;
    }
    return -1;
}

const lmi_pickled_global *lmi_pickled_global_of(const lmi_pickle *p, int32_t value) {
    const lmi_pickled_value *v = value < 0 ? NULL : lmi_pickled_at(p, value);
    return v && v->kind == LMI_PICKLED_GLOBAL ? lmi_vec_at(&p->global, (size_t)v->global) : NULL;
}

const lmi_pickled_call *lmi_pickled_call_of(const lmi_pickle *p, int32_t value, const char *module,
                                            const char *name) {
    const lmi_pickled_value *v = value < 0 ? NULL : lmi_pickled_at(p, value);
    if (!v || v->kind != LMI_PICKLED_CALL) return NULL;
    const lmi_pickled_call *call = lmi_vec_at(&p->call, (size_t)v->call);
    const lmi_pickled_global *g = lmi_pickled_global_of(p, call->function);
    bool named = (!module && !name) ||
                 (g && (!module || !strcmp(g->module, module)) && (!name || !strcmp(g->name, name)));
    return named ? call : NULL;
}
