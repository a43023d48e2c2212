/* SPDX-License-Identifier: Apache-2.0
 * The records of one thread for a capture: operators, their names, and their arguments packed into
 * words. Runs inside torch's callbacks, with or without the GIL, without Python. */
#include "native/lane.h"

#include <stdlib.h>
#include <time.h>

enum { MAX_INTS = 32 };

/* == lanes ============================================================================================= */

/* An emptied lane, for reuse: captures mostly follow each other and need the same memory and names. */
static _Atomic(lmx_lane *) spare;
enum { SPARE_BYTES = 512 << 10, FRAME_BYTES = 64 };

static void prepare(lmx_lane *lane, lmx_observer *o, bool own) {
    lmx_clock *clock = o->clock;
    lane->nowhere = *o->dry ? *o->nowhere : NULL;
    lane->reads = *o->reads > 0;
    lane->number = own ? 0 : atomic_fetch_add(&o->others, 1) + 1;
    lane->most = o->most;
    lane->clock = clock;
    lane->own_last = 0;
    lane->last = own ? &clock->last : &lane->own_last;
    lane->last_call = -1;
    lane->quiet = NULL;
}

lmx_lane *lmx_lane_new(lmx_observer *o, uint64_t thread) {
    lmx_lane *lane = atomic_exchange(&spare, NULL);
    if (!lane && !(lane = calloc(1, sizeof *lane))) return NULL;
    lane->thread = thread;
    prepare(lane, o, thread == o->thread);
    lane->next = atomic_load(&o->lanes);
    while (!atomic_compare_exchange_weak(&o->lanes, &lane->next, lane)) {}
    return lane;
}

static void release(lmx_lane *lane) {
    lmi_vec_free(&lane->ops);
    lmi_vec_free(&lane->words);
    lmi_vec_free(&lane->parts);
    lmi_vec_free(&lane->ids);
    lmi_map_free(&lane->by_part);
    lmi_vec_free(&lane->names);
    lmi_vec_free(&lane->frames);
    lmi_vec_free(&lane->origins);
    lmi_map_free(&lane->by_text);
    free(lane);
}

static void make_empty(lmx_lane *lane) {
    lane->next = NULL;
    lane->thread = 0;
    lane->inside = lane->lost = lane->full = lane->pushed = false;
    lmi_map_clear(&lane->by_part);
    lane->ops.n = lane->words.n = lane->parts.n = lane->ids.n = lane->frames.n = lane->origins.n = 0;
    lane->packed = lane->ids_packed = 0;
    lane->n_packed = 0;
}

void lmx_lane_free(lmx_lane *lane) {
    size_t bytes = lane->ops.cap * sizeof(lmx_op) + lane->words.cap * sizeof(int64_t) +
                   lane->parts.cap * sizeof(lmx_part) + lane->ids.cap * sizeof(lmx_id) + lane->names.cap +
                   (lane->frames.cap + lane->origins.cap) * FRAME_BYTES;
    if (bytes <= SPARE_BYTES) {
        make_empty(lane);
        lane = atomic_exchange(&spare, lane);
    }
    if (lane) release(lane);
}

lmx_lane *lmx_observer_lane(const lmx_observer *o, int32_t number) {
    lmx_lane *lane = o ? atomic_load(&o->lanes) : NULL;
    while (lane && lane->number != number) lane = lane->next;
    return lane;
}

void lmx_observer_free(lmx_observer *o) {
    for (lmx_lane *lane = o ? o->lanes : NULL, *next; lane; lane = next) {
        next = lane->next;
        lmx_lane_free(lane);
    }
    free(o);
}

/* == names ============================================================================================= */

/* What a name says precedes its text; offsets of names are those of the texts. */
static lmx_named *head_of_name(const lmx_lane *lane, int32_t name) {
    return (lmx_named *)(void *)((char *)lane->names.data + name) - 1;
}

static int32_t add_name(lmx_lane *lane, const char *text) {
    const size_t most = INT32_MAX / 2, before = sizeof(lmx_named), n = strlen(text);
    const uint64_t hash = lmi_hash(text, n);
    int64_t name;
    for (size_t at = (size_t)hash; (name = lmi_map_next(&lane->by_text, hash, &at)) >= 0;)
        if (strcmp((char *)lane->names.data + name, text) == 0) return (int32_t)name;
    if (n > most || lane->names.n + n > most) return -1;
    char *to =
        lmx_vec_push(&lane->names, 1, before + (n + before) / before * before); /* heads stay aligned */
    if (!to) return -1;
    memset(to, 0, before);
    memcpy(to + before, text, n + 1);
    name = to + before - (char *)lane->names.data;
    return lmi_map_add(&lane->by_text, hash, name, NULL) == LAM_OK ? (int32_t)name : -1;
}

static size_t place_of_address(const char *text) {
    return (size_t)(((uintptr_t)text >> 3) * 0x9E3779B97F4A7C15ull >> 55);
}

/* torch keeps an operator's name at one address, so most are found without hashing; the text decides. */
int32_t lmx_lane_name(lmx_lane *lane, const char *text) {
    size_t at = place_of_address(text);
    const char *known = lane->seen[at].at == text ? (char *)lane->names.data + lane->seen[at].name : NULL;
    if (known && strcmp(known, text) == 0) return lane->seen[at].name;
    int32_t name = add_name(lane, text);
    lane->seen[at].at = name >= 0 ? text : NULL;
    lane->seen[at].name = name;
    lane->seen[at].arity = (lmx_arity){-1, -1};
    return name;
}

/* False for operators in place whose gradients need no argument: they are linear, or their result tells. */
static bool may_save(const char *name) {
    static const char *const none[] = {"aten::relu_", "aten::add_",  "aten::sub_",   "aten::copy_",
                                       "aten::zero_", "aten::fill_", "aten::detach_"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        if (strcmp(name, none[i]) == 0) return false;
    return true;
}

/* False for operators that may hide scores from a softmax, such as one that adds a mask. */
static bool only_scales(const char *name) {
    static const char *const all[] = {"aten::mul",   "aten::mul_",  "aten::div",
                                      "aten::div_",  "aten::tanh",  "aten::_to_copy",
                                      "aten::copy_", "aten::clone", "aten::zeros"};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (strcmp(name, all[i]) == 0) return true;
    return false;
}

/* The position of what is added to scores, or hides some of them; -1: the operator does neither. */
static int16_t over_scores(const char *name) {
    static const struct {
        const char *name;
        int16_t position;
    } all[] = {{"aten::add", 1},
               {"aten::add_", 1},
               {"aten::masked_fill", 1},
               {"aten::masked_fill_", 1},
               {"aten::baddbmm", 0}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (strcmp(name, all[i].name) == 0) return all[i].position;
    return -1;
}

static lmx_named about(const char *text) {
    const int32_t word = lam_word_op(text);
    const char *kind = lam_word_op_kind(word);
    const size_t n = strlen(text);
    const bool counts = word >= 0 && !lam_word_op_wraps(word);
    const bool writes = n > 1 && text[n - 1] == '_' && text[n - 2] != '_';
    const bool free = kind && strcmp(kind, "free") == 0;
    const int32_t mask = lam_word_op_mask(word), ends = lam_word_op_ends(word);
    return (lmx_named){.known = true,
                       .counts = counts,
                       /* The outer overload gets a list of real factors, which is not kept; the inner one
                        * gets each. */
                       .closes = counts && !strstr(text, "upsample_"),
                       .free = free,
                       .writes = writes,
                       .saves = writes && may_save(text),
                       .copies = strcmp(text, "aten::clone") == 0,
                       .fills = strcmp(text, "aten::zeros") == 0,
                       .picks = strcmp(text, "aten::where") == 0,
                       .weighs = strcmp(text, "aten::_softmax") == 0,
                       .product = strcmp(text, "aten::mm") == 0 || strcmp(text, "aten::bmm") == 0,
                       .keeps = free || lam_word_op_wraps(word) || only_scales(text),
                       .mask = (int16_t)(mask < 0 ? ends : mask),
                       .over = over_scores(text)};
}

const lmx_named *lmx_lane_named(lmx_lane *lane, int32_t name) {
    lmx_named *head = head_of_name(lane, name);
    if (!head->known) *head = about((char *)(head + 1));
    return head;
}

int32_t lmx_lane_mask_of(lmx_lane *lane, int32_t name) {
    const lmx_named *named = lmx_lane_named(lane, name);
    return lane->nowhere && named->over >= 0 ? named->over : named->mask;
}

int32_t lmx_lane_reads(lmx_lane *lane, const lmx_op *op) {
    const lmx_named *named = lmx_lane_named(lane, op->name);
    if (!named->picks || op->parent < 0) return lmx_lane_mask_of(lane, op->name);
    const char *around = lmx_op_name(lane, (const lmx_op *)lane->ops.data + op->parent);
    /* In a dry run its mask may be one of values that are outdated. */
    return !lane->nowhere && strncmp(around, "FlexAttentionAutogradOp", 23) == 0 ? 0 : -1;
}

lmx_arity *lmx_lane_arity(lmx_lane *lane, const char *text) {
    return &lane->seen[place_of_address(text)].arity;
}

/* == operators ========================================================================================= */

lmx_op *lmx_lane_op(lmx_lane *lane, const char *name, bool kept) {
    uint64_t used = (uint64_t)lane->ops.n * sizeof(lmx_op) + (uint64_t)lane->ids.n * sizeof(lmx_id) +
                    (uint64_t)lane->words.n * sizeof(int64_t);
    lane->full =
        lane->full || used > lane->most || lane->ids.n >= UINT32_MAX / 2 || lane->words.n >= UINT32_MAX / 2;
    int32_t text = lane->full ? -1 : kept ? lmx_lane_name(lane, name) : add_name(lane, name);
    lmx_op *op = text < 0 ? NULL : lmx_vec_push(&lane->ops, sizeof *op, 1);
    if (op)
        *op = (lmx_op){.name = text, .in.part = -1, .out.part = -1};
    else
        lane->lost = true;
    return op;
}

/* == parts: packed arguments that repeat =============================================================== */

static uint64_t hash_words(const int64_t *words, size_t n) {
    const uint64_t golden = 0x9E3779B97F4A7C15ull; /* 2^64 over the golden ratio */
    uint64_t a = n, b = ~(uint64_t)n;              /* two, so that one need not wait for the other */
    size_t i = 0;
    for (; i + 1 < n; i += 2) {
        a = (a ^ (uint64_t)words[i]) * golden;
        b = (b ^ (uint64_t)words[i + 1]) * golden;
        a ^= a >> 32;
        b ^= b >> 32;
    }
    if (i < n) a = (a ^ (uint64_t)words[i]) * golden;
    a = (a ^ (b << 32 | b >> 32)) * golden;
    return a ^ a >> 32;
}

/* Returns the index of the part that equals the words from `packed` on, which it adds if there is none. */
static int32_t part_of(lmx_lane *lane) {
    const size_t n = lane->words.n - lane->packed;
    const int64_t *all = lane->words.data, *words = n ? all + lane->packed : NULL;
    const uint64_t hash = hash_words(words, n);
    int64_t i;
    for (size_t at = (size_t)hash; (i = lmi_map_next(&lane->by_part, hash, &at)) >= 0;) {
        const lmx_part *p = (const lmx_part *)lane->parts.data + i;
        if (p->n_words == n && (n == 0 || memcmp(all + p->at, words, n * sizeof *words) == 0)) break;
    }
    if (i < 0) {
        lmx_part *p = lmx_vec_push(&lane->parts, sizeof *p, 1);
        i = (int64_t)lane->parts.n - 1;
        if (!p || lmi_map_add(&lane->by_part, hash, i, NULL) != LAM_OK) return -1;
        *p = (lmx_part){(uint32_t)lane->packed, (uint32_t)n, lane->n_packed};
        lane->packed = lane->words.n;
    }
    return (int32_t)i;
}

lmx_args lmx_lane_take(lmx_lane *lane) {
    lmx_args args = {part_of(lane), (uint32_t)lane->ids_packed};
    if (args.part < 0) lane->lost = true;
    lane->words.n = lane->packed;
    lane->ids_packed = lane->ids.n;
    lane->n_packed = 0;
    return args;
}

lmx_args lmx_lane_again(lmx_lane *lane, lmx_args from) {
    const lmx_part *part = from.part < 0 ? NULL : (lmx_part *)lane->parts.data + from.part;
    const uint32_t at = part && part->n ? part->at : 0;
    lmx_packed head = {.kind = LMX_ARG_NONE};
    if (part && part->n) memcpy(&head, (int64_t *)lane->words.data + at, sizeof head);
    if (head.kind != LMX_ARG_TENSOR) return lmx_lane_take(lane);
    const size_t n = head.n == LMX_NO_SHAPE ? 1 : 1 + (size_t)head.n;
    int64_t *words = lmx_vec_push(&lane->words, sizeof *words, n);
    lmx_id *id = lmx_vec_push(&lane->ids, sizeof *id, 1);
    if (!words || !id) lane->lost = true;
    if (words) memcpy(words, (int64_t *)lane->words.data + at, n * sizeof *words);
    if (id) *id = ((lmx_id *)lane->ids.data)[from.ids_at];
    lane->n_packed = 1;
    return lmx_lane_take(lane);
}

/* == values ============================================================================================ */

lmx_values lmx_inputs_of(const lmx_layout *l, const void *record) {
    uintptr_t at = (uintptr_t)lmx_word_at(record, (size_t)l->inputs);
    return (lmx_values){(const char *)at, (size_t)lmx_word_at(record, (size_t)l->inputs + 8)};
}

static lmx_values between(uint64_t from, uint64_t to) {
    return (lmx_values){(const char *)(uintptr_t)from, to > from ? (size_t)(to - from) / LMX_IVALUE : 0};
}

lmx_values lmx_outputs_of(const lmx_layout *l, const void *record) {
    return between(lmx_word_at(record, (size_t)l->outputs), lmx_word_at(record, (size_t)l->outputs + 8));
}

lmx_values lmx_list_of(const lmx_layout *l, const char *value) {
    const char *list = (const char *)(uintptr_t)lmx_word_at(value, 0);
    if (!list || l->list < 0) return (lmx_values){NULL, 0};
    return between(lmx_word_at(list, (size_t)l->list), lmx_word_at(list, (size_t)l->list + 8));
}

/* Adds a head word that describes what follows, and room for `n` words after it. */
static int64_t *pack(lmx_lane *lane, lmx_packed head, size_t n) {
    int64_t *at = lmx_vec_push(&lane->words, sizeof *at, n + 1);
    if (!at) {
        lane->lost = true;
        return NULL;
    }
    memcpy(at, &head, sizeof *at);
    lane->n_packed++;
    return at + 1;
}

static uint64_t eighth(uint64_t address) { return address >> 48 ? 0 : address >> 3; }

static bool put_tensor(lmx_lane *lane, lmx_packed head, uint64_t memory, uint64_t object,
                       const int64_t *sizes) {
    size_t dims = head.n == LMX_NO_SHAPE ? 0 : head.n;
    lmx_id *id = lmx_vec_push(&lane->ids, sizeof *id, 1);
    if (!id) lane->lost = true;
    int64_t *to = id ? pack(lane, head, dims) : NULL;
    if (!to) return false;
    uint64_t a = eighth(memory), b = eighth(object);
    *id = (lmx_id){{(uint32_t)a, (uint32_t)b}, (uint32_t)(a >> 32) | (uint32_t)(b >> 32) << 16};
    for (size_t i = 0; i < dims; i++) to[i] = sizes[i];
    return true;
}

/* put_tensor with `n` words before the sizes; `kind` gives their meaning. */
static bool put_more(lmx_lane *lane, lmx_packed head, lmx_arg_kind kind, uint64_t memory, uint64_t object,
                     const int64_t *sizes, const void *more, size_t n) {
    static const int64_t no_sizes[1];
    size_t at = lane->words.n, dims = head.n == LMX_NO_SHAPE ? 0 : head.n;
    head.kind = (uint8_t)kind;
    if (!put_tensor(lane, head, memory, object, dims ? sizes : no_sizes)) return false;
    if (!lmx_vec_push(&lane->words, sizeof(int64_t), n)) {
        lane->lost = true;
        return false;
    }
    int64_t *to = (int64_t *)lane->words.data + at + 1;
    memmove(to + n, to, dims * sizeof *to);
    memcpy(to, more, n * sizeof *to);
    return true;
}

static bool put_sparse(lmx_lane *lane, lmx_packed head, uint64_t object, const int64_t *sizes,
                       const lmx_sparse *kept) {
    return put_more(lane, head, LMX_ARG_SPARSE, 0, object, sizes, kept, sizeof *kept / sizeof(int64_t));
}

static bool put_mask(lmx_lane *lane, lmx_packed head, uint64_t memory, uint64_t object, const int64_t *sizes,
                     const lam_mask *left) {
    return put_more(lane, head, LMX_ARG_MASK, memory, object, sizes, left, sizeof *left / sizeof(int64_t));
}

/* Not 0 if forward-mode AD gave the tensor a tangent, which may be gone. */
static uint64_t tangents_of(const lmx_layout *l, uint64_t object) {
    if (l->autograd < 0) return 1;
    const uint64_t data = lmx_word_at((void *)(uintptr_t)object, (size_t)l->autograd);
    return data ? lmx_word_at((void *)(uintptr_t)data, (size_t)l->tangent) : 0;
}

/* The identities of the first tensor of some arguments, if the first of them is one; NULL: it is not. */
static const lmx_id *first_id(const lmx_lane *lane, const lmx_args *args) {
    const lmx_part *part = args->part < 0 ? NULL : (const lmx_part *)lane->parts.data + args->part;
    lmx_packed head;
    if (!part || !part->n_words || args->ids_at >= lane->ids.n) return NULL;
    memcpy(&head, (const int64_t *)lane->words.data + part->at, sizeof head);
    return lmx_packed_tensor(&head) ? (const lmx_id *)lane->ids.data + args->ids_at : NULL;
}

/* True if no mask hid a score from the softmax that is packed: a product made its scores, and they were only
 * moved and scaled since. Reading scores takes a third of a softmax's time, so it is left out for them. */
static bool hides_none(lmx_lane *lane, uint64_t memory, uint64_t object) {
    enum { FAR = 64 };
    const int64_t last = (int64_t)lane->ops.n - 1;
    if (last < 0 || !lmx_lane_named(lane, ((const lmx_op *)lane->ops.data + last)->name)->weighs)
        return false;
    for (int64_t i = last - 1; i >= 0 && i > last - FAR; i--) {
        const lmx_op *op = (const lmx_op *)lane->ops.data + i;
        const lmx_id *out = first_id(lane, &op->out), *in = first_id(lane, &op->in);
        if (!out || (lmx_id_object(out) != object && (!memory || lmx_id_memory(out) != memory))) continue;
        const lmx_named *named = lmx_lane_named(lane, op->name);
        if (named->product) return true;
        if (!named->keeps || !in) return false;
        memory = lmx_id_memory(in);
        object = lmx_id_object(in);
    }
    return false;
}

static bool pack_tensor(lmx_lane *lane, const lmx_layout *l, size_t position, const char *value, bool masks) {
    const lmx_shim *s = &lane->api->shim;
    void *handle = (void *)(uintptr_t)value;
    uint64_t object = lmx_word_at(value, 0);
    if (!object || lmx_is_undefined(s, value))
        return pack(lane, (lmx_packed){.position = (uint16_t)position, .kind = LMX_ARG_NONE}, 0) != NULL;
    lane->keys |= lmx_word_at((void *)(uintptr_t)object, (size_t)l->keys);
    lane->tangents |= tangents_of(l, object);
    lmx_packed head = {(uint16_t)position, LMX_ARG_TENSOR, LMX_NO_SHAPE, -1, -1};
    int64_t dims = -1, *sizes = NULL;
    int32_t number;
    if (!s->dtype(handle, &number)) head.dtype = (int16_t)number;
    if (!s->device(handle, &number)) head.device = (int16_t)number;
    const bool sized = lmx_has_sizes(l, handle);
    if (sized && !s->dim(handle, &dims) && !s->sizes(handle, &sizes) && dims >= 0 && dims <= LMX_DIMS)
        head.n = (uint8_t)dims;
    uint64_t memory = lmx_memory_of(l, s, value);
    lmx_sparse kept;
    lam_mask left;
    if (!memory && lmx_sparse_of(l, s, value, &kept)) return put_sparse(lane, head, object, sizes, &kept);
    masks = masks && head.n != LMX_NO_SHAPE && !hides_none(lane, memory, object);
    if (masks && lmx_mask_at(l, s, value, lane->nowhere, &left))
        return put_mask(lane, head, memory, object, sizes, &left);
    return put_tensor(lane, head, memory, object, sizes);
}

enum { LONGEST = 31 }; /* bytes of a text that is kept */

int32_t lmx_lane_text(lmx_lane *lane, int32_t position, const char *text, size_t n) {
    if (n > LONGEST || memchr(text, 0, n)) return 0;
    size_t words = n / sizeof(int64_t) + 1;
    lmx_packed head = {.position = (uint16_t)position, .kind = LMX_ARG_TEXT, .n = (uint8_t)words};
    int64_t *to = pack(lane, head, words);
    if (!to) return 0;
    memset(to, 0, words * sizeof *to);
    memcpy(to, text, n);
    return 1;
}

/* A std::string holds the address of its NUL-terminated bytes; the place of their number differs between
 * builds of torch. Long texts, and all other values (a device, a generator), do not matter for counts. */
static bool pack_text(lmx_lane *lane, size_t position, const lmx_layout *l, const char *value) {
    const void *object = (const void *)(uintptr_t)lmx_word_at(value, 0);
    if (!object) return false;
    const char *text = (const char *)(uintptr_t)lmx_word_at(object, (size_t)l->text_at);
    return lmx_lane_text(lane, (int32_t)position, text, strnlen(text, LONGEST + 1)) > 0;
}

static bool pack_number(lmx_lane *lane, size_t position, const lmx_layout *l, const char *value) {
    int32_t tag = lmx_tag_of(value);
    uint64_t word = lmx_word_at(value, 0);
    lmx_packed head = {.position = (uint16_t)position, .n = 1};
    if (tag == l->boolean) {
        head.kind = LMX_ARG_BOOL;
        word &= 0xFF;
    } else if (tag == l->integer) {
        head.kind = LMX_ARG_INT;
    } else if (tag == l->real) {
        head.kind = LMX_ARG_REAL;
    } else if (tag == l->none) {
        head.kind = LMX_ARG_NONE;
        head.n = 0;
    } else {
        return tag == l->text && l->text_at >= 0 && pack_text(lane, position, l, value);
    }
    int64_t *to = pack(lane, head, head.n);
    if (to && head.n) memcpy(to, &word, sizeof word);
    return to != NULL;
}

static bool pack_ints(lmx_lane *lane, size_t position, const lmx_layout *l, lmx_values list) {
    if (list.n > MAX_INTS) return false;
    for (size_t i = 0; i < list.n; i++) {
        int32_t tag = lmx_tag_of(list.at + i * LMX_IVALUE);
        if (tag != l->integer && tag != l->boolean) return false;
    }
    lmx_packed head = {.position = (uint16_t)position, .kind = LMX_ARG_INTS, .n = (uint8_t)list.n};
    int64_t *to = pack(lane, head, list.n);
    for (size_t i = 0; to && i < list.n; i++) {
        uint64_t word = lmx_word_at(list.at + i * LMX_IVALUE, 0);
        to[i] = (int64_t)(lmx_tag_of(list.at + i * LMX_IVALUE) == l->boolean ? word & 0xFF : word);
    }
    return to != NULL;
}

static int32_t pack_list(lmx_lane *lane, size_t position, const lmx_layout *l, const char *value) {
    lmx_values list = lmx_list_of(l, value);
    if (list.n > LMX_MAX_LIST || !list.n) return 0;
    int32_t n = 0;
    for (size_t i = 0; i < list.n; i++)
        if (lmx_tag_of(list.at + i * LMX_IVALUE) == l->tensor)
            n += pack_tensor(lane, l, position, list.at + i * LMX_IVALUE, false);
    return n ? n : pack_ints(lane, position, l, list);
}

int32_t lmx_lane_pack(lmx_lane *lane, const lmx_layout *l, lmx_values values, int32_t mask) {
    int32_t n = 0;
    lane->keys = lane->tangents = 0;
    if (values.n > LMX_MAX_LIST) return 0;
    for (size_t i = 0; i < values.n; i++) {
        const char *value = values.at + i * LMX_IVALUE;
        int32_t tag = lmx_tag_of(value);
        if (tag == l->tensor)
            n += pack_tensor(lane, l, i, value, (int32_t)i == mask);
        else if (tag == l->list_tag && l->list >= 0)
            n += pack_list(lane, i, l, value);
        else
            n += pack_number(lane, i, l, value);
    }
    return n;
}

static lmx_packed head_of(int32_t position, const lmx_tensor *t) {
    bool known = t->ndim >= 0 && t->ndim < LMX_NO_SHAPE;
    return (lmx_packed){(uint16_t)position, LMX_ARG_TENSOR, known ? (uint8_t)t->ndim : LMX_NO_SHAPE,
                        (int16_t)t->dtype, (int16_t)t->device};
}

void lmx_lane_tensor(lmx_lane *lane, int32_t position, const lmx_tensor *t, const lmx_sparse *kept,
                     const lam_mask *left) {
    const lmx_packed head = head_of(position, t);
    if (kept)
        put_sparse(lane, head, t->object, t->sizes, kept);
    else if (left)
        put_mask(lane, head, t->memory, t->object, t->sizes, left);
    else
        put_tensor(lane, head, t->memory, t->object, t->sizes);
}

void lmx_lane_value(lmx_lane *lane, int32_t position, lmx_arg_kind kind, const void *words, int32_t n) {
    lmx_packed head = {.position = (uint16_t)position, .kind = (uint8_t)kind, .n = (uint8_t)n};
    int64_t *to = pack(lane, head, (size_t)n);
    if (to && n) memcpy(to, words, (size_t)n * sizeof *to);
}

/* == origins =========================================================================================== */

/* From this sequence number on, `call` made autograd's nodes. */
typedef struct origin {
    int64_t sequence;
    int32_t call;
} origin;

/* A reader of another thread's origins waits for the writer, and the writer for readers. Both are rare
 * and short: a writer changes them where a call begins to make nodes; a reader is a backward on another
 * thread. */
static void hold_origins(lmx_lane *lane) {
    while (atomic_exchange_explicit(&lane->origins_held, true, memory_order_acquire)) {
        const struct timespec moment = {0, 1000};
        nanosleep(&moment, NULL);
    }
}

static void let_origins_go(lmx_lane *lane) {
    atomic_store_explicit(&lane->origins_held, false, memory_order_release);
}

int32_t lmx_lane_origin(lmx_lane *lane, int64_t sequence) {
    hold_origins(lane);
    const origin *all = lane->origins.data;
    size_t from = 0, to = lane->origins.n;
    while (from < to) {
        size_t mid = (from + to) / 2;
        if (all[mid].sequence <= sequence)
            from = mid + 1;
        else
            to = mid;
    }
    int32_t call = from ? all[from - 1].call : -1;
    let_origins_go(lane);
    return call;
}

/* Only the lane's thread changes its origins, so it may read them without the lock. */
void lmx_lane_note_origin(lmx_lane *lane, int64_t sequence, int32_t call) {
    const origin *all = lane->origins.data;
    const size_t had = lane->origins.n;
    size_t n = had;
    while (n && all[n - 1].sequence >= sequence) n--;
    const bool known = n && all[n - 1].call == call;
    if (known && n == had) return;
    hold_origins(lane);
    lane->origins.n = n;
    origin *at = known ? NULL : lmx_vec_push(&lane->origins, sizeof *at, 1);
    if (at) *at = (origin){sequence, call};
    let_origins_go(lane);
    if (!at && !known) lane->lost = true;
}

/* == all lanes together ================================================================================ */

bool lmx_observer_pushed(const lmx_observer *o) {
    for (const lmx_lane *lane = o ? o->lanes : NULL; lane; lane = lane->next)
        if (lane->pushed) return true;
    return false;
}

bool lmx_observer_lost(const lmx_observer *o, int64_t *since_ns) {
    bool lost = false;
    for (const lmx_lane *lane = o ? o->lanes : NULL; lane; lane = lane->next) {
        const lmx_op *ops = lane->ops.data;
        int64_t last = lane->ops.n ? ops[lane->ops.n - 1].began : 0;
        if (!lane->lost) continue;
        last = lmx_clock_ns(lane->clock, last);
        *since_ns = lost && *since_ns < last ? *since_ns : last;
        lost = true;
    }
    return lost;
}

bool lmx_observer_full(const lmx_observer *o) {
    for (const lmx_lane *lane = o ? o->lanes : NULL; lane; lane = lane->next)
        if (lane->full) return true;
    return false;
}

size_t lmx_observer_n(const lmx_observer *o) {
    size_t n = 0;
    for (const lmx_lane *lane = o ? o->lanes : NULL; lane; lane = lane->next) n += lane->ops.n;
    return n;
}

bool lmx_observer_strange(const lmx_observer *o) { return o && atomic_load(&o->strange); }
