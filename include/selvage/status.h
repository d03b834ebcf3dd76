/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file status.h
 * @brief Status codes, their names and texts, and the detail of the last error.
 */
#ifndef SELVAGE_STATUS_H
#define SELVAGE_STATUS_H

/* What a struct begins with that is all zero, without a warning in any C and C++. Of these headers. */
#ifdef __cplusplus
#define SELVAGE_ZEROED_(type) type()
#else
#define SELVAGE_ZEROED_(type) {0}
#endif

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/**
 * The one table of statuses: X(name, number, text). Zero is success, positive is not an error, negative is an
 * error. Numbers are never used again for another meaning.
 */
#define SELVAGE_STATUS_TABLE(X)                                                         \
    X(SUCCESS, 0, "success")                                                            \
    X(IN_PROGRESS, 1, "not finished; test again")                                       \
    X(ERR_ARGUMENT, -1, "an argument was refused")                                      \
    X(ERR_STATE, -2, "the call is not allowed in the object's present state")           \
    X(ERR_MEMORY, -3, "memory could not be allocated")                                  \
    X(ERR_CONFIG, -4, "a SELVAGE_ variable was refused")                                \
    X(ERR_MPI, -5, "an MPI call failed")                                                \
    X(ERR_DEVICE, -6, "a device call failed")                                           \
    X(ERR_SYSTEM, -7, "an operating system call failed")                                \
    X(ERR_MISMATCH, -8, "ranks do not agree on what is exchanged")                      \
    X(ERR_TIMEOUT, -9, "the deadline passed without progress")                          \
    X(ERR_CHECKSUM, -10, "a packet did not verify and could not be recovered")          \
    X(ERR_PEER, -11, "another rank reported a failure")                                 \
    X(ERR_UNSUPPORTED, -12, "not possible with this device, MPI or build")              \
    X(ERR_LIMIT, -13, "a limit of the MPI or of Selvage was reached")                   \
    X(ERR_INTERNAL, -14, "Selvage broke one of its own rules; please report it")          \
    X(ERR_ABORTED, -15, "the operation was aborted")                                    \
    X(ERR_TRUNCATED, -16, "a message was longer than its receive")

/** Result of every call that can fail. */
typedef enum selvage_status {
#define SELVAGE_STATUS_ENUM_(name, number, text) SELVAGE_##name = (number),
    SELVAGE_STATUS_TABLE(SELVAGE_STATUS_ENUM_)
#undef SELVAGE_STATUS_ENUM_
} selvage_status_t;

/**
 * @brief Name of a status, such as "SELVAGE_ERR_TIMEOUT".
 *
 * Local, does not block, any thread. @return static text; "SELVAGE_UNKNOWN" for a number not in the table.
 */
const char *selvage_status_name(selvage_status_t status);

/**
 * @brief What a status means, in one sentence fragment.
 *
 * Local, does not block, any thread. @return static text, never NULL.
 */
const char *selvage_status_string(selvage_status_t status);

/**
 * @brief Detail of the last error returned to this thread: the argument, or the packet, peer and native error.
 *
 * Local, does not block, any thread (each has its own text). The text stays valid until the next failing call of
 * this thread; a call that succeeds leaves it as it was. @return "" if no call failed yet, never NULL.
 */
const char *selvage_error_detail(void);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
