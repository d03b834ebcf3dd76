/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The parts of selvage-smoke that decide: the verdict's rule, the pattern's eye for every wrong byte and its account of
 * where that byte came from, and the command line.
 */
#include <math.h>
#include <selvage.h>

#include "tools/smoke/smoke_options.h"
#include "tools/common/smoke_pattern.h"
#include "tools/common/tool_options.h"
#include "tools/smoke/smoke_verdict.h"
#include "fixtures/check.h"

static smoke_verdict_t judge(double leg, bool uses_wire, double wire)
{
    return smoke_verdict(&(smoke_figures_t){
        .speed_judges = true, .leg_s = 1, .share_of_bound = leg, .uses_wire = uses_wire, .share_of_wire = wire});
}

static void test_verdicts(void)
{
    CHECK_EQ(judge(0.80, false, -1), SMOKE_VERDICT_GOOD);
    CHECK_EQ(judge(0.79, false, -1), SMOKE_VERDICT_SUSPECT);
    CHECK_EQ(judge(0.50, false, -1), SMOKE_VERDICT_SUSPECT);
    CHECK_EQ(judge(0.49, false, -1), SMOKE_VERDICT_BROKEN);
    CHECK_EQ(judge(1.10, true, 0.85), SMOKE_VERDICT_GOOD);
    CHECK_EQ(judge(1.00, true, 0.60), SMOKE_VERDICT_SUSPECT);
    CHECK_EQ(judge(1.00, true, 0.30), SMOKE_VERDICT_BROKEN);
    CHECK_EQ(judge(0.40, true, 0.95), SMOKE_VERDICT_BROKEN);
    CHECK_EQ(judge(1.00, true, -1), SMOKE_VERDICT_UNKNOWN);
    CHECK_EQ(judge(0.60, true, -1), SMOKE_VERDICT_SUSPECT);
    CHECK_EQ(judge(0.10, true, -1), SMOKE_VERDICT_BROKEN);
    CHECK_EQ(judge(-1, false, -1), SMOKE_VERDICT_RIGHT);
    const smoke_figures_t short_leg = {.speed_judges = true, .leg_s = 5e-6, .share_of_bound = 0.3, .share_of_wire = -1};
    CHECK_EQ(smoke_verdict(&short_leg), SMOKE_VERDICT_RIGHT);

    smoke_figures_t figures = {.speed_judges = false, .leg_s = 1, .share_of_bound = 0.01, .share_of_wire = -1};
    CHECK_EQ(smoke_verdict(&figures), SMOKE_VERDICT_RIGHT);
    figures.bad_packets = 1;
    CHECK_EQ(smoke_verdict(&figures), SMOKE_VERDICT_BROKEN);
    CHECK_EQ(smoke_verdict(&(smoke_figures_t){.bad_packets = 1, .speed_judges = true, .share_of_bound = 1}),
             SMOKE_VERDICT_BROKEN);
}

/* What a route can reach: one copy after the other where a packet is one piece, nearly side by side where it is not. */
static void test_bound(void)
{
    const double legs[] = {1, 1}, three[] = {1, 4, 1};
    CHECK(fabs(smoke_bound_s(legs, 2, 1, 0) - 2) < 1e-9);
    CHECK(fabs(smoke_bound_s(legs, 2, 4, 0) - 1.25) < 1e-9);
    CHECK(fabs(smoke_bound_s(legs, 1, 1, 0) - 1) < 1e-9);
    CHECK(fabs(smoke_bound_s(three, 3, 2, 0) - 5) < 1e-9);
    CHECK(fabs(smoke_bound_s(legs, 2, 1, 30e-6) - 2.00003) < 1e-9);
    CHECK(fabs(smoke_bound_s(legs, 2, 1, 10) - 2.0001) < 1e-9); /* a slow start is no excuse for slow bytes */
}

/* Every single bit of a packet, at odd address and odd length, and nothing outside of it. */
static void test_every_bit(void)
{
    unsigned char memory[64];
    unsigned char *const data = memory + 3;
    const smoke_mark_t mark = {.source = 70, .packet = 3, .epoch = 9};
    const size_t bytes = 29;
    smoke_damage_t damage;
    memset(memory, 0xee, sizeof memory);
    smoke_pattern_fill(data, bytes, mark);
    CHECK_EQ(data[-1], 0xee);
    CHECK_EQ(data[bytes], 0xee);
    CHECK(smoke_pattern_check(data, bytes, mark, &damage));
    for (size_t bit = 0; bit < 8 * bytes; bit++) {
        data[bit / 8] ^= (unsigned char)(1u << bit % 8);
        CHECK(!smoke_pattern_check(data, bytes, mark, &damage));
        CHECK_EQ(damage.bad_elements, 1);
        CHECK_EQ(damage.first_element, bit / 64);
        data[bit / 8] ^= (unsigned char)(1u << bit % 8);
    }
    CHECK(smoke_pattern_check(data, bytes, mark, &damage));
    CHECK(smoke_pattern_check(NULL, 0, mark, &damage));
}

static void check_description(smoke_mark_t sent, smoke_mark_t wanted, const char *text)
{
    unsigned char data[800];
    smoke_damage_t damage;
    char found[320];
    smoke_pattern_fill(data, sizeof data, sent);
    CHECK(!smoke_pattern_check(data, sizeof data, wanted, &damage));
    CHECK_EQ(damage.bad_elements, sizeof data / 8);
    smoke_pattern_describe(found, sizeof found, wanted, &damage);
    CHECK_STR(found, text);
}

static void test_descriptions(void)
{
    const smoke_mark_t mark = {.source = 1, .packet = 3, .epoch = 5};
    check_description((smoke_mark_t){.source = 0, .packet = 2, .epoch = 4}, mark,
                      "element 0 of packet 3 of epoch 5 from rank 1 holds element 0 of packet 2 of epoch 4 from rank 0"
                      " (100 wrong elements)");
    const smoke_mark_t late = {.source = 1, .packet = 3, .epoch = 5000};
    check_description((smoke_mark_t){.source = 1, .packet = 3, .epoch = 4999}, late,
                      "element 0 of packet 3 of epoch 5000 from rank 1 holds element 0 of packet 3 of epoch 4999 from "
                      "rank 1 (100 wrong elements)");
    unsigned char data[80];
    smoke_damage_t damage;
    char found[320];
    smoke_pattern_fill(data, sizeof data, mark);
    data[17] ^= 4;
    CHECK(!smoke_pattern_check(data, sizeof data, mark, &damage));
    smoke_pattern_describe(found, sizeof found, mark, &damage);
    CHECK_STR(found, "element 2 of packet 3 of epoch 5 from rank 1 has bit 10 flipped (1 wrong elements)");
}

static void test_sizes(void)
{
    static const struct {
        const char *text;
        size_t bytes;
    } good[] = {{"0", 0},          {"13", 13}, {"4K", 4096},           {"4KiB", 4096},
                {"1.5m", 1572864}, {"7B", 7},  {"2G", (size_t)2 << 30}};
    static const char *const bad[] = {"", "K", "-1", "4Q", "4KB", "1.3", "0x10", "9G", "inf", "4K "};
    size_t bytes;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        bytes = 1;
        CHECK(tool_option_size(good[i].text, &bytes));
        CHECK_EQ(bytes, good[i].bytes);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        CHECK(!tool_option_size(bad[i], &bytes));
}

/* Parses one word list; true if it is understood. */
static bool parse(smoke_options_t *options, char *error, const char *first, const char *second)
{
    char *argv[] = {(char *)"selvage-smoke", (char *)first, (char *)second, NULL};
    return smoke_options_parse(second ? 3 : 2, argv, options, error, 160);
}

static void test_command_line(void)
{
    smoke_options_t options;
    char error[160];
    CHECK(parse(&options, error, "--sizes", "4K,13"));
    CHECK_EQ(options.size_count, 2);
    CHECK_EQ(options.sizes[1], 13);
    CHECK(!options.suite);
    CHECK(parse(&options, error, "--suite", NULL) && options.suite);
    CHECK_EQ(options.packets, 4);
    CHECK(parse(&options, error, "--routes=self,staged", NULL));
    CHECK(options.routes[SELVAGE_ROUTE_SELF] && options.routes[SELVAGE_ROUTE_STAGED]);
    CHECK(!options.routes[SELVAGE_ROUTE_PEER] && !options.routes[SELVAGE_ROUTE_SHARED]);
    CHECK(parse(&options, error, "--quick", NULL));
    CHECK_EQ(options.size_count, 3);
    CHECK_EQ(smoke_options_epochs(&options, 4096, 4), 3);
    CHECK(!parse(&options, error, "--sizes", "4K,,8K"));
    CHECK_STR(error, "bad value '4K,,8K' of --sizes");
    CHECK(!parse(&options, error, "--routes", "direkt"));
    CHECK(parse(&options, error, "--routes", "all") && !options.routes[SELVAGE_ROUTE_DIRECT]);
    CHECK(parse(&options, error, "--routes", "direct") && options.routes[SELVAGE_ROUTE_DIRECT]);
    CHECK(!parse(&options, error, "--packets", "257"));
    CHECK(!parse(&options, error, "--epochs", "0"));
    CHECK(!parse(&options, error, "--wire-gbs", "nan"));
    CHECK(!parse(&options, error, "--slow", NULL));
    CHECK_STR(error, "unknown or incomplete option '--slow'");
    CHECK(!parse(&options, error, "more", NULL));
    CHECK_STR(error, "unexpected argument 'more'");
}

static const char *name_of_place(int place)
{
    static const char *const names[] = {"first", NULL, "third"};
    return names[place];
}

/* Every kind of value, and what it refuses. */
static void test_option_kinds(void)
{
    static const struct {
        const char *word;
        bool good;
    } cases[] = {{"--whole=7", true},      {"--whole=8", false},     {"--number=2.5", true},  {"--number=4", false},
                 {"--number=nan", false},  {"--positive=1e-9", true}, {"--positive=0", false}, {"--size=64K", true},
                 {"--size=0", false},      {"--text=x", true},       {"--text=", false},      {"--wholes=3,4", true},
                 {"--wholes=3,4,5", false}, {"--wholes=3,", false},  {"--names=third", true}, {"--names=second", false},
                 {"--flag", true},         {"--flag=yes", false},    {"--num=2", true},       {"--w=3", false},
                 {"-h", true},             {"-x", false}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int whole = 0, wholes[2] = {0, 0}, count = 2, first = 0;
        double number = 0, positive = 0;
        size_t size = 0;
        const char *text = NULL;
        bool flag = false, help = false, names[3] = {true, false, true};
        const tool_option_t table[] = {
            {"whole", TOOL_WHOLE, .value = &whole, .low = 1, .high = 7},
            {"number", TOOL_NUMBER, .value = &number, .low = 2, .high = 3},
            {"positive", TOOL_POSITIVE, .value = &positive},
            {"size", TOOL_SIZE, .value = &size},
            {"text", TOOL_TEXT, .value = &text},
            {"wholes", TOOL_WHOLES, .value = wholes, .low = 1, .high = 9, .count = &count, .room = 2},
            {"names", TOOL_NAMES, .value = names, .room = 3, .name_of = name_of_place},
            {"flag", TOOL_FLAG, .value = &flag},
            {"help", TOOL_FLAG, .value = &help},
        };
        char error[160], *argv[] = {(char *)"tool", (char *)(uintptr_t)cases[i].word, (char *)"word", NULL};
        const bool good = tool_options_parse(3, argv, table, sizeof table / sizeof *table, &first, error, sizeof error);
        CHECK_EQ(good, cases[i].good);
        CHECK_EQ(error[0] == '\0', good);
        if (!good)
            continue;
        CHECK_EQ(first, 2);
        const int found = (whole == 7) + (number >= 2) + (positive > 0) + (size == 65536) + (text != NULL) +
                          (wholes[0] == 3 && wholes[1] == 4) + (!names[0] && names[2]) + flag + help;
        CHECK_EQ(found, 1);
    }
}

int main(void)
{
    test_option_kinds();
    test_verdicts();
    test_bound();
    test_every_bit();
    test_descriptions();
    test_sizes();
    test_command_line();
    return check_report("smoke_parts");
}
