/* SPDX-License-Identifier: Apache-2.0
 * layout: the offsets of what is read of this torch's records and tensors. probe.c finds them. */
#ifndef LMX_LAYOUT_H
#define LMX_LAYOUT_H

#include "native/shim.h"

/* Offsets in this build of torch, in bytes into a RecordFunction, a list, (storage) a tensor's C++ object,
 * (callbacks) torch's data of a thread's callbacks, (hooks) that of its hooks for saved tensors, where the
 * list begins, (autograd) a tensor's C++ object, where the address of its autograd data is, (tangent) that
 * data, where forward-mode AD puts tangents; (keys) the offset of a tensor's dispatch keys and (python) the
 * bit in them for a tensor subclass, (coo, compressed) for sparse tensors, (nested) for nested ones, (asks)
 * the dispatch key under which Python answers, if such answers have no record; and the tags of an IValue.
 * -1: unknown. */
/* clang-format off */
#define LMX_LAYOUT(X)                                                                                        \
    X(inputs) X(outputs) X(sequence) X(forward_thread) X(list) X(list_tag) X(tensor) X(none) X(boolean)      \
    X(integer) X(real) X(storage) X(text) X(text_at) X(callbacks) X(keys) X(python) X(coo) X(compressed)     \
    X(nested) X(asks) X(hooks) X(autograd) X(tangent)
/* Sets of dispatch keys, as bits of torch's words. A thread excludes `below` while the kernel of an operator
 * runs, after autograd has had its turn, `gradients` where autograd has none, and each of `autocast` unless
 * autocast is on for that device; it includes `transforms` inside one of torch.func. Tensors have the others:
 * `wrapped` those of a transform, `replayed` those of functionalize(), `turned` a conjugate or a negative
 * that was not computed yet, `zeros` a tangent of zeros without memory. */
#define LMX_KEYS(X)                                                                                          \
    X(below) X(gradients) X(autocast) X(transforms) X(wrapped) X(replayed) X(turned) X(zeros)
/* clang-format on */
typedef struct lmx_layout {
#define X(name) int32_t name;
    LMX_LAYOUT(X)
#undef X
#define X(name) uint64_t name;
    LMX_KEYS(X)
#undef X
} lmx_layout;

static inline uint64_t lmx_word_at(const void *from, size_t bytes) {
    uint64_t word;
    memcpy(&word, (const char *)from + bytes, sizeof word);
    return word;
}

/* True if the at::Tensor is undefined: torch's functions raise for it, or return a dtype that is none. */
static inline bool lmx_is_undefined(const lmx_shim *s, const void *handle) {
    return s->undefined && lmx_word_at(handle, 0) == (uint64_t)(uintptr_t)s->undefined;
}

/* torch's functions raise for the sizes and strides of a nested tensor, and for the address of one without
 * memory, such as a sparse one; and up to torch 2.12 they print what was raised, with a trace. True also if
 * the layout is not known; false for a handle without an object. */
static inline bool lmx_has_sizes(const lmx_layout *l, const void *handle) {
    const void *object = (const void *)(uintptr_t)lmx_word_at(handle, 0);
    return object && (l->nested < 0 || !(lmx_word_at(object, (size_t)l->keys) >> l->nested & 1));
}
static inline bool lmx_has_memory(const lmx_layout *l, const void *handle) {
    const void *object = (const void *)(uintptr_t)lmx_word_at(handle, 0);
    return object && (l->storage < 0 || lmx_word_at(object, (size_t)l->storage) != 0);
}

#endif
