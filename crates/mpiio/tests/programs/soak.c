/* Opens files on many communicators and starts many requests, for as many seconds as the second argument says, or until 100 000 opens over 1000 communicators and
   1 000 000 requests are done. What the process holds of memory, descriptors and threads is measured after a tenth and at the end, and must be the same. */
#include "log.h"
#include <dirent.h>
#include <time.h>
#include <unistd.h>

enum { OPENS = 100000, COMMUNICATORS = 1000, REQUESTS = 1000000, PER_OPEN = REQUESTS / OPENS, BYTES = 512 };

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

static long entries(const char *folder) {
    long count = 0;
    DIR *open = opendir(folder);
    while (open && readdir(open)) count++;
    if (open) closedir(open);
    return count;
}

static long resident_kib(void) {
    long pages = 0, resident = 0;
    FILE *statm = fopen("/proc/self/statm", "r");
    if (statm) {
        if (fscanf(statm, "%ld %ld", &pages, &resident) != 2) resident = 0;
        fclose(statm);
    }
    return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

static void one_file(MPI_Comm comm, const char *path, long number) {
    static char data[PER_OPEN][BYTES];
    MPI_Request requests[PER_OPEN];
    MPI_File file;
    int place;
    MPI_Comm_rank(comm, &place);
    if (MPI_File_open(comm, path, MPI_MODE_RDWR | MPI_MODE_CREATE, MPI_INFO_NULL, &file)) MPI_Abort(MPI_COMM_WORLD, 3);
    for (int i = 0; i < PER_OPEN; i++) {
        const MPI_Offset at = ((MPI_Offset)i * size + place) * BYTES;
        int code;
        memset(data[i], (int)(number + i), BYTES);
        if (i == 4) code = MPI_File_iwrite_at_all(file, at, data[i], BYTES, MPI_CHAR, &requests[i]);
        else if (i % 2) code = MPI_File_iread_at(file, at, data[i], BYTES, MPI_CHAR, &requests[i]);
        else code = MPI_File_iwrite_at(file, at, data[i], BYTES, MPI_CHAR, &requests[i]);
        if (code) MPI_Abort(MPI_COMM_WORLD, 4);
    }
    if (MPI_Waitall(PER_OPEN, requests, MPI_STATUSES_IGNORE)) MPI_Abort(MPI_COMM_WORLD, 5);
    if (MPI_File_close(&file)) MPI_Abort(MPI_COMM_WORLD, 6);
}

int main(int argc, char **argv) {
    const int per_communicator = OPENS / COMMUNICATORS;
    long opens = 0, early[3] = {0, 0, 0}, late[3], communicators = 0;
    begin(&argc, &argv);
    const double seconds = argc > 2 ? atof(argv[2]) : 600, start = now();
    int goes_on = 1, is_measured = 0, wrong = 0;
    while (goes_on && communicators < COMMUNICATORS) {
        MPI_Comm comm;
        MPI_Comm_split(MPI_COMM_WORLD, 0, communicators % 2 ? -rank : rank, &comm);
        /* In the short form, fewer files on each, so that communicators come and go. */
        const int files = seconds < 60 ? 3 : per_communicator;
        for (int i = 0; i < files; i++, opens++) one_file(comm, argv[1], opens);
        MPI_Comm_free(&comm);
        communicators++;
        const double elapsed = now() - start;
        int state = elapsed > seconds ? 2 : elapsed > seconds / 3 || communicators > COMMUNICATORS / 10 ? 1 : 0;
        MPI_Bcast(&state, 1, MPI_INT, 0, MPI_COMM_WORLD);
        if (state >= 1 && !is_measured) {
            early[0] = resident_kib(), early[1] = entries("/proc/self/fd"), early[2] = entries("/proc/self/task");
            is_measured = 1;
        }
        goes_on = state < 2;
    }
    late[0] = resident_kib(), late[1] = entries("/proc/self/fd"), late[2] = entries("/proc/self/task");
    /* A page here and there is the allocator's; 0.8 KiB per communicator would be more. */
    wrong = late[0] > early[0] + 512 || late[1] > early[1] || late[2] > early[2];
    const int is_complete = opens >= OPENS && communicators >= COMMUNICATORS && opens * PER_OPEN >= REQUESTS;
    say("%s: %ld opens over %ld communicators, %ld requests (%s); resident %ld -> %ld KiB, descriptors %ld -> %ld, threads %ld -> %ld",
        wrong ? "GROWS" : "flat", opens, communicators, opens * PER_OPEN, is_complete ? "all counts reached" : "ended by time, counts not reached",
        early[0], late[0], early[1], late[1], early[2], late[2]);
    finish();
    return wrong;
}
