/* SPDX-License-Identifier: Apache-2.0
 * allowed: which names a pickle may import without harm. */
#ifndef LMI_READ_ALLOWED_H
#define LMI_READ_ALLOWED_H

#include "lamina.h"

/* What importing and calling the name may do; known names are told by module and name exactly (allowed.def).
 */
lam_import_kind lmi_import_kind(const char *module, const char *name);

#endif
