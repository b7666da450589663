"""On a GPU, an index out of range raises IndexError before the kernel runs, as on a CPU.

There torch's kernels find such an index by a device-side assertion, which takes the process's
CUDA context with it: all memory, and every result that is not on the host. References run in the
judge, and broken versions of them by the hundred, so their indices are looked at first. It costs
one round trip to the GPU for each operation that indexes, nothing for the others.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeAlias, TypeVar

import torch

from cuassay.hooks import Observed, Operation, PassThrough

T = TypeVar("T")
Named: TypeAlias = Mapping[str, Any]
# An index tensor, how many there are to choose from, whether it may count from the end.
Asked: TypeAlias = tuple[torch.Tensor, int, bool]

_ALONG_DIM = (
    "gather", "scatter", "scatter_add", "scatter_reduce", "index_select", "index_add",
    "index_copy", "index_reduce",
)  # fmt: skip
_ADVANCED = ("index", "_unsafe_index", "index_put", "_unsafe_index_put", "_index_put_impl")
_CLASSES = ("nll_loss_forward", "nll_loss_backward", "nll_loss2d_forward", "nll_loss2d_backward")


def in_range(inputs: Iterable[object]) -> AbstractContextManager[object]:
    """Return a block in which indices out of range raise IndexError, if an input is on a GPU."""
    return Observed(Ranges()) if _any_asserts(inputs) else nullcontext()


def called(call: Callable[[], T], inputs: Iterable[object]) -> T:
    """Return what `call` returns, with indices looked at if an input is on a GPU.

    What no dispatch mode can be around, flex_attention or a compiled function say, is called
    again without. Raises what `call` raises.
    """
    if not _any_asserts(inputs):
        return call()
    ranges = Ranges()
    try:
        with Observed(ranges):
            return call()
    except torch.OutOfMemoryError:
        raise
    except Exception:
        if ranges.refused:
            raise
        return call()


def look(asked: Operation) -> None:
    """Raise IndexError where an operation that is about to run has an index out of range.

    Indices on a CPU are left to torch.
    """
    rule = rule_of(asked.op)
    if rule is not None:
        _refuse(asked.op, (one for one in rule(asked.named) if _asserts(one[0])))


def _any_asserts(inputs: Iterable[object]) -> bool:
    return any(isinstance(value, torch.Tensor) and _asserts(value) for value in inputs)


def _asserts(tensor: torch.Tensor) -> bool:
    """Whether a kernel finds a bad index in this tensor by an assertion on its device."""
    return tensor.is_cuda


class Ranges(PassThrough):
    """Looks at the indices of every operation of a run as written, on any device.

    `refused` says whether one was out of range.
    """

    def __init__(self) -> None:
        self.refused = False

    def replace(self, operation: Operation) -> object:
        """Let the operation run. Raises IndexError for an index out of range."""
        rule = rule_of(operation.op)
        if rule is not None:
            try:
                _refuse(operation.op, rule(operation.named))
            except IndexError:
                self.refused = True
                raise
        return NotImplemented


def _refuse(op: Any, asked: Iterable[Asked]) -> None:
    for index, size, from_end in asked:
        if index.is_meta or index.dtype in (torch.bool, torch.uint8) or not index.numel():
            continue
        low, high = _bounds(index)
        if low < (-size if from_end else 0) or high >= size:
            wrong = high if high >= size else low
            raise IndexError(f"index {wrong} is out of bounds for {size} entries in {op}")


def _bounds(index: torch.Tensor) -> tuple[int, int]:
    """Return the least and the largest index, looked up once until the tensor is written.

    A reference that loops over experts gathers, weighs and scatters by the same places.
    """
    noted: Any = index  # the note lives as long as the tensor
    version = -1 if index.is_inference() else index._version  # an inference tensor counts no writes
    known, found = getattr(noted, "cuassay_bounds", (-1, (0, 0)))
    if version != known or version < 0:
        low, high = torch.stack(index.aminmax()).tolist()
        found = int(low), int(high)
        noted.cuassay_bounds = version, found
    return found


@functools.cache
def rule_of(op: Any) -> Callable[[Named], Iterable[Asked]] | None:
    """Return what finds the indices among an operation's arguments; None where it has none."""
    schema = getattr(op, "_schema", None)
    if schema is None or not schema.name.startswith("aten::"):
        return None
    return _RULES.get(schema.name.removeprefix("aten::").removesuffix("_"))


def _along_dim(named: Named) -> Iterator[Asked]:
    source, dim = named["self"], named["dim"]
    yield named["index"], source.shape[dim] if source.ndim else 1, False


def _advanced(named: Named) -> Iterator[Asked]:
    axis = 0
    for index in named["indices"]:
        if index is not None and index.dtype not in (torch.bool, torch.uint8):
            yield index, named["self"].shape[axis], True
        axis += index.ndim if index is not None and index.dtype is torch.bool else 1


def _classes(named: Named) -> Iterator[Asked]:
    """Targets of a negative log likelihood; those to ignore may be anything."""
    target, scores = named["target"], named["self"]
    counted = target[target != named["ignore_index"]]
    yield counted, scores.shape[1 if scores.ndim > 1 else 0], False


_RULES: Mapping[str, Callable[[Named], Iterable[Asked]]] = {
    **dict.fromkeys(_ALONG_DIM, _along_dim),
    **dict.fromkeys(_ADVANCED, _advanced),
    **dict.fromkeys(_CLASSES, _classes),
    "index_fill": lambda named: ((index, size, True) for index, size, _ in _along_dim(named)),
    **dict.fromkeys(("take", "put"), lambda named: [(named["index"], named["self"].numel(), True)]),
    **dict.fromkeys(
        ("embedding", "_embedding_bag", "_embedding_bag_forward_only"),
        lambda named: [(named["indices"], named["weight"].shape[0], False)],
    ),
    "embedding_dense_backward": lambda named: [
        (named["indices"], int(named["num_weights"]), False)
    ],
}
