/* PnetCDF: several variables, put without waiting and waited for together; read back independently. */
#include <mpi.h>
#include <pnetcdf.h>
#include <stdio.h>

#define OK(call) do { int code_ = (call); if (code_ != NC_NOERR) { fprintf(stderr, "line %d: %s\n", __LINE__, ncmpi_strerror(code_)); wrong++; } } while (0)

int main(int argc, char **argv) {
    int rank, size, file, dims[2], variables[4], requests[4], states[4], wrong = 0, all = 0, i, j;
    double data[4][20], back[20];
    MPI_Offset start[2], count[2];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    OK(ncmpi_create(MPI_COMM_WORLD, argv[1], NC_CLOBBER | NC_64BIT_DATA, MPI_INFO_NULL, &file));
    OK(ncmpi_def_dim(file, "row", 10, &dims[0]));
    OK(ncmpi_def_dim(file, "column", 2 * size, &dims[1]));
    for (i = 0; i < 4; i++) {
        char name[16];
        sprintf(name, "v%d", i);
        OK(ncmpi_def_var(file, name, NC_DOUBLE, 2, dims, &variables[i]));
    }
    OK(ncmpi_enddef(file));
    start[0] = 0;
    start[1] = 2 * rank;
    count[0] = 10;
    count[1] = 2;
    for (i = 0; i < 4; i++) {
        for (j = 0; j < 20; j++) data[i][j] = 1000 * i + 100 * rank + j;
        OK(ncmpi_iput_vara_double(file, variables[i], start, count, data[i], &requests[i]));
    }
    OK(ncmpi_wait_all(file, 4, requests, states));
    for (i = 0; i < 4; i++) OK(states[i]);
    OK(ncmpi_close(file));
    OK(ncmpi_open(MPI_COMM_WORLD, argv[1], NC_NOWRITE, MPI_INFO_NULL, &file));
    for (i = 0; i < 4; i++) {
        OK(ncmpi_get_vara_double_all(file, variables[i], start, count, back));
        for (j = 0; j < 20; j++) wrong += back[j] != data[i][j];
    }
    OK(ncmpi_begin_indep_data(file));
    if (rank == 0) OK(ncmpi_get_vara_double(file, variables[3], start, count, back));
    OK(ncmpi_end_indep_data(file));
    OK(ncmpi_close(file));
    MPI_Allreduce(&wrong, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0) printf("%d wrong\n", all);
    MPI_Finalize();
    return all != 0;
}
