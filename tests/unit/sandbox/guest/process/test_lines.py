"""Lines of a candidate that calls in a worker run, of its Python and of its C++."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from cuassay.sandbox.guest.process import lines as module
from cuassay.sandbox.guest.process.lines import Lines


class _Counters:
    """Stands in for the counters of loaded libraries: notes when they are asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def begin(self) -> None:
        self.asked.append("begin")

    def end(self) -> None:
        self.asked.append("end")

    def forget(self) -> None:
        self.asked.append("forget")

    def found(self) -> dict[str, list[list[int]]]:
        return {"kernel.cpp": [[3, -1, 1]]}


@pytest.mark.parametrize("values", [True, False])
def test_one_block_within_another_is_part_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, values: bool
) -> None:
    counters = _Counters()
    monkeypatch.setattr(module, "HOST_LINES", counters)
    path = tmp_path / "kernel.py"
    path.write_text("def run(x):\n    return x + 1\n")
    lines = Lines(str(tmp_path), values=values)
    run = runpy.run_path(str(path))["run"]
    with lines.noted(), lines.noted():
        run(1)
    assert counters.asked == ["begin", "end"]
    found = lines.found()
    assert found["host"] == {"kernel.cpp": [[3, -1, 1]]}
    assert [2, 4] in [[*place] for place in found["files"]["kernel.py"]["at"]]
    lines.forget()
    assert counters.asked[-1] == "forget"
