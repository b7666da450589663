"""One trial as data: what the driver hands to a judge process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cuassay.model.loop import LoopJob
from cuassay.model.precision import Precision
from cuassay.model.verdict import Profile


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What to judge. `problem` and `candidate` are as the user gave them.

    `precision` is the policy to judge by, whatever the problem says (None: the problem's).
    `replay` is the path of a recorded finding (JSON) to run again instead of the checks.
    `loop` says what a training or inference loop is made of.
    `run_dir` is where the judge keeps snapshots; empty for none. `run_label` is what replays
    its findings; empty for the folder's name. `isolated` ignores what earlier trials left (cases
    that failed, the choice of regimes) and leaves nothing: the verdict depends on nothing but
    the files and the seed. `hide` names folders that the candidate shall not see.
    `axes` are sizes to call at and `record` a file to keep the launches in, for mode run.
    """

    problem: str
    candidate: str = ""
    profile: Profile = Profile.STANDARD
    device: str | None = None
    seed: int | None = None
    lenient: bool = False
    require: tuple[str, ...] = ()
    precision: Precision | None = None
    replay: str | None = None
    run_dir: str = ""
    run_label: str = ""
    isolated: bool = False
    hide: tuple[str, ...] = ()
    mode: str = "check"  # check | replay | show | power | run | train | infer | blame | build
    recorded: str = ""  # a folder of calls that were recorded in a real program
    axes: Mapping[str, int] = field(default_factory=dict)
    record: str = ""
    against: str = ""  # another candidate, compared with in the algebra (mode run)
    loop: LoopJob | None = None
