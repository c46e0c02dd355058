/* The lifetime of a file: it is created (or opened), a view is set, every rank writes once, it is closed; then it is opened
 * again, and every rank reads what the next rank has written. The seconds of each part are those of the slowest rank.
 * ../src/cases/lifetime.rs is the counterpart. */

enum { REPETITIONS = 3, PARTS = 5 };

/* Each rank has a file of its own, as IOR does with -F. */
static int owns_files(const struct bench_case *entry)
{
    return strncmp(entry->pattern, "own-", strlen("own-")) == 0;
}

/* The file of a rank. */
static void name_file(const struct bench_case *entry, char *path, size_t room, int of)
{
    int length = snprintf(path, room, "%s.lifetime", prefix);
    if (owns_files(entry))
        snprintf(path + length, room - (size_t)length, ".%d", of);
}

/* The state of the file before it is opened: new, existing or holes. */
static void prepare_file(const struct bench_case *entry, const char *path)
{
    int64_t total = owns_files(entry) ? entry->bytes : entry->bytes * ranks;
    if (rank != 0 && !owns_files(entry))
        return;
    if (strcmp(entry->state, "existing") != 0)
        unlink(path);
    if (strcmp(entry->state, "new") == 0)
        return;
    int file = open(path, O_RDWR | O_CREAT, 0644);
    if (file < 0 || ftruncate(file, total) != 0)
        snprintf(trouble, sizeof trouble, "the file cannot be created with its length");
    close(file);
    if (strcmp(entry->state, "existing") == 0)
        pass(path, 0, total, 1, 0);
}

/* Opens the file, sets the view, does one access and closes the file: the seconds of all, and of each part. */
static void use_file(const struct bench_case *entry, const char *path, int mode, double *parts)
{
    MPI_File file = MPI_FILE_NULL;
    double at[PARTS];
    meet();
    at[0] = MPI_Wtime();
    check(MPI_File_open(owns_files(entry) ? MPI_COMM_SELF : MPI_COMM_WORLD, path, mode, MPI_INFO_NULL, &file), "MPI_File_open");
    at[1] = MPI_Wtime();
    if (file == MPI_FILE_NULL)
        return;
    set_view(entry, file, MPI_INFO_NULL);
    at[2] = MPI_Wtime();
    operate(entry, file);
    at[3] = MPI_Wtime();
    check(MPI_File_close(&file), "MPI_File_close");
    meet();
    at[4] = MPI_Wtime();
    parts[0] = at[4] - at[0];
    for (int part = 1; part < PARTS; part++)
        parts[part] = at[part] - at[part - 1];
}

static void lifetime_case(const struct bench_case *entry, char *result, size_t room)
{
    char path[4096];
    struct bench_case access = *entry;
    int unordered = is(entry, "shared"), self = rank;
    size_t used = (size_t)snprintf(result, room, "lifetime ");
    for (int repetition = 0; repetition < REPETITIONS && !anyone_in_trouble(); repetition++) {
        double parts[2 * PARTS] = {0}, slowest[2 * PARTS];
        uint64_t sums[2], all[2];
        name_file(entry, path, sizeof path, self);
        prepare_file(entry, path);
        fill(entry->bytes);
        sums[0] = sum_of(buffer, entry->bytes, 0, unordered);
        access.read = 0;
        use_file(&access, path, MPI_MODE_CREATE | MPI_MODE_RDWR, parts);
        memset(buffer, 0, (size_t)entry->bytes);
        rank = (self + 1) % ranks;
        name_file(entry, path, sizeof path, rank);
        access.read = 1;
        use_file(&access, path, MPI_MODE_RDONLY, parts + PARTS);
        rank = self;
        sums[1] = sum_of(buffer, entry->bytes, 0, unordered);
        MPI_Allreduce(sums, all, 2, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
        if (all[0] != all[1])
            snprintf(trouble, sizeof trouble, "the ranks did not read what was written");
        MPI_Allreduce(parts, slowest, 2 * PARTS, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
        last_seconds = slowest[0];
        for (int at = 0; at < 2 * PARTS && used < room; at++)
            used += (size_t)snprintf(result + used, room - used, "%s%e", at ? "," : repetition ? ";" : "", slowest[at]);
    }
    meet();
    name_file(entry, path, sizeof path, self);
    if (rank == 0 || owns_files(entry))
        unlink(path);
}
