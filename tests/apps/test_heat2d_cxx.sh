#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# The C++ example is right, cells and sum, on rank counts that divide the square and that do not, by every route; and it
# refuses what makes no sense.
name=heat2d_cxx
. "$(dirname "$0")/../fixtures/application_runs.sh"
heat2d_cxx() { application "$@"; }

right=": 0 cells differ from the serial run; the heat, added up on the device, was .*: right$"
[ "$(own_gpus)" -ge 3 ] || right=": 0 cells differ from the serial run; the heat, added up .*: right$"
heat2d_cxx 2 0 "48x48 cells, 10 steps, 2 ranks$right"
heat2d_cxx 3 0 "48x48 cells, 10 steps, 3 ranks$right"
alike heat2d_cxx 1 0 "256x256 cells, 12 steps, 1 ranks$right" --n 256 --steps 12
for route in peer shared staged; do
    SELVAGE_ROUTE=$route alike heat2d_cxx 3 0 "17x17 cells, 10 steps, 3 ranks$right" --n 17
done
SELVAGE_SOFT_MODE=inline alike heat2d_cxx 2 0 "right$" --n 5 --steps 0

alike heat2d_cxx 3 1 "SELVAGE_ERR_ARGUMENT" --n 1
alike heat2d_cxx 1 2 "^usage" --n 0
alike heat2d_cxx 1 2 "^usage" --steps 13
alike heat2d_cxx 1 2 "^usage" --n
alike heat2d_cxx 1 2 "^usage" --cells 8
finish
