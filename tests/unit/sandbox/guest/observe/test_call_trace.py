"""Where a candidate's own code is, seen from the frames inside of it."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType
from typing import Any

import ptxsan
from cuassay.sandbox.guest.observe.call_trace import candidate_line


def test_a_launch_that_waits_in_the_machine_is_at_the_candidates_line(tmp_path: Path) -> None:
    place = tmp_path / "src" / "kernel.py"
    machine = Path(ptxsan.__file__).with_name("run.py")
    inside: dict[str, Any] = {"frame_of": sys._getframe}
    exec(compile("def launch():\n    return frame_of()\n", str(machine), "exec"), inside)
    exec(compile("\n\ndef run():\n    return launch()\n", str(place), "exec"), inside)
    frame: FrameType = inside["run"]()
    assert candidate_line(frame) == ("kernel.py", 4)
