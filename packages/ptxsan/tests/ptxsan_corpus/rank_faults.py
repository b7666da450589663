"""Planted faults of kernels that span ranks: edits of rank_kernels.py, by ten patterns."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from ptxsan.findings import Kind


class Pattern(Enum):
    """What went wrong in reports of others, and here."""

    RELAXED = "a flag without release or acquire"
    SCOPE = "the scope of one GPU where the system's is needed"
    FENCE = "no fence behind the data"
    EPOCH = "flags of the call before open the next one"
    REUSE = "a buffer is written again before all have read it"
    AHEAD = "a rank runs ahead of a barrier"
    WORD = "flags in bytes of one word, stored without atomics"
    OFFSET = "another rank's offset"
    ABSENT = "a rank does not arrive"
    FREED = "symmetric memory is freed early"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """An edit of a twin (rank_kernels.TWINS), and what finds it: one of `kinds`."""

    name: str
    pattern: Pattern
    twin: str
    old: str
    new: str
    kinds: frozenset[Kind]


def _fault(
    name: str, pattern: Pattern, twin: str, old: str, new: str, *kinds: Kind
) -> Fault:  # fmt: skip
    found = frozenset(kinds or (Kind.RACE,))
    return Fault(name=name, pattern=pattern, twin=twin, old=old, new=new, kinds=found)


_END = "  meet(flags, rank, ranks, {} * epoch + {});\n"
FAULTS: tuple[Fault, ...] = (
    _fault("put_relaxed", Pattern.RELAXED, "one_shot", "st.release.sys", "st.relaxed.sys"),
    _fault("get_relaxed", Pattern.RELAXED, "one_shot", "ld.acquire.sys", "ld.relaxed.sys",
           Kind.ACQUIRE_FENCE),
    _fault("chunk_flag_relaxed", Pattern.RELAXED, "all_gather", "st.release.sys", "st.relaxed.sys"),
    _fault("signal_sent_relaxed", Pattern.RELAXED, "signals",
           "  __threadfence_system();  // release\n", ""),
    _fault("signal_taken_relaxed", Pattern.RELAXED, "signals",
           "  __threadfence_system();  // acquire\n", "", Kind.ACQUIRE_FENCE),
    _fault("count_relaxed", Pattern.RELAXED, "all_to_all", "red.release.sys", "red.relaxed.sys"),
    _fault("flags_of_one_gpu", Pattern.SCOPE, "two_shot", ".sys", ".gpu"),
    _fault("put_of_one_gpu", Pattern.SCOPE, "one_shot", "st.release.sys", "st.release.gpu"),
    _fault("get_of_one_gpu", Pattern.SCOPE, "reduce_scatter", "ld.acquire.sys", "ld.acquire.gpu"),
    _fault("release_fence_of_one_gpu", Pattern.SCOPE, "fenced",
           "__threadfence_system();  // release", "__threadfence();"),
    _fault("acquire_fence_of_one_gpu", Pattern.SCOPE, "fenced",
           "__threadfence_system();  // acquire", "__threadfence();", Kind.ACQUIRE_FENCE),
    _fault("signals_of_one_gpu", Pattern.SCOPE, "signals", "atomicCAS_system", "atomicCAS"),
    _fault("steps_of_one_gpu", Pattern.SCOPE, "ring", ".sys", ".gpu"),
    _fault("count_of_one_gpu", Pattern.SCOPE, "all_to_all", "red.release.sys", "red.release.gpu"),
    _fault("sum_of_one_gpu", Pattern.SCOPE, "added", "atomicAdd_system", "atomicAdd"),
    _fault("no_release_fence", Pattern.FENCE, "fenced",
           "  __threadfence_system();  // release\n", ""),
    _fault("fence_before_data", Pattern.FENCE, "one_word",
           "  __syncthreads();\n  if (threadIdx.x == 0) {\n    __threadfence_system();\n",
           "  if (threadIdx.x == 0) {\n    __threadfence_system();\n"),
    _fault("flag_before_others_stored", Pattern.FENCE, "all_gather",
           "  __syncthreads();\n  if (threadIdx.x < ranks) put", "  if (threadIdx.x < ranks) put"),
    _fault("same_flag_each_call", Pattern.EPOCH, "one_shot", "2 * epoch + 1", "1"),
    _fault("same_steps_each_call", Pattern.EPOCH, "ring", "epoch * steps + step + 1", "step + 1"),
    _fault("chunk_flag_stays", Pattern.EPOCH, "all_gather", "epoch + 1", "1u"),
    _fault("count_not_reset", Pattern.EPOCH, "all_to_all", "(epoch + 1) * ranks", "ranks"),
    _fault("no_barrier_at_end", Pattern.REUSE, "one_shot", _END.format(2, 2), ""),
    _fault("part_written_again", Pattern.REUSE, "two_shot", _END.format(3, 2), ""),
    _fault("one_buffer_in_place_of_two", Pattern.REUSE, "fenced", "(epoch & 1) * n", "0 * n"),
    _fault("one_place_for_all_steps", Pattern.REUSE, "ring", "[step * chunk + i]", "[i]"),
    _fault("slots_written_again", Pattern.REUSE, "reduce_scatter", _END.format(2, 2), ""),
    _fault("one_buffer_of_two", Pattern.REUSE, "all_gather", "(epoch & 1) * ranks * chunk", "0"),
    _fault("last_rank_does_not_wait", Pattern.AHEAD, "one_shot",
           "    while (is_before(", "    while (rank + 1 < ranks && is_before("),
    _fault("waits_for_equal", Pattern.AHEAD, "reduce_scatter",
           "is_before(get(&flags[rank][blockIdx.x * 8 + threadIdx.x]), epoch)",
           "get(&flags[rank][blockIdx.x * 8 + threadIdx.x]) != epoch",
           Kind.DEADLOCK, Kind.UNORDERED),
    _fault("waits_for_itself", Pattern.AHEAD, "fenced", "flags.of[rank][threadIdx.x] -",
           "flags.of[threadIdx.x][rank] -"),
    _fault("word_written_back", Pattern.WORD, "one_word",
           "atomicAdd_system(word, 1u << (8 * rank));",
           "*(volatile u32 *)word = *(volatile u32 *)word + (1u << (8 * rank));",
           Kind.RACE, Kind.DEADLOCK, Kind.UNORDERED),
    _fault("word_plainly_written", Pattern.WORD, "one_word",
           "atomicAdd_system(word, 1u << (8 * rank));", "*word += 1u << (8 * rank);",
           Kind.RACE, Kind.DEADLOCK),
    _fault("slot_of_nobody", Pattern.OFFSET, "reduce_scatter",
           "slots[r][rank * chunk + i] =", "slots[r][r * chunk + i] ="),
    _fault("chunk_of_one_before", Pattern.OFFSET, "ring",
           "inbox[rank][step * chunk + i]", "inbox[rank][(step + 1) * chunk + i]"),
    _fault("slot_of_next", Pattern.OFFSET, "all_gather",
           "data[r][half + rank * chunk + i] =", "data[r][half + r * chunk + i] ="),
    _fault("offset_of_first_rank", Pattern.OFFSET, "all_to_all",
           "at += counts[r * ranks + d];", "at += 0;"),
    _fault("rank_returns", Pattern.ABSENT, "one_shot",
           "  meet(flags, rank, ranks, 2 * epoch + 1);\n",
           "  if (rank == ranks - 1 && epoch == 1) return;\n"
           "  meet(flags, rank, ranks, 2 * epoch + 1);\n", Kind.DEADLOCK),
    _fault("nothing_to_send", Pattern.ABSENT, "all_to_all",
           "    if (threadIdx.x == 0)\n      asm", "    if (threadIdx.x == 0 && count)\n      asm",
           Kind.DEADLOCK),
    _fault("freed_before_read", Pattern.FREED, "freed", _END.format(2, 2), "", Kind.FREED),
    _fault("freed_without_meeting", Pattern.FREED, "freed",
           "    while (is_before(", "    while (epoch % 2 && is_before(",
           Kind.FREED),
    _fault("multicast_count_relaxed", Pattern.RELAXED, "counted", "red.release", "red.relaxed"),
    _fault("multicast_count_of_one_gpu", Pattern.SCOPE, "counted", "release.sys", "release.gpu"),
    _fault("multicast_sum_early", Pattern.AHEAD, "multicast", _END.format(2, 1), ""),
    _fault("multicast_result_early", Pattern.AHEAD, "multicast", _END.format(2, 2), ""),
    _fault("multicast_data_written_again", Pattern.REUSE, "counted",
           "  meet(own, all, (2 * epoch + 2) * ranks);\n",
           "  if (threadIdx.x == 0)\n"
           '    asm volatile("multimem.red.release.sys.global.add.u32 [%0], 1;" ::"l"(all));\n'),
    _fault("multicast_count_not_reset", Pattern.EPOCH, "counted",
           "(2 * epoch + 2) * ranks", "(2 * epoch + 1) * ranks"),
    _fault("multicast_chunk_of_rank_0", Pattern.OFFSET, "multicast",
           "*place = all + rank * chunk + i", "*place = all + i", Kind.UNORDERED),
    _fault("multicast_of_own_memory", Pattern.OFFSET, "multicast",
           "*place = all +", "*place = data[rank] +", Kind.OUT_OF_BOUNDS),
    _fault("multicast_read_plainly", Pattern.OFFSET, "multicast",
           "out[i] = data[rank][i]", "out[i] = all[i]", Kind.OUT_OF_BOUNDS),
)  # fmt: skip
