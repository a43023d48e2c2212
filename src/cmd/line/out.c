/* SPDX-License-Identifier: Apache-2.0
 *
 * The output of the command: text, its destination, and errors of writing; the summary of a job. */
#include "base/system.h"
#include "cmd/line/line.h"

#include <stdio.h>
#include <stdlib.h>

/* -- text -------------------------------------------------------------------------------------- */

/* Names of layers are not trusted and must not control a terminal: C0 and C1 control characters become
 * '?'. */
static void clean(char *s) {
    for (; *s; s++) {
        unsigned char a = (unsigned char)s[0], b = (unsigned char)s[1];
        if ((a < 0x20 && a != '\n') || a == 0x7f)
            *s = '?';
        else if (a == 0xc2 && b >= 0x80 && b < 0xa0)
            s[0] = s[1] = '?';
    }
}

/* Formats on the stack first, then with the length that is needed; a text that memory can't hold is cut. */
static lam_status put_text(lam_sink to, const char *fmt, va_list args) {
    char small[1024], *text = small;
    va_list again;
    va_copy(again, args);
    int n = vsnprintf(small, sizeof small, fmt, args);
    if (n >= (int)sizeof small) {
        text = malloc((size_t)n + 1);
        if (text)
            vsnprintf(text, (size_t)n + 1, fmt, again);
        else
            text = small;
    }
    va_end(again);
    clean(text);
    lam_status s = n <= 0 ? LAM_OK : to.put(to.to, text, strlen(text));
    if (text != small) free(text);
    return s;
}

static void remember(lmi_cli *c, lam_status s) {
    if (s == LAM_OK || c->out_status != LAM_OK) return;
    c->out_status = s;
    c->out_errno = errno;
}

void lmi_say(lmi_cli *c, const char *fmt, ...) {
    if (c->out_status != LAM_OK) return;
    va_list args;
    va_start(args, fmt);
    errno = 0;
    remember(c, put_text(c->out, fmt, args));
    va_end(args);
}

void lmi_say_text(lmi_cli *c, lmi_buf *text) {
    const lam_status s = lmi_buf_status(text, NULL);
    if (s == LAM_OK)
        lmi_say(c, "%s", lmi_buf_text(text));
    else
        remember(c, s);
    lmi_buf_free(text);
}

static void say_error(lmi_cli *c, const char *fmt, ...) LAM_PRINTF(2, 3);
static void say_error(lmi_cli *c, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    (void)put_text(c->host->err, fmt, args); /* a failure here can't be reported */
    va_end(args);
}

static void release(lmi_cli *c);
void lmi_complain(lmi_cli *c, const char *hint, const char *fmt, ...) {
    va_list args;
    release(c);
    va_start(args, fmt);
    say_error(c, "lamina: error: ");
    (void)put_text(c->host->err, fmt, args);
    say_error(c, "\n");
    va_end(args);
    if (hint) say_error(c, "  hint: %s\n", hint);
}

void lmi_remark(lmi_cli *c, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    say_error(c, "lamina: ");
    (void)put_text(c->host->err, fmt, args);
    say_error(c, "\n");
    va_end(args);
}

int lmi_exit_code(lam_status s) {
    switch (s) {
    case LAM_OK: return LMI_EXIT_OK;
    case LAM_USAGE:
    case LAM_SYNTAX:
    case LAM_RANGE: return LMI_EXIT_USAGE;
    case LAM_NOMEM: return LMI_EXIT_BUG;
    default: return LMI_EXIT_FAILED;
    }
}

int lmi_complain_of(lmi_cli *c, const lam_error *e, lam_status s) {
    const char *text = e->text[0] ? e->text : lam_status_name(s);
    if (c->stopped) return lmi_exit_code(s);
    lmi_complain(c, NULL, "%s%s%s", e->where, e->where[0] ? ": " : "", text);
    return lmi_exit_code(s);
}

int lmi_written(lmi_cli *c, const lam_error *e, lam_status s, int code) {
    return s == LAM_OK || c->out_status != LAM_OK ? code : lmi_complain_of(c, e, s);
}

/* -- the file of -o ---------------------------------------------------------------------------- */

bool lmi_is_to_file(const lmi_cli *c) { return c->args.output && strcmp(c->args.output, "-") != 0; }

static bool folder_is_there(lmi_cli *c, const char *path) {
    const char *end = strrchr(path, '/');
    char *folder = end ? strdup(path) : NULL;
    if (!folder) return true; /* the current folder; or memory ran out: opening the file reports an error */
    folder[end == path ? 1 : end - path] = '\0';
    const bool there = access(folder, F_OK) == 0;
    if (!there) lmi_complain(c, "make it, or name another file", "%s: there is no folder %s", path, folder);
    free(folder);
    return there;
}

bool lmi_may_be_file(lmi_cli *c, const char *path) {
    struct stat st;
    if (!*path) {
        lmi_complain(c, "name a file", "'': it is no name of a file");
        return false;
    }
    if (stat(path, &st) != 0) return folder_is_there(c, path);
    if (!S_ISDIR(st.st_mode)) return true;
    lmi_complain(c, "name a file in it", "%s: it is a folder", path);
    return false;
}

bool lmi_output_allowed(lmi_cli *c) {
    struct stat st;
    if (!lmi_is_to_file(c)) return true;
    if (!lmi_may_be_file(c, c->args.output)) return false;
    if (c->args.force || lstat(c->args.output, &st) != 0) return true;
    lmi_complain(c, "pass -f to overwrite it", "%s: it exists already", c->args.output);
    return false;
}

static bool open_file(lmi_cli *c) {
    int flags = O_WRONLY | O_CREAT | O_CLOEXEC | (c->args.force ? O_TRUNC : O_EXCL);
    c->fd = open(c->args.output, flags, 0666);
    return c->fd >= 0;
}

bool lmi_output_put(lmi_cli *c, const char *bytes, size_t n) {
    return (c->fd >= 0 || open_file(c)) && lmi_write_fd(c->fd, bytes, n);
}

bool lmi_output_close(lmi_cli *c) {
    const bool closed = c->fd < 0 || close(c->fd) == 0;
    c->fd = -1;
    return closed;
}

static bool put_file(lmi_cli *c, const char *bytes, size_t n) {
    const lmi_hand *hand = &c->hands[LMI_TO_OUTPUT];
    return hand->pid ? lmi_write_fd(hand->to, bytes, n) : lmi_output_put(c, bytes, n);
}

static lam_status put_now(lmi_cli *c, const char *bytes, size_t n) {
    errno = 0;
    lam_status s = !lmi_is_to_file(c)      ? c->host->out.put(c->host->out.to, bytes, n)
                   : put_file(c, bytes, n) ? LAM_OK
                                           : LAM_IO;
    remember(c, s);
    return s;
}

/* Reports are written through this, so that the reason of a failure is kept. */
static lam_status put_watched(void *to, const char *bytes, size_t n) {
    lmi_cli *c = to;
    if (c->holds) lmi_putn(&c->held, bytes, n);
    if (c->holds && !c->held.bad) return LAM_OK;
    release(c);
    return c->out_status == LAM_OK ? put_now(c, bytes, n) : c->out_status;
}

/* -- the pager --------------------------------------------------------------------------------- */

void lmi_output_hold(lmi_cli *c) { c->holds = lmi_pager_wanted(c); }

/* Writes what is held, and holds nothing from now on. */
static void release(lmi_cli *c) {
    lmi_buf held = c->held;
    c->holds = false;
    lmi_buf_init(&c->held);
    if (held.n > 0) (void)put_now(c, held.s, held.n);
    lmi_buf_free(&held);
}

/* -- what other processes hold ------------------------------------------------------------------ */

int lmi_hand_text(lmi_cli *c, lmi_hand_of which, const lmi_buf *text) {
    if (text)
        (void)lmi_write_fd(c->hands[which].to, lmi_buf_text(text), text->n); /* it tells what went wrong */
    return lmi_hand_end(&c->hands[which]);
}

static void end_hands(lmi_cli *c) {
    for (int i = 0; i < LMI_HANDS; i++)
        if (c->hands[i].pid) (void)lmi_hand_end(&c->hands[i]);
}

static bool page(lmi_cli *c) {
    return c->hands[LMI_TO_PAGER].pid ? lmi_hand_text(c, LMI_TO_PAGER, &c->held) == 0 : lmi_page(&c->held);
}

static void show_held(lmi_cli *c) {
    const lam_host *host = c->host;
    bool paged = c->holds && lmi_is_higher(&c->held, host->width, host->height);
    bool shown = paged && page(c);
    if (shown) c->held.n = 0;
    release(c);
    if (paged && !shown && lmi_pager_named())
        say_error(c, "lamina: the pager '%s' could not be started; --no-pager does without one\n",
                  lmi_pager_named());
}

int32_t lmi_table_width(const lmi_cli *c, int32_t screen) {
    enum { WIDE = 1000 };
    if (c->args.wide) return WIDE;
    return c->args.width >= 0 ? c->args.width : lmi_is_to_file(c) ? 0 : screen;
}

bool lmi_table_ascii(const lmi_cli *c) {
    return c->args.ascii || (!lmi_is_to_file(c) && !c->host->out_is_utf8);
}

void lmi_output_start(lmi_cli *c) {
    c->fd = -1;
    c->out = (lam_sink){put_watched, c};
}

/* Writes the collected line: unchanged if it fits, otherwise as several lines. */
static void end_line(lmi_cli *c) {
    enum { FURTHER = 2 };
    lmi_buf lines;
    lmi_buf_init(&lines);
    if (!c->line.bad) lmi_flow_line(&lines, (size_t)c->host->width, lmi_buf_text(&c->line), FURTHER);
    lmi_buf_used(&c->line, &lines);
    remember(c, lmi_buf_flush(&lines, (lam_sink){put_watched, c}, NULL));
    lmi_buf_free(&lines);
}

static lam_status put_narrow(void *to, const char *bytes, size_t n) {
    lmi_cli *c = to;
    for (size_t i = 0; i < n && c->out_status == LAM_OK; i++) {
        if (bytes[i] != '\n') {
            lmi_putc(&c->line, bytes[i]);
            continue;
        }
        end_line(c);
        remember(c, put_watched(c, "\n", 1));
    }
    return c->out_status;
}

void lmi_output_narrow(lmi_cli *c) {
    if (c->host->width > 0 && !lmi_is_to_file(c) && !lmi_is_json(&c->args))
        c->out = (lam_sink){put_narrow, c};
}

/* The process that holds the file says at the end what went wrong there. */
static void end_file(lmi_cli *c) {
    const int why = c->hands[LMI_TO_OUTPUT].pid ? lmi_hand_text(c, LMI_TO_OUTPUT, NULL) : 0;
    if (why) {
        c->out_status = LAM_IO;
        c->out_errno = why;
    }
    if (!lmi_output_close(c)) remember(c, LAM_IO);
}

int lmi_output_end(lmi_cli *c, int code) {
    end_line(c);
    show_held(c);
    end_file(c);
    end_hands(c);
    if (c->out_status == LAM_OK || c->out_errno == EPIPE)
        return code; /* a reader that has closed the pipe needs no message */
    lam_error e = {.at = -1};
    if (c->out_status == LAM_NOMEM) return lmi_complain_of(c, &e, lmi_nomem(&e));
    const char *what = lmi_is_to_file(c) ? c->args.output : "the standard output";
    lmi_complain(c, lmi_is_to_file(c) ? "name a file in another folder or on another disk" : NULL,
                 "%s: it could not be written: %s", what,
                 c->out_errno ? strerror(c->out_errno) : "the other end refused it");
    return LMI_EXIT_FAILED;
}

/* -- JSON -------------------------------------------------------------------------------------- */

int lmi_json_begin(lmi_cli *c, const char *kind) {
    lam_error e = {.at = -1};
    lam_status s = lam_json_new(&c->json, kind, 1, &e);
    return s == LAM_OK ? LMI_EXIT_OK : lmi_complain_of(c, &e, s);
}

int lmi_json_end(lmi_cli *c, int code) {
    lam_error e = {.at = -1};
    lam_status s = lam_json_write(c->json, c->out, &e);
    return lmi_written(c, &e, s, code);
}

/* The document keeps an error until its end. */
static void put_field(lmi_cli *c, lam_field f) {
    lam_receiver to = lam_json_field(c->json, f.name);
    (void)to.field(to.self, &f);
}

void lmi_json_text(lmi_cli *c, const char *name, const char *text) {
    put_field(c, (lam_field){.name = name, .type = text ? LAM_FIELD_TEXT : LAM_FIELD_NONE, .text = text});
}

void lmi_json_int(lmi_cli *c, const char *name, int64_t n) {
    put_field(c, (lam_field){.name = name, .type = LAM_FIELD_INTEGER, .integer = n});
}

void lmi_json_truth(lmi_cli *c, const char *name, bool truth) {
    put_field(c, (lam_field){.name = name, .type = LAM_FIELD_TRUTH, .truth = truth});
}

void lmi_json_open(lmi_cli *c, const char *name, lam_field_type type) {
    put_field(c, (lam_field){.name = name, .type = type});
}

void lmi_json_close(lmi_cli *c) { put_field(c, (lam_field){.type = LAM_FIELD_END}); }

/* -- colour ------------------------------------------------------------------------------------ */

static bool set_in_environment(const char *name) {
    const char *v = getenv(name);
    return v && *v;
}

static bool forced(const char *name) {
    const char *v = getenv(name);
    return v && *v && strcmp(v, "0") != 0;
}

/* By priority: the option, NO_COLOR (no-color.org), variables that force colours, the terminal. */
bool lmi_wants_color(const lmi_cli *c) {
    const char *asked = c->args.color, *term = getenv("TERM");
    if (asked && strcmp(asked, "auto") != 0) return strcmp(asked, "always") == 0;
    if (set_in_environment("NO_COLOR")) return false;
    if (forced("FORCE_COLOR") || forced("CLICOLOR_FORCE")) return true;
    return c->host->out_is_terminal && !lmi_is_to_file(c) && !(term && strcmp(term, "dumb") == 0);
}

/* -- the summary of a job of GitHub Actions: a file of Markdown that steps append to --------------------- */

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
    if (c->hands[LMI_TO_SUMMARY].pid) return lmi_hand_text(c, LMI_TO_SUMMARY, markdown);
    int fd = open(file, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
    bool written = fd >= 0 && append(fd, lmi_buf_text(markdown), markdown->n);
    if (!written) lmi_complain(c, NULL, "%s: the job summary can't be written: %s", file, strerror(errno));
    if (fd >= 0) close(fd);
    return written ? LMI_EXIT_OK : LMI_EXIT_FAILED;
}
