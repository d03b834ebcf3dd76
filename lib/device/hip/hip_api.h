/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The HIP runtime, as far as it is used here. On AMD it is HIP itself. On NVIDIA it is our own mapping of the same
 * calls to the CUDA runtime, and to the driver for modules and address ranges. HIP's own NVIDIA headers do not compile
 * with every CUDA, and most NVIDIA machines have no HIP.
 */
#ifndef SV_HIP_API_H
#define SV_HIP_API_H

#if defined(__HIP_PLATFORM_AMD__)

#include <stdbool.h>
#include <stdint.h>

#include <hip/hip_runtime_api.h>

/* Older headers lack the name; a runtime that lacks the kind refuses it. */
#ifndef hipDeviceMallocUncached
#define hipDeviceMallocUncached 0x3
#endif

static inline bool sv_hip_can_write_words(int device)
{
    (void)device;
    return false;
}
static inline hipError_t sv_hip_write_word(hipStream_t stream, uint64_t *word, uint64_t value)
{
    (void)stream, (void)word, (void)value;
    return hipErrorUnknown;
}
static inline bool sv_hip_can_start_early(int device)
{
    (void)device;
    return false;
}
static inline bool sv_hip_can_start_early_in_graphs(void)
{
    return false;
}
static inline bool sv_hip_is_default(hipStream_t stream)
{
    return stream == NULL;
}
enum { SV_HIP_INLINE_BYTES = 0 };
static inline hipError_t sv_hip_copy_rows(void *dst, const void *src, size_t row_bytes, hipStream_t stream)
{
    (void)dst, (void)src, (void)row_bytes, (void)stream;
    return hipErrorUnknown;
}
static inline hipError_t sv_hip_launch_early(hipFunction_t function, unsigned nblocks, unsigned nthreads,
                                             hipStream_t stream, void **params)
{
    return hipModuleLaunchKernel(function, nblocks, 1, 1, nthreads, 1, 1, 0, stream, params, NULL);
}
/* What prepared launches would save here is not known. */
typedef struct sv_hip_prepared {
    bool ready;
    hipGraphExec_t exec;
} sv_hip_prepared_t;
static inline hipError_t sv_hip_set_prepared(sv_hip_prepared_t *graph, hipFunction_t function, unsigned nblocks,
                                             unsigned nthreads, void **params)
{
    (void)graph, (void)function, (void)nblocks, (void)nthreads, (void)params;
    return hipErrorUnknown;
}
static inline void sv_hip_destroy_prepared(sv_hip_prepared_t *graph)
{
    (void)graph;
}

#else

#include <stdbool.h>
#include <stdint.h>

#include <cuda.h>
#include <cuda_runtime_api.h>

typedef cudaError_t hipError_t;
typedef cudaStream_t hipStream_t;
typedef cudaEvent_t hipEvent_t;
typedef enum cudaStreamCaptureStatus hipStreamCaptureStatus;
typedef cudaGraph_t hipGraph_t;
typedef cudaGraphExec_t hipGraphExec_t;
typedef cudaIpcMemHandle_t hipIpcMemHandle_t;
typedef CUmodule hipModule_t;
typedef CUfunction hipFunction_t;
typedef CUdeviceptr hipDeviceptr_t;

#define hipSuccess cudaSuccess
#define hipErrorNotReady cudaErrorNotReady
#define hipErrorOutOfMemory cudaErrorMemoryAllocation
#define hipErrorUnknown cudaErrorUnknown
#define hipErrorStreamCaptureImplicit cudaErrorStreamCaptureImplicit
#define hipStreamCaptureStatusNone cudaStreamCaptureStatusNone
#define hipStreamCaptureModeThreadLocal cudaStreamCaptureModeThreadLocal
#define hipMemcpyDefault cudaMemcpyDefault
#define hipStreamNonBlocking cudaStreamNonBlocking
#define hipEventDisableTiming cudaEventDisableTiming
#define hipHostMallocMapped cudaHostAllocMapped
#define hipHostMallocPortable cudaHostAllocPortable
#define hipHostMallocCoherent 0 /* all of it is */
#define hipHostRegisterMapped cudaHostRegisterMapped
#define hipHostRegisterPortable cudaHostRegisterPortable
#define hipIpcMemLazyEnablePeerAccess cudaIpcMemLazyEnablePeerAccess
#define hipDeviceAttributeMultiprocessorCount cudaDevAttrMultiProcessorCount
#define hipDeviceAttributePageableMemoryAccess cudaDevAttrPageableMemoryAccess
#define hipErrorInvalidValue cudaErrorInvalidValue

#define hipGetErrorName cudaGetErrorName
#define hipGetErrorString cudaGetErrorString
#define hipGetLastError cudaGetLastError
#define hipGetDeviceCount cudaGetDeviceCount
#define hipGetDevice cudaGetDevice
#define hipPointerGetAttributes cudaPointerGetAttributes
#define hipSetDevice cudaSetDevice
#define hipDeviceGetAttribute cudaDeviceGetAttribute
#define hipDeviceGetPCIBusId cudaDeviceGetPCIBusId
#define hipDeviceGetByPCIBusId cudaDeviceGetByPCIBusId
#define hipDeviceCanAccessPeer cudaDeviceCanAccessPeer
#define hipDeviceGetStreamPriorityRange cudaDeviceGetStreamPriorityRange
#define hipMalloc cudaMalloc
#define hipFree cudaFree
#define hipHostMalloc cudaHostAlloc
#define hipHostFree cudaFreeHost
#define hipHostRegister cudaHostRegister
#define hipHostUnregister cudaHostUnregister
#define hipHostGetDevicePointer cudaHostGetDevicePointer
#define hipStreamCreateWithPriority cudaStreamCreateWithPriority
#define hipStreamDestroy cudaStreamDestroy
#define hipStreamSynchronize cudaStreamSynchronize
#define hipDeviceSynchronize cudaDeviceSynchronize
#define hipStreamWaitEvent cudaStreamWaitEvent
#define hipStreamIsCapturing cudaStreamIsCapturing
#define hipStreamBeginCapture cudaStreamBeginCapture
#define hipStreamEndCapture cudaStreamEndCapture
#define hipGraphInstantiateWithFlags cudaGraphInstantiateWithFlags
#define hipGraphLaunch cudaGraphLaunch
#define hipGraphDestroy cudaGraphDestroy
#define hipGraphExecDestroy cudaGraphExecDestroy
#define hipEventCreateWithFlags cudaEventCreateWithFlags
#define hipEventDestroy cudaEventDestroy
#define hipEventRecord cudaEventRecord
#define hipEventQuery cudaEventQuery
#define hipStreamQuery cudaStreamQuery
#define hipMemcpyAsync cudaMemcpyAsync
#define hipMemsetAsync cudaMemsetAsync
#define hipIpcGetMemHandle cudaIpcGetMemHandle
#define hipIpcOpenMemHandle cudaIpcOpenMemHandle
#define hipIpcCloseMemHandle cudaIpcCloseMemHandle

/* Driver results become runtime errors; the few that matter keep their meaning. */
static inline hipError_t sv_hip_from_driver(CUresult result)
{
    if (result == CUDA_SUCCESS)
        return cudaSuccess;
    return result == CUDA_ERROR_OUT_OF_MEMORY ? cudaErrorMemoryAllocation : cudaErrorInvalidValue;
}
static inline hipError_t hipDeviceGetName(char *name, int bytes, int index)
{
    CUdevice device;
    CUresult result = cuDeviceGet(&device, index);
    return sv_hip_from_driver(result == CUDA_SUCCESS ? cuDeviceGetName(name, bytes, device) : result);
}
static inline hipError_t hipModuleLoadData(hipModule_t *module, const void *image)
{
    return sv_hip_from_driver(cuModuleLoadData(module, image));
}
static inline hipError_t hipModuleUnload(hipModule_t module)
{
    return sv_hip_from_driver(cuModuleUnload(module));
}
static inline hipError_t hipModuleGetFunction(hipFunction_t *function, hipModule_t module, const char *name)
{
    return sv_hip_from_driver(cuModuleGetFunction(function, module, name));
}
static inline hipError_t hipModuleLaunchKernel(hipFunction_t function, unsigned gx, unsigned gy, unsigned gz,
                                               unsigned bx, unsigned by, unsigned bz, unsigned shared,
                                               hipStream_t stream, void **params, void **extra)
{
    return sv_hip_from_driver(cuLaunchKernel(function, gx, gy, gz, bx, by, bz, shared, stream, params, extra));
}
/* Ordinary memory will do: what other devices write is seen by acquires at system scope. */
#define hipDeviceMallocUncached 0x3
#define hipDeviceMallocFinegrained 0x1
static inline hipError_t hipExtMallocWithFlags(void **ptr, size_t bytes, unsigned flags)
{
    (void)flags;
    return cudaMalloc(ptr, bytes);
}
static inline bool sv_hip_can_write_words(int index)
{
    CUdevice device;
    int can = 0;
    return cuDeviceGet(&device, index) == CUDA_SUCCESS &&
           cuDeviceGetAttribute(&can, CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, device) == CUDA_SUCCESS && can;
}
/* Without the flag that leaves it out, a system-wide fence comes first. */
static inline hipError_t sv_hip_write_word(hipStream_t stream, uint64_t *word, uint64_t value)
{
    return sv_hip_from_driver(cuStreamWriteValue64(stream, (CUdeviceptr)(uintptr_t)word, value,
                                                   CU_STREAM_WRITE_VALUE_DEFAULT));
}
/* What CUDA calls programmatic dependent launch came with compute capability 9. */
static inline bool sv_hip_can_start_early(int index)
{
    int major = 0;
    return cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, index) == cudaSuccess && major >= 9;
}
/* Whether captures take such launches: edges of that kind came to graphs with CUDA 12.3. */
static inline bool sv_hip_can_start_early_in_graphs(void)
{
    enum { CUDA_12_3 = 12030 };
    int driver = 0, runtime = 0;
    return cudaDriverGetVersion(&driver) == cudaSuccess && cudaRuntimeGetVersion(&runtime) == cudaSuccess &&
           driver >= CUDA_12_3 && runtime >= CUDA_12_3;
}
/* Copies up of fewer bytes are written by the front end of a stream and not by a copy engine. Where processes share the
   GPU it has to wait for the turn of its process. Two rows of half the length go by a copy engine. Measured on an H200:
   24 KiB are written by the front end, 28 KiB are not. Two rows take 8 us. One takes 142 us on a GPU that is shared,
   else 6 (8 B) to 10 us (24 KiB). */
enum { SV_HIP_INLINE_BYTES = 28 << 10 };
static inline hipError_t sv_hip_copy_rows(void *dst, const void *src, size_t row_bytes, hipStream_t stream)
{
    return cudaMemcpy2DAsync(dst, row_bytes, src, row_bytes, row_bytes, 2, cudaMemcpyDefault, stream);
}
/* The default stream by any of its names. */
static inline bool sv_hip_is_default(hipStream_t stream)
{
    return stream == NULL || stream == cudaStreamLegacy || stream == cudaStreamPerThread;
}
static inline hipError_t sv_hip_launch_early(hipFunction_t function, unsigned nblocks, unsigned nthreads,
                                             hipStream_t stream, void **params)
{
    CUlaunchAttribute attribute = {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
                                   .value = {.programmaticStreamSerializationAllowed = 1}};
    const CUlaunchConfig config = {.gridDimX = nblocks, .gridDimY = 1, .gridDimZ = 1, .blockDimX = nthreads,
                                   .blockDimY = 1, .blockDimZ = 1, .hStream = stream, .attrs = &attribute,
                                   .numAttrs = 1};
    return sv_hip_from_driver(cuLaunchKernelEx(&config, function, params, NULL));
}
/* A graph of one kernel, which is launched with another argument each time. */
typedef struct sv_hip_prepared {
    bool ready;
    CUgraphNode node; /* of graph, which is kept for it */
    CUgraph graph;
    CUgraphExec exec;
} sv_hip_prepared_t;
static inline CUDA_KERNEL_NODE_PARAMS sv_hip_node_of(hipFunction_t function, unsigned nblocks, unsigned nthreads,
                                                     void **params)
{
    return (CUDA_KERNEL_NODE_PARAMS){.func = function, .gridDimX = nblocks, .gridDimY = 1, .gridDimZ = 1,
                                     .blockDimX = nthreads, .blockDimY = 1, .blockDimZ = 1, .kernelParams = params};
}
static inline hipError_t sv_hip_set_prepared(sv_hip_prepared_t *graph, hipFunction_t function, unsigned nblocks,
                                             unsigned nthreads, void **params)
{
    const CUDA_KERNEL_NODE_PARAMS node = sv_hip_node_of(function, nblocks, nthreads, params);
    return sv_hip_from_driver(cuGraphExecKernelNodeSetParams(graph->exec, graph->node, &node));
}
/* Another thread may be capturing. That forbids unsafe calls to all threads but those that say that theirs are none. */
static inline CUstreamCaptureMode sv_hip_exchange_capture_mode(CUstreamCaptureMode mode)
{
    (void)cuThreadExchangeStreamCaptureMode(&mode);
    return mode;
}
/* A launch of it that is under way goes on. */
static inline void sv_hip_destroy_prepared(sv_hip_prepared_t *graph)
{
    const CUstreamCaptureMode before = sv_hip_exchange_capture_mode(CU_STREAM_CAPTURE_MODE_RELAXED);
    (void)cuGraphExecDestroy(graph->exec);
    (void)cuGraphDestroy(graph->graph);
    (void)sv_hip_exchange_capture_mode(before);
    graph->ready = false;
}
#if CUDA_VERSION >= 12040
#define SV_HIP_PREPARES
/* Measured with CUDA 13. Older drivers take longer to launch a graph. */
static inline bool sv_hip_can_prepare(void)
{
    enum { CUDA_13 = 13000 };
    int driver = 0;
    return cudaDriverGetVersion(&driver) == cudaSuccess && driver >= CUDA_13;
}
/* Which no other stream of this process has, or will have. The default stream of each thread is not one stream. */
static inline bool sv_hip_stream_number(hipStream_t stream, uint64_t *number_out)
{
    unsigned long long number = 0;
    if (stream == cudaStreamPerThread || cuStreamGetId(stream, &number) != CUDA_SUCCESS)
        return false;
    *number_out = number;
    return true;
}
/* The memory for its launches is there when it is ready. A stream of a green context has a part of the GPU, in which a
   graph need not stay. */
static inline hipError_t sv_hip_make_prepared(sv_hip_prepared_t *graph, hipFunction_t function, unsigned nblocks,
                                              unsigned nthreads, void **params, hipStream_t stream)
{
    const CUDA_KERNEL_NODE_PARAMS node = sv_hip_node_of(function, nblocks, nthreads, params);
    CUgreenCtx part = NULL;
    if (stream && stream != cudaStreamLegacy && cuStreamGetGreenCtx(stream, &part) == CUDA_SUCCESS && part)
        return hipErrorUnknown;
    const CUstreamCaptureMode before = sv_hip_exchange_capture_mode(CU_STREAM_CAPTURE_MODE_RELAXED);
    CUresult result = cuGraphCreate(&graph->graph, 0);
    if (result == CUDA_SUCCESS) {
        result = cuGraphAddKernelNode(&graph->node, graph->graph, NULL, 0, &node);
        if (result == CUDA_SUCCESS)
            result = cuGraphInstantiateWithFlags(&graph->exec, graph->graph, 0);
        if (result != CUDA_SUCCESS)
            (void)cuGraphDestroy(graph->graph);
    }
    if (result == CUDA_SUCCESS && (result = cuGraphUpload(graph->exec, stream)) != CUDA_SUCCESS)
        sv_hip_destroy_prepared(graph);
    graph->ready = result == CUDA_SUCCESS;
    (void)sv_hip_exchange_capture_mode(before);
    return sv_hip_from_driver(result);
}
#endif
static inline hipError_t hipMemGetAddressRange(hipDeviceptr_t *base, size_t *bytes, hipDeviceptr_t ptr)
{
    return sv_hip_from_driver(cuMemGetAddressRange(base, bytes, ptr));
}

#endif

#ifndef SV_HIP_PREPARES /* another runtime, or one that does not number its streams */
static inline bool sv_hip_can_prepare(void)
{
    return false;
}
static inline bool sv_hip_stream_number(hipStream_t stream, uint64_t *number_out)
{
    (void)stream, (void)number_out;
    return false;
}
static inline hipError_t sv_hip_make_prepared(sv_hip_prepared_t *graph, hipFunction_t function, unsigned nblocks,
                                              unsigned nthreads, void **params, hipStream_t stream)
{
    (void)graph, (void)function, (void)nblocks, (void)nthreads, (void)params, (void)stream;
    return hipErrorUnknown;
}
#endif

#endif
