"""Planted faults of sm_90: phases, bytes, parities, refills, proxies, clusters that end too early."""

from __future__ import annotations

from ptxsan_corpus.case import Fault, Tile
from ptxsan_corpus.cuda_tensors import PRODUCTS, RELEASE
from ptxsan_corpus.faults_memory import BOUNDS

PHASE, FLIGHT, OBJECT = "mbarrier deadlock", "asynchronous copy", "mbarrier misuse"
PROXY, CLUSTER, SHAPE = "missing proxy fence", "cluster", "bulk copy shape"
RACE, SYNC, MEM = "racecheck", "synccheck", "memcheck"
BARRIER = "__syncthreads();"

FAULTS = (
    # phases that never complete
    Fault(name="mbarrier_one_arrival_short", kind=PHASE, twin="mbarrier_phases", old="bar_init(&bar, 64)", new="bar_init(&bar, 65)", sanitizer=SYNC),
    Fault(name="bulk_expects_too_much", kind=PHASE, twin="bulk_double_buffer", old="bar_expect(full + (i & 1), 512)", new="bar_expect(full + (i & 1), 528)", sanitizer=SYNC),
    Fault(name="bulk_expects_too_little", kind=PHASE, twin="bulk_double_buffer", old="bar_expect(full + (i & 1), 512)", new="bar_expect(full + (i & 1), 256)", sanitizer=SYNC),
    Fault(name="bulk_rearmed_by_nobody", kind=PHASE, twin="bulk_double_buffer", old="bar_expect(full + (i & 1), 512);", new="", sanitizer=SYNC),
    Fault(name="pipeline_empty_never_signalled", kind=PHASE, twin="warp_specialised_pipeline", old="bar_arrive(empty + stage);", new="if (t) bar_arrive(empty + stage);", sanitizer=SYNC),
    Fault(name="pipeline_empty_parity_wrong", kind=PHASE, twin="warp_specialised_pipeline", old="phase ^ 1", new="phase", sanitizer=SYNC),
    Fault(name="remote_arrival_at_itself", kind=PHASE, twin="cluster_ring_remote_arrive", old="remote(&bar, next)", new="remote(&bar, rank & 1)", sanitizer=SYNC),
    Fault(name="cp_async_arrivals_counted_twice", kind=PHASE, twin="cp_async_arrives_at_mbarrier", old="bar_init(&bar, 64)", new="bar_init(&bar, 128)", sanitizer=SYNC),
    # bytes that are touched while a copy is under way
    Fault(name="mbarrier_parity_wrong", kind=FLIGHT, twin="mbarrier_phases", old="bar_wait(&bar, 1)", new="bar_wait(&bar, 0)", sanitizer=RACE),
    Fault(name="mbarrier_reuse_not_waited_for", kind=FLIGHT, twin="mbarrier_phases", old="bar_wait(&bar, 1);", new="", sanitizer=RACE),
    Fault(name="library_barrier_not_waited_for", kind=FLIGHT, twin="cuda_barrier_memcpy_async", old="bar.wait(std::move(token));", new="", sanitizer=RACE),
    Fault(name="bulk_parity_stuck", kind=FLIGHT, twin="bulk_double_buffer", old="(i >> 1) & 1", new="0", sanitizer=RACE),
    Fault(name="bulk_read_before_wait", kind=FLIGHT, twin="bulk_double_buffer", old="bar_wait(full + (i & 1), (i >> 1) & 1);", new="if (t) bar_wait(full + (i & 1), (i >> 1) & 1);", sanitizer=RACE),
    Fault(name="bulk_refill_without_barrier", kind=PHASE, twin="bulk_double_buffer", old=BARRIER, new="", nth=2, sanitizer=RACE),
    Fault(name="pipeline_refill_without_wait", kind=FLIGHT, twin="warp_specialised_pipeline", old="bar_wait(empty + stage, phase ^ 1);", new="", sanitizer=RACE),
    Fault(name="pipeline_waits_for_next_stage", kind=FLIGHT, twin="warp_specialised_pipeline", old="a += s[stage][t];", new="a += s[(stage + 1) % 3][t];", sanitizer=RACE),
    Fault(name="pipeline_released_before_last_read", kind=FLIGHT, twin="warp_specialised_pipeline", old="b += s[stage][127 - t];\n        bar_arrive(empty + stage);", new="bar_arrive(empty + stage);\n        b += s[stage][127 - t];", sanitizer=RACE),
    Fault(name="bulk_store_source_overwritten", kind=FLIGHT, twin="bulk_stores_two_buffers", old="bulk_wait_read<1>();", new="bulk_wait_read<2>();", sanitizer=RACE),
    Fault(name="bulk_store_before_barrier", kind=FLIGHT, twin="bulk_stores_two_buffers", old="proxy_fence();\n        __syncthreads();", new="proxy_fence();", sanitizer=RACE),
    Fault(name="bulk_store_never_committed", kind=FLIGHT, twin="bulk_stores_two_buffers", old="bulk_commit();", new="", sanitizer=RACE),
    Fault(name="cp_async_waits_for_wrong_phase", kind=FLIGHT, twin="cp_async_arrives_at_mbarrier", old="bar_wait(&bar, 0)", new="bar_wait(&bar, 1)", sanitizer=RACE),
    Fault(name="across_not_waited_for", kind=FLIGHT, twin="cluster_bulk_copy_across", old="bar_wait(&bar, 0);", new="", sanitizer=RACE),
    # misuse of the object
    Fault(name="mbarrier_used_before_init", kind=OBJECT, twin="mbarrier_phases", old="if (t == 0) bar_init(&bar, 64);\n    __syncthreads();", new="if (t == 63) bar_init(&bar, 64);", sanitizer=SYNC),
    Fault(name="mbarrier_invalidated_too_early", kind=OBJECT, twin="mbarrier_phases", old="y[t] = v;", new="y[t] = v; if (t == 0) bar_inval(&bar); bar_arrive(&bar);", sanitizer=SYNC),
    Fault(name="mbarrier_in_tile", kind=OBJECT, twin="bulk_double_buffer", old="sum += s[i & 1][127 - t];", new="sum += s[i & 1][127 - t]; if (i == 4 && t == 0) full[1] = 0;", sanitizer=SYNC),
    Fault(name="mbarrier_arrivals_beyond_count", kind=OBJECT, twin="mbarrier_phases", old="u64 state = bar_arrive(&bar);", new='u64 state = bar_arrive(&bar); if (i == 2 && t == 63) asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0], 70;" :: "r"(at(&bar)) : "memory");', sanitizer=SYNC),
    # the asynchronous proxy
    Fault(name="bulk_store_without_proxy_fence", kind=PROXY, twin="bulk_stores_two_buffers", old="proxy_fence();", new=""),
    Fault(name="bulk_reduce_fence_before_write", kind=PROXY, twin="bulk_reduce_add", old="s[t] = x[blockIdx.x * 64 + t];\n    proxy_fence();", new="proxy_fence();\n    s[t] = x[blockIdx.x * 64 + t];"),
    Fault(name="across_without_proxy_fence", kind=PROXY, twin="cluster_bulk_copy_across", old="proxy_fence();", new=""),
    # clusters
    Fault(name="cluster_part_read_early", kind=CLUSTER, twin="cluster_sum", old="cluster_sync();", new="__syncthreads();", nth=1, sanitizer=RACE),
    Fault(name="cluster_ends_before_it_is_read", kind=CLUSTER, twin="cluster_sum", old="cluster_sync();", new="", nth=2, sanitizer=MEM),
    Fault(name="cluster_rank_too_large", kind=CLUSTER, twin="cluster_sum", old="remote_load(&part, t)", new="remote_load(&part, t + 1)", sanitizer=MEM),
    Fault(name="cluster_bins_cleared_late", kind=CLUSTER, twin="cluster_histogram", old="cluster_sync();", new="__syncthreads();", nth=1, sanitizer=RACE),
    Fault(name="cluster_bins_read_early", kind=CLUSTER, twin="cluster_histogram", old="cluster_sync();", new="__syncthreads();", nth=2, sanitizer=RACE),
    Fault(name="cluster_bin_past_the_end", kind=CLUSTER, twin="cluster_histogram", old="bins + (b & 31)", new="bins + (b & 63)", sanitizer=MEM),
    Fault(name="ring_barrier_not_ready", kind=CLUSTER, twin="cluster_ring_remote_arrive", old="cluster_sync();", new="__syncthreads();", nth=1, sanitizer=RACE),
    Fault(name="across_into_unready_block", kind=CLUSTER, twin="cluster_bulk_copy_across", old="cluster_sync();", new="__syncthreads();", nth=1, sanitizer=RACE),
    # shapes
    Fault(name="bulk_size_not_a_multiple", kind=SHAPE, twin="bulk_double_buffer", old="x + 128 * i, 512, full + i", new="x + 128 * i, 508, full + i", sanitizer=MEM),
    Fault(name="bulk_source_misaligned", kind=SHAPE, twin="bulk_double_buffer", old="x + 128 * i, 512, full + i", new="x + 128 * i + 1, 512, full + i", sanitizer=MEM),
    # tiles
    Fault(name="tile_expects_the_valid_part_only", kind=PHASE, twin="tile_transpose_swizzled", old="bar_expect(&bar, sizeof(s));", new="bar_expect(&bar, sizeof(s) - 128 * (blockIdx.y ? 24 : 0));", sanitizer=SYNC),
    Fault(name="tile_read_before_wait", kind=FLIGHT, twin="tile_transpose_swizzled", old="bar_wait(&bar, 0);", new="", sanitizer=RACE),
    Fault(name="tile_store_without_proxy_fence", kind=PROXY, twin="tile_transpose_swizzled", old="proxy_fence();", new=""),
    Fault(name="tile_stored_before_it_is_whole", kind=FLIGHT, twin="tile_transpose_swizzled", old="proxy_fence();\n    __syncthreads();", new="proxy_fence();", sanitizer=RACE),
    Fault(name="tile_stored_by_two_warps", kind=FLIGHT, twin="tile_transpose_swizzled", old="if (t == 0) {\n        tile_store", new="if (t % 32 == 0) {\n        tile_store"),
    Fault(name="tile_misaligned_in_shared", kind=SHAPE, twin="tile_transpose_swizzled", old="tile_store(&out, y, x, r);", new="tile_store(&out, y, x, r + 4);", sanitizer=MEM),
    Fault(name="tile_added_at_a_negative_coordinate", kind=SHAPE, twin="tile_halo_3d_reduce", old='"l"(&out), "r"(0), "r"(0)', new='"l"(&out), "r"(-4), "r"(0)'),
    Fault(name="tile_map_of_other_rank", kind=SHAPE, twin="tile_halo_3d_reduce", changes={"arguments": (Tile(buffer="x", element="s32", sizes=(8, 12), strides=(32,), box=(8, 8)), Tile(buffer="y", element="s32", sizes=(8, 4, 3), strides=(32, 128), box=(8, 4, 2)))}, sanitizer=MEM),
    Fault(name="tile_map_larger_than_its_buffer", kind=BOUNDS, twin="tile_halo_3d_reduce", changes={"arguments": tuple(Tile(buffer=name, element="s32", sizes=(8, 4, 4), strides=(32, 128), box=(8, 4, 2)) for name in ("x", "y"))}, sanitizer=MEM),
    Fault(name="matmul_stage_released_before_products", kind=FLIGHT, twin="tile_matmul_wgmma_specialised", old=f"{PRODUCTS}\n        {RELEASE}", new=f"{RELEASE}\n        {PRODUCTS}", sanitizer=RACE),
    Fault(name="matmul_full_parity_wrong", kind=FLIGHT, twin="tile_matmul_wgmma_specialised", old="bar_wait(full + (i & 1), i >> 1 & 1);", new="bar_wait(full + (i & 1), (i >> 1 & 1) ^ 1);", sanitizer=RACE),
    Fault(name="matmul_second_tile_not_expected", kind=FLIGHT, twin="tile_matmul_wgmma_specialised", old="bar_expect(full + (i & 1), 16384);", new="bar_expect(full + (i & 1), 8192);", sanitizer=SYNC),
    Fault(name="matmul_empty_counts_one_warp", kind=PHASE, twin="tile_matmul_wgmma_specialised", old="bar_init(empty + i, 128);", new="bar_init(empty + i, 32);", sanitizer=SYNC),
    Fault(name="multicast_before_cluster_is_ready", kind=CLUSTER, twin="tile_multicast_to_cluster", old="cluster_sync();", new="__syncthreads();", nth=1, sanitizer=RACE),
    Fault(name="multicast_to_one_block_only", kind=PHASE, twin="tile_multicast_to_cluster", old="&bar, 3);", new="&bar, 1 << rank);", sanitizer=SYNC),
    Fault(name="multicast_beyond_the_cluster", kind=SHAPE, twin="tile_multicast_to_cluster", old="&bar, 3);", new="&bar, 7);", sanitizer=MEM),
)  # fmt: skip
