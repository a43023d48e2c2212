/* SPDX-License-Identifier: Apache-2.0
 *
 * Words of operators: torch's spellings, their kinds, and the binder from positions of a schema to
 * roles. */
#include "base/system.h"
#include "vocab/vocab.h"

/* A role of slots.def per position; LMI_N_SLOTS is a position without a role. -1 ends. */
typedef int16_t role;
enum { MASKS = 1 << 14, ENDS = 1 << 13 }; /* added to the role of a mask, of ends of groups */

#define ARG(ours)            LMI_S_##ours,
#define MASK(ours)           LMI_S_##ours + MASKS,
#define ENDS(ours)           LMI_S_##ours + ENDS,
#define SKIP                 LMI_N_SLOTS,
#define SIGNATURE(name, ...) static const role name##_roles[] = {__VA_ARGS__ - 1};
#include "vocab/signatures_op.def"
#undef SIGNATURE
#undef SKIP
#undef MASK
#undef ENDS
#undef ARG

#define SIGNATURE(name, ...) name##_signature,
enum {
#include "vocab/signatures_op.def"
    N_SIGNATURES
};
#undef SIGNATURE
#define SIGNATURE(name, ...) name##_roles,
static const role *const signatures[N_SIGNATURES] = {
#include "vocab/signatures_op.def"
};
#undef SIGNATURE

/* No pointers: each would be as large as the rest of a word, and would have to be relocated in every process.
 */
static const struct op_word {
    uint8_t signature;
    bool wraps;
    int8_t each, last;
    uint16_t kind;
} words[] = {
#define NAME(spelling, kind, signature, each, last) {signature##_signature, false, each, last, LMI_K_##kind},
#define WRAP(spelling, kind, signature, each, last) {signature##_signature, true, each, last, LMI_K_##kind},
#include "vocab/names_aten.def"
#include "vocab/names_onnx.def"
#include "vocab/names_other.def"
#undef WRAP
#undef NAME
};
_Static_assert(N_SIGNATURES <= UINT8_MAX + 1, "a word names its signature in a byte");

enum { N_WORDS = sizeof words / sizeof *words };

/* Their spellings, one behind another in the same order. The line of a word is a name within its file alone.
 */
#define PASTE(a, b)         a##b
#define MEMBER(line)        PASTE(of_line_, line)
#define NAME(spelling, ...) char MEMBER(__LINE__)[sizeof spelling];
#define WRAP                NAME
static const struct spellings {
    struct {
#include "vocab/names_aten.def"
    } aten;
    struct {
#include "vocab/names_onnx.def"
    } onnx;
    struct {
#include "vocab/names_other.def"
    } other;
#undef NAME
#define NAME(spelling, ...) spelling,
} spellings = {
    .aten =
        {
#include "vocab/names_aten.def"
        },
    .onnx =
        {
#include "vocab/names_onnx.def"
        },
    .other =
        {
#include "vocab/names_other.def"
        },
};
#undef WRAP
#undef NAME

static const char *names[N_WORDS]; /* where each spelling begins, once words are placed */

static const struct op_word *at(int32_t word) { return word >= 0 && word < N_WORDS ? &words[word] : NULL; }
static const role *roles_of(int32_t word) { return at(word) ? signatures[words[word].signature] : NULL; }

/* Words by a hash of their names. A binary search would touch memory that is not in the cache, and a capture
 * looks up some thirty names. The places are static, so that nothing can fail: they are filled when the first
 * word is looked up, since most files have no operators (bench/files.py). */
enum { N_PLACES = 8192 };
_Static_assert(N_WORDS * 2 < N_PLACES, "half of the places stay free, so a search ends");
static int16_t places[N_PLACES]; /* the position of a word + 1; 0: a free place */

/* Where a word is, or the free place for it. */
static size_t place_of(const char *name, size_t n) {
    size_t i = (size_t)lmi_hash(name, n) % N_PLACES;
    for (; places[i]; i = (i + 1) % N_PLACES) {
        const char *spelling = names[places[i] - 1];
        if (strncmp(spelling, name, n) == 0 && !spelling[n]) break;
    }
    return i;
}

static void place_words(void) {
    const char *name = (const char *)&spellings;
    for (int32_t i = 0; i < N_WORDS; i++) {
        const size_t n = strlen(name);
        int16_t *place = &places[place_of(name, n)];
        names[i] = name;
        name += n + 1;
        if (!*place) *place = (int16_t)(i + 1);
    }
}

static pthread_once_t placed = PTHREAD_ONCE_INIT;

static int32_t find(const char *name, size_t n) {
    pthread_once(&placed, place_words);
    return places[place_of(name, n)] - 1;
}

static bool ends(const char *name, size_t n, const char *end) {
    size_t k = strlen(end);
    return n > k && memcmp(name + n - k, end, k) == 0;
}

/* "add_" works in place and "add_out" into a given result; both do what "add" does. */
int32_t lam_word_op(const char *name) {
    size_t n = name ? strlen(name) : 0;
    int32_t word = n ? find(name, n) : -1;
    if (word < 0 && ends(name ? name : "", n, "_out")) return find(name, n - 4);
    if (word < 0 && ends(name ? name : "", n, "_")) return find(name, n - 1);
    return word;
}

const char *lam_word_op_name(int32_t word) {
    pthread_once(&placed, place_words);
    return at(word) ? names[word] : NULL;
}

const char *lam_word_op_kind(int32_t word) { return at(word) ? lmi_kind_name(lmi_op_kind(word)) : NULL; }
lmi_kind lmi_op_kind(int32_t word) { return at(word) ? (lmi_kind)words[word].kind : LMI_N_KINDS; }
bool lam_word_op_wraps(int32_t word) { return at(word) && words[word].wraps; }

static int32_t position_of(int32_t word, int32_t flag) {
    const role *roles = roles_of(word);
    for (int32_t i = 0; roles && roles[i] >= 0; i++)
        if (roles[i] & flag) return i;
    return -1;
}

int32_t lmi_op_position(int32_t word, lmi_slot_id slot) {
    const role *roles = roles_of(word);
    for (int32_t i = 0; roles && roles[i] >= 0; i++)
        if ((roles[i] & ~(MASKS | ENDS)) == (role)slot) return i;
    return -1;
}

int32_t lam_word_op_mask(int32_t word) { return position_of(word, MASKS); }
int32_t lam_word_op_ends(int32_t word) { return position_of(word, ENDS); }
int32_t lmi_op_each(int32_t word) { return at(word) ? words[word].each : 0; }
int32_t lmi_op_last(int32_t word) { return at(word) ? words[word].last : 0; }

#define COMPLEX(spelling, each, last, step) {spelling, {each, last, step}},
static const struct {
    const char *name;
    lmi_complex_ops ops;
} complex_words[] = {
#include "vocab/complex.def"
};
#undef COMPLEX

const lmi_complex_ops *lmi_op_complex(int32_t word) {
    for (size_t i = 0; at(word) && i < sizeof complex_words / sizeof *complex_words; i++)
        if (strcmp(complex_words[i].name, lam_word_op_name(word)) == 0) return &complex_words[i].ops;
    return NULL;
}

int32_t lmi_op_rank(int32_t word) {
    const char *name = at(word) ? lam_word_op_name(word) : "";
    for (const char *p = name; *p; p++) {
        if (*p >= '1' && *p <= '3' && p[1] == 'd') return *p - '0';
    }
    return 0;
}

/* -- the binder ------------------------------------------------------------------------------------------ */

static void fill(lmi_slot *slot, const lam_op_arg *a) {
    if (slot->present) return; /* only the first tensor of a list is bound */
    slot->present = true;
    slot->value = a->is_tensor ? NULL : &a->value;
    if (!a->is_tensor) return;
    slot->tensor = a;
    slot->shape = (lam_shape){a->ndim, a->sizes};
    slot->bits = lam_dtype_bits(a->dtype);
}

void lmi_bind_op(const lam_op_sig *sig, lmi_slots *out) {
    *out = lmi_no_slots;
    const role *roles = roles_of(sig->word);
    int32_t n_roles = 0;
    if (!roles) return;
    while (roles[n_roles] >= 0) n_roles++;
    for (int32_t i = 0; i < sig->n_in; i++) {
        int32_t position = sig->in[i].position;
        if (position < 0 || position >= n_roles || roles[position] == LMI_N_SLOTS) continue;
        fill(&out->at[roles[position] & ~(MASKS | ENDS)], &sig->in[i]);
    }
}
