"""What `cuassay loop train` and `cuassay loop infer` share: a job from options."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, cast

import click

from cuassay.cli import options
from cuassay.errors import UsageError
from cuassay.model.device import Device
from cuassay.model.jobs import InferJob, TrainJob
from cuassay.model.loop import LoopSettings

_Verb = TypeVar("_Verb", bound=Callable[..., Any])
_Job = TypeVar("_Job", TrainJob, InferJob)
# Named here, for the help alone: cuassay_loops loads torch. A test compares them with its sites.
TRAIN_SITES = (
    "embedding", "embedding_grad", "embedding_rmsnorm_backward", "rmsnorm", "rmsnorm_backward",
    "fused_add_rmsnorm", "rope_neox", "rope_neox_backward", "attention",
    "attention_window_softcap", "attention_backward", "swiglu", "swiglu_backward", "linear",
    "cross_entropy", "cross_entropy_backward", "linear_cross_entropy",
    "linear_cross_entropy_backward", "moe_route", "moe_gather", "moe_experts", "moe_combine",
    "moe_scatter", "adamw_step", "sgd_momentum_step", "muon_step",
)  # fmt: skip
INFER_SITES = (
    "attention_decode", "attention", "attention_window_softcap", "embedding", "rmsnorm",
    "fused_add_rmsnorm", "rope_neox", "swiglu", "linear", "moe_route", "moe_gather", "moe_experts",
    "moe_combine", "layernorm", "gemm_bias_gelu", "softmax_masked", "batched_gemm",
)  # fmt: skip
_RENAMED = {"checkpointing": "checkpoint_every_block", "lr": "learning_rate"}


def form_options(verb: _Verb) -> _Verb:
    """Add --json, --html, --quiet and --result; the verb takes them as `output`.

    The verb raises UsageError where a file cannot be made.
    """

    @functools.wraps(verb)
    def call(
        *given: Any, as_json: bool, html: str | None, result: str | None, quiet: bool, **others: Any
    ) -> Any:
        forms = LoopForms(
            json=as_json,
            html=_writable(html, option="--html"),
            result=_writable(result, option="--result"),
            quiet=quiet,
        )
        return verb(*given, output=forms, **others)

    decorated: Any = call
    for option in (
        click.option(
            "--result", metavar="FILE", help="Also write RESULT.md, to paste into an issue."
        ),
        click.option("--quiet", "-q", is_flag=True, help="Print the verdict in one line."),
        click.option("--html", metavar="FILE", help="Also write a one-file HTML report."),
        click.option("--json", "as_json", is_flag=True, help="Print one JSON document."),
    ):
        decorated = option(decorated)
    return cast("_Verb", decorated)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopForms:
    """In which forms a loop's report is wanted."""

    json: bool = False
    html: Path | None = None
    result: Path | None = None
    quiet: bool = False


def job(
    kind: type[_Job],
    path: str,
    *,
    device: Device | None,
    seed: int | None,
    more: dict[str, object],
    **f: Any,
) -> _Job:
    """Return the job of a loop. Raises UsageError for numbers that cannot be."""
    fields = {_RENAMED.get(name, name): value for name, value in more.items()}
    rate = fields.get("learning_rate")
    if isinstance(rate, float) and not 0.0 < rate < 1e6:
        raise UsageError(f"--lr {rate:g} is out of range; expected a positive number")
    for name, least, most in (("steps", 0, 1_000_000), ("vocab", 0, 262_144)):
        value = fields.get(name, least)
        if isinstance(value, int) and not least <= value <= most:
            raise UsageError(f"--{name} {value} is out of range; expected {least} to {most}")
    vocab = fields.get("vocab")
    if isinstance(vocab, int) and 0 < vocab < 258:
        raise UsageError(f"--vocab {vocab}: every byte is a token, expected 258 or more")
    return kind(
        problem=f["site"],
        candidate=options.candidate_path(path),
        device=device,
        seed=seed,
        settings=LoopSettings(**f, **fields),  # type: ignore[arg-type]
    )


def _writable(path: str | None, *, option: str) -> Path | None:
    """Return where to write, said before a long run if it cannot be. Raises UsageError."""
    if path is None:
        return None
    found = Path(path).expanduser()
    if found.is_dir() or not found.absolute().parent.is_dir():
        raise UsageError(f"{option} {path}: expected a file in a folder that exists")
    return found
