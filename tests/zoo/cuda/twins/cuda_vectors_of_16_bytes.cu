// Loads 16 bytes at once where its tensors begin at a multiple of 16.
//
// cuassay-launch:
// [[launches]]
// kernel = "swiglu"
// grid = ["-(-rows * hidden // 2048)"]
// block = [256]
// arguments = ["gate", "up", "y", "rows*hidden"]

#include <cuda_bf16.h>

__device__ __nv_bfloat16 glu(__nv_bfloat16 gate, __nv_bfloat16 up) {
    const float g = __bfloat162float(gate);
    return __float2bfloat16_rn(g / (1.0f + expf(-g)) * __bfloat162float(up));
}

__device__ bool aligned(const void* pointer) {
    return (reinterpret_cast<unsigned long long>(pointer) & 15) == 0;
}

extern "C" __global__ void swiglu(const __nv_bfloat16* gate, const __nv_bfloat16* up,
                                  __nv_bfloat16* y, long long count) {
    const long long first = (static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x) * 8;
    if (first + 8 <= count && aligned(gate) && aligned(up) && aligned(y)) {
        const uint4 gates = *reinterpret_cast<const uint4*>(gate + first);
        const uint4 ups = *reinterpret_cast<const uint4*>(up + first);
        uint4 results;
        for (int k = 0; k < 8; ++k)
            reinterpret_cast<__nv_bfloat16*>(&results)[k] =
                glu(reinterpret_cast<const __nv_bfloat16*>(&gates)[k],
                    reinterpret_cast<const __nv_bfloat16*>(&ups)[k]);
        *reinterpret_cast<uint4*>(y + first) = results;
        return;
    }
    for (long long index = first; index < count && index < first + 8; ++index)
        y[index] = glu(gate[index], up[index]);
}
