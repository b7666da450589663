"""Pairs about process-wide state, toggled attributes, integrity."""

# name | problem | codes | classes | first profile that can show it, or `require KEY`
PAIRS = """
# process-wide state: precision flags
tf32_switched_on          | gemm@float32            | PROC001 | S9 H9 | require process-state
precision_not_put_back    | batched_gemm@float32    | PROC001 | S9 H9 | require process-state
tf32_by_variable          | fp8_gemm                | PROC001 | S9 H9 | require process-state
default_dtype_left        | layernorm               | PROC001 | S9    | require process-state
# process-wide state: flags of libraries, threads
cudnn_benchmark_on        | causal_conv1d           | PROC001 | S9    | require process-state
sdp_kernels_switched_off  | attention@float32       | PROC001 | S9    | require process-state
threads_set               | swiglu                  | PROC001 | S9    | require process-state
status_read               | swiglu                  | PROC001 | H2    | require process-state
callers_read              | swiglu                  | PROC001 | H2    | require process-state
flag_left_by_refusal      | moe_scatter             | PROC001 | S9    | require process-state
# process-wide state: random numbers
seed_in_call              | softmax_dropout         | PROC001 | S9    | require process-state
global_generator_drawn    | embedding_grad          | PROC001 | S9    | require process-state
# process-wide state: working directory, signals, streams
folder_changed            | embedding               | PROC001 | S9    | require process-state
signal_handler_taken      | dequantize_int8_per_row | PROC001 | S9    | require process-state
gpu_stream_left_current   | rmsnorm                 | PROC001 | S9 A9 | require process-state
# process-wide state: what each call keeps
history_of_norms          | rmsnorm                 | PROC001 | S9    | require resources
calls_remembered         | swiglu                  | PROC001 | S9    | require resources
thread_a_call             | swiglu                  | PROC001 | S9    | require resources
circles_a_call           | embedding               | PROC001 | S9    | require resources
# host-side state: scratch that threads share
scratch_of_threads       | layernorm               | STATE001 | H3    | require threads
# host-side state: what is made for a shape and thrown away
tunes_again              | softmax_masked          | STATE001 | S8    | standard | require shapes
# host-side state: a call that waits for ever
thread_without_the_mode   | swiglu                  | STATE001 RUN004   | A11
# host-side state: how a call is made
weight_as_parameter       | rmsnorm                 | STATE001          | A11
path_for_autocast         | rmsnorm                 | STATE001          | A7
path_for_inference        | layernorm                 | STATE001          | A11
# output and input contract: input written and put back
input_put_back            | swiglu@float32          | API001 | A3     | require read-only-inputs
# output and input contract: two outputs
saved_is_output           | zoo:tanh_saved          | API002            | A5
# tampering: what measures and compares
clock_slowed              | rmsnorm                 | PROC001           | H2
synchronize_patched       | geglu                   | PROC001           | H2
allclose_patched          | cross_entropy           | PROC001           | H2
gpu_event_patched         | swiglu                  | PROC001           | H2
# host-side state: keys that lack an attribute
plan_without_strides      | swiglu_backward         | STATE001          | S4
table_of_the_last_setting | rope_llama3             | STATE001 API003   | S4
offsets_without_width     | cross_entropy_backward  | STATE001          | S4
# host-side state: workspaces that grew once
workspace_grows_once      | groupnorm_backward      | STATE001          | S8
static_batch_buffer       | linear_cross_entropy_backward@float32 | STATE001          | S8
# host-side state: a kept answer that its caller may write into
kept_answer_handed_out    | softmax_masked          | STATE001          | S1 S8
buffer_for_each_base      | zoo:inverse_frequencies | STATE001          | S1 A5
buffer_for_many_rows      | rmsnorm                 | STATE001          | S8
# host-side state: what shows after many calls
ring_of_buffers           | swiglu@float32          | STATE001          | S1 S8
ring_of_300               | swiglu                  | STATE001          | S1 S8
kept_by_fingerprint       | rmsnorm@float32         | STATE001          | S4
sums_added_to_in_place    | zoo:decayed_state_      | STATE001 DET001 MEM001 | M6 S8
static_input_found        | swiglu@float32          | STATE001 PROC001  | S7
# host-side state: tuned on the caller's memory
triton_tuned_in_place     | swiglu@float32          | STATE001          | S6
# an autotuner's other choices
triton_grid_of_one_block  | swiglu@float32          | CONFIG001         | S6
triton_tuner_adds_up      | swiglu@float32          | CONFIG001 APART001 | S6
triton_configuration_unmasked | swiglu@float32          | MEM101            | M3
# integrity: another answers
triton_falls_back         | rmsnorm@float32         | GHOST001 | H8    | require own-kernels
triton_result_unused      | swiglu@float32          | GHOST001 | H8    | require own-kernels
triton_never_launched     | layernorm@float32       | GHOST001 | H8    | require own-kernels
"""
