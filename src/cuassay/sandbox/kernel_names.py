"""The GPU kernels that a candidate's sources define, by name; in time linear in the sources."""

from __future__ import annotations

import re
from collections.abc import Iterator

from cuassay.model.candidate import Candidate

# Every repetition is bounded: the text is a candidate's, and may be made to be slow to search.
_CUDA = re.compile(
    r"__global__[^;{}()]{0,400}?"
    r"(?:__launch_bounds__\s{0,40}\([^()]{0,200}\)[^;{}()]{0,400}?)?"
    r"(\w{1,200})\s{0,40}\("
)
_JIT = re.compile(r"\s{0,80}@(?:triton\.)?jit\b")
_DEFINITION = re.compile(r"\s{0,80}def\s{1,40}(\w{1,200})")
_BETWEEN = re.compile(r"\s{0,80}(?:@|#|$)")  # what may stand between a decorator and its function


def kernels_of(candidate: Candidate) -> tuple[str, ...]:
    """Return the names of the GPU kernels that a candidate's sources define."""
    found: dict[str, None] = {}
    for source in candidate.sources:
        found |= dict.fromkeys(_CUDA.findall(source.text))
        found |= dict.fromkeys(_jitted(source.text))
    return tuple(found)


def _jitted(text: str) -> Iterator[str]:
    decorated = False
    for line in text.splitlines():
        definition = _DEFINITION.match(line)
        if decorated and definition:
            yield definition.group(1)
        decorated = bool(_JIT.match(line)) or (decorated and bool(_BETWEEN.match(line)))
