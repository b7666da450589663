"""The headline and milder faults in training runs: which cells leave the noise band, and when.

    python benchmarks/loops_gpu.py --limit-s 540 --processes 6

Kernels run isolated, as in `cuassay loop train`. Tasks are dealt to several processes of this
script and end with the time limit, in the order of their worth: the bf16 kernel in Triton and
CUDA C++ at full size (5 seeds), its correct twins (at least 200 runs at a small size, some at full
size), then
milder faults. Works on a CPU as well, with `--parts milder,twins --preset tiny`.

The same command goes on where an earlier one ended: runs that the result file or $OUT/loops.json
hold are kept, with their dates, and every run is on disk as soon as it has ended. `--fresh` begins
anew. The JSON says how many runs are planned and how many there are.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common import RESULTS, ROOT, machine, result_path, save
from tests.zoo import planted

from cuassay.engine.executors import visible_gpus
from cuassay.model.device import CPU, CUDA, Device

EXAMPLES = ROOT / "examples" / "embedding_rmsnorm_backward"
CUSTOM = "CUASSAY_RESULTS" in os.environ
FUSED = "embedding_rmsnorm_backward"
DATA = ("real", "zipf1.0", "uniform")
OPTIMIZERS = ("sgd", "momentum", "adamw")
# site, zoo name: bugs and twins differ in the fault alone
MILDER = (
    ("embedding_grad", "bf16_embedding_grad"),
    ("embedding_grad", "tile128_embedding_grad"),
    ("embedding_grad", "tree_embedding_grad"),
    ("cross_entropy_backward", "rounded_probability"),
    ("rmsnorm_backward", "bf16_norm_weight_grad"),
    ("attention", "attention_stale_max"),
    ("rope_neox", "position_offset_ignored"),
)
SEED = 20_261_121
# What makes a run the same run.
KEY = ("part", "kernel", "site", "preset", "planned_steps", "data", "optimizer", "seed", "start")


@dataclass(frozen=True, kw_only=True)
class Task:
    """One cell of one kernel."""

    part: str
    kernel: str
    path: Path
    site: str
    preset: str
    steps: int
    data: str
    optimizer: str
    seed: int
    start: str = "scratch"


def _key(run: Task | dict[str, Any]) -> tuple[str, ...]:
    if isinstance(run, Task):
        run = {name: getattr(run, name) for name in KEY if name != "planned_steps"} | {
            "planned_steps": run.steps
        }
    return tuple(str(run.get(name, "scratch" if name == "start" else "")) for name in KEY)


def earlier(files: Iterable[Path], parts: Iterable[Path]) -> dict[tuple[str, ...], dict[str, Any]]:
    """Return what result files and parts of interrupted calls hold, without runs that erred."""
    found: list[dict[str, Any]] = []
    for path in files:
        with contextlib.suppress(OSError, ValueError, KeyError):
            found += json.loads(path.read_text())["results"]["cells"]
    for path in parts:
        with contextlib.suppress(OSError):
            found += [
                json.loads(line) for line in path.read_text().splitlines() if line[-1:] == "}"
            ]
    return {_key(run): run for run in found if not run.get("error") and not run.get("undecided")}


def _matrix(
    part: str, kernel: str, path: Path, site: str, *, preset: str, steps: int, seeds: int
) -> Iterator[Task]:
    for seed in range(seeds):
        for data in DATA:
            for optimizer in OPTIMIZERS:
                yield Task(
                    part=part,
                    kernel=kernel,
                    path=path,
                    site=site,
                    preset=preset,
                    steps=steps,
                    data=data,
                    optimizer=optimizer,
                    seed=seed,
                )


def tasks(gpu: bool, preset: str) -> list[Task]:
    """Return every task, most telling first within its part."""
    found: list[Task] = []
    for kind in ("triton.py", "cu") if gpu else ():
        suffix = f"_{kind}" if kind == "triton.py" else f".{kind}"
        for word, part, seeds, size, steps in (
            ("bf16", "headline", 5, preset, 80),
            ("fp32", "twins at full size", 1, preset, 80),
            ("fp32", "twins", 12, "tiny", 20),
        ):
            path = EXAMPLES / f"kernel_{word}{suffix}"
            found += _matrix(part, path.name, path, FUSED, preset=size, steps=steps, seeds=seeds)
    for site, name in MILDER:
        for folder, part in (("bugs", "milder"), ("twins", "milder twins")):
            path = planted.candidate(folder, name)
            base = _matrix(part, name, path, site, preset="tiny", steps=60, seeds=1)
            cells = [t for t in base if t.data != "zipf1.0" and t.optimizer != "momentum"]
            found += cells
            found += [replace(t, start="trained") for t in cells if t.data == "real"]
    if not gpu:
        path = planted.twin_of("bf16_embedding_grad")
        found += _matrix(
            "twins", path.stem, path, "embedding_grad", preset="tiny", steps=20, seeds=24
        )
    return sorted(found, key=_worth)


def _worth(task: Task) -> float:
    """Return when a task comes: seeds of the headline first, others spread between them."""
    match task.part:
        case "headline":
            return float(task.seed)
        case "twins":
            return 0.5 + 0.3 * task.seed
        case "twins at full size":
            return 1.5
        case _:
            return 2.2


def run_shard(chosen: list[Task], *, device: Device, deadline: float, out: Path) -> None:
    """Run tasks until the deadline; write one line of JSON each."""
    import torch

    from cuassay.formats import load_candidate
    from cuassay.model.loop import Start
    from cuassay_loops import presets, sites
    from cuassay_loops.kernels import IsolatedKernel
    from cuassay_loops.report.train_words import cell as described
    from cuassay_loops.results import Cell
    from cuassay_loops.train import trained
    from cuassay_loops.train.cell import Settings, run_cell

    torch.set_num_threads(1)
    kernels: dict[tuple[Path, str], IsolatedKernel] = {}
    with out.open("w", buffering=1) as file:
        for task in chosen:
            if time.time() > deadline:
                break
            size = presets.preset(task.preset)
            site = sites.find_site(task.site)
            key = (task.path, task.preset)
            try:
                if key not in kernels:
                    problem = sites.site_problem(site, "bf16", vocab=size.vocab)
                    candidate = load_candidate(str(task.path), problem)
                    kernels[key] = IsolatedKernel(candidate, problem, device=device)
                start = Start(task.start)
                weights = None
                if start is Start.TRAINED:
                    weights = trained.weights(size, device=device, say=lambda text: None)
                result = run_cell(
                    Cell(
                        data=task.data,
                        optimizer=task.optimizer,
                        precision="bf16",
                        seed=task.seed,
                        start=start,
                    ),
                    Settings(
                        site=site.name,
                        kernel=kernels[key],
                        preset=size,
                        steps=task.steps,
                        device=device,
                        seed=SEED,
                        weights=weights,
                        stop_early=task.part != "headline",
                    ),
                )
                told: dict[str, Any] = described(result)
                if task.part != "headline" or task.seed:
                    told.pop("curves")
            except Exception as error:
                told = {"error": f"{type(error).__name__}: {error}"[:2000]}
            head = {"part": task.part, "kernel": task.kernel, "site": task.site}
            head |= {"preset": task.preset, "planned_steps": task.steps}
            asked = {"data": task.data, "optimizer": task.optimizer, "seed": task.seed}
            asked |= {"start": task.start, "date": machine()["date"]}
            file.write(json.dumps(head | asked | told) + "\n")
    for kernel in kernels.values():
        kernel.close()


def summary(cells: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return, for each kernel and setting, how many runs left, and where and when they did."""
    groups: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for cell in cells:
        names = ("part", "kernel", "site", "preset", "data", "optimizer")
        key = (*(str(cell[name]) for name in names), str(cell.get("start", "")))
        groups.setdefault(key, []).append(cell)
    lines = []
    for key, runs in sorted(groups.items()):
        left = [run for run in runs if run.get("gradient_left_band")]
        lines.append(
            dict(zip(("part", "kernel", "site", "preset", "data", "optimizer", "start"), key,
                     strict=True))
            | {
                "runs": len(runs),
                "gradient_left": len(left),
                "loss_left": sum(bool(run.get("loss_left_band")) for run in runs),
                "failed": sum(bool(run.get("failure") or run.get("error")) for run in runs),
                "undecided": sum(bool(run.get("undecided")) for run in runs),
                "first_step": [run["step"] for run in left],
                "parameter": sorted({run["parameter"] for run in left}),
                "deviation": [run["deviation"] for run in left],
                "bias": [run["bias"] for run in left],
                "loss": [
                    [run.get("loss_trusted"), run.get("loss_noise"), run.get("loss_candidate")]
                    for run in runs
                ],
            }
        )  # fmt: skip
    return lines


def main() -> int:
    """Deal the tasks out, wait, merge, print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--limit-s", type=float, default=540.0)
    parser.add_argument("--processes", type=int, default=6)
    parser.add_argument("--parts", default="")
    parser.add_argument("--preset", default="medium")
    parser.add_argument("--first-seed", type=int, default=0, help="go on where a run ended")
    parser.add_argument("--fresh", action="store_true", help="do not go on from earlier runs")
    parser.add_argument("--kept", default="", help="another JSON of earlier runs to go on from")
    parser.add_argument("--shard", type=int, default=-1)
    parser.add_argument("--deadline", type=float, default=0.0)
    parser.add_argument("--out", default="")
    asked = parser.parse_args()
    import torch

    gpu = torch.cuda.is_available()
    parts = [part.strip() for part in asked.parts.split(",") if part.strip()]
    every = [t for t in tasks(gpu, asked.preset) if not parts or t.part in parts]
    every = [t for t in every if t.seed >= asked.first_seed]
    if asked.shard >= 0:
        done = {tuple(key) for key in json.loads(Path(asked.kept).read_text())}
        mine = [t for t in every if _key(t) not in done][asked.shard :: asked.processes]
        device = CUDA if gpu else CPU
        run_shard(mine, device=device, deadline=asked.deadline, out=Path(asked.out))
        return 0
    started = time.time()
    wanted = {_key(task) for task in every}
    held = {} if asked.fresh else earlier(_files(asked.kept), _folder().glob("*.ndjson"))
    fresh = _deal(asked, parts, deadline=started + asked.limit_s - 25.0, done=set(held))
    kept = held | {_key(run): run for run in fresh}
    cells = list(kept.values())
    lines = summary(cells)
    results = {
        "summary": lines,
        "cells": cells,
        "planned": len(wanted | set(held)),
        "run": len(cells),
        "of_the_parts_asked": [len(wanted & set(kept)), len(wanted)],
        "wall_s": round(time.time() - started, 1),
        "processes": asked.processes,
    }
    if "OUT" in os.environ:
        Path(os.environ["OUT"], "loops.json").write_text(
            json.dumps({"machine": machine(), "results": results})
        )
    print("written:", save("loops", results))
    for path in _folder().glob("*.ndjson"):
        path.unlink()  # they are in the result file now
    for each in lines:
        name = " ".join(str(each[k]) for k in ("part", "kernel", "data", "optimizer", "start"))
        print(
            f"{name:70s} left {each['gradient_left']}/{each['runs']} loss {each['loss_left']} "
            f"failed {each['failed']} undecided {each['undecided']} at {each['first_step'][:5]}"
        )
    for cell in cells:
        if cell.get("error") or cell.get("failure"):
            print("!", cell["kernel"], (cell.get("error") or cell.get("failure"))[:300])
            break
    held_of, planned = results["of_the_parts_asked"]
    print(f"{len(fresh)} runs in {results['wall_s']} s; {held_of} of {planned} asked for are there")
    return 0


def _files(kept: str) -> list[Path]:
    """Return where earlier results may lie: the file that this call writes, $OUT, `--kept`."""
    found = [result_path("loops", RESULTS)]
    found += [result_path("loops")] if CUSTOM else []
    found += [Path(os.environ["OUT"], "loops.json")] if "OUT" in os.environ else []
    return found + ([Path(kept)] if kept else [])


def _folder() -> Path:
    """Return where the parts of a call lie until they are merged."""
    folder = Path(os.environ.get("OUT", ROOT / "build" / "bench"), "loops-parts")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _gpu_of(index: int) -> dict[str, str]:
    """Return what gives a process one GPU of several, by turns."""
    gpus = visible_gpus()
    return {"CUDA_VISIBLE_DEVICES": gpus[index % len(gpus)]} if len(gpus) > 1 else {}


def _deal(
    asked: argparse.Namespace, parts: list[str], *, deadline: float, done: set[tuple[str, ...]]
) -> list[dict[str, Any]]:
    """Run what is not done in processes of this script; return the runs that ended."""
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {
            "CUASSAY_HOME": os.environ.get("CUASSAY_HOME", str(Path(folder) / "home")),
            "OMP_NUM_THREADS": "1",
            "PYTHONPATH": os.pathsep.join(
                filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
            ),
        }
        known = Path(folder, "done.json")
        known.write_text(json.dumps(sorted(done)))
        outs = [_folder() / f"{os.getpid()}-{index}.ndjson" for index in range(asked.processes)]
        running = []
        for index, out in enumerate(outs):
            command = [sys.executable, __file__, "--shard", str(index), "--out", str(out)]
            command += ["--deadline", str(deadline), "--processes", str(asked.processes)]
            command += ["--preset", asked.preset, "--parts", ",".join(parts)]
            command += ["--first-seed", str(asked.first_seed), "--kept", str(known)]
            running.append(subprocess.Popen(command, env=environment | _gpu_of(index)))
        for process in running:
            try:
                process.wait(timeout=max(1.0, deadline + 20.0 - time.time()))
            except subprocess.TimeoutExpired:
                process.kill()
        lines = [line for out in outs if out.is_file() for line in out.read_text().splitlines()]
    return [json.loads(line) for line in lines if line.endswith("}")]


if __name__ == "__main__":
    sys.exit(main())
