/* SPDX-License-Identifier: Apache-2.0
 *
 * Which constants of a graph are parameters, and whose. A file stores weights, statistics, shapes and factors
 * alike, as initialisers or as results of Constant nodes. A parameter is
 *   - a floating-point tensor of more than one element, or one whose name is that of a module's tensor, and
 *   - a tensor of 8 bits or fewer an element, or of 32-bit integers where an operator takes such a bias,
 * that some node reads as other than a setting (operators.def), or that none reads. Statistics of a batch
 * normalisation, and whole numbers that have the name of a module's tensor, are buffers. */
#include "read/onnx/source.h"

#include <ctype.h>

static bool is_float(int32_t type) {
    return type == LMI_ONNX_FLOAT || type == LMI_ONNX_FLOAT16 || type == LMI_ONNX_DOUBLE ||
           type == LMI_ONNX_BFLOAT16 || type == LMI_ONNX_COMPLEX64 || type == LMI_ONNX_COMPLEX128;
}

/* True for an operator that takes the bias, or a weight, as 32-bit integers at that argument. */
static bool takes_int32(const lmi_onnx_node *n, int32_t i) {
    if (strcmp(n->op, "DequantizeLinear") == 0) return i == 0;
    if (strcmp(n->op, "QLinearConv") == 0) return i == 8;
    return false;
}

static bool is_statistic(const lmi_onnx_node *n, int32_t i) {
    return strcmp(n->op, "BatchNormalization") == 0 && (i == 3 || i == 4);
}

/* A state of zeros is made by repeating a constant, as a token of a vision transformer is made of a
 * parameter: only the latter has a name, of a module's tensor or, by torch, of the model's. torch's exporters
 * end names that they make up in a number: "onnx::Expand_42", "val_7". */
static bool is_fill(const lmi_onnx_node *n) {
    return strcmp(n->op, "Expand") == 0 || strcmp(n->op, "Tile") == 0;
}
static bool is_named(const lmi_onnx_model *m, const lmi_onnx_value *v) {
    const size_t n = strlen(v->name);
    const bool made_up = n == 0 || isdigit((unsigned char)v->name[n - 1]);
    return v->initialiser && (strchr(v->name, '.') || (strcmp(m->producer, "pytorch") == 0 && !made_up));
}

void lmi_onnx_look_at(const lmi_onnx_model *m, lmi_onnx_use *uses, int32_t node) {
    const lmi_onnx_node *n = lmi_onnx_node_at(m, node);
    if (lmi_onnx_names_stored(m, n)) return;
    for (int32_t i = 0; i < n->n_in; i++) {
        const int32_t v = lmi_onnx_stored(m, n->in[i]);
        if (v < 0) continue;
        lmi_onnx_use *u = &uses[v];
        if (u->first < 0) u->first = node;
        if (is_statistic(n, i))
            u->statistic = true;
        else if (lmi_onnx_is_setting(n, i) || (is_fill(n) && !is_named(m, lmi_onnx_value_at(m, v))))
            u->setting = true;
        else
            u->weight = true;
        u->int32 = u->int32 || takes_int32(n, i);
    }
}

lmi_onnx_role lmi_onnx_role_of(const lmi_onnx_value *v, const lmi_onnx_use *u, bool named) {
    int64_t n = -1;
    const int32_t bits = lmi_onnx_bits(v->type);
    const bool few = bits > 0 && bits <= 8 && v->type != LMI_ONNX_BOOL;
    if (v->kind != LMI_ONNX_TENSOR || v->type == LMI_ONNX_STRING) return LMI_ONNX_NO_WEIGHT;
    const bool sized = v->ndim >= 0 && lmi_product(v->sizes, v->ndim, &n);
    if (u->first >= 0 && !u->weight && !u->statistic) return LMI_ONNX_NO_WEIGHT;
    if (sized && n <= 1 && !(named && is_float(v->type))) return LMI_ONNX_NO_WEIGHT;
    if (u->statistic && !u->weight) return LMI_ONNX_BUFFER;
    if (is_float(v->type) || few || (v->type == LMI_ONNX_INT32 && u->int32)) return LMI_ONNX_PARAMETER;
    return named && u->first >= 0 ? LMI_ONNX_BUFFER : LMI_ONNX_NO_WEIGHT;
}
