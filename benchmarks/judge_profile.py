"""What a judge thinks about and what it waits for, by samples of its threads' stacks.

    python benchmarks/judge_profile.py --out judge.json -- CANDIDATE --problem PROBLEM --device cuda

Runs `cuassay check` with what follows `--`, samples every thread of the judge each few
milliseconds, and prints by thread where the time went: judging, waiting for the turn of the threads
(`sandbox.host.turns`), for a worker, or for something else. The file has a JSON line for each
sample, [seconds since the judge began, thread, state, number of the stack], and for each stack. A
thread in C code that holds Python's lock is seen when it lets go of it.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from types import FrameType
from typing import Any

_EACH_S = 0.004
_FLUSH_S = 0.2
_OUT = "JUDGE_PROFILE"
# (file, function) of the innermost frames that wait -> what for
_WAITS = {
    ("turns.py", "await_readable"): "worker",
    ("turns.py", "waiting"): "turn",
    ("turns.py", "taken"): "turn",
    ("turns.py", "__call__"): "other",  # for what another thread does once for all
    ("session.py", "_room"): "memory",
    ("side_by_side.py", "result"): "process beside",
    ("selectors.py", "select"): "other",
    ("threading.py", "wait"): "other",
    ("threading.py", "join"): "other",
    ("threading.py", "_wait_for_tstate_lock"): "other",
    ("thread.py", "_worker"): "idle",
}


def stack_of(frame: FrameType | None) -> tuple[str, ...]:
    """Return file:line function of each frame, the outermost first."""
    found = []
    while frame is not None:
        code = frame.f_code
        found.append(f"{code.co_filename}:{frame.f_lineno} {code.co_name}")
        frame = frame.f_back
    return tuple(reversed(found))


def state_of(frame: FrameType | None) -> str:
    """Return what a thread waits for, "judging" where it does not."""
    for _ in range(4):
        if frame is None:
            break
        place = os.path.basename(frame.f_code.co_filename), frame.f_code.co_name
        if place in _WAITS:
            return _WAITS[place]
        frame = frame.f_back
    return "judging"


def sample(out: str) -> None:
    """Sample the threads of this process until it ends, into the file `out`."""
    begun = time.time()
    stacks: dict[tuple[str, ...], int] = {}
    own: list[int] = []

    def look() -> None:
        own.append(threading.get_ident())
        # A line at a time: a judge that outlives its driver is killed.
        with open(out, "w", encoding="utf-8", buffering=1 << 16) as file:
            written = begun
            while True:
                time.sleep(_EACH_S)
                now = time.time()
                names = {thread.ident: thread.name for thread in threading.enumerate()}
                for ident, frame in sys._current_frames().items():
                    if ident in own:
                        continue
                    stack = stack_of(frame)
                    if stack not in stacks:
                        stacks[stack] = len(stacks)
                        file.write(json.dumps({"stack": stack}) + "\n")
                    row = [round(now - begun, 4), names.get(ident, "?"), state_of(frame)]
                    file.write(json.dumps({"row": [*row, stacks[stack]]}) + "\n")
                if now - written > _FLUSH_S:
                    written = now
                    file.flush()

    threading.Thread(target=look, name="samples", daemon=True).start()


def report(out: Path, most: int = 12) -> None:
    """Print where the time of each thread went."""
    stacks: list[list[str]] = []
    rows: list[list[Any]] = []
    for line in out.read_text().splitlines():
        try:
            said = json.loads(line)
        except ValueError:  # cut off by its end
            continue
        if "stack" in said:
            stacks.append(said["stack"])
        else:
            rows.append(said["row"])
    times: dict[str, collections.Counter[str]] = {}
    within: dict[str, collections.Counter[str]] = {}
    for _, thread, state, number in rows:
        times.setdefault(thread, collections.Counter())[state] += 1
        if state == "judging":
            own = [one for one in stacks[number] if "cuassay" in one] or ["?"]
            name = own[-1].rpartition("cuassay/")[2]
            within.setdefault(thread, collections.Counter())[name] += 1
    for thread, states in times.items():
        parts = ", ".join(f"{state} {count}" for state, count in states.most_common())
        print(f"{thread}: samples of about {_EACH_S:g} s: {parts}")
        for name, count in within.get(thread, collections.Counter()).most_common(most):
            print(f"    {count:5d} {name}")


def main() -> int:
    """Run one trial and report on its judge."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--out", type=Path, default=Path("judge-profile.json"))
    parser.add_argument("--each", type=float, default=120.0, help="seconds for the trial")
    parser.add_argument("check", nargs=argparse.REMAINDER, help="what `cuassay check` is given")
    given = parser.parse_args()
    asked = given.check[1:] if given.check[:1] == ["--"] else given.check
    out = given.out.resolve()
    with tempfile.TemporaryDirectory(prefix="judge-profile-") as folder:
        here = str(Path(__file__).resolve().parent)
        Path(folder, "sitecustomize.py").write_text(
            "import os, sys\n"
            "if 'cuassay.judge' in sys.orig_argv:\n"
            f"    sys.path.append({here!r})\n"
            "    import judge_profile\n"
            f"    judge_profile.sample(os.environ[{_OUT!r}])\n"
        )
        path = os.pathsep.join(filter(None, [folder, os.environ.get("PYTHONPATH", "")]))
        environment = os.environ | {"PYTHONPATH": path, _OUT: str(out)}
        command = [sys.executable, "-m", "cuassay", "check", *asked]
        begun = time.perf_counter()
        try:
            done = subprocess.run(
                command,
                env=environment,
                timeout=given.each,
                check=False,
                stdout=subprocess.DEVNULL,
            )
        except subprocess.TimeoutExpired:
            print(f"no verdict in {given.each:g} s")
        else:
            print(f"exit code {done.returncode} after {time.perf_counter() - begun:.1f} s")
        time.sleep(2.0)  # the judge ends by itself, after its verdict
    report(out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
