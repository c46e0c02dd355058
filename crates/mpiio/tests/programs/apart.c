/* Collective operations that do not wait must not wait for others when they are begun either: here each rank begins its own only after
   the next lower one has, and says so by a message that it sends after it has begun. */
#include "log.h"

int main(int argc, char **argv) {
    static char data[1 << 20], back[1 << 20];
    MPI_File file;
    MPI_Request requests[2];
    MPI_Status status;
    int token = 0, code, count = 0, wrong = 0, all = 0;
    begin(&argc, &argv);
    memset(data, 'a' + rank, sizeof data);
    MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_RDWR | MPI_MODE_CREATE, MPI_INFO_NULL, &file);
    if (rank > 0) MPI_Recv(&token, 1, MPI_INT, rank - 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    code = MPI_File_iwrite_at_all(file, (MPI_Offset)rank << 20, data, 1 << 20, MPI_BYTE, &requests[0]);
    wrong += code != MPI_SUCCESS;
    if (rank < size - 1) MPI_Send(&token, 1, MPI_INT, rank + 1, 0, MPI_COMM_WORLD);
    wrong += MPI_Wait(&requests[0], &status) != MPI_SUCCESS;
    MPI_Get_count(&status, MPI_BYTE, &count);
    wrong += count != 1 << 20;
    /* The same as a split operation, and a read under way together with it on another file. */
    if (rank > 0) MPI_Recv(&token, 1, MPI_INT, rank - 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    wrong += MPI_File_read_at_all_begin(file, (MPI_Offset)rank << 20, back, 1 << 20, MPI_BYTE) != MPI_SUCCESS;
    if (rank < size - 1) MPI_Send(&token, 1, MPI_INT, rank + 1, 0, MPI_COMM_WORLD);
    wrong += MPI_File_read_at_all_end(file, back, &status) != MPI_SUCCESS;
    wrong += memcmp(data, back, sizeof data) != 0;
    MPI_File_close(&file);
    MPI_Allreduce(&wrong, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    say("%d wrong", wrong);
    finish();
    return all != 0;
}
