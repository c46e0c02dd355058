/* A read that is converted, whose request was freed: what was read is in the buffer when the file has been closed, and not written there later. */
#include "log.h"

enum { COUNT = 50000 };

int main(int argc, char **argv) {
    long *data = malloc(COUNT * sizeof *data);
    int wrong = 0, i;
    MPI_File file;
    MPI_Request request;
    begin(&argc, &argv);
    for (i = 0; i < COUNT; i++) data[i] = i;
    if (MPI_File_open(MPI_COMM_SELF, argv[1], MPI_MODE_RDWR | MPI_MODE_CREATE, MPI_INFO_NULL, &file)) return 3;
    if (MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "external32", MPI_INFO_NULL)) return 4;
    if (MPI_File_write_at(file, 0, data, COUNT, MPI_LONG, MPI_STATUS_IGNORE)) return 5;
    memset(data, 0, COUNT * sizeof *data);
    if (MPI_File_iread_at(file, 0, data, COUNT, MPI_LONG, &request)) return 6;
    MPI_Request_free(&request);
    MPI_File_close(&file);
    for (i = 0; i < COUNT; i++) wrong += data[i] != i;
    memset(data, 0, COUNT * sizeof *data);
    MPI_File_delete("/no/such/file", MPI_INFO_NULL);
    for (i = 0; i < COUNT; i++) wrong += data[i] != 0;
    free(data);
    if (wrong) fprintf(stderr, "%d wrong\n", wrong);
    MPI_Finalize();
    return wrong != 0;
}
