/* SPDX-License-Identifier: Apache-2.0
 *
 * A read from its beginning to the model. */
#include "read/pt2/pt2.h"
#include "model/model.h"
#include "read/weights/weights.h"

#include <stdlib.h>

enum { LEAST_MEMORY = 32 << 20 };

/* What a file of its size may take, here and again as a model. */
static uint64_t room_of(const lmi_pt2 *p) { return LEAST_MEMORY + 2 * p->of->size; }

static lam_status read_all(lmi_pt2 *p, lam_model **out) {
    LAM_TRY(lmi_pt2_program(p));
    LAM_TRY(lmi_pt2_symbols(p));
    LAM_TRY(lmi_pt2_weights(p));
    if (p->stored.keep) LAM_TRY(lmi_weights_check(&p->stored, p->o->watcher, p->e));
    lmi_zip_free(&p->zip); /* what follows takes its memory */
    lmi_map_free(&p->by_store);
    LAM_TRY(lmi_pt2_modules(p));
    LAM_TRY(lmi_pt2_walk(p));
    LAM_TRY(lam_builder_new(&p->b, p->o && p->o->memory_limit ? p->o->memory_limit : room_of(p), p->e));
    LAM_TRY(lmi_pt2_build(p, out));
    lam_status s = lmi_pt2_open_sizes(p, *out);
    if (s == LAM_OK) return s;
    lam_model_free(*out);
    *out = NULL;
    return s;
}

static void init(lmi_pt2 *p) {
    lmi_arena_init(&p->arena, room_of(p));
    lmi_map_init(&p->hints);
    lmi_vec_init(&p->hint, sizeof(int64_t));
    lmi_vec_init(&p->weights, sizeof(lmi_pt2_weight));
    lmi_tensors_init(&p->stored, p->of->size);
    p->stored.keep = p->o && p->o->health;
    lmi_map_init(&p->by_weight);
    lmi_map_init(&p->by_store);
    lmi_vec_init(&p->modules, sizeof(lmi_pt2_module));
    lmi_map_init(&p->by_path);
    lmi_vec_init(&p->values, sizeof(lmi_pt2_value));
    lmi_vec_init(&p->scopes, sizeof(lmi_pt2_scope));
    lmi_vec_init(&p->calls, sizeof(lmi_pt2_call));
    lmi_vec_init(&p->ends, sizeof(lmi_pt2_end));
    lmi_vec_init(&p->steps, sizeof(lmi_pt2_step));
    lmi_map_init(&p->calls_by_key);
    lmi_map_init(&p->known_ends);
    lmi_map_init(&p->schemas);
    lmi_map_init(&p->inner);
    lmi_vec_init(&p->open, sizeof(int32_t));
    lmi_vec_init(&p->keys, sizeof(const char *));
    lmi_vec_init(&p->args, sizeof(lam_op_arg));
    lmi_vec_init(&p->arg_value, sizeof(int32_t));
    lmi_vec_init(&p->floats, sizeof(double));
    lmi_vec_init(&p->more_in, sizeof(lam_op_arg));
    lmi_vec_init(&p->more_out, sizeof(lam_op_arg));
    lmi_buf_init(&p->path);
}

static void release(lmi_pt2 *p) {
    for (size_t i = 0; i < p->scopes.n; i++) {
        lmi_pt2_scope *s = lmi_vec_at(&p->scopes, i);
        lmi_map_free(&s->by_name);
        lmi_map_free(&s->sized);
    }
    lmi_map *const maps[] = {&p->hints,        &p->by_weight,  &p->by_store, &p->by_path,
                             &p->calls_by_key, &p->known_ends, &p->schemas,  &p->inner};
    lmi_vec *const vecs[] = {&p->hint,  &p->weights,   &p->modules, &p->values,  &p->scopes,
                             &p->calls, &p->ends,      &p->steps,   &p->open,    &p->keys,
                             &p->args,  &p->arg_value, &p->floats,  &p->more_in, &p->more_out};
    for (size_t i = 0; i < sizeof maps / sizeof *maps; i++) lmi_map_free(maps[i]);
    for (size_t i = 0; i < sizeof vecs / sizeof *vecs; i++) lmi_vec_free(vecs[i]);
    lmi_buf_free(&p->path);
    lmi_json_free(&p->j);
    free(p->text);
    lmi_tensors_free(&p->stored);
    lmi_zip_free(&p->zip);
    lmi_arena_free(&p->arena);
    lam_builder_free(p->b);
}

lam_status lmi_pt2_read(const lmi_bytes *of, lmi_zip *z, const lam_read_options *o,
                        const lam_read_size *other, lam_model **out, lam_error *e) {
    lmi_pt2 p = {.of = of, .o = o, .other = other, .e = e};
    init(&p);
    if (z) p.zip = *z, *z = (lmi_zip){0};
    lam_status s = read_all(&p, out);
    const bool given = o && o->memory_limit; /* the user's limit is no fault of the file */
    s = lmi_bytes_limit(of, p.arena.full || (p.b && !given && lmi_builder_full(p.b)), s, e);
    release(&p);
    return s;
}
