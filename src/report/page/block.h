/* SPDX-License-Identifier: Apache-2.0
 * block: pieces of the JSON that a page's script reads. */
#ifndef LMI_REPORT_PAGE_BLOCK_H
#define LMI_REPORT_PAGE_BLOCK_H

#include "report/table/quick.h"

/* As any JSON, and nothing that HTML or JavaScript would read otherwise. */
static inline void put_text(lmi_buf *b, const char *s) {
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
static inline void next(lmi_buf *b) {
    char last = b->n ? b->s[b->n - 1] : '{';
    if (last != '{' && last != '[' && last != ':') PUT(b, ",");
}
static inline void key(lmi_buf *b, const char *name) {
    next(b);
    PUT(b, "\"");
    lmi_put(b, name);
    PUT(b, "\":");
}
static inline void put_int(lmi_buf *b, int64_t v) {
    next(b);
    quick_int(b, v);
}
static inline void put_index(lmi_buf *b, int32_t i) { /* a key of an object that has few of them */
    next(b);
    lmi_putf(b, "\"%d\":", (int)i);
}
static inline void text_field(lmi_buf *b, const char *name, const char *text) {
    key(b, name);
    put_text(b, text);
}
static inline void int_field(lmi_buf *b, const char *name, int64_t v) {
    key(b, name);
    quick_int(b, v);
}
static inline void truth_field(lmi_buf *b, const char *name, bool v) {
    key(b, name);
    lmi_put(b, v ? "true" : "false");
}

static inline void ints(lmi_buf *b, const char *name, const int32_t *v, int32_t n) {
    key(b, name);
    PUT(b, "[");
    for (int32_t i = 0; i < n; i++) put_int(b, v[i]);
    PUT(b, "]");
}

#endif
