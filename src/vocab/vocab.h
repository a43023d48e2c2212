/* SPDX-License-Identifier: Apache-2.0
 * vocab: the words: kinds of operations, their spellings, and the binder, which puts the arguments of a
 * spelling into slots. Adding a word is one line in names_*.def. */
#ifndef LMI_VOCAB_H
#define LMI_VOCAB_H

#include "base/base.h"

typedef enum lmi_kind {
#define KIND(id, family, rf, doc) LMI_K_##id,
#include "vocab/kinds.def"
#undef KIND
    LMI_N_KINDS
} lmi_kind;

typedef enum lmi_family {
    LMI_F_hold, LMI_F_point, LMI_F_layout, LMI_F_dense, LMI_F_norm, LMI_F_window, LMI_F_resample,
    LMI_F_lookup, LMI_F_recurrent, LMI_F_attention, LMI_F_pair, LMI_F_op
} lmi_family;

typedef enum lmi_rf_rule {
    LMI_rf_hold, LMI_rf_point, LMI_rf_window, LMI_rf_transposed, LMI_rf_adaptive, LMI_rf_all, LMI_rf_none
} lmi_rf_rule;

typedef enum lmi_slot_id {
#define SLOT(id, doc) LMI_S_##id,
#include "vocab/slots.def"
#undef SLOT
    LMI_N_SLOTS
} lmi_slot_id;

/* The content of one role: a tensor's shape, or an attribute's value, or present with both unknown. An
 * attribute that is None is present, with a value of type LAM_NONE. */
typedef struct lmi_slot {
    bool present;
    lam_shape shape;        /* ndim -1 if it is not a tensor, or the shape is unknown */
    const lam_value *value; /* NULL if it is a tensor */
    int32_t bits;           /* of one element of an operator's tensor; 0 unknown */
    const lam_op_arg *tensor; /* of an operator; else NULL */
} lmi_slot;

typedef struct lmi_slots { lmi_slot at[LMI_N_SLOTS]; } lmi_slots;
extern const lmi_slots lmi_no_slots; /* all are empty */

/* The source of an offer; a call's argument never fills an attribute's role, nor the other way round. */
typedef enum lmi_origin { LMI_FROM_ANY, LMI_FROM_CALL, LMI_FROM_OWNED, LMI_FROM_ATTR } lmi_origin;

/* One named value that a source offers to the binder. name NULL: positional, number `position`. A tensor
 * has a shape and no value; an attribute has a value, and its shape is ignored. */
typedef struct lmi_offer {
    const char *name;
    int32_t position;
    lam_shape shape;
    const lam_value *value;
    lmi_origin from;
} lmi_offer;

const char *lmi_kind_name(lmi_kind k); /* "conv" */
const char *lmi_kind_doc(lmi_kind k);
lmi_family lmi_kind_family(lmi_kind k);
lmi_rf_rule lmi_kind_rf(lmi_kind k);

/* The kind of a word (see lam_word_module); LMI_N_KINDS if out of range. */
lmi_kind lmi_word_kind(int32_t word);
/* The number of spatial axes in the spelling: 2 for Conv2d and ZeroPad2d; 0 if it has none (Linear,
 * Upsample). */
int32_t lmi_word_rank(int32_t word);

/* The name of the tensor that modules of this word own in that role: "bias", "in_proj_bias". NULL: they own
 * none in it. */
const char *lmi_word_owned(int32_t word, lmi_slot_id slot);
/* Fills `out` from the offers, by the word's signature (signatures.def). Offers that the signature does
 * not name are ignored; roles without an offer stay absent; of two offers for one role the first counts.
 * An owned tensor may also be offered as an attribute that is true: present, of unknown shape. Never
 * fails. */
void lmi_bind(int32_t word, const lmi_offer *offers, int32_t n, lmi_slots *out);

/* -- operators (names_*.def, op_words.c), numbered separately: see lam_word_op ------------------------ */

/* The kind of an operator's word; LMI_N_KINDS if out of range. */
lmi_kind lmi_op_kind(int32_t op_word);
/* The operations per element and per result from its line: the facts `each` and `last`; 0 out of range. */
int32_t lmi_op_each(int32_t op_word);
int32_t lmi_op_last(int32_t op_word);
/* The same for complex numbers, and the operations to combine two of them; NULL: unknown. */
typedef struct lmi_complex_ops { int32_t each, last, step; } lmi_complex_ops;
const lmi_complex_ops *lmi_op_complex(int32_t op_word);
/* The number of spatial axes in the spelling: 2 for "aten::max_pool2d"; 0 if it has none. */
int32_t lmi_op_rank(int32_t op_word);
/* The position of the argument with that role; -1: the operator has none. */
int32_t lmi_op_position(int32_t op_word, lmi_slot_id slot);
/* Fills `out` from the operator's arguments by the signature of its word; -1 fills nothing. Never fails. */
void lmi_bind_op(const lam_op_sig *sig, lmi_slots *out);

/* -- the equations of einsum (einsum.c) --------------------------------------------------------------- */

enum {
    LMI_EINSUM_TERMS = 64, /* tensors of one equation */
    LMI_EINSUM_AXES = 32,  /* axes of one tensor */
    LMI_EINSUM_LETTERS = 52,
    LMI_EINSUM_LABELS = LMI_EINSUM_LETTERS + LMI_EINSUM_AXES
};

/* What an equation says of one tensor's axes, in their order: the labels of its letters, from A as 0 to z as
 * the last. */
typedef struct lmi_einsum_term {
    int32_t n;
    int32_t dots; /* how many of its letters stand before "..."; -1: it has no "..." */
    uint8_t letter[LMI_EINSUM_AXES];
} lmi_einsum_term;

typedef struct lmi_einsum {
    int32_t n;
    lmi_einsum_term term[LMI_EINSUM_TERMS], result;
} lmi_einsum;

/* Reads "bij,bjk->bik", as torch and ONNX do. Without "->" the result has "..." first, if a term has it, and
 * then each letter that occurs once, in the order of the labels. False: it is no equation, or beyond the
 * limits above. */
bool lmi_einsum_read(const char *equation, lmi_einsum *out);
/* The label of each axis of a tensor: that of its letter or, of the axes in place of "...",
 * LMI_EINSUM_LETTERS for the last, one more for the one before it, and so on. False: the tensor has another
 * number of axes. */
bool lmi_einsum_label(const lmi_einsum_term *t, int32_t ndim, uint8_t labels[LMI_EINSUM_AXES]);

#endif
