"""Pairs about streams, graphs, races, load, devices and sizes: only on a GPU."""

# name | problem | codes | classes | first profile that can show it, or `require KEY`
PAIRS = """
# streams: the caller's stream
gpu_default_stream          | rmsnorm        | STREAM001          | A9
gpu_default_stream_only     | zoo:inverse_frequencies | STREAM001 | A9
gpu_unjoined_stream         | swiglu         | STREAM001 NUM001   | H3 A9
gpu_static_workspace        | softmax_masked | STREAM001 | S1 | standard | require streams threads
# graphs: what is frozen at capture
gpu_host_sync               | rmsnorm        | GRAPH001           | A10   | require graphs
gpu_frozen_in_graph         | swiglu         | GRAPH001           | S7    | require graphs
gpu_workspace_evicted       | rmsnorm        | GRAPH001           | S7 L8 | require graphs
# launches: errors that nobody looks at
gpu_error_ignored           | swiglu         | RUN007             | M6
# indices: 32 bits
gpu_triton_int32_offsets    | swiglu         | BIG001 RUN001      | M1 M2 | standard
cuda_int32_index            | swiglu         | BIG001 RUN001      | M1 M2 | standard
# kernels: vectors that need aligned pointers, a library that does the work
cuda_vectors_of_16_bytes    | swiglu         | KERNEL001 LAYOUT001 | M10 | require layouts
gpu_library_does_the_work   | swiglu         | KERNEL001          | H8    | require own-kernels
# devices: another than the current one
gpu2_constant_on_first_device | swiglu       | DEVICE001          | A8    | require devices
# races: shared memory
cuda_missing_barrier        | rmsnorm        | RACE001 NUM001 SHP001 DET001 STATE001 | C1
cuda_tile_reused_early      | gemm           | RACE001 NUM001 SHP001 DET001 STATE001 | C1 C2
# races: global memory
cuda_barrier_one_short      | rmsnorm        | RACE001 NUM001 SHP001 DET001 STATE001 | C3
cuda_plain_add              | embedding_grad | RACE001 NUM002 NUM001 SHP001 DET001 | C7
# barriers of the whole grid
cuda_grid_barrier           | swiglu         | RUN004             | C4
"""
