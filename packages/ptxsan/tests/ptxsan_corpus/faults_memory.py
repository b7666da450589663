"""Planted faults of memory: bounds, neighbours, alignment, what nobody wrote, addresses that wrap."""

from __future__ import annotations

from ptxsan_corpus.case import F32, Empty, Fault, draw, normal

BOUNDS, NEIGHBOUR, ALIGNMENT = "bounds", "neighbouring symbol", "alignment"
UNWRITTEN, OVERFLOW = "uninitialised", "address overflow"
MEM, INIT = "memcheck", "initcheck"

FAULTS = (
    # bounds, global memory
    Fault(name="saxpy_reads_one_past", kind=BOUNDS, twin="saxpy_float32", old="i < n", new="i <= n", sanitizer=MEM),
    Fault(name="saxpy_no_guard", kind=BOUNDS, twin="saxpy_float32", old="if (i < n)", new="", sanitizer=MEM),
    Fault(name="saxpy_half_no_guard", kind=BOUNDS, twin="saxpy_float16", old="if (i < n)", new="", sanitizer=MEM),
    Fault(name="scale_starts_at_step", kind=BOUNDS, twin="grid_stride_scale", old="i < n; i += step", new="i < n + 8; i += step", sanitizer=MEM),
    Fault(name="vector_tail_too_long", kind=BOUNDS, twin="float4_copy_with_tail", old="i + 3 < n", new="i < n", sanitizer=MEM),
    Fault(name="matmul_row_unguarded", kind=BOUNDS, twin="matmul_naive", old="row >= m || col >= n", new="col >= n", sanitizer=MEM),
    Fault(name="tiled_k_tail_unguarded", kind=BOUNDS, twin="matmul_tiled_float32_40x33x50", old="col < n && k0 + ty < kk ?", new="col < n ?", sanitizer=MEM),
    Fault(name="transpose_writes_past", kind=BOUNDS, twin="transpose_tiles", old="r2 + i < cols && c2 < rows", new="c2 < rows", sanitizer=MEM),
    Fault(name="gather_id_past_table", kind=BOUNDS, twin="gather_rows_int64_ids", old="ids[blockIdx.x]", new="(ids[blockIdx.x] + 11)", sanitizer=MEM),
    Fault(name="gather_negative_id", kind=BOUNDS, twin="gather_rows_int64_ids", old="ids[blockIdx.x]", new="(-1 - ids[blockIdx.x])", sanitizer=MEM),
    Fault(name="stencil_left_halo", kind=BOUNDS, twin="stencil_with_halo", old="i > 0 ? x[i - 1] : 0.0f", new="x[i - 1]", sanitizer=MEM),
    Fault(name="rows_off_by_one_row", kind=BOUNDS, twin="rmsnorm_float32_300", old="in + (long long)blockIdx.x * n", new="in + (long long)(blockIdx.x + 1) * n", sanitizer=MEM),
    Fault(name="histogram_bin_past_end", kind=BOUNDS, twin="histogram_shared_privatised", old="atomicAdd(bins + b, local[b])", new="atomicAdd(bins + b + 1, local[b])", sanitizer=MEM),
    Fault(name="embedding_tail_token", kind=BOUNDS, twin="embedding_grad_float32_into_float32", old="if (t < tokens) ", new="", sanitizer=MEM),
    Fault(name="attention_keys_tail", kind=BOUNDS, twin="attention_online_softmax", old="k0 + i < keys ? v[(k0 + i) * 32 + lane] : 0.0f", new="v[(k0 + i) * 32 + lane]", sanitizer=MEM),
    Fault(name="wmma_one_k_step_too_many", kind=BOUNDS, twin="wmma_float16_k32", old="i < kk", new="i <= kk", sanitizer=MEM),
    Fault(name="async_copy_past_end", kind=BOUNDS, twin="cp_async_double_buffer", old="next < tiles", new="next <= tiles", sanitizer=MEM),
    # bounds, shared and local memory
    Fault(name="tree_reads_past_shared", kind=BOUNDS, twin="tree_reduction", old="part[t + d]", new="part[t + d + 128]", sanitizer=MEM),
    Fault(name="dynamic_shared_too_small", kind=BOUNDS, twin="dynamic_shared_two_arrays", sanitizer=MEM, changes={"shared_bytes": 368}),
    Fault(name="scan_shared_too_far", kind=BOUNDS, twin="block_scan_hillis_steele", old="a[now][t - d] : 0.0f", new="a[now + 1][t - d] : 0.0f", sanitizer=MEM),
    Fault(name="local_index_past_end", kind=BOUNDS, twin="local_histogram_of_digits", old="counts[x[r * length + i]]", new="counts[x[r * length + i] + 4]", sanitizer=MEM),
    Fault(name="constant_index_past_end", kind=BOUNDS, twin="device_variable_and_constant", old="factors[i & 3]", new="factors[i & 7]", sanitizer=MEM),
    # from one symbol into the next
    Fault(name="overrun_into_next_shared_array", kind=NEIGHBOUR, twin="two_shared_arrays", old="a[31 - t]", new="a[32 - t]"),
    Fault(name="underrun_into_previous_array", kind=NEIGHBOUR, twin="two_shared_arrays", old="b[t ^ 1]", new="b[t - 1]"),
    Fault(name="halo_overruns_its_array", kind=NEIGHBOUR, twin="two_shared_arrays", old="a[t] = x[t];", new="a[t + 1] = x[t];"),
    Fault(name="scalar_after_part", kind=NEIGHBOUR, twin="warp_then_broadcast", old="part[lane]", new="part[lane + 2]"),
    # alignment
    Fault(name="float4_at_odd_element", kind=ALIGNMENT, twin="float4_copy_with_tail", old="(x + i);", new="(x + i + 1 - 1 * (i < 4));", sanitizer=MEM),
    Fault(name="shared_vector_misaligned", kind=ALIGNMENT, twin="two_shared_arrays", old="a[31 - t]", new="reinterpret_cast<double*>(a + 1)[t / 4]", sanitizer=MEM),
    Fault(name="mma_operand_misaligned", kind=ALIGNMENT, twin="mma_m16n8k8_half_registers", old="(b + g * 8 + 2 * q)", new="(b + g * 7 + 2 * q)", sanitizer=MEM),
    Fault(name="async_copy_misaligned", kind=ALIGNMENT, twin="cp_async_double_buffer", old="x + (blockIdx.x * tiles + p) * 128 + 4 * t, 16", new="x + (blockIdx.x * tiles + p) * 128 + 3 * t, 16", sanitizer=MEM),
    # what nobody wrote
    Fault(name="output_read_back", kind=UNWRITTEN, twin="saxpy_float32", old="= (a * x[i] + y[i])", new="+= (a * x[i] + y[i])", sanitizer=INIT),
    Fault(name="gradient_not_cleared", kind=UNWRITTEN, twin="embedding_grad_float32_into_float32", sanitizer=INIT,
          changes={"make": draw(g=normal(40 * 64), ids=lambda rng: rng.integers(0, 12, 40).astype("int32"), w=Empty(dtype=F32, size=768))}),
    Fault(name="ticket_not_cleared", kind=UNWRITTEN, twin="warp_then_atomic_sum", sanitizer=INIT, changes={"make": draw(x=normal(1000), y=Empty(dtype=F32, size=1))}),
    Fault(name="partial_of_skipped_block", kind=UNWRITTEN, twin="split_k_last_block", old="part[z * 256 + t] = s;", new="if (z != 2) part[z * 256 + t] = s;", sanitizer=INIT),
    Fault(name="tile_tail_unwritten", kind=UNWRITTEN, twin="tree_reduction", old="part[t] = i < n ? x[i] : 0.0f;", new="if (i < n) part[t] = x[i];", sanitizer=INIT),
    Fault(name="shared_never_written", kind=UNWRITTEN, twin="two_shared_arrays", old="b[t] = x[32 + t];", new="", sanitizer=INIT),
    Fault(name="halo_unwritten", kind=UNWRITTEN, twin="stencil_with_halo", old="if (threadIdx.x == 63) s[65] = i + 1 < n ? x[i + 1] : 0.0f;", new="", sanitizer=INIT),
    Fault(name="histogram_not_cleared", kind=UNWRITTEN, twin="histogram_shared_privatised", old="local[b] = 0;", new="if (b > 60) local[b] = 0;", sanitizer=INIT),
    Fault(name="local_not_cleared", kind=UNWRITTEN, twin="local_histogram_of_digits", old="d < 10; ++d) counts[d] = 0;", new="d < 9; ++d) counts[d] = 0;"),
    Fault(name="register_never_set", kind=UNWRITTEN, twin="matmul_naive", old="float s = 0;", new="float s; asm volatile(\"{ .reg .f32 u; add.f32 %0, u, u; }\" : \"=f\"(s));"),
    Fault(name="cp_async_wait_off_by_one", kind=UNWRITTEN, twin="cp_async_double_buffer", old="__pipeline_wait_prior(1);", new="__pipeline_wait_prior(2);"),
    Fault(name="cp_async_never_waited", kind=UNWRITTEN, twin="cp_async_double_buffer", old="__pipeline_wait_prior(1);", new=""),
    # addresses
    Fault(name="index_wraps_in_32_bits", kind=OVERFLOW, twin="grid_stride_scale", old="y[i] = 3.0f * x[i];", new="y[i] = 3.0f * x[(int)((unsigned)i * 1048577u) / 1048577];", sanitizer=MEM),
    Fault(name="row_offset_wraps", kind=OVERFLOW, twin="gather_rows_int64_ids", old="ids[blockIdx.x] * d", new="(int)(ids[blockIdx.x] + 1) * d * 1000000", sanitizer=MEM),
    Fault(name="short_index_wraps", kind=OVERFLOW, twin="saxpy_float32", old="y[i])", new="y[(short)(i * 40)])", sanitizer=MEM),
)  # fmt: skip
