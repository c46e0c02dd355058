/* Objects between two ranks by derived datatypes of MPI: the seconds of a message there and back, once per region.
   messages COUNT trivial|padded. A structure's datatype is described as rsmpi's derive macro for Equivalence does: by the offsets of its members. */
#include <mpi.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct trivial {
    double position[3];
    double mass;
};

struct padded {
    char tag;
    double position[3];
    int id;
};

static MPI_Datatype describe(int is_padded) {
    MPI_Datatype structure, type;
    if (is_padded) {
        int lengths[3] = {1, 3, 1};
        MPI_Aint places[3] = {offsetof(struct padded, tag), offsetof(struct padded, position), offsetof(struct padded, id)};
        MPI_Datatype types[3] = {MPI_CHAR, MPI_DOUBLE, MPI_INT};
        MPI_Type_create_struct(3, lengths, places, types, &structure);
        MPI_Type_create_resized(structure, 0, sizeof(struct padded), &type);
    } else {
        int lengths[2] = {3, 1};
        MPI_Aint places[2] = {offsetof(struct trivial, position), offsetof(struct trivial, mass)};
        MPI_Datatype types[2] = {MPI_DOUBLE, MPI_DOUBLE};
        MPI_Type_create_struct(2, lengths, places, types, &structure);
        MPI_Type_create_resized(structure, 0, sizeof(struct trivial), &type);
    }
    MPI_Type_commit(&type);
    MPI_Type_free(&structure);
    return type;
}

int main(int argc, char **argv) {
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    int count = argc > 1 ? atoi(argv[1]) : 1;
    int is_padded = argc > 2 && !strcmp(argv[2], "padded");
    MPI_Datatype type = describe(is_padded);
    void *objects = calloc((size_t)count, is_padded ? sizeof(struct padded) : sizeof(struct trivial));
    int times = count > 2000 ? 20 : 400;
    for (int region = 0; region < 9; region++) {
        MPI_Barrier(MPI_COMM_WORLD);
        double start = MPI_Wtime();
        for (int at = 0; at < times; at++) {
            if (rank == 0) {
                MPI_Send(objects, count, type, 1, 1, MPI_COMM_WORLD);
                MPI_Recv(objects, count, type, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            } else {
                MPI_Recv(objects, count, type, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
                MPI_Send(objects, count, type, 0, 1, MPI_COMM_WORLD);
            }
        }
        if (rank == 0)
            printf("%.9f\n", (MPI_Wtime() - start) / times);
    }
    free(objects);
    MPI_Type_free(&type);
    MPI_Finalize();
    return 0;
}
