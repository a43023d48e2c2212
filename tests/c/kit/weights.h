/* SPDX-License-Identifier: Apache-2.0
 *
 * Files of weights, made byte by byte: safetensors and GGUF, in memory and as files. */
#ifndef LAMINA_TEST_WEIGHTS_H
#define LAMINA_TEST_WEIGHTS_H

#include "kit/oom.h"

#include "base/base.h"

#include <stdio.h>
#include <string.h>

/* The n lowest bytes of a number, the lowest first. */
OOM_UNUSED static void put_le(lmi_buf *b, uint64_t v, int n) {
    for (int i = 0; i < n; i++) lmi_putc(b, (char)(i < 8 ? v >> 8 * i : 0));
}

OOM_UNUSED static void save_bytes(const char *file, const lmi_buf *b) {
    FILE *f = fopen(file, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(lmi_buf_text(b), 1, b->n, f), b->n);
    assert_int_equal(fclose(f), 0);
}

OOM_UNUSED static void save_words(const char *file, const char *text) {
    lmi_buf b;
    lmi_buf_init(&b);
    lmi_put(&b, text);
    save_bytes(file, &b);
    lmi_buf_free(&b);
}

/* A safetensors file of a header and so many bytes of data. */
OOM_UNUSED static lmi_buf safetensors_of(const char *header, size_t data) {
    lmi_buf b;
    lmi_buf_init(&b);
    put_le(&b, strlen(header), 8);
    lmi_put(&b, header);
    lmi_pad(&b, '\0', data);
    return b;
}

/* Tensors of a safetensors file, one after another: "name dtype 2,3 bytes; ...". */
OOM_UNUSED static lmi_buf safetensors_made(const char *list) {
    lmi_buf header;
    char name[128], dtype[32], shape[64];
    int used;
    size_t at = 0, bytes;
    lmi_buf_init(&header);
    lmi_putc(&header, '{');
    while (sscanf(list, " %127s %31s %63s %zu%n", name, dtype, shape, &bytes, &used) == 4) {
        lmi_putf(&header, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[%s],\"data_offsets\":[%zu,%zu]}",
                 at ? "," : "", name, dtype, strcmp(shape, "-") ? shape : "", at, at + bytes);
        at += bytes;
        list += used;
        list += strspn(list, "; ");
    }
    lmi_putc(&header, '}');
    lmi_buf b = safetensors_of(header.s, at);
    lmi_buf_free(&header);
    return b;
}

OOM_UNUSED static void save_safetensors(const char *file, const char *list) {
    lmi_buf b = safetensors_made(list);
    save_bytes(file, &b);
    lmi_buf_free(&b);
}

/* -- GGUF ------------------------------------------------------------------------------------------------ */

OOM_UNUSED static void put_gguf_text(lmi_buf *b, const char *s) {
    put_le(b, strlen(s), 8);
    lmi_put(b, s);
}

OOM_UNUSED static void gguf_begin(lmi_buf *b, int version, uint64_t tensors, uint64_t keys) {
    lmi_buf_init(b);
    lmi_put(b, "GGUF");
    put_le(b, (uint64_t)version, 4);
    put_le(b, tensors, 8);
    put_le(b, keys, 8);
}

OOM_UNUSED static void gguf_text(lmi_buf *b, const char *key, const char *value) {
    put_gguf_text(b, key);
    put_le(b, 8, 4);
    put_gguf_text(b, value);
}

/* A key with a number of a type whose value takes `bytes`. */
OOM_UNUSED static void gguf_number(lmi_buf *b, const char *key, int type, uint64_t value, int bytes) {
    put_gguf_text(b, key);
    put_le(b, (uint64_t)type, 4);
    put_le(b, value, bytes);
}

/* A tensor of two axes, as the file has them: the last one first. */
OOM_UNUSED static void gguf_tensor(lmi_buf *b, const char *name, uint64_t last, uint64_t first, int type,
                                   uint64_t offset) {
    put_gguf_text(b, name);
    put_le(b, first ? 2 : 1, 4);
    put_le(b, last, 8);
    if (first) put_le(b, first, 8);
    put_le(b, (uint64_t)type, 4);
    put_le(b, offset, 8);
}

/* The data of so many bytes, behind what fills up to its alignment. */
OOM_UNUSED static void gguf_data(lmi_buf *b, size_t alignment, size_t bytes) {
    lmi_pad(b, '\0', (alignment - b->n % alignment) % alignment + bytes);
}

/* A small model of two blocks: q4_K, q6_K and float32. */
OOM_UNUSED static lmi_buf gguf_made(int version) {
    lmi_buf b;
    gguf_begin(&b, version, 4, 5);
    gguf_text(&b, "general.architecture", "llama");
    gguf_text(&b, "general.name", "Tiny");
    gguf_number(&b, "llama.block_count", 4, 2, 4);
    gguf_number(&b, "llama.rope.freq_base", 6, 0x461c4000, 4); /* 10000.0 */
    put_gguf_text(&b, "tokenizer.ggml.tokens");
    put_le(&b, 9, 4);
    put_le(&b, 8, 4);
    put_le(&b, 2, 8);
    put_gguf_text(&b, "<s>");
    put_gguf_text(&b, "</s>");
    gguf_tensor(&b, "token_embd.weight", 256, 4, 14, 0);      /* 840 bytes */
    gguf_tensor(&b, "blk.0.attn_q.weight", 256, 8, 12, 864);  /* 1152 */
    gguf_tensor(&b, "blk.1.attn_q.weight", 256, 8, 12, 2016); /* 1152 */
    gguf_tensor(&b, "blk.1.attn_norm.weight", 256, 0, 0, 3168);
    gguf_data(&b, 32, 3168 + 1024);
    return b;
}

/* -- reading them ---------------------------------------------------------------------------------------- */

static lam_error last;

OOM_UNUSED static lam_model *opened(const char *path) {
    lam_model *m = NULL;
    last = (lam_error){.at = -1};
    if (lam_read(&m, path, NULL, &last) != LAM_OK) fail_msg("%s: %s", last.where, last.text);
    return m;
}

/* The file is refused by a sentence that has `part` in it. */
OOM_UNUSED static void refused(const char *path, lam_status how, const char *part) {
    lam_model *m = NULL;
    last = (lam_error){.at = -1};
    lam_status s = lam_read(&m, path, NULL, &last);
    assert_null(m);
    if (s != how || last.status != how) fail_msg("%s: status %d, %s", path, (int)s, last.text);
    if (!strstr(last.text, part)) fail_msg("%s: '%s' lacks '%s'", path, last.text, part);
}

/* Reads the file of a path, for sweeps of what may fail. */
OOM_UNUSED static void read_once(void *path, bool *ok) {
    lam_model *m = NULL;
    lam_error e = {.at = -1};
    *ok = oom_check(lam_read(&m, path, NULL, &e), &e);
    lam_model_free(m);
}

/* The same with the health of its weights. */
OOM_UNUSED static void check_once(void *path, bool *ok) {
    static const lam_read_options o = {.health = true};
    lam_model *m = NULL;
    lam_error e = {.at = -1};
    *ok = oom_check(lam_read(&m, path, &o, &e), &e);
    lam_model_free(m);
}

OOM_UNUSED static lam_costs *costs_of(const lam_model *m) {
    lam_costs *c = NULL;
    assert_int_equal(lam_costs_new(&c, m, NULL, &last), LAM_OK);
    return c;
}

OOM_UNUSED static const lam_cost_row *row_of(lam_costs *c, const char *path) {
    const lam_model *m = lam_costs_model(c);
    for (int32_t i = 0; i < lam_costs_n_rows(c); i++)
        if (strcmp(lam_model_place(m, lam_costs_row(c, i)->place)->path, path) == 0)
            return lam_costs_row(c, i);
    fail_msg("no row of '%s'", path);
    return NULL;
}

OOM_UNUSED static void is_exactly(lam_count n, int64_t value) {
    assert_int_equal(n.state, LAM_EXACT);
    assert_int_equal(n.n, value);
}

#endif
