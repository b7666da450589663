"""PREC101: which instruction loses the precision, by a float64 shadow of every value."""

from __future__ import annotations

from collections.abc import Iterator

from cuassay.checks.base import Trial
from cuassay.checks.machine.faults import MachineCheck, hot_cases, machine_cases, recorded_calls
from cuassay.model.diagnosis import Cause
from cuassay.model.machine import MachineFault
from cuassay.model.outcome import FindingClass, Severity
from cuassay.model.scenario import Scenario


class Prec101(MachineCheck):
    """no instruction loses precision that the result would have needed

    What it does
        Executes the candidate's launches in cuassay's PTX machine with a float64 shadow beside
        every floating register and memory cell, packed halves and matrix fragments included. For
        each instruction it measures the error that it introduces by rounding and the error that it
        amplifies by cancellation, where values leave the range of their format, and where a NaN or
        an infinity is born.

    Why it matters
        NUM001 and NUM002 say that a result is wrong; this says which line made it so. A sum kept in
        bfloat16 stops growing at 256 equal terms, and nothing in the source looks different.

    How it decides
        It never rejects: whether the loss matters is what the numeric checks decide against the
        float64 truth. A finding is advice that names the line, the instruction, how often it ran
        and how many bits it lost.

    Can it be wrong?
        A loss that later arithmetic makes irrelevant is reported too, if it is large. Bit tricks on
        floating values restart the shadow and hide a loss before them.

    Example
        "embedding_grad (kernel.cu:42): red.global.add.noftz.bf16 accumulates in bf16, loses 8.1
        bits over 2,780 additions".

    Options
        --profile: quick executes 2 cases, standard 4, deep 8.
    """

    code = "PREC101"
    title = "no instruction loses precision that the result would have needed"
    cause = Cause.LOW_PRECISION
    classes = ("N1", "N2", "N4", "N5")
    finding_class = FindingClass.ADVICE
    severity = Severity.MEDIUM
    kinds = frozenset({"precision"})
    clean_words = "no instruction stands out by its rounding"

    def propose(self, trial: Trial) -> Iterator[Scenario]:
        """Yield a case with many additions into one place, and what the other checks execute."""
        yield from recorded_calls(trial, (*hot_cases(trial), *machine_cases(trial)))

    def classed(self, fault: MachineFault) -> tuple[FindingClass, Severity]:
        """Every finding is advice; the worse ones stand before the others."""
        heavy = fault.severity == "wrong"
        return FindingClass.ADVICE, Severity.MEDIUM if heavy else Severity.LOW
