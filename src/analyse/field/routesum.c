/* SPDX-License-Identifier: Apache-2.0
 *
 * How einsum maps positions: an axis leads to the axis of the result that has its letter, and is summed over
 * where there is none. */
#include "analyse/field/routearg.h"

#include <stdio.h>

enum { LETTERS = 26, MOST = 2 * LETTERS + 4 };

static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

/* The label of each axis: its letter or, of those in place of "...", -1, -2, ... from the last one on.
 * False: the text does not fit the axes. */
static bool label(const char *at, const char *end, int32_t ndim, int16_t *out) {
    int32_t letters = 0, axis = 0;
    for (const char *c = at; c < end; c++) letters += is_letter(*c);
    for (; at < end; at++) {
        if (is_letter(*at)) {
            if (axis >= ndim) return false;
            out[axis++] = (unsigned char)*at;
        } else if (end - at >= 3 && memcmp(at, "...", 3) == 0) {
            for (int32_t left = ndim - letters; left > 0 && axis < ndim; left--) out[axis++] = (int16_t)-left;
            at += 2;
        } else if (*at != ' ') {
            return false;
        }
    }
    return axis == ndim;
}

/* The result of an equation without an arrow: "...", and each letter that occurs once, in their order. */
static void write_result(const char *equation, char *to) {
    static const char all[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    if (strstr(equation, "...")) to += snprintf(to, MOST, "...");
    for (const char *c = all; *c; c++) {
        const char *first = strchr(equation, *c);
        if (first && !strchr(first + 1, *c)) *to++ = *c;
    }
    *to = '\0';
}

/* einsum(equation, tensors) */
bool lmi_way_einsum(lmi_arena *a, const lam_op_sig *s, int32_t in, lmi_route *r) {
    const lam_value *v = lmi_sig_value(s, 0);
    const char *equation = v && v->type == LAM_TEXT ? v->text : "", *arrow = strstr(equation, "->"),
               *end = arrow ? arrow : equation + strlen(equation), *from = equation;
    const lam_shape out = lmi_result_shape(s);
    char implied[MOST];
    int16_t own[LMI_AXES], result[LMI_AXES];
    write_result(equation, implied);
    const char *given = arrow ? arrow + 2 : implied;
    for (int32_t nth = nth_tensor(s, in); nth > 0 && from; nth--) {
        from = memchr(from, ',', (size_t)(end - from));
        from += from != NULL;
    }
    const char *to = from ? memchr(from, ',', (size_t)(end - from)) : NULL;
    const int32_t n = s->in[in].ndim;
    if (!from || n > LMI_AXES || out.ndim > LMI_AXES || !label(from, to ? to : end, n, own) ||
        !label(given, given + strlen(given), out.ndim, result))
        return lmi_way_spread(a, s, in, r);
    to_all(r);
    for (int32_t i = 0; i < n; i++)
        for (int32_t k = 0; k < out.ndim; k++)
            if (own[i] == result[k]) r->to[i] = (int8_t)k;
    return true;
}
