/* Shapes of data in memory and file × ways of access × hints: what was written is read back, and the file is told as a sum after each step.
   Takes all of what public test families do with non-contiguous data: distributed arrays, zero-length blocks, bounds, nested types, ranks
   without data, permuted and forced aggregation. */
#include "log.h"

#define ROOM (1 << 16)
#define INTS 24

typedef struct {
    const char *name;
    MPI_Offset displacement;
    MPI_Datatype etype, filetype, memory;
    int count;    /* of memory types */
    int etypes;   /* that one access moves */
} Shape;

static Shape shapes[20];
static int shape_count;
static const char *path;

static MPI_Datatype committed(MPI_Datatype type) {
    MPI_Type_commit(&type);
    return type;
}

static MPI_Datatype resized(MPI_Datatype type, MPI_Aint lower, MPI_Aint extent) {
    MPI_Datatype made;
    MPI_Type_create_resized(type, lower, extent, &made);
    MPI_Type_free(&type);
    return made;
}

static void shape(const char *name, MPI_Offset displacement, MPI_Datatype etype, MPI_Datatype filetype, MPI_Datatype memory, int count) {
    int size_of_one, size_of_etype;
    Shape *made = &shapes[shape_count++];
    MPI_Type_size(memory, &size_of_one);
    MPI_Type_size(etype, &size_of_etype);
    *made = (Shape){name, displacement, etype, filetype, memory, count, count * size_of_one / size_of_etype};
}

static MPI_Datatype every_other(void) {
    MPI_Datatype type;
    MPI_Type_vector(INTS / 2, 1, 2, MPI_INT, &type);
    return committed(resized(type, 0, INTS * sizeof(int)));
}

static MPI_Datatype round_robin(void) {
    MPI_Datatype type;
    MPI_Type_vector(4, 3, 3 * size, MPI_INT, &type);
    return committed(resized(type, 0, 12 * size * sizeof(int)));
}

static void distributed(void) {
    int dims3[3] = {0, 0, 0}, dims2[2] = {0, 0}, global3[3] = {6, 5, 8}, global2[2] = {9, 10};
    int block[3] = {MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_BLOCK};
    int none[3] = {MPI_DISTRIBUTE_DFLT_DARG, MPI_DISTRIBUTE_DFLT_DARG, MPI_DISTRIBUTE_DFLT_DARG};
    int cyclic[2] = {MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_CYCLIC}, twos[2] = {2, 3}, bytes;
    int starts[2] = {3 * rank, 1}, sizes[2] = {3 * size, 10}, part[2] = {3, 6};
    MPI_Datatype type;
    MPI_Dims_create(size, 3, dims3);
    MPI_Type_create_darray(size, rank, 3, global3, block, none, dims3, MPI_ORDER_C, MPI_INT, &type);
    MPI_Type_size(type, &bytes);
    shape("blocks of a 3-D array", 0, MPI_INT, committed(type), MPI_INT, bytes / 4);
    MPI_Type_create_darray(size, rank, 3, global3, block, none, dims3, MPI_ORDER_FORTRAN, MPI_INT, &type);
    MPI_Type_size(type, &bytes);
    shape("the same in Fortran's order", 40, MPI_INT, committed(type), MPI_INT, bytes / 4);
    MPI_Dims_create(size, 2, dims2);
    MPI_Type_create_darray(size, rank, 2, global2, cyclic, twos, dims2, MPI_ORDER_C, MPI_DOUBLE, &type);
    MPI_Type_size(type, &bytes);
    shape("cyclic", 16, MPI_DOUBLE, committed(type), MPI_DOUBLE, bytes / 8);
    MPI_Type_create_subarray(2, sizes, part, starts, MPI_ORDER_C, MPI_SHORT, &type);
    shape("tile", 2, MPI_SHORT, committed(type), MPI_SHORT, 18);
}

static void irregular(void) {
    int lengths[4] = {2, 0, 3, 1}, ones[3] = {1, 0, 2}, places[2] = {0, 3};
    MPI_Aint at[4] = {0, 20, 24, 60}, in_struct[3] = {0, 8, 16};
    MPI_Datatype type, inner, types[3] = {MPI_INT, MPI_CHAR, MPI_DOUBLE}, nested;
    int i;
    for (i = 0; i < 4; i++) at[i] += 80 * rank;
    MPI_Type_create_hindexed(4, lengths, at, MPI_INT, &type);
    shape("blocks, one of them empty", 4, MPI_INT, committed(resized(type, 0, 80 * size)), MPI_INT, 12);
    MPI_Type_create_struct(3, ones, in_struct, types, &type);
    inner = committed(resized(type, 0, 32));
    MPI_Type_vector(3, 1, size, inner, &type);
    shape("structures with nothing of a member", 32 * rank, MPI_BYTE, committed(type), inner, 3);
    MPI_Type_create_indexed_block(2, 2, places, MPI_INT, &type);
    inner = resized(type, 0, 5 * sizeof(int));
    MPI_Type_vector(2, 1, size, inner, &type);
    nested = resized(type, 0, 20 * 2 * size);
    MPI_Type_contiguous(2, nested, &type);
    shape("nested", 20 * rank, MPI_INT, committed(type), MPI_INT, 16);
    MPI_Type_vector(2, 2, 1 << 11, MPI_INT, &type);
    shape("far apart", 8 * rank, MPI_INT, committed(type), MPI_INT, 4);
    MPI_Type_contiguous(2, MPI_INT, &type);
    inner = committed(resized(type, -8, 24));
    shape("memory with a negative bound", 48 * rank, MPI_INT, MPI_INT, inner, 6);
    MPI_Type_contiguous(4, MPI_INT, &type);
    shape("elements of several numbers", 0, committed(type), committed(type), MPI_INT, 8 * (rank + 1));
    shapes[shape_count - 1].displacement = 32 * rank * (rank + 1) / 2;
}

static void make_shapes(void) {
    shape("in one piece", rank * INTS * 4, MPI_INT, MPI_INT, MPI_INT, INTS);
    shape("round robin", 12 * rank, MPI_INT, round_robin(), MPI_INT, INTS);
    shape("memory with gaps", rank * INTS * 2, MPI_INT, MPI_INT, every_other(), 1);
    shape("both with gaps", 12 * rank, MPI_INT, round_robin(), every_other(), 2);
    shape("odd ranks have nothing", rank * INTS * 4, MPI_INT, MPI_INT, MPI_INT, rank % 2 ? 0 : INTS);
    shape("nobody has anything", 0, MPI_INT, MPI_INT, MPI_INT, 0);
    shape("each its own amount", 4 * 7 * rank, MPI_INT, MPI_INT, MPI_INT, 1 + rank % 7);
    distributed();
    irregular();
}

static const char *ways[] = {"at", "at all", "pointer", "all", "i at", "i at all", "i pointer", "i all", "split at", "split", "two of all"};
enum { WAYS = sizeof ways / sizeof *ways };

/* One access; its status. */
static int access_by(int way, int writing, MPI_File file, char *data, const Shape *s, MPI_Status *status) {
    MPI_Request request;
    int code = 0, n = s->count;
    MPI_Datatype t = s->memory;
#define WAIT(call) (code = (call), code ? code : MPI_Wait(&request, status))
    switch (way) {
    case 0: return writing ? MPI_File_write_at(file, 0, data, n, t, status) : MPI_File_read_at(file, 0, data, n, t, status);
    case 1: return writing ? MPI_File_write_at_all(file, 0, data, n, t, status) : MPI_File_read_at_all(file, 0, data, n, t, status);
    case 2: return writing ? MPI_File_write(file, data, n, t, status) : MPI_File_read(file, data, n, t, status);
    case 3: return writing ? MPI_File_write_all(file, data, n, t, status) : MPI_File_read_all(file, data, n, t, status);
    case 4: return WAIT(writing ? MPI_File_iwrite_at(file, 0, data, n, t, &request) : MPI_File_iread_at(file, 0, data, n, t, &request));
    case 5:
        return WAIT(writing ? MPI_File_iwrite_at_all(file, 0, data, n, t, &request) : MPI_File_iread_at_all(file, 0, data, n, t, &request));
    case 6: return WAIT(writing ? MPI_File_iwrite(file, data, n, t, &request) : MPI_File_iread(file, data, n, t, &request));
    case 7: return WAIT(writing ? MPI_File_iwrite_all(file, data, n, t, &request) : MPI_File_iread_all(file, data, n, t, &request));
    case 8:
        code = writing ? MPI_File_write_at_all_begin(file, 0, data, n, t) : MPI_File_read_at_all_begin(file, 0, data, n, t);
        return code ? code : writing ? MPI_File_write_at_all_end(file, data, status) : MPI_File_read_at_all_end(file, data, status);
    case 9:
        code = writing ? MPI_File_write_all_begin(file, data, n, t) : MPI_File_read_all_begin(file, data, n, t);
        return code ? code : writing ? MPI_File_write_all_end(file, data, status) : MPI_File_read_all_end(file, data, status);
    default: {
        MPI_Aint lower, extent;
        char *rest;
        MPI_Type_get_extent(t, &lower, &extent);
        rest = data + n / 2 * extent;
        code = writing ? MPI_File_write_all(file, data, n / 2, t, status) : MPI_File_read_all(file, data, n / 2, t, status);
        if (code) return code;
        return writing ? MPI_File_write_all(file, rest, n - n / 2, t, status) : MPI_File_read_all(file, rest, n - n / 2, t, status);
    }
    }
}

/* The whole file as one number, seen past MPI. */
static unsigned long file_sum(void) {
    unsigned long sum = 0, told;
    if (rank == 0) {
        FILE *stream = fopen(path, "rb");
        static char part[1 << 16];
        size_t got;
        while (stream && (got = fread(part, 1, sizeof part, stream)) > 0) sum = sum * 31 + digest(part, got);
        if (stream) fclose(stream);
    }
    told = sum;
    MPI_Bcast(&told, 1, MPI_UNSIGNED_LONG, 0, MPI_COMM_WORLD);
    return told;
}

/* What nobody writes is told apart from what somebody does: natively, holes hold whatever was in a buffer. */
static void ground(MPI_File file) {
    static char earth[1 << 14];
    memset(earth, 0x11, sizeof earth);
    MPI_File_set_size(file, 0);
    MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL);
    if (rank == 0) MPI_File_write_at(file, 0, earth, sizeof earth, MPI_BYTE, MPI_STATUS_IGNORE);
    MPI_File_sync(file);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void step(MPI_File file, const Shape *s, int way) {
    static char room_out[ROOM], room_in[ROOM];
    char *out = room_out + ROOM / 2, *in = room_in + ROOM / 2;
    MPI_Status status;
    MPI_Offset place = -1, length = -1;
    int code, count = -2, elements = -2, i;
    for (i = 0; i < ROOM; i++) room_out[i] = (char)(i * 7 + 31 * rank + way);
    memset(room_in, 0x5a, ROOM);
    memset(&status, 0, sizeof status);
    ground(file);
    MPI_File_set_view(file, s->displacement, s->etype, s->filetype, "native", MPI_INFO_NULL);
    code = access_by(way, 1, file, out, s, &status);
    MPI_Get_count(&status, s->memory, &count);
    MPI_File_get_position(file, &place);
    say("%s, %s: wrote %s, %d, now at %ld", s->name, ways[way], class_name(code), count, (long)place);
    MPI_File_sync(file);
    MPI_Barrier(MPI_COMM_WORLD);
    say("sum %lx", file_sum());
    MPI_File_get_size(file, &length);
    MPI_File_seek(file, 0, MPI_SEEK_SET);
    code = access_by(way, 0, file, in, s, &status);
    MPI_Get_elements(&status, MPI_BYTE, &elements);
    MPI_File_get_position(file, &place);
    say("of %ld read %s, %d, now at %ld: %lx", (long)length, class_name(code), elements, (long)place, digest(room_in, ROOM));
    MPI_Barrier(MPI_COMM_WORLD);
}

static const char *hints[][4] = {
    {NULL},
    {"romio_cb_write", "enable", "romio_cb_read", "enable"},
    {"cb_nodes", "1", "cb_buffer_size", "256"},
    {"cb_config_list", "*:*", "romio_ds_write", "disable"},
};

int main(int argc, char **argv) {
    int which, s, way;
    begin(&argc, &argv);
    path = argv[1];
    make_shapes();
    for (which = 0; which < (int)(sizeof hints / sizeof *hints); which++) {
        MPI_File file;
        MPI_Info info = MPI_INFO_NULL;
        if (hints[which][0]) {
            MPI_Info_create(&info);
            MPI_Info_set(info, (char *)hints[which][0], (char *)hints[which][1]);
            MPI_Info_set(info, (char *)hints[which][2], (char *)hints[which][3]);
        }
        MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_RDWR | MPI_MODE_CREATE, info, &file);
        if (info != MPI_INFO_NULL) MPI_Info_free(&info);
        for (s = 0; s < shape_count; s++)
            for (way = 0; way < WAYS; way++)
                if (which == 0 || way == 3 || way == 7) step(file, &shapes[s], way);
        MPI_File_close(&file);
    }
    finish();
    return 0;
}
