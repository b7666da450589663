"""Executes the forms of an operator in the algebra and compares them."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
import torch

from cuassay.build.cuda.nvrtc import compile_ptx
from cuassay.errors import MachineError
from cuassay.machine.equivalence import Equivalence, Executed, Output, equivalent
from cuassay.machine.launch import Buffer, Launch, Pointer
from cuassay.machine.options import Options
from cuassay.machine.parser import parse
from cuassay.machine.residues import Residues
from cuassay.machine.run import run
from cuassay.machine.syntax import Module
from tests.machine.algebra_family import Family, Form, Slip, Step
from tests.machine.case import Empty, Number

_NAMES = {torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16"}
_WIDTHS = {"f16": 2, "bf16": 2, "f32": 4, "f64": 8}


@lru_cache(maxsize=128)
def module_of(source: str) -> Module:
    """Return the parsed PTX of a source text."""
    return parse(compile_ptx(source, arch="sm_80", name="forms.cu"))


def compared(family: Family, form: str, fault: Slip | None = None) -> Equivalence:
    """Compare a form, with a fault planted or without, with the family's first one.

    Raises ValueError where the text to edit is not there.
    """
    source = family.source
    if fault is not None:
        source = source.replace(fault.old, fault.new)
        if source == family.source:
            raise ValueError(f"{fault.name}: {fault.old!r} is not in {family.name}")
    chosen = next(one for one in family.forms if one.name == form)
    first = _runner(family, family.forms[0], family.source)
    return equivalent(first, _runner(family, chosen, source))


def compared_triton(family: Family, function: str, arguments: tuple[str, ...]) -> Equivalence:
    """Compare a wrapper of triton_kernels, called on a family's inputs, with the first form.

    `arguments` name the inputs; shapes are the family's own. The wrapper's first output counts.
    """
    memory = family.make(np.random.default_rng(0))
    inputs = []
    for name in arguments:
        value = memory[name]
        assert not isinstance(value, Empty)
        inputs.append(torch.from_numpy(value.copy()))
    first = _runner(family, family.forms[0], family.source)
    return equivalent(first, _triton(function, inputs))


def _triton(function: str, inputs: list[torch.Tensor]) -> Callable[[Residues], Executed]:
    import importlib

    from cuassay.build.cuda_facade import cuda_facade
    from cuassay.build.machine import triton_kernels as machine_triton
    from cuassay.build.machine.launch import MachineLauncher, prepared
    from cuassay.build.machine.memory import Arena
    from cuassay.machine.findings import MachineReport

    chosen: list[Residues] = []
    texts: list[str] = []

    class Algebra(MachineLauncher):
        """Executes launches in the algebra that was chosen last."""

        def _run(self, ptx: str, launch: object) -> MachineReport:
            texts.append(ptx)
            options = Options(shadow=chosen[-1], races=False)
            report = run(self._module(ptx), prepared(launch, self.arena), options=options)  # type: ignore[arg-type]
            if report.inconclusive:
                raise MachineError(report.inconclusive)
            return report

    launcher = Algebra(arena=Arena())
    machine_triton.enable(launcher, arch=80, multiprocessors=4)
    module = importlib.import_module("tests.machine.triton_kernels")

    def execute(residues: Residues) -> Executed:
        chosen.append(residues)
        named = {f"argument {number}": value for number, value in enumerate(inputs)}
        with cuda_facade(), launcher.arena.watching(named, ()):
            found = getattr(module, function)(*inputs)
            value = found[0] if isinstance(found, tuple | list) else found
            held = launcher.arena.pointer(value.data_ptr())
            assert held is not None
            width, type_ = value.element_size(), _NAMES[value.dtype]
            offsets = held.offset + np.arange(value.numel(), dtype=np.int64) * width
            output = Output(name="y", buffer=held.buffer, type=type_, offsets=offsets, width=width)
            return Executed(outputs=(output,), roots=any("sqrt" in text for text in texts))

    return execute


def _runner(family: Family, form: Form, source: str) -> Callable[[Residues], Executed]:
    module = module_of(source)
    roots = "sqrt" in module.text

    def execute(residues: Residues) -> Executed:
        buffers = _memory(family)
        for step in form.steps:
            report = run(
                module, _launch(step, buffers), options=Options(shadow=residues, races=False)
            )
            if report.inconclusive:
                raise MachineError(f"{family.name}, {form.name}: {report.inconclusive}")
        return Executed(outputs=_outputs(family, buffers), roots=roots)

    return execute


def _memory(family: Family) -> dict[str, Buffer]:
    found = {}
    for name, value in family.make(np.random.default_rng(0)).items():
        if isinstance(value, Empty):
            size = value.size * value.dtype.itemsize
            flags = np.zeros(size, np.bool_)
            found[name] = Buffer(name=name, data=np.zeros(size, np.uint8), initialised=flags)
        else:
            data = np.frombuffer(bytearray(value.tobytes()), np.uint8)
            found[name] = Buffer(name=name, data=data)
    return found


def _launch(step: Step, buffers: dict[str, Buffer]) -> Launch:
    arguments = tuple(
        item.packed() if isinstance(item, Number) else Pointer(buffer=buffers[item])
        for item in step.arguments
    )
    grid = step.grid if isinstance(step.grid, tuple) else (step.grid, 1, 1)
    return Launch(kernel=step.kernel, grid=grid, block=(step.block, 1, 1), arguments=arguments)


def _outputs(family: Family, buffers: dict[str, Buffer]) -> tuple[Output, ...]:
    found = []
    for name, type_ in family.outputs.items():
        width = _WIDTHS[type_]
        offsets = np.arange(0, buffers[name].data.size, width, dtype=np.int64)
        one = Output(name=name, buffer=buffers[name], type=type_, offsets=offsets, width=width)
        found.append(one)
    return tuple(found)
