/* SPDX-License-Identifier: Apache-2.0
 *
 * A table from a stream of Arrow that another program of this process made. */
#include "report/columns/columns.h"

#include <stdlib.h>

enum { MOST_COLUMNS = 4096 };

typedef struct taker {
    struct ArrowArrayStream *from;
    struct ArrowSchema schema;
    const char *what;
    lam_table *to;
    lam_cell *cells;
    lam_error *e;
} taker;

static lam_status broken(const taker *x) {
    const char *why = x->from->get_last_error ? x->from->get_last_error(x->from) : NULL;
    return lmi_fail(x->e, LAM_IO, x->what, "%s",
                    why ? why : "its rows can't be read, and no reason is given");
}

static bool kind_of(const struct ArrowSchema *s, lam_cell_kind *out) {
    static const char formats[] = {'l', 'g', 'u', 'U', 'b'};
    static const lam_cell_kind kinds[] = {LAM_CELL_WHOLE, LAM_CELL_REAL, LAM_CELL_TEXT, LAM_CELL_TEXT,
                                          LAM_CELL_FLAG};
    const char *at = s->format[0] ? memchr(formats, s->format[0], sizeof formats) : NULL;
    if (!at || s->format[1] || s->dictionary) return false;
    *out = kinds[at - formats];
    return true;
}

static lam_status take_columns(taker *x) {
    if (x->from->get_schema(x->from, &x->schema) != 0) return broken(x);
    const int64_t n = x->schema.n_children;
    if (n < 0 || n > MOST_COLUMNS) return lmi_fail(x->e, LAM_LIMIT, x->what, "it has too many columns");
    lmi_column_name *names = calloc((size_t)n + 1, sizeof *names);
    x->cells = calloc((size_t)n + 1, sizeof *x->cells);
    lam_status s = names && x->cells ? LAM_OK : lmi_nomem(x->e);
    for (int64_t i = 0; s == LAM_OK && i < n; i++) {
        const struct ArrowSchema *c = x->schema.children[i];
        names[i].name = c->name ? c->name : "";
        if (!kind_of(c, &names[i].kind))
            s = lmi_fail(x->e, LAM_UNSUPPORTED, x->what, "the column %s is of a type that is not read (%s)",
                         names[i].name, c->format);
    }
    if (s == LAM_OK) s = lmi_table_new(&x->to, names, (int32_t)n, x->e);
    free(names);
    return s;
}

static bool is_null(const struct ArrowArray *a, int64_t i) {
    const uint8_t *bits = a->buffers[0];
    return bits && a->null_count != 0 && !(bits[i / 8] >> (i % 8) & 1);
}

/* `i` counts from the start of the buffers. */
static lam_cell cell_at(lam_cell_kind kind, bool large, const struct ArrowArray *a, int64_t i) {
    lam_cell c = {.kind = kind, .known = !is_null(a, i)};
    if (!c.known) return c;
    const void *values = a->buffers[1];
    if (kind == LAM_CELL_WHOLE) c.whole = ((const int64_t *)values)[i];
    if (kind == LAM_CELL_REAL) c.real = ((const double *)values)[i];
    if (kind == LAM_CELL_FLAG) c.flag = ((const uint8_t *)values)[i / 8] >> (i % 8) & 1;
    if (kind == LAM_CELL_TEXT) {
        const int64_t from = large ? ((const int64_t *)values)[i] : ((const int32_t *)values)[i];
        const int64_t end = large ? ((const int64_t *)values)[i + 1] : ((const int32_t *)values)[i + 1];
        c.n = (size_t)(end - from);
        c.text = c.n ? (const char *)a->buffers[2] + from : "";
    }
    return c;
}

static lam_status take_batch(taker *x, const struct ArrowArray *batch) {
    for (int64_t row = 0; row < batch->length; row++) {
        for (int32_t k = 0; k < x->to->n; k++) {
            const struct ArrowArray *a = batch->children[k];
            const bool large = x->schema.children[k]->format[0] == 'U';
            x->cells[k] = cell_at(x->to->columns[k].kind, large, a, row + batch->offset + a->offset);
        }
        LAM_TRY(lmi_table_add(x->to, x->cells, x->e));
    }
    return LAM_OK;
}

static lam_status take_batches(taker *x) {
    for (;;) {
        struct ArrowArray batch = {0};
        if (x->from->get_next(x->from, &batch) != 0) return broken(x);
        if (!batch.release) return LAM_OK;
        lam_status s = take_batch(x, &batch);
        batch.release(&batch);
        if (s != LAM_OK) return s;
    }
}

lam_status lam_table_read(lam_table **out, struct ArrowArrayStream *from, const char *what, lam_error *e) {
    taker x = {.from = from, .what = what, .e = e};
    lam_status s = take_columns(&x);
    if (s == LAM_OK) s = take_batches(&x);
    if (x.schema.release) x.schema.release(&x.schema);
    if (from->release) from->release(from);
    free(x.cells);
    if (s != LAM_OK) lam_table_free(x.to);
    *out = s == LAM_OK ? x.to : NULL;
    return s;
}
