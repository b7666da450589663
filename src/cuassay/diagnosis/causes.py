"""What each cause is called, in one sentence, and what repairs it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from cuassay.model.diagnosis import Cause


@dataclass(frozen=True, slots=True, kw_only=True)
class CausePage:
    """A cause in words: `name` for lists, `words` as a sentence about the kernel, `remedy`."""

    name: str
    words: str
    remedy: str


PAGES: Mapping[Cause, CausePage] = MappingProxyType(
    {
        Cause.NOT_BUILT: CausePage(
            name="does not build",
            words="the kernel does not compile or import",
            remedy="make the source compile and import by itself, and define the entry function",
        ),
        Cause.WRONG_STRUCTURE: CausePage(
            name="wrong outputs",
            words="the call does not return what the problem declares",
            remedy="return every declared output, with the declared shape, dtype and device",
        ),
        Cause.RAISES: CausePage(
            name="raises an exception",
            words="the kernel raises an exception on legal inputs",
            remedy="handle every legal input; the traceback names the line",
        ),
        Cause.REFUSES_SIZES: CausePage(
            name="refuses legal sizes",
            words="the kernel refuses sizes that the problem allows",
            remedy="support every size of the domain, or declare the axis bounds in the problem",
        ),
        Cause.ENDS_PROCESS: CausePage(
            name="ends the process",
            words="the kernel ends the process that it runs in",
            remedy="raise an exception for what is not supported; never call exit()",
        ),
        Cause.CRASHES: CausePage(
            name="crashes",
            words="the process dies while the kernel runs",
            remedy="check pointers and launch sizes: a crash is mostly an access out of bounds",
        ),
        Cause.HANGS: CausePage(
            name="hangs",
            words="a call does not return",
            remedy="find the loop or barrier that never ends, and bound every wait",
        ),
        Cause.FORGES: CausePage(
            name="writes to the result channel",
            words="something in the kernel writes to files that it did not open",
            remedy="leave file descriptors that the kernel did not open alone",
        ),
        Cause.PRINTS: CausePage(
            name="prints without end",
            words="the kernel prints more than the output limit",
            remedy="print nothing inside the kernel",
        ),
        Cause.LAUNCH_FAILED: CausePage(
            name="launch fails",
            words="a kernel launch fails and the caller does not look",
            remedy="check every launch; its configuration must fit the device at every legal size",
        ),
        Cause.INPUT_CHANGED: CausePage(
            name="changes an input",
            words="the call writes into one of its inputs",
            remedy="do not write into the inputs; clone what has to change",
        ),
        Cause.OUTPUT_SHARES_INPUT: CausePage(
            name="output shares an input's memory",
            words="an output lies in the memory of an input",
            remedy="return new tensors; clone an input that is returned",
        ),
        Cause.OUTPUT_SHARES_OUTPUT: CausePage(
            name="outputs share memory",
            words="two outputs lie in the same memory",
            remedy="return each output in memory of its own; clone what is returned twice",
        ),
        Cause.OUTPUT_REUSED: CausePage(
            name="output buffer reused",
            words="a later call overwrites what an earlier call returned",
            remedy="allocate the outputs in each call, or return a clone of the buffer",
        ),
        Cause.STALE_ANSWER: CausePage(
            name="answer of an earlier call",
            words="the kernel returns the result of an earlier call",
            remedy="keep nothing between calls: no cached results, packed weights or tables that "
            "depend on values",
        ),
        Cause.FIRST_CALL: CausePage(
            name="wrong first call",
            words="the first call is wrong, later ones on the same values are right",
            remedy="compute before tuning, and initialise all scratch memory before the first use",
        ),
        Cause.AUTOTUNER: CausePage(
            name="autotuner's trial runs",
            words="the first call keeps what the autotuner's trial runs left in its outputs",
            remedy="name the tensors that the kernel adds to in reset_to_zero, those that it "
            "updates in restore_value",
        ),
        Cause.CALL_HISTORY: CausePage(
            name="depends on earlier calls",
            words="an answer depends on the calls before it",
            remedy="keep nothing between calls: no cached shapes, buffers or settings",
        ),
        Cause.HOW_CALLED: CausePage(
            name="depends on how it is called",
            words="the result depends on the thread, stream or gradient mode of the call",
            remedy="compute the same result from every thread and stream, and with gradients on, "
            "off and in inference mode",
        ),
        Cause.PROCESS_STATE: CausePage(
            name="changes the process",
            words="the kernel leaves settings of the whole process changed",
            remedy="restore settings, files, threads and generators before returning",
        ),
        Cause.UNNECESSARY_KERNEL: CausePage(
            name="kernel without effect",
            words="the answer does not come from the candidate's own kernels",
            remedy="compute the result anew in each call, with the kernels that the source defines",
        ),
        Cause.OUT_OF_BOUNDS: CausePage(
            name="out of bounds",
            words="the kernel accesses memory outside of its tensors",
            remedy="compare every index with the tensor's bounds, also in the last tile",
        ),
        Cause.MISALIGNED: CausePage(
            name="misaligned access",
            words="a vector load or store uses an address that is not a multiple of its size",
            remedy="use the vector path only where the address, the row length and every stride "
            "are multiples of the vector size; use single elements elsewhere",
        ),
        Cause.FALSE_ASSUMPTION: CausePage(
            name="false assumption",
            words="the kernel promises its compiler something that does not hold for this call",
            remedy="remove the assumption, or dispatch calls for which it is false to a kernel "
            "without it",
        ),
        Cause.UNINITIALISED: CausePage(
            name="reads unwritten memory",
            words="the answer depends on memory that was never written",
            remedy="write every element of scratch and shared memory before it is read",
        ),
        Cause.UNWRITTEN: CausePage(
            name="output not written",
            words="some elements of an output are never written",
            remedy="write every element of every output, also in the last partial tile",
        ),
        Cause.UNDEFINED_READ: CausePage(
            name="reads what it must ignore",
            words="values that must not matter reach the output",
            remedy="mask padding and ignored rows before arithmetic; zero times NaN is NaN",
        ),
        Cause.RACE: CausePage(
            name="data race",
            words="two threads access the same memory without an order between them",
            remedy="put a barrier or an atomic between a write and another thread's access to it",
        ),
        Cause.BARRIER: CausePage(
            name="barrier not reached",
            words="not every thread reaches a barrier or warp operation",
            remedy="move the barrier out of the branch that some threads skip",
        ),
        Cause.RANKS: CausePage(
            name="order between ranks",
            words="a result depends on which rank is late, or on another group of ranks",
            remedy=(
                "wait for each collective before its tensors are used, keep no buffer that ranks "
                "of another call still read, and pass `group` to every function of "
                "torch.distributed"
            ),
        ),
        Cause.NOT_DETERMINISTIC: CausePage(
            name="not deterministic",
            words="the same call gives different results",
            remedy="use a fixed order of summation, and atomics for updates that can collide",
        ),
        Cause.LOW_ACCUMULATION: CausePage(
            name="sum in low precision",
            words="a sum is kept in a precision that is too low: it loses terms as it grows",
            remedy="keep running sums in float32 and cast once at the end, also across atomics, "
            "tiles and the grid",
        ),
        Cause.LOW_PRECISION: CausePage(
            name="intermediate in low precision",
            words="an operand or intermediate is rounded to a precision that is too low",
            remedy="keep operands and intermediates in float32 and round once, at the end",
        ),
        Cause.OUT_OF_RANGE: CausePage(
            name="NaN or infinity",
            words="finite values become NaN or infinite on the way",
            remedy="subtract the maximum before exp, divide safely, and compute in a format that "
            "holds every intermediate",
        ),
        Cause.INPUT_IGNORED: CausePage(
            name="input ignored",
            words="an input does not reach the output",
            remedy="use every input as the reference does, also scalars that rarely change",
        ),
        Cause.INITIAL_VALUES: CausePage(
            name="other initial values",
            words="the module starts with other values than the reference under the same seed",
            remedy="make the parameters as the reference does: the same torch.nn modules, or the "
            "same torch.nn.init calls in the same order",
        ),
        Cause.LOADED_STATE: CausePage(
            name="wrong with a loaded state",
            words="the module is right as it was built and wrong once a state is loaded",
            remedy="compute what depends on the parameters in forward, not in the constructor",
        ),
        Cause.EVALUATION_MODE: CausePage(
            name="wrong in training mode",
            words="the module puts itself into evaluation mode and is wrong in training mode",
            remedy="compute what the reference computes while self.training is true, or say that "
            "the module is for inference",
        ),
        Cause.BUILT_EVALUATION: CausePage(
            name="wrong in training mode and with a loaded state",
            words="the module puts itself into evaluation mode and is right there as it was built",
            remedy="compute what depends on the parameters in forward, and what the reference "
            "computes while self.training is true",
        ),
        Cause.TRAINING_MODE: CausePage(
            name="wrong in evaluation mode",
            words="the module is right in training mode and wrong in evaluation mode",
            remedy="compute what the reference computes while self.training is false: running "
            "statistics, no dropout, and the same sizes",
        ),
        Cause.INPUT_MISREAD: CausePage(
            name="input misread",
            words="the kernel reads other elements of an input than the reference does",
            remedy="check the index and the order of arguments of this input",
        ),
        Cause.TERM_OMITTED: CausePage(
            name="operation left out",
            words="an operation of the reference is missing",
            remedy="compare each term with the reference's formula",
        ),
        Cause.WRONG_CONSTANT: CausePage(
            name="wrong constant",
            words="a constant differs from the reference's",
            remedy="compare every constant with the reference's, epsilon and scale first",
        ),
        Cause.OTHER_FORM: CausePage(
            name="other form of a function",
            words="a function is computed in another form than the reference's",
            remedy="compute the reference's form; gelu has one with erf and one with tanh",
        ),
        Cause.WRONG_REDUCTION: CausePage(
            name="wrong reduction",
            words="a reduction covers other terms, or has another scale, than the reference's",
            remedy="check the bounds, axis and divisor of the reduction",
        ),
        Cause.TAIL: CausePage(
            name="last partial tile",
            words="the kernel is right at sizes of whole tiles and wrong where the last one is "
            "partial",
            remedy="mask the last tile, and derive every bound and loop count from the arguments",
        ),
        Cause.SIZES: CausePage(
            name="wrong at some sizes",
            words="the kernel is right at some sizes and wrong at others",
            remedy="look at what the source does differently there: a dispatch on the size, a "
            "template constant, a table, a stride or loop count that is a number",
        ),
        Cause.TRIVIAL_ANSWER: CausePage(
            name="computes nothing",
            words="the answer is one that needs no computation",
            remedy="compute the operator; a constant or a copied input is no answer",
        ),
        Cause.MAGNITUDE: CausePage(
            name="wrong for large or small values",
            words="the kernel is right for the same values at another magnitude",
            remedy="look for what matters at that magnitude alone: an epsilon and where it stands, "
            "a constant, a clamp, the range of a format",
        ),
        Cause.SPECIAL_CASE: CausePage(
            name="right for some values only",
            words="the kernel is right for some values or rows and wrong for others",
            remedy="follow these values through the kernel: a branch on them, a mask, a term that "
            "ordinary values hide",
        ),
        Cause.WRONG_VALUES: CausePage(
            name="wrong values",
            words="the numbers are not those of the operator",
            remedy="compare each term with the reference's formula on the smallest input",
        ),
        Cause.LAYOUT: CausePage(
            name="memory layout",
            words="the kernel is wrong for tensors that are not contiguous",
            remedy="read strides from the tensors, or call .contiguous() first",
        ),
        Cause.STREAM: CausePage(
            name="streams",
            words="the kernel does not respect the current CUDA stream",
            remedy="launch on torch.cuda.current_stream() and keep no global buffers",
        ),
        Cause.GRAPH: CausePage(
            name="CUDA graphs",
            words="the kernel cannot be captured in a CUDA graph, or replays wrong results",
            remedy="make no synchronisation, allocation or host read inside the call",
        ),
        Cause.DEVICE: CausePage(
            name="devices",
            words="the kernel does not run on the device of its inputs",
            remedy="launch on the device of the inputs (torch.cuda.device), not on device 0",
        ),
        Cause.LARGE_SIZES: CausePage(
            name="large sizes",
            words="the kernel is wrong beyond 2^31 elements or bytes",
            remedy="compute offsets in 64 bits",
        ),
        Cause.GRADIENT: CausePage(
            name="gradients",
            words="the gradients are not those of the operator",
            remedy="give the function a backward that matches the reference, or detach on purpose",
        ),
        Cause.COMPILED: CausePage(
            name="torch.compile",
            words="the kernel is right in eager mode and wrong in a compiled function",
            remedy="keep host reads and caches out of the traced function, or make the kernel a "
            "custom operator",
        ),
        Cause.CUSTOM_OPERATOR: CausePage(
            name="custom operator",
            words="the custom operator declares something else than it does",
            remedy="declare mutates_args, return no alias of an input, and register a fake kernel "
            "with the real shapes and strides",
        ),
        Cause.SLOW_HOST: CausePage(
            name="timing",
            words="calls do other work when they are timed, or wait on the host",
            remedy="do the same work in every call; no synchronisation inside the call",
        ),
        Cause.TRAINING: CausePage(
            name="training or inference loop",
            words="the kernel is wrong on what a real loop hands it",
            remedy="run `cuassay loop train` or `cuassay loop infer` to see which rows drift, and "
            "when",
        ),
    }
)
