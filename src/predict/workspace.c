/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory that an operator uses on a CPU in addition to its results. */
#include "predict/workspace.h"

typedef lmi_asked asked;

/* == arguments ========================================================================================= */

static int32_t at(const asked *a, int32_t position) {
    for (int32_t i = 0; i < a->n; i++)
        if (a->in[i].position == position) return i;
    return -1;
}

const lam_op_arg *lmi_asked_tensor(const asked *a, int32_t position) {
    int32_t i = at(a, position);
    return i >= 0 && a->in[i].is_tensor && a->in[i].ndim >= 0 ? &a->in[i] : NULL;
}

static int64_t numel(const lam_op_arg *t) {
    int64_t n;
    return t && lmi_product(t->sizes, t->ndim, &n) ? n : 0;
}

/* The i-th number of a list of integers; a single one counts for all axes. */
int64_t lmi_asked_number(const asked *a, int32_t position, int32_t i, int64_t without) {
    int32_t k = at(a, position);
    const lam_value *v = k >= 0 ? &a->in[k].value : NULL;
    if (v && (v->type == LAM_INT || v->type == LAM_BOOL)) return v->i;
    if (!v || v->type != LAM_INTS || v->n == 0) return without;
    return v->ints[i < v->n ? i : v->n - 1];
}

/* True if elements are contiguous when axes are walked in this order, the last first; NULL: in rows. */
static bool is_dense(const asked *a, int32_t position, const int8_t *order) {
    const lam_op_arg *t = lmi_asked_tensor(a, position);
    const int64_t *strides = t ? a->strides[t - a->in] : NULL;
    int64_t step = 1;
    for (int32_t i = 0; strides && i < t->ndim; i++) {
        int32_t axis = order ? order[i] : t->ndim - 1 - i;
        if (t->sizes[axis] != 1 && strides[axis] != step) return false;
        step = lmi_limited_times(step, t->sizes[axis] > 0 ? t->sizes[axis] : 1);
    }
    return true;
}

static bool in_rows(const asked *a, int32_t position) { return is_dense(a, position, NULL); }

static const int8_t channels_last[4] = {1, 3, 2, 0};

/* True if the strides of four axes, also of axes of one element, are those of channels last and not also
 * those of rows. Gaps are allowed. */
static bool suggests_last(const asked *a, int32_t position) {
    const lam_op_arg *t = lmi_asked_tensor(a, position);
    const int64_t *strides = a->strides[t - a->in];
    int64_t least = 0;
    if (!strides || strides[1] == 0) return false;
    for (int32_t i = 0; i < 4; i++) {
        int32_t axis = channels_last[i];
        int64_t size = t->sizes[axis], stride = strides[axis];
        if (size == 0 || stride < least || (axis == 0 && least == strides[1])) return false;
        least = size > 1 ? lmi_limited_times(stride, size) : stride;
    }
    return true;
}

/* True if torch treats the tensor of four axes as channels last, without gaps. */
static bool is_channels_last(const asked *a, int32_t position) {
    return suggests_last(a, position) && !in_rows(a, position) && is_dense(a, position, channels_last);
}

/* Bytes of a copy in rows; 0: not needed. */
static int64_t copied(const asked *a, int32_t position) {
    return in_rows(a, position) ? 0 : lmi_bytes(lmi_asked_tensor(a, position));
}

/* == attention ========================================================================================= */

/* Queries and keys in blocks; scores and sums of a block per thread. */
static int64_t scores(const asked *a, int32_t query, int32_t key, bool backward) {
    enum { KEYS = 512 };
    const lam_op_arg *q = lmi_asked_tensor(a, query), *k = lmi_asked_tensor(a, key);
    if (!q || !k || q->ndim != 4 || k->ndim != 4) return 0;
    int64_t rows = q->sizes[2], width = q->sizes[3], keys = k->sizes[2] < KEYS ? k->sizes[2] : KEYS;
    int64_t block = rows >= 768 ? 256 : rows >= 192 ? 64 : 32;
    if (block > rows) block = rows;
    int64_t forward = keys + 2 + width, back = 2 * keys + 1;
    return lmi_limited_times(lmi_limited_times(block, backward ? back : forward),
                             (int64_t)sizeof(float) * a->cpu.threads);
}

static int64_t flash(const asked *a) { return scores(a, 0, 1, false); }

/* The gradient must have the heads of a position side by side. */
static int64_t flash_backward(const asked *a) {
    static const int8_t order[] = {3, 1, 2, 0};
    const lam_op_arg *grad = lmi_asked_tensor(a, 0);
    bool copy = grad && grad->ndim == 4 && !is_dense(a, 0, order);
    return scores(a, 1, 2, true) + (copy ? lmi_bytes(grad) : 0);
}

/* A mask of the elements that are -Inf, and one of the rows with only such elements. */
static int64_t safe_softmax(const asked *a) {
    const lam_op_arg *x = lmi_asked_tensor(a, 0);
    int64_t last = x && x->ndim > 0 ? x->sizes[x->ndim - 1] : 0;
    return last > 0 ? numel(x) + 2 * (numel(x) / last) : 0;
}

/* == others ============================================================================================ */

static int64_t batch_norm_backward(const asked *a) { return lmi_bytes(lmi_asked_tensor(a, 1)); }

static int64_t layer_norm_backward(const asked *a) {
    return copied(a, 0) + copied(a, 1) + 2 * lmi_bytes(lmi_asked_tensor(a, 5)) * a->cpu.threads;
}

/* Two sums for each channel of an example, in 32 bits at least. With channels last and many positions each
 * thread has its own, and there are two more for each group. */
static int64_t group_norm_backward(const asked *a) {
    enum { X = 1, EXAMPLES = 5, CHANNELS = 6, POSITIONS = 7, GROUPS = 8, MANY = 2048, AXES = 5 };
    static const int8_t last[AXES] = {1, 4, 3, 2, 0};
    const lam_op_arg *x = lmi_asked_tensor(a, X);
    if (!x) return 0;
    const bool by_channel =
        x->ndim == 4 ? is_channels_last(a, X) : x->ndim == AXES && !in_rows(a, X) && is_dense(a, X, last);
    const int64_t examples =
        lmi_limited_times(2 * lmi_most(lmi_item(x), 4), lmi_asked_number(a, EXAMPLES, 0, 0));
    const int64_t sums = lmi_limited_times(examples, lmi_asked_number(a, CHANNELS, 0, 0));
    if (!by_channel || lmi_asked_number(a, POSITIONS, 0, 0) < MANY) return sums;
    return sums + lmi_limited_times(sums, a->cpu.threads) +
           lmi_limited_times(examples, lmi_asked_number(a, GROUPS, 0, 0));
}

static int64_t strided_twice(const asked *a) { return 2 * lmi_most(copied(a, 0), copied(a, 1)); }

/* A copy along one axis after another. */
static int64_t roll(const asked *a) {
    int32_t dims = at(a, 2);
    bool several = dims >= 0 && a->in[dims].value.type == LAM_INTS && a->in[dims].value.n > 1;
    return several ? lmi_bytes(lmi_asked_tensor(a, 0)) : 0;
}

/* Converted to channels last and back, if they fill a register. */
static int64_t upsample(const asked *a) {
    const lam_op_arg *x = lmi_asked_tensor(a, 0);
    if (!x || x->ndim != 4 || x->sizes[1] % 4 != 0 || is_channels_last(a, 0)) return 0;
    int64_t area = lmi_limited_times(lmi_asked_number(a, 1, 0, 0), lmi_asked_number(a, 1, 1, 0));
    int64_t y =
        lmi_limited_times(lmi_limited_times(x->sizes[0], x->sizes[1]), lmi_limited_times(area, lmi_item(x)));
    return y + (x->sizes[2] * x->sizes[3] > 1 ? lmi_bytes(x) : 0);
}

/* The gradient must be in rows, or channels last without gaps like the result; else it is copied. */
static int64_t upsample_backward(const asked *a) {
    const lam_op_arg *grad = lmi_asked_tensor(a, 0);
    if (!grad || grad->ndim != 4 || in_rows(a, 0) || is_channels_last(a, 0)) return 0;
    int64_t n = 1;
    for (int32_t i = 0; i < 4; i++) n = lmi_limited_times(n, lmi_asked_number(a, 2, i, 1));
    return lmi_bytes(grad) + (suggests_last(a, 0) ? lmi_limited_times(n, lmi_item(grad)) : 0);
}

static int64_t first_in_rows(const asked *a) { return copied(a, 0); }

/* == products of matrices in 16 bits ==================================================================== */

/* oneDNN adds up blocks of 256 rows and 64 columns in 32 bits. Each thread copies the columns of the
 * second matrix in pairs, and the rows of the first one unless they are contiguous. ATen uses no oneDNN
 * for smaller products. The sizes of the blocks were measured on a processor with AVX-512; several
 * threads may share smaller ones. */
static int64_t product_in_16(const asked *a, int32_t first) {
    enum { AVX512 = 16, SMALL = 4096, ROWS = 256, COLUMNS = 64, PAIRS = 32, KEPT = 1024, ALIGNED = 128 };
    enum { SHALLOW = 512, DEEP = 1024 }; /* depth of the sum at a time, the second for long ones */
    const lam_op_arg *x = lmi_asked_tensor(a, first), *y = lmi_asked_tensor(a, first + 1);
    if (!x || !y || x->ndim < 2 || y->ndim != x->ndim) return 0;
    const char *type = lam_dtype_name(x->dtype);
    const bool half = strcmp(type, "float16") == 0 && a->cpu.half;
    const bool runs = half || (strcmp(type, "bfloat16") == 0 && a->cpu.lanes >= AVX512);
    const int64_t m = x->sizes[x->ndim - 2], k = x->sizes[x->ndim - 1], n = y->sizes[y->ndim - 1];
    if (!runs || lmi_limited_times(numel(x), n) <= SMALL) return 0;
    const int64_t *strides = a->strides[x - a->in];
    const bool across = strides && strides[x->ndim - 1] != 1;
    const int64_t rows = m < ROWS ? m : ROWS, most = k > DEEP && !across ? DEEP : SHALLOW;
    const int64_t up = lmi_up(k, PAIRS), deep = up < most ? up : most;
    int64_t taken = rows * (n < COLUMNS ? n : COLUMNS) * 4 + deep * COLUMNS * 2 + KEPT;
    if (across) taken += rows * (deep < SHALLOW ? deep : deep + PAIRS) * 2 + ALIGNED;
    return lmi_limited_times(taken, a->cpu.threads);
}

static int64_t product(const asked *a) { return product_in_16(a, 0); }
static int64_t product_added(const asked *a) { return product_in_16(a, 1); }

static int64_t nothing(const asked *a) {
    (void)a;
    return 0;
}

/* == the table ========================================================================================= */

static const struct workspace {
    const char *name;
    int64_t (*run)(const asked *a);
    enum { ALWAYS, IN_32, FLOATS } sure; /* as in the table */
} rules[] = {
#define WORKSPACE(name, rule, sure) {name, rule, sure},
#include "vocab/workspace.def"
#undef WORKSPACE
};
enum { N_RULES = sizeof rules / sizeof *rules };

int32_t lam_workspace_rule(const char *name) {
    for (int32_t i = 0; name && i < N_RULES; i++)
        if (strcmp(rules[i].name, name) == 0) return i;
    return -1;
}

bool lam_workspace_rough(int32_t rule, const lam_op_arg *in, int32_t n_in) {
    if (rule < 0 || rule >= N_RULES || rules[rule].sure == ALWAYS) return false;
    for (int32_t i = 0; i < n_in; i++) {
        const char *type = in[i].is_tensor ? lam_dtype_name(in[i].dtype) : "float32";
        if (!strstr(type, "float")) return true;
        if (rules[rule].sure == FLOATS) continue;
        if (lam_dtype_bits(in[i].dtype) == 16 && in[i].is_tensor && !lam_cpu_lacks(in[i].dtype)) return true;
    }
    return false;
}

int64_t lam_workspace(int32_t rule, const lam_op_arg *in, const int64_t *const *strides, int32_t n_in,
                      lam_cpu cpu) {
    if (rule < 0 || rule >= N_RULES || n_in < 0 || cpu.lanes < 1 || cpu.threads < 1) return 0;
    asked a = {in, strides, n_in, cpu};
    int64_t n = rules[rule].run(&a);
    return n > 0 ? n : 0;
}

#if defined(__x86_64__) && defined(__GNUC__)
/* Two features that older compilers don't know by name. */
enum { AVX512FP16 = 1, AVX_NE_CONVERT = 2 };

static int features(void) {
    uint32_t a = 7, b, c = 0, d, more = 7, part = 1, e;
    __asm__("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
    if (a == 0) return d >> 23 & 1 ? AVX512FP16 : 0;
    __asm__("cpuid" : "+a"(more), "=b"(b), "+c"(part), "=d"(e));
    return (d >> 23 & 1 ? AVX512FP16 : 0) | (e >> 5 & 1 ? AVX_NE_CONVERT : 0);
}

static bool is_wide(void) { return __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"); }
#endif

lam_cpu lam_cpu_here(int32_t threads) {
    lam_cpu cpu = {threads > 0 ? threads : 1, 8, false};
#if defined(__x86_64__) && defined(__GNUC__)
    if (is_wide()) cpu.lanes = 16;
    cpu.half = is_wide() && features() & AVX512FP16;
#endif
    return cpu;
}

bool lam_cpu_lacks(int32_t dtype) {
#if defined(__x86_64__) && defined(__GNUC__)
    const char *name = lam_dtype_name(dtype);
    if (!__builtin_cpu_supports("avx2") || features() & AVX_NE_CONVERT) return false;
    if (strcmp(name, "bfloat16") == 0) return !is_wide();
    return strcmp(name, "float16") == 0 && !(features() & AVX512FP16);
#else
    (void)dtype;
    return false;
#endif
}
