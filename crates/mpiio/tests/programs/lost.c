/* Buffered, on a device where the first rank cannot write: whoever reads what it wrote gets the error, and what it did not write can be read. */
#include "log.h"
#include <unistd.h>

enum { BYTES = 4096 };

int main(int argc, char **argv) {
    static char data[BYTES], back[BYTES];
    MPI_File file;
    int wrong = 0, code;
    begin(&argc, &argv);
    wrong += MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_RDWR | MPI_MODE_CREATE, MPI_INFO_NULL, &file) != MPI_SUCCESS;
    memset(data, 'a' + rank, BYTES);
    code = MPI_File_write_at(file, (MPI_Offset)rank * BYTES, data, BYTES, MPI_CHAR, MPI_STATUS_IGNORE);
    wrong += rank > 0 && code != MPI_SUCCESS;
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank > 0) {
        for (int round = 0; round < 3; round++) {
            code = MPI_File_read_at(file, 0, back, BYTES, MPI_CHAR, MPI_STATUS_IGNORE);
            if (strcmp(class_name(code), "MPI_ERR_NO_SPACE")) wrong++, say("read of what was lost: %s", class_name(code));
        }
        code = MPI_File_read_at(file, (MPI_Offset)rank * BYTES, back, BYTES, MPI_CHAR, MPI_STATUS_IGNORE);
        if (code != MPI_SUCCESS || memcmp(data, back, BYTES)) wrong++, say("read of what was written: %s", class_name(code));
    }
    code = MPI_File_close(&file);
    if (strcmp(class_name(code), "MPI_ERR_NO_SPACE")) wrong++, say("close: %s", class_name(code));
    say("wrong %d", wrong);
    finish();
    return wrong != 0;
}
