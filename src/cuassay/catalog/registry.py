"""The catalogue by name. Importing this module loads no torch; `get` imports one operator."""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Mapping
from types import MappingProxyType

from cuassay.errors import ProblemError, UnknownNameError
from cuassay.model.digest import problem_digest
from cuassay.model.dtype import DType
from cuassay.model.problem import InputSpec, Problem, TensorSpec

_MODULES: Mapping[str, str] = MappingProxyType(
    {
        "cross_entropy": "cuassay.catalog.losses",
        "embedding_grad": "cuassay.catalog.embedding",
        "embedding_rmsnorm_backward": "cuassay.catalog.embedding",
        "embedding_rmsnorm_backward_64k": "cuassay.catalog.embedding",
        "fused_add_rmsnorm": "cuassay.catalog.norms",
        "rmsnorm": "cuassay.catalog.norms",
        "rmsnorm_backward": "cuassay.catalog.norms",
        "softmax_softcap": "cuassay.catalog.softmax",
        "swiglu": "cuassay.catalog.glu",
    }
)
DTYPES = (DType.BFLOAT16, DType.FLOAT16, DType.FLOAT32)
_WRITTEN = DType.BFLOAT16  # the working dtype that the operators are written with


def names() -> tuple[str, ...]:
    """Return the names of all catalogued operators, sorted."""
    return tuple(sorted(_MODULES))


def get(name: str, *, dtype: str | DType | None = None) -> Problem:
    """Return a catalogued problem; `rmsnorm@float16` or `dtype=` picks its working dtype.

    The working dtype (bfloat16 unless chosen) replaces bfloat16 in every input and output;
    tensors declared float32, such as rstd, stay. Raises UnknownNameError for the name or
    the dtype, ProblemError where both forms disagree.
    """
    plain, _, suffix = name.partition("@")
    if plain not in _MODULES:
        raise UnknownNameError("catalogue operator", plain, names())
    if suffix and dtype is not None and suffix != str(dtype):
        raise ProblemError(f"'{name}' asks for {suffix} but dtype={dtype!s}; give one of them")
    wanted = _dtype(suffix or str(dtype or _WRITTEN))
    function = getattr(importlib.import_module(_MODULES[plain]), plain)
    problem = function.__cuassay_problem__
    assert isinstance(problem, Problem)
    return problem if wanted is _WRITTEN else _variant(problem, wanted)


def _dtype(name: str) -> DType:
    legal = {dtype.value: dtype for dtype in DTYPES}
    if name not in legal:
        raise UnknownNameError("working dtype", name, legal)
    return legal[name]


def _variant(problem: Problem, dtype: DType) -> Problem:
    changed = dataclasses.replace(
        problem,
        name=f"{problem.name}@{dtype.value}",
        inputs=tuple(_input(spec, dtype) for spec in problem.inputs),
        outputs=tuple(_tensor(spec, dtype) for spec in problem.outputs),
        origin=problem.origin,
        digest="",
    )
    return dataclasses.replace(changed, digest=problem_digest(changed))


def _input(spec: InputSpec, dtype: DType) -> InputSpec:
    return _tensor(spec, dtype) if isinstance(spec, TensorSpec) else spec


def _tensor(spec: TensorSpec, dtype: DType) -> TensorSpec:
    return dataclasses.replace(spec, dtype=dtype) if spec.dtype is _WRITTEN else spec
