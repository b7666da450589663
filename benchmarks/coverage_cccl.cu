// Bodies of compiled CUDA for machine_coverage.py: CCCL's algorithms instantiated for a few types.
// `device` instantiations are counted; the kernels at the end are also executed.
#include <cub/cub.cuh>
#include <cuda_fp16.h>
#include <thrust/device_ptr.h>
#include <thrust/execution_policy.h>
#include <thrust/scan.h>
#include <thrust/sort.h>

#include <cuda/functional>

template <class T>
struct Device {
    static void all(T* a, T* b, int* n, int* k, void* t, size_t& s, int count) {
        cub::DeviceReduce::Sum(t, s, a, b, count);
        cub::DeviceReduce::Max(t, s, a, b, count);
        cub::DeviceScan::InclusiveSum(t, s, a, b, count);
        cub::DeviceScan::ExclusiveSum(t, s, a, b, count);
        cub::DeviceRadixSort::SortKeys(t, s, a, b, count);
        cub::DeviceRadixSort::SortPairsDescending(t, s, a, b, n, k, count);
        cub::DeviceSelect::Unique(t, s, a, b, n, count);
        cub::DeviceRunLengthEncode::Encode(t, s, a, b, n, k, count);
        cub::DeviceSegmentedReduce::Sum(t, s, a, b, count, n, n + 1);
        cub::DeviceMergeSort::SortKeys(t, s, a, count, cuda::std::less<T>{});
        cub::DeviceHistogram::HistogramEven(t, s, a, n, 65, T(0), T(64), count);
        thrust::sort_by_key(thrust::device, a, a + count, n);
        thrust::inclusive_scan(thrust::device, a, a + count, b);
    }
};
#ifdef PART_FLOAT
template struct Device<float>;
#endif
#ifdef PART_INT
template struct Device<int>;
#endif
#ifdef PART_DOUBLE
template struct Device<double>;
#endif
#ifdef PART_BLOCK
constexpr int THREADS = 128, ITEMS = 4;
#define KERNEL(name) \
    template <class T> __device__ void name##_body(const T* x, T* y); \
    extern "C" __global__ void name##_f32(const float* x, float* y) { name##_body(x, y); } \
    extern "C" __global__ void name##_i32(const int* x, int* y) { name##_body(x, y); } \
    extern "C" __global__ void name##_f64(const double* x, double* y) { name##_body(x, y); } \
    extern "C" __global__ void name##_i64(const long long* x, long long* y) { name##_body(x, y); } \
    template <class T> __device__ void name##_body(const T* x, T* y)
#define LOAD(kind) \
    using Load = cub::BlockLoad<T, THREADS, ITEMS, cub::kind>; \
    __shared__ typename Load::TempStorage load; \
    T v[ITEMS]; \
    Load(load).Load(x + blockIdx.x * THREADS * ITEMS, v); \
    __syncthreads();
#define STORE(kind) \
    using Store = cub::BlockStore<T, THREADS, ITEMS, cub::kind>; \
    __shared__ typename Store::TempStorage store; \
    Store(store).Store(y + blockIdx.x * THREADS * ITEMS, v);
KERNEL(reduce_raking) {
    LOAD(BLOCK_LOAD_DIRECT)
    using R = cub::BlockReduce<T, THREADS, cub::BLOCK_REDUCE_RAKING>;
    __shared__ typename R::TempStorage temp;
    T sum = R(temp).Sum(v);
    if (threadIdx.x == 0) y[blockIdx.x] = sum;
}
KERNEL(reduce_warps) {
    LOAD(BLOCK_LOAD_WARP_TRANSPOSE)
    using R = cub::BlockReduce<T, THREADS, cub::BLOCK_REDUCE_WARP_REDUCTIONS>;
    __shared__ typename R::TempStorage temp;
    T sum = R(temp).Sum(v);
    if (threadIdx.x == 0) y[blockIdx.x] = sum;
}
KERNEL(scan_raking) {
    LOAD(BLOCK_LOAD_TRANSPOSE)
    using S = cub::BlockScan<T, THREADS, cub::BLOCK_SCAN_RAKING>;
    __shared__ typename S::TempStorage temp;
    S(temp).InclusiveSum(v, v);
    STORE(BLOCK_STORE_TRANSPOSE)
}
KERNEL(scan_warps) {
    LOAD(BLOCK_LOAD_STRIPED)
    using S = cub::BlockScan<T, THREADS, cub::BLOCK_SCAN_WARP_SCANS>;
    __shared__ typename S::TempStorage temp;
    S(temp).ExclusiveSum(v, v);
    STORE(BLOCK_STORE_STRIPED)
}
KERNEL(radix_sort) {
    LOAD(BLOCK_LOAD_VECTORIZE)
    using S = cub::BlockRadixSort<T, THREADS, ITEMS>;
    __shared__ typename S::TempStorage temp;
    S(temp).Sort(v);
    STORE(BLOCK_STORE_VECTORIZE)
}
KERNEL(merge_sort) {
    LOAD(BLOCK_LOAD_DIRECT)
    using S = cub::BlockMergeSort<T, THREADS, ITEMS>;
    __shared__ typename S::TempStorage temp;
    S(temp).Sort(v, cuda::std::less<T>{});
    STORE(BLOCK_STORE_WARP_TRANSPOSE)
}
KERNEL(differences) {
    LOAD(BLOCK_LOAD_DIRECT)
    using D = cub::BlockAdjacentDifference<T, THREADS>;
    __shared__ typename D::TempStorage temp;
    D(temp).SubtractLeft(v, v, cuda::std::minus<T>{});
    STORE(BLOCK_STORE_DIRECT)
}
KERNEL(exchange) {
    LOAD(BLOCK_LOAD_DIRECT)
    using E = cub::BlockExchange<T, THREADS, ITEMS>;
    __shared__ typename E::TempStorage temp;
    E(temp).BlockedToStriped(v, v);
    STORE(BLOCK_STORE_DIRECT)
}
KERNEL(warp_reduce) {
    LOAD(BLOCK_LOAD_DIRECT)
    using W = cub::WarpReduce<T>;
    __shared__ typename W::TempStorage temp[THREADS / 32];
    T most = W(temp[threadIdx.x / 32]).Reduce(v[0], cuda::maximum<T>{});
    if (threadIdx.x % 32 == 0) y[blockIdx.x * (THREADS / 32) + threadIdx.x / 32] = most;
}
KERNEL(warp_sort) {
    LOAD(BLOCK_LOAD_DIRECT)
    using W = cub::WarpMergeSort<T, ITEMS, 32>;
    __shared__ typename W::TempStorage temp[THREADS / 32];
    W(temp[threadIdx.x / 32]).Sort(v, cuda::std::less<T>{});
    STORE(BLOCK_STORE_DIRECT)
}
#endif
