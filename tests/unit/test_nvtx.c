/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranges on NVIDIA GPUs, without a GPU: the HIP device's NVTX part against a tool that records what it hears. The tool
 * is linked in, as NVTX allows, in place of a library that NVTX_INJECTION64_PATH names. NVTX looks for its tool once in
 * a process, so that a child process finds out what happens without one.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <nvtx3/nvToolsExt.h>

#include "fixtures/check.h"
#include "device/hip/hip_priv.h"

enum { DOMAIN_MARK = 0x5e1 };

extern NvtxInitializeInjectionNvtxFunc_t InitializeInjectionNvtx2_fnptr;
int NVTX_API start_tool(NvtxGetExportTableFunc_t get_table);

static struct {
    int domains, pushes, pops;
    char domain[32], name[64];
} heard;

static nvtxDomainHandle_t NVTX_API hear_domain(const char *name)
{
    heard.domains++;
    snprintf(heard.domain, sizeof heard.domain, "%s", name);
    return (nvtxDomainHandle_t)(uintptr_t)DOMAIN_MARK;
}

static int NVTX_API hear_push(nvtxDomainHandle_t domain, const nvtxEventAttributes_t *range)
{
    CHECK((uintptr_t)domain == DOMAIN_MARK);
    CHECK_EQ(range->version, NVTX_VERSION);
    CHECK_EQ(range->size, NVTX_EVENT_ATTRIB_STRUCT_SIZE);
    CHECK_EQ(range->messageType, NVTX_MESSAGE_TYPE_ASCII);
    snprintf(heard.name, sizeof heard.name, "%s", range->message.ascii);
    return heard.pushes++;
}

static int NVTX_API hear_pop(nvtxDomainHandle_t domain)
{
    CHECK((uintptr_t)domain == DOMAIN_MARK);
    return heard.pops++;
}

int NVTX_API start_tool(NvtxGetExportTableFunc_t get_table)
{
    const NvtxExportTableCallbacks *callbacks = get_table(NVTX_ETID_CALLBACKS);
    NvtxFunctionTable table = NULL;
    unsigned size = 0;
    if (!callbacks || !callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size))
        return 0;
    *table[NVTX_CBID_CORE2_DomainCreateA] = (NvtxFunctionPointer)hear_domain;
    *table[NVTX_CBID_CORE2_DomainRangePushEx] = (NvtxFunctionPointer)hear_push;
    *table[NVTX_CBID_CORE2_DomainRangePop] = (NvtxFunctionPointer)hear_pop;
    return 1;
}

static hip_device_t open_ranges(sv_ranges_t wanted)
{
    hip_device_t dev = {.index = 0};
    sv_hip_open_ranges(&dev, wanted);
    sv_hip_range_push(&dev.base, "first");
    sv_hip_range_push(&dev.base, "second");
    sv_hip_range_pop(&dev.base);
    sv_hip_range_pop(&dev.base);
    return dev;
}

static bool is_silent_without_a_tool(void)
{
    pid_t child = fork();
    if (child == 0) {
        InitializeInjectionNvtx2_fnptr = NULL;
        bool silent = !open_ranges(SV_RANGES_LOAD).base.ranges && heard.domains + heard.pushes + heard.pops == 0;
        _exit(silent ? 0 : 1);
    }
    int status = 0;
    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

int main(void)
{
    unsetenv("NVTX_INJECTION64_PATH");
    InitializeInjectionNvtx2_fnptr = start_tool;
    CHECK(is_silent_without_a_tool());
    CHECK(!open_ranges(SV_RANGES_OFF).base.ranges);
    CHECK_EQ(heard.domains + heard.pushes + heard.pops, 0);
    CHECK(open_ranges(SV_RANGES_IF_LOADED).base.ranges);
    CHECK_EQ(heard.domains, 1);
    CHECK_STR(heard.domain, "Selvage");
    CHECK_EQ(heard.pushes, 2);
    CHECK_EQ(heard.pops, 2);
    CHECK_STR(heard.name, "second");
    return check_report("nvtx");
}
