/* The shared pointer, one rank at a time: whatever the thread level, a rank gets on while the first one waits in MPI for something else. */
#include "log.h"

enum { RECORDS = 48, LONGEST = 9, FIXED = 8, HALF = 1, DONE = 2 };

static int wrong, me, all;
static unsigned seed;

#define EXPECT(x)                                          \
    do {                                                   \
        if (!(x)) {                                        \
            wrong++;                                       \
            say("line %d of %d ranks: " #x, __LINE__, all); \
        }                                                  \
    } while (0)

static int dice(int below) {
    seed = seed * 1103515245u + 12345u;
    return (int)(seed >> 16) % below;
}

/* Its length, who wrote it, its number, and that again and again. */
static int record(int *data, int len, int number) {
    for (int i = 0; i < len; i++) data[i] = number;
    data[0] = len;
    data[1] = me;
    return len;
}

/* Writes records, every third without waiting; how many integers. */
static MPI_Offset write_records(MPI_File file, int from, int to, int fixed) {
    static int data[RECORDS][LONGEST];
    MPI_Request requests[RECORDS];
    MPI_Status status;
    MPI_Offset total = 0;
    int pending = 0, count;
    for (int number = from; number < to; number++) {
        int len = record(data[number], fixed ? fixed : 3 + dice(LONGEST - 2), number);
        total += len;
        if (number % 3 == 0) {
            requests[pending] = MPI_REQUEST_NULL;
            EXPECT(MPI_File_iwrite_shared(file, data[number], len, MPI_INT, &requests[pending++]) == MPI_SUCCESS);
        } else {
            EXPECT(MPI_File_write_shared(file, data[number], len, MPI_INT, &status) == MPI_SUCCESS);
            MPI_Get_count(&status, MPI_INT, &count);
            EXPECT(count == len);
        }
    }
    EXPECT(MPI_Waitall(pending, requests, MPI_STATUSES_IGNORE) == MPI_SUCCESS);
    return total;
}

static void await_all(MPI_Comm comm, int tag) {
    for (int r = 1; r < all; r++) MPI_Recv(NULL, 0, MPI_INT, r, tag, comm, MPI_STATUS_IGNORE);
}

/* All ranks write; the first one waits in MPI while the others write half of theirs, and again while they end. */
static MPI_Offset write_all(MPI_Comm comm, MPI_File file, int fixed) {
    MPI_Offset mine = 0, total = 0;
    if (me == 0) {
        await_all(comm, HALF);
        mine = write_records(file, 0, RECORDS, fixed);
        await_all(comm, DONE);
    } else {
        mine = write_records(file, 0, RECORDS / 2, fixed);
        MPI_Send(NULL, 0, MPI_INT, 0, HALF, comm);
        mine += write_records(file, RECORDS / 2, RECORDS, fixed);
        MPI_Send(NULL, 0, MPI_INT, 0, DONE, comm);
    }
    MPI_Allreduce(&mine, &total, 1, MPI_OFFSET, MPI_SUM, comm);
    return total;
}

/* Every record of every rank once. */
static void expect_once(MPI_Comm comm, int *seen) {
    MPI_Allreduce(MPI_IN_PLACE, seen, all * RECORDS, MPI_INT, MPI_SUM, comm);
    for (int i = 0; i < all * RECORDS; i++) EXPECT(seen[i] == 1);
    memset(seen, 0, all * RECORDS * sizeof(int));
}

static int is_whole(const int *data, int len) {
    int whole = data[0] == len && data[1] >= 0 && data[1] < all && data[2] >= 0 && data[2] < RECORDS;
    for (int i = 3; i < len; i++) whole = whole && data[i] == data[2];
    return whole;
}

/* The first rank looks at the file as it is. */
static void judge(MPI_File file, MPI_Offset total, int *seen) {
    int *data = malloc(total * sizeof(int)), len;
    EXPECT(MPI_File_read_at(file, 0, data, (int)total, MPI_INT, MPI_STATUS_IGNORE) == MPI_SUCCESS);
    for (MPI_Offset at = 0; at < total; at += len) {
        len = data[at];
        EXPECT(len >= 3 && len <= LONGEST && at + len <= total && is_whole(data + at, len));
        if (wrong) break;
        seen[data[at + 1] * RECORDS + data[at + 2]]++;
    }
    free(data);
}

static MPI_Offset position(MPI_File file) {
    MPI_Offset at = -1;
    EXPECT(MPI_File_get_position_shared(file, &at) == MPI_SUCCESS);
    return at;
}

/* Records of any length: all there, none torn. */
static void writes(MPI_Comm comm, MPI_File file, int *seen) {
    MPI_Offset total = write_all(comm, file, 0), bytes = 0;
    EXPECT(position(file) == total);
    MPI_File_sync(file);
    MPI_Barrier(comm);
    MPI_File_sync(file);
    MPI_File_get_size(file, &bytes);
    EXPECT(bytes == total * (MPI_Offset)sizeof(int));
    if (me == 0) judge(file, total, seen);
    expect_once(comm, seen);
}

static void seeks(MPI_Comm comm, MPI_File file, MPI_Offset total) {
    EXPECT(MPI_File_seek_shared(file, -5, MPI_SEEK_CUR) == MPI_SUCCESS && position(file) == total - 5);
    MPI_Barrier(comm);
    EXPECT(MPI_File_seek_shared(file, 3, MPI_SEEK_END) == MPI_SUCCESS && position(file) == total + 3);
    MPI_Barrier(comm);
    EXPECT(MPI_File_seek_shared(file, 0, MPI_SEEK_SET) == MPI_SUCCESS && position(file) == 0);
    MPI_Barrier(comm);
}

/* Records of one length: who reads takes the next one, until there is none. The first rank waits until the others have one each. */
static void reads(MPI_Comm comm, MPI_File file, int *seen) {
    int data[FIXED], count = FIXED;
    MPI_Offset total;
    MPI_Status status;
    EXPECT(MPI_File_set_size(file, 0) == MPI_SUCCESS && MPI_File_seek_shared(file, 0, MPI_SEEK_SET) == MPI_SUCCESS);
    total = write_all(comm, file, FIXED);
    EXPECT(total == (MPI_Offset)all * RECORDS * FIXED && position(file) == total);
    MPI_File_sync(file);
    seeks(comm, file, total);
    if (me == 0) await_all(comm, HALF);
    for (int turn = 0; count == FIXED; turn++) {
        EXPECT(MPI_File_read_shared(file, data, FIXED, MPI_INT, &status) == MPI_SUCCESS);
        MPI_Get_count(&status, MPI_INT, &count);
        EXPECT(count == 0 || (count == FIXED && is_whole(data, FIXED)));
        if (turn == 0 && me > 0) MPI_Send(NULL, 0, MPI_INT, 0, HALF, comm);
        if (wrong) break;
        if (count == FIXED) seen[data[1] * RECORDS + data[2]]++;
    }
    expect_once(comm, seen);
    /* Each rank has asked for one record more than there was. */
    EXPECT(position(file) == total + (MPI_Offset)all * FIXED);
    MPI_Barrier(comm);
}

/* Two files open at once have a pointer each. */
static void apart(MPI_Comm comm, const char *name) {
    MPI_File first, second;
    int one = 1;
    int mode = MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE;
    char other[4096];
    snprintf(other, sizeof other, "%s.other", name);
    MPI_File_open(comm, name, mode, MPI_INFO_NULL, &first);
    MPI_File_open(comm, other, mode, MPI_INFO_NULL, &second);
    for (int i = 0; i < 10; i++) {
        EXPECT(MPI_File_write_shared(first, &one, 1, MPI_INT, MPI_STATUS_IGNORE) == MPI_SUCCESS);
        if (i % 2) EXPECT(MPI_File_write_shared(second, &one, 1, MPI_BYTE, MPI_STATUS_IGNORE) == MPI_SUCCESS);
    }
    MPI_Barrier(comm);
    EXPECT(position(first) == (MPI_Offset)all * 40 && position(second) == (MPI_Offset)all * 5);
    MPI_File_close(&first);
    MPI_File_close(&second);
}

static void work(MPI_Comm comm, const char *name) {
    MPI_File file;
    int *seen;
    MPI_Comm_rank(comm, &me);
    MPI_Comm_size(comm, &all);
    seed = 7u * me + 1;
    seen = calloc(all * RECORDS, sizeof(int));
    apart(comm, name);
    MPI_File_open(comm, name, MPI_MODE_RDWR | MPI_MODE_CREATE, MPI_INFO_NULL, &file);
    EXPECT(position(file) == 0);
    MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL);
    writes(comm, file, seen);
    reads(comm, file, seen);
    MPI_File_set_size(file, 0);
    MPI_File_close(&file);
    free(seen);
}

int main(int argc, char **argv) {
    int total = 0;
    MPI_Comm some, copy;
    begin(&argc, &argv);
    /* Again: what the first file leaves, the second finds. */
    for (int round = 0; round < 2; round++) work(MPI_COMM_WORLD, argv[1]);
    /* A part of the ranks, the last one first; gone before the end, as the copy is not. */
    MPI_Comm_split(MPI_COMM_WORLD, rank == 0 && size > 2, -rank, &some);
    if (rank > 0 || size <= 2) work(some, argv[1]);
    MPI_Comm_free(&some);
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    work(copy, argv[1]);
    MPI_Allreduce(&wrong, &total, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    say("%d wrong", wrong);
    finish();
    return total != 0;
}
