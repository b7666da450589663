"""Have one sampled call judged: in the oracle's process, else in this one."""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from cuassay.model.precision import Precision
from cuassay.model.problem import TensorSpec
from cuassay.oracle.truth.runs import fingerprint as checksum
from cuassay.oracle.truth.types import Truth
from cuassay_guard.calls.structure import (
    Template,
    flatten,
    flatten_call,
    places_of,
    portable,
    rebuild,
)
from cuassay_guard.config import OracleChoice
from cuassay_guard.sampled import local
from cuassay_guard.sampled.checker import CHECKER
from cuassay_guard.sampled.judging import Judgement, judge_call
from cuassay_guard.sampled.oracle_client import ORACLE, OracleGoneError
from cuassay_guard.sampled.oracle_process import OracleRequest
from cuassay_guard.trusted import normal_call

if TYPE_CHECKING:
    from cuassay_guard.sampled.jobs import CheckJob

_SEED_BITS = 2**62


def judged_call(job: CheckJob, names: list[str]) -> Judgement | None:
    """Return the judgement of a call, None where nobody could judge it."""
    config, trusted = job.watch.config, job.watch.trusted
    if CHECKER.stopping:
        return None
    if config.oracle is not OracleChoice.LOCAL and trusted.where is not None:
        request = _request(job, names)
        if request is not None:
            try:
                call = template_of(job)
                assert call is not None
                tensors = job.snapshot.tensors
                count = len(tensors) - job.upstream
                ordered = [tensors[place] for place in call[1]] + tensors[count:]
                parts = {"in": ordered, "got": job.snapshot.outputs, "want": job.wanted}
                return ORACLE.ask(
                    request,
                    {kind: [tensor.cpu() for tensor in part] for kind, part in parts.items()},
                    timeout_s=config.oracle_timeout_s,
                )
            except OracleGoneError as failure:
                if not CHECKER.stopping:  # at the interpreter's exit it is killed
                    job.watch.trouble("the oracle", failure)
    if config.oracle is OracleChoice.PROCESS or CHECKER.stopping:
        return None
    tensors = job.snapshot.tensors

    def run(given: Sequence[Tensor]) -> list[Tensor]:
        return job.trusted(list(given))

    def truth(specs: Sequence[TensorSpec], seed: int, _family: Precision) -> Truth:
        return local.local_truth(run, tensors, specs, seed)

    try:
        got, want = job.snapshot.outputs, job.wanted
        # Noise on inputs stands for every family here: a wider one would be the same truth.
        policy = Precision.STRICT
        return judge_call(truth, got, want, names, seed=_seed(job), by="local", policy=policy)
    except torch.OutOfMemoryError:
        raise
    except Exception as failure:
        job.watch.trouble("the judge in this process", failure)
        return None


def _request(job: CheckJob, names: list[str]) -> OracleRequest | None:
    """Return what the oracle's process needs; None where it cannot repeat the call."""
    import sys

    call = template_of(job)
    if call is None:
        return None
    trusted = job.watch.trusted
    assert trusted.where is not None
    template, order = call
    places = {place: new for new, place in enumerate(order)}
    return OracleRequest(
        file="",
        where=trusted.where,
        template=json.dumps(template),
        inputs=len(job.snapshot.tensors),
        names=tuple(names),
        seed=_seed(job),
        mutated=tuple(places[place] for place in job.written),
        gradient_of=tuple(places[place] for place in job.gradient_of),
        upstream=job.upstream,
        accumulation=trusted.accumulation,
        precision=trusted.precision,
        hits=_hits(job, template, order),
        sys_path=tuple(entry for entry in sys.path if entry),
        module_file=getattr(sys.modules.get(trusted.where.module), "__file__", None) or "",
    )


def template_of(job: CheckJob) -> tuple[Template, list[int]] | None:
    """Return the call by place, as far as its parameters go so, and the order of its tensors.

    The order says which tensor of the snapshot stands where. None where the call holds objects
    that another process cannot.
    """
    snapshot = job.snapshot
    count = len(snapshot.tensors) - job.upstream
    marks = [torch.empty(0) for _ in range(count)]
    arguments, keywords = rebuild(snapshot.template, marks)
    flat, template = flatten_call(*normal_call(job.kernel, arguments, keywords))
    known = {id(mark): place for place, mark in enumerate(marks)}
    if not portable(template) or any(id(tensor) not in known for tensor in flat):
        return None
    return template, [known[id(tensor)] for tensor in flat]


def _hits(job: CheckJob, template: Template, order: list[int]) -> dict[str, int]:
    """Return which input addresses the rows of which output, from the problem."""
    problem = job.watch.trusted.problem
    if problem is None:
        return {}
    names = [spec.name for spec in problem.inputs]
    found: dict[str, int] = {}
    for name, outputs in problem.index_inputs.items():
        place = names.index(name)
        given = places_of(template)
        body: Template = given[place] if place < len(given) else ["value", None]
        if body[0] == "tensor":
            found |= dict.fromkeys(outputs, int(body[1]))
    return found


def call_fingerprint(job: CheckJob) -> int:
    """Return a checksum of some elements of every input (32 bits)."""
    return checksum(job.snapshot.tensors)


def _seed(job: CheckJob) -> int:
    """Return the seed of the oracle's noise: of the inputs, so that a call judges the same."""
    text = f"{call_fingerprint(job)} {job.entry.text}".encode()
    return (zlib.crc32(text) << 31 | zlib.crc32(text[::-1])) % _SEED_BITS


def argument_names(job: CheckJob, order: Sequence[int]) -> list[str]:
    """Return the parameter that each tensor of a call belongs to, in `order`; '' if unknown."""
    import inspect

    snapshot = job.snapshot
    count = len(snapshot.tensors) - job.upstream
    marks = [torch.empty(0) for _ in range(count)]
    arguments, keywords = rebuild(snapshot.template, marks)
    try:
        bound = inspect.signature(job.kernel).bind(*arguments, **keywords)
    except (TypeError, ValueError):
        return [""] * len(order)
    owner = {
        id(tensor): name for name, value in bound.arguments.items() for tensor in flatten(value)[0]
    }
    return [owner.get(id(marks[place]), "") for place in order]
