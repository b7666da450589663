// Kernels that wait for what the host, or another stream, does after their launch. The first
// argument names what happens.
#include <cstdio>
#include <cstring>
#include <cuda_runtime.h>
#include <thread>

__global__ void wait_for(volatile int* flag, int* y) {
  while (*flag == 0) {}
  __threadfence_system();
  y[threadIdx.x] = 5;
}
__global__ void raise(int* flag) { atomicExch(flag, 1); }
__global__ void add_one(int* y) { y[threadIdx.x] += 1; }
// Answers each number that the host asks with its double, until that is negative.
__global__ void serve(volatile int* question, volatile int* answer, int* done) {
  __shared__ int next;
  for (int seen = 0, now; true; seen = now) {
    if (threadIdx.x == 0) {
      while ((next = *question) == seen) {}
      __threadfence_system();
    }
    __syncthreads();
    now = next;
    if (now < 0) break;
    if (threadIdx.x == 32) *answer = 2 * now;
    __syncthreads();
  }
  done[threadIdx.x] = 1;
}
// Works until the host tells it to stop.
__global__ void work_until(volatile int* stop, int* rounds) {
  while (*stop == 0) atomicAdd_system(rounds, 1);
}
// Gives up after a while.
__global__ void wait_a_while(volatile int* flag, long long clocks, int* y) {
  const long long start = clock64();
  while (*flag == 0 && clock64() - start < clocks) {}
  y[threadIdx.x] = *flag;
}

int main(int, char** argv) {
  auto is = [&](const char* name) { return std::strcmp(argv[1], name) == 0; };
  int *y, *z, *raised, host[64] = {};
  volatile int *flag, *answer;
  cudaStream_t stream, other;
  cudaMalloc(&y, sizeof host);
  cudaMalloc(&z, sizeof host);
  cudaMalloc(&raised, sizeof(int));
  cudaMemset(y, 0, sizeof host);
  cudaMemset(z, 0, sizeof host);
  cudaMemset(raised, 0, sizeof(int));
  cudaHostAlloc((void**)&flag, 4096, cudaHostAllocMapped);
  cudaHostAlloc((void**)&answer, 4096, cudaHostAllocMapped);
  cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking);
  cudaDeviceSynchronize();
  *flag = *answer = 0;
  if (is("flag")) {
    wait_for<<<1, 64, 0, stream>>>(flag, y);
    *flag = 1;
    cudaStreamSynchronize(stream);
  }
  if (is("never")) {
    wait_for<<<1, 64, 0, stream>>>(flag, y);
    cudaStreamSynchronize(stream);
  }
  if (is("too late")) {
    wait_for<<<1, 64, 0, stream>>>(flag, y);
    cudaStreamSynchronize(stream);
    *flag = 1;
  }
  if (is("left at the end")) {
    wait_for<<<1, 64, 0, stream>>>(flag, y);
    return 0;
  }
  if (is("questions")) {
    serve<<<1, 64, 0, stream>>>(flag, answer, y);
    for (int n = 1; n < 5; ++n) {
      *flag = n;
      while (*answer != 2 * n) {}
    }
    *flag = -1;
    cudaStreamSynchronize(stream);
  }
  if (is("questions without an end")) {
    serve<<<1, 64, 0, stream>>>(flag, answer, y);
    for (int n = 1; n < 5; ++n) {
      *flag = n;
      while (*answer != 2 * n) {}
    }
    cudaStreamSynchronize(stream);
  }
  if (is("work behind")) {
    wait_for<<<1, 64, 0, stream>>>(flag, y);
    add_one<<<1, 64, 0, stream>>>(y);
    host[0] = 7;
    cudaMemcpyAsync(z, host, sizeof host, cudaMemcpyHostToDevice, stream);
    host[0] = 8;  // pageable memory was read before
    cudaMemsetAsync(z + 1, 1, sizeof(int), stream);
    *flag = 1;
    cudaStreamSynchronize(stream);
    cudaMemcpy(host, z, sizeof host, cudaMemcpyDeviceToHost);
    std::printf("%d %d ", host[0], host[1]);
  }
  if (is("results before")) {  // of the launch that waits: the copy waits for it, and nobody helps
    wait_for<<<1, 64, 0, stream>>>(flag, y);
    cudaMemcpyAsync(host, y, sizeof host, cudaMemcpyDeviceToHost, stream);
    *flag = 1;
    cudaStreamSynchronize(stream);
  }
  if (is("kernel of another stream")) {
    wait_for<<<1, 64, 0, stream>>>(raised, y);
    raise<<<1, 1, 0, other>>>(raised);
    cudaDeviceSynchronize();
  }
  if (is("kernel of the same stream")) {
    wait_for<<<1, 64, 0, stream>>>(raised, y);
    raise<<<1, 1, 0, stream>>>(raised);
    cudaDeviceSynchronize();
  }
  if (is("copy of another stream")) {
    wait_for<<<1, 64, 0, stream>>>(raised, y);
    *answer = 1;
    cudaMemcpyAsync(raised, (void*)answer, sizeof(int), cudaMemcpyHostToDevice, other);
    cudaDeviceSynchronize();
  }
  if (is("default stream")) {  // which waits for blocking streams
    cudaStream_t blocking;
    cudaStreamCreate(&blocking);
    wait_for<<<1, 64, 0, blocking>>>(raised, y);
    raise<<<1, 1>>>(raised);
    cudaDeviceSynchronize();
  }
  if (is("event")) {
    cudaEvent_t event;
    cudaEventCreate(&event);
    wait_for<<<1, 64, 0, stream>>>(flag, y);
    cudaEventRecord(event, stream);
    cudaStreamWaitEvent(other, event, 0);
    add_one<<<1, 64, 0, other>>>(y);
    std::printf("%d ", cudaEventQuery(event) == cudaErrorNotReady);
    *flag = 1;
    cudaEventSynchronize(event);
    cudaStreamSynchronize(other);
  }
  if (is("query")) {
    wait_for<<<1, 64, 0, stream>>>(flag, y);
    int rounds = 0;
    while (cudaStreamQuery(stream) == cudaErrorNotReady) *flag = ++rounds == 3;
    std::printf("%d ", rounds);
  }
  if (is("thread")) {
    wait_for<<<1, 64, 0, stream>>>(flag, y);
    std::thread helper([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
      *flag = 1;
    });
    cudaStreamSynchronize(stream);
    helper.join();
  }
  if (is("two that wait")) {
    wait_for<<<1, 64, 0, stream>>>(flag, y);
    wait_for<<<1, 64, 0, other>>>(answer, z);
    *answer = 1;
    cudaStreamSynchronize(other);
    *flag = 1;
    cudaStreamSynchronize(stream);
  }
  if (is("works until it is told")) {
    work_until<<<1, 64, 0, stream>>>(flag, (int*)answer);
    while (*answer < 1000) {}
    *flag = 1;
    cudaStreamSynchronize(stream);
    std::printf("%d ", *answer >= 1000);
  }
  if (is("gives up")) wait_a_while<<<1, 64, 0, stream>>>(flag, 100000000, y);
  cudaDeviceSynchronize();
  cudaMemcpy(host, y, sizeof host, cudaMemcpyDeviceToHost);
  std::printf("%d\n", host[63]);
}
