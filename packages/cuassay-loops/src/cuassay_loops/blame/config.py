"""The CONFIG of `cuassay loop blame`: a user's Python file, or a TOML file for our own model."""

from __future__ import annotations

import inspect
import tomllib
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

from cuassay.errors import UnknownNameError, UsageError
from cuassay.formats import load_candidate
from cuassay.formats.modules import describe_failure, import_file
from cuassay.inputs.seeds import new_root
from cuassay.model.device import Device
from cuassay.sandbox.host.nursery import Nursery
from cuassay_loops import presets, sites
from cuassay_loops.blame.subjects import ModelSubject, Subject, Training, UserSubject
from cuassay_loops.kernels import IsolatedKernel, Kernel
from cuassay_loops.results import Cell
from cuassay_loops.text.corpus import corpus
from cuassay_loops.train import optimizers, trained
from cuassay_loops.train.cell import Settings

_STEPS = 60
_KEYS = ("preset", "data", "optimizer", "precision", "steps", "learning_rate", "vocab", "sites")


def read_config(
    path: Path, *, device: Device, seed: int | None, nursery: Nursery | None, stack: ExitStack
) -> tuple[Subject, int]:
    """Return what CONFIG describes, and the steps of a run that it asks for.

    Kernels that get processes are closed with `stack`. Raises UsageError with one message.
    """
    if not path.is_file():
        raise UsageError(f"no config at '{path}': expected a .py or a .toml file")
    root = new_root() if seed is None else seed
    match path.suffix:
        case ".py":
            return _python(path, root)
        case ".toml":
            return _toml(path, root, device=device, nursery=nursery, stack=stack)
    raise UsageError(f"'{path.name}' is neither a .py nor a .toml file")


def _python(path: Path, root: int) -> tuple[Subject, int]:
    try:
        module = import_file(path)
    except Exception as error:
        raise UsageError(f"{path} raised {describe_failure(error, path)}") from error
    setup = getattr(module, "setup", None)
    if not callable(setup) or len(inspect.signature(setup).parameters) != 1:
        raise UsageError(
            f"{path} defines no 'def setup(seed)' that returns a cuassay_loops.Training"
        )

    def made(seed: int) -> Training:
        try:
            training = setup(seed)
        except Exception as error:
            raise UsageError(
                f"setup({seed}) of {path} raised {describe_failure(error, path)}"
            ) from error
        if not isinstance(training, Training):
            raise UsageError(
                f"setup of {path} returned a {type(training).__name__}, expected a "
                "cuassay_loops.Training"
            )
        if training.step is None and (training.loss is None or training.optimizer is None):
            raise UsageError(f"the Training of {path} needs loss and optimizer, or step")
        return training

    return UserSubject(made, root), int(getattr(module, "STEPS", _STEPS))


def _toml(
    path: Path, root: int, *, device: Device, nursery: Nursery | None, stack: ExitStack
) -> tuple[Subject, int]:
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: {error}") from None
    for key in found:
        if key not in _KEYS:
            raise UnknownNameError(f"key of {path.name}", key, _KEYS)
    table = found.get("sites")
    if not isinstance(table, Mapping) or not table:
        raise UsageError(f'{path} has no [sites] table of site = "kernel file"')
    for name in table:
        phase = sites.find_site(name).phase
        if phase not in (sites.Phase.FORWARD, sites.Phase.BACKWARD):
            verb = "train" if phase is sites.Phase.OPTIMIZER else "infer"
            raise UsageError(
                f"site '{name}' of {path.name} takes no part in blame, which compares gradients: "
                f"use `cuassay loop {verb} --site {name}`"
            )
    from dataclasses import replace

    preset = presets.preset(found["preset"]) if "preset" in found else presets.default(device)
    preset = presets.holding(
        replace(preset, vocab=int(found["vocab"])) if "vocab" in found else preset,
        map(sites.find_site, table),
    )
    precision, optimizer = found.get("precision", "bf16"), found.get("optimizer", "sgd")
    data = found.get("data", "real")
    corpus(data, preset.vocab)
    rate = found.get("learning_rate", optimizers.recipe(optimizer).learning_rate)
    steps = found.get("steps", _STEPS)
    if not isinstance(steps, int) or not isinstance(rate, int | float):
        raise UsageError(f"{path}: steps and learning_rate are numbers")
    kernels: dict[str, Kernel] = {}
    for name, file in table.items():
        site = sites.find_site(name)
        problem = sites.site_problem(site, precision, vocab=preset.vocab)
        candidate = load_candidate(str(path.parent / str(file)), problem)
        kernels[site.name] = stack.enter_context(
            IsolatedKernel(candidate, problem, device=device, nursery=nursery)
        )
    settings = Settings(
        site=next(iter(kernels)),
        kernel=trained.no_kernel,
        preset=preset,
        steps=steps,
        device=device,
        seed=root,
    )
    cell = Cell(data=data, optimizer=optimizer, precision=precision, seed=0)
    return ModelSubject(kernels, cell, settings, seed=root, rate=float(rate)), steps
