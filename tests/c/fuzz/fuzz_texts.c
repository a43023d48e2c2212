/* SPDX-License-Identifier: Apache-2.0
 *
 * Texts that anybody may have written, under libFuzzer: the first byte says what the rest is. A formula and a
 * file of rules are read; a command line is run, its words between blanks, by a host that has no models. */
#include "lamina.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void formula(const char *text) {
    static const char *const names[] = {"out", "red", "in"};
    static const int64_t values[] = {7, 3, INT64_MAX};
    lam_count count;
    lam_error e = {0};
    if (lam_formula_eval(text, names, values, 3, &count, &e) != LAM_OK && !e.text[0]) abort();
}

static void rules(const char *text) {
    lam_rules *r = NULL;
    lam_rule rule;
    lam_error e = {0};
    if (lam_rules_new(&r, &e) != LAM_OK) return;
    if (lam_rules_read(r, text, "fuzz", &e) != LAM_OK && !e.text[0]) abort();
    for (int32_t i = 0; lam_rules_at(r, i, &rule); i++)
        if (!rule.kind || !rule.kind[0]) abort();
    lam_rules_free(r);
}

static lam_status swallow(void *self, const char *bytes, size_t n) {
    *(size_t *)self += n + (n && bytes[0] == '\n');
    return LAM_OK;
}

static void command(char *text) {
    size_t out = 0, err = 0;
    const char *argv[64] = {"lamina"};
    int argc = 1;
    for (char *word = strtok(text, " "); word && argc < 64; word = strtok(NULL, " ")) {
        if (strncmp(word, "-o", 2) == 0 || strncmp(word, "--o", 3) == 0 || strncmp(word, "--t", 3) == 0)
            return;
        argv[argc++] = word; /* what writes files was left out */
    }
    lam_host host = {.out = {swallow, &out}, .err = {swallow, &err}, .width = 80};
    int code = lam_command(argc, argv, &host);
    if (code < 0 || code > 4 || (code > 1 && !err)) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    if (n < 1) return 0;
    char *text = malloc(n);
    if (!text) return 0;
    memcpy(text, data + 1, n - 1);
    text[n - 1] = '\0';
    if (data[0] % 3 == 0)
        formula(text);
    else if (data[0] % 3 == 1)
        rules(text);
    else
        command(text);
    free(text);
    return 0;
}
