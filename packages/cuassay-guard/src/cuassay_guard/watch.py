"""What one guard knows: its counters, its signatures, and who serves their calls."""

from __future__ import annotations

import hashlib
import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from cuassay_guard.calls.breaker import Breaker, State
from cuassay_guard.calls.counters import EventCounts
from cuassay_guard.calls.gate import Gate
from cuassay_guard.calls.sampling import CheckBudget, Sampler
from cuassay_guard.calls.signature import NO_MEMO, Form, described, first_dtype, forms_of, memo_of
from cuassay_guard.calls.snapshot import SnapshotBudget
from cuassay_guard.calls.structure import Template
from cuassay_guard.config import Enforcement, GuardConfig, OnViolation
from cuassay_guard.events import GuardViolationError, Violation
from cuassay_guard.fleet import registry
from cuassay_guard.sampled.drift import Drift
from cuassay_guard.sampled.screen import Allowance, Range
from cuassay_guard.trusted import TrustedOperator

LOG = logging.getLogger("cuassay.guard")
RATIOS = (0.1, 0.25, 0.5, 0.75, 0.9, 1.0, 2.0, 10.0)  # buckets of measured over allowed


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardStats:
    """What a guard has seen so far.

    calls       through the guard        sampled     taken for a check
    checked     compared                 judged      of these, by the oracle
    violations  of any kind              fallbacks   served by the trusted operator
    repaired    results replaced         dropped     sampled, but queue or memory was full
    skipped     due, but over budget     undecided   the oracle could not decide
    errors      of the trusted operator, of the shadow or of the guard itself
    pending     waiting for their check  signatures  known now
    state       the least trusting state of any signature: closed, half-open or open
    """

    name: str
    mode: str
    calls: int
    sampled: int
    checked: int
    judged: int
    violations: int
    fallbacks: int
    repaired: int
    dropped: int
    skipped: int
    undecided: int
    errors: int
    pending: int
    signatures: int
    state: str


@dataclass(slots=True, kw_only=True, eq=False)
class Entry:
    """One signature: its breaker, and what the oracle accepted of it."""

    key: Hashable
    text: str
    dtype: str
    forms: list[Form]
    breaker: Breaker
    allowance: Allowance = field(default_factory=Allowance)
    drift: Drift = field(default_factory=Drift)
    gradients: Allowance = field(default_factory=Allowance)
    range: Range = field(default_factory=Range)
    checked: int = 0
    pause: int = 0  # suspicious calls to let pass: the oracle could not decide the last ones
    undecided: int = 0
    capsules: int = 0
    violations: int = 0


class Watch:
    """The state of one guard, shared by all threads."""

    def __init__(
        self,
        config: GuardConfig,
        trusted: TrustedOperator,
        name: str,
        *,
        identity: str,
        source: str,
    ) -> None:
        self.config, self.trusted, self.name = config, trusted, name
        self.source = source  # FILE.py::FUNCTION, as `cuassay check` takes it; '' if unknown
        # who the kernel is, for metrics: a short digest of its name and source
        self.digest = hashlib.sha256(identity.encode()).hexdigest()[:12]
        self.tally = EventCounts()
        self.sampler = Sampler(config.sample, boost=config.boost, boost_calls=config.boost_calls)
        self.gate = Gate(self.sampler.gap())
        self.budget = CheckBudget(config.max_overhead)
        self.memory = SnapshotBudget(config.memory_budget_bytes)
        self.entries: OrderedDict[Hashable, Entry] = OrderedDict()
        self.fast: dict[Hashable, bool] = {}  # signatures that the kernel serves unquestioned
        self.last: Violation | None = None
        self.mismatches: dict[tuple[str, str], int] = {}  # by severity and dtype
        self.error: GuardViolationError | None = None
        self.recording: list[Any] | None = None  # calls of a CUDA graph under capture
        self.keep_latest = False  # for comparisons between ranks: the last sampled inputs
        self.latest: tuple[list[Tensor], Template] | None = None
        self.shadow_s = 0.0
        self.ratios = [0] * (len(RATIOS) + 1)
        self.ratio_sum = 0.0
        self._lock = threading.Lock()
        self._logged: set[str] = set()
        registry.add(self)

    @property
    def enforcing(self) -> bool:
        """Whether results may be changed."""
        return self.config.mode is Enforcement.ENFORCE

    def entry(
        self, key: Hashable, arguments: Sequence[Any], keywords: Mapping[str, Any]
    ) -> tuple[Entry, bool]:
        """Return the entry of a signature and whether this call is its first."""
        found = self.entries.get(key)
        if found is not None:
            return found, False
        with self._lock:
            if key in self.entries:
                return self.entries[key], False
            made = self._new(key, arguments, keywords)
            self.entries[key] = made
            if len(self.entries) > self.config.max_signatures:
                # Forget the oldest signature that the kernel serves, rather than an open breaker.
                served = (k for k, e in self.entries.items() if e.breaker.state is State.CLOSED)
                oldest = next(served, next(iter(self.entries)))
                self.distrust(self.entries.pop(oldest))
                self.tally.add("evicted")
        self.trust(made)
        return made, True

    def _new(self, key: Hashable, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> Entry:
        config = self.config
        made: list[Entry] = []
        breaker = Breaker(
            open_after=config.open_after,
            cooldown_s=config.cooldown_s,
            probes=config.probes,
            changed=lambda state: self._changed(made[0], state),
        )
        entry = Entry(
            key=key,
            text=described(arguments, keywords),
            dtype=first_dtype([*arguments, *keywords.values()]),
            forms=forms_of(arguments, keywords),
            breaker=breaker,
        )
        made.append(entry)
        return entry

    def trust(self, entry: Entry) -> None:
        """Let the kernel serve a signature without further questions, if the rules allow it."""
        closed = entry.breaker.state is State.CLOSED
        if closed and self.config.canary >= 1 and self.recording is None and self.error is None:
            self.fast[entry.key] = True

    def distrust(self, entry: Entry | None = None) -> None:
        """Question every call of a signature again, or of all of them."""
        if entry is None:
            self.fast.clear()
        else:
            self.fast.pop(entry.key, None)
        self.gate.remember(NO_MEMO)

    def remember(self, entry: Entry, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> None:
        """Know this call's signature more quickly from now on, if the kernel serves it."""
        if entry.key not in self.fast:
            return
        self.gate.remember(memo_of(arguments, keywords))
        if entry.key not in self.fast:  # distrusted meanwhile, by another thread
            self.gate.remember(NO_MEMO)

    def _changed(self, entry: Entry, state: State) -> None:
        if state is State.CLOSED:
            self.trust(entry)
        else:
            self.distrust(entry)
        self.tally.add(f"to {state.value}")
        LOG.warning(
            "guarded kernel %s: breaker %s for %s",
            self.name,
            state.value,
            entry.text,
            extra={"cuassay": {"event": "breaker", "kernel": self.name, "state": state.value,
                               "signature": entry.text}},
        )  # fmt: skip

    def violated(self, entry: Entry, violation: Violation) -> None:
        """Do what a violation asks for: count, open, tell."""
        self.tally.add("violations")
        kind = (violation.severity, violation.dtype)
        with self._lock:
            self.mismatches[kind] = self.mismatches.get(kind, 0) + 1
        self.last = violation
        self.sampler.heed()
        if self.enforcing and self.config.on_violation is not OnViolation.RECORD:
            entry.breaker.violation()
        if self.enforcing and self.config.on_violation is OnViolation.RAISE:
            self.error = GuardViolationError(violation)
            self.distrust()
        entry.violations += 1
        if entry.violations & (entry.violations - 1) == 0:  # 1st, 2nd, 4th, 8th ...: no flood
            names = violation.__dataclass_fields__
            found = {name: getattr(violation, name) for name in names}
            fields = {"event": "violation", "severity": violation.severity, **found}
            LOG.error("%s", violation.message, extra={"cuassay": fields})
        for hook in self.config.hooks:
            try:
                hook(violation)
            except Exception as failure:
                self.trouble("hook", failure)

    def raised(self) -> None:
        """Raise what the last violation left for the user, once."""
        with self._lock:
            error, self.error = self.error, None
        for entry in list(self.entries.values()):
            self.trust(entry)
        if error is not None:
            raise error

    def trouble(self, what: str, failure: BaseException) -> None:
        """Count a failure of the shadow; log the first of each kind."""
        self.tally.add("errors")
        self.tally.add(f"errors {what}")
        key = f"{what} {type(failure).__name__}"
        if key in self._logged:
            return
        self._logged.add(key)
        LOG.warning(
            "guarded kernel %s: %s failed (%s: %s); the caller is not affected",
            self.name,
            what,
            type(failure).__name__,
            failure,
            extra={"cuassay": {"event": "trouble", "kernel": self.name, "what": what}},
        )

    def share(self, value: float) -> None:
        """Take how much of the error budget a judged call used."""
        place = next((i for i, edge in enumerate(RATIOS) if value <= edge), len(RATIOS))
        self.ratios[place] += 1
        self.ratio_sum += min(value, 1e6)

    @property
    def state(self) -> State:
        """The least trusting state of any signature."""
        states = {entry.breaker.state for entry in list(self.entries.values())}
        return next((s for s in (State.OPEN, State.HALF_OPEN) if s in states), State.CLOSED)

    def stats(self) -> GuardStats:
        """Return the counters as of now."""
        tally = self.tally
        return GuardStats(
            name=self.name,
            mode=self.config.mode.value,
            calls=self.gate.calls,
            sampled=tally["sampled"],
            fallbacks=tally["fallbacks"],
            checked=tally["checked"],
            judged=tally["judged"],
            violations=tally["violations"],
            repaired=tally["repaired"],
            dropped=tally["dropped"],
            skipped=tally["skipped"],
            undecided=tally["undecided"],
            errors=tally["errors"],
            pending=tally["submitted"] - tally["done"],
            signatures=len(self.entries),
            state=self.state.value,
        )


def unix_s() -> float:
    """Return the present time for a record."""
    return time.time()
