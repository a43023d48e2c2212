/* SPDX-License-Identifier: Apache-2.0
 *
 * The grid lines of a chart over time, with their labels, and the legend below a chart. */
#include "report/picture/svg.h"

double lmi_byte_step(double least) {
    static const int steps[] = {1, 2, 5, 10, 20, 50, 64, 100, 128, 200, 256, 500, 512};
    double unit = 1;
    while (unit * 1024 < least) unit *= 1024;
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
        if (steps[i] * unit >= least) return steps[i] * unit;
    return 1024 * unit;
}

double lmi_time_step(double least) {
    double unit = 1;
    while (unit * 10 <= least) unit *= 10;
    return unit >= least ? unit : unit * 2 >= least ? unit * 2 : unit * 5 >= least ? unit * 5 : unit * 10;
}

double lmi_scale_y(const lmi_scale *g, double v) { return g->below - (g->below - g->top) * v / g->most; }

void lmi_svg_grid(lmi_svg *s, const lmi_scale *g) {
    for (int i = 0; i * g->step <= g->most; i++) {
        double v = i * g->step, y = lmi_scale_y(g, v);
        LMI_DRAW(s, "<path class=\"ax\" d=\"M~ ~H~\"/>", g->left, y, g->right);
        LMI_DRAW(s, "<text class=\"s d r\" x=\"~\" y=\"~\">", g->left - 8, y + 4);
        if (i == 0)
            lmi_svg_put(s, "0");
        else if (g->bytes)
            lmi_put_iec(&s->body, v);
        else
            lmi_put_ns(&s->body, v);
        lmi_svg_put(s, "</text>");
    }
}

double lmi_svg_legend(lmi_svg *s, double left, double right, double y, const bool shown[LAM_N_HELD]) {
    enum { ROW = 18, SWATCH = 15, GAP = 16 };
    double x = left;
    for (int k = 0; k < LAM_N_HELD; k++) {
        const char *name = lam_held_name(lmi_held_order[k]);
        char rect[] = "<rect class=\"k0\" x=\"~\" y=\"~\" width=\"10\" height=\"10\" rx=\"2\"/>";
        if (!shown[k]) continue;
        double wide = SWATCH + 6 * (double)strlen(name);
        if (x > left && x + wide > right) x = left, y += ROW;
        *strchr(rect, '0') = (char)('0' + k);
        LMI_DRAW(s, rect, x, y);
        LMI_DRAW(s, "<text class=\"s\" x=\"~\" y=\"~\">", x + SWATCH, y + 9);
        lmi_svg_put(s, name);
        lmi_svg_put(s, "</text>");
        x += wide + GAP;
    }
    return y + ROW;
}
