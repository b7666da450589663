"""What a lifted reference sees, what hooks are told, and what is left untouched."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor

from cuassay.hooks import Observed, Operation, PassThrough
from cuassay.oracle.lift.run import lift, nominal_of, run_as_written

BF16 = torch.bfloat16
X = torch.tensor([[0.3, -1.7, 2.9, 0.001], [5.0, -0.2, 0.7, 1.1]]).to(BF16)


class Watch:
    """Notes every operation with its nominal dtype; may replace one."""

    def __init__(self, replaced: str = "", by: Any = None) -> None:
        self.replaced, self.by = replaced, by
        self.seen: list[tuple[str, torch.dtype | None]] = []
        self.arguments: list[torch.dtype | None] = []

    def replace(self, operation: Operation) -> object:
        replaced = self.replaced and self.replaced in str(operation.op)
        return self.by(*operation.args) if replaced else NotImplemented

    def after(self, operation: Operation, out: Any) -> object:
        self.seen.append((str(operation.op).removeprefix("aten."), operation.nominal))
        self.arguments += [nominal_of(a) for a in operation.args if isinstance(a, Tensor)]
        for tensor in [out] if isinstance(out, Tensor) else out:
            assert type(tensor) is Tensor
        return out


def test_hooks_are_told_in_order_with_nominal_dtypes() -> None:
    def reference(x: Tensor) -> Tensor:
        h = x.float().pow(2).mean(-1, keepdim=True)
        return (x * torch.rsqrt(h + 1e-6)).to(x.dtype).add_(1.0)

    watch = Watch()
    lift(reference, [X], hook=watch)
    assert watch.seen == [
        ("_to_copy.default", torch.float32),
        ("pow.Tensor_Scalar", torch.float32),
        ("mean.dim", torch.float32),
        ("add.Tensor", torch.float32),
        ("rsqrt.default", torch.float32),
        ("mul.Tensor", torch.float32),
        ("_to_copy.default", BF16),
        ("add.Tensor", BF16),
    ]
    assert watch.arguments[0] is BF16


@pytest.mark.parametrize(
    ("call", "op"),
    [
        (lambda x: F.softmax(x, -1), "_softmax"),
        (lambda x: F.log_softmax(x, -1), "_log_softmax"),
        (F.gelu, "gelu"),
        (F.silu, "silu"),
        (lambda x: F.layer_norm(x, (4,)), "native_layer_norm"),
        (lambda x: F.conv1d(x[None], x[:, :, None].mT[:, :2, :1].repeat(1, 2, 1)[:, :2]), "convol"),
    ],
)
def test_composites_reach_the_hook_whole_and_can_be_replaced(call: Any, op: str) -> None:
    watch = Watch(op, lambda x, *rest: torch.full_like(x, 7.0))
    if "norm" in op:
        watch.by = lambda x, *rest: (torch.full_like(x, 7.0), x[:, :1], x[:, :1])
    (out,) = lift(call, [X], hook=watch)
    assert torch.equal(out, torch.full_like(out, 7.0))
    assert [name for name, _ in watch.seen if op in name]


def test_a_hooks_result_is_written_in_place() -> None:
    class Ten(Watch):
        def after(self, operation: Operation, out: Any) -> object:
            return out * 10 if "add" in str(operation.op) else out

    (out,) = lift(lambda x: x.add_(1.0), [X], hook=Ten())
    torch.testing.assert_close(out, (X.double() + 1) * 10, rtol=0, atol=0)


def test_a_hooks_own_exception_passes_through() -> None:
    class Broken(Watch):
        def replace(self, operation: Operation) -> object:
            raise KeyError("mine")

    def guarded(x: Tensor) -> Tensor:
        try:
            return x + 1
        except Exception:
            return x

    with pytest.raises(KeyError, match="mine"):
        lift(guarded, [X], hook=Broken())


def test_results_of_several_tensors_carry_their_own_nominal_dtype() -> None:
    class Norm(Watch):
        found: tuple[Any, ...] = ()

        def after(self, operation: Operation, out: Any) -> object:
            if "layer_norm" in str(operation.op):
                self.found = tuple(nominal_of(item) for item in out)
            return out

    hook = Norm()
    lift(lambda x: F.layer_norm(x, (4,), torch.ones(4, dtype=BF16)), [X], hook=hook)
    meta = torch.ops.aten.native_layer_norm(X.to("meta"), [4], None, None, 1e-5)
    assert hook.found == tuple(item.dtype for item in meta)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (lambda x: x + torch.ones(4), torch.float32),
        (lambda x: x + torch.tensor(1.0), BF16),
        (lambda x: x * 2.5, BF16),
        (lambda x: x + x.half(), torch.float32),
        (lambda x: x.double() * x, torch.float64),
        (lambda x: torch.arange(4) * 0.5, torch.float32),
        (lambda x: torch.arange(4) / 3, torch.float32),
        (lambda x: x.sum(dtype=torch.float32), torch.float32),
        (lambda x: x > 0, torch.bool),
        (lambda x: x.argmax(-1), torch.int64),
        (lambda x: x[x > 0], BF16),
        (lambda x: torch.view_as_complex(x.float().view(2, 2, 2)), torch.complex64),
        (lambda x: x.to(torch.float8_e4m3fn), torch.float8_e4m3fn),
        (lambda x: F.softmax(x, -1, dtype=torch.float32), torch.float32),
        (lambda x: torch.where(x > 0, x, 0.1), BF16),
        (lambda x: torch.where(x > 0, 1.0, 0.1), torch.float32),
        (lambda x: torch.as_tensor(x, dtype=torch.float16), torch.float16),
        (lambda x: torch.tensor([x[0, 0], x[0, 1]]), BF16),
        (lambda x: torch.Tensor([0.5, 0.25]) + x[0, 0], torch.float32),
        (lambda x: x.new_zeros(2), BF16),
        (lambda x: torch.complex(x.float(), x.float()).abs(), torch.float32),
    ],
)
def test_nominal_follows_promotion(expression: Any, expected: torch.dtype) -> None:
    (out,) = lift(lambda x: _dtype_seen(expression(x), expected), [X])
    assert nominal_of(out) is expected
    assert run_as_written(expression, [X])[0].dtype is expected


def _dtype_seen(out: Tensor, expected: torch.dtype) -> Tensor:
    assert out.dtype is expected
    return out


def test_literals_are_exact() -> None:
    def reference(x: Tensor) -> Tensor:
        y = x * 0 + torch.tensor(0.1, dtype=x.dtype) + torch.full((4,), 0.2, dtype=x.dtype)
        y[0, 0] = 0.7
        y[1] = torch.as_tensor(1 / 3)
        return y

    (out,) = lift(reference, [X])
    assert out[0, 0].item() == 0.7
    assert out[0, 1].item() == 0.1 + 0.2
    assert out[1, 1].item() == 1 / 3


def test_casts_do_not_round_but_quantisation_does() -> None:
    exact = torch.tensor([1.0 + 2.0**-12], dtype=torch.float64)
    (out,) = lift(lambda x: x.float().bfloat16().half().float(), [exact])
    assert out.item() == exact.item()
    (whole,) = lift(lambda x: x.to(torch.int32), [exact * 3.9])
    assert whole.dtype is torch.int32
    assert whole.item() == 3
    (eight,) = lift(lambda x: x.to(torch.float8_e4m3fn).float(), [exact * 1.07])
    assert eight.item() == 1.125


def test_finfo_and_element_size_are_those_as_written() -> None:
    def reference(x: Tensor) -> tuple[float, int, str]:
        assert isinstance(x, Tensor)
        assert x.is_floating_point()
        assert x.type() == "torch.BFloat16Tensor"
        return torch.finfo(x.dtype).min, x.element_size(), 0 if repr(x) else 1  # type: ignore[return-value]

    low, size, _ = lift(reference, [X])
    assert low.item() == torch.finfo(BF16).min
    assert size.item() == 2


def test_inputs_are_never_written_and_keep_sharing_memory() -> None:
    base = torch.arange(12.0).reshape(3, 4)
    kept, ids = base.clone(), torch.tensor([0, 1])

    def reference(whole: Tensor, row: Tensor, wide: Tensor, ids: Tensor) -> tuple[Tensor, ...]:
        whole.mul_(2)
        ids.add_(1)
        assert wide.stride() == (0, 1)
        return row, whole.T, wide.contiguous(), ids

    inputs = [base, base[1], base[2].expand(2, 4), ids]
    for run in (lift, run_as_written):
        row, turned, wide, moved = run(reference, inputs)
        assert torch.equal(row.double(), kept[1].double() * 2)
        assert torch.equal(turned.double(), kept.T.double() * 2)
        assert torch.equal(wide[0].double(), kept[2].double() * 2)
        assert torch.equal(moved, torch.tensor([1, 2]))
    assert torch.equal(base, kept)
    assert torch.equal(ids, torch.tensor([0, 1]))


def test_tensors_from_outside_are_lifted_and_not_written() -> None:
    table, layer = torch.tensor([0.1, 0.2, 0.3, 0.4]), nn.Linear(4, 2)
    before = table.clone()

    def reference(x: Tensor) -> Tensor:
        table.add_(1.0)
        table[0] = 5.0
        return layer(x.float() * table)  # type: ignore[no-any-return]

    (out,) = lift(reference, [X])
    scaled = X.double() * torch.cat([torch.tensor([5.0]), before[1:] + 1]).double()
    exact = before.double() + 1
    exact[0] = 5.0
    want = X.double() * exact @ layer.weight.double().T + layer.bias.double()
    torch.testing.assert_close(out, want.detach(), rtol=1e-12, atol=1e-12)
    assert torch.allclose(scaled, X.double() * exact, rtol=1e-6)
    assert torch.equal(table, before)
    assert layer.weight.grad is None


def test_random_draws_are_those_as_written() -> None:
    def reference(x: Tensor) -> tuple[Tensor, ...]:
        torch.manual_seed(5)
        noise = torch.randn_like(x)
        return noise, torch.rand(3), F.dropout(x.float(), 0.5), torch.empty(4).normal_()

    for exact, plain in zip(lift(reference, [X]), run_as_written(reference, [X]), strict=True):
        torch.testing.assert_close(exact, plain.double(), rtol=1e-6, atol=0)


def test_resizing_follows() -> None:
    def reference(x: Tensor) -> tuple[Tensor, Tensor]:
        made = torch.add(x, 1, out=torch.empty(0, dtype=x.dtype))
        assert made.shape == x.shape
        return made * 2, x.clone().resize_(2, 2)

    made, cut = lift(reference, [X])
    assert torch.equal(made, (X.double() + 1) * 2)
    assert torch.equal(cut, X.double().flatten()[:4].view(2, 2))


def test_printing_shows_the_lifted_value() -> None:
    def reference(x: Tensor) -> Tensor:
        assert f"{x.float().sum() / 3:.6f}" == f"{X.double().sum().item() / 3:.6f}"
        assert "float64" in repr(x)
        assert x.float().tolist() == X.double().tolist()
        return x

    lift(reference, [X])


def test_outputs_of_any_structure() -> None:
    a, b, c, d = lift(
        lambda x: {"b": (x, 3), "a": [True, x.float().sum().item()]}, [X], names=["a", "b"]
    )
    assert [t.dtype for t in (a, b, c, d)] == [torch.bool, *[torch.float64] * 2, torch.int64]
    assert c.shape == X.shape
    assert d.item() == 3


def test_autocast_casts_nominally_only() -> None:
    def reference(x: Tensor) -> tuple[Tensor, Tensor]:
        with torch.autocast("cpu", dtype=BF16):
            y = x.float() @ x.float().T
            assert y.dtype is BF16
            return y, torch.softmax(y, -1)

    for to in (torch.float64, torch.float32):
        product, _ = lift(reference, [X], to=to)
        assert nominal_of(product) is BF16
        want = X.double() @ X.double().T
        torch.testing.assert_close(product.double(), want, rtol=1e-6, atol=1e-6)


def test_float32_lift_keeps_float64_where_the_reference_asks_for_it() -> None:
    third = torch.tensor([1.0], dtype=torch.float32)
    (out,) = lift(lambda x: (x.double() / 3 - 1 / 3).abs(), [third], to=torch.float32)
    assert out.dtype is torch.float32
    assert out.item() < 1e-15


def test_runs_under_the_callers_inference_mode() -> None:
    def gradient(x: Tensor) -> Any:
        x = x.detach().requires_grad_()
        return torch.autograd.grad((x * x).sum(), x)

    with torch.inference_mode():
        (out,) = lift(gradient, [X])
    assert torch.equal(out, X.double() * 2)


def test_transforms_and_modules() -> None:
    def reference(x: Tensor) -> tuple[Tensor, ...]:
        rows = torch.vmap(lambda row: (row.float() ** 2).sum())(x)
        slope = torch.func.grad(lambda t: t.float().sin().sum())(x)
        return rows, slope

    rows, slope = lift(reference, [X])
    torch.testing.assert_close(rows, X.double().square().sum(-1), rtol=1e-12, atol=0)
    torch.testing.assert_close(slope, X.double().cos(), rtol=1e-12, atol=0)


def test_attention_module_and_user_chosen_kernels() -> None:
    from torch.nn.attention import SDPBackend, sdpa_kernel

    def reference(x: Tensor) -> tuple[Tensor, ...]:
        torch.manual_seed(0)
        module = nn.MultiheadAttention(4, 2, batch_first=True)
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
            q = x[None, None]
            fused = F.scaled_dot_product_attention(q, q, q)
        return module(*[x.float()[None]] * 3)[0], fused

    for exact, plain in zip(lift(reference, [X]), run_as_written(reference, [X]), strict=True):
        torch.testing.assert_close(exact, plain.double(), rtol=2e-2, atol=2e-2)


def test_fused_optimizer_step() -> None:
    def reference(w: Tensor, g: Tensor) -> Tensor:
        p = nn.Parameter(w.float())
        optimizer = torch.optim.AdamW([p], lr=0.1, weight_decay=0.0, fused=True)
        p.grad = g.float()
        optimizer.step()
        return p.detach()

    (out,) = lift(reference, [X, X * 2])
    step = 0.1 * X.double() * 2 / ((X.double() * 2).abs() + 1e-8)
    torch.testing.assert_close(out, X.double() - step, rtol=1e-9, atol=1e-9)


def test_grouped_and_scaled_products() -> None:
    a, b = torch.randn(6, 16), torch.randn(2, 16, 16)

    def grouped(a: Tensor, b: Tensor, ends: Tensor) -> Tensor:
        return torch._grouped_mm(a, b, offs=ends)

    (out,) = lift(grouped, [a.to(BF16), b.to(BF16), torch.tensor([2, 6], dtype=torch.int32)])
    low, high = a.to(BF16).double(), b.to(BF16).double()
    torch.testing.assert_close(out, torch.cat([low[:2] @ high[0], low[2:] @ high[1]]))

    def scaled(a: Tensor, b: Tensor, s: Tensor) -> Tensor:
        return torch._scaled_mm(a, b.T, s, s, out_dtype=BF16)

    eight = a.to(torch.float8_e4m3fn), b[0].to(torch.float8_e4m3fn), torch.tensor(0.5)
    (out,) = lift(scaled, eight)
    torch.testing.assert_close(out, eight[0].double() @ eight[1].double().T * 0.25)
    assert nominal_of(out) is BF16


def _blocked(scales: torch.Tensor) -> torch.Tensor:
    """Return scales of whole tiles, (rows, columns), as tensor cores want them."""
    rows, columns = scales.shape
    stored = torch.empty(scales.numel(), dtype=scales.dtype)
    for row in range(rows):
        for column in range(columns):
            tile = row // 128 * (columns // 4) + column // 4
            place = row % 32 * 16 + row % 128 // 32 * 4 + column % 4
            stored[512 * tile + place] = scales[row, column]
    return stored


@pytest.mark.parametrize("form", ["nvfp4", "mxfp4", "mxfp8"])
def test_products_with_a_scale_for_every_block(form: str) -> None:
    m, n, k, block = 128, 256, 256, 16 if form == "nvfp4" else 32
    codes = [torch.randint(0, 256, (rows, k // 2), dtype=torch.uint8) for rows in (m, n)]
    magnitudes = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6], dtype=torch.float64)
    if form == "mxfp8":
        stored = [torch.randn(rows, k).to(torch.float8_e4m3fn) for rows in (m, n)]
        values = [one.double() for one in stored]
    else:
        stored = [one.view(torch.float4_e2m1fn_x2) for one in codes]
        table = torch.cat((magnitudes, -magnitudes))
        values = [
            torch.stack((table[c.int() & 15], table[c.int() >> 4]), -1).flatten(1) for c in codes
        ]
    if form == "nvfp4":
        scales = [(torch.rand(rows, k // block) + 0.1).to(torch.float8_e4m3fn) for rows in (m, n)]
    else:
        drawn = [torch.randint(120, 134, (rows, k // block)) for rows in (m, n)]
        scales = [one.to(torch.uint8).view(torch.float8_e8m0fnu) for one in drawn]

    def reference(a: Tensor, b: Tensor, scale_a: Tensor, scale_b: Tensor) -> Tensor:
        return torch._scaled_mm(a, b.t(), scale_a, scale_b, out_dtype=BF16)

    given = [*stored, *map(_blocked, scales)]
    wide = [v * s.double().repeat_interleave(block, 1) for v, s in zip(values, scales, strict=True)]
    truth = wide[0] @ wide[1].T
    (out,) = lift(reference, given)
    torch.testing.assert_close(out, truth, rtol=1e-12, atol=1e-9)
    assert nominal_of(out) is BF16
    (written,) = run_as_written(reference, given)  # no CPU has the product
    torch.testing.assert_close(written, truth.to(BF16))
    with Observed(PassThrough()):
        seen = reference(*given)
    torch.testing.assert_close(seen, truth.to(BF16))


def test_a_reference_may_read_and_set_the_older_setting_of_tf32() -> None:
    cudnn = torch.backends.cudnn

    def fn(x: torch.Tensor) -> torch.Tensor:
        before = cudnn.allow_tf32
        cudnn.allow_tf32 = False
        try:
            return x * 2
        finally:
            cudnn.allow_tf32 = before

    units: list[Any] = [cudnn.conv, cudnn.rnn, torch.backends.cuda.matmul]  # type: ignore[attr-defined]
    kept = [cudnn.allow_tf32, *(unit.fp32_precision for unit in units)]
    for to in (torch.float64, torch.float32):
        (out,) = lift(fn, [torch.ones(3)], to=to)
        assert out.tolist() == [2.0] * 3
    assert [cudnn.allow_tf32, *(unit.fp32_precision for unit in units)] == kept


def test_whole_numbers_change_their_shape_in_place_once() -> None:
    def reference(x: Tensor) -> Tensor:
        places = x.argmax(-1)
        places.unsqueeze_(0)
        return places

    (out,) = lift(reference, [X])
    assert torch.equal(out, run_as_written(reference, [X])[0])


def test_an_empty_result_takes_the_shape_of_what_is_written_under_a_hook_too() -> None:
    def reference(x: Tensor) -> Tensor:
        out = torch.empty(0)
        torch.add(x, 1.0, out=out)
        return torch.mul(out, 2.0, out=out)

    (out,) = lift(reference, [X], hook=PassThrough())
    assert torch.equal(out, (X.double() + 1.0) * 2.0)
