"""Every exception that cuassay raises on purpose.

CuassayError
├── UsageError            invalid arguments or files: exit code 2, one message, no traceback
│   ├── ProblemError      a problem's definition cannot be read or contradicts itself
│   │   └── NoSizeError       a well-formed size gives no integer at these axes
│   ├── CandidateError    a candidate's files or entry point are missing or contradict each other
│   └── UnknownNameError  a name is not in a closed list; carries the legal list and a suggestion
├── CannotJudgeError      the trial cannot be carried out: exit code 3
│   ├── ReferenceError_   the problem's own reference or generator fails
│   ├── LiftError         an operation of the reference cannot be lifted; names the op and the line
│   ├── DeviceLostError   the judge's own GPU context was lost: nothing more can be made there
│   └── MissingToolError  a compiler, device or package that this step needs is not there
│       └── UncoveredError    a kernel that the PTX machine does not cover
└── BuildError            the candidate's own source does not build or import: finding BUILD001

LaunchError, raised where the candidate's caller would see it, is a RuntimeError as CUDA's are.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_LISTED = 30  # names in one message


class CuassayError(Exception):
    """Base of every exception that cuassay raises on purpose."""


class UsageError(CuassayError):
    """Invalid arguments or files: exit code 2, one message, no traceback."""


class ProblemError(UsageError):
    """A problem's definition cannot be read or contradicts itself."""


class NoSizeError(ProblemError):
    """A size is well-formed and gives no integer of at most 2^48 with these axes."""


class CandidateError(UsageError):
    """A candidate's files or entry point cannot be found or contradict themselves."""


class UnknownNameError(UsageError):
    """A name is not in a closed list; the message carries the list and a suggestion."""

    def __init__(self, kind: str, name: str, legal: Iterable[str], hint: str = "") -> None:
        self.kind, self.name, self.legal = kind, name, tuple(legal)
        nearest = suggestion(name, self.legal)
        shown = self.legal
        if len(self.legal) > _LISTED:
            shown = (
                tuple(difflib.get_close_matches(name, self.legal, _LISTED // 2, 0.4))
                or self.legal[:_LISTED]
            )
        listed = ", ".join(shown) if shown else "none"
        listed += (
            f" and {len(self.legal) - len(shown)} more" if len(shown) < len(self.legal) else ""
        )
        unknown = (
            f"unknown {kind} '{name}'" + (f": {nearest}" if nearest else "") + f" (known: {listed})"
        )
        super().__init__(unknown + (f" {hint}" if hint else ""))


class CannotJudgeError(CuassayError):
    """The trial cannot be carried out: exit code 3."""


class NothingToCheckError(CannotJudgeError):
    """A run showed that a check does not apply to this candidate: no verdict is lacking."""


class ReferenceError_(CannotJudgeError):
    """The problem's own reference or input generator fails."""


class DeviceLostError(CannotJudgeError):
    """The judge's own GPU context was lost, to a device-side assertion say."""


class LiftError(CannotJudgeError):
    """An operation of the reference cannot be lifted to another precision.

    `op` is the operation as torch names it, `where` is `file:line` inside the reference.
    """

    def __init__(self, op: str, where: str, why: str) -> None:
        self.op, self.where, self.why = op, where, why
        super().__init__(f"{op} at {where} cannot be lifted: {why}")


class MissingToolError(CannotJudgeError):
    """A compiler, device or package that this step needs is not there."""


class UncoveredError(MissingToolError):
    """A kernel that the PTX machine does not cover: no verdict follows from it without a GPU."""


class LaunchError(RuntimeError):
    """A launch failed and the candidate did not look."""


class BuildError(CuassayError):
    """The candidate's own source does not build or import.

    `log` is the compiler's or interpreter's message: untrusted text.
    """

    def __init__(self, what: str, log: str = "") -> None:
        self.what, self.log = what, log
        super().__init__(what)


def suggestion(name: str, legal: Iterable[str]) -> str:
    """Return `did you mean 'x'?` for the nearest legal name, or an empty string."""
    close = difflib.get_close_matches(name, list(legal), n=1, cutoff=0.6)
    return f"did you mean '{close[0]}'?" if close else ""


def missing_extra(package: str, extra: str) -> MissingToolError:
    """Return the error for an optional package that is absent, with its exact install line."""
    return MissingToolError(
        f"{package} is not installed; install it with: pip install 'cuassay[{extra}]'"
    )
