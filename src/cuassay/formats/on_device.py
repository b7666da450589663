"""The form in which a candidate is judged on a device: as given, or as kernels with launches."""

from __future__ import annotations

from cuassay.formats.extension_launches import as_kernels
from cuassay.formats.inline_sources import inline_as_kernels, is_inline
from cuassay.model.candidate import Candidate, Language
from cuassay.model.problem import Problem


def on_device(candidate: Candidate, problem: Problem, device: str) -> Candidate:
    """Return the candidate as it is judged on `device`.

    Where there is no GPU a torch extension becomes the kernels and launches that its source
    spells out, which the PTX machine executes; a plain C++ extension stays what it is. Raises
    CandidateError where they cannot be read.
    """
    if device.startswith("cuda"):
        return candidate
    launches = any("<<<" in source.text for source in candidate.sources)
    if candidate.language is Language.CUDA_EXTENSION and launches:
        return as_kernels(candidate, problem)
    if is_inline(candidate) and launches:
        return inline_as_kernels(candidate, problem)
    return candidate
