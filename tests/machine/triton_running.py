"""Runs the Triton kernels of the corpus in the PTX machine."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, TypeAlias

import torch

from cuassay.build.cuda_facade import cuda_facade
from cuassay.build.machine import triton_kernels as machine_triton
from cuassay.build.machine.launch import MachineLauncher, prepared, raise_fault
from cuassay.build.machine.memory import StorageArena
from cuassay.errors import CuassayError
from ptxsan.errors import PtxsanError
from ptxsan.findings import MachineReport
from ptxsan.launch import Launch
from ptxsan.options import Options
from ptxsan.run import run
from ptxsan.syntax import Module
from ptxsan_corpus.running import Outcome, outcome_of
from tests.machine.triton_corpus import TritonCase

Executor: TypeAlias = Callable[[str, Module, Launch], MachineReport]


def executed_triton(case: TritonCase) -> Outcome:
    """Execute a Triton wrapper of the corpus: its launches run in the machine, checks on."""
    reports: list[MachineReport] = []
    try:
        call = _wrapper(case, _checked(reports))
        torch.manual_seed(0)
        inputs = list(case.make())
        found = call(*inputs)
    except (CuassayError, PtxsanError) as error:
        return Outcome(refused=f"{type(error).__name__}: {error}")
    wrong = []
    outputs = found if isinstance(found, tuple | list) else (found,)
    for number, (got, right) in enumerate(zip(outputs, case.expect(*inputs), strict=True)):
        limit = case.tolerance * max(1.0, float(right.abs().max()))
        error_ = float((got.double() - right.double()).abs().max())
        if not error_ <= limit:
            wrong.append(f"output {number}: off by {error_:.3g}, allowed {limit:.3g}")
    return outcome_of(reports, wrong)


def triton_launches(case: TritonCase) -> list[tuple[str, Launch]]:
    """Return every launch of a wrapper of the corpus, with its PTX. Raises CuassayError."""
    kept: list[tuple[str, Launch]] = []

    def keep(text: str, module: Module, launch: Launch) -> MachineReport:
        kept.append((text, launch))
        return run(module, launch, options=Options(shadow=False, races=False, limit_s=60.0))

    torch.manual_seed(0)
    _wrapper(case, keep)(*case.make())
    return kept


def _checked(reports: list[MachineReport]) -> Executor:
    """Return what executes a launch with every check on and keeps its report."""

    def execute(text: str, module: Module, launch: Launch) -> MachineReport:
        reports.append(run(module, launch, options=Options(limit_s=60.0)))
        return reports[-1]

    return execute


def _wrapper(case: TritonCase, execute: Executor) -> Callable[..., Any]:
    """Return a case's wrapper, whose launches go to `execute`."""

    class Handed(MachineLauncher):
        """Hands launches on."""

        def _run(self, ptx: str, launch: Any) -> MachineReport:
            report = execute(ptx, self.module(ptx), prepared(launch, self.arena))
            raise_fault(launch.kernel, report)
            return report

    launcher = Handed(arena=StorageArena())
    machine_triton.enable(launcher, arch=case.arch, multiprocessors=4)
    module = importlib.import_module(f"tests.machine.{case.module}")

    def call(*arguments: torch.Tensor) -> Any:
        named = {f"argument {number}": value for number, value in enumerate(arguments)}
        with cuda_facade(), launcher.arena.watching(named, ()):
            return getattr(module, case.function)(*arguments)

    return call
