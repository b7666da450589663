"""Operations of torch that an extension's C++ calls: noted by their place, or given another result.

Python sees an extension as one call. Below torch's dispatcher all its operations pass by, each
with the addresses of the extension's frames that led there: these are the place, which stays the
same from call to call. Lines of the source belong to it where the compiler wrote them down.
"""

from __future__ import annotations

import contextlib
import ctypes
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from cuassay.build.cuda.host_lines import HOST_LINES
from cuassay.dispatch_modes import UntracedMode
from cuassay.model.reached import Instead, Operator, OperatorExchange

_FRAMES = 128
_TIMEOUT_S = 20.0
_OPERANDS = (Instead.FIRST, Instead.SECOND, Instead.THIRD)
# Whose results hold nothing yet, or are an operand in another form.
_FORMS = ("empty", "zeros", "ones", "full", "new_", "_to_copy", "clone", "copy_", "scalar_tensor",
          "arange", "_local_scalar_dense", "lift_fresh")  # fmt: skip
_SUMS = ("add", "sub", "rsub")


class _Mode(UntracedMode):
    """Notes operations of libraries, or exchanges the result of one of them."""

    def __init__(self, ranges: Sequence[tuple[int, int, int]], wanted: OperatorExchange) -> None:
        super().__init__()
        self._ranges, self._wanted = ranges, wanted
        self._counts = Counter[str]()
        self._backtrace = ctypes.CDLL(None).backtrace
        self._frames = (ctypes.c_void_p * _FRAMES)()
        self.happened = False
        self.offers: dict[str, tuple[str, set[Instead]]] = {}

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        given = [one for one in args if isinstance(one, torch.Tensor)]
        before = {one.untyped_storage().data_ptr(): one for one in given}
        name = func.overloadpacket.__name__
        changes = any(one.alias_info is not None and one.alias_info.is_write
                      for one in func._schema.arguments)  # fmt: skip
        operands = [one.clone() if changes else one for one in given[: len(_OPERANDS)]]
        made = func(*args, **(kwargs or {}))
        if not isinstance(made, torch.Tensor) or made.numel() == 0 or name.startswith(_FORMS):
            return made
        if not changes and made.untyped_storage().data_ptr() in before:  # a view
            return made
        count = self._backtrace(self._frames, _FRAMES)
        found = []  # where frames of libraries are that lead here, innermost first
        for address in self._frames[:count]:
            for begin, end, base in self._ranges:
                if address is not None and begin <= address < end:
                    found.append(f"{address - base - 1:x}")
        place = "-".join(found)
        if not place:
            return made
        site = f"{name} {place}"
        self._counts[site] += 1
        site = f"{site} {self._counts[site]}"
        if not self._wanted.site:
            self.offers[site] = (place, _instead(name, made, operands))
        elif site == self._wanted.site:
            self.happened = True
            other = _other(made, operands, self._wanted.instead)
            return made.copy_(other) if changes else other
        return made


def _instead(name: str, made: torch.Tensor, operands: Sequence[torch.Tensor]) -> set[Instead]:
    """Return what may take the place of a result. Of a sum no part alone: zero for it says that."""
    if made.dtype is torch.bool:
        return {Instead.TRUE, Instead.FALSE}
    found = {Instead.ZERO}
    for instead, one in zip(_OPERANDS, operands, strict=False):
        alike = one.shape == made.shape and one.is_floating_point() is made.is_floating_point()
        if alike and one.dtype is not torch.bool and name.rstrip("_") not in _SUMS:
            found.add(instead)
    return found


def _other(made: torch.Tensor, operands: Sequence[torch.Tensor], instead: Instead) -> torch.Tensor:
    if instead in _OPERANDS:
        return operands[_OPERANDS.index(instead)].to(made.dtype).clone()
    return torch.ones_like(made) if instead is Instead.TRUE else torch.zeros_like(made)


class Operators:
    """What operations were offered for exchange since they were last told."""

    def __init__(self) -> None:
        self._offers: dict[str, tuple[str, set[Instead]]] = {}
        self._lines: dict[str, tuple[str, int]] = {}

    @contextlib.contextmanager
    def exchanged(self, wanted: OperatorExchange) -> Iterator[_Mode]:
        """Exchange one operation in the block, or note all of them where `wanted` names none."""
        with _Mode(_ranges(HOST_LINES.libraries), wanted) as mode:
            yield mode
        self._offers |= mode.offers

    def found(self) -> list[dict[str, Any]]:
        """Return operations that were noted and not yet told, each with the line of a source."""
        offers, self._offers = self._offers, {}
        places = {place for place, _ in offers.values()} - set(self._lines)
        if places:
            self._lines |= _lines_of(places, HOST_LINES.libraries)
        told = []
        for site, (place, instead) in offers.items():
            file, line = self._lines.get(place, ("", 0))
            made = Operator(site=site, file=file, line=line, instead=tuple(sorted(instead)))
            told.append(made.told)
        return told


def _ranges(libraries: Sequence[Path]) -> list[tuple[int, int, int]]:
    """Return where libraries are mapped: begin, end, and where the file begins."""
    names = {str(one.resolve()) for one in libraries}
    found, bases = [], dict[str, int]()
    for line in Path("/proc/self/maps").read_text(encoding="utf-8").splitlines():
        fields = line.split(maxsplit=5)
        if len(fields) == 6 and fields[5] in names:
            begin, end = (int(one, 16) for one in fields[0].split("-"))
            base = bases.setdefault(fields[5], begin - int(fields[2], 16))
            found.append((begin, end, base))
    return found


def _lines_of(places: set[str], libraries: Sequence[Path]) -> Mapping[str, tuple[str, int]]:
    """Return file and line of the innermost frame of each place that no header holds."""
    tool = shutil.which("addr2line")
    if tool is None or len(libraries) != 1:  # offsets of several libraries are not told apart
        return {}
    every = sorted({one for place in places for one in place.split("-")})
    command = [tool, "-e", str(libraries[0]), *(f"0x{one}" for one in every)]
    try:
        done = subprocess.run(command, capture_output=True, timeout=_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return {}
    known: dict[str, tuple[str, int]] = {}
    for offset, text in zip(every, done.stdout.decode(errors="replace").splitlines(), strict=False):
        file, _, line = text.partition(" ")[0].rpartition(":")
        if line.isdigit() and "/include/" not in file:
            known[offset] = (file, int(line))
    return {
        place: next((known[one] for one in place.split("-") if one in known), ("", 0))
        for place in places
    }


OPERATORS = Operators()
