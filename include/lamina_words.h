/* SPDX-License-Identifier: Apache-2.0
 *
 * Words and kernels, a part of lamina.h.
 * Spellings of layers and operators, data types, values of tensors, and the results and workspaces of torch's
 * CPU kernels. A source of data uses them before and while it builds a model. */
#ifndef LAMINA_WORDS_H
#define LAMINA_WORDS_H

#include "lamina_core.h"

#ifdef __cplusplus
extern "C" {
#endif

/* == Spellings =========================================================================================
 * A word is one spelling of one kind of layer or operator. Spellings, and the meaning of attributes and
 * arguments, are data (src/vocab/names_module.def). */

/* Index of the word for the torch.nn class `name` ("Conv2d"), or -1 if there is none. */
LAM_API int32_t lam_word_module(const char *name);
/* The spelling ("Conv2d") and the kind ("conv") of a word; NULL if out of range. */
LAM_API const char *lam_word_name(int32_t word);
LAM_API const char *lam_word_kind(int32_t word);
/* The i-th attribute that a source reads from a module of this word ("kernel_size"); NULL past the last one.
 * Tensors among them (weight, bias) need not be read: push parameters and buffers with lam_build_tensor. */
LAM_API const char *lam_word_attr(int32_t word, int32_t i);
/* True for kinds that only hold and call children and compute nothing themselves (Sequential, ModuleList). */
LAM_API bool lam_word_is_container(int32_t word);
/* Index of the word for the operator `name` ("aten::convolution", no overload), or -1. These indices are
 * independent of those of modules. */
LAM_API int32_t lam_word_op(const char *name);
LAM_API const char *lam_word_op_name(int32_t word);
LAM_API const char *lam_word_op_kind(int32_t word);
/* True for an operator that only calls others ("aten::linear"): these count, and it does not. */
LAM_API bool lam_word_op_wraps(int32_t word);
/* The position of the argument that masks scores; -1: none. A source counts its values with lam_values_mask;
 * effective counts leave out the masked work. */
LAM_API int32_t lam_word_op_mask(int32_t word);
/* The position of the argument that says where groups of rows end; -1: none. A source reads it with
 * lam_values_ends; no count includes rows after the last group. */
LAM_API int32_t lam_word_op_ends(int32_t word);

/* The index of the rule that computes the results of operator `name` from its arguments alone, in the order
 * of the overload (src/vocab/shapes.def); -1 if there is none. */
LAM_API int32_t lam_shape_rule(const char *name);
typedef enum lam_order {
    LAM_ORDER_LIKE, /* as torch's TensorIterator derives it from the operands that are tensors */
    LAM_ORDER_BOTH, /* as LIKE, but a number counts as an operand without axes */
    LAM_ORDER_ROWS,  /* contiguous if the operands are; else unknown */
    LAM_ORDER_IMAGE, /* as ROWS, or channels last if an operand of 4 axes is */
    LAM_ORDER_CONV,  /* as IMAGE, but always contiguous for numbers of 64 bits */
    LAM_ORDER_NORM,  /* channels last if the first operand has that layout alone; else contiguous */
    LAM_ORDER_FRESH /* always contiguous */
} lam_order;
/* The memory layout of the results of `rule`. */
LAM_API lam_order lam_shape_order(int32_t rule);
enum { LAM_MAX_AXES = 8, LAM_MAX_RESULTS = 4 };
typedef struct lam_result {
    int32_t in; /* the argument that is written in place; -1: the result is new */
    int32_t dtype, ndim;
    int64_t sizes[LAM_MAX_AXES];
} lam_result;
struct lam_op_arg;
/* Fills `out` and returns the number of results; 0 if the rule does not cover these arguments: the results
 * are then unknown. */
LAM_API int32_t lam_shape_run(int32_t rule, const struct lam_op_arg *in, int32_t n_in,
                              lam_result out[LAM_MAX_RESULTS]);

/* Data types, by torch's ScalarType numbers. Sizes are in bits, since an element of a packed type may be a
 * fraction of a byte. */
LAM_API const char *lam_dtype_name(int32_t dtype); /* "float32"; "?" when unknown */
LAM_API int32_t lam_dtype_bits(int32_t dtype);     /* bits an element; 0 when unknown */
LAM_API int32_t lam_dtype_by_name(const char *name); /* -1 when unknown; with or without a leading "torch." */

/* == Values of tensors ================================================================================= */

/* True for types that have NaN or Inf: floating-point and complex ones. */
LAM_API bool lam_dtype_is_float(int32_t dtype);
/* How such a type marks NaN and Inf, for a search in memory that only another processor can read: a number of
 * `bytes` bytes is one of them if (bits & mask) == want. An element of a complex type is two numbers. */
typedef struct lam_nonfinite_bits {
    int32_t bytes; /* of a number: 1, 2, 4 or 8 */
    uint64_t mask, want;
} lam_nonfinite_bits;
/* False for types without NaN and Inf. */
LAM_API bool lam_dtype_nonfinite(int32_t dtype, lam_nonfinite_bits *out);
/* An array in the caller's memory, which is only read during the call. */
typedef struct lam_values {
    const void *data; /* the first element; NULL only if there are none */
    int32_t dtype;    /* ScalarType number */
    int32_t ndim;
    const int64_t *sizes, *strides; /* in elements; strides may be 0 (an expanded axis); NULL: contiguous */
} lam_values;
typedef struct lam_nonfinite {
    int64_t nan, inf; /* inf: of either sign */
    int64_t negative; /* -Inf alone; 0 for complex numbers */
    int64_t first;    /* index of the first non-finite element, in row-major order; -1: none */
} lam_nonfinite;
/* Counts NaN and Inf (of either sign) in a strided array of any type of torch, fp8 and complex included; each
 * part of a complex number counts. Memory without any is read once, in the widest vectors of the processor.
 * Types without such values (integers, bool) count 0 and are not read. LAM_RANGE for impossible sizes or
 * strides; LAM_UNSUPPORTED for an unknown type. */
LAM_API lam_status lam_values_scan(const lam_values *v, lam_nonfinite *out, lam_error *e);
typedef struct lam_stats {
    int64_t numbers, nan, inf, zeros, subnormal; /* a complex number is two */
    double least, greatest, mean; /* of the finite ones; NaN if there are none */
    double headroom; /* how often the largest magnitude can be doubled before it overflows; Inf: all are 0 */
} lam_stats;
/* Computes statistics in one pass over the memory. LAM_UNSUPPORTED for types that are not floating-point. */
LAM_API lam_status lam_values_stats(const lam_values *v, lam_stats *out, lam_error *e);

/* The elements of an attention mask that keep their score; or where groups end, one after the other. */
typedef struct lam_mask {
    int64_t open; /* elements that keep their score; of groups: where the last one ends */
    int64_t rows; /* rows, along the last axis, with such an element; a tensor without axes is one row. Of
                     groups: those that are not empty */
} lam_mask;
/* Counts these elements in a strided array. In a bool mask they are the true elements. A mask of float64,
 * float32, float16 or bfloat16 is added to scores: they are all elements but -Inf and the lowest finite
 * number of the type, since softmax gives both the weight 0. Each element is read once; an expanded axis is
 * not walked. LAM_UNSUPPORTED for other types, LAM_RANGE for impossible sizes or strides. */
LAM_API lam_status lam_values_mask(const lam_values *v, lam_mask *out, lam_error *e);
/* Reads where groups end, along one axis of int32 or int64; none ends before the one before it.
 * LAM_UNSUPPORTED for other values and types, LAM_RANGE as above. */
LAM_API lam_status lam_values_ends(const lam_values *v, lam_mask *out, lam_error *e);

/* == Workspaces of kernels ============================================================================= */

/* The properties of a CPU that decide how much memory operators use on it beside their results
 * (src/vocab/workspace.def). */
typedef struct lam_cpu {
    int32_t threads, lanes; /* lanes: 32-bit numbers in a vector register */
    bool half;              /* it computes in float16 */
} lam_cpu;
LAM_API lam_cpu lam_cpu_here(int32_t threads); /* the CPU of this machine */
/* True if this CPU is known to lack instructions for products of matrices in `dtype`, a floating-point type
 * of 16 bits: torch's own loops compute them, a hundred times slower, and without a workspace. */
LAM_API bool lam_cpu_lacks(int32_t dtype);
/* The index of the rule for operator `name`; -1: none, its workspace is negligible. */
LAM_API int32_t lam_workspace_rule(const char *name);
/* True if, on some processors, the rule's result differs by some per cent for these arguments. */
LAM_API bool lam_workspace_rough(int32_t rule, const struct lam_op_arg *in, int32_t n_in);
/* The workspace in bytes, from the arguments and the strides, in elements, of those that are tensors. */
LAM_API int64_t lam_workspace(int32_t rule, const struct lam_op_arg *in, const int64_t *const *strides,
                              int32_t n_in, lam_cpu cpu);

#ifdef __cplusplus
}
#endif
#endif
