"""Every PTX instruction that the machine knows, once: what all analyses ask is a column of `TABLE`.

A row covers the forms of one base opcode (`ld`) or those that carry certain parts
(`barrier.cluster`); the row with more of its parts in the spelling wins. Emitters are attached to
base opcodes by `emit.registry`. Reference: PTX ISA 9.0. `arch` is the first compute capability
that has a form, `family` whether only its `a` targets do; `cost` the issue slots of one warp, an
f32 addition's being 1 (CUDA C++ Programming Guide, "Arithmetic Instructions", 8.0 and 9.0).
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from enum import Enum, auto
from functools import cache
from typing import Any

from ptxsan.errors import MachineError, UsageError
from ptxsan.syntax import Address, Instruction, Operand, Register, Symbol

SPACES = ("global", "shared", "local", "param", "const")
DECLARED_SPACES = (*SPACES, "reg", "tex")
# Packed floats of 4, 6 and 8 bits, scales, and fixed-point numbers: bits of a slot, bits of all.
SMALL_FLOATS = {
    f"{name}x{count}": (bits, bits * count)
    for name, bits in (
        ("e4m3", 8),
        ("e5m2", 8),
        ("e2m3", 8),
        ("e3m2", 8),
        ("e2m1", 4),
        ("ue8m0", 8),
        ("s2f6", 8),
    )
    for count in (2, 4)
}
FLOATS = frozenset(
    ("f16", "f16x2", "bf16", "bf16x2", "f32", "f64", "tf32", "e4m3", "e5m2", *SMALL_FLOATS)
)
# What CUDA sources spell where they need an architecture, the latest first.
_SIGNS = {
    "sm_100a": ("tcgen05",),
    "sm_90a": ("wgmma", "cp.async.bulk", "setmaxnreg", "mbarrier.try_wait", "cuTensorMap"),
}
_STRONG = ("volatile", "relaxed", "acquire", "release", "mmio")
_SCOPES = ("cta", "cluster", "gpu", "sys")


class Result(Enum):
    """What the first operand is."""

    NONE = auto()  # an operand like the others
    FIRST = auto()  # the destination
    BOTH = auto()  # read, then written: an accumulator
    PREDICATE = auto()  # the destination, a predicate


class Memory(Enum):
    """What an instruction does to memory that an address operand or a descriptor names."""

    NONE = auto()
    READ = auto()
    WRITE = auto()
    UPDATE = auto()  # read and written at once
    COPY = auto()  # from the second space that it names to the first, later
    HINT = auto()  # no value depends on it


class Ends(Enum):
    """Where the thread goes on."""

    NO = auto()  # at the next instruction
    JUMP = auto()
    RETURN = auto()  # at the caller
    EXIT = auto()  # nowhere


class Orders(Enum):
    """Whose accesses, before and after it, an instruction puts in order."""

    NOTHING = auto()
    WARP = auto()
    BLOCK = auto()
    CLUSTER = auto()
    SCOPE = auto()  # a fence: this thread's, as far as its scope reaches
    OBJECT = auto()  # whoever meets at an mbarrier
    COPIES = auto()  # this thread's asynchronous operations


class Shadow(Enum):
    """How the exact value beside a float moves."""

    COMPUTED = auto()  # float types compute a new one; integers have none
    MOVED = auto()  # it goes where the bits go
    LOADED = auto()  # it lies beside the bits in memory
    PRODUCED = auto()  # by a product of matrices, whatever its spelling


class Defined(Enum):
    """Which bytes of a result are uninitialised."""

    STRICT = auto()  # all, if a byte of an operand is
    BYTES = auto()  # those that come from uninitialised bytes
    HALVES = auto()  # of packed halves: the half of which an operand's half is; else as STRICT
    MEMORY = auto()  # those that nobody wrote in memory
    OTHERS = auto()  # what other threads gave, or did not


ALL = -1  # in `steers`: every operand


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One instruction, or the forms of it that carry all parts of `form`.

    `space` is the memory touched where the spelling names none. `steers` are the operands, beside
    addresses and the predicate, that decide what is touched or who takes part (-1: every one).
    `joins`: it waits for, or speaks to, other threads; `suspends`: the thread may stop there.
    `copies`: the result is operand 1; `sums`: it adds; `rows`: it touches whole rows of 16 bytes.
    `objects`: it names an mbarrier or completes on one; `clocks`: vector clocks have to be kept;
    `discards`: what memory held is lost; `fetches`: the result is what textures, surfaces or tensor
    memory hold; `tensor`: it works on tensor memory;
    `compares`: the result is whether a comparison holds; `chooses`: it is one of two operands, by
    which is smaller;
    `near`: shared addresses go into fields of descriptors, and so have to be small; `part`: where
    the result's type is spelt.
    """

    base: str
    form: tuple[str, ...] = ()
    result: Result = Result.FIRST
    memory: Memory = Memory.NONE
    space: str = "generic"
    ends: Ends = Ends.NO
    orders: Orders = Orders.NOTHING
    shadow: Shadow = Shadow.COMPUTED
    defined: Defined = Defined.STRICT
    steers: tuple[int, ...] = ()
    joins: bool = False
    suspends: bool = False
    copies: bool = False
    sums: bool = False
    rows: bool = False
    objects: bool = False
    clocks: bool = False
    near: bool = False
    calls: bool = False
    fetches: bool = False
    tensor: bool = False
    discards: bool = False
    compares: bool = False
    chooses: bool = False
    part: int = -1
    arch: int = 50
    family: bool = False
    cost: int = 1


def _rows(*names: str, **columns: Any) -> tuple[Row, ...]:
    return tuple(Row(base=name, **columns) for name in names)


_N, _P, _B = Result.NONE, Result.PREDICATE, Result.BOTH
_STEERED: dict[str, Any] = {"result": _N, "steers": (ALL,)}
_LANES: dict[str, Any] = {"joins": True, "suspends": True, "cost": 2}
_OBJECT: dict[str, Any] = {
    "objects": True,
    "clocks": True,
    "near": True,
    "steers": (ALL,),
    "arch": 80,
}
_BULK: dict[str, Any] = {"objects": True, "clocks": True, "near": True, "arch": 90}
_TENSOR: dict[str, Any] = {
    "objects": True,
    "clocks": True,
    "tensor": True,
    "steers": (ALL,),
    "arch": 100,
    "family": True,
    "cost": 4,
}
_COPY: dict[str, Any] = {"result": _N, "memory": Memory.COPY, "steers": (ALL,), "arch": 80}

TABLE: tuple[Row, ...] = (
    # integers
    *_rows("add", "sub", sums=True, defined=Defined.HALVES),
    *_rows("addc", "subc", "neg", "abs", defined=Defined.HALVES),
    *_rows("min", "max", defined=Defined.HALVES, chooses=True),
    *_rows("mul", defined=Defined.HALVES, cost=2),
    *_rows("mad", sums=True, cost=2),
    *_rows("madc", "mul24", "mad24", "sad", cost=2),
    *_rows("div", "rem", cost=16),
    *_rows("dp4a", "dp2a", arch=61, cost=2),
    *_rows("vadd2", "vadd4", "vsub2", "vsub4", "vavrg2", "vavrg4", "vabsdiff2", "vabsdiff4",
           "vmin2", "vmin4", "vmax2", "vmax4", "vset2", "vset4", part=1, cost=8),
    # bits
    *_rows("and", "or", "xor", "shl", "shr", shadow=Shadow.MOVED, defined=Defined.BYTES),
    *_rows("not", "lop3", "shf", "bfe", "bfi", defined=Defined.BYTES),
    *_rows("cnot", "popc", "clz", "brev", "bfind", "fns", "bmsk"),
    *_rows("szext", arch=70),
    # floats
    *_rows("fma", sums=True, defined=Defined.HALVES),
    *_rows("rcp", "sqrt", "rsqrt", "ex2", "lg2", "sin", "cos", "tanh", cost=8,
           defined=Defined.HALVES),
    *_rows("copysign"),
    *_rows("testp", result=_P),
    # comparisons and selections
    *_rows("setp", result=_P, compares=True),
    *_rows("set", part=-2),
    *_rows("selp", shadow=Shadow.MOVED, defined=Defined.BYTES, copies=True),
    *_rows("slct", shadow=Shadow.MOVED, defined=Defined.BYTES, copies=True, part=-2),
    # moves and conversions
    *_rows("mov", shadow=Shadow.MOVED, defined=Defined.BYTES, copies=True),
    *_rows("prmt", shadow=Shadow.MOVED, defined=Defined.BYTES, copies=True),
    *_rows("cvt", shadow=Shadow.MOVED, defined=Defined.BYTES, part=-2, cost=2),
    *(
        Row(base="cvt", form=(form,), shadow=Shadow.MOVED, defined=Defined.BYTES, part=-2, cost=2,
            arch=100, family=True)
        for form in ("e2m1x2", "e2m3x2", "e3m2x2", "ue8m0x2", "rs")
    ),
    *_rows("cvta", defined=Defined.STRICT),
    *_rows("isspacep", result=_P),
    *_rows("createpolicy", arch=80),
    # control
    *_rows("bra", result=_N, ends=Ends.JUMP),
    *_rows("ret", result=_N, ends=Ends.RETURN),
    *_rows("exit", "trap", "brkpt", result=_N, ends=Ends.EXIT),
    *_rows("call", calls=True, shadow=Shadow.PRODUCED, defined=Defined.OTHERS),
    *_rows("nanosleep", result=_N, suspends=True, arch=70),
    *_rows("setmaxnreg", "griddepcontrol", result=_N, arch=90),
    # memory
    *_rows("ld", "ldu", memory=Memory.READ, shadow=Shadow.LOADED, defined=Defined.MEMORY, cost=4),
    *_rows("st", result=_N, memory=Memory.WRITE, cost=4),
    Row(base="st", form=("async",), result=_N, memory=Memory.WRITE, space="shared", objects=True,
        arch=90, cost=4),
    *_rows("atom", memory=Memory.UPDATE, shadow=Shadow.LOADED, defined=Defined.MEMORY, cost=8),
    *_rows("red", result=_N, memory=Memory.UPDATE, cost=8),
    Row(base="red", form=("async",), result=_N, memory=Memory.UPDATE, space="shared", objects=True,
        arch=90, cost=8),
    *_rows("prefetch", "prefetchu", "applypriority", result=_N, memory=Memory.HINT),
    *_rows("discard", result=_N, memory=Memory.HINT, discards=True),
    *_rows("membar", result=_N, orders=Orders.SCOPE, cost=8),
    *_rows("fence", result=_N, orders=Orders.SCOPE, arch=70, cost=8),
    # warps
    *_rows("shfl", shadow=Shadow.MOVED, defined=Defined.OTHERS, steers=(4,), copies=True, **_LANES),
    *_rows("vote", steers=(2,), **_LANES),
    *_rows("match", steers=(2,), defined=Defined.OTHERS, arch=70, **_LANES),
    *_rows("redux", steers=(2,), shadow=Shadow.MOVED, arch=80, **_LANES),
    *_rows("elect", steers=(1,), arch=90, **_LANES),
    *_rows("activemask", suspends=True, cost=2),
    # barriers
    *_rows("bar", "barrier", orders=Orders.BLOCK, joins=True, suspends=True, cost=8, **_STEERED),
    *_rows("bar", "barrier", form=("red",), orders=Orders.BLOCK, joins=True, suspends=True,
           steers=(ALL,), cost=8),
    *_rows("bar", form=("warp",), orders=Orders.WARP, joins=True, suspends=True, cost=2,
           **_STEERED),
    *_rows("barrier", form=("cluster",), orders=Orders.CLUSTER, joins=True, suspends=True,
           arch=90, cost=16, **_STEERED),
    # mbarriers
    *_rows("mbarrier", orders=Orders.OBJECT, suspends=True, defined=Defined.OTHERS, cost=4,
           **_OBJECT),
    *(
        Row(base="mbarrier", form=(form,), result=_N, orders=Orders.OBJECT, cost=4, **_OBJECT)
        for form in ("init", "inval", "expect_tx", "complete_tx")
    ),
    # asynchronous copies
    *_rows("cp", cost=4, **_COPY),
    *_rows("cp", form=("async", "bulk"), cost=4, **(_COPY | _BULK)),
    *_rows("cp", form=("async", "bulk", "prefetch"), result=_N, memory=Memory.HINT, **_BULK),
    Row(base="cp", form=("async", "mbarrier"), result=_N, orders=Orders.OBJECT, objects=True,
        arch=80),
    *(
        Row(base="cp", form=("async", *more, form), result=_N, orders=Orders.COPIES, **columns)
        for more, columns in (((), {"arch": 80}), (("bulk",), _BULK))
        for form in ("commit_group", "wait_all")
    ),
    *_rows("cp", form=("async", "wait_group"), result=_N, orders=Orders.COPIES, arch=80),
    *_rows("cp", form=("async", "bulk", "wait_group"), result=_N, orders=Orders.COPIES,
           suspends=True, **_BULK),
    Row(base="tensormap", form=("replace",), result=_N, memory=Memory.WRITE, steers=(ALL,),
        arch=90, family=True),
    Row(base="tensormap", form=("cp_fenceproxy",), result=_N, memory=Memory.COPY, joins=True,
        suspends=True, orders=Orders.SCOPE, arch=90),
    # textures and surfaces: tables beside global memory, that are not watched for races
    *_rows("tex", shadow=Shadow.PRODUCED, defined=Defined.OTHERS, fetches=True, cost=8),
    *_rows("suld", shadow=Shadow.PRODUCED, defined=Defined.OTHERS, fetches=True, cost=8),
    *_rows("sust", result=_N, cost=8),
    # clusters
    *_rows("mapa", arch=90, clocks=True),
    *_rows("getctarank", arch=90),
    # blocks that have not begun
    Row(base="clusterlaunchcontrol", form=("try_cancel",), result=_N, memory=Memory.WRITE,
        space="shared", objects=True, clocks=True, steers=(ALL,), arch=100, cost=8),
    Row(base="clusterlaunchcontrol", form=("query_cancel",), arch=100),
    Row(base="clusterlaunchcontrol", form=("query_cancel", "is_canceled"), result=_P, arch=100),
    # matrices
    *_rows("mma", shadow=Shadow.PRODUCED, sums=True, joins=True, suspends=True, arch=70, cost=8),
    *(
        Row(base="mma", form=(form,), shadow=Shadow.PRODUCED, sums=True, joins=True, suspends=True,
            arch=120, family=True, cost=8)
        for form in ("kind::f8f6f4", "block_scale")
    ),
    *_rows("ldmatrix", memory=Memory.READ, shadow=Shadow.LOADED, defined=Defined.MEMORY, rows=True,
           joins=True, suspends=True, arch=75, cost=4),
    *(
        Row(base="ldmatrix", form=(form,), memory=Memory.READ, shadow=Shadow.LOADED,
            defined=Defined.MEMORY, rows=True, joins=True, suspends=True, arch=100, family=True,
            cost=4)
        for form in ("m16n16", "m8n16")
    ),
    *_rows("stmatrix", result=_N, memory=Memory.WRITE, joins=True, suspends=True, arch=90, cost=4),
    Row(base="stmatrix", form=("m16n8",), result=_N, memory=Memory.WRITE, joins=True, suspends=True,
        arch=100, family=True, cost=4),
    *_rows("movmatrix", shadow=Shadow.MOVED, copies=True, arch=75, **_LANES),
    Row(base="wmma", form=("load",), memory=Memory.READ, shadow=Shadow.LOADED, steers=(2,),
        defined=Defined.MEMORY, joins=True, suspends=True, arch=70, cost=16),
    Row(base="wmma", form=("store",), result=_N, memory=Memory.WRITE, steers=(2,), joins=True,
        suspends=True, arch=70, cost=16),
    Row(base="wmma", form=("mma",), shadow=Shadow.PRODUCED, sums=True, joins=True, suspends=True,
        arch=70, cost=16),
    # matrices of a warp group: A (or registers) and B lie where descriptors say, in shared memory
    Row(base="wgmma", form=("mma_async",), result=_B, memory=Memory.READ, space="shared",
        shadow=Shadow.PRODUCED, defined=Defined.MEMORY, steers=(1, 2, 3), sums=True, joins=True,
        suspends=True, rows=True, near=True, arch=90, family=True, cost=64),
    *(
        Row(base="wgmma", form=(form,), result=_N, orders=Orders.COPIES, joins=True, arch=90,
            family=True)
        for form in ("fence", "commit_group", "wait_group")
    ),
    # tensor memory
    Row(base="tcgen05", form=("alloc",), result=_N, memory=Memory.WRITE, space="shared",
        joins=True, suspends=True, **_TENSOR),
    *(
        Row(base="tcgen05", form=(form,), result=_N, joins=True, suspends=True, **_TENSOR)
        for form in ("dealloc", "relinquish_alloc_permit", "st")
    ),
    Row(base="tcgen05", form=("ld",), fetches=True, shadow=Shadow.PRODUCED,
        defined=Defined.OTHERS, joins=True, suspends=True, **_TENSOR),
    *(
        Row(base="tcgen05", form=(form,), result=_N, orders=Orders.COPIES, joins=True,
            suspends=True, **_TENSOR)
        for form in ("wait::ld", "wait::st")
    ),
    *(
        Row(base="tcgen05", form=(form,), result=_N, memory=Memory.READ, space="shared",
            rows=True, near=True, joins=True, **_TENSOR)
        for form in ("mma", "cp")
    ),
    Row(base="tcgen05", form=("shift",), result=_N, **_TENSOR),
    Row(base="tcgen05", form=("commit",), result=_N, orders=Orders.OBJECT, **_TENSOR),
    *(
        Row(base="tcgen05", form=(form,), result=_N, orders=Orders.SCOPE, **_TENSOR)
        for form in ("fence::before_thread_sync", "fence::after_thread_sync")
    ),
)  # fmt: skip
BASES = frozenset(row.base for row in TABLE)
OVERLAPPING = frozenset({"griddepcontrol"})  # what orders a launch among others, not within it


@cache
def _row(parts: tuple[str, ...]) -> Row | None:
    found = [row for row in TABLE if row.base == parts[0] and set(row.form) <= set(parts)]
    return max(found, key=lambda row: len(row.form), default=None)


def row(instruction: Instruction) -> Row:
    """Return the row of an instruction. Raises MachineError with its line where it has none."""
    found = _row(instruction.parts)
    if found is None:
        raise MachineError(
            f"'{instruction.opcode}' is an instruction that the machine does not know",
            line=instruction.line,
        )
    return found


# ---- what the spelling adds to the row


def space_of(one: Instruction) -> str:
    """Return the state space that an instruction names, else that of its row ("generic")."""
    for part in one.parts[1:]:
        if part.partition("::")[0] in SPACES:
            return part.partition("::")[0]
    return row(one).space


def space_read(one: Instruction) -> str:
    """Return the space that an instruction reads; a copy's is the second that it names."""
    if row(one).memory is not Memory.COPY:
        return space_of(one)
    named = [part.partition("::")[0] for part in one.parts if part.partition("::")[0] in SPACES]
    return named[1] if len(named) > 1 else "generic"


def names_space(one: Instruction, space: str) -> bool:
    """Whether an instruction touches a state space, or may: it names none."""
    spaces = {part.partition("::")[0] for part in one.parts} & set(SPACES)
    if not spaces and row(one).space != "generic":
        spaces = {row(one).space}
    return not spaces or space in spaces


def scope_of(one: Instruction, default: str = "gpu") -> str:
    """Return the scope of a memory operation."""
    if "volatile" in one.parts or "mmio" in one.parts:
        return "sys"
    return next((part for part in one.parts if part in _SCOPES), default)


def is_strong(one: Instruction) -> bool:
    """Whether a load or store takes part in synchronisation."""
    return any(part in _STRONG for part in one.parts)


def reads_constant(one: Instruction) -> bool:
    """Whether a load takes for granted that nobody writes there during the launch.

    It may give what was there before any write of the launch, whatever lies between.
    """
    return is_load(one) and (one.base == "ldu" or "nc" in one.parts)


def is_float(one: Instruction) -> bool:
    """Whether an instruction computes with floating-point numbers."""
    return any(part in FLOATS for part in one.parts[1:])


def is_atomic(one: Instruction) -> bool:
    """Whether an instruction reads and writes memory at once."""
    return row(one).memory is Memory.UPDATE


def is_load(one: Instruction) -> bool:
    """Whether an instruction loads what one thread asks for, by itself."""
    found = row(one)
    return found.memory is Memory.READ and not found.joins


def leaves(one: Instruction) -> bool:
    """Whether a thread ends there as it should."""
    return one.base in ("ret", "exit")


def adds_in_memory(one: Instruction) -> bool:
    """Whether an instruction adds to what memory holds."""
    return is_atomic(one) and "add" in one.parts


def swaps_in_memory(one: Instruction) -> bool:
    """Whether an instruction is a compare and swap."""
    return is_atomic(one) and "cas" in one.parts


def reduces_in_memory(one: Instruction) -> bool:
    """Whether an asynchronous copy combines what it brings with what is there."""
    return row(one).memory is Memory.COPY and "reduce" in one.parts


def in_cluster(one: Instruction) -> bool:
    """Whether an instruction reaches other blocks of the cluster, or waits for them."""
    return any("cluster" in part for part in one.parts)


def takes_blocks(one: Instruction) -> bool:
    """Whether it asks for the place of a cluster that has not begun."""
    return one.base == "clusterlaunchcontrol" and "try_cancel" in one.parts


def is_asynchronous(one: Instruction) -> bool:
    """Whether vector clocks have to be kept for it: mbarriers, bulk copies, clusters."""
    return row(one).clocks or in_cluster(one)


def is_of_tensor_memory(one: Instruction) -> bool:
    """Whether it works on tensor memory, or waits for what does."""
    return row(one).tensor


def loads_tensor_memory(one: Instruction) -> bool:
    """Whether its results are there once the thread has waited for its loads."""
    return row(one).tensor and row(one).fetches


def waits_for_tensor_loads(one: Instruction) -> bool:
    """Whether the loads of tensor memory before it have ended."""
    return one.base == "tcgen05" and "wait::ld" in one.parts


def is_waited_copy(one: Instruction) -> bool:
    """Whether it starts a copy that a thread waits for by groups: cp.async from global memory."""
    apart = {"bulk", "commit_group", "wait_group", "wait_all", "mbarrier", "reduce"}
    return one.base == "cp" and "async" in one.parts and apart.isdisjoint(one.parts)


def result_type(one: Instruction) -> str:
    """Return the type of an instruction's result as its opcode spells it."""
    found = row(one)
    if found.shadow is Shadow.PRODUCED and found.sums:
        kinds = [part for part in one.parts if part in ("f16", "f32", "f64", "s32")]
        kind = kinds[0] if kinds else ""
        return "f16x2" if kind == "f16" else kind
    return one.parts[found.part]


def packs_halves(one: Instruction) -> bool:
    """Whether operands or results are pairs of 16-bit floats in one register."""
    return any(part in ("f16x2", "bf16x2") for part in one.parts)


def packs_bytes(one: Instruction) -> bool:
    """Whether operands or results are pairs of 8-bit floats in one register."""
    return any(SMALL_FLOATS.get(part, (0, 0))[0] == 8 for part in one.parts)


def permutes(one: Instruction) -> bool:
    """Whether the result is made of bytes of several operands."""
    found = row(one)
    return found.copies and found.result is Result.FIRST and one.base == "prmt"


def converts(one: Instruction) -> bool:
    """Whether an instruction changes the type of a value."""
    found = row(one)
    return found.shadow is Shadow.MOVED and found.part != -1 and not found.copies


def bits_of(one: Instruction) -> int:
    """Return the bits of the last type that is spelt; 0 where the last part is no type."""
    digits = one.parts[-1].lstrip("bsuf")
    return int(digits) if digits.isdigit() else 0


def multiplies_matrices(one: Instruction) -> bool:
    """Whether it is a product of matrices."""
    found = row(one)
    return found.shadow is Shadow.PRODUCED and found.sums


def value_stored(one: Instruction) -> Operand | None:
    """Return the operand that a store of one thread writes; None for anything else."""
    found = row(one)
    if found.memory is not Memory.WRITE or found.joins or takes_blocks(one):
        return None
    return one.operands[1]


def arch_number(arch: str) -> int:
    """Return 100 for sm_100 and sm_100a. Raises UsageError for what is no architecture."""
    number = arch.removeprefix("sm_").rstrip("af")
    if not number.isdigit():
        raise UsageError(f"'{arch}' is not an architecture; expected one such as sm_100a")
    return int(number)


def architecture_of(source: str, default: str) -> str:
    """Return the architecture to compile a CUDA source for, by what it spells."""
    found = (arch for arch, signs in _SIGNS.items() if any(sign in source for sign in signs))
    return next(found, default)


# ---- instructions that other parts put together


def jump(old: Instruction, label: str, *, when: Register | None = None) -> Instruction:
    """Return `bra label` in an instruction's place."""
    return _made(old, ("bra",), (Symbol(label),), when)


def move(old: Instruction, type_: str, to: Operand, source: Operand) -> Instruction:
    """Return `mov.type to, source` in an instruction's place; its predicate stays."""
    return _made(old, ("mov", type_), (to, source), old.predicate)


def equal(old: Instruction, type_: str, to: Register, a: Operand, b: Operand) -> Instruction:
    """Return `setp.eq.type to, a, b` in an instruction's place."""
    return _made(old, ("setp", "eq", type_), (to, a, b), None)


def calls_nothing(old: Instruction) -> Instruction:
    """Return `trap` in the place of a call whose pointer holds no function; its text says so."""
    text = f"{old.opcode} through a pointer that holds no function"
    return dataclasses.replace(_made(old, ("trap",), (), None), opcode=text)


def call(
    old: Instruction, name: str, operands: tuple[Operand, ...], when: Register | None
) -> Instruction:
    """Return `call.name operands...` in an instruction's place."""
    return _made(old, ("call", name), operands, when)


def is_call(one: Instruction) -> bool:
    """Whether an instruction, known or not, is a call."""
    found = _row(one.parts)
    return found is not None and found.calls


def _made(
    old: Instruction, parts: tuple[str, ...], operands: tuple[Operand, ...], when: Register | None
) -> Instruction:
    return dataclasses.replace(
        old, opcode=".".join(parts), parts=parts, operands=operands, predicate=when
    )


def works_on_pairs(one: Instruction) -> bool:
    """Whether it computes with two f32 in a register of 64 bits, each by itself."""
    return "f32x2" in one.parts[1:]


def single(old: Instruction, *operands: Operand) -> Instruction:
    """Return what an instruction on pairs does with one element of each."""
    parts = tuple("f32" if part == "f32x2" else part for part in old.parts)
    return _made(old, parts, operands, old.predicate)


def takes_the_extreme_of_three(one: Instruction) -> bool:
    """Whether it is min or max of three numbers."""
    return one.base in ("min", "max") and len(one.operands) == 4 and "abs" not in one.parts


def parameter(one: Instruction) -> Address | None:
    """Return the address of an access to parameter space by one thread; None for anything else."""
    found = row(one)
    if "param" not in one.parts or found.memory not in (Memory.READ, Memory.WRITE):
        return None
    place = one.operands[1 if found.memory is Memory.READ else 0]
    return place if isinstance(place, Address) else None
