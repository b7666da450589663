"""Which sizes are recorded beside those of the plan."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from cuassay.judge.proofs.launch_samples import LaunchSample, sizes_around
from cuassay.model.problem import VarAxis
from cuassay.model.recording import Recording
from tests.support.builds import problem


def _sample(rows: int, columns: int) -> LaunchSample:
    recording = Recording(modules=(), launches=())
    return LaunchSample(axes={"rows": rows, "columns": columns}, recording=recording)


def _kinds(samples: Sequence[LaunchSample]) -> list[list[LaunchSample]]:
    """Return samples by the least power of two that holds their columns, as Triton compiles."""
    found: dict[int, list[LaunchSample]] = {}
    for one in samples:
        found.setdefault((one.axes["columns"] - 1).bit_length(), []).append(one)
    return list(found.values())


def test_each_piece_of_the_domain_gets_sizes_of_its_own() -> None:
    plain = problem()
    matrix = ("rows", "columns")
    tensor = dataclasses.replace(plain.outputs[0], shape=matrix)
    given = dataclasses.replace(
        plain, axes=(VarAxis(name="rows"), VarAxis(name="columns")),
        inputs=(dataclasses.replace(tensor, name="x"),), outputs=(tensor,),
    )  # fmt: skip
    samples = [_sample(9, columns) for columns in (40, 100, 200, 500)]
    assert sizes_around(given, _kinds(samples[:2]), {(9, 40), (9, 100)}) is None, "a law is enough"
    tried = {(one.axes["rows"], one.axes["columns"]) for one in samples}
    for _ in range(200):
        sizes = sizes_around(given, _kinds(samples), tried)
        if sizes is None:
            break
        assert (sizes["rows"], sizes["columns"]) not in tried
        assert sizes["rows"] >= 1
        tried.add((sizes["rows"], sizes["columns"]))
        samples.append(_sample(sizes["rows"], sizes["columns"]))
    kinds = {(one[0].axes["columns"] - 1).bit_length(): one for one in _kinds(samples)}
    for power in (6, 7, 8, 9):
        assert len(kinds[power]) >= 12
        assert len({one.axes["rows"] for one in kinds[power]}) >= 4
        assert any(one.axes["columns"] % 16 == 0 for one in kinds[power])
        assert any(one.axes["columns"] % 16 for one in kinds[power])
