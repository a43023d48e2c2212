/* SPDX-License-Identifier: Apache-2.0
 * conventions: the tables of rules as arrays, with one row of policies and a name each, all made from the
 * .def files. */
#include "count/rules/rules.h"

/* COSTS: the metrics that a line gives. */
#define COSTS(macs, flops, dmas)                                                                             \
    { macs, flops, dmas }
#define NAME(x) layers_##x
#define TABLE   "count/rules/layers.def"
#include "count/rules/table.def"
#define NAME(x) torchscan_##x
#define TABLE   "count/rules/torchscan.def"
#include "count/rules/table.def"
#define NAME(x) thoplw_##x
#define TABLE   "count/rules/thoplw.def"
#include "count/rules/table.def"
#define NAME(x) torch_##x
#define TABLE   "count/rules/torch.def"
#include "count/rules/table.def"
#define NAME(x) fvcore_##x
#define TABLE   "count/rules/fvcore.def"
#include "count/rules/table.def"
#define NAME(x) torchinfo_##x
#define TABLE   "count/rules/torchinfo.def"
#include "count/rules/table.def"
#define NAME(x) ptflops_##x
#define TABLE   "count/rules/ptflops.def"
#include "count/rules/table.def"
#define NAME(x) deepspeed_##x
#define TABLE   "count/rules/deepspeed.def"
#include "count/rules/table.def"

/* Tables with rules of both sorts are read twice. */
#define OF_OPERATORS
#define NAME(x) ptflops_op_##x
#define TABLE   "count/rules/ptflops.def"
#include "count/rules/table.def"
#define NAME(x) deepspeed_op_##x
#define TABLE   "count/rules/deepspeed.def"
#include "count/rules/table.def"
#undef OF_OPERATORS
#undef COSTS

/* Operators have both counts. The effective count is the dense one unless an EFFECTIVE line differs. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Woverride-init"
#define COSTS(macs, flops, dmas)                                                                             \
    { macs, flops, dmas, NULL, NULL, macs, flops }
#define MORE    "count/rules/exact_bytes.def"
#define NAME(x) exact_##x
#define TABLE   "count/rules/exact.def"
#include "count/rules/table.def"
#undef MORE
#undef COSTS
#pragma GCC diagnostic pop

/* The table with the rules of operators; NULL: operators are not counted. */
#define OPS_LEAF(id)      NULL
#define OPS_RULED(id)     NULL
#define OPS_OWN(id)       NULL
#define OPS_CHILDLESS(id) NULL
#define OPS_OPS(id)       &id##_rules
#define OPS_HOOKS(id)     &id##_op_rules

#define HIDDEN_TRUST    LMI_TRUST
#define HIDDEN_AT_LEAST LMI_HIDDEN_AT_LEAST
enum {
#define CONVENTION(id, ...) C_##id,
#define UNIT(id, text)
#define LIMIT(id, when, metrics, operators, text)
#include "count/rules/conventions.def"
#undef LIMIT
#undef UNIT
#undef CONVENTION
    N_CONVENTIONS
};
static const lmi_convention conventions[] = {
#define CONVENTION(id, which_, sees_, repeated_, match_, no_rule_, params_, order_, rf_, hidden_, source_)   \
    [C_##id].name = #id, [C_##id].source = source_, [C_##id].which = LMI_##which_,                           \
    [C_##id].sees = LMI_SEES_##sees_, [C_##id].repeated = LMI_##repeated_, [C_##id].match = LMI_##match_,    \
    [C_##id].no_rule = LMI_NR_##no_rule_, [C_##id].params = LMI_##params_,                                   \
    [C_##id].order = LMI_ORDER_##order_, [C_##id].rf = LMI_RF_##rf_, [C_##id].hidden = HIDDEN_##hidden_,     \
    [C_##id].rules = &id##_rules, [C_##id].op_rules = OPS_##which_(id),
#define UNIT(id, text) [C_##id].unit = text,
#define LIMIT(id, when, metrics, operators, text)
#include "count/rules/conventions.def"
#undef LIMIT
#undef UNIT
#undef CONVENTION
};

enum { IN_MACS = 1 << LAM_MACS, IN_FLOPS = 1 << LAM_FLOPS, IN_BOTH = IN_MACS | IN_FLOPS };
static const lmi_limit limits[] = {
#define CONVENTION(id, ...)
#define UNIT(id, text)
#define LIMIT(id, when, metrics, operators, text) {C_##id, LMI_WHEN_##when, IN_##metrics, operators, text},
#include "count/rules/conventions.def"
#undef LIMIT
#undef UNIT
#undef CONVENTION
};

const lmi_limit *lmi_limit_at(int32_t i) {
    return i >= 0 && i < (int32_t)(sizeof limits / sizeof *limits) ? &limits[i] : NULL;
}

static const struct {
    const char *name, *meaning;
} facts[] = {
#define FACT(id, doc) {#id, doc},
#include "count/rules/facts.def"
#undef FACT
};

/* Compares the first letters inline: most names in a search differ there. */
static const char first_letters[LMI_N_FACTS + 1] = {
#define FACT(id, doc) #id[0],
#include "count/rules/facts.def"
#undef FACT
};

const lmi_convention *lmi_convention_at(int32_t i) {
    return i >= 0 && i < N_CONVENTIONS ? &conventions[i] : NULL;
}

int32_t lam_n_conventions(void) { return N_CONVENTIONS; }

const char *lam_convention_name(int32_t i) {
    const lmi_convention *c = lmi_convention_at(i);
    return c ? c->name : NULL;
}

const char *lam_convention_source(int32_t i) {
    const lmi_convention *c = lmi_convention_at(i);
    return c ? c->source : NULL;
}

int32_t lam_convention_find(const char *name) {
    for (int32_t i = 0; name && i < N_CONVENTIONS; i++)
        if (!strcmp(conventions[i].name, name)) return i;
    return -1;
}

bool lam_convention_counts_ops(int32_t i) {
    const lmi_convention *c = lmi_convention_at(i);
    return c && c->op_rules;
}

bool lmi_unfused(const lmi_convention *c) {
    bool hooks = c->which != LMI_OPS && c->which != LMI_OWN;
    return hooks || c->sees >= LMI_SEES_CALLED;
}

bool lam_convention_unfused(int32_t i) {
    const lmi_convention *c = lmi_convention_at(i);
    return c && lmi_unfused(c);
}

bool lam_convention_counts(int32_t i, lam_metric metric) {
    const lmi_convention *c = lmi_convention_at(i);
    return c && (unsigned)metric < LAM_N_METRICS && lmi_convention_tells(c, metric);
}

/* The first convention that can count a model: by its operators or, if they were not watched, by its
 * layers. */
static const lmi_convention *first(bool ops_seen) {
    int32_t i = 0;
    while (i + 1 < N_CONVENTIONS && conventions[i].op_rules && !ops_seen) i++;
    return &conventions[i];
}

const char *lam_convention_of(const lam_model *m) { return first(!m || m->ops_seen)->name; }

bool lmi_convention_counts(const lmi_convention *c, const lam_model *m) {
    const char *format = c->no_rule != LMI_NR_UNKNOWN ? lam_model_told(m, "format") : NULL;
    return !format || strncmp(format, "ONNX ", 5) != 0;
}

const lmi_convention *lmi_convention_for(const lam_model *m, const char *name, lam_error *e) {
    const lmi_convention *c = name ? lmi_convention_named(name, e) : first(m->ops_seen);
    if (!c || lmi_convention_counts(c, m)) return c;
    lmi_buf others;
    lmi_buf_init(&others);
    for (int32_t i = 0; i < N_CONVENTIONS; i++)
        if (lmi_convention_counts(&conventions[i], m))
            lmi_putf(&others, "%s%s", others.n ? ", " : "", conventions[i].name);
    lmi_fail(e, LAM_USAGE, name, "it counts operators of torch, and an ONNX file has others; count by %s",
             lmi_buf_text(&others));
    lmi_buf_free(&others);
    return NULL;
}

const lmi_convention *lmi_convention_named(const char *name, lam_error *e) {
    int32_t found = lam_convention_find(name);
    if (found >= 0) return &conventions[found];
    lmi_no_such(e, "convention", name, NULL, &conventions[0].name, sizeof *conventions, N_CONVENTIONS);
    return NULL;
}

const lmi_rule *lmi_rule_at(const lmi_rule_table *t, lmi_kind k) {
    const uint8_t place = t && k < LMI_N_KINDS ? t->places[k] : 0;
    return place ? &t->rows[place - 1] : NULL;
}

bool lmi_kind_multiplies(lmi_kind k) {
    const lmi_rule *r = lmi_rule_at(&exact_rules, k);
    const char *macs = r ? r->formula[LAM_MACS] : NULL;
    return macs && strcmp(macs, "0") != 0;
}

static bool tells(const lmi_rule_table *t, lam_metric metric) {
    for (int32_t i = 0; t && i < t->n; i++)
        if (t->rows[i].formula[metric]) return true;
    return false;
}

bool lmi_convention_tells(const lmi_convention *c, lam_metric metric) {
    return tells(c->rules, metric) || tells(c->op_rules, metric);
}

/* The `*i`-th rule, in the order of kinds; otherwise NULL, with `*i` lowered by the number of rules. */
static const lmi_rule *nth_rule(const lmi_rule_table *t, int32_t *i) {
    for (int32_t k = 0; k < LMI_N_KINDS && *i >= 0; k++) {
        const lmi_rule *r = lmi_rule_at(t, (lmi_kind)k);
        if (r && (*i)-- == 0) return r;
    }
    return NULL;
}

lam_status lam_convention_rule(int32_t convention, int32_t i, lam_rule *out, lam_error *e) {
    const lmi_convention *c = lmi_convention_at(convention);
    if (!c)
        return lmi_fail(e, LAM_RANGE, "convention", "there is no convention number %d; there are %d",
                        (int)convention, (int)N_CONVENTIONS);
    bool of_op = c->which == LMI_OPS;
    const lmi_rule *r = nth_rule(c->rules, &i);
    if (!r && c->which == LMI_HOOKS) {
        r = nth_rule(c->op_rules, &i);
        of_op = true;
    }
    if (!r) return lmi_fail(e, LAM_RANGE, c->name, "there is no rule of that number; ask from 0 until this");
    *out = (lam_rule){.kind = lmi_kind_name(r->kind), .note = r->note, .only = r->only, .of_op = of_op};
    memcpy(out->formula, r->formula, sizeof out->formula);
    memcpy(out->released, r->released, sizeof out->released);
    return LAM_OK;
}

const char *lam_fact_name(int32_t i) { return i >= 0 && i < LMI_N_FACTS ? facts[i].name : NULL; }

int32_t lmi_fact_find(const char *name, size_t n) {
    const char *at = first_letters, *end = first_letters + LMI_N_FACTS;
    for (; n > 0 && (at = memchr(at, *name, (size_t)(end - at))) != NULL; at++) {
        const char *fact = facts[at - first_letters].name;
        if (strncmp(fact, name, n) == 0 && !fact[n]) return (int32_t)(at - first_letters);
    }
    return -1;
}

const char *lam_fact_meaning(int32_t i) { return i >= 0 && i < LMI_N_FACTS ? facts[i].meaning : NULL; }
