/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Faults that are injected on purpose. The specification is read once into numbers; a decision then costs one draw from
 * a small generator. Packet faults belong to whoever drives the engine, one thread at a time. Call faults are counted
 * atomically, because any thread that is bound to the rank may allocate or call the device. A struct that names another
 * rank stays all zero, and injects nothing.
 */
#include "base/base_fault.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/base_parse.h"
#include "base/base_status.h"
#include "base/base_thread.h"

enum { ATTEMPTS_ALL = 255, WORD_BYTES = 64 };

/* A specification as it is read: the outcome and what decides whether it applies here. */
typedef struct reading {
    sv_fault_t fault;
    int64_t rank; /* -1: every rank */
    int64_t seed;
} reading_t;

typedef enum value_type { VALUE_PROBABILITY, VALUE_U32, VALUE_U64, VALUE_INDEX, VALUE_CALL } value_type_t;

typedef struct setting {
    const char *name;
    value_type_t type;
    size_t offset; /* in reading_t; for VALUE_CALL the sv_fault_call_t */
} setting_t;

#define PROBABILITY(name, kind) \
    {name, VALUE_PROBABILITY, offsetof(reading_t, fault.probability) + (kind) * sizeof(double)}

static const setting_t settings[] = {
    PROBABILITY("flip", SV_FAULT_FLIP),
    PROBABILITY("swap", SV_FAULT_SWAP),
    PROBABILITY("replay", SV_FAULT_REPLAY),
    PROBABILITY("truncate", SV_FAULT_TRUNCATE),
    PROBABILITY("drop", SV_FAULT_DROP),
    PROBABILITY("delay", SV_FAULT_DELAY),
    PROBABILITY("duplicate", SV_FAULT_DUPLICATE),
    {"delay_ms", VALUE_U32, offsetof(reading_t, fault.delay_ms)},
    {"attempts", VALUE_U32, offsetof(reading_t, fault.attempts)},
    {"stop_ms", VALUE_U32, offsetof(reading_t, fault.stop_ms)},
    {"only", VALUE_INDEX, offsetof(reading_t, fault.only_index)},
    {"rank", VALUE_INDEX, offsetof(reading_t, rank)},
    {"seed", VALUE_INDEX, offsetof(reading_t, seed)},
    {"stop_epoch", VALUE_U64, offsetof(reading_t, fault.stop_epoch)},
    {"never", VALUE_U64, offsetof(reading_t, fault.never_epoch)},
    {"epochs", VALUE_U64, offsetof(reading_t, fault.epochs)},
    {"graph", VALUE_U64, offsetof(reading_t, fault.graph_epoch)},
    {"alloc", VALUE_CALL, SV_FAULT_CALL_ALLOC},
    {"device", VALUE_CALL, SV_FAULT_CALL_DEVICE},
    {"wire", VALUE_CALL, SV_FAULT_CALL_WIRE},
    {"map", VALUE_CALL, SV_FAULT_CALL_MAP},
    {"ipc", VALUE_CALL, SV_FAULT_CALL_IPC},
};

/* Reads one setting's value into its member of reading, or arms the call that it names. */
static selvage_status_t read_value(const setting_t *setting, const char *text, reading_t *reading)
{
    void *member = (char *)reading + (setting->type == VALUE_CALL ? 0 : setting->offset);
    const char *wanted = "a whole number from 0";
    char digits[WORD_BYTES];
    int64_t number;
    double probability;
    switch (setting->type) {
    case VALUE_CALL: {
        wanted = "the number of a call from 1, with + for that one and all after it";
        size_t length = strlen(text);
        bool sticky = length > 0 && text[length - 1] == '+';
        snprintf(digits, sizeof digits, "%.*s", (int)(length - sticky), text);
        if (!sv_parse_int(digits, &number) || number < 1)
            break;
        atomic_init(&reading->fault.call_countdown[setting->offset], number);
        reading->fault.call_sticky[setting->offset] = sticky;
        reading->fault.call_armed[setting->offset] = true;
        return SELVAGE_SUCCESS;
    }
    case VALUE_PROBABILITY:
        wanted = "a probability in 0..1";
        if (!sv_parse_real(text, &probability) || probability < 0 || probability > 1)
            break;
        *(double *)member = probability;
        return SELVAGE_SUCCESS;
    default:
        if (!sv_parse_int(text, &number) || number < 0 || (setting->type == VALUE_U32 && number > UINT32_MAX))
            break;
        if (setting->type == VALUE_U32)
            *(uint32_t *)member = (uint32_t)number;
        else if (setting->type == VALUE_U64)
            *(uint64_t *)member = (uint64_t)number;
        else
            *(int64_t *)member = number;
        return SELVAGE_SUCCESS;
    }
    return sv_error(SELVAGE_ERR_CONFIG, "SELVAGE_FAULT: %s is \"%s\"; wanted %s", setting->name, text, wanted);
}

/* One "name=value" of the list; length characters of it. */
static selvage_status_t read_word(const char *word, size_t length, reading_t *reading)
{
    char name[WORD_BYTES];
    if (length >= sizeof name)
        return sv_error(SELVAGE_ERR_CONFIG, "SELVAGE_FAULT: \"%.40s...\" is too long for a fault", word);
    memcpy(name, word, length);
    name[length] = '\0';
    char *value = strchr(name, '=');
    if (value)
        *value++ = '\0';
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++) {
        if (strcmp(settings[i].name, name) != 0)
            continue;
        if (!value)
            return sv_error(SELVAGE_ERR_CONFIG, "SELVAGE_FAULT: %s has no value", name);
        return read_value(&settings[i], value, reading);
    }
    return sv_error(SELVAGE_ERR_CONFIG, "SELVAGE_FAULT: \"%s\" is no known fault or setting", name);
}

/* One step of a 64-bit counter generator whose output goes through two rounds of multiply and shift. */
static uint64_t draw_random(uint64_t *state)
{
    uint64_t x = *state += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 32) * UINT64_C(0xd6e8feb86659fd93);
    x = (x ^ x >> 32) * UINT64_C(0xd6e8feb86659fd93);
    return x ^ x >> 32;
}

selvage_status_t sv_fault_parse(const char *spec, int rank, sv_fault_t *fault_out)
{
    reading_t reading;
    memset(&reading, 0, sizeof reading);
    reading.rank = -1;
    reading.seed = 1;
    reading.fault.delay_ms = 20;
    reading.fault.attempts = 1;
    reading.fault.only_index = -1;
    while (*spec != '\0') {
        size_t length = strcspn(spec, ",");
        SV_TRY(read_word(spec, length, &reading));
        spec += length;
        if (*spec == ',' && *++spec == '\0')
            return sv_error(SELVAGE_ERR_CONFIG, "SELVAGE_FAULT: \"\" after the last comma is no fault");
    }
    /* The probabilities share one draw, so together they cannot exceed 1; the slack forgives 0.1 + 0.2 + 0.7. */
    double sum = 0;
    for (int kind = 0; kind < SV_FAULT_KINDS; kind++)
        sum += reading.fault.probability[kind];
    if (sum > 1 + 1e-9)
        return sv_error(SELVAGE_ERR_CONFIG, "SELVAGE_FAULT: the probabilities add up to %g; wanted at most 1", sum);
    reading.fault.armed = sum > 0 && reading.fault.graph_epoch == 0;
    uint64_t state = (uint64_t)reading.seed;
    state = draw_random(&state) + (uint64_t)(int64_t)rank;
    reading.fault.random = draw_random(&state);
    if (reading.rank >= 0 && reading.rank != rank)
        memset(&reading.fault, 0, sizeof reading.fault);
    memcpy(fault_out, &reading.fault, sizeof reading.fault);
    return SELVAGE_SUCCESS;
}

uint64_t sv_fault_random(sv_fault_t *fault, uint64_t bound)
{
    return draw_random(&fault->random) % bound;
}

sv_fault_kind_t sv_fault_packet(sv_fault_t *fault, uint32_t index, unsigned attempt)
{
    if (!fault->armed || (attempt >= fault->attempts && fault->attempts < ATTEMPTS_ALL))
        return SV_FAULT_NONE;
    if (fault->only_index >= 0 && fault->only_index != (int64_t)index)
        return SV_FAULT_NONE;
    double left = (double)(draw_random(&fault->random) >> 11) * 0x1p-53;
    for (int kind = SV_FAULT_NONE + 1; kind < SV_FAULT_KINDS; kind++) {
        if (left < fault->probability[kind]) {
            fault->injected[kind]++;
            return (sv_fault_kind_t)kind;
        }
        left -= fault->probability[kind];
    }
    return SV_FAULT_NONE;
}

/* Relaxed: the countdown orders nothing but itself. */
bool sv_fault_call_fails(sv_fault_call_t call)
{
    sv_fault_t *fault = sv_thread_binding()->fault;
    if (!fault || !fault->call_armed[call])
        return false;
    int64_t left = atomic_fetch_sub_explicit(&fault->call_countdown[call], 1, memory_order_relaxed) - 1;
    return left == 0 || (left < 0 && fault->call_sticky[call]);
}

const char *sv_fault_name(sv_fault_kind_t kind)
{
    static const char *const names[SV_FAULT_KINDS] = {"none", "flip",  "swap",  "replay",
                                                      "truncate", "drop", "delay", "duplicate"};
    return kind >= SV_FAULT_NONE && kind < SV_FAULT_KINDS ? names[kind] : "unknown";
}
