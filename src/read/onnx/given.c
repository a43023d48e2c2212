/* SPDX-License-Identifier: Apache-2.0
 *
 * What the user says of the inputs of a graph: texts as `images=1x3x640x640`, `sr=scalar:int64=16000` or
 * `pads=4:int64=0,0,1,1`, and names of sizes with their values. */
#include "read/onnx/source.h"

#include <errno.h>
#include <stdlib.h>

/* The texts' parts, in memory of the arena. */
typedef struct parts {
    lmi_arena *a;
    const char *text;
    lam_error *e;
} parts;

static lam_status wrong(const parts *p, const char *what) {
    return lmi_fail(p->e, LAM_USAGE, p->text,
                    "%s; write NAME=SHAPE, as images=1x3x640x640, or NAME=SHAPE:TYPE=VALUES", what);
}

/* "1x3x640x640"; "scalar" has no axes. */
static lam_status shape(const parts *p, const char *text, lmi_onnx_given_input *to) {
    int64_t sizes[LMI_ONNX_MOST_AXES];
    to->ndim = 0;
    if (strcmp(text, "scalar") == 0 || !*text) text = "";
    while (*text) {
        char *end;
        errno = 0;
        const long long n = strtoll(text, &end, 10);
        if (end == text || n < 0 || *text == '+' || *text == '-')
            return wrong(p, "a shape is sizes with x between them");
        if (errno) return wrong(p, "a size is larger than any can be");
        if (to->ndim == LMI_ONNX_MOST_AXES) return wrong(p, "it has too many axes");
        sizes[to->ndim++] = (int64_t)n;
        if (*end && *end != 'x') return wrong(p, "a shape is sizes with x between them");
        if (*end && !end[1]) return wrong(p, "a shape ends in a size");
        text = *end ? end + 1 : end;
    }
    to->sizes = lmi_copy(p->a, sizes, (uint64_t)to->ndim, sizeof *sizes);
    return to->sizes ? LAM_OK : lmi_nomem(p->e);
}

static int32_t type_of(const char *name) {
    static const struct {
        const char *name;
        int32_t type;
    } types[] = {{"float32", LMI_ONNX_FLOAT},     {"float", LMI_ONNX_FLOAT},     {"float64", LMI_ONNX_DOUBLE},
                 {"double", LMI_ONNX_DOUBLE},     {"float16", LMI_ONNX_FLOAT16}, {"half", LMI_ONNX_FLOAT16},
                 {"bfloat16", LMI_ONNX_BFLOAT16}, {"int64", LMI_ONNX_INT64},     {"long", LMI_ONNX_INT64},
                 {"int32", LMI_ONNX_INT32},       {"int", LMI_ONNX_INT32},       {"int16", LMI_ONNX_INT16},
                 {"int8", LMI_ONNX_INT8},         {"uint8", LMI_ONNX_UINT8},     {"uint16", LMI_ONNX_UINT16},
                 {"uint32", LMI_ONNX_UINT32},     {"uint64", LMI_ONNX_UINT64},   {"bool", LMI_ONNX_BOOL}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(types[i].name, name) == 0) return types[i].type;
    return LMI_ONNX_NO_TYPE;
}

/* True if what stands before `end` names a type. */
static bool is_type(const char *text, char *end) {
    const char was = *end;
    *end = '\0';
    const bool is = type_of(text) != LMI_ONNX_NO_TYPE;
    *end = was;
    return is;
}

static uint64_t bits_of(int32_t type, const char *text, char **end) {
    uint64_t bits = 0;
    if (type == LMI_ONNX_FLOAT) {
        const float f = strtof(text, end);
        uint32_t low;
        memcpy(&low, &f, sizeof low);
        return low;
    }
    if (type == LMI_ONNX_DOUBLE) {
        const double d = strtod(text, end);
        memcpy(&bits, &d, sizeof bits);
        return bits;
    }
    return (uint64_t)strtoll(text, end, 10);
}

/* True if a whole number that was read is one of the type, whose bits are all that are kept. */
static bool is_of_type(int32_t type, uint64_t value) {
    const int32_t bits = lmi_onnx_bits(type);
    const int64_t n = (int64_t)value;
    switch (type) {
    case LMI_ONNX_FLOAT:
    case LMI_ONNX_DOUBLE:
    case LMI_ONNX_INT64: return true;
    case LMI_ONNX_BOOL: return value <= 1;
    case LMI_ONNX_INT8:
    case LMI_ONNX_INT16:
    case LMI_ONNX_INT32: return n >= -((int64_t)1 << (bits - 1)) && n < (int64_t)1 << (bits - 1);
    default: return n >= 0 && (bits == 64 || n < (int64_t)1 << bits);
    }
}

/* "16000", "0,0,1,1": as many as the shape has elements. */
static lam_status values(const parts *p, const char *text, lmi_onnx_given_input *to) {
    const int32_t bits = lmi_onnx_bits(to->type);
    int64_t n;
    if (bits < 8 || to->type == LMI_ONNX_FLOAT16 || to->type == LMI_ONNX_BFLOAT16)
        return wrong(p, "values can be given of whole numbers, float32, float64 and bool");
    if (!lmi_product(to->sizes, to->ndim, &n) || n > (int64_t)strlen(text))
        return wrong(p, "there are fewer values than the shape has elements");
    unsigned char *memory = lmi_alloc(p->a, (uint64_t)n, (uint64_t)bits / 8);
    if (!memory) return lmi_nomem(p->e);
    for (int64_t i = 0; i < n; i++) {
        char *end;
        errno = 0;
        const uint64_t value = bits_of(to->type, text, &end);
        if (end > text && (errno == ERANGE || !is_of_type(to->type, value)))
            return wrong(p, "a value is none of its type");
        if (end == text || (*end && *end != ','))
            return wrong(p, "values are numbers with commas between them");
        if (!*end != (i == n - 1)) return wrong(p, "there are not as many values as the shape has elements");
        for (int32_t k = 0; k < bits / 8; k++) memory[i * (bits / 8) + k] = (unsigned char)(value >> 8 * k);
        text = end + 1;
    }
    to->memory = memory;
    to->bytes = (uint64_t)n * (uint64_t)bits / 8;
    return LAM_OK;
}

static lam_status one_input(const char *text, lmi_arena *a, lmi_onnx_given_input *to, lam_error *e) {
    const parts p = {a, text, e};
    *to = (lmi_onnx_given_input){.ndim = -1};
    char *copy = lmi_strdup(a, text);
    if (!copy) return lmi_nomem(e);
    char *colon = strrchr(copy, ':'), *is = colon ? strchr(colon, '=') : NULL;
    char *equals = strchr(copy, '=');
    if (colon && !is && strchr(colon, '/')) colon = NULL;
    if (is && is == equals && !is_type(colon + 1, is)) colon = is = NULL; /* of a name such as input:0 */
    if (equals && (!is || equals < colon)) {
        to->name = copy;
        *equals = '\0';
        copy = equals + 1;
    }
    if (is) *is = '\0';
    if (colon) *colon = '\0';
    LAM_TRY(shape(&p, copy, to));
    if (!colon) return LAM_OK;
    to->type = type_of(colon + 1);
    if (to->type == LMI_ONNX_NO_TYPE) return wrong(&p, "its type is not known");
    return is ? values(&p, is + 1, to) : LAM_OK;
}

/* -- sizes by name
 * ------------------------------------------------------------------------------------------- */

static bool is_symbol(const lmi_onnx_model *m, const char *name) {
    for (size_t i = 0; i < m->symbols.n; i++)
        if (strcmp(((const lmi_onnx_symbol *)lmi_vec_at(&m->symbols, i))->name, name) == 0) return true;
    return false;
}

/* Gives an axis of an input that the file leaves open: by the name that it has for it, else by the input's
 * shape. */
static lam_status give_axis(lmi_onnx_model *m, const lmi_onnx_value *v, int32_t axis, int64_t size,
                            lmi_vec *symbols, lmi_vec *inputs, lam_error *e) {
    const int32_t named = v->symbols ? v->symbols[axis] : -1;
    if (named >= 0) {
        const lmi_onnx_symbol s = {((const lmi_onnx_symbol *)lmi_vec_at(&m->symbols, (size_t)named))->name,
                                   size};
        return lmi_vec_put(symbols, &s, e);
    }
    int64_t *sizes = lmi_copy(&m->arena, v->sizes, (uint64_t)v->ndim, sizeof *sizes);
    if (!sizes) return lmi_nomem(e);
    sizes[axis] = size;
    const lmi_onnx_given_input given = {.name = v->name, .ndim = v->ndim, .sizes = sizes};
    return lmi_vec_put(inputs, &given, e);
}

/* The axis that a text of digits alone names; -1: none. */
static int64_t axis_named(const char *text) {
    return *text && !text[strspn(text, "0123456789")] ? strtoll(text, NULL, 10) : -1;
}

/* "batch": the first axis of each input, where it is open; "x.1": an axis of the input x, from 0. */
static lam_status give_size(lmi_onnx_model *m, const lam_read_size *of, lmi_vec *symbols, lmi_vec *inputs,
                            lam_error *e) {
    const lmi_onnx_symbol s = {of->name, of->value};
    const char *dot = strrchr(of->name, '.');
    bool any = false;
    if (is_symbol(m, of->name)) return lmi_vec_put(symbols, &s, e);
    for (int32_t i = 0; i < m->graph->n_inputs; i++) {
        const lmi_onnx_value *v = lmi_onnx_input(m, i);
        const size_t n = dot ? (size_t)(dot - of->name) : 0;
        const bool batch = strcmp(of->name, "batch") == 0;
        const bool mine = dot && strlen(v->name) == n && strncmp(v->name, of->name, n) == 0;
        const int64_t axis = batch ? 0 : mine ? axis_named(dot + 1) : -1;
        if (v->initialiser || axis < 0 || axis >= v->ndim || v->sizes[axis] >= 0) continue;
        LAM_TRY(give_axis(m, v, (int32_t)axis, of->value, symbols, inputs, e));
        any = true;
    }
    if (any) return LAM_OK;
    return lmi_fail(e, LAM_USAGE, of->name, "the file leaves no size of this name open");
}

static lam_status all_given(lmi_onnx_model *m, const lam_read_options *o, lmi_vec *symbols, lmi_vec *inputs,
                            lam_error *e) {
    for (int32_t i = 0; i < o->n_inputs; i++) {
        lmi_onnx_given_input one;
        LAM_TRY(one_input(o->inputs[i], &m->arena, &one, e));
        LAM_TRY(lmi_vec_put(inputs, &one, e));
    }
    for (int32_t i = 0; i < o->n_sizes; i++) LAM_TRY(give_size(m, &o->sizes[i], symbols, inputs, e));
    return LAM_OK;
}

/* -- sizes that are open ----------------------------------------------------------------------------------
 */

lam_status lmi_onnx_open_axes(const lmi_onnx_model *m, lmi_vec *out, lam_error *e) {
    enum { MOST_AXES = 64 };
    for (int32_t i = 0; i < m->graph->n_inputs; i++) {
        const lmi_onnx_value *v = lmi_onnx_input(m, i);
        if (v->initialiser) continue;
        for (int32_t k = 0; k < v->ndim && k < LMI_ONNX_MOST_AXES && out->n < MOST_AXES; k++) {
            const lmi_onnx_axis a = {m->graph->inputs[i], k, v->symbols ? v->symbols[k] : -1};
            if (v->sizes[k] < 0) LAM_TRY(lmi_vec_put(out, &a, e));
        }
    }
    return LAM_OK;
}

static int64_t size_at(const lmi_onnx_model *m, const lmi_onnx_axis *a) {
    const lmi_onnx_value *v = lmi_onnx_value_at(m, a->value);
    return a->axis < v->ndim ? v->sizes[a->axis] : -1;
}

/* The name of the size that an axis has: that of the file, if all axes with it have one size, "batch" for the
 * first axes of all inputs likewise, else "x.1". */
static void put_size_name(const lmi_onnx_model *m, const lmi_vec *open, const lmi_onnx_axis *a, lmi_buf *to) {
    const int64_t size = size_at(m, a);
    bool named = a->symbol >= 0, batch = a->symbol < 0 && a->axis == 0;
    for (size_t i = 0; i < open->n; i++) {
        const lmi_onnx_axis *b = lmi_vec_at(open, i);
        const bool same = size_at(m, b) == size;
        if (b->symbol == a->symbol && !same) named = false;
        if (b->axis == 0 && (b->symbol >= 0 || !same)) batch = false;
    }
    if (named)
        lmi_put(to, ((const lmi_onnx_symbol *)lmi_vec_at(&m->symbols, (size_t)a->symbol))->name);
    else if (batch)
        lmi_put(to, "batch");
    else
        lmi_putf(to, "%s.%d", lmi_onnx_value_at(m, a->value)->name, (int)a->axis);
}

lam_status lmi_onnx_open_sizes(const lmi_onnx_model *m, const lmi_vec *open, lam_model *to, lam_error *e) {
    lam_status s = LAM_OK;
    lmi_buf name;
    lmi_buf_init(&name);
    for (size_t i = 0; s == LAM_OK && i < open->n; i++) {
        const lmi_onnx_axis *a = lmi_vec_at(open, i);
        bool known = false;
        lmi_buf_clear(&name);
        put_size_name(m, open, a, &name);
        for (size_t k = 0; k < to->open_sizes.n && !known; k++)
            known = strcmp(lmi_open_size_at(to, k)->name, lmi_buf_text(&name)) == 0;
        if (!known) s = lmi_model_open_size(to, lmi_buf_text(&name), size_at(m, a), 0, INT64_MAX, e);
    }
    if (s == LAM_OK) s = lmi_buf_status(&name, e);
    lmi_buf_free(&name);
    return s;
}

/* True if the name, as put_size_name writes it, is that of an axis. */
static bool is_axis_of(const lmi_onnx_model *m, const lmi_onnx_value *v, int32_t axis, const char *name) {
    const size_t n = strlen(v->name);
    const int32_t symbol = v->symbols ? v->symbols[axis] : -1;
    if (symbol >= 0 &&
        strcmp(((const lmi_onnx_symbol *)lmi_vec_at(&m->symbols, (size_t)symbol))->name, name) == 0)
        return true;
    if (strcmp(name, "batch") == 0) return axis == 0 && symbol < 0 && v->sizes[axis] < 0;
    return strncmp(name, v->name, n) == 0 && name[n] == '.' && axis_named(name + n + 1) == axis;
}

/* Gives a size another value: in the shapes that are given, and where none is. */
static lam_status replace(lmi_onnx_model *m, const lam_read_size *other, lmi_vec *symbols, lmi_vec *inputs,
                          lam_error *e) {
    int32_t nth = 0;
    for (int32_t i = 0; i < m->graph->n_inputs; i++) {
        const lmi_onnx_value *v = lmi_onnx_input(m, i);
        if (v->initialiser) continue;
        const int32_t position = nth++;
        for (int32_t axis = 0; axis < v->ndim; axis++) {
            bool any = false;
            if (v->sizes[axis] >= 0 || !is_axis_of(m, v, axis, other->name)) continue;
            for (size_t k = 0; k < inputs->n; k++) {
                const lmi_onnx_given_input *g = lmi_vec_at(inputs, k);
                const bool mine = g->name ? strcmp(g->name, v->name) == 0 : (int32_t)k == position;
                if (!mine || g->ndim <= axis || g->memory) continue;
                ((int64_t *)(uintptr_t)g->sizes)[axis] = other->value; /* the arena's */
                any = true;
            }
            if (!any) LAM_TRY(give_axis(m, v, axis, other->value, symbols, inputs, e));
        }
    }
    for (size_t i = 0; i < symbols->n; i++) {
        lmi_onnx_symbol *s = lmi_vec_at(symbols, i);
        if (strcmp(s->name, other->name) == 0) s->size = other->value;
    }
    return LAM_OK;
}

lam_status lmi_onnx_infer_with(lmi_onnx_model *m, const lam_read_options *o, const lam_read_size *other,
                               lam_error *e) {
    lmi_vec symbols, inputs;
    lmi_vec_init(&symbols, sizeof(lmi_onnx_symbol));
    lmi_vec_init(&inputs, sizeof(lmi_onnx_given_input));
    lam_status s = o ? all_given(m, o, &symbols, &inputs, e) : LAM_OK;
    if (s == LAM_OK && other) s = replace(m, other, &symbols, &inputs, e);
    const lmi_onnx_given given = {(int32_t)inputs.n, (int32_t)symbols.n, inputs.data, symbols.data};
    if (s == LAM_OK) s = lmi_onnx_infer(m, &given, e);
    lmi_vec_free(&symbols);
    lmi_vec_free(&inputs);
    return s;
}
