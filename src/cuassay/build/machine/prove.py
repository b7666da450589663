"""Proves recorded launches for all sizes, in a process for that: outlines in, answers out.

As with `replay`, no candidate's code is loaded into the process but PTX.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from cuassay.errors import CannotJudgeError
from cuassay.model import serial
from cuassay.model.proofs import (
    CallProof,
    Claim,
    Datum,
    LaunchProof,
    ProofAnswer,
    ProofEvidence,
    Property,
)
from cuassay.model.recording import Recording, Region
from ptxsan.errors import MachineError
from ptxsan.lines import own_line
from ptxsan.names import readable
from ptxsan.prove.alone import alone
from ptxsan.prove.beyond import confirmed_laws, every_size
from ptxsan.prove.law import (
    Axis,
    CallLaw,
    Expression,
    Floor,
    Integers,
    Launched,
    LaunchLaw,
    Lawless,
    Number,
    Observation,
    Place,
    Scalar,
    Sum,
    evaluated,
    laws,
)
from ptxsan.prove.machine import AxisDomain, Domain
from ptxsan.prove.memory import (
    Answer,
    Proved,
    Refuted,
    Unknown,
    as_recorded,
    is_confirmed,
    prove_call,
)

_TEXT, _CLASSES = 600, 32
LIMIT_ELEMENTS = 1 << 31  # of a tensor, where nobody asks for others
_Outlines: TypeAlias = Sequence[tuple[Mapping[str, int], Recording]]


def packed(recordings: _Outlines, wanted: Any, beyond: _Outlines = ()) -> bytes:
    """Return outlines at sizes of the free axes, and what is wanted of them, as bytes.

    Laws are fitted to `recordings`, and end where one of those `beyond` contradicts them.

    `wanted` holds `axes` (name -> [low, high or None, multiple]), `tensors` (shapes: lists of
    expressions in reverse Polish notation), `values` (input -> [low, high, bytes, whether any
    of these may stand anywhere, whether they rise from the lower to the upper bound]), `listed`
    (the problem's own sizes of the axes), `limit_s`, `elements` (what tensors stay below; 0: as
    usual).
    """
    modules: dict[str, int] = {}
    calls: list[dict[str, Any]] = []
    for sizes, recording in (*recordings, *beyond):
        for one in recording.launches:
            if one.results_read:
                raise CannotJudgeError(
                    "host code takes numbers out of what its kernels write: what it launches then "
                    "is not known, as launches are recorded without being run"
                )
        launches = [
            {
                "module": modules.setdefault(recording.modules[one.module], len(modules)),
                "kernel": one.kernel,
                "grid": one.grid,
                "block": one.block,
                "cluster": one.cluster,
                "shared_bytes": one.shared_bytes,
                "arguments": [data.hex() for data in one.arguments],
                "regions": [
                    [name_of(each), each.base, each.nbytes, each.unwritten] for each in one.regions
                ],
            }
            for one in recording.launches
        ]
        calls.append({"sizes": dict(sizes), "launches": launches})
    told = {"calls": calls[: len(recordings)], "beyond": calls[len(recordings) :]}
    return json.dumps({**wanted, "modules": list(modules), **told}).encode()


def name_of(region: Region) -> str:
    """Return what a region is called: nobody knows what an input holds that host code changed."""
    return f"{region.name}, as host code left it" if region.changed else region.name


def prove(request: memoryview) -> bytes:
    """Answer a packed request with evidence as JSON."""
    asked = json.loads(bytes(request))
    try:
        seen = ProofEvidence(calls=tuple(_proofs(asked)))
    except (MachineError, ValueError, KeyError) as error:
        seen = ProofEvidence(refused=str(error)[:_TEXT])
    return serial.dumps(seen).encode()


def _proofs(asked: Mapping[str, Any]) -> list[CallProof]:
    tensors = tuple(
        Sum(((1, tuple(expression(part) for part in shape)),)) for shape in asked["tensors"]
    )
    elements = int(asked.get("elements", 0))
    listed = max((evaluated(one, row) for one in tensors for row in asked["listed"]), default=0)
    domain = Domain(
        limit=elements or LIMIT_ELEMENTS,
        axes={
            str(name): AxisDomain(low=max(1, int(low)), high=high, multiple=int(multiple))
            for name, (low, high, multiple) in asked["axes"].items()
        },
        elements=tensors,
        listed=elements - 1 if elements else listed,
    )
    values = {
        str(name): Integers(
            low=expression(low),
            high=expression(high),
            nbytes=int(nbytes),
            free=bool(free),
            rising=bool(rising),
        )
        for name, (low, high, nbytes, free, rising) in asked["values"].items()
    }
    observations = [_observation(call, asked["modules"]) for call in asked["calls"]]
    found: list[CallProof] = []
    extents = [part for one in tensors for _, shape in one.parts for part in shape]
    several = [one for one in dict.fromkeys(extents) if not isinstance(one, Number | Axis)]
    beyond = [_observation(call, asked["modules"]) for call in asked.get("beyond", ())]
    limit_s = float(asked["limit_s"])
    if every_size(observations, domain):  # no law is needed
        return [
            replace(_as_recorded(laws([one])[0], domain, values, limit_s), everywhere=True)
            for one in observations
            if one.launches
        ]
    seen = confirmed_laws(observations, beyond, domain, parts=several, known=values)
    for law, span in seen.reaches[:_CLASSES]:
        if span is None or not is_confirmed(law, domain):
            found.append(_as_recorded(law, domain, values, limit_s))
            continue
        found.append(
            CallProof(
                scope=scope_in_words(span.law, span.domain),
                fitted=law.fitted,
                confirmed=law.confirmed,
                beyond=span.beyond,
                elements=span.elements,
                ends=span.ends,
                launches=_launches(span.law, span.domain, values, limit_s),
            )
        )
    # Launches at sizes where no law holds: the smallest and the largest of such calls.
    several_sizes = sorted(
        seen.orphans,
        key=lambda one: max((evaluated(each, one.sizes) for each in domain.elements), default=1),
    )
    for one in {id(one): one for one in (*several_sizes[:1], *several_sizes[-1:])}.values():
        found.append(_as_recorded(laws([one])[0], domain, values, limit_s))
    return found


def _as_recorded(
    law: CallLaw, domain: Domain, values: Mapping[str, Integers], limit_s: float
) -> CallProof:
    held, point = as_recorded(law, domain)
    sizes = ", ".join(f"{name}={axis.low}" for name, axis in point.axes.items())
    return CallProof(
        scope=f"only {sizes}, where it was recorded",
        everywhere=False,
        fitted=law.fitted,
        confirmed=law.confirmed,
        launches=_launches(held, point, values, limit_s),
    )


def _launches(
    law: CallLaw, domain: Domain, values: Mapping[str, Integers], limit_s: float
) -> tuple[LaunchProof, ...]:
    answers = prove_call(law, domain, values=values, limit_s=limit_s)
    return tuple(
        LaunchProof(
            kernel=one.kernel[:_TEXT],
            law=law_in_words(one),
            claims=(
                _claim(Property.MEMORY, answer.answer),
                _claim(Property.RACES, answer.races),
                _claim(Property.INITIALIZED, answer.initialized),
            ),
            seconds=answer.seconds,
            solver_s=answer.solver_s,
        )
        for one, answer in zip(law.launches, answers, strict=True)
    )


def expression(tokens: Sequence[Any]) -> Expression:
    """Return an expression in reverse Polish notation (numbers, axes, + - * //) as a law's."""
    stack: list[Expression] = []
    for token in tokens:
        if isinstance(token, int):
            stack.append(Number(token))
            continue
        if token not in ("+", "-", "*", "//"):
            stack.append(Axis(str(token)))
            continue
        right, left = stack.pop(), stack.pop()
        match token:
            case "+":
                stack.append(Sum(((1, (left,)), (1, (right,)))))
            case "-":
                stack.append(Sum(((1, (left,)), (-1, (right,)))))
            case "*":
                stack.append(Sum(((1, (left, right)),)))
            case _:
                if not isinstance(right, Number):
                    raise ValueError("a shape that divides by an axis")
                stack.append(Floor(left, 0, right.value))
    return stack.pop()


def _observation(call: Mapping[str, Any], modules: Sequence[str]) -> Observation:
    launches = []
    for one in call["launches"]:
        grid, block, cluster = ((int(x), int(y), int(z)) for x, y, z in
                                (one["grid"], one["block"], one["cluster"]))  # fmt: skip
        launches.append(
            Launched(
                module=alone(modules[one["module"]], one["kernel"]),
                kernel=one["kernel"],
                grid=grid,
                block=block,
                cluster=cluster,
                shared_bytes=int(one["shared_bytes"]),
                arguments=tuple(bytes.fromhex(text) for text in one["arguments"]),
                regions=tuple((int(base), int(size)) for _, base, size, *_ in one["regions"]),
                names=tuple(str(name) for name, *_ in one["regions"]),
                unwritten=tuple(any(more) for _, _, _, *more in one["regions"]),
            )
        )
    sizes = {str(name): int(size) for name, size in call["sizes"].items()}
    return Observation(sizes=sizes, launches=tuple(launches))


def scope_in_words(law: CallLaw, domain: Domain) -> str:
    """Return the sizes that a class of calls is for."""
    parts = []
    for name, legal in domain.axes.items():
        low, high = law.scope.bounds.get(name, (None, None))
        least = legal.low if low is None else max(low, legal.low)
        tops = [one for one in (legal.high, high) if one is not None]
        multiple = legal.multiple * law.scope.multiples.get(name, 1)
        text = f"{name} from {least:,}" + (f" to {min(tops):,}" if tops else "")
        parts.append(text + (f", a multiple of {multiple}" if multiple > 1 else ""))
    parts += [str(one) for one in law.scope.conditions]
    return "; ".join(parts) or "the problem's only sizes"


def law_in_words(law: LaunchLaw) -> tuple[str, ...]:
    """Return a launch's law as lines: extents, shared memory, arguments."""

    def several(found: Sequence[Expression | None]) -> str:
        return "(" + ", ".join("?" if one is None else str(one) for one in found) + ")"

    lines = [f"grid {several(law.grid)}, block {several(law.block)}"]
    shared = law.shared_bytes
    if shared != Number(0):
        lines.append(f"{'?' if shared is None else shared} bytes of dynamic shared memory")
    for number, nbytes in enumerate(law.parameter_bytes):
        match law.words.get((number, 0, nbytes)):
            case Scalar(value):
                lines.append(f"argument {number}: {value}")
            case Place(region, offset):
                length = law.regions[region]
                name = law.names[region] if region < len(law.names) else ""
                where = f"byte {offset} of " if offset != Number(0) else ""
                size = "?" if length is None else str(length)
                lines.append(f"argument {number}: {where}'{name or 'memory'}', {size} bytes")
            case Lawless(why):
                lines.append(f"argument {number}: {why}")
            case None:
                lines.append(f"argument {number}: a structure of {nbytes} bytes")
    return tuple(line[:_TEXT] for line in lines)


def _claim(what: Property, answer: Answer) -> Claim:
    match answer:
        case Proved(accesses=accesses, discharged=discharged, limit=limit):
            return Claim(
                what=what, answer=ProofAnswer.PROVED, accesses=accesses,
                discharged=dict(discharged), limit_elements=limit,
            )  # fmt: skip
        case Refuted(sizes=sizes, finding=finding, data=data):
            touch = finding.accesses[0] if finding.accesses else None
            return Claim(
                what=what, answer=ProofAnswer.REFUTED, reason=readable(finding.text)[:_TEXT],
                ptx_line=finding.ptx_line, sizes=dict(sizes),
                file=((touch.source_file or "") if touch else "").rpartition("/")[2][:_TEXT],
                line=int((touch.source_line or 0) if touch else 0),
                block=touch.block if touch else None, thread=touch.thread if touch else None,
                data=tuple(
                    Datum(input=one.name, offset=one.offset, nbytes=one.nbytes, value=one.value)
                    for one in data
                ),
            )  # fmt: skip
        case Unknown(line=line, source=source, reason=reason, suspects=suspects):
            place = own_line(source)
            return Claim(
                what=what, answer=ProofAnswer.UNKNOWN, reason=readable(reason)[:_TEXT],
                ptx_line=line, file=place.file.rpartition("/")[2][:_TEXT] if place else "",
                line=place.line if place else 0,
                suspects=tuple(dict(one) for one in suspects),
            )  # fmt: skip
