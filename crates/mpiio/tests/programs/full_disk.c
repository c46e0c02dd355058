/* On a disk that fills up: a file is written in strides, cut to nothing, extended again and written where it is a hole. Every call returns;
   the write that finds no space says so on all ranks. The argument is a file on a small disk of its own. */
#include "log.h"
#include <unistd.h>

#define MINE (1 << 20)

/* Takes all space that is left. */
static void fill(const char *path) {
    static char chunk[1 << 16];
    size_t step;
    FILE *file = fopen(path, "w");
    setvbuf(file, NULL, _IONBF, 0);
    memset(chunk, 7, sizeof chunk);
    for (step = sizeof chunk; step >= 512; step /= 2)
        while (fwrite(chunk, 1, step, file) == step) {}
    /* What was reserved and is not needed is given back when blocks are allocated. */
    fsync(fileno(file));
    while (fwrite(chunk, 1, 512, file) == 512) {}
    fsync(fileno(file));
    fclose(file);
}

int main(int argc, char **argv) {
    static char data[MINE], back[MINE];
    char filling[4096];
    MPI_File file;
    MPI_Datatype rows;
    MPI_Status status;
    int code, i, zeros = 1;
    begin(&argc, &argv);
    snprintf(filling, sizeof filling, "%s.filling", argv[1]);
    code = MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_RDWR | MPI_MODE_CREATE, MPI_INFO_NULL, &file);
    if (code != MPI_SUCCESS) MPI_Abort(MPI_COMM_WORLD, 1);
    MPI_Type_vector(1, 64, 64, MPI_BYTE, &rows);
    MPI_Type_create_resized(rows, 0, 64 * size, &rows);
    MPI_Type_commit(&rows);
    MPI_File_set_view(file, 64 * rank, MPI_BYTE, rows, "native", MPI_INFO_NULL);
    for (i = 0; i < 4; i++) {
        memset(data, 'a' + i, MINE);
        code = MPI_File_write_at(file, 0, data, MINE, MPI_BYTE, &status);
        if (code != MPI_SUCCESS) MPI_Abort(MPI_COMM_WORLD, 2);
    }
    MPI_File_set_size(file, 0);
    MPI_File_set_size(file, (MPI_Offset) MINE * size);
    if (rank == size - 1) MPI_File_write_at(file, MINE - 1, data, 1, MPI_BYTE, &status);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) fill(filling);
    MPI_Barrier(MPI_COMM_WORLD);
    code = MPI_File_read_at(file, 0, back, MINE / 2, MPI_BYTE, &status);
    for (i = 0; i < MINE / 2; i++) zeros &= back[i] == 0;
    say("hole %s zeros %d", class_name(code), zeros);
    code = MPI_File_write_at_all(file, 0, data, MINE, MPI_BYTE, &status);
    say("write_at_all %s", class_name(code));
    code = MPI_File_write_at(file, 0, data, MINE, MPI_BYTE, &status);
    say("write_at %s", class_name(code));
    MPI_File_close(&file);
    MPI_Type_free(&rows);
    finish();
    return 0;
}
