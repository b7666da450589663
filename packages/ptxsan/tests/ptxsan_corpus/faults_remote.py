"""Planted faults of asynchronous stores, copies to several blocks and copies in im2col mode."""

from __future__ import annotations

from ptxsan.launch import Columns
from ptxsan_corpus.case import Fault, Tile
from ptxsan_corpus.faults_hopper import CLUSTER, FLIGHT, PHASE, PROXY, SHAPE
from ptxsan_corpus.faults_memory import BOUNDS

RACE, SYNC, MEM = "racecheck", "synccheck", "memcheck"
WAIT = "bar_wait(&bar, 0);"
_STARTED = "cluster_sync();"

FAULTS = (
    # asynchronous stores and reductions
    Fault(name="async_store_not_waited_for", kind=FLIGHT, twin="cluster_async_stores", old=WAIT, new="", sanitizer=RACE),
    Fault(name="async_store_one_lane_reads_early", kind=FLIGHT, twin="cluster_async_stores", old=WAIT, new="if (t) bar_wait(&bar, 0);", sanitizer=RACE),
    Fault(name="async_store_bytes_of_the_vectors_alone", kind=PHASE, twin="cluster_async_stores", old="bar_expect(&bar, 640);", new="bar_expect(&bar, 512);", sanitizer=SYNC),
    Fault(name="async_store_expects_too_much", kind=PHASE, twin="cluster_async_stores", old="bar_expect(&bar, 640);", new="bar_expect(&bar, 644);", sanitizer=SYNC),
    Fault(name="async_store_on_the_own_barrier", kind=SHAPE, twin="cluster_async_stores", old="v, remote(&bar, next)", new="v, remote(&bar, rank)", sanitizer=MEM),
    Fault(name="async_store_past_the_row", kind=BOUNDS, twin="cluster_async_stores", old="remote(row + 4 * t, next)", new="remote(row + 4 * t + 4, next)", sanitizer=MEM),
    Fault(name="async_stores_to_the_same_place", kind=FLIGHT, twin="cluster_async_stores", old="remote(halo + t, next)", new="remote(halo + t / 2, next)", sanitizer=RACE),
    Fault(name="async_store_before_the_cluster_is_ready", kind=CLUSTER, twin="cluster_async_stores", old=_STARTED, new="__syncthreads();", nth=1, sanitizer=RACE),
    Fault(name="async_reductions_not_waited_for", kind=FLIGHT, twin="cluster_async_reductions", old=WAIT, new="", sanitizer=RACE),
    Fault(name="async_reductions_counted_once", kind=FLIGHT, twin="cluster_async_reductions", old="2 * 64 * 8", new="64 * 8", sanitizer=SYNC),
    Fault(name="async_reductions_of_one_block_only", kind=PHASE, twin="cluster_async_reductions", old="to < 2; ++to", new="to < 1; ++to", sanitizer=SYNC),
    Fault(name="async_reductions_into_what_is_cleared_late", kind=CLUSTER, twin="cluster_async_reductions", old=_STARTED, new="__syncthreads();", nth=1, sanitizer=RACE),
    # one copy to several blocks
    Fault(name="bulk_multicast_mask_too_small", kind=PHASE, twin="bulk_multicast_to_cluster", old="rank < 2 ? 15 : 10", new="rank < 2 ? 15 : 2", sanitizer=SYNC),
    Fault(name="bulk_multicast_beyond_the_cluster", kind=SHAPE, twin="bulk_multicast_to_cluster", old="rank < 2 ? 15 : 10", new="rank < 2 ? 15 : 26", sanitizer=MEM),
    Fault(name="bulk_multicast_read_early", kind=FLIGHT, twin="bulk_multicast_to_cluster", old=WAIT, new="if (rank != 3) bar_wait(&bar, 0);", sanitizer=RACE),
    Fault(name="bulk_multicast_expects_its_own_part", kind=FLIGHT, twin="bulk_multicast_to_cluster", old="rank & 1 ? 1024 : 512", new="256", sanitizer=SYNC),
    Fault(name="bulk_multicast_before_the_cluster_is_ready", kind=CLUSTER, twin="bulk_multicast_to_cluster", old=_STARTED, new="__syncthreads();", nth=1, sanitizer=RACE),
    # im2col mode
    Fault(name="columns_not_waited_for", kind=FLIGHT, twin="columns_convolution_3x3", old=WAIT, new="", sanitizer=RACE),
    Fault(name="columns_one_too_few_expected", kind=FLIGHT, twin="columns_convolution_3x3", old="bar_expect(&bar, sizeof(s));", new="bar_expect(&bar, sizeof(s) - 1024);", sanitizer=SYNC),
    Fault(name="columns_valid_pixels_expected", kind=PHASE, twin="columns_convolution_3x3", old="bar_expect(&bar, sizeof(s));", new="bar_expect(&bar, sizeof(s) + 32);", sanitizer=SYNC),
    Fault(name="columns_by_a_map_of_tiles", kind=SHAPE, twin="columns_stored_and_added", changes={"arguments": (Tile(buffer="y", element="s32", sizes=(8, 7, 5, 2), strides=(32, 224, 1120), box=(8, 4, 4, 2)), "x")}, sanitizer=MEM),
    Fault(name="columns_of_more_images_than_there_are", kind=BOUNDS, twin="columns_stored_and_added", changes={"arguments": (Tile(buffer="y", element="s32", sizes=(8, 7, 5, 3), strides=(32, 224, 1120), columns=Columns(lower=(0, 2), upper=(0, -2), channels=8, pixels=32)), "x")}, sanitizer=MEM),
    Fault(name="columns_stored_without_proxy_fence", kind=PROXY, twin="columns_stored_and_added", old="proxy_fence();", new=""),
    Fault(name="columns_stored_before_they_are_whole", kind=FLIGHT, twin="columns_stored_and_added", old="proxy_fence();\n    __syncthreads();", new="proxy_fence();", sanitizer=RACE),
)  # fmt: skip
