"""Indices out of range raise before the kernel runs: the same ones that torch's CPU refuses."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from cuassay.errors import ReferenceError_
from cuassay.hooks import Observed
from cuassay.oracle.lift import index_range
from cuassay.oracle.lift.run import lift, run_as_written
from cuassay.oracle.mutants.faults import Fault
from cuassay.oracle.mutants.sites import Mutation, SiteRecorder

_ROWS, _COLUMNS = 4, 3
Op = Callable[[torch.Tensor, torch.Tensor], object]


def _source() -> torch.Tensor:
    return torch.arange(12, dtype=torch.float32).reshape(_ROWS, _COLUMNS)


def _across(index: torch.Tensor) -> torch.Tensor:
    return index[:, None].expand(-1, _COLUMNS)


OPERATIONS: dict[str, Op] = {
    "index": lambda x, i: x[i],
    "index of the second axis": lambda x, i: x[:, i % _COLUMNS][i],
    "index behind a mask": lambda x, i: x[i, torch.tensor([0]).expand(len(i))],
    "put": lambda x, i: x.index_put((i,), torch.zeros(_COLUMNS)),
    "put in place": lambda x, i: x.clone().__setitem__(i, 0.0),
    "gather": lambda x, i: x.gather(0, _across(i)),
    "scatter": lambda x, i: x.scatter(0, _across(i), torch.ones(len(i), _COLUMNS)),
    "scatter a value": lambda x, i: x.scatter(0, _across(i), 1.0),
    "scatter_add_": lambda x, i: x.clone().scatter_add_(0, _across(i), torch.ones(len(i), 3)),
    "scatter_reduce": lambda x, i: x.scatter_reduce(0, _across(i), x[: len(i)], reduce="amax"),
    "index_select": lambda x, i: x.index_select(0, i),
    "index_add_": lambda x, i: x.clone().index_add_(0, i, torch.ones(len(i), _COLUMNS)),
    "index_copy": lambda x, i: x.index_copy(0, i, torch.ones(len(i), _COLUMNS)),
    "index_fill": lambda x, i: x.index_fill(0, i, 1.0),
    "take": lambda x, i: x.take(torch.where(i.abs() < _ROWS, i, i * 10)),
    "embedding": lambda x, i: torch.nn.functional.embedding(i, x),
    "cross_entropy": lambda x, i: torch.nn.functional.cross_entropy(
        x.T.contiguous()[torch.zeros_like(i)], i, ignore_index=-2
    ),
}


def _refused(call: Op, index: torch.Tensor) -> bool:
    try:
        call(_source(), index)
    except (IndexError, RuntimeError):
        return True
    return False


@pytest.mark.parametrize("name", OPERATIONS)
@given(numbers=st.lists(st.integers(-_ROWS - 2, _ROWS + 2), min_size=1, max_size=_ROWS))
def test_what_a_cpu_refuses_is_refused_before_it_runs(name: str, numbers: list[int]) -> None:
    index, call = torch.tensor(numbers), OPERATIONS[name]
    with Observed(index_range.Ranges()):
        if _refused(call, index):
            with pytest.raises(IndexError, match=r"out of bounds for \d+ entries in aten"):
                call(_source(), index)
            watched = True
        else:
            watched = False
    assert watched is _refused(call, index)


def test_masks_and_nothing_are_no_indices() -> None:
    with Observed(index_range.Ranges()):
        assert _source()[_source() > 5].numel() == 6
        assert _source()[torch.tensor([], dtype=torch.int64)].numel() == 0
        assert _source()[:, None, torch.tensor([True, False, True])].shape == (_ROWS, 1, 2)


def test_indices_behind_a_mask_of_two_axes_count_on_the_third() -> None:
    block = torch.zeros(2, 2, 5)
    mask = torch.tensor([[True, False], [False, True]])
    with Observed(index_range.Ranges()):
        assert block[mask, torch.tensor([4, 4])].shape == (2,)
        with pytest.raises(IndexError, match="index 5 is out of bounds for 5 entries"):
            block[mask, torch.tensor([0, 5])]


def test_inputs_on_a_cpu_are_left_to_torch() -> None:
    entered = index_range.in_range([torch.zeros(2), 3])
    assert not isinstance(entered, Observed)


@pytest.fixture
def _as_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_range, "_asserts", lambda tensor: True)


@pytest.mark.usefixtures("_as_on_a_gpu")
@pytest.mark.parametrize("run", [lift, run_as_written])
def test_a_reference_is_told_by_the_number(run: Callable[..., object]) -> None:
    def reference(x: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        return x[ids + 1]

    with pytest.raises(ReferenceError_, match="index 4 is out of bounds for 4 entries in aten"):
        run(reference, [_source(), torch.tensor([0, 3])])


def _wrapped(x: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
    return x.float()[torch.remainder(ids + 1, 4)] * 2.0


@pytest.mark.usefixtures("_as_on_a_gpu")
def test_a_mutant_that_leaves_its_index_bare_raises() -> None:
    inputs = [_source(), torch.tensor([0, 3, 2])]

    def bare(op: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        return op(args[0], [torch.tensor([0, 4, 2])])

    recorder = SiteRecorder()
    lift(_wrapped, inputs, hook=recorder)
    site = next(site for site, _ in recorder.sites() if "aten.index" in site.op)
    fault = Fault(kind="operand", words="", shown_by="", wrong=bare)
    with pytest.raises(IndexError, match="index 4 is out of bounds for 4 entries in aten"):
        lift(_wrapped, inputs, hook=Mutation(site, fault))


@pytest.mark.usefixtures("_as_on_a_gpu")
def test_what_no_mode_can_be_around_runs_without() -> None:
    """As flex_attention and compiled functions, which trace through the mode's own code."""
    seen: list[int] = []

    def reference(x: torch.Tensor) -> torch.Tensor:
        seen.append(torch._C._len_torch_dispatch_stack())
        if seen[-1]:
            raise RuntimeError("cannot be traced")
        return x * 2.0

    (found,) = run_as_written(reference, [_source()])
    assert torch.equal(found, _source() * 2.0)
    assert seen == [1, 0]


@pytest.mark.usefixtures("_as_on_a_gpu")
def test_a_bad_index_is_never_run_without() -> None:
    calls = 0

    def reference(x: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        nonlocal calls
        calls += 1
        return x[ids]

    with pytest.raises(ReferenceError_, match="out of bounds"):
        run_as_written(reference, [_source(), torch.tensor([_ROWS])])
    assert calls == 1


@pytest.mark.parametrize("inference", [False, True])
def test_an_index_is_looked_at_again_once_it_was_written(inference: bool) -> None:
    looked: list[torch.Tensor] = []

    class Counted(torch.Tensor):
        """An index that notes when its extremes are asked for."""

        def aminmax(self) -> Any:  # type: ignore[override]
            """Return the extremes."""
            looked.append(self)
            return torch.aminmax(self.as_subclass(torch.Tensor))

    with torch.inference_mode(inference):
        index = torch.tensor([0, 3]).as_subclass(Counted)
        assert index_range._bounds(index) == (0, 3)
        assert index_range._bounds(index) == (0, 3)
        assert len(looked) == (2 if inference else 1)
        index[1] = 7
        assert index_range._bounds(index) == (0, 7)
