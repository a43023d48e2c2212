/* SPDX-License-Identifier: Apache-2.0
 * formula: one line of text over named whole numbers, parsed once to postfix code and run with every step
 * checked.
 *
 *   choice  = compare [ "?" choice ":" choice ]
 *   compare = sum [ ( "<" | "<=" | ">" | ">=" | "==" | "!=" ) sum ]
 *   sum     = product { ( "+" | "-" ) product }
 *   product = unary { ( "*" | "/" ) unary }
 *   unary   = "-" unary | atom
 *   atom    = number | name | "unknown" | ( "min" | "max" ) "(" choice "," choice ")" | "least" "(" choice
 * ")" | "(" choice ")"
 *
 * The result of least(), and of every operation on it, is a lower bound.
 */
#include "count/rules/rules.h"

enum { MAX_DEPTH = 64 };

typedef enum op {
    OP_NUMBER,
    OP_NAME,
    OP_UNKNOWN,
    OP_NEGATE,
    OP_LEAST, /* does not change the top */
    OP_ADD,
    OP_SUB,
    OP_MUL,
    OP_DIV,
    OP_LT,
    OP_LE,
    OP_GT,
    OP_GE,
    OP_EQ,
    OP_NE,
    OP_MIN,
    OP_MAX,
    OP_JUMP_IF_ZERO, /* pops the top; `number` is the target */
    OP_JUMP
} op;

typedef struct parser {
    const char *text, *p;
    const char *const *names; /* NULL: the facts */
    int32_t n_names, depth;
    lmi_formula *out;
    lam_error *e;
} parser;

static lam_status parse_choice(parser *ps);

static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
static bool is_digit(char c) { return c >= '0' && c <= '9'; }

static void skip_space(parser *ps) {
    while (*ps->p == ' ' || *ps->p == '\t') ps->p++;
}

static lam_status syntax(parser *ps, const char *at, const char *what) {
    return lmi_fail_at(ps->e, LAM_SYNTAX, at - ps->text, "formula", "%s in '%s'", what, ps->text);
}

static lam_status emit(parser *ps, op code, int32_t fact, int64_t number) {
    lmi_formula *f = ps->out;
    if (f->n == LMI_FORMULA_MAX)
        return lmi_fail_at(ps->e, LAM_LIMIT, ps->p - ps->text, "formula",
                           "it has more than %d steps; split it", LMI_FORMULA_MAX);
    f->code[f->n].op = (uint8_t)code;
    f->code[f->n].fact = fact;
    f->code[f->n].number = number;
    f->n++;
    return LAM_OK;
}

/* Consumes `symbol` if it is next. */
static bool take(parser *ps, const char *symbol) {
    skip_space(ps);
    size_t n = 0;
    while (symbol[n] && ps->p[n] == symbol[n]) n++;
    if (symbol[n]) return false;
    ps->p += n;
    return true;
}

static lam_status expect(parser *ps, const char *symbol) {
    if (take(ps, symbol)) return LAM_OK;
    return lmi_fail_at(ps->e, LAM_SYNTAX, ps->p - ps->text, "formula", "expected '%s' in '%s'", symbol,
                       ps->text);
}

static lam_status parse_number(parser *ps) {
    const char *start = ps->p;
    int64_t value = 0;
    for (; is_digit(*ps->p); ps->p++) {
        if (lmi_mul_over(value, (int64_t)10, &value) || lmi_add_over(value, (int64_t)(*ps->p - '0'), &value))
            return syntax(ps, start, "a number that does not fit into 63 bits");
    }
    if (is_letter(*ps->p)) return syntax(ps, ps->p, "expected an operator after the number");
    return emit(ps, OP_NUMBER, -1, value);
}

static bool same(const char *name, const char *start, size_t n) {
    return *name == *start && !strncmp(name, start, n) && !name[n];
}

static int32_t find_name(const parser *ps, const char *start, size_t n) {
    if (!ps->names) return lmi_fact_find(start, n);
    for (int32_t i = 0; i < ps->n_names; i++)
        if (ps->names[i] && same(ps->names[i], start, n)) return i;
    return -1;
}

static lam_status parse_call(parser *ps, op code) {
    LAM_TRY(expect(ps, "("));
    LAM_TRY(parse_choice(ps));
    LAM_TRY(expect(ps, ","));
    LAM_TRY(parse_choice(ps));
    LAM_TRY(expect(ps, ")"));
    return emit(ps, code, -1, 0);
}

static lam_status parse_least(parser *ps) {
    LAM_TRY(expect(ps, "("));
    LAM_TRY(parse_choice(ps));
    LAM_TRY(expect(ps, ")"));
    return emit(ps, OP_LEAST, -1, 0);
}

static lam_status parse_name(parser *ps) {
    const char *start = ps->p;
    while (is_letter(*ps->p) || is_digit(*ps->p)) ps->p++;
    size_t n = (size_t)(ps->p - start);
    if (same("unknown", start, n)) return emit(ps, OP_UNKNOWN, -1, 0);
    if (same("min", start, n)) return parse_call(ps, OP_MIN);
    if (same("max", start, n)) return parse_call(ps, OP_MAX);
    if (same("least", start, n)) return parse_least(ps);
    int32_t i = find_name(ps, start, n);
    if (i >= 0) return emit(ps, OP_NAME, i, 0);
    /* A misspelt fact in a table is an error; a caller may name a fact that has no value. */
    if (ps->names) return emit(ps, OP_UNKNOWN, -1, 0);
    return syntax(ps, start, "a name that is not a fact");
}

static lam_status parse_atom(parser *ps) {
    skip_space(ps);
    if (is_digit(*ps->p)) return parse_number(ps);
    if (is_letter(*ps->p)) return parse_name(ps);
    if (!take(ps, "(")) return syntax(ps, ps->p, "expected a number, a name or '('");
    LAM_TRY(parse_choice(ps));
    return expect(ps, ")");
}

static lam_status parse_unary(parser *ps) {
    bool negative = false;
    while (take(ps, "-")) negative = !negative; /* a loop, so that a row of signs needs no depth */
    LAM_TRY(parse_atom(ps));
    return negative ? emit(ps, OP_NEGATE, -1, 0) : LAM_OK;
}

static lam_status parse_product(parser *ps) {
    LAM_TRY(parse_unary(ps));
    for (;;) {
        op code = take(ps, "*") ? OP_MUL : take(ps, "/") ? OP_DIV : OP_NUMBER;
        if (code == OP_NUMBER) return LAM_OK;
        LAM_TRY(parse_unary(ps));
        LAM_TRY(emit(ps, code, -1, 0));
    }
}

static lam_status parse_sum(parser *ps) {
    LAM_TRY(parse_product(ps));
    for (;;) {
        op code = take(ps, "+") ? OP_ADD : take(ps, "-") ? OP_SUB : OP_NUMBER;
        if (code == OP_NUMBER) return LAM_OK;
        LAM_TRY(parse_product(ps));
        LAM_TRY(emit(ps, code, -1, 0));
    }
}

static lam_status parse_compare(parser *ps) {
    static const struct {
        const char *symbol;
        op code;
    } table[] = {{"<=", OP_LE}, {">=", OP_GE}, {"==", OP_EQ}, {"!=", OP_NE}, {"<", OP_LT}, {">", OP_GT}};
    LAM_TRY(parse_sum(ps));
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        if (!take(ps, table[i].symbol)) continue;
        LAM_TRY(parse_sum(ps));
        return emit(ps, table[i].code, -1, 0);
    }
    return LAM_OK;
}

/* c ? a : b becomes  c, jump to b if zero, a, jump to the end, b: only one branch runs. */
static lam_status parse_branches(parser *ps) {
    int32_t to_else = ps->out->n;
    LAM_TRY(emit(ps, OP_JUMP_IF_ZERO, -1, 0));
    LAM_TRY(parse_choice(ps));
    LAM_TRY(expect(ps, ":"));
    int32_t to_end = ps->out->n;
    LAM_TRY(emit(ps, OP_JUMP, -1, 0));
    ps->out->code[to_else].number = ps->out->n;
    LAM_TRY(parse_choice(ps));
    ps->out->code[to_end].number = ps->out->n;
    return LAM_OK;
}

static lam_status parse_choice(parser *ps) {
    if (ps->depth == MAX_DEPTH)
        return lmi_fail_at(ps->e, LAM_LIMIT, ps->p - ps->text, "formula",
                           "it is nested more than %d deep; split it", MAX_DEPTH);
    ps->depth++;
    LAM_TRY(parse_compare(ps));
    if (take(ps, "?")) LAM_TRY(parse_branches(ps));
    ps->depth--;
    return LAM_OK;
}

static lam_status parse(parser *ps) {
    ps->out->n = 0;
    if (!ps->text)
        return lmi_fail(ps->e, LAM_USAGE, "formula", "there is no text to read; give one such as \"2*in\"");
    ps->p = ps->text;
    LAM_TRY(parse_choice(ps));
    skip_space(ps);
    return *ps->p ? syntax(ps, ps->p, "expected an operator or the end") : LAM_OK;
}

lam_status lmi_formula_parse(lmi_formula *out, const char *text, lam_error *e) {
    parser ps = {.text = text, .out = out, .e = e};
    return parse(&ps);
}

enum { BITS = 95 }; /* of a lam_count's number, without its sign */

/* True if a result is too large for a lam_count. */
static bool outgrows(lmi_int128 v) { return v >= (lmi_int128)1 << BITS || v <= -((lmi_int128)1 << BITS); }

static bool multiply(lmi_int128 a, lmi_int128 b, lmi_int128 *r) {
    const lmi_int128 most = ((lmi_int128)1 << BITS) - 1, x = a < 0 ? -a : a, y = b < 0 ? -b : b;
    if (x && y > most / x) return true;
    *r = a * b;
    return false;
}

/* Python's //: the quotient is rounded down, not towards zero. True if there is no result. */
static bool divide(lmi_int128 a, lmi_int128 b, lmi_int128 *r) {
    if (b == 0) return true;
    *r = a / b - (a % b != 0 && (a < 0) != (b < 0));
    return false;
}

/* One operation on two numbers that a count can hold. True if there is no result. */
static bool binary(op code, lmi_int128 a, lmi_int128 b, lmi_int128 *r) {
    switch (code) {
    case OP_ADD: *r = a + b; return outgrows(*r);
    case OP_SUB: *r = a - b; return outgrows(*r);
    case OP_MUL: return multiply(a, b, r);
    case OP_DIV: return divide(a, b, r);
    case OP_LT: *r = a < b; break;
    case OP_LE: *r = a <= b; break;
    case OP_GT: *r = a > b; break;
    case OP_GE: *r = a >= b; break;
    case OP_EQ: *r = a == b; break;
    case OP_NE: *r = a != b; break;
    case OP_MIN: *r = a < b ? a : b; break;
    default: *r = a > b ? a : b; break;
    }
    return false;
}

/* The number of values that a step pops from the stack. */
static int32_t operands(op code) {
    switch (code) {
    case OP_NUMBER:
    case OP_NAME:
    case OP_UNKNOWN:
    case OP_JUMP: return 0;
    case OP_NEGATE:
    case OP_LEAST:
    case OP_JUMP_IF_ZERO: return 1;
    default: return 2;
    }
}

static lam_count count_of(lmi_int128 v, lam_state state) {
    const lmi_int128 one = (lmi_int128)1 << 63; /* the unit of `over` */
    if (v < INT64_MIN) return lmi_unknown();
    if (v < one) return (lam_count){.n = (int64_t)v, .state = state};
    return (lam_count){.n = (int64_t)(v % one), .over = (uint32_t)(v / one), .state = state};
}

/* Runs the code. `known` NULL: every value is known. A push takes one step, so the stack is never larger than
 * the code. No operation absorbs an unknown, so the first one makes the result unknown. */
static lam_count run(const lmi_formula *f, const int64_t *values, const bool *known) {
    lmi_int128 stack[LMI_FORMULA_MAX];
    int32_t n = 0; /* values on the stack */
    bool least = false;
    for (int32_t i = 0; i < f->n; i++) {
        op code = (op)f->code[i].op;
        if (n < operands(code)) return lmi_unknown(); /* never true of parsed code */
        switch (code) {
        case OP_NUMBER: stack[n++] = f->code[i].number; break;
        case OP_NAME:
            if (known && !known[f->code[i].fact]) return lmi_unknown();
            stack[n++] = values[f->code[i].fact];
            break;
        case OP_UNKNOWN: return lmi_unknown();
        case OP_NEGATE: stack[n - 1] = -stack[n - 1]; break;
        case OP_LEAST: least = true; break;
        case OP_JUMP_IF_ZERO:
            if (stack[--n] == 0) i = (int32_t)f->code[i].number - 1;
            break;
        case OP_JUMP: i = (int32_t)f->code[i].number - 1; break;
        default:
            n--;
            if (binary(code, stack[n - 1], stack[n], &stack[n - 1])) return lmi_unknown();
        }
    }
    if (n != 1) return lmi_unknown();
    return count_of(stack[0], least ? LAM_AT_LEAST : LAM_EXACT);
}

lam_count lmi_formula_run(const lmi_formula *f, const lmi_facts *facts) {
    return run(f, facts->v, facts->known);
}

lam_status lam_formula_eval(const char *formula, const char *const *names, const int64_t *values, int32_t n,
                            lam_count *out, lam_error *e) {
    static const char *const none[1] = {NULL};
    lmi_formula code;
    code.n = 0;
    parser ps = {
        .text = formula, .names = names ? names : none, .n_names = names ? n : 0, .out = &code, .e = e};
    *out = lmi_unknown();
    LAM_TRY(parse(&ps));
    *out = run(&code, values, NULL);
    return LAM_OK;
}

/* -- a formula with its values --------------------------------------------------------------------- */

/* A value and the operation that made it. Parts without effect get no node: the branch that is not taken,
 * factors of 0 and 1, terms of 0. */
typedef struct node {
    op op; /* OP_NUMBER, OP_NEGATE or an operation on two */
    int32_t a, b;
    lmi_int128 v;
    bool known;
    bool plain; /* a constant of the rule, or a truth value; not a size */
    int32_t fact;
} node;

typedef struct writer {
    const lmi_facts *facts;
    node at[LMI_FORMULA_MAX];
    int32_t n;
} writer;

static int32_t leaf(writer *w, lmi_int128 v, bool known, bool plain, int32_t fact) {
    w->at[w->n] = (node){OP_NUMBER, -1, -1, v, known, plain, fact};
    return w->n++;
}

static bool is(const node *n, int64_t v) { return n->known && n->v == v; }

/* The operand that the operation does not change, or -1. */
static int32_t unchanged(const writer *w, op code, int32_t a, int32_t b) {
    const node *x = &w->at[a], *y = &w->at[b];
    switch (code) {
    case OP_ADD: return is(y, 0) ? a : is(x, 0) ? b : -1;
    case OP_SUB: return is(y, 0) ? a : -1;
    case OP_MUL: return is(x, 1) ? b : is(y, 1) ? a : -1;
    case OP_DIV: return is(y, 1) ? a : -1;
    case OP_MIN: return x->known && y->known ? (x->v < y->v ? a : b) : -1;
    case OP_MAX: return x->known && y->known ? (x->v > y->v ? a : b) : -1;
    default: return -1;
    }
}

/* The node of `a code b`. There are at most as many nodes as steps. */
static int32_t join(writer *w, op code, int32_t a, int32_t b) {
    int32_t same_as = unchanged(w, code, a, b);
    if (same_as >= 0) return same_as;
    const node *x = &w->at[a], *y = &w->at[b];
    if (code == OP_MUL && x->known && y->known && (x->v == 0 || y->v == 0)) return leaf(w, 0, true, true, -1);
    node made = {code, a, b, 0, x->known && y->known, x->plain && y->plain, -1};
    if (made.known && binary(code, x->v, y->v, &made.v)) made.known = false;
    bool compares = code >= OP_LT && code <= OP_NE;
    if ((made.known && (made.plain || compares)) || code == OP_MIN || code == OP_MAX || compares)
        made = (node){OP_NUMBER, -1, -1, made.v, made.known, made.plain || compares, -1};
    w->at[w->n] = made;
    return w->n++;
}

static int32_t named(writer *w, int32_t fact) {
    int64_t v = w->facts->v[fact];
    bool known = w->facts->known[fact];
    return leaf(w, v, known, known && (v == 0 || v == 1), fact);
}

/* The root of the nodes, or -1. If a condition is unknown, so is its choice. */
static int32_t make_nodes(writer *w, const lmi_formula *f) {
    int32_t stack[LMI_FORMULA_MAX], n = 0;
    for (int32_t i = 0; i < f->n; i++) {
        op code = (op)f->code[i].op;
        if (n < operands(code)) return -1;
        switch (code) {
        case OP_NUMBER: stack[n++] = leaf(w, f->code[i].number, true, true, -1); break;
        case OP_NAME: stack[n++] = named(w, f->code[i].fact); break;
        case OP_UNKNOWN: stack[n++] = leaf(w, 0, false, false, -1); break;
        case OP_NEGATE: stack[n - 1] = join(w, OP_SUB, leaf(w, 0, true, true, -1), stack[n - 1]); break;
        case OP_LEAST: break;
        case OP_JUMP: i = (int32_t)f->code[i].number - 1; break;
        case OP_JUMP_IF_ZERO: {
            const node *condition = &w->at[stack[--n]];
            int32_t other = (int32_t)f->code[i].number;
            if (!condition->known) { /* past both branches: the step before the second one leads there */
                i = (int32_t)f->code[other - 1].number - 1;
                stack[n++] = leaf(w, 0, false, false, -1);
            } else if (condition->v == 0) {
                i = other - 1;
            }
            break;
        }
        default: n--; stack[n - 1] = join(w, code, stack[n - 1], stack[n]);
        }
        if (w->n + 2 > LMI_FORMULA_MAX) return -1;
    }
    return n == 1 ? stack[0] : -1;
}

static void put_node(const writer *w, int32_t i, lmi_buf *out, bool used[LMI_N_FACTS]);

/* Writes a part of an operation, in brackets if precedence requires them. */
static void put_part(const writer *w, op outer, int32_t i, bool second, lmi_buf *out,
                     bool used[LMI_N_FACTS]) {
    op inner = w->at[i].op;
    bool sum = inner == OP_ADD || inner == OP_SUB, times = outer == OP_MUL || outer == OP_DIV;
    bool brackets = (sum && (times || (outer == OP_SUB && second))) || (times && inner == OP_DIV) ||
                    (outer == OP_DIV && second && inner == OP_MUL) ||
                    (inner == OP_NUMBER && w->at[i].known && w->at[i].v < 0 && second);
    if (brackets) lmi_putc(out, '(');
    put_node(w, i, out, used);
    if (brackets) lmi_putc(out, ')');
}

static void put_node(const writer *w, int32_t i, lmi_buf *out, bool used[LMI_N_FACTS]) {
    static const char *const signs[] = {
        [OP_ADD] = " + ", [OP_SUB] = " - ", [OP_MUL] = " \xc3\x97 ", [OP_DIV] = " / "};
    const node *n = &w->at[i];
    char text[48];
    if (n->op != OP_NUMBER) {
        if (n->op != OP_SUB || !is(&w->at[n->a], 0)) put_part(w, n->op, n->a, false, out, used);
        lmi_put(out, n->op == OP_SUB && is(&w->at[n->a], 0) ? "-" : signs[n->op]);
        put_part(w, n->op, n->b, true, out, used);
        return;
    }
    if (n->fact >= 0 && used) used[n->fact] = true;
    lam_text_count(text, sizeof text, n->known ? count_of(n->v, LAM_EXACT) : lmi_unknown(), true);
    lmi_put(out, text);
}

void lmi_formula_show(const char *text, const lmi_facts *facts, lmi_buf *out, bool used[LMI_N_FACTS]) {
    writer w = {.facts = facts, .n = 0};
    lmi_formula code;
    bool read = lmi_formula_parse(&code, text, NULL) == LAM_OK;
    int32_t root = read ? make_nodes(&w, &code) : -1;
    if (root >= 0)
        put_node(&w, root, out, used);
    else
        lmi_put(out, text);
}
