/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of subcommands. */
#include "cmd/cmd.h"

#include <string.h>

static const lmi_verb verbs[] = {
#define VERB(name, run, least, most, operands, options, summary, more)                                       \
    {#name, run, least, most, operands, options, summary, more},
#include "cmd/verbs.def"
#undef VERB
};
enum { N_VERBS = sizeof verbs / sizeof *verbs };

const lmi_verb *lmi_verb_at(int32_t i) { return i >= 0 && i < N_VERBS ? &verbs[i] : NULL; }

const lmi_verb *lmi_verb_find(const char *name) {
    for (int32_t i = 0; i < N_VERBS; i++)
        if (strcmp(verbs[i].name, name) == 0) return &verbs[i];
    return NULL;
}
