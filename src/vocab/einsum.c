/* SPDX-License-Identifier: Apache-2.0
 *
 * The equations of einsum: which axes of its tensors belong together. */
#include "vocab/vocab.h"

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/* Reads one term and leaves `at` behind it, at a comma, an arrow or the end. */
static bool read_term(const char **at, lmi_einsum_term *out) {
    *out = (lmi_einsum_term){.dots = -1};
    for (; **at && **at != ',' && **at != '-'; ++*at) {
        const char *letter = strchr(alphabet, **at);
        if (letter) {
            if (out->n == LMI_EINSUM_AXES) return false;
            out->letter[out->n++] = (uint8_t)(letter - alphabet);
        } else if (strncmp(*at, "...", 3) == 0 && out->dots < 0) {
            out->dots = out->n;
            *at += 2;
        } else if (**at != ' ') {
            return false;
        }
    }
    return true;
}

/* Each letter of a result is in a term, and once in the result. */
static bool is_result(const lmi_einsum_term *t, const int32_t *occurs) {
    bool seen[LMI_EINSUM_LETTERS] = {false};
    for (int32_t i = 0; i < t->n; i++) {
        if (occurs[t->letter[i]] == 0 || seen[t->letter[i]]) return false;
        seen[t->letter[i]] = true;
    }
    return true;
}

static bool imply_result(lmi_einsum *e, const int32_t *occurs) {
    e->result = (lmi_einsum_term){.dots = -1};
    for (int32_t i = 0; i < e->n; i++)
        if (e->term[i].dots >= 0) e->result.dots = 0;
    for (int32_t i = 0; i < LMI_EINSUM_LETTERS; i++) {
        if (occurs[i] != 1) continue;
        if (e->result.n == LMI_EINSUM_AXES) return false;
        e->result.letter[e->result.n++] = (uint8_t)i;
    }
    return true;
}

bool lmi_einsum_read(const char *equation, lmi_einsum *out) {
    int32_t occurs[LMI_EINSUM_LETTERS] = {0};
    const char *at = equation;
    bool more = true;
    for (out->n = 0; more; at += more) {
        if (out->n == LMI_EINSUM_TERMS || !read_term(&at, &out->term[out->n])) return false;
        const lmi_einsum_term *t = &out->term[out->n++];
        for (int32_t i = 0; i < t->n; i++) occurs[t->letter[i]]++;
        more = *at == ',';
    }
    if (*at == '\0') return imply_result(out, occurs);
    if (at[1] != '>') return false;
    at += 2;
    return read_term(&at, &out->result) && *at == '\0' && is_result(&out->result, occurs);
}

bool lmi_einsum_label(const lmi_einsum_term *t, int32_t ndim, uint8_t labels[LMI_EINSUM_AXES]) {
    const int32_t others = ndim - t->n, before = t->dots < 0 ? t->n : t->dots;
    if (others < 0 || ndim > LMI_EINSUM_AXES || (others > 0 && t->dots < 0)) return false;
    for (int32_t i = 0; i < t->n; i++) labels[i < before ? i : i + others] = t->letter[i];
    for (int32_t i = 0; i < others; i++) labels[before + i] = (uint8_t)(LMI_EINSUM_LETTERS + others - 1 - i);
    return true;
}
