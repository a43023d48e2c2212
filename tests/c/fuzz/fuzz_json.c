/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as JSON, under libFuzzer: a text is read whole or refused with a sentence, and what was read is
 * the same when it is written and read again. */
#include "base/json.h"

#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static const lmi_json_limits limits = {.depth = 200, .size = 1 << 24, .infinity = true};

static void put_text(lmi_buf *b, const char *s, uint32_t n) {
    lmi_putc(b, '"');
    for (uint32_t i = 0; i < n; i++)
        if ((unsigned char)s[i] < ' ' || s[i] == '"' || s[i] == '\\')
            lmi_putf(b, "\\u%04x", s[i]);
        else
            lmi_putc(b, s[i]);
    lmi_putc(b, '"');
}

static void put_value(lmi_buf *b, const lmi_json *j, uint32_t at) {
    static const char *const words[] = {"", "null", "false", "true"};
    const lmi_json_value *v = &j->v[at];
    bool first = true;
    if (v->next <= at || v->next > j->n) abort();
    switch (lmi_json_is(j, at)) {
    case LMI_JSON_NUMBER: lmi_putn(b, j->text + v->at, v->n); break;
    case LMI_JSON_TEXT: put_text(b, lmi_json_as_text(j, at), v->n); break;
    case LMI_JSON_LIST:
        lmi_putc(b, '[');
        LMI_JSON_EACH(j, at, i) {
            if (!first) lmi_putc(b, ',');
            first = false;
            put_value(b, j, i);
        }
        lmi_putc(b, ']');
        break;
    case LMI_JSON_OBJECT:
        lmi_putc(b, '{');
        LMI_JSON_NAMES(j, at, i) {
            if (!first) lmi_putc(b, ',');
            first = false;
            put_value(b, j, i);
            lmi_putc(b, ':');
            put_value(b, j, i + 1);
        }
        lmi_putc(b, '}');
        break;
    default: lmi_put(b, words[v->kind]);
    }
}

static void same(const lmi_json *a, const lmi_json *b) {
    if (a->n != b->n) abort();
    for (uint32_t i = 1; i < a->n; i++) {
        const lmi_json_value *u = &a->v[i], *v = &b->v[i];
        if (u->kind != v->kind || u->n != v->n || u->next != v->next) abort();
        bool text = u->kind == LMI_JSON_TEXT || u->kind == LMI_JSON_NUMBER;
        if (text && memcmp(a->text + u->at, b->text + v->at, u->n) != 0) abort();
        double real;
        if (u->kind == LMI_JSON_NUMBER && u->n < 200 && !lmi_json_as_real(a, i, &real)) abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    char *text = malloc(n + 1);
    if (!text) abort();
    memcpy(text, data, n);
    lmi_json j, again;
    lam_error e = {0};
    lam_status s = lmi_json_read(&j, text, n, &limits, "it", &e);
    if (s == LAM_OK) {
        lmi_buf b;
        lmi_buf_init(&b);
        put_value(&b, &j, LMI_JSON_ROOT);
        lmi_putc(&b, ' '); /* room for the NUL */
        if (lmi_json_read(&again, b.s, b.n - 1, &limits, "it", &e) != LAM_OK) abort();
        same(&j, &again);
        lmi_json_free(&again);
        lmi_buf_free(&b);
        lmi_json_free(&j);
    } else if (!e.text[0]) {
        abort();
    }
    free(text);
    return 0;
}
