"""Pairs about gradients: autograd functions, and what torch derives by itself."""

# name | problem | codes | classes | first profile that can show it, or `require KEY`
PAIRS = """
# strides of the upstream gradient
grad_upstream_flat            | rmsnorm           | GRAD001 | A2     | require autograd
# one upstream gradient for all rows
grad_row0_of_upstream         | cross_entropy     | GRAD001 | A13
# partial sums of the rows of a large call
grad_partial_sums             | rmsnorm           | GRAD001 | A13
# saved tensors written to behind the version counter
grad_saved_then_scaled        | softmax_softcap   | GRAD001 | A4
grad_saved_input_scratch      | rmsnorm           | GRAD001 | A4
grad_upstream_scratch         | swiglu            | GRAD001 | A4     | require autograd
# subsets of inputs that require gradients
grad_statistics_unless_frozen | layernorm         | GRAD001 | A11    | require autograd
grad_frozen_weight_raises     | layernorm@float32 | GRAD001 | A11    | require autograd
# gradients of other inputs
grad_wrong_order              | geglu             | GRAD001 | A6
# recomputation in another dtype
grad_recompute_half           | swiglu@float32    | GRAD001 | L3 N8
# state between backward passes
grad_static_buffer            | fused_add_rmsnorm | GRAD001 | A5 S1  | require autograd
grad_workspace_not_cleared    | gemm              | GRAD001 | S1
grad_last_call_remembered     | gemm_bias_gelu    | GRAD001 | S1 A4  | require autograd
# a second backward pass through one call
grad_share_in_place           | swiglu            | GRAD001 | A4     | require autograd
# statistics outside the graph
grad_statistics_detached      | rmsnorm@float32   | GRAD001 | A11    | require autograd
"""
