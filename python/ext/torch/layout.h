/* SPDX-License-Identifier: Apache-2.0
 * layout: the offsets of what is read of this torch's records and tensors. probe.c finds them. */
#ifndef LMX_LAYOUT_H
#define LMX_LAYOUT_H

#include "base/ext.h"

/* Offsets in this build of torch, in bytes into a RecordFunction, a list, (storage) a tensor's C++ object,
 * (callbacks) torch's data of a thread's callbacks; (keys) the offset of a tensor's dispatch keys and
 * (python) the bit in them for a tensor subclass, (coo, compressed) for sparse tensors, (asks) the dispatch
 * key under which Python answers, if such answers have no record; and the tags of an IValue. -1: unknown. */
/* clang-format off */
#define LMX_LAYOUT(X)                                                                                        \
    X(inputs) X(outputs) X(sequence) X(forward_thread) X(list) X(list_tag) X(tensor) X(none) X(boolean)      \
    X(integer) X(real) X(storage) X(text) X(text_at) X(callbacks) X(keys) X(python) X(coo) X(compressed)     \
    X(asks)
/* clang-format on */
struct lmx_layout {
#define X(name) int32_t name;
    LMX_LAYOUT(X)
#undef X
};

static inline uint64_t lmx_word_at(const void *from, size_t bytes) {
    uint64_t word;
    memcpy(&word, (const char *)from + bytes, sizeof word);
    return word;
}

/* True if the at::Tensor is undefined: torch's functions raise for it, or return a dtype that is none. */
static inline bool lmx_is_undefined(const lmx_shim *s, const void *handle) {
    return s->undefined && lmx_word_at(handle, 0) == (uint64_t)(uintptr_t)s->undefined;
}

#endif
