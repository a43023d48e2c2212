/* SPDX-License-Identifier: Apache-2.0
 * own: user-defined rules, from text or one by one. A rule names an operator ("mylib::op") or the class of a
 * layer ("MyLayer", "my.package.MyLayer"), and gives formulas over facts as the tables do.
 *
 *   text    = { line }                 a line that is empty, or begins with "#", is ignored
 *   line    = name metrics | space metrics       an indented line continues the previous rule
 *   metrics = { metric "=" formula }   a formula ends at the next "metric =", or at "#"
 *
 * A formula may name a metric that the same rule gave before: flops = 2*macs. */
#include "count/rules/rules.h"

#include <stdio.h>
#include <stdlib.h>

enum { MAX_NAME = 256, MAX_FORMULA = 4096 };
static const uint64_t RULES_LIMIT = UINT64_C(64) << 20;

struct lam_rules {
    lmi_arena arena;
    lmi_vec rules; /* lmi_rule */
    lmi_map by_name;
};

lam_status lam_rules_new(lam_rules **out, lam_error *e) {
    if (!out) return lmi_fail(e, LAM_USAGE, "lam_rules_new", "there is nowhere to put the result");
    *out = calloc(1, sizeof **out);
    if (!*out) return lmi_nomem(e);
    lmi_arena_init(&(*out)->arena, RULES_LIMIT);
    lmi_vec_init(&(*out)->rules, sizeof(lmi_rule));
    lmi_map_init(&(*out)->by_name);
    return LAM_OK;
}

void lam_rules_free(lam_rules *r) {
    if (!r) return;
    lmi_map_free(&r->by_name);
    lmi_vec_free(&r->rules);
    lmi_arena_free(&r->arena);
    free(r);
}

bool lam_rules_at(const lam_rules *r, int32_t i, lam_rule *out) {
    const lmi_rule *rule = r && i >= 0 ? lmi_vec_at(&r->rules, (size_t)i) : NULL;
    if (!rule) return false;
    *out = (lam_rule){.kind = rule->name, .note = rule->note};
    memcpy(out->formula, rule->formula, sizeof out->formula);
    return true;
}

/* -- names ----------------------------------------------------------------------------------------------- */

static bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r'; }
static bool is_word(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/* A position: in a file, and in the text that the caller gave. */
typedef struct spot {
    const char *from; /* "my.rules", NULL for a rule that is given alone */
    int32_t line;
    const char *text, *start; /* the whole text, and the line's first byte */
} spot;

static lam_status wrong(const spot *s, const char *at, lam_error *e, const char *fmt, ...) LAM_PRINTF(4, 5);
static lam_status wrong(const spot *s, const char *at, lam_error *e, const char *fmt, ...) {
    char where[96], what[256];
    const char *from = s->from ? s->from : "rule";
    size_t n = strlen(from), most = sizeof where - 32;
    if (n > most) from += n - most; /* keeps the end of a path, which is more useful */
    if (s->line > 0)
        snprintf(where, sizeof where, "%s:%d:%d", from, (int)s->line, (int)(at - s->start) + 1);
    else
        snprintf(where, sizeof where, "%s", from);
    va_list args;
    va_start(args, fmt);
    vsnprintf(what, sizeof what, fmt, args);
    va_end(args);
    return lmi_fail_at(e, LAM_SYNTAX, at - s->text, where, "%s", what);
}

/* The length of a well-formed name, without the overload of an operator; 0: it is malformed. */
static size_t name_length(const char *name, size_t n) {
    size_t kept = n, colons = 0;
    if (n == 0 || n > MAX_NAME || !is_word(name[0]) || !is_word(name[n - 1])) return 0;
    for (size_t i = 0; i < n; i++) {
        bool colon = name[i] == ':';
        if (colon && (colons > 0 || name[i + 1] != ':' || i + 2 >= n)) return 0;
        if (colon) {
            colons++;
            i++;
        } else if (name[i] == '.' && colons > 0 && kept == n) {
            kept = i; /* "mylib::op.default": all overloads share a rule */
        } else if (!is_word(name[i]) && name[i] != '.' && (unsigned char)name[i] < 0x80) {
            return 0;
        }
    }
    return kept;
}

/* -- formulas -------------------------------------------------------------------------------------------- */

static int metric_called(const char *name, size_t n) {
    for (int i = 0; i < LAM_N_METRICS; i++) {
        const char *metric = lam_metric_name((lam_metric)i);
        if (strlen(metric) == n && memcmp(metric, name, n) == 0) return i;
    }
    return -1;
}

/* Replaces each metric that the formula names by that metric's formula. Sets *changed if there was one. */
static lam_status expand(const spot *s, const char *at, size_t n, const lmi_rule *rule, lmi_buf *out,
                         bool *changed, lam_error *e) {
    for (size_t i = 0; i < n;) {
        size_t k = 1;
        if (is_word(at[i]))
            while (i + k < n && is_word(at[i + k])) k++;
        int metric = is_word(at[i]) ? metric_called(at + i, k) : -1;
        if (metric < 0) {
            lmi_putn(out, at + i, k);
        } else if (!rule->formula[metric]) {
            return wrong(s, at + i, e, "%s is not given before it is used; give it first in the same rule",
                         lam_metric_name((lam_metric)metric));
        } else {
            *changed = true;
            lmi_putc(out, '(');
            lmi_put(out, rule->formula[metric]);
            lmi_putc(out, ')');
        }
        i += k;
    }
    return lmi_buf_status(out, e);
}

static lam_status set_formula(lam_rules *r, const spot *s, lmi_rule *rule, int metric, const char *at,
                              size_t n, lam_error *e) {
    bool changed = false;
    lmi_buf b;
    lmi_formula code;
    lam_error inner = {.at = 0};
    while (n > 0 && is_space(at[n - 1])) n--;
    if (n == 0 || n > MAX_FORMULA)
        return wrong(s, at, e, "%s has %s; write %s = out*x_last, or `unknown`",
                     lam_metric_name((lam_metric)metric), n ? "a formula that is too long" : "no formula",
                     lam_metric_name((lam_metric)metric));
    lmi_buf_init(&b);
    lam_status status = expand(s, at, n, rule, &b, &changed, e);
    const char *text = lmi_buf_keep(&b, &r->arena);
    if (status != LAM_OK) return status;
    if (!text) return lmi_nomem(e);
    if (lmi_formula_parse(&code, text, &inner) != LAM_OK) {
        bool inside = !changed && inner.at >= 0 && (size_t)inner.at <= n;
        return wrong(s, at + (inside ? inner.at : 0), e, "%s; `lamina rules` lists the facts", inner.text);
    }
    rule->formula[metric] = text;
    return LAM_OK;
}

/* The default for an operator: each tensor is read or written once. */
static void set_defaults(lmi_rule *rule) {
    static const char *const once[LAM_N_METRICS] = {
        [LAM_DMAS] = "ins+outs", [LAM_BYTES_READ] = "ins_bytes", [LAM_BYTES_WRITTEN] = "outs_bytes"};
    if (rule->asks || !strchr(rule->name, ':')) return;
    for (int i = 0; i < LAM_N_METRICS; i++)
        if (!rule->formula[i]) rule->formula[i] = once[i];
}

/* -- rules ----------------------------------------------------------------------------------------------- */

static lam_status put_rule(lam_rules *r, const lmi_rule *rule, lam_error *e) {
    int64_t at = lmi_map_get(&r->by_name, rule->name);
    lmi_rule *to = at >= 0 ? lmi_vec_at(&r->rules, (size_t)at) : lmi_vec_push(&r->rules);
    if (!to) return lmi_nomem(e);
    const char *name = at >= 0 ? to->name : rule->name; /* the map borrows the name of the first rule */
    *to = *rule;
    to->name = name;
    if (at >= 0) return LAM_OK;
    lam_status s = lmi_map_put(&r->by_name, name, (int64_t)r->rules.n - 1, e);
    if (s != LAM_OK) lmi_vec_pop(&r->rules);
    return s;
}

lam_status lam_rules_add(lam_rules *r, const char *name, const char *const formula[LAM_N_METRICS], bool ask,
                         lam_error *e) {
    size_t n = name ? strlen(name) : 0, kept = name ? name_length(name, n) : 0;
    if (kept == 0)
        return lmi_fail(e, LAM_USAGE, "rule",
                        "'%s' is not the name of an operator (mylib::op) or a layer (MyLayer)",
                        name ? name : "");
    spot s = {.from = name};
    lmi_rule rule = {.kind = LMI_N_KINDS, .asks = ask, .note = "a rule of your own"};
    rule.name = lmi_strndup(&r->arena, name, kept);
    if (!rule.name) return lmi_nomem(e);
    for (int i = 0; i < LAM_N_METRICS; i++) {
        if (!formula || !formula[i]) continue;
        s.text = s.start = formula[i];
        LAM_TRY(set_formula(r, &s, &rule, i, formula[i], strlen(formula[i]), e));
    }
    set_defaults(&rule);
    return put_rule(r, &rule, e);
}

/* -- text ------------------------------------------------------------------------------------------------ */

typedef struct reader {
    lam_rules *r;
    spot at;
    lmi_rule rule; /* the one that is being read; its name NULL before the first */
    int32_t rule_line;
    lmi_map lines; /* name -> the line of its rule in this text */
    lam_error *e;
} reader;

static const char *skip(const char *p, const char *end) {
    while (p < end && is_space(*p)) p++;
    return p;
}

/* True if "word =" (not "word ==") starts at `p`. Sets *after to the position after the sign. */
static bool assigns(const char *p, const char *end, size_t *n, const char **after) {
    const char *q = p;
    while (q < end && is_word(*q)) q++;
    *n = (size_t)(q - p);
    q = skip(q, end);
    *after = q + 1;
    return *n > 0 && q < end && *q == '=' && (q + 1 == end || q[1] != '=');
}

/* The end of the formula that starts at `p`: before the next "word =". */
static const char *end_of_formula(const char *p, const char *end) {
    size_t n;
    const char *after;
    for (const char *q = p; q < end; q++) {
        if (q > p && is_word(*q) && !is_word(q[-1]) && assigns(q, end, &n, &after)) return q;
    }
    return end;
}

static lam_status read_metrics(reader *t, const char *p, const char *end) {
    for (p = skip(p, end); p < end; p = skip(p, end)) {
        size_t n;
        const char *after;
        if (!assigns(p, end, &n, &after))
            return wrong(&t->at, p, t->e, "expected a metric and a formula, as macs = out*x_last");
        int metric = metric_called(p, n);
        if (metric < 0)
            return wrong(&t->at, p, t->e, "there is no metric '%.*s'; there are macs, flops and dmas",
                         (int)(n > 40 ? 40 : n), p);
        if (t->rule.formula[metric])
            return wrong(&t->at, p, t->e, "the rule gives %s twice", lam_metric_name((lam_metric)metric));
        after = skip(after, end);
        const char *stop = end_of_formula(after, end);
        LAM_TRY(set_formula(t->r, &t->at, &t->rule, metric, after, (size_t)(stop - after), t->e));
        p = stop;
    }
    return LAM_OK;
}

static lam_status end_rule(reader *t) {
    if (!t->rule.name) return LAM_OK;
    bool any = false;
    for (int i = 0; i < LAM_N_METRICS; i++) any = any || t->rule.formula[i];
    if (any) set_defaults(&t->rule);
    if (any) return put_rule(t->r, &t->rule, t->e);
    t->at.line = t->rule_line;
    return wrong(&t->at, t->at.start, t->e, "the rule of %s gives no number; write macs = ..., flops = ...",
                 t->rule.name);
}

static lam_status begin_rule(reader *t, const char *p, const char *end) {
    const char *q = p;
    size_t word;
    const char *after;
    while (q < end && !is_space(*q) && *q != '=') q++;
    size_t n = name_length(p, (size_t)(q - p));
    if (n == 0 || (assigns(p, end, &word, &after) && metric_called(p, word) >= 0))
        return wrong(&t->at, p, t->e,
                     "a rule begins with an operator (mylib::op) or a layer's class (MyLayer)");
    lmi_buf note;
    lmi_buf_init(&note);
    lmi_putf(&note, "a rule of your own, %s:%d", t->at.from, (int)t->at.line);
    t->rule = (lmi_rule){.kind = LMI_N_KINDS};
    t->rule_line = t->at.line;
    t->rule.name = lmi_strndup(&t->r->arena, p, n);
    t->rule.note = lmi_buf_keep(&note, &t->r->arena);
    if (!t->rule.name || !t->rule.note) return lmi_nomem(t->e);
    int64_t before = lmi_map_get(&t->lines, t->rule.name);
    if (before >= 0)
        return wrong(&t->at, p, t->e, "%s has a rule already, on line %d", t->rule.name, (int)before);
    LAM_TRY(lmi_map_put(&t->lines, t->rule.name, t->at.line, t->e));
    return read_metrics(t, q, end);
}

static lam_status read_line(reader *t, const char *line, const char *end) {
    const char *comment = memchr(line, '#', (size_t)(end - line)), *stop = comment ? comment : end;
    const char *p = skip(line, stop);
    t->at.start = line;
    if (p == stop) return LAM_OK;
    if (p > line && !t->rule.name)
        return wrong(&t->at, p, t->e, "an indented line goes on with a rule, and there is none yet");
    if (p > line) return read_metrics(t, p, stop);
    LAM_TRY(end_rule(t));
    return begin_rule(t, p, stop);
}

lam_status lam_rules_read(lam_rules *r, const char *text, const char *from, lam_error *e) {
    if (!text) return lmi_fail(e, LAM_USAGE, "lam_rules_read", "there is no text to read");
    reader t = {.r = r, .at = {.from = from ? from : "rules", .text = text, .start = text}, .e = e};
    lam_status s = LAM_OK;
    lmi_map_init(&t.lines);
    for (const char *line = text; s == LAM_OK && *line;) {
        const char *end = line + strcspn(line, "\n");
        t.at.line++;
        s = read_line(&t, line, end);
        line = *end ? end + 1 : end;
    }
    if (s == LAM_OK) s = end_rule(&t);
    lmi_map_free(&t.lines);
    return s;
}

/* -- for the costs --------------------------------------------------------------------------------------- */

lam_status lmi_own_copy(const lam_rules *from, lmi_arena *arena, lmi_own *out, lam_error *e) {
    size_t n = from ? from->rules.n : 0;
    *out = (lmi_own){.n = 0};
    lmi_map_init(&out->by_name);
    lmi_rule *rules = lmi_alloc(arena, n, sizeof *rules);
    out->codes = lmi_alloc(arena, n, sizeof *out->codes);
    if (!rules || !out->codes) return lmi_nomem(e);
    out->n = (int32_t)n;
    for (size_t i = 0; i < n; i++) {
        const lmi_rule *rule = lmi_vec_at(&from->rules, i);
        rules[i] = *rule;
        rules[i].name = lmi_strdup(arena, rule->name);
        rules[i].note = lmi_strdup(arena, rule->note);
        if (!rules[i].name || !rules[i].note) return lmi_nomem(e);
        for (int k = 0; k < LAM_N_METRICS; k++) {
            rules[i].formula[k] = lmi_strdup(arena, rule->formula[k]);
            if (rule->formula[k] && !rules[i].formula[k]) return lmi_nomem(e);
        }
        LAM_TRY(lmi_map_put(&out->by_name, rules[i].name, (int64_t)i, e));
    }
    out->rules = rules;
    return LAM_OK;
}

void lmi_own_free(lmi_own *own) {
    for (int32_t i = 0; i < own->n; i++) lmi_rule_code_free(atomic_exchange(&own->codes[i], NULL));
    lmi_map_free(&own->by_name);
}

static const lmi_rule *own_called(const lmi_convention *c, const char *name) {
    int64_t at = c->own && name ? lmi_map_get(&c->own->by_name, name) : -1;
    return at >= 0 ? &c->own->rules[at] : NULL;
}

const lmi_rule *lmi_own_of_module(const lmi_convention *c, const lam_module *mod) {
    if (!c->own || c->which == LMI_HOOKS) return NULL;
    const lmi_rule *r = own_called(c, mod->type_path);
    return r ? r : own_called(c, mod->type);
}

const lmi_rule *lmi_own_of_op(const lmi_convention *c, const char *name) {
    return c->own && c->op_rules ? own_called(c, name) : NULL;
}
