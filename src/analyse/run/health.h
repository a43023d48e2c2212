/* SPDX-License-Identifier: Apache-2.0
 * health: the origin of non-finite values. health.c finds it, healthtext.c writes the sentences. */
#ifndef LMI_HEALTH_H
#define LMI_HEALTH_H

#include "analyse/costs.h"

struct lam_health {
    lmi_arena arena;
    const lam_model *m;
    const lam_checked *checked; /* of the model: how much was checked */
    uint8_t *forward, *backward; /* lam_health_state of each call */
    uint8_t *places[2];          /* of each place, forward and backward */
    lmi_vec findings;            /* lam_finding */
    const char *sentence;
};

/* How many findings there are. */
static inline int32_t lmi_n_findings(const lam_health *h) { return (int32_t)h->findings.n; }
/* The worse of two states. Unknown is worse than fine: something was not checked. */
uint8_t lmi_worse_health(uint8_t a, uint8_t b);
/* Fills `places`, which have room, from the states of calls. */
void lmi_health_places(lam_health *h);
/* Fills the findings' texts and the sentence. */
lam_status lmi_health_tell(lam_health *h, lam_error *e);

#endif
