// A prefix sum over the whole grid with cooperative groups: tiles, the block, then the grid. Faulty:
// the blocks of a larger problem do not fit at once, and nobody looks at the launch's error.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
#include <cstdio>
#include <cuda_runtime.h>
#include <vector>
namespace cg = cooperative_groups;

__global__ void scan(const int* in, int* out, int* totals, int n) {
  cg::grid_group grid = cg::this_grid();
  cg::thread_block block = cg::this_thread_block();
  cg::thread_block_tile<32> warp = cg::tiled_partition<32>(block);
  __shared__ int warps[32];
  const int i = static_cast<int>(grid.thread_rank());
  const int value = i < n ? in[i] : 0;
  int sum = cg::inclusive_scan(warp, value);
  if (warp.thread_rank() == warp.size() - 1) warps[warp.meta_group_rank()] = sum;
  block.sync();
  if (warp.meta_group_rank() == 0) {
    const int mine = warp.thread_rank() < warp.meta_group_size() ? warps[warp.thread_rank()] : 0;
    warps[warp.thread_rank()] = cg::exclusive_scan(warp, mine);
    const int all = cg::reduce(warp, mine, cg::plus<int>());
    if (warp.thread_rank() == 0) totals[block.group_index().x] = all;
  }
  block.sync();
  sum += warps[warp.meta_group_rank()];
  grid.sync();
  int before = 0;
  for (unsigned other = 0; other < block.group_index().x; ++other) before += totals[other];
  if (i < n) out[i] = sum + before;
}

int main(int argc, char**) {
  const bool faulty = argc > 1;
  const int threads = 256;
  int n = faulty ? 600000 : 2000, blocks = (n + threads - 1) / threads;
  std::vector<int> host(n);
  for (int i = 0; i < n; ++i) host[i] = i % 5;
  int *in, *out, *totals;
  cudaMalloc(&in, n * sizeof(int));
  cudaMalloc(&out, n * sizeof(int));
  cudaMalloc(&totals, blocks * sizeof(int));
  cudaMemcpy(in, host.data(), n * sizeof(int), cudaMemcpyHostToDevice);
  cudaMemset(out, 0, n * sizeof(int));
  void* arguments[] = {&in, &out, &totals, &n};
  cudaLaunchCooperativeKernel(scan, dim3(blocks), dim3(threads), arguments, 0, nullptr);
  std::vector<int> found(n);
  cudaMemcpy(found.data(), out, n * sizeof(int), cudaMemcpyDeviceToHost);
  long long expected = 0;
  for (int i = 0; i < n && !faulty; ++i)
    if (found[i] != (expected += host[i])) return 1;
  cudaFree(in);
  cudaFree(out);
  cudaFree(totals);
  std::puts("ok");
  return 0;
}
