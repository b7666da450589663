"""Parts of a candidate's code that decide nothing: other values in their place change no result.

The values of expressions that tensors come from are exchanged, one at a time, in calls on cases
that were judged: by zeros, by a mask that holds nowhere or everywhere, or by one of the operands,
as if the operation were not there. What the judge accepts all the same in every case is code whose
purpose no judged call has seen: a wrong branch as arithmetic, such as `y * (1 + 0.1 * near)`.
"""

from __future__ import annotations

import ast
import asyncio
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeVar

import torch

from cuassay.checks.base import done
from cuassay.checks.judgement import is_wrong
from cuassay.checks.kernels.facts import cleaned_text
from cuassay.errors import CuassayError
from cuassay.inputs.geometry import elements
from cuassay.judge.decide.structure import matched
from cuassay.judge.decide.tried import called
from cuassay.model import serial
from cuassay.model.candidate import Candidate, SourceFile
from cuassay.model.case import Case
from cuassay.model.python_text import parse_python, span_of
from cuassay.model.reached import Exchange, Instead, OperatorExchange, Reached, Span, Spoiled
from cuassay.model.scenario import Allocate, Call, ReadResult, Refill, Scenario, Step
from cuassay.model.scope import Unreached
from cuassay.model.trace import StepDone, StepRaised
from cuassay.sandbox.host.waits import run_now
from cuassay.sandbox.ran import Ran

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Any

    from cuassay.checks.base import Trial
    from cuassay.judge.checking import Checked
    from cuassay.model.trace import ResultItem

    RunExchanged = Callable[[Scenario], Coroutine[Any, Any, Ran | None]]

AnyExchange = TypeVar("AnyExchange", Exchange, OperatorExchange)
_NO_TIME = "no time was left to exchange all parts of its code"
_TEXT = 76  # characters of an expression
_CALL_S = 5.0
_ELEMENTS = 1 << 17  # of inputs and outputs of a call
_KEPT, _KEPT_CASES = 6, 6  # tensors that calls keep, and cases on which they are spoiled
_MOST_ELEMENTS, _LARGE_CASES = 1 << 21, 3
_AT_ONCE = 64  # exchanges of a scenario
_FOLLOWED_AT_ONCE = 8  # cases of one
_GROSS = 0.05  # of the norm of an output: no rounding differs by as much
_OPERANDS = (Instead.FIRST, Instead.SECOND, Instead.THIRD)
_ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Pow)
# Whose results hold nothing yet, or hold what another number would do as well for.
_MAKING = ("empty", "zeros", "ones", "full", "new_")
_ASKS_FORM = ("len", "size", "numel", "dim", "stride", "data_ptr", "save_for_backward")
# What changes the form of a tensor or its rounding, which need not show.
_FORMS = (
    "float", "half", "bfloat16", "double", "to", "type", "type_as", "contiguous", "clone", "detach",
    "cpu", "cuda", "view", "reshape", "expand", "expand_as", "broadcast_to", "flatten", "squeeze",
    "unsqueeze", "as_tensor", "asarray", "pad", "requires_grad_", "view_as", "reshape_as", "apply",
    "round", "real",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class IdleParts:
    """Parts of a candidate's Python files: whose values decide nothing, and what calls share.

    `shared` came to a tensor that calls keep and write, and whose numbers before a call do not
    matter to it: two calls at once work in one memory.
    """

    unreached: tuple[Unreached, ...] = ()
    shared: tuple[Unreached, ...] = ()


def idle_parts(
    trial: Trial, candidate: Candidate, run: RunExchanged, checked: Checked, reached: Reached
) -> IdleParts:
    """Return the parts of a candidate's Python files in whose place other values do as well.

    Nothing where the candidate does not run in a process apart, which alone exchanges values.
    """
    trees = dict(_trees(candidate))
    small, large = judged_cases(trial, checked)
    cases = small[: trial.effort.exchange_cases]
    end = time.monotonic() + trial.effort.exchange_s
    run, followed = until(end, run), True
    if trial.device.on_gpu and trees and cases:  # calls there are not followed before
        reached = _followed(run, cases)
        followed = bool(reached.parts)
    left = [one for path, (source, tree) in trees.items() for one in _offers(source, tree, reached)]
    same: set[Exchange] = set()
    # One call each first. What that leaves is asked again after a call on other values, with the
    # same exchange: there it matters what tells whether a kept result may be used again.
    turns: list[tuple[Case, ...]] = [(case,) for case in cases]
    for number, case in enumerate(cases[: trial.effort.exchange_histories]):
        turns.append((case, replace(case, seed=trial.seed("exchange", number))))
    turns += [(case,) for case in large[:_LARGE_CASES]]
    for turn in turns:
        kept: list[Exchange] = []
        if turn[0] in large:  # only for what no smaller case runs
            kept, left = [one for one in left if one in same], [o for o in left if o not in same]
        for first in range(0, len(left), _AT_ONCE):
            for one, right in tried_exchanges(
                trial, run, turn, left[first : first + _AT_ONCE], end
            ):
                if right is not False:
                    kept.append(one)
                if right:
                    same.add(one)
        left = kept
    found = same.intersection(left)
    stored = _kept(trial, run, cases[:_KEPT_CASES], end) if trees else _Kept()
    untried = Unreached(file=candidate.entry_file, line=1, last=1, test=_NO_TIME)
    lead = "kept from an earlier call: "
    return IdleParts(
        unreached=(
            *(
                one
                for source, tree in trees.values()
                for one in (
                    *_named(source, tree, found),
                    *_named_kept(source, tree, stored.deciding, lead),
                )
            ),
            *((untried,) if (left or not followed) and time.monotonic() > end else ()),
        ),
        shared=tuple(
            one
            for source, tree in trees.values()
            for one in _named_kept(source, tree, stored.written)
        ),
    )


def until(end: float, run_exchanged: RunExchanged) -> RunExchanged:
    """Return what runs such calls as far as they have come to their end by `end`, monotonic.

    What is still at work then is ended, and None returned: of a kernel that compiles for each new
    size one run takes longer than all calls together may.
    """

    async def run(scenario: Scenario) -> Ran | None:
        try:
            async with asyncio.timeout(max(0.0, end - time.monotonic())) as clock:
                return await run_exchanged(scenario)
        except TimeoutError:
            if not clock.expired():
                raise
            return None

    return run


def _followed(run_exchanged: RunExchanged, cases: Sequence[Case]) -> Reached:
    """Return what calls on some cases run, in a process apart; without those it had no time for."""
    reached = Reached()
    for first in range(0, len(cases), _FOLLOWED_AT_ONCE):
        some = cases[first : first + _FOLLOWED_AT_ONCE]
        steps: list[Step] = []
        for number in range(len(some)):
            steps += [Allocate(slot="a", case=number), Call(slot="a", result="r")]
            steps.append(ReadResult(result="r"))
        scenario = Scenario(label="parts of its code", cases=tuple(some), steps=tuple(steps))
        run = run_now(run_exchanged(scenario))
        if run is None:
            break
        reached |= run.reached
    return reached


def _trees(candidate: Candidate) -> Iterator[tuple[str, tuple[SourceFile, ast.Module]]]:
    for source in candidate.sources:
        if source.path.endswith(".py") and source.path != candidate.adapter:
            try:
                yield source.path, (source, parse_python(source.text))
            except (SyntaxError, ValueError, RecursionError, MemoryError):
                continue


def judged_cases(trial: Trial, checked: Checked) -> tuple[list[Case], list[Case]]:
    """Return the cases that were judged by truth, the small ones and the largest of the others.

    Of the small ones first one of each kind of values.
    """
    found: dict[str, Case] = {}
    for check, scenario in checked.right:
        if check.grades or check.asks_right:
            for case in called(scenario, read=True):
                found.setdefault(serial.dumps(case), case)
    size = {key: elements(trial.problem, case.axes) for key, case in found.items()}
    small = [key for key in found if size[key] <= _ELEMENTS]
    middle = sorted(size[key] for key in small)[len(small) // 2] if small else 0
    small.sort(key=lambda key: abs(size[key] - middle))
    turns, seen = dict[str, int](), Counter[str]()
    for key in small:
        kind = serial.dumps((found[key].fills, found[key].scalars))
        turns[key] = seen[kind]
        seen[kind] += 1
    large = [key for key in found if _ELEMENTS < size[key] <= _MOST_ELEMENTS]
    return (
        [found[key] for key in sorted(small, key=turns.__getitem__)],
        [found[key] for key in sorted(large, key=size.__getitem__, reverse=True)],
    )


def _offers(source: SourceFile, tree: ast.Module, reached: Reached) -> Iterator[Exchange]:
    """Return what may be exchanged in a file, but for what need not show."""
    parts = reached.parts.get(source.path, {})
    settings = {name for one in tree.body for name in _targets(one)}
    loaded = {
        one.id
        for one in ast.walk(tree)
        if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load)
    }
    unused = {
        id(one.value)
        for one in ast.walk(tree)
        if isinstance(one, ast.Assign) and (names := _targets(one)) and not loaded & set(names)
    }

    forms = {
        id(part)
        for call in ast.walk(tree)
        if isinstance(call, ast.Call)
        for part in _parts_for_their_form(call)
    }

    def may(node: ast.expr, instead: Instead) -> bool:
        if _is_setting(node, settings) or id(node) in unused or id(node) in forms:
            return False
        name = _name_of(node) if isinstance(node, ast.Call) else ""
        if name.startswith(_MAKING):
            return False
        if instead not in _OPERANDS:
            return True
        match node:
            case ast.BinOp(left=left, op=op, right=right):
                set_ = _is_setting(left, settings) or _is_setting(right, settings)
                # Without one of two parts of a sum the other one is left: `zero` says that.
                return not (isinstance(op, _ARITHMETIC) and set_) and not isinstance(
                    op, ast.Add | ast.Sub
                )
            case ast.Call():
                return name.rstrip("_") not in _FORMS
            case _:
                return isinstance(node, ast.UnaryOp)

    for node in ast.walk(tree):
        if isinstance(node, ast.expr):
            span = span_of(node)
            # A name of zeros, as before a sum, is as good as other zeros.
            held = reached.values.get(source.path, {}).get(span)
            zero = isinstance(node, ast.Name) and held == frozenset(("zeros",))
            for instead in sorted(parts.get(span, ())):
                if may(node, instead) and not (zero and instead is Instead.ZERO):
                    yield Exchange(file=source.path, span=span, instead=instead)


def _named(source: SourceFile, tree: ast.Module, found: set[Exchange]) -> Iterator[Unreached]:
    """Return expressions of which an exchange changed nothing, the largest alone.

    After them the assignments whose values nothing but one of these expressions uses.
    """
    by_span: dict[Span, list[Instead]] = {}
    for one in found:
        if one.file == source.path:
            by_span.setdefault(one.span, []).append(one.instead)
    idle: list[ast.expr] = []

    def named(node: ast.expr | ast.stmt, lead: str) -> Unreached:
        return Unreached(
            file=source.path,
            line=node.lineno,
            last=node.end_lineno or node.lineno,
            test=cleaned_text(f"{lead}: {ast.unparse(node)}", _TEXT),
        )

    def look(node: ast.AST) -> Iterator[Unreached]:
        said = by_span.get(span_of(node), ()) if isinstance(node, ast.expr) else ()
        if said and isinstance(node, ast.expr):
            whole = set(said) - set(_OPERANDS)
            yield named(node, "never mattered" if whole else "made no difference")
            if whole:
                idle.append(node)
                return
            if isinstance(node, ast.BinOp):
                idle.append(node.right if Instead.FIRST in said else node.left)
        for child in ast.iter_child_nodes(node):
            yield from look(child)

    yield from look(tree)
    for statement in _serving(tree, idle):
        if statement.value not in idle:
            yield named(statement, "serves nothing else")


def _serving(tree: ast.Module, idle: Sequence[ast.expr]) -> Iterator[ast.Assign]:
    """Return assignments of names that are used in one of some expressions, and nowhere else."""
    functions = [one for one in ast.walk(tree) if isinstance(one, ast.FunctionDef)]
    for function in functions if idle else ():
        given = {one: _targets(one) for one in ast.walk(function) if isinstance(one, ast.Assign)}
        names = [one for one in ast.walk(function) if isinstance(one, ast.Name)]
        for part in (parts := list(idle)):  # which grows
            inside = set(map(id, ast.walk(part)))
            for statement, (name, *others) in [(one, of) for one, of in given.items() if of]:
                uses = [n for n in names if n.id == name and isinstance(n.ctx, ast.Load)]
                if uses and not others and inside.issuperset(map(id, uses)):
                    yield statement
                    parts.append(statement.value)
                    given.pop(statement)


def _named_kept(
    source: SourceFile, tree: ast.Module, kept: Mapping[str, frozenset[Span]], lead: str = ""
) -> Iterator[Unreached]:
    """Return expressions that came to a tensor of an earlier call, each text once."""
    texts = set[str]()
    for node in ast.walk(tree):
        if not isinstance(node, ast.expr) or span_of(node) not in kept.get(source.path, ()):
            continue
        if (text := ast.unparse(node)) not in texts:
            texts.add(text)
            yield Unreached(
                file=source.path,
                line=node.lineno,
                last=node.end_lineno or node.lineno,
                test=cleaned_text(f"{lead}{text}", _TEXT),
            )


@dataclass(slots=True, kw_only=True)
class _Kept:
    """Where tensors of earlier calls are read that decide a result, and those that do not."""

    deciding: Mapping[str, frozenset[Span]] = field(default_factory=dict)
    written: Mapping[str, frozenset[Span]] = field(default_factory=dict)


def _kept(trial: Trial, run_exchanged: RunExchanged, cases: Sequence[Case], end: float) -> _Kept:
    """Return where tensors are read that hold an earlier call's values.

    A call on other values changes them, so that they are no tables. Spoiled, those that decide make
    the next call wrong: whether they are right for a call is decided by what the kernel compares,
    of which no judged call shows all. The others are memory to work in.
    """
    deciding, written = Reached(), Reached()
    for number, case in enumerate(cases):
        other = replace(case, seed=trial.seed("kept", number))
        for which in range(_KEPT):
            if time.monotonic() > end:
                return _Kept(deciding=deciding.kept, written=written.kept)
            call = Call(slot="a", result="r")
            steps = (
                Allocate(slot="a", case=1),
                replace(call, exchange=Spoiled()),
                Refill(slot="a", case=0),
                call,
                ReadResult(result="r"),
                replace(call, exchange=Spoiled(number=which)),
                ReadResult(result="r"),
            )
            label = "a kept tensor spoiled"
            run = run_now(
                run_exchanged(
                    Scenario(label=label, cases=(case, other), steps=steps, timeout_s=_CALL_S)
                )
            )
            plain = None if run is None else done(run, 4)
            spoiled = None if run is None else done(run, 5)
            usual = None if run is None or plain is None else _tensors(trial, run, plain.items)
            if run is None or usual is None or spoiled is None or not spoiled.items:
                break
            read = done(run, 6)
            if not _is_right(trial, case, run, read.items if read else (), usual):
                deciding |= run.reached
            else:
                written |= run.reached
    return _Kept(deciding=deciding.kept, written=written.kept)


def tried_exchanges(
    trial: Trial,
    run_exchanged: RunExchanged,
    cases: tuple[Case, ...],
    exchanges: Sequence[AnyExchange],
    end: float,
) -> Iterator[tuple[AnyExchange, bool | None]]:
    """Return for each exchange whether the call on a case was right; None: it did not happen.

    `cases` are that case, and that of a call before it, if there is one.
    """
    waiting, fresh = list(exchanges), False
    while waiting:
        if time.monotonic() > end:
            yield from ((one, None) for one in waiting)
            return
        run = run_now(run_exchanged(replace(_scenario(cases, waiting), fresh=fresh)))
        plain = None if run is None else done(run, 2)
        usual = None if run is None or plain is None else _tensors(trial, run, plain.items)
        if run is None or usual is None:
            if run is not None and not fresh:  # what was exchanged before may have broken it
                fresh = True
                continue
            yield from ((one, None) for one in waiting)
            return
        each = 2 if len(cases) == 1 else 5
        records, count, tried = run.result.records, 0, len(waiting)
        calls, reads = records[each + 1 :: each], records[each + 2 :: each]
        if trial.device.on_gpu:  # after an error of the device every call raises
            good = (n for n, one in enumerate(calls) if isinstance(one, StepDone))
            tried = min(max(good, default=-1) + 2, tried)
        for exchange, made, read in zip(waiting[:tried], calls, reads, strict=False):
            count += 1
            if isinstance(made, StepRaised):
                yield exchange, False
            elif not made.items:
                yield exchange, None
            else:
                items = read.items if isinstance(read, StepDone) else ()
                yield exchange, _is_right(trial, cases[0], run, items, usual)
        if count < tried:  # this one ended the process, or took too long
            yield waiting[count], False
            count += 1
        fresh, waiting = tried < len(waiting), waiting[count:]


def _scenario(
    cases: tuple[Case, ...], exchanges: Iterable[Exchange | OperatorExchange]
) -> Scenario:
    steps: list[Step] = [
        Allocate(slot="a", case=0),
        Call(slot="a", result="r"),
        ReadResult(result="r"),
    ]
    for one in exchanges:
        call = Call(slot="a", result="r", exchange=one)
        if len(cases) > 1:
            steps += [Refill(slot="a", case=1), call, Refill(slot="a", case=0)]
        steps += [call, ReadResult(result="r")]
    return Scenario(label="parts exchanged", cases=cases, steps=tuple(steps), timeout_s=_CALL_S)


def _tensors(
    trial: Trial, run: Ran, items: Iterable[ResultItem], like: Sequence[torch.Tensor] = ()
) -> list[torch.Tensor] | None:
    """Return the tensors that a call returned; None where they are not those of the problem."""
    items = tuple(items)
    shapes = [tuple(one.shape) for one in like or items]
    if len(shapes) != len(trial.problem.outputs):
        return None
    found = matched(trial.problem, shapes, run, items)
    made = [one for one in found if isinstance(one, torch.Tensor)]
    return made if len(made) == len(found) else None


def _is_right(
    trial: Trial, case: Case, run: Ran, items: tuple[ResultItem, ...], usual: Sequence[torch.Tensor]
) -> bool:
    """Whether a result is right: near to the usual one, and by truth where it is another one."""
    made = _tensors(trial, run, items, usual)
    if made is None:
        return False
    same = True
    for one, other in zip(made, usual, strict=True):
        wide, right = one.double(), other.double()
        same = same and torch.equal(wide.nan_to_num(), right.nan_to_num())
        finite = right.isfinite()
        if not torch.equal(wide.isfinite(), finite):
            return False
        difference = torch.where(finite, wide - right, 0.0).norm()
        if difference > _GROSS * torch.where(finite, right, 0.0).norm():
            return False
    if same:
        return True
    try:
        return not any(map(is_wrong, trial.compare(case, run, items)))
    except CuassayError:
        return False


def _targets(statement: ast.stmt) -> list[str]:
    """Return the names that an assignment gives values to, where these are all its targets."""
    if not isinstance(statement, ast.Assign):
        return []
    names = [one.id for one in statement.targets if isinstance(one, ast.Name)]
    return names if len(names) == len(statement.targets) else []


def _is_setting(node: ast.expr, settings: set[str]) -> bool:
    """Whether an expression is a number in the text, or a setting of an object or of the file.

    What keeps a divisor from being zero is such a one, and seldom matters.
    """
    match node:
        case ast.UnaryOp(operand=inner):
            return _is_setting(inner, settings)
        case ast.Name(id=name):
            return name in settings
        case ast.Call(func=ast.Name(id="float" | "int"), args=[inner]):
            return _is_setting(inner, settings)
        case _:
            return isinstance(node, ast.Constant | ast.Attribute)


def _parts_for_their_form(call: ast.Call) -> Iterator[ast.AST]:
    """Return what a call is given whose values do not count, but its shape, dtype and device.

    What is saved for a backward pass counts in one alone, and no call here has one.
    """
    name = _name_of(call)
    of_forms = name.endswith("_like") or name.startswith(_MAKING) or name in _ASKS_FORM
    given = [*call.args] if of_forms or name.endswith("_as") else []
    if of_forms and isinstance(call.func, ast.Attribute):
        given.append(call.func.value)
    for one in given:
        yield from ast.walk(one)


def _name_of(call: ast.Call) -> str:
    match call.func:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case _:
            return ""
