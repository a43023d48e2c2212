/* SPDX-License-Identifier: Apache-2.0
 *
 * What a pickle of torch has: tensors under the names that lead to them, and modules that were saved whole,
 * with their classes. Each container is walked once, however often it is named, and none recursively. */
#include "read/torch/checkpoint.h"

#include <stdio.h>
#include <stdlib.h>

enum { DEEPEST = 64, LEAST_NAMES = 16 << 20 };

typedef enum tensor_role { ANY, PARAMETERS, BUFFERS } tensor_role;

/* The items of a container that are still to be walked. */
typedef struct frame {
    const char *path;
    int32_t cell, index, depth;
    bool pairs; /* names and values in turn */
    tensor_role role;
    const lmi_script_class
        *class; /* whose attributes they are, if its code tells which are what; else NULL */
} frame;

typedef struct walking {
    lmi_tensors *t;
    const lmi_pickle *p;
    const lmi_storages *in;
    lmi_vec stack;  /* frame */
    bool *seen;     /* of each value */
    lmi_map known;  /* identities of tensors */
    uint64_t names; /* bytes of the paths so far, which are bounded */
    int32_t optimizers, again, arrays;
    bool state;           /* the file is the state of an optimizer alone */
    bool lightning, rest; /* Lightning saved it: a model and the rest of its training, which is left out */
    const char *item;     /* the name at the root that is being walked */
    const char *only;     /* the one under which all tensors are; NULL: none yet */
    bool several;         /* tensors are under others too, or at the root itself */
    lmi_vec parts;        /* lmi_torch_part */
    lmi_script script;    /* the code of an archive of TorchScript */
    int32_t attributes;   /* tensors that the code makes plain attributes */
    lam_error *e;
} walking;

static const lmi_pickled_value *at(const walking *w, int32_t i) { return lmi_pickled_at(w->p, i); }

static lam_status too_much(const walking *w, const char *what) {
    return lmi_fail(w->e, LAM_LIMIT, w->in->of->name, "%s", what);
}

/* "path.name"; "name" at the root. */
static lam_status join(walking *w, const char *path, const char *name, const char **out) {
    const size_t n = strlen(path), all = n + strlen(name) + 2;
    w->names += all;
    if (w->names > LEAST_NAMES + 4 * w->in->of->size)
        return too_much(w, "its pickle makes longer names than a file of its size should");
    char *text = lmi_alloc(&w->t->arena, all, 1);
    if (!text) return lmi_nomem(w->e);
    snprintf(text, all, "%s%s%s", path, n ? "." : "", name);
    *out = text;
    return LAM_OK;
}

static lam_status push(walking *w, const frame *above, const char *path, int32_t items_of, tensor_role role) {
    if (items_of < 0) return LAM_OK;
    const lmi_pickled_items items = lmi_pickled_items_of(w->p, items_of);
    const lmi_pickled kind = at(w, items_of)->kind;
    const frame f = {.path = path,
                     .cell = items.first,
                     .depth = above ? above->depth + 1 : 0,
                     .pairs = kind == LMI_PICKLED_DICT || kind == LMI_PICKLED_CALL,
                     .role = role};
    if (f.depth > DEEPEST) return too_much(w, "values of its pickle are more than 64 deep in each other");
    return lmi_vec_put(&w->stack, &f, w->e);
}

/* -- modules --------------------------------------------------------------------------------------------- */

/* The class of what a call made: an import, or the first argument of copyreg's function that makes objects.
 */
static const lmi_pickled_global *class_of(const walking *w, const lmi_pickled_call *call) {
    int32_t function = call->function;
    const lmi_pickled_global *g = lmi_pickled_global_of(w->p, function);
    if (g && strcmp(g->name, "_reconstructor") == 0) function = lmi_pickled_item(w->p, call->arguments, 0);
    const lmi_pickled_value *v = function < 0 ? NULL : at(w, function);
    if (v && v->kind == LMI_PICKLED_KEPT)
        function = lmi_pickled_item(w->p, v->id, 1); /* ("module", class, ...) */
    return lmi_pickled_global_of(w->p, function);
}

/* The path of a class without the parts that torch.jit puts in to tell classes of one name apart. */
static const char *plain_path(walking *w, const lmi_pickled_global *g) {
    static const char mangled[] = "___torch_mangle_", script[] = "__torch__.";
    lmi_buf b;
    const char *from = g->module;
    lmi_buf_init(&b);
    if (strncmp(from, script, sizeof script - 1) == 0)
        from += sizeof script - 1;
    else if (strcmp(from, "__torch__") == 0)
        from = "";
    while (*from) {
        const size_t n = strcspn(from, ".");
        if (strncmp(from, mangled, sizeof mangled - 1) != 0) {
            lmi_putn(&b, from, n);
            lmi_putc(&b, '.');
        }
        from += n + (from[n] == '.');
    }
    lmi_put(&b, g->name);
    return lmi_buf_keep(&b, &w->t->arena);
}

static lam_status add_class(walking *w, const char *path, const lmi_pickled_global *g) {
    const char *type = lmi_strdup(&w->t->arena, g->name), *whole = plain_path(w, g);
    if (!type || !whole) return lmi_nomem(w->e);
    return lmi_tensors_module(w->t, path, type, whole, w->e);
}

static lam_status walk_container(walking *w, const frame *f, const char *path, int32_t value);

/* A quantised layer keeps its weights in objects of C++ that are no tensors, and whose states have the
 * tensors.
 */
static lam_status walk_packed(walking *w, const frame *f, const char *path, int32_t state) {
    static const char *const names[] = {"_packed_params", "param"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const int32_t packed = lmi_pickled_get(w->p, state, names[i]);
        const char *inner = "";
        if (packed < 0 || !lmi_pickled_call_of(w->p, packed, "torch", "ScriptObject")) continue;
        LAM_TRY(join(w, path, names[i], &inner));
        LAM_TRY(walk_container(w, f, inner, packed));
    }
    return LAM_OK;
}

/* The dict of attributes in the state of an object, where it has slots too: (attributes, slots). */
static int32_t attributes_of(const walking *w, int32_t state) {
    if (at(w, state)->kind != LMI_PICKLED_TUPLE || lmi_pickled_items_of(w->p, state).n != 2) return state;
    const int32_t first = lmi_pickled_item(w->p, state, 0);
    return first >= 0 && at(w, first)->kind == LMI_PICKLED_DICT ? first : state;
}

/* A class of layers by its name: torch.jit's, or a quantised one, whose state may be a row of values. */
static bool is_layer(const lmi_pickled_global *made) {
    return strncmp(made->module, "__torch__", 9) == 0 || strncmp(made->module, "torch.ao.nn.", 12) == 0;
}

/* The attributes of an object, whose class's code may tell which of them are parameters. */
static lam_status push_attributes(walking *w, const frame *f, const char *path, int32_t state,
                                  const lmi_pickled_global *made) {
    const lmi_script_class *class = NULL;
    if (made) LAM_TRY(lmi_script_class_of(&w->script, made, &class, w->e));
    LAM_TRY(push(w, f, path, state, ANY));
    ((frame *)lmi_vec_at(&w->stack, w->stack.n - 1))->class = class;
    return LAM_OK;
}

/* An object that has attributes: a module, or what else may have tensors. */
static lam_status walk_object(walking *w, const frame *f, const char *path, const lmi_pickled_call *call) {
    const lmi_pickled_global *made = class_of(w, call);
    const int32_t state = attributes_of(w, call->state);
    if (w->seen[state]) return LAM_OK;
    w->seen[state] = true;
    const int32_t modules = lmi_pickled_get(w->p, state, "_modules");
    if (made && (modules >= 0 || is_layer(made))) LAM_TRY(add_class(w, path, made));
    if (modules < 0) return push_attributes(w, f, path, state, made);
    LAM_TRY(push(w, f, path, modules, ANY)); /* the last is walked first */
    LAM_TRY(walk_packed(w, f, path, state));
    LAM_TRY(push(w, f, path, lmi_pickled_get(w->p, state, "_buffers"), BUFFERS));
    return push(w, f, path, lmi_pickled_get(w->p, state, "_parameters"), PARAMETERS);
}

/* -- values ---------------------------------------------------------------------------------------------- */

/* The name of an attribute behind the path of its object. */
static const char *own_name(const frame *f, const char *path) {
    const size_t n = strlen(f->path);
    return path + n + (n > 0);
}

/* True for a tensor that a module has as any other value. */
static bool is_attribute(const frame *f, const char *path) {
    return f && f->class && f->class->buffers && !lmi_script_lists(f->class->parameters, own_name(f, path)) &&
           !lmi_script_lists(f->class->buffers, own_name(f, path));
}

static lam_status add_tensor(walking *w, const frame *f, const char *path, lmi_stored_tensor *x,
                             uint64_t identity) {
    char number[24];
    x->name = *path ? path : "tensor";
    if (lmi_tensors_find(w->t, x->name) >= 0) { /* as of the names 0 and "0" of a dict */
        snprintf(number, sizeof number, "[%d]", (int)lmi_tensors_n(w->t));
        LAM_TRY(join(w, path, number, &x->name));
    }
    if (w->state || (f && f->role != ANY)) {
        x->role_known = true;
        x->buffer = w->state || (f && f->role == BUFFERS);
    }
    if (f && f->class && f->class->buffers) {
        x->role_known = true;
        x->buffer = !lmi_script_lists(f->class->parameters, own_name(f, path));
    }
    LAM_TRY(lmi_tensors_values(w->t, x, w->in->of, w->e));
    LAM_TRY(lmi_tensors_add(w->t, x, w->in->of, 0, w->e));
    const int32_t id = lmi_tensors_n(w->t) - 1;
    const int64_t same = identity ? lmi_map_get_u64(&w->known, identity) : -1;
    if (same >= 0)
        lmi_tensors_at(w->t, id)->same = (int32_t)same;
    else if (identity)
        LAM_TRY(lmi_map_put_u64(&w->known, identity, id, w->e));
    return LAM_OK;
}

/* The state of an optimizer, as torch saves it or as DeepSpeed does, which has the weights again. */
static bool is_optimizer(const walking *w, int32_t value) {
    return lmi_pickled_get(w->p, value, "param_groups") >= 0 ||
           (lmi_pickled_get(w->p, value, "zero_stage") >= 0 &&
            lmi_pickled_get(w->p, value, "loss_scaler") >= 0);
}

/* What NumPy rebuilds an array by, which is read as no tensor. */
static bool is_array(const walking *w, const lmi_pickled_call *call) {
    const lmi_pickled_global *g = call ? lmi_pickled_global_of(w->p, call->function) : NULL;
    return g && strncmp(g->module, "numpy.", 6) == 0 &&
           (strcmp(g->name, "_reconstruct") == 0 || strcmp(g->name, "_frombuffer") == 0);
}

static lam_status walk_container(walking *w, const frame *f, const char *path, int32_t value) {
    const lmi_pickled_value *v = at(w, value);
    const lmi_pickled_call *call = lmi_pickled_call_of(w->p, value, NULL, NULL);
    if (v->kind < LMI_PICKLED_TUPLE || v->kind > LMI_PICKLED_CALL || v->kind == LMI_PICKLED_GLOBAL)
        return LAM_OK;
    if (w->seen[value]) {
        w->again += call && call->state >= 0;
        return LAM_OK;
    }
    w->seen[value] = true;
    if (w->lightning && f && f->depth == 0 && strcmp(path, "state_dict") != 0) {
        w->rest = true;
        return LAM_OK;
    }
    if (f && is_optimizer(w, value)) {
        w->optimizers++;
        return LAM_OK;
    }
    if (call && lmi_pickled_call_of(w->p, value, "torch", "ScriptObject"))
        return call->state < 0 ? LAM_OK : push(w, f, path, call->state, ANY);
    if (lmi_pickled_call_of(w->p, value, "torch.jit._pickle", "build_tensorlist") ||
        lmi_pickled_call_of(w->p, value, "torch.jit._pickle", "restore_type_tag"))
        return push(w, f, path, lmi_pickled_item(w->p, call->arguments, 0), ANY);
    if (is_array(w, call)) {
        w->arrays++;
        return LAM_OK;
    }
    const bool dict = call && lmi_pickled_items_of(w->p, value).n > 0;
    if (call && call->state >= 0 && !dict) return walk_object(w, f, path, call);
    /* an object that its arguments alone make, as a named tuple; those in each other are not followed deeply
     */
    if (call && !dict && call->arguments >= 0 && (!f || f->depth < DEEPEST - 1)) value = call->arguments;
    if (call && w->seen[value] && value == call->arguments) return LAM_OK;
    w->seen[value] = true;
    return push(w, f, path, value, ANY);
}

/* Notes under which names at the root tensors are. */
static lam_status note_item(walking *w, const frame *f) {
    const char *part = f && f->depth > 0 ? w->item : NULL;
    const lmi_torch_part *before = w->parts.n ? lmi_vec_at(&w->parts, w->parts.n - 1) : NULL;
    const lmi_torch_part now = {part, lmi_tensors_n(w->t)};
    w->several = w->several || !part || (w->only && strcmp(w->only, w->item) != 0);
    w->only = w->item;
    return before && before->name == part ? LAM_OK : lmi_vec_put(&w->parts, &now, w->e);
}

static lam_status visit(walking *w, const frame *f, const char *path, int32_t value) {
    lmi_stored_tensor x = {0};
    uint64_t identity;
    bool is_tensor;
    LAM_TRY(lmi_torch_tensor(w->t, w->p, w->in, value, &x, &identity, &is_tensor, w->e));
    if (is_tensor && is_attribute(f, path)) {
        w->attributes++;
        return LAM_OK;
    }
    if (is_tensor) LAM_TRY(note_item(w, f));
    return is_tensor ? add_tensor(w, f, path, &x, identity) : walk_container(w, f, path, value);
}

/* The name of an item: a text, a whole number, or its position if it is neither. */
static const char *name_of(const walking *w, const frame *f, int32_t key, char *room, size_t size) {
    const char *text = f->pairs ? lmi_pickled_text(w->p, key) : NULL;
    int64_t n = f->index;
    if (text) return text;
    const bool other = f->pairs && !lmi_pickled_int(w->p, key, &n);
    snprintf(room, size, other ? "[%lld]" : "%lld", other ? (long long)f->index : (long long)n);
    return room;
}

static lam_status step(walking *w) {
    frame *f = lmi_vec_at(&w->stack, w->stack.n - 1);
    char number[24];
    const char *path = "";
    const lmi_pickled_cell *key = lmi_pickled_cell_at(w->p, f->cell);
    const lmi_pickled_cell *item = f->pairs && key->next >= 0 ? lmi_pickled_cell_at(w->p, key->next) : key;
    const char *name = name_of(w, f, key->value, number, sizeof number);
    const frame above = *f;
    f->cell = f->pairs && key->next < 0 ? -1 : item->next;
    f->index++;
    LAM_TRY(join(w, above.path, name, &path));
    if (above.depth == 0) w->item = path;
    return visit(w, &above, path, item->value);
}

/* A checkpoint keeps the state of a model under a name, beside others of the training: the names of tensors
 * are those of the model. */
static lam_status strip(walking *w, int32_t first, size_t first_module) {
    const lmi_pickled kind = at(w, w->p->root)->kind;
    const lmi_pickled_call *call = lmi_pickled_call_of(w->p, w->p->root, NULL, NULL);
    const bool plain = kind == LMI_PICKLED_DICT || (call && lmi_pickled_items_of(w->p, w->p->root).n > 0);
    if (!plain || w->several || !w->only) return LAM_OK;
    const size_t n = strlen(w->only);
    for (int32_t i = first; i < lmi_tensors_n(w->t); i++) lmi_tensors_at(w->t, i)->name += n + 1;
    for (size_t i = first_module; i < w->t->modules.n; i++) {
        lmi_stored_module *m = lmi_vec_at(&w->t->modules, i);
        m->path += strlen(m->path) > n ? n + 1 : n;
    }
    LAM_TRY(lmi_tensors_renamed(w->t, w->e));
    return lmi_tensors_note(w->t, w->e, "its tensors are under '%.100s'", w->only);
}

static lam_status tell(walking *w, int32_t first) {
    if (w->arrays && lmi_tensors_n(w->t) == first)
        LAM_TRY(lmi_tensors_note(w->t, w->e, "it has %d array%s of NumPy, which %s not read", (int)w->arrays,
                                 w->arrays == 1 ? "" : "s", w->arrays == 1 ? "is" : "are"));
    if (w->state)
        LAM_TRY(
            lmi_tensors_note(w->t, w->e, "it is the state of an optimizer, whose tensors are no parameters"));
    if (w->optimizers)
        LAM_TRY(lmi_tensors_note(w->t, w->e, "the state of %s is left out",
                                 w->optimizers == 1 ? "an optimizer" : "optimizers"));
    if (w->attributes)
        LAM_TRY(lmi_tensors_note(w->t, w->e,
                                 "%d tensor%s of its modules %s neither parameter nor buffer, and left out",
                                 (int)w->attributes, w->attributes == 1 ? "" : "s",
                                 w->attributes == 1 ? "is" : "are"));
    if (w->rest) LAM_TRY(lmi_tensors_note(w->t, w->e, "what Lightning keeps of the training is left out"));
    if (w->again)
        LAM_TRY(lmi_tensors_note(w->t, w->e, "%d object%s at several places %s shown at the first",
                                 (int)w->again, w->again == 1 ? "" : "s", w->again == 1 ? "is" : "are"));
    return LAM_OK;
}

static lam_status walk(walking *w) {
    const int32_t first = lmi_tensors_n(w->t);
    const size_t first_module = w->t->modules.n;
    w->lightning = lmi_pickled_get(w->p, w->p->root, "pytorch-lightning_version") >= 0;
    w->state = lmi_pickled_get(w->p, w->p->root, "param_groups") >= 0 &&
               lmi_pickled_get(w->p, w->p->root, "state") >= 0;
    LAM_TRY(visit(w, NULL, "", w->p->root));
    while (w->stack.n) {
        const frame *f = lmi_vec_at(&w->stack, w->stack.n - 1);
        if (f->cell < 0)
            lmi_vec_pop(&w->stack);
        else
            LAM_TRY(step(w));
    }
    LAM_TRY(lmi_torch_split(w->t, w->p, w->e));
    LAM_TRY(strip(w, first, first_module));
    LAM_TRY(lmi_torch_twice(w->t, &w->parts, w->e));
    return tell(w, first);
}

lam_status lmi_torch_walk(lmi_tensors *t, const lmi_pickle *p, const lmi_storages *in, lam_error *e) {
    walking w = {.t = t, .p = p, .in = in, .e = e};
    lmi_vec_init(&w.stack, sizeof(frame));
    lmi_vec_init(&w.parts, sizeof(lmi_torch_part));
    lmi_map_init(&w.known);
    lmi_script_init(&w.script, in, &t->arena);
    w.seen = calloc(p->value.n + 1, sizeof *w.seen);
    lam_status s = w.seen ? walk(&w) : lmi_nomem(e);
    free(w.seen);
    lmi_vec_free(&w.stack);
    lmi_vec_free(&w.parts);
    lmi_map_free(&w.known);
    lmi_script_free(&w.script);
    return s;
}
