"""Read from a reference's syntax tree which integer inputs are indices, and into what.

A small abstract interpreter walks `run` once: it knows tensors by their symbolic shapes,
integers that are axis sizes, and which expressions still hold the values of one input.
What it does not understand is unknown, never guessed.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, field

from cuassay.formats import signature
from cuassay.model.problem import Problem, TensorSpec

# Methods that keep the values; those of the first group keep the shape too.
_SAME = {
    "to", "float", "double", "half", "bfloat16", "long", "int", "clone", "contiguous", "detach",
    "type", "type_as", "requires_grad_", "cuda", "cpu",
}  # fmt: skip
_RESHAPED = {
    "view", "reshape", "flatten", "ravel", "unsqueeze", "squeeze", "expand", "expand_as",
    "transpose", "permute", "t", "repeat", "repeat_interleave", "clamp", "clamp_", "clamp_min",
    "masked_fill",
}  # fmt: skip
_LIKE = {"zeros_like", "ones_like", "empty_like", "full_like", "rand_like", "randn_like"}
_FACTORIES = {"zeros", "ones", "empty", "full", "new_zeros", "new_ones", "new_empty", "new_full"}
_READS = {"gather", "index_select", "take_along_dim"}
_ADDS = {"index_add", "index_add_", "scatter_add", "scatter_add_", "scatter_reduce",
         "scatter_reduce_", "index_reduce", "index_reduce_"}  # fmt: skip
_PUTS = {"scatter", "scatter_", "index_copy", "index_copy_"}
_LOGARITHMIC = {"log", "log_", "sqrt", "rsqrt", "log2", "log10", "reciprocal"}


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexUse:
    """One use of an input as an index into an axis (a name, literal or expression).

    `writes` tells scatter from gather; `exclusive` that equal indices would overwrite each
    other, so that only distinct ones have a meaning.
    """

    source: str
    axis: str
    writes: bool = False
    exclusive: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class InputEvidence:
    """What a reference tells about its inputs."""

    uses: tuple[IndexUse, ...] = ()
    positive: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Value:
    """What is known of an expression: shape, size, elements of a tuple, the input it holds."""

    shape: tuple[str | None, ...] | None = None
    size: str | None = None
    items: tuple[_Value, ...] | None = None
    source: str | None = None
    one: bool = False  # a single integer of unknown value, such as a loop variable


_UNKNOWN = _Value()


def read_reference(problem: Problem) -> InputEvidence:
    """Return the index uses of the problem's reference; empty where it cannot be followed."""
    try:
        tree = signature.syntax_tree(problem.reference.source, "reference")
    except SyntaxError:
        return InputEvidence()
    name = problem.reference.function
    run = next(
        (node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == name),
        None,
    )
    if run is None:
        return InputEvidence()
    names = {}
    parameters = [*run.args.posonlyargs, *run.args.args]
    for parameter, spec in zip(parameters, problem.inputs, strict=False):
        shape = spec.shape if isinstance(spec, TensorSpec) else None
        names[parameter.arg] = _Value(shape=shape, source=spec.name)
    reader = _Reader(names=names)
    try:
        for statement in run.body:
            reader.visit(statement)
    except RecursionError:
        return InputEvidence()
    return InputEvidence(
        uses=tuple(dict.fromkeys(reader.uses)), positive=frozenset(reader.positive)
    )


@dataclass(kw_only=True)
class _Reader(ast.NodeVisitor):
    names: dict[str, _Value]
    uses: list[IndexUse] = field(default_factory=list)
    positive: set[str] = field(default_factory=set)

    def visit_Assign(self, node: ast.Assign) -> None:
        self.visit(node.value)
        value = self.value(node.value)
        for target in node.targets:
            self.bind(target, value)
            self.store(target, node.value)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self.visit(node.value)
        self.store(node.target, node.value, adds=True)
        if isinstance(node.target, ast.Name):
            kept = self.names.get(node.target.id, _UNKNOWN)
            self.names[node.target.id] = _Value(shape=kept.shape)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)
            self.bind(node.target, self.value(node.value))

    def visit_For(self, node: ast.For) -> None:
        self.visit(node.iter)
        self.bind(node.target, _Value(one=_call_name(node.iter) == "range"))
        for statement in (*node.body, *node.orelse):
            self.visit(statement)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        """Leave nested functions alone: their parameters hide the names."""

    visit_Lambda = visit_FunctionDef  # type: ignore[assignment]

    def visit_Subscript(self, node: ast.Subscript) -> None:
        self.generic_visit(node)
        if isinstance(node.ctx, ast.Load):
            self.indexed(node)

    def visit_Call(self, node: ast.Call) -> None:
        self.generic_visit(node)
        name, operands = _call(node)
        if name in _LOGARITHMIC and operands:
            self.must_be_positive(operands[0])
        self.index_call(name, node, operands)

    def bind(self, target: ast.expr, value: _Value) -> None:
        if isinstance(target, ast.Name):
            self.names[target.id] = value
        elif isinstance(target, ast.Tuple | ast.List):
            items = value.items or ()
            for position, element in enumerate(target.elts):
                self.bind(element, items[position] if position < len(items) else _UNKNOWN)

    def store(self, target: ast.expr, value: ast.expr, *, adds: bool = False) -> None:
        """Note `X[ids] = value`: equal indices would overwrite each other."""
        if isinstance(target, ast.Subscript):
            constant = isinstance(value, ast.Constant | ast.UnaryOp)
            # `X[ids] += v` adds only the last of equal indices, as an assignment does.
            self.indexed(target, writes=True, exclusive=adds or not constant)

    def indexed(
        self, node: ast.Subscript, *, writes: bool = False, exclusive: bool = False
    ) -> None:
        shape = self.value(node.value).shape
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if shape is None or any(
            isinstance(part, ast.Constant) and part.value in (None, Ellipsis) for part in parts
        ):
            return
        alone = len(parts) == 1
        for position, part in enumerate(parts):
            source = self.value(part).source
            if source is not None and position < len(shape):
                self.use(source, shape[position], writes=writes, exclusive=exclusive and alone)

    def use(
        self, source: str, axis: str | None, *, writes: bool = False, exclusive: bool = False
    ) -> None:
        if axis is not None:
            self.uses.append(IndexUse(source=source, axis=axis, writes=writes, exclusive=exclusive))

    def index_call(self, name: str, node: ast.Call, operands: Sequence[ast.expr]) -> None:
        keywords = {word.arg: word.value for word in node.keywords if word.arg}
        if name in _READS | _ADDS | _PUTS:
            target = self.value(operands[0]) if operands else _UNKNOWN
            rest = list(operands[1:])
            dimension = keywords.get("dim") or (rest.pop(0) if rest else None)
            index = keywords.get("index") or (rest.pop(0) if rest else None)
            scattered = keywords.get("src") or keywords.get("source") or (rest[0] if rest else None)
            self.along(
                target,
                dimension,
                index,
                writes=name not in _READS,
                exclusive=name in _PUTS and not isinstance(scattered, ast.Constant),
            )
        elif name in ("embedding", "embedding_bag") and len(operands) >= 2:
            self.along(self.value(operands[1]), None, operands[0])
        elif name in ("cross_entropy", "nll_loss") and len(operands) >= 2:
            shape = self.value(operands[0]).shape
            source = self.value(operands[1]).source
            if shape and source:
                self.use(source, shape[1] if len(shape) > 1 else shape[0])
        elif name in ("one_hot", "bincount") and operands:
            count = keywords.get("num_classes") or keywords.get("minlength")
            count = count or (operands[1] if name == "one_hot" and len(operands) > 1 else None)
            source = self.value(operands[0]).source
            if source and count is not None:
                self.use(source, self.value(count).size)

    def along(
        self,
        target: _Value,
        dimension: ast.expr | None,
        index: ast.expr | None,
        *,
        writes: bool = False,
        exclusive: bool = False,
    ) -> None:
        source = self.value(index).source if index is not None else None
        place = _integer(dimension) if dimension is not None else 0
        shape = target.shape
        if source is None or place is None or shape is None:
            return
        if -len(shape) <= place < len(shape):
            first = place in (0, -len(shape))
            self.use(source, shape[place], writes=writes, exclusive=exclusive and first)

    def must_be_positive(self, operand: ast.expr) -> None:
        if isinstance(operand, ast.BinOp) and isinstance(operand.op, ast.Add):
            operand = operand.left  # sqrt(v + eps)
        source = self.value(operand).source
        if source is not None:
            self.positive.add(source)

    def value(self, node: ast.expr) -> _Value:
        """Return what is known of an expression."""
        match node:
            case ast.Name(id=name):
                return self.names.get(name, _UNKNOWN)
            case ast.Constant(value=int(number)) if not isinstance(number, bool):
                return _Value(size=str(number))
            case ast.Tuple(elts=elements) | ast.List(elts=elements):
                return _Value(items=tuple(self.value(element) for element in elements))
            case ast.Attribute(value=owner, attr="shape"):
                return _sizes(self.value(owner))
            case ast.Attribute(value=owner, attr="T"):
                shape = self.value(owner).shape
                return _Value(shape=shape[::-1] if shape is not None else None)
            case ast.Subscript(value=owner, slice=index):
                single = _integer(index) is not None or self.value(index).one
                return _item(self.value(owner), _integer(index), single=single)
            case ast.BinOp(left=left, op=op, right=right):
                return _arithmetic(self.value(left), op, self.value(right))
            case ast.Call():
                return self.called(node)
        return _UNKNOWN

    def called(self, node: ast.Call) -> _Value:
        name, operands = _call(node)
        owner = self.value(operands[0]) if operands else _UNKNOWN
        if name in _SAME:
            return owner
        if name in _LIKE:
            return _Value(shape=owner.shape)
        if name == "size":
            sizes = _sizes(owner)
            return _item(sizes, _integer(operands[1])) if len(operands) > 1 else sizes
        if name in _RESHAPED:
            return _Value(source=owner.source, shape=_reshaped(name, owner, operands, self))
        if name in _FACTORIES:
            given = list(operands[1:] if name.startswith("new_") else operands)
            return _Value(shape=self.shape_arguments(given))
        if name in ("softmax", "log_softmax", "exp", "tanh", "sigmoid", "relu", "silu", "gelu"):
            return _Value(shape=owner.shape)
        if name in ("matmul", "mm", "linear") and len(operands) >= 2:
            other = self.value(operands[1])
            return _product(owner, _transposed(other) if name == "linear" else other)
        return _UNKNOWN

    def shape_arguments(self, given: Sequence[ast.expr]) -> tuple[str | None, ...] | None:
        values = [self.value(item) for item in given]
        if values and values[0].items is not None:
            values = list(values[0].items)
        return tuple(value.size for value in values) if values else None


def _call(node: ast.Call) -> tuple[str, list[ast.expr]]:
    """Return the called name and its operands, a method's owner first."""
    if isinstance(node.func, ast.Name):
        return node.func.id, list(node.args)
    if isinstance(node.func, ast.Attribute):
        owner = node.func.value
        root = ast.unparse(owner)
        if root in ("torch", "F", "torch.nn.functional", "nn.functional", "functional"):
            return node.func.attr, list(node.args)
        return node.func.attr, [owner, *node.args]
    return "", list(node.args)


def _integer(node: ast.expr) -> int | None:
    match node:
        case ast.Constant(value=int(number)) if not isinstance(number, bool):
            return number
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int(number))):
            return -number
    return None


def _sizes(value: _Value) -> _Value:
    if value.shape is None:
        return _UNKNOWN
    return _Value(items=tuple(_Value(size=size) for size in value.shape))


def _item(owner: _Value, index: int | None, *, single: bool = False) -> _Value:
    if owner.items is not None:
        inside = index is not None and -len(owner.items) <= index < len(owner.items)
        return owner.items[index] if inside and index is not None else _UNKNOWN
    if single and owner.shape:
        return _Value(shape=owner.shape[1:], source=owner.source)
    return _Value(source=owner.source)  # part of the values is still of the same input


def _call_name(node: ast.expr) -> str:
    return _call(node)[0] if isinstance(node, ast.Call) else ""


def _arithmetic(left: _Value, op: ast.operator, right: _Value) -> _Value:
    signs = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.FloorDiv: "//"}
    if isinstance(op, ast.MatMult):
        return _product(left, right)
    if left.size is not None and right.size is not None and type(op) in signs:
        return _Value(size=f"({left.size} {signs[type(op)]} {right.size})")
    if left.shape is not None and (right.shape is None or len(right.shape) <= len(left.shape)):
        return _Value(shape=left.shape)
    return _Value(shape=right.shape)


def _product(left: _Value, right: _Value) -> _Value:
    if left.shape and right.shape and len(right.shape) == 2:
        return _Value(shape=(*left.shape[:-1], right.shape[-1]))
    return _UNKNOWN


def _transposed(value: _Value) -> _Value:
    return _Value(shape=value.shape[::-1] if value.shape is not None else None)


def _reshaped(
    name: str, owner: _Value, operands: Sequence[ast.expr], reader: _Reader
) -> tuple[str | None, ...] | None:
    """Return the new shape where it is spelled out; -1 and the like are unknown sizes."""
    if name in ("view", "reshape") and len(operands) > 1:
        return reader.shape_arguments(operands[1:])
    if name in ("clamp", "clamp_", "clamp_min", "masked_fill"):
        return owner.shape
    if name == "t":
        return _transposed(owner).shape
    return None
