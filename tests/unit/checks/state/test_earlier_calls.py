"""STATE001: what depends on earlier calls is found and named, honest kernels are not."""

from __future__ import annotations

import dataclasses
import functools
import threading
import weakref
from collections.abc import Callable

import pytest
import torch

from cuassay.checks.state.answers import truth_moved
from cuassay.checks.state.earlier_calls import State001
from cuassay.checks.state.histories import (
    CalledFrom,
    Fate,
    Shape,
    Succession,
    Tensors,
    Values,
    World,
    history_scenarios,
    odd_layouts,
    plan,
)
from cuassay.model.candidate import Convention
from cuassay.model.case import Fill
from cuassay.model.device import CUDA
from cuassay.model.diagnosis import Cause
from cuassay.model.outcome import FindingClass
from cuassay.model.problem import ConstAxis
from cuassay.model.scenario import Allocate, Call, PoisonFreed, Refill, Release
from cuassay.model.steps import Layout
from cuassay.model.verdict import Profile
from tests.support.fake_trial import (
    FakeTrial,
    Function,
    axis,
    examine,
    gather,
    problem,
    row_sum,
    run_one,
    scaled_add,
    tensor,
)

Tensor = torch.Tensor
# The same promise with more histories.
_BOTH = [Profile.QUICK, pytest.param(Profile.STANDARD, marks=pytest.mark.thorough)]


def honest() -> Function:
    return lambda x, bias, gain: x * gain + bias


def memo_by_address() -> Function:
    kept: dict[object, Tensor] = {}

    def call(x: Tensor, bias: Tensor, gain: float) -> Tensor:
        key = (x.data_ptr(), tuple(x.shape), gain)
        if key not in kept:
            kept[key] = x * gain + bias
        return kept[key].clone()

    return call


def memo_by_shape() -> Function:
    kept: dict[object, Tensor] = {}

    def call(x: Tensor, bias: Tensor, gain: float) -> Tensor:
        return kept.setdefault(tuple(x.shape), x * gain + bias).clone()

    return call


def memo_by_identity() -> Function:
    kept: dict[object, tuple[Tensor, Tensor]] = {}

    def call(x: Tensor, bias: Tensor, gain: float) -> Tensor:
        return kept.setdefault((id(x), id(bias), gain), (x, x * gain + bias))[1].clone()

    return call


def packed_bias() -> Function:
    kept: dict[int, Tensor] = {}

    def call(x: Tensor, bias: Tensor, gain: float) -> Tensor:
        return x * gain + kept.setdefault(bias.data_ptr(), bias.clone())

    return call


def gain_of_the_first_call() -> Function:
    kept: list[float] = []

    def call(x: Tensor, bias: Tensor, gain: float) -> Tensor:
        kept.append(gain)
        return x * kept[0] + bias

    return call


def table_of_the_last_gain() -> Function:
    seen: set[float] = set()
    table: list[float] = [0.0]

    def call(x: Tensor, bias: Tensor, gain: float) -> Tensor:
        if gain not in seen:
            seen.add(gain)
            table[0] = gain
        return x * table[0] + bias

    return call


def validated_on_a_sample() -> Function:
    kept: dict[object, Tensor] = {}

    def call(x: Tensor, bias: Tensor, gain: float) -> Tensor:
        sample = tuple(x.reshape(-1)[:16].tolist())
        key = (sample, gain, tuple(bias.tolist()), tuple(x.shape))
        return kept.setdefault(key, x * gain + bias).clone()

    return call


def rows_of_the_first_call() -> Function:
    kept: list[int] = []

    def call(x: Tensor, bias: Tensor, gain: float) -> Tensor:
        kept.append(x.shape[0])
        y = x * gain + bias
        y[min(kept[0], x.shape[0]) :] = 0.0
        return y

    return call


def first_call_is_wrong() -> Function:
    calls: list[int] = []

    def call(x: Tensor, bias: Tensor, gain: float) -> Tensor:
        calls.append(1)
        return (x * gain + bias) * (2.0 if len(calls) == 1 else 1.0)

    return call


def strides_by_shape() -> Function:
    kept: dict[object, tuple[int, ...]] = {}

    def call(x: Tensor, bias: Tensor, gain: float) -> Tensor:
        strides = kept.setdefault(tuple(x.shape), x.stride())
        return x.as_strided(x.shape, strides) * gain + bias

    return call


def plan_made_when_contiguous() -> Function:
    """Return a kernel whose plan is made by a contiguous call and used by any."""
    kept: dict[object, tuple[int, ...]] = {}

    def call(x: Tensor, bias: Tensor, gain: float) -> Tensor:
        if x.is_contiguous():
            kept[tuple(x.shape)] = x.stride()
        return x.as_strided(x.shape, kept.get(tuple(x.shape), x.stride())) * gain + bias

    return call


def hands_out_what_it_keeps() -> Function:
    kept: list[tuple[Tensor, Tensor, float, Tensor]] = []

    def call(x: Tensor, bias: Tensor, gain: float) -> Tensor:
        for a, b, c, y in kept:
            if c == gain and torch.equal(a, x) and torch.equal(b, bias):
                return y
        kept.append((x.clone(), bias.clone(), gain, (x * gain + bias).detach()))
        return kept[-1][-1]

    return call


def static_output() -> Function:
    kept: dict[object, Tensor] = {}

    def call(x: Tensor, bias: Tensor, gain: float) -> Tensor:
        with torch.no_grad():
            out = kept.setdefault(tuple(x.shape), torch.empty_like(x))
            return out.copy_(x * gain + bias)

    return call


def static_output_of_an_address() -> Function:
    """Return what a CUDA graph kept by the inputs' addresses does: replays into its output."""
    kept: dict[object, Tensor] = {}

    def call(x: Tensor, bias: Tensor, gain: float) -> Tensor:
        with torch.no_grad():
            key = (x.data_ptr(), bias.data_ptr(), tuple(x.shape))
            out = kept.setdefault(key, torch.empty_like(x))
            return out.copy_(x * gain + bias)

    return call


def buffer_of_the_values() -> Function:
    """Return what a CUDA graph kept for each argument does: the same values come again."""
    kept: dict[object, Tensor] = {}

    def call(x: Tensor, bias: Tensor, gain: float) -> Tensor:
        with torch.no_grad():
            key = (tuple(x.reshape(-1).tolist()), tuple(bias.tolist()), gain, tuple(x.shape))
            out = kept.setdefault(key, torch.empty_like(x))
            return out.copy_(x * gain + bias)

    return call


def ring_of_two() -> Function:
    ring: dict[object, list[Tensor]] = {}

    def call(x: Tensor, bias: Tensor, gain: float) -> Tensor:
        with torch.no_grad():
            mine = ring.setdefault(tuple(x.shape), [torch.empty_like(x) for _ in range(2)])
            mine.reverse()
            return mine[0].copy_(x * gain + bias)

    return call


def kept_by_elements() -> Function:
    """Return a plan kept by the number of elements: 13 x 11 and 11 x 13 share it."""
    kept: dict[int, int] = {}

    def call(x: Tensor, bias: Tensor, gain: float) -> Tensor:
        cols = kept.setdefault(x.numel(), x.shape[1])
        return x * gain + bias[torch.arange(x.shape[1]) % cols]

    return call


def kept_by_thread() -> Function:
    kept = threading.local()

    def call(x: Tensor, bias: Tensor, gain: float) -> Tensor:
        if not hasattr(kept, "bias"):
            kept.bias = bias.clone()
            return x * gain + bias
        return x * gain + (kept.bias if kept.bias.shape == bias.shape else bias)

    return call


FAULTS: dict[str, tuple[Callable[[], Function], str]] = {
    "memo_by_address": (memo_by_address, "returns the result of call 1 when the same tensors"),
    "memo_by_shape": (memo_by_shape, "returns the result of call 1 when the same tensors"),
    "memo_by_identity": (memo_by_identity, "when the same tensors are refilled"),
    "packed_bias": (packed_bias, "the same tensors are refilled"),
    "gain_of_the_first_call": (gain_of_the_first_call, "gain goes from"),
    "table_of_the_last_gain": (table_of_the_last_gain, "gain goes from"),
    "validated_on_a_sample": (validated_on_a_sample, "takes another value"),
    "rows_of_the_first_call": (rows_of_the_first_call, "rows goes from"),
    "first_call_is_wrong": (first_call_is_wrong, "until the first call is over"),
    "strides_by_shape": (strides_by_shape, "x goes from transposed to contiguous"),
    "plan_made_when_contiguous": (
        plan_made_when_contiguous,
        "x goes from contiguous to transposed",
    ),
    "hands_out_what_it_keeps": (hands_out_what_it_keeps, "after the caller wrote into"),
    "static_output": (static_output, "which the caller still holds, changes: it is the result of"),
    "static_output_of_an_address": (
        static_output_of_an_address,
        "which the caller still holds, changes: it is the result of",
    ),
    "buffer_of_the_values": (buffer_of_the_values, "into which the caller wrote, changes: it is"),
    "ring_of_two": (ring_of_two, "which the caller still holds, changes: it is the result of"),
    "kept_by_elements": (kept_by_elements, "rows goes from"),
    "kept_by_thread": (kept_by_thread, "the same tensors are refilled"),
}


@pytest.mark.parametrize("profile", _BOTH)
@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_found_and_named(name: str, profile: Profile) -> None:
    factory, words = FAULTS[name]
    trial = scaled_add()
    trial.profile = profile
    found = examine(State001(), trial, factory)
    assert found
    assert all(f.code == "STATE001" for f in found)
    # What one call leaves for the next, two threads leave for one another, too.
    wrong = [f for f in found if not f.condition.startswith("threads:")]
    assert all(f.finding_class is FindingClass.WRONG for f in wrong)
    assert any(words in f.message for f in found), [f.message for f in found]


@pytest.mark.parametrize("declared", [True, False])
@pytest.mark.parametrize("profile", list(Profile))
def test_an_honest_kernel_is_silent(declared: bool, profile: Profile) -> None:
    trial = scaled_add(declared=declared)
    trial.profile = profile
    assert examine(State001(), trial, honest) == []


def test_an_honest_destination_kernel_is_silent() -> None:
    def call(x: Tensor, bias: Tensor, gain: float, y: Tensor) -> None:
        with torch.no_grad():
            y.copy_(x * gain + bias)

    assert examine(State001(), scaled_add(), lambda: call, convention=Convention.DESTINATION) == []


def test_a_right_cache_is_silent() -> None:
    def factory() -> Function:
        kept: dict[object, Tensor] = {}

        def call(x: Tensor, bias: Tensor, gain: float) -> Tensor:
            key = (tuple(x.reshape(-1).tolist()), tuple(bias.tolist()), gain, tuple(x.shape))
            return kept.setdefault(key, x * gain + bias).clone()

        return call

    assert examine(State001(), scaled_add(), factory) == []


def test_other_operators_are_silent() -> None:
    assert examine(State001(), row_sum(), lambda: lambda x: x.sum(-1)) == []
    assert examine(State001(), gather(), lambda: lambda ids, table: table[ids]) == []


@pytest.mark.parametrize("profile", _BOTH)
def test_a_kernel_that_is_always_wrong_is_left_to_the_numbers(profile: Profile) -> None:
    trial = scaled_add()
    trial.profile = profile
    wrong: list[Function] = [
        lambda x, bias, gain: x * gain,
        lambda x, bias, gain: x * 1.0 + bias,  # ignores the scalar
        lambda x, bias, gain: torch.zeros_like(x),
    ]
    for fault in wrong:
        assert examine(State001(), trial, functools.partial(_same, fault)) == []


def _same(fault: Function) -> Function:
    return fault


def ignores_strides() -> Function:
    def call(x: Tensor, bias: Tensor, gain: float) -> Tensor:
        return torch.as_strided(x, x.shape, (x.shape[1], 1)) * gain + bias

    return call


def refuses_strides() -> Function:
    def call(x: Tensor, bias: Tensor, gain: float) -> Tensor:
        if not (x.is_contiguous() and bias.is_contiguous()):
            raise ValueError("contiguous only")
        return x * gain + bias

    return call


def ends_at_strides() -> Function:
    def call(x: Tensor, bias: Tensor, gain: float) -> Tensor:
        if not x.is_contiguous():
            raise SystemExit(3)
        return x * gain + bias

    return call


def crashes_after_strides() -> Function:
    """Return a kernel that a strided call harms and a later, contiguous one pays for."""
    harmed: list[int] = []

    def call(x: Tensor, bias: Tensor, gain: float) -> Tensor:
        if not x.is_contiguous():
            harmed.append(1)
            return torch.zeros_like(x)
        if harmed:
            raise SystemExit(134)
        return x * gain + bias

    return call


def garbage_after_strides() -> Function:
    harmed: list[int] = []

    def call(x: Tensor, bias: Tensor, gain: float) -> Tensor:
        harmed.extend([] if x.is_contiguous() else [1])
        return torch.zeros_like(x) if harmed else x * gain + bias

    return call


@pytest.mark.parametrize(
    "factory",
    [
        ignores_strides,
        refuses_strides,
        ends_at_strides,
        crashes_after_strides,
        garbage_after_strides,
    ],
)
@pytest.mark.parametrize("profile", _BOTH)
def test_what_a_layout_breaks_is_left_to_the_check_of_layouts(
    factory: Callable[[], Function], profile: Profile
) -> None:
    trial = scaled_add()
    trial.profile = profile
    assert examine(State001(), trial, factory) == []


def refuses_gradients() -> Function:
    def call(x: Tensor, bias: Tensor, gain: float) -> Tensor:
        if x.requires_grad:
            raise RuntimeError("inference only")
        return x * gain + bias

    return call


def refuses_threads() -> Function:
    def call(x: Tensor, bias: Tensor, gain: float) -> Tensor:
        if threading.current_thread() is not threading.main_thread():
            raise RuntimeError("one thread only")
        return x * gain + bias

    return call


@pytest.mark.parametrize("factory", [refuses_gradients, refuses_threads])
@pytest.mark.parametrize("profile", _BOTH)
def test_a_refusal_of_gradients_or_threads_is_left_to_the_checks_of_these(
    factory: Callable[[], Function], profile: Profile
) -> None:
    trial = scaled_add()
    trial.profile = profile
    assert examine(State001(), trial, factory) == []


def wrong_where(unusual: Callable[[Tensor], bool]) -> Callable[[], Function]:
    def call(x: Tensor, bias: Tensor, gain: float) -> Tensor:
        return x * gain if unusual(x) else x * gain + bias

    return lambda: call


@pytest.mark.parametrize(
    ("factory", "words"),
    [
        (wrong_where(lambda x: not torch.is_grad_enabled()), "under torch.no_grad() and "),
        (wrong_where(lambda x: torch.is_inference_mode_enabled()), "under torch.inference_mode();"),
        (wrong_where(lambda x: x.is_inference()), "under torch.inference_mode();"),
        (wrong_where(lambda x: x.requires_grad), "when inputs require gradients;"),
        (
            wrong_where(lambda x: threading.current_thread() is not threading.main_thread()),
            "from another thread;",
        ),
    ],
)
@pytest.mark.parametrize("profile", _BOTH)
def test_the_way_of_the_call_that_alone_is_wrong_is_named(
    factory: Callable[[], Function], words: str, profile: Profile
) -> None:
    trial = scaled_add()
    trial.profile = profile
    found = examine(State001(), trial, factory)
    assert found
    assert found[0].cause is Cause.HOW_CALLED
    assert f"is wrong {words}" in found[0].message


@pytest.mark.parametrize("profile", _BOTH)
def test_a_buffer_that_is_kept_is_right_in_inference_mode_too(profile: Profile) -> None:
    def factory() -> Function:
        kept: dict[object, Tensor] = {}

        def call(x: Tensor, bias: Tensor, gain: float) -> Tensor:
            scratch = kept.setdefault(tuple(x.shape), torch.empty_like(x))
            with torch.no_grad():
                scratch.copy_(x * gain)
            return scratch + bias

        return call

    trial = scaled_add()
    trial.profile = profile
    # One thread at a time, which is a condition; nothing of it is wrong.
    found = examine(State001(), trial, factory)
    assert all(finding.condition.startswith("threads:") for finding in found)


def test_a_refusal_of_inference_is_a_condition() -> None:
    def call(x: Tensor, bias: Tensor, gain: float) -> Tensor:
        if torch.is_inference_mode_enabled():
            raise RuntimeError("made for training")
        return x * gain + bias

    (found,) = examine(State001(), scaled_add(), lambda: call)
    assert found.finding_class is FindingClass.UNSAFE
    assert found.condition == "autograd: it raises under torch.inference_mode()"
    assert found.message.startswith("RuntimeError: made for training under torch.inference_mode()")


def test_a_refused_thread_does_not_hide_what_else_is_wrong() -> None:
    def factory() -> Function:
        refuse, stale = refuses_threads(), memo_by_shape()

        def call(x: Tensor, bias: Tensor, gain: float) -> object:
            refuse(x, bias, gain)
            return stale(x, bias, gain)

        return call

    assert examine(State001(), scaled_add(), factory)


def test_a_run_that_ends_early_in_an_ordinary_call_is_reported() -> None:
    trial = scaled_add()
    scenario = next(history_scenarios(trial))

    def fails(x: Tensor, bias: Tensor, gain: float) -> Tensor:
        raise RuntimeError("no")

    run = run_one(trial, fails, scenario)
    assert [f.code for f in State001().judge(trial, scenario, run).findings] == ["RUN001"]


def test_a_refill_that_does_not_move_truth_blames_nobody() -> None:
    trial = scaled_add()
    same = {"x": Fill(kind="ones"), "bias": Fill(kind="ones")}
    small = trial.cases("small")[0]
    case = dataclasses.replace(small, fills=same, scalars={"gain": 1.0})
    trial.plans = {"small": (case,), "arguments": ()}
    assert not truth_moved(trial, case, dataclasses.replace(case, seed=case.seed + 1))
    trial.problem = dataclasses.replace(trial.problem, axes=small_axes(trial))
    for scenario in history_scenarios(trial):
        if any(truth_moved(trial, case, other) for other in scenario.cases):
            continue  # a tensor that is larger by 2^-15
        run = run_one(trial, memo_by_shape(), scenario)
        assert not State001().judge(trial, scenario, run).findings


def kept_while_alike(alike: Callable[[Tensor, Tensor], bool]) -> Function:
    """Return a kernel that gives its last answer again where x is alike what it was."""
    last: dict[object, tuple[Tensor, Tensor]] = {}

    def call(x: Tensor, bias: Tensor, gain: float) -> Tensor:
        key = (tuple(x.shape), gain, bias.sum().item())
        held = last.get(key)
        if x.numel() < 1000 or held is None or not alike(held[0], x):
            held = last[key] = (x.clone(), x * gain + bias)
        return held[1].clone()

    return call


@pytest.mark.parametrize(
    "alike",
    [
        lambda a, b: bool((a != b).sum() < 8),
        lambda a, b: torch.equal(a.view(-1).sort().values, b.view(-1).sort().values),
        lambda a, b: torch.allclose(a, b, rtol=1e-4, atol=1e-7),
    ],
    ids=["few elements", "order", "nearly equal"],
)
def test_little_changes_of_large_tensors_are_seen(alike: Callable[[Tensor, Tensor], bool]) -> None:
    trial = scaled_add()
    *_, little = (s for s in history_scenarios(trial) if len(s.cases) > 1)
    assert len(little.cases) > 4
    for same, wrong in ((torch.equal, False), (alike, True)):
        run = run_one(trial, kept_while_alike(same), little)
        assert bool(State001().judge(trial, little, run).findings) == wrong


def pool_that_waits_for_the_tensor() -> Function:
    free: list[Tensor] = []

    def call(x: Tensor, bias: Tensor, gain: float) -> Tensor:
        fits = [one for one in free if one.shape == x.shape and not x.requires_grad]
        memory = fits[0] if fits else torch.empty_like(x, requires_grad=False)
        free[:] = [one for one in free if one is not memory]
        if x.requires_grad:
            return x * gain + bias
        y = torch.empty(0).set_(memory.untyped_storage(), 0, x.shape, x.stride())
        y.copy_(x * gain + bias)
        weakref.finalize(y, free.append, memory).atexit = False
        return y

    return call


def test_who_keeps_a_view_of_a_result_keeps_the_result() -> None:
    found = examine(State001(), scaled_add(), pool_that_waits_for_the_tensor)
    assert any("which the caller still holds, changes" in f.message for f in found), found


def scratch_of_all_threads() -> Function:
    scratch: dict[object, Tensor] = {}

    def call(x: Tensor, bias: Tensor, gain: float) -> Tensor:
        if x.requires_grad or bias.requires_grad:
            return x * gain + bias
        own = scratch.setdefault(x.shape, torch.empty_like(x))
        own.copy_(x)
        own.mul_(gain).add_(bias)
        return own.clone()

    return call


def test_scratch_that_two_threads_share_is_a_condition() -> None:
    found = examine(State001(), scaled_add(), scratch_of_all_threads)
    assert {f.condition for f in found} == {"threads: calls from one thread at a time"}, found


def test_a_call_after_one_that_raised_is_judged() -> None:
    def broken_by_an_exception() -> Function:
        pending: list[bool] = []
        last: list[Tensor] = []

        def call(x: Tensor, bias: Tensor, gain: float) -> Tensor:
            if pending and last and last[0].shape == bias.shape:
                bias = last[0]
            pending[:] = [True]
            y = x * gain + bias
            pending.clear()
            last[:] = [bias.clone()]
            return y

        return call

    (found,) = examine(State001(), scaled_add(), broken_by_an_exception)[:1]
    assert found.finding_class is FindingClass.WRONG
    assert not examine(State001(), scaled_add(), honest)


def small_axes(trial: FakeTrial) -> tuple[ConstAxis, ...]:
    """Return the axes as constants: no other shape moves truth either."""
    sizes = trial.cases("small")[0].axes
    return tuple(ConstAxis(name=name, value=size) for name, size in sizes.items())


def test_what_lies_in_an_input_is_left_to_the_check_of_outputs() -> None:
    def in_place(x: Tensor, bias: Tensor, gain: float) -> Tensor:
        with torch.no_grad():
            return x.mul_(gain).add_(bias)

    found = examine(State001(), scaled_add(), lambda: in_place, control=in_place)
    assert found == []
    trial = row_sum()
    trial.plans = {"small": trial.cases("small"), "arguments": ()}
    lies_in_x = lambda: lambda x: x[:, 0].detach().copy_(x.sum(-1))  # noqa: E731
    found = examine(State001(), trial, lies_in_x)
    assert not any("the caller wrote" in f.message for f in found)


def test_results_that_cannot_be_written_into_blame_nobody() -> None:
    def factory() -> Function:
        return lambda x, bias, gain: (x * gain + bias).t().contiguous().t().requires_grad_()

    assert examine(State001(), scaled_add(), factory) == []
    trial = row_sum()
    ones = {"x": Fill(kind="ones")}
    small = tuple(dataclasses.replace(case, fills=ones) for case in trial.cases("small"))
    trial.plans = {"small": small, "arguments": ()}
    assert examine(State001(), trial, lambda: lambda x: x.sum(-1)[:1].expand(len(x))) == []


def test_an_ill_conditioned_case_decides_nothing() -> None:
    trial: FakeTrial = scaled_add()
    trial.ill_conditioned = "a test"
    assert examine(State001(), trial, table_of_the_last_gain) == []


def world_of(trial: FakeTrial) -> World:
    small = trial.cases("small")
    return World.of(trial, small[0], shapes=[dict(case.axes) for case in small[:1]])


@pytest.mark.parametrize(
    ("profile", "strength"), [(Profile.QUICK, 2), (Profile.STANDARD, 2), (Profile.DEEP, 3)]
)
def test_every_possible_combination_of_choices_occurs(profile: Profile, strength: int) -> None:
    from itertools import combinations, product

    trial = scaled_add()
    trial.profile = profile
    kinds = ("before", "tensors", "values", "shape", "place", "grad", "odd")
    made = [choice for block in plan(trial, world_of(trial)) for choice in block]
    rows = [tuple(getattr(choice, kind) for kind in kinds) for choice in made]
    seen = {part for row in rows for part in combinations(enumerate(row), strength)}
    asked_for = (Values.LATE, Values.FEW, Values.ORDER, Values.NEAR, Values.CLOSE)
    values = [v for v in Values if v not in asked_for]
    shapes = [s for s in Shape if s is not Shape.OTHER]  # of one shape, exchanged
    places = [CalledFrom.HERE, CalledFrom.THREAD]  # a CPU has no streams
    flags = (False, True)
    fates = [fate for fate in Fate if fate is not Fate.VIEWED]
    for row in product(fates, Tensors, values, shapes, places, flags, flags):
        same = row[1] is Tensors.SAME and (row[3] is not Shape.SAME or row[6])
        unlaid = row[6] and row[1] is not Tensors.NEW
        if not (same or unlaid or (row[2] is Values.ELEMENT and row[3] is not Shape.SAME)):
            assert set(combinations(enumerate(row), strength)) <= seen


def test_a_cpu_has_no_streams_and_a_gpu_has() -> None:
    trial = scaled_add()
    assert not world_of(trial).streams
    trial.device = CUDA
    assert world_of(trial).streams


def test_freed_memory_is_poisoned_before_it_is_used_again() -> None:
    scenarios = list(history_scenarios(scaled_add()))
    assert all(scenario.fresh for scenario in scenarios)
    assert any(isinstance(step, Call) and step.autocast for s in scenarios for step in s.steps)
    for scenario in scenarios:
        freed = False
        for step in scenario.steps:
            match step:
                case Release():
                    freed = True
                case PoisonFreed():
                    freed = False
                case Call() | Allocate():
                    assert not freed
                case _:
                    pass
    assert any(isinstance(step, PoisonFreed) for s in scenarios for step in s.steps)


def test_every_argument_and_an_element_of_every_tensor_is_changed_alone_in_place() -> None:
    trial = scaled_add()
    labels = {
        scenario.cases[step.case].label
        for scenario in history_scenarios(trial)
        for step in scenario.steps
        if isinstance(step, Refill)
    }
    assert {"x moved", "bias moved", "gain moved"} <= labels
    for name in ("x", "bias"):
        assert any(label.startswith("element") and f"of {name} " in label for label in labels)


def test_one_element_differs_where_one_was_to_change() -> None:
    trial = scaled_add()
    pairs = [
        (scenario.cases[number - 1], case)
        for scenario in history_scenarios(trial)
        for number, case in enumerate(scenario.cases)
        if case.label.startswith("element")
    ]
    assert pairs
    for base, case in pairs:
        moved = [n for n, fill in case.fills.items() if base.fills.get(n) != fill]
        for name in moved if base.axes == case.axes and base.seed == case.seed else ():
            if case.fills[name].kind == base.fills[name].kind:
                continue
            old, new = trial.inputs(base)[name], trial.inputs(case)[name]
            assert isinstance(old, Tensor)
            assert isinstance(new, Tensor)
            assert int((old != new).sum()) == 1


def test_two_axes_are_exchanged_where_that_keeps_the_elements() -> None:
    trial = scaled_add()
    world = world_of(trial)
    first, second = world.shapes[:2]
    assert (first["rows"], first["cols"]) == (second["cols"], second["rows"])
    assert world.equal == {0: 1, 1: 0}


def test_one_axis_alone_has_no_shape_of_equal_size() -> None:
    made = problem(
        "negated",
        axes=[axis("n")],
        inputs=[tensor("x", "n")],
        outputs=[tensor("y", "n")],
        workloads=[{"n": 64}],
    )
    trial = FakeTrial(made, lambda x: -x)
    assert not world_of(trial).equal
    assert all(c.shape is not Shape.EQUAL for block in plan(trial, world_of(trial)) for c in block)
    assert examine(State001(), trial, lambda: lambda x: -x) == []


def test_each_input_gets_a_layout_that_it_can_have() -> None:
    trial = scaled_add()
    found = odd_layouts(trial.problem, trial.cases("small")[0])
    assert found == {"x": Layout.TRANSPOSED, "bias": Layout.STEPPED}


def test_integers_stay_contiguous_lest_wild_indices_write_anywhere() -> None:
    trial = gather()
    assert set(odd_layouts(trial.problem, trial.cases("small")[0])) == {"table"}


def test_a_choice_says_by_default_that_the_same_tensors_are_refilled() -> None:
    assert Succession().tensors is Tensors.SAME
    assert Succession().values is Values.ALL
