"""What of a candidate's code runs, and what its expressions come to, noted as it is called.

A part of the program in `apart`, given to it as text: nothing of the package that this file is from
is imported, and the names that its functions use are bound before anything is loaded.
"""

from __future__ import annotations

import ast
import dis
import gc
import importlib.machinery
import os
import sys
import threading
import types
import warnings
import weakref
from collections.abc import Callable
from typing import Any

# A compiler traces what code hands to these, and refuses a call that it does not know.
_TRACERS = (
    "torch.compile", "torch.compiler", "torch._dynamo", "torch.jit", "torch.export", "torch.fx",
    "torch.cond", "torch.nn.attention.flex_attention",
)  # fmt: skip
_FOLLOWED = 1 << 18  # instructions of a call: 60 ms
_OPERANDS = 3  # of an operation, each of which may take the place of what it comes to


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
        os.walk, _TRACERS, _OPERANDS, gc.get_objects, weakref.ref, gc.get_stats,
    ),
) -> tuple[
    Callable[[], None], Callable[[], None], Callable[[], dict[str, Any]], Callable[[], None],
    Callable[[list[Any] | None, list[Any]], bool],
]:  # fmt: skip
    """Return `begin` and `end`, between which values of expressions are noted, and three more.

    Of code below `folder` that is imported from now on, in functions that Python runs: comparisons,
    calculations, calls, selections by an index, and their operands, but for tests of branches,
    which `follow` notes. `found` returns `values`, `picked` and `parts`. Of values it has for each
    file `[line, column, last line, end, value, ...]` with at most two values, as text. A number is
    its own; a mask `true` where an element of it is, `false` where one is not; another tensor
    `zeros`, a number and `everywhere` where all of it is that number, else two values. Of lists and
    their like `empty` or `filled`. `picked` has so, of a minimum, a maximum, a remainder or a bit
    operation of integers, which of two different operands it came to, `0` or `1`, or `other`.
    Where a dispatch mode is on, tensors are not looked at. Of parts it has
    `[line, column, last line, end, what, ...]`: what may take the place of the expression's value,
    `zero`, `true`, `false`, or an operand by its place. `exchange` with such a part `[file, line,
    column, last line, end, what]` lets that happen in the call that begins, in which nothing is
    noted; with None it ends that and returns whether it happened. With `["", -1]` the tensors that
    the process holds after the call are remembered; with `["", number]` the one of this number, of
    those that a later call on other values has changed, is spoiled before a call and put back
    after it. Arguments, which are given too, are none of them. `found` returns as `kept` where the
    spoiled one was read, `[line, column, last line, end]`, and as `traced` the file and line of
    code that a compiler traces: then nothing is noted.
    """
    python, path, separator, syntax, loader, code_type, warnings, walk, tracers = needs[:9]
    most, objects, weakly, collections = needs[9:]
    root = path.realpath(folder).rstrip(separator) + separator
    whole, join, exists, number_of = path.realpath, path.join, path.exists, id
    torch: Any = python.modules["torch"]
    base, no_grad, plain = torch._C.TensorBase, torch.no_grad, torch._C.DisableTorchFunction
    some, every, count, ends_of = base.any, base.all, base.numel, torch.aminmax
    modes = torch._C._len_torch_dispatch_stack
    zeros, ones = torch.zeros_like, torch.ones_like
    converted, floats = base.to, base.is_floating_point
    storage, copied, put, same = base.untyped_storage, base.clone, base.copy_, torch.equal
    dtype_of, layout_of, device_of, shape_of = (
        getattr(base, name).__get__ for name in ("dtype", "layout", "device", "shape")
    )
    numbers = python.modules.get("numpy")
    names = ("float64", "float32", "int64", "int32", "bool_") if numbers else ()
    tensor, strided, mask, cpu = torch.Tensor, torch.strided, torch.bool, torch.device("cpu")
    scalars = {bool, int, float, *(getattr(numbers, name) for name in names)}
    fractions = {float, *(getattr(numbers, name) for name in names[:2])}
    containers = {tuple, list, dict, set}
    text_of, kind_of, begins = repr, type, str.startswith
    known = python.stdlib_module_names | {"torch"}
    spans: list[tuple[str, tuple[int, int, int, int]]] = []
    values: dict[int, set[str]] = {}
    full: set[int] = set()
    fresh: set[int] = set()
    operands: list[tuple[int, ...]] = []  # of each expression, the numbers of its operands
    waiting: set[int] = set()  # operands whose operation has not been met yet
    latest: dict[int, Any] = {}  # what operands came to
    parts: dict[int, list[str]] = {}
    fresh_parts: set[int] = set()
    picking: set[int] = set()  # expressions that may come to one of their operands
    picked: dict[int, set[str]] = {}
    fresh_picked: set[int] = set()
    exchanging, changing, how, happened = False, -1, "", False
    remembered: list[tuple[Any, Any]] = []  # a tensor, weakly, and a copy of it
    spoiled: list[Any] = []  # a tensor, and what it held
    read: set[int] = set()  # where it was read
    elders: list[Any] = []  # the collector's oldest tensors, weakly
    settled: list[int] = []  # how often the collector had aged objects when these were listed
    ages = python.version_info < (3, 14)  # from then on it ages them otherwise
    parsed: dict[str, tuple[bytes, Any]] = {}  # files that were not imported yet
    active = False
    marker = f"note {number_of(spans)}"

    def looked(value: Any) -> tuple[str, ...]:
        try:
            with no_grad(), plain():
                on_cpu = device_of(value) == cpu and layout_of(value) is strided
                if modes() or not on_cpu or not count(value):
                    return ()
                held = bool(some(value))
                if dtype_of(value) is mask:
                    return ("true",) * held + ("false",) * (not every(value))
                if not held:
                    return ("zeros",)
                least, largest = ends_of(value)
                return (
                    (f"{least.item():.6g} everywhere",) if least == largest else ("one", "another")
                )
        except Exception:
            return ()

    def offer(number: int, value: Any) -> None:
        """Note what may take the place of a value, and of the numbers that it was made of."""
        of = operands[number]
        if kind_of(value) is tensor:
            kind = dtype_of(value)
            made = ["true", "false"] if kind is mask else ["zero"]
            for place, operand in enumerate(of[:most]):
                one = latest.get(operand)
                if kind_of(one) in scalars:
                    if operand not in parts:
                        parts[operand] = ["zero"]
                        fresh_parts.add(operand)
                elif kind_of(one) is tensor and one is not value:
                    masks = (dtype_of(one) is mask) is (kind is mask)
                    if masks and floats(one) is floats(value) and shape_of(one) == shape_of(value):
                        made.append(text_of(place))
            parts[number] = made
            fresh_parts.add(number)
        elif of:
            parts[number] = [
                "zero",
                *[
                    text_of(n)
                    for n, o in enumerate(of[:most])
                    if kind_of(latest.get(o)) in fractions
                ],
            ]
            fresh_parts.add(number)
        waiting.difference_update(of)
        for operand in of:
            latest.pop(operand, None)

    def pick(number: int, value: int) -> None:
        """Note which of two operands a value is."""
        first, second = (latest.get(one, value) for one in operands[number])
        if first != second:
            came = "0" if value == first else "1" if value == second else "other"
            kept = picked.setdefault(number, set())
            if came not in kept:
                kept.add(came)
                fresh_picked.add(number)

    def instead(value: Any) -> Any:
        """Return what takes the place of a value."""
        with plain():
            if how in ("0", "1", "2"):
                one = latest[operands[changing][int(how)]]
                return converted(one, dtype_of(value)) if kind_of(value) is tensor else one
            if kind_of(value) is tensor:
                return ones(value) if how == "true" else zeros(value)
            return not value if kind_of(value) is bool else kind_of(value)(0)

    def described(kind: Any, value: Any) -> tuple[str, ...]:
        if kind in scalars or kind is str or value is None:
            return (text_of(value)[:40],)
        if kind in containers:
            return ("filled" if value else "empty",)
        return looked(value) if kind is tensor else ()

    def note(number: int, value: Any) -> Any:
        nonlocal happened
        if exchanging:
            if number in waiting:
                latest[number] = value
            if number == changing:
                value, happened = instead(value), True
            elif spoiled and value is spoiled[0]:
                read.add(number)
        elif active:
            kind = kind_of(value)
            if number in waiting:
                latest[number] = value
            if number in picking and kind is int:
                pick(number, value)
            if (kind is tensor or kind in fractions) and number not in parts:
                offer(number, value)
            if number in full:
                return value
            found = described(kind, value) or (("another",) if number in values else ())
            if not found:
                return value
            kept = values.setdefault(number, set())
            if not kept.issuperset(found):
                kept.update(found)
                fresh.add(number)
                if len(kept) > 1:
                    full.add(number)
        return value

    computed = (syntax.Compare, syntax.BinOp, syntax.UnaryOp, syntax.Call, syntax.Subscript)
    operand = (syntax.Name, syntax.Attribute)

    class Noting(syntax.NodeTransformer):  # type: ignore[misc, name-defined]
        """Lets expressions in bodies of functions tell their values."""

        def __init__(self, file: str, compilers: set[str], modules: set[str], tree: Any) -> None:
            self.file, self.compilers, self.inside = file, compilers, False
            self.modules = modules
            self.handed: set[str] = set()  # functions that a call gives to a compiler
            for one in syntax.walk(tree):
                root = getattr(one, "func", None)
                while isinstance(root, syntax.Call | syntax.Attribute):
                    root = root.func if isinstance(root, syntax.Call) else root.value
                if getattr(root, "id", "") in compilers:
                    self.handed |= {n.id for n in one.args if isinstance(n, syntax.Name)}

        def told(self, node: Any, of: tuple[int, ...] = (), *, chooses: bool = False) -> Any:
            """Return a call that notes what an expression comes to, with its operands' numbers."""
            number = len(spans)
            if chooses and len(of) == 2:
                picking.add(number)
            place = node.lineno, node.col_offset, node.end_lineno, node.end_col_offset
            spans.append((self.file, place))
            operands.append(of)
            waiting.update(of)
            mark, which = syntax.Constant(value=marker), syntax.Constant(value=number)
            made = syntax.Call(func=mark, args=[which, node], keywords=[])
            for one in (made, mark, which):
                syntax.copy_location(one, node)
            made.number = number
            return made

        def is_of_module(self, node: Any) -> bool:
            while isinstance(node, syntax.Attribute):
                node = node.value
            return isinstance(node, syntax.Name) and node.id in self.modules

        def chooses(self, node: Any) -> bool:
            """Whether an operation may come to one of its two operands, as a minimum does."""
            if isinstance(node, syntax.BinOp):
                return isinstance(node.op, syntax.Mod | syntax.BitAnd | syntax.BitOr)
            named = getattr(getattr(node, "func", None), "id", "")
            return named in ("min", "max") and len(node.args) == 2

        def as_operand(self, node: Any, noted: Any = operand) -> Any:
            """Return an operand that notes what it comes to; it was visited before."""
            if isinstance(node, syntax.List | syntax.Tuple):
                node.elts = [self.as_operand(one) for one in node.elts]
            elif isinstance(node, noted) and not self.is_of_module(node):
                return self.told(node)
            return node

        def visit_FunctionDef(self, node: Any) -> Any:
            for decorator in node.decorator_list:
                one, last = decorator, ""
                while isinstance(one, syntax.Call | syntax.Attribute):
                    last = last or getattr(one, "attr", "")
                    one = one.func if isinstance(one, syntax.Call) else one.value
                if getattr(one, "id", "") in self.compilers or last in ("compile", "script"):
                    return node
            if node.name in self.handed:
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

        def visit_Expr(self, node: Any) -> Any:
            node.value = self.visit(node.value)
            if hasattr(node.value, "number"):  # nobody uses what it comes to
                node.value = node.value.args[1]
            return node

        def generic_visit(self, node: Any) -> Any:
            super().generic_visit(node)
            if not self.inside or not isinstance(node, computed):
                return node
            if not isinstance(getattr(node, "ctx", None), syntax.Load | None):
                return node
            chooses = self.chooses(node)
            noted = (*operand, syntax.Constant) if chooses else operand
            for name, field in list(syntax.iter_fields(node)):
                if name == "func":
                    if isinstance(field, syntax.Attribute):
                        field.value = self.as_operand(field.value)
                elif name == "keywords":
                    for keyword in field:
                        keyword.value = self.as_operand(keyword.value)
                elif isinstance(field, list):
                    field[:] = [self.as_operand(one, noted) for one in field]
                elif isinstance(field, noted):
                    setattr(node, name, self.as_operand(field, noted))
            receiver = getattr(getattr(node, "func", None), "value", None)
            several = [receiver, *syntax.iter_child_nodes(node)]
            for one in several:  # the list grows by what lists and keywords hold
                if isinstance(one, syntax.List | syntax.Tuple):
                    several += one.elts
                elif isinstance(one, syntax.keyword):
                    several.append(one.value)
            of = tuple(one.number for one in several if hasattr(one, "number"))
            return self.told(node, of, chooses=chooses)

        def visit_Assign(self, node: Any) -> Any:
            super().generic_visit(node)
            plain = all(isinstance(one, syntax.Name | syntax.Tuple) for one in node.targets)
            if self.inside and not plain:
                node.value = self.as_operand(node.value)
            return node

        def visit_AugAssign(self, node: Any) -> Any:
            super().generic_visit(node)
            node.value = self.as_operand(node.value) if self.inside else node.value
            return node

    def with_note(code: Any) -> Any:
        made = [
            with_note(one)
            if isinstance(one, code_type)
            else note
            if kind_of(one) is str and one == marker
            else one
            for one in code.co_consts
        ]
        return code.replace(co_consts=tuple(made))

    def names_a_tracer(tree: Any) -> int:
        """Return the line of code that names what traces, which is more than to import it; or 0."""
        homes: dict[str, str] = {}
        for one in syntax.walk(tree):
            if isinstance(one, syntax.Import):
                homes |= {name.asname: name.name for name in one.names if name.asname}
            elif isinstance(one, syntax.ImportFrom) and one.module and not one.level:
                homes |= {n.asname or n.name: f"{one.module}.{n.name}" for n in one.names}
        for one in syntax.walk(tree):
            parts: list[str] = []
            line = getattr(one, "lineno", 0)
            while isinstance(one, syntax.Attribute):
                parts.insert(0, one.attr)
                one = one.value
            if isinstance(one, syntax.Name):
                name = ".".join([homes.get(one.id, one.id), *parts])
                if any(f"{name}.".startswith(f"{tracer}.") for tracer in tracers):
                    return line
        return 0

    def find_tracer() -> list[Any]:
        """Return the file and line that first name what traces; nothing where none does."""
        for place, _, names in walk(root):
            for name in names:
                if name.endswith(".py"):
                    with open(join(place, name), "rb") as file:
                        text = file.read()
                    try:
                        tree = syntax.parse(text)
                    except (SyntaxError, ValueError, RecursionError, MemoryError):
                        return [join(place, name)[len(root) :], 1]
                    if line := names_a_tracer(tree):
                        return [join(place, name)[len(root) :], line]
                    parsed[join(place, name)] = text, tree
        return []

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
            compilers, modules = set(), set()
            for one in syntax.walk(tree):
                if not isinstance(one, syntax.Import | syntax.ImportFrom):
                    continue
                level = getattr(one, "level", 0)
                for name in one.names:
                    modules.add(name.asname or name.name.partition(".")[0])
                    top = (getattr(one, "module", None) or name.name).partition(".")[0]
                    own = level or exists(join(root, top)) or exists(join(root, f"{top}.py"))
                    if top not in known and not own:
                        compilers.add(name.asname or name.name.partition(".")[0])
            noting = Noting(place[len(root) :], compilers, modules, tree)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # a text is no function
                made = compile(noting.visit(tree), self.path, "exec", dont_inherit=True)
            return with_note(made)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return real(self, fullname)

    tracer_at = find_tracer()
    if tracer_at:
        parsed.clear()
    else:
        loader.get_code = get_code

    def begin() -> None:
        nonlocal active
        active = True

    def end() -> None:
        nonlocal active
        active = False
        latest.clear()

    def tensors() -> list[Any]:
        """Return the tensors that the collector knows, without a look at all of its objects twice.

        Of those that have survived it most are torch's own, 200,000, and none is added to them but
        by a collection, which it counts.
        """
        before = [one["collections"] for one in collections()]
        if ages:
            if before[1:] != settled:
                old = [one for one in objects(generation=2) if kind_of(one) is tensor]
                elders[:], settled[:] = [weakly(one) for one in old], before[1:]
            found = [one for of in elders if (one := of()) is not None]
            for young in (1, 0):
                found += [one for one in objects(generation=young) if kind_of(one) is tensor]
            if before == [one["collections"] for one in collections()]:
                return found
        return [one for one in objects() if kind_of(one) is tensor]

    def held(arguments: list[Any]) -> list[Any]:
        """Return the tensors of the process, but for what this remembers and is given."""
        with no_grad(), plain():
            given = {storage(one).data_ptr() for one in arguments if kind_of(one) is tensor}
            own = {number_of(one) for one in (*spoiled, *[copy for _, copy in remembered])}
            return [
                one
                for one in tensors()
                if number_of(one) not in own
                and layout_of(one) is strided
                and count(one)
                and storage(one).data_ptr() not in given
            ]

    def spoil(number: int, arguments: list[Any]) -> bool:
        with no_grad(), plain():
            # A table that is made again is equal to one that is gone; a result that is kept for
            # an address may be equal to one that is kept for another address.
            there = {number_of(old): copy for of, copy in remembered if (old := of()) is not None}
            gone = [copy for of, copy in remembered if of() is None]
            gone = gone or [copy for _, copy in remembered]
            changed = [
                one
                for one in held(arguments)
                if not any(
                    shape_of(one) == shape_of(old) and dtype_of(one) == dtype_of(old)
                    and device_of(one) == device_of(old) and same(one, old)
                    for old in ([there[number_of(one)]] if number_of(one) in there else gone)
                )
            ]  # fmt: skip
            if number >= len(changed):
                return False
            one = changed[number]
            spoiled[:] = [one, copied(one)]
            put(one, ~one if dtype_of(one) is mask else one + 1)
            return True

    def exchange(part: list[Any] | None, arguments: list[Any]) -> bool:
        nonlocal exchanging, changing, how, happened
        did = happened
        latest.clear()
        if part is None:
            if spoiled:
                with no_grad(), plain():
                    put(*spoiled)
                spoiled.clear()
            if exchanging and changing < -1:
                remembered.clear()
                with no_grad(), plain():
                    remembered[:] = [(weakly(one), copied(one)) for one in held(arguments)]
            exchanging, changing, happened = False, -1, False
            return did
        exchanging, (file, *span) = True, part
        if file:
            how = span.pop()
            changing = spans.index((file, tuple(span)))
            waiting.clear()
            waiting.update(operands[changing])
        elif span[0] < 0:
            changing, happened = -2, True
        else:
            happened = spoil(span[0], arguments)
        return did

    def found() -> dict[str, Any]:
        made: dict[str, Any] = {"values": {}, "picked": {}, "parts": {}, "traced": tracer_at}
        for name, ready, said in (
            ("values", fresh, values),
            ("picked", fresh_picked, picked),
            ("parts", fresh_parts, parts),
        ):
            for number in ready:
                file, span = spans[number]
                made[name].setdefault(file, []).append([*span, *said[number]])
            ready.clear()
        if read:
            made["kept"] = {}
        for number in read:
            made["kept"].setdefault(spans[number][0], []).append(list(spans[number][1]))
        read.clear()
        return made

    def forget() -> None:
        for kept in (values, full, fresh, picked, fresh_picked, parts, fresh_parts):
            kept.clear()
        waiting.update(*operands)

    return begin, end, found, forget, exchange
