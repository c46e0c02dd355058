/* Ranks in different folders: a relative folder of the settings is missing for some of them. The file has an absolute name. */
#include "log.h"
#include <unistd.h>

int main(int argc, char **argv) {
    MPI_File file;
    begin(&argc, &argv);
    if (chdir(rank % 2 ? "/" : argv[2])) return 2;
    if (MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_WRONLY | MPI_MODE_CREATE, MPI_INFO_NULL, &file)) return 3;
    if (MPI_File_write_at_all(file, rank, "x", 1, MPI_CHAR, MPI_STATUS_IGNORE)) return 4;
    if (MPI_File_close(&file)) return 5;
    MPI_Finalize();
    return 0;
}
