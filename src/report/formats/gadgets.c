/* SPDX-License-Identifier: Apache-2.0
 *
 * torch_inspector's JSON, with its names and nesting: {class: {"info": ..., "children": ...}}, indented
 * by 4. An unknown number is null. docs/torch_inspector.md describes each field. Lists are on one line,
 * and the indentation is bounded, so that the text of a deep tree grows only with its layers. */
#include "analyse/run/gadgets.h"

#include "report/table/quick.h"
#include "report/table/report.h"

enum { STEP = 4, DEEPEST = 64 }; /* DEEPEST: levels that are indented */

typedef struct page {
    lmi_job *j;
    lmi_buf *b;
    const lam_model *m;
    const lam_gadget_options *o;
    const lam_gadgets *g;
    char margin[2 + STEP * DEEPEST + 1]; /* a line's end and the beginning of the next one */
    size_t n_margin;
} page;

static size_t indent(int64_t level) { return (size_t)(level < DEEPEST ? level : DEEPEST) * STEP; }

/* -- values ---------------------------------------------------------------------------------------------- */

static void put_known(lmi_buf *b, int64_t v) {
    if (v < 0)
        PUT(b, "null");
    else
        quick_int(b, v);
}

/* Writes millionths as a decimal fraction, exactly: nanoseconds as milliseconds, bytes as megabytes. */
static void put_millionths(lmi_buf *b, int64_t v) {
    char part[7] = {'.'};
    size_t n = sizeof part;
    if (v < 0) {
        PUT(b, "null");
        return;
    }
    quick_int(b, v / 1000000);
    for (int64_t rest = v % 1000000, i = 6; i > 0; i--, rest /= 10) part[i] = (char)('0' + rest % 10);
    while (n > 2 && part[n - 1] == '0') n--;
    quick_put(b, part, n);
}

static void put_truth(lmi_buf *b, lmi_truth t) {
    static const char *const words[] = {"false", "true", "null"};
    quick_put(b, words[t], strlen(words[t]));
}

static void put_shape(lmi_buf *b, const lam_arg *a) {
    if (a->ndim < 0) {
        PUT(b, "null");
        return;
    }
    PUT(b, "[");
    for (int32_t i = 0; i < a->ndim; i++) {
        if (i) PUT(b, ", ");
        quick_int(b, a->sizes[i]);
    }
    PUT(b, "]");
}

/* -- fields ---------------------------------------------------------------------------------------------- */

/* Begins the next line of the layer's info; `name` has its quotes and its colon. */
static inline void field(const page *p, const char *name) {
    quick_put(p->b, p->margin, p->n_margin);
    quick_put(p->b, name, strlen(name));
}

static void field_millionths(const page *p, const char *name, bool asked, int64_t v) {
    field(p, name);
    put_millionths(p->b, asked ? v : -1);
}

static void field_truth(const page *p, const char *name, bool asked, lmi_truth t) {
    field(p, name);
    put_truth(p->b, asked ? t : LMI_NOT_KNOWN);
}

static void put_separator(const page *p, bool *any) {
    if (*any) PUT(p->b, ", ");
    *any = true;
}

/* Begins a list, or writes null. */
static bool begin_list(const page *p, const char *name, bool known) {
    field(p, name);
    quick_put(p->b, known ? "[" : "null", known ? 1 : 4);
    return known;
}

/* One entry for each input or output of the calls that are shown. */
static void field_tensors(const page *p, const char *name, int32_t place, bool input, bool shapes) {
    bool any = false;
    if (!begin_list(p, name, p->o->forward && !p->g->at[place].hidden)) return;
    for (int32_t i = p->g->at[place].first; i >= 0; i = p->g->next[i]) {
        const lam_event *ev = &p->m->events[i];
        for (int32_t k = 0; k < (input ? ev->n_in : ev->n_out); k++) {
            const lam_arg *a = input ? &ev->in[k] : &ev->out[k];
            put_separator(p, &any);
            if (shapes)
                put_shape(p->b, a);
            else
                put_millionths(p->b, lmi_arg_bytes(a));
        }
    }
    PUT(p->b, "]");
}

/* A gradient has the shape of its tensor. */
static void put_gradients(const page *p, int32_t call, bool input, bool *any) {
    const lam_event *ev = &p->m->events[call];
    const lam_grad *grad;
    for (int32_t i = lam_model_first_grad(p->m, call); (grad = lam_model_grad(p->m, i)) != NULL; i++) {
        if (grad->call != call) return;
        if (grad->is_input != input) continue;
        put_separator(p, any);
        put_shape(p->b, input ? &ev->in[grad->index] : &ev->out[grad->index]);
    }
}

static void field_gradients(const page *p, const char *name, int32_t place, bool input) {
    bool any = false;
    const lmi_gadget *x = &p->g->at[place];
    if (!begin_list(p, name, p->o->backward && p->g->gradients && !x->hidden)) return;
    for (int32_t i = x->first; i >= 0; i = p->g->next[i]) put_gradients(p, i, input, &any);
    for (int32_t i = x->first_again; i >= 0; i = p->g->next[i]) put_gradients(p, i, input, &any);
    PUT(p->b, "]");
}

static void put_info(page *p, int32_t place) {
    const lmi_gadget *x = &p->g->at[place];
    bool forward = p->o->forward && !x->hidden, backward = p->o->backward && !x->hidden;
    quick_put(p->b, p->margin + 1, p->n_margin - 1); /* the first line has no comma before it */
    PUT(p->b, "\"type\": ");
    quick_text(p->b, p->m->modules[p->m->places[place].module].type);
    field_tensors(p, "\"input_shapes\": ", place, true, true);
    field_tensors(p, "\"output_shapes\": ", place, false, true);
    field_gradients(p, "\"grad_in_shape\": ", place, true);
    field_gradients(p, "\"grad_out_shape\": ", place, false);
    field(p, "\"num_parameters\": ");
    put_known(p->b, x->params);
    field(p, "\"num_learnable_parameters\": ");
    put_known(p->b, x->trainable);
    field_millionths(p, "\"param_memory_usage\": ", true, x->param_bytes);
    field_millionths(p, "\"gradient_memory_usage\": ", true, x->gradient_bytes);
    field_tensors(p, "\"input_memory_usage\": ", place, true, false);
    field_tensors(p, "\"output_memory_usage\": ", place, false, false);
    field_millionths(p, "\"effective_additional_memory_fwd\": ", forward, x->forward_bytes);
    field_millionths(p, "\"effective_additional_memory_bwd\": ", backward, x->backward_bytes);
    field_truth(p, "\"forward_nan\": ", forward, x->forward_nan);
    field_truth(p, "\"grad_in_nan\": ", backward, x->grad_in_nan);
    field_truth(p, "\"grad_out_nan\": ", backward, x->grad_out_nan);
    field_millionths(p, "\"total_memory\": ", forward, lmi_gadget_memory(p->g, place));
    field_millionths(p, "\"forward_latency\": ", forward, x->forward_ns);
    field_millionths(p, "\"backward_latency\": ", backward, x->backward_ns);
    field(p, "\"calls\": ");
    put_known(p->b, x->hidden ? -1 : x->calls);
    if (x->same < 0) return;
    field(p, "\"same_as\": ");
    quick_text(p->b, p->m->places[x->same].path);
}

/* -- the tree -------------------------------------------------------------------------------------------- */

/* Layer `place` at depth d is an entry on level 2d + 1; its two parts are on the next level, their
 * fields on the one after. */
static int64_t level_of(const page *p, int32_t place) { return 2 * (int64_t)p->m->places[place].depth + 1; }

static void new_line(const page *p, int64_t level) {
    PUT(p->b, "\n");
    lmi_pad(p->b, ' ', indent(level));
}

static void set_margin(page *p, int64_t level) {
    p->margin[0] = ',';
    p->margin[1] = '\n';
    memset(p->margin + 2, ' ', indent(level));
    p->n_margin = 2 + indent(level);
}

static bool is_open(const page *p, int32_t place) {
    const lam_place *at = &p->m->places[place];
    return at->n_children > 0 && (p->o->max_depth < 0 || at->depth < p->o->max_depth);
}

static void open_layer(page *p, int32_t place) {
    const lam_place *at = &p->m->places[place];
    int64_t level = level_of(p, place);
    new_line(p, level);
    quick_text(p->b, at->parent < 0 ? p->m->modules[at->module].type : at->name);
    PUT(p->b, ": {");
    new_line(p, level + 1);
    PUT(p->b, "\"info\": {");
    set_margin(p, level + 2);
    put_info(p, place);
    new_line(p, level + 1);
    PUT(p->b, "},");
    new_line(p, level + 1);
    PUT(p->b, "\"children\": {");
    if (!is_open(p, place)) PUT(p->b, "}");
}

static void close_layer(const page *p, int32_t place) {
    int64_t level = level_of(p, place);
    if (is_open(p, place)) {
        new_line(p, level + 1);
        PUT(p->b, "}");
    }
    new_line(p, level);
    PUT(p->b, "}");
}

/* Depth first, without recursion: `done` counts the children of each layer that are written. */
static lam_status put_tree(page *p, int32_t *done) {
    for (int32_t at = 0; at >= 0;) {
        const lam_place *x = &p->m->places[at];
        if (done[at] == 0) open_layer(p, at);
        if (is_open(p, at) && done[at] < x->n_children) {
            if (done[at]) PUT(p->b, ",");
            at = x->children[done[at]++];
            continue;
        }
        close_layer(p, at);
        at = x->parent;
        LAM_TRY(lmi_job_flush(p->j));
    }
    return LAM_OK;
}

lam_status lam_gadgets_write(const lam_gadgets *g, const lam_gadget_options *o, lam_sink to, lam_error *e) {
    static const lam_gadget_options all = {.max_depth = -1, .forward = true, .backward = true};
    lmi_job j = {.m = g->m, .to = to, .e = e};
    lmi_arena scratch;
    lmi_arena_init(&scratch, UINT64_MAX);
    lmi_buf_init(&j.out);
    page p = {.j = &j, .b = &j.out, .m = g->m, .o = o ? o : &all, .g = g};
    int32_t *done = lmi_alloc(&scratch, (uint64_t)g->m->n_places, sizeof *done);
    PUT(&j.out, "{");
    lam_status s = done ? put_tree(&p, done) : lmi_nomem(e);
    PUT(&j.out, "\n}\n");
    lmi_arena_free(&scratch);
    return lmi_job_close(&j, s);
}
