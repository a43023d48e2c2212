/* SPDX-License-Identifier: Apache-2.0
 *
 * How much is done for the shapes of an ONNX graph: elements that are read and kept, bodies that are run,
 * axes that a tensor may have. What is beyond is unknown, and what stands before it stays as it was. */
#include "kit/onnx_held.h"

/* What the last node gives, behind a tensor `a` of 65,536 zeros, and one of `compared` zeros each of which
 * may be compared with each other: that is almost all of the 2^24 elements that are read. */
enum { NONE_LEFT = 4086, ONE_LEFT = 4078 };
static const char *behind(int compared, const char *nodes) {
    static char out[4096];
    lmi_buf b;
    lmi_buf_init(&b);
    lmi_put(&b, "const n l - 65536\nconst z l - 0\nConstantOfShape a <- n\n");
    if (compared) lmi_putf(&b, "const c l - %d\nConstantOfShape q <- c\nUnique u <- q\n", compared);
    lmi_put(&b, nodes);
    snprintf(out, sizeof out, "%s", inferred(lmi_buf_text(&b), NULL));
    lmi_buf_free(&b);
    return out;
}

static void elements_are_read_up_to_a_limit(void **state) {
    (void)state;
    static const struct {
        int compared;
        const char *nodes, *results;
    } all[] = {
        {0, "ReduceMax y <- a keepdims=0", "f - = 0"},
        {ONE_LEFT, "ReduceMax y <- a keepdims=0", "f - = 0"},
        {NONE_LEFT, "ReduceMax y <- a keepdims=0", "f -"},
        {0, "NonZero y <- a", "l 1,0 ="},
        {ONE_LEFT, "NonZero y <- a", "l 1,0"}, /* how many there are is known, and they are not read again */
        {NONE_LEFT, "NonZero y <- a", "l 1,?"},
        {0, "Cast k <- a to=9\nCompress y <- a,k", "f 0 ="},
        {ONE_LEFT, "Cast k <- a to=9\nCompress y <- a,k", "f ?"},
        {0, "Unique y <- a", "f ?"}, /* each with each other is too much */
        {0, "Add b <- a,a\nGather y <- b,z", "f - = 0"},
        {NONE_LEFT, "Add b <- a,a\nGather y <- b,z", "f -"},
        {NONE_LEFT, "const k l 2 5,7\nGather y <- k,z", "l - = 5"}, /* a few elements are always read */
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        const char *got = behind(all[i].compared, all[i].nodes);
        if (strcmp(got, all[i].results) != 0) fail_msg("%d: %s: %s", all[i].compared, all[i].nodes, got);
    }
}

/* So many elements are kept, of all large tensors together: 16 of 65,536. */
static void elements_are_kept_up_to_a_limit(void **state) {
    (void)state;
    lmi_buf b;
    lmi_buf_init(&b);
    lmi_put(&b, "const n l - 65536\nconst z l - 0\nConstantOfShape a0 <- n\nconst k l 100 ");
    for (int i = 0; i < 100; i++) lmi_putf(&b, "%s%d", i ? "," : "", 9 - i);
    lmi_put(&b, "\nconst few l 3 4,5,6");
    for (int i = 1; i < 16; i++) {
        lmi_putf(&b, "\nAdd a%d <- a%d,a0", i, i - 1);
    }
    const size_t n = b.n;
    lmi_put(&b, "\nGather y <- a15,z");
    assert_string_equal(inferred(lmi_buf_text(&b), NULL), "f - = 0");
    b.n = n;
    lmi_put(&b, "\nAdd a16 <- a15,a0\nGather y <- a16,z");
    assert_string_equal(inferred(lmi_buf_text(&b), NULL), "f -");
    b.n = n;
    lmi_put(&b, "\nGather y <- k,z"); /* a constant of a hundred has no room, one of three has */
    assert_string_equal(inferred(lmi_buf_text(&b), NULL), "l -");
    b.n = n;
    lmi_put(&b, "\nGather y <- few,z");
    assert_string_equal(inferred(lmi_buf_text(&b), NULL), "l - = 4");
    lmi_buf_free(&b);
}

/* -- bodies ---------------------------------------------------------------------------------------------- */

/* Loops in loops, of which each is run twice until nothing changes: a million times in all. What a body makes
 * is then unknown, the loop says why, and what is outside of loops is not touched. */
static void bodies_are_run_up_to_a_limit(void **state) {
    (void)state;
    enum { DEEP = 20 };
    onnx_text t;
    lmi_buf b;
    lmi_buf_init(&b);
    lmi_put(&b, "in n l -\nin x f 2\nRelu before <- x\n");
    for (int i = 0; i < DEEP; i++) {
        lmi_putf(&b, "graph g%d a%d l -|d%d b -|v%d f *; e%d,w%d\nIdentity e%d <- d%d\n", i, i, i, i, i, i, i,
                 i);
        if (i == 0)
            lmi_put(&b, "Concat w0 <- v0,x axis=0\n");
        else
            lmi_putf(&b, "Loop t%d <- n,_,x body=&g%d\nConcat w%d <- v%d,t%d axis=0\n", i, i - 1, i, i, i);
        lmi_put(&b, "end\n");
    }
    lmi_putf(&b, "Loop y <- n,_,x body=&g%d", DEEP - 1);
    onnx_graph_of(&t, lmi_buf_text(&b));
    assert_int_equal(lmi_onnx_infer(&t.m, NULL, &last), LAM_OK);
    const lmi_onnx_node *loop = lmi_onnx_node_at(&t.m, t.m.graph->nodes[t.m.graph->n_nodes - 1]);
    assert_int_equal(loop->times, -1);
    assert_string_equal(loop->why, "its body is more work than is done for a shape");
    assert_int_equal(lmi_onnx_out(&t.m, loop, 0)->ndim, -1);
    assert_int_equal(lmi_onnx_out(&t.m, lmi_onnx_node_at(&t.m, t.m.graph->nodes[0]), 0)->sizes[0], 2);
    sizes_are_sane(&t.m);
    onnx_forget(&t);
    lmi_buf_free(&b);
}

/* Each value that is carried on becomes the next one: what is true of all rounds is found in as many of them,
 * or, where these are too many, given up. */
static void what_is_carried_on_is_followed_for_some_rounds(void **state) {
    (void)state;
    for (int n = 4; n <= 14; n += 10) {
        lmi_buf b;
        lmi_buf_init(&b);
        lmi_put(&b, "in n l -\nin x f 2\ngraph g i l -|c b -");
        for (int i = 0; i < n; i++) lmi_putf(&b, "|v%d f *", i);
        lmi_put(&b, "; d");
        for (int i = 0; i < n; i++) lmi_putf(&b, ",w%d", i);
        lmi_put(&b, "\nIdentity d <- c\nConcat w0 <- v0,x axis=0\n");
        for (int i = 1; i < n; i++) lmi_putf(&b, "Identity w%d <- v%d\n", i, i - 1);
        lmi_put(&b, "end\nLoop y0");
        for (int i = 1; i < n; i++) lmi_putf(&b, ",y%d", i);
        lmi_put(&b, " <- n,_");
        for (int i = 0; i < n; i++) lmi_put(&b, ",x");
        lmi_put(&b, " body=&g");
        const char *got = inferred(lmi_buf_text(&b), NULL);
        for (int i = 0; i < n; i++) {
            assert_int_equal(strncmp(got, n == 4 ? "f ?" : "? *", 3), 0);
            got += strcspn(got, ";") + 2;
        }
        lmi_buf_free(&b);
    }
}

/* A body that carries on very many values is not followed. */
static void wide_bodies_are_not_followed(void **state) {
    (void)state;
    enum { MOST = 512 };
    for (int32_t carried = MOST; carried <= MOST + 1; carried++) {
        onnx_text t;
        int32_t in[2 + MOST + 1], out[MOST + 1];
        onnx_graph_of(&t, "const n l - 10\nin x f 2\ngraph g i l -|c b -|v f *; c,v\nIdentity w <- v\nend\n"
                          "Loop y <- n,_,x body=&g");
        lmi_onnx_node *loop = lmi_onnx_node_at(&t.m, t.m.graph->nodes[t.m.graph->n_nodes - 1]);
        for (int32_t i = 0; i <= MOST; i++) {
            in[2 + i] = loop->in[2];
            out[i] = i ? -1 : loop->out[0];
        }
        memcpy(in, loop->in, 2 * sizeof *in);
        loop->in = in;
        loop->out = out;
        loop->n_in = 2 + carried;
        loop->n_out = carried;
        assert_int_equal(lmi_onnx_infer(&t.m, NULL, &last), LAM_OK);
        assert_int_equal(loop->times, carried == MOST ? 10 : -1);
        if (carried > MOST)
            assert_string_equal(loop->why, "its body carries on more values than are followed");
        onnx_forget(&t);
    }
}

/* -- axes ------------------------------------------------------------------------------------------------ */

#define ONES_16 "1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1"
#define ONES_32 ONES_16 "," ONES_16

/* A result of more than 32 axes is unknown. */
static void axes_have_a_limit(void **state) {
    (void)state;
    static const rows all[] = {
        {"in x f " ONES_32 "\nconst d l - 3\nconst v f 2 0,1\nOneHot y <- x,d,v", "f *"},
        {"in x f " ONES_32 "\nconst i l 1,1 0\nGather y <- x,i", "f *"},
        {"in x f " ONES_32 "\nin i l 2,2,2,1\nGatherND y <- x,i", "f *"},
        {"in x f 1,3,4\nconst i l 31 " ONES_16 ",1,1,1,1,1,1,1,1,1,1,1,1,1,1,1\nconst b l 1 1\n"
         "Col2Im y <- x,i,b",
         "f *"},
        {"in x f " ONES_32 "\nEinsum y <- x,x equation=\"...,a...->a...a...\"", "f *"},
        {"in x f " ONES_32 "\nin z f " ONES_32 "\nMatMul y <- x,z", "f " ONES_32},
    };
    HOLD(all);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elements_are_read_up_to_a_limit),
        cmocka_unit_test(elements_are_kept_up_to_a_limit),
        cmocka_unit_test(bodies_are_run_up_to_a_limit),
        cmocka_unit_test(what_is_carried_on_is_followed_for_some_rounds),
        cmocka_unit_test(wide_bodies_are_not_followed),
        cmocka_unit_test(axes_have_a_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
