/* SPDX-License-Identifier: Apache-2.0
 *
 * Splits a run of a language model into parts, by the parameters that it multiplies with, and finds how it
 * uses each parameter. An operator of a forward belongs to the parameter among its arguments. One of a
 * backward pass does so too, or else to the part of the forward's operators of the same call. */
#include "analyse/tokens/formulas.h"

#include <ctype.h>
#include <stdlib.h>

const char *lmi_part_what(lmi_part p) {
    static const char *const what[] = {
#define PART(name, what) what,
#include "analyse/tokens/parts.def"
#undef PART
    };
    return what[p];
}

typedef struct splitting {
    const lmi_token_run *r;
    const lam_model *m;
    lmi_parts *out;
    uint8_t *part_of;  /* per tensor: a part of a parameter that is multiplied, LMI_N_PARTS if it is not */
    uint32_t *of_call; /* per event: a bit for each part that its own forward has */
    int32_t head;      /* the parameter of the head; -1: none is seen */
    int64_t experts;   /* of a layer; 0: there are none */
    bool effective;
} splitting;

/* -- names of places --------------------------------------------------------------------------------- */

static const char *path_of(const lam_model *m, int32_t tensor) {
    const int32_t owner = m->tensors[tensor].owner;
    const lam_module *mod = owner >= 0 ? &m->modules[owner] : NULL;
    return mod && mod->n_places ? m->places[mod->places[0]].path : "";
}

/* True if one of the words, separated by spaces and in small letters, is in the path. */
static bool names(const char *path, const char *words) {
    for (const char *at = words; *at; at += strspn(at, " ")) {
        const size_t n = strcspn(at, " ");
        for (const char *p = path; *p; p++) {
            size_t i = 0;
            while (i < n && tolower((unsigned char)p[i]) == at[i]) i++;
            if (i == n) return true;
        }
        at += n;
    }
    return false;
}

/* The number of one module of a list of experts, as 7 of "layers.1.mlp.experts.7.up"; -1: it is none. */
static int64_t in_list_of_experts(const char *path) {
    for (const char *at = strstr(path, "experts."); at; at = strstr(at + 1, "experts."))
        if (isdigit((unsigned char)at[8]) && !(at > path && at[-1] == '_')) return strtol(at + 8, NULL, 10);
    return -1;
}

/* -- parameters -------------------------------------------------------------------------------------- */

static bool is_stack(const lmi_token_run *r, int32_t tensor) {
    return r->use[tensor].groups > 1 && r->m->tensors[tensor].shape.ndim == 3;
}

/* The size of a stack that the same module owns, as of biases beside experts; 0: it owns none. */
static int64_t stack_beside(const lmi_token_run *r, int32_t tensor) {
    const int32_t owner = r->m->tensors[tensor].owner;
    for (int32_t k = 0; owner >= 0 && k < r->m->modules[owner].n_owned; k++) {
        const int32_t other = r->m->modules[owner].owned[k].tensor;
        if (is_stack(r, other)) return r->use[other].groups;
    }
    return 0;
}

/* A stack of which each token takes some, or one module of a list of experts; with their biases. */
static bool is_expert(const lmi_token_run *r, int32_t tensor) {
    const lam_shape s = r->m->tensors[tensor].shape;
    const int64_t beside = stack_beside(r, tensor);
    if (beside > 1 && s.ndim > 0 && s.sizes[0] == beside) return true;
    if (s.ndim == 3 && names(path_of(r->m, tensor), "experts")) return true; /* all are multiplied */
    return in_list_of_experts(path_of(r->m, tensor)) >= 0;
}

static int64_t most_experts(const lmi_token_run *r) {
    int64_t most = 0;
    for (int32_t i = 0; i < r->m->n_tensors; i++) {
        const lam_shape s = r->m->tensors[i].shape;
        if (!r->parameter[i]) continue;
        const int64_t listed = in_list_of_experts(path_of(r->m, i)) + 1;
        if (listed > most) most = listed;
        if (s.ndim == 3 && is_expert(r, i) && s.sizes[0] > most) most = s.sizes[0];
    }
    return most;
}

static bool is_encoder(const char *path) { return names(path, "vision visual audio"); }

static lmi_part part_of(const splitting *s, int32_t tensor) {
    const lam_shape shape = s->m->tensors[tensor].shape;
    const char *path = path_of(s->m, tensor);
    if (tensor == s->head) return LMI_PART_head;
    if (is_encoder(path)) return LMI_PART_encoder;
    if (is_expert(s->r, tensor)) return LMI_PART_experts;
    if (names(path, "shared_expert shared_mlp")) return LMI_PART_shared;
    if (shape.ndim == 2 && s->experts > 1 && shape.sizes[0] == s->experts) return LMI_PART_router;
    if (shape.ndim == 2 && names(path, "router")) return LMI_PART_router;
    return names(path, "attn atten") ? LMI_PART_projections : LMI_PART_mlp;
}

/* The order of places as torch.nn.Module.named_modules gives them, in `out`. */
static void order_places(const lam_model *m, int32_t *out, int32_t *stack) {
    int32_t n = 0, next = 0;
    for (int32_t i = 0; i < m->n_places; i++)
        if (m->places[i].parent < 0) stack[n++] = i;
    while (n > 0) {
        const lam_place *p = &m->places[stack[--n]];
        out[p - m->places] = next++;
        for (int32_t k = p->n_children - 1; k >= 0; k--) stack[n++] = p->children[k];
    }
}

/* Marks the parameters that torch.nn.Module.named_parameters finds in a torch.nn.Embedding first. */
static lam_status find_embeddings(const splitting *s, bool *out, lam_error *e) {
    const lam_model *m = s->m;
    int32_t *order = lmi_alloc(s->r->arena, (uint64_t)m->n_places + 1, sizeof *order);
    int32_t *stack = lmi_alloc(s->r->arena, (uint64_t)m->n_places + 1, sizeof *stack);
    int32_t *first = lmi_alloc_none(s->r->arena, m->n_tensors);
    if (!order || !stack || !first) return lmi_nomem(e);
    order_places(m, order, stack);
    for (int32_t i = 0; i < m->n_modules; i++) {
        const lam_module *mod = &m->modules[i];
        const int32_t at = mod->n_places ? order[mod->places[0]] : INT32_MAX;
        for (int32_t k = 0; k < mod->n_owned; k++) {
            const int32_t tensor = mod->owned[k].tensor;
            if (first[tensor] >= 0 && first[tensor] <= at) continue;
            first[tensor] = at;
            out[tensor] = lmi_word_kind(mod->word) == LMI_K_embedding;
        }
    }
    return LAM_OK;
}

static lam_status list_parameters(splitting *s, lam_error *e) {
    const lam_model *m = s->m;
    lmi_parts *out = s->out;
    bool *embedding = lmi_alloc(s->r->arena, (uint64_t)m->n_tensors, sizeof *embedding);
    out->used = lmi_alloc(s->r->arena, (uint64_t)m->n_tensors, sizeof *out->used);
    if (!out->used || !embedding) return lmi_nomem(e);
    LAM_TRY(find_embeddings(s, embedding, e));
    for (int32_t i = 0; i < m->n_tensors; i++) {
        if (!s->r->parameter[i] || m->tensors[i].numel < 0) continue;
        const bool matrix = s->part_of[i] < LMI_N_PARTS, table = embedding[i];
        out->used[out->n++] =
            (lmi_used){.use = matrix             ? LMI_USE_MATRIX
                              : i == s->r->table ? LMI_USE_TOKENS
                              : table            ? LMI_USE_TABLE
                              : s->r->use[i].touched[LAM_PREFILL] || s->r->use[i].touched[LAM_DECODE]
                                  ? LMI_USE_SMALL
                                  : LMI_USE_NONE,
                       .part = matrix ? (lmi_part)s->part_of[i] : LMI_PART_other,
                       .embedding = table,
                       .expert = is_expert(s->r, i),
                       .encoder = is_encoder(path_of(m, i)),
                       .tensor = i,
                       .numel = m->tensors[i].numel};
    }
    return LAM_OK;
}

/* -- products ---------------------------------------------------------------------------------------- */

/* The parameter that an operator multiplies with; -1: none. */
static int32_t matrix_of(const splitting *s, int32_t op) {
    const lam_op *o = &s->m->ops[op];
    for (int32_t i = 0; i < o->sig->n_in; i++) {
        if (!o->sig->in[i].is_tensor || o->sig->in[i].ndim < 2) continue;
        const int32_t tensor = lam_model_source_tensor(s->m, op, i);
        if (tensor >= 0 && s->r->parameter[tensor] && s->m->tensors[tensor].shape.ndim >= 2) return tensor;
    }
    return -1;
}

static bool attends_back(lmi_kind k) {
    return k == LMI_K_attend_backward || k == LMI_K_attend_flash_backward ||
           k == LMI_K_attend_efficient_backward;
}

/* True if the operator is in an attention that is one operator. */
static bool in_attention(const lam_model *m, int32_t op) {
    for (int32_t up = op; up >= 0; up = m->ops[up].parent) {
        const lmi_kind k = lmi_op_kind(m->ops[up].sig->word);
        if (lmi_token_attends(k) || attends_back(k)) return true;
    }
    return false;
}

/* True for an operator of a call in an encoder of images or sound. */
static bool in_encoder(const splitting *s, int32_t op) {
    const int32_t call = s->m->ops[op].call;
    return call >= 0 && is_encoder(s->m->places[s->m->events[call].place].path);
}

/* The head: the last parameter that is multiplied with and has a row for each row of the table of tokens. */
static int32_t find_head(const splitting *s) {
    const lam_tensor *table = s->r->table < 0 ? NULL : &s->m->tensors[s->r->table];
    for (int32_t i = s->m->n_ops - 1; table && table->shape.ndim > 0 && i >= 0; i--) {
        const lam_op *o = &s->m->ops[i];
        if (o->phase != LAM_FORWARD || !lmi_token_counts(s->r->c, i) ||
            !lmi_kind_multiplies(lmi_op_kind(o->sig->word)))
            continue;
        const int32_t tensor = matrix_of(s, i);
        const lam_shape shape = tensor < 0 ? (lam_shape){0, NULL} : s->m->tensors[tensor].shape;
        if (shape.ndim == 2 && shape.sizes[0] == table->shape.sizes[0]) return tensor;
    }
    return -1;
}

static lmi_part part_of_forward(splitting *s, int32_t op) {
    const lmi_kind k = lmi_op_kind(s->m->ops[op].sig->word);
    if (in_encoder(s, op)) {
        const int32_t own = matrix_of(s, op);
        if (own >= 0) s->part_of[own] = LMI_PART_encoder;
        return LMI_PART_encoder;
    }
    if (in_attention(s->m, op) || s->r->scores[op]) return LMI_PART_scores;
    const int32_t tensor = matrix_of(s, op);
    if (tensor < 0) return lmi_token_convolves(k) ? LMI_PART_convolution : LMI_PART_state;
    const lmi_part p = lmi_token_convolves(k) ? LMI_PART_convolution : part_of(s, tensor);
    s->part_of[tensor] = (uint8_t)p;
    return p;
}

/* The part of an operator of a backward pass: of the parameter that it multiplies with; else of its call, if
 * the forward of that has one part alone; else of a parameter of the shape of its result, whose gradient it
 * is. */
static lmi_part part_of_backward(const splitting *s, int32_t op) {
    const lam_op *o = &s->m->ops[op];
    if (in_encoder(s, op)) return LMI_PART_encoder;
    if (in_attention(s->m, op)) return LMI_PART_scores;
    const int32_t tensor = matrix_of(s, op);
    if (tensor >= 0 && s->part_of[tensor] < LMI_N_PARTS) return (lmi_part)s->part_of[tensor];
    const uint32_t bits = o->call >= 0 ? s->of_call[o->call] : 0;
    for (int p = 0; p < LMI_N_PARTS; p++)
        if (bits == UINT32_C(1) << p) return (lmi_part)p;
    const lam_shape made = lmi_result_shape(o->sig);
    const lam_module *mod = o->call >= 0 ? &s->m->modules[s->m->events[o->call].module] : NULL;
    for (int32_t k = 0; mod && k < mod->n_owned; k++) {
        const int32_t own = mod->owned[k].tensor;
        const lam_shape x = s->m->tensors[own].shape;
        if (s->part_of[own] >= LMI_N_PARTS || x.ndim != made.ndim || x.ndim < 2) continue;
        const int64_t *a = x.sizes + x.ndim - 2, *b = made.sizes + made.ndim - 2;
        if ((a[0] == b[0] && a[1] == b[1]) || (a[0] == b[1] && a[1] == b[0]))
            return (lmi_part)s->part_of[own];
    }
    return LMI_PART_other;
}

/* Adds the products of one phase. */
static void add_phase(splitting *s, lam_phase phase) {
    lam_count n[LAM_N_METRICS];
    for (int32_t i = 0; i < s->m->n_ops; i++) {
        const lam_op *o = &s->m->ops[i];
        if (o->phase != (uint8_t)phase || !lmi_token_counts(s->r->c, i)) continue;
        lmi_costs_op(s->r->c, i, n);
        if (n[LAM_MACS].state != LAM_EXACT || lmi_is_zero(n[LAM_MACS])) continue;
        const bool effective = s->effective && n[LAM_EFFECTIVE_MACS].state == LAM_EXACT;
        const lam_count work = effective ? n[LAM_EFFECTIVE_MACS] : n[LAM_MACS];
        if (attends_back(lmi_op_kind(o->sig->word))) s->out->again = true;
        const lmi_part p = phase == LAM_FORWARD    ? part_of_forward(s, i)
                           : phase == LAM_BACKWARD ? part_of_backward(s, i)
                                                   : LMI_PART_other;
        if (phase == LAM_FORWARD && o->call >= 0) s->of_call[o->call] |= UINT32_C(1) << p;
        if (phase == LAM_FORWARD && p == LMI_PART_scores) s->out->dense += lmi_count_wide(n[LAM_MACS]);
        s->out->macs[p][phase] += lmi_count_wide(work);
    }
}

static lam_count whole(const splitting *s, lam_phase phase) {
    const lam_count effective = lam_costs_phase_total(s->r->c, phase, LAM_EFFECTIVE_MACS);
    const lam_count all = lam_costs_phase_total(s->r->c, phase, LAM_MACS);
    return s->effective && effective.state == LAM_EXACT ? effective : all;
}

/* Scores that a mask hides may be known of an attention as a whole, and not of the products in it. */
static void hide(lmi_parts *out, lam_phase phase) {
    lmi_int128 *scores = &out->macs[LMI_PART_scores][phase], sum = 0;
    for (int p = 0; p < LMI_N_PARTS; p++) sum += out->macs[p][phase];
    const lmi_int128 over = sum - lmi_count_wide(out->whole[phase]);
    if (out->whole[phase].state == LAM_EXACT && over > 0 && over <= *scores) *scores -= over;
}

static void measure(splitting *s) {
    lmi_parts *out = s->out;
    for (size_t k = 0; k < s->r->calls.n; k++) {
        const lmi_token_call *call = lmi_token_at(s->r, (int32_t)k);
        const int64_t length = call->source >= 0 ? call->source : call->fresh;
        if (k == 0) out->batch = call->batch, out->length = length;
        int64_t n;
        if (length < 0 || call->batch < 1 || lmi_mul_over(call->batch, length, &n) || out->tokens < 0 ||
            lmi_add_over(out->tokens, n, &out->tokens))
            out->tokens = -1;
    }
}

lam_status lmi_parts_of(const lmi_token_run *r, lmi_parts *out, lam_error *e) {
    splitting s = {.r = r, .m = r->m, .out = out};
    *out = (lmi_parts){0};
    s.experts = most_experts(r);
    s.part_of = lmi_alloc(r->arena, (uint64_t)r->m->n_tensors, sizeof *s.part_of);
    s.of_call = lmi_alloc(r->arena, (uint64_t)r->m->n_events, sizeof *s.of_call);
    if (!s.part_of || !s.of_call) return lmi_nomem(e);
    for (int32_t i = 0; i < r->m->n_tensors; i++) s.part_of[i] = LMI_N_PARTS;
    s.effective = out->hides =
        lam_costs_phase_total(r->c, LAM_FORWARD, LAM_EFFECTIVE_MACS).state == LAM_EXACT;
    s.head = find_head(&s);
    measure(&s);
    for (int p = 0; p < LAM_N_PHASES; p++) {
        add_phase(&s, (lam_phase)p);
        out->whole[p] = whole(&s, (lam_phase)p);
        hide(out, (lam_phase)p);
    }
    return list_parameters(&s, e);
}

/* -- matrices of an MLP ------------------------------------------------------------------------------ */

/* How many matrices of this width a parameter is: 2 if two lie side by side; 0 if it is none. */
static int64_t matrices_in(lam_shape s, int64_t hidden, int64_t inner) {
    const int64_t a = s.ndim < 2 ? -1 : s.sizes[s.ndim - 2], b = s.ndim < 2 ? -1 : s.sizes[s.ndim - 1];
    for (int64_t each = 1; each <= 2 && inner > 0 && inner <= INT64_MAX / 2; each++)
        if ((a == hidden && b == each * inner) || (b == hidden && a == each * inner)) return each;
    return 0;
}

/* The length of the path of the layer that a matrix is in: up to the last number before the matrix's own
 * name, or what is around it. A stack has a name of its own. */
static size_t layer_of(const char *path, bool stack) {
    const char *dot = strrchr(path, '.');
    const size_t around = stack ? strlen(path) : dot ? (size_t)(dot - path) : 0;
    for (size_t i = around; i > 0; i--) {
        size_t from = i;
        while (from > 0 && isdigit((unsigned char)path[from - 1])) from--;
        const bool ends = i == around || path[i] == '.';
        if (ends && from < i && (from == 0 || path[from - 1] == '.')) return i;
    }
    return around;
}

int64_t lmi_mlp_matrices(const lmi_token_run *r, const lmi_parts *p, int64_t hidden, const lmi_widths *w) {
    int64_t matrices = 0, mlps = 0;
    const char *before = NULL;
    size_t before_n = 0;
    lmi_part part = LMI_PART_other;
    for (int32_t i = 0; hidden > 0 && i < p->n; i++) {
        const lmi_used *u = &p->used[i];
        const lam_shape s = r->m->tensors[u->tensor].shape;
        const int64_t inner = u->part == LMI_PART_mlp       ? w->mlp
                              : u->part == LMI_PART_experts ? w->experts
                              : u->part == LMI_PART_shared  ? w->shared
                                                            : 0;
        const int64_t here = u->use == LMI_USE_MATRIX ? matrices_in(s, hidden, inner) : 0;
        if (!here) continue;
        const char *path = path_of(r->m, u->tensor);
        const size_t size = layer_of(path, s.ndim == 3);
        mlps += !before || part != u->part || size != before_n || strncmp(before, path, size) != 0;
        before = path;
        part = u->part;
        before_n = size;
        matrices += here;
    }
    if (!mlps || matrices % mlps) return -1;
    return matrices / mlps == 2 || matrices / mlps == 3 ? matrices / mlps : -1;
}
