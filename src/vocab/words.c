/* SPDX-License-Identifier: Apache-2.0
 *
 * Words: the spellings of torch.nn, their kinds, and the binder. The signatures are compiled in: a role
 * without a slot is a compile error, and nothing is parsed at run time. */
#include "vocab/vocab.h"

typedef enum role_type { END, CALL_ARG, NO_ROLE, OWNED, ATTRIBUTE } role_type;

typedef struct role {
    role_type type;
    lmi_slot_id slot;
    const char *theirs;
} role;

#define ARG(theirs, ours)    {CALL_ARG, LMI_S_##ours, #theirs},
#define SKIP(theirs)         {NO_ROLE, LMI_N_SLOTS, #theirs},
#define OWN(theirs, ours)    {OWNED, LMI_S_##ours, #theirs},
#define ATTR(theirs, ours)   {ATTRIBUTE, LMI_S_##ours, #theirs},
#define SIGNATURE(name, ...) static const role name##_roles[] = {__VA_ARGS__{END, LMI_N_SLOTS, NULL}};
#include "vocab/signatures.def"
#undef SIGNATURE
#undef ATTR
#undef OWN
#undef SKIP
#undef ARG

static const struct word {
    const char *name;
    lmi_kind kind;
    const role *roles;
} words[] = {
#define NAME(spelling, kind, signature) {spelling, LMI_K_##kind, signature##_roles},
#include "vocab/names_module.def"
#undef NAME
};

enum { N_WORDS = sizeof words / sizeof *words };

static const struct word *at(int32_t word) { return word >= 0 && word < N_WORDS ? &words[word] : NULL; }

int32_t lam_word_module(const char *name) {
    int32_t low = 0, high = N_WORDS;
    while (name && low < high) {
        int32_t mid = low + (high - low) / 2;
        int order = strcmp(name, words[mid].name);
        if (order == 0) return mid;
        if (order < 0) {
            high = mid;
        } else {
            low = mid + 1;
        }
    }
    return -1;
}

const char *lam_word_name(int32_t word) { return at(word) ? words[word].name : NULL; }
const char *lam_word_kind(int32_t word) { return at(word) ? lmi_kind_name(words[word].kind) : NULL; }
lmi_kind lmi_word_kind(int32_t word) { return at(word) ? words[word].kind : LMI_N_KINDS; }
bool lam_word_is_container(int32_t word) {
    return at(word) && lmi_kind_family(words[word].kind) == LMI_F_hold;
}

const char *lam_word_attr(int32_t word, int32_t i) {
    if (!at(word) || i < 0) return NULL;
    for (const role *r = words[word].roles; r->type != END; r++) {
        if (r->type == ATTRIBUTE && i-- == 0) return r->theirs;
    }
    return NULL;
}

int32_t lmi_word_rank(int32_t word) {
    const char *name = lam_word_name(word);
    size_t n = name ? strlen(name) : 0;
    bool spatial = n > 2 && name[n - 1] == 'd' && strchr("123", name[n - 2]);
    return spatial ? name[n - 2] - '0' : 0;
}

/* -- the binder ------------------------------------------------------------------------------------------ */

static bool from(const lmi_offer *o, lmi_origin origin) {
    return o->from == LMI_FROM_ANY || o->from == origin;
}

/* Most names differ in their first letter, which avoids the call of strcmp. */
static bool called(const lmi_offer *o, const char *name) {
    return o->name && o->name[0] == name[0] && strcmp(o->name, name) == 0;
}

static bool is_argument(const lmi_offer *o, const char *name, int32_t position) {
    return from(o, LMI_FROM_CALL) && (o->name ? called(o, name) : o->position == position);
}

static void fill(lmi_slot *slot, const lmi_offer *o) {
    slot->present = true;
    slot->value = o->value;
    if (!o->value) slot->shape = o->shape;
}

static void bind_argument(const char *name, int32_t position, const lmi_offer *offers, int32_t n,
                          lmi_slot *slot) {
    for (int32_t i = 0; i < n && !slot->present; i++) {
        if (is_argument(&offers[i], name, position)) fill(slot, &offers[i]);
    }
}

/* A parametrized tensor is no parameter of the module: the source then pushes the attribute true, which
 * means that there is a tensor of unknown shape. A tensor of that name takes precedence. */
static void bind_owned(const char *name, const lmi_offer *offers, int32_t n, lmi_slot *slot) {
    for (int32_t i = 0; i < n; i++) {
        const lmi_offer *o = &offers[i];
        if (!called(o, name)) continue;
        if (o->value) {
            bool there = o->value->type == LAM_BOOL ? o->value->i != 0 : o->value->type != LAM_NONE;
            slot->present = slot->present || (there && from(o, LMI_FROM_ATTR));
        } else if (from(o, LMI_FROM_OWNED)) {
            fill(slot, o);
            return;
        }
    }
}

static void bind_attribute(const char *name, const lmi_offer *offers, int32_t n, lmi_slot *slot) {
    for (int32_t i = 0; i < n && !slot->present; i++) {
        const lmi_offer *o = &offers[i];
        if (o->value && from(o, LMI_FROM_ATTR) && called(o, name)) fill(slot, o);
    }
}

const char *lmi_word_owned(int32_t word, lmi_slot_id slot) {
    for (const role *r = at(word) ? words[word].roles : NULL; r && r->type != END; r++)
        if (r->type == OWNED && r->slot == slot) return r->theirs;
    return NULL;
}

void lmi_bind(int32_t word, const lmi_offer *offers, int32_t n, lmi_slots *out) {
    *out = lmi_no_slots;
    if (!at(word)) return;
    int32_t position = 0;
    for (const role *r = words[word].roles; r->type != END; r++) {
        switch (r->type) {
        case CALL_ARG: bind_argument(r->theirs, position++, offers, n, &out->at[r->slot]); break;
        case OWNED: bind_owned(r->theirs, offers, n, &out->at[r->slot]); break;
        case ATTRIBUTE: bind_attribute(r->theirs, offers, n, &out->at[r->slot]); break;
        default: position++; break;
        }
    }
}
