/* SPDX-License-Identifier: Apache-2.0
 * What the dicts of modules told, by the numbers that CPython gives dicts. */
#include "known.h"

#include <string.h>

/* Bytes of what is kept, a few thousand modules. What is kept last may go beyond. */
enum { MOST = 2 << 20 };

/* == the numbers of dicts ============================================================================== */

/* Behind how many entries there are. No header of the limited API tells, so it is proved once. */
static uint64_t number_of(const void *dict) {
    uint64_t number;
    memcpy(&number, (const char *)dict + sizeof(PyObject) + sizeof(Py_ssize_t), sizeof number);
    return number;
}

static bool renews(PyObject *dict, uint64_t *last, bool ok) {
    uint64_t now = number_of(dict);
    ok = ok && now != *last;
    *last = now;
    return ok;
}

/* Whether each change of a dict gives it another number, reading gives none, and another dict has others. */
static bool proves(PyObject *a, PyObject *b, PyObject *key) {
    uint64_t last = number_of(a), other = number_of(b);
    bool ok = last != other && renews(a, &last, PyDict_SetItem(a, key, Py_None) == 0);
    ok = ok && renews(a, &last, PyDict_SetItem(a, key, Py_True) == 0);
    ok = ok && PyDict_GetItemWithError(a, key) == Py_True && number_of(a) == last;
    ok = ok && renews(a, &last, PyDict_DelItem(a, key) == 0);
    ok = ok && renews(a, &last, PyDict_SetItem(a, key, Py_True) == 0);
    ok = ok && renews(b, &other, PyDict_Update(b, a) == 0) && other != last;
    PyDict_Clear(a);
    return renews(a, &last, ok);
}

/* 3.13 has them no more. */
static bool have_numbers(void) {
    const char *version = Py_GetVersion();
    if (strncmp(version, "3.10", 4) != 0 && strncmp(version, "3.11", 4) != 0 &&
        strncmp(version, "3.12", 4) != 0)
        return false;
    PyObject *a = PyDict_New(), *b = PyDict_New(), *key = PyUnicode_FromString("a");
    bool yes = a && b && key && proves(a, b, key);
    Py_XDECREF(a);
    Py_XDECREF(b);
    Py_XDECREF(key);
    PyErr_Clear();
    return yes;
}

static lmx_stamp stamp_of(const PyObject *dict) { return (lmx_stamp){dict, number_of(dict)}; }

static bool is_same(const lmx_stamp *s) { return number_of(s->dict) == s->number; }

static bool has_room(const lmx_knowns *k) {
    const size_t slots = k->by_module.keys ? k->by_module.mask + 1 : 0;
    const size_t slot = sizeof *k->by_module.keys + sizeof *k->by_module.values;
    return k->words.n * sizeof(uint64_t) + k->all.n * sizeof(lmx_known) + slots * slot < MOST;
}

/* == reading =========================================================================================== */

enum { WORDS_A_CHILD = 2, WORDS_A_TENSOR = 4, WORDS_AN_ATTR = 3 };

int32_t lmx_known_of(lmx_state *st, const PyObject *module) {
    return lmx_map_get(&st->knowns->by_module, module);
}

/* The module lives, and so does its dict; what that holds does where it did not change. */
static const lmx_known *record_of(lmx_state *st, int32_t i, const PyObject *module, const PyObject *dict) {
    const lmx_knowns *k = st->knowns;
    if (i < 0 || (size_t)i >= k->all.n || k->generation != st->classes->generation) return NULL;
    const lmx_known *known = (const lmx_known *)k->all.data + i;
    const lmx_stamp *own = &known->stamps[LMX_OWN_DICT];
    return known->module == module && known->type == Py_TYPE(module) && own->dict == dict && is_same(own)
               ? known
               : NULL;
}

const lmx_known *lmx_known_children(lmx_state *st, int32_t i, const PyObject *module, const PyObject *dict) {
    const lmx_known *known = record_of(st, i, module, dict);
    return known && is_same(&known->stamps[LMX_CHILDREN]) ? known : NULL;
}

bool lmx_known_holds(const lmx_known *of) {
    return is_same(&of->stamps[LMX_OWN_DICT]) && is_same(&of->stamps[LMX_PARAMETERS]) &&
           is_same(&of->stamps[LMX_BUFFERS]);
}

const lmx_known *lmx_known_rest(lmx_state *st, int32_t i, const PyObject *module, const PyObject *dict) {
    const lmx_known *known = record_of(st, i, module, dict);
    if (!known || !lmx_known_holds(known)) return NULL;
    lmx_tensor_of t;
    for (size_t at = known->owned_at; lmx_known_tensor(st->knowns, known, &at, &t);)
        if (!lmx_is_torchs(st, t.tensor)) return NULL;
    return known;
}

void lmx_known_ahead(lmx_state *st, int32_t i, const PyObject *module) {
    enum { LINE = 64 };
    const lmx_knowns *k = st->knowns;
    __builtin_prefetch(module);
    if (i < 0 || (size_t)i >= k->all.n) return;
    const lmx_known *known = (const lmx_known *)k->all.data + i;
    const uint64_t *words = k->words.data;
    for (int s = 0; s < LMX_STAMPS; s++) __builtin_prefetch(known->stamps[s].dict);
    for (size_t at = known->owned_at; at < known->attrs_at; at += WORDS_A_TENSOR) {
        const char *object = (const char *)(uintptr_t)words[at + 3];
        __builtin_prefetch((const void *)(uintptr_t)words[at + 1]);
        for (size_t line = 0; line < 3; line++) __builtin_prefetch(object + line * LINE);
    }
}

bool lmx_known_child(const lmx_knowns *k, const lmx_known *of, size_t *at, lmx_child *out) {
    if (*at >= of->owned_at) return false;
    PyObject *const *words = (PyObject *const *)k->words.data + *at;
    *out = (lmx_child){words[0], words[1]};
    *at += WORDS_A_CHILD;
    return true;
}

bool lmx_known_tensor(const lmx_knowns *k, const lmx_known *of, size_t *at, lmx_tensor_of *out) {
    if (*at >= of->attrs_at) return false;
    const uint64_t *words = (const uint64_t *)k->words.data + *at;
    *out = (lmx_tensor_of){(const char *)(uintptr_t)words[0], (PyObject *)(uintptr_t)words[1], words[2] != 0};
    *at += WORDS_A_TENSOR;
    return true;
}

bool lmx_known_attr(const lmx_knowns *k, const lmx_known *of, size_t *at, lmx_attr_of *out) {
    if (*at >= of->end) return false;
    const uint64_t *words = (const uint64_t *)k->words.data + *at;
    lam_value v = {.type = (lam_value_type)(words[1] & UINT8_MAX), .n = (int32_t)(words[1] >> 32)};
    *at += WORDS_AN_ATTR;
    if (v.type == LAM_TEXT) {
        v.text = (const char *)(uintptr_t)words[2];
    } else if (v.type == LAM_FLOAT) {
        memcpy(&v.f, &words[2], sizeof v.f);
    } else if (v.type == LAM_INTS) {
        v.ints = (const int64_t *)&words[WORDS_AN_ATTR];
        *at += (size_t)v.n;
    } else {
        v.i = (int64_t)words[2];
    }
    *out = (lmx_attr_of){(const char *)(uintptr_t)words[0], v};
    return true;
}

/* == noting ============================================================================================ */

static void keep(lmx_state *st, lmx_noting *n, const uint64_t *words, size_t count) {
    lmx_knowns *k = st->knowns;
    k->full = k->full || !has_room(k);
    uint64_t *to = n->open && !k->full ? lmx_vec_push(&k->words, sizeof *to, count) : NULL;
    if (to) memcpy(to, words, count * sizeof *to);
    n->open = n->open && to;
}

static uint64_t word(const void *p) { return (uint64_t)(uintptr_t)p; }

static void note_children(lmx_state *st, lmx_noting *n, PyObject *children) {
    PyObject *name, *module;
    for (Py_ssize_t at = 0; n->open && PyDict_Next(children, &at, &name, &module);) {
        const uint64_t words[WORDS_A_CHILD] = {word(name), word(module)};
        keep(st, n, words, WORDS_A_CHILD);
    }
}

/* Where a class sets attributes as `object` does, CPython 3.12 up to 3.12.5 may drop what was there before
 * the dict has its new number: a capture that this runs would follow addresses of what is gone. */
static bool numbers_late(PyTypeObject *type) {
    void *const set = PyType_GetSlot(type, Py_tp_setattro);
    setattrofunc const plain = PyObject_GenericSetAttr;
    return memcmp(&set, &plain, sizeof set) == 0;
}

/* Begins anew where there is no room and the description before had no use of what is there. */
void lmx_knowns_begin(lmx_state *st) {
    lmx_knowns *k = st->knowns;
    if (k->busy) return;
    if (k->generation != st->classes->generation || (k->full && !k->used)) lmx_knowns_clear(k);
    k->generation = st->classes->generation;
    k->used = false;
}

void lmx_note_begin(lmx_state *st, lmx_noting *n, PyObject *module, PyObject *dict, const lmx_class *class) {
    lmx_knowns *k = st->knowns;
    *n = (lmx_noting){0};
    if (!k->numbered) k->numbered = have_numbers() ? 1 : -1;
    k->full = k->full || !has_room(k);
    if (k->numbered < 0 || k->busy || k->full || !dict || class->script || class->packs) return;
    if (numbers_late(Py_TYPE(module))) return;
    PyObject *dicts[LMX_STAMPS] = {dict, lmx_get(dict, st->n__modules), lmx_get(dict, st->n__parameters),
                                   lmx_get(dict, st->n__buffers)};
    n->now = (lmx_known){.module = module, .type = Py_TYPE(module), .class = class, .at = k->words.n};
    for (int i = 0; i < LMX_STAMPS; i++) {
        if (!dicts[i] || !PyDict_CheckExact(dicts[i])) return;
        n->now.stamps[i] = stamp_of(dicts[i]);
    }
    PyObject *compiled = lmx_get(dict, st->n__compiled_call_impl);
    if (compiled && compiled != Py_None) return;
    n->open = n->holds = true;
    k->busy++;
    note_children(st, n, dicts[LMX_CHILDREN]);
    n->now.owned_at = n->now.attrs_at = k->words.n;
}

void lmx_note_tensor(lmx_state *st, lmx_noting *n, const char *name, PyObject *tensor, bool is_buffer) {
    uint64_t object = 0;
    if (!n->open) return;
    if (!lmx_is_torchs(st, tensor)) {
        lmx_note_nothing(n);
        return;
    }
    if (st->torch.offset >= 0) memcpy(&object, (const char *)tensor + st->torch.offset, sizeof object);
    const uint64_t words[WORDS_A_TENSOR] = {word(name), word(tensor), is_buffer, object};
    keep(st, n, words, WORDS_A_TENSOR);
    n->now.attrs_at = st->knowns->words.n;
}

/* What stays what it is while the dict does. */
static bool is_constant(PyObject *o) {
    if (lmx_is_settled(o)) return true;
    bool yes = PyTuple_CheckExact(o);
    for (Py_ssize_t i = 0; yes && i < PyTuple_Size(o); i++) yes = lmx_is_settled(PyTuple_GetItem(o, i));
    return yes;
}

void lmx_note_attr(lmx_state *st, lmx_noting *n, const char *name, PyObject *o, const lam_value *v) {
    if (!n->open) return;
    if (!is_constant(o)) {
        lmx_note_nothing(n);
        return;
    }
    uint64_t words[WORDS_AN_ATTR] = {word(name), (uint64_t)v->type | (uint64_t)v->n << 32, (uint64_t)v->i};
    if (v->type == LAM_TEXT) words[2] = word(v->text);
    if (v->type == LAM_FLOAT) memcpy(&words[2], &v->f, sizeof v->f);
    keep(st, n, words, WORDS_AN_ATTR);
    if (v->type == LAM_INTS && v->n) keep(st, n, (const uint64_t *)v->ints, (size_t)v->n);
}

void lmx_note_nothing(lmx_noting *n) { n->open = false; }

void lmx_note_end(lmx_state *st, lmx_noting *n, uint32_t flags) {
    lmx_knowns *k = st->knowns;
    if (n->open && k->busy == 1) { /* else another thread holds on to a record, which would move */
        n->now.flags = flags;
        n->now.end = k->words.n;
        int32_t i = lmx_known_of(st, n->now.module);
        lmx_known *at = i >= 0 ? (lmx_known *)k->all.data + i : lmx_vec_push(&k->all, sizeof *at, 1);
        if (at) *at = n->now;
        if (at && i < 0 && !lmx_map_put(&k->by_module, n->now.module, (int32_t)k->all.n - 1)) k->all.n--;
    } else if (n->holds) {
        k->words.n = n->now.at;
    }
    if (n->holds) k->busy--;
}

void lmx_knowns_clear(lmx_knowns *k) {
    lmx_vec_free(&k->all);
    lmx_vec_free(&k->words);
    lmx_map_free(&k->by_module);
    k->full = k->used = false;
}
