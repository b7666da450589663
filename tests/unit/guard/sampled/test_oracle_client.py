"""The oracle's own process behind a guard: it judges, it is replaced when it dies."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import cuassay
from cuassay_guard.sampled.oracle_client import ORACLE
from cuassay_guard.trusted import import_root
from tests.support.guards import Faulty, honest, inputs, rmsnorm

ALL: dict[str, Any] = {"capsules": None, "max_overhead": None, "sample": 1.0}


@pytest.fixture(scope="module", autouse=True)
def _closed() -> Iterator[None]:
    yield
    ORACLE.close()


def test_a_problem_s_reference_decides_in_the_oracle_s_process() -> None:
    before = torch.get_rng_state().clone()
    guarded = cuassay.guard(honest, problem="rmsnorm", trusted=rmsnorm, oracle="process", **ALL)
    with guarded:
        for seed in range(20):
            guarded(*inputs(seed=seed), 1e-6)
    found = guarded.stats()
    assert found.judged >= 1
    assert (found.violations, found.undecided, found.errors) == (0, 0, 0)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.get_default_dtype() is torch.float32
    wrong = cuassay.guard(Faulty(wrong=True), problem="rmsnorm", oracle="process", **ALL)
    with wrong:
        wrong(*inputs(), 1e-6)
    violation = wrong.last_violation
    assert violation is not None
    assert (violation.judge, violation.output) == ("oracle", "y")


def test_a_gain_of_one_rounding_is_seen_in_float32() -> None:
    def gained(x: Tensor, weight: Tensor, eps: float = 1e-6) -> Tensor:
        return honest(x, weight, eps) * (1 + 2.0**-18)

    guarded = cuassay.guard(gained, trusted=rmsnorm, oracle="process", **ALL)
    with guarded:
        guarded(*inputs(64, 256, dtype=torch.float32))
    assert (guarded.stats().violations, guarded.stats().errors) == (1, 0)
    twin = cuassay.guard(honest, trusted=rmsnorm, oracle="process", **ALL)
    with twin:
        for seed in range(40):
            twin(*inputs(64, 256, seed=seed, dtype=torch.float32))
    assert (twin.stats().violations, twin.stats().undecided) == (0, 0)


def test_16_bit_intermediates_are_no_violation_and_16_bit_sums_are() -> None:
    def as_models_write_it(x: Tensor, weight: Tensor, eps: float = 1e-6) -> Tensor:
        wide = x.float()
        scaled = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps)
        return weight * scaled.to(x.dtype)

    def sum_in_16_bits(x: Tensor, weight: Tensor, eps: float = 1e-6) -> Tensor:
        total = torch.zeros(x.shape[0], 1, dtype=x.dtype)
        for column in x.square().split(1, dim=1):  # type: ignore[no-untyped-call]
            total += column
        return (x.float() * torch.rsqrt(total / x.shape[1] + eps) * weight.float()).to(x.dtype)

    guarded = cuassay.guard(as_models_write_it, trusted=rmsnorm, oracle="process", **ALL)
    with guarded:
        for seed in range(20):
            guarded(*inputs(64, 256, seed=seed))
    assert guarded.stats().judged >= 1
    assert (guarded.stats().violations, guarded.stats().undecided) == (0, 0)
    wrong = cuassay.guard(sum_in_16_bits, trusted=rmsnorm, oracle="process", **ALL)
    with wrong:
        wrong(*inputs(64, 256))
    assert wrong.stats().violations == 1


def test_a_drift_inside_every_call_s_bound_is_found() -> None:
    """Each output is 4 numbers, too few for a verdict on their sign; all err upwards."""

    def drifting(x: Tensor, weight: Tensor, eps: float = 1e-6) -> Tensor:
        return honest(x, weight, eps) * (1 + 3 * 2.0**-22)

    def run(kernel: Any) -> Any:
        guarded = cuassay.guard(
            kernel, trusted=rmsnorm, oracle="process", **{**ALL, "deep_every": 1}
        )
        with guarded:
            for seed in range(150):
                guarded(*inputs(1, 4, seed=seed, dtype=torch.float32))
                guarded.flush()
                if guarded.stats().violations:
                    break
        return guarded

    found = run(drifting).last_violation
    assert found is not None
    assert found.kind == "drift"
    assert run(honest).stats().violations == 0


def test_gradients_are_judged_with_the_upstream_gradient_they_had() -> None:
    class Wrong(torch.autograd.Function):
        """Right forward, a gradient that forgets a factor of the weight."""

        @staticmethod
        def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
            ctx.save_for_backward(x, weight)
            return x * weight

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
            x, weight = ctx.saved_tensors
            return grad * weight * 1.001, (grad * x).sum(0)

    def kernel(x: Tensor, weight: Tensor) -> Tensor:
        out: Tensor = Wrong.apply(x, weight)  # type: ignore[no-untyped-call]
        return out

    def train(run: Any) -> Any:
        guarded = cuassay.guard(run, trusted=torch.mul, **ALL)
        x = torch.randn(16, 64, requires_grad=True)
        weight = torch.randn(64, requires_grad=True)
        with guarded:
            (guarded(x * 1, weight) ** 2).sum().backward()
        return guarded, x, weight

    guarded, _, _ = train(kernel)
    assert guarded.last_violation.kind == "gradient"
    assert guarded.last_violation.output == "grad_input0"
    twin, x, weight = train(lambda x, weight: x * weight)
    assert (twin.stats().checked, twin.stats().violations, twin.stats().errors) == (2, 0, 0)
    again = [t.detach().clone().requires_grad_() for t in (x, weight)]
    ((again[0] * again[1]) ** 2).sum().backward()
    assert torch.allclose(x.grad, again[0].grad)
    assert torch.allclose(weight.grad, again[1].grad)
    assert twin.watch.memory.used_bytes == 0


def test_the_oracle_s_process_is_started_again_when_it_was_killed() -> None:
    guarded = cuassay.guard(honest, problem="rmsnorm", **{**ALL, "deep_every": 1})
    with guarded:
        guarded(*inputs(), 1e-6)
    first = ORACLE._process
    assert first is not None
    first.kill()
    first.wait()
    with guarded:
        guarded(*inputs(seed=1), 1e-6)
    assert ORACLE._process is not first
    assert guarded.stats().judged == 2


def test_the_guarded_process_s_own_operator_decides_and_not_a_namesake(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder that came onto sys.path since may hold another module of that name."""
    namesake = tmp_path / "tests" / "support"
    namesake.mkdir(parents=True)
    for folder in (namesake.parent, namesake):
        (folder / "__init__.py").touch()
    (namesake / "guards.py").write_text("def rmsnorm(x, weight, eps=1e-6):\n    return x * 0\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    ORACLE.close()  # the next one has imported nothing yet
    guarded = cuassay.guard(honest, trusted=rmsnorm, oracle="process", **ALL)
    with guarded:
        guarded(*inputs())
    found = guarded.stats()
    assert (found.judged, found.violations, found.errors) == (1, 0, 0)


@pytest.mark.parametrize(
    ("module", "file", "root"),
    [
        ("ops", "/a/ops.py", "/a"),
        ("pack.ops", "/a/pack/ops.py", "/a"),
        ("pack", "/a/pack/__init__.py", "/a"),
        ("pack.sub", "/a/pack/sub/__init__.py", "/a"),
        ("renamed", "/a/ops.py", ""),
        ("builtin", "", ""),
    ],
)
def test_a_module_s_folder_on_the_path_follows_from_its_file(
    module: str, file: str, root: str
) -> None:
    assert import_root(module, file) == root


def test_a_reference_that_another_process_cannot_run_is_judged_here() -> None:
    def local(x: Tensor, weight: Tensor, eps: float = 1e-6) -> Tensor:
        return rmsnorm(x, weight, eps)

    guarded = cuassay.guard(Faulty(wrong=True), trusted=local, **ALL)
    with guarded:
        guarded(*inputs())
    assert guarded.last_violation is not None
    assert guarded.last_violation.judge == "local"
