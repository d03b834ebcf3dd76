/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * PPM is a line of text and the bytes of the pixels. PNG (ISO/IEC 15948) wraps them in chunks with a CRC-32, as a zlib
 * stream (RFC 1950) that holds them uncompressed, in blocks of at most 65535 bytes (RFC 1951, 3.2.4).
 */
#include "picture.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STORED_MAX = 65535 };

/* The colours between which is interpolated, from low to high. */
static const unsigned char map[][3] = {{24, 16, 96}, {32, 96, 208}, {48, 176, 128}, {248, 216, 64}, {200, 24, 32}};

static void colour(double t, unsigned char rgb[3])
{
    const int last = (int)(sizeof map / sizeof map[0]) - 1;
    if (t != t) {
        memset(rgb, 128, 3);
        return;
    }
    t = t < 0 ? 0 : t > 1 ? 1 : t;
    int k = t < 1 ? (int)(t * last) : last - 1;
    double part = t * last - k;
    for (int c = 0; c < 3; c++)
        rgb[c] = (unsigned char)(map[k][c] + part * (map[k + 1][c] - map[k][c]) + 0.5);
}

static uint32_t crc32_of(uint32_t crc, const unsigned char *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++)
            crc = (crc >> 1) ^ (0xedb88320u & (0u - (crc & 1)));
    }
    return crc;
}

static void big_endian(uint32_t value, unsigned char *to)
{
    for (int i = 0; i < 4; i++)
        to[i] = (unsigned char)(value >> (24 - 8 * i));
}

/* A chunk: length, type, contents, CRC of the latter two. What fails shows in ferror(). */
static void write_chunk(FILE *file, const char *type, const unsigned char *contents, uint32_t count)
{
    unsigned char head[8], tail[4];
    big_endian(count, head);
    memcpy(head + 4, type, 4);
    big_endian(~crc32_of(crc32_of(~0u, head + 4, 4), contents, count), tail);
    fwrite(head, 1, sizeof head, file);
    fwrite(contents, 1, count, file);
    fwrite(tail, 1, sizeof tail, file);
}

/* The bytes as a zlib stream of stored blocks; `to` has room for them, 5 bytes per block, and 6. Returns its length. */
static size_t store(const unsigned char *bytes, size_t count, unsigned char *to)
{
    unsigned char *start = to;
    uint32_t a = 1, b = 0;
    *to++ = 0x78;
    *to++ = 0x01;
    for (size_t done = 0; done < count;) {
        size_t part = count - done < STORED_MAX ? count - done : STORED_MAX;
        *to++ = done + part == count;
        *to++ = (unsigned char)part;
        *to++ = (unsigned char)(part >> 8);
        *to++ = (unsigned char)~part;
        *to++ = (unsigned char)(~part >> 8);
        memcpy(to, bytes + done, part);
        to += part;
        done += part;
    }
    for (size_t i = 0; i < count; i++) {
        a = (a + bytes[i]) % 65521;
        b = (b + a) % 65521;
    }
    big_endian(b << 16 | a, to);
    return (size_t)(to - start) + 4;
}

/* `rows` holds a byte (no filter) and the pixels of each row. Returns 0, or -1 if there is no memory. */
static int write_png(FILE *file, const unsigned char *rows, int width, int height)
{
    static const unsigned char signature[8] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
    unsigned char header[13] = {[8] = 8, [9] = 2}; /* 8 bits a sample, red green blue */
    size_t bytes = (size_t)height * (1 + 3 * (size_t)width);
    unsigned char *stream = malloc(bytes + 5 * (bytes / STORED_MAX + 1) + 6);
    if (stream == NULL)
        return -1;
    big_endian((uint32_t)width, header);
    big_endian((uint32_t)height, header + 4);
    fwrite(signature, 1, sizeof signature, file);
    write_chunk(file, "IHDR", header, sizeof header);
    write_chunk(file, "IDAT", stream, (uint32_t)store(rows, bytes, stream));
    write_chunk(file, "IEND", stream, 0);
    free(stream);
    return 0;
}

static void write_ppm(FILE *file, const unsigned char *rows, int width, int height)
{
    fprintf(file, "P6\n%d %d\n255\n", width, height);
    for (int y = 0; y < height; y++)
        fwrite(rows + (size_t)y * (1 + 3 * (size_t)width) + 1, 3, (size_t)width, file);
}

static int write_rows(const char *name, const unsigned char *rows, int width, int height)
{
    size_t length = strlen(name);
    int failed = 0;
    FILE *file = fopen(name, "wb");
    if (file == NULL)
        return -1;
    if (length >= 4 && strcmp(name + length - 4, ".png") == 0)
        failed = write_png(file, rows, width, height);
    else
        write_ppm(file, rows, width, height);
    failed |= ferror(file);
    return fclose(file) != 0 || failed ? -1 : 0;
}

int picture_write(const char *file, const double *values, int width, int height, double low, double high)
{
    size_t row = 1 + 3 * (size_t)width;
    unsigned char *rows = calloc((size_t)height, row);
    if (rows == NULL)
        return -1;
    for (int y = 0; y < height; y++)
        for (int x = 0; x < width; x++)
            colour((values[(size_t)y * (size_t)width + (size_t)x] - low) / (high - low),
                   rows + (size_t)y * row + 1 + 3 * (size_t)x);
    int failed = write_rows(file, rows, width, height), saved = errno;
    free(rows);
    errno = saved;
    return failed;
}
