/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether a text is JSON. */
#ifndef LAMINA_TEST_JSON_TEXT_H
#define LAMINA_TEST_JSON_TEXT_H

#include "base/base.h"
#include "kit/oom.h"

#include <string.h>

/* A strict reader that goes over one value and fails where RFC 8259 says so. */
static const char *json_value(const char *s);

static const char *json_space(const char *s) { return s + strspn(s, " \t\r\n"); }

static const char *json_string(const char *s) {
    assert_int_equal(*s++, '"');
    while (*s != '"') {
        if (*s == '\\') {
            s++;
            assert_non_null(*s ? strchr("\"\\/bfnrtu", *s) : NULL);
            if (*s == 'u') {
                assert_int_equal(strspn(s + 1, "0123456789abcdefABCDEF") >= 4, 1);
                s += 4;
            }
            s++;
            continue;
        }
        uint32_t code;
        size_t n = lmi_utf8(s, &code);
        assert_true(n > 0 && code != LMI_BAD_UTF8 && code >= 0x20);
        s += n;
    }
    return s + 1;
}

static const char *json_members(const char *s, char end, bool named) {
    s = json_space(s + 1);
    if (*s == end) return s + 1;
    for (;;) {
        if (named) {
            s = json_space(json_string(json_space(s)));
            assert_int_equal(*s++, ':');
        }
        s = json_space(json_value(json_space(s)));
        if (*s == end) return s + 1;
        assert_int_equal(*s++, ',');
    }
}

static const char *json_value(const char *s) {
    static const char *const words[] = {"true", "false", "null"};
    if (*s == '{') return json_members(s, '}', true);
    if (*s == '[') return json_members(s, ']', false);
    if (*s == '"') return json_string(s);
    for (size_t i = 0; i < 3; i++)
        if (strncmp(s, words[i], strlen(words[i])) == 0) return s + strlen(words[i]);
    if (*s == '-') s++;
    size_t digits = strspn(s, "0123456789");
    assert_true(digits > 0 && (digits == 1 || *s != '0'));
    s += digits;
    if (*s != '.') return s;
    digits = strspn(s + 1, "0123456789");
    assert_true(digits > 0);
    return s + 1 + digits;
}

#endif
