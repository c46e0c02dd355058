/* The patterns of `cargo xtask bench peers` through MPI_File_*: the same program as crates/bench/src, with the same arguments and the same
 * lines of output. ../README.md says what both do; pattern.rs, contents.rs and clock.rs are the counterparts of the parts below. */
#define _GNU_SOURCE
#include <mpi.h>

#include <fcntl.h>
#include <math.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SHARED_PIECE = 4096, CHUNK = 1 << 20 };

/* ---- a case: pattern:coordination:direction:bytes:cache ---- */

struct bench_case {
    const char *text;
    char pattern[32];
    /* cached, direct; or the state of the file before its lifetime: new, existing, holes. */
    char state[16];
    int collective, read, direct;
    int64_t bytes;
};

static int rank, ranks;
static char *buffer;
static const char *prefix;
static int64_t file_length;
/* The hints of files that are timed and verified. */
static MPI_Info hints;
/* What went wrong on this rank in the present case; empty: nothing. */
static char trouble[256];

static int is(const struct bench_case *entry, const char *pattern)
{
    return strcmp(entry->pattern, pattern) == 0;
}

static int parse(const char *text, struct bench_case *entry)
{
    char coordination[16], direction[8];
    long long bytes;
    entry->text = text;
    if (sscanf(text, "%31[^:]:%15[^:]:%7[^:]:%lld:%15s", entry->pattern, coordination, direction, &bytes, entry->state) != 5)
        return 0;
    entry->collective = strcmp(coordination, "collective") == 0;
    entry->read = strcmp(direction, "read") == 0;
    entry->direct = strcmp(entry->state, "direct") == 0;
    entry->bytes = bytes;
    return bytes >= 4096 && (bytes & (bytes - 1)) == 0;
}

static void path_of(const struct bench_case *entry, char *path, size_t room)
{
    snprintf(path, room, "%s.%s", prefix, entry->direct ? "direct" : "cached");
}

/* Remembers the first error of a case. */
static void check(int code, const char *call)
{
    char text[MPI_MAX_ERROR_STRING];
    int length = 0;
    if (code == MPI_SUCCESS || trouble[0])
        return;
    MPI_Error_string(code, text, &length);
    for (char *at = text; *at; at++)
        if (*at == '\n')
            *at = ' ';
    snprintf(trouble, sizeof trouble, "%s: %.200s", call, text);
}

static int anyone_in_trouble(void)
{
    int mine = trouble[0] != 0, any = 0;
    MPI_Allreduce(&mine, &any, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    return any;
}

/* ---- patterns ---- */

static void grid(int *rows, int *columns)
{
    *rows = 1;
    for (int n = 1; n * n <= ranks; n++)
        if (ranks % n == 0)
            *rows = n;
    *columns = ranks / *rows;
}

static MPI_Datatype bytes_type(int count)
{
    MPI_Datatype type;
    MPI_Type_contiguous(count, MPI_BYTE, &type);
    return type;
}

static MPI_Datatype round_robin(int piece)
{
    MPI_Datatype round, element = bytes_type(piece);
    MPI_Type_create_resized(element, 0, (MPI_Aint)piece * ranks, &round);
    MPI_Type_free(&element);
    return round;
}

static MPI_Datatype box(int dimensions, const int *parts, const int *counts, const int *mine)
{
    MPI_Datatype type;
    int size[3], subsize[3], start[3];
    for (int at = 0; at < dimensions; at++) {
        size[at] = parts[at] * counts[at];
        subsize[at] = parts[at];
        start[at] = parts[at] * mine[at];
    }
    MPI_Type_create_subarray(dimensions, size, subsize, start, MPI_ORDER_C, MPI_BYTE, &type);
    return type;
}

static MPI_Datatype tiles(int64_t bytes, int width)
{
    int rows, columns;
    grid(&rows, &columns);
    int parts[2] = {(int)(bytes / width), width}, counts[2] = {rows, columns}, mine[2] = {rank / columns, rank % columns};
    return box(2, parts, counts, mine);
}

static MPI_Datatype blocks(int64_t bytes)
{
    int cells = 0, rows, columns;
    grid(&rows, &columns);
    while ((int64_t)8 << cells < bytes)
        cells++;
    int x = (cells + 2) / 3, y = (cells - x + 1) / 2;
    int parts[3] = {1 << (cells - x - y), 1 << y, 8 << x}, counts[3] = {1, rows, columns};
    int mine[3] = {0, rank / columns, rank % columns};
    return box(3, parts, counts, mine);
}

static MPI_Datatype nested(void)
{
    MPI_Datatype scalars, record, resized;
    int counts[2] = {32, 32}, outer_counts[2] = {32, 1};
    MPI_Aint places[2] = {(MPI_Aint)32 * 4 * rank, (MPI_Aint)32 * 4 * ranks + 32 * 4 * rank};
    MPI_Aint outer[2] = {(MPI_Aint)32 * 24 * rank, (MPI_Aint)32 * 24 * ranks};
    MPI_Datatype arrays[2] = {bytes_type(4), bytes_type(4)};
    MPI_Type_create_struct(2, counts, places, arrays, &scalars);
    MPI_Datatype members[2] = {bytes_type(24), scalars};
    MPI_Type_create_struct(2, outer_counts, outer, members, &record);
    MPI_Type_create_resized(record, 0, (MPI_Aint)32 * 32 * ranks, &resized);
    MPI_Type_free(&arrays[0]);
    MPI_Type_free(&arrays[1]);
    MPI_Type_free(&members[0]);
    MPI_Type_free(&scalars);
    MPI_Type_free(&record);
    return resized;
}

/* The file type of a pattern with a view, the etype and the displacement; MPI_DATATYPE_NULL: no view is set. */
static MPI_Datatype view_of(const struct bench_case *entry, MPI_Datatype *etype, MPI_Offset *displacement)
{
    int piece = 0;
    *etype = MPI_BYTE;
    *displacement = 0;
    /* Numbers of four bytes; there are no objects here. */
    if (is(entry, "objects"))
        piece = 4;
    if (piece > 0 || sscanf(entry->pattern, "round-robin-%d", &piece) == 1) {
        *etype = bytes_type(piece);
        MPI_Type_commit(etype);
        *displacement = (MPI_Offset)piece * rank;
        return round_robin(piece);
    }
    if (is(entry, "tiles"))
        return tiles(entry->bytes, 1024);
    if (is(entry, "page-tiles"))
        return tiles(entry->bytes, 4096);
    if (is(entry, "blocks"))
        return blocks(entry->bytes);
    if (is(entry, "nested"))
        return nested();
    return MPI_DATATYPE_NULL;
}

/* Sets the view of a pattern that has one, and atomic mode where the pattern asks for it. */
static void set_view(const struct bench_case *entry, MPI_File file, MPI_Info info)
{
    MPI_Datatype etype, type;
    MPI_Offset displacement;
    type = view_of(entry, &etype, &displacement);
    if (type != MPI_DATATYPE_NULL) {
        MPI_Type_commit(&type);
        check(MPI_File_set_view(file, displacement, etype, type, "native", info), "MPI_File_set_view");
        MPI_Type_free(&type);
        if (etype != MPI_BYTE)
            MPI_Type_free(&etype);
    }
    if (is(entry, "atomic"))
        check(MPI_File_set_atomicity(file, 1), "MPI_File_set_atomicity");
}

static MPI_File open_case(const struct bench_case *entry, MPI_Info info)
{
    MPI_File file = MPI_FILE_NULL;
    char path[4096];
    path_of(entry, path, sizeof path);
    /* A hint of ours, for when it is our library that is preloaded; the others do not know it. */
    MPI_Info_set(info, "aqueduct_direct", entry->direct ? "true" : "false");
    check(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDWR, info, &file), "MPI_File_open");
    if (anyone_in_trouble())
        return MPI_FILE_NULL;
    set_view(entry, file, info);
    return file;
}

/* ---- operations ---- */

/* A short count is an error too. */
static void checked(int code, MPI_Status *status, int64_t wanted, const char *call)
{
    int count = 0;
    check(code, call);
    if (code != MPI_SUCCESS || trouble[0])
        return;
    MPI_Get_count(status, MPI_BYTE, &count);
    if (count != wanted)
        snprintf(trouble, sizeof trouble, "%s: %d bytes instead of %lld", call, count, (long long)wanted);
}

static void explicit_pieces(const struct bench_case *entry, MPI_File file)
{
    int own = strncmp(entry->pattern, "own-", strlen("own-")) == 0;
    MPI_Offset start = own ? 0 : (MPI_Offset)entry->bytes * rank;
    MPI_Status status;
    int piece = atoi(strrchr(entry->pattern, '-') + 1);
    if (piece > entry->bytes)
        piece = (int)entry->bytes;
    for (int64_t at = 0; at < entry->bytes && !trouble[0]; at += piece) {
        char *memory = buffer + at;
        int code;
        if (entry->read)
            code = entry->collective ? MPI_File_read_at_all(file, start + at, memory, piece, MPI_BYTE, &status)
                                     : MPI_File_read_at(file, start + at, memory, piece, MPI_BYTE, &status);
        else
            code = entry->collective ? MPI_File_write_at_all(file, start + at, memory, piece, MPI_BYTE, &status)
                                     : MPI_File_write_at(file, start + at, memory, piece, MPI_BYTE, &status);
        checked(code, &status, piece, "explicit offset");
    }
}

static void shared_pieces(const struct bench_case *entry, MPI_File file)
{
    int (*call)(MPI_File, void *, int, MPI_Datatype, MPI_Status *) =
        entry->read ? (entry->collective ? MPI_File_read_ordered : MPI_File_read_shared) : NULL;
    MPI_Status status;
    for (int64_t at = 0; at < entry->bytes; at += SHARED_PIECE) {
        int code = call ? call(file, buffer + at, SHARED_PIECE, MPI_BYTE, &status)
            : entry->collective ? MPI_File_write_ordered(file, buffer + at, SHARED_PIECE, MPI_BYTE, &status)
                               : MPI_File_write_shared(file, buffer + at, SHARED_PIECE, MPI_BYTE, &status);
        checked(code, &status, SHARED_PIECE, "shared pointer");
    }
}

static void operate(const struct bench_case *entry, MPI_File file)
{
    MPI_Status status;
    int whole = is(entry, "contiguous") || is(entry, "atomic"), count = (int)entry->bytes, code;
    MPI_Offset start = whole ? (MPI_Offset)entry->bytes * rank : 0;
    if (strncmp(entry->pattern, "explicit-", strlen("explicit-")) == 0 ||
        strncmp(entry->pattern, "own-", strlen("own-")) == 0) {
        explicit_pieces(entry, file);
        return;
    }
    if (is(entry, "shared") || is(entry, "ordered")) {
        shared_pieces(entry, file);
        return;
    }
    if (is(entry, "open")) {
        MPI_File other;
        char path[4096];
        path_of(entry, path, sizeof path);
        code = MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDWR, MPI_INFO_NULL, &other);
        check(code, "MPI_File_open");
        if (code == MPI_SUCCESS)
            check(MPI_File_close(&other), "MPI_File_close");
        return;
    }
    if (entry->collective)
        code = entry->read ? MPI_File_read_at_all(file, start, buffer, count, MPI_BYTE, &status)
                          : MPI_File_write_at_all(file, start, buffer, count, MPI_BYTE, &status);
    else
        code = entry->read ? MPI_File_read_at(file, start, buffer, count, MPI_BYTE, &status)
                          : MPI_File_write_at(file, start, buffer, count, MPI_BYTE, &status);
    checked(code, &status, entry->bytes, entry->read ? "read" : "write");
}

static int moves_shared_pointer(const struct bench_case *entry)
{
    return is(entry, "shared") || is(entry, "ordered");
}

static void rewind_shared(const struct bench_case *entry, MPI_File file)
{
    if (moves_shared_pointer(entry))
        check(MPI_File_seek_shared(file, 0, MPI_SEEK_SET), "MPI_File_seek_shared");
}

/* ---- contents ---- */

static uint64_t word_of(uint64_t at)
{
    return ((uint64_t)rank << 48 | at) * 0x9e3779b97f4a7c15u;
}

static void fill(int64_t bytes)
{
    uint64_t *words = (uint64_t *)buffer;
    for (int64_t at = 0; at < bytes / 8; at++)
        words[at] = word_of((uint64_t)at);
}

static uint64_t sum_of(const char *bytes, int64_t length, uint64_t first, int unordered)
{
    const uint64_t *words = (const uint64_t *)bytes;
    uint64_t sum = 0, period = unordered ? SHARED_PIECE / 8 : UINT64_MAX;
    for (int64_t at = 0; at < length / 8; at++)
        sum += (words[at] ^ words[at] >> 29) * (2 * ((first + (uint64_t)at) % period) + 1);
    return sum;
}

/* Passes over a part of the file without MPI: clears it, or sums it up. */
static uint64_t pass(const char *path, int64_t first, int64_t bytes, int clear, int unordered)
{
    char *chunk = calloc(1, CHUNK);
    uint64_t sum = 0;
    int file = open(path, clear ? O_WRONLY : O_RDONLY);
    /* The preloaded O_DIRECT is for the library alone. */
    if (file >= 0)
        fcntl(file, F_SETFL, fcntl(file, F_GETFL) & ~O_DIRECT);
    for (int64_t at = 0; at < bytes; at += CHUNK) {
        int64_t part = bytes - at < CHUNK ? bytes - at : CHUNK;
        ssize_t done = clear ? pwrite(file, chunk, (size_t)part, first + at) : pread(file, chunk, (size_t)part, first + at);
        if (done != part) {
            snprintf(trouble, sizeof trouble, "%s cannot be checked", path);
            break;
        }
        if (!clear)
            sum += sum_of(chunk, part, (uint64_t)(at / 8), unordered);
    }
    close(file);
    free(chunk);
    return sum;
}

/* ---- the clock ---- */

static const double REGION = 0.02, ROUND = 0.04, LONG = 0.4, CAP = 1.0;
enum { MOST_SAMPLES = 64, MOST_GROWTH = 50 };

/* A barrier that gives its core away: with more ranks than cores, what is measured is the operation and not how the library waits
 * outside of it. */
static void meet(void)
{
    MPI_Request request;
    int done = 0;
    MPI_Ibarrier(MPI_COMM_WORLD, &request);
    for (;;) {
        MPI_Test(&request, &done, MPI_STATUS_IGNORE);
        if (done)
            return;
        sched_yield();
    }
}

static double region(const struct bench_case *entry, MPI_File file, int64_t times)
{
    double seconds, slowest;
    meet();
    double start = MPI_Wtime();
    for (int64_t at = 0; at < times; at++)
        operate(entry, file);
    meet();
    seconds = MPI_Wtime() - start;
    MPI_Allreduce(&seconds, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return slowest;
}

static int take_samples(const struct bench_case *entry, MPI_File file, double *samples)
{
    int64_t most = moves_shared_pointer(entry) ? (file_length > entry->bytes * ranks ? file_length / (entry->bytes * ranks) : 1) : INT64_MAX / MOST_GROWTH;
    int64_t times = 1;
    int count = 0;
    double spent = 0;
    for (;;) {
        rewind_shared(entry, file);
        double seconds = region(entry, file, times);
        if (anyone_in_trouble())
            return 0;
        if (seconds >= LONG) {
            samples[0] = seconds / (double)times;
            return 1;
        }
        if (seconds >= REGION / 2 || times >= most)
            break;
        double wanted = REGION / seconds < MOST_GROWTH ? ceil(REGION / seconds) : MOST_GROWTH;
        times = times * (int64_t)wanted < most ? times * (int64_t)wanted : most;
    }
    while (count < MOST_SAMPLES && (count == 0 || spent < ROUND)) {
        rewind_shared(entry, file);
        double seconds = region(entry, file, times);
        spent += seconds;
        samples[count++] = seconds / (double)times;
    }
    return count;
}

/* ---- what can be asked for ---- */

static double last_seconds;

static void time_case(const struct bench_case *entry, char *result, size_t room)
{
    double samples[MOST_SAMPLES];
    MPI_File file = is(entry, "open") ? MPI_FILE_NULL : open_case(entry, hints);
    size_t used = (size_t)snprintf(result, room, "seconds ");
    int count = anyone_in_trouble() ? 0 : take_samples(entry, file, samples);
    last_seconds = count ? samples[0] : 0;
    for (int at = 0; at < count && used < room; at++) {
        used += (size_t)snprintf(result + used, room - used, "%s%e", at ? "," : "", samples[at]);
        if (samples[at] < last_seconds)
            last_seconds = samples[at];
    }
    if (file != MPI_FILE_NULL)
        MPI_File_close(&file);
}

static void verify_case(const struct bench_case *entry, char *result, size_t room)
{
    char path[4096];
    int unordered = is(entry, "shared");
    struct bench_case writing = *entry;
    uint64_t sum = 0;
    writing.read = 0;
    path_of(entry, path, sizeof path);
    if (!is(entry, "open")) {
        MPI_File file = open_case(entry, hints);
        if (!anyone_in_trouble()) {
            pass(path, entry->bytes * rank, entry->bytes, 1, 0);
            MPI_Barrier(MPI_COMM_WORLD);
            fill(entry->bytes);
            uint64_t before = sum_of(buffer, entry->bytes, 0, unordered), after = before, all[2], mine[2];
            double start = MPI_Wtime();
            operate(&writing, file);
            last_seconds = MPI_Wtime() - start;
            MPI_Barrier(MPI_COMM_WORLD);
            if (entry->read) {
                rewind_shared(entry, file);
                memset(buffer, 0, (size_t)entry->bytes);
                operate(entry, file);
                after = sum_of(buffer, entry->bytes, 0, unordered);
            }
            mine[0] = before;
            mine[1] = after;
            /* Who gets which piece through a shared pointer is left to chance. */
            MPI_Allreduce(mine, all, 2, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
            if (unordered ? all[0] != all[1] : before != after)
                snprintf(trouble, sizeof trouble, "rank %d did not read what was written", rank);
            if (rank == 0)
                sum = pass(path, 0, entry->bytes * ranks, 0, unordered);
        }
        if (file != MPI_FILE_NULL)
            MPI_File_close(&file);
    }
    snprintf(result, room, "sum %016llx", (unsigned long long)sum);
}

static long status_field(const char *name)
{
    char line[256];
    long value = -1;
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status))
        if (strncmp(line, name, strlen(name)) == 0)
            value = strtol(line + strlen(name), NULL, 10);
    if (status)
        fclose(status);
    return value;
}

static void memory_case(const struct bench_case *entry, char *result, size_t room)
{
    static const char *const keys[] = {"cb_buffer_size", "ind_rd_buffer_size", "ind_wr_buffer_size"};
    long more = 0, most = 0;
    MPI_Info info;
    MPI_Info_create(&info);
    for (size_t at = 0; at < sizeof keys / sizeof *keys; at++)
        MPI_Info_set(info, keys[at], "65536");
    MPI_File file = open_case(entry, info);
    if (!anyone_in_trouble()) {
        int clear = open("/proc/self/clear_refs", O_WRONLY);
        if (clear < 0 || write(clear, "5", 1) != 1)
            snprintf(trouble, sizeof trouble, "the peak of memory cannot be reset");
        close(clear);
        long before = status_field("VmRSS:"), files = status_field("RssFile:");
        operate(entry, file);
        /* Mapped pages of files are the page cache's, and stay. */
        more = status_field("VmHWM:") - before - (status_field("RssFile:") - files);
    }
    MPI_Reduce(&more, &most, 1, MPI_LONG, MPI_MAX, 0, MPI_COMM_WORLD);
    if (file != MPI_FILE_NULL)
        MPI_File_close(&file);
    MPI_Info_free(&info);
    snprintf(result, room, "memory %ld", most);
}

#include "overlap.h"
#include "lifetime.h"

/* Sizes of one pattern come in ascending order: whether this one would take too long, judged by the one before. */
static int is_capped(const struct bench_case *entry, const struct bench_case *before)
{
    int same = is(entry, before->pattern) && entry->collective == before->collective && entry->read == before->read &&
               entry->direct == before->direct;
    double expected = last_seconds * (double)entry->bytes / (double)(before->bytes ? before->bytes : 1), slowest;
    MPI_Allreduce(&expected, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return same && entry->bytes > before->bytes && slowest > CAP;
}

static void report(const struct bench_case *entry, const char *result)
{
    char message[256];
    int mine = trouble[0] ? rank : ranks, first;
    MPI_Allreduce(&mine, &first, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (first < ranks) {
        memcpy(message, trouble, sizeof message);
        MPI_Bcast(message, sizeof message, MPI_CHAR, first, MPI_COMM_WORLD);
        trouble[0] = 0;
    }
    if (rank == 0) {
        if (first < ranks)
            printf("case %s failed %s\n", entry->text, message);
        else
            printf("case %s %s\n", entry->text, result);
        fflush(stdout);
    }
}

int main(int count, char **words)
{
    struct bench_case entry, before;
    struct stat status;
    char path[4096], result[4096];
    int64_t largest = 4096;
    int overlaps = count == 3 && strcmp(words[1], "overlap") == 0, level;
    /* The cases are timed as most programs run: without threads. */
    MPI_Init_thread(&count, &words, overlaps ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (count < 3) {
        fprintf(stderr, "peer time|verify|memory|lifetime FILE CASE...\npeer overlap FILE\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    MPI_Info_create(&hints);
    prefix = words[2];
    snprintf(path, sizeof path, "%s.cached", prefix);
    if (strcmp(words[1], "lifetime") != 0 && stat(path, &status) != 0) {
        fprintf(stderr, "%s does not exist\n", path);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    file_length = status.st_size;
    if (overlaps) {
        overlap(level);
        MPI_Finalize();
        return 0;
    }
    for (int at = 3; at < count; at++) {
        if (!parse(words[at], &entry)) {
            fprintf(stderr, "%s is not a case\n", words[at]);
            MPI_Abort(MPI_COMM_WORLD, 2);
        }
        largest = entry.bytes > largest ? entry.bytes : largest;
    }
    buffer = aligned_alloc(4096, (size_t)largest);
    fill(largest);
    memset(&before, 0, sizeof before);
    for (int at = 3; at < count; at++) {
        parse(words[at], &entry);
        if (is_capped(&entry, &before)) {
            report(&entry, "capped");
            continue;
        }
        last_seconds = 0;
        trouble[0] = 0;
        if (strcmp(words[1], "time") == 0)
            time_case(&entry, result, sizeof result);
        else if (strcmp(words[1], "lifetime") == 0)
            lifetime_case(&entry, result, sizeof result);
        else if (strcmp(words[1], "verify") == 0)
            verify_case(&entry, result, sizeof result);
        else
            memory_case(&entry, result, sizeof result);
        report(&entry, result);
        before = entry;
    }
    MPI_Info_free(&hints);
    free(buffer);
    MPI_Finalize();
    return 0;
}
