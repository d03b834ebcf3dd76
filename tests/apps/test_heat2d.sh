#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# The stencil example is equal to its serial run, bit for bit: rank counts that divide the square and that do not, rows
# and columns of one cell, every route, the progress thread; and it refuses what makes no sense.
name=heat2d
. "$(dirname "$0")/../fixtures/application_runs.sh"
heat2d() { application "$@"; }

equal="equal to the serial run bit for bit"
heat2d 1 0 "256x256 cells, 100 steps, 1 ranks: $equal"
heat2d 4 0 "256x256 cells, 100 steps, 4 ranks: $equal"
for ranks in 1 2 3 6; do alike heat2d "$ranks" 0 "$equal" --n 37 --steps 21; done
alike heat2d 4 0 "$equal" --n 2 --steps 5
alike heat2d 3 0 "$equal" --n 3 --steps 5
alike heat2d 1 0 "$equal" --n 1 --steps 5
alike heat2d 2 0 "$equal" --n 16 --steps 0
for route in peer shared staged; do
    SELVAGE_ROUTE=$route alike heat2d 2 0 "$equal" --n 64 --steps 20
    SELVAGE_ROUTE=$route alike heat2d 4 0 "$equal" --n 64 --steps 20
done
SELVAGE_PROGRESS=thread heat2d 2 0 "$equal" --n 64 --steps 20
SELVAGE_SOFT_MODE=inline heat2d 2 0 "$equal" --n 64 --steps 20

alike heat2d 3 2 "^usage" --n 2
alike heat2d 2 2 "^usage" --n 0
alike heat2d 2 2 "^usage" --n 12x
alike heat2d 2 2 "^usage" --steps -1
alike heat2d 2 2 "^usage" --n
alike heat2d 2 2 "^usage" --cells 8

finish
