"""Regimes of indices, offsets, masks and plain integers. All return int64 or bool."""

from __future__ import annotations

import dataclasses

import torch

from cuassay.errors import ProblemError
from cuassay.inputs.request import FillFunction, Request
from cuassay.model.domain import Index, Lengths, Mask, Offsets, Packed
from cuassay.model.problem import ConstAxis, Problem, TensorSpec


def uniform(request: Request) -> torch.Tensor:
    """Every index equally likely."""
    return request.integers(max(request.limit, 1))


def zipf(request: Request) -> torch.Tensor:
    """The k-th most frequent index has probability ~ k**-`exponent` (1.0), as words do.

    Which index is the most frequent is itself random.
    """
    limit = max(request.limit, 1)
    ranks = torch.arange(1, limit + 1, device=request.device, dtype=torch.float64)
    cumulative = ranks.pow(-request.number("exponent", 1.0)).cumsum(0)
    drawn = request.uniform().to(torch.float64).mul_(cumulative[-1])
    rank = torch.searchsorted(cumulative, drawn, right=True).clamp_(max=limit - 1)
    return request.permutation(limit)[rank]


def single_hot(request: Request) -> torch.Tensor:
    """Every index the same: `row`, or a random one."""
    row = int(request.number("row", -1.0))
    if row >= 0:
        return torch.full(request.shape, min(row, max(request.limit - 1, 0)), device=request.device)
    return (
        request.integers(max(request.limit, 1), (1,)).repeat(request.count).reshape(request.shape)
    )


def two_hot(request: Request) -> torch.Tensor:
    """Two random indices share all hits about evenly."""
    rows = request.permutation(max(request.limit, 1))[:2]
    return rows[request.integers(len(rows))]


def arange(request: Request) -> torch.Tensor:
    """0, 1, 2, ... wrapped at the axis: all distinct where they fit."""
    counted = torch.arange(request.count, device=request.device)
    return (counted % max(request.limit, 1)).reshape(request.shape)


def distinct(request: Request) -> torch.Tensor:
    """Random order, each index used about equally often; all distinct where they fit."""
    limit = max(request.limit, 1)
    shuffled = request.permutation(max(request.count, limit))[: request.count]
    return (shuffled % limit).reshape(request.shape)


def sorted_indices(request: Request) -> torch.Tensor:
    """Uniform indices sorted along the last axis; distinct, and descending, with `descending` 1."""
    falling = bool(request.number("descending", 0.0))
    drawn = distinct(request) if falling else uniform(request)
    return drawn.sort(dim=-1, descending=falling).values if request.shape else drawn


def sentinel(request: Request) -> torch.Tensor:
    """Uniform indices, a `share` (0.25) of them replaced by the domain's sentinel values.

    At least one stays an index unless `all` is 1, since a mean over no element is undefined.
    Without sentinels in the domain it is `uniform`.
    """
    return marked(request, uniform(request))


def marked(request: Request, drawn: torch.Tensor) -> torch.Tensor:
    """Return indices, a share of them replaced by the domain's sentinels; see `sentinel`."""
    domain = request.spec.domain
    marks = domain.sentinels if isinstance(domain, Index) else ()
    if not marks or not request.count:
        return drawn
    replaced = request.uniform() < request.number("share", 0.25)
    if request.number("all", 0.0):
        replaced.fill_(True)
    else:
        replaced.view(-1)[request.integers(request.count, (1,))] = False
    values = torch.tensor(marks, device=request.device)[request.integers(len(marks))]
    return torch.where(replaced, values, drawn)


def explicit(request: Request) -> torch.Tensor:
    """The numbers of parameter `values`, row-major, repeated to the tensor's size."""
    values = torch.tensor([int(v) for v in request.values()], device=request.device)
    repeats = -(-request.count // len(values)) if request.count else 0
    return values.repeat(repeats)[: request.count].reshape(request.shape)


def unique(kind: str, request: Request) -> torch.Tensor:
    """Distinct indices whatever the regime: a permutation, sorted or counted where asked for."""
    if request.count > request.limit:
        raise ProblemError(
            f"input '{request.spec.name}' needs {request.count} distinct indices but its axis "
            f"has size {request.limit}; make the axis at least as long"
        )
    if kind == "arange":
        return arange(request)
    if kind == "explicit":
        return explicit(request)
    drawn = request.permutation(request.limit)[: request.count]
    ordered = (drawn.sort().values if kind == "sorted" else drawn).reshape(request.shape)
    return marked(request, ordered) if kind == "sentinel" else ordered


INDEX: dict[str, FillFunction] = {
    "uniform": uniform,
    "zipf": zipf,
    "single_hot": single_hot,
    "two_hot": two_hot,
    "arange": arange,
    "distinct": distinct,
    "sorted": sorted_indices,
    "sentinel": sentinel,
    "explicit": explicit,
}


def even_offsets(request: Request) -> torch.Tensor:
    """Sequences of equal length: 0, n/k, 2n/k, ..., n."""
    last = max(request.count - 1, 1)
    counted = torch.arange(request.count, device=request.device)
    return _close(counted * request.limit // last, request)


def random_offsets(request: Request) -> torch.Tensor:
    """Random cut points: sequences of all lengths, empty ones possible."""
    cuts = request.integers(request.limit + 1).reshape(-1).sort().values
    return _close(cuts, request)


def ragged_offsets(request: Request) -> torch.Tensor:
    """One sequence holds nearly everything, others are empty or of length 1, one is empty."""
    steps = request.integers(2).reshape(-1)
    if request.count > 2:  # two sequences or more
        steps[1 + request.integers(request.count - 2, (1,))] = 0
    return _close(steps.cumsum(0).clamp_(max=request.limit), request)


def _close(cuts: torch.Tensor, request: Request) -> torch.Tensor:
    """Return sorted cuts in steps of the domain's, from 0 to the axis's end or to what is used."""
    domain = request.spec.domain
    assert isinstance(domain, Offsets)
    last = torch.full((1,), request.limit, device=request.device)
    if domain.short:
        last = request.integers(request.limit + 1, (1,))
    cuts = torch.minimum(cuts, last) // domain.multiple_of * domain.multiple_of
    if request.count > 1:
        cuts[-1:] = last
    if request.count:
        cuts[0] = 0
    return cuts.reshape(request.shape)


_ROWS_WITH_ONE = 4  # of a mask, so that others keep many
_EDGES = 2  # lengths beside an edge of a page: one below and one above it


def mixed_lengths(request: Request) -> torch.Tensor:
    """Lengths of every size, half of them at the edges that `edge_lengths` has."""
    at_edges = request.uniform() < 1 / 2
    return torch.where(at_edges, edge_lengths(request), uniform_lengths(request))


def uniform_lengths(request: Request) -> torch.Tensor:
    """Every length equally likely."""
    low, high = _lengths(request)
    return request.integers(high - low + 1) + low


def edge_lengths(request: Request) -> torch.Tensor:
    """The least length, one more, the full one, one less, and those beside the edge of a page.

    Rows of the least and of the full length are there wherever there are two rows, and each other
    edge as far as there are rows: a batch of four that draws its edges has no empty row in half of
    all cases.
    """
    low, high = _lengths(request)
    assert isinstance(request.spec.domain, Lengths)
    page = request.spec.domain.page
    wished = [low, low + 1, high, high - 1]
    if page > 1:
        turn = request.integers(max(high // page, 1), (1,)).item() + 1
        wished += [int(turn) * page + beside for beside in (0, -1, 1)]
    others = sorted({min(max(size, low), high) for size in wished} - {low, high})
    shuffled = [others[place] for place in request.permutation(len(others)).tolist()]
    legal = torch.tensor([*dict.fromkeys((low, high)), *shuffled], device=request.device)
    chosen = request.integers(len(legal)).reshape(-1)
    first = min(len(legal), request.count) if request.count > 1 else 0
    chosen[:first] = torch.arange(first, device=request.device)
    return legal[chosen[request.permutation(request.count)]].reshape(request.shape)


def one_long_length(request: Request) -> torch.Tensor:
    """One row is full, one has the least length, the others have that or a few more."""
    low, high = _lengths(request)
    short = request.integers(min(high - low, _EDGES) + 1) + low
    for place, length in zip(
        request.permutation(request.count).tolist(), (high, low), strict=False
    ):
        short.view(-1)[place] = length
    return short


def _lengths(request: Request) -> tuple[int, int]:
    """Return the least and the full length. Raises ProblemError for an axis below the least."""
    domain = request.spec.domain
    assert isinstance(domain, Lengths)
    if request.limit < domain.low:
        raise ProblemError(
            f"input '{request.spec.name}' has lengths of {domain.low} or more, but its axis has "
            f"size {request.limit}; lower `low`, or make the axis at least as long"
        )
    return domain.low, request.limit


def _constant_length(kind: str) -> FillFunction:
    def constant(request: Request) -> torch.Tensor:
        low, high = _lengths(request)
        value = {"zeros": low, "ones": min(max(low, 1), high), "full": high}[kind]
        return torch.full(request.shape, value, device=request.device)

    return constant


def explicit_lengths(request: Request) -> torch.Tensor:
    """The given lengths, as far as the axis has them."""
    return explicit(request).clamp_(*_lengths(request))


LENGTHS: dict[str, FillFunction] = {
    "uniform": mixed_lengths,
    "edges": edge_lengths,
    "one_long": one_long_length,
    **{kind: _constant_length(kind) for kind in ("full", "ones", "zeros")},
    "explicit": explicit_lengths,
}


OFFSETS: dict[str, FillFunction] = {
    "uniform": random_offsets,
    "even": even_offsets,
    "ragged": ragged_offsets,
    "explicit": explicit,
}


def keep_mask(kind: str, request: Request, domain: Mask) -> torch.Tensor:
    """Return a bool mask, True where an element takes part."""
    ones = torch.ones(request.shape, dtype=torch.bool, device=request.device)
    if kind == "explicit":
        return explicit(request).bool()
    if kind == "ones" or not request.count:
        return ones
    if kind == "zeros":
        return ~ones
    if domain.kind == "causal" and len(request.shape) >= 2:
        return ones.tril(request.shape[-1] - request.shape[-2])
    if domain.kind == "padding" and request.shape:
        lengths = request.integers(request.shape[-1], (*request.shape[:-1], 1)) + 1
        return torch.arange(request.shape[-1], device=request.device) < lengths
    kept = request.uniform() < request.number("share", 0.7)
    if not is_flag(request.spec):
        kept[..., 0] = True  # a row with nothing to attend to is a case of its own ("zeros")
        # Leave one element, at any place, in one of eight rows, where there are four or more.
        rows = kept.view(-1, kept.shape[-1])
        if len(rows) >= _ROWS_WITH_ONE:
            chosen = request.permutation(len(rows))[: max(1, len(rows) // 8)]
            places = request.integers(rows.shape[1], (len(chosen), 1))
            rows[chosen] = torch.zeros_like(rows[chosen]).scatter(1, places, value=True)
    return kept


def is_flag(spec: TensorSpec) -> bool:
    """Whether a mask is one truth value at every size, with both its values.

    One whose axes happen to be of size 1 is a row like any other. Constant axes of that size have
    to be written as numbers (`with_ones`).
    """
    return all(dimension == "1" for dimension in spec.shape)


def with_ones(problem: Problem, spec: TensorSpec) -> TensorSpec:
    """Return an input with every constant axis of size 1 written as that number."""
    ones = {axis.name for axis in problem.axes if isinstance(axis, ConstAxis) and axis.value == 1}
    if not ones & set(spec.shape):
        return spec
    shape = tuple("1" if dimension in ones else dimension for dimension in spec.shape)
    return dataclasses.replace(spec, shape=shape)


def packed(kind: str, request: Request, domain: Packed, *, dtype: torch.dtype) -> torch.Tensor:
    """Return words of packed codes: random ones, all the least or the largest, or counted up.

    `edges` has the least and the largest code alone. Explicit numbers are whole words.
    """
    if kind == "explicit":
        return explicit(request)
    count, low, high = 8 * dtype.itemsize // domain.bits, domain.low, domain.top
    shape = (*request.shape, count)
    match kind:
        case "zeros" | "ones":
            codes = torch.full(shape, high if kind == "ones" else low, device=request.device)
        case "arange":
            places = torch.arange(request.count * count, device=request.device)
            codes = places.reshape(shape) % (high - low + 1) + low
        case "edges":
            codes = request.integers(2, shape) * (high - low) + low
        case _:
            codes = request.integers(high - low + 1, shape) + low
    shifts = torch.arange(count, device=request.device) * domain.bits
    return (codes << shifts).sum(-1)  # of 64 bits: the highest code wraps into the sign


def integers(
    kind: str, request: Request, low: int, high: int, *, dtype: torch.dtype = torch.int64
) -> torch.Tensor:
    """Integers within [low, high]; those that are all alike are made as `dtype`."""
    match kind:
        case "explicit":
            return explicit(request).clamp_(low, high)
        case "ones" | "zeros":
            value = min(max(int(kind == "ones"), low), high)
            if not value:  # memory that is not touched takes no time
                return torch.zeros(request.shape, dtype=dtype, device=request.device)
            return torch.full(request.shape, value, dtype=dtype, device=request.device)
        case "arange":
            counted = torch.arange(request.count, device=request.device).reshape(request.shape)
            return counted % (high - low + 1) + low
        case "patchwork" if request.shape and request.count:
            # Rows of six kinds in random order: any, halves at the number nearest to 0, sorted,
            # ends
            drawn = (request.integers(high - low + 1) + low).view(-1, request.shape[-1])
            zero, half = min(max(0, low), high), request.shape[-1] // 2
            kinds = request.permutation(len(drawn)) % 6
            drawn[kinds == 1, :half] = zero
            drawn[kinds == 2, half:] = zero
            drawn[kinds == 3] = drawn[kinds == 3].sort(dim=-1).values
            drawn[kinds == 4] = drawn[kinds == 4, :1]
            ends = torch.where(drawn % 2 == 0, low, high)
            drawn[kinds == 5] = ends[kinds == 5]
            return drawn.view(request.shape)
        case _:
            return request.integers(high - low + 1) + low


MASKS = ("uniform", "ones", "zeros", "explicit")
PACKED = ("uniform", "ones", "zeros", "arange", "explicit", "edges")
INTEGERS = (*PACKED[:-1], "patchwork")
