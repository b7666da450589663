"""Planted bugs of kernels that ranks share: each is an edit of a twin, and what it stands for."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

TWINS = Path(__file__).parent / "twins"
# The operator of the catalogue that a twin computes, where it has another name.
OPERATORS = dict.fromkeys(
    (
        "one_shot", "symmetric", "functional", "symmetric_operators", "side_stream",
        "triton_flags", "triton_push",
    ),
    "all_reduce",
) | dict.fromkeys(("triton_norm", "narrow_sum"), "all_reduce_rmsnorm")  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A bug: `edits` turn texts of the twin, which it has once, into others."""

    name: str
    twin: str
    edits: tuple[tuple[str, str], ...]
    lesson: str

    @property
    def text(self) -> str:
        """The faulty kernel. Raises ValueError where the twin has a text not just once."""
        text = (TWINS / f"{self.twin}.py").read_text(encoding="utf-8")
        for old, new in self.edits:
            if text.count(old) != 1:
                raise ValueError(f"{self.name}: {self.twin} has {text.count(old)} of {old!r}")
            text = text.replace(old, new)
        return text


def _fault(name: str, twin: str, *texts: str, lesson: str) -> Fault:
    edits = tuple(zip(texts[::2], texts[1::2], strict=True))
    return Fault(name=name, twin=twin, edits=edits, lesson=lesson)


_NO_WAIT, _PLACE, _STALE = (
    "a wait is missing",
    "another rank's place",
    "a buffer of an earlier call",
)
_WRONG, _INPUT, _SIZES = "the wrong arithmetic", "the input is written to", "parts of other sizes"
_ORDER, _HOST = "streams without an order", "the host reads a value"
_STUCK, _BITS, _GROUP = "a rank does not come", "ranks differ", "the world in place of the group"

FAULTS = (
    _fault(
        "half_not_waited_for",
        "all_reduce",
        "    begun.wait()\n",
        "",
        lesson=_NO_WAIT,
    ),
    _fault(
        "half_used_early",
        "all_reduce",
        "    begun.wait()\n    return torch.cat([first, second])",
        "    out = torch.cat([first, second])\n    begun.wait()\n    return out",
        lesson=_NO_WAIT,
    ),
    _fault(
        "summed_in_place",
        "all_reduce",
        "x[:half].clone(), x[half:].clone()",
        "x[:half], x[half:].clone()",
        lesson=_INPUT,
    ),
    _fault(
        "mean_in_place_of_sum",
        "all_reduce",
        "return torch.cat([first, second])",
        "return torch.cat([first, second]) / dist.get_world_size(group)",
        lesson=_WRONG,
    ),
    _fault(
        "right_on_rank_0",
        "all_reduce",
        "dist.all_reduce(second, group=group)",
        "dist.reduce(second, dist.get_global_rank(group or dist.group.WORLD, 0), group=group)",
        lesson=_BITS,
    ),
    _fault(
        "own_part_first",
        "one_shot",
        "total = parts[0].clone()\n    for part in parts[1:]:",
        "rank = dist.get_rank(group)\n    total = parts[rank].clone()\n"
        "    for part in parts[:rank] + parts[rank + 1 :]:",
        lesson=_BITS,
    ),
    _fault(
        "summed_in_half_precision",
        "one_shot",
        "total += part",
        "total = (total.bfloat16() + part.bfloat16()).float()",
        lesson=_WRONG,
    ),
    _fault(
        "summed_in_8_bits",
        "narrow_sum",
        "    total = x.clone()\n",
        "    total = x.to(torch.float8_e4m3fn).to(x.dtype)\n",
        lesson=_WRONG,
    ),
    _fault(
        "summed_in_parts_of_8_bits",
        "narrow_sum",
        "    dist.all_reduce(total, group=group)\n",
        "    parts = [torch.empty_like(x) for _ in range(dist.get_world_size(group))]\n"
        "    dist.all_gather(parts, total, group=group)\n"
        "    total = parts[0]\n"
        "    for part in parts[1:]:\n"
        "        total = (total + part).to(torch.float8_e5m2).to(x.dtype)\n",
        lesson=_WRONG,
    ),
    _fault(
        "last_part_left_out",
        "one_shot",
        "in parts[1:]",
        "in parts[1:3]",
        lesson=_SIZES,
    ),
    _fault(
        "own_part_by_world_rank",
        "one_shot",
        "    total = parts[0].clone()",
        "    parts[dist.get_rank() % len(parts)] = x\n    total = parts[0].clone()",
        lesson=_GROUP,
    ),
    _fault(
        "group_forgotten",
        "one_shot",
        "parts, x, group=group",
        "parts, x",
        lesson=_GROUP,
    ),
    _fault(
        "read_before_all_wrote",
        "symmetric",
        "    memory.barrier()\n    return",
        "    return",
        lesson=_NO_WAIT,
    ),
    _fault(
        "written_while_read",
        "symmetric",
        "    memory.barrier()\n    return total",
        "    return total",
        lesson=_STALE,
    ),
    _fault(
        "own_part_for_all",
        "symmetric",
        "memory.get_buffer(rank, x.shape",
        "memory.get_buffer(memory.rank, x.shape",
        lesson=_PLACE,
    ),
    _fault(
        "last_rank_leaves_first",
        "symmetric",
        "    memory.barrier()\n    return total",
        "    if memory.rank < memory.world_size - 1:\n        memory.barrier()\n    return total",
        lesson=_STUCK,
    ),
    _fault(
        "remainder_dropped",
        "reduce_scatter",
        "size = -(-rows // ranks)\n    padded = x.new_zeros(ranks * size, x.shape[1])\n"
        "    padded[:rows] = x",
        "size = max(1, rows // ranks)\n    padded = x.new_zeros(ranks * size, x.shape[1])\n"
        "    padded[: min(rows, ranks * size)] = x[: ranks * size]",
        lesson=_SIZES,
    ),
    _fault(
        "part_of_next_rank",
        "reduce_scatter",
        "list(padded.split(size))",
        "list(padded.split(size))[1:] + list(padded.split(size))[:1]",
        lesson=_PLACE,
    ),
    _fault(
        "none_for_empty_part",
        "reduce_scatter",
        "    dist.reduce_scatter(mine",
        "    if rank * size >= rows:\n        return mine[:0]\n    dist.reduce_scatter(mine",
        lesson=_STUCK,
    ),
    _fault(
        "padding_returned",
        "all_gather",
        "[part[:size] for part, size in zip(parts, rows, strict=True)]",
        "parts",
        lesson=_SIZES,
    ),
    _fault(
        "gather_not_waited_for",
        "all_gather",
        "    begun.wait()\n",
        "",
        lesson=_NO_WAIT,
    ),
    _fault(
        "own_size_for_all",
        "all_gather",
        "rows = [int(size) for size in sizes]",
        "rows = [x.shape[0]] * count",
        lesson=_SIZES,
    ),
    _fault(
        "sizes_of_first_call",
        "all_gather",
        "def run(x, count, group=None):\n    sizes = [torch.zeros(1, dtype=torch.int64, "
        "device=x.device) for _ in range(count)]\n    here = torch.tensor([x.shape[0]], "
        "device=x.device)\n    dist.all_gather(sizes, here, group=group)\n    rows = [int(size) "
        "for size in sizes]",
        "_ROWS = {}\n\n\ndef run(x, count, group=None):\n    if (count, x.shape[1]) not in _ROWS:\n"
        "        sizes = [torch.zeros(1, dtype=torch.int64, device=x.device) for _ in "
        "range(count)]\n        here = torch.tensor([x.shape[0]], device=x.device)\n"
        "        dist.all_gather(sizes, here, group=group)\n"
        "        _ROWS[count, x.shape[1]] = [int(size) for size in sizes]\n"
        "    rows = _ROWS[count, x.shape[1]]",
        lesson=_STALE,
    ),
    _fault(
        "sizes_not_exchanged",
        "expert_exchange",
        "dist.all_to_all_single(takes, sends, group=group)",
        "takes = sends",
        lesson=_SIZES,
    ),
    _fault(
        "order_not_undone",
        "expert_exchange",
        "out[order] = back",
        "out = back",
        lesson=_PLACE,
    ),
    _fault(
        "nothing_to_send",
        "expert_exchange",
        "    there, here = sends.tolist(), takes.tolist()\n",
        "    there, here = sends.tolist(), takes.tolist()\n    if not sum(here):\n"
        "        weight = weight * 0\n        return x * weight\n",
        lesson=_STUCK,
    ),
    _fault(
        "own_weight",
        "expert_exchange",
        "done = arrived * weight",
        "done = arrived",
        lesson=_WRONG,
    ),
    _fault(
        "sizes_swapped_back",
        "expert_exchange",
        "dist.all_to_all_single(back, done, there, here, group=group)",
        "dist.all_to_all_single(back, done, group=group)",
        lesson=_SIZES,
    ),
    _fault(
        "parts_not_waited_for",
        "gemm_reduce_scatter",
        "    for one in begun:\n        one.wait()\n",
        "    begun[-1].wait()\n",
        lesson=_NO_WAIT,
    ),
    _fault(
        "rows_of_rank_0",
        "gemm_reduce_scatter",
        "a[owner * size : (owner + 1) * size]",
        "a[: max(0, min(size, rows - owner * size))]",
        lesson=_PLACE,
    ),
    _fault(
        "world_rank_as_root",
        "gemm_reduce_scatter",
        "root = owner if group is None else dist.get_global_rank(group, owner)",
        "root = owner",
        lesson=_GROUP,
    ),
    _fault(
        "floor_in_place_of_ceiling",
        "gemm_reduce_scatter",
        "size = -(-rows // ranks)",
        "size = rows // ranks",
        lesson=_SIZES,
    ),
    _fault(
        "norm_before_wait",
        "all_reduce_rmsnorm",
        "    begun.wait()\n    total = total + added\n",
        "    total = total + added\n    begun.wait()\n",
        lesson=_NO_WAIT,
    ),
    _fault(
        "residual_of_each_rank",
        "all_reduce_rmsnorm",
        "    total = x.float()\n",
        "    total = x.float() + residual.float()\n",
        lesson=_WRONG,
    ),
    _fault(
        "residual_in_place",
        "all_reduce_rmsnorm",
        "    total = total + added\n",
        "    total = total + added\n    residual.copy_(total)\n",
        lesson=_INPUT,
    ),
    _fault(
        "mean_over_ranks",
        "all_reduce_rmsnorm",
        "total.square().mean(-1, keepdim=True)",
        "(total.square().mean(-1, keepdim=True) / dist.get_world_size(group))",
        lesson=_WRONG,
    ),
    _fault(
        "norm_of_own_part",
        "all_reduce_rmsnorm",
        "torch.rsqrt(total.square()",
        "torch.rsqrt((x.float() + added).square()",
        lesson=_WRONG,
    ),
    _fault(
        "coming_used_early",
        "ring_attention",
        "        for one in begun:\n            one.wait()\n        if begun:\n"
        "            here = coming\n",
        "        if begun:\n            here = coming.clone()\n        for one in begun:\n"
        "            one.wait()\n",
        lesson=_NO_WAIT,
    ),
    _fault(
        "sent_while_written",
        "ring_attention",
        "            coming = torch.empty_like(here)\n",
        "            coming = here\n",
        lesson=_STALE,
    ),
    _fault(
        "owner_of_next",
        "ring_attention",
        "owner = (rank - step) % ranks",
        "owner = (rank + step) % ranks",
        lesson=_PLACE,
    ),
    _fault(
        "mask_forgotten",
        "ring_attention",
        "            if owner == rank:\n",
        "            if owner == 0 and rank == 0:\n",
        lesson=_WRONG,
    ),
    _fault(
        "earlier_not_rescaled",
        "ring_attention",
        "out = out * kept.unsqueeze(-1) +",
        "out = out +",
        lesson=_WRONG,
    ),
    _fault(
        "one_step_less",
        "ring_attention",
        "for step in range(ranks):",
        "for step in range(min(ranks, 2)):",
        lesson=_SIZES,
    ),
    _fault(
        "sum_kept",
        "one_shot",
        "def run(x, group=None):\n",
        "_TOTAL = {}\n\n\ndef run(x, group=None):\n",
        "total = parts[0].clone()",
        "total = _TOTAL.setdefault(x.shape, x.clone())\n    total.copy_(parts[0])",
        lesson=_STALE,
    ),
    _fault(
        "part_kept",
        "reduce_scatter",
        "def run(x, group=None):\n",
        "_MINE = {}\n\n\ndef run(x, group=None):\n",
        "mine = x.new_empty(size, x.shape[1])",
        "mine = _MINE.setdefault((size, x.shape[1]), x.new_empty(size, x.shape[1]))",
        lesson=_STALE,
    ),
    _fault(
        "half_sent_from_one_buffer",
        "all_reduce",
        "    dist.all_reduce(second, group=group)\n",
        "    out = torch.empty_like(x)\n    out[:half] = first\n"
        "    dist.all_reduce(second, group=group)\n",
        "    begun.wait()\n    return torch.cat([first, second])",
        "    begun.wait()\n    out[half:] = second\n    return out",
        lesson=_NO_WAIT,
    ),
    _fault(
        "one_buffer_for_all",
        "gemm_reduce_scatter",
        "        part = a[owner * size : (owner + 1) * size].float() @ b.float()\n",
        "        made = a[owner * size : (owner + 1) * size].float() @ b.float()\n"
        "        part = buffer[: made.shape[0]]\n        part.copy_(made)\n",
        "    begun, mine = [], None\n",
        "    begun, mine = [], None\n    buffer = b.float().new_empty(size, b.shape[1])\n",
        lesson=_STALE,
    ),
    _fault(
        "sends_first",
        "ring_attention",
        "            begun = dist.batch_isend_irecv([sends, takes])\n",
        "            dist.send(here, to, group)\n            dist.recv(coming, source, group)\n",
        "        if begun:\n            here = coming\n",
        "        if step + 1 < ranks:\n            here = coming\n",
        lesson=_STUCK,
    ),
    _fault(
        "functional_not_waited_for",
        "functional",
        "parts = torch.ops._c10d_functional.wait_tensor(begun)",
        "parts = begun",
        lesson=_NO_WAIT,
    ),
    _fault(
        "functional_of_the_world",
        "functional",
        "    group = group or dist.group.WORLD\n",
        "    group = dist.group.WORLD\n",
        lesson=_GROUP,
    ),
    _fault(
        "others_read_before_written",
        "symmetric_operators",
        "    second.copy_(x)\n    memory.barrier()",
        "    second.copy_(x)",
        lesson=_NO_WAIT,
    ),
    _fault(
        "one_memory_for_both",
        "symmetric_operators",
        "for _ in range(2)]",
        "for _ in range(1)] * 2",
        lesson=_STALE,
    ),
)
# Triton compiles for what stands for a GPU in the whole process: workers of the gate judge these.
FAULTS_OF_TRITON = (
    _fault(
        "kernel_before_wait",
        "triton_norm",
        "    begun.wait()\n    rows, columns",
        "    rows, columns",
        "eps, BLOCK=block)\n",
        "eps, BLOCK=block)\n    begun.wait()\n",
        lesson=_NO_WAIT,
    ),
    _fault(
        "parts_read_before_met",
        "triton_flags",
        "    _meet(flags, 2 * call + 1, rank, RANKS)\n",
        "",
        lesson=_NO_WAIT,
    ),
)
# What shows where a rank is late in the middle of its kernel.
FAULTS_OF_LATE_KERNELS = (
    _fault(
        "one_place_for_all_calls",
        "triton_push",
        "_BLOCK, _PLACES = 1024, 2",
        "_BLOCK, _PLACES = 1024, 1",
        lesson=_STALE,
    ),
)
# What only a GPU shows: a CPU has no streams.
FAULTS_OF_STREAMS = (
    _fault(
        "inputs_read_early",
        "side_stream",
        "    side.wait_stream(callers)\n",
        "",
        lesson=_ORDER,
    ),
    _fault(
        "default_stream_waited_for",
        "side_stream",
        "    callers = torch.cuda.current_stream()\n",
        "    callers = torch.cuda.default_stream(x.device)\n",
        lesson=_ORDER,
    ),
    _fault(
        "result_read_early",
        "side_stream",
        "    callers.wait_stream(side)\n",
        "",
        lesson=_ORDER,
    ),
)
# What a CUDA graph cannot hold: a condition, which `--require graphs` makes binding.
FAULTS_OF_GRAPHS = (
    _fault(
        "largest_read_by_host",
        "all_reduce",
        "    begun.wait()\n",
        "    begun.wait()\n    if float(first.abs().max()) < 0:\n        return x\n",
        lesson=_HOST,
    ),
    _fault(
        "calls_counted_by_host",
        "triton_flags",
        "    call = tl.load(calls + program)\n",
        "    call = calls\n",
        "    tl.store(calls + program, call + 1)\n",
        "",
        "        calls = torch.zeros(_PROGRAMS, dtype=torch.int32, device=x.device)\n",
        "        calls = 0\n",
        "    y = torch.empty_like(x)\n",
        "    _KEPT[place] = part, flags, calls + 1, (parts, meets)\n    y = torch.empty_like(x)\n",
        lesson=_STALE,
    ),
)
# Their twins, which hold in graphs: the condition is binding for them, too.
TWINS_OF_GRAPHS = tuple(dict.fromkeys(one.twin for one in FAULTS_OF_GRAPHS))
