# SPDX-License-Identifier: Apache-2.0
"""The table of operators' words against torch itself: every operator that its dispatcher knows has a word.

The tables are read as text, as in test_words.py.
"""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.skipif(
    tuple(int(part) for part in torch.__version__.split(".")[:2]) < (2, 13),
    reason="the tables follow PyTorch 2.13",
)

VOCAB = Path(__file__).parents[2] / "src" / "vocab"
NAME = re.compile(r'^(NAME|WRAP)\("([^"]+)",\s*(\w+),\s*(\w+), (\d+), (\d+)\)$', re.MULTILINE)
SIGNATURE = re.compile(
    r"^SIGNATURE\((\w+),(.*?)\)$(?=\n(?:SIGNATURE|#|/\*|\n|\Z)|\n*\Z)", re.MULTILINE | re.DOTALL
)
TABLES = ("names_aten.def", "names_other.def")
WORDS = {
    spelling: (kind, signature)
    for table in TABLES
    for _, spelling, kind, signature, _, _ in NAME.findall((VOCAB / table).read_text())
}
SIGNATURES = {
    name: re.findall(r"(?:ARG|MASK)\((\w+)\)|(SKIP)", line.replace("THREE", "SKIP SKIP SKIP"))
    for name, line in SIGNATURE.findall((VOCAB / "signatures_op.def").read_text())
}

# Operators that no model runs.
EXCEPTIONS = {
    r"aten::_foobar": "a test of torch's own",
    r"aten::_test_.*": "tests of torch's own",
    r"_test::.*|_inductor_test::.*": "tests of torch's own",
    r"image::.*": "torchvision's files of images, which no layer reads",
    r"onnx_symbolic::.*": "stand for a node of an exported graph and raise when they run",
    r"static_runtime::.*": "made by the static runtime's rewriting of a graph, which dispatches nothing",
}

# Where a kind has a formula of its own or says by name why it can't.
FAMILIES = {
    "dense": (
        "mm bmm addmm addmv addr baddbmm addbmm mv dot vdot linear bilinear matmul einsum tensordot "
        "convolution _convolution conv1d conv2d conv3d conv_transpose2d conv_tbc convolution_backward "
        "convolution_overrideable _slow_conv2d_forward _conv_depthwise2d mkldnn_convolution _int_mm "
        "_scaled_mm _grouped_mm _weight_int4pack_mm _weight_int8pack_mm chain_matmul linalg_multi_dot cdist"
    ),
    "attention": (
        "scaled_dot_product_attention _scaled_dot_product_flash_attention_for_cpu "
        "_scaled_dot_product_flash_attention_for_cpu_backward _scaled_dot_product_efficient_attention "
        "_scaled_dot_product_flash_attention _native_multi_head_attention _transformer_encoder_layer_fwd"
    ),
    "recurrent": "lstm gru rnn_tanh lstm_cell gru_cell mkldnn_rnn_layer mkldnn_rnn_layer_backward _cudnn_rnn",
    "normalisation": (
        "batch_norm native_batch_norm native_batch_norm_backward layer_norm native_layer_norm "
        "native_layer_norm_backward group_norm native_group_norm rms_norm instance_norm "
        "_weight_norm_interface"
    ),
    "pooling": (
        "max_pool2d max_pool2d_with_indices max_pool2d_with_indices_backward avg_pool2d avg_pool2d_backward "
        "adaptive_avg_pool2d _adaptive_avg_pool2d adaptive_max_pool2d fractional_max_pool2d max_unpool2d"
    ),
    "interpolation": (
        "upsample_nearest2d upsample_bilinear2d upsample_bilinear2d_backward upsample_bicubic2d "
        "upsample_trilinear3d grid_sampler_2d _upsample_bilinear2d_aa"
    ),
    "embedding": "embedding embedding_dense_backward _embedding_bag _embedding_bag_dense_backward",
    "reduction": "sum mean var std prod amax amin argmax logsumexp norm linalg_vector_norm all any cumsum",
    "element-wise": "add mul div relu gelu silu sigmoid tanh exp erf where clamp pow softmax dropout",
    "indexing": "index index_put gather scatter index_select index_add take masked_fill masked_select",
    "sorting": "sort topk argsort kthvalue median unique_dim searchsorted bucketize",
    "random": "rand randn bernoulli multinomial normal uniform randperm exponential poisson",
    "layout": "view reshape permute transpose contiguous cat stack split chunk expand as_strided pad",
    "sparse": "_sparse_mm _to_sparse sparse_mask _sparse_sum to_dense coalesce sparse_sampled_addmm",
    "quantised": "quantize_per_tensor dequantize fake_quantize_per_tensor_affine quantized_max_pool2d",
    "optimisers": "_foreach_add _foreach_addcdiv _foreach_norm _fused_adam _fused_adamw _fused_sgd",
    "linear algebra": "linalg_qr linalg_svd linalg_eigh linalg_cholesky_ex linalg_lu_factor_ex linalg_inv_ex",
}


def word_of(name: str) -> tuple[str, str] | None:
    """The kind and signature that serve a spelling, found as the core finds them."""
    for spelling in (name, name.removesuffix("_out"), name.removesuffix("_")):
        if spelling in WORDS:
            return WORDS[spelling]
    return None


def every_operator() -> list[str]:
    """Every operator that can be dispatched to, without overloads; of all libraries that torch loads."""
    importlib.import_module("torch.ao.quantization.fx._decomposed")  # registers quantized_decomposed::
    return sorted({name.split(".")[0] for name in torch._C._dispatch_get_all_op_names()})


def test_tables_were_read() -> None:
    assert len(WORDS) > 1800
    of_onnx = set(
        re.findall(r'^NAME\("[^"]+", \w+, (\w+)', (VOCAB / "names_onnx.def").read_text(), re.MULTILINE)
    )
    assert {signature for _, signature in WORDS.values()} | of_onnx == set(SIGNATURES)


def test_every_operator_has_a_word() -> None:
    excused = re.compile("|".join(f"(?:{name})" for name in EXCEPTIONS))
    # Registered by tests that ran before, the compiler's own among them: it lowers those to kernels.
    own = re.compile(
        r"^(lamina_test|fit_tests|corpus|transformers|cplib)\w*::"
        r"|prims::(inductor_\w+|_low_memory_max_pool\w+|_unsafe_index_put_|fma|prepare_softmax_online)"
    )
    missing = [
        name
        for name in every_operator()
        if word_of(name) is None and not excused.fullmatch(name) and not own.match(name)
    ]
    assert missing == []


def test_exceptions_exist() -> None:
    names = every_operator()
    optional = ("onnx_symbolic", "_inductor_test", "image")  # registered when that part is imported
    for pattern in EXCEPTIONS:
        assert pattern.startswith(optional) or any(re.fullmatch(pattern, name) for name in names), pattern


@pytest.mark.parametrize("family", FAMILIES)
def test_families(family: str) -> None:
    """In place and with the result given too, wherever torch has those spellings."""
    names = set(every_operator())
    for plain in FAMILIES[family].split():
        spellings = [s for s in (plain, f"{plain}_", f"{plain}_out") if f"aten::{s}" in names]
        assert spellings, plain
        for spelling in spellings:
            assert word_of(f"aten::{spelling}"), spelling


def test_backward_operators_have_a_word() -> None:
    names = [name for name in every_operator() if name.startswith("aten::") and "backward" in name]
    assert len(names) > 150
    assert [name for name in names if word_of(name) is None and "_test_" not in name] == []


TENSORS = re.compile("x2?|[qkvbh]|w2?|mask|grad|index|offsets|per_sample|mean|var|list")


def test_signatures_fit_the_schemas() -> None:
    """Where a signature says that a tensor is, some overload of the operator has one."""
    schemas: dict[str, list[list[str]]] = {}
    for schema in torch._C._jit_get_all_schemas():
        for spelling in (schema.name, schema.name.removesuffix("_out"), schema.name.removesuffix("_")):
            if spelling in WORDS:
                types = [str(argument.type) for argument in schema.arguments]
                schemas.setdefault(spelling, []).append(types)
                break
    assert len(schemas) > 1700
    wrong = []
    for spelling, overloads in schemas.items():
        for at, (role, _) in enumerate(SIGNATURES[WORDS[spelling][1]]):
            types = [overload[at] for overload in overloads if at < len(overload)]
            if TENSORS.fullmatch(role) and types and not any("Tensor" in kind for kind in types):
                wrong.append(f"{spelling} {role}")
    assert wrong == []


def test_torch_has_every_word() -> None:
    """What torch's own namespace doesn't know is a spelling of another torch or of TorchScript."""
    known = {schema.name for schema in torch._C._jit_get_all_schemas()} | set(every_operator())
    older = {"_no_grad_embedding_renorm_", "cholesky", "qr"}
    newer = {"_cudnn_attention_forward_no_dropout_inplace", "_philox_randint", "_scaled_addmm"}
    newer |= {"linalg_matrix_sqrth", "linalg_polar", "shallow_copy_data_"}
    words = {word for word in WORDS if word.startswith("aten::") and "_no_grad_" not in word}
    assert words - known - {f"aten::{name}" for name in older | newer} == set()
