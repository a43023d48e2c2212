/* SPDX-License-Identifier: Apache-2.0
 *
 * Sizes that are expressions. The file has the value that each had in the example. Where a symbol gets
 * another value, expressions are computed, in either of the two forms that torch wrote: "12*s0 + 1", and the
 * constructors of sympy, "Add(Mul(Integer(12), Symbol('s0', integer=True)), Integer(1))". Conditions of sizes
 * are expressions that are 0 or 1: "s0 > 4", "StrictGreaterThan(Symbol('s0'), Integer(4))". */
#include "model/model.h"
#include "read/pt2/pt2.h"

#include <stdio.h>
#include <stdlib.h>

enum { DEEPEST = 64, MOST_NAME = 64, MOST_AXES = 32 };

/* -- expressions ----------------------------------------------------------------------------------------- */

typedef struct reading {
    lmi_pt2 *p;
    const char *at;
    int depth;
    bool unknown; /* of a part, or the text is not understood */
} reading;

static int64_t whole(reading *r);

static void pass_spaces(reading *r) {
    while (*r->at == ' ') r->at++;
}

static bool take(reading *r, const char *token) {
    const size_t n = strlen(token);
    pass_spaces(r);
    if (strncmp(r->at, token, n) != 0) return false;
    r->at += n;
    return true;
}

static int64_t fail(reading *r) {
    r->unknown = true;
    return -1;
}

static int64_t symbol(reading *r, const char *name, size_t n) {
    char text[MOST_NAME];
    if (n >= sizeof text) return fail(r);
    memcpy(text, name, n);
    text[n] = '\0';
    const int64_t i = lmi_map_get(&r->p->hints, text);
    const int64_t *hint = i < 0 ? NULL : lmi_vec_at(&r->p->hint, (size_t)i);
    return hint && *hint >= 0 ? *hint : fail(r);
}

static int64_t floor_div(reading *r, int64_t a, int64_t b) {
    if (b == 0 || (a == INT64_MIN && b == -1)) return fail(r);
    return a / b - ((a % b != 0) && ((a < 0) != (b < 0)));
}

static int64_t power(reading *r, int64_t base, int64_t n) {
    int64_t product = 1;
    if (n < 0 || n > 62) return fail(r);
    for (int64_t i = 0; i < n; i++)
        if (lmi_mul_over(product, base, &product)) return fail(r);
    return product;
}

typedef enum function {
    NONE,
    ADD,
    MUL,
    POW,
    FLOOR,
    CEIL,
    MOD,
    LARGEST,
    LEAST,
    SAME,
    EXACT,
    BITS_LEFT,
    BITS_RIGHT,
    MORE,
    LESS,
    LEAST_SO,
    MOST_SO,
    EQUAL,
    UNLIKE,
    AND,
    OR,
    NOT
} function;

static function function_of(const char *name, size_t n) {
    static const struct {
        const char *name;
        function is;
    } all[] = {{"Add", ADD},
               {"Mul", MUL},
               {"Pow", POW},
               {"FloorDiv", FLOOR},
               {"CleanDiv", EXACT},
               {"CeilDiv", CEIL},
               {"Mod", MOD},
               {"PythonMod", MOD},
               {"Max", LARGEST},
               {"Min", LEAST},
               {"Integer", SAME},
               {"PowByNatural", POW},
               {"TruncToInt", SAME},
               {"floor", SAME},
               {"Identity", SAME},
               {"LShift", BITS_LEFT},
               {"RShift", BITS_RIGHT},
               {"StrictGreaterThan", MORE},
               {"StrictLessThan", LESS},
               {"GreaterThan", LEAST_SO},
               {"LessThan", MOST_SO},
               {"Equality", EQUAL},
               {"Eq", EQUAL},
               {"Unequality", UNLIKE},
               {"Ne", UNLIKE},
               {"And", AND},
               {"Or", OR},
               {"Not", NOT}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (strlen(all[i].name) == n && memcmp(all[i].name, name, n) == 0) return all[i].is;
    return NONE;
}

static int64_t apply(reading *r, function f, int64_t a, int64_t b) {
    int64_t v = 0;
    switch (f) {
    case ADD: return lmi_add_over(a, b, &v) ? fail(r) : v;
    case MUL: return lmi_mul_over(a, b, &v) ? fail(r) : v;
    case POW: return power(r, a, b);
    case EXACT: v = floor_div(r, a, b); return r->unknown || v * b != a ? fail(r) : v;
    case FLOOR: return floor_div(r, a, b);
    case CEIL: return a == INT64_MIN ? fail(r) : -floor_div(r, -a, b);
    case MOD: v = floor_div(r, a, b); return r->unknown ? -1 : a - v * b;
    case LARGEST: return a > b ? a : b;
    case LEAST: return a < b ? a : b;
    case BITS_LEFT: v = power(r, 2, b); return r->unknown || lmi_mul_over(a, v, &v) ? fail(r) : v;
    case BITS_RIGHT: v = power(r, 2, b); return r->unknown ? -1 : floor_div(r, a, v);
    case MORE: return a > b;
    case LESS: return a < b;
    case LEAST_SO: return a >= b;
    case MOST_SO: return a <= b;
    case EQUAL: return a == b;
    case UNLIKE: return a != b;
    case AND: return a && b;
    case OR: return a || b;
    default: return fail(r);
    }
}

/* "Symbol('s0', integer=True)", behind its name. */
static int64_t quoted_symbol(reading *r) {
    if (!take(r, "(") || !take(r, "'")) return fail(r);
    const size_t n = strcspn(r->at, "'");
    const int64_t v = symbol(r, r->at, n);
    const char *end = strchr(r->at, ')');
    if (!end) return fail(r);
    r->at = end + 1;
    return v;
}

/* True for functions of any number of arguments. */
static bool takes_more(function f) {
    return f == ADD || f == MUL || f == LARGEST || f == LEAST || f == AND || f == OR;
}

static int64_t call(reading *r, const char *name, size_t n) {
    const function f = function_of(name, n);
    if (f == NONE || !take(r, "(")) return fail(r);
    int64_t v = whole(r);
    for (int32_t i = 1; !r->unknown && take(r, ","); i++) {
        const int64_t next = whole(r);
        if (r->unknown || (i > 1 && !takes_more(f))) return fail(r);
        v = apply(r, f, v, next);
    }
    if (f == NOT) v = !v;
    return take(r, ")") && !r->unknown ? v : fail(r);
}

static int64_t item(reading *r);

/* What follows a sign: the negative number, or the other truth value. */
static int64_t opposite(reading *r, bool number) {
    if (++r->depth > DEEPEST) return fail(r);
    const int64_t v = item(r);
    r->depth--;
    if (!number) return !v;
    return v == INT64_MIN ? fail(r) : -v;
}

static int64_t item(reading *r) {
    pass_spaces(r);
    if (take(r, "(")) {
        const int64_t v = whole(r);
        return take(r, ")") ? v : fail(r);
    }
    if (take(r, "-")) return opposite(r, true);
    if (take(r, "~")) return opposite(r, false);
    if (*r->at >= '0' && *r->at <= '9') {
        char *end;
        const int64_t v = strtoll(r->at, &end, 10);
        if (v == INT64_MAX || *end == '.') return fail(r);
        r->at = end;
        return v;
    }
    const char *name = r->at;
    const size_t n = strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.");
    if (n == 0) return fail(r);
    r->at += n;
    if (n == 6 && memcmp(name, "Symbol", n) == 0) return quoted_symbol(r);
    return *r->at == '(' ? call(r, name, n) : symbol(r, name, n);
}

/* Powers bind before products, and these before sums. */
static int64_t factor(reading *r) {
    if (++r->depth > DEEPEST) return fail(r);
    int64_t v = item(r);
    if (!r->unknown && take(r, "**")) v = power(r, v, item(r));
    r->depth--;
    return v;
}

static int64_t product(reading *r) {
    int64_t v = factor(r);
    while (!r->unknown) {
        if (take(r, "//"))
            v = floor_div(r, v, factor(r));
        else if (take(r, "*"))
            v = apply(r, MUL, v, factor(r));
        else if (take(r, "/"))
            v = apply(r, EXACT, v, factor(r));
        else
            break;
    }
    return v;
}

static int64_t sum(reading *r) {
    int64_t v = product(r);
    while (!r->unknown) {
        int64_t next;
        if (take(r, "+")) {
            v = apply(r, ADD, v, product(r));
        } else if (take(r, "-")) {
            next = product(r);
            v = next == INT64_MIN ? fail(r) : apply(r, ADD, v, -next);
        } else {
            break;
        }
    }
    return v;
}

static int64_t comparison(reading *r) {
    const int64_t v = sum(r);
    if (take(r, ">=")) return apply(r, LEAST_SO, v, sum(r));
    if (take(r, "<=")) return apply(r, MOST_SO, v, sum(r));
    if (take(r, ">")) return apply(r, MORE, v, sum(r));
    return take(r, "<") ? apply(r, LESS, v, sum(r)) : v;
}

/* Comparisons are combined in brackets, so that it does not matter which of & and | binds first. */
static int64_t whole(reading *r) {
    int64_t v = comparison(r);
    while (!r->unknown) {
        if (take(r, "&"))
            v = apply(r, AND, v, comparison(r));
        else if (take(r, "|"))
            v = apply(r, OR, v, comparison(r));
        else
            break;
    }
    return v;
}

static int64_t evaluate(lmi_pt2 *p, const char *text) {
    reading r = {.p = p, .at = text};
    const int64_t v = whole(&r);
    pass_spaces(&r);
    return r.unknown || *r.at || v < 0 ? -1 : v;
}

/* -- symbols --------------------------------------------------------------------------------------------- */

/* The symbol that an expression is, and the length of its name; NULL: it is more than one. */
static const char *lone_symbol(const char *text, size_t *length) {
    static const char head[] = "Symbol('";
    const bool quoted = strncmp(text, head, sizeof head - 1) == 0;
    if (quoted) text += sizeof head - 1;
    const size_t n = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
    if (n == 0 || text[0] <= '9') return NULL;
    if (quoted ? text[n] != '\'' || strchr(text, ')') != text + strlen(text) - 1 : text[n] != '\0')
        return NULL;
    *length = n;
    return text;
}

static lam_status note_symbol(lmi_pt2 *p, uint32_t expression) {
    const lmi_json *j = &p->j;
    const char *text = lmi_json_as_text(j, lmi_json_get(j, expression, "expr_str"));
    size_t n;
    const char *symbol = text ? lone_symbol(text, &n) : NULL;
    int64_t hint = -1;
    if (!symbol) return LAM_OK;
    const char *name = lmi_strndup(&p->arena, symbol, n);
    if (!name) return lmi_nomem(p->e);
    if (lmi_map_get(&p->hints, name) >= 0) return LAM_OK;
    lmi_json_as_int(j, lmi_json_find(j, expression, "hint.as_int"), &hint);
    LAM_TRY(lmi_map_put(&p->hints, name, (int64_t)p->hint.n, p->e));
    return lmi_vec_put(&p->hint, &hint, p->e);
}

/* -- sizes that are given -------------------------------------------------------------------------------- */

/* The symbol that axis `axis` of an input is; -1: its size is fixed, or more than a symbol. */
static int64_t symbol_of(lmi_pt2 *p, uint32_t tensor, int64_t axis) {
    const lmi_json *j = &p->j;
    LMI_JSON_EACH(j, lmi_json_get(j, tensor, "sizes"), i) {
        size_t n;
        if (axis-- > 0) continue;
        const char *text = lmi_json_as_text(j, lmi_json_find(j, i, "as_expr.expr_str"));
        const char *symbol = text ? lone_symbol(text, &n) : NULL;
        char name[MOST_NAME];
        if (!symbol || n >= sizeof name) return -1;
        memcpy(name, symbol, n);
        name[n] = '\0';
        return lmi_map_get(&p->hints, name);
    }
    return -1;
}

static uint32_t inputs_of(const lmi_pt2 *p) { return lmi_json_get(&p->j, p->signature, "input_specs"); }

/* The name of an input of the program that is a tensor, else NULL. */
static const char *input_of(const lmi_pt2 *p, uint32_t spec) {
    return lmi_json_as_text(&p->j, lmi_json_find(&p->j, spec, "user_input.arg.as_tensor.name"));
}

/* The symbol of a name that was given: that of an axis of an input, of the first axes of all, or itself. */
static int64_t find_symbol(lmi_pt2 *p, const char *name) {
    const lmi_json *j = &p->j;
    const uint32_t values = lmi_json_get(j, p->graph, "tensor_values");
    const int64_t known = lmi_map_get(&p->hints, name);
    if (known >= 0) return known;
    LMI_JSON_EACH(j, inputs_of(p), spec) {
        const char *input = input_of(p, spec);
        if (!input) continue;
        const size_t n = strlen(input);
        const bool axis = strncmp(name, input, n) == 0 && name[n] == '.' && name[n + 1] &&
                          !name[n + 1 + strspn(name + n + 1, "0123456789")];
        if (!axis && strcmp(name, "batch") != 0) continue;
        const int64_t found =
            symbol_of(p, lmi_json_get(j, values, input), axis ? strtoll(name + n + 1, NULL, 10) : 0);
        if (axis || found >= 0) return found;
    }
    return -1;
}

static lam_status no_such_size(lmi_pt2 *p, const char *name) {
    lmi_buf known;
    lmi_buf_init(&known);
    const uint32_t values = lmi_json_get(&p->j, p->graph, "tensor_values");
    LMI_JSON_EACH(&p->j, inputs_of(p), spec) {
        const char *input = input_of(p, spec);
        for (int64_t axis = 0; input && axis < MOST_AXES; axis++)
            if (symbol_of(p, lmi_json_get(&p->j, values, input), axis) >= 0)
                lmi_putf(&known, "%s%s.%d", known.n ? ", " : "", input, (int)axis);
    }
    lam_status s = lmi_buf_status(&known, p->e);
    if (s == LAM_OK)
        s = lmi_fail(p->e, LAM_USAGE, p->of->name,
                     known.n ? "no size '%s' is open in it; these are: %s"
                             : "no size '%s' is open in it: it was exported with all sizes fixed%s",
                     name, lmi_buf_text(&known));
    lmi_buf_free(&known);
    return s;
}

/* The program was made for sizes in a range. */
static void range_of(const lmi_pt2 *p, int64_t symbol, int64_t *least, int64_t *most) {
    const lmi_json *j = &p->j;
    const uint32_t ranges = lmi_json_get(j, LMI_JSON_ROOT, "range_constraints");
    *least = 0;
    *most = INT64_MAX;
    LMI_JSON_NAMES(j, ranges, i) {
        if (lmi_map_get(&p->hints, lmi_json_as_text(j, i)) != symbol) continue;
        lmi_json_as_int(j, lmi_json_get(j, i + 1, "min_val"), least);
        lmi_json_as_int(j, lmi_json_get(j, i + 1, "max_val"), most);
    }
}

static lam_status check_range(lmi_pt2 *p, int64_t symbol, const lam_read_size *given) {
    int64_t least, most;
    range_of(p, symbol, &least, &most);
    if (given->value >= least && given->value <= most) return LAM_OK;
    if (most == INT64_MAX)
        return lmi_fail(p->e, LAM_USAGE, p->of->name, "%s can't be %lld: it was exported for %lld and more",
                        given->name, (long long)given->value, (long long)least);
    return lmi_fail(p->e, LAM_USAGE, p->of->name, "%s can't be %lld: it was exported for %lld to %lld",
                    given->name, (long long)given->value, (long long)least, (long long)most);
}

static lam_status set_size(lmi_pt2 *p, const lam_read_size *given) {
    const int64_t symbol = find_symbol(p, given->name);
    if (symbol < 0) return no_such_size(p, given->name);
    LAM_TRY(check_range(p, symbol, given));
    *(int64_t *)lmi_vec_at(&p->hint, (size_t)symbol) = given->value;
    return LAM_OK;
}

static lam_status set_sizes(lmi_pt2 *p) {
    const int32_t n = p->o ? p->o->n_sizes : 0;
    for (int32_t i = 0; i < n; i++) LAM_TRY(set_size(p, &p->o->sizes[i]));
    for (int32_t i = 0; i < n; i++) {
        const lam_read_size *given = &p->o->sizes[i];
        const int64_t *now = lmi_vec_at(&p->hint, (size_t)find_symbol(p, given->name));
        if (*now != given->value)
            return lmi_fail(p->e, LAM_USAGE, p->of->name, "%s is given as %lld, and as %lld too", given->name,
                            (long long)given->value, (long long)*now);
    }
    return p->other ? set_size(p, p->other) : LAM_OK;
}

/* Each symbol by the first axis of an input that it is: "batch", or "x.1". Of a long program there are fewer,
 * so that those who read it again for each of them do not work too long. */
lam_status lmi_pt2_open_sizes(lmi_pt2 *p, lam_model *m) {
    enum { MOST_INPUTS = 64, MOST_SIZES = 16, MOST_TEXT = 32 << 20 };
    const size_t fits = MOST_TEXT / (p->n_text | 1);
    const uint32_t values = lmi_json_get(&p->j, p->graph, "tensor_values");
    const int64_t batch = find_symbol(p, "batch");
    int64_t seen[MOST_SIZES] = {0};
    int32_t n_inputs = 0;
    if (p->decided) return LAM_OK; /* what runs at other sizes is other work */
    LMI_JSON_EACH(&p->j, inputs_of(p), spec) {
        const char *input = input_of(p, spec);
        if (!input || ++n_inputs > MOST_INPUTS) continue;
        const uint32_t tensor = lmi_json_get(&p->j, values, input);
        for (int64_t axis = 0; axis < MOST_AXES; axis++) {
            const int64_t symbol = symbol_of(p, tensor, axis);
            const int32_t n = (int32_t)m->open_sizes.n;
            int64_t least, most;
            char name[MOST_NAME];
            bool known = symbol < 0 || n == MOST_SIZES || (size_t)n >= fits;
            for (int32_t k = 0; !known && k < n; k++) known = seen[k] == symbol;
            if (known || snprintf(name, sizeof name, "%s.%d", input, (int)axis) >= MOST_NAME) continue;
            seen[n] = symbol;
            range_of(p, symbol, &least, &most);
            LAM_TRY(lmi_model_open_size(m, symbol == batch ? "batch" : name,
                                        *(int64_t *)lmi_vec_at(&p->hint, (size_t)symbol), least, most, p->e));
        }
    }
    return LAM_OK;
}

/* The sizes of the tensors that come in have all symbols, but those that values decide. */
lam_status lmi_pt2_symbols(lmi_pt2 *p) {
    const lmi_json *j = &p->j;
    const uint32_t values = lmi_json_get(j, p->graph, "tensor_values");
    LMI_JSON_NAMES(j, values, i) {
        LMI_JSON_EACH(j, lmi_json_get(j, i + 1, "sizes"), k) {
            const uint32_t expression = lmi_json_get(j, k, "as_expr");
            if (expression && lmi_json_is(j, expression) == LMI_JSON_OBJECT)
                LAM_TRY(note_symbol(p, expression));
        }
    }
    return set_sizes(p);
}

lam_status lmi_pt2_size(lmi_pt2 *p, uint32_t at, int64_t *out) {
    const lmi_json *j = &p->j;
    *out = -1;
    if (lmi_json_is(j, at) != LMI_JSON_OBJECT)
        return lmi_json_as_int(j, at, out) ? LAM_OK : lmi_pt2_bad(p, at, "a size should be here");
    if (lmi_json_as_int(j, lmi_json_get(j, at, "as_int"), out)) return LAM_OK;
    const uint32_t expression = lmi_json_get(j, at, "as_expr");
    if (lmi_json_is(j, expression) != LMI_JSON_OBJECT)
        return lmi_pt2_bad(p, at, "a size that is no whole number");
    const char *text = lmi_json_as_text(j, lmi_json_get(j, expression, "expr_str"));
    const bool given = p->other || (p->o && p->o->n_sizes > 0);
    if (!given && lmi_json_as_int(j, lmi_json_find(j, expression, "hint.as_int"), out)) return LAM_OK;
    if (text) *out = evaluate(p, text);
    return LAM_OK;
}

/* A condition is the name of a value of the graph, or a value. */
int lmi_pt2_truth(lmi_pt2 *p, int32_t scope, uint32_t argument) {
    const lmi_json *j = &p->j;
    const lmi_pt2_scope *in = lmi_vec_at(&p->scopes, (size_t)scope);
    uint32_t at = lmi_json_get(j, argument, "as_sym_bool");
    const char *name = lmi_json_as_text(j, lmi_json_get(j, at, "as_name"));
    if (!at) at = argument;
    if (name) at = lmi_json_get(j, lmi_json_get(j, in->graph, "sym_bool_values"), name);
    const lmi_json_kind plain = lmi_json_is(j, lmi_json_get(j, at, "as_bool"));
    if (plain == LMI_JSON_TRUE || plain == LMI_JSON_FALSE) return plain == LMI_JSON_TRUE;
    const char *text = lmi_json_as_text(j, lmi_json_find(j, at, "as_expr.expr_str"));
    const int64_t v = text ? evaluate(p, text) : -1;
    return v == 0 || v == 1 ? (int)v : -1;
}
