/* Programs that end without closing their file, after they have written through all the ways there are. The second argument says how: by MPI_Finalize, by
   exit without it, by returning from main. */
#include "log.h"
#include <unistd.h>

enum { BLOCK = 1 << 20, BLOCKS = 8, ALONE = 5 };

int main(int argc, char **argv) {
    static char data[BLOCKS][BLOCK];
    MPI_File file, shared, split;
    MPI_Request request;
    char name[4100];
    begin(&argc, &argv);
    snprintf(name, sizeof name, "%s-shared", argv[1]);
    if (MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_WRONLY | MPI_MODE_CREATE, MPI_INFO_NULL, &file)) return 3;
    if (MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_WRONLY | MPI_MODE_CREATE, MPI_INFO_NULL, &shared)) return 3;
    snprintf(name, sizeof name, "%s-split", argv[1]);
    if (MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_WRONLY | MPI_MODE_CREATE, MPI_INFO_NULL, &split)) return 3;
    for (int block = 0; block < BLOCKS; block++) {
        const MPI_Offset place = ((MPI_Offset)block * size + rank) * BLOCK;
        memset(data[block], 'a' + (block * 3 + rank) % 26, BLOCK);
        if (block == ALONE) {
            /* Never waited for. */
            if (MPI_File_iwrite_at(file, place, data[block], BLOCK, MPI_CHAR, &request)) return 4;
        } else if (block > ALONE) {
            /* Collective ones, the last one freed. */
            if (MPI_File_iwrite_at_all(file, place, data[block], BLOCK, MPI_CHAR, &request)) return 4;
            if (block == BLOCKS - 1 && MPI_Request_free(&request)) return 4;
        } else if (block % 2) {
            if (MPI_File_write_at(file, place, data[block], BLOCK, MPI_CHAR, MPI_STATUS_IGNORE)) return 4;
        } else {
            if (MPI_File_write_at_all(file, place, data[block], BLOCK, MPI_CHAR, MPI_STATUS_IGNORE)) return 4;
        }
    }
    /* Never ended. */
    if (MPI_File_write_at_all_begin(split, (MPI_Offset)rank * BLOCK, data[rank % BLOCKS], BLOCK, MPI_CHAR)) return 6;
    /* Ranks come to the end at different times, and the last ones still need the first. */
    usleep(50000 * rank);
    if (MPI_File_write_shared(shared, data[0], 100, MPI_CHAR, MPI_STATUS_IGNORE)) return 5;
    if (!strcmp(argv[2], "finalize")) {
        MPI_Finalize();
        return 0;
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (!strcmp(argv[2], "exit")) exit(0);
    return 0;
}
