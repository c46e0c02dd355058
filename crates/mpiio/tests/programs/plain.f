C     Shared and ordered pointers from Fortran 77, through mpif.h.
      program plain
      implicit none
      include 'mpif.h'
      integer rank, ranks, ierror, file, i, count
      integer status(MPI_STATUS_SIZE)
      integer numbers(4)
      integer(kind=MPI_OFFSET_KIND) place
      character*1024 path
      call MPI_INIT(ierror)
      call MPI_COMM_RANK(MPI_COMM_WORLD, rank, ierror)
      call MPI_COMM_SIZE(MPI_COMM_WORLD, ranks, ierror)
      call getarg(1, path)
      do i = 1, 4
        numbers(i) = 10 * rank + i
      end do
      call MPI_FILE_OPEN(MPI_COMM_WORLD, path, MPI_MODE_RDWR +
     &  MPI_MODE_CREATE, MPI_INFO_NULL, file, ierror)
      if (ierror .ne. MPI_SUCCESS) stop 2
      call MPI_FILE_WRITE_ORDERED(file, numbers, 4, MPI_INTEGER,
     &  status, ierror)
      call MPI_GET_COUNT(status, MPI_INTEGER, count, ierror)
      if (count .ne. 4) stop 3
      place = 16 * rank
      call MPI_FILE_READ_AT(file, place, numbers, 4, MPI_INTEGER,
     &  MPI_STATUS_IGNORE, ierror)
      if (numbers(4) .ne. 10 * rank + 4) stop 4
      call MPI_FILE_CLOSE(file, ierror)
      if (rank .eq. 0) print '(a)', 'done'
      call MPI_FINALIZE(ierror)
      end
