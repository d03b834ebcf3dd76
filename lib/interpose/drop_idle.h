/* SPDX-License-Identifier: BSD-3-Clause */
/* Giving back what nothing has used for long (drop_idle.c, and drop_sync.c for the rest of the devices). Any thread. */
#ifndef SV_DROP_IDLE_H
#define SV_DROP_IDLE_H

#include "interpose/drop.h"

/* Gives back memory that nothing has used for long, of all that the drop-in and the route keep. For calls that may
   block: some times a second it looks for that, and gives it back while the devices are at rest. */
void sv_drop_give_back(void);

/* Whether the devices have nothing left to do at some time within this limit. Makes the thread of drop_sync.c. */
bool sv_drop_comes_to_rest(int64_t limit_ns);

#endif
