"""Faults at the loops' newer sites and their correct twins: which runs leave the band, and when.

    python benchmarks/loops_sites.py --limit-s 500

Parts: experts, optimizers, duplicates at the tests' smallest sizes, sure (tokens) and head (the
fused one, from the sure start) at the preset tiny. Kernels are plain functions in this process
(tests/support/loop_faults.py). Runs that the result file holds are kept; `--fresh` begins anew.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common import RESULTS, machine, save

SEED = 20_261_121
STEPS = 40
Run = Callable[..., Any]
Task = tuple[str, Callable[[], dict[str, Any]]]


def _sized(name: str) -> Any:
    """Return a preset, or one of the tests' (hidden 16, one layer, 8 x 64 tokens)."""
    from tests.support import loops

    from cuassay_loops import presets

    micro = {"micro": loops.MICRO, "micro-moe": loops.MICRO_MOE}
    return micro.get(name) or presets.preset(name)


def _cell(
    site: str,
    call: Run,
    *,
    preset: str,
    optimizer: str,
    seed: int,
    start: str = "scratch",
    data: str = "real",
    precision: str = "bf16",
    rate: float | None = None,
) -> dict[str, Any]:
    """Run one cell with a plain function at a site."""
    from cuassay.model.device import CPU
    from cuassay.model.loop import Start
    from cuassay_loops import sites
    from cuassay_loops.kernels import local_kernel
    from cuassay_loops.results import Cell
    from cuassay_loops.train import trained
    from cuassay_loops.train.cell import Settings, run_cell

    size = _sized(preset)
    problem = sites.site_problem(sites.find_site(site), precision, vocab=size.vocab)
    weights = None
    if start != "scratch":
        weights = trained.weights(size, device=CPU, say=lambda text: None)
    if start == "sure" and weights is not None:
        weights = trained.sharpened(weights, size, device=CPU)
    found = run_cell(
        Cell(data=data, optimizer=optimizer, precision=precision, seed=seed, start=Start(start)),
        Settings(
            site=site,
            kernel=local_kernel(call, problem),
            preset=size,
            steps=STEPS,
            device=CPU,
            seed=SEED,
            weights=weights,
            learning_rate=rate,
        ),
    )
    return {
        "left": found.gradient_left_band,
        "step": found.step,
        "where": found.parameter,
        "deviation": found.deviation,
        "noise": found.noise,
        "evidence": found.evidence,
        "needed": found.needed,
        "loss_left": found.loss_left_band,
        "undecided": found.undecided,
        "failure": found.failure,
        "s": found.duration_s,
    }


def _cells(part: str, rows: Any, *, preset: str, seeds: int) -> Iterator[Task]:
    from cuassay_loops import sites

    for seed in range(seeds):
        met: set[tuple[str, str]] = set()
        for site, fault, twin in rows:
            own = sites.SITES[site].optimizer
            kinds = [] if seed else [("fault", fault)]
            kinds += [] if (site, twin.__name__) in met else [("twin", twin)]
            met.add((site, twin.__name__))
            for optimizer in (own,) if own else ("sgd", "adamw"):
                for kind, call in kinds:
                    name = f"{part} {site} {call.__name__} {kind} {optimizer} {seed}"
                    yield (
                        name,
                        lambda s=site, c=call, o=optimizer, n=seed: _cell(
                            s, c, preset=preset, optimizer=o, seed=n
                        ),
                    )


def _rounded(folder: str) -> Run:
    """Return the zoo's cross-entropy gradient of that name: bugs or twins."""
    from tests.zoo import planted

    space: dict[str, Any] = {}
    path = planted.candidate(folder, "rounded_probability")
    exec(compile(path.read_text(), str(path), "exec"), space)
    found: Run = space["run"]
    return found


def _sure(seeds: int) -> Iterator[Task]:
    for seed in range(seeds):
        for optimizer in ("sgd", "adamw"):
            for folder in ("bugs", "twins"):
                if folder == "bugs" and seed:
                    continue
                yield (
                    f"sure cross_entropy_backward rounded_probability {folder} {optimizer} {seed}",
                    lambda f=folder, o=optimizer, n=seed: _cell(
                        "cross_entropy_backward",
                        _rounded(f),
                        preset="tiny",
                        optimizer=o,
                        seed=n,
                        start="trained",
                    ),
                )


def _heads(seeds: int) -> Iterator[Task]:
    """Yield runs of the fused head: from the sure start, and twins where all tokens are alike."""
    from tests.support import loop_faults as faults

    for seed in range(seeds):
        for site, fault, twin in faults.HEAD:
            for kind, call in (("fault", fault), ("twin", twin)):
                for optimizer in ("sgd", "adamw") if kind == "twin" or not seed else ():
                    name = f"head {site} {call.__name__} {kind} {optimizer} {seed} sure"
                    yield (
                        name,
                        lambda s=site, c=call, o=optimizer, n=seed: _cell(
                            s, c, preset="tiny", optimizer=o, seed=n, start="sure"
                        ),
                    )
            yield (
                f"head {site} {twin.__name__} twin sgd {seed} alike",
                lambda s=site, c=twin, n=seed: _cell(
                    s, c, preset="micro", optimizer="sgd", seed=n, data="single", rate=0.1
                ),
            )


def _heads_beside(seeds: int) -> Iterator[Task]:
    """Yield runs from the sure start of the fused head in fp16, and of the plain loss."""
    from tests.support import loop_faults as faults

    site, fault, twin = faults.HEAD[0]
    plain = "cross_entropy_backward"
    rows = ((site, fault, twin, "fp16"), (plain, _rounded("bugs"), _rounded("twins"), "bf16"))
    for seed in range(seeds):
        for where, *calls, precision in rows:
            for kind, call in zip(("fault", "twin"), calls, strict=True):
                for optimizer in ("sgd", "adamw") if kind == "twin" or not seed else ():
                    yield (
                        f"head {where} rounded {kind} {optimizer} {seed} sure {precision}",
                        lambda s=where, c=call, o=optimizer, n=seed, p=precision: _cell(
                            s, c, preset="tiny", optimizer=o, seed=n, start="sure", precision=p
                        ),
                    )


def _duplicates(seeds: int) -> Iterator[Task]:
    """Yield probes of the tiny model with twins at sites of all kinds."""
    from tests.support import loop_faults as faults

    plain = [(site, twin) for site, _, twin in faults.DUPLICATES + faults.MOE]
    for seed in range(seeds):
        for site, twin in plain:
            preset = "micro-moe" if site.startswith("moe") else "micro"

            def run(s: str = site, c: Run = twin, n: int = seed, p: str = preset) -> dict[str, Any]:
                from cuassay.model.device import CPU
                from cuassay_loops import sites
                from cuassay_loops.kernels import local_kernel
                from cuassay_loops.results import Cell
                from cuassay_loops.train import duplicates
                from cuassay_loops.train.cell import Settings
                from cuassay_loops.train.trained import no_kernel

                size = _sized(p)
                problem = sites.site_problem(sites.find_site(s), "bf16", vocab=size.vocab)
                base = Settings(
                    site=s, kernel=no_kernel, preset=size, steps=0, device=CPU, seed=SEED + n
                )
                from dataclasses import replace

                cell = Cell(data="real", optimizer="sgd", precision="bf16", seed=n)
                found = duplicates.probe(cell, replace(base, kernel=local_kernel(c, problem)))
                return {
                    "left": found.left,
                    "draws": found.draws,
                    "spread": found.spread,
                    "noise_spread": found.noise_spread,
                    "undecided": found.undecided,
                }

            yield f"duplicates {site} twin {twin.__name__} {seed}", run


def tasks(seeds: int) -> list[Task]:
    """Return every task: faults first within each part."""
    from tests.support import loop_faults as faults

    found = list(_cells("experts", faults.MOE, preset="micro-moe", seeds=seeds))
    found += _cells("optimizers", faults.OPTIMIZERS, preset="micro", seeds=seeds)
    found += _duplicates(seeds)
    found += _sure(1)
    found += _heads(2 * seeds)
    found += _heads_beside(seeds)
    return found


def main() -> int:
    """Run what is not there yet until the limit; write, count and print. 1 where a twin left."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--limit-s", type=float, default=500.0)
    parser.add_argument("--parts", default="")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--fresh", action="store_true")
    asked = parser.parse_args()
    import torch

    torch.set_num_threads(1)
    path = RESULTS / "loops-sites-cpu.json"
    held: dict[str, Any] = {}
    if path.is_file() and not asked.fresh:
        held = json.loads(path.read_text())["results"]["runs"]
    started, parts = time.time(), [part for part in asked.parts.split(",") if part]
    every = [t for t in tasks(asked.seeds) if not parts or t[0].split()[0] in parts]
    for name, run in every:
        if name in held or time.time() - started > asked.limit_s:
            continue
        held[name] = run() | {"date": machine()["date"]}
        print(name, {k: held[name].get(k) for k in ("left", "step", "where", "deviation")})
    twins = {n: r for n, r in held.items() if "twin" in n}
    faults = {n: r for n, r in held.items() if n not in twins}
    counts = {
        "twins": len(twins),
        "twins_left": sorted(n for n, r in twins.items() if r["left"]),
        "faults": len(faults),
        "faults_not_seen": sorted(n for n, r in faults.items() if not r["left"]),
        "missing": sum(name not in held for name, _ in every),
    }
    print(counts, save("loops-sites", {"counts": counts, "runs": held}))
    return 1 if counts["twins_left"] else 0


if __name__ == "__main__":
    sys.exit(main())
