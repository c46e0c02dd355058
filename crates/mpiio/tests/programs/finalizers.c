/* A library that keeps a file open and closes it when MPI ends, as parallel HDF5 does: by an attribute of MPI_COMM_SELF that it has set before the first file was
   opened. */
#include "log.h"

static MPI_File file;
static int wrong = 1;

static int at_end(MPI_Comm comm, int key, void *value, void *extra) {
    char text[8];
    (void)comm, (void)key, (void)value, (void)extra;
    snprintf(text, sizeof text, "rank %d\n", rank);
    wrong = MPI_File_write_at_all(file, 7 * rank, text, 7, MPI_CHAR, MPI_STATUS_IGNORE) != MPI_SUCCESS;
    wrong |= MPI_File_close(&file) != MPI_SUCCESS;
    return MPI_SUCCESS;
}

int main(int argc, char **argv) {
    int key;
    begin(&argc, &argv);
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, at_end, &key, NULL);
    MPI_Comm_set_attr(MPI_COMM_SELF, key, &file);
    if (MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_WRONLY | MPI_MODE_CREATE, MPI_INFO_NULL, &file)) return 3;
    MPI_Finalize();
    if (wrong) fprintf(stderr, "rank %d: the file was gone when MPI ended\n", rank);
    return wrong;
}
