/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The choices that ranks make alike: every call, size, number of ranks and forced value gets a way that exists, with
 * channels and chunks within bounds, what is forced is what is taken wherever it exists, and the thresholds are where
 * the settings put them. Tuning files: what they change, and how bad ones are refused.
 */
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/base_memory.h"
#include "base/base_thread.h"
#include "fixtures/check.h"
#include "collective/coll_handle.h"
#include "collective/coll_names.h"
#include "collective/coll_tune.h"

enum { SLOT_BYTES = 128 << 10, CHANNELS = 32 };

typedef struct scene {
    sv_config_t config;
    sv_coll_facts_t facts;
} scene_t;

static const char *no_variable(void *arg, const char *name)
{
    (void)arg;
    (void)name;
    return NULL;
}

static void set_scene(scene_t *s, unsigned n, bool has_ll128)
{
    CHECK_STATUS(sv_config_load(no_variable, NULL, &s->config), SELVAGE_SUCCESS);
    s->facts = (sv_coll_facts_t){
        .nranks = n, .nchannels = CHANNELS, .has_ll128 = has_ll128, .shows_stores = true, .config = &s->config};
    s->facts.layout.slot_bytes = SLOT_BYTES;
    s->facts.layout.long_bytes = 144 * 128;
}

/* A call of so many bytes in all, of float32 where that divides them. */
static sv_coll_choice_t choose(const scene_t *s, unsigned call, uint64_t bytes)
{
    bool blocks = call == SV_COLL_REDUCE_SCATTER || call == SV_COLL_ALL_GATHER || call == SV_COLL_ALL_TO_ALL;
    uint64_t of_rank = blocks ? bytes / s->facts.nranks : bytes;
    bool words = of_rank % 4 == 0;
    sv_coll_call_t c = {.call = (uint8_t)call, .type = words ? SV_COLL_FLOAT32 : SV_COLL_INT8, .op = SV_COLL_SUM};
    c.count = words ? of_rank / 4 : of_rank;
    sv_coll_choice_t choice;
    memset(&choice, 0, sizeof choice);
    sv_coll_select(&s->facts, &c, &choice);
    return choice;
}

static bool is_direct(const sv_coll_choice_t *c)
{
    return c->algo == SV_COLL_DIRECT_ONE || c->algo == SV_COLL_DIRECT_TWO;
}

static bool says(const sv_coll_choice_t *c, const char *what)
{
    return strstr(c->why, what) != NULL;
}

/* Direct ways in which ranks store into each other's memory. */
static bool is_stored(unsigned call, unsigned algo)
{
    return algo == SV_COLL_DIRECT_TWO || call == SV_COLL_ALL_GATHER || call == SV_COLL_ALL_TO_ALL;
}

static void check_sound(const scene_t *s, unsigned call, const sv_coll_choice_t *c)
{
    const sv_config_t *config = &s->config;
    CHECK(sv_coll_exists(call, c->algo, c->proto));
    CHECK(s->facts.has_ll128 || c->proto != SV_COLL_LL128);
    CHECK(!config->coll_checksum || s->facts.shows_stores || !is_direct(c) || !is_stored(call, c->algo));
    CHECK(c->nchannels >= 1 && c->nchannels <= CHANNELS);
    CHECK(c->chunk_bytes > 0 && c->chunk_bytes % 128 == 0 && c->chunk_bytes <= SLOT_BYTES);
    CHECK(c->why && c->why[0]);
}

/* What was forced is what came out, or why says that it is not there. */
static void check_obeyed(const scene_t *s, unsigned call, const sv_coll_choice_t *c)
{
    static const unsigned algos[] = {0, SV_COLL_ONESHOT, SV_COLL_TWOSHOT, SV_COLL_DIRECT_ONE, SV_COLL_RING,
                                     SV_COLL_PAT, 0};
    const sv_config_t *config = &s->config;
    unsigned algo = algos[config->coll_algo], proto = (unsigned)config->coll_proto; /* in the order of SV_COLL_ */
    bool direct = algo == SV_COLL_DIRECT_ONE;
    if (call == SV_COLL_BARRIER || s->facts.nranks == 1)
        return;
    bool same = algo == 0 || c->algo == algo || (direct && is_direct(c));
    bool there = algo && sv_coll_exists(call, algo, SV_COLL_SIMPLE) &&
                 !(direct && config->coll_checksum && !s->facts.shows_stores);
    CHECK(same || (!there && says(c, "SELVAGE_COLL_ALGO")));
    if (config->coll_algo == SV_CONFIG_COLL_ALGO_NVLS)
        CHECK(says(c, "multicast"));
    bool open = proto && (proto != SV_COLL_LL128 || s->facts.has_ll128) && sv_coll_exists(call, c->algo, proto);
    CHECK(!open || c->proto == proto);
    CHECK(!proto || c->proto == proto || says(c, "SELVAGE_COLL_"));
}

static uint64_t size_number(unsigned i)
{
    static const int64_t around[] = {-1, 0, 1};
    return i == 0 ? 0 : ((UINT64_C(1) << (i / 3)) + (uint64_t)around[i % 3]);
}
enum { SIZES = 3 * 40 };

static void check_sizes(const scene_t *s, unsigned call)
{
    sv_coll_choice_t before = {0};
    for (unsigned i = 0; i < SIZES; i++) {
        sv_coll_choice_t c = choose(s, call, size_number(i)), again = choose(s, call, size_number(i));
        check_sound(s, call, &c);
        check_obeyed(s, call, &c);
        CHECK(memcmp(&c, &again, sizeof c) == 0);
        if (c.algo == before.algo && c.proto == before.proto)
            CHECK(c.nchannels >= before.nchannels);
        before = c;
    }
}

static void check_all(bool has_ll128, bool checksum, bool soft, bool shows_stores)
{
    static scene_t s;
    for (unsigned n = 1; n <= SV_COLL_RANKS; n++)
        for (int algo = 0; algo <= SV_CONFIG_COLL_ALGO_NVLS; algo++)
            for (int proto = 0; proto <= SV_CONFIG_COLL_PROTO_SIMPLE; proto++)
                for (unsigned call = 1; call < SV_COLL_CALLS; call++) {
                    set_scene(&s, n, has_ll128);
                    s.facts.soft = soft;
                    s.facts.shows_stores = shows_stores;
                    s.config.coll_checksum = checksum;
                    s.config.coll_algo = algo;
                    s.config.coll_proto = proto;
                    check_sizes(&s, call);
                }
}

static void expect(const sv_coll_choice_t *c, unsigned algo, unsigned proto)
{
    CHECK_STR(sv_coll_algo_name(c->algo), sv_coll_algo_name(algo));
    CHECK_STR(sv_coll_proto_name(c->proto), sv_coll_proto_name(proto));
}

static void expect_at(const scene_t *s, unsigned call, uint64_t bytes, unsigned algo, unsigned proto)
{
    sv_coll_choice_t c = choose(s, call, bytes);
    expect(&c, algo, proto);
}

static void check_thresholds(void)
{
    static const uint64_t ll_max[][2] = {{2, 128 << 10}, {3, 64 << 10}, {4, 64 << 10}, {5, 16 << 10}, {8, 16 << 10}};
    scene_t s;
    for (unsigned i = 0; i < 5; i++) {
        set_scene(&s, (unsigned)ll_max[i][0], false);
        expect_at(&s, SV_COLL_ALL_REDUCE, ll_max[i][1], SV_COLL_ONESHOT, SV_COLL_LL);
        expect_at(&s, SV_COLL_ALL_REDUCE, ll_max[i][1] + 4,
                  ll_max[i][0] > 2 ? SV_COLL_DIRECT_TWO : SV_COLL_DIRECT_ONE, SV_COLL_SIMPLE);
    }
    set_scene(&s, 4, true);
    expect_at(&s, SV_COLL_ALL_REDUCE, 512 << 10, SV_COLL_ONESHOT, SV_COLL_LL128);
    expect_at(&s, SV_COLL_ALL_REDUCE, (512 << 10) + 4, SV_COLL_DIRECT_TWO, SV_COLL_SIMPLE);
    expect_at(&s, SV_COLL_BROADCAST, (4 << 20) + 4, SV_COLL_TWOSHOT, SV_COLL_SIMPLE);
    expect_at(&s, SV_COLL_REDUCE_SCATTER, 2 << 20, SV_COLL_ONESHOT, SV_COLL_LL128);
    expect_at(&s, SV_COLL_PAIR, 512 << 10, SV_COLL_ONESHOT, SV_COLL_LL128);
    s.facts.layout.long_bytes = 72 * 128; /* in which 16 KiB take two steps */
    expect_at(&s, SV_COLL_REDUCE_SCATTER, 2 << 20, SV_COLL_DIRECT_ONE, SV_COLL_SIMPLE);
    expect_at(&s, SV_COLL_PAIR, 512 << 10, SV_COLL_ONESHOT, SV_COLL_SIMPLE);
    s.facts.layout.long_bytes = 144 * 128;
    s.facts.layout.ll_bytes = 512 * 16; /* in which 4 KiB and their digest take two steps */
    s.facts.nchannels = 64;
    s.facts.nranks = 2;
    expect_at(&s, SV_COLL_BROADCAST, 256 << 10, SV_COLL_ONESHOT, SV_COLL_LL128);
    expect_at(&s, SV_COLL_BROADCAST, 224 << 10, SV_COLL_ONESHOT, SV_COLL_LL);
    s.config.coll_checksum = false;
    expect_at(&s, SV_COLL_BROADCAST, 256 << 10, SV_COLL_ONESHOT, SV_COLL_LL);
    set_scene(&s, 4, true);
    s.config.coll_checksum = false; /* direct ways have nothing to sum then */
    expect_at(&s, SV_COLL_ALL_REDUCE, 256 << 10, SV_COLL_ONESHOT, SV_COLL_LL128);
    expect_at(&s, SV_COLL_ALL_REDUCE, (256 << 10) + 4, SV_COLL_DIRECT_TWO, SV_COLL_SIMPLE);
    expect_at(&s, SV_COLL_BROADCAST, (4 << 20) + 4, SV_COLL_DIRECT_TWO, SV_COLL_SIMPLE);
    s.config.coll_checksum = true;
    expect_at(&s, SV_COLL_BARRIER, 0, SV_COLL_ONESHOT, SV_COLL_LL);
    s.facts.shows_stores = false; /* what is stored cannot be verified there */
    expect_at(&s, SV_COLL_ALL_REDUCE, 1 << 30, SV_COLL_TWOSHOT, SV_COLL_SIMPLE);
    expect_at(&s, SV_COLL_REDUCE_SCATTER, 1 << 30, SV_COLL_DIRECT_ONE, SV_COLL_SIMPLE);
    s.config.coll_checksum = false;
    expect_at(&s, SV_COLL_ALL_REDUCE, 1 << 30, SV_COLL_DIRECT_TWO, SV_COLL_SIMPLE);
    set_scene(&s, 2, false);
    expect_at(&s, SV_COLL_ALL_REDUCE, 32 << 20, SV_COLL_DIRECT_ONE, SV_COLL_SIMPLE);
}

/* What is long enough is pushed, in two passes, and in the more pieces the longer it is. */
static void check_pushed(void)
{
    scene_t s;
    for (unsigned n = 2; n <= 8; n += 2) {
        set_scene(&s, n, false);
        for (unsigned call = SV_COLL_ALL_REDUCE; call <= SV_COLL_PAIR; call++) {
            bool can = call == SV_COLL_ALL_REDUCE;
            CHECK_EQ(choose(&s, call, (64 << 20) - 16).pieces_log2, SV_COLL_NOT_PUSHED);
            CHECK_EQ(choose(&s, call, 64 << 20).pieces_log2 != SV_COLL_NOT_PUSHED, can);
            CHECK(!can || choose(&s, call, 64 << 20).algo == SV_COLL_DIRECT_TWO);
        }
        s.facts.shows_stores = false;
        CHECK_EQ(choose(&s, SV_COLL_ALL_REDUCE, 2u << 30).pieces_log2, SV_COLL_NOT_PUSHED);
        s.facts.shows_stores = true;
        s.config.coll_push_min = 1 << 10;
        CHECK_EQ(choose(&s, SV_COLL_ALL_REDUCE, 1 << 20).pieces_log2, 1);
        CHECK_EQ(choose(&s, SV_COLL_ALL_REDUCE, 2u << 30).pieces_log2, 2);
        s.config.coll_algo = SV_CONFIG_COLL_ALGO_RING;
        CHECK_EQ(choose(&s, SV_COLL_ALL_REDUCE, 2u << 30).pieces_log2, SV_COLL_NOT_PUSHED);
    }
}

/* The user's bounds move the thresholds of every call, and a bound of 0 leaves LL to what has no data. */
static void check_bounds(void)
{
    scene_t s;
    for (unsigned call = SV_COLL_ALL_REDUCE; call <= SV_COLL_PAIR; call++) {
        set_scene(&s, 8, true);
        s.config.coll_ll_max = 1 << 10;
        s.config.coll_ll128_max = 8 << 10;
        CHECK_EQ(choose(&s, call, 1 << 10).proto, SV_COLL_LL);
        CHECK_STR(choose(&s, call, 1 << 10).why, "SELVAGE_COLL_LL_MAX");
        CHECK_EQ(choose(&s, call, 2 << 10).proto, SV_COLL_LL128);
        CHECK_STR(choose(&s, call, 2 << 10).why, "SELVAGE_COLL_LL128_MAX");
        CHECK_EQ(choose(&s, call, 16 << 10).proto, SV_COLL_SIMPLE);
        s.config.coll_ll_max = s.config.coll_ll128_max = 0;
        CHECK_EQ(choose(&s, call, 8).proto, SV_COLL_SIMPLE);
        s.config.coll_channels_min = 5;
        s.config.coll_channels_max = 7;
        CHECK_EQ(choose(&s, call, 8).nchannels, 5);
        CHECK_EQ(choose(&s, call, 1 << 30).nchannels, 7);
    }
    set_scene(&s, 8, false);
    CHECK_EQ(choose(&s, SV_COLL_ALL_REDUCE, 1 << 30).nchannels, CHANNELS);
    CHECK_EQ(choose(&s, SV_COLL_ALL_REDUCE, 1 << 30).chunk_bytes, SLOT_BYTES);
    s.facts.soft = true;
    CHECK_EQ(choose(&s, SV_COLL_ALL_REDUCE, 1 << 30).nchannels, 2);
}

static char tune_path[] = "/tmp/selvage_tune_XXXXXX";

static selvage_status_t read_text(const char *text, sv_coll_tuning_t **tuning_out)
{
    FILE *file = fopen(tune_path, "w");
    CHECK(file && fputs(text, file) >= 0);
    if (file)
        fclose(file);
    return sv_coll_tuning_read(tune_path, tuning_out);
}

static void check_tuned(void)
{
    scene_t s;
    sv_coll_tuning_t *tuning = NULL, *other = NULL;
    set_scene(&s, 4, false);
    CHECK_STATUS(sv_coll_tuning_read("", &tuning), SELVAGE_SUCCESS);
    CHECK(tuning == NULL && sv_coll_tuning_hash(tuning) == 0);
    CHECK_STATUS(read_text("# measured\n\n all_reduce 4 1K ring ll 3 # small\nall_reduce 4 1M direct simple 0\n"
                           "all_reduce 4 2M oneshot ll128 9\nall_reduce 8 1T oneshot simple 6", &tuning),
                 SELVAGE_SUCCESS);
    if (!tuning)
        return;
    CHECK_EQ(tuning->nentries, 4);
    s.facts.tuning = tuning;
    expect_at(&s, SV_COLL_ALL_REDUCE, 1 << 10, SV_COLL_RING, SV_COLL_LL);
    CHECK_EQ(choose(&s, SV_COLL_ALL_REDUCE, 1 << 10).nchannels, 3);
    CHECK_STR(choose(&s, SV_COLL_ALL_REDUCE, 0).why, "SELVAGE_COLL_TUNE");
    expect_at(&s, SV_COLL_ALL_REDUCE, 2 << 10, SV_COLL_DIRECT_TWO, SV_COLL_SIMPLE);
    expect_at(&s, SV_COLL_ALL_REDUCE, 1 << 20, SV_COLL_DIRECT_TWO, SV_COLL_SIMPLE);
    expect_at(&s, SV_COLL_ALL_REDUCE, 2 << 20, SV_COLL_DIRECT_TWO, SV_COLL_SIMPLE); /* no whole lines here */
    sv_coll_choice_t closed = choose(&s, SV_COLL_ALL_REDUCE, 2 << 20);
    CHECK(says(&closed, "cannot be followed"));
    s.facts.has_ll128 = true;
    expect_at(&s, SV_COLL_ALL_REDUCE, 2 << 20, SV_COLL_ONESHOT, SV_COLL_LL128);
    expect_at(&s, SV_COLL_ALL_REDUCE, 4 << 20, SV_COLL_DIRECT_TWO, SV_COLL_SIMPLE);
    expect_at(&s, SV_COLL_BROADCAST, 1 << 10, SV_COLL_ONESHOT, SV_COLL_LL);
    s.config.coll_algo = SV_CONFIG_COLL_ALGO_TWOSHOT;
    expect_at(&s, SV_COLL_ALL_REDUCE, 1 << 10, SV_COLL_TWOSHOT, SV_COLL_LL);
    CHECK_STATUS(read_text("all_reduce 8 1T oneshot simple 6\nall_reduce 4 1024 ring ll 3\n"
                           "all_reduce 4 1024K direct simple 0\nall_reduce 4 2M oneshot ll128 9\n", &other),
                 SELVAGE_SUCCESS);
    CHECK(other && sv_coll_tuning_hash(other) == sv_coll_tuning_hash(tuning));
    sv_free(other);
    CHECK_STATUS(read_text("all_reduce 4 1K ring ll 4\n", &other), SELVAGE_SUCCESS);
    CHECK(sv_coll_tuning_hash(other) != sv_coll_tuning_hash(tuning));
    sv_free(other);
    sv_free(tuning);
}

static void check_refused(const char *text, const char *what)
{
    sv_coll_tuning_t *tuning = NULL;
    int64_t live = sv_memory_live();
    CHECK_STATUS(read_text(text, &tuning), SELVAGE_ERR_CONFIG);
    CHECK(tuning == NULL && sv_memory_live() == live);
    CHECK(strstr(selvage_error_detail(), tune_path) != NULL);
    if (!strstr(selvage_error_detail(), what))
        CHECK_STR(selvage_error_detail(), what);
}

static void check_refusals(void)
{
    static const char *const bad[][2] = {
        {"# fine\nallreduce 4 1K ring ll 3\n", "line 2: no such call"},
        {"all_reduce 17 1K ring ll 3\n", "line 1: ranks"},
        {"all_reduce 0 1K ring ll 3\n", "ranks"},
        {"all_reduce 4 1KB ring ll 3\n", "the bound must be bytes"},
        {"all_reduce 4 1K rung ll 3\n", "no such algorithm"},
        {"all_reduce 4 1K none ll 3\n", "no such algorithm"},
        {"all_reduce 4 1K ring ll64 3\n", "no such protocol"},
        {"all_reduce 4 1K pat ll 3\n", "has no such algorithm with this protocol"},
        {"all_reduce 4 1K direct ll 3\n", "has no such algorithm with this protocol"},
        {"pair 4 1K direct simple 3\n", "has no such algorithm with this protocol"},
        {"all_reduce 4 1K ring ll 65\n", "channels"},
        {"all_reduce 4 1K ring ll\n", "wanted: call ranks"},
        {"all_reduce 4 1K ring ll 3 4\n", "wanted: call ranks"},
        {"all_reduce 4 1K ring ll 3\nreduce 4 1K ring ll 3\nall_reduce 4 1024 ring ll 3\n", "line 3: the bound must"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        check_refused(bad[i][0], bad[i][1]);
    char text[1024];
    memset(text, ' ', sizeof text);
    text[sizeof text - 1] = '\0';
    check_refused(text, "line 1: the line is too long");
    unlink(tune_path);
    sv_coll_tuning_t *tuning = NULL;
    CHECK_STATUS(sv_coll_tuning_read(tune_path, &tuning), SELVAGE_ERR_CONFIG);
    CHECK(strstr(selvage_error_detail(), "cannot be opened") != NULL);
    CHECK_STATUS(sv_coll_tuning_read("/", &tuning), SELVAGE_ERR_CONFIG);
    CHECK(strstr(selvage_error_detail(), "cannot be read") != NULL);
}

static void check_names(void)
{
    for (unsigned i = 1; i < SV_COLL_CALLS; i++)
        CHECK_EQ(sv_coll_call_named(sv_coll_call_name(i)), i);
    for (unsigned i = 1; i < SV_COLL_ALGOS; i++)
        CHECK_EQ(sv_coll_algo_named(sv_coll_algo_name(i)), i);
    for (unsigned i = 1; i < SV_COLL_PROTOS; i++)
        CHECK_EQ(sv_coll_proto_named(sv_coll_proto_name(i)), i);
    CHECK_STR(sv_coll_call_name(SV_COLL_CALLS), "none");
    CHECK_STR(sv_coll_algo_name(0), "none");
    CHECK_STR(sv_coll_proto_name(77), "none");
    CHECK_EQ(sv_coll_algo_named("none"), 0);
    CHECK(!sv_coll_exists(0, SV_COLL_ONESHOT, SV_COLL_LL) && !sv_coll_exists(SV_COLL_PAIR, SV_COLL_RING, SV_COLL_LL));
}

int main(void)
{
    int file = mkstemp(tune_path);
    CHECK(file >= 0);
    close(file);
    sv_thread_binding()->log_level = 0; /* refusals are wanted here */
    check_names();
    check_thresholds();
    check_pushed();
    check_bounds();
    for (unsigned i = 0; i < 8; i++)
        check_all(i & 1, i & 2, i & 4, true);
    check_all(true, true, false, false);
    check_tuned();
    check_refusals();
    return check_report("coll_select");
}
