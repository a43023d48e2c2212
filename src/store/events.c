/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes scalars as TensorBoard reads them: a file of records, each a length, a masked CRC-32C of the length,
 * the bytes, and a masked CRC-32C of these; the bytes are an Event in protobuf's wire format. Sources of the
 * format: TensorFlow's tensorflow/core/lib/io/record_writer.h, tensorflow/core/util/event.proto and
 * tensorflow/core/framework/summary.proto; of the checksum: RFC 3720, B.4. */
#include "base/sqlite.h"
#include "base/system.h"
#include "store/bins.h"

#include <stdio.h>
#include <stdlib.h>

enum { FLUSH = 1 << 16, TRIES = 1000 };

typedef struct writer {
    const lam_recording *r;
    lam_error *e;
    int fd;
    const char *path;
    uint32_t table[256]; /* for the checksum, a byte at a time */
    lmi_buf event, tag, out;
} writer;

/* -- records ----------------------------------------------------------------------------------- */

static void make_table(uint32_t table[256]) {
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t c = i;
        for (int k = 0; k < 8; k++) c = c & 1 ? c >> 1 ^ UINT32_C(0x82f63b78) : c >> 1;
        table[i] = c;
    }
}

static uint32_t masked_crc(const writer *w, const char *bytes, size_t n) {
    uint32_t c = ~UINT32_C(0);
    for (size_t i = 0; i < n; i++) c = w->table[(c ^ (unsigned char)bytes[i]) & 255] ^ c >> 8;
    c = ~c;
    return (c >> 15 | c << 17) + UINT32_C(0xa282ead8);
}

static void put_little(lmi_buf *b, uint64_t n, int bytes) {
    for (int i = 0; i < bytes; i++) lmi_putc(b, (char)(n >> 8 * i & 255));
}

static lam_status flush(writer *w) {
    LAM_TRY(lmi_buf_status(&w->out, w->e));
    if (!lmi_write_fd(w->fd, w->out.s, w->out.n))
        return lmi_fail(w->e, LAM_IO, w->path, "it can't be written: %s", strerror(errno));
    w->out.n = 0;
    return LAM_OK;
}

/* Appends the event to the output as a record. */
static lam_status end_event(writer *w) {
    char length[8];
    LAM_TRY(lmi_buf_status(&w->event, w->e));
    for (int i = 0; i < 8; i++) length[i] = (char)((uint64_t)w->event.n >> 8 * i & 255);
    lmi_putn(&w->out, length, sizeof length);
    put_little(&w->out, masked_crc(w, length, sizeof length), 4);
    lmi_putn(&w->out, lmi_buf_text(&w->event), w->event.n);
    put_little(&w->out, masked_crc(w, lmi_buf_text(&w->event), w->event.n), 4);
    w->event.n = 0;
    return w->out.n < FLUSH ? lmi_buf_status(&w->out, w->e) : flush(w);
}

/* -- events ------------------------------------------------------------------------------------ */

enum { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 };

static void put_key(lmi_buf *b, unsigned field, unsigned type) { lmi_put_varint(b, field << 3 | type); }

static size_t varint_size(uint64_t n) {
    size_t size = 1;
    for (; n >= 128; n >>= 7) size++;
    return size;
}

/* wall_time = 1, step = 2 */
static void start_event(writer *w, int64_t unix_ns, int64_t step) {
    double seconds = (double)unix_ns / 1e9;
    uint64_t bits;
    memcpy(&bits, &seconds, sizeof bits);
    put_key(&w->event, 1, FIXED64);
    put_little(&w->event, bits, 8);
    if (step <= 0) return;
    put_key(&w->event, 2, VARINT);
    lmi_put_varint(&w->event, (uint64_t)step);
}

/* summary = 5, in it value = 1, in it tag = 1 and simple_value = 2 */
static lam_status put_scalar(writer *w, const lmi_step *s, double value) {
    float f = (float)value;
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    LAM_TRY(lmi_buf_status(&w->tag, w->e));
    size_t inner = 1 + varint_size(w->tag.n) + w->tag.n + 1 + 4, outer = 1 + varint_size(inner) + inner;
    start_event(w, s->unix_ns, s->number);
    put_key(&w->event, 5, BYTES);
    lmi_put_varint(&w->event, outer);
    put_key(&w->event, 1, BYTES);
    lmi_put_varint(&w->event, inner);
    put_key(&w->event, 1, BYTES);
    lmi_put_varint(&w->event, w->tag.n);
    lmi_putn(&w->event, lmi_buf_text(&w->tag), w->tag.n);
    put_key(&w->event, 2, FIXED32);
    put_little(&w->event, bits, 4);
    return end_event(w);
}

static lam_status put_version(writer *w) {
    static const char version[] = "brain.Event:2";
    start_event(w, lam_recording_run(w->r)->started_unix_ns, 0);
    put_key(&w->event, 3, BYTES);
    lmi_put_varint(&w->event, sizeof version - 1);
    lmi_putn(&w->event, version, sizeof version - 1);
    return end_event(w);
}

/* -- steps ------------------------------------------------------------------------------------- */

/* Steps are numbered separately in each mode, so each mode has separate tags. */
static const char *mode_of(const lmi_step *s) {
    if (s->training) return s->gradients ? "" : " (no gradients)";
    return s->gradients > 0 ? " (eval, gradients)" : " (eval)";
}

/* Writes a number, if it is known, under the tag "ResNet/WHAT" or "ResNet/PATH/WHAT", in milliseconds or
 * bytes. */
static lam_status put(writer *w, const lmi_root *root, const lmi_step *s, const char *path, const char *what,
                      int64_t n, double unit) {
    if (n < 0) return LAM_OK;
    w->tag.n = 0;
    lmi_putf(&w->tag, "%s%s/", root->info.name, mode_of(s));
    if (path) lmi_putf(&w->tag, "%s/", *path ? path : "(the model)");
    lmi_put(&w->tag, what);
    return put_scalar(w, s, (double)n / unit);
}

static lam_status put_layer(writer *w, const lmi_root *root, const lmi_step *s, const lmi_measure *m) {
    const char *path = root->places[m->place].path;
    LAM_TRY(put(w, root, s, path, "forward_ms", m->forward, 1e6));
    LAM_TRY(put(w, root, s, path, "self_ms", m->self, 1e6));
    LAM_TRY(put(w, root, s, path, "backward_ms", m->backward, 1e6));
    LAM_TRY(put(w, root, s, path, "device_forward_ms", m->device_forward, 1e6));
    LAM_TRY(put(w, root, s, path, "device_self_ms", m->device_self, 1e6));
    LAM_TRY(put(w, root, s, path, "device_backward_ms", m->device_backward, 1e6));
    LAM_TRY(put(w, root, s, path, "retained_bytes", m->retained, 1));
    LAM_TRY(put(w, root, s, path, "peak_bytes", m->peak, 1));
    LAM_TRY(put(w, root, s, path, "device_retained_bytes", m->device_retained, 1));
    LAM_TRY(put(w, root, s, path, "device_peak_bytes", m->device_peak, 1));
    LAM_TRY(put(w, root, s, path, "nan", m->nan, 1));
    return put(w, root, s, path, "inf", m->inf, 1);
}

/* "ResNet/phases/input_ms", ..., which add up to "ResNet/step_ms"; an unknown one is a part of other_ms. */
static lam_status put_phases(writer *w, const lmi_root *root, const lmi_step *s) {
    char name[64];
    for (int k = 0; k < LAM_N_STEP_PHASES; k++) {
        snprintf(name, sizeof name, "phases/%s_ms", lam_step_phase_name((lam_step_phase)k));
        LAM_TRY(put(w, root, s, NULL, name, s->whole < 0 ? -1 : s->phases[k], 1e6));
    }
    return put(w, root, s, NULL, "step_ms", s->whole, 1e6);
}

static lam_status put_step(writer *w, const lmi_root *root, const lmi_step *s, sqlite3_stmt *layers) {
    bool more = true;
    LAM_TRY(put(w, root, s, NULL, "forward_ms", s->forward, 1e6));
    LAM_TRY(put(w, root, s, NULL, "backward_ms", s->backward, 1e6));
    LAM_TRY(put(w, root, s, NULL, "device_forward_ms", s->device_forward, 1e6));
    LAM_TRY(put(w, root, s, NULL, "device_backward_ms", s->device_backward, 1e6));
    LAM_TRY(put(w, root, s, NULL, "peak_bytes", s->peak, 1));
    LAM_TRY(put(w, root, s, NULL, "device_peak_bytes", s->device_peak, 1));
    LAM_TRY(put_phases(w, root, s));
    sqlite3_bind_int64(layers, 1, s->id);
    lam_status status = LAM_OK;
    while (status == LAM_OK && more) {
        lmi_measure m;
        status = lmi_read_layer(&w->r->db, layers, root, &more, &m, w->e);
        if (status == LAM_OK && more) status = put_layer(w, root, s, &m);
    }
    sqlite3_reset(layers);
    return status;
}

static lam_status put_all(writer *w) {
    sqlite3_stmt *layers;
    LAM_TRY(put_version(w));
    LAM_TRY(lmi_db_prepare(&w->r->db, &layers, lmi_layers(&w->r->db), w->e));
    lam_status s = LAM_OK;
    for (int32_t i = 0; s == LAM_OK && i < w->r->run.n_models; i++)
        for (int64_t k = w->r->roots[i].n_steps; s == LAM_OK && k-- > 0;)
            s = put_step(w, &w->r->roots[i], &w->r->roots[i].steps[k], layers);
    lmi_db_done(layers);
    return s == LAM_OK ? flush(w) : s;
}

/* -- the file ---------------------------------------------------------------------------------- */

/* Creates a file whose name TensorBoard recognises and that does not exist yet. */
static int make_file(const lam_recorded_run *run, const char *folder, char *path, size_t size) {
    for (int i = 0; i < TRIES; i++) {
        int n = snprintf(path, size, "%s/events.out.tfevents.%010lld.lamina.%d.%d", folder,
                         (long long)(run->started_unix_ns / 1000000000), (int)run->rank, i);
        if (n < 0 || (size_t)n >= size) {
            errno = ENAMETOOLONG;
            return -1;
        }
        int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd >= 0 || errno != EEXIST) return fd;
    }
    return -1;
}

static lam_status write_file(writer *w, const char *folder, char *path, size_t size) {
    if (mkdir(folder, 0777) != 0 && errno != EEXIST)
        return lmi_fail(w->e, LAM_IO, folder, "it can't be made: %s", strerror(errno));
    w->fd = make_file(&w->r->run, folder, path, size);
    if (w->fd < 0) return lmi_fail(w->e, LAM_IO, folder, "no file can be made in it: %s", strerror(errno));
    w->path = path;
    lam_status s = put_all(w);
    if (close(w->fd) != 0 && s == LAM_OK)
        s = lmi_fail(w->e, LAM_IO, path, "it can't be written: %s", strerror(errno));
    if (s != LAM_OK) unlink(path);
    return s;
}

lam_status lam_recording_tensorboard(const char *file, int64_t run, const char *folder, char *path,
                                     size_t size, lam_error *e) {
    if (!file || !folder) return lmi_fail(e, LAM_USAGE, NULL, "which recording, and into which folder?");
    lam_recording r = {.run = {0}};
    lmi_arena_init(&r.arena, INT64_MAX);
    lam_status s = lmi_read(&r, file, run, 0, e);
    writer w = {.r = &r, .e = e, .fd = -1};
    make_table(w.table);
    int64_t steps = 0;
    for (int32_t i = 0; s == LAM_OK && i < r.run.n_models; i++) steps += r.roots[i].n_steps;
    if (s == LAM_OK && !steps)
        s = lmi_fail(e, LAM_FAILED, file, "run %lld has no recorded step to export; --run names another",
                     (long long)r.run.run);
    if (s == LAM_OK) s = write_file(&w, folder, path, size);
    lmi_buf_free(&w.event);
    lmi_buf_free(&w.tag);
    lmi_buf_free(&w.out);
    lmi_db_close(&r.db);
    lmi_arena_free(&r.arena);
    return s;
}
