"""COMPILE001 and OPCHECK001: contracts with torch.compile, kept and broken, in this process."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch.utils._python_dispatch import _get_current_dispatch_mode

from cuassay.checks.interface.compiled import Compile001
from cuassay.checks.interface.custom_ops import Opcheck001
from cuassay.errors import CannotJudgeError, NothingToCheckError
from cuassay.model.candidate import Candidate, Convention, Language, SourceFile
from cuassay.model.device import CPU, CUDA
from cuassay.model.outcome import Finding, FindingClass
from cuassay.model.scenario import Scenario
from cuassay.model.steps import CompiledCall
from cuassay.model.trace import Finished, ScenarioResult, StepRaised, TimedOut
from cuassay.model.verdict import Profile
from cuassay.sandbox.guest.callers.compiled import untraceable
from cuassay.sandbox.guest.observe.custom_ops import _failures, _Recorder
from cuassay.sandbox.ran import Ran
from tests.support.fake_trial import FakeTrial, Function, examine, judged, run_one, scaled_add


@torch.library.custom_op("cuassay_tests::fill_silent", mutates_args=())
def fill_silent(x: torch.Tensor, y: torch.Tensor) -> None:
    y.copy_(x)


@torch.library.custom_op("cuassay_tests::fill", mutates_args=("y",))
def fill(x: torch.Tensor, y: torch.Tensor) -> None:
    y.copy_(x)


@torch.library.custom_op("cuassay_tests::doubled", mutates_args=())
def doubled(x: torch.Tensor) -> torch.Tensor:
    return 2.0 * x


@torch.library.custom_op("cuassay_tests::tripled", mutates_args=())
def tripled(x: torch.Tensor) -> torch.Tensor:
    return 3.0 * x


@torch.library.custom_op("cuassay_tests::unfaked", mutates_args=())
def unfaked(x: torch.Tensor) -> torch.Tensor:
    return x.clone()


@unfaked.register_fake
def _unfaked(x: torch.Tensor) -> torch.Tensor:
    return x.new_empty(x.shape[0], x.shape[1] + 1)


for _operator in (fill_silent, fill):
    _operator.register_fake(lambda x, y: None)
for _operator in (doubled, tripled):
    _operator.register_fake(lambda x: torch.empty_like(x))
doubled.register_autograd(lambda ctx, grad: 2.0 * grad)
loose = torch.library.Library("cuassay_loose", "FRAGMENT")  # type: ignore[no-untyped-call]
loose.define("kept(Tensor x) -> Tensor")  # type: ignore[no-untyped-call]
loose.impl(  # type: ignore[no-untyped-call]
    "kept", lambda x: x * 1.0, "CompositeExplicitAutograd"
)
torch.library.register_fake("cuassay_loose::kept", torch.empty_like, lib=loose)
_shared: list[torch.Tensor] = []


def _remember(ctx: object, inputs: tuple[torch.Tensor], output: torch.Tensor) -> None:
    _shared[:] = [inputs[0]]


# Its gradient reads what a trace cannot have: the values of an earlier call.
tripled.register_autograd(
    lambda ctx, grad: grad * float(_shared[0].sum().item()), setup_context=_remember
)


def honest(x: torch.Tensor, bias: torch.Tensor, gain: float) -> torch.Tensor:
    return x * gain + bias


def through(operator: Function) -> Function:
    def call(x: torch.Tensor, bias: torch.Tensor, gain: float) -> torch.Tensor:
        y = torch.empty_like(x)
        operator(x, y)
        return y * gain + bias

    return call


def by_doubling(x: torch.Tensor, bias: torch.Tensor, gain: float) -> object:
    return torch.ops.cuassay_tests.doubled(x) * (0.5 * gain) + bias


def by_tripling(x: torch.Tensor, bias: torch.Tensor, gain: float) -> object:
    return torch.ops.cuassay_tests.tripled(x) / 3.0 * gain + bias


def _on_host(bias: torch.Tensor) -> tuple[float, ...]:
    return tuple(bias.tolist())


# What torch.compiler.assume_constant_result does, without loading the compiler with this module.
_on_host._dynamo_marked_constant = True  # type: ignore[attr-defined]


def frozen(x: torch.Tensor, bias: torch.Tensor, gain: float) -> torch.Tensor:
    return x * gain + torch.tensor(_on_host(bias))


def refuses(x: torch.Tensor, bias: torch.Tensor, gain: float) -> object:
    return torch.ops.cuassay_tests.unfaked(x) * gain + bias


def breaks_the_graph(x: torch.Tensor, bias: torch.Tensor, gain: float) -> torch.Tensor:
    if x.numel() and float(x.sum()) > 0:
        return bias + x * gain
    return honest(x, bias, gain)


@pytest.fixture(autouse=True)
def _no_traces_left() -> Iterator[None]:
    yield
    torch._dynamo.reset()


def trial() -> FakeTrial:
    return dataclasses.replace(scaled_add(), profile=Profile.STANDARD)


def compiled(function: Function) -> list[Finding]:
    return examine(Compile001(), trial(), lambda: function)


@pytest.mark.parametrize("function", [honest, through(fill), by_doubling, breaks_the_graph])
def test_what_compiles_to_the_same_answers_passes(function: Function) -> None:
    assert compiled(function) == []


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (through(fill_silent), "gives a wrong answer, a plain call a right one"),
        (frozen, "gives a wrong answer, a plain call a right one"),
        (refuses, "called from a compiled function it raises, and a plain call does not: "),
    ],
)
def test_what_compiles_to_something_else_is_a_condition(function: Function, said: str) -> None:
    (finding,) = compiled(function)
    assert said in finding.message
    assert finding.finding_class is FindingClass.UNSAFE
    assert finding.condition.startswith("compile: not inside torch.compile")


def test_a_kernel_that_is_wrong_already_is_left_to_others() -> None:
    assert compiled(lambda x, bias, gain: x * gain) == []


def test_destinations_are_read_back_through_the_graph() -> None:
    def into(operator: Function) -> Function:
        def call(x: torch.Tensor, bias: torch.Tensor, gain: float, y: torch.Tensor) -> None:
            operator(x * gain + bias, y)

        return call

    made = trial()
    (scenario,) = Compile001().propose(made)
    for operator, count in ((fill, 0), (fill_silent, 1)):
        run = run_one(made, into(operator), scenario, convention=Convention.DESTINATION)
        assert len(judged(Compile001(), made, scenario, run)) == count


def test_compilers_that_are_missing_or_slow_decide_nothing() -> None:
    made = trial()
    (scenario,) = Compile001().propose(made)
    run = run_one(made, honest, scenario)
    place = next(i for i, s in enumerate(scenario.steps) if isinstance(s, CompiledCall))
    raised = StepRaised(index=place, exception="RuntimeError", message="Failed to find C compiler")
    missing = _with(run.result, raised)
    with pytest.raises(CannotJudgeError, match="cannot compile here"):
        Compile001().judge(made, scenario, _of(run, missing))
    late = dataclasses.replace(run.result, termination=TimedOut(index=place, limit_s=150.0))
    with pytest.raises(CannotJudgeError, match="did not come to its end"):
        Compile001().judge(made, scenario, _of(run, late))


def _with(result: ScenarioResult, raised: StepRaised) -> ScenarioResult:
    kept = result.records[: raised.index]
    return dataclasses.replace(result, records=(*kept, raised), termination=Finished())


def _of(run: object, result: ScenarioResult) -> Ran:
    tensors = run._tensors  # type: ignore[attr-defined]
    return Ran(result, tensors)


def checked(function: Function) -> list[Finding]:
    made = trial()
    (scenario,) = Opcheck001().propose(made)
    return judged(Opcheck001(), made, scenario, run_one(made, function, scenario))


@pytest.mark.parametrize("function", [through(fill), by_doubling])
def test_operators_that_keep_their_contract_pass(function: Function) -> None:
    assert checked(function) == []


@pytest.mark.parametrize(
    ("function", "operator", "test"),
    [
        (through(fill_silent), "cuassay_tests.fill_silent.default", "test_schema"),
        (by_tripling, "cuassay_tests.tripled.default", "test_aot_dispatch_dynamic"),
    ],
)
def test_operators_that_break_it_are_named(function: Function, operator: str, test: str) -> None:
    (finding,) = checked(function)
    assert operator in finding.message
    assert test in dict(finding.details)
    assert finding.condition.startswith("compile: ")


@pytest.mark.parametrize("columns", [False, True])
def test_strides_are_compared_where_opcheck_lets_them_pass(
    columns: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    @torch.library.custom_op(f"cuassay_tests::laid_{columns}", mutates_args=())
    def laid(x: torch.Tensor) -> torch.Tensor:
        return x.mT.clone(memory_format=torch.contiguous_format).mT if columns else x * 1.0

    laid.register_fake(lambda x: torch.empty_like(x))
    monkeypatch.setattr(torch.library, "opcheck", lambda *_, **__: {"test_faketensor": "SUCCESS"})
    operator = getattr(torch.ops.cuassay_tests, f"laid_{columns}").default
    found = _failures(operator, (torch.ones(3, 4),), {})
    assert ("(4, 1), the kernel returns (1, 3)" in str(found)) is columns
    assert bool(found) is columns


def test_a_gradient_that_nobody_registered_is_advice() -> None:
    (finding,) = checked(lambda x, b, g: torch.ops.cuassay_loose.kept(x) * g + b)
    assert finding.finding_class is FindingClass.ADVICE
    assert finding.condition == ""
    assert "autograd does not look" in finding.message


def test_without_operators_there_is_nothing_to_check() -> None:
    with pytest.raises(NothingToCheckError, match="no custom operator"):
        checked(honest)


def test_what_fails_below_a_mode_alone_is_skipped_and_what_fails_anyway_is_told() -> None:
    def shy(x: torch.Tensor, b: torch.Tensor, g: float) -> torch.Tensor:
        if _get_current_dispatch_mode() is not None:
            raise ValueError("not below a mode")
        return honest(x, b, g)

    with pytest.raises(NothingToCheckError, match="makes it raise ValueError: not below a mode"):
        checked(shy)
    calls: list[int] = []

    def worn(x: torch.Tensor, b: torch.Tensor, g: float) -> torch.Tensor:
        calls.append(0)
        if len(calls) > 1:
            raise ValueError("once is enough")
        return honest(x, b, g)

    made = trial()
    (scenario,) = Opcheck001().propose(made)
    raised = run_one(made, worn, scenario).result.records[3]
    assert isinstance(raised, StepRaised)
    assert raised.message == "once is enough"


def test_a_candidate_that_is_compiled_already_is_watched_too() -> None:
    inside = torch.compile(honest, backend="aot_eager")
    with pytest.raises(NothingToCheckError, match="no custom operator"):
        checked(inside)
    assert checked(torch.compile(by_doubling, backend="aot_eager")) == []


def test_watching_does_not_load_the_compiler() -> None:
    """torch wraps the method of a mode that is kept from its compiler, and then imports it."""
    assert not hasattr(_Recorder.__torch_dispatch__, "__wrapped__")


def test_quick_leaves_compiling_to_the_longer_profiles() -> None:
    assert Compile001().skip(scaled_add()) == "standard and deep run it"
    assert Compile001().skip(trial()) == ""


def test_the_steps_name_other_values_and_another_shape() -> None:
    made = trial()
    (scenario,) = Compile001().propose(made)
    assert isinstance(scenario, Scenario)
    first, second, third = scenario.cases
    assert first.axes == second.axes != third.axes
    assert len({case.seed for case in scenario.cases[:2]}) == 2


def test_who_is_not_called_from_compiled_code() -> None:
    def of(text: str, language: Language = Language.PYTHON) -> Candidate:
        return Candidate(
            name="c",
            sources=(SourceFile(path="c.py", text=text),),
            entry_file="c.py",
            entry_function="run",
            language=language,
            convention=Convention.RETURNS,
            origin=Path("c.py"),
        )

    assert "raw CUDA" in untraceable(of("", Language.CUDA_KERNEL), CUDA)
    assert "stand-ins" in untraceable(of("import triton"), CPU)
    assert untraceable(of("import triton"), CUDA) == ""
    assert untraceable(of("import torch"), CPU) == ""
