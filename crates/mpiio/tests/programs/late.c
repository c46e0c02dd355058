/* Opens a file natively, then loads the library of the first argument, too late, and opens one more. */
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    MPI_File file;
    MPI_Init(&argc, &argv);
    if (MPI_File_open(MPI_COMM_SELF, argv[0], MPI_MODE_RDONLY, MPI_INFO_NULL, &file)) abort();
    MPI_File_close(&file);
    if (argc > 1 && !dlopen(argv[1], RTLD_NOW | (argc > 2 ? RTLD_GLOBAL : RTLD_LOCAL))) {
        fprintf(stderr, "%s\n", dlerror());
        abort();
    }
    if (MPI_File_open(MPI_COMM_SELF, argv[0], MPI_MODE_RDONLY, MPI_INFO_NULL, &file)) abort();
    MPI_File_close(&file);
    MPI_Finalize();
    puts("done");
    return 0;
}
