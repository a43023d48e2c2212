/* SPDX-License-Identifier: Apache-2.0
 *
 * The file: its head, its sections, the data for its script. A browser accepts only the style and the script
 * whose hashes the head has; so no style attribute may be written. */
#include "report/page/page.h"

#include "analyse/field/field.h"
#include "report/saved/saved.h"

enum { CHART = LMI_PAGE_CHART };

/* -- the sections ---------------------------------------------------------------------------------------- */

typedef struct section {
    const char *id, *nav, *title, *say;
    bool (*when)(const lmi_page *p);
    lam_status (*put)(lmi_page *p);
} section;

static bool always(const lmi_page *p) { return p->o->n > 0; }
static bool has_numbers(const lmi_page *p) { return p->n_numbers > 0; }
static bool has_course(const lmi_page *p) { return p->o->memory && p->o->n_points > 1; }
static bool has_graph(const lmi_page *p) { return lmi_page_top_level(p) != NULL; }

static bool has_tokens(const lmi_page *p) { return p->tokens != NULL; }

static void put_legend(lmi_page *p) {
    bool seen[LMI_N_FAMILIES] = {false};
    for (int32_t i = 0; i < p->o->n; i++) seen[p->o->at[i].family] = true;
    lmi_put(&p->out, "<div class=\"leg fleg\">");
    for (int f = 0; f < LMI_N_FAMILIES; f++)
        if (seen[f])
            lmi_putf(&p->out, "<span><i class=\"b-%s\"></i>%s</span>", lmi_family_class[f],
                     lmi_family_title[f]);
    lmi_put(&p->out, "</div>");
}

static lam_status put_modules(lmi_page *p) {
    lmi_put(&p->out,
            "<div class=\"ctl noprint\"><label class=\"vh\" for=\"find\">search modules</label><input "
            "type=\"search\" id=\"find\" placeholder=\"search: layer4.*conv\" autocomplete=\"off\" "
            "spellcheck=\"false\"></div>");
    return lmi_page_table(p);
}

/* Writes the line above each of the two pictures of a difference: which it is, and its number. */
static void put_which(lmi_page *p, const char *which, const lmi_outline *o, const lmi_page_number *by) {
    lmi_putf(&p->out, "<p class=\"crumb\">%s", which);
    if (o->own[lmi_figures[by->of.by].part[0]]) {
        lmi_put(&p->out, ": ");
        lmi_put_shown_of(&p->out, o, &by->of, 0);
    }
    lmi_put(&p->out, "</p>");
}

static lam_status put_icicle(lmi_page *p) {
    const lmi_page_number *by = &p->number[p->by];
    lmi_put(&p->out, "<div class=\"crumb\"");
    lmi_page_id(p, "icrumb");
    lmi_putf(&p->out, ">%s%s: ", lmi_part_title(by->of.by), lmi_page_phase(by));
    lmi_put_shown_of(&p->out, p->o, &by->of, 0);
    lmi_put(&p->out, " · <b>");
    lmi_page_path(p, 0, LMI_PAGE_CELL);
    lmi_put(&p->out, "</b></div><div class=\"fig\"");
    lmi_page_id(p, "ifig");
    lmi_putf(&p->out, " tabindex=\"0\" role=\"group\" aria-label=\"Icicle%s\">",
             p->options->part ? "" : "; arrow keys move");
    if (p->o->was) {
        put_which(p, "before", p->o->was, by);
        lmi_picture_icicle(&p->out, p->o->was, &by->of);
        put_which(p, "after", p->o, by);
    }
    lmi_picture_icicle(&p->out, p->o, &by->of);
    lmi_put(&p->out, "</div>");
    put_legend(p);
    return LAM_OK;
}

static lam_status put_memory(lmi_page *p) {
    lmi_put(&p->out, "<div class=\"fig\" id=\"mfig\" tabindex=\"0\" role=\"group\" aria-label=\"Memory over "
                     "time; arrow keys move\">");
    lmi_picture_memory(&p->out, p->o, &(lmi_picture_options){.width = CHART});
    lmi_put(&p->out, "</div><div id=\"mheld\">");
    lmi_page_holders(p);
    lmi_put(&p->out, "</div>");
    return LAM_OK;
}

static lam_status put_roofline(lmi_page *p) {
    lmi_put(&p->out, "<div class=\"fig\" id=\"rfig\" tabindex=\"0\" role=\"group\" aria-label=\"Roofline\">");
    lmi_picture_roofline(&p->out, p->o, &(lmi_picture_options){.width = CHART});
    lmi_put(&p->out, "</div><details><summary>As a table</summary><div class=\"scroll\" id=\"rtab\" "
                     "tabindex=\"0\" role=\"region\" aria-label=\"Roofline as a table\">");
    lmi_page_speeds(p);
    lmi_put(&p->out, "</div></details>");
    return LAM_OK;
}

static lam_status put_graph(lmi_page *p) {
    const lmi_page_number *by = p->n_numbers ? &p->number[p->by] : NULL;
    lmi_put(&p->out,
            "<div class=\"ctl noprint\"><button id=\"zout\" aria-label=\"smaller\">−</button><button "
            "id=\"zin\" aria-label=\"larger\">+</button><button id=\"zfit\">fit</button><button "
            "id=\"gall\">close all</button></div><div class=\"fig sc\" id=\"gfig\" tabindex=\"0\" "
            "role=\"group\" aria-label=\"Graph; arrow keys move, Enter opens\">");
    lmi_picture_graph(&p->out, p->o, by ? &by->of : &(lmi_picture_options){.by = LMI_FIGURE_PARAMS});
    lmi_put(&p->out, "</div>");
    put_legend(p);
    lmi_put(&p->out, "<details><summary>As a table</summary><div class=\"scroll\" id=\"gtab\" tabindex=\"0\" "
                     "role=\"region\" aria-label=\"Graph as a table\">");
    lmi_page_lines(p);
    lmi_put(&p->out, "</div></details>");
    return LAM_OK;
}

static lam_status put_tokens(lmi_page *p) {
    lmi_page_tokens(p);
    return LAM_OK;
}

static lam_status put_sources(lmi_page *p) {
    lmi_page_sources(p);
    return LAM_OK;
}

static lam_status put_verdict(lmi_page *p) {
    lmi_page_verdict(p);
    return LAM_OK;
}

/* The roofline's sentence has numbers, and the verdict's heading is the model's type: neither is in this
 * table. */
static const section sections[] = {
    {"verdict", "Verdict", NULL, NULL, always, put_verdict},
    {"tokens", "Tokens", "In tokens",
     "A prefill takes the prompt; each further token takes a step of decode. FLOPs are two for a MAC.",
     has_tokens, put_tokens},
    {"modules", "Modules", "Modules",
     "Bars are shares of the whole model. A click on a number tells how it comes about.", always,
     put_modules},
    {"icicle", "Icicle", "Where it goes",
     "Each box is a module, as wide as its share. Double click or Enter zooms.", has_numbers, put_icicle},
    {"memory", "Memory", "Memory over time",
     "What torch's allocator had handed out; the layers at work stand below.", has_course, put_memory},
    {"roofline", "Roofline", "How near to the machine's limits", NULL, lmi_page_has_speeds, put_roofline},
    {"graph", "Graph", "Graph",
     "Arrows lead from a module to the modules that use its result. + opens a module in its place.",
     has_graph, put_graph},
    {"prov", "How it was measured", "How it was measured", "", always, put_sources},
};
enum { N_SECTIONS = sizeof sections / sizeof *sections };

static lam_status put_section(lmi_page *p, const section *s) {
    lmi_putf(&p->out, "<section id=\"%s\" aria-labelledby=\"h-%s\">", s->id, s->id);
    if (s->title) {
        lmi_putf(&p->out, "<div class=\"hd\"><h2 id=\"h-%s\">%s</h2>", s->id, s->title);
        if (s->say)
            lmi_putf(&p->out, "<span class=\"say\">%s</span>", s->say);
        else {
            lmi_put(&p->out, "<span class=\"say\" id=\"rsay\">");
            lmi_page_speeds_say(p);
            lmi_put(&p->out, "</span>");
        }
        lmi_put(&p->out, "</div>");
    }
    LAM_TRY(s->put(p));
    lmi_put(&p->out, "</section>\n");
    return lmi_page_flush(p);
}

/* -- around them ----------------------------------------------------------------------------------------- */

void lmi_page_begin(lmi_buf *b, const char *script) {
    lmi_putf(b,
             "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
             "content=\"width=device-width,initial-scale=1\">\n<meta http-equiv=\"Content-Security-Policy\" "
             "content=\"default-src 'none'; style-src 'sha256-%s'; script-src '%s%s'; base-uri 'none'; "
             "form-action 'none'\">\n<meta name=\"referrer\" content=\"no-referrer\"><meta "
             "name=\"generator\" content=\"lamina %s\"><title>",
             lmi_page_css_sum, script ? "sha256-" : "none", script ? script : "", lam_version());
}

void lmi_page_titled(lmi_buf *b, const char *kind) {
    lmi_putf(b, " · lamina %s</title><style>", kind);
    lmi_put(b, (const char *)lmi_page_css);
    lmi_put(b, "</style></head>\n");
}

static void put_header(lmi_page *p) {
    lmi_put(&p->out, "<body><a class=\"skip\" href=\"#modules\">to the modules</a>\n<header class=\"top\"><a "
                     "class=\"brand\" href=\"#verdict\">lam<i>i</i>na</a><nav aria-label=\"Sections\">");
    for (int i = 0; i < N_SECTIONS; i++)
        if (sections[i].when(p)) lmi_putf(&p->out, "<a href=\"#%s\">%s</a>", sections[i].id, sections[i].nav);
    lmi_put(
        &p->out,
        "</nav>\n<div class=\"ctl\"><div class=\"seg\" id=\"bym\" role=\"group\" aria-label=\"Metric of all "
        "pictures\" tabindex=\"-1\"></div><div class=\"seg\" id=\"phase\" role=\"group\" "
        "aria-label=\"Phase\"></div><button id=\"theme\" aria-label=\"light or dark\">◐</button><button "
        "id=\"keys\" aria-label=\"keys\">?</button></div></header>\n<div class=\"page\"><main>");
}

static void put_end(lmi_page *p) {
    static const char *const keys[][2] = {
        {"<kbd>/</kbd>", "search modules, a regular expression"},
        {"<kbd>m</kbd>", "the next metric, in all pictures"},
        {"<kbd>b</kbd>", "with or without the backward pass"},
        {"<kbd>↑</kbd> <kbd>↓</kbd> <kbd>←</kbd> <kbd>→</kbd>", "move, open and close"},
        {"<kbd>Enter</kbd>", "zoom in the icicle, open in the graph"},
        {"<kbd>t</kbd>", "light or dark"},
        {"<kbd>Esc</kbd>", "clear the selection"},
    };
    lmi_put(&p->out, "<footer>Made by lamina, offline: this file loads nothing and sends nothing.</footer>"
                     "</main>\n<aside aria-label=\"Selected module\" aria-live=\"polite\" tabindex=\"0\">"
                     "</aside></div>\n<dialog id=\"help\" aria-label=\"Keys\"><h2>Keys</h2><dl>");
    lmi_putf(&p->out, "<dt><kbd>1</kbd>…<kbd>%d</kbd></dt><dd>a section</dd>", N_SECTIONS - !has_tokens(p));
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        lmi_putf(&p->out, "<dt>%s</dt><dd>%s</dd>", keys[i][0], keys[i][1]);
    lmi_put(&p->out, "</dl><form method=\"dialog\"><button>close</button></form></dialog>\n<script "
                     "type=\"application/json\" id=\"data\">");
    lmi_page_data(p);
    lmi_put(&p->out, "</script>\n<script>");
    lmi_put(&p->out, (const char *)lmi_page_js);
    lmi_put(&p->out, "</script></body></html>\n");
}

lam_status lmi_page_write(lmi_page *p) {
    lmi_page_begin(&p->out, lmi_page_js_sum);
    lmi_page_put_title(p);
    lmi_page_titled(&p->out, "report");
    put_header(p);
    for (int i = 0; i < N_SECTIONS; i++)
        if (sections[i].when(p)) LAM_TRY(put_section(p, &sections[i]));
    put_end(p);
    return lmi_buf_flush(&p->out, p->to, p->e);
}

/* Writes the part of the page that a notebook shows. */
static lam_status write_part(lmi_page *p) {
    lmi_part_begin(&p->out, "report");
    if (always(p)) lmi_page_verdict(p);
    if (has_numbers(p)) LAM_TRY(put_icicle(p));
    if (always(p)) LAM_TRY(lmi_page_table(p));
    if (always(p)) LAM_TRY(lmi_page_deeper_table(p));
    if (has_tokens(p)) lmi_page_tokens(p);
    lmi_part_end(&p->out);
    return lmi_buf_flush(&p->out, p->to, p->e);
}

/* Takes the outline of costs, or of a saved report if there are none. A part needs less. */
static lam_status take_outline(lmi_outline *o, const lam_costs *c, const char *file, lam_peak roof, bool part,
                               lam_error *e) {
    const lmi_outline_options wanted = {
        .levels = !part, .formulas = !part, .course = !part, .drawn = !part, .roof = roof};
    if (!c) return lmi_saved_outline(o, file, &wanted, e);
    *o = (lmi_outline){0};
    LAM_TRY(lmi_rf_need(c, e)); /* rows are read below, where errors are not reported */
    return lmi_outline_new(o, c, &wanted, e);
}

/* What ran in tokens, if it is a language model. `c` NULL: a saved report, which does not have them. */
static lam_status take_tokens(lam_tokens **out, const lam_costs *c, lam_error *e) {
    lam_error none = {.at = -1};
    *out = NULL;
    if (!c || lam_model_file(lam_costs_model(c))) return LAM_OK;
    return lam_tokens_new(out, c, &(lam_token_options){0}, &none) == LAM_NOMEM ? lmi_nomem(e) : LAM_OK;
}

static lam_status write_outline(const lmi_outline *o, const lam_costs *c, const lam_page_options *options,
                                lam_sink to, lam_error *e) {
    lmi_page p;
    lam_tokens *t;
    LAM_TRY(take_tokens(&t, o->was ? NULL : c, e));
    lmi_page_start(&p, o, options, to, e);
    p.tokens = t;
    p.costs = c;
    lam_status s = options->part ? write_part(&p) : lmi_page_write(&p);
    lmi_buf_free(&p.out);
    lam_tokens_free(t);
    return s;
}

static lam_status write_page(const lam_costs *c, const char *file, const lam_page_options *options,
                             lam_sink to, lam_error *e) {
    const lam_page_options none = {0};
    lmi_outline o, before, both;
    if (!options) options = &none;
    lam_status s = take_outline(&o, c, file, options->roof, options->part, e);
    if (s == LAM_OK && (options->costs_before || options->file_before)) {
        s = take_outline(&before, options->costs_before, options->file_before, options->roof, options->part,
                         e);
        if (s == LAM_OK) {
            s = lmi_outline_diff(&both, &before, &o, e);
            if (s == LAM_OK) s = write_outline(&both, c, options, to, e);
            lmi_outline_free(&both);
        }
        lmi_outline_free(&before);
    } else if (s == LAM_OK) {
        s = write_outline(&o, c, options, to, e);
    }
    lmi_outline_free(&o);
    return s;
}

lam_status lam_page_write(const lam_costs *c, const lam_page_options *o, lam_sink to, lam_error *e) {
    return write_page(c, NULL, o, to, e);
}

lam_status lam_page_of(const char *file, const lam_page_options *o, lam_sink to, lam_error *e) {
    return write_page(NULL, file, o, to, e);
}
