"""What a guard reports: a violation as data, and the one exception that it may be asked for."""

from __future__ import annotations

from dataclasses import dataclass

from cuassay.errors import CuassayError


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """One call that was not what the trusted operator's errors allow.

    `kind` is forward, gradient, drift, contract (shape or dtype), raised, or rank. `measured`
    and `allowed` are of `statistic` on `group` of `output`; `judge` says who decided: `oracle`
    (float64 truth in its own process), `local` (widened trusted run), `contract`. `call` is
    about the guard's how-manyth call it was; `capsule` the evidence, empty where none was kept.
    """

    kernel: str
    kind: str
    signature: str
    output: str
    statistic: str
    measured: float
    allowed: float
    group: str
    judge: str
    message: str
    call: int
    unix_s: float
    dtype: str = ""
    trace_id: str = ""
    capsule: str = ""

    @property
    def severity(self) -> str:
        """`gross` where the answer is of another kind or far outside, else `numeric`."""
        far = self.kind in ("contract", "raised") or self.statistic == "class"
        return "gross" if far or self.measured > 100 * self.allowed else "numeric"


class GuardViolationError(CuassayError):
    """A guarded kernel violated its contract and the user asked for an exception."""

    def __init__(self, violation: Violation) -> None:
        self.violation = violation
        super().__init__(violation.message)
