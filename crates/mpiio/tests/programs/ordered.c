/* Accesses in rank order need no thread, between nodes neither: whatever the thread level, all ranks take part. */
#include "log.h"

enum { ROUNDS = 5 };

int main(int argc, char **argv) {
    int wrong = 0, all = 0, count = 0;
    MPI_File file;
    MPI_Status status;
    MPI_Offset at, end;
    begin(&argc, &argv);
    MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_RDWR | MPI_MODE_CREATE, MPI_INFO_NULL, &file);
    MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL);
    for (int round = 0; round < ROUNDS; round++) {
        int data[64];
        for (int i = 0; i <= rank; i++) data[i] = round * 1000 + rank * 10 + i;
        wrong += MPI_File_write_ordered(file, data, rank + 1, MPI_INT, &status) != MPI_SUCCESS;
        MPI_Get_count(&status, MPI_INT, &count);
        wrong += count != rank + 1;
    }
    end = (MPI_Offset)ROUNDS * size * (size + 1) / 2;
    wrong += MPI_File_seek_shared(file, 0, MPI_SEEK_SET) != MPI_SUCCESS;
    for (int round = 0; round < ROUNDS; round++) {
        int data[64] = {0};
        wrong += MPI_File_read_ordered(file, data, rank + 1, MPI_INT, &status) != MPI_SUCCESS;
        for (int i = 0; i <= rank; i++) wrong += data[i] != round * 1000 + rank * 10 + i;
    }
    MPI_File_get_size(file, &at);
    wrong += at != end * (MPI_Offset)sizeof(int);
    MPI_File_close(&file);
    MPI_Allreduce(&wrong, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    say("%d wrong", wrong);
    finish();
    return all != 0;
}
