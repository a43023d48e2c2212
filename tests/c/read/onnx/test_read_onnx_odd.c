/* SPDX-License-Identifier: Apache-2.0
 *
 * Shapes of ONNX operators whose numbers are out of range, or that lack what they need: unknown, and no
 * others. */
#include "kit/onnx_held.h"

static void numbers_out_of_range_leave_a_size_unknown(void **state) {
    (void)state;
    static const rows all[] = {
        {"in x f 1,1,9\nin w f 1,1,3\nConv y <- x,w strides=[9223372036854775807]", "f 1,1,?"},
        {"in x f 1,1,9\nin w f 1,1,3\nConv y <- x,w strides=[0]", "f 1,1,?"},
        {"in x f 1,1,9\nin w f 1,1,3\nConv y <- x,w dilations=[9223372036854775807]", "f 1,1,?"},
        {"in x f 1,1,9\nin w f 1,1,3\nConv y <- x,w dilations=[0]", "f 1,1,?"},
        {"in x f 1,1,9\nin w f 1,1,0\nConv y <- x,w", "f 1,1,?"},
        {"in x f 1,1,9\nin w f 1,1,9223372036854775807\nConv y <- x,w", "f 1,1,?"},
        {"in x f 1,1,9223372036854775807\nin w f 1,1,3\nConv y <- x,w", "f 1,1,?"},
        {"in x f 1,1,9\nin w f 1,1,3\nConv y <- x,w pads=[-9223372036854775807,0]", "f 1,1,?"},
        {"in x f 1,1,9\nin w f 1,1,3\nConv y <- x,w pads=[9223372036854775807,0]", "f 1,1,?"},
        {"in x f 1,1,9\nin w f 1,1,3\nConv y <- x,w pads=[0,-9223372036854775807]", "f 1,1,?"},
        {"in x f 1,1,9\nin w f 1,1,3\nConv y <- x,w pads=[0,9223372036854775807]", "f 1,1,?"},
        {"in x f 1,1,9\nin w f 1,1,3\nConvTranspose y <- x,w strides=[9223372036854775807]", "f 1,1,?"},
        {"in x f 1,1,9\nin w f 1,1,3\nConvTranspose y <- x,w strides=[0]", "f 1,1,?"},
        {"in x f 1,1,9\nin w f 1,1,3\nConvTranspose y <- x,w dilations=[9223372036854775807]", "f 1,1,?"},
        {"in x f 1,1,9\nin w f 1,1,3\nConvTranspose y <- x,w dilations=[0]", "f 1,1,?"},
        {"in x f 1,1,9\nin w f 1,1,0\nConvTranspose y <- x,w", "f 1,1,?"},
        {"in x f 1,1,9\nin w f 1,1,9223372036854775807\nConvTranspose y <- x,w", "f 1,1,?"},
        {"in x f 1,1,9223372036854775807\nin w f 1,1,3\nConvTranspose y <- x,w", "f 1,1,?"},
        {"in x f 1,1,9\nin w f 1,1,3\nConvTranspose y <- x,w output_padding=[-1]", "f 1,1,?"},
        {"in x f 1,1,9\nin w f 1,1,3\nConvTranspose y <- x,w output_padding=[9223372036854775807]",
         "f 1,1,?"},
        {"in x f 1,1,9\nin w f 1,1,3\nConvTranspose y <- x,w pads=[-9223372036854775807,0]", "f 1,1,?"},
        {"in x f 1,1,9\nin w f 1,1,3\nConvTranspose y <- x,w pads=[9223372036854775807,0]", "f 1,1,?"},
        {"in x f 1,1,9\nin w f 1,1,3\nConvTranspose y <- x,w pads=[0,-9223372036854775807]", "f 1,1,?"},
        {"in x f 1,1,9\nin w f 1,1,3\nConvTranspose y <- x,w pads=[0,9223372036854775807]", "f 1,1,?"},
        {"in x f 1,1,9\nin w f 1,1,3\nConvTranspose y <- x,w pads=[99,0]", "f 1,1,?"},
        {"in x f 1,1,4,4\nResize y <- x", "f ?,?,?,?"},
        {"in x f 1,2,4,4\n7:Upsample y <- x scales=f[1,1]", "f ?,?,?,?"},
        {"in x f 1,2,4,4\nconst s f 2 2,2\nResize y <- x,_,s axes=[2,9]", "f *"},
        {"in x f 1,2,4,4\nconst s f 4 1,1,2,2\nResize y <- x,_,s "
         "coordinate_transformation_mode=\"tf_crop_and_resize\"",
         "f ?,?,?,?"},
        {"in x f 1,2,4,4\nconst s f 4 1,1,1e30,nan\nResize y <- x,_,s", "f 1,2,?,?"},
        {"in x f 1,2,4,4\nconst s l 4 1,2,8,8\nResize y <- x,_,s", "f ?,?,?,?"},
        {"in t f 2,3,4\nconst s l 5 2,3,4,5,6\nAffineGrid y <- t,s", "f 2,4,5,6,3"},
        {"in t f 2,3,4\nconst s l 3 2,3,4\nAffineGrid y <- t,s", "f *"},
        {"in i l 5\nconst d f - 10\nin v f 2\nOneHot y <- i,d,v", "f 5,10"},
        {"in i l 5\nconst d f - -1\nin v f 2\nOneHot y <- i,d,v", "f 5,?"},
        {"in i l 5\nconst d f - 1e30\nin v f 2\nOneHot y <- i,d,v", "f 5,?"},
        {"in i l 5\nconst d l 2 3,4\nin v f 2\nOneHot y <- i,d,v", "f 5,?"},
        {"in i l 5\nconst d l - 3\nin v f 2\nOneHot y <- i,d,v axis=4", "f *"},
        {"const a l - 0\nconst b l - 9\nconst c l - 0\nRange y <- a,b,c", "l ?"},
        {"const a l - 9\nconst b l - 0\nconst c l - 1\nRange y <- a,b,c", "l 0 ="},
        {"const a l - 0\nconst b l - 9\nconst c l - -1\nRange y <- a,b,c", "l 0 ="},
        {"const a l - 9\nconst b l - 0\nconst c l - -9223372036854775808\nRange y <- a,b,c", "l 1 = 9"},
        {"const a l - 9223372036854775807\nconst b l - 0\nconst c l - -1\nRange y <- a,b,c", "l ?"},
        {"const a l - -9223372036854775807\nconst b l - 0\nconst c l - 1\nRange y <- a,b,c", "l ?"},
        {"const a l - 0\nconst b l - 9223372036854775807\nconst c l - 1\nRange y <- a,b,c", "l ?"},
        {"const a l - 0\nconst b l - -9223372036854775807\nconst c l - 1\nRange y <- a,b,c", "l ?"},
        {"const a f - 0\nconst b f - 3\nconst c f - 0\nRange y <- a,b,c", "f ?"},
        {"const a f - 3\nconst b f - 0\nconst c f - 1\nRange y <- a,b,c", "f 0 ="},
        {"const a f - 0\nconst b f - 1e30\nconst c f - 1e-30\nRange y <- a,b,c", "f ?"},
        {"const a l 2 0,1\nconst b l - 9\nRange y <- a,b", "l ?"},
        {"const x f 3 1,nan,1\nUnique y,i,v,c <- x", "f ?; l ?; l 3; l ?"},
        {"const x l 0 -\nUnique y,i,v,c <- x", "l 0; l 0; l 0; l 0"},
        {"const x l 3,2 1,2,3,4,1,2\nUnique y,i,v,c <- x axis=0", "l 2,2; l 2; l 3; l 2"},
        {"const x f 3,2 1,2,3,4,1,2\nUnique y,i,v,c <- x axis=0", "f 2,2; l 2; l 3; l 2"},
        {"const x l 3 1,2,2\nms:Unique y,i,c <- x", "l 2; l 3; l 2"},
        {"const x f 3 0,2,nan\nNonZero y <- x", "l 1,2 = 1,2"},
        {"in x f 1,100,1\nconst s l - 10\nSTFT y <- x,s", "f 1,1,51,2"},
        {"in x f 1,100,1\nconst s l - 10\nin w f 2,3\nSTFT y <- x,s,w", "f 1,?,?,2"},
        {"in x f 1,100,1\nconst s l - 0\nin w f 20\nSTFT y <- x,s,w", "f 1,?,11,2"},
        {"in x f 1,10,1\nconst s l - 1\nin w f 20\nSTFT y <- x,s,w onesided=0", "f 1,?,20,2"},
        {"in x f 1,9,2\nconst a l - 1\nDFT y <- x,_,a onesided=1 inverse=1", "f 1,16,1"},
        {"in x f 1,0,2\nconst a l - 1\nDFT y <- x,_,a onesided=1 inverse=1", "f 1,?,1"},
        {"in x f 1,9,2\nconst n l - 20\nconst a l - 1\nDFT y <- x,n,a onesided=1 inverse=1", "f 1,20,1"},
    };
    HOLD(all);
}

static void what_an_operator_may_lack_is_unknown(void **state) {
    (void)state;
    static const rows all[] = {
        {"in a f 2,3,4\nin b f 3,4,5\nMatMul y <- a,b", "f *"},
        {"in a f 5,3,2\nin b f 4,3\nms:FusedMatMul y <- a,b transBatchA=1", "f *"},
        {"in a f 5,3,2\nin b f 4,3\nms:FusedMatMul y <- a,b transBatchB=1", "f *"},
        {"in a f 2,3\nin b f 4,3\nEinsum y <- a,b equation=\"...i,...i->...\"", "f *"},
        {"in a f 2,3\nEinsum y <- a equation=1", "f *"},
        {"in a f 2,3\nEinsum y <- a equation=\"ii->i\"", "f *"},
        {"in a f 2,3\nEinsum y <- a equation=\"ij,jk->ik\"", "f *"},
        {"in x f 2,3,8\nin w f 3,1,4\nCausalConvWithState y,p <- x,w", "f 2,3,8; f 2,3,3"},
        {"in x f 2,8,3\nin w f 3,1,4\nCausalConvWithState y,p <- x,w channels_last=1", "f *; f *"},
        {"in x f 2,10,96\nin w f 96,288\nin b f 288\nms:Attention y,p <- x,w,b num_heads=4 "
         "qkv_hidden_sizes=[96,96,48]",
         "f 2,10,48; f *"},
        {"in x f 2,10,96\nin w f 96,288\nin b f 288\nms:Attention y,p <- x,w,b num_heads=4 "
         "past_present_share_buffer=1",
         "f 2,10,96; f *"},
        {"in x f 2,10,96\nin w f 96,288\nin b f 288\nin q f 2,2,4,6,24\nms:Attention y,p <- x,w,b,_,q "
         "num_heads=4",
         "f 2,10,96; f 2,2,4,16,24"},
        {"in q f 2,10,96\nin k f 2,12,96\nin p f 2,4,5,24\nms:MultiHeadAttention y,a,b <- q,k,k,_,_,_,p,p "
         "num_heads=4",
         "f 2,10,96; f 2,4,17,24; f 2,4,17,24"},
        {"in q f 2,10,96\nin k f 2,4,12,24\nms:MultiHeadAttention y,a,b <- q,k,k num_heads=4",
         "f 2,10,96; f 2,4,12,24; f 2,4,12,24"},
        {"in q f 2,10,96\nin k f 2,4,12,24\nin p f 2,4,5,24\nms:MultiHeadAttention y,a,b <- "
         "q,k,k,_,_,_,p,p num_heads=4",
         "f 2,10,96; f 2,4,?,24; f 2,4,?,24"},
        {"in q f 2,10,96\nin k f 2,12,96\nms:MultiHeadAttention y,a,b <- q,k,k num_heads=4 "
         "past_present_share_buffer=1",
         "f 2,10,96; f *; f *"},
        {"in q f 2,10,192\nin s i 2\nms:GroupQueryAttention y,a,b <- q,_,_,_,_,s,s num_heads=4 "
         "kv_num_heads=2",
         "f 2,10,96; f 2,2,10,24; f 2,2,10,24"},
        {"in x s 4,9\nStringNormalizer y <- x stopwords=s[a]", "s 4,?"},
        {"in x s 9\nTfIdfVectorizer y <- x ngram_indexes=[0,4,2]", "f 5"},
        {"in x s -\nTfIdfVectorizer y <- x ngram_indexes=[0,4,2]", "f 5"},
        {"in x s 3,9\nTfIdfVectorizer y <- x ngram_indexes=[9223372036854775807]", "f 3,?"},
        {"in x s 3,9\nTfIdfVectorizer y <- x ngram_indexes=f[1]", "f 3,?"},
        {"in x f 9\nml:TreeEnsembleClassifier y,p <- x classlabels_strings=s[a,b]", "s 1; f 1,2"},
        {"in x f 4,9\nml:LinearClassifier y,p <- x classlabels_ints=[0,1,2]", "l 4; f 4,3"},
        {"in x f 2,4,9\nml:TreeEnsembleRegressor y <- x", "f *"},
        {"in x s 4\nml:OneHotEncoder y <- x cats_strings=s[a,b]", "f 4,2"},
        {"in x s 4\nml:OneHotEncoder y <- x cats_int64s=[] cats_strings=s[a,b]", "f 4,2"},
        {"in x f 4,9\nml:FeatureVectorizer y <- x inputdimensions=[2,3]", "f 4,5"},
        {"in x f 4,9\nml:FeatureVectorizer y <- x inputdimensions=[9223372036854775807,3]", "f 4,?"},
        {"in x f 4,9\nml:FeatureVectorizer y <- x inputdimensions=f[2,3]", "f 4,?"},
        {"in x f 4,9\nconst a l - 1\nms:ExpandDims y <- x,a", "f 4,1,9"},
        {"in x f 4,9\nconst a l - 5\nms:ExpandDims y <- x,a", "f *"},
    };
    HOLD(all);
}

static void bodies_may_lack_what_they_give(void **state) {
    (void)state;
    static const rows all[] = {
        {"in x f 2\nconst c b - 1\ngraph t ; a\nRelu a <- x\nend\nIf y,z <- c then_branch=&t else_branch=&t",
         "f 2; ? *"},
        {"in x f 2\nconst c b 2 1,1\ngraph t ; a\nRelu a <- x\nend\nIf y <- c then_branch=&t else_branch=&t",
         "f 2"},
        {"const n l - -5\nin x f 2\ngraph g i l -|k b -|s f *; k2,s2,r\nIdentity k2 <- k\nRelu s2 <- s\n"
         "Abs r <- s\nend\nLoop y,z <- n,_,x body=&g",
         "f 2; f 0,2"},
        {"const n l - 5\nconst c b - 0\nin x f 2\ngraph g i l -|k b -|s f *; k2,s2,r\nIdentity k2 <- k\n"
         "Relu s2 <- s\nAbs r <- s\nend\nLoop y,z <- n,c,x body=&g",
         "f 2; f 0,2"},
        {"const n l - 5\nin x f 2\ngraph g i l -|k b -|s f *; \nRelu s2 <- s\nend\nLoop y <- n,_,x body=&g",
         "? *"},
        {"const n l - 5\nin x f 2\nLoop y <- n,_,x", "? *"},
        {"in x f 7,3\nin h f 4\ngraph g s f *|e f *; s2,r\nRelu s2 <- s\nAbs r <- e\nend\n"
         "Scan y,z <- h,x body=&g num_scan_inputs=9",
         "? *; ? *"},
        {"in x f 7,3\nin h f 4\ngraph g s f *|e f *; s2,r\nRelu s2 <- s\nAbs r <- e\nend\n"
         "Scan y,z <- h,x body=&g num_scan_inputs=1 scan_input_axes=[5]",
         "f 4; f *"},
        {"in x f 7,3\nin h f 4\ngraph g s f *|e f *; s2,r\nRelu s2 <- s\nAbs r <- e\nend\n"
         "Scan y,z <- h,x body=&g num_scan_inputs=1 scan_output_axes=[5]",
         "f 4; f *"},
        {"SequenceEmpty y <- dtype=-1", "?[] *"},
        {"SequenceEmpty y <- dtype=99", "?[] *"},
        {"in a f 6,3\nconst n l 2 3,3\nSplitToSequence y <- a,n", "f[] 3,3"},
        {"in a f 6,3\nconst n l 2 2,4\nSplitToSequence y <- a,n", "f[] ?,3"},
        {"in a f 6,3\nconst n l - 0\nSplitToSequence y <- a,n", "f[] ?,3"},
        {"in a f 6,3\nconst n l - 3\nSplitToSequence y <- a,n", "f[] 3,3"},
        {"in a f 2,3\nSequenceConstruct s <- a,a\nConcatFromSequence y <- s axis=7", "f *"},
        {"in a f 2,3\nSequenceConstruct s <- a\nOptional y <- s", "f# *"},
    };
    HOLD(all);
}

/* Lists that are too long, elements of which some are known, and what a file leaves out. */
static void what_is_partly_known_is_partly_told(void **state) {
    (void)state;
    static const rows all[] = {
        {"in x f 2,3\n0:Dropout y,z <- x", "f 2,3; b 2,3"},
        {"in x f 1,2,4,4\nconst s f 4 1,1,2,2\n0:Resize y <- x,_,s", "f 1,2,8,8"},
        {"in x f 6\nconst p l 2 2,4\n0:Split y,z <- x,p", "f 2; f 4"},
        {"in s f 3\nin x f 5,3\ngraph g a f 3|b f 3; c,d\nAdd c <- a,b\nIdentity d <- c\nend\n0:Scan y,z <- "
         "s,x num_scan_inputs=1 body=&g",
         "f 3; f 5,3"},
        {"const a l 1 4\nConcat b <- a,_ axis=0\nIdentity y <- b", "l ?"},
        {"in x f ?,3,8,8\nShape s <- x\nconst k l 9 10,11,12,13,14,15,16,17,18\nconst r l 2 4,1\nReshape i "
         "<- s,r\nGatherND t <- k,i\nconst o l - 1\nGather y <- t,o",
         "l - = 13"},
        {"in x f ?,3,8,8\nShape s <- x\nconst k l 4 1,2,3,4\nScatterElements t <- k,s,k\nconst o l - "
         "1\nGather y <- t,o",
         "l -"},
        {"const a l 0 -\nScatterElements t <- a,a,a\nconst b l 1 5\nConcat y <- t,b axis=0", "l 1 = 5"},
        {"const a l 1 4\nMax y <- "
         "a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,"
         "a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a",
         "l 1"},
        {"in x f 6\nconst p l - 0\nSplitToSequence y <- x,p", "f[] ?"},
        {"in x f 1,3,8,8\nin w f 3,4,3,3\nconst p l 4 1,1,1,1\nms:ConvTransposeWithDynamicPads y <- x,w,p",
         "f 1,4,8,8"},
        {"in x f 1,3,8,8\nin w f 3,4,3,3\nconst p l 3 1,1,1\nms:ConvTransposeWithDynamicPads y <- x,w,p",
         "f 1,4,?,?"},
        {"in v f ?,3\nShape s <- v\nin x f 1,3,8,8\nin r f 5,4\nin i i 5\nms:CropAndResize y <- x,r,i,s",
         "f 5,3,?,3"},
        {"in v f 7,?\nShape s <- v\nin x f 1,3,8,8\nin r f 5,4\nin i i 5\nms:CropAndResize y <- x,r,i,s",
         "f 5,3,7,?"},
        {"in x f 1,2\nconst s l 2 9007199254740993,1\nResize y <- x,_,_,s "
         "keep_aspect_ratio_policy=\"not_smaller\"",
         "f ?,?"},
        {"in x f ?,3\nShape s <- x\nCast f <- s to=1\nResize y <- x,_,f", "f ?,9"},
        {"in x f 1,3\nconst s f 2 1,2\nResize y <- x,_,s "
         "axes=[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,"
         "1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]",
         "f *"},
        {"in x f 1\nin z f 5\nEinsum y <- x,z equation=\"a,a->a\"", "f 5"},
        {"in x f ?\nin z f ?\nEinsum y <- x,z equation=\"a,a->a\"", "f ?"},
        {"in x f 1,8,8,3\nin w f 4,3,3,3\nms:NhwcConv y <- x,w channels_last=1", "f 1,?,?,4"},
        {"in x f 1,8,8,3\n7:GlobalAveragePool y <- x channels_last=1", "f 1,1,1,3"},
        {"in x f 1,4,2,2\nDepthToSpace y <- x blocksize=4294967296", "f *"},
        {"in x f 2,3\nin i l 2,1\nGatherND y <- x,i batch_dims=-1", "f *"},
        {"in x f 4\nin v f ?,3,0,?\nShape s <- v\nCast c <- s to=9\nCompress y <- x,c", "f ?"},
        {"in v f ?,3,0,?\nShape s <- v\nNonZero y <- s", "l 1,?"},
        {"const a h - -1025\nconst b h - 31743\nconst c h - 15360\nRange y <- a,b,c", "h ?"},
        {"const a h - 31742\nconst b h - 31743\nconst c h - 21504\nRange y <- a,b,c", "h 1 = 0x7bfe"},
        {"RandomNormal y <- "
         "shape=[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,"
         "1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]",
         "f *"},
        {"in x f 2,3\nconst s l 65 "
         "1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,"
         "1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1\nReshape y <- x,s",
         "f *"},
        {"in x f 1,1,9,9\nin w f 1,1,3,3\nConv y <- x,w strides=[2]", "f 1,1,4,7"},
        {"in x f -\nTfIdfVectorizer y <- x ngram_indexes=[0,4]", "f 5"},
        {"in x f ?,3\nShape s <- x\nconst z l - 0\nConcat p <- s,s axis=0\nPad y <- x,p", "f ?,9"},
        {"in x f 2,3\nCast y <- x to=99", "? 2,3"},
        {"in x f 3\nSequenceEmpty y <- dtype=99", "?[] *"},
    };
    HOLD(all);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_out_of_range_leave_a_size_unknown),
        cmocka_unit_test(what_an_operator_may_lack_is_unknown),
        cmocka_unit_test(bodies_may_lack_what_they_give),
        cmocka_unit_test(what_is_partly_known_is_partly_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
