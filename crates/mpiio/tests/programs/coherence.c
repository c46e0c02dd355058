/* Ranks on several nodes, each with a page cache of its own, write pieces smaller than a page in turns and read what all have written. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

enum { PIECE = 100, PIECES = 500, STEPS = 6 };

static char mine[PIECE * PIECES], all[16 * PIECE * PIECES];

int main(int argc, char **argv) {
    int rank, size, wrong = 0, step, i;
    MPI_File file;
    MPI_Datatype turns;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_ARE_FATAL);
    MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_RDWR | MPI_MODE_CREATE, MPI_INFO_NULL, &file);
    MPI_Type_vector(PIECES, PIECE, PIECE * size, MPI_BYTE, &turns);
    MPI_Type_commit(&turns);
    for (step = 0; step < STEPS; step++) {
        memset(mine, 1 + rank + 10 * step, sizeof mine);
        MPI_File_set_view(file, (MPI_Offset)PIECE * rank, MPI_BYTE, turns, "native", MPI_INFO_NULL);
        if (step % 2)
            MPI_File_write_at_all(file, 0, mine, sizeof mine, MPI_BYTE, MPI_STATUS_IGNORE);
        else
            MPI_File_write_at(file, 0, mine, sizeof mine, MPI_BYTE, MPI_STATUS_IGNORE);
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL);
        MPI_File_read_at(file, 0, all, size * (int)sizeof mine, MPI_BYTE, MPI_STATUS_IGNORE);
        for (i = 0; i < size * (int)sizeof mine; i++) wrong += all[i] != (char)(1 + i / PIECE % size + 10 * step);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_Type_free(&turns);
    MPI_File_close(&file);
    printf("%d wrong %d\n", rank, wrong);
    MPI_Finalize();
    return 0;
}
