/* On a device that fails: every call of every rank returns, with one class on all ranks where all take part; nothing aborts. */
#include "log.h"

static int same_on_all(int code) {
    int class = 0, least = 0, most = 0;
    MPI_Error_class(code, &class);
    MPI_Allreduce(&class, &least, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    MPI_Allreduce(&class, &most, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    return least == most;
}

int main(int argc, char **argv) {
    static char data[1 << 16], back[1 << 16];
    MPI_File file;
    MPI_Datatype rows;
    MPI_Request request;
    MPI_Status status;
    int code, failed = 0, apart = 0, i, total = 0;
    begin(&argc, &argv);
    memset(data, 'a' + rank, sizeof data);
    code = MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_RDWR | MPI_MODE_CREATE, MPI_INFO_NULL, &file);
    say("open %s", class_name(code));
    apart += !same_on_all(code);
    if (code != MPI_SUCCESS) {
        say("apart %d", apart);
        finish();
        return apart != 0;
    }
    MPI_Type_vector(64, 64, 64 * size, MPI_BYTE, &rows);
    MPI_Type_commit(&rows);
    MPI_File_set_view(file, 64 * rank, MPI_BYTE, rows, "native", MPI_INFO_NULL);
    for (i = 0; i < 6; i++) {
        code = MPI_File_write_at_all(file, 0, data, 4096, MPI_BYTE, &status);
        failed += code != MPI_SUCCESS;
        apart += !same_on_all(code);
        code = MPI_File_iwrite_at_all(file, 0, data, 4096, MPI_BYTE, &request);
        code = MPI_Wait(&request, &status);
        failed += code != MPI_SUCCESS;
        apart += !same_on_all(code);
        code = MPI_File_read_at_all(file, 0, back, 4096, MPI_BYTE, &status);
        failed += code != MPI_SUCCESS;
        apart += !same_on_all(code);
        code = MPI_File_write_at(file, 0, data, 64, MPI_BYTE, &status);
        failed += code != MPI_SUCCESS;
        code = MPI_File_iread_at(file, 0, back, 64, MPI_BYTE, &request);
        if (code == MPI_SUCCESS) code = MPI_Wait(&request, &status);
        failed += code != MPI_SUCCESS;
        code = MPI_File_sync(file);
        failed += code != MPI_SUCCESS;
        apart += !same_on_all(code);
    }
    MPI_Type_free(&rows);
    code = MPI_File_close(&file);
    say("close %s", class_name(code));
    apart += !same_on_all(code);
    MPI_Allreduce(&failed, &total, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    say("failed %s", total > 0 ? "some" : "none");
    say("apart %d", apart);
    finish();
    return apart != 0;
}
