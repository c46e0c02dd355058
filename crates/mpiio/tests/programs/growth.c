/* Ranks on several nodes, each with attributes of the file cached: rank 0 extends the file, the others only read it and ask for its size. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

enum { PART = 3000, STEPS = 5 };

static char data[PART];
static int rank, wrong;

static void expect(const char *what, int step, MPI_Offset found, MPI_Offset expected) {
    if (found == expected) return;
    wrong++;
    printf("%d step %d: %s is %lld, not %lld\n", rank, step, what, (long long)found, (long long)expected);
}

static void expect_size(MPI_File file, int step, MPI_Offset expected) {
    MPI_Offset size, end;
    MPI_File_get_size(file, &size);
    expect("the size", step, size, expected);
    MPI_File_seek(file, 0, MPI_SEEK_END);
    MPI_File_get_position(file, &end);
    expect("the end", step, end, expected);
}

static void expect_part(MPI_File file, int step) {
    int count, i, other = 0;
    MPI_Status status;
    memset(data, 0, sizeof data);
    MPI_File_read_at(file, (MPI_Offset)PART * (step - 1), data, PART, MPI_BYTE, &status);
    MPI_Get_count(&status, MPI_BYTE, &count);
    expect("the count", step, count, PART);
    for (i = 0; i < count; i++) other += data[i] != (char)step;
    expect("the number of other bytes", step, other, 0);
}

/* One rank writes by itself, as another program would. */
static void extend_alone(const char *name, MPI_Offset at) {
    MPI_File file;
    MPI_File_open(MPI_COMM_SELF, name, MPI_MODE_WRONLY, MPI_INFO_NULL, &file);
    MPI_File_write_at(file, at, data, PART, MPI_BYTE, MPI_STATUS_IGNORE);
    MPI_File_close(&file);
}

int main(int argc, char **argv) {
    int step;
    MPI_File file;
    MPI_Offset position;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_ARE_FATAL);
    MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_RDWR | MPI_MODE_CREATE, MPI_INFO_NULL, &file);
    for (step = 1; step <= STEPS; step++) {
        expect_size(file, step, (MPI_Offset)PART * (step - 1));
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == 0) {
            memset(data, step, sizeof data);
            MPI_File_write_at(file, (MPI_Offset)PART * (step - 1), data, PART, MPI_BYTE, MPI_STATUS_IGNORE);
        }
        MPI_Barrier(MPI_COMM_WORLD);
        expect_part(file, step);
        expect_size(file, step, (MPI_Offset)PART * step);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    for (step = 1; step <= STEPS; step++) {
        MPI_File_set_size(file, 777 * step);
        expect_size(file, step, 777 * step);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_File_close(&file);
    if (rank == 0) extend_alone(argv[1], 777 * STEPS);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_RDWR | MPI_MODE_APPEND, MPI_INFO_NULL, &file);
    MPI_File_get_position(file, &position);
    expect("the position", 0, position, 777 * STEPS + PART);
    MPI_File_close(&file);
    printf("%d wrong %d\n", rank, wrong);
    MPI_Finalize();
    return 0;
}
