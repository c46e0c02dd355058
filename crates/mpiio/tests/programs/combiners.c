/* Every constructor of datatypes, in memory and in the file: writes through it together, reads back alone, prints digests. */
#include "log.h"

#define ROOM (1 << 16)
static unsigned char out[ROOM], in[ROOM];

static void use(const char *name, const char *path, MPI_Datatype type, int count) {
    MPI_File file;
    MPI_Status status;
    MPI_Offset length = 0;
    MPI_Aint lower = 0, extent = 0;
    int bytes = 0, elements = 0, code, i;
    MPI_Offset mine, start = 0;
    MPI_Count wide = -1;
    char own[4096];
    MPI_Type_commit(&type);
    MPI_Type_get_extent(type, &lower, &extent);
    MPI_Type_size(type, &bytes);
    mine = (MPI_Offset)bytes * count;
    MPI_Exscan(&mine, &start, 1, MPI_OFFSET, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0) start = 0;
    for (i = 0; i < ROOM; i++) out[i] = (unsigned char)(i * 7 + rank * 31 + i / 256);
    /* In memory: packed into a contiguous part of the file. */
    MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDWR | MPI_MODE_CREATE, MPI_INFO_NULL, &file);
    code = MPI_File_write_at_all(file, start, out + 1024 - lower, count, type, &status);
    MPI_Get_elements_x(&status, MPI_BYTE, &wide);
    if (bytes > 0) MPI_Get_count(&status, type, &elements);
    say("%s: memory write %s, %ld bytes, %d of them", name, class_name(code), (long)wide, elements);
    memset(in, 0, ROOM);
    code = MPI_File_read_at_all(file, start, in + 1024 - lower, count, type, &status);
    say("%s: memory read %s, digest %lx", name, class_name(code), digest(in, ROOM));
    MPI_File_close(&file);
    /* In a file of one's own: as a filetype, where it can be one. */
    snprintf(own, sizeof own, "%s.%d", path, rank);
    if (lower >= 0) {
        MPI_File_open(MPI_COMM_SELF, own, MPI_MODE_RDWR | MPI_MODE_CREATE, MPI_INFO_NULL, &file);
        /* What lies between is there before: not everybody leaves it empty. */
        memset(in, 0xee, ROOM);
        MPI_File_write_at(file, 0, in, ROOM / 2, MPI_BYTE, &status);
        code = MPI_File_set_view(file, 64, MPI_BYTE, type, "native", MPI_INFO_NULL);
        say("%s: view %s", name, class_name(code));
        if (code == MPI_SUCCESS) {
            code = MPI_File_write_all(file, out, bytes * count, MPI_BYTE, &status);
            MPI_Get_elements_x(&status, MPI_BYTE, &wide);
            say("%s: file write %s, %ld bytes", name, class_name(code), (long)wide);
            MPI_File_get_size(file, &length);
            memset(in, 0, ROOM);
            MPI_File_read_at(file, bytes / 2, in, bytes * count - bytes / 2, MPI_BYTE, &status);
            say("%s: size %ld, digest %lx", name, (long)length, digest(in, ROOM));
            MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL);
            memset(in, 0, ROOM);
            MPI_File_read_at(file, 0, in, ROOM, MPI_BYTE, &status);
            say("%s: bytes %lx", name, digest(in, ROOM));
        }
        MPI_File_close(&file);
        MPI_File_delete(own, MPI_INFO_NULL);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) MPI_File_delete(path, MPI_INFO_NULL);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void made(const char *name, const char *path, MPI_Datatype type, int count) {
    MPI_Datatype copy = type;
    use(name, path, type, count);
    MPI_Type_free(&copy);
}

int main(int argc, char **argv) {
    const char *path;
    MPI_Datatype type, inner;
    int lengths[3] = {2, 1, 3}, places[3] = {0, 4, 7}, sizes[3] = {4, 5, 6}, parts[3] = {2, 3, 2}, starts[3] = {1, 1, 3};
    int kinds[2] = {MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_CYCLIC}, arguments[2] = {MPI_DISTRIBUTE_DFLT_DARG, 2};
    int grid[2] = {0, 1}, whole[2] = {8, 10};
    MPI_Aint far[3] = {0, 20, 48};
    MPI_Datatype members[3] = {MPI_INT, MPI_DOUBLE, MPI_CHAR};
    begin(&argc, &argv);
    path = argv[1];
    grid[0] = size;
    use("int", path, MPI_INT, 5);
    use("2int", path, MPI_2INT, 3);
    use("c_double_complex", path, MPI_C_DOUBLE_COMPLEX, 3);
    if (argc < 3) { /* Not everybody can write pairs with holes. */
        use("short_int", path, MPI_SHORT_INT, 5);
        use("long_double_int", path, MPI_LONG_DOUBLE_INT, 3);
        use("double_int", path, MPI_DOUBLE_INT, 3);
        MPI_Type_dup(MPI_SHORT_INT, &type);
        made("dup of a pair", path, type, 4);
    }
    MPI_Type_dup(MPI_2INT, &type);
    made("dup", path, type, 4);
    MPI_Type_contiguous(3, MPI_DOUBLE, &type);
    made("contiguous", path, type, 4);
    MPI_Type_vector(3, 2, 4, MPI_INT, &type);
    made("vector", path, type, 3);
    MPI_Type_create_hvector(3, 2, 20, MPI_SHORT, &type);
    made("hvector", path, type, 3);
    MPI_Type_indexed(3, lengths, places, MPI_INT, &type);
    made("indexed", path, type, 3);
    MPI_Type_create_hindexed(3, lengths, far, MPI_INT, &type);
    made("hindexed", path, type, 2);
    MPI_Type_create_indexed_block(3, 2, places, MPI_SHORT, &type);
    made("indexed_block", path, type, 3);
    MPI_Type_create_hindexed_block(3, 2, far, MPI_INT, &type);
    made("hindexed_block", path, type, 3);
    MPI_Type_create_struct(3, lengths, (MPI_Aint[]){0, 8, 16}, members, &type);
    made("struct", path, type, 3);
    MPI_Type_create_subarray(3, sizes, parts, starts, MPI_ORDER_C, MPI_INT, &type);
    made("subarray c", path, type, 2);
    MPI_Type_create_subarray(3, sizes, parts, starts, MPI_ORDER_FORTRAN, MPI_SHORT, &type);
    made("subarray fortran", path, type, 2);
    MPI_Type_create_darray(size, rank, 2, whole, kinds, arguments, grid, MPI_ORDER_C, MPI_INT, &type);
    made("darray c", path, type, 2);
    kinds[0] = MPI_DISTRIBUTE_CYCLIC;
    kinds[1] = MPI_DISTRIBUTE_NONE;
    arguments[0] = 3;
    arguments[1] = MPI_DISTRIBUTE_DFLT_DARG;
    MPI_Type_create_darray(size, rank, 2, whole, kinds, arguments, grid, MPI_ORDER_FORTRAN, MPI_INT, &type);
    made("darray fortran", path, type, 2);
    MPI_Type_create_resized(MPI_INT, 0, 12, &type);
    made("resized", path, type, 5);
    MPI_Type_create_resized(MPI_INT, -4, 12, &type);
    made("resized below", path, type, 5);
    MPI_Type_vector(2, 1, 3, MPI_SHORT, &inner);
    MPI_Type_create_resized(inner, 0, 10, &type);
    MPI_Type_free(&inner);
    inner = type;
    MPI_Type_create_hvector(3, 2, 32, inner, &type);
    MPI_Type_free(&inner);
    made("nested", path, type, 2);
    lengths[1] = 0;
    MPI_Type_indexed(3, lengths, places, MPI_INT, &type);
    made("a block of zero", path, type, 3);
    MPI_Type_contiguous(0, MPI_INT, &type);
    made("nothing", path, type, 3);
    finish();
    return 0;
}
