/* SPDX-License-Identifier: Apache-2.0
 *
 * A language model in tokens, as text and JSON. */
#include "report/table/tokens.h"
#include "report/tell/tell.h"

enum { DEFAULT_WIDTH = 100, LABEL = 12 };

typedef struct writer {
    lmi_token_words words;
    lmi_buf out;
    size_t width;
    lam_error *e;
} writer;

/* -- the table ----------------------------------------------------------------------------------------- */

static void put_table(writer *w) {
    static const uint8_t given_up[LMI_TOKEN_COLUMNS] = {2, 0, 1, 3,
                                                        4}; /* on a narrow screen, the greatest first */
    lmi_sheet t;
    lmi_putf(&w->out, "\n%s\n", lmi_token_caption);
    lmi_sheet_start(&t, &w->out, w->width, false, w->e);
    lmi_sheet_column(&t, &(lmi_head){"", LMI_LEFT, 0});
    for (int i = 0; i < LMI_TOKEN_COLUMNS; i++)
        lmi_sheet_column(&t, &(lmi_head){lmi_token_columns[i], LMI_RIGHT, given_up[i]});
    for (int s = 0; s < LAM_N_STAGES; s++) {
        lmi_text_cell(&t, lam_stage_name((lam_stage)s));
        for (int i = 0; i < LMI_TOKEN_COLUMNS; i++) {
            lmi_token_cell(&w->words, (lam_stage)s, i, t.cell);
            lmi_end_cell(&t);
        }
    }
    lmi_sheet_write(&t, 8, 8);
    lmi_sheet_free(&t);
}

/* -- lines ----------------------------------------------------------------------------------------------- */

static void put_line(writer *w, const char *label, int32_t indent, lmi_buf *text) {
    lmi_flow f;
    lmi_flow_start(&f, &w->out, w->width, (size_t)indent);
    if (label) lmi_flow_label(&f, NULL, label, 0);
    lmi_flow_words(&f, NULL, lmi_buf_text(text));
    lmi_flow_end(&f);
    lmi_buf_used(text, &w->out);
    lmi_buf_init(text);
}

static void line(void *to, const char *label, lmi_buf *text) { put_line(to, label, LABEL, text); }

static void put_head(writer *w) {
    lmi_buf b;
    lmi_buf_init(&b);
    lmi_token_head(&w->words, &b);
    put_line(w, NULL, 0, &b);
    lmi_buf_free(&b);
}

static void put_text(writer *w) {
    put_head(w);
    put_table(w);
    lmi_putc(&w->out, '\n');
    lmi_token_lines(&w->words);
}

/* -- JSON
 * ---------------------------------------------------------------------------------------------------- */

static void put_json(writer *w) {
    const lmi_token_words *x = &w->words;
    lmi_teller t = lmi_tell_json(&w->out);
    lmi_tell_document(&t, "tokens", 1);
    tell_text(&t, "model", lmi_token_type(x));
    lmi_tokens_fields(&t, x->t, x->c);
    if (x->memory) {
        const lam_token_capacity fits = lam_tokens_capacity(x->t, x->memory);
        tell_object(&t, "device_memory");
        lmi_capacity_fields(&t, x->t, &fits);
        tell_end(&t);
    }
    if (x->bound) {
        tell_object(&t, "bound");
        lmi_bound_fields(&t, x->bound);
        tell_end(&t);
    }
    tell_end(&t);
    lmi_putc(&w->out, '\n');
}

lam_status lam_tokens_write(const lam_tokens *t, const lam_costs *c, int64_t memory,
                            const lam_named_peak *peak, const char *format, int32_t width, bool exact,
                            lam_sink to, lam_error *e) {
    static const struct {
        const char *name;
        void (*put)(writer *w);
    } formats[] = {{"text", put_text}, {"json", put_json}};
    enum { N_FORMATS = sizeof formats / sizeof *formats };
    int k = 0;
    if (!t || !c) return lmi_fail(e, LAM_USAGE, "lam_tokens_write", "there is nothing to write");
    while (format && k < N_FORMATS && strcmp(format, formats[k].name) != 0) k++;
    if (k == N_FORMATS)
        return lmi_no_such(e, "format", format, "tokens", &formats[0].name, sizeof *formats, N_FORMATS);
    lam_token_bound bound;
    if (peak) lam_tokens_bound(t, c, peak, &bound);
    writer w = {.width = width > 0 ? (size_t)width : DEFAULT_WIDTH, .e = e};
    w.words = (lmi_token_words){t, c, memory, peak ? &bound : NULL, exact, line, &w};
    lmi_buf_init(&w.out);
    formats[k].put(&w);
    lam_status s = lmi_buf_flush(&w.out, to, e);
    lmi_buf_free(&w.out);
    return s;
}
