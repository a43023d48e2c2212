/* SPDX-License-Identifier: Apache-2.0
 * The functions of CUDA, or of HIP, whose functions have the same names with another prefix. They are
 * looked up in the libraries that torch loaded and calls itself, so that a second runtime in the process
 * can't be confused with it. Only torch knows the current stream: a C function returns it, or a C++
 * function whose result is checked against Python. */
#include "measure/device.h"
#include "native/cuda_search.h"
#include "process/device_api.h"
#include "process/device_values.h"
#include "torch/tensor.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static struct {
    lmx_streams table;
    bool found, proved, memory_proved;
    uint64_t values_tried, values_proved; /* a bit a device */
    bool asked, absent;                   /* absent: torch was built without CUDA */
    int32_t (*shim_stream)(int32_t device, void **out);
    /* C++: c10::cuda::CUDAStream, two words, and CUDA's handle of it. */
    struct lmx_c10_stream {
        uint64_t device;
        int64_t id;
    } (*c10_stream)(int8_t device);
    void *(*c10_handle)(const struct lmx_c10_stream *stream);
    int (*c10_get)(int8_t *device);
    int (*c10_set)(int8_t device);
    const lmx_streams *pretended; /* the fake GPU of a test, instead of the rest */
} cuda = {.table = {.device_type = 1}};

/* == the libraries ======================================================================================= */

enum { LIBRARIES = 4 };

typedef struct libraries {
    void *at[LIBRARIES];
} libraries;

/* Never loads a library: one that is not loaded is not used. */
static libraries open_all(void) {
    static const char *const names[LIBRARIES] = {"libtorch_cuda.so", "libc10_cuda.so", "libtorch_hip.so",
                                                 "libc10_hip.so"};
    libraries l;
    for (int i = 0; i < LIBRARIES; i++) l.at[i] = dlopen(names[i], RTLD_NOLOAD | RTLD_LAZY);
    return l;
}

static void close_all(libraries *l) {
    for (int i = 0; i < LIBRARIES; i++)
        if (l->at[i]) dlclose(l->at[i]); /* torch keeps them loaded */
}

/* dlsym also searches the libraries that this one needs, such as its runtime. */
static bool find(const libraries *l, const char *name, void *function) {
    for (int i = 0; i < LIBRARIES; i++)
        if (l->at[i] && lmx_symbol(l->at[i], name, function)) return true;
    return false;
}

/* A function of the runtime: "cudaEventRecord" or "hipEventRecord". */
static bool runtime(const libraries *l, const char *name, void *function) {
    static const char *const prefixes[] = {"cuda", "hip"};
    char full[64];
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
        snprintf(full, sizeof full, "%s%s", prefixes[i], name);
        if (find(l, full, function)) {
            cuda.table.name = i ? "HIP" : "CUDA";
            return true;
        }
    }
    return false;
}

/* == torch's state ======================================================================================= */

static int stream_by_shim(int32_t device, void **out) { return cuda.shim_stream(device, out) ? 1 : 0; }

static int stream_by_c10(int32_t device, void **out) {
    const struct lmx_c10_stream stream = cuda.c10_stream((int8_t)device);
    *out = cuda.c10_handle(&stream);
    return 0;
}

static int get_by_c10(int *out) {
    int8_t device = -1;
    int error = cuda.c10_get(&device);
    *out = device;
    return error;
}

static int set_by_c10(int device) { return cuda.c10_set((int8_t)device); }

static bool find_current(const libraries *l, lmx_streams *t) {
    static const char *const stream[] = {"_ZN3c104cuda20getCurrentCUDAStreamEa",
                                         "_ZN3c103hip19getCurrentHIPStreamEa"};
    static const char *const handle[] = {"_ZNK3c104cuda10CUDAStream6streamEv",
                                         "_ZNK3c103hip9HIPStream6streamEv"};
    if (find(l, "aoti_torch_get_current_cuda_stream", &cuda.shim_stream)) {
        t->current_stream = stream_by_shim;
        return true;
    }
    for (int i = 0; i < 2; i++) {
        if (!find(l, stream[i], &cuda.c10_stream) || !find(l, handle[i], &cuda.c10_handle)) continue;
        t->current_stream = stream_by_c10;
        return true;
    }
    return false;
}

/* torch's functions do not create a context on a device without one, which would take hundreds of
 * megabytes there; those of the runtime do. */
static bool find_device(const libraries *l, lmx_streams *t) {
    bool c10 = find(l, "_ZN3c104cuda9GetDeviceEPa", &cuda.c10_get) &&
               find(l, "_ZN3c104cuda14MaybeSetDeviceEa", &cuda.c10_set);
    if (c10) {
        t->get_device = get_by_c10;
        t->set_device = set_by_c10;
    }
    return c10 || (runtime(l, "GetDevice", &t->get_device) && runtime(l, "SetDevice", &t->set_device));
}

/* == all functions ======================================================================================= */

static const char *missing(const libraries *l, lmx_streams *t) {
    runtime(l, "ThreadExchangeStreamCaptureMode", &t->exchange_mode);
    runtime(l, "GetErrorString", &t->error_text);
    runtime(l, "MemcpyAsync", &t->copy);
    runtime(l, "StreamSynchronize", &t->wait);
    if (!find_current(l, t)) return "this torch does not tell in C which stream is current";
    bool all = find_device(l, t) && runtime(l, "StreamIsCapturing", &t->is_capturing) &&
               runtime(l, "EventCreateWithFlags", &t->create) && runtime(l, "EventRecord", &t->record) &&
               runtime(l, "EventQuery", &t->query) && runtime(l, "EventSynchronize", &t->synchronize) &&
               runtime(l, "EventElapsedTime", &t->elapsed) && runtime(l, "EventDestroy", &t->destroy) &&
               runtime(l, "GetLastError", &t->last_error);
    return all ? NULL : "the functions for events were not found in the libraries that torch has loaded";
}

const lmx_streams *lmx_device_streams(char *why, size_t size) {
    if (cuda.pretended) return cuda.pretended;
    if (cuda.found) return &cuda.table;
    libraries l = open_all();
    const char *wrong = missing(&l, &cuda.table);
    close_all(&l);
    cuda.found = !wrong;
    if (cuda.found && strcmp(cuda.table.name, "CUDA") == 0) cuda.table.search = lmx_cuda_search();
    if (wrong) snprintf(why, size, "%s", wrong);
    return wrong ? NULL : &cuda.table;
}

PyObject *lmx_pretend_device(PyObject *module, PyObject *address) {
    (void)module;
    const void *at = PyLong_AsVoidPtr(address);
    if (PyErr_Occurred()) return NULL;
    bool loaded = at == (const void *)1;
    cuda.pretended = loaded ? NULL : at;
    cuda.table.device_type = loaded ? 0 : 1;
    cuda.found = cuda.proved = cuda.memory_proved = false;
    cuda.values_tried = cuda.values_proved = 0;
    cuda.asked = loaded; /* CUDA counts as present */
    cuda.absent = false;
    Py_RETURN_NONE;
}

/* torch.cuda.name(...), a new reference; NULL without an exception. */
static PyObject *ask(const char *name, int device) {
    PyObject *modules = PyImport_GetModuleDict(), *torch = PyDict_GetItemString(modules, "torch");
    PyObject *all = torch ? PyObject_GetAttrString(torch, "cuda") : NULL;
    PyObject *answer = !all         ? NULL
                       : device < 0 ? PyObject_CallMethod(all, name, NULL)
                                    : PyObject_CallMethod(all, name, "i", device);
    Py_XDECREF(all);
    PyErr_Clear();
    return answer;
}

/* True if torch was built with CUDA, as torch itself decides it. */
static bool is_built(void) {
    PyObject *all = PyImport_ImportModule("torch._C");
    bool built = all && PyObject_HasAttrString(all, "_cuda_getDeviceCount");
    Py_XDECREF(all);
    PyErr_Clear();
    return built;
}

/* A watch calls this at each recorded step, so the constant part is cached. */
bool lmx_device_used(void) {
    if (cuda.pretended) return true;
    if (!cuda.asked) cuda.absent = !is_built();
    cuda.asked = true;
    if (cuda.absent) return false;
    PyObject *used = ask("is_initialized", -1);
    bool yes = used == Py_True;
    Py_XDECREF(used);
    return yes;
}

/* == checks ============================================================================================== */

static bool same_stream(const lmx_streams *t, int device) {
    void *ours = NULL;
    PyObject *stream = ask("current_stream", device);
    PyObject *handle = stream ? PyObject_GetAttrString(stream, "cuda_stream") : NULL;
    void *theirs = handle && PyLong_Check(handle) ? PyLong_AsVoidPtr(handle) : &ours;
    bool same = !PyErr_Occurred() && !t->current_stream(device, &ours) && ours == theirs;
    Py_XDECREF(stream);
    Py_XDECREF(handle);
    PyErr_Clear();
    return same;
}

static bool clock_goes_on(const lmx_streams *t, int device, char *why, size_t size) {
    int64_t first = 0, second = -1;
    int32_t stream, other;
    lmx_stamps *s = lmx_stamps_new(t, device);
    if (!s) {
        snprintf(why, size, "memory ran out");
        return false;
    }
    int32_t a = lmx_stamps_put(s), b = lmx_stamps_put(s);
    Py_BEGIN_ALLOW_THREADS lmx_stamps_resolve(s);
    Py_END_ALLOW_THREADS bool known =
        lmx_stamps_at(s, a, &stream, &first) && lmx_stamps_at(s, b, &other, &second);
    bool ok = known && stream == other && second >= first && second - first < INT64_C(60000000000);
    if (!ok) snprintf(why, size, "%s", known ? "the device's clock does not go on" : lmx_stamps_why(s));
    lmx_stamps_free(s);
    return ok;
}

bool lmx_device_prove(const lmx_streams *t, int device, char *why, size_t size) {
    if (t != &cuda.table || cuda.proved) return true;
    if (!same_stream(t, device)) {
        snprintf(why, size, "the current stream is another than the one that torch tells");
        return false;
    }
    cuda.proved = clock_goes_on(t, device, why, size);
    return cuda.proved;
}

/* == the allocator ======================================================================================= */

/* torch._C's functions answer in one call; the public ones are the fallback. */
static PyObject *ask_allocator(const char *own, const char *name, int device) {
    PyObject *modules = PyImport_GetModuleDict(), *c = PyDict_GetItemString(modules, "torch._C");
    PyObject *answer = c ? PyObject_CallMethod(c, own, "i", device) : NULL;
    PyErr_Clear();
    return answer ? answer : ask(name, device);
}

/* stats["allocated_bytes"]["all"][which]; -1 if there is none. */
static int64_t number_in(PyObject *stats, const char *which) {
    PyObject *bytes = stats && PyDict_Check(stats) ? PyDict_GetItemString(stats, "allocated_bytes") : NULL;
    PyObject *all = bytes && PyDict_Check(bytes) ? PyDict_GetItemString(bytes, "all") : NULL;
    PyObject *n = all && PyDict_Check(all) ? PyDict_GetItemString(all, which) : NULL;
    int64_t value = n && PyLong_Check(n) ? (int64_t)PyLong_AsLongLong(n) : -1;
    if (PyErr_Occurred()) value = -1;
    PyErr_Clear();
    return value;
}

static bool said_by_torch(int device, lmx_said *out) {
    PyObject *stats = ask_allocator("_cuda_memoryStats", "memory_stats_as_nested_dict", device);
    *out = (lmx_said){number_in(stats, "current"), number_in(stats, "peak"), number_in(stats, "allocated"),
                      number_in(stats, "freed")};
    Py_XDECREF(stats);
    PyObject *anew = ask_allocator("_cuda_resetPeakMemoryStats", "reset_peak_memory_stats", device);
    Py_XDECREF(anew);
    return anew && out->now >= 0 && out->peak >= out->now && out->allocated >= 0 && out->freed >= 0;
}

bool lmx_device_said(const lmx_streams *t, int device, lmx_said *out) {
    PyObject *type, *value, *trace;
    if (t->memory) return !t->memory(device, out);
    PyGILState_STATE state = PyGILState_Ensure();
    PyErr_Fetch(&type, &value, &trace);
    bool ok = said_by_torch(device, out);
    PyErr_Restore(type, value, trace);
    PyGILState_Release(state);
    return ok;
}

enum { PROOF = 4093 };

/* Begins a proof that makes tensors, in which no graph is recorded that they would become part of, or that
 * their allocation would end. False with nothing to end. */
static bool begin_proof(const lmx_streams *t, int device, lmx_visit *out) {
    void *stream;
    int error = lmx_visit_begin(t, device, out);
    if (!error) {
        error = lmx_stream_of(t, device, &stream);
        if (error) lmx_visit_end(t, out);
    }
    if (error > 0) t->last_error();
    return !error;
}

/* torch.full((n,), value), of the named type; NULL without an exception. */
static PyObject *new_tensor(int32_t device_type, int device, int n, double value, const char *type) {
    char name[32];
    PyObject *torch = PyDict_GetItemString(PyImport_GetModuleDict(), "torch");
    PyObject *full = torch ? PyObject_GetAttrString(torch, "full") : NULL;
    PyObject *dtype = torch ? PyObject_GetAttrString(torch, type) : NULL;
    snprintf(name, sizeof name, device_type == 1 ? "cuda:%d" : "cpu", device);
    PyObject *args = Py_BuildValue("((i)d)", n, value);
    PyObject *kwargs = dtype ? Py_BuildValue("{s:s,s:O}", "device", name, "dtype", dtype) : NULL;
    PyObject *tensor = full && args && kwargs ? PyObject_Call(full, args, kwargs) : NULL;
    Py_XDECREF(full);
    Py_XDECREF(dtype);
    Py_XDECREF(args);
    Py_XDECREF(kwargs);
    PyErr_Clear();
    return tensor;
}

static bool shows_a_tensor(const lmx_streams *t, int device, bool *known) {
    lmx_said before, with, after;
    *known = lmx_device_said(t, device, &before);
    PyObject *tensor = *known ? new_tensor(t->device_type, device, PROOF, 0, "uint8") : NULL;
    *known = *known && tensor && lmx_device_said(t, device, &with);
    Py_XDECREF(tensor);
    *known = *known && lmx_device_said(t, device, &after);
    return *known && with.now >= before.now + PROOF && with.allocated >= before.allocated + PROOF &&
           with.peak >= with.now && after.now <= with.now - PROOF && after.freed >= with.freed + PROOF;
}

bool lmx_device_prove_memory(const lmx_streams *t, int device, char *why, size_t size) {
    lmx_visit visit;
    bool known;
    if (t != &cuda.table || cuda.memory_proved) return true;
    if (!begin_proof(t, device, &visit)) {
        snprintf(why, size, "a graph is being recorded");
        return false;
    }
    cuda.memory_proved = shows_a_tensor(t, device, &known);
    lmx_visit_end(t, &visit);
    if (!cuda.memory_proved)
        snprintf(why, size, "%s",
                 known ? "its allocator did not show a tensor of known size come and go"
                       : "its allocator does not tell");
    return cuda.memory_proved;
}

/* == values ============================================================================================== */

/* Reads a new tensor, as numbers of type `dtype`: its last one alone is `last`, and NaN if `nan`. */
static bool reads_back(const lmx_streams *t, int device, const char *type, int32_t dtype, double last,
                       bool nan) {
    lam_nonfinite found = {0};
    const int64_t size = LMX_SEARCHED_AT_ONCE + 1000, stride = 1;
    PyObject *tensor = new_tensor(t->device_type, device, (int)size, 1, type);
    PyObject *index = PyLong_FromLong(-1), *value = PyFloat_FromDouble(last);
    const bool set = tensor && index && value && PyObject_SetItem(tensor, index, value) == 0;
    PyObject *at = set ? PyObject_CallMethod(tensor, "data_ptr", NULL) : NULL;
    const void *data = at && PyLong_Check(at) ? PyLong_AsVoidPtr(at) : NULL;
    PyErr_Clear();
    const lam_values v = {data, dtype, 1, &size, &stride};
    const bool ok = data && lmx_device_values(t, device, &v, &found, NULL) && found.inf == 0 &&
                    found.nan == nan && found.first == (nan ? size - 1 : -1);
    Py_XDECREF(at);
    Py_XDECREF(value);
    Py_XDECREF(index);
    Py_XDECREF(tensor);
    return ok;
}

/* Numbers of each size, since each has a separate kernel; the bits 0x7F are the NaN of float8_e4m3fn. */
static bool reads_all(const lmx_streams *t, int device) {
    static const struct {
        const char *type;
        int32_t dtype;
        double nan;
    } all[] = {{"float64", 7, NAN}, {"float32", 6, NAN}, {"float16", 5, NAN}, {"uint8", 24, 0x7F}};
    bool ok = true;
    for (size_t i = 0; ok && i < sizeof all / sizeof *all; i++)
        ok = reads_back(t, device, all[i].type, all[i].dtype, 1, false) &&
             reads_back(t, device, all[i].type, all[i].dtype, all[i].nan, true);
    return ok;
}

const lmx_streams *lmx_device_reads(void) {
    char why[240];
    int device = -1;
    lmx_visit visit;
    const lmx_streams *t = lmx_device_used() ? lmx_device_streams(why, sizeof why) : NULL;
    if (!t || t != &cuda.table) return t;
    if (t->get_device(&device) || device < 0 || device >= 64) return NULL;
    const uint64_t bit = UINT64_C(1) << device;
    if (!(cuda.values_tried & bit) && begin_proof(t, device, &visit)) {
        cuda.values_tried |= bit;
        if (lmx_device_prove(t, device, why, sizeof why) && reads_all(t, device)) cuda.values_proved |= bit;
        lmx_visit_end(t, &visit);
    }
    return cuda.values_proved & bit ? t : NULL;
}
