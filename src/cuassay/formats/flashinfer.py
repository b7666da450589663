"""flashinfer-trace data sets: definitions/<op>/<name>.json with workloads/<op>/<name>.jsonl.

The definition is that of SOL-ExecBench with an `op_type` and without expression axes; a workload
stands in a Trace that has neither solution nor evaluation. Solutions name one `language`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import Field

from cuassay.errors import CandidateError, ProblemError
from cuassay.formats import cuda_text, signature
from cuassay.formats.entry import find_entry
from cuassay.formats.sol import problem as sol
from cuassay.formats.sol import solution
from cuassay.formats.sol.solution_schema import CompileOptionsModel, Name, SourceFileModel
from cuassay.formats.sol.workload import json_lines
from cuassay.formats.strict import StrictModel, read_model
from cuassay.formats.textfile import JSON_LIMIT_BYTES, read_text
from cuassay.model.candidate import Candidate, Convention, Language, SourceFile
from cuassay.model.problem import Problem

ORIGIN = "flashinfer-trace"
_PYTHON = ("python", "triton", "tilelang", "cute_dsl")
_CUDA = ("cuda", "cpp")


class TraceSpecModel(StrictModel):
    """How a solution is built and called; without the style its entry's parameters tell."""

    hints: ClassVar = {"languages": "did you mean 'language', one name?"}

    language: Name
    entry_point: Name
    target_hardware: list[str] = Field(default_factory=list)
    dependencies: list[str] | None = None
    build_commands: list[str] | None = None  # of older data sets; nothing runs them
    destination_passing_style: bool | None = None
    binding: str | None = None
    compile_options: CompileOptionsModel | None = None


class TraceSolutionModel(StrictModel):
    """A solution of the data set."""

    name: Name
    definition: Name
    author: Name
    spec: TraceSpecModel
    sources: Annotated[list[SourceFileModel], Field(min_length=1)]
    description: str | None = None


def root_of(path: Path) -> Path | None:
    """Return the data set's folder where `path` stands in its `definitions`, else None."""
    for parent in path.absolute().parents:
        if parent.name == "definitions":
            return parent.parent
    return None


def load_flashinfer_problem(path: Path, root: Path, *, strict: bool, notes: list[str]) -> Problem:
    """Return the problem of a definition with the workloads of its data set.

    Raises ProblemError.
    """
    relative = path.absolute().relative_to(root / "definitions").with_suffix(".jsonl")
    places = [root / name / relative for name in ("workloads", "traces")]
    found = next((place for place in places if place.is_file()), None)
    if found is None:
        raise ProblemError(
            f"{root / 'workloads' / relative} does not exist: a definition needs its workloads; "
            "put them there, one Trace a line"
        )
    text = read_text(found, ProblemError, limit_bytes=JSON_LIMIT_BYTES)
    # The workloads inside Traces, each once: a trace of a solution repeats it.
    workloads: dict[str, tuple[str, dict[str, Any]]] = {}
    for number, (place, data) in enumerate(json_lines(text, where=str(found))):
        inner = data.get("workload", data)
        if not isinstance(inner, dict):
            raise ProblemError(f"{place}: 'workload' is no object; expected axes, inputs and uuid")
        workloads.setdefault(str(inner.get("uuid", number)), (place, inner))
    return sol.load_sol_problem(
        path,
        strict=strict,
        notes=notes,
        workloads=(list(workloads.values()), str(found)),
        folder=root,
        origin=ORIGIN,
    )


def is_solution(data: dict[str, Any]) -> bool:
    """Whether a solution is of this data set: its spec names one language."""
    spec = data.get("spec")
    return isinstance(spec, dict) and "language" in spec and "languages" not in spec


def load_solution(
    data: dict[str, Any], file: Path, problem: Problem, *, strict: bool, notes: list[str]
) -> Candidate:
    """Return the candidate of a solution. Raises CandidateError."""
    where = str(file)
    model = read_model(
        TraceSolutionModel, data, where=where, error=CandidateError, strict=strict, notes=notes
    )
    solution.check_definition(model.definition, problem, where=where, strict=strict, notes=notes)
    sources = solution.read_sources(model.sources, file.parent, where=where)
    language = _language(model.spec, sources, where=where)
    entry_file, function = solution.read_entry(
        model.spec.entry_point, language, sources, where=where
    )
    if model.spec.destination_passing_style is not None:
        style = model.spec.destination_passing_style
        convention = Convention.DESTINATION if style else Convention.RETURNS
    elif model.spec.language in _CUDA:
        convention = Convention.DESTINATION
    else:
        text = next(source.text for source in sources if source.path == entry_file)
        if _takes_outputs(text, function, problem):
            convention = Convention.DESTINATION
        else:
            convention = find_entry(text, function, problem, where=f"{where}: {entry_file}")[1]
    return Candidate(
        name=model.name,
        sources=sources,
        entry_file=entry_file,
        entry_function=function,
        language=language,
        convention=convention,
        flags=solution.read_flags(model.spec.compile_options),
        author=model.author,
        origin=file.absolute(),
    )


def _language(spec: TraceSpecModel, sources: Sequence[SourceFile], *, where: str) -> Language:
    if spec.language in _PYTHON:
        return Language.PYTHON
    if spec.language not in _CUDA:
        raise CandidateError(
            f"{where}: spec.language is '{spec.language}', expected one of "
            f"{', '.join((*_PYTHON, *_CUDA))}"
        )
    if not any(cuda_text.is_extension(source.text) for source in sources):
        raise CandidateError(
            f"{where}: this solution is bound by {spec.binding or 'tvm-ffi'}, which cuassay does "
            "not build; bind it with torch (a PYBIND11_MODULE that exports the entry function)"
        )
    return Language.CUDA_EXTENSION


def _takes_outputs(text: str, function: str, problem: Problem) -> bool:
    """Whether an entry takes as many arguments as there are inputs and outputs, by any name."""
    try:
        found = signature.functions(signature.syntax_tree(text, "solution")).get(function)
    except SyntaxError:
        return False  # the build reports it, as the candidate's fault
    return found is not None and len(found.parameters) == len(problem.inputs) + len(problem.outputs)
