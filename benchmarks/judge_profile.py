"""What a judge thinks about and what it waits for, by samples of the thread that thinks.

    python benchmarks/judge_profile.py --out judge.json -- CANDIDATE --problem PROBLEM --device cuda

Runs `cuassay check` with what follows `--` and samples the judge's main thread each few
milliseconds, with the processor seconds that it took since the last sample. Prints wall and
processor seconds by function of cuassay, callees included, and by line, without them. The file has
a JSON line for each sample, [seconds since the judge began, wall seconds, processor seconds, number
of the stack], and for each stack. In C code that holds Python's lock it is seen on leaving.
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

_EACH_S = 0.003
_FLUSH_S = 0.2
_OUT = "JUDGE_PROFILE"


def stack_of(frame: FrameType | None) -> tuple[str, ...]:
    """Return file:line function of each frame, the outermost first."""
    found = []
    while frame is not None:
        code = frame.f_code
        found.append(f"{code.co_filename}:{frame.f_lineno} {code.co_name}")
        frame = frame.f_back
    return tuple(reversed(found))


def sample(out: str) -> None:
    """Sample the main thread of this process until it ends, into the file `out`."""
    main = threading.main_thread().ident
    assert main is not None
    clock = time.pthread_getcpuclockid(main)

    def look() -> None:
        begun = written = last = time.time()
        spent_s = time.clock_gettime(clock)
        stacks: dict[tuple[str, ...], int] = {}
        # A line at a time: a judge that outlives its driver is killed.
        with open(out, "w", encoding="utf-8", buffering=1 << 16) as file:
            while True:
                time.sleep(_EACH_S)
                stack = stack_of(sys._current_frames().get(main))
                now, cpu_s = time.time(), time.clock_gettime(clock)
                if stack not in stacks:
                    stacks[stack] = len(stacks)
                    file.write(json.dumps({"stack": stack}) + "\n")
                seconds = (now - begun, now - last, cpu_s - spent_s)
                row = [*(round(one, 5) for one in seconds), stacks[stack]]
                file.write(json.dumps({"row": row}) + "\n")
                last, spent_s = now, cpu_s
                if now - written > _FLUSH_S:
                    written = now
                    file.flush()

    threading.Thread(target=look, name="samples", daemon=True).start()


def report(out: Path, most: int = 50) -> None:
    """Print where the time went."""
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
    wall: collections.Counter[str] = collections.Counter()
    cpu: collections.Counter[str] = collections.Counter()
    lines: collections.Counter[str] = collections.Counter()
    waits_s = 0.0
    for _, wall_s, cpu_s, number in rows:
        stack = stacks[number]
        own = [place.rpartition("cuassay/")[2] for place in stack if "cuassay/" in place]
        if stack and "selectors.py" in stack[-1]:
            waits_s += wall_s
        for name in {f"{one.partition(':')[0]} {one.rpartition(' ')[2]}" for one in own}:
            wall[name] += wall_s
            cpu[name] += cpu_s
        if own:
            lines[own[-1]] += cpu_s
    total_s, spent_s = (sum(row[place] for row in rows) for place in (1, 2))
    print(f"{total_s:.1f} s, {spent_s:.1f} s of a processor, {waits_s:.1f} s waiting for processes")
    print("processor and wall seconds with callees")
    for name, seconds in cpu.most_common(most):
        print(f"    {seconds:7.2f} {wall[name]:7.2f} {name}")
    print("processor seconds by line")
    for name, seconds in lines.most_common(most // 2):
        print(f"    {seconds:7.2f} {name}")


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
