"""Sizes at which a candidate's launches change, and what a call at a size costs on this CPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from cuassay import build
from cuassay.build.cuda_facade import MULTIPROCESSORS
from cuassay.formats.execute import load_reference
from cuassay.judge.cases import CallCosts
from cuassay.judge.plan.launch_sizes import LaunchProbe
from cuassay.judge.run.executor import Executor
from cuassay.judge.trial import open_trial
from cuassay.model.candidate import Language
from cuassay.model.device import CPU
from cuassay.model.events import Progress

if TYPE_CHECKING:
    from cuassay.judge.bench import Bench

_LAUNCH_SIZES_S = 5.0
_QUICK_SIZES_S, _QUICK_SIZES = 3.0, 8  # the same at quick: seconds, sizes of an axis
_QUICK_CALL_S = 0.5  # of one call there: most kernels compile in 0.1 s
_BLOCK_S, _INTERPRETED_S = 5e-5, 5e-3  # of a block of 128 threads on a CPU, as they are executed
_WHAT = "sizes at which its launches change"


def plan_by_launches(bench: Bench) -> None:
    """Plan shapes beside sizes at which the candidate's launches change, and none that takes long.

    The launches are looked at when shapes are first asked for; at `quick` on a CPU alone, once
    its kernels are compiled. Where Triton's interpreter stands in for the machine each row may be a
    program.
    """
    trial, candidate = bench.trial, bench.candidate
    launches = candidate.launches_ptx or candidate.language is Language.CUDA_KERNEL
    is_absent = bool(bench.machine.absent)
    if not bench.device.on_gpu and launches and is_absent:
        trial.planned.plan_by_launches(CallCosts(row_s=_INTERPRETED_S))
    elif is_absent or trial.problem.built:
        return
    elif not bench.quick:
        trial.planned.plan_by_launches(
            CallCosts(first=lambda: bench.optional(_WHAT, lambda: _name_apart(bench)))
        )
    elif not bench.device.on_gpu and launches:
        executor = Executor(
            trial, candidate, device=CPU, nursery=bench.host.get(), lazy=True, host=bench.host
        )
        probe = LaunchProbe(trial, bench.stack.enter_context(executor))

        def name_sizes() -> None:
            trial.planned.name_sizes(
                probe.sizes(limit_s=_QUICK_SIZES_S, most=_QUICK_SIZES, call_s=_QUICK_CALL_S)
            )

        trial.planned.plan_by_launches(
            CallCosts(
                row_s=_BLOCK_S,
                executed_s=probe.executed_s,
                first=lambda: bench.optional(_WHAT, name_sizes),
            )
        )


def _name_apart(bench: Bench) -> None:
    """Name the sizes, seen in a process of its own on a CPU.

    What such a process keeps of calls that compute nothing is wrong.
    """
    trial, candidate, nursery = bench.trial, bench.candidate, bench.host.get()
    hosted, units = trial, MULTIPROCESSORS
    if bench.on_gpu:
        build.prepare(candidate, device=CPU, notify=lambda text: bench.emit(Progress(text=text)))
        units = torch.cuda.get_device_properties(bench.device).multi_processor_count
        hosted = open_trial(
            trial.problem,
            load_reference(trial.problem),
            profile=trial.profile,
            device=CPU,
            root_seed=trial.seed("launches"),
        )
    with Executor(
        hosted, candidate, device=CPU, nursery=nursery, lazy=True, host=bench.host
    ) as apart:
        named = LaunchProbe(hosted, apart).sizes(limit_s=_LAUNCH_SIZES_S, multiprocessors=units)
    trial.planned.name_sizes(named)
