/* SPDX-License-Identifier: Apache-2.0
 *
 * Nodes of ONNX files as operators: which argument and which attribute stands at which position, as a rule
 * reads it. */
#include "kit/onnx.h"

#include "read/onnx/source.h"

/* -- files of one node ----------------------------------------------------------------------------------- */

/* An attribute "axis=1", "pads=0,0", "mode=linear", "alpha=0.5", "activations=Relu;" behind a node; "~" is a
 * blank. */
static void put_attribute(lmi_buf *node, char *word) {
    char *is = strchr(word, '='), *value = is + 1;
    lmi_buf a = begun();
    for (char *at = strchr(value, '~'); at; at = strchr(at, '~')) *at = ' ';
    put_bytes(&a, 1, word, (size_t)(is - word));
    if (strchr(value, ';')) {
        put_bytes(&a, 9, value, strcspn(value, ";"));
    } else if (strchr("-0123456789", *value) && strchr(value, '.') && !strchr(value, ',')) {
        const float f = strtof(value, NULL);
        uint32_t bits;
        memcpy(&bits, &f, sizeof bits);
        put_varint(&a, 2 << 3 | 5);
        put_le(&a, bits, 4);
    } else if (strchr("-0123456789", *value) && strchr(value, ',')) {
        for (const char *at = value; *at;) {
            char *end;
            put_number(&a, 8, (uint64_t)strtoll(at, &end, 10));
            at = end + (*end == ',');
        }
    } else if (strchr("-0123456789", *value) && !strchr(value, '>')) {
        put_number(&a, 3, (uint64_t)strtoll(value, NULL, 10));
    } else {
        put_word(&a, 4, value);
    }
    put_message(node, 5, &a);
}

/* "x 1,2 k=3,4 k#3,4 w:1,2": inputs, constants of int64 and of int32, and weights of float32. */
static void put_values(lmi_buf *g, const char *words) {
    char name[128], sizes[64], text[256];
    int used;
    for (; sscanf(words, " %127s%n", name, &used) == 1; words += used) {
        char *is = strpbrk(name, "=#"), *colon = strchr(name, ':');
        if (is) {
            const int type = *is == '=' ? 7 : 6;
            *is = '\0';
            put_whole(g, name, is + 1, type);
        } else if (colon) {
            long long n = 4;
            for (char *at = colon; *at; n *= strtoll(at + 1, &at, 10)) {}
            *colon = '\0';
            snprintf(text, sizeof text, "%s 1 %s %lld", name, colon + 1, n);
            put_tensor(g, 5, text);
        } else {
            words += used;
            assert_int_equal(sscanf(words, " %63s%n", sizes, &used), 1);
            snprintf(text, sizeof text, "%s %s", name, sizes);
            put_stated(g, 11, text);
        }
    }
}

static void save_node(const char *file, int opset, const char *node, const char *attributes,
                      const char *values) {
    char words[192], word[160];
    int used;
    lmi_buf g = begun(), y = begun();
    snprintf(words, sizeof words, "%s y -", node);
    lmi_buf n = node_of(words);
    for (; sscanf(attributes, " %159s%n", word, &used) == 1; attributes += used) put_attribute(&n, word);
    put_message(&g, 1, &n);
    put_values(&g, values);
    put_word(&y, 1, "y");
    put_message(&g, 12, &y);
    lmi_buf m = model_at(&g, (uint64_t)opset);
    save_bytes(file, &m);
    lmi_buf_free(&m);
}

static void put_sizes(lmi_buf *b, const int64_t *sizes, int32_t n, const char *between) {
    for (int32_t i = 0; i < n; i++) lmi_putf(b, "%s%lld", i ? between : "", (long long)sizes[i]);
}

/* "0:2x3 1:[1,1] 2:false": a position and what is there. */
static void put_argument(lmi_buf *b, const lam_op_arg *a) {
    lmi_putf(b, " %d:", (int)a->position);
    if (a->is_tensor && a->ndim < 0)
        lmi_putc(b, '?');
    else if (a->is_tensor && a->ndim == 0)
        lmi_put(b, "scalar");
    else if (a->is_tensor)
        put_sizes(b, a->sizes, a->ndim, "x");
    else if (a->value.type == LAM_INTS) {
        lmi_putc(b, '[');
        put_sizes(b, a->value.ints, a->value.n, ",");
        lmi_putc(b, ']');
    } else if (a->value.type == LAM_BOOL)
        lmi_put(b, a->value.i ? "true" : "false");
    else if (a->value.type == LAM_FLOAT)
        lmi_putf(b, "%g", a->value.f);
    else if (a->value.type == LAM_TEXT)
        lmi_put(b, a->value.text);
    else
        lmi_putf(b, "%lld", (long long)a->value.i);
}

typedef struct told {
    const char *node, *attributes, *values, *operator;
    int opset; /* 0: 17 */
} told;

/* Words with blanks or commas between them, in which one is another, or, with NULL, missing. False: there are
 * not so many. */
static bool put_other(char *to, size_t room, const char *words, char between, int which, const char *other) {
    bool found = false;
    *to = '\0';
    for (int i = 0; *words; i++) {
        const char gap[] = {between, '\0'};
        const size_t n = strcspn(words, gap);
        found = found || i == which;
        if (i != which || other)
            snprintf(to + strlen(to), room - strlen(to), "%s%.*s", *to ? gap : "",
                     (int)(i == which ? strlen(other) : n), i == which ? other : words);
        words += n + (words[n] == between);
    }
    return found;
}

static void is_read(const told *t, const char *node, const char *attributes, const char *values) {
    save_node("other.onnx", t->opset ? t->opset : 17, node, attributes, values);
    lam_model *m = opened("other.onnx");
    lam_costs_free(costs_of(m));
    lam_model_free(m);
}

/* The same node with each input something else or missing in turn, and each attribute missing or of another
 * kind. */
static void may_have_other_arguments(const told *t) {
    static const char *const others[] = {"-", "one_", "seven_", "six_"};
    static const char *const kinds[] = {
        "7",     "0.5", "word",
        "word;", "1,2", "1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1"};
    char node[256], inputs[160], attributes[512], values[512], other[128];
    const size_t op = strcspn(t->node, " ") + 1;
    snprintf(values, sizeof values, "%s one_:1 seven_:7 six_:1,2,3,4,5,6", t->values);
    for (size_t k = 0; k < sizeof others / sizeof *others; k++)
        for (int which = 0; put_other(inputs, sizeof inputs, t->node + op, ',', which, others[k]); which++) {
            snprintf(node, sizeof node, "%.*s%s", (int)op, t->node, inputs);
            is_read(t, node, t->attributes, values);
        }
    for (int which = 0; put_other(attributes, sizeof attributes, t->attributes, ' ', which, NULL); which++)
        is_read(t, t->node, attributes, t->values);
    const char *name = t->attributes;
    for (int which = 0; *name; which++, name += strcspn(name, " "), name += *name == ' ')
        for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
            snprintf(other, sizeof other, "%.*s=%s", (int)strcspn(name, "="), name, kinds[k]);
            put_other(attributes, sizeof attributes, t->attributes, ' ', which, other);
            is_read(t, t->node, attributes, t->values);
        }
}

/* Also where memory runs out, and where the file can't be read. */
static void are_told(const told *all, size_t n) {
    for (size_t i = 0; i < n; i++) {
        lmi_buf b = begun();
        save_node("node.onnx", all[i].opset ? all[i].opset : 17, all[i].node, all[i].attributes,
                  all[i].values);
        lam_model *m = opened("node.onnx");
        const lam_op_sig *sig = lam_model_op(m, 0)->sig;
        lmi_put(&b, sig->name);
        for (int32_t k = 0; k < sig->n_in; k++) put_argument(&b, &sig->in[k]);
        assert_string_equal(lmi_buf_text(&b), all[i].operator);
        lmi_buf_free(&b);
        lam_model_free(m);
        oom_sweep_parts(read_once, "node.onnx");
        oom_sweep_reads(read_once, "node.onnx");
        may_have_other_arguments(&all[i]);
    }
}

#define ARE_TOLD(all) are_told(all, sizeof(all) / sizeof *(all))

/* -- windows --------------------------------------------------------------------------------------------- */

static void windows_have_a_number_for_each_axis(void **state) {
    (void)state;
    static const told all[] = {
        {"Conv x,w,b", "strides=2,2 pads=1,1,1,1 dilations=1,2 group=1", "x 1,2,8,8 w:4,2,3,3 b:4",
         "onnx::Conv 0:1x2x8x8 1:4x2x3x3 2:4 3:[2,2] 4:[1,1] 5:[1,2] 6:false 7:[0,0] 8:1", 0},
        {"Conv x,w", "", "x 1,2,8 w:4,2,3", "onnx::Conv 0:1x2x8 1:4x2x3 3:[1] 4:[0] 5:[1] 6:false 7:[0] 8:1",
         0},
        {"Conv x,w", "auto_pad=SAME_UPPER", "x 1,2,8,8 w:4,2,4,4",
         "onnx::Conv 0:1x2x8x8 1:4x2x4x4 3:[1,1] 4:[1,1] 5:[1,1] 6:false 7:[0,0] 8:1", 0},
        {"Conv x,w", "auto_pad=SAME_LOWER strides=2,2", "x 1,2,9,9 w:4,2,4,4",
         "onnx::Conv 0:1x2x9x9 1:4x2x4x4 3:[2,2] 4:[2,2] 5:[1,1] 6:false 7:[0,0] 8:1", 0},
        {"Conv x,w", "auto_pad=SAME_LOWER strides=9,9", "x 1,2,8,8 w:4,2,3,3",
         "onnx::Conv 0:1x2x8x8 1:4x2x3x3 3:[9,9] 4:[0,0] 5:[1,1] 6:false 7:[0,0] 8:1", 0},
        {"Conv x,w", "auto_pad=VALID", "x 1,2,8,8 w:4,2,3,3",
         "onnx::Conv 0:1x2x8x8 1:4x2x3x3 3:[1,1] 4:[0,0] 5:[1,1] 6:false 7:[0,0] 8:1", 0},
        {"ConvInteger x,w", "", "x 1,2,8,8 w:4,2,3,3",
         "onnx::ConvInteger 0:1x2x8x8 1:4x2x3x3 3:[1,1] 4:[0,0] 5:[1,1] 6:false 7:[0,0] 8:1", 0},
        {"QLinearConv x,s,z,w,t,u,v,p,b", "", "x 1,2,8,8 s:1 z:1 w:4,2,3,3 t:1 u:1 v:1 p:1 b:4",
         "onnx::QLinearConv 0:1x2x8x8 1:4x2x3x3 2:4 3:[1,1] 4:[0,0] 5:[1,1] 6:false 7:[0,0] 8:1", 0},
        {"ConvTranspose x,w", "strides=2,2 output_padding=1,1 group=2", "x 1,2,4,4 w:2,3,2,2",
         "onnx::ConvTranspose 0:1x2x4x4 1:2x3x2x2 3:[2,2] 4:[0,0] 5:[1,1] 6:true 7:[1,1] 8:2", 0},
        {"MaxPool x", "kernel_shape=2,2 strides=2,2 ceil_mode=1", "x 1,2,8,8",
         "onnx::MaxPool.2d 0:1x2x8x8 1:[2,2] 2:[2,2] 3:[0,0] 4:[1,1] 5:true", 0},
        {"MaxPool x", "kernel_shape=3,", "x 1,2,8",
         "onnx::MaxPool.1d 0:1x2x8 1:[3] 2:[1] 3:[0] 4:[1] 5:false", 0},
        /* windows that no padding fits */
        {"Conv x,w", "auto_pad=SAME_UPPER", "x 1,2,8,n w:4,2,4,4",
         "onnx::Conv 0:? 1:4x2x4x4 3:[1,1] 4:[1,0] 5:[1,1] 6:false 7:[0,0] 8:1", 0},
        {"Conv x,w", "auto_pad=SAME_UPPER", "x 1,2,8 w:4,2,4,4",
         "onnx::Conv 0:1x2x8 1:4x2x4x4 3:[1,1] 4:[0,0] 5:[1,1] 6:false 7:[0,0] 8:1", 0},
        {"MaxPool x", "kernel_shape=0,4 auto_pad=SAME_UPPER", "x 1,2,8,8",
         "onnx::MaxPool.2d 0:1x2x8x8 1:[0,4] 2:[1,1] 3:[0,1] 4:[1,1] 5:false", 0},
        {"MaxPool x", "kernel_shape=4294967296,4 auto_pad=SAME_UPPER", "x 1,2,8,8",
         "onnx::MaxPool.2d 0:1x2x8x8 1:[4294967296,4] 2:[1,1] 3:[0,1] 4:[1,1] 5:false", 0},
        {"MaxPool x", "kernel_shape=4,4 strides=0,4294967296 auto_pad=SAME_UPPER", "x 1,2,8,8",
         "onnx::MaxPool.2d 0:1x2x8x8 1:[4,4] 2:[0,4294967296] 3:[0,0] 4:[1,1] 5:false", 0},
        {"MaxPool x", "kernel_shape=4,4 dilations=0,4294967296 auto_pad=SAME_UPPER", "x 1,2,8,8",
         "onnx::MaxPool.2d 0:1x2x8x8 1:[4,4] 2:[1,1] 3:[0,0] 4:[0,4294967296] 5:false", 0},
        {"MaxPool x", "kernel_shape=1,2,3,4", "x 1,2,8",
         "onnx::MaxPool 0:1x2x8 1:[1,2,3,4] 2:[1,1,1,1] "
         "3:[0,0,0,0] 4:[1,1,1,1] 5:false",
         0},
        {"AveragePool x", "kernel_shape=2,2 pads=1,1,1,1", "x 1,2,8,8",
         "onnx::AveragePool.2d 0:1x2x8x8 1:[2,2] 2:[1,1] 3:[1,1] 4:false", 0},
        {"AveragePool x", "kernel_shape=2,2,2", "x 1,2,8,8,8",
         "onnx::AveragePool.3d 0:1x2x8x8x8 1:[2,2,2] 2:[1,1,1] 3:[0,0,0] 4:false", 0},
        {"GlobalAveragePool x", "", "x 1,2,8,8", "onnx::GlobalAveragePool.2d 0:1x2x8x8", 0},
        {"GlobalMaxPool x", "", "x 1,2,8", "onnx::GlobalMaxPool.1d 0:1x2x8", 0},
        {"Resize x,-,s", "mode=linear", "x 1,2,8,8 s:4", "onnx::Resize.linear2d 0:1x2x8x8", 0},
        {"Upsample x,s", "mode=nearest", "x 1,2,8,8 s:4", "onnx::Upsample.nearest2d 0:1x2x8x8", 9},
        {"Resize x,-,-,z", "mode=cubic", "x 1,2,8,8 z=1,2,16,16", "onnx::Resize.cubic2d 0:1x2x8x8", 0},
        {"Resize x,-,-,z", "mode=linear antialias=1", "x 1,2,8,8 z=1,2,16,16", "onnx::Resize 0:1x2x8x8", 18},
        {"Resize x,-,-,z", "mode=cubic", "x 1,2,8 z=1,2,16", "onnx::Resize 0:1x2x8", 18},
        {"Resize x,-,-,z", "mode=other", "x 1,2,8 z=1,2,16", "onnx::Resize 0:1x2x8", 18},
        {"Resize x,-,-,z", "", "x 1,2,n z=1,2,16", "onnx::Resize.nearest2d 0:?", 18},
    };
    ARE_TOLD(all);
}

/* -- products -------------------------------------------------------------------------------------------- */

static void factors_are_as_they_are_multiplied(void **state) {
    (void)state;
    static const told all[] = {
        {"MatMul x,w", "", "x 2,3 w:3,4", "onnx::MatMul 0:2x3 1:3x4", 0},
        {"QLinearMatMul x,s,z,w,t,u,v,p", "", "x 2,3 s:1 z:1 w:3,4 t:1 u:1 v:1 p:1",
         "onnx::QLinearMatMul 0:2x3 1:3x4", 0},
        {"MatMulInteger x,w", "", "x 2,3 w:3,4", "onnx::MatMulInteger 0:2x3 1:3x4", 0},
        {"Gemm x,w,b", "transB=1 alpha=0.5 beta=2.0", "x 2,3 w:4,3 b:4",
         "onnx::Gemm 0:4 1:2x3 2:3x4 3:2 4:0.5", 0},
        {"Gemm x,w", "transA=1 beta=2.0", "x 3,2 w:3,4", "onnx::Gemm 1:2x3 2:3x4 3:1 4:1", 0},
        {"Einsum x,w", "equation=bij,bjk->bik", "x 5,2,3 w:5,3,4", "onnx::Einsum.product 0:10x3 1:5x3x4", 0},
        {"Einsum x,w", "equation=ij,jk->ik", "x 2,3 w:3,4", "onnx::Einsum.product 0:2x3 1:3x4", 0},
        {"Einsum x,w", "equation=~i~j,~j~k~->~i~k", "x 2,3 w:3,4", "onnx::Einsum.product 0:2x3 1:3x4", 0},
        {"Einsum x,w", "equation=ij,jk", "x 2,3 w:3,4", "onnx::Einsum.product 0:2x3 1:3x4", 0},
        {"Einsum x,w", "equation=ij,jk", "x 2,1 w:3,4", "onnx::Einsum 0:2x1 1:3x4", 0},
        {"Einsum x,w", "equation=ij,jk", "x 2,3 w n,4", "onnx::Einsum 0:2x3 1:?", 0},
        {"Einsum x,w", "equation=ij,jk->iz", "x 2,3 w:3,4", "onnx::Einsum 0:2x3 1:3x4", 0},
        {"Einsum x,w", "equation=ij,jk->ik", "x 2,3,4 w:3,4", "onnx::Einsum 0:2x3x4 1:3x4", 0},
        {"Einsum x,w", "equation=ijk,jk->ik", "x 2,3 w:3,4", "onnx::Einsum 0:2x3 1:3x4", 0},
        {"Einsum x,w", "equation=ij,jk->ik", "x 2,n w:3,4", "onnx::Einsum 0:? 1:3x4", 0},
        {"Einsum x,w", "equation=ij,jk->ik", "x 2,0 w:3,4", "onnx::Einsum 0:2x0 1:3x4", 0},
        {"Einsum x,w,v", "equation=ij,jk->ik", "x 2,3 w:3,4 v:1", "onnx::Einsum 0:2x3 1:3x4 2:1", 0},
        {"Einsum x,w", "equation=ii,ik->ik", "x 3,3 w:3,4", "onnx::Einsum 0:3x3 1:3x4", 0},
        {"Einsum x,w", "equation=ij,jkz->ik", "x 2,3 w:3,4,6", "onnx::Einsum 0:2x3 1:3x4x6", 0},
        {"Einsum x,w", "equation=ijz,jk->ik", "x 2,3,6 w:3,4", "onnx::Einsum 0:2x3x6 1:3x4", 0},
        {"Einsum x", "equation=ij->ji", "x 2,3", "onnx::Einsum 0:2x3", 0},
        {"Einsum x,w,v", "equation=ij,jk,kl->il", "x 2,3 w:3,4 v:4,5", "onnx::Einsum 0:2x3 1:3x4 2:4x5", 0},
        {"Einsum x,w", "equation=...ij,jk->...ik", "x 2,3 w:3,4", "onnx::Einsum.product 0:2x3 1:3x4", 0},
        {"Einsum x,w", "equation=...ij,...jk->...ik", "x 5,2,3 w:7,1,3,4",
         "onnx::Einsum.product 0:10x3 1:7x1x3x4", 0},
        {"Einsum x,w", "equation=...ij,...jk->ik", "x 5,2,3 w:3,4", "onnx::Einsum 0:5x2x3 1:3x4", 0},
    };
    ARE_TOLD(all);
}

/* -- axes ------------------------------------------------------------------------------------------------ */

static void axes_are_those_of_the_version(void **state) {
    (void)state;
    static const told all[] = {
        {"Softmax x", "axis=1", "x 2,3,4", "onnx::Softmax 0:2x3x4 1:1", 0},
        {"Softmax x", "", "x 2,3,4", "onnx::Softmax 0:2x12 1:1", 11},
        {"Softmax x", "axis=-1", "x 2,3,4", "onnx::Softmax 0:2x3x4 1:-1", 11},
        {"Softmax x", "axis=-2", "x 2,3,4", "onnx::Softmax 0:2x12 1:1", 11},
        {"Softmax x", "axis=-2", "x 2,3,n", "onnx::Softmax 0:? 1:-2", 11},
        {"LogSoftmax x", "axis=0", "x 2,3,4", "onnx::LogSoftmax 0:1x24 1:1", 11},
        {"ReduceSum x,a", "", "x 2,3,4 a=1,2", "onnx::ReduceSum 0:2x3x4 1:[1,2] 2:true", 0},
        {"ReduceSum x,a", "", "x 2,3,4 a#1,-1", "onnx::ReduceSum 0:2x3x4 1:[1,-1] 2:true", 0},
        {"ReduceSum x,a", "", "x 2,3,4 a#0,1,2,0,1,2,0,1,2,0,1,2,0,1,2,0,1,2,0,1,2,0,1,2,0,1,2,0,1,2,0,1,2",
         "onnx::ReduceSum 0:2x3x4 2:true", 0},
        {"ReduceMean x", "axes=1,2 keepdims=0", "x 2,3,4", "onnx::ReduceMean 0:2x3x4 1:[1,2] 2:false", 0},
        {"ReduceMax x", "", "x 2,3,4", "onnx::ReduceMax 0:2x3x4 2:true", 0},
        {"ArgMax x", "axis=1", "x 2,3,4", "onnx::ArgMax 0:2x3x4 1:1", 0},
        {"Concat x,z", "axis=1", "x 2,3 z 2,4", "onnx::Concat 0:2x3 0:2x4 1:1", 0},
        {"CumSum x,a", "", "x 2,3 a==1", "onnx::CumSum 0:2x3 1:1", 0},
        {"CumSum x,a", "", "x 2,3 a 1", "onnx::CumSum 0:2x3", 0},
        {"TopK x,k", "axis=0", "x 5,3 k=2", "onnx::TopK 0:5x3 1:2 2:0", 0},
        {"TopK x", "k=2", "x 5,3", "onnx::TopK 0:5x3 1:2 2:-1", 9},
        {"Split x", "axis=1", "x 2,4", "onnx::Split 0:2x4 2:1", 0},
        {"Transpose x", "perm=1,0", "x 2,3", "onnx::Transpose 0:2x3 1:[1,0]", 0},
        {"Transpose x", "", "x 2,3,4", "onnx::Transpose 0:2x3x4 1:[2,1,0]", 0},
        {"Gather x,i", "axis=1", "x 5,3 i=0,2", "onnx::Gather.axis 0:5x3 1:1 2:2", 0},
        {"Gather x,i", "axis=0", "x 5,3 i=0,2", "onnx::Gather 0:5x3 1:2", 0},
        {"Gather x,i", "axis=1", "x 5,3 i==2", "onnx::Gather.one 0:5x3 1:1 2:2", 0},
        {"Gather x,i", "", "x 5,3 i 2", "onnx::Gather 0:5x3 1:2", 0},
        {"GatherElements x,i", "axis=1", "x 2,2 i 2,2", "onnx::GatherElements 0:2x2 1:1 2:2x2", 0},
        {"Slice x,f,t,a,s", "", "x 5,4 f=1 t=3 a=1 s=2", "onnx::Slice 0:5x4 1:1 2:1 3:3 4:2", 0},
        {"Slice x,f,t", "", "x 5,4 f=1 t=3", "onnx::Slice 0:5x4 1:0 2:1 3:3 4:1", 0},
        {"Slice x,f,t,a", "", "x 5,4 f=1,1 t=3,2 a=0,1", "onnx::Slice.axes 0:5x4", 0},
        {"Slice x", "starts=1, ends=3, axes=1,", "x 5,4", "onnx::Slice 0:5x4 1:1 2:1 3:3 4:1", 9},
        {"Pad x,p", "", "x 2,3 p=0,1,0,2", "onnx::Pad 0:2x3 1:[1,2,0,0]", 0},
        {"Pad x,p", "mode=reflect", "x 2,3 p=0,1,0,1", "onnx::Pad.reflect 0:2x3 1:[1,1,0,0]", 0},
        {"Pad x,p", "mode=wrap", "x 2,3 p=0,1,0,1", "onnx::Pad.wrap 0:2x3 1:[1,1,0,0]", 0},
        {"Pad x,p", "mode=constant", "x 2,3 p=0,1,0,1", "onnx::Pad 0:2x3 1:[1,1,0,0]", 0},
        {"Pad x,p", "mode=other", "x 2,3 p=0,1,0,1", "onnx::Pad 0:2x3 1:[1,1,0,0]", 0},
        {"Pad x,p,-,a", "", "x 2,3 p=1,2 a=1", "onnx::Pad 0:2x3", 18},
        {"Pad x", "pads=0,1,0,2 mode=edge", "x 2,3", "onnx::Pad.edge 0:2x3 1:[1,2,0,0]", 9},
        {"DepthToSpace x", "blocksize=2 mode=CRD", "x 1,8,2,2", "onnx::DepthToSpace.crd 0:1x8x2x2 1:2", 0},
        {"DepthToSpace x", "blocksize=2", "x 1,8,2,2", "onnx::DepthToSpace 0:1x8x2x2 1:2", 0},
        {"DepthToSpace x", "blocksize=2 mode=DCR", "x 1,8,2,2", "onnx::DepthToSpace 0:1x8x2x2 1:2", 0},
    };
    ARE_TOLD(all);
}

/* -- others ---------------------------------------------------------------------------------------------- */

static void settings_stand_where_rules_read_them(void **state) {
    (void)state;
    static const told all[] = {
        {"Clip x,l,h", "", "x 2,3 l:1 h:1", "onnx::Clip 0:2x3 1:1 2:1", 0},
        {"Clip x", "min=0.0 max=6.0", "x 2,3", "onnx::Clip 0:2x3 1:0 2:6", 9},
        {"Gelu x", "approximate=tanh", "x 2,3", "onnx::Gelu 0:2x3 1:tanh", 20},
        {"Gelu x", "", "x 2,3", "onnx::Gelu 0:2x3 1:none", 20},
        {"Sum x,z,x", "", "x 2,3 z 2,3", "onnx::Sum.many 0:2x3 1:2x3 2:2x3", 0},
        {"Max x,z", "", "x 2,3 z 2,3", "onnx::Max 0:2x3 1:2x3", 0},
        {"BatchNormalization x,a,b,m,v", "", "x 1,2,4 a:2 b:2 m:2 v:2",
         "onnx::BatchNormalization 0:1x2x4 1:2 2:2 3:2 4:2 5:false", 0},
        {"LayerNormalization x,a,b", "axis=-2", "x 2,3,4 a:3,4 b:3,4",
         "onnx::LayerNormalization 0:2x3x4 1:[3,4] 2:3x4 3:3x4", 0},
        {"LayerNormalization x,a", "axis=9", "x 2,3,4 a:4", "onnx::LayerNormalization 0:2x3x4 2:4", 0},
        {"GroupNormalization x,a,b", "num_groups=2", "x 1,4,3 a:4 b:4",
         "onnx::GroupNormalization 0:1x4x3 1:2 2:4 3:4", 21},
        {"LSTM x,w,r,b", "hidden_size=4", "x 2,5,3 w:1,16,3 r:1,16,4 b:1,32",
         "onnx::LSTM 0:2x5x3 1:1x16x3 1:1x16x4 1:1x32 2:4 4:4 6:2 7:4 9:1 10:false 11:0 12:false 13:false",
         0},
        {"GRU x,w,r,-,-,h", "direction=bidirectional", "x 2,5,3 w:2,12,3 r:2,12,4 h 2,5,4",
         "onnx::GRU 0:2x5x3 1:2x12x3 1:2x12x4 2:2 4:2x5x4 6:3 7:4 9:1 10:false 11:0 12:false 13:true", 0},
        {"RNN x,w,r", "activations=Relu;", "x 2,5,3 w:1,4,3 r:1,4,4",
         "onnx::RNN 0:2x5x3 1:1x4x3 1:1x4x4 2:2 4:4 6:0 7:4 9:1 10:false 11:0 12:false 13:false", 0},
        {"RNN x,w,r", "", "x 2,5,3 w:1,4,3 r:1,4,4",
         "onnx::RNN 0:2x5x3 1:1x4x3 1:1x4x4 2:2 4:4 6:1 7:4 9:1 10:false 11:0 12:false 13:false", 0},
        {"RNN x,w,r", "activations=Tanh; direction=reverse", "x 2,5,3 w:1,4,3 r:1,4,4",
         "onnx::RNN 0:2x5x3 1:1x4x3 1:1x4x4 2:2 4:4 6:1 7:4 9:1 10:false 11:0 12:false 13:false", 0},
        {"RNN x,w,r", "", "x 2,5,3 w:1,4,3 r:4,4",
         "onnx::RNN 0:2x5x3 1:1x4x3 1:4x4 2:2 6:1 9:1 10:false 11:0 12:false 13:false", 0},
        {"Attention x,k,v", "q_num_heads=2 kv_num_heads=2 is_causal=1", "x 1,5,8 k 1,6,8 v 1,6,8",
         "onnx::Attention.node 0:1x2x5x4 1:1x2x6x4 2:1x2x6x4 5:true", 23},
        {"Attention x,k,v", "q_num_heads=3 kv_num_heads=2", "x 1,5,8 k 1,6,8 v 1,6,8",
         "onnx::Attention.node 0:? 1:1x2x6x4 2:1x2x6x4 5:false", 23},
        {"Attention x,k,v", "", "x 1,2,5,4 k 1,2,6,4 v 1,2,6,4",
         "onnx::Attention.node 0:1x2x5x4 1:1x2x6x4 2:1x2x6x4 5:false", 23},
        {"Attention x,k,v,m", "", "x 1,2,5,4 k 1,2,6,4 v 1,2,6,4 m 5,6",
         "onnx::Attention.node 0:1x2x5x4 1:1x2x6x4 2:1x2x6x4 3:5x6 5:false", 23},
    };
    ARE_TOLD(all);
}

/* -- attention with a cache, and what is fused into it --------------------------------------------------- */

/* Sizes inside are lists at 0 to 2, flags and numbers at 5 to 10, the tensors at their roles or from 16 on.
 */
static void caches_are_told(void **state) {
    (void)state;
    static const told all[] = {
        {"Attention x,k,v,-,p,q", "is_causal=1", "x 1,2,5,4 k 1,2,6,4 v 1,2,6,4 p 1,2,3,4 q 1,2,3,4",
         "onnx::Attention.cached 0:[1,5,2,4] 1:[1,9,2,4] 2:[1,9,2,4] 8:3 5:true 16:1x2x5x4 17:1x2x6x4 "
         "18:1x2x6x4 20:1x2x3x4 21:1x2x3x4",
         23},
        {"Attention x,k,v", "q_num_heads=2 kv_num_heads=1 softcap=2.0", "x 1,5,8 k 1,6,4 v 1,6,4",
         "onnx::Attention.cached 0:[1,5,2,4] 1:[1,6,1,4] 2:[1,6,1,4] 8:0 5:false 10:true 16:1x5x8 17:1x6x4 "
         "18:1x6x4",
         23},
        {"Attention x,k,v,m,-,-,n", "left_window_size=2 right_window_size=1",
         "x 1,2,5,4 k 1,2,6,4 v 1,2,6,4 m 5,6 n=6",
         "onnx::Attention.cached 0:[1,5,2,4] 1:[1,6,2,4] 2:[1,6,2,4] 8:0 5:0 6:2 7:1 16:1x2x5x4 17:1x2x6x4 "
         "18:1x2x6x4 3:5x6 22:1",
         24},
        {"Attention x,k,v,-,p,q", "", "x 1,2,5,4 k 1,2,6,4 v 1,2,6,4 p n,2,3,4 q 1,2,3,4",
         "onnx::Attention.cached 5:false 16:1x2x5x4 17:1x2x6x4 18:1x2x6x4 20:? 21:1x2x3x4", 23},
        {"ms.GroupQueryAttention x,k,v,p,q,s,t", "num_heads=2 kv_num_heads=1",
         "x 1,1,8 k 1,1,4 v 1,1,4 p 1,1,3,4 q 1,1,3,4 s#3 t#4",
         "com.microsoft::GroupQueryAttention 0:[1,1,2,4] 1:[1,4,1,4] 2:[1,4,1,4] 8:3 5:true 16:1x1x8 "
         "17:1x1x4 18:1x1x4 19:1x1x3x4 20:1x1x3x4 21:1 22:1",
         0},
        {"ms.GroupQueryAttention x,-,-,p,q,s,t,c,d",
         "num_heads=2 kv_num_heads=1 do_rotary=1 local_window_size=2",
         "x 1,1,16 p 1,1,9,4 q 1,1,9,4 s#3 t#4 c:32,1 d:32,1",
         "com.microsoft::GroupQueryAttention 0:[1,1,2,4] 1:[1,4,1,4] 2:[1,4,1,4] 8:3 5:true 6:1 9:2 "
         "16:1x1x16 19:? 20:? 21:1 22:1 23:1x1 24:1x1",
         0},
        {"ms.GroupQueryAttention x,k,v,-,-,s,t,-,-,-,m,h,-,-,a,b",
         "num_heads=2 kv_num_heads=2 softcap=3.0 causal=0",
         "x 2,5,8 k 2,5,8 v 2,5,8 s#4,4 t 1 m 2,2,5,5 h:2 a:4 b:4",
         "com.microsoft::GroupQueryAttention 0:[2,5,2,4] 1:[2,5,2,4] 2:[2,5,2,4] 8:0 5:0 10:true 14:true "
         "16:2x5x8 17:2x5x8 18:2x5x8 21:2 22:1 3:2x2x5x5 27:2 15:4 31:4",
         0},
        {"ms.GroupQueryAttention x,k,v,p,q,s,t", "num_heads=2 kv_num_heads=1",
         "x 1,1,8 k 1,1,4 v 1,1,4 p 1,1,3,4 q 1,1,3,4 s 1 t 1",
         "com.microsoft::GroupQueryAttention 5:true 16:1x1x8 17:1x1x4 18:1x1x4 19:? 20:? 21:1 22:1", 0},
        {"ms.GroupQueryAttention x,k,v,p,q,s,t", "num_heads=2 kv_num_heads=1 sliding_window_cache=1",
         "x 1,1,8 k 1,1,4 v 1,1,4 p 1,1,3,4 q 1,1,3,4 s#3 t#4",
         "com.microsoft::GroupQueryAttention 5:true 16:1x1x8 17:1x1x4 18:1x1x4 19:? 20:? 21:1 22:1", 0},
    };
    ARE_TOLD(all);
}

static void other_attentions_are_told(void **state) {
    (void)state;
    static const told all[] = {
        {"ms.MultiHeadAttention x,k,v,b,m,e,p,q", "num_heads=2 unidirectional=1",
         "x 1,5,8 k 1,5,8 v 1,5,8 b:24 m 1,8 e 1,2,5,8 p 1,2,3,4 q 1,2,3,4",
         "com.microsoft::MultiHeadAttention 0:[1,5,2,4] 1:[1,8,2,4] 2:[1,8,2,4] 8:3 5:true 16:1x5x8 17:1x5x8 "
         "18:1x5x8 13:24 4:1x8 3:1x2x5x8 22:1x2x3x4 23:1x2x3x4",
         0},
        {"ms.MultiHeadAttention x", "num_heads=2", "x 1,5,2,3,4",
         "com.microsoft::MultiHeadAttention 0:[1,5,2,4] 1:[1,5,2,4] 2:[1,5,2,4] 8:0 5:false 16:1x5x2x3x4", 0},
        {"ms.MultiHeadAttention x,k", "num_heads=2", "x 1,5,8 k 1,6,2,2,4",
         "com.microsoft::MultiHeadAttention 0:[1,5,2,4] 1:[1,6,2,4] 2:[1,6,2,4] 8:0 5:false 16:1x5x8 "
         "17:1x6x2x2x4",
         0},
        {"ms.MultiHeadAttention x,k,v", "num_heads=2", "x 1,5,8 k 1,2,6,4 v 1,2,6,4",
         "com.microsoft::MultiHeadAttention 0:[1,5,2,4] 1:[1,6,2,4] 2:[1,6,2,4] 8:0 5:false 16:1x5x8 "
         "17:1x2x6x4 18:1x2x6x4",
         0},
        {"ms.MultiHeadAttention x,k,v,-,-,-,p,q", "num_heads=2",
         "x 1,1,8 k 1,2,6,4 v 1,2,6,4 p 1,2,9,4 q 1,2,9,4",
         "com.microsoft::MultiHeadAttention 5:false 16:1x1x8 17:1x2x6x4 18:1x2x6x4 22:? 23:?", 0},
        {"ms.MultiHeadAttention x,k,v,-,-,-,p,q,n", "num_heads=2",
         "x 1,1,8 k 1,1,8 v 1,1,8 p 1,2,9,4 q 1,2,9,4 n#3",
         "com.microsoft::MultiHeadAttention 0:[1,1,2,4] 1:[1,4,2,4] 2:[1,4,2,4] 8:3 5:false 16:1x1x8 "
         "17:1x1x8 18:1x1x8 22:? 23:? 24:1",
         0},
        {"ms.Attention x,w,b,m,p", "num_heads=2 unidirectional=1 do_rotary=1",
         "x 1,5,6 w:6,24 b:24 m 1,8 p 2,1,2,3,4",
         "com.microsoft::Attention 0:[1,5,2,4] 1:[1,8,2,4] 2:[1,8,2,4] 8:3 5:true 9:4 11:1x5x6 12:6x24 13:24 "
         "4:1x8 20:2x1x2x3x4",
         0},
        {"ms.Attention x,w,b,-,p,e,n", "num_heads=2 qkv_hidden_sizes=8,8,4 past_present_share_buffer=1",
         "x 1,5,6 w:6,20 b:20 p 2,1,2,9,4 e 1,2,5,8 n#3",
         "com.microsoft::Attention 0:[1,5,2,4] 1:[1,8,2,4] 2:[1,8,2,2] 8:3 5:false 11:1x5x6 12:6x20 13:20 "
         "20:? 3:1x2x5x8 22:1",
         0},
        {"ms.QAttention x,w,b,s,t,m,z,r,p", "num_heads=2",
         "x 1,5,6 w:6,24 b:24 s:1 t:1 m 1 z:1 r:1 p 2,1,2,3,4",
         "com.microsoft::QAttention 0:[1,5,2,4] 1:[1,8,2,4] 2:[1,8,2,4] 8:3 5:false 11:1x5x6 12:6x24 13:24 "
         "19:1 20:1 4:1 22:1 23:1 24:2x1x2x3x4",
         0},
        {"ms.QAttention x,w,b,s,t,m,z,r,p", "num_heads=2 past_present_share_buffer=1",
         "x 1,5,6 w:6,24 b:24 s:1 t:1 m 1 z:1 r:1 p 2,1,2,3,4",
         "com.microsoft::QAttention 5:false 11:1x5x6 12:6x24 13:24 19:1 20:1 4:1 22:1 23:1 24:?", 0},
    };
    ARE_TOLD(all);
}

static void what_is_fused_is_told(void **state) {
    (void)state;
    static const told all[] = {
        {"RotaryEmbedding x,c,s,p", "", "x 1,2,5,4 c:9,2 s:9,2 p 1,5",
         "onnx::RotaryEmbedding.node 0:1x5x2x4 1:4 17:5x2 18:5x2 19:1x5", 23},
        {"RotaryEmbedding x,c,s", "num_heads=2 rotary_embedding_dim=2", "x 1,5,8 c:1,5,1 s:1,5,1",
         "onnx::RotaryEmbedding.node 0:1x5x2x4 1:2 17:1x5x1 18:1x5x1", 23},
        {"ms.RotaryEmbedding x,p,c,s", "", "x 1,5,8 p 1,5 c:9,2 s:9,2",
         "com.microsoft::RotaryEmbedding 0:1x5x2x4 1:4 17:1x5 18:5x2 19:5x2", 0},
        {"ms.RotaryEmbedding x,p,c,s", "", "x n,5,8 p 1,5 c:9,2 s:9,2", "com.microsoft::RotaryEmbedding 0:?",
         0},
        {"ms.SkipLayerNormalization x,r,g,b,a", "", "x 1,5,4 r 1,5,4 g:4 b:4 a:4",
         "com.microsoft::SkipLayerNormalization 0:1x5x4 1:1x5x4 2:4 3:4 4:4", 0},
        {"ms.SkipSimplifiedLayerNormalization x,r,g", "", "x 1,5,4 r 1,5,4 g:4",
         "com.microsoft::SkipSimplifiedLayerNormalization 0:1x5x4 1:1x5x4 2:4", 0},
        {"SimplifiedLayerNormalization x,g", "axis=-1", "x 1,5,4 g:4",
         "onnx::SimplifiedLayerNormalization 0:1x5x4 1:[4] 2:4", 0},
        {"ms.MoE x,r,a,-,b,-,c", "k=2", "x 6,4 r 6,3 a:3,8,4 b:3,4,8 c:3,8,4",
         "com.microsoft::MoE 0:6x4 1:2 2:[32,32,32] 3:6x3 4:3x8x4 6:3x4x8 8:3x8x4", 0},
        {"ms.MoE x,r,a,-,b", "", "x 6,4 r 6,3 a n,8,4 b:3,4,8",
         "com.microsoft::MoE 0:6x4 1:1 3:6x3 4:? 6:3x4x8", 0},
        {"ms.QMoE x,r,a,s,-,b,t", "k=2 expert_weight_bits=8", "x 6,4 r 6,3 a:3,8,4 s:3,8 b:3,4,8 t:3,4",
         "com.microsoft::QMoE 0:6x4 1:2 2:[32,32] 3:6x3 4:3x8x4 5:3x8 7:3x4x8 8:3x4", 0},
        {"ms.FusedMatMul x,w", "transA=1 transB=1 alpha=0.5", "x 2,5,4 w:3,5",
         "com.microsoft::FusedMatMul 0:2x4x5 1:5x3 2:0.5", 0},
        {"ms.TransposeMatMul x,w", "", "x 5 w:5,3", "com.microsoft::TransposeMatMul 0:5 1:5x3 2:1", 0},
        {"ms.QGemm x,s,z,w,t,u,b,v,r", "transB=1", "x 2,3 s:1 z:1 w:4,3 t:1 u:1 b:4 v:1 r:1",
         "com.microsoft::QGemm 0:4 1:2x3 2:3x4 3:1 4:1", 0},
        {"ms.FusedGemm x,w,b", "activation=Relu", "x 2,3 w:3,4 b:4",
         "com.microsoft::FusedGemm 0:4 1:2x3 2:3x4 3:1 4:1 5:false", 0},
        {"ms.FusedGemm x,w,b", "activation=Tanh", "x 2,3 w:3,4 b:4",
         "com.microsoft::FusedGemm 0:4 1:2x3 2:3x4 3:1 4:1", 0},
        {"ms.FusedConv x,w,b", "activation=Relu", "x 1,2,8,8 w:4,2,3,3 b:4",
         "com.microsoft::FusedConv.act 0:1x2x8x8 1:4x2x3x3 2:4 3:[1,1] 4:[0,0] 5:[1,1] 6:false 7:[0,0] 8:1",
         0},
        {"ms.FusedConv x,w,-,z", "", "x 1,2,8,8 w:4,2,3,3 z 1,4,6,6",
         "com.microsoft::FusedConv.act 0:1x2x8x8 1:4x2x3x3 3:[1,1] 4:[0,0] 5:[1,1] 6:false 7:[0,0] 8:1 "
         "9:1x4x6x6",
         0},
        {"ms.FusedConv x,w", "", "x 1,2,8,8 w:4,2,3,3",
         "com.microsoft::FusedConv 0:1x2x8x8 1:4x2x3x3 3:[1,1] 4:[0,0] 5:[1,1] 6:false 7:[0,0] 8:1", 0},
        {"ms.FastGelu x,b", "", "x 2,3 b:3", "com.microsoft::FastGelu.bias 0:2x3 1:3", 0},
        {"ms.FastGelu x", "", "x 2,3", "com.microsoft::FastGelu 0:2x3", 0},
        {"ms.QLinearAdd x,s,z,r,t,u,v,w", "", "x 2,3 s:1 z:1 r 3 t:1 u:1 v:1 w:1",
         "com.microsoft::QLinearAdd 0:2x3 1:3", 0},
        {"ms.QLinearConcat s,z,x,t,u,r,v,w", "axis=1", "s:1 z:1 x 2,3 t:1 u:1 r 2,5 v:1 w:1",
         "com.microsoft::QLinearConcat 0:2x3 0:2x5 1:1", 0},
        {"ms.QLinearSoftmax x,s,z,t,u", "axis=1 opset=13", "x 2,3,4 s:1 z:1 t:1 u:1",
         "com.microsoft::QLinearSoftmax 0:2x3x4 1:1", 0},
        {"ms.QLinearSoftmax x,s,z,t,u", "axis=1 opset=12", "x 2,3,4 s:1 z:1 t:1 u:1",
         "com.microsoft::QLinearSoftmax 0:2x12 1:1", 0},
        {"ms.QLinearReduceMean x,s,z,t,u", "axes=1, keepdims=0", "x 2,3,4 s:1 z:1 t:1 u:1",
         "com.microsoft::QLinearReduceMean 0:2x3x4 1:[1] 2:false", 0},
        {"ms.QLinearWhere c,x,s,z,r,t,u,v,w", "", "c 2,3 x 2,3 s:1 z:1 r 2,3 t:1 u:1 v:1 w:1",
         "com.microsoft::QLinearWhere 0:2x3 1:2x3 2:2x3", 0},
        {"ms.QLinearAveragePool x,s,z,t,u", "kernel_shape=2,2 channels_last=1", "x 1,8,8,2 s:1 z:1 t:1 u:1",
         "com.microsoft::QLinearAveragePool 0:1x8x8x2 1:[2,2] 2:[1,1] 3:[0,0] 4:false", 0},
        {"ms.QLinearGlobalAveragePool x,s,z,t,u", "", "x 1,2,8,8 s:1 z:1 t:1 u:1",
         "com.microsoft::QLinearGlobalAveragePool.2d 0:1x2x8x8", 0},
        {"ms.QLinearGlobalAveragePool x,s,z,t,u", "channels_last=1", "x 1,8,8,2 s:1 z:1 t:1 u:1",
         "com.microsoft::QLinearGlobalAveragePool 0:1x8x8x2", 0},
        {"ms.GatherBlockQuantized w,i,s", "", "w:9,4 i 2,3 s:9,1",
         "com.microsoft::GatherBlockQuantized 0:? 1:2x3 2:?", 0},
        {"ms.EmbedLayerNormalization i,-,w,p,-,g,b", "", "i 2,3 w:9,4 p:8,4 g:4 b:4",
         "com.microsoft::EmbedLayerNormalization 0:2x3 2:? 3:? 5:4 6:4", 0},
        {"DeformConv x,w,o,b,m", "", "x 1,4,8,8 w:6,4,3,3 o 1,18,6,6 b:6 m 1,9,6,6",
         "onnx::DeformConv 0:1x4x8x8 1:6x4x3x3 2:1x18x6x6 4:6 3:1x9x6x6 13:true", 22},
        {"DeformConv x,w,o", "", "x 1,4,8,8 w:6,4,3,3 o 1,18,6,6",
         "onnx::DeformConv 0:1x4x8x8 1:6x4x3x3 2:1x18x6x6 13:false", 22},
    };
    ARE_TOLD(all);
}

static void blocks_and_states_are_told(void **state) {
    (void)state;
    static const told all[] = {
        {"nc.Conv x,w,b", "activation=Relu", "x 1,3,8,8 w:16,3,3,3 b:16",
         "com.microsoft.nchwc::Conv.act 0:1x3x8x8 1:16x3x3x3 2:16 3:[1,1] 4:[0,0] 5:[1,1] 6:false 7:[0,0] "
         "8:1",
         0},
        {"nc.MaxPool x", "kernel_shape=2,2 strides=2,2", "x 1,16,8,8",
         "com.microsoft.nchwc::MaxPool.2d 0:1x16x8x8 1:[2,2] 2:[2,2] 3:[0,0] 4:[1,1] 5:false", 0},
        {"nc.Upsample x", "mode=nearest", "x 1,16,8,8", "com.microsoft.nchwc::Upsample.nearest2d 0:1x16x8x8",
         0},
        {"nc.ReorderInput x", "", "x 1,16,8,8", "com.microsoft.nchwc::ReorderInput 0:1x16x8x8", 0},
        {"ms.CausalConvWithState x,w,b,z", "dilation=2", "x 2,6,9 w:6,1,4 b:6 z 2,6,6",
         "com.microsoft::CausalConvWithState 0:2x6x9 1:6x1x4 2:6 3:[1] 4:[6] 5:[2] 6:false 7:[0] 8:6", 0},
        {"CausalConvWithState x,w", "activation=silu", "x 2,6,9 w:6,1,4",
         "onnx::CausalConvWithState.act 0:2x6x9 1:6x1x4 3:[1] 4:[3] 5:[1] 6:false 7:[0] 8:6", 0},
        {"ms.CausalConvWithState x,w", "channels_last=1", "x 2,9,6 w:6,1,4",
         "com.microsoft::CausalConvWithState.other 0:2x9x6 1:6x1x4 3:[1] 4:[3] 5:[1] 6:false 7:[0] 8:6", 0},
        {"LinearAttention q,k,v,s,g", "q_num_heads=4 kv_num_heads=2 update_rule=gated",
         "q 2,7,24 k 2,7,12 v 2,7,10 s 2,2,6,5 g 2,7,2",
         "onnx::LinearAttention 0:2x7x24 1:180 2:2x7x12 3:2x7x10 4:2x2x6x5 5:2x7x2", 0},
        {"ms.LinearAttention q,k,v", "q_num_heads=2 kv_num_heads=4", "q 2,7,12 k 2,7,24 v 2,7,20",
         "com.microsoft::LinearAttention 0:2x7x12 1:360 2:2x7x24 3:2x7x20", 0},
        {"LinearAttention q,k,v", "q_num_heads=4 kv_num_heads=2 update_rule=new",
         "q 2,7,24 k 2,7,12 v 2,7,10", "onnx::LinearAttention 0:2x7x24 2:2x7x12 3:2x7x10", 0},
        {"ms.DynamicQuantizeLSTM x,w,r,b,-,-,-,-,s,z,t,u", "hidden_size=4",
         "x 2,5,3 w:1,3,16 r:1,4,16 b:1,32 s:1 z:1 t:1 u:1",
         "com.microsoft::DynamicQuantizeLSTM 0:2x5x3 1:1x3x16 1:1x4x16 1:1x32 2:4 4:4 6:2 7:4 9:1 10:false "
         "11:0 "
         "12:false 13:false",
         0},
    };
    ARE_TOLD(all);
}

static void types_have_the_numbers_of_torch(void **state) {
    (void)state;
    assert_int_equal(lmi_onnx_dtype(LMI_ONNX_BFLOAT16), 15);
    assert_int_equal(lmi_onnx_dtype(LMI_ONNX_STRING), -1);
    assert_int_equal(lmi_onnx_dtype(LMI_ONNX_NO_TYPE), -1);
    assert_int_equal(lmi_onnx_dtype(LMI_ONNX_N_TYPES), -1);
    assert_int_equal(lmi_onnx_dtype(-1), -1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(windows_have_a_number_for_each_axis),
        cmocka_unit_test(factors_are_as_they_are_multiplied),
        cmocka_unit_test(axes_are_those_of_the_version),
        cmocka_unit_test(settings_stand_where_rules_read_them),
        cmocka_unit_test(caches_are_told),
        cmocka_unit_test(other_attentions_are_told),
        cmocka_unit_test(what_is_fused_is_told),
        cmocka_unit_test(blocks_and_states_are_told),
        cmocka_unit_test(types_have_the_numbers_of_torch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
