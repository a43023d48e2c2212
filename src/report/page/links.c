/* SPDX-License-Identifier: Apache-2.0
 *
 * Names of modules, links that select one, and ids. */
#include "report/page/page.h"

void lmi_put_bdi(lmi_buf *b, const char *name, int32_t columns) {
    lmi_put(b, "<bdi>");
    lmi_put_name(b, name, columns);
    lmi_put(b, "</bdi>");
}

void lmi_page_name(lmi_page *p, const char *name, int32_t columns) { lmi_put_bdi(&p->out, name, columns); }

void lmi_page_path(lmi_page *p, int32_t place, int32_t columns) {
    lmi_buf path;
    lmi_buf_init(&path);
    lmi_outline_label(p->o, place, &path);
    lmi_page_name(p, lmi_buf_text(&path), columns);
    lmi_buf_used(&path, &p->out);
}

/* Encodes as encodeURIComponent does, and also its marks other than hyphen, point and underscore. */
static void put_encoded(lmi_buf *b, const char *s) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._";
    uint32_t code;
    for (size_t n; (n = lmi_utf8(s, &code)) != 0; s += n) {
        if (code == LMI_BAD_UTF8)
            lmi_put(b, "%EF%BF%BD");
        else if (n == 1 && strchr(plain, *s))
            lmi_putc(b, *s);
        else
            for (size_t i = 0; i < n; i++) lmi_putf(b, "%%%02X", (unsigned char)s[i]);
    }
}

/* A part has no links, since nothing in it can be selected. */
static void put_link(lmi_page *p, const char *path, const char *shown) {
    bool link = !p->options->part;
    if (link) {
        lmi_put(&p->out, "<a class=\"link\" href=\"#layer=");
        put_encoded(&p->out, path);
        lmi_put(&p->out, "\">");
    }
    lmi_put(&p->out, "<code>");
    lmi_page_name(p, shown, LMI_PAGE_LINK);
    lmi_put(&p->out, link ? "</code></a>" : "</code>");
}

void lmi_page_id(lmi_page *p, const char *id) {
    if (!p->options->part) lmi_putf(&p->out, " id=\"%s\"", id);
}

void lmi_page_link(lmi_page *p, int32_t place) {
    lmi_buf path;
    lmi_buf_init(&path);
    lmi_outline_path(p->o, place, &path);
    put_link(p, lmi_buf_text(&path), path.n ? path.s : p->o->at[place].type);
    lmi_buf_used(&path, &p->out);
}

void lmi_page_link_to(lmi_page *p, const char *path) { put_link(p, path, path); }

int32_t lmi_page_find(lmi_page *p, const char *path) {
    lmi_buf at;
    int32_t found = -1;
    lmi_buf_init(&at);
    for (int32_t i = 0; i < p->o->n && found < 0; i++) {
        lmi_buf_clear(&at);
        lmi_outline_path(p->o, i, &at);
        if (strcmp(lmi_buf_text(&at), path) == 0) found = i;
    }
    lmi_buf_used(&at, &p->out);
    return found;
}
