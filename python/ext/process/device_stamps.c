/* SPDX-License-Identifier: Apache-2.0
 * Events in a device's streams, see device_api.h. */
#include "process/device_api.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct stamp {
    void *event; /* NULL: destroyed */
    int32_t stream;
    bool known;
    int64_t ns;
} stamp;

struct lmx_stamps {
    const lmx_streams *table;
    int device;
    pid_t process;
    pthread_mutex_t lock; /* of everything below */
    stamp *all;
    size_t n, cap;
    void **streams; /* by their indices */
    size_t n_streams, streams_cap;
    bool over; /* no more stamps */
    char why[240];
};

enum { MOST_STREAMS = 4096 };

lmx_stamps *lmx_stamps_new(const lmx_streams *table, int device) {
    lmx_stamps *s = calloc(1, sizeof *s);
    if (!s) return NULL;
    if (pthread_mutex_init(&s->lock, NULL) != 0) {
        free(s);
        return NULL;
    }
    s->table = table;
    s->device = device;
    s->process = getpid();
    return s;
}

/* Keeps the first reason. */
static void because(lmx_stamps *s, const char *why) {
    if (!*s->why) snprintf(s->why, sizeof s->why, "%s", why);
}

/* Clears the error, so that no other code sees it. */
static void because_of(lmx_stamps *s, const char *what, int error) {
    const char *text = s->table->error_text ? s->table->error_text(error) : NULL;
    s->table->last_error();
    if (!*s->why)
        snprintf(s->why, sizeof s->why, "%s: %s error %d (%s)", what, s->table->name, error,
                 text ? text : "it has no text");
}

/* setting */

static void *grown(void *old, size_t n, size_t *cap, size_t size) {
    if (n < *cap) return old;
    size_t wider = *cap ? 2 * *cap : 64;
    void *at = realloc(old, wider * size);
    if (at) *cap = wider;
    return at;
}

/* Most stamps in a row are in one stream. */
static int32_t index_of(lmx_stamps *s, void *stream) {
    if (s->n && s->streams[s->all[s->n - 1].stream] == stream) return s->all[s->n - 1].stream;
    for (size_t i = 0; i < s->n_streams; i++)
        if (s->streams[i] == stream) return (int32_t)i;
    void **wider = s->n_streams < MOST_STREAMS
                       ? grown(s->streams, s->n_streams, &s->streams_cap, sizeof *s->streams)
                       : NULL;
    if (!wider) return -1;
    s->streams = wider;
    s->streams[s->n_streams] = stream;
    return (int32_t)s->n_streams++;
}

static bool make_room(lmx_stamps *s, void *stream, int32_t *index) {
    stamp *wider = s->n < LMX_MOST_STAMPS ? grown(s->all, s->n, &s->cap, sizeof *s->all) : NULL;
    if (!wider) {
        because(s, s->n < LMX_MOST_STAMPS ? "memory ran out"
                                          : "there were more events than a capture keeps; capture less");
        s->over = true;
        return false;
    }
    s->all = wider;
    *index = index_of(s, stream);
    if (*index < 0) because(s, "there were more streams than a capture keeps");
    return *index >= 0;
}

/* Sets nothing in a stream whose work is being captured for a graph: the event would become part of the
 * graph, and have no time. */
static bool find_stream(lmx_stamps *s, void **stream) {
    const int error = lmx_stream_of(s->table, s->device, stream);
    if (error == LMX_RECORDING)
        because(s, "a graph was being recorded, in which no event can be put");
    else if (error)
        because_of(s, "the current stream can't be read", error);
    return !error;
}

static int32_t put_into(lmx_stamps *s, void *stream) {
    int32_t index;
    void *event = NULL;
    if (!make_room(s, stream, &index)) return -1;
    int error = s->table->create(&event, 0);
    if (error) {
        because_of(s, "the device gives no more events", error);
        s->over = true;
        return -1;
    }
    error = s->table->record(event, stream);
    if (error) {
        because_of(s, "an event was not taken", error);
        s->table->destroy(event);
        return -1;
    }
    s->all[s->n] = (stamp){event, index, false, 0};
    return (int32_t)s->n++;
}

static int relax(const lmx_streams *t) {
    int mode = LMX_MODE_RELAXED;
    if (!t->exchange_mode) return -1;
    if (!t->exchange_mode(&mode)) return mode;
    t->last_error();
    return -1;
}

int lmx_visit_begin(const lmx_streams *t, int device, lmx_visit *out) {
    int now = -1, error = t->get_device(&now);
    *out = (lmx_visit){-1, -1};
    if (!error && now != device) {
        error = t->set_device(device);
        out->from = error ? -1 : now;
    }
    if (!error) out->mode = relax(t);
    return error;
}

int lmx_stream_of(const lmx_streams *t, int device, void **stream) {
    int capturing = 0, error = t->current_stream(device, stream);
    if (error) return error;
    if (!t->is_capturing(*stream, &capturing)) return capturing ? LMX_RECORDING : 0;
    t->last_error();
    return LMX_RECORDING;
}

void lmx_visit_end(const lmx_streams *t, const lmx_visit *v) {
    int mode = v->mode;
    if (mode >= 0) t->exchange_mode(&mode);
    if (v->from >= 0 && t->set_device(v->from)) t->last_error();
}

static int32_t put_here(lmx_stamps *s) {
    lmx_visit v;
    void *stream = NULL;
    int32_t at = -1;
    int error = lmx_visit_begin(s->table, s->device, &v);
    if (error) {
        because_of(s, "the device can't be reached", error);
        return -1;
    }
    if (find_stream(s, &stream)) at = put_into(s, stream);
    lmx_visit_end(s->table, &v);
    return at;
}

/* A forked child can't use a device, and a thread that the child does not have may hold the lock. */
int32_t lmx_stamps_put(lmx_stamps *s) {
    if (getpid() != s->process) return -1;
    pthread_mutex_lock(&s->lock);
    int32_t at = s->over ? -1 : put_here(s);
    pthread_mutex_unlock(&s->lock);
    return at;
}

/* reading */

static bool wait_for(lmx_stamps *s, void *event) {
    int error = s->table->query(event);
    if (error == LMX_NOT_READY) {
        s->table->last_error(); /* CUDA keeps that result as an error, too */
        error = s->table->synchronize(event);
    }
    if (error) because_of(s, "the device had failed when its clock was to be read", error);
    return !error;
}

/* Waits for the last event of each stream: those before it are then done. */
static bool wait_for_all(lmx_stamps *s) {
    bool *seen = calloc(s->n_streams + 1, sizeof *seen);
    bool ok = seen != NULL;
    if (!seen) because(s, "memory ran out");
    for (size_t i = s->n; ok && i-- > 0;) {
        if (seen[s->all[i].stream]) continue;
        seen[s->all[i].stream] = true;
        ok = wait_for(s, s->all[i].event);
    }
    free(seen);
    return ok;
}

/* A float has 24 bits: beyond 128 ms its resolution is over ten nanoseconds. So distant events are
 * measured from one in between. */
enum { FAR_NS = 128 * 1000 * 1000 };

static bool read_all(lmx_stamps *s) {
    const stamp *from = s->all;
    for (size_t i = 0; i < s->n; i++) {
        stamp *at = &s->all[i];
        float ms = 0;
        int error = i ? s->table->elapsed(&ms, from->event, at->event) : 0;
        if (error) {
            because_of(s, "the device's clock could not be read", error);
            return false;
        }
        const double ns = (double)ms * 1e6;
        if (!(ns > -9e18 && ns < 9e18)) {
            because(s, "the device's clock told what no clock does");
            return false;
        }
        const int64_t after = (int64_t)(ns < 0 ? ns - 0.5 : ns + 0.5);
        at->ns = from->ns + after;
        if (after > FAR_NS) from = at;
    }
    return true;
}

static void make_known(lmx_stamps *s) {
    int64_t least = s->n ? s->all[0].ns : 0;
    for (size_t i = 1; i < s->n; i++)
        if (s->all[i].ns < least) least = s->all[i].ns;
    for (size_t i = 0; i < s->n; i++) {
        s->all[i].ns += 1 - least;
        s->all[i].known = true;
    }
}

static void give_back(lmx_stamps *s) {
    for (size_t i = 0; i < s->n; i++) {
        if (s->all[i].event && s->table->destroy(s->all[i].event)) s->table->last_error();
        s->all[i].event = NULL;
    }
}

/* Without the relaxed mode, waits only while no graph is captured here. */
static bool may_wait(lmx_stamps *s, int mode) {
    void *stream = NULL;
    if (mode >= 0) return true;
    const int error = lmx_stream_of(s->table, s->device, &stream);
    if (error == LMX_RECORDING)
        because(s, "a graph was being recorded when the device's clock was to be read");
    else if (error)
        because_of(s, "the current stream can't be read", error);
    return !error;
}

void lmx_stamps_resolve(lmx_stamps *s) {
    if (getpid() != s->process) {
        because(s, "this process was forked during the capture");
        return;
    }
    pthread_mutex_lock(&s->lock);
    lmx_visit v;
    int error = lmx_visit_begin(s->table, s->device, &v);
    s->over = true;
    if (error) because_of(s, "the device can't be reached", error);
    if (!error && may_wait(s, v.mode) && wait_for_all(s) && read_all(s)) make_known(s);
    give_back(s);
    lmx_visit_end(s->table, &v);
    pthread_mutex_unlock(&s->lock);
}

bool lmx_stamps_at(const lmx_stamps *s, int32_t i, int32_t *stream, int64_t *ns) {
    if (i < 0 || (size_t)i >= s->n || !s->all[i].known) return false;
    *stream = s->all[i].stream;
    *ns = s->all[i].ns;
    return true;
}

const char *lmx_stamps_why(const lmx_stamps *s) { return *s->why ? s->why : NULL; }

void lmx_stamps_free(lmx_stamps *s) {
    if (!s) return;
    if (getpid() == s->process) give_back(s);
    pthread_mutex_destroy(&s->lock);
    free(s->streams);
    free(s->all);
    free(s);
}
