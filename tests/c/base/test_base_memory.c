/* SPDX-License-Identifier: Apache-2.0
 *
 * Errors, arenas, arrays and maps. */
#include "kit/oom.h"

#include "base/base.h"

#include <stdio.h>

static void statuses_have_names(void **state) {
    (void)state;
    static const struct {
        lam_status status;
        const char *name;
    } all[] = {{LAM_OK, "OK"},
               {LAM_NOMEM, "NOMEM"},
               {LAM_IO, "IO"},
               {LAM_SYNTAX, "SYNTAX"},
               {LAM_UNSUPPORTED, "UNSUPPORTED"},
               {LAM_LIMIT, "LIMIT"},
               {LAM_RANGE, "RANGE"},
               {LAM_USAGE, "USAGE"},
               {LAM_FAILED, "FAILED"}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        assert_string_equal(lam_status_name(all[i].status), all[i].name);
    }
    assert_string_equal(lam_status_name((lam_status)1), "?");
    assert_string_equal(lam_status_name((lam_status)-9), "?");
    assert_string_equal(lam_version(), LAM_VERSION);
}

static void first_failure_stays(void **state) {
    (void)state;
    lam_error e = {0};
    assert_int_equal(lmi_fail_at(&e, LAM_SYNTAX, 7, "here", "byte %d is wrong", 7), LAM_SYNTAX);
    assert_int_equal(lmi_fail(&e, LAM_USAGE, "there", "another"), LAM_USAGE);
    assert_int_equal(lmi_nomem(&e), LAM_NOMEM);
    assert_int_equal(e.status, LAM_SYNTAX);
    assert_int_equal(e.at, 7);
    assert_string_equal(e.where, "here");
    assert_string_equal(e.text, "byte 7 is wrong");
    assert_int_equal(lmi_fail(NULL, LAM_IO, NULL, "nobody listens"), LAM_IO);
    lam_error fresh = {0};
    assert_int_equal(lmi_fail(&fresh, LAM_IO, NULL, "no place"), LAM_IO);
    assert_string_equal(fresh.where, "");
    assert_int_equal(fresh.at, -1);
}

static void error_texts_are_cut_and_clean(void **state) {
    (void)state;
    char lengthy[400];
    memset(lengthy, 'a', sizeof lengthy);
    lengthy[sizeof lengthy - 1] = '\0';
    lam_error e = {0};
    lmi_fail(&e, LAM_RANGE, lengthy, "%s", lengthy);
    assert_int_equal(strlen(e.where), sizeof e.where - 1);
    assert_int_equal(strlen(e.text), sizeof e.text - 1);
    lam_error dirty = {0};
    lmi_fail(&dirty, LAM_RANGE, "a\x1b[31mb\n", "tab\there \xc2\x9b%s", "\xff");
    assert_string_equal(dirty.where, "a?[31mb?");
    assert_string_equal(dirty.text, "tab?here ??");
    /* A two-byte character across the end of `where` is torn: its rest must not stay. */
    memset(lengthy, 'a', sizeof e.where - 2);
    memcpy(lengthy + sizeof e.where - 2, "\xc3\xa9", 3);
    lam_error torn = {0};
    lmi_fail(&torn, LAM_RANGE, lengthy, "x");
    assert_int_equal(strlen(torn.where), sizeof torn.where - 1);
    assert_int_equal(torn.where[sizeof torn.where - 2], '?');
}

static void arena_hands_out_zeroed_aligned_memory(void **state) {
    (void)state;
    lmi_arena a;
    lmi_arena_init(&a, 1 << 22);
    for (size_t n = 1; n < 3000; n += 7) {
        unsigned char *p = lmi_alloc(&a, n, 1);
        assert_non_null(p);
        assert_int_equal((uintptr_t)p % 16, 0);
        for (size_t i = 0; i < n; i++) assert_int_equal(p[i], 0);
        memset(p, 0xff, n);
    }
    assert_non_null(lmi_alloc(&a, 1 << 20, 1)); /* larger than any chunk */
    assert_non_null(lmi_alloc(&a, 8, 8));
    lmi_arena_free(&a);
    assert_int_equal(a.used, 0);
    lmi_arena_free(&a);
    unsigned char *large = NULL;
    lmi_arena_init(&a, 1 << 22);
    large = lmi_alloc(&a, 1 << 21, 1); /* the first piece is the large one */
    assert_non_null(large);
    assert_non_null(lmi_alloc(&a, 16, 1));
    lmi_arena_free(&a);
}

/* A small model costs one small piece of memory, a large one few large ones of at most a megabyte. */
static void chunks_double_up_to_a_megabyte(void **state) {
    (void)state;
    lmi_arena a;
    lmi_arena_init(&a, UINT64_MAX);
    int64_t pieces = 0;
    for (oom_arm(-1, false); oom_seen - pieces <= 1; pieces++) lmi_alloc(&a, 992, 1);
    assert_int_equal(pieces, 17); /* of which 16 fit into the first */
    for (; pieces < 16 << 10; pieces++) lmi_alloc(&a, 992, 1);
    assert_in_range(oom_seen - pieces, 20, 24); /* 7 that double, then one a megabyte of 16 */
    oom_disarm();
    lmi_arena_free(&a);
}

static void arena_keeps_its_limit(void **state) {
    (void)state;
    lmi_arena a;
    lmi_arena_init(&a, 64);
    assert_non_null(lmi_alloc(&a, 1, 1));
    assert_non_null(lmi_alloc(&a, 48, 1));
    assert_null(lmi_alloc(&a, 1, 1));
    assert_non_null(lmi_alloc(&a, 0, 8)); /* nothing fits even then */
    assert_null(lmi_strdup(&a, "x"));
    assert_null(lmi_copy(&a, "x", 1, 1));
    assert_null(lmi_alloc(&a, UINT64_MAX, 2));
    assert_null(lmi_alloc(&a, UINT64_MAX, 1));
    assert_null(lmi_alloc(&a, UINT64_MAX - 16, 1));
    lmi_arena_free(&a);
    lmi_arena_init(&a, UINT64_MAX);
    assert_non_null(lmi_alloc(&a, 16, 1));
    assert_null(lmi_alloc(&a, UINT64_MAX - 32, 1)); /* the header no longer fits, or the sum overflows */
    lmi_arena_free(&a);
    assert_null(lmi_alloc(&a, UINT64_MAX - 17, 1));
    lmi_arena_free(&a);
}

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>

/* A step beyond a piece is seen, be it the last of its chunk or not. */
static void arena_pieces_have_red_zones(void **state) {
    (void)state;
    lmi_arena a;
    lmi_arena_init(&a, UINT64_MAX);
    for (uint64_t n = 1; n < 40000; n = n * 3 + 1) {
        char *p = lmi_alloc(&a, n, 1), *q = lmi_alloc(&a, 1, 1);
        assert_non_null(p);
        assert_null(__asan_region_is_poisoned(p, (size_t)n));
        assert_true(__asan_address_is_poisoned(p + n) && __asan_address_is_poisoned(q + 1));
    }
    lmi_arena_free(&a);
}
#endif

static void arena_copies_texts(void **state) {
    (void)state;
    lmi_arena a;
    lmi_arena_init(&a, 1 << 16);
    assert_string_equal(lmi_strdup(&a, "text"), "text");
    assert_string_equal(lmi_strndup(&a, "text", 2), "te");
    assert_string_equal(lmi_strndup(&a, "text", 0), "");
    assert_null(lmi_strdup(&a, NULL));
    assert_null(lmi_strndup(&a, NULL, 3));
    assert_null(lmi_strndup(&a, "x", SIZE_MAX));
    int64_t numbers[] = {1, 2, 3};
    assert_memory_equal(lmi_copy(&a, numbers, 3, sizeof *numbers), numbers, sizeof numbers);
    assert_non_null(lmi_copy(&a, NULL, 0, 8));
    lmi_arena_free(&a);
}

static void arena_sweep(void *arg, bool *ok) {
    (void)arg;
    lmi_arena a;
    lmi_arena_init(&a, 1 << 24);
    *ok = lmi_alloc(&a, 10, 1) && lmi_alloc(&a, 1 << 15, 1) && lmi_alloc(&a, 100, 100) && lmi_strdup(&a, "x");
    lmi_arena_free(&a);
}

static void arena_survives_lack_of_memory(void **state) {
    (void)state;
    oom_sweep(arena_sweep, NULL);
}

static void array_grows(void **state) {
    (void)state;
    lmi_vec v;
    lmi_vec_init(&v, sizeof(int64_t));
    assert_null(lmi_vec_at(&v, 0));
    lmi_vec_pop(&v);
    for (int64_t i = 0; i < 1000; i++) {
        int64_t *p = lmi_vec_push(&v);
        assert_non_null(p);
        assert_int_equal(*p, 0);
        *p = i;
    }
    for (int64_t i = 0; i < 1000; i++) assert_int_equal(*(int64_t *)lmi_vec_at(&v, (size_t)i), i);
    lmi_vec_pop(&v);
    assert_int_equal(v.n, 999);
    assert_null(lmi_vec_at(&v, 999));
    lmi_vec_free(&v);
    assert_int_equal(v.n, 0);
    for (int i = 0; i < 3; i++) {
        int64_t *p = lmi_vec_add(&v, 100);
        assert_ptr_equal(p, lmi_vec_at(&v, (size_t)i * 100));
        p[99] = i;
    }
    assert_int_equal(v.n, 300);
    assert_int_equal(*(int64_t *)lmi_vec_at(&v, 99), 0);
    assert_null(lmi_vec_add(&v, SIZE_MAX));
    assert_null(lmi_vec_add(&v, SIZE_MAX / 4));
    assert_int_equal(v.n, 300);
    lmi_vec_free(&v);
    lmi_vec huge;
    lmi_vec_init(&huge, SIZE_MAX / 2);
    assert_null(lmi_vec_push(&huge));
    lmi_vec full = {NULL, SIZE_MAX / 2 + 2, SIZE_MAX / 2 + 2, 1};
    assert_null(lmi_vec_push(&full));
}

static void array_sweep(void *arg, bool *ok) {
    (void)arg;
    lmi_vec v;
    lmi_vec_init(&v, 3);
    *ok = true;
    for (int i = 0; i < 100 && *ok; i++) *ok = lmi_vec_push(&v) != NULL;
    lmi_vec_free(&v);
}

static void array_survives_lack_of_memory(void **state) {
    (void)state;
    oom_sweep(array_sweep, NULL);
}

static void map_finds_texts(void **state) {
    (void)state;
    static char keys[5000][12];
    lmi_map m;
    lmi_map_init(&m);
    assert_int_equal(lmi_map_get(&m, "0"), -1);
    assert_int_equal(lmi_map_get(&m, NULL), -1);
    for (int i = 0; i < 5000; i++) {
        snprintf(keys[i], sizeof keys[i], "layer%d", i);
        assert_int_equal(lmi_map_put(&m, keys[i], i, NULL), LAM_OK);
    }
    assert_int_equal(lmi_map_put(&m, "layer7", 77, NULL), LAM_OK);
    assert_int_equal(m.n, 5000);
    for (int i = 0; i < 5000; i++) assert_int_equal(lmi_map_get(&m, keys[i]), i == 7 ? 77 : i);
    assert_int_equal(lmi_map_get(&m, "layer5000"), -1);
    assert_int_equal(lmi_map_get(&m, ""), -1);
    assert_int_equal(lmi_map_put(&m, "", 1, NULL), LAM_OK);
    assert_int_equal(lmi_map_get(&m, ""), 1);
    lam_error e = {0};
    assert_int_equal(lmi_map_put(&m, NULL, 1, &e), LAM_USAGE);
    assert_true(e.text[0] != '\0');
    lmi_map_free(&m);
}

static void map_finds_numbers(void **state) {
    (void)state;
    lmi_map m;
    lmi_map_init(&m);
    assert_int_equal(lmi_map_get_u64(&m, 1), -1);
    for (uint64_t i = 0; i < 5000; i++)
        assert_int_equal(lmi_map_put_u64(&m, i << 40, (int64_t)i, NULL), LAM_OK);
    for (uint64_t i = 0; i < 5000; i++) assert_int_equal(lmi_map_get_u64(&m, i << 40), (int64_t)i);
    assert_int_equal(lmi_map_put_u64(&m, 0, 9, NULL), LAM_OK);
    assert_int_equal(lmi_map_get_u64(&m, 0), 9);
    assert_int_equal(lmi_map_get_u64(&m, 1), -1);
    lmi_map_free(&m);
}

static void map_copy_is_apart(void **state) {
    (void)state;
    lmi_map m, copy;
    lmi_map_init(&m);
    assert_int_equal(lmi_map_copy(&copy, &m, NULL), LAM_OK);
    assert_int_equal(lmi_map_get_u64(&copy, 1), -1);
    for (uint64_t i = 0; i < 100; i++) assert_int_equal(lmi_map_put_u64(&m, i, (int64_t)i, NULL), LAM_OK);
    oom_arm(0, true);
    lam_status s = lmi_map_copy(&copy, &m, NULL);
    oom_disarm();
    assert_int_equal(s, LAM_NOMEM);
    assert_int_equal(lmi_map_copy(&copy, &m, NULL), LAM_OK);
    assert_int_equal(lmi_map_put_u64(&m, 7, 70, NULL), LAM_OK);
    lmi_map_free(&m);
    assert_int_equal(copy.n, 100);
    for (uint64_t i = 0; i < 100; i++) assert_int_equal(lmi_map_get_u64(&copy, i), (int64_t)i);
    lmi_map_free(&copy);
}

static void map_sweep(void *arg, bool *ok) {
    (void)arg;
    lmi_map m;
    lam_error e = {0};
    static char keys[40][16];
    lmi_map by_text, of_text;
    lmi_map_init(&m);
    lmi_map_init(&by_text);
    lmi_map_init(&of_text);
    *ok = oom_check(lmi_map_reserve(&m, 20, &e), &e);
    for (uint64_t i = 0; i < 100 && *ok; i++) *ok = oom_check(lmi_map_put_u64(&m, i, 2, &e), &e);
    for (int i = 0; i < 40 && *ok; i++) {
        snprintf(keys[i], sizeof keys[i], "%d", i);
        *ok = oom_check(lmi_map_put(&by_text, keys[i], i, &e), &e);
    }
    if (*ok) *ok = oom_check(lmi_map_copy(&of_text, &by_text, &e), &e);
    if (*ok) assert_int_equal(lmi_map_get(&of_text, "7"), 7);
    lmi_map_free(&m);
    lmi_map_free(&by_text);
    lmi_map_free(&of_text);
}

/* Values by hashes of texts that the caller has: another text with the same hash is not the one. */
static void map_finds_texts_of_the_caller(void **state) {
    (void)state;
    const struct {
        int number;
        const char *text;
    } at[] = {{1, "a"}, {2, "b"}, {3, "c"}};
    lmi_map m;
    lmi_map_init(&m);
    assert_int_equal(lmi_map_find(&m, 7, "a", &at->text, sizeof *at), -1);
    for (int64_t i = 0; i < 3; i++) assert_int_equal(lmi_map_add(&m, 7, i, NULL), LAM_OK);
    for (int64_t i = 0; i < 3; i++)
        assert_int_equal(lmi_map_find(&m, 7, at[i].text, &at->text, sizeof *at), i);
    assert_int_equal(lmi_map_find(&m, 7, "d", &at->text, sizeof *at), -1);
    assert_int_equal(lmi_map_find(&m, 8, "a", &at->text, sizeof *at), -1);
    lmi_map_free(&m);
}

/* Values whose keys are the caller's: all that were added with a hash are found, and no others. */
static void map_holds_many_with_one_hash(void **state) {
    (void)state;
    lmi_map m;
    lmi_map_init(&m);
    size_t at = 5;
    assert_int_equal(lmi_map_next(&m, 5, &at), -1);
    for (int round = 0; round < 2; round++) {
        for (int64_t i = 0; i < 300; i++)
            assert_int_equal(lmi_map_add(&m, i % 7 ? (uint64_t)i : UINT64_MAX, i, NULL), LAM_OK);
        for (uint64_t hash = 0; hash < 300; hash++) {
            at = (size_t)hash;
            assert_int_equal(lmi_map_next(&m, hash, &at), hash % 7 ? (int64_t)hash : -1);
            if (hash % 7) assert_int_equal(lmi_map_next(&m, hash, &at), -1);
        }
        int64_t sum = 0, i, n = 0;
        for (at = SIZE_MAX; (i = lmi_map_next(&m, UINT64_MAX, &at)) >= 0; n++) sum += i;
        assert_int_equal(n, 43);
        assert_int_equal(sum, 7 * 42 * 43 / 2);
        lmi_map_clear(&m);
        at = SIZE_MAX;
        assert_int_equal(lmi_map_next(&m, UINT64_MAX, &at), -1);
        assert_int_equal(m.n, 0);
    }
    const size_t cap = m.cap;
    assert_int_equal(lmi_map_reserve(&m, cap / 2, NULL), LAM_OK);
    assert_int_equal(m.cap, cap);
    assert_int_equal(lmi_map_reserve(&m, cap / 2 + 1, NULL), LAM_OK);
    assert_int_equal(m.cap, 2 * cap);
    lmi_map_free(&m);
}

/* Other numbers have other hashes, so a number is found by its hash alone. */
static void numbers_have_hashes_of_their_own(void **state) {
    (void)state;
    for (uint64_t i = 1; i; i <<= 1)
        for (uint64_t k = i << 1; k; k <<= 1) {
            assert_true(lmi_hash_u64(i) != lmi_hash_u64(k));
            assert_true(lmi_hash_u64(i | k) != lmi_hash_u64(k));
        }
    assert_true(lmi_hash_u64(0) != lmi_hash_u64(1));
}

static void map_survives_lack_of_memory(void **state) {
    (void)state;
    oom_sweep(map_sweep, NULL);
}

static void hash_sees_every_byte(void **state) {
    (void)state;
    unsigned char bytes[20] = {0};
    uint64_t plain = lmi_hash(bytes, sizeof bytes);
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = 1;
        assert_true(lmi_hash(bytes, sizeof bytes) != plain);
        bytes[i] = 0;
        assert_true(i == 0 || lmi_hash(bytes, i) != lmi_hash(bytes, i - 1));
    }
    assert_true(lmi_hash(bytes, sizeof bytes) == plain);
}

/* Also where they are at the end of the slots and go on at the beginning, and then get more room. */
static void values_of_one_hash_stay_in_their_order(void **state) {
    (void)state;
    for (uint64_t hash = 0; hash < 16; hash++) {
        lmi_map m;
        lmi_map_init(&m);
        for (int64_t i = 0; i < 20; i++) assert_int_equal(lmi_map_add(&m, hash, i, NULL), LAM_OK);
        size_t at = hash;
        for (int64_t i = 0; i < 20; i++) assert_int_equal(lmi_map_next(&m, hash, &at), i);
        assert_int_equal(lmi_map_next(&m, hash, &at), -1);
        lmi_map_free(&m);
    }
}

/* Texts of 16 bytes that have one hash by what is in the source alone. */
static void texts_of_one_hash_can_not_be_made(void **state) {
    (void)state;
    uint64_t seen[64];
    for (uint64_t i = 0; i < 64; i++) {
        const uint64_t first = 0x6161616161616161 + i;
        const uint64_t text[] = {first, 0x6261626162616261 ^ lmi_hash_u64(16 ^ first)};
        seen[i] = lmi_hash(text, sizeof text);
        for (uint64_t k = 0; k < i; k++) assert_true(seen[i] != seen[k]);
    }
}

static void a_hash_to_be_kept_is_the_same(void **state) {
    (void)state;
    assert_true(lmi_hash_kept("layer1.0.conv1") == UINT64_C(0x99859d1154944790));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(statuses_have_names),
        cmocka_unit_test(values_of_one_hash_stay_in_their_order),
        cmocka_unit_test(texts_of_one_hash_can_not_be_made),
        cmocka_unit_test(a_hash_to_be_kept_is_the_same),
        cmocka_unit_test(first_failure_stays),
        cmocka_unit_test(error_texts_are_cut_and_clean),
        cmocka_unit_test(arena_hands_out_zeroed_aligned_memory),
        cmocka_unit_test(chunks_double_up_to_a_megabyte),
        cmocka_unit_test(arena_keeps_its_limit),
#ifdef __SANITIZE_ADDRESS__
        cmocka_unit_test(arena_pieces_have_red_zones),
#endif
        cmocka_unit_test(arena_copies_texts),
        cmocka_unit_test(arena_survives_lack_of_memory),
        cmocka_unit_test(array_grows),
        cmocka_unit_test(array_survives_lack_of_memory),
        cmocka_unit_test(map_finds_texts),
        cmocka_unit_test(map_finds_numbers),
        cmocka_unit_test(map_copy_is_apart),
        cmocka_unit_test(map_survives_lack_of_memory),
        cmocka_unit_test(map_finds_texts_of_the_caller),
        cmocka_unit_test(map_holds_many_with_one_hash),
        cmocka_unit_test(numbers_have_hashes_of_their_own),
        cmocka_unit_test(hash_sees_every_byte),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
