"""Code of a candidate that no judged call ran: what an acceptance says nothing of.

A suite of statements counts where the statements before it ran and none of it did, an expression
where another one was chosen each time, and an `if` without `else` whose test always held. What
runs at import and what only raises do not count, nor what nothing refers to: a caller does not
get there. Functions that a decorator or a compiler takes (`@triton.jit`) do not run as Python:
of kernels it is told which lines the PTX machine ran.
"""

from __future__ import annotations

import ast
import dataclasses
import re
import sys
from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import PurePosixPath
from types import CodeType

from cuassay.checks.kernels.facts import cleaned_text
from cuassay.model.candidate import Candidate, Language, SourceFile
from cuassay.model.machine import MachineEvidence
from cuassay.model.python_text import parse_python, span_of
from cuassay.model.reached import Branch, Place, Reached
from cuassay.model.scope import Unreached

_TEXT = 60  # characters of a test
_SHARE = 0.5  # of a kernel's traced launches, of which there may be two
_TRACED = "in launches that the PTX machine traced"
_UNKNOWN = "a compiler traces code: values of expressions are not known"
# Compilers compare for quotients and bit operations as well.
_COMPARES = re.compile(r"[<>?/%&|^]|[=!]=|\b(?:if|while|where|min|max|minimum|maximum|clamp)\b")
_ENDING = ("assert", "__trap")  # what ends a kernel that must not go on
# C++ that ends in an error, and what chooses among variants of a kernel for types.
_RAISING = (
    r"\bthrow\b|\b(?:abort|exit|terminate)\s*\(|\b(?:TORCH|AT|C10|STD_TORCH)_\w+|\bassert\s*\("
)
_MACRO = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)(.*)$", re.MULTILINE)
_CHOOSES = re.compile(_COMPARES.pattern + r"|\b(?:switch|case|for|do)\b")
_PASSING = ("staticmethod", "classmethod", "property", "cache", "lru_cache", "cached_property")
_PASSING_ON = (*_PASSING, "wraps", "no_grad", "inference_mode", "contextmanager", "custom_fwd")
_COMPILERS = ("jit", "compile", "script", "kernel", "custom_op", "register_fake")
_MAKES_CODE = ("exec", "eval", "compile")
_MAKES_MODULES = ("__import__", "import_module")
_COMPUTED = ast.Compare | ast.BinOp | ast.UnaryOp | ast.Call | ast.Subscript
_CLOCKS = ("time", "datetime")
# What functions of these modules return follows from what they are given: of others, such as `os`
# and `gc`, it follows from the machine and the process.
_PURE = frozenset((
    "__future__", "abc", "array", "bisect", "cmath", "collections", "contextlib", "copy",
    "dataclasses", "decimal", "enum", "fractions", "functools", "hashlib", "heapq", "itertools",
    "json", "math", "numbers", "operator", "re", "statistics", "string", "struct", "textwrap",
    "types", "typing", "warnings", "zlib", *_CLOCKS,
))  # fmt: skip
_MACHINE = frozenset((*sys.stdlib_module_names, "psutil")) - _PURE
_MODULES = frozenset(("torch", "numpy", "triton"))  # some of their functions ask, too
_OF_TENSORS = frozenset(("one", "another", "true", "false", "zeros"))  # as `notes.watch` says it
_MAKING = ("zeros", "ones", "empty", "full", "tensor", "new_", "arange")
_Function = ast.FunctionDef | ast.AsyncFunctionDef
_Chosen = ast.IfExp | ast.BoolOp | ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp


def unreached_code(candidate: Candidate, reached: Reached) -> tuple[Unreached, ...]:
    """Return the code of a candidate's Python files that no judged call ran, in their order.

    Of the adapter that cuassay wrote around them nothing is said, and nothing where no call
    was followed: its kernels are not in Python.
    """
    if candidate.language is not Language.PYTHON or not reached.calls:
        return ()
    found: list[Unreached] = []
    if reached.lost:
        ended = "it ended the trace of its lines"
        found.append(Unreached(file=candidate.entry_file, line=1, last=1, test=ended))
    if reached.traced is not None:
        name, line = reached.traced
        found.append(Unreached(file=cleaned_text(name, _TEXT), line=line, last=line, test=_UNKNOWN))
    for source in candidate.sources:
        if not source.path.endswith(".py") or source.path == candidate.adapter:
            continue
        try:
            tree = parse_python(source.text)
            code = compile(source.text, source.path, "exec", dont_inherit=True)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
        places = reached.places.get(source.path, frozenset())
        branches = reached.branches.get(source.path, frozenset())
        file = _File(source.path, source.text, code, places, branches)
        found += file.unreached(tree)
        found += _constants(tree, source, reached)
        found += _by_the_clock(tree, source)
        found += _differentiated_twice(tree, source)
    return tuple(found)


def _constants(tree: ast.Module, source: SourceFile, reached: Reached) -> Iterator[Unreached]:
    """Return expressions that came to one value in all judged calls, the smallest alone.

    A mask counts by itself. Another result of tensors, or a number, counts where one of its
    operands was not the same each time, or where the machine or a setting of the process gave it;
    what the process gave and was not the same counts too, since production is another process.
    After them come minima, remainders and their like that came to the same operand each time.
    """
    values = reached.values.get(source.path, {})
    picked = reached.picked.get(source.path, {})
    machine, modules = _names_of(tree, _MACHINE), _names_of(tree, _MODULES)

    def held(node: ast.AST) -> frozenset[str]:
        return values.get(span_of(node), frozenset()) if isinstance(node, ast.expr) else frozenset()

    def look(node: ast.AST) -> Iterator[Unreached]:
        inner = [one for child in ast.iter_child_nodes(node) for one in look(child)]
        yield from inner
        if inner or not isinstance(node, _COMPUTED) or not (said := held(node)):
            return
        if len(said) > 1:
            asks = any(isinstance(one, ast.Name) and one.id in machine for one in ast.walk(node))
            if asks and not said & _OF_TENSORS:
                yield Unreached(
                    file=source.path,
                    line=node.lineno,
                    last=node.end_lineno or node.lineno,
                    test=cleaned_text(f"depends on the process: {ast.unparse(node)}", _TEXT + 10),
                )
            return
        (value,) = said
        if value == "filled":
            return
        parts = [
            part.value if isinstance(part, ast.keyword) else part
            for part in ast.iter_child_nodes(node)
        ]
        if isinstance(node, ast.Call) and _name_of(node).startswith(_MAKING):
            return
        varied = any(len(held(part)) > 1 for part in parts)
        given = any(_asks_process(one, machine, modules) for one in ast.walk(node))
        if varied or given or value in ("true", "false"):
            yield Unreached(
                file=source.path,
                line=node.lineno,
                last=node.end_lineno or node.lineno,
                test=cleaned_text(f"always {value}: {ast.unparse(node)}", _TEXT + 10),
            )

    yield from look(tree)
    for node in ast.walk(tree):
        came = picked.get(span_of(node), frozenset()) if isinstance(node, ast.expr) else frozenset()
        match node:
            case ast.BinOp(left=first, right=second) | ast.Call(args=[first, second]):
                operands: dict[str, ast.AST] = {"0": first, "1": second}
            case _:
                continue
        same = operands.get(next(iter(came))) if len(came) == 1 else None
        if same is not None and len(held(same)) > 1:
            yield Unreached(
                file=source.path,
                line=node.lineno,
                last=node.end_lineno or node.lineno,
                test=cleaned_text(f"always {ast.unparse(same)}: {ast.unparse(node)}", _TEXT + 10),
            )


def _asks_process(node: ast.AST, machine: set[str], modules: set[str]) -> bool:
    """Whether a part names the machine or a setting of torch's, or calls what has no argument.

    What a function of a module returns then follows from the process, which no call changes.
    """
    match node:
        case ast.Name(id=name):
            return name in machine
        case ast.Attribute(attr="allow_tf32"):
            return True
        case ast.Call(func=root, args=[], keywords=[]):
            while isinstance(root, ast.Attribute):
                root = root.value
            made = isinstance(root, ast.Call) and _name_of(root) in _MAKES_MODULES
            return made or (isinstance(root, ast.Name) and root.id in modules)
        case _:
            return False


def _names_of(tree: ast.Module, modules: Collection[str]) -> set[str]:
    """Return the names by which a file has some modules and what it imports of them."""
    return {
        name.asname or name.name.partition(".")[0]
        for one in ast.walk(tree)
        if isinstance(one, ast.Import | ast.ImportFrom)
        for name in one.names
        if (getattr(one, "module", None) or name.name).partition(".")[0] in modules
    }


def _by_the_clock(tree: ast.Module, source: SourceFile) -> Iterator[Unreached]:
    """Return the lines of functions that read a clock or wait: calls at other times may differ."""
    names, lines = _names_of(tree, _CLOCKS), set[int]()
    for function in ast.walk(tree):
        for call in ast.walk(function) if isinstance(function, _Function | ast.Lambda) else ():
            root = call.func if isinstance(call, ast.Call) else None
            while isinstance(root, ast.Attribute):
                root = root.value
            if isinstance(root, ast.Name) and root.id in names and root.lineno not in lines:
                lines.add(root.lineno)
                test = cleaned_text(f"depends on time: {ast.unparse(call)}", _TEXT + 10)
                yield Unreached(file=source.path, line=root.lineno, last=root.lineno, test=test)


def _differentiated_twice(tree: ast.Module, source: SourceFile) -> Iterator[Unreached]:
    """Return derivatives that torch differentiates again without a word, which no check does.

    What `save_for_backward` kept of a calculation is a constant then: with `once_differentiable`
    torch raises instead.
    """
    for kind in ast.walk(tree):
        if not isinstance(kind, ast.ClassDef) or "Function" not in map(_name_of, kind.bases):
            continue
        for method in kind.body:
            if (
                isinstance(method, ast.FunctionDef)
                and method.name == "backward"
                and "once_differentiable" not in map(_name_of, method.decorator_list)
            ):
                first, last = method.body[0].lineno, method.body[-1].end_lineno
                test = "gradients of its gradients: mark it with once_differentiable"
                yield Unreached(file=source.path, line=first, last=last or first, test=test)


def unreached_in_host(candidate: Candidate, reached: Reached) -> tuple[Unreached, ...]:
    """Return lines of an extension's C++ that no judged call ran, or that never chose otherwise.

    Of functions that ran, and but for what only ends in an error: a check of its arguments is no
    part of what is judged.
    """
    found: list[Unreached] = []
    for source in candidate.sources:
        texts = source.text.splitlines()
        name = PurePosixPath(source.path).name
        places = {
            place
            for file, of_file in reached.host.items()
            if PurePosixPath(file).name == name
            for place in of_file
            if 0 < place[0] <= len(texts)
        }
        ran = {(line, at) for line, at, taken in places if taken}
        # What finds lines of C++ that end in an error: by their words, or by a macro's
        words = _RAISING
        for word, body in _MACRO.findall(source.text.replace("\\\n", " ")):
            if re.search(words, body):
                words += rf"|\b{word}\b"
        ends = re.compile(words)

        def raises(line: int, texts: Sequence[str] = texts, ends: re.Pattern[str] = ends) -> bool:
            return bool(ends.search(texts[line - 1]))

        before = -1
        for line in sorted({line for line, at, _ in places if at < 0}):
            if (line, -1) not in ran:
                if raises(line):
                    before = -1
                elif before > 0:
                    found[-1] = dataclasses.replace(found[-1], last=line)
                else:
                    test = cleaned_text(f"C++ that did not run: {texts[line - 1].strip()}", _TEXT)
                    found.append(Unreached(file=source.path, line=line, last=line, test=test))
                    before = line
                continue
            before = -1
            missed = {
                at for one, at, _ in places if one == line and at >= 0 and (line, at) not in ran
            }
            # What follows a test that holds for errors alone did not run and raises.
            after = next((n for n in range(line + 1, len(texts) + 1) if texts[n - 1].strip()), line)
            only_error = raises(line) or ((after, -1) not in ran and raises(after))
            if missed and not only_error and _CHOOSES.search(texts[line - 1]):
                test = cleaned_text(f"one outcome each time: {texts[line - 1].strip()}", _TEXT + 10)
                found.append(Unreached(file=source.path, line=line, last=line, test=test))
    return tuple(found)


def unreached_in_kernels(
    candidate: Candidate, executed: Iterable[MachineEvidence]
) -> tuple[Unreached, ...]:
    """Return lines of the kernels that became instructions of which no traced launch ran any.

    Neighbors are one piece. Lines that are left out by a constant became no instruction, and what
    other launches ran is not known: the PTX machine traces some of all calls.
    """
    ran: dict[tuple[str, int], bool] = {}
    for evidence in executed:
        for launch in evidence.launches:
            if not launch.inconclusive:
                for one in launch.lines:
                    ran[one.file, one.line] = (
                        ran.get((one.file, one.line), False) or one.executed > 0
                    )
    found: list[Unreached] = []
    for source in candidate.sources:
        texts = source.text.splitlines()
        name = PurePosixPath(source.path).name
        lines = sorted(line for file, line in ran if file == name and 0 < line <= len(texts))
        before = -1
        for line in lines:
            if ran[name, line] or any(word in texts[line - 1] for word in _ENDING):
                before = -1
            elif before > 0:
                found[-1] = dataclasses.replace(found[-1], last=line)
            else:
                found.append(Unreached(file=source.path, line=line, last=line, test=_TRACED))
                before = line
    return tuple(found)


def undecided_in_kernels(
    candidate: Candidate, executed: Iterable[MachineEvidence]
) -> tuple[Unreached, ...]:
    """Return lines of the kernels with a comparison that came out one way in all traced launches.

    Or with a float that had one magnitude in all of them, though it was made of what a caller
    gives. What few of a kernel's launches ran says little: compilers make variants for some sizes.
    """
    launches = [one for evidence in executed for one in evidence.launches if not one.inconclusive]
    of_kernel = Counter(launch.kernel for launch in launches)
    came: dict[tuple[str, int, int, str, bool], set[str]] = {}
    share: dict[tuple[str, int, int, str, bool], float] = {}
    for launch in launches:
        for one in launch.outcomes:
            key = one.file, one.line, one.column, one.what, one.compares
            came.setdefault(key, set()).update(one.values)
            share[key] = share.get(key, 0.0) + bool(one.values) / of_kernel[launch.kernel]
    found: dict[tuple[str, int], Unreached] = {}
    for source in candidate.sources:
        texts = source.text.splitlines()
        for key, values in came.items():
            file, line, _, _, compares = key
            inside = file == PurePosixPath(source.path).name and 0 < line <= len(texts)
            known = inside and len(values) == 1 and share[key] >= _SHARE
            text = texts[line - 1] if known else ""
            # A function of a library compares on the line that calls it.
            says = bool(_COMPARES.search(text)) if compares else bool(text)
            if says and not any(word in text for word in _ENDING):
                test = cleaned_text(f"one outcome each time: {text.strip()}", _TEXT + 10)
                found[source.path, line] = Unreached(
                    file=source.path, line=line, last=line, test=test
                )
    return tuple(found.values())


class _File:
    """One file: its tree beside the instructions that there are, and those of them that ran."""

    def __init__(
        self,
        path: str,
        text: str,
        code: CodeType,
        ran: frozenset[Place],
        branches: frozenset[Branch],
    ) -> None:
        self._path, self._text = path, text
        self._ran, self._branches = sorted(ran), branches
        self._all = sorted(set(_instructions(code)))
        self._found: list[Unreached] = []
        self._waiting: list[_Function | ast.Lambda] = []  # never entered, so far
        self._names: set[str] = set()  # which code that ran refers to

    def unreached(self, tree: ast.Module) -> list[Unreached]:
        """Return what no judged call ran."""
        self._at_import(tree.body)
        for function in self._waiting:
            if isinstance(function, ast.Lambda):
                self._add(function.body, function.body, "a lambda")
            elif function.name in self._names and not _only_raises(function.body):
                self._add(function.body[0], function.body[-1], f"calls of {function.name}")
        return sorted(self._found, key=lambda one: one.line)

    def _at_import(self, body: Iterable[ast.stmt]) -> None:
        """Look for functions in code that runs at import."""
        for statement in body:
            match statement:
                case ast.FunctionDef() | ast.AsyncFunctionDef():
                    self._function(statement)
                case ast.If(test=ast.Compare(left=ast.Name(id="__name__"))):
                    pass
                case _:
                    for child in ast.iter_child_nodes(statement):
                        if isinstance(child, ast.stmt | ast.ExceptHandler | ast.match_case):
                            self._at_import([child])  # type: ignore[list-item]
                        else:
                            self._names_in(child, at_import=True)

    def _function(self, function: _Function) -> None:
        """Look into a function that is defined where code ran."""
        if any(self._did(one) for one in function.body):
            self._suite(function.body, f"calls of {function.name}")
        elif all(_name_of(one) in _PASSING_ON for one in function.decorator_list):
            # What other decorators return need not call the function.
            self._waiting.append(function)

    def _suite(self, body: Sequence[ast.stmt], test: str) -> None:
        """Look into a suite of a function of which something ran."""
        for number, statement in enumerate(body):
            if not self._is_there(statement):
                continue
            if not self._did(statement):
                if not _only_raises(body[number:]):
                    self._add(statement, body[-1], test)
                return
            if isinstance(statement, ast.If):
                words = self._words(statement.test)
                self._names_in(statement.test)
                self._chosen(statement.test)
                self._arm(statement.body, words)
                self._arm(statement.orelse, f"not ({words})")
                rest = body[number + 1 :]
                ends = isinstance(
                    statement.body[-1], ast.Return | ast.Raise | ast.Continue | ast.Break
                )
                if not statement.orelse and not (rest and (ends or _only_raises(rest))):
                    self._always(statement, words)
                test = f"not ({words})" if ends else test
            else:
                self._statement(statement)

    def _arm(self, body: Sequence[ast.stmt], test: str) -> None:
        if body and (any(map(self._did, body)) or any(map(self._is_there, body))):
            self._suite(body, test)

    def _always(self, statement: ast.If, words: str) -> None:
        """Note an `if` whose test held each time, so that nobody knows what comes without it."""
        if not self._did(statement.body[0]):
            return
        for line, column, to_line, to, ends in self._branches:
            into = _holds(statement.body, (to_line, to))
            stays = _holds([statement.test], (to_line, to)) and not ends
            if _holds([statement.test], (line, column)) and not into and not stays:
                return
        self._add(statement.test, statement.test, f"always: {words}")

    def _statement(self, statement: ast.stmt) -> None:
        """Look into a statement of a function that ran, but for an `if`."""
        match statement:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self._function(statement)
            case ast.ClassDef():
                self._at_import([statement])
            case ast.For() | ast.AsyncFor() | ast.While():
                head = statement.test if isinstance(statement, ast.While) else statement.iter
                self._names_in(head)
                self._chosen(head)
                self._arm(statement.body, f"{self._words(head)}")
                self._arm(statement.orelse, "the end of the loop")
            case ast.With() | ast.AsyncWith():
                for item in statement.items:
                    self._names_in(item.context_expr)
                self._suite(statement.body, "")
            case ast.Try() | ast.TryStar():
                self._suite(statement.body, "")
                for handler in statement.handlers:
                    caught = self._words(handler.type) if handler.type else "exceptions"
                    self._arm(handler.body, f"except {caught}")
                self._arm(statement.orelse, "no exception")
                self._suite(statement.finalbody, "")
            case ast.Match():
                self._names_in(statement.subject)
                for one in statement.cases:
                    self._arm(one.body, f"case {self._words(one.pattern)}")
            case ast.Assert():
                self._names_in(statement.test)
            case _:
                self._names_in(statement)
                self._chosen(statement)

    def _chosen(self, node: ast.AST) -> None:
        """Look for expressions that never were the chosen ones, the largest alone."""
        for part in ast.iter_child_nodes(node) if not isinstance(node, _Chosen) else ():
            self._chosen(part)
        match node:
            case ast.IfExp():
                words = self._words(node.test)
                self._chosen(node.test)
                self._expression(node.body, words)
                self._expression(node.orelse, f"not ({words})")
            case ast.BoolOp():
                self._chosen(node.values[0])
                for before, value in zip(node.values, node.values[1:], strict=False):
                    words = self._words(before)
                    either = isinstance(node.op, ast.Or)
                    self._expression(value, f"not ({words})" if either else words)
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp():
                self._expression(node.elt, "an element")
            case ast.DictComp():
                self._expression(node.value, "an element")
            case ast.Lambda() if not self._did(node.body):
                self._waiting.append(node)
            case _:
                pass

    def _expression(self, node: ast.expr, test: str) -> None:
        if self._did(node):
            self._chosen(node)
        elif self._is_there(node):
            self._add(node, node, test)

    def _names_in(self, node: ast.AST, *, at_import: bool = False) -> None:
        """Note the names that code which ran refers to, but for what is given to a compiler.

        What is called at import is not reached by a caller for that.
        """
        waiting = [node]
        while waiting:
            one = waiting.pop()
            match one:
                case ast.Name(id=name):
                    self._names.add(name)
                    if name in _MAKES_CODE:
                        self._add(one, one, "code that is made at run time")
                case ast.Attribute(attr=name):
                    self._names.add(name)
                case ast.Call(func=function) if _name_of(function) in _COMPILERS:
                    continue
                case ast.Call(args=arguments, keywords=keywords) if at_import:
                    waiting += [*arguments, *keywords]
                    continue
                case _:
                    pass
            waiting += ast.iter_child_nodes(one)

    def _add(self, first: ast.stmt | ast.expr, last: ast.stmt | ast.expr, test: str) -> None:
        self._found.append(
            Unreached(
                file=self._path,
                line=first.lineno,
                last=last.end_lineno or last.lineno,
                test=cleaned_text(test, _TEXT + 10),
            )
        )

    def _words(self, node: ast.AST) -> str:
        text = " ".join((ast.get_source_segment(self._text, node) or "a test").split())
        return text if len(text) <= _TEXT else f"{text[:_TEXT]}..."

    def _did(self, node: ast.stmt | ast.expr) -> bool:
        """Whether an instruction of a node ran."""
        return _any_in(node, self._ran)

    def _is_there(self, node: ast.stmt | ast.expr) -> bool:
        """Whether a node became instructions at all."""
        return _any_in(node, self._all)


def _instructions(code: CodeType) -> Iterator[Place]:
    for line, _, column, _ in code.co_positions():
        if line is not None and column is not None:
            yield line, column
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _instructions(constant)


def _any_in(node: ast.stmt | ast.expr, places: Sequence[Place]) -> bool:
    """Whether one of the places, which are sorted, is in a node."""
    first = bisect_left(places, (node.lineno, node.col_offset))
    return first < len(places) and _holds([node], places[first])


def _holds(nodes: Sequence[ast.stmt | ast.expr], place: Place) -> bool:
    first, last = nodes[0], nodes[-1]
    end = (last.end_lineno or last.lineno, last.end_col_offset or 0)
    return (first.lineno, first.col_offset) <= place < end


def _only_raises(body: Sequence[ast.stmt]) -> bool:
    """Whether a suite does nothing but raise, whichever way is taken in it."""
    for statement in body:
        match statement:
            case ast.Raise() | ast.Assert(test=ast.Constant(value=False)):
                return True
            case ast.Return():
                return (
                    isinstance(statement.value, ast.Name) and statement.value.id == "NotImplemented"
                )
            case ast.If(body=inner, orelse=orelse) if _only_raises(inner):
                if orelse and _only_raises(orelse):
                    return True
            case ast.Pass() | ast.Expr(value=ast.Constant()):
                pass
            case ast.If() | ast.For() | ast.While() | ast.Try() | ast.With() | ast.Match():
                return False
            case _:
                pass
    return all(
        isinstance(one, ast.Pass)
        or (isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant))
        for one in body
    )


def _name_of(node: ast.expr) -> str:
    inner = node.func if isinstance(node, ast.Call) else node
    match inner:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case _:
            return ""
