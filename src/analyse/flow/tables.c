/* SPDX-License-Identifier: Apache-2.0
 *
 * The table that an input chooses rows of: the vocabulary of a language model. */
#include "analyse/flow/flow.h"

enum { TABLE, INDEX }; /* positions of the arguments of an embedding */

/* The table of an operator that chooses rows; NULL: it does not. */
static const lam_op_arg *table_of(const lam_op *o) {
    const lmi_kind kind = lmi_op_kind(o->sig->word);
    const int32_t table = lmi_tensor_argument(o->sig, TABLE);
    if (kind != LMI_K_embedding && kind != LMI_K_embedding_bag) return NULL;
    return table >= 0 && o->sig->in[table].ndim == 2 ? &o->sig->in[table] : NULL;
}

int64_t lam_model_table_rows(const lam_model *m, int32_t in, bool *is_largest) {
    int64_t most = 0, largest = -1, rows = -1;
    for (int32_t i = 0; i < m->n_ops; i++) {
        const lam_op_arg *table = table_of(&m->ops[i]);
        const int64_t n = table ? lmi_op_arg_numel(table) : -1;
        if (n > most) most = n;
        if (n < 1 || lam_model_source_input(m, i, lmi_tensor_argument(m->ops[i].sig, INDEX)) != in) continue;
        if (n > largest) largest = n;
        if (rows < 0 || table->sizes[0] < rows) rows = table->sizes[0];
    }
    *is_largest = largest == most;
    return rows;
}
