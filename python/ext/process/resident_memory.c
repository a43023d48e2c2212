/* SPDX-License-Identifier: Apache-2.0
 * The resident memory of this process, as the kernel counts it. */
#include "process/resident_memory.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static int64_t kib_of(const char *text, const char *name) {
    long long kib;
    const char *at = strstr(text, name);
    return at && sscanf(at + strlen(name), "%lld", &kib) == 1 ? (int64_t)kib * 1024 : -1;
}

static bool read_file(const char *path, char *text, size_t size) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, size - 1);
    if (fd >= 0) close(fd);
    if (n > 0) text[n] = '\0';
    return n > 0;
}

static int64_t most_ever(void) {
    struct rusage u;
    return getrusage(RUSAGE_SELF, &u) == 0 ? (int64_t)u.ru_maxrss * 1024 : -1;
}

/* The kernel takes fifty microseconds to write the whole status. getrusage() returns the same peak,
 * except for pages that newer kernels have not added up yet, or if a larger program replaced itself by
 * this one. Once the two agree they always will. */
void lmx_resident(int64_t *now, int64_t *most) {
    enum { CLOSE = 1 << 20 };
    static bool agreed;
    char text[4096];
    long long pages;
    *now = *most = -1;
    if (agreed && read_file("/proc/self/statm", text, sizeof text) && sscanf(text, "%*d %lld", &pages) == 1) {
        *now = (int64_t)pages * sysconf(_SC_PAGESIZE);
        *most = most_ever();
    } else if (read_file("/proc/self/status", text, sizeof text)) {
        *now = kib_of(text, "VmRSS:");
        *most = kib_of(text, "VmHWM:");
        int64_t by_usage = most_ever();
        agreed = *most >= 0 && by_usage - *most < CLOSE && *most - by_usage < CLOSE;
    }
}
