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
_TABLE = (
    FailureClass(
        code="N1",
        name="low-precision scatter/atomic accumulation",
        mechanism=(
            "running sum kept in bf16/fp16; increments below half an ulp vanish (bf16 counter"
            " of ones stops at 256, fp16 at 2048)"
        ),
    ),
    FailureClass(
        code="N2",
        name="low-precision block reduction",
        mechanism=(
            "partial sums inside a tile (tl.sum on bf16, fp16 warp shuffles) though the final"
            " accumulator is fp32"
        ),
    ),
    FailureClass(
        code="N3",
        name="chunk-boundary rounding",
        mechanism="gradient buffer in parameter dtype, rounded after each chunk/micro-batch",
    ),
    FailureClass(
        code="N4",
        name="cancellation through a rounded intermediate",
        mechanism="p rounded to bf16, then p-1 formed by read-modify-write",
    ),
    FailureClass(
        code="N5",
        name="tensor-core accumulator narrower than fp32",
        mechanism="FP8 MMA keeps 14 to 22 bits in the accumulator; no promotion interval",
    ),
    FailureClass(
        code="N6",
        name="saturating cast of intermediate",
        mechanism=(
            "attention weights scaled up by 2^8 and compared with a stale running max exceed "
            "448 in e4m3: clipped in numerator but not in denominator"
        ),
    ),
    FailureClass(
        code="N7",
        name="underflow on one side of a ratio",
        mechanism="P below e4m3 minimum rounds to zero in numerator, stays in denominator",
    ),
    FailureClass(
        code="N8",
        name="silent TF32/fp16/bf16/fp8 down-cast",
        mechanism="compute done a level lower than the declared dtype",
    ),
    FailureClass(
        code="N9",
        name="biased rounding",
        mechanism="rounding errors correlated with data, so they add coherently over steps",
    ),
    FailureClass(
        code="N10",
        name="missing max-subtraction / overflow",
        mechanism="exp of raw logits; squares in half precision",
    ),
    FailureClass(
        code="N11",
        name="0/0 and vanishing normalizer",
        mechanism="routing weights all underflow, sigmoid sums to 0; tiny block scale rounds to 0",
    ),
    FailureClass(
        code="N12",
        name="fully masked row",
        mechanism="-inf - (-inf) = NaN, or finite sentinel makes masked keys share weight",
    ),
    FailureClass(
        code="N13",
        name="NaN swallowed",
        mechanism="max/relu implementation ignores NaN whereas reference propagates",
    ),
    FailureClass(
        code="N14",
        name="truncated or polynomial approximations",
        mechanism="Neumann series kept to few terms, exp2 emulation, fixed iteration count",
    ),
    FailureClass(
        code="N15",
        name="quota comparator hides concentrated error",
        mechanism=(
            "1 % of elements may be arbitrarily wrong; zeros in sparse outputs fill the quota"
        ),
    ),
    FailureClass(
        code="N16",
        name="comparator rejects better numerics",
        mechanism=(
            "reference itself rounds intermediates; fp32 solution fails while a buggy one passes"
        ),
    ),
    FailureClass(
        code="O1",
        name="term left out that the inputs make nearly an identity",
        mechanism=(
            "softcap dropped; LayerNorm replaced by copy when data are N(0,1); affine with "
            "weight = 1, bias = 0 dropped; dropout p=0"
        ),
    ),
    FailureClass(
        code="O2",
        name="input-constant output",
        mechanism="mean of softmax, or saturated result, constant regardless of input",
    ),
    FailureClass(
        code="O3",
        name="magnitude sniffing",
        mechanism="fast approximate path if amax of a small sample < threshold",
    ),
    FailureClass(
        code="O4",
        name="distributional statistics hard-wired",
        mechanism="top-k thresholds from a Gaussian tail, small candidate capacity",
    ),
    FailureClass(
        code="O5",
        name="structure assumed",
        mechanism="balanced experts, equal-length groups, uniform batch, every page full",
    ),
    FailureClass(
        code="O6",
        name="seed over-fit",
        mechanism="precomputed answers, thresholds tuned on visible seeds, lucky tolerance margin",
    ),
    FailureClass(
        code="O7",
        name="over-fit to shapes, loud",
        mechanism="switch on known shapes, abort or fallback elsewhere",
    ),
    FailureClass(
        code="O8",
        name="over-fit to shapes, silent",
        mechanism="constants (strides, K, block count) baked; wrong numbers elsewhere",
    ),
    FailureClass(
        code="O9",
        name="check-shape gate",
        mechanism=(
            "accurate path on shapes used for checking, cheap path on the shapes used for timing"
        ),
    ),
    FailureClass(
        code="O10",
        name="tail handling",
        mechanism="last partial tile skipped or padded lanes leak into a reduction",
    ),
    FailureClass(
        code="M1", name="32-bit index overflow", mechanism="row*stride or program id in int32"
    ),
    FailureClass(
        code="M2", name="library fallback wraps at 2^32", mechanism="arange/cumsum in uint32"
    ),
    FailureClass(
        code="M3",
        name="out-of-bounds read hidden by allocator slack",
        mechanism="tail lanes read the neighbouring tensor; result masked later",
    ),
    FailureClass(
        code="M4", name="out-of-bounds write", mechanism="last block writes past the output"
    ),
    FailureClass(
        code="M5",
        name="reads uninitialized memory",
        mechanism="output accumulates into buffer assumed zero; activation never written",
    ),
    FailureClass(
        code="M6",
        name="never-launched kernel leaves plausible memory",
        mechanism=(
            "shared-memory request over limit (by 256 B), wrong arch, unchecked launch error;"
            " stale memory holds an earlier right answer"
        ),
    ),
    FailureClass(
        code="M7",
        name="padding/stale values leak through shared scale",
        mechanism=(
            "NaN in unused rows/pages reaches a block-wise amax: finite but wrong scales for "
            "real rows"
        ),
    ),
    FailureClass(
        code="M8",
        name="use-after-free hidden by caching allocator",
        mechanism="temporary destroyed while kernel pending; block not yet reused",
    ),
    FailureClass(
        code="M9",
        name="side data overwritten",
        mechanism="autotuner bucket beyond buffer silently scribbles on weights",
    ),
    FailureClass(
        code="M10", name="alignment assumption", mechanism="16-byte vector loads on offset views"
    ),
    FailureClass(
        code="C1",
        name="missing block barrier / shared-memory race",
        mechanism="read before other warps wrote",
    ),
    FailureClass(
        code="C2",
        name="library temporary storage reused without barrier",
        mechanism="block-scan scratch shared by two calls",
    ),
    FailureClass(
        code="C3",
        name="publish-before-write ordering",
        mechanism="queue head advanced before payload; missing fence",
    ),
    FailureClass(
        code="C4",
        name="home-made grid barrier",
        mechanism="one-way barrier, parity reused, non-resident blocks",
    ),
    FailureClass(
        code="C5",
        name="dependent-launch primitives compiled away",
        mechanism="PDL wait turns into no-op if build flag missing",
    ),
    FailureClass(
        code="C6",
        name="cross-GPU barrier missing",
        mechanism="peer still reads buffer after return",
    ),
    FailureClass(
        code="C7",
        name="read-modify-write across CTAs",
        mechanism="non-atomic update of shared residual",
    ),
    FailureClass(
        code="C8",
        name="compiler-made race or miscompilation",
        mechanism="pipeliner drops a wait; convergent op moved; source-line order changes result",
    ),
    FailureClass(
        code="C9",
        name="order-dependent result",
        mechanism="float atomics, split-K chosen by batch size",
    ),
    FailureClass(
        code="S1",
        name="result cache keyed by pointer / id / version",
        mechanism="same address, old answer",
    ),
    FailureClass(
        code="S2",
        name="cache validated on a sample",
        mechanism="4096-element window or first 8192 elements compared",
    ),
    FailureClass(
        code="S3",
        name="cached preprocessed weights",
        mechanism="quantised/packed weight kept after optimizer step",
    ),
    FailureClass(
        code="S4",
        name="compile/graph cache key incomplete",
        mechanism="key lacks scale, stride, dtype, lambda, device",
    ),
    FailureClass(
        code="S5",
        name="JIT cache stale on global/callee change",
        mechanism="hash misses dependency",
    ),
    FailureClass(
        code="S6",
        name="autotuner side effects",
        mechanism=(
            "candidates run on real buffers; in-place op applied several times; last "
            "candidate repairs earlier partial write"
        ),
    ),
    FailureClass(
        code="S7",
        name="values frozen into a CUDA graph",
        mechanism="scalar flag/RNG offset/flag colour baked at capture",
    ),
    FailureClass(
        code="S8",
        name="recurrent / KV state leak",
        mechanism="hidden state survives between calls; id(state) recycled",
    ),
    FailureClass(
        code="S9",
        name="global mutable backend state",
        mechanism="import of solution flips reduced-precision flag, TF32 flag, default dtype, RNG",
    ),
    FailureClass(code="A1", name="ignores input strides", mechanism="assumes contiguous"),
    FailureClass(
        code="A2",
        name="ignores strides of upstream gradient",
        mechanism="backward invoked with expand (from .sum()), cat view, transposed",
    ),
    FailureClass(
        code="A3", name="mutates an input", mechanism="scratch in input buffer, in-place normalize"
    ),
    FailureClass(
        code="A4",
        name="corrupts saved tensor, bypassing version counter",
        mechanism="raw pointer write into tensor saved by other op",
    ),
    FailureClass(
        code="A5",
        name="aliasing not handled",
        mechanism="out is x; q,k,v views of one buffer; overlapping in/out",
    ),
    FailureClass(
        code="A6",
        name="argument accepted but ignored",
        mechanism="ignore_index, cu_seqlens, KV cache given by caller, kwargs typo, rope scaling",
    ),
    FailureClass(
        code="A7",
        name="scalar/scale dtype confusion",
        mechanism="bf16 scale read as fp32; fp64 scalar under compiler",
    ),
    FailureClass(
        code="A8", name="wrong device", mechanism="launches on current device 0 with tensors on 1"
    ),
    FailureClass(
        code="A9", name="wrong stream", mechanism="default/pool stream rather than current"
    ),
    FailureClass(
        code="A10",
        name="not graph-capturable or captured wrong",
        mechanism="host sync, lazily allocated workspace, other-stream work during capture",
    ),
    FailureClass(
        code="A11",
        name="autograd subset requests",
        mechanism="statistics not saved unless particular input needs grad",
    ),
    FailureClass(
        code="A12",
        name="batch/broadcast semantics",
        mechanism="cos/sin batch > 1, local vs global head index",
    ),
    FailureClass(
        code="A13",
        name="per-row upstream gradient taken for one scalar",
        mechanism="multiplies all rows by first upstream scalar",
    ),
    FailureClass(
        code="A14",
        name="torch.compile / custom-op schema",
        mechanism="mutation not declared; fake kernel wrong strides",
    ),
    FailureClass(
        code="A15",
        name="invalid indices",
        mechanism="expert id -1, token at least vocab, padding id",
    ),
    FailureClass(
        code="A16",
        name="other initial state",
        mechanism="parameters drawn from another distribution, constants folded when built",
    ),
    FailureClass(
        code="H1",
        name="reads/keeps reference answer",
        mechanism="output memory of reference is returned by empty allocation; frame inspection",
    ),
    FailureClass(
        code="H2",
        name="timer patching",
        mechanism="replace Event.elapsed_time, perf_counter, sync, print of results",
    ),
    FailureClass(
        code="H3", name="work on unsynchronized stream / thread", mechanism="timed stream idle"
    ),
    FailureClass(code="H4", name="lazy tensor", mechanism="subclass computes upon comparison"),
    FailureClass(
        code="H5", name="super-batching", mechanism="counts calls, does all work in one, 14 no-ops"
    ),
    FailureClass(
        code="H6",
        name="phase sniffing",
        mechanism="inspect.stack(), env var, file name, shape gate",
    ),
    FailureClass(
        code="H7",
        name="tampering with tolerance/test files",
        mechanism="edits tolerance table; writes pyc; SystemExit(0)",
    ),
    FailureClass(
        code="H8",
        name="silent fallback",
        mechanism=(
            "an except branch that calls PyTorch; cuBLAS wrapper; inherits reference class; "
            "kernel built but unused"
        ),
    ),
    FailureClass(
        code="H9",
        name="contaminates the reference",
        mechanism="global precision flag changes reference so both agree",
    ),
    FailureClass(
        code="H10",
        name="cache/L2 residency or pinned persistence",
        mechanism="evict_last hints, persisting window defeats flush",
    ),
    FailureClass(
        code="H11",
        name="implausible speed accepted",
        mechanism="faster than roofline because work missing",
    ),
    FailureClass(
        code="H12", name="partial computation", mechanism="first row/tile only; skip K > 4096"
    ),
    FailureClass(
        code="T1",
        name="self-comparison / shared buffer",
        mechanism="x.grad compared with itself; both models share grad storage",
    ),
    FailureClass(
        code="T2",
        name="comparator ignores NaN/Inf or treats NaN equal",
        mechanism="mask drops exactly the bad elements",
    ),
    FailureClass(
        code="T3", name="tolerance above signal", mechanism="atol 17; output magnitude < atol"
    ),
    FailureClass(
        code="T4", name="ignored configuration key", mechanism="misspelt field silently dropped"
    ),
    FailureClass(code="T5", name="rotted path", mechanism="fp8 test branch no longer executed"),
    FailureClass(
        code="T6",
        name="gradient checker only sees contiguous",
        mechanism="gradcheck/opcheck layouts",
    ),
    FailureClass(
        code="T7",
        name="multi-config autotune masks a bad config",
        mechanism="best config hides others",
    ),
    FailureClass(
        code="L1",
        name="optimizer masks multiplicative gradient bias",
        mechanism="Adam normalizes scale; SGD exposes",
    ),
    FailureClass(
        code="L2", name="wrong normalisation under accumulation", mechanism="factor 4times or 1/4"
    ),
    FailureClass(
        code="L3",
        name="recompute/forward mismatch",
        mechanism="backward recompute uses other dtype than forward",
    ),
    FailureClass(
        code="L4",
        name="slow drift invisible per step",
        mechanism="error amplified as confidence rises",
    ),
    FailureClass(
        code="L5", name="NaN only at rare length/loss", mechanism="S mod 128 = 64 with LSE < -88.7"
    ),
    FailureClass(
        code="L6",
        name="intermittent wrong gradient for part of batch",
        mechanism="int32 in offset for last ~3 % of batch",
    ),
    FailureClass(
        code="L7",
        name="prefill/decode disagreement",
        mechanism="two code paths use different exp or mask",
    ),
    FailureClass(
        code="L8", name="graph padding pollutes", mechanism="decode batch padded to captured size"
    ),
    FailureClass(code="L9", name="paged/partial KV tile", mechanism="wrong page for last tile"),
    FailureClass(
        code="L10",
        name="long-context only",
        mechanism="error grows with length; rope scaling lost beyond ~29 k",
    ),
    FailureClass(
        code="L11", name="greedy decoding hides it", mechanism="garbage logits still have an argmax"
    ),
    FailureClass(
        code="L12",
        name="model-scale only",
        mechanism="65 535 times 40 960 > 2^31, starts at row 52 429",
    ),
)
FAILURE_CLASSES: Mapping[str, FailureClass] = MappingProxyType({one.code: one for one in _TABLE})


def class_name(code: str) -> str:
    """Return the name of a failure class; a code that nobody knows is its own name."""
    known = FAILURE_CLASSES.get(code)
    return code if known is None else known.name


def class_names(codes: Iterable[str]) -> str:
    """Return the names of failure classes in one line, separated by semicolons."""
    return "; ".join(dict.fromkeys(map(class_name, codes)))
