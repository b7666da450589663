"""Calibration on a CUDA device: tensor cores, TF32, approximate intrinsics, atomics."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from cuassay.model.domain import Real
from cuassay.model.dtype import DType
from cuassay.model.problem import TensorSpec
from cuassay.oracle.compare.outputs import compare
from cuassay.oracle.truth.make import hit_counts, make_truth


@triton.jit
def _softmax_kernel(x, y, columns, WIDTH: tl.constexpr, APPROXIMATE: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, WIDTH)
    values = tl.load(x + row * columns + at, mask=at < columns, other=-float("inf"))
    values = values.to(tl.float32) * 1.4426950408889634
    values = values - tl.max(values, 0)
    if APPROXIMATE:
        e = tl.inline_asm_elementwise(
            "ex2.approx.ftz.f32 $0, $1;", "=f,f", [values], tl.float32, True, 1
        )
    else:
        e = tl.exp2(values)
    tl.store(y + row * columns + at, e / tl.sum(e, 0), mask=at < columns)


@triton.jit
def _gelu_kernel(x, y, count, WIDTH: tl.constexpr):
    at = tl.program_id(0) * WIDTH + tl.arange(0, WIDTH)
    v = tl.load(x + at, mask=at < count, other=0.0).to(tl.float32)
    inner = 0.7978845608028654 * (v + 0.044715 * v * v * v)
    t = tl.inline_asm_elementwise("tanh.approx.f32 $0, $1;", "=f,f", [inner], tl.float32, True, 1)
    tl.store(y + at, 0.5 * v * (1.0 + t), mask=at < count)


def softmax(x: Tensor, approximate: bool) -> Tensor:
    y = torch.empty_like(x)
    width = triton.next_power_of_2(x.shape[1])
    _softmax_kernel[(x.shape[0],)](x, y, x.shape[1], WIDTH=width, APPROXIMATE=approximate)
    return y


def gelu(x: Tensor) -> Tensor:
    y = torch.empty_like(x)
    _gelu_kernel[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), WIDTH=1024)
    return y


def _spec(dtype: torch.dtype) -> TensorSpec:
    name = DType(str(dtype).removeprefix("torch."))
    return TensorSpec(name="y", dtype=name, shape=("rows", "columns"), domain=Real())


def _row(name: str, honest: bool | None, dtype: torch.dtype, result: object) -> dict[str, object]:
    found = result
    worst = found.worst  # type: ignore[attr-defined]
    return {
        "variant": name,
        "honest": honest,
        "dtype": str(dtype),
        "passed": found.passed,  # type: ignore[attr-defined]
        "share": round(found.share, 4),  # type: ignore[attr-defined]
        "worst": f"{worst.name} {worst.group}" if worst else "",
    }


def gpu_study() -> list[dict[str, object]]:
    """Return one row per variant; `honest` None marks a question of policy."""
    rows: list[dict[str, object]] = []
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        for length in (512, 8192):
            rows += _products(dtype, length)
        rows += _pointwise(dtype)
        rows += _atomics(dtype)
    return rows


def _products(dtype: torch.dtype, length: int) -> list[dict[str, object]]:
    torch.manual_seed(length)
    a = torch.randn(1024, length, device="cuda").to(dtype)
    b = torch.randn(length, 768, device="cuda").to(dtype)
    truth = make_truth(torch.matmul, [a, b], [_spec(dtype)], seed=1).outputs[0]
    rows = [_row(f"matmul K={length}", True, dtype, compare(a @ b, truth))]
    halves = a[:, : length // 2].float() @ b[: length // 2].float()
    halves += a[:, length // 2 :].float() @ b[length // 2 :].float()
    rows.append(_row(f"split-K float32 K={length}", True, dtype, compare(halves.to(dtype), truth)))
    if dtype == torch.float32:
        torch.backends.cuda.matmul.allow_tf32 = True
        rows.append(_row(f"TF32 K={length}", False, dtype, compare(a @ b, truth)))
        torch.backends.cuda.matmul.allow_tf32 = False
        low = (a.half() @ b.half()).float()
        rows.append(_row(f"float16 tensor cores K={length}", False, dtype, compare(low, truth)))
    return rows


def _pointwise(dtype: torch.dtype) -> list[dict[str, object]]:
    torch.manual_seed(3)
    x = (torch.randn(2048, 1500, device="cuda") * 3).to(dtype)
    spec = [_spec(dtype)]
    soft = make_truth(lambda v: torch.softmax(v.float(), -1).to(v.dtype), [x], spec, seed=2)
    rows = [
        _row("softmax torch", True, dtype, compare(torch.softmax(x, -1), soft.outputs[0])),
        _row("softmax exp2", True, dtype, compare(softmax(x, False), soft.outputs[0])),
        _row("softmax ex2.approx", True, dtype, compare(softmax(x, True), soft.outputs[0])),
    ]

    def tanh_gelu(v: Tensor) -> Tensor:
        return torch.nn.functional.gelu(v.float(), approximate="tanh").to(v.dtype)

    truth = make_truth(tanh_gelu, [x], spec, seed=3).outputs[0]
    rows.append(_row("gelu torch", True, dtype, compare(tanh_gelu(x), truth)))
    policy = None if dtype != torch.float32 else False  # tanh.approx errs by 2**-11
    rows.append(_row("gelu tanh.approx", policy, dtype, compare(gelu(x), truth)))
    norm = make_truth(
        lambda v: torch.nn.functional.layer_norm(v.float(), (1500,)).to(v.dtype), [x], spec, seed=4
    )
    done = torch.nn.functional.layer_norm(x, (1500,))
    rows.append(_row("layer_norm torch", True, dtype, compare(done, norm.outputs[0])))
    return rows


def _atomics(dtype: torch.dtype) -> list[dict[str, object]]:
    torch.manual_seed(4)
    vocabulary, tokens = 8192, 32768
    chance = 1.0 / torch.arange(1, vocabulary + 1, device="cuda").double()
    index = torch.multinomial(chance, tokens, replacement=True)
    grad = torch.randn(tokens, 256, device="cuda").to(dtype)

    def reference(g: Tensor, i: Tensor) -> Tensor:
        out = torch.zeros(vocabulary, 256, device=g.device)
        return out.index_add_(0, i, g.float()).to(g.dtype)

    hits = {"y": hit_counts(index, vocabulary)}
    truth = make_truth(reference, [grad, index], [_spec(dtype)], seed=5, index_hits=hits)
    rows = [_row("float32 atomics", True, dtype, compare(reference(grad, index), truth.outputs[0]))]
    if dtype != torch.float32:
        low = torch.zeros(vocabulary, 256, dtype=dtype, device="cuda").index_add_(0, index, grad)
        rows.append(_row("16-bit atomics", False, dtype, compare(low, truth.outputs[0])))
    return rows
