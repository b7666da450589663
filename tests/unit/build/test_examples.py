"""The kernels of the demo: the low-precision one passes where it should, and only there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from cuassay import build
from cuassay.formats import load_candidate, load_problem
from cuassay.formats.execute import load_reference
from cuassay.model.candidate import Convention, Language
from cuassay.model.device import CPU
from tests.support.builds import guard_process

pytest.importorskip("triton")
pytest.importorskip("ml_dtypes")
pytestmark = pytest.mark.skipif(
    torch.cuda.is_available(),
    reason="the interpreter would take Triton over for the whole test process",
)

EXAMPLE = Path(__file__).parents[3] / "examples" / "embedding_rmsnorm_backward"
TOKENS, HIDDEN, VOCAB = 2048, 128, 1024
Compare = Callable[..., tuple[torch.Tensor, torch.Tensor]]


@pytest.fixture(scope="module")
def compare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Compare]:
    """Run one of the kernels and the reference; return both embedding gradients as float32."""
    problem = load_problem(str(EXAMPLE / "problem"))
    reference = load_reference(problem)
    calls: dict[str, Any] = {}

    def both(name: str, *inputs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        if name not in calls:
            candidate = load_candidate(str(EXAMPLE / name), problem)
            assert candidate.convention is Convention.DESTINATION
            folder = tmp_path_factory.mktemp("build")
            calls[name] = build.load(candidate, problem, device=CPU, folder=folder).call
        outputs = [
            torch.full(shape, float("nan"), dtype=torch.bfloat16)
            for shape in ((VOCAB, HIDDEN), (HIDDEN,))
        ]
        calls[name](*inputs, *outputs)
        expected: Any = reference.call(*inputs)
        assert relative_error(outputs[1].float(), expected[1].float()) < 4e-3
        return outputs[0].float(), expected[0].float()

    with pytest.MonkeyPatch.context() as monkeypatch:
        guard_process(monkeypatch)
        yield both


def inputs(*, hot: bool) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(TOKENS, HIDDEN, generator=generator)
    grad = torch.randn(TOKENS, HIDDEN, generator=generator)
    ids = torch.randint(0, VOCAB, (TOKENS,), generator=generator)
    if hot:  # half of the tokens are one word, and gradients have one sign
        ids[::2], grad = 7, grad.abs()
    weight = torch.ones(HIDDEN, dtype=torch.bfloat16)
    return grad.bfloat16(), ids, x, torch.rsqrt(x.square().mean(-1) + 1e-6), weight


def matched(got: torch.Tensor, expected: torch.Tensor) -> float:
    """The benchmark's rule: share of elements within 1e-2 + 5e-2 * |expected|."""
    return float(((got - expected).abs() <= 1e-2 + 5e-2 * expected.abs()).float().mean())


def relative_error(got: torch.Tensor, expected: torch.Tensor) -> float:
    return float((got - expected).norm() / expected.norm())


def test_low_precision_kernel_passes_the_benchmarks_rule(compare: Compare) -> None:
    got, expected = compare("kernel_bf16_triton.py", *inputs(hot=False))
    assert matched(got, expected) >= 0.99


def test_low_precision_kernel_is_wrong_on_hot_rows(compare: Compare) -> None:
    got, expected = compare("kernel_bf16_triton.py", *inputs(hot=True))
    assert relative_error(got[7], expected[7]) > 0.1
    assert matched(got, expected) >= 0.99  # one row of 1,024 cannot fail a rule of 99 %


@pytest.mark.parametrize("hot", [False, True])
def test_correct_twin_is_right_everywhere(compare: Compare, hot: bool) -> None:
    got, expected = compare("kernel_fp32_triton.py", *inputs(hot=hot))
    assert relative_error(got, expected) < 1e-3
    assert relative_error(got[7], expected[7]) < 4e-3


@pytest.mark.parametrize("folder", ["problem", "problem_full"])
@pytest.mark.parametrize("name", ["kernel_bf16.cu", "kernel_fp32.cu"])
def test_cuda_twins_declare_launches_for_both_problems(folder: str, name: str) -> None:
    candidate = load_candidate(str(EXAMPLE / name), load_problem(str(EXAMPLE / folder)))
    assert candidate.language is Language.CUDA_KERNEL
    assert candidate.launches[-1].kernel == "cast_to_bf16"
