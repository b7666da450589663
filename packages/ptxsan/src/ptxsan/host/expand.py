"""A program's own macros, conditionals and headers expanded; the system's headers left alone.

What splits a CUDA source has to see functions, not the macros that make them, and must not wade
through the 300 000 lines of torch's headers. So the compiler's own preprocessor is run over text
in which every `#include` of a header that is not the program's has become a pragma, which passes
through it untouched; what those headers define stays as it is written. Lines keep their numbers:
the preprocessor marks them.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ptxsan.errors import CompileError
from ptxsan.host.tokens import Token, directives
from ptxsan.isa import arch_number

_INCLUDE = re.compile(r'#\s*include\s*(?:"([^"\n]+)"|<([^>\n]+)>)')
_UNROLL = re.compile(r"#\s*pragma\s+(unroll|nounroll)\b(.*)", re.DOTALL)
_MARK, _PASSED = "cuda_host_include", "__cuda_host_pragma_"
_PASSED_BACK = re.compile(rf"{_PASSED}(unroll|nounroll)\(((?:[^()]|\([^()]*\))*)\)")
# What a macro names is known behind the preprocessor alone: it stands there as text till then.
_BY_MACRO, _MACRO = "__cuda_host_include_", re.compile(r"#\s*include\s+([A-Za-z_].*)", re.DOTALL)
_MACRO_BACK = re.compile(rf"^[ \t]*{_BY_MACRO} (.*)$", re.MULTILINE)
_INCLUDED_BACK = re.compile(rf"^[ \t]*#pragma {_MARK} (.*)$", re.MULTILINE)
# What nvcc 13 defines in both of its passes.
_NVCC = (
    "__CUDACC__", "__NVCC__", "__CUDACC_VER_MAJOR__=13", "__CUDACC_VER_MINOR__=0",
    "__CUDACC_VER_BUILD__=88", "CUDART_VERSION=13000", "CUDA_VERSION=13000",
    "__CUDA_API_VERSION=13000",
    # it includes cuda_runtime.h first: programs ask for the guards of what that includes
    "__CUDA_RUNTIME_H__", "__CUDA_RUNTIME_API_H__", "__DRIVER_TYPES_H__", "__VECTOR_TYPES_H__",
)  # fmt: skip
_NVRTC = "__CUDACC_RTC__"
_NOT_NVRTC = re.compile(rf"#\s*if\s+!\s*defined\s*\(?\s*{_NVRTC}\b")
_NEGATED = re.compile(rf"!\s*defined\s*\(?\s*{_NVRTC}\s*\)?")
_TYPES = re.compile(r"(?:\s|//[^\n]*\n|using\s+\w+\s*=[^;{}]*(?:\{[^{}]*\})?[^;{}]*;)+")
_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A translation unit: its file, and where its own headers may lie beside the file's folder.

    `defines` and `folders` are what `-D` and `-I` gave; `system` are the folders of the system's
    headers, which are asked only whether they have one (`__has_include`).
    """

    path: Path
    folders: Sequence[Path] = ()
    defines: Sequence[str] = ()
    system: Sequence[Path] = ()
    compiler: str = "g++"
    headers: dict[Path, Path] = field(default_factory=dict)


def expand(source: Source, scratch: Path, *, arch: str, nvrtc: bool = False) -> str:
    """Return the unit's text expanded, as device code for `arch` (sm_90a), as host code for "".

    With `nvrtc` it is what the program's headers have for NVRTC, and for what they only leave out
    there, what they have for nvcc. `scratch` is a folder for rewritten copies. Raises CompileError
    with the preprocessor's log.
    """
    own = _Own(source, scratch, nvrtc=nvrtc)
    main = own.rewritten(source.path)
    defines = [*_NVCC, *source.defines]
    if arch:
        number = arch_number(arch)
        defines.append(f"__CUDA_ARCH__={number * 10}")
        if arch.endswith("a"):
            of_one = ("__CUDA_ARCH_SPECIFIC__", "__CUDA_ARCH_FAMILY_SPECIFIC__")
            defines += [f"{name}={number * 10}" for name in of_one]
            defines.append(f"__CUDA_ARCH_FEAT_SM{number}_ALL")
        defines += [_NVRTC] if nvrtc else []
    command = [source.compiler, "-E", "-x", "c++", "-std=c++20", "-w", f"-I{scratch}"]
    command += [f"-D{one}" for one in defines]
    command += [f"-idirafter{folder}" for folder in source.system]
    done = subprocess.run(
        [*command, str(main)], capture_output=True, timeout=_TIMEOUT_S, check=False
    )
    log = own.named(done.stderr.decode(errors="replace"))
    if done.returncode != 0:
        raise CompileError(f"{source.path.name} cannot be preprocessed", log)
    text = own.named(done.stdout.decode(errors="replace"))
    for back in (_INCLUDED_BACK, _MACRO_BACK):
        text = back.sub(lambda found: f"#include {found[1]}", text)
    return _PASSED_BACK.sub(lambda found: f"#pragma {found[1]} {found[2]}", text)


def asks_for_nvrtc(scratch: Path) -> bool:
    """Whether files of the program that `expand` copied to a folder have a form for NVRTC."""
    copies = (one for one in scratch.glob("u*/*") if one.is_file())
    return any(_NVRTC in one.read_text(encoding="utf-8", errors="replace") for one in copies)


class _Own:
    """The program's own files, copied into `scratch` with other includes rewritten."""

    def __init__(self, source: Source, scratch: Path, *, nvrtc: bool) -> None:
        self._source, self._scratch, self._nvrtc = source, scratch, nvrtc
        self._copies: dict[Path, Path] = {}

    def rewritten(self, path: Path) -> Path:
        path = path.resolve()
        if path not in self._copies:
            copy = self._scratch / f"u{len(self._copies)}" / path.name
            self._copies[path] = copy
            text = path.read_text(encoding="utf-8", errors="replace")
            copy.parent.mkdir(parents=True, exist_ok=True)
            parts, place = [], 0
            found = directives(text)
            for index, token in enumerate(found):
                new: str | None
                bare = self._nvrtc and _NOT_NVRTC.match(token.text)
                if bare and _has_no_else(found[index:]):
                    new = "#if 1"  # what the host alone needs is left out later
                elif self._nvrtc and _chooses_types(text, found[index:]):
                    new = _NEGATED.sub("1", token.text)  # the host hands over types of its form
                else:
                    new = self._directive(token.text, path.parent)
                if new is not None:
                    lines = token.text.count("\n")
                    parts += [text[place : token.start], new, "\n" * lines]
                    place = token.end
            copy.write_text("".join([*parts, text[place:]]), encoding="utf-8")
        return self._copies[path]

    def _directive(self, text: str, folder: Path) -> str | None:
        if unroll := _UNROLL.match(text):
            # The preprocessor expands no macros inside pragmas; nvcc does in this one.
            return f"{_PASSED}{unroll[1]}({unroll[2].partition('//')[0].strip()})"
        include = _INCLUDE.match(text)
        if include is None:
            macro = _MACRO.match(text)
            return f"{_BY_MACRO} {macro[1].strip()}" if macro else None
        name = include[1] or include[2]
        places = [folder, *self._source.folders] if include[1] else self._source.folders
        found = next((place / name for place in places if (place / name).is_file()), None)
        if found is not None:
            copy = self.rewritten(found)
            return f'#include "{copy}"'
        return f"#pragma {_MARK} <{include[1] or include[2]}>"

    def named(self, text: str) -> str:
        """Return the preprocessor's text with the names of the program's files."""
        return re.sub(rf"{re.escape(str(self._scratch))}/u\d+/", "", text)


def _has_no_else(directives_on: Sequence[Token]) -> bool:
    """Whether the conditional that begins here has one branch alone."""
    depth = 0
    for token in directives_on:
        word = token.text.lstrip("# \t")
        if depth == 1 and word.startswith(("else", "elif")):
            return False
        depth += word.startswith("if") - word.startswith("endif")
        if depth == 0:
            return True
    return False


def _chooses_types(text: str, directives_on: Sequence[Token]) -> bool:
    """Whether a conditional begins here that gives types other names for NVRTC than for nvcc."""
    if not _NEGATED.search(directives_on[0].text) or len(directives_on) < 3:
        return False
    opening, middle, end = directives_on[:3]
    words = [one.text.lstrip("# \t") for one in (opening, middle, end)]
    parts = zip(words, ("if", "else", "endif"), strict=True)
    if not all(word.startswith(start) for word, start in parts):
        return False
    bodies = text[opening.end : middle.start], text[middle.end : end.start]
    return all(_TYPES.fullmatch(one) for one in bodies)
