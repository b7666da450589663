"""What the driver asks of a judge process: one dataclass a kind of job, matched exhaustively.

A job travels as one line of JSON (`model.serial`), so it holds plain data: paths are text, as the
user gave them. `problem` is a folder, a file or a catalogue name, `candidate` a file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from typing import TypeAlias

from cuassay.model.device import Device
from cuassay.model.loop import LoopSettings
from cuassay.model.precision import Precision
from cuassay.model.proofs import Property
from cuassay.model.verdict import Profile

LOG = "judge.log"  # in a run folder: what the judge and its libraries print
QUICK_S = 120.0  # of a trial at `quick`
_SHARE_OF_TIMEOUT = 2 / 3  # the rest is for diagnoses, the report and what a build took


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """What every job says. `seed` None: a secret one is drawn; `strict`: as `--strict`.

    `within` are the folders that the problem of an audit and its candidates lie in. Where there
    are any, the judge, in which the reference runs, confines itself to reading them.
    """

    problem: str
    device: Device | None = None
    seed: int | None = None
    strict: bool = False
    within: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _OnCandidate(_Asked):
    """A job that runs a candidate. `hide` names folders that the candidate shall not see.

    With `no_sandbox` a machine that does not confine candidates runs it all the same; a verdict
    then has a condition that says so. `arch` is the architecture that Triton kernels are compiled
    for where there is no GPU, such as sm_100; empty: $CUASSAY_MACHINE_ARCH, else by their sources.
    """

    candidate: str
    hide: tuple[str, ...] = ()
    no_sandbox: bool = False
    arch: str = ""


class Stop(Enum):
    """What ends a trial before its last check."""

    FIRST = auto()  # the first wrong result
    GROSS = auto()  # a kernel whose plain call is wrong on every input
    NEVER = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialJob(_OnCandidate):
    """Judge a candidate; ends with a verdict.

    `run_dir` is where the judge keeps snapshots; empty for none. `run_label` is what replays
    its findings; empty for the folder's name. `isolated` ignores what earlier trials left (cases
    that failed, the choice of regimes) and leaves nothing: the verdict depends on nothing but
    the files and the seed. `precision` is the policy to judge by, whatever the problem says
    (None: the problem's). `recorded` is a folder of calls that were recorded in a real program.
    `own_problem`: the candidate's own file may declare its problem, under a condition;
    `written_from` is that file where problem and candidate were written from one.
    `gpu_memory_gib` bounds what cuassay plans for itself on a GPU; None: 8 at `quick`.
    `budget_s` bounds the trial's time; None: two minutes at `quick`, no bound otherwise.
    `fail_fast` ends the trial at the first wrong result, without a smallest input; None ends it at
    `quick` where the plain call is wrong on every input, and nowhere else; False never.
    """

    profile: Profile = Profile.STANDARD
    require: tuple[str, ...] = ()
    precision: Precision | None = None
    fail_fast: bool | None = None
    recorded: str = ""
    own_problem: bool = True
    written_from: str = ""
    run_dir: str = ""
    run_label: str = ""
    isolated: bool = False
    gpu_memory_gib: float | None = None
    budget_s: float | None = None

    def to_end_within(self, timeout_s: float) -> TrialJob:
        """Return the job with a budget that leaves time for the verdict before `timeout_s`."""
        wished_s = self.budget_s
        if wished_s is None and self.profile is Profile.QUICK:
            wished_s = QUICK_S
        most_s = timeout_s * _SHARE_OF_TIMEOUT
        return replace(self, budget_s=most_s if wished_s is None else min(wished_s, most_s))

    @property
    def stop(self) -> Stop:
        """What ends the trial before its last check."""
        if self.fail_fast is None:
            return Stop.GROSS if self.profile is Profile.QUICK else Stop.NEVER
        return Stop.FIRST if self.fail_fast else Stop.NEVER


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayJob(_OnCandidate):
    """Run recorded findings again; ends with a verdict on them alone.

    `finding` is the path of one finding (JSON) or of a run folder, whose findings all run again.
    `export` is the path of a program to write that shows the finding, if any.
    """

    finding: str
    export: str = ""
    profile: Profile = Profile.STANDARD
    run_dir: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowJob(_Asked):
    """Describe a problem; ends with a document."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerJob(_Asked):
    """Measure what a problem's inputs can tell apart; ends with a document."""

    profile: Profile = Profile.STANDARD
    isolated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildJob(_OnCandidate):
    """Build a candidate into the cache and judge nothing; ends with a document."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TacticsJob(_OnCandidate):
    """List the tactics that a candidate has for calls at some sizes; ends with a document.

    `sizes` binds the problem's axes, once for each call; none: the smallest, and those that the
    problem lists.
    """

    sizes: tuple[Mapping[str, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecuteJob(_OnCandidate):
    """Execute one call's launches in the PTX machine; ends with a document.

    `axes` are sizes to call at, `record` is a file to keep the launches in, `against` another
    candidate to compare with in the algebra.
    """

    profile: Profile = Profile.STANDARD
    axes: Mapping[str, int] = field(default_factory=dict)
    record: str = ""
    against: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProveJob(_OnCandidate):
    """Prove properties of a candidate; ends with a document.

    `limit_s` is the time for one launch. Tensors of fewer than `elements` are what a proof has to
    hold for; 0: fewer than 2^31, or where that does not hold, fewer than 2^29.
    """

    profile: Profile = Profile.STANDARD
    limit_s: float = 60.0
    elements: int = 0
    properties: tuple[Property, ...] = tuple(Property)


@dataclass(frozen=True, slots=True, kw_only=True)
class _InLoop(_OnCandidate):
    settings: LoopSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainJob(_InLoop):
    """Train with the kernel at a site; ends with a document."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InferJob(_InLoop):
    """Run inference with the kernel at a site; ends with a document."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BlameJob(_InLoop):
    """Find the kernel that makes a training run go wrong; `candidate` is the configuration."""


RunJob: TypeAlias = TrialJob | ReplayJob  # what a run folder is kept for
LoopJob: TypeAlias = TrainJob | InferJob | BlameJob
Job: TypeAlias = (
    TrialJob
    | ReplayJob
    | ShowJob
    | PowerJob
    | BuildJob
    | TacticsJob
    | ExecuteJob
    | ProveJob
    | LoopJob
)
