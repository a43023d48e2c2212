# SPDX-License-Identifier: Apache-2.0
"""Weights that GPTQ and AWQ pack against the plain ones. The packed files are made here by the definition of
each format."""

import json
import struct

import pytest
import torch

import lamina

NAMES = {torch.float32: "F32", torch.float16: "F16", torch.int32: "I32"}
AWQ_ORDER = (0, 2, 4, 6, 1, 3, 5, 7)


def safetensors(path, tensors):
    header, data = {}, b""
    for name, tensor in tensors.items():
        values = tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
        place = [len(data), len(data) + len(values)]
        header[name] = {"dtype": NAMES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": place}
        data += values
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    return path


def rows_of_words(matrix, bits):
    """Numbers of 32 bits that hold the values of a row one after the other, the lowest bits first."""
    at = torch.arange(matrix.shape[1] * bits).reshape(-1, 32)
    numbers = sum((matrix[:, bit // bits] >> bit % bits & 1) << i for i, bit in enumerate(at.T))
    return numbers.to(torch.int32)


def interleaved(matrix):
    """Each eight columns in AWQ's order."""
    return matrix.reshape(len(matrix), -1, 8)[:, :, AWQ_ORDER].reshape(len(matrix), -1)


def drawn(inputs, outputs, groups, bits):
    """Numbers of [inputs, outputs], and the zero points and scales of [groups, outputs]."""
    torch.manual_seed(bits)
    numbers = torch.randint(0, 2**bits, (inputs, outputs))
    zeros = torch.randint(0, 2**bits, (groups, outputs))
    zeros[0, :2] = torch.tensor([0, 2**bits - 1])
    return numbers, zeros, (torch.rand(groups, outputs) + 0.5).to(torch.float16)


def folder_of(path, config, tensors):
    path.mkdir()
    (path / "config.json").write_text(json.dumps({"quantization_config": config}))
    safetensors(path / "model.safetensors", tensors)
    return path


def gptq(path, bits, group, *, index=None, checkpoint_format="gptq", inputs=96, outputs=64):
    """A packed weight as GPTQ writes it, and its values of [outputs, inputs]."""
    groups = inputs // group
    numbers, zeros, scales = drawn(inputs, outputs, groups, bits)
    stored = zeros if checkpoint_format == "gptq_v2" else (zeros - 1) % 2**bits
    tensors = {
        "up.qweight": rows_of_words(numbers.T, bits).T,
        "up.qzeros": rows_of_words(stored, bits),
        "up.scales": scales,
    }
    of = torch.arange(inputs) // group if index is None else index
    if index is not None:
        tensors["up.g_idx"] = index.to(torch.int32)
    config = {"quant_method": "gptq", "bits": bits, "checkpoint_format": checkpoint_format}
    values = ((numbers - zeros[of]) * scales.double()[of]).T
    return folder_of(path, config, tensors), values.contiguous()


def awq(path, inputs=48, outputs=64, groups=3):
    numbers, zeros, scales = drawn(inputs, outputs, groups, 4)
    tensors = {
        "up.qweight": rows_of_words(interleaved(numbers), 4),
        "up.qzeros": rows_of_words(interleaved(zeros), 4),
        "up.scales": scales,
    }
    of = torch.arange(inputs) // (inputs // groups)
    values = ((numbers - zeros[of]) * scales.double()[of]).T
    return folder_of(path, {"quant_method": "awq", "bits": 4}, tensors), values.contiguous()


def is_error_of(diff, values, plain):
    """The one difference has the numbers that torch computes."""
    (change,) = diff.tensors
    numbers, off = change.numbers, plain.double() - values
    assert numbers.norm == pytest.approx(off.norm().item(), rel=1e-8)
    assert numbers.relative == pytest.approx((off.norm() / values.norm()).item(), rel=1e-8)
    assert numbers.largest == pytest.approx(off.abs().max().item(), rel=1e-8)
    assert numbers.elements_differ == int((off != 0).sum())


def near(values):
    """Values that differ from the given ones at some places."""
    plain = values.float()
    assert torch.equal(plain.double(), values)
    plain[::7, ::5] += 0.125
    return plain


@pytest.mark.parametrize("bits", [2, 3, 4, 8])
@pytest.mark.parametrize("checkpoint_format", ["gptq", "gptq_v2"])
def test_values_of_gptq_are_numbers_less_zero_points_times_scales(tmp_path, bits, checkpoint_format):
    packed, values = gptq(tmp_path / "packed", bits, 32, checkpoint_format=checkpoint_format)
    plain = near(values)
    is_error_of(
        lamina.diff_weights(packed, safetensors(tmp_path / "plain", {"up.weight": plain})), values, plain
    )


def test_groups_may_have_their_inputs_in_any_order(tmp_path):
    index = torch.randperm(96, generator=torch.Generator().manual_seed(1)) % 3
    packed, values = gptq(tmp_path / "packed", 4, 32, index=index)
    plain = near(values)
    is_error_of(
        lamina.diff_weights(packed, safetensors(tmp_path / "plain", {"up.weight": plain})), values, plain
    )


def test_values_of_awq_are_in_its_order(tmp_path):
    packed, values = awq(tmp_path / "packed")
    plain = near(values)
    is_error_of(
        lamina.diff_weights(packed, safetensors(tmp_path / "plain", {"up.weight": plain})), values, plain
    )


def test_a_large_weight_is_read_in_strips(tmp_path):
    packed, values = awq(tmp_path / "packed", inputs=8192, outputs=1040, groups=2)
    plain = near(values)
    is_error_of(
        lamina.diff_weights(packed, safetensors(tmp_path / "plain", {"up.weight": plain})), values, plain
    )


def test_two_packed_weights_differ_by_their_values(tmp_path):
    a, values = gptq(tmp_path / "a", 4, 32)
    b, _ = gptq(tmp_path / "b", 4, 32)
    assert not lamina.diff_weights(a, b).tensors
    c, others = gptq(tmp_path / "c", 8, 32)
    weight = next(t for t in lamina.diff_weights(a, c).tensors if t.name == "up.qweight")
    assert weight.numbers.norm == pytest.approx((others - values).norm().item(), rel=1e-8)
    d, turned = awq(tmp_path / "d", inputs=96)
    weight = next(t for t in lamina.diff_weights(a, d).tensors if t.name == "up.qweight")
    assert weight.numbers.norm == pytest.approx((turned - values).norm().item(), rel=1e-8)


def test_a_group_without_scales_is_refused(tmp_path):
    index = torch.zeros(96, dtype=torch.int64)
    index[5] = 3
    packed, values = gptq(tmp_path / "packed", 4, 32, index=index % 3)
    whole = packed / "model.safetensors"
    damaged = whole.read_bytes()[: -96 * 4] + struct.pack("<96i", *index.tolist())
    whole.write_bytes(damaged)
    plain = safetensors(tmp_path / "plain", {"up.weight": values.float()})
    with pytest.raises(lamina.LaminaError, match="input 5 is of group 3, and there are 3"):
        lamina.diff_weights(packed, plain)
