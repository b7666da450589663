"""Which rounding errors an honest implementation may make in each ATen operation.

EXACT moves, selects or compares values. ARITHMETIC rounds operands and result once.
TRANSCENDENTAL rounds its argument as well. STEPS jump: an answer next to the jump may
legitimately fall on either side. Reductions and composite operators have models of their own
(`reductions`, `composite`); any other operation is taken as backward stable: its
floating arguments and its result are perturbed.
"""

from __future__ import annotations


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


EXACT = _names("""
    clone copy _to_copy contiguous detach lift_fresh lift alias empty empty_like empty_strided
    new_empty new_empty_strided new_zeros new_ones new_full zeros zeros_like ones ones_like full
    full_like scalar_tensor arange linspace eye tril triu tril_indices triu_indices fill fill_
    zero zero_ zeros.out cat stack repeat repeat_interleave tile flip roll rot90 expand_copy
    constant_pad_nd reflection_pad1d reflection_pad2d replication_pad1d replication_pad2d
    select_copy slice_copy slice_scatter select_scatter diagonal_scatter as_strided_scatter
    select_backward slice_backward diagonal_backward unfold_backward im2col pixel_shuffle
    pixel_unshuffle channel_shuffle gather index index_select embedding take masked_select
    masked_fill masked_scatter where scatter index_fill index_copy take_along_dim one_hot
    sort topk kthvalue median mode argsort argmax argmin max min amax amin aminmax maximum minimum
    fmax fmin cummax cummin max_pool1d max_pool2d_with_indices max_pool3d_with_indices
    adaptive_max_pool1d adaptive_max_pool2d relu leaky_relu_select threshold threshold_backward
    hardtanh hardtanh_backward relu6 clamp clamp_min clamp_max abs neg positive sign signbit
    copysign floor ceil round trunc frac frexp isnan isinf isfinite nan_to_num eq ne lt le gt ge
    logical_and logical_or logical_not logical_xor bitwise_and bitwise_or bitwise_not bitwise_xor
    nonzero unique_dim _unique2 unique_consecutive bucketize searchsorted histc bincount
    native_dropout_mask bernoulli rand randn rand_like randn_like randint randperm normal uniform
    exponential multinomial complex real imag conj _conj _conj_physical conj_physical view_as_real
    view_as_complex resolve_conj resolve_neg _local_scalar_dense item heaviside floor_divide
    convert_element_type broadcast_in_dim device_put iota
    _index_put_impl_ _reshape_copy _unsafe_view view_copy permute_copy squeeze_copy unsqueeze_copy
    transpose_copy t_copy split_copy unbind_copy ldexp glu_select
""")

ARITHMETIC = _names("""
    add sub rsub mul div sqrt square reciprocal addcmul addcdiv lerp hypot fmod remainder
    true_divide divide multiply subtract relu_backward leaky_relu leaky_relu_backward
    hardsigmoid hardswish softshrink hardshrink mse_loss_pointwise masked_scale
""")

TRANSCENDENTAL = _names("""
    exp exp2 expm1 log log2 log10 log1p rsqrt pow sin cos tan asin acos atan atan2 sinh cosh
    asinh acosh atanh erf erfc erfinv log_sigmoid_forward softplus elu selu celu mish
    logit xlogy digamma lgamma logaddexp logaddexp2 special_entr special_xlog1py sinc
    special_i0 special_i0e special_i1 special_i1e special_erfcx special_ndtr special_log_ndtr
""")

STEPS = _names("""
    topk sort argsort argmax argmin max min kthvalue median mode eq ne lt le gt ge floor ceil
    round trunc sign heaviside bucketize searchsorted nonzero unique_dim _unique2 fmod remainder
    floor_divide multinomial unique_consecutive aminmax histc signbit cummax cummin
""")
