"""Draw docs/pictures/verdict.svg: the terminal's report of a real run of the tutorial's kernel.

python docs/pictures/make_verdict.py [RUN]    a kept run of that kernel, else a new trial
"""

from __future__ import annotations

import io
import re
import sys
import tempfile
from pathlib import Path

from rich.console import Console

import cuassay
from cuassay.model.events import EngineFinished
from cuassay.model.verdict import Verdict
from cuassay.report.terminal.trial import TerminalReport
from cuassay.store.runs import open_run

HERE = Path(__file__).resolve().parent
_KERNEL = re.compile(r"```python\n# kernel.py\n(.*?)```", re.DOTALL)


def main() -> None:
    """Save what the terminal shows of the run, or of a new trial of the tutorial's kernel."""
    kept = open_run(sys.argv[1]).verdict() if sys.argv[1:] else None
    verdict = _judged() if kept is None else kept
    console = Console(
        record=True, width=88, force_terminal=True, color_system="truecolor", file=io.StringIO(),
        markup=False, highlight=False,
    )  # fmt: skip
    TerminalReport(console).consume(EngineFinished(verdict=verdict))
    title = "cuassay check kernel.py --problem rmsnorm --profile quick"
    console.save_svg(str(HERE / "verdict.svg"), title=title)


def _judged() -> Verdict:
    """Judge the first kernel of the tutorial."""
    text = (HERE.parent / "tutorial.md").read_text(encoding="utf-8")
    found = _KERNEL.search(text)
    assert found is not None, "the tutorial shows no kernel"
    with tempfile.TemporaryDirectory() as folder:
        kernel = Path(folder) / "kernel.py"
        kernel.write_text(f"# kernel.py\n{found[1]}", encoding="utf-8")
        return cuassay.check(
            kernel, problem="rmsnorm", profile="quick", device="cpu", seed=20261123
        )


if __name__ == "__main__":
    main()
