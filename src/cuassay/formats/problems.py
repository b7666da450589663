"""From what a user names to a Problem: a folder, a file, a module's function, a catalogue name."""

from __future__ import annotations

import importlib
import re
from dataclasses import replace
from pathlib import Path

from cuassay.catalog import registry
from cuassay.errors import CuassayError, ProblemError, UnknownNameError
from cuassay.formats import recorded, signature
from cuassay.formats.modules import describe_failure, import_file
from cuassay.formats.native import declaration as native
from cuassay.formats.sidecar import file as sidecar
from cuassay.formats.textfile import listing, read_text
from cuassay.model.digest import problem_digest
from cuassay.model.problem import Problem

_HINT = (
    "Give a folder with definition.json and workload.jsonl, a definition file, a .py file with "
    "an @problem function (file.py:function), module:function, or a catalogue name."
)
_NATIVE_FILES = ("problem.py",)
_TASKS = ("task.yml", "task.yaml")  # of GPU MODE


def load(where: str, *, strict: bool, notes: list[str], recorded_calls: str = "") -> Problem:
    """Return the problem that `where` names, as its sidecar file has it where there is one.

    Calls recorded in a real program, in `recorded_calls` or beside the problem, are added.
    Raises ProblemError or UnknownNameError.
    """
    found = _named(where, strict=strict, notes=notes)
    if found.held:
        notes.append(f"these arguments stay as the problem has them: {'; '.join(found.held)}")
    found = sidecar.applied(found, notes=notes)
    folder = (
        Path(recorded_calls).expanduser() if recorded_calls else recorded.recorded_folder(found)
    )
    return found if folder is None else recorded.with_calls(found, folder, notes=notes)


def _named(where: str, *, strict: bool, notes: list[str]) -> Problem:
    if not where.strip():
        raise ProblemError(f"the problem's name is empty. {_HINT}")
    path = Path(where).expanduser()
    try:
        exists = path.exists()
    except (OSError, ValueError):
        exists = False
    if exists:
        return _from_path(path, None, strict=strict, notes=notes)
    place, separator, function = where.rpartition(":")
    if separator and place.endswith(".py"):
        return _from_path(Path(place).expanduser(), function, strict=strict, notes=notes)
    if separator and re.fullmatch(r"[^\W\d]\w*(\.[^\W\d]\w*)*", place):
        try:
            module = importlib.import_module(place)
        except CuassayError:
            raise
        except ModuleNotFoundError as failure:
            raise ProblemError(
                f"module '{place}' cannot be imported: {failure}; "
                "check its name, or give the file instead (file.py:function)"
            ) from None
        except (Exception, SystemExit) as failure:
            text = describe_failure(failure, Path(getattr(failure, "filename", None) or place))
            raise ProblemError(
                f"module '{place}' cannot be imported: {text}; correct it, then try again"
            ) from failure
        if function not in vars(module):
            raise UnknownNameError("function", function, _public(module), f"in module {place}")
        return _carried(vars(module)[function], function, f"module {place}")
    if "/" in where or path.suffix in (".py", ".json", ".jsonl"):
        raise ProblemError(f"{where} does not exist: expected a problem's file or folder. {_HINT}")
    known = registry.names()
    if where.partition("@")[0] not in known:  # rmsnorm@float16 picks a working dtype
        raise UnknownNameError("problem", where, known, _HINT)
    return registry.get(where)


def _from_path(path: Path, function: str | None, *, strict: bool, notes: list[str]) -> Problem:
    if path.is_dir():
        path = _inside(path)
    if path.name in _TASKS:
        from cuassay.formats.gpumode import task as gpumode

        return gpumode.load_task(path.parent)
    if path.suffix == ".py":
        return _from_python(path, function, notes=notes)
    if path.suffix == ".jsonl":
        beside = path.parent / "definition.json"
        if not beside.is_file():
            raise ProblemError(
                f"{path} holds workloads only, and there is no definition.json beside it; "
                "give the definition file or its folder"
            )
        path = beside
    if path.suffix != ".json":
        raise ProblemError(f"{path} is not a problem: expected a .json or .py file. {_HINT}")
    from cuassay.formats import flashinfer
    from cuassay.formats.sol import problem as sol  # pydantic is slow to import

    trace = flashinfer.root_of(path) if path.name != "definition.json" else None
    if trace is not None:
        made = flashinfer.load_flashinfer_problem(path, trace, strict=strict, notes=notes)
    else:
        made = sol.load_sol_problem(path, strict=strict, notes=notes)
    return replace(made, digest=problem_digest(made))


def _inside(folder: Path) -> Path:
    """Return the file that defines the problem of a folder. Raises ProblemError."""
    for name in ("definition.json", *_NATIVE_FILES, *_TASKS, "reference.py"):
        if (folder / name).exists():
            return folder / name
    raise ProblemError(
        f"{folder} has no definition.json, problem.py, task.yml or reference.py "
        f"({listing(folder)}). {_HINT}"
    )


def _from_python(path: Path, function: str | None, *, notes: list[str]) -> Problem:
    source = read_text(path, ProblemError)
    halves = {"class Model": "class Model(" in source, "get_inputs()": "def get_inputs(" in source}
    if function is None and "@problem" not in source and all(halves.values()):
        from cuassay.formats.kernelbench import folder as operator
        from cuassay.formats.kernelbench import pair as kernelbench

        if operator.is_operator(path):
            return operator.load_operator(path, source, notes=notes)
        return kernelbench.load_kernelbench_problem(path, source, notes=notes)
    try:
        tree = signature.syntax_tree(source, str(path))
    except SyntaxError as failure:
        raise ProblemError(
            f"{path}: line {failure.lineno}: not valid Python: {failure.msg}; correct it"
        ) from None
    module = import_file(path)
    if function is not None and function not in vars(module):
        raise UnknownNameError("function", function, _public(module), f"in {path}")
    made = {
        name: problem
        for name in signature.functions(tree)
        if (problem := native.problem_of(vars(module).get(name))) is not None
    }
    if function is not None:
        return _carried(vars(module)[function], function, str(path))
    if not made and (any(halves.values()) or path.name == "reference.py"):
        missing = " and no ".join(name for name, found in halves.items() if not found)
        raise ProblemError(
            f"{path} defines no {missing}: expected both, as KernelBench has them (or a "
            "@problem function); add what is missing"
        )
    if not made:
        raise ProblemError(
            f"{path} has no @problem function (its functions: "
            f"{', '.join(signature.functions(tree)) or 'none'}); decorate the reference with "
            "@cuassay.formats.native.declaration(axes=..., workloads=...)"
        )
    if len(made) > 1:
        raise UnknownNameError(
            "problem",
            path.name,
            made,
            f"{path} defines several; name one as {path.name}:FUNCTION",
        )
    return next(iter(made.values()))


def _public(module: object) -> list[str]:
    return [name for name, value in vars(module).items() if native.problem_of(value) is not None]


def _carried(function: object, name: str, place: str) -> Problem:
    found = native.problem_of(function)
    if found is None:
        raise ProblemError(
            f"'{name}' in {place} is not decorated with @problem, expected a native problem; "
            "decorate it with @cuassay.formats.native.declaration(axes=..., workloads=...)"
        )
    return found
