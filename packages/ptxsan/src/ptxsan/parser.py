"""PTX text to syntax tree: comments, directives, scopes, `.loc`; operands are in operands.py.

Reference: PTX ISA manual, chapters "Syntax", "State Spaces, Types, and Variables" and
"Directives". Registers of a nested scope (inline assembly) are renamed so that every register
of a function has its own name.
"""

from __future__ import annotations

import re
from typing import Any

from ptxsan import isa
from ptxsan.declarations import parse_variable
from ptxsan.errors import MachineError
from ptxsan.operands import parse_operands
from ptxsan.scanner import Statement, statements
from ptxsan.syntax import (
    Declaration,
    Function,
    Immediate,
    Instruction,
    Module,
    Register,
    SourceLine,
    Symbol,
)

_LABEL = re.compile(r"([$%\w.]+)\s*:(?!:)\s*")
_PREDICATE = re.compile(r"@(!?)\s*([%$\w]+)\s*")
_OPCODE = re.compile(r"[a-z][\w.:]*", re.IGNORECASE)
_REGISTERS = re.compile(r"\.reg\s*\.(\w+)\s+(.*)$", re.DOTALL)
_RANGE = re.compile(r"([%$\w]+)\s*<\s*(\d+)\s*>$")
_LOC = re.compile(r"\.loc\s+(\d+)\s+(\d+)(?:\s+(\d+))?(.*)$", re.DOTALL)
_INLINED = re.compile(r"inlined_at\s+(\d+)\s+(\d+)(?:\s+(\d+))?")
# Where LLVM writes no `inlined_at`, as for Triton, it names the callers in a comment.
_CALLERS = re.compile(r"@\[ ([^\s:\]]+):(\d+):\d+")
_FUNCTION = re.compile(
    r"\.(entry|func)\s*(?:\(([^)]*)\))?\s*([$%\w]+)\s*(?:\((.*?)\))?\s*((?:\.\w+[^()]*)?)$",
    re.DOTALL,
)
_NUMBERS = ("maxntid", "reqntid", "minnctapersm", "maxnreg", "reqnctapercluster")
_IGNORED = ("pragma", "section", "alias", "callprototype", "noreturn", "abi_preserve")


def parse(text: str) -> Module:
    """Return the syntax tree of a PTX text.

    Raises MachineError with the line where the text is not PTX that this parser knows.
    """
    return _Parser(text).module()


class _Scope:
    """Names of one `{ }` of a function and what they were renamed to."""

    def __init__(self, labels: dict[str, str]) -> None:
        self.names: dict[str, str] = {}
        self.labels = labels


class _Body:
    """What is collected while one function is read."""

    def __init__(self) -> None:
        self.instructions: list[Instruction] = []
        self.labels: dict[str, int] = {}
        self.registers: dict[str, str] = {}
        self.variables: list[Declaration] = []
        self.scopes: list[_Scope] = [_Scope({})]
        self.opened = 0
        self.tables: dict[str, tuple[str, ...]] = {}  # of .branchtargets, by the label before it


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._lines = text.split("\n")
        self._version = self._target = ""
        self._functions: dict[str, Function] = {}
        self._variables: dict[str, Declaration] = {}
        self._files: dict[int, str] = dict(_files(text))
        self._source: SourceLine | None = None
        # Of each place of a `.loc` (file, line, column), the line that it is inlined at
        self._callers: dict[tuple[str | Any, ...], SourceLine] = {}

    def module(self) -> Module:
        pending: tuple[Function, _Body] | None = None
        found = list(statements(self._text))
        for index, one in enumerate(found):
            if pending is not None:
                if one.kind == "close" and len(pending[1].scopes) == 1:
                    self._finish(*pending)
                    pending = None
                else:
                    body = pending[1]
                    rest = found[index + 1 :] if one.kind == "open" else []
                    if one.kind == "open":
                        if one.text:
                            raise MachineError(f"'{one.text[:40]}' before a scope", line=one.line)
                        body.opened += 1
                        body.scopes.append(_Scope(_labels_of_scope(rest, body.opened)))
                    elif one.kind == "close":
                        body.scopes.pop()
                    else:
                        self._statement(body, one)
            elif one.kind == "open":
                pending = self._head(one), _Body()
                self._source = None
            elif one.kind == "text":
                self._outside(one)
        if pending is not None:
            raise MachineError(f"function '{pending[0].name}' is not closed", line=pending[0].line)
        return Module(
            version=self._version,
            target=self._target,
            functions=self._functions,
            variables=self._variables,
            text=self._text,
        )

    def _outside(self, one: Statement) -> None:
        text = one.text
        word = text.split(None, 1)[0] if text else ""
        if word == ".version":
            self._version = text.split()[1]
        elif word == ".target":
            self._target = text.split()[1].rstrip(",")
        elif word in (".address_size", ".file") or word.lstrip(".") in _IGNORED:
            return
        elif re.search(r"\.(entry|func)\b", text):
            function = self._head(one)
            self._functions.setdefault(function.name, function)
        elif word.startswith("."):
            variable = parse_variable(text, one.line)
            self._variables[variable.name] = variable
        elif word:
            raise MachineError(f"'{word[:40]}' outside of a function", line=one.line)

    def _head(self, one: Statement) -> Function:
        """Read `.visible .entry name(params) .maxntid 128, 1, 1`."""
        match = _FUNCTION.search(one.text)
        if match is None:
            raise MachineError(f"cannot read function head '{one.text[:80]}'", line=one.line)
        kind, results, name, params, tail = match.groups()
        found = re.findall(r"\.(\w+)\s*([\d,\s]*)", tail or "")
        return Function(
            name=name,
            entry=kind == "entry",
            params=_parameters(params or "", one.line),
            results=_parameters(results or "", one.line),
            directives={
                word: tuple(int(number) for number in re.findall(r"\d+", numbers))
                for word, numbers in found
                if word in _NUMBERS or not numbers.strip()
            },
            line=one.line,
        )

    def _finish(self, head: Function, body: _Body) -> None:
        self._functions[head.name] = Function(
            name=head.name,
            entry=head.entry,
            params=head.params,
            results=head.results,
            directives=head.directives,
            line=head.line,
            body=tuple(body.instructions),
            labels=body.labels,
            registers=body.registers,
            variables=tuple(body.variables),
        )

    def _statement(self, body: _Body, one: Statement) -> None:
        text = one.text
        name = ""
        while match := _LABEL.match(text):
            name = match.group(1)
            body.labels[body.scopes[-1].labels.get(name, name)] = len(body.instructions)
            text = text[match.end() :]
        if not text:
            return
        if text.split(None, 1)[0] == ".loc":
            match = _LOC.match(text)
            if match is not None:
                place = match.group(1, 2, 3)
                outer = _INLINED.search(match.group(4))
                caller = None
                if outer is not None:
                    # Where that line is inlined itself, a `.loc` before has said so (PTX ISA, .loc)
                    above = self._callers.get(outer.group(1, 2, 3))
                    caller = SourceLine(self._file(outer[1]), int(outer[2]), above)
                    self._callers[place] = caller
                else:
                    self._callers.pop(place, None)
                    # The callers that the comment behind a `.loc` names, the innermost first
                    _, _, comment = self._lines[one.line - 1].partition("//")
                    caller = None
                    for file, number in reversed(_CALLERS.findall(comment)):
                        paths = (p for p in self._files.values() if p.rpartition("/")[2] == file)
                        caller = SourceLine(next(paths, file), int(number), caller)
                column = int(match[3] or 0)
                self._source = SourceLine(self._file(match[1]), int(match[2]), caller, column)
        elif text.startswith(".reg"):
            _declare_registers(body, text, one.line)
        elif text.startswith("."):
            word = text.split(None, 1)[0].lstrip(".")
            if word == "branchtargets":
                targets = text.split(None, 1)[1].split(",")
                body.tables[name] = tuple(_resolve(body, target.strip()) for target in targets)
            elif word not in _IGNORED and word != "calltargets":
                body.variables.append(parse_variable(text, one.line))
        else:
            read = self._instruction(body, text, one.line)
            body.instructions += _branches(body, read) if read.base == "brx" else (read,)

    def _instruction(self, body: _Body, text: str, line: int) -> Instruction:
        predicate = None
        if match := _PREDICATE.match(text):
            name = _resolve(body, match.group(2))
            predicate = Register(name, bool(match.group(1)))
            text = text[match.end() :]
        match = _OPCODE.match(text)
        if match is None:
            raise MachineError(f"cannot read '{text[:60]}'", line=line)
        opcode = match.group()
        operands = parse_operands(text[match.end() :], lambda name: _resolve(body, name), line)
        return Instruction(
            opcode=opcode,
            parts=tuple(re.split(r"(?<!:)\.", opcode)),
            operands=operands,
            line=line,
            predicate=predicate,
            source=self._source,
        )

    def _file(self, number: str) -> str:
        return self._files.get(int(number), f"file {number}")


def _branches(body: _Body, one: Instruction) -> list[Instruction]:
    """Return a `brx.idx` as branches, one for each place of its table; no other index is valid."""
    index, table = one.operands
    places = body.tables.get(table.name, ()) if isinstance(table, Symbol) else ()
    if not places or one.predicate is not None:
        raise MachineError("brx.idx with a predicate, or a table behind it", line=one.line)
    found = []
    for number, place in enumerate(places[:-1]):
        is_it = Register(f"%brx{one.line}_{number}")
        body.registers[is_it.name] = "pred"
        found.append(isa.equal(one, "u32", is_it, index, Immediate(number, "int")))
        found.append(isa.jump(one, place, when=is_it))
    return [*found, isa.jump(one, places[-1])]


def _files(text: str) -> list[tuple[int, str]]:
    found = re.findall(r'^\s*\.file\s+(\d+)\s+"([^"\n]*)"', text, re.MULTILINE)
    return [(int(number), name) for number, name in found]


def _declare_registers(body: _Body, text: str, line: int) -> None:
    match = _REGISTERS.match(text)
    if match is None:
        raise MachineError(f"cannot read '{text[:60]}'", line=line)
    kind, names = match.groups()
    if kind.startswith("v") and kind[1:].isdigit():
        raise MachineError("vector registers are not supported", line=line)
    scope = body.scopes[-1]
    suffix = f"@{body.opened}" if len(body.scopes) > 1 else ""
    for item in names.split(","):
        name = item.strip()
        ranged = _RANGE.match(name)
        every = [f"{ranged[1]}{i}" for i in range(int(ranged[2]))] if ranged else [name]
        for one in every:
            scope.names[one] = f"%{one.lstrip('%')}{suffix}"  # every register begins with %
            body.registers[scope.names[one]] = kind


def _resolve(body: _Body, name: str) -> str:
    for scope in reversed(body.scopes):
        if name in scope.names:
            return scope.names[name]
        if name in scope.labels:
            return scope.labels[name]
    return name


def _labels_of_scope(rest: list[Statement], number: int) -> dict[str, str]:
    """Return the labels of a nested scope, renamed: a branch to one may come before it."""
    labels, depth = {}, 1
    for one in rest:
        depth += {"open": 1, "close": -1, "text": 0}[one.kind]
        if depth == 0:
            break
        text = one.text
        while depth == 1 and one.kind == "text" and (match := _LABEL.match(text)):
            labels[match.group(1)] = f"{match.group(1)}@{number}"
            text = text[match.end() :]
    return labels


def _parameters(text: str, line: int) -> tuple[Declaration, ...]:
    items = [item.strip() for item in text.split(",") if item.strip()]
    return tuple(parse_variable(item, line) for item in items)
