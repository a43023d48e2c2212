/* SPDX-License-Identifier: Apache-2.0
 *
 * Equations of einsum: their terms, what of an equation without an arrow is the result, and the labels of
 * axes. */
#include "kit/oom.h"

#include "vocab/vocab.h"

static char letter_of(uint8_t label) { return (char)(label < 26 ? 'A' + label : 'a' + label - 26); }

/* One term as the equation has it. */
static size_t write_term(const lmi_einsum_term *t, char *to) {
    size_t n = 0;
    for (int32_t i = 0; i <= t->n; i++) {
        if (t->dots == i) n += (size_t)sprintf(to + n, "...");
        if (i < t->n) to[n++] = letter_of(t->letter[i]);
    }
    to[n] = '\0';
    return n;
}

static void an_equation_is_read(void **state) {
    (void)state;
    static const struct {
        const char *equation, *read; /* NULL: it is refused */
    } all[] = {
        {"bij,bjk->bik", "bij,bjk->bik"},
        {" b i j , bjk -> b i k ", "bij,bjk->bik"},
        {"ij,jk", "ij,jk->ik"},
        {"ba,aC,D", "ba,aC,D->CDb"}, /* upper case first */
        {"aAzZ", "aAzZ->AZaz"},
        {"ii", "ii->"},
        {"ii->i", "ii->i"},
        {"i,i->", "i,i->"},
        {"k...j,...", "k...j,...->...jk"},
        {"...a->a", "...a->a"},
        {"a->...a", "a->...a"},
        {"a...->a...", "a...->a..."},
        {"", "->"},
        {"->", "->"},
        {",a->a", ",a->a"},
        {"abcdefghijklmnopqrstuvwxyzABCDEF->", "abcdefghijklmnopqrstuvwxyzABCDEF->"},
        {"abcdefghijklmnopqrstuvwxyzABCDEFG->", NULL}, /* more axes than a tensor has */
        {"abcdefghijklmnopqrstuvwxyz,ABCDEFG", NULL},
        {"a,b->ab->a", NULL},
        {"a,b->a,b", NULL},
        {"a,b-ab", NULL},
        {"a,b-", NULL},
        {"a,b- >ab", NULL},
        {"a>b", NULL},
        {"ab->aab", NULL},
        {"ab->c", NULL},
        {"......", NULL},
        {"...a...", NULL},
        {"a..", NULL},
        {"a.b", NULL},
        {"a. ..", NULL},
        {"....a", NULL},
        {"a...->......a", NULL},
        {"a1", NULL},
        {"a[b", NULL},
        {"a{b", NULL},
        {"a@b", NULL},
        {"a\tb", NULL},
        {"\xc3\xa4", NULL},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        lmi_einsum e;
        char text[256];
        size_t n = 0;
        if (!lmi_einsum_read(all[i].equation, &e)) {
            if (all[i].read) fail_msg("%s is refused", all[i].equation);
            continue;
        }
        for (int32_t k = 0; k < e.n; k++) {
            n += write_term(&e.term[k], text + n);
            n += (size_t)sprintf(text + n, k + 1 < e.n ? "," : "->");
        }
        write_term(&e.result, text + n);
        if (!all[i].read || strcmp(text, all[i].read) != 0)
            fail_msg("%s is read as %s, not %s", all[i].equation, text,
                     all[i].read ? all[i].read : "nothing");
    }
}

static void an_equation_has_so_many_terms_at_most(void **state) {
    (void)state;
    char text[2 * (LMI_EINSUM_TERMS + 1)];
    lmi_einsum e;
    for (int32_t n = LMI_EINSUM_TERMS; n <= LMI_EINSUM_TERMS + 1; n++) {
        for (int32_t i = 0; i < n; i++) memcpy(text + 2 * i, "a,", 2);
        text[2 * n - 1] = '\0';
        assert_int_equal(lmi_einsum_read(text, &e), n == LMI_EINSUM_TERMS);
    }
    assert_int_equal(e.n, LMI_EINSUM_TERMS);
}

/* The labels of a first term, where digits are the axes of "...", the last one 0. */
static void expect(const char *equation, int32_t ndim, const char *labels) {
    uint8_t got[LMI_EINSUM_AXES];
    char text[LMI_EINSUM_AXES + 1];
    lmi_einsum e;
    assert_true(lmi_einsum_read(equation, &e));
    if (!lmi_einsum_label(&e.term[0], ndim, got)) {
        if (labels) fail_msg("%s does not fit %d axes", equation, ndim);
        return;
    }
    for (int32_t i = 0; i < ndim; i++)
        text[i] = got[i] < LMI_EINSUM_LETTERS ? letter_of(got[i]) : (char)('0' + got[i] - LMI_EINSUM_LETTERS);
    text[ndim] = '\0';
    if (!labels || strcmp(text, labels) != 0)
        fail_msg("%s of %d axes is %s, not %s", equation, ndim, text, labels ? labels : "refused");
}

static void axes_have_labels(void **state) {
    (void)state;
    expect("bij", 3, "bij");
    expect("bij", 2, NULL);
    expect("bij", 4, NULL);
    expect("bij", -1, NULL);
    expect("", 0, "");
    expect("", -1, NULL);
    expect("...", 0, "");
    expect("...", 3, "210");
    expect("...ij", 4, "10ij");
    expect("i...j", 5, "i210j");
    expect("ij...", 2, "ij");
    expect("ij...", 1, NULL);
    expect("iij", 3, "iij");
    expect("a...", LMI_EINSUM_AXES + 1, NULL);
    uint8_t got[LMI_EINSUM_AXES];
    lmi_einsum e;
    assert_true(lmi_einsum_read("...", &e));
    assert_true(lmi_einsum_label(&e.term[0], LMI_EINSUM_AXES, got));
    assert_int_equal(got[0], LMI_EINSUM_LABELS - 1);
    assert_true(lmi_einsum_label(&e.result, 2, got));
    assert_int_equal(got[0], LMI_EINSUM_LETTERS + 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_equation_is_read),
        cmocka_unit_test(an_equation_has_so_many_terms_at_most),
        cmocka_unit_test(axes_have_labels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
