/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of handles (drop_table.c). The caller has the lock of drop_request.c. */
#ifndef SV_DROP_TABLE_H
#define SV_DROP_TABLE_H

#include "interpose/drop.h"

void sv_drop_table_add(sv_drop_op_t *op);
/* Whether it was there. */
bool sv_drop_table_remove(sv_drop_op_t *op);
/* What has this handle now, or NULL. */
sv_drop_op_t *sv_drop_table_find(MPI_Request handle);

/* Another request has its handle. True: calls under way may look it up still; else the caller removes it. */
bool sv_drop_table_pass(sv_drop_op_t *op);
/* A call that looks up when it ends what had a handle when it began. The number is for that. */
uint64_t sv_drop_table_begin_call(void);
sv_drop_op_t *sv_drop_table_find_at(MPI_Request handle, uint64_t number);
/* The same, of a completion call, which takes the lock (drop_request.c). */
uint64_t sv_drop_ops_begin_call(void);
/* Partner of begin. Returns those that passed and nobody looks up any more, by passed_before, to be removed. */
sv_drop_op_t *sv_drop_table_end_call(void);

#endif
