"""Launch declarations of raw CUDA kernels: a sidecar file, or a comment in the .cu file."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cuassay.errors import CandidateError, ProblemError, UnknownNameError
from cuassay.formats import cuda_text
from cuassay.formats.sol.solution_schema import (
    Extents,
    LaunchFileModel,
    LaunchModel,
    PixelColumnsModel,
    TileMapModel,
)
from cuassay.formats.strict import read_model
from cuassay.formats.textfile import parse_json, read_beneath
from cuassay.model.axes import evaluate, smallest_workload_axes
from cuassay.model.candidate import BuildFlags, Launch, PixelColumns, Scratch, TileMap
from cuassay.model.dtype import DType
from cuassay.model.problem import Problem, ScalarSpec

EXAMPLE = """\
// cuassay-launch:
// [[launches]]
// kernel = "my_kernel"
// grid = ["rows"]
// block = [256]
// arguments = ["x", "y", "rows:int32"]"""
_LOWEST = -(1 << 15)  # of a corner: cuTensorMapEncodeIm2col takes 16 bits


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """Everything that a raw kernel needs beside its source."""

    launches: tuple[Launch, ...]
    scratch: tuple[Scratch, ...]
    tile_maps: tuple[TileMap, ...]
    zero_outputs: bool
    flags: BuildFlags


def read_declaration(file: Path, text: str, problem: Problem) -> Declaration | None:
    """Return the launches declared for the kernels in `text`; None where nothing is declared.

    Raises CandidateError where a declaration names what neither source nor problem has.
    """
    found = _raw(file, text)
    if found is None:
        return None
    data, where = found
    model = read_model(LaunchFileModel, data, where=where, error=CandidateError, strict=True)
    scratch: list[Scratch] = []
    for item in model.scratch:
        place = f"{where}: scratch.{item.name}"
        if item.dtype not in [dtype.value for dtype in DType]:
            legal = [dtype.value for dtype in DType]
            raise CandidateError(f"{place}: {UnknownNameError('dtype', item.dtype, legal)}")
        size = _expression(item.size, smallest_workload_axes(problem), f"{place}.size", 1)
        scratch.append(Scratch(name=item.name, dtype=item.dtype, size=size, zeroed=item.zeroed))
    names = _Names.of(problem, scratch)
    tile_maps = tuple(_tile_map(item, names, where=where) for item in model.tensor_maps)
    names = replace(names, maps=tuple(item.name for item in tile_maps))
    kernels = cuda_text.kernels(text)
    launches = tuple(
        _launch(item, kernels, names, where=f"{where}: launches[{number}]")
        for number, item in enumerate(model.launches)
    )
    return Declaration(
        launches=launches,
        scratch=tuple(scratch),
        tile_maps=tile_maps,
        zero_outputs=model.zero_outputs,
        flags=BuildFlags(cuda_cflags=tuple(model.cuda_cflags)),
    )


def _raw(file: Path, text: str) -> tuple[dict[str, Any], str] | None:
    """Return the declaration's data and its place: the sidecar file wins over the comment."""
    for suffix in (".launch.toml", ".launch.json"):
        sidecar = file.with_name(file.stem + suffix)
        if sidecar.exists():
            content = read_beneath(file.parent, sidecar.name, CandidateError)
            if suffix == ".launch.json":
                parsed = parse_json(content, where=str(sidecar), error=CandidateError)
                return parsed, str(sidecar)
            return _toml(content, where=str(sidecar), first_line=1), str(sidecar)
    comment = cuda_text.launch_comment(text)
    if comment is None:
        return None
    toml, line = comment
    return _toml(toml, where=str(file), first_line=line), f"{file}: line {line}"


def _toml(text: str, *, where: str, first_line: int) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as failure:
        place = re.search(r"\(at line (\d+), column (\d+)\)", str(failure))
        line = int(place.group(1)) + first_line - 1 if place else first_line
        message = re.sub(r" \(at .*\)$", "", str(failure))
        raise CandidateError(
            f"{where}: line {line}: not valid TOML: {message}; expected for example:\n{EXAMPLE}"
        ) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Names:
    """Names that arguments and expressions may use. `sizes` holds one workload's axes."""

    buffers: tuple[str, ...]
    scalars: tuple[str, ...]
    integers: tuple[str, ...]  # scalars that argument expressions may use
    sizes: Mapping[str, int]
    maps: tuple[str, ...] = ()

    @staticmethod
    def of(problem: Problem, scratch: Sequence[Scratch]) -> _Names:
        numbers = [spec for spec in problem.inputs if isinstance(spec, ScalarSpec)]
        scalars = [spec.name for spec in numbers]
        tensors = [spec.name for spec in problem.inputs if spec.name not in scalars]
        buffers = [*tensors, *(spec.name for spec in problem.outputs)]
        for item in scratch:
            if item.name in (*buffers, *scalars, *(axis.name for axis in problem.axes)):
                raise CandidateError(
                    f"the scratch buffer '{item.name}' has the name of an input, output, axis or "
                    "other buffer; rename it"
                )
            buffers.append(item.name)
        return _Names(
            buffers=tuple(buffers),
            scalars=tuple(scalars),
            integers=tuple(spec.name for spec in numbers if not spec.dtype.is_floating),
            sizes=smallest_workload_axes(problem),
        )


def _launch(model: LaunchModel, kernels: Sequence[str], names: _Names, *, where: str) -> Launch:
    if model.kernel not in kernels:
        raise CandidateError(f"{where}: {UnknownNameError('kernel', model.kernel, kernels)}")
    for argument in model.arguments:
        _check_argument(argument, names, where=f"{where}.arguments")
    return Launch(
        kernel=model.kernel,
        grid=_three(model.grid, names, where=f"{where}.grid"),
        block=_three(model.block, names, where=f"{where}.block"),
        arguments=tuple(model.arguments),
        shared_bytes=_expression(model.shared_bytes, names.sizes, f"{where}.shared_bytes", 0),
        cluster=_three(model.cluster, names, where=f"{where}.cluster"),
    )


def _three(extents: Extents, names: _Names, *, where: str) -> tuple[str, str, str]:
    listed = extents if isinstance(extents, list) else [extents]
    texts = [_expression(extent, names.sizes, where, 1) for extent in listed]
    x, y, z = [*texts, "1", "1"][:3]
    return x, y, z


def _expression(value: str | int, sizes: Mapping[str, int], where: str, least: int) -> str:
    text = str(value)
    try:
        size = evaluate(text, sizes)
    except ProblemError as failure:
        raise CandidateError(f"{where}: {failure}") from None
    if size < least:
        raise CandidateError(
            f"{where}: '{text}' is {size} for the smallest workload, expected {least} or more; "
            "round up with -(-n // tile)"
        )
    return text


def _check_argument(argument: str, names: _Names, *, where: str) -> None:
    text, separator, suffix = argument.rpartition(":")
    expression = text if separator else argument
    if suffix == "float32" and _is_number(expression):
        return
    if separator and suffix != "int32":
        raise CandidateError(
            f"{where}: '{argument}' has the suffix ':{suffix}', expected ':int32', none "
            "(64-bit integer), or ':float32' behind a number"
        )
    if expression in names.buffers and separator:
        raise CandidateError(f"{where}: '{argument}' is a buffer; drop the suffix ':{suffix}'")
    if expression in (*names.buffers, *names.scalars) or argument in names.maps:
        return
    if expression.isidentifier() and expression not in names.sizes:
        legal = (*names.buffers, *names.maps, *names.scalars, *names.sizes)
        raise CandidateError(f"{where}: {UnknownNameError('argument', expression, legal)}")
    try:
        evaluate(expression, {**names.sizes, **dict.fromkeys(names.integers, 1)})
    except ProblemError as failure:
        raise CandidateError(f"{where}: {failure}") from None


def _tile_map(model: TileMapModel, names: _Names, *, where: str) -> TileMap:
    place = f"{where}: tensor_maps.{model.name}"
    if model.name in (*names.buffers, *names.scalars, *names.sizes):
        raise CandidateError(f"{place} has the name of a tensor, scalar or axis; rename it")
    if model.tensor not in names.buffers:
        raise CandidateError(f"{place}: {UnknownNameError('tensor', model.tensor, names.buffers)}")
    if bool(model.box) == (model.im2col is not None):
        given = "both" if model.box else "neither"
        raise CandidateError(f"{place} has {given} of 'box' and 'im2col'; give one of them")
    rank = len(model.im2col.lower) + 2 if model.im2col else len(model.box)
    if model.shape and len(model.shape) != rank:
        what = "im2col" if model.im2col else "box"
        raise CandidateError(
            f"{place}: {what} has {rank} dimensions, shape {len(model.shape)}; give as many"
        )
    return TileMap(
        name=model.name,
        tensor=model.tensor,
        box=tuple(_expression(one, names.sizes, f"{place}.box", 1) for one in model.box),
        columns=_columns(model.im2col, names, f"{place}.im2col") if model.im2col else None,
        shape=tuple(_expression(one, names.sizes, f"{place}.shape", 1) for one in model.shape),
        swizzle=model.swizzle,
        nan_fill=model.fill == "nan",
    )


def _columns(model: PixelColumnsModel, names: _Names, place: str) -> PixelColumns:
    if len(model.upper) != len(model.lower) or len(model.strides) not in (0, len(model.lower)):
        raise CandidateError(
            f"{place}: lower has {len(model.lower)} dimensions, upper {len(model.upper)}, strides "
            f"{len(model.strides)}; give as many (strides may be left out)"
        )

    def each(values: Sequence[str | int], field: str, least: int) -> tuple[str, ...]:
        return tuple(_expression(one, names.sizes, f"{place}.{field}", least) for one in values)

    return PixelColumns(
        lower=each(model.lower, "lower", _LOWEST),
        upper=each(model.upper, "upper", _LOWEST),
        channels=each([model.channels], "channels", 1)[0],
        pixels=each([model.pixels], "pixels", 1)[0],
        strides=each(model.strides, "strides", 1),
    )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
