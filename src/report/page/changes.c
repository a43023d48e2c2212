/* SPDX-License-Identifier: Apache-2.0
 *
 * What a page of a difference has in addition: the names of both models, the numbers before, signs of
 * changes, and whether the two can be compared. */
#include "report/page/page.h"

enum { OLD_NAME = 30, NAMED = 3, LEAST_PERCENT = 20 /* thousandths */ };

/* -- names -------------------------------------------------------------------------------------- */

/* "resnet18" of torchvision.models:resnet18. */
static const char *last_part(const char *target) {
    const char *colon = target ? strrchr(target, ':') : NULL;
    return colon && colon[1] ? colon + 1 : target;
}

enum { BY_TYPE, BY_LAST_PART, BY_TARGET, AS_GIVEN, N_KINDS };

static const char *name_of(const lmi_outline *o, const char *given, int kind) {
    const char *target = lmi_outline_provenance(o, "target");
    switch (kind) {
    case BY_TYPE: return o->name;
    case BY_LAST_PART: return last_part(target);
    case BY_TARGET: return target;
    default: return given;
    }
}

/* Finds the first kind of name that distinguishes them. */
static void find_names(const lmi_page *p, const char **was, const char **now) {
    for (int kind = 0; kind < N_KINDS; kind++) {
        *was = name_of(p->o->was, p->options->before, kind);
        *now = name_of(p->o, p->options->target, kind);
        if (*was && *now && strcmp(*was, *now) != 0) return;
    }
    *was = p->o->was->name;
    *now = p->o->name;
}

void lmi_page_put_names(lmi_page *p, int32_t columns) {
    const char *was, *now = p->o->name;
    if (p->o->was) {
        find_names(p, &was, &now);
        lmi_page_name(p, was, columns);
        lmi_put(&p->out, " → ");
    }
    lmi_page_name(p, now, columns);
}

/* The model's name; of a file without one the file's. */
static const char *title_of(const lmi_page *p) {
    const char *target = strcmp(p->o->name, "?") == 0 ? p->options->target : NULL;
    const char *folder = target ? strrchr(target, '/') : NULL;
    return folder && folder[1] ? folder + 1 : target && *target ? target : p->o->name;
}

void lmi_page_put_title(lmi_page *p) {
    const char *was, *now = title_of(p);
    if (p->o->was) {
        find_names(p, &was, &now);
        lmi_put_name(&p->out, was, LMI_PAGE_TITLE);
        lmi_put(&p->out, " → ");
    }
    lmi_put_name(&p->out, now, LMI_PAGE_TITLE);
}

void lmi_page_put_both(lmi_page *p, const char *was, const char *now, int32_t columns) {
    if (p->o->was && was && *was && now && strcmp(was, now) != 0) {
        lmi_page_name(p, was, columns);
        lmi_put(&p->out, " → ");
    }
    lmi_page_name(p, now ? now : "", columns);
}

/* -- numbers ------------------------------------------------------------------------------------ */

static bool is_counted(const lmi_page_number *n) { return lmi_figures[n->of.by].metric >= 0; }

bool lmi_page_is_alike(const lmi_outline *both) {
    return !both->was || strcmp(both->was->convention, both->convention) == 0;
}

static bool has(const lmi_outline *o, const lmi_page_number *n) {
    lmi_figure back = n->of.backward ? lmi_figures[n->of.by].back : LMI_FIGURE_NO;
    return lmi_figure_measured(o, n->of.by) && (back == LMI_FIGURE_NO || lmi_figure_measured(o, back));
}

bool lmi_page_is_comparable(const lmi_outline *both, const lmi_page_number *n) {
    return has(both->was, n) && has(both, n) && (!is_counted(n) || lmi_page_is_alike(both));
}

/* Writes "+102 %"; nothing if one of them is not exact, or if they can't be compared. */
static void put_difference(lmi_page *p, const lmi_page_number *n, lam_count was, lam_count now) {
    double a = lmi_count_double(was), b = lmi_count_double(now);
    bool known = was.state == LAM_EXACT && now.state == LAM_EXACT;
    if (!known || !lmi_page_is_comparable(p->o, n)) return;
    double percent = a > 0 ? 100 * (b - a) / a : 0, size = percent < 0 ? -percent : percent;
    if (a == b)
        lmi_putc(&p->out, '=');
    else if (a <= 0)
        lmi_put(&p->out, "new");
    else if (b <= 0)
        lmi_put(&p->out, "gone");
    else if (1000 * size < LEAST_PERCENT)
        lmi_put(&p->out, "≈");
    else
        lmi_put_growth(&p->out, percent, &lmi_typeset);
}

static void put_count(lmi_page *p, const lmi_page_number *n, lam_count c) {
    if (c.state == LAM_UNKNOWN || (c.state != LAM_EXACT && !c.n && !c.over)) {
        lmi_putc(&p->out, '?');
        return;
    }
    if (c.state != LAM_EXACT) lmi_put(&p->out, "≥" LMI_NARROW);
    lmi_put_shown(&p->out, n->of.by, lmi_count_double(c));
}

void lmi_page_put_was(lmi_page *p, const lmi_page_number *n) {
    const lmi_outline *was = p->o->was;
    if (!has(was, n)) {
        lmi_put(&p->out, "not measured before");
        return;
    }
    lam_count before = lmi_page_total_of(was, n);
    size_t start;
    lmi_put(&p->out, "was ");
    put_count(p, n, before);
    lmi_put(&p->out, ", ");
    start = p->out.n;
    put_difference(p, n, before, lmi_page_total(p, n));
    if (p->out.n == start) lmi_put(&p->out, "not comparable");
}

/* After; of a removed place 0. */
static lam_count count_now(const lmi_outline *both, const lmi_page_number *n, int32_t place) {
    return lmi_page_count(both, n, both->now_at[place] < 0 ? -1 : place);
}

void lmi_page_put_change(lmi_page *p, const lmi_page_number *n, int32_t place) {
    const lmi_outline *o = p->o, *was = o->was;
    if (!was) return;
    lmi_put(&p->out, "<span class=\"dl\">");
    lam_count a = lmi_page_count(was, n, o->was_at[place]), b = count_now(o, n, place);
    if (!lmi_is_same(a, b)) put_difference(p, n, a, b);
    lmi_put(&p->out, "</span>");
}

/* -- signs -------------------------------------------------------------------------------------- */

void lmi_page_put_sign(lmi_page *p, int32_t place) {
    static const char *const class[] = {"", "add", "del", "chg", "ren"};
    static const char *const sign[] = {"", "+ added", "− removed", "~ changed", "&gt; renamed"};
    const lmi_outline *o = p->o;
    if (!o->was || o->change[place] == LMI_SAME) return;
    lmi_putf(&p->out, "<span class=\"tag %s\">%s", class[o->change[place]], sign[o->change[place]]);
    if (o->change[place] == LMI_RENAMED) {
        lmi_put(&p->out, " from ");
        lmi_page_name(p, o->was->at[o->was_at[place]].name, OLD_NAME);
    }
    lmi_put(&p->out, "</span>");
}

static double difference_of(const lmi_page *p, const lmi_page_number *n, int32_t i) {
    return lmi_count_double(count_now(p->o, n, i)) -
           lmi_count_double(lmi_page_count(p->o->was, n, p->o->was_at[i]));
}

/* Finds the children of the root with the largest differences, the largest first. */
static int find_largest(const lmi_page *p, const lmi_page_number *by, int32_t place[NAMED]) {
    double size[NAMED];
    int n = 0;
    for (int32_t i = 1; i < p->o->n; i = p->o->at[i].end) {
        double v = difference_of(p, by, i);
        if (v < 0) v = -v;
        int at = n;
        while (at > 0 && size[at - 1] < v) at--;
        if (v <= 0 || at == NAMED) continue;
        if (n < NAMED) n++;
        for (int k = n - 1; k > at; k--) size[k] = size[k - 1], place[k] = place[k - 1];
        size[at] = v;
        place[at] = i;
    }
    return n;
}

void lmi_page_changes_say(lmi_page *p) {
    int32_t n[LMI_RENAMED + 1] = {0}, place[NAMED];
    lmi_outline_count(p->o, n);
    if (!n[LMI_ADDED] && !n[LMI_REMOVED] && !n[LMI_CHANGED] && !n[LMI_RENAMED]) {
        lmi_put(&p->out, "<b>The same modules,</b> with equal shapes and counts.");
        return;
    }
    lmi_putf(&p->out, "<b>%d module%s added, %d removed, %d changed, %d renamed.</b>", (int)n[LMI_ADDED],
             n[LMI_ADDED] == 1 ? "" : "s", (int)n[LMI_REMOVED], (int)n[LMI_CHANGED], (int)n[LMI_RENAMED]);
    const lmi_page_number *by = p->n_numbers ? &p->number[p->by] : NULL;
    int found = by && lmi_page_is_alike(p->o) ? find_largest(p, by, place) : 0;
    if (found) lmi_putf(&p->out, " Most of the difference in %s is in ", lmi_part_title(by->of.by));
    for (int k = 0; k < found; k++) {
        double v = difference_of(p, by, place[k]);
        if (k) lmi_put(&p->out, ", ");
        lmi_page_link(p, place[k]);
        lmi_put(&p->out, v > 0 ? " (+" : " (−");
        lmi_put_shown(&p->out, by->of.by, v > 0 ? v : -v);
        lmi_putc(&p->out, ')');
    }
    if (found) lmi_putc(&p->out, '.');
}

/* -- what can't be compared --------------------------------------------------------------------- */

void lmi_page_unlike_say(lmi_page *p) {
    lmi_put(&p->out, "<b>MACs, FLOPs and bytes can't be compared:</b> before they were counted by <code>");
    lmi_page_name(p, p->o->was->convention, LMI_PAGE_CELL);
    lmi_put(&p->out, "</code>, now by <code>");
    lmi_page_name(p, p->o->convention, LMI_PAGE_CELL);
    lmi_put(&p->out, "</code>.");
}

void lmi_page_put_unlike(lmi_page *p) {
    lmi_setup_change u;
    for (int32_t i = 0; p->o->was && lmi_outlines_unlike(p->o->was, p->o, i, &u); i++) {
        lmi_putf(&p->out, "<li>%s: before ", u.what);
        lmi_page_name(p, u.was, LMI_PAGE_LONG);
        lmi_put(&p->out, ", now ");
        lmi_page_name(p, u.now, LMI_PAGE_LONG);
        lmi_putf(&p->out, "%s.</li>", u.so);
    }
}
