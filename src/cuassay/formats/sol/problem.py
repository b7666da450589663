"""SOL-ExecBench problems: a folder of definition.json and workload.jsonl, or a single file.

The single file is a definition whose workloads stand beside it, or one that carries them in
`workloads` (a row of the published tables, whose columns may be JSON strings).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cuassay.errors import ProblemError
from cuassay.formats import infer
from cuassay.formats.sol.definition import read_axes, read_specs
from cuassay.formats.sol.reference_file import check_generator, check_reference, reference_path
from cuassay.formats.sol.schema import ConfigModel, DefinitionModel
from cuassay.formats.sol.workload import Declared, json_lines, read_workloads, undeclared_axes
from cuassay.formats.strict import read_model
from cuassay.formats.textfile import JSON_LIMIT_BYTES, parse_json, read_text
from cuassay.model.problem import Problem, Reference

Lines = Sequence[tuple[str, dict[str, Any]]]
DEFINITION = "definition.json"
_WORKLOADS = ("workload.jsonl", "workloads.jsonl")
_COLUMNS = ("axes", "inputs", "outputs", "workloads", "constraints", "tags")


def load_sol_problem(
    path: Path,
    *,
    strict: bool,
    notes: list[str],
    workloads: tuple[Lines, str] | None = None,
    folder: Path | None = None,
    origin: str = "sol-execbench",
) -> Problem:
    """Return the problem in `path`, a folder with definition.json or a definition file.

    `workloads` are its lines and their place where they do not stand beside it, `folder` is
    where paths of stored tensors start. Raises ProblemError. What can be ignored is, and `notes`
    says so; with `strict` it is refused.
    """
    file = path / DEFINITION if path.is_dir() else path
    where = str(file)
    # Decode columns that the published tables keep as JSON text
    data = dict(_read_object(file))
    for key in _COLUMNS:
        if isinstance(data.get(key), str):
            wrapped = parse_json(
                f'{{"value": {data[key]}}}', where=f"{where}: {key}", error=ProblemError
            )
            data[key] = wrapped.get("value")
    definition = read_model(
        DefinitionModel, data, where=where, error=ProblemError, strict=strict, notes=notes
    )
    if definition.held_at_the_example:
        held = "; ".join(definition.held_at_the_example)
        notes.append(f"these arguments stay as the example has them: {held}")
    beside = file.parent / "reference.py"
    if definition.reference.strip():
        if beside.is_file() and beside.read_bytes() != definition.reference.encode(
            errors="surrogatepass"
        ):
            notes.append(f"{beside} differs from {file.name}'s 'reference', which is what counts")
        source = definition.reference
    elif beside.is_file():
        source = read_text(beside, ProblemError)
    else:
        raise ProblemError(
            f"{file}: 'reference' is empty and there is no reference.py beside it: "
            "add the PyTorch source with 'def run(...)' to one of them"
        )
    check_reference(source, list(definition.inputs), where=where)
    if definition.custom_inputs_entrypoint is not None:
        check_generator(source, definition.custom_inputs_entrypoint, where=where)
    axes = read_axes(definition, where=where)
    inputs, outputs = read_specs(definition, where=where)
    lines, place = workloads or _workload_lines(definition, file)
    if not strict:
        axes = (*axes, *undeclared_axes(lines, axes, notes=notes))
    declared = Declared(
        axes=axes,
        inputs=inputs,
        outputs=outputs,
        generator=definition.custom_inputs_entrypoint,
        folder=folder or file.parent,
        strict=strict,
        notes=notes,
    )
    _check_config(file.parent / "config.json", strict=strict, notes=notes)
    problem = Problem(
        name=definition.name,
        axes=axes,
        inputs=inputs,
        outputs=outputs,
        reference=Reference(
            path=reference_path(source, file.parent / "reference.py"),
            source=source,
            generator=definition.custom_inputs_entrypoint,
        ),
        workloads=read_workloads(lines, declared, where=place),
        origin=origin,
        path=file.absolute(),
        description=definition.description or "",
        constraints=tuple(definition.constraints or ()),
    )
    return infer.with_domains(problem, op_type=definition.op_type or "")


def _read_object(file: Path) -> dict[str, Any]:
    text = read_text(file, ProblemError, limit_bytes=JSON_LIMIT_BYTES)
    return parse_json(text, where=str(file), error=ProblemError)


def _workload_lines(definition: DefinitionModel, file: Path) -> tuple[Lines, str]:
    if definition.workloads is not None:
        place = f"{file}: workloads"
        return [(f"{place}[{i}]", item) for i, item in enumerate(definition.workloads)], place
    choices = [file.parent / name for name in _WORKLOADS]
    if file.name != DEFINITION:
        choices.insert(0, file.with_suffix(".jsonl"))
    for choice in choices:
        if choice.exists():
            text = read_text(choice, ProblemError, limit_bytes=JSON_LIMIT_BYTES)
            return list(json_lines(text, where=str(choice))), str(choice)
    raise ProblemError(
        f"{choices[0]} does not exist: a problem needs its workloads; "
        f"put {_WORKLOADS[0]} beside {file.name}, one JSON object a line"
    )


def _check_config(file: Path, *, strict: bool, notes: list[str]) -> None:
    if file.is_file():
        read_model(
            ConfigModel,
            _read_object(file),
            where=str(file),
            error=ProblemError,
            strict=strict,
            notes=notes,
        )
