/* SPDX-License-Identifier: Apache-2.0
 * tables: what module.c puts into the module. */
#ifndef LMX_TABLES_H
#define LMX_TABLES_H

#include "base/ext.h"

extern PyType_Spec lmx_capture_spec, lmx_model_spec, lmx_costs_spec, lmx_snapshot_spec, lmx_dry_spec,
    lmx_recorder_spec, lmx_schedule_spec, lmx_root_spec, lmx_tokens_spec, lmx_ranks_spec,
    lmx_table_spec, lmx_recordings_spec;
extern PyMethodDef lmx_text_methods[]; /* text.c */
extern PyMethodDef lmx_fit_methods[];  /* fit.c */
extern PyMethodDef lmx_page_methods[]; /* page.c */
extern PyMethodDef lmx_weights_methods[]; /* weights.c */
extern PyMethodDef lmx_tokens_functions[]; /* tokens.c */
#endif
