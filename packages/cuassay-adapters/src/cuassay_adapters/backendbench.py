"""BackendBench: its suites, answered by verdicts.

    for row in judge_suite(SmokeTestSuite, DirectoryBackend("generated_kernels"), device="cpu"):
        print(row.op_name, row.is_correct, row.error_msg)

`eval_one_op` takes BackendBench's arguments and returns its tuple. The kernel is judged by its
source file, apart from this process, on sizes and values far beyond the suite's tests; these give
types, ranks and the arguments that are not tensors. Interface: BackendBench 0.1.
"""

from __future__ import annotations

import importlib.util
import inspect
import linecache
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from BackendBench.eval import CorrectnessTestResult, PerformanceTestResult, eval_performance
from BackendBench.utils import serialize_args

from cuassay.errors import CuassayError, UsageError
from cuassay.formats.calls import prepare
from cuassay.verifier import Status, verify
from cuassay_adapters.stages import kept_source

_KINDS = 4  # sets of arguments of one operator that differ in more than sizes: a trial each
_REFERENCE = '''"""The operator {op}, as PyTorch has it."""

import torch


def reference({parameters}):
    return torch.ops.{path}({parameters_in})
'''


def eval_one_op(
    op: Any,
    impl: Any,
    correctness_tests: Iterable[Any],
    performance_tests: Iterable[Any],
    *,
    profile: str = "quick",
    device: str | None = None,
    budget_s: float | None = None,
) -> tuple[float, float, list[CorrectnessTestResult], list[PerformanceTestResult]]:
    """Judge `impl` against `op`; return BackendBench's scores and results.

    The correctness score is the share of accepted kinds of calls, of the first four; further ones
    are not judged. A kind is what the tests' calls agree in apart from sizes. The speed is
    BackendBench's own, of accepted kernels alone: its clock runs them in this process.
    """
    # `kinds` are the tests' calls, those together that differ in sizes and values of tensors
    # alone.
    found: dict[str, list[tuple[list[Any], dict[str, Any]]]] = {}
    for test in correctness_tests:
        args, kwargs = list(test.args), dict(test.kwargs)
        key = repr(([_kind(a) for a in args], {n: _kind(a) for n, a in kwargs.items()}))
        found.setdefault(key, []).append((args, kwargs))
    kinds = list(found.values())
    results = [
        _judged(op, impl, calls, profile=profile, device=device, budget_s=budget_s)
        for calls in kinds[:_KINDS]
    ]
    if not results:
        return 0.0, 1.0, [], []
    accepted = [result.is_correct for result in results]
    if not all(accepted):
        return sum(accepted) / len(accepted), 1.0, results, []
    speed, timed = eval_performance(op, impl, list(performance_tests))
    return 1.0, float(speed), results, timed


def judge_suite(suite: Any, backend: Any, **options: Any) -> Iterator[CorrectnessTestResult]:
    """Yield the results of each operator of a suite that a backend implements."""
    for test in suite:
        if test.op in backend:
            yield from eval_one_op(
                test.op, backend[test.op], test.correctness_tests, [], **options
            )[2]


def _judged(
    op: Any, impl: Any, calls: Sequence[tuple[list[Any], dict[str, Any]]], **options: Any
) -> CorrectnessTestResult:
    shown = serialize_args(*calls[0])
    try:
        names = [f"x{n}" for n in range(len(calls[0][0]))]
        reference = _reference(op, names, calls[0][1])
        examples = [dict(zip(names, args, strict=True)) | kwargs for args, kwargs in calls]
        # The problem is judged with FILE::FUNCTION, which a backend has loaded from a file.
        try:
            file = inspect.getsourcefile(inspect.unwrap(impl))
        except TypeError:
            file = None
        name = getattr(impl, "__name__", "")
        if file is None or not Path(file).is_file() or not name.isidentifier():
            raise UsageError(
                f"the implementation {impl!r} has no source file: cuassay judges kernels that a "
                "backend loads from files, such as DirectoryBackend's"
            )
        problem, candidate = prepare(f"{file}::{name}", reference, examples)
        result = verify(candidate, problem, **options)
    except CuassayError as error:
        return CorrectnessTestResult(
            op_name=op.__name__, args=shown, error_msg=str(error), error_type=type(error).__name__
        )
    told = "" if result.passed else f"cuassay: {result.status.value}: {result.reason}"
    rule = result.verdict.benchmark_rule if result.verdict is not None else None
    errors = {
        "max_abs_error": rule.max_absolute_error if rule is not None else None,
        "max_rel_error": rule.max_relative_error if rule is not None else None,
    }
    return CorrectnessTestResult(
        op_name=op.__name__,
        args=shown,
        is_correct=result.status is Status.ACCEPTED,
        error_msg=told,
        error_type="" if result.passed else result.status.value,
        **{name: value for name, value in errors.items() if value is not None},
    )


def _kind(value: Any) -> object:
    if isinstance(value, torch.Tensor):
        return str(value.dtype), value.dim()
    if isinstance(value, list | tuple):
        return [_kind(item) for item in value]
    return value


def _reference(op: Any, names: Sequence[str], kwargs: Mapping[str, Any]) -> Any:
    """Return a plain function that calls the operator, in a file that another process can read."""
    path = str(op)
    if not re.fullmatch(r"\w+(\.\w+){1,2}", path) or not all(map(str.isidentifier, kwargs)):
        raise UsageError(
            f"'{path}' is no operator such as aten.relu.default; give one of torch.ops"
        )
    text = _REFERENCE.format(
        op=path,
        path=path,
        parameters=", ".join([*names, *kwargs]),
        parameters_in=", ".join([*names, *(f"{name}={name}" for name in kwargs)]),
    )
    file = kept_source("reference.py", text)
    spec = importlib.util.spec_from_file_location(f"cuassay_{path.replace('.', '_')}", file)
    if spec is None or spec.loader is None:
        raise UsageError(f"{file} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)  # our own text, with nothing of a kernel
    linecache.checkcache(str(file))
    sys.modules[module.__name__] = module  # the function's source is looked up by its module
    return module.reference
