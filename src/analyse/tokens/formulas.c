/* SPDX-License-Identifier: Apache-2.0
 *
 * The formulas of formulas.def: what a configuration says, and their values. */
#include "analyse/tokens/formulas.h"

#include <ctype.h>
#include <stdlib.h>

/* -- a configuration: "name=4 other=1 types=a,b" --------------------------------------------------------- */

/* The value of a name, of `n` bytes; NULL: it has none. */
static const char *value_of(const char *config, const char *name, size_t n, size_t *size) {
    for (const char *at = config; at && *at;) {
        const size_t word = strcspn(at, " ");
        if (word > n && strncmp(at, name, n) == 0 && at[n] == '=') {
            *size = word - n - 1;
            return at + n + 1;
        }
        at += word;
        at += strspn(at, " ");
    }
    return NULL;
}

/* The whole number of the first of these names that has one; false: none has. */
static bool number_of(const char *config, const char *names, int64_t *out) {
    for (const char *at = names; *at;) {
        const size_t n = strcspn(at, " ");
        size_t size;
        char *end;
        const char *text = value_of(config, at, n, &size);
        if (text && size > 0 && size < 19 && isdigit((unsigned char)*text)) {
            *out = strtoll(text, &end, 10);
            if (end == text + size) return true;
        }
        at += n;
        at += strspn(at, " ");
    }
    return false;
}

static int64_t number_or(const char *config, const char *name, int64_t otherwise) {
    int64_t n;
    return number_of(config, name, &n) ? n : otherwise;
}

/* The entries of a list that contain a word, or if `word` is NULL all of them; -1: there is no such list. */
static int64_t entries(const char *config, const char *list, const char *word) {
    size_t size;
    const char *at = value_of(config, list, strlen(list), &size);
    int64_t n = 0;
    if (!at || !size) return -1;
    for (const char *end = at + size; at < end;) {
        const size_t one = strcspn(at, ", ");
        const size_t wide = word ? strlen(word) : 0;
        bool has = !word;
        for (size_t i = 0; !has && i + wide <= one; i++) has = strncmp(at + i, word, wide) == 0;
        n += has;
        at += one + 1;
    }
    return n;
}

static bool lists(const char *config, const char *list, int64_t number) {
    size_t size;
    const char *at = value_of(config, list, strlen(list), &size);
    for (const char *end = at ? at + size : at; at && at < end;) {
        char *after;
        if (strtoll(at, &after, 10) == number && after > at) return true;
        at += strcspn(at, ", ") + 1;
    }
    return false;
}

/* -- layers of a kind -------------------------------------------------------------------------------- */

static int64_t windows(const char *config, int64_t layers) {
    const int64_t sliding = entries(config, "layer_types", "sliding");
    if (number_or(config, "sliding_window", 0) <= 0 || number_or(config, "use_sliding_window", 1) == 0)
        return 0;
    return sliding >= 0 ? sliding : layers;
}

static int64_t experts(const char *config, int64_t layers) {
    const int64_t sparse = entries(config, "mlp_layer_types", "sparse");
    const int64_t step = number_or(config, "decoder_sparse_step interleave_moe_layer_step", 1);
    int64_t first, n = 0;
    if (sparse >= 0) return sparse;
    if (entries(config, "moe_layers", NULL) >= 0) return entries(config, "moe_layers", NULL);
    if (number_of(config, "first_k_dense_replace", &first)) return first < layers ? layers - first : 0;
    if (layers > 1 << 20) return 0;
    for (int64_t i = 0; i < layers; i++)
        n += step > 0 && (i + 1) % step == 0 && !lists(config, "mlp_only_layers", i);
    return n;
}

static int64_t experts_of_vllm(const char *config, int64_t layers) {
    const int64_t step = number_or(config, "interleave_moe_layer_step", 0);
    int64_t first, every, n = 0;
    if (step > 0) return layers / step;
    if (!number_of(config, "moe_layer_freq", &every) || !number_of(config, "first_k_dense_replace", &first))
        return layers;
    for (int64_t i = first; every > 0 && i < layers && layers <= 1 << 20; i++) n += i % every == 0;
    return n;
}

/* True unless a list of types has one that is no attention over keys. */
static bool only_attention(const char *config) {
    static const char *const names[] = {"layer_types", "layers_block_type"};
    for (int i = 0; i < 2; i++) {
        const int64_t all = entries(config, names[i], NULL);
        if (all >= 0 &&
            (entries(config, names[i], "attention") < all || entries(config, names[i], "linear") > 0))
            return false;
    }
    return true;
}

/* -- names ----------------------------------------------------------------------------------------- */

typedef struct field {
    const char *name, *words, *otherwise;
} field;
static const field fields[] = {
#define FIELD(name, words, otherwise) {#name, words, otherwise},
#include "analyse/tokens/formulas.def"
};
enum { N_FIELDS = sizeof fields / sizeof *fields };

int64_t lmi_named(const lmi_names *x, const char *name) {
    for (int32_t i = 0; i < x->n; i++)
        if (strcmp(x->name[i], name) == 0) return x->value[i];
    return -1;
}

static void put_name(lmi_names *x, const char *name, int64_t value) {
    if (value < 0 || x->n >= LMI_MOST_NAMES) return;
    x->name[x->n] = name;
    x->value[x->n++] = value;
}

static lam_count evaluate(const lmi_names *x, const char *text) {
    lam_count n = lmi_unknown();
    if (lam_formula_eval(text, x->name, x->value, x->n, &n, NULL) != LAM_OK) return lmi_unknown();
    return n;
}

static void put_field(lmi_names *x, const field *f) {
    int64_t n;
    if (number_of(x->config, f->words, &n)) {
        put_name(x, f->name, n);
    } else if (f->otherwise) {
        const lam_count by = evaluate(x, f->otherwise);
        if (by.state == LAM_EXACT && !by.over) put_name(x, f->name, by.n);
    }
}

/* Elements of the parameters that a condition holds for. */
static int64_t sum_of(const lmi_parts *p, bool (*holds)(const lmi_used *u)) {
    int64_t n = 0;
    for (int32_t i = 0; i < p->n; i++)
        if (holds(&p->used[i])) n += p->used[i].numel;
    return n;
}

static bool any(const lmi_used *u) { return u->use <= LMI_USE_NONE; }
static bool is_embedding(const lmi_used *u) { return u->embedding; }
static bool is_token_table(const lmi_used *u) { return u->use == LMI_USE_TOKENS; }
static bool is_other_table(const lmi_used *u) { return lmi_is_without(u, LMI_WITHOUT_OTHER_TABLES); }
static bool is_lookup(const lmi_used *u) { return lmi_is_without(u, LMI_WITHOUT_LOOKUPS); }
static bool is_expert(const lmi_used *u) { return u->expert; }
static bool is_encoder(const lmi_used *u) { return u->encoder; }

bool lmi_is_without(const lmi_used *u, int flags) {
    const bool matrix = u->use == LMI_USE_MATRIX;
    return (flags & LMI_WITHOUT_EMBEDDINGS && u->embedding) ||
           (flags & LMI_WITHOUT_LOOKUPS && !u->encoder && u->embedding && !matrix) ||
           (flags & LMI_WITHOUT_TOKEN_TABLE && u->use == LMI_USE_TOKENS) ||
           (flags & LMI_WITHOUT_OTHER_TABLES && u->embedding && !matrix && u->use != LMI_USE_TOKENS) ||
           (flags & LMI_WITHOUT_ENCODERS && u->encoder);
}

void lmi_names_of(const lmi_parts *p, const char *config, int64_t mlp_matrices, lmi_names *out) {
    *out = (lmi_names){.config = config};
    put_name(out, "tokens", p->tokens);
    put_name(out, "batch", p->batch);
    put_name(out, "length", p->length);
    put_name(out, "parameters", sum_of(p, any));
    put_name(out, "embeddings", sum_of(p, is_embedding));
    put_name(out, "lookups", sum_of(p, is_lookup));
    put_name(out, "token_table", sum_of(p, is_token_table));
    put_name(out, "other_tables", sum_of(p, is_other_table));
    put_name(out, "expert_parameters", sum_of(p, is_expert));
    put_name(out, "encoders", sum_of(p, is_encoder));
    put_name(out, "mlp_matrices", mlp_matrices);
    for (int i = 0; i < N_FIELDS; i++) {
        put_field(out, &fields[i]);
        if (strcmp(fields[i].name, "num_experts_per_tok") != 0) continue;
        /* What lists of layers say, which the fields after this one and the formulas use. */
        const int64_t layers = lmi_named(out, "num_hidden_layers"),
                      any_experts = lmi_named(out, "num_experts");
        if (layers < 0) continue;
        put_name(out, "layer_windows", windows(config, layers));
        put_name(out, "layer_experts", any_experts > 0 ? experts(config, layers) : 0);
        put_name(out, "layer_experts_vllm", any_experts > 0 ? experts_of_vllm(config, layers) : 0);
        if (only_attention(config)) put_name(out, "layer_attention", layers);
    }
}

/* -- values ---------------------------------------------------------------------------------------- */

static const struct {
    const char *name, *words, *source;
    int flags;
    enum lmi_scores scores;
} formulas[] = {
#define NO_WEIGHTS                                              LMI_NO_WEIGHTS
#define ALL                                                     LMI_SCORES_ALL
#define HALF                                                    LMI_SCORES_HALF
#define WINDOWS                                                 LMI_SCORES_WINDOWS
#define FORMULA(convention, name, words, source, flags, scores) {name, words, source, flags, scores},
#include "analyse/tokens/formulas.def"
};
enum { N_FORMULAS = sizeof formulas / sizeof *formulas };

/* A number for each convention, as its terms name it. */
enum {
#define FORMULA(convention, name, words, source, flags, scores) OF_##convention,
#include "analyse/tokens/formulas.def"
    N_OF
};
enum { LMI_PART_weights = -1 };

static const struct {
    int of, part;
    const char *text;
} terms[] = {
#define TERM(convention, part, text) {OF_##convention, LMI_PART_##part, text},
#include "analyse/tokens/formulas.def"
};

static const struct {
    int of, part;
    const char *condition, *text;
} notes[] = {
#define NOTE(convention, part, condition, text) {OF_##convention, LMI_PART_##part, condition, text},
#include "analyse/tokens/formulas.def"
};

static const char *note_of(const lmi_names *x, int of, int part) {
    for (size_t k = 0; k < sizeof notes / sizeof *notes; k++) {
        if (notes[k].of != of || notes[k].part != part) continue;
        const lam_count holds = evaluate(x, notes[k].condition);
        if (holds.state == LAM_EXACT && holds.n) return notes[k].text;
    }
    return NULL;
}

int32_t lmi_n_token_formulas(void) { return N_FORMULAS; }

static const field *field_of(const char *name, size_t n) {
    for (int i = 0; i < N_FIELDS; i++)
        if (strlen(fields[i].name) == n && strncmp(fields[i].name, name, n) == 0) return &fields[i];
    return NULL;
}

static bool is_known(const lmi_names *x, const char *name, size_t n) {
    for (int32_t i = 0; i < x->n; i++)
        if (strlen(x->name[i]) == n && strncmp(x->name[i], name, n) == 0) return true;
    return false;
}

static void put_lack(lmi_buf *lacks, const char *name, size_t n) {
    const char *text = lmi_buf_text(lacks);
    for (const char *at = text; *at; at += strspn(at, ", ")) {
        const size_t word = strcspn(at, ",");
        if (word == n && strncmp(at, name, n) == 0) return;
        at += word;
    }
    if (*text) lmi_put(lacks, ", ");
    lmi_putn(lacks, name, n);
}

static void put_lack_of(lmi_buf *lacks, const char *what) { put_lack(lacks, what, strlen(what)); }

/* Names what a formula needs and is not known: of a field with a formula of its own what that needs. A field
 * is a formula of fields before it, so this ends. */
static bool find_lacks(const lmi_names *x, const char *text, int depth, lmi_buf *lacks) {
    bool found = false;
    for (const char *at = text; *at && depth < N_FIELDS;) {
        const size_t n = strspn(at, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789");
        if (n == 0 || isdigit((unsigned char)*at)) {
            at += n ? n : 1;
            continue;
        }
        const field *f = field_of(at, n);
        const bool layers = n > 6 && strncmp(at, "layer_", 6) == 0;
        if (!is_known(x, at, n)) {
            if (f && f->otherwise && find_lacks(x, f->otherwise, depth + 1, lacks)) {
                found = true;
            } else if (f) {
                put_lack(lacks, at, n);
                found = true;
            } else if (layers && lmi_named(x, "num_hidden_layers") >= 0) {
                put_lack_of(lacks, "a term for layers of another kind than attention");
                found = true;
            } else if (n == 12 && strncmp(at, "mlp_matrices", n) == 0) {
                put_lack_of(lacks, "whether an MLP is gated");
                found = true;
            }
        }
        at += n;
    }
    return found;
}

void lmi_token_formula_of(int32_t i, const lmi_names *x, lmi_token_formula *out, lmi_buf *lacks) {
    *out = (lmi_token_formula){formulas[i].name,
                               formulas[i].words,
                               formulas[i].source,
                               formulas[i].flags,
                               formulas[i].scores,
                               {0},
                               {{0}}};
    for (size_t k = 0; x && k < sizeof terms / sizeof *terms; k++) {
        if (terms[k].of != i) continue;
        lmi_term *to = terms[k].part < 0 ? &out->weights : &out->part[terms[k].part];
        const lam_count n = evaluate(x, terms[k].text);
        *to = (lmi_term){true, n.state == LAM_EXACT ? lmi_count_wide(n) : 0, note_of(x, i, terms[k].part)};
        if (n.state != LAM_EXACT && !find_lacks(x, terms[k].text, 0, lacks))
            put_lack_of(lacks, "numbers that it can be computed with");
    }
}

int32_t lam_n_token_conventions(void) { return N_FORMULAS; }
const char *lam_token_convention(int32_t i) { return i >= 0 && i < N_FORMULAS ? formulas[i].name : NULL; }
