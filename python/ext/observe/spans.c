/* SPDX-License-Identifier: Apache-2.0
 * Notes spans, see spans.h. A callback runs on any thread, with or without the GIL: that of a collective ends
 * when another process has answered, on a thread of its backend. So records are found again by their
 * addresses, in a table whose places are taken by one atomic exchange, and finished ones are kept in a ring.
 */
#include "observe/spans.h"
#include "observe/observe.h"
#include "process/clock.h"

enum { OPEN = 256, RING = 4096 };

typedef struct entry {
    int64_t t0, t1;
    uint64_t thread, whose; /* that it ran on; the one whose step it is in */
    int32_t kind;
} entry;

static struct {
    _Atomic(const void *) record; /* NULL: free; &taken: being filled */
    entry of;                     /* without its end */
} opened[OPEN];
static struct {
    _Atomic uint64_t nth; /* from 1; 0: being filled */
    entry of;
} ring[RING];
static struct {           /* the collectives in the order in which they began */
    _Atomic uint64_t nth; /* as in the ring */
    int64_t t0;
    uint64_t name; /* its hash */
} begun[RING];
static _Atomic uint64_t n_ended, n_lost, n_begun;
static _Atomic uint32_t seen;
static const char taken;
static const lmx_record_api *api; /* set once, under the GIL, before the first callback */
static _Thread_local uint64_t handle;
static _Thread_local bool listens;
static int n_listening; /* threads; under the GIL */
/* The thread that alone listens; 0: several do. Threads of autograd's engine work for it. */
static _Atomic uint64_t alone;
/* Waits for other processes that are open on this thread; and how long it was ready in such without a
 * processor. */
static _Thread_local int n_waits;
static _Thread_local int64_t wait_began, starved;

/* == names ============================================================================================= */

/* Names of torch 2.4 and later; those of backends begin with the backend's name. */
static const struct {
    const char *begins;
    lam_step_span_kind kind;
} names[] = {
    {"enumerate(DataLoader)#", LAM_SPAN_INPUT},
    {"Optimizer.", LAM_SPAN_OPTIMIZER}, /* step#, zero_grad# */
    {"FSDP::", LAM_SPAN_WAIT},
    {"gloo:", LAM_SPAN_COLLECTIVE},
    {"nccl:", LAM_SPAN_COLLECTIVE},
    {"ucc:", LAM_SPAN_COLLECTIVE},
    {"mpi:", LAM_SPAN_COLLECTIVE},
    {"xccl:", LAM_SPAN_COLLECTIVE},
};

/* -1: of no kind */
static int32_t kind_of(const char *name) {
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (name[0] == names[i].begins[0] && strncmp(name, names[i].begins, strlen(names[i].begins)) == 0)
            return names[i].kind;
    return -1;
}

/* Sending to one process and receiving from one are no collectives: the others do not take part. Those that
 * are begun as one may be either. */
static bool is_for_all(const char *name) {
    static const char *const others[] = {"send", "recv", "coalesced"};
    const char *what = strchr(name, ':') + 1;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strncmp(what, others[i], strlen(others[i])) == 0) return false;
    return true;
}

/* == callbacks ========================================================================================= */

static void begin_wait(void) {
    if (n_waits++ == 0) wait_began = lmx_processor_wait_ns();
}

static void end_wait(void) {
    if (n_waits <= 0 || --n_waits > 0 || wait_began < 0) return;
    const int64_t now = lmx_processor_wait_ns();
    if (now > wait_began) starved += now - wait_began;
}

static void note_begun(const char *name) {
    const uint64_t n = atomic_fetch_add(&n_begun, 1);
    atomic_store(&begun[n % RING].nth, 0);
    begun[n % RING].t0 = lmx_now_ns();
    begun[n % RING].name = lmi_hash_kept(name);
    atomic_store(&begun[n % RING].nth, n + 1);
}

static void *begins(void **context, const void *record) {
    *context = NULL;
    const char *name = api->name(record);
    const int32_t kind = kind_of(name);
    if (kind < 0) return context;
    atomic_fetch_or(&seen, UINT32_C(1) << kind);
    if (kind == LAM_SPAN_COLLECTIVE && is_for_all(name)) note_begun(name);
    for (int i = 0; i < OPEN; i++) {
        const void *none = NULL;
        if (!atomic_compare_exchange_strong(&opened[i].record, &none, &taken)) continue;
        const uint64_t thread = api->thread(), whose = atomic_load(&alone);
        opened[i].of = (entry){lmx_now_ns(), 0, thread, whose ? whose : thread, kind};
        atomic_store(&opened[i].record, record);
        if (kind == LAM_SPAN_WAIT) begin_wait();
        return context;
    }
    atomic_fetch_add(&n_lost, 1);
    return context;
}

static void ends(const void *record, void *context) {
    (void)context;
    for (int i = 0; i < OPEN; i++) {
        if (atomic_load(&opened[i].record) != record) continue;
        entry of = opened[i].of;
        atomic_store(&opened[i].record, NULL);
        of.t1 = lmx_now_ns();
        if (of.kind == LAM_SPAN_WAIT && of.thread == api->thread()) end_wait();
        const uint64_t n = atomic_fetch_add(&n_ended, 1);
        atomic_store(&ring[n % RING].nth, 0);
        ring[n % RING].of = of;
        atomic_store(&ring[n % RING].nth, n + 1);
        return;
    }
}

bool lmx_spans_begin(lmx_state *st) {
    static const lmx_callback c = {.start = begins, .end = ends, .user = true};
    const lmx_record_api *found = lmx_record_api_of(st);
    PyErr_Clear();
    if (!api) api = found;
    if (listens || !found) return listens;
    n_waits = 0;
    handle = lmx_add_callback(found, &c);
    atomic_store(&alone, ++n_listening == 1 ? found->thread() : 0);
    return listens = true;
}

void lmx_spans_end(void) {
    if (!listens) return;
    api->remove(handle);
    n_listening--;
    listens = false;
}

int64_t lmx_spans_starved_ns(void) { return starved; }

uint32_t lmx_spans_seen(void) { return atomic_load(&seen); }

/* == reading =========================================================================================== */

/* Adds what lies between the two moments and is this thread's. */
static bool add(lmi_vec *to, const entry *of, int64_t t0, int64_t t1) {
    if (of->whose != api->thread()) return true;
    const lam_step_span span = {.kind = of->kind,
                                .t0_ns = of->t0 > t0 ? of->t0 : t0,
                                .t1_ns = of->t1 < t1 ? of->t1 : t1};
    if (span.t0_ns >= span.t1_ns) return true;
    lam_step_span *at = lmx_vec_push(to, sizeof *at, 1);
    if (at) *at = span;
    return at != NULL;
}

bool lmx_spans_between(int64_t t0_ns, int64_t t1_ns, lmi_vec *spans) {
    static uint64_t lost_before;
    const uint64_t n = atomic_load(&n_ended), lost = atomic_load(&n_lost);
    bool ok = api && lost == lost_before;
    lost_before = lost;
    spans->n = 0;
    if (ok && n_listening == 1) atomic_store(&alone, api->thread()); /* the others have ended */
    for (uint64_t i = n > RING ? n - RING : 0; ok && i < n; i++)
        if (atomic_load(&ring[i % RING].nth) == i + 1) ok = add(spans, &ring[i % RING].of, t0_ns, t1_ns);
    for (int i = 0; ok && i < OPEN; i++) {
        const void *record = atomic_load(&opened[i].record);
        entry of = opened[i].of;
        of.t1 = INT64_MAX;
        if (record && record != &taken) ok = add(spans, &of, t0_ns, t1_ns);
    }
    /* If the oldest one that is left ended after the step's start, older ones of it may be gone. */
    return ok && !(n > RING && ring[n % RING].of.t1 > t0_ns);
}

int64_t lmx_spans_collectives(int64_t t0_ns, int64_t t1_ns, int64_t *hash) {
    const uint64_t end = atomic_load(&n_begun);
    uint64_t from = end, order = 0;
    int64_t n = 0;
    *hash = -1;
    if (!api || n_listening > 1) return -1;
    while (from > 0 && end - from < RING && atomic_load(&begun[(from - 1) % RING].nth) == from &&
           begun[(from - 1) % RING].t0 >= t0_ns)
        from--;
    /* If the oldest one that is left began in the step, older ones of it are gone. */
    if (end - from >= RING || (from > 0 && atomic_load(&begun[(from - 1) % RING].nth) != from)) return -1;
    for (uint64_t i = from; i < end; i++) {
        if (begun[i % RING].t0 >= t1_ns) continue;
        order = lmi_hash_u64(order ^ begun[i % RING].name);
        n++;
    }
    *hash = (int64_t)(order >> 11); /* as whole numbers of doubles are */
    return n;
}
