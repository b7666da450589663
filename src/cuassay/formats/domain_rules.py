"""Which domain a stated input may have: it fits the dtype and the shape, and is not empty."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias, assert_never

from cuassay.errors import ProblemError, UnknownNameError
from cuassay.model.domain import (
    SCALE_TILES,
    Choice,
    Domain,
    Index,
    IntegerRange,
    Lengths,
    Mask,
    Offsets,
    Opaque,
    Packed,
    Positive,
    Probability,
    Real,
    SizeOf,
    Structure,
    Swizzled,
)
from cuassay.model.dtype import DType
from cuassay.model.problem import InputSpec, Scalar, ScalarSpec, TensorSpec

_Kinds: TypeAlias = tuple[type[Domain], ...]
KINDS: dict[type[Domain], str] = {
    Real: "real",
    Positive: "positive",
    Probability: "probability",
    Index: "index",
    Lengths: "lengths",
    Offsets: "offsets",
    Mask: "mask",
    IntegerRange: "integer_range",
    Packed: "packed",
    Swizzled: "swizzled",
    Choice: "choice",
    SizeOf: "size_of",
    Opaque: "opaque",
}
MASKS = ("arbitrary", "causal", "padding")
NOT_FINITE = ("-inf", "inf", "nan")


def check_domain(spec: InputSpec, *, where: str) -> None:
    """Check that the domain of `spec` fits its dtype and shape and holds a value.

    `where` opens every message. Raises ProblemError.
    """
    domain, fitting = spec.domain, _fitting(spec)
    if type(domain) not in KINDS:
        raise ProblemError(
            f"{where}: {domain!r} is no domain; expected one of cuassay.domains, such as "
            "domains.Real(low=0.0) or domains.Index(axis='vocab')"
        )
    if not isinstance(domain, fitting):
        raise ProblemError(
            f"{where}: kind '{KINDS[type(domain)]}' does not fit {_described(spec)}; "
            f"expected one of {', '.join(KINDS[kind] for kind in fitting)}"
        )
    _check_shape(spec, where=where)
    match domain:
        case Real(low=low, high=high) | Positive(low=low, high=high):
            _check_real(spec, low, high, where=where)
        case Swizzled(low=low, high=high, layout=layout):
            if layout not in SCALE_TILES:
                raise ProblemError(
                    f"{where}: {UnknownNameError('layout of scales', layout, SCALE_TILES)}"
                )
            if spec.dtype.is_floating:
                _check_real(spec, low, high, where=where)
            else:
                _check_order(low, high, where=where)
                _check_integers(spec, (int(low), int(high)), where=where)
        case Packed():
            _check_packed(spec, domain, where=where)
        case Lengths(low=low, page=page):
            _check_least("low", low, 0, where=where)
            _check_least("page", page, 1, where=where)
        case Offsets(multiple_of=step):
            _check_least("multiple_of", step, 1, where=where)
        case IntegerRange(low=low, high=high):
            _check_order(low, high, where=where)
            _check_integers(spec, (low, high), where=where)
        case Index(sentinels=sentinels, per=per):
            _check_least("per", per, 1, where=where)
            _check_integers(spec, sentinels, where=where)
        case Choice(values=values):
            _check_choice(spec, values, where=where)


def _fitting(spec: InputSpec) -> _Kinds:
    """Return the kinds of domain that an input of this dtype may have."""
    dtype = spec.dtype
    if isinstance(spec, ScalarSpec):
        if dtype is DType.BOOL:
            return (Choice,)
        return (Real, Positive, Choice) if dtype.is_floating else (IntegerRange, Choice, SizeOf)
    if dtype is DType.BOOL:
        return (Mask, Choice, Opaque)
    if dtype is DType.FLOAT4_E2M1FN_X2:
        return (Real, Opaque)  # a byte holds two numbers: no bound can be kept
    if dtype.is_floating:
        return (Real, Positive, Probability, Swizzled, Mask, Choice, Opaque)
    return (IntegerRange, Index, Lengths, Offsets, Packed, Swizzled, Mask, Choice, Opaque)


def _described(spec: InputSpec) -> str:
    if isinstance(spec, ScalarSpec):
        return f"the {spec.dtype} scalar '{spec.name}'"
    return f"'{spec.name}', {spec.dtype}[{', '.join(spec.shape)}]"


def _check_shape(spec: InputSpec, *, where: str) -> None:
    rank = 0 if isinstance(spec, ScalarSpec) else len(spec.shape)
    match spec.domain:
        case Probability(axis=axis) if not -rank <= axis < rank:
            raise ProblemError(
                f"{where}: axis is {axis}, but {_described(spec)} has {rank} dimensions; "
                "expected the one along which the numbers sum to one, such as -1"
            )
        case Real(structure=structure) if structure is not Structure.GENERAL and (
            isinstance(spec, ScalarSpec) or rank < 2 or spec.shape[-1] != spec.shape[-2]
        ):
            raise ProblemError(
                f"{where}: structure '{structure}' does not fit {_described(spec)}; expected two "
                "last dimensions of one axis"
            )
        case Real(structure=structure) if (
            structure is not Structure.GENERAL and spec.dtype.itemsize == 1
        ):
            raise ProblemError(
                f"{where}: structure '{structure}' does not fit {_described(spec)}; expected a "
                "dtype of 16 bits or more"
            )
        case Offsets() if rank != 1:
            raise ProblemError(
                f"{where}: kind 'offsets' does not fit {_described(spec)}; expected one dimension"
            )
        case Swizzled() if rank != 2:  # rows and columns
            raise ProblemError(
                f"{where}: kind 'swizzled' does not fit {_described(spec)}; expected two "
                "dimensions, the rows and columns of whole tiles"
            )
        case Mask(kind=kind, lengths=lengths) if lengths and kind != "padding":
            raise ProblemError(
                f"{where}: a {kind} mask has no lengths; use kind='padding', or leave lengths out"
            )
        case Mask(kind=kind) if kind not in MASKS:
            raise ProblemError(f"{where}: {UnknownNameError('pattern of a mask', kind, MASKS)}")
        case Mask(kind="causal") if rank < 2:
            raise ProblemError(
                f"{where}: a causal mask does not fit {_described(spec)}; "
                "expected two dimensions or more (queries, keys)"
            )
        case Mask(additive=True) if not spec.dtype.is_floating:
            raise ProblemError(
                f"{where}: an additive mask does not fit {_described(spec)}; "
                "expected a floating dtype, or additive = false"
            )


def check_ties(inputs: Sequence[InputSpec], *, where: str) -> None:
    """Check that each input that a domain names as lengths has one for every row.

    Raises ProblemError.
    """
    known = {spec.name: spec for spec in inputs}
    for spec in inputs:
        if not isinstance(spec.domain, Index | Mask) or not spec.domain.lengths:
            continue
        name, place = spec.domain.lengths, f"{where}: the domain of '{spec.name}'"
        if name not in known:
            raise ProblemError(f"{place}: lengths: {UnknownNameError('input', name, known)}")
        lengths = known[name]
        rows = spec.shape[:-1] if isinstance(spec, TensorSpec) else ()
        if (
            not isinstance(lengths, TensorSpec)
            or lengths.dtype.is_floating
            or lengths.shape != rows
            or not isinstance(spec, TensorSpec)
            or not spec.shape
        ):
            raise ProblemError(
                f"{place}: lengths names {_described(lengths)}; expected integers of the shape "
                f"[{', '.join(rows)}], one for each row of {_described(spec)}"
            )


def _check_least(name: str, value: int, least: int, *, where: str) -> None:
    check_bound(value, where=where)
    if value < least:
        raise ProblemError(f"{where}: {name} is {value}, expected {least} or more")


def _check_packed(spec: InputSpec, domain: Packed, *, where: str) -> None:
    word = 8 * spec.dtype.itemsize
    if domain.bits < 1 or word % domain.bits or domain.bits > 8:  # of a byte
        raise ProblemError(
            f"{where}: bits is {domain.bits}, which do not fill {_described(spec)}; expected 1, 2, "
            "4 or 8"
        )
    _check_order(domain.low, domain.top, where=where)
    if domain.low < 0 or domain.top >= 1 << domain.bits:
        raise ProblemError(
            f"{where}: codes of {domain.bits} bits lie from 0 to {(1 << domain.bits) - 1}; got "
            f"{domain.low} to {domain.top}"
        )


def check_bound(bound: object, *, where: str) -> None:
    """Check that a bound is a number: sizes of axes have domains of their own.

    Raises ProblemError.
    """
    if isinstance(bound, bool) or not isinstance(bound, int | float):
        raise ProblemError(
            f"{where}: a bound is {bound!r}, expected a number. Indices below the size of an axis "
            "are domains.Index(axis='classes'), lengths up to it domains.Lengths(axis='classes'); "
            "a scalar that repeats it is size_of='classes'. An axis may be such as '2 * classes'"
        )
    if math.isnan(bound):
        raise ProblemError(f"{where}: a bound is NaN; give a number, or leave it out")


def _check_order(low: float, high: float, *, where: str) -> None:
    for bound in (low, high):
        check_bound(bound, where=where)
    if low > high:
        raise ProblemError(f"{where}: low {low} is above high {high}; swap or correct them")


def _check_real(spec: InputSpec, low: float | None, high: float | None, *, where: str) -> None:
    bottom = -math.inf if low is None else low
    top = math.inf if high is None else high
    _check_order(bottom, top, where=where)
    if isinstance(spec.domain, Positive) and bottom <= 0:
        raise ProblemError(
            f"{where}: low is {low}, expected a number above 0 for kind 'positive'; "
            "raise it, or use kind 'real'"
        )
    if spec.dtype is DType.FLOAT4_E2M1FN_X2 and (low is not None or high is not None):
        raise ProblemError(
            f"{where}: {spec.dtype} holds two numbers a byte, which no bound can be kept for; "
            "leave low and high out"
        )
    if spec.dtype is not DType.FLOAT4_E2M1FN_X2 and not _holds(bottom, top, spec.dtype):
        limit = spec.dtype.float_format.maximum
        raise ProblemError(
            f"{where}: no {spec.dtype} number is {domain_words(spec.domain)} (the largest is "
            f"{limit:g}); widen the bounds"
        )
    if isinstance(spec.domain, Real):
        _check_numbers(spec, spec.domain, where=where)


def _check_numbers(spec: InputSpec, domain: Real, *, where: str) -> None:
    """Check what a real domain says beside its bounds: `also` and `numbers_of`."""
    for name in domain.also:
        if name not in NOT_FINITE:
            raise ProblemError(
                f"{where}: {UnknownNameError('number that is not finite', name, NOT_FINITE)}"
            )
    if domain.also and (isinstance(spec, ScalarSpec) or spec.dtype.itemsize == 1):
        raise ProblemError(
            f"{where}: also={domain.also!r} does not fit {_described(spec)}; expected a tensor of "
            "16 bits or more"
        )
    if not domain.numbers_of:
        return
    narrower = [
        dtype.value for dtype in DType if dtype.is_liftable and dtype.itemsize < spec.dtype.itemsize
    ]
    if isinstance(spec, ScalarSpec) or domain.numbers_of not in narrower:
        raise ProblemError(
            f"{where}: numbers_of='{domain.numbers_of}' does not fit {_described(spec)}; expected "
            f"a tensor, and a narrower dtype: {', '.join(narrower) or 'there is none'}"
        )
    low = -math.inf if domain.low is None else domain.low
    high = math.inf if domain.high is None else domain.high
    if not _holds(low, high, DType(domain.numbers_of)):
        raise ProblemError(
            f"{where}: no {domain.numbers_of} number lies in [{low}, {high}]; widen the bounds"
        )


def _holds(low: float, high: float, dtype: DType) -> bool:
    """Whether the dtype has a finite number within [low, high]."""
    limit = dtype.float_format.maximum
    if low > 0:
        return _upward(low, dtype) <= min(high, limit)
    return high >= 0 or _upward(-high, dtype) <= min(-low, limit)


def _upward(value: float, dtype: DType) -> float:
    """Return the dtype's smallest number that is not below the positive `value`."""
    form = dtype.float_format
    if value > form.maximum:
        return math.inf
    _, exponent = math.frexp(max(value, form.smallest_normal))
    step = 2.0 ** (exponent - form.precision)
    return math.ceil(value / step) * step


def integer_limits(dtype: DType) -> tuple[int, int]:
    """Return the smallest and largest number of an integer dtype."""
    bits = 8 * dtype.itemsize
    if dtype is DType.UINT8:
        return 0, 2**bits - 1
    return -(2 ** (bits - 1)), 2 ** (bits - 1) - 1


def _check_integers(spec: InputSpec, values: tuple[int, ...], *, where: str) -> None:
    low, high = integer_limits(spec.dtype)
    for value in values:
        if not low <= value <= high:
            raise ProblemError(f"{where}: {value} is no {spec.dtype}, which holds {low} to {high}")


def _check_choice(spec: InputSpec, values: tuple[Scalar, ...], *, where: str) -> None:
    if not values:
        raise ProblemError(f"{where}: values is empty; list at least one legal value")
    for value in values:
        if not _is_value(value, spec.dtype):
            raise ProblemError(
                f"{where}: {value!r} is no value of {_described(spec)}; correct the list"
            )


def _is_value(value: Scalar, dtype: DType) -> bool:
    if isinstance(value, bool) or dtype is DType.BOOL:
        return isinstance(value, bool) and dtype is DType.BOOL
    if dtype.is_floating:
        return math.isfinite(value) and abs(value) <= dtype.float_format.maximum
    low, high = integer_limits(dtype)
    return isinstance(value, int) and low <= value <= high


def within(value: Scalar, domain: Domain) -> bool:
    """Return whether a scalar lies in its domain; True where the domain says nothing of scalars."""
    match domain:
        case Choice(values=values):
            return value in values
        case Real(low=low, high=high):
            return (low is None or value >= low) and (high is None or value <= high)
        case Positive(low=low, high=high) | IntegerRange(low=low, high=high):
            return low <= value <= high
    return True


def domain_words(domain: Domain) -> str:  # noqa: C901, PLR0911, PLR0912  # a clause a kind
    """Return a domain as a person says it: `real in [0.0, inf]`, `one of 1, 2`."""
    match domain:
        case Choice(values=values):
            return f"one of {', '.join(repr(value) for value in values)}"
        case Index(axis=axis, sentinels=sentinels, unique=unique):
            others = "".join(f" or {value}" for value in sentinels)
            beyond = f", anything beyond {domain.lengths}" if domain.lengths else ""
            return f"an index into {axis}{others}{', none twice' if unique else ''}{beyond}"
        case Lengths(axis=axis, low=low):
            return f"lengths from {low} to {axis}"
        case Packed(bits=bits, low=low):
            return f"codes of {bits} bits from {low} to {domain.top}"
        case Swizzled(layout=layout, low=low, high=high):
            return f"scales in [{low}, {high}] in layout {layout}"
        case SizeOf(axis=axis):
            return f"the size of {axis}"
        case Offsets(axis=axis, multiple_of=step, short=short):
            steps = f", multiples of {step}" if step > 1 else ""
            return f"sorted offsets from 0 to {axis}{' or less' if short else ''}{steps}"
        case Real(also=(_, *_) as also):
            return f"{domain_words(replace(domain, also=()))} or {' or '.join(also)}"
        case Real(numbers_of=narrow) if narrow:
            return f"{domain_words(replace(domain, numbers_of=''))} of {narrow}"
        case Real(structure=structure) if structure is not Structure.GENERAL:
            plain = domain_words(Real(low=domain.low, high=domain.high))
            return f"{plain}, {structure.words}"
        case Real(low=None, high=None):
            return "a finite number"
        case Probability(axis=axis):
            return f"probabilities along dimension {axis}"
        case Mask(kind=kind, additive=additive):
            of = f" of {domain.lengths}" if domain.lengths else ""
            return f"{kind} mask{of}{', added' if additive else ''}"
        case Opaque(why=why):
            return f"what the problem's own generator makes{f' ({why})' if why else ''}"
        case Real(low=low, high=high) | Positive(low=low, high=high):
            ends = ("-inf" if low is None else low, "inf" if high is None else high)
            return f"{KINDS[type(domain)]} in [{ends[0]}, {ends[1]}]"
        case IntegerRange(low=low, high=high):
            return f"an integer in [{low}, {high}]"
    assert_never(domain)
