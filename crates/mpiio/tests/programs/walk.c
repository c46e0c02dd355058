/* Walks all functions of files, and prints what each returns and does. */
#include "log.h"

#define FILL(buffer) do { int i_; for (i_ = 0; i_ < (int)(sizeof(buffer) / sizeof(buffer[0])); i_++) buffer[i_] = rank * 1000 + i_; } while (0)

/* The standard interface of MPI 5 has no Fortran in its C library, and other names for this. */
#ifdef MPI_ABI_VERSION
#define MPI_File_c2f MPI_File_toint
#define MPI_File_f2c MPI_File_fromint
#endif

static MPI_File file;
static char path[4096];

static int count_of(MPI_Status *status, MPI_Datatype type) {
    int count = -5;
    MPI_Get_count(status, type, &count);
    return count;
}

/* What a call returned and told; the status is then empty again, so that a call that leaves it so is noticed. */
static void done(const char *call, int code, MPI_Status *status) {
    int elements = -5, cancelled = -5;
    MPI_Count wide = -5;
    MPI_Get_elements(status, MPI_INT, &elements);
    MPI_Get_elements_x(status, MPI_BYTE, &wide);
    MPI_Test_cancelled(status, &cancelled);
    say("%s: %s, %d values, %d elements, %ld bytes, cancelled %d", call, class_name(code), count_of(status, MPI_INT), elements,
        (long)wide, cancelled);
    MPI_Status_set_elements(status, MPI_INT, 77);
    MPI_Status_set_cancelled(status, 0);
}

/* What all ranks have written is there for all to read. */
static void settle(void) {
    MPI_File_sync(file);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_File_sync(file);
}

static void clear(MPI_Status *status) {
    memset(status, 0, sizeof *status);
    MPI_Status_set_elements(status, MPI_INT, 77);
    MPI_Status_set_cancelled(status, 0);
}

static void opening(void) {
    int amode = 0, code, atomic = -1, same = 0;
    MPI_Offset offset = -1;
    MPI_Group group, own;
    MPI_Info info;
    code = MPI_File_open(MPI_COMM_WORLD, "/nonexistent/folder/file", MPI_MODE_RDONLY, MPI_INFO_NULL, &file);
    say("open of nothing: %s %d", class_name(code), file == MPI_FILE_NULL);
    code = MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDONLY | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
    say("open in two modes: %s", class_name(code));
    code = MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDONLY | MPI_MODE_CREATE, MPI_INFO_NULL, &file);
    say("open read-only and create: %s", class_name(code));
    code = MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDWR | MPI_MODE_SEQUENTIAL, MPI_INFO_NULL, &file);
    say("open read-write and sequential: %s", class_name(code));
    MPI_Info_create(&info);
    MPI_Info_set(info, "cb_buffer_size", "65536");
    MPI_Info_set(info, "no_such_hint", "17");
    code = MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_EXCL, info, &file);
    MPI_Info_free(&info);
    say("open: %s", class_name(code));
    MPI_File_get_amode(file, &amode);
    say("amode %d", amode == (MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_EXCL));
    MPI_File_get_group(file, &group);
    MPI_Comm_group(MPI_COMM_WORLD, &own);
    MPI_Group_compare(group, own, &same);
    say("group %d", same == MPI_IDENT);
    MPI_Group_free(&group);
    MPI_Group_free(&own);
    MPI_File_get_atomicity(file, &atomic);
    MPI_File_get_size(file, &offset);
    say("atomic %d, size %ld", atomic, (long)offset);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_File_get_info(file, &info);
    {
        char value[256] = "";
        int flag = 0;
        MPI_Info_get(info, "cb_buffer_size", 255, value, &flag);
        say("hint %d %s", flag, value);
    }
    MPI_Info_free(&info);
}

static void access_alone(void) {
    int out[8], in[8];
    MPI_Status status;
    MPI_Offset offset;
    FILL(out);
    clear(&status);
    done("write_at", MPI_File_write_at(file, rank * 32, out, 8, MPI_INT, &status), &status);
    settle();
    memset(in, 0, sizeof in);
    done("read_at", MPI_File_read_at(file, (rank + 1) % size * 32, in, 8, MPI_INT, &status), &status);
    say("read %d %d", in[0], in[7]);
    done("read_at none", MPI_File_read_at(file, 0, in, 0, MPI_INT, &status), &status);
    done("read_at behind", MPI_File_read_at(file, size * 32, in, 8, MPI_INT, &status), &status);
    done("read_at over the end", MPI_File_read_at(file, size * 32 - 12, in, 8, MPI_INT, &status), &status);
    MPI_File_seek(file, rank * 32, MPI_SEEK_SET);
    done("read", MPI_File_read(file, in, 4, MPI_INT, &status), &status);
    MPI_File_get_position(file, &offset);
    say("position %ld, read %d", (long)offset, in[3]);
    say("seek before: %s", class_name(MPI_File_seek(file, -1, MPI_SEEK_SET)));
    MPI_File_seek(file, -8, MPI_SEEK_CUR);
    MPI_File_get_position(file, &offset);
    say("position %ld", (long)offset);
    MPI_File_seek(file, -4, MPI_SEEK_END);
    MPI_File_get_position(file, &offset);
    say("position %ld", (long)offset);
    MPI_File_seek(file, rank * 32, MPI_SEEK_SET);
    done("write", MPI_File_write(file, out, 8, MPI_INT, &status), &status);
    say("write null status: %s", class_name(MPI_File_write_at(file, rank * 32, out, 8, MPI_INT, MPI_STATUS_IGNORE)));
    MPI_Barrier(MPI_COMM_WORLD);
}

static void access_together(void) {
    int out[8], in[8];
    MPI_Status status;
    FILL(out);
    clear(&status);
    done("write_at_all", MPI_File_write_at_all(file, rank * 32, out, 8, MPI_INT, &status), &status);
    settle();
    memset(in, 0, sizeof in);
    done("read_at_all", MPI_File_read_at_all(file, (rank + 1) % size * 32, in, 8, MPI_INT, &status), &status);
    say("read %d", in[7]);
    MPI_File_seek(file, rank * 32, MPI_SEEK_SET);
    done("write_all", MPI_File_write_all(file, out, rank, MPI_INT, &status), &status);
    MPI_File_seek(file, rank * 32, MPI_SEEK_SET);
    done("read_all", MPI_File_read_all(file, in, 8, MPI_INT, &status), &status);
    say("write_at_all_begin: %s", class_name(MPI_File_write_at_all_begin(file, rank * 32, out, 8, MPI_INT)));
    done("write_at_all_end", MPI_File_write_at_all_end(file, out, &status), &status);
    MPI_File_read_at_all_begin(file, rank * 32, in, 8, MPI_INT);
    done("read_at_all_end", MPI_File_read_at_all_end(file, in, &status), &status);
    MPI_File_seek(file, rank * 32, MPI_SEEK_SET);
    MPI_File_write_all_begin(file, out, 8, MPI_INT);
    done("write_all_end", MPI_File_write_all_end(file, out, &status), &status);
    MPI_File_seek(file, rank * 32, MPI_SEEK_SET);
    MPI_File_read_all_begin(file, in, 8, MPI_INT);
    done("read_all_end", MPI_File_read_all_end(file, in, &status), &status);
    say("read %d", in[7]);
}

static void access_shared(void) {
    int out[4], in[4], i, total = 0, sum = 0;
    MPI_Status status;
    MPI_Offset offset;
    FILL(out);
    clear(&status);
    MPI_File_seek_shared(file, 0, MPI_SEEK_SET);
    done("write_ordered", MPI_File_write_ordered(file, out, 1 + rank % 4, MPI_INT, &status), &status);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_File_get_position_shared(file, &offset);
    say("shared position %ld", (long)offset);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_File_seek_shared(file, 0, MPI_SEEK_SET);
    done("read_ordered", MPI_File_read_ordered(file, in, 1 + rank % 4, MPI_INT, &status), &status);
    say("read %d", in[rank % 4]);
    MPI_File_seek_shared(file, 0, MPI_SEEK_SET);
    MPI_File_write_ordered_begin(file, out, 4, MPI_INT);
    done("write_ordered_end", MPI_File_write_ordered_end(file, out, &status), &status);
    MPI_File_seek_shared(file, 0, MPI_SEEK_SET);
    MPI_File_read_ordered_begin(file, in, 4, MPI_INT);
    done("read_ordered_end", MPI_File_read_ordered_end(file, in, &status), &status);
    say("read %d", in[3]);
    MPI_File_seek_shared(file, 0, MPI_SEEK_SET);
    for (i = 0; i < 4; i++) out[i] = rank + 1;
    done("write_shared", MPI_File_write_shared(file, out, 4, MPI_INT, &status), &status);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_File_seek_shared(file, 0, MPI_SEEK_SET);
    done("read_shared", MPI_File_read_shared(file, in, 4, MPI_INT, &status), &status);
    for (i = 0; i < 4; i++) total += in[i];
    MPI_Allreduce(&total, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    say("shared sum %d", sum);
    MPI_File_get_size(file, &offset);
    say("size %ld", (long)offset);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void requests(void) {
    int out[8], in[8], flag = 0, i;
    MPI_Request request, three[3];
    MPI_Status status, statuses[3];
    FILL(out);
    clear(&status);
    for (i = 0; i < 3; i++) clear(&statuses[i]);
    say("iwrite_at: %s", class_name(MPI_File_iwrite_at(file, rank * 32, out, 8, MPI_INT, &request)));
    done("wait", MPI_Wait(&request, &status), &status);
    say("null %d", request == MPI_REQUEST_NULL);
    settle();
    MPI_File_iread_at(file, (rank + 1) % size * 32, in, 8, MPI_INT, &request);
    while (!flag) MPI_Test(&request, &flag, &status);
    done("test", 0, &status);
    say("read %d", in[7]);
    MPI_File_seek(file, rank * 32, MPI_SEEK_SET);
    MPI_File_iwrite(file, out, 4, MPI_INT, &three[0]);
    MPI_File_iwrite(file, out + 4, 3, MPI_INT, &three[1]);
    MPI_File_iwrite(file, out + 7, 1, MPI_INT, &three[2]);
    say("waitall %s", class_name(MPI_Waitall(3, three, statuses)));
    for (i = 0; i < 3; i++) done("one of them", 0, &statuses[i]);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_File_seek(file, rank * 32, MPI_SEEK_SET);
    MPI_File_iread(file, in, 8, MPI_INT, &request);
    done("wait", MPI_Wait(&request, &status), &status);
    say("read %d", in[7]);
    MPI_File_seek_shared(file, 0, MPI_SEEK_SET);
    MPI_File_iwrite_shared(file, out, 8, MPI_INT, &request);
    done("iwrite_shared", MPI_Wait(&request, &status), &status);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_File_seek_shared(file, 0, MPI_SEEK_SET);
    MPI_File_iread_shared(file, in, 8, MPI_INT, &request);
    done("iread_shared", MPI_Wait(&request, &status), &status);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_File_iwrite_at_all(file, rank * 32, out, 8, MPI_INT, &request);
    done("iwrite_at_all", MPI_Wait(&request, &status), &status);
    settle();
    MPI_File_iread_at_all(file, (rank + 1) % size * 32, in, 8, MPI_INT, &request);
    done("iread_at_all", MPI_Wait(&request, &status), &status);
    say("read %d", in[7]);
    MPI_File_seek(file, rank * 32, MPI_SEEK_SET);
    MPI_File_iwrite_all(file, out, 8, MPI_INT, &request);
    done("iwrite_all", MPI_Wait(&request, &status), &status);
    MPI_File_seek(file, rank * 32, MPI_SEEK_SET);
    MPI_File_iread_all(file, in, 8, MPI_INT, &request);
    done("iread_all", MPI_Wait(&request, &status), &status);
    say("read %d", in[7]);
}

static void sizes(void) {
    MPI_Offset offset;
    say("set_size %s", class_name(MPI_File_set_size(file, 1000)));
    MPI_File_get_size(file, &offset);
    say("size %ld", (long)offset);
    MPI_Barrier(MPI_COMM_WORLD);
    say("preallocate %s", class_name(MPI_File_preallocate(file, 5000)));
    MPI_File_get_size(file, &offset);
    say("size %ld", (long)offset);
    MPI_Barrier(MPI_COMM_WORLD);
    say("preallocate less %s", class_name(MPI_File_preallocate(file, 50)));
    MPI_File_get_size(file, &offset);
    say("size %ld", (long)offset);
    MPI_Barrier(MPI_COMM_WORLD);
    say("sync %s", class_name(MPI_File_sync(file)));
    say("set_size %s", class_name(MPI_File_set_size(file, 32 * size)));
    say("atomicity %s", class_name(MPI_File_set_atomicity(file, 1)));
    {
        int atomic = 0, out[8];
        MPI_Status status;
        FILL(out);
    clear(&status);
        MPI_File_get_atomicity(file, &atomic);
        say("atomic %d", atomic);
        done("atomic write", MPI_File_write_at(file, rank * 32, out, 8, MPI_INT, &status), &status);
        MPI_File_set_atomicity(file, 0);
    }
}

static void views(void) {
    MPI_Datatype vector, etype, filetype;
    MPI_Offset displacement, bytes, position;
    MPI_Aint extent = 0;
    MPI_Status status;
    char representation[MPI_MAX_DATAREP_STRING] = "";
    int out[8], in[8], integers, addresses, types, combiner;
    FILL(out);
    clear(&status);
    MPI_Type_vector(4, 1, size, MPI_INT, &vector);
    MPI_Type_commit(&vector);
    say("set_view %s", class_name(MPI_File_set_view(file, 4 * rank, MPI_INT, vector, "native", MPI_INFO_NULL)));
    MPI_Type_free(&vector);
    MPI_File_get_view(file, &displacement, &etype, &filetype, representation);
    MPI_Type_get_envelope(filetype, &integers, &addresses, &types, &combiner);
    say("view %ld %d %s, derived %d", (long)displacement, etype == MPI_INT, representation, combiner != MPI_COMBINER_NAMED);
    if (combiner != MPI_COMBINER_NAMED) MPI_Type_free(&filetype);
    done("write_all", MPI_File_write_all(file, out, 4, MPI_INT, &status), &status);
    MPI_File_get_position(file, &position);
    MPI_File_get_byte_offset(file, 3, &bytes);
    say("position %ld, byte %ld", (long)position, (long)bytes);
    settle();
    done("read_at", MPI_File_read_at(file, 1, in, 2, MPI_INT, &status), &status);
    say("read %d %d", in[0], in[1]);
    say("type extent %s", class_name(MPI_File_get_type_extent(file, MPI_DOUBLE, &extent)));
    say("type extent %d", (int)extent);
    MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL);
    done("read_at_all", MPI_File_read_at_all(file, 0, in, 8, MPI_INT, &status), &status);
    say("read %d %d %d", in[0], in[1], in[2]);
    say("unknown representation %s",
        class_name(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "nobodys", MPI_INFO_NULL)));
    say("external32 %s", class_name(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "external32", MPI_INFO_NULL)));
    done("external32 write_at_all", MPI_File_write_at_all(file, 8 * rank, out, 8, MPI_INT, &status), &status);
    done("external32 read_at_all", MPI_File_read_at_all(file, 8 * rank, in, 8, MPI_INT, &status), &status);
    say("read %d %d", in[0], in[7]);
    MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL);
}

static void misuse(void) {
    int data[4] = {0};
    MPI_Status status;
    MPI_File other;
    MPI_Offset offset;
    memset(&status, 0, sizeof status);
    say("closed file: %s", class_name(MPI_File_get_size(MPI_FILE_NULL, &offset)));
    say("negative count: %s", class_name(MPI_File_write_at(file, 0, data, -1, MPI_INT, &status)));
    say("negative offset: %s", class_name(MPI_File_write_at(file, -4, data, 1, MPI_INT, &status)));
    say("null datatype: %s", class_name(MPI_File_write_at(file, 0, data, 1, MPI_DATATYPE_NULL, &status)));
    say("exclusive again: %s", class_name(MPI_File_open(MPI_COMM_SELF, path, MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_EXCL,
                                                        MPI_INFO_NULL, &other)));
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDONLY, MPI_INFO_NULL, &other);
    say("write read-only: %s", class_name(MPI_File_write_at(other, 0, data, 1, MPI_INT, &status)));
    say("write_at_all read-only: %s", class_name(MPI_File_write_at_all(other, 0, data, 1, MPI_INT, &status)));
    say("set_size read-only: %s", class_name(MPI_File_set_size(other, 10)));
    MPI_File_close(&other);
    MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_WRONLY, MPI_INFO_NULL, &other);
    say("read write-only: %s", class_name(MPI_File_read_at(other, 0, data, 1, MPI_INT, &status)));
    MPI_File_close(&other);
    say("delete nothing: %s", class_name(MPI_File_delete("/nonexistent/folder/file", MPI_INFO_NULL)));
}

static int handled;

static void on_error(MPI_File *which, int *code, ...) {
    handled++;
    say("handler: %s, the file %d", class_name(*code), which && *which == file);
}

static void handlers(void) {
    MPI_Errhandler made, got;
    MPI_Offset offset;
    int data[4] = {0};
    MPI_File fint;
    MPI_File_create_errhandler(on_error, &made);
    MPI_File_get_errhandler(MPI_FILE_NULL, &got);
    say("default returns %d", got == MPI_ERRORS_RETURN);
    MPI_File_set_errhandler(file, made);
    MPI_File_get_errhandler(file, &got);
    say("ours %d", got == made);
    MPI_Errhandler_free(&got);
    MPI_Errhandler_free(&made);
    say("seek %s", class_name(MPI_File_seek(file, -1, MPI_SEEK_SET)));
    say("call %s", class_name(MPI_File_call_errhandler(file, MPI_ERR_OTHER)));
    say("write %s", class_name(MPI_File_write_at(file, 0, data, -1, MPI_INT, MPI_STATUS_IGNORE)));
    say("handled %d", handled);
    MPI_File_set_errhandler(file, MPI_ERRORS_RETURN);
    fint = MPI_File_f2c(MPI_File_c2f(file));
    say("there and back %d, null %d", fint == file, MPI_File_f2c(MPI_File_c2f(MPI_FILE_NULL)) == MPI_FILE_NULL);
    say("size %s", class_name(MPI_File_get_size(fint, &offset)));
}

static void modes(void) {
    char name[4200];
    int data[4] = {1, 2, 3, 4}, code;
    MPI_Offset offset = -1;
    MPI_File other;
    MPI_Status status;
    MPI_Comm half;
    clear(&status);
    snprintf(name, sizeof name, "%s.append", path);
    MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_WRONLY | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, &other);
    MPI_File_set_size(other, 100);
    {
        MPI_File third;
        MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_WRONLY | MPI_MODE_APPEND, MPI_INFO_NULL, &third);
        MPI_File_get_position(third, &offset);
        say("append at %ld", (long)offset);
        MPI_File_close(&third);
    }
    MPI_File_close(&other);
    code = MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDONLY, MPI_INFO_NULL, &other);
    say("deleted on close: %s", class_name(code));
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, 0, &half);
    snprintf(name, sizeof name, "%s.half%d", path, rank % 2);
    code = MPI_File_open(half, name, MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, &other);
    MPI_Comm_free(&half);
    done("half write", MPI_File_write_ordered(other, data, 4, MPI_INT, &status), &status);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_File_get_size(other, &offset);
    say("half %s, size %ld", class_name(code), (long)offset);
    MPI_File_close(&other);
    snprintf(name, sizeof name, "%s.self%d", path, rank);
    MPI_File_open(MPI_COMM_SELF, name, MPI_MODE_RDWR | MPI_MODE_CREATE, MPI_INFO_NULL, &other);
    done("self write_all", MPI_File_write_all(other, data, 4, MPI_INT, &status), &status);
    MPI_File_close(&other);
    say("delete %s", class_name(MPI_File_delete(name, MPI_INFO_NULL)));
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    snprintf(path, sizeof path, "%s", argv[1]);
    opening();
    access_alone();
    access_together();
    access_shared();
    requests();
    sizes();
    views();
    misuse();
    handlers();
    say("close %s", class_name(MPI_File_close(&file)));
    say("closed %d", file == MPI_FILE_NULL);
    modes();
    finish();
    return 0;
}
