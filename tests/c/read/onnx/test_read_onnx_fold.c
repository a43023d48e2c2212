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

/* What overflows, is no number, or may be rounded otherwise, is unknown. */
static void what_is_not_sure_is_unknown(void **state) {
    (void)state;
    static const rows all[] = {
        {"const a l 3 5,-9223372036854775808,-7\nAbs y <- a", "l 3"},
        {"const a l 2 5,-7\nAbs y <- a", "l 2 = 5,7"},
        {"const a l 2 5,-7\nNeg y <- a", "l 2 = -5,7"},
        {"const a l 3 5,0,-7\nSign y <- a", "l 3 = 1,0,-1"},
        {"const a l 2 5,-7\nBitwiseNot y <- a", "l 2 = -6,6"},
        {"const a f 2 -1.5,2\nAbs y <- a", "f 2 = 1.5,2"},
        {"const a f 2 -1.5,2\nCeil y <- a", "f 2 = -1,2"},
        {"const a f 2 -1.5,2\nFloor y <- a", "f 2 = -2,2"},
        {"const a f 2 -1.5,2\nRelu y <- a", "f 2 = 0,2"},
        {"const a f 2 nan,2\nSign y <- a", "f 2"},
        {"const a f 1 4\nReciprocal y <- a", "f 1 = 0.25"},
        {"const a f 1 4\nExp y <- a", "f 1"},
        {"const a d 1 1e30\nCast y <- a to=7", "l 1"},
        {"const a f 1 2\nconst b f 1 0.5\nPow p <- a,b\nCast y <- p to=7", "l 1"},
        {"const a f 1 1e30\nconst b f 1 2\nPow y <- a,b", "f 1"},
        {"const a l 1 10\nconst b l 1 30\nPow y <- a,b", "l 1"},
        {"const a l 1 10\nconst b l 1 -1\nPow y <- a,b", "l 1"},
        {"const a l 1 2\nconst b l 1 10\nPow y <- a,b", "l 1 = 1024"},
        {"const a l 1 -9223372036854775808\nconst b l 1 -1\nDiv y <- a,b", "l 1"},
        {"const a l 1 -9223372036854775808\nconst b l 1 2\nDiv y <- a,b", "l 1 = -4611686018427387904"},
        {"const a l 1 6\nconst b l 1 0\nMod y <- a,b", "l 1"},
        {"const a l 1 7\nconst b l 1 -2\nMod y <- a,b", "l 1 = -1"},
        {"const a b 2 1,0\nconst b b 2 1,1\nAnd y <- a,b", "b 2 = 1,0"},
        {"const a b 2 1,0\nconst b b 2 0,0\nOr y <- a,b", "b 2 = 1,0"},
        {"const a b 2 1,0\nconst b b 2 1,1\nXor y <- a,b", "b 2 = 0,1"},
        {"const a l 1 6\nconst b l 1 3\nBitwiseXor y <- a,b", "l 1 = 5"},
        {"const a f 1 6\nconst b f 1 4\nDiv y <- a,b", "f 1 = 1.5"},
        {"const a f 2 1,2\nconst b f 1 2\nEqual y <- a,b", "b 2 = 0,1"},
        {"const a f 2 1,2\nconst b f 1 2\nLess y <- a,b", "b 2 = 1,0"},
        {"const a f 2 1,2\nconst b f 1 2\nLessOrEqual y <- a,b", "b 2 = 1,1"},
        {"const a f 2 1,3\nconst b f 1 2\nGreater y <- a,b", "b 2 = 0,1"},
        {"const a f 2 1,2\nconst b f 1 2\nGreaterOrEqual y <- a,b", "b 2 = 0,1"},
        {"const c b 1 1\nin a l 2\nWhere y <- c,a,a", "l 2"},
        {"const c b 2 1,0\nin a l 2\nconst b l 2 7,8\nWhere y <- c,a,b\nconst i l - 1\nGather z <- y,i",
         "l - = 8"},
        {"const a f 2 nan,1\nconst b f 2 1,nan\nMax y <- a,b", "f 2"},
        {"const a f 2 2,1\nconst b f 2 1,2\nMin y <- a,b", "f 2 = 1,1"},
        {"in a l 2\nconst b l 2 1,2\nMax y <- a,b", "l 2"},
        {"const a f 2 0.5,0.25\nReduceSum y <- a keepdims=0", "f -"},
        {"const a f 2 9000000,9000000\nReduceSum y <- a keepdims=0", "f -"},
        {"const a f 2 3,4\nReduceProd y <- a keepdims=0", "f - = 12"},
        {"const a f 2 3,4\nReduceMax y <- a keepdims=0", "f - = 4"},
        {"const a l 2 3,4\nReduceMin y <- a keepdims=0", "l - = 3"},
        {"const a l 2 9223372036854775807,4\nReduceSum y <- a keepdims=0", "l -"},
        {"const a l 0 -\nReduceSum y <- a keepdims=0", "l -"},
        {"const a l 2,0 -\nconst x l 1 1\nReduceSum y <- a,x keepdims=0", "l 2"},
        {"const a l 2,0 -\nconst x l 1 0\nReduceSum y <- a,x keepdims=0", "l 0 ="},
    };
    HOLD(all);
}

static void elements_are_moved(void **state) {
    (void)state;
    static const rows all[] = {
        {"const a l 2,3 1,2,3,4,5,6\nTranspose y <- a perm=[1,0]", "l 3,2 = 1,4,2,5,3,6"},
        {"const a l 2,3 1,2,3,4,5,6\nTranspose y <- a perm=[7,0]", "l *"},
        {"const a l 4 1,2,3,4\nconst s l 1 9\nconst e l 1 9\nSlice y <- a,s,e", "l 0 ="},
        {"const a l 4 1,2,3,4\nconst s l 1 0\nconst e l 1 9\nconst x l 1 0\nconst t l 1 100000\n"
         "Slice y <- a,s,e,x,t",
         "l 1"},
        {"const a l 4 1,2,3,4\nconst s l 1 -1\nconst e l 1 -9\nconst x l 1 0\nconst t l 1 -100000\n"
         "Slice y <- a,s,e,x,t",
         "l 1"},
        {"const a l 4 1,2,3,4\nconst n l 2 1,3\nSplit y,z <- a,n", "l 1 = 1; l 3 = 2,3,4"},
        {"const a l 2 1,2\nin b l 2\nConcat c <- a,b axis=0\nconst i l 2 1,0\nGather y <- c,i", "l 2 = 2,1"},
        {"in a l 2\nin b l 2\nConcat y <- a,b axis=0", "l 4"},
        {"const a l 2 1,2\nIdentity b <- a\nconst e l 0 -\nConcat y <- b,e,a axis=0", "l 4 = 1,2,1,2"},
        {"const a l 1,2 1,2\nIdentity b <- a\nConcat y <- b,a axis=-2", "l 2,2 = 1,2,1,2"},
        {"const s l 1 3\nconst v l 1 7\nConstantOfShape y <- s value=@v", "l 3 = 7,7,7"},
        {"const s l 1 3\nconst v l 2 7,8\nConstantOfShape y <- s value=@v", "l 3"},
        {"const s l 1 3\nin v l 1\nConstantOfShape y <- s value=@v", "l 3"},
        {"const s l 2 300,1\nconst t l 2 1,300\nConstantOfShape a <- s\nConstantOfShape b <- t\nAdd y <- a,b",
         "f 300,300"},
        {"const a l 3 7,8,9\nconst i l 0 -\nGather y <- a,i", "l 0 ="},
        {"const a l 3 7,8,9\nconst i l 2 0,-4\nGather y <- a,i", "l 2"},
        {"const a l 2,2 1,2,3,4\nconst i l 2 1,0\nGather y <- a,i axis=1", "l 2,2 = 2,1,4,3"},
        {"const a l 2,2 1,2,3,4\nconst i l 2,1 -1,0\nGatherElements y <- a,i axis=1", "l 2,1 = 2,3"},
        {"const a l 2,2 1,2,3,4\nconst i l 2,1 2,0\nGatherElements y <- a,i axis=1", "l 2,1"},
        {"const a l 2,2 1,2,3,4\nconst i l 2,1 0,0\nGatherElements y <- a,i axis=5", "l 2,1"},
        {"const a l 2 1,2\nconst i l 2,1 0,0\nGatherElements y <- a,i", "l 2,1"},
        {"const a l 2,2 1,2,3,4\nconst i l 1,1 1\nGatherND y <- a,i", "l 1,2 = 3,4"},
        {"const a l 2,2 1,2,3,4\nconst i l 1,1 -2\nGatherND y <- a,i", "l 1,2 = 1,2"},
        {"const a l 2,2 1,2,3,4\nconst i l 1,1 2\nGatherND y <- a,i", "l 1,2"},
        {"const a l 2,2 1,2,3,4\nconst i l 1,1 -3\nGatherND y <- a,i", "l 1,2"},
        {"const a l 2,2 1,2,3,4\nconst i l 2,1 1,0\nGatherND y <- a,i batch_dims=1", "l 2"},
        {"const a l 2,2 1,2,3,4\nconst i l 1,3 1,0,0\nGatherND y <- a,i", "l *"},
        {"const a l 2,0 -\nconst i l 1,1 1\nGatherND y <- a,i", "l 1,0 ="},
        {"const a l 4 1,2,3,4\nconst i l 1,1 -1\nconst u l 1 9\nScatterND y <- a,i,u", "l 4 = 1,2,3,9"},
        {"const a l 4 1,2,3,4\nconst i l 1,1 4\nconst u l 1 9\nScatterND y <- a,i,u", "l 4"},
        {"const a l 4 1,2,3,4\nconst i l 1,1 2\nconst u l 1 9\nScatterND y <- a,i,u reduction=\"add\"",
         "l 4"},
        {"const a l 4 1,2,3,4\nconst i l 1,1 2\nconst u l 1 9\nScatterND y <- a,i,u reduction=\"none\"",
         "l 4 = 1,2,9,4"},
        {"const a l 4 1,2,3,4\nconst i l 1,1 2\nconst u l 2 9,8\nScatterND y <- a,i,u", "l 4"},
        {"const a l 4 1,2,3,4\nconst i l 1,2 2,0\nconst u l 1 9\nScatterND y <- a,i,u", "l 4"},
        {"const a l 4 1,2,3,4\nconst i l 1,0 -\nconst u l 1 9\nScatterND y <- a,i,u", "l 4"},
        {"const a l 4 1,2,3,4\nconst i l - 2\nconst u l 1 9\nScatterND y <- a,i,u", "l 4"},
        {"const a l 4 1,2,3,4\nconst i l 1,1 2\nin u l 1\nScatterND b <- a,i,u\nconst k l 1 0\nGather y <- "
         "b,k",
         "l 1 = 1"},
        {"const a l 2,2 1,2,3,4\nconst i l 1,1 1\nconst u l 1,2 8,9\nScatterND y <- a,i,u",
         "l 2,2 = 1,2,8,9"},
        {"const a l 4 1,2,3,4\nconst i l 1 4\nconst u l 1 9\nScatterElements y <- a,i,u", "l 4"},
        {"const a l 4 1,2,3,4\nconst i l 1 -1\nconst u l 1 9\nScatterElements y <- a,i,u", "l 4 = 1,2,3,9"},
        {"const a l 4 1,2,3,4\nconst i l 1 2\nconst u l 2 9,8\nScatterElements y <- a,i,u", "l 4"},
        {"const a l 4 1,2,3,4\nconst i l 1 2\nconst u l 1 9\nScatterElements y <- a,i,u axis=3", "l 4"},
        {"const a l 4 1,2,3,4\nconst i l 1,1 2\nconst u l 1,1 9\nScatterElements y <- a,i,u", "l 4"},
        {"const a l 4 1,2,3,4\nconst i l 1 2\nin u l 1\nScatterElements b <- a,i,u\nconst k l 1 0\nGather y "
         "<- b,k",
         "l 1 = 1"},
        {"const a l 4 1,2,3,4\nconst i l 1 2\nconst u l 1 9\nScatterElements y <- a,i,u reduction=\"mul\"",
         "l 4"},
        {"const x f 2,2 1,0,nan,3\nNonZero y <- x", "l 2,3 = 0,1,1,0,0,1"},
        {"const x l 4 5,6,7,8\nconst c b 3 1,0,1\nCompress y <- x,c", "l 2 = 5,7"},
        {"const x l 2,2 5,6,7,8\nconst c b 2 0,1\nCompress y <- x,c axis=0", "l 1,2"},
    };
    HOLD(all);
}

/* Numbers of 16 bits, told by their bits: one, the smallest, infinite ones, NaN. */
static void short_numbers_are_read_and_written(void **state) {
    (void)state;
    static const rows all[] = {
        {"const x h 5 15360,1,31744,32257,64512\nCast y <- x to=1", "f 5 = 1,5.96046e-08,inf,nan,-inf"},
        {"const x h 3 15360,1,31744\nCast y <- x to=11", "d 3 = 1,5.96046e-08,inf"},
        {"const x h 4 31744,32257,64512,32768\nConcat y <- x,x axis=0",
         "h 8 = 0x7c00,0x7e00,0xfc00,0x8000,0x7c00,0x7e00,0xfc00,0x8000"},
        {"const x f 3 0.00001,6e-8,70000\nCast y <- x to=10", "h 3"},
        {"const x f 3 0.00001,6e-8,-2.5\nCast y <- x to=10", "h 3 = 0x00a8,0x0001,0xc100"},
        {"const x f 2 1.00390625,1e-40\nCast y <- x to=16", "g 2 = 0x3f80,0x0001"},
        {"const a h - 15360\nconst b h - 17920\nconst c h - 14336\nRange y <- a,b,c",
         "h 10 = 0x3c00,0x3e00,0x4000,0x4100,0x4200,0x4300,0x4400,0x4480,0x4500,0x4580"},
        {"const a h - 0\nconst b h - 31743\nconst c h - 31743\nRange y <- a,b,c", "h 1 = 0x0000"},
    };
    HOLD(all);
}

#define ONES                                                                                                 \
    "1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1"                                                                \
    ",1,1,1,1,1,1,1,1,1,1,1,1"
/* No value has more than 32 axes. */
static void more_axes_than_any_operator_takes_are_unknown(void **state) {
    (void)state;
    static const rows all[] = {
        {"in x f " ONES ",1\nRelu y <- x", "f *"},
        {"in x f " ONES "\nconst a l 1 0\nUnsqueeze y <- x,a", "f *"},
        {"in x f " ONES "\nin i l 2,2\nGather y <- x,i", "f *"},
        {"in x f " ONES "\nin i l 2,2,1\nGatherND y <- x,i", "f *"},
        {"in x l " ONES "\nconst d l - 3\nin v f 2\nOneHot y <- x,d,v", "f *"},
        {"in x s " ONES "\n20:StringSplit y,n <- x", "s *; l *"},
        {"in x f " ONES "\nconst a l 1 0\nms:ExpandDims y <- x,a", "f *"},
        {"in x f " ONES "\nSequenceConstruct s <- x\nConcatFromSequence y <- s new_axis=1", "f *"},
        {"const n l - 3\nin x f " ONES "\ngraph g i l -|k b -|v f *; k2,v2,r\nIdentity k2 <- k\nRelu v2 <- "
         "v\nAbs r <- v\nend\nLoop y,z <- n,_,x body=&g",
         "f " ONES "; f *"},
        {"in x f 2\nconst s l 33 " ONES ",1\nReshape y <- x,s", "f *"},
        {"in x f 2\nconst s l 33 " ONES ",1\nExpand y <- x,s", "f *"},
        {"in x f 2\nconst s l 33 " ONES ",1\nConstantOfShape y <- s", "f *"},
        {"RandomNormal y <- shape=[" ONES ",1]", "f *"},
    };
    HOLD(all);
}

/* Sizes that elements decide, of which some are unknown or don't fit. */
static void elements_decide_sizes(void **state) {
    (void)state;
    static const rows all[] = {
        {"in u b 1\nconst k b 1 1\nConcat c <- k,u axis=0\nin x f 2,3\nCompress y <- x,c axis=0", "f ?,3"},
        {"in u l 1\nconst k l 1 1\nConcat c <- k,u axis=0\nNonZero y <- c", "l 1,?"},
        {"in u l 1\nconst k l 1 1\nConcat c <- k,u axis=0\nUnique y <- c", "l ?"},
        {"const c f 3 nan,1,1\nUnique y <- c", "f ?"},
        {"const c f 4 1,2,1,2\nUnique y <- c", "f 2"},
        {"const c f 2,2 1,2,1,2\nUnique y <- c axis=0", "f 1,2"},
        {"const c f 2,2 1,2,1,2\nUnique y <- c axis=1", "f 2,2"},
        {"const c f 0 -\nUnique y <- c", "f 0"},
        {"const c f 0,2 -\nUnique y <- c axis=1", "f 0,?"},
        {"const x l 2 1,2\nconst d l 2 3,4\nin v f 2\nOneHot y <- x,d,v", "f 2,?"},
        {"const x l 2 1,2\nconst d f - 3\nin v f 2\nOneHot y <- x,d,v", "f 2,3"},
        {"const x l 2 1,2\nconst d f - -3\nin v f 2\nOneHot y <- x,d,v", "f 2,?"},
        {"const x l 2 1,2\nconst d f - 1e30\nin v f 2\nOneHot y <- x,d,v", "f 2,?"},
        {"in u l -\nin x l 2\nin v f 2\nOneHot y <- x,u,v", "f 2,?"},
        {"const a f - 0\nconst b f - 1\nconst c f - 0.1\nRange y <- a,b,c", "f 10"},
        {"const a f - 0\nconst b f - 1\nconst c f - 0\nRange y <- a,b,c", "f ?"},
        {"const a l 2 0,1\nconst b l - 1\nconst c l - 0\nRange y <- a,b,c", "l ?"},
        {"const a l - 0\nconst b l - 4\nRange y <- a,b", "l 4 = 0,1,2,3"},
        {"const a l - 4\nconst b l - 0\nconst c l - -9223372036854775808\nRange y <- a,b,c", "l 1 = 4"},
    };
    HOLD(all);
}

static void settings_decide_sizes(void **state) {
    (void)state;
    static const rows all[] = {
        {"in x s 3,4\nStringNormalizer y <- x stopwords=s[a,b]", "s 3,?"},
        {"in x s -\nStringNormalizer y <- x stopwords=s[a,b]", "s -"},
        {"in x s 3,4\nStringNormalizer y <- x stopwords=s[]", "s 3,4"},
        {"in x s 3,4\nStringNormalizer y <- x", "s 3,4"},
        {"in x f 2,4\nml:LinearClassifier y,z <- x classlabels_strings=s[a,b]", "s 2; f 2,2"},
        {"in x f 2,4\nml:LinearClassifier y,z <- x classlabels_ints=[]", "? 2; f 2,?"},
        {"in x f 2,?\nms:BiasSplitGelu y <- x", "f 2,?"},
        {"in x f -\nms:BiasSplitGelu y <- x", "f *"},
        {"in x f 2,?\nms:BiasSplitGelu y <- x", "f 2,?"},
        {"RandomNormal y <- shape=[2,3]", "f 2,3"},
        {"RandomNormal y <- seed=2", "f *"},
        {"in x f 4,6\nSplit a,b <- x axis=1 split=[2,4]", "f 4,2; f 4,4"},
        {"in x f 4,6\n11:Split a,b <- x axis=1 split=[2,4]", "f 4,2; f 4,4"},
        {"in x f 4,6\nconst s l 2 2,4\n13:Split a,b <- x,s axis=1", "f 4,2; f 4,4"},
        {"in x f 5\nconst a l 1 -9223372036854775808\nconst b l 1 3\nconst z l 1 0\nconst t l 1 "
         "-9223372036854775808\nSlice y <- x,a,b,z,t",
         "f ?"},
        {"in x f 5\nconst a l 1 0\nconst b l 1 3\nconst z l 1 0\nconst t l 1 0\nSlice y <- x,a,b,z,t", "f ?"},
        {"in x f 9223372036854775807,2\nconst p l 4 1,0,1,0\nPad y <- x,p", "f ?,2"},
        {"in x f 2,2\nconst p l 4 9223372036854775807,0,1,0\nPad y <- x,p", "f ?,2"},
        {"in x f 2,3,4\nShape y <- x start=2 end=1", "l 0 ="},
        {"in x f 2,3,4\nShape y <- x start=-9 end=-1", "l 2 = 2,3"},
        {"in x f 1,1,8,8\nconst s f 4 1,1,1e300,0.5\nResize y <- x,_,s", "f 1,1,?,4"},
        {"in x f 1,1,8,8\nconst s f 4 1,1,-2,0.5\nResize y <- x,_,s", "f 1,1,?,4"},
        {"in x f 1,1,8,8\n7:Upsample y <- x scales=f[1,1,2,3]", "f 1,1,16,24"},
        {"in x f 1,1,8,8\n7:Upsample y <- x scales=f[1,1,2]", "f ?,?,?,?"},
        {"in x f 1,1,8,8\n7:Upsample y <- x scales=[1,1,2,3]", "f ?,?,?,?"},
        {"in x f 1,1,8,8\nconst s f 2 2,2\nResize y <- x,_,s axes=[2,3]", "f 1,1,16,16"},
        {"in x f 1,1,8,8\nconst s f 5 2,2,2,2,2\nResize y <- x,_,s axes=[0,1,2,3,4]", "f *"},
        {"in x f 1,1,8,8\nconst z l 2 3,4\nResize y <- x,_,_,z axes=[2,3] "
         "keep_aspect_ratio_policy=\"not_larger\"",
         "f 1,1,3,3"},
        {"in x f 1,1,8,8\nconst s f 4 1,1,2,2\n10:Resize y <- x,s", "f 1,1,16,16"},
        {"in x f 2,3\nin w f 3,4\nEinsum y <- x,w equation=\"ij,jk->izk\"", "f *"},
        {"in x f 2,3,4\nEinsum y <- x equation=\"...i->i...\"", "f 4,2,3"},
        {"in x f 2,3\nMaxRoiPool y <- x,x pooled_shape=[3,4]", "f 2,?,3,4"},
        {"in x f 2,3,8,8\nin r f 5,5\nMaxRoiPool y <- x,r pooled_shape=[3,4]", "f 5,3,3,4"},
        {"in x f 2,3,8,8\nin r f 5,5\nMaxRoiPool y <- x,r pooled_shape=[3]", "f 5,3,3,?"},
        {"in x f 2,12,9\nconst i l 2 4,4\nconst b l 2 2,2\nCol2Im y <- x,i,b", "f 2,3,4,4"},
        {"in t f 2,2,3\nconst z l 4 2,3,4,5\nAffineGrid y <- t,z", "f 2,4,5,2"},
        {"in t f 2,3,4\nconst z l 5 2,3,4,5,6\nAffineGrid y <- t,z", "f 2,4,5,6,3"},
        {"in t f 2,3,4\nconst z l 3 2,3,4\nAffineGrid y <- t,z", "f *"},
        {"in x f 7,3\nconst n l 2 3,4\nSplitToSequence s <- x,n\nSequenceLength y <- s", "l - = 2"},
        {"in x f 7,3\nconst n l - 0\nSplitToSequence s <- x,n\nSequenceLength y <- s", "l -"},
        {"in x f 7,3\nconst n l 3 3,4,1\nSplitToSequence s <- x,n\nconst i l - 0\nSequenceAt y <- s,i",
         "f ?,3"},
        {"in x f 7,3\nin h f 4\ngraph g s f *|e f *; s2,r\nRelu s2 <- s\nAbs r <- e\nend\nScan y,z <- h,x "
         "body=&g num_scan_inputs=9",
         "? *; ? *"},
        {"in x f 7,3\nin h f 4\ngraph g s f *|e f *; s2,r\nRelu s2 <- s\nAbs r <- e\nend\nScan y,z <- h,x "
         "body=&g num_scan_inputs=-1",
         "? *; ? *"},
        {"in x f 2\nconst n l - 12\ngraph g i l -|k b -|v f *; k2,v2\nIdentity k2 <- k\nConcat v2 <- v,v "
         "axis=0\nend\nLoop y <- n,_,x body=&g",
         "f 8192"},
        {"in x f 1\nconst n l - 40\ngraph g i l -|k b -|v f *|w f *; k2,v2,w2\nIdentity k2 <- k\nConcat v2 "
         "<- w,x axis=0\nConcat w2 <- v,x axis=0\nend\nLoop y,z <- n,_,x,x body=&g",
         "f 41; f 41"},
    };
    HOLD(all);
}

static void positions_outside_give_nothing(void **state) {
    (void)state;
    static const rows all[] = {
        {"const x l 4 1,2,3,4\nconst i l 2 3,-1\nGather y <- x,i axis=0\nIdentity z <- y", "l 2 = 4,4"},
        {"const x l 4 1,2,3,4\nconst i l 2 3,9\nGather y <- x,i axis=0\nIdentity z <- y", "l 2"},
        {"const x l 2,2 1,2,3,4\nconst i l 1,2 1,9\nGatherElements y <- x,i axis=0", "l 1,2"},
        {"const x l 2,2 1,2,3,4\nconst i l 1,2 1,0\nGatherElements y <- x,i axis=0", "l 1,2 = 3,2"},
        {"const x l 2,2 1,2,3,4\nconst i l 1,2 1,9\nGatherND y <- x,i", "l 1"},
        {"const x l 2,2 1,2,3,4\nconst i l 1,2 1,-1\nGatherND y <- x,i", "l 1 = 4"},
        {"in u l 1\nconst k l 1 1\nConcat i <- k,u axis=0\nconst x l 4 1,2,3,4\nGather y <- x,i axis=0",
         "l 2"},
        {"in u l 1\nconst k l 1 1\nConcat i <- k,u axis=0\nconst x l 4 1,2,3,4\nGatherElements y <- x,i "
         "axis=0",
         "l 2"},
        {"const x l 3 0,0,0\nNonZero y <- x", "l 1,0 ="},
        {"const x l - 5\nNonZero y <- x", "l 0,1 ="},
        {"const x f 2,2 1,0,0,2\nNonZero y <- x", "l 2,2 = 0,1,0,1"},
        {"const x l 4 1,2,3,4\nconst i l 2,1 3,9\nconst u l 2 7,8\nScatterND y <- x,i,u", "l 4"},
        {"const x l 4 1,2,3,4\nconst i l 2 3,0\nconst u l 2 7,8\nScatterElements y <- x,i,u",
         "l 4 = 8,2,3,7"},
        {"const x l 4 1,2,3,4\nin i l 2\nconst u l 2 7,8\nScatterElements y <- x,i,u", "l 4"},
        {"const x l 4 1,2,3,4\nconst i l 2 3,9\nconst u l 2 7,8\nScatterElements y <- x,i,u", "l 4"},
        {"in x f 1,8,2,2\nDepthToSpace y <- x blocksize=4", "f 1,?,8,8"},
        {"in x f 1,8,2,2\nDepthToSpace y <- x blocksize=0", "f *"},
        {"in x f 1,8,5,4\nSpaceToDepth y <- x blocksize=2", "f 1,32,?,2"},
        {"in x f 1,8,2\nDepthToSpace y <- x blocksize=2", "f *"},
    };
    HOLD(all);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elements_are_folded_in_their_type),
        cmocka_unit_test(what_is_not_sure_is_unknown),
        cmocka_unit_test(elements_are_moved),
        cmocka_unit_test(short_numbers_are_read_and_written),
        cmocka_unit_test(more_axes_than_any_operator_takes_are_unknown),
        cmocka_unit_test(elements_decide_sizes),
        cmocka_unit_test(settings_decide_sizes),
        cmocka_unit_test(positions_outside_give_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
