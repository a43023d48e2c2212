/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of modules as it is shown at first: open level by level as long as it is short, runs of equal
 * siblings as one row. */
#include "report/page/page.h"

#include "report/table/report.h"

#include <stdio.h>
#include <stdlib.h>

enum { OPEN_ROWS = 24, MOST_ROWS = 150, INDENTS = 24, TYPE = 30, OUTPUT = 34, BARS = 50 };

static bool is_of_run(const lmi_outline *o, int32_t i) { return o->at[i].run != i; }

/* -- which levels are open ------------------------------------------------------------------------------- */

/* True if each container above a place, and each run that it is in, shows it. */
static bool is_shown(const lmi_outline *o, int32_t i, int32_t depth) {
    if (o->at[i].depth > depth) return false;
    for (; i > 0; i = o->at[i].parent)
        if (is_of_run(o, i)) return false;
    return true;
}

/* The number of rows of the table with everything down to `depth` open; any number above `most` if there are
 * more. */
static int32_t count_rows(const lmi_outline *o, int32_t depth, int32_t most) {
    int32_t n = 0;
    for (int32_t i = 0; i < o->n && n <= most;) {
        bool hidden = o->at[i].depth > depth || is_of_run(o, i);
        n += !hidden;
        i = hidden ? o->at[i].end : i + 1;
    }
    return n;
}

/* The root's children are always shown, and deeper levels as long as there are no more rows than `most`. */
static int32_t find_depth(const lmi_outline *o, int32_t most) {
    int32_t deepest = 0, depth = 1;
    for (int32_t i = 0; i < o->n; i++)
        if (o->at[i].depth > deepest) deepest = o->at[i].depth;
    while (depth < deepest && count_rows(o, depth + 1, most) <= most) depth++;
    return depth;
}

/* -- a row ----------------------------------------------------------------------------------------------- */

/* "0…79": what the names of a run have in common, and the numbers at their end. */
static void put_label(lmi_page *p, int32_t i) {
    const lmi_outline *o = p->o;
    const lmi_outline_place *at = &o->at[i];
    lmi_buf label;
    lmi_buf_init(&label);
    lmi_put(&label, i ? at->name : at->type);
    if (at->n_run > 1) {
        const char *last = o->at[lmi_run_last(o->at, i)].name;
        lmi_putf(&label, "…%s", last + lmi_stem(last));
    }
    lmi_page_name(p, lmi_buf_text(&label), LMI_PAGE_CELL);
    lmi_buf_used(&label, &p->out);
}

static void put_tags(lmi_page *p, int32_t i) {
    const lmi_outline_place *at = &p->o->at[i];
    const int64_t *calls = p->o->own[LMI_OWN_CALLS];
    const struct lmi_mark *mark = &lmi_marks[lmi_place_mark(at)];
    if (at->n_run > 1) lmi_putf(&p->out, "<span class=\"tag\">×%d equal, each</span>", (int)at->n_run);
    if (mark->word) lmi_putf(&p->out, "<span class=\"tag %s\">%s</span>", mark->look, mark->word);
    if (at->state != LMI_CALLED && at->state != LMI_CONTAINER_ALONE)
        lmi_putf(&p->out, "<span class=\"tag\">%s</span>", lmi_state_names[at->state]);
    if (calls && calls[i] > 1)
        lmi_putf(&p->out, "<span class=\"tag\">%lld calls</span>", (long long)calls[i]);
}

static void put_text(lmi_page *p, const char *text, size_t n, const char *more) {
    lmi_buf cell;
    lmi_buf_init(&cell);
    lmi_putn(&cell, text, n);
    lmi_put(&cell, more);
    lmi_put_name(&p->out, lmi_buf_text(&cell), OUTPUT);
    lmi_buf_used(&cell, &p->out);
}

/* Writes the first tensor, and how many more there are: "8×64×56×56 +2". float32 is left out. */
static void put_output(lmi_page *p, const char *out) {
    static const char usual[] = " float32";
    const char *comma = strstr(out, ", "), *rest = strstr(out, " +");
    size_t n = comma ? (size_t)(comma - out) : strlen(out), tail = sizeof usual - 1;
    char more[24] = "";
    long long others = rest ? strtoll(rest + 2, NULL, 10) : 0;
    for (const char *s = comma; s; s = strstr(s + 1, ", ")) others++;
    if (n > tail && memcmp(out + n - tail, usual, tail) == 0) n -= tail;
    if (others > 0) snprintf(more, sizeof more, " +%lld", others);
    lmi_put(&p->out, "<td class=\"l dim\">");
    put_text(p, out, n, more);
    lmi_put(&p->out, "</td>");
}

/* For a run the sum over all of it. */
static int64_t sum_of(const lmi_outline *o, const lmi_picture_options *of, int32_t i) {
    int64_t sum = lmi_shown_total(o, of, i);
    const int32_t end = lmi_run_end(o->at, i);
    for (int32_t k = o->at[i].end; k < end; k = o->at[k].end)
        sum = lmi_add_capped(sum, lmi_shown_total(o, of, k));
    return sum;
}

static void put_number(lmi_page *p, int32_t k, int32_t i) {
    const lmi_picture_options *of = &p->number[k].of;
    double whole = (double)lmi_shown_total(p->o, of, 0);
    lam_state state = lmi_shown_state(p->o, of, i);
    int64_t v = sum_of(p->o, of, i);
    int bar = whole > 0 ? (int)(BARS * ((double)v / whole) + .5) : 0;
    v /= p->o->at[i].n_run > 1 ? p->o->at[i].n_run : 1; /* as in the text report, the number is one's */
    lmi_putf(&p->out, "<td class=\"n%s", k == p->by ? " hot" : "");
    if (bar > 0) lmi_putf(&p->out, " w%d", bar < BARS ? bar : BARS);
    lmi_put(&p->out, state == LAM_EXACT ? "\">" : " al\">");
    if (i == 0 && !lmi_page_is_measured(&p->number[k]))
        lmi_page_put_total(p, &p->number[k]);
    else if (p->o->at[i].n_run == 1 && (v > 0 || state != LAM_EXACT))
        lmi_put_shown_of(&p->out, p->o, of, i);
    else if (state == LAM_UNKNOWN)
        lmi_putc(&p->out, '?');
    else if (v > 0) {
        if (state != LAM_EXACT) lmi_put(&p->out, "≥" LMI_NARROW);
        lmi_put_shown(&p->out, of->by, (double)v);
    } else
        lmi_put(&p->out, "<span class=\"dim\">0</span>");
    lmi_page_put_change(p, &p->number[k], i);
    lmi_put(&p->out, "</td>");
}

static void put_row(lmi_page *p, int32_t i) {
    const lmi_outline_place *at = &p->o->at[i];
    lmi_putf(&p->out, "<tr data-i=\"%d\"><th scope=\"row\"><span class=\"ind", (int)i);
    if (at->depth) lmi_putf(&p->out, " i%d", at->depth < INDENTS ? (int)at->depth : INDENTS);
    lmi_putf(&p->out, "\"></span><span class=\"sw b-%s\"></span><span class=\"mono\">",
             lmi_family_class[at->family]);
    put_label(p, i);
    lmi_put(&p->out, "</span>");
    if (i) {
        lmi_put(&p->out, "<span class=\"ty\">");
        lmi_page_name(p, at->type, TYPE);
        lmi_put(&p->out, "</span>");
    }
    lmi_page_put_sign(p, i);
    put_tags(p, i);
    lmi_put(&p->out, "</th>");
    put_output(p, at->out);
    for (int32_t k = 0; k < p->n_numbers; k++) put_number(p, k, i);
    lmi_put(&p->out, "</tr>\n");
}

/* A document may have a part twice, but no two regions of one name. */
static lam_status put_table(lmi_page *p, int32_t depth) {
    const lmi_outline *o = p->o;
    int32_t n = 0, rows = count_rows(o, depth, o->n);
    lmi_put(&p->out, "<div class=\"scroll\"");
    lmi_page_id(p, "tscroll");
    lmi_putf(
        &p->out,
        " tabindex=\"0\" role=\"%s\" aria-label=\"Table of modules\"><table aria-label=\"Modules\"><thead",
        p->options->part ? "group" : "region");
    lmi_page_id(p, "thead");
    lmi_put(&p->out, "><tr><th scope=\"col\"><span>module</span></th><th scope=\"col\" "
                     "class=\"l\"><span>output</span></th>");
    for (int32_t k = 0; k < p->n_numbers; k++)
        lmi_putf(&p->out, "<th scope=\"col\"%s><span>%s</span></th>", k == p->by ? " class=\"hot\"" : "",
                 lmi_part_title(p->number[k].of.by));
    lmi_put(&p->out, "</tr></thead><tbody");
    lmi_page_id(p, "rows");
    lmi_put(&p->out, ">\n");
    for (int32_t i = 0; i < o->n && n < MOST_ROWS; i++) {
        if (!is_shown(o, i, depth)) continue;
        put_row(p, i);
        n++;
        LAM_TRY(lmi_page_flush(p));
    }
    lmi_put(&p->out, "</tbody></table><div class=\"more\"");
    lmi_page_id(p, "more");
    lmi_put(&p->out, ">");
    if (rows > n) lmi_putf(&p->out, "%d more rows", (int)(rows - n));
    lmi_put(&p->out, "</div></div>");
    return LAM_OK;
}

lam_status lmi_page_table(lmi_page *p) { return put_table(p, find_depth(p->o, OPEN_ROWS)); }

lam_status lmi_page_deeper_table(lmi_page *p) {
    const lmi_outline *o = p->o;
    int32_t open = find_depth(o, OPEN_ROWS), depth = find_depth(o, MOST_ROWS),
            all = count_rows(o, o->n, o->n);
    if (count_rows(o, open, all) == all) return LAM_OK;
    if (depth == open) depth++; /* one more level, as much of it as there is room for */
    int32_t rows = count_rows(o, depth, all);
    if (rows == all && rows <= MOST_ROWS)
        lmi_putf(&p->out, "<details><summary>All modules, %d rows</summary>", (int)rows);
    else
        lmi_putf(&p->out, "<details><summary>More modules, %d of %d rows</summary>",
                 (int)(rows < MOST_ROWS ? rows : MOST_ROWS), (int)all);
    LAM_TRY(put_table(p, depth));
    lmi_put(&p->out, "</details>\n");
    return LAM_OK;
}
