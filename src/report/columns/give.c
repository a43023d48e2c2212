/* SPDX-License-Identifier: Apache-2.0
 *
 * A table as a stream of Arrow: its columns, and one batch of all rows. Each schema and each array is an
 * owner of the table of its own, since a consumer may move a child out of its parent and keep it longer. */
#include "report/columns/columns.h"

#include <errno.h>
#include <stdlib.h>

enum { BUFFERS = 3 };

/* What an array or a schema keeps until it is released. */
typedef struct kept {
    lam_table *of;
    const void *buffers[BUFFERS];
    struct ArrowSchema *schemas, **schema_list; /* of the parent: its children */
    struct ArrowArray *arrays, **array_list;
} kept;

static kept *keep(lam_table *t) {
    kept *k = calloc(1, sizeof *k);
    if (k) k->of = lmi_table_keep(t);
    return k;
}

static void drop(kept *k) {
    free(k->schemas);
    free(k->schema_list);
    free(k->arrays);
    free(k->array_list);
    lam_table_free(k->of);
    free(k);
}

static void release_schema(struct ArrowSchema *s) {
    for (int64_t i = 0; i < s->n_children; i++)
        if (s->children[i]->release) s->children[i]->release(s->children[i]);
    drop(s->private_data);
    s->release = NULL;
}

static void release_array(struct ArrowArray *a) {
    for (int64_t i = 0; i < a->n_children; i++)
        if (a->children[i]->release) a->children[i]->release(a->children[i]);
    drop(a->private_data);
    a->release = NULL;
}

/* -- the columns ------------------------------------------------------------------------------------------
 */

static bool schema_of(lam_table *t, const char *format, const char *name, struct ArrowSchema *out) {
    kept *k = keep(t);
    *out = (struct ArrowSchema){.format = format,
                                .name = name,
                                .flags = ARROW_FLAG_NULLABLE,
                                .release = k ? release_schema : NULL,
                                .private_data = k};
    return k != NULL;
}

static int get_schema(struct ArrowArrayStream *self, struct ArrowSchema *out) {
    static const char *const formats[] = {
        [LAM_CELL_WHOLE] = "l", [LAM_CELL_REAL] = "g", [LAM_CELL_TEXT] = "U", [LAM_CELL_FLAG] = "b"};
    kept *stream = self->private_data, *k;
    lam_table *t = stream->of;
    bool ok = schema_of(t, "+s", "", out);
    if (!ok) return ENOMEM;
    k = out->private_data;
    out->flags = 0;
    k->schemas = calloc((size_t)t->n + 1, sizeof *k->schemas);
    k->schema_list = calloc((size_t)t->n + 1, sizeof(struct ArrowSchema *));
    ok = k->schemas && k->schema_list;
    out->children = k->schema_list;
    for (int32_t i = 0; ok && i < t->n; i++) {
        ok = schema_of(t, formats[t->columns[i].kind], t->columns[i].name, &k->schemas[i]);
        k->schema_list[i] = &k->schemas[i];
        out->n_children += ok;
    }
    if (!ok) release_schema(out);
    return ok ? 0 : ENOMEM;
}

/* -- the rows ------------------------------------------------------------------------------------------- */

static bool array_of(lam_table *t, struct ArrowArray *out) {
    kept *k = keep(t);
    *out = (struct ArrowArray){.length = t->rows,
                               .buffers = k ? k->buffers : NULL,
                               .release = k ? release_array : NULL,
                               .private_data = k};
    return k != NULL;
}

static bool column_array(lam_table *t, const lmi_column_of *c, struct ArrowArray *out) {
    static const char empty[] = "";
    if (!array_of(t, out)) return false;
    kept *k = out->private_data;
    out->null_count = c->unknown;
    out->n_buffers = c->kind == LAM_CELL_TEXT ? 3 : 2;
    k->buffers[0] = c->unknown ? c->known.data : NULL;
    k->buffers[1] = c->values.data;
    k->buffers[2] = c->bytes.data ? c->bytes.data : empty;
    return true;
}

static int get_next(struct ArrowArrayStream *self, struct ArrowArray *out) {
    kept *stream = self->private_data, *k;
    lam_table *t = stream->of;
    *out = (struct ArrowArray){.release = NULL};
    if (stream->buffers[0] || !t->rows) return 0; /* given before: the end */
    bool ok = array_of(t, out);
    if (!ok) return ENOMEM;
    k = out->private_data;
    out->n_buffers = 1;
    k->arrays = calloc((size_t)t->n + 1, sizeof *k->arrays);
    k->array_list = calloc((size_t)t->n + 1, sizeof(struct ArrowArray *));
    ok = k->arrays && k->array_list;
    out->children = k->array_list;
    for (int32_t i = 0; ok && i < t->n; i++) {
        ok = column_array(t, &t->columns[i], &k->arrays[i]);
        k->array_list[i] = &k->arrays[i];
        out->n_children += ok;
    }
    if (!ok) release_array(out);
    stream->buffers[0] = ok ? t : NULL;
    return ok ? 0 : ENOMEM;
}

static const char *get_last_error(struct ArrowArrayStream *self) {
    (void)self;
    return "memory ran out";
}

static void release_stream(struct ArrowArrayStream *self) {
    drop(self->private_data);
    self->release = NULL;
}

lam_status lam_table_stream(lam_table *t, struct ArrowArrayStream *out, lam_error *e) {
    kept *k = keep(t);
    *out = (struct ArrowArrayStream){.release = NULL};
    if (!k) return lmi_nomem(e);
    *out = (struct ArrowArrayStream){.get_schema = get_schema,
                                     .get_next = get_next,
                                     .get_last_error = get_last_error,
                                     .release = release_stream,
                                     .private_data = k};
    return LAM_OK;
}
