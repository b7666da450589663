// The toolkit's header of this name is in a package of its own.
#pragma once
#include <cuda_runtime_api.h>

extern "C" cudaError_t cudaProfilerStart(void);
extern "C" cudaError_t cudaProfilerStop(void);
