"""A program to LLVM IR text: one scalar, resumable function that one thread runs.

`i64 step(thread, block, launch)` executes a thread from where its record says until it has to
wait, and returns why. Blocks of IR follow the basic blocks of the PTX.
"""

from __future__ import annotations

from dataclasses import dataclass

from ptxsan import isa
from ptxsan.dataflow import Liveness
from ptxsan.emit import algebra, deferred, registry
from ptxsan.emit.context import Emit
from ptxsan.emit.control import block_label, predicate
from ptxsan.emit.integer import INTEGERS
from ptxsan.emit.values import is_signed
from ptxsan.errors import MachineError
from ptxsan.facts import Facts, collect
from ptxsan.interplay import updates_of
from ptxsan.isa import Ends
from ptxsan.options import Options
from ptxsan.program import Program, Variable
from ptxsan.runtime import layout
from ptxsan.syntax import Instruction, Pair, Register

_CACHED_LINE = 64
# LLVM's quick selection walks over the rest of a block at each call that it leaves to the slow
# one: 33 s for 32,000 instructions in a row, 2 s in parts.
_PART = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class Collective:
    """A warp operation of a kernel: which handler, with how many slots."""

    handler: str
    inputs: int
    outputs: int
    immediate: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Code:
    """LLVM IR of a kernel and what the runtime has to know about it.

    `thread_bytes` is the size of a thread's record, `local_offset` where its local memory begins,
    `calls` the runtime functions that the IR refers to. A long row of instructions `is_parted` into
    blocks that are not to be joined again.
    """

    ir: str
    thread_bytes: int
    local_offset: int
    copy_offset: int
    copy_slots: int
    local_bytes: int
    collectives: tuple[Collective, ...]
    calls: tuple[str, ...]
    is_parted: bool
    facts: Facts


def decides(ins: Instruction) -> bool:
    """Whether an instruction chooses: a comparison, or an integer minimum or maximum."""
    row = isa.row(ins)
    if row.compares:
        return not ins.parts[-1].endswith("x2") and ins.operands[0] != Register("_")
    return row.chooses and ins.parts[-1] in INTEGERS


def outcome_at(program: Program, site: int) -> int:
    """Return where the launch notes that an instruction chose False; True is the byte after it.

    Before them are a byte of each block, and one that nobody reads.
    """
    return len(program.blocks) + 1 + 2 * site


def local_bytes(variables: tuple[Variable, ...]) -> int:
    """Return the bytes of a thread's local memory, each variable at a multiple of 16."""
    return sum(-(-one.bytes // 16) * 16 for one in variables)


def _copy_slots(program: Program) -> int:
    """Return how many cp.async of a thread may be pending: more where a kernel unrolls many."""
    count = sum(one.opcode.startswith(("cp.async.ca", "cp.async.cg")) for one in program.body)
    wanted = 1 << (4 * count).bit_length()
    return min(max(wanted, layout.LEAST_COPIES), layout.MOST_COPIES)


def generate(program: Program, options: Options) -> Code:
    """Return the IR of a kernel.

    Raises MachineError with the PTX line of an instruction that has no meaning here.
    """
    if not program.body:
        raise MachineError(f"kernel '{program.name}' has no instructions")
    liveness = Liveness(program.body, program.blocks)
    facts = collect(program.body, liveness, program.registers)
    cx = Emit(program, options, liveness, facts, updates_of(program))
    longest = max(block.end - block.start for block in program.blocks)
    is_parted = longest > 2 * _PART and not options.optimise
    for number, block in enumerate(program.blocks):
        cx.label(block_label(block.start))
        # Count the block's instructions, mark it executed and remember it.
        body = program.body[block.start : block.end]
        count = cx.let("load i64, ptr %count")
        cx.line(f"store i64 {cx.let(f'add i64 {count}, {len(body)}')}, ptr %count")
        mark = cx.let(f"getelementptr i8, ptr %covered, i64 {number}")
        cx.line(f"store i8 1, ptr {mark}")
        if not all(map(isa.leaves, body)):
            cx.line(f"store i32 {number}, ptr %last")
        for site in range(block.start, block.end):
            if is_parted and (site - block.start) % _PART == _PART - 1:
                cx.label(cx.fresh("part"))
            cx.site, cx.ins = site, program.body[site]
            _instruction(cx)
    cx.label(block_label(len(program.body)))
    cx.jump("done")
    local = local_bytes(cx.program.local)
    exchange = layout.SLOT * cx.parts.slots
    allocas = cx.frame.allocas()
    local_offset = layout.EXCHANGE + exchange
    spill = local_offset + 4 * local  # bytes, init flags, and two bytes of shadow a byte
    copies = -(-(spill + cx.frame.spill_bytes) // _CACHED_LINE) * _CACHED_LINE
    slots, ending = 0, list[str]()
    if cx.parts.uses_copies:  # those that a thread has not waited for land when it ends
        slots = _copy_slots(program)
        place = ", ".join(f"i64 %{one}.i" for one in ("thread", "block", "launch"))
        cx.parts.declared["rt_copy_wait"] = "declare void @rt_copy_wait(i64, i64, i64, i64)"
        ending = [f"  call void @rt_copy_wait({place}, i64 -1)"]
    total = copies + (layout.COPY_SCRATCH + slots * layout.COPY_RECORD if slots else 0)
    lines = [
        *sorted(cx.parts.declared.values()),
        "",
        "define i64 @step(ptr noalias %thread, ptr noalias %block, ptr noalias %launch) {",
        *(f"  {one}" for one in _prologue(cx, spill, allocas)),
        *cx.lines,
        "done:",
        *ending,
        "  %count.1 = load i64, ptr %count",
        "  store i64 %count.1, ptr %count.p",
        "  %last.1 = load i32, ptr %last",
        "  store i32 %last.1, ptr %last.p",
        f"  ret i64 {layout.REASON_EXIT}",
        "}",
        *deferred.function(cx),
        "!0 = !{}",
    ]
    every = {
        (key[0], key[1], key[2], key[3]): number for key, number in cx.parts.collectives.items()
    }
    return Code(
        ir="\n".join(lines),
        thread_bytes=total,
        local_offset=local_offset,
        copy_offset=copies,
        copy_slots=slots,
        local_bytes=local,
        collectives=tuple(
            Collective(handler=key[0], inputs=key[1], outputs=key[2], immediate=key[3])
            for key in sorted(every, key=lambda key: every[key])
        ),
        calls=tuple(name for name in cx.parts.declared if not name.startswith("llvm.")),
        is_parted=is_parted,
        facts=cx.facts,
    )


def _instruction(cx: Emit) -> None:
    ins = cx.ins
    emitter = registry.find(ins)
    if emitter is None:
        cx.unsupported("is an instruction that the machine does not know")
    if ins.predicate is None or isa.row(ins).ends is Ends.JUMP:
        _executed(cx, ins, emitter)
        return
    condition = predicate(cx, ins)
    work, after = cx.fresh("if"), cx.fresh("endif")
    cx.branch(str(condition), work, after)
    cx.lines.append(f"{work}:")
    _executed(cx, ins, emitter)
    cx.label(after)


def _executed(cx: Emit, ins: Instruction, emitter: registry.Emitter) -> None:
    """Execute an instruction and note what it chose: each outcome has a byte of its own.

    Threads of the host that run blocks at once then store the same.
    """
    place, noted = "", decides(ins)
    if noted and isa.row(ins).chooses:  # the result may take the place of an operand
        type_ = ins.parts[-1]
        a, b = cx.read(ins.operands[1], type_), cx.read(ins.operands[2], type_)
        less = cx.let(f"icmp {'s' if is_signed(type_) else 'u'}lt i{a.width} {a.bits}, {b.bits}")
        same = cx.let(f"icmp eq i{a.width} {a.bits}, {b.bits}")
        at = cx.let(f"zext i1 {less} to i64")
        at = cx.let(f"add i64 {at}, {outcome_at(cx.program, cx.site)}")
        place = cx.let(f"select i1 {same}, i64 {len(cx.program.blocks)}, i64 {at}")
    algebra.emit(cx, ins, emitter)
    if noted and isa.row(ins).compares:
        to = ins.operands[0]
        held = cx.read(to.first if isinstance(to, Pair) else to, "pred")
        at = cx.let(f"zext i1 {held.bits} to i64")
        place = cx.let(f"add i64 {at}, {outcome_at(cx.program, cx.site)}")
    if place:
        mark = cx.let(f"getelementptr i8, ptr %covered, i64 {place}")
        cx.line(f"store i8 1, ptr {mark}")


def _prologue(cx: Emit, spill: int, allocas: list[str]) -> list[str]:
    cases = " ".join(
        f"i32 {number}, label %{label}" for number, label in enumerate(cx.parts.resumes, start=1)
    )
    return [
        f"%spill = getelementptr i8, ptr %thread, i64 {spill}",
        *allocas,
        "%carry = alloca i1",
        "%count = alloca i64",
        "%fuel = alloca i32",
        "%last = alloca i32",
        "%out = alloca [4 x i64], align 16",
        "%out.i = ptrtoint ptr %out to i64",
        "%thread.i = ptrtoint ptr %thread to i64",
        "%block.i = ptrtoint ptr %block to i64",
        "%launch.i = ptrtoint ptr %launch to i64",
        f"%covered.p = getelementptr i8, ptr %launch, i64 {layout.COVERED}",
        "%covered = load ptr, ptr %covered.p",
        f"%fuel.p = getelementptr i8, ptr %launch, i64 {layout.FUEL}",
        "%fuel.0 = load i32, ptr %fuel.p",
        "store i32 %fuel.0, ptr %fuel",
        f"%count.p = getelementptr i8, ptr %thread, i64 {layout.COUNT}",
        "%count.0 = load i64, ptr %count.p",
        "store i64 %count.0, ptr %count",
        f"%last.p = getelementptr i8, ptr %thread, i64 {layout.LAST_BLOCK}",
        "%last.0 = load i32, ptr %last.p",
        "store i32 %last.0, ptr %last",
        "store i1 false, ptr %carry",
        "%resume = load i32, ptr %thread",
        f"switch i32 %resume, label %start [ {cases} ]",
        "start:",
        *cx.frame.clears(cx.liveness.before(0)),
    ]
