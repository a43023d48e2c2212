/* SPDX-License-Identifier: Apache-2.0
 *
 * The values of GGUF's types of few bits, by the functions dequantize_row_* of ggml-quants.c of llama.cpp. A
 * block has its scales beside its numbers. Types whose values are in large tables (iq1, iq2, iq3) are not
 * read. */
#include "model/values.h"
#include "read/weights/weights.h"

#include <math.h>

enum { SMALL = 32, LARGE = 256 };

static double half(const unsigned char *p) {
    const uint32_t bits = lmi_le16(p), magnitude = (bits & 0x7fffu) << 13;
    float f;
    if ((bits & 0x7c00u) == 0x7c00u) return bits & 0x3ffu ? NAN : bits & 0x8000u ? -INFINITY : INFINITY;
    memcpy(&f, &magnitude, sizeof f);
    return (bits & 0x8000u ? -1 : 1) * (double)f * 0x1p112;
}

static int low(unsigned char b) { return b & 15; }
static int high(unsigned char b) { return b >> 4; }
static int small(unsigned char b) { return (int8_t)b; }

/* -- blocks of 32 ---------------------------------------------------------------------------------------- */

static void q4_0(const unsigned char *b, double *y) {
    const double d = half(b);
    for (int i = 0; i < 16; i++) {
        y[i] = d * (low(b[2 + i]) - 8);
        y[i + 16] = d * (high(b[2 + i]) - 8);
    }
}

static void q4_1(const unsigned char *b, double *y) {
    const double d = half(b), m = half(b + 2);
    for (int i = 0; i < 16; i++) {
        y[i] = d * low(b[4 + i]) + m;
        y[i + 16] = d * high(b[4 + i]) + m;
    }
}

/* The fifth bits are in a number of 32. */
static void five(const unsigned char *q, uint32_t fifth, double d, double m, double *y) {
    for (int i = 0; i < 16; i++) {
        y[i] = d * (low(q[i]) | (int)(fifth >> i & 1) << 4) + m;
        y[i + 16] = d * (high(q[i]) | (int)(fifth >> (i + 16) & 1) << 4) + m;
    }
}

static void q5_0(const unsigned char *b, double *y) {
    const double d = half(b);
    five(b + 6, lmi_le32(b + 2), d, -16 * d, y);
}

static void q5_1(const unsigned char *b, double *y) { five(b + 8, lmi_le32(b + 4), half(b), half(b + 2), y); }

static void q8_0(const unsigned char *b, double *y) {
    const double d = half(b);
    for (int i = 0; i < SMALL; i++) y[i] = d * small(b[2 + i]);
}

static void q8_1(const unsigned char *b, double *y) {
    const double d = half(b);
    for (int i = 0; i < SMALL; i++) y[i] = d * small(b[4 + i]);
}

static const int8_t steps[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

static void by_table(const unsigned char *q, const int8_t *table, double d, double *y) {
    for (int i = 0; i < 16; i++) {
        y[i] = d * table[low(q[i])];
        y[i + 16] = d * table[high(q[i])];
    }
}

static void iq4_nl(const unsigned char *b, double *y) { by_table(b + 2, steps, half(b), y); }

/* Twice the values of a float of 4 bits, so the scale is half of what its exponent says. */
static void mxfp4(const unsigned char *b, double *y) {
    static const int8_t table[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
    by_table(b + 1, table, ldexp(1, b[0] - 128), y);
}

/* -- blocks of 256 --------------------------------------------------------------------------------------- */

static void iq4_xs(const unsigned char *b, double *y) {
    const double d = half(b);
    const uint32_t upper = lmi_le16(b + 2);
    for (int i = 0; i < 8; i++) {
        const int scale = (b[4 + i / 2] >> 4 * (i % 2) & 15) | (int)(upper >> 2 * i & 3) << 4;
        by_table(b + 8 + 16 * i, steps, d * (scale - 32), y + 32 * i);
    }
}

static void q2_k(const unsigned char *b, double *y) {
    const double d = half(b + 80), m = half(b + 82);
    for (int i = 0; i < LARGE; i++) { /* 16 of a scale, 128 of 32 bytes */
        const unsigned char scale = b[i / 16];
        const int q = b[16 + 32 * (i / 128) + i % 32] >> 2 * (i % 128 / 32) & 3;
        y[i] = d * low(scale) * q - m * high(scale);
    }
}

static void q3_k(const unsigned char *b, double *y) {
    const unsigned char *q = b + 32, *s = b + 96;
    const double d = half(b + 108);
    for (int i = 0; i < LARGE; i++) {
        const int k = i / 16, lower = k < 8 ? low(s[k]) : high(s[k - 8]),
                  upper = s[8 + k % 4] >> 2 * (k / 4) & 3;
        const int bits = q[32 * (i / 128) + i % 32] >> 2 * (i % 128 / 32) & 3;
        const int third = b[i % 32] >> (i / 32) & 1;
        y[i] = d * ((lower | upper << 4) - 32) * (bits - (third ? 0 : 4));
    }
}

/* The k-th of 8 scales and of 8 least values, of 6 bits each in 12 bytes. */
static void scale_of(const unsigned char *s, int k, int *scale, int *least) {
    *scale = k < 4 ? s[k] & 63 : low(s[k + 4]) | (s[k - 4] >> 6) << 4;
    *least = k < 4 ? s[k + 4] & 63 : high(s[k + 4]) | (s[k] >> 6) << 4;
}

/* `fifth`: bytes of the fifth bits; NULL: none. */
static void four_or_five(const unsigned char *b, const unsigned char *fifth, const unsigned char *q,
                         double *y) {
    const double d = half(b), m = half(b + 2);
    for (int k = 0; k < 8; k++) {
        int scale, least;
        scale_of(b + 4, k, &scale, &least);
        for (int i = 0; i < 32; i++) {
            const unsigned char both = q[32 * (k / 2) + i];
            const int bits = (k % 2 ? high(both) : low(both)) | (fifth ? (fifth[i] >> k & 1) << 4 : 0);
            y[32 * k + i] = d * scale * bits - m * least;
        }
    }
}

static void q4_k(const unsigned char *b, double *y) { four_or_five(b, NULL, b + 16, y); }
static void q5_k(const unsigned char *b, double *y) { four_or_five(b, b + 16, b + 48, y); }

static void q6_k(const unsigned char *b, double *y) {
    const double d = half(b + 208);
    for (int i = 0; i < LARGE; i++) { /* 128 of 64 bytes with the lower bits and of 32 with the upper ones */
        const int half_of = i / 128, k = i % 128 / 32, at = i % 32;
        const unsigned char lower = b[64 * half_of + 32 * (k % 2) + at];
        const int upper = b[128 + 32 * half_of + at] >> 2 * k & 3;
        const int bits = ((k < 2 ? low(lower) : high(lower)) | upper << 4) - 32;
        y[i] = d * small(b[192 + i / 16]) * bits;
    }
}

static void q8_k(const unsigned char *b, double *y) {
    const uint32_t bits = lmi_le32(b);
    float d;
    memcpy(&d, &bits, sizeof d);
    for (int i = 0; i < LARGE; i++) y[i] = (double)d * small(b[4 + i]);
}

/* Five values of -1, 0 and 1 in a byte, as the digits of a fraction in base 3. */
static double third(unsigned char byte, int digit) {
    static const uint8_t power[] = {1, 3, 9, 27, 81};
    const uint8_t rest = (uint8_t)(byte * power[digit]);
    return (rest * 3 >> 8) - 1;
}

static void tq1_0(const unsigned char *b, double *y) {
    const double d = half(b + 52);
    for (int i = 0; i < 160; i++) y[i] = d * third(b[i % 32], i / 32);
    for (int i = 0; i < 80; i++) y[160 + i] = d * third(b[32 + i % 16], i / 16);
    for (int i = 0; i < 16; i++) y[240 + i] = d * third(b[48 + i % 4], i / 4);
}

static void tq2_0(const unsigned char *b, double *y) {
    const double d = half(b + 64);
    for (int i = 0; i < LARGE; i++) y[i] = d * ((b[32 * (i / 128) + i % 32] >> 2 * (i % 128 / 32) & 3) - 1);
}

lmi_block *lmi_block_of(const char *type) {
    static const struct {
        const char *name;
        lmi_block *values;
    } all[] = {{"q4_0", q4_0},   {"q4_1", q4_1},  {"q5_0", q5_0},     {"q5_1", q5_1},     {"q8_0", q8_0},
               {"q8_1", q8_1},   {"q2_K", q2_k},  {"q3_K", q3_k},     {"q4_K", q4_k},     {"q5_K", q5_k},
               {"q6_K", q6_k},   {"q8_K", q8_k},  {"iq4_nl", iq4_nl}, {"iq4_xs", iq4_xs}, {"mxfp4", mxfp4},
               {"tq1_0", tq1_0}, {"tq2_0", tq2_0}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (strcmp(all[i].name, type) == 0) return all[i].values;
    return NULL;
}
