"""Small edits of a Python source, each of which would repair one kind of fault.

A candidate that is right after one edit is wrong at that place. Every edit changes one place of one
file and keeps what stands before it on its line, so line numbers up to it stay.
Pure functions of the text: `judge.diagnose.repairs` runs the edited candidates.
"""

from __future__ import annotations

import ast
import enum
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from cuassay.model.diagnosis import Cause
from cuassay.model.python_text import parse_python


class EditKind(enum.StrEnum):
    """What an edit changes."""

    BRANCH = "branch"  # a condition becomes always true or never
    STATEMENT = "statement"  # a statement is left out
    DECORATOR = "decorator"  # a decorator is left out
    PRECISION = "precision"  # a 16-bit dtype becomes float32, or a cast is left out
    FILL = "fill"  # memory is cleared when it is allocated
    COPY = "copy"  # a tensor is copied before it is returned, written to or kept
    CONTIGUOUS = "contiguous"  # a tensor is made contiguous before it is read
    INDEX = "index"  # an index is left out
    NUMBER = "number"  # a number becomes another
    AXIS = "axis"  # an operation runs along another axis
    PARAMETER = "parameter"  # a number becomes a parameter or a size
    COMPARISON = "comparison"  # a bound moves by one
    ROUND_UP = "round-up"  # a division rounds up
    PART = "part"  # an expression becomes a part of itself
    ORDER = "order"  # two results change places
    FUNCTION = "function"  # a function becomes a related one
    OPERATOR = "operator"  # a sum becomes a difference, a product a quotient, and back
    NAME = "name"  # a name becomes another one of the same function
    FACTOR = "factor"  # a product gets a parameter that nothing uses
    MASK = "mask"  # a product with a mask becomes a selection
    CONFIGURATIONS = "configurations"  # an autotuner gets its first configuration alone


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """One edit: `line` counts from 1, `words` say what was changed, `text` is the whole new file.

    `sizes` says that only sizes stand in what was edited, `indexed` that an element was picked
    there by a fixed index, `filled` that memory is allocated there, `carried` that a loop updates
    a value there from what it was, `ranged` that it is of what a loop or a slice runs over,
    `exact` that what is edited names no 16-bit format, `given` that arguments are exchanged.
    """

    kind: EditKind
    line: int
    words: str
    text: str
    sizes: bool = False
    indexed: bool = False
    filled: bool = False
    carried: bool = False
    ranged: bool = False
    exact: bool = False
    given: bool = False


_NUMBERS = (
    EditKind.PRECISION,
    EditKind.BRANCH,
    EditKind.INDEX,
    EditKind.PARAMETER,
    EditKind.STATEMENT,
    EditKind.PART,
    EditKind.COMPARISON,
    EditKind.NUMBER,
    EditKind.AXIS,
    EditKind.ROUND_UP,
    EditKind.FUNCTION,
    EditKind.ORDER,
    EditKind.FACTOR,
    EditKind.OPERATOR,
    EditKind.NAME,
    EditKind.FILL,
)
_STATE = (
    EditKind.CONFIGURATIONS,
    EditKind.BRANCH,
    EditKind.COPY,
    EditKind.DECORATOR,
    EditKind.STATEMENT,
    EditKind.FILL,
    EditKind.INDEX,
    EditKind.PART,
)
_MEMORY = (
    EditKind.FILL,
    EditKind.COMPARISON,
    EditKind.ROUND_UP,
    EditKind.PART,
    EditKind.NUMBER,
    EditKind.PARAMETER,
    EditKind.BRANCH,
)
_EFFECTS = (EditKind.STATEMENT, EditKind.COPY, EditKind.PART, EditKind.BRANCH)
_GRADIENTS = (
    EditKind.CONTIGUOUS,
    EditKind.INDEX,
    EditKind.ORDER,
    EditKind.COPY,
    EditKind.PRECISION,
    EditKind.BRANCH,
    EditKind.PART,
    EditKind.STATEMENT,
    EditKind.FILL,
)
# Which edits repair which cause, the likeliest first. Causes that are not listed: numbers.
_BY_CAUSE: Mapping[Cause, tuple[EditKind, ...]] = {
    **dict.fromkeys((Cause.STALE_ANSWER, Cause.CALL_HISTORY, Cause.FIRST_CALL), _STATE),
    Cause.OUTPUT_REUSED: (EditKind.COPY, *_STATE),
    **dict.fromkeys(
        (Cause.OUTPUT_SHARES_INPUT, Cause.OUTPUT_SHARES_OUTPUT), (EditKind.COPY, EditKind.PART)
    ),
    Cause.INPUT_CHANGED: _EFFECTS,
    **dict.fromkeys((Cause.PROCESS_STATE, Cause.ENDS_PROCESS, Cause.PRINTS), _EFFECTS),
    **dict.fromkeys((Cause.FORGES, Cause.HANGS, Cause.CRASHES), (*_EFFECTS, *_MEMORY)),
    **dict.fromkeys((Cause.UNINITIALISED, Cause.UNWRITTEN, Cause.OUT_OF_BOUNDS), _MEMORY),
    Cause.MISALIGNED: (EditKind.CONTIGUOUS, EditKind.BRANCH, EditKind.PART),
    Cause.FALSE_ASSUMPTION: (EditKind.STATEMENT, EditKind.BRANCH),
    Cause.UNDEFINED_READ: (EditKind.MASK, *_MEMORY),
    Cause.NOT_DETERMINISTIC: (
        EditKind.PRECISION,
        EditKind.PART,
        EditKind.BRANCH,
        EditKind.STATEMENT,
        EditKind.NUMBER,
    ),
    Cause.LAYOUT: (EditKind.CONTIGUOUS, EditKind.COPY, EditKind.BRANCH, EditKind.PART),
    Cause.GRADIENT: _GRADIENTS,
    Cause.CUSTOM_OPERATOR: (EditKind.COPY, EditKind.PRECISION, EditKind.PART),
    Cause.COMPILED: (EditKind.DECORATOR, EditKind.BRANCH),
    Cause.UNNECESSARY_KERNEL: (EditKind.PARAMETER, EditKind.BRANCH, EditKind.STATEMENT),
    Cause.WRONG_STRUCTURE: (EditKind.PRECISION, EditKind.ORDER, EditKind.INDEX, EditKind.PART),
    Cause.TAIL: (
        EditKind.ROUND_UP,
        EditKind.COMPARISON,
        EditKind.PRECISION,
        EditKind.PARAMETER,
        EditKind.NUMBER,
        EditKind.PART,
        EditKind.BRANCH,
        EditKind.FILL,
    ),
}
_LOW = {"bfloat16": "float32", "float16": "float32", "half": "float", "int32": "int64"}
_CLEARED = {
    "empty": "zeros",
    "empty_like": "zeros_like",
    "new_empty": "new_zeros",
}
_RELATED = {
    "trunc": ("round",),
    "floor": ("round", "ceil"),
    "ceil": ("round", "floor"),
    "maximum": ("minimum",),
    "minimum": ("maximum",),
    "max": ("min",),
    "min": ("max",),
    "sum": ("mean",),
    "mean": ("sum",),
    "cdiv": ("next_power_of_2",),
    "triu": ("tril",),
    "tril": ("triu",),
    "repeat": ("repeat_interleave",),
    "repeat_interleave": ("repeat",),
}
_NEXT = {ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">"}
_IN_PLACE = re.compile(r"[a-z0-9_]*[a-z0-9]_")
_BLOCK = 16  # a whole number from here on may be the size of a tile
_PARTS = 5  # parts of one expression that are tried
_MOST_TEXT = 1 << 26  # characters of all edited sources, which are held at once
_NEAR_NAMES = 4  # names that are tried in the place of another
_TURNED = {ast.Add: "-", ast.Sub: "+", ast.Mult: "/", ast.Div: "*"}
_NAMES = 4  # names that are tried in the place of one number
_SIZE_ATTRIBUTES = frozenset({"shape", "ndim"})
_NO_VALUES = frozenset({"shape", "dtype", "device", "ndim", "is_cuda", "layout"})
_MODULES = frozenset({"torch", "tl", "math", "triton", "float", "np", "F", "nn"})
_SAME_VALUES = frozenset({"float", "double", "contiguous", "to", "clone"})
_ABOUT_AXES = frozenset({"dim", "dims", "axis", "keepdim", "start_dim", "end_dim"})
_SIZE_CALLS = frozenset({"len", "size", "numel", "stride", "int", "min", "max", "dim"})


def edits(text: str, *, cause: Cause, ran: frozenset[int] = frozenset()) -> tuple[Edit, ...]:
    """Return the edits of a Python source that may repair `cause`, the likeliest first.

    `ran` are the lines that a call runs, from 1: inside functions only those are edited (empty:
    not known). Nothing where the text does not parse.
    """
    try:
        tree = parse_python(text)
    except SyntaxError:
        return ()
    order = _BY_CAUSE.get(cause, _NUMBERS)
    source = _Source(text, tree)
    seen: set[str] = {text}
    found: list[Edit] = []
    for edit in itertools.islice(source.edits(), max(1, _MOST_TEXT // max(1, len(text)))):
        if edit.kind in order and edit.text not in seen and source.runs(edit.line, ran):
            seen.add(edit.text)
            found.append(edit)
    return tuple(sorted(found, key=lambda edit: (order.index(edit.kind), edit.line)))


class _Source:
    """A parsed source, and where its nodes stand."""

    def __init__(self, text: str, tree: ast.Module) -> None:
        self._tree = tree
        self._rows = [row.encode() for row in text.splitlines(keepends=True)]
        self._starts = [0]
        for row in self._rows:
            self._starts.append(self._starts[-1] + len(row))
        self._bytes = text.encode()
        self._parent = {
            child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)
        }
        self._holding_low: set[ast.AST] = set()  # nodes in which a 16-bit format is named
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and node.attr in _LOW:
                above: ast.AST | None = node
                while above is not None and above not in self._holding_low:
                    self._holding_low.add(above)
                    above = self._parent.get(above)
        self._functions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)]
        self._kernels = [f for f in self._functions if any(map(_is_jit, f.decorator_list))]
        self._tensor_names: dict[ast.FunctionDef, frozenset[str]] = {}
        self._number_names: dict[ast.FunctionDef, dict[str, bool]] = {}
        self._inner = {
            line
            for function in self._functions
            for line in range(function.body[0].lineno, (function.end_lineno or 0) + 1)
        }
        self._device = {
            line
            for function in self._kernels
            for line in range(function.body[0].lineno, (function.end_lineno or 0) + 1)
        }

    def runs(self, line: int, ran: frozenset[int]) -> bool:
        """Whether a line may matter: it ran, or nobody knows whether it did."""
        return not ran or line in ran or line not in self._inner or line in self._device

    def edits(self) -> Iterator[Edit]:
        """Yield every edit, in the order of the source."""
        for node in ast.walk(self._tree):
            match node:
                case ast.FunctionDef():
                    yield from self._decorators(node)
                    # Products with a parameter that the function does not use
                    used = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
                    unused = [name for name in _parameters(node) if name not in used]
                    products = [
                        n
                        for n in ast.walk(node)
                        if isinstance(n, ast.BinOp) and isinstance(n.op, ast.Mult)
                    ]
                    for name in unused:
                        for product in products:
                            text = f"({self._of(product)} * {name})"
                            yield self._edit(EditKind.FACTOR, product, text, f"a factor `{name}`")
                case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test):
                    yield from self._conditions(test)
                case ast.Expr(value=ast.Call()) | ast.AugAssign() | ast.Assign():
                    yield from self._statement(node)
                case ast.Return(value=ast.Tuple(elts=[first, second])):
                    yield self._edit(
                        EditKind.ORDER,
                        node,
                        f"return {self._of(second)}, {self._of(first)}",
                        "the two results exchanged",
                    )
                case _:
                    pass
            if isinstance(node, ast.expr):
                yield from self._expression(node)

    def _expression(  # noqa: C901, PLR0912  # an edit a kind of node
        self, node: ast.expr
    ) -> Iterator[Edit]:
        match node:
            case ast.Attribute(attr=attr) if attr in _LOW and not self._called(node):
                text = f"{self._of(node.value)}.{_LOW[attr]}"
                yield self._edit(EditKind.PRECISION, node, text, f"`{_LOW[attr]}` for `{attr}`")
            case ast.Call(func=ast.Attribute(attr=attr, value=value)):
                yield from self._method(node, attr, value)
                yield from self._related(node, attr)
            case ast.Call():
                yield from self._related(node, "")
            case ast.Subscript(ctx=ast.Load(), slice=index) if _fixed(index) and not _of_sizes(
                node
            ):
                bare = self._of(node.value)
                yield self._edit(EditKind.INDEX, node, bare, f"`{bare}` for `{self._of(node)}`")
                if isinstance(index, ast.Constant):
                    text = f"{bare}[:, None]"
                    yield self._edit(EditKind.INDEX, node, text, f"`{text}` for `{self._of(node)}`")
            case ast.Compare(ops=[op], left=left, comparators=[right]):
                yield from self._conditions(node)
                if type(op) in _NEXT:
                    text = f"{self._of(left)} {_NEXT[type(op)]} {self._of(right)}"
                    yield self._edit(
                        EditKind.COMPARISON, node, f"({text})", f"`{text}` for `{self._of(node)}`"
                    )
            case ast.BoolOp(values=[first, second]):
                for part in (first, second):
                    yield self._edit(
                        EditKind.BRANCH,
                        node,
                        f"({self._of(part)})",
                        f"`{self._of(part)}` for `{self._of(node)}`",
                    )
            case ast.BinOp(op=ast.FloorDiv(), left=left, right=right):
                text = f"(-(-({self._of(left)}) // ({self._of(right)})))"
                yield self._edit(
                    EditKind.ROUND_UP, node, text, f"`{self._of(node)}` rounded up", sizes=True
                )
                yield from self._parts(node)
            case ast.BinOp(op=ast.Mult(), left=left, right=right):
                yield from self._operator(node)
                for mask, value in ((right, left), (left, right)):
                    text = (
                        f"torch.where(({self._of(mask)}) != 0, {self._of(value)} * "
                        f"{self._of(mask)}, 0.0)"
                    )
                    words = f"`{self._of(value)}` selected by `{self._of(mask)}`"
                    yield self._edit(EditKind.MASK, node, text, words)
                yield from self._parts(node)
            case ast.BinOp():
                yield from self._operator(node)
                yield from self._parts(node)
            case ast.Constant(value=value) if isinstance(value, int | float) and not isinstance(
                value, bool
            ):
                yield from self._numbers(node, value)
            case ast.Name(ctx=ast.Load(), id=name):
                if name in self._tensors(node) and self._read(node):
                    for kind, method in (
                        (EditKind.CONTIGUOUS, "contiguous"),
                        (EditKind.COPY, "clone"),
                        (EditKind.PRECISION, "float"),
                    ):
                        yield self._edit(kind, node, f"{name}.{method}()", f"`{name}.{method}()`")
                for other in self._beside(node):
                    yield self._edit(EditKind.NAME, node, other, f"`{other}` for `{name}`")
            case _:
                pass

    def _operator(self, node: ast.BinOp) -> Iterator[Edit]:
        """Yield a sum as a difference and a product as a quotient, and the other way round."""
        other = _TURNED.get(type(node.op))
        if other is not None and not _of_sizes(node):
            text = f"({self._of(node.left)} {other} {self._of(node.right)})"
            yield self._edit(EditKind.OPERATOR, node, text, f"`{other}` in `{self._of(node)}`")

    def _beside(self, node: ast.Name) -> Iterator[str]:
        """Yield names that may be meant: other parameters, and names that are set close by."""
        function = self._function(node)
        if function is None or self._called(node) or not self._read(node):
            return
        given = _parameters(function)
        if node.id in given:
            yield from (name for name in given if name != node.id)
            return
        near = [
            (abs(target.lineno - node.lineno), target.id)
            for target in ast.walk(function)
            if isinstance(target, ast.Name) and isinstance(target.ctx, ast.Store)
        ]
        if node.id in {name for _, name in near}:
            others = dict.fromkeys(name for _, name in sorted(near) if name != node.id)
            yield from list(others)[:_NEAR_NAMES]

    def _method(self, node: ast.Call, attr: str, value: ast.expr) -> Iterator[Edit]:
        """Yield edits of `value.attr(...)`: left out, cleared, copied before it writes."""
        bare = self._of(value)
        module = isinstance(value, ast.Name) and value.id in _MODULES
        if attr in _CLEARED:
            text = self._of(node).replace(f".{attr}", f".{_CLEARED[attr]}", 1)
            yield self._edit(EditKind.FILL, node, text, f"`{_CLEARED[attr]}` for `{attr}`")
        if module or isinstance(value, ast.Constant):
            yield from self._parts(node)
            return
        words = f"`{bare}` for `{self._of(node)}`"
        if attr in ("to", "bfloat16", "half", "type"):
            yield self._edit(EditKind.PRECISION, node, f"({bare})", words)
            if node.lineno not in self._device:  # a kernel's values have no such method
                wide = f"{bare}.float()"
                yield self._edit(EditKind.PRECISION, node, f"({bare}).float()", f"`{wide}`")
        elif _IN_PLACE.fullmatch(attr):
            text = self._of(node).replace(bare, f"{bare}.clone()", 1)
            yield self._edit(EditKind.COPY, node, text, f"`{bare}` copied before `{attr}`")
        if attr not in _SAME_VALUES:
            yield from self._parts(node)

    def _related(self, node: ast.Call, attr: str) -> Iterator[Edit]:
        name = attr or (node.func.id if isinstance(node.func, ast.Name) else "")
        text = self._of(node)
        for other in _RELATED.get(name, ()):
            changed = text.replace(name, other, 1)
            yield self._edit(EditKind.FUNCTION, node, changed, f"`{other}` for `{name}`")
        if name == "gelu" and not any(k.arg == "approximate" for k in node.keywords):
            changed = text[:-1].rstrip().rstrip(",") + ', approximate="tanh")'
            yield self._edit(EditKind.FUNCTION, node, changed, "the tanh form of gelu")
        for keyword in node.keywords:
            if keyword.arg in ("approximate", "correction", "unbiased", "upper", "right"):
                dropped = ast.Call(
                    func=node.func,
                    args=node.args,
                    keywords=[other for other in node.keywords if other is not keyword],
                )
                yield self._edit(
                    EditKind.FUNCTION,
                    node,
                    ast.unparse(dropped),
                    f"`{name}` without `{keyword.arg}`",
                )
        if not attr:
            yield from self._parts(node)

    def _parts(self, node: ast.expr) -> Iterator[Edit]:
        """Yield edits that put a part of an expression in its place."""
        parts: dict[str, ast.expr] = {}
        for part in (inner for inner in ast.walk(node) if isinstance(inner, ast.expr)):
            match part:
                case ast.Name(id=name, ctx=ast.Load()):
                    value = name not in _MODULES and self._read(part)
                case ast.Attribute(attr=attr, ctx=ast.Load()):
                    value = attr not in _NO_VALUES and not self._of(part).startswith("torch.")
                case ast.Subscript(ctx=ast.Load()) | ast.Call():
                    value = True
                case _:
                    value = False
            if value and part is not node and not self._called(part):
                parts.setdefault(self._of(part), part)
        size = _of_sizes(node)
        whole = self._of(node)
        indexed = any(
            isinstance(inner, ast.Subscript) and _fixed(inner.slice) for inner in ast.walk(node)
        )
        for text in list(parts)[:_PARTS]:
            if _of_sizes(parts[text]) == size or not size:
                yield self._edit(
                    EditKind.PART, node, f"({text})", f"`{text}` for `{whole}`", indexed=indexed
                )

    def _numbers(self, node: ast.Constant, value: float) -> Iterator[Edit]:
        said = self._of(node)
        if _about_axes(self._parent, node):
            if isinstance(value, int):
                yield from self._axes(node, value)
            return
        others: list[str] = []
        if value == 0.0:
            others = ['float("-inf")', "1"]
        elif isinstance(value, int):
            others = [str(value + 1), str(value - 1), str(4 * value)]
        elif abs(value) < 1e-2:
            others = ["1e-6", "1e-5", "1e-12", "0.0"]
        elif 0.5 < value < 1:
            others = [f"{1 - (1 - value) / 10:.9g}", f"{1 - 10 * (1 - value):.9g}", "1.0"]
        elif value > 1 and value.is_integer():
            others = [f"{value + 1:.1f}", f"{value - 1:.1f}", f"{value / 2:.1f}", "1.0"]
        else:
            others = ['float("-inf")', "1.0", "0.0"]
        for other in others:
            text = f"({other})"
            words = f"`{other}` for `{said}`"
            yield self._edit(EditKind.NUMBER, node, text, words)
        for name, size in list(self._scalars(node).items())[:_NAMES]:
            yield self._edit(EditKind.PARAMETER, node, name, f"`{name}` for `{said}`", sizes=size)
            if self._kernels and isinstance(value, int) and value >= _BLOCK:
                text = f"triton.next_power_of_2({name})"
                yield self._edit(
                    EditKind.PARAMETER, node, text, f"`{text}` for `{said}`", sizes=True
                )

    def _conditions(self, test: ast.expr) -> Iterator[Edit]:
        for value, words in (("False", "never"), ("True", "always")):
            said = f"`{self._of(test)}` {words} true"
            yield self._edit(EditKind.BRANCH, test, value, said)

    def _statement(self, node: ast.stmt) -> Iterator[Edit]:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)]):
                function = self._function(node)
                # A parameter that is given another value, or a name that had one before.
                if function is None or name not in _parameters(function):
                    return
            case ast.Assign(targets=[ast.Name() | ast.Tuple()]):
                return
            case _:
                pass
        short = self._of(node).splitlines()[0][:60]
        yield self._edit(EditKind.STATEMENT, node, "pass", f"`{short}` left out")

    def _decorators(self, node: ast.FunctionDef) -> Iterator[Edit]:
        for decorator in node.decorator_list:
            said = f"`@{self._of(decorator)}` left out"
            for part in ast.walk(decorator):
                match part:
                    case ast.keyword(arg="configs", value=ast.List(elts=[first, _, *_]) as listed):
                        text = f"[{self._of(first)}]"
                        words = "the autotuner's first configuration alone"
                        yield self._edit(EditKind.CONFIGURATIONS, listed, text, words)
                    case ast.keyword(arg="configs", value=ast.Name() | ast.Call() as listed):
                        text = f"list({self._of(listed)})[:1]"
                        words = "the autotuner's first configuration alone"
                        yield self._edit(EditKind.CONFIGURATIONS, listed, text, words)
                    case _:
                        pass
            if not _is_jit(decorator):
                yield self._edit(EditKind.DECORATOR, decorator, "(lambda function: function)", said)

    def _function(self, node: ast.AST) -> ast.FunctionDef | None:
        line = getattr(node, "lineno", 0)
        around = [f for f in self._functions if f.lineno <= line <= (f.end_lineno or 0)]
        return max(around, key=lambda function: function.lineno, default=None)

    def _tensors(self, node: ast.AST) -> frozenset[str]:
        """Return the names that may be tensors where a node stands."""
        function = self._function(node)
        if function is None or function in self._kernels:
            return frozenset()
        if function not in self._tensor_names:
            assigned = {
                target.id
                for statement in ast.walk(function)
                if isinstance(statement, ast.Assign)
                for target in statement.targets
                if isinstance(target, ast.Name) and not _of_sizes(statement.value)
            }
            self._tensor_names[function] = frozenset(_parameters(function)) | assigned
        return self._tensor_names[function]

    def _scalars(self, node: ast.AST) -> dict[str, bool]:
        """Return the names that may stand for a number where a node stands, and which are sizes."""
        function = self._function(node)
        if function is None:
            return {}
        if function not in self._number_names:
            used = {n.id for n in ast.walk(function) if isinstance(n, ast.Name)}
            names = {name: False for name in _parameters(function) if name not in used}
            for statement in ast.walk(function):
                if isinstance(statement, ast.Assign) and _of_sizes(statement.value):
                    for target in statement.targets:
                        inner = target.elts if isinstance(target, ast.Tuple) else [target]
                        names |= {one.id: True for one in inner if isinstance(one, ast.Name)}
            tensors = {
                n.value.id
                for n in ast.walk(function)
                if isinstance(n, ast.Attribute | ast.Subscript) and isinstance(n.value, ast.Name)
            }
            for name in _parameters(function):
                if name in used and name not in tensors:
                    names.setdefault(name, False)
            self._number_names[function] = names
        row = self._rows[getattr(node, "lineno", 1) - 1].decode()
        own = row.partition("=")[0].strip()
        return {n: size for n, size in self._number_names[function].items() if n != own}

    def _called(self, node: ast.AST) -> bool:
        """Whether a node is the function of a call, not a value."""
        parent = self._parent.get(node)
        return isinstance(parent, ast.Call) and parent.func is node

    def _read(self, node: ast.AST) -> bool:
        """Whether the values of a name are read, not its shape or dtype alone."""
        parent = self._parent.get(node)
        return not (isinstance(parent, ast.Attribute) and parent.attr in _NO_VALUES)

    def _axes(self, node: ast.Constant, value: int) -> Iterator[Edit]:
        """Yield other axes for one that a keyword names; a sign before the number stays."""
        parent = self._parent.get(node)
        signed = isinstance(parent, ast.UnaryOp)
        keyword = self._parent.get(parent) if signed and parent is not None else parent
        if not isinstance(keyword, ast.keyword) or keyword.arg not in ("dim", "axis"):
            return
        others = (value + 1, value - 1) if signed else (value + 1, value - 1, -1)
        for other in dict.fromkeys(others):
            if other != value and (other > 0 or not signed):
                words = f"axis {'-' * signed}{other} for {'-' * signed}{value}"
                yield self._edit(EditKind.AXIS, node, f"({other})", words)

    def _of(self, node: ast.AST) -> str:
        start, end = self._span(node)
        return self._bytes[start:end].decode()

    def _span(self, node: ast.AST) -> tuple[int, int]:
        assert isinstance(node, ast.expr | ast.stmt)
        start = self._starts[node.lineno - 1] + node.col_offset
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return start, self._starts[node.end_lineno - 1] + node.end_col_offset

    def _edit(
        self,
        kind: EditKind,
        node: ast.expr | ast.stmt,
        new: str,
        words: str,
        *,
        sizes: bool = False,
        indexed: bool = False,
    ) -> Edit:
        start, end = self._span(node)
        text = (self._bytes[:start] + new.encode() + self._bytes[end:]).decode()
        row = self._rows[node.lineno - 1]
        around: list[ast.AST] = [node]
        while around[-1] in self._parent:
            around.append(self._parent[around[-1]])
        place = next(n for n, one in enumerate(around) if isinstance(one, ast.stmt))
        statement, within = around[place], list(itertools.pairwise(around[: place + 1]))
        carried = False
        match statement:
            case ast.Assign(targets=[target]) | ast.AugAssign(target=target) if any(
                isinstance(one, ast.For | ast.While) for one in around
            ):
                # A term that is rounded before it is added leaves the total as it was.
                inside = {self._of(n) for n in ast.walk(node) if isinstance(n, ast.expr)}
                carried = self._of(target) in inside
            case _:
                pass
        given: list[str] = []
        if isinstance(node, ast.Name) and (function := self._function(node)) is not None:
            given = _parameters(function)
        return Edit(
            kind=kind,
            line=node.lineno,
            words=" ".join(words.split()),
            text=text,
            sizes=sizes or _of_sizes(node),
            indexed=indexed
            or kind is EditKind.INDEX
            or any(isinstance(up, ast.Subscript) and up.slice is one for one, up in within),
            filled=any(f".{word}".encode() in row for word in ("zeros", "empty", "full")),
            carried=carried,
            ranged=any(
                isinstance(up, ast.Slice) or (isinstance(up, ast.For) and up.iter is one)
                for one, up in within
            ),
            exact=kind is not EditKind.PRECISION and statement not in self._holding_low,
            given=isinstance(node, ast.Name) and node.id in given and new in given,
        )


def _parameters(function: ast.FunctionDef) -> list[str]:
    given = function.args
    every = (*given.posonlyargs, *given.args, *given.kwonlyargs)
    return [argument.arg for argument in every if argument.arg not in ("self", "ctx", "cls")]


def _fixed(index: ast.expr) -> bool:
    """Whether an index picks the same elements whatever the inputs are."""
    parts: Sequence[ast.expr] = index.elts if isinstance(index, ast.Tuple) else (index,)
    literal = [isinstance(p, ast.Constant) and isinstance(p.value, int) for p in parts]
    cut = [
        isinstance(p, ast.Slice) and isinstance(p.upper, ast.Constant) and p.lower is None
        for p in parts
    ]
    return any(literal) or any(cut)


def _of_sizes(node: ast.AST) -> bool:
    """Whether an expression is made of sizes and numbers alone."""
    sized = False
    covered: set[int] = set()
    for inner in ast.walk(node):
        if id(inner) in covered:
            continue
        match inner:
            case ast.Attribute(attr=attr) if attr in _SIZE_ATTRIBUTES:
                sized = True
                covered |= {id(part) for part in ast.walk(inner)}
            case ast.Call(func=ast.Name(id=name)) if name in _SIZE_CALLS:
                sized = True
                if name == "len":
                    covered |= {id(part) for part in ast.walk(inner)}
                covered.add(id(inner.func))
            case ast.Call(func=ast.Attribute(attr=name)) if name in _SIZE_CALLS:
                sized = True
                covered |= {id(part) for part in ast.walk(inner)}
            case ast.Call():
                return False
            case _:
                pass
    return sized


def _is_jit(decorator: ast.expr) -> bool:
    return any(
        (isinstance(n, ast.Attribute) and n.attr in ("jit", "autotune", "heuristics"))
        or (isinstance(n, ast.Name) and n.id in ("jit", "autotune", "heuristics"))
        for n in ast.walk(decorator)
    )


def _about_axes(parents: Mapping[ast.AST, ast.AST], node: ast.AST) -> bool:
    """Whether a number names an axis, not an amount."""
    parent = parents.get(node)
    if isinstance(parent, ast.UnaryOp):  # x.mean(-1)
        parent = parents.get(parent)
        if isinstance(parent, ast.Call):
            return True
    if isinstance(parent, ast.Subscript):
        return _of_sizes(parent)
    return isinstance(parent, ast.keyword) and parent.arg in _ABOUT_AXES
