"""The matrix of training runs: data x optimizer x precision x start x seed, kept cell by cell."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from typing import TypeVar

import torch

from cuassay.errors import CannotJudgeError, UsageError
from cuassay.home import home
from cuassay.inputs.seeds import new_root
from cuassay.model import serial
from cuassay.model.device import Device
from cuassay.model.loop import LoopSettings, Start
from cuassay_loops.kernels import Kernel
from cuassay_loops.results import Cell, CellResult, Duplicates, Preset, TrainReport
from cuassay_loops.sequential import ALPHA
from cuassay_loops.sites import Phase, Site
from cuassay_loops.text.corpus import corpus
from cuassay_loops.train import duplicates, optimizers, trained
from cuassay_loops.train.cell import Settings, run_cell
from cuassay_loops.train.story import decide_matrix

DATA = {"cpu": ("real", "uniform"), "cuda": ("real", "zipf1.0", "uniform")}
OPTIMIZERS = {"cpu": ("sgd", "adamw"), "cuda": ("sgd", "momentum", "adamw")}
STEPS = {"cpu": 60, "cuda": 200}
_SAY_EVERY_S = 1.0
_Kept = TypeVar("_Kept", CellResult, Duplicates)


def train(
    wanted: LoopSettings,
    *,
    site: Site,
    kernels: Mapping[str, Kernel],
    preset: Preset,
    device: Device,
    digest: str,
    seed: int | None,
    say: Callable[[str], None],
) -> TrainReport:
    """Run every cell that is not kept from an earlier call; `kernels` holds one a precision.

    Raises UsageError for settings that cannot be; BuildError where the candidate does not build.
    """
    _check(wanted, site, preset)
    wanted = replace(wanted, starts=wanted.starts or _usual_starts(site))
    kind = device.kind
    steps = wanted.steps or STEPS[kind]
    cells = list(_cells(wanted, kind, optimizer=site.optimizer))
    folder = _folder(wanted, preset, device=device, digest=digest, steps=steps, seed=seed)
    root = _root(folder, seed, again=wanted.again)
    # What all cells share; the kernel is put in for each precision.
    shared = Settings(
        site=site.name,
        kernel=trained.no_kernel,
        preset=preset,
        steps=steps,
        device=device,
        seed=root,
        accumulate=wanted.accumulate,
        recompute=wanted.checkpoint_every_block,
        compile_with=wanted.compile_with,
        learning_rate=wanted.learning_rate,
        stop_early=not wanted.whole,
    )
    weights = _weights(wanted.starts, preset, device=device, say=say)

    def settings(cell: Cell) -> Settings:
        return replace(shared, kernel=kernels[cell.precision], weights=weights.get(cell.start))

    done, resumed = _run(cells, settings, folder, again=wanted.again, say=say)
    probed = [] if site.optimizer else cells
    probes = _probed(probed, settings, folder, again=wanted.again, say=say)
    what = "updates" if site.optimizer else "gradients"
    decision, reason = decide_matrix(done, what=what, probes=probes)
    texts = {cell.data: corpus(cell.data, preset.vocab).about for cell in cells}
    return TrainReport(
        decision=decision,
        reason=reason,
        site=site.name,
        problem=site.problem,
        candidate="",
        digest=digest,
        device=device,
        preset=preset,
        steps=steps,
        false_alarm_rate=ALPHA,
        seed=root,
        cells=tuple(done),
        planned=len(cells),
        duplicates=probes,
        options=_options(wanted),
        text=texts,
        kept=str(folder),
        resumed=resumed,
    )


def _usual_starts(site: Site) -> tuple[Start, ...]:
    """Return two starts for gradients of the loss: sure tokens are few at the beginning.

    The fused head shows its fault where p is above 0.99 alone, which no checkpoint of a few
    hundred steps reaches by itself.
    """
    match site.name:
        case "cross_entropy_backward":
            return Start.SCRATCH, Start.TRAINED
        case "linear_cross_entropy_backward":
            return Start.SCRATCH, Start.SURE
        case _:
            return (Start.SCRATCH,)


def _weights(
    starts: Sequence[Start], preset: Preset, *, device: Device, say: Callable[[str], None]
) -> dict[Start, dict[str, torch.Tensor]]:
    """Return the weights of every start but random ones."""
    found: dict[Start, dict[str, torch.Tensor]] = {}
    if set(starts) - {Start.SCRATCH}:
        found[Start.TRAINED] = trained.weights(preset, device=device, say=say)
    if Start.SURE in starts:
        found[Start.SURE] = trained.sharpened(found[Start.TRAINED], preset, device=device)
    return found


def _run(
    cells: Sequence[Cell],
    settings: Callable[[Cell], Settings],
    folder: Path,
    *,
    again: bool,
    say: Callable[[str], None],
) -> tuple[list[CellResult], int]:
    """Return the result of every cell, and how many of them were kept from before."""
    done: list[CellResult] = []
    resumed = 0
    for number, cell in enumerate(cells, 1):
        if again:
            kept = None
        else:
            found = _read(folder / f"{cell.name}.json", CellResult)
            kept = None if found is None or found.undecided else found
        if kept is not None:
            done.append(kept)
            resumed += 1
            continue
        made = settings(cell)
        told = _Told(say, f"cell {number}/{len(cells)} {cell.name}", made.steps)
        result = run_cell(cell, made, watch=told)
        _keep(folder, cell.name, serial.dumps(result))
        done.append(result)
        say(f"cell {number}/{len(cells)} {cell.name}: {_ended(result)}")
    return done, resumed


def _probed(
    cells: Sequence[Cell],
    settings: Callable[[Cell], Settings],
    folder: Path,
    *,
    again: bool,
    say: Callable[[str], None],
) -> tuple[Duplicates, ...]:
    """Return what a large batch of duplicates says at the first state of each start."""
    found: dict[str, Duplicates] = {}
    for cell in cells:
        name = f"duplicates-{cell.precision}-{cell.start.value}"
        if name in found:
            continue
        kept = None if again else _read(folder / f"{name}.json", Duplicates)
        if kept is None or kept.undecided:
            say(f"a large batch of duplicates, {cell.precision}, {cell.start.value}")
            kept = duplicates.probe(cell, settings(cell))
            _keep(folder, name, serial.dumps(kept))
        found[name] = kept
    return tuple(found.values())


class _Told:
    """Says now and then how a cell gets on."""

    def __init__(self, say: Callable[[str], None], name: str, steps: int) -> None:
        self._say, self._name, self._steps = say, name, steps
        self._last = 0.0

    def __call__(self, step: int, trusted: float, candidate: float) -> None:
        now = time.monotonic()
        if now - self._last >= _SAY_EVERY_S:
            self._last = now
            self._say(
                f"{self._name}: step {step + 1}/{self._steps}, loss {trusted:.4f} trusted, "
                f"{candidate:.4f} with the kernel"
            )


def _check(wanted: LoopSettings, site: Site, preset: Preset) -> None:
    if site.phase in (Phase.DECODE, Phase.ENCODER):
        raise UsageError(
            f"site '{site.name}' takes no part in training: use "
            f"`cuassay loop infer --site {site.name}`"
        )
    if site.optimizer and set(wanted.optimizers) - {site.optimizer}:
        raise UsageError(
            f"site '{site.name}' is the step of optimizer '{site.optimizer}': leave --optimizer out"
        )
    if wanted.accumulate < 1 or preset.batch % wanted.accumulate:
        raise UsageError(
            f"--accumulate {wanted.accumulate} does not divide the batch of {preset.batch} rows"
        )
    if not 1 <= wanted.seeds <= 1000:
        raise UsageError(f"--seeds {wanted.seeds} is out of range; expected 1 to 1000")
    for name in wanted.optimizers:
        optimizers.recipe(name)
    for name in wanted.data:
        corpus(name, preset.vocab)


def _cells(wanted: LoopSettings, kind: str, *, optimizer: str) -> Iterator[Cell]:
    optimizers_of = (optimizer,) if optimizer else wanted.optimizers or OPTIMIZERS[kind]
    for seed in range(wanted.seeds):
        for start in wanted.starts:
            for precision in wanted.precisions:
                for data in wanted.data or DATA[kind]:
                    for name in optimizers_of:
                        yield Cell(
                            data=data,
                            optimizer=name,
                            precision=precision,
                            seed=seed,
                            start=start,
                        )


def _options(wanted: LoopSettings) -> dict[str, str]:
    found = {
        "accumulate": str(wanted.accumulate) if wanted.accumulate > 1 else "",
        "checkpointing": "every block" if wanted.checkpoint_every_block else "",
        "torch.compile": wanted.compile_with,
        "learning rate": f"{wanted.learning_rate:g}" if wanted.learning_rate else "",
    }
    return {name: value for name, value in found.items() if value}


def _folder(
    wanted: LoopSettings,
    preset: Preset,
    *,
    device: Device,
    digest: str,
    steps: int,
    seed: int | None,
) -> Path:
    """Return where the cells of exactly this kernel and these settings are kept."""
    what = [digest, device, str(steps), str(seed), wanted.site, wanted.source, str(wanted.whole)]
    what += [str(wanted.learning_rate), str(sorted(_options(wanted).items()))]
    what.append(serial.dumps(preset))
    name = blake2b("\n".join(what).encode(), digest_size=10).hexdigest()
    return home() / "loops" / f"train-{name}"


def _root(folder: Path, seed: int | None, *, again: bool) -> int:
    """Return the root seed: drawn once for a folder, after the kernel's digest was taken."""
    path = folder / "seed"
    if not again:
        try:
            return int(path.read_text())
        except (OSError, ValueError):
            pass
    root = new_root() if seed is None else seed
    _keep(folder, "seed", str(root), suffix="")
    return root


def _read(path: Path, kind: type[_Kept]) -> _Kept | None:
    try:
        found: _Kept = serial.loads(kind, path.read_text())
    except (OSError, UsageError, UnicodeDecodeError):
        return None
    return found


def _keep(folder: Path, name: str, text: str, *, suffix: str = ".json") -> None:
    path = folder / f"{name}{suffix}"
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        temporary.write_text(text)
        temporary.replace(path)
    except OSError as error:
        raise CannotJudgeError(
            f"cannot keep cells in {folder}: {error.strerror or error}; set CUASSAY_HOME to a "
            "folder that can be written"
        ) from None


def _ended(result: CellResult) -> str:
    if result.undecided:
        return f"undecided: {result.undecided}"
    if result.failure:
        return f"the kernel failed: {result.failure}"
    if result.gradient_left_band:
        return f"gradient of {result.parameter} left the band at step {result.step}"
    return "stays within the band"
