/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * From the disassembler's text to an instruction that can be run. The text is a mnemonic, operands between commas, and
 * modifiers between blanks. Whatever is not understood, a modifier too, makes the instruction an unknown one.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "amdgpu/amdgpu_lanes.h"

namespace {

const amdgpu_row_t *const tables[] = {amdgpu_vector_rows, amdgpu_scalar_rows,  amdgpu_flow_rows,
                                      amdgpu_memory_rows, amdgpu_lds_rows,     amdgpu_compare_rows,
                                      amdgpu_wide_rows,   amdgpu_float_rows,   amdgpu_divide_rows};

struct {
    const char *name;
    uint16_t index, count;
} const registers[] = {{"vcc", AMDGPU_VCC, 2},       {"vcc_lo", AMDGPU_VCC, 1},  {"vcc_hi", AMDGPU_VCC + 1, 1},
                       {"exec", AMDGPU_EXEC, 2},     {"exec_lo", AMDGPU_EXEC, 1}, {"exec_hi", AMDGPU_EXEC + 1, 1},
                       {"m0", AMDGPU_M0, 1}};

const char *const part_names[] = {"DWORD", "BYTE_0", "BYTE_1", "BYTE_2", "BYTE_3", "WORD_0", "WORD_1"};

bool ends_with(const char *text, size_t length, const char *end)
{
    const size_t size = strlen(end);
    return length >= size && memcmp(text + length - size, end, size) == 0;
}

/* s7, v[2:5]: a letter, and one register or several. */
bool parse_registers(const char *text, amdgpu_operand_t *operand)
{
    unsigned first, last;
    int used = 0;
    if (text[0] != 's' && text[0] != 'v')
        return false;
    if (sscanf(text + 1, "[%u:%u]%n", &first, &last, &used) != 2 || used == 0) {
        if (sscanf(text + 1, "%u%n", &first, &used) != 1)
            return false;
        last = first;
    }
    const unsigned most = text[0] == 's' ? AMDGPU_VCC : 512;
    if (text[1 + used] || last < first || last >= most)
        return false;
    operand->kind = text[0] == 's' ? AMDGPU_SCALAR : AMDGPU_VECTOR;
    operand->index = (uint16_t)first;
    operand->count = (uint16_t)(last - first + 1);
    return true;
}

bool parse_named(const char *text, amdgpu_operand_t *operand)
{
    for (const auto &known : registers)
        if (strcmp(known.name, text) == 0) {
            operand->kind = AMDGPU_SCALAR;
            operand->index = known.index;
            operand->count = known.count;
            return true;
        }
    operand->kind = strcmp(text, "off") == 0 ? AMDGPU_OFF : AMDGPU_CONSTANT;
    operand->wide = AMDGPU_SHARED_BASE;
    return operand->kind == AMDGPU_OFF || strcmp(text, "src_shared_base") == 0;
}

/* Numbers with a point stand for floats; others in hexadecimal for 32 bits, which are the upper ones of a double. */
bool parse_constant(const char *text, const char *mnemonic, amdgpu_operand_t *operand)
{
    char *end;
    operand->kind = AMDGPU_CONSTANT;
    if (strchr(text, '.')) {
        const double value = strtod(text, &end);
        operand->narrow = amdgpu_bits((float)value);
        operand->wide = amdgpu_bits(value);
        return !*end && !strstr(mnemonic, "f16");
    }
    const bool literal = strncmp(text, "0x", 2) == 0;
    const long long value = strtoll(text, &end, 0);
    operand->narrow = (uint32_t)value;
    operand->wide = (uint64_t)value;
    if (literal && strstr(mnemonic, "f64"))
        operand->wide <<= 32;
    return end != text && !*end;
}

/* -x, |x| and -|x| of registers; the text is changed. */
bool parse_operand(char *text, const char *mnemonic, amdgpu_operand_t *operand)
{
    *operand = amdgpu_operand_t();
    if (text[0] == '-' && (text[1] < '0' || text[1] > '9')) {
        operand->neg = true;
        text++;
    }
    const size_t length = strlen(text);
    if (length > 2 && text[0] == '|' && text[length - 1] == '|') {
        operand->abs = true;
        text[length - 1] = '\0';
        text++;
    }
    if (parse_registers(text, operand) || parse_named(text, operand))
        return true;
    return !operand->neg && !operand->abs && parse_constant(text, mnemonic, operand);
}

bool parse_part(const char *text, amdgpu_part_t *part)
{
    for (unsigned p = 0; p < sizeof part_names / sizeof part_names[0]; p++)
        if (strcmp(part_names[p], text) == 0) {
            *part = (amdgpu_part_t)p;
            return true;
        }
    return false;
}

/* [1,0,1]: a bit for each, the first one lowest. */
bool parse_bits(const char *text, uint8_t *bits)
{
    unsigned bit = 0;
    *bits = 0;
    if (*text++ != '[')
        return false;
    for (; *text == '0' || *text == '1'; text += *text == ',') {
        *bits |= (uint8_t)((*text++ - '0') << bit++);
    }
    return strcmp(text, "]") == 0;
}

bool parse_number(const char *text, int32_t *value)
{
    char *end;
    *value = (int32_t)strtol(text, &end, 0);
    return end != text && !*end;
}

/* The flags of gfx90a have those names of gfx942 that mean the same. */
bool parse_flag(const char *text, amdgpu_inst_t *inst)
{
    struct {
        const char *name;
        bool *flag;
    } const flags[] = {{"sc0", &inst->sc0}, {"sc1", &inst->sc1}, {"nt", &inst->nt},      {"glc", &inst->sc0},
                       {"scc", &inst->sc1}, {"slc", &inst->nt},  {"clamp", &inst->clamp}};
    for (const auto &flag : flags)
        if (strcmp(flag.name, text) == 0)
            return *flag.flag = true;
    return false;
}

bool parse_modifier(const char *text, amdgpu_inst_t *inst)
{
    const char *value = strchr(text, ':');
    const size_t size = value ? (size_t)(value++ - text) : 0;
    const auto is = [&](const char *name) { return strlen(name) == size && memcmp(name, text, size) == 0; };
    if (is("offset") || is("offset0"))
        return parse_number(value, &inst->offset);
    if (is("offset1"))
        return parse_number(value, &inst->offset1);
    if (is("op_sel"))
        return parse_bits(value, &inst->op_sel);
    if (is("op_sel_hi"))
        return parse_bits(value, &inst->op_sel_hi);
    if (is("neg_lo"))
        return parse_bits(value, &inst->neg_lo);
    if (is("neg_hi"))
        return parse_bits(value, &inst->neg_hi);
    if (is("dst_sel"))
        return parse_part(value, &inst->dst_part);
    if (is("dst_unused"))
        return strcmp(value, "UNUSED_PAD") == 0;
    /* Of a comparison too, operand 0 is the destination. */
    if (is("src0_sel"))
        return parse_part(value, &inst->operand[1].part);
    if (is("src1_sel"))
        return parse_part(value, &inst->operand[2].part);
    return parse_flag(text, inst);
}

/* What is read of registers is read at once here, so nothing waits for expcnt. */
bool parse_wait(const char *text, amdgpu_inst_t *inst)
{
    unsigned count;
    if (sscanf(text, "vmcnt(%u)", &count) == 1)
        inst->most[0] = (uint8_t)count;
    else if (sscanf(text, "lgkmcnt(%u)", &count) == 1)
        inst->most[1] = (uint8_t)count;
    else
        return strncmp(text, "expcnt(", 7) == 0;
    return true;
}

/* Scalar loads, LDS, global and flat accesses; and write-backs, which are waited for like stores. */
void classify_access(const char *mnemonic, amdgpu_inst_t *inst)
{
    const bool flat = strncmp(mnemonic, "flat_", 5) == 0, global = strncmp(mnemonic, "global_", 7) == 0;
    const bool scalar = strncmp(mnemonic, "s_load_", 7) == 0, lds = strncmp(mnemonic, "ds_", 3) == 0;
    inst->counters = (uint8_t)((flat || global ? AMDGPU_COUNTS_VM : 0) |
                               (flat || scalar || lds ? AMDGPU_COUNTS_LGKM : 0));
    inst->stores = inst->counters && (strstr(mnemonic, "store") || strstr(mnemonic, "write") ||
                                      strstr(mnemonic, "atomic") || strstr(mnemonic, "xchg"));
    inst->follows_stores = strcmp(mnemonic, "buffer_wbl2") == 0;
    if (inst->follows_stores)
        inst->counters = AMDGPU_COUNTS_VM;
    inst->gives = inst->counters && (strstr(mnemonic, "load") || strstr(mnemonic, "read") ||
                                     strstr(mnemonic, "_rtn") || (strstr(mnemonic, "atomic") && inst->sc0));
}

amdgpu_what_t classify_what(const char *mnemonic)
{
    if (strstr(mnemonic, "_atomic_"))
        return AMDGPU_ATOMIC;
    if (strcmp(mnemonic, "s_waitcnt") == 0)
        return AMDGPU_WAIT;
    if (strcmp(mnemonic, "s_barrier") == 0)
        return AMDGPU_BARRIER;
    if (strcmp(mnemonic, "buffer_wbl2") == 0)
        return AMDGPU_WRITE_BACK;
    return strncmp(mnemonic, "buffer_", 7) == 0 ? AMDGPU_INVALIDATE : AMDGPU_PLAIN;
}

/* Up to the next comma, or blank, that is not within brackets. */
char *next_token(char **rest)
{
    char *begin = *rest + strspn(*rest, " \t,");
    char *end = begin;
    for (bool inside = false; *end && (inside || (*end != ',' && *end != ' ')); end++)
        inside = *end == '[' ? true : *end == ']' ? false : inside;
    *rest = *end ? end + 1 : end;
    *end = '\0';
    return *begin ? begin : nullptr;
}

bool parse_text(char *text, amdgpu_inst_t *inst)
{
    char *rest = text;
    const char *mnemonic = next_token(&rest);
    const amdgpu_row_t *row = mnemonic ? amdgpu_row_find(mnemonic) : nullptr;
    if (!row)
        return false;
    inst->run = row->run;
    inst->op_sel_hi = strncmp(mnemonic, "v_pk_", 5) == 0 ? 7 : 0;
    inst->most[0] = inst->most[1] = UINT8_MAX;
    const bool waits = strcmp(mnemonic, "s_waitcnt") == 0;
    while (char *token = next_token(&rest)) {
        if (waits ? parse_wait(token, inst) : parse_modifier(token, inst))
            continue;
        if (inst->noperands == AMDGPU_OPERANDS || !parse_operand(token, mnemonic, &inst->operand[inst->noperands]))
            return false;
        inst->noperands++;
    }
    const size_t length = strlen(mnemonic);
    const bool has_two = length > 4 && strncmp(mnemonic, "v_pk_", 5) == 0 && strcmp(mnemonic + length - 4, "_f32") == 0;
    if ((inst->neg_lo || inst->neg_hi) && !has_two) /* nobody else looks at them */
        return false;
    classify_access(mnemonic, inst);
    inst->what = classify_what(mnemonic);
    return true;
}

void run_dropped(amdgpu_wave &wave, const amdgpu_inst &inst)
{
    (void)wave, (void)inst;
}

bool is_dropped(const amdgpu_kernel_t *kernel, uintptr_t pc)
{
    static const char *const wanted = getenv("AMDGPU_DROP");
    const size_t length = strlen(kernel->name);
    return wanted && strncmp(wanted, kernel->name, length) == 0 && wanted[length] == ':' &&
           strtoull(wanted + length + 1, nullptr, 16) == pc - (uintptr_t)kernel->object->memory;
}

} // namespace

const amdgpu_row_t *amdgpu_row_find(const char *mnemonic)
{
    size_t length = strlen(mnemonic);
    static const char *const encodings[] = {"_e32", "_e64", "_sdwa"};
    for (const char *end : encodings)
        if (ends_with(mnemonic, length, end)) {
            length -= strlen(end);
            break;
        }
    for (const amdgpu_row_t *table : tables)
        for (const amdgpu_row_t *row = table; row->name; row++)
            if (strlen(row->name) == length && memcmp(row->name, mnemonic, length) == 0)
                return row;
    return nullptr;
}

const amdgpu_inst_t *amdgpu_decode(const amdgpu_wave &wave, uintptr_t pc)
{
    amdgpu_object_t *object = wave.run->launch->kernel->object;
    amdgpu_inst_t **place = &object->inst[(pc - (uintptr_t)object->text) / 4];
    amdgpu_inst_t *before = nullptr, *inst = (amdgpu_inst_t *)calloc(1, sizeof *inst);
    char text[256];
    if (!inst)
        amdgpu_fail(wave, "no memory");
    inst->bytes = (unsigned)amdgpu_disassemble(object, pc, text, sizeof text);
    if (inst->bytes == 0 || !parse_text(text, inst))
        amdgpu_fail(wave, "an unknown instruction");
    if (is_dropped(wave.run->launch->kernel, pc))
        inst->run = run_dropped;
    /* Partner: the acquire in take_turn(). */
    if (__atomic_compare_exchange_n(place, &before, inst, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        return inst;
    free(inst);
    return before;
}
