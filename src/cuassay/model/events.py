"""What the engine says while it works. Terminal, JSON, HTML and the store consume these."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from cuassay.model.outcome import CheckReport, Finding
from cuassay.model.verdict import Decision, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineStarted:
    """The trial begins: what will run, on which device."""

    run: str
    problem: str
    candidate: str
    profile: str
    device: str
    digest: str
    checks: tuple[str, ...]
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """A line for whoever watches: never needed to understand the result.

    `waits`: the trial waits for others, and its time limit stands still until its next event.
    """

    text: str
    waits: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckStarted:
    """A check begins."""

    code: str
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseFinished:
    """A scenario of the running check came back."""

    code: str
    label: str
    duration_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingReported:
    """A check saw something."""

    finding: Finding


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckFinished:
    """A check ended."""

    report: CheckReport


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionReached:
    """The decision is known; what follows (smallest inputs, power, times) only adds to it."""

    decision: Decision
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineFinished:
    """The verdict."""

    verdict: Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineStopped:
    """No verdict: `exit_code` 2 for a usage error, 3 where the trial cannot be carried out."""

    exit_code: int
    message: str
    traceback: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A JSON document that was asked for instead of a verdict (`cuassay problem show`)."""

    text: str


Event: TypeAlias = (
    EngineStarted
    | Progress
    | CheckStarted
    | CaseFinished
    | FindingReported
    | CheckFinished
    | DecisionReached
    | EngineFinished
    | EngineStopped
    | Document
)
