/* SPDX-License-Identifier: Apache-2.0
 *
 * How a place looks: its tensors as text, its family for colours. The family comes from the kind of its
 * layer; for an unknown class from the kinds of the operators that it runs itself; and only if these say
 * nothing, from the name of the class. */
#include "report/outline/work.h"

/* -- tensors --------------------------------------------------------------------------------------------- */

static void put_tensor(lmi_buf *b, const lam_arg *a) {
    if (a->ndim < 0) lmi_putc(b, '?');
    lmi_put_sizes(b, a->ndim, a->sizes);
    if (a->dtype < 0) return;
    lmi_putc(b, ' ');
    lmi_put(b, lam_dtype_name(a->dtype));
}

const char *lmi_take_tensors(lmi_filling *w, const lam_arg *args, int32_t n) {
    lmi_buf_clear(&w->text);
    for (int32_t i = 0; i < n && i < LMI_OUTLINE_TENSORS; i++) {
        if (i) lmi_put(&w->text, ", ");
        put_tensor(&w->text, &args[i]);
    }
    if (n > LMI_OUTLINE_TENSORS) lmi_putf(&w->text, " +%d", (int)n - LMI_OUTLINE_TENSORS);
    return w->text.bad ? NULL : lmi_take_text(w, lmi_buf_text(&w->text));
}

/* -- families -------------------------------------------------------------------------------------------- */

/* Which operators run in a place's own calls. */
typedef struct own_ops {
    uint8_t products; /* at most 2 are counted */
    bool attends, softmax, convolves, normalises, looks_up, recurs;
} own_ops;

static void note_op(own_ops *o, lmi_kind kind) {
    switch (kind) {
    case LMI_K_attend:
    case LMI_K_attend_flash:
    case LMI_K_attend_efficient:
    case LMI_K_fused_mha: o->attends = true; break;
    case LMI_K_softmax: o->softmax = true; break;
    case LMI_K_product:
    case LMI_K_product_act:
    case LMI_K_contract:
    case LMI_K_grouped_mm:
    case LMI_K_linear_packed:
    case LMI_K_linear_fused: o->products += o->products < 2; break;
    case LMI_K_conv_either:
    case LMI_K_conv_packed:
    case LMI_K_deform_conv:
    case LMI_K_conv_fused: o->convolves = true; break;
    case LMI_K_rnn_stack:
    case LMI_K_rnn_layer:
    case LMI_K_rnn_packed: o->recurs = true; break;
    default:
        if (kind >= LMI_N_KINDS) break;
        if (kind == LMI_K_linear || kind == LMI_K_bilinear) o->products += o->products < 2;
        if (kind == LMI_K_conv || kind == LMI_K_conv_transpose) o->convolves = true;
        if (lmi_kind_family(kind) == LMI_F_norm) o->normalises = true;
        if (lmi_kind_family(kind) == LMI_F_lookup) o->looks_up = true;
        if (lmi_kind_family(kind) == LMI_F_recurrent) o->recurs = true;
    }
}

static own_ops *look_at_ops(const lmi_filling *w, lmi_arena *arena) {
    own_ops *all = lmi_alloc(arena, (uint64_t)w->n, sizeof *all);
    for (int32_t i = 0; all && i < w->m->n_ops; i++) {
        const lam_op *op = &w->m->ops[i];
        if (op->phase != LAM_FORWARD || op->call < 0) continue;
        int32_t place = w->of_place[w->m->events[op->call].place];
        if (place >= 0) note_op(&all[place], lmi_op_kind(op->sig->word));
    }
    return all;
}

static lmi_layer_family of_kind(lmi_kind kind, bool holds) {
    switch (lmi_kind_family(kind)) {
    case LMI_F_hold: return LMI_CONTAINER;
    case LMI_F_point: return kind == LMI_K_identity ? LMI_OTHER_FAMILY : LMI_ACTIVATION;
    case LMI_F_dense:
        return kind == LMI_K_conv || kind == LMI_K_conv_transpose ? LMI_CONVOLUTION : LMI_LINEAR;
    case LMI_F_norm: return LMI_NORMALISATION;
    case LMI_F_lookup: return LMI_EMBEDDING;
    case LMI_F_recurrent: return LMI_ATTENTION;
    case LMI_F_attention: /* an encoder holds an attention, but is not one */
        return holds && kind != LMI_K_multihead_attention && kind != LMI_K_timm_attention ? LMI_CONTAINER
                                                                                          : LMI_ATTENTION;
    default: return LMI_OTHER_FAMILY;
    }
}

static lmi_layer_family of_ops(const own_ops *o) {
    if (o->attends || o->recurs || (o->softmax && o->products == 2)) return LMI_ATTENTION;
    if (o->convolves) return LMI_CONVOLUTION;
    if (o->products) return LMI_LINEAR;
    if (o->normalises) return LMI_NORMALISATION;
    return o->looks_up ? LMI_EMBEDDING : LMI_OTHER_FAMILY;
}

/* True if `part`, in lower case, is in the text in any case. */
static bool has_part(const char *text, const char *part) {
    for (; *text; text++) {
        size_t k = 0;
        while (part[k] && (char)(text[k] >= 'A' && text[k] <= 'Z' ? text[k] + 32 : text[k]) == part[k]) k++;
        if (!part[k]) return true;
    }
    return false;
}

static lmi_layer_family of_name(const char *type) {
    static const struct {
        const char *part;
        lmi_layer_family family;
    } parts[] = {{"attention", LMI_ATTENTION}, {"attn", LMI_ATTENTION},     {"lstm", LMI_ATTENTION},
                 {"mamba", LMI_ATTENTION},     {"conv", LMI_CONVOLUTION},   {"norm", LMI_NORMALISATION},
                 {"embed", LMI_EMBEDDING},     {"linear", LMI_LINEAR},      {"dropout", LMI_ACTIVATION},
                 {"relu", LMI_ACTIVATION},     {"gelu", LMI_ACTIVATION},    {"silu", LMI_ACTIVATION},
                 {"sigmoid", LMI_ACTIVATION},  {"softmax", LMI_ACTIVATION}, {"activation", LMI_ACTIVATION}};
    if (strlen(type) < 4) return LMI_OTHER_FAMILY; /* as most of a file's, whose classes are unknown */
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (has_part(type, parts[i].part)) return parts[i].family;
    return LMI_OTHER_FAMILY;
}

lmi_layer_family lmi_family_of_name(const char *type, bool holds) {
    lmi_layer_family family = of_name(type);
    return holds && family != LMI_ATTENTION ? LMI_CONTAINER : family;
}

static lmi_layer_family family_of(const lmi_filling *w, int32_t i, const own_ops *ops) {
    const lmi_outline_place *at = &w->at[i];
    bool holds = at->n_children > 0;
    lmi_kind kind = lmi_word_kind(w->m->modules[w->m->places[w->place[i]].module].word);
    if (kind < LMI_N_KINDS) return of_kind(kind, holds);
    lmi_layer_family family = of_ops(&ops[i]);
    if (family == LMI_OTHER_FAMILY) return lmi_family_of_name(at->type, holds);
    return holds && family != LMI_ATTENTION ? LMI_CONTAINER : family;
}

/* -- all ------------------------------------------------------------------------------------------------- */

lam_status lmi_take_looks(lmi_filling *w) {
    const own_ops *ops = look_at_ops(w, &w->scratch);
    lmi_shown_place *shown = lmi_alloc_unset(&w->o->arena, (uint64_t)w->n, sizeof *shown);
    if (!ops || !shown) return lmi_nomem(w->e);
    w->o->shown = shown;
    w->o->n_shown = w->m->n_places > 0 ? w->n : 0;
    for (int32_t i = 0; i < w->n && w->m->n_places > 0; i++) {
        lmi_outline_place *at = &w->at[i];
        const lam_event *call = w->call[i];
        at->in = call ? lmi_take_tensors(w, call->in, call->n_in) : "";
        at->out = call ? lmi_take_tensors(w, call->out, call->n_out) : "";
        if (!at->in || !at->out) return lmi_nomem(w->e);
        at->family = (uint8_t)family_of(w, i, ops);
        shown[i] = (lmi_shown_place){w->place[i], at->family};
    }
    return LAM_OK;
}
