"""Pairs about layouts, aliasing, large indices."""

# name | problem | codes | classes | first profile that can show it, or `require KEY`
PAIRS = """
# strides taken for granted
triton_flat_rmsnorm      | rmsnorm                 | LAYOUT001 | A1 M10    | require layouts
triton_flat_swiglu       | swiglu@float16          | LAYOUT001 | A1        | require layouts
triton_output_like_input | geglu                   | LAYOUT001 | A1        | require layouts
triton_weight_flat       | layernorm               | LAYOUT001 | A1        | require layouts
triton_scale_flat        | dequantize_int8_per_row | LAYOUT001 | A1        | require layouts
storage_reshaped         | rope_neox               | LAYOUT001 | A1        | require layouts
second_pass_flat         | layernorm@float32       | LAYOUT001 | A1        | require layouts
warm_path_flat           | geglu_backward          | LAYOUT001 | A1 A2     | require layouts
flat_slots               | moe_combine             | LAYOUT001 | A1        | require layouts
# strides taken for granted where an input is large
large_residual_flat      | fused_add_rmsnorm       | LAYOUT001 | A1        | require layouts
# strides taken for granted: views into a packed buffer
value_stride_of_key      | attention@float32       | LAYOUT001 | A1        | require layouts
assumes_heads_inside     | attention@float32       | LAYOUT001 | A1        | require layouts
# strides of the upstream gradient
triton_gradient_flat     | swiglu_backward         | LAYOUT001 | A2        | require layouts
triton_expanded_gradient | cross_entropy_backward  | LAYOUT001 | A2        | require layouts
# alignment of vector loads
aligned_words            | geglu                   | LAYOUT001 | M10       | require layouts
# outputs in the memory of inputs
aliased_product          | swiglu                  | LAYOUT001 | A5        | require aliasing
half_overwritten         | rope_llama3             | LAYOUT001 | A5        | require aliasing
residual_first           | fused_add_rmsnorm       | LAYOUT001 | A5        | require aliasing
# one tensor as two inputs
operands_by_address      | gemm                    | LAYOUT001 | A5        | require aliasing
# order of a sum chosen by batch size
split_by_batch           | rmsnorm@float32         | DET002    | C9        | require batch-invariant
triton_block_by_batch    | layernorm@float32       | DET002    | C9        | require batch-invariant
order_by_batch           | softmax_dropout@float32 | DET002    | C9        | require batch-invariant
"""
