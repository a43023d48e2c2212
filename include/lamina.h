/* SPDX-License-Identifier: Apache-2.0
 *
 * lamina: see every layer of a neural network.
 *
 * Ownership: free the result of a `_new` function with its `_free`. Every other pointer is borrowed and is
 * valid as long as the object that it was read from.
 *
 * Errors: every function that can fail returns a lam_status and takes a `lam_error *` last (NULL is allowed).
 * The caller owns the error, which keeps the first failure. The library never prints, exits or aborts. A
 * number that can't be known is not an error: its state is LAM_UNKNOWN or LAM_AT_LEAST, with a reason.
 *
 * Threads: an object may be used by one thread at a time; different objects are independent. There is no
 * global mutable state.
 *
 * Each part includes those before it:
 *   lamina_core.h       errors and sinks
 *   lamina_words.h      spellings of layers and operators, data types, values, what kernels allocate
 *   lamina_build.h      building a model
 *   lamina_model.h      reading it
 *   lamina_count.h      conventions, rules, costs, comparisons
 *   lamina_analyse.h    receptive fields, the graph, memory, health, times, whether a run fits
 *   lamina_report.h     reports, and numbers as text
 *   lamina_read.h       models from files
 *   lamina_fields.h, lamina_recording.h, lamina_command.h: results as fields, recordings, the command
 *   lamina_diff.h       differences of models, saved reports and recordings
 *   lamina_tokens.h     language models in tokens
 *   lamina_ranks.h      who slows a run of many ranks
 *   lamina_arrow.h      what recordings hold as tables, by Arrow's C streams */
#ifndef LAMINA_H
#define LAMINA_H

#include "lamina_arrow.h"
#include "lamina_command.h"
#include "lamina_diff.h"
#include "lamina_fields.h"
#include "lamina_ranks.h"
#include "lamina_read.h"
#include "lamina_recording.h"
#include "lamina_tokens.h"

#endif
