"""Problems of several ranks: axes, outputs of all ranks, references called once or on each."""

from __future__ import annotations

from typing import Annotated

import pytest
import torch
import torch.distributed as dist

from cuassay.errors import ProblemError, UnknownNameError
from cuassay.formats.execute import load_reference
from cuassay.formats.native.declaration import problem, problem_of, scalar, tensor
from cuassay.model.problem import VarAxis
from cuassay.model.ranks import Lies

Own = Annotated[torch.Tensor, tensor("float32", "ranks", "columns")]
Rows = Annotated[torch.Tensor, tensor("float32", "rows", "columns")]
Count = Annotated[int, scalar("int32", size_of="ranks")]
Sum = Annotated[torch.Tensor, tensor("float32", "columns", name="y")]
COLUMNS = {"columns": (1, 64)}


@problem(ranks=(2, 4), axes=COLUMNS, workloads=[{"columns": 3}, {"ranks": 4, "columns": 5}])
def summed(x: Own) -> Sum:
    return x.sum(0)


@problem(ranks=(2, 4), axes=COLUMNS, workloads=[{"columns": 3}], per_rank=True)
def summed_on_each(x: Own) -> Sum:
    dist.all_reduce(x)
    return x


@problem(
    ranks=(3,),
    axes={"rows": (1, 64), **COLUMNS},
    workloads=[{"rows": 5, "columns": 2}],
    split=("x", "y"),
    per_rank=True,
)
def shifted(
    x: Rows, count: Count
) -> tuple[
    Annotated[torch.Tensor, tensor("float32", "rows", "columns", name="y")],
    Annotated[torch.Tensor, tensor("float32", "ranks", name="rows_here")],
]:
    return x + dist.get_rank(), torch.tensor(float(x.shape[0]))


def test_ranks_are_an_axis_and_outputs_have_all_ranks() -> None:
    made = problem_of(summed)
    assert made is not None
    assert made.ranks is not None
    assert made.axes[0] == VarAxis(name="ranks", minimum=2, maximum=4, sizes=(2, 4), declared=True)
    assert [one.axes["ranks"] for one in made.workloads] == [2, 4]
    assert made.outputs[0].shape == ("ranks", "columns")
    assert (made.ranks.lies("x"), made.ranks.agreed) == (Lies.OWN, ("y",))
    assert summed(torch.ones(4, 3)).tolist() == [4.0] * 3  # the function stays what it is


@pytest.mark.parametrize("function", [summed, summed_on_each])
def test_both_forms_of_a_reference_give_all_ranks_answers(function: object) -> None:
    made = problem_of(function)
    assert made is not None
    x = torch.arange(12.0).reshape(4, 3)
    got = load_reference(made).call(x.clone())
    assert isinstance(got, torch.Tensor)
    assert got.tolist() == [x.sum(0).tolist()] * 4


def test_what_a_reference_of_one_rank_writes_into_its_input_is_seen() -> None:
    made = problem_of(summed_on_each)
    assert made is not None
    x = torch.ones(4, 3)
    load_reference(made).call(x)
    assert x.tolist() == [[4.0] * 3] * 4


def test_parts_of_rows_may_be_uneven_and_numbers_are_told() -> None:
    made = problem_of(shifted)
    assert made is not None
    got = load_reference(made).call(torch.zeros(5, 1), 3)
    assert isinstance(got, tuple)
    y, rows_here = got
    assert y[:, 0].tolist() == [0.0, 0.0, 1.0, 1.0, 2.0]
    assert rows_here.tolist() == [2.0, 2.0, 1.0]
    got = load_reference(made).call(torch.zeros(2, 1), 3)
    assert isinstance(got, tuple)
    assert got[1].tolist() == [1.0, 1.0, 0.0]


def test_what_contradicts_ranks_is_refused() -> None:
    def one(x: Rows) -> Rows:
        return x

    def keyword(*, x: Own) -> Sum:
        return x.sum(0)

    axes = {"rows": (1, 8), **COLUMNS}
    works = [{"rows": 2, "columns": 2}]
    with pytest.raises(ProblemError, match=r"ranks is \(1, 2\), expected numbers of ranks from 2"):
        problem(ranks=(1, 2), axes=axes, workloads=works)(one)
    with pytest.raises(ProblemError, match="no input says how many ranks there are"):
        problem(ranks=(2,), axes=axes, workloads=works)(one)
    with pytest.raises(ProblemError, match="is the axis of ranks="):
        problem(ranks=(2,), axes={"ranks": 2, **axes}, workloads=works)(one)
    with pytest.raises(ProblemError, match="inputs go by position"):
        problem(ranks=(2,), axes=COLUMNS, workloads=[{"columns": 2}])(keyword)

    def own(x: Own) -> Sum:
        return x.sum(0)

    with pytest.raises(UnknownNameError, match="tensor in split 'z'"):
        problem(ranks=(2,), axes=COLUMNS, workloads=[{"columns": 2}], split=("z",))(own)
