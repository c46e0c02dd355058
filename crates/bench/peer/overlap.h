/* A non-blocking collective write beside a computation of the same duration: ../src/cases/overlap.rs on MPI_File_*. For the preloaded
 * library, which takes its device from the environment. */

enum { OVERLAP_BYTES = 32 << 20, OVERLAP_REPETITIONS = 5, OVERLAP_STRIDE = 1 << 16 };

/* Computation without memory. */
static uint64_t busy(uint64_t rounds)
{
    uint64_t state = 1;
    for (uint64_t round = 0; round < rounds; round++) {
        state = state * 0x9e3779b97f4a7c15u ^ round;
        __asm__ volatile("" : "+r"(state));
    }
    return state;
}

/* How many rounds take so many seconds on this rank, as fast as it is now. */
static uint64_t calibrate(double seconds)
{
    double start = MPI_Wtime();
    uint64_t rounds = 0;
    for (; MPI_Wtime() - start < seconds; rounds += OVERLAP_STRIDE)
        busy(OVERLAP_STRIDE);
    return rounds;
}

static double slowest(double mine)
{
    double all;
    MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return all;
}

/* Prints one line per repetition: seconds of the write alone, of the computation alone, of the call, and of both together. */
static void overlap(int level)
{
    static const char *const levels[] = {"Single", "Funneled", "Serialized", "Multiple"};
    int named = level == MPI_THREAD_MULTIPLE ? 3 : level == MPI_THREAD_SERIALIZED ? 2 : level == MPI_THREAD_FUNNELED;
    MPI_Offset place = (MPI_Offset)OVERLAP_BYTES * rank;
    char path[4096];
    MPI_File file;
    setenv("AQUEDUCT_DEVICE", "throttle=200MB/s", 1);
    snprintf(path, sizeof path, "%s.cached", prefix);
    buffer = aligned_alloc(4096, OVERLAP_BYTES);
    fill(OVERLAP_BYTES);
    check(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDWR, MPI_INFO_NULL, &file), "MPI_File_open");
    for (int repetition = 0; repetition < OVERLAP_REPETITIONS && !anyone_in_trouble(); repetition++) {
        MPI_Request request;
        MPI_Barrier(MPI_COMM_WORLD);
        double start = MPI_Wtime();
        check(MPI_File_write_at_all(file, place, buffer, OVERLAP_BYTES, MPI_BYTE, MPI_STATUS_IGNORE), "write_at_all");
        double writing = slowest(MPI_Wtime() - start);
        uint64_t rounds = calibrate(writing);
        MPI_Barrier(MPI_COMM_WORLD);
        start = MPI_Wtime();
        busy(rounds);
        double computing = slowest(MPI_Wtime() - start);
        MPI_Barrier(MPI_COMM_WORLD);
        start = MPI_Wtime();
        check(MPI_File_iwrite_at_all(file, place, buffer, OVERLAP_BYTES, MPI_BYTE, &request), "iwrite_at_all");
        double call = MPI_Wtime() - start;
        busy(rounds);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        double both = slowest(MPI_Wtime() - start);
        call = slowest(call);
        if (rank == 0)
            printf("overlap %s %e %e %e %e\n", levels[named], writing, computing, call, both);
    }
    MPI_File_close(&file);
    free(buffer);
}
