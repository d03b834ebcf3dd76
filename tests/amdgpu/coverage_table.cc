/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coverage_table [-l|-w] FOLDER ARCH FILE...: which share of the instructions of code objects has run, as the
 * interpreter has noted in FOLDER (AMDGPU_COVERAGE). A line for each file, and one for all. With -l also the
 * instructions that have not run, each with its address; with -w those waits for memory that have, and nothing else.
 * What fills up the code after its last instruction is not counted. Of what has not run, long divisions are counted
 * apart: what the compiler makes of a division of 64 bits for operands above 32, without a branch, which a kernel needs
 * for packets of more than 4 GiB. The status is 1 if an instruction is unknown to the interpreter, and 77 if there is
 * no disassembler, which is all that it says without arguments.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "amdgpu/amdgpu_coverage.h"
#include "amdgpu/amdgpu_wave.h"

namespace {

struct counts_t {
    unsigned long all, executed, unknown, divisions;
};

/* Instructions in a row that have not run, up to the next branch. */
struct stretch_t {
    unsigned long length;
    bool divides; /* the reciprocal of 64 bits is scaled by nearly 2^64, which nothing else here is */
};

uint8_t *read_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        return nullptr;
    fseek(file, 0, SEEK_END);
    const long bytes = ftell(file);
    rewind(file);
    uint8_t *data = bytes > 0 ? (uint8_t *)malloc((size_t)bytes) : nullptr;
    if (data && fread(data, 1, (size_t)bytes, file) != (size_t)bytes) {
        free(data);
        data = nullptr;
    }
    fclose(file);
    return data;
}

/* Where the last instruction ends: after it there is nothing but s_nop and what is no instruction. */
uintptr_t find_end(const amdgpu_object_t *object)
{
    const uintptr_t text = (uintptr_t)object->text;
    uintptr_t end = text;
    char line[256];
    for (uintptr_t pc = text; pc < text + object->text_bytes;) {
        const size_t bytes = amdgpu_disassemble(object, pc, line, sizeof line);
        pc += bytes > 0 ? bytes : 4;
        if (bytes > 0 && !strstr(line, "s_nop"))
            end = pc;
    }
    return end;
}

void add_to_stretch(stretch_t *stretch, bool executed, const char *line, counts_t *counts)
{
    if (executed || strstr(line, "s_cbranch") || strstr(line, "s_branch")) {
        counts->divisions += stretch->divides ? stretch->length : 0;
        *stretch = {0, false};
        return;
    }
    stretch->length++;
    stretch->divides = stretch->divides || strstr(line, "0x5f7ffffc");
}

/* lists: 'l' or 'w', as the options. */
counts_t count_object(const amdgpu_object_t *object, char lists)
{
    counts_t counts = {0, 0, 0, 0};
    stretch_t stretch = {0, false};
    const uintptr_t text = (uintptr_t)object->text, end = find_end(object);
    char line[256];
    for (uintptr_t pc = text; pc < end;) {
        const size_t bytes = amdgpu_disassemble(object, pc, line, sizeof line);
        const bool executed = object->executed[(pc - text) / 4];
        counts.all++;
        counts.executed += executed;
        add_to_stretch(&stretch, executed, line, &counts);
        char *mnemonic = line + strspn(line, " \t"), *rest = mnemonic + strcspn(mnemonic, " \t");
        if ((lists == 'l' && !executed) || (lists == 'w' && executed && strstr(line, "s_waitcnt")))
            printf("    0x%lx%s\n", (unsigned long)(pc - (uintptr_t)object->memory), line);
        *rest = '\0';
        counts.unknown += bytes == 0 || !amdgpu_row_find(mnemonic);
        pc += bytes > 0 ? bytes : 4;
    }
    return counts;
}

void print_counts(const char *name, const char *arch, const counts_t &counts)
{
    const unsigned long rest = counts.all - counts.divisions;
    printf("%-28s %-7s %7lu instructions, %7lu executed, %5.1f %%, without %lu of long divisions %5.1f %%, "
           "%lu unknown\n",
           name, arch, counts.all, counts.executed,
           counts.all ? 100.0 * (double)counts.executed / (double)counts.all : 0.0, counts.divisions,
           rest ? 100.0 * (double)counts.executed / (double)rest : 0.0, counts.unknown);
}

} // namespace

int main(int argc, char **argv)
{
    const bool option = argc > 1 && (strcmp(argv[1], "-l") == 0 || strcmp(argv[1], "-w") == 0);
    const char lists = option ? argv[1][1] : '\0';
    const int first = lists ? 2 : 1;
    counts_t total = {0, 0, 0, 0};
    char error[256];
    if (!amdgpu_text_open(error, sizeof error)) {
        printf("SKIP: %s\n", error);
        return 77;
    }
    if (argc == 1)
        return 0;
    if (argc < first + 3) {
        fprintf(stderr, "usage: %s [-l|-w] FOLDER ARCH FILE...\n", argv[0]);
        return 2;
    }
    setenv("AMDGPU_COVERAGE", argv[first], 1);
    for (int a = first + 2; a < argc; a++) {
        snprintf(error, sizeof error, "it cannot be read");
        uint8_t *image = read_file(argv[a]);
        amdgpu_object_t *object =
            image ? amdgpu_object_load(image, argv[first + 1], error, sizeof error) : nullptr;
        if (!object) {
            fprintf(stderr, "%s: %s\n", argv[a], error);
            return 1;
        }
        const counts_t counts = count_object(object, lists);
        if (lists != 'w')
            print_counts(object->kernel[0].name, object->arch, counts);
        total.all += counts.all;
        total.executed += counts.executed;
        total.unknown += counts.unknown;
        total.divisions += counts.divisions;
        amdgpu_object_free(object);
        free(image);
    }
    if (lists != 'w')
        print_counts("all", argv[first + 1], total);
    return total.unknown ? 1 : 0;
}
