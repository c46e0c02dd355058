/* Writes a cell file as the MPI-IOCheckpointWriter of MarDyn: an MPI datatype of id, component and 13 doubles, one seek and one write per cell.
 * In memory, id and component follow the doubles; MPI writes them in the order of the type map. */
#include <math.h>
#include <mpi.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

struct particle {
    double numbers[13];
    unsigned long id;
    int cid;
};

static const double length[3] = {2.5, 4, 3}, edge[3] = {1, 2, 1.5};

/* Molecule n of 40, anywhere in the box except in the remainder after the last cells of y and z. */
static struct particle molecule(int n) {
    struct particle p = {.id = 1000 + 7 * (unsigned long)n, .cid = n % 2};
    p.numbers[0] = length[0] * ((n * 7) % 40) / 40;
    p.numbers[1] = length[1] * ((n * 11) % 40) / 40;
    /* In the last layer the remainder along x would be after the last cell. */
    p.numbers[2] = p.numbers[0] < 2 ? length[2] * ((n * 13) % 40) / 40 : length[2] * ((n * 13) % 20) / 40;
    for (int k = 3; k < 13; k++) p.numbers[k] = 0.1 * k + n;
    return p;
}

static void check(int code, const char *what) {
    if (code == MPI_SUCCESS) return;
    fprintf(stderr, "%s fails\n", what);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank, size;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Datatype type, packed, types[3] = {MPI_UNSIGNED_LONG, MPI_INT, MPI_DOUBLE};
    int blocks[3] = {1, 1, 13};
    MPI_Aint places[3] = {offsetof(struct particle, id), offsetof(struct particle, cid), offsetof(struct particle, numbers)};
    MPI_Type_create_struct(3, blocks, places, types, &packed);
    MPI_Type_create_resized(packed, 0, sizeof(struct particle), &type);
    MPI_Type_commit(&type);
    int along[3], cells = 1, counts[64] = {0}, row;
    for (int d = 0; d < 3; d++) cells *= along[d] = (int)(length[d] / edge[d]);
    struct particle held[64][40];
    for (int n = 0; n < 40; n++) {
        struct particle p = molecule(n);
        int at[3];
        for (int d = 0; d < 3; d++) at[d] = (int)floor(p.numbers[d] / edge[d]);
        int cell = (at[2] * along[1] + at[1]) * along[0] + at[0];
        held[cell][counts[cell]++] = p;
    }
    MPI_File file;
    check(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_WRONLY, MPI_INFO_NULL, &file), "open");
    long head[2] = {cells, 40};
    MPI_Offset offset = 40 + 4 * cells;
    if (rank == 0) {
        check(MPI_File_write_at(file, 0, head, 2, MPI_LONG, MPI_STATUS_IGNORE), "write");
        check(MPI_File_write_at(file, 16, edge, 3, MPI_DOUBLE, MPI_STATUS_IGNORE), "write");
        check(MPI_File_write_at(file, 40, counts, cells, MPI_INT, MPI_STATUS_IGNORE), "write");
    }
    MPI_Type_size(type, &row);
    for (int cell = 0; cell < cells; cell++) {
        if (cell % size == rank) {
            check(MPI_File_seek(file, offset, MPI_SEEK_SET), "seek");
            check(MPI_File_write(file, held[cell], counts[cell], type, MPI_STATUS_IGNORE), "write");
        }
        offset += (MPI_Offset)counts[cell] * row;
    }
    check(MPI_File_close(&file), "close");
    MPI_Finalize();
    return 0;
}
