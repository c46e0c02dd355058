/* COUNT datasets of one file (64, or what -DCOUNT= says), each written by all ranks together: datasets FILE DOUBLES ROUNDS. With -DPNETCDF variables of a netCDF file, all queued
 * and written at once, or with -DBLOCKING one after the other; else datasets of an HDF5 file, one after the other. Prints what creating, writing and closing took, in seconds, for each
 * round; looks at the last file afterwards. With -DNEW_FILES each round creates the file, else it truncates that of the round before. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#ifdef PNETCDF
#include <pnetcdf.h>
#else
#include <hdf5.h>
#endif

#ifndef COUNT
#define COUNT 64
#endif

static int rank, ranks;

static double value(int dataset, int of_rank, long at)
{
    return dataset * 1e6 + of_rank * 1e4 + at % 9973;
}

static void must(int good, const char *what)
{
    if (!good) {
        fprintf(stderr, "rank %d: %s failed\n", rank, what);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

#ifdef PNETCDF
static void once(const char *file, long doubles, double *const *data, int reading)
{
    int nc, dimension, variable[COUNT];
#ifndef BLOCKING
    int request[COUNT], status[COUNT];
#endif
    MPI_Offset start = (MPI_Offset)rank * doubles, count = doubles;
    char name[16];
    if (reading) {
        must(ncmpi_open(MPI_COMM_WORLD, file, NC_NOWRITE, MPI_INFO_NULL, &nc) == NC_NOERR, "ncmpi_open");
    } else {
        must(ncmpi_create(MPI_COMM_WORLD, file, NC_CLOBBER | NC_64BIT_DATA, MPI_INFO_NULL, &nc) == NC_NOERR, "ncmpi_create");
        must(ncmpi_def_dim(nc, "x", (MPI_Offset)ranks * doubles, &dimension) == NC_NOERR, "ncmpi_def_dim");
    }
    for (int at = 0; at < COUNT; at++) {
        snprintf(name, sizeof name, "v%d", at);
        if (reading)
            must(ncmpi_inq_varid(nc, name, &variable[at]) == NC_NOERR, "ncmpi_inq_varid");
        else
            must(ncmpi_def_var(nc, name, NC_DOUBLE, 1, &dimension, &variable[at]) == NC_NOERR, "ncmpi_def_var");
    }
    if (!reading)
        must(ncmpi_enddef(nc) == NC_NOERR, "ncmpi_enddef");
#ifdef BLOCKING
    for (int at = 0; at < COUNT; at++) {
        int outcome = reading ? ncmpi_get_vara_double_all(nc, variable[at], &start, &count, data[at])
                              : ncmpi_put_vara_double_all(nc, variable[at], &start, &count, data[at]);
        must(outcome == NC_NOERR, "access");
    }
#else
    for (int at = 0; at < COUNT; at++) {
        int outcome = reading ? ncmpi_iget_vara_double(nc, variable[at], &start, &count, data[at], &request[at])
                              : ncmpi_iput_vara_double(nc, variable[at], &start, &count, data[at], &request[at]);
        must(outcome == NC_NOERR, "queueing");
    }
    must(ncmpi_wait_all(nc, COUNT, request, status) == NC_NOERR, "ncmpi_wait_all");
#endif
    must(ncmpi_close(nc) == NC_NOERR, "ncmpi_close");
}
#else
static void once(const char *file, long doubles, double *const *data, int reading)
{
    hid_t access = H5Pcreate(H5P_FILE_ACCESS), together = H5Pcreate(H5P_DATASET_XFER);
    H5Pset_fapl_mpio(access, MPI_COMM_WORLD, MPI_INFO_NULL);
    H5Pset_dxpl_mpio(together, H5FD_MPIO_COLLECTIVE);
    hid_t h5 = reading ? H5Fopen(file, H5F_ACC_RDONLY, access) : H5Fcreate(file, H5F_ACC_TRUNC, H5P_DEFAULT, access);
    must(h5 >= 0, "opening");
    hsize_t whole = (hsize_t)ranks * doubles, start = (hsize_t)rank * doubles, count = doubles;
    hid_t memory = H5Screate_simple(1, &count, NULL), space = H5Screate_simple(1, &whole, NULL);
    H5Sselect_hyperslab(space, H5S_SELECT_SET, &start, NULL, &count, NULL);
    hid_t create = H5Pcreate(H5P_DATASET_CREATE);
#ifdef DEFLATE
    hsize_t chunk = DEFLATE;
    H5Pset_chunk(create, 1, &chunk);
    H5Pset_shuffle(create);
    H5Pset_deflate(create, 4);
    H5Pset_fill_time(create, H5D_FILL_TIME_NEVER);
#endif
    char name[16];
    for (int at = 0; at < COUNT; at++) {
        snprintf(name, sizeof name, "d%d", at);
        hid_t set = reading ? H5Dopen2(h5, name, H5P_DEFAULT)
                            : H5Dcreate2(h5, name, H5T_NATIVE_DOUBLE, space, H5P_DEFAULT, create, H5P_DEFAULT);
        must(set >= 0, "a dataset");
        herr_t outcome = reading ? H5Dread(set, H5T_NATIVE_DOUBLE, memory, space, together, data[at])
                                 : H5Dwrite(set, H5T_NATIVE_DOUBLE, memory, space, together, data[at]);
        must(outcome >= 0, "access");
        H5Dclose(set);
    }
    H5Sclose(memory);
    H5Sclose(space);
    H5Pclose(create);
    H5Pclose(access);
    H5Pclose(together);
    must(H5Fclose(h5) >= 0, "closing");
}
#endif

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    must(argc == 4, "datasets FILE DOUBLES ROUNDS");
    long doubles = atol(argv[2]);
    double *data[COUNT];
    for (int at = 0; at < COUNT; at++) {
        data[at] = malloc(doubles * sizeof **data);
        must(data[at] != NULL, "memory");
        for (long i = 0; i < doubles; i++)
            data[at][i] = value(at, rank, i);
    }
    for (int round = 0; round < atoi(argv[3]); round++) {
#ifdef NEW_FILES
        if (rank == 0)
            unlink(argv[1]);
#endif
        MPI_Barrier(MPI_COMM_WORLD);
        double took = MPI_Wtime();
        once(argv[1], doubles, data, 0);
        took = MPI_Wtime() - took;
        MPI_Allreduce(MPI_IN_PLACE, &took, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
        if (rank == 0)
            printf("seconds %.9f\n", took);
    }
    for (int at = 0; at < COUNT; at++)
        for (long i = 0; i < doubles; i++)
            data[at][i] = -1;
    once(argv[1], doubles, data, 1);
    for (int at = 0; at < COUNT; at++)
        for (long i = 0; i < doubles; i++)
            must(data[at][i] == value(at, rank, i), "reading the same values back");
    if (rank == 0)
        puts("verified");
    MPI_Finalize();
    return 0;
}
