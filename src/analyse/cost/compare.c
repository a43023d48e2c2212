/* SPDX-License-Identifier: Apache-2.0
 *
 * One capture under several conventions, and the causes of each difference from the reference. The forward,
 * or the backward, is split into parts that both conventions count: an operator that the program called, with
 * all operators inside it, or a whole call, if a convention counts the layer and not its operators. Parts
 * that differ in the same way are one cause. */
#include "analyse/cost/compare.h"
#include "analyse/flow/graph.h"

#include <ctype.h>
#include <stdlib.h>

static const uint64_t ARENA_LIMIT = UINT64_C(1) << 30;
static const char ALL[] = "all"; /* in a list of conventions */

/* How a convention's count of a part differs from the reference's. */
typedef enum relation { MISSING, EXTRA, OTHER } relation;

typedef struct cause {
    relation relation;
    const char *what; /* the operator's name, NULL: the layer itself */
    const char *type; /* class of the layer, NULL: outside every layer */
    const char *note;
    int64_t difference, its, ref;
    int32_t calls;
} cause;

/* The metric's number of each part. Event n_events: the operators outside every call. */
typedef struct parts {
    int64_t *of_top;   /* per operator that the program called, 0 for others */
    int64_t *of_event; /* per call */
    lam_costs *costs;
    const lmi_convention *cv;
} parts;

typedef struct job {
    lam_comparison *c;
    const lam_model *m;
    lmi_arena scratch;
    int32_t *top;     /* per operator: the one that the program called */
    int32_t *largest; /* per operator that the program called: a counted one inside with some work; -1 none */
    parts ref;
    lmi_vec causes; /* cause */
    lmi_map by_key;
    lam_metric metric;
    lam_phase phase;
} job;

static int32_t event_of(const job *j, int32_t op) {
    return j->m->ops[op].call >= 0 ? j->m->ops[op].call : j->m->n_events;
}

/* -- numbers by part --------------------------------------------------------------------------- */

/* False for marks that the program sets (record_function) and for nodes of the backward pass. */
static bool is_operator(const lam_op *o) {
    return !(o->flags & LAM_OP_NODE) && (o->sig->word >= 0 || strstr(o->sig->name, "::"));
}

static lam_status find_tops(job *j, lam_error *e) {
    j->top = lmi_alloc(&j->scratch, (uint64_t)j->m->n_ops, sizeof *j->top);
    j->largest = lmi_alloc(&j->scratch, (uint64_t)j->m->n_ops, sizeof *j->largest);
    if (!j->top || !j->largest) return lmi_nomem(e);
    for (int32_t i = 0; i < j->m->n_ops; i++) {
        int32_t p = j->m->ops[i].parent;
        j->top[i] = p >= 0 && is_operator(&j->m->ops[p]) ? j->top[p] : i;
        j->largest[i] = -1;
    }
    return LAM_OK;
}

enum { UNKNOWN = -1 };

/* A part of the reference that is not exact is unknown, and so is one that does not fit. A tool's number is
 * the sum of what it has rules for, so what it leaves out is known. */
static void add_to(int64_t *sum, lam_count n, bool of_ref) {
    bool known = !n.over && (!of_ref || n.state == LAM_EXACT);
    if (*sum == UNKNOWN || !known || lmi_add_over(*sum, n.n, sum)) *sum = UNKNOWN;
}

static void number_ops(const job *j, parts *p) {
    for (int32_t i = 0; i < j->m->n_ops; i++) {
        lam_count n[LAM_N_METRICS];
        if (p->costs->ops.role[i] != LMI_ROLE_COUNTED || j->m->ops[i].phase != (uint8_t)j->phase) continue;
        lmi_count_op(p->cv, j->m, i, n);
        add_to(&p->of_top[j->top[i]], n[j->metric], p == &j->ref);
        int32_t *largest = &j->largest[j->top[i]];
        if (p == &j->ref && n[j->metric].n > 0) *largest = i;
    }
}

static void number_events(const job *j, parts *p) {
    for (int32_t r = 0; r < p->costs->n_rows; r++) {
        const lam_cost_row *row = &p->costs->rows[r];
        if (row->event >= 0 || lmi_is_outside(row))
            add_to(&p->of_event[row->event >= 0 ? row->event : j->m->n_events],
                   (j->phase == LAM_FORWARD ? row->metric : row->phases->backward)[j->metric], p == &j->ref);
    }
}

/* True for a tool that treats repeated calls in a special way or leaves layers out: its released form is
 * compared. */
static bool printed(const lmi_convention *cv) {
    return cv->repeated == LMI_KTH_PLACE || cv->repeated == LMI_LAST || cv->no_rule == LMI_NR_OMIT;
}

static lam_status number(job *j, const lmi_convention *cv, parts *p, lam_error *e) {
    lam_cost_options o = {.convention = cv->name, .released = printed(cv)};
    p->cv = cv;
    p->of_top = lmi_alloc(&j->scratch, (uint64_t)j->m->n_ops, sizeof *p->of_top);
    p->of_event = lmi_alloc(&j->scratch, (uint64_t)j->m->n_events + 1, sizeof *p->of_event);
    if (!p->of_top || !p->of_event) return lmi_nomem(e);
    LAM_TRY(lam_costs_new(&p->costs, j->m, &o, e));
    number_events(j, p);
    if (cv->op_rules) number_ops(j, p);
    return LAM_OK;
}

/* -- causes ------------------------------------------------------------------------------------ */

static const char *type_of(const job *j, int32_t event) {
    return event < j->m->n_events ? j->m->modules[j->m->events[event].module].type : NULL;
}

static const char *short_name(const char *op) { return lmi_is_torchs(op) ? op + strlen("aten::") : op; }

/* The note of a layer that the tool adds up by places, if its number differs from that of its calls. */
static const char *note_of_places(const job *j, const parts *p, int32_t event) {
    if (p->cv->repeated != LMI_PLACES || event >= j->m->n_events) return NULL;
    const lmi_call_cost *price = &p->costs->prices[event];
    if (!price->rule || price->places == 1) return NULL;
    return price->places ? "Each place of a module adds all of its calls."
                         : "What lies below a layer with a hook is not added up.";
}

/* The reason why a traced graph lacks an operator that the program called. */
static const char *note_of_graph(const job *j, const parts *p, int32_t op) {
    if (op < 0 || p->cv->sees != LMI_SEES_TRACED || p->costs->ops.role[op] != LMI_ROLE_INSIDE) return NULL;
    return lmi_in_function(j->m, op)
               ? "A torch.autograd.Function is one node of the tool's graph, and what it runs is not in it."
               : "It reaches no output, and the tool's graph leaves that out.";
}

/* The note of the convention's table for the operator, or for the layer if that counts as a whole. */
static const char *note_of(const job *j, const parts *p, int32_t op, int32_t event) {
    int32_t inner = op >= 0 && j->largest[op] >= 0 ? j->largest[op] : op;
    const char *of_places = note_of_places(j, p, event);
    if (of_places) return of_places;
    const char *of_graph = note_of_graph(j, p, op);
    if (of_graph) return of_graph;
    const int32_t ops[] = {inner, op};
    for (int i = 0; i < 2 && op >= 0 && p->cv->op_rules; i++) {
        const lam_op *o = &j->m->ops[ops[i]];
        lmi_kind kind = lmi_op_kind(o->sig->word);
        const lmi_rule *rule = lmi_rule_at(p->cv->op_rules, kind);
        /* The note of a kind of dense work applies to all its operators; other kinds contain unlike ones. */
        bool counted = lmi_kind_multiplies(kind) || (rule && !rule->only) || lmi_rule_of_op(p->cv, o);
        if (rule && counted && rule->note) return rule->note;
    }
    bool layers = op < 0 && p->cv->op_rules != p->cv->rules && event < j->m->n_events;
    const lmi_rule *r = layers ? lmi_rule_for(p->cv, &j->m->modules[j->m->events[event].module]) : NULL;
    return r ? r->note : NULL;
}

static lam_status cause_of(job *j, const cause *like, cause **out, lam_error *e) {
    lmi_buf b;
    lmi_buf_init(&b);
    lmi_putf(&b, "%d|%s|%s|%s", (int)like->relation, like->what ? like->what : "",
             like->type ? like->type : "", like->note ? like->note : "");
    const char *key = lmi_buf_keep(&b, &j->scratch);
    if (!key) return lmi_nomem(e);
    int64_t at = lmi_map_get(&j->by_key, key);
    if (at < 0) {
        at = (int64_t)j->causes.n;
        LAM_TRY(lmi_vec_put(&j->causes, like, e));
        LAM_TRY(lmi_map_put(&j->by_key, key, at, e));
    }
    *out = lmi_vec_at(&j->causes, (size_t)at);
    return LAM_OK;
}

/* Adds the difference of one part to its cause: operator `op` that the program called (-1: the whole call) of
 * `event`. */
static lam_status differ(job *j, const parts *p, int32_t op, int32_t event, lam_error *e) {
    int64_t ref = op >= 0 ? j->ref.of_top[op] : j->ref.of_event[event];
    int64_t its = op >= 0 && p->cv->op_rules ? p->of_top[op] : op >= 0 ? 0 : p->of_event[event];
    if (ref == its || ref == UNKNOWN || its == UNKNOWN) return LAM_OK;
    cause like = {.relation = its == 0   ? MISSING
                              : ref == 0 ? EXTRA
                                         : OTHER,
                  .what = op >= 0 ? short_name(j->m->ops[op].sig->name) : NULL,
                  .type = type_of(j, event),
                  .note = note_of(j, p, op, event)},
          *c;
    LAM_TRY(cause_of(j, &like, &c, e));
    c->difference += its - ref;
    c->ref += ref;
    c->its += its;
    c->calls++;
    return LAM_OK;
}

/* True if the convention counts the call as a whole: it counts layers, or this layer has a hook. */
static bool as_a_whole(const job *j, const parts *p, int32_t event) {
    if (p->of_event[event] == 0) return false; /* then the operators give better causes */
    if (!p->cv->op_rules) return true;
    return event < j->m->n_events && p->costs->prices[event].rule;
}

static lam_status find_causes(job *j, const parts *p, lam_error *e) {
    for (int32_t i = 0; i <= j->m->n_events; i++)
        if (as_a_whole(j, p, i)) LAM_TRY(differ(j, p, -1, i, e));
    for (int32_t i = 0; i < j->m->n_ops; i++) {
        bool counts = j->top[i] == i && (j->ref.of_top[i] || p->of_top[i]);
        if (counts && !as_a_whole(j, p, event_of(j, i))) LAM_TRY(differ(j, p, i, event_of(j, i), e));
    }
    return LAM_OK;
}

/* -- rows -------------------------------------------------------------------------------------- */

static int larger(const void *a, const void *b) {
    const cause *x = a, *y = b;
    int64_t n = x->difference < 0 ? -x->difference : x->difference;
    int64_t k = y->difference < 0 ? -y->difference : y->difference;
    if (n != k) return n > k ? -1 : 1;
    int by_name = strcmp(x->what ? x->what : "", y->what ? y->what : "");
    return by_name ? by_name : strcmp(x->type ? x->type : "", y->type ? y->type : "");
}

/* True if the layer is named after the operator: layer_norm and LayerNorm, conv2d and Conv2d, batch_norm and
 * BatchNorm2d. */
static bool named_after(const char *type, const char *op) {
    for (; *op; op++) {
        if (*op == '_') continue;
        if (tolower((unsigned char)*type) != tolower((unsigned char)*op)) return false;
        type++;
    }
    return !*type || (isdigit((unsigned char)*type) && strcmp(type + 1, "d") == 0);
}

/* "LayerNorm", "attention in Block", "mm outside every layer". */
static void say_what(const cause *c, lmi_buf *b) {
    static const char attention[] = "scaled_dot_product_attention";
    bool both = c->what && !(c->type && named_after(c->type, c->what));
    if (both) lmi_put_clean(b, strcmp(c->what, attention) == 0 ? "attention" : c->what);
    if (both) lmi_put(b, c->type ? " in " : " outside every layer");
    if (c->type) lmi_put_clean(b, c->type);
    if (!both && !c->type) lmi_put(b, "what ran outside every layer");
}

static void say_cause(const cause *c, lam_metric metric, lmi_buf *b) {
    char its[48], ref[48];
    lam_text_count(its, sizeof its, lmi_exact(c->its), false);
    lam_text_count(ref, sizeof ref, lmi_exact(c->ref), false);
    if (strcmp(its, ref) == 0) {
        lam_text_count(its, sizeof its, lmi_exact(c->its), true);
        lam_text_count(ref, sizeof ref, lmi_exact(c->ref), true);
    }
    lmi_put(b, c->relation == MISSING ? "leaves out " : "counts ");
    say_what(c, b);
    if (c->relation == EXTRA)
        lmi_putf(b, ", although it has no %s", metric == LAM_MACS ? "multiply-accumulate" : "FLOPs");
    if (c->relation == OTHER) lmi_putf(b, " as %s; exact is %s", its, ref);
}

/* Keeps all causes; the writer shortens the list for a screen. */
static lam_status keep_causes(job *j, lam_compared *row, lam_error *e) {
    lam_comparison *c = j->c;
    size_t n = j->causes.n;
    if (n) qsort(j->causes.data, n, sizeof(cause), larger);
    lam_cause *kept = lmi_alloc(&c->arena, n + 1, sizeof *kept);
    if (!kept) return lmi_nomem(e);
    int64_t left = row->difference;
    for (size_t i = 0; i < n; i++) {
        const cause *from = lmi_vec_at(&j->causes, i);
        lmi_buf b;
        lmi_buf_init(&b);
        say_cause(from, j->metric, &b);
        const char *text = lmi_buf_keep(&b, &c->arena);
        if (!text) return lmi_nomem(e);
        kept[i] = (lam_cause){text, from->note, from->difference, from->calls};
        left -= from->difference;
    }
    row->n_causes = (int32_t)n;
    if (row->told && left) kept[row->n_causes++] = (lam_cause){"others", NULL, left, 0};
    row->causes = kept;
    return LAM_OK;
}

/* Copies all that the row keeps of the costs, which are freed after the row is filled. */
static lam_status fill_row(job *j, const parts *p, lam_compared *row, lam_error *e) {
    const char *gap =
        j->phase == LAM_FORWARD || p->costs->ops.back ? lam_costs_gap(p->costs, 0) : "no backward pass ran";
    lam_count ref = lam_costs_phase_total(j->ref.costs, j->phase, j->metric);
    lam_count its = lam_costs_phase_total(p->costs, j->phase, j->metric);
    *row = (lam_compared){.convention = p->cv->name,
                          .macs = lam_costs_phase_total(p->costs, j->phase, LAM_MACS),
                          .flops = lam_costs_phase_total(p->costs, j->phase, LAM_FLOPS),
                          .params = lam_costs_params(p->costs).in_rows};
    if (!lmi_compare_tells(p->cv, j->metric, j->phase)) return LAM_OK;
    if (its.state != LAM_EXACT && gap) {
        row->gap = lmi_strdup(&j->c->arena, gap);
        if (!row->gap) return lmi_nomem(e);
    }
    if (j->phase == LAM_FORWARD) LAM_TRY(lmi_limits(p->costs, j->metric, &j->c->arena, &row->limits, e));
    row->told = !ref.over && ref.state == LAM_EXACT && !its.over && its.state != LAM_UNKNOWN;
    if (row->told) row->difference = its.n - ref.n;
    if (p != &j->ref) LAM_TRY(find_causes(j, p, e));
    return keep_causes(j, row, e);
}

static lam_status compare_one(job *j, const lmi_convention *cv, lam_error *e) {
    lam_compared *row = &j->c->rows[j->c->n];
    if (cv == j->ref.cv) return LAM_OK;
    parts p = {0};
    lmi_vec_init(&j->causes, sizeof(cause));
    lmi_map_init(&j->by_key);
    lam_status s = number(j, cv, &p, e);
    if (s == LAM_OK) s = fill_row(j, &p, row, e);
    if (s == LAM_OK) j->c->n++;
    lam_costs_free(p.costs);
    lmi_map_free(&j->by_key);
    lmi_vec_free(&j->causes);
    return s;
}

/* The reference: the first convention that counts operators by rules alone (LMI_SEES_RULES). */
static const lmi_convention *reference(void) {
    const lmi_convention *cv = NULL;
    for (int32_t i = 0; (cv = lmi_convention_at(i)) != NULL; i++)
        if (cv->op_rules && cv->sees == LMI_SEES_RULES) break;
    return cv;
}

/* torch's engine runs a backward pass, so a tool that follows only the program's calls does not see it. */
bool lmi_compare_tells(const lmi_convention *cv, lam_metric metric, lam_phase phase) {
    bool there = phase == LAM_FORWARD || (cv->op_rules && cv->sees < LMI_SEES_CALLED);
    return there && lmi_convention_tells(cv, metric);
}

static bool names_all(const lam_compare_options *o) {
    for (int32_t i = 0; i < o->n; i++)
        if (strcmp(o->conventions[i], ALL) == 0) return true;
    return false;
}

/* True if a convention is compared without being named, where it can count the model. `all`: every convention
 * that counts the phase; else those that count the metric by operators. */
static bool wanted(const job *j, const lmi_convention *cv, bool all) {
    return lmi_compare_tells(cv, all ? LAM_MACS : j->metric, j->phase) && (all || cv->which == LMI_OPS);
}

/* True if a tool that is compared by default can count the model. */
static bool any_counts(const job *j) {
    const lmi_convention *cv;
    for (int32_t i = 0; (cv = lmi_convention_at(i)) != NULL; i++)
        if (cv != reference() && wanted(j, cv, false) && lmi_convention_counts(cv, j->m)) return true;
    return false;
}

/* Keeps the names of the tools that can't count the model: "torch, fvcore". */
static lam_status keep_left_out(job *j, lam_error *e) {
    const lmi_convention *cv;
    lmi_buf b;
    lmi_buf_init(&b);
    for (int32_t i = 0; (cv = lmi_convention_at(i)) != NULL; i++)
        if (!lmi_convention_counts(cv, j->m)) lmi_putf(&b, "%s%s", b.n ? ", " : "", cv->name);
    const bool any = b.n > 0 || b.bad;
    const char *kept = lmi_buf_keep(&b, &j->c->arena);
    j->c->left_out = any ? kept : NULL;
    return kept ? LAM_OK : lmi_nomem(e);
}

static lam_status compare_all(job *j, const lam_compare_options *o, lam_error *e) {
    const bool named = o->n > 0 && !names_all(o), all = !named && (o->n > 0 || !any_counts(j));
    j->c->named = named;
    j->c->all = all;
    if (!named) LAM_TRY(keep_left_out(j, e));
    LAM_TRY(find_tops(j, e));
    LAM_TRY(number(j, reference(), &j->ref, e));
    LAM_TRY(fill_row(j, &j->ref, &j->c->rows[j->c->n], e));
    j->c->n++;
    for (int32_t i = 0; i < (named ? o->n : lam_n_conventions()); i++) {
        const lmi_convention *cv = named ? lmi_convention_named(o->conventions[i], e) : lmi_convention_at(i);
        if (!cv) return LAM_USAGE;
        if (named || (wanted(j, cv, all) && lmi_convention_counts(cv, j->m))) LAM_TRY(compare_one(j, cv, e));
    }
    return LAM_OK;
}

static lam_status check(const lam_compare_options *o, lam_error *e) {
    if (o->metric != LAM_MACS && o->metric != LAM_FLOPS)
        return lmi_fail(e, LAM_USAGE, "metric", "MACs and FLOPs can be compared, and nothing else");
    if (o->phase != LAM_FORWARD && o->phase != LAM_BACKWARD)
        return lmi_fail(e, LAM_USAGE, "phase", "the forward and the backward pass can be compared");
    return LAM_OK;
}

lam_status lam_compare_new(lam_comparison **out, const lam_model *m, const lam_compare_options *o,
                           lam_error *e) {
    static const lam_compare_options usual = {.metric = LAM_MACS, .phase = LAM_FORWARD};
    if (!out) return lmi_fail(e, LAM_USAGE, "lam_compare_new", "there is nowhere to put the result");
    *out = NULL;
    if (!m) return lmi_fail(e, LAM_USAGE, "lam_compare_new", "there is no model to compare counts of");
    if (!o) o = &usual;
    LAM_TRY(check(o, e));
    if (m->given) return lmi_needs_run(m, "a comparison of conventions", e);
    lam_comparison *c = calloc(1, sizeof *c);
    if (!c) return lmi_nomem(e);
    c->metric = o->metric;
    c->phase = o->phase;
    int32_t n = o->n > 0 ? o->n : 0;
    job j = {.c = c, .m = m, .metric = o->metric, .phase = o->phase};
    lmi_arena_init(&c->arena, ARENA_LIMIT);
    lmi_arena_init(&j.scratch, ARENA_LIMIT);
    c->rows = lmi_alloc(&c->arena, (uint64_t)n + (uint64_t)lam_n_conventions() + 1, sizeof *c->rows);
    lam_status s = c->rows ? compare_all(&j, o, e) : lmi_nomem(e);
    lam_costs_free(j.ref.costs);
    lmi_arena_free(&j.scratch);
    if (s == LAM_OK)
        *out = c;
    else
        lam_compare_free(c);
    return s;
}

void lam_compare_free(lam_comparison *c) {
    if (!c) return;
    lmi_arena_free(&c->arena);
    free(c);
}

const lam_compared *lam_compare_row(const lam_comparison *c, int32_t i) {
    return i >= 0 && i < c->n ? &c->rows[i] : NULL;
}
