"""Planted faults of order: races of every reach, fences, barriers that not everybody reaches."""

from __future__ import annotations

from ptxsan_corpus.case import Fault, i32

SHARED, GLOBAL, WARP = "race in shared memory", "race in global memory", "race within a warp"
FENCE, DIVERGENCE, DEADLOCK = "missing fence", "barrier divergence", "deadlock"
RACE, SYNC = "racecheck", "synccheck"
BARRIER = "__syncthreads();"

FAULTS = (
    # shared memory, across warps
    Fault(name="tree_first_barrier_dropped", kind=SHARED, twin="tree_reduction", old=BARRIER, new="", nth=1, sanitizer=RACE),
    Fault(name="tree_loop_barrier_dropped", kind=SHARED, twin="tree_reduction", old=BARRIER, new="", nth=2, sanitizer=RACE),
    Fault(name="tile_used_before_barrier", kind=SHARED, twin="matmul_tiled_float32_40x33x50", old=BARRIER, new="", nth=1, sanitizer=RACE),
    Fault(name="tile_overwritten_early", kind=SHARED, twin="matmul_tiled_float32_40x33x50", old=BARRIER, new="", nth=2, sanitizer=RACE),
    Fault(name="half_tile_overwritten_early", kind=SHARED, twin="matmul_tiled_float16_32x48x32", old=BARRIER, new="", nth=2, sanitizer=RACE),
    Fault(name="transpose_barrier_dropped", kind=SHARED, twin="transpose_tiles", old=BARRIER, new="", sanitizer=RACE),
    Fault(name="partial_sums_unordered", kind=SHARED, twin="rmsnorm_float32_300", old=BARRIER, new="", nth=1, sanitizer=RACE),
    Fault(name="total_read_early", kind=SHARED, twin="layernorm_float32_300", old=BARRIER, new="", nth=2, sanitizer=RACE),
    Fault(name="softmax_maximum_unordered", kind=SHARED, twin="softmax_float32_300", old=BARRIER, new="", nth=3, sanitizer=RACE),
    Fault(name="scan_barrier_dropped", kind=SHARED, twin="block_scan_hillis_steele", old=BARRIER, new="", nth=2, sanitizer=RACE),
    Fault(name="scan_single_buffer", kind=SHARED, twin="block_scan_hillis_steele", old="a[1 - now][t] =", new="a[now][t] =", sanitizer=RACE),
    Fault(name="histogram_counts_early", kind=SHARED, twin="histogram_shared_privatised", old=BARRIER, new="", nth=1, sanitizer=RACE),
    Fault(name="histogram_read_early", kind=SHARED, twin="histogram_shared_privatised", old=BARRIER, new="", nth=2, sanitizer=RACE),
    Fault(name="histogram_plain_increment", kind=SHARED, twin="histogram_shared_privatised", old="atomicAdd(local + (x[i] & 63), 1u);", new="local[x[i] & 63]++;", sanitizer=RACE),
    Fault(name="stencil_barrier_dropped", kind=SHARED, twin="stencil_with_halo", old=BARRIER, new="", sanitizer=RACE),
    Fault(name="bitonic_barrier_dropped", kind=SHARED, twin="bitonic_sort_shared", old=BARRIER, new="", nth=2, sanitizer=RACE),
    Fault(name="attention_tile_overwritten", kind=SHARED, twin="attention_online_softmax", old=BARRIER, new="", nth=2, sanitizer=RACE),
    Fault(name="pipeline_barrier_dropped", kind=SHARED, twin="cp_async_two_warps", old=BARRIER, new="", sanitizer=RACE),
    Fault(name="grouped_tile_overwritten", kind=SHARED, twin="grouped_gemm_ragged", old=BARRIER, new="", nth=2, sanitizer=RACE),
    Fault(name="early_exit_barrier_dropped", kind=SHARED, twin="early_exit_before_barrier", old=BARRIER, new="", sanitizer=RACE),
    # within a warp: lockstep is no excuse
    Fault(name="warp_tail_without_syncwarp", kind=WARP, twin="warp_tail_with_syncwarp", old="__syncwarp();", new="", sanitizer=RACE),
    Fault(name="warp_tail_one_syncwarp_short", kind=WARP, twin="warp_tail_with_syncwarp", old="__syncwarp();", new="", nth=3, sanitizer=RACE),
    Fault(name="attention_backward_syncwarp_dropped", kind=WARP, twin="attention_backward_atomics", old="__syncwarp();", new="", sanitizer=RACE),
    Fault(name="two_arrays_barrier_dropped", kind=WARP, twin="two_shared_arrays", old=BARRIER, new="", sanitizer=RACE),
    Fault(name="mma_tile_barrier_dropped", kind=WARP, twin="mma_m16n8k16_ldmatrix", old=BARRIER, new="", nth=1, sanitizer=RACE),
    Fault(name="mma_tile_overwritten_early", kind=WARP, twin="mma_m16n8k16_ldmatrix", old=BARRIER, new="", nth=2, sanitizer=RACE),
    Fault(name="wmma_tile_overwritten_early", kind=WARP, twin="wmma_through_shared", old=BARRIER, new="", nth=2, sanitizer=RACE),
    # global memory
    Fault(name="embedding_plain_add", kind=GLOBAL, twin="embedding_grad_float32_into_float32", old="atomicAdd(w + ids[t] * 64 + d, (float)g[t * 64 + d]);", new="w[ids[t] * 64 + d] += (float)g[t * 64 + d];"),
    Fault(name="sum_plain_add", kind=GLOBAL, twin="warp_then_atomic_sum", old="atomicAdd(y, s);", new="*y += s;"),
    Fault(name="scatter_collides", kind=GLOBAL, twin="scatter_permutation", old="y[to[i]]", new="y[to[i] / 2]"),
    Fault(name="rms_dw_plain_add", kind=GLOBAL, twin="rmsnorm_backward", old="atomicAdd(dw + i, g[i] * x[i] * r);", new="dw[i] += g[i] * x[i] * r;"),
    Fault(name="rows_overlap", kind=GLOBAL, twin="rmsnorm_float32_300", old="out + (long long)blockIdx.x * n", new="out + (long long)blockIdx.x * (n - 1)"),
    Fault(name="minimum_by_plain_store", kind=GLOBAL, twin="atomics_min_max_and_or_xor", old="atomicMin(y, x[i]);", new="if (x[i] < y[0]) y[0] = x[i];"),
    Fault(name="grid_barrier_dropped", kind=GLOBAL, twin="grid_barrier_by_counter", old="while (atomicAdd(count, 0u) < gridDim.x) { }", new=""),
    Fault(name="in_place_neighbour", kind=GLOBAL, twin="stencil_with_halo", changes={"arguments": ("x", "x", i32(150))}),
    Fault(name="dk_plain_add", kind=GLOBAL, twin="attention_backward_atomics", old="atomicAdd(dk + j * 16 + d, dp[j] * q[row * 16 + d]);", new="dk[j * 16 + d] += dp[j] * q[row * 16 + d];"),
    Fault(name="address_of_another_block", kind=GLOBAL, twin="shared_pointer_through_memory", old="where)[blockIdx.x]", new="where)[0]"),
    # fences
    Fault(name="last_block_without_fence", kind=FENCE, twin="last_block_sum", old="__threadfence();", new="", nth=1),
    Fault(name="split_k_without_fence", kind=FENCE, twin="split_k_last_block", old="__threadfence();", new="", nth=1),
    Fault(name="split_k_without_barrier", kind=FENCE, twin="split_k_last_block", old=BARRIER, new="", nth=1),
    Fault(name="look_back_without_fence", kind=FENCE, twin="scan_decoupled_look_back", old="__threadfence();", new="", nth=2),
    Fault(name="look_back_block_fence", kind=FENCE, twin="scan_decoupled_look_back", old="__threadfence();", new="__threadfence_block();", nth=2),
    Fault(name="grid_barrier_without_fence", kind=FENCE, twin="grid_barrier_by_counter", old="__threadfence();", new="", nth=1),
    # barriers that not everybody reaches, waits that never end
    Fault(name="barrier_in_half_a_warp", kind=DIVERGENCE, twin="two_shared_arrays", old=BARRIER, new="if (t < 16) __syncthreads();", sanitizer=SYNC),
    Fault(name="named_barrier_dropped", kind=DIVERGENCE, twin="producer_consumer_named_barriers", old='if (i >= 2) asm volatile("bar.sync %0, 64;" :: "r"(3 + (i & 1)) : "memory");', new="", sanitizer=SYNC),
    Fault(name="barrier_under_data", kind=DIVERGENCE, twin="stencil_with_halo", old=BARRIER, new="if (s[t] > 0) __syncthreads();", sanitizer=SYNC),
    Fault(name="shuffle_under_condition", kind=DIVERGENCE, twin="warp_then_atomic_sum", old="float s = warp_sum(i < n ? x[i] : 0.0f);", new="float s = 0; if (threadIdx.x & 1) s = warp_sum(x[i % n]); __syncthreads();", sanitizer=SYNC),
    Fault(name="named_barrier_wrong_count", kind=DEADLOCK, twin="producer_consumer_named_barriers", old='asm volatile("bar.sync %0, 64;" :: "r"(1 + (i & 1)) : "memory");', new='asm volatile("bar.sync %0, 96;" :: "r"(1 + (i & 1)) : "memory");', sanitizer=SYNC),
    Fault(name="look_back_waits_for_itself", kind=DEADLOCK, twin="scan_decoupled_look_back", old="atomicAdd(state + tile - 1, 0)", new="atomicAdd(state + tile, 0)"),
    Fault(name="grid_barrier_counts_too_far", kind=DEADLOCK, twin="grid_barrier_by_counter", old="< gridDim.x)", new="<= gridDim.x)"),
)  # fmt: skip
