/* SPDX-License-Identifier: Apache-2.0
 *
 * The machine that a pickle is a program for, by the documentation in CPython's Lib/pickletools.py. Its
 * values are inert, so no program does anything. Work and memory grow with the size of the pickle: each
 * opcode does a bounded number of steps for each byte or stack entry that it takes. */
#include "read/torch/pickle.h"
#include "read/torch/line.h"

#include <stdlib.h>

enum { MOST_LINE = 1 << 14, LEAST_MEMORY = 16 << 20 };

typedef struct machine machine;
typedef lam_status (*operation)(machine *m, unsigned char op);
struct machine {
    lmi_pickle *p;
    lmi_cursor c;
    uint64_t from, op;   /* where the pickle begins, and the opcode that runs, in bytes of the file */
    uint64_t frame;      /* the byte behind the last frame, 0: there is none */
    uint64_t limit;      /* of memory */
    lmi_vec stack;       /* int32_t: values */
    lmi_vec marks;       /* int32_t: heights of the stack */
    lmi_vec memo;        /* int32_t: the values of the numbers from 0 on, as all writers count */
    lmi_map others;      /* of another number: the value */
    uint64_t remembered; /* how many numbers have a value, which is the number that MEMOIZE takes */
    int32_t none, yes, no, empty; /* values that are kept once */
    operation of[256];            /* what an opcode does; NULL: there is no such one */
    lam_error *e;
};

static lam_status bad(const machine *m, const char *what) {
    return lmi_bytes_bad(m->c.of, m->op, m->e, what);
}

/* -- values ---------------------------------------------------------------------------------------------- */

static uint64_t memory_of(const machine *m) {
    const lmi_pickle *p = m->p;
    const lmi_vec *all[] = {&p->value,  &p->cell,  &p->items, &p->call,
                            &p->global, &m->stack, &m->marks, &m->memo};
    uint64_t sum = p->arena.used + (uint64_t)m->others.cap * sizeof(lmi_map_slot);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) sum += all[i]->cap * all[i]->size;
    return sum;
}

static lam_status check_memory(const machine *m) {
    if (memory_of(m) <= m->limit) return LAM_OK;
    return lmi_fail_at(m->e, LAM_LIMIT, (int64_t)m->op, m->c.of->name,
                       "its pickle makes more values than a file of its size should, at byte %llu",
                       (unsigned long long)m->op);
}

static lam_status new_value(machine *m, lmi_pickled_value v, int32_t *out) {
    if (m->p->value.n >= INT32_MAX) return bad(m, "too many values");
    *out = (int32_t)m->p->value.n;
    LAM_TRY(lmi_vec_put(&m->p->value, &v, m->e));
    return LAM_OK;
}

static lam_status push(machine *m, int32_t value) { return lmi_vec_put(&m->stack, &value, m->e); }

static lam_status push_new(machine *m, lmi_pickled_value v) {
    int32_t value = -1;
    LAM_TRY(new_value(m, v, &value));
    return push(m, value);
}

static lam_status push_int(machine *m, int64_t i) {
    return push_new(m, (lmi_pickled_value){.kind = LMI_PICKLED_INT, .i = i});
}

/* The entries of the stack above the last mark. */
static size_t height(const machine *m) {
    const int32_t *mark = m->marks.n ? lmi_vec_at(&m->marks, m->marks.n - 1) : NULL;
    return m->stack.n - (mark ? (size_t)*mark : 0);
}

static int32_t top(const machine *m, size_t below) {
    return *(const int32_t *)lmi_vec_at(&m->stack, m->stack.n - 1 - below);
}

static lam_status need(const machine *m, size_t n) {
    return height(m) >= n ? LAM_OK : bad(m, "an opcode that needs more values than there are");
}

static void drop(machine *m, size_t n) { m->stack.n -= n; }

static lam_status copy_text(machine *m, const void *s, size_t n, char **out) {
    *out = lmi_strndup(&m->p->arena, s, n);
    return *out ? LAM_OK : lmi_nomem(m->e);
}

/* Appends the n top values of the stack, and takes them off. */
static lam_status append(machine *m, lmi_pickled_items *to, size_t n) {
    lmi_vec *cells = &m->p->cell;
    if (n > (size_t)INT32_MAX - cells->n || n > (size_t)(INT32_MAX - to->n)) return bad(m, "too many values");
    int32_t first = (int32_t)cells->n;
    lmi_pickled_cell *c = lmi_vec_add(cells, n);
    if (!c) return lmi_nomem(m->e);
    for (size_t i = 0; i < n; i++)
        c[i] = (lmi_pickled_cell){top(m, n - 1 - i), i + 1 < n ? first + (int32_t)i + 1 : -1};
    drop(m, n);
    if (n == 0) return LAM_OK;
    if (to->n)
        ((lmi_pickled_cell *)lmi_vec_at(cells, (size_t)to->last))->next = first;
    else
        to->first = first;
    to->last = first + (int32_t)n - 1;
    to->n += (int32_t)n;
    return LAM_OK;
}

/* Pushes a container of the n top values of the stack. */
static lam_status push_items(machine *m, lmi_pickled kind, size_t n) {
    lmi_pickled_items items = {-1, -1, 0};
    LAM_TRY(append(m, &items, n));
    int32_t at = (int32_t)m->p->items.n;
    LAM_TRY(lmi_vec_put(&m->p->items, &items, m->e));
    return push_new(m, (lmi_pickled_value){.kind = kind, .items = at});
}

/* The entries above the last mark, which is taken away. */
static lam_status take_mark(machine *m, size_t *n) {
    if (!m->marks.n) return bad(m, "an opcode without its mark");
    *n = height(m);
    lmi_vec_pop(&m->marks);
    return LAM_OK;
}

static lam_status push_call(machine *m, int32_t function, int32_t arguments) {
    lmi_pickled_call call = {function, arguments, -1, {-1, -1, 0}};
    int32_t at = (int32_t)m->p->call.n;
    m->p->at_import = true;
    LAM_TRY(lmi_vec_put(&m->p->call, &call, m->e));
    return push_new(m, (lmi_pickled_value){.kind = LMI_PICKLED_CALL, .call = at});
}

static lam_status push_global(machine *m, const char *module, const char *name) {
    lmi_pickled_global g = {module, name, m->op};
    int32_t at = (int32_t)m->p->global.n;
    LAM_TRY(lmi_vec_put(&m->p->global, &g, m->e));
    return push_new(m, (lmi_pickled_value){.kind = LMI_PICKLED_GLOBAL, .global = at});
}

/* -- the memo -------------------------------------------------------------------------------------------- */

static lam_status remember(machine *m, uint64_t at) {
    LAM_TRY(need(m, 1));
    const int32_t value = top(m, 0);
    if (at >= m->memo.n && lmi_map_get_u64(&m->others, at) < 0) m->remembered++;
    if (at > m->memo.n) return lmi_map_put_u64(&m->others, at, value, m->e);
    if (at == m->memo.n) return lmi_vec_put(&m->memo, &value, m->e);
    *(int32_t *)lmi_vec_at(&m->memo, (size_t)at) = value;
    return LAM_OK;
}

static lam_status recall(machine *m, uint64_t at) {
    const bool counted = at < m->memo.n;
    const int64_t value =
        counted ? *(const int32_t *)lmi_vec_at(&m->memo, (size_t)at) : lmi_map_get_u64(&m->others, at);
    return value < 0 ? bad(m, "an opcode that recalls what was never remembered") : push(m, (int32_t)value);
}

/* -- arguments of opcodes -------------------------------------------------------------------------------- */

static lam_status take(machine *m, size_t n, const unsigned char **out) {
    return lmi_cursor_take(&m->c, n, out, m->e);
}

/* A number of n bytes, at most 8, the lowest first. */
static lam_status take_number(machine *m, size_t n, uint64_t *out) {
    const unsigned char *b;
    LAM_TRY(take(m, n, &b));
    *out = 0;
    for (size_t i = n; i-- > 0;) *out = *out << 8 | b[i];
    return LAM_OK;
}

/* A text whose length is a number of `wide` bytes. */
static lam_status take_text(machine *m, size_t wide, const char **out, uint64_t *n) {
    LAM_TRY(take_number(m, wide, n));
    if (*n > lmi_cursor_left(&m->c) || *n > INT32_MAX) return bad(m, "a text that is longer than the file");
    char *to = lmi_alloc(&m->p->arena, *n + 1, 1);
    if (!to) return m->p->arena.used + *n > m->limit ? check_memory(m) : lmi_nomem(m->e);
    *out = to;
    for (uint64_t done = 0; done < *n;) {
        const unsigned char *piece;
        size_t there = 0;
        LAM_TRY(lmi_cursor_peek(&m->c, &piece, &there, m->e));
        if (there > *n - done) there = (size_t)(*n - done);
        memcpy(to + done, piece, there);
        LAM_TRY(lmi_cursor_skip(&m->c, there, m->e));
        done += there;
    }
    return LAM_OK;
}

static lam_status push_text(machine *m, size_t wide) {
    const char *text = NULL;
    uint64_t n = 0;
    LAM_TRY(take_text(m, wide, &text, &n));
    return push_new(m, (lmi_pickled_value){.kind = LMI_PICKLED_TEXT, .n = (int32_t)n, .text = text});
}

static lam_status push_bytes(machine *m, size_t wide) {
    uint64_t n;
    LAM_TRY(take_number(m, wide, &n));
    LAM_TRY(lmi_cursor_skip(&m->c, n, m->e));
    return push_new(m, (lmi_pickled_value){.kind = LMI_PICKLED_BYTES, .i = (int64_t)n});
}

/* A line of protocol 0: its first 16 KiB, without its end. *n: all its bytes, of which some may be NUL. */
static lam_status take_line(machine *m, char **out, uint64_t *n) {
    lmi_buf line;
    lmi_buf_init(&line);
    lam_status status = LAM_OK;
    *n = 0;
    for (bool whole = false; status == LAM_OK && !whole;) {
        const unsigned char *piece;
        size_t there;
        status = lmi_cursor_peek(&m->c, &piece, &there, m->e);
        if (status == LAM_OK && there == 0) status = bad(m, "a line that does not end");
        if (status != LAM_OK) break;
        const unsigned char *end = memchr(piece, '\n', there);
        if (end) there = (size_t)(end - piece);
        const size_t room = MOST_LINE - line.n;
        lmi_putn(&line, (const char *)piece, there < room ? there : room);
        *n += there;
        whole = end != NULL;
        status = lmi_cursor_skip(&m->c, there + whole, m->e);
    }
    if (status == LAM_OK) status = lmi_buf_status(&line, m->e);
    if (status == LAM_OK) status = copy_text(m, lmi_buf_text(&line), line.n, out);
    lmi_buf_free(&line);
    return status;
}

static lam_status push_line_text(machine *m, bool quoted) {
    char *s;
    uint64_t n;
    LAM_TRY(take_line(m, &s, &n));
    if (n > MOST_LINE) return push_new(m, (lmi_pickled_value){.kind = LMI_PICKLED_BYTES, .i = (int64_t)n});
    if (quoted && (n < 2 || s[0] != s[n - 1] || (s[0] != '\'' && s[0] != '"')))
        return bad(m, "a text without quotes");
    lmi_buf b;
    lmi_buf_init(&b);
    lmi_put_line(&b, quoted ? s + 1 : s, (size_t)n - (quoted ? 2 : 0), quoted);
    n = b.n;
    lam_status status = lmi_buf_status(&b, m->e);
    if (status == LAM_OK) status = copy_text(m, lmi_buf_text(&b), b.n, &s);
    lmi_buf_free(&b);
    LAM_TRY(status);
    return push_new(m, (lmi_pickled_value){.kind = LMI_PICKLED_TEXT, .n = (int32_t)n, .text = s});
}

/* A number, with an L behind it in a LONG; 00 and 01 are truths. */
static lam_status push_line_int(machine *m, bool truths) {
    char *s;
    uint64_t n;
    int64_t i = 0;
    bool fits = false;
    LAM_TRY(take_line(m, &s, &n));
    if (truths && n == 2 && (!strcmp(s, "00") || !strcmp(s, "01")))
        return push(m, s[1] == '1' ? m->yes : m->no);
    if (n && n <= MOST_LINE && s[n - 1] == 'L') s[n - 1] = '\0';
    if (!lmi_line_number(s, 0, &i, &fits)) return bad(m, "no number");
    if (!fits || n > MOST_LINE) return push_new(m, (lmi_pickled_value){.kind = LMI_PICKLED_LONG});
    return push_int(m, i);
}

static lam_status push_line_float(machine *m) {
    char *s, *end;
    uint64_t n;
    LAM_TRY(take_line(m, &s, &n));
    double f = strtod(s, &end); /* a locale's decimal comma cuts it: nothing reads floats of protocol 0 */
    if (end == s) return bad(m, "no number");
    return push_new(m, (lmi_pickled_value){.kind = LMI_PICKLED_FLOAT, .f = f});
}

static lam_status push_float(machine *m) {
    const unsigned char *b;
    LAM_TRY(take(m, 8, &b));
    uint64_t bits = 0;
    for (int i = 0; i < 8; i++) bits = bits << 8 | b[i]; /* the highest byte first */
    lmi_pickled_value v = {.kind = LMI_PICKLED_FLOAT};
    memcpy(&v.f, &bits, sizeof v.f);
    return push_new(m, v);
}

/* A whole number in two's complement whose length is a number of `wide` bytes. */
static lam_status push_long(machine *m, size_t wide) {
    const unsigned char *b;
    uint64_t n, v = 0;
    LAM_TRY(take_number(m, wide, &n));
    if (n > 8) {
        LAM_TRY(lmi_cursor_skip(&m->c, n, m->e));
        return push_new(m, (lmi_pickled_value){.kind = LMI_PICKLED_LONG});
    }
    LAM_TRY(take(m, (size_t)n, &b));
    if (n && b[n - 1] & 0x80) v = UINT64_MAX;
    for (size_t i = (size_t)n; i-- > 0;) v = v << 8 | b[i];
    return push_int(m, (int64_t)v);
}

/* -- opcodes --------------------------------------------------------------------------------------------- */

/* A text as a part of the name of an import: "?" if it has a NUL or is too long to be one. */
static const char *part_of_name(const char *text, uint64_t n) { return strlen(text) == n ? text : "?"; }

static lam_status global_of_lines(machine *m, const char **module, const char **name) {
    char *first, *second;
    uint64_t n;
    LAM_TRY(take_line(m, &first, &n));
    *module = part_of_name(first, n);
    LAM_TRY(take_line(m, &second, &n));
    *name = part_of_name(second, n);
    return LAM_OK;
}

/* The part that an entry of the stack is, "?" of one that is no text. */
static const char *part_at(const machine *m, size_t below) {
    const lmi_pickled_value *v = lmi_pickled_at(m->p, top(m, below));
    return v->kind == LMI_PICKLED_TEXT ? part_of_name(v->text, (uint64_t)v->n) : "?";
}

static lam_status op_global(machine *m, unsigned char op) {
    const char *module, *name;
    size_t n = 0;
    switch (op) {
    case 'c': /* GLOBAL */ LAM_TRY(global_of_lines(m, &module, &name)); return push_global(m, module, name);
    case 0x93: /* STACK_GLOBAL */
        LAM_TRY(need(m, 2));
        module = part_at(m, 1);
        name = part_at(m, 0);
        drop(m, 2);
        return push_global(m, module, name);
    case 'i': /* INST */
        LAM_TRY(global_of_lines(m, &module, &name));
        LAM_TRY(take_mark(m, &n));
        LAM_TRY(push_items(m, LMI_PICKLED_TUPLE, n));
        LAM_TRY(push_global(m, module, name));
        break;
    default: /* OBJ */
        LAM_TRY(take_mark(m, &n));
        if (n == 0) return bad(m, "an object without a class");
        LAM_TRY(push_items(m, LMI_PICKLED_TUPLE, n - 1));
        int32_t arguments = top(m, 0), class = top(m, 1);
        drop(m, 2);
        return push_call(m, class, arguments);
    }
    int32_t class = top(m, 0), arguments = top(m, 1);
    drop(m, 2);
    return push_call(m, class, arguments);
}

/* An OrderedDict that Python 2 wrote has its items as a list of pairs in its arguments. */
static lam_status take_pairs(machine *m, int32_t function, int32_t arguments) {
    const lmi_pickled_global *g = lmi_pickled_global_of(m->p, function);
    if (!g || strcmp(g->module, "collections") != 0 || strcmp(g->name, "OrderedDict") != 0) return LAM_OK;
    const lmi_pickled_items list = lmi_pickled_items_of(m->p, lmi_pickled_item(m->p, arguments, 0));
    size_t n = 0;
    for (int32_t c = list.n ? list.first : -1; c >= 0; c = lmi_pickled_cell_at(m->p, c)->next) {
        const lmi_pickled_items pair = lmi_pickled_items_of(m->p, lmi_pickled_cell_at(m->p, c)->value);
        if (pair.n != 2) break;
        const lmi_pickled_cell *name = lmi_pickled_cell_at(m->p, pair.first);
        const int32_t value = lmi_pickled_cell_at(m->p, name->next)->value;
        LAM_TRY(push(m, name->value));
        LAM_TRY(push(m, value));
        n += 2;
    }
    lmi_pickled_call *call = lmi_vec_at(&m->p->call, m->p->call.n - 1);
    LAM_TRY(append(m, &call->items, n));
    return n ? check_memory(m) : LAM_OK; /* a list may be the argument of many calls */
}

/* REDUCE, NEWOBJ: function and arguments; NEWOBJ_EX: keywords too, which are not kept. */
static lam_status op_call(machine *m, unsigned char op) {
    size_t n = op == 0x92 ? 3 : 2;
    LAM_TRY(need(m, n));
    int32_t function = top(m, n - 1), arguments = op == 0x92 ? -1 : top(m, 0);
    drop(m, n);
    LAM_TRY(push_call(m, function, arguments));
    return take_pairs(m, function, arguments);
}

/* The items of the value below n entries of the stack, to which an opcode adds. *out NULL: they are not kept,
 * as of an array of bytes, or of a list that has an item put in place of another. */
static lam_status growing(machine *m, size_t n, lmi_pickled a, lmi_pickled_items **out) {
    const lmi_pickled_value *v = lmi_pickled_at(m->p, top(m, n));
    *out = NULL;
    if (v->kind == LMI_PICKLED_CALL)
        *out = &((lmi_pickled_call *)lmi_vec_at(&m->p->call, (size_t)v->call))->items;
    else if (v->kind == a)
        *out = lmi_vec_at(&m->p->items, (size_t)v->items);
    else if (n && v->kind != LMI_PICKLED_BYTES && v->kind != LMI_PICKLED_KEPT &&
             !(v->kind == LMI_PICKLED_LIST && a == LMI_PICKLED_DICT))
        return bad(m, "an opcode that adds to a value that can't grow");
    return LAM_OK;
}

/* APPEND, APPENDS, SETITEM, SETITEMS, ADDITEMS. */
static lam_status op_grow(machine *m, unsigned char op) {
    bool pairs = op == 's' || op == 'u';
    size_t n = op == 'a' ? 1 : 2;
    lmi_pickled_items *to = NULL;
    if (op == 'a' || op == 's')
        LAM_TRY(need(m, n + 1));
    else
        LAM_TRY(take_mark(m, &n));
    LAM_TRY(need(m, n + 1));
    if (pairs && n % 2) return bad(m, "a name without a value");
    LAM_TRY(growing(m, n, pairs ? LMI_PICKLED_DICT : op == 0x90 ? LMI_PICKLED_SET : LMI_PICKLED_LIST, &to));
    if (to) return append(m, to, n);
    drop(m, n);
    return LAM_OK;
}

/* Nothing to set, or attributes of slots alone, is no error of any value. */
static lam_status op_build(machine *m) {
    LAM_TRY(need(m, 2));
    int32_t state = top(m, 0);
    drop(m, 1);
    const lmi_pickled_value *v = lmi_pickled_at(m->p, top(m, 0));
    m->p->at_import = true;
    if (v->kind == LMI_PICKLED_CALL)
        ((lmi_pickled_call *)lmi_vec_at(&m->p->call, (size_t)v->call))->state = state;
    else if (v->kind != LMI_PICKLED_GLOBAL && v->kind != LMI_PICKLED_KEPT &&
             lmi_pickled_items_of(m->p, state).n && lmi_pickled_at(m->p, state)->kind == LMI_PICKLED_DICT)
        return bad(m, "an opcode that sets attributes of a value without any");
    return LAM_OK;
}

static lam_status op_persistent(machine *m, unsigned char op) {
    if (op == 'P') LAM_TRY(push_line_text(m, false));
    LAM_TRY(need(m, 1));
    int32_t id = top(m, 0);
    drop(m, 1);
    return push_new(m, (lmi_pickled_value){.kind = LMI_PICKLED_KEPT, .id = id});
}

/* Opcodes that only move entries of the stack. */
static lam_status op_stack(machine *m, unsigned char op) {
    size_t n = 0;
    switch (op) {
    case '(': { /* MARK */ int32_t at = (int32_t)m->stack.n; return lmi_vec_put(&m->marks, &at, m->e);
    }
    case '0': /* POP, which takes a mark if nothing is above it */
        if (height(m) == 0 && m->marks.n) return take_mark(m, &n);
        LAM_TRY(need(m, 1));
        drop(m, 1);
        return LAM_OK;
    case '1': /* POP_MARK */
        LAM_TRY(take_mark(m, &n));
        drop(m, n);
        return LAM_OK;
    default: /* DUP */ LAM_TRY(need(m, 1)); return push(m, top(m, 0));
    }
}

static lam_status op_memo(machine *m, unsigned char op) {
    char *line;
    uint64_t at, n;
    int64_t number = 0;
    bool fits;
    switch (op) {
    case 'q':
    case 'h': LAM_TRY(take_number(m, 1, &at)); break; /* BINPUT, BINGET */
    case 'r':
    case 'j': LAM_TRY(take_number(m, 4, &at)); break; /* LONG_ */
    case 0x94: at = m->remembered; break;             /* MEMOIZE */
    default:                                          /* PUT, GET */
        LAM_TRY(take_line(m, &line, &n));
        if (!lmi_line_number(line, 10, &number, &fits) || number < 0) return bad(m, "no number");
        if (n > MOST_LINE)
            return lmi_fail_at(m->e, LAM_LIMIT, (int64_t)m->op, m->c.of->name,
                               "its pickle has a number of %llu digits at byte %llu", (unsigned long long)n,
                               (unsigned long long)m->op);
        at = (uint64_t)number;
    }
    return op == 'h' || op == 'j' || op == 'g' ? recall(m, at) : remember(m, at);
}

static lam_status op_items(machine *m, unsigned char op) {
    size_t n = 0;
    switch (op) {
    case ')': return push(m, m->empty);
    case ']': return push_items(m, LMI_PICKLED_LIST, 0);
    case '}': return push_items(m, LMI_PICKLED_DICT, 0);
    case 0x8f: return push_items(m, LMI_PICKLED_SET, 0);
    case 0x85:
    case 0x86:
    case 0x87: /* TUPLE1 to TUPLE3 */
        n = op - 0x84u;
        LAM_TRY(need(m, n));
        return push_items(m, LMI_PICKLED_TUPLE, n);
    default:
        LAM_TRY(take_mark(m, &n));
        if (op == 'd' && n % 2) return bad(m, "a name without a value");
        return push_items(m,
                          op == 't'   ? LMI_PICKLED_TUPLE
                          : op == 'l' ? LMI_PICKLED_LIST
                          : op == 'd' ? LMI_PICKLED_DICT
                                      : LMI_PICKLED_SET,
                          n);
    }
}

static lam_status op_number(machine *m, unsigned char op) {
    uint64_t v = 0;
    switch (op) {
    case 'N': return push(m, m->none);
    case 0x88: return push(m, m->yes);
    case 0x89: return push(m, m->no);
    case 'J': /* BININT, with a sign */ LAM_TRY(take_number(m, 4, &v)); return push_int(m, (int32_t)v);
    case 'K': LAM_TRY(take_number(m, 1, &v)); return push_int(m, (int64_t)v);
    case 'M': LAM_TRY(take_number(m, 2, &v)); return push_int(m, (int64_t)v);
    case 0x8a: return push_long(m, 1);
    case 0x8b: return push_long(m, 4);
    case 'G': return push_float(m);
    case 'F': return push_line_float(m);
    default: return push_line_int(m, op == 'I');
    }
}

static lam_status op_text(machine *m, unsigned char op) {
    switch (op) {
    case 'S': return push_line_text(m, true);
    case 'V': return push_line_text(m, false);
    case 'U':
    case 0x8c: return push_text(m, 1); /* SHORT_BINSTRING, SHORT_BINUNICODE */
    case 'T':
    case 'X': return push_text(m, 4);
    case 0x8d: return push_text(m, 8);
    case 'C': return push_bytes(m, 1);
    case 'B': return push_bytes(m, 4);
    default: return push_bytes(m, 8); /* BINBYTES8, BYTEARRAY8 */
    }
}

/* PROTO and FRAME say how the rest is written. */
static lam_status op_frame(machine *m, unsigned char op) {
    uint64_t v;
    LAM_TRY(take_number(m, op == 0x80 ? 1 : 8, &v));
    if (op == 0x95) {
        const uint64_t end = v < UINT64_MAX - m->c.at ? m->c.at + v : UINT64_MAX;
        if (m->op < m->frame && end > m->frame) m->p->torn = m->frame;
        if (end > m->frame) m->frame = end;
    }
    if (op == 0x80 && v > 5)
        return lmi_fail_at(m->e, LAM_UNSUPPORTED, (int64_t)m->op, m->c.of->name,
                           "its pickle has protocol %llu, and 5 is the newest that is known",
                           (unsigned long long)v);
    return LAM_OK;
}

static lam_status op_outside(machine *m, unsigned char op) {
    (void)op;
    return lmi_fail_at(m->e, LAM_UNSUPPORTED, (int64_t)m->op, m->c.of->name,
                       "its pickle needs what is not in the file (opcode %02x at byte %llu)", op,
                       (unsigned long long)m->op);
}

static void set_operations(machine *m) {
    static const struct {
        const char *ops;
        operation run;
    } all[] = {
        {"NJKMGFIL\x88\x89\x8a\x8b", op_number},
        {"SVUTXCB\x8c\x8d\x8e\x96", op_text},
        {")]}tld\x85\x86\x87\x8f\x91", op_items},
        {"asue\x90", op_grow},
        {"qrpghj\x94", op_memo},
        {"(012", op_stack},
        {"cio\x93", op_global},
        {"R\x81\x92", op_call},
        {"PQ", op_persistent},
        {"\x80\x95", op_frame},
        {"\x82\x83\x84\x97", op_outside}, /* EXT1, EXT2, EXT4, NEXT_BUFFER */
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        for (const char *op = all[i].ops; *op; op++) m->of[(unsigned char)*op] = all[i].run;
}

/* Runs until STOP. */
static lam_status run(machine *m) {
    set_operations(m);
    for (uint64_t k = 0;; k++) {
        const unsigned char *op;
        m->op = m->c.at;
        if (lmi_cursor_left(&m->c) == 0) return bad(m, "its end, where an opcode should be");
        LAM_TRY(take(m, 1, &op));
        unsigned char code = *op;
        if (code == '.') break;
        if (code == 'b') {
            LAM_TRY(op_build(m));
        } else if (code == 0x98) { /* READONLY_BUFFER */
            LAM_TRY(need(m, 1));
        } else {
            if (!m->of[code]) return bad(m, "no opcode of a pickle");
            LAM_TRY(m->of[code](m, code));
        }
        if (m->op < m->frame && m->c.at > m->frame && code != 0x95) m->p->torn = m->frame;
        if (k % 1024 == 0) LAM_TRY(check_memory(m));
    }
    LAM_TRY(need(m, 1));
    m->p->root = top(m, 0);
    m->p->end = m->c.at;
    if (m->p->end < m->frame) m->p->torn = m->frame;
    return LAM_OK;
}

static lam_status begin(machine *m) {
    lmi_pickled_value v = {.kind = LMI_PICKLED_NONE};
    LAM_TRY(new_value(m, v, &m->none));
    v.kind = LMI_PICKLED_BOOL;
    LAM_TRY(new_value(m, v, &m->no));
    v.i = 1;
    LAM_TRY(new_value(m, v, &m->yes));
    LAM_TRY(push_items(m, LMI_PICKLED_TUPLE, 0));
    m->empty = top(m, 0);
    drop(m, 1);
    return LAM_OK;
}

lam_status lmi_pickle_read(lmi_pickle *p, const lmi_bytes *of, uint64_t at, uint64_t size, lam_error *e) {
    *p = (lmi_pickle){.root = -1};
    lmi_vec_init(&p->value, sizeof(lmi_pickled_value));
    lmi_vec_init(&p->cell, sizeof(lmi_pickled_cell));
    lmi_vec_init(&p->items, sizeof(lmi_pickled_items));
    lmi_vec_init(&p->call, sizeof(lmi_pickled_call));
    lmi_vec_init(&p->global, sizeof(lmi_pickled_global));
    machine m = {.p = p, .from = at, .limit = LEAST_MEMORY + 2 * size, .e = e};
    lmi_arena_init(&p->arena, m.limit);
    lmi_vec_init(&m.stack, sizeof(int32_t));
    lmi_vec_init(&m.marks, sizeof(int32_t));
    lmi_vec_init(&m.memo, sizeof(int32_t));
    lmi_map_init(&m.others);
    unsigned char *piece = malloc(LMI_PIECE);
    lam_status status = piece ? LAM_OK : lmi_nomem(e);
    if (piece) {
        m.c = lmi_cursor_of(of, piece);
        m.c.at = at;
        status = begin(&m);
        if (status == LAM_OK) status = run(&m);
    }
    free(piece);
    lmi_vec_free(&m.stack);
    lmi_vec_free(&m.marks);
    lmi_vec_free(&m.memo);
    lmi_map_free(&m.others);
    return lmi_bytes_limit(of, p->arena.full, status, e);
}

void lmi_pickle_free(lmi_pickle *p) {
    lmi_vec_free(&p->value);
    lmi_vec_free(&p->cell);
    lmi_vec_free(&p->items);
    lmi_vec_free(&p->call);
    lmi_vec_free(&p->global);
    lmi_arena_free(&p->arena);
}
