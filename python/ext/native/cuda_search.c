/* SPDX-License-Identifier: Apache-2.0
 * Searches a GPU's memory for NaN and Inf, by a kernel of our own: torch's operators would allocate memory,
 * which a capture may be measuring, and be operators of the model. The kernel is PTX, which the driver
 * compiles for its GPU; the driver is the one that torch's runtime has loaded. Bench row: a training step
 * on a GPU (bench/health.py). */
#include "native/cuda_search.h"
#include "native/shim.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>

enum {
    KINDS = 4, /* of numbers: 1, 2, 4 and 8 bytes */
    DEVICES = 64,
    FLAGS = 64, /* searches at a time */
    THREADS = 256,
    BLOCKS = LMX_SEARCHED_AT_ONCE / THREADS,
    PORTABLE_AND_MAPPED = 3, /* memory of the host that every GPU may write to */
    OUT_OF_MEMORY = 2,
    NOT_SEARCHED = -1
};

/* Each thread takes one number in `step`, and stops at the first that is found. */
#define KERNEL(name, load, shift)                                                                            \
    ".visible .entry " name "(.param .u64 p_at, .param .u64 p_n, .param .u64 p_mask, .param .u64 p_want,\n"  \
    "    .param .u64 p_flag)\n"                                                                              \
    "{\n"                                                                                                    \
    "  .reg .pred %done, %bad;\n"                                                                            \
    "  .reg .b32 %block, %wide, %one;\n"                                                                     \
    "  .reg .b64 %i, %step, %n, %at, %mask, %want, %from, %v, %flag;\n"                                      \
    "  ld.param.u64 %at, [p_at];\n"                                                                          \
    "  ld.param.u64 %n, [p_n];\n"                                                                            \
    "  ld.param.u64 %mask, [p_mask];\n"                                                                      \
    "  ld.param.u64 %want, [p_want];\n"                                                                      \
    "  ld.param.u64 %flag, [p_flag];\n"                                                                      \
    "  mov.u32 %block, %ctaid.x;\n"                                                                          \
    "  mov.u32 %wide, %ntid.x;\n"                                                                            \
    "  mov.u32 %one, %tid.x;\n"                                                                              \
    "  mul.wide.u32 %i, %block, %wide;\n"                                                                    \
    "  cvt.u64.u32 %v, %one;\n"                                                                              \
    "  add.u64 %i, %i, %v;\n"                                                                                \
    "  mov.u32 %block, %nctaid.x;\n"                                                                         \
    "  mul.wide.u32 %step, %block, %wide;\n"                                                                 \
    "next:\n"                                                                                                \
    "  setp.ge.u64 %done, %i, %n;\n"                                                                         \
    "  @%done bra end;\n"                                                                                    \
    "  shl.b64 %from, %i, " shift ";\n"                                                                      \
    "  add.u64 %from, %from, %at;\n"                                                                         \
    "  ld.global." load " %v, [%from];\n"                                                                    \
    "  and.b64 %v, %v, %mask;\n"                                                                             \
    "  setp.eq.u64 %bad, %v, %want;\n"                                                                       \
    "  @%bad bra found;\n"                                                                                   \
    "  add.u64 %i, %i, %step;\n"                                                                             \
    "  bra next;\n"                                                                                          \
    "found:\n"                                                                                               \
    "  mov.u32 %one, 1;\n"                                                                                   \
    "  st.global.u32 [%flag], %one;\n"                                                                       \
    "end:\n"                                                                                                 \
    "  ret;\n"                                                                                               \
    "}\n"

static const char program[] = ".version 6.0\n"
                              ".target sm_50\n"
                              ".address_size 64\n" KERNEL("search8", "u8", "0") KERNEL("search16", "u16", "1")
                                  KERNEL("search32", "u32", "2") KERNEL("search64", "u64", "3");

static const char *const names[KINDS] = {"search8", "search16", "search32", "search64"};

static struct {
    pthread_mutex_t lock; /* of the rest; never held while the GPU works */
    bool asked, found;
    int (*load)(void **module, const void *image);
    int (*function)(void **out, void *module, const char *name);
    int (*launch)(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                  unsigned block_y, unsigned block_z, unsigned shared_bytes, void *stream, void **params,
                  void **extra);
    int (*wait)(void *stream);
    int (*allocate)(void **out, size_t bytes, unsigned flags);
    bool loaded[DEVICES], failed[DEVICES];
    void *kernels[DEVICES][KINDS];
    volatile uint32_t *flags; /* FLAGS of them, which the kernels set; kept until the process ends */
    uint64_t taken;           /* a bit a flag */
} driver = {.lock = PTHREAD_MUTEX_INITIALIZER};

static bool find_driver(void) {
    void *l = dlopen("libcuda.so.1", RTLD_NOLOAD | RTLD_LAZY);
    if (!l) return false;
    bool all = lmx_symbol(l, "cuModuleLoadData", &driver.load) &&
               lmx_symbol(l, "cuModuleGetFunction", &driver.function) &&
               lmx_symbol(l, "cuLaunchKernel", &driver.launch) &&
               lmx_symbol(l, "cuStreamSynchronize", &driver.wait) &&
               lmx_symbol(l, "cuMemHostAlloc", &driver.allocate);
    dlclose(l); /* torch's runtime keeps it loaded */
    return all;
}

/* Compiles the kernels for the current device. Not tried again if it failed, except for lack of memory. */
static bool load_kernels(int device) {
    void *module = NULL, *flags = NULL;
    if (driver.loaded[device] || driver.failed[device]) return driver.loaded[device];
    int error = driver.flags ? 0 : driver.allocate(&flags, FLAGS * sizeof(uint32_t), PORTABLE_AND_MAPPED);
    if (flags && !error) driver.flags = flags;
    if (!error) error = driver.load(&module, program);
    for (int i = 0; !error && i < KINDS; i++)
        error = driver.function(&driver.kernels[device][i], module, names[i]);
    driver.loaded[device] = !error;
    driver.failed[device] = error && error != OUT_OF_MEMORY;
    return !error;
}

static int run(const lmx_search *s, void *kernel, volatile uint32_t *flag, void *stream, bool *found) {
    const size_t blocks = (s->n + THREADS - 1) / THREADS;
    uint64_t at = (uint64_t)(uintptr_t)s->at, n = s->n, mask = s->mask, want = s->want;
    uint64_t to = (uint64_t)(uintptr_t)flag;
    void *params[] = {&at, &n, &mask, &want, &to};
    *flag = 0;
    int error = driver.launch(kernel, (unsigned)(blocks < BLOCKS ? blocks : BLOCKS), 1, 1, THREADS, 1, 1, 0,
                              stream, params, NULL);
    if (!error) error = driver.wait(stream);
    *found = *flag != 0;
    return error;
}

/* A flag that no other search uses, with the kernels loaded; -1: none. */
static int take_flag(int device) {
    int i = -1;
    pthread_mutex_lock(&driver.lock);
    if (load_kernels(device) && driver.taken != UINT64_MAX) {
        i = __builtin_ctzll(~driver.taken);
        driver.taken |= UINT64_C(1) << i;
    }
    pthread_mutex_unlock(&driver.lock);
    return i;
}

static void give_flag(int i) {
    pthread_mutex_lock(&driver.lock);
    driver.taken &= ~(UINT64_C(1) << i);
    pthread_mutex_unlock(&driver.lock);
}

static int search(const lmx_search *s, void *stream, bool *found) {
    const int kind = s->width == 1 ? 0 : s->width == 2 ? 1 : s->width == 4 ? 2 : 3;
    const int flag = s->device >= 0 && s->device < DEVICES ? take_flag(s->device) : -1;
    if (flag < 0) return NOT_SEARCHED;
    int error = run(s, driver.kernels[s->device][kind], driver.flags + flag, stream, found);
    give_flag(flag);
    return error;
}

int (*lmx_cuda_search(void))(const lmx_search *s, void *stream, bool *found) {
    pthread_mutex_lock(&driver.lock);
    if (!driver.asked) driver.found = find_driver();
    driver.asked = true;
    pthread_mutex_unlock(&driver.lock);
    return driver.found ? search : NULL;
}
