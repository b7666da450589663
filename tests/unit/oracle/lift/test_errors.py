"""What cannot be lifted is named with its operation and the reference's line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from cuassay.errors import LiftError, ReferenceError_
from cuassay.oracle.lift.run import lift, run_as_written

X = torch.linspace(-1.0, 1.0, 12).reshape(3, 4).to(torch.bfloat16)


@torch.library.custom_op("cuassay_lift_test::twice", mutates_args=())
def twice(x: Tensor) -> Tensor:
    return x * 2


def line_of(fn: Callable[..., object]) -> int:
    return fn.__code__.co_firstlineno + 1


def view_bits(x: Tensor) -> Tensor:
    return x.view(torch.int16)


def view_from_bits(x: Tensor) -> Any:
    return torch.arange(4, dtype=torch.int32).view(torch.float32) + x.float()


def to_numpy(x: Tensor) -> Tensor:
    return torch.from_numpy(x.float().numpy())


def to_array(x: Tensor) -> Any:
    return torch.from_numpy(np.asarray(x.float()))


def raw_pointer(x: Tensor) -> int:
    return x.data_ptr()


def raw_storage(x: Tensor) -> int:
    return x.untyped_storage().nbytes()


def custom_operator(x: Tensor) -> Any:
    return twice(x)


def sparse(x: Tensor) -> Any:
    return torch.sparse.mm(x.float().to_sparse(), x.float().T)


def quantised(x: Tensor) -> Any:
    return torch.quantize_per_tensor(x.float(), 0.1, 0, torch.qint8).dequantize()


def fused_attention(x: Tensor) -> Any:
    return torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(*[x[None, None]] * 3)[0]


def in_backward(x: Tensor) -> Any:
    x = x.float().requires_grad_()
    y: Any = _ThroughNumpy.apply(x)  # type: ignore[no-untyped-call]
    return torch.autograd.grad(y.sum(), x)


class _ThroughNumpy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return torch.from_numpy(grads[0].numpy())


@pytest.mark.parametrize(
    ("fn", "op"),
    [
        (view_bits, "aten.view.dtype"),
        (view_from_bits, "aten.view.dtype"),
        (to_numpy, "Tensor.numpy"),
        (to_array, "Tensor.__array__"),
        (raw_pointer, "Tensor.data_ptr"),
        (raw_storage, "Tensor.untyped_storage"),
        (custom_operator, "cuassay_lift_test.twice.default"),
        (sparse, "aten._to_sparse.default"),
        (quantised, "aten.quantize_per_tensor.default"),
        (fused_attention, "aten._scaled_dot_product_flash_attention_for_cpu.default"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_names_operation_and_line(fn: Callable[..., object], op: str) -> None:
    with pytest.raises(LiftError) as caught:
        lift(fn, [X])
    assert caught.value.op == op
    assert caught.value.where == f"test_errors.py:{line_of(fn)}"
    assert len(caught.value.why) > 10


def test_inside_a_custom_backward() -> None:
    with pytest.raises(LiftError) as caught:
        lift(in_backward, [X])
    assert caught.value.op == "Tensor.numpy"
    assert caught.value.where == f"test_errors.py:{line_of(_ThroughNumpy.backward) + 1}"


def test_memory_read_below_python() -> None:
    def exported(x: Tensor) -> Tensor:
        return torch.utils.dlpack.from_dlpack(torch._C._to_dlpack(x))

    with pytest.raises(LiftError) as caught:
        lift(exported, [X.float()])
    assert caught.value.where.startswith("test_errors.py:")


def test_sparse_input() -> None:
    with pytest.raises(LiftError, match="sparse"):
        lift(lambda x: x.to_dense(), [X.float().to_sparse()])


def test_bits_of_integers_are_not_the_lifts_business() -> None:
    (out,) = lift(lambda x: (x > 0).view(torch.uint8), [X])
    assert out.dtype is torch.uint8


@pytest.mark.parametrize("run", [lift, run_as_written])
def test_the_references_own_failure_names_its_line(run: Callable[..., object]) -> None:
    def broken(x: Tensor) -> Tensor:
        return x @ x

    with pytest.raises(ReferenceError_, match=r"'broken' failed at test_errors.py:\d+"):
        run(broken, [X])


@pytest.mark.parametrize("run", [lift, run_as_written])
@pytest.mark.parametrize("result", [None, "text", object()])
def test_results_that_are_no_tensors(run: Callable[..., object], result: object) -> None:
    with pytest.raises(ReferenceError_, match="expected a tensor"):
        run(lambda x: result, [X])


def test_a_reference_that_exits_is_its_own_failure() -> None:
    def leave(x: Tensor) -> None:
        raise SystemExit(3)

    with pytest.raises(ReferenceError_, match="SystemExit"):
        lift(leave, [X])


def test_a_missing_name_is_named() -> None:
    with pytest.raises(ReferenceError_, match="returned y, but no 'z'"):
        lift(lambda x: {"y": x}, [X], names=["y", "z"])


def test_a_failure_leaves_no_mode_behind() -> None:
    default, onednn = torch.get_default_dtype(), torch._C._get_mkldnn_enabled()
    with pytest.raises(LiftError):
        lift(view_bits, [X])
    assert type(X * 2) is Tensor
    assert torch.get_default_dtype() is default
    assert torch._C._get_mkldnn_enabled() is onednn
