/* Programs that are legal and unusual, one function each: operations that start late on some ranks, or in another order; hints on some ranks only; handles that are
   freed early; counts and filetypes that cannot be. A failure is named by its line. */
#define _GNU_SOURCE
#include "log.h"
#include <dlfcn.h>
#include <stdint.h>
#include <sys/stat.h>
#include <unistd.h>

static char path[4000];
static int wrong;

#define CHECK(truth) do { if (!(truth)) { wrong++; fprintf(stderr, "rank %d, line %d: %s\n", rank, __LINE__, #truth); } } while (0)
#define OK(call) CHECK((call) == MPI_SUCCESS)

enum { BYTES = 20000 };

static MPI_File opened(const char *name, MPI_Info info) {
    char whole[4100];
    MPI_File file = MPI_FILE_NULL;
    snprintf(whole, sizeof whole, "%s-%s", path, name);
    OK(MPI_File_open(MPI_COMM_WORLD, whole, MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE, info, &file));
    return file;
}

static void fill(char *data, int seed) {
    for (int i = 0; i < BYTES; i++) data[i] = (char)(seed + rank * 7 + i);
}

/* What a rank wrote is there, in its own place. */
static void verify(MPI_File file, int seed) {
    static char back[BYTES], expected[BYTES];
    MPI_File_sync(file);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_File_sync(file);
    fill(expected, seed);
    memset(back, 0, sizeof back);
    OK(MPI_File_read_at(file, (MPI_Offset)rank * BYTES, back, BYTES, MPI_CHAR, MPI_STATUS_IGNORE));
    CHECK(memcmp(back, expected, BYTES) == 0);
}

static int class_of(int code) {
    int class = 0;
    if (code != MPI_SUCCESS) MPI_Error_class(code, &class);
    return code == MPI_SUCCESS ? MPI_SUCCESS : class;
}

/* The first rank starts and then sends what the others wait for before they start. */
static void late_start(void) {
    static char data[BYTES];
    MPI_File file = opened("late", MPI_INFO_NULL);
    const MPI_Offset place = (MPI_Offset)rank * BYTES;
    MPI_Request request;
    int token = 1, done = 0;
    for (int round = 0; round < 4; round++) {
        fill(data, round);
        if (rank > 0) MPI_Recv(&token, 1, MPI_INT, rank - 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        OK(MPI_File_iwrite_at_all(file, place, data, BYTES, MPI_CHAR, &request));
        if (rank + 1 < size) MPI_Send(&token, 1, MPI_INT, rank + 1, 1, MPI_COMM_WORLD);
        if (round % 2) {
            for (done = 0; !done;) OK(MPI_Test(&request, &done, MPI_STATUS_IGNORE));
        } else {
            OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        }
        verify(file, round);
    }
    OK(MPI_File_close(&file));
}

/* The same with the split form. */
static void late_begin(void) {
    static char data[BYTES];
    MPI_File file = opened("split", MPI_INFO_NULL);
    int token = 1;
    fill(data, 5);
    MPI_File_seek(file, (MPI_Offset)rank * BYTES, MPI_SEEK_SET);
    if (rank > 0) MPI_Recv(&token, 1, MPI_INT, rank - 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    OK(MPI_File_write_all_begin(file, data, BYTES, MPI_CHAR));
    if (rank + 1 < size) MPI_Send(&token, 1, MPI_INT, rank + 1, 2, MPI_COMM_WORLD);
    OK(MPI_File_write_all_end(file, data, MPI_STATUS_IGNORE));
    verify(file, 5);
    MPI_File_set_view(file, 0, MPI_CHAR, MPI_CHAR, "native", MPI_INFO_NULL);
    OK(MPI_File_write_ordered_begin(file, data, BYTES, MPI_CHAR));
    OK(MPI_File_write_ordered_end(file, data, MPI_STATUS_IGNORE));
    verify(file, 5);
    OK(MPI_File_close(&file));
}

/* Two files, whose operations start and end in different orders on different ranks. */
static void different_orders(void) {
    static char data[2][BYTES];
    MPI_File files[2] = {opened("one", MPI_INFO_NULL), opened("two", MPI_INFO_NULL)};
    MPI_Request requests[2];
    for (int round = 0; round < 3; round++) {
        for (int turn = 0; turn < 2; turn++) {
            const int which = (rank + turn) % 2;
            fill(data[which], 10 * round + which);
            OK(MPI_File_iwrite_at_all(files[which], (MPI_Offset)rank * BYTES, data[which], BYTES, MPI_CHAR, &requests[which]));
        }
        if (round == 0) {
            OK(MPI_Wait(&requests[rank / 2 % 2], MPI_STATUS_IGNORE));
            OK(MPI_Wait(&requests[1 - rank / 2 % 2], MPI_STATUS_IGNORE));
        } else if (round == 1) {
            OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
        } else {
            int index = 0, count = 0, indices[2];
            OK(MPI_Waitany(2, requests, &index, MPI_STATUS_IGNORE));
            CHECK(index == 0 || index == 1);
            OK(MPI_Waitsome(2, requests, &count, indices, MPI_STATUSES_IGNORE));
            CHECK(count == 1 && indices[0] == 1 - index);
        }
        verify(files[0], 10 * round);
        verify(files[1], 10 * round + 1);
    }
    OK(MPI_File_close(&files[0]));
    OK(MPI_File_close(&files[1]));
}

/* One rank waits for the operation, the others for something else of MPI's first, and the operation needs all of them. */
static void waits_elsewhere(void) {
    static char data[BYTES], other[BYTES];
    MPI_File file = opened("elsewhere", MPI_INFO_NULL), second = opened("second", MPI_INFO_NULL);
    const MPI_Offset place = (MPI_Offset)rank * BYTES;
    MPI_Request request, message;
    int token = 0, sum = 0;
    for (int round = 0; round < 5; round++) {
        fill(data, 40 + round);
        OK(MPI_File_iwrite_at_all(file, place, data, BYTES, MPI_CHAR, &request));
        if (rank == 0) {
            OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
            if (round == 0) for (int to = 1; to < size; to++) MPI_Send(&token, 1, MPI_INT, to, 3, MPI_COMM_WORLD);
            if (round == 1) for (int to = 1; to < size; to++) MPI_Send(&token, 1, MPI_INT, to, 3, MPI_COMM_WORLD);
        } else if (round == 0) {
            MPI_Recv(&token, 1, MPI_INT, 0, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else if (round == 1) {
            MPI_Irecv(&token, 1, MPI_INT, 0, 3, MPI_COMM_WORLD, &message);
            MPI_Wait(&message, MPI_STATUS_IGNORE);
        }
        if (round == 2) MPI_Barrier(MPI_COMM_WORLD);
        if (round == 3) MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        /* A blocking operation on another file, which the first rank comes to last. */
        if (round == 4) {
            fill(other, 60);
            OK(MPI_File_write_at_all(second, place, other, BYTES, MPI_CHAR, MPI_STATUS_IGNORE));
            verify(second, 60);
        }
        if (rank != 0) OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        verify(file, 40 + round);
    }
    OK(MPI_File_close(&second));
    OK(MPI_File_close(&file));
}

/* A request that is freed takes place; closing the file waits for it. Many at once are done in order. */
static void freed_and_many(void) {
    static char data[8][BYTES];
    MPI_File file = opened("many", MPI_INFO_NULL);
    MPI_Request requests[8], freed;
    MPI_Status statuses[8];
    int count = 0, done = 0;
    for (int i = 0; i < 8; i++) {
        fill(data[i], i);
        OK(MPI_File_iwrite_at_all(file, (MPI_Offset)rank * BYTES, data[i], BYTES, MPI_CHAR, &requests[i]));
    }
    while (!done) OK(MPI_Testall(8, requests, &done, statuses));
    MPI_Get_count(&statuses[7], MPI_CHAR, &count);
    CHECK(count == BYTES);
    verify(file, 7);
    fill(data[0], 90);
    OK(MPI_File_iwrite_at_all(file, (MPI_Offset)rank * BYTES, data[0], BYTES, MPI_CHAR, &freed));
    OK(MPI_Request_free(&freed));
    verify(file, 90);
    OK(MPI_File_close(&file));
}

/* Hints on some ranks only, and different ones; those of rank 0 hold. One without a handle fails on all ranks. */
static void hints_that_vary(void) {
    MPI_Info own, held;
    char value[64] = "";
    int flag = 0;
    MPI_Info_create(&own);
    MPI_Info_set(own, "cb_buffer_size", rank == 0 ? "16MiB" : "4096");
    for (int round = 0; round < 3; round++) {
        const int gives = round == 0 ? rank == 0 : round == 1 ? rank != 0 : 1;
        MPI_File file = opened("hints", gives ? own : MPI_INFO_NULL);
        OK(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", gives ? own : MPI_INFO_NULL));
        OK(MPI_File_set_info(file, gives ? own : MPI_INFO_NULL));
        OK(MPI_File_get_info(file, &held));
        MPI_Info_get(held, "cb_buffer_size", 63, value, &flag);
        CHECK(flag && strcmp(value, round == 1 ? "4194304" : "16777216") == 0);
        MPI_Info_free(&held);
        if (size > 1) {
            const MPI_Info none = (MPI_Info)(intptr_t)0;
            CHECK(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", rank == size - 1 ? none : own) != MPI_SUCCESS);
            CHECK(MPI_File_set_info(file, rank == size - 1 ? none : own) != MPI_SUCCESS);
            CHECK(MPI_File_set_view(file, 0, rank == 0 ? MPI_DATATYPE_NULL : MPI_BYTE, MPI_BYTE, "native", own) != MPI_SUCCESS);
        }
        OK(MPI_File_close(&file));
    }
    if (size > 1) {
        const MPI_Info none = (MPI_Info)(intptr_t)0;
        MPI_File file = MPI_FILE_NULL;
        const int mode = MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE;
        CHECK(MPI_File_open(MPI_COMM_WORLD, path, mode, rank == size - 1 ? none : own, &file) != MPI_SUCCESS);
        CHECK(file == MPI_FILE_NULL);
    }
    MPI_Info_free(&own);
}

/* The communicator, the datatypes and the hints are freed while the file is open. */
static void freed_early(void) {
    static char data[BYTES], back[BYTES];
    char whole[4100];
    for (int round = 0; round < 3; round++) {
        MPI_Comm part;
        MPI_Datatype pair;
        MPI_Request request;
        MPI_File file;
        int place;
        MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &part);
        MPI_Comm_rank(part, &place);
        snprintf(whole, sizeof whole, "%s-part-%d", path, rank % 2);
        OK(MPI_File_open(part, whole, MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, &file));
        MPI_Type_contiguous(2, MPI_CHAR, &pair);
        MPI_Type_commit(&pair);
        OK(MPI_File_set_view(file, 0, pair, pair, "native", MPI_INFO_NULL));
        MPI_Comm_free(&part);
        fill(data, round);
        OK(MPI_File_iwrite_at_all(file, (MPI_Offset)place * BYTES / 2, data, BYTES / 2, pair, &request));
        MPI_Type_free(&pair);
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        OK(MPI_File_sync(file));
        OK(MPI_File_read_at(file, (MPI_Offset)place * BYTES / 2, back, BYTES, MPI_CHAR, MPI_STATUS_IGNORE));
        CHECK(memcmp(data, back, BYTES) == 0);
        OK(MPI_File_close(&file));
    }
}

static int wide_extent(MPI_Datatype type, MPI_Aint *extent, void *state) {
    (void)type, (void)state;
    *extent = (MPI_Aint)1 << 40;
    return MPI_SUCCESS;
}

static int no_conversion(void *user, MPI_Datatype type, int count, void *file, MPI_Offset place, void *state) {
    (void)user, (void)type, (void)place, (void)state;
    memset(file, 0x5a, (size_t)count);
    return MPI_SUCCESS;
}

typedef int (*WriteLarge)(MPI_File, const void *, int64_t, MPI_Datatype, MPI_Status *);
typedef int (*WriteLargeAt)(MPI_File, MPI_Offset, const void *, int64_t, MPI_Datatype, MPI_Status *);

/* Numbers of elements whose bytes no memory and no file has. */
static void counts_that_overflow(void) {
    static double few[4];
    static int registered;
    MPI_File file = opened("counts", MPI_INFO_NULL);
    const WriteLarge write_large = (WriteLarge)dlsym(RTLD_DEFAULT, "MPI_File_write_c");
    const WriteLargeAt write_large_at = (WriteLargeAt)dlsym(RTLD_DEFAULT, "MPI_File_write_at_all_c");
    MPI_Datatype apart;
    MPI_Offset bytes = -1;
    int code;
    MPI_Type_vector(2, 1, 3, MPI_DOUBLE, &apart);
    MPI_Type_commit(&apart);
    for (int shift = 60; shift < 63; shift++) {
        code = class_of(write_large(file, few, (int64_t)1 << shift, MPI_DOUBLE, MPI_STATUS_IGNORE));
        CHECK(code == MPI_ERR_COUNT || code == MPI_ERR_ARG);
        code = class_of(write_large(file, few, (int64_t)1 << shift, apart, MPI_STATUS_IGNORE));
        CHECK(code == MPI_ERR_COUNT || code == MPI_ERR_ARG);
        code = class_of(write_large_at(file, 8, few, (int64_t)1 << shift, MPI_DOUBLE, MPI_STATUS_IGNORE));
        CHECK(code == MPI_ERR_COUNT || code == MPI_ERR_ARG);
    }
    code = class_of(MPI_File_write_at(file, INT64_MAX - 3, few, 4, MPI_DOUBLE, MPI_STATUS_IGNORE));
    CHECK(code == MPI_ERR_ARG);
    CHECK(MPI_File_set_view(file, -1, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL) != MPI_SUCCESS);
    OK(MPI_File_set_view(file, INT64_MAX - 8, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
    CHECK(MPI_File_write_at(file, 0, few, 32, MPI_BYTE, MPI_STATUS_IGNORE) != MPI_SUCCESS);
    if (!registered) {
        OK(MPI_Register_datarep("wide", no_conversion, no_conversion, wide_extent, NULL));
        registered = 1;
    }
    OK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "wide", MPI_INFO_NULL));
    code = class_of(MPI_File_write(file, few, 1 << 24, MPI_INT, MPI_STATUS_IGNORE));
    CHECK(code == MPI_ERR_COUNT || code == MPI_ERR_ARG);
    code = class_of(MPI_File_write_at_all(file, 0, few, 1 << 24, MPI_INT, MPI_STATUS_IGNORE));
    CHECK(code == MPI_ERR_COUNT || code == MPI_ERR_ARG);
    OK(MPI_File_get_size(file, &bytes));
    CHECK(bytes == 0);
    MPI_Type_free(&apart);
    OK(MPI_File_close(&file));
}

/* Filetypes that cannot be one are errors of I/O; a file that may only be written is. */
static void filetypes_and_permissions(void) {
    char whole[4100];
    const int lengths[2] = {1, 1}, decreasing[2] = {4, 1}, negative[2] = {-2, 3};
    MPI_File file = opened("types", MPI_INFO_NULL);
    MPI_Datatype type;
    for (int which = 0; which < 2; which++) {
        MPI_Type_indexed(2, lengths, which ? negative : decreasing, MPI_INT, &type);
        MPI_Type_commit(&type);
        CHECK(class_of(MPI_File_set_view(file, 0, MPI_INT, type, "native", MPI_INFO_NULL)) == MPI_ERR_IO);
        MPI_Type_free(&type);
    }
    OK(MPI_File_close(&file));
    snprintf(whole, sizeof whole, "%s-0200", path);
    if (rank == 0) {
        FILE *made = fopen(whole, "w");
        if (made) fclose(made);
        CHECK(chmod(whole, 0200) == 0);
        if (geteuid() == 0) CHECK(chown(whole, 65534, 65534) == 0);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    const int is_root = geteuid() == 0;
    if (is_root) CHECK(seteuid(65534) == 0);
    MPI_Type_vector(4, 1, size, MPI_INT, &type);
    MPI_Type_commit(&type);
    const int data[4] = {rank, rank, rank, rank};
    OK(MPI_File_open(MPI_COMM_WORLD, whole, MPI_MODE_WRONLY, MPI_INFO_NULL, &file));
    if (is_root) CHECK(seteuid(0) == 0);
    OK(MPI_File_set_view(file, 4 * rank, MPI_INT, type, "native", MPI_INFO_NULL));
    OK(MPI_File_write_all(file, data, 4, MPI_INT, MPI_STATUS_IGNORE));
    OK(MPI_File_write_at(file, 0, data, 2, MPI_INT, MPI_STATUS_IGNORE));
    OK(MPI_File_close(&file));
    MPI_Type_free(&type);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) CHECK(unlink(whole) == 0);
}

int main(int argc, char **argv) {
    static const struct {
        char letter;
        void (*scenario)(void);
    } all[] = {{'l', late_start}, {'b', late_begin}, {'o', different_orders}, {'w', waits_elsewhere}, {'m', freed_and_many},
               {'h', hints_that_vary}, {'e', freed_early}, {'c', counts_that_overflow}, {'f', filetypes_and_permissions}};
    const char *letters = argc > 2 ? argv[2] : "lbowmhecf";
    begin(&argc, &argv);
    strncpy(path, argv[1], sizeof path - 1);
    for (; *letters; letters++)
        for (size_t i = 0; i < sizeof all / sizeof *all; i++)
            if (all[i].letter == *letters) {
                if (getenv("SHOW_SCENARIOS")) fprintf(stderr, "rank %d: scenario %c\n", rank, *letters);
                all[i].scenario();
            }
    say("wrong %d", wrong);
    finish();
    return wrong != 0;
}
