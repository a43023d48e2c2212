/* SPDX-License-Identifier: Apache-2.0
 *
 * Attributes of nodes. */
#include "read/onnx/reader.h"

enum { MOST_NUMBERS = 1 << 20, FLOAT = 1, INT, STRING, TENSOR, GRAPH, FLOATS, INTS, STRINGS };

typedef struct lists {
    lmi_vec ints, floats, texts;
} lists;

static lam_status copy_lists(lmi_onnx_reader *r, const lists *l, lmi_onnx_attribute *out, lam_error *e) {
    lmi_arena *a = &r->m->arena;
    if (l->ints.n) {
        out->n = (int32_t)l->ints.n;
        out->ints = lmi_copy(a, l->ints.data, l->ints.n, sizeof(int64_t));
    }
    if (l->floats.n) {
        out->n = (int32_t)l->floats.n;
        out->floats = lmi_copy(a, l->floats.data, l->floats.n, sizeof(float));
    }
    if (l->texts.n) {
        out->n = (int32_t)l->texts.n;
        out->strings = lmi_copy(a, l->texts.data, l->texts.n, sizeof(char *));
    }
    const bool ok =
        (!l->ints.n || out->ints) && (!l->floats.n || out->floats) && (!l->texts.n || out->strings);
    return ok ? LAM_OK : lmi_nomem(e);
}

static lam_status tensor(lmi_onnx_reader *r, const lmi_field *f, bool sparse, lmi_onnx_attribute *out,
                         lam_error *e) {
    lmi_onnx_value v;
    const char *name;
    LAM_TRY(lmi_onnx_tensor_read(r, f, sparse, &v, &name, e));
    LAM_TRY(lmi_onnx_new_value(r, name, &out->tensor, e));
    v.name = name;
    *lmi_onnx_value_at(r->m, out->tensor) = v;
    return LAM_OK;
}

static lam_status body(lmi_onnx_reader *r, lmi_onnx_scope *s, const lmi_field *f, lmi_onnx_attribute *out,
                       lam_error *e) {
    LAM_TRY(lmi_wire_is(&r->c, f, LMI_WIRE_LENGTH, "a graph", e));
    if (out->graph) return lmi_onnx_bad(r, f->at, e, "an attribute has two graphs");
    return lmi_onnx_graph_read(r, s, f->end, &out->graph, e);
}

static lam_status text_in_list(lmi_onnx_reader *r, const lmi_field *f, lists *l, lam_error *e) {
    const char *text;
    LAM_TRY(lmi_wire_text(&r->c, f, &r->m->arena, &text, e));
    return lmi_vec_put(&l->texts, &text, e);
}

static lam_status one_field(lmi_onnx_reader *r, lmi_onnx_scope *s, const lmi_field *f, lists *l,
                            lmi_onnx_attribute *out, const char **ref, lam_error *e) {
    uint32_t bits;
    switch (f->number) {
    case 1: return lmi_wire_text(&r->c, f, &r->m->arena, &out->name, e);
    case 2:
        LAM_TRY(lmi_wire_is(&r->c, f, LMI_WIRE_4_BYTES, "a number", e));
        bits = (uint32_t)f->value;
        memcpy(&out->f, &bits, sizeof bits);
        if (!out->type) out->type = FLOAT;
        return LAM_OK;
    case 3:
        LAM_TRY(lmi_wire_is(&r->c, f, LMI_WIRE_VARINT, "a whole number", e));
        out->i = (int64_t)f->value;
        if (!out->type) out->type = INT;
        return LAM_OK;
    case 4:
        if (!out->type) out->type = STRING;
        return lmi_wire_text(&r->c, f, &r->m->arena, &out->s, e);
    case 5:
        if (!out->type) out->type = TENSOR;
        return tensor(r, f, false, out, e);
    case 6:
        if (!out->type) out->type = GRAPH;
        return body(r, s, f, out, e);
    case 7: return lmi_wire_floats(&r->c, f, &l->floats, MOST_NUMBERS, "numbers in an attribute", e);
    case 8: return lmi_wire_ints(&r->c, f, &l->ints, MOST_NUMBERS, "whole numbers in an attribute", e);
    case 9: return text_in_list(r, f, l, e);
    case 20:
        LAM_TRY(lmi_wire_is(&r->c, f, LMI_WIRE_VARINT, "an attribute's type", e));
        out->type = f->value < 64 ? (int32_t)f->value : 0;
        return LAM_OK;
    case 21: return lmi_wire_text(&r->c, f, &r->m->arena, ref, e);
    case 22: return tensor(r, f, true, out, e);
    default: return LAM_OK;
    }
}

static lam_status all_fields(lmi_onnx_reader *r, lmi_onnx_scope *s, const lmi_field *of, lists *l,
                             lmi_onnx_attribute *out, const char **ref, lam_error *e) {
    lmi_field f = {0};
    bool more;
    for (;;) {
        LAM_TRY(lmi_wire_next(&r->c, of->end, &f, &more, e));
        if (!more) return copy_lists(r, l, out, e);
        LAM_TRY(one_field(r, s, &f, l, out, ref, e));
    }
}

/* What the call of the function says for an attribute that a node of it takes. */
static const lmi_onnx_attribute *said(const lmi_onnx_scope *s, const char *ref) {
    const lmi_onnx_attribute *a = s->call ? lmi_onnx_attr(s->call, ref) : NULL;
    for (int32_t i = 0; !a && i < s->n_otherwise; i++)
        if (strcmp(s->otherwise[i].name, ref) == 0) a = &s->otherwise[i];
    return a;
}

lam_status lmi_onnx_attribute_read(lmi_onnx_reader *r, lmi_onnx_scope *s, const lmi_field *of,
                                   lmi_onnx_attribute *out, bool *is, lam_error *e) {
    const char *ref = "";
    lists l;
    *out = (lmi_onnx_attribute){.name = "", .tensor = -1};
    LAM_TRY(lmi_wire_is(&r->c, of, LMI_WIRE_LENGTH, "an attribute", e));
    lmi_vec_init(&l.ints, sizeof(int64_t));
    lmi_vec_init(&l.floats, sizeof(float));
    lmi_vec_init(&l.texts, sizeof(char *));
    lam_status status = all_fields(r, s, of, &l, out, &ref, e);
    lmi_vec_free(&l.ints);
    lmi_vec_free(&l.floats);
    lmi_vec_free(&l.texts);
    LAM_TRY(status);
    if (!out->type) out->type = out->ints ? INTS : out->floats ? FLOATS : out->strings ? STRINGS : 0;
    *is = true;
    if (!*ref) return LAM_OK;
    const lmi_onnx_attribute *from = said(s, ref);
    const char *name = out->name;
    *is = from != NULL;
    if (from) *out = *from;
    out->name = name;
    return LAM_OK;
}

lam_status lmi_onnx_entry_read(lmi_onnx_reader *r, const lmi_field *of, lmi_onnx_text *out, lam_error *e) {
    lmi_field f = {0};
    bool more;
    *out = (lmi_onnx_text){"", ""};
    LAM_TRY(lmi_wire_is(&r->c, of, LMI_WIRE_LENGTH, "an entry", e));
    for (;;) {
        LAM_TRY(lmi_wire_next(&r->c, of->end, &f, &more, e));
        if (!more) return LAM_OK;
        if (f.number == 1) LAM_TRY(lmi_wire_text(&r->c, &f, &r->m->arena, &out->key, e));
        if (f.number == 2) LAM_TRY(lmi_wire_text(&r->c, &f, &r->m->arena, &out->value, e));
    }
}
