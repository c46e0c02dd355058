/* A log that all ranks write and the first one prints, in rank order, so that two runs can be compared line by line. */
#include <mpi.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *log_text;
static size_t log_len, log_room;
static int rank, size;

static void say(const char *format, ...) {
    va_list list;
    if (log_room - log_len < 4096) {
        log_room += 1 << 16;
        log_text = realloc(log_text, log_room);
    }
    log_len += sprintf(log_text + log_len, "%d ", rank);
    va_start(list, format);
    log_len += vsnprintf(log_text + log_len, 4000, format, list);
    va_end(list);
    log_text[log_len++] = '\n';
}

/* The class of a code, by name: numbers differ between implementations. */
static inline const char *class_name(int code) {
    static char other[32];
    int class = 0;
    if (code == MPI_SUCCESS) return "ok";
    MPI_Error_class(code, &class);
#define NAME(x) if (class == x) return #x
    NAME(MPI_ERR_ACCESS); NAME(MPI_ERR_AMODE); NAME(MPI_ERR_ARG); NAME(MPI_ERR_BAD_FILE); NAME(MPI_ERR_BUFFER);
    NAME(MPI_ERR_COMM); NAME(MPI_ERR_CONVERSION); NAME(MPI_ERR_COUNT); NAME(MPI_ERR_DUP_DATAREP); NAME(MPI_ERR_FILE);
    NAME(MPI_ERR_FILE_EXISTS); NAME(MPI_ERR_FILE_IN_USE); NAME(MPI_ERR_INTERN); NAME(MPI_ERR_IO); NAME(MPI_ERR_NO_SPACE);
    NAME(MPI_ERR_NO_SUCH_FILE); NAME(MPI_ERR_NOT_SAME); NAME(MPI_ERR_OTHER); NAME(MPI_ERR_QUOTA); NAME(MPI_ERR_READ_ONLY);
    NAME(MPI_ERR_REQUEST); NAME(MPI_ERR_TYPE); NAME(MPI_ERR_UNSUPPORTED_DATAREP); NAME(MPI_ERR_UNSUPPORTED_OPERATION);
    NAME(MPI_ERR_IN_STATUS); NAME(MPI_ERR_UNKNOWN);
#undef NAME
    sprintf(other, "class %d", class);
    return other;
}

static void begin(int *argc, char ***argv) {
    static const int levels[] = {MPI_THREAD_SINGLE, MPI_THREAD_FUNNELED, MPI_THREAD_SERIALIZED, MPI_THREAD_MULTIPLE};
    const char *level = getenv("THREAD_LEVEL");
    const int wanted = levels[level ? atoi(level) : 0];
    int given;
    MPI_Init_thread(argc, argv, wanted, &given);
    if (given < wanted) {
        fprintf(stderr, "thread level %d is wanted, %d is given\n", wanted, given);
        MPI_Abort(MPI_COMM_WORLD, 9);
    }
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
}

static void finish(void) {
    int mine = (int)log_len, *lens = calloc(size, sizeof(int)), r;
    MPI_Gather(&mine, 1, MPI_INT, lens, 1, MPI_INT, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        fwrite(log_text, 1, log_len, stdout);
        for (r = 1; r < size; r++) {
            char *text = malloc(lens[r] + 1);
            MPI_Recv(text, lens[r], MPI_CHAR, r, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            fwrite(text, 1, lens[r], stdout);
            free(text);
        }
    } else {
        MPI_Send(log_text, mine, MPI_CHAR, 0, 7, MPI_COMM_WORLD);
    }
    free(lens);
    MPI_Finalize();
}

/* A sum that tells bytes apart. */
static inline unsigned long digest(const void *memory, size_t len) {
    const unsigned char *bytes = memory;
    unsigned long sum = 1469598103934665603UL;
    while (len--) sum = (sum ^ *bytes++) * 1099511628211UL;
    return sum;
}
