"""The worst element, classes and error map of an output that is off."""

from __future__ import annotations

import math

import pytest
import torch

from cuassay.model.dtype import DType
from cuassay.oracle import special
from cuassay.oracle.compare.details import error_map, inspect_classes, worst_element
from cuassay.oracle.compare.sums import Matrices, eager_sums
from cuassay.oracle.truth.types import OutputTruth


def _matrices(rows: int = 40, columns: int = 100) -> Matrices:
    generator = torch.Generator().manual_seed(4)
    truth = torch.randn(rows, columns, dtype=torch.float64, generator=generator)
    return truth.float(), truth, torch.full((rows, columns), 1e-3)


def _output(matrix: Matrices, **changes: object) -> OutputTruth:
    return OutputTruth(
        name="y", dtype=DType.FLOAT32, value=matrix[1], scale=matrix[2], **changes  # type: ignore[arg-type]
    )  # fmt: skip


@pytest.mark.parametrize("least", [0.0, 1e-3])
def test_the_worst_element_is_found_in_its_tile(least: float) -> None:
    matrix = _matrices()
    matrix[0][17, 33] += 0.5
    output = _output(matrix, least=least)
    score, z, place, got, want = worst_element(matrix, eager_sums(*matrix, output), output).tolist()
    assert place == 17 * 100 + 33
    assert score == pytest.approx(500, rel=0.01)
    assert z == pytest.approx(score, rel=1e-5)
    assert got - want == pytest.approx(0.5, rel=1e-5)


def test_a_class_that_the_reference_shows_too_is_no_mismatch() -> None:
    matrix = _matrices()
    matrix[0][3, 4] = matrix[0][20, 1] = math.nan
    found = inspect_classes(matrix, _output(matrix))
    assert (found.differing, found.worst) == (2, 304)
    alternative = torch.full((40, 100), -1, dtype=torch.int8)
    alternative[3, 4] = special.NAN
    found = inspect_classes(matrix, _output(matrix, alternative=alternative))
    assert (found.differing, found.worst) == (1, 2001)


def test_without_a_mismatch_the_largest_score_is_the_worst() -> None:
    matrix = _matrices()
    matrix[0][39, 99] += 1.0
    found = inspect_classes(matrix, _output(matrix))
    assert (found.differing, found.worst) == (0, 3999)
    assert found.peak == pytest.approx(1000, rel=0.01)


def test_a_map_has_each_tiles_worst_and_counts_every_element() -> None:
    matrix = _matrices()
    matrix[0][39, 99] += 0.05
    matrix[0][0, 0] = math.inf
    found = error_map(matrix, _output(matrix))
    assert found.tile == (2, 2)
    assert (found.rows, found.columns, len(found.cells)) == (20, 50, 1000)
    assert found.cells[0] == 1e9
    assert found.cells[-1] == pytest.approx(50, rel=0.01)
    assert sum(found.counts) == 4000
    assert found.counts[-1] == 1  # not finite
    assert found.counts[3] == 1  # from 16 to 64 times the achievable error


def test_the_curve_runs_through_the_worst_element_along_the_longer_line() -> None:
    matrix = _matrices()
    matrix[0][7, 60] += 0.5
    curve = error_map(matrix, _output(matrix)).curve
    assert curve is not None
    assert (curve.axis, curve.start, len(curve.got)) == ("columns", 0, 100)
    assert curve.got[60] - curve.expected[60] == pytest.approx(0.5, rel=1e-5)
    tall = _matrices(600, 3)
    tall[0][500, 1] += 0.5
    curve = error_map(tall, _output(tall)).curve
    assert curve is not None
    assert (curve.axis, len(curve.got)) == ("rows", 256)
    assert curve.got[500 - curve.start] - curve.expected[500 - curve.start] > 0.4
