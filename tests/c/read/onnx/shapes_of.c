/* SPDX-License-Identifier: Apache-2.0
 *
 * What is inferred of ONNX files, for tools/onnx-cases. Standard input has a line a file: its path, a tab,
 * and the path of a text with a line an input: name, element type as a number, sizes with commas ("-": none)
 * and elements as hexadecimal bytes ("-": unknown), separated by tabs. Printed are "# PATH", then a line a
 * value of the model's graph: name, kind, type, "?" or sizes with commas, operator; or "! " and why a file is
 * refused. */
#include "kit/oom.h"

#include "read/onnx/reader.h"

#include <stdio.h>
#include <string.h>

enum { LINE = 1 << 20, MOST_INPUTS = 256 };

static char line[LINE];

static int digit(char c) { return c <= '9' ? c - '0' : c - 'a' + 10; }

static void read_sizes(const char *text, lmi_onnx_given_input *in, lmi_arena *a) {
    int64_t *sizes = lmi_alloc(a, LMI_ONNX_MOST_AXES, sizeof *sizes);
    for (char *c = (char *)text; *c && *c != '-' && in->ndim < LMI_ONNX_MOST_AXES; c += *c == ',')
        sizes[in->ndim++] = strtoll(c, &c, 10);
    in->sizes = sizes;
}

static void read_elements(const char *hex, lmi_onnx_given_input *in, lmi_arena *a) {
    if (*hex == '-') return;
    in->bytes = strlen(hex) / 2;
    unsigned char *raw = lmi_alloc(a, in->bytes, 1);
    for (uint64_t i = 0; i < in->bytes; i++)
        raw[i] = (unsigned char)(digit(hex[2 * i]) << 4 | digit(hex[2 * i + 1]));
    in->memory = raw;
}

static int32_t read_inputs(const char *file, lmi_onnx_given_input *in, lmi_arena *a) {
    int32_t n = 0;
    FILE *f = fopen(file, "r");
    while (f && n < MOST_INPUTS && fgets(line, LINE, f)) {
        char *name = strtok(line, "\t"), *type = strtok(NULL, "\t"), *sizes = strtok(NULL, "\t"),
             *elements = strtok(NULL, "\t\n");
        if (!elements) break;
        in[n] = (lmi_onnx_given_input){.name = lmi_strdup(a, name), .type = atoi(type)};
        read_sizes(sizes, &in[n], a);
        read_elements(elements, &in[n++], a);
    }
    if (f) fclose(f);
    return n;
}

static void print_values(const lmi_onnx_model *m) {
    for (size_t i = 0; i < m->values.n; i++) {
        const lmi_onnx_value *v = lmi_vec_at(&m->values, i);
        const lmi_onnx_node *n = lmi_onnx_node_at(m, v->producer);
        if (v->graph != m->graph) continue;
        printf("%s\t%d\t%d\t", v->name, (int)v->kind, (int)v->type);
        if (v->ndim < 0) printf("?");
        for (int32_t d = 0; d < v->ndim; d++) printf("%s%lld", d ? "," : "", (long long)v->sizes[d]);
        printf("\t%s\n", n ? n->op : "-");
    }
}

static void shapes_of(const char *file, const char *inputs) {
    lmi_onnx_given_input in[MOST_INPUTS];
    lmi_onnx_model m = {0};
    lmi_bytes bytes;
    lmi_arena a;
    lam_error e = {0};
    lmi_arena_init(&a, UINT64_MAX);
    printf("# %s\n", file);
    lmi_onnx_given given = {.n_inputs = read_inputs(inputs, in, &a), .inputs = in};
    lam_status s = lmi_bytes_open(&bytes, file, &e);
    bool open = s == LAM_OK;
    if (open) {
        s = lmi_onnx_parse(&m, &bytes, &e);
        if (s == LAM_OK) s = lmi_onnx_infer(&m, &given, &e);
        if (s == LAM_OK) print_values(&m);
        lmi_onnx_free(&m);
        lmi_bytes_close(&bytes);
    }
    if (s != LAM_OK) printf("! %s\n", e.text);
    lmi_arena_free(&a);
}

int main(void) {
    static char pair[LINE];
    while (fgets(pair, LINE, stdin)) {
        char *save = NULL, *file = strtok_r(pair, "\t\n", &save), *inputs = strtok_r(NULL, "\t\n", &save);
        if (file && inputs) shapes_of(file, inputs);
    }
    return 0;
}
