"""A kernel and a reference that are called with anything, written as files to judge.

    problem, candidate = prepare(kernel, reference, inputs={"x": x, "mode": "mean", "out": y})

Tensors anywhere in the call, and numbers that are arguments by themselves, become the problem's
inputs; all else is held as the example has it. Results may be nested in any way that outputs are.
What a call writes in place is an output: an argument whose old values do not matter (`out=`) is
allocated anew for each call, any other stays an input as well. The parameters and buffers of
modules are inputs too.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cuassay.errors import CandidateError, ProblemError
from cuassay.formats import callables
from cuassay.formats.callables import Example
from cuassay.formats.package_files import package_files, sibling_files
from cuassay.formats.slicing import aliased, class_text
from cuassay.formats.structure import (
    CALL,
    PRELUDE,
    PathStep,
    Written,
    is_tensor,
    library_import,
    output_text,
    outputs,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Observed:
    """What the reference does with the examples.

    `results` has the outputs of each example; `steps` says where in the result an output lies,
    `outs` are arguments that it fills without a look at them, `changed` those that it updates.
    """

    results: Sequence[tuple[Any, ...]]
    names: tuple[str, ...]
    steps: tuple[tuple[PathStep, ...], ...]
    outs: tuple[str, ...]
    changed: tuple[str, ...]


def prepare(
    kernel: str | Path | Callable[..., object],
    reference: Callable[..., object],
    inputs: Example | Sequence[Example] | Callable[[], Example],
) -> tuple[str, str]:
    """Write a problem and a candidate; return their places as `cuassay check` takes them.

    Raises ProblemError where the reference or an argument cannot be written or the reference
    fails on the inputs, and CandidateError for a kernel that stands in no file.
    """
    examples = callables.examples_of(reference, inputs)
    if _is_simple(kernel, reference, examples):
        place = str(kernel) if isinstance(kernel, str | Path) else callables.candidate_place(kernel)
        return str(callables.problem_folder(reference, inputs)), place
    return _structured(kernel, reference, examples)


def _is_simple(
    kernel: str | Path | Callable[..., object],
    reference: Callable[..., object],
    examples: Sequence[Mapping[str, Any]],
) -> bool:
    """Whether a call passes tensors and numbers by position and gives tensors back."""
    if not isinstance(kernel, str | Path) and not _is_plain(kernel, examples[0]):
        return False
    flat = all(callables.is_argument(value) for each in examples for value in each.values())
    accepted = _accepted(reference)
    known = accepted is None or all(name in accepted for name in examples[0])
    if not (_is_plain(reference, examples[0]) and flat and known):
        return False
    return callables.is_result(callables.result_of(reference, examples[0]))


def _is_plain(function: Callable[..., object], names: Collection[str]) -> bool:
    """Whether a function takes these arguments by position; a module does not."""
    if is_module(function) or not hasattr(function, "__qualname__"):
        return False
    if "." in getattr(function, "__qualname__", ""):
        return False
    try:
        found = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return True
    named = [p for p in found if p.kind is inspect.Parameter.KEYWORD_ONLY]
    return not any(p.name in names or p.default is inspect.Parameter.empty for p in named)


def is_module(value: object) -> bool:
    """Whether a value is a torch.nn.Module; torch is not loaded for the question."""
    return hasattr(value, "named_parameters") and hasattr(value, "forward")


def _structured(
    kernel: str | Path | Callable[..., object],
    reference: Callable[..., object],
    examples: Sequence[Mapping[str, Any]],
) -> tuple[str, str]:
    accepted = _accepted(reference)
    # What only the kernel takes are its outputs: kernel(x, out) beside reference(x).
    beyond = [name for name in examples[0] if accepted is not None and name not in accepted]
    calls = [
        _written({name: v for name, v in example.items() if name not in beyond})
        for example in examples
    ]
    written, arguments = calls[0]
    if any(texts != arguments for _, texts in calls[1:]):
        raise ProblemError(
            "the examples differ in more than tensors and numbers; judge each of them by itself"
        )
    module = written.module(reference) if is_module(reference) else ""
    flat = [{**written.leaves, **one.leaves} for one, _ in calls]
    head = f"import inspect\n\nimport torch\n\n\n{PRELUDE}\n\n{CALL}\n\n"
    if is_module(reference):
        texts = [class_text(kind, name) for name, kind in written.classes.items()]
        text = head + "\n\n\n".join(texts) + "\n"
    else:
        text = head + aliased(reference, "_reference", classes=written.classes)
    call = f"_call({module or '_reference'}, {_arguments(arguments)})"
    leaves = list(written.leaves)
    namespace: dict[str, Any] = {}
    body = f"def run({', '.join(leaves)}):\n    return {call}\n"
    exec(compile(f"{text}\n\n{body}", "<the reference>", "exec"), namespace)
    observed = _observed(namespace["run"], flat)
    leaves = [name for name in written.leaves if name not in observed.outs]
    kept = [{name: example[name] for name in leaves} for example in flat]
    sized = callables.axes_of(kept, observed.results)
    shapes = {}
    for number, name in enumerate(observed.names):
        # A shape as text over the flat inputs: `(x.shape[0], 4)`
        parts = [
            _size_text(sizes, sized, kept)
            for sizes in callables.sizes_of([made[number] for made in observed.results])
        ]
        shapes[name] = f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"
    device = next((f", device={n}.device" for n in leaves if is_tensor(written.leaves[n])), "")
    dtypes = {n: str(v.dtype) for n, v in zip(observed.names, observed.results[0], strict=True)}

    def allocated(name: str, output: str) -> str:
        return f"    {name} = torch.empty({shapes[output]}, dtype={dtypes[output]}{device})"

    taken = [output_text(steps) for steps in observed.steps]
    head = f"def run({', '.join(leaves)}):"
    returned = f"    return ({', '.join([*taken, *observed.outs, *observed.changed])},)"
    made_outs = [allocated(name, name) for name in observed.outs]
    run = "\n".join([head, *made_outs, f"    _result = {call}", returned]) + "\n"
    problem = callables.write_problem(
        {
            "name": getattr(reference, "__name__", type(reference).__name__),
            "axes": dict(sized.axes),
            "inputs": {n: callables.spec_of([e[n] for e in kept], sized) for n in leaves},
            "outputs": {
                name: callables.spec_of([made[number] for made in observed.results], sized)
                for number, name in enumerate(observed.names)
            },
            "reference": f"{text}\n\n{run}",
            "held_at_the_example": list(dict.fromkeys(written.held)),
        },
        kept,
        sized,
    )
    if len(beyond) > len(observed.names):
        raise ProblemError(
            f"the reference does not take {', '.join(map(repr, beyond))}, and has only "
            f"{len(observed.names)} outputs to write there; correct the names in inputs"
        )
    outputs_of = dict(zip(beyond, observed.names, strict=False))
    ours = Written(leaves=dict(written.leaves), classes=dict(written.classes), reuse=True)
    entry, dotted, sources, module_text = _entry(kernel, ours, known=set(written.leaves))
    told = _arguments({**arguments, **{name: name for name in beyond}})
    lines = [head, *made_outs, *(allocated(n, output) for n, output in outputs_of.items())]
    lines.append(f"    _result = _call({module_text or entry}, {told})")
    if beyond:
        lines += ["    if _result is None:", f"        return ({', '.join(beyond)},)"]
    lines.append(returned)
    adapter = "\n".join([_head(dotted, ours), *lines]) + "\n"
    return str(problem), callables.write_candidate(_kernel_name(kernel), adapter, sources)


def _accepted(function: Callable[..., object]) -> set[str] | None:
    """Return the names of a function's parameters; None where it takes any."""
    target = getattr(function, "forward", function) if is_module(function) else function
    try:
        found = inspect.signature(target).parameters.values()
    except (TypeError, ValueError):
        return None
    open_ended = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    return None if any(p.kind in open_ended for p in found) else {p.name for p in found}


def _written(example: Mapping[str, Any]) -> tuple[Written, dict[str, str]]:
    """Return a call's flat inputs, and the expression of each argument over them."""
    written = Written()
    return written, {name: written.argument(name, value) for name, value in example.items()}


def _arguments(arguments: Mapping[str, str]) -> str:
    return "{" + ", ".join(f"{name!r}: {text}" for name, text in arguments.items()) + "}"


def _observed(run: Callable[..., Any], flat: Sequence[Mapping[str, Any]]) -> _Observed:
    torch = importlib.import_module("torch")
    results: list[tuple[Any, ...]] = []
    names: list[str] = []
    steps: tuple[tuple[PathStep, ...], ...] = ()
    changed: list[str] = []
    outs: list[str] = []
    for number, example in enumerate(flat):
        copies = _copied(example)
        found = list(outputs(_called(run, copies)))
        if not number:
            written = [n for n, v in copies.items() if is_tensor(v) and _differs(v, example[n])]
            returned = {id(value) for _, _, value in found}
            outs = [n for n in written if not found and _ignores_old(run, example, n)]
            changed = [n for n in written if n not in outs and id(copies[n]) not in returned]
            for name, _, _ in found:
                plain = name if name.isidentifier() else f"output_{name}"
                names.append(plain if name else "output")
            names = [*names, *outs, *(f"{name}_after" for name in changed)]
            names = _distinct(names, [name for name in example if name not in outs])
            steps = tuple(step for _, step, _ in found)
        values = [torch.as_tensor(value) for _, _, value in found]
        results.append((*values, *(copies[name] for name in (*outs, *changed))))
    if not names:
        raise ProblemError(
            "the reference returned None and changed no input; return a tensor, or write into "
            "an argument"
        )
    return _Observed(
        results=results,
        names=tuple(names),
        steps=steps,
        outs=tuple(outs),
        changed=tuple(changed),
    )


def _called(run: Callable[..., Any], values: Mapping[str, Any]) -> Any:
    torch = importlib.import_module("torch")
    try:
        with torch.no_grad():
            return run(*values.values())
    except Exception as failure:
        raise ProblemError(
            f"the reference fails on the given inputs: {type(failure).__name__}: {failure}; "
            "correct the reference or the inputs"
        ) from failure


def _copied(example: Mapping[str, Any]) -> dict[str, Any]:
    return {n: v.detach().clone() if is_tensor(v) else v for n, v in example.items()}


def _differs(first: Any, second: Any) -> bool:
    same = (first == second) | ((first != first) & (second != second))
    return not bool(same.all())


def _ignores_old(run: Callable[..., Any], example: Mapping[str, Any], name: str) -> bool:
    """Whether what a call leaves in an argument does not depend on what it held before."""
    left = []
    for fill in (0, 1):
        copies = _copied(example)
        copies[name].fill_(fill)
        _called(run, copies)
        left.append(copies[name])
    return not _differs(*left)


def _distinct(names: Sequence[str], taken: Sequence[str]) -> list[str]:
    """Return output names that are neither double nor names of inputs."""
    found: list[str] = []
    for name in names:
        unique, number = name, 2
        while unique in found or unique in taken:
            unique, number = f"{name}_{number}", number + 1
        found.append(unique)
    return found


def _size_text(sizes: tuple[int, ...], sized: Any, flat: Sequence[Mapping[str, Any]]) -> str:
    axis = sized.names.get(sizes)
    if axis is not None:
        for name, value in flat[0].items():
            if not is_tensor(value):
                continue
            known = callables.sizes_of([example[name] for example in flat])
            if sizes in known:
                return f"{name}.shape[{known.index(sizes)}]"
    return str(sizes[0])


def _entry(
    kernel: str | Path | Callable[..., object], written: Written, *, known: set[str]
) -> tuple[str, str, dict[str, bytes], str]:
    """Return the kernel's expression, its module, its files, and the text that makes a module.

    Raises CandidateError where it stands in no file.
    """
    if isinstance(kernel, str | Path):
        place, _, function = str(kernel).partition("::")
        path = Path(place).expanduser().absolute()
        if path.suffix != ".py" or not path.is_file():
            raise CandidateError(
                f"{place} is not a Python file, and the call has arguments that only Python can "
                "make; give a .py file with the function, or a call of tensors and numbers"
            )
        return f"_kernel.{function or 'run'}", path.stem, sibling_files(path), ""
    owner: Any = type(kernel) if is_module(kernel) else kernel
    name = getattr(owner, "__qualname__", getattr(owner, "__name__", ""))
    bound = getattr(owner, "__self__", None)
    if inspect.isclass(bound):  # MyFunction.apply of an autograd function
        owner, name = bound, f"{bound.__qualname__}.{owner.__name__}"
    module = inspect.getmodule(owner)
    file = getattr(module, "__file__", None)
    wrapped = getattr(kernel, "__wrapped__", None)
    if file is None and callable(wrapped):
        return _entry(wrapped, written, known=known)
    if file is None or not name or "<" in name or getattr(owner, "__closure__", None):
        raise CandidateError(
            f"the kernel '{name or kernel!r}' is not defined at the top level of a file: "
            "another process has to build it; write it there with def or class, or give its file"
        )
    path = Path(file).absolute()
    packaged = (path.parent / "__init__.py").is_file()
    sources = package_files(path) if packaged else sibling_files(path)
    text = ""
    if is_module(kernel):
        text = written.module(kernel)
        missing = [name for name in written.leaves if name not in known]
        if missing:
            raise ProblemError(
                f"the kernel's module has the parameter '{missing[0]}', which the reference has "
                "not; give the reference the same parameters, or pass it in inputs"
            )
    return f"_kernel.{name}", callables.dotted_name(path), sources, text


def _kernel_name(kernel: str | Path | Callable[..., object]) -> str:
    if isinstance(kernel, str | Path):
        return Path(str(kernel).partition("::")[0]).stem
    name = getattr(kernel, "__qualname__", type(kernel).__name__)
    return str(name).replace(".", "_")


def _head(dotted: str, written: Written) -> str:
    """Return the beginning of the candidate's entry file: its own module and the classes."""
    lines = ["import importlib", "import inspect", "import os", "import sys", "", "import torch"]
    lines += ["", "sys.path.insert(0, os.path.join(os.path.dirname(__file__), 'candidate'))"]
    lines += [f"_kernel = importlib.import_module({dotted!r})", "", "", PRELUDE, "", CALL, ""]
    for name, kind in written.classes.items():
        imported = library_import(kind, name)
        if imported:
            lines.append(imported)
            continue
        # The kernel's own class where it has one: what it is compared with must be the same.
        own = kind.__name__
        lines += [f"{name} = getattr(_kernel, {own!r}, None)", f"if {name} is None:"]
        lines += [f"    {row}" if row else "" for row in class_text(kind, name).splitlines()]
    return "\n".join(lines) + "\n\n"
