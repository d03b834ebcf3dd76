/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of handles (drop_table.c). The caller has the lock of drop_request.c. */
#ifndef SV_DROP_TABLE_H
#define SV_DROP_TABLE_H

#include "interpose/drop.h"

void sv_drop_table_add(sv_drop_op_t *op);
/* Whether it was there. */
bool sv_drop_table_remove(sv_drop_op_t *op);
/* The operation that has this handle now, or NULL. */
sv_drop_op_t *sv_drop_table_find(MPI_Request handle);

void sv_drop_table_visit(void (*visit)(sv_drop_op_t *op));

/* A call that looks up when it ends what had a handle when it began. */
typedef struct sv_drop_table_call {
    struct sv_drop_table_call *next; /* of those under way */
    uint64_t number;                 /* of the last that was added or passed before it */
} sv_drop_table_call_t;

/* Another request has its handle. True: a call under way may still look it up. Otherwise the caller removes it. */
bool sv_drop_table_pass(sv_drop_op_t *op);
/* The call's memory is the caller's, and stays until the end. */
void sv_drop_table_begin_call(sv_drop_table_call_t *call);
sv_drop_op_t *sv_drop_table_find_at(MPI_Request handle, const sv_drop_table_call_t *call);
/* Forgets the operations whose handles MPI has freed (drop_request.c). */
void sv_drop_read_notes(void);
/* Partner of begin. Returns the operations that passed and that no call looks up any more, chained by passed_before.
   The caller removes and releases them, even if they have left the table. */
sv_drop_op_t *sv_drop_table_end_call(const sv_drop_table_call_t *call);

/* Memory for an operation, all zero; NULL: there is none. And back. */
sv_drop_op_t *sv_drop_table_take_op(void);
void sv_drop_table_give_op(sv_drop_op_t *op);

#endif
