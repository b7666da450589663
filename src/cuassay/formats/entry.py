"""The entry function of a Python candidate, found in its syntax tree: nothing is executed."""

from __future__ import annotations

from cuassay.errors import CandidateError, suggestion
from cuassay.formats import signature
from cuassay.model.candidate import Convention
from cuassay.model.problem import Problem

ENTRY = "run"


def find_entry(
    source: str, function: str | None, problem: Problem, *, where: str
) -> tuple[str, Convention]:
    """Return the entry function and how it gives its results back.

    The entry is `function` where one is named, else `run`, a function with the problem's name,
    or the only public one. A source that does not parse is left to the build, which reports it
    as the candidate's fault. Raises CandidateError.
    """
    try:
        tree = signature.syntax_tree(source, where)
    except SyntaxError:
        return function or ENTRY, Convention.RETURNS
    found = signature.functions(tree)
    name = function or _choose(found, signature.bound_names(tree), problem, where=where)
    _check_exists(name, found, signature.bound_names(tree), where=where)
    if name not in found or signature.wraps_arguments(tree, name):
        return name, Convention.RETURNS
    entry = found[name]
    if entry.is_async:
        raise CandidateError(
            f"{where}: line {entry.line}: '{entry}' is async, expected a plain def"
        )
    if _takes_outputs(entry, problem):
        convention = Convention.DESTINATION
    elif entry.accepts(len(problem.inputs)):
        convention = Convention.RETURNS
    else:
        returns = ", ".join(_expected(problem, Convention.RETURNS))
        writes = ", ".join(_expected(problem, Convention.DESTINATION))
        raise CandidateError(
            f"{where}: line {entry.line}: the parameters of '{entry}' do not match the problem "
            f"'{problem.name}': expected 'def {entry.name}({returns})' returning the outputs, or "
            f"'def {entry.name}({writes})' writing into them"
        )
    return name, convention


def entry_name(source: str, function: str | None, problem: Problem, *, where: str) -> str:
    """Return the entry function of a source whose parameters need not be the problem's inputs.

    Raises CandidateError where there is none.
    """
    try:
        tree = signature.syntax_tree(source, where)
    except SyntaxError:
        return function or ENTRY
    found = signature.functions(tree)
    bound = signature.bound_names(tree)
    name = function or _choose(found, bound, problem, where=where)
    _check_exists(name, found, bound, where=where)
    return name


def checked_entry(
    source: str, function: str, problem: Problem, *, convention: Convention, where: str
) -> None:
    """Check that `function` exists and takes what `convention` passes. Raises CandidateError."""
    try:
        tree = signature.syntax_tree(source, where)
    except SyntaxError:
        return  # reported by the build, as the candidate's fault
    found = signature.functions(tree)
    _check_exists(function, found, signature.bound_names(tree), where=where)
    if function not in found or signature.wraps_arguments(tree, function):
        return
    entry = found[function]
    names = _expected(problem, convention)
    if entry.is_async or not entry.accepts(len(names)):
        style = "true" if convention is Convention.DESTINATION else "false"
        raise CandidateError(
            f"{where}: line {entry.line}: '{entry}' cannot take the {len(names)} arguments that "
            f"destination_passing_style = {style} passes; expected "
            f"'def {function}({', '.join(names)})'"
        )


def _choose(
    found: dict[str, signature.Signature], bound: frozenset[str], problem: Problem, *, where: str
) -> str:
    for name in (ENTRY, problem.name):
        if name in found or (name == ENTRY and name in bound):
            return name
    public = [name for name in found if not name.startswith("_")]
    fitting = [
        name
        for name in public
        if not found[name].is_async
        and (_takes_outputs(found[name], problem) or found[name].accepts(len(problem.inputs)))
    ]
    for choice in (public, fitting):
        if len(choice) == 1:
            return choice[0]
    listed = ", ".join(str(found[name]) for name in public) or "none"
    raise CandidateError(
        f"{where}: no entry function: expected 'def {ENTRY}("
        f"{', '.join(_expected(problem, Convention.RETURNS))})', one named '{problem.name}', or "
        f"only one public function (its public functions: {listed}); "
        "name the entry as FILE.py::FUNCTION"
    )


def _check_exists(
    name: str, found: dict[str, signature.Signature], bound: frozenset[str], *, where: str
) -> None:
    if name in found or name in bound or "*" in bound:
        return
    near = suggestion(name, found)
    raise CandidateError(
        f"{where}: there is no function '{name}'{': ' + near if near else ''} "
        f"(its functions: {', '.join(found) or 'none'}); name the entry as FILE.py::FUNCTION"
    )


def _expected(problem: Problem, convention: Convention) -> list[str]:
    names = [spec.name for spec in problem.inputs]
    if convention is Convention.DESTINATION:
        names += [spec.name for spec in problem.outputs]
    return names


def _takes_outputs(entry: signature.Signature, problem: Problem) -> bool:
    outputs = tuple(spec.name for spec in problem.outputs)
    return (
        problem.ranks is None  # a rank's outputs are parts of them, which it returns
        and entry.parameters[-len(outputs) :] == outputs
        and len(entry.parameters) == len(problem.inputs) + len(outputs)
        and not entry.keyword_required
    )
