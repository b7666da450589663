"""Candidates and problems for tests of cuassay.build."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from cuassay.model.candidate import Candidate, Convention, Language, SourceFile
from cuassay.model.domain import Real
from cuassay.model.dtype import DType
from cuassay.model.problem import (
    ConstAxis,
    ExprAxis,
    Problem,
    Reference,
    ScalarSpec,
    TensorSpec,
    VarAxis,
)


def candidate(
    *texts: str,
    paths: tuple[str, ...] = ("kernel.py",),
    entry: str = "run",
    language: Language = Language.PYTHON,
    convention: Convention = Convention.RETURNS,
) -> Candidate:
    """Return a candidate whose first path is the entry file."""
    return Candidate(
        name="candidate",
        sources=tuple(
            SourceFile(path=path, text=text) for path, text in zip(paths, texts, strict=True)
        ),
        entry_file=paths[0],
        entry_function=entry,
        language=language,
        convention=convention,
    )


def problem() -> Problem:
    """Return y[rows, hidden] = x[rows, hidden] * factor, with half = hidden / 2."""
    matrix = ("rows", "hidden")
    return Problem(
        name="scale",
        axes=(
            VarAxis(name="rows"),
            ConstAxis(name="hidden", value=8),
            ExprAxis(name="half", expression="hidden // 2"),
        ),
        inputs=(
            TensorSpec(name="x", dtype=DType.FLOAT32, shape=matrix, domain=Real()),
            ScalarSpec(name="factor", dtype=DType.FLOAT32, domain=Real()),
        ),
        outputs=(TensorSpec(name="y", dtype=DType.FLOAT32, shape=matrix, domain=Real()),),
        reference=Reference(path=Path("none.py")),
        workloads=(),
        origin="test",
    )


def guard_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have what a build changes in its worker process put back when the patch is undone."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name in (
        "TRITON_CACHE_DIR",
        "TORCH_EXTENSIONS_DIR",
        "TORCHINDUCTOR_CACHE_DIR",
        "TRITON_INTERPRET",
    ):
        monkeypatch.setenv(name, "")
    # The interpreter takes Triton over for the whole process, and the machine needs it as it is.
    monkeypatch.setenv("CUASSAY_TRITON", "interpreter")
