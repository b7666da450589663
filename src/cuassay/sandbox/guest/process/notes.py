"""What of a candidate's code runs, and what its expressions come to, noted as it is called.

A part of the program in `apart`, given to it as text: nothing of the package that this file is from
is imported, and the names that its functions use are bound before anything is loaded.
"""

from __future__ import annotations

import ast
import dis
import importlib.machinery
import operator
import os
import sys
import threading
import types
import warnings
from collections.abc import Callable
from typing import Any

# A compiler traces what code hands to these, and refuses a call that it does not know.
_TRACERS = (
    "torch.compile", "torch.compiler", "torch._dynamo", "torch.jit", "torch.export", "torch.fx",
    "torch.cond", "torch.nn.attention.flex_attention",
)  # fmt: skip
_FOLLOWED = 1 << 18  # instructions of a call: 60 ms
# What joins two operands, and for which of its operands one may be too small to matter.
_JOINS = {
    "add": "sum", "sub": "sum", "mul": "product", "div": "quotient", "lerp": "blend",
    "maximum": "largest", "fmax": "largest", "clamp_min": "largest",
    "minimum": "least", "fmin": "least", "clamp_max": "least",
    "addcmul": "change", "addcdiv": "change", "addmm": "change", "addmv": "change",
    "addbmm": "change", "baddbmm": "change", "addr": "change", "hypot": "change",
    "logaddexp": "change",
}  # fmt: skip
_FAINT = 2.0**-10  # of what a part is added to; of 1, what a factor differs from it by


def follow(  # noqa: C901, PLR0915  # its names are bound before anything is loaded
    folder: str,
    needs: tuple[Any, ...] = (sys, os.path.realpath, os.sep, threading.settrace, dis.opmap),
    most: int = _FOLLOWED,
) -> tuple[
    Callable[[], None], Callable[[], None], Callable[[], dict[str, Any]], Callable[[], None]
]:
    """Return `begin` and `end`, between which code below `folder` is noted, `found` and `forget`.

    `found` returns what ran since `forget` and was not returned yet, as JSON has it: for each file
    `at`, where instructions that ran begin in the text, `[line, column]`; `branches`, where a test
    and what came after it begin, `[line, column, line, column, ends]`, `ends` where the function
    ends there; and `lost`, whether somebody else ended this. Of a call in which Python takes very
    many instructions the first are noted. Code outside of `folder` costs little.
    """
    python, whole, separator, in_threads, every = needs  # names of this text may be gone
    root = folder.rstrip(separator) + separator
    begins, cut, number_of = str.startswith, len(root), id
    settrace, gettrace = python.settrace, python.gettrace
    files: dict[str, str] = {}
    codes: dict[int, Any] = {}
    seen: dict[int, set[tuple[int, int]]] = {}  # code -> instructions with those before them
    tested: dict[int, set[tuple[int, int]]] = {}  # code -> branches with what came after them
    told: dict[int, tuple[int, int]] = {}
    branching = {every[name] for name in every if "JUMP_" in name and "_IF_" in name}
    returning = {every[name] for name in ("RETURN_VALUE", "RETURN_CONST") if name in every}
    constant = every["LOAD_CONST"]
    left, followed, lost = 0, False, False

    def is_own(code: Any) -> bool:
        file = code.co_filename
        name = files.get(file)
        if name is None:
            name = ""
            if not begins(file, "<"):
                path = file if begins(file, root) else whole(file)
                name = path[cut:] if begins(path, root) else ""
            files[file] = name
        if not name:
            return False
        codes[number_of(code)] = code
        return True

    def called(frame: Any, event: str, argument: object) -> Any:
        code = frame.f_code
        if files.get(code.co_filename) == "" or not is_own(code):
            return None
        add = seen.setdefault(number_of(code), set()).add
        frame.f_trace_lines, frame.f_trace_opcodes = False, True
        last = -1

        def stepped(frame: Any, event: str, argument: object) -> Any:
            nonlocal last, left
            if event == "opcode":
                now = frame.f_lasti
                add((last, now))
                last = now
                left -= 1
                if left == 0:
                    settrace(None)
            return stepped

        return stepped

    def begin() -> None:
        nonlocal left, followed
        left, followed = most, True
        in_threads(called)
        settrace(called)

    def end() -> None:
        nonlocal lost, followed
        lost = lost or (followed and left > 0 and gettrace() is not called)
        followed = False
        settrace(None)
        in_threads(None)

    monitoring: Any = getattr(python, "monitoring", None)
    free = () if monitoring is None else [n for n in (3, 4) if monitoring.get_tool(n) is None]
    if free:
        tool, events, disable = free[0], monitoring.events, monitoring.DISABLE
        set_events, set_local = monitoring.set_events, monitoring.set_local_events
        wanted, name_of = events.INSTRUCTION | events.BRANCH, monitoring.get_tool
        monitoring.use_tool_id(tool, "lines")

        def entered(code: Any, offset: int) -> Any:
            if is_own(code):
                set_local(tool, code, wanted)
            return disable

        def ran(code: Any, offset: int) -> Any:
            seen.setdefault(number_of(code), set()).add((-1, offset))
            return disable

        def branched(code: Any, offset: int, target: int) -> Any:
            tested.setdefault(number_of(code), set()).add((offset, target))

        for event, callback in (
            (events.PY_START, entered),
            (events.INSTRUCTION, ran),
            (events.BRANCH, branched),
        ):
            monitoring.register_callback(tool, event, callback)

        def begin() -> None:
            for code in codes.values():
                set_local(tool, code, wanted)
            set_events(tool, events.PY_START)

        def end() -> None:
            nonlocal lost
            lost = lost or name_of(tool) != "lines"
            if not lost:
                set_events(tool, 0)
                for code in codes.values():
                    set_local(tool, code, 0)

    def found() -> dict[str, Any]:
        made: dict[str, Any] = {}
        for number, code in codes.items():
            arcs, branches = seen.get(number, set()), tested.get(number, set())
            if told.get(number) == (len(arcs), len(branches)):
                continue
            told[number] = len(arcs), len(branches)
            text = code.co_code
            places = [(line, column) for line, _, column, _ in code.co_positions()]
            of_file = made.setdefault(files[code.co_filename], {"at": [], "branches": []})
            at = {places[now // 2] for _, now in arcs}
            of_file["at"] += [place for place in at if None not in place]
            if not free:
                branches = {arc for arc in arcs if arc[0] >= 0 and text[arc[0]] in branching}
            for before, after in branches:
                first = text[after]
                ends = first in returning or (first == constant and text[after + 2] in returning)
                pair = (*places[before // 2], *places[after // 2])
                if None not in pair:
                    of_file["branches"].append((*pair, ends))
        return {"files": made, "lost": lost}

    def forget() -> None:
        for kept in (seen, tested, told):
            kept.clear()

    return begin, end, found, forget


def watch(  # noqa: C901, PLR0915  # its names are bound before anything is loaded
    folder: str,
    needs: tuple[Any, ...] = (
        sys, os.path, os.sep, ast, importlib.machinery.SourceFileLoader, types.CodeType, warnings,
        os.walk, _TRACERS, operator, _JOINS, _FAINT,
    ),
) -> tuple[
    Callable[[], None], Callable[[], None], Callable[[], dict[str, Any]], Callable[[], None]
]:  # fmt: skip
    """Return `begin` and `end`, between which values of expressions are noted, `found`, `forget`.

    Of code below `folder` that is imported from now on, in functions that Python runs: comparisons,
    calculations, calls, selections by an index, and their operands, but for tests of branches,
    which `follow` notes. `found` returns `values` and `terms`. Of values it has for each file
    `[line, column, last line, end, value, ...]` with at most two values, as text. A number is its
    own; a mask `true` where an element of it is, `false` where one is not; another tensor `zeros`,
    and `some` where not all of it is zero. Of terms it has `[line, column, last line, end, felt]`:
    whether a part of a sum was more than a thousandth of what it was added to, a factor differed by
    as much from 1, or one of two was the chosen one, in one element at least. Of code that a
    compiler traces nothing is noted.
    """
    python, path, separator, syntax, loader, code_type, warnings, walk, tracers = needs[:9]
    operators, joins, share = needs[9:]
    root = path.realpath(folder).rstrip(separator) + separator
    whole, join, exists, number_of = path.realpath, path.join, path.exists, id
    torch: Any = python.modules["torch"]
    base, no_grad, plain = torch._C.TensorBase, torch.no_grad, torch._C.DisableTorchFunction
    some, every, count = base.any, base.all, base.numel
    dtype_of, layout_of, device_of = (
        getattr(base, name).__get__ for name in ("dtype", "layout", "device")
    )
    tensor, strided, mask, cpu = torch.Tensor, torch.strided, torch.bool, torch.device("cpu")
    scalars, text_of, kind_of, begins = {bool, int, float}, repr, type, str.startswith
    get = getattr
    known = python.stdlib_module_names | {"torch"}
    spans: list[tuple[str, tuple[int, int, int, int]]] = []
    values: dict[int, set[str]] = {}
    full: set[int] = set()
    fresh: set[int] = set()
    felt: dict[int, bool] = {}
    settled: set[int] = set()  # operands of which no more is to be said
    weighed: set[int] = set()  # those of which something new is
    parsed: dict[str, tuple[bytes, Any]] = {}  # files that were not imported yet
    active = False
    marker = f"note {number_of(spans)}"

    def looked(value: Any) -> tuple[str, ...]:
        try:
            with no_grad(), plain():
                if device_of(value) != cpu or layout_of(value) is not strided or not count(value):
                    return ()
                held = bool(some(value))
                if dtype_of(value) is not mask:
                    return ("zeros", "some") if held else ("zeros",)
                return ("true",) * held + ("false",) * (not every(value))
        except Exception:
            return ()

    def note(number: int, value: Any) -> Any:
        if active and number not in full:
            kind = kind_of(value)
            if kind in scalars or kind is str:
                found: tuple[str, ...] = (text_of(value)[:40],)
            elif kind is tensor:
                found = looked(value)
            else:
                return value
            kept = values.setdefault(number, set())
            if not kept.issuperset(found):
                kept.update(found)
                fresh.add(number)
                if len(kept) > 1:
                    full.add(number)
        return value

    def is_number(value: Any) -> bool:
        kind = kind_of(value)
        if kind is not tensor:
            return kind in scalars
        usual = device_of(value) == cpu and layout_of(value) is strided
        return bool(usual and count(value) and dtype_of(value).is_floating_point)

    def weigh(kind: str, numbers: tuple[int, ...], *operands: Any) -> None:
        """Note for each of the last operands whether it matters beside the others."""
        kinds = {kind_of(one) for one in operands}
        if kinds <= {bool, int} or not all(map(is_number, operands)):
            return
        try:
            with no_grad(), plain():
                for place, number in enumerate(numbers, len(operands) - len(numbers)):
                    if felt.get(number):
                        continue
                    one, other = operands[place], operands[1 - place]
                    if kind == "quotient" and not place:  # what is divided
                        settled.add(number)
                        continue
                    if kind in ("largest", "least"):
                        large, there = one > other if kind == "largest" else one < other, True
                    elif kind == "change":
                        large, there = abs(one - other) > abs(other) * share, True
                    else:
                        # A tensor of zeros, or a number that is 1, is a value: `values` has it.
                        scaled = kind in ("product", "quotient")
                        size = abs(one - 1.0 if scaled else one)
                        large = size > (abs(other) if kind == "sum" else 1.0) * share
                        there = True if scaled and kind_of(one) is tensor else size > 0
                    now = bool(large if kind_of(large) is bool else some(large))
                    if now or bool(there if kind_of(there) is bool else some(there)):
                        weighed.update((number,) if felt.get(number) is not now else ())
                        felt[number] = now
        except Exception:
            settled.update(numbers)
        settled.update(one for one in numbers if felt.get(one))

    def combine(number: int, name: str, left: Any, right: Any) -> Any:
        if active and (number not in settled or number + 1 not in settled):
            weigh(joins[name], (number, number + 1), left, right)
        return operation[name](left, right)

    def call(number: int, name: str, owner: Any, *operands: Any, **more: Any) -> Any:
        if active and number not in settled:
            given = (owner, *operands) if kind_of(owner) is tensor else operands
            kind = joins[name.rstrip("_")]
            if kind == "change" and kind_of(given[0]) is tensor:
                before = given[0].clone() if name[-1:] == "_" else given[0]
                after = get(owner, name)(*operands, **more)
                weigh(kind, (number,), before, after)
                return after
            if len(given) == 2 + (kind == "blend"):
                times = more.get("alpha", 1)
                last = given[-1] if times == 1 else given[-1] * times
                weigh(kind, (number,), given[0], last)
        return get(owner, name)(*operands, **more)

    def beside(number: int, kind: str, base: Any, value: Any) -> Any:
        if active and number not in settled:
            weigh(kind, (number,), base, value)
        return value

    operation = {
        "add": operators.add, "sub": operators.sub, "mul": operators.mul, "div": operators.truediv,
    }  # fmt: skip
    named = {
        syntax.Add: "add", syntax.Sub: "sub", syntax.Mult: "mul", syntax.Div: "div",
    }  # fmt: skip
    computed = (syntax.Compare, syntax.BinOp, syntax.UnaryOp, syntax.Call, syntax.Subscript)
    operand = (syntax.Name, syntax.Attribute)

    class Noting(syntax.NodeTransformer):  # type: ignore[misc, name-defined]
        """Lets expressions in bodies of functions tell their values."""

        def __init__(self, file: str, compilers: set[str]) -> None:
            self.file, self.compilers, self.inside = file, compilers, False

        def told(self, node: Any) -> Any:
            self.place(node)
            return self.calling(note, node, len(spans) - 1, node)

        def calling(self, function: Any, place: Any, *arguments: Any, keywords: Any = ()) -> Any:
            """Return a call of one of the functions that note, where a node stands."""
            given = [
                one if isinstance(one, syntax.AST) else syntax.Constant(value=one)
                for one in arguments
            ]
            mark = syntax.Constant(value=f"{marker} {function.__name__}")
            made = syntax.Call(func=mark, args=given, keywords=list(keywords))
            for one in (made, mark, *given):
                if not hasattr(one, "lineno"):
                    syntax.copy_location(one, place)
            return made

        def joined(self, node: Any) -> Any:
            """Return a sum, product or quotient whose operands tell whether they matter."""
            name = named.get(kind_of(getattr(node, "op", None)))
            method = getattr(getattr(node, "func", None), "attr", "")
            if isinstance(node, syntax.BinOp) and name:
                first = len(spans)
                for part in (node.left, node.right):
                    self.place(part)
                return self.calling(combine, node, first, name, node.left, node.right)
            starred = any(isinstance(one, syntax.Starred) for one in getattr(node, "args", ()))
            if method.rstrip("_") in joins and node.args and not starred:
                self.place(node.args[-1])
                of = node.func.value, *node.args
                number = len(spans) - 1
                return self.calling(call, node, number, method, *of, keywords=node.keywords)
            return node

        def place(self, node: Any) -> None:
            spans.append(
                (self.file, (node.lineno, node.col_offset, node.end_lineno, node.end_col_offset))
            )

        def visit_FunctionDef(self, node: Any) -> Any:
            for decorator in node.decorator_list:
                one, last = decorator, ""
                while isinstance(one, syntax.Call | syntax.Attribute):
                    last = last or getattr(one, "attr", "")
                    one = one.func if isinstance(one, syntax.Call) else one.value
                if getattr(one, "id", "") in self.compilers or last in ("compile", "script"):
                    return node
            before, self.inside = self.inside, True
            node.body = [self.visit(statement) for statement in node.body]
            self.inside = before
            return node

        visit_AsyncFunctionDef = visit_FunctionDef

        def visit_Lambda(self, node: Any) -> Any:
            before, self.inside = self.inside, True
            node.body = self.visit(node.body)
            self.inside = before
            return node

        def visit_If(self, node: Any) -> Any:
            for field in ("body", "orelse"):
                part = getattr(node, field)
                several = isinstance(part, list)
                made = [self.visit(one) for one in part] if several else self.visit(part)
                setattr(node, field, made)
            return node

        visit_While = visit_IfExp = visit_If

        def visit_Assert(self, node: Any) -> Any:
            return node

        visit_Raise = visit_JoinedStr = visit_Assert

        def visit_comprehension(self, node: Any) -> Any:
            node.iter = self.visit(node.iter)
            return node

        def generic_visit(self, node: Any) -> Any:
            if not self.inside or not isinstance(node, computed):
                return super().generic_visit(node)
            loads = isinstance(getattr(node, "ctx", None), syntax.Load | None)
            super().generic_visit(node)
            if not loads:
                return node
            for name, field in list(syntax.iter_fields(node)):
                if name in ("func", "keywords"):
                    continue
                if isinstance(field, list):
                    field[:] = [
                        self.told(one) if isinstance(one, operand) else one for one in field
                    ]
                elif isinstance(field, operand):
                    setattr(node, name, self.told(field))
            return self.told(self.joined(node))

        def visit_AugAssign(self, node: Any) -> Any:
            node.target, node.value = self.visit(node.target), self.visit(node.value)
            if self.inside and isinstance(node.target, syntax.Name) and kind_of(node.op) in named:
                self.place(node.value)
                kind = joins[named[kind_of(node.op)]]
                base = syntax.copy_location(syntax.Name(node.target.id, syntax.Load()), node.target)
                number = len(spans) - 1
                node.value = self.calling(beside, node.value, number, kind, base, node.value)
            return node

    functions = {f"{marker} {one.__name__}": one for one in (note, combine, call, beside)}

    def with_note(code: Any) -> Any:
        made = [
            with_note(one)
            if isinstance(one, code_type)
            else functions.get(one, one)
            if kind_of(one) is str
            else one
            for one in code.co_consts
        ]
        return code.replace(co_consts=tuple(made))

    def names_a_tracer(tree: Any) -> bool:
        homes: dict[str, str] = {}
        used: list[str] = []
        for one in syntax.walk(tree):
            if isinstance(one, syntax.Import):
                used += [name.name for name in one.names]
                homes |= {name.asname: name.name for name in one.names if name.asname}
            elif isinstance(one, syntax.ImportFrom) and one.module and not one.level:
                come = {name.asname or name.name: f"{one.module}.{name.name}" for name in one.names}
                used += come.values()
                homes |= come
        for one in syntax.walk(tree):
            parts: list[str] = []
            while isinstance(one, syntax.Attribute):
                parts.insert(0, one.attr)
                one = one.value
            if parts and isinstance(one, syntax.Name):
                used.append(".".join([homes.get(one.id, one.id), *parts]))
        return any(f"{name}.".startswith(f"{tracer}.") for name in used for tracer in tracers)

    def is_traced() -> bool:
        for place, _, names in walk(root):
            for name in names:
                if name.endswith(".py"):
                    with open(join(place, name), "rb") as file:
                        text = file.read()
                    try:
                        tree = syntax.parse(text)
                    except (SyntaxError, ValueError, RecursionError, MemoryError):
                        return True
                    if names_a_tracer(tree):
                        return True
                    parsed[join(place, name)] = text, tree
        return False

    real = loader.get_code

    def get_code(self: Any, fullname: str) -> Any:
        place = whole(self.path)
        if not begins(place, root):
            return real(self, fullname)
        try:
            text = self.get_data(self.path)
            before, tree = parsed.pop(place, (None, None))
            if before != text:  # it is imported once more, or was written meanwhile
                tree = syntax.parse(text)
            compilers = set()
            for one in syntax.walk(tree):
                if not isinstance(one, syntax.Import | syntax.ImportFrom):
                    continue
                level = getattr(one, "level", 0)
                for name in one.names:
                    top = (getattr(one, "module", None) or name.name).partition(".")[0]
                    own = level or exists(join(root, top)) or exists(join(root, f"{top}.py"))
                    if top not in known and not own:
                        compilers.add(name.asname or name.name.partition(".")[0])
            noting = Noting(place[len(root) :], compilers)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # a text is no function
                made = compile(noting.visit(tree), self.path, "exec", dont_inherit=True)
            return with_note(made)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return real(self, fullname)

    if is_traced():
        parsed.clear()
    else:
        loader.get_code = get_code

    def begin() -> None:
        nonlocal active
        active = True

    def end() -> None:
        nonlocal active
        active = False

    def found() -> dict[str, Any]:
        made: dict[str, Any] = {}
        for number in fresh:
            file, span = spans[number]
            made.setdefault(file, []).append([*span, *values[number]])
        terms: dict[str, Any] = {}
        for number in weighed:
            file, span = spans[number]
            terms.setdefault(file, []).append([*span, felt[number]])
        fresh.clear()
        weighed.clear()
        return {"values": made, "terms": terms}

    def forget() -> None:
        for kept in (values, full, fresh, felt, settled, weighed):
            kept.clear()

    return begin, end, found, forget
