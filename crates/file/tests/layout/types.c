/* Builds datatypes from words, arguments before constructors, and tells what MPI knows about them.
   A line in: a type. Lines out: "node <lb> <extent>" for each constructor, then "type <size> <true lb> <true extent>" and the offset of every
   packed byte, counted from the true lower bound; or "refused", if MPI would not build the type. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST 4096
static MPI_Datatype stack[MOST];
static int top;
/* What was made for the current type, to be freed after it: implementations run out of room otherwise. */
static MPI_Datatype made[MOST];
static int count_made;
/* Whether a constructor refused its arguments. */
static int refused;

static void check(int error) {
    if (error != MPI_SUCCESS) refused = 1;
}

static long number(void) {
    long value = 0;
    if (scanf("%ld", &value) != 1) exit(3);
    return value;
}

static int order(void) {
    char word[32];
    if (scanf("%31s", word) != 1) exit(3);
    return word[0] == 'C' ? MPI_ORDER_C : MPI_ORDER_FORTRAN;
}

static MPI_Datatype basic(void) {
    char word[32];
    if (scanf("%31s", word) != 1) exit(3);
    if (!strcmp(word, "byte")) return MPI_BYTE;
    if (!strcmp(word, "i16")) return MPI_INT16_T;
    if (!strcmp(word, "i32")) return MPI_INT32_T;
    if (!strcmp(word, "f64")) return MPI_DOUBLE;
    if (!strcmp(word, "long")) return MPI_LONG;
    if (!strcmp(word, "widechar")) return MPI_WCHAR;
    if (!strcmp(word, "complexf64")) return MPI_C_DOUBLE_COMPLEX;
    exit(4);
}

static MPI_Datatype subarray(MPI_Datatype old) {
    MPI_Datatype new = MPI_DATATYPE_NULL;
    int layout = order(), n = (int)number(), sizes[8], parts[8], starts[8];
    for (int i = 0; i < n; i++) {
        sizes[i] = (int)number();
        parts[i] = (int)number();
        starts[i] = (int)number();
    }
    check(MPI_Type_create_subarray(n, sizes, parts, starts, layout, old, &new));
    return new;
}

static MPI_Datatype darray(MPI_Datatype old) {
    MPI_Datatype new = MPI_DATATYPE_NULL;
    int layout = order(), rank = (int)number(), n = (int)number(), size = 1;
    int sizes[8], kinds[8], arguments[8], processes[8];
    for (int i = 0; i < n; i++) {
        char word[32];
        sizes[i] = (int)number();
        if (scanf("%31s", word) != 1) exit(3);
        kinds[i] = word[0] == 'n'   ? MPI_DISTRIBUTE_NONE
                   : word[0] == 'b' ? MPI_DISTRIBUTE_BLOCK
                                    : MPI_DISTRIBUTE_CYCLIC;
        arguments[i] = (int)number();
        if (arguments[i] == 0) arguments[i] = MPI_DISTRIBUTE_DFLT_DARG;
        processes[i] = (int)number();
        size *= processes[i];
    }
    check(MPI_Type_create_darray(size, rank, n, sizes, kinds, arguments, processes, layout, old, &new));
    return new;
}

static MPI_Datatype listed(const char *word, MPI_Datatype old) {
    MPI_Datatype new = MPI_DATATYPE_NULL;
    int each = strstr(word, "_block") ? (int)number() : -1, n = (int)number();
    int lengths[64], places[64];
    MPI_Aint bytes[64];
    for (int i = 0; i < n; i++) {
        lengths[i] = each < 0 ? (int)number() : each;
        bytes[i] = number();
        places[i] = (int)bytes[i];
    }
    if (!strcmp(word, "indexed")) check(MPI_Type_indexed(n, lengths, places, old, &new));
    else if (!strcmp(word, "hindexed")) check(MPI_Type_create_hindexed(n, lengths, bytes, old, &new));
    else if (!strcmp(word, "indexed_block")) check(MPI_Type_create_indexed_block(n, each, places, old, &new));
    else check(MPI_Type_create_hindexed_block(n, each, bytes, old, &new));
    return new;
}

static MPI_Datatype structure(void) {
    MPI_Datatype new = MPI_DATATYPE_NULL, members[64];
    int n = (int)number(), lengths[64];
    MPI_Aint bytes[64];
    for (int i = 0; i < n; i++) {
        lengths[i] = (int)number();
        bytes[i] = number();
        members[i] = stack[top - n + i];
    }
    top -= n;
    check(MPI_Type_create_struct(n, lengths, bytes, members, &new));
    return new;
}

static MPI_Datatype simple(const char *word, MPI_Datatype old) {
    MPI_Datatype new = MPI_DATATYPE_NULL;
    long a = strcmp(word, "dup") ? number() : 0;
    if (!strcmp(word, "dup")) {
        check(MPI_Type_dup(old, &new));
    } else if (!strcmp(word, "contiguous")) {
        check(MPI_Type_contiguous((int)a, old, &new));
    } else if (!strcmp(word, "resized")) {
        check(MPI_Type_create_resized(old, a, number(), &new));
    } else {
        long b = number(), c = number();
        if (!strcmp(word, "vector")) check(MPI_Type_vector((int)a, (int)b, (int)c, old, &new));
        else if (!strcmp(word, "hvector")) check(MPI_Type_create_hvector((int)a, (int)b, c, old, &new));
        else exit(4);
    }
    return new;
}

static void tell(MPI_Datatype type) {
    MPI_Aint low, extent;
    int size, place;
    MPI_Type_commit(&type);
    MPI_Type_size(type, &size);
    MPI_Type_get_true_extent(type, &low, &extent);
    printf("type %d %ld %ld", size, (long)low, (long)extent);
    unsigned char *memory = malloc(extent + 1), *packed = malloc(size + 1);
    long *offsets = calloc(size + 1, sizeof *offsets);
    for (int shift = 0; size > 0 && shift < 24; shift += 8) {
        for (long i = 0; i < extent; i++) memory[i] = (unsigned char)(i >> shift);
        place = 0;
        MPI_Pack(memory - low, 1, type, packed, size, &place, MPI_COMM_SELF);
        for (int i = 0; i < size; i++) offsets[i] |= (long)packed[i] << shift;
    }
    for (int i = 0; i < size; i++) printf(" %ld", offsets[i]);
    printf("\n");
    free(memory);
    free(packed);
    free(offsets);
}

int main(int count, char **words) {
    char word[32];
    MPI_Init(&count, &words);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    while (scanf("%31s", word) == 1) {
        if (!strcmp(word, "end")) {
            top--;
            if (refused) printf("refused\n");
            else tell(stack[top]);
            refused = 0;
            while (count_made > 0) MPI_Type_free(&made[--count_made]);
            continue;
        }
        MPI_Datatype new = MPI_DATATYPE_NULL;
        if (!strcmp(word, "basic")) new = basic();
        else if (!strcmp(word, "struct")) new = structure();
        else if (!strcmp(word, "subarray")) new = subarray(stack[--top]);
        else if (!strcmp(word, "darray")) new = darray(stack[--top]);
        else if (strstr(word, "indexed")) new = listed(word, stack[--top]);
        else new = simple(word, stack[--top]);
        MPI_Aint low = 0, extent = 0;
        if (refused) new = MPI_BYTE;
        else MPI_Type_get_extent(new, &low, &extent);
        printf("node %ld %ld\n", (long)low, (long)extent);
        stack[top++] = new;
        if (!refused && strcmp(word, "basic")) made[count_made++] = new;
    }
    MPI_Finalize();
    return 0;
}
