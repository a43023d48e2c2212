/* SPDX-License-Identifier: Apache-2.0
 *
 * Programs of torch.export, from a few lines of text.
 *
 *   linear x w b -> y @fc,fc,torch.nn.modules.linear.Linear
 *       a node: operator, arguments, results, and the modules inside the root ("@!": in place of it). An
 *       operator with a dot in its name is "namespace.name". x is a tensor, [x,w] are tensors, {1,2} and
 *       <0.5,2> numbers, 'add' a text, none None, {"as_int":1} what it says; "dim=1" has a name.
 *   x 2,s0=3 y ;5 z 13;2/1
 *       tensors: sizes ("-": none; "s0=3": an expression and its hint), behind the number of the type and ";"
 *       (none: float32, nothing but ";": int64), before "/" and the strides, or "@" and the device.
 *   parameter:w=fc.weight user_input:x
 *       what goes in, or comes out: its kind, its name in the graph, and that in the model.
 */
#ifndef LAMINA_TEST_PROGRAM_H
#define LAMINA_TEST_PROGRAM_H

#include "kit/archive.h"

typedef struct program {
    const char *nodes, *tensors, *in, *out; /* NULL: "user_input:x", "user_output:y" */
    const char *more;                       /* of the graph, in JSON: ",\"sym_int_values\":{}" */
    const char *rest;                       /* beside the graph, in JSON */
    const char *modules;                    /* the names of calls, by spaces */
    int schema;                             /* 0: 8 */
} program;

/* A list in brackets whose entries have `before` and `after` around them. */
static void put_list(lmi_buf *b, const char *kind, const char *entries, const char *before,
                     const char *after) {
    const char *at = entries;
    lmi_putf(b, "{\"%s\":[", kind);
    while (*at && !strchr("]}>", *at)) {
        const size_t n = strcspn(at, ",]}>");
        lmi_put(b, before);
        lmi_putn(b, at, n);
        lmi_put(b, after);
        at += n;
        if (*at == ',') lmi_putc(b, *at++);
    }
    lmi_put(b, "]}");
}

static void put_argument(lmi_buf *b, const char *word) {
    if (strncmp(word, "{\"", 2) == 0)
        lmi_put(b, word);
    else if (*word == '[')
        put_list(b, "as_tensors", word + 1, "{\"name\":\"", "\"}");
    else if (*word == '{')
        put_list(b, "as_ints", word + 1, "", "");
    else if (*word == '<')
        put_list(b, "as_floats", word + 1, "", "");
    else if (*word == '\'')
        lmi_putf(b, "{\"as_string\":\"%.*s\"}", (int)strlen(word) - 2, word + 1);
    else if (strcmp(word, "none") == 0)
        lmi_put(b, "{\"as_none\":true}");
    else if (strcmp(word, "true") == 0 || strcmp(word, "false") == 0)
        lmi_putf(b, "{\"as_bool\":%s}", word);
    else if (strchr("-0123456789", *word))
        lmi_putf(b, "{\"%s\":%s}", strchr(word, '.') ? "as_float" : "as_int", word);
    else
        lmi_putf(b, "{\"as_tensor\":{\"name\":\"%s\"}}", word);
}

/* An argument, which may have a name. */
static void put_input(lmi_buf *b, const char *word) {
    const size_t n = strspn(word, "abcdefghijklmnopqrstuvwxyz_");
    if (strncmp(word, "{\"name\"", 7) == 0) {
        lmi_put(b, word);
        return;
    }
    lmi_putc(b, '{');
    if (n && word[n] == '=') lmi_putf(b, "\"name\":\"%.*s\",", (int)n, word);
    lmi_put(b, "\"arg\":");
    put_argument(b, n && word[n] == '=' ? word + n + 1 : word);
    lmi_putc(b, '}');
}

static void put_node(lmi_buf *b, const char *words, size_t length) {
    char copy[1024], *save = NULL;
    bool results = false;
    snprintf(copy, sizeof copy, "%.*s", (int)length, words);
    char *stack = strchr(copy, '@');
    if (stack) *stack++ = '\0';
    const char *between = "", *op = strtok_r(copy, " ", &save);
    lmi_putf(b, "{\"target\":\"torch.ops.%s%s.default\",\"inputs\":[", strchr(op, '.') ? "" : "aten.", op);
    for (const char *word = strtok_r(NULL, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
        if (strcmp(word, "->") == 0) {
            lmi_put(b, "],\"outputs\":[");
            results = true;
            between = "";
            continue;
        }
        lmi_put(b, between);
        between = ",";
        if (results)
            put_argument(b, word);
        else
            put_input(b, word);
    }
    lmi_put(b, results ? "]" : "],\"outputs\":[]");
    lmi_put(b, ",\"metadata\":{\"nn_module_stack\":\"");
    if (stack && *stack == '!')
        lmi_putf(b, "%s\"}}", stack + 1);
    else
        lmi_putf(b, "L__self__,,net.Net%s%s\"}}", stack ? ";" : "", stack ? stack : "");
}

static void put_nodes(lmi_buf *b, const char *lines) {
    const char *between = "";
    for (const char *at = lines; *at;) {
        const size_t n = strcspn(at, "\n");
        lmi_put(b, between);
        put_node(b, at, n);
        at += n + (at[n] == '\n');
        between = ",";
    }
}

/* The sizes of a tensor, or its strides, up to what can't be one. */
static const char *put_sizes(lmi_buf *b, const char *at) {
    for (const char *comma = ""; *at && !strchr("-/@", *at); comma = ",") {
        const size_t n = strcspn(at, ",/@"), name = strcspn(at, "=");
        if (name < n)
            lmi_putf(b, "%s{\"as_expr\":{\"expr_str\":\"%.*s\",\"hint\":{\"as_int\":%.*s}}}", comma,
                     (int)name, at, (int)(n - name - 1), at + name + 1);
        else
            lmi_putf(b, "%s{\"as_int\":%.*s}", comma, (int)n, at);
        at += n + (at[n] == ',');
    }
    return at + (*at == '-');
}

static void put_tensors(lmi_buf *b, const char *words) {
    char name[96], told[256];
    const char *between = "";
    int used;
    while (sscanf(words, " %95s %255s%n", name, told, &used) == 2) {
        const char *at = strchr(told, ';');
        const int type = !at ? 7 : at == told ? 5 : atoi(told);
        words += used;
        lmi_putf(b, "%s\"%s\":{\"dtype\":%d,\"requires_grad\":false,\"sizes\":[", between, name, type);
        at = put_sizes(b, at ? at + 1 : told);
        lmi_putc(b, ']');
        if (*at == '/') {
            lmi_put(b, ",\"strides\":[");
            at = put_sizes(b, at + 1);
            lmi_putc(b, ']');
        }
        if (*at == '@') lmi_putf(b, ",\"device\":{\"type\":\"%s\"}", at + 1);
        lmi_putc(b, '}');
        between = ",";
    }
}

/* "parameter:w=fc.weight": {"parameter":{"arg":{"name":"w"},"parameter_name":"fc.weight"}}. */
static void put_specs(lmi_buf *b, const char *words) {
    char kind[32], name[96], *of;
    const char *between = "";
    int used;
    while (sscanf(words, " %31[^:]:%95s%n", kind, name, &used) == 2) {
        words += used;
        of = strchr(name, '=');
        if (of) *of++ = '\0';
        lmi_putf(b, strncmp(kind, "user", 4) == 0 ? "%s{\"%s\":{\"arg\":{\"as_tensor\":{\"name\":\"%s\"}}"
                                                  : "%s{\"%s\":{\"arg\":{\"name\":\"%s\"}",
                 between, kind, name);
        if (of) lmi_putf(b, ",\"%s_name\":\"%s\"", kind, of);
        lmi_put(b, "}}");
        between = ",";
    }
}

static void put_modules(lmi_buf *b, const char *names) {
    lmi_put(b, "{\"fqn\":\"\"}");
    while (*names) {
        const size_t n = strcspn(names, " ");
        lmi_putf(b, ",{\"fqn\":\"%.*s\"}", (int)n, names);
        names += n + (names[n] == ' ');
    }
}

/* The JSON of a program. */
OOM_UNUSED static lmi_buf program_made(const program *p) {
    const char *in = p->in ? p->in : "user_input:x", *out = p->out ? p->out : "user_output:y";
    lmi_buf b;
    lmi_buf_init(&b);
    lmi_put(&b, "{\"graph_module\":{\"graph\":{\"inputs\":[],\"outputs\":[],\"nodes\":[");
    put_nodes(&b, p->nodes);
    lmi_put(&b, "],\"tensor_values\":{");
    put_tensors(&b, p->tensors);
    lmi_putf(&b, "}%s},\"signature\":{\"input_specs\":[", p->more ? p->more : "");
    put_specs(&b, in);
    lmi_put(&b, "],\"output_specs\":[");
    put_specs(&b, out);
    lmi_put(&b, "]},\"module_call_graph\":[");
    put_modules(&b, p->modules ? p->modules : "");
    lmi_putf(&b, "]},\"schema_version\":{\"major\":%d,\"minor\":1}%s}", p->schema ? p->schema : 8,
             p->rest ? p->rest : "");
    return b;
}

OOM_UNUSED static void save_program(const char *file, const program *p) {
    lmi_buf b = program_made(p);
    save_archive(file, "m/models/model.json", lmi_buf_text(&b));
    lmi_buf_free(&b);
}

#endif
