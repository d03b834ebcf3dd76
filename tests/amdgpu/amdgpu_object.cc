/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Loads a code object: an ELF file whose segments are copied to where a kernel's counter of instructions will run, the
 * descriptor of each kernel (64 bytes under its name and ".kd"), and its metadata, which say where arguments lie.
 * What is not modelled is refused here: a stack, other modes of floats, registers that kernels seldom begin with.
 */
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "amdgpu/amdgpu_coverage.h"
#include "amdgpu/amdgpu_metadata.h"
#include "amdgpu/amdgpu_wave.h"

namespace {

enum {
    MACHINE = 224,
    FLOAT_MODE = 0xf0, /* to the nearest, with denormal numbers */
    NOTE_METADATA = 32
};

struct descriptor_t {
    uint32_t lds_bytes, stack_bytes, kernarg_bytes, reserved0;
    int64_t entry; /* from here */
    uint8_t reserved1[20];
    uint32_t rsrc3, rsrc1, rsrc2;
    uint16_t properties, preload;
    uint8_t reserved2[4];
};
static_assert(sizeof(descriptor_t) == 64, "a descriptor of 64 bytes");

struct reader_t {
    amdgpu_object_t *object;
    const Elf64_Ehdr *header;
    char *error;
    size_t error_bytes;
};

bool refuse(const reader_t *reader, const char *what)
{
    snprintf(reader->error, reader->error_bytes, "%s", what);
    return false;
}

const Elf64_Shdr *find_section(const reader_t *reader, const char *name)
{
    const uint8_t *image = reader->object->image;
    const Elf64_Shdr *sections = (const Elf64_Shdr *)(const void *)(image + reader->header->e_shoff);
    const char *names = (const char *)image + sections[reader->header->e_shstrndx].sh_offset;
    for (unsigned s = 0; s < reader->header->e_shnum; s++)
        if (strcmp(names + sections[s].sh_name, name) == 0)
            return &sections[s];
    return nullptr;
}

bool load_segments(const reader_t *reader)
{
    amdgpu_object_t *object = reader->object;
    const Elf64_Phdr *segment = (const Elf64_Phdr *)(const void *)(object->image + reader->header->e_phoff);
    for (unsigned s = 0; s < reader->header->e_phnum; s++)
        if (segment[s].p_type == PT_LOAD && segment[s].p_vaddr + segment[s].p_memsz > object->memory_bytes)
            object->memory_bytes = segment[s].p_vaddr + segment[s].p_memsz;
    void *memory = mmap(nullptr, object->memory_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return refuse(reader, "no memory for its segments");
    object->memory = (uint8_t *)memory;
    for (unsigned s = 0; s < reader->header->e_phnum; s++)
        if (segment[s].p_type == PT_LOAD)
            memcpy(object->memory + segment[s].p_vaddr, object->image + segment[s].p_offset, segment[s].p_filesz);
    const Elf64_Shdr *text = find_section(reader, ".text"), *relocations = find_section(reader, ".rela.dyn");
    if (!text || relocations)
        return refuse(reader, text ? "it has relocations" : "it has no code");
    object->text = object->memory + text->sh_addr;
    object->text_bytes = text->sh_size;
    return true;
}

/* What a descriptor asks for, as far as it can be had. */
bool read_descriptor(const reader_t *reader, const descriptor_t *from, amdgpu_kernel_t *kernel)
{
    const unsigned known = AMDGPU_WANTS_BUFFER | AMDGPU_WANTS_PACKET | AMDGPU_WANTS_KERNARG;
    if (from->stack_bytes > 0)
        return refuse(reader, "a kernel wants a stack");
    if ((from->rsrc1 >> 12 & 0xff) != FLOAT_MODE)
        return refuse(reader, "a kernel wants another mode of floats");
    if ((from->properties & 0x7f & ~known) || from->preload || (from->rsrc2 & (1u << 8 | 1u << 9 | 1u << 10)))
        return refuse(reader, "a kernel wants registers set that are not known");
    kernel->lds_bytes = from->lds_bytes;
    kernel->kernarg_bytes = from->kernarg_bytes;
    kernel->nvgprs = ((from->rsrc1 & 63) + 1) * 8;
    kernel->properties = from->properties;
    kernel->wants_block = from->rsrc2 >> 7 & 1;
    kernel->entry = (uintptr_t)from + (uintptr_t)from->entry;
    return true;
}

bool read_kernels(const reader_t *reader)
{
    amdgpu_object_t *object = reader->object;
    const Elf64_Shdr *table = find_section(reader, ".dynsym"), *strings = find_section(reader, ".dynstr");
    if (!table || !strings)
        return refuse(reader, "it has no symbols");
    const Elf64_Sym *symbol = (const Elf64_Sym *)(const void *)(object->image + table->sh_offset);
    for (size_t s = 0; s < table->sh_size / sizeof *symbol; s++) {
        const char *name = (const char *)object->image + strings->sh_offset + symbol[s].st_name;
        const size_t length = strlen(name);
        amdgpu_kernel_t *kernel = &object->kernel[object->nkernels];
        if (length < 4 || strcmp(name + length - 3, ".kd") != 0)
            continue;
        if (object->nkernels == AMDGPU_KERNELS)
            return refuse(reader, "it has too many kernels");
        snprintf(kernel->name, sizeof kernel->name, "%.*s", (int)(length - 3), name);
        kernel->object = object;
        if (!read_descriptor(reader, (const descriptor_t *)(const void *)(object->memory + symbol[s].st_value), kernel))
            return false;
        object->nkernels++;
    }
    return object->nkernels > 0 || refuse(reader, "it has no kernel");
}

bool read_notes(const reader_t *reader)
{
    amdgpu_object_t *object = reader->object;
    const Elf64_Shdr *notes = find_section(reader, ".note");
    for (size_t at = 0; notes && at + sizeof(Elf64_Nhdr) <= notes->sh_size;) {
        Elf64_Nhdr note;
        memcpy(&note, object->image + notes->sh_offset + at, sizeof note);
        const size_t data = at + sizeof note + (note.n_namesz + 3) / 4 * 4;
        if (note.n_type == NOTE_METADATA)
            return amdgpu_metadata_read(object->image + notes->sh_offset + data, note.n_descsz, object->kernel,
                                        object->nkernels) ||
                   refuse(reader, "its metadata cannot be read");
        at = data + (note.n_descsz + 3) / 4 * 4;
    }
    return refuse(reader, "it has no metadata");
}

bool read_object(const reader_t *reader)
{
    amdgpu_object_t *object = reader->object;
    if (memcmp(reader->header->e_ident, ELFMAG, SELFMAG) != 0 || reader->header->e_machine != MACHINE)
        return refuse(reader, "it is no code object");
    if (!amdgpu_text_open(reader->error, reader->error_bytes))
        return false;
    if (!load_segments(reader) || !read_kernels(reader) || !read_notes(reader))
        return false;
    object->inst = (amdgpu_inst_t **)calloc(object->text_bytes / 4, sizeof *object->inst);
    object->executed = amdgpu_coverage_open(object, object->text_bytes / 4);
    return (object->inst && object->executed) || refuse(reader, "no memory");
}

} // namespace

amdgpu_object_t *amdgpu_object_load(const void *image, const char *arch, char *error_out, size_t error_bytes)
{
    amdgpu_object_t *object = (amdgpu_object_t *)calloc(1, sizeof *object);
    const reader_t reader = {object, (const Elf64_Ehdr *)image, error_out, error_bytes};
    if (!object) {
        snprintf(error_out, error_bytes, "no memory");
        return nullptr;
    }
    snprintf(object->arch, sizeof object->arch, "%s", arch);
    object->image = (const uint8_t *)image;
    if (read_object(&reader))
        return object;
    amdgpu_object_free(object);
    return nullptr;
}

void amdgpu_object_free(amdgpu_object_t *object)
{
    for (size_t i = 0; object->inst && i < object->text_bytes / 4; i++)
        free(object->inst[i]);
    free(object->inst);
    if (object->executed)
        amdgpu_coverage_close(object->executed, object->text_bytes / 4);
    if (object->memory)
        munmap(object->memory, object->memory_bytes);
    free(object);
}

const amdgpu_kernel_t *amdgpu_kernel_find(const amdgpu_object_t *object, const char *name)
{
    for (unsigned k = 0; k < object->nkernels; k++)
        if (strcmp(object->kernel[k].name, name) == 0)
            return &object->kernel[k];
    return nullptr;
}

size_t amdgpu_kernel_arg_bytes(const amdgpu_kernel_t *kernel)
{
    return kernel->arg_bytes;
}
