"""Launches that a torch extension's source spells out: `kernel<<<grid, block, bytes>>>(...)`.

For machines without a GPU: the PTX machine needs kernels and launches, not a Python module.
Kernels are cut out of the source by their brackets; a host function of plain declarations,
tensor queries and launches is read into expressions of the problem's axes. What cannot be read
is said, with what to declare instead. Nothing is compiled or run here.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from cuassay.errors import CandidateError
from cuassay.formats import cuda_text
from cuassay.formats.cpp_expressions import Unreadable, declarations, split, translated
from cuassay.formats.launches import EXAMPLE
from cuassay.model.candidate import Candidate, Convention, Language, Launch, Scratch, SourceFile
from cuassay.model.problem import Problem, ScalarSpec, TensorSpec

_LAUNCH = re.compile(r"\b(\w+)\s*(<[^<>;]*>)?\s*<<<(.*?)>>>\s*\(", re.DOTALL)
_HOST = re.compile(r"\b(\w+)\s*\(([^(){};]*)\)\s*\{")
_POINTER = re.compile(r"^(\w+)\s*\.\s*(?:mutable_|const_)?data_ptr\s*(?:<[^()]*>)?\s*\(\s*\)$")
_CAST = re.compile(
    r"^(?:reinterpret_cast|static_cast|const_cast)\s*<[^()]*>\s*\((.*)\)$"
    r"|^\(\s*(?:const\s+)?[\w:]+\s*(?:const\s*)?\*?\s*\)\s*(.*)$",
    re.DOTALL,
)
_BOUNDS = r"__launch_bounds__\s*\([^)]*\)"
_LIST = re.compile(r"^(?:std::)?(?:make_tuple|tuple|vector[^({]*)?\s*[({](.*)[)}]$", re.DOTALL)
_TYPES = {
    "torch::kFloat": "float32", "torch::kFloat32": "float32", "torch::kHalf": "float16",
    "torch::kFloat16": "float16", "torch::kBFloat16": "bfloat16", "torch::kInt": "int32",
    "torch::kInt32": "int32", "torch::kLong": "int64", "torch::kInt64": "int64",
}  # fmt: skip
_HEADERS = ("cuda_fp16.h", "cuda_bf16.h", "cuda_fp8.h", "mma.h", "cuda_pipeline.h",
            "cooperative_groups.h", "cub/", "cstdint", "stdint.h", "math.h", "cmath",
            "cfloat", "float.h", "limits")  # fmt: skip


@dataclass(slots=True)
class _Host:
    """What is known of a host function's names: tensors by shape, integers, what it makes."""

    shapes: dict[str, tuple[str, ...]] = field(default_factory=dict)
    types: dict[str, str] = field(default_factory=dict)
    values: dict[str, str] = field(default_factory=dict)  # integers, as axis expressions
    passed: dict[str, str] = field(default_factory=dict)  # host name -> name of the problem
    made: dict[str, bool] = field(default_factory=dict)  # tensors made here: zeroed?


def as_kernels(candidate: Candidate, problem: Problem) -> Candidate:
    """Return an extension as raw kernels with the launches that its source spells out.

    Raises CandidateError that says what cannot be read, and what to declare instead.
    """
    text = "\n".join(source.text for source in candidate.sources)
    plain = cuda_text.without_comments(text)
    try:
        name, parameters, body = _host_function(plain, candidate.entry_function)
        host = _parameters(parameters, problem)
        launches = _launches(body, host)
        outputs = _returned(body, host, problem)
        launches = tuple(_renamed(launch, {**host.passed, **outputs}) for launch in launches)
    except Unreadable as why:
        raise CandidateError(_message(candidate, str(why))) from None
    zeroed = {host.made[item] for item in outputs if item in host.made}
    kernels = tuple(dict.fromkeys(launch.kernel for launch in launches))
    source = SourceFile(path="kernels.cu", text=device_source(text, kernels))
    return dataclasses.replace(
        candidate,
        sources=(source,),
        entry_file="kernels.cu",
        entry_function=name,
        language=Language.CUDA_KERNEL,
        convention=Convention.RETURNS,
        launches=launches,
        scratch=tuple(_scratch(item, host) for item in host.made if item not in outputs),
        zero_outputs=True in zeroed,
    )


def device_source(text: str, kernels: Sequence[str]) -> str:
    """Return the device code of a source, lines kept: kernels get C linkage, host code goes."""
    kept = []
    for line in text.splitlines():
        include = re.match(r'\s*#\s*include\s*[<"]([^>"]+)[>"]', line)
        kept.append("" if include and not include[1].startswith(_HEADERS) else line)
    out = "\n".join(kept)
    for start, end in reversed(_host_spans(out)):
        out = out[:start] + "\n" * out.count("\n", start, end) + out[end:]
    for kernel in kernels:
        out = re.sub(
            rf'(?<!extern "C" )__global__((?:[^;{{}}()]|{_BOUNDS})*?\b{kernel}\s*\()',
            r'extern "C" __global__\1',
            out,
            count=1,
        )
    return out


def _host_spans(text: str) -> list[tuple[int, int]]:
    """Return where functions of the host stand: those that speak of torch, and the module."""
    found = []
    for match in re.finditer(r"^[^\s#/}][^;{}]*?\([^;{}]*\)\s*\{", text, re.MULTILINE):
        head = match.group(0)
        start = match.start()
        end = _closing(text, match.end() - 1)
        if "__global__" in head or "__device__" in head or "struct " in head:
            continue
        body = text[start:end]
        if "<<<" in body or re.search(r"\b(torch|at|c10|PYBIND11_MODULE)\b", body):
            found.append((start, end))
    return found


def _closing(text: str, opening: int) -> int:
    """Return the place behind the bracket that closes the one at `opening`."""
    depth = 0
    for place in range(opening, len(text)):
        depth += (text[place] in "({[") - (text[place] in ")}]")
        if depth == 0:
            return place + 1
    raise Unreadable("its brackets do not match")


def _host_function(plain: str, exported: str) -> tuple[str, str, str]:
    """Return name, parameters and body of the function that launches."""
    bound = re.search(rf'\.\s*def\s*\(\s*"{re.escape(exported)}"\s*,\s*&?\s*(\w+)', plain)
    wanted = bound[1] if bound else exported
    for match in _HOST.finditer(plain):
        if match[1] == wanted:
            end = _closing(plain, match.end() - 1)
            return wanted, match[2], plain[match.end() : end - 1]
    raise Unreadable(f"the function '{wanted}' is not defined in it with a plain signature")


def _parameters(text: str, problem: Problem) -> _Host:
    names = [re.findall(r"\w+", part.partition("=")[0])[-1:] for part in split(text)]
    flat = [name[0] for name in names if name]
    if len(flat) != len(problem.inputs):
        raise Unreadable(
            f"its host function takes {len(flat)} arguments, the problem has "
            f"{len(problem.inputs)} inputs"
        )
    host = _Host()
    for name, spec in zip(flat, problem.inputs, strict=True):
        host.passed[name] = spec.name
        if isinstance(spec, TensorSpec):
            host.shapes[name] = spec.shape
            host.types[name] = spec.dtype.value
        elif isinstance(spec, ScalarSpec) and not spec.dtype.is_floating:
            host.values[name] = spec.name
    return host


def _launches(body: str, host: _Host) -> tuple[Launch, ...]:
    found: list[Launch] = []
    place = 0
    for match in _LAUNCH.finditer(body):
        _declare(body[place : match.start()], host)
        end = _closing(body, match.end() - 1)
        place = end
        if match[2]:
            raise Unreadable(f"'{match[1]}{match[2]}' is a template, which has no plain name")
        found.append(_launch(match, split(body[match.end() : end - 1]), host))
    if not found:
        raise Unreadable("its host function launches no kernel by <<< >>>")
    _declare(body[place:], host)
    return tuple(found)


def _launch(match: re.Match[str], arguments: Sequence[str], host: _Host) -> Launch:
    extents = split(match[3])
    if len(extents) < 2:
        raise Unreadable(f"the launch of '{match[1]}' names no grid and block")
    return Launch(
        kernel=match[1],
        grid=_extent(extents[0], host),
        block=_extent(extents[1], host),
        arguments=tuple(_argument(text.strip(), host) for text in arguments),
        shared_bytes=translated(extents[2], host.values, host.shapes) if len(extents) > 2 else "0",
    )


def _extent(text: str, host: _Host) -> tuple[str, str, str]:
    text = host.values.get(text.strip(), text.strip())
    inner = re.match(r"^dim3\s*[({](.*)[)}]$", text, re.DOTALL)
    parts = split(inner[1]) if inner else [text]
    found = [translated(part, host.values, host.shapes) for part in parts]
    x, y, z = [*found, "1", "1"][:3]
    return x, y, z


def _argument(text: str, host: _Host) -> str:
    cast = _CAST.match(text)
    if cast:
        return _argument((cast[1] or cast[2]).strip(), host)
    pointer = _POINTER.match(text)
    if pointer and pointer[1] in host.shapes:
        return pointer[1]
    number = re.match(r"^-?(\d+\.\d*|\d*\.\d+|\d+)(e[-+]?\d+)?f?$", text, re.IGNORECASE)
    if number and not text.lstrip("-").isdecimal():
        return f"{float(text.rstrip('fF'))!r}:float32"
    if text in host.passed and text not in host.shapes and text not in host.values:
        return text
    return f"{translated(text, host.values, host.shapes)}:int32"


def _declare(text: str, host: _Host) -> None:
    """Learn the names that a piece of host code declares."""
    for name, value in declarations(text):
        made = re.match(r"^(?:torch|at)\s*::\s*(empty|zeros)(_like)?\s*\((.*)\)$", value, re.DOTALL)
        same = re.match(r"^(\w+)\s*\.\s*(?:contiguous|to)\s*\(.*\)$", value, re.DOTALL)
        if made:
            _made(name, made, host)
        elif same and same[1] in host.shapes:
            host.shapes[name], host.types[name] = host.shapes[same[1]], host.types[same[1]]
            host.passed[name] = host.passed.get(same[1], same[1])
        elif value.startswith("dim3"):
            host.values[name] = value
        else:
            try:
                host.values[name] = translated(value, host.values, host.shapes)
            except Unreadable:
                continue  # perhaps nobody needs it; a launch that does will say so


def _made(name: str, made: re.Match[str], host: _Host) -> None:
    parts = split(made[3])
    if made[2]:
        like = parts[0].strip()
        if like not in host.shapes:
            raise Unreadable(f"'{name}' is made like '{like}', whose shape is not known")
        host.shapes[name], host.types[name] = host.shapes[like], host.types[like]
    else:
        inner = parts[0].strip().strip("{}")
        sizes = tuple(translated(part, host.values, host.shapes) for part in split(inner))
        host.shapes[name] = sizes
        rest = ",".join(parts[1:])
        host.types[name] = next((t for k, t in _TYPES.items() if k in rest), "float32")
        like_options = re.match(r"^\s*(\w+)\s*\.\s*options\s*\(\s*\)\s*$", rest)
        if like_options and like_options[1] in host.types:
            host.types[name] = host.types[like_options[1]]
    host.made[name] = made[1] == "zeros"


def _returned(body: str, host: _Host, problem: Problem) -> dict[str, str]:
    """Return the tensors that are returned, by their outputs in the problem."""
    text = re.findall(r"\breturn\s+([^;]+);", body)[-1:]
    if not text:
        raise Unreadable("its host function returns nothing")
    inner = _LIST.sub(r"\1", text[0].strip())
    names = [part.strip() for part in split(inner)]
    if len(names) != len(problem.outputs) or any(name not in host.made for name in names):
        raise Unreadable(f"it returns '{text[0].strip()}', not the tensors that it made")
    return {name: spec.name for name, spec in zip(names, problem.outputs, strict=True)}


def _renamed(launch: Launch, names: Mapping[str, str]) -> Launch:
    arguments = tuple(names.get(argument, argument) for argument in launch.arguments)
    return dataclasses.replace(launch, arguments=arguments)


def _scratch(name: str, host: _Host) -> Scratch:
    size = " * ".join(f"({part})" for part in host.shapes[name]) or "1"
    return Scratch(name=name, dtype=host.types[name], size=size, zeroed=host.made[name])


def _message(candidate: Candidate, why: str) -> str:
    return (
        f"'{candidate.name}' is a torch extension, whose launches have to be read out of its "
        f"source where there is no GPU, and {why}. Give its kernels as a .cu file that declares "
        f'them extern "C" and their launches in a comment such as\n{EXAMPLE}'
    )
