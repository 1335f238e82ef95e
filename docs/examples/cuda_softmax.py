"""A CUDA kernel of one's own, compiled on the spot and measured like any other, with a dataflow beside it:

    cd docs/examples
    roofline measure --kernel cuda_softmax:softmax --set rows=16384 --set cols=4096
    roofline dataflow show cuda_softmax.yaml -H h200-sxm

The function takes the operator and its tensors and returns what runs the kernel once. Its attributes say which operator it computes, what
it needs, and which dataflow describes it; `roofline measure` checks it against float64 before it is timed.
"""

from __future__ import annotations

from pathlib import Path

import torch

from roofline.errors import UsageError

THREADS = 256
SOURCE = """
__device__ float number(unsigned short bits) { return __uint_as_float((unsigned)bits << 16); }
__device__ float number(float value) { return value; }
__device__ void put(float* at, float value) { *at = value; }
__device__ void put(unsigned short* at, float value) {       // bf16, to the nearest even
    unsigned bits = __float_as_uint(value);
    *at = (unsigned short)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

// A block a row. First sweep: each thread keeps the maximum of its columns and their sum, which it rescales whenever the maximum moves;
// then the block joins them. Second sweep: the result.
extern "C" __global__ void softmax_rows(const %(type)s* x, %(type)s* y, int cols) {
    __shared__ float tops[%(threads)d], sums[%(threads)d];
    const %(type)s* from = x + (long long)blockIdx.x * cols;
    %(type)s* to = y + (long long)blockIdx.x * cols;
    float top = -1e30f, sum = 0.0f;
    for (int i = threadIdx.x; i < cols; i += blockDim.x) {
        float value = number(from[i]), higher = fmaxf(top, value);
        sum = sum * __expf(top - higher) + __expf(value - higher);
        top = higher;
    }
    tops[threadIdx.x] = top;
    sums[threadIdx.x] = sum;
    __syncthreads();
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) {
            float other = tops[threadIdx.x + half], mine = tops[threadIdx.x], higher = fmaxf(mine, other);
            sums[threadIdx.x] = sums[threadIdx.x] * __expf(mine - higher) + sums[threadIdx.x + half] * __expf(other - higher);
            tops[threadIdx.x] = higher;
        }
        __syncthreads();
    }
    float scale = 1.0f / sums[0];
    for (int i = threadIdx.x; i < cols; i += blockDim.x) put(to + i, __expf(number(from[i]) - tops[0]) * scale);
}
"""
TYPES = {torch.float32: "float", torch.bfloat16: "unsigned short"}


def softmax(op, tensors):
    """Softmax of each row in CUDA C, compiled by NVRTC: maximum and sum in one sweep, the result in a second one."""
    x, y = tensors["x"], tensors["y"]
    if x.dtype not in TYPES:
        raise UsageError(f"cuda_softmax computes in fp32 and bf16, not {op.dtype}")
    kernel = torch.cuda._compile_kernel(SOURCE % {"type": TYPES[x.dtype], "threads": THREADS}, "softmax_rows")
    rows, cols = (int(n) for n in x.shape)

    def run():
        kernel(grid=(rows, 1, 1), block=(THREADS, 1, 1), args=[x, y, cols])
        return y

    return run


softmax.operator = "softmax"
softmax.needs = ("cuda",)
softmax.dataflow = str(Path(__file__).with_name("cuda_softmax.yaml"))
softmax.example = {"dtype": "bf16", "rows": 16384, "cols": 4096, "implementation": "online"}
softmax.small = {"dtype": "fp32", "rows": 48, "cols": 80, "implementation": "online"}
