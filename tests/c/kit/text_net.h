/* SPDX-License-Identifier: Apache-2.0
 *
 * Models from text: "Net(stem: Conv2d 3 8 k3 s2 p1; act: ReLU; pool: AvgPool2d k2; fc: Linear 8 10)". A part
 * is `name: Class sizes words (parts)`; without a name it has its number. Parts are called in turn, each with
 * what the one before gave. Sizes are in and out (channels or features), k, s, p the kernel, stride and
 * padding, for a Linear or a convolution; one size is the output's, or the number of features. Words: `idle`,
 * it is not called; `inplace`; `nobias`; `twice`, it is called again with what it gave. `=path` is the module
 * of another place once more. What a list holds is called by what holds the list. */
#ifndef LAMINA_TEST_TEXT_NET_H
#define LAMINA_TEST_TEXT_NET_H

#include "kit/net.h"

#include <ctype.h>
#include <stdlib.h>

enum { TEXT_PARTS = 96, TEXT_AXES = 6, TEXT_NAME = 64 };

typedef struct text_shape {
    int64_t size[TEXT_AXES];
    int32_t ndim;
    uint64_t data; /* the identity of its memory, 0: unknown */
} text_shape;

typedef struct text_part {
    char name[TEXT_NAME], type[TEXT_NAME];
    int64_t size[2], k, s, p;
    int32_t n_sizes, parent, end; /* the parts in it are those up to `end` */
    int32_t module, place;
    bool idle, inplace, nobias, twice;
} text_part;

typedef struct text_net {
    net n;
    text_part part[TEXT_PARTS];
    int32_t n_parts;
    uint64_t data; /* the last identity that was given out, 0: none are */
} text_net;

/* -- reading --------------------------------------------------------------------------------------------- */

static const char *text_skip(const char *s) { return s + strspn(s, " \n"); }

static const char *text_word(const char *s, char word[TEXT_NAME]) {
    size_t n = strcspn(s, " :;()\n");
    if (n == 0 || n >= TEXT_NAME) fail_msg("no word at '%.40s'", s);
    memcpy(word, s, n);
    word[n] = '\0';
    return text_skip(s + n);
}

static void text_setting(text_part *p, const char *word) {
    char *end = NULL;
    const bool letter = strchr("ksp", word[0]) != NULL;
    const int64_t value = strtoll(word + letter, &end, 10);
    if (strcmp(word, "idle") == 0)
        p->idle = true;
    else if (strcmp(word, "inplace") == 0)
        p->inplace = true;
    else if (strcmp(word, "nobias") == 0)
        p->nobias = true;
    else if (strcmp(word, "twice") == 0)
        p->twice = true;
    else if (*end || end == word + letter)
        fail_msg("'%s' is no setting", word);
    else if (letter)
        *(word[0] == 'k' ? &p->k : word[0] == 's' ? &p->s : &p->p) = value;
    else if (p->n_sizes < 2)
        p->size[p->n_sizes++] = value;
}

static const char *text_settings(text_part *p, const char *s) {
    while (*s && !strchr(";()", *s)) {
        char word[TEXT_NAME];
        s = text_word(s, word);
        text_setting(p, word);
    }
    return s;
}

/* Reads a part, up to what ends it. */
static const char *text_part_of(text_net *t, const char *s, int32_t parent, int32_t number) {
    const int32_t me = t->n_parts++;
    assert_true(me < TEXT_PARTS);
    text_part *p = &t->part[me];
    *p = (text_part){.parent = parent, .k = 1, .s = -1};
    s = text_word(text_skip(s), p->type);
    if (parent >= 0) snprintf(p->name, sizeof p->name, "%d", (int)number);
    if (*s == ':') {
        memcpy(p->name, p->type, sizeof p->name);
        s = text_word(text_skip(s + 1), p->type);
    }
    s = text_settings(p, s);
    if (*s == '(') {
        for (int32_t i = 0; *s != ')'; i++) {
            s = text_part_of(t, s + 1, me, i);
            if (!*s) fail_msg("'%s' is not closed", p->type);
        }
        s = text_settings(p, text_skip(s + 1));
    }
    if (p->s < 0) p->s = strstr(p->type, "Pool") ? p->k : 1;
    p->end = t->n_parts;
    return s;
}

/* -- modules --------------------------------------------------------------------------------------------- */

static bool text_is(const text_part *p, const char *word) { return strstr(p->type, word) != NULL; }

static bool text_is_list(const text_part *p) { return text_is(p, "ModuleList"); }

static int32_t text_rank(const text_part *p) { return p->type[strlen(p->type) - 2] - '0'; }

static int32_t text_path_module(const text_net *t, const char *path) {
    for (int32_t i = 0; i < t->n_parts; i++) {
        char whole[256] = "";
        for (int32_t k = i; k > 0; k = t->part[k].parent) {
            char longer[sizeof whole];
            snprintf(longer, sizeof longer, "%.60s%s%.180s", t->part[k].name, *whole ? "." : "", whole);
            memcpy(whole, longer, sizeof whole);
        }
        if (strcmp(whole, path) == 0) return t->part[i].module;
    }
    fail_msg("there is no part '%s'", path);
    return -1;
}

static int32_t text_module(text_net *t, const text_part *p) {
    net *n = &t->n;
    if (p->type[0] == '=') return text_path_module(t, p->type + 1);
    if (text_is(p, "Conv") && p->n_sizes == 2)
        return net_conv(n, p->type, text_rank(p), p->size[0], p->size[1], p->k, p->s, p->p);
    if (strcmp(p->type, "Linear") == 0 && p->n_sizes == 2 && !p->nobias)
        return net_linear(n, p->size[0], p->size[1]);
    if (text_is(p, "Pool") && !text_is(p, "Adaptive")) return net_pool(n, p->type, p->k, p->s);
    const int32_t me = (int32_t)(p - t->part);
    const bool leaf = p->end == me + 1 && lam_word_module(p->type) >= 0;
    const int32_t m = net_module(n, p->type, leaf ? LAM_MODULE_LEAF : 0);
    if (text_is(p, "Adaptive")) net_int(n, m, "output_size", p->size[0]);
    if (text_is(p, "LU") || text_is(p, "LeakyReLU")) net_bool(n, m, "inplace", p->inplace);
    if (strcmp(p->type, "Linear") == 0 && p->n_sizes == 2) {
        net_int(n, m, "in_features", p->size[0]);
        net_int(n, m, "out_features", p->size[1]);
        net_param(n, m, "weight", SH(p->size[1], p->size[0]));
    }
    if (strcmp(p->type, "Flatten") == 0) {
        net_int(n, m, "start_dim", 1);
        net_int(n, m, "end_dim", -1);
    }
    if (text_is(p, "BatchNorm")) {
        net_int(n, m, "num_features", p->size[0]);
        net_param(n, m, "weight", SH(p->size[0]));
        net_param(n, m, "bias", SH(p->size[0]));
        net_buffer(n, m, "running_mean", SH(p->size[0]));
        net_buffer(n, m, "running_var", SH(p->size[0]));
    }
    return m;
}

/* -- calls ----------------------------------------------------------------------------------------------- */

static int64_t text_window(const text_part *p, int64_t size) {
    if (text_is(p, "Adaptive")) return p->size[0];
    if (text_is(p, "Transpose")) return (size - 1) * p->s - 2 * p->p + p->k;
    return (size + 2 * p->p - p->k) / p->s + 1;
}

/* What a layer gives for x. */
static text_shape text_result(text_net *t, const text_part *p, text_shape x) {
    text_shape y = x;
    if (text_is(p, "Conv") || text_is(p, "Pool")) {
        for (int32_t i = x.ndim - text_rank(p); i < x.ndim; i++) y.size[i] = text_window(p, x.size[i]);
        if (text_is(p, "Conv")) y.size[1] = p->size[1];
    } else if (strcmp(p->type, "Linear") == 0 && p->n_sizes == 2) {
        y.size[x.ndim - 1] = p->size[1];
    } else if (strcmp(p->type, "Flatten") == 0) {
        y = (text_shape){{x.size[0], 1}, 2, x.data};
        for (int32_t i = 1; i < x.ndim; i++) y.size[1] *= x.size[i];
    }
    if (t->data && !p->inplace) y.data = ++t->data;
    return y;
}

static const text_part *text_meant(const text_net *t, const text_part *p) {
    const int32_t module = p->module;
    for (p = t->part; p->module != module;) p++;
    return p;
}

/* What a part gives; calls it, and what is in it, if `parent` is not -2. A call is told before those in it.
 */
static text_shape text_call(text_net *t, int32_t i, text_shape x, int32_t parent) {
    const text_part *p = text_meant(t, &t->part[i]);
    const int32_t me = (int32_t)(p - t->part);
    text_shape y = x;
    if (t->part[i].idle) return x;
    const bool list = text_is_list(p);
    int32_t call = parent;
    if (p->end > me + 1 && !list && parent != -2) {
        const uint64_t data = t->data;
        y = text_call(t, me, x, -2);
        t->data = data;
        call = net_call(&t->n, p->module, parent, x.size, x.ndim, x.data, y.size, y.ndim, y.data);
    }
    y = x;
    for (int32_t k = me + 1; k < p->end; k = t->part[k].end) y = text_call(t, k, y, call);
    for (int32_t k = 0; k <= (p->end == me + 1) * p->twice; k++) {
        if (p->end > me + 1 || list) break;
        const text_shape in = y;
        y = text_result(t, p, in);
        if (parent != -2)
            net_call(&t->n, p->module, parent, in.size, in.ndim, in.data, y.size, y.ndim, y.data);
    }
    return y;
}

/* -- all of it ------------------------------------------------------------------------------------------- */

/* The model of a text, called once with a tensor of `sizes`, not finished yet: modules and places are
 * numbered as parts in the text are. `data`: it is known what memory is whose, so that data connects. */
OOM_UNUSED static net net_of_text(const char *text, bool data, const int64_t *sizes, int32_t ndim) {
    static text_net t;
    text_shape x = {.ndim = ndim, .data = data};
    t = (text_net){.n = net_new(), .data = data};
    assert_true(ndim <= TEXT_AXES);
    memcpy(x.size, sizes, (size_t)ndim * sizeof *sizes);
    if (*text_part_of(&t, text, -1, 0)) fail_msg("'%s' does not end with its first part", text);
    for (int32_t i = 0; i < t.n_parts; i++) {
        text_part *p = &t.part[i];
        p->module = -1;
        p->module = text_module(&t, p);
        p->place = net_place(&t.n, p->parent < 0 ? -1 : t.part[p->parent].place, p->name, p->module);
    }
    text_call(&t, 0, x, -1);
    return t.n;
}

OOM_UNUSED static lam_model *text_model(const char *text, bool data, const int64_t *sizes, int32_t ndim) {
    net n = net_of_text(text, data, sizes, ndim);
    return net_done(&n);
}

#endif
