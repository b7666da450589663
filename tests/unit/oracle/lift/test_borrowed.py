"""Large inputs are lifted where they are read: the same bits as with a lifted copy of all."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import torch

from cuassay.hooks import Operation, PassThrough
from cuassay.oracle.lift import inputs as lift_inputs
from cuassay.oracle.lift.run import lift, nominal_of
from cuassay.oracle.truth.memory import bytes_needed, live_bytes
from cuassay.oracle.truth.reductions import PRODUCTS

Reference = Callable[..., object]


def _experts(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    out = torch.zeros_like(x)
    for expert in range(w.shape[0]):
        out += torch.nn.functional.silu(x @ w[expert].t()) @ w[expert].float().to(x.dtype)
    return out


def _gathered(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    halves = w.float().transpose(1, 2).chunk(2, dim=0)
    return torch.cat([x.float() @ half[0].contiguous() for half in halves]) + w[0, 0, 0].item()


def _overwritten(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    noise = torch.rand_like(x)
    w.mul_(2)
    w[0] = 1.0
    return (x + noise) @ w[0] + w.sum()


def _cast_and_overwritten(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    wide = w.float()
    wide[0].zero_()
    return x.float() @ wide[0], w


def _differentiated(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    w = w.detach().requires_grad_()
    (x @ w[1] @ w[0]).square().sum().backward()  # type: ignore[no-untyped-call]
    assert w.grad is not None
    return w.grad


def _returned(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return w.view(-1)[: x.numel()]


REFERENCES = [_experts, _gathered, _overwritten, _cast_and_overwritten, _differentiated, _returned]


def _inputs(dtype: torch.dtype) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    shapes = ((3, 8), (4, 8, 8))
    return [torch.randn(shape, generator=generator).to(dtype) for shape in shapes]


def _outputs(
    call: Reference, given: Sequence[torch.Tensor], to: torch.dtype
) -> tuple[torch.Tensor, ...]:
    torch.manual_seed(7)
    return lift(call, given, to=to)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("to", [torch.float64, torch.float32])
@pytest.mark.parametrize("call", REFERENCES, ids=lambda call: call.__name__)
def test_borrowed_inputs_give_the_same_bits_and_stay_as_they_were(
    call: Reference, to: torch.dtype, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = _inputs(dtype)
    before = [tensor.clone() for tensor in given]
    right = _outputs(call, given, to)
    monkeypatch.setattr(lift_inputs, "BORROWED_ELEMENTS", 100)
    found = _outputs(call, given, to)
    for one, other in zip(found, right, strict=True):
        assert one.dtype == other.dtype
        assert torch.equal(one, other)
        assert one.data_ptr() not in [tensor.data_ptr() for tensor in given]
    assert all(torch.equal(*pair) for pair in zip(given, before, strict=True))


def test_inputs_that_share_memory_are_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    def call(small: torch.Tensor, large: torch.Tensor) -> torch.Tensor:
        small.zero_()
        return large.sum()

    large = torch.ones(4, 64)
    monkeypatch.setattr(lift_inputs, "BORROWED_ELEMENTS", 100)
    (out,) = lift(call, [large[0], large])
    assert out.item() == 3 * 64
    assert bool((large == 1).all())


def test_an_expert_is_lifted_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    class Sizes(PassThrough):
        largest = 0

        def after(self, operation: Operation, out: object) -> object:
            for value in operation.args:
                if isinstance(value, torch.Tensor):
                    self.largest = max(self.largest, value.untyped_storage().nbytes())
            return out

    given = _inputs(torch.bfloat16)
    for threshold, largest in ((1 << 27, 4 * 64 * 8), (100, 64 * 8)):
        monkeypatch.setattr(lift_inputs, "BORROWED_ELEMENTS", threshold)
        hook = Sizes()
        lift(_experts, given, hook=hook)
        assert hook.largest == largest


def test_the_plan_counts_no_lifted_copy_of_them() -> None:
    x = torch.empty(16, 4096, dtype=torch.bfloat16, device="meta")
    w = torch.empty(64, 4096, 4096, dtype=torch.bfloat16, device="meta")
    live = live_bytes(_experts, [x, w])
    assert bytes_needed(live, [x, w], [x.shape], draws=4) < 3 * w.nbytes


def _batched(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.bmm(x.expand(4, 3, 8).float(), w.float())


def _batched_plus(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.baddbmm(x[None, :1], x.expand(4, 3, 8), w.transpose(1, 2))


def _batched_plus_rows(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    rows = x[0][:, None].expand(8, 8)[:4]  # as many rows as there are matrices
    return torch.baddbmm(rows, x[:1].expand(4, 4, 8), w)


def _words(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.linear(x, w.view(32, 8))


def _words_plus(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.linear(x, w.view(32, 8), w[0].view(-1)[:32])


def _rows(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return w.view(32, 8) @ x.t()


class _Shapes(PassThrough):
    """Notes the largest factor of a product, and what it returns."""

    def __init__(self) -> None:
        self.largest = 0

    def after(self, operation: Operation, out: object) -> object:
        if operation.name in PRODUCTS:
            sizes = [v.numel() for v in operation.args if isinstance(v, torch.Tensor)]
            self.largest = max(self.largest, *sizes)
        return out


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize(
    "call", [_batched, _batched_plus, _batched_plus_rows, _words, _words_plus, _rows]
)
def test_a_product_of_a_large_input_is_made_part_by_part(
    call: Reference, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = _inputs(dtype)
    (right,) = _outputs(call, given, torch.float64)
    for most in (100, 37):  # parts of equal length, and a shorter last one
        monkeypatch.setattr(lift_inputs, "BORROWED_ELEMENTS", most)
        hook = _Shapes()
        (found,) = lift(call, given, hook=hook)
        assert nominal_of(found) == nominal_of(right)
        assert found.shape == right.shape
        torch.testing.assert_close(found, right, rtol=1e-14, atol=1e-14)
        assert 0 < hook.largest <= max(most, 64)  # 64: one matrix of the batch


def test_the_plan_counts_one_part_of_a_products_large_factor() -> None:
    x = torch.empty(64, 2, 4096, dtype=torch.bfloat16, device="meta")
    w = torch.empty(64, 4096, 4096, dtype=torch.bfloat16, device="meta")

    def batched(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return torch.bmm(x.float(), w.float()).to(x.dtype)

    live = live_bytes(batched, [x, w])
    assert live.written > 2 * w.nbytes  # the reference as written does hold it in float32
    assert live.lifted < w.nbytes // 8
    assert bytes_needed(live, [x, w], [x.shape], draws=4) < 4 * w.nbytes
