"""Programs of a few loads, stores, atomics and fences, as PTX and for the memory model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ptxsan_support.memory_model import (
    Access,
    Barrier,
    Fence,
    Jump,
    Program,
    Scope,
    Step,
    Thread,
    Update,
)

PLACES = {"x": 0, "f": 4, "g": 8}


@dataclass(frozen=True, slots=True)
class Op:
    """`kind` is ld, st, atom, fence, bar, or if: what follows runs where the last value is so."""

    kind: str
    place: str = "x"
    semantics: str = "weak"
    value: int = 1
    scope: str = "gpu"


Bodies = list[list[Op]]


def in_ptx(bodies: Bodies) -> str:
    """Return PTX in which the thread whose number %r4 holds runs the body of that number.

    Places lie behind %rd1; what a thread loaded goes behind %rd2.
    """
    lines = []
    for number, body in enumerate(bodies):
        lines += [f"setp.ne.s32 %p1, %r4, {number};", f"@%p1 bra next{number};"]
        register, values = 10, []
        for op in body:
            at = f"[%rd1+{PLACES[op.place]}]"
            how = "" if op.semantics == "weak" else f".{op.semantics}.{op.scope}"
            match op.kind:
                case "ld":
                    lines.append(f"ld{how}.global.u32 %r{register}, {at};")
                case "st":
                    lines.append(f"st{how}.global.u32 {at}, {op.value};")
                case "atom":
                    lines.append(f"atom{how}.global.add.u32 %r{register}, {at}, 1;")
                case "fence":
                    lines.append(f"fence.acq_rel.{op.scope};")
                case "bar":
                    lines.append("bar.sync 0;")
                case _:
                    lines.append(f"setp.ne.u32 %p2, %r{register - 1}, {op.value};")
                    lines.append(f"@%p2 bra done{number};")
            if op.kind in ("ld", "atom"):
                values.append(register)
                register += 1
        lines.append(f"done{number}:")
        lines += [
            f"st.global.u32 [%rd2+{4 * (4 * number + index)}], %r{one};"
            for index, one in enumerate(values)
        ]
        lines += ["ret;", f"next{number}:"]
    return "\n".join(lines)


def in_model(bodies: Bodies, *, blocks: Sequence[int], devices: Sequence[int]) -> Program:
    """Return the same program for the memory model: thread `i` is of `blocks[i]`, `devices[i]`."""
    threads = []
    for number, body in enumerate(bodies):
        steps: list[Step] = []
        last = ""
        for index, op in enumerate(body):
            scope = Scope(op.scope)
            name = f"r{index}"
            match op.kind:
                case "ld":
                    steps.append(
                        Access(location=op.place, target=name, semantics=op.semantics, scope=scope)
                    )
                case "st":
                    steps.append(
                        Access(
                            location=op.place, operands=(op.value,), writes=True,
                            semantics=op.semantics, scope=scope,
                        )
                    )  # fmt: skip
                case "atom":
                    steps.append(
                        Access(
                            location=op.place, target=name, operands=(1,), writes=True,
                            update=Update.ADD, semantics=op.semantics, scope=scope,
                        )
                    )  # fmt: skip
                case "fence":
                    steps.append(Fence(scope=scope))
                case "bar":
                    steps.append(Barrier(name=(0,)))
                case _:
                    steps.append(Jump(to=len(body), operands=(last, op.value), equal=False))
            last = name if op.kind in ("ld", "atom") else last
        threads.append(Thread(block=blocks[number], gpu=devices[number], steps=tuple(steps)))
    return Program(threads=tuple(threads))
