/* SPDX-License-Identifier: Apache-2.0
 * facts_recurrent: RNN, LSTM, GRU and their cells. Steps are the product of all axes of the input but the
 * last, so (T, B, F), (B, T, F), (T, F) and the data of a packed sequence, (all steps, F), need no
 * distinction. */
#include "count/layers/layers.h"

static bool is_cell(lmi_kind k) { return k == LMI_K_rnn_cell || k == LMI_K_lstm_cell || k == LMI_K_gru_cell; }

void lmi_facts_recurrent(const lam_model *m, int32_t event, lmi_kind k, const lmi_slots *s, lmi_facts *f) {
    lam_shape x = lmi_input(m, event, s);
    int64_t hidden = lmi_value_int(s->at[LMI_S_hidden].value, -1),
            proj = lmi_value_int(s->at[LMI_S_proj].value, 0);
    lmi_fact_set(f, LMI_FACT_steps, lmi_axes(x, 0, -1));
    lmi_fact_set(f, LMI_FACT_in_size, lmi_axis(x, -1));
    lmi_fact_set(f, LMI_FACT_hidden, hidden);
    lmi_fact_set(f, LMI_FACT_proj, proj);
    lmi_fact_set(f, LMI_FACT_state, proj > 0 ? proj : hidden);
    bool biased = lmi_value_int(s->at[LMI_S_bias_flag].value, 1) != 0;
    lmi_fact_set(f, LMI_FACT_bias, biased);
    if (is_cell(k)) return;
    int64_t layers = lmi_value_int(s->at[LMI_S_layers].value, -1);
    lmi_fact_set(f, LMI_FACT_layers, layers > 0 ? layers : -1);
    lmi_fact_set(f, LMI_FACT_dirs, 1 + (lmi_value_int(s->at[LMI_S_bidirectional].value, 0) != 0));
    /* Dropout is applied between layers, so a single layer has none. */
    lmi_facts_drops(s->at[LMI_S_dropout].value, f);
}
