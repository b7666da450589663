"""What compiled kernels need of a GPU, read off their machine code by cuobjdump.

Registers, stack and shared memory come from the binary's own tables, the widest accesses to
device memory and those to local memory from its instructions (SASS). cuobjdump is part of the
CUDA toolkit and of Triton's wheel. Reference: CUDA binary utilities, `cuobjdump -res-usage` and
`-sass`; the names of instructions are those of its instruction set reference.
"""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from cuassay.build.cuda.toolkit import cuda_home
from cuassay.errors import MissingToolError

_TIMEOUT_S = 20.0
_KERNELS = 64
_USAGE = re.compile(r"Function (\S+):\s+REG:(\d+) STACK:(\d+) SHARED:(\d+) LOCAL:(\d+)")
_FUNCTION = re.compile(r"^\s*Function : (\S+)", re.MULTILINE)
_OPCODE = re.compile(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9_.]*)")
_GLOBAL = ("LDG", "STG", "LD", "ST", "LDGSTS")
_LOCAL = ("LDL", "STL")
_LENGTH = re.compile(r"\d+")
# A heading stands before each part of a fat binary, and each PTX text begins with its version.
_HEADING = re.compile(r"^Fatbin (?:elf|ptx) code:$", re.MULTILINE)
_VERSION = re.compile(r"^\s*\.version\s", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelCode:
    """One kernel's machine code. `local_accesses` counts instructions on a thread's own memory.

    `widest_bytes` is the widest access of one thread to device memory, the alignment that it
    takes for granted, and `wide_accesses` how many instructions are that wide.
    """

    name: str
    registers: int
    stack_bytes: int
    shared_bytes: int
    local_accesses: int = 0
    widest_bytes: int = 0
    wide_accesses: int = 0


@cache
def find_cuobjdump() -> str:
    """Return the path of cuobjdump: the toolkit's, Triton's, or one on PATH; or nothing."""
    home, triton = cuda_home(), importlib.util.find_spec("triton")
    places = [home / "bin"] if home is not None else []
    for package in (triton and triton.submodule_search_locations) or ():
        places.append(Path(package) / "backends" / "nvidia" / "bin")
    for place in places:
        if (place / "cuobjdump").is_file():
            return str(place / "cuobjdump")
    return shutil.which("cuobjdump") or ""


def ptx_in(file: Path) -> list[str]:
    """Return the PTX texts that a shared library or a fat binary carries; none where it has none.

    Raises MissingToolError where cuobjdump is missing or takes too long.
    """
    said = _dumped(file, "-ptx")
    starts = [match.start() for match in _VERSION.finditer(said)]
    ends = [match.start() for match in _HEADING.finditer(said)] + [len(said)]
    return [said[start : min(end for end in ends if end > start)] for start in starts]


def _dumped(file: Path, *options: str) -> str:
    """Return what cuobjdump prints of a file. Raises MissingToolError."""
    tool = find_cuobjdump()
    if not tool:
        raise MissingToolError(
            "cuobjdump was not found: set CUDA_HOME to a CUDA toolkit, or pip install triton"
        )
    try:
        done = subprocess.run(
            [tool, *options, str(file)],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_TIMEOUT_S,
            check=False,
        )
    except (subprocess.TimeoutExpired, OSError) as error:
        raise MissingToolError(f"cuobjdump gave no answer: {error}"[:300]) from None
    return done.stdout


def kernels_in(file: Path) -> list[KernelCode]:
    """Return the kernels of a cubin or a shared library; none where it holds none.

    Raises MissingToolError where cuobjdump is missing or takes too long.
    """
    return parse_sass(_dumped(file, "-res-usage", "-sass"))


def parse_sass(text: str) -> list[KernelCode]:
    """Return the kernels in what `cuobjdump -res-usage -sass` prints."""
    found = {
        name: KernelCode(
            name=identifier(name),
            registers=int(registers),
            stack_bytes=int(stack) + int(local),
            shared_bytes=int(shared),
        )
        for name, registers, stack, shared, local in _USAGE.findall(text)[:_KERNELS]
    }
    parts = _FUNCTION.split(text)[1:]
    for name, body in zip(parts[::2], parts[1::2], strict=True):
        if name in found:
            kernel = found[name]
            opcodes = _OPCODE.findall(body)
            widths: dict[int, int] = {}
            local = 0
            for opcode in opcodes:
                base, *modifiers = opcode.split(".")
                local += base in _LOCAL
                if base in _GLOBAL:
                    width = 16 if "128" in modifiers else 8 if "64" in modifiers else 4
                    widths[width] = widths.get(width, 0) + 1
            widest = max(widths, default=0)
            found[name] = replace(
                kernel,
                local_accesses=local,
                widest_bytes=widest,
                wide_accesses=widths.get(widest, 0),
            )
    return list(found.values())


def identifier(mangled: str) -> str:
    """Return the innermost name in a mangled one (`_ZN3ops4scaleIfEEvPT_` is scale)."""
    if not mangled.startswith("_Z"):
        return mangled
    place, last = 2 + mangled[2:].startswith("N"), mangled
    while found := _LENGTH.match(mangled, place):
        end = found.end() + int(found[0])
        last, place = mangled[found.end() : end], end
    return last or mangled
