/* Several files at once, of all ranks and of one: each gets more than a small buffer holds. */
#include "log.h"
#include <string.h>

enum { FILES = 3, ROUNDS = 50, BYTES = 5000 };

int main(int argc, char **argv) {
    int wrong = 0, all = 0;
    char name[1000], data[BYTES], back[BYTES];
    MPI_File files[FILES];
    MPI_Status status;
    begin(&argc, &argv);
    for (int file = 0; file < FILES; file++) {
        const int alone = file == FILES - 1;
        const MPI_Comm comm = alone ? MPI_COMM_SELF : MPI_COMM_WORLD;
        snprintf(name, sizeof name, "%s-%d-%d", argv[1], file, alone ? rank : 0);
        wrong += MPI_File_open(comm, name, MPI_MODE_RDWR | MPI_MODE_CREATE, MPI_INFO_NULL, &files[file]) != MPI_SUCCESS;
    }
    for (int round = 0; round < ROUNDS; round++) {
        for (int file = 0; file < FILES; file++) {
            const MPI_Offset at = ((MPI_Offset)round * size + rank) * BYTES;
            memset(data, 1 + (round * 7 + rank * 3 + file) % 100, BYTES);
            wrong += (round % 2 ? MPI_File_write_at(files[file], at, data, BYTES, MPI_CHAR, &status)
                                : MPI_File_write_at_all(files[file], at, data, BYTES, MPI_CHAR, &status)) != MPI_SUCCESS;
        }
    }
    for (int file = 0; file < FILES; file++) {
        wrong += MPI_File_sync(files[file]) != MPI_SUCCESS;
        for (int round = 0; round < ROUNDS; round++) {
            const MPI_Offset at = ((MPI_Offset)round * size + rank) * BYTES;
            memset(data, 1 + (round * 7 + rank * 3 + file) % 100, BYTES);
            wrong += MPI_File_read_at(files[file], at, back, BYTES, MPI_CHAR, &status) != MPI_SUCCESS;
            wrong += memcmp(data, back, BYTES) != 0;
        }
    }
    for (int file = 0; file < FILES; file++) wrong += MPI_File_close(&files[file]) != MPI_SUCCESS;
    MPI_Allreduce(&wrong, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    say("%d wrong", wrong);
    finish();
    return all != 0;
}
