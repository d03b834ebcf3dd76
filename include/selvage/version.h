/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file version.h
 * @brief Which Selvage this is: at compile time and at run time.
 */
#ifndef SELVAGE_VERSION_H
#define SELVAGE_VERSION_H

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/** Version of the headers; the test suite compares them with the VERSION file. */
#define SELVAGE_VERSION_MAJOR 0
#define SELVAGE_VERSION_MINOR 2
#define SELVAGE_VERSION_PATCH 0

/** One number that grows with every release: major * 10000 + minor * 100 + patch. */
#define SELVAGE_VERSION_NUMBER (SELVAGE_VERSION_MAJOR * 10000 + SELVAGE_VERSION_MINOR * 100 + SELVAGE_VERSION_PATCH)

/**
 * @brief Version of the library that is really loaded, as text ("0.2.0") and as numbers.
 *
 * Local, does not block, any thread, may be called before MPI_Init.
 *
 * @param[out] major,minor,patch  parts of the version; each may be NULL
 * @return static text, never NULL
 */
const char *selvage_version(int *major, int *minor, int *patch);

/**
 * @brief How the loaded library was built: MPI, hwloc, kernels, where its plug-ins are looked for. For people.
 *
 * Local, does not block, any thread, may be called before MPI_Init.
 *
 * @return static text, parts separated by "; ", never NULL
 */
const char *selvage_version_build(void);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
