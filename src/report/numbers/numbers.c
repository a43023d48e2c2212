/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of numbers, and the lists that are made of it. */
#include "report/numbers/numbers.h"

#define IN(sorted, drawn, limited, paged)                                                                    \
    { sorted, drawn, limited, paged }
const lmi_figure_info lmi_figures[LMI_N_FIGURES] = {
#define OWN(id)
#define NUMBER(id, name, title, part_title, unit, needs, metric, part, other, back, adds_up, at, always,     \
               column)                                                                                       \
    {name,                                                                                                   \
     title,                                                                                                  \
     part_title,                                                                                             \
     LMI_##unit,                                                                                             \
     LAM_NEEDS_##needs,                                                                                      \
     metric,                                                                                                 \
     {LMI_OWN_##part, LMI_OWN_##other},                                                                      \
     LMI_FIGURE_##back,                                                                                      \
     adds_up,                                                                                                \
     at,                                                                                                     \
     always,                                                                                                 \
     column},
#include "report/numbers/numbers.def"
#undef OWN
#undef NUMBER
};

lmi_figure lmi_figure_at(lmi_figure_list list, int i) {
    for (int k = 0; k < LMI_N_FIGURES; k++)
        if (lmi_figures[k].at[list] == i + 1) return (lmi_figure)k;
    return LMI_FIGURE_NO;
}

lmi_figure lmi_figure_find(lmi_figure_list list, const char *name, size_t n) {
    for (int k = 0; k < LMI_N_FIGURES; k++) {
        const char *its = lmi_figures[k].name;
        if (lmi_figures[k].at[list] && strlen(its) == n && memcmp(its, name, n) == 0) return (lmi_figure)k;
    }
    return LMI_FIGURE_NO;
}

void lmi_put_figures(lmi_buf *b, lmi_figure_list list) {
    lmi_figure k;
    for (int i = 0; (k = lmi_figure_at(list, i)) != LMI_FIGURE_NO; i++)
        lmi_putf(b, "%s%s", i ? ", " : "", lmi_figures[k].name);
}

const char *lmi_part_title(lmi_figure k) {
    return lmi_figures[k].part_title ? lmi_figures[k].part_title : lmi_figures[k].title;
}

lam_needs lam_number_needs(const char *name) {
    for (int k = 0; k < LMI_N_FIGURES; k++)
        if (strcmp(lmi_figures[k].name, name) == 0) return lmi_figures[k].needs;
    return LAM_NEEDS_NOTHING;
}

/* -- the fields of a row --------------------------------------------------------------------------------- */

const lmi_row_name lmi_row_names[LMI_N_ROW_NAMES] = {
#define FIELD(path, python, csv, when, form) {path, {python, csv}, LMI_ROW_##when, LMI_ROW_##form},
#include "report/numbers/row.def"
};

lam_param_totals lmi_row_owned(const lam_cost_row *row) {
    return (lam_param_totals){
#define OWNED(member, name, when, otherwise, csv, form) .member = row->member,
#include "report/numbers/row.def"
    };
}

void lmi_row_own(lam_cost_row *row, const lam_param_totals *owned) {
#define OWNED(member, name, when, otherwise, csv, form) row->member = owned->member;
#include "report/numbers/row.def"
}
