/* After an operation on a file has failed, errors of other calls go to the program's own handlers, whichever function has told of the failure. No write
   of the device succeeds. */
#include "log.h"

static int wrong, calls, last_class;

#define CHECK(truth) do { if (!(truth)) { wrong++; fprintf(stderr, "rank %d, line %d, way %d: %s\n", rank, __LINE__, way, #truth); } } while (0)

static void counting(MPI_Comm *comm, int *code, ...) {
    (void)comm;
    calls++;
    MPI_Error_class(*code, &last_class);
}

static int class_of(int code) {
    int class = MPI_SUCCESS;
    if (code != MPI_SUCCESS) MPI_Error_class(code, &class);
    return class;
}

/* Starts a write that fails. */
static MPI_Request failing(MPI_File file) {
    static char byte = 'x';
    MPI_Request request;
    MPI_File_iwrite_at(file, 0, &byte, 1, MPI_CHAR, &request);
    return request;
}

static int complete(int way, MPI_Request *request) {
    MPI_Status status;
    int flag = 0, index, code = 0;
    switch (way) {
    case 0: return MPI_Wait(request, &status);
    case 1: while (!flag && !code) code = MPI_Test(request, &flag, &status); return code;
    case 2: code = MPI_Waitall(1, request, &status); break;
    case 3: return MPI_Waitany(1, request, &index, &status);
    case 4: code = MPI_Waitsome(1, request, &flag, &index, &status); break;
    case 5: while (!flag && !code) code = MPI_Testall(1, request, &flag, &status); break;
    case 6: while (!flag && !code) code = MPI_Testany(1, request, &index, &flag, &status); return code;
    default: while (!flag && !code) code = MPI_Testsome(1, request, &flag, &index, &status); break;
    }
    return class_of(code) == MPI_ERR_IN_STATUS ? status.MPI_ERROR : code;
}

/* The class is that of the file's error; in the statuses of several requests MPICH has one of its own. */
static int is_told(int way, int code) {
    return way == 2 || way == 4 || way == 5 || way == 7 ? code != MPI_SUCCESS : class_of(code) == MPI_ERR_IO;
}

int main(int argc, char **argv) {
    MPI_File file;
    MPI_Errhandler own, now;
    const int nobody = 12345;
    int data = 0, way = -1;
    begin(&argc, &argv);
    MPI_Comm_create_errhandler(counting, &own);
    CHECK(MPI_File_open(MPI_COMM_SELF, argv[1], MPI_MODE_RDWR | MPI_MODE_CREATE, MPI_INFO_NULL, &file) == MPI_SUCCESS);
    for (way = 0; way < 8; way++) {
        /* A handler of the program's own stays, and gets what is its. */
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, own);
        MPI_Request request = failing(file);
        calls = 0;
        CHECK(is_told(way, complete(way, &request)));
        CHECK(calls == 0);
        MPI_Send(&data, 1, MPI_INT, nobody, 0, MPI_COMM_WORLD);
        CHECK(calls == 1 && last_class == MPI_ERR_RANK);
        MPI_Comm_get_errhandler(MPI_COMM_WORLD, &now);
        CHECK(now == own);
        MPI_Errhandler_free(&now);
        /* So does one of MPI's. */
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
        request = failing(file);
        CHECK(is_told(way, complete(way, &request)));
        CHECK(class_of(MPI_Send(&data, 1, MPI_INT, nobody, 0, MPI_COMM_WORLD)) == MPI_ERR_RANK);
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
        request = failing(file);
        CHECK(is_told(way, complete(way, &request)));
        MPI_Comm_get_errhandler(MPI_COMM_WORLD, &now);
        CHECK(now == MPI_ERRORS_ARE_FATAL);
    }
    MPI_File_close(&file);
    MPI_Errhandler_free(&own);
    say("wrong %d", wrong);
    finish();
    return wrong != 0;
}
