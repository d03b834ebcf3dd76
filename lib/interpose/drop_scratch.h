/* SPDX-License-Identifier: BSD-3-Clause */
/* Device memory for calls that write where they read (drop_scratch.c). */
#ifndef SV_DROP_SCRATCH_H
#define SV_DROP_SCRATCH_H

#include "interpose/drop.h"

/* Memory of the route's device; NULL: there is none. The taker gives it back after all work on it has ended. */
void *sv_drop_scratch_take(size_t bytes);
/* Takes NULL, too. */
void sv_drop_scratch_give(void *memory);

/* Whether some was not used for long; and releases that, while the device is at rest (drop_idle.c). */
bool sv_drop_scratch_has_idle(int64_t now_ns);
void sv_drop_scratch_free_idle(void);
/* With the route: nobody has any. */
void sv_drop_scratch_close(void);

#endif
