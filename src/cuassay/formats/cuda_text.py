"""What the text of a C++ or CUDA source says: exported functions, kernels, launch comments."""

from __future__ import annotations

import re

CUDA_SUFFIXES = (".cu", ".cpp", ".cc", ".cxx", ".c")
HEADER_SUFFIXES = (".cuh", ".h", ".hpp", ".inl")

_COMMENT = re.compile(r'//[^\n]*|/\*.*?\*/|("(?:\\.|[^"\\\n])*")', re.DOTALL)
_MARKER = re.compile(r"^\s*//\s*cuassay-launch:(.*)$")


def without_comments(text: str) -> str:
    """Return the source with comments blanked; string literals stay."""
    return _COMMENT.sub(lambda match: match.group(1) or " ", text)


def is_extension(text: str) -> bool:
    """Whether the source makes a Python module."""
    return re.search(r"\bPYBIND11_MODULE\s*\(", without_comments(text)) is not None


def exported(text: str) -> tuple[str, ...]:
    """Return the names that `m.def("name", ...)` exports to Python, in order."""
    return tuple(re.findall(r'\.\s*def\s*\(\s*"(\w+)"', without_comments(text)))


def kernels(text: str) -> tuple[str, ...]:
    """Return the names of the `__global__` functions, in order, each once."""
    plain = re.sub(
        r"__launch_bounds__\s*\([^()]*(?:\([^()]*\)[^()]*)*\)", " ", without_comments(text)
    )
    found = re.findall(r"__global__\s[^;{}()]*?\b(\w+)\s*\(", plain)
    return tuple(dict.fromkeys(found))


def has_c_linkage(text: str) -> bool:
    """Whether anything in the source is declared `extern "C"`."""
    return re.search(r'extern\s+"C"', without_comments(text)) is not None


def launch_comment(text: str) -> tuple[str, int] | None:
    """Return the TOML in the `// cuassay-launch:` comment and its first line, None without one.

    TOML follows the marker on its line, or on the comment lines below a bare marker.
    """
    lines: list[str] = []
    first, inside = 0, False
    for number, line in enumerate(text.splitlines(), start=1):
        marker = _MARKER.match(line)
        if marker is not None:
            first = first or number
            inside = not marker.group(1).strip()
            lines.append(marker.group(1))
        elif inside and line.lstrip().startswith("//"):
            lines.append(line.lstrip().removeprefix("//"))
        else:
            inside = False
            if first:
                lines.append("")  # keeps TOML's line numbers those of the file
    return ("\n".join(lines), first) if first else None


def parameter_names(text: str, function: str) -> tuple[str, ...] | None:
    """Return the parameter names of C++ function `function`, None where no definition is found.

    Templates with commas in parameter types are followed by their brackets.
    """
    match = re.search(
        rf"\b{re.escape(function)}\s*\(([^(){{}};]*)\)\s*(?:noexcept\s*)?\{{",
        without_comments(text),
    )
    if match is None:
        return None
    names, depth, current = [], 0, ""
    for character in match.group(1) + ",":
        depth += (character in "<[") - (character in ">]")
        if character == "," and depth == 0:
            if current.strip():
                names.append(current)
            current = ""
        else:
            current += character
    plain = (name.partition("=")[0] for name in names)
    return tuple((re.findall(r"\w+", name) or [""])[-1] for name in plain)
