; What functions of CUDA's libdevice approximate, by one instruction of PTX each.
; For comparisons of expressions: libdevice takes the bits of its argument apart.
target triple = "nvptx64-nvidia-cuda"
declare float @llvm.nvvm.lg2.approx.f(float)
declare float @llvm.nvvm.ex2.approx.f(float)
declare float @llvm.nvvm.sin.approx.f(float)
declare float @llvm.nvvm.cos.approx.f(float)

define float @__nv_log2f(float %x) alwaysinline {
  %r = call float @llvm.nvvm.lg2.approx.f(float %x)
  ret float %r
}
; ln 2, rounded to float32
define float @__nv_logf(float %x) alwaysinline {
  %l = call float @llvm.nvvm.lg2.approx.f(float %x)
  %r = fmul float %l, 0x3FE62E4300000000
  ret float %r
}
define float @__nv_log1pf(float %x) alwaysinline {
  %s = fadd float %x, 1.0
  %l = call float @llvm.nvvm.lg2.approx.f(float %s)
  %r = fmul float %l, 0x3FE62E4300000000
  ret float %r
}
define float @__nv_exp2f(float %x) alwaysinline {
  %r = call float @llvm.nvvm.ex2.approx.f(float %x)
  ret float %r
}
; log2 e, rounded to float32
define float @__nv_expf(float %x) alwaysinline {
  %m = fmul float %x, 0x3FF7154760000000
  %r = call float @llvm.nvvm.ex2.approx.f(float %m)
  ret float %r
}
define float @__nv_expm1f(float %x) alwaysinline {
  %m = fmul float %x, 0x3FF7154760000000
  %e = call float @llvm.nvvm.ex2.approx.f(float %m)
  %r = fsub float %e, 1.0
  ret float %r
}
define float @__nv_sinf(float %x) alwaysinline {
  %r = call float @llvm.nvvm.sin.approx.f(float %x)
  ret float %r
}
define float @__nv_cosf(float %x) alwaysinline {
  %r = call float @llvm.nvvm.cos.approx.f(float %x)
  ret float %r
}
define float @__nv_tanhf(float %x) alwaysinline {
  %r = call float asm "tanh.approx.f32 $0, $1;", "=f,f"(float %x)
  ret float %r
}
