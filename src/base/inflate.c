/* SPDX-License-Identifier: Apache-2.0
 *
 * zlib's inflate, found at run time, so that lamina builds where zlib's headers are missing. The struct and
 * the functions are those of zlib.h, which have not changed since zlib 1.2. */
#include "base/inflate.h"
#include "base/system.h"

#include <limits.h>
#include <stdatomic.h>
#include <stdlib.h>

typedef struct stream {
    const unsigned char *next_in;
    unsigned avail_in;
    unsigned long total_in;
    unsigned char *next_out;
    unsigned avail_out;
    unsigned long total_out;
    const char *msg;
    void *state, *allocate, *release, *opaque; /* all NULL: zlib uses malloc */
    int data_type;
    unsigned long adler, reserved;
} stream;

enum { NO_FLUSH = 0, STREAM_END = 1, OUT_OF_MEMORY = -4, RAW = -15 /* no header; the largest window */ };

typedef struct zlib {
    int (*init)(stream *s, int window, const char *version, int size);
    int (*run)(stream *s, int flush);
    int (*end)(stream *s);
} zlib;
static _Atomic(const zlib *) found;

static bool look_up(void *from, zlib *to) {
    void *at[] = {dlsym(from, "inflateInit2_"), dlsym(from, "inflate"), dlsym(from, "inflateEnd")};
    memcpy(&to->init, &at[0], sizeof *at); /* ISO C can't convert a pointer to a function's */
    memcpy(&to->run, &at[1], sizeof *at);
    memcpy(&to->end, &at[2], sizeof *at);
    return at[0] && at[1] && at[2];
}

#if defined(__APPLE__)
static const char *const names[] = {"/usr/lib/libz.1.dylib", "libz.1.dylib"};
#define WHAT_TO_DO "install it"
#elif defined(_WIN32)
static const char *const names[] = {"zlib1.dll", "zlib.dll"};
#define WHAT_TO_DO "put it beside lamina.exe (zlib.net has it)"
#else
static const char *const names[] = {"libz.so.1", "libz.so"};
#define WHAT_TO_DO "install it (Debian: zlib1g)"
#endif

lam_status lmi_find_zlib(lam_error *e) {
    const zlib *it = atomic_load(&found);
    if (it) return LAM_OK;
    zlib *mine = calloc(1, sizeof *mine);
    if (!mine) return lmi_nomem(e);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        void *from = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
        if (from && look_up(from, mine)) { /* it stays loaded */
            if (!atomic_compare_exchange_strong(&found, &it, mine)) free(mine);
            return LAM_OK;
        }
        if (from) dlclose(from);
    }
    free(mine);
    return lmi_fail(e, LAM_UNSUPPORTED, NULL,
                    "compressed entries of zip files need zlib, and no %s was found; " WHAT_TO_DO, names[0]);
}

lam_status lmi_inflate(const void *from, size_t n, void *to, size_t size, const char *where, lam_error *e) {
    LAM_TRY(lmi_find_zlib(e));
    const zlib *z = atomic_load(&found);
    stream s = {.next_in = from, .next_out = to};
    if (n > UINT_MAX || size > UINT_MAX) return lmi_fail(e, LAM_LIMIT, where, "it is larger than 4 GiB");
    s.avail_in = (unsigned)n;
    s.avail_out = (unsigned)size;
    int code = z->init(&s, RAW, "1.2", (int)sizeof s); /* zlib compares the first digit */
    if (code != 0) return lmi_nomem(e);
    code = z->run(&s, NO_FLUSH);
    bool whole = code == STREAM_END && s.avail_out == 0;
    z->end(&s);
    if (code == OUT_OF_MEMORY) return lmi_nomem(e);
    return whole ? LAM_OK : lmi_fail(e, LAM_SYNTAX, where, "its compressed bytes are damaged");
}
