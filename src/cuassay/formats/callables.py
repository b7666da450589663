"""A kernel, a reference and example inputs, as they stand in a test, written as files to judge.

    folder = problem_folder(reference, inputs={"x": x, "weight": weight, "eps": 1e-6})
    place = candidate_place(fused_rmsnorm)

The problem is written as a SOL-ExecBench folder among the runs, named by its content:
the reference cut out of its module, the example tensors as safetensors, and axes found from
the sizes of the examples. Sizes that are equal in every example share an axis; with several
examples a size that never changes is a constant.
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
import json
import secrets
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from cuassay.errors import CandidateError, ProblemError
from cuassay.formats.package_files import package_files
from cuassay.formats.slicing import parameters, standalone
from cuassay.home import runs_dir

Example: TypeAlias = Mapping[str, Any] | Sequence[Any]

_SCALARS = {bool: "bool", int: "int64", float: "float32"}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sized:
    """The axes found: the name of every list of sizes (one an example), and their forms."""

    names: Mapping[tuple[int, ...], str]
    axes: Mapping[str, Mapping[str, object]]

    def dimension(self, sizes: tuple[int, ...]) -> str | None:
        """Return the axis of a dimension, its number where it never changes, else None."""
        if sizes in self.names:
            return self.names[sizes]
        return str(sizes[0]) if len(set(sizes)) == 1 else None


def problem_folder(
    reference: Callable[..., object], inputs: Example | Sequence[Example] | Callable[[], Example]
) -> Path:
    """Write the problem of `reference` on example inputs and return its folder.

    `inputs` are the arguments of one call by name or in order, a list of several such calls,
    or a function without parameters that makes them. Tensors may be on any device. Raises
    ProblemError where the reference cannot be cut out or fails on the inputs, or where an
    argument is neither tensor nor number.
    """
    examples = examples_of(reference, inputs)
    for value in (value for example in examples for value in example.values()):
        if not hasattr(value, "shape") and type(value) not in _SCALARS:
            raise ProblemError(
                f"an argument is a {type(value).__name__}, expected tensors and numbers; wrap the "
                "kernel and the reference in functions that take only those"
            )
    names = list(examples[0])
    results = [results_of(reference, example) for example in examples]
    sized = axes_of(examples, results)
    definition = {
        "name": getattr(reference, "__name__", "reference"),
        "axes": dict(sized.axes),
        "inputs": {name: spec_of([e[name] for e in examples], sized) for name in names},
        "outputs": {
            ("output" if len(results[0]) == 1 else f"output_{number}"): spec_of(
                [made[number] for made in results], sized
            )
            for number in range(len(results[0]))
        },
        "reference": standalone(reference, names),
    }
    return write_problem(definition, examples, sized)


def candidate_place(kernel: Callable[..., object]) -> str:
    """Return what `cuassay check` takes for a kernel that is a function: FILE::FUNCTION.

    A function of a package is written, with the package's sources, as a folder. Raises
    CandidateError for a lambda, a closure or a method, and where there is no source file.
    """
    name = getattr(kernel, "__qualname__", "")
    while not name and getattr(kernel, "__wrapped__", None) is not None:
        kernel = kernel.__wrapped__  # type: ignore[attr-defined]
        name = getattr(kernel, "__qualname__", "")
    module = inspect.getmodule(kernel)
    file = getattr(module, "__file__", None)
    if not name or not name.isidentifier() or file is None or getattr(kernel, "__closure__", None):
        raise CandidateError(
            f"the kernel '{name or kernel!r}' is not a function at the top level of a file: "
            "another process has to build it; write it there with def, or give its file"
        )
    path = Path(file).absolute()
    if not (path.parent / "__init__.py").is_file():
        return f"{path}::{name}"
    # Write the package's files that are needed, and a kernel.py that takes the function
    files = package_files(path)
    files["kernel.py"] = f"from {dotted_name(path)} import {name} as run\n".encode()
    return _kept(f"{module.__name__ if module else ''}.{name}", files)


def examples_of(reference: Callable[..., object], inputs: Any) -> list[dict[str, Any]]:
    """Return the arguments of each example call by name. Raises ProblemError."""
    given = inputs() if callable(inputs) else inputs
    several = (
        isinstance(given, list | tuple)
        and bool(given)
        and all(isinstance(item, Mapping | list | tuple) for item in given)
    )
    calls: list[dict[str, Any]] = []
    for call in given if several else [given]:
        if isinstance(call, Mapping):
            known = parameters(reference)
            order = [n for n in known if n in call] + [n for n in call if n not in known]
            calls.append({name: call[name] for name in order})
        else:
            if not isinstance(call, list | tuple):
                raise ProblemError(
                    f"inputs is a {type(call).__name__}, expected the arguments of a call: a "
                    "mapping by name, or a list in order"
                )
            names = parameters(reference)
            if len(names) < len(call):
                names = tuple(f"x{number}" for number in range(len(call)))
            calls.append(dict(zip(names, call, strict=False)))
    if not calls or not calls[0]:
        raise ProblemError("inputs is empty; give the arguments of at least one call")
    if any(list(call) != list(calls[0]) for call in calls):
        raise ProblemError("the examples in inputs name different arguments; give all the same")
    return calls


def results_of(reference: Callable[..., object], example: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the outputs of the reference on copies of the inputs. Raises ProblemError."""
    made = result_of(reference, example)
    if not is_result(made):
        raise ProblemError(
            f"the reference returned a {type(made).__name__}, expected a tensor or a tuple of "
            "tensors"
        )
    return tuple(made) if isinstance(made, list | tuple) else (made,)


def is_result(made: Any) -> bool:
    """Whether a result is one tensor, or a tuple or list of nothing but tensors."""
    if isinstance(made, list | tuple):
        return bool(made) and not hasattr(made, "_fields") and all(map(_tensor, made))
    return _tensor(made)


def result_of(reference: Callable[..., object], example: Mapping[str, Any]) -> Any:
    """Return what the reference gives on copies of the inputs. Raises ProblemError."""
    torch = importlib.import_module("torch")
    copies = [v.clone() if torch.is_tensor(v) else v for v in example.values()]
    try:
        with torch.no_grad():
            made = reference(*copies)
    except Exception as failure:
        raise ProblemError(
            f"the reference fails on the given inputs: {type(failure).__name__}: {failure}; "
            "correct the reference or the inputs"
        ) from failure
    return made


def is_argument(value: object) -> bool:
    """Whether a value is a flat input as it is: a tensor or a number."""
    return hasattr(value, "shape") or type(value) in _SCALARS


def sizes_of(values: Sequence[Any]) -> list[tuple[int, ...]]:
    """Return for every dimension its size in each example. Raises ProblemError for ranks."""
    shapes = [tuple(value.shape) for value in values]
    if len({len(shape) for shape in shapes}) != 1:
        raise ProblemError(f"an argument has the shapes {shapes}: expected one number of axes")
    return [tuple(sizes) for sizes in zip(*shapes, strict=True)]


def axes_of(examples: Sequence[Mapping[str, Any]], results: Sequence[tuple[Any, ...]]) -> _Sized:
    tensors = [
        [example[name] for example in examples]
        for name in examples[0]
        if hasattr(examples[0][name], "shape")
    ]
    found = dict.fromkeys(s for values in tensors for s in sizes_of(values) if set(s) != {1})
    outputs = [s for n in range(len(results[0])) for s in sizes_of([made[n] for made in results])]
    # A size of the outputs that no input has could be anything in the inputs' sizes.
    derived = [s for s in outputs if s not in found and set(s) != {1}]
    if any(len(set(sizes)) > 1 for sizes in derived):
        raise ProblemError(
            f"an output has the sizes {derived[0]} over the examples, which no input has; write "
            "the reference as a @cuassay.problem, where axes can be expressions"
        )
    fixed = bool(derived)
    names = {sizes: f"d{number}" for number, sizes in enumerate(found)}
    axes: dict[str, Mapping[str, object]] = {}
    for sizes, name in names.items():
        constant = len(set(sizes)) == 1 and (fixed or len(examples) > 1)
        axes[name] = {"type": "const", "value": sizes[0]} if constant else {"type": "var"}
    return _Sized(names=names, axes=axes)


def spec_of(values: Sequence[Any], sized: _Sized) -> dict[str, object]:
    first = values[0]
    if hasattr(first, "shape"):
        shape = [sized.dimension(sizes) for sizes in sizes_of(values)]
        return {"shape": shape, "dtype": str(first.dtype).removeprefix("torch.")}
    return {"shape": None, "dtype": _SCALARS[type(first)]}


def write_problem(
    definition: Mapping[str, object], examples: Sequence[Mapping[str, Any]], sized: _Sized
) -> Path:
    """Write the folder in one step; the same problem is written once."""
    save = importlib.import_module("safetensors.torch").save
    stored: list[bytes] = []
    lines: list[str] = []
    for number, example in enumerate(examples):
        tensors = {
            n: v.detach().cpu().contiguous().clone() for n, v in example.items() if _tensor(v)
        }
        stored.append(save(tensors) if tensors else b"")
        file = f"example{number}.safetensors"
        sources = {
            name: {"type": "safetensors", "path": file, "tensor_key": name}
            if name in tensors
            else {"type": "scalar", "value": value}
            for name, value in example.items()
        }
        bound = {n: s[number] for s, n in sized.names.items() if sized.axes[n]["type"] == "var"}
        lines.append(json.dumps({"uuid": f"example-{number}", "axes": bound, "inputs": sources}))
    text = json.dumps(definition, indent=1)
    digest = hashlib.sha256("\n".join([text, *lines]).encode() + b"\0".join(stored)).hexdigest()
    files = {"definition.json": text.encode(), "workload.jsonl": "\n".join(lines).encode()}
    files |= {f"example{n}.safetensors": data for n, data in enumerate(stored) if data}
    return kept_folder(f"{definition['name']}-{digest[:16]}", files)


def _tensor(value: Any) -> bool:
    return hasattr(value, "shape") and hasattr(value, "detach")


def write_candidate(name: str, adapter: str, sources: Mapping[str, bytes]) -> str:
    """Write a candidate's folder, its files below `candidate/`; return its place."""
    files = {"kernel.py": adapter.encode()}
    return _kept(name, files | {f"candidate/{path}": data for path, data in sources.items()})


def _kept(name: str, files: Mapping[str, bytes]) -> str:
    digest = hashlib.sha256(b"\0".join(k.encode() + b"\0" + v for k, v in files.items()))
    return str(kept_folder(f"{name}-{digest.hexdigest()[:16]}", files))


def dotted_name(path: Path) -> str:
    """Return the name that a file is imported by, from the folder above its outermost package."""
    parts = [path.stem] if path.stem != "__init__" else []
    folder = path.parent
    while (folder / "__init__.py").is_file():
        parts.insert(0, folder.name)
        folder = folder.parent
    return ".".join(parts)


def kept_folder(name: str, files: Mapping[str, bytes]) -> Path:
    """Return a folder among the runs with these files, written in one step."""
    folder = runs_dir() / ".functions" / name  # a folder that no candidate can read
    if not folder.is_dir():
        draft = folder.with_name(f".{name}.{secrets.token_hex(4)}")
        for file, data in files.items():
            (draft / file).parent.mkdir(parents=True, exist_ok=True)
            (draft / file).write_bytes(data)
        try:
            draft.rename(folder)
        except OSError:  # another process wrote the same content
            shutil.rmtree(draft, ignore_errors=True)
    return folder
