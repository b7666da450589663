"""What the facade answers for a GPU that is not there, beside where tensors are."""

from __future__ import annotations

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from cuassay.build.cuda_facade import cuda_facade
from cuassay.build.python import speaks_of_a_gpu
from cuassay.model.candidate import Candidate, SourceFile

ROWS, DEPTH = 128, 128


def _operand(code: int) -> torch.Tensor:
    """Return (ROWS, DEPTH) numbers of one 4-bit code, two in a byte."""
    return torch.full((ROWS, DEPTH // 2), code * 17, dtype=torch.uint8).view(torch.float4_e2m1fn_x2)


def test_a_product_with_block_scales_is_made_where_no_gpu_makes_it() -> None:
    scales = torch.full((ROWS * DEPTH // 32,), 128, dtype=torch.uint8).view(torch.float8_e8m0fnu)
    a, b = _operand(3), _operand(12)  # 1.5 and -2
    with pytest.raises((RuntimeError, ValueError)):
        torch._scaled_mm(a, b.t(), scales, scales, out_dtype=torch.bfloat16)
    with cuda_facade():
        out = torch._scaled_mm(a, b.t(), scales, scale_b=scales, out_dtype=torch.bfloat16)
    assert out.dtype is torch.bfloat16
    assert out.shape == (ROWS, ROWS)
    assert torch.equal(out.float(), torch.full((ROWS, ROWS), -3.0 * 4 * DEPTH))


def test_other_scaled_products_and_wrong_operands_stay_what_torch_says_of_them() -> None:
    a = torch.randn(16, 32).to(torch.float8_e4m3fn)
    one = torch.tensor(0.5)
    plain = torch._scaled_mm(a, a.t(), one, one, out_dtype=torch.float32)
    with cuda_facade():
        assert torch.equal(torch._scaled_mm(a, a.t(), one, one, out_dtype=torch.float32), plain)
        few = torch.full((4,), 127, dtype=torch.uint8).view(torch.float8_e8m0fnu)
        with pytest.raises((RuntimeError, ValueError)):
            torch._scaled_mm(_operand(1), _operand(1).t(), few, few, out_dtype=torch.bfloat16)


def test_a_candidate_that_asks_for_such_products_speaks_of_a_gpu() -> None:
    def speaks(text: str) -> bool:
        source = SourceFile(path="k.py", text=text)
        return speaks_of_a_gpu(
            Candidate(name="k", sources=(source,), entry_file="k.py", entry_function="run")
        )

    assert speaks("y = torch._scaled_mm(a, b, s, t)")
    assert not speaks("y = a @ b")
    assert speaks("import cupy")
    assert not speaks("y = a @ b  # as cupy has it")


def test_a_tensor_is_told_of_a_stream_that_uses_it() -> None:
    x = torch.ones(2, device="cpu")
    with cuda_facade():
        side = torch.cuda.Stream(device=x.device)  # type: ignore[no-untyped-call]
        caller = torch.cuda.current_stream()
        side.wait_stream(caller)
        with torch.cuda.stream(side):
            y = x + torch.ones(2, device="cuda").cuda()
        caller.wait_stream(side)
        y.record_stream(caller)
    assert y.tolist() == [2.0, 2.0]


def test_a_tensor_on_the_cpu_is_said_to_be_on_a_gpu() -> None:
    x = torch.ones(2, device="cpu")
    with cuda_facade(), cuda_facade():
        assert (x.device, x.get_device()) == (torch.device("cuda", 0), 0)
        assert x.is_cuda
        assert not x.is_cpu
        assert x.cpu().data_ptr() != x.data_ptr()


def test_a_tensor_without_data_stays_where_it_was_made() -> None:
    with cuda_facade(), cuda_facade():
        x = torch.ones(2, device="meta")
        assert x.device.type == "meta"
        assert not x.is_cuda
        assert not x.is_cpu
        with pytest.raises(NotImplementedError):
            x.cpu()


def test_a_compiler_traces_a_kernel_on_fake_tensors_of_a_gpu() -> None:
    x = torch.ones(2, device="cpu")
    with cuda_facade(), FakeTensorMode() as fakes:
        fake = fakes.from_tensor(x)
        out = torch.empty_like(fake)
        assert fake.device == out.device == torch.device("cuda", 0)
        assert fake.is_cuda
        assert out.is_cuda
