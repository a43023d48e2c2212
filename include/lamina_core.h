/* SPDX-License-Identifier: Apache-2.0
 *
 * Errors and sinks, a part of lamina.h that all other parts use. */
#ifndef LAMINA_CORE_H
#define LAMINA_CORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define LAM_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define LAM_PRINTF(fmt, args)
#endif
#if !defined(LAM_API) && defined(__GNUC__)
#define LAM_API __attribute__((visibility("default")))
#elif !defined(LAM_API) /* defined as nothing: the library is a part of another one and not exported by it */
#define LAM_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define LAM_VERSION "0.2.0"

/* The version of this library, "MAJOR.MINOR.PATCH"; static storage. */
LAM_API const char *lam_version(void);

/* == Errors and sinks ==================================================================================== */

typedef enum lam_status {
    LAM_OK = 0,
    LAM_NOMEM = -1,       /* memory ran out, or an arena's limit was reached */
    LAM_IO = -2,          /* a sink refused bytes, or a file could not be read or written */
    LAM_SYNTAX = -3,      /* a text (formula, command line, file) is malformed; `at` is the byte offset */
    LAM_UNSUPPORTED = -4, /* well formed, but this build or this source does not support it */
    LAM_LIMIT = -5,       /* a limit that guards against hostile input was reached */
    LAM_RANGE = -6,       /* an index or a number is out of range */
    /* the request names something that does not exist, or can't be met; the sentence lists what is
     * possible */
    LAM_USAGE = -7,
    LAM_FAILED = -8       /* the host (a live model's own code) failed; the sentence is the host's */
} lam_status;

typedef struct lam_error { /* every parameter of this type may be NULL */
    lam_status status;     /* the first failure; later ones do not overwrite it */
    int64_t at;            /* byte offset in the input; -1: none */
    char where[96];        /* what and where: "convention 'foo'", "layer1.0.conv1"; may be empty */
    char text[256];        /* one sentence: what is wrong and what to do next; no newline */
} lam_error;

/* "USAGE", "NOMEM", ...; static storage, never NULL. */
LAM_API const char *lam_status_name(lam_status status);

/* A destination of text. `put` receives n bytes of UTF-8 and returns LAM_OK, or LAM_IO to stop the writer. */
typedef struct lam_sink {
    lam_status (*put)(void *to, const char *bytes, size_t n);
    void *to;
} lam_sink;

#ifdef __cplusplus
}
#endif
#endif
