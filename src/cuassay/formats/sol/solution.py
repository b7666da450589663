"""solution.json of SOL-ExecBench as a candidate; sources without content are read beside it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from cuassay.errors import CandidateError, UnknownNameError, suggestion
from cuassay.formats import cuda_text
from cuassay.formats.entry import checked_entry
from cuassay.formats.sol.solution_schema import (
    CUDA_LANGUAGES,
    PYTHON_LANGUAGES,
    CompileOptionsModel,
    SolutionModel,
    SourceFileModel,
)
from cuassay.formats.strict import read_model
from cuassay.formats.textfile import read_beneath
from cuassay.model.candidate import BuildFlags, Candidate, Convention, Language, SourceFile
from cuassay.model.problem import Problem


def load_solution(
    data: dict[str, Any], file: Path, problem: Problem, *, strict: bool, notes: list[str]
) -> Candidate:
    """Return the candidate of a solution.json's `data`. Raises CandidateError."""
    where = str(file)
    model = read_model(
        SolutionModel, data, where=where, error=CandidateError, strict=strict, notes=notes
    )
    check_definition(model.definition, problem, where=where, strict=strict, notes=notes)
    python = [name for name in model.spec.languages if name in PYTHON_LANGUAGES]
    cuda = [name for name in model.spec.languages if name in CUDA_LANGUAGES]
    if python and cuda:
        text = (
            f"{where}: spec.languages mixes '{python[0]}' with '{cuda[0]}', expected either only "
            f"Python ones ({', '.join(PYTHON_LANGUAGES)}) or only C++ ones "
            f"({', '.join(CUDA_LANGUAGES)}); keep the family of the entry point"
        )
        if strict:
            raise CandidateError(text)
        notes.append(text)
        if PurePosixPath(model.spec.entry_point.partition("::")[0]).suffix != ".py":
            python = []
    language = Language.PYTHON if python else Language.CUDA_EXTENSION
    sources = read_sources(model.sources, file.parent, where=where)
    entry_file, entry_function = read_entry(model.spec.entry_point, language, sources, where=where)
    convention = (
        Convention.DESTINATION if model.spec.destination_passing_style else Convention.RETURNS
    )
    if language is Language.PYTHON:
        source = next(item.text for item in sources if item.path == entry_file)
        checked_entry(
            source, entry_function, problem, convention=convention, where=f"{where}: {entry_file}"
        )
    return Candidate(
        name=model.name,
        sources=sources,
        entry_file=entry_file,
        entry_function=entry_function,
        language=language,
        convention=convention,
        flags=read_flags(model.spec.compile_options),
        author=model.author,
        origin=file.absolute(),
    )


def check_definition(
    definition: str, problem: Problem, *, where: str, strict: bool, notes: list[str]
) -> None:
    """Check that a solution is for this problem. Raises CandidateError."""
    if definition == problem.name or problem.origin == "native":
        return  # a native twin of a foreign problem has a name of its own
    text = (
        f"{where}: definition is '{definition}', but the problem is '{problem.name}'; "
        "give the problem that it was written for, or correct the name"
    )
    if strict:
        raise CandidateError(f"{text}, or read without --strict")
    notes.append(text)


def read_sources(
    models: Sequence[SourceFileModel], folder: Path, *, where: str
) -> tuple[SourceFile, ...]:
    """Return the sources, those without content read beside the file. Raises CandidateError."""
    sources: dict[str, SourceFile] = {}
    for number, model in enumerate(models):
        place = f"{where}: sources[{number}].path '{model.path}'"
        pure = PurePosixPath(model.path)
        if pure.is_absolute() or ".." in pure.parts or "\\" in model.path or "\0" in model.path:
            raise CandidateError(
                f"{place} leaves the candidate's folder, expected a relative path with forward "
                "slashes and without '..'"
            )
        path = str(pure)
        if path in sources:
            raise CandidateError(f"{place} stands twice; keep one of them")
        content = model.content
        if not (content and content.strip()):
            file = folder / path
            if not file.is_file():
                raise CandidateError(
                    f"{place} has no content and {file} does not exist; "
                    "fill in 'content' or put the file there"
                )
            text = read_beneath(folder, path, CandidateError)
            if not text.strip():
                raise CandidateError(
                    f"{place} has no content and {file} is empty; write the source"
                )
            content = text
        sources[path] = SourceFile(path=path, text=content)
    return tuple(sources.values())


def read_entry(
    entry_point: str, language: Language, sources: Sequence[SourceFile], *, where: str
) -> tuple[str, str]:
    """Return file and function of FILE::FUNCTION. Raises CandidateError."""
    place = f"{where}: spec.entry_point '{entry_point}'"
    file, separator, function = entry_point.partition("::")
    if not separator or "::" in function or not file or not function.isidentifier():
        raise CandidateError(f"{place}: expected FILE::FUNCTION, such as 'kernel.py::run'")
    paths = [source.path for source in sources]
    file = str(PurePosixPath(file))
    if file not in paths:
        near = suggestion(file, paths)
        raise CandidateError(
            f"{place}: '{file}' is not among the sources{': ' + near if near else ''} "
            f"(known: {', '.join(paths)})"
        )
    legal = (".py",) if language is Language.PYTHON else cuda_text.CUDA_SUFFIXES
    if PurePosixPath(file).suffix not in legal:
        raise CandidateError(
            f"{place}: '{file}' does not fit the languages, expected a file that ends in "
            f"{' or '.join(legal)}; correct the entry point or spec.languages"
        )
    if language is Language.CUDA_EXTENSION:
        # Check the exports where they can be read; a macro may export what no text shows.
        names = [name for source in sources for name in cuda_text.exported(source.text)]
        if names and function not in names:
            raise CandidateError(
                f"{place}: {UnknownNameError('exported function', function, names)}"
            )
    return file, function


def read_flags(options: CompileOptionsModel | None) -> BuildFlags:
    """Return the flags of a solution; none where it has no options."""
    if options is None:
        return BuildFlags()
    return BuildFlags.as_written(
        cflags=options.cflags, cuda_cflags=options.cuda_cflags, ld_flags=options.ld_flags
    )
