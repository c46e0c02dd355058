/* Errors of requests and of single ranks: each is told to the right handler, on every rank, and nothing hangs or aborts. Checks itself. */
#include "log.h"

static int wrong;

#define CHECK(condition) do { if (!(condition)) { wrong++; say("line %d: %s", __LINE__, #condition); } } while (0)

static int class_of(int code) {
    int class = 0;
    MPI_Error_class(code, &class);
    return class;
}

static int seen, seen_class;

static void note(MPI_File *file, int *code, ...) {
    (void)file;
    seen++;
    seen_class = class_of(*code);
}

/* A rank whose arguments are wrong fails, and so do the others; nobody waits for it. */
static void single_ranks(const char *path) {
    MPI_File file;
    MPI_Datatype down;
    int data[4] = {0}, code, places[2] = {4, 0}, lengths[2] = {1, 1};
    MPI_Request request;
    MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDWR | MPI_MODE_CREATE, MPI_INFO_NULL, &file);
    code = MPI_File_write_at_all(file, rank == size - 1 ? -4 : 0, data, 4, MPI_INT, MPI_STATUS_IGNORE);
    CHECK(class_of(code) == MPI_ERR_ARG);
    code = MPI_File_write_at_all(file, 0, data, rank == 0 ? -1 : 4, MPI_INT, MPI_STATUS_IGNORE);
    CHECK(class_of(code) == MPI_ERR_COUNT);
    code = MPI_File_read_all(file, data, 4, rank == size - 1 ? MPI_DATATYPE_NULL : MPI_INT, MPI_STATUS_IGNORE);
    CHECK(class_of(code) == MPI_ERR_TYPE);
    code = MPI_File_iwrite_all(file, data, rank == size - 1 ? -1 : 4, MPI_INT, &request);
    CHECK(code == MPI_SUCCESS);
    code = MPI_Wait(&request, MPI_STATUS_IGNORE);
    CHECK(class_of(code) == MPI_ERR_COUNT);
    /* A filetype whose offsets decrease is none; on one rank it fails on all. */
    MPI_Type_indexed(2, lengths, places, MPI_INT, &down);
    MPI_Type_commit(&down);
    code = MPI_File_set_view(file, 0, MPI_INT, rank == size - 1 ? down : MPI_INT, "native", MPI_INFO_NULL);
    CHECK(class_of(code) == MPI_ERR_IO);
    code = MPI_File_set_view(file, rank == size - 1 ? -8 : 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL);
    CHECK(class_of(code) == MPI_ERR_ARG);
    code = MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "nobodys", MPI_INFO_NULL);
    CHECK(class_of(code) == MPI_ERR_UNSUPPORTED_DATAREP);
    MPI_Type_free(&down);
    code = MPI_File_write_at_all(file, 0, data, 4, MPI_INT, MPI_STATUS_IGNORE);
    CHECK(code == MPI_SUCCESS);
    if (size > 1) {
        MPI_File other;
        code = MPI_File_open(MPI_COMM_WORLD, path, rank == 0 ? MPI_MODE_RDONLY : MPI_MODE_RDWR, MPI_INFO_NULL, &other);
        CHECK(class_of(code) == MPI_ERR_NOT_SAME && other == MPI_FILE_NULL);
        code = MPI_File_set_size(file, rank);
        CHECK(class_of(code) == MPI_ERR_NOT_SAME);
    }
    CHECK(MPI_File_set_size(file, -5) != MPI_SUCCESS);
    CHECK(MPI_File_close(&file) == MPI_SUCCESS);
}

/* Requests that fail go to the file's handler, not to the world's, which would abort. */
static void requests(const char *path) {
    MPI_File file;
    MPI_Errhandler ours;
    MPI_Request request;
    MPI_Status status;
    int data[4] = {0}, code, flag = 0;
    MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDONLY, MPI_INFO_NULL, &file);
    code = MPI_File_iwrite_at(file, 0, data, 4, MPI_INT, &request);
    CHECK(class_of(code) == MPI_ERR_READ_ONLY && request == MPI_REQUEST_NULL);
    code = MPI_File_iwrite_at_all(file, 0, data, 4, MPI_INT, &request);
    CHECK(code == MPI_SUCCESS);
    code = MPI_Wait(&request, &status);
    CHECK(class_of(code) == MPI_ERR_READ_ONLY);
    MPI_File_create_errhandler(note, &ours);
    MPI_File_set_errhandler(file, ours);
    MPI_Errhandler_free(&ours);
    MPI_File_iwrite_at_all(file, 0, data, 4, MPI_INT, &request);
    while (!flag) code = MPI_Test(&request, &flag, &status);
    CHECK(class_of(code) == MPI_ERR_READ_ONLY && seen == 1 && seen_class == MPI_ERR_READ_ONLY);
    /* The world has its own handler back. */
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    code = MPI_Send(data, 1, MPI_INT, size + 5, 0, MPI_COMM_WORLD);
    CHECK(code != MPI_SUCCESS && seen == 1);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    CHECK(MPI_File_close(&file) == MPI_SUCCESS);
}

/* The handler of no file: what files are opened with, and where errors of opening go. */
static void of_no_file(const char *path) {
    MPI_File file;
    MPI_Errhandler ours, got;
    int code;
    seen = 0;
    MPI_File_create_errhandler(note, &ours);
    MPI_File_set_errhandler(MPI_FILE_NULL, ours);
    code = MPI_File_open(MPI_COMM_WORLD, "/nonexistent/folder/file", MPI_MODE_RDONLY, MPI_INFO_NULL, &file);
    CHECK(class_of(code) == MPI_ERR_NO_SUCH_FILE && seen == 1);
    MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDONLY, MPI_INFO_NULL, &file);
    MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_RETURN);
    MPI_Errhandler_free(&ours);
    MPI_File_get_errhandler(file, &got);
    CHECK(got != MPI_ERRORS_RETURN);
    MPI_Errhandler_free(&got);
    MPI_File_seek(file, -1, MPI_SEEK_SET);
    CHECK(seen == 2 && seen_class == MPI_ERR_ARG);
    MPI_File_close(&file);
    CHECK(class_of(MPI_File_close(&file)) == MPI_ERR_FILE && seen == 2);
}

/* A sequential file: the shared pointer only, and views from where it is. */
static void in_sequence(const char *path) {
    MPI_File file;
    int data[2] = {rank, rank}, code, seen_twice = 0;
    MPI_Offset place = -1;
    MPI_Status status;
    code = MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_WRONLY | MPI_MODE_SEQUENTIAL | MPI_MODE_CREATE, MPI_INFO_NULL, &file);
    CHECK(code == MPI_SUCCESS);
    CHECK(class_of(MPI_File_write_at(file, 0, data, 2, MPI_INT, &status)) == MPI_ERR_UNSUPPORTED_OPERATION);
    CHECK(class_of(MPI_File_seek(file, 0, MPI_SEEK_SET)) == MPI_ERR_UNSUPPORTED_OPERATION);
    CHECK(MPI_File_write_ordered(file, data, 2, MPI_INT, &status) == MPI_SUCCESS);
    MPI_Get_count(&status, MPI_INT, &seen_twice);
    CHECK(seen_twice == 2);
    CHECK(MPI_File_set_view(file, MPI_DISPLACEMENT_CURRENT, MPI_INT, MPI_INT, "native", MPI_INFO_NULL) == MPI_SUCCESS);
    MPI_File_get_byte_offset(file, 0, &place);
    CHECK(place == 8 * size);
    CHECK(MPI_File_close(&file) == MPI_SUCCESS);
}

/* A data representation of one's own that doubles the width of integers. */
static int wide_read(void *memory, MPI_Datatype type, int count, void *file, MPI_Offset position, void *extra) {
    int i;
    (void)type; (void)extra;
    for (i = 0; i < count; i++) ((int *)memory)[position + i] = (int)((long *)file)[i];
    return MPI_SUCCESS;
}

static int wide_write(void *memory, MPI_Datatype type, int count, void *file, MPI_Offset position, void *extra) {
    int i;
    (void)type; (void)extra;
    for (i = 0; i < count; i++) ((long *)file)[i] = ((int *)memory)[position + i];
    return MPI_SUCCESS;
}

static int wide_extent(MPI_Datatype type, MPI_Aint *extent, void *extra) {
    (void)extra;
    *extent = type == MPI_INT ? 8 : 1;
    return MPI_SUCCESS;
}

static void own_representation(const char *path) {
    MPI_File file;
    MPI_Status status;
    MPI_Request request;
    MPI_Offset length = 0;
    MPI_Aint extent = 0;
    int out[3] = {rank + 1, -rank, 7}, in[3] = {0}, count = 0, code;
    long raw[3] = {0};
    code = MPI_Register_datarep("wide", wide_read, wide_write, wide_extent, NULL);
    CHECK(code == MPI_SUCCESS);
    CHECK(class_of(MPI_Register_datarep("wide", wide_read, wide_write, wide_extent, NULL)) == MPI_ERR_DUP_DATAREP);
    MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDWR | MPI_MODE_CREATE, MPI_INFO_NULL, &file);
    MPI_File_set_size(file, 0);
    CHECK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "wide", MPI_INFO_NULL) == MPI_SUCCESS);
    CHECK(MPI_File_get_type_extent(file, MPI_INT, &extent) == MPI_SUCCESS && extent == 8);
    CHECK(MPI_File_write_at_all(file, 3 * rank, out, 3, MPI_INT, &status) == MPI_SUCCESS);
    MPI_Get_count(&status, MPI_INT, &count);
    CHECK(count == 3);
    MPI_File_sync(file);
    MPI_File_get_size(file, &length);
    CHECK(length == 24 * size);
    CHECK(MPI_File_iread_at(file, 3 * rank, in, 3, MPI_INT, &request) == MPI_SUCCESS);
    CHECK(MPI_Wait(&request, &status) == MPI_SUCCESS);
    MPI_Get_count(&status, MPI_INT, &count);
    CHECK(count == 3 && in[0] == rank + 1 && in[1] == -rank && in[2] == 7);
    MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL);
    MPI_File_read_at_all(file, 24 * rank, raw, 24, MPI_BYTE, &status);
    CHECK(raw[0] == rank + 1 && raw[1] == -rank);
    MPI_File_close(&file);
}

/* external32 of a type whose values are narrower there, with gaps: every second C long. */
static void portable(const char *path) {
    MPI_File file;
    MPI_Datatype every_second;
    MPI_Status status;
    MPI_Aint extent = 0;
    long out[4] = {rank + 1, -2, 3, -4}, in[4] = {0};
    unsigned char raw[32];
    int count = 0;
    MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDWR | MPI_MODE_CREATE, MPI_INFO_NULL, &file);
    MPI_File_set_size(file, 0);
    MPI_Type_vector(2, 1, 2, MPI_LONG, &every_second);
    MPI_Type_create_resized(every_second, 0, 4 * 8, &every_second);
    MPI_Type_commit(&every_second);
    CHECK(MPI_File_set_view(file, 1000 * rank, MPI_LONG, every_second, "external32", MPI_INFO_NULL) == MPI_SUCCESS);
    CHECK(MPI_File_get_type_extent(file, MPI_LONG, &extent) == MPI_SUCCESS && extent == 4);
    CHECK(MPI_File_write_at_all(file, 0, out, 2, MPI_LONG, &status) == MPI_SUCCESS);
    MPI_Get_count(&status, MPI_LONG, &count);
    CHECK(count == 2);
    CHECK(MPI_File_read_at_all(file, 0, in, 2, MPI_LONG, &status) == MPI_SUCCESS);
    CHECK(in[0] == rank + 1 && in[1] == -2);
    MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL);
    MPI_File_read_at(file, 1000 * rank, raw, 12, MPI_BYTE, &status);
    CHECK(raw[3] == rank + 1 && raw[8] == 0xff && raw[11] == 0xfe && raw[4] == 0);
    MPI_Type_free(&every_second);
    MPI_File_close(&file);
}

int main(int argc, char **argv) {
    char path[4096];
    int all = 0;
    begin(&argc, &argv);
    snprintf(path, sizeof path, "%s", argv[1]);
    single_ranks(path);
    requests(path);
    of_no_file(path);
    in_sequence(path);
    own_representation(path);
    portable(path);
    MPI_Allreduce(&wrong, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    say("%d wrong", wrong);
    finish();
    return all != 0;
}
