"""One call of a candidate, watched: which of its lines run, and what their operations give.

Values are told by a sketch (how many elements, their mean, root mean square and largest
magnitude) that no transposition or reshape changes, and by some of their elements, which rows and
tiles have in common with the whole. The judge looks for both among the values of the reference and
of its broken versions, so that a wrong value can be followed to the line that made it. Everything
here is the candidate's word: a hint for a diagnosis, never a reason to reject.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from types import FrameType
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from cuassay import dispatch_modes
from cuassay.dispatch_modes import UntracedMode
from cuassay.model.candidate import ADAPTERS
from cuassay.model.scenario import Poison
from cuassay.model.steps import TraceCall
from cuassay.sandbox.guest.interface import Host, Made

LINE, OP, RETURNED = "line", "op", "returned"  # names of facts
_MOST_OPS, _MOST_LINES = 700, 250  # a record may have 1024 facts
_LARGEST = 1 << 22  # elements of a tensor that is sketched
_SAMPLED = 12  # elements of a tensor that are noted
# The PTX machine need not be loaded to be known: a launch of a rank that waits is inside of it.
try:
    _MACHINE = find_spec("ptxsan")
except ModuleNotFoundError:  # a finder may say so itself
    _MACHINE = None
_FOREIGN = tuple(
    os.path.dirname(module) + os.sep
    for module in (torch.__file__, os.__file__, __file__, _MACHINE.origin if _MACHINE else None)
    if module
)
_OWN = os.path.dirname(os.path.abspath(dispatch_modes.__file__)) + os.sep
# Operations whose result is their argument in another shape.
_FRAMES = 20
_SAME_VALUES = frozenset(
    {"detach", "alias", "view", "_unsafe_view", "reshape", "t", "transpose", "permute"}
    | {"unsqueeze", "squeeze", "clone", "contiguous", "lift_fresh", "_reshape_alias"}
    | {"as_strided", "empty_strided"}
)
Line = tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenOperation:
    """One operation: where, which, its result's dtype and sketch, the dtypes of what it read.

    `sketch` is (elements, mean, root mean square, largest magnitude), or empty where the result
    is no tensor of numbers; `sample` are some of its finite elements. `writes` is `input NAME`
    where it wrote into an input in place, `held` where into memory from before the call.
    """

    file: str
    line: int
    op: str
    dtype: str
    sketch: tuple[float, ...]
    sample: tuple[float, ...] = ()
    read: tuple[str, ...] = ()
    writes: str = ""


class OpWatch(UntracedMode):
    """Notes every operation that runs below it, with the line that `where` gives."""

    def __init__(
        self, where: Callable[[], Line], inputs: Mapping[str, torch.Tensor] | None = None
    ) -> None:
        super().__init__()
        self._where = where
        self._inputs = {_memory(tensor): name for name, tensor in (inputs or {}).items()}
        self._made: set[int] = set()
        self.seen: list[SeenOperation] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run the operation and note what it gave."""
        result = func(*args, **(kwargs or {}))
        name = func.overloadpacket.__name__
        if name not in _SAME_VALUES and len(self.seen) < _MOST_OPS:
            read = [t for t in tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)]
            given = [t for t in tree_leaves(result) if isinstance(t, torch.Tensor)]
            file, line = self._where()
            self.seen += [
                SeenOperation(
                    file=file,
                    line=line,
                    op=name,
                    dtype=_dtype(one),
                    sketch=sketch(one),
                    sample=_sample(one),
                    read=tuple(map(_dtype, read[:4])),
                    writes=self._written(func, args, kwargs or {}),
                )
                for one in given[:1]
            ]
            self._made.update(map(_memory, given))
        return result

    def _written(self, func: Any, args: Any, kwargs: Any) -> str:
        """Return what the operation wrote in place, if that is older than the call."""
        arguments = func._schema.arguments
        given = [*zip(arguments, args, strict=False)]
        given += [(each, kwargs[each.name]) for each in arguments if each.name in kwargs]
        for argument, value in given:
            written = argument.alias_info is not None and argument.alias_info.is_write
            if written and isinstance(value, torch.Tensor):
                place = _memory(value)
                if place in self._inputs:
                    return f"input {self._inputs[place]}"
                if place not in self._made:
                    return "held"
        return ""


def sketch(tensor: torch.Tensor) -> tuple[float, ...]:
    """Return (elements, mean, root mean square, largest magnitude); empty for no numbers."""
    if not 0 < tensor.numel() <= _LARGEST or tensor.dtype.is_complex:
        return ()
    try:
        values = tensor.detach().double()
        return (
            float(values.numel()),
            float(values.mean()),
            float(values.square().mean().sqrt()),
            float(values.abs().max()),
        )
    except (RuntimeError, NotImplementedError):
        return ()


def _sample(tensor: torch.Tensor) -> tuple[float, ...]:
    """Return some finite elements that are not zero, evenly spread over a tensor."""
    if not 0 < tensor.numel() <= _LARGEST or not tensor.is_floating_point():
        return ()
    try:
        flat = tensor.detach().reshape(-1)
        places = torch.linspace(0, flat.numel() - 1, min(_SAMPLED, flat.numel())).long()
        some = flat[places.to(flat.device)].double()
        return tuple(some[some.isfinite() & (some != 0)].tolist())
    except (RuntimeError, NotImplementedError):
        return ()


def trace_call(host: Host, step: TraceCall) -> Made:
    """Execute a TraceCall. Raises what the candidate raises."""
    lines = _Lines()
    watch = OpWatch(lambda: candidate_line(sys._getframe(1)), host.slot(step.slot).tensors)
    outputs = host.destinations(step.slot, Poison.NAN)
    previous = sys.gettrace()
    with watch:
        sys.settrace(lines.called)
        try:
            held = host.invoke(step.slot, outputs)
        finally:
            sys.settrace(previous)
    host.hold(step.result, step.slot, held)
    return Made(facts=tuple(_facts(lines, watch.seen)))


def read_facts(
    facts: Iterable[tuple[str, str]],
) -> tuple[dict[Line, int], Line, list[SeenOperation]]:
    """Return the lines with how often they ran, the line that returned, and the operations.

    What does not parse is left out: the candidate's process wrote it.
    """
    ran: dict[Line, int] = {}
    returned, seen = ("", 0), []
    for name, text in facts:
        try:
            data = json.loads(text)
            if name == LINE:
                ran[str(data[0]), int(data[1])] = int(data[2])
            elif name == RETURNED:
                returned = str(data[0]), int(data[1])
            elif name == OP:
                file, line, op, dtype, values, sample, read, writes = data
                seen.append(
                    SeenOperation(
                        file=str(file),
                        line=int(line),
                        op=str(op),
                        dtype=str(dtype),
                        sketch=tuple(map(float, values)),
                        sample=tuple(map(float, sample)),
                        read=tuple(map(str, read)),
                        writes=str(writes),
                    )
                )
        except (ValueError, TypeError, IndexError, KeyError, RecursionError):
            continue
    return ran, returned, seen


def candidate_frames(error: BaseException) -> tuple[Line, ...]:
    """Return the candidate's own lines in an exception's traceback, outermost first."""
    found, trace = [], error.__traceback__
    while trace is not None:
        if _is_candidate(trace.tb_frame):
            found.append((_named(trace.tb_frame)[0], trace.tb_lineno))
        trace = trace.tb_next
    return tuple(found[-_FRAMES:])


def _facts(lines: _Lines, seen: list[SeenOperation]) -> Iterable[tuple[str, str]]:
    for (file, line), count in list(lines.ran.items())[:_MOST_LINES]:
        yield LINE, json.dumps([file, line, count])
    yield RETURNED, json.dumps(list(lines.returned))
    for one in seen:
        values = one.sketch, one.sample
        yield OP, json.dumps([one.file, one.line, one.op, one.dtype, *values, one.read, one.writes])


class _Lines:
    """Counts the candidate's lines, in the order in which they first ran."""

    def __init__(self) -> None:
        self.ran: dict[Line, int] = {}
        self.returned: Line = ("", 0)

    def called(self, frame: FrameType, event: str, argument: object) -> Any:
        """Follow a frame that belongs to the candidate; leave every other one alone."""
        return self._stepped if _is_candidate(frame) else None

    def _stepped(self, frame: FrameType, event: str, argument: object) -> Any:
        place = _named(frame)
        if event == "line":
            self.ran[place] = self.ran.get(place, 0) + 1
        elif event == "return":
            self.returned = place  # the entry function's comes last
        return self._stepped


def candidate_line(frame: FrameType | None) -> Line:
    """Return the file and line of the innermost frame of the candidate, from `frame` outward."""
    while frame is not None:
        if _is_candidate(frame):
            return _named(frame)
        frame = frame.f_back
    return "", 0


def _is_candidate(frame: FrameType) -> bool:
    name = frame.f_code.co_filename
    if name.startswith(("<", _OWN, *_FOREIGN)) or os.path.basename(name).startswith(ADAPTERS):
        return False
    return "site-packages" not in name and "dist-packages" not in name


def _named(frame: FrameType) -> Line:
    """Return the frame's file, relative to the candidate's folder, and its line."""
    name = frame.f_code.co_filename
    return name.rpartition(f"{os.sep}src{os.sep}")[2], frame.f_lineno


def _dtype(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _memory(tensor: torch.Tensor) -> int:
    try:
        return tensor.untyped_storage().data_ptr()
    except (RuntimeError, NotImplementedError):  # a subclass without memory of its own
        return 0
