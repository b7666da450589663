"""SHP002: what is right at small sizes alone, and its correct twins."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor

from cuassay.checks.numeric import large_sizes
from cuassay.checks.numeric.large_sizes import Shp002, workload_call
from cuassay.checks.numeric.sampled_slices import independent_axes
from cuassay.model.domain import Index, Real
from cuassay.model.dtype import DType
from cuassay.model.effort import Effort
from cuassay.model.outcome import FindingClass
from cuassay.model.problem import ConstAxis, Problem, Reference, TensorSpec, VarAxis, Workload
from cuassay.model.steps import ReadSlices
from tests.support.fake_trial import FakeTrial, Function, examine, run_one

_ROWS, _COLS, _TOKENS, _VOCAB = 4096, 256, 131_072, 70_000


def _trial(
    reference: Function,
    inputs: tuple[TensorSpec, ...],
    outputs: tuple[TensorSpec, ...],
    **tops: int,
) -> FakeTrial:
    problem = Problem(
        name="grown",
        origin="native",
        axes=tuple(
            VarAxis(name=name, minimum=1, maximum=top, declared=True) for name, top in tops.items()
        ),
        inputs=inputs,
        outputs=outputs,
        reference=Reference(path=Path("grown.py"), function="run"),
        workloads=(Workload(id="w0", axes=dict.fromkeys(tops, 8)),),
    )
    return FakeTrial(problem, reference)


def _spec(name: str, *shape: str, dtype: DType = DType.FLOAT32) -> TensorSpec:
    return TensorSpec(name=name, shape=shape, dtype=dtype, domain=Real())


def _double(x: Tensor) -> Tensor:
    return x * 2.0


def _doubled(**tops: int) -> FakeTrial:
    rows, cols = tops
    return _trial(_double, (_spec("x", rows, cols),), (_spec("y", rows, cols),), **tops)


def _gathered() -> FakeTrial:
    ids = TensorSpec(name="ids", shape=("tokens",), dtype=DType.INT64, domain=Index(axis="vocab"))
    return _trial(
        lambda ids, table: table[ids],
        (ids, _spec("table", "vocab", "width")),
        (_spec("y", "tokens", "width"),),
        tokens=512,
        vocab=_VOCAB,
        width=64,
    )


def _positions(x: Tensor) -> Tensor:
    return x + torch.arange(x.shape[1], dtype=x.dtype)


def _placed() -> FakeTrial:
    return _trial(
        _positions, (_spec("x", "rows", "cols"),), (_spec("y", "rows", "cols"),), rows=64, cols=8192
    )


def _sums() -> FakeTrial:
    return _trial(
        lambda x: x.sum(-1),
        (_spec("x", "rows", "cols"),),
        (_spec("y", "rows"),),
        rows=64,
        cols=8192,
    )


def _cut_rows(x: Tensor) -> Tensor:
    y = _double(x)
    y[2048:] = 0
    return y


def _cut_columns(x: Tensor) -> Tensor:
    y = _double(x)
    y[:, 65_536:] = 0
    return y


def _many_elements(x: Tensor) -> Tensor:
    return _double(x) if x.numel() <= 1 << 18 else (x.bfloat16() * 2).float()


def _many_bytes(x: Tensor) -> Tensor:
    return _double(x) if x.nbytes <= 1 << 20 else (x.half() * 2).float()


def _shifted(x: Tensor) -> Tensor:
    return _double(x) if not x.shape[0] >> 11 else _double(x) + 1.0


def _by_table(x: Tensor) -> Tensor:
    tiles = (1, 8, 64, 512)
    done = max((tile for tile in tiles if tile <= x.shape[0]), default=0)
    rest = x.shape[0] if x.shape[0] < 2 * tiles[-1] else done
    y = torch.zeros_like(x)
    y[:rest] = _double(x[:rest])
    return y


def _fixed_loop(x: Tensor) -> Tensor:
    y = torch.zeros_like(x)
    for start in range(0, 1024, 128):
        y[start : start + 128] = x[start : start + 128] * 2
    return y


def _late_tail(x: Tensor) -> Tensor:
    y = _double(x)
    y[1 << 16 :] = y[: max(x.shape[0] - (1 << 16), 0)]
    return y


def _short_ids(ids: Tensor, table: Tensor) -> Tensor:
    return table[ids.to(torch.int16).long()]


def _half_positions(x: Tensor) -> Tensor:
    return x + torch.arange(x.shape[1]).half().float()


def _short_sums(x: Tensor) -> Tensor:
    return x[:, :4096].sum(-1)


def _refuses(x: Tensor) -> Tensor:
    if x.shape[0] > 1024:
        raise RuntimeError("CUDA error: invalid configuration argument")
    return _double(x)


def _in_one_block(x: Tensor) -> Tensor:
    y = _double(x)
    y[:, 777:] += 1.0
    return y


_SMALL = {"rows": _ROWS, "cols": _COLS}
# name -> (trial, a kernel that is wrong at some large size, a correct twin)
_CASES: dict[str, tuple[FakeTrial, Function, Function]] = {
    "rows from 2048 on": (_doubled(**_SMALL), _cut_rows, _double),
    "a count of elements": (_doubled(**_SMALL), _many_elements, _double),
    "a count of bytes": (_doubled(**_SMALL), _many_bytes, _double),
    "a shift of the rows": (_doubled(**_SMALL), _shifted, _double),
    "a table of tiles": (_doubled(**_SMALL), _by_table, _double),
    "a loop that ends": (_doubled(**_SMALL), _fixed_loop, _double),
    "columns from 777 on": (_doubled(rows=64, cols=1024), _in_one_block, _double),
    "a tail after 2^16 tokens": (_doubled(tokens=_TOKENS, cols=8), _late_tail, _double),
    "columns from 2^16 on": (_doubled(rows=64, vocab=_VOCAB), _cut_columns, _double),
    "ids in 16 bits": (_gathered(), _short_ids, lambda ids, table: table[ids.int().long()]),
    "positions in float16": (_placed(), _half_positions, _positions),
    "a sum over the first 4096": (_sums(), _short_sums, lambda x: x.sum(-1)),
    "a launch that is refused": (_doubled(**_SMALL), _refuses, _double),
}


@pytest.fixture(autouse=True)
def time_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """How far the check comes is no question of how busy this machine is."""
    monkeypatch.setattr(Effort, "large_sizes_s", 600.0)


@pytest.mark.parametrize("name", _CASES)
def test_what_is_wrong_at_large_sizes_alone_is_found(name: str) -> None:
    trial, bad, _ = _CASES[name]
    found = examine(Shp002(), trial, lambda: bad)
    assert found
    assert {finding.finding_class for finding in found} == {FindingClass.WRONG}


@pytest.mark.parametrize("name", _CASES)
def test_its_correct_twin_is_right(name: str) -> None:
    trial, _, good = _CASES[name]
    assert examine(Shp002(), trial, lambda: good) == []


def test_the_largest_declared_size_is_reached_and_judged_on_slices() -> None:
    trial = _doubled(**_SMALL)
    called = list(Shp002().propose(trial))
    assert dict(called[-1].cases[-1].axes) == _SMALL
    assert any(isinstance(step, ReadSlices) for step in called[-1].steps)


def test_a_finding_says_the_sizes_of_the_whole_call() -> None:
    found = examine(Shp002(), _doubled(**_SMALL), lambda: _cut_rows)
    assert all(finding.where is not None for finding in found)
    assert all(dict(finding.where.axes)["rows"] > 2048 for finding in found if finding.where)
    assert "sampled slices are wrong" in found[0].message


def test_calls_stop_where_the_next_one_costs_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = iter(range(1_000_000))
    clock = SimpleNamespace(monotonic=lambda: float(next(seconds)))
    monkeypatch.setattr(large_sizes, "time", clock)  # each call takes a second
    monkeypatch.setattr(Effort, "large_sizes_s", 2.5)
    called = list(Shp002().propose(_doubled(**_SMALL)))
    assert 1 <= len(called) <= 4
    assert dict(called[-1].cases[-1].axes) != _SMALL


def test_a_listed_workload_is_called_by_its_name() -> None:
    trial = _doubled(**_SMALL)
    scenario = workload_call(trial, "w0")
    assert scenario is not None
    assert dict(scenario.cases[-1].axes) == {"rows": 8, "cols": 8}
    run = run_one(trial, _double, scenario)
    assert not Shp002().judge(trial, scenario, run).findings
    assert workload_call(trial, "another") is None


def _mixed(q: Tensor, k: Tensor) -> Tensor:
    return q @ k.T @ k


def _attended(q: Tensor, k: Tensor) -> Tensor:
    return torch.softmax(q @ k.T, -1) @ k


@pytest.mark.parametrize("promised", [True, False])
def test_no_slices_are_taken_along_an_axis_of_two_sizes_that_is_summed(promised: bool) -> None:
    """No legal size is smaller than the base: the reference says that a part of a sum is less."""
    specs = (_spec("q", "rows", "width"), _spec("k", "keys", "width"))
    trial = _trial(_attended, specs, (_spec("y", "rows", "width"),), rows=64, keys=64, width=16)
    axes = {axis.name: axis for axis in trial.problem.axes}
    width = VarAxis(name="width", sizes=(16, 32) if promised else (), declared=promised)
    trial.problem = replace(trial.problem, axes=tuple((axes | {"width": width}).values()))
    assert [one.axis for one in independent_axes(trial)] == ["rows"]


def test_no_slices_are_taken_along_an_axis_of_one_size() -> None:
    """Columns in another order give the same in that order, though each depends on all."""
    specs = (_spec("q", "rows", "width"), _spec("k", "keys", "width"))
    trial = _trial(_mixed, specs, (_spec("y", "rows", "width"),), rows=64, keys=64)
    fixed = (*trial.problem.axes, ConstAxis(name="width", value=16))
    trial.problem = replace(trial.problem, axes=fixed)
    assert [one.axis for one in independent_axes(trial)] == ["rows"]
