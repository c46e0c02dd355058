/* PnetCDF as a peer: `write` writes the sample that tests/judges/sample.rs knows, `read` compares one; all types, all ranks. */
#include <mpi.h>
#include <pnetcdf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RECORDS 3
#define Y 4
#define X 7
#define OK(call) do { int code_ = (call); if (code_ != NC_NOERR) { fprintf(stderr, "line %d: %s\n", __LINE__, ncmpi_strerror(code_)); wrong++; } } while (0)

static int rank, size, wrong;

/* Values that tell places apart: of text letters, of numbers small ones. */
static int expected(int number, int at) {
    int value = (at * 3 + number * 5) % 97;
    return number == 1 ? 65 + value % 26 : value;
}

/* Values of type `number` + 1 go through int, text through char. */
static void put(int file, int variable, int number, const MPI_Offset *start, const MPI_Offset *count, const int *values, int n) {
    if (number == 1) {
        char text[RECORDS * Y * X];
        int i;
        for (i = 0; i < n; i++) text[i] = (char)values[i];
        OK(ncmpi_put_vara_text_all(file, variable, start, count, text));
    } else {
        OK(ncmpi_put_vara_int_all(file, variable, start, count, values));
    }
}

static void get(int file, int variable, int number, const MPI_Offset *start, const MPI_Offset *count, int *values, int n) {
    if (number == 1) {
        char text[RECORDS * Y * X];
        int i;
        OK(ncmpi_get_vara_text_all(file, variable, start, count, text));
        for (i = 0; i < n; i++) values[i] = text[i];
    } else {
        OK(ncmpi_get_vara_int_all(file, variable, start, count, values));
    }
}

/* Rows or records dealt out: this rank's share of `length`. */
static void share(int length, MPI_Offset *start, MPI_Offset *count) {
    int first = length * rank / size, next = length * (rank + 1) / size;
    *start = first;
    *count = next - first;
}

static void write_file(const char *path, int version, int kinds) {
    int file, time, y, x, number, i, ids[11][3], mode = NC_CLOBBER, values[RECORDS * Y * X], dims[2];
    double numbers[2] = {1.5, -2.5};
    const char *title = "gr\xc3\xb6\xc3\x9f" "e";
    mode |= version == 2 ? NC_64BIT_OFFSET : version == 5 ? NC_64BIT_DATA : 0;
    OK(ncmpi_create(MPI_COMM_WORLD, path, mode, MPI_INFO_NULL, &file));
    OK(ncmpi_put_att_text(file, NC_GLOBAL, "title", (MPI_Offset)strlen(title), title));
    OK(ncmpi_put_att_double(file, NC_GLOBAL, "numbers", NC_DOUBLE, 2, numbers));
    OK(ncmpi_def_dim(file, "time", NC_UNLIMITED, &time));
    OK(ncmpi_def_dim(file, "y", Y, &y));
    OK(ncmpi_def_dim(file, "x", X, &x));
    for (number = 0; number < kinds; number++) {
        char name[16];
        sprintf(name, "fixed%d", number);
        dims[0] = y;
        dims[1] = x;
        OK(ncmpi_def_var(file, name, number + 1, 2, dims, &ids[number][0]));
        OK(ncmpi_put_att_int(file, ids[number][0], "number", NC_INT, 1, &number));
        sprintf(name, "moving%d", number);
        dims[0] = time;
        OK(ncmpi_def_var(file, name, number + 1, 2, dims, &ids[number][1]));
        sprintf(name, "one%d", number);
        OK(ncmpi_def_var(file, name, number + 1, 0, NULL, &ids[number][2]));
    }
    OK(ncmpi_enddef(file));
    for (number = 0; number < kinds; number++) {
        MPI_Offset start[2] = {0, 0}, count[2] = {0, X};
        share(Y, &start[0], &count[0]);
        for (i = 0; i < count[0] * X; i++) values[i] = expected(number, (int)start[0] * X + i);
        put(file, ids[number][0], number, start, count, values, (int)count[0] * X);
        share(RECORDS, &start[0], &count[0]);
        for (i = 0; i < count[0] * X; i++) values[i] = expected(number, (int)start[0] * X + i);
        put(file, ids[number][1], number, start, count, values, (int)count[0] * X);
        values[0] = expected(number, 0);
        put(file, ids[number][2], number, NULL, NULL, values, 1);
    }
    OK(ncmpi_close(file));
}

static void read_file(const char *path, int kinds) {
    int file, number, i, id, values[RECORDS * Y * X], time, said;
    MPI_Offset records, length;
    char title[32];
    double numbers[2];
    OK(ncmpi_open(MPI_COMM_WORLD, path, NC_NOWRITE, MPI_INFO_NULL, &file));
    OK(ncmpi_inq_attlen(file, NC_GLOBAL, "title", &length));
    OK(ncmpi_get_att_text(file, NC_GLOBAL, "title", title));
    wrong += length != 7 || memcmp(title, "gr\xc3\xb6\xc3\x9f" "e", 7) != 0;
    OK(ncmpi_get_att_double(file, NC_GLOBAL, "numbers", numbers));
    wrong += numbers[0] != 1.5 || numbers[1] != -2.5;
    OK(ncmpi_inq_unlimdim(file, &time));
    OK(ncmpi_inq_dimlen(file, time, &records));
    wrong += records != RECORDS;
    for (number = 0; number < kinds; number++) {
        MPI_Offset start[2] = {0, 0}, count[2] = {Y, X};
        char name[16];
        nc_type type;
        sprintf(name, "fixed%d", number);
        OK(ncmpi_inq_varid(file, name, &id));
        OK(ncmpi_inq_vartype(file, id, &type));
        wrong += type != number + 1;
        OK(ncmpi_get_att_int(file, id, "number", &said));
        wrong += said != number;
        get(file, id, number, start, count, values, Y * X);
        for (i = 0; i < Y * X; i++) wrong += values[i] != expected(number, i);
        count[0] = RECORDS;
        sprintf(name, "moving%d", number);
        OK(ncmpi_inq_varid(file, name, &id));
        get(file, id, number, start, count, values, RECORDS * X);
        for (i = 0; i < RECORDS * X; i++) wrong += values[i] != expected(number, i);
        sprintf(name, "one%d", number);
        OK(ncmpi_inq_varid(file, name, &id));
        get(file, id, number, NULL, NULL, values, 1);
        wrong += values[0] != expected(number, 0);
    }
    OK(ncmpi_close(file));
}

int main(int argc, char **argv) {
    int version, kinds, all = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    version = argc > 3 ? atoi(argv[3]) : 0;
    kinds = version == 5 ? 11 : 6;
    if (argc > 3 && strcmp(argv[1], "write") == 0) write_file(argv[2], version, kinds);
    else if (argc > 3) read_file(argv[2], kinds);
    MPI_Allreduce(&wrong, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0) printf("%d wrong of version %d on %d ranks\n", all, version, size);
    MPI_Finalize();
    return all != 0;
}
