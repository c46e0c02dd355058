/* Opens a file, writes a byte per rank and closes it. */
#include "log.h"

int main(int argc, char **argv) {
    MPI_File file;
    const char byte = 'x';
    int code;
    begin(&argc, &argv);
    code = MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_RDWR | MPI_MODE_CREATE, MPI_INFO_NULL, &file);
    say("open: %s", class_name(code));
    if (code == MPI_SUCCESS) {
        code = MPI_File_write_at_all(file, rank, &byte, 1, MPI_CHAR, MPI_STATUS_IGNORE);
        MPI_File_close(&file);
    }
    finish();
    return code != MPI_SUCCESS;
}
