/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See amdgpu_metadata.h. A reader walks over values without keeping them. The map of a kernel has its arguments before
 * its name, so they are gathered first.
 */
#include <stdio.h>
#include <string.h>

#include "amdgpu/amdgpu_metadata.h"

namespace {

struct reader_t {
    const uint8_t *at, *end;
    bool broken;
};

struct value_t {
    enum { OTHER, NUMBER, TEXT, ARRAY, MAP } kind;
    uint64_t number; /* or how many elements or pairs follow, or how long the text is */
    const char *text;
};

uint64_t take_number(reader_t *reader, unsigned bytes)
{
    uint64_t number = 0;
    if ((size_t)(reader->end - reader->at) < bytes)
        reader->broken = true;
    for (unsigned b = 0; b < bytes && !reader->broken; b++)
        number = number << 8 | *reader->at++;
    return number;
}

value_t take_text(reader_t *reader, uint64_t length)
{
    const char *text = (const char *)reader->at;
    if ((uint64_t)(reader->end - reader->at) < length)
        reader->broken = true;
    else
        reader->at += length;
    return {value_t::TEXT, length, text};
}

/* Elements of arrays and maps are left for the caller. */
value_t take_value(reader_t *reader)
{
    const unsigned tag = (unsigned)take_number(reader, 1);
    if (tag < 0x80)
        return {value_t::NUMBER, tag, nullptr};
    if (tag < 0x90)
        return {value_t::MAP, tag & 15, nullptr};
    if (tag < 0xa0)
        return {value_t::ARRAY, tag & 15, nullptr};
    if (tag < 0xc0)
        return take_text(reader, tag & 31);
    if (tag == 0xc0 || tag == 0xc2 || tag == 0xc3)
        return {value_t::OTHER, 0, nullptr};
    if (tag >= 0xcc && tag <= 0xd3)
        return {value_t::NUMBER, take_number(reader, 1u << (tag - 0xcc) % 4), nullptr};
    if (tag >= 0xd9 && tag <= 0xdb)
        return take_text(reader, take_number(reader, 1u << (tag - 0xd9)));
    if (tag == 0xdc || tag == 0xdd)
        return {value_t::ARRAY, take_number(reader, tag == 0xdc ? 2 : 4), nullptr};
    if (tag == 0xde || tag == 0xdf)
        return {value_t::MAP, take_number(reader, tag == 0xde ? 2 : 4), nullptr};
    reader->broken = tag < 0xe0;
    return {value_t::NUMBER, (uint64_t)(int64_t)(int8_t)tag, nullptr};
}

void skip_value(reader_t *reader)
{
    uint64_t left = 1;
    for (; left > 0 && !reader->broken; left--) {
        const value_t value = take_value(reader);
        if (value.kind == value_t::ARRAY)
            left += value.number;
        if (value.kind == value_t::MAP)
            left += 2 * value.number;
    }
}

bool is(const value_t &value, const char *text)
{
    return value.kind == value_t::TEXT && value.number == strlen(text) && memcmp(value.text, text, value.number) == 0;
}

/* Calls visit(key) for each pair of a map, which takes the value. */
template <class F> void for_each_pair(reader_t *reader, F visit)
{
    const value_t map = take_value(reader);
    reader->broken |= map.kind != value_t::MAP;
    for (uint64_t p = 0; p < map.number && !reader->broken; p++)
        visit(take_value(reader));
}

void read_argument(reader_t *reader, amdgpu_kernel_t *kernel)
{
    uint64_t offset = 0, bytes = 0;
    value_t kind = {};
    for_each_pair(reader, [&](const value_t &key) {
        if (is(key, ".offset"))
            offset = take_value(reader).number;
        else if (is(key, ".size"))
            bytes = take_value(reader).number;
        else if (is(key, ".value_kind"))
            kind = take_value(reader);
        else
            skip_value(reader);
    });
    if (kind.kind != value_t::TEXT || bytes == 0 || offset > 4096 || bytes > 4096)
        reader->broken = true;
    else if (kind.number < 7 || memcmp(kind.text, "hidden_", 7) != 0)
        kernel->arg_bytes = (uint32_t)(offset + bytes) > kernel->arg_bytes ? (uint32_t)(offset + bytes)
                                                                           : kernel->arg_bytes;
    else if (kernel->nhidden == AMDGPU_HIDDEN || bytes > 8)
        reader->broken = true;
    else {
        auto &hidden = kernel->hidden[kernel->nhidden++];
        snprintf(hidden.kind, sizeof hidden.kind, "%.*s", (int)kind.number, kind.text);
        hidden.offset = (uint32_t)offset;
        hidden.bytes = (uint32_t)bytes;
    }
}

/* True if it is one that is wanted, and all of its arguments lie where its descriptor has room. */
bool read_kernel(reader_t *reader, amdgpu_kernel_t *kernels, unsigned nkernels)
{
    amdgpu_kernel_t found = {};
    value_t name = {};
    for_each_pair(reader, [&](const value_t &key) {
        if (is(key, ".name")) {
            name = take_value(reader);
        } else if (is(key, ".args")) {
            const value_t arguments = take_value(reader);
            for (uint64_t a = 0; a < arguments.number && !reader->broken; a++)
                read_argument(reader, &found);
        } else {
            skip_value(reader);
        }
    });
    for (unsigned k = 0; k < nkernels; k++)
        if (is(name, kernels[k].name)) {
            kernels[k].arg_bytes = found.arg_bytes;
            kernels[k].nhidden = found.nhidden;
            memcpy(kernels[k].hidden, found.hidden, sizeof found.hidden);
            bool fits = found.arg_bytes <= kernels[k].kernarg_bytes;
            for (unsigned h = 0; h < found.nhidden; h++)
                fits = fits && found.hidden[h].offset + found.hidden[h].bytes <= kernels[k].kernarg_bytes;
            return fits;
        }
    return false;
}

} // namespace

bool amdgpu_metadata_read(const uint8_t *data, size_t bytes, amdgpu_kernel_t *kernels, unsigned nkernels)
{
    reader_t reader = {data, data + bytes, false};
    unsigned found = 0;
    for_each_pair(&reader, [&](const value_t &key) {
        if (!is(key, "amdhsa.kernels")) {
            skip_value(&reader);
            return;
        }
        const value_t list = take_value(&reader);
        for (uint64_t k = 0; k < list.number && !reader.broken; k++)
            found += read_kernel(&reader, kernels, nkernels);
    });
    return !reader.broken && found == nkernels;
}
