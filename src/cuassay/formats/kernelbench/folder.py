"""A folder of one operator: reference.py as in KernelBench, shapes.py, problem.yaml.

`SHAPES` of shapes.py lists the sizes of the workloads, each a dict over numbers of reference.py's
top level, in any case of letters (`head_dim` sets HEAD_DIM): whole ones are sizes, others go to the
module's constructor as they are (`P = 0.9`). `tolerance` of
problem.yaml maps dtypes of outputs to a number, for atol and rtol, or to both by name;
`precision` says which policy holds. Checkers of such folders load the reference's state into the
candidate before they compare.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from inspect import isfunction, signature
from pathlib import Path
from typing import Any

from cuassay.errors import ProblemError, suggestion
from cuassay.formats.kernelbench.pair import load_kernelbench_problem
from cuassay.formats.modules import import_file
from cuassay.formats.yaml_file import read_yaml
from cuassay.model.dtype import DType
from cuassay.model.precision import Precision
from cuassay.model.problem import Problem, Tolerance

REFERENCE, SHAPES_FILE, YAML_FILE = "reference.py", "shapes.py", "problem.yaml"
_ORIGIN = "problem.yaml"
# What this benchmark allows where a problem says nothing: by dtype, atol and rtol alike.
_DEFAULTS = {
    DType.FLOAT32: 1e-4,
    DType.FLOAT16: 1e-2,
    DType.BFLOAT16: 1e-2,
    DType.FLOAT8_E4M3FN: 1e-1,
    DType.FLOAT8_E5M2: 1e-1,
}
_EXACT = 0.0
_SHORT = {
    "bf16": "bfloat16",
    "fp16": "float16",
    "half": "float16",
    "fp32": "float32",
    "fp64": "float64",
    "fp8": "float8_e4m3fn",
    "fp8_e4m3": "float8_e4m3fn",
    "fp8_e4m3fn": "float8_e4m3fn",
    "fp8_e5m2": "float8_e5m2",
}


def is_operator(file: Path) -> bool:
    """Whether a file is the reference of such a folder: with shapes or tolerances beside it."""
    return file.name == REFERENCE and any(
        (file.parent / name).is_file() for name in (SHAPES_FILE, YAML_FILE)
    )


def load_operator(file: Path, text: str, *, notes: list[str]) -> Problem:
    """Return the problem of an operator's folder from its reference.py.

    Its code and that of shapes.py are run, on no data. Raises ProblemError and ReferenceError_.
    """
    folder = file.absolute().parent
    data: Mapping[str, Any] = {}
    if (folder / YAML_FILE).is_file():
        data = read_yaml(folder / YAML_FILE, expected="name and tolerance")
    name, precision = data.get("name"), data.get("precision")
    listed: dict[str, dict[str, int | float]] = {}
    if (folder / SHAPES_FILE).is_file():
        listed = _listed(folder / SHAPES_FILE, vars(import_file(file)))
    # What a kernel may keep follows from what problem.yaml calls the operator's precision:
    # `bf16` and `int4_bf16` allow 16-bit intermediates.
    words = set(
        (precision if isinstance(precision, str) else "").lower().replace("-", "_").split("_")
    )
    policy: Precision | None = None
    if words & {"fp8", "float8"}:
        policy = Precision.FP8
    elif words & {"bf16", "bfloat16", "fp16", "float16"}:
        policy = Precision.MIXED
    elif words & {"fp32", "float32"}:
        policy = Precision.STRICT
    return load_kernelbench_problem(
        file,
        text,
        name=name if isinstance(name, str) and name else folder.name,
        listed=listed,
        tolerance=_tolerances(data, folder / YAML_FILE),
        precision=policy,
        loads_state=True,
        notes=notes,
    )


def _listed(file: Path, reference: Mapping[str, Any]) -> dict[str, dict[str, int | float]]:
    """Return the numbers of each workload by names of the reference's top level."""
    values = vars(import_file(file))
    shapes = values.get("SHAPES")
    if shapes is None:
        lists = [name for name, value in values.items() if isinstance(value, list)]
        near = suggestion("SHAPES", lists)
        raise ProblemError(
            f"{file} defines no SHAPES{f' ({near})' if near else ''}; expected a list of dicts "
            "such as {'M': 32, 'K': 4096}"
        )
    if not isinstance(shapes, list | tuple) or not shapes:
        raise ProblemError(
            f"{file}: SHAPES is {shapes!r:.80}, expected a list of dicts such as "
            "{'M': 32, 'K': 4096}; give at least one"
        )
    numbers = {name: value for name, value in reference.items() if type(value) in (int, float)}
    found: dict[str, dict[str, int | float]] = {}
    for position, shape in enumerate(shapes):
        where = f"{file}: SHAPES[{position}]"
        if not isinstance(shape, Mapping):
            raise ProblemError(f"{where} is {shape!r:.80}, expected a dict of sizes by name")
        sizes: dict[str, int | float] = {}
        for key, size in shape.items():
            name = _named(str(key), numbers, reference, where=where)
            if type(numbers[name]) is int and (type(size) is not int or size < 1):
                raise ProblemError(f"{where}: {key!r} is {size!r:.40}, expected a whole number")
            if type(size) not in (int, float) or not math.isfinite(size):
                raise ProblemError(f"{where}: {key!r} is {size!r:.40}, expected a number")
            sizes[name] = size if type(numbers[name]) is int else float(size)
        label = " ".join(f"{name}={size}" for name, size in sizes.items())
        found.setdefault(label, sizes)
    return found


def _named(
    key: str, numbers: Mapping[str, int | float], reference: Mapping[str, Any], *, where: str
) -> str:
    """Return the reference's name for a number of SHAPES."""
    if key in numbers:
        return key
    same = [name for name in numbers if name.casefold() == key.casefold()]
    if len(same) == 1:
        return same[0]
    near = suggestion(key.upper(), numbers) or suggestion(key, numbers)
    # A benchmark may call a function of such numbers in place of the module, which then makes its
    # own tensors: another name would not help there.
    for name, function in reference.items():
        if not near and isfunction(function) and key in signature(function).parameters:
            raise ProblemError(
                f"{where}: '{key}' is an argument of the function {name} of {REFERENCE}; cuassay "
                "judges calls of Model with the tensors of get_inputs(), not such functions; write "
                "the operator as a problem of its own (docs/problems.md)"
            )
    raise ProblemError(
        f"{where}: '{key}' is not a number at the top level of {REFERENCE} "
        f"(known: {', '.join(numbers) or 'none'}){f'; {near}' if near else ''}; name it as "
        f"{REFERENCE} does, in any case of letters"
    )


def _tolerances(data: Mapping[str, Any], file: Path) -> Callable[[DType], Tolerance]:
    """Return what gives the tolerance of an output's dtype."""
    given = data.get("tolerance") or {}
    if not isinstance(given, Mapping):
        raise ProblemError(
            f"{file}: tolerance is {given!r:.60}, expected dtypes with numbers, such as "
            "bfloat16: 0.02"
        )
    known: dict[str, tuple[float, float]] = {}
    for key, value in given.items():
        name = str(key).removeprefix("torch.")
        name = _SHORT.get(name, name)
        if name not in {dtype.value for dtype in DType}:
            raise ProblemError(
                f"{file}: tolerance: '{name:.40}' is not a dtype; expected such as bfloat16 or bf16"
            )
        if isinstance(value, Mapping):
            atol, rtol = (_number(value.get(one, 0), f"{name}: {one}", file) for one in
                          ("atol", "rtol"))  # fmt: skip
        else:
            atol = rtol = _number(value, name, file)
        known[name] = (atol, rtol)

    def tolerance(dtype: DType) -> Tolerance:
        default = _DEFAULTS.get(dtype, _EXACT)
        atol, rtol = known.get(dtype.value, (default, default))
        return Tolerance(atol=atol, rtol=rtol, required_matched_ratio=1.0, origin=_ORIGIN)

    return tolerance


def _number(value: object, what: str, file: Path) -> float:
    """Return a number; YAML reads `1e-2`, which has no dot, as text."""
    try:
        found = float(value) if isinstance(value, int | float | str) else -1.0
    except (ValueError, OverflowError):
        found = -1.0
    if not 0 <= found < float("inf"):
        raise ProblemError(f"{file}: tolerance: {what} is {value!r:.40}, expected a number >= 0")
    return found
