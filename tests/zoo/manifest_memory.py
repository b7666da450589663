"""Pairs about memory: guard zones, poison, sanitizer."""

# name | problem | codes | classes | first profile that can show it, or `require KEY`
PAIRS = """
# memory: stores beyond the tensor
triton_store_unmasked      | swiglu                | MEM002        | M4
triton_vector_of_8_store   | geglu                 | MEM002        | M4
triton_row_past_end        | rmsnorm               | MEM002        | M4
triton_halo_stored         | causal_conv1d         | MEM002        | M4
triton_scales_unmasked     | quantize_int8_per_row | MEM002        | M4
triton_padding_token_row   | embedding_grad        | MEM002        | M4
vector_tail_beside_script  | rmsnorm_backward      | MEM002        | M4
# memory: loads beyond the tensor
triton_halo_times_zero     | causal_conv1d         | MEM002        | M3
triton_tail_times_zero     | softmax_softcap       | MEM002        | M3
# memory: workspaces that nobody wrote
stale_tile_maximum         | quantize_int8_per_row | MEM002        | M5
split_k_into_empty         | gemm                  | MEM002        | M5
statistics_into_empty      | groupnorm             | MEM002        | M5
moments_tail_unwritten     | adamw_step            | MEM002        | M5 M6
# memory: stale padding
stale_value_rows           | attention@float32     | MEM002        | M7 L8
# memory: what no output depends on
additive_mask              | softmax_masked        | MEM004        | M7 N12
ignored_rows_times_zero    | cross_entropy_backward | MEM004       | M7 L8 | require padding
one_hot_lookup             | embedding             | MEM004        | M7    | require padding
groups_times_zero          | grouped_gemm          | MEM004        | M7 L8 | require padding
experts_times_zero         | moe_experts           | MEM004        | M7 L8 | require padding
positions_by_product       | rope_neox@float32     | MEM004        | M7    | require padding
# memory: written after it was freed
freed_workspace            | rmsnorm_backward      | MEM002        | M8
# order: blocks that wait for others
triton_owner_goes_on       | rmsnorm@float32       | RACE101       | C2
# memory: what a kernel assumes
triton_false_assumption    | rmsnorm@float32       | SYNC101       | O10
# memory: CUDA
cuda_last_block_store      | swiglu                | MEM002        | M4
cuda_vector_store_tail     | swiglu                | MEM002        | M4
cuda_scratch_not_cleared   | rmsnorm               | MEM002        | M5
# sanitizer: what a result need not show
cuda_unused_load_past_end  | rmsnorm               | MEM003        | M3    | standard
cuda_barrier_in_branch     | rmsnorm               | MEM003        | C1    | standard
"""
