"""INIT101: no kernel uses memory or a register that nobody has written, executed in PTX."""

from __future__ import annotations

from cuassay.checks.machine.faults import MachineCheck
from cuassay.model.diagnosis import Cause


class Init101(MachineCheck):
    """no kernel uses memory that was never written

    What it does
        Executes the candidate's launches in cuassay's PTX machine with one bit for every byte of
        global, shared and local memory and for every register that says whether it was written.
        Memory from `torch.empty` and its like counts as unwritten until a torch operation or a
        kernel writes it; an asynchronous copy counts as arrived only once it was waited for.

    Why it matters
        Fresh memory often happens to be zero, so an accumulator that nobody cleared passes every
        test in a new process and adds yesterday's gradient in a long one. A pipeline whose wait is
        off by one reads the tile before last, mostly right and sometimes not.

    How it decides
        Using an unwritten value rejects: as an address, in a branch, or in a result that leaves the
        kernel. Loading one and not using it does not. The finding names the line, the thread and
        the byte.

    Can it be wrong?
        Which tensors were unwritten before the launch is what the candidate's own process says.
        Memory that a library outside torch filled counts as written.

    Example
        "finish (sum.cu:31): st.global.f32 stores a value that depends on memory that nobody wrote".

    Options
        --profile: quick executes 2 cases, standard 4, deep 8.
    """

    code = "INIT101"
    title = "no kernel uses memory that was never written"
    cause = Cause.UNINITIALISED
    classes = ("M5", "S1")
    kinds = frozenset({"uninitialised"})
    clean_words = "nothing unwritten used"
