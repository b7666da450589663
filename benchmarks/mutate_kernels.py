"""Plant typical faults in correct kernels, one a kernel: what cuassay misses shows what it lacks.

    python benchmarks/mutate_kernels.py --packed build/wild --out build/mutants --count 120
    python benchmarks/wild.py --packed build/mutants --sets sol --device cpu --jobs 12

A fault is a function that yields edits of a source: the mistakes that language models make in
kernels, by the syntax of Python and Triton (`PYTHON`) and by the text of CUDA C++ (`CUDA`). Which
sites are taken is drawn by --seed, kinds in turn, so that a run that is cut short has seen them
all. References serve as kernels too: they have many more operators. Mutants belong below build/
or outside the repository: their sources are not ours. A mutant may be equivalent to its original:
what is accepted has to be read.
"""

from __future__ import annotations

import argparse
import ast
import dataclasses
import hashlib
import json
import random
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common import ROOT
from kernel_sets import Kernel, read_index, write_index

_CUDA_SIGNS = ("__global__", "<<<")
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
# Names of values that are addresses, places or masks: dropping a term there is another fault.
_PLACES = re.compile(r"off|ptr|idx|ind|base|pid|row|col|mask|stride|start|block|grid|pos|arange")
_ADDRESSES = re.compile(r"off|ptr|base|pid|arange|stride")


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """One replacement of text from byte `start` to byte `end`."""

    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A source with its syntax tree and the names of what its entry function takes and launches.

    `sizes` are the lengths of each tensor argument in a listed workload, None where a length is
    the same in all.
    """

    text: str
    tree: ast.Module
    entry: str
    sizes: Mapping[str, Sequence[int | None]]

    def span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        """Return the bytes that a node takes."""
        starts = [0]
        for line in self.text.encode().split(b"\n"):
            starts.append(starts[-1] + len(line) + 1)
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return (
            starts[node.lineno - 1] + node.col_offset,
            starts[node.end_lineno - 1] + node.end_col_offset,
        )

    def words(self, node: ast.expr | ast.stmt) -> str:
        """Return the text of a node."""
        start, end = self.span(node)
        return self.text.encode()[start:end].decode()

    def swap(self, node: ast.expr | ast.stmt, text: str) -> tuple[Edit, ...]:
        """Return the edit that puts `text` in the place of a node."""
        start, end = self.span(node)
        return (Edit(start=start, end=end, text=text),)

    def kernels(self) -> Iterator[ast.FunctionDef]:
        """Yield the functions that Triton compiles."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.FunctionDef) and any(
                "jit" in ast.unparse(one) for one in node.decorator_list
            ):
                yield node

    def in_kernels(self) -> Iterator[ast.AST]:
        """Yield every node of the kernels, of what the entry function runs where there is none."""
        for function in list(self.kernels()) or self.reached():
            for statement in function.body:
                yield from ast.walk(statement)

    def reached(self) -> list[ast.FunctionDef | ast.ClassDef]:
        """Return the functions and classes that the entry function names, and those they name."""
        known = {
            node.name: node
            for node in self.tree.body
            if isinstance(node, ast.FunctionDef | ast.ClassDef)
        }
        entry = self.entry_function()
        pending = [known.get(self.entry) or known.get("Model") or entry]
        found: dict[str, ast.FunctionDef | ast.ClassDef] = {}
        while pending:
            node = pending.pop()
            if node is None or node.name in found:
                continue
            found[node.name] = node
            names = [one.id for one in ast.walk(node) if isinstance(one, ast.Name)]
            pending += [known.get(name) for name in names]
        return list(found.values())

    def on_host(self) -> Iterator[ast.AST]:
        """Yield every node of what the entry function runs, outside of the kernels."""
        inside = {id(node) for one in self.kernels() for node in ast.walk(one)}
        for function in self.reached():
            for node in ast.walk(function):
                if id(node) not in inside:
                    yield node

    def entry_function(self) -> ast.FunctionDef | None:
        """Return the entry function, the method `forward` for a module."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.FunctionDef) and node.name == self.entry:
                return node
        return None


Edits = Iterator[tuple[Edit, ...]]
Fault = Callable[[Source], Edits]


def is_call(node: ast.AST, *names: str) -> bool:
    """Whether a node calls a function or method of one of these names."""
    match node:
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
            return name in names
        case _:
            return False


def calls_with(source: Source, keyword: str, *names: str) -> Iterator[tuple[ast.Call, ast.expr]]:
    """Yield calls in kernels that pass a keyword, each with what it passes."""
    for node in source.in_kernels():
        if isinstance(node, ast.Call) and is_call(node, *names):
            yield from ((node, one.value) for one in node.keywords if one.arg == keyword)


def floats(nodes: Iterable[ast.AST]) -> Iterator[tuple[ast.Constant, float]]:
    """Yield floating constants with their values."""
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, float):
            yield node, node.value


def without_keywords(source: Source, call: ast.Call, names: Sequence[str]) -> str:
    """Return the text of a call without some keywords."""
    kept = [source.words(one) for one in call.args]
    for one in call.keywords:
        if one.arg not in names:
            kept.append(f"{one.arg}={source.words(one.value)}")
    return f"{source.words(call.func)}({', '.join(kept)})"


def epsilon_larger(source: Source) -> Edits:
    """Every constant up to 1e-4 a hundred times as large."""
    for node, value in floats(ast.walk(source.tree)):
        if 0.0 < value <= 1e-4:
            yield source.swap(node, f"{value * 100:g}")


def load_mask_dropped(source: Source) -> Edits:
    """A load that reads beyond the tail."""
    for node, _ in calls_with(source, "mask", "load"):
        yield source.swap(node, without_keywords(source, node, ("mask", "other")))


def store_mask_dropped(source: Source) -> Edits:
    """A store that writes beyond the tail."""
    for node, _ in calls_with(source, "mask", "store", "atomic_add"):
        yield source.swap(node, without_keywords(source, node, ("mask",)))


def mask_moved(source: Source) -> Edits:
    """A bound that is one too low or too high."""
    for node in source.in_kernels():
        match node:
            case ast.Compare(left=left, ops=[ast.Lt()], comparators=[right]):
                words = f"{source.words(left)} {{}} {source.words(right)}"
                yield source.swap(node, words.format("<="))
                yield source.swap(node, f"{words.format('<')} - 1")
            case ast.Compare(
                left=left, ops=[ast.Gt() | ast.GtE() | ast.LtE()], comparators=[right]
            ):
                turned = {ast.Gt: ">=", ast.GtE: ">", ast.LtE: "<"}[type(node.ops[0])]
                yield source.swap(node, f"{source.words(left)} {turned} {source.words(right)}")
            case _:
                pass


def filler_wrong(source: Source) -> Edits:
    """What a masked load holds beyond the tail: one for zero, zero for minus infinity.

    Where nothing is reduced the store is masked as well, and nobody sees what fills the tail.
    """
    if not any(is_call(node, "sum", "max", "min", "dot") for node in source.in_kernels()):
        return
    for _, filler in calls_with(source, "other", "load"):
        zero = source.words(filler).strip() in ("0", "0.0")
        yield source.swap(filler, "1.0" if zero else "0.0")


def term_dropped(source: Source) -> Edits:
    """A sum without its second term: a bias, a residual, an epsilon."""
    for node in source.in_kernels():
        match node:
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                is_place = _ADDRESSES.search(source.words(node).lower()) or _PLACES.search(
                    source.words(right).lower()
                )
                if not is_place and not isinstance(right, ast.Constant):
                    yield source.swap(node, source.words(left))
            case _:
                pass


def sign_turned(source: Source) -> Edits:
    """Plus for minus."""
    for node in source.in_kernels():
        match node:
            case ast.BinOp(left=left, op=ast.Sub(), right=right):
                if not _PLACES.search(source.words(node).lower()):
                    yield source.swap(node, f"{source.words(left)} + {source.words(right)}")
            case _:
                pass


def extreme_swapped(source: Source) -> Edits:
    """The minimum for the maximum and the other way round."""
    turned = {"max": "min", "min": "max", "maximum": "minimum", "minimum": "maximum"}
    for node in source.in_kernels():
        match node:
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id="tl" | "torch" as of), attr=name) as function
            ) if name in turned:
                yield source.swap(function, f"{of}.{turned[name]}")
            case ast.Call(
                func=ast.Attribute(value=value, attr="amax" | "amin" as name) as function
            ):
                other = "amin" if name == "amax" else "amax"
                yield source.swap(function, f"{source.words(value)}.{other}")
            case _:
                pass


def sum_in_bfloat16(source: Source) -> Edits:
    """An accumulator that is rounded to bfloat16 after each step of a loop."""
    for loop in source.in_kernels():
        if not isinstance(loop, ast.For | ast.While):
            continue
        for node in loop.body:
            match node:
                case ast.AugAssign(target=ast.Name(id=name), op=ast.Add(), value=value):
                    if not _PLACES.search(name.lower()):
                        text = f"({name} + {source.words(value)}).to(tl.bfloat16).to(tl.float32)"
                        yield source.swap(node, f"{name} = {text}")
                case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() as value):
                    if is_call(value, "dot") and name in source.words(value):
                        text = f"{source.words(value)}.to(tl.bfloat16).to(tl.float32)"
                        yield source.swap(node, f"{name} = {text}")
                case _:
                    pass


def widening_dropped(source: Source) -> Edits:
    """Arithmetic in the type that was loaded."""
    for node in source.in_kernels():
        match node:
            case ast.Call(func=ast.Attribute(value=value, attr="to"), args=[kind]):
                if "float32" in source.words(kind) and not is_call(value, "to"):
                    yield source.swap(node, source.words(value))
            case ast.Call(func=ast.Attribute(value=value, attr="float"), args=[]):
                yield source.swap(node, source.words(value))
            case _:
                pass


def constant_off(source: Source) -> Edits:
    """A constant of the formula off by one part in 128."""
    for node, value in floats(source.in_kernels()):
        if 1e-3 < abs(value) < 1e3:
            yield source.swap(node, repr(value * (1 + 2**-7)))


def last_tile_dropped(source: Source) -> Edits:
    """A loop over whole tiles alone."""
    for node in source.in_kernels():
        match node:
            case ast.Call(args=[_, ast.expr() as end, ast.expr() as step]) if is_call(
                node, "range"
            ):
                of = source.words(step)
                yield source.swap(end, f"{source.words(end)} // {of} * {of}")
            case _:
                pass


def programs_swapped(source: Source) -> Edits:
    """The first axis of the grid for the second."""
    for function in source.kernels():
        found = [
            node
            for statement in function.body
            for node in ast.walk(statement)
            if isinstance(node, ast.Call) and is_call(node, "program_id")
        ]
        if len(found) > 1:
            first, second = found[:2]
            edits = source.swap(first, source.words(second))
            yield edits + source.swap(second, source.words(first))


def atomic_plain(source: Source) -> Edits:
    """A read, a sum and a write in the place of an atomic sum."""
    for node in source.in_kernels():
        if isinstance(node, ast.Call) and is_call(node, "atomic_add") and len(node.args) >= 2:
            place, value = (source.words(one) for one in node.args[:2])
            masks = [source.words(one.value) for one in node.keywords if one.arg == "mask"]
            mask = f", mask={masks[0]}" if masks else ""
            yield source.swap(node, f"tl.store({place}, tl.load({place}{mask}) + {value}{mask})")


def grid_rounded_down(source: Source) -> Edits:
    """A grid without its last, partial block."""
    for node in source.on_host():
        if isinstance(node, ast.Call) and is_call(node, "cdiv") and len(node.args) == 2:
            size, tile = (source.words(one) for one in node.args)
            yield source.swap(node, f"max(({size}) // ({tile}), 1)")


def contiguity_assumed(source: Source) -> Edits:
    """A stride that is taken for the one of a contiguous tensor, or a copy that is left out.

    Of kernels alone: operators of torch take any strides.
    """
    if not any(source.kernels()):
        return
    for node in source.on_host():
        match node:
            case ast.Call(func=ast.Attribute(value=value, attr="contiguous"), args=[]):
                yield source.swap(node, source.words(value))
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="stride")):
                if name in source.sizes:
                    where = ", ".join(source.words(one) for one in node.args)
                    words = f"torch.empty({name}.shape, device='meta').stride({where})"
                    yield source.swap(node, words)
            case _:
                pass


def target_unset(source: Source) -> Edits:
    """Memory that is taken without being cleared."""
    for node in source.on_host():
        match node:
            case ast.Call(func=ast.Attribute(attr="zeros" | "zeros_like" as name) as function):
                of = source.words(function.value)
                yield source.swap(function, f"{of}.{name.replace('zeros', 'empty')}")
            case _:
                pass


def size_fixed(source: Source) -> Edits:
    """A size of the benchmark in the place of the argument's own."""
    for node in source.on_host():
        match node:
            case ast.Assign(
                targets=[ast.Tuple(elts=names)],
                value=ast.Attribute(value=ast.Name(id=of), attr="shape"),
            ) if of in source.sizes and len(names) == len(source.sizes[of]):
                _, end = source.span(node)
                indent = " " * node.col_offset
                later = {
                    one.id
                    for one in source.on_host()
                    if isinstance(one, ast.Name)
                    and isinstance(one.ctx, ast.Load)
                    and one.lineno > node.lineno
                }
                for name, size in zip(names, source.sizes[of], strict=True):
                    # A size that nothing reads afterwards may be any
                    if isinstance(name, ast.Name) and name.id in later and size is not None:
                        text = f"\n{indent}{name.id} = {size}"
                        yield (Edit(start=end, end=end, text=text),)
            case ast.Subscript(
                value=ast.Attribute(value=ast.Name(id=of), attr="shape"),
                slice=ast.Constant(value=int() as place),
            ) if of in source.sizes and -len(source.sizes[of]) <= place < len(source.sizes[of]):
                if source.sizes[of][place] is not None:
                    yield source.swap(node, str(source.sizes[of][place]))
            case _:
                pass


def _wrapped(source: Source, before: str, body: str) -> Edits:
    """Rename the entry function and put one in its place that calls it as `_inner`."""
    function = source.entry_function()
    if function is None or source.entry == "forward":
        return
    names = [one.arg for one in (*function.args.args, *function.args.kwonlyargs)]
    given = ", ".join(names)
    lines = "\n".join(f"    {line}" for line in body.format(given=given).splitlines())
    end = len(source.text.encode())
    text = f"\n\n{before}\n\n_inner = {source.entry}\n\n\ndef {source.entry}({given}):\n{lines}\n"
    yield (Edit(start=end, end=end, text=text),)


_KEY = (
    "kept_for = tuple((one.{what}, tuple(one.shape)) if hasattr(one, 'data_ptr') else one "
    "for one in ({{given}},))\n"
)


def answer_kept_by_address(source: Source) -> Edits:
    """An answer that is returned again for the same addresses and sizes."""
    body = _KEY.format(what="data_ptr()") + (
        "if kept_for not in _KEPT:\n    _KEPT[kept_for] = _inner({given})\nreturn _KEPT[kept_for]"
    )
    yield from _wrapped(source, "_KEPT = {}", body)


def output_buffer_kept(source: Source) -> Edits:
    """One output buffer for each set of sizes: the next call overwrites what the last returned."""
    body = _KEY.format(what="dtype") + (
        "found = _inner({given})\n"
        "held = found if isinstance(found, tuple) else (found,)\n"
        "kept = _KEPT.setdefault(kept_for, tuple(torch.empty_like(one) for one in held))\n"
        "for one, other in zip(kept, held):\n    one.copy_(other)\n"
        "return kept if isinstance(found, tuple) else kept[0]"
    )
    yield from _wrapped(source, "_KEPT = {}", body)


def output_through_half(source: Source) -> Edits:
    """An output that went through a type with fewer bits."""
    body = (
        "found = _inner({given})\n"
        "def narrow(one):\n"
        "    kind = torch.float16 if one.dtype == torch.float32 else torch.float8_e5m2\n"
        "    return one.to(kind).to(one.dtype) if one.is_floating_point() else one\n"
        "return tuple(map(narrow, found)) if isinstance(found, tuple) else narrow(found)"
    )
    yield from _wrapped(source, "", body)


def argument_ignored(source: Source) -> Edits:
    """An argument whose values are not read: ones in its place, or a usual number."""
    function = source.entry_function()
    for name in [one.arg for one in function.args.args] if function else ():
        body = (
            f"{name} = torch.ones_like({name}) if hasattr({name}, 'data_ptr') else {name}\n"
            "return _inner({given})"
        )
        if name in source.sizes:
            yield from _wrapped(source, "", body)


def argument_read_once(source: Source) -> Edits:
    """An argument whose first values are used in every later call of the same sizes."""
    function = source.entry_function()
    for name in [one.arg for one in function.args.args][1:] if function else ():
        body = (
            f"{name} = _KEPT.setdefault(tuple({name}.shape), {name}.clone())\n"
            "return _inner({given})"
        )
        if name in source.sizes:
            yield from _wrapped(source, "_KEPT = {}", body)


def input_as_scratch(source: Source) -> Edits:
    """An input that holds something else after the call."""
    function = source.entry_function()
    for name in [one.arg for one in function.args.args] if function else ():
        body = (
            "found = _inner({given})\n"
            f"if {name}.is_floating_point():\n    {name}.mul_(0.5)\n"
            "return found"
        )
        if name in source.sizes:
            yield from _wrapped(source, "", body)


def rows_beyond_left_out(source: Source) -> Edits:
    """Nothing computed beyond the 64th place of the first axis, where it is as long."""
    body = (
        "found = _inner({given})\n"
        "for one in found if isinstance(found, tuple) else (found,):\n"
        "    if one.dim() and one.shape[0] > 64:\n        one[64:] = 0\n"
        "return found"
    )
    yield from _wrapped(source, "", body)


PYTHON: tuple[Fault, ...] = (
    epsilon_larger, load_mask_dropped, term_dropped, answer_kept_by_address, mask_moved,
    sum_in_bfloat16, contiguity_assumed, grid_rounded_down, argument_ignored, extreme_swapped,
    filler_wrong, store_mask_dropped, size_fixed, output_buffer_kept, target_unset, atomic_plain,
    last_tile_dropped, constant_off, widening_dropped, sign_turned, programs_swapped,
    argument_read_once, output_through_half, input_as_scratch, rows_beyond_left_out,
)  # fmt: skip

CUDA: Mapping[str, tuple[str, str]] = {
    "barrier_dropped": (r"__syncthreads\(\);", ";"),
    "epsilon_larger": (r"\b(\d?\.?\d*e-(?:0?[5-9]|1\d))f?\b", r"(100.0f * \1f)"),
    "bound_inclusive": (r"if\s*\((\w+)\s*>=\s*(\w+)\)\s*return;", r"if (\1 > \2) return;"),
    "bound_short": (r"if\s*\((\w+)\s*>=\s*(\w+)\)\s*return;", r"if (\1 >= \2 - 1) return;"),
    "guard_moved": (r"if\s*\((\w+)\s*<\s*([A-Za-z]\w*)\)", r"if (\1 <= \2)"),
    "extreme_swapped": (r"\bfmaxf\(", "fminf("),
    "atomic_plain": (r"atomicAdd\(\s*([^,;]+),\s*([^;]+)\);", r"*(\1) += (\2);"),
    "target_unset": (r"torch::zeros(_like)?\(", r"torch::empty\1("),
    "grid_rounded_down": (r"\((\w+) \+ (\w+) - 1\) / \2", r"(\1 / \2 > 0 ? \1 / \2 : 1)"),
    "shuffle_short": (r"(offset\s*=\s*)16(\s*;)", r"\g<1>8\2"),
    "step_short": (r"offset\s*>\s*0\s*;", "offset > 1;"),
    "term_dropped": (r"\+\s*(?:b|bias|residual)\w*\[[^\]]+\]", ""),
    "sum_in_half": (r"\b((?:acc|sum|total)\w*)\s*\+=\s*([^;]+);",
                    r"\1 = __half2float(__float2half_rn(\1 + (\2)));"),
    "cast_dropped": (r"\(int64_t\)|\(size_t\)|\(long long\)", "(int)"),
    "sign_turned": (r"(\w\])\s-\s(\w)", r"\1 + \2"),
}  # fmt: skip


def python_mutants(source: Source) -> dict[str, list[str]]:
    """Return for each kind of fault the texts with one fault, those that still parse."""
    found: dict[str, list[str]] = {}
    for fault in PYTHON:
        texts = []
        for edits in fault(source):
            data = source.text.encode()
            for edit in sorted(edits, key=lambda one: -one.start):
                data = data[: edit.start] + edit.text.encode() + data[edit.end :]
            text = data.decode()
            if text != source.text and _parses(text):
                texts.append(text)
        found[fault.__name__] = texts
    return found


def _parses(text: str) -> bool:
    try:
        ast.parse(text)
    except SyntaxError:
        return False
    return True


def cuda_mutants(text: str) -> dict[str, list[str]]:
    """Return for each kind of fault the texts with one place outside of comments changed."""
    if not any(sign in text for sign in _CUDA_SIGNS):
        return {}
    comments = [at.span() for at in _COMMENT.finditer(text)]
    return {
        kind: [
            text[: at.start()] + at.expand(to) + text[at.end() :]
            for at in re.finditer(pattern, text)
            if not any(start <= at.start() < end for start, end in comments)
        ]
        for kind, (pattern, to) in CUDA.items()
    }


def usual_sizes(problem: Path) -> dict[str, list[int | None]]:
    """Return the lengths of each tensor input in the middle workload, None for constant ones."""
    if not (problem / "workload.jsonl").is_file():
        return {}
    definition = json.loads((problem / "definition.json").read_text(encoding="utf-8"))
    lines = (problem / "workload.jsonl").read_text(encoding="utf-8").splitlines()
    axes = json.loads(lines[len(lines) // 2])["axes"]
    return {
        name: [axes.get(axis) for axis in spec["shape"]]
        for name, spec in definition["inputs"].items()
        if spec.get("shape")
    }


def mutants(kernel: Kernel, packed: Path) -> dict[str, list[tuple[str, str]]]:
    """Return for each kind of fault pairs of a file's new text and the whole file to write."""
    path = packed / kernel.path
    whole = path.read_text(encoding="utf-8")
    sizes = usual_sizes(packed / kernel.problem)
    document: dict[str, Any] | None = json.loads(whole) if path.suffix == ".json" else None
    sources = document["sources"] if document else [{"path": path.name, "content": whole}]
    entry = "run" if re.search(r"^def run\(", whole, re.MULTILINE) else "forward"
    if document:
        entry = document["spec"]["entry_point"].rpartition("::")[2]
    found: dict[str, list[tuple[str, str]]] = {}
    for place, one in enumerate(sources):
        text = one["content"]
        kinds: dict[str, list[str]] = {}
        if one["path"].endswith(".py"):
            tree = ast.parse(text)
            kinds = python_mutants(Source(text=text, tree=tree, entry=entry, sizes=sizes))
        for kind, texts in (*kinds.items(), *cuda_mutants(text).items()):
            for changed in texts:
                file = changed
                if document:
                    new = [dict(other) for other in sources]
                    new[place]["content"] = changed
                    file = json.dumps({**document, "sources": new})
                found.setdefault(kind, []).append((changed, file))
    return found


def plant(
    kernels: Iterable[Kernel], packed: Path, out: Path, *, count: int, seed: int
) -> list[Kernel]:
    """Write up to `count` mutants below `out`, kinds in turn over the kernels; return them."""
    drawn = random.Random(seed)
    left = [(kernel, mutants(kernel, packed)) for kernel in kernels]
    used: dict[str, int] = {}
    rows: list[Kernel] = []
    # Each round takes from each kernel the fault that was planted least so far.
    while len(rows) < count and any(kinds for _, kinds in left):
        for kernel, kinds in left:
            usable = [kind for kind, texts in kinds.items() if texts]
            if not usable or len(rows) >= count:
                kinds.clear()
                continue
            kind = min(usable, key=lambda one: (used.get(one, 0), drawn.random()))
            texts = kinds[kind]
            changed, file = texts.pop(drawn.randrange(len(texts)))
            used[kind] = used.get(kind, 0) + 1
            name = f"{kernel.name}-{kind}-{len(rows)}"
            place = out / kernel.set / f"{name.replace('/', '-')}{Path(kernel.path).suffix}"
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(file, encoding="utf-8")
            rows.append(
                dataclasses.replace(
                    kernel,
                    name=name,
                    path=str(place.relative_to(out)),
                    label="wrong",
                    codes=(kind,),
                    digest=hashlib.sha256(changed.encode()).hexdigest(),
                )
            )
    for problem in {Path(row.problem) for row in rows}:
        (out / problem).parent.mkdir(parents=True, exist_ok=True)
        if (packed / problem).is_dir():
            shutil.copytree(packed / problem, out / problem, dirs_exist_ok=True)
        else:
            shutil.copy(packed / problem, out / problem)
    write_index(rows, out)
    return rows


def main(arguments: Sequence[str] | None = None) -> int:
    """Write mutants of packed kernels."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--packed", type=Path, default=ROOT / "build" / "wild")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "mutants")
    parser.add_argument("--of", nargs="*", default=[], help="kernels whose names begin like these")
    parser.add_argument("--count", type=int, default=120)
    parser.add_argument("--seed", type=int, default=20)
    given = parser.parse_args(sys.argv[1:] if arguments is None else arguments)
    kernels = [kernel for kernel in read_index(given.packed) if kernel.label != "wrong"]
    if given.of:
        kernels = [kernel for kernel in kernels if kernel.name.startswith(tuple(given.of))]
    shutil.rmtree(given.out, ignore_errors=True)
    rows = plant(kernels, given.packed, given.out, count=given.count, seed=given.seed)
    counts: dict[str, int] = {}
    for row in rows:
        counts[row.codes[0]] = counts.get(row.codes[0], 0) + 1
    print(f"{len(rows)} mutants of {len(kernels)} kernels in {given.out}: {counts}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
