"""One trial as data: what the driver hands to a judge process."""

from __future__ import annotations

from dataclasses import dataclass

from cuassay.model.verdict import Profile


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What to judge. `problem` and `candidate` are as the user gave them.

    `replay` is the path of a recorded finding (JSON) to run again instead of the checks.
    `run_dir` is where the judge keeps snapshots; empty for none.
    """

    problem: str
    candidate: str = ""
    profile: Profile = Profile.STANDARD
    device: str | None = None
    seed: int | None = None
    lenient: bool = False
    require: tuple[str, ...] = ()
    replay: str | None = None
    run_dir: str = ""
    mode: str = "check"  # check | replay | show | power
