"""From a path to candidates. Their code is read as text: nothing here imports or runs it."""

from __future__ import annotations

from pathlib import Path

from cuassay.errors import CandidateError, UnknownNameError
from cuassay.formats import adapted, cuda_text, custom_op, hub, tactics
from cuassay.formats.entry import ENTRY, entry_name, find_entry
from cuassay.formats.native.structured import FUNCTION, MODULE
from cuassay.formats.textfile import (
    JSON_LIMIT_BYTES,
    SOURCE_LIMIT_BYTES,
    listing,
    parse_json,
    read_beneath,
    read_text,
)
from cuassay.model.candidate import TACTIC, Candidate, Convention, Language, SourceFile
from cuassay.model.problem import Problem

_SHIPPED = (".py", *cuda_text.CUDA_SUFFIXES, *cuda_text.HEADER_SUFFIXES)
_FILE_LIMIT = 500
_FORMS = (
    "Give a .py file, a .cu file, a solution.json, or a folder with solution.json, kernel.py, "
    "kernel.cu, or solution.py beside reference.py."
)


def load(path: str, problem: Problem, *, strict: bool, notes: list[str]) -> Candidate:
    """Return the candidate in `path`, optionally `FILE::FUNCTION`. Raises CandidateError.

    `FILE::FUNCTION@TACTIC`, or `FILE::@TACTIC`, is the candidate held to one of its tactics.
    """
    place, separator, function = path.partition("::")
    function, marked, tactic = function.partition(TACTIC)
    if marked:
        whole = f"{place}::{function}" if function else place
        return tactics.pinned(load(whole, problem, strict=strict, notes=notes), tactic)
    where = Path(place).expanduser()
    named = function if separator else None
    if place.startswith(hub.PREFIX) or hub.is_kernel_folder(where):
        return hub.load_hub_kernel(place, named, problem)
    if named is not None and named.startswith(custom_op.PREFIX):
        return custom_op.load_custom_op(where, named, problem)
    if named is not None and not named.isidentifier():
        raise CandidateError(f"'{path}': '{named}' is no function name; expected FILE::FUNCTION")
    try:
        is_folder = where.is_dir()
    except (OSError, ValueError):  # no name of a file
        is_folder = False
    if is_folder:
        entry = _inside(where)
        if entry is None:
            raise CandidateError(f"{where} holds no candidate ({listing(where)}). {_FORMS}")
        return _from_file(entry, problem, named, whole_folder=True, strict=strict, notes=notes)
    return _from_file(where, problem, named, whole_folder=False, strict=strict, notes=notes)


def _inside(folder: Path) -> Path | None:
    """Return the file that makes `folder` one candidate, None where it is something else."""
    for name in ("solution.json", "kernel.py", "kernel.cu"):
        if (folder / name).is_file():
            return folder / name
    beside = folder / "solution.py"  # of the operator whose reference stands beside it
    return beside if beside.is_file() and (folder / "reference.py").is_file() else None


def _from_file(
    file: Path,
    problem: Problem,
    function: str | None,
    *,
    whole_folder: bool,
    strict: bool,
    notes: list[str],
) -> Candidate:
    if file.suffix == ".json":
        if function is not None:
            raise CandidateError(
                f"{file} names its own entry in spec.entry_point; drop '::{function}'"
            )
        from cuassay.formats import flashinfer  # pydantic is slow to import
        from cuassay.formats.sol import solution

        text = _text(file, whole_folder=whole_folder, limit_bytes=JSON_LIMIT_BYTES)
        data = parse_json(text, where=str(file), error=CandidateError)
        if flashinfer.is_solution(data):
            return flashinfer.load_solution(data, file, problem, strict=strict, notes=notes)
        return solution.load_solution(data, file, problem, strict=strict, notes=notes)
    if file.suffix not in (".py", *cuda_text.CUDA_SUFFIXES):
        what = "does not exist" if not file.exists() else "is not a candidate"
        raise CandidateError(f"{file} {what}. {_FORMS}")
    text = _text(file, whole_folder=whole_folder)
    if not text.strip():
        raise CandidateError(f"{file} is empty, expected the kernel's source; write it there")
    if problem.entry:
        if file.suffix != ".py":
            raise CandidateError(
                f"{file}: the problem '{problem.name}' has arguments that only Python can make "
                f"({', '.join(problem.held) or 'by keyword'}); give a .py file that "
                "calls the kernel"
            )
        name = entry_name(text, function, problem, where=str(file))
        module = adapted.module_name(file, otherwise="native_kernel")
        entry = problem.entry.replace(MODULE, module).replace(FUNCTION, name)
        shipped = _shipped(file, text, whole_folder=whole_folder)[1:]
        return adapted.adapted_candidate(
            file, text, name=_name(file, whole_folder), module=module, entry=entry, helpers=shipped
        )
    if file.suffix == ".py" and function is None and problem.origin in ("kernelbench", "gpumode"):
        from cuassay.formats.gpumode import task as gpumode
        from cuassay.formats.kernelbench import pair as kernelbench

        if problem.origin == "gpumode":
            return gpumode.load_candidate(file, text, problem)
        return kernelbench.load_candidate(file, text, problem)
    if file.suffix == ".py":
        name, convention = find_entry(text, function, problem, where=str(file))
        return Candidate(
            name=_name(file, whole_folder),
            sources=_shipped(file, text, whole_folder=whole_folder),
            entry_file=file.name,
            entry_function=name,
            language=Language.PYTHON,
            convention=convention,
            origin=file.absolute(),
        )
    return _cuda(file, text, problem, function, whole_folder=whole_folder)


def _text(file: Path, *, whole_folder: bool, limit_bytes: int = SOURCE_LIMIT_BYTES) -> str:
    """Return the text of a file that was named, or of the entry of a folder that was named."""
    if whole_folder:
        return read_beneath(file.parent, file.name, CandidateError, limit_bytes=limit_bytes)
    return read_text(file, CandidateError, limit_bytes=limit_bytes)


def _name(file: Path, whole_folder: bool) -> str:
    return file.absolute().parent.name if whole_folder else file.stem


def _shipped(file: Path, text: str, *, whole_folder: bool) -> tuple[SourceFile, ...]:
    """Return the entry file first, then the folder's other sources where it is the candidate.

    A problem's reference is never shipped: a candidate could import it.
    """
    sources = [SourceFile(path=file.name, text=text)]
    if not whole_folder:
        return tuple(sources)
    folder = file.parent
    is_problem = (folder / "definition.json").is_file()
    for entry in sorted(folder.rglob("*")):
        relative = entry.relative_to(folder)
        hidden = any(part.startswith((".", "__pycache__")) for part in relative.parts)
        secret = is_problem and relative.parts[0] in ("reference.py", "candidates", "solutions")
        if hidden or secret or entry == file or entry.suffix not in _SHIPPED or not entry.is_file():
            continue
        text = read_beneath(folder, relative.as_posix(), CandidateError)
        sources.append(SourceFile(path=relative.as_posix(), text=text))
        if len(sources) > _FILE_LIMIT:
            raise CandidateError(
                f"{folder} holds more than {_FILE_LIMIT} source files, expected one candidate's; "
                "move the kernel into a folder of its own, or give the file itself"
            )
    return tuple(sources)


def _cuda(
    file: Path, text: str, problem: Problem, function: str | None, *, whole_folder: bool
) -> Candidate:
    sources = _shipped(file, text, whole_folder=whole_folder)
    if any(cuda_text.is_extension(source.text) for source in sources):
        names = [name for source in sources for name in cuda_text.exported(source.text)]
        entry = function or next(
            (name for name in (ENTRY, problem.name) if name in names),
            names[0] if len(names) == 1 else None,
        )
        if entry is None or (names and entry not in names):
            raise CandidateError(
                f"{file}: {UnknownNameError('exported function', entry or ENTRY, names)}; "
                f'export the entry with m.def("{ENTRY}", ...) or name it as {file.name}::FUNCTION'
            )
        # DESTINATION where the C++ function ends with the outputs or has room for them
        for source in sources:
            parameters = cuda_text.parameter_names(source.text, entry)
            if parameters is None:
                continue
            outputs = tuple(spec.name for spec in problem.outputs)
            whole = len(problem.inputs) + len(outputs)
            if parameters[-len(outputs) :] == outputs or len(parameters) == whole:
                convention = Convention.DESTINATION
                break
        else:
            convention = Convention.RETURNS
        return Candidate(
            name=_name(file, whole_folder),
            sources=sources,
            entry_file=file.name,
            entry_function=entry,
            language=Language.CUDA_EXTENSION,
            convention=convention,
            origin=file.absolute(),
        )
    from cuassay.formats import launches  # pydantic is slow to import

    declared = launches.read_declaration(file, text, problem)
    if declared is None:
        raise CandidateError(
            f"{file} has neither a PYBIND11_MODULE nor a declared launch (its kernels: "
            f"{', '.join(cuda_text.kernels(text)) or 'none'}); add a binding, or declare the "
            f"launch in {file.stem}.launch.toml or in a comment such as:\n{launches.EXAMPLE}"
        )
    if not cuda_text.has_c_linkage(text):
        raise CandidateError(
            f'{file} declares launches but no kernel is extern "C"; write '
            f'extern "C" __global__ void {declared.launches[0].kernel}(...) so that its name stays'
        )
    return Candidate(
        name=_name(file, whole_folder),
        sources=sources,
        entry_file=file.name,
        entry_function=function or declared.launches[0].kernel,
        language=Language.CUDA_KERNEL,
        convention=Convention.DESTINATION,  # so that a check may fill the outputs first
        flags=declared.flags,
        launches=declared.launches,
        scratch=declared.scratch,
        tile_maps=declared.tile_maps,
        zero_outputs=declared.zero_outputs,
        origin=file.absolute(),
    )
