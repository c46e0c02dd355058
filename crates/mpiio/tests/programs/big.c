/* More than 2 GiB in one call, by large counts and by derived datatypes, and places far behind 4 GiB. The memory is one small piece that is
   mapped over and over. Checks itself; one rank moves much, all ranks reach far. */
#define _GNU_SOURCE
#include "log.h"
#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

static int wrong;

#define CHECK(condition) do { if (!(condition)) { wrong++; say("line %d: %s", __LINE__, #condition); } } while (0)
#define PIECE ((size_t)16 << 20)
#define PARTS 3
#define PART 715830000L
#define TOTAL (PARTS * PART)
#define FAR (((MPI_Offset)1 << 32) + 7)

typedef int (*Large)(MPI_File, MPI_Offset, void *, MPI_Count, MPI_Datatype, MPI_Status *);

/* Older headers lack these. */
static Large large(const char *name) {
    return (Large)dlsym(RTLD_DEFAULT, name);
}

/* Room for TOTAL bytes, all of it the same piece. */
static char *mapped(char **piece) {
    int memory = memfd_create("piece", 0);
    size_t room = (TOTAL + PIECE - 1) / PIECE * PIECE, at;
    char *whole = mmap(NULL, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (ftruncate(memory, PIECE) || whole == MAP_FAILED) abort();
    for (at = 0; at < room; at += PIECE)
        if (mmap(whole + at, PIECE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, memory, 0) == MAP_FAILED) abort();
    *piece = whole;
    return whole;
}

static void fill(char *piece) {
    size_t i;
    for (i = 0; i < PIECE; i++) piece[i] = (char)(i * 2654435761UL >> 13);
}

static MPI_Count bytes_of(MPI_Status *status) {
    MPI_Count count = -1;
    MPI_Get_elements_x(status, MPI_BYTE, &count);
    return count;
}

static void much(const char *path) {
    MPI_File file;
    MPI_Status status;
    MPI_Datatype part;
    MPI_Request request;
    MPI_Offset length = 0;
    char *piece, *memory = mapped(&piece);
    unsigned long before, cut;
    int count = 0;
    fill(piece);
    before = digest(piece, PIECE);
    CHECK(MPI_File_open(MPI_COMM_SELF, path, MPI_MODE_RDWR | MPI_MODE_CREATE, MPI_INFO_NULL, &file) == MPI_SUCCESS);
    CHECK(large("MPI_File_write_at_c")(file, FAR, memory, TOTAL, MPI_BYTE, &status) == MPI_SUCCESS);
    CHECK(bytes_of(&status) == TOTAL);
    MPI_Get_count(&status, MPI_BYTE, &count);
    CHECK(count == MPI_UNDEFINED);
    MPI_File_get_size(file, &length);
    CHECK(length == FAR + TOTAL);
    /* A derived datatype, a few of them: back as it was. */
    MPI_Type_contiguous(PART, MPI_BYTE, &part);
    MPI_Type_commit(&part);
    memset(piece, 0, PIECE);
    CHECK(MPI_File_read_at_all(file, FAR, memory, PARTS, part, &status) == MPI_SUCCESS);
    CHECK(bytes_of(&status) == TOTAL && digest(piece, PIECE) == before);
    MPI_Get_count(&status, part, &count);
    CHECK(count == PARTS);
    /* Without waiting, and beyond the end: what is there is counted. */
    memset(piece, 0, PIECE);
    CHECK(MPI_File_iread_at(file, FAR + PIECE, memory, PARTS, part, &request) == MPI_SUCCESS);
    CHECK(MPI_Wait(&request, &status) == MPI_SUCCESS);
    CHECK(bytes_of(&status) == TOTAL - (MPI_Count)PIECE);
    cut = digest(piece, PIECE);
    CHECK(cut == before);
    MPI_Type_free(&part);
    MPI_File_close(&file);
    MPI_File_delete(path, MPI_INFO_NULL);
}

/* Every rank has a few numbers, gigabytes apart. */
static void far(const char *path) {
    MPI_File file;
    MPI_Datatype apart;
    MPI_Status status;
    MPI_Aint places[3] = {0, (MPI_Aint)3 << 30, (MPI_Aint)5 << 30};
    MPI_Offset byte = 0, length = 0;
    int lengths[3] = {2, 1, 1}, out[8], in[8], i;
    for (i = 0; i < 8; i++) out[i] = 10 * rank + i;
    MPI_Type_create_hindexed(3, lengths, places, MPI_INT, &apart);
    MPI_Type_create_resized(apart, 0, (MPI_Aint)6 << 30, &apart);
    MPI_Type_commit(&apart);
    MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDWR | MPI_MODE_CREATE, MPI_INFO_NULL, &file);
    CHECK(MPI_File_set_view(file, 8 * rank, MPI_INT, apart, "native", MPI_INFO_NULL) == MPI_SUCCESS);
    CHECK(MPI_File_write_all(file, out, 8, MPI_INT, &status) == MPI_SUCCESS && bytes_of(&status) == 32);
    MPI_File_get_byte_offset(file, 7, &byte);
    CHECK(byte == 8 * rank + ((MPI_Offset)11 << 30));
    MPI_File_sync(file);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_File_sync(file);
    memset(in, 0, sizeof in);
    CHECK(MPI_File_read_at_all(file, 0, in, 8, MPI_INT, &status) == MPI_SUCCESS && !memcmp(in, out, sizeof in));
    MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL);
    CHECK(MPI_File_read_at(file, 8 * rank + ((MPI_Offset)11 << 30), in, 1, MPI_INT, &status) == MPI_SUCCESS && in[0] == out[7]);
    MPI_File_get_size(file, &length);
    CHECK(length == 8 * (size - 1) + ((MPI_Offset)11 << 30) + 4);
    MPI_Type_free(&apart);
    MPI_File_close(&file);
}

int main(int argc, char **argv) {
    int all = 0;
    begin(&argc, &argv);
    if (size == 1) much(argv[1]);
    far(argv[1]);
    MPI_File_delete(argv[1], MPI_INFO_NULL);
    MPI_Allreduce(&wrong, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    say("%d wrong", wrong);
    finish();
    return all != 0;
}
