/* Opens and closes a file on many communicators, each freed afterwards, and says how much memory each has left behind. */
#include "log.h"
#include <malloc.h>

enum { FIRST = 20, COMMUNICATORS = 150, MOST = 500 };

static double in_use(void) {
    struct mallinfo2 heap = mallinfo2();
    return (double)(heap.uordblks + heap.hblkhd);
}

int main(int argc, char **argv) {
    double before = 0;
    begin(&argc, &argv);
    for (int i = 0; i < FIRST + COMMUNICATORS; i++) {
        MPI_File file;
        MPI_Comm part;
        if (i == FIRST) before = in_use();
        MPI_Comm_split(MPI_COMM_WORLD, 0, rank, &part);
        if (MPI_File_open(part, argv[1], MPI_MODE_RDWR | MPI_MODE_CREATE, MPI_INFO_NULL, &file)) MPI_Abort(MPI_COMM_WORLD, 3);
        MPI_File_close(&file);
        MPI_Comm_free(&part);
    }
    const double each = (in_use() - before) / COMMUNICATORS;
    say("%.0f bytes per communicator", each);
    finish();
    return each > MOST;
}
