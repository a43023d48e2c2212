/* SPDX-License-Identifier: Apache-2.0
 * conventions: the tables of rules as arrays, with one row of policies and a name each, all made from the
 * .def files. */
#include "count/rules/rules.h"

/* A line may give one part of a kind's rule only, so every part is set by its own designator. */
#define RULE(k, macs, flops, dmas)                                                                           \
    [LMI_K_##k].given = true, [LMI_K_##k].kind = LMI_K_##k, [LMI_K_##k].formula = {macs, flops, dmas},
#define RELEASED(k, macs, flops, dmas) [LMI_K_##k].released = {macs, flops, dmas},
#define NOTE(k, text)                  [LMI_K_##k].note = text,
#define ONLY(k, spellings)             [LMI_K_##k].only = spellings,
#define WHOLE(k)                       [LMI_K_##k].whole = true,
#define OPEN(k)                        [LMI_K_##k].open = true,

static const lmi_rule rules_layers[LMI_N_KINDS] = {
#include "count/rules/layers.def"
};
static const lmi_rule rules_torchscan[LMI_N_KINDS] = {
#include "count/rules/torchscan.def"
};
static const lmi_rule rules_thoplw[LMI_N_KINDS] = {
#include "count/rules/thoplw.def"
};
static const lmi_rule rules_torch[LMI_N_KINDS] = {
#include "count/rules/torch.def"
};
static const lmi_rule rules_fvcore[LMI_N_KINDS] = {
#include "count/rules/fvcore.def"
};
static const lmi_rule rules_torchinfo[LMI_N_KINDS] = {
#include "count/rules/torchinfo.def"
};

/* Tables with rules of both sorts are read twice. */
#define OP(k, macs, flops, dmas)
#define OP_NOTE(k, text)
#define OP_ONLY(k, spellings)
static const lmi_rule rules_ptflops[LMI_N_KINDS] = {
#include "count/rules/ptflops.def"
};
static const lmi_rule rules_deepspeed[LMI_N_KINDS] = {
#include "count/rules/deepspeed.def"
};
#undef RULE
/* Operators have both counts. The effective count is the dense one unless an EFFECTIVE line differs. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Woverride-init"
#define RULE(k, macs, flops, dmas)                                                                           \
    [LMI_K_##k].given = true, [LMI_K_##k].kind = LMI_K_##k,                                                  \
    [LMI_K_##k].formula = {macs, flops, dmas, NULL, NULL, macs, flops},
#define BYTES(k, read, written)                                                                              \
    [LMI_K_##k].formula[LAM_BYTES_READ] = read, [LMI_K_##k].formula[LAM_BYTES_WRITTEN] = written,
#define EFFECTIVE(k, macs, flops)                                                                            \
    [LMI_K_##k].formula[LAM_EFFECTIVE_MACS] = macs, [LMI_K_##k].formula[LAM_EFFECTIVE_FLOPS] = flops,
static const lmi_rule rules_exact[LMI_N_KINDS] = {
#include "count/rules/exact.def"
#include "count/rules/exact_bytes.def"
};
#undef EFFECTIVE
#undef BYTES
#pragma GCC diagnostic pop
#undef RULE
#undef RELEASED
#undef NOTE
#undef ONLY
#undef WHOLE
#undef OPEN
#undef OP
#undef OP_NOTE
#undef OP_ONLY
#define RULE(k, macs, flops, dmas)
#define NOTE(k, text)
#define ONLY(k, spellings)
#define OP(k, macs, flops, dmas)                                                                             \
    [LMI_K_##k].given = true, [LMI_K_##k].kind = LMI_K_##k, [LMI_K_##k].formula = {macs, flops, dmas},
#define OP_NOTE(k, text)      [LMI_K_##k].note = text,
#define OP_ONLY(k, spellings) [LMI_K_##k].only = spellings,
static const lmi_rule op_rules_ptflops[LMI_N_KINDS] = {
#include "count/rules/ptflops.def"
};
static const lmi_rule op_rules_deepspeed[LMI_N_KINDS] = {
#include "count/rules/deepspeed.def"
};
#undef RULE
#undef NOTE
#undef ONLY
#undef OP
#undef OP_NOTE
#undef OP_ONLY

/* The table with the rules of operators; NULL: operators are not counted. */
#define OPS_LEAF(id)      NULL
#define OPS_RULED(id)     NULL
#define OPS_OWN(id)       NULL
#define OPS_CHILDLESS(id) NULL
#define OPS_OPS(id)       rules_##id
#define OPS_HOOKS(id)     op_rules_##id

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
static lmi_rule_slot codes[N_CONVENTIONS][LMI_N_KINDS], op_codes[N_CONVENTIONS][LMI_N_KINDS];
static const lmi_convention conventions[] = {
#define CONVENTION(id, which_, sees_, repeated_, match_, no_rule_, params_, order_, rf_, hidden_, source_)   \
    [C_##id].name = #id, [C_##id].source = source_, [C_##id].which = LMI_##which_,                           \
    [C_##id].sees = LMI_SEES_##sees_, [C_##id].repeated = LMI_##repeated_, [C_##id].match = LMI_##match_,    \
    [C_##id].no_rule = LMI_NR_##no_rule_, [C_##id].params = LMI_##params_,                                   \
    [C_##id].order = LMI_ORDER_##order_, [C_##id].rf = LMI_RF_##rf_, [C_##id].hidden = HIDDEN_##hidden_,     \
    [C_##id].rules = rules_##id, [C_##id].op_rules = OPS_##which_(id), [C_##id].codes = codes[C_##id],       \
    [C_##id].op_codes = op_codes[C_##id], [C_##id].n_rules = LMI_N_KINDS,
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
    lmi_fail(e, LAM_USAGE, name,
             "it counts operators of torch, and an ONNX file has others; count by %s",
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

bool lmi_kind_multiplies(lmi_kind k) {
    const char *macs = k < LMI_N_KINDS ? rules_exact[k].formula[LAM_MACS] : NULL;
    return macs && strcmp(macs, "0") != 0;
}

bool lmi_convention_tells(const lmi_convention *c, lam_metric metric) {
    for (int32_t i = 0; i < c->n_rules; i++)
        if (c->rules[i].formula[metric] || (c->op_rules && c->op_rules[i].formula[metric])) return true;
    return false;
}

/* The `*i`-th given rule; otherwise NULL, with `*i` lowered by the number of rules. */
static const lmi_rule *nth_rule(const lmi_convention *c, const lmi_rule *rules, int32_t *i) {
    for (int32_t k = 0; k < c->n_rules && *i >= 0; k++)
        if (rules[k].given && (*i)-- == 0) return &rules[k];
    return NULL;
}

lam_status lam_convention_rule(int32_t convention, int32_t i, lam_rule *out, lam_error *e) {
    const lmi_convention *c = lmi_convention_at(convention);
    if (!c)
        return lmi_fail(e, LAM_RANGE, "convention", "there is no convention number %d; there are %d",
                        (int)convention, (int)N_CONVENTIONS);
    bool of_op = c->which == LMI_OPS;
    const lmi_rule *r = nth_rule(c, c->rules, &i);
    if (!r && c->which == LMI_HOOKS) {
        r = nth_rule(c, c->op_rules, &i);
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
