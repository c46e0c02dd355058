/* Particles of variable size in plain MPI-IO: what one collective write of the way `together` and the read of a share take without objects.
 * The data file has the bytes of the object file; a second file has the end of each particle. Errors end the program.
 *
 * Usage: plain_mpi_io write|read NAME: rank r has 3 + r particles. */

#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct particle {
    uint64_t scalars;
    double *scalar;
    uint64_t vectors;
    double *vector;
    uint64_t id;
    uint32_t fluid;
};

/* [lines of code: write] */
static uint64_t encoded_size(const struct particle *one)
{
    return 8 + 8 * one->scalars + 8 + 24 * one->vectors + 8 + 4;
}

static char *put(char *to, const void *from, uint64_t bytes)
{
    memcpy(to, from, bytes);
    return to + bytes;
}

static char *encode(char *to, const struct particle *one)
{
    to = put(to, &one->scalars, 8);
    to = put(to, one->scalar, 8 * one->scalars);
    to = put(to, &one->vectors, 8);
    to = put(to, one->vector, 24 * one->vectors);
    to = put(to, &one->id, 8);
    return put(to, &one->fluid, 4);
}

static void check(int code, const char *call, const char *name)
{
    if (code != MPI_SUCCESS) {
        char text[MPI_MAX_ERROR_STRING];
        int length;
        MPI_Error_string(code, text, &length);
        fprintf(stderr, "%s of %s: %s\n", call, name, text);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

static void write_block(MPI_Comm comm, const char *name, uint64_t first, const void *data, uint64_t bytes)
{
    MPI_File file;
    MPI_Status status;
    int written;
    check(MPI_File_open(comm, name, MPI_MODE_WRONLY | MPI_MODE_CREATE, MPI_INFO_NULL, &file), "open", name);
    check(MPI_File_set_size(file, 0), "set_size", name);
    check(MPI_File_set_view(file, first, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL), "set_view", name);
    check(MPI_File_write_all(file, data, (int)bytes, MPI_BYTE, &status), "write_all", name);
    MPI_Get_count(&status, MPI_BYTE, &written);
    if ((uint64_t)written != bytes) {
        fprintf(stderr, "%s: %d of %llu bytes written\n", name, written, (unsigned long long)bytes);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    check(MPI_File_sync(file), "sync", name);
    check(MPI_File_close(&file), "close", name);
}

static void write_particles(MPI_Comm comm, const char *name, const struct particle *all, uint64_t count)
{
    char index[4096];
    uint64_t mine[2] = {0, count}, before[2] = {0, 0};
    int rank;
    MPI_Comm_rank(comm, &rank);
    for (uint64_t at = 0; at < count; at++)
        mine[0] += encoded_size(&all[at]);
    MPI_Exscan(mine, before, 2, MPI_UINT64_T, MPI_SUM, comm);
    if (rank == 0)
        before[0] = before[1] = 0;
    char *data = malloc(mine[0] + 1), *to = data;
    uint64_t *ends = malloc(8 * count + 1);
    for (uint64_t at = 0; at < count; at++) {
        to = encode(to, &all[at]);
        ends[at] = before[0] + (uint64_t)(to - data);
    }
    write_block(comm, name, before[0], data, mine[0]);
    snprintf(index, sizeof index, "%s.index", name);
    write_block(comm, index, 8 * before[1], ends, 8 * count);
    free(data);
    free(ends);
}
/* [end] */

/* [lines of code: read] */
static const char *take(const char *from, void *to, uint64_t bytes)
{
    memcpy(to, from, bytes);
    return from + bytes;
}

static const char *decode(const char *from, struct particle *one)
{
    from = take(from, &one->scalars, 8);
    one->scalar = malloc(8 * one->scalars + 1);
    from = take(from, one->scalar, 8 * one->scalars);
    from = take(from, &one->vectors, 8);
    one->vector = malloc(24 * one->vectors + 1);
    from = take(from, one->vector, 24 * one->vectors);
    from = take(from, &one->id, 8);
    return take(from, &one->fluid, 4);
}

static void read_block(MPI_File file, const char *name, uint64_t first, void *data, uint64_t bytes)
{
    MPI_Status status;
    int found;
    check(MPI_File_read_at_all(file, first, data, (int)bytes, MPI_BYTE, &status), "read_at_all", name);
    MPI_Get_count(&status, MPI_BYTE, &found);
    if ((uint64_t)found != bytes) {
        fprintf(stderr, "%s: the file ends early\n", name);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

static struct particle *read_particles(MPI_Comm comm, const char *name, uint64_t *count)
{
    char index[4096];
    int rank, ranks;
    MPI_Offset size;
    MPI_File file;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &ranks);
    snprintf(index, sizeof index, "%s.index", name);
    check(MPI_File_open(comm, index, MPI_MODE_RDONLY, MPI_INFO_NULL, &file), "open", index);
    check(MPI_File_get_size(file, &size), "get_size", index);
    uint64_t total = size / 8, first = total * rank / ranks, last = total * (rank + 1) / ranks;
    uint64_t skip = first > 0, *ends = malloc(8 * (last - first + skip) + 8);
    ends[0] = 0;
    read_block(file, index, 8 * (first - skip), ends + 1 - skip, 8 * (last - first + skip));
    check(MPI_File_close(&file), "close", index);
    *count = last - first;
    char *data = malloc(ends[*count] - ends[0] + 1);
    check(MPI_File_open(comm, name, MPI_MODE_RDONLY, MPI_INFO_NULL, &file), "open", name);
    read_block(file, name, ends[0], data, ends[*count] - ends[0]);
    check(MPI_File_close(&file), "close", name);
    struct particle *all = malloc(*count * sizeof *all + 1);
    const char *from = data;
    for (uint64_t at = 0; at < *count; at++)
        from = decode(from, &all[at]);
    free(data);
    free(ends);
    return all;
}
/* [end] */

static struct particle example(uint64_t id)
{
    struct particle one = {id % 3, malloc(64), 1 + id % 2, malloc(64), id, (uint32_t)(id % 3)};
    for (uint64_t at = 0; at < one.scalars; at++)
        one.scalar[at] = (double)(10 * id + at);
    for (uint64_t at = 0; at < 3 * one.vectors; at++)
        one.vector[at] = -(double)(10 * id + at);
    return one;
}

int main(int argc, char **argv)
{
    int rank;
    uint64_t count, good = 0, sums[2];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (strcmp(argv[1], "write") == 0) {
        struct particle mine[64];
        uint64_t first = 0;
        for (int other = 0; other < rank; other++)
            first += 3 + other;
        for (count = 0; count < (uint64_t)(3 + rank); count++)
            mine[count] = example(first + count);
        write_particles(MPI_COMM_WORLD, argv[2], mine, count);
    } else {
        struct particle *all = read_particles(MPI_COMM_WORLD, argv[2], &count);
        for (uint64_t at = 0; at < count; at++) {
            struct particle one = example(all[at].id);
            good += one.scalars == all[at].scalars && one.vectors == all[at].vectors && one.fluid == all[at].fluid &&
                    memcmp(one.scalar, all[at].scalar, 8 * one.scalars) == 0 &&
                    memcmp(one.vector, all[at].vector, 24 * one.vectors) == 0;
        }
        uint64_t mine[2] = {count, good};
        MPI_Reduce(mine, sums, 2, MPI_UINT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
        if (rank == 0)
            printf("%llu particles, %llu as written\n", (unsigned long long)sums[0], (unsigned long long)sums[1]);
    }
    MPI_Finalize();
    return 0;
}
