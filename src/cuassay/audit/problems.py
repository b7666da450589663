"""The problems of a tree, told by the files that define them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from cuassay.audit import sniff
from cuassay.audit.found import FoundProblem
from cuassay.audit.walk import Folder
from cuassay.model.audit import Oddity

CANDIDATE_FOLDERS = frozenset({"candidates", "solutions", "submissions"})
_DECORATOR, _DEFINITION = re.compile(r"@(?:\w+\.)*problem\("), re.compile(r"def (\w+)\(")
_ENTRIES = frozenset({"solution.json", "kernel.py", "kernel.cu"})
_WHOLE_PROBLEMS = frozenset({"definition.json", "task.yml", "task.yaml"})
_BESIDE = ("kernel", "submission", "solution")
_NUMBERED = re.compile(r"(\d+)_")
_LEVEL = re.compile(r"level_?(\d+)")
_SIDE_FILES = ("workload.jsonl", "workloads.jsonl", "reference.py", "config.json", "cuassay.toml")


def problems_in(folders: Sequence[Folder], oddities: list[Oddity]) -> Iterator[FoundProblem]:
    """Yield every problem that the folders hold; what cannot be read goes to `oddities`.

    `folders` come parents first. Nothing that a candidate may have brought along defines a
    problem: what lies in a candidate folder, below a problem or below a candidate is a candidate's.
    """
    closed: set[Path] = set()  # folders below which candidates are, and no problem
    for folder in folders:
        outer = folder.path.parent in closed or bool(CANDIDATE_FOLDERS & set(folder.names))
        # Whether what lies below a folder is a candidate's: it is a problem's, or one itself.
        if outer or not (_ENTRIES | _WHOLE_PROBLEMS).isdisjoint(folder.files):
            closed.add(folder.path)
        if outer:
            message = "is in a candidate's folder, where nothing defines a problem: passed over"
            oddities += [
                Oddity(path=str(folder.files[name]), message=message)
                for name in sorted(_WHOLE_PROBLEMS & set(folder.files))
            ]
            continue
        definition = folder.files.get("definition.json")
        if definition is not None:
            data = {}
            try:
                data = sniff.json_object(definition) or {}
            except (OSError, ValueError) as error:
                # It stays a problem: each of its candidates then says what is wrong with it.
                oddities.append(Oddity(path=str(definition), message=f"cannot be read: {error}"))
            yield FoundProblem(
                where=str(folder.path),
                name=sniff.text_of(data, "name") or folder.path.name,
                folder=folder.path,
                format="sol-execbench",
                files=_with_side_files(folder, definition),
                op_type=sniff.text_of(data, "op_type"),
                description=sniff.text_of(data, "description"),
                aliases=(folder.path.name,),
            )
        for name in ("task.yml", "task.yaml"):
            if name in folder.files:
                sources = [path for path in folder.files.values() if path.suffix == ".py"]
                shipped = [path for path in sources if not path.name.startswith("submission")]
                utilities = folder.path.parent / "utils.py"
                if utilities.is_file():
                    shipped.append(utilities)
                yield FoundProblem(
                    where=str(folder.path),
                    name=folder.path.name,
                    folder=folder.path,
                    format="gpumode",
                    files=(folder.files[name], *shipped),
                    aliases=(folder.path.name, folder.path.name.removesuffix("_py")),
                )
        in_definitions = "definitions" in (folder.path.name, *folder.names)
        for name, path in folder.files.items():
            if in_definitions and path.suffix == ".json" and name != "definition.json":
                yield from _trace_definition(path, oddities)
            elif path.suffix == ".py" and not (definition and name.startswith(_BESIDE)):
                yield from _python(folder, path, oddities)


def _with_side_files(folder: Folder, *own: Path) -> tuple[Path, ...]:
    beside = [folder.files[name] for name in _SIDE_FILES if name in folder.files]
    own_sidecar = folder.files.get(f"{own[0].stem}.cuassay.toml")
    tensors = [path for path in folder.files.values() if path.suffix == ".safetensors"]
    return (*own, *beside, *([own_sidecar] if own_sidecar else []), *tensors, *_recorded(own[0]))


def _recorded(file: Path) -> list[Path]:
    """Return the calls that were recorded in a real program for the problem of `file`."""
    for folder in (file.with_suffix(".recorded"), file.parent / "recorded"):
        if (folder / "calls.jsonl").is_file():
            return sorted(path for path in folder.iterdir() if path.is_file())
    return []


def _trace_definition(path: Path, oddities: list[Oddity]) -> Iterator[FoundProblem]:
    try:
        data = sniff.json_object(path)
    except (OSError, ValueError) as error:
        oddities.append(Oddity(path=str(path), message=f"cannot be read: {error}"))
        return
    if data is None or not sniff.is_definition(data):
        oddities.append(Oddity(path=str(path), message="is no definition: passed over"))
        return
    root = next(p.parent for p in path.parents if p.name == "definitions")
    relative = path.relative_to(root / "definitions")
    workloads = root / "workloads" / relative.with_suffix(".jsonl")
    yield FoundProblem(
        where=str(path),
        name=sniff.text_of(data, "name") or path.stem,
        folder=path.with_suffix(""),
        format="flashinfer-trace",
        files=(path, *([workloads] if workloads.is_file() else [])),
        op_type=sniff.text_of(data, "op_type"),
        description=sniff.text_of(data, "description"),
        aliases=(path.stem,),
    )


def _python(folder: Folder, path: Path, oddities: list[Oddity]) -> Iterator[FoundProblem]:
    try:
        text = sniff.head(path)
    except OSError as error:
        oddities.append(Oddity(path=str(path), message=f"cannot be read: {error.strerror}"))
        return
    own = path.parent if path.name == "problem.py" else path.with_suffix("")
    files = _with_side_files(folder, path)
    if sniff.is_native_problem(text):
        # The names of the functions that follow a `@problem(` line, in one pass.
        found: list[str] = []
        decorated = False
        for line in text.splitlines():
            definition = _DEFINITION.match(line)
            if decorated and definition:
                found.append(definition.group(1))
            decorated = bool(_DECORATOR.match(line)) or (decorated and not definition)
        functions = found or [path.stem]
        for function in functions:
            several = len(functions) > 1
            yield FoundProblem(
                where=f"{path}:{function}" if several else str(path),
                name=function,
                folder=own / function if several else own,
                format="native",
                files=files,
                aliases=(path.stem,),
            )
    elif sniff.is_kernelbench_problem(text) and not sniff.is_kernelbench_candidate(text):
        # The names by which generated files refer to a KernelBench problem.
        level = _LEVEL.fullmatch(path.parent.name.lower())
        number = _NUMBERED.match(path.stem)
        names = [path.stem]
        if level and number:
            names += [
                f"level{level.group(1)}/{path.stem}",
                f"level_{level.group(1)}_problem_{number.group(1)}",
            ]
        yield FoundProblem(
            where=str(path),
            name=path.stem,
            folder=own,
            format="kernelbench",
            files=(path,),
            aliases=tuple(names),
        )
