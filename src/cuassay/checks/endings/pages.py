"""Pages of the findings that are about how a run ended, not about its numbers."""

from __future__ import annotations

from typing import ClassVar

from cuassay.model.diagnosis import Cause
from cuassay.model.outcome import Severity


class EarlyEnding:
    """One way for a build or a run to end early."""

    title: ClassVar[str]
    cause: ClassVar[Cause]
    classes: ClassVar[tuple[str, ...]] = ()
    severity: ClassVar[Severity] = Severity.HIGH


class Build001(EarlyEnding):
    """The candidate builds and imports

    What it does
        Compiles or imports the candidate in its own process before anything else runs.

    Why it matters
        A dead branch that never compiles, a missing header or a typing error at import time
        means that nothing was ever tested.

    How it decides
        An error of the compiler, of the linker or of the import is the candidate's own fault
        and rejects it, with the message. So does an import that does not end within 300 s. A
        compiler, device or package that is not there, one that needs longer than that, and memory
        that runs out are no fault of the candidate: the trial ends INCONCLUSIVE.

    Can it be wrong?
        A source that needs a newer compiler or another architecture than this machine has
        fails here. The evidence holds the compiler's own words.

    Example
        `error: identifier "__shfl_sync_down" is undefined`.

    Options
        `cuassay doctor` lists compilers and versions; builds are cached by digest.
    """

    title = "The candidate builds and imports"
    cause = Cause.NOT_BUILT


class Run001(EarlyEnding):
    """The kernel raises an exception

    What it does
        Reports an exception that left the candidate during a scenario.

    Why it matters
        A kernel that stops on legal inputs stops the training run or the server with it.

    How it decides
        An exception on inputs within the problem's domain rejects, unless the axis sizes are
        ones that neither a workload nor a declared bound promises: then it is a condition of
        use. Out of memory is never a verdict.

    Can it be wrong?
        The reference runs through the same scenario; what it refuses as well is not reported.

    Example
        `IndexError: index 7 is out of range` when the batch has seven rows.

    Options
        --require shapes makes the condition binding; `replay` shows the whole traceback.
    """

    title = "The kernel raises an exception"
    cause = Cause.RAISES
    classes = ("O7",)


class Run002(EarlyEnding):
    """The kernel ends its process

    What it does
        Reports a candidate that leaves through exit(), sys.exit() or os._exit().

    Why it matters
        A library call that ends the process takes the caller's work with it. In a checker that
        shares its process with the kernel, exit code 0 would count as a pass.

    How it decides
        The worker's process ended by itself before all steps were done, with any exit code.

    Can it be wrong?
        Only if the machine's administrator ended the process; run it again.

    Example
        A CUDA error macro that calls exit(EXIT_FAILURE) when a launch fails.

    Options
        None.
    """

    title = "The kernel ends its process"
    cause = Cause.ENDS_PROCESS
    classes = ("H7",)


class Run003(EarlyEnding):
    """The kernel crashes

    What it does
        Reports a process that died of a signal: segmentation fault, abort, a limit.

    Why it matters
        A crash on legal inputs is a memory error that happened to be noticed.

    How it decides
        The worker's process was ended by a signal during a step; the signal and the case are
        named.

    Can it be wrong?
        SIGKILL may come from the system's memory limit. The reference runs the same scenario;
        if it dies as well, nothing is reported.

    Example
        SIGSEGV in a C++ extension that reads row_ptr[rows] of an array with `rows` entries.

    Options
        None.
    """

    title = "The kernel crashes"
    cause = Cause.CRASHES
    classes = ("M3", "M4")


class Run004(EarlyEnding):
    """The kernel hangs

    What it does
        Ends the candidate's process group when one step exceeds its time limit.

    Why it matters
        A home-made grid barrier hangs when its blocks are not all resident; a loop over a
        sentinel never ends.

    How it decides
        One step took longer than the scenario's limit (60 s unless said otherwise), and in a
        new process longer than twice that: what compiles when it is first called, such as
        Triton's autotuner, finds most of it done by then. Limits above 60 s are not doubled.
        After a hang no limit is, and after four the candidate is not run any more.

    Can it be wrong?
        A kernel that compiles for three minutes on its first call looks the same; builds have
        a limit of their own, first calls count as calls. The reference has the same limit.

    Example
        A split-K kernel that waits for a flag that block 0 sets, on a grid larger than the GPU.

    Options
        None.
    """

    title = "The kernel hangs"
    cause = Cause.HANGS
    classes = ("C4",)


class Run005(EarlyEnding):
    """Something wrote to the result channel

    What it does
        Reports bytes on the worker's result channel that its protocol does not allow.

    Why it matters
        Results travel on a descriptor that a candidate has no reason to know. Writing there is
        an attempt to forge an answer, or memory corruption.

    How it decides
        A message did not parse, or came at a moment when none may come.

    Can it be wrong?
        A candidate that closes or overwrites all open descriptors for another reason is
        reported as well: it must not do that either.

    Example
        A module that writes {"passed": true} to every open file descriptor.

    Options
        None.
    """

    title = "Something wrote to the result channel"
    cause = Cause.FORGES
    classes = ("H7",)
    severity = Severity.CRITICAL


class Run006(EarlyEnding):
    """The kernel prints without end

    What it does
        Ends a candidate whose printed output exceeds the limit.

    Why it matters
        Debug prints in a kernel fill disks and hide other messages.

    How it decides
        Standard output and error together exceeded the worker's limit.

    Can it be wrong?
        A verbose build does not count, only what is printed while scenarios run.

    Example
        tl.device_print in the inner loop.

    Options
        None.
    """

    title = "The kernel prints without end"
    cause = Cause.PRINTS
    severity = Severity.MEDIUM


class Run007(EarlyEnding):
    """A launch failed and nobody looked

    What it does
        Asks the CUDA runtime for its last error after each call of the candidate.

    Why it matters
        A launch with too much shared memory, too many threads or an image for another
        architecture does not run. A candidate that ignores the error returns what its memory
        held before, which may be an earlier right answer.

    How it decides
        An error that is pending after the call and was not before rejects; its name is the
        CUDA runtime's. Queries of unfinished work and peer access switched on twice are none.

    Can it be wrong?
        Only errors of the runtime library that torch uses are seen, not those of a runtime
        linked statically into an extension; what such a kernel did not write, MEM001 reports.

    Example
        `kernel<<<grid, 2048>>>`: "cudaErrorInvalidConfiguration: invalid configuration
        argument".

    Options
        None.
    """

    title = "A launch failed and nobody looked"
    cause = Cause.LAUNCH_FAILED
    classes = ("M6",)
    severity = Severity.CRITICAL


ENDINGS: dict[str, type[EarlyEnding]] = {
    "BUILD001": Build001,
    "RUN001": Run001,
    "RUN002": Run002,
    "RUN003": Run003,
    "RUN004": Run004,
    "RUN005": Run005,
    "RUN006": Run006,
    "RUN007": Run007,
}
