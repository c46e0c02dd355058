/* Requests on files among MPI's own, at every thread level: every way to wait for them, to look at them and
   to cancel them; and datatypes that are not committed. Checks itself. */
#include "log.h"

static int wrong;

#define CHECK(condition) do { if (!(condition)) { wrong++; say("line %d: %s", __LINE__, #condition); } } while (0)
#define COUNT 4096
#define BYTES ((int)(COUNT * sizeof(int)))

static MPI_File file;
static int out[COUNT], in[COUNT], message[COUNT], answer[COUNT];

static int bytes_of(MPI_Status *status) {
    int count = -1;
    MPI_Get_count(status, MPI_BYTE, &count);
    return count;
}

static int is_cancelled(MPI_Status *status) {
    int flag = -1;
    MPI_Test_cancelled(status, &flag);
    return flag;
}

/* Two of MPI's requests and two of files: a message from the left, one to the right, a write and a read. */
static void start(MPI_Request *four) {
    int right = (rank + 1) % size, left = (rank + size - 1) % size;
    MPI_Irecv(answer, COUNT, MPI_INT, left, 3, MPI_COMM_WORLD, &four[0]);
    MPI_File_iwrite_at(file, (MPI_Offset)rank * BYTES, out, COUNT, MPI_INT, &four[1]);
    MPI_Isend(message, COUNT, MPI_INT, right, 3, MPI_COMM_WORLD, &four[2]);
    MPI_File_iread_at(file, (MPI_Offset)(size + rank) * BYTES, in, COUNT, MPI_INT, &four[3]);
}

static void arrived(MPI_Status *statuses) {
    CHECK(bytes_of(&statuses[0]) == BYTES && bytes_of(&statuses[1]) == BYTES && bytes_of(&statuses[3]) == BYTES);
    CHECK(!is_cancelled(&statuses[1]) && !is_cancelled(&statuses[3]));
    CHECK(in[7] == 7 + rank && answer[9] == (rank + size - 1) % size);
    memset(in, 0, sizeof in);
    memset(answer, 0xff, sizeof answer);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void waits(void) {
    MPI_Request four[4];
    MPI_Status statuses[4], status;
    int done, index, count, flag, seen, i, indices[4];
    start(four);
    CHECK(MPI_Waitall(4, four, statuses) == MPI_SUCCESS);
    arrived(statuses);
    start(four);
    for (done = 0; done < 4; done++) {
        CHECK(MPI_Waitany(4, four, &index, &status) == MPI_SUCCESS && index >= 0 && index < 4);
        statuses[index] = status;
        CHECK(four[index] == MPI_REQUEST_NULL);
    }
    CHECK(MPI_Waitany(4, four, &index, &status) == MPI_SUCCESS && index == MPI_UNDEFINED);
    arrived(statuses);
    start(four);
    for (done = 0; done < 4; done += count) {
        MPI_Status some[4];
        CHECK(MPI_Waitsome(4, four, &count, indices, some) == MPI_SUCCESS && count > 0);
        for (i = 0; i < count; i++) statuses[indices[i]] = some[i];
    }
    arrived(statuses);
    start(four);
    for (done = 0; done < 4; done += count) {
        MPI_Status some[4];
        CHECK(MPI_Testsome(4, four, &count, indices, some) == MPI_SUCCESS && count >= 0);
        for (i = 0; i < count; i++) statuses[indices[i]] = some[i];
    }
    arrived(statuses);
    start(four);
    for (done = 0; done < 4; done += flag) {
        CHECK(MPI_Testany(4, four, &index, &flag, &status) == MPI_SUCCESS);
        if (flag) statuses[index] = status;
    }
    arrived(statuses);
    start(four);
    for (flag = 0; !flag;) CHECK(MPI_Testall(4, four, &flag, statuses) == MPI_SUCCESS);
    arrived(statuses);
    /* Looking does not take: what is told first is told again, by the call that ends the request too. */
    start(four);
    for (seen = 0; seen < 4;) {
        for (seen = i = 0; i < 4; i++) {
            CHECK(MPI_Request_get_status(four[i], &flag, &status) == MPI_SUCCESS);
            if (flag) seen++;
            if (flag && i % 2) CHECK(bytes_of(&status) == BYTES && four[i] != MPI_REQUEST_NULL);
        }
    }
    CHECK(MPI_Waitall(4, four, statuses) == MPI_SUCCESS);
    arrived(statuses);
}

/* A request on a file that is waited for alone while messages must move, and the other way round. */
static void crossed(void) {
    MPI_Request of_file, of_message;
    MPI_Status status;
    int right = (rank + 1) % size, left = (rank + size - 1) % size;
    MPI_File_iwrite_at_all(file, (MPI_Offset)rank * BYTES, out, COUNT, MPI_INT, &of_file);
    MPI_Irecv(answer, COUNT, MPI_INT, left, 4, MPI_COMM_WORLD, &of_message);
    MPI_Ssend(message, COUNT, MPI_INT, right, 4, MPI_COMM_WORLD);
    CHECK(MPI_Wait(&of_message, &status) == MPI_SUCCESS);
    CHECK(MPI_Wait(&of_file, &status) == MPI_SUCCESS && bytes_of(&status) == BYTES);
    CHECK(answer[0] == left);
}

/* Operations on files take place: to cancel one is allowed and changes nothing. */
static void cancelled(void) {
    MPI_Request request;
    MPI_Status status;
    CHECK(MPI_File_iwrite_at(file, (MPI_Offset)rank * BYTES, out, COUNT, MPI_INT, &request) == MPI_SUCCESS);
    CHECK(MPI_Cancel(&request) == MPI_SUCCESS);
    CHECK(MPI_Wait(&request, &status) == MPI_SUCCESS);
    CHECK(!is_cancelled(&status) && bytes_of(&status) == BYTES);
    CHECK(MPI_File_iread_at(file, (MPI_Offset)rank * BYTES, in, COUNT, MPI_INT, &request) == MPI_SUCCESS);
    CHECK(MPI_Cancel(&request) == MPI_SUCCESS && MPI_Wait(&request, &status) == MPI_SUCCESS);
    CHECK(!is_cancelled(&status) && in[5] == out[5]);
    /* One that nobody waits for is done all the same. */
    CHECK(MPI_File_iwrite_at(file, (MPI_Offset)rank * BYTES, message, COUNT, MPI_INT, &request) == MPI_SUCCESS);
    CHECK(MPI_Request_free(&request) == MPI_SUCCESS && request == MPI_REQUEST_NULL);
}

/* What failed is told by the call that looks, and once more by the one that ends it. */
static void failed(const char *path) {
    MPI_File other;
    MPI_Request two[2];
    MPI_Status statuses[2];
    int code, class = 0;
    MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDONLY, MPI_INFO_NULL, &other);
    MPI_File_iwrite_at_all(other, 0, out, COUNT, MPI_INT, &two[0]);
    MPI_File_iread_at(file, 0, in, COUNT, MPI_INT, &two[1]);
    code = MPI_Waitall(2, two, statuses);
    MPI_Error_class(code, &class);
    CHECK(class == MPI_ERR_IN_STATUS);
    MPI_Error_class(statuses[0].MPI_ERROR, &class);
    /* MPICH has one class for whatever a generalized request tells. */
    CHECK(class == MPI_ERR_READ_ONLY || class == MPI_ERR_OTHER);
    CHECK(statuses[1].MPI_ERROR == MPI_SUCCESS || statuses[1].MPI_ERROR == MPI_ERR_PENDING);
    if (statuses[1].MPI_ERROR == MPI_ERR_PENDING) MPI_Wait(&two[1], MPI_STATUS_IGNORE);
    MPI_File_iwrite_at_all(other, 0, out, COUNT, MPI_INT, &two[0]);
    code = MPI_Wait(&two[0], &statuses[0]);
    MPI_Error_class(code, &class);
    CHECK(class == MPI_ERR_READ_ONLY);
    MPI_File_close(&other);
}

static void uncommitted(void) {
    MPI_Datatype pairs;
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Status status;
    MPI_Aint extent;
    int class;
#define REFUSED(call) (MPI_Error_class(call, &class), class == MPI_ERR_TYPE)
    MPI_Type_vector(2, 1, 2, MPI_INT, &pairs);
    CHECK(REFUSED(MPI_File_write_at(file, 0, out, 1, pairs, &status)));
    CHECK(REFUSED(MPI_File_write_at(file, 0, out, 0, pairs, &status)));
    CHECK(REFUSED(MPI_File_write_at_all(file, 0, out, 1, rank ? MPI_INT : pairs, &status)));
    CHECK(REFUSED(MPI_File_read_ordered(file, in, 1, pairs, &status)));
    CHECK(REFUSED(MPI_File_iread_at(file, 0, in, 1, pairs, &request)) && request == MPI_REQUEST_NULL);
    CHECK(REFUSED(MPI_File_get_type_extent(file, pairs, &extent)));
    CHECK(REFUSED(MPI_File_set_view(file, 0, MPI_INT, pairs, "native", MPI_INFO_NULL)));
    CHECK(REFUSED(MPI_File_set_view(file, 0, pairs, pairs, "native", MPI_INFO_NULL)));
    MPI_Type_commit(&pairs);
    CHECK(MPI_File_set_view(file, 0, pairs, pairs, "native", MPI_INFO_NULL) == MPI_SUCCESS);
    CHECK(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL) == MPI_SUCCESS);
    CHECK(MPI_File_read_at_all(file, 0, in, 1, pairs, &status) == MPI_SUCCESS);
    MPI_Type_free(&pairs);
}

int main(int argc, char **argv) {
    int all = 0, i;
    begin(&argc, &argv);
    for (i = 0; i < COUNT; i++) out[i] = i + rank, message[i] = rank;
    MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_RDWR | MPI_MODE_CREATE, MPI_INFO_NULL, &file);
    MPI_File_write_at_all(file, (MPI_Offset)(size + rank) * BYTES, out, COUNT, MPI_INT, MPI_STATUS_IGNORE);
    waits();
    crossed();
    cancelled();
    failed(argv[1]);
    uncommitted();
    CHECK(MPI_File_close(&file) == MPI_SUCCESS);
    MPI_Allreduce(&wrong, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    say("%d wrong", wrong);
    finish();
    return all != 0;
}
