/* SPDX-License-Identifier: Apache-2.0
 * A stand-in for a GPU, see fake_gpu.h: two devices with four streams each, whose clock is
 * the work that they were given. It is as strict as a real one: an event belongs to its device, an event that
 * was not recorded or is not ready has no time, an error stays until somebody takes it. */
#include "fake_gpu.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum {
    DEVICES = 2,
    STREAMS = 4,
    NO_MEMORY = 2,
    BAD_VALUE = 1,
    BAD_HANDLE = 400,
    NOT_WHILE_CAPTURING = 900,
    BEGINNING = 5000000 /* the clock when it is put to use; any number */
};

typedef struct event {
    int device;
    bool recorded;
    int64_t ns;
} event;

static struct {
    pthread_mutex_t lock;
    bool used, lazy, capturing[DEVICES][STREAMS];
    int device, stream[DEVICES], mode, error;
    int fail_sync, fail_record, fail_elapsed, fail_memory, fail_copy, fail_search, fail_wait;
    lmx_said said;
    int64_t fail_create; /* so many more can be made; -1: any number */
    int64_t tail[DEVICES][STREAMS], reached, live, made, syncs, copies, searches;
} fake = {.lock = PTHREAD_MUTEX_INITIALIZER};

static int told(int error) {
    if (error) fake.error = error;
    pthread_mutex_unlock(&fake.lock);
    return error;
}

static void lock(void) { pthread_mutex_lock(&fake.lock); }

static int get_device(int *out) {
    lock();
    *out = fake.device;
    return told(0);
}

static int set_device(int device) {
    lock();
    if (device < 0 || device >= DEVICES) return told(BAD_VALUE);
    fake.device = device;
    return told(0);
}

static void *handle_of(int device, int stream) {
    static char at[DEVICES][STREAMS];
    return device == 0 && stream == 0 ? NULL : &at[device][stream]; /* as CUDA's own first stream */
}

static bool find(void *stream, int *device, int *index) {
    for (*device = 0; *device < DEVICES; ++*device)
        for (*index = 0; *index < STREAMS; ++*index)
            if (handle_of(*device, *index) == stream) return true;
    return false;
}

static int current_stream(int32_t device, void **out) {
    lock();
    if (device < 0 || device >= DEVICES) return told(BAD_VALUE);
    *out = handle_of(device, fake.stream[device]);
    return told(0);
}

static int is_capturing(void *stream, int *out) {
    int device, index;
    lock();
    if (!find(stream, &device, &index)) return told(BAD_HANDLE);
    *out = fake.capturing[device][index];
    return told(0);
}

static int exchange_mode(int *mode) {
    lock();
    int was = fake.mode;
    fake.mode = *mode;
    *mode = was;
    return told(0);
}

/* What is forbidden while a graph is recorded, unless this thread said that it knows what it does. */
static bool is_forbidden(void) {
    for (int d = 0; d < DEVICES; d++)
        for (int i = 0; i < STREAMS; i++)
            if (fake.capturing[d][i] && fake.mode != LMX_MODE_RELAXED) return true;
    return false;
}

static int create(void **out, unsigned flags) {
    lock();
    event *e = fake.fail_create == 0 || flags ? NULL : calloc(1, sizeof *e);
    if (!e) return told(NO_MEMORY);
    if (fake.fail_create > 0) fake.fail_create--;
    e->device = fake.device;
    fake.live++;
    fake.made++;
    *out = e;
    return told(0);
}

static int record(void *at, void *stream) {
    event *e = at;
    int device, index;
    lock();
    if (fake.fail_record) return told(fake.fail_record);
    if (!find(stream, &device, &index) || e->device != device || device != fake.device)
        return told(BAD_HANDLE);
    if (fake.capturing[device][index]) return told(NOT_WHILE_CAPTURING);
    e->recorded = true;
    e->ns = fake.tail[device][index];
    return told(0);
}

static bool is_ready(const event *e) { return !fake.lazy || e->ns <= fake.reached; }

static int query(void *at) {
    const event *e = at;
    lock();
    if (is_forbidden()) return told(NOT_WHILE_CAPTURING);
    return told(is_ready(e) ? 0 : LMX_NOT_READY);
}

static int synchronize(void *at) {
    const event *e = at;
    lock();
    if (is_forbidden()) return told(NOT_WHILE_CAPTURING);
    fake.syncs++;
    if (fake.fail_sync) return told(fake.fail_sync);
    if (e->ns > fake.reached) fake.reached = e->ns;
    return told(0);
}

static int elapsed(float *ms, void *from, void *to) {
    const event *a = from, *b = to;
    lock();
    if (fake.fail_elapsed) return told(fake.fail_elapsed);
    if (!a->recorded || !b->recorded || a->device != b->device) return told(BAD_HANDLE);
    if (!is_ready(a) || !is_ready(b)) return told(LMX_NOT_READY);
    *ms = (float)((double)(b->ns - a->ns) / 1e6);
    return told(0);
}

static int destroy(void *at) {
    lock();
    free(at);
    fake.live--;
    return told(0);
}

static int memory(int32_t device, lmx_said *out) {
    lock();
    if (fake.fail_memory || device != 0) {
        pthread_mutex_unlock(&fake.lock);
        return fake.fail_memory; /* Python's, which no call of CUDA meets */
    }
    *out = fake.said;
    fake.said.peak = fake.said.now;
    return told(0);
}

/* What a device may do now in this stream; its memory is this machine's. */
static int may_read(void *stream) {
    int device, index;
    if (!find(stream, &device, &index)) return BAD_HANDLE;
    return fake.capturing[device][index] || is_forbidden() ? NOT_WHILE_CAPTURING : 0;
}

static int copy(void *to, const void *from, size_t bytes, int kind, void *stream) {
    lock();
    int error = kind != LMX_TO_HOST ? BAD_VALUE : fake.fail_copy ? fake.fail_copy : may_read(stream);
    if (!error) memcpy(to, from, bytes);
    fake.copies++;
    return told(error);
}

static int wait_for_stream(void *stream) {
    lock();
    return told(fake.fail_wait ? fake.fail_wait : may_read(stream));
}

static int search(const lmx_search *s, void *stream, bool *found) {
    lock();
    fake.searches++;
    int error = s->device != fake.device ? BAD_VALUE : fake.fail_search ? fake.fail_search : may_read(stream);
    *found = false;
    for (size_t i = 0; !error && i < s->n; i++) {
        uint64_t bits = 0;
        memcpy(&bits, (const char *)s->at + i * (size_t)s->width, (size_t)s->width);
        *found = *found || (bits & s->mask) == s->want;
    }
    pthread_mutex_unlock(&fake.lock); /* the driver's errors are not kept for the runtime */
    return error;
}

static int last_error(void) {
    lock();
    int error = fake.error;
    fake.error = 0;
    pthread_mutex_unlock(&fake.lock);
    return error;
}

static const char *error_text(int error) {
    return error == NO_MEMORY ? "out of memory" : "an illegal memory access was encountered";
}

static const lmx_streams table = {.name = "fake",
                                  .device_type = 0, /* the CPU's tensors are taken for the device's */
                                  .get_device = get_device,
                                  .set_device = set_device,
                                  .current_stream = current_stream,
                                  .is_capturing = is_capturing,
                                  .exchange_mode = exchange_mode,
                                  .create = create,
                                  .record = record,
                                  .query = query,
                                  .synchronize = synchronize,
                                  .elapsed = elapsed,
                                  .destroy = destroy,
                                  .last_error = last_error,
                                  .error_text = error_text,
                                  .memory = memory,
                                  .copy = copy,
                                  .wait = wait_for_stream,
                                  .search = search};

const lmx_streams *fake_gpu_streams(void) { return fake.used ? &table : NULL; }

/* -- what tests do with it ------------------------------------------------------------------------------- */

static void begin(bool used) {
    fake.used = used;
    fake.lazy = false;
    fake.device = fake.mode = fake.error = 0;
    fake.fail_sync = fake.fail_record = fake.fail_elapsed = fake.fail_memory = 0;
    fake.fail_copy = fake.fail_search = fake.fail_wait = 0;
    fake.said = (lmx_said){1 << 20, 3 << 20, 5 << 20, 4 << 20};
    fake.fail_create = -1;
    fake.made = fake.syncs = fake.reached = fake.copies = fake.searches = 0;
    memset(fake.stream, 0, sizeof fake.stream);
    memset(fake.capturing, 0, sizeof fake.capturing);
    for (int d = 0; d < DEVICES; d++)
        for (int i = 0; i < STREAMS; i++) fake.tail[d][i] = BEGINNING;
}

static int *setting(const char *what) {
    if (!strcmp(what, "fail_sync")) return &fake.fail_sync;
    if (!strcmp(what, "fail_record")) return &fake.fail_record;
    if (!strcmp(what, "fail_elapsed")) return &fake.fail_elapsed;
    if (!strcmp(what, "fail_memory")) return &fake.fail_memory;
    if (!strcmp(what, "fail_copy")) return &fake.fail_copy;
    if (!strcmp(what, "fail_search")) return &fake.fail_search;
    if (!strcmp(what, "fail_wait")) return &fake.fail_wait;
    return NULL;
}

static void allocate(int64_t bytes) {
    fake.said.now += bytes;
    fake.said.allocated += bytes;
    if (fake.said.now > fake.said.peak) fake.said.peak = fake.said.now;
}

static int64_t fact(const char *what) {
    if (!strcmp(what, "live")) return fake.live;
    if (!strcmp(what, "made")) return fake.made;
    if (!strcmp(what, "syncs")) return fake.syncs;
    if (!strcmp(what, "copies")) return fake.copies;
    if (!strcmp(what, "searches")) return fake.searches;
    if (!strcmp(what, "errors")) return fake.error;
    return -1;
}

static int64_t change(const char *what, int64_t value) {
    const int device = fake.device, stream = fake.stream[device], to = (int)(value & (STREAMS - 1));
    int64_t *tail = fake.tail[device];
    int *set = setting(what);
    if (set)
        *set = (int)value;
    else if (!strcmp(what, "use"))
        begin(value != 0);
    else if (!strcmp(what, "work"))
        tail[stream] += value;
    else if (!strcmp(what, "stream"))
        fake.stream[device] = to;
    else if (!strcmp(what, "wait"))
        tail[stream] = tail[to] > tail[stream] ? tail[to] : tail[stream];
    else if (!strcmp(what, "device"))
        fake.device = (int)(value & (DEVICES - 1));
    else if (!strcmp(what, "capturing"))
        fake.capturing[device][stream] = value != 0;
    else if (!strcmp(what, "allocate"))
        allocate(value);
    else if (!strcmp(what, "free")) {
        fake.said.now -= value;
        fake.said.freed += value;
    } else if (!strcmp(what, "lazy"))
        fake.lazy = value != 0;
    else if (!strcmp(what, "fail_create"))
        fake.fail_create = value;
    else
        return fact(what);
    return 0;
}

int64_t fake_gpu(const char *what, int64_t value) {
    lock();
    int64_t out = change(what, value);
    pthread_mutex_unlock(&fake.lock);
    return out;
}
