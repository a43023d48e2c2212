/* SPDX-License-Identifier: Apache-2.0
 *
 * Kinds and data types: their tables, by number and by name. */
#include "vocab/vocab.h"

static const struct {
    const char *name, *doc;
    lmi_family family;
    lmi_rf_rule rf;
} kinds[LMI_N_KINDS] = {
#define KIND(id, family, rf, doc) {#id, doc, LMI_F_##family, LMI_##rf},
#include "vocab/kinds.def"
#undef KIND
};

static const struct {
    const char *name;
    int32_t bits;
} dtypes[] = {
#define DTYPE(number, name, bits) [number] = {#name, bits},
#include "vocab/dtypes.def"
#undef DTYPE
};

static const struct {
    const char *name;
    int32_t dtype;
} aliases[] = {
#define DTYPE(number, name, bits)
#define DTYPE_ALIAS(name, number) {name, number},
#include "vocab/dtypes.def"
#undef DTYPE_ALIAS
#undef DTYPE
};

const lmi_slots lmi_no_slots = {.at = {
#define SLOT(name, doc) {.shape = {.ndim = -1}},
#include "vocab/slots.def"
#undef SLOT
                                }};

#define COUNT(array) ((int32_t)(sizeof(array) / sizeof *(array)))

static bool is_kind(lmi_kind k) { return (uint32_t)k < LMI_N_KINDS; }

const char *lmi_kind_name(lmi_kind k) { return is_kind(k) ? kinds[k].name : "?"; }
const char *lmi_kind_doc(lmi_kind k) { return is_kind(k) ? kinds[k].doc : "?"; }
lmi_family lmi_kind_family(lmi_kind k) { return is_kind(k) ? kinds[k].family : LMI_F_hold; }
lmi_rf_rule lmi_kind_rf(lmi_kind k) { return is_kind(k) ? kinds[k].rf : LMI_rf_none; }

static bool is_dtype(int32_t dtype) { return dtype >= 0 && dtype < COUNT(dtypes); }

const char *lam_phase_name(lam_phase p) {
    static const char *const names[LAM_N_PHASES] = {"forward", "backward", "recompute"};
    return p < LAM_N_PHASES ? names[p] : "?";
}

const char *lam_dtype_name(int32_t dtype) { return is_dtype(dtype) ? dtypes[dtype].name : "?"; }
int32_t lam_dtype_bits(int32_t dtype) { return is_dtype(dtype) ? dtypes[dtype].bits : 0; }

int32_t lam_dtype_by_name(const char *name) {
    static const char prefix[] = "torch.";
    if (!name) return -1;
    if (strncmp(name, prefix, sizeof prefix - 1) == 0) name += sizeof prefix - 1;
    for (int32_t i = 0; i < COUNT(dtypes); i++) {
        if (strcmp(dtypes[i].name, name) == 0) return i;
    }
    for (int32_t i = 0; i < COUNT(aliases); i++) {
        if (strcmp(aliases[i].name, name) == 0) return aliases[i].dtype;
    }
    return -1;
}
