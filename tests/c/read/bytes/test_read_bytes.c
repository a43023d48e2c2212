/* SPDX-License-Identifier: Apache-2.0
 *
 * Bytes of files, and zip files: whole ones, damaged ones, and such that lie. */
#include "kit/draw.h"

#include "base/inflate.h"
#include "read/bytes/zip.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* -- a zip file in memory -------------------------------------------------------------------------------- */

typedef struct entry {
    const char *name, *packed;
    size_t n_packed, size; /* size 0: not compressed */
} entry;

enum { STREAMED = 1, WIDE = 2 /* sizes of 64 bits everywhere */ };

static void put(lmi_buf *b, uint64_t v, int n) {
    for (int i = 0; i < n; i++) lmi_putc(b, (char)(v >> 8 * i));
}

/* What a header and the directory have in common, from the flags to the length of the extra field. */
static void put_common(lmi_buf *b, const entry *x, int flags, bool directory, size_t extra) {
    size_t size = x->size ? x->size : x->n_packed;
    bool later = flags & STREAMED && !directory, wide = flags & WIDE;
    put(b, flags & STREAMED ? 8 : 0, 2);
    put(b, x->size ? 8 : 0, 2);
    put(b, 0, 8); /* time and checksum */
    put(b, later ? 0 : wide ? UINT32_MAX : x->n_packed, 4);
    put(b, later ? 0 : wide ? UINT32_MAX : size, 4);
    put(b, strlen(x->name), 2);
    put(b, extra, 2);
}

static void put_wide(lmi_buf *b, const entry *x, int64_t at) {
    put(b, 1, 2);
    put(b, at < 0 ? 16 : 24, 2);
    put(b, x->size ? x->size : x->n_packed, 8);
    put(b, x->n_packed, 8);
    if (at >= 0) put(b, (uint64_t)at, 8);
}

static void put_zip(lmi_buf *b, const entry *x, int n, int flags) {
    uint64_t at[8], directory;
    size_t wide = flags & WIDE ? 20 : 0;
    for (int i = 0; i < n; i++) {
        at[i] = b->n;
        put(b, 0x04034b50, 4);
        put(b, 20, 2);
        put_common(b, &x[i], flags, false, wide ? 20 : 5);
        lmi_put(b, x[i].name);
        if (wide)
            put_wide(b, &x[i], -1);
        else
            lmi_putn(b, "\x46\x42\x01\x00\x5a", 5); /* an extra field of another kind */
        lmi_putn(b, x[i].packed, x[i].n_packed);
        if (flags & STREAMED) lmi_pad(b, '\0', 16);
    }
    directory = b->n;
    for (int i = 0; i < n; i++) {
        put(b, 0x02014b50, 4);
        put(b, 20, 2);
        put(b, 20, 2);
        put_common(b, &x[i], flags, true, wide ? 28 : 0);
        put(b, 0, 2);
        put(b, 0, 8);
        put(b, wide ? UINT32_MAX : at[i], 4);
        lmi_put(b, x[i].name);
        if (wide) put_wide(b, &x[i], (int64_t)at[i]);
    }
    uint64_t end = b->n;
    if (wide) {
        put(b, 0x06064b50, 4);
        put(b, 44, 8);
        lmi_pad(b, '\0', 12);
        put(b, (uint64_t)n, 8);
        put(b, (uint64_t)n, 8);
        put(b, end - directory, 8);
        put(b, directory, 8);
        put(b, 0x07064b50, 4);
        put(b, 0, 4);
        put(b, end, 8);
        put(b, 1, 4);
    }
    put(b, 0x06054b50, 4);
    put(b, 0, 4);
    put(b, wide ? UINT16_MAX : (uint64_t)n, 2);
    put(b, wide ? UINT16_MAX : (uint64_t)n, 2);
    put(b, wide ? UINT32_MAX : end - directory, 4);
    put(b, wide ? UINT32_MAX : directory, 4);
    put(b, 3, 2);
    lmi_put(b, "bye");
}

static const char deflated[] = "\x4b\x4c\x4a\x1c\x85\xa3\x70\x14\x0e\x73\x08\x00"; /* "ab" 500 times */
static entry three[] = {{"a/one", "first", 5, 0}, {"a/two", deflated, 12, 1000}, {"empty", "", 0, 0}};

static lmi_buf made(int flags) {
    lmi_buf b;
    lmi_buf_init(&b);
    put_zip(&b, three, 3, flags);
    return b;
}

/* -- zip files ------------------------------------------------------------------------------------------- */

static void check_three(const lmi_buf *b) {
    lmi_bytes of = lmi_bytes_of(b->s, b->n, "it.zip"), part;
    lmi_zip z;
    lam_error e = {0};
    char *all;
    size_t n;
    if (lmi_zip_open(&z, &of, &e) != LAM_OK) fail_msg("%s", e.text);
    assert_int_equal(z.n, 3);
    assert_null(lmi_zip_find(&z, "a"));
    assert_int_equal(lmi_zip_part(&z, lmi_zip_find(&z, "a/one"), &part, &e), LAM_OK);
    assert_int_equal(part.size, 5);
    assert_memory_equal(part.memory + part.start, "first", 5);
    assert_string_equal(part.name, "a/one");
    assert_int_equal(lmi_zip_all(&z, lmi_zip_find(&z, "a/one"), 5, &all, &n, &e), LAM_OK);
    assert_int_equal(n, 5);
    free(all);
    assert_int_equal(lmi_zip_all(&z, lmi_zip_find(&z, "empty"), 0, &all, &n, &e), LAM_OK);
    assert_int_equal(n, 0);
    free(all);
    const lmi_zip_entry *two = lmi_zip_find(&z, "a/two");
    assert_int_equal(lmi_zip_part(&z, two, &part, &e), LAM_UNSUPPORTED);
    e = (lam_error){0};
    assert_int_equal(lmi_zip_all(&z, two, 999, &all, &n, &e), LAM_LIMIT);
    e = (lam_error){0};
    if (lmi_find_zlib(&e) == LAM_OK) {
        assert_int_equal(lmi_zip_all(&z, two, 1000, &all, &n, &e), LAM_OK);
        assert_true(n == 1000 && memcmp(all, "abab", 4) == 0 && all[999] == 'b');
        free(all);
    } else {
        assert_int_equal(lmi_zip_all(&z, two, 1000, &all, &n, &e), LAM_UNSUPPORTED);
        assert_null(all);
    }
    lmi_zip_free(&z);
}

static void entries_are_found(void **state) {
    (void)state;
    for (int flags = 0; flags < 4; flags++) {
        lmi_buf b = made(flags);
        check_three(&b);
        lmi_buf_free(&b);
    }
}

/* The end of the directory is looked for in the last bytes first, and then in all that a comment may take. */
static void a_comment_may_be_long(void **state) {
    (void)state;
    enum { SHORT = 3, MOST = 65535 };
    static const size_t lengths[] = {0, 999, 1000, 1003, 1024, 5000, MOST};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        lmi_buf b = made(0);
        b.n -= SHORT + 2;
        put(&b, lengths[i], 2);
        lmi_pad(&b, 'c', lengths[i]);
        check_three(&b);
        lmi_buf_free(&b);
    }
}

static lam_status open_and_read(const char *bytes, size_t n, lam_error *e) {
    lmi_bytes of = lmi_bytes_of(bytes, n, "it.zip");
    lmi_zip z;
    lam_status s = lmi_zip_open(&z, &of, e);
    for (int32_t i = 0; s == LAM_OK && i < z.n; i++) {
        char *all;
        size_t size;
        s = lmi_zip_all(&z, &z.entry[i], 1 << 20, &all, &size, e);
        if (s == LAM_OK) free(all);
    }
    lmi_zip_free(&z);
    return s;
}

/* The position of the k-th such number in the file. */
static size_t position(const lmi_buf *b, uint32_t magic, int k) {
    for (size_t i = 0; i + 4 <= b->n; i++)
        if (lmi_le32(b->s + i) == magic && k-- == 0) return i;
    fail_msg("there is no %x", magic);
    return 0;
}

enum { LOCAL = 0x04034b50, DIRECTORY = 0x02014b50, END = 0x06054b50 };

static void lies_are_refused(void **state) {
    (void)state;
    static const struct {
        uint32_t magic;
        int k;
        size_t at; /* behind the magic number's first byte */
        unsigned char value;
        const char *says;
    } cases[] = {
        {LOCAL, 0, 0, 'x', "says something else"},
        {LOCAL, 0, 8, 8, "says something else"},
        {LOCAL, 0, 18, 6, "says something else"},
        {LOCAL, 0, 30, 'b', "says something else"},
        {DIRECTORY, 0, 0, 'x', "no entry of its directory"},
        {DIRECTORY, 0, 8, 1, "is encrypted"},
        {DIRECTORY, 0, 10, 12, "packed by method 12"},
        {DIRECTORY, 0, 20, 4, "sizes that can't be"},
        {DIRECTORY, 0, 29, 9, "too long"},
        {DIRECTORY, 0, 47, 0, "a NUL in a name"},
        {DIRECTORY, 1, 27, 9, "sizes that can't be"}, /* 1000 bytes become 150 million */
        {DIRECTORY, 1, 48, 'o', "reaches into"},
        {DIRECTORY, 2, 42, 0, "reaches into"},
        {DIRECTORY, 2, 45, 1, "reaches into"},
        {END, 0, 4, 1, "several disks"},
        {END, 0, 11, 9, "more entries"},
        {END, 0, 10, 2, "more in its directory"},
        {END, 0, 15, 9, "no directory right before its end"},
        {END, 0, 18, 9, "no directory right before its end"},
        {END, 0, 20, 4, "a comment that is longer"},
        {END, 0, 0, 'x', "no directory at its end"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lmi_buf b = made(0);
        lam_error e = {0};
        b.s[position(&b, cases[i].magic, cases[i].k) + cases[i].at] = (char)cases[i].value;
        if (i == 11) { /* two entries of one name */
            memcpy(b.s + position(&b, DIRECTORY, 1) + 46, "a/one", 5);
            assert_int_equal(open_and_read(b.s, b.n, &e), LAM_SYNTAX);
            assert_non_null(strstr(e.text, "two entries 'a/one'"));
        } else {
            lam_status s = open_and_read(b.s, b.n, &e);
            if ((s != LAM_SYNTAX && s != LAM_UNSUPPORTED) || !strstr(e.text, cases[i].says))
                fail_msg("%zu: status %d: %s", i, (int)s, e.text);
        }
        lmi_buf_free(&b);
    }
}

/* The same of sizes of 64 bits. */
static void wide_lies_are_refused(void **state) {
    (void)state;
    enum { END64 = 0x06064b50, LOCATOR = 0x07064b50 };
    static const struct {
        uint32_t magic;
        int k;
        size_t at;
        uint64_t value;
        int bytes;
        const char *says; /* NULL: it is read */
    } cases[] = {
        {LOCATOR, 0, 8, UINT64_MAX, 8, "no end of a directory with sizes of 64 bits"},
        {LOCATOR, 0, 8, 0, 8, "no end of a directory with sizes of 64 bits"},
        {END64, 0, 0, 0, 1, "no end of a directory at byte"},
        {END, 0, 16, 1, 4, "an end that says two things"},
        {END, 0, 4, UINT32_MAX, 4, NULL},
        {DIRECTORY, 0, 51, 2, 2, "an entry without its sizes"}, /* a field of another kind */
        {DIRECTORY, 0, 53, 99, 2,
         "an entry without its sizes"}, /* a field that is longer than there is room */
        {DIRECTORY, 0, 53, 12, 2, "an entry without its sizes"}, /* a size and a half */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lmi_buf b = made(WIDE);
        lam_error e = {0};
        const size_t at = position(&b, cases[i].magic, cases[i].k) + cases[i].at;
        for (int k = 0; k < cases[i].bytes; k++) b.s[at + (size_t)k] = (char)(cases[i].value >> 8 * k);
        const lam_status s = open_and_read(b.s, b.n, &e);
        if (cases[i].says ? s != LAM_SYNTAX || !strstr(e.text, cases[i].says) : s != LAM_OK)
            fail_msg("%zu: status %d: %s", i, (int)s, e.text);
        lmi_buf_free(&b);
    }
}

/* Of a file whose ends lead to several directories each reader takes another: what follows the directory of
 * three entries leads to one without any. */
static void a_file_has_one_directory(void **state) {
    (void)state;
    enum { NOTHING = 1, LONG_COMMENT, WIDE_END, WIDE_ELSEWHERE };
    static const char *const says[] = {[NOTHING] = "no directory right before its end",
                                       [LONG_COMMENT] = "a comment that is longer",
                                       [WIDE_END] = "an end that says two things",
                                       [WIDE_ELSEWHERE] = "no end of a directory with sizes of 64 bits"};
    for (int how = NOTHING; how <= WIDE_ELSEWHERE; how++) {
        lmi_buf b = made(0);
        lam_error e = {0};
        const size_t end = position(&b, END, 0);
        char last[22];
        memcpy(last, b.s + end, sizeof last);
        last[20] = 0;
        b.n = end;
        if (how == NOTHING) lmi_pad(&b, '\0', 8);
        if (how >= WIDE_END) {
            put(&b, 0x06064b50, 4);
            lmi_pad(&b, '\0', 36);
            put(&b, 0, 8);
            put(&b, end, 8);
            if (how == WIDE_ELSEWHERE) lmi_pad(&b, '\0', 4);
            put(&b, 0x07064b50, 4);
            put(&b, 0, 4);
            put(&b, end, 8);
            put(&b, 1, 4);
        }
        if (how == LONG_COMMENT) last[20] = 22; /* which is the end that other readers take */
        lmi_putn(&b, last, sizeof last);
        if (how == LONG_COMMENT) {
            put(&b, END, 4);
            lmi_pad(&b, '\0', 12);
            put(&b, end, 4);
            put(&b, 1, 2);
        }
        assert_int_equal(open_and_read(b.s, b.n, &e), LAM_SYNTAX);
        if (!strstr(e.text, says[how])) fail_msg("%d: %s", how, e.text);
        lmi_buf_free(&b);
    }
}

static void a_damaged_stream_is_refused(void **state) {
    (void)state;
    lam_error e = {0};
    char to[1000];
    if (lmi_find_zlib(&e) != LAM_OK) return;
    assert_int_equal(lmi_inflate(deflated, 12, to, 999, "it", &e), LAM_SYNTAX);
    e = (lam_error){0};
    assert_int_equal(lmi_inflate(deflated, 11, to, 1000, "it", &e), LAM_SYNTAX);
    e = (lam_error){0};
    assert_int_equal(lmi_inflate("\xff\xff", 2, to, 1000, "it", &e), LAM_SYNTAX);
    assert_string_equal(e.where, "it");
}

static void changes_at_random_are_read_or_refused(void **state) {
    (void)state;
    seed = 11;
    for (int round = rounds(20000); round > 0; round--) {
        lmi_buf b = made((int)draw(0, 3));
        for (int64_t k = draw(1, 4); k > 0; k--) b.s[draw(0, (int64_t)b.n - 1)] = (char)draw(0, 255);
        size_t n = draw(0, 3) ? b.n : (size_t)draw(0, (int64_t)b.n);
        lam_error e = {0};
        if (open_and_read(b.s, n, &e) != LAM_OK) assert_true(e.text[0]);
        lmi_buf_free(&b);
    }
}

static void zip_once(void *arg, bool *ok) {
    const lmi_buf *b = arg;
    lam_error e = {0};
    *ok = oom_check(open_and_read(b->s, b->n, &e), &e);
}

static void lack_of_memory_is_told(void **state) {
    (void)state;
    lam_error e = {0};
    bool all = lmi_find_zlib(&e) == LAM_OK; /* what finds it stays */
    lmi_buf b;
    lmi_buf_init(&b);
    put_zip(&b, three, all ? 3 : 1, 0);
    oom_sweep_parts(zip_once, &b);
    lmi_buf_free(&b);
}

/* -- files ----------------------------------------------------------------------------------------------- */

static void files_are_read(void **state) {
    (void)state;
    char name[] = "test_bytes_XXXXXX", got[8] = "", *all;
    lam_error e = {0};
    lmi_bytes b, part;
    size_t n;
    int fd = mkstemp(name);
    assert_int_equal(write(fd, "0123456789", 10), 10);
    assert_int_equal(lmi_bytes_open(&b, name, &e), LAM_OK);
    assert_int_equal(b.size, 10);
    assert_int_equal(lmi_bytes_part(&b, 2, 6, "six", &part, &e), LAM_OK);
    assert_int_equal(lmi_bytes_read(&part, 1, got, 5, &e), LAM_OK);
    assert_string_equal(got, "34567");
    assert_int_equal(lmi_bytes_read(&part, 2, got, 5, &e), LAM_SYNTAX);
    assert_int_equal(e.at, 2);
    assert_string_equal(e.where, "six");
    e = (lam_error){0};
    assert_int_equal(lmi_bytes_part(&b, UINT64_MAX, 2, NULL, &part, &e), LAM_SYNTAX);
    e = (lam_error){0};
    assert_int_equal(lmi_bytes_all(&b, 9, &all, &n, &e), LAM_LIMIT);
    e = (lam_error){0};
    assert_int_equal(ftruncate(fd, 4), 0);
    assert_int_equal(lmi_bytes_all(&b, 10, &all, &n, &e), LAM_IO);
    assert_string_equal(e.text, "it became shorter while it was read");
    assert_null(all);
    lmi_bytes_close(&b);
    close(fd);
    remove(name);
    static const char *const others[][2] = {{"no such file", "can't be read"},
                                            {".", "folder"},
                                            {"/dev/null", "not a file"}};
    for (int i = 0; i < 3; i++) {
        e = (lam_error){0};
        assert_int_equal(lmi_bytes_open(&b, others[i][0], &e), LAM_IO);
        assert_non_null(strstr(e.text, others[i][1]));
    }
    assert_int_equal(mkfifo(name, 0600), 0);
    e = (lam_error){0};
    assert_int_equal(lmi_bytes_open(&b, name, &e), LAM_IO);
    remove(name);
}

static void zip_file_once(void *name, bool *ok) {
    lmi_bytes of;
    lmi_zip z;
    lam_error e = {0};
    assert_int_equal(lmi_bytes_open(&of, name, &e), LAM_OK);
    *ok = oom_check(lmi_zip_open(&z, &of, &e), &e);
    lmi_zip_free(&z);
    lmi_bytes_close(&of);
}

/* A directory that is found at the first try, and one that a long comment follows. */
static void a_zip_file_that_cannot_be_read_says_so(void **state) {
    (void)state;
    for (int flags = 0; flags <= WIDE; flags += WIDE) {
        lmi_buf b = made(flags);
        char name[] = "test_zip_XXXXXX";
        if (!flags) {
            b.n -= 5;
            put(&b, 2000, 2);
            lmi_pad(&b, 'c', 2000);
        }
        int fd = mkstemp(name);
        assert_int_equal(write(fd, b.s, b.n), b.n);
        close(fd);
        oom_sweep_reads(zip_file_once, name);
        remove(name);
        lmi_buf_free(&b);
    }
}

/* A cursor of a file that can't be read has nothing, and is where it was. */
static void a_cursor_that_cannot_read_says_so(void **state) {
    (void)state;
    static unsigned char piece[LMI_PIECE];
    char name[] = "test_bytes_XXXXXX";
    const unsigned char *got = piece;
    size_t n = 1;
    lam_error e = {0};
    lmi_bytes b;
    int fd = mkstemp(name);
    assert_int_equal(write(fd, "0123456789", 10), 10);
    close(fd);
    assert_int_equal(lmi_bytes_open(&b, name, &e), LAM_OK);
    lmi_cursor c = lmi_cursor_of(&b, piece);
    oom_kind = OOM_READS;
    oom_arm(0, true);
    assert_int_equal(lmi_cursor_peek(&c, &got, &n, &e), LAM_IO);
    assert_true(!got && n == 0 && c.at == 0 && strstr(e.text, "it can't be read"));
    oom_disarm();
    oom_kind = OOM_PIECES;
    assert_int_equal(lmi_cursor_peek(&c, &got, &n, &e), LAM_OK);
    assert_true(n == 10 && *got == '0');
    lmi_bytes_close(&b);
    remove(name);
}

static void a_cursor_goes_forward(void **state) {
    (void)state;
    static unsigned char piece[LMI_PIECE], bytes[300000];
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (unsigned char)(i * 31 >> 3);
    lmi_bytes b = lmi_bytes_of(bytes, sizeof bytes, "it");
    const unsigned char *got;
    lam_error e = {0};
    seed = 3;
    for (int round = rounds(200); round > 0; round--) {
        lmi_cursor c = lmi_cursor_of(&b, piece);
        for (uint64_t at = 0; at < sizeof bytes;) {
            uint64_t left = sizeof bytes - at, n = (uint64_t)draw(0, draw(0, 1) ? 20 : LMI_PIECE);
            size_t there;
            if (n > left) n = left;
            switch (draw(0, 2)) {
            case 0: assert_int_equal(lmi_cursor_skip(&c, n, &e), LAM_OK); break;
            case 1:
                assert_int_equal(lmi_cursor_take(&c, (size_t)n, &got, &e), LAM_OK);
                assert_memory_equal(got, bytes + at, n);
                break;
            default:
                assert_int_equal(lmi_cursor_peek(&c, &got, &there, &e), LAM_OK);
                assert_true(there >= 1 && there <= left);
                assert_memory_equal(got, bytes + at, there);
                n = 0;
            }
            at += n;
            assert_int_equal(c.at, at);
        }
        size_t there;
        assert_int_equal(lmi_cursor_peek(&c, &got, &there, &e), LAM_OK);
        assert_true(!got && there == 0);
    }
    lmi_cursor c = lmi_cursor_of(&b, piece);
    assert_int_equal(lmi_cursor_skip(&c, sizeof bytes - 2, &e), LAM_OK);
    assert_int_equal(lmi_cursor_take(&c, 3, &got, &e), LAM_SYNTAX);
    e = (lam_error){0};
    assert_int_equal(lmi_cursor_skip(&c, 3, &e), LAM_SYNTAX);
    c.at = 0;
    e = (lam_error){0};
    assert_int_equal(lmi_cursor_take(&c, LMI_PIECE + 1, &got, &e), LAM_SYNTAX);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(entries_are_found),
        cmocka_unit_test(a_comment_may_be_long),
        cmocka_unit_test(lies_are_refused),
        cmocka_unit_test(wide_lies_are_refused),
        cmocka_unit_test(a_zip_file_that_cannot_be_read_says_so),
        cmocka_unit_test(a_cursor_that_cannot_read_says_so),
        cmocka_unit_test(a_file_has_one_directory),
        cmocka_unit_test(a_damaged_stream_is_refused),
        cmocka_unit_test(changes_at_random_are_read_or_refused),
        cmocka_unit_test(lack_of_memory_is_told),
        cmocka_unit_test(files_are_read),
        cmocka_unit_test(a_cursor_goes_forward),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
