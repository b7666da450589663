"""Triton's repaired interpreter gives torch's bits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from cuassay import build
from cuassay.model.device import CPU
from tests.support.builds import candidate, guard_process, problem

pytest.importorskip("triton")
pytest.importorskip("ml_dtypes")
pytestmark = pytest.mark.skipif(
    torch.cuda.is_available(),
    reason="the interpreter would take Triton over for the whole test process",
)

KERNELS = """
import torch, triton, triton.language as tl

@triton.jit
def _binary(x, y, out, n, OP: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    a = tl.load(x + i, mask=i < n)
    b = tl.load(y + i, mask=i < n)
    if OP == "+":
        c = a + b
    elif OP == "-":
        c = a - b
    elif OP == "*":
        c = a * b
    elif OP == "/":
        c = a / b
    elif OP == "where":
        c = tl.where(a > b, a, b)
    elif OP == "maximum":
        c = tl.maximum(a, b)
    elif OP == "fma":
        c = tl.fma(a, b, a)
    tl.store(out + i, c, mask=i < n)

@triton.jit
def _cast(x, out, n, ROUND: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    a = tl.load(x + i, mask=i < n)
    if ROUND == "rtz":
        tl.store(out + i, a.to(out.dtype.element_ty, fp_downcast_rounding="rtz"), mask=i < n)
    else:
        tl.store(out + i, a, mask=i < n)

@triton.jit
def _sum(x, out, B: tl.constexpr):
    row = tl.program_id(0)
    tl.store(out + row, tl.sum(tl.load(x + row * B + tl.arange(0, B)), axis=0))

@triton.jit
def _rmsnorm(x, w, y, H, eps, B: tl.constexpr):
    row = tl.program_id(0)
    c = tl.arange(0, B)
    v = tl.load(x + row * H + c, mask=c < H, other=0.0).to(tl.float32)
    r = tl.rsqrt(tl.sum(v * v, axis=0) / H + eps)
    tl.store(y + row * H + c, v * r * tl.load(w + c, mask=c < H).to(tl.float32), mask=c < H)

@triton.jit
def _scatter(ids, x, out, old, n, B: tl.constexpr):
    i = tl.arange(0, B)
    where = out + tl.load(ids + i, mask=i < n, other=0)
    tl.store(old + i, tl.atomic_add(where, tl.load(x + i, mask=i < n), mask=i < n), mask=i < n)

@triton.jit
def _dot(a, b, c, B: tl.constexpr, PRECISION: tl.constexpr):
    i = tl.arange(0, B)
    at = i[:, None] * B + i[None, :]
    tl.store(c + at, tl.dot(tl.load(a + at), tl.load(b + at), input_precision=PRECISION))

@triton.jit
def _kept(mask, x, out, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(out + i, tl.where(tl.load(mask + i), tl.load(x + i), 0.0))

@triton.jit
def _cumsum(x, out, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(out + i, tl.cumsum(tl.load(x + i), 0) + tl.full((B,), 1.0, tl.bfloat16))

@triton.autotune(configs=[triton.Config({"B": 32}), triton.Config({"B": 64})], key=["n"])
@triton.jit
def _tuned(x, out, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(out + i, tl.extra.cuda.libdevice.tanh(tl.load(x + i, mask=i < n)), mask=i < n)

@triton.jit
def _inline(x, B: tl.constexpr):
    i = tl.arange(0, B)
    y = tl.inline_asm_elementwise(
        "mov.b32 $0, $1;", "=r,r", [tl.load(x + i)], dtype=tl.int32, is_pure=True, pack=1)
    tl.store(x + i, y)

def run(what, *tensors, **meta):
    if what == "target":
        active = triton.runtime.driver.active
        size = active.utils.get_device_properties(0)["multiprocessor_count"]
        return active.get_current_target().arch, active.get_active_torch_device().type, size > 0
    n = tensors[0].numel()
    if what in ("binary", "cast"):
        globals()["_" + what][(triton.cdiv(n, 4096),)](*tensors, n, B=4096, **meta)
    elif what == "sum":
        x, out = tensors
        _sum[(x.shape[0],)](x, out, B=x.shape[1])
    elif what == "rmsnorm":
        x, w, y = tensors
        _rmsnorm[(x.shape[0],)](x, w, y, x.shape[1], 1e-6, B=triton.next_power_of_2(x.shape[1]))
    elif what == "scatter":
        _scatter[(1,)](*tensors, n, B=triton.next_power_of_2(n))
    elif what == "tuned":
        _tuned[lambda meta: (triton.cdiv(n, meta["B"]),)](*tensors, n)
    elif what == "dot":
        _dot[(1,)](*tensors, B=tensors[0].shape[0], **meta)
    else:
        globals()["_" + what][(1,)](*tensors, B=n)
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Any]]:
    with pytest.MonkeyPatch.context() as monkeypatch:
        guard_process(monkeypatch)
        folder = tmp_path_factory.mktemp("build")
        yield build.load(candidate(KERNELS), problem(), device=CPU, folder=folder).call


def floats(dtype: torch.dtype, count: int = 16384, *, seed: int = 0) -> torch.Tensor:
    """Random bit patterns: subnormals, infinities and NaN among them, and plain numbers."""
    generator = torch.Generator().manual_seed(seed)
    integer, limit = {
        torch.bfloat16: (torch.int16, 2**15),
        torch.float16: (torch.int16, 2**15),
        torch.float32: (torch.int32, 2**31),
    }[dtype]
    half = count // 2
    bits = torch.randint(-limit, limit, (half,), dtype=integer, generator=generator).view(dtype)
    plain = torch.randn(count - half, generator=generator).to(dtype)
    return torch.stack([bits, plain], dim=1).reshape(-1)


def same_bits(got: torch.Tensor, expected: torch.Tensor) -> bool:
    """Equal bits, any NaN equal to any other."""
    integer = {1: torch.int8, 2: torch.int16, 4: torch.int32}[got.element_size()]
    nan = got.float().isnan() & expected.float().isnan()
    return bool((nan | (got.view(integer) == expected.view(integer))).all())


TYPES = [torch.bfloat16, torch.float16, torch.float32]


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("operation", ["+", "-", "*", "/", "where"])
def test_arithmetic_has_torch_bits(
    run: Callable[..., Any], dtype: torch.dtype, operation: str
) -> None:
    x, y = floats(dtype, seed=1), floats(dtype, seed=2)
    out = torch.empty_like(x)
    run("binary", x, y, out, OP=operation)
    expected = {
        "+": lambda: x + y,
        "-": lambda: x - y,
        "*": lambda: x * y,
        "/": lambda: x / y,
        "where": lambda: torch.where(x > y, x, y),
    }[operation]()
    assert same_bits(out, expected)


def test_bool_tensors_are_read(run: Callable[..., Any]) -> None:
    x = torch.randn(64, generator=torch.Generator().manual_seed(1))
    mask, out = x > 0.0, torch.empty_like(x)
    run("kept", mask, x, out)
    assert torch.equal(out, x.relu())


@pytest.mark.parametrize("source", TYPES, ids=str)
@pytest.mark.parametrize("target", TYPES, ids=str)
def test_conversion_has_torch_bits(
    run: Callable[..., Any], source: torch.dtype, target: torch.dtype
) -> None:
    x = floats(source, seed=3)
    bits = [0x3F808000, 0x3F818000, 0x3F800001, 0x00018000, 0x7F7FFFFF, 0x33000000, 0x387FE000]
    ties = torch.tensor(bits, dtype=torch.int32).view(torch.float32)
    x = torch.cat([x, ties.to(source)])
    out = torch.empty(x.shape, dtype=target)
    run("cast", x, out, ROUND="")
    assert same_bits(out, x.to(target))


def test_conversion_toward_zero(run: Callable[..., Any]) -> None:
    x = torch.tensor([1.0 + 2**-8, -1.0 - 2**-8 - 2**-20, 3.3e38 * 1.02, 1.0])
    out = torch.empty(4, dtype=torch.bfloat16)
    run("cast", x, out, ROUND="rtz")
    assert out.tolist() == [
        1.0,
        -1.0,
        x[2].view(torch.int32).bitwise_and(-65536).view(torch.float32).item(),
        1.0,
    ]


@pytest.mark.parametrize(
    ("target", "maximum"), [(torch.float8_e4m3fn, 448.0), (torch.float8_e5m2, 57344.0)], ids=str
)
def test_eight_bit_floats_round_as_torch_and_saturate_as_the_device(
    run: Callable[..., Any], target: torch.dtype, maximum: float
) -> None:
    x = floats(torch.float32, seed=4).nan_to_num(0.0, 0.0, 0.0)
    x = torch.cat([x.fmod(maximum), torch.randn(4096) * 1e-3, torch.arange(-64, 64) * 2.0**-11])
    out = torch.empty(x.shape, dtype=target)
    run("cast", x, out, ROUND="")
    assert same_bits(out, x.to(target))
    large = torch.tensor([maximum * 1.04, 1e9, float("inf"), -1e9, float("nan")])
    out = torch.empty(5, dtype=target)
    run("cast", large, out, ROUND="")
    assert out.float()[:4].tolist() == [maximum, maximum, maximum, -maximum]
    assert out.float()[4].isnan()
    back = torch.empty(5, dtype=torch.float32)
    run("cast", out, back, ROUND="")
    assert same_bits(back, out.float())


def test_float_to_integer_saturates(run: Callable[..., Any]) -> None:
    x = torch.tensor([1e10, -1e10, float("nan"), -2.7, 2147483520.0])
    out = torch.empty(5, dtype=torch.int32)
    run("cast", x, out, ROUND="")
    assert out.tolist() == [2**31 - 1, -(2**31), 0, -2, 2147483520]


def halving(x: torch.Tensor) -> torch.Tensor:
    """Sum the last axis in the interpreter's documented order, rounding in x's type."""
    while x.shape[-1] > 1:
        half = x.shape[-1] // 2
        x = x[..., :half] + x[..., half:]
    return x[..., 0]


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_sum_has_the_bits_of_the_halving_tree(run: Callable[..., Any], dtype: torch.dtype) -> None:
    x = torch.randn(4, 512, generator=torch.Generator().manual_seed(5)).to(dtype)
    out = torch.empty(4, dtype=dtype)
    run("sum", x, out)
    assert same_bits(out, halving(x))


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_rmsnorm_has_torch_bits(run: Callable[..., Any], dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(6)
    x = torch.randn(8, 192, generator=generator).to(dtype)
    w = torch.randn(192, generator=generator).to(dtype)
    y = torch.empty_like(x)
    run("rmsnorm", x, w, y)
    wide = torch.zeros(8, 256)
    wide[:, :192] = x.float()
    scale = 1.0 / torch.sqrt(halving(wide * wide) / 192 + 1e-6)
    expected = (x.float() * scale[:, None] * w.float()).to(dtype)
    if dtype is torch.float32:  # a root and two products: processors differ
        torch.testing.assert_close(y, expected, rtol=2.0**-21, atol=0.0)
    else:
        assert same_bits(y, expected)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_atomic_add_rounds_every_step(run: Callable[..., Any], dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(7)
    ids = torch.randint(0, 5, (300,), generator=generator)
    x = torch.rand(300, generator=generator).to(dtype)
    out, old = torch.zeros(8, dtype=dtype), torch.empty(300, dtype=dtype)
    run("scatter", ids, x, out, old)
    expected, before = torch.zeros(8, dtype=dtype), torch.empty(300, dtype=dtype)
    for index, target in enumerate(ids.tolist()):
        before[index] = expected[target]
        expected[target] += x[index]
    assert same_bits(out, expected)
    assert same_bits(old, before)


@pytest.mark.parametrize(
    ("dtype", "error"),
    [(torch.bfloat16, 1e-6), (torch.float16, 1e-6), (torch.float8_e4m3fn, 1e-6)],
    ids=str,
)
def test_dot_sums_in_float32(run: Callable[..., Any], dtype: torch.dtype, error: float) -> None:
    a, b = torch.randn(32, 32).to(dtype), torch.randn(32, 32).to(dtype)
    c = torch.empty(32, 32)
    run("dot", a, b, c, PRECISION="ieee")
    exact = a.double() @ b.double()
    assert (c - exact).abs().max() <= error * (a.double().abs() @ b.double().abs()).max()


def test_dot_reads_float32_as_the_tensor_cores_do(run: Callable[..., Any]) -> None:
    a, b = torch.randn(32, 32), torch.randn(32, 32)
    ieee, tf32 = torch.empty(32, 32), torch.empty(32, 32)
    run("dot", a, b, ieee, PRECISION="ieee")
    run("dot", a, b, tf32, PRECISION="tf32")
    exact = a.double() @ b.double()
    assert (ieee - exact).norm() < 1e-6 * exact.norm()
    assert 1e-5 * exact.norm() < (tf32 - exact).norm() < 2e-3 * exact.norm()


def test_maximum_prefers_numbers_to_nan(run: Callable[..., Any]) -> None:
    x, y = torch.tensor([float("nan"), 1.0, 2.0]), torch.tensor([3.0, float("nan"), -1.0])
    out = torch.empty(3)
    run("binary", x, y, out, OP="maximum")
    assert out.tolist() == [3.0, 1.0, 2.0]


def test_fma_rounds_once(run: Callable[..., Any]) -> None:
    x = torch.randn(4096, generator=torch.Generator().manual_seed(8))
    y = torch.randn(4096, generator=torch.Generator().manual_seed(9)) - 1.0
    out = torch.empty(4096)
    run("binary", x, y, out, OP="fma")
    assert same_bits(out, (x.double() * y.double() + x.double()).float())


def test_scan_and_constants_in_bfloat16(run: Callable[..., Any]) -> None:
    x, out = torch.ones(16, dtype=torch.bfloat16), torch.empty(16, dtype=torch.bfloat16)
    run("cumsum", x, out)
    assert out.tolist() == [float(n) for n in range(2, 18)]


def test_autotune_and_libdevice_run(run: Callable[..., Any]) -> None:
    x, out = torch.linspace(-3, 3, 100), torch.empty(100)
    run("tuned", x, out)
    torch.testing.assert_close(out, x.tanh())


def test_inline_assembly_is_a_missing_gpu_not_a_fault(run: Callable[..., Any]) -> None:
    from cuassay.errors import MissingToolError

    with pytest.raises(MissingToolError, match="NVIDIA GPU"):
        run("inline", torch.zeros(16, dtype=torch.int32))


def test_questions_to_tritons_driver_have_answers(run: Callable[..., Any]) -> None:
    assert run("target") == (90, "cuda", True)
