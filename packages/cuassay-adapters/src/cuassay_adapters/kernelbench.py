"""KernelBench's `eval_kernel_against_ref`, answered by a verdict.

    from cuassay.adapters.kernelbench import eval_kernel_against_ref

takes KernelBench's arguments and returns its result type where the package is installed, else one
with the same fields. `correctness` is True for ACCEPTED alone. Seeds and the number of trials are
cuassay's own: `seed_num` and the counts are not used. Interface: KernelBench 0.2.
"""

from __future__ import annotations

import contextlib
import importlib
import os
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from cuassay.errors import UsageError
from cuassay.verifier import Verifier, verify
from cuassay_adapters.stages import Stage, kept_source, stage_of

if TYPE_CHECKING:
    import torch


class KernelExecResult(BaseModel):
    """KernelBench's result, for where the package is not installed. Times are in microseconds."""

    compiled: bool = False
    correctness: bool = False
    metadata: dict[str, Any] = {}
    runtime: float = -1.0
    runtime_stats: dict[str, Any] = {}
    ref_runtime: float = -1.0
    ref_runtime_stats: dict[str, Any] = {}


def eval_kernel_against_ref(
    original_model_src: str,
    custom_model_src: str,
    seed_num: int = 42,
    num_correct_trials: int = 1,
    num_perf_trials: int = 10,
    measure_performance: bool = False,
    timing_method: str = "cuda_event",
    verbose: bool = False,
    build_dir: str | os.PathLike[str] | None = None,
    device: torch.device | int | str | None = None,
    backend: str = "cuda",
    precision: torch.dtype | None = None,
    check_for_excessive_speedup: bool = True,
    excessive_speedup_threshold: float = 10.0,
    *,
    verifier: Verifier | None = None,
    profile: str = "quick",
    budget_s: float | None = None,
) -> Any:
    """Judge `ModelNew` against `Model` and return a KernelExecResult.

    `metadata` has KernelBench's keys and `cuassay`, the document of `--format agent`. Times are
    filled where `measure_performance` asks and the trial measured them (on a GPU); other
    arguments of timing and building are not used. `verifier` keeps judges waiting between calls;
    its device then holds. Raises UsageError for a `precision` other than float32.
    """
    if precision is not None and str(precision) != "torch.float32":
        raise UsageError(
            f"precision is {precision}, expected torch.float32: let the reference's own code make "
            "its tensors in that type"
        )
    reference = kept_source("reference.py", original_model_src)
    candidate = kept_source("model_new.py", custom_model_src)
    options: dict[str, Any] = {"budget_s": budget_s, "profile": profile}
    if verifier is None:
        where = f"cuda:{device}" if isinstance(device, int) else device and str(device)
        result = verify(candidate, reference, device=where or None, **options)
    else:
        result = verifier.verify(candidate, reference, **options)
    stage, verdict = stage_of(result), result.verdict
    metadata: dict[str, Any] = {
        "hardware": verdict.environment.get("device", "") if verdict is not None else "",
        "device": verdict.device if verdict is not None else "",
        "correctness_trials": f"({int(result.passed)} / 1)",
        "cuassay": result.agent(),
    }
    wrong = result.wrong
    if stage is Stage.NOT_BUILT:
        metadata["compilation_error_name"] = wrong[0].code
        metadata["compilation_error"] = wrong[0].message
    elif wrong:
        metadata["correctness_issue"] = f"{wrong[0].code}: {wrong[0].message}"
    elif not result.passed:
        metadata["correctness_issue"] = f"{result.status.value}: {result.reason}"
    made: Any = KernelExecResult  # KernelBench's own where it can be imported
    with contextlib.suppress(ImportError):
        made = importlib.import_module("kernelbench.eval").KernelExecResult
    made = made(
        compiled=stage not in (Stage.NOTHING, Stage.NOT_BUILT),
        correctness=result.passed,
        metadata=metadata,
    )
    speed = verdict.speed if verdict is not None else None
    if measure_performance and speed is not None:
        made.runtime = speed.candidate_us
        if speed.eager_us is not None:
            made.ref_runtime = speed.eager_us
            fast = speed.eager_us > excessive_speedup_threshold * speed.candidate_us
            if check_for_excessive_speedup and fast:
                made.metadata["excessive_speedup"] = True
    return made
