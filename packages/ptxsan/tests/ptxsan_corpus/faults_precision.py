"""Planted faults of precision: low accumulators, cancellation, overflow, updates that stand still."""

from __future__ import annotations

from ptxsan_corpus.case import F32, Empty, Fault, draw

LOW, CANCEL, RANGE, STILL = "low accumulator", "cancellation", "overflow", "stagnation"
_ADD = "atomicAdd(w + ids[t] * 32 + threadIdx.x, (float)g[t * 32 + threadIdx.x]);"
_LOW_ADD = "atomicAdd((__nv_bfloat16*)w + ids[t] * 32 + threadIdx.x, g[t * 32 + threadIdx.x]);"
_SUM = """float s = 0.0f;
    for (int i = 0; i < n; ++i) s = s + (float)x[i * rows + r];"""
_BF16_SUM = """__nv_bfloat16 s = __float2bfloat16(0.0f);
    for (int i = 0; i < n; ++i) s = s + x[i * rows + r];"""

FAULTS = (
    Fault(name="bf16_row_sum", kind=LOW, twin="row_sum_bfloat16", old=_SUM, new=_BF16_SUM),
    Fault(name="bf16_rounded_each_step", kind=LOW, twin="row_sum_bfloat16", old="s = s + (float)x[i * rows + r];", new="s = (float)__float2bfloat16(s + (float)x[i * rows + r]);"),
    Fault(name="float_sum_kept_in_half", kind=LOW, twin="half_dot_float_accumulator", old="s = s + u.x * v.x + u.y * v.y;", new="s = __half2float(__float2half(s + u.x * v.x + u.y * v.y));"),
    Fault(name="half2_accumulator", kind=LOW, twin="half_dot_float_accumulator", old="s = s + u.x * v.x + u.y * v.y;", new="__half2 h = __hfma2(a[i], b[i], __float2half2_rn(s)); s = __low2float(h) + u.y * v.y;"),
    Fault(name="half_range_exceeded", kind=RANGE, twin="half_dot_float_accumulator", old="s = s + u.x * v.x + u.y * v.y;", new="s = __half2float(__float2half(64.0f * (s + u.x * v.x + u.y * v.y))) / 64.0f;"),
    Fault(name="bf16_atomic_gradient", kind=LOW, twin="hot_row_gradient", old=_ADD, new=_LOW_ADD),
    Fault(name="bf16_atomic_gradient_sm90", kind=LOW, twin="hot_row_gradient", old=_ADD, new=_LOW_ADD, changes={"arch": "sm_90"}),
    Fault(name="half_atomic_gradient", kind=LOW, twin="hot_row_gradient", old=_ADD, new="atomicAdd((__half*)w + ids[t] * 32 + threadIdx.x, __float2half((float)g[t * 32 + threadIdx.x])); // half"),
    Fault(name="one_pass_variance", kind=CANCEL, twin="variance_two_passes", old="q += (x[r * n + i] - mean) * (x[r * n + i] - mean);\n    y[r] = q / n;", new="q += x[r * n + i] * x[r * n + i];\n    y[r] = q / n - mean * mean;"),
    Fault(name="mean_in_bf16", kind=CANCEL, twin="variance_two_passes", old="float mean = s / n;", new="float mean = __bfloat162float(__float2bfloat16(s / n)); // bfloat16",
          changes={"make": draw(x=lambda rng: (1002 + rng.standard_normal(4096)).astype("float32"), y=Empty(dtype=F32, size=16))}),
    Fault(name="softmax_without_maximum", kind=RANGE, twin="softmax_of_large_logits", old="expf(row[i] - m)", new="expf(row[i])"),
    Fault(name="softmax_minus_mean", kind=RANGE, twin="softmax_of_large_logits", old="m = fmaxf(m, row[i]);", new="m = row[0] * 0.0f;"),
    Fault(name="log_one_plus_naive", kind=CANCEL, twin="log_of_one_plus", old="log1pf(v)", new="__logf(1.0f + v)"),
    Fault(name="exp_minus_one_naive", kind=CANCEL, twin="exp_minus_one", old="expm1f(v)", new="expf(v) - 1.0f"),
    Fault(name="root_difference_naive", kind=CANCEL, twin="root_difference", old="1.0f / (sqrtf(v + 1.0f) + sqrtf(v))", new="sqrtf(v + 1.0f) - sqrtf(v)"),
    Fault(name="one_minus_cosine_naive", kind=CANCEL, twin="one_minus_cosine", old="y[i] = 2.0f * h * h;", new="y[i] = 1.0f - cosf(v);"),
    Fault(name="sigmoid_gradient_naive", kind=CANCEL, twin="sigmoid_gradient", old="y[i] = e / ((1.0f + e) * (1.0f + e));", new="float p = 1.0f / (1.0f + e); y[i] = p * (1.0f - p);"),
    Fault(name="length_squares_overflow", kind=RANGE, twin="length", old="v * sqrtf(2.0f)", new="sqrtf(v * v + v * v)"),
    Fault(name="moment_in_bf16", kind=STILL, twin="second_moment_updates", old="m = beta * m", new="m = (float)__float2bfloat16(m), m = (float)(__nv_bfloat16)beta * m"),
    Fault(name="moment_in_half", kind=STILL, twin="second_moment_updates", old="m = beta * m + (1.0f - beta) * g[i] * g[i];", new="m = __half2float(__float2half(beta * m + (1.0f - beta) * g[i] * g[i]));"),
    Fault(name="float_row_sum_in_bf16", kind=LOW, twin="row_sum_float32", old="s = s + (float)x[i * rows + r];", new="s = __bfloat162float(__float2bfloat16(s + (float)x[i * rows + r]));"),
    Fault(name="float_row_sum_in_half", kind=LOW, twin="row_sum_float32", old="s = s + (float)x[i * rows + r];", new="s = __half2float(__float2half(s + (float)x[i * rows + r]));"),
)  # fmt: skip
