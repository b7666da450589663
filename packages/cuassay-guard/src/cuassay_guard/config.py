"""What a guard is told, checked when it is made: a mistake never waits for production traffic."""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from cuassay import settings
from cuassay.errors import UnknownNameError, UsageError

if TYPE_CHECKING:
    from cuassay_guard.events import Violation

SWITCH = "CUASSAY_GUARD"
_MIB = 2**20
_Choice = TypeVar("_Choice", bound=enum.StrEnum)


class Enforcement(enum.StrEnum):
    """What the environment allows every guard of a process to do."""

    OFF = "off"  # the bare kernel
    OBSERVE = "observe"  # watch and record; never change a result
    ENFORCE = "enforce"  # also do what `on_violation` says


class OnViolation(enum.StrEnum):
    """What a violation brings about in `enforce`."""

    RECORD = "record"  # count, log, keep the evidence
    FALLBACK = "fallback"  # and use the trusted operator from the next call on
    RAISE = "raise"  # and raise GuardViolationError at the next call (this one if synchronous)


class OracleChoice(enum.StrEnum):
    """Where a suspicious call is judged."""

    AUTO = "auto"  # in the oracle's own process where the trusted operator can be imported there
    PROCESS = "process"  # there or not at all: construction fails where it cannot be imported
    LOCAL = "local"  # in this process, against a widened trusted run: sees less of float32


@dataclass(frozen=True, slots=True, kw_only=True)
class CapsulePolicy:
    """Limits and redaction of evidence.

    `folder` None is $CUASSAY_HOME/guard/capsules. A tensor set larger than `max_bytes` leaves
    its digests and statistics only. `redact` names arguments (or `*`) whose values never leave
    the process. `per_signature` and `per_hour` bound how many are written; evidence that exists
    is never deleted.
    """

    folder: Path | None = None
    max_bytes: int = 64 * _MIB
    max_folder_bytes: int = 1024 * _MIB
    per_signature: int = 3
    per_hour: int = 20
    redact: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardConfig:
    """Every knob of a guard.

    sample               share of calls checked in addition to the first of every signature
    max_overhead         cap on the time that checks take, as a share of wall time; None: no cap
    synchronous          judge a sampled call before its result is returned, and repair it
    canary               share of calls that the kernel serves, the rest is the trusted
                         operator's; 0: shadow only, the kernel runs on sampled inputs alone
    gradients            also check the gradients of sampled calls that are differentiated
    mutates              parameters that the operator writes to: judged like outputs
    deep_every           every so-manyth sampled call goes to the oracle, suspicious or not
    memory_budget_bytes  of snapshots that wait for their check; a call beyond it is not sampled
    open_after           violations of one signature that open its breaker
    cooldown_s           an open breaker starts to probe after so long, doubled by each failure
    probes               clean probes that close it again
    boost                factor on the sampling rate after a violation or on unseen inputs
    boost_calls          sampled calls for which the boost lasts
    """

    name: str = ""
    sample: float = 1e-3
    max_overhead: float | None = 0.01
    on_violation: OnViolation = OnViolation.FALLBACK
    mode: Enforcement = Enforcement.ENFORCE
    synchronous: bool = False
    canary: float = 1.0
    gradients: bool = True
    mutates: tuple[str, ...] = ()
    oracle: OracleChoice = OracleChoice.AUTO
    oracle_timeout_s: float = 120.0
    deep_every: int = 16
    memory_budget_bytes: int = 256 * _MIB
    max_signatures: int = 1024
    open_after: int = 1
    cooldown_s: float = 60.0
    probes: int = 8
    boost: float = 16.0
    boost_calls: int = 32
    capsules: CapsulePolicy | None = field(default_factory=CapsulePolicy)
    hooks: tuple[Callable[[Violation], None], ...] = ()
    trace_id: Callable[[], str] | None = None

    def __post_init__(self) -> None:
        """Raise UsageError for a value that means nothing."""
        _share("sample", self.sample)
        _share("canary", self.canary)
        if self.max_overhead is not None:
            _share("max_overhead", self.max_overhead, zero=False)
        for name in ("deep_every", "max_signatures", "open_after", "probes", "boost_calls"):
            _at_least(name, getattr(self, name), 1, whole=True)
        _at_least("memory_budget_bytes", self.memory_budget_bytes, 0, whole=True)
        _at_least("boost", self.boost, 1)
        for name in ("cooldown_s", "oracle_timeout_s"):
            _at_least(name, getattr(self, name), 0)


def configured(options: Mapping[str, Any]) -> GuardConfig:
    """Return the configuration of `guard(...)`'s keyword arguments and of the environment.

    Raises UnknownNameError for an unknown option or policy, UsageError for an unusable value.
    """
    fields = GuardConfig.__dataclass_fields__
    for name in options:
        if name not in fields:
            raise UnknownNameError("option of cuassay.guard", name, sorted(fields))
    given = dict(options)
    given["mode"] = mode(given.get("mode"))
    for name, kind in (("on_violation", OnViolation), ("oracle", OracleChoice)):
        if name in given:
            given[name] = _chosen(name, given[name], kind)
    for name in ("hooks", "mutates"):
        if name in given:
            value = given[name]
            if callable(value):
                given[name] = (value,)
            else:
                if isinstance(value, str) or not isinstance(value, list | tuple):
                    raise UsageError(f"{name} is {value!r}, expected a list or tuple")
                given[name] = tuple(value)
    for hook in given.get("hooks", ()):
        if not callable(hook):
            raise UsageError(f"hooks holds {hook!r}, expected functions that take a Violation")
    if isinstance(given.get("capsules"), str | Path):
        given["capsules"] = CapsulePolicy(folder=Path(given["capsules"]))
    _capsule_policy(given.get("capsules"))
    return GuardConfig(**given)


def mode(asked: Enforcement | str | None) -> Enforcement:
    """Return the mode: the environment's word, else what was asked for, else `enforce`."""
    switch = settings.get(SWITCH).strip().lower()
    if switch:
        return _chosen(f"${SWITCH}", switch, Enforcement)
    return Enforcement.ENFORCE if asked is None else _chosen("mode", asked, Enforcement)


def _chosen(name: str, value: object, kind: type[_Choice]) -> _Choice:
    legal = [member.value for member in kind]
    if str(value) not in legal:
        raise UnknownNameError(f"value of {name}", str(value), legal)
    return kind(str(value))


def _capsule_policy(value: object) -> None:
    if value is None:
        return
    if not isinstance(value, CapsulePolicy):
        raise UsageError(
            f"capsules is {value!r}, expected a folder, a CapsulePolicy, or None for no evidence"
        )
    for name in ("max_bytes", "max_folder_bytes", "per_signature", "per_hour"):
        _at_least(f"capsules.{name}", getattr(value, name), 0, whole=True)


def _share(name: str, value: object, *, zero: bool = True) -> None:
    legal = isinstance(value, int | float) and not isinstance(value, bool)
    if not legal or not (0 <= value <= 1) or (value == 0 and not zero):  # type: ignore[operator]
        low = "from 0" if zero else "above 0"
        raise UsageError(f"{name} is {value!r}, expected a share {low} to 1 (1e-3 is 0.1 %)")


def _at_least(name: str, value: object, least: int, *, whole: bool = False) -> None:
    kinds = int if whole else int | float
    legal = isinstance(value, kinds) and not isinstance(value, bool)
    if not legal or not value >= least or not math.isfinite(value):  # type: ignore[operator,arg-type]
        kind = "a whole number" if whole else "a number"
        raise UsageError(f"{name} is {value!r}, expected {kind} of at least {least}")
