"""Executes Triton kernels in the algebra and compares them with CUDA kernels of the corpus."""

from __future__ import annotations

import importlib
from collections.abc import Callable

import numpy as np
import torch

from cuassay.build.cuda_facade import cuda_facade
from cuassay.build.machine import triton_kernels as machine_triton
from cuassay.build.machine.launch import MachineLauncher, prepared
from cuassay.build.machine.memory import StorageArena
from ptxsan.equivalence import Equivalence, Executed, Output, equivalent
from ptxsan.errors import MachineError
from ptxsan.findings import MachineReport
from ptxsan.options import Options
from ptxsan.residues import Residues
from ptxsan.run import run
from ptxsan_corpus.algebra_family import Family
from ptxsan_corpus.algebra_running import runner
from ptxsan_corpus.case import Empty

_NAMES = {torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16"}


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
    first = runner(family, family.forms[0], family.source)
    return equivalent(first, _triton(function, inputs))


def _triton(function: str, inputs: list[torch.Tensor]) -> Callable[[Residues], Executed]:
    chosen: list[Residues] = []
    texts: list[str] = []

    class Algebra(MachineLauncher):
        """Executes launches in the algebra that was chosen last."""

        def _run(self, ptx: str, launch: object) -> MachineReport:
            texts.append(ptx)
            options = Options(shadow=chosen[-1], races=False)
            report = run(self.module(ptx), prepared(launch, self.arena), options=options)  # type: ignore[arg-type]
            if report.inconclusive:
                raise MachineError(report.inconclusive)
            return report

    launcher = Algebra(arena=StorageArena())
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
