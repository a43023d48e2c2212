/* SPDX-License-Identifier: Apache-2.0
 *
 * The phases of the named ranks or nodes beside the median of the others: bars on one scale, and a table. */
#include "report/runs/many.h"

#include <math.h>

enum { LEFT = 110, ROW = 26, HIGH = 18, RIGHT = 80, LABEL = 14 };

static const struct {
    lmi_us of;
    const char *name, *color;
} phases[] = {{LMI_US_INPUT, "input", "4"},         {LMI_US_H2D, "h2d", "5"},
              {LMI_US_FORWARD, "forward", "0"},     {LMI_US_BACKWARD, "backward", "1"},
              {LMI_US_OPTIMIZER, "optimizer", "2"}, {LMI_US_COMM, "waits", "3"},
              {LMI_US_OTHER, "other", "8"}};
enum { N_PHASES = sizeof phases / sizeof *phases };

static void put_who(lmi_many *p, lmi_buf *b, int32_t row, int32_t columns) {
    const lmi_phases *of = &p->r->phases[row];
    if (of->rank >= 0)
        lmi_putf(b, "rank %d", (int)of->rank);
    else if (of->node >= 0)
        lmi_put_name(b, lmi_ranks_node_name(p->r, of->node), columns);
    else
        lmi_put(b, p->r->n_phases > 1 ? "others" : "all");
}

static double sum_of(const lmi_phases *of) {
    double sum = 0;
    for (int k = 0; k < N_PHASES; k++)
        if (of->of[phases[k].of] > 0) sum += of->of[phases[k].of];
    return sum;
}

static void draw(lmi_many *p) {
    const lam_ranks *r = p->r;
    const double wide = LMI_PAGE_PICTURE - LEFT - RIGHT;
    double most = 1;
    lmi_svg s;
    for (int32_t i = 0; i < r->n_phases; i++) most = fmax(most, sum_of(&r->phases[i]));
    lmi_svg_start(&s, p->b, false, "Phases of a step, by rank or node");
    for (int32_t i = 0; i < r->n_phases; i++) {
        double x = LEFT;
        LMI_DRAW(&s, "<text class=\"s r\" x=\"~\" y=\"~\">", LEFT - 8, i * ROW + 16);
        put_who(p, &s.body, i, LABEL);
        lmi_svg_put(&s, "</text>");
        for (int k = 0; k < N_PHASES; k++) {
            const double v = r->phases[i].of[phases[k].of];
            if (!(v > 0)) continue;
            lmi_putf(&s.body, "<path class=\"k%s\" d=\"", phases[k].color);
            LMI_DRAW(&s, "M~ ~h~v~h~z\"/>", x, i * ROW + 4, wide * v / most, HIGH, -wide * v / most);
            x += wide * v / most;
        }
        LMI_DRAW(&s, "<text class=\"s d\" x=\"~\" y=\"~\">", x + 6, i * ROW + 16);
        lmi_many_put_us(&s.body, r->phases[i].of[LMI_US_STEP]);
        lmi_svg_put(&s, "</text>");
    }
    lmi_svg_end(&s, (lmi_rect){0, 0, LMI_PAGE_PICTURE, r->n_phases * ROW + 4}, false);
}

void lmi_many_beside(lmi_many *p) {
    const lam_ranks *r = p->r;
    lmi_put(p->b, "<div class=\"fig\">");
    draw(p);
    lmi_put(p->b, "</div><div class=\"leg\">");
    for (int k = 0; k < N_PHASES; k++)
        lmi_putf(p->b, "<span><i class=\"g%s\"></i>%s</span>", phases[k].color, phases[k].name);
    lmi_put(p->b, "</div>");
    lmi_many_table(p, "Table of phases", false);
    lmi_many_head(p, "a step", LMI_N_ORIGINS);
    for (int k = 0; k < N_PHASES; k++) lmi_many_head(p, phases[k].name, LMI_FROM_WINDOWS);
    lmi_many_head(p, "own work", LMI_FROM_WINDOWS);
    lmi_many_head(p, "step", LMI_FROM_WINDOWS);
    lmi_put(p->b, "</tr></thead><tbody>");
    for (int32_t i = 0; i < r->n_phases; i++) {
        lmi_put(p->b, "<tr><th scope=\"row\"><bdi>");
        put_who(p, p->b, i, LMI_PAGE_CELL);
        lmi_put(p->b, "</bdi></th>");
        for (int k = 0; k < N_PHASES; k++) lmi_many_us(p, r->phases[i].of[phases[k].of]);
        lmi_many_us(p, r->phases[i].of[LMI_US_OWN]);
        lmi_many_us(p, r->phases[i].of[LMI_US_STEP]);
        lmi_put(p->b, "</tr>\n");
    }
    lmi_many_table_end(p, false);
}
