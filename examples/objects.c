/* The five tasks of examples/objects.rs in plain MPI-IO, for comparison: mpicc objects.c && mpirun -n 3 a.out FOLDER
 * Counted are the lines between the marks; error codes are left to MPI's handler, which the program makes fatal. */
#include <mpi.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct cell {
    double pressure;
    uint32_t level;
};

struct particle {
    uint64_t id;
    uint64_t points, partners;
    double (*trace)[3];
    uint32_t *neighbours;
};

static int rank, ranks;
static const char *folder;

#define CHECK(what) \
    if (!(what)) { \
        fprintf(stderr, "line %d: not " #what "\n", __LINE__); \
        MPI_Abort(MPI_COMM_WORLD, 1); \
    }

static const char *path(const char *name)
{
    static char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

/* What a task has written, seen as bytes. */
static void look(const char *name, MPI_Offset at, void *bytes, int count)
{
    MPI_File file;
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_File_open(MPI_COMM_WORLD, path(name), MPI_MODE_RDONLY, MPI_INFO_NULL, &file);
    MPI_File_read_at(file, at, bytes, count, MPI_BYTE, MPI_STATUS_IGNORE);
    MPI_File_close(&file);
}

static void check_cell(const char *name, MPI_Offset number, double pressure, uint32_t level)
{
    char bytes[12];
    double found;
    uint32_t found_level;
    look(name, 12 * number, bytes, 12);
    memcpy(&found, bytes, 8);
    memcpy(&found_level, bytes + 8, 4);
    CHECK(found == pressure && found_level == level);
}

static void single(void)
{
    struct cell cell = {1.0, rank};
    MPI_File file;
    MPI_Datatype packed, memory;
    /* lines: single */
    int lengths[2] = {1, 1};
    MPI_Aint places[2] = {offsetof(struct cell, pressure), offsetof(struct cell, level)};
    MPI_Datatype types[2] = {MPI_DOUBLE, MPI_UINT32_T};
    MPI_Type_create_struct(2, lengths, places, types, &packed);
    MPI_Type_create_resized(packed, 0, sizeof(struct cell), &memory);
    MPI_Type_commit(&memory);
    MPI_File_open(MPI_COMM_WORLD, path("single"), MPI_MODE_WRONLY | MPI_MODE_CREATE, MPI_INFO_NULL, &file);
    MPI_File_write_at(file, 12 * (MPI_Offset)rank, &cell, 1, memory, MPI_STATUS_IGNORE);
    MPI_File_close(&file);
    MPI_Type_free(&packed);
    MPI_Type_free(&memory);
    /* end */
    check_cell("single", rank, 1.0, rank);
}

static void container(void)
{
    int count = 10 + rank;
    struct cell *cells = calloc(count, sizeof *cells);
    MPI_File file;
    MPI_Datatype packed, memory;
    for (int at = 0; at < count; at++)
        cells[at].level = 100 * rank + at;
    /* lines: container */
    int lengths[2] = {1, 1};
    MPI_Aint places[2] = {offsetof(struct cell, pressure), offsetof(struct cell, level)};
    MPI_Datatype types[2] = {MPI_DOUBLE, MPI_UINT32_T};
    MPI_Type_create_struct(2, lengths, places, types, &packed);
    MPI_Type_create_resized(packed, 0, sizeof(struct cell), &memory);
    MPI_Type_commit(&memory);
    long long mine = count, before = 0;
    MPI_Exscan(&mine, &before, 1, MPI_LONG_LONG, MPI_SUM, MPI_COMM_WORLD);
    MPI_File_open(MPI_COMM_WORLD, path("container"), MPI_MODE_WRONLY | MPI_MODE_CREATE, MPI_INFO_NULL, &file);
    MPI_File_write_at_all(file, 12 * before, cells, count, memory, MPI_STATUS_IGNORE);
    MPI_File_close(&file);
    MPI_Type_free(&packed);
    MPI_Type_free(&memory);
    /* end */
    check_cell("container", before + 3, 0.0, 100 * rank + 3);
    free(cells);
}

static void masked(void)
{
    struct cell cells[6];
    MPI_File file;
    MPI_Datatype packed, memory, object, pair, view;
    for (int at = 0; at < 6; at++)
        cells[at] = (struct cell){2.0, 10 * rank + at};
    /* lines: masked */
    int lengths[2] = {1, 1};
    MPI_Aint places[2] = {offsetof(struct cell, pressure), offsetof(struct cell, level)};
    MPI_Datatype types[2] = {MPI_DOUBLE, MPI_UINT32_T};
    MPI_Type_create_struct(2, lengths, places, types, &packed);
    MPI_Type_create_resized(packed, 0, sizeof(struct cell), &memory);
    MPI_Type_commit(&memory);
    MPI_Type_contiguous(12, MPI_BYTE, &object);
    int seen = 2 * rank;
    MPI_Type_create_indexed_block(1, 2, &seen, object, &pair);
    MPI_Type_create_resized(pair, 0, 12 * 2 * (MPI_Aint)ranks, &view);
    MPI_Type_commit(&object);
    MPI_Type_commit(&view);
    MPI_File_open(MPI_COMM_WORLD, path("masked"), MPI_MODE_WRONLY | MPI_MODE_CREATE, MPI_INFO_NULL, &file);
    MPI_File_set_view(file, 0, object, view, "native", MPI_INFO_NULL);
    MPI_File_write_all(file, cells, 6, memory, MPI_STATUS_IGNORE);
    MPI_File_close(&file);
    MPI_Type_free(&packed);
    MPI_Type_free(&memory);
    MPI_Type_free(&object);
    MPI_Type_free(&pair);
    MPI_Type_free(&view);
    /* end */
    check_cell("masked", 2 * ranks + 2 * rank + 1, 2.0, 10 * rank + 3);
}

static void round_robin(void)
{
    struct cell cells[100];
    MPI_File file;
    MPI_Datatype packed, memory, object, view;
    for (int at = 0; at < 100; at++)
        cells[at] = (struct cell){3.0, rank};
    /* lines: round robin */
    int lengths[2] = {1, 1};
    MPI_Aint places[2] = {offsetof(struct cell, pressure), offsetof(struct cell, level)};
    MPI_Datatype types[2] = {MPI_DOUBLE, MPI_UINT32_T};
    MPI_Type_create_struct(2, lengths, places, types, &packed);
    MPI_Type_create_resized(packed, 0, sizeof(struct cell), &memory);
    MPI_Type_commit(&memory);
    MPI_Type_contiguous(12, MPI_BYTE, &object);
    MPI_Type_create_resized(object, 0, 12 * (MPI_Aint)ranks, &view);
    MPI_Type_commit(&object);
    MPI_Type_commit(&view);
    MPI_File_open(MPI_COMM_WORLD, path("round-robin"), MPI_MODE_WRONLY | MPI_MODE_CREATE, MPI_INFO_NULL, &file);
    MPI_File_set_view(file, 12 * (MPI_Offset)rank, object, view, "native", MPI_INFO_NULL);
    MPI_File_write_all(file, cells, 100, memory, MPI_STATUS_IGNORE);
    MPI_File_close(&file);
    MPI_Type_free(&packed);
    MPI_Type_free(&memory);
    MPI_Type_free(&object);
    MPI_Type_free(&view);
    /* end */
    for (int at = 0; at < 3 * ranks; at++)
        check_cell("round-robin", at, 3.0, at % ranks);
}

static void particles(void)
{
    struct particle mine[50], seventh;
    MPI_File file, index;
    for (int at = 0; at < 50; at++) {
        uint64_t id = 50 * rank + at;
        mine[at] = (struct particle){id, id % 5, id % 3, calloc(id % 5 + 1, 24), calloc(id % 3 + 1, 4)};
        for (uint64_t part = 0; part < id % 5; part++)
            mine[at].trace[part][2] = 0.5;
        for (uint64_t part = 0; part < id % 3; part++)
            mine[at].neighbours[part] = 7;
    }
    /* lines: particles */
    long long place[50][2], bytes = 0, before[2] = {0, 0}, sum[2] = {0, 50};
    for (int at = 0; at < 50; at++) {
        place[at][0] = bytes;
        place[at][1] = 24 + 24 * mine[at].points + 4 * mine[at].partners;
        bytes += place[at][1];
    }
    sum[0] = bytes;
    MPI_Exscan(sum, before, 2, MPI_LONG_LONG, MPI_SUM, MPI_COMM_WORLD);
    char *packed = malloc(bytes), *to = packed;
    for (int at = 0; at < 50; at++) {
        place[at][0] += before[0];
        memcpy(to, &mine[at].id, 8);
        memcpy(to + 8, &mine[at].points, 8);
        memcpy(to + 16, mine[at].trace, 24 * mine[at].points);
        to += 16 + 24 * mine[at].points;
        memcpy(to, &mine[at].partners, 8);
        memcpy(to + 8, mine[at].neighbours, 4 * mine[at].partners);
        to += 8 + 4 * mine[at].partners;
    }
    MPI_File_open(MPI_COMM_WORLD, path("particles"), MPI_MODE_WRONLY | MPI_MODE_CREATE, MPI_INFO_NULL, &file);
    MPI_File_write_at_all(file, before[0], packed, bytes, MPI_BYTE, MPI_STATUS_IGNORE);
    MPI_File_close(&file);
    MPI_File_open(MPI_COMM_WORLD, path("particles.index"), MPI_MODE_WRONLY | MPI_MODE_CREATE, MPI_INFO_NULL, &index);
    MPI_File_write_at_all(index, 16 * before[1], place, 100, MPI_LONG_LONG, MPI_STATUS_IGNORE);
    MPI_File_close(&index);
    free(packed);
    MPI_Barrier(MPI_COMM_WORLD);
    long long found[2];
    MPI_File_open(MPI_COMM_WORLD, path("particles.index"), MPI_MODE_RDONLY, MPI_INFO_NULL, &index);
    MPI_File_read_at(index, 16 * 7, found, 2, MPI_LONG_LONG, MPI_STATUS_IGNORE);
    MPI_File_close(&index);
    char *object = malloc(found[1]);
    MPI_File_open(MPI_COMM_WORLD, path("particles"), MPI_MODE_RDONLY, MPI_INFO_NULL, &file);
    MPI_File_read_at(file, found[0], object, found[1], MPI_BYTE, MPI_STATUS_IGNORE);
    MPI_File_close(&file);
    memcpy(&seventh.id, object, 8);
    memcpy(&seventh.points, object + 8, 8);
    seventh.trace = malloc(24 * seventh.points);
    memcpy(seventh.trace, object + 16, 24 * seventh.points);
    memcpy(&seventh.partners, object + 16 + 24 * seventh.points, 8);
    seventh.neighbours = malloc(4 * seventh.partners);
    memcpy(seventh.neighbours, object + 24 + 24 * seventh.points, 4 * seventh.partners);
    free(object);
    /* end */
    CHECK(seventh.id == 7 && seventh.points == 2 && seventh.partners == 1);
    CHECK(seventh.trace[1][2] == 0.5 && seventh.neighbours[0] == 7);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_ARE_FATAL);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    folder = argc > 1 ? argv[1] : ".";
    single();
    container();
    masked();
    round_robin();
    particles();
    if (rank == 0)
        printf("all five read back what they wrote\n");
    MPI_Finalize();
    return 0;
}
