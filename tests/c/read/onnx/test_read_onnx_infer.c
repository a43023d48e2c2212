/* SPDX-License-Identifier: Apache-2.0
 *
 * Shapes, types and small constants of ONNX graphs, inferred from those of the inputs. */
#include "kit/onnx_held.h"

static void shapes_are_kept_broadcast_and_reduced(void **state) {
    (void)state;
    static const rows all[] = {
        {"in x h 2,3\nRelu y <- x", "h 2,3"},
        {"in x f 2,?\nDropout y,m <- x", "f 2,?; b 2,?"},
        {"in x f 2,?\n7:Dropout y,m <- x", "f 2,?; f 2,?"},
        {"in x f *\nRelu y <- x", "f *"},
        {"in a f 2,1,4\nin b f 3,1\nAdd y <- a,b", "f 2,3,4"},
        {"in a f ?,4\nin b f 1,4\nAdd y <- a,b", "f ?,4"},
        {"in a f ?,4\nin b f 7,1\nAdd y <- a,b", "f 7,4"},
        {"in a f 3\nin b f 4\nAdd y <- a,b", "f *"},
        {"in a l 3\nin b l 3\nLess y <- a,b", "b 3"},
        {"in c b 1\nin a f 2,3\nin b f 3\nWhere y <- c,a,b", "f 2,3"},
        {"in a f 2\nin b f 1\nin c f 5,1\nMax y <- a,b,c", "f 5,2"},
        {"in x f 2,3,4\n13:ReduceMean y <- x axes=[-1,0] keepdims=0", "f 3"},
        {"in x f 2,3,4\nconst a l 1 1\nReduceMean y <- x,a", "f 2,1,4"},
        {"in x f 2,3,4\nReduceMax y <- x", "f 1,1,1"},
        {"in x f 2,3,4\nReduceSum y <- x noop_with_empty_axes=1", "f 2,3,4"},
        {"in x f 2,3,4\nin a l 1\nReduceSum y <- x,a", "f ?,?,?"},
        {"in x f 2,3,4\nin a l 1\nReduceSum y <- x,a keepdims=0", "f *"},
        {"in x f 2,3,4\nArgMax y <- x axis=1 keepdims=0", "l 2,4"},
        {"in x f 2,3,4\nin s f 4\nLayerNormalization y,m,i <- x,s axis=-2", "f 2,3,4; f 2,1,1; f 2,1,1"},
        {"in x f 2,3,4\nin s f 3\nBatchNormalization y,m,v <- x,s,s,s,s", "f 2,3,4; f 3; f 3"},
        {"in x f 2,3,5,7\nGlobalAveragePool y <- x", "f 2,3,1,1"},
        {"in x f 2,3\nDynamicQuantizeLinear y,s,z <- x", "u 2,3; f -; u -"},
        {"in x f 2,3\nin s f -\nin z c -\nQuantizeLinear y <- x,s,z", "c 2,3"},
        {"in x c 2,3\nin s h -\nDequantizeLinear y <- x,s", "h 2,3"},
        {"in x f 2,3\nCast y <- x to=7", "l 2,3"},
        {"in x f 2,3\nin l d 1\nCastLike y <- x,l", "d 2,3"},
        {"in x f 2,3\nEyeLike y <- x dtype=11", "d 2,3"},
    };
    HOLD(all);
}

static void elements_are_laid_out_anew(void **state) {
    (void)state;
    static const rows all[] = {
        {"in x f 2,3,4\nconst s l 2 0,-1\nReshape y <- x,s", "f 2,12"},
        {"in x f ?,3,4\nconst s l 2 0,-1\nReshape y <- x,s", "f ?,12"},
        {"in x f ?,3,4\nconst s l 2 -1,12\nReshape y <- x,s", "f ?,12"},
        {"in x f 0,3\nconst s l 2 0,3\nReshape y <- x,s allowzero=1", "f 0,3"},
        {"in x f 2,3,4\nin s l 2\nReshape y <- x,s", "f ?,?"},
        {"in x f 2,3\nin s l *\nReshape y <- x,s", "f *"},
        {"in x f 2,3\nconst s l 2 3,3\nReshape y <- x,s", "f *"}, /* nor are there 9 elements */
        {"in x f 2,3\nconst s l 2 -1,4\nReshape y <- x,s", "f *"},
        {"in x f ?,3\nconst s l 2 0,4\nReshape y <- x,s", "f *"},
        {"in x f ?,3\nconst s l 2 0,3\nReshape y <- x,s", "f ?,3"},
        {"in x f 2,3\nin w f 4,5\nMatMul y <- x,w", "f *"},
        {"in x f 2,3\nin w f 4\nMatMul y <- x,w", "f *"},
        {"in x f 2,3\nin w f 4,2\nGemm y <- x,w transB=1", "f *"},
        {"in x f 2,?\nin w f 4,2\nGemm y <- x,w transB=1", "f 2,4"},
        {"in x f 2,3,4\nFlatten y <- x axis=-1", "f 6,4"},
        {"in x f 2,3,4\nFlatten y <- x axis=0", "f 1,24"},
        {"in x f 1,3,1\nSqueeze y <- x", "f 3"},
        {"in x f 1,3,?\nSqueeze y <- x", "f *"},
        {"in x f 1,3,?\n11:Squeeze y <- x axes=[-1]", "f 1,3"},
        {"in x f 3\nconst a l 2 0,-1\nUnsqueeze y <- x,a", "f 1,3,1"},
        {"in x f 3\nin a l 2\nUnsqueeze y <- x,a", "f ?,?,?"},
        {"in x f 2,3,4\nTranspose y <- x perm=[1,2,0]", "f 3,4,2"},
        {"in x f 2,3,4\nTranspose y <- x", "f 4,3,2"},
        {"in x f 3,1\nconst s l 3 2,1,6\nExpand y <- x,s", "f 2,3,6"},
        {"in x f 2,3\nconst r l 2 1,5\nTile y <- x,r", "f 2,15"},
        {"in a f 2,3\nin b f ?,3\nConcat y <- a,b axis=0", "f ?,3"},
        {"in a f 2,?\nin b f 5,3\nConcat y <- a,b axis=0", "f 7,3"},
        {"in a f 2,3\nin b f *\nConcat y <- a,b axis=0", "f ?,3"},
        {"in x f 7,2\n18:Split a,b,c <- x axis=0 num_outputs=3", "f 3,2; f 3,2; f 1,2"},
        {"in x f 7,2\nconst s l 2 3,4\nSplit a,b <- x,s axis=0", "f 3,2; f 4,2"},
        {"in x f 7,2\n11:Split a,b <- x axis=0 split=[3,4]", "f 3,2; f 4,2"},
        {"in x f 10,5\nconst s l 1 1\nconst e l 1 9\nconst a l 1 0\nconst t l 1 3\nSlice y <- x,s,e,a,t",
         "f 3,5"},
        {"in x f 10,5\nconst s l 1 -1\nconst e l 1 -100\nconst a l 1 0\nconst t l 1 -1\nSlice y <- x,s,e,a,t",
         "f 10,5"},
        {"in x f 10,5\n9:Slice y <- x starts=[2,0] ends=[-2,2147483647] axes=[0,1]", "f 6,5"},
        {"in x f 10,5\nin s l 1\nconst e l 1 9\nconst a l 1 0\nSlice y <- x,s,e,a", "f ?,5"},
        {"in x f 10,5\nin s l 1\nSlice y <- x,s,s,s", "f ?,?"},
        {"in x f 10,?\nconst s l 1 0\nconst e l 1 9223372036854775807\nconst a l 1 1\nSlice y <- x,s,e,a",
         "f 10,?"},
        {"in x f 2,3\n2:Pad y <- x pads=[0,1,0,2]", "f 2,6"},
        {"in x f 2,3\nconst p l 2 1,1\nconst a l 1 -1\nPad y <- x,p,_,a", "f 2,5"},
        {"in x f 2,3\nin p l 4\nPad y <- x,p", "f ?,?"},
        {"in x f 1,12,2,2\nDepthToSpace y <- x blocksize=2", "f 1,3,4,4"},
        {"in x f 1,3,4,4\nSpaceToDepth y <- x blocksize=2", "f 1,12,2,2"},
        {"in x f 5,6\nconst s l 2 3,9\nCenterCropPad y <- x,s", "f 3,9"},
    };
    HOLD(all);
}

static void windows_slide(void **state) {
    (void)state;
    static const rows all[] = {
        {"in x f 1,3,224,224\nin w f 64,3,7,7\nConv y <- x,w strides=[2,2] pads=[3,3,3,3]", "f 1,64,112,112"},
        {"in x f ?,3,?,9\nin w f 8,3,3,3\nConv y <- x,w dilations=[1,2]", "f ?,8,?,5"},
        {"in x f 1,3,7\nin w f 8,3,3\nConv y <- x,w strides=[2] auto_pad=\"SAME_UPPER\"", "f 1,8,4"},
        {"in x f 1,3,7\nin w f 8,3,3\nConv y <- x,w auto_pad=\"VALID\" pads=[9,9]", "f 1,8,5"},
        {"in x f 1,3,2\nin w f 8,3,5\nConv y <- x,w", "f 1,8,?"},
        {"in x f 1,3,9\nin w f *\nConv y <- x,w kernel_shape=[3]", "f 1,?,7"},
        {"in x u 1,3,9\nin s f -\nin z u -\nin w c 4,3,3\nQLinearConv y <- x,s,z,w,s,z,s,z", "u 1,4,7"},
        {"in x u 1,3,9\nin w u 4,3,3\nConvInteger y <- x,w", "i 1,4,7"},
        {"in x f 1,3,8\nMaxPool y,i <- x kernel_shape=[3] strides=[2] ceil_mode=1", "f 1,3,4; l 1,3,4"},
        {"in x f 1,3,8\nAveragePool y <- x kernel_shape=[3] strides=[2]", "f 1,3,3"},
        /* A window that would begin in the padding is none. */
        {"in x f 1,1,2\nMaxPool y <- x kernel_shape=[1] strides=[2] pads=[0,1] ceil_mode=1", "f 1,1,1"},
        {"in x f 1,4,5,5\nin w f 4,2,3,3\nConvTranspose y <- x,w group=3 strides=[2,2] output_padding=[1,0]",
         "f 1,6,12,11"},
        {"in x f 1,4,5\nin w f 4,2,3\nConvTranspose y <- x,w output_shape=[17]", "f 1,2,17"},
        {"in x f 1,4,5\nin w f 4,2,3\nConvTranspose y <- x,w strides=[3] auto_pad=\"SAME_LOWER\"",
         "f 1,2,15"},
        {"in x f 1,2,3,3\nMaxUnpool y <- x,x kernel_shape=[2,2] strides=[2,2]", "f 1,2,6,6"},
        {"in x f 1,2,4,4\nconst s f 4 1,1,2,1.5\nResize y <- x,_,s", "f 1,2,8,6"},
        {"in x f 1,2,4,4\nconst s l 4 1,2,9,7\nResize y <- x,_,_,s", "f 1,2,9,7"},
        {"in x f 1,2,4,8\nconst s l 2 6,6\nResize y <- x,_,_,s axes=[2,3] "
         "keep_aspect_ratio_policy=\"not_larger\"",
         "f 1,2,3,6"},
        {"in x f 1,2,4,8\nconst s l 2 6,6\nResize y <- x,_,_,s axes=[2,3] "
         "keep_aspect_ratio_policy=\"not_smaller\"",
         "f 1,2,6,12"},
        {"in x f 1,2,4,4\nin s f 4\nResize y <- x,_,s", "f ?,?,?,?"},
        {"in x f 1,2,4,4\n7:Upsample y <- x scales=f[1,1,2,2]", "f 1,2,8,8"},
        {"in x f 1,5,8,8\nin r f 7,4\nin b l 7\nRoiAlign y <- x,r,b output_height=3 output_width=2",
         "f 7,5,3,2"},
        {"in x f 2,3,8,8\nin g f 2,5,6,2\nGridSample y <- x,g", "f 2,3,5,6"},
        {"in x f 1,5,8\nconst i l 2 5,5\nconst k l 2 1,5\nCol2Im y <- x,i,k", "f 1,1,5,5"},
        {"in x f 1,20,8,8\nin w f 32,24,3,3\nnc:ReorderInput y <- x", "f 1,?,8,8"},
        {"in x f 1,25,8,8\nnc:ReorderInput y <- x", "f 1,32,8,8"},
        {"in x f 1,8,9,?\nnc:ReorderInput y <- x channels_last=1", "f 1,?,8,9"},
        {"in x f 1,8,9,32\nnc:ReorderInput y <- x channels_last=1", "f 1,32,8,9"},
        {"in x f 1,24,8,9\nnc:ReorderOutput y <- x channels=20", "f 1,20,8,9"},
        {"in x f 1,24,8,9\nnc:ReorderOutput y <- x channels=20 channels_last=1", "f 1,8,9,20"},
        {"in x f 1,20,8,8\nin w f 32,24,3,3\nnc:ReorderInput r <- x\nnc:Conv y <- r,w pads=[1,1,1,1]",
         "f 1,32,8,8"},
        {"in x f 1,24,8,8\nnc:MaxPool y <- x kernel_shape=[2,2] strides=[2,2]", "f 1,24,4,4"},
        {"in x f 1,24,8,8\nnc:GlobalAveragePool y <- x", "f 1,24,1,1"},
        {"in x f 1,24,8,8\nnc:Upsample y <- x scales=[1,1,2,3]", "f 1,24,16,24"},
        {"in q f 2,7,24\nin k f 2,7,12\nin v f 2,7,10\nms:LinearAttention y,s <- q,k,v q_num_heads=4 "
         "kv_num_heads=2",
         "f 2,7,20; ? 2,2,6,5"},
        {"in q f 2,7,12\nin k f 2,7,24\nin v f 2,7,20\nms:LinearAttention y,s <- q,k,v q_num_heads=2 "
         "kv_num_heads=4 "
         "state_window=3",
         "f 2,7,20; ? 3,2,4,6,5"},
        {"in x f 2,6,9\nin w f 6,1,4\nms:CausalConvWithState y,s <- x,w dilation=2", "f 2,6,9; f 2,6,6"},
        {"in x f 2,6,9\nin w f 6,1,4\nms:CausalConvWithState y,s <- x,w state_window=2", "f 2,6,9; f *"},
        {"in x u 1,9,9,3\nms:NhwcMaxPool y <- x kernel_shape=[3,3]", "u 1,7,7,3"},
    };
    HOLD(all);
}

static void products_layers_and_attention(void **state) {
    (void)state;
    static const rows all[] = {
        {"in a f 5,1,2,3\nin b f 7,3,4\nMatMul y <- a,b", "f 5,7,2,4"},
        {"in a f 3\nin b f 7,3,4\nMatMul y <- a,b", "f 7,4"},
        {"in a f 3\nin b f 3\nMatMul y <- a,b", "f -"},
        {"in a u 2,3\nin b u 3,4\nMatMulInteger y <- a,b", "i 2,4"},
        {"in a f 3,2\nin b f 4,3\nGemm y <- a,b transA=1 transB=1", "f 2,4"},
        {"in a f 5,3,2\nin b f 4,3\nms:FusedMatMul y <- a,b transA=1 transB=1", "f 5,2,4"},
        {"in a f 2,5,64\nin b u 32,2,16\nin s f 64\nms:MatMulNBits y <- a,b,s K=64 N=32", "f 2,5,32"},
        {"in a f 2,3,4\nin b f 2,4,5\nEinsum y <- a,b equation=\"bij,bjk->bik\"", "f 2,3,5"},
        {"in a f 2,3,4\nEinsum y <- a equation=\"...ij->...j\"", "f 2,4"},
        {"in a f 4,4\nEinsum y <- a equation=\"ii\"", "f -"},
        {"in a f 2,?\nin b f 1,5\nEinsum y <- a,b equation=\"ij,jk->ijk\"", "f 2,?,5"},
        {"in a f 5,1,2\nin b f 7,5,4,3\nEinsum y <- a,b equation=\"...z,...Z\"", "f 7,5,4,3,2"},
        {"in a f 2,3\nin b f 3,5\nEinsum y <- a,b equation=\"ij,jk\"", "f 2,5"},
        {"in x f 9,2,8\nin w f 2,64,8\nin r f 2,64,16\nLSTM y,h,c <- x,w,r hidden_size=16 "
         "direction=\"bidirectional\"",
         "f 9,2,2,16; f 2,2,16; f 2,2,16"},
        {"in x f 2,9,8\nin w f 1,48,8\nin r f 1,48,16\nGRU y,h <- x,w,r layout=1", "f 2,9,1,16; f 2,1,16"},
        {"in x f 9,2,8\nin w c 1,8,64\nin r c 1,16,64\nms:DynamicQuantizeLSTM y,h,c <- x,w,r",
         "f 9,1,2,16; f 1,2,16; f 1,2,16"},
        {"in q f 2,8,10,64\nin k f 2,2,12,64\nin v f 2,2,12,32\nin p f 2,2,5,64\nAttention y,a,b,c <- "
         "q,k,v,_,p,p",
         "f 2,8,10,32; f 2,2,17,64; f 2,2,17,32; f 2,8,10,17"},
        {"in q f 2,10,512\nin k f 2,12,128\nAttention y <- q,k,k q_num_heads=8 kv_num_heads=2", "f 2,10,512"},
        {"in x f 2,10,96\nin w f 96,288\nin b f 288\nms:Attention y,p <- x,w,b num_heads=4",
         "f 2,10,96; f 2,2,4,10,24"},
        {"in q f 2,10,96\nin k f 2,12,96\nms:MultiHeadAttention y,a,b <- q,k,k num_heads=4",
         "f 2,10,96; f 2,4,12,24; f 2,4,12,24"},
        {"in q f 2,10,96\nin k f 2,10,48\nin s i 2\nms:GroupQueryAttention y,a,b <- q,k,k,_,_,s,s "
         "num_heads=4 "
         "kv_num_heads=2",
         "f 2,10,96; f 2,2,10,24; f 2,2,10,24"},
        {"in q f 2,1,192\nin p f 2,2,7,24\nin s i 2\nconst t i - 8\nms:GroupQueryAttention y,a,b,z <- "
         "q,_,_,p,p,s,t num_heads=4 kv_num_heads=2",
         "f 2,1,96; f 2,2,8,24; f 2,2,8,24; f 2,4,1,8"},
        {"in q f 2,1,192\nin p f 2,2,64,24\nin s i 2\nconst t i 1 8\nms:GroupQueryAttention y,a,b <- "
         "q,_,_,p,p,s,t num_heads=4 kv_num_heads=2",
         "f 2,1,96; f 2,2,64,24; f 2,2,64,24"},
        {"in q f 2,1,192\nin p f 2,2,64,24\nin s i 2\nin t i 1\nms:GroupQueryAttention y,a,b <- "
         "q,_,_,p,p,s,t num_heads=4 kv_num_heads=2",
         "f 2,1,96; f 2,2,?,24; f 2,2,?,24"},
        {"in q f 2,1,192\nin p f 2,2,64,24\nin s i 2\nin t i 1\nms:GroupQueryAttention y,a,b <- "
         "q,_,_,p,p,s,t num_heads=4 kv_num_heads=2 sliding_window_cache=1",
         "f 2,1,96; f 2,2,64,24; f 2,2,64,24"},
        {"in q f 2,10,4,3,24\nms:MultiHeadAttention y,a,b <- q num_heads=4",
         "f 2,10,96; f 2,4,10,24; f 2,4,10,24"},
        {"in q f 2,10,96\nin k f 2,12,4,2,24\nms:MultiHeadAttention y <- q,k num_heads=4", "f 2,10,96"},
        {"in q f 2,10,96\nin k f 2,4,12,24\nms:MultiHeadAttention y <- q,k,k num_heads=4", "f 2,10,96"},
        {"in q f 2,1,96\nin p f 2,4,7,24\nms:MultiHeadAttention y,a,b,z <- q,q,q,_,_,_,p,p num_heads=4",
         "f 2,1,96; f 2,4,8,24; f 2,4,8,24; f 2,4,1,8"},
        {"in q f 2,1,96\nin p f 2,4,64,24\nconst n i 1 7\nms:MultiHeadAttention y,a,b,z <- "
         "q,q,q,_,_,_,p,p,n num_heads=4",
         "f 2,1,96; f 2,4,64,24; f 2,4,64,24; f 2,4,1,8"},
        {"in q f 2,1,96\nin p f 2,4,64,24\nms:DecoderMaskedMultiHeadAttention y,a,b <- q,q,q,_,_,p,p "
         "num_heads=4 past_present_share_buffer=1",
         "f 2,1,96; f 2,4,64,24; f 2,4,64,24"},
        {"in q f 2,1,96\nin p f 2,4,7,24\nms:DecoderMaskedMultiHeadAttention y,a,b <- q,q,q,_,_,p,p "
         "num_heads=4",
         "f 2,1,96; f 2,4,8,24; f 2,4,8,24"},
        {"in x f 2,10,96\nin w f 96,240\nin b f 240\nin p f 2,2,4,64,24\nms:Attention y,q <- x,w,b,_,p "
         "num_heads=4 "
         "qkv_hidden_sizes=[96,96,48] past_present_share_buffer=1",
         "f 2,10,48; f 2,2,4,64,24"},
        {"in w u 9,8\nin i l 2,3\nin s f 9,1\nms:GatherBlockQuantized y <- w,i,s", "f 2,3,16"},
        {"in w q 9,8\nin i l 2,3\nin s f 9,1\nms:GatherBlockQuantized y <- w,i,s", "f 2,3,8"},
        {"in x f 2,5,8\nin s f 8\nms:SkipLayerNormalization y,m,i,z <- x,x,s",
         "f 2,5,8; f 2,5,1; f 2,5,1; f 2,5,8"},
        {"in x f 3,4,4\nDet y <- x", "f 3"},
    };
    HOLD(all);
}

static void elements_are_picked_and_made(void **state) {
    (void)state;
    static const rows all[] = {
        {"in x f 5,6,7\nin i l 2,3\nGather y <- x,i axis=1", "f 5,2,3,7"},
        {"in x f 5,6\nin i l -\nGather y <- x,i", "f 6"},
        {"in x f 5,6\nin i l 5,2\nGatherElements y <- x,i axis=1", "f 5,2"},
        {"in x f 5,6,7\nin i l 4,2\nGatherND y <- x,i", "f 4,7"},
        {"in x f 5,6,7\nin i l 5,1\nGatherND y <- x,i batch_dims=1", "f 5,7"},
        {"in x f 5,6\nconst k l 1 3\nTopK y,i <- x,k axis=0", "f 3,6; l 3,6"},
        {"in x f 5,6\n9:TopK y,i <- x k=2", "f 5,2; l 5,2"},
        {"in x f 5,6\nin k l 1\nTopK y,i <- x,k", "f 5,?; l 5,?"},
        {"in i l 5\nconst d l - 10\nin v f 2\nOneHot y <- i,d,v axis=0", "f 10,5"},
        {"in x f 5,6\nNonZero y <- x", "l 2,?"},
        {"const x l 2,2 1,0,2,3\nNonZero y <- x", "l 2,3 = 0,1,1,0,0,1"},
        {"in x f 5,6\nconst c b 3 1,0,1\nCompress y <- x,c axis=1", "f 5,2"},
        {"const x l 6 2,1,1,3,4,3\nUnique y,i,v,c <- x", "l 4; l 4; l 6; l 4"},
        {"in x f 5\nUnique y,i,v,c <- x", "f ?; l ?; l 5; l ?"},
        {"in b f 1,9,4\nin s f 1,2,9\nNonMaxSuppression y <- b,s", "l ?,3"},
        {"const a l - 3\nconst b l - 10\nconst c l - 4\nRange y <- a,b,c", "l 2 = 3,7"},
        {"const a l - 3\nconst b l - -10\nconst c l - -5\nRange y <- a,b,c", "l 3 = 3,-2,-7"},
        {"const a f - 0.5\nconst b f - 3\nconst c f - 1\nRange y <- a,b,c", "f 3 = 0.5,1.5,2.5"},
        {"const a f - 0\nconst b f - 1\nconst c f - 0.1\nRange y <- a,b,c", "f 10"},
        {"in a l -\nRange y <- a,a,a", "l ?"},
        {"const s l 2 2,3\nconst v h 1 0\nConstantOfShape y <- s value=@v",
         "h 2,3 = 0x0000,0x0000,0x0000,0x0000,0x0000,0x0000"},
        {"in s l 2\nConstantOfShape y <- s", "f ?,?"},
        {"RandomNormal y <- shape=[2,3] dtype=11", "d 2,3"},
        {"const n l - 8\nHannWindow y <- n", "f 8"},
        {"in x f 1,100,1\nconst s l - 10\nin w f 20\nSTFT y <- x,s,w", "f 1,9,11,2"},
        {"in x f 1,16,1\nconst a l - 1\nDFT y <- x,_,a onesided=1", "f 1,9,2"},
        {"in a f 2,3\nin t l 2\nNegativeLogLikelihoodLoss y <- a,t", "f -"},
        {"in a f 2,3\nin t l 2\nSoftmaxCrossEntropyLoss y,p <- a,t reduction=\"none\"", "f 2; f 2,3"},
        {"in x s 2,3\nStringSplit y,n <- x", "s 2,3,?; l 2,3"},
        {"in x f 4,9\nml:TreeEnsembleClassifier y,p <- x classlabels_int64s=[0,1,2]", "l 4; f 4,3"},
        {"in x f 4,9\nml:TreeEnsembleRegressor y <- x n_targets=2", "f 4,2"},
        {"in x l 4\nml:OneHotEncoder y <- x cats_int64s=[1,2,3]", "f 4,3"},
        {"in x f 4\nNobodyKnowsThis y <- x", "? *"},
    };
    HOLD(all);
}

static void bodies_are_inferred_with_what_they_see(void **state) {
    (void)state;
    static const rows all[] = {
        /* Which branch is known, and not. */
        {"in x f 2,3\nconst c b - 1\ngraph t ; a\nRelu a <- x\nend\ngraph e ; b\nTranspose b <- x\nend\n"
         "If y <- c then_branch=&t else_branch=&e",
         "f 2,3"},
        {"in x f 2,3\nconst c b - 0\ngraph t ; a\nRelu a <- x\nend\ngraph e ; b\nTranspose b <- x\nend\n"
         "If y <- c then_branch=&t else_branch=&e",
         "f 3,2"},
        {"in x f 2,3\nin c b -\ngraph t ; a\nRelu a <- x\nend\ngraph e ; b\nTranspose b <- x\nend\n"
         "If y <- c then_branch=&t else_branch=&e",
         "f ?,?"},
        {"in x f 2,3\nin c b -\ngraph t ; a\nRelu a <- x\nend\ngraph e ; b\nAbs b <- x\nend\n"
         "If y <- c then_branch=&t else_branch=&e",
         "f 2,3"},
        /* A loop that carries a shape on, gives a row each time, and one that grows. */
        {"const n l - 5\nconst c b - 1\nin x f 2\ngraph g i l -|k b -|s f *; k2,s2,r\nIdentity k2 <- k\nRelu "
         "s2 <- s\n"
         "Abs r <- s\nend\nLoop y,z <- n,c,x body=&g",
         "f 2; f 5,2"},
        {"in n l -\nin x f 2\ngraph g i l -|k b -|s f *; k2,s2,r\nIdentity k2 <- k\nRelu s2 <- s\nAbs r <- "
         "s\nend\n"
         "Loop y,z <- n,_,x body=&g",
         "f 2; f ?,2"},
        {"const n l - 4\nin x f 1\ngraph g i l -|k b -|s f *; k2,s2\nIdentity k2 <- k\nConcat s2 <- s,x "
         "axis=0\nend\n"
         "Loop y <- n,_,x body=&g",
         "f 5"},
        {"in n l -\nin x f 1,3\ngraph g i l -|k b -|s f *; k2,s2\nIdentity k2 <- k\nConcat s2 <- s,x "
         "axis=0\nend\n"
         "Loop y <- n,_,x body=&g",
         "f ?,3"},
        {"const n l - 0\nin x f 2\ngraph g i l -|k b -|s f *; k2,s2,r\nIdentity k2 <- k\nRelu s2 <- s\nAbs r "
         "<- s\nend\n"
         "Loop y,z <- n,_,x body=&g",
         "f 2; f 0,2"},
        /* It ends when a number that it counts reaches three. */
        {"const c b - 1\nconst z l - 0\nconst o l - 1\nconst m l - 3\ngraph g i l -|k b -|s l -; k2,s2\nAdd "
         "s2 <- s,o\n"
         "Less k2 <- s2,m\nend\nLoop y <- _,c,z body=&g\nIdentity w <- y",
         "l - = 3"},
        {"const n l - 1000000\nin x f 2\ngraph g i l -|k b -|s f *; k2,s2,r\nIdentity k2 <- k\nRelu s2 <- "
         "s\nAbs r <- s\nend\n"
         "Loop y,z <- n,_,x body=&g",
         "f 2; f 1000000,2"},
        /* One that runs once at least leaves what its rounds give; what it began with is of another shape. */
        {"const c b - 1\nin q b -\nin z f -\nin x f 2,3\ngraph g i l -|k b -|s f -; q,s2\nRelu s2 <- x\nend\n"
         "Loop y <- _,c,z body=&g",
         "f 2,3"},
        {"in c b -\nin q b -\nin z f -\nin x f 2,3\ngraph g i l -|k b -|s f -; q,s2\nRelu s2 <- x\nend\n"
         "Loop y <- _,c,z body=&g",
         "f *"},
        {"in n l -\nconst c b - 1\nin q b -\nin z f -\nin x f 2,3\ngraph g i l -|k b -|s f -; q,s2\nRelu s2 "
         "<- x\nend\n"
         "Loop y <- n,c,z body=&g",
         "f *"},
        {"const c b - 1\nin q b -\nin z f -\nin x f 2,3\ngraph g i l -|k b -|s f -; q,s2\nAdd s2 <- "
         "s,x\nend\n"
         "Loop y <- _,c,z body=&g",
         "f *"},
        {"in x f 7,3\nin h f 4\ngraph g s f *|e f *; s2,r\nRelu s2 <- s\nAbs r <- e\nend\n"
         "Scan y,z <- h,x body=&g num_scan_inputs=1",
         "f 4; f 7,3"},
        {"in x f 3,7\nin h f 4\ngraph g s f *|e f *; s2,r\nRelu s2 <- s\nAbs r <- e\nend\n"
         "Scan y,z <- h,x body=&g num_scan_inputs=1 scan_input_axes=[1] scan_output_axes=[1]",
         "f 4; f 3,7"},
        {"in x f 2,7,3\nin h f 2,4\ngraph g s f *|e f *; s2,r\nRelu s2 <- s\nAbs r <- e\nend\n"
         "8:Scan y,z <- _,h,x body=&g num_scan_inputs=1",
         "f 2,4; f 2,7,3"},
    };
    HOLD(all);
}

static void sequences_keep_what_their_elements_share(void **state) {
    (void)state;
    static const rows all[] = {
        {"in a f 2,3\nin b f 5,3\nSequenceConstruct s <- a,b", "f[] ?,3"},
        {"in a f 2,3\nin b f 5,3\nSequenceConstruct s <- a,b\nConcatFromSequence y <- s axis=1", "f ?,6"},
        {"in a f 2,3\nSequenceConstruct s <- a,a\nConcatFromSequence y <- s axis=0 new_axis=1", "f 2,2,3"},
        {"in a f 2,3\nSequenceConstruct s <- a,a\nSequenceLength y <- s", "l - = 2"},
        {"in a f 2,3\nSequenceEmpty s <- dtype=1\nSequenceInsert t <- s,a\nconst i l - 0\nSequenceAt y <- "
         "t,i",
         "f 2,3"},
        {"in a f 7,3\nconst n l - 2\nSplitToSequence s <- a,n\nSequenceLength y <- s", "l - = 4"},
        {"in a f 4,3\nSplitToSequence s <- a axis=1 keepdims=0\nconst i l - 0\nSequenceAt y <- s,i", "f 4"},
        {"in a f 2,3\nOptional o <- a\nOptionalGetElement y <- o", "f 2,3"},
        {"Optional o <- _ type=1\nOptionalHasElement y <- o", "b - = 0"},
        {"in a f 2,3\nSequenceConstruct s <- a,a\ngraph g e f *; r\nTranspose r <- e\nend\nSequenceMap y <- "
         "s body=&g",
         "f[] 3,2"},
    };
    HOLD(all);
}

/* -- what is given --------------------------------------------------------------------------------------- */

static const char *with(const char *text, const lmi_onnx_given_input *in, int32_t n) {
    return inferred(text, &(lmi_onnx_given){.n_inputs = n, .inputs = in});
}

static void what_is_given_fills_what_the_file_leaves_open(void **state) {
    (void)state;
    const int64_t sizes[] = {8, 3}, other[] = {8, 4}, two[] = {2};
    const int64_t shape[] = {4, 6};
    lmi_onnx_given_input x = {.name = "x", .ndim = 2, .sizes = sizes}, unnamed = x, wrong = x, misfit = x;
    unnamed.name = NULL;
    wrong.name = "z";
    misfit.sizes = other;
    assert_string_equal(with("in x f ?,3\nRelu y <- x", &x, 1), "f 8,3");
    assert_string_equal(with("in x f *\nRelu y <- x", &unnamed, 1), "f 8,3");
    assert_string_equal(with("in x f ?,3\nRelu y <- x", &wrong, 1),
                        "refused: the model has no input 'z'; its inputs: x");
    assert_string_equal(with("in x f ?,3\nRelu y <- x", &misfit, 1),
                        "refused: input 'x' is ?x3 in the file, and can't be 8x4");
    lmi_onnx_given_input values = {
        .name = "s", .ndim = 1, .sizes = two, .type = LMI_ONNX_INT64, .memory = shape, .bytes = sizeof shape};
    assert_string_equal(with("in x f 24\nin s l 2\nReshape y <- x,s", &values, 1), "f 4,6");
    values.type = LMI_ONNX_FLOAT;
    assert_string_equal(with("in x f 24\nin s l 2\nReshape y <- x,s", &values, 1),
                        "refused: input 's' has another element type in the file");
    /* an initialiser may be given by its name, and is not the next input */
    lmi_onnx_given_input weight = {.name = "w", .ndim = 2, .sizes = sizes};
    assert_string_equal(with("const w f 1,3 1,2,3\nin w f ?,3\nin x f ?,3\nAdd y <- x,w", &unnamed, 1),
                        "f 8,3");
    assert_string_equal(with("const w f *  -\nin w f ?,3\nRelu y <- w", &weight, 1), "f 8,3");
    assert_string_equal(with("const w f 3 1,2,3\nin w f 3\nRelu y <- w", &wrong, 1),
                        "refused: the model has no input 'z'; its inputs: none");
    lmi_onnx_given_input partly = {.name = "x",
                                   .ndim = 2,
                                   .sizes = (int64_t[]){-1, 3},
                                   .type = LMI_ONNX_FLOAT};
    assert_string_equal(with("in x ? 7,?\nRelu y <- x", &partly, 1), "f 7,3");
    assert_string_equal(with("in x f *\nRelu y <- x", &partly, 1), "f ?,3");
    const lmi_onnx_symbol none = {"q", 5};
    assert_string_equal(inferred("in x f *\nRelu y <- x",
                                 &(lmi_onnx_given){.n_symbols = 1, .symbols = &none}),
                        "refused: the model names no size 'q'; it names none at all");
    lmi_onnx_given_input many[] = {{.ndim = -1}, {.ndim = -1}};
    assert_string_equal(with("in x f 24\nRelu y <- x", many, 2),
                        "refused: input 2 is given, but the model has 1");
}

/* x and y name their first size n; what is given of x, or of n, holds for y. */
static void a_name_of_a_size_stands_for_one_size(void **state) {
    (void)state;
    static const int32_t named[] = {0, -1};
    const int64_t first[] = {8, 3}, second[] = {9, 3};
    const lmi_onnx_given_input in[] = {{.name = "x", .ndim = 2, .sizes = first},
                                       {.name = "z", .ndim = 2, .sizes = second}};
    const lmi_onnx_symbol n = {"n", 5}, none = {"q", 5};
    const lmi_onnx_given tells[] = {{.n_inputs = 1, .inputs = in},
                                    {.n_symbols = 1, .symbols = &n},
                                    {.n_inputs = 2, .inputs = in},
                                    {.n_symbols = 1, .symbols = &none}};
    static const char *const results[] = {"f 8,3", "f 5,3", "f ?,3",
                                          "there is no size 'q' for the model; there are: n"};
    for (int i = 0; i < 4; i++) {
        onnx_text t;
        lmi_buf b;
        lmi_buf_init(&b);
        onnx_graph_of(&t, "in x f ?,3\nin z f ?,3\nUnheardOf y <- x");
        lmi_onnx_symbol *s = lmi_vec_push(&t.m.symbols);
        *s = (lmi_onnx_symbol){"n", -1};
        for (int32_t v = 0; v < 3; v++) lmi_onnx_value_at(&t.m, v)->symbols = named;
        last = (lam_error){0};
        lmi_onnx_value *y = lmi_onnx_value_at(&t.m, 2);
        y->type = LMI_ONNX_FLOAT; /* stated: the operator is unknown */
        y->ndim = 2;
        y->sizes = lmi_onnx_value_at(&t.m, 0)->sizes;
        if (lmi_onnx_infer(&t.m, &tells[i], &last) != LAM_OK)
            assert_string_equal(last.text, results[i]);
        else {
            onnx_put_value(&b, y);
            assert_string_equal(lmi_buf_text(&b), results[i]);
            assert_true(y->stated);
        }
        lmi_buf_free(&b);
        onnx_forget(&t);
    }
}

static void what_a_node_lacks_is_said(void **state) {
    (void)state;
    static const struct {
        const char *text, *why;
    } all[] = {
        {"in x f 2\nUnheardOf y <- x", "there is no rule for the operator"},
        {"in x f *\nRelu y <- x", "the shape of an argument is unknown"},
        {"in x f 2\nNonZero y <- x", "it depends on values that are known only when the model runs"},
        {"in x f 2\nin k l 1\nTopK y,i <- x,k",
         "it depends on values that are known only when the model runs"},
        {"in a f 3\nin b f 4\nAdd y <- a,b", "the shapes of its arguments do not go together"},
        {"in x f 2\nRelu y <- x", NULL},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        onnx_text t;
        onnx_graph_of(&t, all[i].text);
        assert_int_equal(lmi_onnx_infer(&t.m, NULL, &last), LAM_OK);
        const char *why = lmi_onnx_node_at(&t.m, 0)->why;
        if (all[i].why)
            assert_string_equal(why, all[i].why);
        else
            assert_null(why);
        onnx_forget(&t);
    }
}

/* -- all operators --------------------------------------------------------------------------------------- */

static const struct {
    const char *domain, *name;
} operators[] = {
#define OP(name, ...) {"", #name},
#define ML(name, ...) {"ai.onnx.ml", #name},
#define MS(name, ...) {"com.microsoft", #name},
#define NC(name, ...) {"com.microsoft.nchwc", #name},
#include "read/onnx/rules.def"
#undef OP
#undef ML
#undef MS
#undef NC
};
enum { N_OPERATORS = sizeof operators / sizeof *operators };

static void every_operator_of_the_table_is_found(void **state) {
    (void)state;
    for (int i = 0; i < N_OPERATORS; i++) {
        const lmi_onnx_rule *r = lmi_onnx_rule_of(operators[i].domain, operators[i].name);
        if (!r)
            fail_msg("%s %s is not found: its list is not in order", operators[i].domain, operators[i].name);
        assert_string_equal(r->name, operators[i].name);
    }
    assert_null(lmi_onnx_rule_of("", "Nothing"));
    assert_null(lmi_onnx_rule_of("org.example", "Relu"));
}

static uint32_t dice(uint32_t *seed, uint32_t n) {
    *seed = *seed * 1664525u + 1013904223u;
    return (*seed >> 8) % n;
}

/* One node of any operator, with arguments and attributes that may not fit it. */
static void put_any_node(lmi_buf *b, int op, uint32_t *seed) {
    static const char *const values[] = {"x", "s", "c", "k", "l", "e", "u", "m", "_", "h"};
    static const char *const attrs[] = {" axis=7",
                                        " axis=-1",
                                        " axes=[0,9]",
                                        " axes=[-1]",
                                        " perm=[2,0]",
                                        " perm=[0,0,0]",
                                        " pads=[1]",
                                        " strides=[0]",
                                        " strides=[-3,2]",
                                        " kernel_shape=[0,0]",
                                        " kernel_shape=[3,3]",
                                        " to=99",
                                        " to=7",
                                        " split=[1,-5]",
                                        " starts=[9] ends=[-9]",
                                        " scales=f[0,-1,2]",
                                        " shape=[-1,0]",
                                        " blocksize=0",
                                        " blocksize=9",
                                        " num_heads=0",
                                        " num_heads=2",
                                        " group=-1",
                                        " hidden_size=-4",
                                        " equation=\"ij,jk->ik\"",
                                        " equation=\"...,,->zz\"",
                                        " batch_dims=3",
                                        " layout=1",
                                        " num_scan_inputs=9",
                                        " num_scan_inputs=1",
                                        " value=@k",
                                        " output_shape=[1]",
                                        " dilations=[9223372036854775807]",
                                        " start=-9 end=99",
                                        " keepdims=0",
                                        " n_targets=-3",
                                        " classlabels_strings=s[a,b]",
                                        " ngram_indexes=[9223372036854775807]",
                                        " body=&g",
                                        " then_branch=&g else_branch=&g",
                                        " stopwords=s[a]",
                                        " noop_with_empty_axes=1",
                                        " inputdimensions=[-1,3]"};
    static const int32_t opsets[] = {1, 7, 9, 11, 13, 18, 21};
    const char *of = operators[op].domain;
    const char *domain = *of == 'a' ? "ml:" : strstr(of, "nchwc") ? "nc:" : *of ? "ms:" : "";
    if (*domain)
        lmi_put(b, domain);
    else
        lmi_putf(b, "%d:", (int)opsets[dice(seed, 7)]);
    lmi_putf(b, "%s y,z,_,w <- ", operators[op].name);
    for (uint32_t i = 0, n = 1 + dice(seed, 6); i < n; i++)
        lmi_putf(b, "%s%s", i ? "," : "", values[dice(seed, 10)]);
    for (uint32_t i = 0, n = dice(seed, 4); i < n; i++)
        lmi_put(b, attrs[dice(seed, sizeof attrs / sizeof *attrs)]);
    lmi_putc(b, '\n');
}

static void no_operator_takes_its_arguments_for_granted(void **state) {
    (void)state;
    uint32_t seed = 1;
    for (int round = 0; round < rounds(100); round++) {
        for (int op = 0; op < N_OPERATORS; op++) {
            lmi_buf b;
            lmi_buf_init(&b);
            lmi_put(&b, "in x f 2,3,4\nin s f -\nin c f 1,?,8,8\nconst k l 3 2,-3,9223372036854775807\nconst "
                        "l l 2 1,0\n"
                        "const e l 0 -\nin u f *\nin m l 0,5\nconst h f 3 1,-0.5,1e30\n"
                        "graph g a l -|d b -|v f *; d2,v2\nIdentity d2 <- d\nConcat v2 <- v,x axis=0\nend\n");
            put_any_node(&b, op, &seed);
            put_any_node(&b, (int)dice(&seed, N_OPERATORS), &seed);
            onnx_text t;
            onnx_graph_of(&t, lmi_buf_text(&b));
            assert_int_equal(lmi_onnx_infer(&t.m, NULL, &last), LAM_OK);
            sizes_are_sane(&t.m);
            onnx_forget(&t);
            lmi_buf_free(&b);
        }
    }
}

/* Loops in a loop, each of a million rounds: what is known of them is found without going round. */
static void work_is_bounded(void **state) {
    (void)state;
    lmi_buf b;
    lmi_buf_init(&b);
    lmi_put(&b, "const n l - 1000\nin x f 2\n");
    for (int i = 0; i < 8; i++) {
        lmi_putf(&b, "graph g%d a%d l -|d%d b -|v%d f *; e%d,w%d\nIdentity e%d <- d%d\n", i, i, i, i, i, i, i,
                 i);
        if (i == 0)
            lmi_put(&b, "Concat w0 <- v0,x axis=0\n");
        else
            lmi_putf(&b, "Loop w%d <- n,_,v%d body=&g%d\n", i, i, i - 1);
        lmi_put(&b, "end\n");
    }
    lmi_put(&b, "Loop y <- n,_,x body=&g7");
    assert_string_equal(inferred(lmi_buf_text(&b), NULL), "f ?");
    lmi_buf_free(&b);
    assert_string_equal(
        inferred("const n l - 65536\nConstantOfShape a <- n\nConstantOfShape b <- n\nAdd y <- a,b", NULL),
        "f 65536");
    assert_string_equal(inferred("const n l 2 65536,65536\nConstantOfShape y <- n", NULL), "f 65536,65536");
}

static void memory_that_runs_out_is_told(void **state) {
    (void)state;
    oom_sweep_parts(
        run_short_of_memory,
        (char[]){
            "in x f ?,3,8,8\nconst k l 1 -1\nShape s <- x\nconst z l 1 0\nGather n <- s,z\nConcat t <- n,k "
            "axis=0\nReshape y <- x,t\nconst m l - 3\ngraph g a l -|d b -|v f *; d2,v2\nIdentity d2 <- d\n"
            "Concat v2 <- v,x axis=1\nend\nLoop w <- m,_,x body=&g\nAdd q <- z,k\nCast r <- q to=1"});
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shapes_are_kept_broadcast_and_reduced),
        cmocka_unit_test(elements_are_laid_out_anew),
        cmocka_unit_test(windows_slide),
        cmocka_unit_test(products_layers_and_attention),
        cmocka_unit_test(elements_are_picked_and_made),
        cmocka_unit_test(bodies_are_inferred_with_what_they_see),
        cmocka_unit_test(sequences_keep_what_their_elements_share),
        cmocka_unit_test(what_is_given_fills_what_the_file_leaves_open),
        cmocka_unit_test(a_name_of_a_size_stands_for_one_size),
        cmocka_unit_test(what_a_node_lacks_is_said),
        cmocka_unit_test(every_operator_of_the_table_is_found),
        cmocka_unit_test(no_operator_takes_its_arguments_for_granted),
        cmocka_unit_test(work_is_bounded),
        cmocka_unit_test(memory_that_runs_out_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
