! Files from Fortran through `use mpi_f08`: typed handles, statuses as a type, errors without the last argument.
program modern
  use mpi_f08
  implicit none
  type(MPI_File) :: file
  type(MPI_Datatype) :: filetype, etype, told
  type(MPI_Status) :: status
  type(MPI_Request) :: requests(2)
  type(MPI_Info) :: info
  type(MPI_Errhandler) :: handler
  integer :: rank, ranks, error, count, class, i
  integer(kind=MPI_OFFSET_KIND) :: displacement, length, place
  integer :: out(8), in(8)
  double precision :: reals(3, 2)
  character(len=1024) :: path
  character(len=MPI_MAX_DATAREP_STRING) :: representation
  logical :: flag
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks)
  call get_command_argument(1, path)
  out = [(100 * rank + i, i = 1, 8)]
  call MPI_Info_create(info)
  call MPI_Info_set(info, 'cb_buffer_size', '1048576')
  call MPI_File_open(MPI_COMM_WORLD, trim(path), MPI_MODE_RDWR + MPI_MODE_CREATE, info, file)
  call MPI_Info_free(info)
  call MPI_Type_create_subarray(2, [2 * ranks, 4], [2, 4], [2 * rank, 0], MPI_ORDER_FORTRAN, MPI_INTEGER, filetype)
  call MPI_Type_commit(filetype)
  displacement = 64
  call MPI_File_set_view(file, displacement, MPI_INTEGER, filetype, 'native', MPI_INFO_NULL)
  call MPI_File_write_all(file, out, 8, MPI_INTEGER, status)
  call MPI_Get_count(status, MPI_INTEGER, count)
  if (count /= 8) stop 2
  call MPI_File_get_view(file, displacement, etype, told, representation)
  if (displacement /= 64 .or. etype /= MPI_INTEGER .or. representation /= 'native') stop 3
  call MPI_Type_free(told)
  in = 0
  place = 0
  call MPI_File_iread_at(file, place, in(1:4), 4, MPI_INTEGER, requests(1))
  place = 4
  call MPI_File_iread_at(file, place, in(5:8), 4, MPI_INTEGER, requests(2))
  call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE)
  if (any(in /= out)) stop 4
  place = 0
  displacement = 0
  call MPI_File_set_view(file, displacement, MPI_BYTE, MPI_BYTE, 'native', MPI_INFO_NULL)
  reals = reshape([(rank + i / 8d0, i = 1, 6)], [3, 2])
  place = 4096 + 48 * rank
  call MPI_File_write_at_all_begin(file, place, reals, 6, MPI_DOUBLE_PRECISION)
  call MPI_File_write_at_all_end(file, reals, status)
  call MPI_Get_elements(status, MPI_DOUBLE_PRECISION, count)
  if (count /= 6) stop 5
  place = 8192
  call MPI_File_seek_shared(file, place, MPI_SEEK_SET)
  call MPI_File_write_ordered(file, out, 1 + mod(rank, 8), MPI_INTEGER, status)
  call MPI_File_sync(file)
  call MPI_Barrier(MPI_COMM_WORLD)
  call MPI_File_get_size(file, length)
  call MPI_File_get_atomicity(file, flag)
  if (flag) stop 6
  call MPI_File_get_errhandler(file, handler)
  if (handler /= MPI_ERRORS_RETURN) stop 7
  place = -4
  call MPI_File_seek(file, place, MPI_SEEK_SET, error)
  call MPI_Error_class(error, class)
  if (class == MPI_SUCCESS) stop 9
  if (rank == 0) print '(a,i0)', 'length ', length
  call MPI_Type_free(filetype)
  call MPI_File_close(file)
  if (file /= MPI_FILE_NULL) stop 8
  call MPI_Finalize()
end program modern
