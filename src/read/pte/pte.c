/* SPDX-License-Identifier: Apache-2.0
 *
 * The header of an ExecuTorch program: at byte 4 the name of the flatbuffer's kind, at byte 8 the header's
 * own, its length, the size of the program, and, if there are segments, where they begin and how large they
 * are. */
#include "read/pte/pte.h"

#include <string.h>

enum { KIND = 4, HEADER = 8, LENGTH = 12, PROGRAM = 16, SEGMENTS = 24, SEGMENT_SIZE = 32, MOST = 40 };
/* Lengths of the header: with the first four fields, and with the size of the segments too. */
enum { LEAST_LENGTH = 24, WITH_SIZE = 32 };

bool lmi_is_pte(const unsigned char *head, size_t n) {
    return n >= HEADER && memcmp(head + KIND, "ET", 2) == 0 && head[KIND + 2] >= '0' &&
           head[KIND + 2] <= '9' && head[KIND + 3] >= '0' && head[KIND + 3] <= '9';
}

static lam_status note_number(lmi_tensors *t, const char *name, uint64_t n, lam_error *e) {
    const lam_value v = {.type = LAM_INT, .i = (int64_t)n};
    return lmi_tensors_attr(t, name, &v, e);
}

/* What holds the weights is one block whose elements are not known. */
static lam_status add_block(lmi_tensors *t, const lmi_bytes *of, const char *name, uint64_t at,
                            uint64_t bytes, lam_error *e) {
    const lmi_stored_tensor block = {
        .name = name, .type = "?", .dtype = -1, .ndim = -1, .bytes = (int64_t)bytes, .role_known = true};
    return lmi_tensors_add(t, &block, of, at, e);
}

/* An older file has no header of ExecuTorch's: all of it is the program. */
static lam_status read_program(lmi_tensors *t, const lmi_bytes *of, lam_error *e) {
    LAM_TRY(lmi_tensors_note(t, e, "it has no header that tells the program from the weights"));
    return add_block(t, of, "program", 0, of->size, e);
}

static lam_status read_header(lmi_tensors *t, const lmi_bytes *of, const unsigned char *head, lam_error *e) {
    const uint64_t length = lmi_le32(head + LENGTH), program = lmi_le64(head + PROGRAM);
    uint64_t start = lmi_le64(head + SEGMENTS), size = 0;
    if (length < LEAST_LENGTH || length > of->size)
        return lmi_bytes_bad(of, LENGTH, e, "a header of no length");
    if (program > of->size || program < HEADER + length)
        return lmi_bytes_bad(of, PROGRAM, e, "a program that is not in the file,");
    if (start && (start < program || start > of->size))
        return lmi_bytes_bad(of, SEGMENTS, e, "segments that begin in the program or behind the file,");
    if (start) size = of->size - start;
    if (start && length >= WITH_SIZE && lmi_le64(head + SEGMENT_SIZE)) {
        if (lmi_le64(head + SEGMENT_SIZE) > size)
            return lmi_bytes_bad(of, SEGMENT_SIZE, e, "segments that are longer than the file,");
        size = lmi_le64(head + SEGMENT_SIZE);
    }
    LAM_TRY(note_number(t, "program_bytes", program, e));
    LAM_TRY(note_number(t, "segment_bytes", size, e));
    LAM_TRY(lmi_tensors_note(t, e,
                             "of an ExecuTorch program the sizes alone are read: %llu bytes of program, "
                             "%llu of segments; weights may be in either, and which there are is not known",
                             (unsigned long long)program, (unsigned long long)size));
    LAM_TRY(add_block(t, of, "program", 0, program, e));
    return size ? add_block(t, of, "segments", start, size, e) : LAM_OK;
}

lam_status lmi_pte_read(lmi_tensors *t, const lmi_bytes *of, lam_error *e) {
    unsigned char head[MOST] = {0};
    const size_t n = of->size < MOST ? (size_t)of->size : MOST;
    LAM_TRY(lmi_bytes_read(of, 0, head, n, e));
    const uint32_t root = lmi_le32(head);
    if (root < HEADER || root >= of->size) return lmi_bytes_bad(of, 0, e, "a root that is not in the file,");
    if (memcmp(head + HEADER, "eh00", 4) != 0) return read_program(t, of, e);
    return n < SEGMENT_SIZE ? lmi_bytes_bad(of, n, e, "the end of its header") : read_header(t, of, head, e);
}
