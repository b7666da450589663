"""The oracle's own process: `python -m cuassay_guard.sampled.oracle_process`.

The oracle changes what all threads of a process share while it runs, so it must not run inside
a live training or serving process. One JSON request a line comes in on stdin, tensors in a
safetensors file beside it; one JSON answer a line goes out. It ends with its parent's pipe.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import cuassay
from cuassay.model import serial
from cuassay.model.dtype import DType
from cuassay.model.precision import Precision
from cuassay.model.problem import TensorSpec
from cuassay.oracle.answers import low_type_of, policy_of_call
from cuassay.oracle.gradients import differentiated
from cuassay.oracle.truth.make import hit_counts, make_truth
from cuassay.oracle.truth.precision import family_of
from cuassay.oracle.truth.types import Truth
from cuassay_guard.calls import structure
from cuassay_guard.calls.structure import Template, flatten
from cuassay_guard.sampled.judging import Judgement, judge_call
from cuassay_guard.trusted import Where, import_operator, import_root

_NICE = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class OracleRequest:
    """One call to judge. `file` holds tensors in0..., got0... and want0....

    `template` puts the positional arguments together from the inputs; `mutated` are places of
    inputs whose values after the call are the last outputs; `gradient_of` the places of inputs
    whose gradients are judged (the upstream gradients follow the call's inputs); `hits` maps an
    output to the place of the index tensor that addresses its rows; `precision` is the policy,
    None where the types of the call decide. `module_file` is the file of
    the trusted operator's module: what is imported here must be that one, not its namesake.
    """

    file: str
    where: Where
    template: str
    inputs: int
    names: tuple[str, ...]
    seed: int
    mutated: tuple[int, ...] = ()
    gradient_of: tuple[int, ...] = ()
    upstream: int = 0
    accumulation: DType = DType.FLOAT32
    precision: Precision | None = None
    hits: Mapping[str, int] = field(default_factory=dict)
    sys_path: tuple[str, ...] = ()
    module_file: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OracleReply:
    """A judgement, or why there is none. `lost` says that the operator cannot be loaded."""

    judgement: Judgement | None = None
    error: str = ""
    lost: bool = False


class _CannotLoadError(Exception):
    """The trusted operator cannot be imported here."""


def answer(request: OracleRequest) -> OracleReply:
    """Judge one call."""
    try:
        fn = _function(request)
    except _CannotLoadError as failure:
        return OracleReply(error=str(failure), lost=True)
    try:
        from safetensors.torch import load_file

        tensors = load_file(request.file)
        inputs, got, want = (_numbered(tensors, kind) for kind in ("in", "got", "want"))
        call = applied(
            fn,
            json.loads(request.template),
            request.mutated,
            gradient_of=request.gradient_of,
            inputs=request.inputs - request.upstream,
        )
        index_hits = {
            name: hit_counts(inputs[place], want[request.names.index(name)].shape[0])
            for name, place in request.hits.items()
            if name in request.names and not request.gradient_of
        }

        def truth(specs: Sequence[TensorSpec], seed: int, family: Precision) -> Truth:
            return make_truth(
                call,
                inputs,
                specs,
                seed=seed,
                accumulation=request.accumulation,
                index_hits=index_hits,
                family=family_of(family, low_type_of([*want, *inputs])),
            )

        policy = request.precision or policy_of_call(inputs, want)
        names, seed = request.names, request.seed
        judgement = judge_call(truth, got, want, names, seed=seed, by="oracle", policy=policy)
        return OracleReply(judgement=judgement)
    except Exception as failure:
        return OracleReply(error=f"{type(failure).__name__}: {failure}"[:500])


def _function(request: OracleRequest) -> Callable[..., object]:
    for entry in reversed(request.sys_path):
        if entry not in sys.path:
            sys.path.insert(0, entry)
    try:
        return _loaded(request.where, request.module_file)
    except (Exception, SystemExit) as failure:
        raise _CannotLoadError(f"{type(failure).__name__}: {failure}"[:500]) from failure


@lru_cache(maxsize=64)
def _loaded(where: Where, module_file: str) -> Callable[..., object]:
    if root := import_root(where.module, module_file):
        sys.path.insert(0, root)  # before what else the guarded process has on its path by now
    found = import_operator(where)
    here = getattr(sys.modules.get(where.module), "__file__", None) or ""
    if module_file and here != module_file:
        raise ImportError(f"'{where.module}' is {here} here and {module_file} where it is guarded")
    return found


def applied(
    fn: Callable[..., object],
    template: Template,
    mutated: Sequence[int],
    *,
    gradient_of: Sequence[int],
    inputs: int,
) -> Callable[..., Sequence[Tensor]]:
    """Return a function of tensors alone that gives every output, written inputs last.

    With `gradient_of` it takes upstream gradients behind the `inputs` tensors and gives the
    gradients of those at these places.
    """

    def call(*tensors: Tensor) -> list[Tensor]:
        given = list(tensors)
        for place in mutated:
            given[place] = given[place].clone()
        outputs, _ = flatten(structure.call_with(fn, template, given))
        return [*outputs, *[given[place] for place in mutated]]

    call.__name__ = getattr(fn, "__name__", "trusted")
    return differentiated(call, gradient_of, count=inputs) if gradient_of else call


def _numbered(tensors: Mapping[str, Tensor], kind: str) -> list[Tensor]:
    count = sum(name.startswith(kind) for name in tensors)
    return [tensors[f"{kind}{index}"] for index in range(count)]


def main() -> None:
    """Answer requests until the parent's pipe closes."""
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what users' modules print is no reply
    os.nice(_NICE)
    torch.set_num_threads(int(os.environ.get("CUASSAY_GUARD_ORACLE_THREADS", "1")))
    for line in sys.stdin:
        request: OracleRequest = serial.loads(OracleRequest, line)
        found = answer(request)
        Path(request.file).unlink(missing_ok=True)
        replies.write(serial.dumps(found).replace("\n", " ") + "\n")
        replies.flush()


def process_environment() -> dict[str, Any]:
    """Return the environment variables of this process as its parent sets them."""
    own, gate = Path(__file__).resolve().parents[2], Path(cuassay.__file__).resolve().parents[1]
    paths = [str(own), str(gate), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths)),
        "CUDA_VISIBLE_DEVICES": "",  # its numbers need no GPU, and the GPU is busy
        "CUASSAY_GUARD": "off",
        "OMP_WAIT_POLICY": "PASSIVE",
    }


if __name__ == "__main__":
    main()
