/* SPDX-License-Identifier: Apache-2.0
 *
 * Elements of small tensors of ONNX graphs, computed in their type. */
#include "kit/onnx_held.h"

static void elements_are_folded_in_their_type(void **state) {
    (void)state;
    static const rows all[] = {
        {"in x f 2,?,4\nShape y <- x", "l 3"},
        {"in x f 2,3,4\nShape y <- x start=1", "l 2 = 3,4"},
        {"in x f 2,3,4\nSize y <- x", "l - = 24"},
        /* Part of a shape is known, and is what is asked for. */
        {"in x f ?,3,8,8\nShape s <- x\nconst i l - 1\nGather y <- s,i", "l - = 3"},
        {"in x f ?,3,8,8\nShape s <- x\nconst z l 1 0\nconst o l 1 1\nSlice n <- s,z,o\nconst r l 1 "
         "-1\nConcat t <- n,r axis=0\n"
         "Reshape y <- x,t",
         "f ?,?"},
        {"in x f 5,3,8,8\nShape s <- x\nconst z l 1 0\nconst o l 1 1\nSlice n <- s,z,o\nconst r l 1 "
         "-1\nConcat t <- n,r axis=0\n"
         "Reshape y <- x,t",
         "f 5,192"},
        /* Floats that pass through a cast are not integers: 0.5, 1.5 and 2.5, not 0, 1 and 2. */
        {"const n l - 3\nCast f <- n to=1\nconst z f - 0\nconst o f - 1\nRange r <- z,f,o\nconst h f - "
         "0.5\nAdd y <- r,h",
         "f 3 = 0.5,1.5,2.5"},
        {"const a f 1 2.7\nCast y <- a to=7", "l 1 = 2"},
        {"const a f 1 -2.7\nCast y <- a to=6", "i 1 = -2"},
        {"const a l 1 300\nCast y <- a to=2", "u 1 = 44"},
        {"const a f 1 300\nCast y <- a to=2", "u 1"},
        {"const a f 2 0,0.1\nCast y <- a to=9", "b 2 = 0,1"},
        {"const a d 1 0.1\nCast y <- a to=1", "f 1 = 0.1"},
        {"const a f 2 1,0.333333\nCast y <- a to=10", "h 2 = 0x3c00,0x3555"},
        {"const a f 2 1,3\nCast y <- a to=16", "g 2 = 0x3f80,0x4040"},
        {"const a l 2 7,8\nconst b l 1 2\nDiv y <- a,b", "l 2 = 3,4"},
        {"const a l 1 -7\nconst b l 1 2\nDiv y <- a,b", "l 1"},
        {"const a l 1 7\nconst b l 1 0\nDiv y <- a,b", "l 1"},
        {"const a l 1 -7\nconst b l 1 3\nMod y <- a,b", "l 1 = 2"},
        {"const a l 1 -7\nconst b l 1 3\nMod y <- a,b fmod=1", "l 1 = -1"},
        {"const a l 1 9223372036854775807\nconst b l 1 1\nAdd y <- a,b", "l 1"},
        {"const a u 1 200\nconst b u 1 100\nAdd y <- a,b", "u 1 = 44"},
        {"const a l 2,1 1,2\nconst b l 3 10,20,30\nMul y <- a,b", "l 2,3 = 10,20,30,20,40,60"},
        {"const a f 1 16777216\nconst b f 1 1\nAdd y <- a,b", "f 1 = 1.67772e+07"},
        {"const a l 3 1,2,3\nconst b l 1 2\nGreaterOrEqual y <- a,b", "b 3 = 0,1,1"},
        {"const c b 3 1,0,1\nconst a l 3 1,2,3\nconst b l 1 9\nWhere y <- c,a,b", "l 3 = 1,9,3"},
        {"const a l 3 1,5,3\nconst b l 1 2\nMax y <- a,b", "l 3 = 2,5,3"},
        {"const a l 3 1,5,3\nconst b l - 2\nconst c l - 4\nClip y <- a,b,c", "l 3 = 2,4,3"},
        {"const a l 2,2 1,2,3,4\nconst d l 1 0\nReduceSum y <- a,d keepdims=0", "l 2 = 4,6"},
        {"const a l 2,2 1,2,3,4\nReduceProd y <- a keepdims=0", "l - = 24"},
        {"const a l 2,3 1,2,3,4,5,6\nTranspose y <- a", "l 3,2 = 1,4,2,5,3,6"},
        {"const a l 1,2 1,2\nconst s l 2 3,2\nExpand y <- a,s", "l 3,2 = 1,2,1,2,1,2"},
        {"const a l 2 1,2\nconst r l 1 2\nTile y <- a,r", "l 4 = 1,2,1,2"},
        {"const a l 5 1,2,3,4,5\nconst s l 1 -1\nconst e l 1 -9\nconst x l 1 0\nconst t l 1 -2\nSlice y <- "
         "a,s,e,x,t",
         "l 3 = 5,3,1"},
        {"const a l 2,2 1,2,3,4\nSplit y,z <- a axis=1 num_outputs=2", "l 2,1 = 1,3; l 2,1 = 2,4"},
        {"const a l 2,1 1,2\nconst b l 2,2 3,4,5,6\nConcat y <- a,b axis=1\nIdentity z <- y", "l 2,3"},
        {"const a l 2 1,2\nconst b l 1 3\nConcat y <- a,b axis=0", "l 3 = 1,2,3"},
        {"const a l 3 7,8,9\nconst i l 2 -1,0\nGather y <- a,i", "l 2 = 9,7"},
        {"const a l 3 7,8,9\nconst i l 1 3\nGather y <- a,i", "l 1"},
        {"const a l 2,2 1,2,3,4\nconst i l 2,1 1,0\nGatherElements y <- a,i axis=1", "l 2,1 = 2,3"},
        {"const a l 2,2 1,2,3,4\nconst i l 1,2 1,0\nGatherND y <- a,i", "l 1 = 3"},
        {"const a l 4 1,2,3,4\nconst i l 1,1 2\nconst u l 1 9\nScatterND y <- a,i,u", "l 4 = 1,2,9,4"},
        {"const a l 4 1,2,3,4\nconst i l 1 2\nconst u l 1 9\nScatterElements y <- a,i,u", "l 4 = 1,2,9,4"},
        {"const a l 4 1,2,3,4\nin i l 1,1\nconst u l 1 9\nScatterND y <- a,i,u", "l 4"},
        {"const a q 3 1,-2,7\nIdentity y <- a", "q 3 = 1,-2,7"},
        {"const a h 2 15360,51200\nCast y <- a to=1", "f 2 = 1,-8"},
        {"const a f 3 0.5,1.5,-2.5\nRound y <- a", "f 3 = 0,2,-2"},
        {"const a f 2 4,2\nSqrt y <- a", "f 2 = 2,1.41421"},
        {"const a b 2 1,0\nNot y <- a", "b 2 = 0,1"},
        {"const a f 2 2,3\nconst b f 1 2\nPow y <- a,b", "f 2 = 4,9"},
        {"const a l 0 -\nconst b l 1 5\nConcat y <- a,b axis=0", "l 1 = 5"},
        {"const a l 2 2,3\nRelu y <- a\nconst x f 6 1,2,3,4,5,6\nReshape z <- x,y", "f 2,3 = 1,2,3,4,5,6"},
    };
    HOLD(all);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elements_are_folded_in_their_type),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
