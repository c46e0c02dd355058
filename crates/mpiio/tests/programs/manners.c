/* What public test families look at besides data: counts in statuses, errors by class, opening modes, hints, atomic mode, shared and ordered
   pointers, representations, positions. Natively and with the preloaded library the same is printed. */
#include "log.h"

static char path[4096];

static void told(const char *what, int code, MPI_Status *status) {
    int count = -9, elements = -9;
    MPI_Get_count(status, MPI_INT, &count);
    MPI_Get_elements(status, MPI_INT, &elements);
    say("%s: %s, %d, %d", what, class_name(code), count, elements);
}

static MPI_File opened(int amode) {
    MPI_File file;
    int code = MPI_File_open(MPI_COMM_WORLD, path, amode, MPI_INFO_NULL, &file);
    if (code) say("open: %s", class_name(code));
    return file;
}

static void settle(MPI_File file) {
    MPI_File_sync(file);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_File_sync(file);
}

/* Counts at the end of the file, whichever way it is read. */
static void ends(void) {
    MPI_File file = opened(MPI_MODE_RDWR | MPI_MODE_CREATE);
    int data[64] = {0}, in[64], i;
    MPI_Status status;
    MPI_Request request;
    MPI_Offset place;
    memset(&status, 0, sizeof status);
    for (i = 0; i < 64; i++) data[i] = 64 * rank + i;
    MPI_File_set_size(file, 0);
    told("write_at_all", MPI_File_write_at_all(file, rank * 40, data, 10, MPI_INT, &status), &status);
    settle(file);
    told("whole", MPI_File_read_at(file, 0, in, 10 * size, MPI_INT, &status), &status);
    told("past the end", MPI_File_read_at(file, 40 * size - 8, in, 10, MPI_INT, &status), &status);
    told("at the end", MPI_File_read_at(file, 40 * size, in, 10, MPI_INT, &status), &status);
    told("behind the end", MPI_File_read_at(file, 40 * size + 4000, in, 10, MPI_INT, &status), &status);
    told("nothing", MPI_File_read_at(file, 0, in, 0, MPI_INT, &status), &status);
    told("nothing, all", MPI_File_read_at_all(file, 0, NULL, 0, MPI_INT, &status), &status);
    MPI_File_iread_at(file, 40 * size - 12, in, 10, MPI_INT, &request);
    told("past the end, request", MPI_Wait(&request, &status), &status);
    MPI_File_seek(file, -16, MPI_SEEK_END);
    told("past the end, pointer", MPI_File_read(file, in, 4, MPI_INT, &status), &status);
    MPI_File_get_position(file, &place);
    say("position %ld", (long)place);
    MPI_Barrier(MPI_COMM_WORLD);
    told("write at the end", MPI_File_write_at(file, 40 * size + 4 * rank, data, 1, MPI_INT, &status), &status);
    settle(file);
    MPI_File_get_size(file, &place);
    say("size %ld", (long)place);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_File_close(&file);
}

/* Positions count elements of the view. */
static void positions(void) {
    MPI_File file = opened(MPI_MODE_RDWR | MPI_MODE_CREATE);
    MPI_Datatype pair, apart;
    MPI_Offset place, byte;
    MPI_Aint extent;
    MPI_Status status;
    int data[16] = {0};
    memset(&status, 0, sizeof status);
    MPI_Type_contiguous(2, MPI_INT, &pair);
    MPI_Type_vector(2, 1, 3, pair, &apart);
    MPI_Type_commit(&pair);
    MPI_Type_commit(&apart);
    MPI_File_set_size(file, 400);
    MPI_File_set_view(file, 20, pair, apart, "native", MPI_INFO_NULL);
    told("write", MPI_File_write(file, data, 6, MPI_INT, &status), &status);
    MPI_File_get_position(file, &place);
    say("position %ld", (long)place);
    for (place = 0; place < 6; place++) {
        MPI_File_get_byte_offset(file, place, &byte);
        say("element %ld at %ld", (long)place, (long)byte);
    }
    MPI_File_seek(file, 2, MPI_SEEK_SET);
    MPI_File_seek(file, 3, MPI_SEEK_CUR);
    MPI_File_get_position(file, &place);
    say("seek to %ld", (long)place);
    say("before the start: %d", MPI_File_seek(file, -9, MPI_SEEK_CUR) != MPI_SUCCESS);
    MPI_File_get_position(file, &place);
    say("still at %ld", (long)place);
    say("type extent: %s", class_name(MPI_File_get_type_extent(file, apart, &extent)));
    say("extent %ld", (long)extent);
    MPI_Type_free(&apart);
    MPI_Type_free(&pair);
    MPI_File_close(&file);
}

/* All ranks with different amounts, some with none. */
static void ordered(void) {
    MPI_File file = opened(MPI_MODE_RDWR | MPI_MODE_CREATE);
    int data[8], in[8], i, round;
    MPI_Status status;
    MPI_Offset place;
    memset(&status, 0, sizeof status);
    for (i = 0; i < 8; i++) data[i] = 100 * rank + i;
    MPI_File_set_size(file, 0);
    MPI_File_set_view(file, 12, MPI_INT, MPI_INT, "native", MPI_INFO_NULL);
    for (round = 0; round < 3; round++)
        told("write_ordered", MPI_File_write_ordered(file, data, (rank + round) % 3, MPI_INT, &status), &status);
    settle(file);
    MPI_File_get_position_shared(file, &place);
    say("shared at %ld", (long)place);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_File_seek_shared(file, 0, MPI_SEEK_SET);
    for (round = 0; round < 3; round++) {
        memset(in, 0xff, sizeof in);
        told("read_ordered", MPI_File_read_ordered(file, in, (rank + round) % 3, MPI_INT, &status), &status);
        say("read %d %d", in[0], in[1]);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_File_seek_shared(file, -1, MPI_SEEK_END);
    MPI_File_get_position_shared(file, &place);
    say("last at %ld", (long)place);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_File_close(&file);
}

/* A header of all ranks in turn, then data behind it, from where the shared pointer is. */
static void sequential(void) {
    MPI_File file;
    int data[4] = {rank, -rank, 7, 8}, in[4] = {0};
    MPI_Status status;
    MPI_Offset byte = -1;
    memset(&status, 0, sizeof status);
    if (rank == 0) MPI_File_delete(path, MPI_INFO_NULL);
    MPI_Barrier(MPI_COMM_WORLD);
    file = opened(MPI_MODE_WRONLY | MPI_MODE_CREATE | MPI_MODE_SEQUENTIAL);
    told("header", MPI_File_write_ordered(file, data, 1, MPI_INT, &status), &status);
    MPI_File_set_view(file, MPI_DISPLACEMENT_CURRENT, MPI_INT, MPI_INT, "native", MPI_INFO_NULL);
    told("body", MPI_File_write_ordered(file, data, 4, MPI_INT, &status), &status);
    MPI_File_close(&file);
    file = opened(MPI_MODE_RDONLY);
    told("header", MPI_File_read_at_all(file, 4 * rank, in, 1, MPI_INT, &status), &status);
    say("read %d", in[0]);
    told("body", MPI_File_read_at_all(file, 4 * size + 16 * rank, in, 4, MPI_INT, &status), &status);
    say("read %d %d %d", in[0], in[1], in[3]);
    MPI_File_get_byte_offset(file, 5, &byte);
    say("byte %ld", (long)byte);
    MPI_File_close(&file);
}

/* Opening what cannot be. */
static void opening(void) {
    MPI_File file;
    MPI_Info info;
    int code, amode = 0, flag = 0, keys = -1;
    char other[4200], value[MPI_MAX_INFO_VAL + 1] = "";
    MPI_Group of_file, of_world;
    snprintf(other, sizeof other, "%s.other", path);
    code = MPI_File_open(MPI_COMM_WORLD, other, MPI_MODE_RDONLY, MPI_INFO_NULL, &file);
    say("nothing there: %s", class_name(code));
    code = MPI_File_open(MPI_COMM_WORLD, other, MPI_MODE_RDONLY | MPI_MODE_CREATE, MPI_INFO_NULL, &file);
    say("create to read: %s", class_name(code));
    code = MPI_File_open(MPI_COMM_WORLD, other, MPI_MODE_RDWR | MPI_MODE_WRONLY, MPI_INFO_NULL, &file);
    say("two modes: %s", class_name(code));
    code = MPI_File_open(MPI_COMM_WORLD, other, MPI_MODE_RDWR | MPI_MODE_SEQUENTIAL, MPI_INFO_NULL, &file);
    say("sequential, both ways: %s", class_name(code));
    code = MPI_File_open(MPI_COMM_WORLD, "/nonexistent/folder/file", MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
    say("no folder: %s", class_name(code));
    code = MPI_File_open(MPI_COMM_WORLD, other, MPI_MODE_CREATE | MPI_MODE_EXCL | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
    say("exclusive: %s", class_name(code));
    MPI_File_get_amode(file, &amode);
    say("amode %d", amode == (MPI_MODE_CREATE | MPI_MODE_EXCL | MPI_MODE_RDWR));
    MPI_File_get_group(file, &of_file);
    MPI_Comm_group(MPI_COMM_WORLD, &of_world);
    MPI_Group_compare(of_file, of_world, &flag);
    say("group %d", flag == MPI_IDENT);
    MPI_Group_free(&of_file);
    MPI_Group_free(&of_world);
    MPI_File_close(&file);
    code = MPI_File_open(MPI_COMM_WORLD, other, MPI_MODE_CREATE | MPI_MODE_EXCL | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
    say("exclusive again: %s", class_name(code));
    MPI_Info_create(&info);
    MPI_Info_set(info, "cb_buffer_size", "131072");
    MPI_Info_set(info, "nobody_knows", "this");
    code = MPI_File_open(MPI_COMM_WORLD, other, MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, info, &file);
    MPI_Info_free(&info);
    say("with hints: %s, get %s", class_name(code), class_name(MPI_File_get_info(file, &info)));
    MPI_Info_get_nkeys(info, &keys);
    MPI_Info_get(info, "cb_buffer_size", MPI_MAX_INFO_VAL, value, &flag);
    say("hints %d, buffer %s", keys > 0, flag ? value : "unknown");
    MPI_Info_free(&info);
    say("set no hints: %s", class_name(MPI_File_set_info(file, MPI_INFO_NULL)));
    say("close %s", class_name(MPI_File_close(&file)));
    code = MPI_File_open(MPI_COMM_WORLD, other, MPI_MODE_RDONLY, MPI_INFO_NULL, &file);
    say("deleted on close: %s", class_name(code));
    say("delete nothing: %s", class_name(MPI_File_delete(other, MPI_INFO_NULL)));
}

/* One rank writes where all others read, again and again: each read sees all of a write or nothing. */
static void atomic(void) {
    MPI_File file = opened(MPI_MODE_RDWR | MPI_MODE_CREATE);
    enum { MANY = 3000 };
    static int data[MANY], in[MANY];
    int round, i, torn = 0, flag = -1;
    MPI_Datatype holes;
    MPI_File_set_size(file, 0);
    MPI_File_set_size(file, 2 * sizeof data);
    MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL);
    say("set_atomicity %s", class_name(MPI_File_set_atomicity(file, 1)));
    MPI_File_get_atomicity(file, &flag);
    say("atomic %d", flag);
    MPI_Type_vector(MANY, 1, 2, MPI_INT, &holes);
    MPI_Type_commit(&holes);
    for (round = 0; round < 6; round++) {
        if (round == 3) MPI_File_set_view(file, 0, MPI_INT, holes, "native", MPI_INFO_NULL);
        for (i = 0; i < MANY; i++) data[i] = 0;
        if (rank == 0) MPI_File_write_at(file, 0, data, MANY, MPI_INT, MPI_STATUS_IGNORE);
        MPI_Barrier(MPI_COMM_WORLD);
        for (i = 0; i < MANY; i++) data[i] = 10 + round;
        if (rank == 0) MPI_File_write_at(file, 0, data, MANY, MPI_INT, MPI_STATUS_IGNORE);
        else {
            MPI_File_read_at(file, 0, in, MANY, MPI_INT, MPI_STATUS_IGNORE);
            for (i = 1; i < MANY; i++) torn += in[i] != in[0];
            torn += in[0] != 0 && in[0] != 10 + round;
        }
        MPI_Barrier(MPI_COMM_WORLD);
    }
    say("torn %d", torn);
    MPI_Type_free(&holes);
    MPI_File_close(&file);
}

/* Numbers of several kinds in one structure, as external32 has them. */
static void portable(void) {
    MPI_File file = opened(MPI_MODE_RDWR | MPI_MODE_CREATE);
    struct { int number; float real; double wide; short little[2]; } one = {rank + 1, 0.5f + rank, -2.25 * rank, {7, -8}}, back;
    int lengths[4] = {1, 1, 1, 2};
    MPI_Aint places[4] = {0, 4, 8, 16};
    MPI_Datatype types[4] = {MPI_INT, MPI_FLOAT, MPI_DOUBLE, MPI_SHORT}, packed, memory;
    unsigned char raw[20], expected[20] = {[17] = 7, [18] = 0xff, [19] = 0xf8};
    int i;
    MPI_Status status;
    memset(&status, 0, sizeof status);
    memset(&back, 0, sizeof back);
    MPI_File_set_size(file, 0);
    MPI_Type_create_struct(4, lengths, places, types, &packed);
    MPI_Type_create_resized(packed, 0, sizeof one, &memory);
    MPI_Type_free(&packed);
    MPI_Type_commit(&memory);
    say("set_view %s", class_name(MPI_File_set_view(file, 20 * rank, MPI_BYTE, MPI_BYTE, "external32", MPI_INFO_NULL)));
    say("write %s", class_name(MPI_File_write_at_all(file, 0, &one, 1, memory, &status)));
    settle(file);
    say("read %s", class_name(MPI_File_read_at_all(file, 0, &back, 1, memory, &status)));
    say("back %d %g %g %d %d", back.number, back.real, back.wide, back.little[0], back.little[1]);
    MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL);
    MPI_File_read_at(file, 20 * rank, raw, 20, MPI_BYTE, &status);
    expected[3] = (unsigned char)(rank + 1);
    for (i = 0; i < 4; i++) expected[4 + i] = ((unsigned char *)&one.real)[3 - i];
    for (i = 0; i < 8; i++) expected[8 + i] = ((unsigned char *)&one.wide)[7 - i];
    say("big-endian %d", !memcmp(raw, expected, 20));
    MPI_Type_free(&memory);
    MPI_File_close(&file);
}

/* As IOR and HACC-IO do: segments of blocks of transfers; several variables one behind the other. */
static void applications(void) {
    MPI_File file = opened(MPI_MODE_RDWR | MPI_MODE_CREATE);
    enum { TRANSFER = 256, TRANSFERS = 4, SEGMENTS = 3, PARTICLES = 37, VARIABLES = 9 };
    char data[TRANSFER], in[TRANSFER];
    float variable[PARTICLES], seen[PARTICLES];
    int segment, transfer, bad = 0, v, collective, i;
    MPI_Offset base = (MPI_Offset)SEGMENTS * size * TRANSFERS * TRANSFER;
    for (collective = 0; collective < 2; collective++) {
        for (segment = 0; segment < SEGMENTS; segment++)
            for (transfer = 0; transfer < TRANSFERS; transfer++) {
                MPI_Offset at = ((MPI_Offset)(segment * size + rank) * TRANSFERS + transfer) * TRANSFER;
                memset(data, segment * 16 + transfer * 4 + rank + collective, sizeof data);
                if (collective) MPI_File_write_at_all(file, at, data, TRANSFER, MPI_BYTE, MPI_STATUS_IGNORE);
                else MPI_File_write_at(file, at, data, TRANSFER, MPI_BYTE, MPI_STATUS_IGNORE);
            }
        settle(file);
        for (segment = 0; segment < SEGMENTS; segment++)
            for (transfer = 0; transfer < TRANSFERS; transfer++) {
                int other = (rank + 1) % size;
                MPI_Offset at = ((MPI_Offset)(segment * size + other) * TRANSFERS + transfer) * TRANSFER;
                if (collective) MPI_File_read_at_all(file, at, in, TRANSFER, MPI_BYTE, MPI_STATUS_IGNORE);
                else MPI_File_read_at(file, at, in, TRANSFER, MPI_BYTE, MPI_STATUS_IGNORE);
                bad += in[0] != (char)(segment * 16 + transfer * 4 + other + collective) || in[0] != in[TRANSFER - 1];
            }
        MPI_Barrier(MPI_COMM_WORLD);
    }
    for (v = 0; v < VARIABLES; v++) {
        for (i = 0; i < PARTICLES; i++) variable[i] = v + rank * 0.25f + i;
        MPI_File_write_at(file, base + ((MPI_Offset)v * size + rank) * sizeof variable, variable, PARTICLES, MPI_FLOAT, MPI_STATUS_IGNORE);
    }
    settle(file);
    for (v = 0; v < VARIABLES; v++) {
        MPI_File_read_at(file, base + ((MPI_Offset)v * size + rank) * sizeof variable, seen, PARTICLES, MPI_FLOAT, MPI_STATUS_IGNORE);
        for (i = 0; i < PARTICLES; i++) bad += seen[i] != v + rank * 0.25f + i;
    }
    say("bad %d", bad);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_File_close(&file);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    snprintf(path, sizeof path, "%s", argv[1]);
    /* All parts, or those that a letter of the second argument names. */
    struct { char letter; void (*part)(void); } parts[] = {{'e', ends}, {'p', positions}, {'o', ordered}, {'s', sequential},
        {'n', opening}, {'a', atomic}, {'x', portable}, {'i', applications}};
    int i;
    for (i = 0; i < (int)(sizeof parts / sizeof *parts); i++)
        if (argc < 3 || strchr(argv[2], parts[i].letter)) parts[i].part();
    finish();
    return 0;
}
