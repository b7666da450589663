"""The walls around a candidate's process: what each keeps in, and how a machine gets it.

Whether a wall stands is found by trying to climb it, in the candidate's process, before anything
of the candidate is loaded. An outcome is STANDS or a sentence that begins with "no".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

STANDS = "yes"
_LANDLOCK = (
    "Linux 5.13 or newer with Landlock: add landlock to the lsm= list of the kernel command line "
    "(see /sys/kernel/security/lsm); in a container let the seccomp profile allow landlock_*"
)
NAMESPACES = (
    "user namespaces: sysctl kernel.unprivileged_userns_clone=1 and user.max_user_namespaces > 0; "
    "in a container run with --security-opt seccomp=unconfined or --cap-add SYS_ADMIN"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wall:
    """One wall. Without a `required` one nothing of the candidate is run."""

    name: str
    keeps: str
    fix: str
    required: bool = False


WRITES, READS, MEMORY = "writes confined", "reads confined", "judge's memory closed"
SIGNALS, NETWORK, SOCKETS = "signals confined", "network closed", "host sockets closed"
PRIVILEGES, CAPABILITIES = "no new privileges", "no capabilities"
RESOURCES, SHARED = "resource limits", "private shared memory"

WALLS: tuple[Wall, ...] = (
    Wall(
        name=WRITES,
        keeps="it changes no file outside its own folder and its build cache",
        fix=_LANDLOCK,
        required=True,
    ),
    Wall(
        name=READS,
        keeps="it reads no key, no seed, no other candidate and no home folder",
        fix=_LANDLOCK,
        required=True,
    ),
    Wall(
        name=MEMORY,
        keeps="it neither reads nor writes the memory of the process that judges it",
        fix="a kernel.yama.ptrace_scope of 1 or more, or " + _LANDLOCK,
        required=True,
    ),
    Wall(name=SIGNALS, keeps="it ends no process outside", fix="Linux 6.12 or newer: Landlock 6"),
    Wall(name=NETWORK, keeps="it reaches no network", fix=NAMESPACES),
    Wall(
        name=SOCKETS,
        keeps="it reaches no socket of the host and no other process",
        fix="seccomp filters (CONFIG_SECCOMP_FILTER) on x86-64 or aarch64",
    ),
    Wall(name=PRIVILEGES, keeps="set-uid programs give it nothing", fix="Linux 3.5 or newer"),
    Wall(name=CAPABILITIES, keeps="being root gives it nothing", fix="Linux with capabilities"),
    Wall(
        name=RESOURCES,
        keeps="memory, files and processes are bounded",
        fix="raise the hard limits of the shell: ulimit -H",
    ),
    Wall(name=SHARED, keeps="shared memory ends with its process", fix=NAMESPACES),
)
BY_NAME: Mapping[str, Wall] = {wall.name: wall for wall in WALLS}


def fallen(outcomes: Mapping[str, str]) -> tuple[Wall, ...]:
    """Return the required walls that do not stand by these outcomes."""
    return tuple(wall for wall in WALLS if wall.required and outcomes.get(wall.name) != STANDS)


def were_tried(outcomes: Mapping[str, str]) -> bool:
    """Return whether a candidate's process came as far as to try the required walls."""
    return any(wall.required and wall.name in outcomes for wall in WALLS)


def why_not_run(outcomes: Mapping[str, str]) -> str:
    """Return why nothing of a candidate may run here and what to do, or an empty string."""
    missing = fallen(outcomes)
    if not missing:
        return ""
    named = "; ".join(
        f"{wall.name}: {outcomes.get(wall.name, 'no: not reported')}" for wall in missing
    )
    fixes = "; ".join(dict.fromkeys(wall.fix for wall in missing))
    return (
        f"this machine does not confine a candidate ({named}). To get it: {fixes}. `cuassay "
        "doctor` tests each wall. For a kernel that you trust like your own code: --no-sandbox"
    )


def walls_condition(outcomes: Mapping[str, str]) -> str:
    """Return the condition of use of a verdict that was reached without these walls, if any."""
    missing = fallen(outcomes)
    if not missing:
        return ""
    names = ", ".join(wall.name for wall in missing)
    return (
        f"sandbox: judged without walls ({names}): the kernel could have forged this verdict, "
        "which cannot be certified"
    )
