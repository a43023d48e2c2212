/* SPDX-License-Identifier: Apache-2.0
 *
 * One collapsible tree as a fragment of HTML, for notebooks and pages: <details> alone, no script,
 * nothing loaded, every text escaped. Its style applies to its own class only and follows the reader's
 * light or dark setting. */
#include "report/formats/formats.h"

enum {
    OPEN_DEPTH = 2,  /* containers above this depth start open */
    NEST_LIMIT = 100 /* browsers fail on deeper nesting: deeper rows are not nested */
};

static const char style[] =
    "<style>"
    ".lamina{font:13px/1.5 "
    "ui-monospace,Menlo,Consolas,monospace;--line:#8884;--dim:#666;--warn:#a50;overflow-x:auto}"
    "@media(prefers-color-scheme:dark){.lamina{--dim:#aaa;--warn:#fb5}}"
    ".lamina p{margin:.4em 0}.lamina .dim{color:var(--dim)}.lamina .warn{color:var(--warn)}"
    ".lamina .r{display:grid;grid-template-columns:minmax(10em,1fr) 11em repeat(var(--n),8em);min-width:44em;"
    "border-bottom:1px solid var(--line)}"
    ".lamina .r>*{text-align:right;white-space:nowrap;overflow:hidden;text-overflow:ellipsis}"
    ".lamina .r>:nth-child(-n+2){text-align:left}.lamina summary{cursor:pointer}"
    ".lamina summary>:first-child::before{content:'\\25b8 ';color:var(--dim)}"
    ".lamina details[open]>summary>:first-child::before{content:'\\25be '}"
    ".lamina summary::marker{content:''}"
    ".lamina .k{padding-left:1.2em}.lamina .k .r{min-width:0}"
    "</style>";

typedef struct html {
    lmi_job *j;
    bool open;
} html;

static void say(void *to, const char *style_, const char *label, const char *text) {
    html *h = to;
    bool warn = style_ && strcmp(style_, LMI_WARN) == 0, bold = style_ && strcmp(style_, LMI_BOLD) == 0;
    if (label) lmi_put(&h->j->out, h->open ? "</p>\n<p>" : "<p>");
    if (!label) lmi_put(&h->j->out, " &middot; ");
    if (label && *label) {
        lmi_put(&h->j->out, "<b>");
        lmi_put_html(&h->j->out, label);
        lmi_put(&h->j->out, "</b> ");
    }
    h->open = true;
    if (!*text) return;
    if (warn) lmi_put(&h->j->out, "<span class=warn>");
    if (bold) lmi_put(&h->j->out, "<b>");
    lmi_put_html(&h->j->out, text);
    if (bold) lmi_put(&h->j->out, "</b>");
    if (warn) lmi_put(&h->j->out, "</span>");
}

static lam_status put_ends(lmi_job *j, lam_status (*ends)(lmi_job *, lmi_say, void *)) {
    html h = {j, false};
    LAM_TRY(ends(j, say, &h));
    if (h.open) lmi_put(&j->out, "</p>\n");
    return LAM_OK;
}

static void put_name(lmi_job *j, const lmi_nodes *t, int32_t node, lmi_buf *scratch) {
    const lmi_line *l = &t->at[node].line;
    lmi_put(&j->out, "<span>");
    lmi_nodes_name(t, node, scratch);
    lmi_nodes_range(t, node, scratch);
    bool named = scratch->n > 0;
    lmi_put_html(&j->out, lmi_buf_text(scratch));
    if (!l->own) {
        scratch->n = 0;
        lmi_put(&j->out, named ? " <i class=dim>" : "<b>");
        lmi_put_clean(scratch, l->module->type);
        lmi_put_html(&j->out, lmi_buf_text(scratch));
        lmi_put(&j->out, named ? "</i>" : "</b>");
    }
    lmi_buf_clear(scratch);
    lmi_nodes_marks(t, node, false, scratch);
    lmi_put_html(&j->out, lmi_buf_text(scratch));
    lmi_put(&j->out, lmi_nodes_each(t, node) ? " <i class=dim>each</i></span>" : "</span>");
}

/* Cells of a row; a number that is not exact is marked by its text and by its colour. */
static lam_status put_cells(lmi_job *j, const lmi_nodes *t, int32_t node, const lmi_columns *columns,
                            lmi_buf *scratch) {
    lmi_line l;
    lmi_nodes_line(t, node, &l);
    lmi_buf_clear(scratch);
    put_name(j, t, node, scratch);
    for (int32_t i = 1; i < columns->n; i++) {
        lmi_buf_clear(scratch);
        columns->at[i]->cell(&l, scratch);
        LAM_TRY(lmi_buf_status(scratch, j->e));
        bool warn = *scratch->s == '?' || *scratch->s == '>';
        lmi_put(&j->out, warn ? "<span class=warn>" : "<span>");
        lmi_put_html(&j->out, scratch->s);
        lmi_put(&j->out, "</span>");
    }
    return LAM_OK;
}

/* Closes the containers between a node and the one shown after it. */
static void close_to(lmi_job *j, const lmi_nodes *t, int32_t node, int32_t next) {
    int32_t stop = next < 0 ? -1 : t->at[next].parent;
    for (int32_t i = t->at[node].parent; i != stop && i >= 0; i = t->at[i].parent)
        if (t->at[i].line.depth < NEST_LIMIT) lmi_put(&j->out, "</div></details>");
}

static lam_status put_tree(lmi_job *j, const lmi_nodes *t, const lmi_columns *columns, lmi_buf *scratch) {
    for (int32_t i = t->first, next; i >= 0; i = next) {
        int32_t depth = t->at[i].line.depth;
        bool opens = lmi_nodes_open(t, j, i), nests = opens && depth < NEST_LIMIT;
        next = lmi_nodes_next(t, j, i);
        if (nests)
            lmi_put(&j->out,
                    depth < OPEN_DEPTH ? "<details open><summary class=r>" : "<details><summary class=r>");
        else
            lmi_put(&j->out, "<div class=r>");
        LAM_TRY(put_cells(j, t, i, columns, scratch));
        lmi_put(&j->out, nests ? "</summary><div class=k>\n" : "</div>\n");
        if (!opens) close_to(j, t, i, next);
        LAM_TRY(lmi_job_flush(j));
    }
    return LAM_OK;
}

static lam_status put_table(lmi_job *j, const lmi_nodes *t) {
    lmi_columns columns;
    lmi_buf scratch;
    lmi_own_columns(j, &columns);
    lmi_buf_init(&scratch);
    lmi_putf(&j->out, "<div style=\"--n:%d\">\n<div class=\"r dim\">", (int)columns.n - 2);
    for (int32_t i = 0; i < columns.n; i++) lmi_putf(&j->out, "<b>%s</b>", columns.at[i]->title);
    lmi_put(&j->out, "</div>\n");
    lam_status s = put_tree(j, t, &columns, &scratch);
    lmi_put(&j->out, "</div>\n");
    lmi_buf_free(&scratch);
    return s;
}

lam_status lmi_html(lmi_job *j) {
    lmi_nodes t;
    lam_status s = lmi_nodes_build(&t, j);
    lmi_putf(&j->out, "<div class=lamina>%s\n", style);
    if (s == LAM_OK) s = put_ends(j, lmi_own_head);
    if (s == LAM_OK) s = put_table(j, &t);
    if (s == LAM_OK) s = put_ends(j, lmi_own_foot);
    lmi_put(&j->out, "</div>\n");
    lmi_nodes_free(&t);
    return s;
}
