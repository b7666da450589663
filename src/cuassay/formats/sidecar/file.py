"""A small file beside a problem that overrides what was inferred or declared.

`cuassay.toml` in a problem's folder, `<stem>.cuassay.toml` beside a single file:

    [domains.x]
    kind = "real"          # a class of cuassay.model.domain, and its fields
    low = 0.0
    [axes.rows]
    max = 4096
    multiple_of = 8
    [facts.position_ids]
    arange = true          # what holds in every call: no case of cuassay breaks it

What it states is part of the problem from then on: of its digest, its run folder, its replay.
"""

from __future__ import annotations

import tomllib
from dataclasses import replace

from cuassay.errors import ProblemError
from cuassay.formats.sidecar import axes as sidecar_axes
from cuassay.formats.sidecar import domains as sidecar_domains
from cuassay.formats.sidecar import facts as sidecar_facts
from cuassay.formats.textfile import read_text
from cuassay.model.digest import problem_digest
from cuassay.model.problem import Problem

NAME = "cuassay.toml"
_FOLDER_FILES = ("definition.json", "problem.py")  # what a problem's folder is recognised by
_LIMIT_BYTES = 2**20


def applied(problem: Problem, *, notes: list[str]) -> Problem:
    """Return the problem as its sidecar file has it, or as it is where there is none.

    `notes` says what was overridden. Raises ProblemError for a file that contradicts itself
    or the problem.
    """
    # The sidecar of the problem's file, if there is one. Raises ProblemError for two.
    path = problem.path
    if path is None:
        file = None
    else:
        choices = [path.with_suffix(f".{NAME}")]
        if path.suffix == ".py" and problem.reference.function.isidentifier():
            choices.append(path.with_suffix(f".{problem.reference.function}.{NAME}"))
        in_folder = path.parent / NAME
        if path.name in _FOLDER_FILES:
            choices.append(in_folder)
        # A link that leads nowhere is a mistake to be told of, not a file that is absent.
        found = [choice for choice in choices if choice.exists() or choice.is_symlink()]
        if len(found) > 1:
            listed = " and ".join(choice.name for choice in found)
            raise ProblemError(
                f"{path.parent} holds {listed}, both for {path.name}; keep one of them"
            )
        if not found and in_folder.exists() and in_folder not in choices:
            notes.append(f"{NAME} is not read: for {path.name} the name is {choices[0].name}")
        file = found[0] if found else None
    if file is None:
        return problem
    from cuassay.formats.sidecar.schema import SidecarModel  # pydantic is slow to import
    from cuassay.formats.strict import read_model

    where = str(file)
    text = read_text(file, ProblemError, limit_bytes=_LIMIT_BYTES)
    try:
        tables = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError, ValueError) as failure:
        # ValueError: an integer of thousands of digits, a date that does not exist
        raise ProblemError(f"{file}: not valid TOML: {failure}; correct it there") from None
    stated = read_model(
        SidecarModel,
        tables,
        where=where,
        error=ProblemError,
        strict=True,
    )
    made = sidecar_axes.with_bounds(problem, stated, file=file)
    made = sidecar_domains.with_domains(made, stated, file=file)
    made = sidecar_facts.with_facts(made, stated, file=file)
    made = sidecar_axes.with_growth(made, stated, where=where)
    rest = stated.model_fields_set - {"domains", "axes", "facts"}
    told = [*(f"domains.{name}" for name in stated.domains), *sorted(rest)]
    told += [f"axes.{name}" for name in stated.axes]
    told += [f"facts.{name}" for name in stated.facts]
    notes.append(f"{file.name} overrides {', '.join(told) or 'nothing: it is empty'}")
    return replace(made, digest=problem_digest(made))
