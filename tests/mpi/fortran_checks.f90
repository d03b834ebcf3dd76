! SPDX-License-Identifier: BSD-3-Clause
!
! What the cases of the Fortran tests stand on: counted checks, and calls of which one wants to fail.
module fortran_checks
  use, intrinsic :: iso_fortran_env, only: output_unit
  use selvage
  implicit none
  private
  public :: check, refused, checks, failures

  integer, protected :: checks = 0, failures = 0

contains

  !> Counts, and says what is wrong.
  subroutine check(right, what)
    logical, intent(in) :: right
    character(len=*), intent(in) :: what
    checks = checks + 1
    if (right) return
    failures = failures + 1
    write (output_unit, '(2a)') 'FAIL: ', what
    flush (output_unit)
  end subroutine

  !> The call that gave `error` should have been refused with `status`, and `text` should be in the detail.
  subroutine refused(error, status, text)
    integer, intent(in) :: error, status
    character(len=*), intent(in) :: text
    call check(error == status .and. index(selvage_error_detail(), text) > 0, 'not refused as "' // text // '": ' // &
               selvage_status_name(error) // ' "' // selvage_error_detail() // '"')
  end subroutine

end module
