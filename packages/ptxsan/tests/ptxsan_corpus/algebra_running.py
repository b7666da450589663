"""Executes the forms of an operator in the algebra and compares them."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np

from ptxsan.equivalence import Equivalence, Executed, Output, equivalent
from ptxsan.errors import MachineError
from ptxsan.launch import Buffer, Launch, Pointer
from ptxsan.nvrtc import compile_ptx
from ptxsan.options import Options
from ptxsan.parser import parse
from ptxsan.residues import Residues
from ptxsan.run import run
from ptxsan.syntax import Module
from ptxsan_corpus.algebra_family import Family, Form, Slip, Step
from ptxsan_corpus.case import Empty, Number

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
    first = runner(family, family.forms[0], family.source)
    return equivalent(first, runner(family, chosen, source))


def runner(family: Family, form: Form, source: str) -> Callable[[Residues], Executed]:
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
