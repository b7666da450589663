"""flashinfer-bench: an Evaluator whose correctness is a verdict.

    import cuassay.adapters.flashinfer_bench as cuassay_evaluator

    cuassay_evaluator.register()  # at the top level of the script: each worker imports it again
    Benchmark(trace_set, config).run_all()

The benchmark's worker builds a solution and hands it over with one workload's inputs; the sources
are found by the built module, judged apart from it in cuassay's sandbox, and timed by the
benchmark only if accepted. Interface: flashinfer_bench.bench.evaluators, 0.1.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from flashinfer_bench.bench.config import BenchmarkConfig
from flashinfer_bench.bench.evaluators import DefaultEvaluator, registry
from flashinfer_bench.bench.utils import make_eval
from flashinfer_bench.compile import Runnable
from flashinfer_bench.data import Correctness, Definition, Evaluation, EvaluationStatus

from cuassay.errors import CandidateError
from cuassay.model.diagnosis import Cause
from cuassay.verifier import Result, verify
from cuassay_adapters.stages import Stage, kept_files, stage_of

PROFILE = "quick"


class CuassayEvaluator(DefaultEvaluator):
    """Judges a solution by its sources; baseline and timing stay the benchmark's own."""

    @classmethod
    def can_evaluate(cls, definition: Definition) -> bool:
        """Whether a definition is judged: all are."""
        return True

    @classmethod
    def check_correctness(
        cls,
        definition: Definition,
        sol_runnable: Runnable,
        inputs: list[list[Any]],
        ref_outputs: list[list[torch.Tensor]],
        cfg: BenchmarkConfig,
        log_path: str,
        device: str,
    ) -> tuple[Correctness | None, Evaluation | None]:
        """Return the errors of an accepted solution, or the evaluation of another one."""
        try:
            sources = _sources(sol_runnable)
        except CandidateError as error:
            return None, make_eval(
                status=EvaluationStatus.RUNTIME_ERROR,
                device=device,
                log_path=log_path,
                extra_msg=str(error),
            )
        problem = _problem(definition, inputs[0])
        misc = sol_runnable.metadata.misc
        entry = "/".join(misc["module_name"].split(".")[1:]) + ".py"
        document = {
            "name": sol_runnable.metadata.solution_name,
            "definition": definition.name,
            "author": "flashinfer-bench",
            "spec": {
                "language": sol_runnable.metadata.build_type,
                "target_hardware": ["any"],
                "entry_point": f"{entry}::{misc['entry_symbol']}",
                "destination_passing_style": sol_runnable.metadata.destination_passing_style,
            },
            "sources": [{"path": path, "content": text} for path, text in sources.items()],
        }
        files = {"solution.json": json.dumps(document).encode()}
        solution = kept_files("flashinfer-bench-solution", files) / "solution.json"
        result = verify(
            solution,
            problem,
            profile=PROFILE,
            device=device,
            budget_s=float(cfg.timeout_seconds),
        )
        return evaluated(result, device=device, log_path=log_path)


def register() -> None:
    """Let flashinfer-bench use this evaluator for every definition, in this process."""
    registry._EVALUATORS[:] = [CuassayEvaluator]


def evaluated(
    result: Result, *, device: str, log_path: str
) -> tuple[Correctness | None, Evaluation | None]:
    """Return a verification as the benchmark's own correctness and evaluation.

    The evaluation is None where the solution is accepted: it is timed next. The errors are those
    of the benchmark's rule on its own workload, NaN where it was not evaluated.
    """
    rule = result.verdict.benchmark_rule if result.verdict is not None else None
    absolute = rule.max_absolute_error if rule is not None else None
    relative = rule.max_relative_error if rule is not None else None
    correctness = Correctness(
        max_absolute_error=float("nan") if absolute is None else absolute,
        max_relative_error=float("nan") if relative is None else relative,
        extra={"cuassay": result.agent()},
    )
    if result.passed:
        return correctness, None
    # `status` is the benchmark's word; a verdict that is none is no pass.
    stage = stage_of(result)
    if stage is Stage.NOT_BUILT:
        status = EvaluationStatus.COMPILE_ERROR
    elif stage is Stage.UNDECIDED and result.timed_out:
        status = EvaluationStatus.TIMEOUT
    elif stage in (Stage.UNDECIDED, Stage.NOTHING) or any(
        finding.code.startswith("RUN") for finding in result.wrong
    ):
        status = EvaluationStatus.RUNTIME_ERROR
    elif any(finding.cause is Cause.WRONG_STRUCTURE for finding in result.wrong):
        status = EvaluationStatus.INCORRECT_SHAPE
    else:
        status = EvaluationStatus.INCORRECT_NUMERICAL
    if status is not EvaluationStatus.INCORRECT_NUMERICAL:
        correctness = None  # the schema wants none with any other status
    report = f"; cuassay report {result.run}" if result.run else ""
    return correctness, make_eval(
        status=status,
        device=device,
        log_path=log_path,
        correctness=correctness,
        extra_msg=f"cuassay: {result.status.value}: {result.reason}{report}",
    )


def _sources(runnable: Runnable) -> dict[str, str]:
    """Return a built Python solution's files. Raises CandidateError for compiled ones."""
    name = runnable.metadata.misc.get("module_name")
    file = getattr(sys.modules.get(name), "__file__", None) if name else None
    if not file:
        raise CandidateError(
            f"the solution '{runnable.metadata.solution_name}' was built by "
            f"{runnable.metadata.build_type}: cuassay judges Python and Triton solutions here; for "
            "the others run `cuassay check solution.json --problem definition.json`"
        )
    package = Path(file)
    for _ in range(name.count(".")):
        package = package.parent
    return {
        path.relative_to(package).as_posix(): path.read_text(encoding="utf-8")
        for path in sorted(package.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }


def _problem(definition: Definition, inputs: Sequence[Any]) -> Path:
    """Write the definition with one workload and return the folder.

    Floating tensors are drawn anew; integer tensors, whose values mean something, stay.
    """
    from safetensors.torch import save

    sources: dict[str, dict[str, object]] = {}
    stored: dict[str, torch.Tensor] = {}
    for name, value in zip(definition.inputs, inputs, strict=True):
        if not isinstance(value, torch.Tensor):
            sources[name] = {"type": "scalar", "value": value}
        elif value.is_floating_point():
            sources[name] = {"type": "random"}
        else:
            stored[name] = value.detach().cpu().contiguous()
            sources[name] = {
                "type": "safetensors", "path": "stored.safetensors", "tensor_key": name,
            }  # fmt: skip
    axes = definition.get_axes_values_from_inputs(inputs)
    workload = {"uuid": "flashinfer-bench", "axes": axes, "inputs": sources}
    files = {
        "definition.json": definition.model_dump_json(exclude_none=False).encode(),
        "workload.jsonl": json.dumps(workload).encode(),
    }
    if stored:
        files["stored.safetensors"] = save(stored)
    return kept_files("flashinfer-bench-problem", files)
