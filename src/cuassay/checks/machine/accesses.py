"""MEM101: every access of a kernel lies in the memory it was meant for, executed in PTX."""

from __future__ import annotations

from cuassay.checks.machine.faults import MachineCheck
from cuassay.model.diagnosis import Cause
from cuassay.model.machine import MachineFault


class Mem101(MachineCheck):
    """every access lies within the memory that it was meant for

    What it does
        Executes the candidate's launches in cuassay's PTX machine, on a CPU, and checks each
        access of each thread: against the bounds of the tensor, the `__shared__` array or the
        local array that its pointer was made from, against its alignment, and against the end of
        a block whose shared memory it names. What a kernel gives to `free` must be what `malloc`
        returned and nothing freed. Small sizes and their neighbours keep the kernel's
        own block shape and hit its tails. Configurations of a Triton autotuner are executed too:
        so many that each value of each parameter occurs once.

    Why it matters
        A load one element past a tensor reads whatever the allocator put there; a store corrupts
        a neighbour and shows somewhere else, days later. An overrun from one `__shared__` array
        into the next is seen by no sanitizer, for both belong to the block.

    How it decides
        The machine follows every pointer from the argument or symbol that it came from, so an
        address that lies in some other allocation is still out of bounds of its own. A wrong
        access rejects, with its source line, thread, block and distance from the end. Where no
        branch and no address depends on tensor data, what was seen holds for all data at those
        shapes, and the outcome says so.

    Can it be wrong?
        It judges the PTX for the architecture named in the finding, not what ptxas makes of it
        nor another architecture's path. Launch sizes other than those tried may differ. A pointer
        that a kernel computes from integers of unknown origin is looked up by its address.

    Example
        "scale (scale.cu:5): ld.global.f32 reads 4 bytes at byte 4000 of buffer 'x' (4000 bytes):
        0 bytes beyond its end".

    Options
        --profile: quick executes 2 cases, standard 4, deep 8; of other configurations at most 8,
        16 or 32, and none begins after 8, 20 or 60 s. The result says how many there are.
    """

    code = "MEM101"
    title = "every access lies within the memory that it was meant for"
    cause = Cause.OUT_OF_BOUNDS
    classes = ("M3", "M4", "M10")
    kinds = frozenset(
        {
            "out-of-bounds",
            "misaligned",
            "write-to-read-only",
            "address-overflow",
            "shared-memory-of-exited-block",
            "invalid-bulk-copy",
            "tensor-memory-misuse",
            "invalid-free",
        }
    )
    clean_words = "no access out of bounds or misaligned"

    def cause_of(self, fault: MachineFault) -> Cause | None:
        """Return the cause: an access that is misaligned is in need of no bounds."""
        return Cause.MISALIGNED if fault.kind == "misaligned" else self.cause
