/* SPDX-License-Identifier: Apache-2.0
 *
 * The opcodes of pickles of protocol 0 to 5: what each makes, and which texts are no pickle. */
#include "kit/oom.h"

#include "read/torch/pickle.h"

#include <string.h>

static lam_error last;

/* Values as Python writes them: ('a', 1), [..], {..}, <set>, <text of a global>, call(...) with its state. */
static void put_value(lmi_buf *b, const lmi_pickle *p, int32_t at);

static void put_items(lmi_buf *b, const lmi_pickle *p, lmi_pickled_items items, const char *ends,
                      bool pairs) {
    int32_t k = 0;
    lmi_putc(b, ends[0]);
    for (int32_t c = items.first; items.n && c >= 0; c = lmi_pickled_cell_at(p, c)->next, k++) {
        if (k) lmi_put(b, pairs && k % 2 ? ":" : ",");
        put_value(b, p, lmi_pickled_cell_at(p, c)->value);
    }
    assert_int_equal(k, items.n);
    lmi_putc(b, ends[1]);
}

static void put_call(lmi_buf *b, const lmi_pickle *p, int32_t at) {
    const lmi_pickled_call *call = lmi_pickled_call_of(p, at, NULL, NULL);
    put_value(b, p, call->function);
    if (call->arguments < 0)
        lmi_put(b, "(?)");
    else
        put_value(b, p, call->arguments);
    if (call->items.n) put_items(b, p, call->items, "[]", false);
    if (call->state < 0) return;
    lmi_put(b, "|");
    put_value(b, p, call->state);
}

static void put_value(lmi_buf *b, const lmi_pickle *p, int32_t at) {
    const lmi_pickled_value *v = lmi_pickled_at(p, at);
    int64_t i = 0;
    switch (v->kind) {
    case LMI_PICKLED_NONE: lmi_put(b, "None"); return;
    case LMI_PICKLED_BOOL: lmi_put(b, v->i ? "True" : "False"); return;
    case LMI_PICKLED_INT:
        assert_true(lmi_pickled_int(p, at, &i));
        lmi_putf(b, "%lld", (long long)i);
        return;
    case LMI_PICKLED_LONG: lmi_put(b, "long"); return;
    case LMI_PICKLED_FLOAT: lmi_putf(b, "%gf", v->f); return;
    case LMI_PICKLED_TEXT: lmi_putf(b, "'%s'", lmi_pickled_text(p, at)); return;
    case LMI_PICKLED_BYTES: lmi_putf(b, "%lld bytes", (long long)v->i); return;
    case LMI_PICKLED_TUPLE: put_items(b, p, lmi_pickled_items_of(p, at), "()", false); return;
    case LMI_PICKLED_LIST: put_items(b, p, lmi_pickled_items_of(p, at), "[]", false); return;
    case LMI_PICKLED_SET: put_items(b, p, lmi_pickled_items_of(p, at), "<>", false); return;
    case LMI_PICKLED_DICT: put_items(b, p, lmi_pickled_items_of(p, at), "{}", true); return;
    case LMI_PICKLED_GLOBAL:
        lmi_putf(b, "%s.%s", lmi_pickled_global_of(p, at)->module, lmi_pickled_global_of(p, at)->name);
        return;
    case LMI_PICKLED_CALL: put_call(b, p, at); return;
    case LMI_PICKLED_KEPT:
        lmi_put(b, "kept ");
        put_value(b, p, v->id);
        return;
    }
}

typedef struct told {
    const char *bytes;
    size_t n;
    const char *text; /* what it makes, or of one that is refused a part of the sentence */
} told;
#define PICKLE(bytes, text)                                                                                  \
    { bytes, sizeof(bytes) - 1, text }

static const told made[] = {
    PICKLE("N.", "None"), PICKLE("\x88.", "True"), PICKLE("\x89.", "False"), PICKLE("I00\n.", "False"),
    PICKLE("I01\n.", "True"), PICKLE("I-7\n.", "-7"), PICKLE("L12L\n.", "12"), PICKLE("L12\n.", "12"),
    PICKLE("L99999999999999999999L\n.", "long"), PICKLE("I0x1F\n.", "31"), /* as Python's int() takes it */
    PICKLE("I 1_000\t\n.", "1000"), PICKLE("L+0b11L\n.", "3"), PICKLE("I-0O17\n.", "-15"),
    PICKLE("I1\0 and more\n.", "1"), PICKLE("J\xfe\xff\xff\xff.", "-2"), PICKLE("K\xff.", "255"),
    PICKLE("M\x00\x01.", "256"), PICKLE("\x8a\x00.", "0"), PICKLE("\x8a\x01\xff.", "-1"),
    PICKLE("\x8a\x02\xff\x00.", "255"), PICKLE("\x8a\x09\x01\x02\x03\x04\x05\x06\x07\x08\x09.", "long"),
    PICKLE("\x8b\x01\x00\x00\x00\x05.", "5"), PICKLE("F2.5\n.", "2.5f"),
    PICKLE("G\x3f\xf8\x00\x00\x00\x00\x00\x00.", "1.5f"), PICKLE("S'a b'\n.", "'a b'"),
    PICKLE("S\"it's\"\n.", "'it's'"), PICKLE("S'a\0b'\n.", "'a'"), /* of three bytes */
    PICKLE("Va\n.", "'a'"),
    PICKLE("V\\u006fs\\U0001f600\\ud800\n.", "'os\xf0\x9f\x98\x80\xef\xbf\xbd'"), /* escapes */
    PICKLE("V\xe9\\\\u006f\\u12\\n\\\n.", "'\xc3\xa9\\\\u006f\\u12\\n\\'"),       /* Latin-1; no escapes */
    PICKLE("V\\u20ac\n.", "'\xe2\x82\xac'"),
    PICKLE("S'\\x6f\\163\\\\\\'\\q\\x6\\u006f\xe9'\n.", "'os\\'\\q\\x6\\u006f\xe9'"),
    PICKLE("U\x02hi.", "'hi'"), PICKLE("T\x01\x00\x00\x00x.", "'x'"), PICKLE("X\x01\x00\x00\x00y.", "'y'"),
    PICKLE("\x8c\x01z.", "'z'"), PICKLE("\x8d\x01\x00\x00\x00\x00\x00\x00\x00w.", "'w'"),
    PICKLE("C\x02"
           "ab.",
           "2 bytes"),
    PICKLE("B\x01\x00\x00\x00"
           "a.",
           "1 bytes"),
    PICKLE("\x8e\x01\x00\x00\x00\x00\x00\x00\x00"
           "a.",
           "1 bytes"),
    PICKLE("\x96\x00\x00\x00\x00\x00\x00\x00\x00.", "0 bytes"), PICKLE(").", "()"), PICKLE("].", "[]"),
    PICKLE("}.", "{}"), PICKLE("\x8f.", "<>"), PICKLE("K\x01\x85.", "(1)"),
    PICKLE("K\x01K\x02\x86.", "(1,2)"), PICKLE("K\x01K\x02K\x03\x87.", "(1,2,3)"),
    PICKLE("(K\x01Nt.", "(1,None)"), PICKLE("(K\x01Nl.", "[1,None]"),
    PICKLE("(Va\nK\x01"
           "d.",
           "{'a':1}"),
    PICKLE("(K\x01\x91.", "<1>"),
    PICKLE("]K\x01"
           "a.",
           "[1]"),
    PICKLE("](K\x01K\x02"
           "e.",
           "[1,2]"),
    PICKLE("](e.", "[]"), PICKLE("}Va\nNs.", "{'a':None}"), PICKLE("}(Va\nNVb\nNu.", "{'a':None,'b':None}"),
    PICKLE("}(u.", "{}"), PICKLE("\x8f(K\x01\x90.", "<1>"),
    PICKLE("K\x05"
           "2\x86.",
           "(5,5)"), /* DUP */
    PICKLE("K\x05K\x06"
           "0.",
           "5"),             /* POP */
    PICKLE("K\x05(0.", "5"), /* POP of a mark */
    PICKLE("K\x05(K\x06K\x07"
           "1.",
           "5"), /* POP_MARK */
    PICKLE("K\x05q\x00"
           "h\x00\x86.",
           "(5,5)"), /* BINPUT, BINGET */
    PICKLE("K\x05r\x01\x00\x00\x00j\x01\x00\x00\x00\x86.", "(5,5)"),
    PICKLE("K\x05p3\ng3\n\x86.", "(5,5)"),                                               /* PUT, GET */
    PICKLE("K\x05p 1_0 \ng+10\n\x86.", "(5,5)"), PICKLE("K\x05\x94h\x00\x86.", "(5,5)"), /* MEMOIZE */
    PICKLE("ca\nB\n.", "a.B"), PICKLE("Va\nVB\n\x93.", "a.B"),                           /* STACK_GLOBAL */
    PICKLE("K\x01N\x93.", "?.?"), PICKLE("ca\0b\nB\0\n.", "?.?"), /* names with a NUL */
    PICKLE("X\3\0\0\0a\0bVB\n\x93.", "?.B"), PICKLE("ca\nB\n)R.", "a.B()"),
    /* OrderedDict of Python 2, of a list of pairs; of what is no pair, or no list, nothing */
    PICKLE("ccollections\nOrderedDict\n(](](Va\nK\x01"
           "e](Vb\nNeetR.",
           "collections.OrderedDict([['a',1],['b',None]])['a',1,'b',None]"),
    PICKLE("ccollections\nOrderedDict\n(](](Va\nK\x01"
           "e](Vb\neetR.",
           "collections.OrderedDict([['a',1],['b']])['a',1]"),
    PICKLE("ccollections\nOrderedDict\n(K\x01tR.", "collections.OrderedDict(1)"),
    PICKLE("ccollections\nCounter\n(](](Va\nK\x01"
           "eetR.",
           "collections.Counter([['a',1]])"),
    PICKLE("ca\nB\nK\x01\x85\x81.", "a.B(1)"),         /* NEWOBJ */
    PICKLE("ca\nB\n)}\x92.", "a.B(?)"),                /* NEWOBJ_EX */
    PICKLE("(K\x01ia\nB\n.", "a.B(1)"),                /* INST */
    PICKLE("(ca\nB\nK\x01o.", "a.B(1)"),               /* OBJ */
    PICKLE("ca\nB\n)R}Va\nK\x01sb.", "a.B()|{'a':1}"), /* BUILD */
    PICKLE("ca\nB\n}b.", "a.B"),
    PICKLE("K\x01}b.", "1"), /* nothing to set, or to add, is no error of any value */
    PICKLE("K\x01Nb.", "1"), PICKLE("K\x01(e.", "1"), PICKLE("K\x01(u.", "1"),
    PICKLE("]K\x01"
           "aK\x00K\x02s.",
           "[1]"), /* of a list in place of another */
    PICKLE("\x96\x00\x00\x00\x00\x00\x00\x00\x00(K\x01"
           "e.",
           "0 bytes"),
    PICKLE("K\x01QK\x00K\x02s.", "kept 1"), PICKLE("K\x01Q}b.", "kept 1"),
    PICKLE("ca\nB\n)RK\x01"
           "a.",
           "a.B()[1]"),
    PICKLE("ca\nB\n)RVk\nK\x01s.", "a.B()['k',1]"), PICKLE("Pkey\n.", "kept 'key'"),
    PICKLE("\x80\x05\x95\x02\x00\x00\x00\x00\x00\x00\x00K\x01.", "1"), /* PROTO, FRAME */
    PICKLE("K\x01q\x02"
           "0K\x05q\x00h\x02.",
           "1"), /* remembered by a number before it is counted to */
    PICKLE("K\x01q\x02"
           "0K\x05q\x00q\x01q\x02h\x02.",
           "5"),
    PICKLE("K\x01\x98.", "1"), /* READONLY_BUFFER */
};

static lam_status pickled(lmi_pickle *p, const char *bytes, size_t n) {
    const lmi_bytes of = lmi_bytes_of(bytes, n, "made.pkl");
    last = (lam_error){.at = -1};
    return lmi_pickle_read(p, &of, 0, n, &last);
}

static void every_opcode_makes_its_value(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof made / sizeof *made; i++) {
        lmi_pickle p;
        lmi_buf b;
        lmi_buf_init(&b);
        if (pickled(&p, made[i].bytes, made[i].n) != LAM_OK) fail_msg("%s: %s", made[i].text, last.text);
        assert_int_equal(p.end, made[i].n);
        put_value(&b, &p, p.root);
        assert_string_equal(lmi_buf_text(&b), made[i].text);
        lmi_buf_free(&b);
        lmi_pickle_free(&p);
    }
}

static void a_pickle_that_is_cut_is_refused_at_every_byte(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof made / sizeof *made; i++) {
        for (size_t n = 0; n < made[i].n; n++) {
            lmi_pickle p;
            assert_int_equal(pickled(&p, made[i].bytes, n), LAM_SYNTAX);
            assert_non_null(strstr(last.text, "byte"));
            assert_int_equal(p.root, -1);
            lmi_pickle_free(&p);
        }
    }
}

static void what_is_no_pickle_is_refused_at_its_place(void **state) {
    (void)state;
    static const told all[] = {
        PICKLE(".", "needs more values"),
        PICKLE("(.", "needs more values"),
        PICKLE("0.", "needs more values"),
        PICKLE("2.", "needs more values"),
        PICKLE("1.", "byte 0"),
        PICKLE("t.", "byte 0"),
        PICKLE("\x85.", "needs more values"),
        PICKLE("K\x01\x86.", "needs more values"),
        PICKLE("K\x01R.", "needs more values"),
        PICKLE("K\x01\x93.", "needs more values"),
        PICKLE("Q.", "needs more values"),
        PICKLE("b.", "needs more values"),
        PICKLE("a.", "needs more values"),
        PICKLE("(K\x01"
               "e.",
               "needs more values"),
        PICKLE("K\x01(K\x02"
               "e.",
               "can't grow"),
        PICKLE(")K\x01"
               "a.",
               "can't grow"),
        PICKLE("}K\x01"
               "a.",
               "can't grow"),
        PICKLE("}(K\x01u.", "a name without a value"),
        PICKLE("(K\x01"
               "d.",
               "a name without a value"),
        PICKLE("K\x01}Va\nNsb.", "attributes of a value without any"),
        PICKLE("(o.", "an object without a class"),
        PICKLE("Iseven\n.", "no number"),
        PICKLE("I\n.", "no number"),
        PICKLE("I7x\n.", "no number"),
        PICKLE("I0b\n.", "no number"),
        PICKLE("I0b2\n.", "no number"),
        PICKLE("I_7\n.", "no number"),
        PICKLE("I-\n.", "no number"),
        PICKLE("F\n.", "no number"),
        PICKLE("gx\n.", "no number"),
        PICKLE("Np-1\n.", "no number"),
        PICKLE("Np0x1\n.", "no number"),
        PICKLE("Sa\n.", "a text without quotes"),
        PICKLE("S'a\n.", "a text without quotes"),
        PICKLE("S'a\"\n.", "a text without quotes"),
        PICKLE("h\x07.", "byte 0"),
        PICKLE("K\x01j\xff\xff\xff\xff.", "byte 2"),
        PICKLE("\x01.", "no opcode of a pickle"),
        PICKLE("\x00.", "no opcode of a pickle"),
        PICKLE("X\xff\xff\xff\xffy.", "byte"),
        PICKLE("\x8d\xff\xff\xff\xff\xff\xff\xff\xffy.", "byte"),
        PICKLE("C\x09"
               "a.",
               "byte"),
    };
    static const told outside[] = {
        PICKLE("\x80\x06N.", "protocol 6"),
        PICKLE("\x82\x01.", "opcode 82 at byte 0"),
        PICKLE("K\x01\x84\x01.", "opcode 84 at byte 2"),
        PICKLE("\x97.", "opcode 97"),
    };
    lmi_pickle p;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        const lam_status s = pickled(&p, all[i].bytes, all[i].n);
        if (s != LAM_SYNTAX || !strstr(last.text, all[i].text))
            fail_msg("%zu: status %d, '%s' lacks '%s'", i, (int)s, last.text, all[i].text);
        lmi_pickle_free(&p);
    }
    for (size_t i = 0; i < sizeof outside / sizeof *outside; i++) {
        assert_int_equal(pickled(&p, outside[i].bytes, outside[i].n), LAM_UNSUPPORTED);
        assert_non_null(strstr(last.text, outside[i].text));
        lmi_pickle_free(&p);
    }
}

/* What is asked of a value of another kind has no answer. */
static void values_of_other_kinds_have_no_parts(void **state) {
    (void)state;
    lmi_pickle p;
    int64_t i;
    assert_int_equal(pickled(&p, "K\x01.", 3), LAM_OK);
    assert_int_equal(lmi_pickled_items_of(&p, p.root).n, 0);
    assert_int_equal(lmi_pickled_item(&p, p.root, 0), -1);
    assert_null(lmi_pickled_text(&p, p.root));
    assert_int_equal(lmi_pickled_get(&p, p.root, "a"), -1);
    assert_null(lmi_pickled_global_of(&p, p.root));
    assert_null(lmi_pickled_call_of(&p, p.root, NULL, NULL));
    for (int32_t none = -1; none < 0; none++) {
        assert_int_equal(lmi_pickled_items_of(&p, none).n, 0);
        assert_int_equal(lmi_pickled_item(&p, none, 0), -1);
        assert_null(lmi_pickled_text(&p, none));
        assert_false(lmi_pickled_int(&p, none, &i));
        assert_null(lmi_pickled_global_of(&p, none));
        assert_null(lmi_pickled_call_of(&p, none, NULL, NULL));
    }
    lmi_pickle_free(&p);
    assert_int_equal(pickled(&p, "ca\nB\nK\x01\x85R.", 10), LAM_OK);
    assert_false(lmi_pickled_int(&p, p.root, &i));
    const lmi_pickled_call *call = lmi_pickled_call_of(&p, p.root, "a", "B");
    assert_non_null(call);
    assert_int_equal(lmi_pickled_item(&p, call->arguments, 1), -1);
    assert_int_equal(lmi_pickled_item(&p, call->arguments, -1), -1);
    assert_null(lmi_pickled_call_of(&p, p.root, "b", "B"));
    assert_null(lmi_pickled_call_of(&p, p.root, "a", "C"));
    assert_non_null(lmi_pickled_call_of(&p, p.root, NULL, "B"));
    lmi_pickle_free(&p);
    /* a call of a call, whose function is no import */
    assert_int_equal(pickled(&p, "ca\nB\n)R)R.", 10), LAM_OK);
    assert_null(lmi_pickled_call_of(&p, p.root, "a", "B"));
    assert_non_null(lmi_pickled_call_of(&p, p.root, NULL, NULL));
    lmi_pickle_free(&p);
}

/* Of a line 16 KiB are kept, all of it is read, and a number in it is not known. */
static void long_lines_are_read_to_their_end(void **state) {
    (void)state;
    static const struct {
        const char *before, *after, *text;
        lam_status status;
    } cases[] = {
        {"V", "\n.", "20000 bytes", LAM_OK},
        {"S'", "'\n.", "20002 bytes", LAM_OK},
        {"I", "\n.", "long", LAM_OK},
        {"L", "L\n.", "long", LAM_OK},
        {"F", "\n.", "inff", LAM_OK},
        {"c", "\nB\n.", "?.B", LAM_OK},
        {"Np", "\n.", "digits", LAM_LIMIT},
        {"V", "", "a line that does not end", LAM_SYNTAX},
        {"Npx", "\n.", "no number", LAM_SYNTAX},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lmi_pickle p;
        lmi_buf b, made_of;
        lmi_buf_init(&b);
        lmi_buf_init(&made_of);
        lmi_put(&b, cases[i].before);
        lmi_pad(&b, '1', 20000);
        lmi_put(&b, cases[i].after);
        assert_int_equal(pickled(&p, b.s, b.n), cases[i].status);
        if (cases[i].status == LAM_OK) {
            put_value(&made_of, &p, p.root);
            assert_string_equal(lmi_buf_text(&made_of), cases[i].text);
        } else if (!strstr(last.text, cases[i].text)) {
            fail_msg("'%s' lacks '%s'", last.text, cases[i].text);
        }
        lmi_pickle_free(&p);
        lmi_buf_free(&b);
        lmi_buf_free(&made_of);
    }
}

/* Where a frame does not end with an opcode, machines read on at other places. */
static void frames_that_tear_an_opcode_are_noted(void **state) {
    (void)state;
#define FRAME(n) "\x95" n "\0\0\0\0\0\0\0"
    static const struct {
        const char *bytes;
        size_t n;
        uint64_t torn;
    } cases[] = {
        {FRAME("\2") "N.", 11, 0},
        {FRAME("\1") "N0N.", 13, 0},
        {FRAME("\5") "N.", 11, 14},
        {FRAME("\3") "NK\1.", 13, 0},
        {FRAME("\2") "NK\1.", 13, 11},
        {FRAME("\x0a") FRAME("\1") "N0N.", 22, 0},
        {FRAME("\x0a") FRAME("\3") "N0N.", 22, 19},
        {"\x95\xff\xff\xff\xff\xff\xff\xff\xffN.", 11, UINT64_MAX},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lmi_pickle p;
        assert_int_equal(pickled(&p, cases[i].bytes, cases[i].n), LAM_OK);
        if (p.torn != cases[i].torn) fail_msg("case %zu: %llu", i, (unsigned long long)p.torn);
        lmi_pickle_free(&p);
    }
}

static void read_pickle(void *arg, bool *ok) {
    const told *t = arg;
    const lmi_bytes of = lmi_bytes_of(t->bytes, t->n, "made.pkl");
    lmi_pickle p;
    lam_error e = {.at = -1};
    *ok = oom_check(lmi_pickle_read(&p, &of, 0, of.size, &e), &e);
    lmi_pickle_free(&p);
}

static void no_allocation_is_needed(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof made / sizeof *made; i++)
        oom_sweep_parts(read_pickle, (void *)(uintptr_t)&made[i]);
}

/* A checkpoint of many small tensors remembers most of its values. */
static void many_values_are_remembered(void **state) {
    (void)state;
    enum { MANY = 300000 };
    lmi_pickle p;
    lmi_buf b;
    lmi_buf_init(&b);
    lmi_put(&b, "(");
    for (uint32_t i = 0; i < MANY; i++) {
        lmi_put(&b, "K\x01r");
        for (int k = 0; k < 32; k += 8) lmi_putc(&b, (char)(i >> k));
    }
    lmi_put(&b, "t.");
    assert_int_equal(pickled(&p, b.s, b.n), LAM_OK);
    assert_int_equal(lmi_pickled_items_of(&p, p.root).n, MANY);
    lmi_pickle_free(&p);
    lmi_buf_free(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_opcode_makes_its_value),
        cmocka_unit_test(a_pickle_that_is_cut_is_refused_at_every_byte),
        cmocka_unit_test(what_is_no_pickle_is_refused_at_its_place),
        cmocka_unit_test(values_of_other_kinds_have_no_parts),
        cmocka_unit_test(long_lines_are_read_to_their_end),
        cmocka_unit_test(frames_that_tear_an_opcode_are_noted),
        cmocka_unit_test(no_allocation_is_needed),
        cmocka_unit_test(many_values_are_remembered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
