/* SPDX-License-Identifier: Apache-2.0
 *
 * An outline written by hand, with parameters, MACs, time and memory, and parts of a page of it. */
#ifndef LAMINA_TEST_PAGED_H
#define LAMINA_TEST_PAGED_H

#include "kit/shown.h"

#include "analyse/run/health.h"
#include "report/page/page.h"

enum { PAGED = 64 };

typedef struct paged {
    lmi_outline o;
    lmi_outline_place at[PAGED];
    int64_t own[LMI_N_OWN][PAGED], total[LMI_N_OWN][PAGED];
    uint8_t state[LMI_N_OWN][PAGED];
    int64_t held[PAGED][LAM_N_HELD], held_total[PAGED][LAM_N_HELD];
    lam_memory_totals memory;
    lam_checked checked;
    lam_health health;
    lam_finding finding;
} paged;

OOM_UNUSED static paged *paged_new(void) {
    paged *p = calloc(1, sizeof *p);
    assert_non_null(p);
    p->o = (lmi_outline){.at = p->at,
                         .name = "Net",
                         .convention = "exact",
                         .calls = 1,
                         .source = "a test",
                         .version = "1",
                         .peak_place = -1,
                         .backward_us = -1};
    return p;
}

/* The next place in depth-first order. */
OOM_UNUSED static int32_t paged_place(paged *p, int32_t parent, const char *name, const char *type) {
    int32_t i = p->o.n++;
    assert_true(i < PAGED);
    p->at[i] = (lmi_outline_place){.parent = parent,
                                   .end = i + 1,
                                   .name = name,
                                   .type = type,
                                   .in = "",
                                   .out = "",
                                   .family = LMI_OTHER_FAMILY,
                                   .run = i,
                                   .n_run = 1,
                                   .level = -1,
                                   .formulas = -1};
    p->at[i].depth = parent < 0 ? 0 : p->at[parent].depth + 1;
    if (parent >= 0) p->at[parent].n_children++;
    for (int32_t k = parent; k >= 0; k = p->at[k].parent) p->at[k].end = i + 1;
    return i;
}

OOM_UNUSED static void paged_add(paged *p, lmi_own_number k, int32_t place, int64_t v) {
    p->o.own[k] = p->own[k];
    p->o.total[k] = p->total[k];
    p->own[k][place] += v;
    for (int32_t i = place; i >= 0; i = p->at[i].parent) p->total[k][i] += v;
    lam_count all = lmi_exact(p->total[k][0]);
    if (k == LMI_OWN_PARAMS) p->o.params.params = p->o.params.grad_params = all;
    if (k == LMI_OWN_PARAM_BYTES)
        p->o.params.param_bytes = p->o.params.logical_bytes = p->o.params.local_bytes = all;
    if (k == LMI_OWN_MACS) p->o.macs[LAM_FORWARD] = all;
    if (k == LMI_OWN_FLOPS) p->o.flops[LAM_FORWARD] = all;
}

OOM_UNUSED static void paged_hold(paged *p, int32_t place, lam_held held, int64_t v) {
    p->o.held = p->held;
    p->o.held_total = p->held_total;
    p->o.memory = &p->memory;
    p->memory.held[held] += v;
    p->memory.peak += v;
    p->held[place][held] += v;
    for (int32_t i = place; i >= 0; i = p->at[i].parent) p->held_total[i][held] += v;
    paged_add(p, LMI_OWN_HELD, place, v);
}

/* Its values were checked; `sentence` is that of the first of `n` findings, at most one. */
OOM_UNUSED static void paged_health(paged *p, const char *sentence, int64_t tensors, int32_t n) {
    p->checked = (lam_checked){.tensors = tensors};
    p->health = (lam_health){.checked = &p->checked,
                             .sentence = sentence,
                             .findings = {.data = &p->finding, .n = (size_t)n, .size = sizeof p->finding}};
    p->o.health = &p->health;
}

/* Equal siblings from `first` on. */
OOM_UNUSED static void paged_run(paged *p, int32_t first, int32_t n) {
    p->at[first].n_run = n;
    for (int32_t i = first, k = 0; k < n; k++, i = p->at[i].end) p->at[i].run = first;
}

/* Net of a (Conv2d), b (Sequential) of three equal Linear, c (Embedding): 500 parameters, 1,000 MACs. */
OOM_UNUSED static paged *paged_net(void) {
    paged *p = paged_new();
    paged_place(p, -1, "", "Net");
    int32_t a = paged_place(p, 0, "a", "Conv2d"), b = paged_place(p, 0, "b", "Sequential");
    static const char *const names[] = {"0", "1", "2"};
    p->at[a].family = LMI_CONVOLUTION;
    p->at[a].out = "8\u00d764\u00d77\u00d77 float32, 8 int64, 1 bool +2";
    p->at[b].family = p->at[0].family = LMI_CONTAINER;
    for (int i = 0; i < 3; i++) {
        int32_t x = paged_place(p, b, names[i], "Linear");
        p->at[x].family = LMI_LINEAR;
        paged_add(p, LMI_OWN_PARAMS, x, 50);
        paged_add(p, LMI_OWN_MACS, x, 200);
    }
    int32_t c = paged_place(p, 0, "c", "Embedding");
    p->at[c].family = LMI_EMBEDDING;
    paged_run(p, b + 1, 3);
    paged_add(p, LMI_OWN_PARAMS, a, 100);
    paged_add(p, LMI_OWN_MACS, a, 400);
    paged_add(p, LMI_OWN_PARAMS, c, 250);
    return p;
}

/* A part of its page, into `shown`. */
OOM_UNUSED static void paged_part(paged *p, const lam_page_options *options, void (*part)(lmi_page *)) {
    static const lam_page_options none = {0};
    lmi_page page;
    lam_error e = {0};
    lmi_page_start(&page, &p->o, options ? options : &none, show_sink(), &e);
    part(&page);
    assert_int_equal(lmi_buf_flush(&page.out, page.to, &e), LAM_OK);
    lmi_buf_free(&page.out);
}

OOM_UNUSED static int shown_times(const char *part) {
    int n = 0;
    for (const char *s = shown; (s = strstr(s, part)) != NULL; s += strlen(part)) n++;
    return n;
}

#endif
