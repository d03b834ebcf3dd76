/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file device_pieces.h
 * @brief Part of device_api.h, which includes it: the cells of a halo into a packet, and out of one, in kernels.
 *
 * The arrays are given in the kernel, so that steps inside one kernel may swap them. They have the shape and the
 * alignment of those that the halo was made with.
 */
#ifndef SELVAGE_DEVICE_PIECES_H
#define SELVAGE_DEVICE_PIECES_H

#ifdef __cplusplus
#include <selvage/device_packet.h>

namespace selvage_detail {

SELVAGE_DEVICE_FN uint8_t *unit_place(const selvage_device_piece_t &piece, uint8_t *field, uint32_t unit)
{
    uint8_t *place = field + piece.offset;

    if (piece.offsets) { /* elements of level[0].count units */
        const uint32_t element =
            piece.level[0].count == 1
                ? unit : static_cast<uint32_t>(uint64_t{unit} * piece.level[0].magic >> 32) >> piece.shift[0];
        return place + piece.offsets[element] + uint64_t{unit - element * piece.level[0].count} * piece.granule;
    }
    unit += piece.first_unit;
    SELVAGE_DEVICE_UNROLL
    for (unsigned l = 0; l < 4; l++) {
        if (l < piece.levels) {
            const uint32_t above = static_cast<uint32_t>(uint64_t{unit} * piece.level[l].magic >> 32) >> piece.shift[l];
            place += (unit - above * piece.level[l].count) * piece.level[l].stride;
            unit = above;
        }
    }
    return place + unit * piece.top_stride;
}

/* Where byte b of a piece lies. */
SELVAGE_DEVICE_FN uint8_t *byte_place(const selvage_device_piece_t &piece, uint8_t *field, uint64_t b)
{
    const uint32_t low = static_cast<uint32_t>(b) & (piece.granule - 1);
    return unit_place(piece, field, static_cast<uint32_t>(b / piece.granule)) + low;
}

/* Word w of a piece, with zeros after its end. */
SELVAGE_DEVICE_FN uint64_t word_load(const selvage_device_piece_t &piece, uint8_t *field, uint64_t w)
{
    uint64_t word = 0;

    if (piece.granule >= 8)
        return 8 * w < piece.bytes ? *reinterpret_cast<const uint64_t *>(byte_place(piece, field, 8 * w)) : 0;
    if (piece.granule == 4) {
        for (unsigned half = 0; half < 2; half++)
            if (8 * w + 4 * half < piece.bytes)
                word |= uint64_t{*reinterpret_cast<const uint32_t *>(byte_place(piece, field, 8 * w + 4 * half))}
                        << 32 * half;
        return word;
    }
    for (uint64_t b = 8 * w; b < 8 * w + 8 && b < piece.bytes; b++)
        word |= uint64_t{*byte_place(piece, field, b)} << 8 * (b & 7);
    return word;
}

SELVAGE_DEVICE_FN void word_store(const selvage_device_piece_t &piece, uint8_t *field, uint64_t w, uint64_t word)
{
    if (piece.granule >= 8) {
        if (8 * w < piece.bytes)
            *reinterpret_cast<uint64_t *>(byte_place(piece, field, 8 * w)) = word;
        return;
    }
    if (piece.granule == 4) {
        for (unsigned half = 0; half < 2; half++)
            if (8 * w + 4 * half < piece.bytes)
                *reinterpret_cast<uint32_t *>(byte_place(piece, field, 8 * w + 4 * half)) =
                    static_cast<uint32_t>(word >> 32 * half);
        return;
    }
    for (uint64_t b = 8 * w; b < 8 * w + 8 && b < piece.bytes; b++)
        *byte_place(piece, field, b) = static_cast<uint8_t>(word >> 8 * (b & 7));
}

/* Calls body(piece, word of the piece, word of the packet) for what the calling lane has of a part. */
template <typename BODY>
SELVAGE_DEVICE_FN void each_word(const selvage_device_packet_t &packet, const selvage_coop_t &coop, uint32_t part,
                                 uint32_t parts, const BODY &body)
{
    const selvage_share_t share = selvage_packet_share(packet.bytes, part, parts);
    const uint64_t begin = share.offset / 8, end = begin + share.bytes / 8;

    for (uint64_t p = 0; p < packet.npieces; p++) {
        const selvage_device_piece_t &piece = packet.pieces[p];
        const uint64_t first = piece.first_word, words = (piece.bytes + 15) / 16 * 2;
        if (first >= end)
            return;
        const uint64_t stop = end - first < words ? end - first : words;
        for (uint64_t w = (begin > first ? begin - first : 0) + coop.lane; w < stop; w += coop.lanes)
            body(piece, w, first + w);
    }
}

/* Not lambdas, which nvcc wants an option for. */
template <typename FIELDS>
struct gather_word {
    selvage_outgoing_t *out;
    FIELDS fields;
    SELVAGE_DEVICE_METHOD void operator()(const selvage_device_piece_t &piece, uint64_t w, uint64_t at) const
    {
        selvage_outgoing_store(*out, 8 * at, word_load(piece, fields(piece.base - 1), w));
    }
};

template <typename FIELDS>
struct scatter_word {
    selvage_incoming_t *in;
    FIELDS fields;
    SELVAGE_DEVICE_METHOD void operator()(const selvage_device_piece_t &piece, uint64_t w, uint64_t at) const
    {
        word_store(piece, fields(piece.base - 1), w, selvage_incoming_load<uint64_t>(*in, 8 * at));
    }
};

struct one_field {
    uint8_t *field;
    SELVAGE_DEVICE_METHOD uint8_t *operator()(uint32_t) const
    {
        return field;
    }
};

struct many_fields {
    void *const *fields;
    SELVAGE_DEVICE_METHOD uint8_t *operator()(uint32_t i) const
    {
        return static_cast<uint8_t *>(fields[i]);
    }
};

} // namespace selvage_detail

/** @brief Fills a packet of the halo of one field, or this part of it, with its cells. All threads of the coop call. */
SELVAGE_DEVICE_FN void selvage_outgoing_gather(const selvage_device_exchange_t &h, const selvage_coop_t &coop,
                                               selvage_outgoing_t &out, const void *field)
{
    using namespace selvage_detail;
    uint8_t *const at = const_cast<uint8_t *>(static_cast<const uint8_t *>(field)); /* only read */
    if (out.slot)
        each_word(h.sends[out.index], coop, out.part, out.parts, gather_word<one_field>{&out, {at}});
}

/** @brief The same of several fields: one pointer each, in their order, in memory of the device. */
SELVAGE_DEVICE_FN void selvage_outgoing_gather_fields(const selvage_device_exchange_t &h, const selvage_coop_t &coop,
                                                      selvage_outgoing_t &out, void *const *fields)
{
    using namespace selvage_detail;
    if (out.slot)
        each_word(h.sends[out.index], coop, out.part, out.parts, gather_word<many_fields>{&out, {fields}});
}

/** @brief Brings what came to the halo cells of one field. All threads of the coop call. */
SELVAGE_DEVICE_FN void selvage_incoming_scatter(const selvage_device_exchange_t &h, const selvage_coop_t &coop,
                                                selvage_incoming_t &in, void *field)
{
    using namespace selvage_detail;
    if (in.slot)
        each_word(h.recvs[in.index], coop, in.part, in.parts,
                  scatter_word<one_field>{&in, {static_cast<uint8_t *>(field)}});
}

/** @brief The same of several fields. */
SELVAGE_DEVICE_FN void selvage_incoming_scatter_fields(const selvage_device_exchange_t &h, const selvage_coop_t &coop,
                                                       selvage_incoming_t &in, void *const *fields)
{
    using namespace selvage_detail;
    if (in.slot)
        each_word(h.recvs[in.index], coop, in.part, in.parts, scatter_word<many_fields>{&in, {fields}});
}

#endif
#endif
