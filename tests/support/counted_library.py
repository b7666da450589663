"""A library of C++ that is compiled with counters and lines, as an extension without a GPU is."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from cuassay.build.cuda.host_lines import HostLines, counting_flags, link_counters


def counted_library(
    folder: Path, code: str, *, link: Sequence[str] = ()
) -> tuple[HostLines, ctypes.CDLL]:
    """Return the library that a text is, linked by flags, loaded, and what follows its calls."""
    compiler = shutil.which("g++") or "g++"
    unit, made, library = folder / "unit.cpp", folder / "unit.o", folder / "unit.so"
    unit.write_text(code, encoding="utf-8")
    flags = counting_flags(compiler, [])
    subprocess.run([compiler, "-fPIC", *flags, "-c", unit, "-o", made], check=True)
    linked = link_counters(compiler, folder)
    subprocess.run([compiler, "-shared", made, *linked, *link, "-o", library], check=True)
    lines = HostLines()
    lines.follow(library)
    return lines, ctypes.CDLL(str(library))
