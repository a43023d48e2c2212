/* SPDX-License-Identifier: Apache-2.0
 * Inference of an ONNX graph: the table of operators, given and stated shapes, the walk over the nodes. */
#include "read/onnx/infer.h"

#include <stdlib.h>

enum {
    MOST_WORK = 1 << 17,   /* nodes that are run in loops, in each of two ways */
    MOST_EFFORT = 1 << 24, /* elements of large tensors that are read */
    MOST_ALL = 1 << 20,    /* elements that are kept, 16 bytes each */
    MOST_KEPT = 1 << 12    /* elements of a tensor that becomes a constant */
};

/* -- the table of operators -------------------------------------------------------------------------------
 */

#define ROW(name, shape, in, types, fold, op) {#name, lmi_infer_##shape, in, types, lmi_fold_##fold, op},
#define SKIP(...)

#define OP(name, shape, in, types, fold) ROW(name, shape, in, types, fold, LMI_OP_##name)
#define ML                               SKIP
#define MS                               SKIP
#define NC                               SKIP
static const lmi_onnx_rule standard[] = {
#include "read/onnx/rules.def"
};
#undef OP
#undef ML

#define OP                               SKIP
#define ML(name, shape, in, types, fold) ROW(name, shape, in, types, fold, LMI_OP_OTHER)
static const lmi_onnx_rule classic[] = {
#include "read/onnx/rules.def"
};
#undef ML
#undef MS

#define ML                               SKIP
#define MS(name, shape, in, types, fold) ROW(name, shape, in, types, fold, LMI_OP_OTHER)
static const lmi_onnx_rule microsoft[] = {
#include "read/onnx/rules.def"
};
#undef MS
#undef NC

#define MS                               SKIP
#define NC(name, shape, in, types, fold) ROW(name, shape, in, types, fold, LMI_OP_OTHER)
static const lmi_onnx_rule blocked[] = {
#include "read/onnx/rules.def"
};

static int by_name(const void *name, const void *rule) {
    return strcmp(name, ((const lmi_onnx_rule *)rule)->name);
}

#define FIND(list) bsearch(op, list, sizeof list / sizeof *list, sizeof *list, by_name)

const lmi_onnx_rule *lmi_onnx_rule_of(const char *domain, const char *op) {
    if (strcmp(domain, "ai.onnx.ml") == 0) return FIND(classic);
    if (strcmp(domain, "com.microsoft.nchwc") == 0) return FIND(blocked);
    if (strncmp(domain, "com.microsoft", 13) == 0) return FIND(microsoft);
    if (!*domain || strncmp(domain, "ai.onnx", 7) == 0) return FIND(standard);
    return NULL;
}

/* -- one node -------------------------------------------------------------------------------------------- */

static void forget(lmi_infer *c, lmi_onnx_value *v) {
    lmi_value_known *known = lmi_known_of(c, v);
    v->ndim = -1;
    v->type = LMI_ONNX_NO_TYPE;
    v->kind = LMI_ONNX_TENSOR;
    v->symbols = NULL;
    v->stated = false;
    known->cells = NULL;
    known->count = -1;
    known->varies = c->loops > 0;
    known->torn = false;
}

/* Takes what the file states where inference has nothing better. */
static void take_stated(lmi_infer *c, lmi_onnx_value *v) {
    const lmi_value_known *known = lmi_known_of(c, v);
    if (!v->type) v->type = known->type;
    if (v->ndim < 0 && v->kind == LMI_ONNX_TENSOR) v->kind = known->kind;
    /* A file may state one shape for a sequence whose elements have several. */
    if (known->ndim < 0 || v->kind != LMI_ONNX_TENSOR || known->kind != LMI_ONNX_TENSOR) return;
    if (known->torn) return;
    if (v->ndim < 0) {
        lmi_set_sizes(c, v, known->ndim, known->sizes);
        v->stated = true;
    } else if (v->ndim == known->ndim) {
        for (int32_t i = 0; i < v->ndim; i++)
            if (known->own[i] < 0) known->own[i] = known->sizes[i];
    }
    if (v->ndim == known->ndim) v->symbols = known->symbols;
}

static int32_t type_of(const lmi_node_at *s, int32_t i) {
    const lmi_onnx_value *v = lmi_onnx_in(s->all->m, s->n, i);
    return v ? v->type : LMI_ONNX_NO_TYPE;
}

/* The type that a letter of rules.def stands for. */
static int32_t type_by(const lmi_node_at *s, char letter) {
    const lmi_onnx_node *n = s->n;
    int64_t type = LMI_ONNX_NO_TYPE;
    switch (letter) {
    case 'b': type = LMI_ONNX_BOOL; break;
    case 'l': type = LMI_ONNX_INT64; break;
    case 'i': type = LMI_ONNX_INT32; break;
    case 'u': type = LMI_ONNX_UINT8; break;
    case 'f': type = LMI_ONNX_FLOAT; break;
    case 's': type = LMI_ONNX_STRING; break;
    case 't': type = lmi_onnx_int(n, "to", 0); break;
    case 'd': type = lmi_onnx_int(n, "dtype", type_of(s, 0)); break;
    case 'r': type = lmi_onnx_int(n, "dtype", LMI_ONNX_FLOAT); break;
    case 'm': type = lmi_onnx_int(n, "dtype", LMI_ONNX_INT32); break;
    case 'n': type = n->opset && n->opset < 10 ? type_of(s, 0) : LMI_ONNX_BOOL; break;
    case 'w': type = lmi_onnx_int(n, "output_datatype", LMI_ONNX_FLOAT); break;
    case 'h': type = lmi_onnx_int(n, "stash_type", LMI_ONNX_FLOAT); break;
    case 'e': type = lmi_onnx_int(n, "output_dtype", type_of(s, 1)); break;
    case 'q':
        type = lmi_onnx_in(s->all->m, n, 2) ? type_of(s, 2) : lmi_onnx_int(n, "output_dtype", LMI_ONNX_UINT8);
        break;
    default:
        if (letter >= '0' && letter <= '9') type = type_of(s, letter - '0');
    }
    return type > 0 && type < LMI_ONNX_N_TYPES ? (int32_t)type : LMI_ONNX_NO_TYPE;
}

static void put_types(lmi_node_at *s) {
    const char *types = s->rule->types;
    int32_t last = (int32_t)strlen(types) - 1;
    for (int32_t k = 0; k < s->n->n_out; k++) {
        lmi_onnx_value *v = lmi_onnx_out(s->all->m, s->n, k);
        if (v && !v->type) v->type = type_by(s, types[k < last ? k : last]);
    }
}

static void apply(lmi_node_at *s) {
    s->rule->shape(s);
    put_types(s);
    const lmi_onnx_value *y = lmi_onnx_out(s->all->m, s->n, 0);
    int64_t n;
    if (y && !lmi_known_of(s->all, y)->cells && lmi_few(y, &n)) s->rule->fold(s);
}

/* What is computed from a torn value is torn, where its rule finds no shape for all. */
static void tear(const lmi_node_at *s) {
    bool torn = false;
    for (int32_t i = 0; i < s->n->n_in; i++) {
        const lmi_onnx_value *v = lmi_onnx_in(s->all->m, s->n, i);
        torn = torn || (v && lmi_known_of(s->all, v)->torn);
    }
    for (int32_t k = 0; torn && k < s->n->n_out; k++) {
        const lmi_onnx_value *v = lmi_onnx_out(s->all->m, s->n, k);
        if (v && v->ndim < 0) lmi_known_of(s->all, v)->torn = true;
    }
}

/* True for nodes whose bodies may run more than once. */
static bool repeats(const lmi_onnx_rule *r) {
    return r && (r->op == LMI_OP_Loop || r->op == LMI_OP_Scan || r->op == LMI_OP_SequenceMap);
}

static void run(lmi_infer *c, lmi_onnx_node *n) {
    lmi_node_at s = {.all = c, .n = n, .rule = lmi_onnx_rule_of(n->domain, n->op)};
    n->taken = -1;
    n->times = 1;
    n->why = NULL;
    lmi_charge(c, (int64_t)n->n_in + n->n_out + n->n_attrs);
    for (int32_t k = 0; k < n->n_out; k++) {
        lmi_onnx_value *v = lmi_onnx_out(c->m, n, k);
        if (v) forget(c, v);
    }
    if (s.rule)
        apply(&s);
    else
        s.why = "there is no rule for the operator";
    tear(&s);
    bool known = true, gone = c->tired && repeats(s.rule);
    if (gone) {
        n->times = -1;
        s.why = "its body is more work than is done for a shape";
    }
    for (int32_t k = 0; k < n->n_out; k++) {
        lmi_onnx_value *v = lmi_onnx_out(c->m, n, k);
        if (!v) continue;
        if (gone) forget(c, v);
        if (!s.wrong) take_stated(c, v);
        known = known && lmi_whole(v);
    }
    if (known) return;
    n->why = s.why ? s.why : "the shape of an argument is unknown";
}

static void walk(lmi_infer *c, const lmi_onnx_graph *g) {
    if (c->depth == LMI_MOST_DEPTH) return;
    c->depth++;
    for (int32_t i = 0; i < g->n_nodes && !lmi_enough(c); i++) run(c, lmi_onnx_node_at(c->m, g->nodes[i]));
    c->depth--;
}

/* -- what is given --------------------------------------------------------------------------------------- */

static lmi_onnx_symbol *symbol_at(const lmi_onnx_model *m, int32_t i) {
    return i < 0 ? NULL : lmi_vec_at(&m->symbols, (size_t)i);
}

static lam_status give_symbol(lmi_onnx_model *m, const lmi_onnx_symbol *given, lam_error *e) {
    for (size_t i = 0; i < m->symbols.n; i++) {
        lmi_onnx_symbol *s = lmi_vec_at(&m->symbols, i);
        if (strcmp(s->name, given->name) == 0) {
            s->size = given->size;
            return LAM_OK;
        }
    }
    if (!m->symbols.n)
        return lmi_fail(e, LAM_USAGE, NULL, "the model names no size '%s'; it names none at all",
                        given->name);
    return lmi_no_such(e, "size", given->name, "the model", &((lmi_onnx_symbol *)m->symbols.data)->name,
                       sizeof(lmi_onnx_symbol), m->symbols.n);
}

/* The input of a name, or the i-th that is no initialiser. */
static lmi_onnx_value *input_of(const lmi_onnx_model *m, const lmi_onnx_given_input *given, int32_t i) {
    for (int32_t k = 0; k < m->graph->n_inputs; k++) {
        lmi_onnx_value *v = lmi_onnx_input(m, k);
        if (given->name ? strcmp(v->name, given->name) == 0 : !v->initialiser && i-- == 0) return v;
    }
    return NULL;
}

static lam_status no_input(const lmi_onnx_model *m, const lmi_onnx_given_input *given, int32_t i,
                           lam_error *e) {
    int32_t n = 0;
    lmi_buf names;
    lmi_buf_init(&names);
    for (int32_t k = 0; k < m->graph->n_inputs; k++) {
        const lmi_onnx_value *v = lmi_onnx_input(m, k);
        if (v->initialiser) continue;
        lmi_put(&names, n++ ? ", " : "");
        lmi_put_clean(&names, v->name);
    }
    lam_status s = lmi_buf_status(&names, e);
    if (s == LAM_OK && given->name)
        s = lmi_fail(e, LAM_USAGE, NULL, "the model has no input '%s'; its inputs: %s", given->name,
                     n ? lmi_buf_text(&names) : "none");
    else if (s == LAM_OK)
        s = lmi_fail(e, LAM_USAGE, NULL, "input %d is given, but the model has %d", (int)i + 1, (int)n);
    lmi_buf_free(&names);
    return s;
}

/* "3x224x224", "?" for an unknown size. */
static void put_shape(lmi_buf *b, int32_t ndim, const int64_t *sizes) {
    for (int32_t i = 0; i < ndim; i++) {
        if (i) lmi_putc(b, 'x');
        if (sizes[i] < 0)
            lmi_putc(b, '?');
        else
            lmi_putf(b, "%lld", (long long)sizes[i]);
    }
    if (ndim == 0) lmi_put(b, "no axes");
}

static lam_status other_shape(const lmi_onnx_value *v, const lmi_onnx_given_input *given, lam_error *e) {
    lmi_buf has, gets;
    lmi_buf_init(&has);
    lmi_buf_init(&gets);
    put_shape(&has, v->ndim, v->sizes);
    put_shape(&gets, given->ndim, given->sizes);
    lam_status s = has.bad || gets.bad
                       ? lmi_nomem(e)
                       : lmi_fail(e, LAM_USAGE, NULL, "input '%s' is %s in the file, and can't be %s",
                                  v->name, lmi_buf_text(&has), lmi_buf_text(&gets));
    lmi_buf_free(&has);
    lmi_buf_free(&gets);
    return s;
}

/* A size that is given for one that the file names. One name that is given two sizes tells nothing: some
 * exporters name all that they don't know alike. */
static void name_size(const lmi_onnx_model *m, int32_t symbol, int64_t size, bool *two) {
    lmi_onnx_symbol *s = symbol_at(m, symbol);
    if (!s || size < 0 || two[symbol]) return;
    if (s->size >= 0 && s->size != size) {
        two[symbol] = true;
        s->size = -1;
    } else
        s->size = size;
}

static lam_status give_input(lmi_infer *c, const lmi_onnx_given_input *given, int32_t i, bool *two) {
    lmi_onnx_model *m = c->m;
    lmi_onnx_value *v = input_of(m, given, i);
    if (!v) return no_input(m, given, i, c->e);
    if (given->type && v->type && given->type != v->type)
        return lmi_fail(c->e, LAM_USAGE, NULL, "input '%s' has another element type in the file", v->name);
    if (given->type) v->type = given->type;
    if (given->ndim >= 0) {
        bool fits = v->ndim < 0 || v->ndim == given->ndim;
        for (int32_t k = 0; fits && k < v->ndim; k++)
            fits = v->sizes[k] < 0 || given->sizes[k] < 0 || v->sizes[k] == given->sizes[k];
        if (!fits) return other_shape(v, given, c->e);
        for (int32_t k = 0; k < v->ndim && v->symbols; k++) name_size(m, v->symbols[k], given->sizes[k], two);
        int64_t sizes[LMI_ONNX_MOST_AXES];
        for (int32_t k = 0; k < given->ndim; k++)
            sizes[k] = k < v->ndim && given->sizes[k] < 0 ? v->sizes[k] : given->sizes[k];
        lmi_set_sizes(c, v, given->ndim, sizes);
        if (v->initialiser) v->where = LMI_ONNX_NOWHERE;
    }
    if (given->memory) {
        v->where = LMI_ONNX_MEMORY;
        v->memory = given->memory;
        v->bytes = given->bytes;
    }
    return c->bad;
}

/* A size that is given by its name is no other in an input that is given. */
static lam_status check_symbol(const lmi_onnx_model *m, const lmi_onnx_symbol *given, lam_error *e) {
    for (size_t i = 0; i < m->symbols.n; i++) {
        const lmi_onnx_symbol *s = lmi_vec_at(&m->symbols, i);
        if (strcmp(s->name, given->name) == 0 && s->size != given->size)
            return lmi_fail(e, LAM_USAGE, NULL, "the size '%s' is given as %lld, and as another too",
                            given->name, (long long)given->size);
    }
    return LAM_OK;
}

static lam_status apply_given(lmi_infer *c, const lmi_onnx_given *given) {
    if (!given) return LAM_OK;
    bool *two = lmi_alloc(&c->scratch, c->m->symbols.n, sizeof *two);
    if (!two) return lmi_nomem(c->e);
    for (int32_t i = 0; i < given->n_symbols; i++) LAM_TRY(give_symbol(c->m, &given->symbols[i], c->e));
    for (int32_t i = 0; i < given->n_inputs; i++) LAM_TRY(give_input(c, &given->inputs[i], i, two));
    for (int32_t i = 0; i < given->n_symbols; i++) LAM_TRY(check_symbol(c->m, &given->symbols[i], c->e));
    return LAM_OK;
}

/* -- all ------------------------------------------------------------------------------------------------- */

/* Replaces sizes that the file names by what is given, and keeps what is stated. */
static void remember(lmi_infer *c, lmi_onnx_value *v) {
    lmi_value_known *known = lmi_known_of(c, v);
    int64_t sizes[LMI_ONNX_MOST_AXES];
    known->count = -1;
    known->ndim = -1;
    if (v->ndim > LMI_ONNX_MOST_AXES) v->ndim = -1;
    bool named = false;
    for (int32_t i = 0; i < v->ndim; i++) {
        const lmi_onnx_symbol *s = v->symbols && v->sizes[i] < 0 ? symbol_at(c->m, v->symbols[i]) : NULL;
        sizes[i] = s ? s->size : v->sizes[i];
        named = named || sizes[i] != v->sizes[i];
    }
    if (named) lmi_set_sizes(c, v, v->ndim, sizes);
    if (v->kind == LMI_ONNX_SEQUENCE && v->where == LMI_ONNX_NOWHERE) v->ndim = -1;
    known->kind = v->kind;
    known->type = v->type;
    known->ndim = v->ndim;
    known->sizes = v->sizes;
    known->symbols = v->symbols;
    known->own = NULL; /* what is inferred stands beside it */
    known->room = 0;
    if (v->producer >= 0 && v->where == LMI_ONNX_NOWHERE) v->ndim = -1;
}

static void put_cell(unsigned char *to, int32_t type, int32_t bits, int64_t i, const lmi_cell *c) {
    uint64_t u = (uint64_t)c->i;
    if (lmi_is_real(type)) lmi_real_bits(type, c->f, &u);
    if (bits < 8) {
        int64_t each = 8 / bits;
        to[i / each] |= (unsigned char)((u & ((1U << bits) - 1)) << (i % each * bits));
        return;
    }
    for (int32_t b = 0; b < bits / 8; b++) to[i * (bits / 8) + b] = (unsigned char)(u >> (8 * b));
}

/* True if a value has the elements of a constant that is in memory. That of a graph's input is the caller's,
 * and may be gone before the model is. */
static bool shares(const lmi_infer *c, const lmi_onnx_value *v) {
    const lmi_value_known *known = lmi_known_of(c, v);
    const lmi_onnx_value *x = known->like;
    return x && lmi_known_of(c, x)->cells == known->cells && x->where == LMI_ONNX_MEMORY && x->memory &&
           !x->input && x->type == v->type && x->bytes == v->bytes;
}

/* Makes a constant of a value whose elements were computed, for those who read the graph. */
static lam_status publish(lmi_infer *c, lmi_onnx_value *v) {
    const lmi_value_known *known = lmi_known_of(c, v);
    int64_t n;
    if (!known->cells || known->varies || v->producer < 0 || v->where != LMI_ONNX_NOWHERE) return LAM_OK;
    int32_t bits = lmi_onnx_bits(v->type);
    if (!lmi_few(v, &n) || n > MOST_KEPT || bits == 0) return LAM_OK;
    for (int64_t i = 0; i < n; i++)
        if (!known->cells[i].known) return LAM_OK;
    v->bytes = (uint64_t)(n * bits + 7) / 8;
    if (shares(c, v)) {
        v->where = LMI_ONNX_MEMORY;
        v->memory = known->like->memory;
        return LAM_OK;
    }
    unsigned char *raw = lmi_alloc(&c->m->arena, v->bytes, 1);
    if (!raw) return lmi_nomem(c->e);
    for (int64_t i = 0; i < n; i++) put_cell(raw, v->type, bits, i, &known->cells[i]);
    v->where = LMI_ONNX_MEMORY;
    v->memory = raw;
    return LAM_OK;
}

static lam_status infer(lmi_infer *c, const lmi_onnx_given *given) {
    lmi_onnx_value *values = c->m->values.data;
    c->known = lmi_alloc(&c->scratch, c->m->values.n, sizeof *c->known);
    if (!c->known) return lmi_nomem(c->e);
    LAM_TRY(apply_given(c, given));
    for (size_t i = 0; i < c->m->values.n && c->bad == LAM_OK; i++) remember(c, &values[i]);
    if (c->bad == LAM_OK) walk(c, c->m->graph);
    for (size_t i = 0; i < c->m->values.n && c->tired; i++) {
        if (!c->known[i].varies) continue;
        forget(c, &values[i]); /* of a body that may not have been run again with what it carries on */
        take_stated(c, &values[i]);
    }
    for (size_t i = 0; i < c->m->values.n && c->bad == LAM_OK; i++) c->bad = publish(c, &values[i]);
    return c->bad;
}

lam_status lmi_onnx_infer(lmi_onnx_model *m, const lmi_onnx_given *given, lam_error *e) {
    lmi_infer c = {.m = m,
                   .few = {MOST_ALL, MOST_ALL / 2},
                   .many = MOST_ALL,
                   .effort = MOST_EFFORT,
                   .work = MOST_WORK,
                   .tries = MOST_WORK,
                   .walk = walk,
                   .bad = LAM_OK,
                   .e = e};
    lmi_arena_init(&c.scratch, UINT64_MAX);
    lam_status s = infer(&c, given);
    lmi_arena_free(&c.scratch);
    return s;
}
