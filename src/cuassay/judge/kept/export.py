"""A finding as a program that needs torch alone: inputs, calls, expected values, assertion.

The candidate's files are written beside it, tensors into it where they are small, else into a
file of torch.save. What an answer may be off is the geometric mean of the candidate's error and
of a trusted kernel's on the same input: a repaired kernel passes, this one does not.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from cuassay.checks.state.answers import Read, reads_of
from cuassay.errors import CuassayError, UsageError
from cuassay.inputs.packed import is_packed
from cuassay.judge.decide.structure import matched
from cuassay.model.candidate import Candidate, Convention, Language
from cuassay.model.diagnosis import Cause
from cuassay.model.outcome import Finding
from cuassay.model.problem import ConstAxis, Scalar, TensorSpec
from cuassay.model.scenario import (
    Allocate,
    Autograd,
    Call,
    HashResult,
    PoisonFreed,
    ReadInputs,
    ReadResult,
    Refill,
    Release,
)
from cuassay.model.steps import ReadRecording, RecordLaunches
from cuassay.oracle.compare.outputs import compare
from cuassay.oracle.special import torch_dtype

if TYPE_CHECKING:
    from cuassay.checks.base import Run
    from cuassay.judge.trial import JudgeTrial

_COMPILED = (".cu", ".cpp", ".cc", ".cxx", ".c")
# Faults that one run may not show, and those that an exception is.
_BY_CHANCE = (
    Cause.RACE,
    Cause.BARRIER,
    Cause.UNINITIALISED,
    Cause.OUT_OF_BOUNDS,
    Cause.MISALIGNED,  # an interpreter has no addresses
    Cause.NOT_DETERMINISTIC,
)
_RAISES = (Cause.RAISES, Cause.REFUSES_SIZES, Cause.ENDS_PROCESS)
_INLINE = 64  # elements of a tensor that is written into the program
_HEAD = '''\
"""Needs {needs}. {title}

{message}
Found by cuassay as {code}. Run this file: it fails while the kernel is wrong, and ends with
exit code 77 where it cannot run.{doubt}
"""

import importlib.util
import os
import sys
import threading
from pathlib import Path


def leave(why):
    """End where this program cannot run: that says nothing of the kernel."""
    print(f"cannot run here: {{why}}", file=sys.stderr)
    sys.exit(77)


for name in {packages!r}:
    if importlib.util.find_spec(name) is None:
        leave(f"the package {{name}} is missing")

import torch

device = {device!r}
if {needs_gpu!r} and not torch.cuda.is_available():
    leave("the kernel needs an NVIDIA GPU")
if device != "cpu" and not torch.cuda.is_available():
    device = "cpu"
if device == "cpu" and {triton!r}:
    os.environ["TRITON_INTERPRET"] = "1"
HERE = Path(__file__).resolve().parent
FOLDER = HERE / {folder!r}
sys.path.insert(0, str(FOLDER))
try:
{load}
except Exception as error:
    leave(f"the kernel does not load: {{type(error).__name__}}: {{error}}")
kernel = module.{function}
{stored}

def outputs(result):
    """Return what a call gave as a list of tensors."""
    if isinstance(result, dict):
        result = list(result.values())
    return list(result) if isinstance(result, (tuple, list)) else [result]


def check(name, got, expected, allowed):
    """Fail where an output is off by more than `allowed`, relative to the size of the truth."""
    assert isinstance(got, torch.Tensor), f"{{name}} is {{type(got).__name__}}, not a tensor"
    assert got.shape == expected.shape, f"{{name}} has shape {{got.shape}}, not {{expected.shape}}"
    got, expected = got.detach().double().cpu(), expected.double()
    finite = expected.isfinite()
    assert torch.equal(got.isfinite(), finite), f"{{name}}: NaN or infinity in other places"
    error = (got - expected)[finite]
    worst = error.abs().argmax() if error.numel() else None
    size = float(expected[finite].norm()) or 1e-300
    relative = float(error.norm()) / size
    assert relative <= allowed, (
        f"{{name}}: relative error {{relative:.3g}}, allowed {{allowed:.3g}}; worst element: got "
        f"{{float(got[finite][worst]):.9g}}, expected {{float(expected[finite][worst]):.9g}}"
    )

'''


def export(
    trial: JudgeTrial, candidate: Candidate, finding: Finding, run: Run, place: Path
) -> tuple[Path, ...]:
    """Write the program of a finding that was just run again; return the files written.

    Raises UsageError for findings that no program of torch alone can show.
    """
    scenario = finding.scenario
    if scenario is None or candidate.language is Language.CUDA_KERNEL:
        raise UsageError(
            f"{finding.id} cannot be exported: its kernel is launched by cuassay itself; "
            f"`{finding.reproduce or 'cuassay replay'}` shows it"
        )
    if trial.problem.ranks is not None:
        raise UsageError(
            f"{finding.id} cannot be exported: several ranks share its calls, and one program has "
            f"one rank; `{finding.reproduce or 'cuassay replay'}` shows it"
        )
    writer = _Writer(place)
    lines = _steps(trial, candidate, finding, run, writer)
    files = writer.save()
    folder = place.with_name(f"{place.stem}_kernel")
    for source in candidate.sources:
        file = folder / source.path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(source.text, encoding="utf-8")
    needs_gpu = candidate.compiles_cuda or (
        trial.device.on_gpu
        and not candidate.names_triton
        and any("cuda" in source.text for source in candidate.sources)
    )
    stored = ""
    if files:
        stored = f"stored = torch.load(HERE / {files[0].name!r}, weights_only=True)\n"
    packages = ["torch", *(("triton",) if candidate.names_triton else ())]
    # What a program needs, in words
    gpu = ["an NVIDIA GPU and nvcc"] if needs_gpu else []
    every = [*packages, *gpu]
    # `doubt` is what a run that shows nothing means, where one run may not show the fault.
    if finding.cause not in _BY_CHANCE:
        doubt = ""
    else:
        shown = finding.reproduce or "cuassay replay"
        doubt = (
            f"\nOne run may not show this fault ({finding.cause.value}): `{shown}` executes the "
            "kernel in cuassay's PTX machine,\nwhich sees it every time."
        )
    # `load` is the lines that load the kernel as `module`, indented.
    name, entry = Path(candidate.entry_file).stem, candidate.entry_file
    if candidate.language is Language.CUDA_EXTENSION:
        sources = [s.path for s in candidate.sources if Path(s.path).suffix in _COMPILED]
        loading = [
            "from torch.utils.cpp_extension import load",
            f"module = load({name!r}, [str(FOLDER / path) for path in {sources!r}])",
        ]
    else:
        loading = [
            f"spec = importlib.util.spec_from_file_location({name!r}, FOLDER / {entry!r})",
            "module = importlib.util.module_from_spec(spec)",
            "sys.modules[spec.name] = module",
            "spec.loader.exec_module(module)",
        ]
    load = "\n".join(f"    {line}" for line in loading)
    said = finding.counterexample.splitlines() or [finding.message]
    message = "\n".join(_quoted(line.removeprefix("# ")) for line in said)
    head = _HEAD.format(
        needs=(every[0] if len(every) == 1 else f"{', '.join(every[:-1])} and {every[-1]}"),
        packages=tuple(packages),
        needs_gpu=needs_gpu,
        triton=candidate.names_triton,
        load=load,
        doubt=doubt,
        title=_quoted(f"{trial.problem.name}: {finding.title}"),
        message=message,
        code=finding.code,
        folder=folder.name,
        function=candidate.entry_function,
        device=trial.device,
        stored=stored,
    )
    # `guarded` is the calls; an exception that is not the fault ends the program with 77.
    if finding.cause in _RAISES:
        guarded = "\n".join(lines)
    else:
        body = "\n".join(f"    {line}" for line in lines) or "    pass"
        guarded = (
            f"try:\n{body}\nexcept AssertionError:\n    raise\nexcept Exception as error:\n"
            '    leave(f"the call does not end: {type(error).__name__}: {error}")\n'
        )
    place.write_text(head + "\n" + guarded + '\nprint("no fault shown")\n')
    return (place, folder, *files)


class _Writer:
    """Turns tensors into text, the large ones into entries of one file."""

    def __init__(self, place: Path) -> None:
        self._file = place.with_suffix(".pt")
        self._stored: dict[str, torch.Tensor] = {}

    def value(self, name: str, value: torch.Tensor | Scalar) -> str:
        """Return the expression of a value."""
        if not isinstance(value, torch.Tensor):
            return repr(value) if math.isfinite(value) else f"float({str(value)!r})"
        held = value.detach().cpu().contiguous()
        short = held.numel() <= _INLINE and not is_packed(held)
        if short and (held.dtype.is_floating_point or not held.is_complex()):
            wide = held.double() if held.dtype.is_floating_point else held
            told = ", ".join(
                repr(number) if math.isfinite(number) else f"float({str(number)!r})"
                for number in wide.reshape(-1).tolist()
            )
            shape = "" if held.dim() == 1 else f".reshape({tuple(held.shape)})"
            return f"torch.tensor([{told}], dtype={held.dtype}){shape}"
        self._stored[name] = held
        return f"stored[{name!r}]"

    def save(self) -> list[Path]:
        """Write what did not fit into the program; return the file, if one was needed."""
        if not self._stored:
            return []
        torch.save(self._stored, self._file)
        return [self._file]


def _quoted(text: str) -> str:
    """Return untrusted text as one line that ends no string."""
    plain = " ".join(text.replace("\\", "/").replace('"', "'").split())
    return "".join(c for c in plain if c.isprintable())[:600]


def _steps(
    trial: JudgeTrial, candidate: Candidate, finding: Finding, run: Run, writer: _Writer
) -> list[str]:
    scenario = finding.scenario
    assert scenario is not None
    ordered = reads_of(scenario, run)
    lines: list[str] = []
    number = 0
    before = ""
    for step in scenario.steps:
        match step:
            case Allocate(slot=slot, case=case, read_only=False):
                lines.append(f"{_name(slot)} = {{")
                for name, value in trial.inputs(scenario.cases[case]).items():
                    text = writer.value(f"case {case} {name}", value)
                    moved = ".to(device)" if isinstance(value, torch.Tensor) else ""
                    lines.append(f"    {name!r}: {text}{moved},")
                lines.append("}")
            case Refill(slot=slot, case=case):
                for name, value in trial.inputs(scenario.cases[case]).items():
                    text = writer.value(f"case {case} {name}", value)
                    key = f"{_name(slot)}[{name!r}]"
                    tensor = isinstance(value, torch.Tensor)
                    lines.append(f"{key}.copy_({text})" if tensor else f"{key} = {text}")
            case Call(slot=slot, result=result, stream=""):
                lines += _called_as(
                    step, _name(slot), _call(trial, candidate, _name(slot), _name(result))
                )
            case ReadResult():
                if number < len(ordered):
                    lines += _checked(trial, ordered[number], run, number, writer)
                number += 1
            case ReadInputs(slot=slot) if not before:
                before = _name(slot)
                lines.append(
                    f"before = {{k: v.clone() for k, v in {before}.items() "
                    "if isinstance(v, torch.Tensor)}"
                )
            case ReadInputs(slot=slot):
                lines.append("for name, value in before.items():")
                lines.append(f"    same = torch.equal(value, {_name(slot)}[name])")
                lines.append('    assert same, f"input {name} is changed by the call"')
            case Release(name=name):
                lines.append(f"del {_name(name)}")
            case HashResult() | PoisonFreed() | RecordLaunches() | ReadRecording():
                continue
            case _:
                raise UsageError(
                    f"{finding.id} cannot be exported: {type(step).__name__} needs cuassay; "
                    f"`{finding.reproduce or 'cuassay replay'}` shows it"
                )
    return lines


def _called_as(step: Call, slot: str, lines: list[str]) -> list[str]:
    """Return the lines of a call in the modes and from the thread that a step names."""
    if step.autocast:
        lines = ["with torch.autocast(torch.device(device).type):", *(f"    {x}" for x in lines)]
    if step.autograd is not Autograd.ON:
        lines = [f"with {step.autograd}:", *(f"    {line}" for line in lines)]
    if step.thread:
        names = ", ".join(
            dict.fromkeys(
                line.strip().split(" = ")[0] for line in lines if re.match(r" *\w+ = ", line)
            )
        )
        lines = [
            "def call():",
            f"    global {names}",
            *(f"    {line}" for line in lines),
            "thread = threading.Thread(target=call)",
            "thread.start()",
            "thread.join()",
        ]
    if step.autograd is Autograd.INFERENCE and not (step.parameters or step.gradients):
        lines = [
            f"plain = dict({slot})",
            "with torch.inference_mode():",
            "    for key, value in plain.items():",
            "        if torch.is_tensor(value):",
            "            made = torch.empty(0, dtype=value.dtype, device=value.device)",
            "            place = value.storage_offset(), value.shape, value.stride()",
            f"            {slot}[key] = made.set_(value.untyped_storage(), *place)",
            *lines,
            f"{slot}.update(plain)",
        ]
    if step.parameters:
        records = step.autograd is Autograd.ON
        lines = [
            f"plain = dict({slot})",
            "for key, value in plain.items():",
            "    if torch.is_tensor(value) and value.is_floating_point():",
            f"        {slot}[key] = torch.nn.Parameter(value.detach(), requires_grad={records})",
            *lines,
            f"{slot}.update(plain)",
        ]
    if step.gradients:
        floats = f"[v for v in {slot}.values() if torch.is_tensor(v) and v.is_floating_point()]"
        lines = [
            f"for leaf in {floats}: leaf.requires_grad_(True)",
            *lines,
            f"for leaf in {floats}: leaf.requires_grad_(False)",
        ]
    return lines


def _call(trial: JudgeTrial, candidate: Candidate, slot: str, result: str) -> list[str]:
    """Return the lines of a call; a kernel that fills its outputs gets NaN to write over."""
    if candidate.convention is Convention.RETURNS:
        return [f"{result} = outputs(kernel(*{slot}.values()))"]
    lines = [f"{result} = ["]
    for spec in trial.problem.outputs:
        sizes = ", ".join(_size(trial, dimension, slot) for dimension in spec.shape)
        whole = "" if spec.dtype.is_floating else ".zero_()"
        lines.append(
            f"    torch.full(({sizes}{',' if len(spec.shape) == 1 else ''}), "
            f"float('nan'), device=device).to(torch.{spec.dtype.value}){whole},"
        )
    return [*lines, "]", f"kernel(*{slot}.values(), *{result})"]


def _size(trial: JudgeTrial, dimension: str, slot: str) -> str:
    """Return a dimension as a size of one of the inputs, else as it is written."""
    for spec in trial.problem.inputs:
        if isinstance(spec, TensorSpec) and dimension in spec.shape:
            return f"{slot}[{spec.name!r}].shape[{spec.shape.index(dimension)}]"
    known = {a.name: a.value for a in trial.problem.axes if isinstance(a, ConstAxis)}
    if dimension in known or dimension.isdecimal():
        return str(known.get(dimension, dimension))
    raise UsageError(f"the size '{dimension}' of an output is that of no input: not exported")


def _checked(trial: JudgeTrial, read: Read, run: Run, number: int, writer: _Writer) -> list[str]:
    """Return the lines that compare one result with the truth of its own case."""
    lines = []
    try:
        truth = trial.truth(read.case)
        shapes = [tuple(output.value.shape) for output in truth.outputs]
        tensors: Sequence[torch.Tensor | str] = matched(trial.problem, shapes, run, read.items)
    except CuassayError:
        return []
    for place, (got, want) in enumerate(zip(tensors, truth.outputs, strict=True)):
        allowed = 0.0
        if want.scale is not None:
            if not isinstance(got, torch.Tensor):  # of another shape: the repaired one rounds
                got = want.value.to(torch_dtype(want.dtype))
            compared = compare(got, want)
            floor = 2.0**-50
            ours = max(compared.relative_error, floor)
            trusted = max(compared.trusted_relative_error, floor)
            allowed = math.sqrt(ours * trusted) if not compared.passed else 4 * max(ours, trusted)
            allowed = allowed if math.isfinite(allowed) else 10 * trusted
        text = writer.value(f"expected {number} {want.name}", want.value)
        result = _name(read.result)
        lines.append(f"check({want.name!r}, {result}[{place}], {text}, allowed={allowed!r})")
    return lines


def _name(name: str) -> str:
    return "".join(c if c.isalnum() else "_" for c in f"_{name}" if c.isascii())
