/* SPDX-License-Identifier: Apache-2.0
 *
 * Graphs of ONNX in memory, from a few lines of text, and what inference makes of them as a text.
 *
 *   in x f 1,3,?,8          an input: name, element type, sizes; "-" for none, "*" if they are unknown
 *   const k l 2 1,-1        a constant: its elements too; "-" for none
 *   Conv y <- x,w,_ pads=[1,1] mode="linear" ceil_mode=1 scales=f[2,2] value=@t body=&g
 *                           a node: results, arguments ("_": left out), attributes; @ a constant, & a graph
 *   graph g x f 2; y        begins a graph with one input or none ("graph g ; y"), and its result
 *   end                     ends it
 *
 * Types: f float, d double, h float16, g bfloat16, l int64, i int32, u uint8, k uint64, b bool, s string, q
 * int4. */
#ifndef LAMINA_TEST_ONNX_GRAPH_H
#define LAMINA_TEST_ONNX_GRAPH_H

#include "kit/oom.h"

#include "read/onnx/graph.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static int32_t onnx_type_of(char c) {
    static const struct {
        char letter;
        int32_t type;
    } types[] = {
        {'f', LMI_ONNX_FLOAT}, {'d', LMI_ONNX_DOUBLE}, {'h', LMI_ONNX_FLOAT16}, {'g', LMI_ONNX_BFLOAT16},
        {'l', LMI_ONNX_INT64}, {'i', LMI_ONNX_INT32},  {'u', LMI_ONNX_UINT8},   {'k', LMI_ONNX_UINT64},
        {'b', LMI_ONNX_BOOL},  {'s', LMI_ONNX_STRING}, {'q', LMI_ONNX_INT4},    {'?', LMI_ONNX_NO_TYPE},
        {'c', LMI_ONNX_INT8},  {'e', LMI_ONNX_UINT32},
    };
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].letter == c) return types[i].type;
    fail_msg("no type '%c'", c);
    return 0;
}

static char onnx_letter_of(int32_t type) {
    static const char *const all = "fdhglikubsqce";
    for (const char *c = all; *c; c++)
        if (onnx_type_of(*c) == type) return *c;
    return '?';
}

typedef struct onnx_text {
    lmi_onnx_model m;
    lmi_onnx_graph *graphs[24]; /* the model's, then those of bodies */
    int n_graphs, at;
} onnx_text;

/* All that one graph has is allocated at once: the tests' graphs are small. */
enum { ONNX_MOST = 320 };

static int32_t onnx_named(onnx_text *t, const char *name) {
    for (size_t i = 0; i < t->m.values.n; i++)
        if (strcmp(lmi_onnx_value_at(&t->m, (int32_t)i)->name, name) == 0) return (int32_t)i;
    lmi_onnx_value *v = lmi_vec_push(&t->m.values);
    assert_non_null(v);
    *v = (lmi_onnx_value){.name = lmi_strdup(&t->m.arena, name),
                          .ndim = -1,
                          .producer = -1,
                          .graph = t->graphs[t->at]};
    return (int32_t)t->m.values.n - 1;
}

static void onnx_sizes(onnx_text *t, const char *text, lmi_onnx_value *v) {
    int64_t sizes[40];
    int32_t n = 0;
    if (*text == '*') return;
    for (const char *c = text; *c && *c != '-'; c += *c == ',') {
        char *end;
        sizes[n++] = *c == '?' ? -1 : strtoll(c, &end, 10);
        c = *c == '?' ? c + 1 : end;
    }
    v->ndim = n;
    v->sizes = lmi_copy(&t->m.arena, sizes, (uint64_t)n, sizeof *sizes);
}

static void onnx_put_number(unsigned char *to, int32_t type, double f, int64_t i) {
    float narrow = (float)f;
    uint32_t bits;
    switch (type) {
    case LMI_ONNX_FLOAT: memcpy(to, &narrow, 4); break;
    case LMI_ONNX_DOUBLE: memcpy(to, &f, 8); break;
    case LMI_ONNX_BFLOAT16:
        memcpy(&bits, &narrow, 4);
        bits >>= 16;
        memcpy(to, &bits, 2);
        break;
    default: memcpy(to, &i, (size_t)lmi_onnx_bits(type) / 8);
    }
}

static int32_t onnx_constant(onnx_text *t, char *line) {
    char *name = strtok(line, " "), *type = strtok(NULL, " "), *sizes = strtok(NULL, " "),
         *all = strtok(NULL, " ");
    int32_t at = onnx_named(t, name);
    lmi_onnx_value *v = lmi_onnx_value_at(&t->m, at);
    unsigned char raw[8 * 512] = {0};
    v->type = onnx_type_of(*type);
    v->initialiser = true;
    v->where = LMI_ONNX_MEMORY;
    onnx_sizes(t, sizes, v);
    int n = 0;
    for (char *c = all; *c && strcmp(all, "-") != 0; n++) {
        char *end, *whole;
        double f = strtod(c, &end);
        int64_t i = strtoll(c, &whole, 10);
        if (v->type == LMI_ONNX_INT4)
            raw[n / 2] |= (unsigned char)((i & 15) << (n % 2 * 4));
        else
            onnx_put_number(raw + n * (lmi_onnx_bits(v->type) / 8), v->type, f, i);
        c = *end == ',' ? end + 1 : end;
    }
    v->bytes = (uint64_t)((n * lmi_onnx_bits(v->type) + 7) / 8);
    v->memory = lmi_copy(&t->m.arena, raw, v->bytes ? v->bytes : 1, 1);
    return at;
}

static int onnx_graph_named(onnx_text *t, const char *name) {
    for (int i = 0; i < t->n_graphs; i++)
        if (strcmp(t->graphs[i]->name, name) == 0) return i;
    fail_msg("no graph '%s'", name);
    return 0;
}

static void onnx_attribute(onnx_text *t, char *text, lmi_onnx_attribute *a) {
    char *value = strchr(text, '=');
    assert_non_null(value);
    *value++ = 0;
    *a = (lmi_onnx_attribute){.name = lmi_strdup(&t->m.arena, text), .tensor = -1};
    if (*value == '"') {
        a->type = 3;
        value[strlen(value) - 1] = 0;
        a->s = lmi_strdup(&t->m.arena, value + 1);
    } else if (*value == '@') {
        a->type = 4;
        a->tensor = onnx_named(t, value + 1);
    } else if (*value == '&') {
        a->type = 5;
        a->graph = t->graphs[onnx_graph_named(t, value + 1)];
    } else if (strchr(value, '[')) {
        bool real = *value == 'f', words = *value == 's';
        int64_t *ints = lmi_alloc(&t->m.arena, ONNX_MOST, sizeof *ints);
        float *floats = lmi_alloc(&t->m.arena, ONNX_MOST, sizeof *floats);
        const char **texts = lmi_alloc(&t->m.arena, ONNX_MOST, sizeof *texts);
        for (char *c = strchr(value, '[') + 1; *c && *c != ']'; a->n++) {
            char *end;
            texts[a->n] = "word";
            floats[a->n] = strtof(c, &end);
            ints[a->n] = strtoll(c, NULL, 10);
            c = *end == ',' ? end + 1 : words ? c + strcspn(c, ",]") + (c[strcspn(c, ",]")] == ',') : end;
        }
        a->type = real ? 6 : words ? 8 : 7;
        if (real)
            a->floats = floats;
        else if (words)
            a->strings = texts;
        else
            a->ints = ints;
    } else {
        a->type = 2;
        a->i = strtoll(value, NULL, 10);
    }
}

static int32_t onnx_list(onnx_text *t, char *text, int32_t *out, int32_t producer) {
    int32_t n = 0;
    for (char *c = text; c && *c;) {
        char *comma = strchr(c, ',');
        if (comma) *comma = 0;
        out[n] = strcmp(c, "_") == 0 ? -1 : onnx_named(t, c);
        if (producer >= 0 && out[n] >= 0) {
            lmi_onnx_value *v = lmi_onnx_value_at(&t->m, out[n]);
            v->producer = producer;
            v->graph = t->graphs[t->at];
        }
        n++;
        c = comma ? comma + 1 : NULL;
    }
    return n;
}

static void onnx_node(onnx_text *t, char *line) {
    lmi_onnx_attribute *attrs = lmi_alloc(&t->m.arena, 16, sizeof *attrs);
    int32_t *in = lmi_alloc(&t->m.arena, ONNX_MOST, sizeof *in),
            *out = lmi_alloc(&t->m.arena, ONNX_MOST, sizeof *out);
    lmi_onnx_graph *g = t->graphs[t->at];
    char *words[24], *save = NULL;
    int n = 0;
    for (char *w = strtok_r(line, " ", &save); w && n < 24; w = strtok_r(NULL, " ", &save)) words[n++] = w;
    assert_true(n >= 3 && strcmp(words[2], "<-") == 0);
    char *dot = strrchr(words[0], ':');
    lmi_onnx_node node = {
        .name = "", .domain = "", .op = "", .opset = 21, .attrs = attrs, .in = in, .out = out, .graph = g};
    if (dot) *dot = 0;
    node.op = lmi_strdup(&t->m.arena, dot ? dot + 1 : words[0]);
    if (dot && words[0][0] >= '0' && words[0][0] <= '9')
        node.opset = atoi(words[0]);
    else if (dot)
        node.domain = strcmp(words[0], "nc") == 0   ? "com.microsoft.nchwc"
                      : strcmp(words[0], "ms") == 0 ? "com.microsoft"
                                                    : "ai.onnx.ml";
    node.n_out = onnx_list(t, words[1], out, (int32_t)t->m.nodes.n);
    int first = n > 3 && strchr(words[3], '=') ? 3 : 4;
    if (first == 4 && n > 3) node.n_in = onnx_list(t, words[3], in, -1);
    for (int i = first; i < n; i++) onnx_attribute(t, words[i], &attrs[node.n_attrs++]);
    ((int32_t *)g->nodes)[g->n_nodes++] = (int32_t)t->m.nodes.n;
    lmi_onnx_node *to = lmi_vec_push(&t->m.nodes);
    assert_non_null(to);
    *to = node;
}

static void onnx_input(onnx_text *t, char *line) {
    lmi_onnx_graph *g = t->graphs[t->at];
    char *name = strtok(line, " "), *type = strtok(NULL, " "), *sizes = strtok(NULL, " ");
    int32_t at = onnx_named(t, name);
    lmi_onnx_value *v = lmi_onnx_value_at(&t->m, at);
    v->type = onnx_type_of(*type);
    v->input = true;
    if (sizes) onnx_sizes(t, sizes, v);
    ((int32_t *)g->inputs)[g->n_inputs++] = at;
}

static lmi_onnx_graph *onnx_new_graph(onnx_text *t, const char *name) {
    lmi_onnx_graph *g = lmi_alloc(&t->m.arena, 1, sizeof *g);
    assert_non_null(g);
    g->name = lmi_strdup(&t->m.arena, name);
    g->parent = t->n_graphs ? t->graphs[0] : NULL;
    g->depth = t->n_graphs ? 1 : 0;
    g->nodes = lmi_alloc(&t->m.arena, ONNX_MOST, sizeof *g->nodes);
    g->inputs = lmi_alloc(&t->m.arena, ONNX_MOST, sizeof *g->inputs);
    g->outputs = lmi_alloc(&t->m.arena, ONNX_MOST, sizeof *g->outputs);
    return t->graphs[t->n_graphs++] = g;
}

/* "NAME in f 2, in l; out,out": a graph, its inputs and its results. */
static void onnx_begin_graph(onnx_text *t, char *line) {
    char *results = strchr(line, ';'), *inputs = strchr(line, ' ');
    assert_true(results && inputs);
    *results++ = 0;
    *inputs++ = 0;
    while (*results == ' ') results++;
    lmi_onnx_graph *g = onnx_new_graph(t, line);
    t->at = t->n_graphs - 1;
    for (char *c = inputs; c && *c;) {
        char *next = strchr(c, '|');
        if (next) *next++ = 0;
        if (strchr(c, ' ')) onnx_input(t, c);
        c = next;
    }
    g->n_outputs = onnx_list(t, results, (int32_t *)g->outputs, -1);
}

/* The graph of a text; onnx_forget frees it. */
static void onnx_graph_of(onnx_text *t, const char *text) {
    *t = (onnx_text){0};
    lmi_arena_init(&t->m.arena, UINT64_MAX);
    lmi_vec_init(&t->m.values, sizeof(lmi_onnx_value));
    lmi_vec_init(&t->m.nodes, sizeof(lmi_onnx_node));
    lmi_vec_init(&t->m.symbols, sizeof(lmi_onnx_symbol));
    t->m.graph = onnx_new_graph(t, "");
    while (*text) {
        size_t n = strcspn(text, "\n");
        char line[1024];
        assert_true(n < sizeof line);
        memcpy(line, text, n);
        line[n] = 0;
        text += n + (text[n] == '\n');
        if (!*line) continue;
        if (strncmp(line, "in ", 3) == 0)
            onnx_input(t, line + 3);
        else if (strncmp(line, "const ", 6) == 0)
            onnx_constant(t, line + 6);
        else if (strncmp(line, "graph ", 6) == 0)
            onnx_begin_graph(t, line + 6);
        else if (strcmp(line, "end") == 0)
            t->at = 0;
        else
            onnx_node(t, line);
    }
}

OOM_UNUSED static void onnx_forget(onnx_text *t) {
    lmi_vec_free(&t->m.values);
    lmi_vec_free(&t->m.nodes);
    lmi_vec_free(&t->m.symbols);
    lmi_arena_free(&t->m.arena);
}

static void onnx_put_elements(lmi_buf *b, const lmi_onnx_value *v) {
    const unsigned char *at = v->memory;
    int32_t bits = lmi_onnx_bits(v->type);
    int64_t n = 1;
    for (int32_t i = 0; i < v->ndim; i++) n *= v->sizes[i];
    lmi_put(b, " =");
    for (uint64_t i = 0; i < (uint64_t)n; i++) {
        lmi_put(b, i ? "," : " ");
        if (bits < 8) {
            lmi_putf(b, "%d", ((at[i / 2] >> (i % 2 * 4)) & 15) - (at[i / 2] >> (i % 2 * 4) & 8 ? 16 : 0));
            continue;
        }
        const unsigned char *e = at + i * (uint64_t)bits / 8;
        float f;
        double d;
        int64_t whole = bits == 8    ? (v->type == LMI_ONNX_INT8 ? (int8_t)*e : *e)
                        : bits == 16 ? lmi_le16(e)
                        : bits == 32 ? (int32_t)lmi_le32(e)
                                     : (int64_t)lmi_le64(e);
        memcpy(&f, e, bits >= 32 ? 4 : 1);
        memcpy(&d, e, bits == 64 ? 8 : 1);
        if (v->type == LMI_ONNX_FLOAT)
            lmi_putf(b, "%g", (double)f);
        else if (v->type == LMI_ONNX_DOUBLE)
            lmi_putf(b, "%g", d);
        else if (bits == 16)
            lmi_putf(b, "0x%04x", lmi_le16(e));
        else
            lmi_putf(b, "%lld", (long long)whole);
    }
}

/* "f 1,3 = 1,2,3": a value; "f *" if its sizes are unknown; "[]" behind the type of a sequence. */
OOM_UNUSED static void onnx_put_value(lmi_buf *b, const lmi_onnx_value *v) {
    lmi_putc(b, onnx_letter_of(v->type));
    lmi_put(b, v->kind == LMI_ONNX_SEQUENCE   ? "[] "
               : v->kind == LMI_ONNX_OPTIONAL ? "? "
               : v->kind                      ? "# "
                                              : " ");
    for (int32_t i = 0; i < v->ndim; i++) {
        if (i) lmi_putc(b, ',');
        if (v->sizes[i] < 0)
            lmi_putc(b, '?');
        else
            lmi_putf(b, "%lld", (long long)v->sizes[i]);
    }
    if (v->ndim <= 0) lmi_putc(b, v->ndim < 0 ? '*' : '-');
    if (v->where == LMI_ONNX_MEMORY && v->producer >= 0) onnx_put_elements(b, v);
}

#endif
