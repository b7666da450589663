"""The cause that each planted bug has, and the lines that make it: the answer key of diagnoses.

Written from the bugs' own docstrings, never from what a diagnosis said. A bug may have two names
where a person would accept either.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping

from cuassay.model.diagnosis import Cause
from tests.zoo.manifest import Pair

_STATE = (Cause.STALE_ANSWER, Cause.CALL_HISTORY)
_SUM = (Cause.LOW_ACCUMULATION,)
_ROUNDING = (Cause.LOW_PRECISION,)
_IGNORED = (Cause.INPUT_IGNORED,)
_TAIL = (Cause.TAIL, Cause.SIZES)

# By the first words of the pair's lesson; the longest that fits counts.
_BY_LESSON: Mapping[str, tuple[Cause, ...]] = {
    "host-side state": _STATE,
    "host-side state: returned buffer": (Cause.OUTPUT_REUSED,),
    "host-side state: inputs one call late": (*_STATE, Cause.OUTPUT_SHARES_INPUT),
    "host-side state: autotuner": (Cause.FIRST_CALL, Cause.CALL_HISTORY),
    "host-side state: tuned on": (Cause.FIRST_CALL, Cause.CALL_HISTORY, Cause.INPUT_CHANGED),
    "host-side state: workspaces": (*_STATE, Cause.OUTPUT_REUSED),
    "host-side state: a kept answer": (*_STATE, Cause.OUTPUT_REUSED),
    "declared inputs": _IGNORED,
    "declared inputs that do not reach the output: per-row": (Cause.INPUT_MISREAD,),
    "declared inputs that do not reach the output: only batch": (
        Cause.INPUT_MISREAD,
        Cause.INPUT_IGNORED,
    ),
    "arithmetic: term omitted": (Cause.TERM_OMITTED,),
    "NaN on large": (Cause.OUT_OF_RANGE,),
    "arithmetic: online": (Cause.OUT_OF_RANGE, Cause.WRONG_VALUES, Cause.WRONG_REDUCTION),
    "fp16 range": (Cause.OUT_OF_RANGE, Cause.LOW_PRECISION),
    "TF32 inside": _ROUNDING,
    "low precision inside": _ROUNDING,
    "arithmetic: truncated": (Cause.WRONG_VALUES, Cause.SPECIAL_CASE, Cause.WRONG_CONSTANT),
    "special-casing": (Cause.SPECIAL_CASE, Cause.MAGNITUDE),
    "arithmetic: N - 1": (Cause.WRONG_REDUCTION,),
    "arithmetic: rounded": _ROUNDING,
    "low-precision accumulation": _SUM,
    "outputs not written": (Cause.UNWRITTEN, Cause.UNINITIALISED),
    "over-fit to shapes": _TAIL,
    "over-fit to shapes: shape table": (*_TAIL, Cause.REFUSES_SIZES),
    "over-fit to shapes: abort": (Cause.ENDS_PROCESS,),
    "output and input contract: input mutated": (Cause.INPUT_CHANGED,),
    "output and input contract: input returned": (
        Cause.INPUT_CHANGED,
        Cause.OUTPUT_SHARES_INPUT,
    ),
    "output and input contract: output aliasing": (Cause.OUTPUT_SHARES_INPUT,),
    "output and input contract: wrong": (Cause.WRONG_STRUCTURE,),
    "non-determinism": (Cause.NOT_DETERMINISTIC, Cause.RACE),
    "does not build": (Cause.NOT_BUILT,),
    "arithmetic: cancellation": (Cause.LOW_PRECISION, Cause.SPECIAL_CASE),
    "arithmetic: rounding": (Cause.LOW_PRECISION, Cause.WRONG_VALUES),
    "arithmetic: approximations": (Cause.WRONG_VALUES, Cause.SPECIAL_CASE, Cause.WRONG_CONSTANT),
    "arithmetic: ratios": (Cause.OUT_OF_RANGE, Cause.SPECIAL_CASE, Cause.WRONG_VALUES),
    "strides of the upstream": (Cause.GRADIENT, Cause.LAYOUT),
    "one upstream": (Cause.GRADIENT, Cause.LAYOUT),
    "saved tensors": (Cause.GRADIENT, Cause.INPUT_CHANGED),
    "subsets of inputs": (Cause.GRADIENT, Cause.RAISES),
    "gradients of other": (Cause.GRADIENT,),
    "recomputation": (Cause.GRADIENT,),
    "state between backward": (Cause.GRADIENT,),
    "statistics outside": (Cause.GRADIENT,),
    "what an operator": (Cause.CUSTOM_OPERATOR,),
    "fake kernels": (Cause.CUSTOM_OPERATOR,),
    "what a trace keeps": (Cause.COMPILED,),
    "strides taken": (Cause.LAYOUT,),
    "alignment of vector": (Cause.LAYOUT,),
    "outputs in the memory": (Cause.LAYOUT, Cause.OUTPUT_SHARES_INPUT),
    "order of a sum": (Cause.NOT_DETERMINISTIC,),
    "process-wide state": (Cause.PROCESS_STATE,),
    "tampering": (Cause.PROCESS_STATE,),
    "integrity": (Cause.UNNECESSARY_KERNEL,),
    "memory: stores": (Cause.OUT_OF_BOUNDS,),
    "memory: loads": (Cause.OUT_OF_BOUNDS, Cause.UNINITIALISED),
    "memory: workspaces": (Cause.UNINITIALISED, Cause.UNWRITTEN),
    "memory: stale padding": (Cause.UNINITIALISED, Cause.UNDEFINED_READ),
    "memory: what no output": (Cause.UNDEFINED_READ,),
    "memory: written after": (Cause.OUT_OF_BOUNDS,),
    "memory: what a kernel assumes": (Cause.FALSE_ASSUMPTION,),
    "order: blocks that wait": (Cause.RACE, Cause.NOT_DETERMINISTIC, Cause.WRONG_REDUCTION),
    "serving: pages": (Cause.INPUT_MISREAD,),
    "serving: lengths": (Cause.INPUT_MISREAD, Cause.WRONG_REDUCTION, Cause.SPECIAL_CASE),
    "serving: masked scores": (Cause.SPECIAL_CASE, Cause.MAGNITUDE, Cause.WRONG_VALUES),
    "serving: offsets": (Cause.INPUT_MISREAD, Cause.SPECIAL_CASE),
    "serving: experts": (Cause.INPUT_MISREAD, Cause.SPECIAL_CASE, Cause.WRONG_REDUCTION),
    "serving: slots": (Cause.INPUT_MISREAD, Cause.SPECIAL_CASE),
    "serving: codes": (Cause.INPUT_MISREAD, Cause.INPUT_IGNORED),
    "serving: ties": (Cause.SPECIAL_CASE, Cause.WRONG_VALUES),
    "serving: chunks": (*_TAIL, Cause.WRONG_REDUCTION),
    "real text": (Cause.LOW_ACCUMULATION, Cause.TRAINING),
    "decode": (Cause.TRAINING, Cause.INPUT_MISREAD, Cause.INPUT_IGNORED),
}
# Where a lesson's rows differ, or a bug is as well named by what its code does.
_BY_NAME: Mapping[str, tuple[Cause, ...]] = {
    "eps_outside_root": (Cause.TERM_OMITTED, Cause.WRONG_CONSTANT, Cause.WRONG_VALUES),
    "eps_dropped": (Cause.INPUT_IGNORED, Cause.WRONG_CONSTANT),
    "mask_row0": (Cause.INPUT_MISREAD, Cause.INPUT_IGNORED),
    "sentinel_counted": (Cause.INPUT_IGNORED, Cause.WRONG_REDUCTION),
    "first_row_gradient": (Cause.INPUT_MISREAD, Cause.INPUT_IGNORED),
    "attention_stale_max": (Cause.OUT_OF_RANGE, Cause.WRONG_VALUES, Cause.WRONG_REDUCTION),
    "position_offset_ignored": (Cause.INPUT_MISREAD, Cause.INPUT_IGNORED),
    "page_off_by_one": (Cause.INPUT_MISREAD,),
    "kv_head_modulo": (Cause.INPUT_MISREAD,),
    "mask_from_top_left": (Cause.INPUT_MISREAD, Cause.TERM_OMITTED, Cause.WRONG_VALUES),
    "window_ignored": (Cause.INPUT_IGNORED, Cause.TERM_OMITTED),
    "cap_missing": (Cause.TERM_OMITTED, Cause.INPUT_IGNORED),
    "softcap_dropped": (Cause.TERM_OMITTED, Cause.INPUT_IGNORED),
    "biased_weights": (Cause.TERM_OMITTED, Cause.WRONG_VALUES, Cause.INPUT_MISREAD),
    "block_scale_row0": (Cause.INPUT_MISREAD, Cause.INPUT_IGNORED),
    "batch0_statistics": (Cause.INPUT_MISREAD, Cause.WRONG_REDUCTION),
    "coupled_decay": (Cause.TERM_OMITTED, Cause.WRONG_VALUES),
    "dropout_unscaled": (Cause.TERM_OMITTED, Cause.WRONG_REDUCTION, Cause.INPUT_IGNORED),
    "gamma_ignored": (Cause.INPUT_IGNORED, Cause.TERM_OMITTED),
    "beta_ignored": (Cause.INPUT_IGNORED, Cause.TERM_OMITTED),
    "baked_stride": _TAIL,
    "triton_fixed_block": (Cause.TAIL, Cause.UNWRITTEN),
    "triton_floor_grid": (Cause.TAIL, Cause.UNWRITTEN),
    "unwritten_tail": (Cause.TAIL, Cause.UNWRITTEN),
    "whole_page_read": (*_TAIL, Cause.WRONG_REDUCTION, Cause.INPUT_MISREAD),
    "tile_border": _TAIL,
    "residue_64_of_128": _TAIL,
    "size_gate": (*_TAIL, Cause.LOW_ACCUMULATION, Cause.LOW_PRECISION),
    "public_seed": (Cause.SPECIAL_CASE, Cause.WRONG_VALUES, Cause.TRIVIAL_ANSWER),
    "greedy_token": (Cause.INPUT_IGNORED, Cause.SPECIAL_CASE),
    "equal_lengths": (Cause.INPUT_IGNORED, Cause.SPECIAL_CASE, Cause.INPUT_MISREAD),
    "quantised_once": (*_STATE, Cause.INPUT_IGNORED),
    "racy_order": (Cause.NOT_DETERMINISTIC, Cause.RACE, Cause.LOW_ACCUMULATION),
    "triton_stale_max": (Cause.OUT_OF_RANGE, Cause.WRONG_VALUES, Cause.WRONG_REDUCTION),
    "int8_wraps": (Cause.OUT_OF_RANGE, Cause.SPECIAL_CASE, Cause.WRONG_VALUES),
    "triton_bf16_accumulator": (Cause.LOW_ACCUMULATION, Cause.LOW_PRECISION),
    "narrow_accumulator": (Cause.LOW_ACCUMULATION, Cause.LOW_PRECISION),
    "rounded_probability": (Cause.LOW_PRECISION,),
    "moments_tail_unwritten": (Cause.UNINITIALISED, Cause.UNWRITTEN, Cause.TAIL),
    "shared_outputs": (Cause.OUTPUT_SHARES_INPUT, Cause.WRONG_VALUES, Cause.INPUT_MISREAD),
    "triton_page_after_last": (Cause.CRASHES, Cause.OUT_OF_BOUNDS, Cause.UNDEFINED_READ),
    "triton_stale_values": (Cause.UNDEFINED_READ, Cause.OUT_OF_RANGE),
    "triton_decode_empty": (Cause.OUT_OF_RANGE, Cause.SPECIAL_CASE),
    "triton_last_split": (*_TAIL, Cause.WRONG_REDUCTION),
    "pooled_empty_row": (Cause.OUT_OF_RANGE, Cause.SPECIAL_CASE),
    "rows_after_last": (Cause.UNDEFINED_READ, Cause.OUT_OF_RANGE),
    "scales_with_padding": (Cause.UNDEFINED_READ, Cause.OUT_OF_RANGE),
    "launch_refused": (Cause.UNWRITTEN, Cause.LAUNCH_FAILED, Cause.TAIL),
}


def causes_of(pair: Pair) -> tuple[Cause, ...]:
    """Return the causes that name a pair's planted bug."""
    if pair.name in _BY_NAME:
        return _BY_NAME[pair.name]
    fitting = [prefix for prefix in _BY_LESSON if pair.lesson.startswith(prefix)]
    return _BY_LESSON[max(fitting, key=len)]


def planted_lines(pair: Pair) -> frozenset[int]:
    """Return the lines of the bug, from 1, that its twin has not, and those beside a deletion."""
    bug, twin = (path.read_text().splitlines() for path in (pair.bug, pair.twin))
    found: set[int] = set()
    matcher = difflib.SequenceMatcher(None, bug, twin, autojunk=False)
    for kind, start, end, _, _ in matcher.get_opcodes():
        if kind == "equal":
            continue
        # What was left out shows between two lines.
        found |= set(range(start + 1, end + 1)) if end > start else {start, start + 1}
    docstring = next((n for n, row in enumerate(bug, 1) if n > 1 and not row.strip()), 1)
    return frozenset(line for line in found if line > docstring or bug[line - 1 : line] == [])
