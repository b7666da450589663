"""The failure classes by which findings are filed: how kernels go wrong, each with a stable code.

Codes are for JSON and for filters; people read the names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureClass:
    """One way in which kernels go wrong: its stable code, its name, and how it comes about."""

    code: str
    name: str
    mechanism: str

    @property
    def group(self) -> str:
        """What the class is about, by the letter of its code."""
        return GROUPS[self.code[0]]


GROUPS: Mapping[str, str] = MappingProxyType(
    {
        "N": "numerics",
        "O": "over-fit and special cases",
        "M": "memory and indexing",
        "C": "concurrency",
        "S": "state between calls",
        "A": "interface and arguments",
        "H": "tampering and tricks",
        "T": "weak tests",
        "L": "training and inference loops",
    }
)
# Code, name, and how it comes about.
# fmt: off
_TABLE = (
    ("N1", "low-precision scatter/atomic accumulation",
     "running sum kept in bf16/fp16; increments below half an ulp vanish (bf16 counter of ones "
     "stops at 256, fp16 at 2048)"),
    ("N2", "low-precision block reduction",
     "partial sums inside a tile (tl.sum on bf16, fp16 warp shuffles) though the final "
     "accumulator is fp32"),
    ("N3", "chunk-boundary rounding",
     "gradient buffer in parameter dtype, rounded after each chunk/micro-batch"),
    ("N4", "cancellation through a rounded intermediate",
     "p rounded to bf16, then p-1 formed by read-modify-write"),
    ("N5", "tensor-core accumulator narrower than fp32",
     "FP8 MMA keeps 14 to 22 bits in the accumulator; no promotion interval"),
    ("N6", "saturating cast of intermediate",
     "attention weights scaled up by 2^8 and compared with a stale running max exceed 448 in "
     "e4m3: clipped in numerator but not in denominator"),
    ("N7", "underflow on one side of a ratio",
     "P below e4m3 minimum rounds to zero in numerator, stays in denominator"),
    ("N8", "silent TF32/fp16/bf16/fp8 down-cast",
     "compute done a level lower than the declared dtype"),
    ("N9", "biased rounding",
     "rounding errors correlated with data, so they add coherently over steps"),
    ("N10", "missing max-subtraction / overflow", "exp of raw logits; squares in half precision"),
    ("N11", "0/0 and vanishing normalizer",
     "routing weights all underflow, sigmoid sums to 0; tiny block scale rounds to 0"),
    ("N12", "fully masked row",
     "-inf - (-inf) = NaN, or finite sentinel makes masked keys share weight"),
    ("N13", "NaN swallowed", "max/relu implementation ignores NaN whereas reference propagates"),
    ("N14", "truncated or polynomial approximations",
     "Neumann series kept to few terms, exp2 emulation, fixed iteration count"),
    ("N15", "quota comparator hides concentrated error",
     "1 % of elements may be arbitrarily wrong; zeros in sparse outputs fill the quota"),
    ("N16", "comparator rejects better numerics",
     "reference itself rounds intermediates; fp32 solution fails while a buggy one passes"),
    ("O1", "term left out that the inputs make nearly an identity",
     "softcap dropped; LayerNorm replaced by copy when data are N(0,1); affine with weight = 1, "
     "bias = 0 dropped; dropout p=0"),
    ("O2", "input-constant output",
     "mean of softmax, or saturated result, constant regardless of input"),
    ("O3", "magnitude sniffing", "fast approximate path if amax of a small sample < threshold"),
    ("O4", "distributional statistics hard-wired",
     "top-k thresholds from a Gaussian tail, small candidate capacity"),
    ("O5", "structure assumed",
     "balanced experts, equal-length groups, uniform batch, every page full"),
    ("O6", "seed over-fit",
     "precomputed answers, thresholds tuned on visible seeds, lucky tolerance margin"),
    ("O7", "over-fit to shapes, loud", "switch on known shapes, abort or fallback elsewhere"),
    ("O8", "over-fit to shapes, silent",
     "constants (strides, K, block count) baked; wrong numbers elsewhere"),
    ("O9", "check-shape gate",
     "accurate path on shapes used for checking, cheap path on the shapes used for timing"),
    ("O10", "tail handling", "last partial tile skipped or padded lanes leak into a reduction"),
    ("M1", "32-bit index overflow", "row*stride or program id in int32"),
    ("M2", "library fallback wraps at 2^32", "arange/cumsum in uint32"),
    ("M3", "out-of-bounds read hidden by allocator slack",
     "tail lanes read the neighbouring tensor; result masked later"),
    ("M4", "out-of-bounds write", "last block writes past the output"),
    ("M5", "reads uninitialized memory",
     "output accumulates into buffer assumed zero; activation never written"),
    ("M6", "never-launched kernel leaves plausible memory",
     "shared-memory request over limit (by 256 B), wrong arch, unchecked launch error; stale "
     "memory holds an earlier right answer"),
    ("M7", "padding/stale values leak through shared scale",
     "NaN in unused rows/pages reaches a block-wise amax: finite but wrong scales for real rows"),
    ("M8", "use-after-free hidden by caching allocator",
     "temporary destroyed while kernel pending; block not yet reused"),
    ("M9", "side data overwritten", "autotuner bucket beyond buffer silently scribbles on weights"),
    ("M10", "alignment assumption", "16-byte vector loads on offset views"),
    ("C1", "missing block barrier / shared-memory race", "read before other warps wrote"),
    ("C2", "library temporary storage reused without barrier",
     "block-scan scratch shared by two calls"),
    ("C3", "publish-before-write ordering", "queue head advanced before payload; missing fence"),
    ("C4", "home-made grid barrier", "one-way barrier, parity reused, non-resident blocks"),
    ("C5", "dependent-launch primitives compiled away",
     "PDL wait turns into no-op if build flag missing"),
    ("C6", "cross-GPU barrier missing", "peer still reads buffer after return"),
    ("C7", "read-modify-write across CTAs", "non-atomic update of shared residual"),
    ("C8", "compiler-made race or miscompilation",
     "pipeliner drops a wait; convergent op moved; source-line order changes result"),
    ("C9", "order-dependent result", "float atomics, split-K chosen by batch size"),
    ("S1", "result cache keyed by pointer / id / version", "same address, old answer"),
    ("S2", "cache validated on a sample", "4096-element window or first 8192 elements compared"),
    ("S3", "cached preprocessed weights", "quantised/packed weight kept after optimizer step"),
    ("S4", "compile/graph cache key incomplete", "key lacks scale, stride, dtype, lambda, device"),
    ("S5", "JIT cache stale on global/callee change", "hash misses dependency"),
    ("S6", "autotuner side effects",
     "candidates run on real buffers; in-place op applied several times; last candidate repairs "
     "earlier partial write"),
    ("S7", "values frozen into a CUDA graph",
     "scalar flag/RNG offset/flag colour baked at capture"),
    ("S8", "recurrent / KV state leak", "hidden state survives between calls; id(state) recycled"),
    ("S9", "global mutable backend state",
     "import of solution flips reduced-precision flag, TF32 flag, default dtype, RNG"),
    ("A1", "ignores input strides", "assumes contiguous"),
    ("A2", "ignores strides of upstream gradient",
     "backward invoked with expand (from .sum()), cat view, transposed"),
    ("A3", "mutates an input", "scratch in input buffer, in-place normalize"),
    ("A4", "corrupts saved tensor, bypassing version counter",
     "raw pointer write into tensor saved by other op"),
    ("A5", "aliasing not handled", "out is x; q,k,v views of one buffer; overlapping in/out"),
    ("A6", "argument accepted but ignored",
     "ignore_index, cu_seqlens, KV cache given by caller, kwargs typo, rope scaling"),
    ("A7", "scalar/scale dtype confusion", "bf16 scale read as fp32; fp64 scalar under compiler"),
    ("A8", "wrong device", "launches on current device 0 with tensors on 1"),
    ("A9", "wrong stream", "default/pool stream rather than current"),
    ("A10", "not graph-capturable or captured wrong",
     "host sync, lazily allocated workspace, other-stream work during capture"),
    ("A11", "autograd subset requests", "statistics not saved unless particular input needs grad"),
    ("A12", "batch/broadcast semantics", "cos/sin batch > 1, local vs global head index"),
    ("A13", "per-row upstream gradient taken for one scalar",
     "multiplies all rows by first upstream scalar"),
    ("A14", "torch.compile / custom-op schema", "mutation not declared; fake kernel wrong strides"),
    ("A15", "invalid indices", "expert id -1, token at least vocab, padding id"),
    ("A16", "other initial state",
     "parameters drawn from another distribution, constants folded when built"),
    ("H1", "reads/keeps reference answer",
     "output memory of reference is returned by empty allocation; frame inspection"),
    ("H2", "timer patching", "replace Event.elapsed_time, perf_counter, sync, print of results"),
    ("H3", "work on unsynchronized stream / thread", "timed stream idle"),
    ("H4", "lazy tensor", "subclass computes upon comparison"),
    ("H5", "super-batching", "counts calls, does all work in one, 14 no-ops"),
    ("H6", "phase sniffing", "inspect.stack(), env var, file name, shape gate"),
    ("H7", "tampering with tolerance/test files",
     "edits tolerance table; writes pyc; SystemExit(0)"),
    ("H8", "silent fallback",
     "an except branch that calls PyTorch; cuBLAS wrapper; inherits reference class; kernel "
     "built but unused"),
    ("H9", "contaminates the reference", "global precision flag changes reference so both agree"),
    ("H10", "cache/L2 residency or pinned persistence",
     "evict_last hints, persisting window defeats flush"),
    ("H11", "implausible speed accepted", "faster than roofline because work missing"),
    ("H12", "partial computation", "first row/tile only; skip K > 4096"),
    ("T1", "self-comparison / shared buffer",
     "x.grad compared with itself; both models share grad storage"),
    ("T2", "comparator ignores NaN/Inf or treats NaN equal", "mask drops exactly the bad elements"),
    ("T3", "tolerance above signal", "atol 17; output magnitude < atol"),
    ("T4", "ignored configuration key", "misspelt field silently dropped"),
    ("T5", "rotted path", "fp8 test branch no longer executed"),
    ("T6", "gradient checker only sees contiguous", "gradcheck/opcheck layouts"),
    ("T7", "multi-config autotune masks a bad config", "best config hides others"),
    ("L1", "optimizer masks multiplicative gradient bias", "Adam normalizes scale; SGD exposes"),
    ("L2", "wrong normalisation under accumulation", "factor 4times or 1/4"),
    ("L3", "recompute/forward mismatch", "backward recompute uses other dtype than forward"),
    ("L4", "slow drift invisible per step", "error amplified as confidence rises"),
    ("L5", "NaN only at rare length/loss", "S mod 128 = 64 with LSE < -88.7"),
    ("L6", "intermittent wrong gradient for part of batch",
     "int32 in offset for last ~3 % of batch"),
    ("L7", "prefill/decode disagreement", "two code paths use different exp or mask"),
    ("L8", "graph padding pollutes", "decode batch padded to captured size"),
    ("L9", "paged/partial KV tile", "wrong page for last tile"),
    ("L10", "long-context only", "error grows with length; rope scaling lost beyond ~29 k"),
    ("L11", "greedy decoding hides it", "garbage logits still have an argmax"),
    ("L12", "model-scale only", "65 535 times 40 960 > 2^31, starts at row 52 429"),
)
# fmt: on
FAILURE_CLASSES: Mapping[str, FailureClass] = MappingProxyType(
    {code: FailureClass(code=code, name=name, mechanism=how) for code, name, how in _TABLE}
)


def class_name(code: str) -> str:
    """Return the name of a failure class; a code that nobody knows is its own name."""
    known = FAILURE_CLASSES.get(code)
    return code if known is None else known.name


def class_names(codes: Iterable[str]) -> str:
    """Return the names of failure classes in one line, separated by semicolons."""
    return "; ".join(dict.fromkeys(map(class_name, codes)))
