/* SPDX-License-Identifier: Apache-2.0
 *
 * ONNX files, made field by field. */
#ifndef LAMINA_TEST_ONNX_H
#define LAMINA_TEST_ONNX_H

#include "kit/weights.h"

/* -- messages of protocol buffers --------------------------------------------------------------------------
 */

OOM_UNUSED static void put_varint(lmi_buf *b, uint64_t n) {
    for (; n > 127; n >>= 7) lmi_putc(b, (char)((n & 127) | 128));
    lmi_putc(b, (char)n);
}

OOM_UNUSED static void put_number(lmi_buf *b, uint64_t field, uint64_t n) {
    put_varint(b, field << 3);
    put_varint(b, n);
}

OOM_UNUSED static void put_bytes(lmi_buf *b, uint64_t field, const char *bytes, size_t n) {
    put_varint(b, field << 3 | 2);
    put_varint(b, n);
    lmi_putn(b, bytes, n);
}

OOM_UNUSED static void put_word(lmi_buf *b, uint64_t field, const char *word) {
    put_bytes(b, field, word, strlen(word));
}

/* Puts a message, and frees it. */
OOM_UNUSED static void put_message(lmi_buf *b, uint64_t field, lmi_buf *inner) {
    put_bytes(b, field, lmi_buf_text(inner), inner->n);
    lmi_buf_free(inner);
}

/* A node of words: "Conv in1,in2 out name"; of com.microsoft "ms.MoE in1,in2 out name", of its nchwc
 * "nc.Conv in1,in2 out name". */
OOM_UNUSED static lmi_buf node_of(const char *words) {
    char op[64], in[128], out[64], name[64];
    lmi_buf b;
    lmi_buf_init(&b);
    assert_int_equal(sscanf(words, "%63s %127s %63s %63s", op, in, out, name), 4);
    const bool nc = strncmp(op, "nc.", 3) == 0, ms = nc || strncmp(op, "ms.", 3) == 0;
    for (char *p = strtok(in, ","); p; p = strtok(NULL, ",")) put_word(&b, 1, strcmp(p, "-") ? p : "");
    for (char *p = strtok(out, ","); p; p = strtok(NULL, ",")) put_word(&b, 2, p);
    put_word(&b, 3, strcmp(name, "-") ? name : "");
    put_word(&b, 4, ms ? op + 3 : op);
    if (ms) put_word(&b, 7, nc ? "com.microsoft.nchwc" : "com.microsoft");
    return b;
}

OOM_UNUSED static void put_node(lmi_buf *graph, const char *words) {
    lmi_buf n = node_of(words);
    put_message(graph, 1, &n);
}

/* An initialiser, or with another field a tensor: "name type 2,3 bytes". */
OOM_UNUSED static void put_tensor(lmi_buf *to, uint64_t field, const char *words) {
    char name[64], shape[64];
    size_t bytes;
    int type;
    lmi_buf b, data;
    lmi_buf_init(&b);
    lmi_buf_init(&data);
    assert_int_equal(sscanf(words, "%63s %d %63s %zu", name, &type, shape, &bytes), 4);
    for (char *p = strtok(shape, ","); p; p = strtok(NULL, ","))
        if (strcmp(p, "-") != 0) put_number(&b, 1, (uint64_t)strtoll(p, NULL, 10));
    put_number(&b, 2, (uint64_t)type);
    put_word(&b, 8, name);
    lmi_pad(&data, '\0', bytes);
    put_message(&b, 9, &data);
    put_message(to, field, &b);
}

/* An input (field 11), output (12) or stated value (13) of an element type: "name 2,3", or "name ." without
 * axes. */
OOM_UNUSED static void put_typed(lmi_buf *graph, uint64_t field, const char *words, uint64_t element) {
    char name[64], shape[64];
    lmi_buf b, type, tensor, sizes, axis;
    lmi_buf_init(&b);
    lmi_buf_init(&type);
    lmi_buf_init(&tensor);
    lmi_buf_init(&sizes);
    assert_int_equal(sscanf(words, "%63s %63s", name, shape), 2);
    for (char *p = strtok(shape, ",."); p; p = strtok(NULL, ",")) {
        lmi_buf_init(&axis);
        if (*p >= '0' && *p <= '9')
            put_number(&axis, 1, (uint64_t)strtoll(p, NULL, 10));
        else
            put_word(&axis, 2, p);
        put_message(&sizes, 1, &axis);
    }
    put_number(&tensor, 1, element);
    put_message(&tensor, 2, &sizes);
    put_message(&type, 1, &tensor);
    put_word(&b, 1, name);
    put_message(&b, 2, &type);
    put_message(graph, field, &b);
}

/* The same, of float. */
OOM_UNUSED static void put_stated(lmi_buf *graph, uint64_t field, const char *words) {
    put_typed(graph, field, words, 1);
}

/* A constant of INT64 (type 7) or INT32 (6) with one axis: "1,2,3"; without axes: "=1". */
OOM_UNUSED static void put_whole(lmi_buf *graph, const char *name, const char *numbers, int type) {
    lmi_buf t, data;
    uint64_t n = 0;
    const bool scalar = *numbers == '=';
    lmi_buf_init(&t);
    lmi_buf_init(&data);
    for (const char *at = numbers + scalar; *at; n++) {
        char *end;
        put_le(&data, (uint64_t)strtoll(at, &end, 10), type == 7 ? 8 : 4);
        at = end + (*end == ',');
    }
    if (!scalar) put_number(&t, 1, n);
    put_number(&t, 2, (uint64_t)type);
    put_word(&t, 8, name);
    put_message(&t, 9, &data);
    put_message(graph, 5, &t);
}

OOM_UNUSED static void put_constant(lmi_buf *graph, const char *name, const char *numbers) {
    put_whole(graph, name, numbers, 7);
}

OOM_UNUSED static lmi_buf model_at(lmi_buf *graph, uint64_t version) {
    lmi_buf b, opset;
    lmi_buf_init(&b);
    lmi_buf_init(&opset);
    put_number(&b, 1, 8);
    put_number(&opset, 2, version);
    put_message(&b, 8, &opset);
    put_message(&b, 7, graph);
    return b;
}

OOM_UNUSED static lmi_buf model_of(lmi_buf *graph) { return model_at(graph, 17); }

OOM_UNUSED static lmi_buf begun(void) {
    lmi_buf b;
    lmi_buf_init(&b);
    return b;
}

/* A node that runs a graph of one operator of a module of its own. */
OOM_UNUSED static void put_running(lmi_buf *graph, const char *words, const char *attribute,
                                   const char *body_words, const char *result) {
    lmi_buf n = node_of(words), body = begun(), a = begun();
    put_node(&body, body_words);
    put_stated(&body, 12, result);
    if (attribute) {
        put_word(&a, 1, attribute);
        put_message(&a, 6, &body);
        put_message(&n, 5, &a);
    } else {
        lmi_buf_free(&body);
    }
    put_message(graph, 1, &n);
}

/* Saves the model of a graph, which is freed. */
OOM_UNUSED static void save_graph(const char *file, lmi_buf *graph) {
    lmi_buf b = model_of(graph);
    save_bytes(file, &b);
    lmi_buf_free(&b);
}

OOM_UNUSED static lam_count macs_of(const char *file) {
    lam_model *m = opened(file);
    lam_costs *c = costs_of(m);
    const lam_count n = lam_costs_total(c, LAM_MACS);
    lam_costs_free(c);
    lam_model_free(m);
    return n;
}

OOM_UNUSED static void refused_graph(lmi_buf *graph, lam_status how, const char *part) {
    save_graph("bad.onnx", graph);
    refused("bad.onnx", how, part);
}

#endif
