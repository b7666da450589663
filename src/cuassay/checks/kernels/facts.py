"""What a worker says of the kernels of one call, as data: hostile text, every field bounded."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

_NUMBER = re.compile(r"\d{1,12}(?:\.\d{1,6})?")
_NAME = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class RanKernel:
    """A kernel that one call ran: how often, microseconds in all, and its launch."""

    name: str
    count: int
    took_us: float
    registers: int
    threads: int
    shared_bytes: int
    occupancy: int  # per cent, as the profiler estimates it


@dataclass(frozen=True, slots=True, kw_only=True)
class Code:
    """A kernel of the candidate's as it was compiled (see build.binaries.KernelCode)."""

    name: str
    registers: int
    stack_bytes: int
    local_accesses: int
    widest_bytes: int
    wide_accesses: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernels:
    """All of it. `blind` and `unread` say why `ran` or `code` are empty, where that is known."""

    ran: tuple[RanKernel, ...] = ()
    code: tuple[Code, ...] = ()
    own: frozenset[str] = frozenset()
    blind: str = ""
    unread: str = ""

    def is_own(self, name: str) -> bool:
        """Whether a kernel is one that the candidate's sources define."""
        words = set(re.findall(r"\w+", name))
        return "at::" not in name and bool(self.own & words)

    @property
    def own_us(self) -> float:
        """Microseconds that the candidate's own kernels took."""
        return sum(kernel.took_us for kernel in self.ran if self.is_own(kernel.name))

    @property
    def all_us(self) -> float:
        """Microseconds that all kernels of the call took."""
        return sum(kernel.took_us for kernel in self.ran)


def kernels_of(facts: Mapping[str, str]) -> Kernels:
    """Return what the facts of an Inspect step say; what does not fit is left out."""
    ran: list[RanKernel] = []
    code: list[Code] = []
    own: set[str] = set()
    for key, text in facts.items():
        kind, _, raw = key.partition(" ")
        # Numbers parted by spaces; none where anything else is among them
        words = text.split()
        name = cleaned_text(raw, _NAME)
        numbers = [float(word) for word in words] if all(map(_NUMBER.fullmatch, words)) else []
        if kind == "own" and name:
            own.add(name)
        elif kind == "ran" and len(numbers) == 6:
            count, took_us, registers, threads, shared, occupancy = numbers
            ran.append(
                RanKernel(
                    name=name,
                    count=int(count),
                    took_us=took_us,
                    registers=int(registers),
                    threads=int(threads),
                    shared_bytes=int(shared),
                    occupancy=min(int(occupancy), 100),
                )
            )
        elif kind == "code" and len(numbers) == 5:
            taken, stack, local, widest, wide = map(int, numbers)
            code.append(
                Code(
                    name=name,
                    registers=taken,
                    stack_bytes=stack,
                    local_accesses=local,
                    widest_bytes=widest,
                    wide_accesses=wide,
                )
            )
    return Kernels(
        ran=tuple(ran),
        code=tuple(code),
        own=frozenset(own),
        blind=cleaned_text(facts.get("profiler", "")),
        unread=cleaned_text(facts.get("binaries", "")),
    )


def cleaned_text(text: str, most: int = 200) -> str:
    """Return a worker's text without control characters, cut."""
    return "".join(c for c in text if c.isprintable())[:most]
