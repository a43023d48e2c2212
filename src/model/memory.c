/* SPDX-License-Identifier: Apache-2.0
 *
 * Blocks of memory, and the spans of the calls and nodes that allocated them: pushed after the calls, read
 * from a frozen model. */
#include "model/builder.h"

#include <stdlib.h>

enum { MOST_BLOCKS = 8 << 20, MOST_SPANS = 64 << 20 };

void lmi_memory_free(lmi_memory *y) {
    if (!y) return;
    lmi_vec_free(&y->blocks);
    lmi_vec_free(&y->spans);
    free(y);
}

static lam_status memory_of(lam_builder *b, lmi_memory **out, lam_error *e) {
    if (!b) {
        lmi_fail(e, LAM_USAGE, "memory", "there is no builder; make one first");
        return LAM_USAGE;
    }
    if (!b->memory) {
        b->memory = calloc(1, sizeof *b->memory);
        if (!b->memory) return lmi_nomem(e);
        b->memory->info = (lam_memory_info){"not told", -1, -1, -1, false};
        lmi_vec_init(&b->memory->blocks, sizeof(lam_block));
        lmi_vec_init(&b->memory->spans, sizeof(lam_span));
    }
    b->memory->seen = true;
    *out = b->memory;
    return LAM_OK;
}

lam_status lam_build_memory(lam_builder *b, const lam_memory_info *info, lam_error *e) {
    lmi_memory *y = NULL;
    LAM_TRY(memory_of(b, &y, e));
    y->info = *info;
    return lmi_copy_text(b, info->source, "how memory was measured", &y->info.source, e);
}

/* Checks that `call` is -1 or was pushed, and that the phase exists. */
static lam_status check_who(const lam_builder *b, int32_t call, uint8_t phase, lam_error *e) {
    if (phase >= LAM_N_PHASES)
        return lmi_fail(e, LAM_RANGE, "memory", "its phase %d is not one of lam_phase", (int)phase);
    return call == -1 ? LAM_OK : lmi_in_range(&b->events, call, "the call that memory belongs to", e);
}

static lam_status check_block(const lam_builder *b, const lam_block *k, lam_error *e) {
    LAM_TRY(check_who(b, k->call, k->phase, e));
    LAM_TRY(check_who(b, k->freed_call, k->freed_phase, e));
    if (k->tensor != -1) LAM_TRY(lmi_in_range(&b->tensors, k->tensor, "the tensor of a block of memory", e));
    if (k->held > LAM_HELD_INPUT)
        return lmi_fail(e, LAM_RANGE, "a block of memory", "a source can't tell that it is held as %d",
                        (int)k->held);
    if (k->bytes < 0)
        return lmi_fail(e, LAM_RANGE, "a block of memory", "it can't have %lld bytes", (long long)k->bytes);
    if (k->order < 0 || k->freed_order < 0 || (k->freed_order && k->freed_order <= k->order))
        return lmi_fail(e, LAM_RANGE, "a block of memory", "it can't come %lld-th and go %lld-th",
                        (long long)k->order, (long long)k->freed_order);
    return LAM_OK;
}

lam_status lam_build_block(lam_builder *b, const lam_block *block, lam_error *e) {
    lmi_memory *y = NULL;
    LAM_TRY(memory_of(b, &y, e));
    LAM_TRY(check_block(b, block, e));
    return lmi_push_sized(b, &y->blocks, "blocks of memory", block, sizeof *block, MOST_BLOCKS, e);
}

lam_status lam_build_span(lam_builder *b, const lam_span *span, lam_error *e) {
    lmi_memory *y = NULL;
    LAM_TRY(memory_of(b, &y, e));
    LAM_TRY(check_who(b, span->call, span->phase, e));
    if (span->first < 0 || span->last < span->first)
        return lmi_fail(e, LAM_RANGE, "a span", "it can't go from %lld to %lld", (long long)span->first,
                        (long long)span->last);
    return lmi_push_sized(b, &y->spans, "spans of memory", span, sizeof *span, MOST_SPANS, e);
}

lam_status lmi_hold_packed(lam_builder *b, lam_error *e) {
    int64_t held = 0;
    bool unknown = false;
    for (size_t i = 0; b->memory && b->memory->seen && i < b->tensors.n; i++) {
        const lam_tensor *t = lmi_vec_at(&b->tensors, i);
        if (!t->packed) continue;
        unknown = unknown || t->bytes < 0;
        held += t->bytes > 0;
        const lam_block block = {.bytes = t->bytes,
                                 .call = -1,
                                 .freed_call = -1,
                                 .tensor = (int32_t)i,
                                 .held = LAM_HELD_PARAMETER};
        if (t->bytes > 0) LAM_TRY(lam_build_block(b, &block, e));
    }
    if (held)
        LAM_TRY(lam_build_note(b,
                               "memory holds packed weights in their unpacked size; torch's allocator does "
                               "not show how much their layers take for them",
                               e));
    if (unknown) return lam_build_note(b, "memory lacks packed weights whose size is not known", e);
    return LAM_OK;
}

bool lam_model_memory_seen(const lam_model *m) { return m->memory && m->memory->seen; }
int32_t lam_model_n_blocks(const lam_model *m) { return m->memory ? (int32_t)m->memory->blocks.n : 0; }
const lam_block *lam_model_block(const lam_model *m, int32_t i) {
    return m->memory && i >= 0 ? lmi_vec_at(&m->memory->blocks, (size_t)i) : NULL;
}
