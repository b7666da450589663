"""On a GPU: the same references, backward in the engine's own threads, true float32."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from cuassay.errors import LiftError
from cuassay.oracle.lift.run import lift, nominal_of, run_as_written
from tests.support.references_base import Draw, Reference, arrays
from tests.unit.oracle.lift.test_references import REFERENCES, STYLES

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU"),
]


def _moved(inputs: list[Any]) -> list[Any]:
    return [t.cuda() if isinstance(t, Tensor) else t for t in inputs]


@pytest.mark.parametrize("style", STYLES, ids=lambda dtype: str(dtype)[6:])
@pytest.mark.parametrize("reference", REFERENCES, ids=lambda r: r.name.replace(" ", "-"))
def test_equals_formula_on_the_gpu(reference: Reference, style: torch.dtype) -> None:
    inputs = list(reference.inputs(Draw(style, 3)))
    with torch.device("cuda"):
        outputs = lift(reference.fn, _moved(inputs))
    expected = reference.truth(*arrays(inputs))
    expected = expected if isinstance(expected, tuple | list) else (expected,)
    for got, want in zip(outputs, expected, strict=True):
        np.testing.assert_allclose(got.cpu().numpy(), want, rtol=reference.rtol, atol=1e-11)


@pytest.mark.parametrize("style", STYLES, ids=lambda dtype: str(dtype)[6:])
@pytest.mark.parametrize("reference", REFERENCES, ids=lambda r: r.name.replace(" ", "-"))
def test_nominal_dtype_and_float32_on_the_gpu(reference: Reference, style: torch.dtype) -> None:
    inputs = _moved(list(reference.inputs(Draw(style, 4))))
    with torch.device("cuda"):
        written = run_as_written(reference.fn, inputs)
        truth = lift(reference.fn, inputs)
        narrow = lift(reference.fn, inputs, to=torch.float32)
    for plain, wide, single in zip(written, truth, narrow, strict=True):
        assert nominal_of(wide) is nominal_of(single) is plain.dtype
        if plain.is_floating_point():
            scale = float(wide.abs().max()) + 1e-30
            assert float((single - wide).abs().max()) <= 1e-3 * scale
            assert float((plain.double() - wide).abs().max()) <= 0.1 * scale


def test_float32_is_not_tf32() -> None:
    x, w = torch.randn(4, 64, 32, 32, device="cuda"), torch.randn(64, 64, 3, 3, device="cuda")
    before = torch.backends.cudnn.allow_tf32
    (single,) = lift(F.conv2d, [x, w], to=torch.float32)
    (wide,) = lift(F.conv2d, [x, w])
    assert float((single - wide).norm() / wide.norm()) < 2e-6
    assert torch.backends.cudnn.allow_tf32 is before


def test_attention_kernels_of_the_gpu_are_replaced() -> None:
    def reference(q: Tensor) -> Any:
        q = q.detach().requires_grad_()
        out = F.scaled_dot_product_attention(q, q, q, is_causal=True)
        return out.detach(), *torch.autograd.grad(out.float().square().sum(), q)

    q = torch.randn(2, 4, 64, 64, device="cuda", dtype=torch.bfloat16)
    for exact, plain in zip(lift(reference, [q]), run_as_written(reference, [q]), strict=True):
        assert float((exact - plain.double()).norm() / exact.norm()) < 2e-2


def test_fused_norm_and_optimizer() -> None:
    def reference(x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
        p = torch.nn.Parameter(w.float())
        optimizer = torch.optim.AdamW([p], lr=0.1, fused=True)
        y = F.rms_norm(x.float(), (x.shape[-1],), p, 1e-6)
        y.square().sum().backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        return y.detach(), p.detach()

    x, w = (torch.randn(*shape, device="cuda").bfloat16() for shape in ((8, 256), (256,)))
    for exact, plain in zip(
        lift(reference, [x, w]), run_as_written(reference, [x, w]), strict=True
    ):
        torch.testing.assert_close(exact, plain.double(), rtol=1e-4, atol=1e-4)


def test_errors_inside_the_engines_threads_keep_their_type() -> None:
    class Through(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x * 2

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            return torch.from_numpy(grads[0].cpu().numpy()).cuda()

    def reference(x: Tensor) -> Any:
        x = x.detach().requires_grad_()
        y: Any = Through.apply(x)  # type: ignore[no-untyped-call]
        return torch.autograd.grad(y.sum(), x)

    with pytest.raises(LiftError) as caught:
        lift(reference, [torch.ones(3, device="cuda")])
    assert caught.value.op == "Tensor.numpy"


def test_a_kernel_in_the_reference_is_refused() -> None:
    triton = pytest.importorskip("triton")
    tl = pytest.importorskip("triton.language")

    @triton.jit  # type: ignore[untyped-decorator]
    def double(x: Any, n: Any) -> None:
        i = tl.arange(0, 16)
        tl.store(x + i, tl.load(x + i, mask=i < n) * 2, mask=i < n)

    def reference(x: Tensor) -> Tensor:
        double[(1,)](x, x.numel())
        return x

    with pytest.raises(LiftError) as caught:
        lift(reference, [torch.ones(16, device="cuda")])
    assert caught.value.where.startswith("test_cuda.py:")
