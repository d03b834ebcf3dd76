/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * LLVM's disassembler, from the library that comes with the compiler of the kernels. It is loaded when it is first
 * needed, through its interface for C, and stays. One context for each kind of GPU; a lock is around its use.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "amdgpu/amdgpu_wave.h"

namespace {

typedef void (*initialise_t)(void);
typedef void *(*create_t)(const char *triple, const char *cpu, void *info, int tag, void *op_info, void *lookup);
typedef size_t (*decode_t)(void *context, uint8_t *bytes, uint64_t nbytes, uint64_t pc, char *text, size_t text_bytes);

struct {
    pthread_mutex_t lock;
    bool tried;
    char error[160];
    create_t create;
    decode_t decode;
    struct {
        char arch[16];
        void *handle;
    } context[4];
} llvm = {};

const char *const files[] = {"libLLVM.so.19.1", "libLLVM.so.20.1", "libLLVM.so.21.1", "libLLVM.so.22.1",
                             "libLLVM-18.so.1", "libLLVM-17.so.1", "libLLVM.so"};
const char *const parts[] = {"LLVMInitializeAMDGPUTargetInfo", "LLVMInitializeAMDGPUTargetMC",
                             "LLVMInitializeAMDGPUDisassembler"};

/* Whether a library has all; then it is set up. */
bool use_library(void *library)
{
    initialise_t initialise[3];
    for (unsigned p = 0; p < 3; p++) {
        *(void **)&initialise[p] = dlsym(library, parts[p]);
        if (!initialise[p])
            return false;
    }
    *(void **)&llvm.create = dlsym(library, "LLVMCreateDisasmCPU");
    *(void **)&llvm.decode = dlsym(library, "LLVMDisasmInstruction");
    if (!llvm.create || !llvm.decode)
        return false;
    for (initialise_t part : initialise)
        part();
    return true;
}

void open_locked()
{
    llvm.tried = true;
    snprintf(llvm.error, sizeof llvm.error, "none of %s to %s can be loaded (Debian: libllvm19, of clang-19)", files[0],
             files[sizeof files / sizeof files[0] - 1]);
    for (const char *file : files) {
        void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
        if (library && use_library(library)) {
            llvm.error[0] = '\0';
            return;
        }
        if (library)
            dlclose(library);
    }
}

void *context_locked(const char *arch)
{
    for (auto &context : llvm.context) {
        if (strcmp(context.arch, arch) == 0)
            return context.handle;
        if (!context.arch[0]) {
            snprintf(context.arch, sizeof context.arch, "%s", arch);
            context.handle = llvm.create("amdgcn-amd-amdhsa", arch, nullptr, 0, nullptr, nullptr);
            return context.handle;
        }
    }
    return nullptr;
}

} // namespace

bool amdgpu_text_open(char *error_out, size_t error_bytes)
{
    pthread_mutex_lock(&llvm.lock);
    if (!llvm.tried)
        open_locked();
    snprintf(error_out, error_bytes, "%s", llvm.error);
    pthread_mutex_unlock(&llvm.lock);
    return !error_out[0];
}

size_t amdgpu_disassemble(const amdgpu_object_t *object, uintptr_t pc, char *text_out, size_t text_bytes)
{
    const uintptr_t end = (uintptr_t)object->text + object->text_bytes;
    text_out[0] = '\0';
    pthread_mutex_lock(&llvm.lock);
    void *context = context_locked(object->arch);
    const size_t bytes = context ? llvm.decode(context, (uint8_t *)pc, end - pc, pc, text_out, text_bytes) : 0;
    pthread_mutex_unlock(&llvm.lock);
    return bytes;
}
