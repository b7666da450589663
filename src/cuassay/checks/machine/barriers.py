"""SYNC101: every barrier and warp operation is reached by those it waits for, executed in PTX."""

from __future__ import annotations

from cuassay.checks.machine.faults import MachineCheck
from cuassay.model.diagnosis import Cause
from cuassay.model.machine import MachineFault


class Sync101(MachineCheck):
    """barriers and warp operations are reached by everybody whom they wait for

    What it does
        Executes the candidate's launches in cuassay's PTX machine, thread by thread with
        independent progress, and looks at what every thread waits for: block and named barriers
        with their counts, mbarriers with their arrivals and expected bytes, barriers of a cluster,
        shuffles, votes and matrix instructions with their masks, spinning on memory. Traps and
        failed device assertions are reported as well, and what a Triton kernel assumes
        (`tl.assume`) though it is false: the PTX no longer shows that.

    Why it matters
        A barrier inside a branch hangs a GPU, or works on one architecture and hangs on the next. A
        shuffle whose mask names lanes that are elsewhere returns anything.

    How it decides
        A barrier that some live thread of the block can no longer reach, a warp operation whose
        named lanes do not arrive together, a wait that nothing can end, an mbarrier that is used
        without an init, touched like ordinary memory or over-arrived at, a trap, an assertion and
        a false assumption reject. A deadlock of blocks names who waits for which memory. A thread
        that has ended does not hold up a barrier: `if (i >= n) return;` before `__syncthreads()`
        works since Volta, though CUDA C++ does not promise it: advice.

    Can it be wrong?
        A grid-wide barrier is executed with all blocks resident; on a GPU with fewer places than
        blocks it hangs, which RUN004 sees there.

    Example
        "k (k.cu:9): 16 of 32 threads of block (0, 0, 0) wait at bar.sync 0 for threads that have
        gone another way".

    Options
        --profile: quick executes 2 cases, standard 4, deep 8.
    """

    code = "SYNC101"
    title = "barriers and warp operations are reached by everybody whom they wait for"
    cause = Cause.BARRIER
    classes = ("C1", "C4")
    kinds = frozenset(
        {
            "divergent-barrier",
            "divergent-collective",
            "deadlock",
            "trap",
            "assert",
            "mbarrier-misuse",
            "launch-control-misuse",
            "false-assumption",
            "ended-before-barrier",
        }
    )
    clean_words = "no divergent barrier, no deadlock"

    def cause_of(self, fault: MachineFault) -> Cause | None:
        """Return the cause: what a kernel assumes has nothing to do with its barriers."""
        return Cause.FALSE_ASSUMPTION if fault.kind == "false-assumption" else self.cause
