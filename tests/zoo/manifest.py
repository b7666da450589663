"""What is in the zoo: pairs of a planted bug and its correct twin, and honest rewrites.

`twins/<name>.py` is a correct candidate and `bugs/<name>.diff` the fault planted in it
(`planted.py`); `honest/<name>.py` are candidates that must be accepted. Every Python file defines
`run` over the problem's inputs in order. `cuda/` has pairs of raw CUDA kernels.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cuassay.catalog import registry
from cuassay.model.problem import Problem
from cuassay.model.verdict import Profile
from tests.zoo import (
    manifest_autograd,
    manifest_gpu,
    manifest_layouts,
    manifest_loops,
    manifest_memory,
    manifest_operators,
    manifest_process,
    manifest_servers,
    planted,
)

HERE = Path(__file__).parent


_WAITING = ("triton_owner_goes_on",)  # pairs whose first block waits for later ones


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A planted bug and its twin. At least one of `codes` must be reported.

    `problem` is a catalogue name (`rmsnorm@float32`) or `zoo:<function of problems.py>`;
    `classes` are rows of the failure classes, `lesson` the family of real faults, `since` the
    first profile whose inputs can show the fault, `cuda` a pair of raw CUDA kernels (GPU only),
    `require` the conditions of use that the trial makes binding, `plain` whether plain calls
    on ordinary tensors can show the fault.
    """

    name: str
    problem: str
    codes: tuple[str, ...]
    classes: tuple[str, ...]
    lesson: str
    since: Profile = Profile.QUICK
    cuda: bool = False
    require: tuple[str, ...] = ()
    plain: bool = True

    @property
    def bug(self) -> Path:
        """The faulty candidate's file, made from its patch."""
        return planted.bug(self.name)

    @property
    def twin(self) -> Path:
        """The correct candidate's file."""
        return planted.twin_of(self.name)

    @property
    def triton(self) -> bool:
        """Whether the kernels are Triton's (interpreted where there is no GPU)."""
        return self.name.startswith("triton_")

    @property
    def needs_gpu(self) -> bool:
        """Whether only a GPU can run it: raw CUDA kernels, streams, graphs, blocks that wait.

        Triton's interpreter runs blocks one after another: one that waits for a later one waits
        without end.
        """
        return self.cuda or self.name.startswith("gpu") or self.name in _WAITING

    @property
    def gpus(self) -> int:
        """How many GPUs it takes."""
        return 2 if self.name.startswith("gpu2_") else int(self.needs_gpu)


@dataclass(frozen=True, slots=True, kw_only=True)
class Honest:
    """A candidate that must be accepted; `lesson` is the false alarm that it stands for."""

    name: str
    problem: str
    lesson: str = ""

    @property
    def path(self) -> Path:
        """The candidate's file."""
        return HERE / "honest" / f"{self.name}.py"

    @property
    def triton(self) -> bool:
        """Whether the kernel is Triton's (interpreted where there is no GPU)."""
        return self.name.endswith("_triton")


def load(name: str, *, dtype: str | None = None) -> Problem:
    """Return the problem of a pair; `dtype` picks a catalogue problem's working dtype."""
    if not name.startswith("zoo:"):
        return registry.get(name, dtype=dtype)
    from tests.zoo import problems

    found = getattr(problems, name.removeprefix("zoo:")).__cuassay_problem__
    assert isinstance(found, Problem)
    return found


def _rows(table: str) -> Iterator[tuple[str, list[str]]]:
    """Yield (lesson, cells) of each line; a line that starts with # names the lesson."""
    lesson = ""
    for line in table.strip().splitlines():
        if line.startswith("#"):
            lesson = line.removeprefix("#").strip()
        else:
            yield lesson, [cell.strip() for cell in line.split("|")]


# name | problem | codes | classes | first profile that can show it, if not quick
_PAIRS = """
# host-side state: memo by object identity
memo_by_identity            | rmsnorm                     | STATE001 API002        | S1
# host-side state: memo by addresses
memo_by_address             | rmsnorm                     | STATE001 API002        | S1
memo_by_version             | swiglu                      | STATE001               | S1
# host-side state: memo validated on a sample
memo_by_sample              | rmsnorm                     | STATE001 NUM001        | S2 S1
# host-side state: what a call that raised leaves
staged_operand              | swiglu                      | STATE001               | S1
# host-side state: memo validated on some places
memo_by_places              | dequantize_int8_per_row     | STATE001               | S2
# host-side state: memo by a short key
memo_by_16_bits             | rmsnorm                     | STATE001               | S2
# host-side state: memo by a rounded scalar
factor_by_text              | softmax_masked              | STATE001               | S4
# host-side state: memory of a result that a view still needs
pool_of_results             | swiglu                      | STATE001               | S1
# output and input contract: an input passed through where another is zero
zero_residual               | fused_add_rmsnorm           | API002                 | A5
# the process: a clock that others slow down
sheds_rows                  | rmsnorm                     | APART001               | H2
# the process: a terminal, where it shows at larger sizes alone
pieces_on_a_terminal        | rmsnorm                     | APART001               | H2
# arithmetic: a scalar taken for the round number beside it
scale_near_power            | embedding                   | NUM001                 | N11
# arithmetic: rows that one element decides, nearly
sure_rows                   | cross_entropy               | NUM001                 | N11
# host-side state: derived operand not refreshed
packed_weight               | rmsnorm                     | STATE001 API002 API003 | S3
packed_weight_by_address    | rmsnorm_backward            | STATE001 API002        | S3
# host-side state: cache key without scale
key_without_scale           | softmax_softcap             | API003 STATE001 NUM001 | S4 A6
key_without_scale_embedding | embedding_grad              | API003 NUM001 STATE001 | S4 A6
# host-side state: cache key without shape
key_without_shape           | rmsnorm_backward            | STATE001 SHP001 NUM001 | S4 M5
# host-side state: returned buffer overwritten by the next call
static_output               | rmsnorm                     | STATE001               | S1 A5
static_second_output        | cross_entropy               | STATE001               | S1 A5
graphs_after_warm_up        | swiglu                      | STATE001               | S1 A5
# host-side state: inputs one call late
deferred_inputs             | swiglu                      | STATE001 API002        | S1 A5
# declared inputs that do not reach the output: only batch row 0 of an index tensor read
row0_of_positions           | zoo:rotary                  | API003 NUM001          | A12 O5
# declared inputs that do not reach the output: a frequency table rebuilt instead of read
table_rebuilt               | zoo:rotary                  | API003 NUM001          | A6
# declared inputs that do not reach the output: masks
mask_ignored                | zoo:masked_softmax          | API003 NUM001          | A6
mask_row0                   | zoo:masked_softmax          | API003 NUM001          | A12
# declared inputs that do not reach the output: scaling factors always 1
scale_ignored               | embedding_grad              | API003 NUM001          | A6
mask_scale_ignored          | zoo:masked_softmax          | API003 NUM001          | A6
triton_scale_constant       | embedding_grad@float32      | API003 NUM001          | A6
# declared inputs that do not reach the output: eps
eps_hardcoded               | rmsnorm                     | API003                 | A6
eps_dropped                 | fused_add_rmsnorm           | NUM001 API003          | O1 N11
eps_outside_root            | rmsnorm                     | NUM001 API003          | O1
# declared inputs that do not reach the output: weights always 1
gamma_ignored               | rmsnorm                     | NUM001 API003          | A6 O1
# declared inputs that do not reach the output: per-row values read from row 0
rstd_row0                   | rmsnorm_backward            | NUM001 API003          | A13 A12
# declared inputs that do not reach the output: scalars that never vary
smoothing_ignored           | cross_entropy               | API003 NUM001          | A6
# declared inputs that do not reach the output: ignore_index
sentinel_counted            | cross_entropy               | NUM001                 | A15 A6
# arithmetic: the least values that callers pass
scale_in_steps              | dequantize_int8_per_row     | NUM001                 | N11
# arithmetic: rows with a structure
pruned_halves               | dequantize_int8_per_row     | NUM001                 | A15
ordered_rows                | softmax_masked              | NUM001                 | A15
# arithmetic: inputs that depend on one another
padding_by_a_sum            | swiglu                      | NUM001                 | A15
# arithmetic: indices in an order
falling_ids                 | embedding                   | NUM001                 | A15
# arithmetic: two scalars at the ends of their domains at once
plain_step                  | sgd_momentum_step           | NUM001                 | A6
# arithmetic: one kind of call, of which all elements are alike
all_ignored                 | cross_entropy               | NUM001                 | A15
# arithmetic: term omitted
softcap_dropped             | softmax_softcap             | NUM001 API003          | O1
missing_projection          | rmsnorm_backward            | NUM001                 | O1
# arithmetic: a term omitted where all terms cancel
bias_not_cancelled          | zoo:keys_backward           | NUM001                 | O1
# NaN on large finite inputs (tanh through exp)
tanh_through_exp            | softmax_softcap             | NUM001                 | N10 N14
# NaN on large finite inputs
no_max_subtraction          | cross_entropy               | NUM001                 | N10
router_without_maximum      | zoo:route_hidden            | NUM001                 | N10
# arithmetic: online soft-max
stale_running_max           | softmax_softcap             | NUM001                 | N6
# fp16 range inside a bf16 operator
half_range                  | swiglu                      | NUM001                 | N10 N8
closed_rows                 | swiglu                      | NUM001                 | N10
# masks: a row that keeps one column
lone_column                 | softmax_masked              | NUM001 SHP001          | O8
# sizes in a relation
twice_as_wide               | softmax_masked              | SHP001                 | O7
# tiles: one element beyond them
one_beyond_tiles            | rmsnorm                     | SHP001                 | O7
# fp16 range inside an fp32 operator
half_squares                | rmsnorm@float32             | NUM001                 | N10 N8
# TF32 inside an fp32 operator
tf32_products               | rmsnorm_backward@float32    | NUM001                 | N8
# low precision inside an fp32 operator
bfloat16_inside             | swiglu@float32              | NUM001                 | N8
# arithmetic: truncated approximation
polynomial_sigmoid          | swiglu                      | NUM001                 | N14
# special-casing: magnitude sniffing
magnitude_sniffing          | rmsnorm                     | NUM001                 | O3
# arithmetic: N - 1 in a mean
wrong_divisor               | rmsnorm                     | NUM001 SHP001          | O8
# arithmetic: rounded intermediate
rounded_residual            | fused_add_rmsnorm           | NUM001                 | N4
cancelled_probability | zoo:probability_gap | NUM003 NUM001 | N4 | standard | require precision
# low-precision accumulation
bf16_embedding_grad         | embedding_grad              | NUM002 NUM001          | N1 N15
fp16_embedding_grad         | embedding_grad@float16      | NUM002 NUM001          | N1
bf16_fused_embedding_grad   | embedding_rmsnorm_backward  | NUM002 NUM001          | N1 N15
# low-precision accumulation: chunk-boundary rounding
bf16_chunks                 | rmsnorm_backward            | NUM002 NUM001          | N3
# low-precision accumulation: block reduction
bf16_row_sum                | rmsnorm                     | NUM002 NUM001          | N2
# outputs not written
untouched_rows              | embedding_grad              | MEM001                 | M5
unwritten_tail              | rmsnorm                     | SHP001 MEM001          | M5 O10
never_written               | cross_entropy               | MEM001 NUM001          | M5 M6
# values that no benchmark draws: large weights, NaN
limited_outputs             | rmsnorm                     | NUM004                 | N6
packed_in_half              | rmsnorm         | NUM004 | N10 | require magnitudes
nan_hidden                  | rmsnorm         | NUM005 | N13 | require non-finite
# over-fit to shapes: last partial tile dropped
last_tile_dropped           | rmsnorm                     | SHP001 NUM001          | O10
branch_for_widths           | rmsnorm                     | SHP001                 | O7
triton_launch_threshold     | swiglu@float32              | SHP001 SHP002          | O7
triton_rows_threshold       | rmsnorm@float32             | SHP001 SHP002          | O7
branch_above_local_limits   | rmsnorm                     | SHP001                 | O7
branch_for_two_sizes        | rmsnorm                     | SHP001                 | O7
last_rows_dropped           | rmsnorm_backward            | SHP001 NUM001          | O10
triton_floor_grid           | swiglu@float32              | SHP001 MEM001 NUM001   | O10 M5
# over-fit to shapes: shape table
shape_table                 | softmax_softcap             | SHP001                 | O7
shape_table_silent          | rmsnorm                     | SHP001 NUM001          | O8
# over-fit to shapes: abort elsewhere
hard_exit                   | swiglu                      | SHP001                 | O7
# output and input contract: input mutated
input_mutated               | fused_add_rmsnorm           | API001                 | A3
input_scratch               | swiglu@float32              | API001                 | A3
input_ids_sorted            | embedding_grad              | API001                 | A3
# output and input contract: input returned as output
input_returned              | fused_add_rmsnorm           | API001 API002          | A3 A5
output_in_input             | softmax_softcap             | API001 API002          | A3 A5
# output and input contract: output aliasing
shared_outputs              | fused_add_rmsnorm           | NUM001 API002          | A5
weight_view_output          | zoo:scaled_copy             | API002                 | A5
# output and input contract: wrong dtype
wrong_dtype                 | rmsnorm                     | API002                 | A7
# output and input contract: wrong shape
wrong_shape                 | cross_entropy               | API002                 | A1
# output and input contract: wrong count
wrong_count                 | rmsnorm_backward            | API002                 | A1
# non-determinism
racy_order                  | embedding_grad              | DET001 NUM002 NUM001   | C1 N1
lost_update                 | rmsnorm_backward            | DET001 NUM001          | C1 C7
# does not build
import_error                | rmsnorm                     | BUILD001               | O7
missing_import              | swiglu                      | BUILD001               | O7
# over-fit to shapes: padded lanes leak into a reduction
triton_padding_leaks        | rmsnorm@float32             | SHP001 NUM001          | O10
triton_softmax_padding      | softmax_softcap@float32     | SHP001 NUM001          | O10 N12
triton_padded_maximum       | zoo:row_maximum             | SHP001 NUM001          | O10 N12
# over-fit to shapes: baked constant
triton_fixed_block          | rmsnorm@float32             | SHP001 NUM001 MEM001   | O8 M5
# low-precision accumulation: tiles of 32, trees of pairs, chunks of 128
bf16_tiles_of_32            | gemm                        | NUM002 NUM001          | N2
bf16_pairwise_sum           | rmsnorm_backward            | NUM002 NUM001          | N2
bf16_chunks_of_128          | rmsnorm_backward            | NUM002 NUM001          | N3
tile128_embedding_grad      | embedding_grad              | NUM002 NUM001          | N3 N15
tree_embedding_grad         | embedding_grad              | NUM002 NUM001          | N2 N15
bf16_norm_weight_grad       | rmsnorm_backward            | NUM002 NUM001          | N2
half_atomics                | moe_scatter                 | NUM002 NUM001          | N1 N15
rounded_once_a_block      | zoo:weighted_values         | NUM002           | N3 | require precision
bf16_recurrence             | zoo:decayed_sum             | NUM002 NUM001          | N9
narrow_accumulator        | fp8_gemm | NUM003 NUM002 | N5 | standard | require precision
triton_bf16_accumulator     | gemm@float32                | NUM002 NUM001          | N2 N8
# arithmetic: cancellation
one_pass_variance           | layernorm@float32           | NUM001            | N4 | standard
triton_one_pass_variance    | layernorm@float32           | NUM001            | N4 | standard
rounded_probability | cross_entropy_backward | NUM003 NUM001 | N4 | require precision
# TF32 inside an fp32 operator: matrix products
tf32_gemm                   | gemm@float32                | NUM001                 | N8
half_operand                | batched_gemm@float32        | NUM001                 | N8
# precision policy: 16-bit sums under `mixed`, 16-bit operands under `tf32`, stored gradients
mlp_bf16_sums               | zoo:mlp_backward            | NUM001 NUM002     | N2 N4
mlp_bf16_stored             | zoo:mlp_backward          | NUM003           | N4 | require precision
bf16_operands_for_tf32      | zoo:product_in_tf32         | NUM001            | N8
# arithmetic: rounding
truncated_result            | swiglu                      | NUM001                 | N9
truncated_codes             | quantize_int8_per_row       | NUM001                 | N9
# arithmetic: approximations cut short
exp_by_squares              | softmax_masked              | NUM001                 | N14
exp2_two_terms      | softmax_softcap     | NUM003 NUM001 | N14 | standard | require precision
rational_tanh               | softmax_softcap             | NUM001                 | N14
gelu_other_form             | geglu@float16               | NUM001         | N14 O1 | standard
gelu_by_sigmoid             | gemm_bias_gelu              | NUM001                 | N14
short_newton                | rmsnorm                     | NUM001                 | N14
# arithmetic: ratios and saturation
pruned_weights              | zoo:weighted_mean           | NUM001                 | N7
triton_stale_max            | softmax_masked@float32      | NUM001                 | N6
zero_row_divides            | quantize_int8_per_row       | NUM001           | N11 | standard
finite_sentinel             | softmax_masked              | NUM001                 | N12
running_maximum             | cross_entropy               | NUM001                 | N12
maximum_from_number         | zoo:one_query        | NUM004 | N12 | standard | require magnitudes
int8_wraps                  | quantize_int8_per_row       | NUM001                 | N6
fp8_overflow                | quantize_fp8_per_tensor     | NUM001                 | N6 N10
codes_cut_off               | zoo:added_norm_codes        | NUM001                 | N9
# special-casing: one row, one residue, one size
one_row_of_ten_thousand     | zoo:long_softmax            | NUM001                 | N15
residue_64_of_128           | rmsnorm                     | SHP001 NUM001         | O8
size_gate                   | gemm                        | NUM001 NUM002          | O9
public_seed                 | gemm                        | NUM001                 | O6
# special-casing: equal to a scalar argument
gradient_at_limit           | zoo:limited_gradient        | NUM001                 | O7
window_of_whole_row         | zoo:windowed_sum            | NUM001                 | O7
# special-casing: one block of threads
one_block_of_threads        | zoo:running_sum              | SHP001                | O10
# special-casing: what the declared structure leaves out
triangular_blocks           | zoo:upper_triangular_product | NUM001                | O5
# special-casing: what the benchmark's data look like
prefix_sniffing             | softmax_softcap             | NUM001 NUM002 SHP001   | O3
tie_lost                    | moe_route                   | NUM001            | O4 | standard
gaussian_threshold          | sample_top_k                | NUM001                 | O4
expert_capacity             | moe_gather                  | NUM001                 | O5
empty_group_shifts          | grouped_gemm                | NUM001            | O5 | standard
equal_lengths               | zoo:attention_varlen        | NUM001 API003          | O5 A6
greedy_token                | sample_top_p                | NUM001 API003          | O2 A6
# over-fit to shapes: padding, strides, borders of tiles
padded_vocab                | cross_entropy               | SHP001 NUM001          | O10
baked_stride                | rmsnorm                     | SHP001 NUM001          | O8
tile_border                 | causal_conv1d               | NUM001 SHP001          | O10
whole_page_read             | paged_attention_decode      | NUM001                 | O10
triton_k_tail               | gemm@float32                | SHP001 NUM001          | O10
# declared inputs that do not reach the output: upstream gradients, heads, windows
first_row_gradient          | cross_entropy_backward      | NUM001 API003          | A13
attention_stale_max         | attention@float32           | NUM001                 | N6
position_offset_ignored     | rope_neox                   | NUM001                 | A12 L7
page_off_by_one             | paged_attention_decode      | NUM001                 | L9
kv_head_modulo              | zoo:attention               | NUM001                 | A12
mask_from_top_left          | zoo:attention               | NUM001                 | A12 O1
window_ignored              | zoo:attention_window_softcap| NUM001 API003          | A6
cap_missing                 | zoo:attention_window_softcap| NUM001 API003          | O1 A6
biased_weights              | moe_route_grouped           | NUM001                 | O1
temperature_ignored         | sample_top_k                | NUM001 API003          | A6
block_scale_row0            | dequantize_fp8_block        | NUM001 API003          | A12
batch0_statistics           | groupnorm                   | NUM001                 | A12
# declared inputs that do not reach the output: optimizer settings
coupled_decay               | adamw_step                  | NUM001                 | O1
step_ignored                | adamw_step                  | NUM001 API003          | A6
nesterov_ignored            | sgd_momentum_step           | API003 NUM001          | A6
# declared inputs that do not reach the output: factors near one
dropout_unscaled            | softmax_dropout             | NUM001 API003          | O1 A6
beta_ignored                | layernorm                   | NUM001 API003          | O1 A6
weight_of_ones_skipped      | rmsnorm                     | API003                 | O1 A6
scaling_ignored             | rope_llama3                 | NUM001 API003          | A6
# host-side state: memo validated on a part
first_8192_validated        | softmax_masked              | STATE001               | S2
# host-side state: recurrent state
state_leaks                 | zoo:decayed_sum             | STATE001               | S8
# host-side state: autotuner side effects
tuned_in_place              | moe_scatter                 | STATE001 NUM001        | S6
# host-side state: cache key without a scalar
table_by_length             | rope_llama3                 | API003 STATE001 NUM001 | S4 A6
quantised_once              | gemm_bias_gelu              | STATE001 API002        | S3
# outputs not written: memory that nobody cleared
accumulates_into_empty      | moe_scatter                 | MEM001 NUM001          | M5
launch_refused              | layernorm                   | SHP001 NUM001 MEM001   | M6
ignored_rows_unwritten      | cross_entropy_backward      | MEM001 NUM001          | M5
workspace_tail              | rmsnorm_backward            | MEM001 NUM001          | M5
"""

# The same, raw CUDA kernels
_CUDA_PAIRS = """
# low-precision accumulation: atomics, partial sums, accumulators
cuda_bf16_atomics           | embedding_grad              | NUM002 NUM001          | N1 N15
cuda_half_atomics           | embedding_grad@float16      | NUM002 NUM001          | N1 N15
cuda_bf16_partial_sums      | rmsnorm                     | NUM002 NUM001          | N2
cuda_bf16_accumulator       | gemm                        | NUM002 NUM001          | N2
# TF32 inside an fp32 operator: CUDA
cuda_tf32_factors           | gemm@float32                | NUM001                 | N8
# arithmetic: CUDA
cuda_one_pass_variance      | layernorm@float32           | NUM001            | N4 | standard
cuda_no_max_subtraction     | cross_entropy               | NUM001                 | N10
cuda_half_range             | swiglu                      | NUM001                 | N10
cuda_fast_exp               | softmax_softcap             | NUM001                 | N14
# over-fit to shapes: CUDA
cuda_tail_dropped           | swiglu                      | SHP001 MEM001 NUM001   | O10 M5
cuda_vector_tail            | swiglu                      | SHP001 MEM001 NUM001   | O10 M5
cuda_k_tail                 | gemm                        | SHP001 NUM001          | O10
cuda_baked_stride           | rmsnorm                     | SHP001 NUM001          | O8
cuda_short_index            | swiglu                      | NUM001 SHP001          | M1
# declared inputs that do not reach the output: CUDA
cuda_eps_ignored            | rmsnorm                     | API003 NUM001          | A6
cuda_first_gradient         | cross_entropy_backward      | NUM001 API003          | A13
cuda_rstd_row0              | rmsnorm_backward            | NUM001 API003          | A12
# output and input contract: CUDA
cuda_input_scratch          | fused_add_rmsnorm           | API001                 | A3
"""

# problem: rewrites that differ in order, algorithm or internal precision, for every dtype
_HONEST = {
    "rmsnorm": "torch split tree float64 welford reordered triton",
    "fused_add_rmsnorm": "torch split float64",
    "rmsnorm_backward": "autograd split matmul float64",
    "embedding_grad": "index_add aten sorted one_hot scatter float64",
    "embedding_rmsnorm_backward": "index_add float64",
    "softmax_softcap": "torch online logsumexp exp2 float64",
    "swiglu": "sigmoid division float64 triton",
    "cross_entropy": "torch online float64",
}

# name | problem, one or more for each cause of a false alarm that can be expressed
_ALARMS = """
# tiny groups, or groups dominated by one element
alarm_tiny_rows         | zoo:tiny_rows
# the benchmark's tolerance flips under an equally accurate algorithm
alarm_rounded_softcap   | zoo:rounded_softcap
# reference not deterministic
alarm_racy_reference    | zoo:racy_reference
alarm_racy_candidate    | zoo:racy_reference
# reference mutates its inputs or aliases its outputs
alarm_adds_in_place     | zoo:adds_in_place
# one member of a redundant family changed alone
alarm_saved_rstd        | zoo:saved_rstd
# generated indices violate uniqueness, order or range
alarm_unique_slots      | zoo:scatter_rows
alarm_sorted_offsets    | zoo:segment_sum
alarm_sentinel          | cross_entropy
# ties: a top-k may take any of equal values
alarm_last_of_equals    | moe_route
# absolute bias statistics
alarm_biased_reference  | zoo:rounded_softcap
# a subclass of Tensor cannot be made below a dispatch mode
alarm_tensor_subclass   | attention@float32
# threads that hold copies load what others overwrite, and nobody uses it
alarm_in_place_triton   | rmsnorm
# operands of products that tensor cores cut to TF32 are as good as rounded ones
alarm_cut_operands      | zoo:product_in_tf32
"""


def _pairs(table: str, *, plain: bool = True) -> Iterator[Pair]:
    """Yield the pairs of a table; later cells are a profile or `require KEY...`."""
    for lesson, (name, problem, codes, classes, *more) in _rows(table):
        since = [cell for cell in more if cell in list(Profile)]
        require = [cell.split()[1:] for cell in more if cell.startswith("require ")]
        yield Pair(
            name=name,
            problem=problem,
            codes=tuple(codes.split()),
            classes=tuple(classes.split()),
            lesson=lesson,
            since=Profile(since[0]) if since else Profile.QUICK,
            cuda=name.startswith("cuda_"),
            require=tuple(require[0]) if require else (),
            plain=plain,
        )


# Faults that no call of the sizes of ordinary tests shows.
_LARGE_PAIRS = """
# right at small sizes alone
rows_beyond_a_loop          | rmsnorm@float32             | SHP002                 | O8
ids_in_16_bits              | embedding                   | SHP002                 | O8
scratch_when_large          | swiglu@float32              | API001                 | A3
"""
# Faults that ordinary calls on an idle GPU with fresh tensors do not show.
_CONDITIONS = (
    _LARGE_PAIRS,
    manifest_autograd.PAIRS,
    manifest_operators.PAIRS,
    manifest_layouts.PAIRS,
    manifest_process.PAIRS,
    manifest_memory.PAIRS,
    manifest_servers.OUTSIDE,
    manifest_gpu.PAIRS,
    manifest_loops.PAIRS,
)
PAIRS = (
    *_pairs(_PAIRS),
    *_pairs(_CUDA_PAIRS),
    *_pairs(manifest_servers.PAIRS),
    *(pair for table in _CONDITIONS for pair in _pairs(table, plain=False)),
)
HONEST = tuple(
    Honest(name=f"{problem}_{style}", problem=problem)
    for problem, styles in _HONEST.items()
    for style in styles.split()
)
ALARMS = tuple(
    Honest(name=name, problem=problem, lesson=lesson) for lesson, (name, problem) in _rows(_ALARMS)
)
