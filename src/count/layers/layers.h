/* SPDX-License-Identifier: Apache-2.0
 * layers: the facts of a call of a layer, from its attributes, parameters and shapes. */
#ifndef LMI_COUNT_LAYERS_H
#define LMI_COUNT_LAYERS_H

#include "count/rules/rules.h"

/* Sets a fact; a negative product or an overflow leaves it unknown. */
void lmi_fact_set(lmi_facts *f, lmi_fact_id id, int64_t v);
/* The fact, or -1 when it is unknown. */
int64_t lmi_fact_get(const lmi_facts *f, lmi_fact_id id);
/* The shapes of the first two inputs and the first output, axis by axis, for rules of the caller's own. */
void lmi_facts_axes(lam_shape x, lam_shape z, lam_shape y, lmi_facts *f);
/* Every fact of one event that can be had. Never fails: what can't be had stays unknown. */
void lmi_facts_of(const lam_model *m, int32_t event, lmi_facts *out);
/* The frame (facts.c) sets what every family has; these add their own. One C file each. */
void lmi_facts_dense(const lam_model *m, int32_t event, lmi_kind k, const lmi_slots *s, lmi_facts *f);
void lmi_facts_norm(const lam_model *m, int32_t event, lmi_kind k, const lmi_slots *s, lmi_facts *f);
void lmi_facts_window(const lam_model *m, int32_t event, lmi_kind k, const lmi_slots *s, lmi_facts *f);
void lmi_facts_point(const lam_model *m, int32_t event, lmi_kind k, const lmi_slots *s, lmi_facts *f);
void lmi_facts_layout(const lam_model *m, int32_t event, lmi_kind k, const lmi_slots *s, lmi_facts *f);
void lmi_facts_resample(const lam_model *m, int32_t event, lmi_kind k, const lmi_slots *s, lmi_facts *f);
void lmi_facts_lookup(const lam_model *m, int32_t event, lmi_kind k, const lmi_slots *s, lmi_facts *f);
void lmi_facts_recurrent(const lam_model *m, int32_t event, lmi_kind k, const lmi_slots *s, lmi_facts *f);
void lmi_facts_attention(const lam_model *m, int32_t event, lmi_kind k, const lmi_slots *s, lmi_facts *f);
void lmi_facts_pair(const lam_model *m, int32_t event, lmi_kind k, const lmi_slots *s, lmi_facts *f);

/* After the family: what the rules of `layers` ask besides, such as the elements that windows really read. */
void lmi_facts_extra(const lam_model *m, int32_t event, lmi_kind k, const lmi_slots *s, lmi_facts *f);

/* What tables look at that know no types of layers: names of parameters and of classes. */
void lmi_facts_named(const lam_model *m, int32_t event, lmi_facts *f);

/* Last: what the released forms of other tools' rules ask. */
void lmi_facts_released(const lam_model *m, int32_t event, lmi_kind k, const lmi_slots *s, lmi_facts *f);

/* Helpers for the families (sizes.c). A size of a shape, -1 when there is none; `axis` may be negative, as in
 * Python. */
int64_t lmi_axis(lam_shape s, int32_t axis);
/* Elements of a shape; -1 when unknown or too many. */
int64_t lmi_numel(lam_shape s);
/* The i-th of `rank` sizes that an attribute holds (an int serves every axis); `fallback` when it has
 * none. */
int64_t lmi_value_axis(const lam_value *v, int32_t i, int64_t fallback);
int64_t lmi_value_int(const lam_value *v, int64_t fallback);
/* a * b, or -1 when one of them is negative (unknown) or the product does not fit: what lmi_fact_set
 * leaves unknown. */
int64_t lmi_times(int64_t a, int64_t b);
/* Bytes of `n` elements of so many bits, as they are stored: rounded up to whole ones; -1 when unknown. */
int64_t lmi_stored(int64_t n, int32_t bits);
/* Product of the last `rank` axes; -1 when the shape has not more axes than that or one is unknown. */
int64_t lmi_spatial(lam_shape s, int64_t rank);
/* The first input and the first output of a call; ndim -1 when it has none or its shape is unknown. */
lam_shape lmi_input(const lam_model *m, int32_t event, const lmi_slots *s);
lam_shape lmi_output(const lam_model *m, int32_t event);
/* True when the slot holds something: a tensor, or a value that is not None. */
bool lmi_filled(const lmi_slots *s, lmi_slot_id id);
/* The place called `name` right under `place`, or -1; -1 in gives -1. */
int32_t lmi_child(const lam_model *m, int32_t place, const char *name);
/* Elements and bytes of the weights that the modules at and below a place keep packed, and of those with more
 * than one axis apart; -1 where there are none or one is not known. */
typedef struct lmi_packed { int64_t all, matrices, bytes; } lmi_packed;
lmi_packed lmi_packed_under(const lam_model *m, int32_t place);
/* True when the called module's parameter `name` lives elsewhere: torch's parametrizations keep it in a
 * child, pruning and the older weight_norm under `name`_orig or `name`_g. It exists then although the
 * module does not own it. */
bool lmi_reparametrized(const lam_model *m, int32_t event, const char *name);

#endif
