/* SPDX-License-Identifier: Apache-2.0
 *
 * The axes of inputs along which receptive fields are shown. */
#include "analyse/field/rfgraph.h"

/* True for a layer that takes sequences with the batch as the second axis. */
static bool sequence_first(const lam_model *m, const lam_event *ev) {
    const lam_module *mod = &m->modules[ev->module];
    lmi_kind kind = lmi_word_kind(mod->word);
    if (kind >= LMI_N_KINDS || ev->n_out == 0 || ev->out[0].ndim != 3) return false;
    if (lmi_kind_family(kind) != LMI_F_attention && lmi_kind_family(kind) != LMI_F_recurrent) return false;
    for (int32_t i = 0; i < mod->n_attrs; i++)
        if (!strcmp(mod->attrs[i].name, "batch_first"))
            return mod->attrs[i].value.type == LAM_BOOL && mod->attrs[i].value.i == 0;
    return false;
}

/* Marks slots that are the batch of such a layer: its second axis has no positions. */
static void find_batches(const lam_costs *c, lmi_rf *rf) {
    for (int32_t r = 0; r < c->n_rows; r++) {
        int32_t event = c->rows[r].event;
        const lmi_span *s = rf->of_row[r];
        if (!s || event < 0 || !sequence_first(c->model, &c->model->events[event])) continue;
        for (int32_t k = 0; k < rf->n_slots; k++)
            rf->slot[k].batch |= s[k].kind == LMI_SPAN_TRACK && s[k].axis == 1;
    }
}

static bool has_batch(const lmi_rf *rf, int32_t input) {
    for (int32_t k = 0; k < rf->n_slots; k++)
        if (rf->slot[k].input == input && rf->slot[k].axis > 0 && rf->slot[k].batch) return true;
    return false;
}

/* True if an element of some row depends on several positions along the slot's axis, or may do so. */
static bool is_wide(const lam_costs *c, const lmi_rf *rf, int32_t slot) {
    for (int32_t r = 0; r < c->n_rows; r++) {
        const lmi_span *s = rf->of_row[r] ? &rf->of_row[r][slot] : NULL;
        if (s && (s->kind == LMI_SPAN_UNKNOWN || (s->kind != LMI_SPAN_NONE && lmi_span_size(s) > 1)))
            return true;
    }
    return false;
}

/* For an input of three axes with one position at most along the shown one, shows another along which there
 * are more. The batch and features have no positions, nor have the channels of an input of more axes. */
static void show_others(const lam_costs *c, lmi_rf *rf) {
    const lam_event *root = &c->model->events[0];
    lmi_rf_slot *slot = rf->slot;
    bool wide[LMI_RF_SLOTS], other[LMI_RF_SLOTS];
    for (int32_t k = 0; k < rf->n_slots; k++)
        wide[k] =
            (slot[k].shown || (slot[k].axis > 0 && !slot[k].batch && !slot[k].features)) && is_wide(c, rf, k);
    for (int32_t k = 0; k < rf->n_slots; k++) {
        bool here = false, there = false;
        for (int32_t i = 0; i < rf->n_slots; i++) {
            here = here || (slot[i].input == slot[k].input && slot[i].shown && wide[i]);
            there = there || (slot[i].input == slot[k].input && wide[i]);
        }
        other[k] = there && !here && root->in[slot[k].input].ndim == 3;
    }
    for (int32_t k = 0; k < rf->n_slots; k++)
        if (other[k]) slot[k].shown = wide[k];
}

/* The axes that a window moved along; if there are none, those after the channels, or the positions of a
 * sequence, or others if fields are wider there. A window that moved along none of them has an input of three
 * axes for channels and positions. */
void lmi_rf_choose(const lam_costs *c, lmi_rf *rf) {
    const lam_event *root = &c->model->events[0];
    bool any = false;
    find_batches(c, rf);
    for (int32_t k = 0; k < rf->n_slots; k++) any = any || (rf->slot[k].windowed && rf->slot[k].axis > 0);
    for (int32_t k = 0; k < rf->n_slots; k++) {
        lmi_rf_slot *s = &rf->slot[k];
        int32_t n = root->in[s->input].ndim;
        bool first = has_batch(rf, s->input); /* the sequence is along the first axis */
        bool along = n >= 4   ? s->axis >= 2
                     : n == 3 ? s->axis == (rf->lost ? 2
                                            : first  ? 0
                                                     : 1)
                              : (first ? s->axis == 0 : s->axis > 0 || n == 1);
        s->shown = any ? s->windowed && s->axis > 0 : along;
    }
    if (!any) show_others(c, rf);
}
