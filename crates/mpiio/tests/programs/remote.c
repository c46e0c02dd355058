/* A file in remote memory: collective and independent accesses that are read back on another rank, or rounds until the first error. */
#include "log.h"

#include <sys/time.h>

enum { BYTES = 6000, ROUNDS = 40, ENDLESS = 200000 };

int main(int argc, char **argv) {
    static char data[BYTES], back[BYTES];
    int wrong = 0, code = MPI_SUCCESS, closed;
    MPI_File file;
    MPI_Status status;
    struct timeval now;
    begin(&argc, &argv);
    const int rounds = argc > 2 ? ENDLESS : ROUNDS;
    say("open %s", class_name(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file)));
    for (int round = 0; round < rounds && code == MPI_SUCCESS; round++) {
        const MPI_Offset place = (MPI_Offset)(round % ROUNDS) * size;
        const int other = (rank + 1) % size;
        memset(data, 1 + (round + rank) % 100, BYTES);
        code = MPI_File_write_at_all(file, (place + rank) * BYTES, data, BYTES, MPI_CHAR, &status);
        if (code != MPI_SUCCESS) break;
        code = MPI_File_read_at_all(file, (place + other) * BYTES, back, BYTES, MPI_CHAR, &status);
        if (code != MPI_SUCCESS) break;
        for (int at = 0; at < BYTES; at++) wrong += back[at] != 1 + (round + other) % 100;
    }
    say("access %s wrong %d", class_name(code), wrong);
    gettimeofday(&now, NULL);
    say("ended at %ld", (long)now.tv_sec);
    closed = MPI_File_close(&file);
    say("close %s", class_name(closed));
    finish();
    return 0;
}
