/* SPDX-License-Identifier: Apache-2.0
 *
 * The section of a language model: the stages of its run in tokens, its cache and parameters. */
#include "report/table/tokens.h"
#include "report/page/page.h"

static void put_stages(lmi_page *p, const lmi_token_words *w) {
    lmi_buf cell;
    lmi_putf(&p->out,
             "<div class=\"scroll\" tabindex=\"0\" role=\"%s\" aria-label=\"Stages in tokens\">"
             "<table><caption>%s</caption><thead><tr><th scope=\"col\"><span>stage</span></th>",
             p->options->part ? "group" : "region", lmi_token_caption);
    for (int i = 0; i < LMI_TOKEN_COLUMNS; i++)
        lmi_putf(&p->out, "<th scope=\"col\"><span>%s</span></th>", lmi_token_columns[i]);
    lmi_put(&p->out, "</tr></thead><tbody>\n");
    lmi_buf_init(&cell);
    for (int s = 0; s < LAM_N_STAGES; s++) {
        if (!w->t->stage[s].calls) continue;
        lmi_putf(&p->out, "<tr><th scope=\"row\">%s</th>", lam_stage_name((lam_stage)s));
        for (int i = 0; i < LMI_TOKEN_COLUMNS; i++) {
            lmi_token_cell(w, (lam_stage)s, i, &cell);
            lmi_put(&p->out, "<td>");
            lmi_put_html(&p->out, lmi_buf_text(&cell));
            lmi_put(&p->out, "</td>");
            lmi_buf_used(&cell, &p->out);
            lmi_buf_init(&cell);
        }
        lmi_put(&p->out, "</tr>\n");
    }
    lmi_buf_free(&cell);
    lmi_put(&p->out, "</tbody></table></div>");
}

static void put_line(void *to, const char *label, lmi_buf *text) {
    lmi_page *p = to;
    lmi_putf(&p->out, "<dt>%s</dt><dd><bdi>", label);
    lmi_put_html(&p->out, lmi_buf_text(text));
    lmi_put(&p->out, "</bdi></dd>\n");
    lmi_buf_used(text, &p->out);
    lmi_buf_init(text);
}

void lmi_page_tokens(lmi_page *p) {
    const lmi_token_words w = {.t = p->tokens, .c = p->costs, .line = put_line, .to = p};
    put_stages(p, &w);
    lmi_put(&p->out, "<dl>\n");
    lmi_token_lines(&w);
    lmi_put(&p->out, "</dl>");
}
