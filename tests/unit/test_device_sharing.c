/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Who else has a GPU is seen: a child that holds the same lock is, this process itself and a child that has ended are
 * not. The file stands in for that of a GPU.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "device/device_sharing.h"
#include "fixtures/check.h"

static char path[] = "/tmp/selvage-sharing-XXXXXX";

/* A process of its own: a child by fork() alone has the lock of its parent, and not one beside it. */
static void hold_lock_in_child(int told, int asked)
{
    char number[2][16], *program[] = {"/proc/self/exe", path, number[0], number[1], NULL};
    snprintf(number[0], sizeof number[0], "%d", told);
    snprintf(number[1], sizeof number[1], "%d", asked);
    execv(program[0], program);
    _exit(1);
}

static int hold_lock(char **argument)
{
    const int told = atoi(argument[2]), asked = atoi(argument[3]);
    char word = (char)(sv_sharing_join_file(argument[1]) > 0);
    return write(told, &word, 1) == 1 && read(asked, &word, 1) >= 0 ? 0 : 1;
}

static void check_another_process(int number)
{
    int told[2], asked[2], status;
    char word = 0;
    CHECK_EQ(pipe(told), 0);
    CHECK_EQ(pipe(asked), 0);
    const pid_t child = fork();
    if (child == 0) {
        close(asked[1]);
        hold_lock_in_child(told[1], asked[0]);
    }
    close(told[1]);
    CHECK_EQ(read(told[0], &word, 1), 1);
    CHECK_EQ(word, 1);
    CHECK(sv_sharing_ask(number));
    CHECK(sv_sharing_is_shared(number));
    close(asked[1]); /* the child ends */
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);
    CHECK(!sv_sharing_ask(number));
    CHECK(!sv_sharing_is_shared(number));
    close(told[0]);
    close(asked[0]);
}

/* Calls between two questions are answered from memory; the question comes within the next 1024. */
static void check_questions(int number)
{
    int other = open(path, O_RDWR | O_CLOEXEC), calls = 0;
    struct flock range = {.l_type = F_RDLCK, .l_whence = SEEK_SET, .l_len = 1};
    for (int i = 0; i < 3000; i++)
        CHECK(!sv_sharing_is_shared(number));
    CHECK_EQ(fcntl(other, F_OFD_SETLK, &range), 0);
    while (!sv_sharing_is_shared(number) && calls < 5000)
        calls++;
    CHECK(calls > 0 && calls < 1024);
    close(other);
    CHECK(!sv_sharing_ask(number));
}

int main(int argc, char **argv)
{
    if (argc == 4)
        return hold_lock(argv);
    const int file = mkstemp(path);
    CHECK(file >= 0);
    const int number = sv_sharing_join_file(path);
    CHECK(number > 0);
    CHECK_EQ(sv_sharing_join_file(path), number);
    CHECK(!sv_sharing_ask(number)); /* itself, twice */
    check_another_process(number);
    check_questions(number);
    CHECK_EQ(sv_sharing_join(""), SV_SHARING_NEVER);
    CHECK_EQ(sv_sharing_join("../../x"), SV_SHARING_NEVER);
    CHECK_EQ(sv_sharing_join("0000:ff:20.0"), SV_SHARING_NEVER); /* no bus has it */
    CHECK(!sv_sharing_is_shared(SV_SHARING_NEVER));
    CHECK(sv_sharing_is_shared(SV_SHARING_ALWAYS));
    CHECK(sv_sharing_ask(SV_SHARING_ALWAYS));
    CHECK_EQ(sv_sharing_join_file("/nowhere/at/all"), SV_SHARING_NEVER);
    close(file);
    unlink(path);
    return check_report("test_device_sharing");
}
