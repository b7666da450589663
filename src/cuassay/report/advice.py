"""What to try, by code: the direction of a repair, never an input or a limit to aim at."""

from __future__ import annotations

import re

_BY_CODE = {
    "NUM001": "compare each term with the reference's formula; keep intermediates in float32 and "
    "cast once at the end",
    "NUM002": "keep running sums in float32 (or split them into a tree) and cast once at the end, "
    "also across atomics, tiles and the grid",
    "NUM003": "keep intermediates in float32 where callers need the reference's precision, or "
    "state the precision policy that they accept",
    "NUM004": "clamp nothing that the reference does not, and keep intermediates in a type of the "
    "reference's range",
    "NUM005": "let NaN through: use a maximum that propagates it, and no nan_to_num",
    "META001": "the operator's own identities fail: look for a constant, an offset or a missing "
    "normalisation",
    "FUZZ001": "handle every legal value: large, tiny, equal, zero and mixed-sign inputs",
    "KNOWN001": "an input that broke an earlier version breaks this one: repair the general case",
    "SHP001": "mask the last tile, and derive every bound, stride and loop count from the "
    "arguments instead of constants",
    "SHP002": "compute every row and column at every legal size: no bound, tile count, index type "
    "or scratch that is right for small tensors alone",
    "API001": "do not write into the inputs; clone what has to change",
    "API002": "return freshly allocated tensors of the declared shape, dtype and device",
    "API003": "every input has to take part in the result as the reference uses it",
    "API004": "read every element of an input, also where the problem's own generator repeats one",
    "API005": "make the parameters as the reference does, and compute what depends on them in "
    "forward",
    "STATE001": "keep nothing between calls: no cached results, no reused output buffers",
    "PROC001": "leave process-wide settings, files and threads as they were",
    "APART001": "answer alike whoever calls, and leave the functions of torch as they are",
    "CONFIG001": "make the launch follow the configuration (grid, strides, masks), or remove those "
    "that fail from the autotuner's list",
    "GHOST001": "compute the result anew on every call, from the arguments alone",
    "MEM001": "write every element of every output, also in the last partial tile",
    "MEM002": "check every index against the tensor's bounds before a load or store",
    "MEM003": "mask loads and stores, synchronise before shared memory is read, initialise what "
    "is read",
    "MEM004": "do not read what no input defines: initialise scratch and mask partial tiles",
    "LAYOUT001": "read strides from the tensors, or call .contiguous() first",
    "DET001": "use a fixed order of summation, or state that the result varies",
    "DET002": "use a fixed order of summation, also for other batch sizes",
    "GRAD001": "give the function a backward that matches the reference, or detach on purpose",
    "KERNEL001": "read the kernels' registers, local memory and widths in the evidence; check "
    "the alignment of pointers before vector accesses",
    "OPCHECK001": "declare what the operator writes to (mutates_args), return no alias of an "
    "input, and give it a fake kernel with the real strides",
    "COMPILE001": "keep host reads and caches out of the traced function, or make the kernel a "
    "custom operator",
    "STREAM001": "launch on torch.cuda.current_stream() and keep no global buffers",
    "LAUNCH101": "put the longest axis on blockIdx.x, or loop over it; check every launch",
    "STREAM101": "launch on at::cuda::getCurrentCUDAStream(), or order the other stream with it",
    "GRAPH001": "no synchronisation, allocation or host read inside the call; launch on the "
    "current stream",
    "DEVICE001": "launch on the device of the inputs (torch.cuda.device), not on device 0",
    "BIG001": "compute offsets in 64 bits",
    "BIG002": "compute indexes, strides and loop counters in 64 bits",
    "RANK001": "wait for each collective before its tensors are used, keep no buffer that ranks "
    "still read, and pass `group` to every function of torch.distributed",
    "RANK002": "let every rank take part in every collective, with parts of any size, and add in "
    "one order on all ranks",
    "RANK003": "let nothing of a call depend on the host: no counter, no value that is read back, "
    "no work on a stream that does not wait for the caller's",
    "RACE001": "separate dependent writes and reads by a barrier, or use atomics",
    "PERF001": "no work on the host that grows with the data; no synchronisation inside the call",
    "MEM101": "compare every index with the tensor's bounds, also in the last tile and with "
    "strides taken into account",
    "INIT101": "write every element of scratch and shared memory before it is read; mask partial "
    "tiles with a neutral value",
    "RACE101": "put a barrier (or an atomic) between a write and another thread's access to it",
    "SYNC101": "every thread that a barrier or warp operation waits for must reach it: no barrier "
    "inside a branch that some threads skip",
    "PREC101": "keep the named intermediate in float32; round once, at the end",
    "LOOP001": "keep sums of many terms in float32; cuassay loop train shows which rows drift, and "
    "when",
    "LOOP002": "mask what a page or a batch does not use, and read the positions that are given; "
    "cuassay loop infer shows the step",
    "RUN001": "the function must return for every legal input: see what it raised",
    "RUN002": "do not end the process; raise an exception for what is not supported",
    "RUN003": "a crash is mostly an access beyond an allocation: check pointers and launch sizes",
    "RUN004": "find the loop or barrier that never ends; bound every spin",
    "RUN005": "leave file descriptors that the kernel did not open alone",
    "RUN006": "print nothing inside the kernel",
    "RUN007": "check every launch: its configuration must fit the device for every legal size",
    "BUILD001": "make the source compile and import by itself, and define the entry point",
}
_BY_FAMILY = {
    "RUN": "see what the candidate printed or raised: it must return for every legal input",
    "NUM": "keep intermediates in float32 and cast once at the end",
    "MEM": "check every index, and initialise everything that is read",
    "RACE": "separate dependent accesses by a barrier, or use atomics",
}
_GENERAL = "see `cuassay explain` for how this check decides; repair the general case"


def advice(code: str) -> str:
    """Return what to try for a check's code."""
    family = re.match(r"[A-Z]*", code)
    return _BY_CODE.get(code) or _BY_FAMILY.get(family[0] if family else "", _GENERAL)
