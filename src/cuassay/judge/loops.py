"""The judge's side of the loops' verbs (train, blame, infer): load, run, report as JSON."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import torch

from cuassay import build
from cuassay.errors import CannotJudgeError
from cuassay.formats import load_candidate
from cuassay.judge.environment import choose_device, environment
from cuassay.loops import blame_config, encoding, matrix, minilm, presets, sites
from cuassay.loops.blame import Blame
from cuassay.loops.inference import infer
from cuassay.loops.kernels import IsolatedKernel
from cuassay.model import serial
from cuassay.model.digest import candidate_digest
from cuassay.model.events import Event, Progress
from cuassay.model.jobs import BlameJob, InferJob, LoopJob, TrainJob
from cuassay.model.loop import BlameReport, InferReport, LoopSettings, Preset, TrainReport
from cuassay.sandbox.host.nursery import Nursery


def run_loop(job: LoopJob, emit: Callable[[Event], None], nursery: Nursery | None) -> str:
    """Run a loop's job and return its report as JSON text.

    Raises UsageError for what the user can mend, CannotJudgeError where nothing can be judged.
    """
    started = time.perf_counter()
    device = choose_device(job.device)
    if device == "cpu":
        torch.set_num_threads(1)  # operators are small, and the kernel's process needs a core
    shared = nursery if nursery and nursery.device == device else None
    report: TrainReport | BlameReport | InferReport
    try:
        match job:
            case TrainJob():
                report = _train(job, emit, device=device, nursery=shared)
            case InferJob():
                report = _infer(job, emit, device=device, nursery=shared)
            case BlameJob():
                report = _blame(job, emit, device=device, nursery=shared)
    except torch.OutOfMemoryError as error:
        raise CannotJudgeError(
            f"out of memory on {device}: {str(error).splitlines()[0][:200]}; choose a smaller "
            "--preset, or free the device; finished cells are kept"
        ) from None
    surroundings = environment(device, build.toolchain(device))
    duration_s = time.perf_counter() - started
    return serial.dumps(replace(report, environment=surroundings, duration_s=duration_s))


def _train(
    job: TrainJob,
    emit: Callable[[Event], None],
    *,
    device: str,
    nursery: Nursery | None,
) -> TrainReport:
    wanted = job.settings
    site = sites.find(wanted.site)
    preset = presets.holding(sized(wanted, device), [site])
    toolchain = build.toolchain(device)
    kernels: dict[str, IsolatedKernel] = {}
    with ExitStack() as stack:
        digest = ""
        for precision in wanted.precisions:
            problem = sites.problem_of(site, precision, vocab=preset.vocab, source=wanted.source)
            candidate = load_candidate(job.candidate, problem, strict=job.strict)
            digest = digest or candidate_digest(candidate, toolchain)
            kernels[precision] = stack.enter_context(
                IsolatedKernel(candidate, problem, device=device, nursery=nursery)
            )
        report = matrix.train(
            wanted,
            site=site,
            kernels=kernels,
            preset=preset,
            device=device,
            digest=digest,
            seed=job.seed,
            say=lambda text: emit(Progress(text=text)),
        )
    return replace(report, candidate=job.candidate)


def _infer(
    job: InferJob,
    emit: Callable[[Event], None],
    *,
    device: str,
    nursery: Nursery | None,
) -> InferReport:
    wanted = job.settings
    site = sites.find(wanted.site)
    if encoding.wanted_here(wanted, site):
        return _encode(job, emit, site=site, device=device, nursery=nursery)
    preset = presets.holding(sized(wanted, device), [site])
    toolchain = build.toolchain(device)
    problem = sites.problem_of(site, wanted.precisions[0], vocab=preset.vocab, source=wanted.source)
    candidate = load_candidate(job.candidate, problem, strict=job.strict)
    with IsolatedKernel(candidate, problem, device=device, nursery=nursery) as kernel:
        report = infer(
            wanted,
            site=site,
            kernel=kernel,
            preset=preset,
            device=device,
            digest=candidate_digest(candidate, toolchain),
            seed=job.seed,
            say=lambda text: emit(Progress(text=text)),
        )
    return replace(report, candidate=job.candidate)


def _encode(
    job: InferJob,
    emit: Callable[[Event], None],
    *,
    site: sites.Site,
    device: str,
    nursery: Nursery | None,
) -> InferReport:
    wanted = job.settings
    weights, tokenize = minilm.load()
    toolchain = build.toolchain(device)
    vocab = weights.sizes.vocab
    problem = sites.problem_of(site, wanted.precisions[0], vocab=vocab, source=wanted.source)
    candidate = load_candidate(job.candidate, problem, strict=job.strict)
    with IsolatedKernel(candidate, problem, device=device, nursery=nursery) as kernel:
        report = encoding.encode(
            wanted,
            site=site,
            kernel=kernel,
            weights=weights,
            tokenize=tokenize,
            device=device,
            digest=candidate_digest(candidate, toolchain),
            seed=job.seed,
            say=lambda text: emit(Progress(text=text)),
        )
    return replace(report, candidate=job.candidate)


def _blame(
    job: BlameJob,
    emit: Callable[[Event], None],
    *,
    device: str,
    nursery: Nursery | None,
) -> BlameReport:
    path = Path(job.candidate)
    with ExitStack() as stack:
        subject, steps = blame_config.load(
            path, device=device, seed=job.seed, nursery=nursery, stack=stack
        )
        return Blame(
            subject,
            steps=job.settings.steps or steps,
            config=str(path),
            say=lambda text: emit(Progress(text=text)),
        ).run()


def sized(wanted: LoopSettings, device: str) -> Preset:
    """Return the preset that a job asks for. Raises UnknownNameError."""
    found = presets.preset(wanted.preset) if wanted.preset else presets.default(device)
    return replace(found, vocab=wanted.vocab) if wanted.vocab else found
