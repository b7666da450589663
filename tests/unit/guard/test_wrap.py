"""Whole guarded calls on the CPU: what is found, who serves, and what the caller notices."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import cuassay
from cuassay_guard.calls.signature import fits, memo_of
from cuassay_guard.events import GuardViolationError, Violation
from cuassay_guard.wrap import Guarded
from tests.support.guards import QUIET, Faulty, axpy_, both, double, honest, inputs, rmsnorm

pytestmark = pytest.mark.usefixtures("quiet_guards")


def _guard(kernel: Callable[..., Any], **options: Any) -> Guarded:
    return cuassay.guard(kernel, trusted=options.pop("trusted", rmsnorm), **{**QUIET, **options})


def test_an_honest_kernel_raises_no_alarm() -> None:
    guarded = _guard(honest)
    for seed in range(64):
        x, weight = inputs(seed=seed)
        assert torch.equal(guarded(x, weight), honest(x, weight))
    assert guarded.flush()
    found = guarded.stats()
    assert (found.calls, found.sampled, found.checked) == (64, 64, 64)
    assert 2 <= found.judged < 32  # the first, every sixteenth, and what is new
    assert (found.violations, found.errors, found.dropped, found.pending) == (0, 0, 0, 0)
    assert found.state == "closed"


def test_a_wrong_row_is_found_and_the_trusted_operator_takes_over() -> None:
    kernel = Faulty()
    seen: list[Violation] = []
    guarded = _guard(kernel, hooks=[seen.append])
    x, weight = inputs()
    with guarded:
        guarded(x, weight)
    kernel.wrong = True
    with guarded:
        assert not torch.equal(guarded(x, weight), rmsnorm(x, weight))
    calls = kernel.calls
    assert torch.equal(guarded(x, weight), rmsnorm(x, weight))
    assert kernel.calls == calls
    found = guarded.stats()
    assert (found.violations, found.fallbacks, found.state) == (1, 1, "open")
    violation = guarded.last_violation
    assert isinstance(violation, Violation)
    assert seen == [violation]
    assert violation.measured > violation.allowed
    assert "axis 0" in violation.group or violation.output == "out"
    assert violation.signature == "bfloat16[8, 64], bfloat16[64]"


def test_another_signature_is_still_served_by_the_kernel() -> None:
    kernel = Faulty(wrong=True)
    guarded = _guard(kernel, sample=0.0)
    with guarded:
        guarded(*inputs(4))
    kernel.wrong = False
    with guarded:
        guarded(*inputs(8))  # first sight of a signature: checked at any rate
    calls = kernel.calls
    guarded(*inputs(8))
    guarded(*inputs(4))
    assert kernel.calls == calls + 1
    found = guarded.stats()
    assert (found.sampled, found.signatures, found.violations, found.fallbacks) == (2, 2, 1, 1)


def test_a_breaker_probes_beside_the_caller_and_closes() -> None:
    kernel = Faulty(wrong=True)
    guarded = _guard(kernel, cooldown_s=0.0, probes=2)
    x, weight = inputs()
    with guarded:
        guarded(x, weight)
    assert guarded.stats().state == "half-open"
    with guarded:
        assert torch.equal(guarded(x, weight), rmsnorm(x, weight))  # a bad probe harms nobody
    assert guarded.stats().violations == 2
    kernel.wrong = False
    for _ in range(2):
        with guarded:
            assert torch.equal(guarded(x, weight), rmsnorm(x, weight))
    assert guarded.stats().state == "closed"
    assert torch.equal(guarded(x, weight), honest(x, weight))


def test_observe_watches_and_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUASSAY_GUARD", "observe")
    guarded = _guard(Faulty(wrong=True), mode="enforce", on_violation="raise")
    x, weight = inputs()
    for _ in range(3):
        with guarded:
            assert torch.equal(guarded(x, weight), Faulty(wrong=True)(x, weight))
    found = guarded.stats()
    assert (found.mode, found.violations, found.fallbacks) == ("observe", 3, 0)
    assert found.state == "closed"


def test_off_is_the_bare_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUASSAY_GUARD", "off")
    guarded = _guard(Faulty(wrong=True))
    guarded(*inputs())
    assert guarded.stats().calls == 0


def test_a_synchronous_guard_repairs_the_failing_call_itself() -> None:
    guarded = _guard(Faulty(wrong=True), synchronous=True)
    x, weight = inputs()
    assert torch.equal(guarded(x, weight), rmsnorm(x, weight))
    found = guarded.stats()
    assert (found.violations, found.repaired, found.state) == (1, 1, "open")


def test_an_exception_only_where_asked_for() -> None:
    guarded = _guard(Faulty(wrong=True), on_violation="raise")
    x, weight = inputs()
    with guarded:
        guarded(x, weight)
    with pytest.raises(GuardViolationError, match="violates its contract"):
        guarded(x, weight)
    assert torch.equal(guarded(x, weight), rmsnorm(x, weight))  # once; then it falls back
    now = _guard(Faulty(wrong=True), on_violation="raise", synchronous=True)
    with pytest.raises(GuardViolationError):
        now(x, weight)


def test_recording_alone_leaves_the_kernel_in_charge() -> None:
    guarded = _guard(Faulty(wrong=True), on_violation="record")
    for _ in range(3):
        with guarded:
            guarded(*inputs())
    assert (guarded.stats().violations, guarded.stats().fallbacks) == (3, 0)


def test_shadow_only_and_canary_roll_outs() -> None:
    kernel = Faulty()
    shadow = _guard(kernel, canary=0.0, sample=0.25)
    x, weight = inputs()
    for _ in range(200):
        assert torch.equal(shadow(x, weight), rmsnorm(x, weight))
    shadow.flush()
    found = shadow.stats()
    assert found.fallbacks == 200
    assert 20 <= kernel.calls == found.sampled <= 90
    kernel = Faulty()
    canary = _guard(kernel, canary=0.5, sample=0.0)
    for _ in range(400):
        canary(x, weight)
    assert 140 < kernel.calls < 260
    canary.flush()
    served = 400 - canary.stats().fallbacks
    assert kernel.calls - served in (0, 1)  # the first call is sampled: perhaps as a probe


def test_inputs_changed_right_after_the_call_do_not_matter() -> None:
    guarded = _guard(honest)
    x, weight = inputs()
    for _ in range(20):
        out = guarded(x, weight)
        out.zero_()
        x.normal_()
    guarded.flush()
    assert (guarded.stats().violations, guarded.stats().checked) == (0, 20)


def test_operators_that_write_to_their_inputs() -> None:
    guarded = _guard(axpy_, trusted=axpy_, mutates=["x"])
    x, y = torch.randn(4, 32), torch.randn(4, 32)
    for _ in range(20):
        guarded(x, y, alpha=0.5)
    guarded.flush()
    assert (guarded.stats().violations, guarded.stats().errors) == (0, 0)

    def half(x: Tensor, y: Tensor, alpha: float = 2.0) -> Tensor:
        x[:2].add_(y[:2], alpha=alpha)
        return x.clone()

    wrong = _guard(half, trusted=axpy_, mutates=["x"])
    with wrong:
        wrong(x, y)
    assert wrong.stats().violations == 1


def test_contract_breaks_are_violations() -> None:
    x = torch.randn(4, 32)
    cases: list[tuple[Callable[..., Any], Callable[..., Any], str]] = [
        (lambda x: (x * 2)[:2], double, "is float32[2, 32]"),
        (lambda x: (x * 2).double(), double, "is float64[4, 32]"),
        (lambda x: {"twice": x * 2}, both, "returned 1 tensors, the trusted operator 2"),
        (lambda x: {"twice": x * 2, "where": x.argmin(-1)}, both, "exact"),
        (lambda x: x * torch.tensor(float("nan")), double, "class"),
    ]
    for kernel, trusted, message in cases:
        guarded = cuassay.guard(kernel, trusted=trusted, **QUIET)
        with guarded:
            guarded(x)
        violation = guarded.last_violation
        assert violation is not None
        assert message in f"{violation.message} {violation.statistic}"
        assert violation.severity == "gross"


def test_as_a_decorator_and_as_a_method() -> None:
    @cuassay.guard(trusted=rmsnorm, **QUIET)  # type: ignore[untyped-decorator]
    def kernel(x: Tensor, weight: Tensor, eps: float = 1e-6) -> Tensor:
        """Norm."""
        return honest(x, weight, eps)

    assert isinstance(kernel, Guarded)
    assert (vars(kernel)["__name__"], kernel.__doc__) == ("kernel", "Norm.")
    with kernel:
        kernel(*inputs())
    assert kernel.stats().checked == 1

    class Layer:
        double = cuassay.guard(lambda self, x: x * 2, trusted=lambda self, x: x * 2, **QUIET)

    layer = Layer()
    assert torch.equal(layer.double(torch.ones(3)), torch.full((3,), 2.0))


def test_inference_mode_autocast_and_keywords() -> None:
    guarded = _guard(lambda x, w: x @ w, trusted=lambda x, w: x @ w)
    x, w = torch.randn(16, 32), torch.randn(32, 16)
    with guarded, torch.inference_mode():
        guarded(x, w)
    with guarded, torch.autocast("cpu", dtype=torch.bfloat16):
        assert guarded(x, w=w).dtype is torch.bfloat16
    found = guarded.stats()
    assert (found.checked, found.violations, found.errors) == (2, 0, 0)


def test_under_torch_compile_calls_are_still_seen() -> None:
    guarded = _guard(honest)

    @torch.compile(backend="eager")
    def step(x: Tensor, weight: Tensor) -> Tensor:
        out: Tensor = guarded(x, weight) + 1
        return out

    x, weight = inputs()
    with guarded:
        assert torch.equal(step(x, weight), honest(x, weight) + 1)
        step(x, weight)
    assert (guarded.stats().calls, guarded.stats().checked) == (2, 2)
    torch._dynamo.reset()


def test_transforms_and_fake_tensors_pass_through() -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    guarded = _guard(honest)
    x, weight = inputs()
    torch.func.vmap(guarded, in_dims=(0, None))(x[:, None], weight)
    with FakeTensorMode() as fake:
        guarded(fake.from_tensor(x), fake.from_tensor(weight))
    guarded(x.to("meta"), weight.to("meta"))
    found = guarded.stats()
    assert (found.calls, found.sampled, found.errors) == (3, 0, 0)


def test_the_kernel_s_own_exception_is_the_caller_s() -> None:
    def kernel(x: Tensor) -> Tensor:
        raise ValueError("mine")

    guarded = cuassay.guard(kernel, trusted=double, **QUIET)
    with pytest.raises(ValueError, match="mine"):
        guarded(torch.ones(3))
    assert guarded.watch.memory.used_bytes == 0


def test_calls_of_other_arguments_after_a_remembered_one_are_served_and_counted() -> None:
    guarded = _guard(lambda *given: given[0] * 2, trusted=lambda *given: given[0] * 2)
    x = torch.ones(3)
    guarded(x)
    assert guarded.watch.gate.same is not None
    for given in ((x, x), (x, 2), (x, "two"), (x.half(),), (torch.ones(4),), (x,)):
        for _ in range(2):
            assert torch.equal(guarded(*given), given[0] * 2)
    guarded.flush()
    found = guarded.stats()
    assert (found.calls, found.signatures, found.violations, found.errors) == (13, 6, 0, 0)


def test_threads_count_exactly() -> None:
    guards = [_guard(honest, sample=0.01, name=f"k{index}") for index in range(8)]
    x, weight = inputs()
    failed: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(20):
                for guarded in guards:
                    guarded(x, weight)
        except BaseException as failure:
            failed.append(failure)

    threads = [threading.Thread(target=work) for _ in range(64)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    for guarded in guards:
        assert guarded.flush()
        found = guarded.stats()
        assert found.calls == 64 * 20
        assert found.sampled == found.checked + found.dropped
        assert (found.violations, found.pending, found.errors) == (0, 0, 0)
        assert guarded.watch.memory.used_bytes == 0


def test_signatures_are_bounded() -> None:
    guarded = cuassay.guard(double, trusted=double, **{**QUIET, "max_signatures": 4})
    for size in range(1, 20):
        guarded(torch.ones(size))
    guarded.flush()
    assert guarded.stats().signatures == 4
    assert len(guarded.watch.fast) == 4


def test_a_violation_is_plain_data() -> None:
    guarded = _guard(Faulty(wrong=True))
    with guarded:
        guarded(*inputs())
    assert pickle.loads(pickle.dumps(guarded.last_violation)) == guarded.last_violation


def test_the_quick_test_of_a_signature_never_says_yes_to_another() -> None:
    x, weight = inputs()
    memo = memo_of((x,), {"weight": weight, "eps": 1e-6})
    same, given, count, types, names = memo
    assert (given, count, types, names) == (3, 2, (float,), ("weight", "eps"))
    assert fits(memo, (x,), {"weight": weight, "eps": 1.0})
    assert not fits(memo, (x,), {"eps": 1.0, "weight": weight})
    assert not fits(memo, (x,), {"weight": weight, "eps": 1})
    assert same(torch.ones_like(x), weight)
    for other in (x[:4], x.float(), x.t(), x[:, ::2], x.to("meta"), nn.Parameter(x), 3):
        assert not same(other, weight)
    assert memo_of((3, x), {})[1] == -1  # tensors first
    assert memo_of((x, True), {})[1] == -1  # flags are part of a signature by value
    kernel = Faulty()
    guarded = _guard(kernel, sample=0.5)
    for _ in range(20):
        guarded(x, weight)
    assert guarded.watch.gate.memo[1] == 2
    guarded(x[:4], weight)  # another signature: seen, and checked for the first time
    guarded.flush()
    assert guarded.stats().signatures == 2
    kernel.wrong = True
    while guarded.stats().state == "closed":
        guarded(x, weight)
        guarded.flush()
    calls = kernel.calls
    assert torch.equal(guarded(x, weight), rmsnorm(x, weight))
    assert kernel.calls == calls
    assert guarded.stats().calls >= 22


def test_a_call_that_nobody_can_judge_is_counted_and_asked_about_less_often(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = []
    monkeypatch.setattr(
        "cuassay_guard.sampled.arbiter.judged_call", lambda job, names: asked.append(job)
    )
    guarded = _guard(Faulty(wrong=True))
    for _ in range(40):
        guarded(*inputs())
    guarded.flush()
    found = guarded.stats()
    assert (found.checked, found.undecided, found.violations) == (40, 40, 0)
    assert 3 <= len(asked) <= 8  # after 1, 2, 4, 8, ... more
    assert found.state == "closed"
