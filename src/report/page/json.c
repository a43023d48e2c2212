/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts of the block of data: JSON that may stand inside a <script> element, and texts once. */
#include "report/page/data.h"
#include "report/table/quick.h"

/* -- JSON ------------------------------------------------------------------------------------------------ */

/* As any JSON, and nothing that HTML or JavaScript would read otherwise. */
void lmi_data_text(lmi_buf *b, const char *s) {
    uint32_t code;
    if (!s) {
        PUT(b, "null");
        return;
    }
    PUT(b, "\"");
    for (size_t n; (n = lmi_utf8(s, &code)) != 0; s += n) {
        if (code == LMI_BAD_UTF8)
            PUT(b, "\\ufffd");
        else if (code < 0x20 || code == 0x7f || code == '<' || code == 0x2028 || code == 0x2029)
            lmi_putf(b, "\\u%04x", (unsigned)code);
        else if (code == '"' || code == '\\')
            lmi_putf(b, "\\%c", (char)code);
        else
            quick_put(b, s, n);
    }
    PUT(b, "\"");
}

/* `"name":`, after a comma unless an object or a list begins there. */
void lmi_data_next(lmi_buf *b) {
    char last = b->n ? b->s[b->n - 1] : '{';
    if (last != '{' && last != '[' && last != ':') PUT(b, ",");
}
void lmi_data_key(lmi_buf *b, const char *name) {
    lmi_data_next(b);
    PUT(b, "\"");
    lmi_put(b, name);
    PUT(b, "\":");
}
void lmi_data_int(lmi_buf *b, int64_t v) {
    lmi_data_next(b);
    quick_int(b, v);
}
void lmi_data_index(lmi_buf *b, int32_t i) { /* a key of an object that has few of them */
    lmi_data_next(b);
    lmi_putf(b, "\"%d\":", (int)i);
}
void lmi_data_text_field(lmi_buf *b, const char *name, const char *text) {
    lmi_data_key(b, name);
    lmi_data_text(b, text);
}
void lmi_data_int_field(lmi_buf *b, const char *name, int64_t v) {
    lmi_data_key(b, name);
    quick_int(b, v);
}
void lmi_data_truth_field(lmi_buf *b, const char *name, bool v) {
    lmi_data_key(b, name);
    lmi_put(b, v ? "true" : "false");
}

void lmi_data_ints(lmi_buf *b, const char *name, const int32_t *v, int32_t n) {
    lmi_data_key(b, name);
    PUT(b, "[");
    for (int32_t i = 0; i < n; i++) lmi_data_int(b, v[i]);
    PUT(b, "]");
}

/* The number of a text in the list of all. */
int64_t lmi_data_text_at(lmi_block *k, const char *text) {
    int64_t at = lmi_map_get(&k->index, text ? text : "");
    if (at >= 0) return at;
    const char **more = lmi_vec_add(&k->texts, 1);
    at = (int64_t)k->texts.n - 1;
    if (more) *more = text;
    if (!more || lmi_map_put(&k->index, text, at, NULL) != LAM_OK) k->out->bad = true;
    return at;
}

/* A count as [value, state]. */
void lmi_data_count(lmi_buf *b, const char *name, lam_count c) {
    bool over = c.over > 0;
    lam_state state = over && c.state == LAM_EXACT ? LAM_AT_LEAST : c.state;
    lmi_data_key(b, name);
    PUT(b, "[");
    lmi_data_int(b, over ? INT64_MAX : c.n);
    lmi_data_int(b, state);
    PUT(b, "]");
}
