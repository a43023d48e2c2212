/* SPDX-License-Identifier: Apache-2.0
 * block: pieces of the JSON that a page's script reads. */
#ifndef LMI_REPORT_PAGE_BLOCK_H
#define LMI_REPORT_PAGE_BLOCK_H

#include "report/table/quick.h"

/* A comma, unless an object or a list begins, or a key is before it. */
static inline void block_next(lmi_buf *b) {
    char last = b->n ? b->s[b->n - 1] : '{';
    if (last != '{' && last != '[' && last != ':') PUT(b, ",");
}
static inline void block_key(lmi_buf *b, const char *name) {
    block_next(b);
    PUT(b, "\"");
    lmi_put(b, name);
    PUT(b, "\":");
}
static inline void block_list(lmi_buf *b, const char *name) {
    block_key(b, name);
    PUT(b, "[");
}
static inline void block_object(lmi_buf *b, const char *name) {
    block_key(b, name);
    PUT(b, "{");
}
static inline void block_tuple(lmi_buf *b) { /* a list in a list */
    block_next(b);
    PUT(b, "[");
}
static inline void block_int(lmi_buf *b, int64_t v) {
    block_next(b);
    quick_int(b, v);
}
static inline void block_index(lmi_buf *b, int32_t i) { /* the key of an object with few keys */
    block_next(b);
    lmi_putf(b, "\"%d\":", (int)i);
}
static inline void block_text_field(lmi_buf *b, const char *name, const char *text) {
    block_key(b, name);
    lmi_put_json_in_html(b, text);
}
static inline void block_int_field(lmi_buf *b, const char *name, int64_t v) {
    block_key(b, name);
    quick_int(b, v);
}
static inline void block_truth_field(lmi_buf *b, const char *name, bool v) {
    block_key(b, name);
    lmi_put(b, v ? "true" : "false");
}

static inline void block_ints(lmi_buf *b, const char *name, const int32_t *v, int32_t n) {
    block_list(b, name);
    for (int32_t i = 0; i < n; i++) block_int(b, v[i]);
    PUT(b, "]");
}

#endif
