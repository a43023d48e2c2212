/* SPDX-License-Identifier: Apache-2.0
 *
 * Cases in which a tool itself may print another number than its table gives: the LIMIT lines of
 * conventions.def that apply to this run. */
#include "analyse/cost/compare.h"

#include <ctype.h>

typedef struct run {
    const lam_model *m;
    const lam_costs *c;
    const char *operators; /* of the line */
} run;

/* True if the operator is listed and the program called it, not another operator. */
static bool is_called(const run *r, const lam_op *o) {
    if (o->phase != LAM_FORWARD || !lmi_listed(r->operators, o->sig->name)) return false;
    for (int32_t p = o->parent; p >= 0; p = r->m->ops[p].parent)
        if (!(r->m->ops[p].flags & LAM_OP_NODE)) return false;
    return true;
}

/* True unless the forward of one of torch's layers called it: the function that such a forward calls is
 * known. */
static bool is_users(const lam_model *m, const lam_op *o) {
    const lam_module *mod = o->call >= 0 ? &m->modules[m->events[o->call].module] : NULL;
    return !mod || mod->word < 0 || mod->flags & LAM_MODULE_OWN_FORWARD;
}

static bool is_sized(const lam_model *m, const lam_op *o) {
    const lam_value *size = lmi_sig_value(o->sig, 1);
    (void)m;
    return size && size->type == LAM_INTS;
}

/* True if an axis was resized by a factor that is not a whole number. */
static bool is_stretched(const lam_model *m, const lam_op *o) {
    const lam_op_sig *sig = o->sig;
    if (is_sized(m, o) || sig->n_in < 1 || sig->n_out < 1 || sig->in[0].ndim != sig->out[0].ndim)
        return false;
    for (int32_t k = 0; k < sig->in[0].ndim; k++)
        if (sig->in[0].sizes[k] > 0 && sig->out[0].sizes[k] % sig->in[0].sizes[k]) return true;
    return false;
}

static bool any_called(const run *r, bool (*is)(const lam_model *m, const lam_op *o)) {
    for (int32_t i = 0; i < r->m->n_ops; i++)
        if (is_called(r, &r->m->ops[i]) && is(r->m, &r->m->ops[i])) return true;
    return false;
}

static bool when_called(const run *r) { return any_called(r, is_users); }
static bool when_sized(const run *r) { return any_called(r, is_sized); }
static bool when_stretched(const run *r) { return any_called(r, is_stretched); }

/* The number of elements of an operator's largest argument. */
static int64_t most_elements(const lam_op *o) {
    int64_t most = 0;
    for (int32_t i = 0; i < o->sig->n_in; i++) {
        const int64_t n = o->sig->in[i].is_tensor ? lmi_op_arg_numel(&o->sig->in[i]) : 0;
        most = n > most ? n : most;
    }
    return most;
}

/* True if torch.vmap ran: it runs operators on its own tensors, of one example, and inside them operators on
 * the real ones, which have all. Other operators that those inside them replace have the same elements. */
static bool when_mapped(const run *r) {
    const lam_op *ops = r->m->ops;
    for (int32_t i = 0; i < r->m->n_ops; i++) {
        if (ops[i].phase != LAM_FORWARD || !(ops[i].flags & LAM_OP_NODE) || !strstr(ops[i].sig->name, "::"))
            continue;
        const int64_t most = most_elements(&ops[i]);
        for (int32_t k = i + 1; k < r->m->n_ops && ops[k].parent >= i; k++)
            if (!(ops[k].flags & LAM_OP_NODE) && most_elements(&ops[k]) > most) return true;
    }
    return false;
}

static bool when_training(const run *r) {
    for (int32_t i = 0; i < r->m->n_modules; i++)
        if (r->m->modules[i].n_calls > 0 && r->m->modules[i].flags & LAM_MODULE_TRAINING) return true;
    return false;
}

/* True if several modules own one parameter, or a module that owns one has several places. */
static bool when_tied(const run *r) {
    for (int32_t i = 0; i < r->m->n_modules; i++) {
        const lam_module *mod = &r->m->modules[i];
        for (int32_t k = 0; k < mod->n_owned; k++)
            if (!mod->owned[k].is_buffer &&
                (mod->n_places > 1 || r->m->tensors[mod->owned[k].tensor].n_owners > 1))
                return true;
    }
    return false;
}

static bool when_pruned(const run *r) { return r->c->params.in_rows.state == LAM_UNKNOWN; }

/* True if a layer such as Conv2d or MaxPool2d got one image without a batch axis. */
static bool is_unbatched(const run *r, const lam_event *ev) {
    const lam_module *mod = &r->m->modules[ev->module];
    const char *word = mod->word >= 0 ? lam_word_name(mod->word) : NULL;
    size_t n = word ? strlen(word) : 0;
    if (!word || n < 2 || ev->n_in < 1 || (!strstr(word, "Conv") && !strstr(word, "Pool"))) return false;
    return word[n - 1] == 'd' && isdigit((unsigned char)word[n - 2]) &&
           ev->in[0].ndim == word[n - 2] - '0' + 1;
}

static bool when_unbatched(const run *r) {
    for (int32_t i = 0; i < r->m->n_events; i++)
        if (is_unbatched(r, &r->m->events[i])) return true;
    return false;
}

/* True if a layer's batch is not a multiple of the model's, by which the tool divides the layer's number. */
static bool when_uneven(const run *r) {
    const lam_model *m = r->m;
    int64_t images =
        m->n_events && m->events[0].n_in && m->events[0].in[0].ndim > 0 ? m->events[0].in[0].sizes[0] : 0;
    for (int32_t i = 0; images > 0 && i < m->n_events; i++) {
        const lam_event *ev = &m->events[i];
        bool counts = lmi_rule_for(r->c->convention, &m->modules[ev->module]) != NULL;
        if (counts && ev->n_in && ev->in[0].ndim > 0 && ev->in[0].sizes[0] % images) return true;
    }
    return false;
}

static bool (*const checks[])(const run *) = {
    [LMI_WHEN_CALLED] = when_called,       [LMI_WHEN_SIZED] = when_sized,
    [LMI_WHEN_STRETCHED] = when_stretched, [LMI_WHEN_MAPPED] = when_mapped,
    [LMI_WHEN_TRAINING] = when_training,   [LMI_WHEN_TIED] = when_tied,
    [LMI_WHEN_PRUNED] = when_pruned,       [LMI_WHEN_UNBATCHED] = when_unbatched,
    [LMI_WHEN_UNEVEN] = when_uneven};

lam_status lmi_limits(const lam_costs *c, lam_metric metric, lmi_arena *a, const char **out, lam_error *e) {
    lmi_buf b;
    const lmi_limit *l;
    lmi_buf_init(&b);
    for (int32_t i = 0; (l = lmi_limit_at(i)) != NULL; i++) {
        const run r = {c->model, c, l->operators};
        bool asked = lmi_convention_at(l->convention) == c->convention && l->metrics & 1 << metric;
        if (asked && checks[l->when](&r)) lmi_putf(&b, "%s%s", b.n ? " " : "", l->text);
    }
    bool any = b.n || b.bad;
    *out = any ? lmi_buf_keep(&b, a) : NULL;
    return any && !*out ? lmi_nomem(e) : LAM_OK;
}
