// Two kernels on two streams speak through a queue in device memory. Faulty: both are on one stream.
#include <cstdio>
#include <cuda/atomic>
#include <cuda_runtime.h>
struct Queue {
  cuda::atomic<int, cuda::thread_scope_device> head{0};
  int items[32];
};
__global__ void consume(Queue* q, int* sum) {
  if (threadIdx.x != 0) return;
  int s = 0;
  for (int i = 0; i < 32; ++i) {
    while (q->head.load(cuda::memory_order_acquire) <= i) __nanosleep(100);
    s += q->items[i];
  }
  *sum = s;
}
__global__ void produce(Queue* q) {
  for (int i = 0; i < 32; ++i) {
    q->items[i] = i * i;
    q->head.store(i + 1, cuda::memory_order_release);
  }
}
int main(int argc, char**) {
  const bool faulty = argc > 1;
  Queue* q;
  int *sum, host = 0;
  cudaStream_t a, b;
  cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking);
  cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking);
  cudaMalloc(&q, sizeof(Queue));
  cudaMalloc(&sum, sizeof(int));
  cudaMemset(q, 0, sizeof(Queue));
  cudaDeviceSynchronize();
  consume<<<1, 32, 0, a>>>(q, sum);
  produce<<<1, 1, 0, faulty ? a : b>>>(q);
  cudaDeviceSynchronize();
  cudaMemcpy(&host, sum, sizeof host, cudaMemcpyDeviceToHost);
  if (!faulty && host != 10416) return 1;
  std::puts("ok");
}
