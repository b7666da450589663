"""Offsets and lengths of a generator are told by what the reference accepts, by nothing less."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated

import pytest
import torch

from cuassay.contract.ragged import with_ragged
from cuassay.errors import ReferenceError_
from cuassay.formats.native.declaration import problem, problem_of, tensor
from cuassay.model.domain import Domain, Index, Lengths, Offsets, Opaque
from cuassay.model.problem import ExprAxis, Problem, Scalar, TensorSpec, VarAxis

Tensors = Mapping[str, torch.Tensor | Scalar]
SIZES = {"tokens": 24, "rows": 4, "slots": 3, "pages": 20}


@problem(
    axes={"tokens": (1, 64), "rows": (1, 8), "slots": (1, 8), "pages": (1, 64)},
    workloads=({"tokens": 24, "rows": 4, "slots": 3, "pages": 20},),
)
def served(
    x: Annotated[torch.Tensor, tensor("float32", "tokens", 2)],
    cache: Annotated[torch.Tensor, tensor("float32", "pages", 8, 2)],
    table: Annotated[torch.Tensor, tensor("int32", "rows", "slots", domain=Index(axis="pages"))],
    starts: Annotated[torch.Tensor, tensor("int32", "rows+1", domain=Offsets(axis="tokens"))],
    used: Annotated[torch.Tensor, tensor("int32", "rows", domain=Lengths(axis="slots"))],
) -> Annotated[torch.Tensor, tensor("float32", "rows", name="y")]:
    return x.sum() + cache.sum() + table.sum() + starts.sum() + used.sum()


def foreign() -> Problem:
    """Return the problem as its generator alone would tell it."""
    found = problem_of(served)
    assert found is not None
    inputs = tuple(
        dataclasses.replace(spec, domain=Opaque(), domain_source="inferred")
        if isinstance(spec, TensorSpec) and spec.name in ("starts", "used")
        else spec
        for spec in found.inputs
    )
    return dataclasses.replace(found, inputs=inputs)


def look(**changed: Sequence[int]) -> Tensors:
    generator = torch.Generator().manual_seed(1)
    values: dict[str, torch.Tensor | Scalar] = {
        "x": torch.randn(24, 2, generator=generator),
        "cache": torch.randn(20, 8, 2, generator=generator),
        "table": torch.randint(20, (4, 3), dtype=torch.int32, generator=generator),
        "starts": torch.tensor([0, 5, 11, 17, 24], dtype=torch.int32),
        "used": torch.tensor([3, 20, 7, 24], dtype=torch.int32),
    }
    given = {name: torch.tensor(each, dtype=torch.int32) for name, each in changed.items()}
    return {**values, **given}


def sums(values: Tensors) -> list[torch.Tensor]:
    """Sums of the rows between starts and of the tokens that rows have in their pages."""
    given = {name: value for name, value in values.items() if isinstance(value, torch.Tensor)}
    ends = given["starts"].tolist()
    parts = [given["x"][low:high] for low, high in itertools.pairwise(ends)]
    tokens = given["cache"][given["table"].long()].flatten(1, 2)
    kept = torch.arange(tokens.shape[1]) < given["used"].unsqueeze(1)
    y = torch.stack([part.sum() for part in parts])
    return [y + tokens.masked_fill(~kept[..., None], 0.0).sum((1, 2))]


def means(values: Tensors) -> list[torch.Tensor]:
    """As `sums`, undefined for an empty part."""
    starts = values["starts"]
    assert isinstance(starts, torch.Tensor)
    return [sums(values)[0] / starts.diff()]


def refusing(values: Tensors) -> list[torch.Tensor]:
    """As `sums`, for the generator's own starts alone."""
    starts = values["starts"]
    assert isinstance(starts, torch.Tensor)
    if starts.tolist() != [0, 5, 11, 17, 24]:
        raise ReferenceError_("other starts")
    return sums(values)


def unused(values: Tensors) -> list[torch.Tensor]:
    """Nothing depends on the integers."""
    x = values["x"]
    assert isinstance(x, torch.Tensor)
    return [x.sum(1)[:4]]


def domains(run: Callable[[Tensors], list[torch.Tensor]], *looks: Tensors) -> dict[str, Domain]:
    made, facts = with_ragged(foreign(), looks or (look(), look()), SIZES, run=run, seed=3)
    found = {spec.name: spec.domain for spec in made.inputs}
    assert len(facts) == sum(not isinstance(found[n], Opaque) for n in ("starts", "used"))
    return {name: found[name] for name in ("starts", "used")}


def test_starts_are_offsets_and_used_counts_tokens_of_pages() -> None:
    found = domains(sums)
    assert found == {
        "starts": Offsets(axis="tokens"),
        "used": Lengths(axis="slots*8", low=1, page=8),
    }


def test_no_row_is_longer_than_a_table_of_pages_is_made_for() -> None:
    plain = foreign()
    slots = ExprAxis(name="slots", expression="(longest + 7) // 8")
    axes = (*(axis for axis in plain.axes if axis.name != "slots"), VarAxis(name="longest"), slots)
    paged, sizes = dataclasses.replace(plain, axes=axes), {**SIZES, "longest": 22}
    full, other = look(used=[22, 22, 22, 22]), look(used=[22, 5, 22, 1])
    found = with_ragged(paged, (full, other), sizes, run=sums, seed=3)[0].input("used").domain
    assert found == Lengths(axis="longest", low=1, page=8)
    # A generator whose longest row is another one says nothing of that axis.
    found = with_ragged(paged, (look(), full), sizes, run=sums, seed=3)[0].input("used").domain
    assert found == Lengths(axis="slots*8", low=1, page=8)


def test_a_length_of_nothing_is_legal_where_the_generator_makes_one() -> None:
    found = domains(sums, look(), look(used=[0, 20, 7, 24]))
    assert found["used"] == Lengths(axis="slots*8", low=0, page=8)


def test_sizes_of_the_parts_of_an_axis_are_no_free_lengths() -> None:
    found = domains(sums, look(used=[3, 11, 7, 3]), look(used=[6, 6, 6, 6]))  # of 24 tokens
    assert isinstance(found["used"], Opaque)


@pytest.mark.parametrize("run", [means, refusing, unused])
def test_what_the_reference_does_not_accept_or_need_stays_unknown(
    run: Callable[[Tensors], list[torch.Tensor]],
) -> None:
    assert isinstance(domains(run)["starts"], Opaque)


@pytest.mark.parametrize("starts", [[0, 5, 11, 17, 23], [1, 5, 11, 17, 24], [0, 9, 7, 17, 24]])
def test_numbers_that_are_no_offsets_of_an_axis_stay_unknown(starts: list[int]) -> None:
    def anything(values: Tensors) -> list[torch.Tensor]:
        given = values["starts"]
        assert isinstance(given, torch.Tensor)
        return [given.float()]

    assert isinstance(domains(anything, look(starts=starts))["starts"], Opaque)
