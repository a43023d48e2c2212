# SPDX-License-Identifier: Apache-2.0
"""Packed weights against the plain ones. The packed files are made here by the definition of each format."""

import json
import struct
import zipfile

import pytest
import torch

import lamina

NAMES = {
    torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16",
    torch.int64: "I64", torch.int32: "I32", torch.uint32: "U32", torch.int8: "I8", torch.uint8: "U8",
    torch.float8_e4m3fn: "F8_E4M3", torch.float8_e8m0fnu: "F8_E8M0",
}  # fmt: skip
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


def folder_of(path, config, tensors, key="quantization_config"):
    path.mkdir()
    (path / "config.json").write_text(json.dumps({key: config}))
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


# -- numbers row by row ----------------------------------------------------------------------------------

FLOATS = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], dtype=torch.float64)


def words(matrix, bits):
    """Numbers of 32 bits that hold as many whole values of a row as there is room for."""
    each = 32 // bits
    padded = torch.nn.functional.pad(matrix, (0, -matrix.shape[1] % each)).reshape(len(matrix), -1, each)
    return (padded << torch.arange(each) * bits).sum(2).to(torch.int32)


def halves(numbers, first="low"):
    """Bytes of two 4-bit numbers."""
    a, b = numbers[..., ::2], numbers[..., 1::2]
    return (a | b << 4 if first == "low" else b | a << 4).to(torch.uint8)


def eights(*sizes):
    """Scales that are whole eighths, so that products with numbers of few bits are exact."""
    return torch.randint(1, 32, sizes) / 8


def exponents(*sizes):
    """Scales that are powers of two: as bytes, and as numbers."""
    stored = torch.randint(120, 132, sizes, dtype=torch.uint8)
    return stored, 2.0 ** (stored.double() - 127)


def e4m3(*sizes):
    """8-bit floats, also subnormal ones and 0."""
    return torch.randint(0, 0x7F, sizes, dtype=torch.uint8).view(torch.float8_e4m3fn)


def spread(scales, rows, columns, by=(1, 1)):
    """Each scale for a block of rows and columns, of which the last may be cut."""
    wide = scales.double().repeat_interleave(by[0], -2).repeat_interleave(by[1], -1)
    return wide[..., :rows, :columns]


def mlx(bits):
    numbers = torch.randint(0, 2**bits, (24, 96))
    scales, biases = eights(24, 3).to(torch.float16), (eights(24, 3) - 2).to(torch.bfloat16)
    weight = rows_of_words(numbers, bits).view(torch.uint32)
    values = numbers * spread(scales, 24, 96, (1, 32)) + spread(biases, 24, 96, (1, 32))
    config = {"group_size": 32, "bits": bits}
    return {"up.weight": weight, "up.scales": scales, "up.biases": biases}, values, config


def mlx_floats(mode):
    numbers = torch.randint(0, 16, (24, 96))
    if mode == "nvfp4":
        stored = e4m3(24, 6)
        scale = stored.double()
        stored, group = stored.view(torch.uint8), 16
    else:
        (stored, scale), group = exponents(24, 3), 32
    weight, values = halves(numbers), FLOATS[numbers]
    if mode == "mxfp8":
        floats = e4m3(24, 96)
        weight, values = floats.view(torch.uint8), floats.double()
    values = values * spread(scale, 24, 96, (1, group))
    config = {"group_size": group, "bits": 8 if mode == "mxfp8" else 4, "mode": mode}
    return {"up.weight": weight.view(torch.uint32), "up.scales": stored}, values, config


def compressed(bits, columns=96, group=32, zeros=None, index=None):
    numbers = torch.randint(0, 2**bits, (20, columns))
    groups = -(-columns // group)
    scales = eights(20, groups).to(torch.bfloat16)
    tensors = {"up.weight_packed": words(numbers, bits), "up.weight_scale": scales}
    tensors["up.weight_shape"] = torch.tensor([20, columns])
    of = torch.arange(columns) // group if index is None else index.clamp(min=0)
    if index is not None:
        tensors["up.weight_g_idx"] = index.to(torch.int32)
        of = torch.arange(columns) // group if -1 in index else of
    drawn = torch.randint(0, 2**bits, (20, groups))
    if zeros == "packed":
        tensors["up.weight_zero_point"] = words(drawn.T, bits).T
    elif zeros == "bytes":
        tensors["up.weight_zero_point"] = (drawn - 2 ** (bits - 1)).to(torch.int8)
    zero = drawn[:, of] if zeros else 2 ** (bits - 1)
    config = {"quant_method": "compressed-tensors", "bits": bits, "group_size": group}
    return tensors, (numbers - zero) * scales.double()[:, of], config


def nvfp4(kind):
    numbers, scales = torch.randint(0, 16, (20, 64)), e4m3(20, 4)
    values = FLOATS[numbers] * spread(scales, 20, 64, (1, 16))
    if kind == "compressed":
        tensors = {"up.weight_packed": halves(numbers), "up.weight_scale": scales}
        tensors["up.weight_global_scale"] = torch.tensor([8.0])
        return tensors, values / 8, {}
    tensors = {"up.weight": halves(numbers), "up.weight_scale": scales, "up.input_scale": torch.ones(())}
    tensors["up.weight_scale_2"] = torch.tensor(0.25)
    return tensors, values * 0.25, {}


def mxfp4(kind):
    numbers, (stored, scale) = torch.randint(0, 16, (20, 64)), exponents(20, 2)
    values = FLOATS[numbers] * spread(scale, 20, 64, (1, 32))
    if kind == "blocks":
        return (
            {"up.weight_blocks": halves(numbers).reshape(20, 2, 16), "up.weight_scales": stored},
            values,
            {},
        )
    if kind == "float8":
        stored = stored.view(torch.float8_e8m0fnu)
    end = {"compressed": "weight_packed"}.get(kind, "weight")
    return {f"up.{end}": halves(numbers), "up.weight_scale": stored}, values, {}


def fp8(scale, end, of):
    """8-bit floats with a scale of these sizes; each is of so many rows and columns."""
    floats = e4m3(200, 160)
    if end == "scale":
        stored, values = exponents(*scale)
        stored = stored.view(torch.float8_e8m0fnu)
    else:
        stored = values = eights(*scale)
    grid = values.reshape(-1, 1) if len(scale) < 2 else values
    spreads = floats.double() * spread(grid, 200, 160, of)
    return {"up.weight": floats, f"up.{end}": stored}, spreads, {"quant_method": "fp8"}


def int8(kind):
    numbers = torch.randint(-127, 128, (20, 64))
    if kind == "quanto":
        scales = eights(20, 1)
        tensors = {"up.weight._data": numbers.to(torch.int8), "up.weight._scale": scales}
        tensors |= {f"up.{name}_scale": torch.tensor(1.0) for name in ("input", "output")}
        return tensors, numbers * scales.double(), {}
    if kind == "bitsandbytes":
        rows = torch.randint(1, 9, (20,)) * 127 / 8
        tensors = {"up.weight": numbers.to(torch.int8), "up.SCB": rows}
        return tensors, numbers * (rows.double() / 127)[:, None], {}
    scales, zeros = eights(20, 1), torch.randint(-9, 9, (20, 1))
    tensors = {"up.weight": numbers.to(torch.int8), "up.weight_scale": scales}
    tensors["up.weight_zero_point"] = zeros.to(torch.int8)
    return tensors, (numbers - zeros) * scales.double(), {}


def bitsandbytes(kind, nested, sizes=(20, 72), block=64):
    numbers = torch.randint(0, 16, (sizes[0] * sizes[1],))
    table = torch.linspace(-1, 0.875, 16)
    blocks = -(-len(numbers) // block)
    state = {"quant_type": kind, "blocksize": block, "dtype": "float16", "shape": list(sizes)}
    tensors = {"up.weight": halves(numbers, "high").reshape(-1, 1), "up.weight.quant_map": table}
    if nested:
        places = torch.randint(0, 256, (blocks,))
        state |= {"nested_blocksize": 16, "nested_dtype": "float32", "nested_offset": 1.5}
        map_, scales = torch.linspace(-1, 1, 257)[:256], eights(-(-blocks // 16))
        tensors |= {"up.weight.absmax": places.to(torch.uint8), "up.weight.nested_quant_map": map_}
        tensors["up.weight.nested_absmax"] = scales
        absmax = map_.double()[places] * scales.double()[torch.arange(blocks) // 16] + 1.5
    else:
        absmax = eights(blocks)
        tensors["up.weight.absmax"], absmax = absmax, absmax.double()
    text = json.dumps(state).encode()
    name = f"up.weight.quant_state.bitsandbytes__{kind}"
    tensors[name] = torch.tensor(list(text), dtype=torch.uint8)
    values = table.double()[numbers] * absmax.repeat_interleave(block)[: len(numbers)]
    return tensors, values.reshape(sizes), {}


def hqq():
    meta = {"shape": torch.tensor([24, 64]), "nbits": torch.tensor(4), "group_size": torch.tensor(64)}
    tensors = {
        "W_q": torch.zeros(12, 64, dtype=torch.uint8),
        "scale": eights(24, 1),
        "zero": eights(24, 1),
        **meta,
    }
    return {f"up.{name}": tensor for name, tensor in tensors.items()}, None, {}


def shaped():
    tensors = {"up.weight_packed": torch.zeros(32, 9, dtype=torch.int32), "up.weight_scale": eights(32, 2)}
    return {**tensors, "up.weight_shape": torch.tensor([32, 65], dtype=torch.int32)}, None, {}


TOLD = {
    "nf4": (lambda: bitsandbytes("nf4", nested=True), 20 * 72),
    "hqq": (hqq, 24 * 64),
    "compressed": (shaped, 32 * 65),
}


@pytest.mark.parametrize("zipped", [True, False], ids=["zip", "legacy"])
@pytest.mark.parametrize("name", TOLD)
def test_a_checkpoint_tells_the_shapes_that_safetensors_tells(tmp_path, name, zipped):
    make, params = TOLD[name]
    tensors = make()[0]
    safetensors(tmp_path / "net.safetensors", tensors)
    whole = lamina.read(tmp_path / "net.safetensors")
    torch.save(tensors, tmp_path / "net.pt", _use_new_zipfile_serialization=zipped)
    report = lamina.read(tmp_path / "net.pt")
    assert report.params == whole.params == params
    assert report.parameters["param_bytes"] == whole.parameters["param_bytes"]
    # numbers that are not side by side, or of other types, tell nothing
    turned = {key: torch.stack([value, value], -1)[..., 0] for key, value in tensors.items()}
    torch.save(turned, tmp_path / "net.pt", _use_new_zipfile_serialization=zipped)
    assert lamina.read(tmp_path / "net.pt").params.state == "unknown"


@pytest.mark.parametrize("order, how", [(b"big", zipfile.ZIP_STORED), (b"little", zipfile.ZIP_DEFLATED)])
def test_shapes_in_another_byte_order_or_compressed_are_not_told(tmp_path, order, how):
    torch.save(hqq()[0], tmp_path / "net.pt")
    with zipfile.ZipFile(tmp_path / "net.pt") as old, zipfile.ZipFile(tmp_path / "new.pt", "w", how) as new:
        for name in old.namelist():
            new.writestr(name, order if name.endswith("/byteorder") else old.read(name))
    assert lamina.read(tmp_path / "net.pt").params.state == "exact"
    assert lamina.read(tmp_path / "new.pt").params.state == "unknown"


ROWS = {
    **{f"mlx-{bits}": lambda bits=bits: mlx(bits) for bits in (2, 3, 4, 5, 6, 8)},
    **{f"mlx-{mode}": lambda mode=mode: mlx_floats(mode) for mode in ("mxfp4", "nvfp4", "mxfp8")},
    **{f"compressed-{bits}": lambda bits=bits: compressed(bits) for bits in (2, 3, 4, 8)},
    "compressed, a channel": lambda: compressed(4, group=96),
    "compressed, padded rows": lambda: compressed(4, columns=91, group=13),
    "compressed, a group cut off": lambda: compressed(8, columns=80, group=32),
    "compressed, zero points packed": lambda: compressed(4, zeros="packed"),
    "compressed, zero points in bytes": lambda: compressed(8, zeros="bytes"),
    "compressed, groups in any order": lambda: compressed(4, index=torch.randperm(96) % 3),
    "compressed, an order that is not set": lambda: compressed(4, index=torch.full((96,), -1)),
    "nvfp4, compressed": lambda: nvfp4("compressed"),
    "nvfp4": lambda: nvfp4("two scales"),
    "mxfp4, compressed": lambda: mxfp4("compressed"),
    "mxfp4, float8": lambda: mxfp4("float8"),
    "mxfp4": lambda: mxfp4("bytes"),
    "mxfp4, blocks": lambda: mxfp4("blocks"),
    "fp8, one scale": lambda: fp8((), "weight_scale", (200, 160)),
    "fp8, a channel": lambda: fp8((200, 1), "weight_scale", (1, 160)),
    "fp8, a channel in one axis": lambda: fp8((200,), "weight_scale", (1, 160)),
    "fp8, blocks": lambda: fp8((2, 2), "weight_scale_inv", (128, 128)),
    "fp8, blocks of exponents": lambda: fp8((2, 2), "scale", (128, 128)),
    "fp8, small blocks": lambda: fp8((25, 20), "weight_scale_inv", (8, 8)),
    "int8": lambda: int8("compressed"),
    "int8, bitsandbytes": lambda: int8("bitsandbytes"),
    "int8, quanto": lambda: int8("quanto"),
    "nf4": lambda: bitsandbytes("nf4", nested=False),
    "fp4": lambda: bitsandbytes("fp4", nested=False),
    "nf4, scales in a table": lambda: bitsandbytes("nf4", nested=True),
}


def packed_folder(path, make):
    torch.manual_seed(3)
    tensors, values, config = make()
    return folder_of(
        path, config, tensors, "quantization" if "mlx" in path.name else "quantization_config"
    ), values


def exact(values):
    """The values in the smallest type that has them, some of which are then changed."""
    plain = values.double().clone()
    plain[..., ::7, ::5] += 0.125
    return plain


@pytest.mark.parametrize("kind", ROWS)
def test_values_that_lie_row_by_row_are_computed_from_their_scales(tmp_path, kind):
    packed, values = packed_folder(tmp_path / kind, ROWS[kind])
    plain = exact(values)
    is_error_of(
        lamina.diff_weights(packed, safetensors(tmp_path / "plain", {"up.weight": plain})), values, plain
    )


def test_experts_in_one_tensor_have_scales_of_their_own(tmp_path):
    torch.manual_seed(4)
    floats, scales = e4m3(3, 256, 40), eights(3, 2, 1)
    values = floats.double() * spread(scales, 256, 40, (128, 40))
    tensors = {"experts.up": floats, "experts.up_scale_inv": scales}
    for name, stored, grid in (("blocks", scales, scales), ("one each", eights(3), None)):
        if grid is None:
            values = floats.double() * stored.double()[:, None, None]
            tensors["experts.up_scale_inv"] = stored
        packed, plain = folder_of(tmp_path / name, {}, tensors), exact(values)
        other = safetensors(tmp_path / f"{name}.plain", {"experts.up": plain})
        is_error_of(lamina.diff_weights(packed, other), values, plain)


def test_experts_in_blocks_have_their_outputs_first(tmp_path):
    torch.manual_seed(7)
    for inputs in (96, 64):  # of the latter both orders have the same shape
        numbers, (stored, scale) = torch.randint(0, 16, (3, 64, inputs)), exponents(3, 64, inputs // 32)
        values = (FLOATS[numbers] * spread(scale, 64, inputs, (1, 32))).transpose(1, 2)
        tensors = {"up_blocks": halves(numbers).reshape(3, 64, -1, 16), "up_scales": stored}
        packed, plain = folder_of(tmp_path / f"{inputs}", {}, tensors), exact(values)
        other = safetensors(tmp_path / f"{inputs}.plain", {"up": plain})
        is_error_of(lamina.diff_weights(packed, other), values, plain)


def test_a_weight_of_many_pieces_is_computed_as_a_whole(tmp_path):
    torch.manual_seed(5)
    tensors, values, config = bitsandbytes("nf4", nested=True, sizes=(700, 901))
    packed, plain = folder_of(tmp_path / "packed", config, tensors), exact(values)
    is_error_of(
        lamina.diff_weights(packed, safetensors(tmp_path / "plain", {"up.weight": plain})), values, plain
    )


def test_two_ways_to_pack_the_same_values_differ_by_nothing(tmp_path):
    torch.manual_seed(6)
    numbers, stored = torch.randint(0, 16, (20, 64)), exponents(20, 2)[0]
    a = {"up.weight_packed": halves(numbers), "up.weight_scale": stored}
    b = {"up.weight_blocks": halves(numbers).reshape(20, 2, 16), "up.weight_scales": stored}
    diff = lamina.diff_weights(folder_of(tmp_path / "a", {}, a), safetensors(tmp_path / "b", b))
    assert [(t.change, t.name) for t in diff.tensors] == [("renamed", "up.weight_scales")]
    assert diff.total.equal == 1


UNKNOWN = {
    "another scale beside it": lambda t: t | {"up.weight_scale_2": torch.ones(())},
    "scales of another shape": lambda t: t | {"up.weight_scale": torch.ones(7, 3)},
    "scales of whole numbers": lambda t: t | {"up.weight_scale": torch.ones(200, 1, dtype=torch.int32)},
    "scales of columns alone": lambda t: t | {"up.weight_scale": torch.ones(160)},
}


@pytest.mark.parametrize("case", UNKNOWN)
def test_what_its_parts_do_not_tell_is_not_computed(tmp_path, case):
    tensors, values, config = fp8((200, 1), "weight_scale", (1, 160))
    packed = folder_of(tmp_path / "packed", config, UNKNOWN[case](tensors))
    diff = lamina.diff_weights(packed, safetensors(tmp_path / "plain", {"up.weight": values}))
    weight = next(t for t in diff.tensors if t.name == "up.weight")
    assert (weight.change, weight.numbers.norm) == ("not compared", None)
    assert weight.why == "its values are packed, and can't be computed from the tensors that hold them"
