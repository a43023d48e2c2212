/* SPDX-License-Identifier: Apache-2.0
 *
 * The summary of a job of GitHub Actions: a file of Markdown that steps append to. */
#include "base/system.h"
#include "cmd/cmd.h"

#include <stdlib.h>

/* GitHub shows nothing of a step whose summary is larger than 1 MiB. */
enum { LARGEST = (1 << 20) - 1 };
static const char CUT[] = "\n\nThe rest is left out: a job summary has 1 MiB at most.\n";

static const char *summary_file(void) {
    const char *file = getenv("GITHUB_STEP_SUMMARY");
    return file && *file ? file : NULL;
}

bool lmi_github_allowed(lmi_cli *c) {
    if (!c->args.github || summary_file()) return true;
    lmi_complain(c, "in a job of GitHub Actions it is set; elsewhere use --format md",
                 "--github: GITHUB_STEP_SUMMARY is not set, so there is no job summary to add to");
    return false;
}

/* The number of bytes up to the last line that fits `room`. */
static size_t whole_lines(const char *text, size_t room) {
    while (room > 0 && text[room - 1] != '\n') room--;
    return room;
}

static bool append(int fd, const char *markdown, size_t n) {
    struct stat st;
    if (fstat(fd, &st) != 0) return false;
    size_t there = st.st_size > LARGEST ? LARGEST : (size_t)st.st_size, room = LARGEST - there;
    if (there && room && !lmi_write_fd(fd, "\n", 1)) return false;
    if (n < room) return lmi_write_fd(fd, markdown, n);
    room = room > sizeof CUT ? whole_lines(markdown, room - sizeof CUT) : 0;
    return room == 0 || (lmi_write_fd(fd, markdown, room) && lmi_write_fd(fd, CUT, sizeof CUT - 1));
}

int lmi_github_summary(lmi_cli *c, const lmi_buf *markdown) {
    const char *file = summary_file();
    if (!c->args.github || !file) return LMI_EXIT_OK;
    int fd = open(file, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
    bool written = fd >= 0 && append(fd, lmi_buf_text(markdown), markdown->n);
    if (!written) lmi_complain(c, NULL, "%s: the job summary can't be written: %s", file, strerror(errno));
    if (fd >= 0) close(fd);
    return written ? LMI_EXIT_OK : LMI_EXIT_FAILED;
}
