/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Graphs: what the runtime captures of a stream, ready to be launched. A capture that begins here forbids unsafe calls
 * to its own thread only.
 */
#include "device/hip/hip_priv.h"

/* The default stream answers with an error while another stream that orders itself with it is captured. */
bool sv_hip_stream_is_capturing(sv_device_t *dev, void *stream)
{
    hipStreamCaptureStatus capture = hipStreamCaptureStatusNone;
    hipError_t error = HIP_RUN(hip_of(dev), hipStreamIsCapturing((hipStream_t)stream, &capture));
    hip_ignore(error);
    return error == hipErrorStreamCaptureImplicit || (error == hipSuccess && capture != hipStreamCaptureStatusNone);
}

selvage_status_t sv_hip_graph_begin(sv_device_t *dev, void *stream)
{
    hipError_t error = HIP_RUN(hip_of(dev),
                               hipStreamBeginCapture((hipStream_t)stream, hipStreamCaptureModeThreadLocal));
    return sv_hip_status(hip_of(dev), error, "hipStreamBeginCapture");
}

selvage_status_t sv_hip_graph_end(sv_device_t *dev, void *stream, void **graph_out)
{
    hipGraph_t graph = NULL;
    hipGraphExec_t ready = NULL;
    hipError_t error = HIP_RUN(hip_of(dev), hipStreamEndCapture((hipStream_t)stream, &graph));
    if (error != hipSuccess)
        return sv_hip_status(hip_of(dev), error, "hipStreamEndCapture");
    error = HIP_RUN(hip_of(dev), hipGraphInstantiateWithFlags(&ready, graph, 0));
    const selvage_status_t status = sv_hip_status(hip_of(dev), error, "hipGraphInstantiateWithFlags");
    hip_ignore(HIP_RELEASE(hip_of(dev), hipGraphDestroy(graph)));
    if (status == SELVAGE_SUCCESS)
        *graph_out = ready;
    return status;
}

selvage_status_t sv_hip_graph_launch(sv_device_t *dev, void *graph, void *stream)
{
    hipError_t error = HIP_RUN(hip_of(dev), hipGraphLaunch((hipGraphExec_t)graph, (hipStream_t)stream));
    return sv_hip_status(hip_of(dev), error, "hipGraphLaunch");
}

void sv_hip_graph_destroy(sv_device_t *dev, void *graph)
{
    hipError_t error = HIP_RELEASE(hip_of(dev), hipGraphExecDestroy((hipGraphExec_t)graph));
    (void)sv_hip_status(hip_of(dev), error, "hipGraphExecDestroy");
}
