/* SPDX-License-Identifier: Apache-2.0
 *
 * The page of a run of many ranks: its head, the verdict, tiles and findings. It has no script. */
#include "report/runs/many.h"

#include <math.h>

enum { SENTENCE = 2000, MOST_WATCHED = 8 };

/* -- the verdict --------------------------------------------------------------------------------------- */

/* The sentence, or its beginning: down to a colon, or to its end. */
static void put_sentence(lmi_many *p, bool beginning) {
    lmi_buf text;
    lmi_buf_init(&text);
    lmi_ranks_say(p->r, &text);
    lmi_putc(&text, '\0');
    char *s = text.bad ? NULL : text.s, *end = s && beginning ? strstr(s, ": ") : NULL;
    if (end) *end = '\0';
    if (s && beginning && !end && *s) s[strlen(s) - 1] = '\0'; /* the point */
    if (s) lmi_put_name(p->b, s, SENTENCE);
    lmi_buf_used(&text, p->b);
}

static void begin_finding(lmi_many *p, const char *kind, const char *mark) {
    lmi_putf(p->b, "<li class=\"%s\"><span class=\"ic\" aria-hidden=\"true\">%s</span><span>", kind, mark);
}

static void end_finding(lmi_many *p) { lmi_put(p->b, "</span></li>"); }

static void put_main(lmi_many *p) {
    const lam_rank_verdict *v = &p->r->verdict;
    const bool none = v->kind == LAM_RANKS_NONE, named = v->n_ranks || v->n_nodes;
    begin_finding(p,
                  none && !v->abstains ? "ok"
                  : none               ? "info"
                  : named              ? "bad"
                                       : "warn",
                  none && !v->abstains ? "✓"
                  : none               ? "i"
                                       : "!");
    put_sentence(p, false);
    if (v->gain > 0) {
        lmi_put(p->b, " ");
        lmi_many_from(p, named && v->kind != LAM_RANKS_DIED ? LMI_FROM_GAIN : LMI_FROM_STEPS);
        lmi_put(p->b, "where this comes from");
        lmi_many_from_end(p);
    }
    lmi_put(p->b, "</span>");
    lmi_buf next;
    lmi_buf_init(&next);
    lmi_ranks_say_next(p->r, &next);
    if (next.n) {
        lmi_put(p->b, "<span class=\"nx\">Next: ");
        lmi_put_name(p->b, lmi_buf_text(&next), SENTENCE);
        lmi_put(p->b, "</span>");
    }
    lmi_buf_used(&next, p->b);
    lmi_put(p->b, "</li>");
}

static void put_watched(lmi_many *p) {
    const lam_ranks *r = p->r;
    int32_t n = 0;
    if (r->verdict.kind == LAM_RANKS_UNEVEN) return;
    for (int32_t i = 0; i < r->verdict.n_watch; i++) {
        const int32_t col = lmi_ranks_col(r, r->verdict.watch[i]);
        if (col < 0 || r->named[col] || ++n > MOST_WATCHED) continue;
        if (n == 1) begin_finding(p, "info", "i");
        lmi_putf(p->b, n > 1 ? ", %d" : "Late again and again, but little would be gained without: rank %d",
                 (int)r->verdict.watch[i]);
    }
    if (n > MOST_WATCHED) lmi_putf(p->b, " and %d more", (int)(n - MOST_WATCHED));
    if (n) end_finding(p);
}

void lmi_many_findings(lmi_many *p) {
    const lam_rank_verdict *v = &p->r->verdict;
    put_main(p);
    for (int32_t i = 0; i < v->n_notes; i++) {
        if (v->abstains && strcmp(v->notes[i], v->abstains) == 0) continue;
        if (v->kind == LAM_RANKS_UNEVEN && strstr(v->notes[i], "two kinds of machine")) continue;
        begin_finding(p, "info", "i");
        lmi_put_name(p->b, v->notes[i], SENTENCE);
        end_finding(p);
    }
    put_watched(p);
}

/* -- tiles --------------------------------------------------------------------------------------------- */

static void begin_tile(lmi_many *p, const char *title, lmi_many_origin of) {
    lmi_putf(p->b, "<div class=\"tile\"><span>%s</span><span class=\"v\">", title);
    lmi_many_from(p, of);
}

/* Ends the value; what is below it follows. */
static void below(lmi_many *p) {
    lmi_many_from_end(p);
    lmi_put(p->b, "</span><span class=\"w\">");
}

static void end_tile(lmi_many *p) { lmi_put(p->b, "</span></div>"); }

static void put_share_tile(lmi_many *p, const char *title, double us, double of, const char *what) {
    begin_tile(p, title, LMI_FROM_STEPS);
    lmi_many_put_us(p->b, us);
    below(p);
    if (of > 0 && !isnan(us)) {
        lmi_put_share(p->b, us, of);
        lmi_put(p->b, " of a step, ");
    }
    lmi_put(p->b, what);
    end_tile(p);
}

/* Below MFU. */
static void put_used(lmi_many *p) {
    const lam_ranks *r = p->r;
    if (!isnan(r->mfu)) lmi_putf(p->b, "of the devices' peak%s", r->mfu_at_least ? ", at least" : "");
    if (!isnan(r->hfu)) lmi_putf(p->b, "; HFU %.3g" LMI_NARROW "%%", 100 * r->hfu);
    if (!isnan(r->mfu) && !r->why_mfu) return;
    if (!isnan(r->mfu)) lmi_put(p->b, ": ");
    lmi_put_html(p->b, r->why_mfu ? r->why_mfu : "operations or peaks are not known");
}

static void put_tiles(lmi_many *p) {
    const lam_ranks *r = p->r;
    lmi_put(p->b, "<div class=\"tiles\">");
    begin_tile(p, "ranks", LMI_FROM_RANKS);
    lmi_put_full(p->b, r->n_ranks);
    below(p);
    lmi_putf(p->b, "of %d, on %d node%s", (int)r->world, (int)r->n_nodes, r->n_nodes == 1 ? "" : "s");
    end_tile(p);
    begin_tile(p, "recorded steps", LMI_FROM_STEPS);
    lmi_put_full(p->b, r->n_steps);
    below(p);
    if (r->attempts > 1) lmi_putf(p->b, "in %d attempts", (int)r->attempts);
    end_tile(p);
    put_share_tile(p, "a step", r->mean_step, NAN, "mean");
    put_share_tile(p, "until the last is there", r->mean_late, r->mean_step, "mean");
    put_share_tile(p, "transfer", r->mean_transfer, r->mean_step, "mean");
    if (r->verdict.gain > 0 && r->verdict.without_us > 0) {
        begin_tile(p, "gained without", LMI_FROM_GAIN);
        lmi_put_share(p->b, r->verdict.gain, 1);
        below(p);
        lmi_many_put_us(p->b, r->verdict.step_us);
        lmi_put(p->b, " → ");
        lmi_many_put_us(p->b, r->verdict.without_us);
        end_tile(p);
    }
    begin_tile(p, "MFU", LMI_FROM_MFU);
    if (isnan(r->mfu))
        lmi_putc(p->b, '?');
    else
        lmi_putf(p->b, "%.3g" LMI_NARROW "%%", 100 * r->mfu);
    below(p);
    put_used(p);
    end_tile(p);
    lmi_put(p->b, "</div>");
}

/* -- the sections -------------------------------------------------------------------------------------- */

/* Times of steps are known. */
static bool has_course(const lam_ranks *r) {
    for (int32_t i = 0; i < r->n_wins; i++)
        if (!isnan(r->wins[i].step)) return true;
    return false;
}

void lmi_many_nav(lmi_many *p) {
    if (p->r->n_phases) lmi_put(p->b, "<a href=\"#beside\">Phases</a>");
    if (p->r->late) lmi_put(p->b, "<a href=\"#heat\">Who is late</a>");
    if (has_course(p->r)) lmi_put(p->b, "<a href=\"#course\">Over time</a>");
}

static void begin_section(lmi_many *p, const char *id, const char *title) {
    lmi_putf(p->b,
             "<section id=\"%s\" aria-labelledby=\"h-%s\"><div class=\"hd\"><h2 id=\"h-%s\">%s</h2><span "
             "class=\"say\">",
             id, id, id, title);
}

static void put_last(lmi_many *p) {
    const lam_ranks *r = p->r;
    int64_t rest = r->n_last_steps;
    if (!r->n_lasts || r->n_ranks < 2) return;
    lmi_put(p->b, "<p class=\"crumb\">");
    lmi_many_from(p, LMI_FROM_LAST);
    lmi_put(p->b, "Who is last");
    lmi_many_from_end(p);
    lmi_put(p->b, ": ");
    for (int32_t i = 0; i < r->n_lasts; i++) {
        lmi_putf(p->b, "%srank %d ", i ? ", " : "", (int)r->lasts[i].rank);
        lmi_put_share(p->b, (double)r->lasts[i].steps, (double)r->n_last_steps);
        rest -= r->lasts[i].steps;
    }
    if (r->n_others) {
        lmi_putf(p->b, ", %d other%s ", (int)r->n_others, r->n_others == 1 ? "" : "s");
        lmi_put_share(p->b, (double)rest, (double)r->n_last_steps);
    }
    lmi_put(p->b, " of the steps.</p>");
}

lam_status lmi_many_sections(lmi_many *p) {
    if (p->r->n_phases) {
        begin_section(p, "beside", "Phases of a step");
        lmi_put(p->b,
                p->r->waits == LAM_WAITS_APART
                    ? "medians over ranks of their means; waits: for other ranks and the transfer"
                    : "medians over ranks of their means; waits for other ranks are not measured apart");
        lmi_put(p->b, "</span></div>");
        lmi_many_beside(p);
        lmi_put(p->b, "</section>\n");
    }
    if (p->r->late) {
        begin_section(p, "heat", "Who is late, over time");
        lmi_put(p->b, "own work beside the median of the ranks with the same layers</span></div>");
        LAM_TRY(lmi_many_heat(p));
        put_last(p);
        lmi_put(p->b, "</section>\n");
    }
    if (has_course(p->r)) {
        begin_section(p, "course", "Steps over time");
        lmi_put(p->b, "medians of windows of recorded steps</span></div>");
        lmi_many_course(p);
        lmi_put(p->b, "</section>\n");
    }
    return p->b->bad ? lmi_nomem(p->e) : LAM_OK;
}

static void put_page_head(lmi_many *p) {
    lmi_page_begin(p->b, NULL);
    lmi_put_name(p->b, p->name, LMI_PAGE_TITLE);
    lmi_page_titled(p->b, "run");
    lmi_put(p->b, "<body><a class=\"skip\" href=\"#origins\">to where the numbers come from</a>\n<header "
                  "class=\"top\"><a class=\"brand\" href=\"#verdict\">lam<i>i</i>na</a><nav "
                  "aria-label=\"Sections\"><a href=\"#verdict\">Verdict</a>");
    lmi_many_nav(p);
    lmi_put(p->b, "<a href=\"#origins\">Where the numbers come from</a></nav></header>\n<div "
                  "class=\"page\"><main><section id=\"verdict\" aria-labelledby=\"h-verdict\"><h1 "
                  "id=\"h-verdict\">");
    put_sentence(p, true);
    lmi_put(p->b, "</h1><p class=\"sub\"><code>");
    lmi_put_bdi(p->b, p->name, LMI_PAGE_LONG);
    lmi_put(p->b, "</code>");
    if (p->r->n_wins && p->r->wins[0].started != LAM_NOT_KNOWN) {
        lmi_put(p->b, " · ");
        lmi_put_moment(p->b, p->r->wins[0].started);
        lmi_put(p->b, " to ");
        lmi_put_moment(p->b, p->r->wins[p->r->n_wins - 1].started);
        lmi_put(p->b, " UTC");
    }
    lmi_put(p->b, "</p>");
    put_tiles(p);
    lmi_put(p->b, "<ul class=\"find\">");
    lmi_many_findings(p);
    lmi_put(p->b, "</ul></section>\n");
}

lam_status lam_ranks_page(const lam_ranks *r, const char *name, lam_sink to, lam_error *e) {
    lmi_buf b;
    if (!r || !r->judged || !name)
        return lmi_fail(e, LAM_USAGE, "lam_ranks_page", "it needs a name, and the verdict");
    lmi_buf_init(&b);
    lmi_many p = {.r = r, .b = &b, .e = e, .name = name};
    put_page_head(&p);
    lam_status s = lmi_many_sections(&p);
    lmi_many_origins(&p);
    lmi_put(&b, "<footer>Made by lamina, offline: this file loads nothing and sends nothing.</footer></main>"
                "</div></body></html>\n");
    if (s == LAM_OK) s = lmi_buf_flush(&b, to, e);
    lmi_buf_free(&b);
    return s;
}
