"""One call of a candidate below a tool of compute-sanitizer, in a process for that alone.

Started by the judge, not by a zygote: the tool has to load itself into the process from the
start. Private folders, a scrubbed environment and a time limit hold here too; the process
confines itself before it loads the candidate (see sanitizer_child). The tool's report is
written where the candidate cannot write, and returned as it is: untrusted text.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from cuassay.held_folder import SANITIZER, make_held_folder
from cuassay.model.candidate import Candidate, Language
from cuassay.model.device import Device
from cuassay.model.problem import Scalar
from cuassay.model.scenario import Scenario
from cuassay.model.steps import Mode
from cuassay.model.trace import Finished, ScenarioResult, StepDone
from cuassay.sandbox import environment, processes, trees
from cuassay.sandbox.kernel_names import kernels_of
from cuassay.sandbox.ran import Ran
from cuassay.sandbox.readable import readable

TOOLS = (Mode.MEMCHECK, Mode.RACECHECK, Mode.SYNCCHECK, Mode.INITCHECK)
DONE = "done"  # the tool ran to its end, and the candidate was called
_REPORT_BYTES, _PRINT_LIMIT = 1 << 20, 64
_REFUSALS = re.compile(
    r"device not supported|insufficient permission|ERR_NVGPUCTRPERM|permission denied|"
    r"error 999|unable to (?:launch|attach|connect)|no attachable process|not supported on",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolEnded:
    """How a run below the tool ended, in words; the report may be empty."""

    status: str
    report: str = ""
    log: str = ""


def run_below(
    scenario: Scenario,
    *,
    candidate: Candidate,
    recipe: Mapping[str, Any],
    inputs: Mapping[str, torch.Tensor | Scalar],
    device: Device,
    binary: str,
) -> Ran:
    """Call the candidate once on `inputs` below the tool that the scenario's mode names.

    `recipe` is what a worker is asked to build; `binary` the path of compute-sanitizer. The
    facts of the last step are `status` (DONE, or why nothing was seen), `kernels`, and the
    tool's `report` and `log`. Never raises for what the tool or the candidate does.
    """
    started = time.perf_counter()
    kernels = kernels_of(candidate)
    if not kernels and candidate.language is Language.PYTHON:
        ended = ToolEnded(status="no kernels of its own")
    elif not binary:
        ended = ToolEnded(status="compute-sanitizer is not installed")
    else:
        folder, lock = make_held_folder(SANITIZER, remove=trees.remove)
        try:
            for name in ("home", "tmp", "work/tmp"):
                (folder / name).mkdir(parents=True)
            values = {k: v.cpu() if isinstance(v, torch.Tensor) else v for k, v in inputs.items()}
            torch.save(values, folder / "inputs.pt")
            axes = dict(scenario.cases[0].axes)
            case = {
                "recipe": dict(recipe),
                "device": device,
                "axes": axes,
                "readable": [*readable(os.environ, device=device), str(folder)],
                "told": environment.worker_settings(Path(recipe["folder"])),
            }
            (folder / "case.json").write_text(json.dumps(case), encoding="utf-8")
            ended = _supervised(
                scenario, folder, Path(recipe["folder"]), device=device, binary=binary
            )
        except OSError as error:
            ended = ToolEnded(status=f"the tool cannot be started: {error.strerror or error}")
        finally:
            trees.remove(folder)
            os.close(lock)
    facts = (
        ("status", ended.status[:300]),
        ("kernels", " ".join(kernels)),
        ("report", ended.report),
        ("log", ended.log),
    )
    last = len(scenario.steps) - 1
    records = tuple(
        StepDone(index=index, facts=facts if index == last else ())
        for index in range(len(scenario.steps))
    )
    return Ran(
        ScenarioResult(
            records=records,
            termination=Finished(),
            duration_s=time.perf_counter() - started,
        ),
        (),
    )


def command(tool: Mode, binary: str, folder: Path) -> list[str]:
    """Return the command line of one run."""
    return [
        binary,
        *("--tool", tool.value, "--xml", "--save", str(folder / "report.xml")),
        *("--log-file", str(folder / "log"), "--print-limit", str(_PRINT_LIMIT)),
        *("--target-processes", "all"),
        *(("--report-api-errors", "no") if tool is Mode.MEMCHECK else ()),
        *(sys.executable, "-P", "-m", "cuassay.sandbox.guest.process.sanitizer_child", str(folder)),
    ]


def _supervised(
    scenario: Scenario, folder: Path, cache: Path, *, device: Device, binary: str
) -> ToolEnded:
    """Run the tool within the scenario's time limit and end whatever it leaves behind."""
    with open(folder / "printed", "wb") as printed:
        kept = environment.scrubbed(os.environ, device=device, folder=folder)
        kept |= environment.private(folder / "work", cache)
        process = subprocess.Popen(
            command(scenario.mode, binary, folder),
            env=kept | {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"},
            cwd=folder / "work",
            stdin=subprocess.DEVNULL,
            stdout=printed,
            stderr=printed,
            start_new_session=True,
        )
        try:
            process.wait(scenario.timeout_s)
            late = False
        except subprocess.TimeoutExpired:
            late = True
        finally:
            # Kill the tool, the candidate's process and all that they started
            found = processes.descendants([process.pid], processes.visible_processes())
            processes.kill_group(process.pid)
            for pid in found - {process.pid}:
                processes.kill(pid)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(10.0)
    if late:
        return ToolEnded(status=f"no end within {scenario.timeout_s:g} s")
    report, log = _text(folder / "report.xml"), _text(folder / "log")
    told = log + _text(folder / "printed")
    refused = _REFUSALS.search(told)
    if (folder / "work" / "called").is_file():
        return ToolEnded(status=DONE, report=report, log=log)
    if refused and not report.count("<record>"):
        start = told.rfind("\n", 0, refused.start()) + 1
        line = told[start:].split("\n", 1)[0].strip("= \t")[:200]
        return ToolEnded(status=f"the tool was refused: {line}", log=log)
    why = _text(folder / "work" / "failed").strip() or f"exit code {process.returncode}"
    # A fault of the device ends the call, and is what the tool is there to report.
    return ToolEnded(status=DONE if "<record>" in report else why[:300], report=report, log=log)


def _text(path: Path) -> str:
    try:
        with open(path, "rb") as file:
            return file.read(_REPORT_BYTES).decode("utf-8", errors="replace")
    except OSError:
        return ""
