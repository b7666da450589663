"""Options that several verbs share, and the checks of their values that need no torch."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, cast

import click

from cuassay.cli.sinks import FORMATS, Target, targets
from cuassay.errors import CandidateError, UsageError, suggestion
from cuassay.model.conditions import CONDITIONS, PROOFS, required
from cuassay.model.device import Device
from cuassay.model.options import Options
from cuassay.model.precision import Precision, precision_named
from cuassay.model.profile import Profile

_SEED_LIMIT = 2**63

PROFILES = tuple(member.value for member in Profile)
_Verb = TypeVar("_Verb", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """Where and how to show a result. `path` is the candidate as the user named it."""

    targets: tuple[Target, ...] = (Target(form="terminal"),)
    quiet: bool = False
    verbose: bool = False
    color: bool = True
    replayed: bool = False
    path: str = ""

    @property
    def form(self) -> str:
        """What stdout gets."""
        return next((target.form for target in self.targets if target.path is None), "terminal")

    @property
    def json(self) -> bool:
        """Whether stdout gets one JSON document and nothing else."""
        return self.form == "json"

    @property
    def other_form(self) -> str:
        """The first form beside those that stdout gets as text or as JSON; empty if none."""
        plain = (Target(form="terminal"), Target(form="json"))
        return next((target.form for target in self.targets if target not in plain), "")


def output_options(verb: _Verb) -> _Verb:
    """Add --format, --json, --html, --verbose, --quiet and --no-color; taken as `output`.

    The verb raises UsageError where a file cannot be made.
    """

    @functools.wraps(verb)
    def call(
        *given: Any,
        formats: tuple[str, ...],
        as_json: bool,
        html: str | None,
        verbose: bool,
        quiet: bool,
        no_color: bool,
        **others: Any,
    ) -> Any:
        output = Output(
            targets=targets(formats, as_json=as_json, html=html),
            quiet=quiet,
            verbose=verbose,
            color=not no_color,
        )
        return verb(*given, output=output, **others)

    decorated: Any = call
    for option in (
        click.option("--no-color", is_flag=True, help="Plain text, also on a terminal."),
        click.option(
            "--verbose", "-v", is_flag=True, help="Show every check, finding and measure."
        ),
        click.option("--quiet", "-q", is_flag=True, help="Print the verdict in one line."),
        click.option("--html", metavar="FILE", help="Also write a one-file HTML report."),
        click.option("--json", "as_json", is_flag=True, help="Print one JSON document."),
        format_option,
    ):
        decorated = option(decorated)
    return cast("_Verb", decorated)


def format_option(verb: _Verb) -> _Verb:
    """Add --format."""
    return click.option(
        "--format",
        "formats",
        multiple=True,
        metavar="NAME[=FILE]",
        help=f"Form of the result, to stdout or to FILE; may be given several times: "
        f"{', '.join(FORMATS)}.",
    )(verb)


def device_option(verb: _Verb) -> _Verb:
    """Add --device."""
    text = "cpu, cuda or cuda:N. Default: cuda where there is a GPU."
    return click.option("--device", metavar="DEVICE", callback=read_device, help=text)(verb)


def judging_options(profile: str) -> Callable[[_Verb], _Verb]:
    """Add --profile, --device, --seed, --require and --precision; the verb takes them as `judging`.

    `profile` is the default.
    """

    def decorate(verb: _Verb) -> _Verb:
        @functools.wraps(verb)
        def call(
            *given: Any,
            profile: str,
            device: Device | None,
            seed: int | None,
            require: str,
            precision: str | None,
            **others: Any,
        ) -> Any:
            judging = Options(
                profile=Profile(profile),
                device=device,
                seed=read_seed(seed),
                require=required_conditions(require),
                precision=precision_named(precision),
            )
            return verb(*given, judging=judging, **others)

        decorated: Any = call
        added = (
            click.option(
                "--profile",
                type=click.Choice(PROFILES),
                default=profile,
                show_default=True,
                help="How much to try.",
            ),
            device_option,
            click.option(
                "--seed",
                type=int,
                metavar="N",
                help="Repeat a trial: the seed that its report names.",
            ),
            click.option(
                "--require",
                default="",
                metavar="LIST",
                help=f"Conditions that must hold, not merely be stated: {', '.join(CONDITIONS)}; "
                f"or proofs for all sizes: {', '.join(PROOFS)}.",
            ),
            precision_option,
        )
        for option in reversed(added):
            decorated = option(decorated)
        return cast("_Verb", decorated)

    return decorate


def own_problem_option(verb: _Verb) -> _Verb:
    """Add --own-problem."""
    return click.option(
        "--own-problem",
        is_flag=True,
        help="Also judge a kernel whose own file declares the problem: the file runs as trusted "
        "code, and the verdict has the condition own-problem.",
    )(verb)


def precision_option(verb: _Verb) -> _Verb:
    """Add --precision."""
    return click.option(
        "--precision",
        type=click.Choice([policy.value for policy in Precision]),
        help="What a kernel may keep: strict (the reference's arithmetic), tf32 (products of "
        "float32 operands in TF32), mixed (16-bit intermediates, float32 sums) or fp8 (also short "
        "accumulators of 8-bit products). Default: the problem's, else what its large tensors say.",
    )(verb)


def read_device(_: click.Context, __: click.Parameter, value: str | None) -> Device | None:
    """Return the device of that name. Raises UsageError for anything but cpu, cuda, cuda:N."""
    try:
        return None if value is None else Device(value)
    except UsageError as error:
        raise UsageError(f"--{error}. {suggestion(value or '', ('cpu', 'cuda'))}".strip()) from None


def read_seed(value: int | None) -> int | None:
    """Return the seed as given. Raises UsageError outside 0 ... 2**63 - 1."""
    if value is not None and not 0 <= value < _SEED_LIMIT:
        raise UsageError(f"--seed {value} is out of range; expected 0 to 2**63 - 1")
    return value


def recorded_folder(value: str) -> str:
    """Return the folder of `--recorded` made absolute, empty where none is given.

    Raises UsageError where it is none.
    """
    path = Path(value).expanduser().absolute()
    if value and not path.is_dir():
        raise UsageError(f"--recorded {value} is not a folder; expected one that exists")
    return str(path) if value else ""


def duration_s(value: str | None, *, option: str) -> float | None:
    """Return seconds of 90, 90s, 30m or 2h. Raises UsageError for anything else."""
    if value is None:
        return None
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smh]?)", value.strip())
    seconds = (
        float(found.group(1)) * {"": 1, "s": 1, "m": 60, "h": 3600}[found.group(2)] if found else 0
    )
    if not seconds:
        raise UsageError(f"{option} '{value}' is no time; expected such as 90s, 30m or 2h")
    return seconds


def memory_gib(value: str | None, *, option: str) -> float | None:
    """Return GiB of 8, 8GiB, 8GB or 512MiB. Raises UsageError for anything else."""
    if value is None:
        return None
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(GiB|G|GB|MiB|M|MB)?", value.strip(), re.IGNORECASE)
    unit = (found.group(2) or "g").lower() if found else ""
    size = float(found.group(1)) / (1024.0 if unit.startswith("m") else 1.0) if found else 0.0
    if size < 0.25:
        raise UsageError(
            f"{option} '{value}' is not a size of memory; expected 256MiB or more, such as 8GiB"
        )
    return size


def architecture(value: str, *, option: str) -> str:
    """Return an architecture such as sm_100. Raises UsageError for anything else."""
    if not re.fullmatch(r"sm_\d{2,3}[af]?", value):
        raise UsageError(f"{option} '{value}' is not an architecture; expected one such as sm_100")
    return value


def required_conditions(value: str) -> tuple[str, ...]:
    """Return the required conditions. Raises UnknownNameError for one that no check covers."""
    return required((n.strip() for n in value.split(",") if n.strip()), option="--require")


def candidate_path(path: str) -> str:
    """Return the path of a candidate as given. Raises CandidateError where nothing is there."""
    from cuassay.store.place import locate

    place = locate(path)
    if place is not None and not (place.path.is_file() or place.path.is_dir()):
        raise CandidateError(f"{path} is a device or a pipe, expected a file or a folder")
    if place is not None or path.startswith("hub:"):
        return path
    folder = Path(path).expanduser().absolute().parent
    near = ""
    if folder.is_dir():
        near = suggestion(Path(path).name, sorted(file.name for file in folder.iterdir()))
    raise CandidateError(
        f"no candidate at '{path}': there is no such file or folder; expected a .py or .cu file, "
        f"a solution.json or a folder that holds one" + (f"; {near}" if near else "")
    )
