/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SV_COLL_GATHER_H
#define SV_COLL_GATHER_H

#include "comm/comm_gather.h"
#include "comm/comm_task.h"

#define sv_coll_team_t sv_team_t
#define sv_coll_team_init sv_team_init
#define sv_coll_team_fini sv_team_fini
#define sv_coll_team sv_team
#define sv_coll_item_t sv_gather_item_t
#define sv_coll_item_begin sv_gather_item_begin
#define sv_coll_item_of sv_gather_item_of
#define sv_coll_item sv_gather_item
#define sv_coll_gather sv_gather
#define SV_COLL_ITEM_VALUES SV_GATHER_VALUES
#define SV_COLL_SETUP_TAG SV_GATHER_TAG
#define sv_coll_task_run sv_comm_task_run
#define sv_coll_task_t sv_comm_task_t
#define sv_coll_task sv_comm_task

#endif
