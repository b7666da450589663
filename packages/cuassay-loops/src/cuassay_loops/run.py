"""The door of the loops: carries out a job of `cuassay loop train`, `infer` and `blame`.

The judge imports this module and `states`, and nothing else of the loops.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from cuassay.build.cuda.toolkit import toolchain
from cuassay.formats import load_candidate
from cuassay.model.device import Device
from cuassay.model.digest import candidate_digest
from cuassay.model.events import Event, Progress
from cuassay.model.jobs import BlameJob, InferJob, LoopJob, TrainJob
from cuassay.model.loop import LoopSettings
from cuassay.sandbox.host.nursery import Nursery
from cuassay_loops import presets, sites
from cuassay_loops.blame import config as blame_config
from cuassay_loops.blame.bisection import Blame
from cuassay_loops.infer import encoding
from cuassay_loops.infer.inference import infer
from cuassay_loops.kernels import IsolatedKernel
from cuassay_loops.model import minilm
from cuassay_loops.results import BlameReport, InferReport, Preset, TrainReport
from cuassay_loops.train import matrix


def run(
    job: LoopJob, emit: Callable[[Event], None], *, device: Device, nursery: Nursery | None
) -> TrainReport | BlameReport | InferReport:
    """Run a loop's job and return its report, but for its time and environment.

    Raises UsageError for what the user can mend, CannotJudgeError where nothing can be judged.
    """
    match job:
        case TrainJob():
            return _train(job, emit, device=device, nursery=nursery)
        case InferJob():
            return _infer(job, emit, device=device, nursery=nursery)
        case BlameJob():
            path = Path(job.candidate)
            with ExitStack() as stack:
                subject, steps = blame_config.read_config(
                    path, device=device, seed=job.seed, nursery=nursery, stack=stack
                )
                return Blame(
                    subject,
                    steps=job.settings.steps or steps,
                    config=str(path),
                    say=lambda text: emit(Progress(text=text)),
                ).run()


def _train(
    job: TrainJob, emit: Callable[[Event], None], *, device: Device, nursery: Nursery | None
) -> TrainReport:
    wanted = job.settings
    site = sites.find_site(wanted.site)
    preset = presets.holding(sized(wanted, device), [site])
    kernels: dict[str, IsolatedKernel] = {}
    with ExitStack() as stack:
        digest = ""
        for precision in wanted.precisions:
            opened = _opened(
                job, site, precision, vocab=preset.vocab, device=device, nursery=nursery
            )
            kernels[precision], found = stack.enter_context(opened)
            digest = digest or found
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


@contextmanager
def _opened(
    job: TrainJob | InferJob,
    site: sites.Site,
    precision: str,
    *,
    vocab: int,
    device: Device,
    nursery: Nursery | None,
) -> Iterator[tuple[IsolatedKernel, str]]:
    """Yield the candidate as the kernel of a site at a precision, and its digest."""
    problem = sites.site_problem(site, precision, vocab=vocab, source=job.settings.source)
    candidate = load_candidate(job.candidate, problem, strict=job.strict)
    digest = candidate_digest(candidate, toolchain(device))
    with IsolatedKernel(candidate, problem, device=device, nursery=nursery) as kernel:
        yield kernel, digest


def _infer(
    job: InferJob, emit: Callable[[Event], None], *, device: Device, nursery: Nursery | None
) -> InferReport:
    """Decode with the preset's weights, or encode sentences with real ones."""
    wanted = job.settings
    site = sites.find_site(wanted.site)
    if encoding.wanted_here(wanted, site):
        weights, tokenize = minilm.load_minilm()
        vocab = weights.sizes.vocab
        with_weights = partial(encoding.encode_sentences, weights=weights, tokenize=tokenize)
    else:
        preset = presets.holding(sized(wanted, device), [site])
        vocab = preset.vocab
        with_weights = partial(infer, preset=preset)
    opened = _opened(job, site, wanted.precisions[0], vocab=vocab, device=device, nursery=nursery)
    with opened as (kernel, digest):
        report = with_weights(
            wanted,
            site=site,
            kernel=kernel,
            device=device,
            digest=digest,
            seed=job.seed,
            say=lambda text: emit(Progress(text=text)),
        )
    return replace(report, candidate=job.candidate)


def sized(wanted: LoopSettings, device: Device) -> Preset:
    """Return the preset that a job asks for. Raises UnknownNameError."""
    found = presets.preset(wanted.preset) if wanted.preset else presets.default(device)
    return replace(found, vocab=wanted.vocab) if wanted.vocab else found
