"""What stands inside `Annotated[...]` in a native problem: tensors and scalars as data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Never

from cuassay.errors import ProblemError, UnknownNameError
from cuassay.formats.domain_rules import check_bound, within
from cuassay.model.domain import Choice, Domain, IntegerRange, Mask, Real, SizeOf
from cuassay.model.dtype import DType
from cuassay.model.problem import Scalar


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorAnnotation:
    """A tensor of `dtype` whose dimensions are axis names, sizes or expressions of axes.

    `out` says of an argument that the call fills it, `updated` that it reads and changes it,
    `stale` of an input that what no output depends on may hold anything.
    """

    dtype: DType
    shape: tuple[str, ...]
    name: str | None
    domain: Domain
    declared: bool
    out: bool = False
    updated: bool = False
    stale: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalarAnnotation:
    """A Python scalar that the kernel takes as `dtype`."""

    dtype: DType
    domain: Domain
    declared: bool
    default: Scalar | None


def dtype_named(name: str | DType) -> DType:
    """Return the dtype called `name`. Raises UnknownNameError with the legal list."""
    try:
        return DType(str(name).removeprefix("torch."))
    except ValueError:
        raise UnknownNameError("dtype", str(name), [dtype.value for dtype in DType]) from None


def tensor(
    dtype: str | DType,
    *shape: str | int,
    name: str | None = None,
    domain: Domain | None = None,
    out: bool = False,
    updated: bool = False,
    stale: bool = False,
    **unknown: Never,
) -> TensorAnnotation:
    """Describe a tensor: `tensor("bfloat16", "rows", "hidden")`; no dimension is a 0-d tensor.

    `name` names an output, `domain` says which values are legal (default: any real number, or
    any mask for bool). `out` marks an argument that the call fills without reading it, `updated`
    an input that the call changes in place: both are outputs. `stale` says of an input that what
    no output depends on, such as unused pages, may hold anything, NaN too. Raises ProblemError for
    a size below 1, UnknownNameError for the dtype.
    """
    _refuse("tensor", unknown, known="name, domain, out, updated, stale")
    if out and stale:
        raise ProblemError("tensor(...): stale is for inputs; drop it beside out=True")
    if out and updated:
        raise ProblemError("tensor(...): an argument is either out or updated; drop one of them")
    for dimension in shape:
        if isinstance(dimension, bool) or not isinstance(dimension, str | int):
            raise ProblemError(
                f"tensor(...): dimension {dimension!r} is a {type(dimension).__name__}, "
                'expected an axis name such as "rows" or a size such as 128'
            )
        if isinstance(dimension, int) and dimension < 1:
            raise ProblemError(f"tensor(...): dimension {dimension} is below 1; give a real size")
    kind = dtype_named(dtype)
    default: Domain = Mask() if kind is DType.BOOL else Real()
    return TensorAnnotation(
        dtype=kind,
        shape=tuple(str(dimension) for dimension in shape),
        name=name,
        domain=default if domain is None else domain,
        declared=domain is not None,
        out=out,
        updated=updated,
        stale=stale,
    )


def scalar(
    dtype: str | DType,
    *,
    low: float | None = None,
    high: float | None = None,
    choices: Sequence[Scalar] | None = None,
    default: Scalar | None = None,
    size_of: str | None = None,
    **unknown: Never,
) -> ScalarAnnotation:
    """Describe a Python scalar: its legal range (both ends included) or its legal values.

    `size_of` says of an integer that it repeats the size of an axis or of an expression of axes.
    Raises ProblemError where the bounds contradict each other or the default, and for an
    integer without bounds, choices or axis.
    """
    _refuse("scalar", unknown, known="low, high, choices, default, size_of")
    kind = dtype_named(dtype)
    if size_of is not None:
        others = (low, high, choices, default)
        if kind.is_floating or kind is DType.BOOL or any(one is not None for one in others):
            raise ProblemError(
                f"scalar('{kind}', size_of='{size_of}'): expected an integer dtype and nothing "
                "else; the axis alone says which value it has"
            )
        return ScalarAnnotation(
            dtype=kind, domain=SizeOf(axis=size_of), declared=True, default=None
        )
    if choices is not None and (low is not None or high is not None):
        raise ProblemError("scalar(...): give either choices or low and high, not both")
    if choices is not None and not choices:
        raise ProblemError("scalar(...): choices is empty; list at least one legal value")
    for bound in (low, high):
        if bound is not None:
            check_bound(bound, where="scalar(...)")
    if low is not None and high is not None and low > high:
        raise ProblemError(f"scalar(...): low {low} is above high {high}; swap them")
    if choices is not None:
        domain: Choice | Real | IntegerRange = Choice(values=tuple(choices))
    elif kind is DType.BOOL:
        domain = Choice(values=(False, True))
    elif kind.is_floating:
        domain = Real(low=low, high=high)
    else:
        if (
            low is None
            or high is None
            or not (float(low).is_integer() and float(high).is_integer())
        ):
            raise ProblemError(
                f"scalar('{kind}'): bounds are low={low}, high={high}, expected two integers or "
                "choices=[...]: an integer argument has no natural range"
            )
        domain = IntegerRange(low=int(low), high=int(high))
    if default is not None and not within(default, domain):
        raise ProblemError(
            f"scalar(...): default {default!r} lies outside {_words(domain)}; correct one of them"
        )
    declared = choices is not None or low is not None or high is not None
    return ScalarAnnotation(dtype=kind, domain=domain, declared=declared, default=default)


def _refuse(call: str, unknown: Mapping[str, object], *, known: str) -> None:
    """Raise ProblemError for an argument that `call` has not, with what says the same here."""
    for name in unknown:
        instead = _INSTEAD[call].get(name)
        if instead is None:
            raise ProblemError(f"{call}(...) has no argument {name}=; expected one of {known}")
        first = "from cuassay import domains, and " if "domains." in instead else ""
        raise ProblemError(f"{call}(...) has no argument {name}=; write {first}{instead}")


_RANGE = "domain=domains.Real(low=..., high=...), for integers domains.IntegerRange"
# Arguments that the other function has, or another library's, and what says the same here.
_INSTEAD: Mapping[str, Mapping[str, str]] = {
    "tensor": {
        "low": _RANGE,
        "high": _RANGE,
        "choices": "domain=domains.Choice(values=(...))",
        "axis": 'domain=domains.Index(axis="...")',
        "shape": 'the dimensions in their order: tensor("float32", "rows", "hidden")',
        "inplace": "updated=True",
    },
    "scalar": {
        "domain": "low=..., high=... or choices=[...]",
        "values": "choices=[...]",
        "axis": 'size_of="..."',
    },
}


def _words(domain: Domain) -> str:
    match domain:
        case Choice(values=values):
            return f"the choices {', '.join(repr(value) for value in values)}"
        case Real(low=low, high=high) | IntegerRange(low=low, high=high):
            return f"[{'-inf' if low is None else low}, {'inf' if high is None else high}]"
    return "its domain"
