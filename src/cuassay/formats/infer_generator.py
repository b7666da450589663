"""Read from a generator's syntax tree the ranges from which it draws its inputs."""

from __future__ import annotations

import ast

from cuassay.formats import signature
from cuassay.model.domain import Domain, Index, IntegerRange, Positive, Probability
from cuassay.model.problem import Problem

_KEEPS_VALUES = {
    "to", "long", "int", "view", "reshape", "contiguous", "clone", "unsqueeze", "squeeze", "cuda",
    "expand", "flatten", "type",
}  # fmt: skip


def read_generator(problem: Problem) -> dict[str, Domain]:
    """Return the domain of each input whose draw is spelled out in the generator's source.

    `randint(0, axes["vocab"], ...)` is Index("vocab"), `randperm` indices without repeats,
    other integer draws a range; a softmax a probability, an absolute value positive.
    """
    name = problem.reference.generator
    if name is None:
        return {}
    try:
        tree = signature.syntax_tree(problem.reference.source, "reference")
    except SyntaxError:
        return {}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name == name:
            return _Drawn(node, problem).domains()
    return {}


class _Drawn:
    def __init__(self, function: ast.FunctionDef, problem: Problem) -> None:
        arguments = [argument.arg for argument in (*function.args.posonlyargs, *function.args.args)]
        self.axes_argument = arguments[0] if arguments else ""
        self.axes = {axis.name for axis in problem.axes}
        self.inputs = {spec.name for spec in problem.inputs}
        self.names: dict[str, ast.expr | None] = {}
        self.made: dict[str, ast.expr] = {}
        for node in ast.walk(function):
            self._note(node)

    def _note(self, node: ast.AST) -> None:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                # A name that is bound twice may hold either value: nothing is known of it.
                self.names[name] = value if name not in self.names else None
            case ast.Assign(targets=[ast.Subscript(slice=ast.Constant(value=str(key)))], value=v):
                self.made[key] = v
            case ast.Dict(keys=keys, values=values):
                for entry, held in zip(keys, values, strict=True):
                    if isinstance(entry, ast.Constant) and isinstance(entry.value, str):
                        self.made[entry.value] = held
            case ast.Call(func=ast.Name(id="dict"), keywords=keywords):
                self.made |= {word.arg: word.value for word in keywords if word.arg}

    def domains(self) -> dict[str, Domain]:
        found = {name: self._domain(node) for name, node in self.made.items()}
        return {
            name: domain
            for name, domain in found.items()
            if domain is not None and name in self.inputs
        }

    def _domain(self, node: ast.expr, depth: int = 0) -> Domain | None:
        if depth > 20:
            return None
        if isinstance(node, ast.Name):
            bound = self.names.get(node.id)
            return self._domain(bound, depth + 1) if bound is not None else None
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            return None
        called = node.func.attr
        match called:
            case "randint":
                return self._randint(node)
            case "randperm" if node.args:
                high = self._size(node.args[0])
                return Index(axis=high, unique=True) if high is not None else None
            case "softmax":
                return Probability(axis=-1)
            case "abs":
                return Positive()
        if called in _KEEPS_VALUES:
            return self._domain(node.func.value, depth + 1)
        return None

    def _randint(self, node: ast.Call) -> Domain | None:
        words = {word.arg: word.value for word in node.keywords if word.arg}
        bounds = [
            argument for argument in node.args[:2] if not isinstance(argument, ast.Tuple | ast.List)
        ]
        low_node = words.get("low", bounds[0] if len(bounds) == 2 else None)
        high_node = words.get("high", bounds[-1] if bounds else None)
        low = "0" if low_node is None else self._size(low_node)
        high = self._size(high_node) if high_node is not None else None
        if low is None or high is None:
            return None
        if low == "0":
            return Index(axis=high)
        if low.lstrip("-").isdigit() and high.isdigit():
            return IntegerRange(low=int(low), high=int(high) - 1)
        return None

    def _size(self, node: ast.expr, depth: int = 0) -> str | None:
        """Return an expression of axes for `node`, None where it depends on anything else."""
        if depth > 20:
            return None
        match node:
            case ast.Constant(value=int(number)) if not isinstance(number, bool):
                return str(number)
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int(number))):
                return str(-number)
            case ast.Name(id=name):
                bound = self.names.get(name)
                return self._size(bound, depth + 1) if bound is not None else None
            case ast.Subscript(value=ast.Name(id=owner), slice=ast.Constant(value=str(key))):
                return key if owner == self.axes_argument and key in self.axes else None
            case ast.Call(func=ast.Attribute(value=ast.Name(id=owner), attr="get"), args=args):
                first = args[0] if args else None
                known = isinstance(first, ast.Constant) and first.value in self.axes
                return str(first.value) if known and owner == self.axes_argument else None  # type: ignore[union-attr]
            case ast.Call(func=ast.Name(id="int"), args=[inner]):
                return self._size(inner, depth + 1)
            case ast.BinOp(left=left, op=ast.Add() | ast.Sub() | ast.Mult() | ast.FloorDiv() as op):
                sides = self._size(left, depth + 1), self._size(node.right, depth + 1)
                sign = {"Add": "+", "Sub": "-", "Mult": "*", "FloorDiv": "//"}[type(op).__name__]
                return f"({sides[0]} {sign} {sides[1]})" if None not in sides else None
        return None
