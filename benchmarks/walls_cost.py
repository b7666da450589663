"""What the walls cost an honest trial: CPU time of each piece, and how often a trial pays it.

    python benchmarks/walls_cost.py

Each piece is timed on its own, in a process like the one that pays it, user and system time
together. How often a trial at `quick` pays it is counted while an honest kernel is judged: at the
judge's side directly, at the candidate's side by the processes that were started.
"""

from __future__ import annotations

import ast
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest.mock import patch

from common import ROOT, save

_TIMES = 20
_PROBLEMS = ("rmsnorm", "softmax_masked")
_HONEST = ROOT / "tests" / "hostile" / "attacks" / "honest"
_EVENTS = 10_000  # that an audit hook sees


def _used_s() -> float:
    of = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in of)


def _each_ms(act: Callable[[], object], times: int = _TIMES) -> float:
    """Return the CPU time of one call in milliseconds, that of children that ended included."""
    act()
    before = _used_s()
    for _ in range(times):
        act()
    return round((_used_s() - before) / times * 1e3, 4)


def _forked_ms(act: Callable[[], object]) -> float:
    """Return what `act` costs in a fresh fork of this process, beside the fork itself."""

    def fork(does: Callable[[], object]) -> None:
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                does()
                code = 0
            finally:
                os._exit(code)
        if os.waitpid(pid, 0)[1]:
            raise SystemExit("a piece of the walls failed in its process")

    return round(_each_ms(lambda: fork(act)) - _each_ms(lambda: fork(lambda: None)), 4)


def judge_side(folder: Path) -> dict[str, float]:
    """Return the milliseconds of what the judge or the driver does for H1 to H10."""
    from cuassay import beneath
    from cuassay.model.candidate import SourceFile
    from cuassay.model.python_text import parse_python
    from cuassay.sandbox import trees
    from cuassay.sandbox.host.memory_group import make_group
    from cuassay.sandbox.host.own_lines import own_lines
    from cuassay.sandbox.host.unnamed import unnamed_bytes

    text = (_HONEST / "rmsnorm.py").read_text("utf-8")
    (folder / "kernel.py").write_text(text, "utf-8")
    for number in range(50):
        (folder / str(number)).touch()
    sources = (SourceFile(path="kernel.py", text=text),)
    sleeper = subprocess.Popen(
        [sys.executable, "-P", "-c", "import torch; print(1, flush=True); input()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert sleeper.stdout is not None
    sleeper.stdout.readline()

    def group() -> None:
        made = make_group(1 << 36)
        if made is not None:
            made.close()

    try:
        return {
            "H1 a file opened below its folder": _each_ms(
                lambda: os.close(beneath.open_beneath(folder, "kernel.py"))
            ),
            "H1 the same file opened by its path": _each_ms(
                lambda: os.close(os.open(folder / "kernel.py", os.O_RDONLY))
            ),
            "H5 memory without a name, one look": _each_ms(lambda: unnamed_bytes([sleeper.pid])),
            "H5 control group, made and removed": _each_ms(group),
            "H6 bytes of a folder, one look": _each_ms(
                lambda: trees.excess(folder, files=10_000, depth=200, size=1 << 31)
            ),
            "H8 a text parsed to a bounded depth": _each_ms(lambda: parse_python(text)),
            "H8 the same text parsed by Python": _each_ms(lambda: ast.parse(text)),
            "H10 lines of one exception": _each_ms(
                lambda: own_lines((("kernel.py", 5), ("/etc/x", 1)), sources)
            ),
        }
    finally:
        sleeper.kill()
        sleeper.communicate()


def candidate_side(folder: Path) -> dict[str, float]:
    """Return the milliseconds of what a candidate's process does before anything is loaded."""
    import torch

    from cuassay.sandbox import filter
    from cuassay.sandbox import syscalls as kernel
    from cuassay.sandbox.guest.observe import own_process
    from cuassay.sandbox.guest.process import apart, guise, walls

    def frames(watched: bool) -> None:
        if watched:
            own_process.watch(str(folder))
        for _ in range(_EVENTS):
            sys._getframe(0)

    def filtered() -> None:
        kernel.forbid_new_privileges()
        filter.refuse_host_calls()

    torch.zeros(1)
    return {
        "all namespaces (H4 among them)": _forked_ms(lambda: walls.enter_namespaces(())),
        "H4, H7 the filter of system calls": _forked_ms(filtered),
        "H11 questions noted, one event": round(
            (_forked_ms(lambda: frames(True)) - _forked_ms(lambda: frames(False))) / _EVENTS, 6
        ),
        "H11 the looks of production": _forked_ms(lambda: guise.put_on(str(folder))),
        "H11 clocks that can go forward": _forked_ms(apart._clocks),
    }


def counted(folder: Path) -> dict[str, Any]:
    """Return how often a trial of an honest kernel at `quick` pays, and its CPU seconds."""
    sys.path.insert(0, str(ROOT))
    from tests.zoo.judging import Gate

    from cuassay.formats import load_problem
    from cuassay.sandbox import trees
    from cuassay.sandbox.host import handle, nursery

    found: dict[str, Any] = {}
    with Gate("cpu", without=("machine",)) as gate:
        for number, name in enumerate((_PROBLEMS[0], *_PROBLEMS)):
            path = folder / f"{name}.py"
            text = (_HONEST / f"{name}.py").read_text("utf-8")
            path.write_text(text.replace("def right(", "def run("), "utf-8")
            counts: Counter[str] = Counter()
            with ExitStack() as stack:
                for what, holder, attribute in (
                    ("looks at folders", trees, "excess"),
                    ("looks at memory without a name", handle, "unnamed_bytes"),
                    ("processes apart", nursery.Plain, "spawn"),
                    ("workers", nursery.Nursery, "spawn"),
                ):
                    real = getattr(holder, attribute)

                    def count(
                        *given: Any,
                        what: str = what,
                        real: Any = real,
                        counts: Counter[str] = counts,
                        **more: Any,
                    ) -> Any:
                        counts[what] += 1
                        return real(*given, **more)

                    stack.enter_context(patch.object(holder, attribute, count))
                before, started = _used_s(), time.monotonic()
                verdict = gate.judge(load_problem(name), path)
            if number:  # the first one starts what the gate keeps
                found[name] = {
                    "decision": verdict.verdict.decision.value,
                    "judge_cpu_s": round(_used_s() - before, 2),
                    "wall_s": round(time.monotonic() - started, 1),
                    "checks_run": len(verdict.verdict.checks),
                    **counts,
                }
    return found


def main() -> None:
    """Measure and save."""
    with tempfile.TemporaryDirectory() as name:
        own = Path(name, "own")
        own.mkdir()
        found = {
            "unit": "milliseconds of user and system time, once",
            "of the candidate's process": candidate_side(own),
            "of the judge": judge_side(own),
            "an honest kernel at quick": counted(Path(name)),
        }
    print(found)
    print(save("walls-cost", found))


if __name__ == "__main__":
    main()
