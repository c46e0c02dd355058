! Views, requests and error handlers from Fortran, through `use mpi`.
module handlers
  implicit none
  integer :: handled = 0, on_file = 0
contains
  subroutine note(file, code)
    integer :: file, code
    handled = handled + 1
    on_file = file
  end subroutine note
end module handlers

program view
  use mpi
  use handlers
  implicit none
  integer :: rank, ranks, error, file, filetype, status(MPI_STATUS_SIZE), request, count, handler, class, i
  integer(kind=MPI_OFFSET_KIND) :: displacement, length
  integer :: out(6), in(6)
  double precision :: reals(4)
  character(len=1024) :: path
  logical :: flag
  call MPI_Init(error)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, error)
  call get_command_argument(1, path)
  out = [(100 * rank + i, i = 1, 6)]
  call MPI_File_open(MPI_COMM_WORLD, trim(path), MPI_MODE_RDWR + MPI_MODE_CREATE, MPI_INFO_NULL, file, error)
  if (error /= MPI_SUCCESS) stop 2
  call MPI_Type_vector(3, 2, 2 * ranks, MPI_INTEGER, filetype, error)
  call MPI_Type_commit(filetype, error)
  displacement = 8 * rank
  call MPI_File_set_view(file, displacement, MPI_INTEGER, filetype, 'native', MPI_INFO_NULL, error)
  if (error /= MPI_SUCCESS) stop 3
  call MPI_File_write_all(file, out, 6, MPI_INTEGER, status, error)
  call MPI_Get_count(status, MPI_INTEGER, count, error)
  if (count /= 6) stop 4
  in = 0
  displacement = 0
  call MPI_File_iread_at(file, displacement, in, 6, MPI_INTEGER, request, error)
  flag = .false.
  do while (.not. flag)
    call MPI_Test(request, flag, status, error)
  end do
  if (any(in /= out)) stop 5
  call MPI_File_set_view(file, displacement, MPI_DOUBLE_PRECISION, MPI_DOUBLE_PRECISION, 'external32', MPI_INFO_NULL, error)
  reals = [(rank + i / 4d0, i = 1, 4)]
  displacement = 1000 + 4 * rank
  call MPI_File_write_at_all(file, displacement, reals, 4, MPI_DOUBLE_PRECISION, MPI_STATUS_IGNORE, error)
  call MPI_File_create_errhandler(note, handler, error)
  call MPI_File_set_errhandler(file, handler, error)
  call MPI_Errhandler_free(handler, error)
  displacement = -8
  call MPI_File_seek(file, displacement, MPI_SEEK_SET, error)
  if (error == MPI_SUCCESS) stop 6
  call MPI_Error_class(error, class, error)
  if (handled /= 1 .or. on_file /= file) stop 7
  call MPI_File_get_size(file, length, error)
  call MPI_Type_free(filetype, error)
  call MPI_File_close(file, error)
  if (file /= MPI_FILE_NULL .or. error /= MPI_SUCCESS) stop 8
  if (rank == 0) print '(a,i0)', 'length ', length
  call MPI_Finalize(error)
end program view
