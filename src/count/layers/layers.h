/* SPDX-License-Identifier: Apache-2.0
 * layers: the facts of a call of a layer, from its attributes, parameters and shapes. */
#ifndef LMI_COUNT_LAYERS_H
#define LMI_COUNT_LAYERS_H

#include "count/rules/rules.h"

/* Sets a fact; a negative product or an overflow leaves it unknown. */
void lmi_fact_set(lmi_facts *f, lmi_fact_id id, int64_t v);
/* The fact; -1: unknown. */
int64_t lmi_fact_get(const lmi_facts *f, lmi_fact_id id);
/* Sets whether a dropout with probability `p` drops elements, and whether it drops all. */
void lmi_facts_drops(const lam_value *p, lmi_facts *f);
/* Sets the sizes of the first two inputs and the first output, axis by axis, for user-defined rules. */
void lmi_facts_axes(lam_shape x, lam_shape z, lam_shape y, lmi_facts *f);
/* Computes the facts of one event. Never fails: a fact that can't be computed stays unknown. */
void lmi_facts_of(const lam_model *m, int32_t event, lmi_facts *out);
/* facts.c sets the facts that every family has; these functions add those of one family, each in a file. */
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

/* After the family: further facts for the rules of `layers`, such as the elements that windows really
 * read. */
void lmi_facts_extra(const lam_model *m, int32_t event, lmi_kind k, const lmi_slots *s, lmi_facts *f);

/* Facts for tables without types of layers: names of parameters and of classes. */
void lmi_facts_named(const lam_model *m, int32_t event, lmi_facts *f);

/* Last: facts for the released forms of other tools' rules. */
void lmi_facts_released(const lam_model *m, int32_t event, lmi_kind k, const lmi_slots *s, lmi_facts *f);

/* Helpers for the families (sizes.c). The size of a shape along `axis`, which may be negative, as in Python;
 * -1: there is no such axis. */
int64_t lmi_axis(lam_shape s, int32_t axis);
/* The i-th of the sizes in an attribute (a single integer applies to every axis); `fallback` if it has
 * none. */
int64_t lmi_value_axis(const lam_value *v, int32_t i, int64_t fallback);
int64_t lmi_value_int(const lam_value *v, int64_t fallback);
/* The value of a float, an integer or a flag: p=0.5, p=0. */
double lmi_value_number(const lam_value *v, double fallback);
/* Elements of a window over `rank` axes, of a kernel as lmi_value_axis reads it. */
int64_t lmi_window(const lam_value *kernel, int64_t rank);
/* The product of axes `from` .. `to`-1, negative ones from the end; -1 if the shape has fewer. */
int64_t lmi_axes(lam_shape s, int32_t from, int32_t to);
/* Product of the last `rank` axes; -1 if the shape does not have more axes than that, or a size is
 * unknown. */
int64_t lmi_spatial(lam_shape s, int64_t rank);
/* The shapes of the first input and the first output of a call; ndim -1: it has none, or an unknown one. */
lam_shape lmi_input(const lam_model *m, int32_t event, const lmi_slots *s);
lam_shape lmi_output(const lam_model *m, int32_t event);
/* True if the slot holds a tensor, or a value that is not None. */
bool lmi_filled(const lmi_slots *s, lmi_slot_id id);
/* True if the i-th owned tensor has an earlier name in its module. */
bool lmi_named_before(const lam_module *mod, int32_t i);
/* The child of `place` called `name`; -1: there is none, or `place` is -1. */
int32_t lmi_child(const lam_model *m, int32_t place, const char *name);
/* Packed weights of the modules at and below a place: elements of all, elements of those with more than one
 * axis, and bytes of all; -1: there are none, or one is unknown. */
typedef struct lmi_packed { int64_t all, matrices, bytes; } lmi_packed;
lmi_packed lmi_packed_under(const lam_model *m, int32_t place);
/* True if the called module's parameter `name` is kept in another place: torch's parametrizations keep it in
 * a child, pruning and the older weight_norm under `name`_orig or `name`_g. The layer then has the parameter
 * although it does not own it. */
bool lmi_reparametrized(const lam_model *m, int32_t event, const char *name);

#endif
