"""Run a capsule again: `python -m cuassay_guard.capsules.replay CAPSULE`; prints one JSON document.

The recorded outputs are judged, then the kernel's on the recorded inputs where it can be
loaded; a failure that shows is made smaller. A drift is replayed as many calls on shuffled
values. This is a process of its own: the oracle may change what threads share, and the kernel
may crash.
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from cuassay.errors import CannotJudgeError, CuassayError, UsageError
from cuassay.formats.modules import import_file
from cuassay.model.dtype import DType
from cuassay.model.precision import Precision, precision_named
from cuassay.model.problem import TensorSpec
from cuassay.oracle.answers import low_type_of, policy_of_call
from cuassay.oracle.truth.make import make_truth
from cuassay.oracle.truth.precision import family_of
from cuassay.oracle.truth.types import Truth
from cuassay_guard.capsules.evidence import CapsuleHeader, read_capsule, save_capsule
from cuassay_guard.capsules.shrink import ShrunkInputs, shrunk
from cuassay_guard.sampled.drift import Drift
from cuassay_guard.sampled.judging import Judgement, judge_call, worst_of
from cuassay_guard.sampled.oracle_process import applied
from cuassay_guard.trusted import Where, import_operator

_RUNS = 8  # of the kernel: a race need not show at once
_CALLS = 256  # of a drift
_SEED = 1
Call = Callable[..., object]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Capsule:
    """A capsule that can be run: tensors on a device, and the functions."""

    header: CapsuleHeader
    inputs: list[Tensor]
    got: list[Tensor]
    want: list[Tensor]
    reference: Call
    kernel: Call | None

    def call(self, fn: Call) -> Callable[..., Sequence[Tensor]]:
        """Return `fn` as a function of the tensors alone that gives every judged output."""
        header = self.header
        return applied(
            fn,
            json.loads(header.template),
            header.mutated,
            gradient_of=header.gradient_of,
            inputs=header.inputs - header.upstream,
        )

    def outputs(self, fn: Call, inputs: Sequence[Tensor]) -> list[Tensor]:
        """Return what `fn` gives on copies of `inputs`."""
        return [t.detach() for t in self.call(fn)(*[t.clone() for t in inputs])]

    def judged(self, got: Sequence[Tensor], inputs: Sequence[Tensor]) -> Judgement:
        """Return the oracle's judgement of outputs on these inputs."""
        want = self.outputs(self.reference, inputs)
        if [(t.shape, t.dtype) for t in got] != [(t.shape, t.dtype) for t in want]:
            raise CannotJudgeError("outputs differ from the trusted operator's in shape or dtype")

        def truth(specs: Sequence[TensorSpec], seed: int, family: Precision) -> Truth:
            return make_truth(
                self.call(self.reference),
                inputs,
                specs,
                seed=seed,
                accumulation=DType(self.header.accumulation),
                family=family_of(family, low_type_of([*want, *inputs])),
            )

        policy = precision_named(self.header.precision or None) or policy_of_call(inputs, want)
        names = self.header.names
        return judge_call(truth, got, want, names, seed=_SEED, by="oracle", policy=policy)


def opened(path: Path, *, kernel: str, device: str) -> Capsule:
    """Return a capsule ready to run. Raises UsageError and CannotJudgeError."""
    header, tensors = read_capsule(path)
    missing = [one for one in header.tensors if one.why]
    if missing:
        raise CannotJudgeError(
            f"{path.name} holds no values of {missing[0].name} ({missing[0].why}); only its "
            f"violation and environment can be read"
        )
    if not header.template:
        raise CannotJudgeError(f"{path.name}: the call held objects that only its process had")
    parts = {
        kind: [
            tensors[f"{kind}{i}"].to(device)
            for i in range(sum(name.startswith(kind) for name in tensors))
        ]
        for kind in ("in", "got", "want")
    }
    for where in (header.reference, header.candidate):
        # Refuse what no kernel is: a capsule is a file, and replaying calls what it names.
        top = where.module.partition(".")[0]
        if top in sys.stdlib_module_names or top in sys.builtin_module_names:
            raise UsageError(
                f"the capsule names '{where.module}.{where.qualname}', which is Python's own and "
                "no kernel: it is not called"
            )
    try:
        reference = import_operator(header.reference)
    except Exception as failure:
        where = header.reference
        name = where.problem or f"{where.module}.{where.qualname}"
        raise CannotJudgeError(
            f"the trusted operator {name} cannot be loaded here: {failure}; "
            f"install its package or add its folder to PYTHONPATH"
        ) from failure
    return Capsule(
        header=header,
        inputs=parts["in"],
        got=parts["got"],
        want=parts["want"],
        reference=reference,
        kernel=_kernel(header.candidate, kernel),
    )


def _kernel(recorded: Where, given: str) -> Call | None:
    """Return the kernel: what `--kernel FILE.py:FUNCTION` names, else as it was recorded."""
    if given:
        place, _, function = given.rpartition(":")
        path = Path(place)
        if not path.is_file() or path.suffix != ".py":
            raise UsageError(f"--kernel {given}: expected FILE.py:FUNCTION with an existing file")
        sys.path.insert(0, str(path.absolute().parent))  # what stands beside it can be imported
        found: Any = getattr(import_file(path), function, None)
        if not callable(found):
            raise UsageError(f"--kernel {given}: {path} defines no function '{function}'")
    elif not recorded.module:
        return None
    else:
        try:
            found = import_operator(recorded)
        except Exception:
            return None
    call: Call = getattr(found, "kernel", found)  # a decorated kernel: the bare one
    return call


def replayed(path: Path, *, kernel: str, device: str, shrink: bool) -> dict[str, Any]:
    """Return the document of a replay. Raises UsageError and CannotJudgeError."""
    capsule = opened(path, kernel=kernel, device=device)
    header = capsule.header
    document: dict[str, Any] = {
        "capsule": str(path),
        "kernel": header.violation.kernel,
        "kind": header.violation.kind,
        "recorded": header.violation.message,
        "environment": dict(header.environment),
        "device": device,
        "kernel_found": capsule.kernel is not None,
    }
    if header.violation.kind == "drift":
        return document | _drift(capsule)
    if header.violation.kind == "contract":
        if capsule.kernel is None:
            contract = {"shows": True, "runs": 0}
        else:
            got = capsule.outputs(capsule.kernel, capsule.inputs)
            want = capsule.outputs(capsule.reference, capsule.inputs)
            same = [(t.shape, t.dtype) for t in got] == [(t.shape, t.dtype) for t in want]
            contract = {"shows": not same, "runs": 1}
        return document | contract
    again = capsule.judged(capsule.got, capsule.inputs)
    document["recorded_outputs"] = _words(again)
    if capsule.kernel is None:
        return document | {"shows": again.failed is not None, "runs": 0}
    for run in range(_RUNS):
        found = capsule.judged(capsule.outputs(capsule.kernel, capsule.inputs), capsule.inputs)
        if found.failed is not None:
            smaller = _smaller(capsule, path) if shrink else {}
            return document | {"shows": True, "runs": run + 1, "now": _words(found)} | smaller
    return document | {"shows": False, "runs": _RUNS, "now": _words(found)}


def _words(judgement: Judgement) -> dict[str, Any]:
    failed = judgement.failed
    if failed is None:
        share = max((one.share for one in judgement.outputs), default=0.0)
        return {"passes": True, "share": share, "undecided": judgement.undecided}
    worst = worst_of(failed)
    return {
        "passes": False,
        "output": failed.output,
        "statistic": worst.name,
        "measured": worst.value,
        "allowed": worst.limit,
        "group": worst.group,
    }


def _drift(capsule: Capsule) -> dict[str, Any]:
    """Call the kernel on shuffled values until the error's sign shows, or does not."""
    if capsule.kernel is None:
        return {"shows": False, "runs": 0, "why": "a drift needs the kernel: give --kernel"}
    drift, found = Drift(), None
    generator = torch.Generator().manual_seed(_SEED)
    for run in range(_CALLS):
        inputs = [_shuffled(t, generator) for t in capsule.inputs]
        judgement = capsule.judged(capsule.outputs(capsule.kernel, inputs), inputs)
        drifting = [drift.add(one.output, one.bias) for one in judgement.outputs]
        found = next((one for one in drifting if one is not None), None)
        if found is not None or judgement.failed is not None:
            score = {"measured": found.score, "allowed": found.limit} if found else {}
            return {"shows": True, "runs": run + 1} | score
    return {"shows": False, "runs": _CALLS}


def _shuffled(tensor: Tensor, generator: torch.Generator) -> Tensor:
    if not tensor.is_floating_point():
        return tensor
    order = torch.randperm(tensor.numel(), generator=generator).to(tensor.device)
    moved = tensor.reshape(-1)[order].reshape(tensor.shape)
    return moved * (1 + 0.25 * torch.rand(1, generator=generator).to(moved))


def _smaller(capsule: Capsule, path: Path) -> dict[str, Any]:
    """Shrink a failure that shows and write it beside the capsule."""
    assert capsule.kernel is not None
    kernel = capsule.kernel

    def fails(inputs: Sequence[Tensor]) -> bool:
        try:
            return capsule.judged(capsule.outputs(kernel, inputs), inputs).failed is not None
        except Exception:  # shapes that the operator does not take
            return False

    found: ShrunkInputs = shrunk(capsule.inputs, fails)
    if not found.changed:
        return {"tries": found.tries}
    target = path.with_name(path.name.replace(".capsule.", ".shrunk.capsule."))
    parts = {
        "in": found.inputs,
        "got": capsule.outputs(kernel, found.inputs),
        "want": capsule.outputs(capsule.reference, found.inputs),
    }
    named = {f"{kind}{i}": tensor for kind, part in parts.items() for i, tensor in enumerate(part)}
    save_capsule(target, dataclasses.replace(capsule.header, tensors=()), named)
    return {
        "tries": found.tries,
        "shapes": [list(t.shape) for t in capsule.inputs],
        "shrunk_shapes": [list(t.shape) for t in found.inputs],
        "shrunk": str(target),
    }


def main(arguments: Sequence[str]) -> int:
    """Print the document; the exit code is 1 where it shows, 0 where not, 2 or 3 on errors."""
    reply = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what the kernel prints is no document
    options = json.loads(arguments[0])
    device = options["device"] or ("cuda" if torch.cuda.is_available() else "cpu")
    try:
        document = replayed(
            Path(options["capsule"]),
            kernel=options["kernel"],
            device=device,
            shrink=options["shrink"],
        )
        code = int(document["shows"])
    except CuassayError as failure:
        code = 2 if isinstance(failure, UsageError) else 3
        document = {"error": str(failure)}
    except Exception as failure:
        code, document = 3, {"error": f"{type(failure).__name__}: {failure}"}
    reply.write(json.dumps(document | {"exit_code": code}))
    reply.flush()
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
