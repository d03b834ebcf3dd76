/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Takes MPI's datatypes apart, by envelope and contents down to the predefined ones, and builds a map from the parts.
 * Extents are always MPI's own, so that whatever resized a type (bounds, padding of structs) needs no thought here.
 * Handles that MPI gives out with the contents are freed if they are derived, and never if they are predefined. Types
 * that were made with large counts (MPI 4) have these in an array of their own. Here all arguments are one array, in
 * the order of the constructor.
 */
#include "wire/wire_mpi_datatype.h"

#include <stdbool.h>

#include "base/base_memory.h"
#include "base/base_status.h"
#include "wire/wire_mpi_private.h"

/* What a type was made of. */
typedef struct contents {
    int combiner;
    size_t narguments, ntypes;
    int64_t *arguments; /* integers, then addresses */
    MPI_Datatype *types;
} contents_t;

#if MPI_VERSION >= 4
typedef MPI_Count envelope_count_t;
#else
typedef int envelope_count_t;
#endif

/* What MPI fills. */
typedef struct envelope {
    envelope_count_t nints, naddresses, nlarge, ntypes;
    int combiner;
    int *ints;
    MPI_Aint *addresses;
    MPI_Count *large;
} envelope_t;

static selvage_status_t get_envelope(MPI_Datatype type, envelope_t *e)
{
    *e = (envelope_t){0};
#if MPI_VERSION >= 4
    int code = PMPI_Type_get_envelope_c(type, &e->nints, &e->naddresses, &e->nlarge, &e->ntypes, &e->combiner);
#else
    int code = PMPI_Type_get_envelope(type, &e->nints, &e->naddresses, &e->ntypes, &e->combiner);
#endif
    return code == MPI_SUCCESS ? SELVAGE_SUCCESS : sv_wire_mpi_error(code, "MPI_Type_get_envelope");
}

/* Predefined, or made by MPI_Type_create_f90_...: has no parts and is never freed. */
static bool is_basic(int combiner)
{
    return combiner == MPI_COMBINER_NAMED || combiner == MPI_COMBINER_F90_REAL ||
           combiner == MPI_COMBINER_F90_COMPLEX || combiner == MPI_COMBINER_F90_INTEGER;
}

static void close_contents(contents_t *c)
{
    MPI_Datatype basic = MPI_DATATYPE_NULL; /* the last one that was seen: members are often of one type */
    envelope_t e;
    for (size_t i = 0; c->types && i < c->ntypes; i++) {
        if (c->types[i] == MPI_DATATYPE_NULL || c->types[i] == basic ||
            get_envelope(c->types[i], &e) != SELVAGE_SUCCESS)
            continue;
        if (is_basic(e.combiner))
            basic = c->types[i];
        else
            PMPI_Type_free(&c->types[i]);
    }
    sv_free(c->types);
    sv_free(c->arguments);
}

/* Takes a type apart. Partner: close_contents(), also after an error. */
static selvage_status_t open_contents(MPI_Datatype type, contents_t *c)
{
    envelope_t e;
    MPI_Datatype *types = NULL;
    selvage_status_t status;
    *c = (contents_t){0};
    SV_TRY(get_envelope(type, &e));
    *c = (contents_t){.combiner = e.combiner, .ntypes = (size_t)e.ntypes,
                      .narguments = (size_t)(e.nints + e.naddresses + e.nlarge)};
    if (is_basic(e.combiner))
        return SELVAGE_SUCCESS;
    SV_TRY_GOTO(status, sv_calloc((size_t)e.nints, sizeof *e.ints, &e.ints), out);
    SV_TRY_GOTO(status, sv_calloc((size_t)e.naddresses, sizeof *e.addresses, &e.addresses), out);
    SV_TRY_GOTO(status, sv_calloc((size_t)e.nlarge, sizeof *e.large, &e.large), out);
    SV_TRY_GOTO(status, sv_calloc(c->narguments, sizeof *c->arguments, &c->arguments), out);
    SV_TRY_GOTO(status, sv_calloc(c->ntypes, sizeof *types, &types), out);
#if MPI_VERSION >= 4
    int code = PMPI_Type_get_contents_c(type, e.nints, e.naddresses, e.nlarge, e.ntypes, e.ints, e.addresses, e.large,
                                        types);
#else
    int code = PMPI_Type_get_contents(type, e.nints, e.naddresses, e.ntypes, e.ints, e.addresses, types);
#endif
    if (code != MPI_SUCCESS) {
        status = sv_wire_mpi_error(code, "MPI_Type_get_contents");
        goto out;
    }
    c->types = types;
    types = NULL;
    /* Of a subarray with large counts, the order is the second integer and yet the last argument. */
    size_t n = 0, nints = (size_t)e.nints, last = e.nlarge > 0 && nints > 1 ? nints - 1 : nints;
    for (size_t i = 0; i < last; i++)
        c->arguments[n++] = e.ints[i];
    for (envelope_count_t i = 0; i < e.nlarge; i++)
        c->arguments[n++] = e.large[i];
    for (size_t i = last; i < nints; i++)
        c->arguments[n++] = e.ints[i];
    for (envelope_count_t i = 0; i < e.naddresses; i++)
        c->arguments[n++] = e.addresses[i];
out:
    sv_free(types);
    sv_free(e.ints);
    sv_free(e.addresses);
    sv_free(e.large);
    return status;
}

static selvage_status_t flatten_into(MPI_Datatype type, sv_type_map_t *map);

/* Writes the map of the constructor's inner type with this number into an empty one, and gives its extent. */
static selvage_status_t flatten_inner(const contents_t *c, size_t i, sv_type_map_t *map, int64_t *extent_out)
{
    MPI_Count low, extent;
    SV_TRY(flatten_into(c->types[i], map));
    int code = PMPI_Type_get_extent_x(c->types[i], &low, &extent);
    if (code != MPI_SUCCESS)
        return sv_wire_mpi_error(code, "MPI_Type_get_extent_x");
    *extent_out = extent;
    return SELVAGE_SUCCESS;
}

static selvage_status_t multiply_checked(int64_t a, int64_t b, int64_t *product_out)
{
    if (__builtin_mul_overflow(a, b, product_out))
        return sv_error_quiet(SELVAGE_ERR_ARGUMENT, "a displacement or size is beyond 2^63 bytes");
    return SELVAGE_SUCCESS;
}

/* count, blocklengths (or one for all), displacements in elements or bytes */
static selvage_status_t flatten_indexed(const contents_t *c, sv_type_map_t *map)
{
    const bool one_length = c->combiner == MPI_COMBINER_INDEXED_BLOCK || c->combiner == MPI_COMBINER_HINDEXED_BLOCK;
    const bool in_bytes = c->combiner == MPI_COMBINER_HINDEXED || c->combiner == MPI_COMBINER_HINDEXED_BLOCK;
    const int64_t count = c->arguments[0], *lengths = c->arguments + 1;
    const int64_t *displacement = lengths + (one_length ? 1 : count);
    sv_type_map_t element = {0}, block = {0};
    uint64_t made = 0; /* the length of the block that was made last */
    int64_t extent;
    selvage_status_t status;
    SV_TRY_GOTO(status, flatten_inner(c, 0, &element, &extent), out);
    for (int64_t i = 0; i < count; i++) {
        int64_t offset = displacement[i];
        const uint64_t length = (uint64_t)lengths[one_length ? 0 : i];
        if (!in_bytes)
            SV_TRY_GOTO(status, multiply_checked(offset, extent, &offset), out);
        if (length != made) {
            sv_type_map_clear(&block);
            SV_TRY_GOTO(status, sv_type_map_add_map(&block, &element, 0), out);
            SV_TRY_GOTO(status, sv_type_map_repeat(&block, length, extent), out);
            made = length;
        }
        SV_TRY_GOTO(status, sv_type_map_add_map(map, &block, offset), out);
    }
    status = sv_type_map_compress(map);
out:
    sv_type_map_fini(&block);
    sv_type_map_fini(&element);
    return status;
}

/* count, blocklengths, displacements in bytes. Members of no length are left out unseen: their type may be anything.
   Members in a row are often alike, and then taken apart once. */
static selvage_status_t flatten_struct(const contents_t *c, sv_type_map_t *map)
{
    const int64_t count = c->arguments[0], *length = c->arguments + 1, *displacement = length + count;
    sv_type_map_t member = {0};
    int64_t made = -1; /* the number of the member that is there */
    selvage_status_t status = SELVAGE_SUCCESS;
    for (int64_t i = 0; i < count; i++) {
        int64_t extent;
        if (length[i] == 0)
            continue;
        if (made < 0 || c->types[i] != c->types[made] || length[i] != length[made]) {
            sv_type_map_clear(&member);
            SV_TRY_GOTO(status, flatten_inner(c, (size_t)i, &member, &extent), out);
            SV_TRY_GOTO(status, sv_type_map_repeat(&member, (uint64_t)length[i], extent), out);
            made = i;
        }
        SV_TRY_GOTO(status, sv_type_map_add_map(map, &member, displacement[i]), out);
    }
    status = sv_type_map_compress(map);
out:
    sv_type_map_fini(&member);
    return status;
}

/* ndims, sizes, subsizes, starts, order: a dimension at a time, from the one whose elements are neighbours. */
static selvage_status_t flatten_subarray(const contents_t *c, sv_type_map_t *map)
{
    const int64_t n = c->arguments[0], *size = c->arguments + 1, *subsize = size + n, *start = subsize + n;
    const bool last_first = start[n] == MPI_ORDER_C;
    int64_t stride, first = 0, whole;
    SV_TRY(flatten_inner(c, 0, map, &stride));
    for (int64_t i = 0; i < n; i++) {
        const int64_t d = last_first ? n - 1 - i : i;
        SV_TRY(multiply_checked(stride, size[d], &whole));
        SV_TRY(sv_type_map_repeat(map, (uint64_t)subsize[d], stride));
        first += start[d] * stride; /* less than the whole */
        stride = whole;
    }
    return sv_type_map_shift(map, first);
}

/* One without gaps is a run. There is one with a gap: MPI_SHORT_INT. */
static selvage_status_t flatten_basic(MPI_Datatype type, sv_type_map_t *map)
{
    struct short_int { short value; int index; };
    MPI_Count bytes, low, extent;
    int code = PMPI_Type_size_x(type, &bytes);
    if (code == MPI_SUCCESS)
        code = PMPI_Type_get_true_extent_x(type, &low, &extent);
    if (code != MPI_SUCCESS)
        return sv_wire_mpi_error(code, "MPI_Type_size_x");
    if (bytes == 0 || bytes == extent)
        return sv_type_map_add_run(map, bytes ? low : 0, (uint64_t)bytes);
    if (type != MPI_SHORT_INT)
        return sv_error_quiet(SELVAGE_ERR_UNSUPPORTED, "a predefined type of %lld bytes that span %lld",
                              (long long)bytes, (long long)extent);
    SV_TRY(sv_type_map_add_run(map, offsetof(struct short_int, value), sizeof(short)));
    return sv_type_map_add_run(map, offsetof(struct short_int, index), sizeof(int));
}

static selvage_status_t flatten_derived(const contents_t *c, sv_type_map_t *map)
{
    int64_t extent, stride_bytes;
    switch (c->combiner) {
    case MPI_COMBINER_DUP:
    case MPI_COMBINER_RESIZED: return flatten_into(c->types[0], map);
    case MPI_COMBINER_CONTIGUOUS: /* count */
        SV_TRY(flatten_inner(c, 0, map, &extent));
        return sv_type_map_repeat(map, (uint64_t)c->arguments[0], extent);
    case MPI_COMBINER_VECTOR:
    case MPI_COMBINER_HVECTOR: /* count, blocklength, stride in elements or bytes */
        stride_bytes = c->arguments[2];
        SV_TRY(flatten_inner(c, 0, map, &extent));
        if (c->combiner == MPI_COMBINER_VECTOR)
            SV_TRY(multiply_checked(stride_bytes, extent, &stride_bytes));
        SV_TRY(sv_type_map_repeat(map, (uint64_t)c->arguments[1], extent));
        return sv_type_map_repeat(map, (uint64_t)c->arguments[0], stride_bytes);
    case MPI_COMBINER_INDEXED:
    case MPI_COMBINER_HINDEXED:
    case MPI_COMBINER_INDEXED_BLOCK:
    case MPI_COMBINER_HINDEXED_BLOCK: return flatten_indexed(c, map);
    case MPI_COMBINER_STRUCT: return flatten_struct(c, map);
    case MPI_COMBINER_SUBARRAY: return flatten_subarray(c, map);
    case MPI_COMBINER_DARRAY:
        return sv_error_quiet(SELVAGE_ERR_UNSUPPORTED, "MPI_COMBINER_DARRAY in it is not supported");
    default:
        return sv_error_quiet(SELVAGE_ERR_UNSUPPORTED, "a constructor in it, number %d of this MPI, is not supported",
                              c->combiner);
    }
}

/* Into an empty map. */
static selvage_status_t flatten_into(MPI_Datatype type, sv_type_map_t *map)
{
    contents_t c;
    if (type == MPI_DATATYPE_NULL)
        return sv_error_quiet(SELVAGE_ERR_ARGUMENT, "it is MPI_DATATYPE_NULL, or made of it");
    selvage_status_t status = open_contents(type, &c);
    if (status == SELVAGE_SUCCESS)
        status = is_basic(c.combiner) ? flatten_basic(type, map) : flatten_derived(&c, map);
    close_contents(&c);
    return status;
}

bool sv_wire_mpi_is_usable(void)
{
    int initialised = 0, finalised = 0;
    PMPI_Initialized(&initialised);
    if (initialised)
        PMPI_Finalized(&finalised);
    return initialised && !finalised;
}

selvage_status_t sv_wire_mpi_flatten(const char *call, uint64_t count, MPI_Datatype type, sv_type_map_t *map_out)
{
    sv_type_map_t map = {0};
    MPI_Count bytes, low, extent;
    selvage_status_t status;
    if (!sv_wire_mpi_is_usable())
        return sv_error(SELVAGE_ERR_STATE, "%s: MPI is not initialised, or finalised already", call);
    SV_TRY_GOTO(status, flatten_into(type, &map), fail);
    int code = PMPI_Type_get_extent_x(type, &low, &extent);
    if (code == MPI_SUCCESS)
        code = PMPI_Type_size_x(type, &bytes);
    if (code != MPI_SUCCESS) {
        status = sv_wire_mpi_error(code, "MPI_Type_size_x");
        goto fail;
    }
    if ((uint64_t)bytes != map.bytes) {
        status = sv_error_quiet(SELVAGE_ERR_INTERNAL, "%llu bytes were found of a type that has %lld",
                                (unsigned long long)map.bytes, (long long)bytes);
        goto fail;
    }
    SV_TRY_GOTO(status, sv_type_map_repeat(&map, count, extent), fail);
    *map_out = map;
    return SELVAGE_SUCCESS;
fail:
    sv_type_map_fini(&map);
    if (status != SELVAGE_ERR_ARGUMENT && status != SELVAGE_ERR_LIMIT && status != SELVAGE_ERR_UNSUPPORTED &&
        status != SELVAGE_ERR_INTERNAL)
        return status;
    /* What was found has a detail, but is not on the log: here it gets the names of the call and the type. A type that
       cannot be taken apart stays off the log: whoever asks may have another way, as the drop-in has. */
    char name[MPI_MAX_OBJECT_NAME + 1] = "";
    int length = 0;
    if (type != MPI_DATATYPE_NULL)
        PMPI_Type_get_name(type, name, &length);
    return (status == SELVAGE_ERR_UNSUPPORTED ? sv_error_quiet : sv_error)(
        status, "%s: type%s%s: %s", call, length ? " " : "", name, selvage_error_detail());
}

size_t sv_wire_mpi_plain_bytes(MPI_Datatype type)
{
    const struct {
        MPI_Datatype type;
        size_t bytes;
    } plain[] = {{MPI_BYTE, 1},
                 {MPI_CHAR, 1},
                 {MPI_DOUBLE, sizeof(double)},
                 {MPI_FLOAT, sizeof(float)},
                 {MPI_INT, sizeof(int)},
                 {MPI_INT64_T, sizeof(int64_t)},
                 {MPI_UINT64_T, sizeof(uint64_t)},
                 {MPI_LONG, sizeof(long)},
                 {MPI_C_DOUBLE_COMPLEX, 2 * sizeof(double)},
                 {MPI_C_FLOAT_COMPLEX, 2 * sizeof(float)}};
    for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++)
        if (plain[i].type == type)
            return plain[i].bytes;
    return 0;
}
